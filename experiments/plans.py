"""The default's fractions of the budget: predicted errors beside measured ones, and the best of a grid of plans."""

import numpy as np
import pandas as pd

import trigmech as tm
from experiments.asked import Asked
from experiments.cells import Call, call
from experiments.declare import Experiment
from experiments.frames import geometric, markdown, of_measures, worded
from experiments.protocols.data import Sample
from experiments.small import scores
from trigmech.functions.partition import columns_of
from trigmech.planning.design import Regime
from trigmech.planning.shares import Shares, planned_shares, predicted_errors

GAUSSIAN, PURE = 1e-6, 0.0
CHOSEN = "chosen"
# Look, closer, products, scores, selected.
GRIDS = {GAUSSIAN: {"look .95": Shares(0.95, 0.03, 0.9, 0, 0.0), "look .7": Shares(0.7, 0.03, 0.9, 0, 0.0),
                    "look .7, tables": Shares(0.7, 0.03, 0.3, 0, 0.3),
                    "look .4, tables": Shares(0.4, 0.03, 0.5, 0, 0.3),
                    "look .25, tables": Shares(0.25, 0.03, 0.3, 0, 0.6),
                    "look .15, ranks": Shares(0.15, 0.03, 0.15, 3)},
         PURE: {f"look {look:g}".replace("0.", "."): Shares(look, min(0.1, 0.5 * (1.0 - look)), 0.15)
                for look in (0.2, 0.4, 0.7, 0.95)}}
WITHOUT_DATA = (*(Sample(f"factors_{d}", rows) for d in (5, 15) for rows in (200, 2_000, 20_000)),
                Sample("factors_40", 200), Sample("factors_40", 2_000))
SAMPLES = (*WITHOUT_DATA, *(Sample("adult", rows) for rows in (200, 2_000, 20_000)),
           Sample("synmeter_wine", 200), Sample("synmeter_wine", 2_000))
# Pure noise is measured on fifteen columns alone.
OF_PURE = ("factors_15", "adult")


def errors_of(source: str, rows: int, epsilon: float, delta: float, plan: str, seed: int) -> dict[str, float]:
    """Return the errors of columns, pairs and ranks by one plan; for the chosen one with the prediction."""
    table, schema = Sample(source, rows).load(seed)
    budget, columns = tm.Budget(epsilon, delta), columns_of(schema.domain)
    # All plans share the noise's seed, and each has its own noise, because sizes differ.
    made = tm.synthesize(table, schema, budget, tm.TableMechanism(shares=GRIDS[delta].get(plan)),
                         np.random.default_rng(seed)).sample(len(table), rng=np.random.default_rng([seed, 1]))
    found = {name: value for name, value in scores(schema, table, made).items()
             if name in ("columns", "pairs", "ranks")}
    if plan == CHOSEN and delta:
        strength = Regime.of(budget).strength
        shares = planned_shares(len(table), columns, strength, True)
        predicted = predicted_errors(columns, len(table) * strength, shares)
        found |= {"predicted columns": predicted[0], "predicted pairs": predicted[1], "look": shares.look}
    return found


def cells(asked: Asked) -> dict[Call, dict[str, object]]:
    return {call(errors_of, each.source, each.rows, epsilon, delta, plan, seed):
            {"table": each.name, "epsilon": epsilon, "delta": delta, "plan": plan, "seed": seed}
            for delta in GRIDS for each in asked.inputs if delta or each.source in OF_PURE
            for epsilon in asked.epsilons for plan in (CHOSEN, *GRIDS[delta]) for seed in range(asked.seeds)}


def compared(lines: pd.DataFrame) -> tuple[dict[str, float], str]:
    """Return the chosen plan's errors of one table and budget, and those of the best plan in pairs, with its name.

    The best plan at one seed is the best in the mean of the others, so that it does not profit from its own noise.
    """
    wide = lines.pivot_table("value", "seed", ["measure", "plan"], sort=False)
    means = wide.mean()
    grid = wide["pairs"].drop(columns=CHOSEN)
    best = [grid.drop(index=seed).mean().idxmin() if len(grid) > 1 else grid.loc[seed].idxmin() for seed in grid.index]
    found = {measure: float(means[measure, CHOSEN]) for measure in dict.fromkeys(lines["measure"])}
    found["best pairs"] = float(np.mean([grid.loc[seed, plan] for seed, plan in zip(grid.index, best, strict=True)]))
    if "ranks" in found:
        found["best ranks"] = float(np.mean([wide.loc[seed, ("ranks", plan)]
                                             for seed, plan in zip(grid.index, best, strict=True)]))
    return {**found, "ratio": found["pairs"] / found["best pairs"]}, str(grid.mean().idxmin())


def page(lines: pd.DataFrame, asked: Asked) -> list[str]:
    parts = dict[str, str | list[str]]()
    for delta, name in ((GAUSSIAN, "gaussian"), (PURE, "pure")):
        found = [(table, epsilon, *compared(own)) for (table, epsilon), own in
                 lines[lines["delta"] == delta].groupby(["table", "epsilon"], sort=False)]
        heads = ("look", "predicted columns", "columns", "predicted pairs", "pairs", "best pairs", "ratio", "ranks",
                 "best ranks")[0 if delta else 2 :]
        heads = tuple(head for head in heads if delta or head != "predicted pairs")
        parts[name] = markdown(["table", "ε", *heads, "best plan"], [
            [table, f"{epsilon:g}", *(f"{each[head]:.{2 if head in ('look', 'ratio') else 3}f}" if head in each else ""
                                      for head in heads), best] for table, epsilon, each, best in found])
        ratios = [each["ratio"] for *_, each, _ in found]
        parts[f"mean_{name}"] = f"{geometric(ratios):.2f}"
        parts[f"above_{name}"] = f"{sum(ratio > 1.1 for ratio in ratios)} of {len(ratios)}"
    return worded("plans", seeds=asked.seeds, delta=GAUSSIAN, **parts)


plans = Experiment(
    name="plans", what="the plan's predicted errors beside measured ones, and the best of a grid of plans (half an "
    "hour; a part needs no data)", inputs=SAMPLES, quick=WITHOUT_DATA[:1], seeds=(2, 2),
    epsilons=((1.0,), (0.3, 1.0, 10.0)), cells=cells, lines=of_measures, page=page, formats={"value": ".4g"})
