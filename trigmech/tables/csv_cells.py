"""PRIVATE. Cells of CSV: text without the white space around it, numbers, and times.

Nothing is guessed: a decimal comma or a date in another form than ISO is read where an option says so, and is no number
and no date otherwise. Functions return None where a cell cannot be read, so that the caller names the
column, and never the cell.
"""

import datetime
import re
from collections.abc import Iterable
from typing import Any

import numpy as np

from trigmech.tables.column_types import texts_to_arrow, to_arrow
from trigmech.tables.scalars import seconds_of


def trimmed(cells: Any, missing: Iterable[str], categories: Iterable[Any] = ()) -> Any:
    """Return cells (a pyarrow array of strings, private) without white space around them, null where missing.

    A text that usually means a missing value is an ordinary value if it is one of the categories.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    present = {category.strip() for category in categories if isinstance(category, str)}
    marks = {mark.strip() for mark in missing} - present
    # All of Unicode's white space, as str.strip does.
    cells = pc.utf8_trim_whitespace(cells)
    absent = pc.is_in(cells, value_set=texts_to_arrow(sorted(marks)))
    return pc.if_else(absent, pa.nulls(1, pa.string())[0], cells)


def with_points(cells: Any, decimal: str) -> Any:
    """Return cells with a decimal point in place of the sign that they have; a point of their own makes them no number.

    Where commas are decimal a point stands between thousands, and 1.234 would be wrong by a factor of a thousand.
    """
    import pyarrow.compute as pc

    if decimal == ".":
        return cells
    return pc.replace_substring(pc.replace_substring(cells, ".", "?"), decimal, ".")


def floats_of(cells: Any) -> Any:
    """Return cells as floats, "true" and "false" as 1 and 0, or None if one is neither."""
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        return cells.cast(pa.float64())
    except pa.ArrowException:
        pass
    # Cell by cell, so that other cells do not decide whether a cell is read.
    words = pc.utf8_lower(cells)
    for word, digit in (("true", "1"), ("false", "0")):
        cells = pc.if_else(pc.equal(words, word), digit, cells)
    try:
        return cells.cast(pa.float64())
    except pa.ArrowException:
        return None


def times_of(cells: Any, date_format: str | None) -> Any:
    """Return cells as times of whole seconds in UTC, or None if one is none."""
    import pyarrow as pa

    coded = cells.dictionary_encode()
    found = (seconds_of_text(text, date_format) for text in coded.dictionary.to_pylist())
    seconds = [None if second is None else int(second) for second in found]
    if None in seconds:
        return None
    return to_arrow(np.array(seconds, dtype=np.int64)).cast(pa.timestamp("s")).take(coded.indices)


def seconds_of_text(text: str, date_format: str | None) -> float | None:
    """Return a time as whole seconds since 1970 in UTC, or None if it is none.

    The format is that of :meth:`datetime.datetime.strptime`, which refuses dates that there are not, as pyarrow's does
    not; by default ISO form.
    """
    if date_format is None:
        return seconds_of(text)
    try:
        return seconds_of(datetime.datetime.strptime(text, date_format))
    except ValueError:
        return None


def is_whole_number(text: str) -> bool:
    """Return whether a cell is a whole number, as a reader of CSV takes it."""
    return re.fullmatch(r"[+-]?[0-9]+", text) is not None


def is_number(text: str, decimal: str) -> bool:
    """Return whether a cell is a number, as a reader of CSV takes it."""
    sign = re.escape(decimal)
    return re.fullmatch(rf"[+-]?([0-9]+{sign}?[0-9]*|{sign}[0-9]+)([eE][+-]?[0-9]+)?", text) is not None
