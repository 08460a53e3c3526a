"""The public description of a table: its columns, constraints, and the map of rows to points of the cube and back."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from trigmech._arrays import Array
from trigmech._deprecated import deprecated
from trigmech._validate import check_integers, numbers
from trigmech.domain import Domain, OneHotGroup
from trigmech.errors import InputError, shown
from trigmech.schema.column import Column, Kind
from trigmech.schema.constraint_grammar import parse
from trigmech.schema.constraints import Constraint, Truth
from trigmech.schema.derived import Completion, Derived, completion_of, listed
from trigmech.schema.encoding import (
    Values,
    check_faults,
    decode,
    decoded_number,
    joined,
    levels_of,
    placed,
    to_unit,
    values_of,
)
from trigmech.schema.satisfiability import check_satisfiable
from trigmech.schema.times import is_date, read
from trigmech.schema.values import is_unicode
from trigmech.schema.words import as_html, as_written
from trigmech.tables.frames import Columns, to_matrix

__all__ = ["Column", "Kind", "Schema"]


@dataclass(frozen=True)
class Schema:
    """The public description of a table, and its map to the cube [-1, 1]^D.

    A column of numbers, dates or ordered categories is one coordinate; each category of another column, each special
    value, and "missing" where it is kept, is a coordinate that is 0 or 1 (:mod:`trigmech.schema.encoding`). If all
    columns are plain numbers D is the number of columns d.

    Parameters
    ----------
    columns : iterable of Column
        At least one, with distinct names.
    person : str, optional
        The name of one more column of the table, of text or numbers, that identifies the person of each row. A person
        then counts once, with any number of rows: n is the number of persons, and all rows of a person are protected
        together. Without it each row is a person.
    constraints : iterable of str or Constraint
        Public rules that every synthetic row satisfies, such as ``"age < 15 implies education is missing"``; their
        grammar is in :mod:`trigmech.schema.constraint_grammar`. The rows of the table need not satisfy them.
    derived : iterable of Derived, or mapping of str to str, optional
        Columns that follow from these by a public formula, such as ``{"hour": "sched_dep_time // 100"}``. They are not
        measured, so they cost nothing, and every synthetic table has them; see :class:`trigmech.Derived`.

    Raises
    ------
    InputError
        If there is no column, an entry is not a Column, or a name (also that of the person) occurs twice; if a
        constraint or a formula breaks its grammar or does not suit the columns; if no row can satisfy all constraints.

    ``completion`` adds the derived columns to the values of the others.
    """

    columns: tuple[Column, ...]
    constraints: tuple[Constraint, ...]
    person: str | None
    derived: tuple[Derived, ...]
    completion: Completion = field(init=False, repr=False, compare=False)

    def __init__(self, columns: Iterable[Column], constraints: Iterable[str | Constraint] = (),
                 person: str | None = None, derived: Iterable[Derived] | Mapping[str, str] = ()) -> None:
        columns = tuple(columns)
        if not columns:
            raise InputError("a schema needs at least one column")
        for column in columns:
            if not isinstance(column, Column):
                raise InputError(f"a schema's columns must be Column objects, not {type(column).__name__}")
        if person is not None and not (isinstance(person, str) and person and is_unicode(person)):
            raise InputError("person must be the name of the column that identifies the person of each row, not "
                             f"{shown(person)}")
        names = [*(column.name for column in columns), *([] if person is None else [person])]
        twice = sorted(name for name, count in Counter(names).items() if count > 1)
        if twice:
            raise InputError(f"column names must be distinct; given twice: {', '.join(map(repr, twice))}")
        if isinstance(constraints, str) or not isinstance(constraints, Iterable):
            raise InputError(f"constraints must be a list of texts, not {shown(constraints)}")
        named = {column.name: column for column in columns}
        rules = tuple(parse(each.text if isinstance(each, Constraint) else each, named) for each in constraints)
        check_satisfiable(rules, named)
        following = listed(derived)
        object.__setattr__(self, "derived", following)
        object.__setattr__(self, "completion", completion_of(columns, following, person))
        object.__setattr__(self, "columns", columns)
        object.__setattr__(self, "constraints", rules)
        object.__setattr__(self, "person", person)

    def __reduce__(self) -> Any:
        # Formulas are functions, which cannot be sent to workers: these parse them again.
        return Schema, (self.columns, self.constraints, self.person, self.derived)

    @classmethod
    def cube(cls, d: int) -> "Schema":
        """Return the schema of a table that already lies in the cube: columns x1 to xd with bounds -1 and 1."""
        check_integers(1, d=d)
        return cls(Column(f"x{j + 1}", -1.0, 1.0) for j in range(d))

    @property
    def d(self) -> int:
        """The number of columns."""
        return len(self.columns)

    @property
    def names(self) -> tuple[str, ...]:
        """The columns' names, in order."""
        return tuple(column.name for column in self.columns)

    @cached_property
    def coordinates(self) -> tuple[str, ...]:
        """Names of the D coordinates, such as "age", "workclass=Private", "gain=0" or "age is missing"."""
        return tuple(name for column in self.columns for name in column.coordinates)

    @cached_property
    def domain(self) -> Domain:
        """Which coordinates are numbers, and which are the indicators of a column."""
        groups, levels = [], []
        for column, (start, stop) in zip(self.columns, self.spans, strict=True):
            if not column.complete and (values := levels_of(column)) is not None:
                levels.append((start, values))
            first = start if column.complete else start + 1
            if stop > first:
                groups.append(OneHotGroup(tuple(range(first, stop)), column.complete,
                                          None if column.complete else start))
        return Domain(self.spans[-1][1], groups, levels)

    @property
    def width(self) -> int:
        """The number of coordinates, D."""
        return self.domain.d

    @property
    @deprecated("Schema.layout", since="0.2", removed_in="0.4", instead="Schema.domain")
    def layout(self) -> Domain:
        """The same as ``domain``, by its older name, which is deprecated since 0.2."""
        return self.domain

    @property
    def private_bounds(self) -> tuple[str, ...]:
        """Names of the columns whose bounds are private and not found yet."""
        return tuple(column.name for column in self.columns if column.private_bounds)

    def with_bounds(self, bounds: Mapping[str, tuple[float, float]]) -> "Schema":
        """Return the schema with bounds for columns that have private ones.

        Parameters
        ----------
        bounds : mapping of str to (lower, upper)
            The bounds that a private step released; they are public from now on.

        Raises
        ------
        InputError
            If a column has no private bounds, or the bounds break a rule of Column.
        """
        return self._with("bounds", self.private_bounds, {
            name: {"lower": lower, "upper": upper} for name, (lower, upper) in bounds.items()})

    def _with(self, what: str, private: tuple[str, ...], found: Mapping[str, Mapping[str, Any]]) -> "Schema":
        """Return the schema with further options of columns whose bounds or categories were private."""
        strange = sorted(set(found) - set(private))
        if strange:
            raise InputError(f"there is no column with private {what} of the name(s) {', '.join(map(repr, strange))}")
        public: dict[str, Any] = {f"private_{what}": False}
        columns = [replace(column, **found[column.name], **public) if column.name in found else column
                   for column in self.columns]
        return Schema(columns, self.constraints, self.person, self.derived)

    def holds(self, table: Any) -> Truth:
        """Return for each row of a synthetic table whether it keeps all constraints.

        Parameters
        ----------
        table : dataframe, array_like (m, d), or mapping of str to ndarray or masked array (m,)
            A table as in :meth:`to_cube`, but nothing is clipped; or the result of :meth:`decode`. The answer (m,) is
            private if the table is.

        Raises
        ------
        InputError
            If a column is absent or cannot be read, or a value is no category.
        """
        if isinstance(table, Mapping):
            values, m = table, len(next(iter(table.values()), ()))
        else:
            columns = Columns(table, self.names)
            read = {name for constraint in self.constraints for name in constraint.columns}
            values, m = {column.name: values_of(column, columns, j) for j, column in enumerate(self.columns)
                         if column.name in read}, columns.n
        kept = np.ones(m, dtype=np.bool_)
        for constraint in self.constraints:
            kept &= constraint.holds(values)
        return kept

    @property
    def private_categories(self) -> tuple[str, ...]:
        """Names of the columns whose categories are private and not found yet."""
        return tuple(column.name for column in self.columns if column.private_categories)

    def with_categories(self, found: Mapping[str, Iterable[str]]) -> "Schema":
        """Return the schema with categories for columns that have private ones.

        Parameters
        ----------
        found : mapping of str to iterable of str
            The categories that a private step released; they are public from now on. Each column gets them, sorted, and
            then ``other``. If no category was found, the column gets ``other`` and one more category that no row has.

        Raises
        ------
        InputError
            If a column has no private categories, or they break a rule of Column.
        """
        absent = {column.name: column.none_found for column in self.columns}
        listed = {name: (*sorted(categories), *absent.get(name, ())[:1]) for name, categories in found.items()}
        return self._with("categories", self.private_categories, {
            name: {"categories": each if len(each) > 1 else absent.get(name)} for name, each in listed.items()})

    def to_cube(self, table: Any) -> Array:
        """Return the table as points of the cube.

        Parameters
        ----------
        table : dataframe or array_like (n, d), private
            A dataframe of pandas, polars, pyarrow or another library that narwhals supports. Its columns are found by
            name, in any order. A lazy frame (of polars, or a relation of DuckDB) or a record batch, stream (anything
            with ``__arrow_c_stream__``), dataset or scanner of Arrow is read into memory. An array or a list of rows
            has the columns in the schema's order. The meaning of a cell depends only on the cell and its column's type.

        Returns
        -------
        ndarray (n, D), private
            Entries in [-1, 1] that fit ``domain``. A value outside its column's bounds is clipped to the nearer bound,
            so the bounds limit the effect of one person's value on the result.

        Raises
        ------
        InputError
            If a column is absent or has a type that does not fit its kind, the width is wrong, there are no rows, a
            missing value is refused, a value is not a category and the column has no ``other``, or bounds are private
            and not found yet. The message names the columns, but neither rows nor values.
        """
        self._check_bounds()
        if self._plain and not (isinstance(table, np.ndarray) and table.dtype == object):
            matrix = to_matrix(table, self.names)
            check_faults(self.names, np.flatnonzero(np.isnan(matrix).any(axis=0)), ())
            return to_unit(matrix, *self._bounds)
        return joined(placed(self.columns, table), self.spans)

    def from_cube(self, points: Array) -> Array:
        """Return points (m, D) of the cube as an array (m, d) in the columns' own units, with NaN for missing values.

        Values are clipped to the bounds, and rounded if the column's kind requires it.

        Raises
        ------
        InputError
            If the points have another width, or a column's values are no numbers; use :meth:`decode` then.
        """
        self._check_bounds()
        points = numbers("points", points, "m", self.domain.d).astype(np.float64, copy=False)
        if self._plain:
            return np.column_stack([decoded_number(column, points[:, j]) for j, column in enumerate(self.columns)])
        others = [column.name for column in self.columns if column.is_text or column.unit]
        if others:
            raise InputError(f"column(s) {', '.join(map(repr, others))} hold text or times, but an array of numbers "
                             "cannot hold these; use decode")
        table = np.empty((len(points), self.d))
        for j, values in enumerate(self.decode(points).values()):
            table[:, j] = np.ma.filled(values.astype(np.float64), np.nan)
        return table

    def decode(self, points: Array, names: Collection[str] | None = None) -> dict[str, Values]:
        """Return points of the cube as the values of each column.

        Parameters
        ----------
        points : array_like (m, D)
            Numbers are clipped to the bounds. The category with the largest entry counts.
        names : collection of str, optional
            The columns to return. Default: all.

        Returns
        -------
        dict of str to ndarray or masked array (m,)
            By name, in order. If the column keeps missing values, they are masked. The types are float for continuous
            columns, int64 for integer columns and for binary columns whose two values are integers, and datetime64 for
            times. Columns of categories give the categories themselves; texts are objects.
            :func:`trigmech.tables.frames.like` makes dataframes of them.

        Raises
        ------
        InputError
            If the points have another width.
        """
        self._check_bounds()
        points = numbers("points", points, "m", self.domain.d).astype(np.float64, copy=False)
        return {column.name: decode(column, points[:, start:stop])
                for column, (start, stop) in zip(self.columns, self.spans, strict=True)
                if names is None or column.name in names}

    @property
    def table_names(self) -> tuple[str, ...]:
        """The names of a synthetic table's columns, derived ones too, in order; without that of persons."""
        return self.completion.order

    def completed(self, values: Mapping[str, Values]) -> dict[str, Values]:
        """Return the values (m,) of all columns, with those of derived ones, in order; see :meth:`decode`.

        Derived numbers are int64 if they are whole, otherwise floats. They are missing if a value that they need is
        missing, or if a public table has no such row.
        """
        return self.completion.completed(values)

    def __repr__(self) -> str:
        return as_written(self.columns, self.constraints, self.person, self.derived)

    def _repr_html_(self) -> str:
        return as_html(self.columns, self.constraints, self.derived)

    def to_dict(self) -> dict[str, Any]:
        """Return the schema as plain data, of types that JSON and TOML have; :meth:`from_dict` reverses it."""
        columns = {"columns": [column.to_dict() for column in self.columns]}
        return (columns | ({"constraints": [each.text for each in self.constraints]} if self.constraints else {})
                | ({} if self.person is None else {"person": self.person})
                | ({"derived": [each.to_dict() for each in self.derived]} if self.derived else {}))

    @classmethod
    def from_dict(cls, plain: Any) -> "Schema":
        """Return the schema of :meth:`to_dict`.

        Releases of 0.1 have datetime columns without a resolution: it is days if the bounds are dates, else seconds.

        Raises
        ------
        InputError
            If something is missing, unknown or of the wrong type; the message names the column and the option.
        """
        if not (isinstance(plain, Mapping) and isinstance(plain.get("columns"), list | tuple)
                and plain.keys() <= {"columns", "constraints", "person", "derived"}
                and isinstance(plain.get("derived", []), list | tuple)):
            raise InputError("a schema must be a table with a list 'columns'; it may also have lists 'constraints' and "
                             "'derived' and a name 'person', and nothing else")
        return cls(map(_column, plain["columns"]), plain.get("constraints", ()), plain.get("person"),
                   map(Derived.from_dict, plain.get("derived", ())))

    @cached_property
    def spans(self) -> tuple[tuple[int, int], ...]:
        """For each column its first coordinate, and the one after its last."""
        stops = np.cumsum([len(column.coordinates) for column in self.columns]).tolist()
        return tuple(zip([0, *stops[:-1]], stops, strict=True))

    @cached_property
    def _plain(self) -> bool:
        """Whether all columns are numbers that are mapped affinely, so that they can be mapped together."""
        return all(column.kind in ("continuous", "integer", "binary") and len(column.coordinates) == 1
                   and column.transform is None and column.missing == "refuse" for column in self.columns)

    @cached_property
    def _bounds(self) -> tuple[Array, Array]:
        bounds = np.array([column.bounds for column in self.columns])
        return bounds[:, 0], bounds[:, 1]

    def _check_bounds(self) -> None:
        for what, names in (("bounds", self.private_bounds), ("categories", self.private_categories)):
            if names:
                raise InputError(f"the {what} of column(s) {', '.join(map(repr, names))} are private and not found "
                                 f"yet; find them by a private step and complete the schema with Schema.with_{what}")


def counted(schema: Schema) -> str:
    """Return the units that a table of a schema counts: its "persons", or "rows" without a column of persons."""
    return "rows" if schema.person is None else "persons"


def _column(plain: Any) -> Column:
    if isinstance(plain, Mapping) and plain.get("kind") == "datetime" and plain.get("resolution") is None:
        days = all(is_date(read(plain.get(option))) for option in ("lower", "upper"))
        plain = {**plain, "resolution": "day" if days else "second"}
    return Column.from_dict(plain)
