"""The form of ledgers: entries, the chain of their hashes, and a strict reader of untrusted files."""

import hashlib
import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from numbers import Real
from typing import Any, NoReturn, Self

from trigmech._validate import Kind, fields, of_kind
from trigmech.errors import BudgetError, InputError
from trigmech.privacy.budget import ADJACENCY, Budget, Charge, as_decimal, real_number, shown_up

FORMAT = "trigmech ledger 2"
# Without raised budgets, and without charges of other tools. Files keep the beginning of their chain when they are
# written anew, so hashes that were noted elsewhere stay true.
FIRST_FORMAT = "trigmech ledger 1"

# A file beyond these is refused before it is parsed, so that a hostile one costs bounded time and memory; nor is one
# ever written. Entries have 3 braces and about 20 commas each.
LARGEST_FILE = 64 * 2**20
MOST_MARKS = {b"{": 400_000, b"[": 400_000, b",": 4_000_000}


class _Chained:
    """An entry with its place in the chain of hashes."""

    def to_dict(self) -> dict[str, Any]:
        raise NotImplementedError

    def digest(self, before: str) -> str:
        """Return the hash that this entry must have after one of the given hash."""
        return _digest(before, self.to_dict())


@dataclass(frozen=True)
class Entry(_Chained):
    """One charge in a ledger.

    Parameters
    ----------
    sequence : int
        1, 2, ...
    time : str
        UTC, by the clock of the machine that charged.
    run : str
        A random identifier, the same for all charges of a run.
    version : str
        The version of the package.
    simulated : bool
        True: the charge is recorded but not counted, because the outputs are not private.
    charge : Charge
    epsilon : float
        The cost of this charge alone, at the delta of the next field; infinite if nothing is proved.
    delta : float
        0 if the charge does not need a delta.
    hash : str
        SHA-256, in hexadecimal, of the hash before it and all of the above.
    """

    sequence: int
    time: str
    run: str
    version: str
    simulated: bool
    charge: Charge
    epsilon: float
    delta: float
    hash: str

    def to_dict(self) -> dict[str, Any]:
        """Return all fields by name, of the types that JSON has; an infinite epsilon is None."""
        return {"sequence": self.sequence, "time": self.time, "run": self.run, "version": self.version,
                "simulated": self.simulated, "charge": self.charge.to_dict(),
                "epsilon": self.epsilon if math.isfinite(self.epsilon) else None, "delta": self.delta,
                "hash": self.hash}

    @classmethod
    def from_dict(cls, data: object, where: str) -> Self:
        """Return the entry of :meth:`to_dict`; an InputError, beginning with ``where``, names a wrong field."""
        values = fields(data, where, {"sequence": int, "time": str, "run": str, "version": str, "simulated": bool,
                                      "charge": object, "epsilon": object, "delta": Real, "hash": str})
        _check_time(values["time"], where)
        values["charge"] = Charge.from_dict(values["charge"], f"{where}: charge")
        values["epsilon"] = _number_or_none(f"{where}: epsilon", values["epsilon"])
        return cls(**values)

    def __str__(self) -> str:
        return (f"{self.sequence:>4} {self.time:<20} {self.run:<16} "
                f"{charge_line(self.charge, self.epsilon, self.delta)}{self.simulation}")

    @property
    def simulation(self) -> str:
        """The note in a table next to an entry that does not count."""
        return "  SIMULATED, not counted" if self.simulated else ""


@dataclass(frozen=True)
class Limit:
    """The most that all releases of a data set may cost together.

    Parameters
    ----------
    budget : Budget
    reserve_delta : float
        The part of its delta that claims of other tools and thresholds may use, from 0 to all of it.

    Raises
    ------
    BudgetError
        If the reserve is not from 0 to delta.
    """

    budget: Budget
    reserve_delta: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "reserve_delta", real_number("the reserve of delta", self.reserve_delta))
        if not 0 <= self.reserve_delta <= self.budget.delta:
            raise BudgetError(f"the reserve of delta must be from 0 to the budget's delta, {self.budget.delta}, not "
                              f"{self.reserve_delta}")

    def __str__(self) -> str:
        return str(self.budget) + (f", reserve {shown_up(self.reserve_delta)}" if self.reserve_delta > 0 else "")

    def to_dict(self) -> dict[str, Any]:
        """Return the three numbers by name."""
        return self.budget.to_dict() | {"reserve_delta": self.reserve_delta}

    @classmethod
    def from_dict(cls, data: object, where: str) -> Self:
        """Return the limit of :meth:`to_dict`; an InputError, beginning with ``where``, names a wrong field."""
        values = fields(data, where, {"epsilon": Real, "delta": Real, "reserve_delta": Real})
        try:
            return cls(Budget(values["epsilon"], values["delta"]), values["reserve_delta"])
        except BudgetError as error:
            raise InputError(f"{where}: {error}") from None

    def is_above(self, other: "Limit") -> bool:
        """Return whether it is another limit that admits all that the other does: nothing may be less, nor the rest."""
        least = (self.budget.epsilon >= other.budget.epsilon, self.budget.delta >= other.budget.delta,
                 self.reserve_delta >= other.reserve_delta,
                 as_decimal(self.budget.delta) - as_decimal(self.reserve_delta)
                 >= as_decimal(other.budget.delta) - as_decimal(other.reserve_delta))
        return self != other and all(least)


@dataclass(frozen=True)
class Raised(_Chained):
    """A decision to raise the data set's budget, in a ledger.

    Parameters
    ----------
    sequence : int
        Its place among all entries.
    time : str
        UTC, by the clock of the machine that raised the budget.
    version : str
        The version of the package.
    old, new : Limit
    hash : str
        As of an :class:`Entry`.
    """

    sequence: int
    time: str
    version: str
    old: Limit
    new: Limit
    hash: str

    def to_dict(self) -> dict[str, Any]:
        """Return all fields by name, of the types that JSON has."""
        return {"sequence": self.sequence, "time": self.time, "version": self.version,
                "raised": {"old": self.old.to_dict(), "new": self.new.to_dict()}, "hash": self.hash}

    @classmethod
    def from_dict(cls, data: object, where: str) -> Self:
        """Return the decision of :meth:`to_dict`; an InputError, beginning with ``where``, names a wrong field."""
        values = fields(data, where, {"sequence": int, "time": str, "version": str, "raised": object, "hash": str})
        _check_time(values["time"], where)
        both = fields(values.pop("raised"), f"{where}: raised", {"old": object, "new": object})
        old, new = (Limit.from_dict(both[name], f"{where}: raised: {name}") for name in ("old", "new"))
        if not new.is_above(old):
            raise InputError(f"{where}: raised: the field 'new' must be above the field 'old'")
        return cls(**values, old=old, new=new)

    def __str__(self) -> str:
        return f"{self.sequence:>4} {self.time:<20} the budget was raised from {self.old} to {self.new}"


@dataclass(frozen=True)
class SavedElsewhere(_Chained):
    """Where a release was saved that could not be saved where it was asked for; it costs nothing.

    sequence, time, version, hash: As of a :class:`Raised`.
    run: Whose charges paid for the release.
    path: The path of the saved file.
    """

    sequence: int
    time: str
    version: str
    run: str
    path: str
    hash: str

    def to_dict(self) -> dict[str, Any]:
        """Return all fields by name, of the types that JSON has."""
        return {"sequence": self.sequence, "time": self.time, "version": self.version,
                "kept": {"run": self.run, "path": self.path}, "hash": self.hash}

    @classmethod
    def from_dict(cls, data: object, where: str) -> Self:
        """Return the note of :meth:`to_dict`; an InputError, beginning with ``where``, names a wrong field."""
        values = fields(data, where, {"sequence": int, "time": str, "version": str, "kept": object, "hash": str})
        _check_time(values["time"], where)
        return cls(**fields(values.pop("kept"), f"{where}: kept", {"run": str, "path": str}), **values)

    def __str__(self) -> str:
        return f"{self.sequence:>4} {self.time:<20} {self.run:<16} its release was saved as {self.path!r}"


AnyEntry = Entry | Raised | SavedElsewhere


@dataclass(frozen=True)
class State:
    """The content of a ledger, as it was read."""

    data_set: str
    made: Limit
    created: str
    total: float
    entries: tuple[AnyEntry, ...]
    chain: str = FORMAT

    @property
    def genesis(self) -> str:
        """The hash before the first entry, of all that does not change."""
        limit = self.made.budget if self.chain == FIRST_FORMAT else self.made
        return _digest("", {"format": self.chain, "adjacency": ADJACENCY, "data_set": self.data_set,
                            "budget": limit.to_dict(), "created": self.created})

    @property
    def limit(self) -> Limit:
        """The limit that holds now."""
        return next((entry.new for entry in reversed(self.entries) if isinstance(entry, Raised)), self.made)

    @property
    def charges(self) -> tuple[Entry, ...]:
        return tuple(entry for entry in self.entries if isinstance(entry, Entry))

    @property
    def head(self) -> str:
        """The hash of the last entry."""
        return self.entries[-1].hash if self.entries else self.genesis

    @property
    def counted(self) -> list[Charge]:
        """The charges that were not simulated."""
        return [entry.charge for entry in self.charges if not entry.simulated]


def parsed(content: bytes, where: str) -> State:
    """Return the ledger of a text, which anybody may have written.

    Raises an InputError if it is too large, or is not of this form; the message begins with ``where`` and names the
    field.

    Cost: at most seconds and some hundred megabytes, whatever the text holds.
    """
    check_size(content, where)
    try:
        data = json.loads(content.decode("utf-8"), object_pairs_hook=_distinct, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as problem:
        # The message of a JSON error quotes a place; others are ours.
        raise InputError(f"{where} is not JSON of this kind: {str(problem)[:200]}") from None
    # By its format, so that a newer file is refused by that name.
    found = data.get("format") if isinstance(data, dict) else None
    if isinstance(data, dict) and "format" in data and found not in (FORMAT, FIRST_FORMAT):
        raise InputError(f"{where}: the field 'format' must be {FORMAT!r} or {FIRST_FORMAT!r}; a newer version of the "
                         "package may read it")
    kinds: dict[str, Kind] = {"format": str, "adjacency": str, "data_set": str, "budget": object, "created": str,
                              "entries": list, "total": object}
    values = fields(data, where, kinds if found == FIRST_FORMAT else kinds | {"chain": str})
    chain = values.get("chain", FIRST_FORMAT)
    if chain not in (FORMAT, FIRST_FORMAT):
        raise InputError(f"{where}: the field 'chain' must be {FORMAT!r} or {FIRST_FORMAT!r}")
    if values["adjacency"] != ADJACENCY:
        raise InputError(f"{where}: the field 'adjacency' must be {ADJACENCY!r}")
    _check_time(values["created"], where)
    made = (Limit(Budget.from_dict(values["budget"], f"{where}: budget")) if chain == FIRST_FORMAT
            else Limit.from_dict(values["budget"], f"{where}: budget"))
    total = _number_or_none(f"{where}: total", values["total"])
    entries = tuple(_class_of(entry).from_dict(entry, f"{where}: entry {place}")
                    for place, entry in enumerate(values["entries"], 1))
    return State(values["data_set"], made, values["created"], total, entries, chain)


def head_text(state: State) -> str:
    """Return a ledger's facts about itself as JSON: only their format ever changes."""
    made = state.made.budget if state.chain == FIRST_FORMAT else state.made
    return json.dumps({"format": FORMAT, "chain": state.chain, "adjacency": ADJACENCY, "data_set": state.data_set,
                       "budget": made.to_dict(), "created": state.created}, allow_nan=False)


def total_text(state: State) -> str:
    return json.dumps(state.total if math.isfinite(state.total) else None)


def _class_of(entry: object) -> type[AnyEntry]:
    found = entry if isinstance(entry, dict) else {}
    return Raised if "raised" in found else SavedElsewhere if "kept" in found else Entry


def entry_text(entry: AnyEntry) -> str:
    """Return an entry as JSON, in one line."""
    return json.dumps(entry.to_dict(), allow_nan=False)


def joined(head: str, total: str, entries: Iterable[str]) -> bytes:
    """Return the text that :func:`parsed` reads, of the texts of its parts."""
    lines = ",\n  ".join(entries)
    # One entry a line, for people and for programs that compare lines.
    return (f'{head[:-1]}, "total": {total},\n "entries": [' + (f"\n  {lines}\n" if lines else "") + "]}\n").encode()


def content_of(state: State, where: str) -> bytes:
    """Return a ledger as text, or raise an InputError that begins with ``where`` if :func:`parsed` would refuse it."""
    content = joined(head_text(state), total_text(state), map(entry_text, state.entries))
    check_size(content, f"{where} would be too large:")
    return content


def check_size(content: bytes, where: str) -> None:
    """Raise an InputError if a text is beyond the limits above."""
    if len(content) > LARGEST_FILE:
        raise InputError(f"{where} has more than {LARGEST_FILE} bytes")
    for mark, most in MOST_MARKS.items():
        if content.count(mark) > most:
            raise InputError(f"{where} has more than {most} {mark.decode()!r}")


def charge_header() -> str:
    """Return the headings of the columns that :func:`charge_line` writes."""
    return (f"{'purpose':<16} {'noise':<9} {'scale':>10} {'sensitivity':>12} {'norm':<5} {'times':>6} {'epsilon':>9} "
            f"{'delta':>8}  proof")


def charge_line(charge: Charge, epsilon: float, delta: float) -> str:
    """Return a charge and its own cost as a line of a table."""
    noise = charge.norm != "none"
    scale, sensitivity = (f"{charge.scale:.4g}", f"{charge.sensitivity:.4g}") if noise else ("-", "-")
    return (f"{charge.purpose:<16} {charge.law:<9} {scale:>10} {sensitivity:>12} {charge.norm if noise else '-':<5} "
            f"{charge.count:>6} {shown_up(epsilon, 4):>9} {shown_up(delta, 2):>8}  {charge.proof}")


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a field appears twice")
    return found


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number of JSON")


def _number_or_none(name: str, value: object) -> float:
    return math.inf if value is None else float(of_kind(name, value, (Real, 0)))


def _check_time(text: str, where: str) -> None:
    try:
        offset = datetime.fromisoformat(text).utcoffset()
    except ValueError:
        offset = None
    if offset != timedelta(0):
        raise InputError(f"{where}: a time must be ISO 8601 in UTC")


def _digest(before: str, content: dict[str, Any]) -> str:
    content = {name: value for name, value in content.items() if name != "hash"}
    # Python writes a float with the fewest digits that give it back, so equal content has equal text.
    return hashlib.sha256(f"{before}\n{json.dumps(content, allow_nan=False, sort_keys=True)}".encode()).hexdigest()
