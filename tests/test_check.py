"""A look at a private table before its release: every fault is found, and nothing else is."""

import contextlib
import datetime
import gzip
import json
import logging
import os
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_cli import run as run  # a fixture

import trigmech as tm
from trigmech.errors import InputError
from trigmech.inspection.findings import BOUNDS, FEWEST, Finding, Findings
from trigmech.inspection.tallies import COUNTED, Different, DifferentTexts, Frequent, MarkedRows
from trigmech.tables.csv_cells import floats_of, times_of
from trigmech.tables.lenient import cause_of_date, cause_of_number
from trigmech.tables.parquet_files import ParquetFiles
from trigmech.tables.reader import TableFile

DATA = Path(os.environ.get("TRIGMECH_DATA") or "absent")
N = 400
TOWNS = [f"town {k}" for k in range(7)]
CODES = [str(10 + k) for k in range(25)]

# A schema and a table in which each column has faults of its own; the file has a wrong delimiter and encoding as well.
COLUMNS = [
    tm.Column("mark", 0, 100), tm.Column("sign", 0, 100), tm.Column("thousands", 0, 10_000), tm.Column("unit", 0, 100),
    tm.Column("word", 0, 100), tm.Column("form", "2020-01-01", "2024-12-31", kind="datetime"),
    tm.Column("feb", "2020-01-01", "2024-12-31", kind="datetime"), tm.Column("gap", 0, 100),
    tm.Column("gap town", kind="categorical", categories=TOWNS),
    tm.Column("gap day", "2020-01-01", "2024-12-31", kind="datetime"),
    tm.Column("town", kind="categorical", categories=TOWNS), tm.Column("capitals", kind="ordinal", categories=TOWNS),
    tm.Column("inf", 0, 100), tm.Column("far", 0, 100), tm.Column("huge", 0, 100), tm.Column("out", 0, 100),
    tm.Column("early", "2020-01-01", "2024-12-31", kind="datetime"),
    tm.Column("else", kind="categorical", categories=TOWNS, other="town 3"),
    tm.Column("hour", "2020-01-01", "2024-12-31", kind="datetime"), tm.Column("whole", 0, 100, kind="integer"),
    tm.Column("cents", 0, 100, decimals=1), tm.Column("two", 0, 1, kind="binary"), tm.Column("gone", 0, 100),
    tm.Column("near name", 0, 100), tm.Column("again", 0, 100), tm.Column("number", 0, 200_000, kind="integer"),
    tm.Column("same", 0, 100), tm.Column("same town", kind="categorical", categories=TOWNS),
    tm.Column("wide", 0, 10**6, decimals=2), tm.Column("codes", kind="categorical", categories=CODES),
    tm.Column("never", kind="categorical", categories=[*TOWNS, "Atlantis"]), tm.Column("zero", 0, 100),
    tm.Column("price", 0, 10_000_000), tm.Column("names", kind="categorical", categories="private"),
    tm.Column("missing code", 0, 100),
]
SCHEMA = tm.Schema(COLUMNS, ["whole <= 100", "out < 1000 implies town != 'town 5'"], person="who")


def clean_cells():
    """Cells by column, in which only suspicious choices of the schema can be found."""
    rng = np.random.default_rng(30)
    number = [f"{value:.4f}" for value in rng.uniform(1, 99, N)]
    day = [str(np.datetime64("2021-01-01") + int(k)) for k in rng.integers(0, 900, N)]
    cells = {column.name: list(number) for column in COLUMNS}
    for name in ("form", "feb", "gap day", "early", "hour"):
        cells[name] = list(day)
    for name in ("gap town", "town", "capitals", "else", "never"):
        cells[name] = [TOWNS[k % 7] for k in range(N)]
    cells |= {"whole": [str(k % 40) for k in range(N)], "cents": [f"{k % 97}.5" for k in range(N)],
              "two": [str(k % 2) for k in range(N)], "number": [str(100_000 + 37 * k) for k in range(N)],
              "same": ["7.25"] * N, "same town": ["town 2"] * N, "wide": [f"{50 + k % 300 / 100}" for k in range(N)],
              "codes": [CODES[k % 25] for k in range(N)], "zero": ["0" if k % 3 else number[k] for k in range(N)],
              "price": [f"{k * 71.05:.2f}" for k in range(N)], "names": [f"Smith the {k}th" for k in range(N)],
              "missing code": ["9999" if k % 10 == 4 else number[k] for k in range(N)],
              "who": [f"p{k // 2}" for k in range(N)]}
    return cells


def planted():
    """The text of the table, and what is to be found: column, severity and kind, with the count and the lines."""
    cells = clean_cells()
    # Row k stands on line k + 2: no row before the last one has line breaks or comes after an empty line.
    found = {}

    def plant(name, kind, rows, value, severity="refused"):
        for row in rows:
            cells[name][row] = value
        found[name, severity, kind] = (len(rows), tuple(row + 2 for row in rows[:5]))

    plant("mark", "mark", [3, 8], "n/a")
    plant("sign", "decimal sign", [0, 17, 90], "12,5")
    plant("thousands", "thousands", [11], "1,234.5")
    plant("unit", "unit", [12, 13], "45 kg")
    plant("word", "word", list(range(20, 40)), "heavy")
    plant("form", "form", [5], "31.12.2021")
    plant("form", "time of day", [14], "9:45 pm")
    plant("feb", "no such date", [6, 60], "2021-02-30")
    plant("gap", "missing", [7, 77, 177], "")
    plant("gap town", "missing", [9], "NA")
    plant("gap day", "missing", [10, 110], "?")
    plant("town", "no category", [15, 16, 18], "Springfield")
    plant("capitals", "no category", [19], "Town 4")
    plant("inf", "infinite", [21, 22], "-inf", "clipped")
    plant("far", "far outside", [23], "-250", "clipped")
    plant("huge", "far outside", [24, 25], "1e300", "clipped")
    plant("out", "outside", [26], "101.5", "clipped")
    plant("early", "outside", [27, 28], "2019-07-01", "clipped")
    plant("else", "other", [29, 31], "Erewhon", "clipped")
    plant("hour", "finer", [30], "2021-03-04T05:06:07", "clipped")
    plant("whole", "not whole", [32], "3.5", "broken")
    plant("cents", "decimals", [33, 34], "1.25", "broken")
    plant("two", "neither", [35], "0.5", "broken")
    plant("who", "nobody", [36, 300], "")
    found |= {("gone", "refused", "absent"): (1, ()), ("near name", "refused", "absent"): (1, ()),
              ("again", "refused", "twice"): (2, ()), ("number", "hint", "identifier"): (N, ()),
              ("same", "hint", "constant"): (N, ()), ("same town", "hint", "constant"): (N, ()),
              ("wide", "hint", "too wide"): (N, ()), ("codes", "hint", "numbers"): (25, ()),
              ("never", "hint", "never occurs"): (1, ()), ("zero", "hint", "special"): (266, (3,)),
              ("price", "hint", "decimals"): (N, ()), ("names", "hint", "identifier"): (N, ()),
              ("missing code", "clipped", "far outside"): (40, (6, 16, 26, 36, 46)),
              ("missing code", "hint", "special"): (40, (6,))}
    broken = [k for k in range(N) if k % 7 == 5 and k not in (15, 16, 18)]
    found[None, "broken", "constraint"] = (len(broken), tuple(k + 2 for k in broken[:5]))
    del cells["gone"]
    names = [{"near name": "Near_Name"}.get(name, name) for name in cells]
    rows = [";".join(values) for values in zip(*cells.values(), strict=True)]
    more = rows[0].rpartition(";")[0]
    # After all others: an empty line, and rows with too few cells.
    text = "\n".join([";".join([*names, "again", "café"]), *(f"{row};1;é" for row in rows), "", more, more]) + "\n"
    found |= {(None, "refused", "empty line"): (1, (N + 2,)), (None, "refused", "cells"): (2, (N + 3, N + 4)),
              (None, "refused", "delimiter"): (1, ()), (None, "refused", "encoding"): (1, (1,))}
    return text, found


def seen(findings):
    return {(each.column, each.severity, each.kind): (each.count, each.lines) for each in findings}


def test_every_one_of_more_than_thirty_planted_faults_is_found_and_no_other(tmp_path):
    text, expected = planted()
    path = tmp_path / "t.csv"
    path.write_bytes(text.encode("cp1252"))
    found = tm.check(path, SCHEMA)
    assert seen(found) == expected
    assert len(found) == len(expected) > 40
    assert found.refused
    assert found.places == "line"
    assert found.rows == N
    told = str(found)
    # No cell is quoted, but everything has a sentence and a remedy.
    for cell in ("heavy", "Springfield", "12,5", "Erewhon", "45 kg", "Smith", "9999"):
        assert cell not in told.replace("such as 9999", "")
        assert cell not in json.dumps(found.to_dict()).replace("such as 9999", "")
    assert all(each.sentence and each.remedy for each in found)
    assert BOUNDS in told
    assert repr(found) == "Findings(private)"
    severities = [each.severity for each in found]
    assert severities == sorted(severities, key=["refused", "clipped", "broken", "hint"].index)


def test_line_numbers_are_those_of_an_editor_whatever_stands_between_the_rows(tmp_path):
    schema = tm.Schema([tm.Column("x", 0, 9, decimals=0), tm.Column("c", kind="categorical", categories=["a\nb", "a"])])
    rows = ["1,a"] * 30
    text = "\n\nx,c\n" + "\n".join([*rows[:3], '2,"a\nb"', "z,a", "1,a,1", '"3\n",a', "", "1", "zz,a", *rows]) + "\n\n"
    (tmp_path / "t.csv").write_text(text)
    lines = text.split("\n")
    found = seen(tm.check(tmp_path / "t.csv", schema))
    assert found == {("x", "refused", "word"): (2, (lines.index("z,a") + 1, lines.index("zz,a") + 1)),
                     (None, "refused", "cells"): (2, (lines.index("1,a,1") + 1, lines.index("1") + 1)),
                     (None, "refused", "empty line"): (1, (lines.index("", 3) + 1,))}


CLEAN = {
    "wdbc": ["id", "diagnosis", *(f"{name} {part}" for part in ("mean", "error", "worst") for name in (
        "radius", "texture", "perimeter", "area", "smoothness", "compactness", "concavity", "points", "symmetry",
        "dimension"))],
    "adult": ["age", "workclass", "fnlwgt", "education", "years", "marital", "occupation", "relationship", "race",
              "sex", "gain", "loss", "hours", "country", "income"]}
# Round numbers above the largest possible measurements, as knowledge would have them.
WDBC = [40, 60, 250, 3_000, 0.2, 0.5, 0.5, 0.25, 0.4, 0.1, 4, 6, 30, 700, 0.04, 0.2, 0.5, 0.06, 0.1, 0.04, 50, 60, 300,
        5_000, 0.3, 1.5, 1.5, 0.4, 0.8, 0.3]
# These were measured with fewer digits than a ten-thousandth of their range has.
DECIMALS = {"texture mean": 2, "texture worst": 2, "symmetry mean": 4, "symmetry worst": 4}


def wdbc():
    frame = pd.read_csv(DATA / "wdbc" / "wdbc.data", names=CLEAN["wdbc"])
    columns = [tm.Column("diagnosis", kind="categorical", categories=["M", "B"]),
               *(tm.Column(name, 0, upper, decimals=DECIMALS.get(name)) for name, upper in zip(
                   CLEAN["wdbc"][2:], WDBC, strict=True))]
    return frame, tm.Schema(columns)


def adult():
    frame = pd.read_csv(DATA / "adult" / "adult.data", names=CLEAN["adult"], skipinitialspace=True)
    special = {"gain": (0,), "loss": (0,)}
    bounds = {"age": (17, 90), "fnlwgt": (10_000, 1_500_000), "years": (1, 16), "gain": (0, 99_999), "loss": (0, 5_000),
              "hours": (1, 99)}
    columns = [tm.Column(name, *bounds[name], kind="integer", special=special.get(name, ())) if name in bounds else
               tm.Column(name, kind="categorical", categories=sorted(frame[name].unique())) for name in CLEAN["adult"]]
    return frame, tm.Schema(columns)


@pytest.mark.skipif(not DATA.exists(), reason="the data sets are not there")
@pytest.mark.parametrize("make", [wdbc, adult])
def test_nothing_is_found_in_clean_tables(make, tmp_path):
    frame, schema = make()
    path = tmp_path / "t.csv"
    frame.to_csv(path, index=False)
    found = tm.check(path, schema)
    assert seen(found) == {}
    assert not found.refused


@pytest.mark.skipif(not DATA.exists(), reason="the data sets are not there")
def test_numbers_of_patients_look_like_identifiers_and_a_value_of_many_rows_like_a_special_one():
    frame, schema = wdbc()
    plain = [tm.Column(column.name, 0, column.upper) if column.decimals else column for column in schema.columns]
    more = tm.Schema([tm.Column("id", 0, 10**9, kind="integer"), *plain])
    assert seen(tm.check(frame, more)) == {("id", "hint", "identifier"): (569, ()), **{
        (name, "hint", "decimals"): (569, ()) for name in DECIMALS}}
    frame, schema = adult()
    plain = [tm.Column(column.name, 0, column.upper, kind="integer") if column.special else column
             for column in schema.columns]
    assert {(each.column, each.kind) for each in tm.check(frame, tm.Schema(plain))} == {
        ("gain", "special"), ("loss", "special")}


@pytest.mark.parametrize("month", ["January", "May", "September", "sept.", "Février", "Dez"])
def test_a_date_with_the_name_of_its_month_is_a_date_in_another_form(month):
    for text in (f"3 {month} 2021", f"03-{month}-21", f"3. {month} 2021", f"{month} 3, 2021", f"{month} 03 2021"):
        assert cause_of_date(text, None) == "form", text


def test_what_is_missing_or_infinite_is_not_also_a_number_that_is_not_whole():
    schema = tm.Schema([tm.Column("n", 0, 10, kind="integer", missing="keep")])
    found = tm.check(pd.DataFrame({"n": [1.0, np.nan, np.inf, 2.5, -np.inf] * 10}), schema)
    assert {each.kind: each.count for each in found.found if each.kind in ("infinite", "not whole")} == {
        "infinite": 20, "not whole": 10}


def test_constraints_of_private_categories_are_not_judged():
    schema = tm.Schema([tm.Column("c", kind="categorical", categories="private", missing="keep"),
                        tm.Column("x", 0, 10)], ["c is missing implies x > 5"])
    found = tm.check(pd.DataFrame({"c": ["a", "b", None] * 10, "x": [1.0, 7.0, 6.0] * 10}), schema)
    assert [each for each in found.found if each.kind == "constraint"] == []


def test_a_missing_category_does_not_count_as_another_one():
    schema = tm.Schema([tm.Column("c", kind="categorical", categories=("a", "b"), other="b", missing="keep")])
    found = tm.check(pd.DataFrame({"c": ["a", None, "x", "b", None, "y"] * 10}), schema)
    (other,) = [each for each in found.found if each.kind == "other"]
    assert (other.count, other.lines[:2]) == (20, (3, 6))


# Any table is refused as a release refuses it

HOSTILE = ["1", "0.5", " 2 ", "-3", "1e5", "inf", "-Infinity", "nan", "NaN", "", "NA", "?", "null", "true", "FALSE",
           "1,5", "1.234,5", "0x10", "1_000", "1e", "--1", "١", "∞", "1 kg", "5%", "$3", "2024-02-29", "2023-02-29",
           "2024-01-01T10:00", "2024-01-01T25:00", "20240101", "31.12.2020", "a", "A", "b ", "\ta", "1.0", "01", "c",
           "[red]a[/red]", "\x1b[31m", "=1+1", "1" * 400, "1e999", "9" * 30, "é"]
TYPES = tm.Schema([tm.Column("x", 0, 10), tm.Column("n", 0, 10, kind="integer", missing="keep"),
                   tm.Column("day", "2024-01-01", "2024-12-31", kind="datetime", missing="centre"),
                   tm.Column("c", kind="categorical", categories=["a", "b"]),
                   tm.Column("k", kind="categorical", categories=[1, 2], other=2),
                   tm.Column("o", kind="ordinal", categories=[0.5, 1, 2.5], missing="keep"),
                   tm.Column("p", kind="categorical", categories="private", missing="keep")],
                  ["x < 5 implies c = 'a'"])
GOOD = ["3", "4", "2024-05-05", "a", "1", "2.5", "word"]
cells = st.sampled_from(HOSTILE) | st.text(st.characters(exclude_characters='",\r\n\0', exclude_categories=["Cs"]),
                                            max_size=8)


def refused_by_a_release(path, schema):
    complete = schema.with_categories(dict.fromkeys(schema.private_categories, ()))
    try:
        for table in TableFile(path).chunks(schema):
            complete.to_cube(table)
    except InputError:
        return True
    return False


@settings(max_examples=30)
@given(st.lists(st.tuples(st.integers(0, 29), st.integers(0, 6), cells), max_size=6), st.booleans())
def test_a_table_is_refused_if_and_only_if_a_release_refuses_it(tmp_path_factory, changes, quoted):
    rows = [list(GOOD) for _ in range(30)]
    for row, column, cell in changes:
        rows[row][column] = cell
    quote = '"' if quoted else ""
    path = tmp_path_factory.getbasetemp() / "hostile.csv"
    lines = [",".join(f'"{cell}"' if "," in cell else quote + cell + quote for cell in row) for row in rows]
    path.write_text("\n".join([",".join(TYPES.names), *lines]) + "\n", encoding="utf-8")
    found = tm.check(path, TYPES)
    assert found.refused == refused_by_a_release(path, TYPES), found
    assert found.rows == 30
    # Every finding stands where something was changed; constants are what the others are.
    changed = {TYPES.names[column] for _, column, _ in changes}
    assert {each.column for each in found if each.kind not in ("constant", "never occurs")} <= changed | {None}


OBJECTS = [1, 2.5, "1", "a", None, float("nan"), pd.NA, True, float("inf"), 10**400, Decimal("1"), Decimal("NaN"),
           datetime.date(2024, 2, 29), datetime.datetime(2024, 3, 1, 12), "2024-02-29", "x", [1], {"a": 1}, b"a", 1j]


@pytest.mark.nightly  # By day a file, with the same findings.
@settings(max_examples=30)
@given(st.lists(st.tuples(st.integers(0, 29), st.integers(0, 6), st.sampled_from(OBJECTS)), max_size=5), st.booleans())
def test_a_dataframe_is_refused_if_and_only_if_a_release_refuses_it(changes, array):
    good = [3.0, 4, "2024-05-05", "a", 1, 2.5, "word"]
    table = np.empty((30, 7), dtype=object)
    table[:] = good
    for row, column, value in changes:
        table[row, column] = value
    given_table = table if array else pd.DataFrame(table, columns=list(TYPES.names))
    complete = TYPES.with_categories({"p": ()})
    try:
        complete.to_cube(given_table)
        refused = False
    except InputError:
        refused = True
    assert tm.check(given_table, TYPES).refused == refused


def test_a_cell_of_digits_and_points_alone_has_no_unit():
    assert [cause_of_number(cell, ".") for cell in ("1.2.3", "1-2", "12.5.", "(1.5)", "1.2.3 kg", "5 %", "€ 7")] == [
        "word", "word", "word", "unit", "unit", "unit", "unit"]


@settings(max_examples=150)
@given(cells.map(str.strip), st.sampled_from(".,"))
def test_a_cell_is_a_number_or_a_date_as_the_reader_takes_it(cell, decimal):
    from trigmech.tables.csv_cells import with_points

    text = pa.array([cell])
    if not cell:
        return
    assert (cause_of_number(cell, decimal) == "") == (floats_of(with_points(text, decimal)) is not None)
    assert (cause_of_date(cell, None) == "") == (times_of(text, None) is not None)


@settings(max_examples=40)
@given(st.binary(max_size=400))
def test_any_bytes_end_in_findings(tmp_path_factory, data):
    path = tmp_path_factory.getbasetemp() / "bytes.csv"
    path.write_bytes(b"x,n\n" + data)
    schema = tm.Schema([tm.Column("x", 0, 10), tm.Column("n", 0, 10, kind="integer")])
    found = tm.check(path, schema)
    assert found.refused >= refused_by_a_release(path, schema)


ROWS = "".join(f"{k % 9}.2345,{k % 7}\n" for k in range(40))
TWO = tm.Schema([tm.Column("x", 0, 10), tm.Column("n", 0, 10, kind="integer")])
TEXT = "x,n\n" + ROWS
FILES = {
    "plain": TEXT, "carriage returns": TEXT.replace("\n", "\r\n"), "old line ends": TEXT.replace("\n", "\r"),
    "a byte order mark": "\ufeff" + TEXT, "no last line end": TEXT + "1.5,2",
    "empty lines at the ends": f"\n\n{TEXT}\n\n", "other columns": "z,n,x\n" + ROWS.replace("\n", ",3.5\n"),
    "quotes": TEXT.replace(",", ',"').replace("\n", '"\n').replace('x,"n"', "x,n"),
    "an empty line": f"{TEXT}\n{ROWS}", "too many cells": TEXT + "1,2,3\n", "an open quote": f'{TEXT}1,"2\n{ROWS}',
    "a name twice": "x,n,x\n" + ROWS.replace("\n", ",1\n"),
    "another name twice": "x,n,z,z\n" + ROWS.replace("\n", ",1,1\n"),
    "semicolons": TEXT.replace(",", ";"), "tabs": TEXT.replace(",", "\t"), "no header": ROWS,
    "utf-16": TEXT.encode("utf-16"), "latin letters": TEXT.replace("\n", ",é\n").encode("cp1252"),
    "a workbook": b"PK\x03\x04" + b"0" * 99, "a zero byte": TEXT + "\0,1\n", "nothing but a header": "x,n\n",
    "nothing but white space": "\n \n",
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_is_refused_if_and_only_if_a_release_refuses_it(name, tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(FILES[name] if isinstance(FILES[name], bytes) else FILES[name].encode())
    found = tm.check(path, TWO)
    assert found.refused == refused_by_a_release(path, TWO), found
    assert found.refused == (name not in ("plain", "a byte order mark", "carriage returns", "old line ends", "quotes",
                                          "no last line end", "empty lines at the ends", "other columns"))


def test_compressed_and_damaged_files_are_told(tmp_path):
    path = tmp_path / "t.csv.gz"
    path.write_bytes(gzip.compress(TEXT.encode()))
    assert len(tm.check(path, TWO)) == 0
    path.write_bytes(gzip.compress(TEXT.encode())[:-30])
    assert tm.check(path, TWO).refused
    table = pa.Table.from_arrays([pa.array([1.0] * 30)] * 3, names=["x", "n", "n"])
    pq.write_table(table, tmp_path / "t.parquet")
    assert ("n", "refused", "twice") in seen(tm.check(tmp_path / "t.parquet", TWO))
    (tmp_path / "t.parquet").write_bytes(b"PAR1 but no more")
    assert tm.check(tmp_path / "t.parquet", TWO).refused


# Other tables

FRAMES = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table}


@pytest.mark.parametrize("library", FRAMES)
def test_dataframes_are_looked_at_as_files_are(library, tmp_path):
    schema = tm.Schema([tm.Column("x", 0, 10), tm.Column("day", "2024-01-01", "2024-12-31", kind="datetime"),
                        tm.Column("c", kind="categorical", categories=["a", "b"])], ["x > 1 implies c = 'a'"],
                       person="who")
    table = {"x": [0.123, 15.5, 40.5, float("inf")] * 10, "day": ["2024-05-05"] * 39 + ["never"],
             "c": ["a", "b", "c", None] * 10, "who": [*range(39), None]}
    found = tm.check(FRAMES[library](table), schema)
    assert found.places == "row"
    assert seen(found) == {
        ("who", "refused", "nobody"): (1, (40,)), ("day", "refused", "type"): (1, (40,)),
        ("c", "refused", "missing"): (10, (4, 8, 12, 16, 20)),
        ("c", "refused", "no category"): (10, (3, 7, 11, 15, 19)),
        ("x", "clipped", "infinite"): (10, (4, 8, 12, 16, 20)), ("x", "clipped", "outside"): (10, (2, 6, 10, 14, 18)),
        ("x", "clipped", "far outside"): (10, (3, 7, 11, 15, 19)), (None, "broken", "constraint"): (
            10, (2, 6, 10, 14, 18))}
    if library == "pyarrow":
        pq.write_table(FRAMES[library](table), tmp_path / "t.parquet")
        assert seen(tm.check(tmp_path / "t.parquet", schema)) == seen(found)


def test_values_of_a_wrong_type_are_counted_and_arrays_and_absent_columns_are_told():
    schema = tm.Schema([tm.Column("x", 0, 10), tm.Column("y", 0, 10)])
    frame = pd.DataFrame({"x": [1.2345, "2", [3]] * 10})
    assert seen(tm.check(frame, schema)) == {("y", "refused", "absent"): (1, ()),
                                             ("x", "refused", "type"): (20, (2, 3, 5, 6, 8))}
    assert len(tm.check(np.random.default_rng(0).uniform(0, 10, (30, 2)), schema)) == 0
    assert tm.check(np.zeros((30, 3)), schema).refused
    assert tm.check([[1.0], [2.0, 3.0]], schema).refused
    whose = tm.Schema(schema.columns, person="who")
    assert seen(tm.check(np.zeros((30, 2)), whose)) == {("who", "refused", "absent"): (1, ())}
    with pytest.raises(InputError, match="there is no such file"):
        tm.check("absent.csv", schema)


def test_several_files_are_one_table_whose_rows_are_counted_on(tmp_path):
    schema = tm.Schema([tm.Column("x", 0, 10), tm.Column("y", 0, 10)])
    values = np.random.default_rng(1).uniform(0, 10, 50)
    for k, part in enumerate((values[:20], values[20:])):
        part = part.copy()
        part[3] = np.nan
        pq.write_table(pa.table({"x": part} | ({"y": part} if k else {})), tmp_path / f"{k}.parquet")
    found = seen(tm.check(ParquetFiles(str(tmp_path / "*.parquet")), schema))
    assert found[("x", "refused", "missing")] == (2, (4, 24))
    assert found[("y", "refused", "absent")] == (1, ())


def test_a_damaged_file_among_several_is_named(tmp_path):
    schema, pattern = tm.Schema([tm.Column("x", 0, 10)]), str(tmp_path / "*.parquet")
    whole = {"0": [1.0, 20.0, 3.0], "1": [5.0], "2": [1.0, 2.0, 30.0]}
    for name, values in whole.items():
        pq.write_table(pa.table({"x": values}), tmp_path / f"{name}.parquet")
    files = ParquetFiles(pattern)
    (tmp_path / "1.parquet").write_bytes(b"PAR1 but no more")
    with pytest.raises(InputError, match=r"cannot read '.*1\.parquet': it is not a Parquet file, or is damaged"):
        tm.check(ParquetFiles(pattern), schema)
    # Also if it is damaged after it was found: the others are read.
    found = tm.check(files, schema)
    assert [each.kind for each in found.found if each.severity == "refused" and each.kind == "file"] == ["file"]
    assert sum(each.count for each in found.found if each.severity == "clipped") == 2


def test_identifiers_of_two_types_in_several_files_are_refused(tmp_path):
    schema = tm.Schema([tm.Column("x", 0, 10)], person="who")
    numbers, texts = np.arange(25), np.arange(25, 50).astype(str)
    for second, refused in ((texts, True), (numbers + 25, False)):
        for k, who in enumerate((numbers, second)):
            pq.write_table(pa.table({"x": np.linspace(1, 9, 25), "who": who}), tmp_path / f"{k}.parquet")
        pattern = ParquetFiles(str(tmp_path / "*.parquet"))
        found = [each for each in tm.check(pattern, schema).found if each.kind == "type"]
        assert [each.severity for each in found] == ["refused"] * refused
        with pytest.raises(InputError) if refused else contextlib.nullcontext():
            tm.synthesize(pattern, schema, tm.Budget(1.0), tm.TableMechanism(), np.random.default_rng(0))
    # A file without identifiers says that alone.
    pq.write_table(pa.table({"x": np.linspace(1, 9, 25)}), tmp_path / "1.parquet")
    found = tm.check(ParquetFiles(str(tmp_path / "*.parquet")), schema).found
    assert [each.kind for each in found if each.severity == "refused"] == ["absent"]


def test_too_few_rows_or_persons_are_refused_as_by_the_command(tmp_path):
    schema = tm.Schema([tm.Column("x", 0, 10)])
    values = np.random.default_rng(2).uniform(0, 10, 60)
    for n, refused in ((1, True), (FEWEST - 1, True), (FEWEST, False)):
        found = tm.check(pd.DataFrame({"x": values[:n]}), schema)
        assert found.refused == refused
        assert [each.kind for each in found] == ["too few"] * refused
    persons = pd.DataFrame({"x": values, "who": np.arange(60) // 4})
    assert [each.kind for each in tm.check(persons, tm.Schema(schema.columns, person="who"))] == ["too few"]


def test_a_file_without_a_header_and_a_header_that_is_a_row_are_told(tmp_path):
    schema = tm.Schema([tm.Column("x", 0, 10, decimals=2), tm.Column("y", 0, 10, decimals=3)])
    (tmp_path / "t.csv").write_text("".join(f"{k % 9}.{k % 7}3,{k % 8}.{k}5\n" for k in range(40)))
    assert seen(tm.check(tmp_path / "t.csv", schema, file={"header": False})) == {}
    found = seen(tm.check(tmp_path / "t.csv", schema))
    assert {("x", "refused", "absent"), ("y", "refused", "absent"), (None, "refused", "header")} == set(found)
    three = tm.Schema([*schema.columns, tm.Column("z", 0, 1)])
    assert (None, "refused", "columns") in seen(tm.check(tmp_path / "t.csv", three, file={"header": False}))
    (tmp_path / "sep.csv").write_text("sep=;\nx;y\n" + "".join(f"{k % 9}.{k % 7}3;{k % 8}.{k}5\n" for k in range(40)))
    assert seen(tm.check(tmp_path / "sep.csv", schema)) == {(None, "refused", "file"): (1, ())}
    (tmp_path / "open.csv").write_text('x,y\n1,"2\n' + "1,2\n" * 40)
    assert tm.check(tmp_path / "open.csv", schema).refused


# What is kept of values

def test_frequent_values_are_those_of_counting_and_are_never_lost():
    rng = np.random.default_rng(3)
    values = rng.integers(0, 500, 3_000).astype(float)
    frequent, places = Frequent(), np.arange(3_000) + 2
    for at in range(0, 3_000, 700):
        frequent.add(values[at : at + 700], places[at : at + 700])
    different, first, counts = np.unique(values, return_index=True, return_counts=True)
    assert frequent.complete
    assert frequent.different == len(different)
    assert {value: (count, lines) for value, count, lines in frequent.above(0.0)} == {
        value: (count, (at + 2,)) for value, count, at in zip(different, counts, first, strict=True)}
    # Among very many others a value of one row in a hundred is found, and its count is nearly right.
    many = Frequent()
    values = rng.uniform(0, 1, 60_000)
    values[rng.choice(60_000, 600, replace=False)] = 7.0
    for at in range(0, 60_000, 9_000):
        many.add(values[at : at + 9_000], np.arange(9_000)[: len(values[at : at + 9_000])])
    assert not many.complete
    (found,) = many.above(300)
    assert found[0] == 7.0
    assert 600 - 60_000 / COUNTED <= found[1] <= 600
    assert COUNTED < many.different <= len(np.unique(values))


def test_places_and_differences_are_those_of_the_whole():
    places = MarkedRows()
    marked = np.random.default_rng(4).uniform(size=100) < 0.3
    for at in range(0, 100, 7):
        places.add(marked[at : at + 7], np.arange(at, min(at + 7, 100)))
    assert places.count == marked.sum()
    assert places.first == tuple(np.flatnonzero(marked)[:5])
    for values, different in (([1.0, 2.0, 3.0, 4.0], True), ([1.0, 2.0, 3.0, 1.0], False),
                              ([1.0, 1.0, 2.0, 3.0], False)):
        numbers, texts = Different(), DifferentTexts()
        for part in (values[:2], values[2:]):
            numbers.add(np.array(part))
            texts.add(set(part), len(part))
        assert (numbers.all, texts.all) == (different, different)


# The command

def test_the_command_says_that_it_is_private_and_ends_with_the_status_of_a_refusal(run, tmp_path, caplog):
    (tmp_path / "s.toml").write_text('[columns."[red]x[/red]"]\nlower = 0\nupper = 10\n')
    (tmp_path / "good.csv").write_text("[red]x[/red]\n" + "".join(f"{k % 9}.{k:02}37\n" for k in range(40)))
    (tmp_path / "bad.csv").write_text("[red]x[/red]\n" + "".join(f"{k % 9}.{k:02}37\n" for k in range(40)) + "Nope\n\n")
    with caplog.at_level(logging.DEBUG):
        status, said, told = run("check", "good.csv", "--schema", "s.toml")
        assert (status, told.startswith("NOT PRIVATE, for you alone")) == (0, True)
        assert said.startswith("Nothing was found in 40 rows")
        status, said, told = run("check", "bad.csv", "--schema", "s.toml")
    assert status == 3
    assert "'[red]x[/red]': 1 cell that cannot be read as the schema's kind (line 42)" in said
    assert "'[red]x[/red]': 1 missing value" in said
    assert "Nope" not in said + told
    assert "Traceback" not in said + told
    assert not caplog.records
    status, said, _ = run("check", "bad.csv", "--schema", "s.toml", "--json")
    facts = json.loads(said)
    assert (status, facts["private"], facts["refused"], facts["rows"]) == (3, True, True, 42)
    assert [each["kind"] for each in facts["findings"]] == ["word", "missing"]
    assert {path.name for path in tmp_path.iterdir()} == {"s.toml", "good.csv", "bad.csv"}
    # The older command has the same, on standard error.
    status, said, told = run("schema", "check", "s.toml", "--against", "bad.csv")
    assert status == 3
    assert "cannot be read" not in said
    assert "1 cell that cannot be read as the schema's kind (line 42)" in told
    assert run("check", "absent.csv", "--schema", "s.toml")[0] == 2
    assert run("check", "good.csv")[0] == 2


def test_a_name_that_commands_a_terminal_is_shown_and_not_obeyed():
    findings = Findings((Finding("\x1b[2J", "hint", "constant", 1, (), "a\x1b[2Jb", "c\r\n"),), 1, "row")
    assert all(sign.isprintable() or sign == "\n" for sign in str(findings))


PEAK = """
import resource, sys, trigmech as tm
from trigmech.schema.toml import load
found = tm.check(sys.argv[1], load(sys.argv[2]).schema)
assert found.rows == int(sys.argv[3]), found
assert [each.kind for each in found] == ["missing", "outside"], found
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


@pytest.mark.nightly  # By day test_table_file.py sees that the reader needs no more memory for more rows.
def test_memory_does_not_grow_with_the_rows(tmp_path):
    rng = np.random.default_rng(5)
    schema = tm.Schema([*(tm.Column(f"x{j}", 0, 100) for j in range(6)),
                        *(tm.Column(f"c{j}", kind="categorical", categories=TOWNS) for j in range(6))])
    from trigmech.schema.toml import save

    save(tmp_path / "s.toml", schema)
    block = pd.DataFrame({f"x{j}": rng.uniform(0, 100, 25_000) for j in range(6)} | {
        f"c{j}": rng.choice(TOWNS, 25_000) for j in range(6)})
    last = block.tail(1).assign(x0=101.0, c3="").to_csv(index=False, header=False)
    header, rows = block.to_csv(index=False).split("\n", 1)
    peaks = []
    for blocks in (1, 6):
        path = tmp_path / f"{blocks}.csv"
        with path.open("w") as file:
            file.writelines([header, "\n", *[rows] * blocks, last])
        done = subprocess.run([sys.executable, "-c", PEAK, path, tmp_path / "s.toml", str(blocks * 25_000 + 1)],
                              capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        peaks.append(float(done.stdout))
    # The larger file alone has 22 MB.
    assert peaks[1] < peaks[0] + 20, peaks


@pytest.mark.parametrize("form", ["frame", "csv", "parquet"])
def test_derived_columns_that_do_not_hold_are_counted(tmp_path, form):
    schema = tm.Schema([tm.Column("start", 0, 2_359, "integer"), tm.Column("before", 0, 200, missing="keep"),
                        tm.Column("after", 0, 200)],
                       derived=[tm.Derived("hour", "start // 100"), tm.Derived("change", "after - before"),
                                tm.Derived("ratio", "after / max(start, 1)"), tm.Derived("elsewhere", "2 * start"),
                                # Text is not compared, and hides no other column.
                                tm.Derived("part", 'lookup("t", start)', tables={"t": [[1, "a"]]})])
    rng = np.random.default_rng(0)
    n = 60
    frame = pd.DataFrame({"start": rng.integers(0, 2_360, n), "before": rng.uniform(50, 90, n).round(1),
                          "after": rng.uniform(50, 90, n).round(1)})
    frame.loc[5, "before"] = np.nan
    frame["hour"], frame["change"] = frame.start // 100, (frame.after - frame.before).round(1)
    frame["ratio"] = frame.after / frame.start.clip(lower=1)
    frame["part"] = "b"
    given = {"frame": frame, "csv": tmp_path / "t.csv", "parquet": tmp_path / "t.parquet"}

    def found():
        frame.to_csv(tmp_path / "t.csv", index=False)
        frame.to_parquet(tmp_path / "t.parquet")
        return {each.column: (each.count, each.lines) for each in tm.check(given[form], schema).found
                if each.kind == "derived"}

    assert found() == {}
    frame.loc[[3, 9], "hour"] += 1
    frame.loc[7, "change"] = np.nan
    frame.loc[5, "change"] = 4.0
    frame.loc[[0], "ratio"] += 10.0
    first = 2 if form == "csv" else 1
    assert found() == {"hour": (2, (3 + first, 9 + first)), "change": (2, (5 + first, 7 + first)),
                       "ratio": (1, (first,))}
    said = tm.check(given[form], schema)
    assert not said.refused
    assert "start // 100" in str(said)
    # A release does not look at them.
    made = tm.synthesize(frame, schema, tm.Budget(1.0, 1e-5), rng=rng).sample(30, rng)
    assert (made["hour"] == made["start"] // 100).all()


def test_a_file_of_which_no_row_can_be_read_ends_the_command_as_wrong_input(run, tmp_path):
    (tmp_path / "s.toml").write_text("[columns.x]\nlower = 0\nupper = 10\n")
    for name, content in (("head.csv", b"x\n"), ("book.xlsx", b"PK\x03\x04" + b"0" * 99), ("empty.csv", b"")):
        (tmp_path / name).write_bytes(content)
        for command in (["check", name, "--schema", "s.toml"], ["schema", "check", "s.toml", "--against", name]):
            status, said, told = run(*command)
            assert (status, "findings" in said, f"cannot read '{name}'" in told) == (2, False, True), (command, told)
    (tmp_path / "one.csv").write_text("x,y\n1,2\n")
    status, said, _ = run("check", "one.csv", "--schema", "s.toml")
    assert (status, "1 row was read" in said) == (3, True)


def test_one_value_and_several_are_told_of_in_their_own_grammar():
    schema = tm.Schema([tm.Column("a", 0, 1), tm.Column("b", kind="categorical", categories=("x", "y"), other="y")])
    told = [each.sentence for each in tm.check(pd.DataFrame({"a": [7.5, 0.5] * 20, "b": ["z"] + ["x"] * 39}), schema)]
    assert "20 values outside the bounds by more than the width of the bounds" in told
    assert any(each.startswith("1 value not among the categories, which counts as other") for each in told)
    told = [each.sentence for each in tm.check(pd.DataFrame({"a": [1.5] + [0.5] * 39, "b": ["z", "z"] + ["x"] * 38}),
                                               schema)]
    assert "1 value outside the bounds, which counts as the nearer bound" in told
    assert any(each.startswith("2 values not among the categories, which count as other") for each in told)
