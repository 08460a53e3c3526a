"""Empirical Bayes: the posterior of released moments, before the fit.

The size of the noise is known, and the released numbers themselves show where it hides the truth. If the moments of all
columns scatter no more than the noise, the columns differ by noise only. If the moments of a pair of columns deviate
from independence no more than the noise, independence is the better estimate. All of this is post-processing.
"""

import numpy as np
from numpy.typing import NDArray

from trigmech._arrays import Array
from trigmech._validate import numbers
from trigmech.errors import InputError, shown

FEWEST_COLUMNS = 6
# Means lie in [-1, 1]. Noise above the second number hides them completely, and noise below the first is smaller than
# the rounding of any fit. Numbers between the two can be squared without overflow.
LEAST_SCALE, WORTHLESS = 1e-12, 1e6


def within_reason(means: Array, scales: Array) -> tuple[Array, Array]:
    """Return released means and deviations, clipped to limits between which a fit can square them.

    The limits lose no information about a table. Means must be finite, and deviations positive.
    """
    return np.clip(means, -WORTHLESS, WORTHLESS), np.clip(scales, LEAST_SCALE, WORTHLESS)


def shrink_columns(means: Array, scales: Array) -> tuple[Array, Array]:
    """Return posterior means and deviations (p, d) of the columns' moments.

    The moments of one degree are modelled as a sample of one normal distribution. They are unchanged for fewer than 6
    columns, and for degrees with unequal deviations. The estimate is that of James and Stein around the columns' mean
    (Efron and Morris 1973). For d > 3 its expected sum of squared errors is below that of the means themselves, for any
    true moments.

    Raises an InputError if the shapes differ or a scale is not positive.
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
    # Moments that are shrunk to the common centre have the centre's error.
    return (np.where(even, centre + kept * (means - centre), means),
            np.where(even, np.sqrt(variance * (kept + (1.0 - kept) / d)), scales))


def shrink_interactions(index: NDArray[np.int64], means: Array, scales: Array, expected: Array,
                        caution: float = 0.5) -> Array:
    """Return the moments (K,) of several columns, shrunk towards independence for each set of columns.

    Let E be the sum of the squared deviations from independence of one set's k moments, in units of the noise. Without
    dependence E is k on average. The deviations are multiplied by 1 - caution k / E, or by 0 if this is negative. With
    caution 1 this is about James and Stein's positive part. The default is half of it, because the fit also removes
    much of the noise: its points are a real distribution, and many noisy moments together are not.

    ``index`` (K, d) holds multi-indices with at least two columns; only their nonzero places matter. ``expected`` holds
    the means under independence, from :func:`independent_means`.

    Raises an InputError if shapes differ, a scale is not positive, or caution is below 0.
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
    """Return means and deviations (p, c) at places from :meth:`FunctionIndex.alone`. Unmeasured moments get much noise.
    """
    return np.where(places < 0, 0.0, means[places]), np.where(places < 0, WORTHLESS, scales[places])


def independent_means(index: NDArray[np.int64], columns: Array) -> Array:
    """Return the means (K,) of Chebyshev products with multi-indices (K, d), for independent columns.

    ``columns`` (p, d) holds the means of T_1, ..., T_p of each column. No entry of the index may exceed p.
    """
    if not len(index):
        return np.empty(0)
    columns = np.vstack([np.ones(columns.shape[1]), columns])
    return np.prod(columns[index, np.arange(columns.shape[1])], axis=1)
