"""Intervals for populations from releases: how many hold the truth, and how wide they are, beside naive ones."""

from collections.abc import Callable, Iterable
from functools import lru_cache, partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd

import trigmech as tm
from experiments import Array
from experiments.asked import Asked
from experiments.declare import Experiment, calls_of
from experiments.frames import markdown, worded
from experiments.protocols.data import load

Table = dict[str, Any]
# Values and their influence on each row (m, values), of a table with weights (m,) of sum 1.
Found = tuple[Array, Array]

LEVEL, TABLES = 0.95, 20
# Rows, epsilon and delta.
SETTINGS = ((300, 1.0, 1e-6), (300, 1.0, 0.0), (1_000, 1.0, 1e-6), (5_000, 0.5, 1e-6), (5_000, 1.0, 1e-6),
            (5_000, 1.0, 0.0), (5_000, 5.0, 1e-6))
OF_REAL = ((500, 1.0, 1e-6), (2_000, 1.0, 1e-6), (2_000, 5.0, 1e-6), (2_000, 1.0, 0.0))
POPULATION, NORMAL = 1_000_000, 1.959964
# Newton's method for a logistic regression: steps, and the number that is added to the diagonal.
STEPS, RIDGE = 30, 1e-6
# A density at a quantile is that between the quantiles so far away on both sides.
ASIDE = 0.05
NUMBERS = ("x1", "x2", "x3", "y")
WORDS = {"b": "yes", "g": "r", "z": "new"}  # of categories, which are 1 and others 0
# Rules for intervals were chosen on the first three. The last one had no part in the choice, so it is a clean check.
KINDS = ("skewed", "dependent", "mixed", "clustered")
METHODS = ("naive", "imputations", "weights")


@lru_cache
def real() -> pd.DataFrame:
    """Return the table Adult with the same columns but the treatment: age, education, logarithm of capital gains, hours
    of work; income, and four kinds of households."""
    table, _ = load("adult")
    homes = table["relationship"].map({"Husband": "p", "Wife": "p", "Not-in-family": "q", "Own-child": "s"}).fillna("r")
    return pd.DataFrame({"x1": (table["age"] - 40.0) / 14.0, "x2": (table["education-num"] - 10.0) / 2.5,
                         "x3": np.log1p(table["capital-gain"].astype(float)), "y": table["hours-per-week"] / 10.0,
                         "b": np.where(table["income"] == ">50K", "yes", "no"), "g": homes})


def population(kind: str, n: int, rng: np.random.Generator) -> pd.DataFrame:
    """Return n persons: three numbers, an outcome, a binary and a four-valued category, and a treatment at random."""
    if kind == "adult":
        rows = real().iloc[rng.integers(len(real()), size=n)].reset_index(drop=True)
        return rows.assign(z=np.where(rng.random(n) < 0.5, "new", "old"))
    z, e = rng.standard_normal((n, 4)), rng.standard_normal(n)
    if kind == "skewed":
        x1, x2, x3 = z[:, 0], 0.4 * z[:, 0] + 0.9 * z[:, 1], np.exp(0.5 * z[:, 0] + 0.6 * z[:, 2])
        y = 1.0 + 0.3 * x1 + 0.4 * x3 + 0.6 * rng.gamma(2.0, 1.0, n)
    elif kind == "dependent":
        x1, x2 = z[:, 0], 0.8 * z[:, 0] + 0.6 * z[:, 1]
        x3, y = np.abs(x1 + 0.5 * z[:, 2]), 1.0 + 0.8 * x1 - 0.4 * x2 + 0.5 * e
    elif kind == "clustered":
        first = rng.random(n) < 0.35
        x1 = np.where(first, 1.5 + 0.5 * z[:, 0], 0.8 * z[:, 0] - 0.6)
        x2 = np.where(first, 0.7 * z[:, 1] - 1.0, 0.5 * x1 + z[:, 1])
        x3 = np.where(first, 1.0 + np.exp(0.3 * z[:, 2]), np.abs(z[:, 2]))
        y = 1.0 + np.where(first, -0.5, 0.5) * x1 + 0.3 * x3 + 0.7 * e
    else:
        x1, x2, x3 = z[:, 0], 0.3 * z[:, 0] + z[:, 1], np.where(rng.random(n) < 0.3, 0.0, np.exp(0.5 * z[:, 2]))
        y = 1.0 + 0.5 * x1 + 0.3 * x3 + e
    b = rng.random(n) < 1.0 / (1.0 + np.exp(0.5 - 0.8 * x1 + 0.4 * x2))
    g = np.clip(np.floor(x2 + z[:, 3] + 2.0), 0, 3).astype(int)
    y = y + 0.4 * b + (0.5 * (g == 3) if kind == "mixed" else 0.0)
    return pd.DataFrame({"x1": np.clip(x1, -4, 4), "x2": np.clip(x2, -5, 5), "x3": np.clip(x3, 0, 12),
                         "y": np.clip(y, -6, 14), "b": np.where(b, "yes", "no"), "g": np.array(list("pqrs"))[g],
                         "z": np.where(rng.random(n) < 0.5, "new", "old")})


SCHEMA = tm.Schema([tm.Column("x1", -4, 4), tm.Column("x2", -5, 5), tm.Column("x3", 0, 12), tm.Column("y", -6, 14),
                    tm.Column("b", kind="categorical", categories=("no", "yes")),
                    tm.Column("g", kind="categorical", categories=tuple("pqrs")),
                    tm.Column("z", kind="categorical", categories=("new", "old"))])


def _mean(values: Array, w: Array) -> Found:
    mean = w @ values
    return np.array([mean]), (values - mean)[:, None]


def weighted_difference(values: Array, group: Array, w: Array) -> Found:
    """Return the difference of the means in a group, 0 or 1 for each row, and outside it."""
    p = float(np.clip(w @ group, 1e-3, 1.0 - 1e-3))
    one, other = w @ (group * values) / p, w @ ((1.0 - group) * values) / (1.0 - p)
    return np.array([one - other]), (group / p * (values - one) - (1 - group) / (1 - p) * (values - other))[:, None]


def _scaled(values: Array, w: Array) -> Array:
    """Return values with mean 0 and variance 1; weights below 0 may make the variance too small."""
    shifted = values - w @ values
    return np.asarray(shifted / np.sqrt(max(float(w @ shifted**2), 0.05 * float(values.var()))))


def _correlation(a: Array, b: Array, w: Array) -> Found:
    a, b = _scaled(a, w), _scaled(b, w)
    r = w @ (a * b)
    return np.array([r]), (a * b - 0.5 * r * (a**2 + b**2))[:, None]


def _linear(X: Array, y: Array, w: Array) -> Found:
    inverse = np.linalg.inv(X.T @ (X * w[:, None]))
    beta = inverse @ (X.T @ (w * y))
    return beta[1:], ((X * (y - X @ beta)[:, None]) @ inverse)[:, 1:]


def _logistic(X: Array, y: Array, w: Array) -> Found:
    beta = np.zeros(X.shape[1])
    for _ in range(STEPS):
        p = 1.0 / (1.0 + np.exp(-np.clip(X @ beta, -30, 30)))
        hessian = X.T @ (X * (w * p * (1.0 - p))[:, None]) + RIDGE * np.eye(len(beta))
        step = np.linalg.solve(hessian, X.T @ (w * (y - p)))
        beta = beta + step * min(1.0, 1.0 / max(float(np.abs(step).max()), 1e-12))
    return beta[1:], ((X * (y - p)[:, None]) @ np.linalg.inv(hessian))[:, 1:]


def _quantiles(values: Array, at: tuple[float, ...], w: Array) -> Found:
    order = np.argsort(values, kind="stable")
    below = np.maximum.accumulate(np.cumsum(w[order]))

    def quantile(q: float) -> float:
        return float(values[order][min(int(np.searchsorted(below, q)), len(values) - 1)])

    found = [quantile(q) for q in at]
    density = [2.0 * ASIDE / max(quantile(q + ASIDE) - quantile(q - ASIDE), 1e-3) for q in at]
    return np.array(found), np.column_stack([(q - (values <= each)) / f
                                             for q, each, f in zip(at, found, density, strict=True)])


def _parts(table: Table, w: Array) -> SimpleNamespace:
    words = {name: (np.asarray(table[name]) == word).astype(float) for name, word in WORDS.items()}
    return SimpleNamespace(w=w, **words, **{name: np.asarray(table[name], dtype=np.float64) for name in NUMBERS})


STATISTICS: dict[str, Callable[[Any], list[Found]]] = {
    "means": lambda t: [_mean(t.y, t.w), _mean(t.x3, t.w)],
    "differences of means": lambda t: [weighted_difference(t.y, t.b, t.w), weighted_difference(t.x2, t.g, t.w)],
    "no effect: differences": lambda t: [weighted_difference(t.y, t.z, t.w), weighted_difference(t.g, t.z, t.w)],
    "correlations": lambda t: [_correlation(t.x1, t.x2, t.w), _correlation(t.x3, t.y, t.w)],
    "linear regression": lambda t: [_linear(np.column_stack([np.ones(len(t.y)), t.x1, t.x2, t.b]), t.y, t.w)],
    "logistic regression": lambda t: [_logistic(np.column_stack([np.ones(len(t.y)), t.x1, t.x2]), t.b, t.w)],
    "quantiles": lambda t: [_quantiles(t.y, (0.25, 0.5, 0.9), t.w), _quantiles(t.x1, (0.5,), t.w)],
    "shares of groups": lambda t: [_mean(t.g, t.w), _mean(t.g * t.b, t.w), _mean((1.0 - t.b) * t.z, t.w)]}


def _together(found: Iterable[Found]) -> Found:
    found = list(found)
    return np.concatenate([values for values, _ in found]), np.column_stack([influence for _, influence in found])


def all_of(table: Table, w: Array | None = None) -> Found:
    rows = len(table["x1"])
    parts = _parts(table, np.full(rows, 1.0 / rows) if w is None else w)
    return _together(each for of in STATISTICS.values() for each in of(parts))


@lru_cache
def truth(kind: str) -> tuple[Array, tuple[str, ...]]:
    """Return the population's values, and of which statistic each is."""
    big = _parts(dict(population(kind, POPULATION, np.random.default_rng(99))), np.full(POPULATION, 1.0 / POPULATION))
    each = {name: _together(of(big))[0] for name, of in STATISTICS.items()}
    return np.concatenate(list(each.values())), tuple(name for name, values in each.items() for _ in values)


def intervals(kind: str, n: int, epsilon: float, delta: float, seed: int) -> dict[str, Any]:
    """Return, of one release, the errors and half widths of all methods, and the oracle's deviations."""
    true, _ = truth(kind)
    table = population(kind, n, np.random.default_rng([seed, n, *kind.encode()]))
    made = tm.synthesize(table, SCHEMA, tm.Budget(epsilon, delta), rng=np.random.default_rng(seed))
    sample = made.columns(n, np.random.default_rng(seed))
    naive, influence = all_of(sample)
    found = {"naive": (naive - true, NORMAL * influence.std(axis=0) / np.sqrt(n))}
    imputations = made.imputations(TABLES, rng=np.random.default_rng(seed))
    estimate = imputations.estimate(lambda rows: all_of(rows)[0], LEVEL)
    found["imputations"] = estimate.value - true, 0.5 * (estimate.high - estimate.low)
    weighted = made.weighted()
    closed = weighted.estimate(all_of, LEVEL)
    found["weights"] = closed.value - true, 0.5 * (closed.high - closed.low)
    influence = all_of(weighted.columns, weighted.weights)[1]
    sampling = all_of(dict(table))[1].std(axis=0) / np.sqrt(n)
    noise = weighted.variances(influence).noise
    return {**{f"{name} {what}": values.tolist() for name, both in found.items()
               for what, values in zip(("error", "half"), both, strict=True)},
            "oracle": np.sqrt(sampling**2 + noise).tolist()}


def of_methods(head: dict[str, Any], result: dict[str, Any]) -> list[dict[str, Any]]:
    _, names = truth(head["kind"])
    oracle, lines = np.array(result["oracle"]), list[dict[str, Any]]()
    for method in METHODS:
        error, half = (np.array(result[f"{method} {what}"]) for what in ("error", "half"))
        # An answer without an interval neither holds the truth nor misses it.
        lines += pd.DataFrame({
            **head, "method": method, "statistic": names,
            "held": np.where(np.isnan(half), np.nan, np.abs(error) <= half),
            "width": half / (NORMAL * oracle), "square": np.square(error / oracle)}).to_dict("records")
    return lines


def page(name: str, means: pd.DataFrame, asked: Asked) -> list[str]:
    def table(by: list[str]) -> list[list[str]]:
        lines = []
        for keys, own in means.groupby(by, sort=False):
            held = own.groupby("method")["held"].mean()
            width = own.groupby("method")["width"].median()
            lines.append([*(f"{key:,g}" if isinstance(key, float | int) else str(key) for key in keys),
                          *(f"{held[method]:.3f}" for method in METHODS),
                          *(f"{width[method]:.2f}" for method in METHODS)])
        return lines

    header = [*(f"hold, {method}" for method in METHODS), *(f"width, {method}" for method in METHODS)]
    return worded(name, seeds=asked.seeds, level=LEVEL, tables=TABLES,
                  statistics=markdown(["statistic", *header], table(["statistic"])), populations=markdown(
                      ["population", "rows", "epsilon", "delta", *header], table(["kind", "rows", "epsilon", "delta"])))


def summary(lines: pd.DataFrame) -> pd.DataFrame:
    return lines.groupby(["kind", "rows", "epsilon", "delta", "method", "statistic"],
                         sort=False).mean().reset_index().round(6)


answers = Experiment(
    name="answers", what="intervals for populations: how many hold the truth (half an hour)", seeds=(2, 4),
    size=(SETTINGS[:1], SETTINGS),
    cells=lambda asked: calls_of(intervals, asked, kind=KINDS, rows_epsilon_delta=asked.size),
    lines=of_methods, page=partial(page, "answers"), table=summary)
answers_real = Experiment(
    name="answers_real", what="the same for samples of a real table as the population (six minutes)", seeds=(2, 12),
    inputs=["adult"], size=(OF_REAL[:1], OF_REAL),
    cells=lambda asked: calls_of(intervals, asked, kind=("adult",), rows_epsilon_delta=asked.size),
    lines=of_methods, page=partial(page, "answers_real"), table=summary)
