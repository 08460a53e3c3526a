"""A release of a table of numbers, and its errors on the three families of smooth queries W1, W2 and W3."""

import os
import time
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np

import trigmech as tm
from experiments import Array, baselines, datasets
from experiments.cells import CACHE, Call, call, code_of
from trigmech.workload import Workload

WIDTHS, PAIR_WIDTHS = (2.0, 4.0, 6.0, 8.0, 10.0), (0.25, 0.5, 1.0)
WORKLOAD_SEED = 2014
# The package's mechanism for these queries.
BEST = "MomentMechanism"
# An error relative to an answer near 0 says nothing. W1's answers are all positive, and the thesis has no such floor.
SMALLEST_ANSWER = {"w1": 0.0, "w2": 0.01, "w3": 0.01}


def release(dataset: str, mechanism: str, options: Mapping[str, Any] | None = None, **named: Any) -> Call:
    """Return the call of :func:`release_errors` with options as a dict."""
    return call(release_errors, dataset, mechanism, tuple(sorted((options or {}).items())), **named)


def release_errors(dataset: str, mechanism: str, options: tuple[tuple[str, Any], ...] = (), epsilon: float = 1.0,
                   delta: float = 0.0, repetition: int = 0, n_queries: int = 10_000,
                   percent: int = 100) -> dict[str, Any]:
    """Return the errors of one release by a mechanism of trigmech, or one of `baselines.BASELINES`, with such options.

    The repetition is also the seed of the run, with the data set's name: methods that are compared share their random
    numbers. `n_queries` are of W1; `percent` is how much of the data set is used, its first rows in a fixed random
    order, against which errors are.

    Returns "seconds", from the table in memory to the distribution; "rows" of that table; "atoms", the distribution's
    points; "distinct", those that differ and have weight; "largest", the largest weight times the number of points;
    "table", the distinct rows of a table of as many rows as came in, drawn from the distribution (all four 0 for a
    continuous one); "proved_epsilon"; and for each of "w1", "w2", "w3" the "absolute" and "relative" worst error and
    the "typical" one, the median over queries of the absolute error: a list with one number for each width.
    """
    X = cube(dataset, percent)
    rng = np.random.default_rng([repetition, *dataset.encode()])
    budget = tm.Budget(epsilon, delta)
    distribution: baselines.Product | tm.Distribution
    started = time.perf_counter()
    if mechanism in baselines.BASELINES:
        distribution, ledger = baselines.BASELINES[mechanism](X, budget, rng, **dict(options))
    else:
        synthesis = tm.synthesize(X, tm.Schema.cube(X.shape[1]), budget, getattr(tm, mechanism)(**dict(options)), rng)
        distribution, ledger = synthesis.distribution, synthesis.ledger
    result: dict[str, Any] = {"seconds": time.perf_counter() - started, "proved_epsilon": ledger.proved_epsilon,
                              "rows": len(X), "atoms": 0, "distinct": 0, "largest": 0.0, "table": 0}
    if isinstance(distribution, tm.Distribution):
        result["atoms"] = len(distribution.points)
        result["distinct"] = len(np.unique(distribution.points[distribution.weights > 0], axis=0))
        result["largest"] = float(distribution.weights.max()) * len(distribution.points)
        table = distribution.sample(len(X), np.random.default_rng(repetition))
        result["table"] = len(np.unique(table, axis=0))
    truth = answers(dataset, n_queries, percent)
    for which, workload in workloads(X.shape[1], n_queries).items():
        away = np.abs(baselines.answers(workload, distribution) - truth[which])
        relative = away / np.maximum(np.abs(truth[which]), SMALLEST_ANSWER[which])
        result[which] = {"absolute": away.max(axis=0).tolist(), "relative": relative.max(axis=0).tolist(),
                         "typical": np.median(away, axis=0).tolist()}
    return result


@lru_cache(maxsize=4)
def cube(name: str, percent: int = 100) -> Array:
    """Return the first rows, in a random order that is the same for every percentage; scaled as the whole table is."""
    if percent == 100:
        return datasets.cube(datasets.load(name))
    X = cube(name)
    order = np.random.default_rng([WORKLOAD_SEED, *name.encode()]).permutation(len(X))
    return np.ascontiguousarray(X[order[: max(2, len(X) * percent // 100)]])


@lru_cache(maxsize=4)
def workloads(d: int, n_queries: int, n_pairs: int = 1_000) -> dict[str, Workload]:
    return {"w1": tm.workload.GaussianKernels(d, seed=WORKLOAD_SEED, n_queries=n_queries, widths=WIDTHS),
            "w2": tm.workload.PairKernels(d, seed=WORKLOAD_SEED, n_queries=n_pairs, widths=PAIR_WIDTHS),
            "w3": tm.workload.SecondMoments(d)}


@lru_cache(maxsize=4)
def answers(name: str, n_queries: int, percent: int = 100, n_pairs: int = 1_000) -> dict[str, Array]:
    """Return the exact answers to the workloads (cached on disk)."""
    path = CACHE / f"truth-{name}-{percent}-{n_queries}-{n_pairs}-{code_of('trigmech.workload')[:24]}.npz"
    if not path.exists():
        X = cube(name, percent)
        path.parent.mkdir(parents=True, exist_ok=True)
        beside = path.with_suffix(f".{os.getpid()}.npz")
        exact: dict[str, Any] = {which: workload.answers(X)
                                 for which, workload in workloads(X.shape[1], n_queries, n_pairs).items()}
        np.savez(beside, **exact)
        beside.replace(path)
    with np.load(path) as stored:
        return {which: stored[which] for which in stored.files}
