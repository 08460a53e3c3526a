"""What does not fit a schema is counted exactly, for the eyes of the table's holder alone."""

import json
import logging
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from trigmech.cli.app import app
from trigmech.schema.column import Column
from trigmech.schema.misfits import in_words, misfits
from trigmech.schema.schema import Schema

SCHEMA = """
[columns.x]
kind = "continuous"
lower = 0
upper = 10
special = [99]

[columns.n]
kind = "integer"
lower = 0
upper = 10

[columns.day]
kind = "datetime"
lower = 2024-01-01
upper = 2024-12-31

[columns.c]
kind = "categorical"
categories = ["a", "b"]
other = "b"

[columns.d]
kind = "categorical"
categories = ["1", "2"]
"""
TABLE = """x,n,day,c,d
inf,99999999999999999999999999,2024-01-01T05:00:00,a,1
-inf,5,2024-01-02,z,2.0
99,11,1999-01-01,a,3
10,0,2025-01-03,y,1
10.5,-10,2024-05-05,,1
20.1,,2024-05-05T00:00:01,b,1
,-11,2024-05-05,b,1
"""
EXPECTED = {
    "x": {"infinite": 2, "far outside": 1, "outside": 1, "missing": 1},
    "n": {"far outside": 2, "outside": 2, "missing": 1}, "day": {"far outside": 1, "outside": 1, "finer": 2},
    "c": {"missing": 1, "other": 2}, "d": {"no category": 1},
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("s.toml").write_text(SCHEMA)
    Path("t.csv").write_text(TABLE)
    return tmp_path


def test_every_misfit_of_a_file_is_counted_and_named_in_one_private_sentence(folder, caplog):
    with caplog.at_level(logging.DEBUG):
        done = CliRunner().invoke(app, ["schema", "check", "s.toml", "--against", "t.csv", "--json"])
    assert done.exit_code == 0
    facts = json.loads(done.stdout)
    assert facts["private"] is True
    assert facts["misfits"] == EXPECTED
    assert done.stderr.startswith("NOT PRIVATE, for you alone: ")
    assert done.stderr.count("\n") == 1
    assert all(f"{name!r} has " in done.stderr for name in EXPECTED)
    assert "2 infinite, 1 farther outside the bounds than the bounds are apart, 1 outside the bounds" in done.stderr
    assert not caplog.records
    # Without --json no count is on standard output, which is what one keeps.
    done = CliRunner().invoke(app, ["schema", "check", "s.toml", "--against", "t.csv"])
    assert "infinite" not in done.stdout
    assert "infinite" in done.stderr
    assert {path.name for path in folder.iterdir()} == {"s.toml", "t.csv"}


def test_nothing_is_counted_unless_a_table_is_named_or_if_all_fits(folder):
    Path("t.csv").write_text("x,n,day,c,d\n" + "1,2,2024-03-03,a,1\n" * 3)
    assert CliRunner().invoke(app, ["schema", "check", "s.toml"]).stderr == ""
    done = CliRunner().invoke(app, ["schema", "check", "s.toml", "--against", "t.csv"])
    assert "every value fits the schema" in done.stderr


def test_counts_add_up_over_parts_and_files(folder):
    schema = Schema([Column("x", 0, 10), Column("p", private_bounds=True), Column("q", kind="categorical",
                                                                                 categories="private")])
    rng = np.random.default_rng(0)
    values = rng.normal(5.0, 20.0, 500)
    values[:7] = math.inf
    frame = pd.DataFrame({"x": values, "p": values, "q": "word"})
    beyond = np.maximum(-values, values - 10.0)
    far = int((np.isfinite(values) & (beyond > 10.0)).sum())
    expected = {"x": {"infinite": 7, "far outside": far, "outside": int(((beyond > 0) & (beyond <= 10.0)).sum())},
                "p": {"infinite": 7}}
    assert misfits(schema, [frame]) == expected
    assert misfits(schema, [frame[:100], frame[100:]]) == expected
    assert in_words({}) == ""
    assert in_words(expected) == (f"'x' has 7 infinite, {far} farther outside the bounds than the bounds are apart, "
                                  f"{expected['x']['outside']} outside the bounds (clipped) | "
                                  "'p' has 7 infinite (clipped)")
    assert in_words({"a": {"outside": 2, "missing": 1, "other": 3}}) == (
        "'a' has 2 outside the bounds (clipped); 1 missing (refused); 3 that count as other")
    Path("folder").mkdir()
    for i, part in enumerate((frame[:100], frame[100:])):
        pq.write_table(pa.Table.from_pandas(part[["x"]]), f"folder/{i}.parquet")
    Path("s.toml").write_text("[columns.x]\nlower = 0\nupper = 10\n")
    done = CliRunner().invoke(app, ["schema", "check", "s.toml", "--against", "folder/*.parquet", "--json"])
    assert json.loads(done.stdout)["misfits"] == {"x": expected["x"]}
