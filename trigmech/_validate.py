"""Checks of arguments and of values in files: messages name the thing, the rule and, if public, the given value."""

from collections.abc import Callable, Collection, Iterable, Mapping
from math import inf
from numbers import Real
from typing import Any, TypeVar, get_args

import numpy as np
from numpy.typing import NDArray

from trigmech.errors import InputError, shown

T = TypeVar("T")

# Integers up to here are exact as floats.
LARGEST_COUNT = 2**53

# Names, purposes and places of proofs are for people.
LONGEST_TEXT = 10_000

# The kind of a value in a file: its type, alone or with a limit. The limit is the least integer or number, or the
# greatest length of a text.
Kind = type | tuple[type, int]
RULES = {bool: "true or false", int: "an integer", Real: "a finite number", float: "a number with a decimal point",
         list: "a list"}


def lacks(wanted: Iterable[str], held: Collection[str]) -> str:
    """Return the rule that a table breaks if it lacks columns of a schema, or "" if it has them all."""
    absent = [name for name in wanted if name not in held]
    if not absent:
        return ""
    there = {name.casefold() for name in held if isinstance(name, str)}
    # They are the schema's names, which are public; the first row of a file may be a record.
    capitals = ", ".join(repr(name) for name in absent if name.casefold() in there)
    return (f"lacks the column(s) {', '.join(map(repr, absent))} that the schema names" + (
        f" (write {capitals} with the same capital letters in both)" if capitals else ""))


def numbers(name: str, values: Any, *shape: int | str) -> NDArray:
    """Return an array of real numbers of a shape, or raise an InputError without any entry; a memory map stays one.

    A letter in the shape stands for any length; the message begins with ``name``.
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


def finite(name: str, values: Any, *shape: int | str) -> NDArray:
    """Call :func:`numbers` and return its array, or raise an InputError if an entry is infinite or NaN."""
    array = numbers(name, values, *shape)
    if not np.isfinite(array).all():
        raise InputError(f"{name} must hold finite numbers; an entry is not finite")
    return array


def generator(rng: Any, seed: int | None = None) -> "np.random.Generator":
    """Return a generator, by default one of the seed or, without one, of the operating system; a bare seed is refused.

    It is refused because 0 would look like no generator, and other seeds like a mistake of the program.
    """
    if rng is None:
        return np.random.default_rng(seed)
    if not isinstance(rng, np.random.Generator):
        raise InputError(f"rng must be a numpy.random.Generator, not {type(rng).__name__}; "
                         "np.random.default_rng(seed) makes one")
    return rng


def answered(statistic: Callable[[T], Any], table: T, shape: tuple[int, ...] | None = None,
             finite_only: bool = True) -> NDArray[np.float64]:
    """Return a statistic of a table; an InputError unless it is of finite numbers, and of the shape if one is given."""
    values = np.asarray(statistic(table))
    if finite_only:
        values = finite("the statistic's result", values, *values.shape)
    values = values.astype(np.float64)
    if shape is not None and values.shape != shape:
        raise InputError("the statistic must return the same number of values for every table")
    return values


def is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool | np.bool_)


def is_integer(value: Any, least: int) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and bool(value >= least)


def check_integers(least: int, **arguments: Any) -> None:
    rule = "a positive integer" if least == 1 else f"an integer that is at least {least}"
    for name, value in arguments.items():
        if not is_integer(value, least):
            raise InputError(f"{name} must be {rule}, not {shown(value)}")


def check_positive(**arguments: Any) -> None:
    for name, value in arguments.items():
        if not (is_number(value) and 0 < value < inf):
            raise InputError(f"{name} must be positive and finite, not {shown(value)}")


def check_level(level: float) -> None:
    if not 0.0 < level < 1.0:
        raise InputError(f"level must be between 0 and 1, not {shown(level)}")


def check_counts(options: object, others: tuple[Any, ...], *names: str) -> None:
    """Raise an InputError if one of the named attributes is neither a count nor one of the others."""
    _check_each(options, lambda value: is_integer(value, 1) and value <= LARGEST_COUNT,
                "a positive integer up to 2^53", others, names)


def check_flags(options: object, others: tuple[Any, ...], *names: str) -> None:
    """Raise an InputError if one of the named attributes is neither True nor False nor one of the others."""
    _check_each(options, lambda value: isinstance(value, bool), "True or False", others, names)


def _check_each(options: object, fits: Callable[[Any], bool], rule: str, others: tuple[Any, ...],
                names: tuple[str, ...]) -> None:
    for name in names:
        value = getattr(options, name)
        if not (fits(value) or any(value is other or (isinstance(value, str) and value == other) for other in others)):
            raise InputError(f"{name} must be {' or '.join([rule, *map(repr, others)])}, not {shown(value)}")


def check_choice(name: str, value: Any, choices: Any) -> None:
    if value not in get_args(choices):
        raise InputError(f"{name} must be one of {', '.join(map(repr, get_args(choices)))}, not {shown(value)}")


# Anybody may have written such a file: messages name only the field and do not quote its value, which may be hostile.


def fields(data: object, where: str, kinds: Mapping[str, Kind]) -> dict[str, Any]:
    """Return the values of an object, in its order, if it has exactly the named keys and each is of its kind.

    An InputError otherwise begins with ``where`` and names the key; for kinds see :func:`of_kind`.
    """
    if not isinstance(data, dict) or data.keys() != kinds.keys():
        more = ""
        if isinstance(data, dict):
            name = next(name for name in [*kinds, *data] if not (name in kinds and name in data))
            more = f": {str(name)[:40]!r} is {'missing' if name in kinds else 'not known'}"
        raise InputError(f"{where} must be an object with the keys {', '.join(kinds)}{more}")
    return {name: of_kind(f"{where}: {name}", value, kinds[name]) for name, value in data.items()}


def of_kind(name: str, value: Any, kind: Kind) -> Any:
    """Return a value of a file, as a float if its kind is Real; if it has another kind, an InputError names ``name``.

    Kinds are str (of printable characters), bool, int, float (not an integer), Real (an integer passes too), list, or
    object, which accepts everything. A pair gives a kind together with its own limit.
    """
    kind, limit = kind if isinstance(kind, tuple) else (kind, LONGEST_TEXT if kind is str else -inf)
    if kind is Real and is_integer(value, -LARGEST_COUNT) and value <= LARGEST_COUNT:
        value = float(value)
    fits = isinstance(value, float if kind is Real else kind)
    if kind is str:
        # A printed text must not send commands to the terminal, and must be valid Unicode.
        fits = fits and len(value) <= limit and value.isprintable()
    elif kind in (int, float, Real):
        fits = fits and not isinstance(value, bool) and -inf < value < inf and value >= limit
    if not fits:
        rule = f"a text of at most {limit} printable letters" if kind is str else RULES[kind]
        raise InputError(f"{name} must be {rule}{'' if kind is str or limit == -inf else f' that is at least {limit}'}")
    return value
