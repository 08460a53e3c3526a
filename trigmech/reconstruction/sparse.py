"""Tables of which few cells are occupied: two estimates of a noisy table, and the one that is nearer to the truth.

Where one column is nearly a function of another, most cells of their table are empty. Shrinking singular values then
leaves a little in each of them. Under a prior of empty cells and of cells whose frequencies are exponentially
distributed, with the weights that make the released table most likely, the posterior tells which cells are empty.

Which of two estimates is nearer is not known from the data alone, but its expectation is: for an estimate m(y) of a
table y with normal noise of deviation s, the squared error is on average |y - m(y)|^2 + s^2 (2 div m - N) (Stein 1981),
with the divergence by one random probe (Girard 1989; Ramani, Blu and Unser 2008). The sparse estimate is taken if it is
nearer by more than that difference itself can be off, and if most cells are clearly empty.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr

from trigmech.reconstruction.dependence import shrunk_table

Array = NDArray[np.float64]

# Rounds by which the prior's weights are found; the probe's length in deviations, and its seed; and the standard errors
# that a difference of risks must exceed.
ROUNDS, PROBE, SEED, CLEAR = 25, 0.1, 20_140_623, 3.0
# Most cells must be empty with at least this probability.
MOSTLY = 0.8
# Tables of fewer cells are not looked at: what is left in empty ones is little.
LEAST_CELLS = 64
# A cell that is taken to be empty is known better than the noise says, but not better than by this part of it.
FIRMEST = 0.03
# Nothing is larger, in units of the noise, because squares of it would overflow; and nothing is lower.
LARGEST, LOWEST = 1e60, -30.0


@dataclass(frozen=True, eq=False)
class Estimate:
    """What a noisy table is taken to be.

    ``deviation`` (a, b) is how far each entry may be off; ``sparse`` says whether most cells are taken to be empty.
    """

    table: Array
    deviation: Array
    sparse: bool


def estimated(table: Array, expected: Array, noise: float) -> Estimate:
    """Return the estimate of a noisy table (a, b), of which ``expected`` is known beforehand, that is nearer to it.

    The noise's deviation is that of each entry, above 0.
    """
    def low_rank(values: Array) -> Array:
        return expected + shrunk_table(values - expected, noise)

    made = low_rank(table)
    dense = Estimate(made, np.full(table.shape, noise), False)
    if table.size < LEAST_CELLS or not np.abs(table).max() < LARGEST * noise:
        return dense
    weights = _weights(table.ravel() / noise)
    mean, there = _posterior(table.ravel() / noise, weights)
    if float(np.median(there)) > 1.0 - MOSTLY:
        return dense
    probe = np.random.default_rng(SEED).standard_normal(table.shape)
    moved = table + PROBE * noise * probe
    few = noise * mean.reshape(table.shape)
    few_moved = noise * _posterior(moved.ravel() / noise, _weights(moved.ravel() / noise))[0].reshape(table.shape)
    slopes = probe * ((few_moved - few) - (low_rank(moved) - made)) / (PROBE * noise)
    nearer = ((table - made) ** 2 - (table - few) ** 2) / noise**2 - 2.0 * slopes
    if not float(nearer.sum()) > CLEAR * float(np.sqrt(((nearer - nearer.mean()) ** 2).sum())):
        return dense
    there = there.reshape(table.shape)
    found = np.where(there > 0.5, few, 0.0)
    total, own = float(table.sum()), float(found.sum())
    return Estimate(found * (total / own) if min(total, own) > 0.0 else found,
                    noise * np.maximum(np.sqrt(there), FIRMEST), True)


def _components(y: Array) -> tuple[Array, Array]:
    """Return the logarithms of densities (c, N) of cells by kind, in units of the noise, and their posterior means.

    The first kind is empty; of kind k the frequency is exponentially distributed with mean 2^(k - 1).
    """
    # What lies further below 0 tells nothing more.
    y = np.maximum(y, LOWEST)
    means = 2.0 ** np.arange(max(int(np.ceil(np.log2(max(float(y.max()), 4.0)))) + 1, 1))[:, None]
    at = y - 1.0 / means
    log_tail = log_ndtr(at)
    densities = np.vstack([-0.5 * y**2 - 0.5 * np.log(2.0 * np.pi),
                           -np.log(means) + 0.5 / means**2 - y / means + log_tail])
    expected = at + np.exp(-0.5 * at**2 - 0.5 * np.log(2.0 * np.pi) - log_tail)
    return densities, np.vstack([np.zeros(len(y)), np.maximum(expected, 0.0)])


def _weights(y: Array) -> Array:
    """Return the weights (c,) of kinds of cells under which y (N,) is most likely, by expectation maximisation."""
    densities, _ = _components(y)
    relative = np.exp(densities - densities.max(axis=0))
    weights = np.full(len(relative), 1.0 / len(relative))
    for _ in range(ROUNDS):
        own = weights[:, None] * relative
        weights = (own / own.sum(axis=0)).mean(axis=1)
    return weights


def _posterior(y: Array, weights: Array) -> tuple[Array, Array]:
    """Return the mean (N,) of each cell, in units of the noise, and the probability that it is not empty."""
    densities, means = _components(y)
    weights = np.pad(weights, (0, max(len(densities) - len(weights), 0)))[: len(densities)]
    own = weights[:, None] * np.exp(densities - densities.max(axis=0))
    own /= np.maximum(own.sum(axis=0), np.finfo(float).tiny)
    return (own * means).sum(axis=0), 1.0 - own[0]
