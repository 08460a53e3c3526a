"""`python -m tests.planted_faults [NAMES] [--jobs 2]`: plant each fault in a copy of the tree and run its tests."""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated

import typer

from tests.planted_faults import LIST, Fault, read

ROOT = Path(__file__).parents[2]
NOT_COPIED = shutil.ignore_patterns(".git", ".venv", "venv", ".hypothesis", ".*_cache", "site", "build", "dist",
                                    "*.egg-info", "cache")
MOST_SECONDS = 600.0
# Tests that end so have not looked at what the fault does.
SLOPPY = re.compile(r"- (NameError|ImportError|ModuleNotFoundError|SyntaxError|UnboundLocalError)")
DIED, SURVIVED = "died", "SURVIVED"
# What ends a process that reads or writes beyond its arrays, at the test or when memory is given back at its end.
CRASHES = {signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL}


@dataclass(frozen=True)
class Outcome:
    """What the tests said of a fault."""

    fault: Fault
    verdict: str
    detail: str
    seconds: float


def run_tests(tree: Path, tests: Iterable[str], processes: int = 0) -> subprocess.CompletedProcess[str]:
    """Run tests of a tree with the package of that tree, up to the first failure."""
    command = [sys.executable, "-m", "pytest", "-x", "-n", str(processes), "-q", "--tb=no", "-p", "no:cacheprovider"]
    # Wide, for pytest cuts the line with the reason.
    environment = {**os.environ, "PYTHONPATH": str(tree), "COLUMNS": "300"}
    return subprocess.run([*command, *tests], cwd=tree, env=environment, capture_output=True, text=True, check=False,
                          timeout=None if processes else MOST_SECONDS)


def failures(output: str) -> list[str]:
    """Return the lines of pytest's summary that name what failed."""
    return [line for line in output.splitlines() if line.startswith(("FAILED", "ERROR"))]


def attempt(fault: Fault, clean: Path) -> Outcome:
    """Plant a fault in a copy of a tree that passes, and run its tests."""
    started = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="planted-fault-") as folder:
        # With what is compiled already, which goes by the times of the files.
        tree = shutil.copytree(clean, Path(folder) / "tree")
        try:
            fault.plant(tree)
            forget_compiled(tree, fault.file)
            done = run_tests(tree, fault.tests)
            verdict, detail = judged(done)
        except (OSError, SyntaxError, ValueError) as problem:
            verdict, detail = "did not apply", str(problem)
        except subprocess.TimeoutExpired:
            verdict, detail = "did not end", f"after {MOST_SECONDS:g} seconds"
    return Outcome(fault, verdict, detail, time.perf_counter() - started)


def forget_compiled(tree: Path, file: str) -> None:
    """Remove what is compiled of the modules that use a file's functions: it holds these, and goes by its own time."""
    sources = {path: path.read_text(encoding="utf-8") for path in (tree / "trigmech").rglob("*.py")}
    reached, later = {tree / file}, [tree / file]
    while later:
        module = ".".join(later.pop().relative_to(tree).with_suffix("").parts)
        using = {path for path, text in sources.items() if re.search(rf"^from {re.escape(module)} import ", text, re.M)}
        compiled = {each: list((each.parent / "__pycache__").glob(f"{each.stem}.*.nb[ic]")) for each in using - reached}
        reached |= using
        # Functions that are not compiled hold no others.
        later += [each for each, held in compiled.items() if held]
        for held in compiled.values():
            for path in held:
                path.unlink()


def judged(done: subprocess.CompletedProcess[str]) -> tuple[str, str]:
    """Return a verdict, and what explains it: a failed test or a crash is a death, but not tests that did not run."""
    if -done.returncode in CRASHES:
        return DIED, f"the tests' process was ended by {signal.Signals(-done.returncode).name}"
    found = failures(done.stdout)
    reason = found[0] if found else ""
    if done.returncode == 0:
        return SURVIVED, "all its tests passed"
    if done.returncode == 1 and reason.startswith("FAILED") and not SLOPPY.search(reason):
        return DIED, reason.removeprefix("FAILED ")[:200]
    return "could not be tested", reason or (done.stdout + done.stderr)[-500:]


def chosen(faults: list[Fault], patterns: list[str]) -> list[Fault]:
    """Return the faults whose names fit one of the patterns, or all without any."""
    unknown = [pattern for pattern in patterns if not any(fnmatchcase(fault.name, pattern) for fault in faults)]
    if unknown:
        raise typer.BadParameter(f"no fault is called {', '.join(map(repr, unknown))}; --list has the names")
    return [fault for fault in faults if not patterns or any(fnmatchcase(fault.name, each) for each in patterns)]


def main(names: Annotated[list[str] | None, typer.Argument(help="Names, or patterns with *; default: all.")] = None,
         jobs: Annotated[int, typer.Option(min=1, help="Faults at a time.")] = 1,
         only_list: Annotated[bool, typer.Option("--list", help="Print the names and what they break.")] = False,
         root: Annotated[Path, typer.Option(help="The tree.", show_default=False)] = ROOT,
         file: Annotated[Path, typer.Option(help="The list of faults.", show_default=False)] = LIST) -> None:
    """Plant each fault in a copy of the tree and run its tests; the status is 0 if every fault made one fail."""
    faults = chosen(read(file), names or [])
    if only_list:
        for fault in faults:
            print(f"{fault.name}\n    {fault.why}")
        return
    with tempfile.TemporaryDirectory(prefix="planted-faults-") as folder:
        clean = shutil.copytree(root, Path(folder) / "tree", ignore=NOT_COPIED)
        say(f"{len(faults)} faults; first their tests without any")
        wanted = dict.fromkeys(test for fault in faults for test in fault.tests)
        done = run_tests(clean, wanted, processes=jobs if jobs > 1 else 0)
        if done.returncode != 0:
            say("\n".join(failures(done.stdout)) or done.stdout + done.stderr)
            raise typer.Exit(1)
        with ThreadPoolExecutor(jobs) as pool:
            outcomes = []
            for future in as_completed([pool.submit(attempt, fault, clean) for fault in faults]):
                outcomes.append(outcome := future.result())
                say(f"{outcome.verdict:<9} {outcome.fault.name} ({outcome.seconds:.0f} s): {outcome.detail}")
    alive = [outcome.fault.name for outcome in outcomes if outcome.verdict != DIED]
    say(f"{len(outcomes) - len(alive)} of {len(outcomes)} died" + "".join(f"\nnot: {name}" for name in alive))
    raise typer.Exit(1 if alive else 0)


def say(line: str) -> None:
    """Print at once, for who looks on."""
    print(line, flush=True)


if __name__ == "__main__":
    typer.run(main)
