"""Calls of experiments: computed once, cached by their arguments and the code that they reach, resumable."""

import ast
import hashlib
import inspect
import json
import os
import platform
import tomllib
from collections.abc import Callable, Container, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

import trigmech as tm
from trigmech._files import write_whole
from trigmech._parallel import THREADS_VARIABLE

HERE = Path(__file__).parent
ROOT = HERE.parent
CACHE = HERE / "cache"
RESULTS = HERE / "results"
# Modules that only show, mark or ask for the results that others compute.
SHOWING = ("trigmech.cli", "trigmech.report", "trigmech.__main__", "experiments.fingerprints")
# The fields of a statement that hold statements.
BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")


@dataclass(frozen=True)
class Call:
    """A function of plain values, to be computed once: it depends on its arguments and its module's imports alone.

    `key` is the name of its cache file; it is another one if the arguments, or the code that the call reaches, differ.
    """

    function: Callable[..., dict[str, Any]]
    arguments: tuple[tuple[str, Any], ...]

    def key(self) -> str:
        module, name = self.function.__module__, self.function.__qualname__
        return name_of(f"{module.removeprefix('experiments.')}-{name}", [name, self.arguments, code_of(module)])

    def compute(self) -> dict[str, Any]:
        return self.function(**dict(self.arguments))


def call(function: Callable[..., dict[str, Any]], *values: Any, **named: Any) -> Call:
    """Return the call of a function, with its defaults; values are such that JSON can hold them, and hashable."""
    bound = inspect.signature(function).bind(*values, **named)
    bound.apply_defaults()
    return Call(function, tuple(bound.arguments.items()))


def name_of(prefix: str, content: Any) -> str:
    return f"{prefix}-{hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:24]}"


@cache
def code_of(module: str) -> str:
    """Return a hash of the project's source files that a module imports, directly or not, and of its own; of an
    experiment also of the descriptions of data, which it reads."""
    digest = hashlib.sha256()
    for folder in ("expected", "protocols/sets") if module.startswith("experiments") else ():
        for path in sorted((ROOT / "experiments" / folder).glob("*.toml")):
            digest.update(path.read_bytes())
    for name in sorted(reached(module)):
        digest.update(source_of(name).read_bytes())
    return digest.hexdigest()


def described(name: str) -> dict[str, Any]:
    """Return the content of the file expected/NAME.toml."""
    return tomllib.loads((HERE / "expected" / f"{name}.toml").read_text(encoding="utf-8"))


def source_of(name: str) -> Path:
    path = ROOT.joinpath(*name.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def _imports(node: Any) -> Iterator[ast.Import | ast.ImportFrom]:
    if isinstance(node, ast.Import | ast.ImportFrom):
        yield node
    # Imports stand in no expression: the other nodes, most of all, are not looked at.
    for each in (each for field in BLOCKS for each in getattr(node, field, ())):
        yield from _imports(each)


def reached(module: str) -> set[str]:
    """Return a module and the project's modules that it imports, directly or not, but for `SHOWING`."""
    found, waiting = {module}, [module]
    while waiting:
        new = _imported(source_of(waiting.pop()).read_text(encoding="utf-8"), ROOT) - found
        # The import of a module runs its folder's own file first.
        new |= {folder for folder in (name.rpartition(".")[0] for name in new) if "." in folder} - found
        if "experiments.protocols.data" in new:
            # It reads these by the folder.
            new |= {f"experiments.protocols.sets.{path.stem}" for path in source_of(
                "experiments.protocols.sets").parent.glob("*.py")} - found
        found |= new
        waiting += new
    return found


@cache
def _imported(source: str, root: Path) -> frozenset[str]:
    """Return the project's modules below ``root`` that a source itself imports, but for `SHOWING`."""
    found = set[str]()
    for node in _imports(ast.parse(source)):
        names = {alias.name for alias in node.names} if isinstance(node, ast.Import) else {
            # A name that is imported from a folder may be a module of it.
            name if source_of(name).exists() else str(node.module)
            for name in (f"{node.module}.{alias.name}" for alias in node.names)}
        found |= {name for name in names if name.startswith(("trigmech", "experiments"))
                  and not name.startswith(SHOWING) and source_of(name).exists()}
    return frozenset(found)


def save(path: Path, text: str) -> None:
    """Write a file whole or not at all, and make its folder if it is not there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, text.encode())


def publish(path: Path, text: str, run: Container[str] | None = None) -> Path:
    """Save a result; unless it is of a part only, note the code that made it in versions.json beside it.

    `run` has the mechanisms of `fingerprints.OWN` that were run for it; default: all of them.
    """
    from experiments import fingerprints

    save(path, text)
    if path.stem.endswith(("_quick", "_partial")):
        return path
    listed = path.with_name("versions.json")
    noted = json.loads(listed.read_text(encoding="utf-8")) if listed.exists() else {}
    noted[path.name] = versions() | fingerprints.of_code(path, fingerprints.OWN if run is None else run)
    save(listed, json.dumps(dict(sorted(noted.items())), indent=1) + "\n")
    return path


def write_csv(name: str, lines: pd.DataFrame, run: Container[str] | None = None) -> Path:
    """Publish lines as results/<name>.csv."""
    return publish(RESULTS / f"{name}.csv", lines.to_csv(index=False, lineterminator="\n"), run)


def write_markdown(name: str, lines: Iterable[str], run: Container[str] | None = None) -> Path:
    """Publish a page as results/<name>.md."""
    return publish(RESULTS / f"{name}.md", "\n".join(lines) + "\n", run)


@cache
def versions() -> dict[str, Any]:
    return {"trigmech": tm.__version__, "python": platform.python_version(),
            **{name: version(name) for name in ("numpy", "scipy", "numba", "highspy", "opendp", "dp-accounting")}}


def run_cell(job: Any) -> dict[str, Any]:
    """Return the result of a call, or of another job with a key: from the cache if it is there."""
    path = CACHE / f"{job.key()}.json"
    result: dict[str, Any]
    if path.exists():
        result = json.loads(path.read_text(encoding="utf-8"))
    else:
        result = job.compute()
        save(path, json.dumps(result))
    return result


def _warm_up(threads: int) -> None:
    """Compile or load the kernels before anything is timed."""
    os.environ[THREADS_VARIABLE] = str(threads)
    X = np.random.default_rng(1).uniform(-1.0, 1.0, (50, 2))
    for mechanism in (tm.MomentMechanism(), tm.ImprovedTrigI(n_candidates=200)):
        for budget in (tm.Budget(1.0), tm.Budget(1.0, 1e-3)):
            tm.synthesize(X, tm.Schema.cube(2), budget, mechanism, np.random.default_rng(1))


def run_cells(cells: Iterable[Any], jobs: int, title: str) -> Iterator[tuple[Any, dict[str, Any]]]:
    """Yield each call with its result, as they are done, and show the progress."""
    todo = list(cells)
    with Progress(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
                  TimeRemainingColumn()) as progress:
        waiting = {cell for cell in todo if not (CACHE / f"{cell.key()}.json").exists()}
        task = progress.add_task(title, total=len(todo))
        for cell in todo:
            if cell not in waiting:
                yield cell, run_cell(cell)
                progress.advance(task)
        if not waiting:
            return
        # Fresh processes: a fork would copy threads in the middle of their work.
        with ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=_warm_up,
                                 initargs=(max(1, (os.cpu_count() or 1) // jobs),)) as pool:
            running = {pool.submit(run_cell, cell): cell for cell in todo if cell in waiting}
            for future in as_completed(running):
                yield running[future], future.result()
                progress.advance(task)
