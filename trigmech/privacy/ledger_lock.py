"""The single writer of a ledger file: its true path, the check of its only name, its lock, and its stamps."""

import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cache
from importlib import metadata
from numbers import Real
from pathlib import Path

from trigmech._files import check_writable
from trigmech.errors import InputError, shown


@contextmanager
def locked(path: Path, timeout: float) -> Iterator[None]:
    """Hold the lock beside the file, which the operating system gives back when a process dies.

    Raises an InputError if the lock cannot be had in time, the file cannot be written, or it has other names: writing
    replaces one name, so that behind each of them the budget would be there once more.
    """
    from filelock import FileLock, Timeout

    check_timeout(timeout)
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
        if resolved(path) != path:
            # Others lock and write the file that it points to.
            raise InputError(f"the ledger file {str(path)!r} is now a symbolic link to another path; open it again")
        check_names(path)
        yield
    finally:
        lock.release()


def resolved(path: str | Path) -> Path:
    """Return the path behind symbolic links: all of them must share its lock, and replacing must not replace a link.

    An InputError is raised if it is no path of a file.
    """
    try:
        return Path(os.path.realpath(path))
    except (ValueError, OSError, TypeError):
        given = str(path) if isinstance(path, os.PathLike) else path
        raise InputError(f"a ledger must be the path of a file, not {shown(given)}") from None


def check_names(path: Path) -> None:
    """Raise an InputError if the file has a second name (a hard link)."""
    try:
        names = path.stat().st_nlink
    except FileNotFoundError:
        return
    except OSError as problem:
        raise InputError(f"the ledger file {str(path)!r} cannot be read: {problem.strerror}") from None
    check_links(f"the ledger file {str(path)!r}", names)


def check_links(name: str, names: int) -> None:
    """Raise an InputError if a file has several names: a change under one name could be missing under the others."""
    if names > 1:
        raise InputError(f"{name} has {names} names (hard links), and a change under one name would be missing under "
                         "the others; keep one name only, or use symbolic links")


def check_timeout(timeout: float) -> None:
    """Raise an InputError if it is no number of seconds."""
    if not (isinstance(timeout, Real) and timeout >= 0):
        raise InputError(f"timeout must be at least 0 seconds, not {shown(timeout)}")


def new_run() -> str:
    """Return a random identifier for a run."""
    return secrets.token_hex(8)


def new_attempt(run: str) -> str:
    """Return the identifier of one attempt at a run that is made once: that of the run and a random one.

    An InputError is raised if it is no identifier of a run.
    """
    if not re.fullmatch("[0-9a-f]{16}", run):
        raise InputError("the identifier of a run must have 16 hexadecimal digits")
    return f"{run}-{secrets.token_hex(4)}"


def attempted(run: str) -> str:
    """Return the run of which this is an attempt; of all others themselves."""
    found = re.fullmatch("([0-9a-f]{16})-[0-9a-f]{8}", run)
    return found[1] if found else run


def now() -> str:
    """Return the time in UTC, as entries hold it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@cache
def version(name: str = "trigmech", absent: str = "unknown") -> str:
    """Return a package's version. One that was put on the path without being installed has none."""
    # A search of the path, and it does not change while a process runs.
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return absent
