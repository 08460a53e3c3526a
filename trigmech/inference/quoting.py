"""Hints for refused questions and formulas that have the name of a column, such as ``sample.yr``, without quotes."""

import re
from collections.abc import Callable, Sequence


def with_hint(said: object, text: str, names: Sequence[str], quote: str, plain: Callable[[str], bool]) -> str:
    """Return a message on a text, with a hint how to write the longest name in the text that lacks its quotes.

    ``quote`` is the sign around quoted names, and ``plain`` tells which names do not need it.
    """
    bare = re.sub(f"{quote}[^{quote}]*{quote}|'[^']*'", " ", text)
    # The longest first: "sample.yr" holds "sample" too.
    for name in sorted(names, key=len, reverse=True):
        if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", bare, re.IGNORECASE) and not plain(name):
            return f"{said}; write the column {name!r} as {quote}{name}{quote}"
    return str(said)
