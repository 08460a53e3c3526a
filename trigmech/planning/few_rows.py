"""Predicted errors of columns and of pairs where rows are few, from public numbers alone.

Noise in every number is known before anything is measured. The rest is a prior: assumptions about tables in general.

*Columns.* A column's density over the even one has coefficients with mean 0. The variance of cosine a of a number is
OF_COSINES a^-DECAY, and that of each of k - 1 contrasts of k categories is OF_CATEGORIES / (k + 2), at most 1. Prefix
sums with noise of deviation s give cosine a noise of variance pi a s^2, and frequencies give a contrast k s^2. A
measurement with noise of variance w leaves v w / (v + w) of a variance v. The total variation of a column is
VARIATION times the root of the sum of the variances that are left.

*Pairs.* Independent errors add up in squares: BOTH times the square of the columns' mean error, and the square of the
dependence that is not found. Without any measurement it is OF_NUMBERS for two numbers and OF_OTHERS for other pairs.
Directions of rows are a d x d matrix with noise of deviation s. The largest eigenvalue of noise alone is about
2 s sqrt(d). Common factors of all columns are assumed to have the eigenvalue JOINED m + JOINED_OTHERS (d - m) for m
numbers among d columns. With x, the eigenvalue over s sqrt(d), directions find the fraction
FOUND x^2 / (x^2 + CLEAR^2) of the squared dependence.

*Pairs at delta = 0* have products of contrasts of c cells in each column, a matrix of the size D of all contrasts. Two
cells tell the sign of a number. The eigenvalue is then the same times SIGNED, which is 2 / pi for small correlations of
a normal distribution; for pairs with categories it is that of d columns without numbers. Let x be the eigenvalue over
s sqrt(D) CLEAR_SIGNS (2 / c)^SHARPER. Strong pairs are found one by one, too. So with y = ALONE / s, products find the
fraction (1 - UNSEEN / c^2) z / (1 + z) of the squared dependence, for z = x^2 + y^2. More cells show more, but noise
grows with the number of products.

The constants were set on the ten tables of the experiment `small` (178 to 3,918 rows) at epsilon .5, 1 and 3; those at
delta = 0 on eleven tables, seven of them the same and two made up (178 to 5,000 rows), at epsilon .5 to 30, and SHARPER
on nineteen (200 to 20,000 rows, epsilon .3 to 50). There the number of cells that this predicts to be best has errors
of pairs 5 % above those of the best number.
"""

import math
from collections.abc import Sequence

import numpy as np

from trigmech._arrays import Array, Integers
from trigmech.functions.partition import Partition
from trigmech.functions.prefix_sums import diameter

OF_COSINES, DECAY, OF_CATEGORIES, VARIATION = 0.73, 2.4, 2.5, 0.32
BOTH, OF_NUMBERS, OF_OTHERS = 2.2, 0.22, 0.1
JOINED, JOINED_OTHERS, FOUND, CLEAR = 0.35, 0.05, 0.65, 6.7
SIGNED, UNSEEN, CLEAR_SIGNS, SHARPER, ALONE = 0.64, 1.6, 4.0, 0.5, 0.1
# Cosines of higher degrees hardly count. A number has so many intervals at most, for this prediction.
DEGREES, INTERVALS = 31, 64
# Quotients by it, and their squares, stay finite.
TINY = 1e-100


def columns_error(columns: Sequence[Partition], parts: Array, strength: float) -> float:
    """Return the predicted mean total variation of columns.

    ``parts`` (d,) are the lengths of the columns in the vector of the look, of length 1 together, and ``strength`` is n
    times its mu.
    """
    found = []
    for column, part in zip(columns, parts.tolist(), strict=True):
        k, numeric = len(column.indicators), column.value is not None
        count = 0 if not numeric else INTERVALS if column.levels is None else min(len(column.levels), INTERVALS)
        noise = (diameter(k, count) / (part * strength)) ** 2
        degrees = np.arange(1.0, min(count - 1, DEGREES) + 1.0)
        of_a_category = min(OF_CATEGORIES / (k + 2), 1.0)
        variances = OF_COSINES * degrees**-DECAY if numeric else np.full(max(k - 1, 0), of_a_category)
        noises = np.pi * degrees * noise if numeric else k * noise
        found.append(np.sqrt((variances * noises / (variances + noises)).sum()))
    return VARIATION * float(np.mean(found))


def pairs_error(columns: Sequence[Partition], of_columns: float, strength: float) -> float:
    """Return the predicted mean total variation of pairs, given that of columns, and n times the directions' mu."""
    d, m = len(columns), sum(column.value is not None for column in columns)
    squares = (joined(d, m) * strength) ** 2 / d**3
    left = 1.0 - FOUND * squares / (squares + CLEAR**2)
    return of_pairs(of_columns, left * sum(dependences(d, m)))


def of_pairs(of_columns: float, missed: float) -> float:
    """Return the predicted mean total variation of pairs, given that of columns and the squared dependence missed."""
    return math.sqrt(BOTH * of_columns**2 + missed)


def dependences(d: int, m: int) -> tuple[float, float]:
    """Return the mean squared dependence of pairs of numbers, and of other pairs, of d columns with m numbers."""
    numbers = m * (m - 1) / (d * (d - 1))
    return numbers * OF_NUMBERS**2, (1.0 - numbers) * OF_OTHERS**2


def joined(d: int, m: int) -> float:
    """Return the assumed eigenvalue of the common factors of ``d`` columns, of which ``m`` are numbers."""
    return JOINED * m + JOINED_OTHERS * (d - m)


def missed_by_contrasts(cells: Integers, m: int, most: int, noise: float) -> float:
    """Return the predicted mean squared dependence of pairs that products of contrasts miss.

    The columns have so many ``cells`` (d,), at most ``most``; ``m`` are numbers; each product has noise of a deviation.
    Pairs with categories have the eigenvalue of as many columns without numbers.
    """
    d, clear = len(cells), CLEAR_SIGNS * (2.0 / most) ** SHARPER
    of_noise = max(noise * math.sqrt(max(int((cells - 1).sum()), 1)), TINY)

    def missed(eigenvalue: float) -> float:
        seen = (SIGNED * eigenvalue / (clear * of_noise)) ** 2 + (ALONE / max(noise, TINY)) ** 2
        return 1.0 - (1.0 - UNSEEN / most**2) * seen / (1.0 + seen)

    return sum(own * missed(joined(d, each)) for own, each in zip(dependences(d, m), (m, 0), strict=True))
