"""Questions to a release: workloads, statistics, SQL and regressions, with error bars. All public."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from trigmech._validate import check_level, generator
from trigmech.distribution import Distribution
from trigmech.errors import InputError, shown
from trigmech.evaluation.error_bars import PredictedError, of_members, predicted_error
from trigmech.evaluation.resampling import SEED, Resamples
from trigmech.inference.drawing import imputed, weighted
from trigmech.inference.imputations import Imputations
from trigmech.inference.regression import Family, Regression, check_formula, fitted
from trigmech.inference.rehearsing import rehearsals
from trigmech.inference.sql import Answer, ask, check_query
from trigmech.inference.weighted import WeightedTable
from trigmech.measurement.released import Release
from trigmech.measurement.rows import Progress
from trigmech.mechanisms.base import Design
from trigmech.noisy_moments import NoisyMoments
from trigmech.reconstruction.result import Reconstruction
from trigmech.workload import Workload
from trigmech.workload.family import answerable


@dataclass(frozen=True, eq=False)
class Answers:
    """The answers of a release to a family of queries, with error bars.

    Parameters
    ----------
    values : ndarray (queries, parts)
        The answers; those of a statistic have the shape that it returns.
    error : PredictedError or None
        None for releases by the thesis's mechanisms, and for queries that also use indicators.
    """

    values: NDArray[np.float64]
    error: PredictedError | None

    def __repr__(self) -> str:
        some = np.array2string(self.values, precision=5, threshold=12, edgeitems=2)
        return f"Answers({some}, {self.error or 'without error bars'})"


@dataclass(frozen=True, eq=False, repr=False)
class Answering(NoisyMoments):
    """Noisy moments and a distribution that is fitted to them; together they answer questions.

    Parameters
    ----------
    fit : Reconstruction
        The distribution, and how well it explains the moments.
    """

    fit: Reconstruction = field(kw_only=True)

    @property
    def distribution(self) -> Distribution:
        """Weighted points of the cube."""
        return self.fit.distribution

    @property
    def has_error_bars(self) -> bool:
        """Whether :meth:`predicted_error` is available; it is not for linear programs or custom functions."""
        if self.release.columns:
            # They repeat the release, for which its design must be known.
            return self.planned is not None
        return self.fit.misfit is not None and all(each.query.has_known_errors for each in self.release.moments)

    @cached_property
    def _resamples(self) -> Resamples:
        if not self.release.columns:
            there = ("predicted_error gives error bars for a workload's answers" if self.has_error_bars else
                     "it has no error bars, because a linear program fitted it" if self.fit.misfit is None else
                     "it has no error bars, because they are not known for custom functions")
            raise InputError("error bars of any statistic need a release of tables, as TableMechanism makes it. This "
                             f"is a release of moments: {there}")
        design = self._design_known("error bars")
        return Resamples(self.release.described(self.schema), self.distribution.points, design)

    def _design_known(self, what: str) -> Design:
        if self.planned is None:
            raise InputError(f"{self.made_by or 'another version'} made this release, and its file does not hold this "
                             f"mechanism; give the mechanism to trigmech.load for {what}")
        return self.planned

    def imputations(self, m: int = 20, population: bool = True, rng: np.random.Generator | None = None,
                    progress: Progress | None = None) -> Imputations:
        """Return tables as the private one, or its population, may be after the release.

        Parameters
        ----------
        m : int
            How many tables, at least 2.
        population : bool
            Whether they are as the population may be, of which the private table is a sample of n rows. Then intervals
            hold the population's values; otherwise they hold those of the private table.
        rng : numpy.random.Generator, optional
            Default: one of a fixed seed, so that loaded releases have the same imputations.
        progress : callable, optional
            Called with the name of a step, the finished amount and the total.

        Raises
        ------
        InputError
            If the release is not by :class:`trigmech.TableMechanism`, or m is below 2.

        Notes
        -----
        Privacy: post-processing. Cost: a fit of some thousand rows for each table.

        Examples
        --------
        >>> import numpy as np, trigmech as tm
        >>> schema = tm.Schema([tm.Column("age", 0, 120, "integer")])
        >>> table = np.random.default_rng(0).normal(40.0, 9.0, (900, 1)).round()
        >>> made = tm.synthesize(table, schema, tm.Budget(2.0, 1e-6), tm.TableMechanism(), np.random.default_rng(0))
        >>> found = made.imputations().estimate(lambda table: np.mean(table["age"]))
        >>> bool(found.low <= 40.0 <= found.high)
        True
        """
        return imputed(*self._of_tables("imputations"), self._rehearsed, m, population,
                       generator(rng, SEED), progress)

    def weighted(self) -> WeightedTable:
        """Return the fitted rows with weights that make them agree with the released numbers, apart from noise.

        A statistic of the weighted rows has less bias than one of a sample, and its interval follows from its influence
        function without imputations.

        Raises
        ------
        InputError
            If the release is not by :class:`trigmech.TableMechanism`.

        Notes
        -----
        Privacy: post-processing, with random numbers of a fixed seed. Source: Deville and Saerndal 1992, with the
        release in place of known totals.

        Examples
        --------
        >>> import numpy as np, trigmech as tm
        >>> schema = tm.Schema([tm.Column("age", 0, 120, "integer")])
        >>> table = np.random.default_rng(0).normal(40.0, 9.0, (900, 1)).round()
        >>> made = tm.synthesize(table, schema, tm.Budget(2.0, 1e-6), tm.TableMechanism(), np.random.default_rng(0))
        >>> rows = made.weighted()
        >>> mean = rows.weights @ rows.columns["age"]
        >>> found = rows.interval([mean], (rows.columns["age"] - mean)[:, None])
        >>> bool(found.low[0] <= 40.0 <= found.high[0])
        True
        """
        return weighted(*self._of_tables("weights"), self._rehearsed, np.random.default_rng(SEED))

    @cached_property
    def _rehearsed(self) -> NDArray[np.float64]:
        """Rehearsals of the release, which imputations and weights share."""
        return rehearsals(*self._of_tables("rehearsals"), np.random.default_rng(SEED))

    def _of_tables(self, what: str) -> tuple[Release, NDArray[np.float64], Design]:
        if not self.release.columns:
            raise InputError(f"{what} need a release of tables, as TableMechanism makes it; this is a release of "
                             "moments")
        return self.release, self.distribution.points, self._design_known(what)

    def sql(self, query: str, m: int = 20, population: bool = True, level: float = 0.95,
            imputations: Imputations | None = None) -> Answer:
        """Return the answer to a SELECT statement about the table ``release``, each aggregate with an interval.

        Parameters
        ----------
        query : str
            One statement, such as "select region, avg(income), count(*) from release where age > 50 group by region".
        m, population
            As for :meth:`imputations`.
        level : float
            The probability, between 0 and 1, with which each interval is to hold the true value.
        imputations : Imputations, optional
            Those of :meth:`imputations`, which are then not made again.

        Raises
        ------
        InputError
            If the query is anything else than a question with aggregates; see :func:`trigmech.inference.sql.ask`. If
            ``population`` is False and the given imputations are for the population.

        Notes
        -----
        Privacy: post-processing. Nothing but the release can be read. Cost: that of :meth:`imputations`.
        """
        check_level(level)
        return ask(self._imputed(imputations, m, population, lambda: check_query(self.schema, query)), query, level)

    def regression(self, formula: str, family: Family = "gaussian", m: int = 20, population: bool = True,
                  level: float = 0.95, imputations: Imputations | None = None) -> Regression:
        """Return a regression with standard errors that count the noise of the release.

        Parameters
        ----------
        formula : str
            Such as "wt82_71 ~ qsmk + age"; see :mod:`trigmech.inference.formula`.
        family : {"gaussian", "binomial", "poisson"}
            Linear, logistic or log-linear regression.
        m, population, level, imputations
            As for :meth:`sql`.

        Raises
        ------
        InputError
            If the formula is anything else than columns and allowed functions of them, or the model cannot be fitted.

        Notes
        -----
        Privacy: post-processing. Cost: that of :meth:`imputations`, and 3 m fits of the model.
        """
        check_level(level)
        return fitted(self._imputed(imputations, m, population, lambda: check_formula(self.schema, formula, family)),
                      formula, family, level)

    def _imputed(self, imputations: Imputations | None, m: int, population: bool,
                 check: Callable[[], None]) -> Imputations:
        """Return the given imputations or new ones; ``check`` refuses a question before these are made."""
        if imputations is None:
            check()
            return self.imputations(m, population)
        if not isinstance(imputations, Imputations) or imputations.schema != self.schema:
            raise InputError("imputations must be those of this release, from its method imputations")
        if not population and imputations.population:
            raise InputError("the imputations are for the population; give population=False when you make them")
        return imputations

    def _table(self, points: Any) -> dict[str, Any]:
        """Return points as the columns of a table, with derived ones."""
        return self.schema.completed(self.schema.decode(points))

    def error_bars(self, statistic: Callable[[Any], Any], level: float = 0.95,
                   progress: Progress | None = None) -> Answers:
        """Return a statistic of the synthetic table, with bounds on its distance to that of the private table.

        Parameters
        ----------
        statistic : callable
            Maps a dictionary of each column's values by name, in its own units, to finite numbers in an array of any
            shape. :mod:`trigmech.evaluation.statistics` has some.
        level : float
            Probability, between 0 and 1, with which each bound holds.
        progress : callable, optional
            Called with the name of a step, the finished amount and the total.

        Returns
        -------
        Answers
            Deviations and bounds in the statistic's shape; ``worst`` is one bound for all values together.

        Raises
        ------
        InputError
            If the release is not by :class:`trigmech.TableMechanism`, the level is not between 0 and 1, or the
            statistic does not return finite numbers.

        Notes
        -----
        Privacy: post-processing, with random numbers of a fixed seed: loaded releases have the same bars. Cost: that of
        12 fits at the first call, some seconds for thousands of rows and minutes for hundreds of thousands. They are
        kept, so later calls cost 13 values of the statistic.

        Examples
        --------
        >>> import numpy as np, trigmech as tm
        >>> schema = tm.Schema([tm.Column("age", 0, 120, "integer")])
        >>> table = np.random.default_rng(0).normal(40.0, 9.0, (900, 1)).round()
        >>> made = tm.synthesize(table, schema, tm.Budget(2.0, 1e-6), tm.TableMechanism(), np.random.default_rng(0))
        >>> found = made.error_bars(lambda table: np.mean(table["age"] >= 50))
        >>> bool(abs(found.values - np.mean(table >= 50)) <= found.error.bound)
        True
        """
        return Answers(*self._resamples.bars(lambda points: statistic(self._table(points)), level,
                                             progress=progress))

    def predicted_error(self, workload: Workload, level: float = 0.95) -> PredictedError:
        """Return error bars for a workload's answers, from the noise and the fit alone.

        Parameters
        ----------
        workload : Workload
            A workload for the coordinates that are numbers: all coordinates, if the table has no indicators.
        level : float
            Probability, between 0 and 1, with which each bound holds.

        Raises
        ------
        InputError
            If a linear program made the fit, as in the thesis's mechanisms; if custom functions were measured; or if
            the workload has another number of columns.
        """
        if not self.release.columns:
            return predicted_error(workload, self.release, self.fit, level)
        numbers, workload = list(self.schema.domain.numbers), answerable(workload)
        if workload.d != len(numbers):
            raise InputError(f"the workload has {workload.d} columns, but the release has {len(numbers)} with numbers")
        return of_members(workload, lambda member: self._resamples.bars(
            lambda points: member.answers(points[:, numbers]), level, parts=True)[1])

    def query(self, workload: Workload, level: float = 0.95) -> Answers:
        """Return the release's answers to a workload, with error bars.

        Parameters
        ----------
        workload : Workload
            A workload for all coordinates of the cube, or only for those that are numbers; it never uses the columns'
            units. The answers to a :class:`trigmech.workload.Mixture` are one column, member after member.
        level : float
            As for :meth:`predicted_error`.

        Raises
        ------
        InputError
            If the workload has another number of columns, or a family in it has no answers.
        """
        workload = answerable(workload)
        points, numbers = self.distribution.points, list(self.schema.domain.numbers)
        if workload.d != points.shape[1]:
            points = points[:, numbers]
        if workload.d != points.shape[1]:
            raise InputError(f"the workload has {workload.d} columns; the release has {len(numbers)} with numbers")
        known = self.has_error_bars and workload.d == len(numbers)
        error = self.predicted_error(workload, level) if known else None
        return Answers(workload.answers(points, self.distribution.weights), error)

    def expect(self, f: Callable[[Any], Any], units: Literal["cube", "table"] = "cube") -> Any:
        """Return the mean of a function under the distribution.

        Parameters
        ----------
        f : callable
            A function from points of the cube (m, d) to values (m,) or (m, q); see
            :meth:`trigmech.Distribution.expect`. With units="table": a function of a dictionary that holds each
            column's values (m,), in its units, by name.
        units : {"cube", "table"}

        Examples
        --------
        >>> import numpy as np, trigmech as tm
        >>> schema = tm.Schema([tm.Column("age", 0, 120)])
        >>> made = tm.synthesize(np.full((500, 1), 30.0), schema, tm.Budget(1e3), rng=np.random.default_rng(0))
        >>> round(made.expect(lambda table: table["age"], units="table"))
        30
        """
        if units not in ("cube", "table"):
            raise InputError(f"units must be 'cube' or 'table', not {shown(units)}")
        if units == "cube":
            return self.distribution.expect(f)
        return self.distribution.expect(lambda points: f(self._table(points)))
