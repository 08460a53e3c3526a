"""Descent over rows: a table whose entries move, one at a time and exactly, until it has the released numbers.

The state is a table of m rows whose entries are positions, of which each column has finitely many. The objective is the
sum of weight (function of the table - target)^2 over three kinds of functions: each column's own frequencies;
contingency tables of two or three columns, by cells of their positions; and means of products of features of up to
three columns. One step takes one row and one column and moves the entry to the position with the least objective. All
functions are products of one-column functions, so a move changes few residuals, and these are kept up to date: a table
changes in two cells, by one row each. Nothing is relaxed, so nothing is rounded.

A move that goes to the best of all positions gathers the rows on few combinations, and cannot leave a column as it is.
Two rows that exchange their entries of one column do, and stay as varied as the start: the tables of more columns than
were asked for are then nearer to the truth.

Rules forbid combinations: such a move is not offered. Columns that a rule ties together move together as well, to what
another row has of them, which is allowed; the objective changes as exactly, for a table still changes in two cells.

All is in units of rows: residuals are sums over the m rows less m times the target.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trigmech.distribution import systematic
from trigmech.reconstruction.row_kernels import add_products, exchange, sweep, sweep_together

Array = NDArray[np.float64]
Codes = NDArray[np.int32]
Integers = NDArray[np.int64]

# Of how many columns a table is at most.
WIDEST = 3
MOST_SWEEPS = 40
# A descent ends when a fifth of a sweep lowers the objective by less than this part, or when the objective is below
# this part of its expectation under the noise: more would fit noise.
PARTS, LEAST_GAIN, ENOUGH = 5, 0.02, 0.05
# How many other rows are looked at for the entries that columns take over together.
OTHERS = 4
# With how many others a row exchanges entries in a sweep.
PARTNERS = 1


class Residuals(NamedTuple):
    """Sums over the rows less m times the targets, of the columns' frequencies, of tables and of products."""

    frequencies: Array
    tables: Array
    products: Array


@dataclass(frozen=True, eq=False)
class FittedRows:
    """Where a descent ended.

    Parameters
    ----------
    rows : ndarray (m, d) of int
        Positions.
    misfit : float
        The objective over the number of functions: with weights 1 / deviation^2 a reduced chi-square.
    sweeps : int
    """

    rows: Codes
    misfit: float
    sweeps: int


class RowObjective:
    """What a table of rows should have: asked for piece by piece, then descended.

    Parameters
    ----------
    sizes : sequence of int
        Positions of each column.
    features : sequence of ndarray (size, q_j), optional
        Each column's features at its positions, of which products are made.
    """

    def __init__(self, sizes: Sequence[int], features: Sequence[Array] | None = None) -> None:
        self.sizes = np.array(sizes, dtype=np.int64)
        self.d = len(self.sizes)
        self._first = np.concatenate([[0], np.cumsum(self.sizes)])
        given = [np.zeros((size, 0)) for size in sizes] if features is None else list(features)
        self._features = np.array([values.shape[1] for values in given], dtype=np.int64)
        self._feature = np.zeros((max(int(self._features.max(initial=0)), 1), int(self._first[-1])))
        for j, values in enumerate(given):
            self._feature[: values.shape[1], self._first[j] : self._first[j + 1]] = values.T
        self._frequencies, self._frequency_weights = np.zeros(int(self._first[-1])), np.zeros(self.d)
        self._maps: list[tuple[int, Integers]] = []
        self._tables: list[tuple[tuple[int, ...], Array, float]] = []
        self._products: list[tuple[Integers, Integers, Array, Array]] = []
        self._rules: list[tuple[tuple[int, ...], NDArray[np.bool_]]] = []
        self._together: list[tuple[int, ...]] = []

    def frequencies(self, column: int, target: Array, weight: float) -> None:
        """Ask for a column's frequencies (size,)."""
        self._frequencies[self._first[column] : self._first[column + 1]] = target
        self._frequency_weights[column] = weight

    def map(self, column: int, cells: Integers) -> int:
        """Return a number for a map (size,) of a column's positions to cells 0, 1, ..."""
        self._maps.append((column, np.asarray(cells, dtype=np.int64)))
        return len(self._maps) - 1

    def table(self, maps: Sequence[int], target: Array, weight: float) -> None:
        """Ask for the contingency table of two or three columns, by a map of each, the target's axes in this order."""
        self._tables.append((tuple(maps), target, weight))

    def products(self, columns: Integers, features: Integers, targets: Array, weights: Array) -> None:
        """Ask for means (K,) of products of features: ``columns`` (K, any), -1 for none, and ``features`` alike.

        Features from q_j on are the indicators of column j's positions.
        """
        self._products.append((columns, features, targets, weights))

    def rule(self, maps: Sequence[int], allowed: NDArray[np.bool_]) -> None:
        """Allow some combinations of cells of any columns, each column by its map, and forbid moves to the others."""
        self._rules.append((tuple(maps), allowed))

    def together(self, columns: Sequence[int]) -> None:
        """Let columns move together too; all that rules of theirs read must be among them."""
        self._together.append(tuple(columns))

    def compiled(self) -> "CompiledObjective":
        """Return it as the flat arrays that the kernel works on."""
        return CompiledObjective(self)


class CompiledObjective:
    """The objective as flat arrays; see :func:`trigmech.reconstruction.row_kernels.sweep`.

    Parameters
    ----------
    asked : RowObjective
    """

    def __init__(self, asked: RowObjective) -> None:
        self.sizes, self.d, self._first = asked.sizes, asked.d, asked._first
        self._feature, self._features = asked._feature, asked._features
        self._frequencies, self._frequency_weights = asked._frequencies, asked._frequency_weights
        self._set_maps(asked._maps)
        self._set_tables(asked._tables)
        self._set_products(asked._products)
        self._set_rules(asked._rules, asked._together)

    def _set_maps(self, maps: list[tuple[int, Integers]]) -> None:
        order = sorted(range(len(maps)), key=lambda k: maps[k][0])
        self._place = {k: i for i, k in enumerate(order)}
        self._map_owners = np.array([maps[k][0] for k in order], dtype=np.int64)
        self._map_of = np.searchsorted(self._map_owners, np.arange(self.d + 1)).astype(np.int64)
        self._cell = np.zeros((max(len(order), 1), int(self.sizes.max())), dtype=np.int64)
        for i, k in enumerate(order):
            self._cell[i, : len(maps[k][1])] = maps[k][1]
        self._cells = np.array([int(maps[k][1].max()) + 1 for k in order] or [1], dtype=np.int64)

    def _set_tables(self, tables: list[tuple[tuple[int, ...], Array, float]]) -> None:
        count = len(tables)
        self._table_columns, self._table_maps, self._table_strides = (
            np.full((max(count, 1), WIDEST), fill, dtype=np.int64) for fill in (-1, 0, 0))
        for t, (maps, target, _) in enumerate(tables):
            places = [self._place[k] for k in maps]
            self._table_maps[t, : len(maps)] = places
            self._table_columns[t, : len(maps)] = self._map_owners[places]
            self._table_strides[t, : len(maps)] = [int(np.prod(target.shape[c + 1 :])) for c in range(len(maps))]
        self._table_sizes = np.array([target.size for _, target, _ in tables], dtype=np.int64)
        self._table_offset = np.concatenate([[0], np.cumsum(self._table_sizes)]).astype(np.int64)
        self._table_weight = np.array([weight for _, _, weight in tables], dtype=np.float64)
        self._table_target = np.concatenate([target.ravel() for _, target, _ in tables] or [np.zeros(0)])
        self._table_start, self._table_of = _lists(self.d, self._table_columns[:count])

    def _set_products(self, products: list[tuple[Integers, Integers, Array, Array]]) -> None:
        widest = max([columns.shape[1] for columns, *_ in products], default=1)
        parts = [[np.full((0, widest), -1)], [np.zeros((0, widest), dtype=np.int64)]]
        for columns, features, *_ in products:
            missing = ((0, 0), (0, widest - columns.shape[1]))
            parts[0].append(np.pad(columns, missing, constant_values=-1))
            parts[1].append(np.pad(features, missing))
        columns, features = (np.concatenate(part).astype(np.int64) for part in parts)
        self._product_target = np.concatenate([np.zeros(0), *(targets for *_, targets, _ in products)])
        self._product_weight = np.concatenate([np.zeros(0), *(weights for *_, weights in products)])
        held, self._product_columns = columns >= 0, columns
        self._factor_start, self._factor_columns, self._factors = _starts(held), columns[held], features[held]
        self._set_groups(columns, features, held)

    def _set_groups(self, columns: Integers, features: Integers, held: NDArray[np.bool_]) -> None:
        """Put together, of each column, the products that differ in its own feature alone."""
        start, of = _lists(self.d, columns)
        owner = np.repeat(np.arange(self.d), np.diff(start))
        columns, features, held = columns[of], features[of], held[of]
        own = columns == owner[:, None]
        others = np.where(held & ~own, columns * (int(features.max(initial=0)) + 1) + features, -1)
        _, first, group = np.unique(np.column_stack([owner, others]), axis=0, return_index=True, return_inverse=True)
        order = np.argsort(group.ravel(), kind="stable")
        self._product_start = np.concatenate([[0], np.cumsum(np.bincount(group.ravel()))]).astype(np.int64)
        self._product_of, self._product_own = of[order], features[own][order]
        self._group_start = np.searchsorted(owner[first], np.arange(self.d + 1)).astype(np.int64)
        kept = others[first] >= 0
        self._other_start = _starts(kept)
        self._other_columns, self._other_features = columns[first][kept], features[first][kept]

    def _set_rules(self, rules: list[tuple[tuple[int, ...], NDArray[np.bool_]]],
                   together: list[tuple[int, ...]]) -> None:
        count, width = len(rules), max((len(maps) for maps, _ in rules), default=1)
        columns, self._rule_maps, self._rule_strides = (np.full((count, width), fill, dtype=np.int64)
                                                        for fill in (-1, 0, 0))
        for t, (maps, allowed) in enumerate(rules):
            places = [self._place[k] for k in maps]
            columns[t, : len(maps)], self._rule_maps[t, : len(maps)] = self._map_owners[places], places
            self._rule_strides[t, : len(maps)] = [int(np.prod(allowed.shape[c + 1 :])) for c in range(len(maps))]
        self._rule_columns = columns
        self._rule_offset = np.concatenate([[0], np.cumsum([allowed.size for _, allowed in rules])]).astype(np.int64)
        self._forbidden = np.concatenate([~allowed.ravel() for _, allowed in rules] or [np.zeros(0, dtype=np.bool_)])
        self._rule_start, self._rule_of = _lists(self.d, columns)
        self._together = [
            (np.array(members, dtype=np.int64), *(np.flatnonzero(np.isin(held, members).any(axis=1)) for held in (
                self._table_columns[: len(self._table_sizes)], self._product_columns, columns)))
            for members in together]
        # Columns that move together are one set of what is exchanged.
        sets = np.arange(self.d)
        for members in together:
            sets[np.isin(sets, sets[list(members)])] = sets[list(members)].min()
        self._sets, self._of_set = np.unique(sets), sets
        self._exchanged = [_lists(self.d, np.where(held >= 0, sets[held], -1)) for held in (
            np.arange(self.d)[:, None], self._table_columns[: len(self._table_sizes)], self._product_columns, columns)]

    @property
    def size(self) -> int:
        """The number of functions with a weight."""
        return int(self.sizes[self._frequency_weights > 0].sum() + self._table_sizes[self._table_weight > 0].sum()
                   + (self._product_weight > 0).sum())

    def residuals(self, rows: Codes) -> Residuals:
        """Return the residuals of a table (m, d) of positions."""
        m = len(rows)
        frequencies, tables = -m * self._frequencies, -m * self._table_target
        for j in range(self.d):
            frequencies[self._first[j] : self._first[j + 1]] += np.bincount(rows[:, j], minlength=int(self.sizes[j]))
        for t, size in enumerate(self._table_sizes.tolist()):
            place = np.zeros(m, dtype=np.int64)
            for j, k, stride in zip(self._table_columns[t], self._table_maps[t], self._table_strides[t], strict=True):
                if j >= 0:
                    place += stride * self._cell[k, rows[:, j]]
            tables[self._table_offset[t] : self._table_offset[t + 1]] += np.bincount(place, minlength=size)
        products = -m * self._product_target
        add_products(rows, self._first, self._feature, self._features, self._factor_start, self._factor_columns,
                     self._factors, products)
        return Residuals(frequencies, tables, products)

    def value(self, residuals: Residuals, m: int) -> float:
        """Return the objective of m rows with these residuals."""
        return float(np.repeat(self._frequency_weights, self.sizes) @ residuals.frequencies**2
                     + np.repeat(self._table_weight, self._table_sizes) @ residuals.tables**2
                     + self._product_weight @ residuals.products**2) / m**2

    def sweep(self, rows: Codes, residuals: Residuals, order: Integers, columns: Integers,
              least_gain: float = 0.0) -> int:
        """Move each entry of some rows once, in place, and keep the residuals up to date; return the moves."""
        return sweep(rows, order, columns, least_gain, self._first, residuals.frequencies, self._frequency_weights,
                     self._cell, self._cells, self._map_of, self._table_start, self._table_of, self._table_columns,
                     self._table_maps, self._table_strides, self._table_offset, self._table_weight, residuals.tables,
                     self._feature, self._features, self._group_start, self._other_start, self._other_columns,
                     self._other_features, self._product_start, self._product_of, self._product_own,
                     self._product_weight, residuals.products, self._rule_start, self._rule_of, self._rule_columns,
                     self._rule_maps, self._rule_strides, self._rule_offset, self._forbidden)

    def sweep_together(self, rows: Codes, residuals: Residuals, order: Integers, columns: Integers,
                       rng: np.random.Generator) -> int:
        """Move entries of columns that move together to those of other rows, in place; return the moves."""
        moves, movable = 0, np.isin(np.arange(self.d), columns)
        for members, tables, products, rules in self._together:
            others = rng.integers(len(rows), size=(len(order), OTHERS))
            # Every other candidate takes over all entries.
            seeds = rng.choice(members, size=others.shape)
            seeds[:, ::2] = -1
            moves += sweep_together(
                rows, order, others, seeds, movable, members, self._first, residuals.frequencies,
                self._frequency_weights, self._cell, tables, self._table_columns, self._table_maps,
                self._table_strides, self._table_offset, self._table_weight, residuals.tables, self._feature,
                self._features, products, self._factor_start, self._factor_columns, self._factors,
                self._product_weight, residuals.products, rules, self._rule_columns, self._rule_maps,
                self._rule_strides, self._rule_offset, self._forbidden)
        return moves

    def exchange(self, rows: Codes, residuals: Residuals, order: Integers, columns: Integers,
                 rng: np.random.Generator) -> int:
        """Exchange entries of a column, or of all that move together, between rows, in place; return the moves."""
        others = rng.integers(len(rows), size=(len(order), PARTNERS))
        sets = np.setdiff1d(self._sets, self._of_set[np.setdiff1d(np.arange(self.d), columns)])
        members, tables, products, rules = self._exchanged
        return exchange(rows, order, others, sets, self._of_set, *members, self._first, self._cell, *tables,
                        self._table_columns, self._table_maps, self._table_strides, self._table_offset,
                        self._table_weight, residuals.tables, self._feature, self._features, *products,
                        self._factor_start, self._factor_columns, self._factors, self._product_weight,
                        residuals.products, *rules, self._rule_columns, self._rule_maps, self._rule_strides,
                        self._rule_offset, self._forbidden)

    def descend(self, rows: Codes, rng: np.random.Generator, *, columns: Sequence[int] | None = None,
                most: int = MOST_SWEEPS, least_move: float = 0.0, enough: float = ENOUGH, exchanging: int = 0,
                progress: Callable[[int, int], None] | None = None) -> FittedRows:
        """Move the rows, in place, until more would fit the noise.

        Parameters
        ----------
        rows : ndarray (m, d) of int32
            The start.
        rng : numpy.random.Generator
            Of the orders in which rows and columns are visited.
        columns : sequence of int, optional
            That may move. Default: all.
        most : int
            Sweeps at most.
        least_move : float
            What a move must gain, as a part of the objective over the number of entries.
        enough : float
            A misfit at which the descent ends.
        exchanging : int
            In so many sweeps, the first, rows exchange entries too.
        progress : callable, optional
            Called with the parts of sweeps made and the most there can be.

        Notes
        -----
        Cost of a sweep: for each entry one look at each cell of each table of its column, and at each feature of each
        of its positions. One thread: the same bits on any machine of the same arithmetic.
        """
        moving = np.arange(self.d) if columns is None else np.array(columns, dtype=np.int64)
        residuals, count = self.residuals(rows), max(self.size, 1)
        value, parts = self.value(residuals, len(rows)), 0
        while parts < most * PARTS and value > enough * count and len(moving):
            if parts % PARTS == 0:
                order = rng.permutation(len(rows))
            before = value
            part = order[parts % PARTS :: PARTS]
            self.sweep(rows, residuals, part, rng.permutation(moving), least_move * value * len(rows) / self.d)
            if self._together:
                self.sweep_together(rows, residuals, part, moving, rng)
            if parts < exchanging * PARTS:
                self.exchange(rows, residuals, part, moving, rng)
            value, parts = self.value(residuals, len(rows)), parts + 1
            if progress is not None:
                progress(parts, most * PARTS)
            # Before all rows were visited, those that were may be few.
            if parts > PARTS and value > (1.0 - LEAST_GAIN) * before:
                break
        return FittedRows(rows, value / count, -(-parts // PARTS))


def independent_rows(masses: Sequence[Array], m: int, rng: np.random.Generator) -> Codes:
    """Return m rows (m, d) of independent columns with these probabilities (size,), as evenly as rows allow."""
    return np.column_stack([rng.permutation(systematic(mass, m, rng)) for mass in masses]).astype(np.int32)


def _starts(held: NDArray[np.bool_]) -> Integers:
    """Return where each row's entries start among those that are held, and where the last ones end."""
    return np.concatenate([[0], np.cumsum(held.sum(axis=1))]).astype(np.int64)


def _lists(d: int, members: Integers) -> tuple[Integers, Integers]:
    """Return, of sets of columns (K, up to 3), those that hold each column: where its list starts, and the lists."""
    columns, sets = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
    for c in range(members.shape[1]):
        held = np.flatnonzero(members[:, c] >= 0)
        columns.append(members[held, c])
        sets.append(held)
    owner, held = np.unique(np.column_stack([np.concatenate(columns), np.concatenate(sets)]), axis=0).T
    return np.searchsorted(owner, np.arange(d + 1)).astype(np.int64), np.ascontiguousarray(held, dtype=np.int64)
