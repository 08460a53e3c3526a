"""Estimates with intervals, the rule by which estimates of several tables become one, and the bias of fits."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trigmech._arrays import SAME, Array
from trigmech._html import html_table
from trigmech._validate import check_level, finite
from trigmech.errors import InputError, shown

NO_INTERVAL = "a value that does not vary has none, because nothing shows how far the true value may be from it"
# A share of the variance above this is worth a sentence.
LARGE = 0.5


@dataclass(frozen=True, eq=False)
class Estimate:
    """A statistic with intervals.

    Parameters
    ----------
    value, deviation, low, high : ndarray
        In the statistic's shape. All but the value are NaN where there is no interval, see ``flat``.
    untold : ndarray
        The share of the variance, from 0 to 1, that comes from relations that were not measured; 0 if it is unknown.
    level : float
        The probability with which each interval holds the true value.
    population : bool
        Whether the true value is that of a population of which the private table is a sample, or that of the table.
    """

    value: Array
    deviation: Array
    low: Array
    high: Array
    untold: Array
    level: float
    population: bool

    @property
    def flat(self) -> NDArray[np.bool_]:
        """Which values have no interval, because all tables agree there but for rounding.

        A value that does not vary does not show how far the true value may be from it. An interval without a width
        would say that there is no distance.
        """
        return np.isnan(self.deviation)

    @property
    def _what(self) -> str:
        return f"{self.level:.0%} intervals for the {'population' if self.population else 'private table'}"

    def __repr__(self) -> str:
        shape = "" if self.value.ndim == 0 else f", shape {self.value.shape}"
        some = ", ".join(f"{value:.4g} (no interval)" if flat else f"{value:.4g} ({low:.4g} to {high:.4g})"
                         for value, flat, low, high in zip(*(each.ravel()[:3] for each in (
                             self.value, self.flat, self.low, self.high)), strict=True))
        why = f"; {NO_INTERVAL}" if self.flat.any() else ""
        return f"Estimate({some}{', ...' if self.value.size > 3 else ''}; {self._what}{shape}{why})"

    def _repr_html_(self) -> str:
        lines = [(f"{i + 1}", *("" if np.isnan(number) else f"{number:.5g}" for number in row))
                 for i, row in enumerate(np.column_stack(
                     [each.ravel() for each in (self.value, self.low, self.high, self.deviation)]))]
        why = f"; {NO_INTERVAL}" if self.flat.any() else ""
        return html_table(f"Estimates with {self._what}{why}", lines, ("", "value", "low", "high", "deviation"))


def combine(estimates: ArrayLike, variances: ArrayLike | None = None, level: float = 0.95) -> Estimate:
    """Return one estimate of those of m imputed tables, by Rubin's rules.

    Parameters
    ----------
    estimates : ndarray (m, ...)
        The statistic of each table, of m >= 2 imputations.
    variances : ndarray (m, ...), optional
        Give them for imputations of the private table (``population=False``), if you want intervals for the
        population: the squared standard errors of the statistic for a sample of n rows. Leave them out for imputations
        of the population, which contain sampling already.
    level : float
        The probability, between 0 and 1, with which each interval is to hold the true value.

    Raises
    ------
    InputError
        If shapes do not fit, there are fewer than two tables, or numbers are not finite.

    Notes
    -----
    With b the variance of the estimates and u the mean of the variances, the variance is (1 + 1/m) b + u, with
    (m - 1) (1 + u / ((1 + 1/m) b))^2 degrees of freedom (Rubin 1987). Do not subtract u, as the rule for fully
    synthetic data does (Raghunathan, Reiter and Rubin 2003): rows of an imputation are fitted to drawn numbers, not
    sampled from them, so b does not contain u. Where b and u are 0 there is no interval: tables that agree do not show
    how far the true value may be from theirs.

    Examples
    --------
    >>> import trigmech as tm
    >>> tm.combine([1.0, 1.2, 1.1, 0.9])
    Estimate(1.05 (0.5907 to 1.509); 95% intervals for the population)
    """
    check_level(level)
    values = np.asarray(estimates)
    values = finite("estimates", values, *values.shape).astype(np.float64)
    if values.ndim == 0 or len(values) < 2:
        raise InputError("estimates must have a value for each of at least two tables")
    from scipy.special import stdtrit

    m = len(values)
    between = (1.0 + 1.0 / m) * values.var(axis=0, ddof=1)
    within = np.zeros_like(between)
    if variances is not None:
        given = np.asarray(variances)
        given = finite("variances", given, *values.shape).astype(np.float64)
        if (given < 0.0).any():
            raise InputError(f"variances must be at least 0, not {shown(float(given.min()))}")
        within = given.mean(axis=0)
    variance = between + within
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        freedom = np.where(between > 0.0, (m - 1) * (1.0 + within / between) ** 2, np.inf)
    value = values.mean(axis=0)
    return around(value, variance, stdtrit(np.minimum(freedom, 1e12), 0.5 * (1.0 + level)), np.zeros_like(value), level,
                  True)


def times(estimate: Estimate, unit: Array) -> Estimate:
    """Return an estimate whose numbers are so many times as large. Ends beyond floating point are infinite."""
    with np.errstate(over="ignore"):
        return replace(estimate, **{name: getattr(estimate, name) * unit
                                    for name in ("value", "deviation", "low", "high")})


def around(value: Array, variance: Array, reach: ArrayLike, untold: Array, level: float, population: bool) -> Estimate:
    """Return an estimate with intervals of so many deviations to both sides; ``untold`` is a part of the variance.

    A value that does not vary but for rounding has no interval.
    """
    deviation = np.sqrt(variance)
    deviation = np.where(deviation <= SAME * np.abs(value), np.nan, deviation)
    half = deviation * reach
    return Estimate(value, deviation, value - half, value + half,
                    np.divide(untold, variance, out=np.zeros_like(untold), where=variance > 0.0), level, population)


def within(freedom: int, level: float) -> float:
    """Return the number that Student's t with whole degrees of freedom stays within at this probability below 1.

    By bisection of the finite sums of Abramowitz and Stegun, 26.7.3 and 26.7.4. scipy.special has it, too, but takes
    longer to load than most questions to saved imputations take in all.
    """
    def inside(angle: float) -> float:
        square, odd = math.cos(angle) ** 2, freedom % 2
        term, total = (math.cos(angle) if odd else 1.0), 0.0
        for k in range(2 + odd, freedom + 1, 2):
            total += term
            term *= square * (k - 1) / k
        return 2.0 / math.pi * (angle + math.sin(angle) * total) if odd else math.sin(angle) * total

    low, high = 0.0, 0.5 * math.pi
    for _ in range(80):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if inside(middle) < level else (low, middle)
    return math.sqrt(freedom) * math.tan(high)


def bias(values: Array) -> Array:
    """Return the mean of the fits minus the table (r, ...), of a statistic of each rehearsal's tables (r, 3, ...).

    See :mod:`trigmech.inference.rehearsing`.
    """
    return np.asarray(0.5 * (values[:, 1] + values[:, 2]) - values[:, 0])


def at_zero(values: Array) -> Array:
    """Return the same under the hypothesis that the statistic is 0.

    A table of the hypothesis differs from 0 by chance, and where fits do not have this, it is no bias. So fits that are
    nearer to 0 than to the table count by their distance from 0.
    """
    off, fits = bias(values), values[:, 1:].mean(axis=1)
    return np.where(np.abs(fits) < np.abs(off), fits, off)


def squared(found: Array) -> Array:
    """Return the mean square of biases (r, ...) over the rehearsals. One that is not finite says nothing."""
    known = np.isfinite(found)
    total = np.square(np.where(known, found, 0.0)).sum(axis=0)
    return np.asarray(total / np.maximum(known.sum(axis=0), 1))


def why_untold(used: Sequence[str], measured: Sequence[Sequence[str]]) -> str:
    """Return why a release says little about some columns together, none of them derived: these are never measured."""
    if len(used) > 1 and measured and not any(set(used) <= set(table) for table in measured):
        return f"the release measured no table of {', '.join(used[:-1])} and {used[-1]} together"
    return "the question is finer than the cells and functions that the release measured"
