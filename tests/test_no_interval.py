"""What does not vary has no interval, in whatever public way it is asked: no interval has a width of 0."""

import math
from dataclasses import replace
from functools import lru_cache

import numpy as np
import pandas as pd
import pytest

import trigmech as tm
from trigmech.evaluation import resampling
from trigmech.inference.estimate import Estimate
from trigmech.inference.regression import fitted

SCHEMA = tm.Schema([tm.Column("x", 0, 1), tm.Column("group", kind="categorical", categories=("a", "b", "rare"))])


@lru_cache
def made():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.random(400), "group": rng.choice(["a", "b"], 400)})
    return tm.synthesize(frame, SCHEMA, tm.Budget(2.0, 1e-6), rng=np.random.default_rng(0))


@lru_cache
def alike():
    """Imputations of which each table has the same rows, without any of a rare group."""
    held = made().imputations(20)
    points = held.points.copy()
    points[:] = points[0, 0]
    return replace(held, points=points, rehearsed=np.zeros((0, 3, 0, points.shape[-1])))


def constant(table):
    return 3.0


def is_without(found: Estimate, place=()):
    return bool(found.flat[place] and np.isnan([found.deviation[place], found.low[place], found.high[place]]).all())


WAYS = {
    "combine": lambda: tm.combine([3.0] * 20),
    "combine with variances": lambda: tm.combine([3.0] * 20, [0.0] * 20),
    "combine up to rounding": lambda: tm.combine([0.1 + 0.2, 0.3] * 10),
    "a constant of imputations": lambda: made().imputations(10).estimate(constant),
    "a mean of imputations that agree": lambda: alike().estimate(lambda table: np.mean(table["x"])),
    "a median of imputations that agree": lambda: alike().estimate(lambda table: np.median(table["x"])),
    "a share of imputations that agree": lambda: alike().estimate(lambda table: np.mean(table["group"] == "rare")),
    "a constant of weighted rows": lambda: made().weighted().estimate(
        lambda table, weights: ([3.0], np.zeros((len(weights), 1)))),
    "an influence of 0": lambda: made().weighted().interval([3.0], np.zeros((len(made().weighted().weights), 1))),
    "an influence of 0 on the table": lambda: made().weighted().interval(
        [3.0], np.zeros((len(made().weighted().weights), 1)), population=False)}


@pytest.mark.parametrize("way", list(WAYS))
def test_what_does_not_vary_has_a_value_and_no_interval(way):
    found = WAYS[way]()
    assert np.isfinite(found.value).all()
    assert all(is_without(found, place) for place in np.ndindex(found.value.shape))
    assert "no interval" in repr(found)
    assert "does not vary" in repr(found)
    assert "does not vary" in found._repr_html_()
    assert "nan" not in repr(found) + found._repr_html_()


def test_beside_values_that_vary_only_those_that_do_not_lack_an_interval():
    found = made().imputations(10).estimate(lambda table: [np.mean(table["x"]), 3.0])
    assert found.flat.tolist() == [False, True]
    assert found.low[0] < found.value[0] < found.high[0]
    assert is_without(found, 1)
    # As many deviations wide as ever.
    alone = made().imputations(10).estimate(lambda table: np.mean(table["x"]))
    assert found.value[0] == pytest.approx(alone.value, rel=1e-12)
    plain = tm.combine([1.0, 1.2, 1.1, 0.9])
    assert not plain.flat
    assert "no interval" not in repr(plain) + plain._repr_html_()


@pytest.mark.daily(3)
@pytest.mark.parametrize("function", ["avg(x)", "median(x)", "sum(x)", "count(*)", "corr(x, x)", "stddev(x)",
                                      "quantile_cont(x, 0.9)"])
def test_an_answer_to_a_question_is_an_interval_with_a_width_or_says_what_it_is(function):
    held = alike()
    for query in (f"select {function} as v from release where x > 0.5",
                  f"select {'group'!r} as a, {function} as v from release where x > 0.5"):
        if "'group'" in query:
            query = query.replace("'group' as a", '"group" as a') + ' group by "group"'
        found = tm.inference.sql.ask(held, query)
        low, high = found.low["v"], found.high["v"]
        assert not np.any((low == high) & (function not in ("median(x)", "quantile_cont(x, 0.9)")))
        said = " ".join(found.notes)
        assert "same in all imputed tables" in said
        assert ("no interval" in said) == bool(np.isnan(low).any())
        assert ("this value alone" in said) == bool((low == high).any())
    # A quantile of few tables may be another one in the private table.
    few = replace(held, points=held.points[:4])
    answer = tm.inference.sql.ask(few, f"select {function} as v from release where x > 0.5")
    assert not np.any(answer.low["v"] == answer.high["v"])


def test_coefficients_that_do_not_vary_have_no_standard_error_either():
    found = fitted(alike(), "x ~ C(`group`)")
    there = np.isfinite(found.values)
    assert there.any()
    for each in (found.deviations, found.low, found.high, found.p):
        assert np.isnan(each).all()
    assert any("no interval" in note for note in found.notes)
    assert all(row["standard_error"] is None for row in found.to_dict()["coefficients"])


def test_a_statistic_that_is_the_same_in_all_plausible_tables_moves_by_the_rows_that_noise_can_hide():
    def rare(table):
        return float(np.mean(table["group"] == "rare") > 0.3)

    bars = made().error_bars(rare)
    # A third of evenly drawn rows is rare. As many positions as a column has are each off by its noise.
    hidden = sorted(column.deviation * len(column.mass) ** 0.5 for column in made().release.columns)
    deviation = resampling.FACTOR * np.mean(hidden)
    assert len(hidden) == 2
    assert 0.0 < deviation < 0.2
    assert bars.values == 0.0
    assert bars.error.deviation == pytest.approx(deviation, rel=1e-12)
    assert bars.error.bound == pytest.approx(1.959963985 * deviation, rel=1e-9)


def test_a_statistic_that_evenly_drawn_rows_do_not_have_has_no_bound_if_it_is_the_same_in_all_plausible_tables():
    def rare(table):
        return np.inf if np.mean(table["group"] == "rare") > 0.3 else 0.0

    bars = made().error_bars(lambda table: [np.mean(table["x"]), rare(table)])
    assert bars.values[1] == 0.0
    assert np.isfinite(bars.error.bound[0])
    assert bars.error.bound[1] == bars.error.deviation[1] == math.inf
    # The worst one is of what has a bound.
    assert bars.error.bound[0] < bars.error.worst[0] < 2.0 * bars.error.bound[0]
    assert made().error_bars(rare).error.worst[0] == math.inf
    assert made().error_bars(lambda table: np.zeros(0)).error.worst[0] == 0.0


def test_what_is_the_same_in_every_table_has_a_bound_of_0():
    assert made().error_bars(constant).error.bound == 0.0
    bars = made().error_bars(tm.evaluation.statistics.correlations(SCHEMA))
    assert bars.error.bound.tolist() == [[0.0]]

    def only_of_known_groups(table):
        if np.mean(table["group"] == "rare") > 0.3:
            raise KeyError("rare")
        return 3.0

    # A function that fails elsewhere may not be constant.
    assert made().error_bars(only_of_known_groups).error.bound == math.inf
