"""Error bars against the truth: how many errors are within the predicted bars, and how wide the bars are.

One experiment is on smooth queries of the thesis's sets by `MomentMechanism`. Another is on columns, tables and smooth
queries by `TableMechanism`: made tables set the factor of :mod:`trigmech.evaluation.resampling`, real ones check it.
"""

from collections.abc import Iterable
from functools import lru_cache
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import trigmech as tm
from experiments import Array, frames
from experiments.asked import Asked
from experiments.declare import Experiment, calls_of
from experiments.frames import geometric, markdown, worded
from experiments.protocols.data import Sample
from experiments.runs import answers, cube, workloads
from trigmech.evaluation import statistics
from trigmech.evaluation.error_bars import PredictedError
from trigmech.workload import Workload

LEVEL, SEED = 0.95, 2014

# Smooth queries

BUDGETS = {"A": (1.0, 0.0), "B": (1.0, 1e-3), "B, ε = 0.3": (0.3, 1e-3), "B, ε = 10": (10.0, 1e-3)}
PAIR_QUERIES = 500
QUERIES_AT_A_TIME = 100
# Errors below this are rounding, and no ratio is taken to them.
SMALLEST_ERROR = 1e-12
# The measures of error bars, and the summary of each over several releases.
TOLD = {"within": "mean", "worst": "mean", "ratio": "median", "excess": "mean", "unmeasured": "mean"}


def smooth_bars(dataset: str, setting: str, repetition: int, n_queries: int = 500) -> dict[str, Any]:
    """Return how the error bars of one release did, by :func:`held_by_width`, for each of "w1", "w2" and "w3"."""
    X, exact, found = cube(dataset), answers(dataset, n_queries, n_pairs=PAIR_QUERIES), {}
    rng = np.random.default_rng([repetition, *dataset.encode()])
    synthesis = tm.synthesize(X, tm.Schema.cube(X.shape[1]), tm.Budget(*BUDGETS[setting]), tm.MomentMechanism(), rng)
    points, basis = synthesis.distribution.points, synthesis.release.basis
    # The points of the default mechanism have equal weights.
    missed = basis.means(points) - basis.means(X)
    for which, workload in workloads(X.shape[1], n_queries, PAIR_QUERIES).items():
        errors = workload.answers(points, synthesis.distribution.weights) - exact[which]
        found[which] = held_by_width(errors, _combined(workload, basis.index, missed, len(errors)),
                            synthesis.predicted_error(workload, LEVEL))
    return found


def _combined(workload: Workload, index: NDArray[np.int64], missed: Array, count: int) -> Array:
    """Return the errors (queries, parts) that the errors (K,) of the measured moments make."""
    return np.concatenate([workload.coefficients(index, start, min(start + QUERIES_AT_A_TIME, count)) @ missed
                           for start in range(0, count, QUERIES_AT_A_TIME)])


def held_by_width(errors: Array, measured: Array, bars: PredictedError) -> dict[str, list[float]]:
    """Return how error bars did on one workload: for each name below, a list with one number for each part.

    `errors` (queries, parts) have their signs; `measured` is the part of each that comes from the measured moments.
    "within": the share of queries whose absolute error is within the bound; "worst": 1 if the worst error is, else 0;
    "ratio": the median of bound / error; "excess": the root mean square of the errors over that of the predicted
    deviations; "unmeasured": the share of the squared errors that comes from unmeasured moments.
    """
    size, rest = np.abs(errors), np.square(errors - measured).sum(axis=0)
    return {"within": (size <= bars.bound).mean(axis=0).tolist(),
            "worst": (size.max(axis=0) <= bars.worst).astype(np.float64).tolist(),
            "ratio": np.median(bars.bound / np.maximum(size, SMALLEST_ERROR), axis=0).tolist(),
            "excess": np.sqrt(np.square(errors).sum(axis=0) / np.square(bars.deviation).sum(axis=0)).tolist(),
            "unmeasured": (rest / np.maximum(rest + np.square(measured).sum(axis=0), SMALLEST_ERROR**2)).tolist()}


def smooth_table(lines: pd.DataFrame) -> pd.DataFrame:
    found = lines.groupby(["dataset", "setting", "workload", "sigma", "what"], sort=False)["value"].agg(
        ["mean", "median", "sem", "count"]).unstack("what", sort=False)
    return pd.DataFrame({what: found[how][what] for what, how in TOLD.items()}).assign(
        within_error=found["sem"]["within"].fillna(0.0), repetitions=found["count"]["within"]).reset_index()


def smooth_page(lines: pd.DataFrame, asked: Asked) -> list[str]:
    average, tables = lines["within"].mean(), {}
    for setting, own in lines.groupby("setting", sort=False):
        epsilon, delta = BUDGETS[str(setting)]
        rows = [[row.dataset, row.workload.upper(), row.sigma, _within(row) + " ✗" * (row.within < LEVEL),
                 f"{row.worst:.2f}", f"{row.ratio:.3g}", f"{row.excess:.2f}", f"{row.unmeasured:.2f}"]
                for row in own.itertuples()]
        tables[f"Setting {str(setting)[0]}: ε = {epsilon:g}, δ = {delta:g}"] = markdown(
            ["data", "workload", "σ", "within", "worst", "ratio", "excess", "unmeasured"], rows)
    missing = lines[lines["within"] < LEVEL]
    reasons: Any = "Nowhere." if missing.empty else worded(
        "coverage_reasons", missing=len(missing), rows=len(lines), biased=(missing["unmeasured"] >= 0.5).sum(), lines=[
            f"- {row.dataset}, {row.setting}, {row.workload.upper()}{f', σ = {row.sigma}' if row.sigma else ''}: "
            f"{_within(row)}; errors {row.excess:.2f} times the predicted deviation, {row.unmeasured:.0%} of their "
            "squares not measured" for row in missing.itertuples()])
    return worded("coverage", size=asked.size, pairs=PAIR_QUERIES, seeds=asked.seeds, level=LEVEL, rows=len(lines),
                  average=frames.shown(average), reached="" if average >= LEVEL else "not ",
                  tables=frames.sections(tables), reasons=reasons)


def _within(row: Any) -> str:
    return f"{row.within:.3f} ± {row.within_error:.3f}"


# Columns and tables

# Rows of a random part (0: all), and delta.
REAL = {"nist_demographic": (0, 1e-5), "adult 3,000": (3_000, 1e-6), "adult 10,000": (10_000, 1e-6),
        "synmeter_bean": (0, 1e-5), "synmeter_magic": (0, 1e-5), "synmeter_insurance": (0, 1e-5), "nltcs": (0, 0.0)}
MADE = {"made, 1,000": (1_000, 1e-6), "made, 5,000": (5_000, 1e-6), "made, 20,000": (20_000, 1e-6),
        "made, pure": (5_000, 0.0)}
PAIRS, TRIPLES, THRESHOLDS, QUERIES = 25, 15, 20, 100
# Goals; correlations of strongly dependent numbers with long tails fall short.
LOWEST, HIGHEST, LOWEST_OF_PEARSON, WIDEST = 0.93, 0.98, 0.8, 2.0
# The 95 % bound of a normal error over its mean size, and over its median size.
OF_MEAN, OF_MEDIAN = 1.96 / 0.798, 1.96 / 0.6745
NOTHING = 1e-9


def table_bars(dataset: str, epsilon: float, repetition: int) -> dict[str, Any]:
    """Return how error bars did, by :func:`held`, for each kind of statistic of one release of columns and tables."""
    table, schema, delta = _table(dataset, repetition)
    rng = np.random.default_rng([repetition, *dataset.encode()])
    made = tm.synthesize(table, schema, tm.Budget(epsilon, delta), tm.TableMechanism(), rng)
    points = schema.to_cube(table)
    columns, found = schema.decode(points), {}
    for kind, chosen in chosen_statistics(schema, rng).items():
        pairs = []
        for statistic in chosen:
            answers = made.error_bars(statistic, LEVEL)
            assert answers.error is not None
            pairs.append((answers.values - statistic(columns), answers.error))
        found[kind] = held(pairs)
    numbers = list(schema.domain.numbers)
    for kind, family in families(len(numbers)).items():
        answers = made.query(family, LEVEL)
        assert answers.error is not None
        found[kind] = held([(answers.values - family.answers(points[:, numbers]), answers.error)])
    return found


def chosen_statistics(schema: tm.Schema, rng: np.random.Generator) -> dict[str, list[statistics.Statistic]]:
    def sets(size: int, count: int, cells: int) -> list[statistics.Statistic]:
        every = list(combinations(schema.names, size))
        chosen = [every[i] for i in rng.permutation(len(every))[:count]]
        return [statistics.marginal(schema, names, cells) for names in chosen]

    numbers = [column for column in schema.columns if column.kind in ("continuous", "integer")]
    found = {"columns": sets(1, schema.d, 16), "pairs": sets(2, PAIRS, 6), "triples": sets(3, TRIPLES, 3)}
    if numbers:
        found |= {"ranges": [statistics.ranges(schema, column.name, rng.uniform(*column.bounds, THRESHOLDS))
                             for column in numbers], "means": [statistics.means(tm.Schema(numbers))]}
    if len(numbers) > 1:
        found |= {kind: [statistics.correlations(tm.Schema(numbers), kind)] for kind in ("pearson", "spearman")}
    return found


def families(d: int) -> dict[str, Any]:
    found: dict[str, Any] = {"GaussianKernels": tm.workload.GaussianKernels(d, seed=SEED, n_queries=QUERIES)}
    if d > 1:
        found |= {"PairKernels": tm.workload.PairKernels(d, seed=SEED, n_queries=QUERIES),
                  "SecondMoments": tm.workload.SecondMoments(d)}
    return found


def held(pairs: Iterable[tuple[Array, PredictedError]]) -> dict[str, float]:
    """Return how error bars did, from errors and bars: "within", and means and medians of errors and bounds.

    "zero" is the share of bounds that are 0. Values whose error and bound are both 0 do not count.
    """
    every = [(np.abs(error).ravel(), bars.bound.ravel()) for error, bars in pairs]
    error, bound = (np.concatenate(each) for each in zip(*every, strict=True))
    counted = (error > NOTHING) | (bound > NOTHING)
    error, bound = error[counted], bound[counted]
    return {"within": float((error <= bound).mean()), "error": float(error.mean()), "bound": float(bound.mean()),
            "middle_error": float(np.median(error)), "middle_bound": float(np.median(bound)),
            "zero": float((bound <= NOTHING).mean())}


@lru_cache(maxsize=2)
def _table(name: str, repetition: int) -> tuple[pd.DataFrame, tm.Schema, float]:
    if name in MADE:
        rows, delta = MADE[name]
        return *made_table(rows, np.random.default_rng([SEED, repetition, rows])), delta
    rows, delta = REAL[name]
    return *Sample(name.split()[0], rows).load(SEED), delta


def made_table(rows: int, rng: np.random.Generator) -> tuple[pd.DataFrame, tm.Schema]:
    """Return a table of some random law: numbers and categories that depend on two common factors, more or less."""
    d, strength = int(rng.integers(5, 13)), rng.uniform(0.0, 1.5)
    common = rng.normal(size=(rows, 2))
    latent = strength * common @ rng.normal(size=(2, d)) * rng.uniform(0.0, 1.0, d) + rng.normal(size=(rows, d))
    latent /= latent.std(axis=0)
    columns, described = {}, []
    for j, z in enumerate(latent.T):
        kind, name = ("normal", "skewed", "atoms", "integer", "category")[rng.integers(5)], f"x{j}"
        if kind == "category":
            edges = np.sort(rng.normal(size=int(rng.integers(1, 8))))
            columns[name] = np.searchsorted(edges, z).astype(str)
            described.append(tm.Column(name, kind="categorical", categories=tuple(map(str, range(len(edges) + 1)))))
        elif kind == "integer":
            top = int(rng.integers(5, 100))
            columns[name] = np.clip(np.round((z + 2.0) * top / 5.0), 0, top)
            described.append(tm.Column(name, 0, top, "integer"))
        else:
            values = np.exp(rng.uniform(0.5, 1.5) * z) if kind == "skewed" else z
            if kind == "atoms":
                values = np.where(rng.random(rows) < 0.6, 0.0, np.abs(values))
            columns[name] = values
            described.append(tm.Column(name, -5.0 if kind == "normal" else 0.0, rng.uniform(5.0, 30.0)))
    return pd.DataFrame(columns), tm.Schema(described)


def summary(lines: pd.DataFrame) -> pd.DataFrame:
    keys = ["dataset", "epsilon", "kind"]
    grouped = lines.groupby(keys, sort=False)
    mean = grouped[["within", "error", "bound", "middle_error", "middle_bound", "zero"]].mean()
    found = pd.DataFrame({
        "within": mean["within"], "least": grouped["within"].min(),
        "width": mean["bound"] / mean["error"].clip(lower=1e-12) / OF_MEAN,
        "middle": mean["middle_bound"] / mean["middle_error"].clip(lower=1e-12) / OF_MEDIAN,
        "error": mean["error"], "zero": mean["zero"], "releases": grouped.size()}).reset_index()
    return frames.arranged(found, ["dataset", "epsilon"], lines)


def table_page(lines: pd.DataFrame, asked: Asked) -> list[str]:
    kinds = list(dict.fromkeys(lines["kind"]))
    rows = []
    for (dataset, epsilon), own in lines.groupby(["dataset", "epsilon"], sort=False):
        of = own.set_index("kind")
        rows.append([dataset, f"{epsilon:g}", *(
            f"{of['within'][kind]:.3f}, {of['width'][kind]:.2f}" + " ✗" * bool(of["within"][kind] < LOWEST)
            if kind in of.index else "" for kind in kinds)])
    for label, chosen in (("made", MADE), ("real", REAL)):
        means = averages(lines, chosen)
        rows.append([f"**all {label}**", "", *(
            f"**{means['within'][kind]:.3f}**, {means['width'][kind]:.2f}" if kind in means.index else ""
            for kind in kinds)])
    return worded("coverage_tables", level=LEVEL, releases=lines["releases"].max(), lowest=LOWEST, highest=HIGHEST,
                  table=[line.replace("** |  |", "** | |") for line in markdown(["table", "ε", *kinds], rows)])


def averages(lines: pd.DataFrame, datasets: Iterable[str]) -> pd.DataFrame:
    """Return, by kind, the mean of "within" and the geometric mean of "width" over data sets and budgets."""
    mine = lines[lines["dataset"].isin(list(datasets))]
    return mine.groupby("kind", sort=False).agg(within=("within", "mean"), width=("width", geometric))


def check_smooth(lines: pd.DataFrame) -> list[str]:
    average = lines["within"].mean()
    return [f"coverage: {average:.3f} of the queries are within the bars, not {LEVEL:g}"] * bool(average < LEVEL)


def check_tables(lines: pd.DataFrame) -> list[str]:
    return [f"coverage_tables: of real tables' {mean.Index} {mean.within:.3f} are within, at a width of "
            f"{mean.width:.2f}" for mean in averages(lines, REAL).reindex(lines["kind"].unique()).itertuples()
            if not (mean.within >= (LOWEST_OF_PEARSON if mean.Index == "pearson" else LOWEST)
                    and mean.width <= WIDEST)]


coverage = Experiment(
    name="coverage", what="error bars against the truth (half an hour)", numbers=True, seeds=(2, 5), size=(100, 500),
    cells=lambda asked: calls_of(smooth_bars, asked, asked.size, dataset=asked.names, setting=BUDGETS),
    lines=frames.of_workloads, table=smooth_table, page=smooth_page, check=check_smooth,
    formats=dict.fromkeys(TOLD, ".6g") | {"within_error": ".2g"})
coverage_tables = Experiment(
    name="coverage_tables", what="error bars of columns and tables against the truth (half an hour; a part needs no "
    "data)", inputs=list(dict.fromkeys(name.split()[0] for name in REAL)), needed=False, seeds=(1, 5),
    epsilons=((1.0,), (0.3, 1.0, 3.0)), table=summary, page=table_page,
    # Made tables are always among the data sets, and differ in each of so many releases.
    cells=lambda asked: calls_of(table_bars, asked, dataset=[*MADE, *(
        name for name in REAL if name.split()[0] in {each.source for each in asked.inputs})], epsilon=asked.epsilons),
    lines=lambda head, result: [{**head, "kind": kind, **found} for kind, found in result.items()],
    check=check_tables, formats={"epsilon": "g", "within": ".4f", "least": ".4f", "width": ".3f", "middle": ".3f",
                          "error": ".3g", "zero": ".4f"})
