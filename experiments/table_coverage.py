"""Error bars of releases of columns and tables against the truth: how many errors are within, and how wide bars are.

Made tables set the factor of :mod:`trigmech.evaluation.resampling`; real ones check it.
"""

from collections.abc import Iterable
from functools import lru_cache
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import trigmech as tm
from experiments.asked import Asked
from experiments.cells import Call, call
from experiments.declare import Experiment
from experiments.frames import arranged, geometric, markdown, of_kinds, read_csv
from experiments.protocols.data import load
from trigmech.evaluation import statistics
from trigmech.evaluation.error_bars import PredictedError

Array = NDArray[np.float64]

LEVEL, SEED = 0.95, 2014
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


def held_bars(dataset: str, epsilon: float, repetition: int) -> dict[str, Any]:
    """Return, of one release of columns and tables, what :func:`held` says of each kind of statistic."""
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
    """Return statistics of each kind, some of them at random."""
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
    """Return families of smooth queries of d numbers."""
    found: dict[str, Any] = {"GaussianKernels": tm.workload.GaussianKernels(d, seed=SEED, n_queries=QUERIES)}
    if d > 1:
        found |= {"PairKernels": tm.workload.PairKernels(d, seed=SEED, n_queries=QUERIES),
                  "SecondMoments": tm.workload.SecondMoments(d)}
    return found


def held(pairs: Iterable[tuple[Array, PredictedError]]) -> dict[str, float]:
    """Return how error bars did, from errors and bars: "within", and means and medians of errors and bounds.

    Values that are 0, as all say, do not count.
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
    table, schema = load(name.split()[0])
    return (table.sample(rows, random_state=SEED).reset_index(drop=True) if rows else table), schema, delta


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


def cells(asked: Asked) -> dict[Call, dict[str, Any]]:
    """Return the calls; made tables are always among the data sets, and differ in each of so many releases."""
    sources = {each.source for each in asked.inputs}
    return {call(held_bars, name, epsilon, repetition): {"dataset": name, "epsilon": epsilon}
            for name in (*MADE, *(name for name in REAL if name.split()[0] in sources)) for epsilon in asked.epsilons
            for repetition in range(asked.seeds)}


def summary(lines: pd.DataFrame) -> pd.DataFrame:
    """Return the lines of the CSV: means over the releases of each table, budget and kind of statistic."""
    keys = ["dataset", "epsilon", "kind"]
    grouped = lines.groupby(keys, sort=False)
    mean = grouped[["within", "error", "bound", "middle_error", "middle_bound", "zero"]].mean()
    found = pd.DataFrame({
        "within": mean["within"], "least": grouped["within"].min(),
        "width": mean["bound"] / mean["error"].clip(lower=1e-12) / OF_MEAN,
        "middle": mean["middle_bound"] / mean["middle_error"].clip(lower=1e-12) / OF_MEDIAN,
        "error": mean["error"], "zero": mean["zero"], "releases": grouped.size()}).reset_index()
    return arranged(found, ["dataset", "epsilon"], lines)


def page(lines: pd.DataFrame, asked: Asked) -> list[str]:
    """Return the Markdown: shares and widths by table, budget and kind."""
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
    return [f"# Error bars of tables at {LEVEL:.0%} against the truth", "",
            f"`Synthesis.error_bars` and `predicted_error` over {lines['releases'].max()} releases of each table by "
            "TableMechanism; made tables differ each time.", "",
            "- In each entry first the share of errors that are within their bound; the goal is "
            f"{LOWEST:g} to {HIGHEST:g}. ✗: less.",
            "- Then the width: how much wider the bounds are than the errors warrant, the mean bound over the mean "
            "error, divided by 2.46, which it is for normal errors; the goal is at most 2.",
            "- *columns*, *pairs*, *triples*: contingency tables; numbers are cut into 16, 6 and 3 equal parts of "
            "their bounds. *ranges*: distribution functions of numbers. Values that are 0, as all tables agree, do not "
            "count.",
            "- Made tables set the one factor of the bounds. How plausible tables are drawn was settled by looking at "
            "releases of these real tables too.", "",
            *(line.replace("** |  |", "** | |") for line in markdown(["table", "ε", *kinds], rows))]


def averages(lines: pd.DataFrame, datasets: Iterable[str]) -> pd.DataFrame:
    """Return, by kind, the mean of "within" and the geometric mean of "width" over data sets and budgets."""
    mine = lines[lines["dataset"].isin(list(datasets))]
    return mine.groupby("kind", sort=False).agg(within=("within", "mean"), width=("width", geometric))


def check(results: Path) -> list[str]:
    """Return what the committed results break of the promises; empty if nothing or not there."""
    path = results / "coverage_tables.csv"
    if not path.exists():
        return []
    lines = read_csv(path)
    means = averages(lines, REAL).reindex(lines["kind"].unique())
    return [f"coverage_tables: of real tables' {mean.Index} {mean.within:.3f} are within, at a width of "
            f"{mean.width:.2f}" for mean in means.itertuples()
            if not (mean.within >= (LOWEST_OF_PEARSON if mean.Index == "pearson" else LOWEST) and mean.width <= WIDEST)]


coverage_tables = Experiment(
    name="coverage_tables", what="error bars of columns and tables against the truth (half an hour; a part needs no "
    "data)", inputs=list(dict.fromkeys(name.split()[0] for name in REAL)), needed=False, seeds=(1, 5),
    epsilons=((1.0,), (0.3, 1.0, 3.0)), cells=cells, lines=of_kinds, table=summary, page=page, check=check,
    formats={"epsilon": "g", "within": ".4f", "least": ".4f", "width": ".3f", "middle": ".3f", "error": ".3g",
             "zero": ".4f"})
