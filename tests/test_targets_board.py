"""The experiment on target columns: its scores, and its page."""

from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score

import trigmech as tm
from experiments import cells, targets
from experiments.asked import Asked, LeftOut
from experiments.protocols import scores
from experiments.protocols.data import Sample, TableSet
from trigmech.schema import toml as schema_file


@pytest.fixture(autouse=True)
def few_trees(monkeypatch):
    """Forests are not shown, and boosting needs few trees for so few rows."""
    for name, options in (("RandomForestClassifier", {"n_estimators": 2}), ("RandomForestRegressor", {
            "n_estimators": 2}), ("HistGradientBoostingClassifier", {"max_iter": 30}),
            ("HistGradientBoostingRegressor", {"max_iter": 30})):
        monkeypatch.setattr(scores, name, partial(getattr(scores, name), **options))


def table(seed, n=400, labels=("low", "high")):
    rng = np.random.default_rng(seed)
    x = rng.uniform(0, 10, n)
    found = pd.DataFrame({"x": x, "c": rng.choice(["a", "b"], n), "y": x + rng.normal(0, 1, n)})
    if labels:
        found["y"] = np.array(labels, dtype=object)[np.digitize(found["y"], np.linspace(0, 10, len(labels) + 1)[1:-1])]
    return found


def schema(labels):
    last = (tm.Column("y", kind="categorical", categories=labels) if labels else tm.Column("y", -5, 15))
    return tm.Schema([tm.Column("x", 0, 10), tm.Column("c", kind="categorical", categories=("a", "b")), last])


@pytest.mark.daily(3)
@pytest.mark.parametrize(("labels", "measures"), [
    (("low", "high"), {"AUC of boosting"}), (("low", "middle", "high"), {"F1 of boosting", "F1 of a linear model"}),
    ((), {"R² of boosting", "R² of a linear model"})])
def test_real_rows_predict_well_and_rows_in_any_order_do_not(labels, measures):
    train, test = table(0, labels=labels), table(1, labels=labels)
    shuffled = train.assign(y=np.random.default_rng(2).permutation(train["y"].to_numpy()))
    real, none = (targets.scores(schema(labels), each, test) for each in (train, shuffled))
    assert set(real) == set(none) == measures
    for measure in measures:
        assert real[measure] > 0.75
        assert none[measure] < 0.65
    if len(labels) == 2:
        assert real["AUC of boosting"] <= roc_auc_score(test["y"] == "high", test["x"]) + 0.01


@pytest.mark.nightly  # By day scores of real and of shuffled rows, above.
def test_the_page_names_means_errors_and_real_rows(tmp_path, monkeypatch):
    monkeypatch.setattr(cells, "RESULTS", tmp_path)
    monkeypatch.setattr(cells, "CACHE", tmp_path / "cache")
    # In this process, where trees are few and everything is loaded.
    monkeypatch.setattr(cells, "run_cells", lambda todo, *_: ((cell, cells.run_cell(cell)) for cell in todo))
    table(0, labels=()).to_csv(tmp_path / "made.csv", index=False)
    schema_file.save(tmp_path / "made.toml", schema(()))
    path = replace(targets.targets, quick=[Sample(str(tmp_path / "made.csv"), 300)])(
        Asked(quick=True, epsilons=(5.0,)))
    text, lines = path.read_text(encoding="utf-8"), pd.read_csv(path.with_suffix(".csv"))
    mean = lines.set_index(["method", "measure"])["mean"]
    assert set(lines["method"]) == {*targets.METHODS, targets.REAL}
    assert mean["real", "R² of boosting"] > mean["default", "R² of boosting"]
    for (method, measure), value in mean.items():
        line = next(line for line in text.splitlines() if measure in line)
        # The file has four digits, of which the page shows three places.
        assert any(f"{value + half:.3f}" in line for half in (-5e-5, 0.0, 5e-5)), method
    monkeypatch.setattr(targets, "find", lambda source: TableSet(source, (), lambda: (table(0), schema(()))))
    with pytest.raises(LeftOut, match="nist_demographic has no test rows"):
        targets.scores_of("nist_demographic", 0, targets.REAL, 0.0, 0)
