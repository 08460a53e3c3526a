"""The experiments `tables` and `consistent`: tables by the default release, scored, beside what they lie between.

Independent columns (each column of the real rows in an order of its own) and a bootstrap of the real rows look at the
data without privacy: a table should be far better than the first, and cannot be expected to be better than the second.
"""

import csv
import io
import itertools
import time
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import trigmech as tm
from experiments.cells import HERE, RESULTS, code_fingerprint, key_of, publish, run_cells
from experiments.datasets import DatasetMissing
from experiments.protocols.data import AIM, NIST, PROTOCOLS, THESIS, load
from experiments.protocols.scores import score

RELEASE, INDEPENDENT, BOOTSTRAP = "release", "independent", "bootstrap"
MODULES = ("adult", "protocols/data", "protocols/scores", "protocols/experiment")
SEEDS = 5
QUICK = ("nist_demographic", "nltcs")
CONSISTENT = (1.0, 3.0, 10.0, 100.0, 1000.0)
CONSISTENT_SETS = ("nist_demographic", "adult", *THESIS)

# The protocols' budgets; NLTCS has two.
BUDGETS: dict[str, tuple[tuple[float, float], ...]] = {
    **dict.fromkeys(NIST, ((1.0, 1e-5), (10.0, 1e-5))),
    **dict.fromkeys(("adult", *THESIS), ((1.0, 1e-6),)),
    **dict.fromkeys(AIM, ((1.0, 1e-9),)),
    "nltcs": ((0.2, 0.0), (0.8, 0.0), (1.0, 1e-9)),
    **{name: ((1.0, 1e-5),) for name in PROTOCOLS if name.startswith("synmeter_")},
}
# What a protocol's public definition asks for: NIST's score takes its marginals within each PUMA.
WORKLOADS = dict.fromkeys(("nist_family", "nist_all"), tm.workload.Marginals(2, "PUMA"))


@dataclass(frozen=True)
class TableCell:
    """One synthetic table of a data set and its scores; `epsilon` and `delta` are 0 for what is not private."""

    dataset: str
    method: str
    epsilon: float
    delta: float
    seed: int

    def key(self) -> str:
        """Return the name of the cell's cache file."""
        reached = None if self.method == RELEASE else ("workload", "schema.schema")
        return key_of(self, f"tables-{self.dataset}", code_fingerprint(reached, MODULES))

    @property
    def shares(self) -> None:
        """Nothing: the data are read in a moment."""

    def compute(self) -> dict[str, Any]:
        """Return "scores", "seconds" table to table and "warnings" of the fit, or "failed", the error's name."""
        table, schema = _loaded(self.dataset)
        rng = np.random.default_rng(self.seed)
        started = time.perf_counter()
        noted: tuple[str, ...] = ()
        if self.method == RELEASE:
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", tm.FitWarning)
                    made = tm.synthesize(table, schema, tm.Budget(self.epsilon, self.delta), rng=rng,
                                         workload=WORKLOADS.get(self.dataset))
                    synthetic, noted = made.sample(len(table), rng), made.warnings
            except (tm.TrigmechError, ArithmeticError, MemoryError, ValueError) as error:
                return {"failed": type(error).__name__}
        elif self.method == INDEPENDENT:
            synthetic = pd.DataFrame({name: table[name].to_numpy()[rng.permutation(len(table))] for name in table})
        else:
            synthetic = table.iloc[rng.integers(len(table), size=len(table))].reset_index(drop=True)
        seconds = time.perf_counter() - started
        return {"seconds": seconds, "warnings": len(noted), "scores": score(self.dataset, table, synthetic)}


@lru_cache(maxsize=1)
def _loaded(name: str) -> tuple[pd.DataFrame, tm.Schema]:
    return load(name)


def tables(names: Sequence[str], jobs: int, quick: bool, seeds: int = SEEDS,
           epsilons: Sequence[float] = ()) -> list[Path]:
    """Write results/tables.csv and .md: the protocols' budgets, or all of `epsilons` at each data set's first delta.

    Returns the pages written, none if no data set is available.
    """
    return _run("tables", names, PROTOCOLS, jobs, quick, seeds, epsilons)


def consistent(names: Sequence[str], jobs: int, quick: bool, seeds: int = SEEDS,
               epsilons: Sequence[float] = ()) -> list[Path]:
    """Write results/tables_consistent.csv and .md: more and more budget, which should do no harm."""
    return _run("tables_consistent", names, CONSISTENT_SETS, jobs, quick, seeds, epsilons or CONSISTENT)


def _run(title: str, names: Sequence[str], default: Sequence[str], jobs: int, quick: bool, seeds: int,
         epsilons: Sequence[float]) -> list[Path]:
    found = _available(names or (QUICK if quick else default))
    seeds = 1 if quick else seeds
    # A data set's delta above 0, if it has one: a pure budget has its protocol alone.
    budgets = {name: [(epsilon, max(delta for _, delta in BUDGETS[name])) for epsilon in epsilons] or BUDGETS[name]
               for name in found}
    cells = [TableCell(name, method, epsilon, delta, seed) for name in found for seed in range(seeds)
             for method, epsilon, delta in [*((RELEASE, *budget) for budget in budgets[name]),
                                            (INDEPENDENT, 0.0, 0.0), (BOOTSTRAP, 0.0, 0.0)]]
    if not cells:
        return []
    results = dict(run_cells(cells, jobs, title))
    lines = [line for name in found for line in summary(name, {cell: results[cell] for cell in cells
                                                               if cell.dataset == name})]
    whole = set(found) == set(default) and seeds == SEEDS and tuple(epsilons) in ((), CONSISTENT)
    stem = title + "_quick" * quick + "_partial" * (not whole and not quick)
    text = io.StringIO()
    writer = csv.DictWriter(text, list(lines[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    publish(RESULTS / f"{stem}.csv", text.getvalue())
    publish(RESULTS / f"{stem}.md", "\n".join(page(lines, seeds)) + "\n")
    return [RESULTS / f"{stem}.md"]


def _available(names: Iterable[str]) -> list[str]:
    found = []
    for name in names:
        try:
            load(name)
        except DatasetMissing as missing:
            print(f"left out: {missing}")
        else:
            found.append(name)
    return found


def summary(dataset: str, results: dict[TableCell, dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a line for each budget, method and measure: mean, least and most over the seeds that did not fail."""
    lines = []
    groups: dict[tuple[str, float, float], list[dict[str, Any]]] = {}
    for cell, result in sorted(results.items(), key=lambda item: item[0].seed):
        groups.setdefault((cell.method, cell.epsilon, cell.delta), []).append(result)
    for (method, epsilon, delta), runs in groups.items():
        flat = [{**run["scores"], "seconds": run["seconds"], "warnings": run["warnings"]}
                for run in runs if "failed" not in run]
        values = {measure: [run[measure] for run in flat] for measure in (flat[0] if flat else ())}
        for measure, each in {**values, "failures": [float(len(runs) - len(flat))]}.items():
            lines.append({"dataset": dataset, "method": method, "epsilon": f"{epsilon:g}", "delta": f"{delta:g}",
                          "measure": measure, "mean": f"{np.mean(each):.6g}", "least": f"{min(each):.6g}",
                          "most": f"{max(each):.6g}", "runs": len(runs)})
    return lines


def loss(measure: str, value: float) -> float:
    """Return a number that is smaller for better tables."""
    if measure == "detector":
        return max(0.0, value - 0.5)
    return -value if measure.startswith(("k_marginal", "auc", "f1_", "r2_")) else value


def page(lines: Sequence[dict[str, Any]], seeds: int) -> list[str]:
    """Return the Markdown: a table for each data set, measures by budgets, beside the bounds of what can be had."""
    with (HERE / "expected" / "tables.csv").open(encoding="utf-8") as file:
        published = list(csv.DictReader(file))
    text = ["# Tables on the field's protocols", "",
            f"Means of {seeds} releases by the default mechanism with as many rows as the data, in brackets the least "
            "and the most; neighbours replace one row; bounds are public (SynMeter's: the data's own, as there). "
            "k_marginal: 1000 is best; auc, f1, r2: more is better; detector: 0.5 is best; all others are errors. "
            "*independent*: the real columns, each in an order of its own. *bootstrap*: real rows drawn with "
            "replacement. Neither is private. ✗: every seed is worse than all at the smaller budget before it."]
    for dataset, group in itertools.groupby(lines, key=lambda line: line["dataset"]):
        by: dict[tuple[str, str, str], dict[str, dict[str, Any]]] = {}
        for line in group:
            by.setdefault((line["method"], line["epsilon"], line["delta"]), {})[line["measure"]] = line
        heads = [f"ε = {e}, δ = {d}" if method == RELEASE else method for method, e, d in by]
        text += ["", f"## {dataset}", "", "| measure | " + " | ".join(heads) + " |", "| --- |" + " --- |" * len(by)]
        for measure in dict.fromkeys(measure for column in by.values() for measure in column):
            row: list[str] = []
            before: dict[str, Any] | None = None
            for (method, *_), column in by.items():
                one = column.get(measure)
                row.append("" if one is None else _entry(one) + _harm(one, before) * (method == RELEASE))
                before = one
            text.append(f"| {measure} | " + " | ".join(row) + " |")
        theirs = [f"{line['method']} at ε = {line['epsilon']}, {line['measure']} {line['value']}" for line in published
                  if line["dataset"] == dataset]
        text += ["", f"Published by others, mostly for adding or removing a row: {'; '.join(theirs)}."] * bool(theirs)
    return text


def _entry(line: dict[str, Any]) -> str:
    mean, least, most = (f"{float(line[what]):.4g}" for what in ("mean", "least", "most"))
    return mean if least == most else f"{mean} ({least}–{most})"


def _harm(line: dict[str, Any], before: dict[str, Any] | None) -> str:
    if before is None or before["delta"] != line["delta"] or line["measure"] in ("seconds", "warnings"):
        return ""
    now, then = ([loss(line["measure"], float(each[what])) for what in ("least", "most")] for each in (line, before))
    return " ✗" if min(now) > max(then) else ""
