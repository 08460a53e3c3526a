"""Rows that a fit has lost are added to it, so that weights and imputations can have them. Public.

Weights cannot show rows that a fit does not have. Three kinds are lost. Noise hides the frequency of a rare category,
and the fit has no rows of it, or a few rows that are alike: all imputed tables would agree that there is nothing, or
that such rows are all alike. And a fit has no rows where each measured frequency is below its noise, though all of them
together may be above it: the mean of a column of which most values are 0 and few are large is known far better than the
frequency of any large value. And noise hides rows at a bound itself, such as all incomes above the largest one that was
recorded: half a per cent of the rows there can be half of the column's mean.
"""

from collections.abc import Collection
from dataclasses import replace

import numpy as np

from trigmech._arrays import Array, Integers
from trigmech.functions.partition import Partition
from trigmech.functions.released_column import ReleasedColumn
from trigmech.measurement.released import Release
from trigmech.reconstruction.constrained import keeps
from trigmech.reconstruction.ends import likely_ends, look_with_ends
from trigmech.schema.schema import Schema

# A value may be noise if its frequency in the fit is below so many deviations of the noise in one frequency. Then rows
# of this part of that deviation are added, but at most this part of all rows for a column.
HIDDEN, ADDED, MOST_RARE = 2.0, 0.5, 0.1
# Numbers of at most so many values count as categories here. Others have tails.
FEW = 2
# An end of a number counts as such a value if it is likely that noise hides an atom there. At most the part AT_END of
# the rows is added, or FEW_AT_END rows. They are copies of the part NEAR of the rows that are nearest, and of FEWEST
# rows at least: other rows, or a single one, would contradict the measured tables if they weighed more. All of it was
# found on samples of Adult.
AT_END, FEW_AT_END, NEAR, FEWEST = 0.0005, 4, 0.01, 32
# A mean is off by more than its noise if its square is so many times that of the noise. And a fit never knows its mean
# better than by this part of the square of the noise. Both were set on samples of Adult, and checked on other tables.
EVIDENT, FLOOR = 4.0, 0.04
# At most this part of the rows is added for the tails of a column.
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
        added.append(_kept(schema, made))
        k, length = len(column.partition.indicators), column.partition.lengths
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
    even = query.partition.lengths @ np.square(query.partition.centres - found.mean())
    variance = float(found.var())
    if wanted <= variance or even <= variance:
        return 0.0
    return float(min((wanted - variance) / (even - variance), MOST_ADDED))


def _with_even_numbers(partition: Partition, points: Array, rng: np.random.Generator) -> Array:
    """Return points (q, D) whose number of this column is even over its bounds."""
    codes = len(partition.indicators) + rng.choice(partition.intervals, len(points), p=partition.lengths)
    return _placed(partition, codes, points, rng)


def with_rare(schema: Schema, release: Release, points: Array, rng: np.random.Generator) -> tuple[Release, Array]:
    """Return a release whose columns have some mass at values that noise may hide, and its rows (m, D) with others.

    The added rows are copies of rows drawn evenly, with another value in one column. Those at an end of a number are
    copies of rows near it.
    """
    columns, added = list(release.columns), [points]
    for j, column in enumerate(columns):
        ends = _possible_ends(release, j)
        parts = _hidden(column, points, ends)
        count = np.ceil(parts * len(points)).astype(np.int64)
        if not count.any():
            continue
        codes = np.repeat(np.arange(len(count)), count)
        chosen = rng.integers(len(points), size=len(codes))
        for end, near in ends.items():
            at = codes == end
            chosen[at] = rng.choice(_nearest(points[:, column.partition.value or 0], near), int(at.sum()))
        made = _kept(schema, _placed(column.partition, codes, points[chosen], rng))
        added.append(made)
        held = np.bincount(column.partition.codes(made), minlength=len(count)) / len(points)
        columns[j] = replace(column, mass=(column.mass + held) / (1.0 + held.sum()))
    return replace(release, columns=tuple(columns)), np.concatenate(added)


def _possible_ends(release: Release, j: int) -> dict[int, int]:
    """Return the positions of a column's ends where noise may hide an atom, each with its side: 0 or -1."""
    if (look := look_with_ends(release, j)) is None:
        return {}
    size, k = len(release.columns[j].mass), len(look.query.partition.indicators)
    return {(k, size - 1)[side]: side for side in likely_ends(look)}


def _nearest(numbers: Array, side: int) -> Integers:
    """Return the rows that are nearest to the lower (side 0) or the upper bound (side -1)."""
    count = min(max(int(NEAR * len(numbers)), FEWEST), len(numbers))
    order = np.argsort(numbers, kind="stable")
    return order[:count] if side == 0 else order[-count:]


def _hidden(column: ReleasedColumn, points: Array, ends: Collection[int]) -> Array:
    """Return which part of the rows (size,) is to be added with each value; ``ends`` are positions of atoms."""
    partition = column.partition
    apart = len(partition.indicators) + (
        partition.intervals if partition.levels is not None and len(partition.levels) <= FEW else 0)
    held = np.bincount(partition.codes(points), minlength=partition.size) / len(points)
    rare = (np.arange(partition.size) < apart) & (held < HIDDEN * column.deviation)
    parts = np.where(rare, ADDED * column.deviation, 0.0)
    at_ends = [end for end in ends if not rare[end] and held[end] < HIDDEN * column.deviation]
    parts[at_ends] = min(ADDED * column.deviation, max(AT_END, FEW_AT_END / len(points)))
    return np.asarray(parts * min(1.0, MOST_RARE / max(float(parts.sum()), np.finfo(float).tiny)))


def _placed(partition: Partition, codes: Integers, points: Array, rng: np.random.Generator) -> Array:
    """Return points (q, D) with these positions in a column."""
    placed = np.zeros_like(points)
    partition.place(codes, rng.random(len(codes)), placed)
    own = [*partition.indicators, *([] if partition.value is None else [partition.value])]
    made = points.copy()
    made[:, own] = placed[:, own]
    return made


def _kept(schema: Schema, points: Array) -> Array:
    return points[keeps(schema, points)] if schema.constraints else points
