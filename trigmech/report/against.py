"""NON-PRIVATE. The report's comparison with the true table: errors of queries, and distances to true records."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from trigmech._arrays import Array
from trigmech._validate import lacks
from trigmech.distribution import Distribution, systematic
from trigmech.errors import InputError
from trigmech.evaluation.distances import ROWS_AT_A_TIME, Evaluation, compare
from trigmech.evaluation.judgement import SEED, Judgement, compared_rows, judged
from trigmech.measurement.rows import Progress, silent
from trigmech.mechanisms.moment import default_workload
from trigmech.report.columns import from_cube, owners
from trigmech.report.figures import number
from trigmech.results import Synthesis
from trigmech.schema.column import Column
from trigmech.schema.schema import Schema
from trigmech.tables.frames import library_of, like
from trigmech.workload import GaussianKernels, PairKernels, SecondMoments

Queries = GaussianKernels | PairKernels | SecondMoments

# Limits for queries to a whole table: the fewest of a family, the most numbers that their evaluation may pass, and the
# number of such steps that the exponentials of one kernel cost.
FEWEST_QUERIES, QUERY_WORK, EXPONENTIALS = 50, 1e10, 30
# Multiplications that distances may take, and the fewest and most rows that they are computed of.
DISTANCE_WORK = 2e10
FEWEST_ROWS, MOST_ROWS = 200, 1_000


def families(d: int, smooth: int, pairs: int, seed: int = 0) -> list[Queries]:
    """Return the families of the default workload, with at most so many queries of all columns and of pairs of columns;
    none of 0 columns."""
    return [replace(family, seed=seed, n_queries=min(family.n_queries, smooth if isinstance(family, GaussianKernels)
                                                     else pairs))
            if isinstance(family, GaussianKernels | PairKernels) else cast(SecondMoments, family)
            for family in (default_workload(d).members if d else ())]


def affordable(rows: int, d: int, kernels: int = 1) -> int:
    """Return how many queries of a family, of so many kernels each, can be asked of so many rows within seconds."""
    return max(FEWEST_QUERIES, int(QUERY_WORK / (rows * kernels * (d + EXPONENTIALS))))


def errors_of(made: Synthesis, table: Any) -> dict[str, dict[str, float]]:
    """Return the errors of a release against a table (a pyarrow.Table), by kind and name; private."""
    schema, domain, n = made.schema, made.schema.domain, table.num_rows
    # As a table would hold them: numbers rounded where their kind asks for it.
    decoded = like("pyarrow", schema.names, list(schema.decode(made.distribution.points).values()))
    rounded = Distribution(schema.to_cube(decoded), made.distribution.weights)
    asked = families(len(domain.numbers), *(affordable(n + len(rounded.points), len(domain.numbers), kernels)
                                            for kernels in (GaussianKernels.n_centers, 1)))
    chunks = (_in_cube(schema, table.slice(at, ROWS_AT_A_TIME)) for at in range(0, n, ROWS_AT_A_TIME))
    compared = compare(chunks, n, domain, made.distribution, rounded, asked, silent)
    names = owners(schema)
    found: dict[str, dict[str, float]] = {}
    if domain.numbers:
        answered = list(zip(asked, compared.evaluations, strict=True))
        found["worst absolute error of queries about numbers"] = {
            label: float(worst) for family, evaluation in answered
            for label, worst in zip(family.labels, evaluation.worst_absolute, strict=True)}
        found["how many of these queries were asked"] = {
            family.labels[0].split(",")[0]: len(evaluation.truth) for family, evaluation in answered}
        found["largest difference of distribution functions"] = dict(zip(
            (names[j] for j in domain.numbers), compared.differences.tolist(), strict=True))
    if domain.groups:
        found["total variation of frequencies"] = dict(zip(
            (names[group.coordinates[0]] for group in domain.groups), compared.variations.tolist(), strict=True))
    return found


def judgement_of(made: Synthesis, table: Any, say: Progress = silent) -> Judgement:
    """Return a release judged against its table (a pyarrow.Table): a verdict and its measures; not private.

    At most 100,000 rows of the table, fewer if it has many columns, are compared with as many synthetic ones
    (:func:`trigmech.evaluation.judgement.compared_rows`); a fixed seed draws both.
    """
    return DrawnRows.of(made.schema, table, say).judged(made, say)


@dataclass(frozen=True, eq=False)
class DrawnRows:
    """The rows of a table that are compared; private."""

    points: Array
    n: int
    rng: np.random.Generator

    def __repr__(self) -> str:
        return f"DrawnRows(n={self.n}, rows hidden)"

    @classmethod
    def of(cls, schema: Schema, table: Any, say: Progress = silent) -> "DrawnRows":
        """Return the rows of a table, as :func:`rows_of` takes it, that :func:`judgement_of` compares, too."""
        rng = np.random.default_rng(SEED)
        if library_of(table) == "pyarrow":
            # Drawn before they are read: rows of the cube take much more memory.
            chosen, parts = _drawn(table, table.num_rows, schema.d, rng), list[Array]()
            for at in range(0, chosen.num_rows, ROWS_AT_A_TIME):
                say("reading the rows", at, chosen.num_rows)
                parts.append(_in_cube(schema, chosen.slice(at, ROWS_AT_A_TIME)))
            return cls(np.concatenate(parts), table.num_rows, rng)
        rows = rows_of(schema, table)
        return cls(_drawn(rows, len(rows), schema.d, rng), len(rows), rng)

    def judged(self, made: Synthesis, say: Progress = silent) -> Judgement:
        """Return a release judged against these rows, as :func:`judgement_of` does."""
        schema = made.schema
        return judged(schema, schema.decode(self.points), made.columns(len(self.points), self.rng), self.n, say)


def _drawn(rows: Any, n: int, d: int, rng: np.random.Generator) -> Any:
    """Return as many of n rows of d columns as are compared, in their order."""
    count = compared_rows(n, d)
    if count == n:
        return rows
    places = np.sort(rng.choice(n, count, replace=False))
    return rows[places] if isinstance(rows, np.ndarray) else rows.take(places)


def rows_of(schema: Schema, table: Any) -> Array:
    """Return a table as rows of the cube, or raise an InputError if it does not fit the schema; private.

    The table is a dataframe, an array (n, d), a dict of columns by name, or a list of the d columns in order.
    """
    if isinstance(table, list | tuple):
        if len(table) != schema.d:
            raise InputError(f"a list must hold the {schema.d} columns of the schema in order; it has {len(table)} "
                             "entries. Give rows as an array (n, d)")
        table = dict(zip(schema.names, table, strict=True))
    if isinstance(table, dict):
        table = _frame(schema, table)
    return _in_cube(schema, table)


def _in_cube(schema: Schema, table: Any) -> Array:
    try:
        return schema.to_cube(table)
    except InputError as problem:
        raise InputError(f"{problem}. A release's schema cannot be changed any more: compare the release with the "
                         "table that it was made from") from None


def distances(distribution: Distribution, rows: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    """Return distances to the nearest true record, in the encoded cube; private. Cost: at most some seconds.

    The first array is of synthetic rows; the second of true records, to their nearest other one. There must be at least
    2 true rows (n, d).
    """
    count = int(np.clip(DISTANCE_WORK // rows.size, FEWEST_ROWS, MOST_ROWS))
    points = distribution.points[systematic(distribution.weights, min(count, len(distribution.points)), rng)]
    chosen = rng.choice(len(rows), min(count, len(rows)), replace=False)
    return _nearest(points, rows, 1)[:, 0], _nearest(rows[chosen], rows, 2)[:, 1]


def worst_queries(queries: Queries, evaluation: Evaluation, bounds: Array | None, columns: Sequence[Column],
                  count: int = 3) -> list[list[Any]]:
    """Return the queries with the greatest absolute errors, of different rows of the answers where that is possible.

    Private: each is a list of the query in words, its error, its predicted bound (or ""), its true and its synthetic
    answer.
    """
    errors = evaluation.errors
    order = np.argsort(-errors.max(axis=1), kind="stable")[:count].tolist()
    return [[in_words(queries, *at, columns), errors[at], "" if bounds is None else bounds[at],
             number(evaluation.truth[at], 4), number(evaluation.answers[at], 4)]
            for at in ((query, int(errors[query].argmax())) for query in order)]


def in_words(queries: Queries, query: int, part: int, columns: Sequence[Column]) -> str:
    """Return a query in words, with the names and units of the columns."""
    if isinstance(queries, GaussianKernels):
        return (f"query {query + 1}: a mean of {queries.n_centers} Gaussian kernels of width "
                f"{number(queries.widths[part])} in all {len(columns)} columns")
    if isinstance(queries, PairKernels):
        pairs, centres = queries.queries
        around = " and ".join(f"{columns[j].name} = {from_cube(columns[j], y)}"
                              for j, y in zip(pairs[query], centres[query], strict=True))
        return f"Gaussian kernel of width {number(queries.widths[part])} around {around}"
    first, second = (int(ends[query]) for ends in np.triu_indices(len(columns)))
    if first == second:
        return f"mean square of {columns[first].name}"
    return f"mean product of {columns[first].name} and {columns[second].name}"


def _nearest(points: Array, rows: Array, count: int) -> Array:
    """Return the distances (k, count) of points to their nearest rows, ascending."""
    from sklearn.neighbors import NearestNeighbors

    found = NearestNeighbors(n_neighbors=min(count, len(rows)), algorithm="brute").fit(rows)
    # Computed again: the search takes differences of squares, by which a copy and a near one look the same.
    places = found.kneighbors(points, return_distance=False)
    return np.sort(np.sqrt(np.square(points[:, None, :] - rows[places]).sum(axis=2)), axis=1)


def _frame(schema: Schema, columns: dict[Any, Any]) -> Any:
    if rule := lacks(schema.names, columns):
        raise InputError(f"the table {rule}")
    arrays = list[Any]()
    with suppress(ValueError):  # A column of lists of different lengths.
        arrays = [np.asarray(columns[name]) for name in schema.names]
    if len({array.shape for array in arrays}) != 1 or arrays[0].ndim != 1:
        raise InputError("the columns of the table must be sequences of one length")
    if all(array.dtype.kind in "biuf" for array in arrays):
        return np.column_stack(arrays)
    table = np.empty((len(arrays[0]), len(arrays)), dtype=object)
    for j, array in enumerate(arrays):
        table[:, j] = array
    return table
