"""PrivBayes, JTree and PrivHD on marginals and support vector machines, beside the package's default release."""

import itertools
import json
import time
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import trigmech as tm
from experiments.asked import Asked
from experiments.cells import Call, call, run_cells
from experiments.companions import discrete, pages
from experiments.companions.discrete import Codes
from experiments.companions.jtree import JTree, PrivHD, worst_loss
from experiments.companions.privbayes import PrivBayes
from experiments.datasets import DatasetMissing
from experiments.protocols.data import file
from trigmech.errors import InputError

EPSILONS = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6)
# Releases at each budget, of marginals and again of support vector machines.
RUNS = dict.fromkeys(discrete.TABLES, 10)
WAYS, DRAWN, SEED = (2, 3, 5, 6), 200, 2018
OURS, INDEPENDENT, NO_PRIVACY = "trigmech", "independent columns, not private", "no privacy"
# What the source leaves unsaid of its programs is said in each class.
METHODS: dict[str, Any] = {
    INDEPENDENT: None, OURS: None,
    "PrivBayes, R": PrivBayes("R"), "PrivBayes, mutual information": PrivBayes("I"), "PrivBayes, F": PrivBayes("F"),
    "JTree, published": JTree("published"), "JTree, honest": JTree("honest"),
    "PrivHD, published": PrivHD("published"), "junction tree, honest": PrivHD("honest")}
FALSE = ("JTree, published", "PrivHD, published")

COLLEGE = ("Some-college", "Assoc-acdm", "Assoc-voc", "Bachelors", "Masters", "Prof-school", "Doctorate")
# Of each: a column, the labels that count, and columns that must not be known.
TARGETS: dict[str, dict[str, tuple[int, tuple[str, ...], tuple[int, ...]]]] = {
    "nltcs": {"outside": (15, ("1",), ()), "money": (2, ("1",), ()), "toilet": (10, ("1",), ()),
              "travelling": (3, ("1",), ())},
    "adult": {"male": (9, ("Male",), ()), "post-secondary": (3, COLLEGE, ()),
              "post-secondary, no education-num": (3, COLLEGE, (4,)), "more than 50K": (14, (">50K",), ()),
              "never married": (5, ("Never-married",), ())}}

loaded = lru_cache(maxsize=1)(discrete.load)


def synthetic(method: str, table: Codes, domain: Sequence[int], epsilon: float, rng: np.random.Generator) -> Codes:
    """Return as many synthetic rows as the table has."""
    if method == NO_PRIVACY:
        return table
    if method == INDEPENDENT:
        return np.column_stack([column[rng.permutation(len(table))] for column in table.T])
    if method != OURS:
        rows: Codes = METHODS[method].fit(table, domain, epsilon, rng).sample(len(table), rng)
        return rows
    names = [f"c{j}" for j in range(len(domain))]
    schema = tm.Schema(tm.Column(name, 0, 1, "binary") if size == 2 else
                       tm.Column(name, kind="categorical", categories=tuple(range(size)))
                       for name, size in zip(names, domain, strict=True))
    made = tm.synthesize(pd.DataFrame(table, columns=names), schema, tm.Budget(epsilon), rng=rng)
    return np.asarray(made.sample(len(table), rng)[names].to_numpy(), dtype=np.int64)


def ways(d: int, k: int) -> list[tuple[int, ...]]:
    """Return all sets of k columns, for k > 3 at most 200 drawn ones, always the same."""
    every = list(itertools.combinations(range(d), k))
    if k <= 3 or len(every) <= DRAWN:
        return every
    return [every[i] for i in np.random.default_rng([SEED, d, k]).choice(len(every), DRAWN, replace=False)]


def classification_error(name: str, target: str, train: Codes, test: Codes, domain: Sequence[int]) -> float:
    """Return the share of test rows that a linear support vector machine, trained on a table, gets wrong."""
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder
    from sklearn.svm import LinearSVC

    column, counted, hidden = TARGETS[name][target]
    columns = [j for j in range(len(domain)) if j not in (column, *hidden)]
    labels = json.loads(file(f"{discrete.TABLES[name][0]}/{name}_int_to_str.json").read_text(encoding="utf-8"))[column]
    codes = [int(code) for code, text in labels.items() if text in counted]
    y, truth = (np.isin(rows[:, column], codes).astype(np.int64) for rows in (train, test))
    if len(np.unique(y)) < 2:
        return float(np.mean(truth != y[0]))
    model = make_pipeline(OneHotEncoder(categories=[np.arange(domain[j]) for j in columns]), LinearSVC(dual=False))
    return 1.0 - float(model.fit(train[:, columns], y).score(test[:, columns], truth))


def measured(dataset: str, method: str, epsilon: float, repetition: int, svm: bool) -> dict[str, Any]:
    """Return, of one synthetic table, "seconds" and the mean total variation by k; or "refused", why there is none.

    With `svm` the error by target of what is learned from a table of four fifths of the rows.
    """
    table, domain = loaded(dataset)
    rng = np.random.default_rng([SEED, repetition, *dataset.encode(), int(1000 * epsilon)])
    train, test = table, table
    if svm:
        order = np.random.default_rng([SEED, repetition]).permutation(len(table))
        train, test = np.split(table[order], [len(table) * 4 // 5])
    started = time.process_time()
    try:
        rows = np.asfortranarray(synthetic(method, train, domain, epsilon, rng))
    except InputError as error:
        return {"refused": str(error)}
    seconds = time.process_time() - started
    if svm:
        return {target: classification_error(dataset, target, rows, test, domain) for target in TARGETS[dataset]}
    return {"seconds": seconds} | {f"{k}-way": float(np.mean(discrete.variations(
        table, rows, domain, ways(len(domain), k)))) for k in WAYS}


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
        **verdicts(rows))


def table(rows: pages.Rows, dataset: str, measure: str) -> str:
    """Return a section of the page; what knows no epsilon was measured at one, and holds at all."""
    these = [row | {"method": row["method"] + " (not private as claimed)" * (row["method"] in FALSE)}
             for row in rows if (row["dataset"], row["measure"]) == (dataset, measure)]
    these += [row | {"epsilon": e} for row in these if row["method"] in (INDEPENDENT, NO_PRIVACY)
              for e in {each["epsilon"] for each in these}]
    return f"## {dataset}: {measure}\n\n" + pages.crossed(these, "epsilon", "mean", "ε = {:g}")


def verdicts(rows: pages.Rows) -> dict[str, Any]:
    """Return the numbers by which the source's statements are true or false; what was refused is infinite."""
    means = pd.DataFrame(rows).pivot(index=["measure", "dataset", "epsilon"], columns="method", values="mean")
    # The score F is for binary columns, R for others.
    means["PrivBayes"] = means["PrivBayes, F"].fillna(means["PrivBayes, R"])
    ways = means.fillna(np.inf).loc[[f"{k}-way" for k in WAYS]]
    two, rivals, trees = ways.loc["2-way"], ["PrivBayes", FALSE[0]], (FALSE[1], "junction tree, honest")
    budgets = two.index.get_level_values("epsilon")
    small = two[budgets < max(0.2, 1.01 * budgets.min())]
    wins = [int((ways[tree] <= ways[rivals].min(axis=1)).sum()) for tree in trees]
    more, ours = [small["PrivBayes"] / small[tree] for tree in trees], two[OURS] / two[trees[1]]
    return {"wins": wins, "cases": len(ways), "best": str(wins[1] > len(ways) / 2).lower(),
            "more": [f"{each.min():.2f} to {each.max():.2f}" for each in more], "twice": str(more[1].min() > 2).lower(),
            "ours": f"{ours.min():.2f} to {ours.max():.2f}", "smaller": int((ours < 1).sum()), "of": len(ours)}
