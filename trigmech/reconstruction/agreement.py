"""Tables that agree with the other measurements of their columns: the frequencies, and the means of products of ranks.

A table of two columns has much noise in each cell, and an estimate of it loses a part of the dependence with the noise.
One number for a pair, such as the mean of a product of ranks, has little noise. The rows cannot have both this mean and
a table that denies it. So the estimate gets the smallest correction with which it has the means and the columns'
frequencies, up to their noise. The correction of a cell is small in units of the cell's own uncertainty: its deviation
is the noise where a cell is large, and its variance is proportional to the cell where it is small. An empty cell stays
empty.

A table does not show how numbers depend on each other within its cells, which is a part of the mean of their product.
This part is predicted by the normal copula, and it is taken to be as uncertain as it is large.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from trigmech._arrays import Array, Integers
from trigmech.functions.released_column import ReleasedColumn
from trigmech.measurement.released import Release
from trigmech.queries.base import Measurement
from trigmech.queries.joint import Marginal, Products
from trigmech.reconstruction.copula import Copula
from trigmech.reconstruction.sparse import LARGEST, LEAST_CELLS, TableEstimate

# A product is taken to be at most so much more exact than a cell: squares of the ratio, times the number of cells, must
# leave room for 1 in floating point. No mechanism of the package comes near.
FINEST = 1e-4


class Agreement:
    """The other measurements of a release by which its tables of two columns are corrected."""

    def __init__(self, release: Release, copula: Copula | None) -> None:
        self._columns, self._copula, measured = release.columns, copula, release.products
        self._means: dict[tuple[int, ...], Array] = {}
        if measured is None or measured.query.tells_tables:
            return
        self._features, self._deviation, start = measured.query.features, measured.deviation, 0
        for j, h in measured.query.pairs.tolist():
            shape = self._features[j].shape[1], self._features[h].shape[1]
            self._means[j, h] = np.clip(measured.means[start : start + shape[0] * shape[1]], -1.0, 1.0).reshape(shape)
            start += shape[0] * shape[1]

    def of(self, measured: Measurement[Marginal], known: TableEstimate) -> TableEstimate:
        """Return the estimate of a measured table of two columns with the correction.

        A sparse table remains: its empty cells are certain, and the columns' frequencies follow it
        (:func:`trigmech.reconstruction.sparse.with_margins`). So does a small one, whose estimate has the frequencies.
        """
        query, noise, table = measured.query, measured.deviation, known.table
        if known.sparse or table.size < LEAST_CELLS or not np.abs(table).max() < LARGEST * noise:
            return known
        own = [self._columns[j].mass for j in query.columns]
        masses = [np.bincount(cells, weights=mass).astype(np.float64)
                  for cells, mass in zip(query.maps, own, strict=True)]
        held = np.maximum(table, 0.0)
        variance, means = noise * (noise * held / (noise + held)), self._means.get(query.columns)
        if means is None:
            return replace(known, table=corrected(table, variance, masses, noise))
        features = [self._features[j] for j in query.columns]
        scores = [cell_means(*each) for each in zip(own, query.maps, features, strict=True)]
        within = np.zeros(means.shape) if self._copula is None else self._copula.within(
            query.columns, features, [score[cells] for score, cells in zip(scores, query.maps, strict=True)])
        return replace(known, table=corrected(table, variance, masses, noise, scores, means - within,
                                              np.maximum(np.hypot(self._deviation, within), FINEST * noise)))


def of_cells(query: Products, columns: Sequence[ReleasedColumn], cells: Sequence[Integers], means: Array,
             copula: Copula | None) -> tuple[list[Array], Array]:
    """Return the scores (size, q) of positions as means over cells, and the means (K,) that products then have.

    ``cells`` (size,) are those in which rows follow the copula later. Until then they would reach the ``means`` (K,) by
    moves within cells, where no table says how.
    """
    scores = [cell_means(column.mass, own, each)[own]
              for column, own, each in zip(columns, cells, query.features, strict=True)]
    if copula is None:
        return scores, means
    within = [copula.within((j, h), *([each[j], each[h]] for each in (query.features, scores)))
              for j, h in query.pairs.tolist()]
    return scores, means - np.concatenate([own.ravel() for own in within])


def cell_means(mass: Array, cells: Integers, features: Array) -> Array:
    """Return the means (c, q) of features (size, q) over the positions in each cell, by their masses (size,)."""
    held = np.bincount(cells, weights=mass)
    sums = np.array([np.bincount(cells, weights=mass * own) for own in features.T]).reshape(-1, len(held))
    return np.asarray((sums / np.where(held > 0.0, held, 1.0)).T)


def corrected(table: Array, variance: Array, masses: Sequence[Array], noise: float, scores: Sequence[Array] = (),
              means: Array | None = None, deviations: Array | None = None) -> Array:
    """Return a table (a, b) with the smallest correction that makes it agree with other measurements.

    The correction D minimises the sum of D^2 / ``variance`` and of the corrected table's squared distances from the
    measurements, in units of their deviations. The measurements are the ``masses`` (a,) and (b,) of rows and columns,
    with deviation ``noise``, and the ``means`` (q, r) of products of the ``scores`` (a, q) and (b, r), with
    ``deviations``.
    """
    a, b = table.shape
    products = np.einsum("ix,jy->xyij", *scores).reshape(-1, a, b) if scores else np.zeros((0, a, b))
    apart, size = variance * products, a + b + len(products)
    # The covariances of the sums of rows and columns, and of the means, in a table with this variance.
    matrix = np.zeros((size, size))
    matrix[:a, :a], matrix[a : a + b, a : a + b] = np.diag(variance.sum(axis=1)), np.diag(variance.sum(axis=0))
    matrix[:a, a : a + b], matrix[a : a + b, :a] = variance, variance.T
    of_sums = np.concatenate([apart.sum(axis=2), apart.sum(axis=1)], axis=1)
    matrix[a + b :, : a + b], matrix[: a + b, a + b :] = of_sums, of_sums.T
    matrix[a + b :, a + b :] = np.tensordot(apart, products, ([1, 2], [1, 2]))
    wanted, error = [masses[0] - table.sum(axis=1), masses[1] - table.sum(axis=0)], np.full(size, noise)
    if means is not None and deviations is not None:
        wanted.append(means.ravel() - np.tensordot(products, table))
        error[a + b :] = deviations.ravel()
    # In units of the errors, because small numbers have squares that are 0.
    found = np.linalg.solve(matrix / error / error[:, None] + np.eye(size), np.concatenate(wanted) / error) / error
    force = found[:a, None] + found[a : a + b] + np.tensordot(found[a + b :], products, 1)
    return np.asarray(table + variance * force)
