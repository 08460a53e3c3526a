"""Result files, and the summary that is made of them."""

import json
import os
import platform
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypedDict

from benchmarks.core import Row
from benchmarks.registry import SUBJECTS
from experiments.cells import save
from trigmech._parallel import thread_count

RESULTS = Path(__file__).parent / "results"
LIBRARIES = ("trigmech", "numpy", "scipy", "numba", "highspy")


class Record(TypedDict):
    """A result file: where it was measured, and rows by subject."""

    machine: dict[str, Any]
    quick: bool
    subjects: dict[str, list[Row]]


def machine() -> dict[str, Any]:
    """Return the facts that times depend on; no date, path or name, so that reruns differ in times only."""
    return {"cpu": _cpu(), "cores": os.cpu_count(), "threads": thread_count(), "system": platform.system(),
            "architecture": platform.machine(), "python": platform.python_version(),
            "libraries": {name: _version(name) for name in LIBRARIES}}


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or "unknown")


def _version(name: str) -> str:
    if name == "trigmech":  # need not be installed to be measured
        import trigmech

        return trigmech.__version__
    return version(name)


def write(file: Path, record: Record) -> None:
    """Write a result file, whole or not at all."""
    save(file, json.dumps(record, indent=1) + "\n")


def read(file: Path) -> Record:
    """Read a result file."""
    record: Record = json.loads(file.read_text())
    return record


def write_summary() -> Path:
    """Make the summary from the result files there are, and return its place."""
    lines = ["# Benchmarks", "", "Made by `python -m benchmarks run`; do not edit. Alternatives take turns in one run "
             "on one machine, which may be shared: trust ratios, not seconds. Seconds are medians, with the fastest "
             "beside them; \"difference\" is the largest one from the baseline's result, relative to its largest "
             "entry; \"peak\" is what Python and numpy allocate at most, in a run of its own."]
    for name, subject in SUBJECTS.items():
        if not (RESULTS / f"{name}.json").is_file():
            continue
        record = read(RESULTS / f"{name}.json")
        lines += ["", f"## {subject.title} (`{name}`)", "", subject.text, "", _sentence(record["machine"]), ""]
        lines += markdown(record["subjects"][name], subject.rate)
    save(RESULTS / "README.md", "\n".join(lines) + "\n")
    return RESULTS / "README.md"


def _sentence(facts: Mapping[str, Any]) -> str:
    libraries = ", ".join(f"{name} {number}" for name, number in facts["libraries"].items())
    return (f"*{facts['cpu']}, {facts['cores']} cores, {facts['threads']} threads, {facts['system']} "
            f"{facts['architecture']}; Python {facts['python']}, {libraries}.*")


def cells(rows: list[Row], rate: str) -> dict[str, list[str]]:
    """Return the table's columns as text; those without a figure are left out."""
    columns = {"case": [row["case"] for row in rows], "alternative": [row["alternative"] for row in rows],
               "seconds": [_number(row["seconds"]) for row in rows],
               "fastest": [_number(row["fastest"]) for row in rows],
               rate: ["" if row["rate"] is None else f"{row['rate']:.2e}" for row in rows],
               "ratio": [_number(row["ratio"]) for row in rows],
               "difference": ["" if row["difference"] is None else f"{row['difference']:.0e}" for row in rows],
               "peak MB": [_number(row["peak_mb"]) for row in rows], "note": [row["note"] for row in rows]}
    # A case is named in its first row only.
    columns["case"] = ["" if i and row["case"] == rows[i - 1]["case"] else row["case"] for i, row in enumerate(rows)]
    return {name: column for name, column in columns.items() if any(column)}


def markdown(rows: list[Row], rate: str) -> Iterator[str]:
    """Yield the lines of a Markdown table."""
    columns = cells(rows, rate)
    yield "| " + " | ".join(columns) + " |"
    yield "|" + "|".join("---" if name in ("case", "alternative", "note") else "---:" for name in columns) + "|"
    for line in zip(*columns.values(), strict=True):
        yield "| " + " | ".join(line) + " |"


def _number(value: float | None) -> str:
    """Return three significant digits without an exponent."""
    if value is None:
        return ""
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}" if abs(value) >= 1e-3 else f"{value:.6f}"
