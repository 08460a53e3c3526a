"""Equal parts of a number's measured intervals, for a smooth density; and intervals with unequal numbers of levels.

A smooth density is estimated on equally many equal parts of each interval. The levels of a number cannot always be
divided so: of 71 levels in 16 intervals some have 5 and others 4, and 3 parts of 4 levels have 2, 1 and 1. A part of
two levels with as many rows as one of a single level would be a comb in the table. So intervals count by the rows of
each level while the density is estimated, and its distribution function tells the rows of parts with unequal numbers
of levels.
"""

import numpy as np

from trigmech._arrays import Array
from trigmech.functions.partition import Partition, even_edges, on_logarithmic_scale

# Where fewer intervals were measured, a smooth density has about this number of equal parts of them. Rows that lie
# evenly in a few wide intervals would make blocks in scatter plots.
FINE = 64
# An interval counts by its levels if it has at least this part of the usual number of them. The noise of a smaller one
# would be too large beside the others.
LEAST_SIZE = 0.45
# Intervals count as equal if so many of them, from the first on, have as many levels.
MOSTLY = 0.85


def equal_parts(partition: Partition) -> int:
    """Return the number of equal parts of each interval, so that there are at least about `FINE`."""
    levels, c = partition.levels, partition.intervals
    parts = (FINE if levels is None else min(FINE, len(levels))) // max(c, 1)
    if levels is not None and parts > 1:
        # On a logarithmic scale the first intervals can hold fewer levels than others.
        parts = min(parts, int(np.diff(partition.first_levels).min()))
    return 1 if c == 0 else max(parts, 1)


def divided(partition: Partition) -> Partition:
    """Return a number's partition with the parts of each interval; the levels of these may differ by one.

    Each interval has as many parts, so intervals of a few levels may stay as they are.
    """
    levels, parts = partition.levels, equal_parts(partition)
    if parts < 2:
        return partition
    edges = [partition.edges]
    for i in range(partition.intervals):
        if levels is None:
            low, high = partition.edges[i : i + 2]
            edges.append(np.linspace(low, high, parts + 1)[1:-1])
        else:
            edges.append(even_edges(partition.levels_in(i), parts)[1:-1])
    return partition.cut(np.sort(np.concatenate(edges)))


def relative_sizes(partition: Partition) -> Array | None:
    """Return the number of levels of each interval (c,), relative to the usual one; None if they hardly differ.

    They are 1 where an interval is too small to count by its levels. Differences of a fifth, a few smaller intervals at
    the end, and levels on a logarithmic scale do not count.
    """
    if partition.levels is None or partition.intervals < 3 or on_logarithmic_scale(partition.levels):
        return None
    count = np.diff(partition.first_levels)
    # If intervals are single levels and ends were counted apart, these are levels of the first and the last interval.
    usual, inner = np.median(count), count[1:-1] if equal_parts(partition) == 1 else count[:-1]
    if 5 * inner.max() <= 6 * inner.min() or (count[: int(MOSTLY * len(count)) + 1] == count[0]).all():
        return None
    return np.where(count < LEAST_SIZE * usual, 1.0, count / usual)


def on_places(partition: Partition, fine: Partition, each: Array) -> Array:
    """Return the mass (c parts,) of each interval of :func:`divided`, from that of parts of equal length.

    Each level has the length 1, and so one of the equal parts of m levels has the length m / parts. On a logarithmic
    scale the parts are about equally long as they are.
    """
    if lengths(partition, fine) is None:
        return each
    parts = len(each) // partition.intervals
    first, inside = partition.first_levels, np.arange(parts + 1) / parts
    ends = np.append((first[:-1, None] + np.diff(first)[:, None] * inside[:-1]).ravel(), first[-1])
    below = np.interp(fine.first_levels, ends, np.concatenate([[0.0], np.cumsum(each)]))
    return np.diff(below)


def lengths(partition: Partition, fine: Partition) -> Array | None:
    """Return the number of levels of each interval (c parts,) of :func:`divided`; None if they do not count."""
    if fine.levels is None or fine.intervals == partition.intervals or on_logarithmic_scale(fine.levels):
        return None
    return np.diff(fine.first_levels).astype(np.float64)
