"""The package's own mechanisms, with their options, as plain values of a file, which are never executed."""

from dataclasses import fields
from typing import Any

import numpy as np

from trigmech.errors import InputError
from trigmech.mechanisms.base import Mechanism
from trigmech.mechanisms.moment import MomentMechanism
from trigmech.mechanisms.table import TableMechanism
from trigmech.planning.shares import Shares
from trigmech.thesis.mechanisms import ImprovedTrigI, ImprovedTrigII, TrigI, TrigII
from trigmech.workload import GaussianKernels, Mixture, PairKernels, Polynomials, SecondMoments, Smooth
from trigmech.workload.tables import Marginals, Ranges

KNOWN: dict[str, Any] = {each.__name__: each for each in (
    MomentMechanism, TableMechanism, TrigI, TrigII, ImprovedTrigI, ImprovedTrigII, Shares, GaussianKernels, PairKernels,
    SecondMoments, Polynomials, Smooth, Mixture, Marginals, Ranges)}


def is_known(mechanism: Any) -> bool:
    """Return whether a mechanism and all of its options can be written to a file."""
    try:
        plain(mechanism)
    except InputError:
        return False
    return isinstance(mechanism, Mechanism)


def name_of(mechanism: Mechanism) -> str:
    """Return the name of a mechanism's class, at most 200 printable letters."""
    kind = type(mechanism)
    name = f"{kind.__module__}.{kind.__qualname__}"
    return "".join(letter if letter.isprintable() else "?" for letter in name)[-200:]


def made(value: Any, where: str) -> Mechanism:
    """Return the mechanism of :func:`plain`; an InputError, which begins with ``where``, names the fault."""
    found = _value(value, where)
    if not isinstance(found, Mechanism):
        raise InputError(f"{where} must be one of the package's mechanisms with its options")
    return found


def plain(value: Any) -> Any:
    """Return a mechanism or a workload of the package as JSON has it: its class's name and its options."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, tuple | list):
        return [plain(part) for part in value]
    if KNOWN.get(type(value).__name__) is not type(value):
        raise InputError(f"{type(value).__name__} cannot be written to a file: files have the package's "
                         "own mechanisms and workloads alone")
    options = {option.name: plain(getattr(value, option.name)) for option in fields(value) if option.init}
    return {"is": type(value).__name__, **options}


def _value(plain: Any, where: str) -> Any:
    if isinstance(plain, list):
        return tuple(_value(part, where) for part in plain)
    if not isinstance(plain, dict):
        return plain
    known = KNOWN.get(str(plain.get("is")))
    if known is None:
        raise InputError(f"{where}: there is no {str(plain.get('is'))[:40]!r}")
    try:
        return known(**{name: _value(part, where) for name, part in plain.items() if name != "is"})
    except InputError:
        raise
    except (TypeError, ValueError, ArithmeticError, AttributeError):
        raise InputError(f"{where}: the options do not fit {known.__name__}") from None
