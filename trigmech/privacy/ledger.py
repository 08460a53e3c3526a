"""The record of the budget that one run spent, and of the guarantee that this proves."""

import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from trigmech._html import html_table
from trigmech._validate import fields, of_kind
from trigmech.errors import BudgetError, InputError
from trigmech.privacy.accounting import cost, epsilon_of
from trigmech.privacy.budget import ADJACENCY, Budget, Charge, check_epsilon, shown_up
from trigmech.privacy.ledger_file import LedgerFile
from trigmech.privacy.ledger_format import Entry, charge_header, charge_line
from trigmech.privacy.ledger_lock import new_run

__all__ = ["Entry", "Ledger", "LedgerFile"]

logger = logging.getLogger(__name__)

# More charges than any run makes; a file that somebody wrote could hold any number.
MOST_CHARGES = 100_000


@dataclass
class Ledger:
    """The record of all charges of one run against one table, in order.

    Parameters
    ----------
    budget : Budget
        The most that may be spent, with epsilon from 1e-9 to 1e12.
    enforced : bool
        True: a charge that would exceed the budget is refused. False, for the thesis's published scales only: the
        budget is the thesis's claim, every charge is recorded, and :attr:`guarantee` is the proved budget.
    simulated : bool
        True if the noise came from a seeded generator, which anyone can repeat: the output is then not private.
    charges : list of Charge
        The charges so far.
    file : LedgerFile, optional
        The data set's record, in a file or on a server. Every charge is written there too, and refused if the data
        set's budget would be exceeded, whether or not this ledger is enforced.
    run : str, optional
        The run's identifier in that file; default: random.
    written : list of Charge
        Charges of this run that the file already has, also from another process that began the run. The run's first
        charges must be these, and they are not written again. If the file has other charges of the run when more are
        written, the new ones are refused.

    Raises
    ------
    BudgetError
        If the budget is outside that range.

    Notes
    -----
    Adjacency is replace-one with n public. A charge is recorded before its noise is drawn: in the file first, so that
    a failure in between loses budget and never privacy.
    """

    budget: Budget
    enforced: bool = True
    simulated: bool = False
    charges: list[Charge] = field(default_factory=list)
    file: LedgerFile | None = field(default=None, repr=False, compare=False)
    run: str | None = field(default=None, repr=False, compare=False)
    written: list[Charge] = field(default_factory=list, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_epsilon(self.budget)
        if self.file is not None and self.run is None:
            self.run = new_run()

    def check(self, *charges: Charge) -> None:
        """Raise the BudgetError with which :meth:`charge` would refuse charges for this ledger's own budget.

        Nothing is recorded.
        """
        if self.enforced and charges:
            total = self._total(charges)
            if not total <= self.budget.epsilon:
                first = next(k for k in range(1, len(charges) + 1) if k == len(charges)
                             or not self._total(charges[:k]) <= self.budget.epsilon)
                raise BudgetError(f"{charges[first - 1].purpose}: the charge would bring epsilon to {shown_up(total)} "
                                  f"at delta={shown_up(self.budget.delta)}, over the budget {self.budget}")

    def check_file(self, *charges: Charge) -> None:
        """Raise the file's errors for the next charges, except those that the file already has."""
        more = charges[max(len(self.written) - len(self.charges), 0):]
        if self.file is not None and self.enforced and not self.simulated and more:
            self.file.check(more)

    def charge(self, *charges: Charge) -> None:
        """Record all of the charges, or raise an error and record nothing, before any of their noise is drawn.

        Raises
        ------
        BudgetError
            If the ledger is enforced and the total would exceed the budget, or the data set's total would exceed its
            budget; or the file has other charges of this run. Then nothing is recorded, here or in the file.
        InputError
            If the file cannot be read, locked or written, or another process charged it for this run.
        """
        self.check(*charges)
        before = self.written[len(self.charges) : len(self.charges) + len(charges)]
        if before and before != list(charges):
            raise BudgetError(f"{charges[0].purpose}: this run was charged for something else before its "
                              "interruption")
        if self.file is not None and not before:
            self.file.charge(self.run or new_run(), charges, self.simulated, self.written)
            self.written = [*self.written, *charges]
        self.charges.extend(charges)
        for charge in charges:
            logger.info("charged%s: %s, %s noise of scale %.4g, sensitivity %.4g in %s, %d times",
                        " (simulated)" if self.simulated else "", charge.purpose, charge.law, charge.scale,
                        charge.sensitivity, charge.norm, charge.count)

    def _total(self, more: Sequence[Charge]) -> float:
        return epsilon_of([*self.charges, *more], self.budget.delta)

    @property
    def proved_epsilon(self) -> float:
        """The proved epsilon of all charges together at the budget's delta; infinite if nothing is proved."""
        return epsilon_of(self.charges, self.budget.delta)

    @property
    def guarantee(self) -> Budget:
        """The proved budget of all charges together.

        Raises
        ------
        BudgetError
            If no finite epsilon is proved; this cannot happen with an enforced ledger.
        """
        return Budget(max(self.proved_epsilon, 1e-300), self.budget.delta)

    @property
    def claim(self) -> Budget | None:
        """The budget that the thesis claims for a run at its published scales; None for rigorous runs."""
        return None if self.enforced else self.budget

    def to_dict(self) -> dict[str, Any]:
        """Return all but the file, of the types that JSON has."""
        return {"adjacency": ADJACENCY, "budget": self.budget.to_dict(), "enforced": self.enforced,
                "simulated": self.simulated, "run": self.run, "charges": [charge.to_dict() for charge in self.charges]}

    @classmethod
    def from_dict(cls, data: object) -> Self:
        """Return the ledger of :meth:`to_dict`, without a file.

        Raises
        ------
        InputError
            If a field is missing, not known, of another type or against a rule; the message names it. The charges are
            not compared with the budget: :attr:`proved_epsilon` is the cost that they prove.
        """
        where = "the ledger"
        values = fields(data, where, {"adjacency": str, "budget": object, "enforced": bool, "simulated": bool,
                                      "run": object, "charges": list})
        if values.pop("adjacency") != ADJACENCY:
            raise InputError(f"{where}: the field 'adjacency' must be {ADJACENCY!r}")
        if values["run"] is not None:
            of_kind(f"{where}: run", values["run"], str)
        if len(values["charges"]) > MOST_CHARGES:
            raise InputError(f"{where}: the field 'charges' has more than {MOST_CHARGES} entries")
        values["budget"] = Budget.from_dict(values["budget"], f"{where}: budget")
        values["charges"] = [Charge.from_dict(charge, f"{where}: charge {k}")
                             for k, charge in enumerate(values["charges"], 1)]
        try:
            return cls(**values)
        except BudgetError as error:
            raise InputError(f"{where}: {error}") from None

    def _repr_html_(self) -> str:
        rows = []
        for charge in self.charges:
            epsilon, delta = cost(charge, self.budget.delta)
            rows.append((charge.purpose, charge.law, f"{charge.scale:.4g}", f"{charge.sensitivity:.4g}", charge.norm,
                         charge.count, f"({shown_up(epsilon, 4)}, {shown_up(delta, 2)})"))
        proved = (f"proved ({shown_up(self.proved_epsilon)}, {shown_up(self.budget.delta)})-DP of all charges together"
                  if math.isfinite(self.proved_epsilon) else "proved no differential privacy at all")
        title = "SIMULATED, NOT PRIVATE" if self.simulated else proved
        spent = "budget" if self.enforced else "claimed by the thesis, not a guarantee:"
        return html_table(f"Ledger: {title}; {spent} {self.budget}", rows,
                          ("purpose", "law", "scale", "sensitivity", "norm", "count", "own cost"))

    def __str__(self) -> str:
        lines = [charge_header()]
        lines += [charge_line(charge, *cost(charge, self.budget.delta)) for charge in self.charges]
        lines.append(f"adjacency: {ADJACENCY}")
        if self.enforced:
            lines.append(f"budget: {self.budget}")
        else:
            lines.append(f"the thesis claims {self.budget} for these scales; that is not a guarantee")
        epsilon, delta = self.proved_epsilon, self.budget.delta
        lines.append(f"proved: ({shown_up(epsilon)}, {shown_up(delta)})-differential privacy of all charges together"
                     if math.isfinite(epsilon) else "proved: no differential privacy at all")
        if any(charge.law == "other" for charge in self.charges):
            lines.append("charges of law \"other\" are claims of other tools, not proved here: the rest is true only "
                         "if they are")
        if self.simulated:
            lines.append("SIMULATED: the noise came from a seeded generator, so the output is NOT PRIVATE and must not "
                         "be published")
        return "\n".join(lines)
