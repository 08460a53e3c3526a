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
from trigmech.functions.released_column import ReleasedColumn

# The prior probability that an end is an atom. Where noise alone is measured, an end gets more than half of the
# probability in about 2 of 10,000 cases if normal noise is a fiftieth of the rows, and in 4 with Laplace's.
PRIOR = 0.03
# A smaller part of the rows at an end joins those beside it. It would not be seen in a plot, but every table would have
# one more position.
LEAST_ATOM = 1.0 / 128.0
# Atoms that noise may hide: how likely one is, its mean share, and the grid of shares on which it is looked for.
LIKELY, SMALL, FURTHEST, STEPS, LARGEST_LOGARITHM = 0.25, 0.01, 8.0, 800, 600.0
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
    scale = min(max(deviation, 1e-150), 1.0)
    possible = (np.arange(STEPS) + 0.5) * (FURTHEST * SMALL / STEPS)
    prior = np.exp(-possible / SMALL)
    away = np.abs(np.clip(shares, -1.0, 1.0)[:, None] - np.append(0.0, possible)) / scale
    surprise = 0.5 * away**2 if normal else math.sqrt(2.0) * away
    # The density of the noise at each share, over that without an atom. A share above 0 can be far likelier.
    likelier = np.clip(surprise[:, :1] - surprise[:, 1:], None, LARGEST_LOGARITHM)
    odds = LIKELY / (1.0 - LIKELY) * (np.exp(likelier) @ (prior / prior.sum()))
    return np.asarray(odds / (1.0 + odds))


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


def put_back(partition: Partition, column: ReleasedColumn, atoms: NDArray[np.bool_]) -> ReleasedColumn:
    """Return a column of :func:`beside` with its ends as intervals again.

    An end that is no atom joins the interval beside it. A position of the column that lies within an atom joins the one
    beside it, because its rows were counted outside of the end.
    """
    k, low, high = len(partition.indicators), partition.edges[1], partition.edges[-2]
    below, above = atoms & (column.mass[k : k + 2] >= LEAST_ATOM)
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
