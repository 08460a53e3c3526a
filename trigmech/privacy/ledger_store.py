"""Stores of ledgers: their interface, the store in a file, and the choice of a store by a path or an address."""

import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from trigmech._files import write_whole
from trigmech.errors import InputError, UncertainChargeError
from trigmech.privacy.ledger_format import LARGEST_FILE, State, content_of, parsed
from trigmech.privacy.ledger_lock import check_names, locked, resolved
from trigmech.privacy.ledger_server import Server, is_address


class Store(Protocol):
    """The place of one ledger for all processes. Each method raises an InputError if it cannot do its work.

    Another process finds it by its ``path``, which has no password; messages call it by its ``name``.
    """

    @property
    def path(self) -> Path | str: ...

    @property
    def name(self) -> str: ...

    def exists(self) -> bool:
        """Return whether there is something."""

    def read(self) -> State:
        """Return the content, all of the same moment."""

    def make(self, state: State) -> None:
        """Write a new ledger; raise an InputError if one exists there."""

    def change(self, longer: Callable[[State], State]) -> State:
        """Let a function add entries to the content, without another writer in between; return the new content.

        The function may be called again with the new content of another writer; if it raises, nothing is written. The
        content is durable before this method returns; if that cannot be known, this method raises.
        """

    def remove(self, unused: Callable[[State], bool]) -> bool:
        """Remove the ledger if a function of its content is true; return whether it was removed."""

    def check(self) -> None:
        """Raise the error of :meth:`change`, as far as it can be foreseen without writing."""


def store_of(path: str | Path, timeout: float) -> Store:
    """Return the store of a file's path or a server's address; an InputError is raised if it is neither."""
    return Server(str(path), timeout) if is_address(path) else OneFile(path, timeout)


class OneFile:
    """A ledger in a file that is replaced as a whole, under the lock beside it."""

    def __init__(self, path: str | Path, timeout: float) -> None:
        self.path, self._timeout = resolved(path), timeout
        self.name = f"the ledger file {str(self.path)!r}"

    def exists(self) -> bool:
        return self.path.exists()

    def read(self) -> State:
        try:
            # Others than plain files, such as pipes, could make reading wait for ever.
            if not stat.S_ISREG(self.path.stat().st_mode):
                raise InputError(f"{self.name} is not a file")
            with self.path.open("rb") as file:
                content = file.read(LARGEST_FILE + 1)
        except FileNotFoundError:
            raise InputError(f"{self.name} does not exist; make it once, before the first release, with `trigmech "
                             "ledger create` or LedgerFile.create(...)") from None
        except OSError as problem:
            raise InputError(f"{self.name} cannot be read: {problem.strerror}") from None
        return parsed(content, self.name)

    def make(self, state: State) -> None:
        with locked(self.path, self._timeout):
            if self.path.exists():
                raise InputError(f"{str(self.path)!r} exists; a ledger file is made once, then opened")
            self._write(state)

    def change(self, longer: Callable[[State], State]) -> State:
        with locked(self.path, self._timeout):
            state = longer(self.read())
            self._write(state, "Count the new entries as spent until `trigmech ledger show` shows that they are not "
                        "there. Nothing was drawn")
            return state

    def remove(self, unused: Callable[[State], bool]) -> bool:
        with locked(self.path, self._timeout):
            if not unused(self.read()):
                return False
            self.path.unlink()
            return True

    def check(self) -> None:
        check_names(self.path)

    def _write(self, state: State, spent: str = "") -> None:
        content = content_of(state, self.name)
        try:
            write_whole(self.path, content)
        except OSError as problem:
            why = problem.strerror
        else:
            return
        # The folder is synced after the file has its name.
        with suppress(OSError):
            if spent and self.path.read_bytes() == content:
                raise UncertainChargeError(f"{self.name} was written, but the system cannot say that it is on the disk "
                                           f"({why}). {spent}")
        raise InputError(f"{self.name} cannot be written: {why}")
