"""The commands for a decision: a comparison of releases, and the expected accuracy of a budget."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import trigmech as tm
from trigmech.cli.files import check_outputs, keep_what_counts, table_against
from trigmech.cli.judgement import FROM_THE_TABLE
from trigmech.cli.options import Json, Target, Written, budget_of, grouped, tell
from trigmech.cli.progress import progress_bar
from trigmech.errors import InputError

if TYPE_CHECKING:
    from trigmech.report.statement import Table
    from trigmech.report.tabled import Tabled

Limits = Annotated[Path | None, typer.Option(help="A TOML file with your own limits of the lights, such as "
                                                  "[pair_worst] and good = 0.85.")]
# A terminal shows so many lines of a table; and the least width of its first column, which is wrapped beyond it.
MOST_PRINTED, WIDEST = 30, 24
Page = Annotated[Path | None, typer.Option("--html", help="Also write a page of its own.")]


def limits_of(path: Path | None) -> Any:
    from trigmech.evaluation.verdict import LIMITS, load_limits

    return LIMITS if path is None else load_limits(path)


@grouped
def compare(
    saved: Annotated[list[Path], typer.Argument(help="Two or more saved releases, such as a.tm b.tm.")],
    written: Written,
    against: Annotated[str | None, typer.Option(help="The private table of all of them: the output is then NOT "
                                                     "PRIVATE.")] = None,
    schema: Annotated[Path | None, typer.Option(help="A schema file that says how to read that table.")] = None,
    limits: Limits = None,
    html: Page = None,
    as_json: Json = False,
) -> None:
    """Compare releases side by side: guarantees, lights, and the errors of each column and pair.

    It prints expected errors, from the releases alone; with --against also the measured errors.

    Example: `trigmech compare a.tm b.tm`
    """
    if len(saved) < 2:
        raise typer.BadParameter("name at least two releases")
    check_page(html, (*saved, against, schema, limits))
    chosen = limits_of(limits)
    named = _named(saved)
    releases = {name: tm.load(path) for name, path in zip(named, saved, strict=True)}
    with progress_bar(quiet=as_json) as progress:
        progress("reading the table", 0, 0)
        table = None if against is None else table_against(next(iter(releases.values())), against, schema, written)
        progress("comparing", 0, 0)
        found = tm.compare(releases, table, chosen)
    if against is not None:
        typer.echo(FROM_THE_TABLE, err=True)
    _tell(found, html, as_json)


def advise(
    schema: Annotated[Path, typer.Argument(help="The schema (TOML).")],
    rows: Annotated[int, typer.Option(min=20, help="Rows of the table (persons, if it has a column of them); public.")],
    target: Target = None,
    delta: Annotated[float | None, typer.Option(help="Privacy budget: delta. Default: the largest power of ten that is "
                                                     "at most 1 / (10 rows).", show_default=False)] = None,
    epsilon: Annotated[list[float] | None, typer.Option(help="A value of epsilon; repeatable. Default: nine values "
                                                             "from 0.1 to 10.", show_default=False)] = None,
    limits: Limits = None,
    html: Page = None,
    plot: Annotated[Path | None, typer.Option(help="The same as --html; the page has the plot.")] = None,
    as_json: Json = False,
) -> None:
    """Show expected errors, lights and detectable effects for several values of epsilon; no budget is spent.

    It does not read a table. The errors are those of a made-up table with the schema's columns.

    Example: `trigmech advise schema.toml --rows 5000`
    """
    from trigmech.report.advised import EPSILONS
    from trigmech.schema import toml as schema_file

    page = html or plot
    check_page(page, (schema, limits))
    for each in epsilon or ():
        budget_of(each, 0.0 if delta is None else delta)
    with progress_bar(quiet=as_json) as progress:
        found = tm.advise(schema_file.load_schema(schema), rows, target=target, delta=delta,
                          epsilons=epsilon or EPSILONS, limits=limits_of(limits), progress=progress)
    _tell(found, page, as_json)


def _named(saved: list[Path]) -> list[str]:
    """Return a name for each release: its file's, or its path if two files have the same name."""
    names = [path.stem for path in saved]
    names = names if len(set(names)) == len(names) else [str(path) for path in saved]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise typer.BadParameter(f"the release {twice!r} is given twice")
    return names


def check_page(page: Path | None, inputs: tuple[Any, ...], more: str = "") -> None:
    """Raise an error if a page cannot be written, or would replace something else; ``more`` is said of its name."""
    from trigmech.report.page import is_page

    if page is None:
        return
    check_outputs((page,), inputs)
    keep_what_counts(page)
    if page.is_file() and page.stat().st_size and not is_page(page):
        raise InputError(f"{str(page)!r} exists and is not a page; name another file")
    if page.suffix.lower() not in (".html", ".htm"):
        raise InputError(f"cannot write {str(page)!r}: a page is written as .html{more}")


def _tell(found: Tabled, page: Path | None, as_json: bool) -> None:
    written = None if page is None else found.write(page)
    if as_json:
        tell(found.to_dict() | {"page": None if written is None else str(written)}, "", True)
        return
    from trigmech.inspection.findings import printable

    for sentence in found.sentences:
        typer.echo(printable(sentence))
    for part in found.parts:
        _print(part.table, part.words)
    if written is not None:
        typer.echo(f"written: {written}")


def _print(table: Table, words: str) -> None:
    """Print a table as wide as the terminal: if it is too wide, in several tables one below the other."""
    from rich import box
    from rich.console import Console
    from rich.measure import Measurement
    from rich.table import Table as Shown

    from trigmech.inspection.findings import printable

    # A column's name may look like markup. Rich would end with status 1 if nobody reads to the end.
    console = Console(markup=False, emoji=False, highlight=False)
    rows = [[printable(str(cell)) for cell in row] for row in table.rows[:MOST_PRINTED]]

    def made(columns: list[int]) -> Shown:
        shown = Shown(box=box.SIMPLE, pad_edge=False, padding=(0, 1, 0, 0))
        for at in columns:
            right = at in (table.numeric or ())
            shown.add_column(printable(table.head[at]), justify="right" if right else "left", overflow="fold",
                             no_wrap=right and at > 0, max_width=None if at else max(WIDEST, console.width // 3))
        for row in rows:
            shown.add_row(*(row[at] for at in columns))
        return shown

    def fits(columns: list[int]) -> bool:
        return Measurement.get(console, console.options.update(max_width=10**6), made(columns)).maximum <= console.width

    blocks: list[list[int]] = [[0]]
    for at in range(1, len(table.head)):
        if len(blocks[-1]) > 1 and not fits([*blocks[-1], at]):
            blocks.append([0])
        blocks[-1].append(at)
    with console.capture() as text:
        console.print(f"\n{table.caption}. {words}" if words else f"\n{table.caption}")
        for columns in blocks:
            console.print(made(columns))
        if len(table.rows) > len(rows):
            console.print(f"These are the first {len(rows)} of {len(table.rows):,} lines; --html PAGE or --json has "
                          "all.")
    typer.echo(text.get(), nl=False)
