"""What is given of a sample's columns, as text: name=value and name:value=share,value=share."""

from collections.abc import Sequence
from typing import Any

from trigmech.errors import InputError
from trigmech.schema.column import Column, text_of
from trigmech.schema.schema import Schema

MISSING, RANGE = "", ".."


def given_of(schema: Schema, texts: Sequence[str]) -> dict[str, Any]:
    """Return what columns have by texts such as "region=north", "age=30..39" or, where it is missing, "pay="."""
    found: dict[str, Any] = {}
    for text in texts:
        name, sign, value = _parted(schema, text, "=")
        if not sign or name in found:
            raise InputError(f"--given must be name=value, once for each column, not {text!r}")
        found[name] = _value(_column(schema, name), value)
    return found


def shares_of(schema: Schema, texts: Sequence[str]) -> dict[str, dict[Any, float]]:
    """Return the shares of values by texts such as "region:north=0.5,south=0.5"."""
    found: dict[str, dict[Any, float]] = {}
    for text in texts:
        name, sign, listed = _parted(schema, text, ":")
        pairs = [part.rpartition("=") for part in listed.split(",")]
        if not (sign and all(between for _, between, _ in pairs)) or name in found:
            raise InputError(f"--shares must be name:value=share,value=share, once for each column, not {text!r}")
        column = _column(schema, name)
        found[name] = {_value(column, value): _number("a share", share) for value, _, share in pairs}
        if len(found[name]) < len(pairs):
            raise InputError(f"--shares has a value twice: {text!r}")
    return found


def _parted(schema: Schema, text: str, sign: str) -> tuple[str, str, str]:
    """Return a column's name, which may hold the sign, the sign, and what follows it."""
    known = [name for name in schema.names if text.startswith(f"{name}{sign}")]
    name = max(known, key=len, default=text.partition(sign)[0])
    return name, *text[len(name):].partition(sign)[1:]


def _column(schema: Schema, name: str) -> Column:
    for column in schema.columns:
        if column.name == name:
            return column
    raise InputError(f"there is no column {name!r}; the columns are {', '.join(map(repr, schema.names))}")


def _value(column: Column, text: str) -> Any:
    categories = {text_of(category): category for category in column.categories or ()}
    if text in categories:
        return categories[text]
    if text == MISSING:
        return None
    if RANGE in text:
        lower, _, upper = text.partition(RANGE)
        return _value(column, lower), _value(column, upper)
    return text if column.is_text or column.unit else _number(f"a value of {column.name!r}", text)


def _number(what: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InputError(f"{what} must be a number, not {text!r}") from None
