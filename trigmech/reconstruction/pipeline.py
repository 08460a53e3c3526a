"""From released moments to a distribution: marginals, proposal points, weights, and optimised points."""

import time
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from trigmech.distribution import Distribution
from trigmech.errors import SolverError
from trigmech.functions.chebyshev import ChebyshevBasis
from trigmech.functions.features import Features, FunctionSet
from trigmech.functions.index import FunctionIndex
from trigmech.measurement.released import Release
from trigmech.reconstruction.l1_cube import fit_cube
from trigmech.reconstruction.marginals import Marginals, copula_correlation
from trigmech.reconstruction.particles import descend, draw, reweight
from trigmech.reconstruction.result import Reconstruction
from trigmech.reconstruction.shrinkage import (
    independent_means,
    moments_of_columns,
    shrink_columns,
    shrink_interactions,
    within_reason,
)

Array = NDArray[np.float64]
Method = Literal["particles", "cloud", "atoms"]

CLOUD = 4_096
FIRST_POINTS = 2_048
# The weights of the proposal points are fitted with noise enlarged by this: enough to find which parts of the cube are
# empty, but never a few points that carry all weight.
TEMPER = 10.0
JITTER = 0.02
START_ITERATIONS = 40
CLOUD_ITERATIONS = 200
ATOM_SECONDS = 20.0
ANCHOR_DEGREE = 12
ANCHOR_SCALE = 0.05


def reconstruct(release: Release, count: int, rng: np.random.Generator, *, fit: Method = "particles",
                denoise: bool = True, copula: bool = True, weigh: bool = True, iterations: int = 80,
                costs: Array | None = None) -> Reconstruction:
    """Return a distribution that explains released moments.

    Parameters
    ----------
    release : Release
        Of any features in any order, with any finite numbers.
    count : int
        Points to return, for "particles".
    rng : numpy.random.Generator
    fit : {"particles", "cloud", "atoms"}
        "particles": points of equal weight, all different, that move until their means meet the target. "cloud":
        proposal points that stay where they are, with the weights nearest to uniform that explain the moments. "atoms":
        the weighted L1 program over the whole cube, at most K + 1 atoms; whole-row functions are left out of it, and it
        is slow beyond some hundred functions. Where it has no solution in time, "cloud" takes its place.
    denoise, copula, weigh : bool
        Switch a step off, for comparisons.
    iterations : int
        Limit of the descent of the particles.
    costs : ndarray (K,), optional
        What a deviation of 1 costs is 1 / this; default the scales of the noise.

    Returns
    -------
    Reconstruction

    Notes
    -----
    Privacy: post-processing. Steps: (1) moments are shrunk by :mod:`trigmech.reconstruction.shrinkage`; (2) each
    column's distribution of maximum entropy; (3) proposal points, half with independent columns and half with a
    Gaussian copula if a pair passes its noise test; (4) weights of minimum KL divergence, at an enlarged noise; (5)
    points are drawn and moved. Cost: m K some hundred times, whatever n.
    """
    # Products of BLAS are few and small here; its threads would only stand in the way of the package's own.
    with threadpool_limits(1, user_api="blas"):
        return _reconstruct(release, count, rng, fit, denoise, copula, weigh, iterations, costs)


def _reconstruct(release: Release, count: int, rng: np.random.Generator, fit: Method, denoise: bool, copula: bool,
                 weigh: bool, iterations: int, costs: Array | None) -> Reconstruction:
    started = time.perf_counter()
    features, index, (means, noise) = release.features, release.index, within_reason(release.means, release.deviations)
    marginals, target, deviations = _explained(index, means, noise, denoise)
    tolerance = deviations if costs is None else costs
    correlation = _correlation(index, target, noise, marginals) if copula else None
    proposals = marginals.cloud(CLOUD, rng)
    if correlation is not None:
        proposals = np.vstack([proposals, marginals.cloud(CLOUD, rng, correlation)])
    weights = np.full(len(proposals), 1.0 / len(proposals))
    if fit == "atoms":
        points, weights, status, used = _atoms(release, proposals, target, tolerance, rng)
    elif fit == "cloud":
        points, status, used = proposals, "reweighted", CLOUD_ITERATIONS
        if weigh:
            weights = reweight(features.evaluate(proposals), target, tolerance, CLOUD_ITERATIONS)
    else:
        fitted, goal, allowed = _anchored(release, target, tolerance, marginals) if denoise else (
            features, target, tolerance)
        # Weights have nothing to add where only columns were measured: the proposal points have their distributions
        # already.
        if weigh and (len(index.joint) or index.whole):
            weights = reweight(fitted.evaluate(proposals), goal, TEMPER * allowed, START_ITERATIONS)
        start = draw(proposals, weights, min(count, FIRST_POINTS), JITTER, rng)
        points, status, used = _particles(fitted, start, goal, allowed, count, iterations, rng)
        weights = np.full(count, 1.0 / count)
    reached = features.means(points) if fit == "particles" else weights @ features.evaluate(points)
    misfit = float((((reached - target) / tolerance) ** 2).mean() / ((deviations / tolerance) ** 2).mean())
    return Reconstruction(Distribution(points, weights), target, status, used, time.perf_counter() - started, misfit,
                          denoise, correlation is not None)


def _explained(index: FunctionIndex, means: Array, deviations: Array, denoise: bool) -> tuple[Marginals, Array, Array]:
    """Return the columns' distributions, and what the moments are taken to be, with the deviations of these."""
    places = index.alone(range(index.d))
    alone = moments_of_columns(places, means, deviations)
    if not denoise:
        return Marginals.fit(*alone), means, deviations
    shrunk, of_shrunk = shrink_columns(*alone)
    marginals = Marginals.fit(shrunk, of_shrunk)
    target, deviations = means.copy(), deviations.copy()
    # What the columns' distributions could not follow of their noisy moments is noise.
    measured = places >= 0
    target[places[measured]] = marginals.chebyshev_means(len(places))[measured]
    deviations[places[measured]] = of_shrunk[measured]
    joint = index.joint
    if len(joint):
        degrees = index.degrees[joint]
        expected = independent_means(degrees, marginals.chebyshev_means(int(degrees.max())))
        target[joint] = shrink_interactions(degrees, means[joint], deviations[joint], expected)
    return marginals, target, deviations


def _particles(features: FunctionSet, points: Array, target: Array, scales: Array, count: int, iterations: int,
               rng: np.random.Generator) -> tuple[Array, str, int]:
    """Move the points; if more are asked for, split them and move all of them a little further."""
    moved = descend(features, points, target, scales, iterations)
    used = moved.iterations
    if count > len(points):
        split = draw(moved.points, np.ones(len(points)), count, JITTER, rng)
        moved = descend(features, split, target, scales, max(1, iterations // 8))
        used += moved.iterations
    return moved.points, moved.status, used


def _atoms(release: Release, start: Array, target: Array, scales: Array,
           rng: np.random.Generator) -> tuple[Array, Array, str, int]:
    """Return the L1 program's atoms over the cube, stopped well below the noise level; weights if it has no solution.

    Moments lie in [-1, 1]: a target beyond costs all distributions the same more than the nearest of these.
    """
    products = release.basis.index
    K = len(products)
    basis = ChebyshevBasis(np.vstack([np.zeros((1, products.shape[1]), dtype=np.int64), products]))
    costs = np.append(1.0, 1.0 / scales[:K])
    # E|noise| is 0.8 standard deviations; stopping at a third of it takes little longer and comes nearer to the truth.
    top = float(costs.max())
    goal = np.append(1.0, np.clip(target[:K], -1.0, 1.0))
    try:
        fit = fit_cube(basis, goal, start, costs / top, noise_level=K * 0.8 / 3.0 / top, time_limit=ATOM_SECONDS,
                       rng=rng)
    except SolverError:
        # What was released is paid for, and weights can be had without a solver.
        return (start, reweight(release.features.evaluate(start), target, scales, CLOUD_ITERATIONS),
                "reweighted, for the linear program had no solution", CLOUD_ITERATIONS)
    return fit.points, fit.weights, fit.status, fit.iterations


def _anchored(release: Release, target: Array, scales: Array,
              marginals: Marginals) -> tuple[FunctionSet, Array, Array]:
    """Return the functions to fit: the released ones, and the columns' next degrees at what the marginals suggest.

    Else nothing would keep the shape of a column while its points move to meet the other moments. Where at most T_1 was
    released, the marginals are too uncertain to be kept to.
    """
    index = release.index
    degree = int(index.highest[index.single].max(initial=0))
    if degree <= 1:
        return release.features, target, scales
    d, last = index.d, max(degree, ANCHOR_DEGREE)
    more = np.array([[0] * j + [a] + [0] * (d - 1 - j) for a in range(degree + 1, last + 1) for j in range(d)],
                    dtype=np.int64).reshape(-1, d)
    basis = ChebyshevBasis(np.vstack([index.degrees, more]))
    K = len(index.degrees)
    means = marginals.chebyshev_means(last)[degree:].ravel()
    return (Features(basis, release.profiles), np.concatenate([target[:K], means, target[K:]]),
            np.concatenate([scales[:K], np.full(len(more), ANCHOR_SCALE), scales[K:]]))


def _correlation(index: FunctionIndex, target: Array, deviations: Array, marginals: Marginals) -> Array | None:
    """Return the copula's correlation matrix from the targets of x_i x_j, if they were released."""
    places, pairs = index.bilinear(range(index.d))
    if not len(places):
        return None
    return copula_correlation(marginals, *matrices_of_pairs(pairs, marginals.d, target[places], deviations[places]))


def matrices_of_pairs(pairs: NDArray[np.int64], d: int, means: Array, deviations: Array) -> tuple[Array, Array]:
    """Return the means of x_i x_j and their deviations as symmetric matrices (d, d); infinite where there is none."""
    means_of, deviations_of = np.zeros((d, d)), np.full((d, d), np.inf)
    for (i, j), mean, deviation in zip(pairs, means, deviations, strict=True):
        means_of[i, j] = means_of[j, i] = mean
        deviations_of[i, j] = deviations_of[j, i] = deviation
    return means_of, deviations_of
