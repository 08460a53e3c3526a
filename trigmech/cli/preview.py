"""What the command line says before a budget is spent, and of what came of it: previews and warnings."""

import json
from pathlib import Path

import typer

from trigmech.errors import InputError
from trigmech.privacy.budget import Budget
from trigmech.report.preview import preview
from trigmech.schema.schema import Schema
from trigmech.tables.reader import TableFile


def warn(warnings: list[str], mark: str = "warning") -> list[str]:
    """Print warnings on standard error, and return them."""
    for warning in warnings:
        typer.echo(f"trigmech: {mark}: {warning}", err=True)
    return warnings


def tell_preview(table: TableFile, schema: Schema, budget: Budget, *, bounds_share: float, ledger: Path | None,
                 delta_chosen: bool, as_json: bool) -> None:
    """Print what a release would be worth; of the table only its names and the number of its rows are used.

    Raises
    ------
    InputError
        If the table lacks a column of the schema, has fewer than 2 rows, or the ledger file cannot be read.
    BudgetError
        If the budget is too small to plan with.
    """
    absent = [name for name in schema.names if name not in table.names]
    if absent and table.options.get("header", True):
        raise InputError(f"the table lacks the column(s) {', '.join(map(repr, absent))} that the schema names")
    there = ledger is not None and ledger.exists()
    expected = preview(table.n, schema, budget, bounds_share=bounds_share, ledger=ledger if there else None,
                       delta_chosen=delta_chosen)
    warn(list(expected.warnings))
    if as_json:
        typer.echo(json.dumps({"dry_run": True, **expected.to_dict()}))
        return
    typer.echo(expected)
    if ledger is not None and not there:
        typer.echo(f"ledger file {ledger}: it is not there, and would be made with {budget} as the data set's total "
                   "budget")
