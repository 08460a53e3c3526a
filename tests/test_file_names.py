"""Names of files that a file system does not take, and names of columns that a CSV file does not keep."""

import json
import os

import numpy as np
import pandas as pd
import pytest
from test_cli import RELEASE, content
from test_cli import clinic as clinic  # fixtures
from test_cli import made as made
from test_cli import run as run

import trigmech as tm
from trigmech._files import check_writable, hidden, write_whole
from trigmech.errors import BudgetError, InputError
from trigmech.tables.reader import TableFile
from trigmech.tables.writer import write_table

LONG = 300 * "a"


@pytest.mark.parametrize("arguments", [
    (*RELEASE[:-1], f"{LONG}.tm"), (*RELEASE, "--csv", f"{LONG}.csv"), (*RELEASE, "--ledger", f"{LONG}.json"),
    (*RELEASE[:-1], f"{249 * 'a'}.tm", "--ledger", "ledger.json"), (*RELEASE, "--ledger", f"{248 * 'a'}.json"),
    ("ledger", "create", f"{LONG}.json", "--epsilon", "1"), ("report", "clinic.tm", "--out", f"{LONG}.html"),
    ("sample", "clinic.tm", "--out", f"{LONG}.csv"), ("sample", "clinic.tm", "--imputations", "3", "--out", LONG),
    ("ask", "clinic.tm", "select count(*) from release", "--csv", f"{LONG}.csv"),
    ("ask", "clinic.tm", "select count(*) from release", "--imputations", LONG),
    ("fit", "clinic.tm", "income ~ 1", "--imputations", LONG), ("schema", "init", "data.csv", "--out", f"{LONG}.toml"),
    ("part", "design", "--schema", "schema.toml", "--n", "9", "--epsilon", "1", "--out", f"{LONG}.json")],
    ids=lambda arguments: " ".join(arguments[:2] + arguments[-2:-1]))
def test_a_name_that_is_too_long_is_refused_with_the_name_before_anything_is_charged(clinic, run, arguments):
    before = content(clinic)
    status, _, told = run(*arguments)
    assert status == 2
    assert "aaa" in told
    assert told.endswith("File name too long")
    assert content(clinic) == before


@pytest.mark.parametrize("name", [85 * "年", 127 * "ß" + "a", 255 * "a", "年" + 252 * "a"])
def test_a_name_that_the_file_system_takes_is_written(tmp_path, name):
    path = tmp_path / name
    check_writable(path)
    write_whole(path, b"x")
    assert os.listdir(tmp_path) == [name]
    # What is written beside begins with whole letters of the name.
    assert name.startswith(hidden(name)[1:-1])
    assert len(hidden(name)) > 30
    for longer in (f"{name}a", f"{name}.rounds"):
        for attempt in (check_writable, lambda path: write_whole(path, b"x")):
            with pytest.raises(InputError, match=r"cannot write '.*': File name too long"):
                attempt(tmp_path / longer)
    assert os.listdir(tmp_path) == [name]


def test_white_space_around_a_name_is_no_part_of_it_in_a_csv_file(tmp_path):
    schema = tm.Schema([tm.Column(" age", 0, 120, "integer"), tm.Column("pay ", 0, 9)])
    table = pd.DataFrame({" age": np.arange(30), "pay ": np.linspace(0.0, 9.0, 30)})
    table.to_csv(tmp_path / "data.csv", index=False)
    # Also what the program writes itself.
    write_table(tmp_path / "own.csv", iter([{name: table[name].to_numpy() for name in table}]))
    for name in ("data.csv", "own.csv"):
        read = np.concatenate([schema.to_cube(chunk) for chunk in TableFile(tmp_path / name).chunks(schema)])
        np.testing.assert_array_equal(read, schema.to_cube(table))
    twins = tm.Schema([tm.Column("pay", 0, 9), tm.Column("pay ", 0, 9)])
    (tmp_path / "one.csv").write_text("pay\n1\n2\n")
    with pytest.raises(InputError, match="two names that differ only by white space at an end"):
        next(iter(TableFile(tmp_path / "one.csv").chunks(twins)))


def test_a_ledger_has_a_total_that_a_release_can_have(tmp_path):
    for epsilon in (1e-10, 1e13):
        with pytest.raises(BudgetError, match="a ledger's epsilon must lie between 1e-09 and 1e\\+12"):
            tm.LedgerFile.create(tmp_path / "ledger.json", tm.Budget(epsilon, 0.0))
    assert os.listdir(tmp_path) == []
    book = tm.LedgerFile.create(tmp_path / "ledger.json", tm.Budget(1e-9, 0.0))
    with pytest.raises(BudgetError, match="a ledger's epsilon must lie between"):
        book.raise_budget(tm.Budget(1e13, 0.0))
    assert json.loads((tmp_path / "ledger.json").read_text())["budget"]["epsilon"] == 1e-9
