"""Figure 3.2 by a variant with the known deviations of the authors' program, searched as the tables are.

A simulation of algorithm 10 on CRM from a seeded generator, nothing is released. Each deviation of the program of the
time from the printed text is an option with two or three values; the search tries all choices of those that change a
distribution, and judges them by the printed points alone: by the mean of |log(ours / printed)|, at the width that is
nearest, for the thesis does not say which width it shows.
"""

import math
from functools import lru_cache
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

import trigmech as tm
from experiments import Array
from experiments.asked import Asked, LeftOut
from experiments.cells import Call, call
from experiments.declare import Experiment
from experiments.figures import FIGURES
from experiments.frames import markdown, sections, worded
from experiments.runs import WIDTHS, WORKLOAD_SEED, cube
from experiments.search import expected_points
from trigmech.functions.chebyshev import ChebyshevBasis
from trigmech.functions.grid import round_to_grid
from trigmech.thesis.calibration import published_rho
from trigmech.thesis.ellipsoid import Ellipsoid

DELTA, PROGRAM_DELTA, QUERIES, GRID = 1e-3, 1e-5, 1_000, 100
# The printed value first, the program's last. Steps: the budget of each of the three. Laplace: its scale over the
# printed one. Axes: the noise of the subspace iteration, printed, or the program's, whose index i counts iterations or
# columns (its text allows both), with one product more than it counts. Cap: the largest weight. Candidates: rounded to
# the grid, or clipped only. Numbers: R, kappa and L below the figure, or the program's defaults.
OPTIONS: dict[str, tuple[Any, ...]] = {
    "steps": (1.0 / 3.0, 1.0), "laplace": (1.0, 0.5**0.5), "axes": ("printed", "by step", "by column"),
    "cap": (None, 0.01), "candidates": ("rounded", "clipped"), "numbers": ("figure", "program")}
FIGURE = FIGURES["figure_3_2"]["options"]
NUMBERS = {"figure": FIGURE, "program": {**FIGURE, "n_basis": 79, "scale": 3.0, "iterations": 5}}
# Queries: the text's, and the program's, whose centres come from a pool.
VARIANTS = ("fresh", "pool")
PRINTED = tuple(values[0] for values in OPTIONS.values())
# One generator with the same seed for every step and run, as in the program; else seeds of their own.
SEEDS = ("own", "constant")
RANKS = tuple(range(3, 101, 5))
# No known deviation: by how much the printed noise of the axes would have to be smaller.
LEVELS = (0.1, 0.03, 0.01, 0.003, 0.001)


@lru_cache(maxsize=2)
def moments(count: int) -> tuple[ChebyshevBasis, Array, Array, Array]:
    """Return the functions, their exact means over rounded rows, the rows' mean and their covariance."""
    X = cube("CRM")
    basis = ChebyshevBasis.graded(X.shape[1], count, None, FIGURE["ties"])
    return basis, basis.evaluate(round_to_grid(X, GRID)).mean(axis=0), X.mean(axis=0), np.cov(X.T, bias=True)


@lru_cache(maxsize=2)
def queries(variant: str) -> tuple[tm.workload.GaussianKernels, Array]:
    """Return the queries, "fresh" or "pool", and their exact answers."""
    X = cube("CRM")
    made = tm.workload.GaussianKernels(X.shape[1], seed=WORKLOAD_SEED, n_queries=QUERIES, widths=WIDTHS,
                                       variant=variant)  # type: ignore[arg-type]
    return made, made.answers(X)


def noise_of_axes(which: str | float, rank: int, iterations: int, epsilon: float, norm: float, step: int,
                  largest: float) -> Array:
    """Return the standard deviations (rank,) of the noise of one product of the subspace iteration.

    Printed: algorithm 6, rho at the noisy mean's norm. The program: 5 d sqrt(2 (i+1) L ln(2/delta)) / (n epsilon) times
    the largest entry seen, delta = 1e-5. A number: so many times the printed ones.
    """
    n, d = cube("CRM").shape
    if which == "printed" or isinstance(which, float):
        scale = math.sqrt(4 * rank * iterations * math.log(2 / DELTA)) / epsilon * published_rho(d, n, norm)
        return np.full(rank, scale * (which if isinstance(which, float) else 1.0))
    i = np.full(rank, step) if which == "by step" else np.arange(rank)
    return 5 * d * np.sqrt(2 * (i + 1) * iterations * math.log(2 / PROGRAM_DELTA)) / (n * epsilon) * largest


def run(rank: int, choice: tuple[Any, ...] = PRINTED, seeds: str = "own", repetition: int = 0) -> dict[str, Any]:
    """Return the worst error for each width of a run at a rank k, by variant of the queries; `choice` as `OPTIONS`."""
    steps, laplace, axes, cap, candidates, numbers = choice
    options = NUMBERS[numbers]
    basis, exact, mean, covariance = moments(options["n_basis"])
    n, d = cube("CRM").shape
    seed = [0] if seeds == "constant" else [WORKLOAD_SEED, rank, repetition]
    # The program makes a generator for each step; of a constant seed all of them draw the same.
    streams = [np.random.default_rng(seed if seeds == "constant" else [*seed, step]) for step in range(4)]
    scale = laplace * math.sqrt(2 * basis.K * math.log(1 / DELTA)) / (n * steps)
    means = exact + np.where(np.arange(basis.K) == basis.constant, 0.0, streams[0].laplace(0.0, scale, basis.K))
    centre = mean + streams[1].laplace(0.0, laplace * 2 * d / (n * steps), d)
    directions = np.linalg.qr(streams[2].standard_normal((d, rank)))[0]
    largest, images = 0.0, directions
    for step in range(options["iterations"] + (axes in OPTIONS["axes"][1:])):
        largest = max(largest, float(np.abs(directions).max()))
        deviations = noise_of_axes(axes, rank, options["iterations"], steps, float(np.linalg.norm(centre)), step,
                                   largest)
        images = covariance @ directions + streams[2].standard_normal((d, rank)) * deviations
        directions = np.linalg.qr(images)[0]
    radii = options["scale"] * np.sqrt(np.linalg.norm(images, axis=0))
    points = Ellipsoid(centre, directions, radii).draw(options["n_candidates"], streams[3], "published")
    points = np.clip(points, -1.0, 1.0) if candidates == "clipped" else round_to_grid(points, GRID)
    fit = tm.fit_l1(basis, points, np.clip(means, -4.0, 4.0), max_weight=cap)
    atoms = np.flatnonzero(fit.weights)
    found = {variant: np.abs(queries(variant)[0].answers(points[atoms], fit.weights[atoms]) - queries(variant)[1])
             for variant in VARIANTS}
    return {"clipped": float(np.mean(np.abs(points) > 0.98)), "estimate": float(np.linalg.norm(images[:, 0])),
            **{variant: errors.max(axis=0).tolist() for variant, errors in found.items()}}


def cells(asked: Asked) -> dict[Call, dict[str, Any]]:
    """Return the calls; quick: two ranks, the printed and the program's options."""
    if "CRM" not in asked.names:
        raise LeftOut("it needs CRM")
    choices = list(product(*OPTIONS.values()))
    if asked.quick:
        choices = [PRINTED, tuple(values[-1] for values in OPTIONS.values())]
    choices += [(*each[:2], level, *each[3:]) for each in (choices[0], choices[-1]) for level in LEVELS]
    found: dict[Call, dict[str, Any]] = {}
    for choice, rank in product(choices, asked.size):
        head = {**dict(zip(OPTIONS, choice, strict=True)), "k": rank}
        found[call(run, rank, choice)] = {**head, "seeds": "own"}
        if isinstance(choice[2], str) and choice[2] != "printed" and choice[0] == 1.0:
            found[call(run, rank, choice, "constant")] = {**head, "seeds": "constant"}
    return found


def of_widths(head: dict[str, Any], result: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a line for each variant of the queries and width."""
    return [{**head, "queries": variant, "sigma": width, "error": error, "clipped": result["clipped"],
             "estimate": result["estimate"]} for variant in VARIANTS
            for width, error in zip(WIDTHS, result[variant], strict=True)]


def nearest(lines: pd.DataFrame) -> pd.DataFrame:
    """Return a line for each choice, variant of the queries and kind of seed, nearest to the printed points first.

    The distance and factor at the nearest width, the geometric means of ours / thesis at every width, and over the
    ranks the mean shares of clipped coordinates and mean |w_1|.
    """
    keys = [*OPTIONS, "queries", "seeds"]
    lines = lines.assign(
        cap=lines["cap"].map(lambda cap: "none" if cap is None or np.isnan(cap) else f"{cap:g}"),
        axes=lines["axes"].map(lambda axes: f"printed × {axes:g}" if isinstance(axes, float) else axes))
    means = lines.groupby([*keys, "sigma", "k"], sort=False, dropna=False)[["error", "clipped", "estimate"]].mean()
    ratio = means["error"] / means.index.get_level_values("k").map(expected_points("figure_3_2"))
    logs = np.log(ratio).groupby([*keys, "sigma"], sort=False)
    wide = np.exp(logs.mean()).unstack("sigma").rename(columns=lambda width: f"ratio_{width:g}")
    distance = np.log(ratio).abs().groupby([*keys, "sigma"], sort=False).mean().unstack("sigma")
    others = means[["clipped", "estimate"]].groupby(keys, sort=False).mean()
    return wide.assign(nearest_sigma=distance.idxmin(axis=1), distance=distance.min(axis=1).round(4),
                       factor=np.exp(distance.min(axis=1)).round(3)).join(others).round(4).sort_values(
        "distance", kind="stable").reset_index()


def alone(found: pd.DataFrame) -> pd.DataFrame:
    """Return the lines of the printed options, of each of the program's alone, and of all of the program's together."""
    known = OPTIONS | {"cap": ("none", "0.01")}
    rows = []
    for changed in ("", *OPTIONS, "queries", "all"):
        for values in product(*(known[name][1:] if changed in (name, "all") else known[name][:1] for name in OPTIONS)):
            wanted = {**dict(zip(OPTIONS, values, strict=True)), "seeds": "own",
                      "queries": "pool" if changed in ("queries", "all") else "fresh"}
            rows += [{"changed": changed or "nothing: as printed", **row} for row in found.to_dict("records")
                     if all(row[name] == value for name, value in wanted.items())]
    return pd.DataFrame(rows)


def page(found: pd.DataFrame, asked: Asked) -> list[str]:
    """Return the Markdown; the scatter is of the printed points about their geometric mean, as a factor."""
    ranks = asked.size
    points = np.log([expected_points("figure_3_2")[rank] for rank in ranks])
    scatter = math.exp(float(np.abs(points - points.mean()).mean()))

    def span(values: "pd.Series[float]") -> str:
        return f"{values.min():.2f} to {values.max():.2f}"

    def table(lines: pd.DataFrame) -> list[str]:
        return markdown(list(lines), [[f"{value:.3g}" if isinstance(value, float) else value for value in row]
                                      for row in lines.to_numpy(dtype=object).tolist()])

    levels = found["axes"].str.contains("×")
    smaller = found[levels].sort_values(["steps", "queries", "axes"], ascending=[True, True, False])
    found = found[~levels]
    shown, constant = alone(found), found[found["seeds"] == "constant"]
    tables = {"Each deviation alone, and all together": table(shown.drop(columns=["distance", "seeds"])),
              "The nearest of all choices": table(found.head(5).drop(columns="distance"))}
    if len(constant):
        tables["With one constant seed for all steps and runs"] = table(constant.head(3).drop(columns="distance"))
    tables["Smaller noise of the axes, of which nothing is known"] = table(smaller.drop(columns=["distance", "seeds"]))
    together, factors = shown["changed"] == "all", shown["factor"]
    return worded("figure_3_2_program", ranks=len(ranks), queries=QUERIES, scatter=scatter, tables=sections(tables),
                  printed=factors.iloc[0], alone=span(factors[1:][~together]), together=span(factors[together]),
                  every=span(found["factor"]), smaller=smaller["factor"].min())


program = Experiment(
    name="program", what="figure 3.2 by the known deviations of the authors' program, each and all (minutes)",
    numbers=True, stem="figure_3_2_program", size=(RANKS[1:3], RANKS), cells=cells,
    lines=of_widths, table=nearest, page=page)
