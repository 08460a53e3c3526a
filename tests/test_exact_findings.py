"""Findings, messages and refusals that few tables cause: each is compared as a whole."""

import io
import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import trigmech as tm
from trigmech.errors import InputError
from trigmech.inspection.check import PersonLook, TableLook
from trigmech.inspection.findings import FEWEST
from trigmech.tables.frames import Columns
from trigmech.tables.lenient import cause_of_date
from trigmech.tables.reader import TableFile

NUMBER = tm.Schema([tm.Column("x", 0, 10, decimals=1)])


def kinds(found):
    return [(each.column, each.kind, each.count, each.lines) for each in found]


def test_a_table_file_is_checked_with_its_options_and_those_given_besides_win(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("x;y\n" + "1,5;n/a\n2,5;3,25\n" * 20)
    schema = tm.Schema([tm.Column("x", 0, 10, decimals=1), tm.Column("y", 0, 10, missing="keep", decimals=2)])
    file = TableFile(path, delimiter=";", decimal=",", missing=["n/a"])
    assert kinds(tm.check(file, schema)) == []
    assert kinds(tm.check(file, schema, file={"missing": [""]})) == [("y", "mark", 20, (2, 4, 6, 8, 10))]


def test_standard_input_is_refused_for_it_can_be_read_once(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"x\n1\n2\n")))
    with pytest.raises(InputError) as refused:
        tm.check(TableFile("-"), NUMBER)
    assert str(refused.value) == "a table from a pipe can be read once: give its path, or a dataframe"


def test_persons_that_cannot_be_read_are_a_finding_of_all_rows():
    look, frame = PersonLook("who"), pd.DataFrame({"who": [1, 2, 3]})

    class Broken:
        def distinct(self, j):
            raise ArithmeticError("a value")

    look.add(Columns(frame, ("who",)), 0, np.array([4, 5, 6]))
    look.add(Broken(), 0, np.array([7, 8]))
    found, = look.findings()
    assert (found.kind, found.count, found.lines, found.severity) == ("type", 2, (7, 8), "refused")
    assert "a value" not in found.sentence
    assert look.persons == 3


def test_few_persons_are_counted_exactly_and_many_up_to_the_limit():
    look = PersonLook("who")
    look.add(Columns(pd.DataFrame({"who": ["a", "b", None, "a"]}), ("who",)), 0, np.arange(4))
    assert (look.persons, look.read) == (2, True)
    look.add(Columns(pd.DataFrame({"who": list("bcd")}), ("who",)), 0, np.arange(3))
    assert look.persons == 4
    look.add(Columns(pd.DataFrame({"who": range(3 * FEWEST)}), ("who",)), 0, np.arange(3 * FEWEST))
    assert look.persons == FEWEST
    assert kinds(look.findings()) == [("who", "nobody", 1, (2,))]


@pytest.mark.parametrize("column", [tm.Column("x", 0, 10), tm.Column("x", kind="categorical", categories="private"),
                                    tm.Column("x", kind="ordinal", categories=["a", "b"])], ids=lambda each: each.kind)
def test_a_column_that_cannot_be_read_is_one_finding_however_many_chunks_it_has(column):
    look = TableLook(tm.Schema([column, tm.Column("y", 0, 1)], ["y <= 1"]))
    for first in (0, 30):
        look.add(pa.table({"x": [[1], [2]] * 15, "y": [0.5] * 30}), ("x", "y"), {}, np.arange(first, first + 30))
    kept, = (each for each in look.findings([], "row") if each.column == "x")
    assert (kept.severity, kept.kind, kept.count, kept.lines) == ("refused", "type", 60, (0, 1, 2, 3, 4))
    assert (kept.sentence, kept.remedy) == ("column 'x' cannot be read; its type is List",
                                            "convert the column to a type that suits its kind")


@pytest.mark.parametrize(("rows", "told"), [(1, []), (2, ["constant"])])
def test_a_column_without_a_value_is_a_constant_from_two_rows_on(rows, told):
    schema = tm.Schema([tm.Column("x", 0, 10, missing="keep")])
    found = [each for each in tm.check(pd.DataFrame({"x": [np.nan] * rows}), schema) if each.column == "x"]
    assert [each.kind for each in found] == told
    assert all((each.count, each.sentence) == (rows, "no row holds a value") for each in found)


@pytest.mark.parametrize(("cells", "told"), [((",", ","), ["constant"]), (("1;5", ","), ["word"])])
def test_a_column_whose_values_cannot_be_read_is_no_constant(tmp_path, cells, told):
    """Whoever left it out, as the hint advises, would lose its values."""
    (tmp_path / "t.csv").write_text("x,y\n" + "".join(f"{cell.strip(',')},1\n" for cell in cells * FEWEST))
    schema = tm.Schema([tm.Column("x", 0, 10, missing="keep")])
    assert [each.kind for each in tm.check(tmp_path / "t.csv", schema).found] == told


@pytest.mark.parametrize("day", ["17.06.1979", "05.12.2020", "5.12.2020", "23.59.1999"])
def test_a_date_with_points_is_no_time_of_a_day(day):
    assert cause_of_date(day, None) == "form"
    assert cause_of_date("9.45", None) == cause_of_date("17.06.19.5", None) == cause_of_date("9:45:10,25 pm", None) == (
        "time of day")


def test_no_value_but_special_ones_is_no_constant():
    schema = tm.Schema([tm.Column("x", 0, 10, missing="keep", special=[99])])
    assert kinds(tm.check(pd.DataFrame({"x": [99.0, np.nan] * FEWEST}), schema)) == []
