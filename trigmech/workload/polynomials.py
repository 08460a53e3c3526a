"""Families of second moments, of polynomials, and of k times differentiable functions."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from trigmech._arrays import Array
from trigmech._parallel import total
from trigmech._validate import check_integers, check_positive
from trigmech.errors import InputError
from trigmech.functions.chebyshev import ChebyshevBasis
from trigmech.workload.family import Workload, asked, multi_indices, weighted_points
from trigmech.workload.kernel_expansion import tensor_values

# Random coefficients are drawn block by block; all of 1000 polynomials of 20000 terms would need 160 megabytes.
POLYNOMIALS_PER_BLOCK = 64


@dataclass(frozen=True, eq=False)
class SecondMoments(Workload):
    """W3: E x_i x_j for all pairs of columns i <= j.

    Parameters
    ----------
    d : int
        Columns.
    """

    d: int

    symmetric = True

    def __post_init__(self) -> None:
        check_integers(1, d=self.d)

    def answers(self, points: ArrayLike, weights: ArrayLike | None = None) -> Array:
        """Return the exact answers (d (d+1)/2, 1) on weighted points, pairs in the order of `numpy.triu_indices`."""
        points, weights = weighted_points(points, weights, self.d)

        def work(start: int, stop: int) -> Array:
            rows = np.asarray(points[start:stop], dtype=np.float64)
            return (rows * weights[start:stop, None]).T @ rows

        return total(work, len(points), 2**14, self.d, self.d)[np.triu_indices(self.d)][:, None]

    def coefficients(self, index: ArrayLike, start: int = 0, stop: int | None = None) -> Array:
        """Return the coefficients (stop - start, 1, K); see :meth:`Workload.coefficients`.

        They are those of x_i x_j = T_1 T_1 and of x_i^2 = (1 + T_2) / 2.
        """
        rows, columns = np.triu_indices(self.d)
        index, start, stop = asked(index, self.d, start, stop, len(rows))
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
        index = multi_indices(index, self.d)
        degree, largest = index.sum(axis=1), index.max(axis=1)
        sums = np.select([degree == 0, (degree == 2) & (largest == 1), (degree == 2) & (largest == 2)],
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
        The seed of the public draw of the g_r, which are independent standard normal numbers.

    Raises
    ------
    InputError
        If a rule above is broken or N exceeds 20000.
    """

    d: int
    degree: int
    n_queries: int = 1_000
    seed: int | np.random.SeedSequence = field(kw_only=True)

    symmetric = True
    MOST_PRODUCTS = 20_000

    def __post_init__(self) -> None:
        check_integers(1, d=self.d, degree=self.degree, n_queries=self.n_queries)
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
        """Return the exact answers (n_queries, 1) on weighted points of the cube; see :meth:`Workload.answers`.

        Notes
        -----
        Cost: n N multiplications and as many additions, and n_queries N normal numbers; memory does not grow with n.
        """
        points, weights = weighted_points(points, weights, self.d)
        basis = self._basis

        def work(start: int, stop: int) -> Array:
            return weights[start:stop] @ basis.evaluate(points[start:stop])

        moments = total(work, len(points), min(2**14, max(256, 2**20 // self._count)), self._count)
        return np.concatenate([block @ moments for block in self._drawn()])[:, None]

    def coefficients(self, index: ArrayLike, start: int = 0, stop: int | None = None) -> Array:
        """Return the coefficients (stop - start, 1, K) of the drawn queries; see :meth:`Workload.coefficients`.

        Notes
        -----
        They are the numbers that were drawn, and 0 for the constant and above the degree. Cost: min(stop + 63,
        n_queries) N normal numbers, because those of earlier queries are drawn first.
        """
        index, start, stop = asked(index, self.d, start, stop, self.n_queries)
        # Capped, because the sum of huge degrees can wrap around to a small one.
        degree = np.minimum(index, self.degree + 1).sum(axis=1)
        inside = np.flatnonzero((degree >= 1) & (degree <= self.degree))
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
        degree = multi_indices(index, self.d).sum(axis=1)
        return np.where((degree >= 1) & (degree <= self.degree), 1.0 / self._count, 0.0)[None]


@dataclass(frozen=True, eq=False)
class Smooth(Workload):
    """All functions sum_r c_r phi_r over 0 < r in {0, ..., degree}^d with sum_r |r|^(2k) c_r^2 <= 1, |r| Euclidean.

    Not a list of queries but a class, truncated at a degree. Its worst error is known exactly: see :meth:`error_of`.

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
    Ding, He and Zhu 2026, whose k-smooth functions have such coefficients, up to a constant.
    """

    d: int
    smoothness: float
    degree: int

    symmetric = True
    MOST_FUNCTIONS = 10**6

    def __post_init__(self) -> None:
        check_integers(1, d=self.d, degree=self.degree)
        check_positive(smoothness=self.smoothness)
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
        """Return the means of phi_r times |r|^(-k) on weighted points of the cube; see :meth:`Workload.answers`.

        They are the answers ((degree + 1)^d - 1, 1) to the class's extreme single products |r|^(-k) phi_r, in the order
        of :meth:`ChebyshevBasis.tensor`, without the constant. The class's worst error is the Euclidean norm of their
        errors.

        Notes
        -----
        Cost: one multiplication and one addition for each point and function; memory does not grow with n.
        """
        points, weights = weighted_points(points, weights, self.d)
        half = self.d // 2
        size = self.degree + 1

        def work(start: int, stop: int) -> Array:
            rows = np.asarray(points[start:stop], dtype=np.float64)
            if not (np.abs(rows) <= 1.0).all():
                raise InputError(f"points must lie in the cube [-1, 1]^{self.d}, but an entry is outside")
            # Two halves of the columns, so that the sum over the rows is one matrix product.
            first, last = tensor_values(rows[:, :half], size), tensor_values(rows[:, half:], size)
            return (first * weights[start:stop, None]).T @ last

        shape = size**half, size ** (self.d - half)
        means = total(work, len(points), min(2**14, max(1, 2**20 // shape[1])), *shape)
        return (means.ravel()[1:] * self._scales)[:, None]

    def error_of(self, difference: Array) -> Array:
        """Return the largest absolute error (1, 1) of an answer to any function of the class, as do ``errors``.

        It is sqrt(sum_r |r|^(-2k) D_r^2) with D_r the error of phi_r: by Cauchy and Schwarz no function of the class
        has a larger error, and the one with c_r proportional to |r|^(-2k) D_r has this.
        """
        return np.array([[np.linalg.norm(difference)]])

    def coefficients(self, index: ArrayLike, start: int = 0, stop: int | None = None) -> Array:
        """Return the coefficients (stop - start, 1, K) of |r|^(-k) phi_r; see :meth:`Workload.coefficients`.

        The answers are means of the extreme single products, so each query has the coefficient |r|^(-k) for its own r,
        and 0 for all others. No function of the class is drawn.
        """
        index, start, stop = asked(index, self.d, start, stop, (self.degree + 1) ** self.d - 1)
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
        the truncation follow from the same formula, as the class without truncation would have them.
        """
        squares = (multi_indices(index, self.d).astype(np.float64) ** 2).sum(axis=1)
        return np.where(squares > 0, np.maximum(squares, 1.0) ** -self.smoothness, 0.0)[None]
