"""The command line as a user meets it: what it writes, what it says to wrong input, and what it leaves behind."""

import csv
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from trigmech import demo
from trigmech.budget import Budget
from trigmech.cli import main


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Run the command line in this process, below a temporary folder; return its status and what it printed."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["trigmech", *arguments])
        with pytest.raises(SystemExit) as ending:
            main()
        printed = capsys.readouterr()
        return ending.value.code, printed.out, " ".join(printed.err.split())

    return call


def test_the_demo_writes_its_table_and_picture_and_says_what_is_proved(tmp_path):
    # As installed, in a process of its own, with hardened noise.
    command = [str(Path(sys.executable).with_name("trigmech")), "demo", "--folder", "out", "--rows", "50"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr
    assert "proved: (" in done.stdout
    assert "NOT PRIVATE" not in done.stdout
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["demo.png", "synthetic.csv"]
    with (tmp_path / "out" / "synthetic.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert (len(rows), len(rows[0])) == (50, 30)
    assert all(6.98 <= float(row["mean radius"]) <= 28.12 for row in rows)
    assert (tmp_path / "out" / "demo.png").read_bytes().startswith(b"\x89PNG")


def test_a_seeded_demo_repeats_and_says_that_it_is_not_private(tmp_path):
    budget = Budget(1.0, 1e-3)
    first = demo.run(tmp_path / "a", budget, 20, 7, lambda step: None)
    second = demo.run(tmp_path / "b", budget, 20, 7, lambda step: None)
    assert first.table.read_bytes() == second.table.read_bytes()
    assert "NOT PRIVATE" in str(first.synthesis.ledger)
    np.testing.assert_array_equal(first.evaluation.worst_absolute, second.evaluation.worst_absolute)


@pytest.mark.parametrize(("arguments", "words"), [
    (("demo", "--epsilon", "0"), "epsilon must be positive and finite, not 0.0"),
    (("demo", "--epsilon", "nan"), "epsilon must be positive"),
    (("demo", "--epsilon", "many"), "Invalid value for '--epsilon'"),
    (("demo", "--delta", "-1"), "delta must be at least 0"),
    (("demo", "--delta", "1"), "delta must be at least 0 and below 1"),
    (("demo", "--rows", "0"), "Invalid value for '--rows'"),
    (("demo", "--seed", "-1"), "Invalid value for '--seed'"),
    (("demo", "--folder", "file/below"), "cannot make the folder"),
    (("dmeo",), "No such command"),
])
def test_wrong_input_ends_with_status_2_one_reason_and_no_file(run, tmp_path, arguments, words):
    (tmp_path / "file").write_text("in the way")
    status, _, said = run(*arguments)
    assert status == 2
    assert words in said
    left = [path for path in tmp_path.rglob("*") if path.suffix in (".csv", ".png")]
    assert left == []


def test_a_failed_write_leaves_the_old_file_whole(tmp_path, monkeypatch):
    path = tmp_path / "synthetic.csv"
    path.write_text("old")

    def full(self, content):
        raise OSError("no space left on device")

    monkeypatch.setattr("pathlib.Path.write_bytes", full)
    with pytest.raises(OSError, match="no space"):
        demo._replace(path, b"new")
    assert path.read_text() == "old"
    assert [each.name for each in tmp_path.iterdir()] == ["synthetic.csv"]


def test_help_and_info_end_well(run):
    status, said, _ = run("--help")
    assert status == 0
    assert re.search(r"\bdemo\b.*\binfo\b|\binfo\b.*\bdemo\b", said, re.DOTALL)
    status, said, _ = run("info")
    assert status == 0
    assert "opendp" in said
