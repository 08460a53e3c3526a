"""The sizes that the first lines of the thesis's algorithms compute from n, d and the smoothness."""

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Sizes:
    """The four numbers of the first line of algorithms 4, 5, 9 and 10.

    degree: t: degrees of one column run from 0 to t - 1.
    grid: N: points of A.
    rows: m: rows of the synthetic table.
    levels: L: numbers are rounded to multiples of 1/L.
    """

    degree: int
    grid: int
    rows: int
    levels: int

    @classmethod
    def of(cls, n: int, d: int, smoothness: int, delta: float | None) -> "Sizes":
        """Return the thesis's sizes, by the formulas of algorithms 4 and 9 if delta is None, else by those of 5 and 10.

        All four are powers of one unit, with the same exponents in both cases. The formulas use n, not n epsilon.
        """
        K = smoothness
        if delta is None:
            unit = n ** (1.0 / (2 * d + K))
        else:
            unit = (n**2 / math.log(1.0 / delta)) ** (1.0 / (3 * d + 2 * K))
        # An error in the last bit of a whole power must not round it up.
        return cls(*(max(1, math.ceil(unit**e * (1.0 - 1e-12))) for e in (1, K, 2 * d + 2 * K + 1, d + K)))
