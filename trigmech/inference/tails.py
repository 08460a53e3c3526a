"""Tails that a fit has lost: rows that are added to it, so that weights and imputations can have these tails. Public.

A fit has no rows where each measured frequency is below its noise. But all of them together may be above it: the mean
of a column of which most values are 0 and few are large is known far better than the frequency of any large value.
Weights of rows cannot show what no row has.
"""

from dataclasses import replace

import numpy as np

from trigmech._arrays import Array
from trigmech.functions.partition import Partition
from trigmech.measurement.released import Release
from trigmech.reconstruction.constrained import keeps
from trigmech.schema.schema import Schema

# A mean is off by more than its noise if its square is so many times that of the noise. And a fit never knows its mean
# better than by this part of the square of the noise. Both were set on samples of Adult, and checked on other tables.
EVIDENT, FLOOR = 4.0, 0.04
# At most this part of the rows is added for a column.
MOST_ADDED = 0.2
# Hostile noise must not make numbers infinite.
LARGEST, FURTHEST = 1e200, 1e6


def with_tails(schema: Schema, release: Release, points: Array, smooth: float, rng: np.random.Generator
               ) -> tuple[Release, Array]:
    """Return a release whose columns have some mass everywhere, and its rows (m, D) with others that are added.

    ``smooth`` is how much a mean may be wrong, in deviations of the number. A column gets so many rows that its mean
    may be wrong by as much as it is judging by its measured frequencies, or at least by their noise. The added rows are
    copies, with a number that is drawn evenly. A column whose deviation is large enough gets no rows.
    """
    columns, added = list(release.columns), [points]
    for j, column in enumerate(columns):
        part = _missing(release, j, points, smooth)
        if not part:
            continue
        made = _with_even_numbers(column.partition, points[rng.integers(len(points), size=round(
            np.ceil(part / (1.0 - part) * len(points))))], rng)
        added.append(made[keeps(schema, made)] if schema.constraints else made)
        k, length = len(column.partition.indicators), _lengths(column.partition)
        free = float(column.mass[k:].sum()) * length
        columns[j] = replace(column, mass=np.concatenate(
            [column.mass[:k], (1.0 - part) * column.mass[k:] + part * free]))
    return replace(release, columns=tuple(columns)), np.concatenate(added)


def _missing(release: Release, j: int, points: Array, smooth: float) -> float:
    """Return which part of the rows is to have even numbers."""
    look = release.look_at(j)
    if look is None or not look.query.tells_frequencies or look.query.partition.value is None:
        return 0.0
    query = look.query
    place = np.concatenate([np.zeros(len(query.partition.indicators)), query.partition.centres])
    found = place[query.partition.codes(points)]
    measured = float(place @ np.clip(look.means.ravel(), -LARGEST, LARGEST))
    off = min(abs(measured - float(found.mean())), FURTHEST)
    noise = min(look.deviation * float(query.noise_of(place)), FURTHEST)
    wanted = max(off**2 - EVIDENT * noise**2, FLOOR * noise**2) / smooth**2
    even = _lengths(query.partition) @ np.square(query.partition.centres - found.mean())
    variance = float(found.var())
    if wanted <= variance or even <= variance:
        return 0.0
    return float(min((wanted - variance) / (even - variance), MOST_ADDED))


def _lengths(partition: Partition) -> Array:
    """Return each interval's part (c,) of the length, or of the levels."""
    length = np.diff(partition.edges if partition.levels is None else partition.first_levels)
    return np.asarray(length / length.sum())


def _with_even_numbers(partition: Partition, points: Array, rng: np.random.Generator) -> Array:
    """Return points (q, D) whose number of this column is even over its bounds."""
    points = points.copy()
    points[:, list(partition.indicators)] = 0.0
    codes = len(partition.indicators) + rng.choice(partition.intervals, len(points), p=_lengths(partition))
    placed = np.zeros_like(points)
    partition.place(codes, rng.random(len(points)), placed)
    points[:, partition.value or 0] = placed[:, partition.value or 0]
    return points
