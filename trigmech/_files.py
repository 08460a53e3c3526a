"""Files that are written whole or not at all."""

import errno
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from trigmech.errors import InputError, TrigmechError

# A file beside another one begins with so many bytes of its name; file systems allow some 255 bytes.
NAMED = 100


def read_toml(path: str | os.PathLike[str], what: str, hint: str = "") -> dict[str, Any]:
    """Return the content of a TOML file; an InputError names the file, ``what`` it should be, and its fault."""
    import tomllib

    name = repr(str(path))
    try:
        return tomllib.loads(Path(path).read_bytes().decode("utf-8-sig"))
    except OSError as problem:
        raise InputError(f"cannot read {name}: {problem.strerror}") from None
    except UnicodeDecodeError:
        raise InputError(f"{name} is not {what}: it must be UTF-8 text") from None
    except tomllib.TOMLDecodeError as problem:
        raise InputError(f"{name} is not valid TOML: {problem}{hint}") from None
    except RecursionError:
        raise InputError(f"{name} is not valid TOML: it is nested too deeply") from None


@contextmanager
def reading(path: str | os.PathLike[str], damaged: str = "", *broken: type[Exception]) -> Iterator[None]:
    """Turn errors of a file into an InputError that names it; for ``broken`` exceptions it says ``damaged``."""
    said = f"cannot read {os.fspath(path)!r}"
    try:
        yield
    except TrigmechError as problem:
        raise InputError(f"{said}: {problem}") from None
    except OSError as problem:
        raise InputError(f"{said}: {problem.strerror}") from None
    except broken:
        raise InputError(f"{said}: {damaged}") from None


@contextmanager
def writing(path: str | os.PathLike[str]) -> Iterator[None]:
    """Turn errors of a file that is to be written, such as too long a name, into an InputError that names it."""
    try:
        yield
    except OSError as problem:
        raise InputError(f"cannot write {os.fspath(path)!r}: {problem.strerror}") from None


@contextmanager
def replacing(path: Path, private: bool = False) -> Iterator[Path]:
    """Yield a path beside ``path`` to write to; on leaving without an error, make it durable and rename it to ``path``.

    Whatever ends the process, ``path`` holds its old content or the new one, never a part. After an error or an
    interruption the file beside is removed; a killed process can leave it, hidden and with the suffix ``.part``. A
    private one can be read by its owner alone.

    Raises an InputError if the folder does not exist or cannot be written to, or ``path`` is a folder.
    """
    path = Path(path)
    check_writable(path)
    # Where a symbolic link points, so that it stays one.
    path = Path(os.path.realpath(path))
    beside = _made_beside(path)
    try:
        yield beside
        _make_durable(beside)
        if private:
            beside.chmod(0o600)
        else:
            _take_over_permissions(beside, path)
        beside.replace(path)
        _make_durable(path.parent)
    finally:
        with suppress(FileNotFoundError):
            beside.unlink()


def write_whole(path: Path, content: bytes) -> None:
    """Write a file by :func:`replacing`."""
    with replacing(path) as beside:
        beside.write_bytes(content)


def made_folder(path: Path) -> None:
    """Make a folder, with those above it, or raise an InputError."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise InputError(f"cannot make the folder {str(path)!r}: {problem.strerror}") from None


def check_writable(path: Path) -> None:
    """Raise the InputError that :func:`replacing` would raise, and leave nothing."""
    with writing(path):
        if path.is_dir():
            raise InputError(f"cannot write {str(path)!r}: it is a folder")
        if path.exists() and not path.is_file():
            raise InputError(f"cannot write {str(path)!r}: it is a device or a pipe, not an ordinary file, and would "
                             "be replaced")
        _made_beside(Path(os.path.realpath(path))).unlink()


def hidden(name: str) -> str:
    """Return how the hidden name of a file or a folder beside another one begins: with as much of its name as fits."""
    return f".{os.fsencode(name)[:NAMED].decode(errors='ignore')}."


def _made_beside(path: Path) -> Path:
    """Make an empty file beside another one, and return its path."""
    handle, name = tempfile.mkstemp(prefix=hidden(path.name), suffix=".part", dir=path.parent)
    os.close(handle)
    return Path(name)


def keep_name(path: Path) -> None:
    """Wait until the folder on the disk has a file's name, or does not have it any more."""
    _make_durable(Path(path).parent)


def _make_durable(path: Path) -> None:
    """Wait until the file, or the folder's list of names, is on the disk."""
    try:
        handle = os.open(path, os.O_RDONLY)
    except PermissionError:
        return  # Some systems do not open folders.
    try:
        os.fsync(handle)
    except OSError as problem:
        # Some file systems cannot sync folders.
        if not (stat.S_ISDIR(os.fstat(handle).st_mode) and problem.errno in (errno.EINVAL, errno.ENOTSUP)):
            raise
    finally:
        os.close(handle)


def _take_over_permissions(beside: Path, path: Path) -> None:
    """Give the new file the permissions of the old one, or else those of any new file; temporary ones are stricter."""
    if path.exists():
        mode = path.stat().st_mode & 0o777
    else:
        mask = os.umask(0)
        os.umask(mask)
        mode = 0o666 & ~mask
    beside.chmod(mode)
