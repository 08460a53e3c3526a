"""A schema in words: as Python code, as a table for notebooks, and how fine its synthetic values are."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from trigmech._html import html_table
from trigmech.schema.column import Column
from trigmech.schema.constraints import Constraint
from trigmech.schema.derived import Derived
from trigmech.schema.encoding import decoded_number, place_of
from trigmech.schema.rounding import default_digits

# A screen has so many lines for columns, of so many letters each.
MOST_LINES, MOST_LETTERS = 16, 100
# A value is near the middle if it is at most so many halves of the range from it.
NEAR_MIDDLE = 0.02
OPTIONS = ("missing", "special", "transform", "decimals", "resolution", "other")


def as_written(columns: Sequence[Column], constraints: Sequence[Constraint], person: str | None,
               derived: Sequence[Derived]) -> str:
    """Return a schema as Python code; if it has many columns, only the first ones and the last one."""
    lines = [f"{column!r},"[:MOST_LETTERS] + "..." * (len(repr(column)) >= MOST_LETTERS) for column in columns]
    if len(lines) > MOST_LINES:
        lines[MOST_LINES - 2 : -1] = [f"...  # {len(lines) - MOST_LINES + 1} more"]
    more = [f", {option}={value!r}" for option, value in (
        ("constraints", [each.text for each in constraints]), ("person", person),
        ("derived", {each.name: each.formula for each in derived})) if value]
    return "Schema([" + "".join(f"\n    {line}" for line in lines) + f"\n]{''.join(more)})"


def as_html(columns: Sequence[Column], constraints: Sequence[Constraint], derived: Sequence[Derived]) -> str:
    rows: list[tuple[str, ...]] = []
    for column in columns:
        plain = column.to_dict()
        values = (", ".join(map(str, column.categories)) if column.categories is not None else
                  "private, not found yet" if column.private_bounds or column.private_categories else
                  f"{column.lower} to {column.upper}")
        rows.append((column.name, column.kind, values, "; ".join(f"{name}: {plain[name]}" for name in OPTIONS
                                                                if name in plain)))
    rows += [(each.name, "derived", each.formula, "") for each in derived]
    rows += [("", "constraint", constraint.text, "") for constraint in constraints]
    head = ("column", "kind", "bounds or categories", "options")
    return html_table(f"Schema of {len(columns)} column(s)", rows, head)


def without_middle(columns: Iterable[Column]) -> list[str]:
    """Return a sentence for each column with ``missing="centre"`` that has no value near the middle of its range."""
    return [f"column {column.name!r}: a missing value counts as the middle of the range, where the column has no "
            "value, so it becomes one of the values beside it. This changes means if many values are missing; "
            'missing = "keep" does not' for column in columns if column.missing == "centre" and not _has_middle(column)]


def _has_middle(column: Column) -> bool:
    """Whether a column has a value near the middle of its range, or may have one."""
    if column.private_bounds or column.private_categories:
        return True
    return bool(abs(place_of(column, decoded_number(column, np.zeros(1)))[0]) <= NEAR_MIDDLE)


def how_fine(columns: Sequence[Column]) -> list[str]:
    """Return sentences about how fine synthetic numbers and times are, each about all columns that are alike."""
    alike: dict[str, list[str]] = {}
    for column in columns:
        said = _how_fine(column)
        if said:
            alike.setdefault(said, []).append(repr(column.name))
    return [f"{said}: {', '.join(names)}" for said, names in alike.items()]


def _how_fine(column: Column) -> str | None:
    if column.resolution is not None:
        return f"times are whole {column.resolution}s; finer parts are cut off (set resolution to change this)"
    if column.kind != "continuous":
        return None
    if column.private_bounds:
        return "numbers are rounded to 1/10,000 of the range that the private step finds"
    digits: Any = (column.decimals,) * 2 if column.decimals is not None else default_digits(column)
    if digits is None:
        return "numbers are not rounded (set decimals to change this)"
    fewest, most = digits
    count = f"{most}" if fewest == most else f"{most} (small numbers) to {fewest} (large ones)"
    rule = ("as the option decimals states" if column.decimals is not None else
            "as fits the range (set decimals to change this)")
    to = f"{count} digit{'s' * (digits != (1, 1))} after the point" if most else "whole numbers"
    return f"numbers are rounded to {to}, {rule}"
