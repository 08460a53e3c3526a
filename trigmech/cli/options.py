"""Options and outputs that several commands share."""

from __future__ import annotations

import functools
import inspect
import json
import math
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import MISSING, asdict, dataclass, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

import trigmech as tm
from trigmech.errors import BudgetError, InputError

if TYPE_CHECKING:
    from trigmech.tables.parquet_files import ParquetFiles
    from trigmech.tables.reader import TableFile

# The largest synthetic table: more rows than any disk holds.
MOST_ROWS = 10**12
Data = Annotated[str, typer.Argument(help="CSV or Parquet file (also .gz, .zst, .bz2), or - for CSV on standard "
                                          "input.")]
TableData = Annotated[str, typer.Argument(help="CSV or Parquet file (also .gz, .zst, .bz2), a quoted pattern of "
                                               "Parquet files such as 'data/*.parquet', or - for CSV on standard "
                                               "input.")]
Saved = Annotated[Path, typer.Argument(help="A saved release, such as clinic.tm.")]
SchemaFile = Annotated[Path, typer.Option(help="The schema (TOML); see 'trigmech schema init'.")]
Simulate = Annotated[int | None, typer.Option(
    min=0, metavar="SEED", help="A repeatable simulation. It is NOT private.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
Epsilon = Annotated[float, typer.Option(help="Privacy budget: epsilon, above 0.")]
Target = Annotated[str | None, typer.Option(
    metavar="COLUMN", help="A column that models will predict from the others. They predict it better, but everything "
                           "else becomes less accurate.")]
Delta = Annotated[float, typer.Option(help="Privacy budget: delta, at least 0 and below 1, far below 1 / rows.")]


@dataclass(frozen=True, kw_only=True)
class Written:
    """How a CSV file is written; options of every command that reads one."""

    delimiter: Annotated[str | None, typer.Option(
        help="The character between the cells of a CSV, such as ';', or 'tab'. Default: the schema file's, or a comma "
             "(a tab for .tsv).", show_default=False)] = None
    decimal: Annotated[str | None, typer.Option(help="The decimal sign of a CSV's numbers: . or ,",
                                                show_default=False)] = None
    encoding: Annotated[str | None, typer.Option(
        help="The encoding of a CSV's text, such as cp1252 or utf-16. Default: the schema file's, or utf-8.",
        show_default=False)] = None
    date_format: Annotated[str | None, typer.Option(
        help="How a CSV writes dates, such as %d.%m.%Y (Python's strptime). Default: the schema file's, or ISO form.",
        show_default=False)] = None

    @property
    def options(self) -> dict[str, Any]:
        """The options that were given, as :class:`trigmech.tables.reader.TableFile` takes them."""
        given = {option: value for option, value in asdict(self).items() if value is not None}
        return given | ({"delimiter": "\t"} if self.delimiter in ("tab", r"\t") else {})

    def table(self, files: list[str], by_schema: dict[str, Any] | None = None) -> TableFile | ParquetFiles:
        """Return the table in a file, or in the files of a pattern (:func:`files_given`), which take no options."""
        from trigmech.tables.parquet_files import ParquetFiles
        from trigmech.tables.reader import TableFile

        if len(files) == 1:
            return TableFile(files[0], **(by_schema or {}) | self.options)
        if self.options:
            raise typer.BadParameter("options for CSV do not apply to a pattern, which names Parquet files")
        return ParquetFiles(files)


@dataclass(frozen=True, kw_only=True)
class Engine:
    """The engine that measures a table of Parquet files."""

    engine: Annotated[str | None, typer.Option(metavar="NAME", show_default=False, help=(
        "The engine that measures Parquet files: processes on this machine (the default from 17 million rows on), dask "
        "or spark."))] = None
    workers: Annotated[int | None, typer.Option(
        min=1, show_default=False, help="The number of processes; default: one for each core.")] = None
    scheduler: Annotated[str | None, typer.Option(metavar="ADDRESS", show_default=False, help=(
        "Address of a Dask scheduler or a Spark master; default: one on this machine, made for the run."))] = None

    @property
    def options(self) -> dict[str, Any]:
        """The options as :func:`trigmech.synthesize` takes them; raises an error of usage if they do not fit."""
        from trigmech.engines.choice import check_engine

        given = asdict(self)
        try:
            check_engine(**given)
        except InputError as error:
            raise typer.BadParameter(str(error)) from None
        return given


def grouped(command: Callable[..., Any]) -> Callable[..., Any]:
    """Return a command that has, in place of each parameter of a dataclass, an option for each of its fields."""
    groups: dict[str, Any] = {}
    parameters: list[inspect.Parameter] = []
    hints = get_type_hints(command, include_extras=True)
    for each in inspect.signature(command).parameters.values():
        kind = hints[each.name]
        if is_dataclass(kind):
            groups[each.name] = kind
            own = get_type_hints(kind, include_extras=True)
            parameters += [inspect.Parameter(option.name, each.KEYWORD_ONLY, annotation=own[option.name], default=(
                each.empty if option.default is MISSING else option.default)) for option in fields(kind)]
        else:
            parameters.append(each.replace(kind=each.KEYWORD_ONLY, annotation=kind))

    @functools.wraps(command)
    def run(**given: Any) -> Any:
        made = {name: kind(**{option.name: given.pop(option.name) for option in fields(kind)})
                for name, kind in groups.items()}
        return command(**given, **made)

    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    return run


def files_given(data: str) -> list[str]:
    from trigmech.tables.parquet_files import paths_of

    return paths_of(data) or [data]


def json_of(facts: Any, indent: int | None = None) -> str:
    """Return facts as JSON, which has no infinite numbers: these, and numbers that are not there, are null."""
    def finite(part: Any) -> Any:
        if isinstance(part, Mapping):
            return {name: finite(each) for name, each in part.items()}
        if isinstance(part, list | tuple):
            return [finite(each) for each in part]
        return None if isinstance(part, float) and not math.isfinite(part) else part

    return json.dumps(finite(facts), allow_nan=False, indent=indent)


def tell(facts: dict[str, Any] | Callable[[], dict[str, Any]], text: object, as_json: bool, err: bool = False) -> None:
    """Print what a command found: JSON, or text, on standard error if asked for."""
    if as_json:
        text = json_of(facts() if callable(facts) else facts)
    try:
        typer.echo(text, err=err)
    except BrokenPipeError:
        # Nobody reads any more: the command goes on to its own status, and what is buffered goes nowhere.
        with suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), (sys.stderr if err else sys.stdout).fileno())


def for_target(target: str | None) -> tm.TableMechanism | None:
    """Return the mechanism for a target column; None, which is the default, without one."""
    return None if target is None else tm.TableMechanism(target=target)


def writable_rows(rows: int | None) -> int | None:
    """Return the number of rows, or raise an error of usage if no disk holds so many."""
    if rows is not None and rows > MOST_ROWS:
        raise typer.BadParameter(f"it must be at most {MOST_ROWS}, not {rows}")
    return rows


def budget_of(epsilon: float, delta: float) -> tm.Budget:
    """Return a budget, or raise an error of usage."""
    try:
        return tm.Budget(epsilon, delta)
    except BudgetError as error:
        raise typer.BadParameter(str(error)) from None
