"""The measurement of a column's histogram by prefix sums, so that thresholds share their noise.

The counts h of c intervals are measured as R h with the lower triangular Toeplitz matrix R of the coefficients of
(1 - z)^(-1/2), 1, 1/2, 3/8, 5/16, ...: R R is the matrix of prefix sums, so each prefix sum has an error of
R (noise), whose variance grows with log c alone, where sums of single counts have one that grows with c.

Replacing a row moves it from one position a to another b, so the measured vector moves by E (e_a - e_b), and what is
charged is the largest such distance over all pairs of positions of the matrix that is used, by its Gram matrix, raised
by more than its rounding.

References
----------
Fichtenberger, Henzinger and Upadhyay 2022, Constant matters; Henzinger, Upadhyay and Upadhyay 2023, for the factor.
"""

from functools import lru_cache

import numpy as np

from trigmech._arrays import Array
from trigmech.functions.partition import Partition

ROUNDED_UP = 1.0 + 1e-9


@lru_cache(maxsize=64)
def factor(count: int) -> Array:
    """Return the matrix R (count, count)."""
    coefficients = np.cumprod(np.concatenate([[1.0], (2.0 * np.arange(1, count) - 1.0) / (2.0 * np.arange(1, count))]))
    lag = np.arange(count)[:, None] - np.arange(count)
    return np.where(lag >= 0, coefficients[np.maximum(lag, 0)], 0.0)


@lru_cache(maxsize=64)
def inverse(count: int) -> Array:
    """Return the inverse of R, which has the coefficients of (1 - z)^(1/2)."""
    steps = (2.0 * np.arange(1, count) - 3.0) / (2.0 * np.arange(1, count))
    coefficients = np.cumprod(np.concatenate([[1.0], steps]))
    lag = np.arange(count)[:, None] - np.arange(count)
    return np.where(lag >= 0, coefficients[np.maximum(lag, 0)], 0.0)


def encoded(partition: Partition, frequencies: Array) -> Array:
    """Return the measured vector of a column's frequencies (size,): its indicators as they are, then R h."""
    k = len(partition.indicators)
    if not partition.intervals:
        return frequencies
    return np.concatenate([frequencies[:k], factor(partition.intervals) @ frequencies[k:]])


def decoded(partition: Partition, values: Array) -> Array:
    """Return the frequencies (size,) that measured values imply, without bias."""
    k = len(partition.indicators)
    if not partition.intervals:
        return values
    return np.concatenate([values[:k], inverse(partition.intervals) @ values[k:]])


@lru_cache(maxsize=256)
def diameter(indicators: int, intervals: int) -> float:
    """Return the largest movement, in L2, of a column's measured vector when one row's position changes."""
    if not intervals:
        return float(np.sqrt(2.0)) * ROUNDED_UP if indicators > 1 else 0.0
    R = factor(intervals)
    gram = R.T @ R
    squares = np.diag(gram)
    between = float((squares[:, None] + squares - 2.0 * gram).max())
    if indicators:
        between = max(between, float(squares.max()) + 1.0, 2.0 if indicators > 1 else 0.0)
    return float(np.sqrt(max(between, 0.0))) * ROUNDED_UP
