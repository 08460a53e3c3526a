"""PRIVATE. Tallies of values during one pass over a table; their sizes do not grow with the rows."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trigmech._arrays import Array, Integers
from trigmech.inspection.findings import FIRST_LINES

Mask = NDArray[np.bool_]
Lines = Integers

# So many values are counted at once. A value that more than one row in so many holds is never lost (Misra and Gries).
COUNTED = 4_096
# A column counts as all different if so many first values are.
COMPARED = 2**20


@dataclass
class MarkedRows:
    """How many rows are marked, and the first of them."""

    count: int = 0
    lines: list[int] = field(default_factory=list)

    def add(self, marked: Mask, lines: Lines) -> None:
        rows = np.flatnonzero(marked)
        self.count += len(rows)
        room = FIRST_LINES - len(self.lines)
        if room > 0:
            self.lines += lines[rows[:room]].tolist()

    @property
    def first(self) -> tuple[int, ...]:
        """The first lines, ascending."""
        return tuple(self.lines)


class Frequent:
    """The frequent ones among numbers, with their counts and the lines that hold them first.

    Source: Misra and Gries (1982), "Finding repeated elements": a count is too low by at most the number of rows
    divided by :data:`COUNTED`. All counts are exact as long as there are no more different values than that.

    some: Different values, ascending: all of them if there are no more than so many, and otherwise the least, the
        greatest, and others as evenly between them as chunks tell. Rare ones have no count, so these are kept apart.
    """

    def __init__(self) -> None:
        self.some: Array = np.empty(0)
        self._counts: dict[float, int] = {}
        self._first: dict[float, list[int]] = {}
        self.total, self.complete = 0, True

    def add(self, values: Array, lines: Lines) -> None:
        """Count the numbers of a chunk (k,), which has no missing value."""
        self.total += len(values)
        different, first, counts = np.unique(values, return_index=True, return_counts=True)
        self.some = _thinned(np.union1d(self.some, different))
        if len(different) > COUNTED:
            # A count loses at most ``lost`` rows, and more than COUNTED counts lose as many, so the bound holds.
            self.complete = False
            lost = int(np.partition(counts, -COUNTED - 1)[-COUNTED - 1])
            most = np.flatnonzero(counts > lost)
            different, first, counts = different[most], first[most], counts[most] - lost
        for value, at, count in zip(different.tolist(), first.tolist(), counts.tolist(), strict=True):
            self._counts[value] = self._counts.get(value, 0) + count
            self._first.setdefault(value, [int(lines[at])])
        if len(self._counts) > COUNTED:
            self.complete = False
            least = sorted(self._counts.values(), reverse=True)[COUNTED]
            self._counts = {value: count - least for value, count in self._counts.items() if count > least}
            self._first = {value: self._first[value] for value in self._counts}

    @property
    def different(self) -> int:
        """The number of different values, at least; exact if ``complete``."""
        return len(self._counts) if self.complete else COUNTED + 1

    def above(self, least: float) -> list[tuple[float, int, tuple[int, ...]]]:
        """Return values that at least so many rows hold, with counts and first lines, the heaviest first."""
        heavy = [value for value, count in self._counts.items() if count >= least]
        return [(value, self._counts[value], tuple(self._first[value]))
                for value in sorted(heavy, key=lambda value: -self._counts[value])]


def _thinned(values: Array) -> Array:
    """Return at most :data:`COUNTED` of ascending values, evenly, with the first and the last."""
    if len(values) <= COUNTED:
        return values
    return values[np.linspace(0, len(values) - 1, COUNTED).astype(np.int64)]


class Different:
    """Whether all of the first values are different, and how many there were."""

    def __init__(self) -> None:
        self.all, self.count, self._seen = True, 0, np.empty(0)

    def add(self, values: Array) -> None:
        """Compare the numbers of a chunk (k,) with each other and with those before."""
        if not self.all or self.count >= COMPARED:
            return
        values = values[: COMPARED - self.count]
        self.count += len(values)
        together = np.concatenate([self._seen, values])
        self._seen = np.unique(together)
        self.all = len(self._seen) == len(together)
        if not self.all:
            self._seen = np.empty(0)


class DifferentTexts:
    """The same of texts and other values, by their hashes."""

    def __init__(self) -> None:
        self.all, self.count, self._seen = True, 0, set[int]()

    def add(self, values: Iterable[Any], rows: int) -> None:
        """Add the different values of a chunk that so many rows hold."""
        if not self.all or self.count >= COMPARED:
            return
        for value in values:
            key = hash(value)
            self.all = self.all and key not in self._seen
            self._seen.add(key)
            self.count += 1
            rows -= 1
            if self.count >= COMPARED:
                return
        self.all = self.all and rows == 0
        if not self.all:
            self._seen = set()
