"""The files that the command line is given: looked at before budget is spent, and read and written."""

import os
import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import typer

from trigmech.budget import Budget
from trigmech.distribution import Distribution
from trigmech.errors import InputError
from trigmech.ledger_file import LedgerFile
from trigmech.moment_mechanism import default_workload
from trigmech.outputs import check_writable
from trigmech.synthesis import Synthesis
from trigmech.workload import GaussianKernels, PairKernels, Workload

STANDARD = "-"
# Of the queries of an evaluation: the fewest of a family, how many numbers their evaluation may pass, and how many such
# steps the exponentials of one kernel are worth.
FEWEST_QUERIES, QUERY_WORK, EXPONENTIALS = 50, 1e10, 30
RELEASE = ".tm"
# A ZIP archive whose first member is the manifest.
RELEASE_START = re.compile(rb"PK\x03\x04.{26}manifest\.json", re.DOTALL)


def check_outputs(outputs: Iterable[Path | None], inputs: Iterable[str | Path | None] = ()) -> None:
    """Raise an error if a file cannot be written, or would replace an input or another output.

    To be called before anything is charged: what cannot be written is lost with what it cost.

    Raises
    ------
    typer.BadParameter
        If a file is given twice, or an output is "-".
    InputError
        If it cannot be written.
    """
    given = [Path(path) for path in inputs if path is not None and str(path) != STANDARD]
    for path in outputs:
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


def keep_what_counts(path: Path, force: bool = False) -> None:
    """Raise an error if writing a file would replace what was paid for or written by hand: a release, ledger or schema.

    Parameters
    ----------
    path : Path
    force : bool
        Whether a release may be replaced, or any file that is none of these.

    Raises
    ------
    InputError
        If it would.
    """
    if not path.is_file() or path.stat().st_size == 0:
        return
    with path.open("rb") as file:
        start = file.read(128)
    if start.startswith(b"{") and b'"trigmech ledger' in start:
        raise InputError(f"{str(path)!r} is a ledger file, the record of what was spent; name another file")
    if path.suffix.lower() == ".toml":
        raise InputError(f"{str(path)!r} may be a schema, with bounds that somebody wrote; name another file")
    if (path.suffix.lower() == RELEASE or RELEASE_START.match(start)) and not force:
        raise InputError(f"{str(path)!r} is a release, which was paid for; name another file, or let `trigmech "
                         "release --force` replace it by a new one")


def _same(first: Path, second: Path) -> bool:
    if first.exists() and second.exists():
        return first.samefile(second)
    return os.path.realpath(first) == os.path.realpath(second)


def open_or_make_ledger(path: Path, budget: Budget, data_set: str) -> LedgerFile:
    """Return the ledger file, made with a run's budget as the total if it is not there, which is said."""
    if path.exists():
        return LedgerFile.open(path)
    made = LedgerFile.create(path, budget, data_set=data_set)
    typer.echo(f"{path} was not there: made, with {budget} as the data set's total budget", err=True)
    return made


def write_sample(made: Synthesis, path: str | Path, rows: int | None, rng: np.random.Generator | None = None) -> None:
    """Write synthetic rows to a file, or to standard output for "-"."""
    from trigmech.table_file import write_table

    write_table(path, made.columns(rows, rng))


def table_against(made: Synthesis, data: str, schema: Path | None) -> Any:
    """Return the private table with the release's columns, read as the schema file says; private."""
    import pyarrow

    from trigmech import schema_file
    from trigmech.table_file import TableFile

    options = {} if schema is None else schema_file.load(schema).file
    return pyarrow.concat_tables(TableFile(data, **options).chunks(made.schema))


def errors_of(made: Synthesis, table: Any, say: Callable[[str, int, int], Any] = lambda step, done, total: None,
              ) -> dict[str, dict[str, float]]:
    """Return what a release gets wrong of a table, by kind and name; private.

    Parameters
    ----------
    made : Synthesis
    table : pyarrow.Table, private
    say : callable
        Told the step, what is done of it, and its total.
    """
    from trigmech.evaluate import ROWS_AT_A_TIME, compare
    from trigmech.tables import like

    schema, layout, n = made.schema, made.schema.layout, table.num_rows
    # As a table would hold them: numbers rounded where their kind asks for it.
    decoded = like("pyarrow", schema.names, list(schema.decode(made.distribution.points).values()))
    rounded = Distribution(schema.to_cube(decoded), made.distribution.weights)
    families = _families(n + len(rounded.points), len(layout.numbers))
    chunks = (schema.to_cube(table.slice(at, ROWS_AT_A_TIME)) for at in range(0, n, ROWS_AT_A_TIME))
    compared = compare(chunks, n, layout, made.distribution, rounded, families, say)
    names = [column.name for column in schema.columns for _ in column.coordinates]
    found: dict[str, dict[str, float]] = {}
    if layout.numbers:
        asked = list(zip(families, compared.evaluations, strict=True))
        found["worst absolute error of queries about numbers"] = {
            label: float(worst) for family, evaluation in asked
            for label, worst in zip(family.labels, evaluation.worst_absolute, strict=True)}
        found["how many of these queries were asked"] = {
            family.labels[0].split(",")[0]: len(evaluation.truth) for family, evaluation in asked}
        found["largest difference of distribution functions"] = dict(zip(
            (names[j] for j in layout.numbers), compared.differences.tolist(), strict=True))
    if layout.groups:
        found["total variation of frequencies"] = dict(zip(
            (names[group.coordinates[0]] for group in layout.groups), compared.variations.tolist(), strict=True))
    return found


def _families(rows: int, d: int) -> tuple[Workload, ...]:
    """Return the default workload's families, with as many queries as can be asked of so many rows within seconds."""
    if not d:
        return ()
    count = max(FEWEST_QUERIES, int(QUERY_WORK / (rows * (d + EXPONENTIALS))))
    return tuple(replace(family, n_queries=min(family.n_queries, count))
                 if isinstance(family, GaussianKernels | PairKernels) else cast(Workload, family)
                 for family in default_workload(d).members)
