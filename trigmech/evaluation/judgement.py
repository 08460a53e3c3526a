"""NON-PRIVATE. A synthetic table judged against the true one: measures with lights, and a verdict in words."""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from trigmech._html import html_table
from trigmech.evaluation.detector import detector_aucs
from trigmech.evaluation.measures import (
    column_scores,
    copied_shares,
    correlation_differences,
    determined,
    group_differences,
    missing_scores,
    pair_scores,
    regression_losses,
)
from trigmech.evaluation.sides import Coding, Side
from trigmech.evaluation.verdict import LIMITS, Light, LightLimits, QualityMeasure, lights_of_uses, verdict_of, worst
from trigmech.measurement.rows import Progress, silent
from trigmech.schema.schema import Schema

# Among so many rows of either table a share has a standard error of 0.16 percentage points at most, far below every
# limit, so more rows would add nothing. Tables with many columns are compared in fewer rows, so many values in all, but
# never in fewer than the second number, with which the standard error is 0.5 percentage points.
COMPARED_ROWS, FEWEST_COMPARED, COMPARED_VALUES = 100_000, 10_000, 2_000_000
SEED = 2014
# A detector learns on two thirds of the rows.
FEWEST_FOR_DETECTOR = 30
# The part of group means whose errors are below the one that is shown.
MOST_GROUPS = 0.95
Details = dict[str, Any]


@dataclass(frozen=True)
class Judgement:
    """A release judged by its table; private.

    Parameters
    ----------
    measures : tuple of QualityMeasure
        About ten; those that make no sense for a table, such as correlations without numbers, are left out.
    details : dict
        More figures, by name: of each column, of each pair, of further measures.
    rows : dict of str to int
        How many rows there are, and how many were compared.
    """

    measures: tuple[QualityMeasure, ...]
    details: dict[str, Any]
    rows: dict[str, int]
    limits: Mapping[str, LightLimits] = field(default_factory=lambda: LIMITS)

    def by(self, limits: Mapping[str, LightLimits]) -> "Judgement":
        """Return the same measures with the lights of other limits."""
        return replace(self, limits=limits, measures=tuple(
            replace(each, light=_light(limits[each.name], each.name, each.value, each.fresh))
            for each in self.measures))

    def lights_of_columns(self) -> dict[str, Light]:
        """Return each column's light, by the limits of the worst column."""
        return {name: self.limits["column_worst"].light(score, self.details["columns, fresh"][name])
                for name, score in self.details["columns"].items()}

    def lights_of_pairs(self) -> dict[str, Light]:
        """Return each pair's light: the worse one of its table and of its correlation, if it has one."""
        held: dict[str, Any] = self.details.get("correlations", {})
        found = {name: self.limits["pair_worst"].light(score, self.details["pairs, fresh"][name])
                 for name, score in self.details.get("pairs", {}).items()}
        for name, error in held.get("differences", {}).items():
            own = self.limits["correlation_worst"].light(error, held["differences, fresh"][name])
            found[name] = worst((found[name], own))
        return found

    def __repr__(self) -> str:
        return "Judgement(private)"

    def _repr_html_(self) -> str:
        return html_table("Judgement: NOT PRIVATE; show its verdict and its measures one by one", [])

    @property
    def verdict(self) -> str:
        """The verdict in words."""
        columns = self.lights_of_columns()
        for name, score in self.details.get("missing", {}).items():
            columns[name] = worst((columns[name], self.limits["missing_worst"].light(
                score, self.details["missing, fresh"][name])))
        return verdict_of(self.measures, columns)

    @property
    def compared(self) -> str:
        """Which rows were compared, in words."""
        rows = self.rows
        of_all = "All" if rows["true_compared"] == rows["true"] else f"{rows['true_compared']:,} drawn rows of the"
        more = "" if rows["true_compared"] == rows["true"] else (
            "; a share of so many rows has a standard error of "
            f"{50.0 / math.sqrt(rows['true_compared']):.2g} percentage points at most, and measured errors contain it")
        return (f"{of_all} {rows['true']:,} true rows were compared with {rows['synthetic']:,} synthetic ones; a "
                f"detector learned from {rows['detector']:,} of each{more}.")

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain data."""
        return {"verdict": self.verdict, "uses": lights_of_uses(self.measures), "rows": self.rows,
                "measures": [asdict(measure) | {"limits": asdict(self.limits[measure.name])}
                             for measure in self.measures],
                "lights": {"columns": self.lights_of_columns(), "pairs": self.lights_of_pairs()},
                "details": self.details}


def compared_rows(n: int, d: int) -> int:
    return min(n, COMPARED_ROWS, max(FEWEST_COMPARED, COMPARED_VALUES // d))


def judged(schema: Schema, true: Mapping[str, Any], made: Mapping[str, Any], n: int | None = None,
           say: Progress = silent) -> Judgement:
    """Return the measures of a synthetic table against the true one.

    Parameters
    ----------
    schema : Schema
        Complete.
    true : mapping of str to ndarray or masked array (n,), private
        The true table, or rows drawn from it, in the form of :meth:`trigmech.Schema.decode`.
    made : mapping of str to ndarray or masked array (m,)
        Synthetic rows, in the same form.
    n : int, optional
        Rows of the true table, if ``true`` has fewer.
    say : callable, optional
        Called with the step, how much of it is done, and its total.

    Notes
    -----
    Privacy: NONE; it must not be published. The definitions and their sources are in
    :mod:`trigmech.evaluation.measures` and :mod:`trigmech.evaluation.detector`, the limits in
    :mod:`trigmech.evaluation.verdict`. A fixed seed draws the fresh sample and the detector's rows. Cost: seconds for
    100,000 rows of 17 columns; pairs of columns times rows, and the detector's training.
    """
    rng = np.random.default_rng(SEED)
    coding = Coding.of(schema.columns, true)
    both = coding.side(true), coding.side(made)
    fresh = both[0].rows(rng.integers(0, len(both[0].values), len(both[1].values)))
    steps = (_columns, _pairs, _correlations, _groups, _regressions, _detector, _copies)
    measures: list[QualityMeasure] = []
    details: dict[str, Any] = {}
    for done, step in enumerate(steps):
        say(f"comparing {step.__name__.strip('_')}", done, len(steps))
        measures += step(coding, *both, fresh, details, rng)
    say("comparing", len(steps), len(steps))
    rows = {"true": n or len(both[0].values), "true_compared": len(both[0].values), "synthetic": len(both[1].values),
            "detector": details.pop("rows of the detector", 0)}
    return Judgement(tuple(measures), details, rows)


def _measure(name: str, words: str, definition: str, value: float, fresh: float | None,
             about: str = "") -> QualityMeasure:
    return QualityMeasure(name, words, definition, value, fresh, _light(LIMITS[name], name, value, fresh), about)


def _light(limit: LightLimits, name: str, value: float, fresh: float | None) -> Light:
    if name == "copies":
        # Copies that chance alone makes do not count.
        return limit.light(max(value - (fresh or 0.0), 0.0))
    return limit.light(value, fresh)


def _by_name(names: Sequence[str], values: Any) -> dict[str, float]:
    return dict(zip(names, values.tolist(), strict=True))


def _mean_and_worst(names: tuple[str, str], words: str, definitions: tuple[str, str], values: Any, fresh: Any,
                    about: list[str], worst: int) -> list[QualityMeasure]:
    """Return the measures of the mean and of the worst of some values, and of those of fresh rows."""
    return [_measure(names[0], f"{words}, mean", definitions[0], float(values.mean()), float(fresh.mean())),
            _measure(names[1], f"{words}, worst", definitions[1], float(values[worst]), float(fresh[worst]),
                     about[worst])]


def _columns(coding: Coding, true: Side, made: Side, fresh: Side, details: Details, rng: Any) -> list[QualityMeasure]:
    scores, best = column_scores(coding, true, made), column_scores(coding, true, fresh)
    names = [column.name for column in coding.columns]
    details["columns"] = _by_name(names, scores)
    details["columns, fresh"] = _by_name(names, best)
    what = "KSComplement, TVComplement"
    found = _mean_and_worst(("columns_mean", "column_worst"), "score of columns", (f"mean of {what}", what), scores,
                            best, names, int(scores.argmin()))
    if np.isnan(true.values).any() or np.isnan(made.values).any():
        missing, usual = missing_scores(true, made), missing_scores(true, fresh)
        at = int(missing.argmin())
        details["missing"] = _by_name(names, missing)
        details["missing, fresh"] = _by_name(names, usual)
        found.append(_measure("missing_worst", "score of missing values, worst", "MissingValueSimilarity",
                              float(missing[at]), float(usual[at]), names[at]))
    return found


def _pairs(coding: Coding, true: Side, made: Side, fresh: Side, details: Details, rng: Any) -> list[QualityMeasure]:
    if len(coding.columns) < 2:
        return []
    scores, best = pair_scores(coding, true, made), pair_scores(coding, true, fresh)
    names = [f"{a.name} and {b.name}" for a, b in itertools.combinations(coding.columns, 2)]
    details["pairs"] = _by_name(names, scores)
    details["determined"] = [(coding.columns[j].name, coding.columns[h].name, own, other)
                             for j, h, own, other in determined(coding, true, made)]
    details["pairs, fresh"] = _by_name(names, best)
    what = "ContingencySimilarity"
    return _mean_and_worst(("pairs_mean", "pair_worst"), "score of tables of two columns", (f"mean of {what}", what),
                           scores, best, names, int(scores.argmin()))


def _correlations(coding: Coding, true: Side, made: Side, fresh: Side, details: Details,
                  rng: Any) -> list[QualityMeasure]:
    errors, pairs = correlation_differences(coding, true, made)
    if not len(errors):
        return []
    usual = correlation_differences(coding, true, fresh)[0]
    ranked = correlation_differences(coding, true, made, ranked=True)[0]
    names = [f"{coding.columns[j].name} and {coding.columns[h].name}" for j, h in pairs]
    details["correlations"] = {
        "differences": _by_name(names, errors),
        "differences, fresh": _by_name(names, usual),
        "CorrelationSimilarity": float(1.0 - errors.mean() / 2.0),
        "Spearman, mean": float(ranked.mean()), "Spearman, worst": float(ranked.max())}
    what = "2 (1 - CorrelationSimilarity), Pearson"
    return _mean_and_worst(("correlations_mean", "correlation_worst"), "error of correlations", (what, what), errors,
                           usual, names, int(errors.argmax()))


def _groups(coding: Coding, true: Side, made: Side, fresh: Side, details: Details, rng: Any) -> list[QualityMeasure]:
    errors = group_differences(coding, true, made)
    if not len(errors):
        return []
    usual = group_differences(coding, true, fresh)
    details["groups"] = {"means": len(errors), "worst": float(errors.max()), "median": float(np.median(errors))}
    return [_measure("groups_mean", "error of means in groups of at least 100 rows, in standard deviations, mean",
                     "standardised mean difference (Austin 2009)", float(errors.mean()), float(usual.mean())),
            _measure("groups_worst", "error of means in groups, 95 of 100 are smaller",
                     "standardised mean difference (Austin 2009)", float(np.quantile(errors, MOST_GROUPS)),
                     float(np.quantile(usual, MOST_GROUPS)))]


def _regressions(coding: Coding, true: Side, made: Side, fresh: Side, details: Details,
                 rng: Any) -> list[QualityMeasure]:
    if len(coding.columns) < 2 or len(true.values) < 4:
        return []
    own, synthetic = regression_losses(coding, true, made, rng)
    known = ~np.isnan(own)
    if not known.any():
        return []
    losses = np.maximum(own - synthetic, 0.0)
    names = [column.name for column in coding.columns]
    details["regressions"] = {name: {"R2_true": float(a), "R2_synthetic": float(b)} for name, a, b, there in zip(
        names, own, synthetic, known, strict=True) if there}
    return [_measure("regression_loss", "loss of R² of regressions learned from synthetic rows, on true rows, mean",
                     "train on synthetic, test on real (Esteban et al. 2017)", float(losses[known].mean()), None,
                     f"worst: {names[int(np.nanargmax(losses))]}")]


def _detector(coding: Coding, true: Side, made: Side, fresh: Side, details: Details, rng: Any) -> list[QualityMeasure]:
    if min(len(true.values), len(made.values)) < FEWEST_FOR_DETECTOR:
        return []
    boosted, linear, count = detector_aucs(coding, true, made, rng)
    details["detectors"] = {"boosting": boosted, "logistic": linear,
                            "LogisticDetection": 2.0 - 2.0 * max(linear, 0.5)}
    details["rows of the detector"] = count
    return [_measure("detector", "AUC of a detector of synthetic rows", "classifier two-sample test "
                     "(Lopez-Paz and Oquab 2017), boosting", boosted, None)]


def _copies(coding: Coding, true: Side, made: Side, fresh: Side, details: Details, rng: Any) -> list[QualityMeasure]:
    copied, usual = copied_shares(true, made)
    details["NewRowSynthesis"] = 1.0 - copied
    return [_measure("copies", "share of synthetic rows that equal a true row", "1 - NewRowSynthesis, tolerance 0",
                     copied, usual)]
