"""A whole release of a table in a file, with categories: its time, and memory that must not grow with the rows.

Each measurement has a process of its own, because a peak of resident memory cannot be reset.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.core import Row, Settings, Subject
from benchmarks.subjects.memory import watched
from trigmech import Budget, Column, MomentMechanism, Schema, synthesize
from trigmech.tables.reader import TableFile, write_table

ROWS_WRITTEN_AT_ONCE = 250_000
SCHEMA = Schema([
    Column("age", 0, 120, "integer"), Column("income", 1, 1e6, special=(0,), transform="log"),
    Column("region", kind="categorical", categories=("north", "east", "south", "west")),
    Column("smoker", kind="categorical", categories=("yes", "no"), missing="keep"),
    Column("weight", 0, 250), Column("visit", "2000-01-01", "2030-01-01", "datetime")])


def rows(settings: Settings) -> Iterator[Row]:
    """Yield the rows of this subject: each file type at each size."""
    smallest: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as directory:
        for n in (100_000, 1_000_000) if settings.quick else (100_000, 1_000_000, 10_000_000):
            for suffix in ("parquet", "csv"):
                file = Path(directory) / f"{n}.{suffix}"
                settings.progress(f"n={n}: writing the {suffix} file")
                write_table(file, _pieces(n))
                settings.progress(f"n={n}: releasing the {suffix} file")
                process = subprocess.run([sys.executable, "-m", __name__, str(file)], check=True,
                                         stdout=subprocess.PIPE, text=True)
                found = json.loads(process.stdout)
                base = smallest.setdefault(suffix, found["peak_mb"])
                yield Row(case=f"n={n}, {file.stat().st_size / 1e6:.0f} MB", alternative=suffix,
                          seconds=found["seconds"], fastest=found["seconds"], rounds=1, rate=n / found["seconds"],
                          ratio=found["peak_mb"] / base, difference=None, peak_mb=found["peak_mb"], note=found["fit"])
                file.unlink()


def _pieces(n: int) -> Iterator[dict[str, Any]]:
    rng = np.random.default_rng(0)
    for _ in range(0, n, ROWS_WRITTEN_AT_ONCE):
        k = min(n, ROWS_WRITTEN_AT_ONCE)
        poor = rng.random(k) < 0.2
        smoker = np.ma.masked_array(np.where(rng.random(k) < 0.3, "yes", "no").astype(object), rng.random(k) < 0.05)
        yield {"age": rng.integers(0, 100, k), "income": np.where(poor, 0.0, np.exp(rng.normal(10, 1, k))),
               "region": np.array(["north", "east", "south", "west"], dtype=object)[rng.integers(0, 4, k)],
               "smoker": smoker, "weight": rng.normal(75, 12, k),
               "visit": np.datetime64("2000-01-01") + rng.integers(0, 9_000, k)}


def _child(file: str) -> None:
    """Release one file in this process and print the figures."""
    def run(table: Any) -> Any:
        return synthesize(table, SCHEMA, Budget(1.0, 1e-6), MomentMechanism(points=5_000), np.random.default_rng(0))

    with tempfile.TemporaryDirectory() as directory:
        small = Path(directory) / Path(file).name
        write_table(small, _pieces(1_000))
        run(small)  # compiles, and starts as many threads as there will be
    made, seconds, peak = watched(lambda: run(TableFile(file)))
    print(json.dumps({"seconds": seconds, "peak_mb": peak, "fit": f"fit {made.fit.seconds:.1f} s"}))


SUBJECT = Subject(
    "A release of a file",
    "`synthesize` of a Parquet and of a CSV file with 2 numbers, a date, 2 columns of categories, and a number with a "
    "special value, each in a fresh process: counting, planning, measuring, fitting. Peak: growth of the process's "
    "anonymous memory (RssAnon, sampled every 2 ms) after a first small run. **Ratio: peak relative to that at the "
    "smallest n** (flat is about 1 once a chunk is full; a chunk has at most 2^18 rows). Rate: rows per second of the "
    "whole.",
    "rows/s", rows)

if __name__ == "__main__":
    _child(sys.argv[1])
