"""The lights that a release is expected to have, beside those measured by its table."""

from typing import Any

import numpy as np
import pandas as pd

import trigmech as tm
from experiments.asked import Asked
from experiments.declare import Experiment, calls_of
from experiments.frames import across, markdown, means, sections, worded
from experiments.small import WITHOUT_DATA, Sample
from trigmech.evaluation.forecast import BARS, MARGINS, Forecast, forecast
from trigmech.evaluation.judgement import Judgement, judged
from trigmech.evaluation.measures import group_differences
from trigmech.evaluation.sides import Coding
from trigmech.evaluation.verdict import LIGHTS, LIMITS

DELTA, EPSILONS = 1e-6, (0.3, 1.0, 3.0)
Columns = dict[str, Any]
# The weights of pairs, correlations, groups and regressions were set on other tables; those of columns on releases of
# synmeter_bean and ctg too.
SAMPLES = (Sample("nltcs"), Sample("synmeter_magic"), Sample("adult", 10_000), Sample("synmeter_bean"), Sample("ctg"),
           Sample("aim_titanic"), Sample("aim_salary", 20_000), Sample("sklearn diabetes"))
KINDS = ("columns", "pairs")
# Figures of a whole release: its name, the measure, and the kind of its bar.
WHOLE = {"groups": ("groups_mean", "group_error"), "regressions": ("regression_loss", "regression_loss")}


def lights_of(source: str, rows: int, epsilon: float, seed: int) -> dict[str, float]:
    """Return, of one release, counts of expected and measured lights, and how many errors lie within their bars."""
    table, schema = Sample(source, rows).load(seed)
    made = tm.synthesize(table, schema, tm.Budget(epsilon, DELTA), rng=np.random.default_rng(seed))
    synthetic = made.columns(len(table), np.random.default_rng([seed, 1]))
    expected = forecast(made.release, schema, made.distribution.points)
    real = schema.decode(schema.to_cube(table))
    truth = judged(schema, real, synthetic)
    found = {f"{kind}, {a}, {b}": 0.0 for kind in KINDS for a in LIGHTS for b in LIGHTS}
    for kind, own, measured in (("columns", expected.lights_of_columns(), truth.lights_of_columns()),
                                ("pairs", expected.lights_of_pairs(), truth.lights_of_pairs())):
        for name, light in own.items():
            found[f"{kind}, {light}, {measured[name]}"] += 1.0
    scores = truth.details
    differences = scores.get("correlations", {}).get("differences", {})
    for kind, errors, wrong in (
            ("columns", expected.columns, {name: 1.0 - score for name, score in scores["columns"].items()}),
            ("pairs", expected.pairs, {name: 1.0 - score for name, score in scores["pairs"].items()}),
            ("correlations", expected.correlations, differences)):
        found[f"{kind}, bars"] = float(len(errors))
        found[f"{kind}, below bar"] = float(sum(wrong[each.name] <= each.high for each in errors))
        found[f"{kind}, within bars"] = float(sum(each.low <= wrong[each.name] <= each.high for each in errors))
    return found | whole_figures(expected, truth, schema, real, synthetic)


def whole_figures(expected: Forecast, truth: Judgement, schema: tm.Schema, real: Columns,
                  synthetic: Columns) -> dict[str, float]:
    found: dict[str, float] = {}
    true = {measure.name: measure.value for measure in truth.measures}
    for kind, (name, own) in WHOLE.items():
        error = getattr(expected, own)
        if name in true and np.isfinite(error):
            light, measured = (truth.limits[name].light(value) for value in (BARS[kind][1] * error, true[name]))
            found |= {f"{kind}, expected": error, f"{kind}, true": true[name],
                      f"{kind}, right": float(LIGHTS.index(measured) <= LIGHTS.index(light)),
                      f"{kind}, below bar": float(true[name] <= BARS[kind][1] * error)}
    if np.isfinite(expected.group_rows):
        coding = Coding.of(schema.columns, real)
        errors = group_differences(coding, coding.side(real), coding.side(synthetic), expected.group_rows)
        if len(errors):
            found |= {"group rows": expected.group_rows, "group rows, error": float(errors.mean())}
    return found


def page(counts: pd.DataFrame, asked: Asked) -> list[str]:
    counts = counts.assign(label=[f"{line.table}, ε = {line.epsilon:g}" for line in counts.itertuples()],
                           mean=counts["value"] / counts["cells"])
    held, tables = counts.pivot_table("value", "label", "measure", "sum", sort=False), {}
    held.loc["all"] = held.sum()
    for kind in KINDS:
        tables[kind.capitalize()] = markdown(
            ["table", "lights", *(f"measured {light}" for light in LIGHTS), "same", "right", "below the bar",
             "within the bars", *(["correlations below the bar"] if kind == "pairs" else [])],
            [[label, *_line(kind, own.dropna())] for label, own in held.iterrows()])
    text = [f"{mean:,.0f}" if name == "group rows" else f"{mean:.3f}"
            for name, mean in zip(counts["measure"], counts["mean"], strict=True)]
    whole = counts.assign(text=text).pivot(index="label", columns="measure", values="text").loc[held.index[:-1]]
    total = counts.groupby("measure")[["value", "cells"]].sum()
    said = [f"{kind}: the light was right in {_part(total, f'{kind}, right')} releases, and the figure below the upper "
            f"end of its bar in {_part(total, f'{kind}, below bar')}" for kind in WHOLE]
    return worded("lights", releases=len(whole) * asked.seeds, delta=DELTA, margin=MARGINS["column"],
                  tables=sections(tables), limit=LIMITS["groups_mean"].good, said="; ".join(said), whole=across(
                      ["table"], whole, {
                          "groups, expected": "groups, expected", "groups, true": "groups, true",
                          "regressions, expected": "loss of R², expected", "regressions, true": "loss of R², true",
                          "group rows": "rows", "group rows, error": "error of such groups"}))


def _part(total: pd.DataFrame, measure: str) -> str:
    if measure not in total.index:
        return "no"
    return f"{total.loc[measure, 'value']:.0f} of {total.loc[measure, 'cells']:.0f}"


def _line(kind: str, held: "pd.Series[float]") -> list[str]:
    table = np.array([[held.get(f"{kind}, {a}, {b}", 0.0) for b in LIGHTS] for a in LIGHTS])
    total = max(float(table.sum()), 1.0)
    correlations = [] if kind == "columns" else [
        f"{held.get('correlations, below bar', 0.0) / max(held.get('correlations, bars', 0.0), 1.0):.3f}"
        if held.get("correlations, bars", 0.0) else ""]
    return [f"{total:,.0f}", *(f"{value:,.0f}" for value in table.sum(axis=0)), f"{np.trace(table) / total:.3f}",
            f"{np.tril(table).sum() / total:.3f}", f"{held[f'{kind}, below bar'] / total:.3f}",
            f"{held[f'{kind}, within bars'] / total:.3f}", *correlations]


lights = Experiment(
    name="lights", what="lights that are expected beside those that the table gives (half an hour; needs data)",
    inputs=SAMPLES, quick=WITHOUT_DATA, epsilons=(EPSILONS, EPSILONS), page=page,
    cells=lambda asked: calls_of(lights_of, asked, table=asked.inputs, epsilon=asked.epsilons),
    table=lambda lines: means(lines, ["table", "epsilon", "measure"], value="sum", cells="count"),
    formats={"value": ".6g"})
