"""Partitions of one column's values: its indicators, then intervals of its number. Public.

A row has exactly one position in a partition, whatever it holds, so the indicators of the positions are a complete
group: their sums over a table are a histogram, of which replacing a row moves one count down and one up.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from trigmech._arrays import Array, Codes, Integers
from trigmech.domain import Domain
from trigmech.errors import InputError

# The width of an end of a continuous column: an interval that hardly holds more than a bound. A millionth of the range.
END = 2.0**-19
# Levels without a scale are evenly spaced but for rounding, which is far below this fraction of their distance.
UNEVEN = 1e-6


@dataclass(frozen=True, eq=False)
class Partition:
    """Finitely many positions of one column: one for each indicator, then one for each interval of its number.

    indicators: Coordinates.
    value: The coordinate of the number; None for categories.
    edges (c + 1,): The edges of the intervals [e_0, e_1), ..., [e_(c-1), e_c], ascending from -1 to 1; empty for
      categories.
    levels (l,): The values that the number can have, ascending, at least one in each interval; None if it is
      continuous.
    """

    indicators: tuple[int, ...]
    value: int | None
    edges: Array
    levels: Array | None = None

    def __post_init__(self) -> None:
        edges = self.edges
        if self.value is None:
            valid = len(edges) == 0 and len(self.indicators) > 0
        else:
            valid = len(edges) > 1 and edges[0] == -1.0 and edges[-1] == 1.0 and bool((np.diff(edges) > 0).all())
        if not valid:
            raise InputError("the edges of a partition must ascend from -1 to 1, and categories must not have edges")

    @property
    def size(self) -> int:
        return len(self.indicators) + self.intervals

    @property
    def intervals(self) -> int:
        return max(len(self.edges) - 1, 0)

    def codes(self, points: Array) -> Codes:
        """Return each row's position (n,), of rows (n, D) that keep to the domain."""
        own = self._indicated(points)
        if self.value is None:
            return np.maximum(own, 0)
        inner = np.searchsorted(self.edges[1:-1], points[:, self.value], side="right").astype(np.int32)
        return np.where(own < 0, inner + np.int32(len(self.indicators)), own)

    def _indicated(self, points: Array) -> Codes:
        """Return the place of each row's indicator (n,) that is 1, or -1 without one."""
        k = len(self.indicators)
        if not k:
            return np.full(len(points), -1, dtype=np.int32)
        first, last = self.indicators[0], self.indicators[-1] + 1
        # A slice of points is no copy, and a product with 1, ..., k is faster than a search.
        held = points[:, first:last] if self.indicators == tuple(range(first, last)) else points[:, self.indicators]
        return np.minimum(held @ np.arange(1.0, k + 1.0), k).astype(np.int32) - np.int32(1)

    def place(self, codes: NDArray, fraction: Array, out: Array) -> None:
        """Write the rows' positions to their coordinates in ``out`` (m, D), which is 0 there.

        codes (m,) of int
        fraction (m,): Where in its interval, or among the levels there, a number lies: at least 0 and below 1.
        out (m, D)
        """
        k = len(self.indicators)
        held = np.flatnonzero(codes < k)
        if k:
            out[held, np.array(self.indicators)[codes[held]]] = 1.0
        if self.value is None:
            return
        free = np.flatnonzero(codes >= k)
        inside = codes[free] - k
        if self.levels is not None:
            first = self.first_levels
            count = np.diff(first)
            out[free, self.value] = self.levels[first[inside] + (fraction[free] * count[inside]).astype(np.int64)]
        else:
            out[free, self.value] = self.between(inside, fraction[free])

    def between(self, inside: NDArray, fraction: Array) -> Array:
        """Return the numbers (m,) at a fraction of their intervals (m,), of a number without levels."""
        low, high = self.edges[inside], self.edges[inside + 1]
        # Rounded up it would be in the next interval.
        return np.minimum(low + fraction * (high - low), np.nextafter(high, low))

    def cut(self, edges: Array) -> "Partition":
        return replace(self, edges=edges)

    def holding(self, other: "Partition") -> Integers:
        """Return the interval in which the middle of each interval (c,) of another partition lies."""
        return np.searchsorted(self.edges[1:-1], 0.5 * (other.edges[1:] + other.edges[:-1]), side="right")

    def finer(self, interval: int, count: int) -> Array:
        """Return the edges (f + 1,) of up to ``count`` equal parts of an interval, or of its single levels.

        An interval as narrow as an end of a column is not divided.
        """
        low, high = self.edges[interval : interval + 2]
        if high - low <= END:
            return np.array([low, high])
        if self.levels is None:
            edges = np.linspace(low, high, count + 1)
        else:
            inside = self.levels_in(interval)
            edges = np.concatenate([[low], between(inside[:-1], inside[1:]), [high]])
        # Where floats are not dense enough for so many.
        return edges if (np.diff(edges) > 0).all() else np.array([low, high])

    def parts(self, interval: int, count: int, finest: int) -> Array:
        """Return the edges of at most ``count`` parts of an interval, equally long or with about as many levels.

        These are some of the edges of the finest parts, which are those of :meth:`finer`.
        """
        finer = self.finer(interval, finest)
        if len(finer) <= count + 1:
            return finer
        if self.levels is None:
            return finer[np.rint(np.linspace(0, len(finer) - 1, count + 1)).astype(np.int64)]
        return np.concatenate([finer[:1], even_edges(self.levels_in(interval), count)[1:-1], finer[-1:]])

    def levels_in(self, interval: int) -> Array:
        """Return the levels of an interval, of a number with levels."""
        levels, (low, high) = np.asarray(self.levels), self.edges[interval : interval + 2]
        # The last interval holds its end.
        return levels[(levels >= low) & ((levels < high) | (high == 1.0))]

    @property
    def centres(self) -> Array:
        """The middle (c,) of each interval, or of its levels."""
        if self.levels is None:
            return 0.5 * (self.edges[1:] + self.edges[:-1])
        first = self.first_levels
        return 0.5 * (self.levels[first[:-1]] + self.levels[first[1:] - 1])

    @property
    def lengths(self) -> Array:
        """Each interval's part (c,) of the range, or of the levels."""
        length = np.diff(self.edges if self.levels is None else self.first_levels)
        return np.asarray(length / length.sum())

    @property
    def first_levels(self) -> Integers:
        """The number (c + 1,), from 0, of the first level of each interval, and how many levels there are."""
        levels = np.empty(0) if self.levels is None else self.levels
        return np.append(np.searchsorted(levels, self.edges[:-1]), len(levels))


def between(below: Array, above: Array) -> Array:
    """Return the edges (m,) between levels (m,) and those that follow: their middles.

    The edge between two levels that are equally far from the middle of the range is exactly 0. A missing value that
    counts as the middle is then at the edge and belongs to the upper level, as :func:`trigmech.schema.rounding.middle`
    decodes it. With a rounding error in the edge it could belong to the lower one.
    """
    middles = 0.5 * (below + above)
    return np.where(np.abs(middles) <= UNEVEN * (above - below), 0.0, middles)


def even_edges(levels: Array | None, count: int) -> Array:
    """Return the edges of at most ``count`` intervals of equal length, or of equally many levels each.

    Levels on a logarithmic scale get intervals of equal length there, each with one level at least: intervals of
    equally many levels would be as if the column had no scale of its own.
    """
    if levels is None:
        return np.linspace(-1.0, 1.0, count + 1)
    count = min(count, len(levels))
    if on_logarithmic_scale(levels):
        low, high, inner = levels[0], levels[-1], np.arange(1, count)
        ahead = np.searchsorted(levels, low + (high - low) * inner / count) - inner
        # Each interval has a level of its own and leaves one to each that follows. The first has two if there are
        # enough, so that the end of the column can be parted from it.
        starts = np.clip(np.maximum.accumulate(ahead), min(1, len(levels) - count), len(levels) - count) + inner
    else:
        # 7 levels in 3 intervals become 3, 2 and 2.
        starts = np.cumsum([len(levels) // count + (i < len(levels) % count) for i in range(count - 1)], dtype=np.int64)
    return np.concatenate([[-1.0], between(levels[starts - 1], levels[starts]), [1.0]])


def of_one_size(column: Partition, wanted: int, most: int) -> Partition:
    """Return a number's partition in intervals that all have as many levels: the wanted number of them or more.

    If 80 levels were in 64 intervals, the first 16 would have two. Densities are smooth from interval to interval, so
    there would be a false peak where intervals become narrower. The last interval can have fewer levels. There are at
    most ``most`` intervals, and as many as wanted without levels or if these lie on a logarithmic scale.
    """
    levels = column.levels
    if levels is None or on_logarithmic_scale(levels):
        return column.cut(even_edges(levels, wanted))
    each = max(len(levels) // wanted, 1)
    if -(-len(levels) // each) > most:
        each += 1
    return column.cut(even_edges(levels, -(-len(levels) // each)))


def on_logarithmic_scale(levels: Array) -> bool:
    """Return whether levels lie on a logarithmic scale. Special values leave gaps in others, but these are few."""
    gaps = np.diff(levels)
    return len(gaps) > 1 and bool(np.median(gaps) > (1.0 + UNEVEN) * gaps.min())


def with_ends(levels: Array | None, edges: Array) -> Array | None:
    """Return the edges with an end of its own at either bound; None if the first and the last interval are ends.

    An end of a continuous number has the width `END`; otherwise it is a single level.
    """
    if levels is None:
        low, high = -1.0 + END, 1.0 - END
    elif len(levels) < 3:
        return None
    else:
        low, high = between(levels[[0, -2]], levels[[1, -1]])
    first, last = edges[1] <= low, edges[-2] >= high
    if first and last:
        return None
    # A few more levels than intervals: some intervals are of one level, and one at a bound can be an end by itself.
    return np.concatenate([[-1.0], [] if first else [low], edges[1:-1], [] if last else [high], [1.0]])


def columns_of(domain: Domain) -> list[Partition]:
    """Return the coarsest partition of each column, in the order of their first coordinates: one interval a number."""
    beside = {group.value: group.coordinates for group in domain.groups if group.value is not None}
    whole = np.array([-1.0, 1.0])
    found = [Partition(group.coordinates, None, np.empty(0)) for group in domain.groups if group.value is None]
    found += [Partition(beside.get(j, ()), j, whole, domain.levels_of(j)) for j in domain.numbers]
    return sorted(found, key=lambda each: min([*each.indicators, *([] if each.value is None else [each.value])]))


def scored_columns(partitions: Sequence[Partition], gaussian: bool) -> list[int]:
    """Return the columns with an order, of which products of ranks can be measured: at least one is a number.

    These are numbers, and for Gaussian noise categories of two: the order of two does not matter, and the one product
    tells their table with the middle of a number, which a table of many cells tells with much more noise. Two
    categories beside each other have a table of a single number, so without a number nothing is gained. For noise in L1
    each further product makes the noise of all larger, and more is lost than gained.
    """
    numbers = [j for j, partition in enumerate(partitions) if partition.value is not None]
    if not (numbers and gaussian):
        return numbers
    return [j for j, partition in enumerate(partitions)
            if partition.value is not None or len(partition.indicators) == 2]


def all_codes(partitions: Sequence[Partition], points: Array) -> Codes:
    """Return the positions (n, columns) of rows (n, D)."""
    return np.column_stack([partition.codes(points) for partition in partitions])
