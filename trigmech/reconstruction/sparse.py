"""Sparse tables, with few occupied cells: two estimates of a noisy table, and a choice between them.

If one column is nearly a function of another, most cells of their table are empty. The shrinkage of singular values
then leaves a small value in each empty cell. The sparse estimate is the posterior under a prior with empty cells and
with cells of exponentially distributed frequencies. The prior's weights make the released table most likely.

The data do not show which of the two estimates is nearer to the truth, but they show it in expectation. Let m(y) be an
estimate of a table y with N cells and normal noise of deviation s. The expectation of |y - m(y)|^2 + s^2 (2 div m - N)
is that of the squared error (Stein 1981). One random probe gives the divergence (Girard 1989; Ramani, Blu and Unser
2008). The sparse estimate is chosen if the difference is clearly above its own error, and if most cells are clearly
empty.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr, logsumexp

from trigmech._arrays import Array, Integers
from trigmech.reconstruction.dependence import shrunk_table
from trigmech.reconstruction.frequencies import nearest_probabilities

# The number of rounds for the prior's weights; the length of probes in deviations; their seed; and the number of
# standard errors that a difference of the two errors must exceed.
ROUNDS, PROBE, SEED, CLEAR = 25, 0.1, 20_140_623, 3.0
# Most cells must be empty with at least this probability.
MOSTLY = 0.8
# Cells that cannot be told from empty ones may hold this part of the rows at most, or they do not count as empty.
MOST_LOST = 0.1
# A smaller table is never sparse, because its empty cells keep little.
LEAST_CELLS = 64
# The distance of a column from its tables counts beyond this many standard errors.
ENOUGH = 2.0
# A cell that counts as empty is more certain than the noise, but its deviation is at least this fraction of the noise.
FIRMEST = 0.03
# A level has known rows if its column has at least KNOWN of the noise in a cell. It seems to be empty if its cells have
# less than the part LOST of them. A cell with less than the part FAINT counts as empty.
KNOWN, LOST, FAINT = 2.0, 0.5, 0.01
# In units of the noise: squares of larger values would overflow; lower values are raised to the second number.
LARGEST, LOWEST = 1e60, -30.0

@dataclass(frozen=True, eq=False)
class TableEstimate:
    """An estimate of a noisy table: its entries, their deviations (a, b), and whether most cells count as empty.

    The divergence is the sum of the entries' slopes in their own measured numbers, if it is known.
    """

    table: Array
    deviation: Array
    sparse: bool
    divergence: float | None = None


def estimated(table: Array, expected: Array, noise: float,
              counted: Sequence[NDArray[np.bool_]] | None = None) -> TableEstimate:
    """Return the better estimate of a noisy table (a, b), which is predicted to be ``expected``.

    ``noise`` is the standard deviation in each entry, above 0. ``counted`` says which levels (a,) and (b,) were counted
    one by one in their columns' own measurements, as categories are: their expected sums are near to the truth.
    """
    def low_rank(values: Array) -> Array:
        return expected + shrunk_table(values - expected, noise)

    made = low_rank(table)
    dense = TableEstimate(made, np.full(table.shape, noise), False)
    if table.size < LEAST_CELLS or not max(np.abs(table).max(), np.abs(expected).max()) < LARGEST * noise:
        return dense
    slopes = slopes_of(low_rank, made, table, noise)
    dense = replace(dense, divergence=float(slopes.sum()))
    mean, there = _posterior(table.ravel() / noise)
    if float(np.median(there)) > 1.0 - MOSTLY:
        return dense

    def by_few(values: Array) -> Array:
        return noise * _posterior(values.ravel() / noise)[0].reshape(table.shape)

    few = noise * mean.reshape(table.shape)
    if not nearer(table, noise, made, slopes, few, slopes_of(by_few, few, table, noise), CLEAR):
        return dense
    there = there.reshape(table.shape)
    deviation, held = noise * np.maximum(np.sqrt(there), FIRMEST), there > 0.5
    found = np.where(held, few, 0.0)
    total, own, whole = float(table.sum()), float(found.sum()), float(few.sum())
    if min(total, own) <= 0.0:
        return TableEstimate(found, deviation, True)
    if whole - own > MOST_LOST * whole:
        # Without these cells the others would be far too large.
        return TableEstimate(nearest_probabilities(few.ravel(), total).reshape(few.shape), deviation, False)
    with_known_levels(found, deviation, table, expected, noise, counted)
    # All cells have the same noise, so the nearest table with this sum has the same correction in each cell.
    own = float(found.sum())
    found = found + np.where(held, (total - own) / held.sum(), 0.0) if total > own else found * (total / own)
    return TableEstimate(found, deviation, True)


def with_known_levels(found: Array, deviation: Array, table: Array, expected: Array, noise: float,
                      counted: Sequence[NDArray[np.bool_]] | None) -> None:
    """Fill levels of a sparse table (a, b) that have known rows but seem to be empty, in place.

    A category can have more rows than the noise in a cell, but too few to show which cell they are in, or too few in
    each of many cells. All its cells then seem to be empty. But its column's own measurement has counted its rows, so
    they must be somewhere. Such a row or column of the ``found`` table and of its ``deviation`` (a, b) gets the mean
    and the deviation of :func:`level_posterior`.
    """
    for axis, own in enumerate(counted or ()):
        held, spread, noisy, alone = (each if axis == 0 else each.T for each in (found, deviation, table, expected))
        sums = alone.sum(axis=1)
        for i in np.flatnonzero(own & (held.sum(axis=1) < LOST * sums) & (sums > KNOWN * noise)).tolist():
            mean, uncertain = level_posterior(noisy[i] / noise, np.maximum(alone[i], 0.0) / noise)
            held[i], spread[i] = noise * mean, noise * np.clip(uncertain, FIRMEST, 1.0)


def level_posterior(y: Array, expected: Array) -> tuple[Array, Array]:
    """Return the means and deviations (N,) of a level's cells by the posterior, with all in units of the noise.

    The level has as many rows as ``expected`` (N,) says, at least 1. They are equally likely all in one cell, half of
    them in each of two cells, or in all cells as expected. Cells with more expected rows are likelier to be these.
    """
    rows = float(expected.sum())
    prior = np.log(np.maximum(expected / rows, np.finfo(float).tiny))
    one, two = prior + rows * y - 0.5 * rows**2, prior + 0.5 * rows * y - 0.125 * rows**2
    first, second = _proportional(one), _proportional(two)
    pairs, together = (own * _others(own) for own in (expected / rows, second))
    likely = float(together.sum() / pairs.sum()) if pairs.any() else 0.0
    logs = np.array([logsumexp(one), 2.0 * logsumexp(two) + math.log(likely) if likely else -np.inf,
                     float(y @ expected - 0.5 * expected @ expected)])
    weights = _proportional(logs)
    parts = np.array([first, together / max(together.sum(), np.finfo(float).tiny), expected / rows])
    mean = weights @ parts * rows
    square = weights @ (parts * [[rows**2], [0.5 * rows**2], [0.0]]) + weights[2] * expected**2
    # Unlikely cells would be open to many rows.
    return np.where(mean < FAINT * rows, 0.0, mean), np.sqrt(np.maximum(square - mean**2, 0.0))


def _proportional(logs: Array) -> Array:
    """Return probabilities with these logarithms, up to a constant. They add up to 1 however large these are."""
    made = np.exp(logs - logs.max())
    return np.asarray(made / made.sum())


def _others(values: Array) -> Array:
    """Return the sums (N,) of all other values, which are above 0; differences from the whole sum would be inexact."""
    before, after = np.cumsum(values), np.cumsum(values[::-1])[::-1]
    return np.concatenate([[0.0], before[:-1]]) + np.concatenate([after[1:], [0.0]])


def nearer(table: Array, noise: float, one: Array, slopes: Array, two: Array, more: Array, clear: float) -> bool:
    """Return whether the second of two estimates of a table is predicted to be clearly nearer to the truth.

    Both come with their slopes (:func:`slopes_of`). The sum of these numbers estimates the difference of the squared
    errors, in units of the noise, without bias (Stein 1981). It must exceed ``clear`` of its own standard errors.
    """
    gains = ((table - one) ** 2 - (table - two) ** 2) / noise**2 - 2.0 * (more - slopes)
    return float(gains.sum()) > clear * float(np.sqrt(((gains - gains.mean()) ** 2).sum()))


def slopes_of(estimate: Callable[[Array], Array], made: Array, table: Array, noise: float) -> Array:
    """Return numbers (a, b) whose sum is the divergence of an estimate, by one probe of random signs.

    ``made`` is the estimate of the table (a, b). All estimates have the same probe, so that differences scatter less.
    """
    probe = np.random.default_rng(SEED).choice([-1.0, 1.0], table.shape)
    return np.asarray(probe * (estimate(table + PROBE * noise * probe) - made) / (PROBE * noise))


def beside_finer(known: TableEstimate, table: Array, noise: float, maps: Sequence[Integers], finer: TableEstimate,
                 finer_maps: Sequence[Integers]) -> TableEstimate:
    """Return the estimate of a table (a, b) that also uses a sparse one of the same columns in finer cells.

    Both were measured. The sums of the finer cells say which cells are empty, so the two tables do not contradict each
    other. In the other cells, each measurement counts by its precision. ``known`` remains if a cell of the finer table,
    whose positions have the cells ``finer_maps``, lies in two cells of ``maps``.
    """
    at = []
    for fine, coarse in zip(finer_maps, maps, strict=True):
        within = np.zeros(int(fine.max()) + 1, dtype=np.int64)
        within[fine] = coarse
        if not np.array_equal(within[fine], coarse):
            return known
        at.append(within)
    sums, variance = np.zeros(table.shape), np.zeros(table.shape)
    np.add.at(sums, np.ix_(*at), finer.table)
    np.add.at(variance, np.ix_(*at), finer.deviation**2)
    part = noise**2 / np.maximum(noise**2 + variance, np.finfo(float).tiny)
    made = np.where(sums > 0.0, np.maximum(part * sums + (1.0 - part) * table, 0.0), 0.0)
    total, own = float(sums.sum()), float(made.sum())
    return TableEstimate(made * (total / own) if min(total, own) > 0.0 else sums,
                         np.maximum(np.sqrt(part * variance), FIRMEST * noise), True)


def with_margins(mass: Array, margins: Sequence[tuple[Array, Array]]) -> Array:
    """Return a column's distribution (size,) that agrees with the margins of its sparse tables.

    ``margins`` are pairs of frequencies (size,) and their variances (size,). A sparse table shows where a column has
    rows. The column's own measurement may not: a piece of its density is even, where the truth has a few values. The
    mean squared distance of both, minus the margin's variance and an allowance for chance, is taken as the variance of
    the column's own frequencies, the same for all, and each frequency is averaged by these precisions.
    """
    if not margins or not (total := float(mass.sum())) > 0.0:
        return mass
    found, variances = (np.array(part) for part in zip(*margins, strict=True))
    variances = np.maximum(variances, np.finfo(float).tiny)
    precision = (1.0 / variances).sum(axis=0)
    margin = (found / variances).sum(axis=0) / precision
    noise = 1.0 / precision
    apart = float(((mass - margin) ** 2 - noise).mean() - ENOUGH * np.sqrt(2.0 * (noise**2).sum()) / len(mass))
    if not (np.isfinite(apart) and apart > 0.0):
        return mass
    made = np.maximum(margin + (mass - margin) / (1.0 + precision * apart), 0.0)
    return made * (total / made.sum()) if made.sum() > 0.0 else mass


def _components(y: Array) -> tuple[Array, Array]:
    """Return the logarithms of the densities (c, N) of cells by kind, and their posterior means, in units of the noise.

    Cells of the first kind are empty. The frequency of kind k is exponentially distributed with mean 2^(k - 1).
    """
    # Values further below 0 carry no more information.
    y = np.maximum(y, LOWEST)
    means = 2.0 ** np.arange(max(int(np.ceil(np.log2(max(float(y.max()), 4.0)))) + 1, 1))[:, None]
    at = y - 1.0 / means
    log_tail = log_ndtr(at)
    densities = np.vstack([-0.5 * y**2 - 0.5 * np.log(2.0 * np.pi),
                           -np.log(means) + 0.5 / means**2 - y / means + log_tail])
    expected = at + np.exp(-0.5 * at**2 - 0.5 * np.log(2.0 * np.pi) - log_tail)
    return densities, np.vstack([np.zeros(len(y)), np.maximum(expected, 0.0)])


def weights_of(relative: Array) -> Array:
    """Return the weights (c,) of the kinds that make cells most likely, by expectation maximisation.

    ``relative`` (c, N) are each cell's densities by kind, up to a factor of the cell.
    """
    weights, own = np.full(len(relative), 1.0 / len(relative)), np.empty_like(relative)
    for _ in range(ROUNDS):
        np.multiply(weights[:, None], relative, out=own)
        own /= own.sum(axis=0)
        weights = own.mean(axis=1)
    return weights


def _posterior(y: Array) -> tuple[Array, Array]:
    """Return the mean (N,) of each cell, in units of the noise, and the probability (N,) that it is occupied."""
    densities, means = _components(y)
    relative = np.exp(densities - densities.max(axis=0))
    own = weights_of(relative)[:, None] * relative
    own /= np.maximum(own.sum(axis=0), np.finfo(float).tiny)
    return (own * means).sum(axis=0), 1.0 - own[0]
