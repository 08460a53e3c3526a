"""The points of the thesis's figures 3.1 (error against kappa) and 3.2 (error against the rank k)."""

from functools import partial
from typing import Any

import pandas as pd

from experiments.asked import Asked, LeftOut
from experiments.cells import HERE, Call
from experiments.declare import Experiment
from experiments.frames import SIGMAS, across, geometric, of_workloads, worded
from experiments.runs import release
from experiments.search import PUBLISHED

# The settings that are printed under the figures; neither says which sigma it shows. Ties, grid and cap as in tables.
FIGURES: dict[str, dict[str, Any]] = {
    "figure_3_1": {"dataset": "CSN", "mechanism": "ImprovedTrigI", "delta": 0.0, "axis": "scale", "name": "kappa",
                   "values": [float(kappa) for kappa in range(1, 61)],
                   "options": {**PUBLISHED, "n_basis": 50, "rank": 2, "ties": "last"}},
    "figure_3_2": {"dataset": "CRM", "mechanism": "ImprovedTrigII", "delta": 1e-3, "axis": "rank", "name": "k",
                   "values": list(range(1, 101)),
                   "options": {**PUBLISHED, "n_basis": 102, "scale": 7.0, "ties": "last", "max_weight": 0.01}},
}


def cells(number: str, asked: Asked) -> dict[Call, dict[str, Any]]:
    spec = FIGURES[number]
    if spec["dataset"] not in asked.names:
        raise LeftOut(f"it needs {spec['dataset']}")
    rigorous = {**spec["options"], "calibration": "rigorous", "ellipsoid": "uniform", "eigenvalues": "rayleigh"}
    return {release(spec["dataset"], spec["mechanism"], {**options, spec["axis"]: value}, delta=spec["delta"],
                    repetition=r, n_queries=asked.size): {"variant": variant, spec["name"]: value}
            for variant, options in (("published", spec["options"]), ("rigorous", rigorous))
            for value in spec["values"][::5 if asked.quick else 1] for r in range(asked.seeds)}


def table(number: str, lines: pd.DataFrame) -> pd.DataFrame:
    axis = FIGURES[number]["name"]
    worst = lines[(lines["workload"] == "w1") & (lines["what"] == "absolute")].groupby(
        ["variant", axis, "sigma"], sort=False)["value"].agg(worst_absolute_error="mean", standard_error="sem")
    printed = pd.read_csv(HERE / "expected" / f"{number}.csv", index_col=axis)["worst_absolute_error"]
    return worst.reset_index().assign(thesis=lambda found: found[axis].astype(float).map(printed))


def page(number: str, lines: pd.DataFrame, asked: Asked) -> list[str]:
    spec = FIGURES[number]
    ratio = (lines["worst_absolute_error"] / lines["thesis"]).groupby([lines["variant"], lines["sigma"]]).agg(
        geometric).unstack()
    return worded("figure", number=number[7:].replace("_", "."), seeds=asked.seeds, size=asked.size,
                  **{part: spec[part] for part in ("dataset", "mechanism", "name")}, table=across(
                      ["variant"], ratio, {sigma: f"σ = {sigma}" for sigma in SIGMAS["w1"]}, "{:.2f}".format))


declared = [Experiment(
    name=number, what=f"worst error on {words} (minutes)", numbers=True, seeds=(2, 10), size=(1_000, 10_000),
    cells=partial(cells, number), lines=of_workloads, table=partial(table, number), page=partial(page, number),
    formats={FIGURES[number]["name"]: "g", "worst_absolute_error": ".6g", "standard_error": ".2g"})
    for number, words in (("figure_3_1", "CSN against kappa"), ("figure_3_2", "CRM against the rank k"))]
