"""Queries and measurements: the queries to rows, and their noisy answers. Public.

A query is a vector of functions of a row. Its exact means over the persons of a table are private; `encode` turns them
into the vector that gets the noise, and `decode` turns the noisy vector into unbiased means. `diameter` says how far
that vector moves at most, times the number of persons, when one row is replaced. Everything else in the package asks a
query for what it needs and does not know what kind it is: the release, files, error bars, the report and the fit.
"""

from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Generic, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from trigmech.errors import InputError
from trigmech.functions.partition import Partition

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

# Sums of squares of computed weights and diameters round; a bound of 1 may exceed it by so much.
ROUNDED_UP = 1.0 + 1e-9
UNIT = 2.0**-53


class Query(ABC):
    """Functions of a row whose means are wanted.

    Attributes
    ----------
    name : str
        The name of the class in files.
    columns : tuple of int
        The columns that it is about, by position in the schema.
    """

    name: ClassVar[str]
    columns: tuple[int, ...]
    # Where it stands when a release is shown: columns 0, closer looks 1, tables 2, products 3, others 4.
    order: int = 4

    @property
    @abstractmethod
    def size(self) -> int:
        """How many numbers are drawn."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the means."""
        return (self.size,)

    @property
    @abstractmethod
    def kind(self) -> str:
        """The kind of the query in words, the same for all queries that a reader would count together."""

    @property
    def kinds(self) -> NDArray[np.str_]:
        """The kind of each mean, flat: by default the same for all."""
        return np.repeat(self.kind, int(np.prod(self.shape)))

    @abstractmethod
    def evaluate(self, points: Array) -> Array:
        """Return the functions' values (m, size of the means) at points (m, D) of the cube, each in [-1, 1]."""

    def means(self, points: Array, weights: Array | None = None) -> Array:
        """Return the means, in `shape`, over points (m, D) with weights (m,) of sum 1, by default equal ones."""
        values = self.evaluate(points)
        found = values.mean(axis=0) if weights is None else weights @ values
        return np.asarray(found).reshape(self.shape)

    def encode(self, means: Array) -> Array:
        """Return the vector (size,) that gets the noise, of means in `shape`; a linear map."""
        return means.ravel()

    def encoded(self, sums: Array, n: int) -> Array:
        """Return the vector of the sums over n persons, in `shape`."""
        return self.encode(sums / n)

    def decode(self, vector: Array) -> Array:
        """Return the means, in `shape`, that a noisy vector implies without bias."""
        return vector.reshape(self.shape)

    @property
    def decoding(self) -> Array | None:
        """The matrix (entries of the means, size) of the linear part of `decode`; None for the identity."""
        return None

    def deviations(self, deviation: float) -> Array:
        """Return the standard deviation of each mean, flat, if each entry of the vector has noise of this one."""
        matrix = self.decoding
        if matrix is None:
            return np.full(self.size, deviation)
        return np.asarray(deviation * np.linalg.norm(matrix, axis=1))

    @abstractmethod
    def diameter(self, norm: str) -> float:
        """Return how far n times the vector moves at most when one of n rows is replaced, in "L1", "L2" or "Linf"."""

    def rounding(self, norm: str, n: int) -> float:
        """Return how far the computed vector of n persons lies from the exact one at most, as `diameter` measures.

        Sums over rows are exact, and rounded to floats at most twice; division by n and a weight add two errors.
        """
        return 4.0 * UNIT

    @property
    def disjoint(self) -> Hashable | None:
        """What queries share of which a row can have an entry in one alone: two entries of all of them move at most."""
        return None

    @abstractmethod
    def names(self, coordinates: Sequence[str]) -> list[str]:
        """Return a name for each mean, by the names of the D coordinates."""

    def written(self, book: Any) -> tuple[list[int], Array]:
        """Return the whole numbers and the floats that say, in a file, which query of its kind this is.

        Parameters
        ----------
        book : Book
            Numbers the partitions and maps that queries share; see :mod:`trigmech.queries.book`.

        Raises
        ------
        InputError
            If the query cannot be written.
        """
        raise InputError(f"queries of the kind {self.name!r} have no form in a file: define written and read, and "
                         "register the class by trigmech.queries.book.register")

    @classmethod
    def read(cls, integers: Any, floats: Any, book: Any) -> Self:
        """Return the query that was written.

        Parameters
        ----------
        integers, floats : Numbers
            What `written` returned; all of them are to be taken.
        book : Book

        Raises
        ------
        InputError
            If they are of no such query: nobody needs to trust a file.
        """
        raise InputError(f"queries of the kind {cls.name!r} cannot be read")

    def on(self, finer: Sequence[Partition], known: dict[Any, Any] | None = None) -> Self:
        """Return the same query for columns whose positions are cut further: ``finer`` has all columns' partitions.

        Queries keep in ``known`` what others among those that are cut together can use again.
        """
        return self


def parents(finer: Partition, coarse: Partition) -> Integers:
    """Return of which position of a partition each position (size,) of a finer one is a part."""
    k = len(coarse.indicators)
    if coarse.value is None:
        return np.arange(k)
    return np.concatenate([np.arange(k), k + np.searchsorted(coarse.edges[1:-1], finer.centres, side="right")])


Q = TypeVar("Q", bound=Query, covariant=True)


@dataclass(frozen=True, eq=False)
class Measurement(Generic[Q]):
    """A query, with how exactly it is measured and what came of it.

    Parameters
    ----------
    query : Query
    weight : float
        The query's vector is multiplied by it before the noise is added, and divided by it afterwards; above 0.
    values : ndarray (size,), optional
        The noisy vector divided by the weight. None before it is drawn.
    noise : float
        Standard deviation of the noise in each entry of the weighted vector; it is uncorrelated.
    """

    query: Q
    weight: float = 1.0
    values: Array | None = None
    noise: float = np.inf

    def vector(self, sums: Array, n: int) -> Array:
        """Return the part of the vector that gets the noise, of exact sums over n persons: private, if these are."""
        return self.weight * self.query.encoded(sums, n)

    def drawn(self, noisy: Array, noise: float) -> "Measurement[Q]":
        """Return the measurement with a noisy weighted vector (size,), whose entries have noise of this deviation."""
        return replace(self, values=noisy / self.weight, noise=noise)

    @property
    def known(self) -> Array:
        """The values; an InputError is raised before they are known."""
        if self.values is None:
            raise InputError(f"a query was not measured yet: {self.query.kind} of the columns {self.query.columns}")
        return self.values

    @property
    def deviation(self) -> float:
        """The standard deviation of the noise in each value."""
        return self.noise / self.weight

    @cached_property
    def means(self) -> Array:
        """The noisy means, in the query's shape, without bias."""
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
        """Return the mean by the precisions of this and another measurement of the same query, or of this one alone."""
        if again is None and self.weight == 1.0:
            return self
        own, more = self.weight / self.noise, 0.0 if again is None else again.weight / again.noise
        deviation = float(1.0 / np.hypot(own, more))
        values = self.known
        # If both values are the same, as in files of version 0.1, their mean must not round.
        if again is not None and not np.array_equal(values, again.known):
            part = (deviation / self.deviation) ** 2
            values = part * values + (1.0 - part) * again.known
        return Measurement(self.query, 1.0, values, deviation)


def moved(measurements: Sequence[Measurement[Any]], norm: str) -> float:
    """Return how far n times the weighted vectors of measurements, one after the other, move at most together.

    Replacing a row moves each vector by at most its weight times its query's diameter: in L1 these add up, in L2 their
    squares do, and the largest entry of all is the largest of any.
    """
    parts, together = list[float](), dict[Hashable, float]()
    for each in measurements:
        part, key = each.weight * each.query.diameter(norm), each.query.disjoint
        if key is None:
            parts.append(part)
        else:
            together[key] = max(together.get(key, 0.0), part)
    return _joined([*parts, *together.values()], norm)


def sensitivity_of(measurements: Sequence[Measurement[Any]], norm: str, n: int, slack: float = ROUNDED_UP) -> float:
    """Return how far the weighted vectors of measurements move at most when one of n rows is replaced, as computed.

    With the errors of both tables' vectors, and with a relative slack for the rounding of this very number.
    """
    rounding = _joined([each.weight * each.query.rounding(norm, n) for each in measurements], norm)
    return slack * moved(measurements, norm) / n + 2.0 * rounding


def scaled(measurements: Sequence[Measurement[Any]], norm: str, n: int) -> tuple[Measurement[Any], ...]:
    """Return measurements with weights in the same proportion, whose vectors move by 1/n at most, rounding included."""
    whole = n * sensitivity_of(measurements, norm, n, 1.0)
    return tuple(replace(each, weight=each.weight / whole) for each in measurements)


def _joined(parts: Sequence[float], norm: str) -> float:
    if norm == "Linf":
        return max(parts, default=0.0)
    return float(np.linalg.norm(parts, 1 if norm == "L1" else 2)) if parts else 0.0


def parted(vector: Array, measurements: Sequence[Measurement[Any]]) -> list[Array]:
    """Return the part of a vector that belongs to each of some measurements."""
    return np.split(vector, np.cumsum([each.query.size for each in measurements], dtype=np.int64)[:-1])
