"""Intervals of a look that are looked at closer as a whole. Public."""

import math

import numpy as np
from numpy.typing import NDArray

from trigmech.functions.partition import Partition
from trigmech.functions.released_column import ReleasedColumn
from trigmech.queries.base import Measurement
from trigmech.queries.one_way import Detail, Look

# An interval is heavy if it holds this fraction of the rows, and this many standard deviations of the noise in the
# finer intervals of a closer look. A lighter one is looked at closer if its finest parts are known well.
HEAVY, HEAVY_BY_NOISE = 1.0 / 64.0, 8.0
# An interval stands out if it is so many times as dense as those beside it. Then it is looked at as a whole if it holds
# this many standard deviations, and has at most so many levels.
PEAK, PEAK_BY_NOISE, MOST_LEVELS = 2.0, 3.0, 16
# The number of finer intervals of an interval without levels.
FINER = 1_024
# An interval is wide if it holds at least LARGE of the rows and LARGE_BY_NOISE standard deviations of a closer look, or
# SECOND and SECOND_BY_NOISE. With less than these, values that many rows share would be lost more often. A few parts of
# it are measured if the noise in all finest parts together is more than a part TELLING of its rows: if they are not
# known well.
LARGE, LARGE_BY_NOISE, SECOND, SECOND_BY_NOISE = 0.5, 4.0, 0.3, 32.0
TELLING, LEAST_PARTS = 1.0 / 6.0, 4


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


def wide_intervals(look: Look, column: ReleasedColumn, deviation: float) -> list[tuple[float, float]]:
    """Return the ends of the intervals of a look that are looked at closer as a whole, at delta = 0.

    A smooth density only guesses the shape in there. If a column is narrow in its bounds, this guess would decide where
    most rows are. An end of the range without an atom belongs to the interval beside it. Signs tell intervals in which
    no sign changes.
    """
    if look.encoding not in ("frequencies", "signs") or column.partition.intervals < 2:
        return []
    edges, k = look.resolved, len(column.partition.indicators)
    if look.ends:
        edges = np.array([edge for edge in edges if edge not in edges[[1, -2]] or edge in column.partition.edges])
    rows = np.diff(np.interp(edges, column.partition.edges, np.concatenate([[0.0], np.cumsum(column.mass[k:])])))
    whole = look.partition.cut(edges)
    finest = np.full(len(rows), FINER) if whole.levels is None else np.diff(whole.first_levels)
    wide = (rows >= max(LARGE, LARGE_BY_NOISE * deviation)) | (rows >= max(SECOND, SECOND_BY_NOISE * deviation))
    wide &= finest >= 4 * LEAST_PARTS
    return [(float(edges[i]), float(edges[i + 1])) for i in np.flatnonzero(wide)]


def are_wide(look: Look, column: ReleasedColumn, deviation: float) -> NDArray[np.bool_]:
    """Return which intervals (c,) of a column are whole ones of :func:`wide_intervals`."""
    edges, wide = column.partition.edges, wide_intervals(look, column, deviation)
    own = zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)
    return np.array([each in wide for each in own], dtype=np.bool_)


def known_well(rows: float, deviation: float, finest: int) -> bool:
    """Return whether the noise in all finest parts of an interval together hides little of its rows."""
    return TELLING * rows >= deviation * math.sqrt(finest)


def parts_of(rows: float, deviation: float, finest: int) -> int:
    """Return the number of parts of a wide interval that a closer look measures: all, if they are known well.

    p parts have the noise p r^2 in each coefficient of their density, for the noise r of a part relative to the
    interval's rows. They leave the coefficients above p open, with 1 / p of the variance that is usual. Both together
    are least at about p = r^(-2/3).
    """
    if known_well(rows, deviation, finest):
        return finest
    return max(LEAST_PARTS, int((rows / deviation) ** (2.0 / 3.0)))


def guessed(column: ReleasedColumn, detail: Measurement[Detail]) -> bool:
    """Return whether a detail is of an interval in which a guess of the density would decide where many rows are."""
    query = detail.query
    rows = float(column.mass[len(column.partition.indicators) + query.interval])
    return detail.law == "laplace" and (query.by_parts or (query.size >= 4 * LEAST_PARTS and rows >= SECOND))
