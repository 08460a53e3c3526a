"""Rivals: other tools, each in an environment of its own, all behind adapters of the same form.

An adapter is one script in ``adapters/``. Its head, as Python's inline script metadata, says what to install and which
methods it has; :mod:`experiments.rivals.adapters.interface` describes its input and its output. The package itself is
run by the same means, in the environment at hand, so that times and memory compare.
"""

import functools
import json
import math
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pooch

import trigmech as tm

ADAPTERS = Path(__file__).parent / "adapters"
VARIABLE = "TRIGMECH_CACHE"
OWN = "trigmech"
WAITING = 10.0  # times its limit of processor time a process may take at most
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS", "TRIGMECH_NUM_THREADS")


class RivalError(Exception):
    """A rival could not be installed, or has failed; the message ends with the last line that it said."""


@dataclass(frozen=True)
class Rival:
    """A tool, as the head of its adapter describes it."""

    name: str
    adapter: Path
    requirements: tuple[str, ...]
    methods: tuple[str, ...]

    @property
    def environment(self) -> Path:
        """Where its virtual environment is, outside the repository."""
        return Path(os.environ.get(VARIABLE) or pooch.os_cache("trigmech")) / "rivals" / self.name

    @property
    def python(self) -> Path:
        """The interpreter that runs its adapter: of the package itself the one at hand."""
        if self.name == OWN:
            return Path(sys.executable)
        return self.environment / ("Scripts/python.exe" if os.name == "nt" else "bin/python")

    @property
    def installed(self) -> bool:
        """Whether the environment is complete, and of the versions that the adapter asks for now."""
        noted = self.environment / "requirements.txt"
        return self.name == OWN or (noted.exists() and noted.read_text(encoding="utf-8") == self.wanted)

    @property
    def wanted(self) -> str:
        return "".join(f"{requirement}\n" for requirement in self.requirements)

    @property
    def source(self) -> bytes:
        """The files on which a result depends, besides the package itself: the adapter and its interface."""
        return self.adapter.read_bytes() + (ADAPTERS / "interface.py").read_bytes()


@functools.cache
def rivals() -> dict[str, Rival]:
    """Return all tools that there is an adapter for, by name: that of its file after ``with_``."""
    found = {}
    for path in sorted(ADAPTERS.glob("with_*.py")):
        block = re.search(r"^# /// script\n(.*?)^# ///$", path.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
        if block is None:
            raise RivalError(f"{path.name} has no head that says what to install and which methods it has")
        head = tomllib.loads("\n".join(line.removeprefix("#").removeprefix(" ") for line in block[1].splitlines()))
        name = path.stem.removeprefix("with_")
        found[name] = Rival(name, path, tuple(head.get("dependencies", ())), tuple(head["tool"]["trigmech"]["methods"]))
    return found


def install(rival: Rival) -> None:
    """Make a rival's environment anew; RivalError if its packages cannot be installed: then nothing is left of it."""
    shutil.rmtree(rival.environment, ignore_errors=True)
    rival.environment.parent.mkdir(parents=True, exist_ok=True)
    for command in ([sys.executable, "-m", "venv", str(rival.environment)],
                    [str(rival.python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
                     *rival.requirements]):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            shutil.rmtree(rival.environment, ignore_errors=True)
            raise RivalError(f"{rival.name} could not be installed: {_last_line(done.stderr)}")
    (rival.environment / "requirements.txt").write_text(rival.wanted, encoding="utf-8")


def run(rival: Rival, method: str, table: pd.DataFrame, schema: tm.Schema, budget: tm.Budget, *, seed: int, cells: int,
        workload: Sequence[Sequence[str]], within: str, seconds: float) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Return a synthetic table of as many rows by a method of an installed rival, and the facts that its adapter tells.

    The budget is as the rival understands it; the facts say for which neighbours. `seed` is for the draws that the
    rival lets one seed; methods of categories cut numbers into `cells` cells. `workload` are the tables that the
    protocol asks for, all of which have the column `within`, if it is not "". `seconds` limit its processor time, so
    that other work on the machine does not count. Raises RivalError if it fails or runs out of time.
    """
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        table.to_csv(folder / "table.csv", index=False)
        task = {"method": method, "epsilon": budget.epsilon, "delta": budget.delta, "seed": seed, "rows": len(table),
                "cells": cells, "workload": [list(names) for names in workload], "within": within}
        for name, content in (("task", task), ("schema", plain(schema)), ("own", schema.to_dict())):
            (folder / f"{name}.json").write_text(json.dumps(content), encoding="utf-8")
        # One thread each, so that times compare; the package is the one that runs this.
        variables = {**os.environ, **dict.fromkeys(THREADS, "1"), "PYTHONPATH": ""}
        if rival.name == OWN:
            variables["PYTHONPATH"] = str(Path(tm.__file__).parent.parent)
        limits = (math.ceil(seconds), math.ceil(seconds))
        # A session of its own, so that processes that it started end with it.
        with subprocess.Popen([str(rival.python), str(rival.adapter), str(folder)], env=variables, cwd=folder,
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True,
                              preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, limits)) as process:
            try:
                _, said = process.communicate(timeout=WAITING * seconds)
            except subprocess.TimeoutExpired:
                said = ""
            finally:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
        if process.returncode in (-signal.SIGKILL, -signal.SIGXCPU):
            raise RivalError(f"ran out of time: {seconds:g} s of processor time")
        if process.returncode:
            raise RivalError(_last_line(said) or f"ended with status {process.returncode}")
        facts = json.loads((folder / "facts.json").read_text(encoding="utf-8"))
        return read_made(folder / "made.csv", schema), facts


def read_made(path: Path, schema: tm.Schema) -> pd.DataFrame:
    """Return a synthetic table from a file, with the schema's categories in place of their texts."""
    of_text = {column.name: {str(category): category for category in column.categories}
               for column in schema.columns if column.categories is not None}
    made = pd.read_csv(path, dtype=dict.fromkeys(of_text, str), keep_default_na=False,
                       na_values={name: [""] for name in schema.names if name not in of_text})
    for name, category in of_text.items():
        made[name] = made[name].map(category)
    return made[list(schema.names)]


def plain(schema: tm.Schema) -> list[dict[str, Any]]:
    """Return a schema as rivals are given it."""
    columns: list[dict[str, Any]] = []
    for column in schema.columns:
        if column.categories is not None:
            # A missing value that is kept is the empty text.
            columns.append({"name": column.name, "kind": "category", "categories": [
                *map(str, column.categories), *[""] * (column.missing == "keep")]})
        else:
            columns.append({"name": column.name, "kind": "number" if column.kind == "continuous" else "integer",
                            "lower": column.lower, "upper": column.upper, "special": list(column.special),
                            "missing": column.missing == "keep"})
    return columns


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if re.search(r"\w{3}", line)]
    return lines[-1][:200] if lines else ""
