"""The fitted rows with weights: one table for all statistics, with closed intervals instead of imputations."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

from trigmech._arrays import Array
from trigmech._validate import check_level, numbers
from trigmech.errors import InputError
from trigmech.inference.estimate import Estimate, around, at_zero, bias, squared
from trigmech.inference.posterior import Posterior, Variances
from trigmech.schema.schema import Schema

# Weights below 0 may make a mean square negative: it is at least this part of that of the rows as they are.
LEAST_PART = 0.3
# Maps columns by name and weights (m,) to values (q,) and influences (m, q).
Influenced = Callable[[dict[str, Any], Array], tuple[ArrayLike, ArrayLike]]


@dataclass(frozen=True, eq=False)
class WeightedTable:
    """Fitted rows with weights, which agree with the released numbers after their noise is reduced. Public.

    Parameters
    ----------
    schema : Schema
    posterior : Posterior
    rehearsed : ndarray (r, 3, rows, D)
        Rehearsals: a public table, and the fits to two releases of this table with opposite noise.

    Notes
    -----
    Some weights are below 0. This is no problem for methods that solve weighted equations, such as regressions.
    Methods that draw rows by weights cannot use such weights.
    """

    schema: Schema
    posterior: Posterior
    rehearsed: Array

    def __repr__(self) -> str:
        return f"WeightedTable({len(self.posterior.points):,} rows of {self.schema.d} columns)"

    @cached_property
    def columns(self) -> dict[str, Any]:
        """The values of each column (m,), by name, in its own units, with derived columns."""
        return self.schema.completed(self.schema.decode(self.posterior.points))

    @property
    def weights(self) -> Array:
        """The weights (m,), of sum 1."""
        return self.posterior.weights

    def variances(self, influence: ArrayLike) -> Variances:
        """Return the variances (q,) of statistics: from noise, and from relations that the release did not measure.

        Parameters
        ----------
        influence : ndarray (m, q)
            How much each statistic changes with the weight of each row: for a mean, the row's value less the mean.
        """
        return self.posterior.variances(self._checked(influence))

    def interval(self, values: ArrayLike, influence: ArrayLike, level: float = 0.95,
                 population: bool = True) -> Estimate:
        """Return an estimate with intervals for statistics of the weighted rows.

        Parameters
        ----------
        values : ndarray (q,)
            The statistics of the rows with their weights.
        influence : ndarray (m, q)
            The influence of each row on each statistic, as for :meth:`variances`.
        level : float
        population : bool
            True for intervals of the population's values, False for intervals of the private table's values.

        Raises
        ------
        InputError
            If the level is not between 0 and 1, or shapes do not fit.

        Notes
        -----
        The variance is a sum: the variance by noise, the variance by relations that the release did not measure, for a
        population the variance by sampling, and the mean square of the bias that rehearsals of the release show. The
        bias is that of the influence's mean.
        :meth:`estimate` counts that of the statistic itself, which is larger where a statistic is far from linear, as
        coefficients of correlated columns are. A statistic on which no row has an influence has no interval (NaN),
        because nothing shows how far the true value may be from it.
        """
        check_level(level)
        psi = self._checked(influence)
        return self._interval(numbers("values", values, psi.shape[1]), psi, self.squared_bias(psi), level, population)

    def estimate(self, statistic: Influenced, level: float = 0.95, population: bool = True) -> Estimate:
        """Return a statistic with intervals that count the statistic's own bias in rehearsals of the release.

        Parameters
        ----------
        statistic : callable
            Maps columns by name and weights (m,) of sum 1 to values (q,) and influences (m, q), as for
            :meth:`interval`. It is also called for other rows with even weights.
        level, population
            As for :meth:`interval`.

        Raises
        ------
        InputError
            If the level is not between 0 and 1, or the statistic returns other shapes or numbers that are not finite.
        """
        check_level(level)
        values, psi, again = self._found(statistic)
        return self._interval(values, psi, squared(bias(again)), level, population)

    def p_value(self, statistic: Influenced) -> float:
        """Return the p-value of the hypothesis that all numbers of a statistic are 0 in the population.

        Parameters
        ----------
        statistic : callable
            As for :meth:`estimate`.

        Raises
        ------
        InputError
            If the statistic returns other shapes or numbers that are not finite, or the numbers of it do not vary or
            follow from each other.

        Notes
        -----
        The variance is that of the estimate, as for :meth:`trigmech.Imputations.p_value`, which is less than that of
        :meth:`estimate`.
        """
        from scipy.special import chdtrc

        values, psi, again = self._found(statistic)
        centred = psi - psi.mean(axis=0)
        shape = centred.T @ centred / len(psi)
        scale = np.sqrt(self._sampling(psi) / np.maximum(shape.diagonal(), np.finfo(float).tiny))
        covariance = self.posterior.covariance(psi) + shape * np.outer(scale, scale)
        if again.size:
            off = at_zero(again)
            covariance += off.T @ off / len(off)
        size = np.sqrt(covariance.diagonal())
        if not (size > 0.0).all() or np.linalg.matrix_rank(covariance / np.outer(size, size), hermitian=True) < len(
                values):
            raise InputError("the numbers of a test must vary, and no number may follow from the others")
        return float(chdtrc(len(values), float(values @ np.linalg.solve(covariance, values))))

    def _found(self, statistic: Influenced) -> tuple[Array, Array, Array]:
        """Return a statistic (q,) of the weighted rows, its influence (m, q), and that of rehearsals (r, 3, q)."""
        values, influence = statistic(self.columns, self.weights)
        psi = self._checked(influence)
        count = psi.shape[1]
        again = np.array([[numbers("values", self._of_even_rows(statistic, points), count) for points in each]
                          for each in self.rehearsed]).reshape(-1, 3, count)
        return numbers("values", values, count), psi, again

    def _of_even_rows(self, statistic: Influenced, points: Array) -> ArrayLike:
        even = np.full(len(points), 1.0 / len(points))
        return statistic(self.schema.completed(self.schema.decode(points)), even)[0]

    def _interval(self, found: Array, psi: Array, biased: Array, level: float, population: bool) -> Estimate:
        noise, untold = self.posterior.variances(psi)
        variance = noise + untold + (self._sampling(psi) if population else 0.0) + biased
        return around(found, variance, float(ndtri(0.5 * (1.0 + level))), untold, level, population)

    def _sampling(self, psi: Array) -> Array:
        squares = np.square(psi - self.weights @ psi)
        return np.maximum(self.weights @ squares, LEAST_PART * squares.mean(axis=0)) / self.posterior.release.n

    def squared_bias(self, influence: ArrayLike) -> Array:
        """Return the mean square (q,) over the rehearsals of the bias of fits, for statistics with these influences.

        The bias of a rehearsal's fits is known for smooth functions of columns and pairs. An influence (m, q) is
        regressed on these functions, and the rest is taken to have no bias.
        """
        psi = self._checked(influence)
        if not self.rehearsed.size:
            return np.zeros(psi.shape[1])
        return squared(self._biases @ self.posterior.along(psi))

    @cached_property
    def _biases(self) -> Array:
        """The bias (r, s) of each rehearsal's fits, in the means of the functions on which influences are regressed."""
        return bias(np.array([[self.posterior.regressors(points).mean(axis=0) for points in each]
                              for each in self.rehearsed]))

    def _checked(self, influence: ArrayLike) -> Array:
        return numbers("influence", influence, self.posterior.m, "q")
