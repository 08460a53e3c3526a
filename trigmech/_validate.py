"""Checks of arguments: each message names the thing, the rule and, where that is public, what was given."""

from numbers import Real
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from trigmech.errors import InputError, shown

# Integers up to here are exact as floats.
LARGEST_COUNT = 2**53


def numbers(name: str, values: Any, *shape: int | str) -> NDArray:
    """Return an array of real numbers, or raise an InputError that does not quote any of them.

    Parameters
    ----------
    name : str
        What the message calls it.
    values : array_like, private
    *shape : int or str
        The shape it must have; a letter stands for any length.

    Returns
    -------
    ndarray
        Of the type it came in; a memory map stays one.
    """
    wanted = f"({', '.join(map(str, shape))}{',' if len(shape) == 1 else ''})"
    try:
        array = np.asanyarray(values)
    except (TypeError, ValueError):
        # The original message could quote an entry, so it is not passed on.
        raise InputError(f"{name} must be a numeric array of shape {wanted}; its rows differ in length") from None
    if array.dtype.kind not in "biuf":
        raise InputError(f"{name} must be a numeric array of shape {wanted}; its type is {array.dtype.name}")
    if isinstance(array, np.ma.MaskedArray):
        raise InputError(f"{name} is a masked array; fill it or leave the masked rows out first")
    if array.ndim != len(shape) or any(isinstance(length, int) and length != given
                                       for length, given in zip(shape, array.shape, strict=True)):
        raise InputError(f"{name} must be a numeric array of shape {wanted}; its shape is {array.shape}")
    return array


def is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool | np.bool_)


def check_counts(options: object, others: tuple[Any, ...], *names: str) -> None:
    for name in names:
        value = getattr(options, name)
        if isinstance(value, int | np.integer) and not isinstance(value, bool) and 1 <= value <= LARGEST_COUNT:
            continue
        if not any(value is other or (isinstance(value, str) and value == other) for other in others):
            words = " or ".join(["a positive integer up to 2^53", *map(repr, others)])
            raise InputError(f"{name} must be {words}, not {shown(value)}")


def check_choice(name: str, value: Any, choices: Any) -> None:
    if value not in get_args(choices):
        raise InputError(f"{name} must be one of {', '.join(map(repr, get_args(choices)))}, not {shown(value)}")
