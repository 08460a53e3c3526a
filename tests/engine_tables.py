"""A table for the tests of engines, and how they measure it."""

import dataclasses
import datetime
from decimal import Decimal
from functools import cache
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import trigmech as tm
from trigmech.engines import choice
from trigmech.errors import InputError
from trigmech.functions.chebyshev import ChebyshevBasis
from trigmech.measurement.moments import FunctionSums

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


# Identifiers: by what numbers of persons become identifiers of a type, and whether Spark has the type.
EPOCH = datetime.datetime(2020, 1, 1)
IDENTIFIERS = {
    "int8": lambda k: pa.array(k, pa.int8()),
    "int32": lambda k: pa.array(k, pa.int32()),
    "int64": lambda k: pa.array([2**60 + i for i in k], pa.int64()),
    "uint64": lambda k: pa.array([2**63 + i for i in k], pa.uint64()),
    "float32": lambda k: pa.array([i / 2 for i in k], pa.float32()),
    "float64": lambda k: pa.array([-0.0 if i == 0 and j % 2 else i / 2 for j, i in enumerate(k)], pa.float64()),
    "decimal": lambda k: pa.array([Decimal(i) / 4 for i in k], pa.decimal128(12, 3)),
    "text": lambda k: pa.array([" " * (j % 2) + f"p{i}" for j, i in enumerate(k)]),
    "numbers as text": lambda k: pa.array([str(i) if i % 2 else f"{i}.0" for i in k]),
    "long text": lambda k: pa.array([f"p{i}" for i in k], pa.large_string()),
    "categories": lambda k: pa.array([f"p{i}" for i in k]).dictionary_encode(),
    "bytes": lambda k: pa.array([b"p%d" % i for i in k], pa.binary()),
    "truths": lambda k: pa.array([i % 2 == 1 for i in k]),
    "days": lambda k: pa.array([(EPOCH + datetime.timedelta(i)).date() for i in k], pa.date32()),
    "times": lambda k: pa.array([EPOCH + datetime.timedelta(0, i) for i in k], pa.timestamp("us")),
    "times of a zone": lambda k: pa.array([EPOCH + datetime.timedelta(0, i) for i in k],
                                          pa.timestamp("us", "Europe/Berlin")),
    "nanoseconds": lambda k: pa.array([EPOCH + datetime.timedelta(0, i) for i in k], pa.timestamp("ns")),
    "times of a day": lambda k: pa.array([datetime.time(1, 2, i) for i in k], pa.time64("us")),
}
NOT_OF_SPARK = ("nanoseconds", "times of a day")
PERSONS = tm.Schema([tm.Column("x", 0, 10)], person="who")
# Each person's rows are in several files and partitions.
WHOSE = [0, 1, 2, 3, 0, 4, 5, 6, 0, 1, 7, 3, 8, 9, 9, 9]


def identified(kind, rows=slice(None)):
    """Rows with identifiers of a type, and how many persons they are of."""
    whose = WHOSE[rows]
    people = {i % 2 if kind == "truths" else i for i in whose}
    return pa.table({"who": IDENTIFIERS[kind](whose), "x": np.linspace(0, 10, len(WHOSE))[rows]}), len(people)


def in_files(folder, *tables):
    """Tables in a Parquet file each, as a list of paths."""
    folder.mkdir()
    for i, each in enumerate(tables):
        pq.write_table(each, folder / f"{i}.parquet")
    return sorted(folder.glob("*.parquet"))


def outcome(data, schema=PERSONS, **options):
    """How many persons a table is of and the bits of sums over them, or in what words it is refused."""
    try:
        with choice.opened(data, schema, **options) as private:
            rows = private.rows(schema)
            return private.n, rows.sums(FunctionSums(ChebyshevBasis.graded(rows.d, 6))).limbs.tobytes()
    except InputError as refused:
        return str(refused)


# Pairs of tables that differ in the type of a column.
DIFFERENT = {
    "numbers and text": ("who", pa.array([1, 2]), pa.array(["1", "2"])),
    "whole and other numbers": ("who", pa.array([1, 2]), pa.array([1.0, 2.0])),
    "times and times of a zone": ("who", pa.array([1, 2], pa.timestamp("us")),
                                  pa.array([1, 2], pa.timestamp("us", "UTC"))),
    "another column": ("x", pa.array([1, 2]), pa.array([1.0, 2.0])),
}


def different(kind):
    """The two tables, and the column."""
    name, *columns = DIFFERENT[kind]
    plain = pa.table({"who": pa.array([1, 2]), "x": pa.array([1, 2])})
    return [plain.set_column(plain.column_names.index(name), name, column) for column in columns], name
