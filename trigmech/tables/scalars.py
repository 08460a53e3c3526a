"""Single values of a table, of any Python type, as numbers, times and codes of different values."""

import datetime
import math
from collections.abc import Iterable
from decimal import Decimal
from numbers import Real
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from trigmech.tables.column_types import of_arrow

# Python's own types: their equal values mean the same everywhere. For all other types equality means little:
# times that differ in `fold` are equal within a zone and an hour apart, and a class may call anything equal.
PLAIN = frozenset({str, int, float, bool, datetime.date, type(None)})


def is_missing(value: Any) -> bool:
    """Return whether a value of a table is a missing one: None, NaN, NaT or a library's own sign."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    if isinstance(value, np.datetime64 | np.timedelta64):
        return bool(np.isnat(value))
    if isinstance(value, Decimal):
        return value.is_nan()  # a signaling one cannot be compared
    return isinstance(value, float | np.floating) and bool(value != value)


def numbers_of_objects(values: Iterable[Any]) -> NDArray[np.float64] | None:
    """Return objects that are all numbers or missing as floats; None if another is among them."""
    found = []
    for value in values:
        if is_missing(value):
            found.append(math.nan)
        elif isinstance(value, Real | Decimal | np.bool_) and not isinstance(value, np.timedelta64):
            try:
                found.append(float(value))
            except OverflowError:
                found.append(math.inf if cast(Any, value) > 0 else -math.inf)  # only its side of the bounds matters
        else:
            return None
    return np.array(found, dtype=np.float64)


def seconds_of_array(values: NDArray) -> NDArray[np.float64]:
    """Return an array of datetime64 as whole seconds since 1970, NaN where missing."""
    seconds = values.astype("datetime64[s]").astype(np.int64).astype(np.float64)
    return np.where(np.isnat(values), np.nan, seconds)


def distinct_objects(values: NDArray) -> tuple[list[Any], NDArray[np.int64]]:
    """Return the distinct entries of an array, some of which may be missing, and for each entry its place among them.

    Entries share a place only if they are of one of Python's plain types and equal, so that an entry's value
    never depends on the entries before it. All others have places of their own.
    """
    if values.dtype.kind in "biufU":
        found, codes = np.unique(values, return_inverse=True)
        return found.tolist(), codes.astype(np.int64, copy=False)
    cells = values.tolist() if values.dtype.kind == "O" else []
    if set(map(type, cells)) == {str}:
        known = {text: place for place, text in enumerate(dict.fromkeys(cells))}
        return list(known), np.fromiter(map(known.__getitem__, cells), dtype=np.int64, count=len(cells))
    # Python takes True and 1 for the same key; their types are not.
    keys = [(type(value), value) if type(value) in PLAIN else (object, i) for i, value in enumerate(values)]
    places = {key: place for place, key in enumerate(dict.fromkeys(keys))}
    codes = np.fromiter(map(places.__getitem__, keys), dtype=np.int64, count=len(keys))
    return [values[key] if kind is object else key for kind, key in places], codes


def distinct_arrow(values: Any) -> tuple[list[Any], NDArray[np.int64]]:
    """The same of an array or a chunked array of pyarrow."""
    import pyarrow

    if isinstance(values, pyarrow.ChunkedArray):
        if pyarrow.types.is_dictionary(values.type):
            values = values.unify_dictionaries()
        values = values.combine_chunks()
        if isinstance(values, pyarrow.ChunkedArray):  # in old versions, or if it has become too long
            values = pyarrow.concat_arrays(values.chunks)
    if pyarrow.types.is_null(values.type):
        return [], np.full(len(values), -1)
    if not pyarrow.types.is_dictionary(values.type):
        values = values.dictionary_encode()
    return values.dictionary.to_pylist(), of_arrow(values.indices.cast(pyarrow.int64()), -1)


def seconds_of(value: Any) -> float | None:
    """Return a time as whole seconds since 1970 in UTC, or None if it is none."""
    try:
        if isinstance(value, np.datetime64):
            return float(value.astype("datetime64[s]").astype(np.int64))
        if isinstance(value, str):
            value = datetime.datetime.fromisoformat(value.strip())
        elif isinstance(value, datetime.date) and not isinstance(value, datetime.datetime):
            value = datetime.datetime.combine(value, datetime.time())
        if not isinstance(value, datetime.datetime):
            return None
        zero = datetime.datetime(1970, 1, 1, tzinfo=None if value.tzinfo is None else datetime.UTC)
        return float((value - zero) // datetime.timedelta(seconds=1))
    except (ValueError, OverflowError):
        return None
