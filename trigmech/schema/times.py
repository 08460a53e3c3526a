"""Dates and times of a schema: the forms users may write, and how fine a column's values are."""

import datetime
from collections.abc import Iterable
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Resolution = Literal["day", "hour", "minute", "second"]
Unit = Literal["D", "h", "m", "s"]

# From the finest to the coarsest: NumPy's name of the unit, and how many seconds it has.
UNITS: dict[Resolution, tuple[Unit, int]] = {"second": ("s", 1), "minute": ("m", 60), "hour": ("h", 3_600),
                                             "day": ("D", 86_400)}
SECOND_ZERO = datetime.datetime(1970, 1, 1)
MIDNIGHT, LAST_SECOND = datetime.time(), datetime.time(23, 59, 59)


def is_date(value: Any) -> bool:
    """Return whether a value is a date without a time of day."""
    return isinstance(value, datetime.date) and not isinstance(value, datetime.datetime)


def read(value: Any) -> datetime.date | None:
    """Return a date, or a time in UTC without its zone, from a user's value; None if the value is neither."""
    if isinstance(value, np.datetime64):
        value = value.tolist() if np.datetime_data(value)[0] in "YMWD" else value.astype("M8[us]").tolist()
    if isinstance(value, str):
        for form in (datetime.date, datetime.datetime):
            try:
                value = form.fromisoformat(value)
                break
            except ValueError:
                pass
    if isinstance(value, datetime.datetime):
        try:
            value = value if value.tzinfo is None else value.astimezone(datetime.UTC)
        except OverflowError:
            return None
        return datetime.datetime(value.year, value.month, value.day, value.hour, value.minute, value.second,
                                 value.microsecond)
    return value if isinstance(value, datetime.date) else None


def resolution_of(lower: datetime.date, upper: datetime.date, special: Iterable[Any] = ()) -> Resolution:
    """Return how fine times are, by the form of their bounds and special values.

    Dates are days. Times have the coarsest of hour, minute and second in which all of them are whole, hours only if the
    bounds are a day apart, and minutes only if they are an hour apart. Bounds that are both midnight, as a program
    writes a date, say nothing: then seconds, so that nothing is lost.
    """
    times = [bound for bound in (lower, upper) if isinstance(bound, datetime.datetime)]
    if not times:
        return "day"
    first, last = (number_of(bound, "second") for bound in (lower, upper))
    all_times = {first, last, *(number_of(found, "second") for found in map(read, special) if found is not None)}
    if all(time.time() == MIDNIGHT for time in times):
        return "second"
    if last - first >= 86_400 and all(time % 3_600 == 0 for time in all_times):
        return "hour"
    return "minute" if last - first >= 3_600 and all(time % 60 == 0 for time in all_times) else "second"


def with_resolution(lower: Any, upper: Any, given: Resolution | None,
                    special: Iterable[Any] = ()) -> tuple[Any, Any, Resolution]:
    """Return bounds in a resolution, and the resolution; by default that of :func:`resolution_of`.

    Bounds are cut to the resolution, as values are; if both are dates and it is finer than a day, the upper one is the
    end of its day.
    """
    resolution = given or resolution_of(lower, upper, special)
    if resolution == "day":
        return (*(bound if is_date(bound) else bound.date() for bound in (lower, upper)), resolution)
    end = LAST_SECOND if is_date(lower) and is_date(upper) else MIDNIGHT
    lower, upper = (datetime.datetime.combine(bound, time) if is_date(bound) else bound
                    for bound, time in ((lower, MIDNIGHT), (upper, end)))
    if resolution != "second":
        cut = {"second": 0, "microsecond": 0} | ({"minute": 0} if resolution == "hour" else {})
        lower, upper = lower.replace(**cut), upper.replace(**cut)
    return lower, upper, resolution


def number_of(value: datetime.date, resolution: Resolution) -> float:
    """Return a date or time as how many units of the resolution it is after 1970 began."""
    if not isinstance(value, datetime.datetime):
        value = datetime.datetime.combine(value, MIDNIGHT)
    return (value - SECOND_ZERO) / datetime.timedelta(seconds=UNITS[resolution][1])


def times_of(numbers: NDArray[Any], resolution: Resolution) -> NDArray[Any]:
    """Return so many units of the resolution after 1970 as datetime64 of days or seconds, which all dataframes know."""
    unit = UNITS[resolution][0]
    times = numbers.astype(np.int64).astype(f"datetime64[{unit}]")
    return times if unit in "Ds" else times.astype("datetime64[s]")
