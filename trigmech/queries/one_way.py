"""Queries about one column: its frequencies, measured as they are, by prefix sums, or by contrasts; and closer looks.

Replacing a row moves one person from one position of the column to another. So two frequencies move by 1/n, one down
and one up: by 2/n in L1, sqrt(2)/n in L2 and 1/n in the largest entry. For prefix sums the distance in L2 is the
largest between two columns of the matrix that is used, see :mod:`trigmech.functions.prefix_sums`. Contrasts are signs,
so each moves by at most 2/n; half of each is measured.
"""

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Self

import numpy as np

from trigmech.errors import InputError
from trigmech.functions import contrasts, prefix_sums
from trigmech.functions.naming import interval_names, position_names
from trigmech.functions.partition import Partition
from trigmech.queries.base import UNIT, Array, Query
from trigmech.queries.book import Book, Numbers, register

# Intervals that are measured by prefix sums, and positions that are by contrasts: what more of them cost is quadratic.
MOST_RANGES, MOST_CONTRASTS = 2**10, 2**8
# How far two entries that move by 1 in opposite directions do so together.
TWO_ENTRIES = {"L1": 2.0, "L2": math.sqrt(2.0), "Linf": 1.0}
ORDERS = {"L1": 1, "L2": 2, "Linf": np.inf}


@register
@dataclass(frozen=True, eq=False)
class Histogram(Query):
    """The frequencies of the positions of one column, measured as they are.

    Parameters
    ----------
    column : int
        By position in the schema.
    partition : Partition
        The partition of that column.
    """

    name: ClassVar[str] = "histogram"
    order: ClassVar[int] = 0  # type: ignore[misc]
    column: int
    partition: Partition

    @property
    def size(self) -> int:
        """How many numbers are drawn."""
        return self.partition.size

    @property
    def shape(self) -> tuple[int, ...]:
        """The positions."""
        return (self.partition.size,)

    @property
    def kind(self) -> str:
        """What it is."""
        return "column"

    @property
    def columns(self) -> tuple[int, ...]:  # type: ignore[override]
        """The column."""
        return (self.column,)

    def evaluate(self, points: Array) -> Array:
        """Return indicators of the positions."""
        return np.eye(self.partition.size)[self.partition.codes(points)]

    def diameter(self, norm: str) -> float:
        """Two frequencies move; a column of a single position never does, and counts as one of two."""
        return TWO_ENTRIES[norm]

    def names(self, coordinates: Sequence[str]) -> list[str]:
        """Return the names of the positions."""
        return position_names(self.partition, coordinates)

    def noise_of(self, values: Array) -> Array:
        """Return the deviations, for noise of deviation 1, of the means (...) of functions (..., positions)."""
        matrix = self.decoding
        return np.asarray(np.linalg.norm(values if matrix is None else values @ matrix, axis=-1))

    def written(self, book: Book) -> tuple[list[int], Array]:
        """Return the number of the partition."""
        return [book.partition(self.column, self.partition)], np.empty(0)

    @classmethod
    def read(cls, integers: Numbers, floats: Numbers, book: Book) -> Self:
        """Return the query of a partition."""
        column, partition = book.partition_at(integers.one())
        return cls(column, partition)

    @cached_property
    def greatest_noise(self) -> float:
        """For noise of deviation 1: in the share of rows below a value of a number, wherever it is, or in a category's.
        """
        count = self.partition.intervals
        return math.sqrt(count) if count else float(self.deviations(1.0).max())


@register
@dataclass(frozen=True, eq=False)
class Ranges(Histogram):
    """The frequencies of one column, the intervals of its number by a factor of prefix sums; for Gaussian noise.

    Prefix sums, which all ranges are differences of, have an error that grows with the logarithm of their number alone.
    """

    name: ClassVar[str] = "ranges"

    def __post_init__(self) -> None:
        if self.partition.intervals > MOST_RANGES:
            raise InputError(f"prefix sums must be of at most {MOST_RANGES} intervals, not {self.partition.intervals}")

    def encode(self, means: Array) -> Array:
        """Return the indicators' frequencies, then the factor times those of the intervals."""
        return prefix_sums.encoded(self.partition, means)

    def decode(self, vector: Array) -> Array:
        """Return the frequencies."""
        return prefix_sums.decoded(self.partition, vector)

    @property
    def decoding(self) -> Array | None:
        """The indicators as they are, then the inverse of the factor."""
        k, c = len(self.partition.indicators), self.partition.intervals
        if not c:
            return None
        matrix = np.eye(k + c)
        matrix[k:, k:] = prefix_sums.inverse(c)
        return matrix

    def deviations(self, deviation: float) -> Array:
        """Return the deviation of each frequency; its noise is correlated with its neighbours'."""
        k, c = len(self.partition.indicators), self.partition.intervals
        if not c:
            return np.full(k, deviation)
        rows = np.sqrt(np.cumsum(prefix_sums.inverse(c)[:, 0] ** 2))
        return deviation * np.concatenate([np.ones(k), rows])

    def noise_of(self, values: Array) -> Array:
        """Return the deviations of means of functions."""
        k, c = len(self.partition.indicators), self.partition.intervals
        if c:
            values = np.concatenate([values[..., :k], values[..., k:] @ prefix_sums.inverse(c)], axis=-1)
        return np.asarray(np.linalg.norm(values, axis=-1))

    def diameter(self, norm: str) -> float:
        """Return the largest distance between the vectors of two positions."""
        if norm == "L2":
            return prefix_sums.diameter(len(self.partition.indicators), self.partition.intervals) or TWO_ENTRIES["L2"]
        both = np.abs(self._encoder[:, :, None] - self._encoder[:, None, :])
        return float((both.sum(axis=0) if norm == "L1" else both.max(axis=0)).max(initial=1.0)) * prefix_sums.ROUNDED_UP

    def rounding(self, norm: str, n: int) -> float:
        """Return the error of sums of up to all intervals' products, whose factors are 1 together, in each entry."""
        entries = {"L1": float(self.size), "L2": math.sqrt(self.size), "Linf": 1.0}[norm]
        return (self.partition.size + 5.0) * UNIT * entries

    @property
    def _encoder(self) -> Array:
        return np.column_stack([self.encode(row) for row in np.eye(self.partition.size)])

    @cached_property
    def greatest_noise(self) -> float:
        """In the share of rows below a value, wherever it is: that of the last prefix sum."""
        c = self.partition.intervals
        return float(np.linalg.norm(prefix_sums.factor(c)[-1])) if c else 1.0


@register
@dataclass(frozen=True, eq=False)
class Contrasts(Histogram):
    """The frequencies of one column of few positions by their contrasts, for noise in the largest entry."""

    name: ClassVar[str] = "contrasts"

    def __post_init__(self) -> None:
        if self.partition.size > MOST_CONTRASTS:
            raise InputError(f"contrasts must be of at most {MOST_CONTRASTS} positions, not {self.partition.size}")

    @property
    def size(self) -> int:
        """One less than there are positions."""
        return self.partition.size - 1

    def encode(self, means: Array) -> Array:
        """Return the means of the contrasts."""
        return np.asarray(means @ contrasts.contrasts(self.partition.size))

    def encoded(self, sums: Array, n: int) -> Array:
        """Return the vector: sums of counts are exact, so they are divided last."""
        return self.encode(sums) / n

    def decode(self, vector: Array) -> Array:
        """Return the frequencies."""
        return contrasts.decoded(vector)

    @property
    def decoding(self) -> Array | None:
        """The matrix of the frequencies."""
        return contrasts.decoding(self.partition.size)

    def diameter(self, norm: str) -> float:
        """Return the largest distance between the signs of two positions: whole numbers, without rounding."""
        signs = contrasts.contrasts(self.partition.size).astype(np.float64)
        apart = [float(np.linalg.norm(signs - own, ORDERS[norm], axis=1).max()) for own in signs]
        return max(apart) if self.size else 0.0

    def rounding(self, norm: str, n: int) -> float:
        """Return the error of sums of up to all positions' products, whose factors are 1 together, in each entry."""
        entries = {"L1": float(self.size), "L2": math.sqrt(self.size), "Linf": 1.0}[norm]
        return (self.partition.size + 5.0) * UNIT * entries

    @cached_property
    def greatest_noise(self) -> float:
        """In the share of rows below a value, wherever it is, or in that of a category."""
        k, c = len(self.partition.indicators), self.partition.intervals
        if not c:
            return float(self.deviations(1.0).max())
        return float(np.linalg.norm(np.cumsum(contrasts.decoding(k + c)[k:], axis=0), axis=1).max())


@register
@dataclass(frozen=True, eq=False)
class Detail(Query):
    """The frequencies of the finer intervals within one interval of a column.

    Parameters
    ----------
    column : int
    partition : Partition
        The partition of the first measurement of that column.
    interval : int
        The interval of that partition.
    edges : ndarray (f + 1,)
        The edges of the finer intervals, from one end of the interval to the other.

    Notes
    -----
    The finer intervals of one column, of however many intervals of one partition, are disjoint: a replaced row moves
    two of all their frequencies.
    """

    name: ClassVar[str] = "detail"
    order: ClassVar[int] = 1  # type: ignore[misc]
    column: int
    partition: Partition
    interval: int
    edges: Array

    @property
    def size(self) -> int:
        """The finer intervals."""
        return len(self.edges) - 1

    @property
    def kind(self) -> str:
        """What it is."""
        return "column, closer"

    @property
    def columns(self) -> tuple[int, ...]:  # type: ignore[override]
        """The column."""
        return (self.column,)

    @cached_property
    def around(self) -> Partition:
        """The finer intervals with what lies below and above them, so that each row has one position."""
        return self.partition.cut(np.concatenate([[-1.0] * bool(self.edges[0] > -1.0), self.edges,
                                                  [1.0] * bool(self.edges[-1] < 1.0)]))

    @property
    def inside(self) -> slice:
        """Where the finer intervals are among the positions of `around`."""
        first = len(self.partition.indicators) + bool(self.edges[0] > -1.0)
        return slice(first, first + self.size)

    def evaluate(self, points: Array) -> Array:
        """Return indicators of the finer intervals."""
        return np.eye(self.around.size)[self.around.codes(points)][:, self.inside]

    def diameter(self, norm: str) -> float:
        """Two frequencies move."""
        return TWO_ENTRIES[norm]

    @property
    def disjoint(self) -> Hashable:
        """The partition, of which each interval is looked at once."""
        return ("detail", self.column, id(self.partition))

    def names(self, coordinates: Sequence[str]) -> list[str]:
        """Return the names of the intervals."""
        return interval_names(coordinates[self.partition.value or 0], self.edges)

    def written(self, book: Book) -> tuple[list[int], Array]:
        """Return the number of the partition and the interval, and the edges."""
        return [book.partition(self.column, self.partition), self.interval], self.edges

    @classmethod
    def read(cls, integers: Numbers, floats: Numbers, book: Book) -> Self:
        """Return the query."""
        (column, partition), interval, edges = book.partition_at(integers.one()), integers.one(), floats.rest()
        if not (0 <= interval < partition.intervals and len(edges) > 1 and (np.diff(edges) > 0).all()
                and (edges[[0, -1]] == partition.edges[interval : interval + 2]).all()):
            raise InputError("the edges of a closer look must ascend from one end of its interval to the other")
        return cls(column, partition, interval, edges)


