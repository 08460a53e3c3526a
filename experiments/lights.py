"""The lights that a release is expected to have, beside those measured by its table."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

import trigmech as tm
from experiments.asked import Asked, LeftOut
from experiments.cells import code_of, key_of, run_cells, write_markdown
from experiments.datasets import DatasetMissing
from experiments.frames import formatted, markdown, write
from experiments.small import WITHOUT_DATA, Sample
from trigmech.evaluation.forecast import BARS, MARGINS, Forecast, forecast
from trigmech.evaluation.judgement import Judgement, judged
from trigmech.evaluation.measures import group_differences
from trigmech.evaluation.sides import Coding
from trigmech.evaluation.verdict import LIGHTS, LIMITS

SEEDS, DELTA, EPSILONS = 1, 1e-6, (0.3, 1.0, 3.0)
# The weights of pairs, correlations, groups and regressions were set on other tables; those of columns on releases of
# synmeter_bean and ctg too.
SAMPLES = (Sample("nltcs"), Sample("synmeter_magic"), Sample("adult", 10_000), Sample("synmeter_bean"), Sample("ctg"),
           Sample("aim_titanic"), Sample("aim_salary", 20_000), Sample("sklearn diabetes"))
KINDS = ("columns", "pairs")
# Figures of a whole release: its name, the measure, and the kind of its bar.
WHOLE = {"groups": ("groups_mean", "group_error"), "regressions": ("regression_loss", "regression_loss")}


@dataclass(frozen=True)
class LightsCell:
    """One release, and how its lights agree with the truth."""

    sample: Sample
    epsilon: float
    seed: int

    def key(self) -> str:
        """Return the name of the file with its scores."""
        return key_of(self, "lights", code_of("trigmech") + code_of("experiments.lights"))

    def compute(self) -> dict[str, float]:
        """Return counts of expected and measured lights, and how many errors lie within their bars."""
        table, schema = self.sample.load(self.seed)
        made = tm.synthesize(table, schema, tm.Budget(self.epsilon, DELTA), rng=np.random.default_rng(self.seed))
        expected = forecast(made.release, schema, made.distribution.points)
        truth = judged(schema, schema.decode(schema.to_cube(table)),
                       made.columns(len(table), np.random.default_rng([self.seed, 1])))
        found = {f"{kind}, {a}, {b}": 0.0 for kind in KINDS for a in LIGHTS for b in LIGHTS}
        for kind, own, real in (("columns", expected.lights_of_columns(), truth.lights_of_columns()),
                                ("pairs", expected.lights_of_pairs(), truth.lights_of_pairs())):
            for name, light in own.items():
                found[f"{kind}, {light}, {real[name]}"] += 1.0
        scores = truth.details
        differences = scores.get("correlations", {}).get("differences", {})
        for kind, errors, wrong in (
                ("columns", expected.columns, {name: 1.0 - score for name, score in scores["columns"].items()}),
                ("pairs", expected.pairs, {name: 1.0 - score for name, score in scores["pairs"].items()}),
                ("correlations", expected.correlations, differences)):
            found[f"{kind}, bars"] = float(len(errors))
            found[f"{kind}, below bar"] = float(sum(wrong[each.name] <= each.high for each in errors))
            found[f"{kind}, within bars"] = float(sum(each.low <= wrong[each.name] <= each.high for each in errors))
        return found | self._whole(expected, truth, table, schema, made)

    def _whole(self, expected: Forecast, truth: Judgement, table: pd.DataFrame, schema: tm.Schema,
               made: tm.Synthesis) -> dict[str, float]:
        """Return expected and true figures of the whole release."""
        found: dict[str, float] = {}
        true = {measure.name: measure.value for measure in truth.measures}
        for kind, (name, own) in WHOLE.items():
            error = getattr(expected, own)
            if name in true and np.isfinite(error):
                light, real = (truth.limits[name].light(value) for value in (BARS[kind][1] * error, true[name]))
                found |= {f"{kind}, expected": error, f"{kind}, true": true[name],
                          f"{kind}, right": float(LIGHTS.index(real) <= LIGHTS.index(light)),
                          f"{kind}, below bar": float(true[name] <= BARS[kind][1] * error)}
        if np.isfinite(expected.group_rows):
            rows = schema.decode(schema.to_cube(table))
            coding = Coding.of(schema.columns, rows)
            errors = group_differences(coding, coding.side(rows), coding.side(
                made.columns(len(table), np.random.default_rng([self.seed, 1]))), expected.group_rows)
            if len(errors):
                found |= {"group rows": expected.group_rows, "group rows, error": float(errors.mean())}
        return found


def lights(asked: Asked) -> Path:
    """Write results/lights.csv and .md, and return the page.

    Quick: a seed of the sets that need no download.
    """
    wanted, seeds = (WITHOUT_DATA, 1) if asked.quick else (SAMPLES, asked.seeds or SEEDS)
    samples = []
    for sample in [Sample(name) for name in asked.sets] if asked.sets else wanted:
        try:
            sample.load(0)
            samples.append(sample)
        except DatasetMissing as missing:
            print(f"left out: {missing}")
    if not samples:
        raise LeftOut("it needs a table of the protocols")
    cells = [LightsCell(sample, epsilon, seed) for sample in samples for epsilon in asked.epsilons or EPSILONS
             for seed in range(seeds)]
    lines = [{"table": cell.sample.name, "epsilon": cell.epsilon, "measure": measure, "value": value}
             for cell, result in run_cells(cells, asked.jobs, "lights") for measure, value in result.items()]
    counts = pd.DataFrame(lines).groupby(["table", "epsilon", "measure"], sort=False)["value"].agg(
        value="sum", cells="count").reset_index()
    stem = asked.stem("lights", tuple(samples) == SAMPLES)
    write(stem, formatted(counts, value=".6g"))
    return write_markdown(stem, page(counts, len(cells)))


def page(counts: pd.DataFrame, releases: int) -> Sequence[str]:
    """Return the Markdown: a line for each table and epsilon, and all together."""
    keys = [(table, epsilon) for table in dict.fromkeys(counts["table"])
            for epsilon in dict.fromkeys(counts["epsilon"])]
    text = ["# Lights", "",
            f"Lights that {releases} releases (δ = {DELTA:g}) were expected to have, from the release alone, beside "
            "the lights by the true table. The weights of the causes of errors were set on "
            "other tables: of the protocols wdbc, pks, csn, nist_family, nist_demographic, synmeter_wine, "
            "synmeter_obesity and synmeter_insurance, and made-up ones; those of columns on bean and ctg, too. A "
            f"column's light is by {MARGINS['column']:g} times the expected error, a pair's by the upper end of its "
            "bar. A light is right if the truth is no worse. *Same*: the expected light is the measured one. *Below "
            "the bar*: the error is at most the upper end of its bar; *within*: it also is at least the lower end. "
            "Pairs have bars for their tables and, if both columns are numbers, for their correlations.", ""]
    for kind in KINDS:
        rows = []
        for label, own in [*((f"{table}, ε = {epsilon:g}", counts[(counts["table"] == table)
                                                                  & (counts["epsilon"] == epsilon)])
                             for table, epsilon in keys), ("all", counts)]:
            held = own.groupby("measure")["value"].sum()
            rows.append([label, *_line(kind, held)])
        text += [f"## {kind[0].upper()}{kind[1:]}", "", *markdown(
            ["table", "lights", *(f"measured {light}" for light in LIGHTS), "same", "right", "below the bar",
             "within the bars", *(["correlations below the bar"] if kind == "pairs" else [])], rows), ""]
    return text + _whole_page(counts, keys)


def _whole_page(counts: pd.DataFrame, keys: Sequence[tuple[str, float]]) -> list[str]:
    """Return the part about figures of whole releases: means over the seeds of each table and epsilon."""
    held = counts.set_index(["table", "epsilon", "measure"])
    means = held["value"] / held["cells"]
    rows = [[f"{table}, ε = {epsilon:g}", *(
        f"{means.get((table, epsilon, name), np.nan):{form}}".replace("nan", "") for name, form in (
            ("groups, expected", ".3f"), ("groups, true", ".3f"), ("regressions, expected", ".3f"),
            ("regressions, true", ".3f"), ("group rows", ",.0f"), ("group rows, error", ".3f")))]
        for table, epsilon in keys]
    total = counts.groupby("measure")[["value", "cells"]].sum()
    said = [f"{kind}: the light was right in {_part(total, f'{kind}, right')} releases, and the figure below the upper "
            f"end of its bar in {_part(total, f'{kind}, below bar')}" for kind in WHOLE]
    return ["## Groups and regressions", "",
            "Figures of whole releases, expected and true: the mean error of means over groups of 100 rows and more, "
            "in standard deviations, and the mean loss of R² of regressions. *Rows*: means over groups of so many rows "
            f"were expected to be off by {LIMITS['groups_mean'].good:g} standard deviations at most, on average; then "
            "their true error. Empty: no group is expected to be large enough, or the table has none of that size. "
            f"{'; '.join(said)}.", "", *markdown(
                ["table", "groups, expected", "groups, true", "loss of R², expected", "loss of R², true", "rows",
                 "error of such groups"], rows), ""]


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
