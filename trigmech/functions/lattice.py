"""The lattice of the multiples of 2^-40, to which values of functions of one row are rounded before they are added.

It is fixed beforehand, whatever the number of rows. Sums on it are exact, so they are the same in any order, however
the rows were cut, on any number of threads, processes or machines.
"""

import numpy as np
from numpy.typing import NDArray

BITS = 40
STEP = 2.0**-BITS
# Added to a value of at most 2^11 and taken away again, it leaves the nearest multiple of the step.
ROUNDER = 1.5 * 2.0**52 * STEP
# Floats hold sums of so many rows with values in [-1, 1] exactly.
MOST_ROWS = 2 ** (53 - BITS)


def rounded(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the nearest multiples of the step, half to even, of values in [-1, 1]."""
    return (values + ROUNDER) - ROUNDER


def integers(values: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return multiples of the step as integers; exact for those that floats hold."""
    return (values / STEP).astype(np.int64)
