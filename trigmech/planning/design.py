"""What is measured with one draw of noise, and what the rounding of sums adds to a sensitivity.

Rounding. What is released is computed in floating point, with unit u = 2^-53, and that moves too. A computed phi_r of
total degree Q differs from phi_r by at most 8 Q^2 u: each step of T_q = 2 x T_(q-1) - T_(q-2) errs by at most 5u, which
U_(q-k) <= q - k + 1 carries on, and the product adds Q u. A sum of n computed values is made of at most 800 + n/2^18
additions in a row (`moments`: 512 in a lane, 256 lanes, 16 chunks; parts of 2^18 rows are then added as integers, each
moved to their lattice by less than u/512 of the mean), so a computed mean errs by at most that times 1.01 u. Both
tables err, so each mean moves by at most `rounding` more than without.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trigmech.errors import BudgetError
from trigmech.privacy.budget import Charge

# Scales are raised by this factor, so that rounding can never make the sum of the parts exceed the whole.
UPWARD = 1.0 + 1e-12


@dataclass(frozen=True)
class Block:
    """Moments that share one mechanism call.

    Parameters
    ----------
    members : slice
        Of the functions.
    weights : ndarray
        What each moment is multiplied by before the noise, and divided by after it.
    charge : Charge
    """

    members: slice
    weights: NDArray[np.float64]
    charge: Charge

    def __post_init__(self) -> None:
        # A weight of 0 would release nothing but noise divided by 0, and after it was paid for.
        if not (np.isfinite(self.weights).all() and (self.weights > 0).all()):
            raise BudgetError(f"{self.charge.purpose}: weights must be positive and finite")

    @property
    def deviation(self) -> float:
        """The standard deviation of the noise of an entry of weight 1."""
        if self.charge.law == "gaussian":
            return self.charge.scale
        if self.charge.law == "laplace":
            return math.sqrt(2.0) * self.charge.scale
        K = len(self.weights)
        # r U with r ~ Gamma(K + 1) and U uniform on [-1, 1].
        return math.sqrt((K + 1.0) * (K + 2.0) / 3.0) * self.charge.scale


def rounding(n: int, degree: int) -> float:
    """Return how much further a mean computed in floating point moves than an exact one; see the module's text.

    Parameters
    ----------
    n : int
        Rows.
    degree : int
        The largest total degree of a function.
    """
    unit = 2.0**-53
    return unit * (16.0 * degree**2 / n + 2.02 * (800.0 + n / 2**18))
