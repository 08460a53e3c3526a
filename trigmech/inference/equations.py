"""The least-squares problem of weights: solved exactly, or by conjugate gradients, whichever is predicted to cost less.

Weights of m rows depend on k independent standard normal numbers v: one for each row, and one for each smooth function.
A linear map D gives their contributions to the y measured numbers, in units of the noise. After the release, v is
normal with the covariance (D'D + I)^-1 = I - D'(DD' + I)^-1 D. So a system of k or of y equations is solved, whichever
is the smaller one. With much noise D hardly has directions above the noise, and few steps of conjugate gradients do.
Without much noise nearly all directions are above it, by factors that differ by many powers of ten. Then a Cholesky
factor costs far less.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from scipy.linalg.blas import dsyrk
from scipy.sparse import block_diag, csr_matrix, hstack

from trigmech._arrays import Array

# For variances, the solver ends when the residual is the part ACCURACY of the first one. For weights and for draws it
# ends when the residual is the part ACCURACY or OF_DRAWS of the noise in each number, or FINER times this part of the
# first residual. It always ends after so many STEPS.
ACCURACY, OF_DRAWS, FINER, STEPS = 1e-7, 1e-3, 1e-2, 2_000
# Up to so many measured numbers the problem is solved by a factor at once, in blocks of so many rows.
MOST_FACTORED, BLOCK = 1_500, 2_048
# A factor is that of so many equations at most, of 800 megabytes; it is made of so many columns at a time.
MOST_EQUATIONS, WIDTH = 10_000, 1_024
# After so many steps, and again after as many, it is predicted how many are left. So many products of dense and of
# sparse matrices take the same time.
LOOKED, DENSE, SPARSE = 10, 10.0, 1.0
# If rounding makes a factor impossible, these parts of the largest entry are added to the diagonal, one after another.
RAISED = (0.0, 1e-13, 1e-10, 1e-7)

Factor = tuple[Array, bool]


@dataclass(frozen=True, eq=False)
class Equations:
    """The equations (D'D + I) v = right.

    parts: The values (m, K) of each measurement's functions, and the maps (y, K) of their means to measured numbers, in
    units of their noise.
    unit: How much a row's weight grows if the row's own number grows by 1.
    smooth, wide: Values (m, s) of smooth functions of mean 0, and the deviations (s,) of their means.
    """

    parts: Sequence[tuple[csr_matrix, csr_matrix]]
    unit: float
    smooth: Array
    wide: Array

    @property
    def m(self) -> int:
        return len(self.smooth)

    @property
    def y(self) -> int:
        return sum(maps.shape[0] for _, maps in self.parts)

    @property
    def k(self) -> int:
        return self.m + self.smooth.shape[1]

    @cached_property
    def _matrices(self) -> tuple[csr_matrix, csr_matrix, csr_matrix]:
        """The measured functions' values (m, K), their transpose, and the map (y, K) to measured numbers."""
        values = csr_matrix(hstack([values for values, _ in self.parts]))
        return values, csr_matrix(values.T), csr_matrix(block_diag([maps for _, maps in self.parts]))

    @cached_property
    def centre(self) -> Array:
        """The measured numbers (y,) of the rows with even weights."""
        _, transposed, maps = self._matrices
        return np.asarray(maps @ (transposed @ np.full(self.m, 1.0 / self.m)))

    def _image(self, x: Array) -> Array:
        """Return the contributions (y, ...) of weights (m, ...), less their mean, to the measured numbers."""
        _, transposed, maps = self._matrices
        return np.asarray(maps @ (transposed @ x)) - np.multiply.outer(self.centre, x.sum(axis=0))

    def _adjoint(self, u: Array) -> Array:
        """Return the products of such vectors with the vector of each row."""
        values, _, maps = self._matrices
        return np.asarray(values @ (maps.T @ u)) - self.centre @ u

    def spread(self, v: Array) -> Array:
        """Return the deviations (m, q) of weights that belong to independent standard normal numbers (k, q)."""
        return np.asarray(self.unit * v[: self.m] + self.smooth @ (self.wide[:, None] / self.m * v[self.m :]))

    def gathered(self, x: Array) -> Array:
        """Return the product (k, q) of the transpose of :meth:`spread` with values (m, q) of the rows."""
        return np.concatenate([self.unit * x, self.wide[:, None] / self.m * (self.smooth.T @ x)])

    def forward(self, v: Array) -> Array:
        """Return D v."""
        return self._image(self.spread(v))

    def backward(self, u: Array) -> Array:
        """Return D' u."""
        return self.gathered(self._adjoint(u))

    @cached_property
    def factored(self) -> Factor | None:
        """The Cholesky factor of DD' + I; None if there are too many measured numbers for it."""
        if self.y > MOST_FACTORED:
            return None
        _, transposed, maps = self._matrices
        gram, along = np.eye(self.y), np.zeros((self.y, self.smooth.shape[1]))
        for start in range(0, self.m, BLOCK):
            block: csr_matrix = transposed[:, start : start + BLOCK]
            own: Array = (maps @ block).toarray() - self.centre[:, None]
            gram += self.unit**2 * (own @ own.T)
            along += own @ self.smooth[start : start + BLOCK]
        along *= self.wide / self.m
        gram += along @ along.T
        try:
            return cho_factor(gram, lower=True, check_finite=False)
        except LinAlgError:
            # Measurements without noise leave more digits than numbers have.
            return None

    @cached_property
    def _large_factor(self) -> Factor | None:
        """The factor of DD' + I, or of D'D + I if this has fewer rows; None if numbers have too few digits for it."""
        by_numbers = self.y <= self.k
        gram = np.zeros((min(self.y, self.k),) * 2, order="F")
        for block in self._blocks_of_rows() if by_numbers else self._blocks_of_numbers():
            # Only the lower half is made. The transpose of an array by rows is one by columns, which is not copied.
            gram = dsyrk(1.0, block.T, beta=1.0, c=gram, trans=1, lower=1, overwrite_c=1)
        diagonal = gram.diagonal().copy()
        for raised in RAISED:
            np.fill_diagonal(gram, diagonal + 1.0 + raised * diagonal.max(initial=0.0))
            try:
                return cho_factor(gram, lower=True, check_finite=False)
            except LinAlgError:
                continue
        return None

    def _blocks_of_rows(self) -> Iterator[Array]:
        """Yield D (y, ...) for some of the k numbers at a time."""
        dense = [np.asarray(maps.T.toarray()) for _, maps in self.parts]
        for start in range(0, self.m, WIDTH):
            own = [values[start : start + WIDTH] @ each for (values, _), each in zip(self.parts, dense, strict=True)]
            yield np.ascontiguousarray(self.unit * (np.column_stack(own) - self.centre).T)
        yield np.ascontiguousarray(self._along)

    def _blocks_of_numbers(self) -> Iterator[Array]:
        """Yield D' (k, ...) for some of the y measured numbers at a time, in an array that is used again."""
        block, held, start = np.empty((self.k, min(WIDTH, self.y))), 0, 0
        for values, maps in self.parts:
            first = 0
            while first < maps.shape[0]:
                last = min(first + block.shape[1] - held, maps.shape[0])
                block[: self.m, held : held + last - first] = values @ maps[first:last].T.toarray()
                held, first = held + last - first, last
                if held == block.shape[1] or start + held == self.y:
                    numbers = slice(start, start + held)
                    block[: self.m, :held] -= self.centre[numbers]
                    block[: self.m, :held] *= self.unit
                    block[self.m :, :held] = self._along[numbers].T
                    yield block[:, :held]
                    start, held = start + held, 0

    @cached_property
    def _along(self) -> Array:
        """The contributions (y, s) of the smooth functions' numbers to the measured numbers."""
        return self._image(self.smooth / self.m) * self.wide

    @cached_property
    def _nearly(self) -> tuple[Array, Factor | None]:
        """A diagonal B (y, 1) near that of I and the white part of DD', and the Cholesky factor of I + A'A / B.

        A (y, s) are the contributions of smooth functions. With A, both give the inverse of B + AA', which differs
        little from DD' + I.
        """
        whites = [np.square(block[: self.m]).sum(axis=0) for block in self._blocks_of_numbers()]
        diagonal = 1.0 + np.concatenate(whites)
        scaled = self._along / np.sqrt(diagonal)[:, None]
        try:
            return diagonal[:, None], cho_factor(np.eye(scaled.shape[1]) + scaled.T @ scaled, check_finite=False)
        except LinAlgError:
            return diagonal[:, None], None

    def _near(self, residual: Array) -> Array:
        """Return about (DD' + I)^-1 times such vectors (y, q)."""
        diagonal, factor = self._nearly
        found = residual / diagonal
        if factor is not None:
            found -= self._along @ cho_solve(factor, self._along.T @ found, check_finite=False) / diagonal
        return found

    def solve(self, right: Array) -> Array:
        """Return the solutions v (k, q) of (D'D + I) v = right, which are right - D'(DD' + I)^-1 D right."""
        wanted = self.forward(right)
        found = self._inverse(wanted, ACCURACY * np.linalg.norm(wanted, axis=0))
        return right - self.backward(found) if isinstance(found, np.ndarray) else self._exactly(found, right)

    def given(self, vectors: Array, prior: Array, accuracy: float = ACCURACY) -> Array:
        """Return the solutions v (k, q) of (D'D + I) v = D' vectors + prior, for vectors (y, q).

        They are prior + D'(DD' + I)^-1 (vectors - D prior). :meth:`solve` would apply the inverse to D D' vectors. With
        little noise D is large, and D D' vectors are far larger than vectors - D prior. Then errors that are small
        relative to D D' vectors would be larger than the solution.
        """
        wanted = vectors - self.forward(prior)
        residual = accuracy * np.maximum(np.sqrt(len(wanted)), FINER * np.linalg.norm(wanted, axis=0))
        found = self._inverse(wanted, residual)
        return (prior + self.backward(found) if isinstance(found, np.ndarray) else
                self._exactly(found, self.backward(vectors) + prior))

    def _exactly(self, factor: Factor, right: Array) -> Array:
        """Return the solutions v (k, q) by the factor of D'D + I, once improved."""
        v = cho_solve(factor, right, check_finite=False)
        v += cho_solve(factor, right - v - self.backward(self.forward(v)), check_finite=False)
        return np.asarray(v)

    def _inverse(self, wanted: Array, residual: Array) -> Array | Factor:
        """Return the solutions u (y, q) of (DD' + I) u = wanted, up to residuals of these lengths (q,).

        D' (DD' + I)^-1 makes no vector longer, so errors in v are at most as long. Few measured numbers are solved for
        by the factor of DD' + I, many by conjugate gradients, or by a factor if these would take longer. More measured
        numbers than unknown ones come with little noise alone, so then gradients are not tried. If the factor is that
        of D'D + I, it is returned in place of u.
        """
        if self.factored is not None:
            return np.asarray(cho_solve(self.factored, wanted, check_finite=False))
        if "_large_factor" not in self.__dict__ and not self.k < min(self.y, MOST_EQUATIONS):
            found, done = self._by_gradients(wanted, residual)
            if done:
                return found
        factor = self._large_factor
        if factor is None:
            return self._by_gradients(wanted, residual, patient=True)[0]
        return factor if self.y > self.k else np.asarray(cho_solve(factor, wanted, check_finite=False))

    @property
    def _worth(self) -> float:
        """How many steps of conjugate gradients for a column cost as much as a factor; infinite if it is too large."""
        few, many = sorted((self.y, self.k))
        if few > MOST_EQUATIONS:
            return np.inf
        values, _, maps = self._matrices
        entries = values.nnz + maps.nnz + self.y * self.smooth.shape[1]
        return float(few) ** 2 * (many + few / 3.0) / (4.0 * DENSE / SPARSE * entries)

    def _by_gradients(self, wanted: Array, least: Array, patient: bool = False) -> tuple[Array, bool]:
        """Return the same by conjugate gradients for all columns at once, and whether this did not end early.

        Unless it is ``patient``, it ends early where a factor is predicted to cost less than the steps that are left.
        """
        u, residual = np.zeros_like(wanted), wanted.copy()
        direction = self._near(residual)
        size = np.einsum("ij,ij->j", residual, direction)
        goal = np.maximum(least, 1e-150) ** 2
        first = np.maximum(np.einsum("ij,ij->j", residual, residual), goal)
        for step_number in range(STEPS):
            squares = np.einsum("ij,ij->j", residual, residual)
            if (squares <= goal).all():
                break
            if step_number and step_number % LOOKED == 0 and not patient:
                # Progress slows down, so twice as many steps are left as the mean progress of those before says.
                progress = np.maximum(np.log(first / squares), 1e-9)
                left = 2.0 * step_number * float((np.log(squares / goal) / progress).max())
                if max(left, step_number) * wanted.shape[1] > self._worth:
                    return u, False
            image = (self.unit**2 * self._image(self._adjoint(direction)) + self._along @ (self._along.T @ direction)
                     + direction)
            along = np.einsum("ij,ij->j", direction, image)
            step = np.where(size > 0.0, size / np.where(along > 0.0, along, 1.0), 0.0)
            u += step * direction
            residual -= step * image
            near = self._near(residual)
            after = np.einsum("ij,ij->j", residual, near)
            direction = near + np.where(size > 0.0, after / np.where(size > 0.0, size, 1.0), 0.0) * direction
            size = after
        return u, True
