"""PRIVATE. One sweep over rows for all counts that are asked: compiled, by blocks that stay in cache, on threads.

A block's positions are found once for each partition, and its cells once for each map. Then each table counts the
block. Counts and sums of products of scores are whole numbers, so blocks and threads do not change a bit of them.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from trigmech._arrays import Codes, Integers
from trigmech._parallel import in_order, thread_count
from trigmech.errors import InputError
from trigmech.functions.partition import Partition, all_codes
from trigmech.measurement.compact import Compact, Finder, Layout, layout_of
from trigmech.measurement.sums import Chunk, shares

Cells = NDArray[np.uint32]

# The positions, cells and scores of a block have about so many entries together. A block has so many rows.
ENTRIES, LEAST_ROWS, MOST_ROWS = 2**17, 2**8, 2**13
# Each thread counts in a space of its own, as long as all spaces have at most so many cells together.
MOST_CELLS = 2**25


class Sweep:
    """The tables and products that a sweep counts, see :class:`trigmech.measurement.counts.JointCounts`; public.

    ``shapes`` are the numbers of cells of each column of each table.
    """

    def __init__(self, partitions: Sequence[Partition], tables: Sequence[tuple[Sequence[int], Sequence[Integers]]],
                 shapes: Sequence[tuple[int, ...]], scores: Sequence[Integers], places: Integers) -> None:
        self._partitions = partitions
        self._known: tuple[Layout, list[tuple[int, Finder]] | None] | None = None
        # The same map of the same column is looked up once.
        known: dict[tuple[int, int], int] = {}
        held: list[tuple[int, Integers]] = []
        members = []
        for columns, maps in tables:
            for j, cells in zip(columns, maps, strict=True):
                members.append(known.setdefault((j, id(cells)), len(known)))
                if len(known) > len(held):
                    held.append((j, cells))
        self._maps = _together(held, np.uint32)
        self._scores = _together([(j, score[:, q]) for j, score in enumerate(scores) for q in range(score.shape[1])],
                                 np.int32)
        self._pairs = np.ascontiguousarray(places, dtype=np.int64).reshape(-1, 2)
        sizes = [int(np.prod(shape, dtype=np.int64)) for shape in shapes]
        self._tables = (np.array(members, dtype=np.int64), np.array([size for shape in shapes for size in shape],
                                                                    dtype=np.uint32),
                        _starts([len(shape) for shape in shapes]), _starts(sizes))
        self.size = sum(sizes)

    def counts(self, chunk: Chunk, checked: bool) -> tuple[Integers, Integers]:
        """Return how many rows each cell of the tables has (cells,), and the sums of products (K,).

        If rows are ``checked``, one outside the domain is an InputError. Otherwise such a row has one cell as well.
        """
        n, threads = len(chunk.rows), max(1, min(thread_count(), MOST_CELLS // max(self.size, 1)))
        self._find_layout(chunk)
        parts = list(in_order(lambda first, last: self._counted(chunk, first, last, checked), n,
                              max(-(-n // threads), LEAST_ROWS)))
        if not parts:
            return np.zeros(self.size, dtype=np.int64), np.zeros(len(self._pairs), dtype=np.int64)
        for cells, sums in parts[1:]:
            parts[0][0][:] += cells
            parts[0][1][:] += sums
        return parts[0]

    def cells(self, chunk: Chunk, rows: slice, checked: bool) -> tuple[Cells, Codes]:
        """Return the cell (maps, m) of some rows by each map, and their positions (partitions, m)."""
        self._find_layout(chunk)
        positions = np.empty((len(self._partitions), rows.stop - rows.start), dtype=np.int32)
        self._positions(chunk, rows.start, rows.stop, positions, checked)
        cells = np.empty((len(self._maps[0]), positions.shape[1]), dtype=np.uint32)
        _look_up(positions, positions.shape[1], *self._maps, cells)
        return cells, positions

    def shares(self, cells: Cells, starts: Integers) -> Integers:
        """Return the sums (cells,) of the shares of at most 2^16 persons, whose rows begin at ``starts``."""
        members, sizes, ends, offsets = self._tables
        m, found = cells.shape[1], np.zeros(self.size, dtype=np.int64)
        places = np.empty(m, dtype=np.int64)
        for t in range(len(ends) - 1):
            place(cells, m, members, sizes, ends[t], ends[t + 1], places)
            found[offsets[t] : offsets[t + 1]] = shares(places, starts, int(offsets[t + 1] - offsets[t]))
        return found

    def _find_layout(self, chunk: Chunk) -> None:
        layout = chunk.rows.layout if isinstance(chunk.rows, Compact) else layout_of(chunk.domain)
        if self._known is None or self._known[0] is not layout:
            self._known = layout, layout.finders(self._partitions)

    def _positions(self, chunk: Chunk, first: int, last: int, out: Codes, checked: bool) -> None:
        """Write the positions (partitions, m) of consecutive rows."""
        layout, finders = self._known or (layout_of(chunk.domain), None)
        if isinstance(chunk.rows, Compact):
            arrays = [array[first:last] for array in chunk.rows.arrays]
        else:
            points = np.asarray(chunk.rows[first:last])
            try:
                arrays = list(layout.rows_of(points).arrays)
            except InputError:
                if checked:
                    raise
                finders = None
        if finders is None:
            points = chunk.rows.points(first, last) if isinstance(chunk.rows, Compact) else points
            out[:] = all_codes(self._partitions, points).T
            return
        for (j, finder), own in zip(finders, out, strict=True):
            finder.find(arrays[j], own)

    def _counted(self, chunk: Chunk, first: int, last: int, checked: bool) -> tuple[Integers, Integers]:
        """Return counts and sums of consecutive rows."""
        counts, sums = np.zeros(self.size, dtype=np.int64), np.zeros(len(self._pairs), dtype=np.int64)
        P, S, Q = len(self._partitions), len(self._maps[0]), len(self._scores[0])
        most = min(max(ENTRIES // max(P + S + Q, 1), LEAST_ROWS), MOST_ROWS)
        positions, cells = np.empty((P, most), dtype=np.int32), np.empty((S, most), dtype=np.uint32)
        scores, places = np.empty((Q, most), dtype=np.int32), np.empty(most, dtype=np.int64)
        for start in range(first, last, most):
            m = min(most, last - start)
            self._positions(chunk, start, start + m, positions[:, :m], checked)
            _look_up(positions, m, *self._maps, cells)
            _count(cells, m, *self._tables, places, counts)
            if Q:
                _look_up(positions, m, *self._scores, scores)
                _multiply(scores, m, self._pairs, sums)
        return counts, sums


def _starts(lengths: Sequence[int]) -> Integers:
    return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(lengths, dtype=np.int64)])


def _together(held: Sequence[tuple[int, Integers]], kind: type[np.integer[Any]]
              ) -> tuple[Integers, Integers, NDArray[Any]]:
    """Return functions of positions as arrays: of which partition each is, where it begins, and its values."""
    values = [np.zeros(0, dtype=kind), *(values.astype(kind) for _, values in held)]
    return (np.array([j for j, _ in held], dtype=np.int64), _starts([len(each) for each in values[1:]]),
            np.concatenate(values))


@njit(cache=True, nogil=True)
def _look_up(positions: Codes, m: int, of: Integers, starts: Integers, values: NDArray[Any], out: NDArray[Any]) -> None:
    """Write the value of m rows by each function of positions."""
    for s in range(len(of)):
        own, found, first = positions[of[s]], out[s], starts[s]
        for i in range(m):
            found[i] = values[first + own[i]]


@njit(cache=True, nogil=True)
def place(cells: Cells, m: int, members: Integers, sizes: Cells, low: int, high: int, places: Integers) -> None:
    """Write the cell (m,) of a table that rows have, numbered through, given their cell by each column's map."""
    first = cells[members[low]]
    for i in range(m):
        places[i] = first[i]
    for c in range(low + 1, high):
        own, size = cells[members[c]], np.int64(sizes[c])
        for i in range(m):
            places[i] = places[i] * size + own[i]


@njit(cache=True, nogil=True)
def _count(cells: Cells, m: int, members: Integers, sizes: Cells, ends: Integers, offsets: Integers, places: Integers,
           counts: Integers) -> None:
    """Count m rows in each table."""
    for t in range(len(ends) - 1):
        low, high, own = ends[t], ends[t + 1], counts[offsets[t] : offsets[t + 1]]
        if high - low == 2:
            first, second, size = cells[members[low]], cells[members[low + 1]], sizes[low + 1]
            for i in range(m):
                own[np.uint64(first[i] * size + second[i])] += 1
            continue
        place(cells, m, members, sizes, low, high, places)
        for i in range(m):
            own[places[i]] += 1


@njit(cache=True, nogil=True)
def _multiply(scores: NDArray[np.int32], m: int, pairs: Integers, sums: Integers) -> None:
    """Add the products of the scores of each pair over m rows."""
    for r in range(len(pairs)):
        first, second = scores[pairs[r, 0]], scores[pairs[r, 1]]
        total = np.int64(0)
        for i in range(m):
            total += np.int64(first[i]) * np.int64(second[i])
        sums[r] += total
