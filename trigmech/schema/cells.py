"""Cells of a column's values: the cells alone decide whether a row can satisfy the constraints."""

from collections.abc import Mapping, Sequence

import numpy as np

from trigmech._arrays import Array, Integers
from trigmech.schema.column import Column
from trigmech.schema.constraints import Constraint, Truth, allowed
from trigmech.schema.encoding import Values, categories_of, number_at, place_of
from trigmech.schema.satisfiability import representatives


class ConstraintCells:
    """Cells of the columns of constraints, and which combinations of cells can satisfy each constraint.

    Numbers and times are cut at the values they are compared with: each such value is a piece, and so is each gap
    between two. Pieces, or categories, that make no difference to any constraint form one cell. Two numbers in the same
    cell that are compared with each other can be in any order: such a combination is allowed, and the values decide.
    Columns that are compared with each other are also cut at ``grid`` (numbers, or seconds since 1970). ``tables``
    holds for each constraint which combinations it allows, an axis for each of its columns.
    """

    def __init__(self, constraints: Sequence[Constraint], columns: Mapping[str, Column],
                 grid: Array | None = None) -> None:
        self._columns = columns
        values, self._breaks = representatives(constraints, columns, grid)
        values = {name: self._restored(name, held) for name, held in values.items()}
        self._cell = {name: np.arange(self._pieces(name)) for name in values}
        self.tables: list[Truth] = []
        for constraint in constraints:
            table = allowed(constraint, values)
            for axis, name in enumerate(constraint.columns):
                parts = np.zeros((self._pieces(name), *np.delete(table.shape, axis)), dtype=np.bool_)
                for piece, part in zip(self.codes(name, values[name]), np.moveaxis(table, axis, 0), strict=True):
                    parts[piece] |= part
                table = np.moveaxis(parts, 0, axis)
            self.tables.append(table)
        for name in values:
            self._merge(name, [(t, each.columns.index(name)) for t, each in enumerate(constraints)
                               if name in each.columns])

    def _merge(self, name: str, axes: Sequence[tuple[int, int]]) -> None:
        """Make one cell of all pieces of a column that are alike in all tables; ``axes`` are its axes in them."""
        alike = np.hstack([np.packbits(np.moveaxis(self.tables[t], axis, 0).reshape(self._pieces(name), -1), axis=1)
                           for t, axis in axes])
        _, first, cell = np.unique(alike, axis=0, return_index=True, return_inverse=True)
        self._cell[name] = cell.ravel()
        for t, axis in axes:
            self.tables[t] = np.ascontiguousarray(np.take(self.tables[t], first, axis=axis))

    def _pieces(self, name: str) -> int:
        """Return the number of a column's pieces: its categories, or its numbers and gaps, and one for "missing"."""
        if name not in self._breaks:
            return 2
        categories = self._columns[name].categories
        return 2 + 2 * len(self._breaks[name]) if categories is None else 1 + len(categories)

    def codes(self, name: str, values: Values) -> Integers:
        """Return the cell (m,) of each value; values have the form of :meth:`trigmech.Schema.decode`."""
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
        return self._cell[name][np.where(np.ma.getmaskarray(values), self._pieces(name) - 1, codes)]

    def cuts(self, name: str) -> Array:
        """Return the places in [-1, 1] at which the number of a column moves to another cell, ascending."""
        column = self._columns[name]
        if name not in self._breaks or column.complete:
            return np.empty(0)
        if column.kind == "binary":
            return np.zeros(1)
        cell = self._cell[name][:-1]
        if column.categories is not None:
            cuts: Array = 0.5 + np.flatnonzero(cell[:-1] != cell[1:]).astype(np.float64)
        else:
            breaks = self._breaks[name] / column.seconds
            below, here, above = cell[:-1:2], cell[1::2], cell[2::2]
            # A position of a continuous column is never a single number; between whole numbers there is no value.
            skipped = (breaks % 1.0 != 0.0) | (column.kind == "continuous")
            cuts = breaks[skipped & (below != above)]
            if column.kind != "continuous":
                cuts = np.concatenate([np.floor(cuts) + 0.5, breaks[~skipped & (below != here)] - 0.5,
                                       breaks[~skipped & (here != above)] + 0.5])
        lower, upper = column.bounds
        return np.unique(place_of(column, cuts[(lower < cuts) & (cuts < upper)]))

    def _restored(self, name: str, values: Values) -> Values:
        """Return numbers as they come back from the cube, where rounding may change a stated value."""
        column = self._columns[name]
        if name not in self._breaks or column.kind != "continuous":
            return values
        held = np.ma.getdata(values)
        again = np.where(np.isin(held, column.special), held, number_at(column, place_of(column, held)))
        return np.ma.MaskedArray(again, np.ma.getmaskarray(values))

