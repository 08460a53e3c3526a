"""A target column: how well models that learn from a release predict it for real rows, with and without being asked."""

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
from experiments.protocols.data import find
from experiments.protocols.scores import prediction, usefulness

SEEDS, DELTA = 10, 1e-5
EPSILONS = (1.0, 3.0, 10.0)
DEFAULT, TARGET, MOMENTS, REAL = "default", "with its target", "MomentMechanism", "real"
METHODS = (DEFAULT, TARGET, MOMENTS)
# Rows that are drawn of larger sets, or all; real rows that no release has seen are predicted.
SAMPLES: tuple[tuple[str, int], ...] = (
    ("synmeter_insurance", 0), ("synmeter_obesity", 0), ("synmeter_wine", 0), ("adult", 1_000), ("adult", 5_000),
    ("adult", 0))
QUICK = SAMPLES[:1]


@dataclass(frozen=True)
class TargetCell:
    """One release, or the real rows, and how well models that learned from it predict the last column."""

    source: str
    rows: int
    method: str
    epsilon: float
    seed: int

    def key(self) -> str:
        """Return the name of the file with the scores."""
        return key_of(self, "targets", code_of("experiments.targets"))

    def compute(self) -> dict[str, float]:
        """Return the scores."""
        found = find(self.source)
        table, schema = found.load()
        if found.test is None:
            raise LeftOut(f"{self.source} has no test rows")
        if self.rows:
            table = table.sample(self.rows, random_state=self.seed).reset_index(drop=True)
        made = table
        if self.method != REAL:
            target = schema.names[-1] if self.method == TARGET else None
            mechanism = tm.MomentMechanism() if self.method == MOMENTS else tm.TableMechanism(target=target)
            release = tm.synthesize(table, schema, tm.Budget(self.epsilon, DELTA), mechanism,
                                    np.random.default_rng(self.seed))
            made = release.sample(len(table), rng=np.random.default_rng([self.seed, 1]))
        return scores(schema, made, found.test())


def scores(schema: tm.Schema, made: pd.DataFrame, test: pd.DataFrame) -> dict[str, float]:
    """Return the AUC of boosting for a last column of two labels, else boosting's and a linear model's F1 or R2."""
    if len(schema.columns[-1].categories or ()) == 2:
        return {"AUC of boosting": prediction(schema, made, test)["auc"]}
    words = {"f1": "F1", "r2": "R²"}
    return {f"{words[name[:2]]} of {'boosting' if name.endswith('boosting') else 'a linear model'}": value
            for name, value in usefulness(schema, made, test).items() if not name.endswith("forest")}


def targets(asked: Asked) -> Path:
    """Write results/targets.csv and .md, and return the page.

    Quick: two seeds of one set.
    """
    wanted, seeds = (QUICK, 2) if asked.quick else (SAMPLES, asked.seeds or SEEDS)
    if asked.sets:
        wanted = tuple(each for each in SAMPLES if each[0] in asked.sets)
    samples = []
    for source, rows in wanted:
        try:
            find(source).load()
            samples.append((source, rows))
        except DatasetMissing as missing:
            print(f"left out: {missing}")
    if not samples:
        raise LeftOut("it needs a table of the protocols")
    cells = [TargetCell(source, rows, method, epsilon, seed) for source, rows in samples for seed in range(seeds)
             for method, epsilons in [(REAL, (0.0,)), *((name, asked.epsilons or EPSILONS) for name in METHODS)]
             for epsilon in epsilons]
    lines = [{"table": cell.source + f", {cell.rows:,} rows" * bool(cell.rows), "method": cell.method,
              "epsilon": cell.epsilon, "measure": measure, "value": value}
             for cell, result in run_cells(cells, asked.jobs, "targets") for measure, value in result.items()]
    means = pd.DataFrame(lines).groupby(["table", "measure", "method", "epsilon"], sort=False)["value"].agg(
        ["mean", "sem"]).reset_index()
    stem = asked.stem("targets", len(samples) == len(SAMPLES))
    write(stem, formatted(means, mean=".4g", sem=".2g"))
    return write_markdown(stem, page(means, seeds))


def page(means: pd.DataFrame, seeds: int) -> Sequence[str]:
    """Return the Markdown: a line for each table and measure, with the standard errors of the means."""
    own = means.set_index(["table", "measure", "method", "epsilon"])
    epsilons = [epsilon for epsilon in dict.fromkeys(means["epsilon"]) if epsilon]

    def shown(table: str, measure: str, method: str, epsilon: float) -> str:
        mean, error = own.loc[(table, measure, method, epsilon)]
        return f"{mean:.3f} ± {error:.3f}" if error == error else f"{mean:.3f}"

    rows = [[table, measure, *(shown(table, measure, method, epsilon) for epsilon in epsilons for method in METHODS),
             f"{own.loc[(table, measure, REAL, 0.0), 'mean']:.3f}"]
            for table, measure in dict.fromkeys(zip(means["table"], means["measure"], strict=True))]
    header = ["table", "measure", *(f"{method}, ε = {epsilon:g}" for epsilon in epsilons for method in METHODS), REAL]
    return ["# Predictions of a target column", "",
            "Models learn from a release and predict the last column of real rows that the release has not seen. Means "
            f"of {seeds} releases at δ = {DELTA:g} with their standard errors; samples of Adult are drawn anew for "
            f"each. *{TARGET}*: `TableMechanism(target=...)`. *{REAL}*: models that learn from the real rows, which is "
            "not private.", "", *markdown(header, rows), ""]
