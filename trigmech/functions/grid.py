"""The thesis's grid A^d of the cube, and its rounding of numbers to multiples of 1/L."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trigmech._validate import check_integers, numbers
from trigmech.errors import InputError
from trigmech.functions.chebyshev import ChebyshevBasis

MAX_POINTS = 20_000_000


def nodes(N: int) -> NDArray[np.float64]:
    """Return A = {(2k + 1 - N)/N : k = 0, ..., N-1}, the midpoints of N equal parts of [-1, 1]."""
    return (2.0 * np.arange(N) + 1.0 - N) / N


def round_to_grid(X: ArrayLike, N: int) -> NDArray[np.float64]:
    """Return each entry's nearest element of A; of two equally near ones, the lower. Entries outside are clipped."""
    cell = np.ceil((np.asarray(X, dtype=np.float64) + 1.0) * (0.5 * N)) - 1.0
    return (2.0 * np.clip(cell, 0, N - 1) + 1.0 - N) / N


def round_to_levels(values: ArrayLike, L: int) -> NDArray[np.float64]:
    """Return each entry's nearest multiple of 1/L in [-1, 1]; of two equally near ones, the lower."""
    return np.clip(np.ceil(np.asarray(values, dtype=np.float64) * L - 0.5), -L, L) / L


@dataclass(frozen=True)
class Grid:
    """All N^d points of A^d, numbered with the last column running fastest, and never held all at once.

    Parameters
    ----------
    d, N : int
        At least 1, with N^d at most 20 million.

    Raises
    ------
    InputError
        If the grid is too large.

    References
    ----------
    Huang 2014, algorithm 4.
    """

    d: int
    N: int

    def __post_init__(self) -> None:
        check_integers(1, d=self.d, N=self.N)
        if self.d * math.log(self.N) > math.log(MAX_POINTS):
            raise InputError(f"the full grid has N^d = {self.N}^{self.d} points, more than {MAX_POINTS}; use a "
                             "smaller grid, or ImprovedTrigI or ImprovedTrigII, which draw a few of its points")

    def __len__(self) -> int:
        return int(self.N**self.d)

    def take(self, numbers: ArrayLike) -> NDArray[np.float64]:
        """Return the points with the given numbers, shape (len(numbers), d)."""
        cells = np.unravel_index(np.asarray(numbers, dtype=np.int64), (self.N,) * self.d)
        return np.ascontiguousarray(nodes(self.N)[np.stack(cells, axis=1)])

    def local_maxima(self, values: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Return which of the values (N^d,) at all points are at least as large as at their neighbours on each axis."""
        cube = values.reshape((self.N,) * self.d)
        largest = np.ones(cube.shape, dtype=np.bool_)
        for axis in range(self.d):
            ahead = np.moveaxis(cube, axis, 0)
            found = np.moveaxis(largest, axis, 0)
            found[1:] &= ahead[1:] >= ahead[:-1]
            found[:-1] &= ahead[:-1] >= ahead[1:]
        return largest.ravel()

    def combine(self, basis: ChebyshevBasis, coefficients: ArrayLike) -> NDArray[np.float64]:
        """Return sum_r y_r phi_r(x) at all points, by one small matrix product for each column.

        Parameters
        ----------
        basis : ChebyshevBasis of K functions of d columns
        coefficients : array_like (K,)

        Returns
        -------
        ndarray (N^d,)

        Notes
        -----
        Cost: with t the largest degree plus 1, about N^d t (1 + t/N + ...) multiplications instead of N^d K, and
        memory of max(t, N)^d numbers. On Chebyshev nodes this transform is a d-dimensional cosine transform; A is
        evenly spaced in x, not in arccos x, so the transform's matrix is applied as it is.
        """
        y = numbers("coefficients", coefficients, basis.K)
        if basis.d != self.d:
            raise InputError(f"the grid has {self.d} column(s), the basis {basis.d}")
        t = int(basis.index.max()) + 1
        values = np.zeros((t,) * self.d)
        values[tuple(basis.index.T)] = y
        matrix = np.polynomial.chebyshev.chebvander(nodes(self.N), t - 1)
        for _ in range(self.d):
            # The transformed axis goes to the end, so d rounds restore the order of the axes.
            values = np.tensordot(values, matrix, axes=([0], [1]))
        return values.ravel()
