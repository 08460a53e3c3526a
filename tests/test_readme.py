"""What the README shows is true of the code."""

import re
from pathlib import Path

import pandas as pd

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")


def test_the_example_runs_and_prints_a_table_an_answer_and_a_ledger(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (example,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert len(example.splitlines()) <= 11
    names = {}
    exec(example, names)
    printed = capsys.readouterr().out
    sample = names["release"].sample(5)
    assert isinstance(sample, pd.DataFrame)
    assert list(sample.columns) == ["age", "income"]
    assert (sample["age"] % 1 == 0).all()
    (proved,) = re.findall(r"proved: \((\S+), 1e-06\)", printed)
    assert 0.99 < float(proved) <= 1.0


def test_the_folders_and_modules_that_it_names_exist():
    root = Path(__file__).parent.parent
    named = re.findall(r"`((?:trigmech|experiments|paper_figures|benchmarks|tests)/[\w./]*)`", README)
    assert len(named) >= 6
    assert [name for name in named if not (root / name).exists()] == []
