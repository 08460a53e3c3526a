"""PRIVATE. Sums over the persons of a table, as whole numbers on lattices that are fixed beforehand.

Private rows are used for one purpose only: a vector of sums, called a *statistic*. Each person adds whole numbers to
it. A person with one row adds the values of this row. A person with several rows adds their mean, rounded once. The sum
of whole numbers does not depend on their order. So the sums have the same bits however the table is cut, and whoever
adds the parts.

**Persons.** A person adds the mean of the vectors that her rows would add alone. Apart from rounding, this mean lies in
the convex hull of these vectors. In any norm, the largest distance between two points of a hull is the distance between
two of the points that span it. So replacing a person moves the sums no further than replacing a row does, for any
number of her rows. Rounding: means of functions are rounded to their lattice of 2^-40, by at most half a step for each
entry (:func:`trigmech.queries.functions.rounding`). The shares of a person sum to exactly 1 (:func:`_add_shares`). So
they are a probability vector, which lies in the hull of the indicators, and rounding adds nothing to any norm. Products
of scores move by at most 2^-47 of their unit; see :mod:`trigmech.planning.tables`.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Protocol, overload

import numpy as np
from numba import njit
from numpy.typing import NDArray

from trigmech._arrays import Array, Codes, Integers
from trigmech.domain import Domain
from trigmech.errors import InputError
from trigmech.measurement.compact import Compact, layout_of
from trigmech.schema.schema import Schema

# A person's share of 1 is 2^46 units, and the shares of 2^16 persons fit into 64 bits.
SHARE_BITS = 46
PERSONS_AT_A_TIME = 2**16
# With this limit, a product of a number of rows and a remainder fits into 64 bits.
MOST_ROWS_OF_A_PERSON = 2**22
# The largest number of function values in memory at a time.
MOST_VALUES = 2**22
LIMB = 32


@dataclass(frozen=True, eq=False)
class Chunk:
    """Some rows of a table, with all rows of each of their persons.

    rows, private: Points (k, D), Compact, or a table, which the schema maps to points.
    starts (p,), private: The first row of each person, ascending from 0. None: each row is a person.
    order (k,), private: An order that brings each person's rows together. None: they are together already.
    """

    rows: Any
    domain: Domain
    schema: Schema | None = None
    starts: Integers | None = None
    order: Integers | None = None

    def mapped(self) -> "Chunk":
        """Return the chunk with rows as points or in compact form, and the rows of a person together."""
        if self.schema is None:
            return self if self.order is None else replace(self, rows=self.sorted(self.rows), order=None)
        domain = self.schema.domain
        rows = layout_of(domain).rows_of_table(self.schema, self.rows)
        return Chunk(rows if self.order is None else rows.sorted(self.order), domain, None, self.starts)

    def points(self, first: int = 0, last: int | None = None) -> Array:
        """Return consecutive rows as points (m, D), by default all, of a chunk that is mapped."""
        return self.rows.points(first, last) if isinstance(self.rows, Compact) else np.asarray(self.rows)[first:last]

    def check(self) -> None:
        """Raise an InputError if a row breaks a rule of the domain. Compact rows keep to it."""
        if not isinstance(self.rows, Compact):
            self.domain.check(np.asarray(self.rows))

    def sorted(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return the values of each row, with the rows of a person together."""
        return values if self.order is None else values[self.order]

    @property
    def persons(self) -> int:
        return len(self.rows) if self.starts is None else len(self.starts)

    def __repr__(self) -> str:
        return "Chunk(values hidden)"


class Total:
    """Sums (K,) of whole numbers over ``n`` persons, of up to 95 bits, in two ``limbs`` (2, K).

    The values are 2^32 high + low with 0 <= low < 2^32, so each value has a single form.
    """

    def __init__(self, size: int) -> None:
        self.limbs, self.n = np.zeros((2, size), dtype=np.int64), 0

    def __repr__(self) -> str:
        return f"Total(n={self.n}, values hidden)"

    def part(self, members: slice) -> "Total":
        """Return a view of some values. An addition to the view changes these values, but not ``n``."""
        own = Total(0)
        own.limbs = self.limbs[:, members]
        return own

    def add(self, numbers: Integers, persons: int = 0, bits: int = 0) -> None:
        """Add numbers (K,), of at most 63 bits and at most 95 with the shift, times 2^bits; bits below 64."""
        high, low = self.limbs
        if bits >= LIMB:
            high += numbers << (bits - LIMB)
        else:
            # The part that stays below 2^32 after the shift, and all above it.
            low += (numbers & (2**(LIMB - bits) - 1)) << bits
            high += (numbers >> (LIMB - bits)) + (low >> LIMB)
            low &= 2**LIMB - 1
        self.n += persons

    def __iadd__(self, other: "Total") -> "Total":
        self.add(other.limbs[1], other.n)
        self.limbs[0] += other.limbs[0]
        return self

    def over(self, unit: int) -> Array:
        """Return the values (K,) divided by 2^unit, rounded to the nearest float.

        They are rounded twice if a high limb has more than 53 bits, which takes more than 2^39 persons.
        """
        high, low = self.limbs.astype(np.float64)
        return np.asarray((high * 2.0**LIMB + low) * 2.0**-unit)

    def is_sum_of(self, whole: int, members: slice = slice(None)) -> bool:
        """Return whether some of the values are at least 0 and sum to a number."""
        high, low = self.limbs[:, members]
        return bool((high >= 0).all()) and (
            sum(high.tolist()) * 2**LIMB + sum(low.tolist()) == whole)


class Statistic(Protocol):
    """A statistic that is summed over persons; public."""

    @property
    def size(self) -> int:
        ...

    def add(self, chunk: Chunk, total: Total) -> None:
        """Add the persons of a chunk. Raise an InputError if its rows break a rule."""

    def check(self, total: Total) -> None:
        """Raise an InputError if so many persons cannot have these sums."""


@overload
def pieces(n: int, starts: Integers, most: int = ...) -> Iterator[tuple[slice, Integers, int]]: ...
@overload
def pieces(n: int, starts: Integers | None, most: int = ...) -> Iterator[tuple[slice, Integers | None, int]]: ...
def pieces(n: int, starts: Integers | None,
           most: int = PERSONS_AT_A_TIME) -> Iterator[tuple[slice, Integers | None, int]]:
    """Yield consecutive persons, at most ``most`` at a time: their rows, the first row of each, and their number.

    The first rows are counted from the start of the piece.
    """
    if starts is None:
        for low in range(0, n, most):
            yield slice(low, min(low + most, n)), None, min(most, n - low)
        return
    ends = _ends(n, starts)
    for low in range(0, len(starts), most):
        own = starts[low : low + most]
        yield slice(int(own[0]), int(ends[low + len(own)])), own - own[0], len(own)


def _ends(n: int, starts: Integers) -> Integers:
    """Return the first row of each person, and the end of the last person's rows."""
    ends = np.append(starts, n)
    if (np.diff(ends) > MOST_ROWS_OF_A_PERSON).any():
        raise InputError(f"a person has more than {MOST_ROWS_OF_A_PERSON:,} rows")
    return ends


def add_means(values: Callable[[slice], Integers], n: int, starts: Integers, bits: int, total: Total) -> None:
    """Add each person's mean of whole numbers, times 2^bits and rounded to the nearest, half up.

    The callable ``values`` returns the numbers (k, K) of some of the n rows, of at most 46 - bits bits.
    """
    most = max(1, MOST_VALUES // max(total.limbs.shape[1], 1))
    ends = _ends(n, starts)
    first = 0
    while first < len(starts):
        last = max(int(np.searchsorted(ends, starts[first] + most, side="right")) - 1, first + 1)
        rows = range(int(starts[first]), int(ends[last]))
        if len(rows) > most:
            # A single person has more rows than fit into memory at a time.
            sums = np.add.reduce([values(slice(a, min(a + most, rows.stop))).sum(axis=0)
                                  for a in range(rows.start, rows.stop, most)])[None]
        else:
            sums = np.add.reduceat(values(slice(rows.start, rows.stop)), starts[first:last] - rows.start, axis=0)
        means = _means(sums, np.diff(ends[first : last + 1])[:, None], bits)
        for low in range(0, len(means), PERSONS_AT_A_TIME):
            part = means[low : low + PERSONS_AT_A_TIME]
            total.add(part.sum(axis=0), len(part))
        first = last


def _means(sums: Integers, counts: Integers, bits: int) -> Integers:
    """Return sums over numbers of rows, in units of 2^-bits, rounded to the nearest, half up; exact in 64 bits."""
    whole, rest = np.divmod(sums, counts)
    return np.asarray((whole << bits) + ((rest << (bits + 1)) + counts) // (2 * counts))


def shares(places: Integers | Codes, starts: Integers | None, size: int,
           bits: int = SHARE_BITS) -> Integers:
    """Return the sums (size,) of the persons' shares at each place, in units of 2^-bits, for at most 2^16 persons.

    ``places`` (k,) are those of the rows, from 0 to size - 1; ``starts`` (p,) is the first row of each person.
    """
    if starts is None:
        return np.bincount(places, minlength=size) << bits
    sums = np.zeros(size, dtype=np.int64)
    _add_shares(np.ascontiguousarray(places, dtype=np.int64), starts, 1 << bits, sums)
    return sums


@njit(cache=True, nogil=True)
def _add_shares(places: Integers, starts: Integers, whole: int, sums: Integers) -> None:
    """Divide each person's units among her places, in proportion to the number of her rows there.

    Each quotient is rounded down. The rest is less than one unit for each of her places; her first places get one unit
    each. So the units sum to the whole. They depend on the number of rows at each place, not on the order of the rows.
    """
    for person in range(len(starts)):
        first = starts[person]
        last = starts[person + 1] if person + 1 < len(starts) else len(places)
        m = last - first
        if m == 1:
            sums[places[first]] += whole
            continue
        own = np.sort(places[first:last])
        each, rest = divmod(whole, m)
        left = whole
        begin = 0
        for i in range(m):
            if i + 1 == m or own[i + 1] != own[begin]:
                count = i + 1 - begin
                units = count * each + count * rest // m
                sums[own[begin]] += units
                left -= units
                begin = i + 1
        for i in range(m):
            if left > 0 and (i == 0 or own[i] != own[i - 1]):
                sums[own[i]] += 1
                left -= 1
