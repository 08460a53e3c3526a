"""From released moments to a table-like distribution: marginals, a cloud, weights, and points that move."""

import time
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from trigmech.basis import ChebyshevBasis
from trigmech.denoise import shrink_columns, shrink_interactions
from trigmech.features import Features
from trigmech.marginals import Marginals, copula_correlation
from trigmech.particles import descend, draw, reweight
from trigmech.release import MomentRelease

Array = NDArray[np.float64]
Start = Literal["product", "copula"]

CLOUD = 4_096
FIRST_POINTS = 2_048
# The weights of the cloud are fitted with noise enlarged by this: enough to find which parts of the cube are empty, but
# never a few points that carry all weight.
TEMPER = 10.0
JITTER = 0.02
ANCHOR_DEGREE = 12
ANCHOR_SCALE = 0.05


@dataclass(frozen=True)
class Reconstruction:
    """How a distribution was made from released moments.

    Parameters
    ----------
    points : ndarray (m, d)
        Equally weighted, all different.
    target, scales : ndarray (K,)
        The moments that were fitted: the released ones after :mod:`trigmech.denoise`.
    misfit : float
        Mean of ((mean of the points - target) / scale)^2.
    dependent : bool
        Whether any pair's released moments passed the noise test of the copula.
    seconds : float
    iterations : int
    status : str
    """

    points: Array
    target: Array
    scales: Array
    misfit: float
    dependent: bool
    seconds: float
    iterations: int
    status: str


def reconstruct(release: MomentRelease, count: int, rng: np.random.Generator, *, denoise: bool = True,
                copula: bool = True, weigh: bool = True, iterations: int = 80) -> Reconstruction:
    """Return equally weighted points that explain released moments.

    Parameters
    ----------
    release : MomentRelease
        Of features that begin with T_1, ..., T_p of all columns.
    count : int
        m.
    rng : numpy.random.Generator
    denoise, copula, weigh : bool
        Switch a step off, for comparisons.
    iterations : int
        Of the descent; 0 leaves the points where they were drawn.

    Notes
    -----
    Privacy: post-processing. Steps: (1) moments are shrunk by :mod:`trigmech.denoise`; (2) each column's maximum entropy
    distribution; (3) a cloud, half with independent columns and half with a Gaussian copula if a pair passes its noise test;
    (4) weights of minimum KL divergence at an enlarged noise; (5) m points are drawn and move until their means meet
    the targets. Cost: K m some hundred times.
    """
    started = time.perf_counter()
    features = release.features
    index = features.basis.index
    d, p = features.d, int((index.sum(axis=1) == index[:, 0])[: len(index)].sum())
    singles = p * d
    means, scales = release.means[:singles].reshape(p, d), release.scales[:singles].reshape(p, d)
    if denoise:
        means, scales = shrink_columns(means, scales)
    marginals = Marginals.fit(means, scales)
    target, deviations = release.means.copy(), release.scales.copy()
    target[:singles], deviations[:singles] = marginals.chebyshev_means(p).ravel(), scales.ravel()
    if denoise and len(index) > singles:
        crossed = slice(singles, len(index))
        target[crossed] = shrink_interactions(index[crossed], release.means[crossed], release.scales[crossed], marginals)
    correlation = _correlation(index, target, deviations, marginals) if copula else None
    if p > 1:
        features, target, deviations = _anchored(features, target, deviations, marginals, p)
    first = min(count, FIRST_POINTS)
    if weigh and features.K > singles:
        cloud = marginals.cloud(CLOUD, rng)
        if correlation is not None:
            cloud = np.vstack([cloud, marginals.cloud(CLOUD, rng, correlation)])
        points = draw(cloud, reweight(features.evaluate(cloud), target, TEMPER * deviations), first, JITTER, rng)
    else:
        points = marginals.cloud(first, rng, correlation)
    misfit, used, status = np.nan, 0, "not moved"
    stages = [(first, iterations)] if first == count else [(first, iterations), (count, max(1, iterations // 4))]
    for size, limit in stages:
        if size > len(points):
            points = draw(points, np.ones(len(points)), size, JITTER, rng)
        if iterations:
            moved = descend(features, points, target, deviations, limit)
            points, misfit, used, status = moved.points, moved.misfit, used + moved.iterations, moved.status
    return Reconstruction(points, target, deviations, misfit, correlation is not None, time.perf_counter() - started, used,
                          status)


def _anchored(features: Features, target: Array, scales: Array, marginals: Marginals,
              degree: int) -> tuple[Features, Array, Array]:
    """Return the functions to fit: the released ones, and the columns' next degrees at what the marginals suggest.

    Else nothing would keep the shape of a column while its points move to meet the other moments.
    """
    d, last = features.d, max(degree, ANCHOR_DEGREE)
    more = np.array([[0] * j + [a] + [0] * (d - 1 - j) for a in range(degree + 1, last + 1) for j in range(d)],
                    dtype=np.int64).reshape(-1, d)
    basis = ChebyshevBasis(np.vstack([features.basis.index, more]))
    K = features.basis.K
    means = marginals.chebyshev_means(last)[degree:].ravel()
    return (Features(basis, features.profiles), np.concatenate([target[:K], means, target[K:]]),
            np.concatenate([scales[:K], np.full(len(more), ANCHOR_SCALE), scales[K:]]))


def _correlation(index: NDArray[np.int64], target: Array, scales: Array, marginals: Marginals) -> Array | None:
    """Return the copula's correlation matrix from the targets of x_i x_j, if they were released."""
    products = np.flatnonzero((index.sum(axis=1) == 2) & (index.max(axis=1) == 1))
    if not len(products):
        return None
    means, noise = np.zeros((marginals.d, marginals.d)), np.full((marginals.d, marginals.d), np.inf)
    for r in products:
        i, j = np.flatnonzero(index[r])
        means[i, j] = means[j, i] = target[r]
        noise[i, j] = noise[j, i] = scales[r]
    return copula_correlation(marginals, means, noise)


