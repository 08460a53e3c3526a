import datetime
import decimal
import math
import subprocess
import sys

import numpy as np
import oracles
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pytest

import trigmech as tm
from trigmech.errors import InputError
from trigmech.schema.toml import save
from trigmech.tables import column_types
from trigmech.tables import frames as tables
from trigmech.tables.column_types import Categories, to_arrow

FRAMES = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table}
each_frame = pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)


@pytest.mark.parametrize("held", [["x", None], [None, None], []])
def test_columns_of_objects_are_texts_whatever_is_missing(held):
    mask = [value is None for value in held]
    column = np.ma.MaskedArray(np.array(held, dtype=object), mask)
    assert to_arrow(column).type == pa.string()
    for found in (to_arrow(column), to_arrow(column, Categories(np.array(["x", "y"], dtype=object), True))):
        assert found.to_pylist() == held


@pytest.mark.parametrize("masked", [False, True])
def test_texts_are_those_that_pyarrow_makes_of_them(masked, monkeypatch):
    texts = np.array(["x", "", None, "größer", "x\ny", "\U0001f600"] * 3, dtype=object)
    column = np.ma.MaskedArray(texts, np.arange(18) % 5 == 3) if masked else texts
    found = to_arrow(column)
    found.validate(full=True)
    monkeypatch.setattr(column_types, "SHORT", 0)
    assert found.equals(to_arrow(column))
    assert found.null_count == (5 if masked else 3)


@pytest.mark.nightly  # By day a release of CSV imports neither, here.
def test_a_question_on_categories_and_numbers_needs_no_pandas_and_no_narwhals():
    code = ("import sys, numpy as np, trigmech as tm\n"
            "from trigmech.tables.frames import like\n"
            "import trigmech.cli.app\n"
            "like('pyarrow', ('a', 'b'), [np.array(['x', None], dtype=object), np.arange(2.0)])\n"
            "print({'pandas', 'narwhals', 'pyarrow'} & set(sys.modules))")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "{'pyarrow'}"


@each_frame
def test_the_named_columns_come_in_the_order_of_the_names(frame):
    table = frame({"c": [1, 2], "a": [-0.5, 1e300], "other": ["x", "y"], "b": [True, False]})
    matrix = tables.to_matrix(table, ("a", "b", "c"))
    np.testing.assert_array_equal(matrix, [[-0.5, 1, 1], [1e300, 0, 2]])
    assert matrix.dtype == np.float64
    assert matrix.flags.c_contiguous


@pytest.mark.parametrize("table", [
    pd.DataFrame({name: pd.array([1, None], dtype=name) for name in ("Int64", "Float32", "boolean")}),
    pl.DataFrame({"Int64": [1, None], "Float32": [1.0, None], "boolean": [True, None]}),
    pa.table({"Int64": [1, None], "Float32": [1.0, None], "boolean": [True, None]}),
], ids=FRAMES)
def test_empty_cells_of_nullable_types_become_nan(table):
    matrix = tables.to_matrix(table, ("Int64", "Float32", "boolean"))
    np.testing.assert_array_equal(matrix, [[1, 1, 1], [np.nan, np.nan, np.nan]])


@pytest.mark.parametrize("dtype", [np.int8, np.uint64, np.float16, np.float32, np.float64, bool])
def test_arrays_of_any_number_type_become_float64(dtype):
    array = np.asfortranarray(np.array([[0, 1], [1, 0], [1, 1]], dtype=dtype))
    matrix = tables.to_matrix(array, ("a", "b"))
    np.testing.assert_array_equal(matrix, [[0, 1], [1, 0], [1, 1]])
    assert matrix.dtype == np.float64
    assert matrix.flags.c_contiguous


@pytest.mark.parametrize("kind", ["i2", "i8", "u4", "f4", "f8"])
@pytest.mark.parametrize("order", ["<", ">"])
def test_numbers_of_either_order_of_bytes_are_the_same_in_arrays_and_dataframes(kind, order):
    values = np.array([1, 2, 300, 7], dtype=order + kind)
    for table in (values[:, None], pd.DataFrame({"x": values})):
        np.testing.assert_array_equal(tables.to_matrix(table, ("x",)), [[1], [2], [300], [7]])
    # A row alone means the same as among others.
    assert tables.to_matrix(pd.DataFrame({"x": values[2:3]}), ("x",)) == [[300.0]]


@pytest.mark.parametrize("kind", ["S4", "c16", "m8[s]"])
def test_bytes_of_another_order_that_are_no_real_numbers_are_refused(kind):
    values = np.zeros(3, dtype=f">{kind}" if kind != "S4" else kind)
    with pytest.raises(InputError, match="column 'x' must be numeric"):
        tables.to_matrix(pd.DataFrame({"x": pd.Series(values)}), ("x",))


def test_an_array_that_fits_is_not_copied():
    array = np.ones((3, 2))
    assert np.shares_memory(tables.to_matrix(array, ("a", "b")), array)


@each_frame
def test_like_returns_the_same_kind_of_dataframe_with_the_new_names(frame):
    matrix = np.array([[0.5, 1.0], [-2.0, 3.0], [4.0, 5.0]])
    made = tables.like(tables.library_of(frame({"z": [1, 2], "a": ["x", "y"]})), ("b", "a"), matrix)
    assert type(made) is type(frame({}))
    assert list(made.column_names if frame is pa.table else made.columns) == ["b", "a"]
    np.testing.assert_array_equal(tables.to_matrix(made, ("b", "a")), matrix)


@pytest.mark.parametrize("template", [np.zeros((1, 2)), [[1, 2]]])
def test_like_an_array_is_an_array(template):
    matrix = np.array([[0.5, 1.0]])
    np.testing.assert_array_equal(tables.like(tables.library_of(template), ("a", "b"), matrix), matrix)


# What is refused, always without quoting a value


def refused(table, names=("a", "b")):
    with pytest.raises(InputError) as caught:
        tables.to_matrix(table, names)
    message = oracles.whole_message(caught.value)
    assert oracles.SECRET_DIGITS not in message
    return message


def library(column):
    return type(column).__module__.partition(".")[0]


@pytest.mark.parametrize("column", [
    pd.Series(["7.7131", "1"]),
    pd.Series(["7.7131", 1], dtype=object),
    pd.Series(["7.7131", "1"], dtype="category"),
    pd.Series(pd.Categorical(["7.7131", "1"], ordered=True)),
    pd.Series(pd.to_datetime([771310, 0])),
    pl.Series(["7.7131", "1"]),
    pl.Series(["7.7131", "1"], dtype=pl.Categorical),
    pl.Series(["7.7131", "1"], dtype=pl.Enum(["7.7131", "1"])),
    pl.Series([[7.7131], [1.0]]),
    pl.Series([{"x": 7.7131}, {"x": 1.0}]),
    pa.array(["7.7131", "1"]),
    pa.array(["7.7131", "1"]).dictionary_encode(),
], ids=library)
def test_a_column_that_is_not_numeric_is_named(column):
    frame = FRAMES[library(column)]
    assert "'b' must be numeric" in refused(frame({"a": [7.7131, 1.0], "b": column}))


@each_frame
def test_a_dataframe_without_rows_is_refused(frame):
    table = frame({"a": np.array([7.7131]), "b": np.array([1.0])})
    assert "at least one row" in refused(table[:0])


@pytest.mark.parametrize("table", [
    np.empty((0, 2)),
    np.full((2, 3), 7.7131),
    np.full((2, 1), 7.7131),
    np.full(2, 7.7131),
    np.full((1, 2, 2), 7.7131),
    7.7131,
    None,
    "7.7131",
    {"a": [7.7131], "b": [1.0]},
    [[7.7131, 1.0], [7.7131]],
    [["7.7131", "1"]],
    [[7.7131, "x"]],
    [[7.7131, None]],
    [[7.7131, 10**30]],
    np.array([[7.7131, 1.0]], dtype=object),
    np.array([[7.7131j, 1.0]]),
    np.array([(7.7131, 1.0)], dtype=[("a", float), ("b", float)]),
    pd.Series([7.7131, 1.0]),
    pl.Series([7.7131, 1.0]),
    pa.chunked_array([[7.7131, 1.0]]),
], ids=["no rows", "wide", "narrow", "1-D", "3-D", "number", "None", "string", "dict", "ragged", "strings",
        "mixed", "with None", "huge integer", "objects", "complex", "records", "series", "polars series",
        "chunked array"])
def test_anything_but_a_dataframe_or_a_numeric_array_of_the_right_width_is_refused(table):
    refused(table)


# Columns one at a time


def test_integers_beyond_those_of_floats_are_rounded_and_never_quoted():
    values = [2**60 + 7131, None]
    for table in (pa.table({"a": values}), pl.DataFrame({"a": values}), pd.DataFrame({"a": pd.array(values, "Int64")}),
                  pd.DataFrame({"a": pd.array(values, "int64[pyarrow]")}),
                  pa.table({"a": pa.array(values, pa.uint64())})):
        np.testing.assert_array_equal(tables.to_matrix(table, ("a",)), [[float(2**60 + 7131)], [np.nan]])


@pytest.mark.parametrize("digits", [0, 2, 6])
def test_decimals_are_the_floats_that_are_nearest(digits):
    # A special value of 99.99 equals no 99.99000000000001.
    values = [decimal.Decimal(k).scaleb(-digits) for k in range(0, 99_999, 97)]
    table = pa.table({"a": pa.array([*values, None], pa.decimal128(20, digits))})
    for held in (table, pl.from_arrow(table), table.to_pandas()):
        np.testing.assert_array_equal(tables.to_matrix(held, ("a",))[:, 0], [*map(float, values), np.nan])


def test_objects_that_are_all_numbers_are_numbers():
    values = np.array([[10**400], [-10**400], [True], [None], [pd.NA], [np.float32(0.5)],
                       [decimal.Decimal("sNaN")]], dtype=object)
    np.testing.assert_array_equal(tables.Columns(values, ("a",)).numbers(0),
                                  [np.inf, -np.inf, 1, np.nan, np.nan, 0.5, np.nan])


@pytest.mark.parametrize("column", [
    ["x", None, "y", "x"], [1, None, 2, 1], [0.5, math.nan, None, 0.5], [True, None, False, True],
], ids=str)
@pytest.mark.parametrize("frame", [*FRAMES.values(), lambda rows: np.array([[value] for value in rows["a"]], object)],
                         ids=[*FRAMES, "array"])
def test_different_values_are_found_with_their_rows(frame, column):
    values, codes = tables.Columns(frame({"a": column}), ("a",)).distinct(0)
    back = [None if code < 0 or values[code] != values[code] else values[code] for code in codes]
    assert back == [None if value != value else value for value in column]


def test_true_and_one_are_different_objects():
    array = np.array([[True], [1], [1.0], ["1"]], dtype=object)
    values, codes = tables.Columns(array, ("a",)).distinct(0)
    assert [type(value) for value in values] == [bool, int, float, str]
    assert codes.tolist() == [0, 1, 2, 3]


def test_masked_columns_become_missing_values_of_each_library():
    mask = [False, True]
    columns = [np.ma.MaskedArray(values, mask) for values in (
        [1, 2], [0.5, 1.5], [True, False], np.array(["2020-01-01", "2020-01-02"], "datetime64[D]"),
        np.array(["x", "y"], dtype=object))]
    names = ("integer", "float", "bool", "day", "text")
    frames = {library: tables.like(library, names, columns) for library in (*FRAMES, None)}
    first = [1, 0.5, True, datetime.date(2020, 1, 1), "x"]
    assert frames["pyarrow"].to_pylist() == [dict(zip(names, first, strict=True)), dict.fromkeys(names)]
    assert frames["polars"].rows() == [tuple(first), (None,) * 5]
    assert frames[None].tolist() == [first, [None] * 5]
    assert frames["pandas"].iloc[1].isna().all()
    assert frames["pandas"].iloc[0].tolist() == [*first[:3], pd.Timestamp(first[3]), "x"]
    # As integers that are all there, these stay integers too.
    assert str(frames["pandas"]["integer"].dtype) == "Int64"


@pytest.mark.parametrize("library", [*FRAMES, None])
@pytest.mark.parametrize("kind", ["text", "integer", "float", "bool", "day", "time"])
def test_making_a_table_leaves_masked_columns_as_they_are(library, kind):
    data = {"text": np.array(["x", "y"], dtype=object), "integer": np.array([1, 2]), "float": np.array([0.5, 1.5]),
            "bool": np.array([True, False]), "day": np.array(["2020-01-01", "2020-01-02"], "datetime64[D]"),
            "time": np.array(["2020-01-01T01", "2020-01-02T02"], "datetime64[s]")}[kind]
    column, before = np.ma.MaskedArray(data, [False, True]), data.copy()
    first, again = (tables.like(library, ("a", "b"), [column, np.ma.MaskedArray(["u", "v"], dtype=object)])
                    for _ in range(2))
    # What stands under a mask is there still, for whoever takes the mask off.
    np.testing.assert_array_equal(column.data, before)
    np.testing.assert_array_equal(column.mask, [False, True])
    assert str(first) == str(again)


@pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)
def test_what_cannot_be_read_is_named_by_column_and_type_alone(frame):
    columns = tables.Columns(frame({"a": ["7.7131"], "b": [b"7.7131"]}), ("a", "b"))
    for read in (lambda: columns.numbers(0), lambda: columns.times(0), lambda: columns.numbers(1),
                 lambda: columns.times(1)):
        with pytest.raises(InputError, match=r"'[ab]'") as caught:
            read()
        assert oracles.SECRET_DIGITS not in oracles.whole_message(caught.value)
    assert oracles.SECRET_DIGITS not in repr(columns)


# Tables that are not in memory yet

ROWS = {"b": [0.25, 7.0], "a": [1, 2]}


class Stream:
    """A stream of Arrow that can be read once."""

    def __init__(self):
        self.reader, self.reads = pa.table(ROWS).to_reader(), 0

    def __arrow_c_stream__(self, requested_schema=None):
        self.reads += 1
        assert self.reads == 1
        return self.reader.__arrow_c_stream__(requested_schema)


def in_duckdb():
    return pytest.importorskip("duckdb").from_arrow(pa.table(ROWS))


UNREAD = {
    "polars lazy frame": lambda: pl.LazyFrame(ROWS), "reader": lambda: pa.table(ROWS).to_reader(), "stream": Stream,
    "record batch": lambda: pa.record_batch(ROWS), "dataset": lambda: pyarrow.dataset.dataset(pa.table(ROWS)),
    "scanner": lambda: pyarrow.dataset.dataset(pa.table(ROWS)).scanner(), "DuckDB": in_duckdb,
}


@pytest.mark.parametrize("table", UNREAD)
def test_what_is_lazy_or_a_stream_is_read_as_a_dataframe(table):
    np.testing.assert_array_equal(tables.to_matrix(UNREAD[table](), ("a", "b")), [[1, 0.25], [2, 7]])
    collected = tables.collected(UNREAD[table]())
    assert isinstance(collected, pl.DataFrame if table.startswith("polars") else pa.Table)
    assert tables.collected(collected) is collected


@pytest.mark.parametrize("table", [
    ROWS, {7.7131}, pd.Series([7.7131]), pl.Series([7.7131]), pa.chunked_array([[7.7131]]),
    pl.LazyFrame({"a": ["7.7131"]}).with_columns(pl.col("a").cast(pl.Int64)),
], ids=["dict", "set", "series", "polars series", "chunked array", "lazy frame that fails"])
def test_what_is_no_table_is_refused_with_a_list_of_what_is(table):
    assert "scanner of Arrow; or an array of shape (n, d)" in refused(table)


# Types of categories

CATEGORIES = {"text": ["x", "y", "z"], "integers": [1, 2, 3], "booleans": [True, False], "floats": [0.5, 1.0]}


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("kind", CATEGORIES)
def test_columns_of_categories_have_all_of_them_in_order_and_keep_what_is_missing(kind, ordered):
    values = np.array(CATEGORIES[kind], dtype=object if kind == "text" else None)
    column, held = np.ma.MaskedArray(values[[1, 0, 1]], [0, 0, 1]), {"c": tables.Categories(values, ordered)}
    given = [CATEGORIES[kind][1], CATEGORIES[kind][0], None]
    frame = tables.like("pandas", ("c",), [column], held)["c"]
    assert frame.dtype == pd.CategoricalDtype(CATEGORIES[kind], ordered=ordered)
    assert [None if value != value else value for value in frame] == given
    arrow = tables.like("pyarrow", ("c",), [column], held)["c"]
    assert arrow.chunk(0).dictionary.to_pylist() == CATEGORIES[kind]
    assert (arrow.type.ordered, arrow.to_pylist()) == (ordered, given)
    assert tables.like("polars", ("c",), [column], held)["c"].to_list() == given
    assert (tables.like("polars", ("c",), [column], held)["c"].dtype == pl.Categorical) == (kind == "text")


@pytest.mark.parametrize("kind", ["float64", "int64"])
def test_numbers_of_arrow_are_those_that_pyarrow_gives(kind):
    rng = np.random.default_rng(0)
    for absent in (False, True):
        held = [None if absent and rng.random() < 0.3 else int(value) for value in rng.integers(-9, 9, size=40)]
        whole = pa.array(held, pa.type_for_alias(kind))
        pieces = pa.chunked_array([whole.slice(3, 10), whole.slice(7, 0), whole.slice(13)])
        for each in (whole, whole.slice(11, 20), pieces, pa.chunked_array([], whole.type)):
            expected = [-1 if value is None else value for value in each.to_pylist()]
            found = column_types.of_arrow(each, -1)
            assert found.dtype == kind
            assert found.flags.writeable
            np.testing.assert_array_equal(found, expected)


def test_a_release_of_csv_imports_none_of_the_libraries_that_it_can_do_without(tmp_path):
    (tmp_path / "t.csv").write_text("x,kind,day\n" + "1.5,a,2020-01-02\n0,b,2020-01-03\n" * 15, "utf-8")
    schema = tm.Schema((tm.Column("x", 0, 2), tm.Column("kind", kind="categorical", categories=("a", "b")),
                        tm.Column("day", "2020-01-01", "2020-02-01", "datetime")))
    save(tmp_path / "t.toml", schema)
    code = (f"import os, sys; os.chdir({str(tmp_path)!r})\n"
            "sys.argv = 'trigmech release t.csv --schema t.toml --epsilon 1 --delta 1e-3 --out t.tm'.split()\n"
            "sys.argv += ['--csv', 's.csv']\n"
            "from trigmech.cli import main\n"
            "try: main()\n"
            "except SystemExit as end: print(end.code or 0)\n"
            "else: print(0)\n"
            "print({'pandas', 'polars', 'sklearn', 'scipy.stats'} & set(sys.modules) or 'without')")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split()[-2:] == ["0", "without"], done.stderr
