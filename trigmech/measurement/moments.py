"""PRIVATE. Exact sums over the rows of a table, in one pass; the only input of the release."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from trigmech.errors import InputError
from trigmech.functions.chebyshev import ChebyshevBasis
from trigmech.functions.features import FunctionSet, exact_means
from trigmech.functions.grid import round_to_grid
from trigmech.measurement.rows import PrivateRows

ROWS_AT_A_TIME = 2**18


@dataclass(frozen=True, eq=False)
class PrivateMoments:
    """Sums over rows. Never shown, never saved: only ``release`` may read them.

    Parameters
    ----------
    n : int
        Number of rows; public.
    basis_sum : ndarray (K,), private
        Sum of each basis function over the (discretised) rows.
    first : ndarray (d,), private
        Sum of the rows as they are; empty unless asked for.
    second : ndarray (d, d), private
        Sum of x x^T over the rows as they are; empty unless asked for.
    functions : FunctionSet
        What the sums are of; public.
    """

    n: int
    basis_sum: NDArray[np.float64]
    first: NDArray[np.float64]
    second: NDArray[np.float64]
    functions: FunctionSet

    def __repr__(self) -> str:
        return f"PrivateMoments(n={self.n}, K={len(self.basis_sum)}, values hidden)"


def measure(rows: PrivateRows | NDArray[np.float64], basis: FunctionSet, grid: int | None = None,
            covariance: bool = False) -> PrivateMoments:
    """Return the sums that a mechanism needs, in one pass over fixed chunks of rows.

    Parameters
    ----------
    rows : PrivateRows or ndarray (n, d), private
    basis : ChebyshevBasis or Features
        Functions of d columns.
    grid : int, optional
        Evaluate the basis at the points rounded to A^d with this N, as the thesis does.
    covariance : bool
        Also sum x and x x^T, of the rows as they are.

    Returns
    -------
    PrivateMoments

    Raises
    ------
    InputError
        If the rows are not (k, d) arrays of numbers in the cube, or do not keep to their domain, or are fewer than 2 or
        not n.

    Notes
    -----
    Privacy: exact, hence private.
    Cost: K (and, for the covariance, d^2/2) multiplications and additions a row; memory does not grow with n.
    The sums of chunks are rounded to a lattice with a step of n / 2^62 to n / 2^61 and added as integers, so that the
    total does not depend on their order; that moves a mean by at most 2^-62 (1 + n / 2^18), far below the rounding of
    the sums themselves.
    """
    if not isinstance(rows, PrivateRows):
        rows = PrivateRows.of(rows)
    if rows.n < 2:
        raise InputError(f"a release needs at least 2 rows; the table has {rows.n}")
    step = 2.0 ** (int(rows.n - 1).bit_length() - 62)
    total: list[NDArray[np.int64]] = []
    seen = 0
    for part in _regular(rows.chunks(), ROWS_AT_A_TIME):
        rows.domain.check(part)
        sums = _measure_rows(part, basis, grid, covariance)
        integers = [np.rint(values / step).astype(np.int64) for values in (sums.basis_sum, sums.first, sums.second)]
        total = [a + b for a, b in zip(total, integers, strict=True)] if total else integers
        seen += len(part)
    if seen != rows.n:
        raise InputError(f"the table was said to have {rows.n} rows and has {seen}; was it changed in the meantime?")
    basis_sum, first, second = (values.astype(np.float64) * step for values in total)
    return PrivateMoments(rows.n, basis_sum, first, second, basis)


def _regular(chunks: Iterable[NDArray[np.float64]], size: int) -> Iterator[NDArray[np.float64]]:
    """Yield the same rows in chunks of ``size``, but for the last: sums must not depend on how a file was cut."""
    waiting: list[NDArray[np.float64]] = []
    held = 0
    for chunk in chunks:
        start = 0
        while start < len(chunk):
            piece = chunk[start : start + size - held]
            start += len(piece)
            held += len(piece)
            waiting.append(piece)
            if held == size:
                yield waiting[0] if len(waiting) == 1 else np.concatenate(waiting)
                waiting, held = [], 0
    if held:
        yield waiting[0] if len(waiting) == 1 else np.concatenate(waiting)


def _measure_rows(rows: NDArray[np.float64], basis: FunctionSet, grid: int | None,
                  covariance: bool) -> PrivateMoments:
    basis_sum = exact_means(basis, rows if grid is None else round_to_grid(rows, grid)) * len(rows)
    first, second = _first_and_second(rows) if covariance else (np.empty(0), np.empty((0, 0)))
    return PrivateMoments(len(rows), basis_sum, first, second, basis)


@lru_cache(maxsize=8)
def _quadratic(d: int) -> ChebyshevBasis:
    return ChebyshevBasis.total_degree(d, 2)


def _first_and_second(rows: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the sums of x and of x x^T, from the means of the Chebyshev products of degree at most 2.

    The compiled kernels sum in one fixed order; a BLAS product need not, from one number of threads to another.
    """
    n, d = rows.shape
    basis = _quadratic(d)
    means = basis.means(rows)
    first, second = np.zeros(d), np.zeros((d, d))
    for r, value in zip(basis.index, means, strict=True):
        columns = np.flatnonzero(r)
        if len(columns) == 2:
            second[columns[0], columns[1]] = second[columns[1], columns[0]] = value
        elif r.max() == 2:
            second[columns[0], columns[0]] = (1.0 + value) / 2.0
        elif len(columns) == 1:
            first[columns[0]] = value
    return n * first, n * second
