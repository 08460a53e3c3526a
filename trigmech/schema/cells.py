"""Cells of a column's values, of which it depends alone whether a row can keep constraints."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from trigmech.schema.column import Column
from trigmech.schema.constraints import Constraint, Truth, allowed
from trigmech.schema.encoding import Values, categories_of, number_at, place_of
from trigmech.schema.satisfiability import DAY, representatives
from trigmech.tables.frames import Matrix

Codes = NDArray[np.int64]


class ConstraintCells:
    """Cells of the columns of constraints, and which combinations of cells can keep each constraint.

    Of categories each is a cell. Numbers and times are cut at what they are compared with: each such value is a cell,
    and so is what lies between two. Two numbers in the same cell, which are compared with each other, can be in any
    order: such a combination is allowed, and the values decide. "Missing" is the last cell.

    Parameters
    ----------
    constraints : sequence of Constraint
    columns : mapping of str to Column
        The schema's columns by name.
    grid : ndarray (g,), optional
        Numbers, or times in seconds since 1970, at which columns that are compared with each other are cut as well.

    Attributes
    ----------
    tables : list of ndarray of bool
        For each constraint which combinations it allows, an axis for each of its columns.
    """

    def __init__(self, constraints: Sequence[Constraint], columns: Mapping[str, Column],
                 grid: Matrix | None = None) -> None:
        self._columns = columns
        values, self._breaks = representatives(constraints, columns, grid)
        values = {name: self._restored(name, held) for name, held in values.items()}
        self.tables: list[Truth] = []
        for constraint in constraints:
            table = allowed(constraint, values)
            for axis, name in enumerate(constraint.columns):
                parts = np.zeros((self.size(name), *np.delete(table.shape, axis)), dtype=np.bool_)
                for cell, part in zip(self.codes(name, values[name]), np.moveaxis(table, axis, 0), strict=True):
                    parts[cell] |= part
                table = np.moveaxis(parts, 0, axis)
            self.tables.append(np.ascontiguousarray(table))

    def size(self, name: str) -> int:
        """Return the number of a column's cells."""
        if name not in self._breaks:
            return 2
        categories = self._columns[name].categories
        return 2 + 2 * len(self._breaks[name]) if categories is None else 1 + len(categories)

    def codes(self, name: str, values: Values) -> Codes:
        """Return the cell (m,) of each value, which are of the form of :meth:`trigmech.Schema.decode`."""
        column, held = self._columns[name], np.ma.getdata(values)
        if name not in self._breaks:
            codes = np.zeros(len(held), dtype=np.int64)
        elif column.categories is not None:
            places = {category: place for place, category in enumerate(categories_of(column).tolist())}
            codes = np.array([places[value] for value in held.tolist()], dtype=np.int64)
        else:
            numbers = held.astype("datetime64[us]").astype(np.int64) / 1e6 if column.unit else held.astype(np.float64)
            breaks = self._breaks[name]
            below = np.searchsorted(breaks, numbers)
            codes = 2 * below + (breaks[np.minimum(below, len(breaks) - 1)] == numbers)
        return np.where(np.ma.getmaskarray(values), self.size(name) - 1, codes)

    def cuts(self, name: str) -> Matrix:
        """Return the places in [-1, 1] at which the number of a column comes to another cell, ascending."""
        column = self._columns[name]
        if name not in self._breaks or column.complete:
            return np.empty(0)
        if column.kind == "binary":
            return np.zeros(1)
        if column.categories is not None:
            breaks = np.arange(len(column.categories), dtype=np.float64)
        else:
            breaks = self._breaks[name] / (DAY if column.unit == "D" else 1.0)
        if column.kind != "continuous":
            # Of a grid, which lies between whole numbers, one cut is enough.
            breaks = np.concatenate([np.floor(breaks) + 0.5, np.ceil(breaks) - 0.5])
        return np.unique(place_of(column, breaks))

    def _restored(self, name: str, values: Values) -> Values:
        """Return numbers as they come back from the cube, where rounding may lose a value that was written down."""
        column = self._columns[name]
        if name not in self._breaks or column.kind != "continuous":
            return values
        held = np.ma.getdata(values)
        again = np.where(np.isin(held, column.special), held, number_at(column, place_of(column, held)))
        return np.ma.MaskedArray(again, np.ma.getmaskarray(values))

