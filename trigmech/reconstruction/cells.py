"""The cells of a table one by one: an estimate that knows neither rows nor columns, blended with one that does.

Shrinkage of singular values and row effects see what many cells have in common. A few cells far from independence, such
as the costs of one rare group, are weak in that light and lose a part of their size. The estimate here sees each cell
alone. Its prior, relative to a prediction of the cell, is a mixture: the cell is empty, it is near to the prediction,
or it is exponentially distributed with a mean of one, two, four, ... times the prediction. The weights of the mixture
make the released table most likely (empirical Bayes).

Stein's estimate of the squared error is a quadratic function of the part that each estimate has in a blend, so the best
part is known in closed form (Stein 1981; LeBlanc and Tibshirani 1996, Combining estimates in regression).
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from scipy.special import log_ndtr

from trigmech._arrays import Array
from trigmech.reconstruction.sparse import LEAST_CELLS, LOWEST, TableEstimate, slopes_of, weights_of

# How far a cell that is near to its prediction can be from it, as a fraction of the prediction.
SPREADS = (0.0, 0.15, 0.35)
# The least prediction, in units of the noise: below, no cell is told from an empty one. The means of the exponential
# distributions reach so many doublings.
LEAST, DOUBLINGS = 1e-3, 12


def with_cells(known: TableEstimate, table: Array, noise: float, predict: Callable[[Array], Array]) -> TableEstimate:
    """Return the best blend of an estimate of a noisy table (a, b) and of the estimate of its cells one by one.

    ``noise`` is the standard deviation in each entry; ``predict`` maps a table (a, b) to a prediction of its cells. An
    estimate remains if it is sparse or its divergence is not known, and if the table is small, because a small table
    tells too little of a prior.
    """
    if known.sparse or known.divergence is None or table.size < LEAST_CELLS:
        return known

    def alone(values: Array) -> Array:
        return noise * _posterior(values / noise, predict(values) / noise)

    made = alone(table)
    apart = (made - known.table) / noise
    squares = float((apart**2).sum())
    if not squares > 0.0:
        return known
    more = float(slopes_of(alone, made, table, noise).sum()) - known.divergence
    part = min(max((float(((table - known.table) / noise * apart).sum()) - more) / squares, 0.0), 1.0)
    return replace(known, table=known.table + part * noise * apart, divergence=known.divergence + part * more)


def _posterior(y: Array, predicted: Array) -> Array:
    """Return the posterior means of cells (a, b), all in units of the noise."""
    y, predicted = np.maximum(y, LOWEST), np.maximum(predicted, LEAST)
    densities, means = [-0.5 * y**2], [np.zeros(y.shape)]
    for spread in SPREADS:
        prior = (spread * predicted) ** 2
        densities.append(-0.5 * (y - predicted) ** 2 / (1.0 + prior) - 0.5 * np.log1p(prior))
        means.append(np.maximum(predicted + prior / (1.0 + prior) * (y - predicted), 0.0))
    largest = float((np.maximum(y, 1.0) / predicted).max())
    for doubling in range(min(int(np.ceil(np.log2(max(largest, 4.0)))), DOUBLINGS) + 1):
        scale = 2.0**doubling * predicted
        at = y - 1.0 / scale
        log_tail = log_ndtr(at)
        densities.append(-np.log(scale) + 0.5 / scale**2 - y / scale + log_tail + 0.5 * np.log(2.0 * np.pi))
        means.append(np.maximum(at + np.exp(-0.5 * at**2 - 0.5 * np.log(2.0 * np.pi) - log_tail), 0.0))
    relative = np.array(densities).reshape(len(densities), -1)
    relative = np.exp(relative - relative.max(axis=0))
    own = weights_of(relative)[:, None] * relative
    own /= np.maximum(own.sum(axis=0), np.finfo(float).tiny)
    return np.asarray((own * np.array(means).reshape(own.shape)).sum(axis=0).reshape(y.shape))
