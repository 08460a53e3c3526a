"""How far a release is from the table that it was made of, as `trigmech evaluate` prints it; private."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from rich.console import Console
from rich.table import Table

from trigmech.distribution import Distribution
from trigmech.mechanisms.moment import default_workload
from trigmech.results import Synthesis
from trigmech.workload import GaussianKernels, PairKernels, Workload

# Of the queries of an evaluation: the fewest of a family, how many numbers their evaluation may pass, and how many such
# steps the exponentials of one kernel are worth.
FEWEST_QUERIES, QUERY_WORK, EXPONENTIALS = 50, 1e10, 30


def table_against(made: Synthesis, data: str, schema: Path | None, given: dict[str, Any]) -> Any:
    """Return the private table with the release's columns, read as the options or the schema file say; private."""
    import pyarrow

    from trigmech.schema import toml as schema_file
    from trigmech.tables.reader import TableFile

    options = {} if schema is None else schema_file.load(schema).file
    return pyarrow.concat_tables(TableFile(data, **options | given).chunks(made.schema))


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
    from trigmech.evaluation.distances import ROWS_AT_A_TIME, compare
    from trigmech.tables.frames import like

    schema, domain, n = made.schema, made.schema.domain, table.num_rows
    # As a table would hold them: numbers rounded where their kind asks for it.
    decoded = like("pyarrow", schema.names, list(schema.decode(made.distribution.points).values()))
    rounded = Distribution(schema.to_cube(decoded), made.distribution.weights)
    families = _families(n + len(rounded.points), len(domain.numbers))
    chunks = (schema.to_cube(table.slice(at, ROWS_AT_A_TIME)) for at in range(0, n, ROWS_AT_A_TIME))
    compared = compare(chunks, n, domain, made.distribution, rounded, families, say)
    names = [column.name for column in schema.columns for _ in column.coordinates]
    found: dict[str, dict[str, float]] = {}
    if domain.numbers:
        asked = list(zip(families, compared.evaluations, strict=True))
        found["worst absolute error of queries about numbers"] = {
            label: float(worst) for family, evaluation in asked
            for label, worst in zip(family.labels, evaluation.worst_absolute, strict=True)}
        found["how many of these queries were asked"] = {
            family.labels[0].split(",")[0]: len(evaluation.truth) for family, evaluation in asked}
        found["largest difference of distribution functions"] = dict(zip(
            (names[j] for j in domain.numbers), compared.differences.tolist(), strict=True))
    if domain.groups:
        found["total variation of frequencies"] = dict(zip(
            (names[group.coordinates[0]] for group in domain.groups), compared.variations.tolist(), strict=True))
    return found


def _families(rows: int, d: int) -> tuple[Workload, ...]:
    """Return the default workload's families, with as many queries as can be asked of so many rows within seconds."""
    if not d:
        return ()
    count = max(FEWEST_QUERIES, int(QUERY_WORK / (rows * (d + EXPONENTIALS))))
    return tuple(replace(family, n_queries=min(family.n_queries, count))
                 if isinstance(family, GaussianKernels | PairKernels) else cast(Workload, family)
                 for family in default_workload(d).members)


def show_errors(found: dict[str, dict[str, float]]) -> None:
    """Print what :func:`errors_of` returns."""
    # A column's name may hold what would be markup.
    console = Console(markup=False, emoji=False, highlight=False)
    for title, figures in found.items():
        table = Table(title)
        table.add_column(justify="right")
        for name, value in figures.items():
            table.add_row(name, f"{value:,}" if isinstance(value, int) else f"{value:.4g}")
        console.print(table)
