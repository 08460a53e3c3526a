"""Between which numbers an aggregate of a question in SQL can lie, by the schema alone. Public.

An interval never needs to reach beyond this range: where the true value lies in it, the part of an interval outside
holds nothing. Ranges are found by interval arithmetic over DuckDB's tree; an expression that is not known here can have
any value.
"""

import math
from collections.abc import Iterable, Mapping
from itertools import product
from numbers import Real
from typing import Any

from trigmech.schema.column import Column

Range = tuple[float, float]

ANY: Range = (-math.inf, math.inf)
TRUTH: Range = (0.0, 1.0)
# Kinds of columns whose bounds are numbers as SQL sees them.
NUMBERS = ("continuous", "integer", "binary")
WHOLE = {"TINYINT", "SMALLINT", "INTEGER", "INT", "BIGINT", "HUGEINT"}
FRACTIONS = {"FLOAT", "REAL", "DOUBLE"}
# Aggregates that lie between the values of their first argument, and those with a range of their own.
BETWEEN = {"avg", "mean", "median", "quantile_cont", "quantile_disc", "quantile"}
OWN: dict[str, Range] = {
    **dict.fromkeys(("stddev", "stddev_samp", "stddev_pop", "variance", "var_samp", "var_pop"), (0.0, math.inf)),
    "corr": (-1.0, 1.0), "regr_r2": (0.0, 1.0)}
COUNTS = {"count", "count_star", "count_if", "countif"}
# Operators of DuckDB that are true or false.
TRUE_OR_FALSE = {"OPERATOR_IS_NULL", "OPERATOR_IS_NOT_NULL", "OPERATOR_NOT", "COMPARE_IN", "COMPARE_NOT_IN"}


def range_of(expression: Any, columns: Mapping[str, Column], n: float) -> Range:
    """Return the least and the largest value that an expression of DuckDB's tree can have.

    expression: Can contain aggregates.
    columns: Those of the schema, by their names in small letters.
    n: The number of rows to which counts and sums are scaled.
    """
    return _range(expression, columns, n) or ANY


def column_range(column: Column) -> Range:
    """Return the least and the largest number of a column; any number if its values are no numbers."""
    if column.kind in NUMBERS and not column.private_bounds:
        values = [*column.bounds, *map(float, column.special)]
    else:
        values = [float(each) for each in column.categories or () if isinstance(each, Real)]
        if len(values) < len(column.categories or ()):
            return ANY
    return (min(values), max(values)) if values else ANY


def _range(part: Any, columns: Mapping[str, Column], n: float) -> Range | None:
    """Return the range of an expression; None if it is NULL."""
    kind, inner = part.get("class"), _inner(part)
    if kind == "CONSTANT":
        return _of_constant(part)
    if kind == "COLUMN_REF":
        column = columns.get(str(part["column_names"][-1]).lower())
        return ANY if column is None else column_range(column)
    if kind in ("COMPARISON", "CONJUNCTION", "BETWEEN") or part.get("type") in TRUE_OR_FALSE:
        return TRUTH
    if kind == "CASE":
        inner = [each["then_expr"] for each in part["case_checks"]] + [part["else_expr"]]
    if kind == "CASE" or part.get("type") == "OPERATOR_COALESCE":
        return _joined(_range(each, columns, n) for each in inner)
    if kind == "CAST":
        return _cast(part, _range(part["child"], columns, n))
    name = str(part.get("function_name", "")).lower()
    if name in OWN or name in COUNTS:
        return OWN.get(name, (0.0, n))
    ranges = [_range(each, columns, n) for each in inner]
    if None in ranges:
        return None
    return _of_function(name, [each or ANY for each in ranges], n)


def _of_function(name: str, ranges: list[Range], n: float) -> Range:
    if name in BETWEEN:
        return ranges[0]
    if name == "sum":
        # Between 0 and n rows have each value.
        return _times((0.0, n), ranges[0])
    if len(ranges) == 1 and name in ("+", "-"):
        return ranges[0] if name == "+" else _times(ranges[0], (-1.0, -1.0))
    if len(ranges) == 2 and name in ("+", "-"):
        one, other = ranges[0], ranges[1] if name == "+" else _times(ranges[1], (-1.0, -1.0))
        return one[0] + other[0], one[1] + other[1]
    if len(ranges) == 2 and name == "*":
        return _times(*ranges)
    if len(ranges) == 2 and name == "/" and ranges[1][0] == ranges[1][1] != 0.0:
        return _times(ranges[0], (1.0 / ranges[1][0],) * 2)
    return ANY


def _times(one: Range, other: Range) -> Range:
    made = [0.0 if 0.0 in pair else pair[0] * pair[1] for pair in product(one, other)]
    return min(made), max(made)


def _joined(ranges: Iterable[Range | None]) -> Range | None:
    held = [each for each in ranges if each is not None]
    return (min(low for low, _ in held), max(high for _, high in held)) if held else None


def _cast(part: Any, own: Range | None) -> Range | None:
    """Return the range of a cast from the range of its argument. For whole numbers the ends are rounded outwards."""
    wanted = str((part.get("type_expr") or {}).get("type_name") or (part.get("cast_type") or {}).get("id")).upper()
    if own is None or wanted in FRACTIONS:
        return own
    if wanted not in WHOLE:
        return ANY
    return own[0] if math.isinf(own[0]) else float(math.floor(own[0])), (
        own[1] if math.isinf(own[1]) else float(math.ceil(own[1])))


def _of_constant(part: Any) -> Range | None:
    """Return a constant's range, as DuckDB writes it since 1.4, or before."""
    held = part.get("literal") or part.get("value") or {}
    kind = str(held.get("kind") or (held.get("type") or {}).get("id"))
    if kind == "NULL_LITERAL" or held.get("is_null"):
        return None
    if kind == "BOOLEAN":
        return TRUTH
    if kind not in {"NUMERIC", *WHOLE, *FRACTIONS}:
        return ANY
    value = float(held["text"] if "text" in held else held["value"])
    return value, value


def _inner(part: Any) -> list[Any]:
    """Return the arguments of a function or an operator, as DuckDB names them in any version."""
    return part.get("children") or [each["expression"] for each in part.get("arguments") or ()]
