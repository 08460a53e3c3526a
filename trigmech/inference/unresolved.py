"""Where numbers lie within the intervals that were measured, which a release does not tell. Public.

A fit spreads an interval's rows as a smooth density would. Many real columns have single values that many rows share,
such as 0 or 40 hours, and then all these rows lie at one place of the interval. Its count shows that there may be such
a value: it is far above the counts beside it. So the part of the count that a smooth density does not explain may lie
at any one place of its interval.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trigmech._arrays import Array
from trigmech.functions.partition import Partition
from trigmech.functions.released_column import ReleasedColumn
from trigmech.measurement.released import Release
from trigmech.queries.one_way import Detail, Look
from trigmech.reconstruction.constrained import ConstrainedRows, keeps
from trigmech.schema.encoding import rounded_within
from trigmech.schema.schema import Schema

# Waves in an interval that stand for one place of it: three show nine tenths of its variance.
WAVES = 3
# The variance of the excess of a count over the mean of two others, in units of the variance of one.
OF_EXCESS = 1.5
# Smaller parts of an interval's rows do not matter. Some rows keep their place, because a column that is constant has
# no correlations.
LEAST_SHARE, MOST_SHARE = 0.02, 0.9


@dataclass(frozen=True, eq=False)
class Unresolved:
    """Measured intervals of one column of which a part of the rows may share one value.

    partition: Its measured intervals.
    shares (c,): The part of each interval's rows that may share one value; 0 if no row does.
    """

    column: int
    partition: Partition
    shares: Array

    def _held(self, points: Array) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return which rows (q,) of points are in these intervals, and in which one each is."""
        inside = self.partition.codes(points).astype(np.int64) - len(self.partition.indicators)
        rows = np.flatnonzero(inside >= 0)
        rows = rows[self.shares[inside[rows]] > 0.0]
        return rows, inside[rows]

    def drawn(self, count: int, rng: np.random.Generator) -> Array:
        """Return where in each interval the shared value of each of ``count`` tables lies (count, c), from 0 to 1.

        They are as even as possible over the tables.
        """
        shape = count, self.partition.intervals
        places = rng.permuted(np.tile(np.arange(count)[:, None], shape[1]), axis=0)
        return np.asarray((places + rng.random(shape)) / count)

    def moved(self, points: Array, fraction: Array, schema: Schema, rng: np.random.Generator) -> Array:
        """Return points (m, D) where a part of the rows of each such interval has the number at a fraction (c,) of it.

        A row that would break a constraint stays as it is.
        """
        rows, inside = self._held(points)
        kept = rng.random(len(rows)) < self.shares[inside]
        rows, inside = rows[kept], inside[kept]
        moved, j = points.copy(), self.partition.value or 0
        self.partition.place(inside + len(self.partition.indicators), fraction[inside], placed := np.zeros(
            (len(inside), points.shape[1])))
        places = placed[:, j]
        if self.partition.levels is None:
            places = rounded_within(schema.columns[self.column], places, self.partition.edges[inside],
                                    self.partition.edges[inside + 1])
        moved[rows, j] = places
        if schema.constraints:
            good = keeps(schema, moved[rows])
            moved[rows[~good]] = points[rows[~good]]
        return moved

    def waves(self, points: Array) -> tuple[Array, Array]:
        """Return functions (m, q) of where the rows lie in each such interval, and how large their means may be (q,).

        Their mean squares are near 1.
        """
        rows, inside = self._held(points)
        edges, levels, j = self.partition.edges, self.partition.levels, self.partition.value or 0
        if levels is None:
            fraction = (points[rows, j] - edges[inside]) / np.diff(edges)[inside]
        else:
            first = self.partition.first_levels
            own = np.searchsorted(levels, points[rows, j])
            fraction = (own - first[inside] + 0.5) / np.diff(first)[inside]
        found, wide = list[Array](), list[float]()
        for i in np.unique(inside):
            own = rows[inside == i]
            part = len(own) / len(points)
            for k in range(1, WAVES + 1):
                wave = np.cos(k * np.pi * fraction[inside == i]) * np.sqrt(2.0 / part)
                values = np.zeros(len(points))
                # Without a mean, because the interval's count is measured.
                values[own] = wave - wave.mean()
                found.append(values)
                wide.append(float(self.shares[i] * np.sqrt(part)))
        return np.array(found).reshape(len(found), len(points)).T, np.array(wide)


def unresolved(release: Release, constrained: ConstrainedRows) -> list[Unresolved]:
    """Return the columns of a release with intervals of which a part of the rows may share one value.

    Intervals with a single level, and those where the fit has an atom already, are left out.
    """
    found = []
    for j, column in enumerate(release.columns):
        look = release.look_at(j)
        if look is None or column.partition.value is None:
            continue
        details = [each.query for each in release.closer if each.query.columns == (j,)]
        partition = _measured(look.query, details)
        shares = excess(column, partition)
        atoms = constrained.atoms(j)
        at = np.searchsorted(partition.edges[1:-1], atoms[~np.isnan(atoms)], side="right")
        shares[at] = 0.0
        if partition.levels is not None:
            shares[np.diff(partition.first_levels) < 2] = 0.0
        if shares.any():
            found.append(Unresolved(j, partition, shares))
    return found


def _measured(query: Look, details: Sequence[Detail]) -> Partition:
    """Return the partition into the finest measured intervals: the details', or those where no sign changes."""
    # The finest parts of an interval of which wider parts were measured tell shared values and nothing else.
    told = [each.edges for each in details if not any(each.divides(other) for other in details)]
    return query.partition.cut(np.unique(np.concatenate([query.resolved, *told])))


def excess(column: ReleasedColumn, partition: Partition) -> Array:
    """Return the part (c,) of the mass of each interval that is above the mean of the densities beside it.

    The square of the excess is reduced by that of the noise.
    """
    k = len(column.partition.indicators)
    below = np.concatenate([[0.0], np.cumsum(column.mass[k:])])
    mass = np.diff(np.interp(partition.edges, column.partition.edges, below))
    if len(mass) < 2:
        return np.full(len(mass), MOST_SHARE)
    length = np.diff(partition.edges)
    density = np.pad(mass / length, 1, mode="reflect")
    over = np.maximum(mass - 0.5 * length * (density[:-2] + density[2:]), 0.0)
    size = np.sqrt(np.maximum(np.square(over) - OF_EXCESS * column.deviation**2, 0.0))
    share = np.divide(size, mass, out=np.zeros_like(mass), where=mass > 0.0)
    return np.where(share > LEAST_SHARE, np.minimum(share, MOST_SHARE), 0.0)
