"""Samples of more rows than were fitted: rows exchange entries, with changes below the noise of the release.

A sample of so many rows that fitted rows would repeat starts with copies of them. Two rows then exchange the entries of
a column, or of all columns that a constraint ties together (Metropolis et al. 1953). For each column a row meets any
other row, and one with which it has much in common, because other rows can seldom exchange anything. An
exchange leaves each column as it is, and is refused if it would take tables too far from those of the fitted rows. The
tables are the measured ones of two and three columns, and coarse ones of all other pairs of columns. In the end a cell
differs from the fitted rows' by about a sixth of the noise in it, so that measured numbers are as exact as before, and
the exchanges of a block of rows make up for those of the block before. A combination of two cells that no fitted row
has does not occur in further rows either. Numbers are then drawn again: between cells the rows follow the tables,
within them the copula of the release, and in their interval they lie anywhere.

Other releases hold means, which moved numbers would change: their further rows are copies.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from itertools import combinations, pairwise
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import rel_entr

from trigmech._arrays import Array, Codes, Integers
from trigmech._parallel import in_order
from trigmech.distribution import Distribution
from trigmech.functions.released_column import SLACK
from trigmech.measurement.released import Release
from trigmech.reconstruction.constrained import ConstrainedRows
from trigmech.reconstruction.mixing_kernels import Offered, mix, state_of
from trigmech.reconstruction.rows import CompiledObjective, RowObjective
from trigmech.reconstruction.tables import LEAST, copula_of, ridges_of
from trigmech.reconstruction.thinning import MOST, Thinning
from trigmech.schema.encoding import Values
from trigmech.schema.schema import Schema

T = TypeVar("T")

# Rows of a block, at most but for those of a fit with more; a block has whole copies of the fitted rows.
BLOCK = 2**16
# How far tables may come from those of the fitted rows, in deviations of their noise.
APART = 1.0 / 6.0
# Cells of a column in tables that were not measured, and the most tables that offers to two rows look at.
COARSE, MOST_LOOKS = 6, 1_024
# The rows that may meet are so many places apart at most: another number for each column, because nothing would change
# if two rows exchanged all columns.
FARTHEST = 64
# Blocks that are made at once. Each block makes up for the exchanges of the block that comes so many blocks before it.
CHAINS = 2


class FurtherRows:
    """Draws any number of rows from fitted ones.

    schema: All rows keep its constraints, as the fitted ones do.
    release: The fitted points were fitted to it.
    fitted: Points of weight 0 are left out.
    part: The part of all rows that these are, above 0: their tables have so much more noise.

    Privacy: post-processing. Cost: about 6 microseconds a row for 17 columns and 300 tables, and half a second before
    the first row; memory for blocks of 2^16 rows, or of all fitted rows if these are more, two for each thread.
    """

    def __init__(self, schema: Schema, release: Release, fitted: Distribution, part: float = 1.0) -> None:
        held = fitted.weights > 0.0
        self._fitted = fitted if held.all() else Distribution(fitted.points[held], fitted.weights[held])
        self._schema, self._release, self._part = schema, release, part
        self._even = bool(release.columns) and bool(np.ptp(self._fitted.weights) <= SLACK * self._fitted.weights[0])
        self._mixer: _Mixer | None = None
        self._thinning: Thinning | None = None

    def blocks(self, size: int, rng: np.random.Generator) -> Iterator[Array]:
        """Yield ``size`` rows as points (any, D) of the cube, in blocks; the fitted rows themselves if they are enough.
        """
        return self._made(lambda points: points, lambda mixer, rows, own: mixer.placed(rows, own), size, rng)

    def tables(self, size: int, rng: np.random.Generator) -> Iterator[dict[str, Values]]:
        """Yield the same rows as the values of all columns, derived ones too, in blocks."""
        schema = self._schema
        return self._made(lambda points: schema.completed(schema.decode(points)),
                          lambda mixer, rows, own: schema.completed(mixer.decoded(rows, own)), size, rng)

    def _made(self, of_points: Callable[[Array], T], of_rows: "Callable[[_Mixer, Codes, np.random.Generator], T]",
              size: int, rng: np.random.Generator) -> Iterator[T]:
        """Yield something that is made of the points of each block, or of the positions of each block of further rows.

        Several threads make them; the result is the same for any number of threads.
        """
        count = len(self._fitted.points)
        if 1 < size < count <= MOST and self._even:
            yield of_points(self._fitted.points[self._fewer(size, rng)])
            return
        whole = max(BLOCK // count, 1) * count
        ends = [*range(0, max(size, 1), whole), size]
        if size <= count or not self._release.columns:
            yield from (of_points(self._fitted.sample(stop - start, rng)) for start, stop in pairwise(ends))
            return
        if self._mixer is None:
            self._mixer = _Mixer(self._schema, self._release, self._fitted, self._part)
        mixer, seed, apart = self._mixer, int(rng.integers(2**63)), dict[int, Future[Array]]()

        def block(k: int, _: int) -> T:
            own, left = np.random.default_rng([seed, k]), apart.setdefault(k, Future())
            try:
                # Blocks begin in their order, so that no thread waits for one that has not begun.
                before = apart.setdefault(k - CHAINS, Future()).result() if k >= CHAINS else None
                apart.pop(k - CHAINS, None)
                rows, differences = mixer.mixed(self._fitted.drawn(ends[k + 1] - ends[k], own), before, own)
            except BaseException as error:
                left.set_exception(error)
                raise
            left.set_result(differences)
            return of_rows(mixer, rows, own)

        yield from in_order(block, len(ends) - 1, 1)

    def _fewer(self, size: int, rng: np.random.Generator) -> Integers:
        """Return which fitted rows (size,) are most like all of them together."""
        if self._thinning is None:
            self._thinning = Thinning(self._schema.domain, self._fitted.points)
        return self._thinning.nearer(self._fitted.drawn(size, rng))

    def sample(self, size: int, rng: np.random.Generator) -> Array:
        """Return ``size`` rows as points (size, D)."""
        return np.concatenate([self._fitted.points[:0], *self.blocks(size, rng)])


class _Mixer:
    """The tables of fitted rows, and how rows are mixed under them."""

    def __init__(self, schema: Schema, release: Release, fitted: Distribution, part: float) -> None:
        self._constrained = ConstrainedRows(schema, release.columns, release.closer)
        release = self._constrained.of(release)
        self._rows, self._width = self._constrained.positions(fitted.points), fitted.points.shape[1]
        asked = _Asked(release, self._constrained, self._rows, fitted.weights, part)
        self._cells, self._weights, self._objective = asked.cells, fitted.weights, asked.objective.compiled()
        self._exchanges = Exchanges(self._objective, np.array(asked.free), asked.told)
        # In rows of one; infinite where no row is possible.
        self._deviations = np.array(asked.deviations)
        self._walls = np.where(np.concatenate(asked.possible), 0.0, np.inf)
        self._state = self._exchanges.state(self._rows)
        self._copula = copula_of(release)
        self._ridges = ridges_of(release, self._copula)

    def mixed(self, chosen: Integers, apart: Array | None, rng: np.random.Generator) -> tuple[Codes, Array]:
        """Return copies of some fitted rows after exchanges, as positions, and their tables less those of fitted rows.

        ``apart`` are such differences of earlier rows, in rows, which the exchanges reduce. They are infinite in cells
        that no fitted row has.
        """
        state, differences = self._state[chosen], self._walls + self._copies(chosen)
        if apart is not None:
            differences += apart
        # In rows. Wider densities would be pulled by the number of ways to be independent, by about their variance.
        width = APART * len(chosen) * self._deviations
        self._exchanges.mix(state, differences, 0.5 / np.minimum(width**2, width), rng)
        # Read column by column.
        rows = state[:, : self._rows.shape[1]].astype(np.int32, order="F")
        if self._copula is not None:
            self._copula.arrange_within(rows, self._cells, rng, rounds=2, every=False)
        for ridge in self._ridges:
            ridge.arrange_within(rows, self._cells, rng)
        return rows, differences

    def placed(self, rows: Codes, rng: np.random.Generator) -> Array:
        """Return rows of positions as points (m, D)."""
        return self._constrained.placed(rows, self._width, rng)

    def decoded(self, rows: Codes, rng: np.random.Generator) -> dict[str, Values]:
        """Return rows of positions as the values of each column."""
        return self._constrained.decoded(rows, rng)

    def _copies(self, chosen: Integers) -> Array:
        """Return the tables of copies of fitted rows, in rows, less those of the fitted rows."""
        times = np.bincount(chosen, minlength=len(self._weights)) / len(chosen)
        if np.allclose(times, self._weights, rtol=1e-9, atol=0.0):
            return np.zeros(1)
        return self._objective.residuals(self._rows[chosen]).tables


class Exchanges:
    """Offers of exchanges between rows, of each set of columns that move together, under an objective's tables (t,).

    The tables with the least ``free`` are looked at first. ``told`` (d, d) is how much columns tell of each other.
    """

    def __init__(self, objective: CompiledObjective, free: Array, told: Array) -> None:
        self._arrays, sets = objective.arrays
        self._offered, self._sizes = Offered.by(self._arrays, sets, free), objective.sizes
        self._closest = list[int]()
        for own in np.unique(sets.of):
            outside = np.where(sets.of == own, -np.inf, told[sets.of == own].max(axis=0))
            self._closest.append(int(outside.argmax()) if outside.max() > -np.inf else -1)

    def state(self, rows: Codes) -> NDArray[np.integer]:
        """Return the state of rows (m, d), which :meth:`mix` changes; its first d entries are the positions."""
        return state_of(self._arrays, rows)

    def mix(self, state: NDArray[np.integer], differences: Array, weights: Array, rng: np.random.Generator) -> int:
        """Exchange entries, in place, under tables of some weights (t,); return how often.

        ``differences`` are kept up to date. Each row meets another one for each set, and then one more with the same
        entry in the column that tells most of the set: most rows that have little in common cannot exchange anything.
        """
        moves, part = 0, min(1.0, MOST_LOOKS / max(len(self._offered.of), 1))
        for closest in ([-1] * len(self._closest), self._closest):
            for own in rng.permutation(len(closest)).tolist():
                by, step = closest[own], int(rng.integers(1, min(FARTHEST, max(len(state), 1)) + 1))
                moves += mix(state, differences, weights, self._offered, own, by,
                             int(self._sizes[by]) if by >= 0 else 1, part, step, rng)
        return moves


class _Asked:
    """The targets of further rows: the tables of the fitted rows."""

    def __init__(self, release: Release, constrained: ConstrainedRows, rows: Codes, weights: Array,
                 part: float) -> None:
        self.objective = RowObjective([len(column.mass) for column in release.columns])
        self.possible, self.deviations, self.free = [np.ones(0, dtype=np.bool_)], list[float](), list[float]()
        # How much columns tell of each other (d, d), by their tables; it is -inf without one.
        self.told = np.full((self.objective.d, self.objective.d), -np.inf)
        self._rows, self._weights, self._maps = np.asfortranarray(rows), weights, dict[tuple[int, int], int]()
        self._codes = dict[tuple[int, int], Integers]()
        self._of = release.n * part
        shown = {each.query.columns for each in release.tables if each.deviation <= self._noise(each.query.size)}
        for each in (*release.tables, *release.triples):
            self._table(each.query.columns, each.query.maps, each.deviation / part)
        pairs = list(combinations(range(len(release.columns)), 2))
        if release.products is not None and (cells := release.products.query.maps):
            # Products of contrasts tell the tables of all pairs.
            for pair in pairs:
                self._table(pair, [cells[j] for j in pair], np.inf)
            shown.update(pairs)
        # The copula moves rows within the cells of measured tables and of constraints.
        constrained.ask(self.objective)
        self.cells = [self.objective.joint_cells(j) for j in range(self.objective.d)]
        coarse = [_coarse(rows[:, j], len(column.mass), weights) for j, column in enumerate(release.columns)]
        for pair in pairs:
            if pair not in shown:
                self._table(pair, [coarse[j] for j in pair], np.inf)

    def _noise(self, cells: int) -> float:
        """Return the deviation of a cell's frequency among as many rows as were measured, evenly in all cells."""
        return 1.0 / math.sqrt(cells * self._of)

    def _table(self, columns: Sequence[int], maps: Sequence[Integers], deviation: float) -> None:
        """Ask for the fitted rows' table of two columns, whose empty cells stay empty, or of more.

        The deviation is that of the noise, or of tables of as many rows, evenly in all cells, where that is less.
        """
        for j, cells in zip(columns, maps, strict=True):
            if (j, id(cells)) not in self._codes:
                self._codes[j, id(cells)] = cells[self._rows[:, j]]
        shape = tuple(int(cells.max()) + 1 for cells in maps)
        deviation = min(deviation, self._noise(math.prod(shape)))
        place = np.zeros(len(self._rows), dtype=np.int64)
        for j, cells, side in zip(columns, maps, shape, strict=True):
            place = place * side + self._codes[j, id(cells)]
        table = np.bincount(place, self._weights, math.prod(shape)).astype(np.float64).reshape(shape)
        self.deviations.append(max(deviation, LEAST / len(self._rows)))
        self.objective.table([self.objective.map(j, cells, self._maps)
                              for j, cells in zip(columns, maps, strict=True)], table, 1.0)
        self.possible.append((table.ravel() > 0.0) | (len(columns) > 2))
        # How likely entries of two rows are possible together.
        self.free.append(1.0)
        if len(columns) == 2:
            one, two = table.sum(axis=1), table.sum(axis=0)
            self.free[-1] = float(one @ (table > 0.0) @ two)
            told = float(rel_entr(table, np.outer(one, two)).sum())
            self.told[columns, columns[::-1]] = np.maximum(self.told[columns, columns[::-1]], told)


def _coarse(codes: Codes, size: int, weights: Array) -> Integers:
    """Return a map (size,) of a column's positions to a few cells with about equally many of these rows."""
    mass = np.bincount(codes, weights, size)
    middle = np.minimum(np.cumsum(mass) - 0.5 * mass, 1.0 - 1e-9)
    return np.unique((COARSE * np.maximum(middle, 0.0)).astype(np.int64), return_inverse=True)[1].astype(np.int64)
