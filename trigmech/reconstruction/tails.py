"""Tails of a column: where noise hides its mass, the density falls.

Pieces of equal density (:mod:`trigmech.reconstruction.pieces`) follow a column where it is clear of noise, and a tail
never is: some noise stays far out as mass, which widens the column and weakens its correlations. So at both ends of the
range the intervals that together hold little more than noise get a falling density, a generalised Pareto distribution
(Pickands 1975) with the mass that the pieces give them. Its scale and shape are averaged by their likelihood over a
grid, and the average is weighed against the pieces, each of which has its price, so that a heavy value far out stays.
A smooth density ends where noise hides the mass outside.
"""

from itertools import product

import numpy as np

from trigmech._arrays import Array, Integers

# A tail starts where so many deviations of the noise lie outside, if that is at most this part of the column.
CLEAR, LARGEST = 8.0, 0.05
# Shapes of tails: from nearly bounded ones to those that hardly have a standard deviation. Scales are spread evenly on
# a logarithmic scale, from half an interval to the tail's length.
SHAPES, SCALES = (-0.2, 0.0, 0.2, 0.45), 24
# The price of a piece, in variances of the noise, as where pieces compete with a smooth density.
EVIDENCE = 10.0
# A smooth density ends where less than this part of a standard deviation of the noise is outside, and at most this
# part of its mass.
HIDDEN, LARGEST_HIDDEN = 0.25, 0.0025
# An interval holds something beyond doubt if it holds so many deviations of its noise.
SPIKE = 4.0
# A tail has at least so many intervals; and so many pieces of equal density, each with half of the mass that is left.
FEWEST, HALVES = 8, 7


def with_tails(ends: Integers, each: Array, values: Array, factor: Array, inverse: Array) -> tuple[Integers, Array]:
    """Return a column's masses with tails that fall, and the ends of its pieces.

    ends (p + 1,) of int: The ends of the pieces, 0 and c included.
    each (c,): The mass of each interval by pieces.
    values (c,): The measured numbers of the intervals, in standard deviations of their noise.
    factor, inverse (c, c): The matrix that the intervals were measured by, in the same unit, and its inverse.

    Cost: c^2 additions, and 96 products of a c x t matrix with a vector for a tail of t intervals.
    """
    noise = float(np.sqrt((np.cumsum(inverse, axis=0) ** 2).sum(axis=1).mean()))
    each, c = each.copy(), len(each)
    for turned in (False, True):
        own = each[::-1] if turned else each
        outside = np.cumsum(own[::-1])[::-1]
        start = int(np.searchsorted(-outside, -CLEAR * noise, side="right"))
        mass = float(own[start:].sum())
        if c - start < FEWEST or not 0.0 < mass <= LARGEST * each.sum():
            continue
        columns = (factor[:, ::-1] if turned else factor)[:, start:]
        residual = values - factor @ each + columns @ own[start:]
        pieces = c - ends[::-1] if turned else ends
        # A mass that a single interval holds beyond doubt, as of a value that many rows share, is no part of a tail.
        alone = np.sqrt((inverse**2).sum(axis=1))[::-1 if turned else 1][start:]
        spikes = np.where(own[start:] > SPIKE * alone, own[start:], 0.0)
        made = _averaged(own[start:], spikes, residual, columns, int((pieces > start).sum()))
        if made is not None:
            own[start:] = made
            lone = start + np.flatnonzero(spikes)
            pieces = np.unique(np.concatenate([pieces[pieces < start], start + _falling(made), lone, lone + 1]))
            ends = c - pieces[::-1] if turned else pieces
    return ends, each


def without_tails(each: Array, deviation: float) -> Array:
    """Return a smooth density (c,) that is 0 at both ends of the range, as far as noise hides the mass there.

    The mean over all densities that may be true is above 0 everywhere: far out it holds a third of a standard deviation
    of the noise. In wide bounds, or on a logarithmic scale, this part would rule the column's mean and spread. The
    rest is scaled to the same sum.

    deviation: The standard deviation of the noise of an interval, in the unit of ``each``.
    """
    below = np.cumsum(each)
    total = float(below[-1])
    least = min(HIDDEN * deviation, LARGEST_HIDDEN * total)
    kept = np.where((below > least) & (total - below + each > least), each, 0.0)
    return kept * (total / kept.sum()) if kept.sum() > 0.0 else each


def _falling(tail: Array) -> Integers:
    """Return ends of pieces of a tail, 0 and its length included: each piece has half of the mass that is left."""
    left = np.cumsum(tail[::-1])[::-1] / tail.sum()
    halves = np.searchsorted(-left, -(0.5 ** np.arange(1.0, HALVES + 1.0)))
    return np.unique(np.concatenate([[0], np.maximum(halves, 1), [len(tail)]]))


def _averaged(pieces: Array, spikes: Array, residual: Array, columns: Array, count: int) -> Array | None:
    """Return the masses of a tail's intervals, spikes beside a falling density; None if pieces are likelier."""
    length, mass = len(pieces), max(float(pieces.sum() - spikes.sum()), 0.0)
    places = np.arange(length + 1.0)
    shapes = []
    for shape, scale in product(SHAPES, np.geomspace(0.5, length, SCALES)):
        own = -np.diff(np.exp(-places / scale) if shape == 0.0 else
                       np.maximum(1.0 + shape * places / scale, 0.0) ** (-1.0 / shape))
        shapes.append(spikes + mass * own / own.sum())
    made = np.array(shapes)
    surprise = ((residual[:, None] - columns @ made.T) ** 2).sum(axis=0)
    by_pieces = float(((residual - columns @ pieces) ** 2).sum()) + EVIDENCE * count
    least = float(surprise.min())
    weights = np.exp(-0.5 * (surprise - least))
    total = -2.0 * np.log(weights.mean()) + least + EVIDENCE * np.count_nonzero(spikes)
    if total > by_pieces:
        return None
    return np.asarray(weights @ made / weights.sum())
