"""The result of a release: measurements with values. They are public, and everything else is made from them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trigmech._arrays import Array, Integers
from trigmech._deprecated import deprecated
from trigmech.domain import Domain
from trigmech.errors import InputError
from trigmech.functions.chebyshev import ChebyshevBasis
from trigmech.functions.features import Features, FunctionSet
from trigmech.functions.index import FunctionIndex
from trigmech.functions.partition import Partition
from trigmech.functions.released_column import ReleasedColumn
from trigmech.queries.base import Measurement, Query, of_kind
from trigmech.queries.directions import Directions
from trigmech.queries.functions import Functions
from trigmech.queries.joint import Marginal, Products
from trigmech.queries.one_way import Detail, Look
from trigmech.schema.schema import Schema

Q = TypeVar("Q", bound=Query)


@dataclass(frozen=True, eq=False)
class Axes:
    """Released principal axes.

    directions (d, k): Orthonormal columns: the last subspace X^(L).
    images (d, k): The last noisy product W^(L) of the released covariance and the subspace X^(L-1).
    previous (d, k): The subspace X^(L-1).
    """

    directions: Array
    images: Array
    previous: Array

    def eigenvalues(self, how: str) -> Array:
        """Return estimates (k,) of the first eigenvalues, at least 0.

        "norm" is the thesis's |w_s|; the noise of all d entries inflates its square. "rayleigh" is the quotient
        x_s . w_s, which has the noise of one entry.
        """
        if how == "norm":
            return np.linalg.norm(self.images, axis=0)
        return np.maximum(np.einsum("ij,ij->j", self.previous, self.images), 0.0)


@dataclass(frozen=True, eq=False)
class Release:
    """The noisy numbers of all rounds. They are public, and any computation from them is post-processing.

    Parameters
    ----------
    n : int
        The number of rows (persons) of the table.
    domain : Domain
    measurements : tuple of Measurement
        The measurements with values, in the order of their draws. A query can be measured more than once.
    columns : tuple of ReleasedColumn, optional
        The positions of each column and its estimated distribution alone, if columns were measured by positions.
    schema : Schema, optional
        The schema with the constraints of the rows.
    importance : float
        The importance of all tables of three columns together, relative to the tables of two, during selection.
    mean : ndarray (d,), optional
        Noisy mean of the rows, if principal axes were released.
    axes : Axes, optional
    """

    n: int
    domain: Domain
    measurements: tuple[Measurement[Query], ...]
    columns: tuple[ReleasedColumn, ...] = ()
    schema: Schema | None = None
    importance: float = 0.0
    mean: Array | None = None
    axes: Axes | None = None

    def __repr__(self) -> str:
        return f"Release({self.K:,} numbers about {self.n:,} rows)"

    @classmethod
    def of_moments(cls, n: int, features: FunctionSet, means: ArrayLike, deviations: ArrayLike,
                   domain: Domain | None = None, mean: Array | None = None, axes: Axes | None = None) -> "Release":
        """Return a release of the noisy means (K,) of functions, with these standard deviations (K,) of the noise.

        The constant function has deviation 0, because its mean is known.
        """
        values, noise = np.asarray(means, dtype=np.float64), np.asarray(deviations, dtype=np.float64)
        # Neighbouring functions with equal deviations form one measurement.
        ends = np.flatnonzero(np.append(noise[1:] != noise[:-1], True)) + 1
        made = tuple(Measurement(Functions.of(features, domain, slice(a, b)), 1.0, values[a:b], float(noise[a]))
                     for a, b in zip([0, *ends[:-1].tolist()], ends.tolist(), strict=True))
        return cls(n, made[0].query.domain, made, mean=mean, axes=axes)

    def described(self, schema: Schema) -> "Release":
        """Return the release with the schema. Rows made from it keep the schema's constraints."""
        made = replace(self, schema=schema)
        # The same measurements, with which estimates of their tables are kept.
        made.__dict__["known"] = self.known
        return made

    @cached_property
    def known(self) -> tuple[Measurement[Query], ...]:
        """One measurement for each query. Several measurements of a query are averaged, weighted by their precisions.

        Single columns come first, then details of intervals, tables of two columns, products, and larger tables.
        """
        repeated: dict[int, list[Measurement[Query]]] = {}
        for each in self.measurements:
            repeated.setdefault(id(each.query), []).append(each)
        several = any(len(held) > 1 or held[0].query.ways > 2 for held in repeated.values()
                      if held[0].query.ways)
        found = []
        for held in repeated.values():
            first, *others = held
            if several and first.query.ways == 2:
                first = first.combined(others[0] if others else None)
                others = others[1:]
            for other in others:
                first = first.combined(other)
            found.append(first)
        return tuple(sorted(found, key=lambda each: _place(each.query)))

    def of(self, kind: type[Q]) -> tuple[Measurement[Q], ...]:
        """Return the measurements whose queries have this class."""
        return of_kind(self.known, kind)

    @cached_property
    def looks(self) -> tuple[Measurement[Look], ...]:
        """The measurements of single columns."""
        return self.of(Look)  # type: ignore[type-abstract]

    def look_at(self, column: int) -> Measurement[Look] | None:
        """Return the measurement of a column with the least noise, or None if the column was not measured."""
        own = [look for look in self.looks if look.query.column == column]
        return min(own, key=lambda look: look.deviation) if own else None

    @cached_property
    def closer(self) -> tuple[Measurement[Detail], ...]:
        """The measurements inside intervals."""
        return self.of(Detail)

    @cached_property
    def tables(self) -> tuple[Measurement[Marginal], ...]:
        """The measurements of tables of two columns."""
        return tuple(each for each in self.of(Marginal) if each.query.ways == 2)

    @cached_property
    def triples(self) -> tuple[Measurement[Marginal], ...]:
        """The measurements of tables of more columns."""
        return tuple(each for each in self.of(Marginal) if each.query.ways > 2)

    @cached_property
    def products(self) -> Measurement[Products] | None:
        """The measurement of products of scores, if there is one."""
        held = self.of(Products)
        return held[0] if held else None

    @cached_property
    def directions(self) -> Measurement[Directions] | None:
        """The measurement of the directions of rows, if there is one."""
        held = self.of(Directions)
        return held[0] if held else None

    def on(self, columns: Sequence[ReleasedColumn]) -> "Release":
        """Return the release for columns with finer positions."""
        partitions: list[Partition] = [column.partition for column in columns]
        made: dict[int, Query] = {}
        # Objects that several queries share stay shared, so that a fit holds each of them once.
        known: dict[Any, Any] = {}
        for each in self.measurements:
            if id(each.query) not in made:
                made[id(each.query)] = each.query.on(partitions, known)
        return replace(self, columns=tuple(columns), measurements=tuple(
            replace(each, query=made[id(each.query)]) for each in self.measurements))

    @cached_property
    def moments(self) -> tuple[Measurement[Functions], ...]:
        """The measurements of means of functions."""
        return self.of(Functions)

    @cached_property
    def features(self) -> FunctionSet:
        """The measured functions, in the order of their set. Raises an InputError unless all belong to a single set."""
        if not self.of_one_set:
            raise InputError("the release must consist of the means of a single set of functions, and it does not")
        return self.moments[0].query.features

    @property
    def of_one_set(self) -> bool:
        """Whether the release consists of the means of all functions of a single set."""
        held = self.moments
        return 0 < len(held) == len(self.known) and all(
            each.query.features is held[0].query.features for each in held) and [
                k for each in held for k in range(each.query.members.start, each.query.members.stop)
                ] == list(range(held[0].query.features.K))

    @cached_property
    def index(self) -> FunctionIndex:
        """The descriptions of the functions."""
        return FunctionIndex.of(self.features, self.domain)

    @property
    def own_features(self) -> Features:
        """The functions. Raises an InputError if they are custom functions."""
        return Features.of(self.features)

    @property
    def basis(self) -> ChebyshevBasis:
        """The Chebyshev products among the functions. Raises an InputError if these are custom functions."""
        return self.own_features.basis

    @property
    def profiles(self) -> Array:
        """The profiles (G, q + 1) of the functions of whole rows; see :class:`Features`."""
        return self.own_features.profiles

    def of_numbers(self) -> tuple["Release", Integers]:
        """Return a release of the functions that use only numeric coordinates, and their positions.

        Raises
        ------
        InputError
            If the domain has no numeric coordinate.
        """
        chosen = list(self.domain.numbers)
        if not chosen:
            raise InputError("such queries need a column of numbers, and the table has no such column")
        if not self.domain.groups:
            return self, np.arange(self.features.K)
        kept = np.flatnonzero(self.index.degrees[:, chosen].sum(axis=1) == self.index.total)
        return Release.of_moments(self.n, Features(ChebyshevBasis(self.index.degrees[kept][:, chosen])),
                                  self.means[kept], self.deviations[kept]), kept

    @property
    @deprecated("Release.scales", since="0.2", removed_in="0.4", instead="Release.deviations")
    def scales(self) -> Array:
        """The same as ``deviations``, by its older name, which is deprecated since 0.2."""
        return self.deviations

    @property
    def K(self) -> int:  # noqa: N802 - the thesis's letter
        """The number of released values; a query that was measured several times counts once."""
        queries = {id(each.query): each.query for each in self.measurements}
        return sum(math.prod(query.shape) for query in queries.values())

    @cached_property
    def means(self) -> Array:
        """All noisy frequencies and means (K,), in the order of `known`. They are unbiased."""
        return np.concatenate([np.zeros(0), *(each.means.ravel() for each in self.known)])

    @cached_property
    def deviations(self) -> Array:
        """The standard deviations (K,) of the noise of `means`; see :attr:`trigmech.NoisyMoments.deviations`."""
        return np.concatenate([np.zeros(0), *(each.deviations for each in self.known)])

    @cached_property
    def kinds(self) -> NDArray[np.str_]:
        """The kind (K,) of each number of `means`."""
        return np.concatenate([np.zeros(0, dtype=np.str_), *(each.query.kinds for each in self.known)])

    def names(self, coordinates: Sequence[str]) -> list[str]:
        """Return the name of each function (K,), given the names of the D coordinates. Intervals are in [-1, 1]."""
        return [name for each in self.known for name in each.query.names(coordinates)]


def _place(query: Query) -> tuple[int, int]:
    # Tables of more than two columns come last.
    if query.ways > 2:
        return Query.order + 1, 0
    return query.order, query.columns[0] if query.order == Look.order else 0
