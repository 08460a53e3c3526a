"""The judgement of a release against its table, for a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from trigmech.evaluation.judgement import Judgement

FROM_THE_TABLE = "NOT PRIVATE: these figures were computed from the private table. Do not publish them."
HOW_TO_READ = ("Scores: 1 means equal. Errors and losses: 0 means equal. Detector: 0.5 means that it sees no "
               "difference. Fresh: the same figure for rows that are drawn again from the true ones; in the line of "
               "rows that equal a true row, the share of true rows that equal another true row. A light is good up to "
               "the first limit, and also if the error is at most 1.5 times that of fresh rows. It is care up to the "
               "second limit, and poor beyond.")


def tell_judgement(found: Judgement) -> None:
    """Print the verdict, the measures in a table, and which rows were compared."""
    from trigmech.inspection.findings import printable

    typer.echo(found.verdict)
    shown = Table()
    for title in ("measure", "release", "fresh", "limits", "light"):
        shown.add_column(title, justify="left" if title in ("measure", "light") else "right")
    for each in found.measures:
        about = f" ({printable(each.about)})" if each.about else ""
        limit = found.limits[each.name]
        shown.add_row(f"{each.words}{about}", f"{each.value:.3f}", "" if each.fresh is None else f"{each.fresh:.3f}",
                      f"{limit.good:g}, {limit.care:g}", each.light)
    # A column's name may look like markup. Rich would end with status 1 if nobody reads to the end.
    console = Console(markup=False, emoji=False, highlight=False)
    with console.capture() as text:
        console.print(shown)
    typer.echo(text.get(), nl=False)
    typer.echo(found.compared)
    typer.echo(HOW_TO_READ)
