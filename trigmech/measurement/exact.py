"""PRIVATE. The exact sums of queries over the persons of a table, in one pass over its rows."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from trigmech._arrays import Array, Integers
from trigmech.errors import InputError, TrigmechError
from trigmech.functions import lattice
from trigmech.functions.features import FunctionSet
from trigmech.functions.partition import Partition
from trigmech.measurement.counts import Histograms, JointCounts
from trigmech.measurement.moments import FunctionSums
from trigmech.measurement.rows import PrivateRows
from trigmech.measurement.sums import MOST_VALUES, Chunk, Statistic, Total
from trigmech.queries.base import Query


def exact_sums(rows: PrivateRows, queries: Sequence[Query]) -> list[Array]:
    """Return the exact sums of each query over the persons, in its shape; private.

    queries: Histograms and contingency tables are counted. Products of scores are summed as whole numbers. All other
      queries are evaluated, and their values are rounded to the lattice of functions. A query that is computed from
      parts has the sums of its parts.

    Raises an InputError if the rows leave their domain, or their number differs from the stated one.
    """
    asked = QueryStatistic(tuple(each for query in queries for each in query.parts or (query,)))
    found = iter(asked.parted(rows.sums(asked.statistic)))
    return [np.concatenate([next(found).ravel() for _ in query.parts]) if query.parts else next(found)
            for query in queries]


@dataclass(frozen=True, eq=False)
class QueryStatistic:
    """The statistic that holds the sums of some queries. Queries of one kind are summed together."""

    queries: tuple[Query, ...]

    @cached_property
    def _parts(self) -> list[tuple[list[int], Statistic]]:
        # Positions come first, then cells and products. A set of functions is evaluated once for all queries about it.
        groups: dict[Any, list[int]] = {"positions": [], "joint": []}
        for i, query in enumerate(self.queries):
            kind = {"positions": "positions", "cells": "joint", "products": "joint"}.get(query.summed)
            groups.setdefault(kind or id(query.of_set[0] if query.of_set else query), []).append(i)
        return [(members, _statistic([self.queries[i] for i in members])) for members in groups.values() if members]

    @cached_property
    def statistic(self) -> Statistic:
        """The sums over persons."""
        parts = [statistic for _, statistic in self._parts]
        return parts[0] if len(parts) == 1 else Several(tuple(parts))

    def parted(self, total: Total) -> list[Array]:
        found: dict[int, Array] = {}
        first = 0
        for members, statistic in self._parts:
            own = total.part(slice(first, first + statistic.size))
            own.n, first = total.n, first + statistic.size
            if isinstance(statistic, Histograms):
                for i, counts in zip(members, statistic.parted(own), strict=True):
                    found[i] = counts[cast(Any, self.queries[i]).counted[1]]
            elif isinstance(statistic, JointCounts):
                tables, sums = statistic.parted(own)
                # A statistic of both kinds holds the tables first, then all products.
                sizes = [self.queries[i].size for i in members if self.queries[i].summed == "products"]
                parts = iter(np.split(sums, np.cumsum(sizes)[:-1]) if sizes else ())
                counted = iter(tables)
                for i in members:
                    found[i] = next(parts if self.queries[i].summed == "products" else counted)
            elif isinstance(statistic, FunctionSums):
                sums = statistic.parted(own).basis_sum
                for i in members:
                    query = self.queries[i]
                    found[i] = sums[query.of_set[1]] if query.of_set else sums.reshape(query.shape)
        return [found[i] for i in range(len(self.queries))]


@dataclass(frozen=True, eq=False)
class Several:
    """Several statistics, whose sums stand one after the other."""

    statistics: tuple[Statistic, ...]

    @property
    def size(self) -> int:
        return sum(each.size for each in self.statistics)

    def add(self, chunk: Chunk, total: Total) -> None:
        persons = 0
        for each, part in self._parts(total):
            each.add(chunk, part)
            persons = part.n
        total.n += persons

    def check(self, total: Total) -> None:
        for each, part in self._parts(total):
            part.n = total.n
            each.check(part)

    def _parts(self, total: Total) -> list[tuple[Statistic, Total]]:
        ends = np.cumsum([each.size for each in self.statistics]).tolist()
        return [(each, total.part(slice(end - each.size, end)))
                for each, end in zip(self.statistics, ends, strict=True)]


@dataclass(frozen=True, eq=False)
class _Evaluated:
    """A query, seen as a set of functions with values in [-1, 1]."""

    query: Query

    @property
    def K(self) -> int:  # noqa: N802 - the thesis's letter
        return int(np.prod(self.query.shape))

    @property
    def rows_at_a_time(self) -> int:
        """The number of rows that have at most `MOST_VALUES` values together."""
        return min(lattice.MOST_ROWS, max(1, MOST_VALUES // max(self.K, 1)))

    def evaluate(self, X: Array) -> Array:
        try:
            return self.query.evaluate(X)
        except (TrigmechError, MemoryError):
            raise
        except Exception as problem:
            # The problem's own text may quote a row.
            raise InputError(f"a query of the kind {self.query.kind!r} cannot be evaluated at rows of the table "
                             f"({type(problem).__name__})") from None


class _Whole(_Evaluated):
    """A query whose values are not held."""

    rows_at_a_time = lattice.MOST_ROWS


@dataclass(frozen=True, eq=False)
class MeanSums(FunctionSums):
    """The sums of a query's values by its `means`, with a weight of 1 a row: values on the lattice, of exact sums."""

    def _sums(self, rows: Array) -> Integers:
        query = cast(Any, self.functions).query
        return lattice.integers(query.means(rows, np.ones(len(rows))))


def _statistic(queries: Sequence[Query]) -> Statistic:
    first, how = queries[0], queries[0].summed
    if how == "positions":
        return Histograms(tuple(cast(Any, query).counted[0] for query in queries))
    if how in ("cells", "products"):
        return _joint(queries)
    if how == "means":
        return MeanSums(cast(FunctionSet, _Whole(first)))
    return FunctionSums(first.of_set[0] if first.of_set else cast(FunctionSet, _Evaluated(first)))


def _joint(queries: Sequence[Any]) -> JointCounts:
    """Return the tables and products as one statistic, which finds the positions of each partition once."""
    partitions: dict[int, Partition] = {}

    def place(partition: Partition) -> int:
        partitions[id(partition)] = partition
        return list(partitions).index(id(partition))

    tables = tuple((tuple(place(partition) for partition in query.partitions), query.maps)
                   for query in queries if query.summed == "cells")
    products = [query for query in queries if query.summed == "products"]
    held = [[place(partition) for partition in query.partitions] for query in products]
    none = np.zeros((0, 0), dtype=np.int64)
    scores: list[list[NDArray[np.int64]]] = [[] for _ in partitions]
    starts: list[list[int]] = []
    # The scores of a partition stand side by side, in the order of the products.
    for query, own in zip(products, held, strict=True):
        starts.append([sum(part.shape[1] for part in scores[p]) for p in own])
        for p, score in zip(own, query.scores, strict=True):
            scores[p].append(score)
    joined = [np.concatenate(parts, axis=1) if parts else none.reshape(0, 0) for parts in scores]
    joined = [score if score.shape[0] else np.zeros((partition.size, 0), dtype=np.int64)
              for score, partition in zip(joined, partitions.values(), strict=True)]
    before = np.cumsum([0, *(score.shape[1] for score in joined)])
    places = [np.column_stack([before[np.array(own)[factors[:, c]]] + np.array(start)[factors[:, c]] + factors[:, 2 + c]
                               for c in (0, 1)])
              for query, own, start in zip(products, held, starts, strict=True) for factors in [query.factors]]
    return JointCounts(tuple(partitions.values()), tables, tuple(joined),
                       np.concatenate([np.zeros((0, 2), dtype=np.int64), *places]))
