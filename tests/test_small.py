"""The experiment on small tables: its scores against plain counts, and its page."""

import itertools
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import trigmech as tm
from experiments import cells, small
from experiments.asked import Asked

SCHEMA = tm.Schema([tm.Column("x", 0, 10), tm.Column("y", 0, 10), tm.Column("c", kind="categorical",
                                                                           categories=("a", "b", "z"))])


def table(seed, n=200):
    rng = np.random.default_rng(seed)
    x = rng.uniform(0, 10, n)
    return pd.DataFrame({"x": x, "y": np.clip(x + rng.normal(0, 2, n), 0, 10), "c": rng.choice(["a", "b"], n)})


@pytest.mark.nightly
def test_scores_are_those_of_plain_counts():
    real, made = table(0), table(1, 300)
    found = small.scores(SCHEMA, real, made)

    def cell(name, value):
        if name == "c":
            return value
        cuts = np.quantile(real[name], np.arange(1, small.CUTS) / small.CUTS)
        return int((value >= cuts).sum())

    def variation(names):
        shares = []
        for rows in (real, made):
            own = {}
            for values in zip(*(rows[name] for name in names), strict=True):
                key = tuple(cell(name, value) for name, value in zip(names, values, strict=True))
                own[key] = own.get(key, 0.0) + 1.0 / len(rows)
            shares.append(own)
        return sum(abs(shares[0].get(key, 0.0) - shares[1].get(key, 0.0)) for key in {**shares[0], **shares[1]}) / 2

    assert found["columns"] == pytest.approx(np.mean([variation([name]) for name in "xyc"]))
    pairs = [variation(list(pair)) for pair in itertools.combinations("xyc", 2)]
    assert found["pairs"] == pytest.approx(np.mean(pairs))
    ranks = [rows[["x", "y"]].rank().corr().to_numpy()[0, 1] for rows in (real, made)]
    assert found["ranks"] == pytest.approx(abs(ranks[0] - ranks[1]))
    below = [np.abs((np.sort(real[name])[:, None] <= v).mean(axis=0) - (np.sort(made[name])[:, None] <= v).mean(axis=0)
                    ).max() for name in "xy" for v in [np.concatenate([real[name], made[name]])]]
    assert found["distance"] == pytest.approx(np.mean(below))
    spread = [made[name].std() / real[name].std() for name in "xy"]
    assert found["spread"] == pytest.approx(np.exp(np.mean(np.log(spread))))
    assert small.scores(SCHEMA, real, real) == pytest.approx(
        {"columns": 0.0, "pairs": 0.0, "distance": 0.0, "ranks": 0.0, "spread": 1.0})


@pytest.mark.nightly  # By day scores are those of plain counts, above.
def test_the_page_has_all_measures_and_the_default_is_nearer_than_its_rivals(tmp_path, monkeypatch):
    monkeypatch.setattr(cells, "RESULTS", tmp_path)
    monkeypatch.setattr(cells, "CACHE", tmp_path / "cache")
    monkeypatch.setattr(cells, "run_cells", lambda todo, *_: ((cell, cells.run_cell(cell)) for cell in todo))
    path = replace(small.small, quick=small.SAMPLES[1:2])(Asked(quick=True, epsilons=(1.0,)))
    text, lines = path.read_text(encoding="utf-8"), pd.read_csv(path.with_suffix(".csv"))
    assert [line[3:] for line in text.splitlines() if line.startswith("## ")] == [
        f"{words[0].upper()}{words[1:]}" for words in small.MEASURES.values()]
    assert set(lines["method"]) == {*small.METHODS, *small.NOT_PRIVATE}
    mean = lines.set_index(["method", "measure"])["mean"]
    assert mean["default", "pairs"] < mean["columns alone", "pairs"] < 1.0
    assert mean["default", "ranks"] < mean["columns alone", "ranks"]
    assert mean["bootstrap", "columns"] < mean["default", "columns"]
