"""Ranks of values, without scipy.stats, which is slow to load."""

import numpy as np
from numpy.typing import NDArray


def ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the rank of each value (m,), from 1 to m; equal values have the mean of theirs."""
    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2.0)[places]
