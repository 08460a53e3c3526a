"""Imputations: tables that the private one, or a table of its population, could be, judging by the release.

Each is fitted anew to numbers that are drawn from the distribution that the release leaves possible
(:mod:`trigmech.inference.drawing`). So the spread of a statistic over imputations shows what noise and, for a
population, sampling do to it. A table consists of two halves that are fitted independently of each other to the same
numbers: how much a statistic differs between them shows what the measured functions leave open.
"""

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trigmech._arrays import SAME, Array
from trigmech._files import reading
from trigmech._validate import answered, check_level, fields, of_kind
from trigmech.errors import InputError
from trigmech.inference.estimate import Estimate, around, at_zero, bias, squared, times, within
from trigmech.schema.schema import Schema, counted
from trigmech.storage import archive
from trigmech.tables.column_types import stacked

# The name of the format of files.
KIND = "trigmech imputations"
# The bias that rehearsals show contains this part of the undetermined variance, which is no bias; see `combined`.
RANDOM = 0.75
# The largest number whose squares are summed.
LARGEST = 1e100


@dataclass(frozen=True, eq=False)
class Imputations:
    """Tables that agree with the release: the private table, or another table from its population, could be like them.

    Parameters
    ----------
    schema : Schema
    n : int
        Rows of the private table.
    points : ndarray (m, 2, rows / 2, D)
        The halves of each table, as points of the cube.
    white : float
        The variance that the release leaves open for a function of mean square 1, in the private table.
    population : bool
        Whether the tables stand for the population from which the private table is a sample, or for that table.
    measured : tuple of tuples of str
        The columns of each table that the release measured, for notes on wide intervals.
    rehearsed : ndarray (r, 3, q, D)
        Rehearsals: a public table, and the fits to two releases of this table with opposite noise.
    paired : bool
        Whether tables k and k + m / 2 deviate in opposite directions where the release tells nothing.
    """

    schema: Schema
    n: int
    points: Array
    white: float
    population: bool
    measured: tuple[tuple[str, ...], ...] = ()
    rehearsed: Array = field(default_factory=lambda: np.zeros((0, 3, 0, 0)))
    paired: bool = False

    def __len__(self) -> int:
        return len(self.points)

    def __repr__(self) -> str:
        whom = "the population" if self.population else "the private table"
        return f"Imputations({len(self)} tables of {self.rows:,} rows, {len(self.schema.names)} columns, for {whom})"

    @property
    def rows(self) -> int:
        """Rows of each table."""
        return 2 * self.points.shape[2]

    @property
    def _untold(self) -> float:
        """The variance of the mean of a function of mean square 1 that no measured function tells."""
        return self.white + (1.0 / self.n if self.population else 0.0)

    def unseen(self, level: float) -> float:
        """Return the share of rows up to which rows of a kind may be there though no table has any.

        A share p that no measured function tells has the variance p v, as in a sample of 1 / v rows. At the limit,
        there is no such row in that sample with the probability 1 - level.
        """
        return float(min(-math.log1p(-level) * self._untold, 1.0))

    @cached_property
    def _columns(self) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        decoded = [tuple(self.schema.completed(self.schema.decode(half)) for half in table) for table in self.points]
        return [(one, other) for one, other in decoded]

    def halves(self, i: int, names: Collection[str] | None = None) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the columns of both halves of a table, by name: at least those that are named, by default all."""
        if names is None or not set(names) <= set(self.schema.names):
            return self._columns[i]
        one, other = (self.schema.decode(half, names) for half in self.points[i])
        return one, other

    def rehearsals(self, k: int, names: Collection[str] | None = None) -> list[dict[str, Any]]:
        """Return the columns of a rehearsal's table and of both fits, by name: at least those that are named."""
        if names is not None and set(names) <= set(self.schema.names):
            return [self.schema.decode(each, names) for each in self.rehearsed[k]]
        return [self.schema.completed(self.schema.decode(each)) for each in self.rehearsed[k]]

    def columns(self, i: int) -> dict[str, Any]:
        """Return the columns of a table, by name."""
        one, other = self.halves(i)
        return {name: stacked([one[name], other[name]]) for name in one}

    def save(self, path: str | Path) -> None:
        """Save the imputations, which are public, in a file of the form that docs/format.md describes.

        Raises
        ------
        InputError
            If the file cannot be written, or would be too large; then the old content is still there.
        """
        numbers = list(self.schema.domain.numbers)
        others = np.setdiff1d(np.arange(self.points.shape[-1]), numbers)
        archive.write(path, {"schema": self.schema.to_dict(), "n": self.n, "white": self.white,
                             "population": self.population, "measured": [list(each) for each in self.measured],
                             "paired": self.paired},
                      {"numbers": np.ascontiguousarray(self.points[..., numbers]),
                       "indicators": np.ascontiguousarray(self.points[..., others]).astype(np.uint8),
                       "rehearsed_numbers": np.ascontiguousarray(self._rehearsed[..., numbers]),
                       "rehearsed_indicators": np.ascontiguousarray(self._rehearsed[..., others]).astype(np.uint8)},
                      KIND)

    @property
    def _rehearsed(self) -> Array:
        return self.rehearsed if self.rehearsed.size else np.zeros((0, 3, 0, self.points.shape[-1]))

    @classmethod
    def load(cls, path: str | Path) -> "Imputations":
        """Return the imputations of a file that :meth:`save` wrote; nothing of it is executed.

        Raises
        ------
        InputError
            If the file cannot be read, is damaged, or holds something else.
        """
        content, arrays = archive.read(path, KIND)
        with reading(path):
            return cls._of(content, arrays)

    @classmethod
    def _of(cls, content: dict[str, Any], arrays: dict[str, NDArray]) -> "Imputations":
        # Files of before have no pairs.
        known = fields({"paired": False, **content}, "imputations", {
            "paired": bool, "schema": object, "n": (int, 2), "white": float, "population": bool, "measured": list})
        schema = Schema.from_dict(known.pop("schema"))
        measured = tuple(tuple(of_kind("measured", each, list)) for each in known.pop("measured"))
        if not all(isinstance(name, str) and name in schema.names for each in measured for name in each):
            raise InputError("measured must be lists of names of columns")
        numbers, d = list(schema.domain.numbers), schema.domain.d
        others = np.setdiff1d(np.arange(d), numbers)

        def taken(prefix: str, *shape: int | str) -> Array:
            places = archive.take(arrays, f"{prefix}numbers", *shape, len(numbers))
            found = np.zeros((*places.shape[:-1], d))
            found[..., others] = archive.take(arrays, f"{prefix}indicators", *places.shape[:-1], len(others),
                                              kind="uint8")
            found[..., numbers] = places
            return found

        points = taken("", "m", 2, "rows")
        # Files of before have no rehearsals.
        rehearsed = taken("rehearsed_", "r", 3, "q") if "rehearsed_numbers" in arrays else np.zeros((0, 3, 0, d))
        if arrays or known["white"] < 0.0 or len(points) < 2 or not points.shape[2] or (
                known["paired"] and len(points) % 2):
            raise InputError("the file must hold at least two tables, each of rows in two halves, and nothing else")
        schema.domain.check(points.reshape(-1, d))
        schema.domain.check(rehearsed.reshape(-1, d))
        return cls(schema, points=points, measured=measured, rehearsed=rehearsed, **known)

    def estimate(self, statistic: Callable[[Any], ArrayLike], level: float = 0.95) -> Estimate:
        """Return a statistic with intervals.

        Parameters
        ----------
        statistic : callable
            Maps a dictionary of each column's values by name, in its own units, to finite numbers in an array of any
            shape.
        level : float
            The probability, between 0 and 1, with which each interval is to hold the true value.

        Raises
        ------
        InputError
            If the level is not between 0 and 1, or the statistic does not return finite numbers, as many for each
            table.

        Notes
        -----
        Where all tables agree there is no interval (NaN), because they do not show how far the true value may be from
        theirs. That is so for a median at a value of many rows, too: :meth:`Synthesis.sql` knows what a median is, and
        keeps its value.
        """
        whole, halves, again = self._found(statistic)
        return self.combined(whole, halves, level, again)

    def p_value(self, statistic: Callable[[Any], ArrayLike]) -> float:
        """Return the p-value of the hypothesis that all numbers of a statistic are 0, by a test of Hotelling's kind.

        For shares of a table of categories less the products of the columns' shares, it takes the place of a chi-square
        test.

        Parameters
        ----------
        statistic : callable
            As for :meth:`estimate`, with at least one number and two fewer than there are tables.

        Raises
        ------
        InputError
            If the statistic does not return finite numbers, or returns too many or always the same ones.

        Notes
        -----
        Where the release tells little, estimates are drawn towards the fit, and an interval includes how far the truth
        may be from the fit. A hypothesis states the truth, so a test has a smaller variance: that of the estimate by
        noise and sampling, the part that no measured function tells, and the bias. So a p-value can be below .05
        although the interval holds 0. With the interval's variance, tests would raise too few alarms. Sums of the pairs
        of tables show the smaller variance. A test on fewer than ten tables, or of about as many numbers as there are
        pairs, uses the variance of the interval.
        """
        whole, halves, again = (each.reshape(*each.shape[:k], math.prod(each.shape[k:]))
                                for k, each in zip((1, 2, 2), self._found(statistic), strict=True))
        k, freedom = whole.shape[1], len(self) - 1
        if not 1 <= k < freedom:
            raise InputError(f"a test on {len(self)} tables needs from 1 to {freedom - 1} numbers, not {k}")
        again = np.where(np.isfinite(again).all(axis=1, keepdims=True), again, 0.0)
        covariance = self._covariance(whole, halves, again)
        scale = np.sqrt(covariance.diagonal())
        varies = bool(np.isfinite(covariance).all() and (scale > SAME * np.abs(whole).max(axis=0)).all())
        if not varies or np.linalg.matrix_rank(covariance / np.outer(scale, scale), tol=SAME, hermitian=True) < k:
            raise InputError("the numbers of a test must vary, and no number may follow from the others")
        return self.tested(whole, halves, again)

    def tested(self, whole: Array, halves: Array, again: Array) -> float:
        """Return the p-value from numbers of each table (m, k), of its halves (m, 2, k) and of rehearsals (r, 3, k)."""
        from scipy.special import fdtrc

        unit = _unit(whole, halves)
        whole, halves, again = whole / unit, halves / unit, again / unit if again.size else again
        value, k, freedom = whole.mean(axis=0), whole.shape[1], len(whole) - 1
        pairs = len(whole) // 2
        again = np.where(np.isfinite(again).all(axis=1, keepdims=True), again, 0.0)
        if self.paired and len(whole) == len(self) and k < pairs - 1:
            covariance, freedom = self._covariance_of_estimates(whole, halves, again), pairs - 1
        else:
            covariance = self._covariance(whole, halves, again)
        distance = float(value @ np.linalg.solve(covariance, value))
        return float(fdtrc(k, freedom - k + 1, distance * (freedom - k + 1) / (freedom * k)))

    def _covariance_of_estimates(self, whole: Array, halves: Array, again: Array) -> Array:
        """Return the covariance (k, k) that estimates have about a truth where all numbers are 0."""
        one, other = np.split(whole, 2)
        between = 2.0 * np.atleast_2d(np.cov((0.5 * (one + other)).T))
        return self._summed(between, whole, halves, at_zero(again))

    def _covariance(self, whole: Array, halves: Array, again: Array) -> Array:
        """Return the covariance (k, k) of the mean of numbers (m, k), whose diagonal is that of :meth:`combined`."""
        return self._summed(np.atleast_2d(np.cov(whole.T)), whole, halves, bias(again))

    def _summed(self, between: Array, whole: Array, halves: Array, off: Array) -> Array:
        """Return the sum of the covariances (k, k): between tables, open after a release, and of fits that are off."""
        open_ = _left_open(halves)
        covariance = between / len(whole) + _positive(between - open_) + self.rows * open_ * self._untold
        if off.size:
            covariance += _positive(off.T @ off / len(off) - RANDOM * self.rows * open_ * self.white)
        return np.asarray(covariance)

    def _found(self, statistic: Callable[[Any], ArrayLike]) -> tuple[Array, Array, Array]:
        """Return a statistic of each table (m, ...), of its halves (m, 2, ...) and of rehearsals (r, 3, ...)."""
        whole = [answered(statistic, self.columns(i)) for i in range(len(self))]
        halves = [[answered(statistic, half, whole[0].shape) for half in self.halves(i)] for i in range(len(self))]
        if any(each.shape != whole[0].shape for each in whole):
            raise InputError("the statistic must return the same number of values for every table")
        # A column of a rehearsal can be constant, and then it has no correlation.
        with np.errstate(divide="ignore", invalid="ignore"):
            again = [[answered(statistic, table, whole[0].shape, finite_only=False) for table in self.rehearsals(k)]
                     for k in range(len(self.rehearsed))]
        return np.array(whole), np.array(halves), np.array(again).reshape(len(again), 3, *whole[0].shape)

    def combined(self, whole: ArrayLike, halves: ArrayLike, level: float = 0.95, again: ArrayLike = ()) -> Estimate:
        """Return the estimate that follows from a statistic of each table (m, ...), and of each half (m, 2, ...).

        Parameters
        ----------
        whole, halves : ndarray
        level : float
        again : ndarray (r, 3, ...)
            The statistic of each rehearsal's tables. Values that are not finite do not count.

        Notes
        -----
        The variance of the mean over m tables is B / m + max(B - R, 0) + N R white, and N R / n more for a population.
        B is the variance over the tables. R is the part of B that the measured functions leave open: a quarter of the
        mean square of the difference between a table's halves. In this part, the N rows of a table are like a sample.

        The bias of fits is the mean of both fits of a rehearsal's table, minus the value of the table. The bias is not
        known well enough to be subtracted, so the mean of its squares over the rehearsals is added to the variance. In
        the part that is left open, the table and both fits vary independently of each other, each by v. So without
        any bias the difference of two of them has the mean square 2 v, which is `white`, and the measured bias has
        v + v / 2. The method subtracts these three quarters of N R white, because the variance already has N R white.
        """
        check_level(level)
        whole, halves = np.asarray(whole, dtype=np.float64), np.asarray(halves, dtype=np.float64)
        again = np.asarray(again, dtype=np.float64)
        unit = _unit(whole, halves)
        whole, halves, again = whole / unit, halves / unit, again / unit if again.size else again
        m, value = len(whole), whole.mean(axis=0)
        between = whole.var(axis=0, ddof=1)
        open_ = 0.25 * np.square(halves[:, 0] - halves[:, 1]).mean(axis=0)
        untold = self.rows * open_ * self._untold
        variance = between / m + np.maximum(between - open_, 0.0) + untold
        if again.size:
            variance += np.maximum(squared(bias(again)) - RANDOM * self.rows * open_ * self.white, 0.0)
        return times(around(value, variance, within(m - 1, level), untold, level, self.population), unit)


def truth_of(imputations: Imputations) -> str:
    """Return the words for the rows whose values intervals hold: the private table, or its population."""
    rows = f"{imputations.n:,} {counted(imputations.schema)}"
    return (f"the population of which the private table's {rows} are a sample" if imputations.population else
            f"the private table of {rows}")


def _unit(whole: Array, halves: Array) -> Array:
    """Return 1, or the larger unit of each number of tables (m, ...) and of halves (m, 2, ...) with finite squares."""
    return np.asarray(np.maximum(np.maximum(np.abs(whole).max(axis=0), np.abs(halves).max(axis=(0, 1))) / LARGEST, 1.0))


def _left_open(halves: Array) -> Array:
    """Return the part of the covariance (k, k) of tables that measured functions leave open, by halves (m, 2, k)."""
    apart = halves[:, 0] - halves[:, 1]
    return np.asarray(0.25 * apart.T @ apart / len(apart))


def _positive(symmetric: Array) -> Array:
    """Return the nearest symmetric matrix (k, k) without negative eigenvalues."""
    size, along = np.linalg.eigh(symmetric)
    return np.asarray((along * np.maximum(size, 0.0)) @ along.T)
