"""Error bars of releases of columns and tables against the truth: how many errors are within, and how wide bars are.

Made tables set the factor of :mod:`trigmech.evaluation.resampling`; real ones check it.
"""

import csv
import math
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import trigmech as tm
from experiments.cells import code_fingerprint, key_of, run_cells, write_csv, write_markdown
from experiments.protocols.boards import available
from experiments.protocols.data import load
from trigmech.evaluation import statistics
from trigmech.evaluation.error_bars import PredictedError

Array = NDArray[np.float64]

LEVEL, SEED = 0.95, 2014
EPSILONS = (0.3, 1.0, 3.0)
# Rows of a random part (0: all), and delta.
REAL = {"nist_demographic": (0, 1e-5), "adult 3,000": (3_000, 1e-6), "adult 10,000": (10_000, 1e-6),
        "synmeter_bean": (0, 1e-5), "synmeter_magic": (0, 1e-5), "synmeter_insurance": (0, 1e-5), "nltcs": (0, 0.0)}
MADE = {"made, 1,000": (1_000, 1e-6), "made, 5,000": (5_000, 1e-6), "made, 20,000": (20_000, 1e-6),
        "made, pure": (5_000, 0.0)}
PAIRS, TRIPLES, THRESHOLDS, QUERIES = 25, 15, 20, 100
# Goals; correlations of strongly dependent numbers with long tails fall short.
LOWEST, HIGHEST, LOWEST_OF_PEARSON, WIDEST = 0.93, 0.98, 0.8, 2.0
# Of a normal error: its 95 % bound over its mean size, and over its median size.
OF_MEAN, OF_MEDIAN = 1.96 / 0.798, 1.96 / 0.6745
NOTHING = 1e-9


@dataclass(frozen=True)
class TableBars:
    """One release of columns and tables, whose error bars are held against the truth."""

    dataset: str
    epsilon: float
    repetition: int

    def key(self) -> str:
        """Return the name of the cache file."""
        return key_of(self, "coverage-tables", code_fingerprint(None, ("table_coverage", "protocols/data")))

    @property
    def shares(self) -> Hashable:
        """Releases of the same table."""
        return self.dataset

    def compute(self) -> dict[str, Any]:
        """Return what :func:`held` says of each kind of statistic."""
        table, schema, delta = _table(self.dataset, self.repetition)
        rng = np.random.default_rng([self.repetition, *self.dataset.encode()])
        made = tm.synthesize(table, schema, tm.Budget(self.epsilon, delta), tm.TableMechanism(), rng)
        points = schema.to_cube(table)
        columns, found = schema.decode(points), {}
        for kind, chosen in asked(schema, rng).items():
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


def asked(schema: tm.Schema, rng: np.random.Generator) -> dict[str, list[statistics.Statistic]]:
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


def coverage_tables(names: Sequence[str], jobs: int, quick: bool, seeds: int = 5,
                    epsilons: Sequence[float] = ()) -> list[Path]:
    """Write results/coverage_tables.csv and .md, and return the page.

    Parameters
    ----------
    names : sequence of str
        Data sets of the protocols; none for all that are there. Made tables are always among them.
    jobs : int
    quick : bool
        1 release of each table, at epsilon = 1.
    seeds : int
        Releases of each table; made tables differ each time.
    epsilons : sequence of float
        Default: 0.3, 1 and 3.
    """
    seeds, budgets = (1, (1.0,)) if quick else (seeds, tuple(epsilons) or EPSILONS)
    wanted = [name for name in REAL if not names or name.split()[0] in names]
    found = available(dict.fromkeys(name.split()[0] for name in wanted))
    chosen = [*MADE, *(name for name in wanted if name.split()[0] in found)]
    cells = [TableBars(name, epsilon, repetition) for name in chosen for epsilon in budgets
             for repetition in range(seeds)]
    results: dict[tuple[str, float], list[dict[str, dict[str, float]]]] = {}
    for cell, result in run_cells(cells, jobs, "coverage of tables"):
        results.setdefault((cell.dataset, cell.epsilon), []).append(result)
    rows = [row for name in chosen for epsilon in budgets for row in summary(name, epsilon, results[name, epsilon])]
    whole = len(chosen) == len(MADE) + len(REAL) and budgets == EPSILONS
    suffix = "_quick" * quick + "_partial" * (not whole and not quick)
    write_csv("coverage_tables" + suffix, rows)
    return [write_markdown("coverage_tables" + suffix, page(rows, seeds))]


def summary(dataset: str, epsilon: float, results: Sequence[dict[str, dict[str, float]]]) -> list[dict[str, Any]]:
    """Return the lines of one data set and budget, one for each kind of statistic."""
    lines = []
    for kind in dict.fromkeys(kind for result in results for kind in result):
        each = [result[kind] for result in results if kind in result]
        mean = {what: float(np.mean(np.sort([one[what] for one in each]))) for what in each[0]}
        lines.append({"dataset": dataset, "epsilon": f"{epsilon:g}", "kind": kind, "within": f"{mean['within']:.4f}",
                      "least": f"{min(one['within'] for one in each):.4f}",
                      "width": f"{mean['bound'] / max(mean['error'], 1e-12) / OF_MEAN:.3f}",
                      "middle": f"{mean['middle_bound'] / max(mean['middle_error'], 1e-12) / OF_MEDIAN:.3f}",
                      "error": f"{mean['error']:.3g}", "zero": f"{mean['zero']:.4f}", "releases": len(each)})
    return lines


def page(rows: Sequence[dict[str, Any]], seeds: int) -> list[str]:
    """Return the Markdown, from the lines of the CSV file."""
    kinds = list(dict.fromkeys(row["kind"] for row in rows))
    text = [f"# Error bars of tables at {LEVEL:.0%} against the truth", "",
            f"`Synthesis.error_bars` and `predicted_error` over {seeds} releases of each table by TableMechanism; made "
            "tables differ each time.", "",
            "- In each entry first the share of errors that are within their bound; the goal is "
            f"{LOWEST:g} to {HIGHEST:g}. ✗: less.",
            "- Then the width: how much wider the bounds are than the errors warrant, the mean bound over the mean "
            "error, divided by 2.46, which it is for normal errors; the goal is at most 2.",
            "- *columns*, *pairs*, *triples*: contingency tables; numbers are cut into 16, 6 and 3 equal parts of "
            "their bounds. *ranges*: distribution functions of numbers. Values that are 0, as all tables agree, do not "
            "count.",
            "- Made tables set the one factor of the bounds. How plausible tables are drawn was settled by looking at "
            "releases of these real tables too.", "",
            "| table | ε | " + " | ".join(kinds) + " |", "| --- | --- |" + " --- |" * len(kinds)]
    of = {(row["dataset"], row["epsilon"], row["kind"]): row for row in rows}
    for dataset, epsilon in dict.fromkeys((row["dataset"], row["epsilon"]) for row in rows):
        entries = [_entry(of.get((dataset, epsilon, kind))) for kind in kinds]
        text.append(f"| {dataset} | {epsilon} | " + " | ".join(entries) + " |")
    for label, chosen in (("made", MADE), ("real", REAL)):
        entries = ["" if math.isnan(within) else f"**{within:.3f}**, {width:.2f}"
                   for within, width in (average(rows, chosen, kind) for kind in kinds)]
        text.append(f"| **all {label}** | | " + " | ".join(entries) + " |")
    return text


def average(rows: Sequence[dict[str, Any]], datasets: Iterable[str], kind: str) -> tuple[float, float]:
    """Return the mean of "within" and the geometric mean of "width" over data sets and budgets; NaN if of none."""
    mine = [row for row in rows if row["kind"] == kind and row["dataset"] in datasets]
    if not mine:
        return math.nan, math.nan
    return (float(np.mean([float(row["within"]) for row in mine])),
            float(np.exp(np.mean(np.log([float(row["width"]) for row in mine])))))


def check(results: Path) -> list[str]:
    """Return what the committed results break of the promises; empty if nothing or not there."""
    path = results / "coverage_tables.csv"
    if not path.exists():
        return []
    with path.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    failures = []
    for kind in dict.fromkeys(row["kind"] for row in rows):
        within, width = average(rows, REAL, kind)
        if not (within >= (LOWEST_OF_PEARSON if kind == "pearson" else LOWEST) and width <= WIDEST):
            failures.append(f"coverage_tables: of real tables' {kind} {within:.3f} are within, at a width of "
                            f"{width:.2f}")
    return failures


def _entry(row: dict[str, Any] | None) -> str:
    if row is None:
        return ""
    return f"{float(row['within']):.3f}, {float(row['width']):.2f}" + " ✗" * (float(row["within"]) < LOWEST)
