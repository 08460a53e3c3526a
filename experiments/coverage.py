"""How often the truth lies within the predicted error bars, how wide they are, and what lies outside."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import trigmech as tm
from experiments.asked import Asked
from experiments.cells import Call, call
from experiments.declare import Experiment
from experiments.frames import markdown, of_workloads, read_csv, shown
from experiments.runs import answers, cube, workloads
from trigmech.evaluation.error_bars import PredictedError
from trigmech.workload import Workload

Array = NDArray[np.float64]

LEVEL = 0.95
BUDGETS = {"A": (1.0, 0.0), "B": (1.0, 1e-3), "B, ε = 0.3": (0.3, 1e-3), "B, ε = 10": (10.0, 1e-3)}
PAIR_QUERIES = 500
QUERIES_AT_A_TIME = 100
# Errors below this are rounding, and no ratio is taken to them.
SMALLEST_ERROR = 1e-12
# What is told of error bars, and how of several releases.
TOLD = {"within": "mean", "worst": "mean", "ratio": "median", "excess": "mean", "unmeasured": "mean"}


def held_bars(dataset: str, epsilon: float, delta: float, repetition: int, n_queries: int = 500) -> dict[str, Any]:
    """Return, of one release, what :func:`held` says of its error bars, for each of "w1", "w2" and "w3".

    The repetition is also the seed of the run, with the data set's name; `n_queries` are of W1.
    """
    X, exact, found = cube(dataset), answers(dataset, n_queries, n_pairs=PAIR_QUERIES), {}
    rng = np.random.default_rng([repetition, *dataset.encode()])
    synthesis = tm.synthesize(X, tm.Schema.cube(X.shape[1]), tm.Budget(epsilon, delta), tm.MomentMechanism(), rng)
    points, basis = synthesis.distribution.points, synthesis.release.basis
    # The points of the default mechanism have equal weights.
    missed = basis.means(points) - basis.means(X)
    for which, workload in workloads(X.shape[1], n_queries, PAIR_QUERIES).items():
        errors = workload.answers(points, synthesis.distribution.weights) - exact[which]
        found[which] = held(errors, _combined(workload, basis.index, missed, len(errors)),
                            synthesis.predicted_error(workload, LEVEL))
    return found


def _combined(workload: Workload, index: NDArray[np.int64], missed: Array, count: int) -> Array:
    """Return the errors (queries, parts) that the errors (K,) of the measured moments make."""
    return np.concatenate([workload.coefficients(index, start, min(start + QUERIES_AT_A_TIME, count)) @ missed
                           for start in range(0, count, QUERIES_AT_A_TIME)])


def held(errors: Array, measured: Array, bars: PredictedError) -> dict[str, list[float]]:
    """Return how error bars did on one workload: of each name below a list with one number for each part.

    `errors` (queries, parts) have their signs; `measured` is the part of each that comes from the measured moments.
    "within": the share of queries whose absolute error is within the bound; "worst": 1 if the worst error is, else 0;
    "ratio": the median of bound / error; "excess": the root mean square of the errors over that of the predicted
    deviations; "unmeasured": the share of the squared errors that comes from what was not measured.
    """
    size, rest = np.abs(errors), np.square(errors - measured).sum(axis=0)
    return {"within": (size <= bars.bound).mean(axis=0).tolist(),
            "worst": (size.max(axis=0) <= bars.worst).astype(np.float64).tolist(),
            "ratio": np.median(bars.bound / np.maximum(size, SMALLEST_ERROR), axis=0).tolist(),
            "excess": np.sqrt(np.square(errors).sum(axis=0) / np.square(bars.deviation).sum(axis=0)).tolist(),
            "unmeasured": (rest / np.maximum(rest + np.square(measured).sum(axis=0), SMALLEST_ERROR**2)).tolist()}


def cells(asked: Asked) -> dict[Call, dict[str, Any]]:
    """Return the calls: so many releases of every data set at every budget."""
    return {call(held_bars, name, epsilon, delta, r, asked.size): {"dataset": name, "setting": setting}
            for name in asked.names for setting, (epsilon, delta) in BUDGETS.items() for r in range(asked.seeds)}


def table(lines: pd.DataFrame) -> pd.DataFrame:
    """Return of all releases what is told of error bars, a line for each width."""
    found = lines.groupby(["dataset", "setting", "workload", "sigma", "what"], sort=False)["value"].agg(
        ["mean", "median", "sem", "count"]).unstack("what", sort=False)
    return pd.DataFrame({what: found[how][what] for what, how in TOLD.items()}).assign(
        within_error=found["sem"]["within"].fillna(0.0), repetitions=found["count"]["within"]).reset_index()


def page(lines: pd.DataFrame, asked: Asked) -> list[str]:
    """Return the Markdown: a table for each setting, and where the goal is missed."""
    average = lines["within"].mean()
    text = [f"# Error bars at {LEVEL:.0%} against the truth", "",
            f"`predicted_error` of {asked.size} queries of W1, {PAIR_QUERIES} of W2 and all of W3, over {asked.seeds} "
            "releases by the default mechanism. Answers from the weighted points.", "",
            "- *within*: share of the queries whose absolute error is at most the query's bound, mean over the "
            f"releases ± its standard error; goal: at least {LEVEL:g} on average. ✗: below it.",
            "- *worst*: share of the releases whose worst error is at most `worst`.",
            "- *ratio*: median of bound / error; how wide the bars are. About 3 for normal errors of the stated size.",
            "- *excess*: root mean square error over predicted deviation. Above 1 the deviation is too small, or the "
            "fit has missed its target, which the bounds know and add.",
            "- *unmeasured*: share of the squared errors that comes from what was not measured, where there is no "
            "noise law but only the planner's priors.", "",
            f"On average over the {len(lines)} rows {shown(average)} of the queries are within: the goal is "
            f"{'' if average >= LEVEL else 'not '}reached."]
    for setting, own in lines.groupby("setting", sort=False):
        epsilon, delta = BUDGETS[str(setting)]
        rows = [[row.dataset, row.workload.upper(), row.sigma, _within(row) + " ✗" * (row.within < LEVEL),
                 f"{row.worst:.2f}", f"{row.ratio:.3g}", f"{row.excess:.2f}", f"{row.unmeasured:.2f}"]
                for row in own.itertuples()]
        text += ["", f"## Setting {str(setting)[0]}: ε = {epsilon:g}, δ = {delta:g}", "", *markdown(
            ["data", "workload", "σ", "within", "worst", "ratio", "excess", "unmeasured"], rows)]
    return [*text, "", f"## Where {LEVEL:.0%} is not reached, and why", "", *_reasons(lines)]


def _within(row: Any) -> str:
    return f"{row.within:.3f} ± {row.within_error:.3f}"


def _reasons(lines: pd.DataFrame) -> list[str]:
    missing = lines[lines["within"] < LEVEL]
    if missing.empty:
        return ["Nowhere."]
    return [f"In {len(missing)} of {len(lines)} rows. In {(missing['unmeasured'] >= 0.5).sum()} of them most of the "
            "squared error is the "
            "bias of what was not measured: moments of higher degree, or of more columns at once, that the data have "
            "and the fitted points do not. The bars allow for it by the planner's priors, which are the same for all "
            "data. In the others it comes from measured moments. Broad kernels have nearly proportional coefficients, "
            "so that W1's queries err together: of a release nearly all or few are within, and the standard error "
            "over the releases tells what may be luck. What is beyond luck is the denoising, or priors smaller than "
            "the moments of these data: the noise has a known law, and what the fit did not reach is added.", "",
            *(f"- {row.dataset}, {row.setting}, {row.workload.upper()}{f', σ = {row.sigma}' if row.sigma else ''}: "
              f"{_within(row)}; errors {row.excess:.2f} times the predicted deviation, {row.unmeasured:.0%} of their "
              "squares not measured" for row in missing.itertuples())]


def check(results: Path) -> list[str]:
    """Return what results/coverage.csv breaks of the promise of the error bars; empty if nothing or not there."""
    path = results / "coverage.csv"
    average = read_csv(path)["within"].mean() if path.exists() else 1.0
    return [] if average >= LEVEL else [f"coverage: {average:.3f} of the queries are within the bars, not {LEVEL:g}"]


coverage = Experiment(
    name="coverage", what="error bars against the truth (half an hour)", numbers=True, seeds=(2, 5), size=(100, 500),
    cells=cells, lines=of_workloads, table=table, page=page, check=check,
    formats=dict.fromkeys(TOLD, ".6g") | {"within_error": ".2g"})
