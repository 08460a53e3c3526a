"""Given columns and shares of a sample, as text: name=value and name=value:share,value:share."""

from collections.abc import Sequence
from typing import Any

from trigmech.errors import InputError
from trigmech.reconstruction.conditional import own_column
from trigmech.schema.column import Column
from trigmech.schema.constraints import categories_listed
from trigmech.schema.schema import Schema
from trigmech.schema.values import text_of

MISSING, RANGE = "", ".."


def given_of(schema: Schema, texts: Sequence[str]) -> dict[str, Any]:
    """Return the given values of columns from texts such as "region=north", "age=30..39" or, for a missing value,
    "pay="."""
    found: dict[str, Any] = {}
    for text in texts:
        named = _named(schema, text, "=")
        if not named or named[0][0] in found:
            raise InputError(f"--given must be name=value, once for each column, not {text!r}")
        name, _, value = named[0]
        found[name] = _value(own_column(schema, name), value)
    return found


def shares_of(schema: Schema, texts: Sequence[str]) -> dict[str, dict[Any, float]]:
    """Return the shares of values from texts such as "region=north:0.5,south:0.5" or "region:north=0.5,south=0.5"."""
    found: dict[str, dict[Any, float]] = {}
    for text in texts:
        # One of the signs follows the name, and the other precedes each share.
        parsed = [(name, [part.rpartition("=" if sign == ":" else ":") for part in listed.split(",")])
                  for name, sign, listed in _named(schema, text, "=", ":")]
        whole = [(name, pairs) for name, pairs in parsed if all(between for _, between, _ in pairs)]
        if not whole or whole[0][0] in found:
            raise InputError(f"--shares must be name=value:share,value:share, once for each column, not {text!r}")
        name, pairs = whole[0]
        column = own_column(schema, name)
        found[name] = {_value(column, value): _number("a share", share) for value, _, share in pairs}
        if len(found[name]) < len(pairs):
            raise InputError(f"--shares has a value twice: {text!r}")
    return found


def _named(schema: Schema, text: str, *signs: str) -> list[tuple[str, str, str]]:
    """Return each column's name that a text may begin with, the sign after it and the rest, longest names first.

    If no column's name fits, the text before the first sign takes its place.
    """
    known = sorted(((name, sign) for name in schema.names for sign in signs if text.startswith(f"{name}{sign}")),
                   key=lambda each: -len(each[0]))
    if not known:
        known = [(text[: min(map(text.index, there))], min(there, key=text.index))
                 for there in [[sign for sign in signs if sign in text]] if there]
    return [(name, sign, text[len(name) + 1 :]) for name, sign in known]


def _value(column: Column, text: str) -> Any:
    categories = {text_of(category): category for category in column.categories or ()}
    if text in categories:
        return categories[text]
    if text == MISSING:
        return None
    if RANGE in text and column.kind != "categorical":
        lower, _, upper = text.partition(RANGE)
        if MISSING in (lower.strip(), upper.strip()):
            raise InputError(f"a range of {column.name!r} must have both ends, as in 30..39, not {text!r}")
        return _value(column, lower), _value(column, upper)
    if categories:
        raise InputError(f"column {column.name!r} has no category {text!r}; its categories are "
                         f"{categories_listed(column)}")
    return text if column.unit else _number(f"a value of {column.name!r}", text)


def _number(what: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InputError(f"{what} must be a number, not {text!r}") from None
