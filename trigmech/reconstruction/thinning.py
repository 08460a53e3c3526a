"""Samples of fewer rows than were fitted: the rows that together are most like all fitted ones.

At least 1,024 rows are fitted, so a sample for a small table is a part of them. A random part of 300 rows has errors of
columns and pairs of its own, which for small noise are larger than all others. Here a random part exchanges rows with
the rest while this brings its columns and pairs of columns nearer to those of all fitted rows. The distance is the
maximum mean discrepancy (Gretton et al. 2012) of this kernel: with k_c(x, y) for how alike two rows are in column c,
the sum of all k_c and of k_b k_c over all pairs of columns. Categories are alike if they are the same. Numbers are
alike by their ranks, at a coarse, a middle and a fine scale.

References
----------
Gretton, Borgwardt, Rasch, Schölkopf and Smola 2012, A kernel two-sample test; Dwivedi and Mackey 2021, Kernel thinning,
for the task.
"""

import numpy as np
from numba import njit
from numpy.typing import NDArray

from trigmech._arrays import Array, Codes, Integers
from trigmech.domain import Domain
from trigmech.functions.partition import columns_of

# The most fitted rows: more of them take long, and a random part of so many has small errors.
MOST = 4_096
# Ranks are told apart in so many steps. A number is alike another one at the distance d in ranks by the mean of
# max(0, 1 - d / s) over the scales s.
STEPS, SCALES = 64, (1.0, 1.0 / 4.0, 1.0 / 16.0)
# Each sweep offers every chosen row the best exchange. Some ten sweeps are enough, and then nothing changes any more.
SWEEPS = 30
# An exchange must lower the squared discrepancy, of sums over rows, by more than rounding: this times the rows.
LEAST = 1e-6


class Thinning:
    """Chooses some of the fitted rows.

    domain: The domain of the points.
    points (m, D): 2 to `MOST` fitted rows of equal weights.

    Privacy: post-processing. Cost: for 1,024 rows and 17 columns .02 s and 4 MB; both grow with the square of m.
    """

    def __init__(self, domain: Domain, points: Array) -> None:
        self._kernel = alike(*_codes(domain, points), _by_distance())
        self._wanted = self._kernel.mean(axis=1, dtype=np.float64)

    def nearer(self, chosen: Integers) -> Integers:
        """Return rows (size,) that replace the chosen ones, which must be different. No exchange of one row brings the
        result nearer to all rows."""
        return exchanged(self._kernel, self._wanted, np.array(chosen, dtype=np.int64))


def _codes(domain: Domain, points: Array) -> tuple[Codes, NDArray[np.bool_]]:
    """Return the place (m, columns) of each row in each column, and which columns (columns,) are categories.

    The place of a number is the step of its rank among all numbers; special and missing values follow.
    """
    columns = columns_of(domain)
    codes = np.column_stack([column.codes(points) for column in columns])
    for own, column in zip(codes.T, columns, strict=True):
        k = len(column.indicators)
        if column.value is not None:
            free = own >= k
            _, place, count = np.unique(points[free, column.value], return_inverse=True, return_counts=True)
            # The middle rank of equal numbers.
            ranks = (np.cumsum(count) - 0.5 * count) / max(int(free.sum()), 1)
            own += STEPS
            own[free] = np.minimum((STEPS * ranks).astype(np.int64), STEPS - 1)[place]
    return codes, np.array([column.value is None for column in columns])


def _by_distance() -> Array:
    """Return how alike (STEPS,) two numbers are, by the steps between their ranks."""
    apart = np.arange(STEPS) / STEPS
    return np.mean([np.maximum(0.0, 1.0 - apart / scale) for scale in SCALES], axis=0)


@njit(cache=True)
def alike(codes: Codes, categories: NDArray[np.bool_], by_distance: Array) -> NDArray[np.float32]:
    """Return the kernel (m, m) between all rows."""
    m, d = codes.shape
    kernel = np.empty((m, m), dtype=np.float32)
    for i in range(m):
        for j in range(i + 1):
            total, squares = 0.0, 0.0
            for c in range(d):
                one, other = codes[i, c], codes[j, c]
                if one == other:
                    own = 1.0
                elif categories[c] or one >= len(by_distance) or other >= len(by_distance):
                    own = 0.0
                else:
                    own = by_distance[abs(one - other)]
                total += own
                squares += own * own
            kernel[i, j] = kernel[j, i] = total + 0.5 * (total * total - squares)
    return kernel


@njit(cache=True)
def exchanged(kernel: NDArray[np.float32], wanted: Array, chosen: Integers) -> Integers:
    """Return the rows (size,) after each has been exchanged for the best other one, until no exchange helps.

    The squared discrepancy is, up to a constant, the sum of the kernel between all chosen rows, over size^2, less twice
    the sum of ``wanted`` (m,) over the chosen rows, over size. Cost: a sweep looks at each pair of a chosen row and one
    that is not.
    """
    m, size = len(kernel), len(chosen)
    held, sums = np.zeros(m, dtype=np.bool_), np.zeros(m)
    for i in chosen:
        held[i] = True
        sums += kernel[i]
    for _ in range(SWEEPS):
        exchanges = 0
        for k in range(size):
            i, best, change = chosen[k], -1, -LEAST * size
            own = kernel[i, i] - 2.0 * sums[i] + 2.0 * size * wanted[i]
            for j in range(m):
                if not held[j]:
                    found = own + kernel[j, j] + 2.0 * sums[j] - 2.0 * kernel[i, j] - 2.0 * size * wanted[j]
                    if found < change:
                        best, change = j, found
            if best >= 0:
                held[i], held[best], chosen[k] = False, True, best
                sums += kernel[best]
                sums -= kernel[i]
                exchanges += 1
        if exchanges == 0:
            break
    return chosen
