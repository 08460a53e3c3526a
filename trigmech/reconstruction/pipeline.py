"""From released moments to a distribution: rows that have them, weights on a cloud of points, or few atoms."""

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
from trigmech.reconstruction.particles import Angles, descend, draw, reweight
from trigmech.reconstruction.positions import Positions, objective_of, points_of, positions_of
from trigmech.reconstruction.result import Reconstruction
from trigmech.reconstruction.rows import Codes, independent_rows
from trigmech.reconstruction.shrinkage import within_reason
from trigmech.reconstruction.targets import LAST_DEGREE, Targets

Array = NDArray[np.float64]
Method = Literal["rows", "cloud", "atoms"]

CLOUD = 4_096
CLOUD_ITERATIONS = 200
ATOM_SECONDS = 20.0
ANCHOR_SCALE = 0.05
# A move of an entry must gain this part of what it would have to gain if every entry moved once, and the moments were
# met then: smaller moves would undo what the start has of the columns' shapes.
LEAST_MOVE = 0.3
# Few functions of one column, among many, are met with ease, but those of whole rows last.
ENOUGH = 1e-4
# Points within their cells are moved on, unless their misfit is about that of the cells, or far below the noise.
NEAR, FAR_BELOW = 1.1, 0.01
# Points that functions of somebody's own are fitted with, before these are split.
FIRST_POINTS, JITTER = 2_048, 0.02


def reconstruct(release: Release, count: int, rng: np.random.Generator, *, fit: Method = "rows",
                denoise: bool = True, copula: bool = True, weigh: bool = True, iterations: int = 80,
                costs: Array | None = None) -> Reconstruction:
    """Return a distribution that explains released moments.

    Parameters
    ----------
    release : Release
        A release of any features in any order, with any finite numbers.
    count : int
        Points to return, for "rows".
    rng : numpy.random.Generator
    fit : {"rows", "cloud", "atoms"}
        "rows": points of equal weight whose entries move, one at a time, until their means meet the target. "cloud":
        proposal points that stay where they are, with the weights nearest to uniform that explain the moments. "atoms":
        the weighted L1 program over the whole cube, at most K + 1 atoms; whole-row functions are left out of it, and it
        is slow beyond some hundred functions. Where it has no solution in time, "cloud" takes its place. For tables
        with indicators it is always "rows".
    denoise, copula, weigh : bool
        Switch a step off, for comparisons; weights are of "cloud" alone.
    iterations : int
        Limit of the descent in which points move continuously, for what rows cannot have: places within their cells,
        and functions that are no products.
    costs : ndarray (K,), optional
        What a deviation of 1 costs is 1 / this; default the scales of the noise.

    Returns
    -------
    Reconstruction

    Notes
    -----
    Privacy: post-processing. Steps: (1) moments are shrunk by :mod:`trigmech.reconstruction.shrinkage`; (2) each
    column's distribution of maximum entropy; (3) rows with independent columns, or numbers with a Gaussian copula if a
    pair passes its noise test; (4) their descent by :mod:`trigmech.reconstruction.rows`, numbers on a grid of 256
    angles; (5) numbers are placed in the grid's cells at random. Cost: m K d some ten times at most, whatever n.
    """
    # Products of BLAS are few and small here; its threads would only stand in the way of the package's own.
    with threadpool_limits(1, user_api="blas"):
        return _reconstruct(release, count, rng, fit, denoise, copula, weigh, iterations, costs)


def _reconstruct(release: Release, count: int, rng: np.random.Generator, fit: Method, denoise: bool, copula: bool,
                 weigh: bool, iterations: int, costs: Array | None) -> Reconstruction:
    started = time.perf_counter()
    index, (means, noise) = release.index, within_reason(release.means, release.deviations)
    targets = Targets.explained(index, means, noise, denoise)
    if costs is not None:
        # In units in which the noise alone has a reduced chi-square of 1.
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


def _rows(release: Release, targets: Targets, correlation: Array | None, count: int, iterations: int, denoise: bool,
          rng: np.random.Generator) -> tuple[Array, str, int]:
    """Return points of equal weight, how their fit ended, and how many sweeps and iterations it took."""
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


def _start(numbers: tuple[int, ...], positions: list[Positions], marginals: Marginals | None,
           correlation: Array | None, count: int, rng: np.random.Generator) -> Codes:
    """Return rows of independent columns, but for numbers that a copula joins."""
    rows = independent_rows([column.masses for column in positions], count, rng)
    if marginals is not None and correlation is not None:
        cloud = marginals.cloud(count, rng, correlation)
        for j, column in enumerate(positions):
            if not column.indicators and column.edges is not None:
                place = numbers.index(int(column.coordinates[0]))
                rows[:, j] = np.searchsorted(column.edges[1:-1], cloud[:, place])
    return rows


def _weighted(release: Release, targets: Targets, marginals: Marginals, correlation: Array | None, fit: Method,
              weigh: bool, rng: np.random.Generator) -> tuple[Array, Array, str, int]:
    """Return points with weights: of a cloud, half with independent columns and half with the copula, or atoms."""
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
        # The release is paid for, and weights can be made without a solver.
        return (start, reweight(release.features.evaluate(start), target, scales, CLOUD_ITERATIONS),
                "reweighted, for the linear program had no solution", CLOUD_ITERATIONS)
    return fit.points, fit.weights, fit.status, fit.iterations


def _anchored(release: Release, targets: Targets) -> tuple[FunctionSet, Array, Array]:
    """Return the functions to fit: the released ones, and the columns' next degrees at what the marginals suggest.

    Else nothing would keep the shape of a column while its points move to meet the other moments. Where at most T_1 was
    released, the marginals are too uncertain to be kept to.
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


def _correlation(index: FunctionIndex, targets: Targets, deviations: Array) -> Array | None:
    """Return the copula's correlation matrix of the numbers, from the targets of x_i x_j, if they were released.

    Only for columns without special values: if a column holds these, a product holds less about its ordinary numbers,
    and the fit is left to find their dependence.
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
