"""Values of columns as plain Python values and as text."""

import datetime
import math
from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any

import numpy as np

from trigmech.errors import shown


def text_of(value: Any) -> str:
    """Return a category, number or date as it is written: integral numbers without a point."""
    if isinstance(value, Integral) and not isinstance(value, bool):
        return str(int(value))
    if isinstance(value, Real) and not isinstance(value, bool):
        number = float(value)
        return str(int(number)) if number.is_integer() else repr(number)
    return value.isoformat() if isinstance(value, datetime.date) else str(value)


def is_unicode(text: str) -> bool:
    """Return whether a text has a form in UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def float_of(value: Real) -> float:
    """Return a number as a float, infinite if too large, and 0 for -0."""
    try:
        return float(value) + 0.0
    except OverflowError:
        return math.inf


def plain_number(value: Any) -> Any:
    """Return a date as ISO text, and a whole number as an integer."""
    if isinstance(value, datetime.date):
        return value.isoformat()
    return int(value) if value.is_integer() and abs(value) < 2**53 else value


def plain_category(value: Any) -> Any:
    """Return a value as Python's own string, boolean, integer or float, or as it is if it is none of these."""
    if isinstance(value, str):
        return str.__str__(value)  # its content, also if its class writes itself otherwise
    if isinstance(value, bool | np.bool_):
        return bool(value)
    # A span of time is no number, though NumPy counts it among the integers.
    if not isinstance(value, Real) or isinstance(value, np.timedelta64):
        return value
    return int(value) if isinstance(value, Integral) else float(value) + 0.0


def listed(values: Iterable[Any]) -> str:
    return f"[{', '.join(map(shown, values))}]"
