"""The functions that are measured: Chebyshev products, and products of one profile over all columns."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trigmech._arrays import Array
from trigmech._parallel import for_each, total
from trigmech._validate import numbers
from trigmech.errors import InputError
from trigmech.functions import kernels, lattice
from trigmech.functions.chebyshev import POINTS_PER_CHUNK, ROWS_PER_CHUNK, ChebyshevBasis

PROFILE_NODES = 4096
LANES = 256
LEAST_VARIATION = 1e-6


class FunctionSet(Protocol):
    """Functions on the cube with values in [-1, 1], as the fits need them."""

    @property
    def d(self) -> int:
        """The number of columns."""

    @property
    def K(self) -> int:  # noqa: N802 - the thesis's letter
        """The number of functions."""

    def evaluate(self, X: ArrayLike) -> Array:
        """Return the values (n, K)."""

    def means(self, X: ArrayLike) -> Array:
        """Return the means (K,) over the rows."""

    def gradient(self, X: ArrayLike, coefficients: ArrayLike) -> Array:
        """Return the gradients (n, d) of a combination."""


@dataclass(frozen=True, eq=False)
class Features:
    """Chebyshev products followed by G *whole-row* functions, each the product of one positive profile over columns.

    A whole-row function is psi(x) = 2 (prod_i h(x_i) - low^d) / (high^d - low^d) - 1, with h a polynomial that the
    profile gives in Chebyshev form and 0 < low <= h <= high on [-1, 1], so that psi lies in [-1, 1]. With
    h(x) = E_y exp(-(x - y)^2 / (2 s^2)) it is, up to its scale, the mean of all Gaussian kernel queries of width s.
    Products of few columns determine this mean only approximately.

    Parameters
    ----------
    basis : ChebyshevBasis
    profiles : sequence of array_like (q + 1,)
        Chebyshev coefficients of each h, on any scale; positive on [-1, 1], all of one length of at least 2.

    Raises
    ------
    InputError
        If a profile is not positive or varies by less than 1e-6 of its maximum.

    References
    ----------
    Huang 2014, (2.1), for the queries whose mean the whole-row functions are.
    """

    basis: ChebyshevBasis
    profiles: Array

    def __init__(self, basis: ChebyshevBasis, profiles: Sequence[ArrayLike] | Array = ()) -> None:
        checked = [numbers("a profile", profile, "q + 1").astype(np.float64) for profile in profiles]
        if len({len(profile) for profile in checked}) > 1 or any(len(profile) < 2 for profile in checked):
            raise InputError("profiles must all have the same length, at least 2; given lengths "
                             f"{[len(profile) for profile in checked]}")
        if not all(np.isfinite(profile).all() for profile in checked):
            raise InputError("profiles must be finite numbers")
        scaled = []
        for profile in checked:
            low, high = _range(profile)
            # The negation also refuses NaN. A range of rounding errors would be stretched to [-1, 1].
            if not (low > 0.0 and high - low > LEAST_VARIATION * high):
                raise InputError("a profile must be positive on [-1, 1] and not constant")
            scaled.append(profile / high)
        object.__setattr__(self, "basis", basis)
        object.__setattr__(self, "profiles", np.array(scaled).reshape(len(scaled), len(checked[0]) if checked else 2))

    @classmethod
    def of(cls, functions: FunctionSet) -> "Features":
        """Return functions as features; an InputError for functions of somebody's own."""
        if isinstance(functions, ChebyshevBasis):
            return cls(functions)
        if not isinstance(functions, Features):
            raise InputError("the release has custom functions; error bars and files are for Chebyshev products "
                             "and the package's functions of whole rows")
        return functions

    @classmethod
    def exactly(cls, basis: ChebyshevBasis, profiles: Array) -> "Features":
        """Return features with these very profiles (G, q + 1), which were scaled before.

        The constructor checks them, and scales them again, by 1 up to rounding. But the released means are those of
        the functions as they were, and fits depend on all bits of these.

        Raises
        ------
        InputError
            As the constructor, or if the profiles were not scaled.
        """
        made = cls(basis, profiles)
        if made.profiles.shape != profiles.shape or not np.allclose(made.profiles, profiles, rtol=1e-6, atol=0.0):
            raise InputError("the profiles must be scaled to a maximum of 1")
        object.__setattr__(made, "profiles", profiles)
        return made

    @property
    def d(self) -> int:
        """The number of columns."""
        return self.basis.d

    @property
    def K(self) -> int:  # noqa: N802
        """The number of functions, whole-row functions included."""
        return self.basis.K + len(self.profiles)

    def __repr__(self) -> str:
        return f"Features({self.basis!r}, whole-row functions={len(self.profiles)})"

    @cached_property
    def floors(self) -> Array:
        """The least value low^d that each product can take, with profiles scaled to high = 1: (G,)."""
        return np.array([max(0.0, _range(profile)[0]) ** self.d for profile in self.profiles])

    @property
    def degree(self) -> int:
        """The largest total degree of a Chebyshev product."""
        return int(self.basis.index.sum(axis=1).max())

    def evaluate(self, X: ArrayLike) -> Array:
        """Return all values (n, K) at each row; see :meth:`ChebyshevBasis.evaluate`."""
        values = self.basis.evaluate(X)
        return values if not len(self.profiles) else np.hstack([values, self._whole(np.asarray(X))])

    def means(self, X: ArrayLike) -> Array:
        """Return the mean (K,) of each function over the rows, in fixed chunks; see :meth:`ChebyshevBasis.means`.

        Privacy: exact means of private rows are private.
        """
        means = self.basis.means(X)
        if not len(self.profiles):
            return means
        rows = numbers("X", X, "n", self.d)
        sums = total(lambda a, b: _lane_sums(self._whole(rows[a:b])), len(rows), ROWS_PER_CHUNK, len(self.profiles))
        return np.concatenate([means, sums / len(rows)])

    def lattice_sums(self, X: ArrayLike) -> Array:
        """Return the sums (K,) of values rounded to a lattice; see :meth:`ChebyshevBasis.lattice_sums`."""
        sums = self.basis.lattice_sums(X)
        if not len(self.profiles):
            return sums
        return np.concatenate([sums, lattice.rounded(self._whole(np.asarray(X))).sum(axis=0)])

    def gradient(self, X: ArrayLike, coefficients: ArrayLike) -> Array:
        """Return the gradient (n, d) of sum_r y_r phi_r at each row; see :meth:`ChebyshevBasis.gradient`."""
        y = numbers("coefficients", coefficients, self.K).astype(np.float64, copy=False)
        out = self.basis.gradient(X, y[: self.basis.K])
        if len(self.profiles):
            points = np.ascontiguousarray(X, dtype=np.float64)
            whole = y[self.basis.K :] * 2.0 / (1.0 - self.floors)
            for_each(lambda a, b: kernels.profile_gradient(points[a:b], self.profiles, whole, out[a:b]), len(points),
                     POINTS_PER_CHUNK)
        return out

    def _whole(self, rows: NDArray) -> Array:
        rows = np.ascontiguousarray(np.asarray(rows), dtype=np.float64)
        out = np.empty((len(rows), len(self.profiles)))
        if kernels.profile_products(rows, self.profiles, out):
            raise InputError(f"X must lie in the cube [-1, 1]^{self.d}, but an entry is outside or not a number")
        return 2.0 * (out - self.floors) / (1.0 - self.floors) - 1.0


def lattice_sums(functions: FunctionSet, rows: Array) -> Array:
    """Return the sums (K,) over at most 2^13 rows of the functions' values, each rounded to the lattice; exact.

    Custom functions are used through ``evaluate`` alone. Values that are not numbers in [-1, 1] are
    mended row by row (clipped, and 0 if they are not numbers), so that no row can move a sum further than two
    values are apart.

    Raises an InputError if the values are not (n, K) numbers.
    """
    if isinstance(functions, Features | ChebyshevBasis):
        return functions.lattice_sums(rows)
    return lattice_values(functions, rows).sum(axis=0)


def lattice_values(functions: FunctionSet, rows: Array) -> Array:
    """Return the values (n, K) of the functions, rounded to the lattice; see :func:`lattice_sums`."""
    values = numbers("the values of the functions", functions.evaluate(rows), len(rows), functions.K)
    return lattice.rounded(bounded(values))


def bounded(values: ArrayLike) -> Array:
    """Return the values clipped to [-1, 1], with 0 for NaN."""
    return np.clip(np.nan_to_num(np.asarray(values, dtype=np.float64), nan=0.0), -1.0, 1.0)


def _lane_sums(values: Array) -> Array:
    """Return the column sums, as 256 running sums that are then added: few additions in a row, in one order."""
    padded = np.zeros((-(-len(values) // LANES) * LANES, values.shape[1]))
    padded[: len(values)] = values
    return padded.reshape(-1, LANES, values.shape[1]).sum(axis=0).sum(axis=0)


def _range(profile: Array) -> tuple[float, float]:
    """Return proved bounds of a polynomial in Chebyshev form: values on a grid of angles, and the steepest slope."""
    angles = np.linspace(0.0, np.pi, PROFILE_NODES + 1)
    values = np.cos(np.outer(angles, np.arange(len(profile)))) @ profile
    slope = float(np.arange(len(profile)) @ np.abs(profile))
    slack = slope * np.pi / PROFILE_NODES / 2.0 * (1.0 + 1e-9) + 1e-12
    return float(values.min()) - slack, float(values.max()) + slack
