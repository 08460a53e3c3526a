"""From released moments to a distribution: rows, weights on a cloud of points, or a few atoms."""

import time
from typing import Literal

import numpy as np

from trigmech._arrays import Array, Codes
from trigmech._parallel import one_blas_thread
from trigmech.distribution import Distribution
from trigmech.errors import SolverError
from trigmech.functions.chebyshev import ChebyshevBasis
from trigmech.functions.features import Features, FunctionSet
from trigmech.functions.index import FunctionIndex
from trigmech.measurement.released import Release
from trigmech.reconstruction.l1_cube import fit_cube
from trigmech.reconstruction.marginals import SmoothMarginals, copula_correlation
from trigmech.reconstruction.particles import Angles, descend, draw, reweight
from trigmech.reconstruction.positions import Positions, objective_of, points_of, positions_of
from trigmech.reconstruction.result import Reconstruction
from trigmech.reconstruction.rows import independent_rows
from trigmech.reconstruction.shrinkage import within_reason
from trigmech.reconstruction.targets import LAST_DEGREE, MomentTargets

Method = Literal["rows", "cloud", "atoms"]

CLOUD = 4_096
CLOUD_ITERATIONS = 200
ATOM_SECONDS = 20.0
ANCHOR_SCALE = 0.05
# Suppose that every entry moved once and that the moments were met afterwards. A move must gain this fraction of its
# share of this total gain, because smaller moves would destroy the columns' shapes of the start.
LEAST_MOVE = 0.3
# The misfit at which the descent ends. It is small, because the descent meets functions of whole rows last.
ENOUGH = 1e-4
# Points move on inside their cells until the misfit is at most NEAR times that of the cells, or below FAR_BELOW.
NEAR, FAR_BELOW = 1.1, 0.01
# Custom functions are fitted with so many points, which are split afterwards; and the jitter of the split.
FIRST_POINTS, JITTER = 2_048, 0.02


def reconstruct(release: Release, count: int, rng: np.random.Generator, *, fit: Method = "rows",
                denoise: bool = True, copula: bool = True, weigh: bool = True, iterations: int = 80,
                costs: Array | None = None) -> Reconstruction:
    """Return a distribution that agrees with released moments.

    Parameters
    ----------
    release : Release
        A release of any features in any order, with any finite numbers.
    count : int
        The number of points for "rows".
    rng : numpy.random.Generator
    fit : {"rows", "cloud", "atoms"}
        "rows": points of equal weight, whose entries move one at a time until their means meet the target. "cloud":
        fixed proposal points, with the weights nearest to uniform that agree with the moments. "atoms": the weighted L1
        program over the whole cube, with at most K + 1 atoms. It leaves whole-row functions out, and is slow beyond
        some hundred functions. If it finds no solution in time, "cloud" takes its place. Tables with indicators always
        use "rows".
    denoise, copula, weigh : bool
        False switches a step off, for comparisons. Only "cloud" has weights.
    iterations : int
        Limit of the descent in which points move continuously. It fits the places within cells, and functions that are
        not products.
    costs : ndarray (K,), optional
        A deviation of 1 in a moment costs 1 / this. Default: the scales of the noise.

    Notes
    -----
    Privacy: post-processing. Steps: (1) :mod:`trigmech.reconstruction.shrinkage` shrinks the moments. (2) Each column
    gets its distribution of maximum entropy. (3) The start has independent columns; if a pair passes its noise test, a
    Gaussian copula joins the numbers. (4) The rows descend (:mod:`trigmech.reconstruction.rows`), with numbers on a
    grid of 256 angles. (5) Numbers get random places in the grid's cells. Cost: m K d some ten times at most, for any
    n.
    """
    # The products of BLAS are few and small here, and its threads would compete with the package's own.
    with one_blas_thread():
        return _reconstruct(release, count, rng, fit, denoise, copula, weigh, iterations, costs)


def _reconstruct(release: Release, count: int, rng: np.random.Generator, fit: Method, denoise: bool, copula: bool,
                 weigh: bool, iterations: int, costs: Array | None) -> Reconstruction:
    started = time.perf_counter()
    index, (means, noise) = release.index, within_reason(release.means, release.deviations)
    targets = MomentTargets.explained(index, means, noise, denoise)
    if costs is not None:
        # In these units the noise alone has a reduced chi-square of 1.
        targets = targets.at(costs * float(np.sqrt(((targets.deviations / costs) ** 2).mean())))
    correlation = _correlation(index, targets, noise) if copula else None
    if fit == "rows" or index.domain.groups or targets.marginals is None:
        points, status, used = _rows(release, targets, correlation, count, iterations, denoise, rng)
        weights, reached = np.full(count, 1.0 / count), release.features.means(points)
    else:
        points, weights, status, used = _weighted(release, targets, targets.marginals, correlation, fit, weigh, rng)
        reached = weights @ release.features.evaluate(points)
    misfit = float((((reached - targets.means) / targets.deviations) ** 2).mean())
    return Reconstruction(Distribution(points, weights), targets.means, status, used, time.perf_counter() - started,
                          misfit, denoise, correlation is not None or targets.tables_differ(index))


def _rows(release: Release, targets: MomentTargets, correlation: Array | None, count: int, iterations: int,
          denoise: bool, rng: np.random.Generator) -> tuple[Array, str, int]:
    """Return points of equal weight, the status of their fit, and the number of sweeps and iterations."""
    functions, goal, scales = _anchored(release, targets) if denoise else (
        release.features, targets.means, targets.deviations)
    index = FunctionIndex.of(functions, release.index.domain)
    positions = positions_of(index.domain, targets)
    known = isinstance(functions, Features | ChebyshevBasis)
    rows = _start(index.domain.numbers, positions, targets.marginals, correlation,
                  count if known else min(count, FIRST_POINTS), rng)
    asked = objective_of(index, functions, positions, goal, scales).compiled()
    fitted = asked.descend(rows, rng, least_move=LEAST_MOVE, enough=ENOUGH)
    points, free = points_of(positions, rows, index.d, rng)
    enough = max(NEAR * fitted.misfit, FAR_BELOW) if known else 0.0
    moved = descend(functions, points, goal, scales, iterations, Angles(points, free), enough)
    if count == len(rows):
        return moved.points, moved.status, fitted.sweeps + moved.iterations
    split = draw(moved.points, np.ones(len(rows)), count, JITTER, rng)
    again = descend(functions, split, goal, scales, max(1, iterations // 8))
    return again.points, again.status, moved.iterations + again.iterations


def _start(numbers: tuple[int, ...], positions: list[Positions], marginals: SmoothMarginals | None,
           correlation: Array | None, count: int, rng: np.random.Generator) -> Codes:
    """Return rows of independent columns; a copula can join the numbers."""
    rows = independent_rows([column.masses for column in positions], count, rng)
    if marginals is not None and correlation is not None:
        cloud = marginals.cloud(count, rng, correlation)
        for j, column in enumerate(positions):
            if not column.indicators and column.edges is not None:
                place = numbers.index(int(column.coordinates[0]))
                rows[:, j] = np.searchsorted(column.edges[1:-1], cloud[:, place])
    return rows


def _weighted(release: Release, targets: MomentTargets, marginals: SmoothMarginals, correlation: Array | None,
              fit: Method, weigh: bool, rng: np.random.Generator) -> tuple[Array, Array, str, int]:
    """Return points with weights: atoms, or a cloud. With a copula, it joins the columns of half of the cloud."""
    proposals = marginals.cloud(CLOUD, rng)
    if correlation is not None:
        proposals = np.vstack([proposals, marginals.cloud(CLOUD, rng, correlation)])
    if fit == "atoms":
        return _atoms(release, proposals, targets.means, targets.deviations, rng)
    weights = np.full(len(proposals), 1.0 / len(proposals))
    if weigh:
        weights = reweight(release.features.evaluate(proposals), targets.means, targets.deviations, CLOUD_ITERATIONS)
    return proposals, weights, "reweighted", CLOUD_ITERATIONS


def _atoms(release: Release, start: Array, target: Array, scales: Array,
           rng: np.random.Generator) -> tuple[Array, Array, str, int]:
    """Return the L1 program's atoms over the cube, or weights if the program has no solution.

    The program stops well below the noise level. Targets are clipped to [-1, 1]: all moments lie there, so the clipping
    lowers the objective of all distributions by the same amount.
    """
    products = release.basis.index
    K = len(products)
    basis = ChebyshevBasis(np.vstack([np.zeros((1, products.shape[1]), dtype=np.int64), products]))
    costs = np.append(1.0, 1.0 / scales[:K])
    # E|noise| is 0.8 standard deviations. A stop at a third of it takes little longer and is nearer to the truth.
    top = float(costs.max())
    goal = np.append(1.0, np.clip(target[:K], -1.0, 1.0))
    try:
        fit = fit_cube(basis, goal, start, costs / top, noise_level=K * 0.8 / 3.0 / top, time_limit=ATOM_SECONDS,
                       rng=rng)
    except SolverError:
        # The release is paid for, and weights need no solver.
        return (start, reweight(release.features.evaluate(start), target, scales, CLOUD_ITERATIONS),
                "reweighted, for the linear program had no solution", CLOUD_ITERATIONS)
    return fit.points, fit.weights, fit.status, fit.iterations


def _anchored(release: Release, targets: MomentTargets) -> tuple[FunctionSet, Array, Array]:
    """Return the functions to fit: the released ones, and the columns' next degrees with the marginals' means.

    The next degrees keep the shape of a column while its points move to meet the other moments. If only T_1 was
    released, the marginals are too uncertain, and the next degrees are left out.
    """
    index, numbers = release.index, list(release.index.domain.numbers)
    degree = int(index.highest[index.single].max(initial=0))
    if degree <= 1:
        return release.features, targets.means, targets.deviations
    more = np.zeros((max(LAST_DEGREE - degree, 0), len(numbers), index.d), dtype=np.int64)
    more[:, range(len(numbers)), numbers] = np.arange(degree + 1, LAST_DEGREE + 1)[:, None]
    basis = ChebyshevBasis(np.vstack([index.degrees, more.reshape(-1, index.d)]))
    K, means = len(index.degrees), targets.columns[degree:LAST_DEGREE, numbers].ravel()
    return (Features(basis, release.profiles), np.concatenate([targets.means[:K], means, targets.means[K:]]),
            np.concatenate([targets.deviations[:K], np.full(len(means), ANCHOR_SCALE), targets.deviations[K:]]))


def _correlation(index: FunctionIndex, targets: MomentTargets, deviations: Array) -> Array | None:
    """Return the copula's correlation matrix of the numbers, from the targets of x_i x_j, if they were released.

    It uses only columns without special values. If a column has special values, a product says less about its ordinary
    numbers, and the fit alone finds their dependence.
    """
    numbers, held = index.domain.numbers, {group.value for group in index.domain.groups}
    places, pairs = index.bilinear([j for j in numbers if j not in held])
    if not len(places) or targets.marginals is None:
        return None
    means, scales = np.zeros((len(numbers), len(numbers))), np.full((len(numbers), len(numbers)), np.inf)
    for matrix, values in ((means, targets.means[places]), (scales, deviations[places])):
        i, j = np.searchsorted(numbers, pairs).T
        matrix[i, j] = matrix[j, i] = values
    return copula_correlation(targets.marginals, means, scales)
