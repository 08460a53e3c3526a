"""What several commands take and print alike."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from trigmech.errors import BudgetError
from trigmech.privacy.budget import Budget

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


def budget_of(epsilon: float, delta: float) -> Budget:
    """Return a budget, or raise an error of usage."""
    try:
        return Budget(epsilon, delta)
    except BudgetError as error:
        raise typer.BadParameter(str(error)) from None
