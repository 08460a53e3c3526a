"""Pieces of equal density: the histogram of a column where noise hides all that is finer.

Intervals are joined to as many pieces as the noise allows (least squares with a price for each piece, by dynamic
programming). At the pieces' ends the distribution function is the isotonic regression of the noisy one.
"""

from itertools import pairwise

import numpy as np
from numba import njit
from scipy.interpolate import PchipInterpolator
from scipy.optimize import isotonic_regression

from trigmech._arrays import Array, Integers
from trigmech.functions import prefix_sums
from trigmech.functions.released_column import SLACK

# A position of several measured intervals holds at most about this fraction of the rows.
LARGEST_PLACE = 1.0 / 128.0
# The price of a piece of equal density, in variances of the noise; and the largest distance of the distribution
# function from the chord of a piece, in standard deviations. These values gave the least errors on simulated tables.
PRICE, CORNER = 8.0, 3.0
# Near its ends a distribution function counts as noise while its square is at most TAIL times the noise's variance.
# LARGEST_NOISE caps this noise. Without a cap, large noise would leave only the middle of a column.
TAIL, LARGEST_NOISE = 3.0, 0.03


def joined_to_pieces(frequencies: Array, inverse: Array, rest: float, deviation: float,
                     cumulative: bool) -> tuple[Integers, Array]:
    """Return the ends of pieces of equal density, and the mass (c,) of each interval."""
    c = len(frequencies)
    own = deviation * float(np.sqrt((inverse[-1] ** 2).sum()))
    below = np.concatenate([[0.0], np.cumsum(frequencies)])
    ends = pieces(np.clip(frequencies / own, -1e140, 1e140), PRICE)
    ends = _with_corners(below, ends, CORNER * deviation)
    above = _without_noise_in_tails(below[ends], rest, deviation)
    # The values at both ends are known, and all others lie between them.
    inner = np.clip(isotonic_regression(above[1:-1]).x, 0.0, rest) if len(ends) > 2 else np.empty(0)
    masses = np.diff(np.concatenate([[0.0], inner, [rest]]))
    return ends, _smoothed(ends, masses, frequencies, prefix_sums.factor(c) if cumulative else np.eye(c))


def _without_noise_in_tails(above: Array, rest: float, deviation: float) -> Array:
    """Return a distribution function whose tails are shrunk at both ends where they can be noise.

    Noise far out in the tails would widen the column, and would weaken its measured dependence on other columns.
    """
    deviation = min(deviation, LARGEST_NOISE)

    def shrunk(part: Array) -> Array:
        noise = np.where(part > deviation, deviation / np.maximum(part, 1e-100), 1.0)
        return part * np.maximum(0.0, 1.0 - TAIL * noise**2)

    return np.where(above < 0.5 * rest, shrunk(above), rest - shrunk(rest - above))


def _smoothed(ends: Integers, masses: Array, frequencies: Array, factor: Array) -> Array:
    """Return the mass (c,) of each measured interval: even in a piece, or smooth if this fits as well or better.

    The smooth version is the monotone interpolation of the distribution function between the ends of pieces. The fits
    are compared on the measured scale: the factor times the noisy frequencies (c,). This is done piece by piece,
    heaviest first. So a column without steps gets no steps, and a column with steps keeps them.
    """
    width = np.diff(ends)
    each = np.repeat(masses / width, width)
    below = PchipInterpolator(ends, np.concatenate([[0.0], np.cumsum(masses)]))
    smooth = np.maximum(np.diff(below(np.arange(ends[-1] + 1))), 0.0)
    residual = factor @ (frequencies - each)
    for p in np.argsort(-masses, kind="stable"):
        part = slice(ends[p], ends[p + 1])
        change = factor[:, part] @ (smooth[part] - each[part])
        if 2.0 * residual @ change > change @ change:
            residual -= change
            each[part] = smooth[part]
    return each


def places_of(measured: Array, ends: Integers, each: Array) -> tuple[Array, Array]:
    """Return the edges of positions. Each holds at most about `LARGEST_PLACE`, or is a single measured interval.

    A piece is cut between intervals only, because the places of rows within an interval are unknown.
    """
    edges, made = [measured[:1]], []
    for start, stop in pairwise(ends.tolist()):
        below = np.concatenate([[0.0], np.cumsum(each[start:stop])])
        count = max(1, min(int(np.ceil(below[-1] / LARGEST_PLACE - SLACK)), stop - start))
        # The positions have about equal mass. A heavy interval is its own position.
        alone = np.flatnonzero(np.diff(below) >= LARGEST_PLACE * (1.0 - SLACK))
        even = np.interp(np.linspace(0.0, below[-1], count + 1)[1:-1], below, np.arange(len(below)))
        # A tie goes to the even interval, so that cuts do not lean to one side.
        even = np.rint(SLACK * np.rint(even / SLACK))
        cuts = np.unique(np.concatenate([[0, stop - start], alone, alone + 1, even])).astype(np.int64)
        edges.append(measured[start + cuts[1:]])
        made.append(np.diff(below[cuts]))
    return np.concatenate(edges), np.concatenate(made)


@njit(cache=True)
def pieces(values: Array, price: float) -> Integers:
    """Return the ends of the pieces of the best piecewise constant fit, with 0 and len(values).

    The best fit minimises the sum of squares plus a price for each piece. Cost: len(values)^2 / 2.
    """
    m = len(values)
    sums, squares = np.zeros(m + 1), np.zeros(m + 1)
    for i in range(m):
        sums[i + 1] = sums[i] + values[i]
        squares[i + 1] = squares[i] + values[i] * values[i]
    best, back = np.full(m + 1, np.inf), np.zeros(m + 1, dtype=np.int64)
    best[0] = 0.0
    for stop in range(1, m + 1):
        for start in range(stop):
            total = sums[stop] - sums[start]
            cost = best[start] + squares[stop] - squares[start] - total * total / (stop - start) + price
            if cost < best[stop]:
                best[stop], back[stop] = cost, start
        if best[stop] == np.inf:
            best[stop], back[stop] = best[stop - 1], stop - 1
    ends = [m]
    while ends[-1] > 0:
        ends.append(back[ends[-1]])
    return np.array(ends[::-1])


@njit(cache=True)
def _with_corners(values: Array, ends: Integers, tolerance: float) -> Integers:
    """Add ends until all values are within the tolerance of their chords. Return all ends."""
    keep = np.zeros(len(values), dtype=np.bool_)
    keep[ends] = True
    start = 0
    while start < len(values) - 1:
        stop = start + 1
        while not keep[stop]:
            stop += 1
        furthest, corner = tolerance, -1
        for i in range(start + 1, stop):
            chord = values[start] + (values[stop] - values[start]) * (i - start) / (stop - start)
            if abs(values[i] - chord) > furthest:
                furthest, corner = abs(values[i] - chord), i
        if corner < 0:
            start = stop
        else:
            keep[corner] = True
    return np.flatnonzero(keep)
