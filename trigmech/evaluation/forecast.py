"""The errors that a release is expected to have, and their lights, from the release alone. Public.

An error is expected to be a weighted sum of the sizes of its causes (:mod:`trigmech.evaluation.features`), and that of
a pair is at least a part of the error that shrinking the noise leaves in its table. The weights make the logarithms of
expected and true errors agree as well as they can, on public and made-up tables; and nine of ten errors there are below
the upper ends of the bars. ``python -m experiments run lights`` measures on other tables how
often the lights are right; ``experiments/results/lights.md`` says it.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from trigmech._arrays import Array
from trigmech._html import html_lines, html_table
from trigmech.errors import InputError
from trigmech.evaluation.features import USUAL, Causes, causes_of, hidden, mean_causes
from trigmech.evaluation.judgement import compared_rows
from trigmech.evaluation.sides import Coding
from trigmech.evaluation.verdict import LIMITS, Light, LightLimits, QualityMeasure, verdict_of, worst
from trigmech.measurement.released import Release
from trigmech.schema.schema import Schema

# More synthetic rows tell no more about the causes.
MOST_ROWS, SEED = 20_000, 2014
# How many sizes of groups are tried, from a row to all of them.
SIZES = 200
# Weights of the causes, in the order of their arrays.
OF_NUMBERS, OF_CATEGORIES = (0.52, 0.05, 0.5, 0.15), (1.0, 0.0, 0.0, 0.2)
OF_PAIRS, OF_CORRELATIONS = (0.21, 0.11, 0.08, 0.47, 0.58), (0.66, 0.033, 0.12, 0.79)
# The rows fit all tables at once, so a table of the rows is wrong by about this part of the shrunken table's error.
OF_LEFT = 0.8
# For means over groups: dependence that noise may hide, noise of both columns, chance. For regressions: dependence that
# noise may hide, the square of the noise of both columns.
OF_GROUPS, OF_REGRESSIONS = (0.2, 0.44, 1.24), (0.39, 1.7)
# Nine of ten errors are at most the second multiple of the expected one; and nineteen of twenty at least the first.
BARS = {"column": (0.1, 1.7), "pair": (0.5, 1.75), "correlation": (0.1, 2.5), "groups": (0.65, 1.45),
        "regressions": (0.3, 1.85)}
# A light is that of an error so many times the expected one: it should rarely be better than the true light.
MARGINS = {kind: high for kind, (_, high) in BARS.items()} | {"column": 1.25}
# The mean size of a standard normal number, and the part of all rows in a group for which the weights were set.
SIZE, TENTH = math.sqrt(2.0 / math.pi), 0.1


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
        On the tables that set the weights, the error was at most ``high`` in nine of ten cases, and at least ``low`` in
        nineteen of twenty.
    fresh : float
        An estimate, from the synthetic rows, of the error of equally many true rows that are drawn again.
    light : {"good", "care", "poor"}
        By the limits of ``column_worst``, ``pair_worst`` or ``correlation_worst``. A column gets the light for 1.25
        times its error; a pair or a correlation gets the light for ``high``. A light should rarely be better than the
        true one.
    hidden : float
        The size of the dependence that noise hides; for pairs and correlations.
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
        Means over groups of so many rows are expected to be off by the first limit of ``groups_mean`` at most, on
        average; infinite if no group is large enough.
    group_noise : float
        The noise in the mean of a column over the rows of a group, times the group's part of all rows, in standard
        deviations: the median over tables; infinite if no pair of columns was seen.
    group_error : float
        The expected mean error of means over groups of at least 100 rows, in standard deviations; not a number if there
        is a single column or there are fewer than 100 rows.
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
    group_noise: float
    group_error: float
    regression_loss: float
    limits: Mapping[str, LightLimits]

    def lights_of_columns(self) -> dict[str, Light]:
        """Return each column's light."""
        return {each.name: each.light for each in self.columns}

    def lights_of_pairs(self) -> dict[str, Light]:
        """Return each pair's light: the worse one of its table and of its correlation, if it has one."""
        found = {each.name: each.light for each in self.pairs}
        for each in self.correlations:
            found[each.name] = worst((found[each.name], each.light))
        return found

    def measures(self) -> list[QualityMeasure]:
        """Return the expected values of the measures that follow from a release, with their lights."""
        found = []
        for name, worst_name, errors in (("columns_mean", "column_worst", self.columns),
                                         ("pairs_mean", "pair_worst", self.pairs),
                                         ("correlations_mean", "correlation_worst", self.correlations)):
            if errors:
                largest = max(errors, key=lambda each: each.error)
                mean, fresh = (float(np.mean([getattr(each, part) for each in errors])) for part in ("error", "fresh"))
                found += [self._measure(name, mean, fresh),
                          self._measure(worst_name, largest.error, largest.fresh, largest.name)]
        # There is only one figure of each kind, so its light is that of the upper end of its bar, as for a pair.
        for name, kind, error in (("groups_mean", "groups", self.group_error),
                                  ("regression_loss", "regressions", self.regression_loss)):
            if np.isfinite(error):
                found.append(self._measure(name, error, None, margin=MARGINS[kind]))
        return found

    def _measure(self, name: str, error: float, fresh: float | None, about: str = "",
                 margin: float = 1.0) -> QualityMeasure:
        limit = self.limits[name]
        sign = -1.0 if limit.best else 1.0
        value, usual = limit.best + sign * error, None if fresh is None else limit.best + sign * fresh
        return QualityMeasure(name, name.replace("_", " "), "expected", value, usual,
                              limit.light(limit.best + sign * margin * error, usual), about)

    def sentences(self, n: int) -> list[str]:
        """Return three lines: the uses of a table of n rows, sizes of groups, and how many relations are visible."""
        measures = self.measures()
        columns, pairs = self.lights_of_columns(), list(self.lights_of_pairs().values())
        good = f"{list(columns.values()).count('good')} of {len(columns)} columns" + (
            f" and {pairs.count('good')} of {len(pairs)} pairs of columns" if pairs else "")
        found = [f"{verdict_of(measures, columns)} By expected errors, {good} are good."]
        if not pairs:
            return found
        limit = f"{self.limits['groups_mean'].good:g}"
        found.append(f"Means over groups of about {_rounded(self.group_rows):,} rows or more are expected to be off "
                     f"by {limit} standard deviations or less, on average; for smaller groups by more."
                     if self.group_rows <= n else
                     f"Means over groups of any size are expected to be off by more than {limit} standard deviations.")
        found.append(f"{self.above} of {len(pairs)} pairs of columns show a relation above the noise"
                     + ("." if self.above == len(pairs) else
                        "; the others may depend on each other, and the release would not show it."))
        return found

    def html(self, n: int) -> str:
        """Return the sentences, and the lights of columns and of pairs, for a notebook."""
        return html_lines("What the table is good for", self.sentences(n)) + "".join(
            html_table(f"A light for each {of}", list(lights.items()), (of.capitalize(), "Expected"), (1,))
            for of, lights in (("column", self.lights_of_columns()), ("pair", self.lights_of_pairs())) if lights)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain data."""
        return {"lights": {"columns": self.lights_of_columns(), "pairs": self.lights_of_pairs()},
                "columns": [asdict(each) for each in self.columns], "pairs": [asdict(each) for each in self.pairs],
                "correlations": [asdict(each) for each in self.correlations], "pairs_above_the_noise": self.above,
                **{name: getattr(self, name) if np.isfinite(getattr(self, name)) else None
                   for name in ("group_rows", "group_error", "regression_loss")},
                "limits": {name: asdict(limit) for name, limit in self.limits.items()}}


def forecast(release: Release, schema: Schema, points: Array, limits: Mapping[str, LightLimits] = LIMITS,
             others: Sequence[Release] = ()) -> Forecast:
    """Return the errors that a release is expected to have.

    Parameters
    ----------
    release : Release
        Of columns and tables, as :class:`trigmech.TableMechanism` makes it.
    schema : Schema
    points : ndarray (m, D)
        The synthetic rows in the cube.
    limits : mapping, optional
    others : sequence of Release, optional
        Further releases of the same public rows by the same plan, as rehearsals give; sizes of causes are their means.

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
    causes = [causes_of(each.described(schema), coding, coding.side(rows), chosen,
                        compared_rows(release.n, len(schema.columns))) for each in (release, *others)]
    return _forecast(mean_causes(causes), schema.names, release.n, limits)


def _forecast(causes: Causes, names: Sequence[str], n: int, limits: Mapping[str, LightLimits]) -> Forecast:
    weights = np.where(causes.numeric[:, None], OF_NUMBERS, OF_CATEGORIES)
    errors = np.minimum((causes.columns * weights).sum(axis=1), 1.0)
    columns = _expected("column", [(name,) for name in names], errors, causes.columns[:, -1], limits["column_worst"])
    # Usually the causes say it all; where columns form many small groups, shrinkage leaves more of the tables wrong.
    wrong = np.minimum(np.maximum(causes.pairs @ OF_PAIRS, OF_LEFT * causes.left), 1.0)
    pairs = _expected("pair", list(itertools.combinations(names, 2)), wrong, causes.pairs[:, -1], limits["pair_worst"],
                      causes.hidden)
    wrong = np.minimum(causes.correlations @ OF_CORRELATIONS, 2.0)
    correlations = _expected("correlation", [(names[j], names[h]) for j, h in causes.places], wrong,
                             causes.correlations[:, -1], limits["correlation_worst"],
                             causes.correlations[:, 0])
    # A pair of categories has no correlation, but as much noise.
    of_columns = float(causes.pairs[:, 3].mean()) if len(causes.pairs) else np.nan
    loss = min(OF_REGRESSIONS[0] * float(np.mean(causes.hidden)) + OF_REGRESSIONS[1] * of_columns**2, 1.0) if len(
        causes.pairs) else np.nan
    def error(part: float, chance: float) -> float:
        """Return the expected error of means over groups of a part of all rows."""
        unseen = float(np.mean(hidden(causes.groups / part))) if len(causes.groups) else USUAL
        return float(np.dot(OF_GROUPS, (unseen, of_columns, chance)))

    in_groups = error(TENTH, causes.groups_chance) if causes.groups_chance > 0.0 else np.nan
    sizes = np.geomspace(1.0, n, SIZES)
    right = [size for size in sizes.tolist()
             if len(causes.pairs) and error(size / n, SIZE / math.sqrt(size)) <= limits["groups_mean"].good]
    strengths = dict(zip((each.about for each in pairs), causes.strengths.tolist(), strict=True))
    noise = float(np.median(causes.groups)) if len(causes.groups) else np.inf
    return Forecast(columns, pairs, correlations, int(causes.above.sum()), strengths, min(right, default=np.inf), noise,
                    in_groups, loss, limits)


def _rounded(rows: float) -> int:
    """Return a number of rows with two digits, rounded up: it is no more exact."""
    unit = 10 ** max(len(str(math.ceil(rows))) - 2, 0)
    return math.ceil(rows / unit) * unit


def _expected(kind: str, names: Sequence[tuple[str, ...]], errors: Array, fresh: Array,
              limit: LightLimits, unseen: Array | None = None) -> tuple[ExpectedError, ...]:
    low, high = BARS[kind]
    most = 2.0 if kind == "correlation" else 1.0
    # By the score of a table, or by the error of a correlation, whose best value is 0.
    sign = -1.0 if limit.best else 1.0
    return tuple(ExpectedError(about, kind, error, low * error, min(high * error, most), usual, limit.light(
        limit.best + sign * min(MARGINS[kind] * error, most), limit.best + sign * usual), below)
                 for about, error, usual, below in zip(names, errors.tolist(), fresh.tolist(), (
                     np.zeros(len(errors)) if unseen is None else unseen).tolist(), strict=True))
