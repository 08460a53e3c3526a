"""Errors against epsilon, for several sizes of the table."""

import math
from pathlib import Path
from typing import Any

import numpy as np

import trigmech as tm
from experiments.cells import BEST, Cell, run_cells, write_csv, write_markdown
from experiments.comparison import shown
from experiments.search import partial

EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0)
DELTAS = (0.0, 1e-3)
PERCENTS = (10, 30, 100)
WORSE = 1.05  # more budget is said to have done harm from here

Curve = dict[tuple[float, float], float]  # by (epsilon, delta)


def mechanism(delta: float) -> str:
    """Return the mechanism that is run: the best there is for the budget."""
    if hasattr(tm, BEST):
        return BEST
    return "ImprovedTrigII" if delta > 0 else "ImprovedTrigI"


def curves(names: list[str], jobs: int, quick: bool) -> Path:
    """Write results/curves.csv and .md: medians over the repetitions of the worst errors of W1, W2 and W3.

    Of several widths the geometric mean is taken in each repetition. Tables of 10 and 30 % are the first rows in a
    fixed random order, scaled as the whole table is, and errors are against their own answers.

    Parameters
    ----------
    names : list of str
        Data sets.
    jobs : int
        Processes.
    quick : bool
        2 repetitions, 500 queries of W1 and three epsilons instead of 3, 2000 and five.
    """
    repetitions, queries = (2, 500) if quick else (3, 2_000)
    cells = {Cell(name, mechanism(delta), (), epsilon, delta, r, queries, percent): (name, percent, epsilon, delta)
             for name in names for percent in PERCENTS for delta in DELTAS
             for epsilon in (EPSILONS[::2] if quick else EPSILONS) for r in range(repetitions)}
    sizes: dict[tuple[str, int], int] = {}
    errors: dict[tuple[str, int, str], dict[tuple[float, float], list[float]]] = {}
    for cell, result in run_cells(cells, jobs, "curves"):
        name, percent, epsilon, delta = cells[cell]
        sizes[name, percent] = result["rows"]
        for workload in ("w1", "w2", "w3"):
            # Whatever is answered exactly counts as nearly so.
            logs = np.log(np.maximum(result[workload]["absolute"], 1e-12))
            curve = errors.setdefault((name, percent, workload), {})
            curve.setdefault((epsilon, delta), []).append(math.exp(float(logs.mean())))
    rows: list[dict[str, Any]] = []
    harm: list[str] = []
    for key in sorted(errors):
        name, percent, workload = key
        medians = {budget: float(np.median(values)) for budget, values in sorted(errors[key].items())}
        for (epsilon, delta), value in medians.items():
            least, most = min(errors[key][epsilon, delta]), max(errors[key][epsilon, delta])
            rows.append({"dataset": name, "percent": percent, "rows": sizes[name, percent], "workload": workload,
                         "mechanism": mechanism(delta), "epsilon": f"{epsilon:g}", "delta": f"{delta:g}",
                         "median": f"{value:.6g}", "least": f"{least:.6g}", "most": f"{most:.6g}"})
        harm += [f"- {name}, {percent} %, {workload.upper()}: {_budget(more)} has {ratio:.2f} times the error of "
                 f"{_budget(less)}" for less, more, ratio in worse(medians)]
    suffix = ("_quick" if quick else "") + partial(names)
    write_csv("curves" + suffix, rows)
    return write_markdown("curves" + suffix, [*_tables(rows, repetitions, queries),
                                               "## Where more budget did harm", "", *(harm or ["Nowhere."])])


def worse(medians: Curve) -> list[tuple[tuple[float, float], tuple[float, float], float]]:
    """Return each budget whose error is above 1.05 times that of a smaller one: (the best smaller, it, the ratio)."""
    found = []
    for more, error in sorted(medians.items()):
        smaller = {less: value for less, value in medians.items()
                   if less != more and less[0] <= more[0] and less[1] <= more[1]}
        if smaller:
            less = min(smaller, key=lambda budget: smaller[budget])
            if error > WORSE * smaller[less]:
                found.append((less, more, error / smaller[less]))
    return found


def _tables(rows: list[dict[str, Any]], repetitions: int, queries: int) -> list[str]:
    epsilons = sorted({row["epsilon"] for row in rows}, key=float)
    used = " and ".join(f"{name} at δ = {delta}" for delta, name in
                        sorted({(row["delta"], row["mechanism"]) for row in rows}))
    lines = ["# Errors against epsilon", "",
             f"{used}. Medians over {repetitions} repetitions of the worst error over {queries} queries of W1 (and "
             "over W2 and W3), of several σ the geometric mean. Tables of 10 and 30 % are the first rows in a fixed "
             "random order; errors are against their own answers.", ""]
    medians: dict[tuple[Any, ...], dict[str, str]] = {}
    for row in rows:
        key = (row["workload"], row["dataset"], row["percent"], row["rows"], row["delta"])
        medians.setdefault(key, {})[row["epsilon"]] = shown(float(row["median"]))
    for workload in ("w1", "w2", "w3"):
        lines += [f"## {workload.upper()}", "",
                  "| data | part | rows | δ | " + " | ".join(f"ε = {e}" for e in epsilons) + " |",
                  "| --- |" + " --- |" * (3 + len(epsilons))]
        lines += [f"| {name} | {percent} % | {size} | {delta} | " + " | ".join(values[e] for e in epsilons) + " |"
                  for (which, name, percent, size, delta), values in medians.items() if which == workload]
        lines.append("")
    return lines


def _budget(budget: tuple[float, float]) -> str:
    return f"({budget[0]:g}, {budget[1]:g})"
