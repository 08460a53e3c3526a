"""Errors against epsilon, for several sizes of the table."""

from typing import Any

import pandas as pd

from experiments.asked import Asked
from experiments.cells import Call
from experiments.declare import Experiment
from experiments.frames import SIGMAS, across, geometric, of_workloads, sections, shown, worded
from experiments.runs import BEST, release

EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0)
KEYS = ["dataset", "percent", "workload", "epsilon", "delta"]
DELTAS = (0.0, 1e-3)
PERCENTS = (10, 30, 100)
WORSE = 1.05  # more budget is said to have done harm from here
EXACT = 1e-12  # whatever is answered exactly counts as nearly so


def cells(asked: Asked) -> dict[Call, dict[str, Any]]:
    return {release(name, BEST, epsilon=epsilon, delta=delta, repetition=r, n_queries=asked.size,
                    percent=percent): {
                "dataset": name, "percent": percent, "epsilon": epsilon, "delta": delta, "repetition": r}
            for name in sorted(asked.names) for percent in PERCENTS for epsilon in asked.epsilons
            for delta in DELTAS for r in range(asked.seeds)}


def table(lines: pd.DataFrame) -> pd.DataFrame:
    worst = lines[lines["what"] == "absolute"].assign(value=lambda those: those["value"].clip(lower=EXACT))
    of_widths = worst.groupby([*KEYS, "repetition"], sort=False)["value"].agg(geometric)
    found = of_widths.groupby(KEYS, sort=False).agg(median="median", least="min", most="max").reset_index()
    sizes = lines[lines["what"] == "rows"].groupby(["dataset", "percent"])["value"].first().rename("rows")
    found = found.join(sizes.astype(int), on=["dataset", "percent"]).assign(mechanism=BEST)
    return found.sort_values(["dataset", "percent", "workload"], kind="stable")[
        ["dataset", "percent", "rows", "workload", "mechanism", "epsilon", "delta", "median", "least", "most"]]


def worse(curve: pd.DataFrame) -> list[tuple[str, str, float]]:
    """Return each budget whose error is above 1.05 times that of a smaller one: the best smaller one, it, the ratio."""
    found = []
    for more in curve.itertuples():
        smaller = curve[(curve["epsilon"] <= more.epsilon) & (curve["delta"] <= more.delta)
                        & (curve.index != more.Index)]
        if len(smaller) and more.median > WORSE * smaller["median"].min():
            less = smaller.loc[smaller["median"].idxmin()]
            found.append((f"({less['epsilon']:g}, {less['delta']:g})", f"({more.epsilon:g}, {more.delta:g})",
                          more.median / less["median"]))
    return found


def page(lines: pd.DataFrame, asked: Asked) -> list[str]:
    tables = {}
    for workload in SIGMAS:
        wide = lines[lines["workload"] == workload].pivot(
            index=["dataset", "percent", "rows", "delta"], columns="epsilon", values="median")
        wide.index = pd.Index([(name, f"{percent} %", size, f"{delta:g}") for name, percent, size, delta in wide.index])
        tables[workload.upper()] = across(["data", "part", "rows", "δ"], wide, {e: f"ε = {e:g}" for e in wide}, shown)
    harm = [f"- {name}, {percent} %, {workload.upper()}: {more} has {ratio:.2f} times the error of {less}"
            for (name, percent, workload), own in lines.groupby(["dataset", "percent", "workload"])
            for less, more, ratio in worse(own)]
    return worded("curves", seeds=asked.seeds, size=asked.size, tables=sections(tables), harm=harm or "Nowhere.",
                  used=" and ".join(f"{name} at δ = {delta:g}" for delta, name in sorted(set(zip(
                      lines["delta"], lines["mechanism"], strict=True)))))


curves = Experiment(
    name="curves", what="errors against epsilon, for three sizes of each table (an hour)", numbers=True,
    seeds=(2, 3), size=(500, 2_000), epsilons=(EPSILONS[::2], EPSILONS), cells=cells,
    lines=of_workloads, table=table, page=page,
    formats={"epsilon": "g", "delta": "g", "median": ".6g", "least": ".6g", "most": ".6g"})
