"""Exchanges of a column's entries between rows in the same cell, in the order of drawn normal values."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from trigmech._arrays import Array, Codes


@dataclass(frozen=True, eq=False)
class Turn:
    """The entries of a column that are exchanged within cells.

    held (m,): Their rows, with the ``cell`` of each and between which values, ``least`` and ``most``, its normal
      variable lies. These do not change; the positions ``codes`` and the values of the variable do.
    ranks (size,): The place of each position, in the order of cells and within them.
    """

    column: int
    held: NDArray[np.int64]
    cell: NDArray[np.int64]
    least: Array
    most: Array
    ranks: NDArray[np.integer]
    codes: Codes
    values: Array

    @classmethod
    def of(cls, column: int, codes: Codes, values: Array, moving: Array, cells: NDArray[np.int64],
           limits: tuple[Array, Array], order: Array) -> "Turn":
        held = np.flatnonzero(moving[codes] >= 0.0)
        own = codes[held]
        cell = cells[own]
        return cls(column, held, cell, limits[0][cell], limits[1][cell], ranks_of(order, cells), own, values[held])


def ranks_of(order: Array, cells: NDArray[np.int64]) -> NDArray[np.integer]:
    """Return the place (size,) of each position, in the order of cells (size,) and within them in the given order."""
    return _short(np.argsort(np.lexsort((order, cells))))


def sorted_within(groups: NDArray[np.int64], values: Array) -> NDArray[np.int64]:
    """Return an order (m,) by groups, and within these by values, which differ."""
    order = np.argsort(values)
    return order[np.argsort(_short(groups)[order], kind="stable")]


def _short(numbers: NDArray[np.int64]) -> NDArray[np.integer]:
    """Return numbers from 0 on in 16 bits where these are enough: they are then sorted by their digits, much faster."""
    return numbers.astype(np.uint16) if numbers.max(initial=0) < 2**16 else numbers


def truncated(means: Array, deviation: float | Array, least: Array, most: Array, rng: np.random.Generator) -> Array:
    """Return normal values (m,) between bounds, by inversion; uniform ones where floats are too coarse for that."""
    # Computed in the lower tail, where distribution functions are exact. In place, because each array is as long as
    # the table.
    low, high = least - means, most - means
    turned = low > 0.0
    other = -high
    np.negative(low, out=high, where=turned)
    np.copyto(low, other, where=turned)
    low /= deviation
    high /= deviation
    a, b, u = ndtr(low), ndtr(high), rng.random(len(means))
    coarse = np.flatnonzero(~(b > a))
    b -= a
    b *= u
    b += a
    made = ndtri(np.clip(b, 1e-300, 1.0 - 1e-16, out=b), out=b)
    made[coarse] = np.clip(low[coarse], -30.0, 30.0) + u[coarse] * 1e-9
    np.clip(made, low, high, out=made)
    np.negative(made, out=made, where=turned)
    made *= deviation
    made += means
    return made


def normal_values(place: Array, rng: np.random.Generator, scores: dict[int, Array] | None = None) -> Array:
    """Return normal scores (m,) of places in random order where they are equal; 0 where they are below 0.

    ``scores`` keeps those of so many places: most columns have equally many.
    """
    held, scores = np.flatnonzero(place >= 0.0), {} if scores is None else scores
    count = len(held)
    if count not in scores:
        scores[count] = ndtri((np.arange(count) + 0.5) / max(count, 1))
    made = np.zeros(len(place))
    made[held[sorted_within(place[held].astype(np.int64), rng.random(count))]] = scores[count]
    return made


def limits_of(groups: NDArray[np.int64], values: Array, count: int) -> tuple[Array, Array]:
    """Return the least and the largest value of each group (count,); infinite for the outermost ones."""
    least, most = np.full(count, np.inf), np.full(count, -np.inf)
    np.minimum.at(least, groups, values)
    np.maximum.at(most, groups, values)
    least[least <= least.min()], most[most >= most.max()] = -np.inf, np.inf
    return least, most
