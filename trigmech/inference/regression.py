"""Regressions on imputations: coefficients with standard errors that include the noise, and naive ones. Public."""

import math
import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Literal

import numpy as np

from trigmech._arrays import SAME, Array, Integers
from trigmech._html import html_lines, html_table
from trigmech._optional import need
from trigmech._validate import check_choice, check_level
from trigmech.errors import InputError
from trigmech.inference.estimate import LARGE, why_untold
from trigmech.inference.formula import Formula, parsed_formula
from trigmech.inference.imputations import Imputations, truth_of
from trigmech.inference.sql import mostly_there
from trigmech.schema.schema import Schema
from trigmech.tables.frames import like

Family = Literal["gaussian", "binomial", "poisson"]

# Columns of a model's matrix, and steps of its fit.
MOST_COLUMNS, STEPS = 500, 100
FAMILIES = {"gaussian": "linear regression", "binomial": "logistic regression", "poisson": "log-linear regression"}

HEAD = ("estimate", "std. error", "low", "high", "p", "naive s.e.")
NAIVE = "Naive standard errors are those of one synthetic table by itself: they leave out the noise of the release."


@dataclass(frozen=True, eq=False)
class Regression:
    """A regression with honest standard errors. Public.

    Parameters
    ----------
    formula : str
    family : str
    names : tuple of str
        The coefficients' names.
    values, deviations, low, high, p : ndarray
        The coefficients, their standard errors, the ends of their intervals, and p values of the hypothesis that they
        are 0. NaN where fewer than two tables have a value, and all but the coefficient where nothing tells how far the
        true one may be from it; ``notes`` say why.
    naive : ndarray
        The standard errors that one synthetic table of as many rows as the private one would seem to have. They do not
        count the noise of the release: do not use them.
    untold : ndarray
        The share of each variance that comes from relations that the release did not measure.
    count : int
        How many imputed tables there are.
    level : float
        The probability with which each interval holds the true value.
    covers : str
        A sentence that says whose true values the intervals hold: the private table's, or its population's.
    notes : tuple of str
        Remarks for the reader, one sentence each.
    """

    formula: str
    family: str
    names: tuple[str, ...]
    values: Array
    deviations: Array
    low: Array
    high: Array
    p: Array
    naive: Array
    untold: Array
    count: int
    level: float
    covers: str
    notes: tuple[str, ...] = ()

    @property
    def columns(self) -> dict[str, Any]:
        """The columns of the table of coefficients."""
        return {"coefficient": np.array(self.names, dtype=object), "estimate": self.values,
                "standard_error": self.deviations, "low": self.low, "high": self.high, "p": self.p,
                "naive_standard_error": self.naive, "untold": self.untold}

    def to_frame(self, library: str = "pandas") -> Any:
        """Return the coefficients as a dataframe of "pandas", "polars" or "pyarrow"."""
        return like(library, tuple(self.columns), list(self.columns.values()))

    def to_dict(self) -> dict[str, Any]:
        """Return all of it with names, of the types that JSON has."""
        rows = [{name: None if isinstance(value, float) and math.isnan(value) else value
                 for name, value in zip(self.columns, row, strict=True)}
                for row in zip(*(held.tolist() for held in self.columns.values()), strict=True)]
        return {"formula": self.formula, "family": self.family, "covers": self.covers, "level": self.level,
                "imputations": self.count, "coefficients": rows, "notes": list(self.notes)}

    def __repr__(self) -> str:
        return f"Regression({self.formula!r}, {self.family}: {', '.join(self.names)}; {self.level:.0%} intervals)"

    def _repr_html_(self) -> str:
        rows = [(name, *("" if math.isnan(each) else f"{each:.4g}" for each in row)) for name, row in self._rows]
        return html_table(f"{FAMILIES[self.family]}: {self.formula}", rows, ("coefficient", *HEAD)) + html_lines(
            self.covers, (NAIVE, *self.notes))

    @property
    def _rows(self) -> list[tuple[str, tuple[float, ...]]]:
        numbers = zip(self.values, self.deviations, self.low, self.high, self.p, self.naive, strict=True)
        return list(zip(self.names, numbers, strict=True))

    def __str__(self) -> str:
        width = max(len("coefficient"), *map(len, self.names))
        lines = [f"{FAMILIES[self.family]}: {self.formula}",
                 "  ".join(["coefficient".ljust(width), *(f"{name:>10}" for name in HEAD)])]
        for name, row in self._rows:
            lines.append("  ".join([name.ljust(width), *("".rjust(10) if math.isnan(each) else f"{each:>10.4g}"
                                                         for each in row)]))
        return "\n".join([*lines, self.covers, NAIVE, *self.notes])


def fitted(imputations: Imputations, formula: str, family: Family = "gaussian", level: float = 0.95) -> Regression:
    """Return a regression on imputations.

    Parameters
    ----------
    imputations : Imputations
    formula : str
        See :mod:`trigmech.inference.formula`. Rows in which a value is missing are left out. Columns of texts are
        categories; the first one is the reference.
    family : {"gaussian", "binomial", "poisson"}
        For "binomial" the left side is 0 or 1, or a column of two categories, of which the second counts as 1.
    level : float
        The probability, between 0 and 1, with which each interval is to hold the true value.

    Raises
    ------
    InputError
        If the formula is not of that form, or the model cannot be fitted.
    MissingLibraryError
        If formulaic, statsmodels or pyarrow is not installed.

    Notes
    -----
    Privacy: post-processing. Cost: a fit on every table and on its halves.
    """
    need("answers", "a regression")
    check_choice("family", family, Family)
    check_level(level)
    model = _Model(imputations.schema, parsed_formula(formula, imputations.schema.table_names), family)
    model.begin(imputations)
    whole, halves, naive = [], [], []
    for i in range(len(imputations)):
        y, X, places = model.data(imputations.columns(i))
        first = np.searchsorted(places, imputations.rows // 2)
        values, errors = model.fit(y, X)
        whole.append(values)
        naive.append(errors)
        halves.append([model.fit(y[half], X[half])[0] for half in (slice(first), slice(first, None))])
    again = np.array([[model.coefficients(table)[0] for table in imputations.rehearsals(k)]
                      for k in range(len(imputations.rehearsed))]).reshape(-1, 3, len(model.names))
    made = _combined(imputations, model, formula, np.array(whole), np.array(halves), np.array(naive), again, level)
    counted = [] if model.counted is None else [f"{model.formula.response} = {model.counted!r} counts as 1."]
    counted += [f"{name} = {value!r} is the reference." for name, value in model.references.items()]
    return replace(made, notes=(*counted, *made.notes))


def check_formula(schema: Schema, formula: str, family: str) -> None:
    """Raise the errors of :func:`fitted` that need no imputations."""
    need("answers", "a regression")
    check_choice("family", family, Family)
    _Model(schema, parsed_formula(formula, schema.table_names), family)


class _Model:
    """A formula with its data: the same columns of its matrix for every table."""

    names: tuple[str, ...] = ()
    # The reference value of each column of numbers that count as categories.
    references: Mapping[str, Any] = MappingProxyType({})

    def __init__(self, schema: Schema, formula: Formula, family: str) -> None:
        from formulaic import Formula as Parsed

        self.formula, self.family, self._schema = formula, family, schema
        self._right = Parsed(formula.right)
        if not list(self._right):
            raise InputError("the right side of the formula has no term; it needs a column, or 1 for the intercept "
                             "alone")
        self._levels = {name: self._levels_of(name) for name in formula.columns.values()}
        self._check_width()

    def begin(self, imputations: Imputations) -> None:
        """Find the coefficients' names in a table; raise an InputError if it does not tell all of them."""
        for safe in dict.fromkeys(NUMBERS_AS_CATEGORIES.findall(self.formula.right)):
            name = self.formula.columns[safe]
            if self._levels[name] is None and (values := self._values_of(imputations, safe, name)):
                self._levels[name], self.references = values, {**self.references, name: values[0]}
        y, matrix = self._matrix(self._frame(imputations.columns(0)))
        self.names = tuple(self.formula.label(str(name)) for name in matrix.columns)
        held = matrix.to_numpy(dtype=np.float64)
        if not (np.isfinite(held).all() and np.isfinite(y).all()):
            raise InputError("the formula is not a finite number in some rows, for example the logarithm of 0; write "
                             "log1p(name) or I(...) instead")
        present = held[:, held.any(axis=0)]
        if not len(held) or np.linalg.matrix_rank(present) < present.shape[1]:
            raise InputError("the terms of the formula depend on each other, or a table has fewer rows than the "
                             "formula has coefficients; leave terms out")
        # By the residual's size alone: nothing is estimated, and rounding would look like an interval.
        if self.family == "gaussian" and y.min() < y.max():
            left = y - present @ np.linalg.lstsq(present, y, rcond=None)[0]
            if float(np.abs(left).max()) <= SAME * float(np.abs(y).max()):
                raise InputError("the left side of the formula follows from the terms exactly, so there is nothing to "
                                 "estimate")

    def coefficients(self, table: dict[str, Any]) -> tuple[Array, Array]:
        """Return the coefficients and their standard errors in a table; NaN where it tells nothing of them."""
        return self.fit(*self.data(table)[:2])

    def data(self, table: dict[str, Any]) -> tuple[Array, Array, Integers]:
        """Return the response (m,), the terms (m, k), and the places (m,) of the rows where no value is missing.

        The data of a table's halves are parts of these arrays: to evaluate the formula takes longer than most fits.
        """
        frame = self._frame(table)
        y, matrix = self._matrix(frame)
        return y, matrix.to_numpy(dtype=np.float64), np.flatnonzero(frame.notna().all(axis=1).to_numpy())

    def fit(self, y: Array, X: Array) -> tuple[Array, Array]:
        """Return the coefficients and their standard errors for such data; NaN where they tell nothing of them."""
        import statsmodels.api as sm

        found = np.full((2, X.shape[1]), np.nan)
        held = X.any(axis=0)
        if len(y) <= held.sum() or not np.isfinite(X).all() or not np.isfinite(y).all():
            return found[0], found[1]
        if self.family == "binomial" and y.min() == y.max():
            # The intercept would be as far from 0 as the solver's steps go.
            return found[0], found[1]
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            try:
                if self.family == "gaussian":
                    fit = sm.OLS(y, X[:, held]).fit()
                else:
                    kind = sm.families.Binomial() if self.family == "binomial" else sm.families.Poisson()
                    fit = sm.GLM(y, X[:, held], family=kind).fit(maxiter=STEPS)
                    if not fit.converged:
                        return found[0], found[1]
                found[:, held] = fit.params, fit.bse
            except Exception:  # Its libraries raise many kinds where a table has no such fit.
                return np.full(X.shape[1], np.nan), np.full(X.shape[1], np.nan)
        return found[0], found[1]

    @property
    def counted(self) -> str | None:
        """The category of the left side that counts as 1; None for numbers."""
        levels = self._levels.get(self.formula.response or "")
        return None if not levels else str(levels[1])

    def _levels_of(self, name: str) -> list[Any] | None:
        """Return the categories of a column of texts; None for numbers."""
        column = next((each for each in self._schema.columns if each.name == name), None)
        if column is None:
            return None
        if column.unit:
            raise InputError(f"column {name!r} holds times, which a formula cannot use; derive a number from it")
        if column.categories is None or not isinstance(column.categories[0], str):
            return None
        return list(column.categories)

    def _values_of(self, imputations: Imputations, safe: str, name: str) -> list[Any] | None:
        """Return the values that a number has in any table, as categories; None if it counts as a number, too.

        The first one is the reference. It should be in every half, or another category would take its place there.
        """
        if safe in (self.formula.left + self.formula.right).replace(f"C({safe})", ""):
            return None
        halves = [set(np.ma.masked_array(half[name]).compressed().tolist())
                  for i in range(len(imputations)) for half in imputations.halves(i)]
        values, always = sorted(set.union(*halves)), set.intersection(*halves)
        if len(values) > MOST_COLUMNS:
            raise InputError(f"C({name}) has {len(values):,} values, more than {MOST_COLUMNS}; use the number itself")
        return sorted(values, key=lambda value: (value != min(always, default=values[0]), value))

    def _check_width(self) -> None:
        """Raise an InputError before a matrix of very many columns is made."""
        columns = 0
        for term in self._right:
            width = 1
            for factor in term.factors:
                name = self.formula.columns.get(str(factor).removeprefix("C(").removesuffix(")"))
                width *= len(self._levels.get(name or "") or ()) or 1
                if str(factor).startswith("C(") and not self._levels.get(name or ""):
                    held = next((each for each in self._schema.columns if each.name == name), None)
                    width *= len(held.categories or ()) or 1 if held is not None else 1
            columns += width
        if columns > MOST_COLUMNS:
            raise InputError(f"the formula has about {columns:,} coefficients, more than {MOST_COLUMNS}; leave out "
                             "terms")

    def _frame(self, table: dict[str, Any]) -> Any:
        """Return the columns that the formula has, by their safe names."""
        import pandas as pd

        held = {}
        for safe, name in self.formula.columns.items():
            values = table[name]
            levels = self._levels[name]
            if levels is not None or values.dtype.kind == "O":
                texts = np.array(np.ma.getdata(values), dtype=object)
                texts[np.ma.getmaskarray(values)] = None
                held[safe] = pd.Categorical(texts, categories=levels)
            else:
                held[safe] = np.ma.filled(values.astype(np.float64), np.nan)
        return pd.DataFrame(held)

    def _matrix(self, frame: Any) -> tuple[Array, Any]:
        """Return the response, and the matrix of the terms, of the rows in which no value is missing."""
        from formulaic import Formula as Parsed

        frame = frame.dropna()
        safe = self.formula.left
        if self.formula.response is not None and (levels := self._levels[self.formula.response]) is not None:
            if self.family != "binomial" or len(levels) != 2:
                raise InputError(f"column {self.formula.response!r} has categories; only family='binomial' can explain "
                                 "categories, and of two")
            y = (frame[safe] == levels[1]).to_numpy(dtype=np.float64)
        else:
            y = self._evaluated(Parsed(f"0 + {safe}"), frame).to_numpy(dtype=np.float64)
            if y.shape[1] != 1:
                raise InputError("the left side of a formula must be one number of each row")
            y = y[:, 0]
        _check_response(self.family, y)
        return y, self._evaluated(self._right, frame)

    def _evaluated(self, formula: Any, frame: Any) -> Any:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            try:
                return formula.get_model_matrix(frame, context=CONTEXT, na_action="ignore")
            except Exception as problem:
                why = self.formula.label(next(iter(str(problem).splitlines()), ""))[:200]
                raise InputError(f"the formula cannot be computed: {why}") from None


# Columns of numbers whose values count as categories.
NUMBERS_AS_CATEGORIES = re.compile(r"C\((column_\d+_)\)")
CONTEXT = {"log1p": np.log1p, "abs": np.abs, "sqrt": np.sqrt}


def _check_response(family: str, y: Array) -> None:
    held = y[np.isfinite(y)]
    if family == "binomial" and not ((held == 0.0) | (held == 1.0)).all():
        raise InputError("for family='binomial' the left side must be 0 or 1, or a column of two categories")
    if family == "poisson" and not (held >= 0.0).all():
        raise InputError("for family='poisson' the left side must be numbers that are at least 0")


def _combined(imputations: Imputations, model: _Model, formula: str, whole: Array, halves: Array, naive: Array,
              again: Array, level: float) -> Regression:
    found, few, bare, flat = np.full((7, len(model.names)), np.nan), False, False, False
    for k in range(len(model.names)):
        there = np.isfinite(whole[:, k]) & np.isfinite(halves[:, :, k]).all(axis=1)
        few |= not bool(there.all())
        if there.sum() < 2:
            bare = True
            continue
        each = imputations.combined(whole[there, k], halves[there][:, :, k], level, again[:, :, k])
        same = bool(each.flat.all())
        flat |= same
        p = imputations.tested(whole[there, k : k + 1], halves[there][:, :, k : k + 1],
                               again[:, :, k : k + 1]) if not same else math.nan
        # As one table of as many rows as the private one would have.
        alone = float(naive[there, k].mean()) * math.sqrt(imputations.rows / imputations.n)
        # If too many tables have no fit of it, the private table may have no fit either; see `mostly_there`.
        told = mostly_there(whole[:, k], level)
        bare |= not told
        known = (float(each.deviation), float(each.low), float(each.high), p) if told and not same else (math.nan,) * 4
        found[:, k] = float(each.value), *known, alone, float(each.untold)
    notes = [f"Some of the {len(imputations)} imputed tables have no fit of some coefficients; their estimates come "
             "from the other tables, if there are any."] if few else []
    if bare:
        notes.append("Some coefficients have no interval, because the private table may have no fit of them.")
    if flat:
        notes.append("Some coefficients have no interval, because they are the same in all imputed tables, which then "
                     "do not tell how far the true ones may be from them.")
    wide = [name for name, share, low in zip(model.names, found[6], found[2], strict=True)
            if share > LARGE and not math.isnan(low)]
    if wide:
        sources = imputations.schema.completion.sources(model.formula.columns.values())
        why = why_untold(sources, imputations.measured)
        notes.append(f"{', '.join(wide)}: the interval is wide because {why}.")
    values, deviations, low, high, p_values, alone_all, untold = found
    return Regression(formula, model.family, model.names, values, deviations, low, high, p_values, alone_all, untold,
                      len(imputations), level, f"Each interval holds the coefficient of {truth_of(imputations)} with "
                      f"probability {level:g}.", tuple(notes))
