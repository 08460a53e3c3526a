"""Tests where there is nothing to be found: how often those on releases raise a false alarm."""

from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

import trigmech as tm
from experiments import Array
from experiments.answers import Found, weighted_difference
from experiments.asked import Asked
from experiments.declare import Experiment, calls_of
from experiments.frames import markdown, means, worded

ALPHA, TABLES = 0.05, 20
# Rows, epsilon and delta.
SETTINGS = ((300, 0.5, 1e-6), (300, 1.0, 1e-6), (300, 5.0, 1e-6), (300, 1.0, 0.0), (5_000, 1.0, 1e-6),
            (5_000, 1.0, 0.0), (50_000, 1.0, 1e-6))
SITES = ("p", "q", "r")
SCHEMA = tm.Schema([tm.Column("x", -4, 4), tm.Column("y", -3, 12),
                    tm.Column("arm", kind="categorical", categories=("new", "old")),
                    tm.Column("sex", kind="categorical", categories=("f", "m")),
                    tm.Column("site", kind="categorical", categories=SITES)])
CATEGORIES = {column.name: column.categories or () for column in SCHEMA.columns}
NUMBERS, GROUPS = ("x", "y"), ("arm", "sex")
PAIRS = (("arm", "sex"), ("arm", "site"), ("sex", "site"))


def population(n: int, rng: np.random.Generator) -> pd.DataFrame:
    """Return n persons: a normal and a skewed number that depend on each other, and groups on which nothing depends."""
    x = rng.standard_normal(n)
    return pd.DataFrame({"x": x.clip(-4, 4), "y": (rng.gamma(2.0, 1.0, n) + 0.5 * x).clip(-3, 12),
                         "arm": np.where(rng.random(n) < 0.5, "new", "old"),
                         "sex": np.where(rng.random(n) < 0.4, "f", "m"),
                         "site": rng.choice(SITES, n, p=[0.5, 0.3, 0.2])})


def inside(table: Any, group: str) -> Any:
    return np.asarray(table[group]) == CATEGORIES[group][0]


def difference(table: Any, number: str, group: str) -> float:
    """Return the difference of a number's means in the first and the second group; 0 if one is empty."""
    values, first = np.asarray(table[number], dtype=float), inside(table, group)
    return float(values[first].mean() - values[~first].mean()) if 0 < first.sum() < len(first) else 0.0


def differing(table: Any, w: Array, number: str, group: str) -> Found:
    """Return the same of weighted rows, and the influence of each row."""
    return weighted_difference(np.asarray(table[number], dtype=float), inside(table, group).astype(float), w)


def dependence(table: Any, one: str, other: str) -> Array:
    """Return the shares of a table of categories, less the products of the columns': all but the last of each."""
    rows = len(table[one])
    return depending(table, np.full(rows, 1.0 / rows), one, other)[0]


def depending(table: Any, w: Array, one: str, other: str) -> Found:
    """Return the same of weighted rows, and the influence of each row."""
    a, b = (np.asarray(np.asarray(table[name])[:, None] == np.array(CATEGORIES[name][:-1]), dtype=float)
            for name in (one, other))
    a, b = a - w @ a, b - w @ b
    products = (a[:, :, None] * b[:, None, :]).reshape(len(a), -1)
    found = w @ products
    return found, products - found


def alarms(n: int, epsilon: float, delta: float, seed: int) -> dict[str, list[float]]:
    from scipy import stats

    rng = np.random.default_rng([seed, n])
    made = tm.synthesize(population(n, rng), SCHEMA, tm.Budget(epsilon, delta), rng=rng)
    sample, held, rows = made.columns(n, rng), made.imputations(TABLES, rng=rng), made.weighted()
    found: dict[str, list[float]] = {}

    def add(test: str, naive: float, plain: Callable[..., Any], weighted: Callable[..., Found], *columns: str) -> None:
        names = dict(zip(("number", "group") if test == "t test" else ("one", "other"), columns, strict=True))
        for method, p in (("naive", naive), ("imputations", held.p_value(partial(plain, **names))),
                          ("weights", rows.p_value(partial(weighted, **names)))):
            found.setdefault(f"{test}, {method}", []).append(float(p))

    for number, group in product(NUMBERS, GROUPS):
        values, first = np.asarray(sample[number]), inside(sample, group)
        both = values[first], values[~first]
        add("t test", stats.ttest_ind(*both, equal_var=False).pvalue if min(map(len, both)) > 1 else 1.0,
            difference, differing, number, group)
    for one, other in PAIRS:
        counts = pd.crosstab(np.asarray(sample[one]), np.asarray(sample[other])).to_numpy()
        add("chi-square", stats.chi2_contingency(counts, correction=False).pvalue, dependence, depending, one, other)
    return found | {"t test, fit": [float(made.regression("y ~ arm", imputations=held).p[1])]}


def of_tests(head: dict[str, Any], result: dict[str, list[float]]) -> list[dict[str, Any]]:
    return [{**head, "test": name, "value": float(p < ALPHA)} for name, values in result.items() for p in values]


def page(lines: pd.DataFrame, asked: Asked) -> list[str]:
    keys = ["rows", "epsilon", "delta"]
    # In the order of the lines.
    wide = lines.pivot(index=keys, columns="test", values="rate").loc[
        pd.MultiIndex.from_frame(lines[keys].drop_duplicates()), lines["test"].unique()]
    overall = lines.assign(alarms=lines["rate"] * lines["tests"]).groupby("test", sort=False)[["alarms", "tests"]].sum()
    counts = lines.groupby("test", sort=False)["tests"].first()
    rows = [[f"{n:,}", f"{epsilon:g}", f"{delta:g}", *map("{:.3f}".format, rates)]
            for (n, epsilon, delta), rates in zip(wide.index, wide.to_numpy(), strict=True)]
    rows.append(["all", "", "", *map("{:.3f}".format, overall["alarms"] / overall["tests"])])
    return worded("nulls", alpha=ALPHA, tables=TABLES, table=markdown(["rows", "epsilon", "delta", *wide], rows),
                  counts=", ".join(f"{count} of *{name}*" for name, count in counts.items()))


nulls = Experiment(
    name="nulls", what="tests where there is nothing to be found: rates of false alarms (five minutes; no data)",
    seeds=(2, 30), size=(SETTINGS[:1], SETTINGS),
    cells=lambda asked: calls_of(alarms, asked, rows_epsilon_delta=asked.size), lines=of_tests, page=page,
    table=lambda lines: means(lines, ["rows", "epsilon", "delta", "test"], rate="mean", tests="size").round(6))
