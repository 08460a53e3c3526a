"""Query families and their exact answers.

A family is public: it is made from a seed and never looks at data. Its answers on a private table are private.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, Protocol, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trigmech import _kernels
from trigmech.chunks import in_order
from trigmech.distribution import Distribution
from trigmech.errors import InputError
from trigmech.tables import numbers

Array = NDArray[np.float64]
Variant = Literal["fresh", "pool"]

# One block of squared distances is 256 x 256 numbers, half a megabyte: it stays in the second-level cache.
POINTS_PER_BLOCK = 256
CENTERS_PER_CHUNK = 256


class Workload(Protocol):
    """A finite family of queries."""

    def answers(self, points: ArrayLike, weights: ArrayLike | None = None) -> Array:
        """Return the exact answers on weighted points; by default all weigh 1/n."""
        ...

    def errors(self, table: ArrayLike, distribution: Distribution) -> Array:
        """Return the absolute errors of the distribution's answers.

        Parameters
        ----------
        table : array_like (n, d), private
            Points of the cube.
        distribution : Distribution

        Returns
        -------
        ndarray, private
            In the shape of the answers.
        """
        return np.abs(self.answers(distribution.points, distribution.weights) - self.answers(table))


@dataclass(frozen=True, eq=False)
class GaussianKernels(Workload):
    """W1: f(x) = sum_j a_j exp(-|x - x_j|^2 / (2 s^2)), the thesis's queries, for several widths s at once.

    Parameters
    ----------
    d : int
        Columns.
    seed : int or numpy.random.SeedSequence
        Of the public draw of the queries.
    n_queries : int
        Default 10^4.
    widths : tuple of float
        The s; default 2, 4, 6, 8, 10.
    n_centers : int
        J; default 10.
    variant : {"fresh", "pool"}
        "fresh", the thesis's text: every query has its own centres, uniform in the cube, and weights uniform on
        the simplex. "pool", the authors' program: centres drawn with replacement from a pool of 10^4, and weights that
        are uniform numbers divided by their sum.

    References
    ----------
    Huang 2014, (2.1) and section 3.1.
    """

    d: int
    seed: int | np.random.SeedSequence
    n_queries: int = 10_000
    widths: tuple[float, ...] = (2.0, 4.0, 6.0, 8.0, 10.0)
    n_centers: int = 10
    variant: Variant = "fresh"

    POOL_SIZE = 10_000

    def __post_init__(self) -> None:
        _check_family(self.d, self.n_queries, self.widths)
        if not self.n_centers >= 1:
            raise InputError(f"n_centers must be at least 1, not {self.n_centers}")
        if self.variant not in get_args(Variant):
            raise InputError(f'variant must be "fresh" or "pool", not {self.variant!r}')

    @cached_property
    def _queries(self) -> tuple[Array, NDArray[np.int64], Array]:
        """The centres (d, count), and of each query the numbers and the weights of its centres."""
        rng = np.random.default_rng(self.seed)
        shape = (self.n_queries, self.n_centers)
        if self.variant == "pool":
            centers = rng.uniform(-1.0, 1.0, (self.d, self.POOL_SIZE))
            numbers = rng.integers(self.POOL_SIZE, size=shape)
            weights = rng.random(shape)
        else:
            centers = rng.uniform(-1.0, 1.0, (self.d, shape[0] * shape[1]))
            numbers = np.arange(shape[0] * shape[1]).reshape(shape)
            weights = rng.standard_exponential(shape)
        return centers, numbers, weights / weights.sum(axis=1, keepdims=True)

    def answers(self, points: ArrayLike, weights: ArrayLike | None = None) -> Array:
        """Return the exact answers on weighted points.

        Parameters
        ----------
        points : array_like (n, d)
            Points of the cube; private if they are a table.
        weights : array_like (n,), optional
            Default 1/n each.

        Returns
        -------
        ndarray (n_queries, len(widths))

        Notes
        -----
        Cost: n n_queries J squared distances and at most as many exponentials for each width; memory does not grow
        with n. The same bits for any number of threads.
        """
        points, weights = _weighted(points, weights, self.d)
        centers, numbers, parts = self._queries

        def work(start: int, stop: int) -> Array:
            block = np.ascontiguousarray(centers[:, start:stop])
            return _kernel_means(points, weights, self.widths, stop - start,
                                 lambda rows, out: _kernels.squared_distances(rows, block, out))

        means = np.concatenate(list(in_order(work, centers.shape[1], CENTERS_PER_CHUNK)))
        return np.einsum("qj,qjw->qw", parts, means[numbers])

    def uniform_answers(self) -> Array:
        """Return the answers (n_queries, len(widths)) under the uniform distribution on the cube, in closed form.

        They ignore all data, so a private release should do better than they do.
        """
        from scipy.special import erf

        centers, numbers, parts = self._queries
        means = np.empty((centers.shape[1], len(self.widths)))
        for w, width in enumerate(self.widths):
            ends = erf((1.0 - centers) / (width * math.sqrt(2.0))) + erf((1.0 + centers) / (width * math.sqrt(2.0)))
            means[:, w] = np.prod(ends * (width * math.sqrt(math.pi / 2.0) / 2.0), axis=0)
        return np.einsum("qj,qjw->qw", parts, means[numbers])


@dataclass(frozen=True, eq=False)
class PairKernels(Workload):
    """W2: f(x) = exp(-|x_S - y|^2 / (2 s^2)) with S a random pair of columns and y uniform in [-1, 1]^2.

    Unlike W1, these queries see the dependence between columns.

    Parameters
    ----------
    d : int
        Columns, at least 2.
    seed : int or numpy.random.SeedSequence
    n_queries : int
        Default 1000.
    widths : tuple of float
        The s; default 0.25, 0.5, 1.
    """

    d: int
    seed: int | np.random.SeedSequence
    n_queries: int = 1_000
    widths: tuple[float, ...] = (0.25, 0.5, 1.0)

    def __post_init__(self) -> None:
        _check_family(self.d, self.n_queries, self.widths)
        if self.d < 2:
            raise InputError("pair kernels need at least 2 columns")

    @cached_property
    def _queries(self) -> tuple[NDArray[np.int64], Array]:
        rng = np.random.default_rng(self.seed)
        first = rng.integers(self.d, size=self.n_queries)
        second = (first + 1 + rng.integers(self.d - 1, size=self.n_queries)) % self.d
        return np.column_stack([first, second]), rng.uniform(-1.0, 1.0, (self.n_queries, 2))

    def answers(self, points: ArrayLike, weights: ArrayLike | None = None) -> Array:
        """Return the exact answers (n_queries, len(widths)) on weighted points; see :class:`GaussianKernels`."""
        points, weights = _weighted(points, weights, self.d)
        columns, centers = self._queries

        def work(start: int, stop: int) -> Array:
            return _kernel_means(points, weights, self.widths, stop - start,
                                 lambda rows, out: _kernels.pair_squared_distances(
                                     rows, columns[start:stop], centers[start:stop], out))

        return np.concatenate(list(in_order(work, self.n_queries, CENTERS_PER_CHUNK)))


@dataclass(frozen=True, eq=False)
class SecondMoments(Workload):
    """W3: E x_i x_j for all pairs of columns i <= j.

    Parameters
    ----------
    d : int
        Columns.
    """

    d: int

    def __post_init__(self) -> None:
        _check_family(self.d, 1, (1.0,))

    def answers(self, points: ArrayLike, weights: ArrayLike | None = None) -> Array:
        """Return the exact answers (d (d+1)/2, 1) on weighted points, pairs in the order of `numpy.triu_indices`."""
        points, weights = _weighted(points, weights, self.d)

        def work(start: int, stop: int) -> Array:
            rows = np.asarray(points[start:stop], dtype=np.float64)
            return (rows * weights[start:stop, None]).T @ rows

        total = np.zeros((self.d, self.d))
        for part in in_order(work, len(points), 2**14):
            total += part
        return total[np.triu_indices(self.d)][:, None]


def _kernel_means(points: Array, weights: Array, widths: tuple[float, ...], count: int,
                  distances: Callable[[Array, Array], None]) -> Array:
    """Return the weighted means (count, len(widths)) of exp(-D / (2 s^2)) for the squared distances D."""
    sums = np.zeros((len(widths), count))
    D = np.empty((POINTS_PER_BLOCK, count))
    values = [np.empty_like(D) for _ in widths]
    steps = _exponentials(widths)
    for start in range(0, len(points), POINTS_PER_BLOCK):
        # One block at a time, so that a table in another layout or precision is never copied whole.
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


def _weighted(points: ArrayLike, weights: ArrayLike | None, d: int) -> tuple[Array, Array]:
    points = numbers("points", points, "n", d)
    if len(points) == 0 or not all(in_order(lambda a, b: bool(np.isfinite(points[a:b]).all()), len(points), 2**14)):
        raise InputError(f"points must be finite numbers of shape (n, {d}) with n of at least 1; their shape is "
                         f"{points.shape}")
    if weights is None:
        return points, np.full(len(points), 1.0 / len(points))
    weights = np.ascontiguousarray(numbers("weights", weights, len(points)), dtype=np.float64)
    if not np.isfinite(weights).all():
        raise InputError("weights must be finite")
    return points, weights


def _check_family(d: int, n_queries: int, widths: tuple[float, ...]) -> None:
    if not (d >= 1 and n_queries >= 1):
        raise InputError(f"d and n_queries must be at least 1; given {d} and {n_queries}")
    if not widths or not all(width > 0 for width in widths):
        raise InputError(f"widths must be positive, not {widths}")
