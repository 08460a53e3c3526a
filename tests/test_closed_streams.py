"""Commands whose standard input or output is closed: one line, status 2, and nothing is charged."""

import sys

import numpy as np
import pandas as pd
import pytest
from test_cli import run as run  # a fixture

import trigmech as tm
from trigmech.schema import toml


@pytest.fixture
def files(tmp_path):
    pd.DataFrame({"x": np.linspace(0.0, 1.0, 300)}).to_csv(tmp_path / "d.csv", index=False)
    toml.save(tmp_path / "s.toml", tm.Schema([tm.Column("x", 0, 1)]))
    tm.LedgerFile.create(tmp_path / "l.json", tm.Budget(1.0, 1e-6))
    return tmp_path


def test_a_table_for_a_closed_standard_output_is_refused_before_the_charge(files, run, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", None)
        code, said = run("release", "d.csv", "--schema", "s.toml", "--epsilon", "1", "--out", "r.tm", "--ledger",
                         "l.json", "--csv", "-")[::2]
    assert code == 2
    assert "standard output is closed, so no table can be written to it; name a file" in said
    assert not tm.LedgerFile.open(files / "l.json").entries
    assert not (files / "r.tm").exists()


@pytest.mark.parametrize("command", [("check", "-", "--schema", "s.toml"), ("schema", "init", "-")])
def test_a_closed_standard_input_is_called_closed(files, run, monkeypatch, command):
    monkeypatch.setattr(sys, "stdin", None)
    code, said = run(*command)[::2]
    assert code == 2
    assert "cannot read standard input: it is closed" in said
