"""The command that decides privately whether a release is near enough to its table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import trigmech as tm
from trigmech.cli.files import check_outputs, file_of, lock_of, paid_for
from trigmech.cli.options import (
    Delta,
    Epsilon,
    Json,
    Saved,
    Simulate,
    Written,
    budget_of,
    files_given,
    grouped,
    json_of,
    tell,
)
from trigmech.cli.progress import progress_bar
from trigmech.errors import InputError

# The exit status if a criterion is not met.
NOT_ACCEPTED = 7


@grouped
def accept(
    saved: Saved,
    criteria: Annotated[Path, typer.Option(help="A TOML file with a table [[criteria]] for each criterion.")],
    epsilon: Epsilon,
    written: Written,
    data: Annotated[str | None, typer.Option(help="The private table of the release: CSV, Parquet or a quoted pattern "
                                                  "of Parquet files.")] = None,
    delta: Delta = 0.0,
    ledger: Annotated[str | None, typer.Option(
        help="The data set's ledger, which must exist: a file or postgresql://user@host/database?ledger=NAME.")] = None,
    schema: Annotated[Path | None, typer.Option(help="A schema file that says how to read the table; the release "
                                                     "knows the columns.")] = None,
    out: Annotated[Path | None, typer.Option(help="Also write the verdicts to this file, as JSON.")] = None,
    simulate: Simulate = None,
    dry_run: Annotated[bool, typer.Option(
        "--dry-run", help="Print the size of the noise; do not read the table or charge the ledger.")] = False,
    as_json: Json = False,
) -> None:
    """Decide privately whether a release is close enough to its table; you may publish the verdicts.

    The test costs budget, in addition to the release. The exit status is 7 if a criterion is not met.

    Example: `trigmech accept clinic.tm --data data.csv --criteria criteria.toml --epsilon 0.1 --ledger ledger.json`
    """
    import numpy as np

    from trigmech._files import write_whole
    from trigmech.acceptance.decision import plan_acceptance
    from trigmech.schema import toml as schema_file

    budget = budget_of(epsilon, delta)
    if data is None and not dry_run:
        raise typer.BadParameter("give the private table with --data, or --dry-run to see the noise alone")
    files = [] if data is None else files_given(data)
    check_outputs((file_of(ledger), lock_of(ledger), out), (saved, criteria, schema, *files))
    if out is not None and out.exists() and out.stat().st_size and not dry_run:
        raise InputError(f"{str(out)!r} exists; name another file")
    made = tm.load(saved)
    if dry_run or data is None:
        planned = plan_acceptance(made, criteria, budget)
        tell({"dry_run": True, **planned.to_dict()}, planned, as_json)
        return
    table = written.table(files, {} if schema is None else schema_file.load(schema).file)
    with progress_bar(quiet=as_json) as progress:
        found = tm.accept(made, table, criteria, budget, None if simulate is None else np.random.default_rng(simulate),
                          ledger=ledger, progress=progress)
    facts = {"release": str(saved), **found.to_dict()}
    try:
        if out is not None:
            with paid_for(out, "The verdicts are printed above, and the budget of the test is spent"):
                write_whole(out, (json_of(facts, indent=1) + "\n").encode())
    finally:
        # Also if the file cannot be written; and if nobody reads what is printed, the file has the verdicts.
        tell(facts, found, as_json)
    raise typer.Exit(0 if found.accepted else NOT_ACCEPTED)
