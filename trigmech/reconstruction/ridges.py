"""Ridges: pairs of numbers with long tails that go together, such as two delays.

A normal copula with the right dependence in the middle has too little of it in the tails, and in the tails the tables'
cells are wide and their noise is larger than their frequencies. A ridge is a second prediction of such a pair's tables.
It is the distribution of the released columns with the most entropy for a mean of the product x y: the densities are
a(x) b(y) exp(theta x y). So around its centre the ridge is as wide in the tails as in the middle, where the tables show
its width. The single number theta makes the released tables most likely.

The noisy tables are shrunk towards it, each cell by its own expected size: a cell's frequency is normal around the
prediction E with deviation kappa E, with one kappa for a table, by marginal likelihood. A cell that is many deviations
of noise away keeps its released value. Within wide cells, and between positions, the rows follow the ridge.

References
----------
Sinkhorn 1964, for a and b; Good 1963, Maximum entropy for hypothesis formulation.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from trigmech._arrays import Array, Codes, Integers
from trigmech.functions.released_column import ReleasedColumn
from trigmech.queries.base import Measurement
from trigmech.queries.joint import Marginal
from trigmech.reconstruction.within_cells import ranks_of, sorted_within, truncated

# A position is divided into parts of at most this length, in deviations of the column, and into at most so many.
STEP, PARTS = 0.25, 16
# Scaling costs the product of both numbers of parts. Beyond so many, neighbours in the same cells of the tables are
# joined, where they are closer than a width that is doubled from the narrowest one on.
MOST_PARTS, JOINED = 512, STEP / 64.0
# A column of a smaller deviation has no tails that floats could tell apart.
NARROWEST = 1e-4
# Values of theta that are compared first, for numbers of deviation 1; then so many at most, between the best one's
# neighbours.
SMALLEST, LARGEST, VALUES, BETWEEN = 0.5, 128.0, 9, 12
# Rounds of scaling for a and b, and how often they start again from exact logarithms: while values are compared, and in
# the end. The least mass of a part; and the largest factor of a part between two such starts.
ROUNDS, STARTS, LAST_STARTS, LEAST, MOST = 30, 3, 8, 1e-9, 1e100
# Deviations of a cell from the prediction, as fractions of it; and how many deviations of noise are beyond doubt.
KAPPAS, CLEAR = (0.03, 0.06, 0.1, 0.15, 0.2, 0.3, 0.5, 1.0), 4.0
# Squares of larger numbers of deviations would overflow.
FARTHEST = 1e60
# The least deviation of a shrunk cell, as a fraction of the noise.
FIRMEST = 0.03
# Rounds of draws within cells.
DRAWS = 2


@dataclass(frozen=True, eq=False)
class Parts:
    """The parts of a number's positions: their values, ascending, with mean 0 and variance 1; masses; and positions.

    A part that joins several positions has the first of them.
    ``at`` (size,) is the value at the middle of each position of the column, NaN for special and missing values.
    """

    values: Array
    mass: Array
    position: Integers
    at: Array

    @classmethod
    def of(cls, column: ReleasedColumn) -> "Parts | None":
        """Return the parts of a column; None if its released numbers have no variance."""
        partition, k = column.partition, len(column.partition.indicators)
        edges, mass = partition.edges, column.mass[k:]
        middle, total = 0.5 * (edges[1:] + edges[:-1]), float(mass.sum())
        if not total > 0.0:
            return None
        mean = float(mass @ middle) / total
        spread = float(np.sqrt(mass @ (middle - mean) ** 2 / total))
        if not spread > NARROWEST:
            return None
        width = np.diff(edges) / spread
        count = np.clip(np.ceil(width / STEP), 1, PARTS).astype(np.int64)
        of = np.repeat(np.arange(len(mass)), count)
        inside = (np.arange(len(of)) - np.repeat(np.cumsum(count) - count, count) + 0.5) / count[of]
        own = np.maximum(mass[of] / count[of] / total, LEAST)
        return cls((edges[of] - mean) / spread + inside * width[of], own / own.sum(), of + k,
                   np.concatenate([np.full(k, np.nan), (middle - mean) / spread]))

    def joined(self, maps: Sequence[Integers]) -> "Parts":
        """Return at most :data:`MOST_PARTS` parts, or as few as tables need that have these cells of positions."""
        if len(self.values) <= MOST_PARTS:
            return self
        cells, width = [own[self.position] for own in maps], JOINED
        while True:
            bins = np.floor(self.values / width)
            first = np.flatnonzero(np.concatenate([[True], np.any([np.diff(each) != 0 for each in (bins, *cells)],
                                                                   axis=0)]))
            if len(first) <= MOST_PARTS or bins[-1] - bins[0] <= 1.0:
                break
            width *= 2.0
        mass = np.add.reduceat(self.mass, first)
        return Parts(np.add.reduceat(self.mass * self.values, first) / mass, mass, self.position[first], self.at)


@dataclass(frozen=True, eq=False)
class Ridge:
    """A ridge of two columns: the parts of both, and the probability of each pair of parts."""

    columns: tuple[int, int]
    parts: tuple[Parts, Parts]
    joint: Array

    @classmethod
    def of(cls, columns: Sequence[ReleasedColumn], tables: Sequence[Measurement[Marginal]],
           estimates: Sequence[Array]) -> "Ridge | None":
        """Return the ridge that makes tables of the same two columns most likely.

        ``estimates`` are those of the tables by other predictions. None if a column has no variance.
        """
        one, two = tables[0].query.columns
        pair, parts = (one, two), [Parts.of(columns[j]) for j in (one, two)]
        if parts[0] is None or parts[1] is None:
            return None
        held = (parts[0].joined([table.query.maps[0] for table in tables]),
                parts[1].joined([table.query.maps[1] for table in tables]))

        def distance(theta: float) -> float:
            made = cls(pair, held, _scaled(held, theta, STARTS))
            return _distance(tables, [made.table(table, estimate)
                                      for table, estimate in zip(tables, estimates, strict=True)])

        # The released tables choose the sign: estimates that are all but independent would leave it to rounding.
        rising, falling = distance(SMALLEST), distance(-SMALLEST)
        sign, values = 1.0 if rising <= falling else -1.0, np.geomspace(SMALLEST, LARGEST, VALUES)
        best = int(np.argmin([min(rising, falling), *(distance(sign * theta) for theta in values[1:].tolist())]))
        near = float(np.log(values[max(best - 1, 0)])), float(np.log(values[min(best + 1, VALUES - 1)]))
        found = minimize_scalar(lambda each: distance(sign * float(np.exp(each))), bounds=near, method="bounded",
                                options={"maxiter": BETWEEN})
        return cls(pair, held, _scaled(held, sign * float(np.exp(found.x)), LAST_STARTS))

    def table(self, measured: Measurement[Marginal], estimate: Array) -> Array:
        """Return the predicted table: numbers by the ridge, with the total of the ``estimate``, which has the rest."""
        (down, across), made = measured.query.maps, np.zeros(estimate.shape)
        rows = np.zeros((len(made), self.joint.shape[1]))
        np.add.at(rows, down[self.parts[0].position], self.joint)
        np.add.at(made.T, across[self.parts[1].position], rows.T)
        own = self._numbers(measured)
        return np.where(own, made * max(float(estimate[own].sum()), 0.0), estimate)

    def shrunk(self, measured: Measurement[Marginal], estimate: Array) -> tuple[Array, Array]:
        """Return a released table shrunk towards the ridge, and the deviation of each cell."""
        noise, predicted, own = measured.deviation, self.table(measured, estimate), self._numbers(measured)
        apart, size = _apart(measured, predicted)[own], np.minimum(predicted[own] / noise, FARTHEST)
        likely = [float((np.log1p((kappa * size) ** 2)
                         + np.minimum(apart**2 / (1.0 + (kappa * size) ** 2), CLEAR**2)).sum()) for kappa in KAPPAS]
        variance = (KAPPAS[int(np.argmin(likely))] * size) ** 2
        variance = np.where(np.abs(apart) > CLEAR, np.maximum(variance, apart**2 - 1.0), variance)
        part = variance / (1.0 + variance)
        made, deviation = estimate.copy(), np.full(estimate.shape, noise)
        found = predicted[own] + noise * part * apart
        # The mass that shrinkage took from the total goes to cells in proportion to their variances.
        missing = float((predicted[own] - found).sum())
        made[own] = np.maximum(found + part * (missing / max(float(part.sum()), np.finfo(float).tiny)), 0.0)
        deviation[own] = np.maximum(noise * np.maximum(np.sqrt(part), FIRMEST), np.finfo(float).tiny)
        return made, deviation

    def better(self, tables: Sequence[Measurement[Marginal]], estimates: Sequence[Array],
               others: Sequence[Array]) -> bool:
        """Return whether the ridge is nearer to the released tables than other predictions."""
        own = [np.where(self._numbers(table), self.table(table, estimate), other)
               for table, estimate, other in zip(tables, estimates, others, strict=True)]
        return _distance(tables, own) < _distance(tables, others)

    def arrange_within(self, rows: Codes, cells: Sequence[Integers], rng: np.random.Generator) -> None:
        """Exchange entries of both columns between rows in the same cell, in place, so that rows follow the ridge.

        ``cells`` has the cell (size,) of each position of each column. No function of cells changes. Each column in
        turn draws numbers given those of the other one; its entries in a cell take their order (Gibbs sampling).
        """
        at = [part.at[rows[:, j]] for part, j in zip(self.parts, self.columns, strict=True)]
        held = np.flatnonzero(~np.isnan(at[0]) & ~np.isnan(at[1]))
        if len(held) < 2:
            return
        ranks = [ranks_of(part.at, cells[j]) for part, j in zip(self.parts, self.columns, strict=True)]
        for turn in range(2 * DRAWS):
            one, two = (0, 1) if turn % 2 else (1, 0)
            own, given, j = self.parts[one], self.parts[two], self.columns[one]
            mean, spread = self._given(one)
            codes = rows[held, j]
            beside, now, cell = given.at[rows[held, self.columns[two]]], own.at[codes], cells[j][codes]
            least, most = np.full(int(cell.max()) + 1, np.inf), np.full(int(cell.max()) + 1, -np.inf)
            np.minimum.at(least, cell, now)
            np.maximum.at(most, cell, now)
            drawn = truncated(np.interp(beside, given.values, mean), np.interp(beside, given.values, spread),
                              least[cell], most[cell], rng)
            before, after = np.argsort(ranks[one][codes], kind="stable"), sorted_within(cell, drawn)
            rows[held[after], j] = codes[before]

    def _given(self, one: int) -> tuple[Array, Array]:
        """Return the mean and the deviation of one number at each part of the other one."""
        joint, values = (self.joint if one else self.joint.T), self.parts[one].values
        total = np.maximum(joint.sum(axis=1), np.finfo(float).tiny)
        mean = joint @ values / total
        return mean, np.sqrt(np.maximum(joint @ values**2 / total - mean**2, STEP**2 / 12.0))

    def _numbers(self, measured: Measurement[Marginal]) -> NDArray[np.bool_]:
        """Return a mask (a, b) of the cells of two numbers."""
        own = [np.isin(np.arange(side), cells[part.position]) for side, cells, part in zip(
            measured.query.shape, measured.query.maps, self.parts, strict=True)]
        return np.logical_and.outer(*own)


def _apart(table: Measurement[Marginal], predicted: Array) -> Array:
    """Return the distances (a, b) of a released table from a predicted one, in units of its noise; at most 10^60."""
    most = FARTHEST * float(table.deviation)
    return np.asarray(np.clip(table.means - predicted, -most, most) / table.deviation)


def _distance(tables: Sequence[Measurement[Marginal]], predicted: Sequence[Array]) -> float:
    """Return the sum of the squares of such distances."""
    return float(sum((_apart(table, made) ** 2).sum() for table, made in zip(tables, predicted, strict=True)))


def _scaled(parts: tuple[Parts, Parts], theta: float, starts: int) -> Array:
    """Return the joint distribution a(x) b(y) exp(theta x y) with the masses of both parts (Sinkhorn's scaling)."""
    x, y = parts[0].values, parts[1].values
    kernel, left, right = theta * np.outer(x, y), np.zeros(len(x)), -0.5 * abs(theta) * y**2
    tiny = np.finfo(float).tiny
    for _ in range(starts):
        left = np.log(parts[0].mass) - _log_sum(kernel + right)
        right = np.log(parts[1].mass) - _log_sum((kernel + left[:, None]).T)
        joint, down, across = np.exp(kernel + left[:, None] + right), np.ones(len(x)), np.ones(len(y))
        for _ in range(ROUNDS):
            down = np.clip(parts[0].mass / np.maximum(joint @ across, tiny), 1.0 / MOST, MOST)
            across = np.clip(parts[1].mass / np.maximum(down @ joint, tiny), 1.0 / MOST, MOST)
        left, right = left + np.log(down), right + np.log(across)
    return np.asarray(joint * down[:, None] * across)


def _log_sum(values: Array) -> Array:
    """Return log(sum(exp(values))) of each row."""
    most = values.max(axis=1)
    return np.asarray(most + np.log(np.exp(values - most[:, None]).sum(axis=1)))
