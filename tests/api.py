"""The public names of the package with their signatures, as tests/data/api.txt has them.

`python -m tests.api` writes that file: a line for each name and for each public member of a public class, with the
version that it has had this form since. The newest section of CHANGELOG.md must name what its version changes.
"""

import enum
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import trigmech as tm

TOP = Path(__file__).parent.parent
FILE = TOP / "tests" / "data" / "api.txt"
CHANGELOG = TOP / "CHANGELOG.md"
HEAD = "# Public names, and the version since which each has this form. Written by `python -m tests.api`.\n"
REMOVED = " (removed)"
SECTION = re.compile(r"^## (\d+\.\d+\.\d+)(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"`([^`]+)`")


class Plain(str):
    """A text that is shown as it is, in place of a default value whose own form names an address in memory."""

    __repr__ = str.__str__


def signature(function: Any) -> str:
    """Parameters with their defaults; annotations belong to the type checker."""
    found = inspect.signature(function)
    bare = [each.replace(annotation=each.empty, default=each.default if each.default is each.empty else Plain(
        re.sub(r" at 0x[0-9a-f]+", "", repr(each.default)))) for each in found.parameters.values()]
    return str(found.replace(parameters=bare, return_annotation=found.empty))


def members(owner: type) -> Iterator[tuple[str, str]]:
    """The public members that a class of this package has, or inherits from one, and how each is used."""
    names = {name for base in owner.__mro__ if base.__module__.startswith("trigmech")
             for name in (*vars(base), *getattr(base, "__annotations__", ())) if not name.startswith("_")}
    for name in sorted(names):
        value = inspect.getattr_static(owner, name, None)
        if isinstance(value, (staticmethod, classmethod)) or inspect.isfunction(value):
            yield name, signature(getattr(owner, name) if isinstance(value, (staticmethod, classmethod)) else value)
        else:
            yield name, ""


def described(path: str, value: Any) -> Iterator[str]:
    """The lines of a name: its own, and those of its members if it is a class or a module."""
    if inspect.ismodule(value):
        yield path
        for name in sorted(value.__all__):
            yield from described(f"{path}.{name}", getattr(value, name))
    elif inspect.isclass(value):
        plain = issubclass(value, (BaseException, enum.Enum))
        yield path + (f"({value.__bases__[0].__name__})" if plain else signature(value))
        yield from (f"{path}.{name}{how}" for name, how in members(value))
    else:
        yield path + (signature(value) if callable(value) else "")


def found() -> list[str]:
    """The lines of the package as it is."""
    return [line for name in sorted(tm.__all__) for line in described(name, getattr(tm, name))]


def read(text: str) -> dict[str, str]:
    """The versions of the lines of a snapshot."""
    return {line.partition(" ")[2]: line.partition(" ")[0] for line in text.splitlines() if line[:1] not in ("#", "")}


def name_of(line: str) -> str:
    """The dotted name that a line is about."""
    return re.split(r"[( ]", line, maxsplit=1)[0]


def updated(old: dict[str, str], lines: list[str], version: str) -> str:
    """The text of a snapshot: lines that were there keep their version, and those that are gone are noted."""
    gone = sorted({name_of(line) for line in old} - {name_of(line) for line in lines})
    noted = {f"{name}{REMOVED}": old.get(f"{name}{REMOVED}", version) for name in gone}
    rows = {**{line: old.get(line, version) for line in lines}, **noted}
    return HEAD + "".join(f"{since} {line}\n" for line, since in sorted(rows.items(), key=lambda row: row[0]))


def newest(changelog: str) -> tuple[str, str]:
    """The version and the text of a changelog's first section."""
    section = SECTION.search(changelog)
    if section is None:
        raise LookupError("the changelog has no section with a version")
    return section[1], section[2]


def unnamed(snapshot: dict[str, str], changelog: str) -> list[str]:
    """The lines of the newest version whose names no code of the changelog's newest section has.

    A class that is new as a whole is named once, without its members.
    """
    version, text = newest(changelog)
    words = {word for span in SPAN.findall(text) for word in re.findall(r"\w+", span)}
    older = {name_of(line).rpartition(".")[0] for line, since in snapshot.items() if since != version}
    changed = [name_of(line) for line, since in snapshot.items() if since == version]
    return [name for name in changed if name.rpartition(".")[2] not in words
            and not (name.rpartition(".")[0] in changed and name.rpartition(".")[0] not in older)]


def main() -> int:
    """Write the snapshot, and say which changed names the changelog does not have yet."""
    changelog = CHANGELOG.read_text(encoding="utf-8")
    old = read(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}
    text = updated(old, found(), newest(changelog)[0])
    FILE.write_text(text, encoding="utf-8")
    missing = unnamed(read(text), changelog)
    for line in missing:
        print(f"CHANGELOG.md, {newest(changelog)[0]}, does not name: {line}")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
