"""What a refusal adds if a question or a formula has a column's name that must be quoted, such as ``sample.yr``."""

import re
from collections.abc import Callable, Sequence


def with_hint(said: object, text: str, names: Sequence[str], quote: str, plain: Callable[[str], bool]) -> str:
    """Return what was said of a text, and how to write the first name in it that stands there without its quotes.

    ``quote`` is what names are quoted by, and ``plain`` tells which names need it not.
    """
    bare = re.sub(f"{quote}[^{quote}]*{quote}|'[^']*'", " ", text)
    # The longest first: "sample.yr" holds "sample" too.
    for name in sorted(names, key=len, reverse=True):
        if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", bare, re.IGNORECASE) and not plain(name):
            return f"{said}; write the column {name!r} as {quote}{name}{quote}"
    return str(said)
