"""Broken and hostile input: each ends in an error of this package or in what is documented, and says nothing private.

Every table holds a marker, and no message, of any exception in the chain, may quote it.
"""

import re
import sys
import time
import traceback

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest

import trigmech as tm
from trigmech.cli.app import main
from trigmech.errors import BudgetError, InputError, TrigmechError
from trigmech.tables.reader import TableFile

MARKER = 73194.25871
WORD = "Quetzaltenango"
SCHEMA = tm.Schema([tm.Column("a", 0, 1e5), tm.Column("b", 0, 1)])
BUDGET = tm.Budget(1.0, 1e-6)
FEW = tm.MomentMechanism(points=64, iterations=1)


def rows(n=40):
    table = np.random.default_rng(1).uniform(0, 1, (n, 2))
    table[:, 0] = MARKER
    return table


def frame(**columns):
    table = pd.DataFrame(rows(), columns=["a", "b"])
    return table.assign(**columns)


def release(table, schema=SCHEMA, budget=BUDGET, mechanism=FEW, **options):
    return tm.synthesize(table, schema, budget, mechanism, np.random.default_rng(2), **options)


def refused(call, kind=InputError):
    """Run what must be refused; return the message, after a look for the marker in all that a traceback would print."""
    started = time.perf_counter()
    with pytest.raises(TrigmechError) as caught:
        call()
    # Not a measurement of speed: a bound on work that would grow without one.
    assert time.perf_counter() - started < 60.0
    assert isinstance(caught.value, kind), caught.value
    told = "".join(traceback.TracebackException.from_exception(caught.value).format_exception_only())
    chained = [caught.value]
    while chained[-1].__cause__ or (chained[-1].__context__ and not chained[-1].__suppress_context__):
        chained.append(chained[-1].__cause__ or chained[-1].__context__)
    told += "".join(map(str, chained))
    assert str(MARKER)[:7] not in told, told
    assert WORD not in told, told
    assert len(str(caught.value)) > 10
    return str(caught.value)


def with_value(value, column=1):
    table = rows()
    table[3, column] = value
    return table


TABLES = {
    "nothing": None,
    "a number": MARKER,
    "a string": "no such table",
    "ragged lists": [[MARKER, 1.0], [2.0]],
    "one dimension": np.full(5, MARKER),
    "strings": np.array([[WORD, "b"]] * 3),
    "objects": np.array([[WORD, 1.0], [2.0, None]], dtype=object),
    "complex numbers": rows() + 1j,
    "dates": np.full((5, 2), "2020-01-01", dtype="datetime64[D]"),
    "a structured array": np.array([(MARKER, 1.0)], dtype=[("a", float), ("b", float)]),
    "one row": rows(1),
    "three columns": np.hstack([rows(), rows()[:, :1]]),
    "100,000 columns": np.full((2, 100_000), MARKER),
    "a missing value": with_value(np.nan),
    "a frame without rows": frame().iloc[:0],
    "a frame with another name": frame().rename(columns={"b": WORD[:3]}),
    "a frame with a name twice": pd.concat([frame(), frame()], axis=1),
    "a frame of strings": frame(b=WORD),
    "a frame of numbers and strings": frame(b=[WORD, *range(39)]),
    "a frame of dates": frame(b=pd.Timestamp("2020-01-01")),
    "a frame of lists": frame(b=[[MARKER]] * 40),
    "a nullable column": frame(b=pd.array([pd.NA, *[1] * 39], dtype="Int64")),
    "pandas categories": frame(b=pd.Categorical([WORD] * 40)),
    "polars null": pl.DataFrame({"a": [MARKER, 1.0], "b": [None, 1.0]}),
    "a polars lazy frame": pl.DataFrame({"a": [MARKER], "b": [1.0]}).lazy(),
    "pyarrow strings": pa.table({"a": [MARKER, 1.0], "b": [WORD, WORD]}),
    "pyarrow with a name twice": pa.Table.from_arrays([pa.array([MARKER])] * 3, names=["a", "b", "b"]),
}


@pytest.mark.parametrize("name", TABLES)
def test_tables_that_are_none_are_refused(name):
    refused(lambda: release(TABLES[name]))


FINE = {
    "infinities, which are clipped": with_value(np.inf),
    "the largest number, which is clipped": with_value(sys.float_info.max),
    "a subnormal number": with_value(5e-324),
    "booleans": rows() > 0.5,
    "32-bit floats": rows().astype(np.float32),
    "a Fortran array": np.asfortranarray(rows()),
    "a read-only view": np.broadcast_to(rows(1), (40, 2)),
    "columns that the schema does not name": frame(c=WORD),
    "equal rows": np.full((40, 2), 1.0),
    "two rows": rows(2),
}


@pytest.mark.daily(10)
@pytest.mark.parametrize("name", FINE)
def test_strange_tables_that_are_tables_are_released(name):
    made = release(FINE[name])
    assert np.isfinite(made.distribution.points).all()
    assert str(MARKER)[:7] not in repr(made) + str(made.ledger)


CALLS = {
    "a tuple for a budget": (lambda: release(rows(), budget=(1.0, 0.0)), BudgetError),
    "a dict for a schema": (lambda: release(rows(), schema={"a": (0, 1)}), InputError),
    "a seed for a generator": (lambda: tm.synthesize(rows(), SCHEMA, BUDGET, FEW, 7), InputError),
    "a string for a mechanism": (lambda: release(rows(), mechanism="moments"), InputError),
    "a pure budget for TrigII": (lambda: release(rows(), budget=tm.Budget(1.0), mechanism=tm.TrigII()), BudgetError),
    "too many functions": (lambda: release(np.zeros((9, 30)), tm.Schema.cube(30), mechanism=tm.TrigI(degree=9)),
                           InputError),
    "a workload of other columns": (lambda: release(
        rows(), mechanism=tm.MomentMechanism(workload=tm.workload.SecondMoments(3))), InputError),
    "no ledger file": (lambda: release(rows(), ledger="no/such/ledger.json"), InputError),
    "more columns than can be measured": (lambda: release(np.zeros((3, 5_000)), tm.Schema.cube(5_000)), InputError),
    "a budget too small to calibrate": (lambda: release(rows(), budget=tm.Budget(1e-12, 1e-6)), BudgetError),
    "a negative size of a sample": (lambda: release(rows()).sample(-1), InputError),
}


@pytest.mark.parametrize("name", CALLS)
def test_calls_that_make_no_sense_are_refused(name):
    refused(*CALLS[name])


@pytest.mark.daily(3)
@pytest.mark.parametrize("epsilon", [1e-300, 1e-3, 50.0, 1e7])
@pytest.mark.parametrize("delta", [0.0, 1e-300, 1e-6, 0.5])
def test_extreme_budgets_are_released_or_refused_but_never_exceeded(epsilon, delta):
    # With planned degrees, epsilon = 1e7 would be worth thousands of moments and a long search among them.
    mechanism = tm.MomentMechanism(points=64, iterations=1, degree=2, pair_degree=1, triples=False, whole_row=False)
    try:
        made = release(rows(), budget=tm.Budget(epsilon, delta), mechanism=mechanism)
    except TrigmechError:
        return
    assert np.isfinite(made.distribution.points).all()
    assert made.ledger.proved_epsilon <= epsilon


# Files, through the command line

SCHEMA_TEXT = """
[columns.a]
lower = 0
upper = 1e5
[columns.b]
kind = "categorical"
categories = ["yes", "no"]
"""
LINES = "".join(f"{MARKER},{'yes' if k % 2 else 'no'}\n" for k in range(40))
CSV = "a,b\n" + LINES


# Name, content, and part of what the error says. More broken files are in test_table_file, and mistakes in test_cli.
FILES = {
    "a word among numbers": ("t.csv", (CSV + f"{WORD},yes\n").encode(), "'a'"),
    "a category that is none": ("t.csv", (CSV + f"1,{WORD}\n").encode(), "'b'"),
    "zero bytes": ("t.csv", b"a,b\n" + bytes(2000), ""),
    "one line of 20 MB": ("t.csv", b"a,b\n" + b"7" * 20_000_000, ""),
}

# What the schema file holds instead.
SCHEMAS = {
    "an empty schema": (b"", ""),
    "no TOML": (b"columns = = 1", "TOML"),
    "a schema in Latin-1": (b"[columns.\xe9]\nlower = 0\nupper = 1\n", ""),
    "an unknown option": (SCHEMA_TEXT.replace("upper", "uper").encode(), "uper|upper"),
    "empty bounds": (SCHEMA_TEXT.replace("0", '""', 1).encode(), "lower"),
    "no categories": (SCHEMA_TEXT.replace('["yes", "no"]', "[]").encode(), "categories"),
    "bounds that are tables": (SCHEMA_TEXT.replace("lower = 0", "lower = {a = 1}").encode(), ""),
    "a table nobody knows": ((SCHEMA_TEXT + "[nonsense]\nx = 1\n").encode(), "nonsense"),
    "a deep table": (b"a" + b".a" * 5_000 + b" = 1", ""),
}


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Run `trigmech release` in a folder of its own; return its status and all that it said."""
    monkeypatch.chdir(tmp_path)

    def call(data, *arguments):
        command = ["trigmech", "release", data, "--schema", "s.toml", "--epsilon", "1", "--out", "o.tm", *arguments]
        monkeypatch.setattr(sys, "argv", command)
        (tmp_path / "s.toml").exists() or (tmp_path / "s.toml").write_text(SCHEMA_TEXT)
        before = sorted(path.name for path in tmp_path.iterdir() if path.suffix != ".lock")
        with pytest.raises(SystemExit) as ending:
            main()
        printed = capsys.readouterr()
        said = printed.out + printed.err
        assert str(MARKER)[:7] not in said
        assert WORD not in said
        assert "Traceback" not in said
        if ending.value.code:
            assert sorted(path.name for path in tmp_path.iterdir() if path.suffix != ".lock") == before
        return ending.value.code, " ".join(said.split())

    return call


@pytest.mark.parametrize("name", FILES)
def test_broken_files_are_refused(run, tmp_path, name):
    file, content, words = FILES[name]
    (tmp_path / file).write_bytes(content)
    status, said = run(file)
    assert status == 2, said
    assert re.search(words, said), said
    assert file in said or "row" in said or "column" in said


@pytest.mark.parametrize("name", SCHEMAS)
def test_broken_schemas_are_refused(run, tmp_path, name):
    (tmp_path / "t.csv").write_text(CSV)
    content, words = SCHEMAS[name]
    (tmp_path / "s.toml").write_bytes(content)
    status, said = run("t.csv")
    assert status == 2, said
    assert re.search(words, said), said


MISPLACED = {
    "preview": lambda table: tm.preview(table, SCHEMA, BUDGET),
    "design": lambda table: tm.MomentMechanism().design(table, SCHEMA.domain, BUDGET),
    "estimator": lambda table: tm.Synthesizer(table, epsilon=1.0).fit(table),
    "epsilon": lambda table: tm.Budget(table),
    "mechanism": lambda table: tm.synthesize(rows(), SCHEMA, BUDGET, table),
    "column": lambda table: tm.Column("a", table, 1.0),
    "cube": lambda table: tm.Schema.cube(table),
}


# Doors for paths, options of files, and words; a table is never one of these.
MISPLACED |= {
    "rounds": lambda table: tm.synthesize(rows(), SCHEMA, BUDGET, rounds=table),
    "ledger": lambda table: tm.LedgerFile.open(table),
    "new ledger": lambda table: tm.LedgerFile.create(table, BUDGET),
    "timeout": lambda table: tm.LedgerFile.create("no ledger.json", BUDGET, timeout=table),
    "law": lambda table: tm.Charge("p", table, 1.0, 1.0, "L1", 1, "given"),
    "norm": lambda table: tm.Charge("p", "laplace", 1.0, 1.0, table, 1, "given"),
    "special": lambda table: tm.Column("a", 0, 1, special=[table]),
    **{option: lambda table, option=option: TableFile("t.csv", **{option: table})
       for option in ("delimiter", "decimal", "encoding", "date_format", "header")},
}


@pytest.mark.parametrize("door", list(MISPLACED))
@pytest.mark.parametrize("table", [frame(), rows(), rows().tolist(), pa.table({"a": [MARKER] * 9})],
                         ids=lambda table: type(table).__name__)
def test_a_table_in_the_wrong_place_is_not_quoted(door, table):
    with pytest.raises((InputError, BudgetError), match=f"not .*{type(table).__name__}") as caught:
        MISPLACED[door](table)
    assert str(int(MARKER)) not in str(caught.value)


@pytest.mark.parametrize("door", [lambda table: release(table), lambda table: tm.measure_part(table, tm.design(
    3, SCHEMA, BUDGET))], ids=["release", "part"])
@pytest.mark.parametrize("cell", [WORD, f"{WORD}\0", f"{WORD}\ud800"], ids=["word", "nul", "half a letter"])
def test_a_column_of_texts_is_not_quoted_as_a_list_of_paths(door, cell):
    assert "file number 1 in the list of 3 files" in refused(lambda: door([cell, cell, "x"]))


class Quoting:
    """What no error of its own may leave by."""

    def __hash__(self):
        raise ValueError(WORD)


class QuotingNumber(float):
    def __float__(self):
        raise ArithmeticError(WORD)

    __hash__ = float.__hash__


@pytest.mark.parametrize("name", [Quoting(), QuotingNumber(1.0), np.complex128(0.5 + 1j), [WORD]],
                         ids=lambda name: type(name).__name__)
def test_persons_of_strange_classes_are_refused_without_a_quote(name):
    table = frame(who=pd.Series([name, *range(39)], dtype=object))
    schema = tm.Schema(SCHEMA.columns, person="who")
    assert "must hold texts or numbers" in refused(lambda: release(table, schema))
