"""The knowledge of a private table after its release, as weights of the fitted rows: estimates and variances.

The fitted rows have the means q of the measured functions Q (m, K); the release has the noisy means y, and the law of
their noise is known. Frequencies count by smooth sums of them (:mod:`trigmech.inference.projection`). The private table
is thought of as the fitted rows with weights 1/m + x, where x is normal before the release is looked at: white, as if
the fit were a sample of ``1 / white`` rows, and along smooth functions of single columns and pairs with the standard
deviations `SMOOTH` and `RELATED`. `RELATED` is that of a correlation that may be anything from -1 to 1. Given y, x is
normal with known mean and covariance, by a least-squares problem (:mod:`trigmech.inference.equations`).

Survey statisticians know the mean as calibration, or the generalised regression estimator (Deville and Saerndal 1992);
the covariance is that of regressing a statistic's influence function on the measured functions.

With little noise a release can tell more than weights of these rows can have: cells of three columns in which the fit
has no rows, for example. Then a chi-square test shows that the released numbers are further from their expected values
than the noise and the prior say. The true weights may be further off by the same factor, so all deviations are
multiplied by it (Birge 1932).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, identity

from trigmech._arrays import Array
from trigmech.functions.partition import all_codes
from trigmech.inference.equations import OF_DRAWS, Equations
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
# Rows that are looked at: so many at most, and so many numbers of smooth functions; and fewer, if as many numbers or
# more are measured, because then the equations cannot be solved in a few steps.
MOST_ROWS, MOST_VALUES, FEWER_ROWS = 2**14, 2**24, 2**13
# The ridge that a regression adds to mean squares, relative to them.
RIDGE = 1e-2
# Noise is taken to have at least the deviation LEAST, and at least the part FAINT of the deviation of functions that
# are not smooth. No released number counts as further from the fit than FURTHEST deviations, or as larger than LARGEST
# deviations: hostile noise must not make numbers infinite.
LEAST, FAINT, FURTHEST, LARGEST = 1e-9, 1e-4, 1e6, 1e200
# The mean square of the released numbers' differences from the expected ones is 1 by the prior. If it is more than so
# many of its standard deviations above 1, this is no chance.
EVIDENT = 4.0


class Variances(NamedTuple):
    """Parts of the variance (q,) of statistics: from the noise, and from relations that were not measured."""

    noise: Array
    untold: Array


@dataclass(frozen=True, eq=False)
class Posterior:
    """Weights of the fitted rows, as far as the release tells them.

    release: A release of tables, on the positions of its columns.
    points (m, D): Rows that were fitted to the release.
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
        """Products (m, t) of the numbers of two columns, each less the mean of its cell, scaled to mean square 1.

        No table tells anything of these products, and the fit has only its copula's guess of them.
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
    def _taken(self) -> list[Projection]:
        return list(projections(self.release))

    def _noise(self, taken: Projection) -> float:
        """Return the deviation of the noise, but at least a small part of that of functions that are not smooth."""
        return max(taken.deviation, LEAST, FAINT * float(np.sqrt(self.white)))

    @cached_property
    def equations(self) -> Equations:
        """The equations of the numbers on which weights depend."""
        parts = [(csr_matrix(each.query.sparse(self.points)), csr_matrix(_map(each) / self._noise(each)))
                 for each in self._taken]
        return Equations(parts, float(np.sqrt(self.white / self.m)), self._values, self._wide)

    @cached_property
    def _wide(self) -> Array:
        """The deviations (s,) of the smooth functions' means, before the release is looked at."""
        single = self.smooth.size - len(self.smooth.factors)
        deviations = self.smooth.deviations
        return np.concatenate([SMOOTH * deviations[:single], RELATED * deviations[single:],
                               np.full(self._within.shape[1], SMOOTH)])

    @cached_property
    def _residual(self) -> Array:
        """How far the released vector is from that of the rows (y, 1), in units of the noise."""
        released = np.concatenate([np.clip(each.values / self._noise(each), -LARGEST, LARGEST) for each in self._taken])
        return np.asarray(np.clip(released - self.equations.centre, -FURTHEST, FURTHEST))[:, None]

    def _weights(self, v: Array) -> Array:
        """Return the deviations x (m, q) of weights, of sum 0."""
        x = self.equations.spread(v)
        return np.asarray(x - x.mean(axis=0))

    @cached_property
    def weights(self) -> Array:
        """The weights (m,) of sum 1 with which the rows have the released means, as far as these are not noise.

        Some are below 0.
        """
        return 1.0 / self.m + self._weights(self._middle)[:, 0]

    @cached_property
    def _middle(self) -> Array:
        """The mean (k, 1) of the numbers on which weights depend."""
        return self.equations.given(self._residual, np.zeros((self.equations.k, 1)))

    def _strain(self, middle: Array) -> float:
        """Return how many times larger deviations are than the prior says, given the mean (k, 1); 1 if not evidently.

        The square is r'(DD' + I)^-1 r / y for the residual r (y,), of which the prior expects 1.
        """
        left = self._residual - self.equations.forward(middle)
        found = float(np.square(left).sum() + np.square(middle).sum()) / self.equations.y
        return float(np.sqrt(found)) if found > 1.0 + EVIDENT * np.sqrt(2.0 / self.equations.y) else 1.0

    @cached_property
    def strain(self) -> float:
        """How many times larger deviations are than the prior says, judging by the released numbers; at least 1."""
        return self._strain(self._middle)

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
        # The last column is the mean, which costs little beside the others.
        v = self.equations.given(np.column_stack([noisy, self._residual]), np.pad(prior, ((0, 0), (0, 1))), OF_DRAWS)
        strain, middle = self._strain(v[:, -1:]), self._weights(v[:, -1:])
        x = self._weights(v[:, :-1])
        if strain > 1.0:
            x = middle + strain * (x - middle)
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
        wider = self.strain**2
        return Variances(wider * noise, wider * untold + (self._of_places(influence) ** 2).sum(axis=0))

    def covariance(self, influence: Array) -> Array:
        """Return the covariance (q, q) of statistics with these influences (m, q).

        It has three parts: the noise, functions that are not smooth, and the places of shared values in intervals.
        """
        _, found, seen = self._explained(influence)
        rough = found[: self.m]
        places = self._of_places(influence)
        return np.asarray(self.strain**2 * (seen.T @ seen + rough.T @ rough) + places.T @ places)

    @cached_property
    def _single_functions(self) -> tuple[Array, Array, NDArray[np.int64]]:
        """The first smooth functions (m, q) of single columns, their pseudoinverse (q, m), and the column (q,) of each.

        There are at most a third as many functions as rows, because as many functions as rows would explain anything. A
        table that is too wide for this has no such functions.
        """
        count = min(self.m // 3, MOST_SINGLE) // len(self.smooth.features)
        own = [values[self.codes[:, j], :count] for j, values in enumerate(self.smooth.features)]
        functions = np.column_stack(own)
        functions = functions - functions.mean(axis=0)
        columns = np.repeat(np.arange(len(own)), [values.shape[1] for values in own])
        return functions, np.linalg.pinv(functions, rcond=1e-6), columns

    def _of_places(self, influence: Array) -> Array:
        """Return the contributions (w, q) of possible shared values in intervals to statistics; their squares add up.

        No measured number tells where these values lie. A row that moves keeps the values of its other columns, so
        functions of these columns are taken off. The rest of an influence differs along an interval by chance, too, as
        it does in rows drawn at random; this part is taken off as well.
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
        pulled = self.equations.gathered(influence - influence.mean(axis=0))
        found = self.equations.solve(pulled)
        return pulled, found, self.equations.forward(found)


def rows_looked_at(release: Release, points: Array, rng: np.random.Generator) -> Array:
    """Return as many of the fitted rows (m, D) as are looked at, drawn evenly."""
    partitions = [column.partition for column in release.columns]
    size = SmoothFunctions.of(partitions, [column.mass for column in release.columns]).size
    most = int(max(min(MOST_ROWS, MOST_VALUES // max(size, 1)), 1_000))
    if min(most, len(points)) > FEWER_ROWS <= sum(len(each.values) for each in projections(release)):
        most = FEWER_ROWS
    return points if len(points) <= most else points[np.sort(rng.choice(len(points), most, replace=False))]


def _map(taken: Projection) -> csr_matrix:
    """Return the map from a query's means to the values of its projection."""
    query, entries = taken.query, int(np.prod(taken.query.shape))
    if taken.sums is not None:
        return taken.sums
    if query.decoding is None and entries == query.size:
        return csr_matrix(identity(entries))
    return csr_matrix(np.column_stack([query.encode(row.reshape(query.shape)).ravel() for row in np.eye(entries)]))
