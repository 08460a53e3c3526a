"""The passes of a run over a table: in memory, from CSV, and from Parquet, with memory that must not grow.

Each measurement has a process of its own, because a peak of resident memory cannot be reset, and because another
version of the package can be measured in the same run: ``TRIGMECH_BEFORE`` names the root of its tree. Seconds are of
the processor, because the machine may be shared.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.core import Row, Settings, Subject
from trigmech import Column, Schema
from trigmech._parallel import THREADS_VARIABLE
from trigmech.functions.partition import Partition, columns_of
from trigmech.measurement.counts import Histograms, JointCounts
from trigmech.measurement.rows import PrivateTable
from trigmech.measurement.sums import Statistic
from trigmech.tables.reader import TableFile, write_table

BEFORE = "TRIGMECH_BEFORE"
# As the default design asks of a large table: intervals in the first pass; positions, cells and scores in the third.
LOOKED_AT, POSITIONS, CELLS, SCORES = 1024, 160, 44, 3
IN_MEMORY, REPEATED = (1_000_000, 10), 5
CSV_ROWS, ROW_GROUP = 336_776, 2**18
PARQUET = Schema([Column(f"x{j}", -4, 4) for j in range(8)])
STEPS = {"encoding": "the table", "first": "the first pass", "closer": "the second pass", "tables": "the third pass",
         "all": "all of it"}
LETTERS = tuple(f"{letter}{digit}" for letter in "abcdefghijk" for digit in range(10))
FLIGHTS = Schema([
    Column("month", 1, 12, "integer"), Column("day", 1, 31, "integer"), Column("hour", 0, 23, "integer"),
    *(Column(name, -60, 1300, "integer", missing="keep") for name in ("departure", "arrival", "air")),
    *(Column(name, 0, 2400, "integer") for name in ("planned", "planned_arrival", "distance")),
    *(Column(name, 0, 6000, "integer") for name in ("flight", "seats", "year")), Column("temperature", -20, 120),
    *(Column(name, kind="categorical", categories=LETTERS[:count])
      for name, count in (("carrier", 16), ("origin", 3), ("destination", 105), ("plane", 60)))])


def rows(settings: Settings) -> Iterator[Row]:
    """Yield the rows of this subject: each table, by this version, and by another one if it is named."""
    with tempfile.TemporaryDirectory() as directory:
        yield from _case(settings, f"in memory, n={IN_MEMORY[0]}, {IN_MEMORY[1]} columns", "memory", "", IN_MEMORY[0])
        file = Path(directory) / "flights.csv"
        settings.progress("writing CSV")
        write_table(file, _flights(CSV_ROWS))
        yield from _case(settings, f"CSV, n={CSV_ROWS}, {FLIGHTS.d} columns", "csv", str(file), CSV_ROWS)
        file.unlink()
        for groups in (1, 4) if settings.quick else (4, 39):
            file = Path(directory) / f"{groups}.parquet"
            settings.progress("writing Parquet")
            n = _parquet(file, groups)
            yield from _case(settings, f"Parquet, n={n}, {PARQUET.d} columns", "parquet", str(file), n)
            file.unlink()


def _case(settings: Settings, case: str, what: str, file: str, n: int) -> Iterator[Row]:
    trees = {"before": os.environ.get(BEFORE, ""), "now": str(Path(__file__).parents[2])}
    found: dict[str, dict[str, float]] = {}
    for name, tree in trees.items():
        if tree:
            settings.progress(f"{case}: {name}")
            found[name] = _measured(tree, what, file)
    for step, words in STEPS.items():
        for name, own in found.items():
            seconds, before = own[step], found.get("before", {}).get(step)
            yield Row(case=case, alternative=f"{words}, {name}", seconds=seconds, fastest=seconds, rounds=1,
                      rate=n / seconds, ratio=None if before is None else before / seconds, difference=None,
                      peak_mb=own["peak_mb"] if step == "all" else None, note="")


def _measured(tree: str, what: str, file: str) -> dict[str, float]:
    environment = {**os.environ, THREADS_VARIABLE: "1", "OMP_NUM_THREADS": "1", "PYTHONPATH": str(Path(tree).resolve())}
    process = subprocess.run([sys.executable, __file__, what, file], check=True, stdout=subprocess.PIPE, text=True,
                             env=environment)
    found: dict[str, float] = json.loads(process.stdout)
    return found


def _flights(n: int) -> Iterator[dict[str, Any]]:
    rng = np.random.default_rng(1)
    data: dict[str, Any] = {}
    for column in FLIGHTS.columns:
        if column.categories:
            names = np.array(column.categories, dtype=object)
            data[column.name] = names[rng.zipf(1.3, n) % len(names)]
            continue
        low, high = column.bounds
        drawn = low + (high - low) * rng.beta(2.0, 5.0, n)
        data[column.name] = drawn.round(2) if column.kind == "continuous" else drawn.astype(np.int64)
        if column.missing == "keep":
            data[column.name] = np.ma.masked_array(data[column.name], rng.random(n) < 0.025)
    yield data


def _parquet(file: Path, groups: int) -> int:
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    table = pa.table({name: rng.normal(0, 1, ROW_GROUP).astype(np.float32).astype(np.float64)
                      for name in PARQUET.names})
    with pq.ParquetWriter(file, table.schema, use_dictionary=False) as writer:
        for _ in range(groups):
            writer.write_table(table, row_group_size=ROW_GROUP)
    return groups * ROW_GROUP


def _asked(schema: Schema) -> dict[str, Statistic]:
    """Return the statistics of the three passes, by the name of the pass."""
    columns = columns_of(schema.domain)
    looks = [_cut(column, LOOKED_AT) for column in columns]
    closer = [column.cut(np.unique([-1.0, *np.linspace(low, low + 0.125, 9), 1.0]))
              for column in columns if column.value is not None for low in (-0.5, 0.0, 0.25)]
    fine = tuple(_cut(column, POSITIONS) for column in columns)
    maps = [np.arange(column.size) * min(column.size, CELLS) // column.size for column in fine]
    pairs = [(j, h) for j in range(len(fine)) for h in range(j + 1, len(fine))]
    rng = np.random.default_rng(0)
    scores = tuple(rng.integers(-2**15, 2**15, (column.size, SCORES)) for column in fine)
    places = [(SCORES * j + a, SCORES * h + b) for j, h in pairs for a in range(SCORES) for b in range(SCORES)]
    return {"first": Histograms(tuple(looks)), "closer": Histograms(tuple(closer)),
            "tables": JointCounts(fine, tuple((pair, (maps[pair[0]], maps[pair[1]])) for pair in pairs), scores,
                                  np.array(places))}


def _cut(column: Partition, count: int) -> Partition:
    return column if column.value is None else column.cut(np.linspace(-1.0, 1.0, count + 1))


def _child(what: str, file: str) -> None:
    """Measure the passes over one table and print the figures."""
    rng = np.random.default_rng(0)
    table: Any = file
    if what == "memory":
        table = rng.normal(size=IN_MEMORY)
        table[:, 1:] += table[:, :1]
    schema = {"memory": Schema([Column(f"x{j}", -5, 5) for j in range(IN_MEMORY[1])]), "csv": FLIGHTS,
              "parquet": PARQUET}[what]
    asked = _asked(schema)
    # Compiles, for numbers and symbols.
    small = {"x": rng.normal(size=100), "k": rng.integers(0, 9, 100), "l": rng.integers(0, 500, 100)}
    with tempfile.TemporaryDirectory() as directory:
        write_table(Path(directory) / "small.csv", [small])
        own = Schema([Column("x", -4, 4), Column("k", 0, 9, "integer"), Column("l", 0, 500, "integer")])
        with PrivateTable(TableFile(Path(directory) / "small.csv"), own) as private:
            for statistic in _asked(own).values():
                private.rows(own).sums(statistic)
    found = {}
    started = began = time.process_time()
    with PrivateTable(table, schema) as private:
        found["encoding"] = time.process_time() - started
        private_rows = private.rows(schema)
        for name, statistic in asked.items():
            took = []
            for _ in range(REPEATED if what == "memory" else 1):
                started = time.process_time()
                private_rows.sums(statistic)
                took.append(time.process_time() - started)
            found[name] = float(np.median(took))
    found["all"] = sum(found.values()) if what == "memory" else time.process_time() - began
    found["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    print(json.dumps(found))


SUBJECT = Subject(
    "Passes over a table",
    "What a run asks of a table by the default design, without planning and fit. The table: it is encoded in memory, "
    "or the rows of a file are counted. The first pass: 1,024 intervals of each number. The second: three closer "
    "looks at each number. The third: a table of each pair of columns with up to 44 by 44 cells, and nine products of "
    "scores of each pair. Seconds are of the processor, on one thread. Peak: resident memory of the process, "
    "libraries included. \"before\" is another version of the package in the same run (`TRIGMECH_BEFORE`, the root of "
    "its tree); this file was made with the tree of 7324156. Baseline: before.",
    "rows/s", rows)

if __name__ == "__main__":
    _child(sys.argv[1], sys.argv[2])
