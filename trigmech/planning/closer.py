"""Closer looks at heavy intervals of columns, by their released distributions. Public."""

from collections.abc import Sequence

import numpy as np

from trigmech.functions.released_column import ReleasedColumn
from trigmech.planning.peaks import FINER, HEAVY, HEAVY_BY_NOISE, MOST_LEVELS, are_wide, known_well, parts_of, peaks
from trigmech.planning.tables import MOST_FINER, TableDesign
from trigmech.queries.base import Measurement
from trigmech.queries.one_way import Detail

# An interval with at most so many levels is heavy by its noise alone. A value that many rows share is found with so
# many standard deviations, also with half of the weight.
SINGLE, FOUND = 4, 16.0
# A light interval is looked at closer if its finer ones have so many rows on average: fewer would show chance alone.
FILLED = 8.0


def closer_looks(design: TableDesign, columns: Sequence[ReleasedColumn],
                 count: int | None = None) -> tuple[Measurement[Detail], ...]:
    """Return the details of heavy intervals, with at most `MOST_FINER` finer intervals together.

    ``count`` is the number of columns of which the noise decides what is heavy, if it is not that of all numbers. If
    fewer columns have details, their noise is less.

    An interval is heavy if the look gives it so many rows that the noise of the finer intervals does not hide them, or
    most rows (:func:`trigmech.planning.peaks.wide_intervals`). A light one is looked at if its finer ones are known
    well, and hold some rows each: the density in there would only be a guess. The last interval comes first, so that
    the division of one does not move the others. One of a few levels need not hold much: round numbers are heavy, and
    where another column changes at them, two levels have rows on both sides. Where a look counted wide intervals, those
    of the column are parts of them, and one may hold all rows of the whole: the rows of the whole count.

    If a wide interval is measured in a few parts, its finest parts are measured, too, where they would show a value
    that all its rows share. Then each of the two has half of the weight. The column's other intervals keep theirs,
    because no row is in two intervals.
    """
    room, deviation = MOST_FINER, design.closer_deviation(count or design.numbers)
    found, twice = list[Detail](), set[tuple[int, int]]()
    for j, (column, look) in enumerate(zip(columns, design.looks, strict=True)):
        partition, k, wide = column.partition, len(column.partition.indicators), are_wide(look.query, column, deviation)
        rows, whole = column.mass[k:], np.zeros_like(wide)
        if look.query.encoding == "frequencies":
            at = look.query.partition.holding(partition)
            rows = np.bincount(at, rows)[at].astype(np.float64)
            alone = np.bincount(at)[at] == 1
            whole = peaks(look.query.partition, column, deviation)[at] & alone
            if partition.levels is not None:
                # A closer look at some of a few levels would leave its noise in the density of all.
                few = np.diff(look.query.partition.first_levels)[at] <= MOST_LEVELS
                rows = np.where(few & ~alone, 0.0, rows)
        for i in np.flatnonzero((rows >= HEAVY_BY_NOISE * deviation) | whole | wide)[::-1].tolist():
            own = float(column.mass[k + i])
            finer = finest = partition.finer(i, FINER)
            if wide[i] and (parts := parts_of(own, deviation, len(finest) - 1)) < len(finest) - 1:
                finer = partition.parts(i, parts, FINER)
            heavy = own >= HEAVY or (partition.levels is not None and len(finer) <= SINGLE + 1)
            known = known_well(own, deviation, len(finest) - 1) and own * design.n >= FILLED * (len(finest) - 1)
            if not (heavy or known) or not 2 < len(finer) <= room + 1:
                continue
            found.append(Detail(j, partition, i, finer))
            room -= len(finer) - 1
            if found[-1].by_parts and own >= FOUND * deviation and len(finest) <= room + 1:
                twice.add((j, i))
                found.append(Detail(j, partition, i, finest))
                room -= len(finest) - 1
    weight = design.closer_weight(max(len({each.column for each in found}), 1))
    return tuple(Measurement(each, weight / (1.0 + ((each.column, each.interval) in twice))) for each in found)
