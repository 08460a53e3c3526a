"""PRIVATE. How many values of a table do not fit its schema: for its holder alone, before anything is released."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trigmech.schema.column import Column
from trigmech.schema.encoding import ABSENT, UNKNOWN, codes_of
from trigmech.schema.schema import Schema
from trigmech.tables.frames import Columns

# The kinds of counted values, in this order, and how they are treated.
WORDS = {
    "infinite": "{} infinite", "far outside": "{} farther outside the bounds than the bounds are apart",
    "outside": "{} outside the bounds", "missing": "{} missing (refused)",
    "no category": "{} not among the categories (refused)", "other": "{} that count as other",
    "finer": "{} finer than its resolution (cut off)",
}
CLIPPED = ("infinite", "far outside", "outside")


def misfits(schema: Schema, tables: Iterable[Any]) -> dict[str, dict[str, int]]:
    """Return how many values of each column do not fit it, by column and keys of :data:`WORDS`, without zeros; private.

    ``tables`` are private dataframes of consecutive rows. "outside" excludes infinite and far outside values; private
    bounds and categories are skipped. An InputError is raised if a column is absent or cannot be read. Privacy: none;
    these are exact counts.
    """
    found: dict[str, Counter[str]] = {name: Counter() for name in schema.names}
    for table in tables:
        columns = Columns(table, schema.names)
        for j, column in enumerate(schema.columns):
            counts = _of_categories(column, columns, j) if column.is_text or column.categories is not None else (
                _of_numbers(column, columns, j))
            found[column.name].update({key: int(count.sum()) for key, count in counts.items()})
    return {name: {key: counts[key] for key in WORDS if counts[key]} for name, counts in found.items()
            if any(counts.values())}


def in_words(found: Mapping[str, Mapping[str, int]]) -> str:
    """Return counts of :func:`misfits` as one sentence; private."""
    parts = []
    for name, counts in found.items():
        clipped = [WORDS[key].format(counts[key]) for key in CLIPPED if key in counts]
        others = [WORDS[key].format(counts[key]) for key in counts if key not in CLIPPED]
        if clipped:
            others = [f"{', '.join(clipped)} (clipped)", *others]
        parts.append(f"{name!r} has {'; '.join(others)}")
    return " | ".join(parts)


def _of_categories(column: Column, columns: Columns, j: int) -> dict[str, NDArray[np.bool_]]:
    if column.private_categories:
        return {}
    codes = codes_of(column, columns, j)
    return {"missing": (codes == ABSENT) & (column.missing == "refuse"), "no category": codes == UNKNOWN,
            "other": (codes_of(column, columns, j, other=False) == UNKNOWN) & (column.other is not None)}


def _of_numbers(column: Column, columns: Columns, j: int) -> dict[str, NDArray[np.bool_]]:
    values = columns.times(j) if column.unit else columns.numbers(j)
    counts = {"missing": np.isnan(values) & (column.missing == "refuse"), "infinite": np.isinf(values)}
    if column.private_bounds:
        return counts
    if column.seconds > 1:
        counts["finer"] = np.isfinite(values) & (values % column.seconds != 0.0)
        values = np.floor(values / column.seconds)
    lower, upper = column.bounds
    with np.errstate(invalid="ignore", over="ignore"):
        beyond = np.maximum(lower - values, values - upper)
    beyond[~np.isfinite(values) | np.isin(values, [*map(column.number, column.special)])] = 0.0
    return counts | {"far outside": beyond > upper - lower, "outside": (beyond > 0.0) & (beyond <= upper - lower)}
