"""The record of all charges of all runs against one data set: in a file, or on a server, that all runs share."""

import math
import os
import shlex
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Self

from trigmech._validate import fields, of_kind
from trigmech.errors import BudgetError, InputError, shown
from trigmech.privacy import ledger_audit
from trigmech.privacy.accounting import NextCharge, claimed_delta, cost, filtered_epsilon
from trigmech.privacy.budget import ADJACENCY, Budget, Charge, as_decimal, check_epsilon, shown_up
from trigmech.privacy.ledger_format import AnyEntry, Entry, Limit, Raised, SavedElsewhere, State, charge_header
from trigmech.privacy.ledger_lock import attempted, new_run, now, version
from trigmech.privacy.ledger_store import Store, store_of

NEIGHBOURS = ("replace-one", "add-remove")


class LedgerFile:
    """All charges against one data set; a charge that would exceed the data set's budget is refused.

    The ledger is in a file, or in a PostgreSQL database (``postgresql://user@host/database?ledger=name``, see
    :class:`trigmech.privacy.ledger_server.Server`). Make it with :meth:`create`, read it with :meth:`open`, and give it
    to :func:`trigmech.synthesize` or :class:`trigmech.Ledger`. Every attribute reads the file or the server again.

    Attributes
    ----------
    path : Path or str
        The path of the file, or the address on the server, without a password.

    Notes
    -----
    Privacy: you may choose budgets and options of a later run after looking at earlier releases. The total is therefore
    the total of a privacy filter, which allows this: the smaller of the sum of pure epsilons and the epsilon of
    Gaussian DP (:func:`trigmech.privacy.accounting.filtered_epsilon`, with the proof). It can charge more for a single
    run that mixes Laplace and Gaussian noise than the run's own ledger, which composes options fixed in advance.
    :meth:`add` records releases of other tools at their claimed cost. A ledger does not hold any record's value or any
    seed: it holds only the charges, which are public.

    In a file, a charge takes the lock beside it (``.lock``), reads the file, adds its entries, and replaces the file by
    a durable new one before it returns. On file systems without locks (some network ones) let one machine write. On a
    server, a charge is one serialisable transaction, and returns when it is known to be durable. A process that is
    killed between the charge and the noise has lost budget, never privacy.

    Each entry's hash includes the hash before it. So :meth:`verify` finds entries that were changed, moved, inserted
    or removed in the middle, by accident or by somebody who did not compute the hashes again. It **cannot** detect
    changes by a person who may write the whole ledger: new entries with correct hashes, entries removed from the end
    with a corrected total, or an older copy in its place. A copy of the file, or another file for the same table, has
    its own budget. A second name of the file (a hard link) would have one too, so nothing is written to a file with
    several names. Only an object that read the file before notices an older copy. If this matters, keep the hash of
    the last entry elsewhere, or keep the file where entries can only be added.
    """

    def __init__(self, store: Store, state: State) -> None:
        self._store, self.path = store, store.path
        self._seen = (state.genesis, len(state.entries), state.head)

    @classmethod
    def create(cls, path: str | Path, budget: Budget, data_set: str = "", timeout: float = 60.0,
               reserve_delta: float = 0.0) -> Self:
        """Make a ledger.

        Parameters
        ----------
        path : path or str
            A file that must not exist yet, or the address of a new ledger on a server.
        budget : Budget
            The data set's budget: all runs together may spend it.
        data_set : str
            The data set's public name.
        timeout : float
            Seconds to wait for other processes, here and at every charge.
        reserve_delta : float
            The part of the budget's delta, from 0 to all of it, for claims of other tools (:meth:`add`) and for the
            thresholds of private categories; noise of this package uses the rest. With 0 the ledger accepts only claims
            of delta = 0, and no thresholds.

        Raises
        ------
        BudgetError
            If no ledger can have this epsilon or this reserve, which is from 0 to the budget's delta.
        InputError
            If the ledger exists or cannot be written, or its lock is not free in time; if the address is not valid or
            holds a password, or the server refuses.
        MissingLibraryError
            If the ledger is on a server, and the extra ``postgres`` is not installed; also in all other methods.
        """
        check_epsilon(budget)
        of_kind("the ledger file: data_set", data_set, str)
        store = store_of(path, timeout)
        state = State(data_set, Limit(budget, reserve_delta), now(), 0.0, ())
        store.make(state)
        return cls(store, state)

    @classmethod
    def open(cls, path: str | Path, timeout: float = 60.0) -> Self:
        """Read a ledger that exists.

        Raises
        ------
        InputError
            If it cannot be read or is not a ledger. Use :meth:`verify` to find other faults.
        """
        store = store_of(path, timeout)
        return cls(store, store.read())

    @staticmethod
    def exists(path: str | Path, timeout: float = 60.0) -> bool:
        """Return whether the ledger exists; raises the errors of :meth:`open`."""
        return store_of(path, timeout).exists()

    @property
    def budget(self) -> Budget:
        """The budget that all runs together may spend now."""
        return self._state().limit.budget

    @property
    def reserve_delta(self) -> float:
        """The part of the budget's delta for claims of other tools and for thresholds."""
        return self._state().limit.reserve_delta

    @property
    def data_set(self) -> str:
        """The data set's public name."""
        return self._state().data_set

    @property
    def identity(self) -> str:
        """A hash of the facts that never change in the ledger: those with which it was made."""
        return self._state().genesis

    @property
    def entries(self) -> tuple[Entry, ...]:
        """All charges, in order."""
        return self._state().charges

    @property
    def raises(self) -> tuple[Raised, ...]:
        """All decisions to raise the budget, in order."""
        return tuple(entry for entry in self._state().entries if isinstance(entry, Raised))

    @property
    def total(self) -> float:
        """The proved epsilon of all charges together, at the budget's delta; computed from the charges."""
        return ledger_audit.spent(self._state())

    @property
    def claims(self) -> int:
        """The number of counted charges that are claims of other tools. The total relies on them."""
        return sum(entry.charge.law == "other" and not entry.simulated for entry in self._state().charges)

    @property
    def remaining(self) -> NextCharge:
        """The largest cost of the next release, for each kind of noise. It is not budget minus total."""
        return ledger_audit.remaining(self._state())

    def charge(self, run: str, charges: Sequence[Charge], simulated: bool,
               known: Sequence[Charge] | None = None) -> None:
        """Record all charges or no charge, durably before this returns.

        Parameters
        ----------
        run : str
            The run's identifier.
        charges : sequence of Charge
        simulated : bool
            True: recorded, but neither counted nor refused.
        known : sequence of Charge, optional
            All charges that the ledger must hold at that time for this run and for other attempts at it. Default: any.

        Raises
        ------
        BudgetError
            If the data set's total would exceed its budget; nothing is written, and the message states what would fit.
        InputError
            If the lock cannot be had in time; or the ledger cannot be written, is damaged, does not pass
            :meth:`verify`, is too large, has a second name, lacks entries that this object has read, or has other
            charges of the run than are known. If the connection to a server broke and it is unknown whether the charges
            are recorded; then nothing may be drawn for them.
        """
        if not charges:
            return

        def made(state: State) -> list[Entry]:
            # Here, where nobody else writes: two processes that looked before would both go on.
            there = [(entry.run, entry.charge) for entry in state.charges if attempted(entry.run) == attempted(run)]
            if known is not None and there != [(run, charge) for charge in known]:
                raise InputError(f"{self._store.name} has charges of this run from another process or another rounds "
                                 "file: continue with that one, or begin a new run. If the run has shares, a sum of "
                                 "them was already opened, and a new run needs a new design and new shares")
            if not simulated:
                self._admit(state, charges)
            delta = state.limit.budget.delta
            return [Entry(0, now(), run, version(), simulated, charge, *cost(charge, delta), "") for charge in charges]

        self._append(made)

    def check(self, charges: Sequence[Charge]) -> None:
        """Raise the errors of :meth:`charge` for charges that count, without taking the lock or writing anything."""
        self._store.check()
        self._admit(self._sound(self._state()), charges)

    def add(self, purpose: str, claim: Budget, tool: str, *, neighbours: str, count: int = 1) -> None:
        """Record releases of another tool, for which only a claimed (epsilon, delta) is known.

        Parameters
        ----------
        purpose, tool : str
            A description of the release, and the source of the claim. The total is correct only if the claim is.
        claim : Budget
            The claimed cost of each release.
        neighbours : {"replace-one", "add-remove"}
            The neighbouring tables of the claim. A claim for adding or removing a row is recorded as (2 epsilon,
            (1 + e^epsilon) delta), which it implies for replacing a row.
        count : int
            The number of releases, each with this claim.

        Raises
        ------
        BudgetError
            If the data set's total would exceed its budget, or the claimed deltas the reserve; nothing is written.
        InputError
            If a text is empty, or the neighbours are not one of the two; see also :meth:`charge`.

        Notes
        -----
        Privacy: proved in :mod:`trigmech.privacy.accounting`, if the claim is true. Add a release before it is made:
        afterwards a refusal cannot call it back.
        """
        if not isinstance(claim, Budget):
            raise BudgetError(f"claim must be a Budget, not {type(claim).__name__}")
        if neighbours not in NEIGHBOURS:
            raise InputError(f"neighbours must be one of {', '.join(NEIGHBOURS)}, not {shown(neighbours)}")
        texts = fields({"purpose": purpose, "tool": tool}, "the charge", {"purpose": str, "tool": str})
        for name, text in texts.items():
            if not text.strip():
                raise InputError(f"the charge: the field {name!r} must not be empty")
        if neighbours == "add-remove":
            purpose = f"{purpose} (from {claim} for adding or removing a row)"
            claim = claim.for_replace_one()
        self.charge(new_run(), [Charge.claimed(purpose, claim, tool, count)], False)

    def raise_budget(self, budget: Budget, reserve_delta: float | None = None) -> None:
        """Raise the budget of all runs together, and record this.

        Parameters
        ----------
        budget : Budget
            The new budget; its epsilon and its delta must not be less than now.
        reserve_delta : float, optional
            The new reserve. It must not be less than now, and the rest of delta must not be less either. Default: no
            change.

        Raises
        ------
        BudgetError
            If one of these would be less, or nothing would change; then nothing is written.
        InputError
            As :meth:`charge`.

        Notes
        -----
        Privacy: this is a new promise to the people in the data. If the new total was fixed before anybody saw any
        output, it holds as if it had been there from the beginning; otherwise a weaker guarantee holds, which
        :mod:`trigmech.privacy.accounting`, "Raising", proves.
        """
        check_epsilon(budget)

        def made(state: State) -> list[Raised]:
            old = state.limit
            new = Limit(budget, old.reserve_delta if reserve_delta is None else reserve_delta)
            if not new.is_above(old):
                raise BudgetError(f"the budget can only be raised, and no part of it lowered: it is {old}; given {new}")
            return [Raised(0, now(), version(), old, new, "")]

        self._append(made)

    def note_kept(self, run: str, path: str | os.PathLike[str]) -> None:
        """Record where a run's release was saved if its requested place could not be written; costs nothing."""
        self._append(lambda _: [SavedElsewhere(0, now(), version(), run, str(path), "")])

    def removed_if_unused(self) -> bool:
        """Remove the ledger if nothing was ever charged to it, by anyone; return whether it was removed."""
        # A process that opened it meanwhile will not find it, and will not draw anything.
        seen = self._seen
        return self._store.remove(lambda state: not self._known(state, seen).entries)

    def verify(self) -> list[str]:
        """Return the ledger's faults, one line each: hashes, order, each charge's own epsilon, the totals.

        The list is empty if no fault is found. The class's notes name the changes that cannot be found.

        Raises
        ------
        InputError
            If it cannot be read or is not a ledger.

        Notes
        -----
        Cost: 0.1 milliseconds an entry, and 1 for each unequal Gaussian charge.
        """
        seen = self._seen
        state = self._store.read()
        return ledger_audit.backwards(state, seen) + ledger_audit.problems(state, own=True)

    def summary(self) -> dict[str, Any]:
        """Return all that :meth:`__str__` shows, of the types that JSON has."""
        state = self._state()
        total, left = ledger_audit.spent(state), ledger_audit.remaining(state)
        return {"file": str(self.path), "data_set": state.data_set, "adjacency": ADJACENCY, "created": state.created,
                "budget": state.limit.budget.to_dict(), "reserve_delta": state.limit.reserve_delta,
                "total": total if math.isfinite(total) else None, "remaining": asdict(left),
                "simulated": sum(entry.simulated for entry in state.charges), "claimed": self.claims,
                "last": state.head, "entries": [entry.to_dict() for entry in state.entries]}

    def __str__(self) -> str:
        state = self._state()
        total, limit = ledger_audit.spent(state), state.limit
        lines = [f"data set: {state.data_set or '(no name)'}", f"created: {state.created}", f"adjacency: {ADJACENCY}",
                 f"{'':>4} {'time':<20} {'run':<16} " + charge_header(), *map(str, state.entries),
                 f"budget: {limit}" + (", for claims of other tools and thresholds" if limit.reserve_delta > 0 else ""),
                 f"total: ({shown_up(total)}, {shown_up(limit.budget.delta)})-differential privacy of all charges "
                 "together, even if later charges were chosen after earlier outputs",
                 f"accepted next: {ledger_audit.remaining(state)}", f"last entry's hash: {state.head}"]
        if self.claims:
            lines.append(f"claims of other tools, not proved here: {self.claims}; the total is correct if they are")
        if any(entry.simulated for entry in state.charges):
            lines.append("SIMULATED entries: their noise came from seeded generators, so their outputs are NOT PRIVATE "
                         "and must not be published")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"LedgerFile({str(self.path)!r})"

    def _sound(self, state: State) -> State:
        """Return the ledger's content, if it verifies."""
        if problems := ledger_audit.problems(state):
            raise InputError(f"{str(self.path)!r} does not verify, so nothing is charged: {problems[0]}")
        return state

    def _admit(self, state: State, charges: Sequence[Charge]) -> None:
        """Raise a BudgetError if the charges do not fit; it states the charges and the largest that fits."""
        limit = state.limit
        total = filtered_epsilon([*state.counted, *charges], limit.budget.delta, limit.reserve_delta)
        if total <= limit.budget.epsilon:
            return
        remedy = "To raise the budget: `trigmech ledger raise`, or LedgerFile.raise_budget"
        if (claimed := claimed_delta([*state.counted, *charges])) > as_decimal(limit.reserve_delta):
            what = (f" would bring the claimed deltas to {shown_up(float(claimed))}, over the reserve "
                    f"{limit.reserve_delta}" + ("" if all(charge.law != "threshold" for charge in charges) else
                                                " (private categories use a tenth of their run's delta)"))
            remedy = "A reserve is fixed by `trigmech ledger create --reserve-delta`; raising the budget leaves it"
        else:
            alone = filtered_epsilon(charges, limit.budget.delta, limit.reserve_delta)
            budget, delta = limit.budget, shown_up(limit.budget.delta)
            what = (f" has no finite epsilon at delta={delta}, so it cannot be counted in the budget {budget}"
                    if math.isinf(alone) else f" (epsilon = {shown_up(alone)} by itself) would bring the data set's "
                    f"total to {shown_up(total)} at delta={delta}, over the budget {budget}")
        raise BudgetError(f"{charges[0].purpose}: the charge{what} of {self._store.name}. The ledger would accept "
                          f"{ledger_audit.remaining(state)}. To see it: `trigmech ledger show "
                          f"{shlex.quote(str(self.path))}`, or in Python print(LedgerFile.open(...)). {remedy}")

    def _append(self, made: Callable[[State], Sequence[AnyEntry]]) -> None:
        """Append entries to the chain; a function makes them from the ledger's present content."""

        seen = self._seen

        def longer(state: State) -> State:
            entries = list(self._sound(self._known(state, seen)).entries)
            for entry in made(state):
                before = entries[-1].hash if entries else state.genesis
                entry = replace(entry, sequence=len(entries) + 1)
                entry = replace(entry, hash=entry.digest(before))
                # Nothing may be written that could not be read again.
                entries.append(type(entry).from_dict(entry.to_dict(), "the new entry"))
            state = replace(state, entries=tuple(entries))
            return replace(state, total=ledger_audit.spent(state))

        self._known(self._store.change(longer), seen)

    def _state(self) -> State:
        seen = self._seen
        return self._known(self._store.read(), seen)

    def _known(self, state: State, seen: tuple[str, int, str]) -> State:
        """Return a state if it continues the one that was known before its reading began, and remember it.

        Another thread may have read a longer one meanwhile.
        """
        if problems := ledger_audit.backwards(state, seen):
            raise InputError(f"{str(self.path)!r}: {problems[0]}")
        if len(state.entries) >= self._seen[1]:
            self._seen = (state.genesis, len(state.entries), state.head)
        return state
