"""Values of rows of positions, without their points of the cube.

A column without a continuous number has finitely many values. Each of them is decoded once, and rows look theirs up: in
wide tables of categories the points take most of the time of further rows. The values are those of the points.
"""

import numpy as np
from numpy.typing import NDArray

from trigmech._arrays import Array, Integers
from trigmech.functions.partition import Partition
from trigmech.schema.column import Column
from trigmech.schema.encoding import Values, decoded, rounded_within


class DrawnValues:
    """The values of one column, whose first coordinate is ``start``.

    Parameters
    ----------
    column : Column
    partition : Partition
        Of the positions.
    start : int
    atoms : ndarray (c,)
        The place of the atom in each interval; NaN without one. Levels have no atoms.
    """

    def __init__(self, column: Column, partition: Partition, start: int, atoms: Array) -> None:
        self._column, self._partition, self._atoms = column, partition, atoms
        # Which indicator each position has.
        self._held = np.array(partition.indicators, dtype=np.int64) - start - (partition.value is not None)
        k = len(self._held)
        self._known: Values | None = None
        if partition.value is None:
            self._known = decoded(column, None, self._held)
        elif partition.levels is not None:
            levels, first = partition.levels, partition.first_levels
            self._known = decoded(column, np.concatenate([np.zeros(k), levels]),
                                  np.concatenate([self._held, np.full(len(levels), -1)]))
            # Among these values, the first that each position has, and how many.
            self._first, self._count = np.concatenate([np.arange(k), k + first[:-1]]), np.concatenate(
                [np.zeros(k), np.diff(first)])

    def of(self, codes: NDArray[np.integer], fraction: Array) -> Values:
        """Return the values (m,) of positions (m,), numbers at a fraction of their interval or of the levels there."""
        if self._known is None:
            return self._numbers(codes, fraction)
        place: Integers = codes.astype(np.int64) if self._partition.value is None else (
            self._first[codes] + (fraction * self._count[codes]).astype(np.int64))
        plain = np.ma.getdata(self._known)[place]
        if not np.ma.isMaskedArray(self._known):
            return plain
        return np.ma.MaskedArray(plain, np.ma.getmaskarray(self._known)[place])

    def _numbers(self, codes: NDArray[np.integer], fraction: Array) -> Values:
        """Return the values of continuous numbers, rounded within their positions."""
        partition, k = self._partition, len(self._held)
        free = np.flatnonzero(codes >= k)
        inside = codes[free] - k
        own, atom = partition.between(inside, fraction[free]), self._atoms[inside]
        own = rounded_within(self._column, np.where(np.isnan(atom), own, atom), partition.edges[inside],
                             partition.edges[inside + 1])
        if len(free) == len(codes):
            return decoded(self._column, own, np.full(len(codes), -1))
        places, held = np.zeros(len(codes)), np.concatenate([self._held, np.full(partition.intervals, -1)])[codes]
        places[free] = own
        return decoded(self._column, places, held)
