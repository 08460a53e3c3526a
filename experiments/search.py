"""Which options, of those that the thesis does not print, come nearest to its tables.

The thesis gives C = 10^4 throughout, R = 50, L = 10, k = 2 under its figure 3.1 (algorithm 9) and R = 102, L = 10,
kappa = 7 under figure 3.2 (algorithm 10), and no option under its tables. Those values are kept; the others are
searched over a few round values, and judged by the printed numbers alone. Nothing here looks for small errors.
"""

from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from experiments.asked import Asked, LeftOut
from experiments.cells import HERE, write_csv, write_markdown
from experiments.declare import Experiment, measured
from experiments.frames import markdown, of_workloads
from experiments.runs import release

PUBLISHED: dict[str, Any] = {"calibration": "published", "ellipsoid": "published", "eigenvalues": "norm",
                             "background": 0.0, "n_candidates": 10_000, "iterations": 10}
FIXED: dict[str, dict[str, Any]] = {"table_3_2": {**PUBLISHED, "n_basis": 50, "rank": 2},
                                    "table_3_3": {**PUBLISHED, "n_basis": 102, "scale": 7.0}}
SEARCHED: dict[str, dict[str, tuple[Any, ...]]] = {"table_3_2": {"scale": (1.0, 3.0, 7.0, 20.0)},
                                                   "table_3_3": {"rank": (2, 3, 10, 30)}}
COMMON: dict[str, tuple[Any, ...]] = {"ties": ("last", "fewest"), "grid": (100, None), "max_weight": (None, 0.01)}
ALGORITHM = {"table_3_2": ("ImprovedTrigI", 0.0), "table_3_3": ("ImprovedTrigII", 1e-3)}
THESIS_SETS = ("CRM", "CSN", "CTG", "PAM", "PKS", "WDBC")
SHOWN = 5
SMALLEST = 0.005  # a printed number below it says too little


def expected(table: str) -> dict[tuple[str, str, float | None], float]:
    """Return the thesis's numbers: (data set, "absolute", "relative" or "seconds", sigma or None) -> value."""
    lines = pd.read_csv(HERE / "expected" / f"{table}.csv")
    return {(line.dataset, line.error, None if pd.isna(line.sigma) else line.sigma): line.value
            for line in lines.itertuples()}


def search(asked: Asked) -> Path:
    names = [name for name in asked.names if name in THESIS_SETS]
    if not names:
        raise LeftOut("it needs a data set of the thesis")
    found = {table: distances(table, names, asked) for table in ALGORITHM}
    for table, lines in found.items():
        write_csv(asked.stem(f"search_{table}", asked.of_thesis), lines)
    return write_markdown(asked.stem("search", asked.of_thesis), page(found))


def distances(table: str, names: Sequence[str], asked: Asked) -> pd.DataFrame:
    """Return how far each choice of options is from a table of the thesis, nearest first."""
    mechanism, delta = ALGORITHM[table]
    axes = {**SEARCHED[table], **COMMON}
    choices = [dict(zip(axes, values, strict=True)) for values in product(*axes.values())]
    cells = {release(name, mechanism, {**FIXED[table], **choice}, delta=delta, repetition=r, n_queries=1_000): {
                 "number": number, "dataset": name}
             for number, choice in enumerate(choices) for name in names for r in range(2 if asked.quick else 5)}
    lines = measured(cells, asked, f"search for {table}", of_workloads)
    means = lines[(lines["workload"] == "w1") & (lines["what"] == "absolute")].groupby(
        ["number", "dataset", "sigma"], sort=False)["value"].mean().reset_index()
    printed = expected(table)
    means["printed"] = [printed.get((line.dataset, "absolute", float(line.sigma)), 0.0) for line in means.itertuples()]
    counted = means[means["printed"] >= SMALLEST]
    distance = np.log(counted["value"] / counted["printed"]).abs().groupby(counted["number"]).mean()
    return pd.DataFrame(choices, dtype=object).assign(
        distance=distance.round(4), factor=np.exp(distance).round(3)).sort_values("distance", kind="stable")


def page(found: Mapping[str, pd.DataFrame]) -> list[str]:
    text = ["# Options that the thesis does not print", "",
            "Factor: the geometric mean of the larger of ours / printed and its inverse, over the absolute errors."]
    for table, lines in found.items():
        text += ["", f"## Table {table[6:].replace('_', '.')}", "", *markdown(
            list(lines), lines.head(SHOWN).astype(object).where(lines.notna() & (lines != ""), "none").to_numpy())]
    return text


declared = [Experiment(name="search", numbers=True, run=search,
                       what="which unprinted options come nearest to the thesis's tables (minutes)")]
