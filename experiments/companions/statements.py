"""The experiment on marginals: its runs, its page, and the source's statements judged by them."""

import itertools
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from experiments.asked import Asked
from experiments.cells import Call, call, run_cells
from experiments.companions import pages
from experiments.companions.jtree import JTree, worst_loss
from experiments.companions.marginals import (
    FALSE,
    INDEPENDENT,
    METHODS,
    NO_PRIVACY,
    OURS,
    TARGETS,
    WAYS,
    loaded,
    measured,
)
from experiments.datasets import DatasetMissing

EPSILONS = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6)
# Releases at each budget, of marginals and again of support vector machines.
RUNS = {"nltcs": 10, "br2000": 10, "adult": 10, "acs": 10, "tic": 5}
HONEST = "junction tree, honest"
# The readings of PrivHD that statements are judged by.
READINGS = {"as printed, for a row that is added or removed": "PrivHD, as printed, add/remove",
            "for a replaced row": "PrivHD, printed cliques, replace-one",
            "for a replaced row with merged cliques": "PrivHD, merged, replace-one",
            "by the honest junction tree": HONEST}
# A copy of another column: its error without privacy is 0.
COPIED = "post-secondary"


def filter_loss(method: str, d: int, n: int, epsilon: float) -> float:
    """Return the epsilon that a published filter of d binary columns costs at least: derived in docs/errata.md."""
    first = JTree().parts(epsilon)[0]
    return worst_loss(d, n, first) if method.startswith("JTree") else d * (d - 1) / 2 * first / 2.0


def marginals(asked: Asked) -> Path:
    """Write results/marginals.csv and .md; quick: NLTCS, two epsilons, one run."""
    epsilons, once = (0.2, 0.8) if asked.quick else EPSILONS, (INDEPENDENT, NO_PRIVACY)
    cells, names = dict[Call, dict[str, Any]](), list[str]()
    for name in ("nltcs",) if asked.quick else RUNS:
        try:
            loaded(name)
            names.append(name)
        except DatasetMissing as missing:
            print(f"left out: {missing}")
            reason = missing
    if not names:
        raise reason
    for name, svm in itertools.product(names, (False, True)):
        # F is for binary columns.
        methods = [method for method in METHODS if name in ("nltcs", "acs") or not method.endswith(", F")]
        runs = (1 if asked.quick else RUNS[name]) * (name in TARGETS or not svm)
        cells |= {call(measured, name, method, epsilon, r, svm): {
                      "dataset": name, "method": method, "epsilon": epsilon, "printed": ""}
                  for method in [NO_PRIVACY] * svm + methods
                  for epsilon in (epsilons[:1] if method in once else epsilons) for r in range(runs)}
    # One run of all, then another: what is there when it is stopped is even.
    results = dict(run_cells(sorted(cells, key=lambda cell: cell.arguments[3]), asked.jobs, "marginals"))
    records = [{**head, "measure": measure, "value": value}
               for cell, head in cells.items() for measure, value in results[cell].items()]
    rows = [row | {"private_as_claimed": row["method"] not in (*FALSE, *once)}
            for row in pages.summary([each for each in records if each["measure"] != "refused"], "mean")]
    refused = Counter((each["dataset"], each["method"], each["epsilon"])
                      for each in records if each["measure"] == "refused")
    costs = [(e, first / 2.0, filter_loss("PrivHD", 16, 21_574, e), first, filter_loss("JTree", 16, 21_574, e))
             for e in EPSILONS for first in [JTree().parts(e)[0]]]
    return pages.publish(
        "marginals", asked, rows,
        costs=pages.grid(("ε", "claimed by PrivHD", "PrivHD's filter", "claimed by JTree", "JTree's filter"), costs),
        tables="\n\n".join(table(rows, *which) for which in
                           dict.fromkeys((row["dataset"], row["measure"]) for row in rows)),
        refused=pages.grid(("data", "method", "ε", "runs"), [(*what, count) for what, count in refused.items()]),
        statements="\n".join(f"- {line}" for line in judged(rows)))


def table(rows: pages.Rows, dataset: str, measure: str) -> str:
    """Return a section of the page; what knows no epsilon was measured at one, and holds at all."""
    these = [row | {"method": row["method"] + " (not private as claimed)" * (row["method"] in FALSE)}
             for row in rows if (row["dataset"], row["measure"]) == (dataset, measure)]
    these += [row | {"epsilon": e} for row in these if row["method"] in (INDEPENDENT, NO_PRIVACY)
              for e in {each["epsilon"] for each in these}]
    return f"## {dataset}: {measure}\n\n" + pages.crossed(these, "epsilon", "mean", "ε = {:g}")


def true(holds: Any) -> str:
    """Return "true" or "false"."""
    return str(bool(holds)).lower()


def span(values: Iterable[float]) -> str:
    """Return the least and the largest of values."""
    found = list(values)
    return f"{min(found):.2f} to {max(found):.2f}"


def judged(rows: pages.Rows) -> list[str]:
    """Return the source's statements with the numbers by which they are true or false; what was refused is infinite."""
    means = pd.DataFrame(rows).pivot(index=["measure", "dataset", "epsilon"], columns="method", values="mean")
    # The score F is for binary columns, R for others.
    means["PrivBayes"] = means["PrivBayes, F"].fillna(means["PrivBayes, R"])
    means = means.fillna(np.inf).reset_index()
    ways, rivals = means[means["measure"].isin([f"{k}-way" for k in WAYS])], ["PrivBayes", "JTree, published"]
    two = ways[ways["measure"] == "2-way"]
    small = two[two["epsilon"] < max(0.2, 1.01 * two["epsilon"].min())]
    svm = means[means["measure"].isin([target for targets in TARGETS.values() for target in targets])]
    svm = svm[svm["measure"] != f"{COPIED}, no education-num"]
    lines = []
    wins = {reading: int((ways[name] < ways[rivals].min(axis=1)).sum()) for reading, name in READINGS.items()}
    lines.append('"PrivHD is best in most cases", of marginals, against PrivBayes (F on binary columns, R on others) '
                 "and JTree as published: " + "; ".join(
                     f"{count} of {len(ways)} {reading}, {true(2 * count > len(ways))}"
                     for reading, count in wins.items()))
    more = {reading: small["PrivBayes"] / small[name] for reading, name in READINGS.items()}
    lines.append('"At ε < 0.2 PrivBayes\'s distance is more than twice PrivHD\'s", of pairs: ' + "; ".join(
        f"{span(each)} times {reading}, {true(each.min() > 2)}" for reading, each in more.items()))
    lines += [*of_k(ways), *of_nltcs(two), *of_machines(svm, rivals)]
    ours = two[OURS] / two[HONEST]
    lines.append(f"Ours over the honest junction tree, of pairs: {span(ours)}, smaller in {int((ours < 1).sum())} of "
                 f"{len(ours)}")
    return lines


def of_k(ways: pd.DataFrame) -> list[str]:
    """Return whether errors grow with the number of columns."""
    found = []
    for name in ("PrivBayes", "JTree, published", *READINGS.values(), OURS):
        by_k = ways.pivot(index=["dataset", "epsilon"], columns="measure", values=name).replace(np.inf, np.nan).dropna()
        found += np.all(np.diff(by_k[[f"{k}-way" for k in WAYS]].to_numpy(), axis=1) > 0, axis=1).tolist()
    return [f'"The error grows with k": in {sum(found)} of {len(found)} cases, each a method, a data set and an ε: '
            + true(all(found))]


def of_nltcs(two: pd.DataFrame) -> list[str]:
    """Return how far the three systems are apart on NLTCS."""
    lines = []
    for reading, name in READINGS.items():
        errors = two[two["dataset"] == "nltcs"].set_index("epsilon")[[name, "PrivBayes", "JTree, published"]]
        apart = errors.max(axis=1) / errors.min(axis=1)
        lines.append(f"largest over smallest {apart.iloc[0]:.2f} at ε = {apart.index[0]:g} and {apart.iloc[-1]:.2f} at "
                     f"ε = {apart.index[-1]:g} {reading}")
        if reading == next(iter(READINGS)):
            first = ", ".join(f"{error:.3f}" for error in errors.iloc[0])
            little = true(apart.max() < 1.25)
    return [f'"The three differ little on NLTCS", of pairs: at the least ε {first} of PrivHD, PrivBayes, JTree; '
            + "; ".join(lines) + f": {little}"]


def of_machines(svm: pd.DataFrame, rivals: list[str]) -> list[str]:
    """Return what the source says of support vector machines."""
    best, tree, adult = [], [], svm[svm["dataset"] == "adult"]
    for name, part in svm.groupby("dataset"):
        least = part[rivals].min(axis=1)
        counts = [f"{int((part[each] < least).sum())} {reading}" for reading, each in READINGS.items()]
        best.append(f"on {name}, of {len(part)}, " + ", ".join(counts))
        tree.append(f"{int((part[HONEST] < part['PrivBayes']).sum())} of {len(part)} on {name}")
    lines = ['"PrivHD is best by support vector machines", with the same rivals: ' + "; ".join(best),
             "The honest junction tree beats PrivBayes by support vector machines: " + ", ".join(tree)]
    if len(adult):
        worse = [[part["PrivBayes"] / part[name] for name in READINGS.values()]
                 for part in (adult[adult["measure"] != COPIED], adult[adult["measure"] == COPIED])]
        rest, copied = ([max(each) for each in part] for part in worse)
        lines.append('"On Adult PrivBayes is up to three times worse" by support vector machines: at most ' + "; ".join(
            f"{a:.2f} times {reading}, {b:.3g} for the copied column"
            for reading, a, b in zip(READINGS, rest, copied, strict=True)))
    return lines
