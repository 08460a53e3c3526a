"""One run of PrivBayes, JTree, PrivHD or the package's default release: a synthetic table, and how near it is."""

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

import trigmech as tm
from experiments.cells import code_fingerprint, key_of
from experiments.companions import discrete
from experiments.companions.discrete import Codes
from experiments.companions.jtree import JTree, PrivHD
from experiments.companions.privbayes import PrivBayes
from experiments.protocols.data import file
from trigmech.errors import InputError

WAYS, DRAWN, SEED = (2, 3, 5, 6), 200, 2018
OURS, INDEPENDENT, NO_PRIVACY = "trigmech", "independent columns, not private", "no privacy"
MODULES = tuple(f"companions/{name}" for name in ("discrete", "jtree", "marginal_models", "marginal_cells", "privbayes",
                                                  "selection"))
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
    every = list(combinations(range(d), k))
    if k <= 3 or len(every) <= DRAWN:
        return every
    return [every[i] for i in np.random.default_rng([SEED, d, k]).choice(len(every), DRAWN, replace=False)]


def classification_error(name: str, target: str, train: Codes, test: Codes, domain: Sequence[int]) -> float:
    """Return the share of test rows that a linear support vector machine, trained on a table, gets wrong."""
    from sklearn.preprocessing import OneHotEncoder
    from sklearn.svm import LinearSVC

    column, counted, hidden = TARGETS[name][target]
    columns = [j for j in range(len(domain)) if j not in (column, *hidden)]
    labels = json.loads(file(f"{discrete.TABLES[name][0]}/{name}_int_to_str.json").read_text(encoding="utf-8"))[column]
    codes = [int(code) for code, text in labels.items() if text in counted]
    y, truth = (np.isin(rows[:, column], codes).astype(np.int64) for rows in (train, test))
    if len(np.unique(y)) < 2:
        return float(np.mean(truth != y[0]))
    encoder = OneHotEncoder(categories=[np.arange(domain[j]) for j in columns])
    model = LinearSVC(dual=False).fit(encoder.fit_transform(train[:, columns]), y)
    return float(np.mean(model.predict(encoder.transform(test[:, columns])) != truth))


@dataclass(frozen=True)
class MarginalCell:
    """One synthetic table: its distances of marginals, or, of `svm`, what is learned from one of four fifths."""

    dataset: str
    method: str
    epsilon: float
    repetition: int
    svm: bool = False

    def key(self) -> str:
        """Return the name of the cell's cache file."""
        reached = None if self.method == OURS else ("privacy.budget",)
        return key_of(self, f"marginals-{self.dataset}", code_fingerprint(reached, MODULES))

    @property
    def shares(self) -> None:
        """Nothing: the data are read in a moment."""

    def compute(self) -> dict[str, Any]:
        """Return "seconds", and the mean total variation by k or the error by target; or "refused", why."""
        table, domain = loaded(self.dataset)
        rng = np.random.default_rng([SEED, self.repetition, *self.dataset.encode(), int(1000 * self.epsilon)])
        train, test = table, table
        if self.svm:
            order = np.random.default_rng([SEED, self.repetition]).permutation(len(table))
            train, test = np.split(table[order], [len(table) * 4 // 5])
        started = time.perf_counter()
        try:
            rows = np.asfortranarray(synthetic(self.method, train, domain, self.epsilon, rng))
        except InputError as error:
            return {"refused": str(error)}
        seconds = time.perf_counter() - started
        if self.svm:
            return {target: classification_error(self.dataset, target, rows, test, domain)
                    for target in TARGETS[self.dataset]}
        return {"seconds": seconds} | {f"{k}-way": float(np.mean([
            discrete.variation(table, rows, domain, columns) for columns in ways(len(domain), k)])) for k in WAYS}
