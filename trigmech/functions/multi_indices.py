"""Multi-indices in order of their total degree."""

from collections.abc import Iterator
from itertools import combinations
from typing import Literal

Ties = Literal["fewest", "last"]


def ascending(d: int, cap: int | None, ties: Ties) -> Iterator[list[int]]:
    """Yield the multi-indices by total degree, ties as in `ChebyshevBasis.graded`, degrees at most `cap`."""
    highest = None if cap is None else cap * d
    degree = 0
    while highest is None or degree <= highest:
        largest = degree if cap is None else min(cap, degree)
        if ties == "last":
            yield from (row[::-1] for row in _descending(d, degree, largest))
        else:
            for width in range(min(1, degree), min(d, degree) + 1):
                parts = list(_compositions(degree, width, largest))
                for columns in combinations(range(d), width) if parts else ():
                    for part in parts:
                        row = [0] * d
                        for column, exponent in zip(columns, part, strict=True):
                            row[column] = exponent
                        yield row
        degree += 1


def _compositions(total: int, width: int, largest: int) -> Iterator[tuple[int, ...]]:
    """Yield the ordered sums of `width` numbers in 1..largest that make `total`, larger first numbers first."""
    if width == 0:
        if total == 0:
            yield ()
        return
    for first in range(min(largest, total - width + 1), 0, -1):
        for rest in _compositions(total - first, width - 1, largest):
            yield (first, *rest)


def _descending(d: int, total: int, largest: int) -> Iterator[list[int]]:
    """Yield the d-tuples of numbers in 0..largest that sum to `total`, in descending lexicographic order."""
    if total > d * largest:
        return
    row = [0] * d
    start, rest = 0, total
    while True:
        # As much as possible as early as possible.
        for i in range(start, d):
            row[i] = min(largest, rest)
            rest -= row[i]
        yield row.copy()
        # The last entry that can give one away to those after it.
        rest = 0
        for i in range(d - 1, -1, -1):
            if row[i] > 0 and rest + 1 <= (d - 1 - i) * largest:
                break
            rest += row[i]
        else:
            return
        row[i] -= 1
        start, rest = i + 1, rest + 1
