"""Points of the cube where a combination of basis functions is large, by exact coordinate ascent from many starts.

With all other columns fixed, sum_r y_r prod_i T_{r_i}(x_i) is a polynomial of one variable, whose maximum over [-1, 1]
can be found exactly. Going there, one column after the other, never makes the combination smaller and ends where no
single column can improve it. The largest value over many starts is only a lower bound of the maximum over the cube,
which is hard to compute: even with total degrees up to 2 it is a quadratic program in a box.
"""

from collections import deque

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trigmech._parallel import in_order
from trigmech._validate import numbers
from trigmech.errors import InputError
from trigmech.functions import kernels as _kernels
from trigmech.functions.chebyshev import ChebyshevBasis

Array = NDArray[np.float64]

STARTS_PER_CHUNK = 16
MOST_SWEEPS = 1_000


class CubeSearch:
    """Local maxima over the cube of combinations of one basis.

    Parameters
    ----------
    basis : ChebyshevBasis
        K functions of d columns.
    """

    def __init__(self, basis: ChebyshevBasis) -> None:
        self._basis = basis
        self._offsets, self._degrees = basis.tree.offsets, basis.tree.degrees
        terms, columns = np.nonzero(basis.index)
        degrees = basis.index[terms, columns]
        self._term_starts = np.searchsorted(terms, np.arange(basis.K + 1))
        self._term_features = self._offsets[columns] + degrees - 1
        by_column = np.argsort(columns, kind="stable")
        self._column_starts = np.searchsorted(columns[by_column], np.arange(basis.d + 1))
        self._column_terms = terms[by_column]
        self._column_degrees = degrees[by_column]

    def ascend(self, starts: ArrayLike, coefficients: ArrayLike, tolerance: float = 1e-12) -> tuple[Array, Array]:
        """Go uphill on sum_r y_r phi_r from each start until no column alone gains more.

        Parameters
        ----------
        starts : array_like (m, d)
            Points of the cube.
        coefficients : array_like (K,)
            The y_r; finite.
        tolerance : float
            At least 0: a start ends with the first sweep over all columns that gains no more than this part of
            sum_r abs(y_r), or after 1000 sweeps.

        Returns
        -------
        points : ndarray (m, d)
            Where each start ended, in the cube.
        values : ndarray (m,)
            The combination there; not below its value at the start, but for rounding.

        Raises
        ------
        InputError
            If a shape or a value breaks a rule above.

        Notes
        -----
        Privacy: post-processing of released coefficients.
        Cost: a sweep takes, for each of its columns, a term's other factors: sum over r of the square of the number of
        columns in r; 10 to 100 sweeps are common. The same bits for any number of threads.
        """
        points = np.array(numbers("starts", starts, "m", self._basis.d), dtype=np.float64, order="C")
        # Written so that it also refuses what is not a number.
        if not (np.abs(points) <= 1.0).all():
            raise InputError(f"starts must lie in the cube [-1, 1]^{self._basis.d}, but an entry is outside or not "
                             "a number")
        y = np.ascontiguousarray(numbers("coefficients", coefficients, self._basis.K), dtype=np.float64)
        if not np.isfinite(y).all():
            raise InputError("coefficients must be finite; an entry is not")
        if not 0.0 <= tolerance < np.inf:
            raise InputError(f"tolerance must be finite and at least 0, not {tolerance}")
        least = tolerance * float(np.abs(y).sum())

        def work(start: int, stop: int) -> None:
            _kernels.coordinate_ascent(points[start:stop], y, self._term_starts, self._term_features,
                                       self._column_starts, self._column_terms, self._column_degrees, self._offsets,
                                       self._degrees, least, MOST_SWEEPS)

        deque(in_order(work, len(points), STARTS_PER_CHUNK), maxlen=0)
        return points, self._basis.combine(points, y)
