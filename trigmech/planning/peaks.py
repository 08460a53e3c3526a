"""Intervals of a look that are looked at closer as a whole. Public."""

import numpy as np
from numpy.typing import NDArray

from trigmech.functions.partition import Partition
from trigmech.functions.released_column import ReleasedColumn

# An interval is heavy if it holds this fraction of the rows, and this many standard deviations of the noise in the
# finer intervals of a closer look.
HEAVY, HEAVY_BY_NOISE = 1.0 / 64.0, 8.0
# An interval stands out if it is so many times as dense as those beside it. Then it is looked at as a whole if it holds
# this many standard deviations, and has at most so many levels.
PEAK, PEAK_BY_NOISE, MOST_LEVELS = 2.0, 3.0, 16


def peaks(measured: Partition, column: ReleasedColumn, deviation: float) -> NDArray[np.bool_]:
    """Return which intervals (c,) of a look that counted few wide ones are looked at as a whole.

    Such an interval has few levels. It stands out, or each of its levels has more rows than noise. ``deviation`` is
    that of a closer look.
    """
    if measured.levels is None or column.partition.intervals < 2:
        return np.zeros(measured.intervals, dtype=np.bool_)
    count, k = np.diff(measured.first_levels), len(column.partition.indicators)
    rows = np.bincount(measured.holding(column.partition), column.mass[k:], measured.intervals)
    density = rows / count
    beside = np.convolve(density, [0.5, 0.0, 0.5], "same")
    beside[[0, -1]] *= 2.0
    stands_out = (density >= PEAK * beside) & (rows >= PEAK_BY_NOISE * deviation)
    return np.asarray((count > 1) & (count <= MOST_LEVELS) & (rows >= HEAVY) & (
        stands_out | (rows >= HEAVY_BY_NOISE * deviation * count)))
