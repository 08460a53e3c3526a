"""Which rows of a table are equal, and how many differ from each other."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from trigmech.tables.scalars import distinct_objects


def different_rows(columns: Iterable[NDArray]) -> int:
    """Return how many different rows a table has, of columns as for :func:`numbered`."""
    return int(numbered(columns).max(initial=-1)) + 1


def numbered(columns: Iterable[NDArray]) -> NDArray[np.int64]:
    """Return a number for each row of a table (n,): equal rows share one, and numbers count from 0.

    ``columns`` are arrays (n,) from :meth:`trigmech.Schema.decode`; masked entries are missing and equal each other
    alone. Cost: a sort of each column until all rows are known to differ; numbers that seldom repeat come first.
    """
    ordered = sorted(columns, key=lambda values: values.dtype.kind not in "fM")
    groups, count = np.zeros(len(ordered[0]) if ordered else 0, dtype=np.int64), 0
    for values in ordered:
        if count == len(groups):
            break
        different, codes = distinct_objects(np.ma.getdata(values)) if values.dtype.kind == "O" else np.unique(
            np.ma.getdata(values), return_inverse=True)
        codes = np.where(np.ma.getmaskarray(values), len(different), codes)
        found, groups = np.unique(groups * (len(different) + 1) + codes, return_inverse=True)
        count = len(found)
    return groups


def copies(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return where numbers stand that have stood before, ascending."""
    first = np.zeros(len(numbers), dtype=np.bool_)
    first[np.unique(numbers, return_index=True)[1]] = True
    return np.flatnonzero(~first)
