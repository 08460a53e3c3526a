"""Schemas in files: they come back, faults are told as what to write, and nothing of a table gets into a new one."""

import datetime
import tomllib

import numpy as np
import oracles
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_schema import filled_tables, mixed

from trigmech.errors import InputError
from trigmech.schema import toml as schema_file
from trigmech.schema.column import Column
from trigmech.schema.schema import Schema
from trigmech.tables.reader import TableFile

laws = settings(max_examples=20, derandomize=True, deadline=None, database=None)
NAMES = st.text(st.characters(codec="utf-8"), min_size=1, max_size=6)
FILES = st.fixed_dictionaries({}, optional={
    "delimiter": st.sampled_from([";", "\t", "|"]), "header": st.booleans(), "decimal": st.sampled_from([".", ","]),
    "encoding": st.sampled_from(["utf-16", "cp1252"]), "date_format": st.sampled_from(["%d.%m.%Y", "%Y \"%m\" %d"]),
    "missing": st.lists(st.text(st.characters(codec="utf-8"), max_size=3), max_size=3)})


@st.composite
def renamed(draw):
    """A schema of any kinds under any names."""
    schema, _ = draw(filled_tables())
    names = draw(st.lists(NAMES, min_size=schema.d, max_size=schema.d, unique=True))
    plain = [column.to_dict() | {"name": name} for column, name in zip(schema.columns, names, strict=True)]
    return Schema.from_dict({"columns": plain})


def file_of(tmp_path, text, name="s.toml"):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@laws
@given(renamed(), FILES)
def test_any_schema_comes_back_from_its_file(tmp_path, schema, file):
    path = file_of(tmp_path, schema_file.to_toml(schema, file))
    found = schema_file.load(path)
    assert found == (schema, file)
    assert repr(found.schema) == repr(schema)
    assert schema_file.check(path) == []


def test_dates_may_be_written_without_quotes(tmp_path):
    path = file_of(tmp_path, """[columns.t]
kind = "datetime"
lower = 2020-01-01T00:00:00+01:00
upper = 2021-01-01
special = [1900-01-01T00:00:00]
""")
    column = schema_file.load(path).schema.columns[0]
    assert column.lower == datetime.datetime(2019, 12, 31, 23)
    assert column.special == (datetime.datetime(1900, 1, 1),)


@pytest.mark.parametrize(("text", "sentences"), [
    ("", ["write a table for each column, such as [columns.age]"]),
    ("columns = 5", ["write a table for each column, such as [columns.age]"]),
    ("[[columns]]\nname = 'age'", ["write a table for each column, such as [columns.age]"]),
    ("[columns.a]\nlower = 0\nupper = 1\n[more]", ["remove 'more'; the file has tables [columns.NAME] for the columns "
                                                  "and may have [file]"]),
    ("[columns]\na = 5", ["column 'a': write its options below [columns.a]"]),
    ("[columns.a]\nname = 'b'", ["column 'a': remove the option 'name'; [columns.NAME] already gives the name"]),
    ("[columns.a]\nkind = ''", ["column 'a': kind is empty; write one of continuous, integer, binary, ordinal, "
                                "categorical, datetime, or remove the column"]),
    ("[columns.a]\ncategories = ['no', 'yes']", [
        "column 'a' has categories, so its kind is missing; write kind = \"categorical\", or kind = "
        '"ordinal" if they are in order from the lowest to the highest']),
    ("[columns.a]\nlower = ''\nupper = 5", ["column 'a': lower is missing; write the smallest possible value from "
                                            "knowledge of the subject, such as lower = 0"]),
    ("[columns.a]\nkind = 'datetime'\nlower = 2020-01-01",
     ["column 'a': upper is missing; write the largest possible value from knowledge of the subject, such as upper = "
      "2030-12-31"]),
    ("[columns.a]\nkind = 'ordinal'\ncategories = []",
     ["column 'a': categories are missing; write all possible values, such as categories = "
      '["yes", "no"]']),
    ("[columns.a]\nlower = '0'\nupper = 5", ["column 'a': bounds must be numbers, not '0' and 5"]),
    ("[columns.a]\nlower = 0\nupper = 5\nlowest = 1",
     ["column 'a': there is no option 'lowest'; the options are lower, upper, kind, categories, missing, special, "
      "transform, decimals, resolution, other, private_bounds, private_categories"]),
    ("[file]\nheader = 1\n[columns.a]\nlower = 0\nupper = 1", ["[file]: header must be true or false, not 1"]),
    ("[file]\nquote = 'x'\n[columns.a]\nlower = 0\nupper = 1",
     ["[file]: a file has no option 'quote'; the options are delimiter, decimal, encoding, date_format, "
      "header, missing"]),
    ("file = 5\n[columns.a]\nlower = 0\nupper = 1", ["write [file] as a table of options"]),
    ("[columns.a]\nlower = 1\nupper = 0\n[columns.b]\nkind = 'colour'\nlower = 0\nupper = 1",
     ["column 'a': bounds must be finite with lower < upper; given lower=1.0 and upper=0.0",
      "column 'b': kind must be one of continuous, integer, binary, ordinal, categorical, datetime, not 'colour'"]),
])
def test_faults_are_sentences_that_say_what_to_write(tmp_path, text, sentences):
    path = file_of(tmp_path, text)
    assert schema_file.check(path) == sentences
    with pytest.raises(InputError) as caught:
        schema_file.load(path)
    assert all(sentence in str(caught.value) for sentence in sentences)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(("content", "message"), [
    (b"[columns.a]\nlower =\n", "not valid TOML: .*line 2"),
    (b"[columns.a]\nlower = 1,000\n", r"line 2, column 10\)\. Write numbers as 1000 or 1_000, dates as"),
    (b"[columns.a]\n[columns.a]\n", "not valid TOML"),
    ("[columns.ä]".encode("latin-1"), "must be UTF-8 text"), ("[columns.a]".encode("utf-16"), "must be UTF-8 text"),
    (b"a = " + b"[" * 100_000, "no TOML|nested too deeply"),
], ids=["TOML", "a comma in a number", "twice", "Latin-1", "UTF-16", "deep"])
def test_what_is_no_toml_is_refused(tmp_path, content, message):
    with pytest.raises(InputError, match=message):
        schema_file.check(file_of(tmp_path, content))
    for path in (tmp_path, tmp_path / "none.toml"):
        with pytest.raises(InputError, match="cannot read"):
            schema_file.load(path)


# New files

MARK = "7.7131"
CSV = f"""age,income,when,work place,code,none,odd
7131,{MARK},2020-07-13T01:31,x{MARK},1,,7131
7132,1e5,2020-07-13,y{MARK},?,NA,x
"""
KINDS = {"age": "integer", "income": "continuous", "when": "datetime", "work place": "categorical", "code": "integer",
         "none": "", "odd": "categorical"}


def kinds_of(text):
    return {name: options["kind"] for name, options in tomllib.loads(text)["columns"].items()}


def test_a_new_file_has_names_and_kinds_and_nothing_else_of_the_table(tmp_path):
    text = schema_file.init(TableFile(file_of(tmp_path, CSV, "t.csv")))
    assert kinds_of(text) == KINDS
    assert oracles.SECRET_DIGITS not in text
    assert "guessed from the types" in text
    path = file_of(tmp_path, text)
    faults = schema_file.check(path)
    assert len(faults) == 11
    with pytest.raises(InputError, match="and 1 more"):
        schema_file.load(path)
    text = text.replace('"datetime"\nlower = ""\nupper = ""', '"datetime"\nlower = 2000-01-01\nupper = 2030-12-31')
    text = text.replace('kind = ""', 'kind = "categorical"\ncategories = []')
    text = text.replace('lower = ""', "lower = 0").replace('upper = ""', "upper = 9999")
    text = text.replace("categories = []", 'categories = ["x", "else"]\nother = "else"\nmissing = "keep"').replace(
        '[columns.code]\n', '[columns.code]\nmissing = "centre"\n')
    path = file_of(tmp_path, text)
    assert schema_file.check(path) == []
    schema, options = schema_file.load(path)
    for table in TableFile(tmp_path / "t.csv", **options).chunks(schema):
        schema.domain.check(schema.to_cube(table))


FRAME = {"age": [1, 2], "income": [0.5, 1.5], "yes": [True, False], "work": ["x7131", "7131y"],
         "day": [datetime.date(2020, 7, 1), None], "time": [datetime.datetime(2020, 7, 13, 1), None]}


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame, pa.table, lambda rows: pd.DataFrame(rows, dtype=object)],
                         ids=["pandas", "polars", "pyarrow", "objects"])
def test_kinds_of_a_dataframe_follow_its_types(frame):
    text = schema_file.init(frame(FRAME))
    assert kinds_of(text) == {"age": "integer", "income": "continuous", "yes": "categorical", "work": "categorical",
                              "day": "datetime", "time": "datetime"}
    assert oracles.SECRET_DIGITS not in text


def test_codes_with_leading_zeros_are_no_numbers(tmp_path):
    text = schema_file.init(TableFile(file_of(tmp_path, "zip,n,t,z\n01067,10,0,-012\n10115,7,0,5\n", "t.csv")))
    assert kinds_of(text) == {"zip": "categorical", "n": "integer", "t": "integer", "z": "categorical"}
    assert text.count("leading zeros") == 2


def test_options_of_the_table_file_are_noted(tmp_path):
    path = file_of(tmp_path, "1;x\n2;-\n", "t.csv")
    text = schema_file.init(TableFile(path, delimiter=";", header=False, missing=["-"]))
    assert tomllib.loads(text)["file"] == {"delimiter": ";", "header": False, "missing": ["-"]}
    assert kinds_of(text) == {"column1": "integer", "column2": "categorical"}
    assert "by their position" in text
    with pytest.raises(InputError, match="header=False") as caught:
        schema_file.init(TableFile(file_of(tmp_path, "7.7131,x\n1,y\n", "n.csv")))
    assert oracles.SECRET_DIGITS not in oracles.whole_message(caught.value)


NORTHERN = """Zahl;Gewicht;Besuch;Ort;ISO
7131;7,7131;03.04.2020;Köln7131;2020-01-01
1;1e5;?;x;2020-01-02
"""


def test_kinds_are_guessed_under_the_options_and_never_which_number_is_the_day(tmp_path):
    path = file_of(tmp_path, NORTHERN.encode("cp1252"), "t.csv")
    options = {"delimiter": ";", "encoding": "cp1252"}
    text = schema_file.init(TableFile(path, **options))
    assert tomllib.loads(text)["file"] == options
    assert kinds_of(text) == {"Zahl": "integer", "Gewicht": "categorical", "Besuch": "categorical",
                              "Ort": "categorical", "ISO": "datetime"}
    assert "# Numbers? Then make this file again and give --decimal ','" in text
    assert "# Dates? Then make this file again and state how they are written: give --date-format '%d.%m.%Y'" in text
    options |= {"decimal": ",", "date_format": "%d.%m.%Y"}
    text = schema_file.init(TableFile(path, **options))
    assert tomllib.loads(text)["file"] == options
    assert kinds_of(text) == {"Zahl": "integer", "Gewicht": "continuous", "Besuch": "datetime",
                              "Ort": "categorical", "ISO": "categorical"}
    assert "Numbers?" not in text
    assert "Dates?" not in text
    assert oracles.SECRET_DIGITS not in text
    assert kinds_of(schema_file.init(TableFile(path, **options | {"date_format": "%Y-%m-%d"})))["ISO"] == "datetime"


def test_one_column_whose_name_holds_semicolons_is_told_of(tmp_path):
    text = schema_file.init(TableFile(file_of(tmp_path, "a;b\n7131;1\n", "t.csv")))
    assert "# There is one column, and its first row holds semicolons; if they separate the cells, give" in text
    assert "holds" not in schema_file.init(TableFile(file_of(tmp_path, "a\n7131;1\n", "t.csv")))


@pytest.mark.parametrize("table", [np.zeros((2, 2)), None, pd.DataFrame({0: [1]}), pd.DataFrame({"a": []})],
                         ids=["array", "None", "numbered", "empty"])
def test_a_new_file_is_made_for_a_table_with_names_and_rows_alone(table):
    with pytest.raises(InputError):
        schema_file.init(table)


@laws
@given(st.lists(NAMES, min_size=1, max_size=4, unique=True))
def test_any_names_can_stand_in_a_new_file(names):
    assert tuple(kinds_of(schema_file.init(pl.DataFrame({name: [1] for name in names})))) == tuple(names)


def test_the_schema_of_the_tests_comes_back_from_a_file(tmp_path):
    schema_file.save(tmp_path / "s.toml", mixed(), {"missing": ["-"]})
    assert schema_file.load(tmp_path / "s.toml") == (mixed(), {"missing": ["-"]})
    assert [path.name for path in tmp_path.iterdir()] == ["s.toml"]


def test_private_bounds_may_be_written_in_either_way(tmp_path):
    path = tmp_path / "s.toml"
    for text in ('bounds = "private"', "private_bounds = true"):
        path.write_text(f"[columns.income]\n{text}\n")
        assert schema_file.check(path) == []
        assert schema_file.load(path).schema.private_bounds == ("income",)
    for text in ('categories = "private"', "private_categories = true"):
        path.write_text(f"[columns.town]\nkind = 'categorical'\n{text}\nother = 'elsewhere'\n")
        assert schema_file.check(path) == []
        schema = schema_file.load(path).schema
        assert schema.private_categories == ("town",)
        assert 'categories = "private"' in schema_file.to_toml(schema)
        schema_file.save(tmp_path / "again.toml", schema)
        assert schema_file.load(tmp_path / "again.toml").schema == schema
    path.write_text('[columns.income]\nbounds = "secret"\n')
    assert any("bounds" in fault for fault in schema_file.check(path))


def guessed(tmp_path, cells, **options):
    """The kind that a column of these cells is guessed to be of, and the comments about it."""
    path = file_of(tmp_path, "x,y\n" + "".join(f'"{cell}",a{i}\n' for i, cell in enumerate(cells)), "t.csv")
    text = schema_file.init(TableFile(path, **options))
    table = text.partition("[columns.x]")
    return kinds_of(text)["x"], table[0].rpartition("\n\n")[2]


@pytest.mark.parametrize(("cells", "kind", "doubt"), [
    (["181.0", "", "186.0", "190"], "integer", "Whole numbers"), (["0.0", "1.0"], "integer", "Whole numbers"),
    (["181.0", "190.5"], "continuous", ""), (["1e5", "2e5"], "continuous", ""), (["181.", "3"], "integer", "Whole"),
    (["3", "4"], "integer", ""), (["5.0", "5.0", ""], "integer", "the same value"),
    (["yes"] * 3, "categorical", "the same value"),
    (["yes"], "categorical", ""), (["2020-01-01", "2020-01-02T10:00"], "datetime", ""),
    (["2020-01-01", "31.12.2020"], "categorical", "several forms"),
    (["01/13/2020", "14/01/2020"], "categorical", "several forms"),
    (["31/12/2020", "31.12.2020"], "categorical", "several forms"),
    (["5 May 2020", "2020-05-06"], "categorical", "several forms"),
    (["01/02/2020", "14/01/2020"], "categorical", "Dates?"), (["May 5, 2020"], "categorical", "Dates?"),
    (["2020-01-01", "x"], "categorical", ""),
    (["inf", "53.5"], "continuous", "infinite"), (["181.0", "-Infinity"], "integer", "infinite"),
    (["7", "+INF"], "integer", "infinite"), (["inf"], "continuous", "infinite"), (["inf", "word"], "categorical", ""),
    (["inf", "2020-01-01"], "categorical", ""), (["nan", "5"], "integer", ""), (["nan", "5.5"], "continuous", ""),
    (["nan"], "continuous", ""), (["nan", "word"], "categorical", ""),
    (["53.5", "53,5"], "categorical", "Some have a decimal point"),
    (["52,900", "67434", "1,020"], "categorical", "sign before three digits"),
    (["52,900", "61,250"], "categorical", "sign before three digits"),
    (["52,90", "61,250"], "categorical", "--decimal"),
    (["1,234,567", "67434"], "categorical", "sign before three digits"),
    (["1.234,5", "7"], "categorical", "sign before three digits"),
    (["77 %", "5 %"], "categorical", "with a unit"), (["$5", "7 kg"], "categorical", "with a unit"),
    (["84.4", "78", "80.1", "7.5", "n/a."], "categorical", "Most of the first values"),
    (["84.4", "78", "80.1", "79 kg", "9"], "categorical", "Most of the first values"),
    (["84.4", "78", "none of it", "much"], "categorical", ""), (["A1", "B12", "C7"], "categorical", ""),
    (["012", "13 kg", "14", "15", "16"], "categorical", ""),
    (["9:30", "13:57", "23:59:59"], "categorical", "Times of a day"), (["25:61", "13:57"], "categorical", ""),
    ([f"P{k}" for k in range(50)], "categorical", "first values differ"),
    ([f"P{k}" for k in range(49)], "categorical", ""), ([f"P{k % 49}" for k in range(50)], "categorical", ""),
    (list(range(100, 150)), "integer", "first values differ"), (list(range(150, 100, -1)), "integer", "")])
def test_a_kind_is_guessed_by_how_cells_are_written(tmp_path, cells, kind, doubt):
    found, comment = guessed(tmp_path, cells)
    assert found == kind
    assert (doubt in comment) if doubt else not any(word in comment for word in (
        "form", "alone", "infinite", "sign", "unit", "Most", "Times", "differ"))


def test_numbers_with_a_point_are_told_of_where_the_decimal_sign_is_a_comma(tmp_path):
    path = file_of(tmp_path, "a;b;c\n85.0;3,5;inf\n56.0;4.5;3,5\n", "t.csv")
    text = schema_file.init(TableFile(path, delimiter=";", decimal=","))
    assert kinds_of(text) == {"a": "categorical", "b": "categorical", "c": "continuous"}
    assert text.count("The decimal sign is a comma here") == 2


@pytest.mark.parametrize("spelling", ["inf", "-inf", "Infinity", "+INF", "nan", "NAN", "-nan"])
def test_what_is_guessed_to_be_a_number_is_read_as_one(tmp_path, spelling):
    table = TableFile(file_of(tmp_path, f"x,y\n{spelling},1\n5.5,2\n", "t.csv"), missing=[])
    assert kinds_of(schema_file.init(table)) == {"x": "continuous", "y": "integer"}
    schema = Schema([Column("x", 0, 10, missing="keep"), Column("y", 0, 10)])
    assert sum(len(rows) for rows in table.chunks(schema)) == 2


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame, pa.table], ids=["pandas", "polars", "pyarrow"])
def test_whole_floats_of_a_dataframe_are_integers_in_doubt(frame):
    text = schema_file.init(frame({"a": [181.0, None, 7.0], "b": [0.0, 1.0, 0.5]}))
    assert kinds_of(text) == {"a": "integer", "b": "continuous"}
    assert text.count("Whole numbers") == 1
    text = schema_file.init(frame({"a": [181.0, float("inf")], "b": [0.5, -float("inf")], "c": [float("inf")] * 2}))
    assert kinds_of(text) == {"a": "integer", "b": "continuous", "c": "continuous"}
    assert text.count("infinite numbers") == 3


def test_a_column_that_is_empty_at_first_is_guessed_by_what_follows(tmp_path):
    rows = 300
    path = file_of(tmp_path, "late,never,word\n" + "".join(
        f"{'' if i < rows else 3.5 + i},,{'' if i < rows else 'w'}\n" for i in range(rows + 3)), "t.csv")
    text = schema_file.init(TableFile(path))
    assert kinds_of(text) == {"late": "continuous", "never": "", "word": "categorical"}
    assert "no kind was guessed" in text
    assert any("kind is empty" in fault for fault in schema_file.check(file_of(tmp_path, text)))
    parquet = tmp_path / "t.parquet"
    pq.write_table(pa.table({"late": pa.array([None] * rows + [5, 6]), "text": pa.array([None] * rows + ["a", "b"]),
                             "never": pa.array([None] * (rows + 2), pa.string())}), parquet)
    for table in (TableFile(parquet), pq.read_table(parquet)):
        assert kinds_of(schema_file.init(table)) == {"late": "integer", "text": "categorical", "never": ""}
    assert kinds_of(schema_file.init(pd.DataFrame({"late": pd.array([None] * rows + [5, 6], dtype="Int64")}))) == {
        "late": "integer"}


def test_the_template_names_decimals_and_resolution_where_they_can_be_written(tmp_path):
    text = schema_file.init(TableFile(file_of(tmp_path, "x,t,n\n0.5,2020-01-01,3\n1.5,2020-01-02,4\n", "t.csv")))
    tables = text.split("[columns.")[1:]
    assert ["# decimals = 2" in table for table in tables] == [True, False, False]
    assert ['# resolution = "hour"' in table for table in tables] == [False, True, False]
    # What is commented out is an option of the column once the sign is gone.
    text = text.replace("# decimals", "decimals").replace("# resolution", "resolution").replace(
        '"datetime"\nlower = ""\nupper = ""', '"datetime"\nlower = 2000-01-01\nupper = 2030-12-31').replace(
        'lower = ""', "lower = 0").replace('upper = ""', "upper = 9")
    schema = schema_file.load_schema(file_of(tmp_path, text.split("\n\n", 1)[1]))
    assert [column.decimals for column in schema.columns] == [2, None, None]
    assert [column.resolution for column in schema.columns] == [None, "hour", None]


def test_a_column_of_one_value_is_said_to_be_left_out(tmp_path):
    for options in ("kind = 'categorical'\ncategories = ['x']", "lower = 5\nupper = 5",
                    "kind = 'integer'\nlower = 5\nupper = 5"):
        assert "leave out a column that has the same value for everybody" in schema_file.check(
            file_of(tmp_path, f"[columns.a]\n{options}\n"))[0]


@pytest.mark.parametrize("cells", [["a", 1, 2.5], [1, "a", None], ["2020-01-01", 7], [True, 1], ["1", 2]], ids=str)
def test_objects_of_different_types_are_categories(cells):
    text = schema_file.init(pd.DataFrame({"mixed": pd.Series(cells, dtype=object), "x": 0.5}))
    assert kinds_of(text)["mixed"] == "categorical"
