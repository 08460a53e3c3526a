"""The points of the thesis's figures 3.1 (error against kappa) and 3.2 (error against the rank k)."""

from pathlib import Path
from typing import Any

import pandas as pd

from experiments.asked import Asked, LeftOut
from experiments.cells import HERE, write_markdown
from experiments.frames import formatted, geometric, markdown, measured, write
from experiments.runs import WIDTHS, release
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


def figure(number: str, asked: Asked) -> Path:
    """Run one figure's protocol and write its points for all widths, published and rigorous, beside the thesis's.

    Quick: every fifth point, 2 repetitions, 1000 queries instead of all points, 10 repetitions, 10^4 queries.
    """
    spec = FIGURES[number]
    if spec["dataset"] not in asked.names:
        raise LeftOut(f"it needs {spec['dataset']}")
    axis, stem = spec["name"], asked.stem(number)
    repetitions, queries, every = (2, 1_000, 5) if asked.quick else (10, 10_000, 1)
    rigorous = {**spec["options"], "calibration": "rigorous", "ellipsoid": "uniform", "eigenvalues": "rayleigh"}
    cells = {release(spec["dataset"], spec["mechanism"], {**options, spec["axis"]: value}, delta=spec["delta"],
                     repetition=r, n_queries=queries): {"variant": variant, axis: value}
             for variant, options in (("published", spec["options"]), ("rigorous", rigorous))
             for value in spec["values"][::every] for r in range(repetitions)}
    lines = measured(cells, asked, number)
    worst = lines[(lines["workload"] == "w1") & (lines["what"] == "absolute")].groupby(
        ["variant", axis, "sigma"], sort=False)["value"].agg(worst_absolute_error="mean", standard_error="sem")
    printed = pd.read_csv(HERE / "expected" / f"{number}.csv", index_col=axis)["worst_absolute_error"]
    points = worst.reset_index().assign(thesis=lambda found: found[axis].astype(float).map(printed))
    write(stem, formatted(points, **{axis: "g"}, worst_absolute_error=".6g", standard_error=".2g"))
    ratio = (points["worst_absolute_error"] / points["thesis"]).groupby([points["variant"], points["sigma"]]).agg(
        geometric)
    return write_markdown(stem, [
        f"# Figure {number[7:].replace('_', '.')}: {spec['dataset']}, {spec['mechanism']}, worst absolute error "
        f"against {axis}", "", f"{repetitions} repetitions, {queries} queries. Geometric mean over the "
        "points of ours / thesis; the thesis does not print which sigma the figure shows.", "",
        *markdown(["variant", *(f"σ = {width:g}" for width in WIDTHS)],
                  [[variant, *(f"{ratio[variant, f'{width:g}']:.2f}" for width in WIDTHS)]
                   for variant in ("published", "rigorous")])])
