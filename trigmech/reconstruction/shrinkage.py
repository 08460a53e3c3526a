"""Empirical Bayes: the posterior of released moments, before anything is fitted to them.

Noise of known size makes some released numbers worthless, and the numbers themselves show which: columns whose moments
scatter no more than the noise differ by noise alone, and a pair of columns whose moments deviate from
independence no more than noise would is better taken as independent. All of it is post-processing.
"""

import numpy as np
from numpy.typing import NDArray

from trigmech._validate import numbers
from trigmech.errors import InputError, shown

Array = NDArray[np.float64]

FEWEST_COLUMNS = 6
# Means lie in [-1, 1]. Noise above the second number leaves nothing of them, noise below the first is below the
# rounding of any fit; and fits square what lies between without overflow.
LEAST_SCALE, WORTHLESS = 1e-12, 1e6


def within_reason(means: Array, scales: Array) -> tuple[Array, Array]:
    """Return released means and deviations between limits that lose nothing about a table and that fits can square.

    Nothing is supposed of them but that means are finite and deviations positive. Privacy: post-processing.
    """
    return np.clip(means, -WORTHLESS, WORTHLESS), np.clip(scales, LEAST_SCALE, WORTHLESS)


def shrink_columns(means: Array, scales: Array) -> tuple[Array, Array]:
    """Return posterior means and deviations (p, d) of the columns' moments, each degree's a sample of one normal.

    They are unchanged for fewer than 6 columns, and where deviations are not equal within a row. The estimate is that
    of James and Stein around the columns' mean (Efron and Morris 1973): for d > 3 its expected sum of squared errors is
    below that of the means themselves, whatever the true moments are.

    Raises
    ------
    InputError
        If the shapes differ or a scale is not positive.
    """
    means = numbers("means", means, "p", "d")
    scales = numbers("scales", scales, *means.shape)
    if not (scales > 0.0).all():
        raise InputError("scales must be positive")
    d = means.shape[1]
    if d < FEWEST_COLUMNS:
        return means, scales
    even = scales.max(axis=1, keepdims=True) <= scales.min(axis=1, keepdims=True) * (1.0 + 1e-9)
    centre = means.mean(axis=1, keepdims=True)
    scatter = ((means - centre) ** 2).sum(axis=1, keepdims=True) / (d - 3.0)
    variance = scales**2
    kept = 1.0 - variance / np.maximum(np.maximum(scatter, variance), 1e-300)
    # Moments that are shrunk to the common centre keep the error of the centre itself.
    return (np.where(even, centre + kept * (means - centre), means),
            np.where(even, np.sqrt(variance * (kept + (1.0 - kept) / d)), scales))


def shrink_interactions(index: NDArray[np.int64], means: Array, scales: Array, expected: Array,
                        caution: float = 0.5) -> Array:
    """Return the moments (K,) of several columns, shrunk towards independence set of columns by set of columns.

    The k moments of one set of columns are kept to the fraction 1 - caution k / E of their deviation from independence,
    at least 0, E the sum of their squared deviations in units of the noise: k on average if there is no dependence.
    Caution 1 is about James and Stein's positive part. The default is half of it, because the points that are fitted
    next are a real distribution, which many noisy moments together are not, and that takes off much of the noise too.

    index (K, d): multi-indices with at least two columns each; only which entries are 0 matters. ``expected`` are the
    means under independence, as by :func:`independent_means`.

    Raises
    ------
    InputError
        If shapes differ, a scale is not positive, or caution is below 0.
    """
    index = numbers("index", index, "K", "d")
    means, scales = numbers("means", means, len(index)), numbers("scales", scales, len(index))
    expected = numbers("expected", expected, len(index))
    if not (scales > 0.0).all():
        raise InputError("scales must be positive")
    if not caution >= 0.0:
        raise InputError(f"caution must be at least 0, not {shown(caution)}")
    deviations = (means - expected) / scales
    _, sets = np.unique(index > 0, axis=0, return_inverse=True)
    sets = sets.ravel()
    size = np.bincount(sets)
    energy = np.bincount(sets, weights=deviations**2)
    kept = np.maximum(1.0 - caution * size / np.maximum(energy, 1e-300), 0.0)
    return expected + kept[sets] * (means - expected)


def moments_of_columns(places: NDArray[np.int64], means: Array, scales: Array) -> tuple[Array, Array]:
    """Return means and deviations (p, c) at positions by :meth:`FunctionIndex.alone`; what is not measured is
    worthless."""
    return np.where(places < 0, 0.0, means[places]), np.where(places < 0, WORTHLESS, scales[places])


def independent_means(index: NDArray[np.int64], columns: Array) -> Array:
    """Return the means (K,) of Chebyshev products, by multi-indices (K, d), under independent columns.

    ``columns`` (p, d) holds the means of T_1, ..., T_p of each column, p at least the largest entry of the index.
    """
    if not len(index):
        return np.empty(0)
    columns = np.vstack([np.ones(columns.shape[1]), columns])
    return np.prod(columns[index, np.arange(columns.shape[1])], axis=1)
