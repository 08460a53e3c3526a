"""NON-PRIVATE. What a report says when the true table is at hand: errors of queries, and distances to true records."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trigmech.distribution import Distribution, systematic
from trigmech.errors import InputError
from trigmech.evaluation.distances import Evaluation
from trigmech.report.columns import from_cube
from trigmech.report.figures import number
from trigmech.schema.column import Column
from trigmech.schema.schema import Schema
from trigmech.workload import GaussianKernels, PairKernels, SecondMoments

Array = NDArray[np.float64]
Queries = GaussianKernels | PairKernels | SecondMoments

# Multiplications that distances may take, and the fewest and most rows that they are computed of.
DISTANCE_WORK = 2e10
FEWEST_ROWS, MOST_ROWS = 200, 1_000


def rows_of(schema: Schema, table: Any) -> Array:
    """Return a table as rows of the cube.

    Parameters
    ----------
    schema : Schema
    table : dataframe, array_like (n, d), dict of columns by name, or list of the d columns in order; private

    Raises
    ------
    InputError
        If the table does not fit the schema.
    """
    if isinstance(table, list | tuple):
        if len(table) != schema.d:
            raise InputError(f"a list must hold the {schema.d} columns of the schema in order; it has {len(table)} "
                             "entries. Rows belong into an array (n, d)")
        table = dict(zip(schema.names, table, strict=True))
    if isinstance(table, dict):
        table = _frame(schema, table)
    return schema.to_cube(table)


@dataclass(frozen=True, eq=False)
class Distances:
    """Distances to the nearest true record, in the encoded cube; private.

    Parameters
    ----------
    synthetic : ndarray (s,)
        Of synthetic rows, to true records.
    true : ndarray (t,)
        Of true records, to their nearest other one.
    """

    synthetic: Array
    true: Array


def distances(distribution: Distribution, rows: Array, rng: np.random.Generator) -> Distances:
    """Return distances of a sample of synthetic rows and of true records; cost: at most some seconds.

    Parameters
    ----------
    distribution : Distribution
    rows : ndarray (n, d), private
        At least 2.
    rng : numpy.random.Generator
        For the samples.
    """
    count = int(np.clip(DISTANCE_WORK // rows.size, FEWEST_ROWS, MOST_ROWS))
    points = distribution.points[systematic(distribution.weights, min(count, len(distribution.points)), rng)]
    chosen = rng.choice(len(rows), min(count, len(rows)), replace=False)
    return Distances(_nearest(points, rows, 1)[:, 0], _nearest(rows[chosen], rows, 2)[:, 1])


@dataclass(frozen=True)
class WorstQuery:
    """A query in words, with its error, what was predicted, and both answers; private."""

    words: str
    error: float
    predicted: float | None
    truth: float
    answer: float


def worst_queries(queries: Queries, evaluation: Evaluation, bounds: Array | None, columns: Sequence[Column],
                  count: int = 3) -> list[WorstQuery]:
    """Return the queries with the greatest absolute errors, of different rows of the answers where that is possible.

    Parameters
    ----------
    queries : GaussianKernels, PairKernels or SecondMoments
    evaluation : Evaluation, private
    bounds : ndarray (queries, parts), optional
        Predicted bounds.
    columns : sequence of Column
        That the queries are of.
    """
    errors = np.abs(evaluation.answers - evaluation.truth)
    part = errors.argmax(axis=1)
    order = np.argsort(-errors.max(axis=1), kind="stable")[:count]
    return [WorstQuery(in_words(queries, int(q), int(part[q]), columns), float(errors[q, part[q]]),
                       None if bounds is None else float(bounds[q, part[q]]), float(evaluation.truth[q, part[q]]),
                       float(evaluation.answers[q, part[q]])) for q in order]


def in_words(queries: Queries, query: int, part: int, columns: Sequence[Column]) -> str:
    """Return what a query asks, in the names and units of the columns."""
    if isinstance(queries, GaussianKernels):
        return (f"query {query + 1}: a mean of {queries.n_centers} Gaussian kernels of width "
                f"{number(queries.widths[part])} in all {len(columns)} columns")
    if isinstance(queries, PairKernels):
        pairs, centres = queries._queries
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
    # Computed again: the search takes differences of squares, which cannot tell a copy from a near one.
    places = found.kneighbors(points, return_distance=False)
    return np.sort(np.sqrt(np.square(points[:, None, :] - rows[places]).sum(axis=2)), axis=1)


def _frame(schema: Schema, columns: dict[Any, Any]) -> Any:
    absent = [name for name in schema.names if name not in columns]
    if absent:
        raise InputError(f"the table lacks the column(s) {', '.join(map(repr, absent))} that the schema names")
    try:
        arrays = [np.asarray(columns[name]) for name in schema.names]
    except ValueError:
        raise InputError("the columns of the table must be sequences of one length") from None
    if len({array.shape for array in arrays}) > 1 or arrays[0].ndim != 1:
        raise InputError("the columns of the table must be sequences of one length")
    if all(array.dtype.kind in "biuf" for array in arrays):
        return np.column_stack(arrays)
    table = np.empty((len(arrays[0]), len(arrays)), dtype=object)
    for j, array in enumerate(arrays):
        table[:, j] = array
    return table
