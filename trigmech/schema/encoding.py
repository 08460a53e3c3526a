"""One column's values to its coordinates and back.

A number lies in [-1, 1]: affinely between the bounds, after the column's transform. Each indicator of a column is 0 or
1 and at most one is 1, exactly one for categories. The number is 0 where an indicator is 1, or where the value is
missing and counts as the centre.

Replacing a row changes the number of a column by at most 2; and the indicators of a column by at most 2 in the L1 norm
and sqrt(2) in the L2 norm, as one of them goes from 1 to 0 and another from 0 to 1. The sensitivities of the moments
rest on these facts, and :meth:`trigmech.domain.Domain.check` verifies them on any encoded rows.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trigmech._arrays import Array, Integers
from trigmech.errors import InputError
from trigmech.schema.column import LARGEST_EXACT, Category, Column
from trigmech.schema.rounding import beside_special, candidates, has_steps, middle, rounded
from trigmech.schema.times import times_of
from trigmech.schema.values import plain_category, text_of
from trigmech.tables.frames import Columns

# The codes of a value that is missing, and of one that is no category.
ABSENT, UNKNOWN = -2, -1
# A number with at most so many values is known by them; others count as continuous, and are rounded.
MOST_LEVELS = 2**17
# A longer text, in bytes, is not taken for the name of a category that could be found.
LONGEST_KEY = 200
# Rows whose indicators are compared at a time.
ROWS_AT_A_TIME = 4096
# The first bounds the rounding error of a map to [-1, 1] and back, relative to a column's largest number. Powers of
# ten with more zeros than the second are not exact as floats.
ROUNDING, MOST_DECIMALS = 2.0**-50, 22

Values = NDArray | np.ma.MaskedArray
# The numbers and the indicators of a column.
Placed = tuple[Array | None, NDArray[np.int64] | None]


def to_unit(values: Array, lower: Any, upper: Any) -> Array:
    """Return numbers, clipped to their bounds, on [-1, 1]; the bounds are numbers, or one for each column."""
    points = np.clip(values, lower, upper)
    points -= lower
    points /= 0.5 * (upper - lower)
    points -= 1.0
    return np.clip(points, -1.0, 1.0, out=points)


def from_unit(points: Array, lower: Any, upper: Any) -> Array:
    """Return points of [-1, 1] as numbers between the bounds; points at or beyond its ends become the bounds."""
    half = 0.5 * (upper - lower)
    values = np.where(points > 0.0, upper - (1.0 - points) * half, lower + (points + 1.0) * half)
    short = shortened(values, ROUNDING * np.maximum(np.abs(lower), np.abs(upper)))
    return np.clip(np.where(np.abs(points) < 1.0, short, values), lower, upper)


def shortened(values: Array, error: Any) -> Array:
    """Return numbers that are within an error of one with few decimals as that one: 19.99, not 19.990000000000002.

    So a number that goes to [-1, 1] and back does not change. "Few" is three or four fewer than the error allows,
    so that other numbers are very seldom that close to one; they stay as they are.
    """
    scale = 10.0 ** np.minimum(-np.ceil(np.log10(np.maximum(1000.0 * error, 1e-300))), MOST_DECIMALS)
    short = np.rint(values * scale) / scale
    return np.where(np.abs(short - values) <= error, short, values)


def joined(places: Sequence[Placed], spans: Sequence[tuple[int, int]]) -> Array:
    """Return points (n, D), given each column's places and the span of its coordinates."""
    n = next(len(each) for own in places for each in own if each is not None)
    out = np.zeros((n, spans[-1][1]))
    for (points, held), (start, _) in zip(places, spans, strict=True):
        if held is not None:
            rows = np.flatnonzero(held >= 0)
            out[rows, start + held[rows] + (points is not None)] = 1.0
        if points is not None:
            out[:, start] = points
    return out


def place_of(column: Column, values: Array) -> Array:
    """Return numbers in a column's units, clipped to its bounds, as places in [-1, 1]."""
    return to_unit(transformed(column, np.clip(values, *column.bounds)), *transformed_bounds(column))


def placed(columns: Sequence[Column], table: Any, place: Callable[[Column, Array], Array] = place_of) -> list[Placed]:
    """Return each column of a private table: numbers in [-1, 1], and which of the indicators beside them is 1.

    ``place`` is :func:`place_of`, or another function with the same values. The numbers (n,) are 0 where an indicator
    is 1; None for indicators of categories. The indicator (n,) of a row is -1 without one; None for a column without
    indicators. An InputError says that values are missing where that is refused, or one is no category.
    """
    names = tuple(column.name for column in columns)
    read = Columns(table, names)
    found, missing, unknown = list[Placed](), [], []
    for j, column in enumerate(columns):
        values, absent, strange = _read(column, read, j)
        if absent.any() and column.missing == "refuse":
            missing.append(j)
        if strange.any():
            unknown.append(j)
        found.append((None, None) if missing or unknown else _placed(column, values, absent, place))
    check_faults(names, missing, unknown)
    return found


def check_faults(names: Sequence[str], missing: Iterable[int], unknown: Iterable[int]) -> None:
    """Raise an InputError if there are columns with missing values or with values that are no category."""
    lacking, strange = ([repr(names[j]) for j in faulty] for faulty in (missing, unknown))
    texts = []
    if lacking:
        texts.append(f"values are missing (NaN) in column(s) {', '.join(lacking)}; fill them, leave the column "
                     "out, or allow missing values in the schema (missing='keep' or 'centre')")
    if strange:
        texts.append(f"column(s) {', '.join(strange)} hold a value that is not among the categories; list all "
                     "possible categories, or let the option other name the category of all other values")
    if texts:
        raise InputError("; ".join(texts))


def _placed(column: Column, values: Array, absent: NDArray[np.bool_],
            place: Callable[[Column, Array], Array]) -> Placed:
    if column.complete:
        return None, np.where(absent, len(column.categories or ()), values).astype(np.int64)
    points = place(column, values)
    if absent.any():
        points[absent] = 0.0
    if not column.special and column.missing != "keep":
        return points, None
    held = np.full(len(points), -1)
    for k, special in enumerate(column.special):
        hit = values == column.number(special)
        points[hit] = 0.0
        held[hit] = k
    if column.missing == "keep":
        held[absent] = len(column.special)
    return points, held


def values_of(column: Column, table: Columns, j: int) -> np.ma.MaskedArray:
    """Return one column of a table in the form of :func:`decode`, but exactly as it stands in the table.

    An InputError is raised if a value is no category.
    """
    values, absent, unknown = _read(column, table, j)
    if unknown.any():
        raise InputError(f"column {column.name!r} holds a value that is not among the categories")
    values = np.where(absent, 0.0, values)
    if column.categories is not None:
        return np.ma.MaskedArray(categories_of(column)[values.astype(np.int64)], absent)
    if column.resolution:
        return np.ma.MaskedArray(times_of(values, column.resolution), absent)
    return np.ma.MaskedArray(values, absent)


def _read(column: Column, table: Columns, j: int) -> tuple[Array, NDArray[np.bool_], NDArray[np.bool_]]:
    """Return the numbers of a column's values, or of their categories, and where one is missing, or is no category."""
    if column.categories is not None:
        codes = codes_of(column, table, j)
        return codes.astype(np.float64), codes == ABSENT, codes == UNKNOWN
    values = table.times(j) if column.unit else table.numbers(j)
    if column.seconds > 1:
        values = np.floor(values / column.seconds)
    return values, np.isnan(values), np.zeros(len(values), dtype=np.bool_)


def decode(column: Column, points: Array) -> Values:
    """Return the values (m,) of one column from its coordinates (m, width); masked, where missing, if it keeps those.

    They are floats; int64 for integers that fit; int64, float, bool or strings (objects) for categories; datetime64 of
    days or seconds. Points need not be as :func:`encode` makes them: the largest indicator counts, and beside a number
    one above 1/2. A number beside indicators that are all 0 is not decoded to a special value.
    """
    if column.complete:
        return decoded(column, None, largest(points))
    indicators, held = points[:, 1:], None
    if indicators.shape[1]:
        held = np.where(indicators.max(axis=1) > 0.5, largest(indicators), -1)
    return decoded(column, points[:, 0], held)


def largest(values: Array) -> Integers:
    """Return the place (m,) of the largest entry of each row (m, width), the first one of equal entries.

    NumPy copies the rows that it looks at. A copy of all would take longer than to look, because its memory is new.
    """
    found = np.empty(len(values), dtype=np.int64)
    for start in range(0, len(values), ROWS_AT_A_TIME):
        found[start : start + ROWS_AT_A_TIME] = values[start : start + ROWS_AT_A_TIME].argmax(axis=1)
    return found


def decoded(column: Column, places: Array | None, held: Integers | None) -> Values:
    """Return the values (m,) of one column, from its numbers and indicators, see :data:`Placed`."""
    if places is None:
        index = np.asarray(held)
        size = len(column.categories or ())
        # A missing value holds some category under its mask.
        values = categories_of(column)[np.where(index < size, index, 0)]
        return np.ma.MaskedArray(values, index == size) if column.missing == "keep" else values
    plain = decoded_number(column, places)
    for k, special in enumerate(column.special):
        plain[held == k] = column.number(special)
    if column.resolution:
        values = times_of(plain, column.resolution)
    elif column.categories is not None:
        values = categories_of(column)[plain.astype(np.int64)]
    else:
        values = plain.astype(np.int64) if column.kind != "continuous" and column.fits_int64 else plain
    return np.ma.MaskedArray(values, held == len(column.special)) if column.missing == "keep" else values


def floats_of(column: Column, values: Any) -> Array:
    """Return decoded numbers (m,), or times in units of the column's resolution, as floats; those of no category."""
    return (values.astype(f"datetime64[{column.unit}]").astype(np.int64) if column.unit else values).astype(np.float64)


def decoded_number(column: Column, places: Array) -> Array:
    """Return the numbers (m,) in a column's units, rounded, that places in [-1, 1] are decoded to."""
    exact = number_at(column, places)
    plain = rounded(column, places, exact)
    if column.special:
        plain = beside_special(column, exact, plain)
    central = places == 0.0
    if has_steps(column) and central.any():
        plain[central] = middle(column, float(exact[central][0]))
    return plain


def rounded_within(column: Column, places: Array, low: Array, high: Array) -> Array:
    """Return places (m,) of intervals [low, high) of [-1, 1] that are decoded to numbers of their intervals.

    Rounding can take a number out of its interval. Such a place is replaced by that of the nearest number in the
    interval with as few digits as possible. It stays as it is where no number of the column lies in the interval. An
    interval that ends at 1 contains its end.
    """
    def outside(held: Array, of: Any) -> NDArray[np.bool_]:
        place = place_of(column, decoded_number(column, held))
        return (place < low[of]) | ((place >= high[of]) & (high[of] < 1.0))

    left = np.flatnonzero(outside(places, slice(None)))
    if not len(left):
        return places
    start, places = places, places.copy()
    for number in candidates(column, *(number_at(column, each[left]) for each in (places, low, high))):
        place = place_of(column, np.where(np.isfinite(number), number, column.bounds[0]))
        good = np.isfinite(number) & (places[left] == start[left]) & ~outside(place, left)
        places[left[good]] = place[good]
    return places


def transformed(column: Column, values: Array) -> Array:
    """Return numbers in a column's units on the scale of its transform."""
    if column.transform is None:
        return values
    return np.log(values) if column.transform == "log" else np.log1p(values - column.lower)


def untransformed(column: Column, values: Array) -> Array:
    """Return numbers on the scale of a column's transform in its units; times in days or seconds since 1970."""
    if column.transform is None:
        return values
    # The logarithm of the largest float, rounded up, has no exponential.
    with np.errstate(over="ignore"):
        return np.exp(values) if column.transform == "log" else np.expm1(values) + column.lower


def number_at(column: Column, places: Array) -> Array:
    """Return places in [-1, 1] as numbers in a column's units, not rounded."""
    lower, upper = column.bounds
    values = untransformed(column, from_unit(places, *transformed_bounds(column)))
    if column.transform is None:
        return values
    # Exponentials of rounding errors.
    own = values - lower + 1.0 if column.transform == "log1p" else values
    # Numbers near the largest float have no finite error, and stay as they are.
    with np.errstate(over="ignore", invalid="ignore"):
        error = 2.0 * ROUNDING * (np.abs(values) + max(map(abs, transformed_bounds(column))) * own)
        values = shortened(values, error)
    return np.where(places >= 1.0, upper, np.where(places <= -1.0, lower, np.clip(values, lower, upper)))


def transformed_bounds(column: Column) -> tuple[float, float]:
    """Return a column's bounds on the scale of its transform."""
    lower, upper = transformed(column, np.array(column.bounds))
    return float(lower), float(upper)


def levels_of(column: Column) -> tuple[float, ...] | None:
    """Return the values of [-1, 1] that the number of a column can have, ascending; None if they are too many."""
    if column.kind == "continuous" or column.private_bounds:
        return None
    if column.kind == "binary":
        return -1.0, 1.0
    lower, upper = column.bounds
    # Beyond the exact whole numbers not every value is a float.
    if not upper - lower < MOST_LEVELS or max(abs(lower), abs(upper)) >= 2.0 * LARGEST_EXACT:
        return None
    # A special value has its indicator; its number would be decoded to a neighbour.
    values = np.setdiff1d(np.arange(math.ceil(lower), math.floor(upper) + 1.0), [*map(column.number, column.special)])
    points = np.unique(to_unit(transformed(column, values), *transformed_bounds(column)))
    return tuple(points.tolist()) if len(points) else None


def categories_of(column: Column) -> NDArray:
    """Return a column's categories as an array of the type that they come back in."""
    categories = column.categories or ()
    types = {type(category) for category in categories}
    if types == {bool}:
        return np.array(categories, dtype=np.bool_)
    if types == {int} and all(-2**63 <= category < 2**63 for category in categories if isinstance(category, int)):
        return np.array(categories, dtype=np.int64)
    if str not in types:
        return np.array(categories, dtype=np.float64)
    values = np.empty(len(categories), dtype=object)
    values[:] = categories
    return values


def codes_of(column: Column, table: Columns, j: int, other: bool = True) -> NDArray[np.int64]:
    """Return the category number of each value, ABSENT or UNKNOWN; private. Other values are ``other`` if it is
    True."""
    places = _places(column)
    return table.of_each(j, lambda value: _place(column, places, value, other), ABSENT)


def _places(column: Column) -> dict[Category, int]:
    places: dict[Category, int] = {_trimmed(value): i for i, value in enumerate(column.categories or ())}
    if column.is_text:
        # 2.0 is the category 2, as it is among numbers; not 02, which is another code.
        short = {place: _shortest(place) for place in places if isinstance(place, str)}
        counts = Counter(short.values())
        places |= {text: places[place] for place, text in short.items() if counts[text] == 1 and text not in places}
    if not column.is_text and False in places and isinstance((column.categories or ())[0], bool):
        places |= {"false": places[False], "true": places[True]}
    return places


def _place(column: Column, places: dict[Category, int], value: Any, other: bool) -> int:
    """Return the number of the category that a value of a table is, or else that of ``other``, or UNKNOWN."""
    found: int | None = None
    with suppress(OverflowError, ValueError):  # for numbers that no float holds, or that are too long to be written
        found = _found(column, places, float(value) if isinstance(value, Decimal) else plain_category(value))
    if found is None:
        return UNKNOWN if column.other is None or not other else places[_trimmed(column.other)]
    return found


def key_of(value: Any) -> str | None:
    """Return the name under which a value is counted where categories are found, or None if it can be no category.

    A row with the value has the category of that name, if there is one: see :func:`_found`.
    """
    with suppress(OverflowError, ValueError):  # for numbers as above, and for text that is not Unicode
        plain = float(value) if isinstance(value, Decimal) else plain_category(value)
        if isinstance(plain, str | bool | int | float):
            key = str(_trimmed(plain)) if isinstance(plain, str | bool) else text_of(plain)
            return key if len(key.encode()) <= LONGEST_KEY else None
    return None


def _found(column: Column, places: dict[Category, int], value: Any) -> int | None:
    """Return the number of the category that a plain value is, if there is one.

    White space around text does not count. Where categories are text, numbers are looked up as they are written without
    needless decimals (1.0 as 1), in text too; where they are numbers or booleans, text is looked up as the number or
    the boolean that it means.
    """
    value = _trimmed(value)
    if not isinstance(value, str | bool | int | float):
        return None
    if column.is_text and not isinstance(value, str):
        if isinstance(value, bool):
            return places.get(str(value), places.get(str(value).lower()))
        return places.get(text_of(value))
    if not column.is_text and isinstance(value, str):
        found = places.get(value.lower())
        return places.get(float(value)) if found is None and "_" not in value else found
    found = places.get(value)
    return places.get(_shortest(value)) if found is None and isinstance(value, str) else found


def _shortest(text: str) -> str:
    """Return a number that is written with needless decimals, such as 2.0, without them; other text as it is."""
    return re.sub(r"\.?0*$", "", text) if re.fullmatch(r"-?(0|[1-9][0-9]*)\.[0-9]*", text) else text


def _trimmed(value: Any) -> Any:
    return value.strip() if isinstance(value, str) else value
