"""Persons of 1 to 100 rows in a file that is not sorted by person: rates and memory while the rows are many more."""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks.core import Row, Settings, Subject
from benchmarks.subjects.memory import status
from trigmech import Budget, Column, Schema, design, measure_part
from trigmech._parallel import THREADS_VARIABLE

MOST_ROWS, GROUP = 100, 2**18
SCHEMA = Schema([Column("age", 0, 120), Column("pressure", 60, 240),
                 Column("ward", kind="categorical", categories=("a", "b", "c"))], person="patient")


def rows(settings: Settings) -> Iterator[Row]:
    """Yield the rows of this subject: ten times as many persons each."""
    first: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as directory:
        for persons in (1_000, 10_000) if settings.quick else (10_000, 100_000, 1_000_000):
            file = Path(directory) / f"{persons}.parquet"
            settings.progress(f"writing rows of {persons:,} persons")
            n = _write(file, persons)
            settings.progress(f"{persons:,} persons, {n:,} rows")
            process = subprocess.run([sys.executable, "-m", __name__, str(file), str(persons)], check=True, text=True,
                                     stdout=subprocess.PIPE, env={**os.environ, THREADS_VARIABLE: "1"})
            found: dict[str, float] = json.loads(process.stdout)
            rate = n / found["cpu"]
            first = first or found | {"rate": rate}
            yield Row(case=f"{persons:,} persons, {n:,} rows", alternative="part of an unsorted file",
                      seconds=found["seconds"], fastest=found["seconds"], rounds=1, rate=rate,
                      ratio=rate / first["rate"], difference=None, peak_mb=found["peak_mb"],
                      note=f"rate by processor time; peak {found['peak_mb'] / first['peak_mb']:.2f} of the first; "
                           f"{file.stat().st_size / 1e6:.0f} MB")
            file.unlink()


def _write(file: Path, persons: int) -> int:
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    whose = rng.permutation(np.repeat(np.arange(persons), rng.integers(1, MOST_ROWS + 1, persons)))
    writer = None
    for start in range(0, len(whose), GROUP):
        own = whose[start : start + GROUP]
        table = pa.table({"patient": own, "age": rng.integers(0, 90, len(own)).astype(float),
                          "pressure": rng.normal(120, 20, len(own)), "ward": rng.choice(["a", "b", "c"], len(own))})
        writer = writer or pq.ParquetWriter(file, table.schema)
        writer.write_table(table)
    if writer is not None:
        writer.close()
    return len(whose)


def _child(file: str, persons: int) -> None:
    asked = design(persons, SCHEMA, Budget(1.0, 1e-9))
    started, busy = time.perf_counter(), time.process_time()
    measure_part(file, asked)
    print(json.dumps({"seconds": time.perf_counter() - started, "cpu": time.process_time() - busy,
                      "peak_mb": status("VmHWM")}))


SUBJECT = Subject(
    "Persons of many rows, from an unsorted file",
    "`measure_part` of the default design's first round, of a Parquet file with 1 to 100 rows of each person in any "
    "order, each in a fresh process of one thread. **Ratio: rows a second of processor time relative to those of the "
    "fewest persons** (1 is linear).", "rows/s", rows)

if __name__ == "__main__":
    _child(sys.argv[1], int(sys.argv[2]))
