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

import numpy as np
from numpy.typing import NDArray

from trigmech.distribution import systematic
from trigmech.reconstruction.exchange_kernels import exchange
from trigmech.reconstruction.row_arrays import Objective, Residuals, Sets, crossings, groups, lists, products
from trigmech.reconstruction.row_kernels import add_products, sweep, sweep_together

Array = NDArray[np.float64]
Codes = NDArray[np.int32]
Integers = NDArray[np.int64]

# The columns that move at once, and the tables, products and rules that have any of them.
Together = tuple[Integers, Integers, Integers, Integers]

MOST_SWEEPS = 40
# A descent ends when a fifth of a sweep lowers the objective by less than this part, or when the objective is below
# this part of its expectation under the noise: more would fit noise.
PARTS, LEAST_GAIN, ENOUGH = 5, 0.02, 0.05
# What is left may all be of one function that is smooth over a table: of tables with more than so many cells less must
# be left, down to this part of the two.
CELLS, LEAST_LEFT = 25.0, 0.2
# How many other rows are looked at for the entries that columns take over together.
OTHERS = 4
# As many for entries in a cell that should be empty, if no larger part of the rows has such.
OFFERS, MOST_STUCK = 24, 0.2
# With how many others a row exchanges entries in a sweep.
PARTNERS = 1


@dataclass(frozen=True, eq=False)
class FittedRows:
    """Where a descent ended: positions (m, d), and the objective over the number of functions.

    With weights 1 / deviation^2 that misfit is a reduced chi-square.
    """

    rows: Codes
    misfit: float
    sweeps: int


class RowObjective:
    """What a table of rows should have: asked for piece by piece, then descended.

    Columns have so many positions each, and features (size, q_j) there, of which products are made.
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
        self._tables: list[tuple[tuple[int, ...], Array, Array]] = []
        self._products: list[tuple[Integers, Integers, Array, Array]] = []
        self._rules: list[tuple[tuple[int, ...], NDArray[np.bool_]]] = []
        self._together: list[tuple[int, ...]] = []
        self._sparse: list[int] = []

    def frequencies(self, column: int, target: Array, weight: float) -> None:
        """Ask for a column's frequencies (size,)."""
        self._frequencies[self._first[column] : self._first[column + 1]] = target
        self._frequency_weights[column] = weight

    def map(self, column: int, cells: Integers) -> int:
        """Return a number for a map (size,) of a column's positions to cells 0, 1, ..."""
        self._maps.append((column, np.asarray(cells, dtype=np.int64)))
        return len(self._maps) - 1

    def table(self, maps: Sequence[int], target: Array, weight: float | Array, *, sparse: bool = False) -> None:
        """Ask for the contingency table of two or three columns, by a map of each, the target's axes in this order.

        The weight is that of all cells, or of each. If the table is ``sparse``, rows in cells whose target is 0 are
        offered what other rows have of all its columns.
        """
        if sparse:
            self._sparse.append(len(self._tables))
        self._tables.append((tuple(maps), target, np.broadcast_to(np.asarray(weight, dtype=np.float64), target.shape)))

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

    def joint_cells(self, column: int) -> Integers:
        """Return numbers (size,) of positions, equal for those that no map of the column tells apart."""
        maps = [cells for own, cells in self._maps if own == column]
        if not maps:
            return np.zeros(int(self.sizes[column]), dtype=np.int64)
        return np.unique(np.column_stack(maps), axis=0, return_inverse=True)[1].ravel().astype(np.int64)

    def compiled(self) -> "CompiledObjective":
        """Return it as the flat arrays that the kernel works on."""
        return CompiledObjective(self)


class CompiledObjective:
    """The objective as the flat arrays of :mod:`trigmech.reconstruction.row_arrays`."""

    def __init__(self, asked: RowObjective) -> None:
        self.sizes, self.d = asked.sizes, asked.d
        order = sorted(range(len(asked._maps)), key=lambda k: asked._maps[k][0])
        place = {k: i for i, k in enumerate(order)}
        owners, maps = np.array([asked._maps[k][0] for k in order], dtype=np.int64), [asked._maps[k][1] for k in order]
        cell = np.zeros((max(len(order), 1), int(self.sizes.max())), dtype=np.int64)
        for i, cells in enumerate(maps):
            cell[i, : len(cells)] = cells
        tables, rules = (crossings([each[1].shape for each in held], [[place[k] for k in each[0]] for each in held],
                                   owners) for held in (asked._tables, asked._rules))
        widest = max([columns.shape[1] for columns, *_ in asked._products], default=1)
        columns, features = (np.concatenate([np.zeros((0, widest), dtype=np.int64), *(
            np.pad(each[part], ((0, 0), (0, widest - each[part].shape[1])), constant_values=fill)
            for each in asked._products)]).astype(np.int64) for part, fill in ((0, -1), (1, 0)))
        targets, weights = (np.concatenate([np.zeros(0), *(each[part] for each in asked._products)]) for part in (2, 3))
        self._targets = Residuals(asked._frequencies, np.concatenate(
            [np.zeros(0), *(target.ravel() for _, target, _ in asked._tables)]), targets)
        self._arrays = Objective(
            asked._first, asked._frequency_weights, cell,
            np.array([int(cells.max()) + 1 for cells in maps] or [1], dtype=np.int64),
            np.searchsorted(owners, np.arange(self.d + 1)).astype(np.int64), asked._feature, asked._features,
            tables, np.concatenate([np.zeros(0), *(weight.ravel() for *_, weight in asked._tables)]), rules,
            np.concatenate([np.zeros(0, dtype=np.bool_), *(~allowed.ravel() for _, allowed in asked._rules)]),
            products(columns, features, weights), lists(self.d, tables.columns), lists(self.d, rules.columns),
            groups(self.d, columns, features))
        self._table_sizes = np.diff(tables.offset)
        measured = tables.columns, columns, rules.columns
        def move(members: Sequence[int]) -> Together:
            of_tables, of_products, of_rules = (np.flatnonzero(np.isin(held, members).any(axis=1)) for held in measured)
            return np.array(members, dtype=np.int64), of_tables, of_products, of_rules

        self._together = [move(members) for members in asked._together]
        self._sparse = [(t, move([j for j in tables.columns[t].tolist() if j >= 0])) for t in asked._sparse]
        # Columns that move together are one set of what is exchanged.
        sets = np.arange(self.d)
        for members in asked._together:
            sets[np.isin(sets, sets[list(members)])] = sets[list(members)].min()
        self._sets = Sets(sets, *(lists(self.d, np.where(held >= 0, sets[held], -1))
                                  for held in (np.arange(self.d)[:, None], *measured)))

    @property
    def arrays(self) -> tuple[Objective, Sets]:
        """The flat arrays, and the sets of columns whose entries are exchanged together."""
        return self._arrays, self._sets

    @property
    def size(self) -> int:
        """The number of functions with a weight."""
        arrays = self._arrays
        return int(self.sizes[arrays.frequency_weights > 0].sum() + (arrays.table_weights > 0).sum()
                   + (arrays.products.weights > 0).sum())

    def residuals(self, rows: Codes) -> Residuals:
        """Return the residuals of a table (m, d) of positions."""
        m, first, tables = len(rows), self._arrays.first, self._arrays.tables
        residuals = Residuals(*(-m * targets for targets in self._targets))
        for j in range(self.d):
            residuals.frequencies[first[j] : first[j + 1]] += np.bincount(rows[:, j], minlength=int(self.sizes[j]))
        for t, size in enumerate(self._table_sizes.tolist()):
            place = np.zeros(m, dtype=np.int64)
            for j, k, stride in zip(tables.columns[t], tables.maps[t], tables.strides[t], strict=True):
                if j >= 0:
                    place += stride * self._arrays.cell[k, rows[:, j]]
            residuals.tables[tables.offset[t] : tables.offset[t + 1]] += np.bincount(place, minlength=size)
        add_products(self._arrays, rows, residuals.products)
        return residuals

    def value(self, residuals: Residuals, m: int) -> float:
        """Return the objective of m rows with these residuals."""
        arrays = self._arrays
        return float(np.repeat(arrays.frequency_weights, self.sizes) @ residuals.frequencies**2
                     + arrays.table_weights @ residuals.tables**2
                     + arrays.products.weights @ residuals.products**2) / m**2

    def sweep(self, rows: Codes, residuals: Residuals, order: Integers, columns: Integers,
              least_gain: float = 0.0) -> int:
        """Move each entry of some rows once, in place, and keep the residuals up to date; return the moves."""
        return sweep(self._arrays, residuals, rows, order, columns, least_gain)

    def sweep_together(self, rows: Codes, residuals: Residuals, order: Integers, columns: Integers,
                       rng: np.random.Generator) -> int:
        """Move entries of columns that move together to those of other rows, in place; return the moves."""
        moves, movable = 0, np.isin(np.arange(self.d), columns)
        for members, *held in self._together:
            others = rng.integers(len(rows), size=(len(order), OTHERS))
            # Every other candidate takes over all entries.
            seeds = rng.choice(members, size=others.shape)
            seeds[:, ::2] = -1
            moves += sweep_together(self._arrays, residuals, rows, order, others, seeds, movable, members, *held)
        return moves

    def leave_empty(self, rows: Codes, residuals: Residuals, columns: Integers, rng: np.random.Generator) -> int:
        """Let rows in cells of sparse tables that should be empty take over others' entries; return the moves."""
        moves, movable, tables = 0, np.isin(np.arange(self.d), columns), self._arrays.tables
        for t, (members, *held) in self._sparse:
            place = np.full(len(rows), tables.offset[t])
            for j, k, stride in zip(tables.columns[t], tables.maps[t], tables.strides[t], strict=True):
                if j >= 0:
                    place += stride * self._arrays.cell[k, rows[:, j]]
            stuck = rng.permutation(np.flatnonzero(self._targets.tables[place] == 0.0))
            if len(stuck) and len(stuck) < MOST_STUCK * len(rows):
                others = rng.integers(len(rows), size=(len(stuck), OFFERS))
                all_of_them = np.full(others.shape, -1)
                moves += sweep_together(self._arrays, residuals, rows, stuck, others, all_of_them, movable, members,
                                        *held)
        return moves

    def exchange(self, rows: Codes, residuals: Residuals, order: Integers, columns: Integers,
                 rng: np.random.Generator) -> int:
        """Exchange entries of a column, or of all that move together, between rows, in place; return the moves."""
        others = rng.integers(len(rows), size=(len(order), PARTNERS))
        fixed = np.setdiff1d(np.arange(self.d), columns)
        chosen = np.setdiff1d(self._sets.of, self._sets.of[fixed])
        return exchange(self._arrays, residuals, rows, order, others, chosen, self._sets)

    def descend(self, rows: Codes, rng: np.random.Generator, *, columns: Sequence[int] | None = None,
                most: int = MOST_SWEEPS, least_move: float = 0.0, enough: float = ENOUGH, exchanging: int = 0,
                smooth: bool = False, progress: Callable[[int, int], None] | None = None) -> FittedRows:
        """Move the rows, in place, until more would fit the noise.

        The rng is of the orders in which rows and columns (by default all) are visited, in ``most`` sweeps at most. A
        move must gain ``least_move``, as a part of the objective over the number of entries; the descent ends at a
        misfit of ``enough``, and later if ``smooth`` functions of tables with many cells are to be met. In the first
        ``exchanging`` sweeps rows exchange entries too. ``progress`` is called with the parts of sweeps made and the
        most there can be.

        Cost of a sweep: for each entry one look at each cell of each table of its column, and at each feature of each
        of its positions. One thread: the same bits on any machine of the same arithmetic.
        """
        moving = np.arange(self.d) if columns is None else np.array(columns, dtype=np.int64)
        residuals, count = self.residuals(rows), max(self.size, 1)
        value, parts = self.value(residuals, len(rows)), 0
        left = 1.0
        if smooth and len(self._table_sizes):
            left = max(min(1.0, CELLS / max(float(self._table_sizes.mean()), 1.0)), LEAST_LEFT)
        enough, least = left * enough, left * LEAST_GAIN
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
            if self._sparse and parts % PARTS == PARTS - 1:
                self.leave_empty(rows, residuals, moving, rng)
            value, parts = self.value(residuals, len(rows)), parts + 1
            if progress is not None:
                progress(parts, most * PARTS)
            # Before all rows were visited, those that were may be few.
            if parts > PARTS and value > (1.0 - least) * before:
                break
        return FittedRows(rows, value / count, -(-parts // PARTS))


def independent_rows(masses: Sequence[Array], m: int, rng: np.random.Generator) -> Codes:
    """Return m rows (m, d) of independent columns with these probabilities (size,), as evenly as rows allow."""
    return np.column_stack([rng.permutation(systematic(mass, m, rng)) for mass in masses]).astype(np.int32)
