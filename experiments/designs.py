"""What is predicted of shares of the budget, beside what is measured: where the budget of a table should go.

Predictions are made of public numbers before anything is measured, as the default makes them where rows are few.
"""

from typing import Any

import numpy as np
import pandas as pd

import trigmech as tm
from experiments.asked import Asked
from experiments.cells import Call, call
from experiments.declare import Experiment
from experiments.frames import markdown, of_kinds, sections, worded
from experiments.protocols.data import Sample
from experiments.small import ALONE, CUTS, DEFAULT, DELTA, RELEASED, scores
from trigmech.functions.partition import columns_of
from trigmech.planning.design import Regime
from trigmech.planning.shares import Shares, planned_shares, predicted_errors

SAMPLES = (Sample("sklearn wine", 150), Sample("adult", 300), Sample("sklearn diabetes"), Sample("crm", 1000),
           Sample("synmeter_insurance"), Sample("nist_demographic", 10_000), Sample("csn"))
DESIGNS: dict[str, Shares | None] = {
    DEFAULT: None, RELEASED: ALONE, "much for columns": Shares(0.85, 0.03, 0.9, 0, 0.0),
    "half for columns": Shares(0.5, 0.03, 0.9, 0, 0.0), "tables": Shares(0.3, 0.03, 0.3, 0)}


def design_errors(source: str, rows: int, design: str, epsilon: float, seed: int) -> dict[str, Any]:
    """Return, of one release by a design, the "predicted" and the "measured" error of columns and of pairs.

    The prediction for pairs is left out if tables tell their dependence, too.
    """
    table, schema = Sample(source, rows).load(seed)
    budget, columns = tm.Budget(epsilon, DELTA), columns_of(schema.domain)
    strength = Regime.of(budget).strength
    shares = DESIGNS[design] or planned_shares(len(table), columns, strength, True)
    made = tm.synthesize(table, schema, budget, tm.TableMechanism(shares=DESIGNS[design]), np.random.default_rng(seed))
    found = scores(schema, table, made.sample(len(table), rng=np.random.default_rng([seed, 1])))
    predicted = dict(zip(("columns", "pairs"), predicted_errors(columns, len(table) * strength, shares), strict=True))
    if shares.scores or shares.selected:
        del predicted["pairs"]
    return {kind: {"predicted": predicted.get(kind), "measured": found[kind]} for kind in ("columns", "pairs")}


def cells(asked: Asked) -> dict[Call, dict[str, Any]]:
    return {call(design_errors, each.source, each.rows, design, epsilon, seed): {
                "dataset": each.name, "epsilon": epsilon, "design": design}
            for each in asked.inputs for epsilon in asked.epsilons for design in DESIGNS for seed in range(asked.seeds)}


def table(lines: pd.DataFrame) -> pd.DataFrame:
    numbers = lines.astype({"predicted": float})
    return numbers.groupby(["dataset", "epsilon", "design", "kind"], sort=False)[["predicted", "measured"]].mean(
        ).reset_index()


def page(lines: pd.DataFrame, asked: Asked) -> list[str]:
    tables, costs = {}, []
    for name, group in lines.assign(predicted=pd.to_numeric(lines["predicted"], errors="coerce")).groupby(
            "dataset", sort=False):
        of = {(row["epsilon"], row["design"], row["kind"]): ("–" if pd.isna(row["predicted"])
              else f"{row['predicted']:.3f}") + f", {row['measured']:.3f}" for row in group.to_dict("records")}
        heads = [(epsilon, kind) for epsilon in dict.fromkeys(group["epsilon"]) for kind in ("columns", "pairs")]
        tables[str(name)] = markdown(["design", *(f"{kind}, ε = {epsilon:g}" for epsilon, kind in heads)], [
            [design, *(of.get((epsilon, design, kind), "") for epsilon, kind in heads)] for design in DESIGNS])
        wide = group[group["kind"] == "pairs"].pivot_table("measured", "epsilon", "design")
        costs += list(wide[DEFAULT] / wide.min(axis=1))
    return worded("designs", seeds=asked.seeds, delta=DELTA, cuts=CUTS, tables=sections(tables),
                  mean=f"{np.mean(costs):.2f}", worst=f"{max(costs):.2f}", near=int(np.sum(np.array(costs) <= 1.1)),
                  count=len(costs))


designs = Experiment(
    name="designs", what="where a table's budget should go: predicted beside measured errors (half an hour)",
    inputs=SAMPLES, quick=SAMPLES[:1], seeds=(1, 2), epsilons=((1.0,), (0.1, 1.0, 10.0, 100.0)), cells=cells,
    lines=of_kinds, table=table, page=page, formats={"epsilon": "g", "predicted": ".4g", "measured": ".4g"})
