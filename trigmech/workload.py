"""Query families, their exact answers, and how much each product of Chebyshev polynomials matters to them.

A family is public: it is made from a seed and never looks at data. Its answers on a private table are private.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Literal, Protocol, get_args, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trigmech import _kernels
from trigmech.basis import ChebyshevBasis
from trigmech.chunks import in_order
from trigmech.distribution import Distribution
from trigmech.errors import InputError
from trigmech.tables import numbers

Array = NDArray[np.float64]
Variant = Literal["fresh", "pool"]

# One block of squared distances is 256 x 256 numbers, half a megabyte: it stays in the second-level cache.
POINTS_PER_BLOCK = 256
CENTERS_PER_CHUNK = 256
# Of random coefficients, drawn block by block so that 1000 polynomials of 20000 terms need no 160 megabytes.
POLYNOMIALS_PER_BLOCK = 64
# The Chebyshev coefficients of narrower kernels would need matrices of more than a thousand rows.
NARROWEST_WIDTH = 0.01
# Of coefficients of drawn kernels: at most so many queries at once, for which all columns' coefficients take at most
# 16 megabytes, and so many products at once that those of all centres take two.
QUERIES_PER_BLOCK = 64
COLUMN_NUMBERS_PER_BLOCK = 2**21
PRODUCT_NUMBERS_PER_BLOCK = 2**18


@runtime_checkable
class Family(Protocol):
    """What a choice of functions to measure needs to know of queries; all of it is public.

    A family has one or more *parts*, such as the widths of its kernels.
    """

    d: int

    @property
    def labels(self) -> tuple[str, ...]:
        """One short text for each part."""
        ...

    def importance(self, index: ArrayLike) -> Array:
        """Return how much each product phi_r(x) = T_{r_1}(x_1) ... T_{r_d}(x_d) matters to each part.

        Parameters
        ----------
        index : array_like (K, d) of int
            The r, at least 0.

        Returns
        -------
        ndarray (parts, K)
            The mean over random queries f of c_r^2, where f = sum_r c_r phi_r. Random means before the seed is known:
            it is an expectation, not an average over the queries that were drawn.

        Raises
        ------
        InputError
            If the index breaks a rule above.

        Notes
        -----
        Privacy: none is touched; it depends on the family's parameters alone.
        Cost: O(K d) for each part.
        """
        ...


class Workload(Family, Protocol):
    """A family of queries that can be answered."""

    def answers(self, points: ArrayLike, weights: ArrayLike | None = None) -> Array:
        """Return the exact answers on weighted points; by default all weigh 1/n."""
        ...

    def coefficients(self, index: ArrayLike, start: int = 0, stop: int | None = None) -> Array:
        """Return the Chebyshev coefficients of the queries that were drawn.

        Parameters
        ----------
        index : array_like (K, d) of int
            The r, at least 0, of the products phi_r(x) = T_{r_1}(x_1) ... T_{r_d}(x_d).
        start, stop : int
            Of which queries, in the order of the rows of the answers; default all. 0 <= start <= stop <= queries.

        Returns
        -------
        ndarray (stop - start, parts, K)
            The c_r of each query f = sum_r c_r phi_r, so that the answer on weighted points is sum_r c_r E phi_r.
            Parts are the columns of the answers.

        Raises
        ------
        InputError
            If the index, start or stop breaks a rule above.

        Notes
        -----
        Privacy: none is touched; the queries are public.
        """
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
        right to about 1e-15, so what is smaller than that times prod_i c_0 is rounding, or 0.

        Cost: for each query, centre and width as many multiplications as there are r_i > 0 in the index, and d
        polynomials for each degree that occurs. Memory beyond the result does not grow with the number of queries. The
        same bits for any number of threads.
        """
        index = _multi_indices(index, self.d)
        start, stop = _span(start, stop, self.n_queries)
        centers, numbers, parts = self._queries
        d, J, K = self.d, self.n_centers, len(index)
        # By the number of columns with r_i > 0, falling, so that those with a next one are always the first.
        counts = (index > 0).sum(axis=1)
        order = np.argsort(-counts, kind="stable")
        which, column = np.nonzero(index[order])
        counts = counts[order]
        place = np.arange(len(which)) - (np.cumsum(counts) - counts)[which]
        alive = [int((counts > t).sum()) for t in range(counts.max(initial=0))]
        plans = []
        for width in self.widths:
            expansion, rows = _expansion(width, index)
            # Where c_m / c_0 of one column stands among those of all degrees and columns.
            factors = np.zeros((len(alive), K), dtype=np.int64)
            factors[place, which] = (rows[order[which], column] - 1) * d + column
            plans.append((expansion, factors))
        out = np.empty((stop - start, len(self.widths), K))

        def work(first: int, last: int) -> None:
            # Queries run fastest, so that sums over the centres of a query are sums of whole rows.
            chosen = slice(start + first, start + last)
            y, shares = centers[:, numbers[chosen].T], parts[chosen].T
            rows = max(1, PRODUCT_NUMBERS_PER_BLOCK // shares.size)
            for w, (expansion, factors) in enumerate(plans):
                values = _kernel_values(expansion, y)
                scales = (shares * values[0].prod(axis=0)).ravel()
                ratios = (values[1:] / values[0]).reshape(-1, len(scales))
                for at in range(0, K, rows):
                    product = np.tile(scales, (min(rows, K - at), 1))
                    for t, count in enumerate(alive):
                        going = max(0, min(count - at, len(product)))
                        product[:going] *= ratios[factors[t, at : at + going]]
                    out[first:last, w, order[at : at + rows]] = product.reshape(len(product), J, -1).sum(axis=1).T

        largest = J * d * max(sum(expansion.shape) for expansion, _ in plans)
        for _ in in_order(work, stop - start, max(1, min(QUERIES_PER_BLOCK, COLUMN_NUMBERS_PER_BLOCK // largest))):
            pass
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
        independent, and so are their columns. The E c_m and the roots of the E c_m^2 are right to about 1e-15, so what
        is smaller than that is rounding, or 0.
        """
        index = _multi_indices(index, self.d)
        same = self._concentration
        out = np.empty((len(self.widths), len(index)))
        for w, width in enumerate(self.widths):
            means, squares = _kernel_coefficients(width)
            out[w] = same * _products(squares, index) + (1.0 - same) * _products(means**2, index)
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
        _check_integers(0, degree=degree)
        means = _kernel_coefficients(width)[0][: degree + 1]
        return np.concatenate([means, np.zeros(degree + 1 - len(means))])

    @cached_property
    def _concentration(self) -> float:
        """The probability that two draws from a query's weights name one centre, E sum_j a_j^2 if none is repeated."""
        J = self.n_centers
        if self.variant == "fresh":
            return 2.0 / (J + 1)
        same = _normalised_uniform_squares(J)
        return same + (1.0 - same) / self.POOL_SIZE

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

    def coefficients(self, index: ArrayLike, start: int = 0, stop: int | None = None) -> Array:
        """Return the drawn queries' coefficients (stop - start, len(widths), K); see :meth:`Workload.coefficients`.

        That of phi_r is c_{r_i}(y_i) c_{r_j}(y_j) for the pair (i, j), and 0 if another column has r > 0; right as
        those of :meth:`GaussianKernels.coefficients` are, and refused for the same reasons.
        """
        index = _multi_indices(index, self.d)
        start, stop = _span(start, stop, self.n_queries)
        columns, centers = self._queries
        counts = (index > 0).sum(axis=1)
        out = np.empty((stop - start, len(self.widths), len(index)))
        for w, width in enumerate(self.widths):
            expansion, rows = _expansion(width, index)
            values_of = _kernel_values(expansion, centers[start:stop]).transpose(1, 2, 0)
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
        index = _multi_indices(index, self.d)
        chances = np.array([1.0, 2.0 / self.d, 2.0 / (self.d * (self.d - 1)), 0.0])
        chance = chances[np.minimum((index > 0).sum(axis=1), 3)]
        out = np.empty((len(self.widths), len(index)))
        for w, width in enumerate(self.widths):
            squares = _kernel_coefficients(width)[1]
            out[w] = chance * squares[0] ** 2 * _products(squares / squares[0], index)
        return out


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

    def coefficients(self, index: ArrayLike, start: int = 0, stop: int | None = None) -> Array:
        """Return the coefficients (stop - start, 1, K); see :meth:`Workload.coefficients`.

        They are those of x_i x_j = T_1 T_1 and of x_i^2 = (1 + T_2) / 2.
        """
        index = _multi_indices(index, self.d)
        rows, columns = np.triu_indices(self.d)
        start, stop = _span(start, stop, len(rows))
        rows, columns = rows[start:stop], columns[start:stop]
        out = np.zeros((stop - start, 1, len(index)))
        out[:, 0] = 0.5 * np.outer(rows == columns, (index == 0).all(axis=1))
        # Capped, because the sum of huge degrees can wrap around to 2.
        quadratic = np.flatnonzero(np.minimum(index, 3).sum(axis=1) == 2)
        used = index[quadratic] > 0
        first, last = used.argmax(axis=1), self.d - 1 - used[:, ::-1].argmax(axis=1)
        # Before the pairs (i, j) stand the i rows of the triangle above.
        query = first * self.d - first * (first - 1) // 2 + last - first - start
        own = (query >= 0) & (query < stop - start)
        out[query[own], 0, quadratic[own]] = np.where(first == last, 0.5, 1.0)[own]
        return out

    @property
    def labels(self) -> tuple[str, ...]:
        """One short text for the only part."""
        return ("second moments",)

    def importance(self, index: ArrayLike) -> Array:
        """Return the mean squared coefficients (1, K); see :meth:`Family.importance`.

        Nothing is random here: the mean is over the d (d+1)/2 queries, x_i x_j = T_1 T_1 and x_i^2 = (1 + T_2) / 2.
        """
        index = _multi_indices(index, self.d)
        total, largest = index.sum(axis=1), index.max(axis=1)
        sums = np.select([total == 0, (total == 2) & (largest == 1), (total == 2) & (largest == 2)],
                         [self.d / 4.0, 1.0, 0.25], 0.0)
        return sums[None] / (self.d * (self.d + 1) / 2.0)


@dataclass(frozen=True, eq=False)
class Polynomials(Workload):
    """Random polynomials f = sum_r g_r phi_r / sqrt(N) over all N products of total degree 1 to `degree`, g normal.

    Parameters
    ----------
    d : int
        Columns.
    degree : int
        The largest total degree, at least 1.
    n_queries : int
        Default 1000.
    seed : int or numpy.random.SeedSequence
        Of the public draw of the g_r, which are independent standard normal numbers.

    Raises
    ------
    InputError
        If a rule above is broken or N exceeds 20000.
    """

    d: int
    degree: int
    n_queries: int = 1_000
    seed: int | np.random.SeedSequence = field(kw_only=True)

    MOST_PRODUCTS = 20_000

    def __post_init__(self) -> None:
        _check_integers(1, d=self.d, degree=self.degree, n_queries=self.n_queries)
        # N is at least either of them; the first test spares the binomial of huge numbers.
        if max(self.d, self.degree) > self.MOST_PRODUCTS or self._count > self.MOST_PRODUCTS:
            raise InputError(f"in {self.d} column(s) there are more than {self.MOST_PRODUCTS} products of total degree "
                             f"up to {self.degree}; use a smaller degree")

    @property
    def _count(self) -> int:
        return math.comb(self.d + self.degree, self.d) - 1

    @cached_property
    def _basis(self) -> ChebyshevBasis:
        return ChebyshevBasis(ChebyshevBasis.total_degree(self.d, self.degree).index[1:])

    def _drawn(self) -> Iterator[Array]:
        """Yield the coefficients (queries, N), block by block."""
        rng = np.random.default_rng(self.seed)
        for start in range(0, self.n_queries, POLYNOMIALS_PER_BLOCK):
            size = min(POLYNOMIALS_PER_BLOCK, self.n_queries - start)
            yield rng.standard_normal((size, self._count)) / math.sqrt(self._count)

    def answers(self, points: ArrayLike, weights: ArrayLike | None = None) -> Array:
        """Return the exact answers (n_queries, 1) on weighted points of the cube; see :class:`GaussianKernels`.

        Notes
        -----
        Cost: n N multiplications and as many additions, and n_queries N normal numbers; memory does not grow with n.
        """
        points, weights = _weighted(points, weights, self.d)
        basis = self._basis

        def work(start: int, stop: int) -> Array:
            return weights[start:stop] @ basis.evaluate(points[start:stop])

        moments = np.zeros(self._count)
        for part in in_order(work, len(points), min(2**14, max(256, 2**20 // self._count))):
            moments += part
        return np.concatenate([block @ moments for block in self._drawn()])[:, None]

    def coefficients(self, index: ArrayLike, start: int = 0, stop: int | None = None) -> Array:
        """Return the coefficients (stop - start, 1, K) of the drawn queries; see :meth:`Workload.coefficients`.

        Notes
        -----
        They are the numbers that were drawn, and 0 for the constant and above the degree. Cost: min(stop + 63,
        n_queries) N normal numbers, because those of earlier queries are drawn first.
        """
        index = _multi_indices(index, self.d)
        start, stop = _span(start, stop, self.n_queries)
        # Capped, because the sum of huge degrees can wrap around to a small one.
        total = np.minimum(index, self.degree + 1).sum(axis=1)
        inside = np.flatnonzero((total >= 1) & (total <= self.degree))
        wanted: dict[bytes, int] = {}
        places = np.array([wanted.setdefault(r.tobytes(), len(wanted)) for r in index[inside].astype(np.int16)],
                          dtype=np.int64)
        own = np.zeros(len(wanted), dtype=np.int64)
        for n, r in enumerate(self._basis.index.astype(np.int16)):
            place = wanted.get(r.tobytes())
            if place is not None:
                own[place] = n
        out = np.zeros((stop - start, 1, len(index)))
        first = 0
        for block in self._drawn():
            if first >= stop:
                break
            here = block[max(0, start - first) : stop - first]
            at = max(0, first - start)
            out[at : at + len(here), 0, inside] = here[:, own[places]]
            first += len(block)
        return out

    @property
    def labels(self) -> tuple[str, ...]:
        """One short text for the only part."""
        return (f"polynomials, degree {self.degree}",)

    def importance(self, index: ArrayLike) -> Array:
        """Return the expected squared coefficients (1, K), 1/N or 0; see :meth:`Family.importance`."""
        total = _multi_indices(index, self.d).sum(axis=1)
        return np.where((total >= 1) & (total <= self.degree), 1.0 / self._count, 0.0)[None]


@dataclass(frozen=True, eq=False)
class Smooth(Workload):
    """All functions sum_r c_r phi_r over 0 < r in {0, ..., degree}^d with sum_r |r|^(2k) c_r^2 <= 1, |r| Euclidean.

    Not a list of queries but a class, truncated at a degree. Its worst error is known exactly: see :meth:`errors`.

    Parameters
    ----------
    d : int
        Columns.
    smoothness : float
        k, positive.
    degree : int
        The largest degree of a single column, at least 1.

    Raises
    ------
    InputError
        If a rule above is broken or (degree + 1)^d exceeds 10^6 functions.

    References
    ----------
    Ding, He and Zhu 2026, whose k-smooth functions have such coefficients, but for a constant.
    """

    d: int
    smoothness: float
    degree: int

    MOST_FUNCTIONS = 10**6

    def __post_init__(self) -> None:
        _check_integers(1, d=self.d, degree=self.degree)
        if not 0 < self.smoothness < math.inf:
            raise InputError(f"smoothness must be positive and finite, not {self.smoothness}")
        # The first test spares a huge power.
        if self.d > 20 or (self.degree + 1) ** self.d > self.MOST_FUNCTIONS:
            raise InputError(f"(degree + 1)^d = {self.degree + 1}^{self.d} functions are more than "
                             f"{self.MOST_FUNCTIONS}; use a smaller degree or fewer columns")

    @cached_property
    def _scales(self) -> Array:
        """|r|^(-k) of all r but 0, the last column's degree running fastest."""
        squares = np.zeros(1)
        for _ in range(self.d):
            squares = (squares[:, None] + np.arange(self.degree + 1.0) ** 2).ravel()
        return squares[1:] ** (-0.5 * self.smoothness)

    def answers(self, points: ArrayLike, weights: ArrayLike | None = None) -> Array:
        """Return the means of phi_r times |r|^(-k) on weighted points of the cube.

        They are the answers to the class's extreme single products |r|^(-k) phi_r; the class's worst error is the
        Euclidean norm of their errors.

        Parameters
        ----------
        points : array_like (n, d)
            Points of the cube; private if they are a table.
        weights : array_like (n,), optional
            Default 1/n each.

        Returns
        -------
        ndarray ((degree + 1)^d - 1, 1)
            In the order of :meth:`ChebyshevBasis.tensor`, without the constant.

        Notes
        -----
        Cost: one multiplication and one addition for each point and function; memory does not grow with n.
        """
        points, weights = _weighted(points, weights, self.d)
        half = self.d // 2
        size = self.degree + 1

        def work(start: int, stop: int) -> Array:
            rows = np.asarray(points[start:stop], dtype=np.float64)
            if not (np.abs(rows) <= 1.0).all():
                raise InputError(f"points must lie in the cube [-1, 1]^{self.d}, but an entry is outside")
            # Two halves of the columns, so that the sum over the rows is one matrix product.
            first, last = _tensor_values(rows[:, :half], size), _tensor_values(rows[:, half:], size)
            return (first * weights[start:stop, None]).T @ last

        total = np.zeros((size**half, size ** (self.d - half)))
        for part in in_order(work, len(points), min(2**14, max(1, 2**20 // total.shape[1]))):
            total += part
        return (total.ravel()[1:] * self._scales)[:, None]

    def errors(self, table: ArrayLike, distribution: Distribution) -> Array:
        """Return the largest absolute error of the distribution's answer to any function of the class.

        Parameters
        ----------
        table : array_like (n, d), private
            Points of the cube.
        distribution : Distribution

        Returns
        -------
        ndarray (1, 1), private
            sqrt(sum_r |r|^(-2k) D_r^2) with D_r the error of phi_r: by Cauchy and Schwarz no function of the class has
            a larger error, and the one with c_r proportional to |r|^(-2k) D_r has this.
        """
        return np.array([[np.linalg.norm(Workload.errors(self, table, distribution))]])

    def coefficients(self, index: ArrayLike, start: int = 0, stop: int | None = None) -> Array:
        """Return the coefficients (stop - start, 1, K) of |r|^(-k) phi_r; see :meth:`Workload.coefficients`.

        They are those of the extreme single products whose means the answers are, each |r|^(-k) for its own r and 0
        for all others, and not of a drawn function of the class: there is none.
        """
        index = _multi_indices(index, self.d)
        start, stop = _span(start, stop, (self.degree + 1) ** self.d - 1)
        size = self.degree + 1
        # Beyond the truncation there is no query; those indices stand for the constant, which has none either.
        within = np.where((index <= self.degree).all(axis=1, keepdims=True), index, 0)
        query = within @ size ** np.arange(self.d - 1, -1, -1, dtype=np.int64) - 1
        own = np.flatnonzero((query >= start) & (query < stop))
        out = np.zeros((stop - start, 1, len(index)))
        out[query[own] - start, 0, own] = self._scales[query[own]]
        return out

    @property
    def labels(self) -> tuple[str, ...]:
        """One short text for the only part."""
        return (f"smooth functions, order {self.smoothness:g}",)

    def importance(self, index: ArrayLike) -> Array:
        """Return |r|^(-2k) as (1, K), and 0 for the constant: the largest c_r^2 that the class allows.

        There is no random query, so this takes the place of the mean; see :meth:`Family.importance`. Products beyond
        the truncation are told by the same formula, as the class without truncation would have them.
        """
        squares = (_multi_indices(index, self.d).astype(np.float64) ** 2).sum(axis=1)
        return np.where(squares > 0, np.maximum(squares, 1.0) ** -self.smoothness, 0.0)[None]


@dataclass(frozen=True, eq=False)
class Mixture(Family):
    """Several families at once, to choose functions that serve them all.

    It has no answers of its own, because those of its members differ in shape: ask each of ``members``.

    Parameters
    ----------
    members : tuple of Family
        At least one, all of the same d. The parts are those of the first member, then those of the second, ...
    """

    members: tuple[Family, ...]

    def __post_init__(self) -> None:
        if not isinstance(self.members, tuple) or not all(isinstance(member, Family) for member in self.members):
            raise InputError("members must be a tuple of query families")
        widths = sorted({member.d for member in self.members})
        if len(widths) != 1:
            raise InputError(f"members must be at least one family, all of the same d; their d are {widths}")

    @property
    def d(self) -> int:  # type: ignore[override]
        """The number of columns."""
        return self.members[0].d

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels of all members, one after the other."""
        return tuple(label for member in self.members for label in member.labels)

    def importance(self, index: ArrayLike) -> Array:
        """Return the importance (parts of all members, K), member after member; see :meth:`Family.importance`."""
        return np.concatenate([member.importance(index) for member in self.members])


@lru_cache(maxsize=256)
def _kernel_coefficients(width: float) -> tuple[Array, Array]:
    """Return E c_m and E c_m^2, where exp(-(x - y)^2 / (2 s^2)) = sum_m c_m(y) T_m(x) and y is uniform in [-1, 1].

    For all m up to a D beyond which |c_m| < 1e-16: on the ellipse with semi-axes cosh u and sinh u the kernel is at
    most exp(sinh(u)^2 / (2 s^2)), so |c_m| <= 2 exp(sinh(u)^2 / (2 s^2) - m u) for every u > 0; at m = 10/s + 30 and
    the best u that is below e^-50 at every s. The kernel is symmetric in x and y, so c_m is, but for such an error, a
    polynomial of degree D in y. Hence D + 1 nodes are exact: Gauss-Chebyshev in x (what is aliased comes from degrees
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
    """Return how many coefficients of a kernel are told from 0; see :func:`_kernel_coefficients`."""
    if not width >= NARROWEST_WIDTH:
        raise InputError(f"the Chebyshev coefficients of kernels are for widths of at least {NARROWEST_WIDTH}; "
                         f"given {width}")
    return math.ceil(10.0 / width) + 31


@lru_cache(maxsize=32)
def _kernel_expansion(width: float) -> Array:
    """Return M (D + 1, L) with exp(-(x - y)^2 / (2 s^2)) = sum_ml M_ml T_m(x) T_l(y), so that c_m = sum_l M_ml T_l.

    By Gauss-Chebyshev in x and in y, exact for the reason that :func:`_kernel_coefficients` tells. Of the l those
    are left out beyond which all |M_ml| < 1e-16: wide kernels need far fewer than the D + 1.
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


def _expansion(width: float, index: NDArray[np.int64]) -> tuple[Array, NDArray[np.int64]]:
    """Return the rows (U, L) of the kernel's expansion for the degrees that occur, 0 always and first, and for each
    entry of the index (K, d) the number of its row."""
    whole = _kernel_expansion(width)
    index = np.minimum(index, len(whole))
    occurs = np.zeros(len(whole) + 1, dtype=np.bool_)
    occurs[0] = True
    occurs[index] = True
    # Degrees beyond the last have one more row, of zeros.
    return np.append(whole, np.zeros((1, whole.shape[1])), axis=0)[occurs], (np.cumsum(occurs) - 1)[index]


def _kernel_values(expansion: Array, y: Array) -> Array:
    """Return the c_m(y) (U, *shape of y) for the rows of an expansion."""
    values = np.empty((expansion.shape[1], y.size))
    values[0] = 1.0
    values[1:2] = y.ravel()
    double = 2.0 * y.ravel()
    for degree in range(2, len(values)):
        np.multiply(double, values[degree - 1], out=values[degree])
        values[degree] -= values[degree - 2]
    return (expansion @ values).reshape(len(expansion), *y.shape)


def _products(factors: Array, index: NDArray[np.int64]) -> Array:
    """Return the products (K,) over i of factors[r_i], beyond the factors 0; by logarithms, lest a product underflow on
    the way to a representable one."""
    with np.errstate(divide="ignore"):
        logs = np.log(np.append(factors, 0.0))
    return np.exp(logs[np.minimum(index, len(factors))].sum(axis=1))


def _tensor_values(rows: Array, size: int) -> Array:
    """Return the products of T_0, ..., T_(size-1) of all columns (n, size^columns), the last one's running fastest."""
    out = np.ones((len(rows), 1))
    for column in rows.T:
        values = np.cos(np.arccos(column)[:, None] * np.arange(size))
        out = (out[:, :, None] * values[:, None, :]).reshape(len(rows), -1)
    return out


@lru_cache
def _normalised_uniform_squares(count: int) -> float:
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


def _multi_indices(index: ArrayLike, d: int) -> NDArray[np.int64]:
    array = numbers("index", index, "K", d)
    if array.dtype.kind not in "iu":
        raise InputError(f"index must hold integers; its type is {array.dtype.name}")
    array = array.astype(np.int64, copy=False)
    if (array < 0).any():
        raise InputError("index must hold integers that are at least 0; one is negative")
    return array


def _span(start: int, stop: int | None, count: int) -> tuple[int, int]:
    """Return the first query and the one after the last."""
    stop = count if stop is None else stop
    _check_integers(0, start=start, stop=stop)
    if not start <= stop <= count:
        raise InputError(f"of {count} queries, start and stop must be 0 <= start <= stop <= {count}; "
                         f"given {start} and {stop}")
    return int(start), int(stop)


def _check_integers(least: int, **arguments: int) -> None:
    for name, value in arguments.items():
        if isinstance(value, bool) or not (isinstance(value, int | np.integer) and value >= least):
            raise InputError(f"{name} must be an integer that is at least {least}, not {value!r}")


def _check_family(d: int, n_queries: int, widths: tuple[float, ...]) -> None:
    if not (d >= 1 and n_queries >= 1):
        raise InputError(f"d and n_queries must be at least 1; given {d} and {n_queries}")
    if not widths or not all(width > 0 for width in widths):
        raise InputError(f"widths must be positive, not {widths}")
