"""What comes out of a release of queries about columns and their positions: measurements with values, public."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from trigmech.domain import Domain
from trigmech.functions.partition import Partition
from trigmech.functions.released_column import ReleasedColumn
from trigmech.queries.base import Measurement, Query
from trigmech.queries.joint import Marginal, Products
from trigmech.queries.one_way import Detail, Histogram
from trigmech.schema.schema import Schema

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

Q = TypeVar("Q", bound=Query)


@dataclass(frozen=True, eq=False)
class TableRelease:
    """The noisy numbers of all rounds; everything made from them is post-processing. Public.

    Parameters
    ----------
    n : int
        Rows of the table.
    domain : Domain
    measurements : tuple of Measurement
        With values, in the order in which they were drawn. A query can be measured more than once.
    columns : tuple of ReleasedColumn
        Of each column its positions, and what its distribution is taken to be without regard to other columns.
    schema : Schema, optional
        Whose constraints rows keep.
    importance : float
        Of all tables of three columns together beside all of two, when they were selected.
    """

    n: int
    domain: Domain
    measurements: tuple[Measurement[Query], ...]
    columns: tuple[ReleasedColumn, ...]
    schema: Schema | None = None
    importance: float = 0.0

    def described(self, schema: Schema) -> "TableRelease":
        """Return the release with the schema, whose constraints rows are to keep."""
        return replace(self, schema=schema)

    @cached_property
    def known(self) -> tuple[Measurement[Query], ...]:
        """What is known of each query: of one that was measured several times the mean by the precisions.

        Columns come first, then closer looks, tables of two columns, products, and tables of more columns.
        """
        repeated: dict[int, list[Measurement[Query]]] = {}
        for each in self.measurements:
            repeated.setdefault(id(each.query), []).append(each)
        several = any(len(held) > 1 or len(held[0].query.columns) > 2 for held in repeated.values()
                      if isinstance(held[0].query, Marginal))
        found = []
        for held in repeated.values():
            first, *others = held
            if several and isinstance(first.query, Marginal) and len(first.query.columns) == 2:
                first = first.combined(others[0] if others else None)
                others = others[1:]
            for other in others:
                first = first.combined(other)
            found.append(first)
        return tuple(sorted(found, key=lambda each: _place(each.query)))

    def of(self, kind: type[Q]) -> tuple[Measurement[Q], ...]:
        """Return what is known of the queries of a class."""
        return tuple(cast(Measurement[Q], each) for each in self.known if isinstance(each.query, kind))

    @cached_property
    def looks(self) -> tuple[Measurement[Histogram], ...]:
        """What is known of each column by itself."""
        return self.of(Histogram)

    def look_at(self, column: int) -> Measurement[Histogram] | None:
        """Return the most exact histogram of a column, or None if there is none."""
        own = [look for look in self.looks if look.query.column == column]
        return min(own, key=lambda look: look.deviation) if own else None

    @cached_property
    def closer(self) -> tuple[Measurement[Detail], ...]:
        """What is known of the insides of intervals."""
        return self.of(Detail)

    @cached_property
    def tables(self) -> tuple[Measurement[Marginal], ...]:
        """What is known of tables of two columns."""
        return tuple(each for each in self.of(Marginal) if len(each.query.columns) == 2)

    @cached_property
    def triples(self) -> tuple[Measurement[Marginal], ...]:
        """What is known of tables of more columns."""
        return tuple(each for each in self.of(Marginal) if len(each.query.columns) > 2)

    @cached_property
    def products(self) -> Measurement[Products] | None:
        """What is known of products of scores, if any were measured."""
        held = self.of(Products)
        return held[0] if held else None

    def on(self, columns: Sequence[ReleasedColumn]) -> "TableRelease":
        """Return the release for columns whose positions are cut further."""
        partitions: list[Partition] = [column.partition for column in columns]
        made: dict[int, Query] = {}
        # Maps that several queries share are shared afterwards, so that a fit has each once.
        maps: dict[tuple[int, int], Integers] = {}
        for each in self.measurements:
            query = each.query
            if id(query) in made:
                continue
            again = query.on(partitions)
            if isinstance(query, Marginal) and isinstance(again, Marginal):
                again = replace(again, maps=tuple(
                    maps.setdefault((j, id(before)), after)
                    for j, before, after in zip(query.columns, query.maps, again.maps, strict=True)))
            made[id(query)] = again
        return replace(self, columns=tuple(columns), measurements=tuple(
            replace(each, query=made[id(each.query)]) for each in self.measurements))

    @property
    def K(self) -> int:  # noqa: N802 - the thesis's letter
        """How many numbers are known."""
        return len(self.means)

    @cached_property
    def means(self) -> Array:
        """All noisy frequencies and means (K,), without bias, in the order of `known`."""
        return np.concatenate([np.zeros(0), *(each.means.ravel() for each in self.known)])

    @cached_property
    def deviations(self) -> Array:
        """The standard deviations (K,) of their noise, each by itself; see :attr:`trigmech.NoisyMoments.deviations`."""
        return np.concatenate([np.zeros(0), *(each.deviations for each in self.known)])

    @cached_property
    def kinds(self) -> NDArray[np.str_]:
        """The kind of each (K,)."""
        return np.repeat([each.query.kind for each in self.known], [each.means.size for each in self.known])

    def names(self, coordinates: Sequence[str]) -> list[str]:
        """Return what each is (K,), in words, by the names of the D coordinates; intervals are those of [-1, 1]."""
        return [name for each in self.known for name in each.query.names(coordinates)]


def _place(query: Query) -> tuple[int, int]:
    # Tables of more than two columns come last.
    if query.order == Marginal.order and len(query.columns) > 2:
        return Query.order + 1, 0
    return query.order, query.columns[0] if query.order == Histogram.order else 0
