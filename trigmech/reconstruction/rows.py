"""Descent over rows: the entries of a table move, one at a time, until the table has the released numbers.

The state is a table of m rows whose entries are positions. Each column has finitely many positions. The objective is
the sum of weight (function of the table - target)^2 over three kinds of functions: the frequencies of each column;
contingency tables of two or three columns, by cells of their positions; and means of products of features of up to
three columns. One step takes a row and a column, and moves the entry to the position with the least objective. All
functions are products of one-column functions. So a move changes few residuals, and these are updated: in each table
two cells change, by one row each. The descent works on whole rows, so its result needs no rounding.

A move to the best position gathers the rows on few combinations, and it changes the column's frequencies. Two rows can
also exchange their entries of a column. An exchange keeps the column's frequencies, and the rows stay as varied as at
the start. So tables of more columns than the objective holds are nearer to the truth.

Rules forbid combinations, and a forbidden move is not made. The columns of a rule also move together: they take the
entries of another row, which are allowed. The objective is updated exactly again, because each table changes in two
cells.

All numbers are in units of rows: a residual is a sum over the m rows less m times the target.
"""

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from trigmech._arrays import Array, Codes, Integers
from trigmech.distribution import systematic
from trigmech.reconstruction import row_arrays
from trigmech.reconstruction.exchange_kernels import exchange, wanted_rows
from trigmech.reconstruction.row_arrays import FittedRows, Objective, Residuals, Sets, joined, sets_of
from trigmech.reconstruction.row_kernels import add_counts, add_products, sweep, write_places
from trigmech.reconstruction.together_kernels import sweep_together

# The columns that move at once, and the tables, products and rules that have any of them.
Together = tuple[Integers, Integers, Integers, Integers]

MOST_SWEEPS = 40
# A sweep has PARTS parts. A descent ends when a part lowers the objective by less than the fraction LEAST_GAIN, or when
# the objective is below the fraction ENOUGH of its expectation under the noise. Going on would fit noise.
PARTS, LEAST_GAIN, ENOUGH = 5, 0.02, 0.05
# The whole remaining misfit can belong to one function that is smooth over a table. So for tables with more than CELLS
# cells both limits are lowered, at most to the fraction LEAST_LEFT.
CELLS, LEAST_LEFT = 25.0, 0.2
# The number of other rows whose entries are tried when columns move together, and with which a row exchanges entries.
OTHERS, PARTNERS = 4, 1
# Rows in cells that should be empty move out if at most this fraction of the rows is in such cells.
MOST_STUCK = 0.2
# Such rows are visited so many times at last, with weights of these cells that are larger by this factor.
LAST_VISITS, WALL = 2, 1e4
# Then all rows move again. In a large fit they also exchange the entries of all tied columns, LAST_EXCHANGES times, and
# this is repeated while it lowers the objective by the fraction LAST_GAIN, at most LAST_ROUNDS times.
LAST_EXCHANGES, LAST_GAIN, LAST_ROUNDS = 2, 0.05, 3


class RowObjective:
    """The objective of a table of rows, built piece by piece and then compiled.

    ``sizes`` holds the number of positions of each column, and ``features`` (size, q_j) the factors of products.
    """

    def __init__(self, sizes: Sequence[int], features: Sequence[Array] | None = None) -> None:
        self.sizes = np.array(sizes, dtype=np.int64)
        self.d = len(self.sizes)
        self._first = np.concatenate([[0], np.cumsum(self.sizes)])
        self.features([np.zeros((size, 0)) for size in sizes] if features is None else features)
        self._frequencies, self._frequency_weights = np.zeros(int(self._first[-1])), np.zeros(self.d)
        self.constant = 0.0
        self._maps: list[tuple[int, Integers]] = []
        self._tables: list[tuple[tuple[int, ...], Array, Array]] = []
        self._products: list[tuple[Integers, Integers, Array, Array]] = []
        self._rules: list[tuple[tuple[int, ...], NDArray[np.bool_]]] = []
        self._together: list[tuple[int, ...]] = []
        self._sparse: list[int] = []

    def features(self, given: Sequence[Array]) -> None:
        """Set the features (size, q_j) of each column's positions."""
        self._features = np.array([values.shape[1] for values in given], dtype=np.int64)
        self._feature = np.zeros((max(int(self._features.max(initial=0)), 1), int(self._first[-1])))
        for j, values in enumerate(given):
            self._feature[: values.shape[1], self._first[j] : self._first[j + 1]] = values.T

    def frequencies(self, column: int, target: Array, weight: float, constant: float = 0.0) -> None:
        """Add a column's frequencies (size,) as targets. The part ``constant`` of their misfit does not count."""
        self._frequencies[self._first[column] : self._first[column + 1]] = target
        self._frequency_weights[column] = weight
        self.constant += constant

    def map(self, column: int, cells: Integers, known: dict[tuple[int, int], int] | None = None) -> int:
        """Add a map (size,) from a column's positions to cells 0, 1, ... if it is not ``known``; return its number."""
        known, key = {} if known is None else known, (column, id(cells))
        if key not in known:
            self._maps.append((column, np.asarray(cells, dtype=np.int64)))
            known[key] = len(self._maps) - 1
        return known[key]

    def table(self, maps: Sequence[int], target: Array, weight: float | Array, *, sparse: bool = False) -> None:
        """Add a contingency table of two or three columns as target, with one map and one axis for each column.

        The weight is one number, or one for each cell. If the table is ``sparse``, rows in cells with target 0 may take
        over another row's entries in all columns of the table.
        """
        if sparse:
            self._sparse.append(len(self._tables))
        self._tables.append((tuple(maps), target, np.broadcast_to(np.asarray(weight, dtype=np.float64), target.shape)))

    def products(self, columns: Integers, features: Integers, targets: Array, weights: Array) -> None:
        """Add means (K,) of products of features as targets.

        ``columns`` (K, any) and ``features`` (K, any) name the factors; a column of -1 means no factor. Features from
        q_j on are the indicators of column j's positions.
        """
        self._products.append((columns, features, targets, weights))

    def rule(self, maps: Sequence[int], allowed: NDArray[np.bool_]) -> None:
        """Allow some combinations of cells of columns, with one map for each column. Moves to others are forbidden."""
        self._rules.append((tuple(maps), allowed))

    def together(self, columns: Sequence[int]) -> None:
        """Let columns also move together. All columns of their rules must be among them."""
        self._together.append(tuple(columns))

    def joint_cells(self, column: int) -> Integers:
        """Return a number for each position (size,) of a column, equal for positions with equal cells in all maps."""
        maps = [cells for own, cells in self._maps if own == column]
        if not maps:
            return np.zeros(int(self.sizes[column]), dtype=np.int64)
        return np.unique(np.column_stack(maps), axis=0, return_inverse=True)[1].ravel().astype(np.int64)

    def compiled(self) -> "CompiledObjective":
        """Return the objective as flat arrays for the kernels."""
        return CompiledObjective(self)


class CompiledObjective:
    """The objective as the flat arrays of :mod:`trigmech.reconstruction.row_arrays`."""

    def __init__(self, asked: RowObjective) -> None:
        self.sizes, self.d, self._constant = asked.sizes, asked.d, asked.constant
        order = sorted(range(len(asked._maps)), key=lambda k: asked._maps[k][0])
        place = {k: i for i, k in enumerate(order)}
        owners, maps = np.array([asked._maps[k][0] for k in order], dtype=np.int64), [asked._maps[k][1] for k in order]
        cell = np.zeros((max(len(order), 1), int(self.sizes.max())), dtype=np.int32)
        for i, cells in enumerate(maps):
            cell[i, : len(cells)] = cells
        tables, rules = (row_arrays.crossings(
            [each[1].shape for each in held], [[place[k] for k in each[0]] for each in held], owners)
                         for held in (asked._tables, asked._rules))
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
            row_arrays.products(columns, features, weights), row_arrays.lists(self.d, tables.columns),
            row_arrays.lists(self.d, rules.columns), row_arrays.groups(self.d, columns, features))
        self._table_sizes, self.firmness = np.diff(tables.offset), 1.0
        measured = tables.columns, columns, rules.columns
        def move(members: Sequence[int]) -> Together:
            of_tables, of_products, of_rules = (np.flatnonzero(np.isin(held, members).any(axis=1)) for held in measured)
            return np.array(members, dtype=np.int64), of_tables, of_products, of_rules

        self._together = [move(members) for members in asked._together]
        sparse = {t: [j for j in tables.columns[t].tolist() if j >= 0] for t in asked._sparse}
        self._sparse = [(t, move(members)) for t, members in sparse.items()]
        # Columns that move together are exchanged together.
        sets = joined(np.arange(self.d), asked._together)
        self._sets = sets_of(sets, measured)
        # Columns that sparse tables tie to each other, directly or by others; None if these are all columns.
        ties = joined(sets, sparse.values())
        self._tied = sets_of(ties, measured) if ties.any() else None
        # A column and those that other sparse tables tie to it, which would hold its entry where it is.
        self._wider: dict[tuple[int, int], Sets] = {}
        for t, held in sparse.items():
            for j in held:
                tied = {h for each in sparse.values() if j in each for h in each} - set(held) | {j}
                own = np.isin(sets, sets[list(tied)])
                if len(tied) > 1:
                    self._wider[t, j] = sets_of(np.where(own, sets[own].min(), sets), measured)

    @property
    def arrays(self) -> tuple[Objective, Sets]:
        """The flat arrays, and the sets of columns that are exchanged together."""
        return self._arrays, self._sets

    @property
    def size(self) -> int:
        """The number of functions with a weight."""
        arrays = self._arrays
        return int(self.sizes[arrays.frequency_weights > 0].sum() + (arrays.table_weights > 0).sum()
                   + (arrays.products.weights > 0).sum())

    def residuals(self, rows: Codes) -> Residuals:
        """Return the residuals of a table (m, d) of positions."""
        m, first = len(rows), self._arrays.first
        residuals = Residuals(*(-m * targets for targets in self._targets))
        for j in range(self.d):
            residuals.frequencies[first[j] : first[j + 1]] += np.bincount(rows[:, j], minlength=int(self.sizes[j]))
        counts = np.zeros_like(residuals.tables)
        add_counts(self._arrays, rows, counts)
        residuals.tables[:] += counts
        add_products(self._arrays, rows, residuals.products)
        return residuals

    def firmer(self, factor: float) -> None:
        """Let products weigh more by this factor while rows move. Their misfit is told by their own weights."""
        self._arrays.products.weights[:] *= factor
        self.firmness *= factor

    def missed(self, rows: Codes, least: float) -> float:
        """Return the mean square misfit of products, in units of their deviations, of ``least`` rows at least."""
        missed, weights = -len(rows) * self._targets.products, self._arrays.products.weights / self.firmness
        add_products(self._arrays, rows, missed)
        return float((np.minimum(weights / len(rows) ** 2, 1.0 / least**2) * missed**2).sum()) / max(len(missed), 1)

    def value(self, residuals: Residuals, m: int, firmness: float = 1.0) -> float:
        """Return the objective of ``m`` rows, with products that weigh less by a factor."""
        arrays = self._arrays
        return float(np.repeat(arrays.frequency_weights, self.sizes) @ residuals.frequencies**2
                     + arrays.table_weights @ residuals.tables**2
                     + arrays.products.weights @ residuals.products**2 / firmness) / m**2 - self._constant

    def sweep(self, rows: Codes, residuals: Residuals, order: Integers, columns: Integers,
              least_gain: float = 0.0, sampled: int | None = None) -> int:
        """Move each entry of some rows once, in place, and update the residuals. Return the number of moves.

        After the first ``sampled`` rows, by default all, entries that will hardly move are left out.
        """
        return sweep(self._arrays, residuals, rows, order, columns, least_gain,
                     len(order) if sampled is None else sampled)

    def sweep_together(self, rows: Codes, residuals: Residuals, order: Integers, columns: Integers,
                       rng: np.random.Generator) -> int:
        """Move columns that move together to the entries of other rows, in place. Return the number of moves."""
        moves, movable = 0, np.isin(np.arange(self.d), columns)
        for members, *held in self._together:
            others = rng.integers(len(rows), size=(len(order), OTHERS))
            # Every second candidate takes over all entries.
            seeds = rng.choice(members, size=others.shape)
            seeds[:, ::2] = -1
            moves += sweep_together(self._arrays, residuals, rows, order, others, seeds, movable, members, *held)
        return moves

    def leave_empty(self, rows: Codes, residuals: Residuals, columns: Integers, rng: np.random.Generator) -> int:
        """Let rows in sparse tables' cells of target 0 take over other rows' entries; return the number of moves.

        A row takes over both entries of another row, or it exchanges one of them, alone or with the columns that other
        sparse tables tie to it. An exchange leaves the columns' own frequencies as they are, which may have so much
        weight that no entry can move alone. The other rows are from cells that want rows, as the exchanged entry does.
        """
        moves, movable = 0, np.isin(np.arange(self.d), columns)
        for t, (members, *held) in self._sparse:
            places = self._places(t, rows)
            stuck = self._stuck(t, places, rng)
            if not len(stuck):
                continue
            others = self._offers(t, places, residuals, stuck, -1, rng)
            moved = sweep_together(self._arrays, residuals, rows, stuck, others, np.full(others.shape, -1), movable,
                                   members, *held)
            places, moves = self._places(t, rows) if moved else places, moves + moved
            for axis, j in enumerate(members.tolist()):
                for sets in (self._sets, self._wider.get((t, j))):
                    stuck = self._stuck(t, places, rng)
                    if len(stuck) and sets is not None:
                        others = self._offers(t, places, residuals, stuck, axis, rng)
                        moved = self.exchange(rows, residuals, stuck, columns, rng, others, [j], sets)
                        places, moves = self._places(t, rows) if moved else places, moves + moved
        return moves

    def clear_empty(self, fitted: FittedRows, rng: np.random.Generator, sampled: int | None = None,
                    tables: Sequence[int] | None = None) -> FittedRows:
        """Let the rows of a finished descent, in place, out of (some) sparse tables' cells of target 0.

        These cells weigh more now than everything else, so other tables and products get a worse fit. Then all rows
        move again, around these cells, and make up for it. If one column is nearly a function of others, an entry
        of it can hardly move alone: its new cells would be empty. So in large fits two rows also exchange the entries
        of all columns that sparse tables tie to each other. This changes only tables with other columns.
        """
        walled, offset = copy(self), self._arrays.tables.offset
        walled._sparse = [each for each in self._sparse if tables is None or each[0] in tables]
        if not walled._sparse:
            return fitted
        rows, every, residuals = fitted.rows, np.arange(self.d), self.residuals(fitted.rows)
        own = np.isin(np.repeat(np.arange(len(self._table_sizes)), self._table_sizes), [t for t, _ in walled._sparse])
        own &= self._targets.tables == 0.0
        walled._arrays = self._arrays._replace(table_weights=self._arrays.table_weights * np.where(own, WALL, 1.0))
        for _ in range(LAST_VISITS):
            walled.leave_empty(rows, residuals, every, rng)
            held = np.any([own[offset[t] + self._places(t, rows)[0]] for t, _ in walled._sparse], axis=0)
            walled.sweep(rows, residuals, rng.permutation(np.flatnonzero(held)), rng.permutation(every))
        before, value = np.inf, self.value(residuals, len(rows))
        for _ in range(LAST_ROUNDS if sampled else 1):
            if value > (1.0 - LAST_GAIN) * before:
                break
            for _ in range(LAST_EXCHANGES if sampled and self._tied is not None else 0):
                walled.exchange(rows, residuals, rng.permutation(len(rows)), every, rng, sets=self._tied)
            walled.sweep(rows, residuals, rng.permutation(len(rows)), rng.permutation(every), sampled=sampled)
            before, value = value, self.value(residuals, len(rows))
        return replace(fitted, misfit=self.value(residuals, len(rows), self.firmness) / max(self.size, 1))

    def _places(self, t: int, rows: Codes) -> Integers:
        """Return the cell (1 + c, m) of each row in table t, and in each of its c columns."""
        places = np.empty((1 + np.count_nonzero(self._arrays.tables.columns[t] >= 0), len(rows)), dtype=np.int64)
        write_places(self._arrays.tables, self._arrays.cell, t, rows, places)
        return places

    def _stuck(self, t: int, places: Integers, rng: np.random.Generator) -> Integers:
        """Return the rows in cells of table t with target 0, in random order; no row if these are many."""
        stuck = np.flatnonzero(self._targets.tables[self._arrays.tables.offset[t] + places[0]] == 0.0)
        return rng.permutation(stuck) if len(stuck) < MOST_STUCK * places.shape[1] else stuck[:0]

    def _offers(self, t: int, places: Integers, residuals: Residuals, stuck: Integers, axis: int,
                rng: np.random.Generator) -> Integers:
        """Return other rows (s, `OFFERS`) for stuck rows, whose entries lead to cells of table t that want rows.

        With ``axis`` 0 or 1, the row takes the entry of this column alone; with -1, it takes both.
        """
        crossings = self._arrays.tables
        own = slice(crossings.offset[t], crossings.offset[t + 1])
        wants = np.where(self._targets.tables[own] > 0.0, np.maximum(-residuals.tables[own], 0.0), 0.0)
        if axis < 0:
            return wanted_rows(wants[None], np.zeros(len(stuck), dtype=np.int64), places[0], rng)
        wants = wants.reshape(-1, int(crossings.strides[t, 0]))
        return wanted_rows(wants.T if axis == 0 else wants, places[2 - axis, stuck], places[1 + axis], rng)

    def exchange(self, rows: Codes, residuals: Residuals, order: Integers, columns: Integers,
                 rng: np.random.Generator, others: Integers | None = None, some: Sequence[int] | None = None,
                 sets: Sets | None = None) -> int:
        """Exchange entries between rows, in place, for columns that move together at once; return the number of moves.

        Each row in ``order`` meets `PARTNERS` rows, or ``others`` (len(order), any), and offers all ``columns``, or
        ``some`` of them.
        """
        if others is None:
            others = rng.integers(len(rows), size=(len(order), PARTNERS))
        sets, fixed = self._sets if sets is None else sets, np.setdiff1d(np.arange(self.d), columns)
        chosen = np.setdiff1d(sets.of if some is None else sets.of[list(some)], sets.of[fixed])
        return exchange(self._arrays, residuals, rows, order, others, chosen, sets)

    def descend(self, rows: Codes, rng: np.random.Generator, *, columns: Sequence[int] | None = None,
                most: int = MOST_SWEEPS, least_move: float = 0.0, enough: float = ENOUGH, exchanging: int = 0,
                smooth: bool = False, sampled: int | None = None,
                progress: Callable[[int, int], None] | None = None) -> FittedRows:
        """Move the rows, in place, until further moves would fit noise.

        The rng draws the order of rows and columns (by default all columns). There are at most ``most`` sweeps. A move
        must gain the fraction ``least_move`` of the objective over the number of entries. The descent ends at a misfit
        of ``enough``; with ``smooth`` it goes further for tables with many cells. In the first ``exchanging`` sweeps
        rows exchange entries too. After the first ``sampled`` rows of a part, by default all, entries that will hardly
        move are left out. ``progress`` is called with the number of finished parts of sweeps and its limit.

        Cost: for each entry, a sweep reads each cell of each table of its column, and each feature of each position. It
        uses one thread, so machines with the same arithmetic give the same bits.
        """
        moving = np.arange(self.d) if columns is None else np.array(columns, dtype=np.int64)
        residuals, count = self.residuals(rows), max(self.size, 1)
        value, parts, left = self.value(residuals, len(rows)), 0, 1.0
        if smooth and len(self._table_sizes):
            left = max(min(1.0, CELLS / max(float(self._table_sizes.mean()), 1.0)), LEAST_LEFT)
        enough, least = left * enough, left * LEAST_GAIN
        while parts < most * PARTS and value > enough * count and len(moving):
            if parts % PARTS == 0:
                order = rng.permutation(len(rows))
            before = value
            # Contiguous whatever their number, so that kernels are compiled once.
            part = np.ascontiguousarray(order[parts % PARTS :: PARTS])
            self.sweep(rows, residuals, part, rng.permutation(moving), least_move * value * len(rows) / self.d,
                       sampled)
            if self._together:
                self.sweep_together(rows, residuals, part, moving, rng)
            if parts < exchanging * PARTS:
                self.exchange(rows, residuals, part, moving, rng)
            done, rest = divmod(parts + 1, PARTS)
            # After the first sweep, the second, the fourth and so on; large fits end with visits that free most rows.
            if self._sparse and rest == 0 and (done == 1 if sampled else done & (done - 1) == 0):
                self.leave_empty(rows, residuals, moving, rng)
            value, parts = self.value(residuals, len(rows)), parts + 1
            if progress is not None:
                progress(parts, most * PARTS)
            # The gain counts only after all rows were visited once.
            if parts > PARTS and value > (1.0 - least) * before:
                break
        return FittedRows(rows, self.value(residuals, len(rows), self.firmness) / count, -(-parts // PARTS),
                          self.firmness)


def independent_rows(masses: Sequence[Array], m: int, rng: np.random.Generator) -> Codes:
    """Return m rows (m, d) of independent columns; frequencies are as near to the masses as whole rows allow."""
    return np.column_stack([rng.permutation(systematic(mass, m, rng)) for mass in masses]).astype(np.int32)
