"""Ranks of values, without scipy.stats, which is slow to load."""

import numpy as np
from numpy.typing import NDArray


def ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the rank of each value (m,), from 1 to m; equal values have the mean of theirs."""
    return ranks_of_places(np.unique(values, return_inverse=True)[1])


def ranks_of_places(places: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the ranks of values by their places (m,) among different values in ascending order, from 0."""
    counts = np.bincount(places)
    found: NDArray[np.float64] = (np.cumsum(counts) - (counts - 1) / 2.0)[places]
    return found
