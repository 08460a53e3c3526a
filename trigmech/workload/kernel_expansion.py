"""Numbers of Gaussian kernels: Chebyshev coefficients, exact means over weighted points, and products over columns."""

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np

from trigmech._arrays import Array, Integers
from trigmech.errors import InputError
from trigmech.functions import kernels as _kernels

# One block of squared distances is 256 x 256 numbers, half a megabyte: it stays in the second-level cache.
POINTS_PER_BLOCK = 256
# The Chebyshev coefficients of narrower kernels would need matrices of more than a thousand rows.
NARROWEST_WIDTH = 0.01


@lru_cache(maxsize=256)
def kernel_coefficients(width: float) -> tuple[Array, Array]:
    """Return E c_m and E c_m^2, where exp(-(x - y)^2 / (2 s^2)) = sum_m c_m(y) T_m(x) and y is uniform in [-1, 1].

    For all m up to a D beyond which |c_m| < 1e-16: on the ellipse with semi-axes cosh u and sinh u the kernel is at
    most exp(sinh(u)^2 / (2 s^2)), so |c_m| <= 2 exp(sinh(u)^2 / (2 s^2) - m u) for every u > 0; at m = 10/s + 30 and
    the best u that is below e^-50 at every s. The kernel is symmetric in x and y, so c_m is, but for such an error, a
    polynomial of degree D in y. Hence D + 1 nodes are exact: Gauss-Chebyshev in x (aliasing comes from degrees
    above D) and Gauss-Legendre in y (c_m^2 has degree 2 D).
    """
    size = _coefficient_count(width)
    angles = (np.arange(size) + 0.5) * (math.pi / size)
    centers, parts = np.polynomial.legendre.leggauss(size)
    kernel = np.exp(-0.5 * ((np.cos(angles)[:, None] - centers) / width) ** 2)
    coefficients = np.cos(np.arange(size)[:, None] * angles) @ kernel * (2.0 / size)
    coefficients[0] *= 0.5
    means, squares = coefficients @ parts / 2.0, coefficients**2 @ parts / 2.0
    # c_m(-y) = (-1)^m c_m(y)
    means[1::2] = 0.0
    means.setflags(write=False)
    squares.setflags(write=False)
    return means, squares


def _coefficient_count(width: float) -> int:
    """Return how many coefficients of a kernel differ from 0 beyond rounding; see :func:`kernel_coefficients`."""
    if not width >= NARROWEST_WIDTH:
        raise InputError(f"the Chebyshev coefficients of kernels are for widths of at least {NARROWEST_WIDTH}; "
                         f"given {width}")
    return math.ceil(10.0 / width) + 31


@lru_cache(maxsize=32)
def _kernel_expansion(width: float) -> Array:
    """Return M (D + 1, L) with exp(-(x - y)^2 / (2 s^2)) = sum_ml M_ml T_m(x) T_l(y), so that c_m = sum_l M_ml T_l.

    By Gauss-Chebyshev in x and in y, exact for the reason in :func:`kernel_coefficients`. Degrees l
    beyond which all |M_ml| < 1e-16 are left out: wide kernels need far fewer than the D + 1.
    """
    size = _coefficient_count(width)
    angles = (np.arange(size) + 0.5) * (math.pi / size)
    nodes = np.cos(angles)
    transform = np.cos(np.arange(size)[:, None] * angles) * (2.0 / size)
    transform[0] *= 0.5
    expansion = transform @ np.exp(-0.5 * ((nodes[:, None] - nodes) / width) ** 2) @ transform.T
    # c_m(-y) = (-1)^m c_m(y)
    expansion[::2, 1::2] = 0.0
    expansion[1::2, ::2] = 0.0
    needed = np.flatnonzero(np.abs(expansion).max(axis=0) >= 1e-16)[-1] + 1
    expansion = np.ascontiguousarray(expansion[:, :needed])
    expansion.setflags(write=False)
    return expansion


def expansion_of(width: float, index: Integers) -> tuple[Array, Integers]:
    """Return the rows (U, L) of the kernel's expansion for the degrees that occur, 0 always and first, and for each
    entry of the index (K, d) the number of its row."""
    whole = _kernel_expansion(width)
    index = np.minimum(index, len(whole))
    occurs = np.zeros(len(whole) + 1, dtype=np.bool_)
    occurs[0] = True
    occurs[index] = True
    # Degrees beyond the last have one more row, of zeros.
    return np.append(whole, np.zeros((1, whole.shape[1])), axis=0)[occurs], (np.cumsum(occurs) - 1)[index]


def kernel_values(expansion: Array, y: Array) -> Array:
    """Return the c_m(y) (U, *shape of y) for the rows of an expansion."""
    values = np.empty((expansion.shape[1], y.size))
    values[0] = 1.0
    values[1:2] = y.ravel()
    double = 2.0 * y.ravel()
    for degree in range(2, len(values)):
        np.multiply(double, values[degree - 1], out=values[degree])
        values[degree] -= values[degree - 2]
    return (expansion @ values).reshape(len(expansion), *y.shape)


def products(factors: Array, index: Integers) -> Array:
    """Return the products (K,) over i of factors[r_i], beyond the factors 0; by logarithms, lest a product underflow on
    the way to a representable one."""
    with np.errstate(divide="ignore"):
        logs = np.log(np.append(factors, 0.0))
    return np.exp(logs[np.minimum(index, len(factors))].sum(axis=1))


def tensor_values(rows: Array, size: int) -> Array:
    """Return the products of T_0, ..., T_(size-1) of all columns (n, size^columns), the last one's running fastest."""
    out = np.ones((len(rows), 1))
    for column in rows.T:
        values = np.cos(np.arccos(column)[:, None] * np.arange(size))
        out = (out[:, :, None] * values[:, None, :]).reshape(len(rows), -1)
    return out


@lru_cache
def normalised_uniform_squares(count: int) -> float:
    """Return E sum_j U_j^2 / (sum_j U_j)^2 for independent U uniform in [0, 1].

    As 1/S^2 is the integral of t e^(-t S), it is that of J t E[U^2 e^(-t U)] (E e^(-t U))^(J-1) over t > 0; and with
    the regularised incomplete gamma function P, E[U^2 e^(-t U)] = 2 P(3, t) / t^3 and E e^(-t U) = (1 - e^(-t)) / t.
    """
    if count == 1:
        return 1.0
    from scipy.integrate import quad
    from scipy.special import gammainc

    def integrand(v: float) -> float:
        # t = v / J, so that the bulk is at v of a few units for every J.
        t = v / count
        return float(2.0 * gammainc(3.0, t) / t**2 * (-math.expm1(-t) / t) ** (count - 1))

    return float(quad(integrand, 0.0, math.inf, epsabs=1e-13, epsrel=1e-12, limit=500)[0])


def kernel_means(points: Array, weights: Array, widths: tuple[float, ...], count: int,
                  distances: Callable[[Array, Array], None]) -> Array:
    """Return the weighted means (count, len(widths)) of exp(-D / (2 s^2)) for the squared distances D."""
    sums = np.zeros((len(widths), count))
    D = np.empty((POINTS_PER_BLOCK, count))
    values = [np.empty_like(D) for _ in widths]
    steps = _exponentials(widths)
    for start in range(0, len(points), POINTS_PER_BLOCK):
        # One block at a time, so that a table in another domain or precision is never copied whole.
        rows = np.ascontiguousarray(np.asarray(points[start : start + POINTS_PER_BLOCK]), dtype=np.float64)
        size = len(rows)
        distances(rows, D[:size])
        for w, source, squarings in steps:
            out = values[w][:size]
            if source is None:
                np.multiply(D[:size], -0.5 / widths[w] ** 2, out=out)
                np.exp(out, out=out)
            else:
                np.square(values[source][:size], out=out)
                for _ in range(squarings - 1):
                    np.square(out, out=out)
            _kernels.weighted_column_sums(out, weights[start : start + size], sums[w])
    return sums.T


def _exponentials(widths: tuple[float, ...]) -> list[tuple[int, int | None, int]]:
    """Return, widest first, (width, source, squarings): if the source is sqrt(2)^q times as wide, q squarings of its
    values replace an exponential; each doubles a relative error that starts at 1e-16."""
    steps: list[tuple[int, int | None, int]] = []
    for w in sorted(range(len(widths)), key=lambda i: -widths[i]):
        best: tuple[int, int | None, int] = (w, None, 0)
        for earlier, _, _ in steps:
            for squarings in (4, 3, 2, 1):
                if (widths[earlier] / widths[w]) ** 2 == 2.0**squarings:
                    best = (w, earlier, squarings)
        steps.append(best)
    return steps
