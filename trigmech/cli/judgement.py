"""The judgement of a release against its table, for a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from trigmech.evaluation.judgement import Judgement


def tell_judgement(found: Judgement) -> None:
    """Print the verdict, the measures in a table, and which rows were compared."""
    from trigmech.evaluation.verdict import LIMITS
    from trigmech.inspection.findings import printable

    typer.echo(found.verdict)
    shown = Table()
    for title in ("measure", "release", "fresh true rows", "good to", "care to", "light"):
        shown.add_column(title, justify="left" if title in ("measure", "light") else "right")
    for each in found.measures:
        about = f" ({printable(each.about)})" if each.about else ""
        limit = LIMITS[each.name]
        shown.add_row(f"{each.words}{about}", f"{each.value:.3f}", "" if each.fresh is None else f"{each.fresh:.3f}",
                      f"{limit.good:g}", f"{limit.care:g}", each.light)
    # A column's name may look like markup.
    Console(markup=False, emoji=False, highlight=False).print(shown)
    typer.echo(found.compared)
    typer.echo("Columns, pairs: 1 is equal. Errors, losses: 0 is equal. Detector: 0.5 sees no difference. A light is "
               "good within its limit, or where fresh true rows do no better. Copies count beyond those of true rows.")
