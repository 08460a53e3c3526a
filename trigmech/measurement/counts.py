"""PRIVATE. Exact counts over the rows of a table: histograms of columns, tables of several, sums of products of scores.

All are integers, so they do not depend on the order of the rows, on chunks or on threads.
"""

from collections.abc import Sequence

import numpy as np
from numba import njit
from numpy.typing import NDArray

from trigmech.errors import InputError
from trigmech.functions.partition import Partition, all_codes
from trigmech.measurement.rows import PrivateRows

Integers = NDArray[np.int64]

ROWS_AT_A_TIME = 2**16


def histograms(rows: PrivateRows, partitions: Sequence[Partition]) -> list[Integers]:
    """Return how many rows are at each position of each partition; private.

    Parameters
    ----------
    rows : PrivateRows, private
    partitions : sequence of Partition
        Of any columns.

    Raises
    ------
    InputError
        If the rows do not keep to their domain, or are not as many as was said.
    """
    counts = [np.zeros(partition.size, dtype=np.int64) for partition in partitions]
    seen = 0
    for chunk in rows.chunks():
        rows.domain.check(chunk)
        if not (np.abs(chunk) <= 1.0).all():
            raise InputError("the rows must lie in the cube [-1, 1]^d")
        seen += len(chunk)
        for count, partition in zip(counts, partitions, strict=True):
            count += np.bincount(partition.codes(chunk), minlength=partition.size)
    if seen != rows.n:
        raise InputError(f"the table was said to have {rows.n} rows and has {seen}; was it changed in the meantime?")
    return counts


def joint_counts(rows: PrivateRows, partitions: Sequence[Partition], tables: Sequence[tuple[Sequence[int], Sequence[
        Integers]]], scores: Sequence[Integers], places: Integers) -> tuple[list[Integers], Integers]:
    """Return contingency tables, and sums of products of two columns' scores; private.

    Parameters
    ----------
    rows : PrivateRows, private
    partitions : sequence of Partition
        Of each column.
    tables : sequence of (columns, maps)
        The columns of each table, and for each a map (size,) from its positions to cells.
    scores : sequence of ndarray (size, q_j) of int
        Of each column, at its positions: at most 2^15 in size.
    places : ndarray (K, 2) of int
        Of both factors of each product among the scores of all columns.

    Returns
    -------
    list of ndarray of int, with an axis for each column; ndarray (K,) of int
    """
    shapes = [tuple(int(cells.max()) + 1 for cells in maps) for _, maps in tables]
    counts = [np.zeros(shape, dtype=np.int64) for shape in shapes]
    sums = np.zeros(len(places), dtype=np.int64)
    for chunk in rows.chunks():
        for start in range(0, len(chunk), ROWS_AT_A_TIME):
            codes = all_codes(partitions, chunk[start : start + ROWS_AT_A_TIME])
            for count, (columns, maps) in zip(counts, tables, strict=True):
                place = np.zeros(len(codes), dtype=np.int64)
                for j, cells, size in zip(columns, maps, count.shape, strict=True):
                    place = place * size + cells[codes[:, j]]
                count += np.bincount(place, minlength=count.size).reshape(count.shape)
            if len(places):
                _add_products(np.concatenate([score.T[:, codes[:, j]] for j, score in enumerate(scores)]), places, sums)
    return counts, sums


@njit(cache=True, nogil=True)
def _add_products(values: Integers, places: Integers, sums: Integers) -> None:
    """Add, for each two places, the products of the scores there (places, rows) over the rows."""
    for r in range(len(places)):
        first, second = values[places[r, 0]], values[places[r, 1]]
        for i in range(values.shape[1]):
            sums[r] += first[i] * second[i]
