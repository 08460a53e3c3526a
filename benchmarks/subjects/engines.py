"""A large table in Parquet files, measured by processes: rates against a pass in memory, memory, and linear time.

Each measurement has a process of its own. The machine may be shared, so rates are by processor time; those of wall
clock stand in the notes.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.core import Row, Settings, Subject
from benchmarks.subjects.memory import status
from trigmech import Budget, Column, Design, Schema, design, measure_part
from trigmech._parallel import THREADS_VARIABLE
from trigmech.tables.parquet_files import ParquetFiles

COLUMNS, ROW_GROUP, IN_MEMORY = 8, 2**18, 2**21
SCHEMA = Schema([Column(f"x{j}", -4, 4) for j in range(COLUMNS)])


def rows(settings: Settings) -> Iterator[Row]:
    """Yield the rows of this subject: in memory, then by processes at each size."""
    settings.progress("in memory")
    base = _measured(["memory"])
    yield _row(f"n={IN_MEMORY}", "in memory, before", IN_MEMORY, base, base, 0, "")
    smallest = 0.0
    with tempfile.TemporaryDirectory() as directory:
        for groups in (4, 16) if settings.quick else (39, 382):  # 1e7 and 1e8 rows
            file = Path(directory) / f"{groups}.parquet"
            settings.progress("writing the file")
            n = _write(file, groups)
            size = file.stat().st_size
            disk = size / _seconds_to_read(file)
            for workers in (1, 2):
                settings.progress(f"n={n}: {workers} processes")
                found = _measured([str(workers), str(file)])
                smallest = smallest or found["peak_mb"]
                yield _row(f"n={n}, {size / 1e9:.1f} GB", f"processes, {workers}", n, found, base, size,
                           f"the bytes alone at {disk / 1e6:.0f} MB/s; peak {found['peak_mb'] / smallest:.2f} of the "
                           "first")
            file.unlink()
    # Once more, for the machine may have another speed by now.
    yield _row(f"n={IN_MEMORY}", "in memory, after", IN_MEMORY, _measured(["memory"]), base, 0, "")


def _row(case: str, alternative: str, n: int, found: dict[str, float], base: dict[str, float], size: int,
         note: str) -> Row:
    rate = n / found["cpu"]
    wall = f"{n / found['seconds']:.3g} rows/s by wall clock" + (
        f", {size / found['seconds'] / 1e6:.0f} MB/s" if size else "")
    return Row(case=case, alternative=alternative, seconds=found["seconds"], fastest=found["seconds"], rounds=1,
               rate=rate, ratio=rate / (IN_MEMORY / base["cpu"]), difference=None, peak_mb=found["peak_mb"],
               note="; ".join(filter(None, (wall, note))))


def _write(file: Path, groups: int) -> int:
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    table = pa.table({f"x{j}": rng.normal(0, 1, ROW_GROUP).astype(np.float32).astype(np.float64)
                      for j in range(COLUMNS)})
    with pq.ParquetWriter(file, table.schema, use_dictionary=False) as writer:
        for _ in range(groups):
            writer.write_table(table, row_group_size=ROW_GROUP)
    return groups * ROW_GROUP


def _seconds_to_read(file: Path) -> float:
    """Return the seconds to read the whole file, at the speed of its first GB.

    The bytes come from the disk if the system drops its copies of them in memory.
    """
    with file.open("rb", buffering=0) as stream:
        os.fsync(stream.fileno())
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        started, seen, block = time.perf_counter(), 0, bytearray(2**23)
        while seen < 10**9 and (count := stream.readinto(block)):
            seen += count
        return (time.perf_counter() - started) * file.stat().st_size / seen


def _measured(arguments: list[str]) -> dict[str, float]:
    process = subprocess.run([sys.executable, "-m", __name__, *arguments], check=True, stdout=subprocess.PIPE,
                             text=True, env={**os.environ, THREADS_VARIABLE: "1"})
    return json.loads(process.stdout)


def _child(what: str, files: list[str]) -> None:
    """Measure once in this process, or by processes of it, and print the figures."""
    import pyarrow as pa

    if what == "memory":
        rng = np.random.default_rng(0)
        table = pa.table({f"x{j}": rng.normal(0, 1, IN_MEMORY) for j in range(COLUMNS)})
        asked = _design(IN_MEMORY)
        measure_part(table.slice(0, 1000), asked)  # compiles
        print(json.dumps(_watched(lambda: measure_part(table, asked), resource.RUSAGE_SELF)))
        return
    table = ParquetFiles(files)
    asked = _design(table.n)
    print(json.dumps(_watched(lambda: measure_part(table, asked, engine="processes", workers=int(what)),
                              resource.RUSAGE_CHILDREN)))


def _design(n: int) -> Design:
    return design(n, SCHEMA, Budget(1.0, 1e-9))


def _watched(run: Any, whose: int) -> dict[str, float]:
    """Return the seconds, the processor's seconds, and the resident memory of the largest process that measures."""
    peak, done = 0.0, threading.Event()

    def watch() -> None:
        nonlocal peak
        while not done.wait(0.05):
            peak = max([peak, *_sizes(whose)])

    watcher = threading.Thread(target=watch)
    watcher.start()
    before, started = resource.getrusage(whose), time.perf_counter()
    run()
    seconds, after = time.perf_counter() - started, resource.getrusage(whose)
    done.set()
    watcher.join()
    return {"seconds": seconds, "peak_mb": peak,
            "cpu": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime}


def _sizes(whose: int) -> Iterator[float]:
    if whose == resource.RUSAGE_SELF:
        yield status("VmRSS")
        return
    for listed in Path("/proc/self/task").glob("*/children"):
        for child in listed.read_text().split():
            try:
                lines = Path(f"/proc/{child}/status").read_text().splitlines()
                yield next(float(line.split()[1]) for line in lines if line.startswith("VmRSS:")) * 1024 / 1e6
            except (OSError, StopIteration):
                continue


SUBJECT = Subject(
    "A table of 1e8 rows in Parquet",
    f"`measure_part` of {COLUMNS} columns by the default design, one pass: a table in memory on one thread, and a "
    "Parquet file by 1 and 2 processes, each run in a fresh process. Rate: rows per second of the processor, of all "
    "processes that measure, with their start; wall clock is in the notes. **Ratio: that rate over the one in "
    "memory.** Peak: resident memory of the largest process that measures, sampled every 50 ms, the libraries' own "
    "included. The file is one row group of 2^18 rows again and again.",
    "rows/CPU s", rows)

if __name__ == "__main__":
    _child(sys.argv[1], sys.argv[2:])
