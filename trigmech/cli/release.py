"""The command that releases a table: it makes all refusals before the charge, then charges and writes."""

from __future__ import annotations

import shlex
import tempfile
import warnings
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import trigmech as tm
from trigmech.cli.files import (
    STANDARD,
    Sampled,
    again_from,
    check_outputs,
    file_of,
    keep_what_counts,
    ledger_of_run,
    lock_of,
    paid_for,
    told_when_ended,
    unwritten,
    write_sample,
)
from trigmech.cli.options import (
    Engine,
    Epsilon,
    Json,
    SchemaFile,
    Simulate,
    TableData,
    Target,
    Written,
    budget_of,
    files_given,
    for_target,
    grouped,
    tell,
    writable_rows,
)
from trigmech.cli.progress import progress_bar
from trigmech.errors import BudgetError, FitWarning, InputError, PaidError, TrigmechError
from trigmech.inspection.findings import FEWEST
from trigmech.privacy.budget import BOUNDS_SHARE
from trigmech.schema.schema import counted

if TYPE_CHECKING:
    from trigmech.tables.parquet_files import ParquetFiles
    from trigmech.tables.reader import TableFile

# The refusal of a table with too few rows names so many expected errors.
SHOWN = 6
# The exit status with --strict if the points miss the released values.
MISSED = 6


@dataclass(frozen=True, kw_only=True)
class Asked:
    """The arguments and options of a release."""

    data: TableData
    schema: SchemaFile
    epsilon: Epsilon
    out: Annotated[Path, typer.Option(help="Where the release is saved, such as clinic.tm.")]
    delta: Annotated[float | None, typer.Option(
        help="Privacy budget: delta, at least 0 and below 1, far below 1 / rows; default: 0.")] = None
    csv: Annotated[Path | None, typer.Option(
        help="Also write a synthetic table (.csv, .tsv, .csv.gz or .parquet), or - for standard output.")] = None
    rows: Annotated[int | None, typer.Option(
        min=1, callback=writable_rows,
        help="Rows of that table; default: as many as the data, or one for each person.")] = None
    ledger: Annotated[str | None, typer.Option(
        help="The data set's ledger: a file or postgresql://user@host/database?ledger=NAME. If it does not exist, it "
             "is made with this budget as its total.")] = None
    bounds_share: Annotated[float, typer.Option(
        help="Part of the budget for private bounds and categories.")] = BOUNDS_SHARE
    target: Target = None
    simulate: Simulate = None
    strict: Annotated[bool, typer.Option(
        "--strict", help="End with status 6 if the points do not match the released values; save the release anyway.")
    ] = False
    force: Annotated[bool, typer.Option(
        "--force", help="Replace the files that --out and --csv name if they exist, and release fewer than 20 rows or "
                        "persons.")] = False
    dry_run: Annotated[bool, typer.Option(
        "--dry-run", help="Print the expected noise in the columns' units; do not charge or write anything.")] = False

    @property
    def budget(self) -> tm.Budget:
        return budget_of(self.epsilon, self.delta or 0.0)

    @property
    def mechanism(self) -> tm.TableMechanism | None:
        """The mechanism for a target; None for the default."""
        return for_target(self.target)

    @property
    def rounds(self) -> Path | None:
        """Where drawn values are kept until the release is saved; a simulation can be made again."""
        return (None if self.ledger is None or self.simulate is not None
                else Path(f"{self.out}.rounds"))

    @property
    def advice(self) -> str:
        """How to count values that do not fit: the same words whatever the table holds, for they are public."""
        against = shlex.join(["trigmech", "check", self.data, "--schema", str(self.schema)])
        return ("infinite values and values outside the bounds count as the nearest bound, and a release never shows "
                f"whether the table has such values; `{against}` counts them, for you alone")

    def check(self, files: list[str], as_json: bool) -> None:
        """Raise an error if options contradict each other, or a file cannot be written or must not be replaced."""
        if self.rows is not None and self.csv is None:
            raise typer.BadParameter("--rows is the number of rows that --csv writes; give --csv too")
        if str(self.csv) == STANDARD and as_json:
            raise typer.BadParameter("--csv - and --json both write to standard output; give one of them a file")
        if not 0.0 < self.bounds_share < 1.0:
            raise typer.BadParameter(f"--bounds-share must be above 0 and below 1, not {self.bounds_share}")
        ledger = file_of(self.ledger), lock_of(self.ledger)
        check_outputs((*ledger, self.out, self.rounds), (*files, self.schema), table=self.csv, force=self.force)
        keep_what_counts(self.out, self.force)
        if self.out.exists() and not self.force:
            raise InputError(f"{str(self.out)!r} exists; name another file, or give --force to replace it")


@grouped
def release(asked: Asked, written: Written, measured_by: Engine, as_json: Json = False) -> None:
    """Release a table: save the release, and write a synthetic table if asked to.

    Example: `trigmech release data.csv --schema schema.toml --epsilon 1 --delta 1e-6 --out clinic.tm --rows 10000
    --csv synth.csv --ledger ledger.json`
    """
    from trigmech.measurement.private_categories import threshold_delta
    from trigmech.measurement.rows import persons_of
    from trigmech.report.advice import clipping_of, warnings_of
    from trigmech.schema import toml as schema_file

    budget, engine, files = asked.budget, measured_by.options, files_given(asked.data)
    asked.check(files, as_json)
    loaded = schema_file.load(asked.schema)
    if not as_json:
        typer.echo(f"trigmech: {asked.advice}", err=True)
    table = written.table(files, loaded.file)
    if asked.dry_run:
        return _tell_preview(asked, table, loaded.schema, as_json)
    if asked.rounds is not None and asked.rounds.exists():
        typer.echo(f"trigmech: continuing the interrupted run of {asked.rounds}; its charges are not charged again",
                   err=True)
    # Counting finds a file that cannot be read before a ledger file is made.
    n = persons_of(table, loaded.schema)
    said = warn(warnings_of(n, loaded.schema, budget, asked.delta is not None))
    if 2 <= n < FEWEST and not asked.force:
        raise InputError(too_few(n, loaded.schema, asked))
    reserve = threshold_delta(budget) if loaded.schema.private_categories else 0.0
    with ledger_of_run(asked.ledger, budget, reserve, asked.rounds) as book, progress_bar(quiet=as_json) as progress:
        with told_when_ended(None if asked.rounds is None else again_from(asked.rounds)):
            made = _synthesized(asked, table, loaded.schema, book, progress=progress, **engine)
            progress("saving", 0, 0)
            _save(made, asked, book)
        if asked.rounds is not None:
            asked.rounds.resolve().unlink(missing_ok=True)
        count = None if asked.csv is None else _write_table(made, asked.csv, asked)
    said += warn(clipping_of(made))
    said += warn([f"{sentence}. The release is saved, because its budget is spent" for sentence in made.warnings],
                 "WARNING")
    _tell(made, asked, count, said, as_json)
    if asked.strict and made.warnings:
        raise typer.Exit(MISSED)


def _synthesized(asked: Asked, table: TableFile | ParquetFiles, schema: tm.Schema, book: tm.LedgerFile | None,
                 **options: Any) -> tm.Synthesis:
    import numpy as np

    try:
        with warnings.catch_warnings():
            # Printed afterwards, in the words of a command.
            warnings.simplefilter("ignore", FitWarning)
            return tm.synthesize(table, schema, asked.budget, asked.mechanism, ledger=book,
                                 bounds_share=asked.bounds_share,
                                 rounds=asked.rounds,
                                 rng=None if asked.simulate is None else np.random.default_rng(asked.simulate),
                                 **options)
    except BudgetError as error:
        if book is None:
            raise
        raise BudgetError(f"{error}. Nothing was written") from None


def too_few(n: int, schema: tm.Schema, asked: Asked) -> str:
    """Return why a table of so few rows is not released, with the errors to expect; all of it is public."""
    expected = tm.preview(n, schema, asked.budget, mechanism=asked.mechanism, bounds_share=asked.bounds_share)
    errors = [f"{each.column!r}, {each}" for each in expected.columns]
    more = f"; and {len(errors) - SHOWN} more" if len(errors) > SHOWN else ""
    return (f"{n} {counted(schema)} are too few for a release: below {FEWEST} a release is mostly noise; expected "
            f"standard deviations of the noise: {'; '.join(errors[:SHOWN])}{more}. Nothing is charged. --force "
            "releases the table anyway")


def warn(warnings: list[str], mark: str = "warning") -> list[str]:
    """Print warnings on standard error, and return them."""
    for warning in warnings:
        typer.echo(f"trigmech: {mark}: {warning}", err=True)
    return warnings


def _tell_preview(asked: Asked, table: TableFile | ParquetFiles, schema: tm.Schema, as_json: bool) -> None:
    """Print what a release would be worth; it uses only the names of the table and the number of its rows."""
    from trigmech._validate import lacks
    from trigmech.measurement.rows import persons_of

    if table.options.get("header", True) and (rule := lacks(schema.names, table.names)):
        raise InputError(f"the table {rule}")
    ledger = asked.ledger
    there = ledger is not None and tm.LedgerFile.exists(ledger)
    expected = tm.preview(persons_of(table, schema), schema, asked.budget, mechanism=asked.mechanism,
                          bounds_share=asked.bounds_share, ledger=ledger if there else None,
                          delta_chosen=asked.delta is not None)
    warn(list(expected.warnings))
    made = "" if ledger is None or there else (
        f"\nledger {ledger} does not exist; a release would make it with {asked.budget} as the data set's total "
        "budget")
    tell({"dry_run": True, **expected.to_dict(), "advice": asked.advice}, f"{expected}{made}", as_json)


def _save(made: tm.Synthesis, asked: Asked, book: tm.LedgerFile | None) -> None:
    """Save a release where it was asked for, or else, because it is paid for, in the folder for temporary files.

    In the second case a PaidError says where it is, or that it is lost; the ledger records where it is, if it can
    still be written.
    """
    try:
        made.save(asked.out)
        return
    except (TrigmechError, OSError, MemoryError) as problem:
        reason = unwritten(problem, asked.out)
    try:
        beside = Path(tempfile.mkdtemp(prefix="trigmech-")) / "release.tm"
        try:
            made.save(beside)
        except BaseException:
            with suppress(OSError):
                beside.parent.rmdir()
            raise
    except (TrigmechError, OSError, MemoryError):
        also = f"{reason}; the release could also not be saved in the folder for temporary files"
        if asked.rounds is not None and asked.rounds.exists():
            raise PaidError(f"{also}. The drawn values are in {str(asked.rounds)!r}: run the same command again; "
                            "nothing is charged twice") from None
        raise PaidError(f"{also}, so it is lost, and its charges stay spent") from None
    if book is not None and made.ledger.run is not None:
        with suppress(TrigmechError, OSError, ValueError):
            book.note_kept(made.ledger.run, beside)
    raise PaidError(f"{reason}. The release, whose budget is spent, was saved as {str(beside)!r} instead: copy it to "
                    "a safe place")


def _write_table(made: tm.Synthesis, csv: Path, asked: Asked) -> Sampled:
    import numpy as np

    # A simulation can be repeated, with its rows; its noise comes from another stream of the seed.
    rng = None if asked.simulate is None else np.random.default_rng((asked.simulate, 1))
    saved = (f"The release itself is saved as {str(asked.out)!r}; `trigmech sample` makes a table from it at no "
             "further cost")
    with paid_for(csv, saved), told_when_ended(lambda: saved):
        return write_sample(made, csv, asked.rows, rng)


def _tell(made: tm.Synthesis, asked: Asked, count: Sampled | None, said: list[str], as_json: bool) -> None:
    ledger, csv, to_standard = made.ledger, asked.csv, str(asked.csv) == STANDARD
    facts = {"release": str(asked.out), "table": None if csv is None else str(csv), "n": made.release.n,
             "simulated": ledger.simulated, "ledger": ledger.to_dict(), "proved_epsilon": ledger.proved_epsilon,
             "delta": ledger.budget.delta, "warnings": said,
             "advice": asked.advice} | ({} if count is None else asdict(count))
    table = "" if count is None else f" and {'standard output' if to_standard else csv} ({count})"
    tell(facts, f"{ledger}\nwritten: {asked.out}{table}\nnext: trigmech report {asked.out}   (a page to read)   or   "
                f"trigmech sample {asked.out} --rows 1000", as_json, err=to_standard)
