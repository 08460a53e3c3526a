"""The experiment on false alarms: its statistics against plain counts, and its rates."""

import numpy as np
import pandas as pd
import pytest

from experiments import cells, nulls
from experiments.asked import Asked
from experiments.frames import read_csv


def test_statistics_are_plain_differences_and_shares():
    table = pd.DataFrame({"x": [1.0, 2.0, 4.0, 9.0], "arm": ["new", "new", "old", "old"], "site": list("ppqr")})
    assert nulls.difference(table, "x", "arm") == pytest.approx(1.5 - 6.5)
    # Half are new, half are at p, and those are the same.
    np.testing.assert_allclose(nulls.dependence(table, "arm", "site"), [0.25, -0.125])
    assert nulls.difference(table[:2], "x", "arm") == 0.0


@pytest.mark.nightly
def test_a_population_has_no_dependence_on_groups_but_one_of_numbers():
    table = nulls.population(200_000, np.random.default_rng(0))
    assert all(abs(nulls.difference(table, number, group)) < 0.03
               for number in nulls.NUMBERS for group in nulls.GROUPS)
    assert all(np.abs(nulls.dependence(table, *pair)).max() < 0.005 for pair in nulls.PAIRS)
    assert np.corrcoef(table["x"], table["y"])[0, 1] > 0.2


def test_a_quick_run_counts_alarms(monkeypatch, tmp_path):
    """Made p-values in place of releases."""
    made = {"t test, fit": [0.01, 0.2], "chi-square, naive": [0.049]}
    monkeypatch.setattr(cells, "RESULTS", tmp_path)
    monkeypatch.setattr(cells, "run_cells", lambda todo, jobs, title: [(cell, made) for cell in todo])
    assert nulls.nulls(Asked(quick=True)).name == "nulls_quick.md"
    found = read_csv(tmp_path / "nulls_quick.csv").set_index("test")
    assert found["rate"].to_dict() == {"t test, fit": 0.5, "chi-square, naive": 1.0}
    assert found["tests"].to_dict() == {"t test, fit": 4, "chi-square, naive": 2}
