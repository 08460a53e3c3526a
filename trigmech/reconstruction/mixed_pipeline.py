"""From released moments of rows with indicators to such rows: numbers are optimised, categories drawn."""

import time
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from trigmech.distribution import Distribution, systematic
from trigmech.domain import Domain, OneHotGroup
from trigmech.functions.index import FunctionIndex
from trigmech.measurement.released import Release
from trigmech.reconstruction.marginals import Marginals, copula_correlation
from trigmech.reconstruction.one_hot import (
    GroupedChart,
    draw_groups,
    held_together,
    nearest_frequencies,
    rake,
    rake_probabilities,
    round_groups,
)
from trigmech.reconstruction.particles import Descent, descend, reweight
from trigmech.reconstruction.pipeline import CLOUD, FIRST_POINTS, JITTER, START_ITERATIONS, TEMPER, matrices_of_pairs
from trigmech.reconstruction.result import Reconstruction
from trigmech.reconstruction.shrinkage import (
    independent_means,
    moments_of_columns,
    shrink_interactions,
    within_reason,
)

Array = NDArray[np.float64]

# The least fraction of ordinary numbers in a column with special values that its noisy moments are divided by.
LEAST_ORDINARY = 0.01


def reconstruct_mixed(release: Release, count: int, rng: np.random.Generator, *,
                      denoise: bool = True, copula: bool = True, weigh: bool = True,
                      iterations: int = 80) -> Reconstruction:
    """Return equally weighted rows, with whole indicators, that explain released moments.

    Parameters
    ----------
    release : Release
        Of Chebyshev products of the domain's coordinates in any order, such as
        :func:`trigmech.planning.one_hot.plan_mixed` chooses, with any finite numbers.
    count : int
        Rows to return.
    rng : numpy.random.Generator
    denoise, copula, weigh : bool
        Switch a step off, for comparisons.
    iterations : int
        Limit of each descent.

    Returns
    -------
    Reconstruction

    Notes
    -----
    Privacy: post-processing. As :func:`trigmech.reconstruction.pipeline.reconstruct`, but the proposal rows have
    categories drawn by their released frequencies; while the points move, their categories are probabilities, which are
    rounded to categories when there are ``count`` points (:mod:`trigmech.reconstruction.one_hot`), after which the
    numbers move on a little.
    """
    # Products of BLAS are few and small here; its threads would only stand in the way of the package's own.
    with threadpool_limits(1, user_api="blas"):
        return _reconstruct(release, release.index.domain, count, rng, denoise, copula, weigh, iterations)


def _reconstruct(release: Release, domain: Domain, count: int, rng: np.random.Generator, denoise: bool, copula: bool,
                 weigh: bool, iterations: int) -> Reconstruction:
    started = time.perf_counter()
    means, deviations = within_reason(release.means, release.deviations)
    release, index = replace(release, means=means, deviations=deviations), release.index
    frequencies = [_frequencies(release, group) for group in domain.groups]
    marginals, columns = _columns(release, frequencies)
    target, dependent = _target(release, columns) if denoise else (release.means.copy(), True)
    correlation = _correlation(index, target, deviations, marginals) if copula and marginals is not None else None
    shares, joint, noise = _joint_of_special(index, target, deviations, frequencies)
    held = held_together(shares, joint, noise) if copula else None
    proposals = _proposals(marginals, frequencies, domain, None, None, rng)
    if correlation is not None or held is not None:
        proposals = np.vstack([proposals, _proposals(marginals, frequencies, domain, correlation, held, rng)])
    weights = np.full(len(proposals), 1.0 / len(proposals))
    if weigh and len(index.joint):
        weights = reweight(release.features.evaluate(proposals), target, TEMPER * deviations, START_ITERATIONS)
    weights = rake(proposals, weights, frequencies, domain, joint=None if held is None else joint)
    start = _shaken(proposals[systematic(weights, min(count, FIRST_POINTS), rng)], domain, rng)
    # A group without products has nothing to gain by moving: its frequencies are met by raking.
    tied = np.any(index.degrees[index.joint] > 0, axis=0)
    descended = _descended(release, start, target, 2 * iterations, GroupedChart(start, domain, relax=True, moving=tied))
    settled_groups = rake_probabilities(descended.points, frequencies, domain)
    copies = round_groups(np.repeat(settled_groups, -(-count // len(start)), axis=0), domain, rng)
    kept = _shaken(copies[np.sort(rng.permutation(len(copies))[:count])], domain, rng)
    settled = _descended(release, kept, target, max(1, iterations // 20), GroupedChart(kept, domain, relax=False))
    return Reconstruction(Distribution(settled.points, np.full(count, 1.0 / count)), target, settled.status,
                          descended.iterations + settled.iterations, time.perf_counter() - started, settled.misfit,
                          denoise, dependent)


def _descended(release: Release, points: Array, target: Array, iterations: int, chart: GroupedChart) -> Descent:
    # The solver wants something to solve for; categories alone, without products, leave nothing.
    free = chart.start.size > 0
    made = descend(release.features, points, target, release.deviations, iterations if free else 0, chart=chart)
    return made if free else replace(made, status="converged")


def _target(release: Release, columns: Array) -> tuple[Array, bool]:
    """Return what the moments are taken to be, and whether any set of columns is above the noise."""
    index, target = release.index, release.means.copy()
    expected = independent_means(index.degrees, columns)
    target[index.single] = expected[index.single]
    joint = index.joint
    # By columns instead of coordinates, so that a contingency table is one set of functions.
    target[joint] = shrink_interactions(index.by_column[joint], release.means[joint], release.deviations[joint],
                                        expected[joint])
    return target, bool((target[joint] != expected[joint]).any())


def _frequencies(release: Release, group: OneHotGroup) -> Array:
    """Return the frequencies of a group's indicators: the nearest to the released ones, or even where none is."""
    places = release.index.alone(group.coordinates)[0]
    even = 1.0 / (len(places) + (not group.complete))
    return nearest_frequencies(np.where(places < 0, even, release.means[places]), group)


def _columns(release: Release, frequencies: list[Array]) -> tuple[Marginals | None, Array]:
    """Return the distributions of the ordinary numbers, and the means (p, d) of T_1, ..., T_p of all coordinates."""
    index, domain = release.index, release.index.domain
    degree = int(index.highest.max())
    columns = np.zeros((degree, domain.d))
    for group, p in zip(domain.groups, frequencies, strict=True):
        columns[0, list(group.coordinates)] = p
    numbers = list(domain.numbers)
    if not numbers:
        return None, columns
    means, deviations = moments_of_columns(index.alone(numbers), release.means, release.deviations)
    special = np.zeros(domain.d)
    for group, p in zip(domain.groups, frequencies, strict=True):
        if group.value is not None:
            special[group.value] = min(float(p.sum()), 1.0 - LEAST_ORDINARY)
    special = special[numbers]
    # A number whose column holds a special value is 0 there, where T_a is cos(a pi / 2).
    at_centre = np.cos(np.arange(1, len(means) + 1) * np.pi / 2.0)[:, None]
    marginals = Marginals.fit((means - special * at_centre) / (1.0 - special), deviations / (1.0 - special))
    fitted = (1.0 - special) * marginals.chebyshev_means(degree)
    fitted += special * np.cos(np.arange(1, degree + 1) * np.pi / 2.0)[:, None]
    columns[:, numbers] = fitted
    return marginals, columns


def _proposals(marginals: Marginals | None, frequencies: list[Array], domain: Domain, correlation: Array | None,
           held: Array | None, rng: np.random.Generator) -> Array:
    rows = draw_groups(frequencies, domain, CLOUD, rng, held)
    if marginals is not None:
        rows[:, list(domain.numbers)] = marginals.cloud(CLOUD, rng, correlation)
    return _with_centres(rows, domain)


def _with_centres(points: Array, domain: Domain) -> Array:
    """Put the numbers of columns that hold a special value to 0, in place."""
    for group in domain.groups:
        if group.value is not None:
            points[points[:, list(group.coordinates)].any(axis=1), group.value] = 0.0
    return points


def _shaken(points: Array, domain: Domain, rng: np.random.Generator) -> Array:
    """Return the points with their numbers shifted a little, so that no two are the same."""
    numbers = list(domain.numbers)
    points = points.copy()
    angles = np.arccos(np.clip(points[:, numbers], -1.0, 1.0))
    points[:, numbers] = np.cos(np.abs(angles + JITTER * rng.standard_normal(angles.shape)))
    return _with_centres(points, domain)


def _correlation(index: FunctionIndex, target: Array, deviations: Array, marginals: Marginals) -> Array | None:
    """Return the copula's correlation matrix of the numbers, if products of them were released.

    Of columns without special values: where one holds these, a product holds less about its ordinary numbers, and the
    fit is left to find their dependence.
    """
    domain = index.domain
    held = {group.value for group in domain.groups}
    places, pairs = index.bilinear([j for j in domain.numbers if j not in held])
    if not len(places):
        return None
    among = np.searchsorted(domain.numbers, pairs)
    return copula_correlation(marginals, *matrices_of_pairs(among, len(domain.numbers), target[places],
                                                            deviations[places]))


def _joint_of_special(index: FunctionIndex, target: Array, deviations: Array,
                      frequencies: list[Array]) -> tuple[Array, Array, Array]:
    """Return how often columns hold special or missing values (g,), two together (g, g), and the noise in the latter.

    Their indicators do not move with the points, so proposal points in which they never meet could not be mended
    afterwards.
    """
    groups = index.domain.groups
    incomplete = [i for i, group in enumerate(groups) if not group.complete]
    place = np.full(index.d, -1)
    for k, i in enumerate(incomplete):
        place[list(groups[i].coordinates)] = k
    joint, variance = np.zeros((2, len(incomplete), len(incomplete)))
    for r, (i, j) in zip(*index.bilinear(np.flatnonzero(place >= 0).tolist()), strict=True):
        a, b = place[i], place[j]
        joint[a, b] = joint[b, a] = joint[a, b] + target[r]
        variance[a, b] = variance[b, a] = variance[a, b] + deviations[r] ** 2
    shares = np.array([frequencies[i].sum() for i in incomplete])
    measured = variance > 0.0
    return (shares, np.where(measured, joint, np.outer(shares, shares)),
            np.where(measured, np.sqrt(variance), np.inf))
