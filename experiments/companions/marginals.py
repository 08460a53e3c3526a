"""PrivBayes, JTree and PrivHD on marginals and support vector machines, beside the package's default release."""

import itertools
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from experiments.cells import run_cells
from experiments.companions import jtree, marginal_cells, pages
from experiments.companions.marginal_cells import FALSE, INDEPENDENT, METHODS, NO_PRIVACY, OURS, MarginalCell
from experiments.datasets import DatasetMissing

EPSILONS = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6)
# Releases at each budget; of the support vector machines two.
RUNS, RUNS_SVM = {"nltcs": 5, "adult": 3, "br2000": 3, "acs": 2}, 2


def filter_loss(method: str, d: int, n: int, epsilon: float) -> float:
    """Return the epsilon that a published filter of d binary columns costs at least: derived in docs/errata.md."""
    first = jtree.JTree().parts(epsilon)[0]
    return jtree.worst_loss(d, n, first) if method.startswith("JTree") else d * (d - 1) / 2 * first / 2.0


def found(names: list[str]) -> list[str]:
    """Return the tables that can be had; DatasetMissing if there are none."""
    missing = dict[str, DatasetMissing]()
    for name in names:
        try:
            marginal_cells.loaded(name)
        except DatasetMissing as reason:
            print(f"left out: {reason}")
            missing[name] = reason
    if len(missing) == len(names):
        raise missing[names[-1]]
    return [name for name in names if name not in missing]


def marginals(jobs: int, quick: bool) -> list[Path]:
    """Write results/marginals.csv and .md; quick: NLTCS, two epsilons, one run."""
    epsilons, once, cells = (0.2, 0.8) if quick else EPSILONS, (INDEPENDENT, NO_PRIVACY), list[MarginalCell]()
    for name, svm in itertools.product(found(["nltcs"] if quick else [*RUNS]), (False, True)):
        if svm and name not in marginal_cells.TARGETS:
            continue
        # F is for binary columns, and slow with many.
        methods = [method for method in METHODS if name == "nltcs" or not method.endswith(", F")]
        cells += [MarginalCell(name, method, epsilon, r, svm) for method in [NO_PRIVACY] * svm + methods
                  for epsilon in (epsilons[:1] if method in once else epsilons)
                  for r in range(1 if quick else RUNS_SVM if svm else RUNS[name])]
    results = dict(run_cells(cells, jobs, "marginals"))
    records = [{"dataset": cell.dataset, "measure": measure, "method": cell.method, "epsilon": cell.epsilon,
                "printed": "", "value": value} for cell in cells for measure, value in results[cell].items()]
    rows = [row | {"private_as_claimed": row["method"] not in (*FALSE, *once)}
            for row in pages.summary([each for each in records if each["measure"] != "refused"], "mean")]
    refused = Counter(f"- {each['dataset']}, {each['method']}, ε = {each['epsilon']:g}: "
                      for each in records if each["measure"] == "refused")
    costs = [(e, first / 2.0, filter_loss("PrivHD", 16, 21_574, e), first, filter_loss("JTree", 16, 21_574, e))
             for e in EPSILONS for first in [jtree.JTree().parts(e)[0]]]
    return pages.publish(
        "marginals", quick, rows, runs=", ".join(f"{runs} of {name}" for name, runs in RUNS.items()), svm=RUNS_SVM,
        costs=pages.grid(("ε", "claimed by PrivHD", "PrivHD's filter", "claimed by JTree", "JTree's filter"), costs),
        tables="\n\n".join(table(rows, *which) for which in
                           dict.fromkeys((row["dataset"], row["measure"]) for row in rows)),
        refused="\n".join(["## Refused", "", "Some or all runs had a clique of more than a million cells; means are of "
                           "the others.", "", *(f"{what}{count} runs" for what, count in refused.items()), "\n"]
                          if refused else []), **verdicts(rows))


def table(rows: pages.Rows, dataset: str, measure: str) -> str:
    """Return a section of the page; what knows no epsilon was measured at one, and holds at all."""
    these = [row | {"method": row["method"] + " (not private as claimed)" * (row["method"] in FALSE)}
             for row in rows if (row["dataset"], row["measure"]) == (dataset, measure)]
    these += [row | {"epsilon": e} for row in these if row["method"] in (INDEPENDENT, NO_PRIVACY)
              for e in {each["epsilon"] for each in these}]
    what = ("seconds of a run" if measure == "seconds" else f"mean total variation of {measure} marginals"
            if measure.endswith("way") else f"misclassified by a linear support vector machine: {measure}")
    return f"## {dataset}: {what}\n\n" + pages.crossed(these, "epsilon", "mean", "ε = {:g}")


def verdicts(rows: pages.Rows) -> dict[str, Any]:
    """Return the numbers by which the source's statements are true or false."""
    at = {(row["dataset"], row["measure"], row["method"], row["epsilon"]): row["mean"] for row in rows}
    names, epsilons = {row["dataset"] for row in rows}, sorted({row["epsilon"] for row in rows})
    cases = list(itertools.product(names, ("2-way", "3-way", "5-way", "6-way"), epsilons))
    trees = (FALSE[1], "junction tree, honest")

    def of(case: tuple[str, str, float], method: str) -> float:
        return at.get((*case[:2], method, case[2]), np.inf)

    def ratios(a: str, b: str, chosen: list[float]) -> list[float]:
        return [of(case, a) / of(case, b) for case in cases if case[1] == "2-way" and case[2] in chosen]

    wins = [sum(of(case, tree) <= min(of(case, "PrivBayes, R"), of(case, FALSE[0])) for case in cases)
            for tree in trees]
    more = [ratios("PrivBayes, R", tree, [e for e in epsilons if e < 0.2] or epsilons[:1]) for tree in trees]
    ours = ratios(OURS, trees[1], epsilons)
    return {"wins": wins, "cases": len(cases), "best": str(wins[1] > len(cases) / 2).lower(),
            "more": [f"{min(each):.2f} to {max(each):.2f}" for each in more], "twice": str(min(more[1]) > 2).lower(),
            "ours": f"{min(ours):.2f} to {max(ours):.2f}", "smaller": sum(x < 1 for x in ours), "of": len(ours)}
