"""The released distribution of one column: from then on it is public."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trigmech.functions.partition import Partition

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ReleasedColumn:
    """The released distribution of one column. Public.

    Parameters
    ----------
    partition : Partition
        Its positions.
    mass : ndarray (size,)
        Their probabilities.
    deviation : float
        The standard deviation of the noise in one frequency.
    """

    partition: Partition
    mass: Array
    deviation: float

    @property
    def ranks(self) -> Array:
        """The middle rank (size,) of each position among the numbers, from 0 to 1; NaN for indicators."""
        k = len(self.partition.indicators)
        mass = self.mass[k:]
        total = max(float(mass.sum()), np.finfo(float).tiny)
        return np.concatenate([np.full(k, np.nan), (np.cumsum(mass) - 0.5 * mass) / total])
