"""The meaning for rows of constraints, public rules that every synthetic row satisfies.

Their grammar is in :mod:`trigmech.schema.constraint_grammar`.
"""

import datetime
import math
import operator
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trigmech.errors import InputError, shown
from trigmech.schema.column import Category, Column
from trigmech.schema.encoding import Values
from trigmech.schema.times import LAST_SECOND, MIDNIGHT, is_date
from trigmech.schema.values import plain_category, text_of

Truth = NDArray[np.bool_]
Constant = Category | datetime.date

# From the loosest to the tightest.
JOINS = ("if and only if", "implies", "or", "and")
COMPARE = {"=": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt,
           ">=": operator.ge}
MISSING = ("is missing", "is not missing")
RESERVED = {"and", "or", "not", "implies", "in", "is", "if", "only", "missing", "true", "false"}
BARE = re.compile(r"[^\W\d]\w*")

# A message names at most this many categories.
LISTED = 20
# How many combinations of values a constraint is evaluated on.
MOST_COMBINATIONS = 10**7


@dataclass(frozen=True)
class Condition:
    """A comparison of a column with constants or with a column ``other``, or a question whether a value is missing.

    There are several constants only for "in". The categories of ``by`` are compared by their numbers.
    """

    column: str
    operator: str
    constants: tuple[Constant, ...] = ()
    other: str | None = None
    by: Column | None = None

    def conditions(self) -> Iterator["Condition"]:
        yield self

    def holds(self, values: Mapping[str, Values]) -> Truth:
        """Return where the condition holds; the arrays are broadcast."""
        left = values[self.column]
        present = ~np.ma.getmaskarray(left)
        if self.operator in MISSING:
            return present if self.operator == "is not missing" else ~present
        right = _array(self.constants) if self.other is None else values[self.other]
        if self.other is not None:
            present = present & ~np.ma.getmaskarray(right)
        found, sought = (np.ma.getdata(side) if self.by is None else _codes(self.by, side) for side in (left, right))
        return present & (np.isin(found, sought) if self.operator == "in" else COMPARE[self.operator](found, sought))

    def text(self, within: int = 0) -> str:
        name = _name(self.column)
        if self.operator in MISSING:
            return f"{name} {self.operator}"
        right = ", ".join(map(written, self.constants)) if self.other is None else _name(self.other)
        return f"{name} in ({right})" if self.operator == "in" else f"{name} {self.operator} {right}"


@dataclass(frozen=True)
class Join:
    """Conditions under "not", "and", "or", "implies" or "if and only if"."""

    operator: str
    parts: tuple["Condition | Join", ...]

    def conditions(self) -> Iterator[Condition]:
        """Yield the conditions in the order in which they are written."""
        for part in self.parts:
            yield from part.conditions()

    def holds(self, values: Mapping[str, Values]) -> Truth:
        """Return where the parts together hold; the arrays are broadcast."""
        found = [part.holds(values) for part in self.parts]
        if self.operator == "not":
            return ~found[0]
        if self.operator == "implies":
            return ~found[0] | found[1]
        joined = {"and": operator.and_, "or": operator.or_, "if and only if": operator.eq}[self.operator]
        return reduce(joined, found)

    def text(self, within: int = 0) -> str:
        """Return the parts as written, in parentheses if the surrounding rule binds as tightly (``within``)."""
        if self.operator == "not":
            return f"not {self.parts[0].text(len(JOINS))}"
        level = JOINS.index(self.operator)
        text = f" {self.operator} ".join(part.text(level + 1) for part in self.parts)
        return f"({text})" if level < within else text


@dataclass(frozen=True)
class Constraint:
    """A public rule that every synthetic row keeps, made by :class:`trigmech.Schema`; two of the same text are equal.

    Parameters
    ----------
    text : str
        As it is written in normal form: bare words for columns where that can be, single quotes around text, no
        parentheses without effect.
    columns : tuple of str
        The columns that it reads, in the schema's order.
    rule : Condition or Join
        The rule as conditions.
    """

    text: str
    columns: tuple[str, ...] = field(compare=False)
    rule: Condition | Join = field(compare=False, repr=False)

    def __str__(self) -> str:
        return self.text

    def holds(self, values: Mapping[str, Values]) -> Truth:
        """Return for each row whether it keeps the constraint.

        Parameters
        ----------
        values : mapping of str to ndarray or masked array (m,)
            The columns by name, as :meth:`trigmech.Schema.decode` returns them: in the table's units, masked where
            missing. Other columns may be there too.

        Returns
        -------
        ndarray (m,) of bool

        Raises
        ------
        InputError
            If a column is absent.
        """
        absent = [name for name in self.columns if name not in values]
        if absent:
            raise InputError(f"the constraint {self.text!r} needs the column(s) {', '.join(map(repr, absent))}, which "
                             "are not given")
        return self.rule.holds(values)


def allowed(constraint: Constraint, positions: Mapping[str, Values]) -> Truth:
    """Return which combinations of values keep a constraint.

    Parameters
    ----------
    constraint : Constraint
    positions : mapping of str to ndarray or masked array (k,)
        The values to examine for each column of the constraint, in the form of :meth:`trigmech.Schema.decode`.

    Returns
    -------
    ndarray of bool
        With an axis for each of ``constraint.columns``, as long as the column's positions.

    Raises
    ------
    InputError
        If there are more than 10^7 combinations.
    """
    width = len(constraint.columns)
    combinations = math.prod(len(positions[name]) for name in constraint.columns)
    if combinations > MOST_COMBINATIONS:
        raise InputError(f"the constraint {constraint.text!r} is too large: its columns have {combinations} "
                         f"combinations of values, more than {MOST_COMBINATIONS}; split it")
    return constraint.holds({name: positions[name].reshape([-1 if axis == place else 1 for axis in range(width)])
                             for place, name in enumerate(constraint.columns)})


# Values


def _array(constants: tuple[Constant, ...]) -> NDArray:
    if isinstance(constants[0], datetime.date):
        return np.array(constants, dtype="datetime64[us]")
    return np.array(constants, dtype=object if isinstance(constants[0], str) else None)


def category_key(value: Any) -> str | float:
    """Return a key that equal categories share: white space around text is ignored, as in tables."""
    return value.strip() if isinstance(value, str) else float(value)


def _codes(column: Column, values: Values) -> NDArray[np.int64]:
    """Return the number of each value's category, or -1."""
    places = {category_key(category): place for place, category in enumerate(column.categories or ())}
    held = np.ma.getdata(values)
    listed = held.ravel().tolist()
    codes = {value: places.get(category_key(value), -1) for value in set(listed)}
    return np.array([codes[value] for value in listed], dtype=np.int64).reshape(held.shape)


def held_by(column: Column) -> str:
    """Return in a word the sort of values of a column; only values of the same sort can be equal."""
    if column.categories is None:
        return "times" if column.unit else "numbers"
    return sort_of(column.categories[0])


def sort_of(value: Constant) -> str:
    """Return the sort of a constant in the same words; a date is text as a constant."""
    return "text" if isinstance(value, str) else "true and false" if isinstance(value, bool) else "numbers"


# Text


def categories_listed(column: Column) -> str:
    """Return the names of a column's categories for a message, only the first ones if there are many."""
    names = list(map(text_of, column.categories or ()))
    more = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
    return ", ".join(map(repr, names[:LISTED])) + more


def _name(name: str) -> str:
    bare = BARE.fullmatch(name) and name not in RESERVED
    return name if bare else '"' + name.replace('"', '""') + '"'


def written(value: Constant) -> str:
    """Return a constant as it stands in a constraint."""
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, bool):
        return str(value).lower()
    return value.isoformat() if isinstance(value, datetime.date) else str(value)


def stated(column: Column, value: Any) -> str:
    """Return the constraint that a column has a value, one of a list, one in a range (lower, upper), or no value: None.

    For a column of times, a date without a time is its whole day: a lower value is its beginning, an upper one its end.
    An InputError is raised if a constant cannot have the value's type.
    """
    def constant(each: Any, end: bool = False) -> str:
        if column.kind == "binary" and column.bounds == (0.0, 1.0) and isinstance(each, bool | np.bool_):
            # Tables can hold a binary column as truth values.
            each = int(each)
        plain = column.date("a value", each) if column.unit else plain_category(each)
        if whole_day(each):
            plain = datetime.datetime.combine(plain, LAST_SECOND if end else MIDNIGHT)
        if not isinstance(plain, Constant) or (isinstance(plain, float) and not math.isfinite(plain)):
            raise InputError(f"a value for column {column.name!r} must be one that the column can have, not "
                             f"{shown(each)}")
        return written(plain)

    def whole_day(each: Any) -> bool:
        return column.unit not in (None, "D") and is_date(column.date("a value", each))

    def between(lower: Any, upper: Any) -> str:
        return f"{name} >= {constant(lower)} and {name} <= {constant(upper, end=True)}"

    name = _name(column.name)
    if value is None:
        return f"{name} is missing"
    if isinstance(value, tuple):
        if len(value) != 2:
            raise InputError(f"a range of {column.name!r} must be a lower and an upper value, not {shown(value)}")
        return between(*value)
    if isinstance(value, list) and not value:
        raise InputError(f"a list of values of {column.name!r} must not be empty")
    values = value if isinstance(value, list) else [value]
    days = [each for each in values if whole_day(each)]
    single = [constant(each) for each in values if not whole_day(each)]
    parts = [f"{name} in ({', '.join(single)})"] if single else []
    return " or ".join([*parts, *(f"({between(day, day)})" if len(values) > 1 else between(day, day) for day in days)])
