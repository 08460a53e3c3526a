"""Formulas of derived columns: arithmetic of other columns that is parsed, never evaluated as code.

A formula is written as in Python, with columns as bare words or, whatever their name, in backticks:

- numbers: ``+ - * / // %``, ``**`` with a whole exponent from 0 to 9, parentheses, and ``abs floor ceil sqrt log exp``,
  ``round(x)``, ``round(x, digits)``, ``min(x, y, ...)``, ``max(x, y, ...)``;
- times: ``left - right`` is a number of days, and ``year month day hour minute weekday`` (Monday is 1) are parts;
- ``lookup("routes.csv", origin, dest)``: the last column of the row of a public table whose other columns hold these
  values, in this order.

A result is missing if a value that it needs is, or if the public table has no such row. A formula is refused if by the
columns' public bounds it could divide by 0, take the root of a number below 0, take the logarithm of a number that is
not above 0, or become infinite. Intervals of values are computed by interval arithmetic (Moore 1966).
"""

import ast
import math
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from trigmech.errors import InputError, shown
from trigmech.schema.column import Column
from trigmech.schema.lookup import Lookup

Values = Any

MOST_CHARACTERS, MOST_EXPONENT, MOST_DIGITS, DEEPEST = 1_000, 9, 12, 50
QUOTED = re.compile(r"`([^`]*)`|\"[^\"]*\"|'[^']*'")
DAY = 86_400.0
LARGEST_EXACT = 2.0**53
# Private bounds lie between its negative and this; the step that finds them has cells up to 2^50. A formula that is
# accepted between these is accepted between any bounds that are found, after the charge: ranges only become narrower.
LARGEST_FOUND = 2.0**51


@dataclass(frozen=True)
class Range:
    """The values of a formula or a part of it: ``sort`` "numbers", "times" or "text".

    Numbers lie between low and high; times too, in days after 1970 began. ``whole`` are whole numbers, or times that
    are days. ``lacks``: it may be missing.
    """

    sort: str
    low: float = -math.inf
    high: float = math.inf
    whole: bool = False
    lacks: bool = False


@dataclass(frozen=True)
class Expression:
    """A parsed formula or a part of it: the range of its values, and a function of arrays by name.

    Values are not missing where they are not masked. A whole formula has the columns that it ``reads``.
    """

    range: Range
    values: Callable[[Mapping[str, Values]], Any]
    reads: frozenset[str] = frozenset()


def range_of(column: Column) -> Range:
    lacks = column.missing == "keep"
    if column.resolution is not None:
        days = [end * column.seconds / DAY for end in (*column.bounds, *map(column.number, column.special))]
        return Range("times", min(days), max(days), column.resolution == "day", lacks)
    if column.private_categories or any(isinstance(value, str | bool) for value in column.categories or ()):
        return Range("text", lacks=lacks)
    bounds = (-LARGEST_FOUND, LARGEST_FOUND) if column.private_bounds else column.bounds
    held = column.categories if column.categories is not None else (*bounds, *column.special)
    ends = [float(value) for value in held]
    whole = column.kind == "integer" or (column.kind != "continuous" and all(end.is_integer() for end in ends))
    return Range("numbers", min(ends), max(ends), whole, lacks)


# Functions of numbers: how many arguments they have, how they are computed, where they are refused, and whether the
# result is whole; None if it is whole where all arguments are. All of them are monotone between their arguments' ends,
# 0 and these.
MONOTONE: dict[str, tuple[range, Callable[..., Any], Callable[[Range], str | None], bool | None]] = {
    "abs": (range(1, 2), np.abs, lambda x: None, None),
    "floor": (range(1, 2), np.floor, lambda x: None, True),
    "ceil": (range(1, 2), np.ceil, lambda x: None, True),
    "sqrt": (range(1, 2), np.sqrt, lambda x: None if x.low >= 0.0 else "a square root needs numbers of at least 0",
             False),
    "log": (range(1, 2), np.log, lambda x: None if x.low > 0.0 else "a logarithm needs numbers above 0", False),
    "exp": (range(1, 2), np.exp, lambda x: None, False),
    "min": (range(2, 65), lambda *x: np.minimum.reduce(np.broadcast_arrays(*x)), lambda x: None, None),
    "max": (range(2, 65), lambda *x: np.maximum.reduce(np.broadcast_arrays(*x)), lambda x: None, None)}
# Parts of times: their least and greatest values; those of a year follow from the times.
PARTS: dict[str, tuple[float, float, Callable[[NDArray], NDArray]]] = {
    "year": (-9_999.0, 9_999.0, lambda t: t.astype("M8[Y]").astype(np.int64) + 1970),
    "month": (1.0, 12.0, lambda t: t.astype("M8[M]").astype(np.int64) % 12 + 1),
    "day": (1.0, 31.0, lambda t: (t.astype("M8[D]") - t.astype("M8[M]").astype("M8[D]")).astype(np.int64) + 1),
    "hour": (0.0, 23.0, lambda t: t.astype("M8[s]").astype(np.int64) // 3600 % 24),
    "minute": (0.0, 59.0, lambda t: t.astype("M8[s]").astype(np.int64) // 60 % 60),
    "weekday": (1.0, 7.0, lambda t: (t.astype("M8[D]").astype(np.int64) + 3) % 7 + 1)}
FUNCTIONS = (*MONOTONE, "round", *PARTS, "lookup")
OPERATORS: dict[type[ast.operator], tuple[str, Callable[[Any, Any], Any]]] = {
    ast.Add: ("+", np.add), ast.Sub: ("-", np.subtract), ast.Mult: ("*", np.multiply), ast.Div: ("/", np.divide),
    ast.FloorDiv: ("//", np.floor_divide), ast.Mod: ("%", np.mod), ast.Pow: ("**", np.power)}


def parse(name: str, text: Any, ranges: Mapping[str, Range], tables: Mapping[str, Lookup]) -> Expression:
    """Return the formula, of at most 1,000 characters, of a derived column of this name.

    It may read the columns that have ``ranges``, and calls the public tables by their names. If it is not in the
    grammar, reads a column that is not there, or could have no finite value, an InputError of one line names the
    column, the place and the rule.
    """
    return _FormulaParser(name, text, ranges, tables).whole()


def names_read(name: str, text: Any) -> frozenset[str]:
    """Return the words of a formula that may be columns; an InputError if it cannot be parsed.

    The names of called functions and of the public tables of lookups do not count: a column may have the same name,
    such as a month that is ``month(date)``.
    """
    parser = _FormulaParser(name, text, {}, {})
    calls = [node for node in ast.walk(parser.tree) if isinstance(node, ast.Call)]
    others = {id(node) for call in calls for node in (call.func, *call.args[: parser.looks_up(call)])}
    found = (parser.column(node) for node in ast.walk(parser.tree) if id(node) not in others)
    return frozenset(name for name in found if name is not None)


def tables_read(name: str, text: Any) -> tuple[str, ...]:
    """Return the names of the public tables that a formula looks up; an InputError if it cannot be parsed."""
    parser = _FormulaParser(name, text, {}, {})
    return tuple(dict.fromkeys(
        node.args[0].value for node in ast.walk(parser.tree)
        if isinstance(node, ast.Call) and parser.looks_up(node) and node.args
        and isinstance(node.args[0], ast.Constant) and isinstance(node.args[0].value, str)))


class _FormulaParser:
    """Checks one formula against its columns, from the inside to the outside."""

    def __init__(self, name: str, text: Any, ranges: Mapping[str, Range], tables: Mapping[str, Lookup]) -> None:
        self.name, self.text, self.ranges, self.tables = name, text, ranges, tables
        self.reads, self.quoted, self.lacks = set[str](), dict[str, str](), False
        if not (isinstance(text, str) and text.strip()):
            raise InputError(f"derived column {name!r}: the formula must be text, such as 'weight / height', not "
                             f"{shown(text)}")
        if len(text) > MOST_CHARACTERS:
            self.fail(f"a formula has at most {MOST_CHARACTERS:,} characters, and this one has {len(text):,}")
        plain = QUOTED.sub(self._unquoted, text.replace("\n", " ").strip())
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self.tree = ast.parse(plain, mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            self.fail("this is not a formula; write arithmetic of columns, and names that are no single word in "
                      "backticks, such as `sale price` * 1.2")

    def _unquoted(self, found: re.Match[str]) -> str:
        if found[1] is None:
            return found[0]
        word = f"_quoted_{len(self.quoted)}_"
        self.quoted[word] = found[1]
        return word

    def fail(self, rule: str) -> NoReturn:
        text = self.text if len(self.text) <= 100 else self.text[:100] + "..."
        raise InputError(f"derived column {self.name!r}: {text!r}: {rule}")

    def whole(self) -> Expression:
        part = self.part(self.tree, 0)
        if part.range.sort == "times":
            self.fail("it is a time; a derived column holds numbers or text, such as a difference of two times in days")

        def values(given: Mapping[str, Values]) -> np.ma.MaskedArray:
            # Values under a mask may have no result.
            with np.errstate(all="ignore"):
                return np.ma.asarray(part.values(given))

        return Expression(replace(part.range, lacks=self.lacks), values, frozenset(self.reads))

    def looks_up(self, node: ast.Call) -> bool:
        return isinstance(node.func, ast.Name) and node.func.id == "lookup"

    def column(self, node: ast.AST) -> str | None:
        """Return the column that a node names; None if it cannot be one."""
        if isinstance(node, ast.Name):
            return self.quoted.get(node.id, node.id)
        return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None

    def part(self, node: ast.AST, depth: int) -> Expression:
        if depth > DEEPEST:
            self.fail(f"it is nested more than {DEEPEST} times")
        if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
            return self.operation(node, self.part(node.left, depth + 1), self.part(node.right, depth + 1))
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
            return self.operation(ast.BinOp(node, ast.Sub() if isinstance(node.op, ast.USub) else ast.Add(), node),
                                  self.constant(0), self.part(node.operand, depth + 1))
        if isinstance(node, ast.Constant):
            return self.constant(node.value)
        if isinstance(node, ast.Name):
            return self.named(str(self.column(node)))
        if isinstance(node, ast.Call):
            return self.call(node, depth)
        self.fail("it may have only columns, numbers, the signs + - * / // % ** ( ) and the functions "
                  f"{', '.join(FUNCTIONS)}")

    def constant(self, value: Any) -> Expression:
        if isinstance(value, bool) or not isinstance(value, int | float):
            self.fail(f"{shown(value)} is no number; texts are only in lookup(...)")
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if not math.isfinite(number):
            self.fail("a number in it is too large")
        return Expression(Range("numbers", number, number, number.is_integer()), lambda given: number)

    def named(self, name: str) -> Expression:
        if name not in self.ranges:
            if name in FUNCTIONS:
                self.fail(f"{name} is a function, and needs parentheses")
            self.fail(f"there is no column {name!r}; the columns are {', '.join(map(repr, list(self.ranges)[:20]))}"
                      + ", ..." * (len(self.ranges) > 20))
        self.reads.add(name)
        held = self.ranges[name]
        self.lacks |= held.lacks
        if held.sort == "numbers":
            return Expression(held, lambda given: np.ma.asarray(given[name]).astype(np.float64))
        return Expression(held, lambda given: np.ma.asarray(given[name]))

    def numbers(self, part: Expression, what: str) -> Expression:
        if part.range.sort != "numbers":
            self.fail(f"{what} needs numbers, and is given {part.range.sort}")
        return part

    def operation(self, node: ast.BinOp, left: Expression, right: Expression) -> Expression:
        sign, function = OPERATORS[type(node.op)]
        if sign == "-" and left.range.sort == right.range.sort == "times":
            return Expression(Range("numbers", left.range.low - right.range.high, left.range.high - right.range.low,
                                    left.range.whole and right.range.whole),
                              lambda given: _masked(lambda t, u: (t - u) / DAY, [_seconds(left.values(given)),
                                                                                 _seconds(right.values(given))]))
        one, two = self.numbers(left, sign).range, self.numbers(right, sign).range
        if sign in ("/", "//", "%") and one.low <= one.high and two.low <= 0.0 <= two.high:
            self.fail(f"it could divide by 0: the divisor after {sign} lies between {two.low:g} and {two.high:g}; "
                      "write, for example, max(..., 1), or make the bounds narrower")
        whole = sign == "//" or (one.whole and two.whole and sign != "/")
        ends = [(a, b) for a, b in product((one.low, one.high), (two.low, two.high))]

        def values(given: Mapping[str, Values]) -> Any:
            return _masked(function, [left.values(given), right.values(given)])

        if sign == "%":
            low, high = (0.0, two.high) if two.low > 0.0 else (two.low, 0.0)
            return Expression(Range("numbers", low, high, whole), values)
        if sign == "**":
            if two.low != two.high or not two.whole or not 0.0 <= two.low <= MOST_EXPONENT:
                self.fail(f"an exponent must be a whole number from 0 to {MOST_EXPONENT}")
            ends += [(0.0, two.low)] if one.low < 0.0 < one.high else []
        return Expression(self.spanned(function, ends, whole), values)

    def call(self, node: ast.Call, depth: int) -> Expression:
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if name not in FUNCTIONS or node.keywords or any(isinstance(each, ast.Starred) for each in node.args):
            self.fail(f"the functions are {', '.join(FUNCTIONS)}, with their arguments in parentheses")
        if name == "lookup":
            return self.looked_up(node, depth)
        parts = [self.part(each, depth + 1) for each in node.args]
        counts = range(1, 3) if name == "round" else range(1, 2) if name in PARTS else MONOTONE[name][0]
        if len(parts) not in counts:
            self.fail(f"{name} takes {counts[0]}{' or more' if len(counts) > 2 else ' or 2' if len(counts) > 1 else ''}"
                      f" argument(s), and is given {len(parts)}")
        if name in PARTS:
            low, high, function = PARTS[name]
            if parts[0].range.sort != "times":
                self.fail(f"{name} needs times, and is given {parts[0].range.sort}")
            if name == "year":
                # Also of a bound between two seconds, as years only change at whole ones.
                span = np.floor(np.array([parts[0].range.low, parts[0].range.high]) * DAY).astype("M8[s]")
                low, high = map(float, function(span))
            return Expression(Range("numbers", low, high, True),
                              lambda given: _of_times(function, parts[0].values(given)))
        held = [self.numbers(each, name).range for each in parts]
        if name == "round":
            return self.rounded(parts)
        _, function, refused, whole = MONOTONE[name]
        reason = next((said for each in held if (said := refused(each))), None)
        if reason:
            self.fail(f"{reason}, but they lie between {held[0].low:g} and {held[0].high:g}")
        ends = list(product(*((each.low, each.high) for each in held))) if len(held) == 1 else [
            tuple(each.low for each in held), tuple(each.high for each in held)]
        ends += [(0.0,)] if name == "abs" and held[0].low < 0.0 < held[0].high else []
        return Expression(self.spanned(function, ends, all(each.whole for each in held) if whole is None else whole),
                          lambda given: _masked(function, [each.values(given) for each in parts]))

    def rounded(self, parts: Sequence[Expression]) -> Expression:
        digits = parts[1].range if len(parts) > 1 else Range("numbers", 0.0, 0.0, True)
        if digits.low != digits.high or not digits.whole or not 0.0 <= digits.low <= MOST_DIGITS:
            self.fail(f"round has a whole number of digits from 0 to {MOST_DIGITS}")
        steps, held = 10.0**digits.low, parts[0].range

        def function(x: Any) -> Any:
            return np.rint(x * steps) / steps

        return Expression(self.spanned(function, [(held.low,), (held.high,)], steps == 1.0 or held.whole),
                          lambda given: _masked(function, [parts[0].values(given)]))

    def looked_up(self, node: ast.Call, depth: int) -> Expression:
        first = node.args[0].value if node.args and isinstance(node.args[0], ast.Constant) else None
        if not isinstance(first, str) or len(node.args) < 2:
            self.fail('write lookup("table.csv", column, ...), with the file of a public table and the columns to look '
                      "up in it")
        if first not in self.tables:
            self.fail(f"there is no table {first!r} to look values up in")
        table = self.tables[first]
        # A column's name may stand in quotes here.
        parts = [self.named(str(self.column(each))) if isinstance(each, ast.Constant) and isinstance(each.value, str)
                 else self.part(each, depth + 1) for each in node.args[1:]]
        if len(parts) != table.width:
            self.fail(f"{first!r} has {table.width} column(s) beside that with the result, and {len(parts)} are given")
        for part, kind in zip(parts, table.sorts, strict=True):
            if part.range.sort != kind:
                self.fail(f"{first!r} holds {kind} where {part.range.sort} are given")
        low, high, whole = table.range
        # A row of the synthetic table may have a key that the public one has not.
        self.lacks = True
        return Expression(Range("text" if table.of_text else "numbers", low, high, whole),
                          lambda given: table.values([each.values(given) for each in parts]))

    def spanned(self, function: Callable[..., Any], ends: Sequence[tuple[float, ...]], whole: bool) -> Range:
        with np.errstate(all="ignore"):
            found = np.array([float(function(*each)) for each in ends])
        if np.isnan(found).any():
            return Range("numbers", whole=whole)
        if np.isinf(found).any() and np.isfinite(np.array(ends)).all():
            self.fail("its values could be too large for a number")
        return Range("numbers", float(found.min()), float(found.max()), whole)


def _masked(function: Callable[..., Any], values: Sequence[Any]) -> Any:
    """Return a function of arrays, missing where one of these is."""
    absent = np.logical_or.reduce(np.broadcast_arrays(*map(np.ma.getmaskarray, values)))
    return np.ma.MaskedArray(function(*map(np.ma.getdata, values)), absent)


def _of_times(function: Callable[[NDArray], NDArray], values: Any) -> np.ma.MaskedArray:
    return np.ma.MaskedArray(function(np.ma.getdata(values)).astype(np.float64), np.ma.getmaskarray(values))


def _seconds(values: Any) -> np.ma.MaskedArray:
    return _of_times(lambda t: t.astype("M8[s]").astype(np.int64), values)
