"""PrivBayes, JTree and PrivHD on marginals and support vector machines, beside the package's default release."""

import itertools
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

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


def marginals(jobs: int, quick: bool) -> list[Path]:
    """Write results/marginals.csv and .md; quick: NLTCS, two epsilons, one run."""
    epsilons, once = (0.2, 0.8) if quick else EPSILONS, (INDEPENDENT, NO_PRIVACY)
    cells, names = list[MarginalCell](), list[str]()
    for name in ("nltcs",) if quick else RUNS:
        try:
            marginal_cells.loaded(name)
            names.append(name)
        except DatasetMissing as missing:
            print(f"left out: {missing}")
            reason = missing
    if not names:
        raise reason
    for name, svm in itertools.product(names, (False, True)):
        # F is for binary columns, and slow with many.
        methods = [method for method in METHODS if name == "nltcs" or not method.endswith(", F")]
        runs = 1 if quick else RUNS[name] if not svm else RUNS_SVM * (name in marginal_cells.TARGETS)
        cells += [MarginalCell(name, method, epsilon, r, svm) for method in [NO_PRIVACY] * svm + methods
                  for epsilon in (epsilons[:1] if method in once else epsilons) for r in range(runs)]
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
    """Return the numbers by which the source's statements are true or false; what was refused is infinite."""
    means = pd.DataFrame(rows).pivot(index=["measure", "dataset", "epsilon"], columns="method", values="mean")
    ways = means.fillna(np.inf).loc[[f"{k}-way" for k in marginal_cells.WAYS]]
    two, rivals, trees = ways.loc["2-way"], ["PrivBayes, R", FALSE[0]], (FALSE[1], "junction tree, honest")
    budgets = two.index.get_level_values("epsilon")
    small = two[budgets < max(0.2, 1.01 * budgets.min())]
    wins = [int((ways[tree] <= ways[rivals].min(axis=1)).sum()) for tree in trees]
    more, ours = [small["PrivBayes, R"] / small[tree] for tree in trees], two[OURS] / two[trees[1]]
    return {"wins": wins, "cases": len(ways), "best": str(wins[1] > len(ways) / 2).lower(),
            "more": [f"{each.min():.2f} to {each.max():.2f}" for each in more], "twice": str(more[1].min() > 2).lower(),
            "ours": f"{ours.min():.2f} to {ours.max():.2f}", "smaller": int((ours < 1).sum()), "of": len(ours)}
