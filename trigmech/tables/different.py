"""Which rows of a table are equal, and how many differ from each other."""

from collections.abc import Iterable, Sequence
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from trigmech.tables.scalars import distinct_objects

# The most rows that are counted, and the number that stands for a missing value.
MOST_COUNTED, ABSENT = 10**7, np.uint64(0x5851F42D4C957F2D)


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


class DifferentRows:
    """Counts the different rows of a table that comes in pieces, by 64 bits of a hash of each row (8 bytes a row).

    Two different rows of 10^7 have equal bits with a probability of 3e-6.
    """

    def __init__(self) -> None:
        self.rows, self._hashes = 0, list[NDArray[np.uint64]]()

    def add(self, columns: Sequence[NDArray]) -> None:
        """Add a piece: columns as for :func:`numbered`, of the same types in all pieces."""
        self.rows += len(columns[0])
        if self.rows > MOST_COUNTED:
            self._hashes.clear()
            return
        mixed = np.zeros(len(columns[0]), dtype=np.uint64)
        for values in columns:
            plain, absent = np.ma.getdata(values), np.ma.getmaskarray(values)
            if plain.dtype.kind == "O":
                different, codes = distinct_objects(plain)
                # Equal objects have equal texts, in any piece.
                bits = np.array([_hash_of_text(value) for value in different], dtype=np.uint64)[codes]
            else:
                # Adding 0 makes the two zeros one.
                bits = (plain + 0 if plain.dtype.kind == "f" else plain.astype(np.int64)).view(np.uint64)
            mixed = _scrambled(mixed ^ np.where(absent, ABSENT, bits))
        self._hashes.append(mixed)

    @property
    def different(self) -> int | None:
        """How many rows differ; None if there are more rows than are counted."""
        if self.rows > MOST_COUNTED:
            return None
        # In place: np.unique would take several times the memory of the numbers.
        self._hashes = [np.concatenate([np.zeros(0, np.uint64), *self._hashes])]
        held = self._hashes[0]
        held.sort()
        return int(np.count_nonzero(held[1:] != held[:-1])) + (len(held) > 0)


def _hash_of_text(value: object) -> int:
    return int.from_bytes(blake2b(f"{type(value).__name__} {value}".encode("utf-8", "surrogatepass"),
                                  digest_size=8).digest(), "little")


def _scrambled(bits: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return numbers in which each bit depends on all bits of the given ones, one to one (Steele et al. 2014)."""
    bits = bits + np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        bits = (bits ^ (bits >> np.uint64(shift))) * np.uint64(factor)
    return bits ^ (bits >> np.uint64(31))
