"""The knowledge of a private table after its release, as weights of the fitted rows: estimates and variances.

The fitted rows have the means q of the measured functions Q (m, K); the release has the noisy means y, and the law of
their noise is known. Frequencies count by smooth sums of them (:mod:`trigmech.inference.projection`). The private table
is thought of as the fitted rows with weights 1/m + x, where x is normal before the release is looked at: white, as if
the fit were a sample of ``1 / white`` rows, and along smooth functions of single columns and pairs with the standard
deviations `SMOOTH` and `RELATED`. `RELATED` is that of a correlation that may be anything from -1 to 1. Given y, x is
normal with known mean and covariance, by a sparse least-squares problem.

Survey statisticians know the mean as calibration, or the generalised regression estimator (Deville and Saerndal 1992);
the covariance is that of regressing a statistic's influence function on the measured functions.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from scipy.sparse import block_diag, csr_matrix, hstack, identity

from trigmech._arrays import Array
from trigmech.functions.partition import all_codes
from trigmech.inference.projection import Projection, projections
from trigmech.inference.smooth import BINS, MOST_PRODUCTS, SmoothFunctions, parts
from trigmech.inference.unresolved import Unresolved
from trigmech.measurement.released import Release
from trigmech.reconstruction.tables import cells_of_columns

# The standard deviation of a smooth function's mean, before the release is looked at: of one column, and of products.
# The functions have mean square 1, so a product's mean is a correlation, and any correlation may be there.
SMOOTH = 0.3
RELATED = 3.0**-0.5
# Functions of single columns that tell where rows differ beside their place in an interval: at most so many.
MOST_SINGLE = 400
# Rows that are looked at: so many at most, and so many numbers of smooth functions.
MOST_ROWS, MOST_VALUES = 2**14, 2**24
# The solver ends when the residual is this part of what it was, of estimates; of weights and of draws, when it is this
# part of the noise in each number, or FINER times this part of what it was; or after so many steps.
ACCURACY, OF_DRAWS, FINER, STEPS = 1e-7, 1e-3, 1e-2, 2_000
# What a regression adds to mean squares, relative to them.
RIDGE = 1e-2
# Up to so many measured numbers the problem is solved exactly, in blocks of so many rows.
MOST_FACTORED, BLOCK = 1_500, 2_048
# Noise is taken to have at least this deviation, and no released number to be further from the fit than so many
# deviations: hostile noise must not make numbers infinite.
LEAST, FURTHEST, LARGEST = 1e-9, 1e6, 1e200


class Variances(NamedTuple):
    """Parts of the variance (q,) of statistics: of the noise, and of what no measured function tells."""

    noise: Array
    untold: Array


@dataclass(frozen=True, eq=False)
class Posterior:
    """Weights of the fitted rows, as far as the release tells them.

    release: Of tables, on the positions of its columns; ``points`` (m, D) are rows that were fitted to it.
    white: The variance of a function of mean square 1, before the release is looked at, if it is not smooth.
    unresolved: Intervals of which a part of the rows may share one value.

    Privacy: post-processing of public numbers. Cost: some hundred products with a sparse matrix of m rows, in which a
    row has an entry for each column and table, for each group of right-hand sides.
    """

    release: Release
    points: Array
    white: float
    unresolved: Sequence[Unresolved] = ()

    @property
    def m(self) -> int:
        return len(self.points)

    @cached_property
    def codes(self) -> NDArray[np.int32]:
        """The rows' positions (m, d)."""
        return all_codes([column.partition for column in self.release.columns], self.points)

    @cached_property
    def smooth(self) -> SmoothFunctions:
        """The functions along which the fit may be wrong as a whole."""
        return SmoothFunctions.of([column.partition for column in self.release.columns],
                                  [np.bincount(own, minlength=len(column.mass)) / self.m
                                   for own, column in zip(self.codes.T, self.release.columns, strict=True)])

    @cached_property
    def _within(self) -> Array:
        """Products (m, t) of what numbers of two columns are beside the means of their cells, scaled to mean square 1.

        No table tells anything of them, and the fit has only its copula's guess.
        """
        beside = []
        for j, cells in cells_of_columns(self.release).items():
            values, own = self.smooth.features[j][:, :1], cells[self.codes[:, j]]
            if self.release.columns[j].partition.value is None or not values.shape[1]:
                continue
            number = values[self.codes[:, j], 0]
            count = np.maximum(np.bincount(own), 1)
            beside.append(number - (np.bincount(own, number) / count)[own])
        products = [a * b for i, a in enumerate(beside) for b in beside[:i]]
        sizes = [float(np.sqrt((each**2).mean())) for each in products]
        held = [each / size for each, size in zip(products, sizes, strict=True) if size > LEAST][:MOST_PRODUCTS]
        return np.column_stack(held) if held else np.zeros((self.m, 0))

    @cached_property
    def _values(self) -> Array:
        """The values (m, s) of the functions along which the fit may be wrong as a whole, of mean 0."""
        values = np.column_stack([self.smooth.evaluate(self.codes), self._within])
        return np.asarray(values - values.mean(axis=0))

    @cached_property
    def _measured(self) -> tuple[csr_matrix, csr_matrix, csr_matrix, Array]:
        """The measured functions' values (m, K), their transpose, the map (y, K) to vectors in units of their noise,
        and the released vector (y,) in these units."""
        taken = list(projections(self.release))
        values = csr_matrix(hstack([each.query.sparse(self.points) for each in taken]))
        maps = csr_matrix(block_diag([_map(each) / max(each.deviation, LEAST) for each in taken]))
        released = np.concatenate([np.clip(each.values / max(each.deviation, LEAST), -LARGEST, LARGEST)
                                   for each in taken])
        return values, csr_matrix(values.T), maps, released

    @cached_property
    def _wide(self) -> Array:
        """The deviations (s,) of the smooth functions' means, before the release is looked at."""
        single = self.smooth.size - len(self.smooth.factors)
        deviations = self.smooth.deviations
        return np.concatenate([SMOOTH * deviations[:single], RELATED * deviations[single:],
                               np.full(self._within.shape[1], SMOOTH)])

    @cached_property
    def _centre(self) -> Array:
        _, transposed, maps, _ = self._measured
        return np.asarray(maps @ (transposed @ np.full(self.m, 1.0 / self.m)))

    def _image(self, x: Array) -> Array:
        """Return what weights (m, ...) of sum 0, less their mean, contribute to the vectors (y, ...)."""
        _, transposed, maps, _ = self._measured
        return np.asarray(maps @ (transposed @ x)) - np.multiply.outer(self._centre, x.sum(axis=0))

    def _adjoint(self, u: Array) -> Array:
        """Return the products of such vectors with each row's own."""
        values, _, maps, _ = self._measured
        return np.asarray(values @ (maps.T @ u)) - self._centre @ u

    @cached_property
    def _residual(self) -> Array:
        """How far the released vector is from that of the rows (y, 1), in units of the noise."""
        return np.asarray(np.clip(self._measured[3] - self._centre, -FURTHEST, FURTHEST))[:, None]

    @property
    def _unit(self) -> float:
        return float(np.sqrt(self.white / self.m))

    def _spread(self, v: Array) -> Array:
        """Return the deviations (m, q) of weights that belong to independent standard normal numbers (m + s, q)."""
        return np.asarray(self._unit * v[: self.m] + self._values @ (self._wide[:, None] / self.m * v[self.m :]))

    def _gathered(self, x: Array) -> Array:
        """Return the products (m + s, q) of values (m, q) of the rows with what each of these numbers does to them."""
        return np.concatenate([self._unit * x, self._wide[:, None] / self.m * (self._values.T @ x)])

    def _forward(self, v: Array) -> Array:
        return self._image(self._spread(v))

    def _backward(self, u: Array) -> Array:
        return self._gathered(self._adjoint(u))

    @cached_property
    def _factored(self) -> tuple[Array, bool] | None:
        """The Cholesky factor of DD' + I; None if there are too many measured numbers for it."""
        _, transposed, maps, _ = self._measured
        if maps.shape[0] > MOST_FACTORED:
            return None
        gram, along = np.eye(maps.shape[0]), np.zeros((maps.shape[0], self._values.shape[1]))
        for start in range(0, self.m, BLOCK):
            block: csr_matrix = transposed[:, start : start + BLOCK]
            own: Array = (maps @ block).toarray() - self._centre[:, None]
            gram += self._unit**2 * (own @ own.T)
            along += own @ self._values[start : start + BLOCK]
        along *= self._wide / self.m
        gram += along @ along.T
        try:
            return cho_factor(gram, lower=True, check_finite=False)
        except LinAlgError:
            # Measurements without noise leave more digits than numbers have.
            return None

    @cached_property
    def _along(self) -> Array:
        """What the numbers of smooth functions contribute to the vectors (y, s)."""
        return self._image(self._values / self.m) * self._wide

    @cached_property
    def _nearly(self) -> tuple[Array, tuple[Array, bool] | None]:
        """A diagonal B (y, 1) near that of I and the white part of DD', and the Cholesky factor of I + A'A / B.

        With A, what smooth functions contribute, they give the inverse of B + AA', which differs little from DD' + I.
        """
        _, transposed, maps, _ = self._measured
        diagonal = np.ones(maps.shape[0])
        for start in range(0, self.m, BLOCK):
            block: csr_matrix = transposed[:, start : start + BLOCK]
            own: Array = (maps @ block).toarray() - self._centre[:, None]
            diagonal += self._unit**2 * np.einsum("ij,ij->i", own, own)
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

    def _solve(self, right: Array) -> Array:
        """Return the solutions v (m + s, q) of (D'D + I) v = right, which are right - D'(DD' + I)^-1 D right."""
        wanted = self._forward(right)
        return right - self._backward(self._inverse(wanted, ACCURACY * np.linalg.norm(wanted, axis=0)))

    def _given(self, vectors: Array, prior: Array, accuracy: float = ACCURACY) -> Array:
        """Return the solutions v (m + s, q) of (D'D + I) v = D' vectors + prior, for vectors (y, q).

        They are prior + D'(DD' + I)^-1 (vectors - D prior). Without much noise D is large, so D D' vectors would be far
        larger than what is inverted here, and small errors relative to it would be larger than the solution.
        """
        wanted = vectors - self._forward(prior)
        residual = accuracy * np.maximum(np.sqrt(len(wanted)), FINER * np.linalg.norm(wanted, axis=0))
        return prior + self._backward(self._inverse(wanted, residual))

    def _inverse(self, wanted: Array, residual: Array) -> Array:
        """Return the solutions u (y, q) of (DD' + I) u = wanted, up to residuals of these lengths (q,).

        D' (DD' + I)^-1 makes no vector longer, so errors in v are at most as long.
        Few measured numbers are solved for by the factor of DD' + I, many by conjugate gradients.
        """
        if self._factored is not None:
            return np.asarray(cho_solve(self._factored, wanted, check_finite=False))
        return self._by_gradients(wanted, residual)

    def _by_gradients(self, wanted: Array, least: Array) -> Array:
        """Return the same by conjugate gradients for all columns at once."""
        u, residual = np.zeros_like(wanted), wanted.copy()
        direction = self._near(residual)
        size = np.einsum("ij,ij->j", residual, direction)
        goal = np.maximum(least, 1e-150) ** 2
        for _ in range(STEPS):
            if (np.einsum("ij,ij->j", residual, residual) <= goal).all():
                break
            image = (self._unit**2 * self._image(self._adjoint(direction)) + self._along @ (self._along.T @ direction)
                     + direction)
            along = np.einsum("ij,ij->j", direction, image)
            step = np.where(size > 0.0, size / np.where(along > 0.0, along, 1.0), 0.0)
            u += step * direction
            residual -= step * image
            near = self._near(residual)
            after = np.einsum("ij,ij->j", residual, near)
            direction = near + np.where(size > 0.0, after / np.where(size > 0.0, size, 1.0), 0.0) * direction
            size = after
        return u

    def _weights(self, v: Array) -> Array:
        """Return the deviations x (m, q) of weights, of sum 0."""
        x = self._spread(v)
        return np.asarray(x - x.mean(axis=0))

    @cached_property
    def weights(self) -> Array:
        """The weights (m,) of sum 1 with which the rows have what was released, as far as it is not noise.

        Some are below 0.
        """
        prior = np.zeros((self.m + self._values.shape[1], 1))
        return 1.0 / self.m + self._weights(self._given(self._residual, prior))[:, 0]

    def drawn(self, count: int, rng: np.random.Generator, sampled: bool, paired: bool = False) -> Array:
        """Return weights (m, count) as they may be after the release, each column drawn for itself.

        If ``sampled``, they are those of a population of which the table is a sample of n rows. If ``paired``, columns
        k and k + count / 2 deviate in opposite directions where the release tells nothing; the noise that it may have,
        and the sampling, are each column's own. Then sums of pairs vary by noise and sampling alone.
        """
        noisy = self._residual + rng.normal(size=(len(self._residual), count))
        prior = rng.normal(size=(self.m + self._values.shape[1], count))
        if paired:
            prior[:, count // 2 :] = -prior[:, : count // 2]
        x = self._weights(self._given(noisy, prior, OF_DRAWS))
        if sampled:
            more = rng.normal(0.0, 1.0 / np.sqrt(self.release.n * self.m), x.shape)
            x += more - more.mean(axis=0)
        return 1.0 / self.m + x

    def regressors(self, points: Array) -> Array:
        """Return functions (r, q) of columns and pairs in rows (r, D), on which influences are regressed for biases."""
        codes = all_codes([column.partition for column in self.release.columns], points)
        held = [np.eye(BINS)[parts(column)[own]] for column, own in zip(self.release.columns, codes.T, strict=True)]
        return np.column_stack([self.smooth.without_ranks(codes), *held])

    def along(self, influence: Array) -> Array:
        """Return the coefficients (q, s) of influences (m, s) along these functions, by regression with a ridge."""
        values = self.regressors(self.points)
        values -= values.mean(axis=0)
        gram = values.T @ values / self.m
        gram += RIDGE * np.diag(np.maximum(gram.diagonal(), LEAST))
        return np.asarray(np.linalg.solve(gram, values.T @ (influence - influence.mean(axis=0)) / self.m))

    def variances(self, influence: Array) -> Variances:
        """Return the variances of the statistics with these influences (m, q), of the rows with the weights."""
        pulled, found, seen = self._explained(influence)
        noise = (seen**2).sum(axis=0)
        untold = np.maximum(np.einsum("ij,ij->j", pulled, found) - noise, 0.0)
        return Variances(noise, untold + (self._of_places(influence) ** 2).sum(axis=0))

    def covariance(self, influence: Array) -> Array:
        """Return the covariance (q, q) that the noise, and what is not smooth, give statistics of these influences."""
        _, found, seen = self._explained(influence)
        rough = found[: self.m]
        places = self._of_places(influence)
        return np.asarray(seen.T @ seen + rough.T @ rough + places.T @ places)

    @cached_property
    def _single_functions(self) -> tuple[Array, Array, NDArray[np.int64]]:
        """The first smooth functions (m, q) of single columns, their pseudoinverse (q, m), and the column (q,) of each.

        They are at most a third of the rows, because as many functions as rows would explain anything. Of a table too
        wide for this there are no functions.
        """
        count = min(self.m // 3, MOST_SINGLE) // len(self.smooth.features)
        own = [values[self.codes[:, j], :count] for j, values in enumerate(self.smooth.features)]
        functions = np.column_stack(own)
        functions = functions - functions.mean(axis=0)
        columns = np.repeat(np.arange(len(own)), [values.shape[1] for values in own])
        return functions, np.linalg.pinv(functions, rcond=1e-6), columns

    def _of_places(self, influence: Array) -> Array:
        """Return what possible shared values of measured intervals contribute to statistics (w, q): its squares add up.

        No measured number tells where they lie. A row that moves keeps the values of its other columns, so functions of
        these are taken off. The rest of an influence differs along an interval by chance, too, as it does in rows drawn
        at random; this part is taken off as well.
        """
        centred = influence - influence.mean(axis=0)
        parts = [np.zeros((0, centred.shape[1]))]
        for each in self.unresolved:
            functions, inverse, columns = self._single_functions
            others = columns != each.column
            psi = centred - functions[:, others] @ (inverse @ centred)[others]
            values, wide = each.waves(self.points)
            along = wide[:, None] * (values.T @ psi) / self.m
            chance = wide**2 @ (np.square(values).T @ np.square(psi)) / self.m**2
            total = np.maximum((along**2).sum(axis=0), np.finfo(float).tiny)
            parts.append(along * np.sqrt(np.maximum(1.0 - chance / total, 0.0)))
        return np.concatenate(parts)

    def _explained(self, influence: Array) -> tuple[Array, Array, Array]:
        pulled = self._gathered(influence - influence.mean(axis=0))
        found = self._solve(pulled)
        return pulled, found, self._forward(found)


def rows_looked_at(release: Release, points: Array, rng: np.random.Generator) -> Array:
    """Return as many of the fitted rows (m, D) as are looked at, drawn evenly."""
    partitions = [column.partition for column in release.columns]
    size = SmoothFunctions.of(partitions, [column.mass for column in release.columns]).size
    most = int(max(min(MOST_ROWS, MOST_VALUES // max(size, 1)), 1_000))
    return points if len(points) <= most else points[np.sort(rng.choice(len(points), most, replace=False))]


def _map(taken: Projection) -> csr_matrix:
    """Return the map from a query's means to what is taken of them."""
    query, entries = taken.query, int(np.prod(taken.query.shape))
    if taken.sums is not None:
        return taken.sums
    if query.decoding is None and entries == query.size:
        return csr_matrix(identity(entries))
    return csr_matrix(np.column_stack([query.encode(row.reshape(query.shape)).ravel() for row in np.eye(entries)]))
