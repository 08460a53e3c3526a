"""Row effects: tables of a category and a number, whose distribution shifts from level to level.

A level of few rows has a distribution far below a table's noise. The shrinkage of singular values does not know that
such a level has few rows, and leaves it noise of more than its own size. Here a level has one number of its own, theta:
its distribution is that of all rows times exp(theta s), where s is the number's normal score. All thetas come from one
normal distribution around 0, whose deviation is chosen by marginal likelihood (empirical Bayes), and each is averaged
over its posterior. So a level of few rows stays near to all rows, and one of many rows has its own distribution.

The rest of the table is shrunk by its singular values, and then each level's part as if its rest were of the level's
own size. Stein's estimate of the squared error decides for each table between this and the estimate without row effects
(:mod:`trigmech.reconstruction.sparse`).

References
----------
Goodman 1979, Simple models for the analysis of association in cross-classifications having ordered categories; Efron
and Morris 1975, Data analysis using Stein's estimator.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from trigmech._arrays import Array
from trigmech.reconstruction.dependence import shrunk_table
from trigmech.reconstruction.sparse import LARGEST, TableEstimate, nearer, slopes_of

# The values of theta, and the deviations of its distribution over the levels.
THETAS, SPREADS = np.linspace(-3.0, 3.0, 121), np.array([0.03, 0.06, 0.1, 0.15, 0.2, 0.3, 0.45, 0.7, 1.0])
PRIORS = np.exp(-0.5 * (THETAS / SPREADS[:, None]) ** 2)
PRIORS /= PRIORS.sum(axis=1, keepdims=True)
# The difference of the errors must exceed so many of its own standard errors.
CLEAR = 1.0
# Rounds that restore the margins of a predicted table; and the end of the scores.
ROUNDS, FURTHEST = 5, 1e-6


def by_row_effects(known: TableEstimate, table: Array, expected: Array, noise: float,
                   numbers: NDArray[np.bool_]) -> TableEstimate:
    """Return the better of two estimates of a table (levels, cells): ``known``, and the one by row effects.

    ``expected`` is the table under independence, ``noise`` the standard deviation in each entry, above 0, and
    ``numbers`` (cells,) marks the cells of the number's ordinary values, in order.
    """
    size = max(float(np.abs(each).max(initial=0.0)) for each in (table, expected))
    if known.sparse or len(table) < 2 or not size < LARGEST * noise:
        return known
    shifted = shifts(expected, noise, numbers)
    if shifted is None:
        return known

    def without(values: Array) -> Array:
        return expected + shrunk_table(values - expected, noise)

    def within(values: Array) -> Array:
        made = shifted(values)
        own = (made**2).sum(axis=1, keepdims=True)
        return made + own / (own + made.shape[1] * noise**2) * shrunk_table(values - made, noise)

    first, second = without(table), within(table)
    slopes, more = (slopes_of(estimate, made, table, noise) for estimate, made in ((without, first), (within, second)))
    if not nearer(table, noise, first, slopes, second, more, CLEAR):
        return known
    return TableEstimate(second, known.deviation, False, float(more.sum()))


def shifts(expected: Array, noise: float, numbers: NDArray[np.bool_]) -> Callable[[Array], Array] | None:
    """Return a function that predicts a table (levels, cells) by shifts of its levels; None without any to shift."""
    score = _score(expected[:, numbers].sum(axis=0)) if numbers.sum() > 1 else None
    if score is None:
        return None

    def shifted(values: Array) -> Array:
        made = expected.copy()
        made[:, numbers] = noise * _shifted(values[:, numbers] / noise, expected[:, numbers] / noise, score)
        return made

    return shifted


def _score(mass: Array) -> Array | None:
    """Return the normal scores of cells, with mean 0 and variance 1; None if all mass is in one cell."""
    mass = np.maximum(mass, 0.0)
    total = float(mass.sum())
    if not total > 0.0:
        return None
    mass = mass / total
    score = ndtri(np.clip(np.cumsum(mass) - 0.5 * mass, FURTHEST, 1.0 - FURTHEST))
    score = score - mass @ score
    spread = float(np.sqrt(mass @ score**2))
    return np.asarray(score / spread) if spread > FURTHEST else None


def _shifted(table: Array, expected: Array, score: Array) -> Array:
    """Return the predicted table, where table and prediction by independence are in units of the noise."""
    tiny = np.finfo(float).tiny
    mass, rows = np.maximum(expected.sum(axis=0), 0.0), np.maximum(expected.sum(axis=1), 0.0)
    powers = np.log(np.maximum(mass / mass.sum(), tiny)) + np.outer(THETAS, score)
    shapes = np.exp(powers - powers.max(axis=1, keepdims=True))
    shapes /= shapes.sum(axis=1, keepdims=True)
    likely = rows[:, None] * (table @ shapes.T) - 0.5 * rows[:, None] ** 2 * (shapes**2).sum(axis=1)
    likely = np.exp(likely - likely.max(axis=1, keepdims=True))
    # Under the widest prior each level has some likelihood, because its density is nowhere tiny.
    evidence = np.log(np.maximum(likely @ PRIORS.T, tiny)).sum(axis=0)
    posterior = likely * PRIORS[int(np.argmax(evidence))]
    posterior /= np.maximum(posterior.sum(axis=1, keepdims=True), tiny)
    made = rows[:, None] * (posterior @ shapes)
    for _ in range(ROUNDS):
        made *= mass / np.maximum(made.sum(axis=0), tiny)
        made *= (rows / np.maximum(made.sum(axis=1), tiny))[:, None]
    return np.asarray(made)
