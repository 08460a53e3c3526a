"""Cells of experiments: one mechanism, one data set, one repetition; computed once, cached, resumable."""

import ast
import csv
import hashlib
import io
import json
import os
import platform
import time
from collections.abc import Hashable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, field
from functools import cache, lru_cache
from importlib.metadata import version
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

import trigmech as tm
from experiments import baselines, datasets
from trigmech._files import write_whole
from trigmech._parallel import THREADS_VARIABLE
from trigmech.workload import Workload

Array = NDArray[np.float64]

HERE = Path(__file__).parent
PACKAGE = Path(tm.__file__).parent
CACHE = HERE / "cache"
RESULTS = HERE / "results"
WIDTHS = (2.0, 4.0, 6.0, 8.0, 10.0)
PAIR_WIDTHS = (0.25, 0.5, 1.0)
WORKLOAD_SEED = 2014
# What is compared with the rest, from when the package has it.
BEST = "MomentMechanism"
# An error relative to an answer near 0 says nothing. W1's answers are all positive, and the thesis has no such floor.
SMALLEST_ANSWER = {"w1": 0.0, "w2": 0.01, "w3": 0.01}

# Folders that only show what is computed elsewhere, or ask for it.
SHOWING = ("cli", "report")
# What exact answers are computed by, and baselines besides: a change elsewhere in the package leaves them as they are.
ANSWERING = ("workload",)
RELEASING_BASELINES = ("workload", "privacy.accounting")


class Job(Protocol):
    """Something to compute once. Its fields are all that its result depends on, besides the code."""

    def key(self) -> str:
        """Return the name of the job's cache file, another one for other fields or other code."""

    @property
    def shares(self) -> Hashable:
        """What jobs compute together if they are equal in this: one of each kind is run first."""

    def compute(self) -> dict[str, Any]:
        """Return the result, as JSON can hold it."""


J = TypeVar("J", bound=Job)


def key_of(job: Any, prefix: str, fingerprint: str) -> str:
    """Return the cache file's name for a dataclass of plain values and a hash of the code."""
    text = json.dumps([asdict(job), fingerprint], sort_keys=True)
    return f"{prefix}-{hashlib.sha256(text.encode()).hexdigest()[:24]}"


@dataclass(frozen=True)
class Cell:
    """One run. Its fields are all that its result depends on, besides the code.

    Parameters
    ----------
    dataset : str
    mechanism : str
        The name of a mechanism of trigmech, or a key of `baselines.BASELINES`.
    options : tuple of (str, value)
        Of the mechanism or the baseline.
    epsilon, delta : float
    repetition : int
        Also the seed of the run, with the data set's name: methods that are compared share their random numbers.
    n_queries : int
        Of the workload W1.
    percent : int
        How much of the data set is used: the first rows in a fixed random order. Errors are against these rows.
    """

    dataset: str
    mechanism: str
    options: tuple[tuple[str, Any], ...] = field(default=())
    epsilon: float = 1.0
    delta: float = 0.0
    repetition: int = 0
    n_queries: int = 10_000
    percent: int = 100

    def key(self) -> str:
        """Return the name of the cell's cache file."""
        fingerprint = code_fingerprint(RELEASING_BASELINES if self.mechanism in baselines.BASELINES else None)
        return key_of(self, self.dataset, fingerprint)

    @property
    def shares(self) -> Hashable:
        """Cells with the same exact answers."""
        return (self.dataset, self.percent, self.n_queries)

    def compute(self) -> dict[str, Any]:
        """Return the errors of one run.

        Returns
        -------
        dict
            "seconds", from the table in memory to the distribution; "rows" of that table; "atoms", the distribution's
            points; "distinct", those that differ and have weight; "largest", the largest weight times the number of
            points; "table", the distinct rows of a table of as many rows as came in, drawn from the distribution (all
            four 0 for a continuous one); "proved_epsilon"; and for each of "w1", "w2", "w3" the "absolute" and
            "relative" worst error and the "typical" one, the median over queries of the absolute error: a list with
            one number for each width.
        """
        X = _cube(self.dataset, self.percent)
        truth = _truth(self.dataset, self.percent, self.n_queries)
        rng = np.random.default_rng([self.repetition, *self.dataset.encode()])
        budget = tm.Budget(self.epsilon, self.delta)
        distribution: baselines.Product | tm.Distribution
        if self.mechanism in baselines.BASELINES:
            started = time.perf_counter()
            distribution, ledger = baselines.BASELINES[self.mechanism](X, budget, rng, **dict(self.options))
        else:
            mechanism = getattr(tm, self.mechanism)(**dict(self.options))
            started = time.perf_counter()
            synthesis = tm.synthesize(X, tm.Schema.cube(X.shape[1]), budget, mechanism, rng)
            distribution, ledger = synthesis.distribution, synthesis.ledger
        result: dict[str, Any] = {"seconds": time.perf_counter() - started, "proved_epsilon": ledger.proved_epsilon,
                                  "rows": len(X), "atoms": 0, "distinct": 0, "largest": 0.0, "table": 0}
        if isinstance(distribution, tm.Distribution):
            result["atoms"] = len(distribution.points)
            result["distinct"] = len(np.unique(distribution.points[distribution.weights > 0], axis=0))
            result["largest"] = float(distribution.weights.max()) * len(distribution.points)
            table = distribution.sample(len(X), np.random.default_rng(self.repetition))
            result["table"] = len(np.unique(table, axis=0))
        for which, workload in _workloads(X.shape[1], self.n_queries).items():
            errors = np.abs(baselines.answers(workload, distribution) - truth[which])
            relative = errors / np.maximum(np.abs(truth[which]), SMALLEST_ANSWER[which])
            result[which] = {"absolute": errors.max(axis=0).tolist(), "relative": relative.max(axis=0).tolist(),
                             "typical": np.median(errors, axis=0).tolist()}
        return result


@cache
def code_fingerprint(modules: tuple[str, ...] | None = None, others: tuple[str, ...] = ()) -> str:
    """Return a hash of the source files that a result can depend on: these modules and what they import, or all.

    `others` are modules of the experiments besides the data and the cells themselves.
    """
    names = reached(modules) if modules else {module_name(path) for path in PACKAGE.rglob("*.py")
                                              if path.relative_to(PACKAGE).parts[0] not in SHOWING}
    digest = hashlib.sha256()
    for source in [*(source_of(name) for name in sorted(names)),
                   *(HERE / f"{name}.py" for name in ("baselines", "cells", "datasets", *others))]:
        digest.update(source.read_bytes())
    return digest.hexdigest()


def module_name(path: Path) -> str:
    """Return the dotted name of a module of the package, below the package: "" of its own ``__init__``."""
    return ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix("__init__").rstrip(".")


def source_of(name: str) -> Path:
    """Return the file of a module of the package, or of a folder's ``__init__``."""
    path = PACKAGE.joinpath(*name.split(".")) if name else PACKAGE
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def reached(modules: tuple[str, ...]) -> set[str]:
    """Return the names of the package's modules that these import, directly or not, and of these themselves."""
    found, waiting = set(modules), list(modules)
    while waiting:
        for node in ast.walk(ast.parse(source_of(waiting.pop()).read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "trigmech":
                inside = str(node.module).removeprefix("trigmech").lstrip(".")
                # What is imported from a folder may be a module of it; of the package itself nothing else is imported.
                below = {f"{inside}.{alias.name}".lstrip(".") for alias in node.names}
                new = ({name for name in below if source_of(name).exists()} | ({inside} - {""})) - found
                found |= new
                waiting += new
    return found


def save(path: Path, text: str) -> None:
    """Write a file whole or not at all, and make its folder if it is not there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, text.encode())


def publish(path: Path, text: str) -> None:
    """Save a result, and, unless it is of a part only, note in versions.json beside it what it was made with."""
    save(path, text)
    if path.stem.endswith(("_quick", "_partial")):
        return
    listed = path.with_name("versions.json")
    noted = json.loads(listed.read_text(encoding="utf-8")) if listed.exists() else {}
    noted[path.name] = versions()
    save(listed, json.dumps(dict(sorted(noted.items())), indent=1) + "\n")


def write_csv(name: str, rows: list[dict[str, Any]]) -> Path:
    """Publish lines of one form as results/<name>.csv."""
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    path = RESULTS / f"{name}.csv"
    publish(path, text.getvalue())
    return path


def write_markdown(name: str, lines: list[str]) -> Path:
    """Publish a page as results/<name>.md."""
    path = RESULTS / f"{name}.md"
    publish(path, "\n".join(lines) + "\n")
    return path


@cache
def versions() -> dict[str, str]:
    """Return the versions of what results depend on, and a hash of the package's source."""
    return {"trigmech": tm.__version__, "source": code_fingerprint()[:12], "python": platform.python_version(),
            **{name: version(name) for name in ("numpy", "scipy", "numba", "highspy", "opendp", "dp-accounting")}}


@lru_cache(maxsize=2)
def _whole(name: str) -> Array:
    return datasets.load(name).cube()


@lru_cache(maxsize=4)
def _cube(name: str, percent: int) -> Array:
    """Return the first rows, in a random order that is the same for every percentage; scaled as the whole table is."""
    X = _whole(name)
    if percent == 100:
        return X
    order = np.random.default_rng([WORKLOAD_SEED, *name.encode()]).permutation(len(X))
    return np.ascontiguousarray(X[order[: max(2, len(X) * percent // 100)]])


@lru_cache(maxsize=4)
def _workloads(d: int, n_queries: int, n_pairs: int = 1_000) -> dict[str, Workload]:
    """Return W1, W2 and W3, the same queries in every repetition."""
    return {"w1": tm.workload.GaussianKernels(d, seed=WORKLOAD_SEED, n_queries=n_queries, widths=WIDTHS),
            "w2": tm.workload.PairKernels(d, seed=WORKLOAD_SEED, n_queries=n_pairs, widths=PAIR_WIDTHS),
            "w3": tm.workload.SecondMoments(d)}


@lru_cache(maxsize=4)
def _truth(name: str, percent: int, n_queries: int, n_pairs: int = 1_000) -> dict[str, Array]:
    """Return the exact answers to the workloads (cached on disk)."""
    path = CACHE / f"truth-{name}-{percent}-{n_queries}-{n_pairs}-{code_fingerprint(ANSWERING)[:24]}.npz"
    if not path.exists():
        X = _cube(name, percent)
        path.parent.mkdir(parents=True, exist_ok=True)
        beside = path.with_suffix(f".{os.getpid()}.npz")
        workloads = _workloads(X.shape[1], n_queries, n_pairs)
        np.savez(beside, w1=workloads["w1"].answers(X), w2=workloads["w2"].answers(X), w3=workloads["w3"].answers(X))
        beside.replace(path)
    with np.load(path) as stored:
        return {which: stored[which] for which in stored.files}


def run_cell(job: Job) -> dict[str, Any]:
    """Return what a job computes, such as :meth:`Cell.compute`, from the cache if it is there."""
    path = CACHE / f"{job.key()}.json"
    if path.exists():
        cached: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return cached
    result = job.compute()
    save(path, json.dumps(result))
    return result


def _warm_up(threads: int) -> None:
    """Compile or load the kernels before anything is timed."""
    os.environ[THREADS_VARIABLE] = str(threads)
    X = np.random.default_rng(1).uniform(-1.0, 1.0, (50, 2))
    budgets = (tm.Budget(1.0), tm.Budget(1.0, 1e-3))
    own = [getattr(tm, BEST)()] if hasattr(tm, BEST) else []
    for mechanism in [*own, tm.ImprovedTrigI(n_candidates=200)]:
        for budget in budgets:
            tm.synthesize(X, tm.Schema.cube(2), budget, mechanism, np.random.default_rng(1))
    for baseline in baselines.BASELINES.values():
        for budget in budgets:
            baseline(X, budget, np.random.default_rng(1))


def run_cells(cells: Iterable[J], jobs: int, title: str) -> Iterator[tuple[J, dict[str, Any]]]:
    """Yield each cell with its result, as they are done, and show the progress.

    Parameters
    ----------
    cells : iterable of Job
        Such as `Cell`.
    jobs : int
        Processes. Times of several jobs at once are longer than of one.
    title : str
    """
    todo = list(cells)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
               TimeRemainingColumn())
    with Progress(*columns) as progress:
        task = progress.add_task(title, total=len(todo))
        waiting = []
        for cell in todo:
            path = CACHE / f"{cell.key()}.json"
            if path.exists():
                yield cell, json.loads(path.read_text(encoding="utf-8"))
                progress.advance(task)
            else:
                waiting.append(cell)
        if not waiting:
            return
        cores = os.cpu_count() or 1
        # Fresh processes: a fork would copy threads in the middle of their work.
        with ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=_warm_up,
                                 initargs=(max(1, cores // jobs),)) as pool:
            # One cell of each table first, so that exact answers are computed once and not by every process.
            first = {cell.shares: cell for cell in reversed(waiting)}
            leaders = set(first.values())
            for group in (list(leaders), [cell for cell in waiting if cell not in leaders]):
                running = {pool.submit(run_cell, cell): cell for cell in group}
                for future in as_completed(running):
                    yield running[future], future.result()
                    progress.advance(task)


def available(names: Iterable[str]) -> list[str]:
    """Return the data sets that can be had, and say of each other one what to do."""
    found = []
    for name in names:
        try:
            datasets.load(name)
        except datasets.DatasetMissing as missing:
            print(f"left out: {missing}")
        else:
            found.append(name)
    return found
