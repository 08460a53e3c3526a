"""The input and the output of an adapter; with numpy and pandas alone, as it runs in every rival's environment.

A folder holds ``table.csv`` (private rows), ``schema.json`` (a list of columns: name, kind, lower, upper, categories,
special, missing) and ``task.json`` (the other fields of `Task`). An adapter is called with the folder's path, and
writes ``made.csv``, with the same columns, and ``facts.json``.
"""

import json
import math
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd


@dataclass
class Task:
    """The table that an adapter is to make, from the folder's files."""

    folder: Path
    table: pd.DataFrame
    columns: list[dict[str, Any]]
    method: str
    epsilon: float
    delta: float
    seed: int
    rows: int
    cells: int  # that a column of numbers is cut into; 0 if the method takes numbers
    workload: list[list[str]]  # which tables of columns the protocol asks for
    within: str = ""  # the column that all of them have, if there is one
    started: float = 0.0


def read() -> Task:
    """Return the task in the folder that the command line names, and start its clock."""
    folder = Path(sys.argv[1])
    columns = json.loads((folder / "schema.json").read_text(encoding="utf-8"))
    text = {column["name"]: str for column in columns if column["kind"] == "category"}
    table = pd.read_csv(folder / "table.csv", dtype=text, keep_default_na=False, float_precision="round_trip",
                        na_values={column["name"]: [""] for column in columns if column["kind"] != "category"})
    task = Task(folder, table, columns, **json.loads((folder / "task.json").read_text(encoding="utf-8")))
    task.started = time.perf_counter()
    return task


def edges(column: dict[str, Any], cells: int) -> np.ndarray:
    """Return the ends of the cells of a column of numbers: equal ones in its bounds, of whole numbers if it has such.

    A column of fewer whole numbers than cells has one for each.
    """
    low, high = float(column["lower"]), float(column["upper"])
    if column["kind"] == "number":
        return np.linspace(low, high, cells + 1)
    return np.unique(np.round(np.linspace(low, high + 1.0, min(cells, int(high - low) + 1) + 1))) - 0.5


def coded(task: Task) -> tuple[pd.DataFrame, dict[str, int]]:
    """Return every column as codes from 0, and how many each has: cells, then special values, then missing."""
    codes, sizes = {}, {}
    for column in task.columns:
        name, values = column["name"], task.table[column["name"]]
        if column["kind"] == "category":
            codes[name], sizes[name] = pd.Index(column["categories"]).get_indexer(values), len(column["categories"])
            continue
        ends, numbers = edges(column, task.cells), values.to_numpy(float)
        code = np.clip(np.searchsorted(ends, numbers, side="right") - 1, 0, len(ends) - 2)
        for k, special in enumerate(column["special"]):
            code[numbers == special] = len(ends) - 1 + k
        sizes[name] = len(ends) - 1 + len(column["special"]) + bool(column["missing"])
        code[np.isnan(numbers)] = sizes[name] - 1
        codes[name] = code
    return pd.DataFrame(codes).astype(np.int64), sizes


def decoded(task: Task, codes: pd.DataFrame) -> pd.DataFrame:
    """Return a table from codes: in a cell, numbers are uniform."""
    rng, made = np.random.default_rng(task.seed), {}
    for column in task.columns:
        code = codes[column["name"]].to_numpy(int)
        if column["kind"] == "category":
            made[column["name"]] = np.asarray(column["categories"], object)[code]
            continue
        ends = edges(column, task.cells)
        last = len(ends) - 1
        cell = np.minimum(code, last - 1)
        numbers = rng.uniform(ends[cell], ends[cell + 1])
        numbers = np.clip(np.round(numbers) if column["kind"] == "integer" else numbers, column["lower"],
                          column["upper"])
        for k, special in enumerate(column["special"]):
            numbers[code == last + k] = special
        numbers[code >= last + len(column["special"])] = np.nan
        made[column["name"]] = numbers
    return pd.DataFrame(made)


def rho_of(epsilon: float, delta: float) -> float:
    """Return the largest rho for which rho-zCDP is known to give (epsilon, delta)-DP (Canonne, Kamath, Steinke 2020).

    For every order a > 1 it gives delta = exp((a - 1)(a rho - epsilon)) (1 - 1/a)^a / (a - 1).
    """
    orders = 1.0 + np.logspace(-3, 6, 20_000)
    needed = math.log(delta) + np.log(orders - 1.0) - orders * np.log1p(-1.0 / orders)
    return float(np.max((needed / (orders - 1.0) + epsilon) / orders))


# The spending of dpmm's methods at (epsilon, delta), by their programs: rho of tables, rho of choices, pure epsilon.
SPENT: dict[str, Callable[[float, float], dict[str, Any]]] = {
    "AIM": lambda epsilon, delta: {"measured_rho": 0.9 * rho_of(epsilon, delta),
                                   "selected_rho": 0.1 * rho_of(epsilon, delta)},
    "MST": lambda epsilon, delta: {"measured_rho": rho_of(epsilon, delta) / 1.5,
                                   "selected_rho": rho_of(epsilon, delta) / 3.0},
    # A network by an exponential mechanism at half of epsilon, whose sensitivity is for replaced rows and for mutual
    # information that is not divided by entropies, as here it is.
    "PrivBayes": lambda epsilon, delta: {"measured_rho": rho_of(epsilon / 2.0, delta), "pure_epsilon": epsilon / 2.0,
                                         "note": "as its program claims"}}


def epsilon_of(rho: float, delta: float) -> float:
    """Return the epsilon that rho-zCDP gives at a delta, by the same bound."""
    orders = 1.0 + np.logspace(-3, 6, 20_000)
    lost = (orders * np.log1p(-1.0 / orders) - np.log(orders - 1.0) - math.log(delta)) / (orders - 1.0)
    return float(np.min(orders * rho + lost))


def peak_memory() -> float:
    """Return the most memory in MiB that this process has had; not that of the one that started it, if Linux says."""
    status = Path("/proc/self/status")
    if status.exists():
        return float(status.read_text(encoding="utf-8").split("VmHWM:")[1].split()[0]) / 1024.0
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024.0**2 if sys.platform == "darwin" else 1024.0)


def rhos(measured_rho: float = 0.0, selected_rho: float = 0.0, **facts: Any) -> dict[str, Any]:
    """Return the rho spent in all, for rows that are added or removed and for replaced ones; see :func:`write`."""
    return {"rho": measured_rho + selected_rho, "replace_one_rho": 2.0 * measured_rho + 4.0 * selected_rho, **facts}


def write(task: Task, made: pd.DataFrame, package: str, neighbours: str, measured_rho: float = 0.0,
          selected_rho: float = 0.0, **facts: Any) -> None:
    """Write the table and the facts about it, with seconds, processor seconds and the process's peak memory.

    The package's version is noted; neighbours are "add or remove" or "replace". By its own accounts, the
    tool spends `measured_rho` on tables with Gaussian noise, and `selected_rho` on choices by an exponential mechanism
    whose score moves by at most 1. If a row is replaced, the first doubles (a table moves by the root of 2 instead of
    1), and the second quadruples. Facts are such as `pure_epsilon`, or `note`.
    """
    from importlib.metadata import version

    seconds = time.perf_counter() - task.started
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    made.to_csv(task.folder / "made.csv", index=False)
    told = {"seconds": seconds, "cpu_seconds": sum(each.ru_utime + each.ru_stime for each in used),
            "peak_mib": peak_memory(), "version": f"{package} {version(package)}", "neighbours": neighbours,
            **rhos(measured_rho, selected_rho, **facts)}
    (task.folder / "facts.json").write_text(json.dumps(told), encoding="utf-8")
