"""Tables in files: what is read is what was written, in flat memory, and no message holds a cell."""

import csv
import datetime
import gc
import gzip
import io
import os
import subprocess
import sys
from contextlib import suppress

import numpy as np
import oracles
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_schema import filled_tables

from trigmech.errors import InputError
from trigmech.schema.encoding import number_at
from trigmech.schema.schema import Column, Schema
from trigmech.tables import csv_text, writer
from trigmech.tables.reader import TableFile, write_table

SUFFIXES = ["csv", "csv.gz", "csv.zst", "csv.bz2", "tsv", "parquet"]


def schema():
    return Schema([
        Column("age", 0, 120, "integer", missing="keep"),
        Column("work", kind="categorical", categories=["a", "b, c", "?"]),
        Column("day", "2000-01-01", "2030-01-01", "datetime"),
        Column("yes", kind="categorical", categories=[False, True]),
        Column("gain", 0, 1e5, special=(0,)),
    ])


def rows(n, seed=0):
    rng = np.random.default_rng(seed)
    return {
        "age": np.ma.MaskedArray(rng.integers(0, 121, n), rng.random(n) < 0.2),
        "work": np.array(["a", "b, c", "?"], dtype=object)[rng.integers(0, 3, n)],
        "day": np.datetime64("2000-01-01") + rng.integers(0, 10_000, n),
        "yes": rng.random(n) < 0.5,
        "gain": np.where(rng.random(n) < 0.5, 0.0, rng.uniform(0, 1e5, n)),
    }


def read(file, schema, **options):
    return np.concatenate([schema.to_cube(table) for table in file.chunks(schema, **options)])


def encoded(columns, schema):
    return schema.to_cube(pa.table({name: pa.array(np.ma.getdata(values), mask=np.ma.getmaskarray(values))
                                    for name, values in columns.items()}))


@pytest.mark.daily(6)
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_what_was_written_is_read(tmp_path, suffix):
    columns = rows(1000)
    delimiter = "\t" if suffix == "tsv" else ","
    write_table(tmp_path / f"t.{suffix}", columns, delimiter=delimiter)
    file = TableFile(tmp_path / f"t.{suffix}", delimiter=delimiter)
    assert file.n == 1000
    assert file.names == tuple(columns)
    points = read(file, schema())
    np.testing.assert_array_equal(points, encoded(columns, schema()))
    # Chunks have one length whatever the format, and the rows their order.
    assert [table.num_rows for table in file.chunks(schema(), rows=300)] == [300, 300, 300, 100]
    np.testing.assert_array_equal(read(file, schema(), rows=300), points)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_pieces_are_written_below_each_other(tmp_path, suffix):
    write_table(tmp_path / f"whole.{suffix}", rows(10))
    write_table(tmp_path / f"pieces.{suffix}", ({name: values[start:start + 4] for name, values in rows(10).items()}
                                                for start in range(0, 10, 4)))
    whole, pieces = (read(TableFile(tmp_path / f"{name}.{suffix}"), schema()) for name in ("whole", "pieces"))
    np.testing.assert_array_equal(whole, pieces)


@settings(max_examples=15, derandomize=True, deadline=None, database=None)
@given(filled_tables(), st.sampled_from(["csv", "parquet"]))
def test_any_decoded_table_is_read_as_it_was_written(tmp_path, table, suffix):
    schema, cells = table
    array = np.empty((4, len(cells)), dtype=object)
    for j, values in enumerate(cells.values()):
        array[:, j] = values
    points = schema.to_cube(array)
    decoded = schema.decode(points)
    file = tmp_path / f"t.{suffix}"
    write_table(file, decoded)
    texts = [category for column in schema.columns if column.is_text for category in column.categories]
    # CSV has one empty cell, for text without characters and for what is missing.
    if suffix == "csv" and any(not text.strip() or "\0" in text for text in texts):
        return
    again = [schema.decode(schema.to_cube(chunk)) for chunk in TableFile(file).chunks(schema)]
    for column in schema.columns:
        if column.missing != "centre":
            found = again[0][column.name]
            assert (np.ma.getmaskarray(found) == np.ma.getmaskarray(decoded[column.name])).all()
            if column.kind == "continuous":
                np.testing.assert_allclose(found, decoded[column.name], rtol=1e-6, atol=1e-6)
            else:
                assert np.ma.filled(found == decoded[column.name], True).all()


def written(tmp_path, content, name="t.csv"):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_cells_are_stripped_and_typed_by_the_schema(tmp_path):
    path = written(tmp_path, '\ufeff age , work ,flag\r\n  5 ,\ta ,TRUE\r\n? ," 7 ",0\r\n1e1,a,false\r\n')
    mixed = Schema([Column("flag", 0, 1, "binary"), Column("work", kind="categorical", categories=["a", "7"]),
                    Column("age", 0, 10, missing="keep")])
    file = TableFile(path)
    assert file.names == ("age", "work", "flag")
    assert file.n == 3
    np.testing.assert_array_equal(read(file, mixed), [[1, 1, 0, 0, 0], [-1, 0, 1, 0, 1], [-1, 1, 0, 1, 0]])
    assert [str(column.type) for column in next(file.chunks(mixed)).columns] == ["double", "string", "double"]


def test_without_a_header_columns_are_the_schemas_in_its_order(tmp_path):
    path = written(tmp_path, "5;a\n?;b\n")
    two = Schema([Column("age", 0, 10, missing="keep"), Column("work", kind="categorical", categories=["a", "b"])])
    file = TableFile(path, delimiter=";", header=False)
    assert (file.n, file.names) == (2, ("column1", "column2"))
    np.testing.assert_array_equal(read(file, two), [[0, 0, 1, 0], [0, 1, 0, 1]])
    with pytest.raises(InputError, match="2 columns and no header, and the schema has 1"):
        read(file, Schema([Column("age", 0, 10)]))


@pytest.mark.parametrize("block", [16, 2**20])
def test_truth_values_beside_numbers_are_read_in_whatever_block_they_stand(tmp_path, monkeypatch, block):
    monkeypatch.setattr(csv_text, "BLOCK", block)
    monkeypatch.setattr(csv_text, "BLOCK_OF_A_COLUMN", 1)
    cells = ["true", "5", "", "False", "-2.5", "TRUE", "nan", "1", "0", "1e1"] * 3
    path = tmp_path / "t.csv"
    path.write_text("x\n" + "\n".join(cells) + "\n")
    of_columns = Schema([Column("x", -16, 16, missing="keep")])
    numbers, absent = read(TableFile(path), of_columns).T
    np.testing.assert_array_equal(numbers * 16, [1, 5, 0, 0, -2.5, 1, 0, 1, 0, 10] * 3)
    np.testing.assert_array_equal(absent, [0, 0, 1, 0, 0, 0, 1, 0, 0, 0] * 3)


def test_a_mark_of_missing_values_that_is_a_category_is_that_category(tmp_path):
    path = written(tmp_path, "a,b\n?,?\nx,x\n")
    both = Schema([Column("a", kind="categorical", categories=["?", "x"]),
                   Column("b", kind="categorical", categories=["y", "x"], missing="keep")])
    np.testing.assert_array_equal(read(TableFile(path), both), [[1, 0, 0, 0, 1], [0, 1, 0, 1, 0]])
    with pytest.raises(InputError, match="'b' hold"):
        read(TableFile(path, missing=("NA",)), both)


def test_quoted_line_breaks_are_no_rows(tmp_path):
    path = written(tmp_path, '"a\nb",c\n"x\n\ny",1\n"x\r\n\r\n\ny",2\n')
    file = TableFile(path)
    assert (file.names, file.n) == (("a\nb", "c"), 2)
    np.testing.assert_array_equal(read(file, Schema([Column("c", 1, 2)])), [[-1], [1]])


# Rows that are empty: the number of rows is public and must not depend on the cells


def as_csv(writer, columns, path):
    """Write text cells, None where missing, by one of the libraries that people use."""
    if writer == "pandas":
        pd.DataFrame(columns, dtype=object).to_csv(path, index=False)
    elif writer == "polars":
        pl.DataFrame(columns, schema=dict.fromkeys(columns, pl.String)).write_csv(path)
    elif writer == "pyarrow":
        pyarrow.csv.write_csv(pa.table({name: pa.array(cells, pa.string()) for name, cells in columns.items()}), path)
    elif writer == "trigmech":
        masked = ([cell is None for cell in cells] for cells in columns.values())
        write_table(path, {name: np.ma.MaskedArray(np.array(cells, dtype=object), mask)
                           for (name, cells), mask in zip(columns.items(), masked, strict=True)})
    else:
        with path.open("w", newline="") as file:
            rows = csv.writer(file, lineterminator=writer)
            rows.writerow(columns)
            rows.writerows(zip(*columns.values(), strict=True))


@pytest.mark.parametrize("writer", ["pandas", "polars", "pyarrow", "trigmech", "\n", "\r\n", "\r"])
@settings(max_examples=10, derandomize=True, deadline=None, database=None)
@given(st.data())
def test_as_many_rows_as_any_library_wrote_come_back_in_their_order(tmp_path, monkeypatch, writer, data):
    # Some blocks end between rows, some within.
    monkeypatch.setattr(csv_text, "BLOCK", 48)
    monkeypatch.setattr(csv_text, "BLOCK_OF_A_COLUMN", 1)
    count, d = data.draw(st.integers(1, 12)), data.draw(st.sampled_from([1, 1, 2, 3]))
    # With other line ends than its own the csv module does not quote a cell with line feeds.
    texts = ["1", "x, y", "#", "-", 'a "b" c', "ä"] + ([] if writer == "\r" else ["a\n\nb"])
    cell = st.none() | st.sampled_from(texts)
    columns = {f"c{j}": data.draw(st.lists(cell, min_size=count, max_size=count)) for j in range(d)}
    path = tmp_path / "t.csv"
    as_csv(writer, columns, path)
    schema = Schema(Column(name, kind="categorical", missing="keep", categories=texts) for name in columns)
    file = TableFile(path)
    assert file.n == count
    found = schema.decode(read(file, schema))
    assert {name: found[name].tolist() for name in columns} == columns


ONE = Schema([Column("a", 0, 9, missing="keep")])
TWO = Schema([Column("a", 0, 9, missing="keep"), Column("b", 0, 9, missing="keep")])


@pytest.mark.daily(12)
@pytest.mark.parametrize("end", ["\n", "\r"])
@pytest.mark.parametrize(("text", "rows"), [
    ("a\n5\n\n\n", 3), ("a\n\n", 1), ("a\n5\n", 1), ("a\n \n5\n", 2), ('a\n5\n""\n', 2), ("\n\na\n\n5\n", 2),
])
def test_every_line_of_one_column_is_a_row(tmp_path, end, text, rows):
    file = TableFile(written(tmp_path, text.replace("\n", end)))
    assert file.n == len(read(file, ONE)) == rows


@pytest.mark.parametrize("text", ["a\n1\n2\n3", "a\n5", 'a\n5\n""', 'a\n5\n"\n"', "a\n5\n "])
def test_one_column_without_a_last_line_break_is_refused_for_its_last_cell_could_be_empty(tmp_path, text):
    with pytest.raises(InputError, match="one column and no line break after the last row"):
        read(TableFile(written(tmp_path, text)), ONE)


@pytest.mark.parametrize("cell", ["x\ry", "\rx", "x\r\r", "\r\r", "\r"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("block", [8, 2**20])
def test_a_carriage_return_that_a_program_leaves_without_quotes_makes_no_rows(tmp_path, monkeypatch, cell, end, block):
    monkeypatch.setattr(csv_text, "TEXT_AT_ONCE", block)
    for cells in ([cell, "2", "3"], ["1", "2", cell]):
        # As pandas and the csv module write it before Python 3.13 where lines end with a line feed.
        path = written(tmp_path, "a" + end + end.join(cells) + end)
        found = []
        with suppress(InputError):
            found = [TableFile(path).n]
        assert found in ([], [3])
        assert found == [3] or cell != "\r" or end != "\n"
    quoted = [f'"{each}"' for each in [cell, "2", "x\r\ny\n"]]
    assert TableFile(written(tmp_path, "a" + end + end.join(quoted) + end)).n == 3


def test_lines_of_one_column_may_all_end_with_carriage_returns_and_cells_have_others_in_quotes(tmp_path):
    assert TableFile(written(tmp_path, 'a\r1\r"2\n3"\r"4\r\n"\r')).n == 3
    with pytest.raises(InputError, match="some end with a carriage return"):
        read(TableFile(written(tmp_path, "a\r1\r2\n3\r")), ONE)
    # A row of several columns that is cut has too few cells.
    with pytest.raises(InputError, match="different numbers of cells"):
        read(TableFile(written(tmp_path, "a,b\n1,2\n3\r4,5\n")), TWO)


def test_what_states_separators_could_be_a_row_where_there_is_no_header(tmp_path):
    for text in ("sep=,\n1,2\n", "sep=;\n1,2\n"):
        with pytest.raises(InputError, match="could also be a row: remove it"):
            TableFile(written(tmp_path, text), header=False)
    assert TableFile(written(tmp_path, "sep=,\na,b\n1,2\n")).n == 1


CELLS = ["", "1", " ", "NA", "x", "a\nb", "\n", "\r", "\r\n", '"', '""', "a,b", ",", "sep=", "sep=,", "\ufeff",
         "\u2028", "\v", "#"]
QUOTED = {"what needs it": lambda cell: any(sign in cell for sign in ',"\n\r'), "what is empty": lambda cell: (
    not cell or any(sign in cell for sign in ',"\n\r')), "all": lambda _: True}


def counted(path, rows, header, quoted, ends):
    """How many rows a file has that some program wrote, or None if it is refused."""
    lines = ["a,b"[:2 * len(rows[0]) - 1]] * header + [",".join(
        '"' + cell.replace('"', '""') + '"' if QUOTED[quoted](cell) else cell for cell in row) for row in rows]
    start, between, end = ends
    path.write_text(start + between.join(lines) + end, newline="")
    try:
        return TableFile(path, header=header).n
    except InputError:
        return None


@settings(max_examples=120, derandomize=True, deadline=None, database=None)
@given(st.data())
def test_no_cell_decides_how_many_rows_there_are(tmp_path, data):
    width = data.draw(st.sampled_from([1, 1, 2]))
    rows = data.draw(st.lists(st.lists(st.sampled_from(CELLS), min_size=width, max_size=width), min_size=1, max_size=3))
    header, quoted = data.draw(st.sampled_from([True, True, False])), data.draw(st.sampled_from([*QUOTED]))
    line = data.draw(st.sampled_from(["\n", "\r", "\r\n"]))
    # A byte order mark and empty lines before; a last line break or none; and lines after it.
    ends = data.draw(st.sampled_from(["", "\ufeff", line])), line, line * data.draw(st.sampled_from([0, 0, 1, 1, 2, 3]))
    other = [row.copy() for row in rows]
    row, column = data.draw(st.sampled_from([0, -1])), data.draw(st.sampled_from([0, -1]))
    # An empty cell and another.
    rows[row][column], other[row][column] = "", data.draw(st.sampled_from(CELLS))
    path = tmp_path / "t.csv"
    one, two = (counted(path, each, header, quoted, ends) for each in (rows, other))
    assert one == two or None in (one, two)
    # What is written as Python, pandas and spreadsheets write it is never refused.
    if header and quoted != "what needs it" and ends[2] == line:
        assert one == two == len(rows)


@pytest.mark.parametrize("end", ["\n", "\r"])
@pytest.mark.parametrize(("text", "rows"), [
    ("a,b\n1,2\n,\n3,4", 3), ("a,b\n1,2\n\n\n", 1), ("\n\na,b\n,\n1,2\n", 2), ('a,b\n"","1"\n"",""\n\n', 2),
    ("a,b\n\n1,2\n", None), ("a,b\n1,2\n\n,\n", None), ('a,b\n1,2\n\n"",""', None),
])
def test_an_empty_line_between_rows_of_several_columns_is_refused(tmp_path, end, text, rows):
    file = TableFile(written(tmp_path, text.replace("\n", end)))
    if rows is None:
        with pytest.raises(InputError, match="there is an empty line between its rows"):
            read(file, TWO)
    else:
        assert file.n == len(read(file, TWO)) == rows


@pytest.mark.parametrize("text", ["\n1,2\n3,4\n", "a,b\n1,2\n \n3,4\n", 'a,b\n1,2\n""\n3,4\n', "a,b\n1,2\n3,4\n \n"])
def test_lines_that_could_be_rows_are_not_passed_over(tmp_path, text):
    with pytest.raises(InputError, match=r"empty line|different numbers of cells"):
        read(TableFile(written(tmp_path, text), header=text.startswith("a")), TWO)


def test_a_last_cell_with_line_breaks_must_end_in_a_quote(tmp_path):
    assert TableFile(written(tmp_path, 'a,b\n1,"x\ny\n"\n')).n == 1
    for end in ("", "\n"):
        with pytest.raises(InputError, match="quote is not closed"):
            read(TableFile(written(tmp_path, f'a,b\n1,"x\n2,y{end}')), AB)


def test_rows_and_members_of_compressed_files_may_be_in_several_parts(tmp_path):
    path = written(tmp_path, gzip.compress(b"a\n1\n") + gzip.compress(b"2\n"), "t.csv.gz")
    assert TableFile(path).n == 2


@pytest.mark.parametrize("suffix", ["csv", "csv.gz", "csv.bz2", "parquet"])
def test_standard_input_is_recognised_and_copied(tmp_path, monkeypatch, suffix):
    write_table(tmp_path / f"t.{suffix}", {"a": np.array([1, 3]), "b": np.array([2, 4])})
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO((tmp_path / f"t.{suffix}").read_bytes())))
    file = TableFile("-")
    assert file.n == 2
    np.testing.assert_array_equal(read(file, Schema([Column("b", 2, 4)])), [[-1], [1]])


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes here")
def test_a_named_pipe_is_copied(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    writer = subprocess.Popen([sys.executable, "-c", f"open({str(tmp_path / 'pipe')!r}, 'w').write('a\\n1\\n2\\n')"])
    file = TableFile(tmp_path / "pipe")
    assert writer.wait() == 0
    assert file.n == len(read(file, Schema([Column("a", 1, 2)]))) == 2


def test_a_table_is_written_to_standard_output(capfdbinary):
    write_table("-", {"a": np.array([1, 2]), "b": np.ma.MaskedArray([0.5, 1.5], [True, False])})
    assert capfdbinary.readouterr().out == b"a,b\n1,\n2,1.5\n"


# Other shapes of CSV

@pytest.mark.nightly
@settings(max_examples=20, derandomize=True, deadline=None, database=None)
@given(st.data())
def test_what_is_written_in_any_shape_is_read_by_its_options(tmp_path, data):
    delimiter, decimal = data.draw(st.sampled_from([(",", "."), (";", ","), ("\t", ","), ("\t", "."), ("|", ".")]))
    encoding = data.draw(st.sampled_from(["utf-8", "utf-8-sig", "cp1252", "utf-16", "utf-16-be", "utf-32"]))
    date_format = data.draw(st.sampled_from([None, "%d.%m.%Y", "%m/%d/%Y", "%Y%m%d", "%d-%b-%y"]))
    rows = data.draw(st.lists(st.tuples(st.floats(-1e6, 1e6), st.dates(datetime.date(2000, 1, 1),
                                                                       datetime.date(2050, 1, 1)),
                                        st.sampled_from(["é", "a;b", "c,d", "e|f", "g\th", 'i"j'])), min_size=1,
                              max_size=5))
    path = tmp_path / "t.txt"
    with path.open("w", newline="", encoding=encoding) as file:
        lines = csv.writer(file, delimiter=delimiter, lineterminator=data.draw(st.sampled_from(["\n", "\r\n"])))
        if data.draw(st.booleans()):
            file.write(f"sep={delimiter}\n")
        lines.writerow(["Größe", "day", "text"])
        lines.writerows([repr(x).replace(".", decimal), day.strftime(date_format) if date_format else day.isoformat(),
                         text] for x, day, text in rows)
    schema = Schema([Column("Größe", -1e6, 1e6), Column("day", "2000-01-01", "2050-01-01", "datetime"),
                     Column("text", kind="categorical", categories=["é", "a;b", "c,d", "e|f", "g\th", 'i"j'])])
    file = TableFile(path, delimiter=delimiter, decimal=decimal, encoding=encoding, date_format=date_format)
    points = read(file, schema)
    found = schema.decode(points)
    np.testing.assert_allclose(number_at(schema.columns[0], points[:, 0]), [x for x, _, _ in rows], atol=1e-8)
    assert found["day"].tolist() == [day for _, day, _ in rows]
    assert found["text"].tolist() == [text for _, _, text in rows]


def test_times_are_read_in_utc(tmp_path):
    times = Schema([Column("t", "2020-01-01T00:00", "2021-01-01", "datetime")])
    for cells, options in (("2020-06-01T12:00:00+09:00\n2020-06-01 03:00\n20200601T030000Z\n", {}),
                           ("01/06/2020 12:00 +0900\n01/06/2020 03:00 +0000\n", {"date_format": "%d/%m/%Y %H:%M %z"})):
        found = times.decode(read(TableFile(written(tmp_path, "t\n" + cells), **options), times))["t"]
        assert set(found.tolist()) == {datetime.datetime(2020, 6, 1, 3)}


def test_files_called_tsv_are_read_and_written_with_tabs(tmp_path):
    write_table(tmp_path / "T.TAB", {"a": np.array([1, 2]), "b": np.array(["x", "y,z"], dtype=object)})
    assert (tmp_path / "T.TAB").read_text() == "a\tb\n1\tx\n2\ty,z\n"
    assert TableFile(tmp_path / "T.TAB").options == {"delimiter": "\t"}
    assert TableFile(written(tmp_path, "a,b\n1,x\n", "u.tsv"), delimiter=",").options == {"delimiter": ","}


BLANK = [" a", "\ta ", "a\u00a0", "\u2003a", " a\n"]


@pytest.mark.parametrize("category", ["a", " a", "a\u00a0"])
def test_white_space_around_text_does_not_count_in_files_and_tables(tmp_path, category):
    schema = Schema([Column("a", kind="categorical", categories=[category, "b c"])])
    tables = [pd.DataFrame({"a": BLANK}), pl.DataFrame({"a": BLANK}), pa.table({"a": BLANK}),
              np.array(BLANK, dtype=object)[:, None]]
    with (tmp_path / "t.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["a"], *([cell] for cell in BLANK)])
    for points in [*map(schema.to_cube, tables), read(TableFile(tmp_path / "t.csv"), schema)]:
        np.testing.assert_array_equal(points, [[1, 0]] * len(BLANK))
    # It is kept in what is made; within text it counts.
    assert schema.decode(np.eye(2))["a"].tolist() == [category, "b c"]
    with pytest.raises(InputError, match="not among the categories"):
        schema.to_cube(pd.DataFrame({"a": ["b  c"]}))


# What is refused


def parquet_bytes():
    sink = io.BytesIO()
    pq.write_table(pa.table({"a": [7.7131] * 100, "b": ["7.7131"] * 100}), sink)
    return sink.getvalue()


AB = Schema([Column("a", 0, 10), Column("b", kind="categorical", categories=["x", "y"], other="x")])
BAD = {
    "empty": ("t.csv", b"", "is empty"),
    "header alone": ("t.csv", b"a,b\n", "no rows"),
    "short row": ("t.csv", b"a,b\n1,x\n7.7131\n", "different numbers of cells"),
    "open quote": ("t.csv", b'a,b\n1,"x\n7.7131,y\n', "quote"),
    "open quote in the header": ("t.csv", b'a,"b\n' + b"7.7131,y\n" * 20_000, "quote"),
    "names twice": ("t.csv", b"7.7131,7.7131\n1,x\n", "the same name"),
    "latin-1 cell": ("t.csv", "a,b\n7.7131,xö7131\n".encode("latin-1"), "not UTF-8"),
    "latin-1 name": ("t.csv", "a,bö7131\n7.7131,x\n".encode("latin-1"), "not UTF-8"),
    "text in a number": ("t.csv", b"a,b\n1,x\n7.7131x,y\n", "'a'"),
    "absent": ("t.csv", b"a,c7131\n1,x\n", "'b'"),
    "no header": ("t.csv", b"1,7131\n1,x\n", "header=False"),
    "cut gzip": ("t.csv.gz", gzip.compress(b"a,b\n" + b"7.7131,x\n" * 1000)[:-30], "a complete gzip"),
    "flipped gzip": ("t.csv.gz", gzip.compress(b"a,b\n" + b"7.7131,x\n" * 1000)[:-8] + b"7.713177", "a complete gzip"),
    "no bz2": ("t.csv.bz2", b"a,b\n7.7131,x\n", "a complete bz2"),
    "no parquet": ("t.parquet", b"a,b\n7.7131,x\n", "not a Parquet"),
    "parquet cut inside": ("t.parquet", parquet_bytes()[:100] + parquet_bytes()[180:], "not a Parquet"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_file_that_is_not_right_is_refused_by_name_and_rule_without_its_cells(tmp_path, case):
    name, content, message = BAD[case]
    path = written(tmp_path, content, name)
    with pytest.raises(InputError) as caught:
        read(TableFile(path), AB)
    text = oracles.whole_message(caught.value)
    assert message in text
    assert name in text
    assert oracles.SECRET_DIGITS not in text.replace(str(tmp_path), "")


@pytest.mark.parametrize("cores", [1, 2])
def test_semicolons_are_pointed_out_on_any_machine(tmp_path, cores):
    import pyarrow as pa

    before = pa.cpu_count()
    pa.set_cpu_count(cores)
    try:
        with pytest.raises(InputError, match="holds semicolons") as caught:
            read(TableFile(written(tmp_path, "a;b\n7,7131;x\n2,5;y\n")), AB)
    finally:
        pa.set_cpu_count(before)
    assert "--delimiter ';'" in str(caught.value)
    assert oracles.SECRET_DIGITS not in oracles.whole_message(caught.value).replace(str(tmp_path), "")


def test_a_row_longer_than_a_block_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("trigmech.tables.csv_text.BLOCK", 1000)
    path = written(tmp_path, "a,b\n" + "1,x\n" * 1000 + '1,"' + "7.7131,y\n" * 1000)
    with pytest.raises(InputError, match="longer than 1000 bytes, or a quote") as caught:
        read(TableFile(path), AB)
    assert oracles.SECRET_DIGITS not in oracles.whole_message(caught.value).replace(str(tmp_path), "")


def test_flipped_bytes_of_parquet_are_refused_or_read(tmp_path):
    good = parquet_bytes()
    rng = np.random.default_rng(7)
    for place in rng.integers(4, len(good), 30):
        content = bytearray(good)
        content[place] ^= 1 << int(rng.integers(8))
        text = ""
        try:
            read(TableFile(written(tmp_path, bytes(content), "t.parquet")), AB)
        except InputError as problem:
            text = oracles.whole_message(problem).replace(str(tmp_path), "")
        assert oracles.SECRET_DIGITS not in text


def test_a_folder_or_no_file_is_refused(tmp_path):
    for path, message in ((tmp_path, "a folder"), (tmp_path / "none.csv", "no such file")):
        with pytest.raises(InputError, match=message):
            TableFile(path)


def test_a_file_that_changes_between_counting_and_reading_is_refused(tmp_path):
    for content in (b"a,b\n1,x\n", b"a,b\n1,x\n2,x\n3,x\n"):
        file = TableFile(written(tmp_path, b"a,b\n1,x\n2,y\n"))
        assert file.n == 2
        written(tmp_path, content)
        with pytest.raises(InputError, match="changed while it was read"):
            read(file, AB)


@pytest.mark.parametrize(("options", "message"), [
    ({"delimiter": '"'}, "one ASCII character"), ({"delimiter": 5}, "one ASCII character"),
    ({"header": 1}, "true or false"), ({"missing": [1]}, "list of strings"), ({"decimal": ";"}, "must be '.' or ','"),
    ({"decimal": ","}, "delimiter and decimal must differ"), ({"encoding": "utf-9"}, "one that Python knows"),
    ({"encoding": "zlib"}, "one that Python knows"), ({"encoding": "a\0"}, "one that Python knows"),
    ({"date_format": "%d.%m."}, "with the year"), ({"date_format": "%Q %Y"}, "with the year"),
    ({"date_format": 5}, "with the year"), ({"date_format": "\ud800 %Y"}, "with the year"),
])
def test_options_that_break_a_rule_are_refused(tmp_path, options, message):
    with pytest.raises(InputError, match=message):
        TableFile(written(tmp_path, b"a\n1\n"), **options)


DAYS = Schema([Column("a", 0, 10), Column("b", "2020-01-01", "2030-01-01", "datetime")])
# Content, options, and what the message says to do.
ADVICE = {
    "semicolons": (b"a;b\n1;7.7131\n", {}, "its first row holds semicolons; if they separate the cells, give "
                                           "--delimiter ';' (in Python delimiter=';')"),
    "no header and one column": (b"7.7131;1\n", {"header": False}, "--delimiter"),
    "a line that states another": (b"sep=;\na,b\n7.7131,1\n", {}, "its first line states that semicolons separate its "
                                                                 "cells: give --delimiter ';'"),
    "a decimal comma": (b"a;b\n7,7131;x\n", {"delimiter": ";"}, "a decimal comma (then give --decimal ','"),
    "thousands": (b'a,b\n"7,771,371",x\n', {}, "a sign between thousands"),
    "a currency": ("a,b\n€ 77131,x\n".encode(), {}, "currency or percent sign"),
    "a point among commas": (b"a;b\n7.7131;x\n", {"delimiter": ";", "decimal": ","}, "causes are a decimal point"),
    "a mark of missing values": (b"a,b\n7.7131n,x\n", {}, "missing = [...] below [file]"),
    "days first": (b"a,b\n1,03.04.7131\n", {}, "give --date-format '%d.%m.%Y'"),
    "a day that there is not": (b"a,b\n1,31.02.7131\n", {"date_format": "%d.%m.%Y"}, "of the format '%d.%m.%Y'"),
    "Latin-1": ("a,b\n7.7131,\xe4\n".encode("latin-1"), {}, "give --encoding 'cp1252'"),
    "UTF-16": ("a,b\n7.7131,x\n".encode("utf-16"), {}, "'utf-16'"),
    "no character of cp1252": (b"a,b\n7.7131,\x81\n", {"encoding": "cp1252"}, "not in the encoding 'cp1252'"),
    "a workbook called CSV": (b"PK\x03\x047.7131", {}, "it is a workbook; save the sheet with the table as CSV"),
    "a byte order mark alone": (b"\xef\xbb\xbf\n", {}, "it is empty"),
}


@pytest.mark.parametrize("case", ADVICE)
def test_messages_say_which_option_reads_the_file_and_quote_no_cell(tmp_path, case):
    content, options, message = ADVICE[case]
    with pytest.raises(InputError) as caught:
        read(TableFile(written(tmp_path, content), **options), DAYS)
    text = oracles.whole_message(caught.value)
    assert message in text
    assert oracles.SECRET_DIGITS not in text.replace(str(tmp_path), "")


@pytest.mark.parametrize("name", ["t.xlsx", "T.XLS"])
def test_a_workbook_is_refused_by_its_name(tmp_path, name):
    with pytest.raises(InputError, match="it is a workbook; save the sheet with the table as CSV"):
        TableFile(written(tmp_path, b"a\n1\n", name))


@pytest.mark.parametrize("name", ["t.xlsx", "t.parquet.gz", "t.csv.zip"])
def test_a_table_is_not_written_under_a_name_that_says_something_else(tmp_path, name):
    with pytest.raises(InputError, match=r"must end in \.csv, \.tsv"):
        write_table(tmp_path / name, {"a": np.array([1])})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t.parquet"])
def test_a_file_that_is_deleted_is_named_as_such(tmp_path, name):
    write_table(tmp_path / name, {"a": np.array([1.0, 2.0])})
    counted, uncounted = TableFile(tmp_path / name), TableFile(tmp_path / name)
    assert counted.n == 2
    (tmp_path / name).unlink()
    for file in (counted, uncounted):
        with pytest.raises(InputError, match="it was deleted or renamed"):
            read(file, Schema([Column("a", 0, 10)]))
    (tmp_path / name).symlink_to(tmp_path / "none")
    with pytest.raises(InputError, match="a link to a file that does not exist"):
        TableFile(tmp_path / name)


def test_pieces_must_agree_and_nothing_is_left_after_an_error(tmp_path):
    one = {"a": np.array([1])}
    for pieces in ([one, {"b": np.array([1])}], [], [{}]):
        for name in ("t.csv", "t.parquet"):
            with pytest.raises(InputError, match="must have columns"):
                write_table(tmp_path / name, pieces)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(InputError, match="cannot write"):
        write_table(tmp_path / "none" / "t.csv", one)


# Memory


def most_held(tables, work):
    """The most bytes that pyarrow held while some work was done with each of its tables."""
    gc.collect()
    before, most = pa.total_allocated_bytes(), 0
    for table in tables:
        work(table)
        most = max(most, pa.total_allocated_bytes() - before)
    return most


@pytest.mark.nightly  # By day rows are read in chunks of a size, above.
@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_four_times_the_rows_are_read_in_the_same_memory(tmp_path, monkeypatch, suffix):
    monkeypatch.setattr("trigmech.tables.csv_text.BLOCK", 2**14)
    rng = np.random.default_rng(1)
    piece = {f"x{j}": rng.uniform(-1, 1, 6_000) for j in range(3)} | {
        "c": np.array(["u", "v"], dtype=object)[rng.integers(0, 2, 6_000)]}
    described = Schema([*(Column(f"x{j}", -1, 1) for j in range(3)),
                        Column("c", kind="categorical", categories=["u", "v"])])
    held = []
    for count in (2, 8):
        path = tmp_path / f"{count}.{suffix}"
        write_table(path, (piece for _ in range(count)))
        held.append(most_held(TableFile(path).chunks(described, rows=2**10), described.to_cube))
    assert TableFile(path).n == 48_000
    assert held[1] < 1.5 * held[0]


@pytest.mark.parametrize("read", [
    lambda file: file.n, lambda file: file.groups, lambda file: file.types, lambda file: file.first_rows(1),
    lambda file: file.first_present("x", 1, 2), lambda file: list(file.chunks(Schema([Column("x", 0, 1)])))])
def test_no_reading_of_parquet_quotes_what_the_library_says(tmp_path, monkeypatch, read):
    pq.write_table(pa.table({"x": [0.25, 0.5]}), tmp_path / "a.parquet")
    file = TableFile(tmp_path / "a.parquet")

    def broken(self):
        raise pa.ArrowInvalid("a cell: 4711")

    monkeypatch.setattr(TableFile, "_parquet", broken)
    with pytest.raises(InputError) as refused:
        read(file)
    assert "4711" not in str(refused.value)


def plain_csv(pieces, delimiter):
    """Return the bytes of pieces by Python's writer, row by row."""
    text, named = io.StringIO(newline=""), False
    for piece in pieces:
        cells = [[None if gone else value for value, gone in zip(
            np.datetime_as_string(values.data) if values.dtype.kind == "M" else values.data.tolist(),
            np.ma.getmaskarray(values), strict=True)] for values in piece.values()]
        returns = any(isinstance(cell, str) and "\r" in cell for own in (piece, *cells) for cell in own)
        writer = csv.writer(text, delimiter=delimiter, lineterminator="\n",
                            quoting=csv.QUOTE_NONNUMERIC if returns else csv.QUOTE_MINIMAL)
        if not named and cells[0]:
            writer.writerow(piece)
            named = True
        writer.writerows(zip(*cells, strict=True))
    return text.getvalue().encode()


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "0", "-", "e"])
def test_csv_is_that_of_a_writer_of_single_rows(tmp_path, monkeypatch, delimiter):
    rng, n = np.random.default_rng(4), 300
    words = np.array(["a", "", "b,c", 'q"x', "new\nline", "ü€😀", "tab\t", "0", "-1", "x\0y", "\0", " sp ", "é" * 30,
                      "semi;x", True, 1, 1.5], dtype=object)
    monkeypatch.setattr(writer, "MOST_BYTES", 20_000)
    monkeypatch.setattr(writer, "LOOKED_AT", 64)
    columns = {
        "whole": rng.integers(-5, 9, n), "wide": rng.integers(-2**62, 2**62, n), "real": rng.normal(size=n),
        "few": rng.choice([0.0, -0.0, 1e300, np.inf, -np.inf, np.nan, 1e-7], n), "true": rng.random(n) < 0.5,
        "small": rng.random(n).astype(np.float32), "unsigned": rng.integers(0, 2**63, n).astype(np.uint64),
        "day": np.datetime64("2013-01-01") + rng.integers(0, 400, n), "word": words[rng.integers(0, len(words), n)],
        "time": np.array(["2013-01-01T00:00:01", "NaT"], dtype="M8[s]")[rng.integers(0, 2, n)]}
    masked = {name: np.ma.masked_array(values, rng.random(n) < 0.4) for name, values in columns.items()}
    whole = {name: np.ma.masked_array(values) for name, values in columns.items()}
    returning = np.ma.masked_array(np.array(["a", "r\rx", ""], dtype=object)[rng.integers(0, 3, n)])
    none = {name: values[:0] for name, values in whole.items()}
    for pieces in ([whole], [masked, none, masked], [{"r": returning, **masked}], [none],
                   *([{name: values}] for name, values in masked.items())):
        write_table(tmp_path / "t.csv", iter(pieces), delimiter=delimiter)
        assert (tmp_path / "t.csv").read_bytes() == plain_csv(pieces, delimiter)
    with pytest.raises(ValueError, match="lengths"):
        write_table(tmp_path / "t.csv", {"a": np.arange(3), "b": np.arange(1)})
