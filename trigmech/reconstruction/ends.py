"""The ends of a number: how many rows hold a bound itself, from counts with noise.

Many rows can hold a bound: 0 if nothing was earned, or the bound at which larger values were cut. Then the bound is an
atom. Without an atom hardly any row holds it, and a count there is noise alone. An end is an atom with the probability
`PRIOR`, and then every share of the rows is equally likely. An end that is no atom is empty if the number has no
levels; otherwise it is one level, which has about as many rows as others.
"""

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, ndtr

from trigmech._arrays import Array
from trigmech.functions.partition import Partition
from trigmech.functions.partition import with_ends as ends_apart
from trigmech.functions.released_column import ReleasedColumn
from trigmech.measurement.released import Release
from trigmech.queries.base import Measurement
from trigmech.queries.one_way import Look

# The prior probability that an end is an atom. Where noise alone is measured, an end gets more than half of the
# probability in about 2 of 10,000 cases if normal noise is a fiftieth of the rows, and in 4 with Laplace's.
PRIOR = 0.03
# A smaller part of the rows at an end joins those beside it. It would not be seen in a plot, but every table would have
# one more position.
LEAST_ATOM = 1.0 / 128.0
# Atoms that noise may hide: how likely one is, its mean share, and the grid of shares on which it is looked for.
LIKELY, SMALL, FURTHEST, STEPS, LARGEST_SURPRISE = 0.25, 0.01, 8.0, 800, 1e300
# An end is looked at in answers if an atom there is as likely as this. Noise would be added to answers about any other.
POSSIBLE = 0.3
SHARES = (np.arange(STEPS) + 0.5) * (FURTHEST * SMALL / STEPS)
# With 2 or 5, Kolmogorov-Smirnov distances of each of seven simulated kinds of whole numbers differ by 4 % at most.
SPREAD = 3.0


def atom_probabilities(shares: Array, deviation: float, normal: bool) -> Array:
    """Return the probability (ends,) that each end is an atom, from the shares of rows there with noise.

    The noise is normal, or Laplace's.
    """
    scale, positive = max(deviation, 1e-150), shares > 0.0
    # More than all rows are as clearly an atom as all of them.
    shares = np.clip(shares, 0.0, 1.0)
    z = shares / scale
    # The density of a share with noise, over that of noise alone: between 0 and 1 each share is equally likely.
    if normal:
        even, alone = ndtr((1.0 - shares) / scale) - ndtr(-z), -0.5 * z**2 - np.log(scale * np.sqrt(2.0 * np.pi))
    else:
        z *= np.sqrt(2.0)
        even = 1.0 - 0.5 * (np.exp(-z) + np.exp(z - np.sqrt(2.0) / scale))
        alone = -z - np.log(np.sqrt(2.0) * scale)
    odds = np.log(PRIOR / (1.0 - PRIOR)) + np.log(np.maximum(even, 1e-300)) - alone
    return np.where(positive, expit(odds), 0.0)


def hidden_atom_probabilities(shares: Array, deviation: float, normal: bool) -> Array:
    """Return the probability (ends,) that noise hides an atom at each end, from the shares of rows there with noise.

    Before the shares are known, this probability is `LIKELY`, and the atom's share is exponential with mean `SMALL`: a
    real column often has some rows at a bound where larger values were cut. The noise is normal, or Laplace's.
    """
    return np.asarray(1.0 - _hidden_atoms(shares, deviation, normal)[:, 0])


def hidden_atoms_at(at: Array, shares: Array, deviation: float, normal: bool) -> Array:
    """Return the share (ends,) of the atom that noise may hide at each end; 0 without one.

    at (ends,): Where in the distribution of this share it is taken, from 0 to 1. Even numbers draw it.
    """
    below = np.cumsum(_hidden_atoms(shares, deviation, normal), axis=1)
    place = (below < at[:, None]).sum(axis=1)
    return np.append(0.0, SHARES)[np.minimum(place, STEPS)]


def _hidden_atoms(shares: Array, deviation: float, normal: bool) -> Array:
    """Return the probabilities (ends, STEPS + 1) of no atom, and of each possible share of one."""
    prior = np.exp(-SHARES / SMALL)
    prior = np.concatenate([[1.0 - LIKELY], LIKELY * prior / prior.sum()])
    away = np.abs(np.clip(shares, -1.0, 1.0)[:, None] - np.append(0.0, SHARES)) / min(max(deviation, 1e-150), 1.0)
    surprise = np.minimum(0.5 * away**2 if normal else math.sqrt(2.0) * away, LARGEST_SURPRISE)
    likely = prior * np.exp(surprise.min(axis=1)[:, None] - surprise)
    return np.asarray(likely / likely.sum(axis=1)[:, None])


def ordinary_shares(partition: Partition, ends: Array, deviation: float) -> Array:
    """Return the share (2,) of rows that each end has if it is no atom, from the shares there (2,) with noise.

    One of L levels is assumed to have 1 / L of the rows, and a share that differs from this by SPREAD / L (the standard
    deviation of a normal prior). An end of a number without levels has no width, and no share.
    """
    if partition.levels is None:
        return np.zeros(2)
    usual = 1.0 / len(partition.levels)
    told = 1.0 / (1.0 + (deviation / (SPREAD * usual)) ** 2)
    return np.asarray(usual + told * (ends - usual))


def beside(partition: Partition) -> Partition:
    """Return a partition with ends in which these are two more indicators, before the inner intervals."""
    value = partition.value or 0
    return replace(partition, indicators=(*partition.indicators, value, value),
                   edges=np.concatenate([[-1.0], partition.edges[2:-2], [1.0]]))


def put_back(partition: Partition, column: ReleasedColumn, atoms: NDArray[np.bool_],
             least: float = LEAST_ATOM) -> ReleasedColumn:
    """Return a column of :func:`beside` with its ends as intervals again.

    An end that is no atom, or has less than the part ``least`` of the rows, joins the interval beside it. A position of
    the column that lies within an atom joins the one beside it, because its rows were counted outside of the end.
    """
    k, low, high = len(partition.indicators), partition.edges[1], partition.edges[-2]
    below, above = atoms & (column.mass[k : k + 2] >= least)
    edges = column.partition.edges
    kept = ~((below & (edges <= low)) | (above & (edges >= high)))
    kept[[0, -1]] = True
    edges, mass = edges[kept], np.add.reduceat(column.mass[k + 2 :], np.flatnonzero(kept[:-1]))
    joined = np.where([below, above], 0.0, column.mass[k : k + 2])
    mass[0] += joined[0]
    mass[-1] += joined[1]
    edges = np.concatenate([edges[:1], [low] if below else [], edges[1:-1], [high] if above else [], edges[-1:]])
    at_low, at_high = column.mass[k : k + 1][: int(below)], column.mass[k + 1 : k + 2][: int(above)]
    return ReleasedColumn(partition.cut(edges), np.concatenate([column.mass[:k], at_low, mass, at_high]),
                          column.deviation)


def likely_ends(look: Measurement[Look]) -> list[int]:
    """Return at which ends of a number, 0 and -1, a hidden atom is at least as likely as `POSSIBLE`."""
    query = look.query
    found = hidden_atom_probabilities(look.known[[len(query.partition.indicators), -1]], look.deviation,
                                      query.encoding == "sums")
    return [side for side, own in zip((0, -1), found.tolist(), strict=True) if own >= POSSIBLE]


def with_ends(release: Release) -> Release:
    """Return a release in which each end of a number that was measured alone is a position of its own."""
    columns = [_with_ends(column) if look_with_ends(release, j) else column
               for j, column in enumerate(release.columns)]
    return release.on(columns) if any(a is not b for a, b in zip(columns, release.columns, strict=True)) else release


def look_with_ends(release: Release, j: int) -> Measurement[Look] | None:
    """Return the look at a column if its ends were measured alone."""
    look = release.look_at(j)
    return look if look is not None and look.query.tells_frequencies and look.query.ends else None


def _with_ends(column: ReleasedColumn) -> ReleasedColumn:
    """Return a column whose first and last interval are ends; the density within each interval stays even."""
    partition, k = column.partition, len(column.partition.indicators)
    edges = ends_apart(partition.levels, partition.edges)
    if edges is None:
        return column
    finer = partition.cut(edges)
    whole, length = np.searchsorted(partition.edges[1:-1], edges[:-1], side="right"), finer.lengths
    total = np.bincount(whole, length, partition.intervals)
    return replace(column, partition=finer, mass=np.concatenate(
        [column.mass[:k], column.mass[k:][whole] * length / total[whole]]))
