"""Released columns with more or fewer positions of their numbers."""

from dataclasses import replace

import numpy as np

from trigmech._arrays import Array
from trigmech.functions.released_column import ReleasedColumn
from trigmech.planning.peaks import peaks, wide_intervals
from trigmech.queries.base import parents
from trigmech.queries.one_way import Look


def joined(column: ReleasedColumn, low: float, high: float) -> ReleasedColumn:
    """Return a column with one interval between two numbers."""
    column = cut(column, np.unique(np.concatenate([column.partition.edges, [low, high]])))
    fine, k = column.partition, len(column.partition.indicators)
    whole = fine.cut(fine.edges[(fine.edges <= low) | (fine.edges >= high)])
    mass = np.bincount(whole.holding(fine), column.mass[k:])
    return replace(column, partition=whole, mass=np.concatenate([column.mass[:k], mass]))


def cut(column: ReleasedColumn, edges: Array) -> ReleasedColumn:
    """Return a column cut at further edges; each part's mass is in proportion to its length or levels."""
    partition, k = column.partition, len(column.partition.indicators)
    if partition.value is None or len(edges) == len(partition.edges):
        return column
    if partition.levels is None:
        finer = partition.cut(edges)
        length = np.diff(edges)
    else:
        # Only where a level lies between this end and the next one.
        starts, kept = np.unique(np.searchsorted(partition.levels, edges[:-1]), return_index=True)
        finer = partition.cut(np.append(edges[kept[starts < len(partition.levels)]], edges[-1]))
        first = np.searchsorted(partition.levels, finer.edges[:-1])
        length = np.diff(np.append(first, len(partition.levels))).astype(np.float64)
    parent = parents(finer, partition)[k:] - k
    mass = column.mass[k:][parent] * length / np.bincount(parent, weights=length)[parent]
    return replace(column, partition=finer, mass=np.concatenate([column.mass[:k], mass]))


def with_whole_peaks(column: ReleasedColumn, look: Look, deviation: float) -> ReleasedColumn:
    """Return a column in which some intervals of the look are one position each, to be looked at closer as a whole.

    Where a look counted few wide intervals, a smooth density guesses how many rows each level has, and positions can be
    single levels. A closer look at these would tell nothing, so values that many rows share would stay unknown. An
    interval that stands out probably has such a value. One whose levels are all above the noise has no need of a guess.
    And a guess alone must not decide where the rows of a wide interval are
    (:func:`trigmech.planning.peaks.wide_intervals`).

    deviation: That of the noise of a closer look.
    """
    measured, wide = look.partition, wide_intervals(look, column, deviation)
    if look.encoding == "frequencies":
        for i in np.flatnonzero(peaks(measured, column, deviation)):
            column = joined(column, *measured.edges[i : i + 2].tolist())
    for low, high in wide:
        column = joined(column, low, high)
    return column
