"""Queries and measurements: functions of rows, and their noisy means. Public.

A query is a vector of functions of a row. Its exact means over the persons of a table are private. `encode` turns them
into the vector that gets the noise, and `decode` turns the noisy vector into unbiased means. `diameter` is the largest
distance that this vector, times the number of persons, can move when one row is replaced. The release, files, error
bars, the report and the fit use these methods only. They need not know the kind of a query.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from trigmech._arrays import Array, Integers
from trigmech._validate import check_positive
from trigmech.domain import Domain
from trigmech.errors import InputError
from trigmech.functions.features import FunctionSet
from trigmech.functions.partition import Partition
from trigmech.queries.places import Place, length

# A computed sum of squares of weights and diameters that should be 1 is below this number.
ROUNDED_UP = 1.0 + 1e-9
UNIT = 2.0**-53
# The distance of two vectors if two entries differ by 1, in opposite directions.
TWO_ENTRIES = {"L1": 2.0, "L2": math.sqrt(2.0), "Linf": 1.0}


class Query(ABC):
    """Functions of a row; their means are measured.

    name: The name of the class in files.
    columns: The columns that the functions use, by position in the schema.
    """

    name: ClassVar[str]
    # The place of the query when a release is shown: columns 0, details of intervals 1, tables 2, products 3, others 4.
    order: int = 4
    # How previews show its noise: that of a "column", of "functions", "tables" or "products"; "" for its kind's name.
    shown_as: ClassVar[str] = ""
    # The columns whose rank correlations it tells, in words.
    correlated: ClassVar[str] = "columns"
    # How its sums over rows are made: as counts of "positions" of a column or of "cells" of a table, as "products" of
    # scores, from the "values" of `evaluate`, or by `means` with a weight of 1 for each row, where these are exact.
    summed: ClassVar[str] = "values"
    # The number of columns of a contingency table; 0 for other queries.
    ways: int = 0
    if TYPE_CHECKING:
        # Fields, class attributes and properties are all right; a property here would hide fields of dataclasses.
        @property
        def columns(self) -> tuple[int, ...]: ...

    @property
    def constant(self) -> bool:
        """Whether the function is the constant alone, whose mean is known."""
        return False

    @property
    @abstractmethod
    def size(self) -> int:
        """The length of the vector that gets the noise."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the means."""
        return (self.size,)

    @property
    @abstractmethod
    def kind(self) -> str:
        """The kind of the query in words. Queries that a reader would count together have the same kind."""

    @property
    def kinds(self) -> NDArray[np.str_]:
        """The kind of each mean, flat. By default all means have the same kind."""
        return np.repeat(self.kind, int(np.prod(self.shape)))

    @abstractmethod
    def evaluate(self, points: Array) -> Array:
        """Return the functions' values (m, number of means), each in [-1, 1], at points (m, D) of the cube."""

    def sparse(self, points: Array) -> csr_matrix:
        """Return the functions' values (m, size of the means) at points (m, D), zeros left out."""
        return csr_matrix(self.evaluate(points))

    def means(self, points: Array, weights: Array | None = None) -> Array:
        """Return the means, in `shape`, over points (m, D). The weights (m,) sum to 1; by default they are equal."""
        values = self.evaluate(points)
        found = values.mean(axis=0) if weights is None else weights @ values
        return np.asarray(found).reshape(self.shape)

    def encode(self, means: Array) -> Array:
        """Return the vector (size,) that gets the noise; it is a linear map of the means in `shape`."""
        return means.ravel()

    def encoded(self, sums: Array, n: int) -> Array:
        """Return the vector (size,) that gets the noise, given the sums over n persons in `shape`."""
        return self.encode(sums / n)

    def decode(self, vector: Array) -> Array:
        """Return unbiased means, in `shape`, from a noisy vector."""
        return vector.reshape(self.shape)

    @property
    def decoding(self) -> Array | None:
        """The matrix (number of means, size) of the linear part of `decode`; None for the identity."""
        return None

    def deviations(self, deviation: float) -> Array:
        """Return the standard deviation of the noise in each mean, flat, given that in each entry of the vector."""
        matrix = self.decoding
        if matrix is None:
            return np.full(self.size, deviation)
        return np.asarray(deviation * np.linalg.norm(matrix, axis=1))

    @abstractmethod
    def diameter(self, norm: str) -> float:
        """Return the largest distance that n times the vector moves when a row is replaced, in "L1", "L2" or "Linf"."""

    def rounding(self, norm: str, n: int) -> float:
        """Return a bound on the distance of the computed vector of n persons from the exact one, in the same norms.

        Sums over rows are exact, and are rounded to floats at most twice. The divisions by n and by a weight add two
        errors.
        """
        return 4.0 * UNIT

    @property
    def tells_tables(self) -> bool:
        """Whether the means determine tables of columns by cells, if the frequencies of the columns are known."""
        return False

    @property
    def correlation_noise(self) -> float:
        """The deviation of a rank correlation, for noise of deviation 1 in each mean; infinite if it is not told."""
        return np.inf

    @property
    def parts(self) -> tuple["Query", ...]:
        """The queries from whose sums this query is computed: its sums are theirs, one after another. Usually ()."""
        return ()

    @property
    def of_set(self) -> tuple[FunctionSet, slice] | None:
        """The set of functions that is evaluated, once for all queries about it, and which of them these are."""
        return None

    @property
    def held(self) -> tuple[tuple[int, Partition], ...]:
        """Columns and their partitions, of whose positions the positions of the fit must be parts; () for most."""
        return ()

    def smoothed(self, smooth: "Smooth") -> csr_matrix | None:
        """Return sums (K, number of means) of the means that are believed beside a fit; None for each mean alone.

        Their noise is independent, with the deviation of the vector's.
        """
        return None

    @property
    def disjoint(self) -> Place | None:
        """The place of rows that this query counts, if a row is at one of several places. None for most queries."""
        return None

    @abstractmethod
    def names(self, coordinates: Sequence[str]) -> list[str]:
        """Return a name for each mean, given the names of the D coordinates."""

    def written(self, book: Any) -> tuple[list[int], Array]:
        """Return the whole numbers and the floats that describe this query in a file.

        book: Holds the partitions and maps that queries share, by number; see :mod:`trigmech.queries.book`.

        Raises an InputError if the query cannot be written.
        """
        raise InputError(f"queries of the kind {self.name!r} have no form in a file: define written and read, and "
                         "register the class by trigmech.queries.book.register")

    @classmethod
    def read(cls, integers: Any, floats: Any, book: Any) -> Self:
        """Return the query that was written.

        integers, floats: The numbers that `written` returned. The method must take all of them.

        Raises an InputError if the numbers do not describe such a query. A file is not trusted.
        """
        raise InputError(f"queries of the kind {cls.name!r} cannot be read")

    @classmethod
    def examples(cls, domain: Domain) -> Sequence[Self]:
        """Return some queries of this kind about the columns of a domain; the tests of all queries try them."""
        return ()

    def on(self, finer: Sequence[Partition], known: dict[Any, Any] | None = None) -> Self:
        """Return the same query for columns with finer positions; ``finer`` holds the partitions of all columns.

        Queries keep objects in ``known`` that other queries of the same release can use again.
        """
        return self


class Smooth(Protocol):
    """Orthonormal smooth functions of positions; see :mod:`trigmech.inference.projection`."""

    def of_cells(self, column: int, cells: Integers) -> Array:
        """Return functions (count, q) of the cells of a released column's positions."""

    def within(self, count: int) -> Array:
        """Return functions (count, q) of the finer intervals of one interval."""

    def of_frequencies(self, query: "Query", column: int, partition: Partition) -> csr_matrix:
        """Return sums (K, size) of the frequencies of a column that was measured at the positions of a partition."""

    def of_contrasts(self, pairs: Integers, maps: Sequence[Integers]) -> csr_matrix:
        """Return sums (K, size) of products of the contrasts of the cells of pairs of columns."""


class Cells(Query):
    """Indicators of disjoint cells. A row is in at most one of them, so a replaced row moves two frequencies."""

    @abstractmethod
    def sparse(self, points: Array) -> csr_matrix: ...

    def evaluate(self, points: Array) -> Array:
        return self.sparse(points).toarray()

    def diameter(self, norm: str) -> float:
        """Two frequencies move. A column with a single position never moves, but counts as one with two positions."""
        return TWO_ENTRIES[norm]


def length_of_ones(norm: str, size: int) -> float:
    return {"L1": float(size), "L2": math.sqrt(size), "Linf": 1.0}[norm]


def parents(finer: Partition, coarse: Partition) -> Integers:
    """Return, for each position (size,) of a finer partition, the position of the coarse one that contains it."""
    k = len(coarse.indicators)
    if coarse.value is None:
        return np.arange(k)
    return np.concatenate([np.arange(k), k + np.searchsorted(coarse.edges[1:-1], finer.centres, side="right")])


def indicators(places: NDArray[Any], size: int) -> csr_matrix:
    """Return the indicators (m, size) of one place of each row (m,)."""
    return csr_matrix((np.ones(len(places)), places, np.arange(len(places) + 1)), shape=(len(places), size))


Q = TypeVar("Q", bound=Query, covariant=True)


@dataclass(frozen=True, eq=False)
class Measurement(Generic[Q]):
    """A query with its weight, its noise and, after the draw, its values.

    weight: A number above 0. The query's vector is multiplied by it before the noise is added, and divided by it
      afterwards.
    values (size,): The noisy vector divided by the weight. None before the draw.
    noise: Standard deviation of the noise in each entry of the weighted vector. The noise is uncorrelated.
    law: The law of the noise, as in its charge.
    """

    query: Q
    weight: float = 1.0
    values: Array | None = None
    noise: float = np.inf
    law: str = "gaussian"

    def __post_init__(self) -> None:
        # A weight below 0 would lower the computed sensitivity of all vectors together.
        check_positive(weight=self.weight)

    def __repr__(self) -> str:
        known = "not drawn" if self.values is None else f"noise {self.deviation:.3g} in each value"
        return f"Measurement({self.query.kind} of columns {self.query.columns}, {self.query.size} numbers, {known})"

    def vector(self, sums: Array, n: int) -> Array:
        """Return the weighted vector of exact sums over n persons. It is private if the sums are."""
        return self.weight * self.query.encoded(sums, n)

    def drawn(self, noisy: Array, noise: float, law: str) -> "Measurement[Q]":
        """Return the measurement with a noisy weighted vector (size,), the deviation of its noise, and the noise's law.
        """
        return replace(self, values=noisy / self.weight, noise=noise, law=law)

    @property
    def known(self) -> Array:
        """The values. Raises an InputError before the draw."""
        if self.values is None:
            raise InputError(f"a query was not measured yet: {self.query.kind} of the columns {self.query.columns}")
        return self.values

    @property
    def deviation(self) -> float:
        """The standard deviation of the noise in each value."""
        return self.noise / self.weight

    @cached_property
    def means(self) -> Array:
        """The noisy means, in the query's shape. They are unbiased."""
        return self.query.decode(self.known)

    @property
    def deviations(self) -> Array:
        """The standard deviation of the noise in each mean, flat."""
        return self.query.deviations(self.deviation)

    @property
    def covariance(self) -> Array:
        """The covariance matrix of the noise in the means, flat."""
        matrix = self.query.decoding
        return self.deviation**2 * (np.eye(self.query.size) if matrix is None else matrix @ matrix.T)

    def combined(self, again: "Measurement[Any] | None") -> "Measurement[Q]":
        """Return the mean of this and another measurement of the same query, weighted by their precisions.

        Without another measurement, return this one with weight 1.
        """
        if again is None and self.weight == 1.0:
            return self
        own, more = self.weight / self.noise, 0.0 if again is None else again.weight / again.noise
        deviation = float(1.0 / np.hypot(own, more))
        values = self.known
        # Files of version 0.1 can hold the same values twice. Their mean must not round.
        if again is not None and not np.array_equal(values, again.known):
            part = (deviation / self.deviation) ** 2
            values = part * values + (1.0 - part) * again.known
        # A sum of noise of two laws has a lighter tail than the heavier law.
        law = again.law if again is not None and self.law == "gaussian" else self.law
        return Measurement(self.query, 1.0, values, deviation, law)


def of_kind(measurements: Iterable[Measurement[Any]], kind: type[Q]) -> tuple[Measurement[Q], ...]:
    """Return the measurements whose queries have this class."""
    return tuple(each for each in measurements if isinstance(each.query, kind))


def moved(measurements: Sequence[Measurement[Any]], norm: str) -> float:
    """Return the largest distance that n times the weighted vectors of all measurements move together.

    Replacing a row moves each vector by at most its weight times its query's diameter. In L1 these distances add up; in
    L2 their squares add up; in Linf the largest one counts. Queries at different places do not add up
    (:class:`trigmech.queries.places.Place`).
    """
    return _joined(measurements, [each.weight * each.query.diameter(norm) for each in measurements], norm)


def sensitivity_of(measurements: Sequence[Measurement[Any]], norm: str, n: int, slack: float = ROUNDED_UP) -> float:
    """Return the largest distance that the computed weighted vectors move when one of n rows is replaced.

    The result includes the rounding errors of both tables' vectors, and a relative slack for the rounding of the result
    itself. The means of queries at different places of one key add up to at most 1, and each is off by a part of
    itself. So the errors of all of them are at most the largest errors that the queries at one place could have.
    """
    rounding = _joined(measurements, [each.weight * each.query.rounding(norm, n) for each in measurements], norm)
    return slack * moved(measurements, norm) / n + 2.0 * rounding


def scaled(measurements: Sequence[Measurement[Any]], norm: str, n: int) -> tuple[Measurement[Any], ...]:
    """Return the measurements with weights in the same proportion; their vectors move by at most 1/n with rounding."""
    whole = n * sensitivity_of(measurements, norm, n, 1.0)
    return tuple(replace(each, weight=each.weight / whole) for each in measurements)


def _joined(measurements: Sequence[Measurement[Any]], parts: Sequence[float], norm: str) -> float:
    """Return the length of the parts of all measurements."""
    return length([each.query.disjoint for each in measurements], parts, norm)


def parted(vector: Array, measurements: Sequence[Measurement[Any]]) -> list[Array]:
    """Return the section of a vector that belongs to each measurement."""
    return np.split(vector, np.cumsum([each.query.size for each in measurements], dtype=np.int64)[:-1])
