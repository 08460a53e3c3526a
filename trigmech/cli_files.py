"""The files that the command line is given: looked at before budget is spent, and read and written."""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, cast

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from trigmech.budget import Budget
from trigmech.distribution import Distribution
from trigmech.errors import InputError
from trigmech.file_formats import check_table_name
from trigmech.ledger_file import LedgerFile
from trigmech.outputs import check_writable
from trigmech.synthesis import Synthesis
from trigmech.workload import Workload

STANDARD = "-"

# How a CSV file is read, for every command that reads one.
Delimiter = Annotated[str | None, typer.Option(
    help="Between the cells of a CSV: a character such as ';', or 'tab'. Default: as the schema file says, or a comma "
         "(a tab for .tsv).", show_default=False)]
Decimal = Annotated[str | None, typer.Option(
    help="The decimal sign of a CSV's numbers: . or ,", show_default=False)]
Encoding = Annotated[str | None, typer.Option(
    help="Of a CSV's text, such as cp1252 or utf-16. Default: as the schema file says, or utf-8.", show_default=False)]
DateFormat = Annotated[str | None, typer.Option(
    help="How a CSV writes dates, such as %d.%m.%Y (Python's strptime). Default: as the schema file says, or ISO form.",
    show_default=False)]


def file_options(delimiter: str | None, decimal: str | None, encoding: str | None,
                 date_format: str | None) -> dict[str, Any]:
    """Return the options that were given, as :class:`trigmech.table_file.TableFile` takes them."""
    if delimiter in ("tab", r"\t"):
        delimiter = "\t"
    given = {"delimiter": delimiter, "decimal": decimal, "encoding": encoding, "date_format": date_format}
    return {option: value for option, value in given.items() if value is not None}


def check_outputs(outputs: Iterable[Path | None], inputs: Iterable[str | Path | None] = (), *,
                  table: str | Path | None = None) -> None:
    """Raise an error if a file cannot be written, or would replace an input or another output.

    To be called before anything is charged: what cannot be written is lost with what it cost. ``table`` is the output
    that a synthetic table is written to, which may be "-".

    Raises
    ------
    typer.BadParameter
        If a file is given twice, or an output is "-".
    InputError
        If it cannot be written, or its name is not that of a table though a table is to be written.
    """
    to_file = None if table is None or str(table) == STANDARD else Path(table)
    given = [Path(path) for path in inputs if path is not None and str(path) != STANDARD]
    for path in (*outputs, to_file):
        if path is None:
            continue
        if str(path) == STANDARD:
            raise typer.BadParameter("'-' (standard output) is not possible here; name a file")
        if any(_same(path, other) for other in given):
            raise typer.BadParameter(f"{str(path)!r} is given twice, and what it holds would be replaced; give the "
                                     "output a name of its own")
        given.append(path)
        if not path.parent.exists():
            raise InputError(f"cannot write {str(path)!r}: there is no folder {str(path.parent)!r}; make it first")
        check_writable(path)
    if to_file is not None:
        check_table_name(to_file)


def _same(first: Path, second: Path) -> bool:
    if first.exists() and second.exists():
        return first.samefile(second)
    return os.path.realpath(first) == os.path.realpath(second)


@contextmanager
def ledger_of_run(path: Path | None, budget: Budget, data_set: str) -> Iterator[LedgerFile | None]:
    """Yield the ledger file, made with a run's budget as the total if it is not there, which is said.

    If the run fails before anything is charged, a file that was made for it goes again: the next run, of another budget
    perhaps, would find its total fixed.
    """
    if path is None or path.exists():
        yield None if path is None else LedgerFile.open(path)
        return
    made = LedgerFile.create(path, budget, data_set=data_set)
    kept = True
    try:
        yield made
    except BaseException:
        kept = not made.removed_if_unused()
        raise
    finally:
        if kept:
            typer.echo(f"{path} was not there: made, with {budget} as the data set's total budget", err=True)


def write_sample(made: Synthesis, path: str | Path, rows: int | None, rng: np.random.Generator | None = None) -> None:
    """Write synthetic rows to a file, or to standard output for "-"."""
    from trigmech.table_file import write_table

    write_table(path, made.columns(rows, rng))


def table_against(made: Synthesis, data: str, schema: Path | None, given: dict[str, Any]) -> Any:
    """Return the private table with the release's columns, read as the options or the schema file say; private."""
    import pyarrow

    from trigmech import schema_file
    from trigmech.table_file import TableFile

    options = {} if schema is None else schema_file.load(schema).file
    return pyarrow.concat_tables(TableFile(data, **options | given).chunks(made.schema))


def show_errors(found: dict[str, dict[str, float]]) -> None:
    """Print what :func:`errors_of` returns."""
    # A column's name may hold what would be markup.
    console = Console(markup=False, emoji=False, highlight=False)
    for title, figures in found.items():
        table = Table(title)
        table.add_column(justify="right")
        for name, value in figures.items():
            table.add_row(name, f"{value:.4g}")
        console.print(table)


def errors_of(made: Synthesis, table: Any) -> dict[str, dict[str, float]]:
    """Return what a release gets wrong of a table, by kind and name; private."""
    from trigmech.evaluate import distribution_differences, evaluate, total_variations
    from trigmech.moment_mechanism import default_workload
    from trigmech.tables import like

    schema, layout = made.schema, made.schema.layout
    truth = schema.to_cube(table)
    names = [column.name for column in schema.columns for _ in column.coordinates]
    found: dict[str, dict[str, float]] = {}
    numbers = list(layout.numbers)
    # As a table would hold them: numbers rounded where their kind asks for it.
    decoded = like("pyarrow", schema.names, list(schema.decode(made.distribution.points).values()))
    rounded = Distribution(schema.to_cube(decoded), made.distribution.weights)
    if numbers:
        points = Distribution(made.distribution.points[:, numbers], made.distribution.weights)
        found["worst absolute error of queries about numbers"] = {
            label: float(worst) for family in default_workload(len(numbers)).members
            for label, worst in zip(family.labels, evaluate(cast(Workload, family), truth[:, numbers],
                                                            points).worst_absolute, strict=True)}
        differences = distribution_differences(truth, rounded)
        found["largest difference of distribution functions"] = {names[j]: float(differences[j]) for j in numbers}
    if layout.groups:
        single, _ = total_variations(layout, truth, rounded)
        groups = [names[group.coordinates[0]] for group in layout.groups]
        found["total variation of frequencies"] = dict(zip(groups, single.tolist(), strict=True))
    return found
