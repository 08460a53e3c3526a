"""Warnings of paid releases: no filter turns them into errors."""

import sys
import warnings


def warn(sentence: str, category: type[Warning]) -> None:
    """Give a warning that points to the user's own function, even if a filter turns such warnings into errors."""
    try:
        warnings.warn(sentence, category, stacklevel=_level())
    except category:
        # The error would lose a paid release.
        with warnings.catch_warnings():
            warnings.simplefilter("always", category)
            warnings.warn(sentence, category, stacklevel=_level())


def _level() -> int:
    """Return how far above the caller the user's own function is: the warning points there from each public name."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "trigmech":
        frame, level = frame.f_back, level + 1
    return level
