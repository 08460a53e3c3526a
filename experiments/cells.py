"""Cells of experiments: one mechanism, one data set, one repetition; computed once, cached, resumable."""

import hashlib
import json
import os
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, field
from functools import cache, lru_cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

import trigmech as tm
from experiments import datasets
from trigmech.chunks import THREADS_VARIABLE

HERE = Path(__file__).parent
CACHE = HERE / "cache"
RESULTS = HERE / "results"
WIDTHS = (2.0, 4.0, 6.0, 8.0, 10.0)
WORKLOAD_SEED = 2014

MECHANISMS = {"ImprovedTrigI": tm.ImprovedTrigI, "ImprovedTrigII": tm.ImprovedTrigII}


@dataclass(frozen=True)
class Cell:
    """One run. Its fields are all that its result depends on, besides the code.

    Parameters
    ----------
    dataset : str
    mechanism : str
        A key of `MECHANISMS`, or "uniform": the uniform distribution on the cube, which ignores the data.
    options : tuple of (str, value)
        Of the mechanism.
    epsilon, delta : float
    repetition : int
        Also the seed of the run, with the data set's name: methods that are compared share their random numbers.
    n_queries : int
        Of the workload W1.
    """

    dataset: str
    mechanism: str
    options: tuple[tuple[str, Any], ...] = field(default=())
    epsilon: float = 1.0
    delta: float = 0.0
    repetition: int = 0
    n_queries: int = 10_000

    def key(self) -> str:
        """Return the name of the cell's cache file."""
        text = json.dumps([asdict(self), code_fingerprint()], sort_keys=True)
        return f"{self.dataset}-{hashlib.sha256(text.encode()).hexdigest()[:24]}"


@cache
def code_fingerprint() -> str:
    """Return a hash of all source files that a cell's result can depend on."""
    sources = sorted([*Path(tm.__file__).parent.glob("*.py"), HERE / "cells.py", HERE / "datasets.py"])
    digest = hashlib.sha256()
    for source in sources:
        # The command line and the demo only call what is hashed anyway.
        if source.name not in ("cli.py", "demo.py"):
            digest.update(source.read_bytes())
    return digest.hexdigest()


def save(path: Path, text: str) -> None:
    """Write a file beside its place and rename it, so that it is never half there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    beside.write_text(text, encoding="utf-8")
    beside.replace(path)


@lru_cache(maxsize=2)
def _cube(name: str) -> NDArray[np.float64]:
    return datasets.load(name).cube()


@lru_cache(maxsize=2)
def _truth(name: str, n_queries: int) -> tuple[tm.workload.GaussianKernels, NDArray[np.float64]]:
    """Return W1 for the data set, the same queries in every repetition, and the exact answers (cached on disk)."""
    X = _cube(name)
    workload = tm.workload.GaussianKernels(X.shape[1], seed=WORKLOAD_SEED, n_queries=n_queries, widths=WIDTHS)
    path = CACHE / f"truth-{name}-{n_queries}-{code_fingerprint()[:24]}.npy"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        beside = path.with_suffix(f".{os.getpid()}.npy")
        np.save(beside, workload.answers(X))
        beside.replace(path)
    return workload, np.load(path)


def run_cell(cell: Cell) -> dict[str, Any]:
    """Return the worst errors of one run, from the cache if it is there."""
    path = CACHE / f"{cell.key()}.json"
    if path.exists():
        cached: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return cached
    X = _cube(cell.dataset)
    workload, truth = _truth(cell.dataset, cell.n_queries)
    if cell.mechanism == "uniform":
        result: dict[str, Any] = {"seconds": 0.0, "atoms": 0}
        errors = np.abs(workload.uniform_answers() - truth)
    else:
        rng = np.random.default_rng([cell.repetition, *cell.dataset.encode()])
        mechanism = MECHANISMS[cell.mechanism](**dict(cell.options))
        started = time.perf_counter()
        synthesis = tm.synthesize(X, tm.Schema.cube(X.shape[1]), tm.Budget(cell.epsilon, cell.delta), mechanism, rng)
        result = {"seconds": time.perf_counter() - started, "atoms": len(synthesis.distribution.points),
                  "proved_epsilon": synthesis.ledger.guarantee.epsilon, "objective": synthesis.fit.objective,
                  "gap": synthesis.fit.gap}
        answers = workload.answers(synthesis.distribution.points, synthesis.distribution.weights)
        errors = np.abs(answers - truth)
    result["absolute"] = errors.max(axis=0).tolist()
    result["relative"] = (errors / truth).max(axis=0).tolist()
    save(path, json.dumps(result))
    return result


def _warm_up(threads: int) -> None:
    """Compile or load the kernels before anything is timed."""
    os.environ[THREADS_VARIABLE] = str(threads)
    X = np.random.default_rng(1).uniform(-1.0, 1.0, (50, 2))
    tm.synthesize(X, tm.Schema.cube(2), tm.Budget(1.0, 1e-3), mechanism=tm.ImprovedTrigII(n_candidates=200),
                  rng=np.random.default_rng(1))


def run_cells(cells: Iterable[Cell], jobs: int, title: str) -> Iterator[tuple[Cell, dict[str, Any]]]:
    """Yield each cell with its result, as they are done, and show the progress.

    Parameters
    ----------
    cells : iterable of Cell
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
            # One cell of each data set first, so that exact answers are computed once and not by every process.
            first = {cell.dataset: cell for cell in reversed(waiting)}
            for group in (list(first.values()), [cell for cell in waiting if cell not in first.values()]):
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
