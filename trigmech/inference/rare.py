"""Rare values that a fit has lost: rows that are added to it, so that weights and imputations can have them. Public.

A fit has no rows of a category whose frequency noise hides, or a few rows that are alike. Weights of rows cannot show
what no row has, so all imputed tables would agree that there is nothing, or that such rows are all alike.
"""

from dataclasses import replace

import numpy as np

from trigmech._arrays import Array, Integers
from trigmech.functions.released_column import ReleasedColumn
from trigmech.measurement.released import Release
from trigmech.reconstruction.constrained import keeps
from trigmech.schema.schema import Schema

# A value may be noise if its frequency in the fit is below so many deviations of the noise in one frequency. Then rows
# of this part of that deviation are added, but at most this part of all rows for a column.
HIDDEN, ADDED, MOST_ADDED = 2.0, 0.5, 0.1
# Numbers of at most so many values count as categories here. Others have tails (:mod:`trigmech.inference.tails`).
FEW = 2


def with_rare(schema: Schema, release: Release, points: Array, rng: np.random.Generator) -> tuple[Release, Array]:
    """Return a release whose columns have some mass at values that noise may hide, and its rows (m, D) with others.

    The added rows are copies of rows drawn evenly, with another value in one column.
    """
    columns, added = list(release.columns), [points]
    for j, column in enumerate(columns):
        parts = _hidden(column, points)
        count = np.ceil(parts * len(points)).astype(np.int64)
        if not count.any():
            continue
        made = _placed(column, np.repeat(np.arange(len(count)), count), points, rng)
        made = made[keeps(schema, made)] if schema.constraints else made
        added.append(made)
        held = np.bincount(column.partition.codes(made), minlength=len(count)) / len(points)
        columns[j] = replace(column, mass=(column.mass + held) / (1.0 + held.sum()))
    return replace(release, columns=tuple(columns)), np.concatenate(added)


def _hidden(column: ReleasedColumn, points: Array) -> Array:
    """Return which part of the rows (size,) is to be added with each value."""
    partition = column.partition
    apart = len(partition.indicators) + (
        partition.intervals if partition.levels is not None and len(partition.levels) <= FEW else 0)
    held = np.bincount(partition.codes(points), minlength=partition.size) / len(points)
    rare = (np.arange(partition.size) < apart) & (held < HIDDEN * column.deviation)
    parts = np.where(rare, ADDED * column.deviation, 0.0)
    return np.asarray(parts * min(1.0, MOST_ADDED / max(float(parts.sum()), np.finfo(float).tiny)))


def _placed(column: ReleasedColumn, codes: Integers, points: Array, rng: np.random.Generator) -> Array:
    """Return copies (q, D) of points with these positions in a column."""
    partition = column.partition
    made = points[rng.integers(len(points), size=len(codes))]
    placed = np.zeros_like(made)
    partition.place(codes, rng.random(len(codes)), placed)
    own = [*partition.indicators, *([] if partition.value is None else [partition.value])]
    made[:, own] = placed[:, own]
    return made
