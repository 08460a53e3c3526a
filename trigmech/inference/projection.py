"""Sums of noisy frequencies with few smooth functions: weights of rows are fitted to these sums. Public.

A fit has rows in a cell where the noise is positive, and cannot have fewer than no rows where it is negative. So single
frequencies may not be believed beside the fit: they would confirm its rows in cells that noise alone has filled, and
columns would stay too wide and correlations too small. Sums over many cells do not have this fault, since noise of both
signs is in them. So frequencies are replaced by their sums with smooth weights: powers and normal scores of numbers,
and indicators of categories and of those ends of numbers where noise is likely to hide an atom. These sums are combined
such that their noise is independent, with the same deviation.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from scipy.sparse import block_diag, csr_matrix

from trigmech._arrays import Array, Integers
from trigmech.functions.contrasts import decoding
from trigmech.functions.partition import Partition
from trigmech.functions.released_column import ReleasedColumn
from trigmech.measurement.released import Release
from trigmech.queries.base import Query
from trigmech.reconstruction.ends import likely_ends, look_with_ends

# Powers of a number and of its normal scores: of single columns, and of tables. Powers of the place within a detail.
ALONE, JOINT, WITHIN = (4, 12), (2, 4), 3
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
    """Yield the projection of each known measurement of a release."""
    looks = [look for j in range(len(release.columns)) if (look := look_with_ends(release, j)) is not None]
    smooth = _Smooth(release.columns, {id(look.query): likely_ends(look) for look in looks})
    for each in release.known:
        query, sums = each.query, each.query.smoothed(smooth)
        values = each.known.ravel() if sums is None else sums @ np.clip(each.means.ravel(), -LARGEST, LARGEST)
        yield Projection(query, sums, np.clip(values, -LARGEST, LARGEST), each.deviation)


class _Smooth:
    """The smooth functions of a release's columns, for queries."""

    def __init__(self, columns: Sequence[ReleasedColumn], ends: Mapping[int, Sequence[int]]) -> None:
        self._columns, self._known, self._ends = columns, dict[tuple[int, int], Array](), ends

    def of_cells(self, column: int, cells: Integers) -> Array:
        if (column, id(cells)) not in self._known:
            self._known[column, id(cells)] = smooth(self._columns[column], cells, JOINT)
        return self._known[column, id(cells)]

    def within(self, count: int) -> Array:
        x = np.linspace(-1.0, 1.0, count)
        return _orthonormal([x**k for k in range(WITHIN + 1)])

    def of_frequencies(self, query: Query, column: int, partition: Partition) -> csr_matrix:
        whole = self._columns[column]
        held, k = whole.partition, len(whole.partition.indicators)
        below = np.concatenate([[0.0], np.cumsum(whole.mass[k:])])
        mass = whole.mass if partition.value is None else np.concatenate(
            [whole.mass[:k], np.diff(np.interp(partition.edges, held.edges, below))])
        ends = [(k, partition.size - 1)[side] for side in self._ends.get(id(query), ())]
        functions = smooth(ReleasedColumn(partition, mass, whole.deviation), np.arange(partition.size), ALONE, ends)
        # The noise of the sums f'Dv of decoded vectors v has the covariance of f'D.
        seen = functions.T if query.decoding is None else functions.T @ query.decoding
        left, size, _ = np.linalg.svd(seen, full_matrices=False)
        kept = size > TOLD * max(float(size.max(initial=0.0)), TINY)
        return csr_matrix((left[:, kept] / size[kept]).T @ functions.T)

    def of_contrasts(self, pairs: Integers, maps: Sequence[Integers]) -> csr_matrix:
        parts = []
        for j, cells in enumerate(maps):
            functions = self.of_cells(j, cells)
            _left, size, right = np.linalg.svd(functions.T @ decoding(len(functions)), full_matrices=False)
            parts.append(right[size > TOLD * max(float(size.max(initial=0.0)), TINY)])
        return csr_matrix(block_diag([np.kron(parts[j], parts[h]) for j, h in pairs.tolist()]))


def smooth(column: ReleasedColumn, cells: Integers, powers: tuple[int, int], alone: Sequence[int] = ()) -> Array:
    """Return orthonormal functions (count, q) of the cells of a column's positions; the constant is among their sums.

    ``powers`` are those of the number, and of its normal scores. Cells that are ``alone`` have an indicator each.
    """
    count, k = int(cells.max()) + 1, len(column.partition.indicators)
    mass = np.maximum(column.mass, TINY)
    total = np.bincount(cells, mass, count)
    special = np.bincount(cells[:k], mass[:k], count)
    share = special / total
    frequent = np.argsort(-special, kind="stable")[:CATEGORIES]
    raw = [np.ones(count), *(np.where(np.arange(count) == c, share, 0.0) for c in frequent if share[c] > 0.0),
           *(np.eye(count)[c] for c in alone)]
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
        # Twice, because the first time leaves errors of rounding.
        for _ in range(2):
            for each in basis:
                rest = rest - float(rest @ each) * each
        size = float(np.linalg.norm(rest))
        if size > TOLD:
            basis.append(rest / size)
    return np.column_stack(basis)
