"""Errors against the number of rows, for few columns and smooth queries, beside the rates that theory gives."""

import math
import time
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd

import trigmech as tm
from experiments import Array
from experiments.asked import Asked
from experiments.cells import Call, call
from experiments.declare import Experiment
from experiments.frames import markdown, shown, worded
from experiments.runs import BEST
from trigmech.mechanisms.base import Mechanism
from trigmech.thesis.sizes import Sizes

SIZES = (100, 300, 1_000, 3_000, 10_000, 30_000)
SMOOTHNESS = {1: (1, 2, 3), 2: (1, 2), 3: (1, 2)}
# The class is truncated at these degrees of a column, so that its supremum can be had.
DEGREES = {1: 20, 2: 12, 3: 8}
DELTAS = (1e-3, 0.0)
MINIMAX = "minimax"
THESIS, PUBLISHED = "thesis", "thesis, published scales"
MECHANISMS = (MINIMAX, THESIS, PUBLISHED, BEST)
SEED = 2026
KEYS = ["d", "smoothness", "delta", "mechanism", "n"]


def class_errors(d: int, n: int, mechanism: str, smoothness: int, delta: float, repetition: int) -> dict[str, Any]:
    """Return "seconds" and "errors", the supremum over the class for each smoothness, of a release of n rows."""
    X = table(d)[:n]
    started = time.perf_counter()
    synthesis = tm.synthesize(X, tm.Schema.cube(d), tm.Budget(1.0, delta), mechanism_of(mechanism, smoothness, delta),
                              np.random.default_rng([repetition, d]))
    seconds = time.perf_counter() - started
    return {"seconds": seconds, "errors": {
        str(k): float(tm.workload.Smooth(d, k, DEGREES[d]).errors(X, synthesis.distribution)[0, 0])
        for k in SMOOTHNESS[d]}}


def mechanism_of(name: str, smoothness: int, delta: float) -> Mechanism:
    if name == MINIMAX:
        return tm.minimax(smoothness)
    if name == BEST:
        return tm.MomentMechanism()
    return (tm.TrigII if delta > 0 else tm.TrigI)(
        smoothness=smoothness, calibration="published" if name == PUBLISHED else "rigorous")


@lru_cache
def table(d: int) -> Array:
    """Return the rows, of which a run uses the first n: x_j = tanh(z_j + 1/2), z normal with correlations 0.7^|i-j|.

    The density is smooth and vanishes with all derivatives at the faces; the columns depend on each other.
    """
    z = np.random.default_rng([SEED, d]).standard_normal((SIZES[-1], d))
    for j in range(1, d):
        z[:, j] = 0.7 * z[:, j - 1] + math.sqrt(1.0 - 0.7**2) * z[:, j]
    return np.asarray(np.tanh(z + 0.5))


def cells(asked: Asked) -> dict[Call, dict[str, Any]]:
    return {call(class_errors, d, n, mechanism, k, delta, r): {
                "d": d, "smoothness": k, "delta": delta, "mechanism": mechanism, "n": n}
            for d, orders in SMOOTHNESS.items() for delta in DELTAS for mechanism in MECHANISMS
            for k in ((0,) if mechanism == BEST else orders) for n in asked.size
            for r in range(asked.seeds)}


def of_classes(head: dict[str, Any], result: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a line for each class that a run is compared with: its own, or every class if it is told no smoothness."""
    return [{**head, "smoothness": k, "error": result["errors"][str(k)], "seconds": result["seconds"]}
            for k in ([head["smoothness"]] if head["smoothness"] else SMOOTHNESS[head["d"]])]


def table_of(lines: pd.DataFrame) -> pd.DataFrame:
    lines = lines.assign(delta=-lines["delta"], mechanism=pd.Categorical(lines["mechanism"], MECHANISMS))
    found = lines.groupby(["d", "smoothness", "delta", "mechanism", "n"], observed=True).agg(
        error=("error", "mean"), standard_error=("error", "sem"), seconds=("seconds", "max")).fillna(0.0)
    return found.reset_index().assign(delta=lambda own: own["delta"].abs())


def theory(d: int, k: int, delta: float, mechanism: str) -> float | None:
    """Return the exponent of n in the proved upper bound, without logarithms; None if there is none.

    Minimax, delta > 0: -min(1, k / d), see `trigmech.planning.minimax`. With Laplace noise at delta = 0 the noise of
    the moments up to degree m makes an error of the order m^(3d/2 - k) / n where k < 3d/2, and the moments that are
    cut off make one of m^-k; the best m gives -min(1, 2k / (3d)). The thesis's theorems on algorithms 4 and 5:
    -K / (2d + K) and -2K / (3d + 2K).
    """
    if mechanism == MINIMAX:
        return -min(1.0, k / d if delta > 0 else 2.0 * k / (3.0 * d))
    if mechanism in (THESIS, PUBLISHED):
        return -2.0 * k / (3.0 * d + 2.0 * k) if delta > 0 else -k / (2.0 * d + k)
    return None


def slope(points: pd.Series) -> float:
    """Return the exponent of n of the power law nearest to the errors by n, by least squares of logarithms."""
    return float(np.polyfit(np.log(points.index), np.log(points), 1)[0])


def page(lines: pd.DataFrame, asked: Asked) -> list[str]:
    curves = lines.pivot(index=["d", "smoothness", "delta", "mechanism"], columns="n", values="error")
    curves = curves.loc[pd.MultiIndex.from_frame(lines[curves.index.names].drop_duplicates())]
    sizes = list(curves.columns)
    largest = max(Sizes.of(sizes[-1], d, k, delta or None).grid ** d for d, k, delta, _ in curves.index)
    rows = []
    for (d, k, delta, mechanism), points in curves.iterrows():
        expected = theory(d, k, delta, mechanism)
        rows.append([d, k, f"{delta:g}", mechanism, *map(shown, points), f"{slope(points):.2f}",
                     f"{slope(points.iloc[-3:]):.2f}", "" if expected is None else f"{expected:.2f}"])
    head = ["d", "k", "δ", "mechanism", *(f"n = {n}" for n in sizes), "slope", "last three", "theory"]
    degrees = ", ".join(f"{degree} for d = {d}" for d, degree in DEGREES.items())
    return worded("rates", seeds=asked.seeds, largest=largest, degrees=degrees, published=PUBLISHED, best=BEST,
                  table=markdown(head, rows))


rates = Experiment(
    name="rates", what="errors against the number of rows, for few columns and smooth queries (half an hour; no data)",
    seeds=(1, 3), size=(SIZES[:4], SIZES), cells=cells, lines=of_classes, table=table_of, page=page,
    formats={"delta": "g", "error": ".6g", "standard_error": ".2g", "seconds": ".3g"})
