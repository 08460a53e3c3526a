"""What weights of rows take from noisy frequencies: their products with few smooth functions. Public.

A fit has rows in a cell where the noise is positive, and cannot have fewer than no rows where it is negative. So single
frequencies may not be believed beside the fit: they would confirm its rows in cells that noise alone has filled, and
columns would stay too wide and correlations too small. Sums over many cells do not have this fault, since noise of both
signs is in them. So frequencies are replaced by their sums with smooth weights: powers and normal scores of numbers,
and indicators of categories. These sums are combined such that their noise is independent, with the same deviation.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_matrix, kron

from trigmech._arrays import Array, Integers
from trigmech.functions.contrasts import decoding
from trigmech.functions.released_column import ReleasedColumn
from trigmech.measurement.released import Release
from trigmech.queries.base import Query
from trigmech.queries.joint import Marginal, Products
from trigmech.queries.one_way import Detail, Histogram

# Powers of a number and of its normal scores: of single columns, of tables, of details.
ALONE, JOINT, WITHIN = (4, 12), (2, 4), (3, 0)
# Categories, and special values of a number, with an indicator.
CATEGORIES = 16
# A function that the others before it tell up to this part is left out; no share of a column is taken as smaller.
TOLD, TINY = 1e-6, 1e-300
# Hostile noise must not make numbers infinite.
LARGEST = 1e200


class Projection(NamedTuple):
    """Sums (K, q) of a query's means whose noise is independent, with the same deviation; None for the means as they
    are."""

    query: Query
    sums: csr_matrix | None
    values: Array
    deviation: float


def projections(release: Release) -> Iterator[Projection]:
    """Yield what is taken of each known measurement of a release: of its means, with these deviations of noise."""
    known: dict[tuple[int, int], Array] = {}

    def of(j: int, cells: Integers) -> Array:
        if (j, id(cells)) not in known:
            known[j, id(cells)] = smooth(release.columns[j], cells, JOINT)
        return known[j, id(cells)]

    for each in release.known:
        query = each.query
        sums = None
        if isinstance(query, Marginal):
            sums = csr_matrix(np.ones((1, 1)))
            for j, cells in zip(query.columns, query.maps, strict=True):
                sums = kron(sums, of(j, cells).T, format="csr")
        elif isinstance(query, Detail):
            x = np.linspace(-1.0, 1.0, query.size)
            sums = csr_matrix(_orthonormal([x**k for k in range(WITHIN[0] + 1)]).T)
        elif isinstance(query, Histogram):
            sums = _of_one(release.columns[query.columns[0]], query)
        elif isinstance(query, Products) and query.tells_tables:
            sums = _of_contrasts(query, [of(j, cells) for j, cells in enumerate(query.maps)])
        values = each.known.ravel() if sums is None else sums @ np.clip(each.means.ravel(), -LARGEST, LARGEST)
        yield Projection(query, sums, np.clip(values, -LARGEST, LARGEST), each.deviation)


def _of_one(column: ReleasedColumn, query: Histogram) -> csr_matrix:
    """Return sums (K, positions) of the frequencies of the positions at which a column was looked at."""
    own, held, k = query.partition, column.partition, len(column.partition.indicators)
    below = np.concatenate([[0.0], np.cumsum(column.mass[k:])])
    mass = column.mass if own.value is None else np.concatenate(
        [column.mass[:k], np.diff(np.interp(own.edges, held.edges, below))])
    functions = smooth(ReleasedColumn(own, mass, column.deviation), np.arange(own.size), ALONE)
    # The noise of the sums f'Dv of decoded vectors v has the covariance of f'D.
    seen = functions.T if query.decoding is None else functions.T @ query.decoding
    left, size, _ = np.linalg.svd(seen, full_matrices=False)
    kept = size > TOLD * max(float(size.max(initial=0.0)), TINY)
    return csr_matrix((left[:, kept] / size[kept]).T @ functions.T)


def _of_contrasts(query: Products, smoothed: Sequence[Array]) -> csr_matrix:
    """Return sums (K, q) of products of contrasts: smooth functions of the tables that they give."""
    from scipy.sparse import block_diag

    parts = []
    for functions in smoothed:
        seen = functions.T @ decoding(len(functions))
        _left, size, right = np.linalg.svd(seen, full_matrices=False)
        parts.append(right[size > TOLD * max(float(size.max(initial=0.0)), TINY)])
    return csr_matrix(block_diag([np.kron(parts[j], parts[h]) for j, h in query.pairs.tolist()]))


def smooth(column: ReleasedColumn, cells: Integers, powers: tuple[int, int]) -> Array:
    """Return orthonormal functions (count, q) of the cells of a column's positions; the constant is among their sums.

    ``powers`` are those of the number, and of its normal scores.
    """
    count, k = int(cells.max()) + 1, len(column.partition.indicators)
    mass = np.maximum(column.mass, TINY)
    total = np.bincount(cells, mass, count)
    special = np.bincount(cells[:k], mass[:k], count)
    share = special / total
    frequent = np.argsort(-special, kind="stable")[:CATEGORIES]
    raw = [np.ones(count), *(np.where(np.arange(count) == c, share, 0.0) for c in frequent if share[c] > 0.0)]
    if column.partition.value is not None:
        inside = np.maximum(np.bincount(cells[k:], mass[k:], count), TINY)
        for values, most in zip((column.partition.centres, column.normal_scores[k:]), powers, strict=True):
            middle = np.bincount(cells[k:], mass[k:] * values, count) / inside
            middle = middle / max(float(np.abs(middle).max()), TINY)
            raw += [(1.0 - share) * middle**power for power in range(1, most + 1)]
    return _orthonormal(raw)


def _orthonormal(raw: Sequence[Array]) -> Array:
    """Return orthonormal combinations (count, q) of functions (count,), without those that others before them tell."""
    basis = list[Array]()
    for values in raw:
        rest = values / max(float(np.linalg.norm(values)), TINY)
        # Twice, for what the first time rounds.
        for _ in range(2):
            for each in basis:
                rest = rest - float(rest @ each) * each
        size = float(np.linalg.norm(rest))
        if size > TOLD:
            basis.append(rest / size)
    return np.column_stack(basis)
