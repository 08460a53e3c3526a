"""The record of what was spent on one data set by all runs: a JSON file that processes and sessions share."""

import math
import os
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any, Self

from trigmech.accounting import cost, filtered_epsilon
from trigmech.budget import ADJACENCY, Budget, Charge, fields
from trigmech.errors import BudgetError, InputError
from trigmech.ledger_format import Entry, State, read, write
from trigmech.outputs import check_writable

# Of what one machine computed and another computes again.
AGREEMENT = 1e-6


class LedgerFile:
    """All charges against one data set, in a file; a charge that would exceed the data set's budget is refused.

    Made by :meth:`create`, read again by :meth:`open`; give it to :func:`trigmech.synthesize` or
    :class:`trigmech.Ledger`. Every attribute is read from the file anew.

    Notes
    -----
    Privacy: budgets and options of a later run may be chosen after looking at what earlier ones released. The total is
    therefore that of a privacy filter, which allows this: the smaller of the sum of pure epsilons and the epsilon of
    Gaussian DP (:func:`trigmech.accounting.filtered_epsilon`, with the proof). A single run that mixes Laplace with
    Gaussian noise can be charged more by it than by its own ledger, which composes options fixed in advance. No
    record's value and no seed is in the file: it holds what was charged for, which is public.

    A charge takes the lock beside the file (``.lock``), reads the file, adds its entries, and replaces the file by a
    durable new one before it returns. A process that is killed between the charge and the noise has lost budget, never
    privacy. On file systems without locks (some network ones) let one machine write.

    Each entry's hash includes the one before it. So :meth:`verify` finds entries that were changed, moved, put in or
    taken out of the middle, by accident or by somebody who did not compute the hashes anew. It **cannot** find what
    anybody who may write the file can do: write all of it anew with right hashes, take entries off its end and correct
    the total, or put back an older copy. A copy of the file, or another file for the same table, is a budget of its
    own. Only an object that read the file before notices that it went back since. Keep the hash of the last entry
    elsewhere, or the file where entries can only be added, if that matters.
    """

    def __init__(self, path: Path, timeout: float, state: State) -> None:
        self.path = path
        self.timeout = timeout
        self._seen = (state.genesis, len(state.entries), state.head)

    @classmethod
    def create(cls, path: str | Path, budget: Budget, data_set: str = "", timeout: float = 60.0) -> Self:
        """Make a ledger file.

        Parameters
        ----------
        path : path
            Must not exist.
        budget : Budget
            Of the data set: what all runs together may spend.
        data_set : str
            Its public name.
        timeout : float
            Seconds to wait for other processes, here and at every charge.

        Raises
        ------
        InputError
            If the file exists or cannot be written, or the lock cannot be had in time.
        """
        if not isinstance(budget, Budget):
            raise BudgetError(f"budget must be a Budget, not {type(budget).__name__}")
        fields({"data_set": data_set}, "the ledger file", {"data_set": str})
        path = _resolved(path)
        state = State(data_set, budget, _now(), 0.0, ())
        with _locked(path, timeout):
            if path.exists():
                raise InputError(f"{str(path)!r} exists; a ledger file is made once, then opened")
            write(path, state)
        return cls(path, timeout, state)

    @classmethod
    def open(cls, path: str | Path, timeout: float = 60.0) -> Self:
        """Read a ledger file that exists.

        Raises
        ------
        InputError
            If it cannot be read or is no ledger file. What only :meth:`verify` finds is not looked for here.
        """
        path = _resolved(path)
        return cls(path, timeout, read(path))

    @property
    def budget(self) -> Budget:
        """What all runs together may spend."""
        return self._state().budget

    @property
    def data_set(self) -> str:
        """The data set's public name."""
        return self._state().data_set

    @property
    def entries(self) -> tuple[Entry, ...]:
        """All charges, in order."""
        return self._state().entries

    @property
    def total(self) -> float:
        """The epsilon that is proved, at the budget's delta, of all that was charged; computed from the charges."""
        return _spent(self._state())

    @property
    def remaining(self) -> float:
        """The budget's epsilon less the total. At delta > 0 costs do not add up, and a run can fit that costs more."""
        state = self._state()
        return max(0.0, state.budget.epsilon - _spent(state))

    def charge(self, run: str, charges: Sequence[Charge], simulated: bool) -> None:
        """Record charges, all or none, durably before this returns.

        Parameters
        ----------
        run : str
            The run's identifier.
        charges : sequence of Charge
        simulated : bool
            True: recorded, but neither counted nor refused.

        Raises
        ------
        BudgetError
            If the data set's total would exceed its budget; nothing is written.
        InputError
            If the lock cannot be had in time; or the file cannot be written, is damaged, does not pass
            :meth:`verify`, has become too large, or lacks entries that it had when this object read it last.
        """
        if not charges:
            return
        with _locked(self.path, self.timeout):
            state = self._state()
            problems = _problems(state)
            if problems:
                raise InputError(f"{str(self.path)!r} does not verify, so nothing is charged: {problems[0]}")
            counted = [] if simulated else list(charges)
            total = filtered_epsilon([*state.counted, *counted], state.budget.delta)
            if counted and not total <= state.budget.epsilon:
                raise BudgetError(f"{charges[0].purpose}: the charge would bring the data set's total to {total:.6g} "
                                  f"at delta={state.budget.delta:g}, over the budget {state.budget} of the ledger file "
                                  f"{str(self.path)!r}")
            entries = list(state.entries)
            for charge in charges:
                before = entries[-1].hash if entries else state.genesis
                epsilon, delta = cost(charge, state.budget.delta)
                entry = Entry(len(entries) + 1, _now(), run, _version(), simulated, charge, epsilon, delta, "")
                # Nothing may be written that could not be read again.
                entries.append(replace(Entry.from_dict(entry.to_dict(), "the new entry"), hash=entry.digest(before)))
            state = State(state.data_set, state.budget, state.created, total, tuple(entries))
            write(self.path, state)
            self._seen = (state.genesis, len(entries), state.head)

    def removed_if_unused(self) -> bool:
        """Remove the file if nothing was ever charged to it, by anyone; return whether it was removed."""
        with _locked(self.path, self.timeout):
            # Whoever has opened it meanwhile will not find it, and draw nothing.
            if self._state().entries:
                return False
            self.path.unlink()
            return True

    def verify(self) -> list[str]:
        """Return what is wrong with the file, one line each: hashes, order, each charge's own epsilon, the totals.

        Returns
        -------
        list of str
            Empty if all is as it should be; what that does not say, the class's notes do.

        Raises
        ------
        InputError
            If the file cannot be read or is no ledger file.

        Notes
        -----
        Cost: 0.1 milliseconds an entry, and 1 for each unequal Gaussian charge.
        """
        state = read(self.path)
        return self._backwards(state) + _problems(state, own=True)

    def summary(self) -> dict[str, Any]:
        """Return all that :meth:`__str__` says, of the types that JSON has."""
        state = self._state()
        total = _spent(state)
        return {"file": str(self.path), "data_set": state.data_set, "adjacency": ADJACENCY, "created": state.created,
                "budget": state.budget.to_dict(), "total": total if math.isfinite(total) else None,
                "remaining": max(0.0, state.budget.epsilon - total),
                "simulated": sum(entry.simulated for entry in state.entries), "last": state.head,
                "entries": [entry.to_dict() for entry in state.entries]}

    def __str__(self) -> str:
        state = self._state()
        total = _spent(state)
        lines = [f"data set: {state.data_set or '(no name)'}", f"created: {state.created}", f"adjacency: {ADJACENCY}",
                 f"{'':>4} {'time':<20} {'run':<16} " + charge_header()]
        lines += [f"{entry.sequence:>4} {entry.time:<20} {entry.run:<16} "
                  + charge_line(entry.charge, entry.epsilon, entry.delta)
                  + ("  SIMULATED, not counted" if entry.simulated else "") for entry in state.entries]
        lines += [f"budget: {state.budget}",
                  f"total: ({total:g}, {state.budget.delta:g})-differential privacy of all charges together, however "
                  "later ones were chosen after earlier outputs",
                  f"remaining: {max(0.0, state.budget.epsilon - total):g}",
                  f"last entry's hash: {state.head}"]
        if any(entry.simulated for entry in state.entries):
            lines.append("SIMULATED entries: their noise came from seeded generators, so their outputs are NOT PRIVATE "
                         "and must not be published")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"LedgerFile({str(self.path)!r})"

    def _state(self) -> State:
        state = read(self.path)
        problems = self._backwards(state)
        if problems:
            raise InputError(f"{str(self.path)!r}: {problems[0]}")
        self._seen = (state.genesis, len(state.entries), state.head)
        return state

    def _backwards(self, state: State) -> list[str]:
        """What was read before must be the beginning of what is read now."""
        genesis, count, head = self._seen
        if state.genesis != genesis:
            return ["it is not the file that was opened: its name, budget or time of making differ"]
        if len(state.entries) < count or (count and state.entries[count - 1].hash != head):
            return [f"it lacks entries, or has others, than the {count} that were read before"]
        return []


def charge_header() -> str:
    """Return the names of what :func:`charge_line` writes."""
    return (f"{'purpose':<16} {'noise':<9} {'scale':>10} {'sensitivity':>12} {'norm':<5} {'times':>6} {'epsilon':>9} "
            f"{'delta':>8}  proof")


def charge_line(charge: Charge, epsilon: float, delta: float) -> str:
    """Return a charge and its own cost as a line of a table."""
    return (f"{charge.purpose:<16} {charge.law:<9} {charge.scale:>10.4g} {charge.sensitivity:>12.4g} {charge.norm:<5} "
            f"{charge.count:>6} {epsilon:>9.4g} {delta:>8.2g}  {charge.proof}")


def new_run() -> str:
    """Return a random identifier for a run."""
    return secrets.token_hex(8)


def _problems(state: State, own: bool = False) -> list[str]:
    found = []
    before = state.genesis
    seen: dict[tuple[float, ...], tuple[float, float]] = {}
    for place, entry in enumerate(state.entries, 1):
        if entry.sequence != place:
            found.append(f"entry {place} says that it is number {entry.sequence}")
        if entry.hash != entry.digest(before):
            found.append(f"entry {place} was changed, or what stood before it was")
        before = entry.hash
        if own:
            charge = entry.charge
            key = (charge.pure_epsilon, charge.mu)
            if key not in seen:
                seen[key] = cost(charge, state.budget.delta)
            if seen[key][1] != entry.delta or not _agree(seen[key][0], entry.epsilon):
                found.append(f"entry {place} says epsilon = {entry.epsilon:g} at delta = {entry.delta:g}; it is "
                             f"{seen[key][0]:g} at {seen[key][1]:g}")
    spent = _spent(state)
    if not _agree(spent, state.total):
        found.append(f"the file says that the total is {state.total:g}; it is {spent:g}")
    if not spent <= state.budget.epsilon * (1.0 + AGREEMENT):
        found.append(f"the total {spent:g} exceeds the budget {state.budget}")
    return found


def _spent(state: State) -> float:
    return filtered_epsilon(state.counted, state.budget.delta)


def _agree(first: float, second: float) -> bool:
    return first == second or abs(first - second) <= AGREEMENT * max(abs(first), abs(second)) + 1e-9


@contextmanager
def _locked(path: Path, timeout: float) -> Iterator[None]:
    """Hold the lock beside the file, which the operating system gives back when a process dies."""
    from filelock import FileLock, Timeout

    if not timeout >= 0:
        raise InputError(f"timeout must be at least 0 seconds, not {timeout}")
    # Before the lock, which may make folders.
    check_writable(path)
    lock = FileLock(f"{path}.lock")
    try:
        lock.acquire(timeout=timeout)
    except Timeout:
        raise InputError(f"another process has held the lock {str(path) + '.lock'!r} for {timeout:g} seconds") from None
    except OSError as problem:
        raise InputError(f"cannot lock {str(path) + '.lock'!r}: {problem.strerror}") from None
    try:
        yield
    finally:
        lock.release()


def _resolved(path: str | Path) -> Path:
    # Links to one file must share its lock, and replacing must not replace a link.
    try:
        return Path(os.path.realpath(path))
    except (ValueError, OSError):
        raise InputError(f"{str(path)!r} is no path of a file") from None


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _version() -> str:
    try:
        return metadata.version("trigmech")
    except metadata.PackageNotFoundError:
        return "unknown"
