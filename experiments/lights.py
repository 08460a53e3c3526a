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
from trigmech.evaluation.forecast import forecast
from trigmech.evaluation.judgement import judged
from trigmech.evaluation.verdict import LIGHTS

SEEDS, DELTA, EPSILONS = 2, 1e-6, (0.3, 1.0, 3.0)
# The weights of the causes were set on the tables of `run small`, made-up ones, and the last two of these.
SAMPLES = (Sample("nltcs"), Sample("synmeter_magic"), Sample("adult", 10_000), Sample("synmeter_bean"), Sample("ctg"))
KINDS = ("columns", "pairs")


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
        for kind, errors in (("columns", expected.columns), ("pairs", expected.pairs)):
            wrong = {name: 1.0 - score for name, score in truth.details[kind].items()}
            found[f"{kind}, below bar"] = float(sum(wrong[each.name] <= each.high for each in errors))
            found[f"{kind}, within bars"] = float(sum(each.low <= wrong[each.name] <= each.high for each in errors))
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
    counts = pd.DataFrame(lines).groupby(["table", "epsilon", "measure"], sort=False)["value"].sum().reset_index()
    stem = asked.stem("lights", tuple(samples) == SAMPLES)
    write(stem, formatted(counts, value=".6g"))
    return write_markdown(stem, page(counts, len(cells)))


def page(counts: pd.DataFrame, releases: int) -> Sequence[str]:
    """Return the Markdown: a line for each table and epsilon, and all together."""
    keys = [(table, epsilon) for table in dict.fromkeys(counts["table"])
            for epsilon in dict.fromkeys(counts["epsilon"])]
    text = ["# Lights", "",
            f"Lights that {releases} releases (δ = {DELTA:g}) were expected to have, from the release alone, beside "
            "the lights by the true table. The weights of the causes of errors were set on the tables of "
            "`run small`, on made-up ones, and on releases of the last two tables. A light is by 1.25 times the "
            "expected error, and it is right if the truth is no worse. *Same*: the expected light is the measured "
            "one. *Right*: the measured light is the expected one or better. *Below the bar*: the error of the "
            "shares is at most the upper end of its bar; *within*: it also is at least the lower end.", ""]
    for kind in KINDS:
        rows = []
        for label, own in [*((f"{table}, ε = {epsilon:g}", counts[(counts["table"] == table)
                                                                  & (counts["epsilon"] == epsilon)])
                             for table, epsilon in keys), ("all", counts)]:
            held = own.groupby("measure")["value"].sum()
            rows.append([label, *_line(kind, held)])
        text += [f"## {kind[0].upper()}{kind[1:]}", "", *markdown(
            ["table", "lights", *(f"measured {light}" for light in LIGHTS), "same", "right", "below the bar",
             "within the bars"], rows), ""]
    return text


def _line(kind: str, held: "pd.Series[float]") -> list[str]:
    table = np.array([[held.get(f"{kind}, {a}, {b}", 0.0) for b in LIGHTS] for a in LIGHTS])
    total = max(float(table.sum()), 1.0)
    return [f"{total:,.0f}", *(f"{value:,.0f}" for value in table.sum(axis=0)), f"{np.trace(table) / total:.3f}",
            f"{np.tril(table).sum() / total:.3f}", f"{held[f'{kind}, below bar'] / total:.3f}",
            f"{held[f'{kind}, within bars'] / total:.3f}"]
