"""Small tables: how good the default is for some hundred rows, beside simpler things and the same rows as they are."""

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import ks_2samp

import trigmech as tm
from experiments.asked import Asked, LeftOut
from experiments.cells import code_of, key_of, run_cells, write_markdown
from experiments.datasets import DatasetMissing
from experiments.frames import formatted, markdown, write
from experiments.protocols.data import find
from trigmech.planning.shares import Shares

SEEDS, DELTA, CUTS = 10, 1e-5, 6
EPSILONS = (0.5, 1.0, 3.0)
DEFAULT, MOMENTS, INDEPENDENT, BOOTSTRAP = "default", "MomentMechanism", "independent", "bootstrap"
# Independent columns are the release's own: all of the budget goes to the look.
RELEASED = "columns alone"
METHODS: dict[str, Callable[[], Any]] = {
    DEFAULT: lambda: None, MOMENTS: tm.MomentMechanism,
    RELEASED: lambda: tm.TableMechanism(shares=Shares(0.97, 0.02, 0.0, 0, 0.0))}
NOT_PRIVATE = (INDEPENDENT, BOOTSTRAP)
MEASURES = {"columns": "total variation of columns", "pairs": "total variation of pairs",
            "distance": "Kolmogorov's distance of numbers", "ranks": "error of rank correlations",
            "spread": "standard deviations over the real ones"}


@dataclass(frozen=True)
class Sample:
    """Rows of a data set: so many drawn with the release's seed, or all."""

    source: str
    rows: int = 0

    @property
    def name(self) -> str:
        """What the page calls it."""
        return self.source + f", {self.rows:,} rows" * bool(self.rows)

    def load(self, seed: int) -> tuple[pd.DataFrame, tm.Schema]:
        """Return rows and schema."""
        table, schema = _whole(self.source)
        if self.rows:
            table = table.sample(self.rows, random_state=seed).reset_index(drop=True)
        return table, schema


SAMPLES = (Sample("sklearn wine"), Sample("sklearn diabetes"), Sample("wdbc"), Sample("adult", 300),
           Sample("adult", 1000), Sample("nist_demographic", 1000), Sample("aim_titanic"), Sample("synmeter_insurance"),
           Sample("synmeter_obesity"), Sample("synmeter_wine"))
WITHOUT_DATA = SAMPLES[:2]


@cache
def _whole(source: str) -> tuple[pd.DataFrame, tm.Schema]:
    if not source.startswith("sklearn "):
        return find(source).load()
    from sklearn import datasets

    values = getattr(datasets, f"load_{source.split()[1]}")(as_frame=True).data
    numbers = values[[name for name in values if values[name].nunique() > 2]]
    # As in the thesis, the bounds are the columns' own, which is not private.
    return numbers, tm.Schema([tm.Column(name, float(numbers[name].min()), float(numbers[name].max()))
                               for name in numbers])


@dataclass(frozen=True)
class SmallCell:
    """One table by one method, and its scores."""

    sample: Sample
    method: str
    epsilon: float
    seed: int

    def key(self) -> str:
        """Return the name of the file with its scores."""
        return key_of(self, "small", code_of("trigmech") + code_of("experiments.small"))

    def compute(self) -> dict[str, float]:
        """Return the scores."""
        table, schema = self.sample.load(self.seed)
        rng = np.random.default_rng([self.seed, 1])
        if self.method == INDEPENDENT:
            made = pd.DataFrame({name: rng.permutation(table[name].to_numpy()) for name in table})
        elif self.method == BOOTSTRAP:
            made = table.iloc[rng.integers(len(table), size=len(table))].reset_index(drop=True)
        else:
            made = tm.synthesize(table, schema, tm.Budget(self.epsilon, DELTA), METHODS[self.method](),
                                 np.random.default_rng(self.seed)).sample(len(table), rng=rng)
        return scores(schema, table, made)


def scores(schema: tm.Schema, real: pd.DataFrame, made: pd.DataFrame) -> dict[str, float]:
    """Return the measures: numbers are cut at quantiles of the real ones."""
    a, b = _codes(schema, real, real), _codes(schema, real, made)
    size = int(max(a.max(), b.max())) + 1
    numbers = [column.name for column in schema.columns if column.categories is None]
    found = {"columns": float(np.mean([_variation(a[:, j], b[:, j], size) for j in range(a.shape[1])])),
             "pairs": float(np.mean([_variation(a[:, j] * size + a[:, h], b[:, j] * size + b[:, h], size**2)
                                     for j, h in itertools.combinations(range(a.shape[1]), 2)]))}
    of = [{name: pd.to_numeric(table[name], errors="coerce").astype(float) for name in numbers}
          for table in (real, made)]
    if numbers:
        found["distance"] = float(np.mean([ks_2samp(of[0][name].dropna(), of[1][name].dropna()).statistic
                                           for name in numbers]))
        found["spread"] = float(np.exp(np.mean([np.log(max(float(of[1][name].std()), 1e-9)
                                                       / max(float(of[0][name].std()), 1e-9)) for name in numbers])))
    if len(numbers) > 1:
        ranks = [pd.DataFrame(each).rank().corr().to_numpy() for each in of]
        found["ranks"] = float(np.nanmean(np.abs(ranks[0] - ranks[1])[np.triu_indices(len(numbers), 1)]))
    return found


def _codes(schema: tm.Schema, real: pd.DataFrame, table: pd.DataFrame) -> NDArray[np.int64]:
    found = []
    for column in schema.columns:
        if column.categories is not None:
            kinds = [str(category) for category in column.categories]
            found.append(pd.Categorical(table[column.name].astype(str), categories=kinds).codes.astype(np.int64) + 1)
            continue
        truth, values = (pd.to_numeric(each[column.name], errors="coerce").to_numpy(float) for each in (real, table))
        cuts = np.unique(np.nanquantile(truth, np.linspace(0.0, 1.0, CUTS + 1)[1:-1]))
        found.append(np.where(np.isnan(values), 0, 1 + np.searchsorted(cuts, values, side="right")))
    return np.column_stack(found)


def _variation(a: NDArray[np.int64], b: NDArray[np.int64], size: int) -> float:
    return float(0.5 * np.abs(np.bincount(a, minlength=size) / len(a) - np.bincount(b, minlength=size) / len(b)).sum())


def small(asked: Asked) -> Path:
    """Write results/small.csv and .md, and return the page.

    Quick: two seeds of the sets that need no download.
    """
    wanted, seeds = (WITHOUT_DATA, 2) if asked.quick else (SAMPLES, asked.seeds or SEEDS)
    samples = list(_available([each for each in SAMPLES if each.source in asked.sets] if asked.sets else wanted))
    if not samples:
        raise LeftOut("it needs a table of the protocols")
    cells = [SmallCell(sample, method, epsilon, seed) for sample in samples for seed in range(seeds)
             for method, epsilons in [*((name, (0.0,)) for name in NOT_PRIVATE),
                                      *((name, asked.epsilons or EPSILONS) for name in METHODS)]
             for epsilon in epsilons]
    lines = [{"table": cell.sample.name, "method": cell.method, "epsilon": cell.epsilon, "measure": measure,
              "value": value} for cell, result in run_cells(cells, asked.jobs, "small")
             for measure, value in result.items()]
    means = pd.DataFrame(lines).groupby(["table", "method", "epsilon", "measure"], sort=False)["value"].agg(
        ["mean", "sem"]).reset_index()
    stem = asked.stem("small", set(samples) == set(SAMPLES))
    write(stem, formatted(means, mean=".4g", sem=".2g"))
    return write_markdown(stem, page(means, seeds))


def _available(samples: Iterable[Sample]) -> Iterable[Sample]:
    for sample in samples:
        try:
            sample.load(0)
        except DatasetMissing as missing:
            print(f"left out: {missing}")
            continue
        yield sample


def page(means: pd.DataFrame, seeds: int) -> Sequence[str]:
    """Return the Markdown: a table for each measure and budget."""
    text = ["# Small tables", "",
            f"Means of {seeds} releases at δ = {DELTA:g}; samples are drawn anew for each. For the variations, numbers "
            f"are cut at {CUTS} quantiles of the real ones. *{RELEASED}*: the default's look at columns with all of "
            f"the budget. Two columns are not private: *{INDEPENDENT}*, the real columns in orders of their own, and "
            f"*{BOOTSTRAP}*, real rows drawn with replacement.", ""]
    for measure, words in MEASURES.items():
        own = means[means["measure"] == measure].set_index(["table", "method", "epsilon"])["mean"]
        names = [name for name in dict.fromkeys(means["table"]) if name in own.index.get_level_values(0)]
        epsilons = [epsilon for epsilon in dict.fromkeys(means["epsilon"]) if epsilon]
        header = ["table", *(f"{method}, ε = {epsilon:g}" for epsilon in epsilons for method in METHODS), *NOT_PRIVATE]
        rows = [[name, *(f"{own.get((name, method, epsilon), float('nan')):.3f}" for epsilon in epsilons
                         for method in METHODS),
                 *(f"{own.get((name, method, 0.0), float('nan')):.3f}" for method in NOT_PRIVATE)] for name in names]
        text += [f"## {words[0].upper()}{words[1:]}", "", *markdown(header, rows), ""]
    return text
