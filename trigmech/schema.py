"""What is public about a table: names, kinds and bounds of its columns, and the map to the cube and back."""

import math
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from numbers import Real
from typing import Any, Literal, get_args

import numpy as np

from trigmech.errors import InputError
from trigmech.tables import Matrix, numbers, to_matrix

Kind = Literal["continuous", "integer", "binary"]


@dataclass(frozen=True)
class Column:
    """One column: its name, its public bounds and its kind.

    Parameters
    ----------
    name : str
        Not empty.
    lower, upper : float
        Public bounds, finite, lower < upper. They must come from knowledge of the subject, never from the
        table: bounds read off the data are a leak that no later step repairs.
    kind : {"continuous", "integer", "binary"}
        Synthetic values of an integer column are rounded to integers and those of a binary column to the
        nearer bound.

    Raises
    ------
    InputError
        If a rule above is broken.
    """

    name: str
    lower: float
    upper: float
    kind: Kind = "continuous"

    def __post_init__(self) -> None:
        if not (isinstance(self.name, str) and self.name):
            raise InputError(f"a column's name must be a non-empty string, not {self.name!r}")
        if not (isinstance(self.lower, Real) and isinstance(self.upper, Real)):
            raise InputError(f"column {self.name!r}: bounds must be numbers, not {self.lower!r} and {self.upper!r}")
        try:
            lower, upper = float(self.lower), float(self.upper)
        except OverflowError:
            lower, upper = math.inf, math.inf
        if not (math.isfinite(lower) and math.isfinite(upper) and lower < upper):
            raise InputError(f"column {self.name!r}: bounds must be finite with lower < upper; "
                             f"given lower={lower} and upper={upper}")
        if not sys.float_info.min <= upper - lower < math.inf:
            raise InputError(f"column {self.name!r}: the range from {lower} to {upper} is too wide or too narrow for "
                             "a float")
        if self.kind not in get_args(Kind):
            raise InputError(f"column {self.name!r}: kind must be one of {', '.join(get_args(Kind))}, "
                             f"not {self.kind!r}")
        if self.kind == "integer" and math.ceil(lower) > math.floor(upper):
            raise InputError(f"column {self.name!r}: no integer lies between lower={lower} and upper={upper}")
        object.__setattr__(self, "lower", lower)
        object.__setattr__(self, "upper", upper)


@dataclass(frozen=True)
class Schema:
    """The public description of a table, and its affine map to the cube [-1, 1]^d.

    Parameters
    ----------
    columns : iterable of Column
        At least one, with distinct names.

    Raises
    ------
    InputError
        If there is no column, an entry is not a Column, or a name occurs twice.
    """

    columns: tuple[Column, ...]

    def __init__(self, columns: Iterable[Column]) -> None:
        columns = tuple(columns)
        if not columns:
            raise InputError("a schema needs at least one column")
        for column in columns:
            if not isinstance(column, Column):
                raise InputError(f"a schema is made of Column objects, not {type(column).__name__}")
        names = [column.name for column in columns]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise InputError(f"column names must be distinct; given twice: {', '.join(map(repr, twice))}")
        object.__setattr__(self, "columns", columns)

    @classmethod
    def cube(cls, d: int) -> "Schema":
        """Return the schema of a table that already lies in the cube: columns x1 to xd with bounds -1 and 1."""
        if not (isinstance(d, int | np.integer) and d >= 1):
            raise InputError(f"d must be a positive integer, not {d!r}")
        return cls(Column(f"x{j + 1}", -1.0, 1.0) for j in range(d))

    @property
    def d(self) -> int:
        """The number of columns."""
        return len(self.columns)

    @property
    def names(self) -> tuple[str, ...]:
        """The columns' names, in order."""
        return tuple(column.name for column in self.columns)

    def to_cube(self, table: Any) -> Matrix:
        """Return the table as points of the cube.

        Parameters
        ----------
        table : dataframe or array_like (n, d), private
            As in :func:`trigmech.tables.to_matrix`.

        Returns
        -------
        ndarray (n, d), private
            Entries in [-1, 1]. A value outside its column's bounds, an infinite one included, is clipped to the
            nearer bound, so that one person's value moves the result no further than the bounds allow.

        Raises
        ------
        InputError
            If a column is absent or not numeric, the width is wrong, there are no rows, or a value is missing
            (NaN). The message names the columns with missing values, not the rows, and no value.
        """
        matrix = to_matrix(table, self.names)
        missing = [name for j, name in enumerate(self.names) if np.isnan(matrix[:, j]).any()]
        if missing:
            raise InputError(f"values are missing (NaN) in column(s) {', '.join(map(repr, missing))}; "
                             "fill them or leave the column out before the release")
        lower, upper = self._bounds()
        half = 0.5 * (upper - lower)
        cube = np.clip(matrix, lower, upper)
        cube -= lower
        cube /= half
        cube -= 1.0
        return np.clip(cube, -1.0, 1.0, out=cube)

    def from_cube(self, points: Matrix) -> Matrix:
        """Return points of the cube in the columns' own units, rounded where a column's kind asks for it.

        Parameters
        ----------
        points : array_like (m, d)
            Entries in [-1, 1]; the result is clipped to the bounds.

        Returns
        -------
        ndarray (m, d)
        """
        points = numbers("points", points, "m", self.d).astype(np.float64, copy=False)
        lower, upper = self._bounds()
        half = 0.5 * (upper - lower)
        # From the nearer bound, so that -1 and 1 give the bounds themselves.
        table = np.where(points > 0.0, upper - (1.0 - points) * half, lower + (points + 1.0) * half)
        table = np.clip(table, lower, upper)
        for j, column in enumerate(self.columns):
            if column.kind == "integer":
                table[:, j] = np.clip(np.rint(table[:, j]), math.ceil(column.lower), math.floor(column.upper))
            elif column.kind == "binary":
                table[:, j] = np.where(points[:, j] >= 0.0, column.upper, column.lower)
        return table

    def _bounds(self) -> tuple[Matrix, Matrix]:
        bounds = np.array([(column.lower, column.upper) for column in self.columns])
        return bounds[:, 0], bounds[:, 1]
