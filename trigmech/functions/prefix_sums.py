"""The measurement of a column's histogram by prefix sums, so that thresholds share their noise.

The counts h of c intervals are measured as R h with the lower triangular Toeplitz matrix R of the coefficients of
(1 - z)^(-1/2), 1, 1/2, 3/8, 5/16, ...: R R is the matrix of prefix sums, so each prefix sum has an error of
R (noise), whose variance grows with log c alone, where sums of single counts have one that grows with c.

Other positions of the column are measured alone, as they are: indicators, and the ends of a number. Replacing a row
moves it from one position a to another b. So the measured vector moves by E (e_a - e_b). The charge is for the largest
such distance over all pairs of positions. It is computed from the Gram matrix of R, and raised by more than its
rounding.

References
----------
Fichtenberger, Henzinger and Upadhyay 2022, Constant matters; Henzinger, Upadhyay and Upadhyay 2023, for the factor.
"""

from functools import lru_cache

import numpy as np

from trigmech._arrays import Array

ROUNDED_UP = 1.0 + 1e-9


@lru_cache(maxsize=64)
def factor(count: int) -> Array:
    """Return the matrix R (count, count)."""
    return _toeplitz(count, 1.0)


@lru_cache(maxsize=64)
def inverse(count: int) -> Array:
    """Return the inverse of R, which has the coefficients of (1 - z)^(1/2)."""
    return _toeplitz(count, 3.0)


def _toeplitz(count: int, less: float) -> Array:
    """Return the lower triangular matrix of a series whose k-th coefficient is the last one times 1 - less / (2 k)."""
    twice = 2.0 * np.arange(1, count)
    coefficients = np.cumprod(np.concatenate([[1.0], (twice - less) / twice]))
    lag = np.arange(count)[:, None] - np.arange(count)
    return np.where(lag >= 0, coefficients[np.maximum(lag, 0)], 0.0)


@lru_cache(maxsize=256)
def diameter(alone: int, intervals: int) -> float:
    """Return the largest movement, in L2, of a column's measured vector when one row's position changes.

    So many positions are measured ``alone``, as they are, and the intervals by the factor.
    """
    if not intervals:
        return float(np.sqrt(2.0)) * ROUNDED_UP if alone > 1 else 0.0
    R = factor(intervals)
    gram = R.T @ R
    squares = np.diag(gram)
    between = float((squares[:, None] + squares - 2.0 * gram).max())
    if alone:
        between = max(between, float(squares.max()) + 1.0, 2.0 if alone > 1 else 0.0)
    return float(np.sqrt(max(between, 0.0))) * ROUNDED_UP
