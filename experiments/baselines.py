"""Trivial private baselines, which every method has to beat; of dependence they know nothing, or a covariance.

Each is a function of the rows in the cube, the budget and a generator. It returns a distribution with its ledger. The
noise is seeded numpy noise: these are simulations for comparison, not releases.

Sensitivities, for means over n rows of which one row x is replaced by y, both in [-1, 1]^d:

*Histograms* of all columns at once. In each column one row leaves a bin and enters another, or stays: at most two
of the shares move, each by 1/n. Over d columns that is 2 d / n in L1 and sqrt(2 d) / n in L2, both attained.

*Means of x_i and c x_i^2.* With u = |x_i - y_i| and v = |x_i + y_i|, u + v <= 2. In L2 a column moves by the root of
u^2 (1 + c^2 v^2), at most 2 if c^2 <= (4 - u^2) / (u v)^2, which at v = 2 - u is (2 + u) / (u^2 (2 - u)), whose
least value, at u = sqrt(5) - 1, is 2.77: so c = 1.6 is free, and all together move by 2 sqrt(d) / n. In L1 a column
moves by u (1 + c v) <= u (1 + c (2 - u)), which for c <= 1/2 increases up to u = 2: c = 1/2 is free, and it is 2 d / n.

*Second moments x_i x_j, i <= j.* In L2, with a_i = x_i^2 and b_i = y_i^2, the squares sum to
[(sum a)^2 + (sum b)^2 + sum (a_i - b_i)^2] / 2 - (x.y)^2. Drop the last term; the rest is convex in (a, b), so largest
where all are 0 or 1. With p and q ones, a and b differ in at most 2 d - p - q places, so it is at most
[p^2 - p + q^2 - q + 2 d] / 2 <= d^2: d / n. In L1 each |x_i x_j - y_i y_j| with i < j is convex in each single
coordinate, so their sum is largest at corners, where a term is 2 if x_i y_i and x_j y_j have opposite signs and
else 0: a cut of a complete graph, at most floor(d^2 / 4) pairs. The diagonal moves by at most 1 in each column:
(2 floor(d^2 / 4) + d) / n.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.interpolate import CubicSpline
from scipy.special import ndtri

import trigmech as tm
from experiments import Array
from trigmech.privacy.accounting import gaussian_mu
from trigmech.workload import GaussianKernels, PairKernels, SecondMoments, Workload

BINS = (4, 8, 16, 32)
# Weights of x^2 beside x that cost nothing: see above.
SQUARE_GAUSSIAN, SQUARE_LAPLACE = 1.6, 0.5
# A histogram's bin of half the cube's width and the narrowest query, s = 1/4: exact to 1e-9.
NODES_PER_BIN = 8
NORMAL_NODES = 1_000
SPLINE_POINTS = 401
GAUSSIAN_POINTS = 2_048
SMALLEST_VARIANCE = 1e-4


@dataclass(frozen=True, eq=False)
class Product:
    """A distribution with independent columns, each by its own nodes (d, m) in [-1, 1] and weights (d, m) of sum 1."""

    nodes: Array
    weights: Array

    def answers(self, workload: Workload) -> Array:
        """Return the answers (queries, widths) to W1, W2 or W3 under the product of the columns; else TypeError."""
        if isinstance(workload, GaussianKernels):
            return self._kernels(workload)
        if isinstance(workload, PairKernels):
            return self._pairs(workload)
        if isinstance(workload, SecondMoments):
            first, second = ((self.weights * self.nodes**p).sum(axis=1) for p in (1, 2))
            moments = np.outer(first, first)
            np.fill_diagonal(moments, second)
            return moments[np.triu_indices(len(first))][:, None]
        raise TypeError(f"no closed form for {type(workload).__name__}")

    def _kernels(self, workload: GaussianKernels) -> Array:
        centers, numbers, parts = workload.queries
        means = np.ones((len(workload.widths), centers.shape[1]))
        # Each column's mean kernel as a function of the centre's coordinate, by a spline: exact to 1e-10.
        at = np.linspace(-1.0, 1.0, SPLINE_POINTS)
        for nodes, weights, row in zip(self.nodes, self.weights, centers, strict=True):
            values = np.array([np.exp(-((at[:, None] - nodes) ** 2) / (2.0 * width**2)) @ weights
                               for width in workload.widths])
            means *= CubicSpline(at, values, axis=1)(row)
        return np.einsum("qj,wqj->qw", parts, means[:, numbers])

    def _pairs(self, workload: PairKernels) -> Array:
        columns, centers = workload.queries
        out = np.ones((len(columns), len(workload.widths)))
        for side in (0, 1):
            squares = (self.nodes[columns[:, side]] - centers[:, side, None]) ** 2
            for w, width in enumerate(workload.widths):
                out[:, w] *= np.einsum("qm,qm->q", self.weights[columns[:, side]], np.exp(squares / (-2.0 * width**2)))
        return out


class Baseline(NamedTuple):
    distribution: Product | tm.Distribution
    ledger: tm.Ledger


def answers(workload: Workload, distribution: Product | tm.Distribution) -> Array:
    if isinstance(distribution, Product):
        return distribution.answers(workload)
    return workload.answers(distribution.points, distribution.weights)


def uniform(X: Array, budget: tm.Budget, rng: np.random.Generator) -> Baseline:
    """Return the uniform distribution on the cube, which looks at nothing but the number of columns."""
    return Baseline(from_shares(np.full((X.shape[1], BINS[0]), 1.0 / BINS[0])), tm.Ledger(budget, simulated=True))


def histograms(X: Array, budget: tm.Budget, rng: np.random.Generator, bins: int = 8) -> Baseline:
    """Release a histogram of every column of X (n, d), all at once; columns are independent, uniform in a bin."""
    n, d = X.shape
    ledger = tm.Ledger(budget, simulated=True)
    shares = _noisy(shares_of(X, bins), 2.0 * d / n, math.sqrt(2.0 * d) / n, 1.0, "histograms", ledger, rng)
    shares = np.maximum(shares, 0.0)
    # Where noise has left nothing, the column is uniform.
    shares[shares.sum(axis=1) == 0.0] = 1.0
    return Baseline(from_shares(shares / shares.sum(axis=1, keepdims=True)), ledger)


def diagonal(X: Array, budget: tm.Budget, rng: np.random.Generator) -> Baseline:
    """Release means and variances of all columns at once, as means of (x, c x^2); columns are independent normals."""
    n, d = X.shape
    ledger = tm.Ledger(budget, simulated=True)
    weight = SQUARE_GAUSSIAN if budget.delta > 0 else SQUARE_LAPLACE
    exact = np.stack([X.mean(axis=0), weight * np.einsum("ni,ni->i", X, X) / n])
    first, second = _noisy(exact, 2.0 * d / n, 2.0 * math.sqrt(d) / n, 1.0, "means", ledger, rng)
    mean = np.clip(first, -1.0, 1.0)
    variance = np.maximum(np.minimum(second / weight, 1.0) - mean**2, SMALLEST_VARIANCE)
    normal = ndtri((np.arange(NORMAL_NODES) + 0.5) / NORMAL_NODES)
    nodes = np.clip(mean[:, None] + np.sqrt(variance)[:, None] * normal, -1.0, 1.0)
    return Baseline(Product(nodes, np.full(nodes.shape, 1.0 / NORMAL_NODES)), ledger)


def gaussian(X: Array, budget: tm.Budget, rng: np.random.Generator) -> Baseline:
    """Release the mean and all second moments about the cube's centre; the rows are normal, clipped to the cube."""
    n, d = X.shape
    ledger = tm.Ledger(budget, simulated=True)
    mean = _noisy(X.mean(axis=0), 2.0 * d / n, 2.0 * math.sqrt(d) / n, 0.5, "mean", ledger, rng)
    upper = np.triu_indices(d)
    moving = _noisy((X.T @ X / n)[upper], (2.0 * (d**2 // 4) + d) / n, d / n, 0.5, "second moments", ledger, rng)
    second = np.empty((d, d))
    second[upper] = moving
    second.T[upper] = moving
    mean = np.clip(mean, -1.0, 1.0)
    values, vectors = np.linalg.eigh(second - np.outer(mean, mean))
    points = np.clip(mean + (_normals(d, rng) * np.sqrt(np.maximum(values, 0.0))) @ vectors.T, -1.0, 1.0)
    return Baseline(tm.Distribution(points, np.full(len(points), 1.0 / len(points))), ledger)


BASELINES: dict[str, Callable[..., Baseline]] = {"uniform": uniform, "histograms": histograms, "diagonal": diagonal,
                                                 "Gaussian": gaussian}


def shares_of(X: Array, bins: int) -> Array:
    """Return the exact share (d, bins) of each column's rows in each bin; a bin's upper end belongs to the next."""
    n, d = X.shape
    places = np.clip(((X + 1.0) * (bins / 2.0)).astype(np.int64), 0, bins - 1) + bins * np.arange(d)
    return np.bincount(places.ravel(), minlength=d * bins).reshape(d, bins) / n


def from_shares(shares: Array) -> Product:
    """Return independent columns with these shares (d, bins) in bins of equal width, uniform in each bin."""
    d, bins = shares.shape
    nodes, weights = np.polynomial.legendre.leggauss(NODES_PER_BIN)
    centers = (2.0 * np.arange(bins) + 1.0) / bins - 1.0
    line = np.clip((centers[:, None] + nodes / bins).ravel(), -1.0, 1.0)
    return Product(np.tile(line, (d, 1)), (shares[:, :, None] * (weights / 2.0)).reshape(d, -1))


def _noisy(exact: Array, l1: float, l2: float, share: float, purpose: str, ledger: tm.Ledger,
           rng: np.random.Generator) -> Array:
    """Charge, then add Gaussian noise if there is a delta and Laplace noise if not.

    `share` is the part of mu squared, or of epsilon, that this step may spend.
    """
    budget, proof = ledger.budget, "experiments.baselines"
    if budget.delta > 0:
        scale = l2 / (gaussian_mu(budget) * math.sqrt(share))
        ledger.charge(tm.Charge(purpose, "gaussian", scale, l2, "L2", 1, proof))
        return exact + scale * rng.standard_normal(exact.shape)
    # Raised, so that rounding never makes the parts exceed the whole.
    scale = l1 / (budget.epsilon * share) * (1.0 + 1e-12)
    ledger.charge(tm.Charge(purpose, "laplace", scale, l1, "L1", 1, proof))
    return exact + rng.laplace(0.0, scale, exact.shape)


def _normals(d: int, rng: np.random.Generator) -> Array:
    """Return normal points (m, d) whose mean is 0 and whose covariance is the identity, but for rounding.

    The rest of the sampling error is 2 % of the worst error on W1, at most 14 % on W2 and 6 % on W3 (measured on four
    sets).
    """
    half = rng.standard_normal((max(GAUSSIAN_POINTS // 2, 2 * d), d))
    points = np.concatenate([half, -half])
    root = np.linalg.cholesky(points.T @ points / len(points))
    return np.asarray(np.linalg.solve(root, points.T).T)

