"""Plain HTML tables for notebooks: no style, no script, and every text escaped."""

from collections.abc import Collection, Iterable, Sequence
from html import escape

# A notebook is no place for all columns of a wide table, or for all categories of one.
MOST_ROWS, MOST_LETTERS = 60, 200
# The signs of lights, as on the pages.
SIGNS = {"good": "●", "care": "▲", "poor": "■"}


def html_lines(title: str, lines: Iterable[str]) -> str:
    """Return a title and sentences as paragraphs; all of it must be public, or marked by the title."""
    return f"<p><strong>{escape(title)}</strong></p>" + "".join(f"<p>{escape(line)}</p>" for line in lines)


def html_table(title: str, rows: Iterable[Sequence[object]], head: Sequence[str] = (),
               lights: Collection[int] = ()) -> str:
    """Return a table with a caption and, if ``head`` is given, names of columns as HTML; all of it must be public.

    Cells are shown by ``str``, escaped, at most 200 letters each; beyond 60 rows only their number is shown. Without
    ``head`` the first cell of each row is its name. Cells at the places ``lights`` are lights: bold, with a sign that
    needs no colour, so that they are readable on any ground.
    """
    listed = [list(row) for row in rows]
    lines = [f"<caption>{escape(title)}</caption>"]
    if head:
        lines.append("<thead><tr>" + "".join(_cell("th", "col", name) for name in head) + "</tr></thead>")
    body = ["<tr>" + "".join(_cell("td" if head or place else "th", "row", value, place in lights)
                             for place, value in enumerate(row)) + "</tr>" for row in listed[:MOST_ROWS]]
    if len(listed) > MOST_ROWS:
        width = len(listed[0])
        body.append(f'<tr><td colspan="{width}">and {len(listed) - MOST_ROWS} more</td></tr>')
    return "<table>" + "".join([*lines, "<tbody>", *body, "</tbody>"]) + "</table>"


def _cell(kind: str, scope: str, value: object, light: bool = False) -> str:
    opened = f'{kind} scope="{scope}"' if kind == "th" else kind
    text = str(value)
    if len(text) > MOST_LETTERS:
        text = text[:MOST_LETTERS] + "…"
    inner = f"<b>{SIGNS[text]} {escape(text)}</b>" if light and text in SIGNS else escape(text)
    return f'<{opened} style="text-align: left">{inner}</{kind}>'
