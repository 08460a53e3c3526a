"""The experiment on plans: the best of a grid is chosen without its own noise, and its page."""

from dataclasses import replace

import pandas as pd
import pytest

from experiments import cells, plans
from experiments.asked import Asked


def lines_of(errors):
    """Lines of pairs, by plan and then by seed."""
    return pd.DataFrame([{"plan": plan, "seed": seed, "measure": "pairs", "value": value}
                         for plan, values in errors.items() for seed, value in enumerate(values)])


def test_a_plan_is_the_best_by_the_other_seeds():
    found, best = plans.compared(lines_of({plans.CHOSEN: [2.0, 4.0, 3.0], "lucky once": [0.5, 6.0, 6.0],
                                     "steady": [2.5, 2.0, 3.0]}))
    # By seeds 2 and 3, 1 and 3, 1 and 2 the steady plan is always better.
    assert found["best pairs"] == pytest.approx(2.5)
    assert found["ratio"] == pytest.approx(3.0 / 2.5)
    assert best == "steady"
    found, _ = plans.compared(lines_of({plans.CHOSEN: [2.0, 2.0], "first": [1.0, 3.0], "second": [3.0, 1.0]}))
    # Each is best by the seed at which it is not counted.
    assert found["best pairs"] == pytest.approx(3.0)


@pytest.mark.nightly
def test_the_page_shows_predictions_beside_errors(tmp_path, monkeypatch):
    monkeypatch.setattr(cells, "RESULTS", tmp_path)
    monkeypatch.setattr(cells, "CACHE", tmp_path / "cache")
    monkeypatch.setattr(cells, "run_cells", lambda todo, *_: ((cell, cells.run_cell(cell)) for cell in todo))
    path = replace(plans.plans, seeds=(1, 1))(Asked(quick=True))
    lines = pd.read_csv(path.with_suffix(".csv"))
    assert set(lines["plan"]) == {plans.CHOSEN, *plans.GRIDS[plans.GAUSSIAN]}
    found = lines[lines["plan"] == plans.CHOSEN].set_index("measure")["value"]
    (row,) = [line for line in path.read_text(encoding="utf-8").splitlines() if line.startswith("| factors_5")]
    for measure in ("predicted columns", "columns", "predicted pairs", "pairs"):
        assert f" {found[measure]:.3f} " in row
