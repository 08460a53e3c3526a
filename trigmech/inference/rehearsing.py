"""Rehearsals: releases of public tables, from which the errors of fits are known.

A rehearsal releases a public table by the same design, once with noise and once with the opposite noise, and fits rows
to both. The mean of both fits, minus the table, is a bias, because noise that enters linearly cancels. In functions
that are not smooth, the distance of both fits from the table shows how much the release leaves open.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from trigmech._arrays import Array
from trigmech._parallel import in_order
from trigmech.functions.partition import all_codes
from trigmech.functions.released_column import ReleasedColumn
from trigmech.measurement.released import Release
from trigmech.mechanisms.base import Design
from trigmech.mechanisms.rehearsal import rehearsed
from trigmech.reconstruction.constrained import ConstrainedRows
from trigmech.reconstruction.rows import independent_rows
from trigmech.reconstruction.tables import cells_of_columns, copula_of

# Rows of a rehearsal at most.
MOST = 4_096
# Biases are those of so many rehearsals, from the first on: of the smooth table alone. The fit itself has lost a part
# of the relations, so a rehearsal of the fit hardly shows this loss. For correlated numbers it shows a tenth to a half
# of the bias, and the smooth table shows most of it.
BIASED = 1
# Tails that hold less than so many deviations of the noise in one frequency may be empty.
NOISY = 2.0


def rehearsals(release: Release, points: Array, design: Design, rng: np.random.Generator) -> Array:
    """Return two public tables, each with its fits to two releases with opposite noise (2, 3, rows, D).

    The first table is smooth: columns that depend on each other by the release's copula alone. The other one is the
    fit. Both have no rows in tails that may be noise.

    Privacy: post-processing. Cost: four releases and fits of at most 4,096 rows, on all threads.
    """
    release = release.described(design.schema_given)
    constrained = ConstrainedRows(design.schema_given, release.columns, release.closer)
    release = constrained.of(release)
    count = min(len(points), MOST)
    columns = tuple(without_tails(column) for column in release.columns)
    rows = independent_rows([column.mass for column in columns], count, rng)
    copula = copula_of(replace(release, columns=columns))
    if copula is not None:
        copula.arrange(rows, rng)
    constrained.repair(rows, rng)
    # Rows come again as evenly as possible, because rows drawn with replacement would vary more than a table's.
    others = np.resize(rng.permutation(_inside(release.columns, columns, points)), count)
    tables = [constrained.placed(rows, release.domain.d, rng), points[others]]
    seeds = [int(seed) for seed in rng.integers(2**63, size=len(tables))]

    def one(start: int, stop: int) -> Array:
        k, turned = divmod(start, 2)
        return rehearsed(design, tables[k], np.random.default_rng(seeds[k]), turned=bool(turned))

    fitted = list(in_order(one, 2 * len(tables), 1))
    return np.array([[table, *fitted[2 * k : 2 * k + 2]] for k, table in enumerate(tables)])


def without_tails(column: ReleasedColumn) -> ReleasedColumn:
    """Return a released column without the outer positions of its numbers that together hold less than noise may.

    Noise leaves some frequencies in empty tails, and fits spread rows over these tails, which widens columns and
    weakens relations. A rehearsal of a table that already has such tails hardly shows this.
    """
    k = len(column.partition.indicators)
    inside, most = column.mass[k:], NOISY * column.deviation
    if column.partition.value is None:
        return column
    below = np.cumsum(inside)
    kept = np.where((below > most) & (below[-1] - below + inside > most), inside, 0.0)
    if not kept.any():
        return column
    return replace(column, mass=np.concatenate([column.mass[:k], kept * (inside.sum() / kept.sum())]))


def _inside(columns: Sequence[ReleasedColumn], trimmed: Sequence[ReleasedColumn], points: Array) -> NDArray[np.int64]:
    """Return which points have no number in a tail that was left out; all, if each has one."""
    codes = all_codes([column.partition for column in columns], points)
    outside = np.column_stack([((one.mass > 0.0) & (other.mass == 0.0))[own]
                               for one, other, own in zip(columns, trimmed, codes.T, strict=True)])
    inside = np.flatnonzero(~outside.any(axis=1))
    return inside if len(inside) else np.arange(len(points))


def rehearsed_white(release: Release, rehearsed: Array) -> float:
    """Return the variance of a function of mean square 1 that is not smooth, as rehearsals (r, 3, rows, D) show it.

    It is the mean over the cells of all pairs of columns of (p - q)^2 / ((p + q) / 2), for the frequencies p of a
    table and q of a fit, in the rehearsal where it is larger. On made populations it is near the same mean for the
    population and the fit to a release of a sample.
    """
    partitions = [column.partition for column in release.columns]
    found = [_distance(release, [all_codes(partitions, points) for points in each]) for each in rehearsed]
    return max([1.0 / release.n, *found])


def _distance(release: Release, codes: Sequence[NDArray[np.int32]]) -> float:
    """Return the mean distance of the first table's cells to the others'."""
    cells, found = cells_of_columns(release), list[float]()
    held = sorted(cells)
    for place, b in enumerate(held):
        for a in held[:place]:
            count = int(cells[b].max()) + 1
            size = (int(cells[a].max()) + 1) * count
            first, *others = (np.bincount(cells[a][each[:, a]] * count + cells[b][each[:, b]], minlength=size)
                              / len(each) for each in codes)
            for other in others:
                middle = 0.5 * (first + other)
                there = middle > 0.0
                found.append(float((np.square(first - other)[there] / middle[there]).sum())
                             / max(int(there.sum()) - 1, 1))
    return float(np.mean(found)) if found else 0.0
