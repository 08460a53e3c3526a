"""PRIVATE. Sums of functions of the rows of a table, in one pass."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from trigmech._arrays import Array, Integers
from trigmech._parallel import in_order
from trigmech.errors import InputError, TrigmechError
from trigmech.functions import lattice
from trigmech.functions.chebyshev import ChebyshevBasis
from trigmech.functions.features import FunctionSet, lattice_sums, lattice_values
from trigmech.functions.grid import round_to_grid
from trigmech.measurement.rows import PrivateRows
from trigmech.measurement.sums import Chunk, Total, add_means


@dataclass(frozen=True, eq=False)
class PrivateMoments:
    """Sums over persons. They are never shown or saved; only the release boundary may read them.

    n: Number of persons; public.
    basis_sum (K,), private: Sum of each basis function over the (discretised) rows.
    first (d,), private: Sum of the rows, without rounding to a grid; empty unless requested.
    second (d, d), private: Sum of x x^T over these rows; empty unless requested.
    functions: The functions that were summed; public.
    """

    n: int
    basis_sum: Array
    first: Array
    second: Array
    functions: FunctionSet

    def __repr__(self) -> str:
        return f"PrivateMoments(n={self.n}, K={len(self.basis_sum)}, values hidden)"


@dataclass(frozen=True, eq=False)
class FunctionSums:
    """The sums of functions. The value of each row is rounded to the lattice of multiples of 2^-40.

    grid: Round the points to A^d with this N before the functions are evaluated, as the thesis does.
    covariance: Also sum the Chebyshev products of degree at most 2, without rounding to a grid. They determine x and x
      x^T.
    """

    functions: FunctionSet
    grid: int | None = None
    covariance: bool = False

    @property
    def size(self) -> int:
        return self.functions.K + (self.quadratic.K if self.covariance else 0)

    @cached_property
    def quadratic(self) -> ChebyshevBasis:
        """The products of degree at most 2."""
        return _quadratic(self.functions.d)

    def add(self, chunk: Chunk, total: Total) -> None:
        """Add the sums over the persons of a chunk.

        Cost: K multiplications and additions for each row, and d^2/2 more for the covariance. Memory does not grow with
        n.
        """
        chunk = chunk.mapped()
        chunk.check()
        if chunk.starts is None:
            # A set of custom functions holds all its values at once, so it limits the number of rows.
            rows = getattr(self.functions, "rows_at_a_time", lattice.MOST_ROWS)
            for part in in_order(lambda a, b: self._sums(chunk.points(a, b)), len(chunk.rows), rows):
                total.add(part)
            total.n += len(chunk.rows)
        else:
            add_means(lambda span: self._values(chunk.points(span.start, span.stop)), len(chunk.rows), chunk.starts, 0,
                      total)

    def check(self, total: Total) -> None:
        bound = float(total.n) * (1.0 + 1e-9)
        if not (np.abs(total.over(lattice.BITS)) <= bound).all():
            raise InputError("sums of functions with values in [-1, 1] are larger than the number of persons")

    def parted(self, total: Total) -> PrivateMoments:
        """Return the sums, each rounded to the nearest float."""
        values = total.over(lattice.BITS)
        K = self.functions.K
        first, second = np.empty(0), np.empty((0, 0))
        if self.covariance:
            first, second = _first_and_second(self.quadratic, values[K:], total.n)
        return PrivateMoments(total.n, values[:K], first, second, self.functions)

    def _sums(self, rows: Array) -> Integers:
        return lattice.integers(self._joined(lattice_sums, rows))

    def _values(self, rows: Array) -> Integers:
        return lattice.integers(self._joined(lattice_values, rows))

    def _joined(self, of: Callable[[FunctionSet, Array], Array], rows: Array) -> Array:
        try:
            found = of(self.functions, rows if self.grid is None else round_to_grid(rows, self.grid))
        except (TrigmechError, MemoryError):
            raise
        except Exception as problem:  # The text of a custom function's error may quote a row.
            raise InputError(f"the functions, of type {type(self.functions).__name__}, cannot be evaluated at rows of "
                             f"the table ({type(problem).__name__})") from None
        return np.concatenate([found, of(self.quadratic, rows)], axis=-1) if self.covariance else found


def measure(rows: PrivateRows | Array, basis: FunctionSet, grid: int | None = None,
            covariance: bool = False) -> PrivateMoments:
    """Return the sums that a mechanism needs, in one pass over rows (n, d). See :class:`FunctionSums`.

    Raises
    ------
    InputError
        If the rows are not numbers in the cube, leave their domain, are fewer than 2, or differ from n in number.

    Notes
    -----
    Privacy: the sums are exact up to the lattice, so they are private.
    """
    if not isinstance(rows, PrivateRows):
        rows = PrivateRows.of(rows)
    if rows.n < 2:
        raise InputError(f"a release needs at least 2 rows; the table has {rows.n}")
    asked = FunctionSums(basis, grid, covariance)
    return asked.parted(rows.sums(asked))


@lru_cache(maxsize=8)
def _quadratic(d: int) -> ChebyshevBasis:
    return ChebyshevBasis.total_degree(d, 2)


def _first_and_second(basis: ChebyshevBasis, sums: Array, n: int) -> tuple[Array, Array]:
    """Return the sums of x and x x^T, computed from the sums of the Chebyshev products of degree at most 2."""
    d = basis.d
    first, second = np.zeros(d), np.zeros((d, d))
    for r, value in zip(basis.index, sums, strict=True):
        columns = np.flatnonzero(r)
        if len(columns) == 2:
            second[columns[0], columns[1]] = second[columns[1], columns[0]] = value
        elif r.max() == 2:
            second[columns[0], columns[0]] = (n + value) / 2.0
        elif len(columns) == 1:
            first[columns[0]] = value
    return first, second
