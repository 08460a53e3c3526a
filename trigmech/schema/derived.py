"""Derived columns: they follow from other columns by a public formula, so they are computed and never measured."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import Any

import numpy as np

from trigmech._arrays import Array
from trigmech.errors import InputError, shown
from trigmech.schema.column import MOST_DECIMALS, Column
from trigmech.schema.formula import LARGEST_EXACT, Expression, names_read, parse, range_of, tables_read
from trigmech.schema.lookup import Lookup, read_lookup
from trigmech.schema.rounding import PARTS
from trigmech.schema.values import is_unicode

# The options of a derived column in a file, beside its name.
OPTIONS = ("derived", "decimals", "tables")


@dataclass(frozen=True)
class Derived:
    """A column that follows from others: a synthetic table has it, and it costs no budget.

    The formula must be public knowledge, such as ``"sched_dep_time // 100"``: the private table is never compared with
    it, and need not have the column. :mod:`trigmech.schema.formula` has the grammar.

    Parameters
    ----------
    name : str
        Not the name of another column.
    formula : str
        At most 1,000 characters. It may read other derived columns.
    decimals : int, optional
        The digits after the point, 0 to 12. By default as many as 1/10,000 of the range that the formula can have, by
        the bounds of its columns.
    after : str, optional
        The column that it follows in a synthetic table. Default: it stands behind all others.
    tables : mapping of str to iterable of sequences, optional
        The public tables of ``lookup``, by name: rows whose last entry is the result. By default a table is read from
        the CSV file of its name, once; releases hold it.

    Raises
    ------
    InputError
        If an option breaks a rule, or the formula is not in the grammar. :class:`trigmech.Schema` checks it against the
        other columns.
    """

    name: str
    formula: str
    decimals: int | None = None
    after: str | None = None
    tables: Any = ()

    def __post_init__(self) -> None:
        if not (isinstance(self.name, str) and self.name and is_unicode(self.name)):
            raise InputError(f"a derived column's name must be a non-empty string, not {shown(self.name)}")
        if self.decimals is not None and not (type(self.decimals) is int and 0 <= self.decimals <= MOST_DECIMALS):
            raise InputError(f"derived column {self.name!r}: decimals must be an integer from 0 to {MOST_DECIMALS}, "
                             f"not {shown(self.decimals)}")
        if self.after is not None and not isinstance(self.after, str):
            raise InputError(f"derived column {self.name!r}: after must be the name of a column, not "
                             f"{shown(self.after)}")
        wanted = tables_read(self.name, self.formula)
        given = self.tables
        if isinstance(given, tuple) and all(isinstance(each, Lookup) for each in given):
            given = {each.name: each for each in given}
        if not isinstance(given, Mapping):
            raise InputError(f"derived column {self.name!r}: tables must be a dictionary of lists of rows by name, not "
                             f"{shown(given)}")
        strange = [name for name in given if name not in wanted]
        if strange:
            raise InputError(f"derived column {self.name!r}: the option tables has {strange[0]!r}, but the "
                             f"formula does not look up {strange[0]!r}")
        object.__setattr__(self, "tables", tuple(
            held if isinstance(held := given.get(name), Lookup) else
            read_lookup(name) if held is None else Lookup(name, held) for name in wanted))

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data, without default options."""
        plain: dict[str, Any] = {"name": self.name, "formula": self.formula}
        plain |= {option: getattr(self, option) for option in ("decimals", "after")
                  if getattr(self, option) is not None}
        if self.tables:
            # TOML has no empty value; an empty text is missing, too.
            plain["tables"] = {table.name: [["" if cell is None else cell for cell in row] for row in table.rows]
                               for table in self.tables}
        return plain

    @classmethod
    def from_dict(cls, plain: Any) -> "Derived":
        """Return the derived column of :meth:`to_dict`."""
        if not (isinstance(plain, Mapping) and plain.keys() <= {"name", "formula", "decimals", "after", "tables"}
                and {"name", "formula"} <= plain.keys()):
            raise InputError("a derived column must be a table with name and formula; it may also have decimals, after "
                             "and tables, and nothing else")
        return cls(plain["name"], plain["formula"], plain.get("decimals"), plain.get("after"), plain.get("tables", ()))


@dataclass(frozen=True, eq=False)
class Completion:
    """Adds derived columns to the values of the others.

    ``steps`` has each derived column with its formula and its digits, after the columns that the formula needs.
    ``order`` has the names of all columns in the order of a synthetic table.
    """

    steps: tuple[tuple[str, Expression, int | None], ...]
    order: tuple[str, ...]

    @property
    def numbers(self) -> dict[str, int | None]:
        """The derived columns that hold numbers, and to how many digits after the point they are rounded, or None."""
        return {name: digits for name, formula, digits in self.steps if formula.range.sort == "numbers"}

    def sources(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return the columns, none of them derived, from which these follow."""
        held = dict.fromkeys(names)
        for name, formula, _ in reversed(self.steps):
            if name in held:
                del held[name]
                held.update(dict.fromkeys(sorted(formula.reads)))
        return tuple(held)

    def completed(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values (m,) of all columns by name, in order; masked where a derived one may be missing."""
        held = self.known(values)
        return {name: held[name] for name in self.order}

    def known(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values (m,) of some columns with those of the derived ones that follow from these."""
        held = dict(values)
        for name, formula, digits in self.steps:
            if not formula.reads <= held.keys():
                continue
            found = formula.values(held)
            size = len(next(iter(values.values())))
            data = np.broadcast_to(np.ma.getdata(found), size)
            absent = np.broadcast_to(np.ma.getmaskarray(found), size)
            if formula.range.sort == "numbers":
                data = np.where(np.isfinite(data), data, 0.0)
                whole = formula.range.whole and max(abs(formula.range.low), abs(formula.range.high)) < LARGEST_EXACT
                data = data.astype(np.int64) if whole else data if digits is None else _rounded(data, digits)
            # The formula alone decides whether values can be missing, so all pieces of a table are of one type.
            held[name] = np.ma.MaskedArray(data, absent) if formula.range.lacks else np.array(data)
        return held


def _rounded(numbers: Array, digits: int) -> Array:
    """Return numbers (m,) rounded to digits after the point, where floats have so many."""
    steps = 10.0**digits
    some = np.abs(numbers) < LARGEST_EXACT / steps
    made = numbers.copy()
    made[some] = np.rint(numbers[some] * steps) / steps + 0.0
    return made


def completion_of(columns: Sequence[Column], derived: Sequence[Derived], person: str | None) -> Completion:
    """Return a function that adds derived columns to the others.

    Raises an InputError if a name occurs twice, a formula does not suit its columns, ``after`` names no column, or
    derived columns derive from each other in a circle.
    """
    names = [column.name for column in columns]
    for each in derived:
        if names.count(each.name) or each.name == person:
            raise InputError(f"column names must be distinct; given twice: {each.name!r}")
        names.append(each.name)
    by_name = {each.name: each for each in derived}
    reading = {name: names_read(name, each.formula) & by_name.keys() for name, each in by_name.items()}
    try:
        sequence = list(TopologicalSorter(reading).static_order())
    except CycleError as problem:
        circle = " -> ".join(map(repr, reversed(problem.args[1])))
        raise InputError(f"derived columns derive from each other in a circle: {circle}") from None
    ranges, steps = {column.name: range_of(column) for column in columns}, []
    for name in sequence:
        each = by_name[name]
        formula = parse(name, each.formula, ranges, {table.name: table for table in each.tables})
        if not formula.reads:
            raise InputError(f"derived column {name!r}: {each.formula!r} reads no column")
        ranges[name] = formula.range
        steps.append((name, formula, _digits(each, formula)))
    return Completion(tuple(steps), _order([column.name for column in columns], derived))


def listed(given: Any) -> tuple[Derived, ...]:
    """Return derived columns that are given as a list of them, or as formulas by name."""
    if isinstance(given, Mapping):
        return tuple(Derived(name, formula) for name, formula in given.items())
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise InputError(f"derived must be a list of Derived columns, or formulas by name, not {shown(given)}")
    found = tuple(given)
    for each in found:
        if not isinstance(each, Derived):
            raise InputError(f"derived must be a list of Derived columns, or formulas by name; it holds {shown(each)}")
    return found


def _digits(each: Derived, formula: Expression) -> int | None:
    """Return the digits after the point of a derived column of numbers; None if it is not rounded."""
    if each.decimals is not None:
        if formula.range.sort != "numbers":
            raise InputError(f"derived column {each.name!r}: decimals are for numbers, and it holds text")
        return each.decimals
    width = formula.range.high - formula.range.low
    return min(max(int(np.ceil(-np.log10(width / PARTS) - 1e-9)), 0), 12) if 0.0 < width < np.inf else None


def _order(names: list[str], derived: Iterable[Derived]) -> tuple[str, ...]:
    """Return the names of all columns: each derived one behind the column that it names, or last."""
    waiting, order = [each for each in derived if each.after is not None], list(names)
    order += [each.name for each in derived if each.after is None]
    while waiting:
        placed = [each for each in waiting if each.after in order]
        if not placed:
            raise InputError(f"derived column {waiting[0].name!r}: the option after names {waiting[0].after!r}, "
                             "but no column of this name can stand before it")
        for each in reversed(placed):
            order.insert(order.index(str(each.after)) + 1, each.name)
        waiting = [each for each in waiting if each not in placed]
    return tuple(order)
