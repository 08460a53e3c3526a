"""Queries about one column: its frequencies, directly, by prefix sums or by contrasts; and details of an interval.

Replacing a row moves one person from one position of the column to another. So two frequencies move by 1/n, one down
and one up: by 2/n in L1, sqrt(2)/n in L2 and 1/n in the largest entry. For prefix sums, the distance in L2 is the
largest distance between two columns of the encoding matrix; see :mod:`trigmech.functions.prefix_sums`. Contrasts are
signs, so each moves by at most 2/n, and half of each is measured.
"""

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Self

import numpy as np
from scipy.sparse import csr_matrix

from trigmech._arrays import Array
from trigmech.errors import InputError
from trigmech.functions import contrasts, prefix_sums
from trigmech.functions.naming import interval_names, position_names
from trigmech.functions.partition import Partition
from trigmech.queries.base import TWO_ENTRIES, UNIT, Cells, Query, Smooth, indicators, length_of_ones
from trigmech.queries.book import Book, Numbers, register
from trigmech.queries.places import Place

# The most intervals for prefix sums, and the most positions for contrasts. Time and memory grow with their squares.
MOST_RANGES, MOST_CONTRASTS = 2**10, 2**8
# The most finer intervals that are parts of an interval without levels. More are as fine as it can be measured.
MOST_PARTS = 64
ORDERS = {"L1": 1, "L2": 2, "Linf": np.inf}


@dataclass(frozen=True, eq=False)
class Look(Query):
    """A measurement of the whole distribution of one column."""

    order: ClassVar[int] = 0  # type: ignore[misc]
    kind: ClassVar[str] = "column"
    shown_as: ClassVar[str] = "column"
    # The numbers that get the noise: "frequencies", prefix "sums" of the intervals', another linear "map", which
    # `decode` inverts; or the means of "signs" of positions, which do not tell all frequencies.
    encoding: ClassVar[str] = "map"
    # The number of intervals at either bound that hold a bound and hardly anything else.
    ends: ClassVar[int] = 0
    column: int
    partition: Partition

    @property
    def columns(self) -> tuple[int, ...]:
        return (self.column,)

    @property
    @abstractmethod
    def greatest_noise(self) -> float:
        """The largest deviation, for noise of deviation 1, in the shares that the query tells without bias."""

    @property
    def tells_frequencies(self) -> bool:
        """Whether `decode` gives unbiased frequencies of the positions."""
        return self.encoding != "signs"

    @abstractmethod
    def noise_of(self, values: Array) -> Array:
        """Return the noise's deviations in the means (...) of functions (..., positions), for noise of deviation 1."""

    @property
    def resolved(self) -> Array:
        """The edges (c + 1,) of the intervals that the measured functions tell apart."""
        return self.partition.edges

    @property
    def without_ends(self) -> "Look":
        """The query without the numbers that only tell how many rows hold a bound."""
        return self


@register
@dataclass(frozen=True, eq=False)
class Histogram(Cells, Look):
    """The frequencies of the positions of one column, measured directly."""

    name: ClassVar[str] = "histogram"
    summed: ClassVar[str] = "positions"
    encoding: ClassVar[str] = "frequencies"

    @property
    def size(self) -> int:
        return self.partition.size

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.partition.size,)

    def sparse(self, points: Array) -> csr_matrix:
        return indicators(self.partition.codes(points), self.partition.size)

    def names(self, coordinates: Sequence[str]) -> list[str]:
        return position_names(self.partition, coordinates)

    @property
    def counted(self) -> tuple[Partition, slice]:
        """The positions that are counted, and which of them the query is about."""
        return self.partition, slice(None)

    def smoothed(self, smooth: Smooth) -> csr_matrix:
        return smooth.of_frequencies(self, self.column, self.partition)

    def noise_of(self, values: Array) -> Array:
        matrix = self.decoding
        return np.asarray(np.linalg.norm(values if matrix is None else values @ matrix, axis=-1))

    def written(self, book: Book) -> tuple[list[int], Array]:
        return [book.partition(self.column, self.partition)], np.empty(0)

    @classmethod
    def read(cls, integers: Numbers, floats: Numbers, book: Book) -> Self:
        column, partition = book.partition_at(integers.one())
        return cls(column, partition)

    @cached_property
    def greatest_noise(self) -> float:
        """The largest deviation, for noise of deviation 1.

        For a numeric column it is that of the share of rows below any value; for a categorical column, that of any
        category's frequency.
        """
        count = self.partition.intervals
        return math.sqrt(count) if count else float(self.deviations(1.0).max())


def _at_least_three(partition: Partition) -> None:
    if partition.intervals < 3:
        raise InputError(f"a query with ends needs at least three intervals, not {partition.intervals}")


def _inner(partition: Partition) -> Partition:
    """Return a partition without its ends, which join the intervals beside them."""
    return partition.cut(np.concatenate([[-1.0], partition.edges[2:-2], [1.0]]))


@register
@dataclass(frozen=True, eq=False)
class HistogramWithEnds(Histogram):
    """The frequencies of a number whose first and last interval hold a bound and hardly anything else.

    A histogram costs as much with two more positions, because a row still moves two frequencies.
    """

    name: ClassVar[str] = "histogram and ends"
    ends: ClassVar[int] = 1

    def __post_init__(self) -> None:
        _at_least_three(self.partition)

    @property
    def without_ends(self) -> Look:
        return Histogram(self.column, _inner(self.partition))


class Encoded(Histogram):
    """The frequencies of one column, measured through a linear map of them."""

    encoding: ClassVar[str] = "map"

    def rounding(self, norm: str, n: int) -> float:
        """Return the rounding error. Each entry sums at most one product for each position, with frequencies of sum 1.
        """
        return (self.partition.size + 5.0) * UNIT * length_of_ones(norm, self.size)


@register
@dataclass(frozen=True, eq=False)
class PrefixSums(Encoded):
    """The frequencies of one column, with intervals measured by a factor of prefix sums; for Gaussian noise.

    The share of any range is a difference of two prefix sums. The error of a prefix sum grows only with the logarithm
    of the number of intervals.
    """

    name: ClassVar[str] = "ranges"
    encoding: ClassVar[str] = "sums"

    def __post_init__(self) -> None:
        if self.partition.intervals > MOST_RANGES + 2 * self.ends:
            raise InputError(f"prefix sums can have at most {MOST_RANGES} intervals, not {self.partition.intervals}")

    @property
    def ranged(self) -> slice:
        """The positions that are measured by the factor, so without ends; empty for categories."""
        ends = self.ends if self.partition.intervals else 0
        return slice(len(self.partition.indicators) + ends, self.partition.size - ends)

    @property
    def _count(self) -> int:
        return len(range(*self.ranged.indices(self.partition.size)))

    def encode(self, means: Array) -> Array:
        """Return the frequencies, with those of the ranged intervals multiplied by the factor."""
        return self._times(prefix_sums.factor, means)

    def decode(self, vector: Array) -> Array:
        """Return the frequencies (size,) that measured values imply, without bias."""
        return self._times(prefix_sums.inverse, vector)

    def _times(self, matrix: Callable[[int], Array], vector: Array) -> Array:
        if not self._count:
            return vector
        made = vector.copy()
        made[self.ranged] = matrix(self._count) @ vector[self.ranged]
        return made

    @property
    def decoding(self) -> Array | None:
        """The identity, with the inverse of the factor for the ranged intervals."""
        if not self._count:
            return None
        matrix = np.eye(self.partition.size)
        matrix[self.ranged, self.ranged] = prefix_sums.inverse(self._count)
        return matrix

    def deviations(self, deviation: float) -> Array:
        """Return the deviation of each frequency. The noise of neighbouring intervals is correlated."""
        made = np.ones(self.partition.size)
        if self._count:
            made[self.ranged] = np.sqrt(np.cumsum(prefix_sums.inverse(self._count)[:, 0] ** 2))
        return deviation * made

    def noise_of(self, values: Array) -> Array:
        if self._count:
            values = values.copy()
            values[..., self.ranged] = values[..., self.ranged] @ prefix_sums.inverse(self._count)
        return np.asarray(np.linalg.norm(values, axis=-1))

    def diameter(self, norm: str) -> float:
        if norm == "L2":
            return prefix_sums.diameter(self.partition.size - self._count, self._count) or TWO_ENTRIES["L2"]
        both = np.abs(self._encoder[:, :, None] - self._encoder[:, None, :])
        return float((both.sum(axis=0) if norm == "L1" else both.max(axis=0)).max(initial=1.0)) * prefix_sums.ROUNDED_UP

    @property
    def _encoder(self) -> Array:
        return np.column_stack([self.encode(row) for row in np.eye(self.partition.size)])

    @cached_property
    def greatest_noise(self) -> float:
        """The deviation of the last prefix sum, which is the largest. The ends add their own noise."""
        return math.hypot(*prefix_sums.factor(self._count)[-1], *[1.0] * (2 * self.ends)) if self._count else 1.0


@register
@dataclass(frozen=True, eq=False)
class PrefixSumsWithEnds(PrefixSums):
    """Prefix sums of the inner intervals of a number. The first and the last interval are measured alone.

    These intervals hold a bound and hardly anything else. Many rows can hold a bound: nothing was earned, or the table
    was cut there. Prefix sums would not tell these rows from those beside them. To measure two positions more costs
    nothing: a row that moves to an end moves the vector by the length of a column of the factor, and by 1 in another
    direction, which is less than two columns can be apart.
    """

    name: ClassVar[str] = "ranges and ends"
    ends: ClassVar[int] = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        _at_least_three(self.partition)

    @property
    def without_ends(self) -> Look:
        """The prefix sums of the inner intervals: all that has noise if hardly any rows hold a bound."""
        return PrefixSums(self.column, _inner(self.partition))


@register
@dataclass(frozen=True, eq=False)
class Contrasts(Encoded):
    """The frequencies of one column with few positions, measured by contrasts; for noise in the max norm."""

    name: ClassVar[str] = "contrasts"

    def __post_init__(self) -> None:
        if self.partition.size > MOST_CONTRASTS:
            raise InputError(f"contrasts must be of at most {MOST_CONTRASTS} positions, not {self.partition.size}")

    @property
    def size(self) -> int:
        return self.partition.size - 1

    def encode(self, means: Array) -> Array:
        return np.asarray(means @ contrasts.contrasts(self.partition.size))

    def encoded(self, sums: Array, n: int) -> Array:
        """Return the vector. Sums of counts are exact, so the division comes last."""
        return self.encode(sums) / n

    def decode(self, vector: Array) -> Array:
        return contrasts.decoded(vector)

    @property
    def decoding(self) -> Array | None:
        return contrasts.decoding(self.partition.size)

    def diameter(self, norm: str) -> float:
        """Return the largest distance between the signs of two positions. It is computed without rounding."""
        signs = contrasts.contrasts(self.partition.size).astype(np.float64)
        apart = [float(np.linalg.norm(signs - own, ORDERS[norm], axis=1).max()) for own in signs]
        return max(apart) if self.size else 0.0

    @cached_property
    def greatest_noise(self) -> float:
        """The largest deviation in the share of rows below any value, or in the frequency of any category."""
        k, c = len(self.partition.indicators), self.partition.intervals
        if not c:
            return float(self.deviations(1.0).max())
        return float(np.linalg.norm(np.cumsum(contrasts.decoding(k + c)[k:], axis=0), axis=1).max())


@register
@dataclass(frozen=True, eq=False)
class Detail(Cells):
    """The frequencies of the finer intervals within one interval of a column.

    edges (f + 1,): The edges of the finer intervals, from one end of the interval to the other.

    A row is counted by the details of one interval at most, because the intervals of a partition are disjoint.
    """

    name: ClassVar[str] = "detail"
    kind: ClassVar[str] = "column, closer"
    order: ClassVar[int] = 1  # type: ignore[misc]
    summed: ClassVar[str] = "positions"
    column: int
    partition: Partition
    interval: int
    edges: Array

    @property
    def size(self) -> int:
        return len(self.edges) - 1

    @property
    def columns(self) -> tuple[int, ...]:
        return (self.column,)

    @property
    def by_parts(self) -> bool:
        """Whether some of the finer intervals have several levels, or a number without levels has few of them."""
        levels = self.partition.levels
        return self.size <= MOST_PARTS if levels is None else self.size < len(self.partition.levels_in(self.interval))

    @cached_property
    def around(self) -> Partition:
        """The finer intervals, with an interval below and one above them, so that each row has one position."""
        return self.partition.cut(np.concatenate([[-1.0] * bool(self.edges[0] > -1.0), self.edges,
                                                  [1.0] * bool(self.edges[-1] < 1.0)]))

    @property
    def inside(self) -> slice:
        """The places of the finer intervals among the positions of `around`."""
        first = len(self.partition.indicators) + bool(self.edges[0] > -1.0)
        return slice(first, first + self.size)

    @property
    def counted(self) -> tuple[Partition, slice]:
        """The positions that are counted, and which of them the query is about."""
        return self.around, self.inside

    def smoothed(self, smooth: Smooth) -> csr_matrix:
        return csr_matrix(smooth.within(self.size).T)

    def sparse(self, points: Array) -> csr_matrix:
        return indicators(self.around.codes(points), self.around.size)[:, self.inside]

    @property
    def disjoint(self) -> Place:
        """The interval of the partition of which this is a detail."""
        return Place(("detail", self.column, id(self.partition)), self.interval)

    def names(self, coordinates: Sequence[str]) -> list[str]:
        return interval_names(coordinates[self.partition.value or 0], self.edges)

    def written(self, book: Book) -> tuple[list[int], Array]:
        return [book.partition(self.column, self.partition), self.interval], self.edges

    def divides(self, other: "Detail") -> bool:
        """Whether the other detail measures wider parts of the same interval."""
        return (other.column == self.column and other.by_parts and not self.by_parts
                and bool((other.edges[[0, -1]] == self.edges[[0, -1]]).all()))

    @classmethod
    def read(cls, integers: Numbers, floats: Numbers, book: Book) -> Self:
        (column, partition), interval, edges = book.partition_at(integers.one()), integers.one(), floats.rest()
        if not (0 <= interval < partition.intervals and len(edges) > 1 and (np.diff(edges) > 0).all()
                and (edges[[0, -1]] == partition.edges[interval : interval + 2]).all()):
            raise InputError("the edges of a detail must ascend from one end of its interval to the other")
        return cls(column, partition, interval, edges)


