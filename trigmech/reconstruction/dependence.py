"""Targets for tables and products: the released ones, with noise shrunk away."""

import math

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

# So often what lies on the diagonal is filled in from what was found, unless it changes by no more.
ROUNDS, SETTLED = 20, 0.05
# Squares and fourth powers of what is larger would overflow.
LARGEST = 1e60


def shrunk_table(deviation: Array, noise: float) -> Array:
    """Return a noisy table's deviation from what is known of fewer columns, without the noise.

    The noise has this standard deviation, above 0, in each entry. The result has sums of 0 along each axis: the
    distributions of fewer columns are known better from elsewhere.

    Three axes are taken as two, the longest one beside the others. Sums of 0 leave one dimension less of each axis. A
    singular value y, in units of noise times the root of the longer side, becomes sqrt((y^2 - r - 1)^2 - 4 r) / y with
    r the ratio of the sides, and 0 below 1 + sqrt(r): the best there is for the squared error of a large matrix of low
    rank (Gavish and Donoho 2017, Optimal shrinkage of singular values). What lies below together is kept as far as its
    squares exceed those of noise alone (James and Stein), which serves tables of full rank.
    """
    if not (min(deviation.shape) > 0 and noise > 0.0):
        return deviation
    values = centred(np.clip(deviation / noise, -LARGEST, LARGEST))
    longest = int(np.argmax(values.shape))
    moved = np.moveaxis(values, longest, 0)
    short, long = sorted((moved.shape[0] - 1, math.prod(side - 1 for side in moved.shape[1:])))
    if not short:
        return np.zeros(values.shape)
    left, singular, right = np.linalg.svd(moved.reshape(moved.shape[0], -1), full_matrices=False)
    y, ratio = singular[:short] / np.sqrt(long), short / long
    above = y > 1.0 + np.sqrt(ratio)
    kept = np.zeros(short)
    kept[above] = np.sqrt(np.maximum((y[above] ** 2 - ratio - 1.0) ** 2 - 4.0 * ratio, 0.0)) / y[above]
    below, rest = float((y[~above] ** 2).sum()), float(short - above.sum())
    if below > 0.0:
        kept[~above] = y[~above] * max(0.0, 1.0 - rest / below)
    made = (left[:, :short] * (kept * np.sqrt(long) * noise)) @ right[:short]
    return np.moveaxis(made.reshape(moved.shape), 0, longest)


def shrunk_beside(deviation: Array, noise: float) -> Array:
    """Return a noisy table's deviation (a, b, c) from what rows have already, without the noise of each entry.

    The part of all axes is shrunk as in :func:`shrunk_table`. The rows have the parts of fewer axes from elsewhere, but
    not better than rows can: these are kept as far as their squares exceed those of noise alone (James and Stein).
    """
    lower = deviation - noise * centred(np.clip(deviation / noise, -LARGEST, LARGEST))
    freedom = deviation.size - math.prod(side - 1 for side in deviation.shape)
    known = max(0.0, 1.0 - freedom / max(float(((lower / noise) ** 2).sum()), np.finfo(float).tiny))
    return shrunk_table(deviation, noise) + known * lower


def centred(values: Array) -> Array:
    """Return what has sums of 0 along each axis."""
    for axis in range(values.ndim):
        values = values - values.mean(axis=axis, keepdims=True)
    return values


def shrunk_products(deviation: Array, noise: float, places: NDArray[np.int64]) -> Array:
    """Return products' noisy deviations (K,) from independence without the noise.

    The noise is the standard deviation in each, above 0. places (K, 2): both factors among the scores of all columns;
    no two of one column.

    Together they are a symmetric matrix but for the blocks on its diagonal, which are filled in from what is found
    (factor analysis). An eigenvalue y, in units of noise times the root of the size, becomes sqrt(y^2 - 4), and 0 below
    2: the best there is for the squared error of a large matrix of low rank (Donoho and Gavish 2014 and 2017). What
    each product has beside these is shrunk by itself (James and Stein).
    """
    held, own = np.unique(places, return_inverse=True)
    size, (first, second) = len(held), own.reshape(-1, 2).T
    values = np.clip(deviation / noise, -LARGEST, LARGEST)
    known, measured, found = np.zeros((size, size)), np.zeros((size, size), dtype=bool), np.zeros((size, size))
    known[first, second] = known[second, first] = values
    measured[first, second] = measured[second, first] = True
    for _ in range(ROUNDS):
        eigenvalues, vectors = np.linalg.eigh(np.where(measured, known, found))
        y = eigenvalues / np.sqrt(size)
        kept = np.sign(y) * np.sqrt(np.maximum(y**2 - 4.0, 0.0)) * np.sqrt(size)
        before, found = found, (vectors * kept) @ vectors.T
        # In units of the noise; many columns have a small diagonal, which is settled at once.
        if np.abs(found - before).max(initial=0.0) <= SETTLED:
            break
    common = found[first, second]
    rest = values - common
    return (common + rest * np.maximum(0.0, 1.0 - 1.0 / np.maximum(rest**2, np.finfo(float).tiny))) * noise
