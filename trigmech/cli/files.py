"""Files of the command line: checked before budget is spent, and written."""

from __future__ import annotations

import os
import re
import sys
import zipfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

import trigmech as tm
from trigmech._files import check_writable, writing
from trigmech.cli.options import Written
from trigmech.errors import InputError, PaidError, TrigmechError
from trigmech.privacy.ledger_server import Server, is_address

if TYPE_CHECKING:
    from numpy.random import Generator

    from trigmech.tables.reader import TableFile

STANDARD = "-"
RELEASE = ".tm"
# A ZIP archive whose first member is the manifest.
RELEASE_START = re.compile(rb"PK\x03\x04.{26}manifest\.json", re.DOTALL)


def check_outputs(outputs: Iterable[Path | None], inputs: Iterable[str | Path | None] = (), *,
                  table: str | Path | None = None, force: bool = False) -> None:
    """Raise an error if a file cannot be written, or would replace an input or another output.

    Call it before anything is charged: an output that cannot be written is lost with its cost. ``table`` is the output
    for a synthetic table, which may be "-". Usage errors (a file given twice, an output "-") are typer.BadParameter,
    others InputError: a table must not replace a paid or hand-written file or, unless ``force`` is True, any other
    file.
    """
    to_file = None if table is None or str(table) == STANDARD else Path(table)
    if to_file is None and table is not None and sys.stdout is None:
        raise InputError("standard output is closed, so no table can be written to it; name a file")
    given = [Path(path) for path in inputs if path is not None and str(path) != STANDARD]
    for path in (*outputs, to_file):
        if path is None:
            continue
        if str(path) == STANDARD:
            raise typer.BadParameter("'-' (standard output) is not possible here; name a file")
        with writing(path):
            if any(_same(path, other) for other in given):
                raise typer.BadParameter(f"{str(path)!r} is given twice and would be overwritten; give the output "
                                         "another name")
            if not path.parent.exists():
                raise InputError(f"cannot write {str(path)!r}: there is no folder {str(path.parent)!r}; make it first")
        given.append(path)
        check_writable(path)
    if to_file is not None:
        from trigmech.tables.writer import check_table_name

        keep_what_counts(to_file)
        check_table_name(to_file)
        if to_file.is_file() and to_file.stat().st_size and not force:
            raise InputError(f"{str(to_file)!r} exists; name another file, or give --force to replace it")


def keep_others(path: Path, what: str, read: Callable[[Path], Any]) -> None:
    """Raise an InputError if writing a file would replace one that `read` cannot read, so that it is something else."""
    if path.exists() and path.stat().st_size:
        try:
            read(path)
        except InputError:
            raise InputError(f"{str(path)!r} exists and is not a {what}; name another file") from None


def keep_what_counts(path: Path, force: bool = False) -> None:
    """Raise an InputError if writing would replace a ledger, a schema or, unless ``force`` is True, a release."""
    with writing(path):
        if not path.is_file() or path.stat().st_size == 0:
            return
    with path.open("rb") as file:
        start = file.read(128)
    if start.startswith(b"{") and b'"trigmech ledger' in start:
        raise InputError(f"{str(path)!r} is a ledger file, the record of spent budget; name another file")
    if path.suffix.lower() == ".toml":
        raise InputError(f"{str(path)!r} may be a schema file, with bounds that somebody wrote; name another file")
    if (path.suffix.lower() == RELEASE or RELEASE_START.match(start)) and not force:
        raise InputError(f"{str(path)!r} is a release whose budget is spent: `trigmech sample` makes a table from it "
                         "at no further cost. For a new release, which is charged again, name another file, or let "
                         "`trigmech release --force` replace it")


def _same(first: Path, second: Path) -> bool:
    if first.exists() and second.exists():
        return first.samefile(second)
    return os.path.realpath(first) == os.path.realpath(second)


def file_of(ledger: str | None) -> Path | None:
    """Return the path of a ledger file; None if the ledger is on a server, or there is no ledger."""
    return None if ledger is None or is_address(ledger) else Path(ledger)


def lock_of(ledger: str | None) -> Path | None:
    """Return the path of a ledger file's lock, which taking it may empty; None without a file."""
    file = file_of(ledger)
    return None if file is None else Path(f"{os.path.realpath(file)}.lock")


def name_of(ledger: str) -> str:
    """Return the default name of a data set: that of its ledger."""
    file = file_of(ledger)
    return Server(ledger, 0.0).ledger if file is None else file.stem


def again_from(rounds: Path) -> Callable[[], str | None]:
    """Return a function that says how an ended run goes on, if it began its rounds file."""
    return lambda: (f"run the same command again to continue from {rounds}; nothing is charged twice"
                    if rounds.exists() else None)


@contextmanager
def told_when_ended(what: Callable[[], str | None] | None) -> Iterator[None]:
    """If the user or a signal ends the run, say what to do then."""
    try:
        yield
    except (KeyboardInterrupt, SystemExit):
        said = None if what is None else what()
        if said is not None:
            with suppress(OSError):  # The terminal may be gone.
                typer.echo(f"trigmech: {said}", err=True)
        raise


@contextmanager
def ledger_of_run(path: str | None, budget: tm.Budget, reserve_delta: float,
                  rounds: Path | None) -> Iterator[tm.LedgerFile | None]:
    """Yield the ledger; if it does not exist, it is made with a run's budget and reserve as its total, which is
    printed.

    If the run fails before anything is charged, a new ledger is removed, so that the next run can choose another total;
    but not if the run began its rounds file, which is for this ledger alone.
    """
    if path is None or tm.LedgerFile.exists(path):
        yield None if path is None else tm.LedgerFile.open(path)
        return
    before = rounds is not None and rounds.exists()
    try:
        made = tm.LedgerFile.create(path, budget, data_set=name_of(path), reserve_delta=reserve_delta)
    except InputError:
        if not tm.LedgerFile.exists(path):
            raise
        # Another process has made it meanwhile.
        made = None
    if made is None:
        yield tm.LedgerFile.open(path)
        return
    kept = True
    try:
        yield made
    except BaseException:
        begun = rounds is not None and rounds.exists() and not before
        with suppress(TrigmechError):
            kept = begun or not made.removed_if_unused()
        raise
    finally:
        if kept:
            typer.echo(f"the ledger {path} did not exist; it was made with {budget} as the data set's total budget. If "
                       "the data set has a ledger of another name, add this charge there: `trigmech ledger add`",
                       err=True)


@contextmanager
def paid_for(path: Path, kept: str) -> Iterator[None]:
    """Write an output after the charge: if this fails, raise a PaidError, which says what is ``kept``."""
    try:
        yield
    except BrokenPipeError:
        raise
    except (TrigmechError, OSError, MemoryError) as problem:
        raise PaidError(f"{unwritten(problem, path)}. {kept}") from None


def unwritten(problem: BaseException, path: Path) -> str:
    """Return why a file was not written."""
    if isinstance(problem, TrigmechError):
        return str(problem)
    # The system's words for a number quote nothing.
    why = (os.strerror(problem.errno) if isinstance(problem, OSError) and problem.errno
           else "not enough memory" if isinstance(problem, MemoryError) else "the system failed")
    return f"cannot write {str(path)!r}: {why}"


def table_against(made: tm.Synthesis, data: str, schema: Path | None, written: Written) -> Any:
    """Return the private table with the release's columns, read as the options or the schema file say; private."""
    import pyarrow

    from trigmech.schema import toml as schema_file
    from trigmech.tables.reader import TableFile

    options = {} if schema is None else schema_file.load(schema).file
    try:
        return pyarrow.concat_tables(TableFile(data, **options | written.options).chunks(made.schema))
    except InputError as problem:
        path = Path(data)
        # How a table is written does not explain a file that is absent, empty or of another kind.
        if schema is not None or not path.is_file() or not path.stat().st_size or zipfile.is_zipfile(path):
            raise
        raise InputError(f"{problem}. If a schema file says how the table is written, give --schema schema.toml") from (
            None)


def table_to_describe(data: str, header: bool, written: Written) -> TableFile:
    """Return the table for a new schema; if columns have the same name, an InputError says which."""
    from trigmech.tables.lenient import LenientFile
    from trigmech.tables.reader import TableFile

    try:
        return TableFile(data, header=header, **written.options)
    except InputError as problem:
        file = LenientFile(data, header=header, **written.options)
        with suppress(InputError):
            file.begin()
        twice = [str(at) for at, name in enumerate(file.names or (), 1) if file.names.count(name) > 1]
        raise InputError(f"{problem}: columns {', '.join(twice)}; rename or remove some of them" if twice else
                         str(problem)) from None


@dataclass(frozen=True)
class Sampled:
    """How many synthetic rows were written, how many of them differ, and how many were fitted to the release.

    The second is None for samples that are too large for this count; the third is None for rows with given columns or
    shares, which may have been fitted for the sample.
    """

    rows: int
    different: int | None
    fitted: int | None

    def __str__(self) -> str:
        different = "" if self.different is None else f", {self.different:,} of them different"
        fitted = "" if self.fitted is None else f"; {self.fitted:,} rows were fitted"
        return f"{self.rows:,} rows{different}{fitted}"


def write_sample(made: tm.Synthesis, path: str | Path, rows: int | None, rng: Generator | None = None, *,
                 progress: Callable[[str, int, int], None] | None = None, **asked: Any) -> Sampled:
    """Write synthetic rows to a file, or to standard output for "-"; ``asked`` are given columns and shares.

    Person numbers, which are made up for a sample, do not make its rows different. Memory does not grow with the rows,
    but for 8 bytes each while they are counted.
    """
    from trigmech.tables.different import DifferentRows
    from trigmech.tables.reader import write_table

    counted, total = DifferentRows(), made.rows if rows is None else rows

    def pieces() -> Iterator[dict[str, Any]]:
        for piece in made.batches(rows, rng, **asked):
            counted.add([piece[name] for name in made.schema.names])
            yield piece
            if progress is not None:
                progress("writing rows", counted.rows, max(total, counted.rows))

    write_table(path, pieces())
    fitted = None if asked.get("given") or asked.get("shares") else len(made.distribution.points)
    return Sampled(counted.rows, counted.different, fitted)
