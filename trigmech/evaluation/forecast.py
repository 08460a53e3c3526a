"""The errors that a release is expected to have, and their lights, from the release alone. Public.

An error is expected to be a weighted sum of the sizes of its causes (:mod:`trigmech.evaluation.features`). The weights,
and how far errors lie from their expectation, were set by ``python -m experiments run lights``, on public and made-up
tables; ``experiments/results/lights.md`` says how often the lights were right on others.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trigmech.errors import InputError
from trigmech.evaluation.features import Causes, causes_of
from trigmech.evaluation.judgement import compared_rows
from trigmech.evaluation.sides import Coding
from trigmech.evaluation.verdict import LIMITS, Light, Limit, Measure, worst
from trigmech.measurement.released import Release
from trigmech.schema.schema import Schema

Array = NDArray[np.float64]

# More synthetic rows tell no more about the causes.
MOST_ROWS, SEED = 20_000, 2014
# Weights of the causes, in the order of their arrays.
OF_NUMBERS, OF_CATEGORIES = (0.52, 0.05, 0.5, 0.15), (1.0, 0.0, 0.0, 0.2)
OF_PAIRS, OF_CORRELATIONS = (0.02, 0.08, 0.5, 0.36, 0.85), (0.5, 0.25, 0.2, 0.15)
# Nine of ten errors are at most the second multiple of the expected one; and nineteen of twenty at least the first.
BARS = {"column": (0.4, 1.7), "pair": (0.5, 1.9), "correlation": (0.1, 2.3)}
# A light is that of an error so many times the expected one: it should rarely be better than the true light.
MARGIN = 1.25
# The loss of R² is about this times the mean square of the dependence that noise hides, for each other column.
OF_REGRESSIONS = 0.33


@dataclass(frozen=True)
class ExpectedError:
    """One error that a release is expected to have.

    Parameters
    ----------
    about : tuple of str
        One column, or two.
    kind : {"column", "pair", "correlation"}
        1 minus the score of the column or of the table of both columns, or the error of their correlation; defined in
        :mod:`trigmech.evaluation.measures`.
    error : float
    low, high : float
        The error is at most the second in nine of ten cases, and rarely below the first.
    fresh : float
        The error of as many true rows, drawn again, as far as synthetic rows show it.
    light : {"good", "care", "poor"}
        By the limits of ``column_worst``, ``pair_worst`` or ``correlation_worst``, for 1.25 times the error: a light
        should rarely be better than the true one.
    hidden : float
        How large a dependence noise hides, of pairs and correlations.
    """

    about: tuple[str, ...]
    kind: str
    error: float
    low: float
    high: float
    fresh: float
    light: Light
    hidden: float = 0.0

    @property
    def name(self) -> str:
        """The column, or both columns, in words."""
        return " and ".join(self.about)


@dataclass(frozen=True, eq=False)
class Forecast:
    """All errors that a release is expected to have; public.

    Parameters
    ----------
    columns, pairs, correlations : tuple of ExpectedError
    above : int
        How many pairs depend on each other by more than noise explains.
    strengths : dict of (str, str) to float
        How strongly the columns of each pair depend on each other, as released, from 0 to 1.
    group_rows : float
        Means over groups of so many rows are expected to be off by the first limit of ``groups_mean``; infinite if no
        pair of columns was seen.
    regression_loss : float
        The expected mean loss of R² of regressions; not a number if there is a single column.
    limits : mapping
    """

    columns: tuple[ExpectedError, ...]
    pairs: tuple[ExpectedError, ...]
    correlations: tuple[ExpectedError, ...]
    above: int
    strengths: dict[tuple[str, ...], float]
    group_rows: float
    regression_loss: float
    limits: Mapping[str, Limit]

    def lights_of_columns(self) -> dict[str, Light]:
        """Return each column's light."""
        return {each.name: each.light for each in self.columns}

    def lights_of_pairs(self) -> dict[str, Light]:
        """Return each pair's light: the worse one of its table and of its correlation, if it has one."""
        found = {each.name: each.light for each in self.pairs}
        for each in self.correlations:
            found[each.name] = worst((found[each.name], each.light))
        return found

    def measures(self) -> list[Measure]:
        """Return the expected values of those measures that a release tells of, with their lights."""
        found = []
        for name, worst_name, errors in (("columns_mean", "column_worst", self.columns),
                                         ("pairs_mean", "pair_worst", self.pairs),
                                         ("correlations_mean", "correlation_worst", self.correlations)):
            if errors:
                largest = max(errors, key=lambda each: each.error)
                mean, fresh = (float(np.mean([getattr(each, part) for each in errors])) for part in ("error", "fresh"))
                found += [self._measure(name, mean, fresh),
                          self._measure(worst_name, largest.error, largest.fresh, largest.name)]
        if np.isfinite(self.regression_loss):
            found.append(self._measure("regression_loss", self.regression_loss, None))
        return found

    def _measure(self, name: str, error: float, fresh: float | None, about: str = "") -> Measure:
        limit = self.limits[name]
        sign = -1.0 if limit.best else 1.0
        value, usual = limit.best + sign * error, None if fresh is None else limit.best + sign * fresh
        return Measure(name, name.replace("_", " "), "expected", value, usual, limit.light(value, usual), about)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain data."""
        return {"lights": {"columns": self.lights_of_columns(), "pairs": self.lights_of_pairs()},
                "columns": [asdict(each) for each in self.columns], "pairs": [asdict(each) for each in self.pairs],
                "correlations": [asdict(each) for each in self.correlations], "pairs_above_the_noise": self.above,
                "group_rows": self.group_rows if np.isfinite(self.group_rows) else None,
                "regression_loss": self.regression_loss if np.isfinite(self.regression_loss) else None,
                "limits": {name: asdict(limit) for name, limit in self.limits.items()}}


def forecast(release: Release, schema: Schema, points: Array, limits: Mapping[str, Limit] = LIMITS) -> Forecast:
    """Return the errors that a release is expected to have.

    Parameters
    ----------
    release : Release
        Of columns and tables, as :class:`trigmech.TableMechanism` makes it.
    schema : Schema
    points : ndarray (m, D)
        The synthetic rows in the cube.
    limits : mapping, optional

    Raises
    ------
    InputError
        If the release is one of moments.

    Notes
    -----
    Privacy: post-processing; random numbers have a fixed seed. Cost: below a second for 17 columns.
    """
    if not release.columns:
        raise InputError("errors are expected for releases of tables, as TableMechanism makes them; this is a release "
                         "of moments")
    rng = np.random.default_rng(SEED)
    count = min(release.n, MOST_ROWS, len(points))
    chosen = points if count == len(points) else points[np.sort(rng.choice(len(points), count, replace=False))]
    rows = schema.decode(chosen)
    coding = Coding.of(schema.columns, rows)
    causes = causes_of(release.described(schema), coding, coding.side(rows), chosen,
                       compared_rows(release.n, len(schema.columns)))
    return _forecast(causes, schema.names, release.n, limits)


def _forecast(causes: Causes, names: Sequence[str], n: int, limits: Mapping[str, Limit]) -> Forecast:
    weights = np.where(causes.numeric[:, None], OF_NUMBERS, OF_CATEGORIES)
    errors = np.minimum((causes.columns * weights).sum(axis=1), 1.0)
    columns = _expected("column", [(name,) for name in names], errors, causes.columns[:, -1], limits["column_worst"])
    pairs = _expected("pair", list(itertools.combinations(names, 2)), np.minimum(causes.pairs @ OF_PAIRS, 1.0),
                      causes.pairs[:, -1], limits["pair_worst"], causes.hidden)
    wrong = np.minimum(causes.correlations @ OF_CORRELATIONS, 2.0)
    correlations = _expected("correlation", [(names[j], names[h]) for j, h in causes.places], wrong,
                             causes.correlations[:, -1], limits["correlation_worst"],
                             causes.correlations[:, 0])
    found = float(np.median(causes.groups)) if len(causes.groups) else np.inf
    # A pair of categories has no correlation, but as much noise.
    squared = np.square(causes.hidden)
    loss = min(OF_REGRESSIONS * (len(names) - 1) * float(squared.mean()), 1.0) if len(squared) else np.nan
    if len(squared) and not causes.above.any():
        # What no pair shows, no regression learns.
        loss = 1.0
    strengths = dict(zip((each.about for each in pairs), causes.strengths.tolist(), strict=True))
    return Forecast(columns, pairs, correlations, int(causes.above.sum()), strengths,
                    n * found / limits["groups_mean"].good, loss, limits)


def _expected(kind: str, names: Sequence[tuple[str, ...]], errors: Array, fresh: Array,
              limit: Limit, hidden: Array | None = None) -> tuple[ExpectedError, ...]:
    low, high = BARS[kind]
    most = 2.0 if kind == "correlation" else 1.0
    # By the score of a table, or by the error of a correlation, whose best value is 0.
    sign = -1.0 if limit.best else 1.0
    return tuple(ExpectedError(about, kind, error, low * error, min(high * error, most), usual, limit.light(
        limit.best + sign * min(MARGIN * error, most), limit.best + sign * usual), below)
                 for about, error, usual, below in zip(names, errors.tolist(), fresh.tolist(), (
                     np.zeros(len(errors)) if hidden is None else hidden).tolist(), strict=True))
