"""Errors against epsilon, for several sizes of the table."""

from pathlib import Path

import pandas as pd

from experiments.asked import Asked
from experiments.cells import write_markdown
from experiments.frames import SIGMAS, formatted, geometric, markdown, measured, shown, write
from experiments.runs import BEST, release

EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0)
DELTAS = (0.0, 1e-3)
PERCENTS = (10, 30, 100)
WORSE = 1.05  # more budget is said to have done harm from here
EXACT = 1e-12  # whatever is answered exactly counts as nearly so


def curves(asked: Asked) -> Path:
    """Write results/curves.csv and .md: medians over the repetitions of the worst errors of W1, W2 and W3.

    Of several widths the geometric mean is taken in each repetition. Tables of 10 and 30 % are the first rows in a
    fixed random order, scaled as the whole table is, and errors are against their own answers.
    Quick: 2 repetitions, 500 queries of W1 and three epsilons instead of 3, 2000 and five.
    """
    repetitions, queries, epsilons = (2, 500, EPSILONS[::2]) if asked.quick else (3, 2_000, EPSILONS)
    cells = {release(name, BEST, epsilon=epsilon, delta=delta, repetition=r, n_queries=queries, percent=percent): {
                 "dataset": name, "percent": percent, "epsilon": epsilon, "delta": delta, "repetition": r}
             for name in sorted(asked.names) for percent in PERCENTS for epsilon in epsilons
             for delta in DELTAS for r in range(repetitions)}
    lines = measured(cells, asked, "curves")
    keys = ["dataset", "percent", "workload", "epsilon", "delta"]
    worst = lines[lines["what"] == "absolute"].assign(value=lambda those: those["value"].clip(lower=EXACT))
    of_widths = worst.groupby([*keys, "repetition"], sort=False)["value"].agg(geometric)
    found = of_widths.groupby(keys, sort=False).agg(["median", "min", "max"]).reset_index().rename(
        columns={"min": "least", "max": "most"})
    sizes = lines[lines["what"] == "rows"].groupby(["dataset", "percent"])["value"].first().rename("rows")
    found = found.join(sizes.astype(int), on=["dataset", "percent"]).assign(mechanism=BEST)
    found = found.sort_values(["dataset", "percent", "workload"], kind="stable")
    harm = [f"- {name}, {percent} %, {workload.upper()}: {more} has {ratio:.2f} times the error of {less}"
            for (name, percent, workload), own in found.groupby(["dataset", "percent", "workload"])
            for less, more, ratio in worse(own)]
    stem = asked.stem_of_numbers("curves")
    written = write(stem, formatted(found, epsilon="g", delta="g", median=".6g", least=".6g", most=".6g")[
        ["dataset", "percent", "rows", "workload", "mechanism", "epsilon", "delta", "median", "least", "most"]])
    return write_markdown(stem, [*_tables(written, repetitions, queries),
                                 "## Where more budget did harm", "", *(harm or ["Nowhere."])])


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


def _tables(lines: pd.DataFrame, repetitions: int, queries: int) -> list[str]:
    used = " and ".join(f"{name} at δ = {delta:g}" for delta, name in sorted(set(zip(
        lines["delta"], lines["mechanism"], strict=True))))
    text = ["# Errors against epsilon", "",
            f"{used}. Medians over {repetitions} repetitions of the worst error over {queries} queries of W1 (and "
            "over W2 and W3), of several σ the geometric mean. Tables of 10 and 30 % are the first rows in a fixed "
            "random order; errors are against their own answers.", ""]
    for workload in SIGMAS:
        table = lines[lines["workload"] == workload].pivot(
            index=["dataset", "percent", "rows", "delta"], columns="epsilon", values="median")
        rows = [[name, f"{percent} %", size, f"{delta:g}", *map(shown, values)]
                for (name, percent, size, delta), values in zip(table.index, table.to_numpy(), strict=True)]
        text += [f"## {workload.upper()}", "", *markdown(
            ["data", "part", "rows", "δ", *(f"ε = {epsilon:g}" for epsilon in table.columns)], rows), ""]
    return text
