"""Families of Gaussian kernels: of all columns, as in the thesis, and of pairs of columns."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from trigmech._arrays import Array, Integers
from trigmech._parallel import for_each, in_order
from trigmech._validate import check_choice, check_integers
from trigmech.errors import InputError
from trigmech.functions import kernels
from trigmech.workload.family import Workload, asked, check_widths, multi_indices, weighted_points
from trigmech.workload.kernel_expansion import (
    expansion_of,
    kernel_coefficients,
    kernel_means,
    kernel_values,
    normalised_uniform_squares,
    products,
)

Places = Integers
Variant = Literal["fresh", "pool"]

# One block of squared distances is 256 x 256 numbers, half a megabyte: it stays in the second-level cache.
CENTERS_PER_CHUNK = 256
# For coefficients of drawn kernels: the most queries at once, so that all columns' coefficients take at most 16
# megabytes, and the most products at once, so that those of all centres take two.
QUERIES_PER_BLOCK = 64
COLUMN_NUMBERS_PER_BLOCK = 2**21
PRODUCT_NUMBERS_PER_BLOCK = 2**18


@dataclass(frozen=True, eq=False)
class GaussianKernels(Workload):
    """W1: f(x) = sum_j a_j exp(-|x - x_j|^2 / (2 s^2)), the thesis's queries, for several widths s at once.

    Parameters
    ----------
    d : int
        Columns.
    seed : int or numpy.random.SeedSequence
        The seed of the public draw of the queries.
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

    symmetric = True
    POOL_SIZE = 10_000

    def __post_init__(self) -> None:
        check_integers(1, d=self.d, n_queries=self.n_queries, n_centers=self.n_centers)
        check_widths(self.widths)
        check_choice("variant", self.variant, Variant)

    @cached_property
    def queries(self) -> tuple[Array, Integers, Array]:
        """The queries; public: centres (d, count) in the cube, and for each query the numbers of its centres
        (n_queries, n_centers) and their weights, which sum to 1."""
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
        """Return the exact answers (n_queries, len(widths)) on weighted points; see :meth:`Workload.answers`.

        Notes
        -----
        Cost: n n_queries J squared distances and at most as many exponentials for each width; memory does not grow
        with n. The same bits for any number of threads.
        """
        points, weights = weighted_points(points, weights, self.d)
        centers, numbers, parts = self.queries

        def work(start: int, stop: int) -> Array:
            block = np.ascontiguousarray(centers[:, start:stop])
            return kernel_means(points, weights, self.widths, stop - start,
                                 lambda rows, out: kernels.squared_distances(rows, block, out))

        means = np.concatenate(list(in_order(work, centers.shape[1], CENTERS_PER_CHUNK)))
        return np.einsum("qj,qjw->qw", parts, means[numbers])

    def coefficients(self, index: ArrayLike, start: int = 0, stop: int | None = None) -> Array:
        """Return the drawn queries' coefficients (stop - start, len(widths), K); see :meth:`Workload.coefficients`.

        Raises
        ------
        InputError
            If the index is not (K, d) integers that are at least 0, not 0 <= start <= stop <= n_queries, or a width is
            below 0.01.

        Notes
        -----
        That of phi_r is sum_j a_j prod_i c_{r_i}(y_ij), computed as a_j prod_i c_0(y_ij) times the c_{r_i} / c_0 of the
        columns with r_i > 0. A kernel is positive, so c_0 is and |c_m| <= 2 c_0, and no product overflows. Each c_m is
        right to about 1e-15, so smaller values, relative to prod_i c_0, are rounding or 0.

        Cost: for each query, centre and width as many multiplications as there are r_i > 0 in the index, and d
        polynomials for each degree that occurs. Memory beyond the result does not grow with the number of queries. The
        same bits for any number of threads.
        """
        index, start, stop = asked(index, self.d, start, stop, self.n_queries)
        centers, numbers, parts = self.queries
        order, plans = _products_by_width(self.widths, index)
        out = np.empty((stop - start, len(self.widths), len(index)))

        def work(first: int, last: int) -> None:
            # Queries run fastest, so that sums over the centres of a query are sums of whole rows.
            chosen = slice(start + first, start + last)
            y, shares = centers[:, numbers[chosen].T], parts[chosen].T
            for w, (expansion, factors) in enumerate(plans):
                values = kernel_values(expansion, y)
                out[first:last, w, order] = _mixed_products(values, shares, factors, len(index)).T

        largest = self.n_centers * self.d * max(sum(expansion.shape) for expansion, _ in plans)
        for_each(work, stop - start, max(1, min(QUERIES_PER_BLOCK, COLUMN_NUMBERS_PER_BLOCK // largest)))
        return out

    @property
    def labels(self) -> tuple[str, ...]:
        """One short text for each width."""
        return tuple(f"Gaussian kernels, width {width:g}" for width in self.widths)

    def importance(self, index: ArrayLike) -> Array:
        """Return the expected squared coefficients (len(widths), K); see :meth:`Family.importance`.

        Raises
        ------
        InputError
            If the index is not (K, d) integers that are at least 0, or a width is below 0.01.

        Notes
        -----
        With c_m(y) the coefficients of one column's kernel and e the expected sum of squared weights, centres that are
        picked twice counted as one, it is e prod_i E c_{r_i}^2 + (1 - e) prod_i (E c_{r_i})^2: the centres are
        independent, and so are their columns. The E c_m and the roots of the E c_m^2 are right to about 1e-15, so
        smaller numbers are rounding errors, or 0.
        """
        index = multi_indices(index, self.d)
        same = self._concentration
        out = np.empty((len(self.widths), len(index)))
        for w, width in enumerate(self.widths):
            means, squares = kernel_coefficients(width)
            out[w] = same * products(squares, index) + (1.0 - same) * products(means**2, index)
        return out

    def mean_profile(self, width: float, degree: int) -> Array:
        """Return one column's factor of the mean query, h(x) = E_y exp(-(x - y)^2 / (2 s^2)) for y uniform in [-1, 1].

        The mean of all random queries of width s is the product of h(x_i) over the columns.

        Parameters
        ----------
        width : float
            s, at least 0.01; it need not be one of the family's.
        degree : int
            At least 0.

        Returns
        -------
        ndarray (degree + 1,)
            The coefficients E c_m of T_0, ..., T_degree; those of odd degree are 0.
        """
        check_integers(0, degree=degree)
        means = kernel_coefficients(width)[0][: degree + 1]
        return np.concatenate([means, np.zeros(degree + 1 - len(means))])

    @cached_property
    def _concentration(self) -> float:
        """The probability that two draws by a query's weights give one centre: E sum_j a_j^2 if all centres differ."""
        J = self.n_centers
        if self.variant == "fresh":
            return 2.0 / (J + 1)
        same = normalised_uniform_squares(J)
        return same + (1.0 - same) / self.POOL_SIZE

    def uniform_answers(self) -> Array:
        """Return the answers (n_queries, len(widths)) under the uniform distribution on the cube, in closed form.

        They ignore all data, so a private release should do better than they do.
        """
        from scipy.special import erf

        centers, numbers, parts = self.queries
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

    symmetric = True

    def __post_init__(self) -> None:
        check_integers(1, d=self.d, n_queries=self.n_queries)
        check_widths(self.widths)
        if self.d < 2:
            raise InputError("pair kernels need at least 2 columns")

    @cached_property
    def queries(self) -> tuple[Integers, Array]:
        """The queries; public: for each query two different columns and its centre in them, (n_queries, 2) each."""
        rng = np.random.default_rng(self.seed)
        first = rng.integers(self.d, size=self.n_queries)
        second = (first + 1 + rng.integers(self.d - 1, size=self.n_queries)) % self.d
        return np.column_stack([first, second]), rng.uniform(-1.0, 1.0, (self.n_queries, 2))

    def answers(self, points: ArrayLike, weights: ArrayLike | None = None) -> Array:
        """Return the exact answers (n_queries, len(widths)) on weighted points; see :meth:`Workload.answers`."""
        points, weights = weighted_points(points, weights, self.d)
        columns, centers = self.queries

        def work(start: int, stop: int) -> Array:
            return kernel_means(points, weights, self.widths, stop - start,
                                 lambda rows, out: kernels.pair_squared_distances(
                                     rows, columns[start:stop], centers[start:stop], out))

        return np.concatenate(list(in_order(work, self.n_queries, CENTERS_PER_CHUNK)))

    def coefficients(self, index: ArrayLike, start: int = 0, stop: int | None = None) -> Array:
        """Return the drawn queries' coefficients (stop - start, len(widths), K); see :meth:`Workload.coefficients`.

        That of phi_r is c_{r_i}(y_i) c_{r_j}(y_j) for the pair (i, j), and 0 if another column has r > 0; right as
        those of :meth:`GaussianKernels.coefficients` are, and refused for the same reasons.
        """
        index, start, stop = asked(index, self.d, start, stop, self.n_queries)
        columns, centers = self.queries
        counts = (index > 0).sum(axis=1)
        out = np.empty((stop - start, len(self.widths), len(index)))
        for w, width in enumerate(self.widths):
            expansion, rows = expansion_of(width, index)
            values_of = kernel_values(expansion, centers[start:stop]).transpose(1, 2, 0)
            for q, (pair, values) in enumerate(zip(columns[start:stop], values_of, strict=True)):
                first, second = rows[:, pair].T
                inside = counts == (first > 0).astype(np.int64) + (second > 0)
                out[q, w] = np.where(inside, values[0, first] * values[1, second], 0.0)
        return out

    @property
    def labels(self) -> tuple[str, ...]:
        """One short text for each width."""
        return tuple(f"pair kernels, width {width:g}" for width in self.widths)

    def importance(self, index: ArrayLike) -> Array:
        """Return the expected squared coefficients (len(widths), K); see :meth:`GaussianKernels.importance`.

        That of phi_r is the probability that the pair holds all columns with r_i > 0, times the E c_m^2 of the pair's
        two columns; 0 if there are more than two such columns.
        """
        index = multi_indices(index, self.d)
        chances = np.array([1.0, 2.0 / self.d, 2.0 / (self.d * (self.d - 1)), 0.0])
        chance = chances[np.minimum((index > 0).sum(axis=1), 3)]
        out = np.empty((len(self.widths), len(index)))
        for w, width in enumerate(self.widths):
            squares = kernel_coefficients(width)[1]
            out[w] = chance * squares[0] ** 2 * products(squares / squares[0], index)
        return out


def _products_by_width(widths: tuple[float, ...], index: Places) -> tuple[Places, list[tuple[Array, list[Places]]]]:
    """Return an order of the index (K, d), and for each width how the products prod_i c_{r_i} / c_0 are made in it.

    Those are the rows of the kernel's expansion, and lists of factors: list t has the t-th factor of the products that
    have one, as its place among the c_m / c_0 of all degrees m > 0 and columns. In the order the number of columns with
    r_i > 0 falls, so that these products are always the first.
    """
    counts = (index > 0).sum(axis=1)
    order = np.argsort(-counts, kind="stable")
    which, column = np.nonzero(index[order])
    counts = counts[order]
    place = np.arange(len(which)) - (np.cumsum(counts) - counts)[which]
    plans = []
    for width in widths:
        expansion, rows = expansion_of(width, index)
        factors = (rows[order[which], column] - 1) * index.shape[1] + column
        plans.append((expansion, [factors[place == t] for t in range(counts.max(initial=0))]))
    return order, plans


def _mixed_products(values: Array, shares: Array, factors: list[Places], count: int) -> Array:
    """Return the sums (count, queries) over the J centres of shares (J, queries) times products of the values c_m."""
    scales = (shares * values[0].prod(axis=0)).ravel()
    ratios = (values[1:] / values[0]).reshape(-1, len(scales))
    sums = np.empty((count, shares.shape[1]))
    rows = max(1, PRODUCT_NUMBERS_PER_BLOCK // shares.size)
    for at in range(0, count, rows):
        product = np.tile(scales, (min(rows, count - at), 1))
        for those in factors:
            here = those[at : at + rows]
            product[: len(here)] *= ratios[here]
        sums[at : at + rows] = product.reshape(len(product), *shares.shape).sum(axis=1)
    return sums
