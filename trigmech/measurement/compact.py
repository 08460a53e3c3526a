"""PRIVATE. Rows as points of the cube, in few bytes: one array for each column.

A column of indicators, or of a number with few values, is held as symbols: small whole numbers that stand for public
values of its coordinates. Any other number has 8 bytes; where an indicator stands beside it, these bytes say which one.
The points are restored to the last bit, except for the sign of a zero beside an indicator or among few values.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from trigmech._arrays import Array, Codes, Integers
from trigmech.domain import Domain
from trigmech.errors import InputError
from trigmech.functions.look_up import FIRST_INDICATOR, LookUp, places_of
from trigmech.functions.partition import Partition, columns_of
from trigmech.schema.column import Column
from trigmech.schema.encoding import place_of, placed
from trigmech.schema.schema import Schema
from trigmech.tables.frames import column_names

Held = Integers


@dataclass(frozen=True, eq=False)
class Form:
    """How a column is held; public.

    ``values`` are those that its number can have, ascending; symbols from ``len(indicators)`` on stand for them. They
    are empty if the number is continuous.
    """

    column: Partition
    values: Array

    @property
    def count(self) -> int:
        """The number of symbols. Without a number, the last one stands for no indicator."""
        return len(self.column.indicators) + (1 if self.column.value is None else len(self.values))

    @cached_property
    def _among(self) -> LookUp:
        return LookUp(self.values)

    def array(self, numbers: Array | None, held: Held | None) -> NDArray[Any]:
        """Return a column's array (n,), from its numbers in [-1, 1] and the indicator of each row that is 1, or -1.

        Either is None if the column has no number, or no indicators.
        """
        k = len(self.column.indicators)
        if numbers is None:
            held = np.zeros(0, dtype=np.int64) if held is None else held
            return np.where(held < 0, k, held).astype(_smallest(self.count))
        if len(self.values):
            found = np.empty(len(numbers), dtype=np.int32)
            self._among.find(numbers, -1, found)
            # Other numbers are lawful too, if nobody said that the column is rounded.
            known = self.values[found] == numbers
            if held is not None:
                known |= held >= 0
            if known.all():
                return (found + k if held is None else np.where(held < 0, found + k, held)).astype(
                    _smallest(self.count))
        if held is None:
            return np.ascontiguousarray(numbers)
        return np.where(held < 0, numbers, held + FIRST_INDICATOR)

    def write(self, array: NDArray[Any], out: Array) -> None:
        """Write an array (m,) to the column's coordinates in ``out`` (m, D), which is 0 there."""
        k, value = len(self.column.indicators), self.column.value
        symbols = array.dtype != np.float64
        if k:
            held = array < k if symbols else array >= FIRST_INDICATOR
            rows = np.flatnonzero(held)
            own = array[rows] if symbols else array[rows] - FIRST_INDICATOR
            out[rows, np.array(self.column.indicators)[own.astype(np.int64)]] = 1.0
        if value is None:
            return
        if symbols:
            out[:, value] = np.concatenate([np.zeros(k), self.values])[array]
        else:
            out[:, value] = np.where(array >= FIRST_INDICATOR, 0.0, array) if k else array


class Finder:
    """Finds the positions of a partition in the arrays of its column; public."""

    def __init__(self, form: Form, partition: Partition) -> None:
        self._before, inner = len(partition.indicators), partition.edges[1:-1]
        self._look_up = LookUp(inner)
        # A row without an indicator has the first position, if its column has no number.
        found = (np.zeros(1) if partition.value is None else
                 self._before + np.searchsorted(inner, form.values, side="right"))
        self._table = np.concatenate([np.arange(self._before), found]).astype(np.int32)

    def find(self, array: NDArray[Any], out: Codes) -> None:
        """Write the positions (m,) of some rows."""
        if array.dtype == np.float64:
            self._look_up.find(array, self._before, out)
        else:
            _take(array, self._table, out)


class Layout:
    """How the columns of a domain are held, by a form for each of :func:`columns_of`; public."""

    def __init__(self, domain: Domain) -> None:
        self.domain = domain
        self.forms = tuple(Form(column, _values(column)) for column in columns_of(domain))
        self._places = {(form.column.indicators, form.column.value): j for j, form in enumerate(self.forms)}

    def finders(self, partitions: Sequence[Partition]) -> list[tuple[int, Finder]] | None:
        """Return for each partition its column's place and a finder; None if a partition has other coordinates."""
        places = [self._places.get((partition.indicators, partition.value), -1) for partition in partitions]
        if min(places, default=0) < 0:
            return None
        return [(j, Finder(self.forms[j], partition)) for j, partition in zip(places, partitions, strict=True)]

    def rows(self, columns: Iterable[tuple[Array | None, Held | None]]) -> "Compact":
        """Return rows, given the numbers and the indicators of each column; see :meth:`Form.array`."""
        return Compact(self, [form.array(*column) for form, column in zip(self.forms, columns, strict=True)])

    def rows_of_table(self, schema: Schema, table: Any) -> "Compact":
        """Return the rows of a table, mapped by a schema of this domain. Raise the errors of ``Schema.to_cube``."""
        if column_names(table) is None:
            return self.rows_of(schema.to_cube(table))
        # The points themselves would need more memory.
        return self.rows(placed(schema.columns, table, _place))

    def rows_of(self, points: Array) -> "Compact":
        """Return points (n, D) as rows. Raise an InputError if one is outside the domain."""
        self.domain.check(points)
        if not self.domain.groups:
            # All columns at once, which is faster.
            points = np.ascontiguousarray(points.T).T
        columns: list[tuple[Array | None, Held | None]] = []
        for form in self.forms:
            numbers, held = None, None
            if form.column.indicators:
                own = points[:, list(form.column.indicators)]
                held = np.where(own.any(axis=1), own.argmax(axis=1), -1)
            if form.column.value is not None:
                numbers = np.ascontiguousarray(points[:, form.column.value], dtype=np.float64)
                if not (np.abs(numbers) <= 1.0).all():
                    raise InputError("the rows must lie in the cube [-1, 1]^d")
            columns.append((numbers, held))
        return self.rows(columns)


@dataclass(frozen=True, eq=False)
class Compact:
    """Rows by columns: a private array (n,) for each, by its form. A row outside the domain cannot be held."""

    layout: Layout
    arrays: Sequence[NDArray[Any]]

    def __len__(self) -> int:
        return len(self.arrays[0]) if self.arrays else 0

    def __repr__(self) -> str:
        return "Compact(values hidden)"

    def points(self, first: int = 0, last: int | None = None) -> Array:
        """Return the points (m, D) of consecutive rows, by default of all."""
        part = [array[first:last] for array in self.arrays]
        out = np.zeros((len(part[0]) if part else 0, self.layout.domain.d))
        for form, array in zip(self.layout.forms, part, strict=True):
            form.write(array, out)
        return out

    def sorted(self, order: Integers) -> "Compact":
        return Compact(self.layout, [array[order] for array in self.arrays])


def layout_of(domain: Domain) -> Layout:
    """Return how the columns of a domain are held. A domain that was asked for lately has its layout already."""
    found = next((layout for layout in tuple(_lately) if layout.domain is domain), None)
    if found is None:
        found = Layout(domain)
        _lately.appendleft(found)
    return found


# By identity: to compare domains takes longer than to make a layout.
_lately: deque[Layout] = deque(maxlen=8)


def _place(column: Column, values: Array) -> Array:
    """Return the same as :func:`trigmech.schema.encoding.place_of`, in one pass if there is no transform."""
    return place_of(column, values) if column.transform else places_of(values, *column.bounds)


def _values(column: Partition) -> Array:
    """Return the values that a column's number can have, if they are known."""
    # A missing value can count as the centre.
    return np.empty(0) if column.value is None or column.levels is None else np.union1d(column.levels, [0.0])


def _smallest(count: int) -> type[np.unsignedinteger[Any]]:
    return np.uint8 if count <= 2**8 else np.uint16 if count <= 2**16 else np.uint32


@njit(cache=True, nogil=True)
def _take(symbols: NDArray[Any], table: Codes, out: Codes) -> None:
    for i in range(len(symbols)):
        out[i] = table[symbols[i]]
