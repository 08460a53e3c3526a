"""Random schemas, degenerate tables, budgets, mechanisms and hostile noise; and every public step behind a release."""

import datetime
import json
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pytest

import trigmech as tm
from trigmech import run as run_module
from trigmech.domain import Domain
from trigmech.errors import FitWarning, TrigmechError
from trigmech.mechanisms.moment import minimax
from trigmech.noisy_moments import NoisyMoments
from trigmech.planning.shares import Shares
from trigmech.privacy.ledger import Ledger
from trigmech.privacy.noise import SimulatedNoise
from trigmech.report import page
from trigmech.workload import GaussianKernels, SecondMoments
from trigmech.workload.tables import Marginals, Ranges

# What noise may make of values, whatever is likely.
NOISE = {
    "near": None,
    "exact": lambda rng, values, scale: values,
    "zero": lambda rng, values, scale: np.zeros(values.shape),
    "negative": lambda rng, values, scale: -values - scale * rng.random(values.shape),
    "lowest": lambda rng, values, scale: values - 40.0 * scale,
    "highest": lambda rng, values, scale: values + 40.0 * scale,
    "wild": lambda rng, values, scale: values + scale * rng.choice([-1e3, 0.0, 1e3], values.shape),
    "one": lambda rng, values, scale: 1e3 * scale * np.eye(1, values.size, rng.integers(max(values.size, 1)))[0],
}
ROWS = ("random", "random", "all equal", "all last", "all first", "all missing", "all special", "outside")
BUDGETS = [(epsilon, delta) for epsilon in (0.01, 0.1, 1.0, 10.0, 1000.0) for delta in (0.0, 0.0, 1e-9, 1e-3)]
FORMULAS = ("A + B", "A - B", "A * B", "A / max(abs(B), 1)", "A // 7", "A % 3", "A ** 9", "exp(A)", "exp(A / 1e18)",
            "log(max(A, 1))", "sqrt(abs(A))", "round(A, 3)", "round(A, 12)", "min(A, B)", "1e300 * A", "A * A * A * A",
            "year(A)", "weekday(A)", "A / B", 'lookup("t", A)', "floor(A)", "-A")
TEXTS = ("a", "b b", "ü", "x=y", "0", "1.0", "<b>", "true", "'", "a,b", "$x$", "missing")


@dataclass(frozen=True, eq=False)
class Run:
    """One release that may be refused, but never lost. The noise is one of NOISE, the seed that of all else."""

    table: pd.DataFrame
    schema: tm.Schema
    budget: tm.Budget
    mechanism: tm.Mechanism | None
    noise: str
    seed: int

    def __repr__(self) -> str:
        return f"Run({self.table.shape}, {self.schema!r}, {self.budget}, {self.mechanism!r}, {self.noise}, {self.seed})"


def random_run(seed: int, *, moments: bool | None = None) -> Run:
    """Return the run of a seed: by MomentMechanism, by TableMechanism, or by chance."""
    rng = np.random.default_rng(seed)
    n, how = int(rng.choice([2, 3, 5, 17, 60, 60, 2000])), str(rng.choice(ROWS))
    delta_wanted = rng.random() < 0.1
    columns = [_column(rng, f"c{j}" if rng.random() < 0.8 else f"c {j}<i>$", delta_wanted)
               for j in range(int(rng.choice([1, 2, 2, 3, 4, 7])))]
    table = pd.DataFrame({column.name: pd.Series(_cells(rng, column, n, how), dtype=object) for column in columns})
    person = None
    if rng.random() < 0.15:
        person = "who"
        table[person] = rng.integers(0, max(n // 2, 2), n)
        table.loc[0, person], table.loc[1, person] = 0, 1
    schema = _with_derived(np.random.default_rng([seed, 1]), _schema(rng, columns, person))
    epsilon, delta = BUDGETS[rng.integers(len(BUDGETS))]
    if delta_wanted:
        delta = delta or 1e-6
    moments = bool(rng.random() < 0.4) if moments is None else moments
    mechanism = _moments(rng, schema.domain) if moments else _tables(rng, columns)
    return Run(table, schema, tm.Budget(epsilon, delta), mechanism, str(rng.choice(list(NOISE))), seed)


def _column(rng: np.random.Generator, name: str, private: bool) -> tm.Column:
    kind = str(rng.choice(["continuous", "integer", "binary", "ordinal", "categorical", "datetime"]))
    missing = str(rng.choice(["refuse", "centre", "keep"]))
    if kind == "categorical":
        missing = "keep" if missing == "keep" else "refuse"
        if private and rng.random() < 0.5:
            return tm.Column(name, kind=kind, categories="private", missing=missing)
        return tm.Column(name, kind=kind, categories=_categories(rng), missing=missing)
    if kind == "ordinal":
        values = _categories(rng) if rng.random() < 0.7 else (0.5, 1.5, 7.25)
        return tm.Column(name, kind=kind, categories=values, missing=missing)
    if kind == "binary":
        lower, upper = [(0, 1), (-1, 1), (0.25, 7.5)][rng.integers(3)]
        return tm.Column(name, lower, upper, kind=kind, missing=missing)
    if kind == "datetime":
        start = datetime.date(2000, 1, 1) + datetime.timedelta(days=int(rng.integers(0, 9000)))
        days = int(rng.choice([1, 2, 20, 300, 400_000, 2_800_000]))
        stop = start + datetime.timedelta(days=days)
        if rng.random() < 0.5:
            start, stop = (datetime.datetime.combine(day, datetime.time(7, 30)) for day in (start, stop))
        special = (start - datetime.timedelta(days=400), start) if rng.random() < 0.3 else ()
        return tm.Column(name, start, stop, kind, missing=missing, special=special)
    if kind == "integer":
        lower, upper = [(0, 0.5), (0, 1), (0, 2), (-3, 3), (0, 14), (0, 15), (0, 16), (1, 90), (0, 300), (0, 10**5),
                        (1, 10**12), (-2**63, 2**62), (1, 1e300)][rng.integers(13)]
        special = [(), (), (0,), (0, 1), (-7, 1000), tuple(range(0, 4))][rng.integers(6)]
    else:
        lower, upper = [(0, 1), (-1e-9, 1e-9), (1e-3, 1e9), (1, 1.0000001), (-5, 5), (1e-300, 1e300),
                        (-8e307, 8e307)][rng.integers(7)]
        special = [(), (), (0.0,), (0.0, 3.5), (-99.0,)][rng.integers(5)]
    transform = str(rng.choice(["", "", "log", "log1p"])) or None
    if transform == "log" and lower <= 0:
        transform = "log1p"
    if rng.random() < 0.15:
        return tm.Column(name, kind=kind, private_bounds=True, missing=missing, special=special, transform=transform)
    decimals = int(rng.integers(0, 4)) if kind == "continuous" and rng.random() < 0.3 and 1 <= upper < 1e12 else None
    return tm.Column(name, lower, upper, kind, missing=missing, special=special, transform=transform, decimals=decimals)


def _categories(rng: np.random.Generator) -> tuple[Any, ...]:
    return [("u", "v"), TEXTS[:3], TEXTS, (True, False), (1, 2), tuple(range(-3, 14)),
            tuple(f"k{i}" for i in range(300)), (-(2**70), 5)][rng.integers(8)]


def _cells(rng: np.random.Generator, column: tm.Column, n: int, how: str) -> list[Any]:
    """Return what the rows hold in a column."""
    if how == "all missing" and column.missing != "refuse":
        return [None] * n
    if column.private_categories:
        values: list[Any] = ["x", "y", "a long name of a category", "ü"]
    elif column.categories is not None:
        values = list(column.categories)
    elif column.private_bounds:
        values = [1.0, 2.0, 77.0, 1e6] if column.transform else [-1e6, 0.0, 3.0, 1e300]
    elif column.kind == "datetime":
        times = pd.Timestamp(column.lower), pd.Timestamp(column.upper)
        values = [times[0], times[0] + (times[1] - times[0]) / 2, times[1]]
    else:
        values = [column.lower, 0.5 * (column.lower + column.upper), column.upper]
        if column.kind == "integer":
            values = [float(np.clip(np.rint(value), np.ceil(column.lower), column.upper)) for value in values]
        if how == "outside":
            values = [-1e300, 1e300] if column.transform is None else [column.lower, 1e300]
    special = [pd.Timestamp(value) if column.unit else value for value in column.special]
    if how == "all special" and special:
        return [special[k] for k in rng.integers(len(special), size=n)]
    if how in ("all last", "all first", "all equal", "outside") or (n > 5 and rng.random() < 0.1):
        return [values[{"all last": -1, "all first": 0}.get(how, int(rng.integers(len(values))))]] * n
    values += special + ([None] if column.missing != "refuse" else [])
    return [values[k] for k in rng.integers(len(values), size=n)]


def _schema(rng: np.random.Generator, columns: list[tm.Column], person: str | None) -> tm.Schema:
    """Return the schema, perhaps with a constraint that can be kept."""
    texts = []
    for column in columns:
        name = '"' + column.name + '"'
        if column.missing == "keep":
            texts.append(f"{name} is not missing")
        if column.kind in ("continuous", "integer") and not column.private_bounds:
            texts.append(f"{name} >= {0.5 * (column.lower + column.upper)!r}")
        if column.kind == "categorical" and column.is_text and not column.private_categories:
            texts.append(f"{name} != '{column.categories[0]}'".replace("'''", "''''"))
    if texts and rng.random() < 0.4:
        chosen = [str(text) for text in rng.permutation(texts)[:2]]
        for rules in (chosen, [" implies ".join(chosen)], chosen[:1]):
            try:
                return tm.Schema(columns, rules[: int(rng.integers(1, 3))], person=person)
            except TrigmechError:
                continue
    return tm.Schema(columns, person=person)


def _with_derived(rng: np.random.Generator, schema: tm.Schema) -> tm.Schema:
    """Return the schema with up to three derived columns: of random formulas those that are not refused."""
    names = [f"`{name}`" for name in schema.names]
    derived: list[tm.Derived] = []
    for k in range(int(rng.integers(4)) if rng.random() < 0.6 else 0):
        a, b = (str(rng.choice([*names, *(f"`d{j}`" for j in range(len(derived)))])) for _ in range(2))
        text = str(rng.choice(FORMULAS)).replace("A", a).replace("B", b)
        tables = {"t": [["u", 1.5], ["a", None], ["v", 2]]} if "lookup" in text else ()
        try:
            derived.append(tm.Derived(f"d{k}", text, rng.choice([None, 0, 12]), tables=tables))
            schema = tm.Schema(schema.columns, schema.constraints, schema.person, derived)
        except TrigmechError:
            derived = list(schema.derived)
    return schema


def _moments(rng: np.random.Generator, domain: Domain) -> tm.MomentMechanism:
    numbers, chance = len(domain.numbers), 1.0 if domain.groups else rng.random()
    if chance < 0.1:
        return minimax(float(rng.choice([0.5, 2.0, 60.0])), points=16, iterations=2)
    if chance < 0.25:
        return tm.MomentMechanism(fit=str(rng.choice(["cloud", "atoms"])), degree=int(rng.integers(1, 4)))
    options: dict[str, Any] = {"points": int(rng.choice([1, 16, 64])), "iterations": 2}
    for name, values in (("degree", (None, None, 1, 5)), ("pair_degree", (None, 0, 2)), ("weighted", (True, False)),
                         ("denoise", (True, False)), ("copula", (True, False)), ("max_functions", (None, None, 5)),
                         ("triples", (None, None, True)), ("whole_row", (None, None, None if domain.groups else True))):
        options[name] = values[rng.integers(len(values))]
    if numbers and rng.random() < 0.3:
        options["workload"] = [SecondMoments(numbers), GaussianKernels(numbers, seed=0, n_queries=5)][rng.integers(2)]
    return tm.MomentMechanism(**options)


def _tables(rng: np.random.Generator, columns: list[tm.Column]) -> tm.TableMechanism:
    asked = [None, None, Marginals(2), Marginals(3), Ranges(), Marginals(2, crossed=columns[-1].name)]
    shares = [None, None, None, None, Shares(1e-6, 0.0, 0.0), Shares(0.4, 0.5, 0.9, 5, 0.0), Shares(0.1, 0.2, 0.5, 1)]
    return tm.TableMechanism(workload=asked[rng.integers(len(asked))], shares=shares[rng.integers(len(shares))],
                             points=int(rng.choice([1, 16, 64])))


class LostError(AssertionError):
    """A step behind a charge failed."""


def released(run: Run) -> Any:
    """Return the release, or None if it was refused before its charge; raise LostError if it was charged and lost."""
    charged: list[tm.Charge] = []

    class Spy(Ledger):
        def charge(self, *charges: tm.Charge) -> None:
            super().charge(*charges)
            charged.extend(charges)

    made = NOISE[run.noise]
    rng = np.random.default_rng(run.seed)
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        # What is a warning by default would be lost where a program makes errors of them.
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", FitWarning)
        patch.setattr(run_module, "Ledger", Spy)
        if made is not None:
            for law in ("laplace", "gaussian", "linf"):
                patch.setattr(SimulatedNoise, law, lambda self, values, scale: np.asarray(made(rng, values, scale)))
        try:
            return tm.synthesize(run.table, run.schema, run.budget, run.mechanism, np.random.default_rng(run.seed))
        except TrigmechError as refused:
            if charged:
                raise LostError(f"{run}: charged, and then: {refused}") from refused
            return None
        except Exception as broken:
            raise LostError(f"{run}: {'charged' if charged else 'free'}, {type(broken).__name__}: {broken}") from broken


def steps(run: Run, made: Any, folder: Any, *, heavy: bool = True) -> None:
    """Take every public step behind a release; raise LostError with its name if one fails."""
    step = ""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.simplefilter("ignore", FitWarning)
            step = "preview"
            expected = tm.preview(made.n, run.schema, run.budget, mechanism=run.mechanism)
            assert all((str(expected), expected._repr_html_(), json.dumps(expected.to_dict(), allow_nan=False)))
            step = "save"
            made.save(folder / "made.tm")
            step = "load"
            loaded = tm.load(folder / "made.tm")
            assert np.array_equal(made.means, loaded.means)
            assert np.array_equal(made.distribution.points, loaded.distribution.points)
            moments = NoisyMoments.load(folder / "made.tm")
            moments.save(folder / "moments.tm")
            for each in (made, loaded):
                step = "words"
                assert all((repr(each), str(each.ledger), each._repr_html_(), each.schema._repr_html_()))
                assert len(each.names) == len(each.means) == len(each.deviations)
                each.to_frame()
                step = "sample"
                sample = each.sample(7, np.random.default_rng(1))
                assert len(sample) == 7
                assert each.schema.holds(sample.drop(columns=[run.schema.person or ""], errors="ignore")).all()
                step = "sample more rows than were fitted"
                count = len(each.distribution.points)
                more = each.columns(min(3 * count, count + 500) + 7, np.random.default_rng(1))
                assert list(more)[bool(run.schema.person):] == list(each.schema.table_names)
                for column in each.schema.derived:
                    held = np.ma.compressed(np.ma.asarray(more[column.name]))
                    assert held.dtype.kind == "O" or np.isfinite(held).all()
                assert each.schema.holds({name: more[name] for name in each.schema.names}).all()
                first = run.schema.names[0]
                step = "sample given"
                given = _asked(each.schema.columns[0], sample[first].iloc[0])
                assert len(each.sample(5, np.random.default_rng(1), given={first: given})) == 5
            step = "generate"
            # A file has the options of the mechanism; the default one is made of fewer points here.
            again = tm.generate(NoisyMoments.load(folder / "moments.tm"), 5, np.random.default_rng(1),
                                mechanism=None if run.mechanism else tm.TableMechanism(points=16))
            assert len(again) == 5
            step = "query"
            numbers = len(made.schema.domain.numbers)
            for workload in [SecondMoments(numbers), GaussianKernels(numbers, seed=0, n_queries=3)] if numbers else []:
                answers = loaded.query(workload)
                assert np.isfinite(answers.values).all()
                assert answers.error is None or np.isfinite(answers.error.bound).all()
            step = "error bars"
            if isinstance(run.mechanism, tm.TableMechanism):
                name = run.schema.names[-1]
                bars = loaded.error_bars(lambda table: np.mean(np.ma.getmaskarray(table[name])
                                                               | (np.ma.getdata(table[name]) == table[name][0])))
                # Infinite where no plausible table differs: the share may be the same in all of them.
                assert (bars.error.bound >= 0.0).all()
            if heavy:
                step = "report"
                page.write(loaded, folder / "made.html")
    except Exception as broken:
        raise LostError(f"{step} of {run}: {type(broken).__name__}: {broken}") from broken


def _asked(column: tm.Column, value: Any) -> Any:
    """Return a value of a synthetic row as what rows are given; of many values their range, or a special value."""
    if pd.isna(value):
        return None
    many = column.kind == "continuous" or (column.kind == "integer" and column.upper > 1e12)
    if many and value not in column.special:
        return column.lower, column.upper
    if isinstance(value, pd.Timestamp):
        return value.to_pydatetime()
    return value.item() if hasattr(value, "item") else value
