"""PrivBayes, JTree and PrivHD on marginals and support vector machines, beside the package's default release.

This is the protocol; `statements` runs it and judges by it. The names of cached cells depend on this module's imports.
"""

import json
import math
import time
from collections.abc import Sequence
from functools import lru_cache
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

import trigmech as tm
from experiments.cells import described
from experiments.companions import discrete
from experiments.companions.jtree import JTree, PrivHD
from experiments.companions.privbayes import PrivBayes
from experiments.protocols.coding import Codes, total_variations
from experiments.protocols.data import file
from trigmech.errors import InputError

WAYS, DRAWN, MOST, SEED = (2, 3, 5, 6), 200, 10_000, 2018
OURS, INDEPENDENT, NO_PRIVACY = "trigmech", "independent columns, not private", "no privacy"
# The classes give the details of the programs that the source leaves out.
METHODS: dict[str, Any] = {
    INDEPENDENT: None, OURS: None,
    "PrivBayes, R": PrivBayes("R"), "PrivBayes, mutual information": PrivBayes("I"), "PrivBayes, F": PrivBayes("F"),
    "JTree, published": JTree("published"), "JTree, honest": JTree("honest"),
    # The source prints its own cliques, and noise for a row that is added or removed; all rivals replace one.
    "PrivHD, as printed, add/remove": PrivHD(joined="source", moved=1.0),
    "PrivHD, printed cliques, replace-one": PrivHD(joined="source"),
    "PrivHD, merged, add/remove": PrivHD(moved=1.0), "PrivHD, merged, replace-one": PrivHD(),
    "PrivHD, apart, replace-one": PrivHD(joined="apart"),
    "junction tree, honest": PrivHD("honest")}
# Not private as claimed.
FALSE = tuple(name for name, made in METHODS.items() if isinstance(made, JTree) and made.variant == "published")

# For each set and target: a column, the labels that count, and columns that must not be known.
TARGETS: dict[str, dict[str, dict[str, Any]]] = described("labels")

loaded = lru_cache(maxsize=1)(discrete.load)


def synthetic(method: str, table: Codes, domain: Sequence[int], epsilon: float, rng: np.random.Generator) -> Codes:
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
    """Return all sets of k columns, or 200 drawn ones, always the same, for k > 3 and where there are too many."""
    count = math.comb(d, k)
    if count <= (MOST if k <= 3 else DRAWN):
        return list(combinations(range(d), k))
    return [place_of(int(i), d, k) for i in np.random.default_rng([SEED, d, k]).choice(count, DRAWN, replace=False)]


def place_of(place: int, d: int, k: int) -> tuple[int, ...]:
    """Return the set of k of d columns at a place of all of them in their order, which are not made."""
    found, least = list[int](), 0
    for left in range(k - 1, -1, -1):
        while place >= (more := math.comb(d - least - 1, left)):
            place, least = place - more, least + 1
        found.append(least)
        least += 1
    return tuple(found)


def classification_error(name: str, target: str, train: Codes, test: Codes, domain: Sequence[int]) -> float:
    """Return the share of test rows that a linear support vector machine, trained on a table, gets wrong."""
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder
    from sklearn.svm import LinearSVC

    aim = TARGETS[name][target]
    column = aim["column"]
    columns = [j for j in range(len(domain)) if j not in (column, *aim.get("hidden", ()))]
    labels = json.loads(file(f"{discrete.TABLES[name][0]}/{name}_int_to_str.json").read_text(encoding="utf-8"))[column]
    codes = [int(code) for code, text in labels.items() if text in aim["labels"]]
    y, truth = (np.isin(rows[:, column], codes).astype(np.int64) for rows in (train, test))
    if len(np.unique(y)) < 2:
        return float(np.mean(truth != y[0]))
    model = make_pipeline(OneHotEncoder(categories=[np.arange(domain[j]) for j in columns]), LinearSVC(dual=False))
    return 1.0 - float(model.fit(train[:, columns], y).score(test[:, columns], truth))


def measured(dataset: str, method: str, epsilon: float, repetition: int, svm: bool) -> dict[str, Any]:
    """Return, of one synthetic table, "seconds" and the mean total variation by k; or "refused", why there is none."""
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
    return {"seconds": seconds} | {f"{k}-way": float(np.mean(total_variations(
        table, rows, domain, ways(len(domain), k)))) for k in WAYS}
