"""The rounds file: a journal of the numbers that a run has released so far, so that an interrupted run can continue.

A run charges the ledger and draws several times, and later draws depend on earlier released numbers. The first line of
its rounds file identifies the run: its identifier, fingerprints of the design and the schema, the number of rows, the
ledger file, the version of the package; and a seed for *public* random numbers, which are never used as noise. Every
draw adds a line with its charge and its released numbers, which are public; the line is on the disk before anything
depends on it (:meth:`trigmech.measurement.release.Session.draw`). After a private selection the line has the released
categories, not the noisy counts. Each line begins with the hash of itself and all before.

**Claim.** Whenever a run's processes end, no charge pays for two draws that anything depends on, nothing is charged
twice, and nothing is drawn without a charge. The moments at which a process can end:

1. *Before the first line is whole*: nothing is charged yet. The next process begins again.
2. *Then, before the ledger file has the charges*: it has no entry of this run; the next process charges.
3. *Then, before a draw's line is whole*: the ledger file has entries with the run's identifier, written all at once, so
   the next process does not charge again, and draws. If the draw had been made before, its values were lost with the
   process's memory. Nothing depended on them, so the second draw's values are distributed as the first one's would
   have been, as long as the process did not end because of them; the guarantee covers the released values. A line ends
   with its last byte, a line break, so an incomplete line is recognised, and is cut off before the next draw.
4. *Then*: the released numbers are read from the file, and never drawn again. As public random numbers come from the
   seed, all later steps are the same, until the release is saved and the file removed; if the file is not removed, the
   same release is made again at no cost.

If a line cannot be written, for example because the disk is full, the run continues, but first the file is emptied on
the disk and removed. So nobody can draw again for numbers that are used now, also not under another name of the file.
If the process ends after that, the budget is lost. If the file cannot be emptied, the run ends, and the values are not
used. Two processes cannot use the same file: each holds a lock on it. A file with several names (hard links) is
refused, like a ledger file with several names. A *copy* of the file, also one that is put back later, is not noticed,
as with a ledger file: a person who continues with the copy and with the file itself draws twice for one charge.

**The table** must be the same for all processes of a run. Only its number of rows is checked, because the file holds
nothing of the table. If the table changed in between, each draw used the table of its time, by mechanisms that are
private for any table, so the run is (epsilon, delta)-private, as charged, for neighbours that differ in one row of
*each* version: for a person who has at most one row in each, if the other rows do not depend on that person's. The
release then belongs to no single table.
"""

import dataclasses
import hashlib
import json
import logging
import math
import os
import re
import secrets
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from trigmech._arrays import Array
from trigmech._files import check_writable, keep_name
from trigmech._validate import fields, finite, of_kind
from trigmech.errors import InputError, PaidError
from trigmech.privacy.budget import Charge
from trigmech.privacy.ledger_lock import check_links, new_attempt, new_run, resolved, version

Found = dict[str, tuple[str, ...]]

FORMAT = "trigmech rounds 1"
LARGEST_FILE = 2**30
# The facts that must be the same when a run goes on, in words.
FACTS = {"version": "version of trigmech", "n": "number of rows", "ledger": "ledger file", "schema": "schema",
         "design": "design"}
# The deepest value that a fingerprint looks into, and the most dimensions of an array.
DEEPEST, MOST_DIMENSIONS = 12, 4

logger = logging.getLogger(__name__)


class RoundsFile:
    """The released numbers of one run so far, from :func:`opened`; see the module's docstring.

    Attributes
    ----------
    run : str
        The run's identifier in the ledger file.
    seed : int
        The seed of public random numbers.
    resumed : bool
        Whether a process before this one began the run.
    """

    def __init__(self, path: Path, facts: Mapping[str, Any], begins: tuple[str, int] | None = None) -> None:
        self.path, self.resumed = path, False
        self.run, self.seed = begins or (new_run(), secrets.randbits(128))
        if begins:
            # Such a run can have several files; this tells the ledger which one was charged.
            self.run = new_attempt(self.run)
        self._facts, self._handle, self._hash = dict(facts), -1, ""
        self._known: list[tuple[Charge, Array | Found]] = []
        if not path.exists():
            return
        self._lock(os.O_RDWR)
        try:
            self._read()
        except BaseException:
            self.close()
            raise

    def begin(self) -> bool:
        """Make the file before the first charge, if it is not there; return whether it was made now."""
        if self._hash:
            return False
        if self._handle < 0:
            self._lock(os.O_RDWR | os.O_CREAT | os.O_EXCL)
        try:
            self._append({"format": FORMAT, "run": self.run, "seed": f"{self.seed:032x}", **self._facts})
            keep_name(self.path)
        except OSError as problem:
            # Nothing is charged yet, so that a header which stays does no harm.
            with suppress(OSError):
                self.remove()
            self.close()
            raise InputError(f"cannot write {str(self.path)!r}: {problem.strerror}") from None
        return True

    def known(self, charge: Charge, shape: tuple[int, ...] | None) -> Array | Found | None:
        """Return the released numbers of the next draw if an earlier process made it; a selection has no shape."""
        if not self._known:
            return None
        drawn, released = self._known.pop(0)
        if drawn != charge or (released.shape if isinstance(released, np.ndarray) else None) != shape:
            raise InputError(f"the next draw of this run is {charge.purpose}, but {str(self.path)!r} holds another "
                                 "draw")
        return released

    def begins_with(self, draws: Sequence[tuple[Charge, Array]]) -> bool:
        """Return whether these draws are the first that the file has."""
        return len(draws) <= len(self._known) and all(
            drawn == charge and isinstance(released, np.ndarray) and np.array_equal(released, values)
            for (drawn, released), (charge, values) in zip(self._known, draws, strict=False))

    def keep(self, charge: Charge, released: Array | Found) -> None:
        """Write the released numbers of a draw, durably, before they are used."""
        if self._handle < 0:
            return
        shape = list(released.shape) if isinstance(released, np.ndarray) else None
        plain = released.ravel().tolist() if isinstance(released, np.ndarray) else released
        try:
            self._append({"charge": charge.to_dict(), "shape": shape, "released": plain})
        except (OSError, ValueError):
            try:
                self.remove()
            except OSError as problem:
                raise PaidError(f"a draw cannot be written to {str(self.path)!r}, and the file cannot be emptied "
                                f"({problem.strerror}), so the draw is not used; run again when the file can be "
                                "written: nothing is charged twice") from None
            logger.warning("a draw could not be written to the rounds file, which was removed: if this run is "
                           "interrupted, its charges are lost")

    def remove(self) -> None:
        """Empty the file and remove it, durably: a run does not go on with it by any name. Raises an OSError."""
        os.ftruncate(self._handle, 0)
        os.fsync(self._handle)
        # An empty file begins a new run, so it may stay. So may another file that was put in its place.
        with suppress(OSError):
            if os.path.samestat(os.fstat(self._handle), os.stat(self.path, follow_symlinks=False)):
                self.path.unlink()
                keep_name(self.path)
        self.close()

    def close(self) -> None:
        """Give back the lock."""
        if self._handle >= 0:
            os.close(self._handle)
        self._handle = -1

    def _lock(self, flags: int) -> None:
        import fcntl

        try:
            # Opening a pipe would wait until somebody writes to it.
            self._handle = os.open(self.path, flags | os.O_NONBLOCK, 0o666)
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, FileExistsError):
            self.close()
            raise InputError(f"another process uses {str(self.path)!r}") from None
        except OSError as problem:
            self.close()
            raise InputError(f"cannot open {str(self.path)!r}: {problem.strerror}") from None

    def _append(self, record: dict[str, Any]) -> None:
        text = json.dumps(record, allow_nan=False)
        self._hash = _chained(self._hash, text)
        rest = f"{self._hash} {text}\n".encode()
        while rest:
            rest = rest[os.write(self._handle, rest):]
        os.fsync(self._handle)

    def _read(self) -> None:
        state = os.fstat(self._handle)
        if not stat.S_ISREG(state.st_mode) or state.st_size > LARGEST_FILE or not state.st_nlink:
            raise InputError(f"{str(self.path)!r} is not a rounds file, or was removed meanwhile")
        check_links(f"the rounds file {str(self.path)!r}", state.st_nlink)
        with open(self._handle, "rb", closefd=False) as file:
            content = file.read()
        *lines, part = content.split(b"\n")
        try:
            records = [self._verified(line) for line in lines]
            if not records and part:
                raise InputError("its first line is not whole, so nothing was charged for it; remove it")
            if records:
                self._take_over(records[0])
                self._known = [_draw(record) for record in records[1:]]
        except InputError as problem:
            raise InputError(f"cannot continue the run of {str(self.path)!r}: {problem}") from None
        # The part belongs to a draw that nobody has seen.
        os.ftruncate(self._handle, len(content) - len(part))
        os.fsync(self._handle)
        os.lseek(self._handle, 0, os.SEEK_END)

    def _verified(self, line: bytes) -> dict[str, Any]:
        try:
            found, _, text = line.decode("ascii").partition(" ")
            record = json.loads(text)
        except (ValueError, RecursionError):
            raise InputError("it is not a rounds file, or is damaged") from None
        if not isinstance(record, dict) or found != _chained(self._hash, text):
            raise InputError("it is not a rounds file, or is damaged")
        self._hash = found
        return record

    def _take_over(self, record: dict[str, Any]) -> None:
        values = fields(record, "its first line", {"format": str, "run": str, "seed": str,
                                                   **dict.fromkeys(FACTS, object)})
        if values["format"] != FORMAT:
            raise InputError(f"its format is not {FORMAT!r}")
        for name, words in FACTS.items():
            if values[name] != self._facts[name]:
                raise InputError(f"it belongs to another {words}. To continue the run, use the same one as before. "
                                 "To begin a new run, remove this file; the charged budget stays spent")
        if not re.fullmatch("[0-9a-f]{32}", values["seed"]):
            raise InputError("its seed is not of 32 hexadecimal digits")
        self.run, self.seed, self.resumed = values["run"], int(values["seed"], 16), True


@contextmanager
def opened(path: str | Path, begins: tuple[str, int] | None = None, **facts: Any) -> Iterator[RoundsFile]:
    """Yield the rounds file of a run, which another process may have begun, under its lock.

    Parameters
    ----------
    path : path, public
    begins : tuple of str and int, optional
        Identifier and seed of a run that begins, if it has them already; such a run is made once, so the file is an
        attempt at it, with an identifier that begins with the run's.
    **facts
        ``n``, ``ledger`` (:attr:`trigmech.LedgerFile.identity` or None), ``schema`` and ``design``, of types that JSON
        has: see :func:`fingerprint`.

    Raises
    ------
    InputError
        If the file cannot be written or read, is damaged, is used by another process, or is of a run of other facts,
        one of which is named.
    """
    path = resolved(path)
    check_writable(path)
    rounds = RoundsFile(path, {"version": version(), **facts}, begins)
    try:
        yield rounds
    finally:
        rounds.close()


def fingerprint(*values: Any) -> str:
    """Return a hash of public values: of dataclasses by their fields, of arrays by all bits, of others by contents."""
    found = hashlib.sha256()

    def feed(value: Any, depth: int) -> None:
        found.update(f"({type(value).__module__}.{type(value).__qualname__} ".encode())
        if isinstance(value, np.ndarray) and value.dtype != object:
            found.update(f"{value.dtype.str} {value.shape} ".encode() + value.tobytes())
        elif value is None or isinstance(value, bool | int | float | str | bytes | range | slice | np.generic):
            found.update(repr(value).encode())
        elif depth < DEEPEST:
            if dataclasses.is_dataclass(value):
                # Attributes that are computed from the fields may exist or not.
                held: Any = [getattr(value, field.name) for field in dataclasses.fields(value)]
            else:
                held = value.items() if isinstance(value, dict) else getattr(value, "__dict__", {}).items()
            parts = value if isinstance(value, list | tuple) else held
            if set(map(type, parts)) == {float}:
                # The same bytes, at once: schemas can have millions of levels.
                found.update("".join([f"(builtins.float {part!r})" for part in parts]).encode())
                parts = ()
            for part in parts:
                feed(part, depth + 1)
        found.update(b")")

    feed(values, 0)
    return found.hexdigest()


def _chained(before: str, text: str) -> str:
    return hashlib.sha256(f"{before}\n{text}".encode()).hexdigest()


def _draw(record: dict[str, Any]) -> tuple[Charge, Array | Found]:
    values = fields(record, "a draw", {"charge": object, "shape": object, "released": object})
    charge, released = Charge.from_dict(values["charge"], "a draw: charge"), values["released"]
    if values["shape"] is None:
        lists = list(released.values()) if isinstance(released, dict) else [None]
        if not all(isinstance(texts, list) and all(isinstance(text, str) for text in texts) for texts in lists):
            raise InputError("a draw: the result of a selection must be lists of texts")
        return charge, {name: tuple(texts) for name, texts in released.items()}
    return charge, array_in("a draw", values["shape"], released)


def array_in(where: str, shape: Any, released: Any) -> Array:
    """Return released numbers of a file as an array of their shape; an InputError begins with ``where``."""
    lengths = [of_kind(f"{where}: shape", length, (int, 0)) for length in of_kind(f"{where}: shape", shape, list)]
    if len(lengths) > MOST_DIMENSIONS:
        raise InputError(f"{where}: shape must be of at most {MOST_DIMENSIONS} lengths")
    array = finite(f"{where}: released", of_kind(f"{where}: released", released, list), math.prod(lengths))
    return array.astype(np.float64).reshape(lengths)
