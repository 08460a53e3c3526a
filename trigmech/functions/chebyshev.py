"""Products of Chebyshev polynomials, phi_r(x) = cos(r_1 arccos x_1) ... cos(r_d arccos x_d), and their means."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import islice, product
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trigmech._parallel import for_each, total
from trigmech._validate import check_choice, check_integers, numbers
from trigmech.errors import InputError
from trigmech.functions import kernels, lattice, sensitivity
from trigmech.functions.multi_indices import Ties as Ties
from trigmech.functions.multi_indices import ascending
from trigmech.functions.prefix_tree import PrefixTree

ROWS_PER_CHUNK = 16_384
# Gradients are of a few thousand points, so that both cores need smaller chunks.
POINTS_PER_CHUNK = 1_024
MAX_SIZE = 2**22


@dataclass(frozen=True, eq=False)
class ChebyshevBasis:
    """A finite set of products of Chebyshev polynomials on the cube [-1, 1]^d.

    Make one with :meth:`tensor`, :meth:`graded` or :meth:`total_degree`, or from any distinct multi-indices.

    Parameters
    ----------
    index : array_like (K, d) of int
        Row k holds the degrees r of phi_r. Distinct rows, no negative entry. All r = 0 is the constant 1.

    Raises
    ------
    InputError
        If a rule above is broken.

    References
    ----------
    Huang 2014, algorithms 4 and 9 (the sets {0, ..., t-1}^d and its first R members by total degree).
    """

    index: NDArray[np.int64]

    def __post_init__(self) -> None:
        index = numbers("index", self.index, "K", "d")
        if min(index.shape) == 0 or index.dtype.kind not in "iu" or index.min() < 0:
            raise InputError("index must be a non-empty (K, d) array of integers that are at least 0; "
                             f"given shape {index.shape} of {index.dtype}")
        if len(np.unique(index, axis=0)) != len(index):
            raise InputError("the rows of index must be distinct multi-indices")
        index = np.array(index, dtype=np.int64)
        index.setflags(write=False)
        object.__setattr__(self, "index", index)

    @classmethod
    def tensor(cls, d: int, t: int) -> Self:
        """Return the thesis's full set {0, ..., t-1}^d, the last column's degree running fastest.

        Raises
        ------
        InputError
            If d or t is not a positive integer or t^d exceeds 2^22 functions.
        """
        check_integers(1, d=d, t=t)
        if d * math.log2(t) > math.log2(MAX_SIZE):
            raise InputError(f"the full set has t^d = {t}^{d} functions, more than {MAX_SIZE}; "
                             "use ChebyshevBasis.graded, or a smaller t")
        return cls(np.array(list(product(range(t), repeat=d)), dtype=np.int64).reshape(-1, d))

    @classmethod
    def graded(cls, d: int, K: int, max_degree: int | None = None, ties: Ties = "fewest") -> Self:
        """Return the first K multi-indices by ascending total degree.

        Parameters
        ----------
        d, K : int
            Both at least 1.
        max_degree : int, optional
            The largest degree of a single column (t - 1 in the thesis). Default: no limit.
        ties : {"fewest", "last"}
            The order within one total degree. "fewest": fewer columns first, so that every T_q(x_j) comes
            before products of the same degree; then the sets of columns in lexicographic order; then the higher
            degree in the earlier column first. "last": the multi-index read from the last column to the first,
            larger first, which gathers the quadratic terms round the last column as the thesis's authors'
            program did.

        Raises
        ------
        InputError
            If K is larger than the number of multi-indices there are.

        References
        ----------
        Huang 2014, algorithm 9, line 4, which leaves the order of ties open.
        """
        check_integers(1, d=d, K=K)
        if K > MAX_SIZE:
            raise InputError(f"K = {K} functions are more than the {MAX_SIZE} that a basis may have")
        if max_degree is not None:
            check_integers(1, max_degree=max_degree)
        check_choice("ties", ties, Ties)
        if max_degree is not None and d * math.log2(max_degree + 1) < 62 and (max_degree + 1) ** d < K:
            raise InputError(f"K = {K} functions were asked for, but with degrees up to {max_degree} in {d} "
                             f"column(s) there are {(max_degree + 1) ** d}")
        return cls(np.array(list(islice(ascending(d, max_degree, ties), K)), dtype=np.int64))

    @classmethod
    def total_degree(cls, d: int, degree: int) -> Self:
        """Return all multi-indices of total degree at most ``degree``, in the order of :meth:`graded`."""
        check_integers(1, d=d)
        check_integers(0, degree=degree)
        return cls.graded(d, math.comb(d + int(degree), d))

    @property
    def d(self) -> int:
        """The number of columns."""
        return int(self.index.shape[1])

    @property
    def K(self) -> int:  # noqa: N802 - the thesis's letter
        """The number of functions."""
        return int(self.index.shape[0])

    def __len__(self) -> int:
        return self.K

    def __repr__(self) -> str:
        return f"ChebyshevBasis(K={self.K}, d={self.d}, total degree up to {int(self.index.sum(axis=1).max())})"

    @cached_property
    def constant(self) -> int | None:
        """The position of the constant function, or None if the basis lacks it."""
        zero = np.flatnonzero(~self.index.any(axis=1))
        return int(zero[0]) if len(zero) else None

    @cached_property
    def tree(self) -> PrefixTree:
        """The prefix tree that the kernels walk."""
        return PrefixTree.of(self.index)

    def evaluate(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return phi_r(x) for each row x and each function r.

        Parameters
        ----------
        X : array_like (n, d)
            Points of the cube.

        Returns
        -------
        ndarray (n, K)

        Raises
        ------
        InputError
            If X has another width or an entry is not a number in [-1, 1].
        """
        X = self._rows(X)
        out = np.empty((len(X), self.K))
        if self.constant is not None:
            out[:, self.constant] = 1.0
        for_each(lambda a, b: self._walk(kernels.basis_values, X[a:b], out[a:b]), len(X), ROWS_PER_CHUNK)
        return out

    def means(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return the mean of each function over the rows, in one pass.

        Parameters
        ----------
        X : array_like (n, d)
            Points of the cube; an array mapped from a file is read chunk by chunk.

        Returns
        -------
        ndarray (K,)
            The same bits for any number of threads.

        Raises
        ------
        InputError
            If X has no rows, another width, or an entry that is not a number in [-1, 1].

        Notes
        -----
        Privacy: exact means of private rows are private.
        Cost: n K multiplications and additions; memory O(K) times threads, whatever n is.
        """
        X = self._rows(X)
        if len(X) == 0:
            raise InputError("X must have at least one row")
        means = np.ones(self.K)
        outputs = self.tree.nodes[:, kernels.OUTPUT]
        means[outputs[outputs >= 0]] = self._sums(X, 0.0)[outputs >= 0] / len(X)
        return means

    def lattice_sums(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return the sums (K,) of the functions, each value rounded to the lattice of the multiples of 2^-40.

        Parameters
        ----------
        X : array_like (n, d)
            At most 2^13 points of the cube.

        Notes
        -----
        Exact, as floats hold multiples of 2^-40 up to 2^13: in any order, by any number of threads, on any processor.
        """
        X = self._rows(X)
        sums = np.full(self.K, float(len(X)))
        outputs = self.tree.nodes[:, kernels.OUTPUT]
        sums[outputs[outputs >= 0]] = self._sums(X, lattice.ROUNDER)[outputs >= 0]
        return sums

    def _sums(self, X: NDArray, rounder: float) -> NDArray[np.float64]:
        """Return the sums over the rows of the products of the tree's nodes."""
        tree = self.tree

        def work(start: int, stop: int) -> NDArray[np.float64]:
            sums = np.zeros((len(tree.nodes), tree.lanes))
            self._walk(kernels.basis_sums, X[start:stop], rounder, sums)
            return sums.sum(axis=1)

        return total(work, len(X), ROWS_PER_CHUNK, len(tree.nodes))

    def combine(self, X: ArrayLike, coefficients: ArrayLike) -> NDArray[np.float64]:
        """Return sum_r y_r phi_r(x) for each row x, without ever holding the (n, K) matrix.

        Parameters
        ----------
        X : array_like (n, d)
            Points of the cube.
        coefficients : array_like (K,)
            The y_r.

        Returns
        -------
        ndarray (n,)

        Raises
        ------
        InputError
            As :meth:`evaluate`, or if there are not K coefficients.
        """
        X = self._rows(X)
        y, per_node = self._coefficients(coefficients)
        out = np.full(len(X), 0.0 if self.constant is None else y[self.constant])
        for_each(lambda a, b: self._walk(kernels.basis_combination, X[a:b], per_node, out[a:b]), len(X),
                 ROWS_PER_CHUNK)
        return out

    def gradient(self, X: ArrayLike, coefficients: ArrayLike) -> NDArray[np.float64]:
        """Return the gradient of sum_r y_r phi_r at each row x.

        Parameters
        ----------
        X : array_like (n, d)
            Points of the cube.
        coefficients : array_like (K,)
            The y_r.

        Returns
        -------
        ndarray (n, d)

        Raises
        ------
        InputError
            As :meth:`combine`.

        Notes
        -----
        Cost: about 5 K multiplications and additions a row, by one sweep forward and one back through the tree.
        """
        X = self._rows(X)
        _, per_node = self._coefficients(coefficients)
        out = np.empty((len(X), self.d))
        for_each(lambda a, b: self._walk(kernels.basis_gradient, X[a:b], self.tree.parents, per_node, out[a:b]),
                 len(X), POINTS_PER_CHUNK)
        return out

    def l1_sensitivity(self, n: int) -> float:
        """Return a certified bound on how far the means move, in L1, when one of n rows is replaced.

        See :func:`trigmech.functions.sensitivity.l1_diameter` for the proof and the cases that are exact.
        """
        check_integers(1, n=n)
        return sensitivity.quotient_up(self._diameters[0], n)

    def l2_sensitivity(self, n: int) -> float:
        """Return a certified bound on how far the means move, in L2, when one of n rows is replaced.

        See :func:`trigmech.functions.sensitivity.l2_diameter` for the proof and the cases that are exact.
        """
        check_integers(1, n=n)
        return sensitivity.quotient_up(self._diameters[1], n)

    @cached_property
    def _diameters(self) -> tuple[float, float]:
        return sensitivity.l1_diameter(self.index), sensitivity.l2_diameter(self.index)

    def _rows(self, X: ArrayLike) -> NDArray:
        return numbers("X", X, "n", self.d)

    def _coefficients(self, coefficients: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the coefficients of the functions, and of the tree's nodes."""
        y = numbers("coefficients", coefficients, self.K).astype(np.float64, copy=False)
        outputs = self.tree.nodes[:, kernels.OUTPUT]
        return y, np.where(outputs >= 0, y[outputs], 0.0)

    def _walk(self, kernel: Callable[..., int], rows: NDArray, *arrays: NDArray | float) -> None:
        """Run a kernel on a chunk of rows, with its other inputs and its output."""
        # One chunk at a time, so that a table in another layout or precision is never copied whole. All blocks are
        # plain ndarrays without write access: another type, such as a memory map, would make the kernels compile twice.
        block = np.ascontiguousarray(np.asarray(rows), dtype=np.float64).view()
        block.flags.writeable = False
        tree = self.tree
        if kernel(block, tree.offsets, tree.degrees, tree.nodes, *tree.work_space(), *arrays):
            raise InputError(f"X must lie in the cube [-1, 1]^{self.d}, but an entry is outside or not a number; "
                             "Schema.to_cube maps a table there and clips it")
