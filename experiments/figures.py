"""The points of the thesis's figures 3.1 (error against kappa) and 3.2 (error against the rank k)."""

import csv
import math
from pathlib import Path
from typing import Any

import numpy as np

from experiments.cells import HERE, WIDTHS, Cell, run_cells, write_csv, write_markdown
from experiments.search import PUBLISHED

# What is printed under the figures; neither says which sigma it shows. Ties, grid and cap as in the tables.
FIGURES: dict[str, dict[str, Any]] = {
    "figure_3_1": {"dataset": "CSN", "mechanism": "ImprovedTrigI", "delta": 0.0, "axis": "scale", "name": "kappa",
                   "values": [float(kappa) for kappa in range(1, 61)],
                   "options": {**PUBLISHED, "n_basis": 50, "rank": 2, "ties": "last"}},
    "figure_3_2": {"dataset": "CRM", "mechanism": "ImprovedTrigII", "delta": 1e-3, "axis": "rank", "name": "k",
                   "values": list(range(1, 101)),
                   "options": {**PUBLISHED, "n_basis": 102, "scale": 7.0, "ties": "last", "max_weight": 0.01}},
}


def figure(number: str, jobs: int, quick: bool) -> Path:
    """Run one figure's protocol and write its points for all widths, published and rigorous, beside the thesis's.

    Parameters
    ----------
    number : {"figure_3_1", "figure_3_2"}
    jobs : int
    quick : bool
        Every fifth point, 2 repetitions, 1000 queries instead of all points, 10 repetitions, 10^4 queries.
    """
    spec = FIGURES[number]
    values = spec["values"][::5] if quick else spec["values"]
    repetitions, queries = (2, 1_000) if quick else (10, 10_000)
    rigorous = {**spec["options"], "calibration": "rigorous", "ellipsoid": "uniform", "eigenvalues": "rayleigh"}
    cells = {Cell(spec["dataset"], spec["mechanism"], tuple(sorted({**options, spec["axis"]: value}.items())),
                  delta=spec["delta"], repetition=r, n_queries=queries): (variant, value)
             for variant, options in (("published", spec["options"]), ("rigorous", rigorous))
             for value in values for r in range(repetitions)}
    errors: dict[tuple[str, float], list[list[float]]] = {}
    for cell, result in run_cells(cells, jobs, number):
        errors.setdefault(cells[cell], []).append(result["w1"]["absolute"])
    with (HERE / "expected" / f"{number}.csv").open(encoding="utf-8") as file:
        printed = {float(row[spec["name"]]): float(row["worst_absolute_error"]) for row in csv.DictReader(file)}
    rows = []
    for variant, value in sorted(errors):
        worst = np.sort(np.array(errors[variant, value]), axis=0)
        for i, width in enumerate(WIDTHS):
            rows.append({"variant": variant, spec["name"]: f"{value:g}", "sigma": f"{width:g}",
                         "worst_absolute_error": f"{worst[:, i].mean():.6g}",
                         "standard_error": f"{worst[:, i].std(ddof=1) / math.sqrt(repetitions):.2g}",
                         "thesis": printed[float(value)]})
    suffix = "_quick" if quick else ""
    write_csv(number + suffix, rows)
    lines = [f"# Figure {number[7:].replace('_', '.')}: {spec['dataset']}, {spec['mechanism']}, worst absolute error "
             f"against {spec['name']}", "", f"{repetitions} repetitions, {queries} queries. Geometric mean over the "
             "points of ours / thesis; the thesis does not print which sigma the figure shows.", "",
             "| variant | " + " | ".join(f"σ = {width:g}" for width in WIDTHS) + " |",
             "| --- |" + " --- |" * len(WIDTHS)]
    for variant in ("published", "rigorous"):
        ratios = [math.exp(np.mean([math.log(np.mean(np.sort([e[i] for e in errors[variant, value]])) / printed[value])
                                    for value in values])) for i in range(len(WIDTHS))]
        lines.append(f"| {variant} | " + " | ".join(f"{ratio:.2f}" for ratio in ratios) + " |")
    return write_markdown(number + suffix, lines)
