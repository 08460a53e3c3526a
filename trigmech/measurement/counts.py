"""PRIVATE. Counts over the persons of a table: histograms of columns, contingency tables, sums of products of scores.

A person counts once. If she has several rows, each position gets her share of rows there.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from trigmech._arrays import Array, Integers
from trigmech.errors import InputError
from trigmech.functions.partition import Partition
from trigmech.measurement.sums import SHARE_BITS, Chunk, Total, add_means, pieces
from trigmech.measurement.sweep import Sweep

# Scores are whole numbers in units of 2^-15, so their products are in units of 2^-30. These bits more make shares.
PRODUCT_BITS = SHARE_BITS - 30
NO_PRODUCTS = np.zeros((0, 2), dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Histograms:
    """How many persons are at each position of each partition."""

    partitions: tuple[Partition, ...]

    @property
    def size(self) -> int:
        return sum(partition.size for partition in self.partitions)

    @cached_property
    def _finest(self) -> tuple[list[Partition], list[int], list[Integers]]:
        """The partitions with the edges of all partitions of a column; of each partition its place, and its map."""
        of: dict[tuple[tuple[int, ...], int | None], list[Partition]] = {}
        for partition in self.partitions:
            of.setdefault((partition.indicators, partition.value), []).append(partition)
        edges = [np.unique(np.concatenate([each.edges for each in own])) for own in of.values()]
        finest = [own[0].cut(each) for own, each in zip(of.values(), edges, strict=True)]
        columns = [list(of).index((partition.indicators, partition.value)) for partition in self.partitions]
        return finest, columns, [_parents(finest[j], partition)
                                 for j, partition in zip(columns, self.partitions, strict=True)]

    @cached_property
    def _sweep(self) -> Sweep:
        finest, _, _ = self._finest
        return Sweep(finest, [((j,), (np.arange(partition.size),)) for j, partition in enumerate(finest)],
                     [(partition.size,) for partition in finest], (), NO_PRODUCTS)

    @cached_property
    def _shared(self) -> Sweep:
        finest, columns, maps = self._finest
        return Sweep(finest, [((j,), (cells,)) for j, cells in zip(columns, maps, strict=True)],
                     [(partition.size,) for partition in self.partitions], (), NO_PRODUCTS)

    def add(self, chunk: Chunk, total: Total) -> None:
        chunk = chunk.mapped()
        if chunk.starts is not None:
            for rows, starts, count in pieces(len(chunk.rows), chunk.starts):
                cells, _ = self._shared.cells(chunk, rows, checked=True)
                total.add(self._shared.shares(cells, starts), count)
            return
        counted, _ = self._sweep.counts(chunk, checked=True)
        finest, columns, maps = self._finest
        own = np.split(counted, np.cumsum([partition.size for partition in finest])[:-1])
        found = [np.zeros(partition.size, dtype=np.int64) for partition in self.partitions]
        for histogram, j, parents in zip(found, columns, maps, strict=True):
            np.add.at(histogram, parents, own[j])
        total.add(np.concatenate(found), len(chunk.rows), SHARE_BITS)

    def check(self, total: Total) -> None:
        _check_groups(total, [partition.size for partition in self.partitions])

    def parted(self, total: Total) -> list[Array]:
        return np.split(total.over(SHARE_BITS), np.cumsum([partition.size for partition in self.partitions])[:-1])


@dataclass(frozen=True, eq=False)
class JointCounts:
    """Contingency tables, and sums of products of the scores of two columns.

    tables: The columns of each table; for each column a map (size,) from its positions to cells.
    scores (size, q_j): The scores of each column at its positions, in units of 2^-15, of absolute values up to 2^15.
    places (K, 2): The places of the two factors of each product among the scores of all columns.
    """

    partitions: tuple[Partition, ...]
    tables: tuple[tuple[tuple[int, ...], tuple[Integers, ...]], ...]
    scores: tuple[Integers, ...]
    places: Integers

    @cached_property
    def shapes(self) -> list[tuple[int, ...]]:
        """The shapes of the tables: the number of cells of each column's map."""
        return [tuple(int(cells.max()) + 1 for cells in maps) for _, maps in self.tables]

    @cached_property
    def sizes(self) -> list[int]:
        """The number of cells of each table."""
        return [int(np.prod(shape)) for shape in self.shapes]

    @property
    def size(self) -> int:
        return sum(self.sizes) + len(self.places)

    @cached_property
    def _sweep(self) -> Sweep:
        return Sweep(self.partitions, self.tables, self.shapes, self.scores, self.places)

    def add(self, chunk: Chunk, total: Total) -> None:
        """Add the shares of a chunk's persons and their means of products. Every row is accepted."""
        chunk, (first, second) = chunk.mapped(), self.places.T
        tables, products = (total.part(members) for members in (slice(sum(self.sizes)), slice(sum(self.sizes), None)))
        if chunk.starts is None:
            counts, sums = self._sweep.counts(chunk, checked=False)
            tables.add(counts, bits=SHARE_BITS)
            products.add(sums, bits=PRODUCT_BITS)
            total.n += len(chunk.rows)
            return
        for rows, starts, count in pieces(len(chunk.rows), chunk.starts):
            cells, codes = self._sweep.cells(chunk, rows, checked=False)
            tables.add(self._sweep.shares(cells, starts))
            total.n += count
            if len(self.places):
                scores = np.concatenate([score.T[:, codes[j]] for j, score in enumerate(self.scores)])
                add_means(lambda rows, scores=scores: (scores[first, rows] * scores[second, rows]).T,  # type: ignore[misc]
                          codes.shape[1], starts, PRODUCT_BITS, products)

    def check(self, total: Total) -> None:
        _check_groups(total, self.sizes)

    def parted(self, total: Total) -> tuple[list[Array], Array]:
        """Return the tables, with one axis for each column, and the sums of products."""
        values = total.over(SHARE_BITS)
        parts = np.split(values, np.cumsum(self.sizes))
        return [part.reshape(shape) for part, shape in zip(parts, self.shapes, strict=False)], parts[-1]


def _check_groups(total: Total, sizes: Sequence[int]) -> None:
    """Raise an InputError unless the shares of each group sum to the number of persons."""
    ends = np.cumsum(sizes).tolist()
    for size, end in zip(sizes, ends, strict=True):
        if not total.is_sum_of(total.n << SHARE_BITS, slice(end - size, end)):
            raise InputError(f"the counts of {total.n} persons do not sum to {total.n}")


def _parents(finer: Partition, partition: Partition) -> Integers:
    """Return the position of a partition that each position of a finer one lies in."""
    # By edges: an interval of the finest partition can be without a level, and then it has no centre.
    k = len(partition.indicators)
    inside = np.searchsorted(partition.edges[1:-1], finer.edges[:-1], side="right")
    return np.concatenate([np.arange(k), k + inside])
