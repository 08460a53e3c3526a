"""What several commands take and print alike."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import trigmech as tm
from trigmech.errors import BudgetError, InputError

if TYPE_CHECKING:
    from trigmech.tables.parquet_files import ParquetFiles
    from trigmech.tables.reader import TableFile

Data = Annotated[str, typer.Argument(help="CSV or Parquet file (.gz, .zst, .bz2 too), or - for CSV on standard input.")]
TableData = Annotated[str, typer.Argument(help="CSV or Parquet file (.gz, .zst, .bz2 too), a pattern in quotes that "
                                              "stands for Parquet files, such as 'data/*.parquet', or - for CSV on "
                                              "standard input.")]
Saved = Annotated[Path, typer.Argument(help="A saved release, such as clinic.tm.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines instead.")]
Epsilon = Annotated[float, typer.Option(help="Privacy budget: epsilon, above 0.")]
Delta = Annotated[float, typer.Option(help="Privacy budget: delta, at least 0 and below 1, far below 1 / rows.")]

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


EngineName = Annotated[str | None, typer.Option(
    "--engine", metavar="NAME", show_default=False,
    help="Who measures Parquet files: processes of this machine (the default from 17 million rows on), dask or spark.")]
WorkerCount = Annotated[int | None, typer.Option(
    "--workers", min=1, show_default=False, help="How many processes; default: one for each core.")]
Scheduler = Annotated[str | None, typer.Option(
    "--scheduler", metavar="ADDRESS", show_default=False,
    help="Of a Dask scheduler or a Spark master; default: one of this machine, made for the run.")]


def engine_options(engine: str | None, workers: int | None, scheduler: str | None) -> dict[str, Any]:
    """Return who measures a table, as :func:`trigmech.synthesize` takes it, or raise an error of usage."""
    from trigmech.engines.choice import check_engine

    try:
        check_engine(engine, workers, scheduler)
    except InputError as error:
        raise typer.BadParameter(str(error)) from None
    return {"engine": engine, "workers": workers, "scheduler": scheduler}


def table_of(files: list[str], options: dict[str, Any], by_schema: dict[str, Any] | None = None
             ) -> TableFile | ParquetFiles:
    """Return the table in a file, or in those of a pattern (:func:`files_given`), which take no options."""
    from trigmech.tables.parquet_files import ParquetFiles
    from trigmech.tables.reader import TableFile

    if len(files) == 1:
        return TableFile(files[0], **(by_schema or {}) | options)
    if options:
        raise typer.BadParameter("how a CSV is written does not go with a pattern, which stands for Parquet files")
    return ParquetFiles(files)


def files_given(data: str) -> list[str]:
    """Return the path of a file, or those that a pattern fits."""
    from trigmech.tables.parquet_files import paths_of

    return paths_of(data) or [data]


def file_options(delimiter: str | None, decimal: str | None, encoding: str | None,
                 date_format: str | None) -> dict[str, Any]:
    """Return the options that were given, as :class:`trigmech.tables.reader.TableFile` takes them."""
    if delimiter in ("tab", r"\t"):
        delimiter = "\t"
    given = {"delimiter": delimiter, "decimal": decimal, "encoding": encoding, "date_format": date_format}
    return {option: value for option, value in given.items() if value is not None}


def tell(facts: dict[str, Any] | Callable[[], dict[str, Any]], text: object, as_json: bool, err: bool = False) -> None:
    """Print what a command found: for machines, or for people, on standard error if asked for."""
    if as_json:
        text = json.dumps(facts() if callable(facts) else facts)
    typer.echo(text, err=err)


def budget_of(epsilon: float, delta: float) -> tm.Budget:
    """Return a budget, or raise an error of usage."""
    try:
        return tm.Budget(epsilon, delta)
    except BudgetError as error:
        raise typer.BadParameter(str(error)) from None
