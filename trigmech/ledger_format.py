"""The form of ledger files: entries, the chain of their hashes, and the strict reading of what anybody may write."""

import hashlib
import json
import math
import stat
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NoReturn, Self

from trigmech.budget import ADJACENCY, Budget, Charge, fields
from trigmech.errors import InputError
from trigmech.outputs import write_whole

FORMAT = "trigmech ledger 1"

# A file beyond these is refused before it is parsed, so that a hostile one costs bounded time and memory; nor is one
# ever written. Entries have 3 braces and about 20 commas each.
LARGEST_FILE = 64 * 2**20
MOST_MARKS = {b"{": 400_000, b"[": 400_000, b",": 4_000_000}


@dataclass(frozen=True)
class Entry:
    """One charge in a ledger file.

    Parameters
    ----------
    sequence : int
        1, 2, ...
    time : str
        UTC, by the clock of who charged.
    run : str
        A random identifier, the same for all charges of a run.
    version : str
        Of the package.
    simulated : bool
        True: recorded, but not counted, for its outputs are not private.
    charge : Charge
    epsilon : float
        Of this charge alone, at the next field; infinite if none is proved.
    delta : float
        0 where the charge needs none.
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
                                      "charge": object, "epsilon": object, "delta": float, "hash": str})
        _check_time(values["time"], where)
        values["charge"] = Charge.from_dict(values["charge"], f"{where}: charge")
        values["epsilon"] = _number_or_none(values, where)
        return cls(**values)

    def digest(self, before: str) -> str:
        """Return the hash that this entry must have after one of the given hash."""
        content = self.to_dict()
        del content["hash"]
        return _digest(before, content)


@dataclass(frozen=True)
class State:
    """What a ledger file holds, as it was read."""

    data_set: str
    budget: Budget
    created: str
    total: float
    entries: tuple[Entry, ...]

    @property
    def genesis(self) -> str:
        """The hash before the first entry, of all that does not change."""
        return _digest("", {"format": FORMAT, "adjacency": ADJACENCY, "data_set": self.data_set,
                            "budget": self.budget.to_dict(), "created": self.created})

    @property
    def head(self) -> str:
        """The hash of the last entry."""
        return self.entries[-1].hash if self.entries else self.genesis

    @property
    def counted(self) -> list[Charge]:
        """What was charged for and not simulated."""
        return [entry.charge for entry in self.entries if not entry.simulated]


def read(path: Path) -> State:
    """Read a ledger file.

    Raises
    ------
    InputError
        If it cannot be read, is too large, or is not of this form; the message names the field.

    Notes
    -----
    Cost: at most seconds and some hundred megabytes, whatever the file holds.
    """
    said = f"the ledger file {str(path)!r}"
    try:
        # Others than plain files, such as pipes, could make reading wait for ever.
        if not stat.S_ISREG(path.stat().st_mode):
            raise InputError(f"{said} is not a file")
        with path.open("rb") as file:
            content = file.read(LARGEST_FILE + 1)
    except OSError as problem:
        raise InputError(f"{said} cannot be read: {problem.strerror}") from None
    _check_size(content, said)
    try:
        data = json.loads(content.decode("utf-8"), object_pairs_hook=_distinct, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as problem:
        # The message of a JSON error quotes a place; others are ours.
        raise InputError(f"{said} is not JSON of this kind: {str(problem)[:200]}") from None
    values = fields(data, said, {"format": str, "adjacency": str, "data_set": str, "budget": object, "created": str,
                                 "entries": list, "total": object})
    if values["format"] != FORMAT:
        raise InputError(f"{said}: the field 'format' must be {FORMAT!r}")
    if values["adjacency"] != ADJACENCY:
        raise InputError(f"{said}: the field 'adjacency' must be {ADJACENCY!r}")
    _check_time(values["created"], said)
    budget = Budget.from_dict(values["budget"], f"{said}: budget")
    total = _number_or_none({"epsilon": values["total"]}, f"{said}: total")
    entries = tuple(Entry.from_dict(entry, f"{said}: entry {place}")
                    for place, entry in enumerate(values["entries"], 1))
    return State(values["data_set"], budget, values["created"], total, entries)


def write(path: Path, state: State) -> None:
    """Replace a ledger file, durably, or make it.

    Raises
    ------
    InputError
        If it cannot be written, or :func:`read` would refuse it; what was there stays.
    """
    head = {"format": FORMAT, "adjacency": ADJACENCY, "data_set": state.data_set, "budget": state.budget.to_dict(),
            "created": state.created, "total": state.total if math.isfinite(state.total) else None}
    entries = ",\n  ".join(_json(entry.to_dict()) for entry in state.entries)
    # One entry a line, for people and for programs that compare lines.
    text = _json(head)[:-1] + ',\n "entries": [' + (f"\n  {entries}\n" if entries else "") + "]}\n"
    content = text.encode()
    _check_size(content, f"the ledger file {str(path)!r} would be too large:")
    try:
        write_whole(path, content)
    except OSError as problem:
        raise InputError(f"the ledger file {str(path)!r} cannot be written: {problem.strerror}") from None


def _check_size(content: bytes, said: str) -> None:
    if len(content) > LARGEST_FILE:
        raise InputError(f"{said} has more than {LARGEST_FILE} bytes")
    for mark, most in MOST_MARKS.items():
        if content.count(mark) > most:
            raise InputError(f"{said} has more than {most} {mark.decode()!r}")


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a field is there twice")
    return found


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number of JSON")


def _number_or_none(values: dict[str, Any], where: str) -> float:
    if values["epsilon"] is None:
        return math.inf
    epsilon = float(fields({"epsilon": values["epsilon"]}, where, {"epsilon": float})["epsilon"])
    if epsilon < 0:
        raise InputError(f"{where}: the field 'epsilon' must be at least 0")
    return epsilon


def _check_time(text: str, where: str) -> None:
    try:
        offset = datetime.fromisoformat(text).utcoffset()
    except ValueError:
        offset = None
    if offset != timedelta(0):
        raise InputError(f"{where}: a time must be ISO 8601 in UTC")


def _json(content: object) -> str:
    return json.dumps(content, allow_nan=False)


def _digest(before: str, content: object) -> str:
    # Python writes a float with the fewest digits that give it back, so equal content has equal text.
    return hashlib.sha256(f"{before}\n{json.dumps(content, allow_nan=False, sort_keys=True)}".encode()).hexdigest()
