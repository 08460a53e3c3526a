"""The cases of tests/golden.py: small tables of every kind, and what is released of them by which mechanism.

The public names of the package are used alone; where there is none, an adapter at the end of the file has the import.
Tables are made of uniform numbers, sums and products, whose bits are the same on every machine.
"""

import datetime
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

import trigmech as tm
from trigmech import workload


@dataclass(frozen=True, eq=False)
class Case:
    """One release.

    Parameters
    ----------
    table : Any
    schema : Schema
    budget : Budget
    mechanism : Mechanism, optional
    way : str
        "synthesize"; "steps"; "loaded", steps with a file in between; "parts" or "shares", of so many as ``parts``;
        "file", a CSV file; "estimator".
    more : dict
        Further arguments of the design.
    bars : bool
        Whether error bars of a table release are asked for, which takes a second.
    page : bool
        Whether the report's page is made, which takes as much.
    """

    table: Any
    schema: tm.Schema
    budget: tm.Budget
    mechanism: tm.Mechanism | None = None
    way: str = "synthesize"
    parts: int = 2
    more: dict[str, Any] = field(default_factory=dict)
    bars: bool = False
    page: bool = False


# Budgets

ONE, LOW, HIGH, HUGE = (tm.Budget(epsilon, 1e-6) for epsilon in (1.0, 0.1, 20.0, 1e3))
PURE, PURE_LOW, PURE_HIGH, PURE_HUGE = (tm.Budget(epsilon) for epsilon in (1.0, 0.1, 20.0, 1e3))


# Tables and schemas


def cube(n=400, d=3, seed=1):
    u = np.random.default_rng(seed).random((n, d, 3)).sum(axis=2) / 1.5 - 1.0
    u[:, 1:] = 0.6 * u[:, :1] + 0.4 * u[:, 1:]
    return np.clip(u, -1.0, 1.0)


MIXED = tm.Schema([
    tm.Column("age", 0, 120, "integer", missing="keep"),
    tm.Column("gain", 0.0, 1e5, special=(0.0,), transform="log1p"),
    tm.Column("sex", kind="categorical", categories=("f", "m", "ü")),
    tm.Column("smokes", 0, 1, "binary"),
    tm.Column("grade", kind="ordinal", categories=("low", "middle", "high"), other="low"),
    tm.Column("income", 1.0, 1e6, transform="log", missing="centre"),
    tm.Column("seen", datetime.date(2020, 1, 1), datetime.date(2024, 12, 31), "datetime"),
])


def mixed(n=500, seed=2):
    rng = np.random.default_rng(seed)
    u, v, w = rng.random((3, n))
    age = np.floor(18 + 70 * u * v)
    return pd.DataFrame({
        "age": np.where(rng.random(n) < 0.1, np.nan, age),
        "gain": np.where(w < 0.6, 0.0, 1e5 * (w * u) ** 3),
        "sex": np.array(["f", "m", "ü"])[np.minimum(np.floor(3.3 * v * u + 0.5 * w), 2).astype(int)],
        "smokes": (rng.random(n) < 0.2 + 0.5 * u).astype(int),
        "grade": np.array(["low", "middle", "high", "unheard of"])[np.floor(3.999 * v).astype(int)],
        "income": np.where(rng.random(n) < 0.05, np.nan, 1.0 + 900_000.0 * (u * w) ** 2),
        "seen": np.datetime64("2020-01-01") + np.floor(1_800 * w).astype("timedelta64[D]"),
    })


def narrowed(schema, names):
    return tm.Schema([column for column in schema.columns if column.name in names])


FEW_NAMES = ("sex", "smokes", "grade")
FEW = narrowed(MIXED, FEW_NAMES)
NUMBERS = tm.Schema([tm.Column("age", 0, 120, "integer"), tm.Column("income", 0, 1e6, decimals=2),
                     tm.Column("hours", 0, 80)])


def numbers(n=500, seed=3):
    u, v, w = np.random.default_rng(seed).random((3, n))
    return np.column_stack([np.floor(18 + 80 * u * v), 9e5 * (u * w) ** 2, np.where(v < 0.4, 40.0, 80 * w)])


WIDE = tm.Schema([tm.Column(name, kind="categorical", categories=tuple("abcd"[:k]))
                  for name, k in zip("pqrstu", (2, 3, 4, 2, 3, 2), strict=True)])


def wide(n=2_000, seed=4):
    """Columns that depend on each other in threes."""
    rng = np.random.default_rng(seed)
    p, q, s = (rng.integers(0, k, n) for k in (2, 3, 2))
    u = np.where(rng.random(n) < 0.9, (p + s) % 2, rng.integers(0, 2, n))
    r = np.where(rng.random(n) < 0.8, q, rng.integers(0, 4, n))
    t = np.where(rng.random(n) < 0.7, (p + q) % 3, rng.integers(0, 3, n))
    return pd.DataFrame({name: np.array(list("abcd"))[each] for name, each in zip("pqrstu", (p, q, r, s, t, u),
                                                                                 strict=True)})


MANY = tm.Schema([tm.Column("code", kind="categorical", categories=tuple(f"k{i}" for i in range(150)), other="k0"),
                  tm.Column("flag", kind="categorical", categories=(True, False)),
                  tm.Column("count", -3, 14, "integer", special=(-99,), missing="keep"),
                  tm.Column("score", kind="ordinal", categories=(0.5, 1.5, 7.25, 9.0), missing="keep")])


def many(n=1_000, seed=5):
    rng = np.random.default_rng(seed)
    u, v, w = rng.random((3, n))
    count = np.where(v < 0.1, -99.0, np.floor(-3 + 17.9 * u))
    return pd.DataFrame({
        "code": [f"k{int(160 * x * y)}" for x, y in zip(u, v, strict=True)], "flag": u + w > 1.1,
        "count": np.where(w < 0.05, np.nan, count),
        "score": [None if x < 0.1 else (0.5, 1.5, 7.25, 9.0)[int(3.99 * x)] for x in v]})


SINGLE = tm.Schema([tm.Column("only", 0, 0.5, "integer"), tm.Column("maybe", 0, 0.5, "integer", missing="keep"),
                    tm.Column("x", 0, 1)])


def single(n=200):
    u, v = np.random.default_rng(6).random((2, n))
    return pd.DataFrame({"only": np.zeros(n), "maybe": np.where(u < 0.3, np.nan, 0.0), "x": v * u})


TIMES = tm.Schema([
    tm.Column("hour", datetime.datetime(2020, 1, 1, 8), datetime.datetime(2020, 1, 31, 18), "datetime"),
    tm.Column("minute", datetime.datetime(2020, 1, 1, 8, 30), datetime.datetime(2020, 1, 2, 9, 45), "datetime",
              missing="keep", special=(datetime.datetime(1999, 1, 1),)),
    tm.Column("second", "2020-01-01", "2020-01-02", "datetime", resolution="second")])


def times(n=300):
    u, v, w = np.random.default_rng(7).random((3, n))
    start = np.datetime64("2020-01-01T08:00:00")

    def after(seconds):
        return start + np.floor(seconds).astype("timedelta64[s]")

    minute = pd.Series(after(1_800 + 90_000 * u * v))
    minute[w < 0.2] = pd.Timestamp(1999, 1, 1)
    minute[w > 0.9] = pd.NaT
    return pd.DataFrame({"hour": after(2_600_000 * u), "minute": minute, "second": after(100_000 * v)})


PRIVATE = tm.Schema([tm.Column("age", kind="integer", private_bounds=True),
                     tm.Column("weight", private_bounds=True, missing="keep"),
                     tm.Column("job", kind="categorical", categories=("a", "b", "c"))])
PRIVATE_LOG = tm.Schema([tm.Column("gain", private_bounds=True, transform="log1p", special=(0.0,)),
                         tm.Column("job", kind="categorical", categories=("a", "b", "c"))])
UNKNOWN = tm.Schema([tm.Column("town", kind="categorical", categories="private"), tm.Column("age", 0, 120, "integer"),
                     tm.Column("trade", kind="categorical", categories="private", missing="keep", other="rest")])
UNKNOWN_TOO = tm.Schema([UNKNOWN.columns[0], tm.Column("age", kind="integer", private_bounds=True)])


def people(n=800, seed=8):
    rng = np.random.default_rng(seed)
    u, v, w = rng.random((3, n))
    trade = np.array(["baker", "smith", "clerk"], dtype=object)[np.floor(2.999 * u).astype(int)]
    trade[v > 0.95] = None
    return pd.DataFrame({
        "age": np.floor(18 + 70 * u * v), "weight": np.where(w < 0.1, np.nan, 50.0 + 60.0 * v * w),
        "gain": np.where(w < 0.5, 0.0, 5_000.0 * (u * v) ** 3),
        "job": np.array(list("abc"))[np.floor(2.999 * u * w).astype(int)],
        "town": [f"town {int(40 * (x * y) ** 2)}" for x, y in zip(u, w, strict=True)], "trade": trade})


def visits(n=600, seed=9):
    """Rows of some 200 persons, of whom some have many."""
    rng = np.random.default_rng(seed)
    found = people(n, seed)
    found["who"] = [f"person {int(200 * x * x)}" for x in rng.random(n)]
    return found


def of_persons(schema):
    return tm.Schema(schema.columns, schema.constraints, person="who")


CHECKED = tm.Schema(
    [tm.Column("age", 0, 99, "integer"), tm.Column("start", 0, 99, "integer", missing="keep"),
     tm.Column("school", kind="ordinal", categories=("none", "some", "all")),
     tm.Column("state", kind="categorical", categories=("child", "single", "married"))],
    ["age < 16 implies state = 'child'", "start <= age or start is missing", "age < 6 if and only if school = 'none'",
     "state != 'married' or not (school in ('none', 'some'))"])


def checked(n=600):
    u, v, w = np.random.default_rng(10).random((3, n))
    age = np.floor(99 * u)
    state = np.where(age < 16, "child", np.where((v > 0.5) & (w > 0.3), "married", "single"))
    school = np.where(age < 6, "none", np.where((w > 0.3) & (age > 15), "all", "some"))
    return pd.DataFrame({"age": age, "start": np.where(v < 0.3, np.nan, np.floor(age * w)), "school": school,
                         "state": state})


def equal(table, n):
    return pd.concat([table.iloc[:1]] * n, ignore_index=True)


# Mechanisms of one's own


@dataclass(frozen=True)
class FirstMoments(tm.Mechanism):
    """T_1, ..., T_degree of every column, with equal noise or with weights."""

    degree: int = 2
    weighted: bool = False

    def plan(self, facts):
        d = facts.domain.d
        functions = tm.Features(tm.ChebyshevBasis(np.vstack([a * np.eye(d, dtype=int)
                                                             for a in range(1, self.degree + 1)])))
        weights = 1.0 / np.arange(1, functions.K + 1) if self.weighted else np.ones(functions.K)
        diameter = 2.0 * (np.sqrt((weights**2).sum()) if facts.budget.delta > 0 and self.approximate else weights.sum())
        return self.equip(facts, functions, float(diameter), weights if self.weighted else None, proof="FirstMoments")


@dataclass(frozen=True)
class PureMoments(FirstMoments):
    """The same with noise that is pure at any delta, and a reconstruction of its own."""

    approximate = False

    def reconstruct(self, release, design, rng):
        return replace(super().reconstruct(release, design, rng), rows=77)


class Waves:
    """Triangular waves of random combinations of columns, without a library's functions."""

    def __init__(self, d, K):
        self.w = np.random.default_rng(11).random((d, K)) - 0.5
        self.d, self.K = d, K

    def _phase(self, X):
        return (np.asarray(X) @ self.w) % 1.0

    def evaluate(self, X):
        return 2.0 * np.abs(2.0 * self._phase(X) - 1.0) - 1.0

    def means(self, X):
        return self.evaluate(X).mean(axis=0)

    def gradient(self, X, coefficients):
        return (np.where(self._phase(X) < 0.5, -4.0, 4.0) * coefficients) @ self.w.T


@dataclass(frozen=True)
class OwnFunctions(tm.Mechanism):
    K: int = 20

    def plan(self, facts):
        functions = Waves(facts.domain.d, self.K)
        return self.equip(facts, functions, 2.0 * self.K**0.5, evaluation_error=1e-12)


@dataclass(frozen=True)
class TwoRounds(tm.Mechanism):
    """First moments of all columns, then higher ones of the column whose mean is furthest from 0; at delta = 0."""

    def _half(self, facts, degrees):
        functions = tm.Features(tm.ChebyshevBasis(degrees))
        return self.equip(replace(facts, budget=tm.Budget(facts.budget.epsilon / 2)), functions, 2.0 * functions.K)

    def plan(self, facts):
        d = facts.domain.d
        first, then = self._half(facts, np.eye(d, dtype=int)), self._half(facts, self._second(d, 0))
        return replace(first, facts=facts, charges=(*first.charges, *then.charges))

    def _second(self, d, column):
        return np.outer([2, 3, 4], np.arange(d) == column).astype(int)

    def passes(self, design):
        return 2

    def run(self, rows, design, session, rng):
        first = session.release(rows, design.measured)
        chosen = self._second(design.facts.domain.d, int(np.abs(first.means).argmax()))
        return session.release(rows, self._half(design.facts, chosen).measured)


class LinearScores:
    """A family of one's own: f(x) = w.x."""

    labels = ("linear scores",)

    def __init__(self, d):
        self.d = d
        self.w = np.random.default_rng(12).random((30, d)) - 0.5

    def importance(self, index):
        index = np.asarray(index)
        return ((index.sum(axis=1) == 1) / self.d)[None, :]

    def answers(self, points, weights=None):
        return (self.w @ np.average(points, axis=0, weights=weights))[:, None]

    def coefficients(self, index, start=0, stop=None):
        index = np.asarray(index)
        return np.where(index.sum(axis=1) == 1, self.w[start:stop, index.argmax(axis=1)], 0.0)[:, None, :]


# Cases


def tables(**options):
    return tm.TableMechanism(**{"points": 256, **options})


def moments(**options):
    return tm.MomentMechanism(**{"points": 256, "iterations": 10, **options})


SMALL = {"degree": 3, "pair_degree": 1, "triples": False, "whole_row": False}
CUBE = tm.Schema.cube(3)
kernels = workload.GaussianKernels


def of_cube(mechanism, budget=ONE, n=400, d=3, **more):
    return Case(cube(n, d), tm.Schema.cube(d), budget, mechanism, **more)


def of_mixed(budget, mechanism=None, n=500, **more):
    return Case(mixed(n), MIXED, budget, tables() if mechanism is None else mechanism, **more)


def of_few(budget, mechanism=None, n=500, **more):
    return Case(mixed(n)[list(FEW_NAMES)], FEW, budget, mechanism or tables(), **more)


def in_polars(table):
    return pl.from_pandas(table)


def in_arrow(table):
    return pa.Table.from_pandas(table, preserve_index=False)


def with_types(table):
    """Texts of pandas's type of categories, which sampled rows have again."""
    return table.astype({"sex": "category"})


# By name; those whose name begins with a star run in the default suite.
CASES = {
    # Tables: kinds x budgets
    "tables, mixed": lambda: of_mixed(ONE, bars=True),
    "tables, mixed, default options": lambda: Case(with_types(mixed()), MIXED, ONE, page=True),
    "tables, mixed, epsilon .1": lambda: of_mixed(LOW),
    "tables, mixed, epsilon 20": lambda: of_mixed(HIGH, n=1_500),
    "*tables, mixed, pure": lambda: of_mixed(PURE),
    "tables, mixed, pure, epsilon .1": lambda: of_mixed(PURE_LOW),
    "tables, mixed, pure, epsilon 20": lambda: of_mixed(PURE_HIGH, n=1_500, bars=True),
    "tables, looked at closer": lambda: Case(numbers(1_500), NUMBERS, HUGE, tables()),
    "tables, mixed, looked at closer": lambda: of_mixed(HUGE),
    "tables, looked at closer, pure": lambda: Case(numbers(1_500), NUMBERS, PURE_HUGE, tables(), bars=True),
    "*tables, contrasts": lambda: of_few(PURE, bars=True),
    "tables, contrasts, epsilon 20": lambda: of_few(PURE_HIGH, page=True),
    "tables, few": lambda: of_few(ONE),
    "tables, few, epsilon .1": lambda: of_few(LOW, n=60),
    "tables, threes": lambda: Case(wide(), WIDE, HIGH, tables(), bars=True),
    "tables, threes, default budget": lambda: Case(wide(), WIDE, ONE, tables()),
    "tables, threes, pure": lambda: Case(wide(), WIDE, PURE_HIGH, tables()),
    "*tables, numbers": lambda: Case(numbers(), NUMBERS, ONE, tables()),
    "tables, numbers, pure": lambda: Case(numbers(), NUMBERS, PURE, tables(), page=True),
    "tables, cube": lambda: of_cube(tables(), HIGH, 1_500, 5),
    "tables, many categories": lambda: Case(many(), MANY, ONE, tables()),
    "tables, many categories, pure": lambda: Case(many(), MANY, PURE, tables()),
    "tables, many categories, epsilon 20": lambda: Case(many(), MANY, HIGH, tables()),
    "*tables, times": lambda: Case(times(), TIMES, HIGH, tables()),
    "tables, times, pure": lambda: Case(times(), TIMES, PURE, tables()),
    "*tables, one level": lambda: Case(single(), SINGLE, ONE, tables()),
    "tables, one level, pure": lambda: Case(single(), SINGLE, PURE, tables()),
    "tables, one column": lambda: Case(numbers()[:, :1], narrowed(NUMBERS, ("age",)), ONE, tables()),
    "tables, one column, pure": lambda: Case(numbers()[:, :1], narrowed(NUMBERS, ("age",)), PURE, tables()),
    "tables, one column of categories, pure": lambda: Case(mixed()[["sex"]], narrowed(MIXED, ("sex",)), PURE, tables()),
    # Tables: options
    "tables, marginals of two": lambda: of_mixed(HIGH, tables(workload=workload.Marginals(2))),
    "tables, marginals of three": lambda: Case(wide(), WIDE, HIGH, tables(workload=workload.Marginals(3))),
    "tables, crossed": lambda: of_mixed(HIGH, tables(workload=workload.Marginals(2, crossed="sex"))),
    "tables, crossed, three": lambda: Case(wide(), WIDE, HIGH, tables(workload=workload.Marginals(3, crossed="p"))),
    "tables, crossed, pure": lambda: of_mixed(PURE_HIGH, tables(workload=workload.Marginals(2, crossed="grade"))),
    "tables, ranges of one": lambda: Case(numbers(), NUMBERS, ONE, more={"workload": workload.Ranges(1)}),
    "tables, ranges of three": lambda: Case(numbers(), NUMBERS, HIGH, tables(workload=workload.Ranges(3))),
    "tables, shares": lambda: of_mixed(HIGH, tables(shares=budget_shares(0.3, 0.1, 0.5, 2, 0.3))),
    "tables, shares, none closer": lambda: of_mixed(HIGH, tables(shares=budget_shares(0.5, 0.0, 0.0, 3, 0.0))),
    "tables, shares, pure": lambda: of_mixed(PURE_HIGH, tables(shares=budget_shares(0.4, 0.2, 0.6, 4, 0.0))),
    "tables, few points": lambda: of_mixed(ONE, tables(points=16)),
    "tables, missed": lambda: of_few(HUGE, tables(points=2)),
    "tables, one point": lambda: of_few(ONE, tables(points=1)),
    # Tables that are degenerate
    "tables, all rows equal": lambda: Case(equal(mixed(), 300), MIXED, ONE, tables()),
    "tables, all rows equal, pure": lambda: Case(equal(mixed(), 300), MIXED, PURE, tables()),
    "tables, two rows": lambda: Case(mixed(40).dropna().iloc[:2], MIXED, ONE, tables()),
    "tables, two rows, pure": lambda: Case(cube(2), CUBE, PURE, tables()),
    # Schemas whose bounds or categories are private
    "private bounds": lambda: Case(people(), PRIVATE, ONE, tables(), bars=True),
    "private bounds, pure": lambda: Case(people(), PRIVATE, PURE, tables()),
    "private bounds, half of the budget": lambda: Case(people(), PRIVATE_LOG, HIGH, tables(),
                                                       more={"bounds_share": 0.5}),
    "private bounds, moments": lambda: Case(people(), PRIVATE, ONE, moments(**SMALL)),
    "private bounds, moments, pure": lambda: Case(people(), PRIVATE_LOG, PURE_HIGH, moments(**SMALL)),
    "private bounds, algorithm 10": lambda: Case(people(), narrowed(PRIVATE, ("age", "weight")), HIGH,
                                                 tm.ImprovedTrigII(n_candidates=100)),
    "private bounds, algorithm 9 with a delta": lambda: Case(people(), narrowed(PRIVATE, ("age",)), HIGH,
                                                             tm.ImprovedTrigI(n_candidates=100)),
    "private bounds, published scales": lambda: Case(people(), narrowed(PRIVATE, ("age",)), PURE,
                                                     tm.ImprovedTrigI(n_candidates=100, calibration="published")),
    "*private categories": lambda: Case(people(), UNKNOWN, HIGH, tables()),
    "private categories, few found": lambda: Case(people(200), UNKNOWN, ONE, tables()),
    "private categories, moments": lambda: Case(people(), UNKNOWN, HIGH, moments(**SMALL)),
    "private categories and bounds": lambda: Case(people(2_000), UNKNOWN_TOO, HIGH, tables(), page=True),
    # Persons with several rows
    "*persons": lambda: Case(visits(), of_persons(narrowed(PRIVATE, ("job",))), ONE, tables()),
    "persons, mixed": lambda: Case(mixed(600).assign(who=visits()["who"]), of_persons(MIXED), HIGH, tables(),
                                   bars=True),
    "persons, pure": lambda: Case(mixed(600).assign(who=visits()["who"]), of_persons(MIXED), PURE, tables()),
    "persons, private bounds": lambda: Case(visits(), of_persons(PRIVATE), HIGH, tables()),
    "persons, private categories": lambda: Case(visits(), of_persons(UNKNOWN), HIGH, tables()),
    "persons, moments": lambda: Case(mixed(600).assign(who=visits()["who"]), of_persons(MIXED), ONE,
                                      moments(**SMALL)),
    "persons, algorithm 10": lambda: Case(visits()[["age", "who"]], of_persons(tm.Schema([tm.Column("age", 0, 120)])),
                                          ONE, tm.ImprovedTrigII(n_candidates=100)),
    # Constraints
    "constraints": lambda: Case(checked(), CHECKED, ONE, tables(), bars=True),
    "constraints, pure": lambda: Case(checked(), CHECKED, PURE, tables()),
    "constraints, moments": lambda: Case(checked(), CHECKED, ONE, moments(**SMALL)),
    "constraints, persons": lambda: Case(checked().assign(who=visits()["who"]), of_persons(CHECKED), HIGH, tables()),
    # Ways: steps, files, parts, libraries
    "steps": lambda: of_mixed(ONE, way="steps"),
    "steps, moments": lambda: of_cube(moments(**SMALL), way="steps"),
    "loaded": lambda: of_mixed(HIGH, way="loaded"),
    "loaded, moments": lambda: of_mixed(PURE, moments(**SMALL), way="loaded"),
    "loaded, contrasts": lambda: of_few(PURE, way="loaded"),
    "parts": lambda: of_mixed(ONE, way="parts", parts=3),
    "parts, pure": lambda: of_mixed(PURE, way="parts"),
    "parts, private bounds": lambda: Case(people(), PRIVATE, HIGH, tables(), way="parts"),
    "parts, persons": lambda: Case(visits().sort_values("who"), of_persons(narrowed(PRIVATE, ("job",))), ONE,
                                   tables(), way="parts"),
    "*parts, moments": lambda: of_mixed(ONE, moments(**SMALL), way="parts", parts=3),
    "parts, algorithm 10": lambda: of_cube(tm.ImprovedTrigII(n_candidates=100), way="parts"),
    "parts, own mechanism": lambda: of_cube(FirstMoments(), way="parts"),
    "*shares, moments": lambda: of_cube(moments(**SMALL), way="shares"),
    "shares, tables": lambda: of_few(ONE, way="shares"),
    "a file": lambda: of_mixed(ONE, way="file"),
    "a file, moments, persons": lambda: Case(mixed(600).assign(who=visits()["who"]), of_persons(MIXED), ONE,
                                             moments(**SMALL), way="file"),
    "polars": lambda: Case(in_polars(mixed()), MIXED, ONE, tables()),
    "arrow": lambda: Case(in_arrow(mixed()), MIXED, PURE, moments(**SMALL)),
    "an estimator": lambda: Case(cube(), CUBE, ONE, tables(), way="estimator"),
    # Moments: kinds x budgets
    "moments, rows": lambda: of_cube(moments(), page=True),
    "moments, default options": lambda: of_cube(tm.MomentMechanism(), n=300),
    "moments, epsilon .1": lambda: of_cube(moments(), LOW),
    "moments, epsilon 20": lambda: of_cube(moments(max_functions=60), HIGH, 1_500),
    "*moments, pure": lambda: of_cube(moments(**SMALL), PURE),
    "moments, pure, epsilon .1": lambda: of_cube(moments(), PURE_LOW),
    "moments, pure, epsilon 20": lambda: of_cube(moments(), PURE_HIGH, 1_500),
    "moments, mixed": lambda: of_mixed(ONE, moments(**SMALL), page=True),
    "moments, mixed, planned": lambda: of_mixed(ONE, moments()),
    "*moments, mixed, pure": lambda: of_mixed(PURE, moments(**SMALL)),
    "moments, mixed, epsilon 20": lambda: of_mixed(HIGH, moments(), 1_500),
    "moments, few": lambda: of_few(ONE, moments()),
    "moments, few, pure": lambda: of_few(PURE, moments()),
    "moments, many categories": lambda: Case(many(), MANY, ONE, moments(**SMALL)),
    "moments, one level": lambda: Case(single(), SINGLE, ONE, moments(**SMALL)),
    "moments, one column": lambda: of_cube(moments(), d=1),
    "moments, one column, pure": lambda: of_cube(moments(degree=4), PURE, d=1),
    "moments, all rows equal": lambda: Case(equal(mixed(), 300), MIXED, ONE, moments(**SMALL)),
    "moments, two rows": lambda: of_cube(moments(), n=2),
    # Moments: options
    "*moments, cloud": lambda: of_cube(tm.MomentMechanism(fit="cloud", **SMALL)),
    "moments, cloud, pure, not weighed": lambda: of_cube(tm.MomentMechanism(fit="cloud", weigh=False, **SMALL), PURE),
    "*moments, atoms": lambda: of_cube(tm.MomentMechanism(fit="atoms", degree=2, pair_degree=0), d=2),
    "moments, atoms, pure": lambda: of_cube(tm.MomentMechanism(fit="atoms", degree=2, pair_degree=1), PURE, d=2),
    "*moments, minimax": lambda: of_cube(tm.minimax(1.0, max_functions=60, points=256, iterations=10)),
    "moments, minimax, pure": lambda: of_cube(tm.minimax(2.5, max_functions=60, points=256, iterations=10), PURE, d=2),
    "moments, smoothness, cloud": lambda: of_cube(tm.MomentMechanism(smoothness=2.0, max_functions=40, fit="cloud"),
                                                  HIGH, d=2),
    "*moments, triples": lambda: of_cube(moments(degree=2, pair_degree=1, triples=True), HIGH, d=4),
    "moments, triples, mixed": lambda: of_mixed(HIGH, moments(degree=2, pair_degree=1, triples=True)),
    "moments, whole rows": lambda: of_cube(moments(whole_row=True, workload=kernels(3, seed=0, widths=(1.0, 2.0)))),
    "moments, whole rows, pure": lambda: of_cube(moments(whole_row=True, **{k: SMALL[k] for k in ("degree",)}), PURE),
    "moments, whole rows, cloud": lambda: of_cube(tm.MomentMechanism(fit="cloud", whole_row=True)),
    "*moments, not weighted": lambda: of_cube(moments(weighted=False, **SMALL)),
    "moments, not weighted, pure": lambda: of_cube(moments(weighted=False, **SMALL), PURE),
    "moments, not weighted, mixed": lambda: of_mixed(ONE, moments(weighted=False, **SMALL)),
    "moments, not denoised": lambda: of_cube(moments(denoise=False, copula=False)),
    "moments, no copula, mixed": lambda: of_mixed(ONE, moments(copula=False, **SMALL)),
    "moments, pair degree 0": lambda: of_cube(moments(pair_degree=0)),
    "moments, pair degree 3": lambda: of_cube(moments(degree=3, pair_degree=3), HIGH, d=2),
    # Moments: workloads
    "moments, kernels": lambda: of_cube(None, more={"workload": kernels(3, seed=0, n_queries=50)}),
    "moments, pairs of kernels": lambda: of_cube(moments(workload=workload.PairKernels(3, seed=0, n_queries=50))),
    "moments, second moments": lambda: of_cube(moments(workload=workload.SecondMoments(8)), d=8),
    "moments, polynomials": lambda: of_cube(moments(workload=workload.Polynomials(3, 3, 50, seed=0)), HIGH),
    "moments, smooth": lambda: of_cube(moments(workload=workload.Smooth(3, 2.0, 2))),
    "moments, mixture": lambda: of_cube(moments(workload=workload.Mixture((
        kernels(3, seed=0, n_queries=50), workload.SecondMoments(3))))),
    "*moments, a family of one's own": lambda: of_cube(moments(workload=LinearScores(3))),
    "moments, missed": lambda: of_cube(tm.MomentMechanism(points=2, iterations=1, **SMALL), HUGE),
    # The thesis's mechanisms
    "*algorithm 4": lambda: of_cube(tm.TrigI(degree=2, grid=4), PURE),
    "algorithm 4, published": lambda: of_cube(tm.TrigI(degree=2, grid=3, calibration="published"), PURE),
    "algorithm 4, formulas": lambda: of_cube(tm.TrigI(), PURE_HIGH, d=2),
    "*algorithm 5": lambda: of_cube(tm.TrigII(degree=2, grid=4, levels=None)),
    "algorithm 5, published": lambda: of_cube(tm.TrigII(degree=2, grid=3, calibration="published")),
    "algorithm 5, levels": lambda: of_cube(tm.TrigII(degree=3, grid=5, levels=10, rows=33, max_weight=0.2), d=2),
    "algorithm 9": lambda: of_cube(tm.ImprovedTrigI(n_candidates=200), PURE, page=True),
    "algorithm 9, published": lambda: of_cube(tm.ImprovedTrigI(n_candidates=200, calibration="published",
                                                               ellipsoid="published", ties="last"), PURE),
    "algorithm 9, mixed": lambda: of_mixed(PURE_HIGH, tm.ImprovedTrigI(n_candidates=200, rank=2)),
    "algorithm 9, not solved": lambda: of_cube(tm.ImprovedTrigI(n_candidates=200, time_limit=1e-9), PURE),
    "*algorithm 10": lambda: of_cube(tm.ImprovedTrigII(n_candidates=200, rank=2)),
    "algorithm 10, published": lambda: of_cube(tm.ImprovedTrigII(n_candidates=200, calibration="published",
                                                                 eigenvalues="norm", background=0.0)),
    "algorithm 10, options": lambda: of_cube(tm.ImprovedTrigII(
        n_candidates=150, n_basis=6, iterations=2, scale=1.5, degree="formula", grid=None, levels=20, rows="formula"),
        HIGH),
    "algorithm 10, two rows": lambda: of_cube(tm.ImprovedTrigII(n_candidates=50), n=2),
    # Mechanisms of one's own
    "*own moments": lambda: of_cube(FirstMoments()),
    "own moments, pure": lambda: of_cube(FirstMoments(3), PURE),
    "own moments, weights": lambda: of_cube(FirstMoments(2, weighted=True), HIGH),
    "own moments, pure at a delta": lambda: of_cube(PureMoments(2, weighted=True)),
    "own moments, private bounds": lambda: Case(people(), narrowed(PRIVATE, ("age", "weight")), HIGH, PureMoments()),
    "own moments, mixed": lambda: of_mixed(HIGH, FirstMoments()),
    "own rounds": lambda: of_cube(TwoRounds(), PURE),
    "own rounds, parts": lambda: of_cube(TwoRounds(), PURE, way="parts"),
    "*own functions": lambda: of_cube(OwnFunctions()),
    "own functions, parts": lambda: of_cube(OwnFunctions(), way="parts"),
}
QUICK = [name for name in CASES if name.startswith("*")]


# Adapters: what has no public name


def budget_shares(look, closer, products, scores, selected):
    """TableMechanism takes these, but the package does not export them."""
    from trigmech.planning.shares import Shares

    return Shares(look, closer, products, scores, selected)
