"""What each part of `MomentMechanism` is worth: it is run without the part, with the same random numbers."""

import math
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import trigmech as tm
from experiments import datasets
from experiments.cells import BEST, Cell, run_cells, write_csv, write_markdown
from experiments.comparison import SETTINGS, shown
from experiments.search import partial
from trigmech.privacy.accounting import epsilon_of, gaussian_mu

WORKLOADS = ("w1", "w2", "w3")
DEFAULT, SPLIT, FEW = "default", "three releases", "few functions"
# Small enough for the L1 program, whose time grows fast with the number of functions.
FEW_FUNCTIONS = 400
VARIANTS: dict[str, tuple[dict[str, Any], str]] = {
    DEFAULT: ({}, "the mechanism as it is"),
    "equal noise": ({"weighted": False}, "equal noise in all moments"),
    SPLIT: ({}, "the budget spent on three releases of equal parts, as the thesis does, of which one measures the "
                "default's moments"),
    "no denoising": ({"denoise": False}, "noisy moments are fitted as they are"),
    "no copula": ({"copula": False}, "rows start with independent columns"),
    "fit: cloud": ({"fit": "cloud"}, "weights of minimum KL divergence on the cloud"),
    FEW: ({"max_functions": FEW_FUNCTIONS}, f"at most {FEW_FUNCTIONS} moments; what to compare the next row with"),
    "fit: atoms": ({"fit": "atoms", "max_functions": FEW_FUNCTIONS},
                   f"the L1 program over the cube, at most {FEW_FUNCTIONS} moments"),
    "no whole rows": ({"whole_row": False}, "no whole-row function is measured"),
    "no pairs": ({"pair_degree": 0}, "no moments of pairs of columns"),
    "256 points": ({"points": 256}, "256 points instead of as many as the table has rows"),
}
# Setting A only for tables of so many rows at most.
MOST_ROWS: dict[str, int | None] = {"A": 10_000, "B": None}
FIGURES = {"seconds": "seconds, median", "distinct": "distinct points with weight, mean",
           "table": "distinct rows of a drawn table of n rows, mean",
           "largest": "largest weight times the number of points, mean"}


def split_budget(budget: tm.Budget, releases: int) -> tm.Budget:
    """Return the budget of one of several releases that together spend all of it.

    Notes
    -----
    For delta = 0 epsilons add up; Gaussian releases compose by the squares of their mu, so that each has mu over the
    root of their number.
    """
    if budget.delta == 0:
        return tm.Budget(budget.epsilon / releases)
    part = gaussian_mu(budget) / math.sqrt(releases)
    charge = tm.Charge("moments", "gaussian", 1.0, part, "L2", 1, "experiments.ablations")
    return tm.Budget(epsilon_of([charge], budget.delta), budget.delta)


@cache
def _split(name: str, setting: str) -> tuple[dict[str, Any], float]:
    """Return the options that fix the default's functions, and the epsilon of one of three releases."""
    epsilon, delta, *_ = SETTINGS[setting]
    budget = tm.Budget(epsilon, delta)
    n, d = datasets.load(name).values.shape
    design = tm.MomentMechanism().design(n, d, budget)
    return ({part: getattr(design, part) for part in ("degree", "pair_degree", "triples", "whole_row")},
            split_budget(budget, 3).epsilon)


def cell_of(variant: str, name: str, setting: str, repetition: int, n_queries: int) -> Cell:
    """Return the cell of a variant."""
    epsilon, delta, *_ = SETTINGS[setting]
    options = VARIANTS[variant][0]
    if variant == SPLIT:
        # The same functions: only the noise is to differ.
        options, epsilon = _split(name, setting)
    return Cell(name, BEST, tuple(sorted(options.items())), epsilon, delta, repetition, n_queries)


def ablations(names: list[str], jobs: int, quick: bool) -> Path:
    """Write results/ablations.csv and .md: each variant's errors as ratios to the default's.

    Parameters
    ----------
    names : list of str
        Data sets.
    jobs : int
        Processes.
    quick : bool
        2 repetitions and 500 queries of W1 instead of 3 and 2000.
    """
    repetitions, queries = (2, 500) if quick else (3, 2_000)
    rows_of = {name: len(datasets.load(name).values) for name in names}
    cells = {cell_of(variant, name, setting, r, queries): (setting, name, variant)
             for setting, most in MOST_ROWS.items() for name in names if most is None or rows_of[name] <= most
             for variant in VARIANTS for r in range(repetitions)}
    results: dict[tuple[str, str, str], dict[int, dict[str, Any]]] = {}
    for cell, result in run_cells(cells, jobs, "ablations"):
        results.setdefault(cells[cell], {})[cell.repetition] = result
    rows = [line for key in dict.fromkeys(cells.values())
            for line in summary(*key, results[key], results[key[0], key[1], DEFAULT])]
    suffix = ("_quick" if quick else "") + partial(names)
    write_csv("ablations" + suffix, rows)
    return write_markdown("ablations" + suffix, report(rows, repetitions, queries))


def summary(setting: str, dataset: str, variant: str, results: dict[int, dict[str, Any]],
            default: dict[int, dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the CSV lines of one variant from its results and the default's, by repetition.

    The ratio of a repetition is the geometric mean over the widths; "value" is the geometric mean over the
    repetitions, "least" and "most" the extremes.
    """
    head = {"setting": setting, "dataset": dataset, "variant": variant}
    lines = []
    for workload in WORKLOADS:
        # Whatever is answered exactly counts as nearly so.
        logs = [float(np.mean(np.log(np.maximum(results[r][workload]["absolute"], 1e-12))
                              - np.log(np.maximum(default[r][workload]["absolute"], 1e-12)))) for r in sorted(results)]
        lines.append({**head, "what": workload, "value": f"{math.exp(np.mean(logs)):.6g}",
                      "least": f"{math.exp(min(logs)):.6g}", "most": f"{math.exp(max(logs)):.6g}"})
    for what in FIGURES:
        values = sorted(float(result[what]) for result in results.values())
        value = np.median(values) if what == "seconds" else np.mean(values)
        lines.append({**head, "what": what, "value": f"{value:.6g}", "least": f"{values[0]:.6g}",
                      "most": f"{values[-1]:.6g}"})
    return lines


def report(rows: list[dict[str, Any]], repetitions: int, queries: int) -> list[str]:
    """Return the Markdown, from the lines of the CSV file."""
    lines = ["# What each part is worth", "",
             f"Worst absolute error over {queries} queries of W1, over W2 and over W3, divided by the default's in the "
             f"same repetition: geometric means over the widths and over {repetitions} repetitions. Above 1: the part "
             "helps. Variants share their random numbers, so a variant that changes nothing has exactly 1. Answers "
             "from the weighted points.", ""]
    lines += [f"- *{variant}*: {words}." for variant, (_, words) in VARIANTS.items()]
    value = {(row["setting"], row["dataset"], row["variant"], row["what"]): float(row["value"]) for row in rows}
    for setting in dict.fromkeys(row["setting"] for row in rows):
        epsilon, delta, *_ = SETTINGS[setting]
        names = list(dict.fromkeys(row["dataset"] for row in rows if row["setting"] == setting))
        lines += ["", f"## Setting {setting}: ε = {epsilon:g}, δ = {delta:g}", "",
                  *_table([f"{name} {workload.upper()}" for name in names for workload in WORKLOADS],
                          {variant: [f"{value[setting, name, variant, workload]:.2f}" for name in names
                                     for workload in WORKLOADS] for variant in VARIANTS})]
        for what, words in FIGURES.items():
            lines += ["", f"### {words.capitalize()}", "",
                      *_table(names, {variant: [shown(value[setting, name, variant, what]) if what == "seconds"
                                                else f"{value[setting, name, variant, what]:.4g}" for name in names]
                                      for variant in VARIANTS})]
    return lines


def _table(heads: list[str], rows: dict[str, list[str]]) -> list[str]:
    return ["| variant | " + " | ".join(heads) + " |", "| --- |" + " --- |" * len(heads),
            *(f"| {name} | " + " | ".join(values) + " |" for name, values in rows.items())]
