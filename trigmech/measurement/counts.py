"""PRIVATE. Counts over the persons of a table: histograms of columns, contingency tables, sums of products of scores.

A person counts once. If she has several rows, each position gets her share of rows there.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numba import njit
from numpy.typing import NDArray

from trigmech.errors import InputError
from trigmech.functions.partition import Partition, all_codes
from trigmech.measurement.rows import PrivateRows
from trigmech.measurement.sums import SHARE_BITS, Chunk, Integers, Total, add_means, pieces, shares

Array = NDArray[np.float64]

# Scores are whole numbers in units of 2^-15, so their products are in units of 2^-30. These bits more make shares.
PRODUCT_BITS = SHARE_BITS - 30
NO_PRODUCTS = np.zeros((0, 2), dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Histograms:
    """How many persons are at each position of each partition."""

    partitions: tuple[Partition, ...]

    @property
    def size(self) -> int:
        """The number of sums."""
        return sum(partition.size for partition in self.partitions)

    def add(self, chunk: Chunk, total: Total) -> None:
        """Add the shares of a chunk's persons. Their rows must lie in the domain."""
        points = chunk.checked()
        for span, starts, count in pieces(len(points), chunk.starts):
            rows = points[span]
            total.add(np.concatenate([shares(partition.codes(rows), starts, partition.size)
                                      for partition in self.partitions]), count)

    def check(self, total: Total) -> None:
        """Raise an InputError unless each histogram counts all persons."""
        _check_groups(total, [partition.size for partition in self.partitions])

    def parted(self, total: Total) -> list[Array]:
        """Return the histogram of each partition."""
        return np.split(total.over(SHARE_BITS), np.cumsum([partition.size for partition in self.partitions])[:-1])


@dataclass(frozen=True, eq=False)
class JointCounts:
    """Contingency tables, and sums of products of the scores of two columns.

    Parameters
    ----------
    partitions : tuple of Partition
        The partition of each column.
    tables : tuple of (columns, maps)
        The columns of each table; for each column a map (size,) from its positions to cells.
    scores : tuple of ndarray (size, q_j) of int
        The scores of each column at its positions, in units of 2^-15. Their absolute values are at most 2^15.
    places : ndarray (K, 2) of int
        The places of the two factors of each product among the scores of all columns.
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
        """The number of sums."""
        return sum(self.sizes) + len(self.places)

    def add(self, chunk: Chunk, total: Total) -> None:
        """Add the shares of a chunk's persons and their means of products. Every row is accepted."""
        points, first, second = chunk.points, *self.places.T
        tables, products = (total.part(members) for members in (slice(sum(self.sizes)), slice(sum(self.sizes), None)))
        for span, starts, count in pieces(len(points), chunk.starts):
            codes = all_codes(self.partitions, points[span])
            tables.add(self._shares(codes, starts))
            total.n += count
            if not len(self.places):
                continue
            scores = np.concatenate([score.T[:, codes[:, j]] for j, score in enumerate(self.scores)])
            if starts is None:
                sums = np.zeros(len(self.places), dtype=np.int64)
                _add_products(scores, self.places, sums)
                products.add(sums << PRODUCT_BITS)
            else:
                add_means(lambda rows, scores=scores: (scores[first, rows] * scores[second, rows]).T, len(codes),  # type: ignore[misc]
                          starts, PRODUCT_BITS, products)

    def check(self, total: Total) -> None:
        """Raise an InputError unless each table counts all persons."""
        _check_groups(total, self.sizes)

    def parted(self, total: Total) -> tuple[list[Array], Array]:
        """Return the tables, with one axis for each column, and the sums of products."""
        values = total.over(SHARE_BITS)
        parts = np.split(values, np.cumsum(self.sizes))
        return [part.reshape(shape) for part, shape in zip(parts, self.shapes, strict=False)], parts[-1]

    def _shares(self, codes: NDArray[np.int32], starts: Integers | None) -> Integers:
        found = []
        for (columns, maps), shape in zip(self.tables, self.shapes, strict=True):
            place = np.zeros(len(codes), dtype=np.int64)
            for j, cells, size in zip(columns, maps, shape, strict=True):
                place = place * size + cells[codes[:, j]]
            found.append(shares(place, starts, int(np.prod(shape))))
        return np.concatenate(found) if found else np.zeros(0, dtype=np.int64)


def histograms(rows: PrivateRows, partitions: Sequence[Partition]) -> list[Array]:
    """Return the number of persons at each position of each partition; private.

    Raises
    ------
    InputError
        If the rows leave their domain, or their number differs from the stated one.
    """
    asked = Histograms(tuple(partitions))
    return asked.parted(rows.sums(asked))


def joint_counts(rows: PrivateRows, partitions: Sequence[Partition], tables: Sequence[tuple[Sequence[int], Sequence[
        Integers]]], scores: Sequence[Integers] = (), places: Integers = NO_PRODUCTS) -> tuple[list[Array], Array]:
    """Return contingency tables and sums (K,) of products of two scores; private. See :class:`JointCounts`."""
    asked = JointCounts(tuple(partitions), tuple((tuple(columns), tuple(maps)) for columns, maps in tables),
                        tuple(scores), places)
    return asked.parted(rows.sums(asked))


def _check_groups(total: Total, sizes: Sequence[int]) -> None:
    """Raise an InputError unless the shares of each group sum to the number of persons."""
    ends = np.cumsum(sizes).tolist()
    for size, end in zip(sizes, ends, strict=True):
        if not total.is_sum_of(total.n << SHARE_BITS, slice(end - size, end)):
            raise InputError(f"the counts of {total.n} persons do not sum to {total.n}")


@njit(cache=True, nogil=True)
def _add_products(values: Integers, places: Integers, sums: Integers) -> None:
    """Add, for each pair of places, the products of the scores (places, rows) over all rows."""
    for r in range(len(places)):
        first, second = values[places[r, 0]], values[places[r, 1]]
        for i in range(values.shape[1]):
            sums[r] += first[i] * second[i]
