"""Faults that the tests must find: each is a change of one place of the program, and the tests that must fail with it.

`faults.toml` is the list, `python -m tests.planted_faults` plants them, `tests/test_planted_faults.py` holds that each
can still be planted.
"""

import ast
import tomllib
from collections import Counter
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from pathlib import Path
from types import CodeType

LIST = Path(__file__).with_name("faults.toml")


@dataclass(frozen=True)
class Fault:
    """A change of the package that some test must notice.

    Parameters
    ----------
    name : str
    why : str
        What it would break.
    file : str
        Path of the changed file, below the root of the tree: a module, or a page.
    old, new : str
        A text that stands there once, and what takes its place.
    tests : tuple of str
        Files or node ids for pytest, of which at least one test must fail.
    """

    name: str
    why: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]

    def planted(self, source: str) -> str:
        """Return the source of the file with the fault, or raise a ValueError that says why it cannot be planted."""
        if source.count(self.old) != 1:
            raise ValueError(f"the old text stands {source.count(self.old)} times in {self.file}, not once")
        changed = source.replace(self.old, self.new)
        # A change of a comment alone would survive for ever; one that does not compile would die for nothing.
        if changed == source or (self.file.endswith(".py") and self._does_nothing(source)):
            raise ValueError(f"the new text changes nothing of what {self.file} does")
        return changed

    def _does_nothing(self, source: str) -> bool:
        """Return whether the change leaves what a module does; raise a SyntaxError if it does not compile."""
        start = source.index(self.old)
        end = start + len(self.old)
        # All else stays, and to compile it for each fault would take seconds.
        first, last = next(((first, last) for first, last in _statements(source) if first <= start and end <= last),
                           (0, len(source)))
        changed = source[first:start] + self.new + source[end:last]
        return _does(compiled(changed)) == _once_done(source[first:last])

    def plant(self, root: Path) -> None:
        """Change the file of the tree at ``root``."""
        path = root / self.file
        path.write_text(self.planted(path.read_text(encoding="utf-8")), encoding="utf-8")


def read(path: Path = LIST) -> list[Fault]:
    """Return the list, or raise a ValueError if two faults have the same name."""
    with path.open("rb") as file:
        entries = tomllib.load(file)["fault"]
    twice = [name for name, count in Counter(entry["name"] for entry in entries).items() if count > 1]
    if twice:
        raise ValueError(f"there are several faults of the name(s) {', '.join(twice)}")
    return [Fault(**{**entry, "tests": tuple(entry["tests"])}) for entry in entries]


@cache
def functions_of(path: Path) -> set[str]:
    """Return the names of the functions of a test file, without those that only the nightly run has."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)
            and "pytest.mark.nightly" not in map(ast.unparse, node.decorator_list)}


def compiled(source: str) -> CodeType:
    return compile(source, "", "exec", dont_inherit=True)


def _does(code: CodeType) -> tuple[object, ...]:
    """Return all of a module or function but where its lines are; which is faster to compare than trees of syntax."""
    inner = [_does(each) if isinstance(each, CodeType) else (type(each), repr(each)) for each in code.co_consts]
    return (code.co_code, code.co_exceptiontable, code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars,
            code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags, inner)


@cache
def _statements(source: str) -> list[tuple[int, int]]:
    """Return where each statement of a module begins and ends, with its decorators, in whole lines."""
    starts = [0, *accumulate(map(len, source.splitlines(keepends=True)))]
    return [(starts[min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", ()))]) - 1],
             starts[node.end_lineno or node.lineno]) for node in ast.parse(source).body]


@cache
def _once_done(source: str) -> tuple[object, ...]:
    """Return the same of a source, of which many faults are."""
    return _does(compiled(source))


def missing(fault: Fault, root: Path) -> list[str]:
    """Return those of a fault's tests that are not in the tree; parameters in brackets are not looked at."""
    absent = []
    for test in fault.tests:
        file, _, function = test.partition("::")
        path = root / file
        if not path.is_file() or (function and function.partition("[")[0] not in functions_of(path)):
            absent.append(test)
    return absent
