"""How often the truth lies within the predicted error bars, how wide they are, and what lies outside."""

import csv
import math
from collections.abc import Hashable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

import trigmech as tm
from experiments.cells import _cube, _truth, _workloads, code_fingerprint, key_of, run_cells, write_csv, write_markdown
from experiments.comparison import SIGMAS, shown
from experiments.search import partial
from trigmech.evaluation.error_bars import PredictedError
from trigmech.measurement.released import Release
from trigmech.workload import Workload

Array = NDArray[np.float64]

LEVEL = 0.95
BUDGETS = {"A": (1.0, 0.0), "B": (1.0, 1e-3), "B, ε = 0.3": (0.3, 1e-3), "B, ε = 10": (10.0, 1e-3)}
PAIR_QUERIES = 500
QUERIES_AT_A_TIME = 100
# Errors below this are rounding, and no ratio is taken to them.
SMALLEST_ERROR = 1e-12


@dataclass(frozen=True)
class Bars:
    """One release, whose error bars are held against the truth.

    Parameters
    ----------
    dataset : str
    epsilon, delta : float
    repetition : int
        Also the seed of the run, with the data set's name.
    n_queries : int
        Of W1.
    """

    dataset: str
    epsilon: float
    delta: float
    repetition: int
    n_queries: int = 500

    def key(self) -> str:
        """Return the name of the cache file."""
        return key_of(self, f"coverage-{self.dataset}", code_fingerprint(None, ("coverage",)))

    @property
    def shares(self) -> Hashable:
        """Releases with the same exact answers."""
        return (self.dataset, self.n_queries)

    def compute(self) -> dict[str, Any]:
        """Return what :func:`held` says, for each of "w1", "w2" and "w3"."""
        X = _cube(self.dataset, 100)
        rng = np.random.default_rng([self.repetition, *self.dataset.encode()])
        synthesis = tm.synthesize(X, tm.Schema.cube(X.shape[1]), tm.Budget(self.epsilon, self.delta),
                                  tm.MomentMechanism(), rng)
        truth = _truth(self.dataset, 100, self.n_queries, PAIR_QUERIES)
        points, basis = synthesis.distribution.points, cast(Release, synthesis.release).basis
        # The points of the default mechanism have equal weights.
        missed = basis.means(points) - basis.means(X)
        found = {}
        for which, workload in _workloads(X.shape[1], self.n_queries, PAIR_QUERIES).items():
            errors = workload.answers(points, synthesis.distribution.weights) - truth[which]
            found[which] = held(errors, _combined(workload, basis.index, missed, len(errors)),
                                synthesis.predicted_error(workload, LEVEL))
        return found


def _combined(workload: Workload, index: NDArray[np.int64], missed: Array, count: int) -> Array:
    """Return the errors (queries, parts) that the errors (K,) of the measured moments make."""
    return np.concatenate([workload.coefficients(index, start, min(start + QUERIES_AT_A_TIME, count)) @ missed
                           for start in range(0, count, QUERIES_AT_A_TIME)])


def held(errors: Array, measured: Array, bars: PredictedError) -> dict[str, list[float]]:
    """Return how error bars did on one workload: for each name below one number for each part.

    Parameters
    ----------
    errors : ndarray (queries, parts)
        With their signs.
    measured : ndarray (queries, parts)
        The part of each that comes from the measured moments.
    bars : PredictedError

    Returns
    -------
    dict
        "within", the share of queries whose absolute error is within the bound; "worst", 1 if the worst error is, else
        0; "ratio", the median of bound / error; "excess", the root mean square of the errors over that of the predicted
        deviations; "unmeasured", the share of the squared errors that comes from what was not measured.
    """
    size, rest = np.abs(errors), np.square(errors - measured).sum(axis=0)
    return {"within": (size <= bars.bound).mean(axis=0).tolist(),
            "worst": (size.max(axis=0) <= bars.worst).astype(np.float64).tolist(),
            "ratio": np.median(bars.bound / np.maximum(size, SMALLEST_ERROR), axis=0).tolist(),
            "excess": np.sqrt(np.square(errors).sum(axis=0) / np.square(bars.deviation).sum(axis=0)).tolist(),
            "unmeasured": (rest / np.maximum(rest + np.square(measured).sum(axis=0), SMALLEST_ERROR**2)).tolist()}


def coverage(names: list[str], jobs: int, quick: bool) -> Path:
    """Write results/coverage.csv and .md.

    Parameters
    ----------
    names : list of str
        Data sets.
    jobs : int
        Processes.
    quick : bool
        2 repetitions and 100 queries of W1 instead of 5 and 500.
    """
    repetitions, queries = (2, 100) if quick else (5, 500)
    cells = {Bars(name, epsilon, delta, r, queries): (name, setting)
             for name in names for setting, (epsilon, delta) in BUDGETS.items() for r in range(repetitions)}
    results: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for cell, result in run_cells(cells, jobs, "coverage"):
        results.setdefault(cells[cell], []).append(result)
    rows = [row for key in dict.fromkeys(cells.values()) for row in summary(*key, results[key])]
    suffix = ("_quick" if quick else "") + partial(names)
    write_csv("coverage" + suffix, rows)
    return write_markdown("coverage" + suffix, report(rows, repetitions, queries))


def summary(dataset: str, setting: str, results: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the CSV lines of one data set and setting: means over the repetitions, of "ratio" the median, and the
    standard error of "within"."""
    lines = []
    for workload, sigmas in SIGMAS.items():
        # Sorted, so that sums do not depend on the order in which the cells were done.
        values = {what: np.sort([result[workload][what] for result in results], axis=0)
                  for what in results[0][workload]}
        for i, sigma in enumerate(sigmas):
            line: dict[str, Any] = {"dataset": dataset, "setting": setting, "workload": workload, "sigma": sigma}
            for what, each in values.items():
                value = np.median(each[:, i]) if what == "ratio" else each[:, i].mean()
                line[what] = f"{value:.6g}"
            within = values["within"][:, i]
            spread = within.std(ddof=1) / math.sqrt(len(within)) if len(within) > 1 else 0.0
            lines.append({**line, "within_error": f"{spread:.2g}", "repetitions": len(results)})
    return lines


def report(rows: list[dict[str, Any]], repetitions: int, queries: int) -> list[str]:
    """Return the Markdown, from the lines of the CSV file."""
    average = float(np.mean([float(row["within"]) for row in rows]))
    lines = [f"# Error bars at {LEVEL:.0%} against the truth", "",
             f"`predicted_error` of {queries} queries of W1, {PAIR_QUERIES} of W2 and all of W3, over {repetitions} "
             "releases by the default mechanism. Answers from the weighted points.", "",
             "- *within*: share of the queries whose absolute error is at most the query's bound, mean over the "
             f"releases ± its standard error; goal: at least {LEVEL:g} on average. ✗: below it.",
             "- *worst*: share of the releases whose worst error is at most `worst`.",
             "- *ratio*: median of bound / error; how wide the bars are. About 3 for normal errors of the stated size.",
             "- *excess*: root mean square error over predicted deviation. Above 1 the deviation is too small, or the "
             "fit has missed its target, which the bounds know and add.",
             "- *unmeasured*: share of the squared errors that comes from what was not measured, where there is no "
             "noise law but only the planner's priors.", "",
             f"On average over the {len(rows)} rows {shown(average)} of the queries are within: the goal is "
             f"{'' if average >= LEVEL else 'not '}reached."]
    for setting, (epsilon, delta) in BUDGETS.items():
        here = [row for row in rows if row["setting"] == setting]
        if not here:
            continue
        lines += ["", f"## Setting {setting[0]}: ε = {epsilon:g}, δ = {delta:g}", "",
                  "| data | workload | σ | within | worst | ratio | excess | unmeasured |",
                  "| --- | --- | --- | --- | --- | --- | --- | --- |"]
        for row in here:
            mark = " ✗" if float(row["within"]) < LEVEL else ""
            lines.append(f"| {row['dataset']} | {row['workload'].upper()} | {row['sigma']} | "
                         f"{_within(row)}{mark} | {float(row['worst']):.2f} | "
                         f"{float(row['ratio']):.3g} | {float(row['excess']):.2f} | {float(row['unmeasured']):.2f} |")
    return [*lines, "", f"## Where {LEVEL:.0%} is not reached, and why", "", *_reasons(rows)]


def _within(row: dict[str, Any]) -> str:
    return f"{float(row['within']):.3f} ± {float(row['within_error']):.3f}"


def _reasons(rows: list[dict[str, Any]]) -> list[str]:
    missing = [row for row in rows if float(row["within"]) < LEVEL]
    if not missing:
        return ["Nowhere."]
    unmeasured = [row for row in missing if float(row["unmeasured"]) >= 0.5]
    lines = [f"In {len(missing)} of {len(rows)} rows. In {len(unmeasured)} of them most of the squared error is the "
             "bias of what was not measured: moments of higher degree, or of more columns at once, that the data have "
             "and the fitted points do not. The bars allow for it by the planner's priors, which are the same for all "
             "data. In the others it comes from measured moments. Broad kernels have nearly proportional coefficients, "
             "so that W1's queries err together: of a release nearly all or few are within, and the standard error "
             "over the releases tells what may be luck. What is beyond luck is the denoising, or priors smaller than "
             "the moments of these data: the noise has a known law, and what the fit did not reach is added.",
             ""]
    for row in missing:
        sigma = f", σ = {row['sigma']}" if row["sigma"] else ""
        lines.append(f"- {row['dataset']}, {row['setting']}, {row['workload'].upper()}{sigma}: "
                     f"{_within(row)}; errors {float(row['excess']):.2f} times the predicted deviation, "
                     f"{float(row['unmeasured']):.0%} of their squares not measured")
    return lines


def check(results: Path) -> list[str]:
    """Return what results/coverage.csv breaks of the promise of the error bars; empty if nothing or not there."""
    path = results / "coverage.csv"
    if not path.exists():
        return []
    with path.open(encoding="utf-8") as file:
        average = float(np.mean([float(row["within"]) for row in csv.DictReader(file)]))
    return [] if average >= LEVEL else [f"coverage: {average:.3f} of the queries are within the bars, not {LEVEL:g}"]
