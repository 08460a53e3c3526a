"""Atoms: intervals of a continuous column whose rows share a single value, and a guess of that value.

If many rows hold one value, the closer look finds a tiny interval with much more mass than its neighbours. The value is
then guessed from public numbers: the shortest decimal in the interval (for a time: the roundest).
"""

import math
from collections.abc import Iterable, Iterator
from decimal import Decimal

import numpy as np

from trigmech._arrays import Array
from trigmech.functions.partition import END
from trigmech.functions.released_column import ReleasedColumn
from trigmech.queries.one_way import Detail
from trigmech.schema.column import Column
from trigmech.schema.encoding import number_at, place_of

# An atom has at least this many times the larger density of the two intervals beside it.
ATOM = 4.0
# Seconds that a time can be a whole number of.
ROUND_TIMES = (86_400, 3_600, 60, 1)


def atoms(column: Column, released: ReleasedColumn, looks: Iterable[Detail]) -> Array:
    """Return for each interval (c,) the place in [-1, 1] of its atom, or NaN if the interval is not an atom.

    The column has bounds; ``looks`` are the closer looks at it. An atom is an interval as narrow as the
    closer look goes, or as an end; its value, mapped to [-1, 1], lies inside it. A special value is never an atom,
    because it has an indicator of its own.
    """
    partition = released.partition
    found = np.full(partition.intervals, np.nan)
    if partition.levels is not None or not len(found):
        return found
    edges = partition.edges
    density = np.pad(released.mass[len(partition.indicators) :] / np.diff(edges), 1)
    high = density[1:-1] > ATOM * np.maximum(density[:-2], density[2:])
    narrow = np.diff(edges) <= END
    for look in looks:
        place = np.minimum(np.searchsorted(look.edges, edges[:-1]), len(look.edges) - 2)
        narrow |= (look.edges[place] == edges[:-1]) & (look.edges[place + 1] == edges[1:])
    for i in np.flatnonzero(high & narrow).tolist():
        ends = number_at(column, edges[i : i + 2]).tolist()
        for value in round_numbers(column, *ends):
            point = float(place_of(column, np.array([value]))[0])
            if edges[i] <= point < edges[i + 1] or point == edges[i + 1] == 1.0:
                if value not in map(column.number, column.special):
                    found[i] = point
                break
    return found


def round_numbers(column: Column, low: float, high: float) -> Iterator[float]:
    """Yield numbers of a column from one to another, in its units, the roundest first."""
    if column.unit:
        steps = [Decimal(step // column.seconds) for step in ROUND_TIMES if step >= column.seconds]
    else:
        most = math.frexp(max(abs(low), abs(high), 1e-300))[1] * 0.30103
        least = -400 if column.kind == "continuous" else 0
        steps = [Decimal(1).scaleb(k) for k in range(math.ceil(most), max(math.floor(most) - 17, least - 1), -1)]
    start, stop = Decimal(repr(low)), Decimal(repr(high))
    for step in steps:
        first, last = math.ceil(start / step), math.floor(stop / step)
        if first <= last:
            # If several are equally round, take the one in the middle.
            middle = int((start + stop) / (2 * step))
            yield float(min(max(middle, first), last) * step)
