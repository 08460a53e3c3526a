"""The command that releases a table: all that can be refused first, then the charge, then what it bought."""

from __future__ import annotations

import os
import shlex
import tempfile
import warnings
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import trigmech as tm
from trigmech.cli.files import (
    STANDARD,
    Sampled,
    check_outputs,
    file_of,
    keep_what_counts,
    ledger_of_run,
    write_sample,
)
from trigmech.cli.options import (
    DateFormat,
    Decimal,
    Delimiter,
    Encoding,
    EngineName,
    Epsilon,
    Json,
    Scheduler,
    TableData,
    WorkerCount,
    budget_of,
    engine_options,
    file_options,
    files_given,
    table_of,
    tell,
)
from trigmech.cli.progress import progress_bar
from trigmech.errors import BudgetError, FitWarning, InputError, TrigmechError
from trigmech.privacy.budget import BOUNDS_SHARE

if TYPE_CHECKING:
    from trigmech.tables.parquet_files import ParquetFiles
    from trigmech.tables.reader import TableFile

# With fewer rows, or persons, a release is refused unless it is forced.
FEWEST = 20
# So many expected errors are named then.
SHOWN = 6
# The exit status of a release whose points miss what was released, if one is asked for.
MISSED = 6


def release(
    data: TableData,
    schema: Annotated[Path, typer.Option(help="The schema (TOML); see 'trigmech schema init'.")],
    epsilon: Epsilon,
    out: Annotated[Path, typer.Option(help="Where the release is saved, such as clinic.tm.")],
    delta: Annotated[float | None, typer.Option(
        help="Privacy budget: delta, at least 0 and below 1, far below 1 / rows; default: 0.")] = None,
    csv: Annotated[Path | None, typer.Option(
        help="Also write a synthetic table (.csv, .tsv, .csv.gz or .parquet), or - for standard output.")] = None,
    rows: Annotated[int | None, typer.Option(min=1, help="Rows of that table; default: as many as the data, "
                                                           "or one for each person.")] = None,
    ledger: Annotated[str | None, typer.Option(
        help="The data set's ledger, a file or postgresql://user@host/database?ledger=NAME; made with this budget as "
             "its total if it is not there.")] = None,
    delimiter: Delimiter = None,
    decimal: Decimal = None,
    encoding: Encoding = None,
    date_format: DateFormat = None,
    engine: EngineName = None,
    workers: WorkerCount = None,
    scheduler: Scheduler = None,
    bounds_share: Annotated[float, typer.Option(
        help="Part of the budget for private bounds and categories.")] = BOUNDS_SHARE,
    simulate: Annotated[int | None, typer.Option(
        min=0, metavar="SEED", help="A repeatable simulation. It is NOT private.")] = None,
    strict: Annotated[bool, typer.Option(
        "--strict", help="End with status 6 if the points miss what was released; it is saved all the same.")] = False,
    force: Annotated[bool, typer.Option(
        "--force", help="Replace the files that --out and --csv name, if they are there; and release fewer than 20 "
                        "rows or persons.")] = False,
    dry_run: Annotated[bool, typer.Option(
        "--dry-run", help="Say what the budget will buy, in the columns' units; charge and write nothing.")] = False,
    as_json: Json = False,
) -> None:
    """Release a table: save the release, and write a synthetic table if asked to.

    Example: `trigmech release data.csv --schema schema.toml --epsilon 1 --delta 1e-6 --out clinic.tm --rows 10000
    --csv synth.csv --ledger ledger.json`
    """
    import numpy as np

    from trigmech.measurement.private_categories import threshold_delta
    from trigmech.measurement.rows import persons_of
    from trigmech.report.advice import clipping_of, warnings_of
    from trigmech.schema import toml as schema_file

    budget = budget_of(epsilon, delta or 0.0)
    _check_usage(csv, rows, bounds_share, as_json)
    measured_by = engine_options(engine, workers, scheduler)
    # What is drawn is kept here until the release is saved; a simulation can be made again.
    rounds = None if ledger is None or simulate is not None else out.with_name(f"{out.name}.rounds")
    files = files_given(data)
    _check_files(files, schema, out, csv, ledger, force, rounds)
    loaded = schema_file.load(schema)
    advice = advice_to_check(schema, data)
    if not as_json:
        typer.echo(f"trigmech: {advice}", err=True)
    table = table_of(files, file_options(delimiter, decimal, encoding, date_format), loaded.file)
    if dry_run:
        return _tell_preview(table, loaded.schema, budget, bounds_share, ledger, delta is not None, advice, as_json)
    # Counting finds what cannot be read before a ledger file is made.
    if rounds is not None and rounds.exists():
        typer.echo(f"trigmech: going on with the run of {rounds}, which was broken off; what it was charged for is not "
                   "charged again", err=True)
    n = persons_of(table, loaded.schema)
    said = warn(warnings_of(n, loaded.schema, budget, delta is not None))
    if 2 <= n < FEWEST and not force:
        raise InputError(too_few(n, loaded.schema, budget, bounds_share))
    reserve = threshold_delta(budget) if loaded.schema.private_categories else 0.0
    with ledger_of_run(ledger, budget, reserve) as book, progress_bar(quiet=as_json) as progress, \
            warnings.catch_warnings():
        # Printed below, in the words of a command.
        warnings.simplefilter("ignore", FitWarning)
        try:
            made = tm.synthesize(table, loaded.schema, budget, ledger=book, bounds_share=bounds_share, rounds=rounds,
                                 rng=None if simulate is None else np.random.default_rng(simulate),
                                 progress=progress, **measured_by)
        except BudgetError as error:
            if book is None:
                raise
            raise BudgetError(f"{error}. Nothing was written") from None
        except KeyboardInterrupt:
            if rounds is not None and rounds.exists():
                typer.echo(f"trigmech: the same command goes on by {rounds}, and nothing is charged twice", err=True)
            raise
        progress("saving", 0, 0)
        _save(made, out, book)
        if rounds is not None:
            rounds.resolve().unlink(missing_ok=True)
        count = None if csv is None else _write_table(made, csv, rows, out)
    said += warn(clipping_of(made))
    said += warn([f"{sentence}. It is saved, for it is paid for" for sentence in made.warnings], "WARNING")
    _tell(made, out, csv, count, said, advice, as_json)
    if strict and made.warnings:
        raise typer.Exit(MISSED)


def advice_to_check(schema: Path, data: str) -> str:
    """Return how values that do not fit are counted: the same words whatever the table holds, for they are public."""
    against = shlex.join(["trigmech", "schema", "check", str(schema), "--against", data])
    return ("values that are infinite or outside the bounds count as the nearest bound, and a release never says "
            f"whether there are any; `{against}` counts them, for you alone")


def too_few(n: int, schema: tm.Schema, budget: tm.Budget, bounds_share: float) -> str:
    """Return why a table of so few rows is not released, with the errors to expect; all of it is public."""
    whose = "rows" if schema.person is None else "persons"
    errors = [f"{each.column!r}, {each}" for each in tm.preview(n, schema, budget, bounds_share=bounds_share).columns]
    more = f"; and {len(errors) - SHOWN} more" if len(errors) > SHOWN else ""
    return (f"{n} {whose} are too few for a release: below {FEWEST} most of it is noise, of which the standard "
            f"deviation is expected to be: {'; '.join(errors[:SHOWN])}{more}. Nothing is charged. --force releases it "
            "all the same")


def _check_usage(csv: Path | None, rows: int | None, bounds_share: float, as_json: bool) -> None:
    if rows is not None and csv is None:
        raise typer.BadParameter("--rows is of the table that --csv writes; give --csv as well")
    if str(csv) == STANDARD and as_json:
        raise typer.BadParameter("--csv - and --json both write to standard output; give one of them a file")
    if not 0.0 < bounds_share < 1.0:
        raise typer.BadParameter(f"--bounds-share must be above 0 and below 1, not {bounds_share}")


def _check_files(data: list[str], schema: Path, out: Path, csv: Path | None, ledger: str | None, force: bool,
                 rounds: Path | None) -> None:
    # Who takes the lock empties the file that it is.
    file = file_of(ledger)
    lock = None if file is None else Path(f"{os.path.realpath(file)}.lock")
    check_outputs((file, lock, out, rounds), (*data, schema), table=csv, force=force)
    keep_what_counts(out, force)
    if out.exists() and not force:
        raise InputError(f"{str(out)!r} exists; name another file, or give --force to replace it")


def warn(warnings: list[str], mark: str = "warning") -> list[str]:
    """Print warnings on standard error, and return them."""
    for warning in warnings:
        typer.echo(f"trigmech: {mark}: {warning}", err=True)
    return warnings


def _tell_preview(table: TableFile | ParquetFiles, schema: tm.Schema, budget: tm.Budget, bounds_share: float,
                  ledger: str | None, delta_chosen: bool, advice: str, as_json: bool) -> None:
    """Print what a release would be worth; of the table only its names and the number of its rows are used."""
    from trigmech.measurement.rows import persons_of

    absent = [name for name in schema.names if name not in table.names]
    if absent and table.options.get("header", True):
        raise InputError(f"the table lacks the column(s) {', '.join(map(repr, absent))} that the schema names")
    there = ledger is not None and tm.LedgerFile.exists(ledger)
    expected = tm.preview(persons_of(table, schema), schema, budget, bounds_share=bounds_share,
                          ledger=ledger if there else None, delta_chosen=delta_chosen)
    warn(list(expected.warnings))
    made = "" if ledger is None or there else (
        f"\nledger {ledger}: it is not there, and would be made with {budget} as the data set's total budget")
    tell({"dry_run": True, **expected.to_dict(), "advice": advice}, f"{expected}{made}", as_json)


def _save(made: tm.Synthesis, out: Path, book: tm.LedgerFile | None) -> None:
    """Save a release: where it was asked for, or else, as it is paid for, in the folder for temporary files.

    If it is not where it was asked for, an InputError names where it is, or states that it is lost; and the ledger
    names where it is, if it can still be written.
    """
    try:
        made.save(out)
        return
    except (TrigmechError, OSError, MemoryError) as problem:
        reason = _reason(problem, out)
    try:
        beside = Path(tempfile.mkdtemp(prefix="trigmech-")) / "release.tm"
        made.save(beside)
    except (TrigmechError, OSError, MemoryError):
        raise InputError(f"{reason}; nor could the release be saved in the folder for temporary files, so it is lost, "
                         "and what was charged stays spent") from None
    if book is not None and made.ledger.run is not None:
        with suppress(TrigmechError, OSError, ValueError):
            book.note_kept(made.ledger.run, beside)
    raise InputError(f"{reason}. The release, which is paid for, was saved as {str(beside)!r} instead: copy it to "
                     "where it is to stay")


def _write_table(made: tm.Synthesis, csv: Path, rows: int | None, out: Path) -> Sampled:
    try:
        return write_sample(made, csv, rows)
    except BrokenPipeError:
        raise
    except (TrigmechError, OSError, MemoryError) as problem:
        raise InputError(f"{_reason(problem, csv)}. The release itself is saved as {str(out)!r}, and `trigmech sample` "
                         "makes a table of it at no further cost") from None


def _reason(problem: BaseException, path: Path) -> str:
    if isinstance(problem, TrigmechError):
        return str(problem)
    # The system's words for a number quote nothing.
    why = (os.strerror(problem.errno) if isinstance(problem, OSError) and problem.errno
           else "not enough memory" if isinstance(problem, MemoryError) else "the system failed")
    return f"cannot write {str(path)!r}: {why}"


def _tell(made: tm.Synthesis, out: Path, csv: Path | None, count: Sampled | None, said: list[str],
          advice: str, as_json: bool) -> None:
    ledger, to_standard = made.ledger, str(csv) == STANDARD
    facts = {"release": str(out), "table": None if csv is None else str(csv), "n": made.release.n,
             "simulated": ledger.simulated, "ledger": ledger.to_dict(), "proved_epsilon": ledger.proved_epsilon,
             "delta": ledger.budget.delta, "warnings": said,
             "advice": advice} | ({} if count is None else asdict(count))
    table = "" if count is None else f" and {'standard output' if to_standard else csv} ({count})"
    written = f"written: {out}{table}"
    tell(facts, f"{ledger}\n{written}\nnext: trigmech report {out}   (a page to read)   or   trigmech sample {out} "
                "--rows 1000", as_json, err=to_standard)
