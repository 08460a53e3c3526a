"""The noise that a budget will give, in the columns' own units, from public numbers and before it is spent."""

import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from trigmech._html import html_table
from trigmech._validate import is_integer
from trigmech.errors import InputError, TrigmechError, shown
from trigmech.inspection.findings import printable
from trigmech.mechanisms.base import Mechanism
from trigmech.privacy.accounting import filtered_epsilon
from trigmech.privacy.budget import BOUNDS_SHARE, Budget, Charge, shown_up
from trigmech.privacy.ledger import Ledger
from trigmech.privacy.ledger_file import LedgerFile
from trigmech.report.advice import coarseness_in, warnings_of
from trigmech.report.expected import Expected, Outlook, outlook_of
from trigmech.report.figures import number
from trigmech.schema.schema import Schema, counted
from trigmech.synthesis import design


@dataclass(frozen=True, eq=False)
class Preview:
    """The result of :func:`preview`. All of it is public.

    Parameters
    ----------
    n : int
        Rows.
    budget : Budget
    outlook : Outlook
        The planned measurements, with their noise.
    design : MomentDesign, TableDesign, AdaptiveDesign or another
        The plan of the mechanism.
    charges : tuple of Charge
        The planned charges.
    proved_epsilon : float
        The proved epsilon of all charges together, at the budget's delta.
    warnings : tuple of str
        The sentences of :func:`warnings_of` and :func:`coarseness_of`.
    ledger : dict, optional
        The ledger's budget, its total now and after the release, and whether it would accept the release.
    whose : {"rows", "persons"}
        The unit of `n`.
    """

    n: int
    budget: Budget
    outlook: Outlook
    design: Any
    charges: tuple[Charge, ...]
    proved_epsilon: float
    warnings: tuple[str, ...]
    ledger: dict[str, Any] | None
    whose: str = "rows"

    @property
    def columns(self) -> tuple[Expected, ...]:
        """The noise in statistics of single columns."""
        return self.outlook.columns

    @property
    def together(self) -> tuple[Expected, ...]:
        """The noise in statistics of two columns at once."""
        return self.outlook.together

    def __str__(self) -> str:
        names = [printable(each.column) for each in self.columns]
        width = max(map(len, names), default=0)
        looked = "no cell was read" + " except the persons' identifiers" * (self.whose == "persons")
        lines = [f"{self.n:,} {self.whose}, budget {self.budget}: nothing is charged, and {looked}",
                 "expected noise in the release (standard deviation; 1 error in 20 is more than twice as large):",
                 *(f"  {name:<{width}}  {each}" for name, each in zip(names, self.columns, strict=True)),
                 *(f"  {each}" for each in self.together), self.outlook.words]
        if self.outlook.predicted:
            lines.append("predicted root mean square error of queries, with numbers on a scale from -1 to 1:")
        lines += [*(f"  {label}: {number(error, 2)}" for label, error in self.outlook.predicted.items()),
                 f"proved: ({shown_up(self.proved_epsilon)}, {shown_up(self.budget.delta)})-differential privacy"]
        if self.ledger is not None:
            state = "there is room for it" if self.ledger["accepted"] else "it would be REFUSED"
            lines.append(f"ledger {self.ledger['file']}: {shown_up(self.ledger['total'])} of "
                         f"{shown_up(self.ledger['budget']['epsilon'])} is spent, "
                         f"{shown_up(self.ledger['total_after'] or math.inf)} after this release; {state}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return html_table(f"Noise expected for {self.n:,} {self.whose}, {self.budget}",
                          [(each.column or "two columns", each.what, each.amount)
                           for each in (*self.columns, *self.together)], ("column", "statistic", "standard deviation"))

    def to_dict(self) -> dict[str, Any]:
        """Return all but the plan's details, of the types that JSON has."""
        return {"n": self.n, "budget": self.budget.to_dict(), "columns": [asdict(each) for each in self.columns],
                "together": [asdict(each) for each in self.together], "moments": self.outlook.measured,
                "predicted": dict(self.outlook.predicted), "charges": [charge.to_dict() for charge in self.charges],
                "proved_epsilon": self.proved_epsilon, "delta": self.budget.delta, "ledger": self.ledger,
                "warnings": list(self.warnings)}


def preview(n: int, schema: Schema, budget: Budget, *, mechanism: Mechanism | None = None,
            bounds_share: float = BOUNDS_SHARE, ledger: str | Path | LedgerFile | None = None,
            delta_chosen: bool = False) -> Preview:
    """Predict the noise of a release before anything is charged, without the table.

    Parameters
    ----------
    n : int
        Rows of the table, at least 2; public.
    schema : Schema
    budget : Budget
    mechanism : Mechanism, optional
        By default the one that :func:`trigmech.synthesize` takes.
    bounds_share : float
        The part of the budget, between 0 and 1, for columns with private bounds or categories.
    ledger : path, address or LedgerFile, optional
        The data set's ledger; it is read only.
    delta_chosen : bool
        Whether you chose a delta of 0 on purpose; then no warning about it is given.

    Raises
    ------
    InputError
        If n, the schema or an option breaks a rule, or the ledger cannot be read.
    BudgetError
        If the budget is too small to plan with.

    Notes
    -----
    Privacy: public numbers only; nothing is charged or drawn. An error is the standard deviation of the noise in the
    released numbers. The fitted points, and tables drawn from them, add an error that is usually smaller. If the noise
    is larger than a moment, the moment is shrunk, and the error is smaller than stated.
    Cost: that of a plan, some seconds at most.

    Examples
    --------
    >>> import trigmech as tm
    >>> schema = tm.Schema([tm.Column("age", 0, 120), tm.Column("income", 0, 200_000)])
    >>> expected = tm.preview(3_000, schema, tm.Budget(1.0, 1e-6))
    >>> [(each.column, round(each.error, 2)) for each in expected.columns if each.what == "mean"]
    [('age', 0.72), ('income', 1207.44)]
    """
    if not is_integer(n, 2):
        raise InputError(f"n, the number of rows, must be an integer that is at least 2, not {shown(n)}")
    planned = design(int(n), schema, budget, mechanism, bounds_share=bounds_share)
    charges, agenda = [*planned.all_charges], planned.mechanism.agenda(planned)
    account = Ledger(budget)
    account.charge(*charges)
    said = (*warnings_of(int(n), schema, budget, delta_chosen), *coarseness_in(agenda.measurements, int(n), schema))
    return Preview(int(n), budget, outlook_of(agenda, schema), planned.measured, tuple(charges),
                   account.proved_epsilon, said, None if ledger is None else _state(ledger, charges),
                   counted(schema))


def _state(ledger: str | Path | LedgerFile, charges: list[Charge]) -> dict[str, Any]:
    file = ledger if isinstance(ledger, LedgerFile) else LedgerFile.open(ledger)
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
