"""What is predicted of designs, beside what is measured: where the budget of a table should go.

Every design is released of the same tables; of each, errors are predicted by `Synthesis.error_bars` and `query`, which
see nothing private, and measured against the real table.
"""

from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import trigmech as tm
from experiments.asked import Asked
from experiments.cells import Call, call
from experiments.declare import Experiment
from experiments.frames import markdown, of_kinds, sections, worded
from experiments.protocols.data import load
from trigmech.answering import Answers
from trigmech.evaluation import statistics
from trigmech.planning.shares import Shares

Array = NDArray[np.float64]

SEED = 2014
# Delta of each table.
TABLES = {"nist_demographic": 1e-5, "nltcs": 1e-9, "synmeter_wine": 1e-5}
DESIGNS: dict[str, Any] = {
    "default": tm.TableMechanism(),
    "pairs alone": tm.TableMechanism(workload=tm.workload.Marginals(2)),
    "more of three": tm.TableMechanism(workload=tm.workload.Marginals(3)),
    "all once": tm.TableMechanism(shares=Shares(0.2, 0.03, 0.15, 1, selected=0.0)),
    "the same, selected": tm.TableMechanism(shares=Shares(0.2, 0.03, 0.15, 1)),
    "a larger look": tm.TableMechanism(shares=Shares(0.6, 0.03, 0.15, 1)),
    "smooth": tm.MomentMechanism(),
}
PAIRS, TRIPLES, CELLS, QUERIES = 30, 30, {1: 16, 2: 8, 3: 4}, 200
# The mean size of a normal error over its deviation.
MEAN_SIZE = np.sqrt(2.0 / np.pi)


def design_errors(dataset: str, design: str, epsilon: float, repetition: int) -> dict[str, Any]:
    """Return, of one release by a design, the "predicted" and the "measured" error of each kind of statistic.

    Of tables of one, two and three columns it is the mean total variation; of kernels of pairs of numbers the mean size
    of the errors. A prediction that the design does not make is left out.
    """
    table, schema = load(dataset)
    rng = np.random.default_rng([repetition, *dataset.encode()])
    made = tm.synthesize(table, schema, tm.Budget(epsilon, TABLES[dataset]), DESIGNS[design], rng)
    points, found = schema.to_cube(table), {}
    real, synthetic, chosen = schema.decode(points), made.columns(rng=rng), np.random.default_rng(SEED)
    for size, count in ((1, schema.d), (2, PAIRS), (3, TRIPLES)):
        sets = list(combinations(schema.names, size))
        statistics_asked = [statistics.marginal(schema, sets[i], CELLS[size])
                            for i in chosen.permutation(len(sets))[:count]]
        found[f"tables of {size}"] = kind = {"measured": float(np.mean([
            np.abs(statistic(synthetic) - statistic(real)).sum() / 2.0 for statistic in statistics_asked]))}
        if isinstance(DESIGNS[design], tm.TableMechanism):
            kind["predicted"] = float(np.mean([MEAN_SIZE / 2.0 * deviation_of(made.error_bars(statistic)).sum()
                                               for statistic in statistics_asked]))
    numbers = list(schema.domain.numbers)
    if len(numbers) > 1:
        family = tm.workload.PairKernels(len(numbers), seed=SEED, n_queries=QUERIES)
        answers = made.query(family)
        errors = np.abs(answers.values - family.answers(points[:, numbers]))
        found["kernels"] = {"measured": float(errors.mean()),
                            "predicted": float(MEAN_SIZE * deviation_of(answers).mean())}
    return found


def deviation_of(answers: Answers) -> Array:
    """Return the predicted standard deviations of answers that have error bars."""
    assert answers.error is not None
    return answers.error.deviation


def cells(asked: Asked) -> dict[Call, dict[str, Any]]:
    return {call(design_errors, each.source, design, epsilon, repetition): {
                "dataset": each.source, "epsilon": epsilon, "design": design}
            for each in asked.inputs for epsilon in asked.epsilons for design in DESIGNS
            for repetition in range(asked.seeds)}


def table(lines: pd.DataFrame) -> pd.DataFrame:
    found = lines.groupby(["dataset", "epsilon", "design", "kind"], sort=False)[["predicted", "measured"]].mean()
    return found.reset_index().sort_values(["dataset", "epsilon", "kind"], kind="stable")


def page(lines: pd.DataFrame, asked: Asked) -> list[str]:
    lines, tables = lines.assign(predicted=pd.to_numeric(lines["predicted"], errors="coerce")), {}
    costs: dict[str, list[float]] = {}
    for (dataset, epsilon), group in lines.groupby(["dataset", "epsilon"], sort=False):
        kinds = list(dict.fromkeys(group["kind"]))
        of = {(row["design"], row["kind"]): ("–" if pd.isna(row["predicted"]) else f"{row['predicted']:.4f}")
              + f", {row['measured']:.4f}" for row in group.to_dict("records")}
        tables[f"{dataset}, ε = {epsilon:g}"] = markdown(["design", *kinds], [
            [design, *(of.get((design, kind), "") for kind in kinds)] for design in DESIGNS])
        for kind, own in group.dropna().groupby("kind", sort=False):
            chosen = own.loc[own["predicted"].idxmin(), "measured"]
            costs.setdefault(str(kind), []).append(float(chosen / own["measured"].min()))
    return worded("designs", seeds=asked.seeds, tables=sections(tables), costs="; ".join(
        f"{kind} {np.mean(each):.2f}, at worst {max(each):.2f}" for kind, each in costs.items()))


designs = Experiment(
    name="designs", what="where a table's budget should go: predicted beside measured errors (an hour)",
    inputs=list(TABLES), quick=["synmeter_wine"], seeds=(1, 2), epsilons=((1.0,), (1.0, 10.0)), cells=cells,
    lines=of_kinds, table=table, page=page,
    formats={"epsilon": "g", "predicted": ".4g", "measured": ".4g"})
