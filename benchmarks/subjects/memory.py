"""Memory of the basis means over a table in a file: it must not grow with the number of rows.

Each measurement has a process of its own, because a peak of resident memory cannot be reset.
"""

import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from benchmarks.core import Row, Settings, Subject, difference, traced_peak
from benchmarks.subjects.means import from_table
from trigmech import ChebyshevBasis

T = TypeVar("T")

COLUMNS, FUNCTIONS = 20, 61
ROWS_WRITTEN_AT_ONCE = 100_000
NUMPY_LIMIT = 1_000_000


def rows(settings: Settings) -> Iterator[Row]:
    """Yield the rows of this subject: at each size, the memory by three measures."""
    smallest: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as directory:
        for n in (100_000, 1_000_000) if settings.quick else (100_000, 1_000_000, 10_000_000):
            file = Path(directory) / f"{n}.bin"
            settings.progress(f"n={n}: writing the file")
            exact = _write(file, n)
            # The careful numpy program needs several times the table itself, so it stops at a million rows.
            for name in ("trigmech", "numpy, table") if n <= NUMPY_LIMIT else ("trigmech",):
                for measure in ("resident", "traced"):
                    settings.progress(f"n={n}: {name}, {measure}")
                    found = _measured(file, n, name, measure)
                    base = smallest.setdefault(f"{name} {measure}", found["peak_mb"])
                    seconds = found["seconds"] if measure == "resident" else None  # tracing takes time
                    yield Row(case=f"n={n}, {n * COLUMNS * 8 / 1e6:.0f} MB file", alternative=f"{name}, {measure}",
                              seconds=seconds, fastest=seconds, rounds=1,
                              rate=n * FUNCTIONS / seconds if seconds else None,
                              ratio=found["peak_mb"] / base, difference=difference(found["means"], exact),
                              peak_mb=found["peak_mb"],
                              note=f"VmHWM +{found['high_water_mb']:.0f} MB" if measure == "resident" else "")
            file.unlink()


def basis() -> ChebyshevBasis:
    """Return the basis of this subject."""
    return ChebyshevBasis.graded(COLUMNS, FUNCTIONS)


def _write(file: Path, n: int) -> NDArray[np.float64]:
    """Write n random rows and return their means, found on the way."""
    rng = np.random.default_rng(0)
    total = np.zeros(FUNCTIONS)
    with file.open("wb") as stream:
        for _ in range(0, n, ROWS_WRITTEN_AT_ONCE):
            X = rng.uniform(-1.0, 1.0, (ROWS_WRITTEN_AT_ONCE, COLUMNS))
            X.tofile(stream)
            total += from_table(X, basis())
    return total / (n // ROWS_WRITTEN_AT_ONCE)


def _measured(file: Path, n: int, name: str, measure: str) -> dict:
    process = subprocess.run([sys.executable, "-m", __name__, str(file), str(n), name, measure], check=True,
                             stdout=subprocess.PIPE, text=True)
    return json.loads(process.stdout)


def status(key: str) -> float:
    """Return a figure of this process, in MB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith(f"{key}:")) * 1024 / 1e6


def _child(file: str, rows: int, name: str, measure: str) -> None:
    """Measure one run in this process and print the figures."""
    chosen = basis()

    def run(X: NDArray[np.float64]) -> NDArray[np.float64]:
        return chosen.means(X) if name == "trigmech" else from_table(X, chosen)

    run(np.zeros((100_000, COLUMNS)))  # compiles, and starts as many threads as there will be
    X = np.memmap(file, dtype=np.float64, mode="r", shape=(rows, COLUMNS))
    if measure == "traced":
        means = run(X)
        print(json.dumps({"peak_mb": traced_peak(lambda: run(X)), "means": means.tolist()}))
        return
    high_water = status("VmHWM")
    means, seconds, peak = watched(lambda: run(X))
    print(json.dumps({"seconds": seconds, "peak_mb": peak, "high_water_mb": status("VmHWM") - high_water,
                      "means": means.tolist()}))


def watched(run: Callable[[], T]) -> tuple[T, float, float]:
    """Return the result, the seconds, and the peak growth in MB of this process's anonymous memory."""
    anonymous = status("RssAnon")
    peak, done = anonymous, threading.Event()

    def watch() -> None:
        nonlocal peak
        while not done.wait(0.002):
            peak = max(peak, status("RssAnon"))

    watcher = threading.Thread(target=watch)
    watcher.start()
    started = time.perf_counter()
    result = run()
    seconds = time.perf_counter() - started
    done.set()
    watcher.join()
    return result, seconds, max(peak, status("RssAnon")) - anonymous


SUBJECT = Subject(
    "Memory of the basis means",
    f"`ChebyshevBasis.means` of {FUNCTIONS} functions over a memory-mapped file of {COLUMNS} columns, each in a fresh "
    "process. \"traced\": peak of what Python and numpy allocate. \"resident\": peak growth of the process's "
    "anonymous memory (RssAnon, sampled every 2 ms), after a first run on 100 000 rows. VmHWM also counts the file's "
    "own pages, which the kernel keeps while memory is free and takes back at will. **Ratio: peak relative to that "
    "at the smallest n** (flat is 1; an absolute growth of a few MB is the allocator's). Rate: rows times functions "
    "per second.",
    "products/s", rows)

if __name__ == "__main__":
    _child(sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4])
