"""A table for the tests of engines, and how they measure it."""

import dataclasses
from functools import cache
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import trigmech as tm
from trigmech.functions.chebyshev import ChebyshevBasis

N = 3000
COLUMNS = (tm.Column("age", 0, 120, "integer", missing="keep"), tm.Column("pay", 0, 1e5),
           tm.Column("region", kind="categorical", categories=("north", "south")),
           tm.Column("seen", "2000-01-01", "2030-01-01", "datetime"))
SCHEMA = tm.Schema(COLUMNS)
BUDGET = tm.Budget(20.0, 1e-6)
MECHANISMS = {"moments": tm.MomentMechanism(points=64, iterations=1), "tables": tm.TableMechanism(points=64)}
BASIS = ChebyshevBasis.graded(SCHEMA.domain.d, 20)


def table(n=N, persons=False):
    rng = np.random.default_rng(5)
    columns = {"age": pa.array([None if rng.random() < 0.1 else int(rng.integers(0, 100)) for _ in range(n)]),
               "pay": rng.lognormal(9, 1, n), "region": pa.array(rng.choice(["north", "south"], n)),
               "seen": np.datetime64("2010-01-01", "us") + rng.integers(0, 10**14, n).astype("timedelta64[us]")}
    if persons:
        columns["who"] = pa.array([f"p{k}" for k in rng.integers(0, n // 5, n)])
    return pa.table(columns)


def written(folder, whole, groups=7, files=3):
    """The table in Parquet files of about so many row groups together; one row more a file stands in none."""
    ends = np.linspace(0, whole.num_rows, files + 1).astype(int)
    for i, (low, high) in enumerate(pairwise(ends)):
        pq.write_table(whole.slice(low, high - low), folder / f"{i}.parquet",
                       row_group_size=max(1, whole.num_rows // groups))
    pq.write_table(whole.slice(0, 0), folder / "empty.parquet")
    return str(folder / "*.parquet")


def bits(moments, folder):
    """All of a release, but for the library that the table came in."""
    path = folder / "bits.tm"
    dataclasses.replace(moments, library=None).save(path)
    return path.read_bytes()


@cache
def _design(n, schema, mechanism):
    return tm.design(n, schema, BUDGET, MECHANISMS[mechanism])


def measured(data, folder, mechanism="moments", schema=SCHEMA, **options):
    """All of a release of the table, in whatever form it comes, but for the library."""
    n = N if schema.person is None else len(set(table(persons=True)["who"].to_pylist()))
    return bits(tm.measure(data, schema, _design(n, schema, mechanism), np.random.default_rng(1), **options), folder)
