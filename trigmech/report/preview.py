"""What a budget will buy, in the columns' own units, from public numbers and before it is spent."""

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trigmech.errors import BudgetError, InputError, TrigmechError, shown
from trigmech.functions.index import FunctionIndex
from trigmech.mechanisms.moment import MomentMechanism
from trigmech.planning.design import MomentDesign
from trigmech.privacy.accounting import filtered_epsilon
from trigmech.privacy.budget import Budget, Charge, shown_up
from trigmech.privacy.ledger import Ledger
from trigmech.privacy.ledger_file import LedgerFile
from trigmech.report.advice import warnings_of
from trigmech.report.figures import number
from trigmech.report.moments import noise_alone
from trigmech.schema.column import Column, text_of
from trigmech.schema.schema import Schema
from trigmech.synthesis import BOUNDS_SHARE, design

Array = NDArray[np.float64]

TIMES = ((86_400.0, "days"), (3_600.0, "hours"), (60.0, "minutes"), (1.0, "seconds"))
# The fraction of rows of the category whose means the preview describes.
TYPICAL_SHARE = 0.1


@dataclass(frozen=True)
class Expected:
    """The noise in one statistic of a release.

    Parameters
    ----------
    column : str
        Its name; empty for what is about two columns.
    what : str
        The statistic.
    error : float or None
        Standard deviation of the noise in it; None if it is not measured.
    unit : str
        Of the error: "" is the column's own.
    note : str
        What the figure supposes.
    """

    column: str
    what: str
    error: float | None
    unit: str = ""
    note: str = ""

    def __str__(self) -> str:
        if self.error is None:
            return f"{self.what}: not measured"
        error = f"± {number(self.error, 2)} {self.unit}".rstrip()
        return f"{self.what}: {error}" + (f"   ({self.note})" if self.note else "")


@dataclass(frozen=True, eq=False)
class Preview:
    """What :func:`preview` returns. All of it is public.

    Parameters
    ----------
    n : int
        Rows.
    budget : Budget
    columns, together : tuple of Expected
        Of single columns, and of two at once.
    design : MomentDesign
        The plan, with the errors of queries that it predicts.
    charges : tuple of Charge
        What would be charged.
    proved_epsilon : float
        Of these charges together, at the budget's delta.
    warnings : tuple of str
        Of :func:`warnings_of`.
    ledger : dict, optional
        Of the ledger file: its budget, its total now and after the release, and whether that would be accepted.
    """

    n: int
    budget: Budget
    columns: tuple[Expected, ...]
    together: tuple[Expected, ...]
    design: MomentDesign
    charges: tuple[Charge, ...]
    proved_epsilon: float
    warnings: tuple[str, ...]
    ledger: dict[str, Any] | None

    def __str__(self) -> str:
        width = max(len(each.column) for each in self.columns)
        lines = [f"{self.n:,} rows, budget {self.budget}: nothing is charged, and no cell was looked at",
                 "how far noise would move what the release says (standard deviation; twice as far in 1 case of 20):",
                 *(f"  {each.column:<{width}}  {each}" for each in self.columns),
                 *(f"  {each}" for each in self.together), str(self.design).partition("\n")[0],
                 "predicted root mean square error of queries, with numbers on a scale from -1 to 1:",
                 *(f"  {label}: {number(error, 2)}" for label, error in self.design.predicted.items()),
                 f"proved: ({shown_up(self.proved_epsilon)}, {shown_up(self.budget.delta)})-differential privacy"]
        if self.ledger is not None:
            state = "there is room for it" if self.ledger["accepted"] else "it would be REFUSED"
            lines.append(f"ledger file {self.ledger['file']}: {shown_up(self.ledger['total'])} of "
                         f"{shown_up(self.ledger['budget']['epsilon'])} is spent, "
                         f"{shown_up(self.ledger['total_after'] or math.inf)} after this release; {state}")
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Return all but the plan's details, of the types that JSON has."""
        return {"n": self.n, "budget": self.budget.to_dict(), "columns": [asdict(each) for each in self.columns],
                "together": [asdict(each) for each in self.together], "moments": self.design.features.K,
                "predicted": dict(self.design.predicted), "charges": [charge.to_dict() for charge in self.charges],
                "proved_epsilon": self.proved_epsilon, "delta": self.budget.delta, "ledger": self.ledger,
                "warnings": list(self.warnings)}


def preview(n: int, schema: Schema, budget: Budget, *, mechanism: MomentMechanism | None = None,
            bounds_share: float = BOUNDS_SHARE, ledger: str | Path | LedgerFile | None = None,
            delta_chosen: bool = False) -> Preview:
    """Say what a release would be worth, before anything is charged and without the table.

    Parameters
    ----------
    n : int
        Rows of the table, at least 2; public.
    schema : Schema
    budget : Budget
    mechanism : MomentMechanism, optional
        By default the one that :func:`trigmech.synthesize` takes.
    bounds_share : float
        Of the budget, between 0 and 1, for columns with private bounds or categories.
    ledger : path or LedgerFile, optional
        The data set's ledger file; it is read only.
    delta_chosen : bool
        Whether a delta of 0 was chosen on purpose, and is not warned of.

    Returns
    -------
    Preview

    Raises
    ------
    InputError
        If n, the schema or an option breaks a rule, or the ledger file cannot be read.
    BudgetError
        If the budget is too small to plan with.

    Notes
    -----
    Privacy: public numbers only; nothing is charged or drawn. An error is the standard deviation of the noise in what
    is released; points that are made of it, and tables drawn from these, add less to it than it is, mostly. Where noise
    is larger than a moment, the moment is shrunk, and the error is smaller than stated.
    Cost: that of a plan, some seconds at most.

    Examples
    --------
    >>> import trigmech as tm
    >>> schema = tm.Schema([tm.Column("age", 0, 120), tm.Column("income", 0, 200_000)])
    >>> expected = tm.preview(3_000, schema, tm.Budget(1.0, 1e-6))
    >>> [(each.column, each.what, round(each.error, 2)) for each in expected.columns]
    [('age', 'mean', 0.31), ('income', 'mean', 508.92)]
    """
    if isinstance(n, bool) or not (isinstance(n, int | np.integer) and n >= 2):
        raise InputError(f"n, the number of rows, must be an integer that is at least 2, not {shown(n)}")
    if not isinstance(schema, Schema):
        raise InputError(f"schema must be a Schema, not {type(schema).__name__}")
    if not isinstance(budget, Budget):
        raise BudgetError(f"budget must be a Budget, not {type(budget).__name__}")
    planned = design(int(n), schema, budget, mechanism, bounds_share=bounds_share)
    measured, charges = planned.measured, [*planned.all_charges]
    account = Ledger(budget)
    account.charge(*charges)
    noises = noise_alone(measured.index, measured.scales)
    columns = [each for column, noise in zip(schema.columns, noises, strict=True)
               for each in _of_column(column, noise)]
    together = tuple(_together(measured.index, measured.scales))
    return Preview(int(n), budget, tuple(columns), together, measured, tuple(charges),
                   account.proved_epsilon, tuple(warnings_of(int(n), schema, budget, delta_chosen)),
                   None if ledger is None else _state(ledger, charges))


def _of_column(column: Column, noise: Array) -> list[Expected]:
    numbers = [] if column.complete else [_of_number(column, float(noise[0]))]
    what = "frequency of a category" if column.complete else "share of a special or missing value"
    return numbers + [Expected(column.name, what, 100.0 * float(indicators.max()), "percentage points")
                      for indicators in [noise[len(numbers):]] if len(indicators)]


def _of_number(column: Column, noise: float) -> Expected:
    """Return what noise in the mean of a coordinate in [-1, 1] is in the column's units."""
    note = "if all rows hold an ordinary number; more if few do" if len(column.coordinates) > 1 else ""
    if column.private_bounds:
        scale = "logarithmic range" if column.transform else "range"
        return Expected(column.name, "mean", 50.0 * noise, f"% of the {scale} that is found", note)
    lower, upper = column.bounds
    half = (upper - lower) / 2.0 * noise
    if column.kind == "binary":
        return Expected(column.name, f"share of {text_of(column.upper)}", 50.0 * noise, "percentage points", note)
    if column.kind == "ordinal":
        return Expected(column.name, f"mean place among {int(upper) + 1} categories", half, "places", note)
    if column.kind == "datetime":
        seconds = half * (86_400.0 if column.unit == "D" else 1.0)
        size, unit = next((each for each in TIMES if seconds >= each[0]), TIMES[-1])
        return Expected(column.name, "mean", seconds / size, unit, note)
    if column.transform is not None:
        width = math.log(upper / lower) if column.transform == "log" else math.log1p(upper - lower)
        of = "" if column.transform == "log" else f" of 1 + value - {text_of(lower)}"
        return Expected(column.name, f"geometric mean{of}", 100.0 * math.expm1(width / 2.0 * noise), "%", note)
    return Expected(column.name, "mean", half, "", note)


def _together(index: FunctionIndex, scales: Array) -> Iterable[Expected]:
    """Return the noise in correlations, in contingency tables, and in means within a category."""
    domain = index.domain

    def worst(chosen: NDArray[np.int64]) -> float | None:
        return float(scales[chosen].max()) if len(chosen) else None

    if len(domain.numbers) > 1:
        noise = worst(index.bilinear(domain.numbers)[0])
        # Evenly over the bounds, a coordinate has the variance 1/3.
        yield Expected("", "correlation of two columns of numbers", None if noise is None else 3.0 * noise, "",
                       "if both spread evenly over their bounds; more if they fill less of them")
    if sum(group.value is None for group in domain.groups) > 1:
        tables = index.of_kind("two-way table")
        noise, pairs = worst(tables), len(np.unique(index.column_sets[tables]))
        yield Expected("", "cell of a table of two columns of categories, at worst",
                       None if noise is None else 100.0 * noise, "percentage points",
                       f"{pairs} of {math.comb(len(domain.groups), 2)} are measured, with those of missing values")
    if domain.groups and domain.numbers:
        products = index.of_kind("number by category")
        noise = worst(products[index.total[products] == 2])
        yield Expected("", "mean of a number over the rows of a category that holds a tenth of all",
                       None if noise is None else 50.0 * noise / TYPICAL_SHARE, "% of the distance of its bounds")


def _state(ledger: str | Path | LedgerFile, charges: list[Charge]) -> dict[str, Any]:
    file = ledger if isinstance(ledger, LedgerFile) else LedgerFile.open(Path(ledger))
    limit = file.budget
    counted = [entry.charge for entry in file.entries if not entry.simulated]
    after = filtered_epsilon([*counted, *charges], limit.delta, file.reserve_delta)
    try:
        file.check(charges)
        accepted = True
    except TrigmechError:
        accepted = False
    return {"file": str(file.path), "data_set": file.data_set, "budget": limit.to_dict(), "total": file.total,
            "total_after": after if math.isfinite(after) else None, "accepted": accepted}
