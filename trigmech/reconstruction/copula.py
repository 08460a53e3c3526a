"""A normal copula with the released distributions: rows start from it, and tables of pairs are shrunk towards it.

Each column is a function of a normal variable: a number increases with it, and categories follow it in the order of
their first score. If two such variables have correlation r, the table of their columns is, by Mehler's formula, the sum
over k of r^k a_k b_k', with a_k and b_k the k-th Hermite coefficients of the indicators of positions. The mean of a
product of scores has the same form. This function of r is inverted at the released products of first scores, which
gives r. All correlations together are then made a correlation matrix by its eigenvalues.

A column whose presence was measured has a second normal variable. The rows where it is low hold the special and missing
values, and the first variable orders the numbers of the others. Both are nearly uncorrelated: the numbers of present
rows alone cannot tell.

References
----------
Mehler 1866; Pearson 1900, for two-way tables (tetrachoric correlations); Kibble 1945, An extension of a theorem of
Mehler's on Hermite polynomials; Nelsen 2006, An introduction to copulas.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import comb, ndtri

from trigmech._arrays import Array, Codes
from trigmech.functions.released_column import ReleasedColumn
from trigmech.queries.base import Measurement
from trigmech.queries.directions import Directions
from trigmech.queries.joint import Marginal
from trigmech.reconstruction.directed import LARGEST, correlations_of, definite
from trigmech.reconstruction.within_cells import Turn, limits_of, normal_values, sorted_within, truncated

# Terms of Mehler's series, which omits negligible ones at the largest correlation; and the number of correlations,
# between it and its negative, with which a product's mean is compared.
TERMS, STEPS = 40, 195
# Powers of correlations between presence and numbers below this one are left out.
LEAST_POWER = 1e-4
# Rounds of draws within cells.
ROUNDS, FIRM = 3, 0.2


class Scored(Protocol):
    """Products of features of two columns each: :class:`trigmech.queries.joint.Products` is one."""

    @property
    def features(self) -> list[Array]:
        """The features (size, q) of each column's positions."""
    @property
    def factors(self) -> NDArray[np.int64]:
        """The two columns and the two features (K, 4) of each product."""


@dataclass(frozen=True, eq=False)
class Presence:
    """The second normal variable of a column of numbers; numbers are where it is high.

    column: By position.
    step (TERMS + 1,): The Hermite coefficients of the indicator of numbers, in this variable; the first is not used.
    apart (size, TERMS + 1): The coefficients of positions among the rows with numbers, in the column's first variable,
      less those among the other rows.
    """

    column: int
    step: Array
    apart: Array

    @classmethod
    def of(cls, j: int, absent: float, coefficients: Array, order: Array) -> "Presence":
        """Return the variable of a column with so much mass of special and missing values."""
        apart = np.where(order[:, None] >= 0.0, 1.0 / max(1.0 - absent, 1e-300), -1.0 / max(absent, 1e-300))
        return cls(j, _coefficients(np.array([absent, 1.0 - absent]), np.arange(2.0))[1], apart * coefficients)


@dataclass(frozen=True, eq=False)
class Copula:
    """Correlations (e, e), and for each column Hermite coefficients (size, TERMS + 1) and an order (size,).

    Coefficients and order are those of its positions. The order of special and missing values of a number is below 0.
    They are independent of all other columns, unless the column is in ``presence``. The correlations are those of the d
    columns' first variables, then those of the variables of ``presence``.
    """

    correlations: Array
    coefficients: tuple[Array, ...]
    orders: tuple[Array, ...]
    presence: tuple[Presence, ...] = ()
    _known: dict[tuple[int, int], tuple[NDArray[np.int64], Array]] = field(default_factory=dict, init=False, repr=False)

    @classmethod
    def by_directions(cls, columns: Sequence[ReleasedColumn], measured: Measurement[Directions]) -> "Copula | None":
        """Return the copula that denoised directions imply; None if noise alone can explain them."""
        correlations = correlations_of(columns, measured)
        if correlations is None:
            return None
        orders = tuple(_order(column, np.arange(1.0 * len(column.mass))) for column in columns)
        coefficients = tuple(_coefficients(column.mass, order) for column, order in zip(columns, orders, strict=True))
        return cls(correlations, coefficients, orders, tuple(
            Presence.of(j, columns[j].absent, coefficients[j], orders[j]) for j in measured.query.presence))

    @classmethod
    def by_products(cls, columns: Sequence[ReleasedColumn], products: "Scored", deviations: Array,
                    present: Sequence[int] = ()) -> "Copula":
        """Return the copula that products' denoised deviations (K,) from independence imply.

        The last score of the columns ``present`` tells special and missing values alone.
        """
        first = [score[:, 0] if score.shape[1] else np.zeros(len(score)) for score in products.features]
        orders = tuple(_order(column, score) for column, score in zip(columns, first, strict=True))
        coefficients = tuple(_coefficients(column.mass, order) for column, order in zip(columns, orders, strict=True))
        presence = tuple(Presence.of(j, columns[j].absent, coefficients[j], orders[j]) for j in present)
        of_scores = np.array([*(score @ own for score, own in zip(first, coefficients, strict=True)),
                              *(-products.features[each.column][0, -1] * each.step for each in presence)])
        # The variable of each score; -1 for scores of higher degrees.
        variables = [np.where(np.arange(score.shape[1]), -1, j) for j, score in enumerate(products.features)]
        for i, each in enumerate(presence, len(columns)):
            variables[each.column][-1] = i
        starts = np.cumsum([0, *map(len, variables)])
        both = np.concatenate(variables)[starts[products.factors[:, :2]] + products.factors[:, 2:]]
        alone = (both >= 0).all(axis=1)
        j, h = both[alone].T
        grid = np.linspace(-LARGEST, LARGEST, STEPS)
        powers = grid ** np.arange(1, TERMS + 1)[:, None]
        means = (of_scores[j, 1:] * of_scores[h, 1:]) @ powers
        correlations = np.eye(len(of_scores))
        # Scores that ascend in one column and descend in the other make it a descending function.
        for a, b, mean, deviation in zip(j.tolist(), h.tolist(), means, deviations[alone].tolist(), strict=True):
            rising = 1.0 if mean[-1] >= mean[0] else -1.0
            ascending = np.maximum.accumulate(rising * mean)
            found = float(np.interp(rising * deviation, ascending, grid)) if deviation and ascending[-1] > ascending[
                0] else 0.0
            correlations[a, b] = correlations[b, a] = found
        return cls(definite(correlations), coefficients, orders, presence)

    def joins(self, columns: tuple[int, ...]) -> bool:
        """Return whether two columns depend on each other."""
        own, other = map(self._variables, columns)
        return bool(self.correlations[np.ix_(own, other)].any())

    def table(self, query: Marginal) -> Array:
        """Return the table of two columns under the copula, a distribution."""
        sides = [[self._summed(*each), *[self._summed(*each, place) for place in self._places(each[0])]]
                 for each in zip(query.columns, query.maps, strict=True)]
        # With few terms of a strong dependence some cells are below 0, and without these the sum is above 1.
        found = np.maximum(self._mean(query.columns, *sides), 0.0)
        return np.asarray(found / found.sum())

    def within(self, columns: tuple[int, ...], features: Sequence[Array], of_cells: Sequence[Array]) -> Array:
        """Return the part (q, r) of the means of products of two columns' features that lies within cells.

        ``of_cells`` are the means of the features (size, q) and (size, r) over each position's cell.
        """
        one, two = ([[own.T @ made for made in (self.coefficients[j], *(
            self.presence[place].apart for place in self._places(j)))] for j, own in zip(columns, each, strict=True)]
            for each in (features, of_cells))
        return self._mean(columns, *one) - self._mean(columns, *two)

    def _places(self, column: int) -> list[int]:
        """Return the place of a column's second variable in `presence`, if it has one."""
        return [place for place, each in enumerate(self.presence) if each.column == column]

    def _variables(self, column: int) -> list[int]:
        return [column, *(len(self.orders) + place for place in self._places(column))]

    def _mean(self, columns: tuple[int, ...], left: Sequence[Array], right: Sequence[Array]) -> Array:
        """Return the means (q, r) of products of functions of one column and of another.

        ``left`` and ``right`` hold their coefficients (q, TERMS + 1) in the column's first variable. For a column with
        two variables, they also hold the coefficients for rows with numbers minus those for the other rows.
        """
        joined = self.correlations[np.ix_(*map(self._variables, columns))]
        found = np.asarray((left[0] * joined[0, 0] ** np.arange(TERMS + 1.0)) @ right[0].T)
        if joined.size > 1:
            steps = [[self.presence[place].step for place in self._places(j)] for j in columns]
            found = found + _beside(joined, left, right, steps)
        return found

    def _summed(self, column: int, cells: NDArray[np.int64], place: int | None = None) -> Array:
        """Return the coefficients of a column's cells, computed once for a map: many tables share it."""
        key = column if place is None else len(self.orders) + place, id(cells)
        known = self._known.get(key)
        # A copy of this object has maps with other numbers.
        if known is None or known[0] is not cells:
            values = self.coefficients[column] if place is None else self.presence[place].apart
            known = self._known[key] = cells, _summed(values, cells)
        return known[1]

    def arrange(self, rows: Codes, rng: np.random.Generator) -> None:
        """Exchange entries of each column between rows (m, d), in place, so that rows follow the copula."""
        normal = rng.normal(size=(len(rows), len(self.correlations))) @ np.linalg.cholesky(self.correlations).T
        for latent, each in zip(normal.T[len(self.orders):], self.presence, strict=True):
            j = each.column
            there = self.orders[j][rows[:, j]] >= 0.0
            rows[np.argsort(latent, kind="stable"), j] = rows[np.argsort(there, kind="stable"), j]
        for j, order in enumerate(self.orders):
            # Rows with equal positions stay in their random order.
            place = order[rows[:, j]]
            held = np.flatnonzero(place >= 0.0)
            ascending = held[np.argsort(place[held], kind="stable")]
            rows[held[np.argsort(normal[held, j], kind="stable")], j] = rows[ascending, j]

    def arrange_within(self, rows: Codes, cells: Sequence[NDArray[np.int64]], rng: np.random.Generator,
                       rounds: int = ROUNDS, *, every: bool = True) -> None:
        """Exchange entries of each column between rows in the same cell, in place, so that rows follow the copula.

        ``cells`` has the cell (size,) of each position of each column. No function of cells changes. Each column in
        turn draws normal values given those of the others; its entries in a cell take their order (Gibbs sampling).
        Unless ``every`` entry takes part, those in cells of one position keep the value that they have first. No cell
        has both numbers and other values, so that presence stays, but its normal values are drawn in turn, too.
        """
        precision = np.linalg.inv(definite(self.correlations, FIRM))
        spread = 1.0 / np.sqrt(np.diag(precision))
        weights = -precision * spread[:, None] ** 2
        np.fill_diagonal(weights, 0.0)
        # A column at a time, and then row by row: to write columns between others would take longer than to find them.
        by_column, scores, turns = np.zeros(weights.shape[:1] + rows.shape[:1]), dict[int, Array](), list[Turn]()
        second = [self._second(i, each, rows, by_column[i], rng)
                  for i, each in enumerate(self.presence, len(self.orders))]
        for j, (order, cell) in enumerate(zip(self.orders, cells, strict=True)):
            place = order[rows[:, j]]
            by_column[j] = normal_values(place, rng, scores)
            moving = order if every else np.where(np.bincount(cell)[cell] > 1, order, -1.0)
            if not weights[j].any() or not (moving >= 0.0).any():
                continue
            # Exchanges within a cell do not change which values it has.
            now = np.flatnonzero(place >= 0.0)
            limits = limits_of(cell[rows[now, j]], by_column[j, now], int(cell.max()) + 1)
            turns.append(Turn.of(j, rows[:, j], by_column[j], moving, cell, limits, order))
        values = np.ascontiguousarray(by_column.T)
        for _ in range(rounds):
            # Where there is no number, its variable is free.
            for i, least, most in second:
                values[:, i] = truncated(values @ weights[i], spread[i], least, most, rng)
                free, j = np.flatnonzero(~np.isfinite(least)), self.presence[i - len(self.orders)].column
                values[free, j] = (values @ weights[j])[free] + spread[j] * rng.normal(size=len(free))
            for turn in turns:
                j, held = turn.column, turn.held
                if len(held) < 2:
                    continue
                means = values @ weights[j]
                drawn = truncated(means[held], spread[j], turn.least, turn.most, rng)
                before, after = np.argsort(turn.ranks[turn.codes], kind="stable"), sorted_within(turn.cell, drawn)
                turn.codes[after] = turn.codes[before]
                turn.values[after] = turn.values[before]
                values[held, j] = turn.values
        for turn in turns:
            rows[turn.held, turn.column] = turn.codes

    def _second(self, i: int, presence: Presence, rows: Codes, values: Array,
                rng: np.random.Generator) -> tuple[int, Array, Array]:
        """Write the first values (m,) of the second variable with the number i; return i and the values' limits."""
        there = (self.orders[presence.column][rows[:, presence.column]] >= 0.0).astype(np.int64)
        values[:] = normal_values(there.astype(np.float64), rng)
        least, most = limits_of(there, values, 2)
        return i, least[there], most[there]


def _beside(joined: Array, left: Sequence[Array], right: Sequence[Array], steps: Sequence[list[Array]]) -> Array:
    """Return the contributions (q, r) of second variables to the means of products of functions of two columns.

    ``joined`` are the correlations of the first column's variables with the second one's. The mean of a product of
    functions of several normal variables is a sum over a power for each of these correlations (Kibble): m of both
    presences, s and w of one column's presence and the other's number, and k of both numbers.
    """
    whole = np.zeros((2, 2))
    whole[: joined.shape[0], : joined.shape[1]] = joined
    (numbers, w_part), (s_part, both) = whole
    one, two = (own[0] if own else np.zeros(TERMS + 1) for own in steps)
    of_s, of_w = (np.abs(part) ** np.arange(TERMS + 1.0) for part in (s_part, w_part))
    made = np.zeros((len(left[0]), len(right[0])))
    for s, w in np.argwhere(np.outer(of_s, of_w) >= LEAST_POWER).tolist():
        power, k = s_part**s * w_part**w, np.arange(TERMS + 1.0 - max(s, w))
        kept, ways = slice(w, w + len(k)), np.sqrt(comb(k + s, s) * comb(k + w, w))
        other, series = slice(s, s + len(k)), numbers**k * ways
        if len(left) > 1 and len(right) > 1:
            presence = (both**k * ways * one[other] * two[kept])[int(not (s and w)) :].sum()
            made += power * presence * (left[1][:, kept] * series) @ right[1][:, other].T
        if s and not w and len(left) > 1:
            made += power * one[s] * (left[1][:, kept] * series) @ right[0][:, other].T
        if w and not s and len(right) > 1:
            made += power * two[w] * (left[0][:, kept] * series) @ right[1][:, other].T
    return made


def _order(column: ReleasedColumn, score: Array) -> Array:
    k = len(column.partition.indicators)
    if column.partition.value is None:
        return np.argsort(np.argsort(score, kind="stable"), kind="stable").astype(np.float64)
    return np.concatenate([np.full(k, -1.0), np.arange(len(score) - k)])


def _coefficients(mass: Array, order: Array) -> Array:
    """Return the coefficients (size, TERMS + 1) of each position's indicator in normalised Hermite polynomials."""
    made = np.zeros((len(mass), TERMS + 1))
    made[:, 0] = mass
    held = np.flatnonzero(order >= 0.0)
    held = held[np.argsort(order[held], kind="stable")]
    total = float(mass[held].sum())
    if not total > 0.0:
        return made
    ends = ndtri(np.clip(np.concatenate([[0.0], np.cumsum(mass[held])]) / total, 0.0, 1.0))
    inner = np.isfinite(ends)
    z = np.where(inner, ends, 0.0)
    density = np.where(inner, np.exp(-0.5 * z**2) / np.sqrt(2.0 * np.pi), 0.0)
    before, now = np.zeros(len(z)), np.ones(len(z))
    polynomials = np.empty((TERMS, len(z)))
    for k, own in enumerate(polynomials, 1):
        own[:] = now
        before, now = now, (z * now - math.sqrt(k - 1.0) * before) / math.sqrt(k)
    made[held, 1:] = (-total * np.diff(polynomials * density) / np.sqrt(np.arange(1.0, TERMS + 1.0))[:, None]).T
    return made


def _summed(coefficients: Array, cells: NDArray[np.int64]) -> Array:
    made = np.zeros((int(cells.max()) + 1, coefficients.shape[1]))
    np.add.at(made, cells, coefficients)
    return made
