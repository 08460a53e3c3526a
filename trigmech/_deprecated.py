"""Public names that will be removed: they work as before, and say what to use instead.

A name stays for at least two minor versions after the one that deprecates it, as docs/stability.md promises. The
warning is a FutureWarning, because Python hides a DeprecationWarning from those who call through other modules.
"""

import functools
import warnings
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")
KEPT_FOR = 2


def deprecated(name: str, *, since: str, removed_in: str, instead: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator for a function, or for the getter of a property, that warns at each call.

    Raises a ValueError if the name would be removed too early. This happens when the package is imported, so no release
    can have it.

    **Privacy.** The warning names code, and no data.
    """
    first, last = (tuple(map(int, version.split(".")[:2])) for version in (since, removed_in))
    if not (last[0] > first[0] or last[1] >= first[1] + KEPT_FOR):
        raise ValueError(f"{name} is deprecated since {since} and must be kept for {KEPT_FOR} minor versions; "
                         f"{removed_in} is too early")

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(function)
        def warned(*given: P.args, **named: P.kwargs) -> R:
            warnings.warn(f"{name} is deprecated since trigmech {since} and will be removed in {removed_in}; "
                          f"use {instead}", FutureWarning, stacklevel=2)
            return function(*given, **named)

        return warned

    return decorate
