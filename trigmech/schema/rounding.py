"""How synthetic numbers are rounded: by a column's kind and decimals, or by its range.

A continuous column without ``decimals`` has as many digits after the point as 1/10,000 of its range, and whole numbers
if that is 1 or more. Under a transform it is 1/10,000 of the range of the logarithm: more digits for small numbers and
fewer for large ones. Bounds stay as they are, and so does a number with up to three more digits, such as a value that
many rows share. Columns from -1 to 1 without a transform, such as those of :meth:`trigmech.Schema.cube`, are
taken to lie in the cube: their numbers are the points themselves and are not rounded.
"""

import math
from collections.abc import Iterator

import numpy as np

from trigmech._arrays import Array, Integers
from trigmech.schema.column import LARGEST_EXACT, Column

# Into so many parts a range is divided by default.
PARTS = 10_000.0
# Two numbers are equally near if the distances differ by at most this part of that between the two.
TIE = 1e-6
# A number of up to so many more digits is known for one that was there; but of no more than a float holds clearly, so
# that in 10^5 numbers that were drawn there is hardly one.
MORE, CLEAR = 3, 2.0**30
# Powers of ten, all of them floats.
POWERS = np.array([float(10**k) for k in range(23)])


def rounded(column: Column, points: Array, values: Array) -> Array:
    """Return numbers (m,) of a column, which are at points of [-1, 1], as the column asks for them."""
    lower, upper = column.bounds
    if column.kind == "binary":
        return np.where(points >= 0.0, upper, lower)
    if not has_steps(column):
        digits = digits_at(column, values)
        return values if digits is None else _to_digits(column, values, digits)
    first, last = math.ceil(column.in_steps(lower)), math.floor(column.in_steps(upper))
    return np.clip(np.rint(values * column.steps), first, last) / column.steps


def has_steps(column: Column) -> bool:
    """Whether a column's numbers are equally spaced from 0 on: integers, times, categories, stated decimals."""
    return column.kind != "continuous" or column.decimals is not None


def digits_at(column: Column, values: Array) -> Integers | None:
    """Return how many digits after the point a continuous column without decimals has at numbers (m,) of it.

    None if they are not rounded, also because no float has that many digits.
    """
    first, starts = _zones(column)
    if first is None:
        return None
    return first - np.searchsorted(starts, values, side="right")


def to_own_digits(column: Column, values: Array) -> Array:
    """Return numbers (m,) of a column with its own digits alone: without the further ones that shared values keep.

    Of 2/7 a synthetic table has 0.28571, which is not the private table's value, but is the same with four digits.
    """
    digits = None if has_steps(column) else digits_at(column, values)
    return values if digits is None else np.rint(values * POWERS[digits]) / POWERS[digits]


def default_digits(column: Column) -> tuple[int, int] | None:
    """Return the fewest and the most digits after the point that a column has by default, or None; public."""
    if column.kind != "continuous" or column.decimals is not None or column.private_bounds:
        return None
    digits = digits_at(column, np.array(column.bounds))
    return None if digits is None else (int(digits[1]), int(digits[0]))


def candidates(column: Column, values: Array, low: Array, high: Array) -> Iterator[Array]:
    """Yield numbers (m,) between others, near given values and with few digits; NaN where there is none.

    They have the digits of the column; if these are the default ones, then up to three more, which :func:`rounded`
    keeps. For each number of digits the ends come first and are then left out: an end can belong to the next interval,
    or be a special value.
    """
    digits = None if has_steps(column) else digits_at(column, values)
    for more in range(1 if digits is None else MORE + 1):
        steps = np.full(len(values), float(column.steps)) if digits is None else POWERS[
            np.minimum(digits + more, len(POWERS) - 1)]
        for inset in range(3):
            first, last = np.ceil(low * steps) + inset, np.floor(high * steps) - inset
            near = np.clip(np.rint(values * steps), first, np.maximum(first, last)) / steps
            yield np.where(first <= last, near, np.nan)


def middle(column: Column, exact: float) -> float:
    """Return the number of a column with steps that the middle of its range becomes; ``exact`` is not rounded.

    It is the nearest number that is not special, on the scale of the transform, and the upper one of two that are
    equally near. The intervals of tables hold their lower ends, so tables count a missing value that counts as the
    middle in the same way.
    """
    if column.kind == "binary":
        return column.bounds[1]
    first, last = math.ceil(column.in_steps(column.bounds[0])), math.floor(column.in_steps(column.bounds[1]))
    down = math.floor(exact * column.steps)
    sides = np.clip([down, down + 1.0], first, last) / column.steps
    if column.special:
        sides = beside_special(column, np.array([-math.inf, math.inf]), sides)
    shift = {"log": 0.0, "log1p": 1.0 - column.bounds[0]}.get(column.transform or "")
    below, at, above = (each if shift is None else math.log(each + shift) for each in (*sides[:1], exact, *sides[1:]))
    return float(sides[1] if above - at <= at - below + TIE * (above - below) else sides[0])


def beside_special(column: Column, exact: Array, numbers: Array) -> Array:
    """Return rounded numbers; one at a special value becomes the next number of as many digits that is not special.

    A special value has its own indicator, so numbers rounded to it would make it too frequent.
    """
    digits = digits_at(column, numbers) if not has_steps(column) else None
    if not has_steps(column):
        return numbers if digits is None else _off_special(column, exact, numbers, POWERS[digits])
    lower, upper = map(column.in_steps, column.bounds)
    special = {column.in_steps(column.number(value)) for value in column.special}
    apart = np.rint(numbers * column.steps)
    first, last = math.ceil(lower), math.floor(upper)
    for value in special:
        here = apart == value
        sides = []
        for step in (-1.0, 1.0):
            other = _next_whole(value, step)
            # Beyond the bounds special values may be infinite in steps.
            while other in special and first <= other <= last:
                other = _next_whole(other, step)
            if first <= other <= last:
                sides.append(other)
        # Where there is no other number between the bounds the special value is all that is left.
        if sides:
            apart[here] = np.where(exact[here] * column.steps < value, sides[0], sides[-1])
    return apart / column.steps


def _next_whole(value: float, step: float) -> float:
    """Return the whole number of floats that is next to one, on the side of a step of -1 or 1."""
    # From 2^53 on not every whole number is a float, and a step of 1 can lead nowhere.
    return value + step if abs(value) < 2.0 * LARGEST_EXACT else math.nextafter(value, step * math.inf)


def _zones(column: Column) -> tuple[int | None, Array]:
    """Return how many digits the smallest numbers have, and from which numbers on each has one digit less."""
    lower, upper = column.bounds
    if column.transform is None:
        digits = None if (lower, upper) == (-1.0, 1.0) else _digits((upper - lower) / PARTS)
        starts = np.empty(0)
    else:
        # A part of the logarithm's range is this part of the number, which counts from 1 - lower on under log1p.
        part = (_log_ratio(upper, lower) if column.transform == "log" else math.log1p(upper - lower)) / PARTS
        shift = 0.0 if column.transform == "log" else 1.0 - lower
        digits = _digits((lower + shift) * part)
        # Multiples of the coarser step, so that order is kept.
        starts = np.array([math.ceil((1.0 / POWERS[k] / part - shift) * POWERS[k]) / POWERS[k]
                           for k in range((digits or 0) - 1, -1, -1)])
    if digits is None:
        return None, starts
    fewest = digits - np.count_nonzero(starts <= upper)
    exact = max(abs(lower) * POWERS[digits], abs(upper) * POWERS[fewest]) <= LARGEST_EXACT
    return (digits if exact else None), starts


def _log_ratio(upper: float, lower: float) -> float:
    # The difference of the logarithms of two near numbers has few digits.
    ratio = upper / lower
    return math.log(ratio) if ratio < math.inf else math.log(upper) - math.log(lower)


def _digits(part: float) -> int | None:
    digits = max(math.ceil(-math.log10(part) - 1e-9), 0) if part > 0.0 else len(POWERS)
    return digits if digits < len(POWERS) else None


def _to_digits(column: Column, values: Array, digits: Integers) -> Array:
    lower, upper = column.bounds
    most = math.floor(math.log10(CLEAR / max(abs(lower), abs(upper))))
    finer = POWERS[np.clip(np.minimum(digits + MORE, most), digits, len(POWERS) - 1)]
    known = (np.rint(values * finer) / finer == values) | (values == lower) | (values == upper)
    steps = POWERS[digits]
    return np.where(known, values, np.clip(np.rint(values * steps) / steps, lower, upper) + 0.0)


def _off_special(column: Column, exact: Array, numbers: Array, steps: Array) -> Array:
    lower, upper = column.bounds
    special = [column.number(value) for value in column.special]
    numbers = numbers.copy()
    for value in special:
        here = np.flatnonzero(numbers == value)
        # The near side last, as it is preferred; where neither has a number the special value is all that is left.
        own = np.where(exact[here] < value, -1.0, 1.0)
        for side in (-own, own):
            other = np.full(len(here), value)
            for _ in special:
                other = np.where(np.isin(other, special), np.rint(other * steps[here] + side) / steps[here], other)
            numbers[here] = np.where((lower <= other) & (other <= upper), other, numbers[here])
    return numbers
