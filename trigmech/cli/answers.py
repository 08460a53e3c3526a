"""The commands that answer questions from a release, with intervals."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

import trigmech as tm
from trigmech._validate import check_level
from trigmech.cli.files import check_outputs
from trigmech.cli.options import Json, Saved, grouped, tell
from trigmech.cli.progress import progress_bar
from trigmech.errors import InputError

# The number of imputed tables, unless the file that is given has others.
USUAL = 20
Count = Annotated[int | None, typer.Option(min=2, show_default=False, help=(
    f"The number of imputed tables: by default {USUAL}, or as many as the file has."))]
Population = Annotated[bool | None, typer.Option(
    "--population/--table", show_default=False, help="Intervals are for the population from which the table was "
                                                     "sampled (the default), or for the private table itself.")]
Level = Annotated[float, typer.Option(help="The probability that an interval contains the true value.")]
Kept = Annotated[Path | None, typer.Option(help="A file of imputations. If it does not exist, it is made; later "
                                                "questions are then answered faster.")]


@grouped
def ask(
    saved: Saved,
    query: Annotated[str, typer.Argument(help="A SELECT statement about the table named release, with aggregates.")],
    csv: Annotated[Path | None, typer.Option(help="Also write the answer to this file (.csv, .tsv, .parquet).")] = None,
    count: Count = None,
    population: Population = None,
    level: Level = 0.95,
    imputations: Kept = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the file that --csv names, if it exists.")] = False,
    as_json: Json = False,
) -> None:
    """Answer a question in SQL from a release, with an interval for each aggregate; needs no data and costs no budget.

    Intervals include the noise of the release and, for the population, the sampling error of the private table. Counts
    and sums are scaled to the rows of the private table. Only the table `release` can be read.

    Example: `trigmech ask clinic.tm "select avg(income), count(*) from release where age > 50"`
    """
    from trigmech.inference.sql import ask, check_query

    check_outputs((imputations,), (saved,), table=csv, force=force)
    check_level(level)
    # The query is checked before imputations are made, which takes long.
    held = _imputed(saved, imputations, count, population, as_json, lambda schema: check_query(schema, query))
    answer = ask(held, query, level)
    if csv is not None:
        from trigmech.tables.reader import write_table

        write_table(csv, iter([answer.arrays]))
    tell({"release": str(saved), "query": query, **answer.to_dict()}, answer, as_json)


@grouped
def fit(
    saved: Saved,
    formula: Annotated[str, typer.Argument(help="Such as 'income ~ age + C(region)'.")],
    family: Annotated[str, typer.Option(help="gaussian (linear), binomial (logistic) or poisson (log-linear).")
                      ] = "gaussian",
    count: Count = None,
    population: Population = None,
    level: Level = 0.95,
    imputations: Kept = None,
    as_json: Json = False,
) -> None:
    """Fit a regression to a release, with standard errors that include its noise; needs no data and costs no budget.

    It also shows the naive standard errors of a single synthetic table, which are too small.

    Example: `trigmech fit clinic.tm "income ~ age"`
    """
    from trigmech.inference.regression import check_formula, fitted

    check_outputs((imputations,), (saved,))
    check_level(level)
    held = _imputed(saved, imputations, count, population, as_json,
                    lambda schema: check_formula(schema, formula, family))
    found = fitted(held, formula, family, level)  # type: ignore[arg-type]
    tell({"release": str(saved), **found.to_dict()}, found, as_json)


def _imputed(saved: Path, path: Path | None, count: int | None, population: bool | None, quiet: bool,
             check: Callable[[tm.Schema], None]) -> tm.Imputations:
    """Return imputations of a file, or new ones of a release, which are then written there.

    ``check`` refuses a question before imputations are made. For a file of them the release itself is not loaded, which
    would take longer than most questions.
    """
    if path is not None and path.exists() and path.stat().st_size:
        from trigmech.storage.facts import facts_of

        held = tm.Imputations.load(path)
        if facts_of(saved) != (held.schema, held.n):
            raise InputError(f"the imputations in {str(path)!r} were not made from this release; name another file")
        if population is not None and population != held.population:
            whose = "population" if held.population else "table"
            raise InputError(f"the imputations in {str(path)!r} are for the {whose}; name another file for the other "
                             "intervals")
        if count is not None and count != len(held):
            raise InputError(f"the file {str(path)!r} has {len(held)} imputations, not {count}; name another file, or "
                             "leave out --count")
        return held
    made = tm.load(saved)
    check(made.schema)
    with progress_bar(quiet=quiet) as progress:
        held = made.imputations(count or USUAL, population is not False, progress=progress)
    if path is not None:
        held.save(path)
    return held
