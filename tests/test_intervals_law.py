"""The rule of combined estimates, term by term, where the rows of a fit and those of the table differ in number."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

import trigmech as tm
from trigmech.inference.imputations import Imputations
from trigmech.inference.regression import _combined

SCHEMA = tm.Schema([tm.Column("x", 0, 1), tm.Column("y", 0, 1)])


def imputations(population, n=5_000, m=5, half=30, white=0.0):
    points = np.random.default_rng(0).uniform(-1.0, 1.0, (m, 2, half, 2))
    return Imputations(SCHEMA, n, points, white, population)


@pytest.mark.parametrize("population", [False, True])
@pytest.mark.parametrize("white", [0.0, 0.003])
def test_what_a_sample_adds_is_by_the_rows_of_the_table_and_not_of_a_fit(population, white):
    made, whole = imputations(population, white=white), np.array([1.0, 1.4, 0.7, 1.1, 0.9])
    assert (made.rows, made.n) == (60, 5_000)
    halves = whole[:, None] + np.array([[-0.1, 0.1], [0.2, -0.2], [0.1, 0.1], [-0.3, 0.1], [0.0, 0.2]])
    found = made.combined(whole, halves, 0.9)
    between = ((whole - whole.mean()) ** 2).sum() / 4
    left_open = sum((one - other) ** 2 for one, other in halves) / 5 / 4
    untold = 60 * left_open * white + (60 * left_open / 5_000 if population else 0.0)
    variance = between / 5 + max(between - left_open, 0.0) + untold
    assert found.deviation == pytest.approx(np.sqrt(variance), rel=1e-12)
    assert found.untold == pytest.approx(untold / variance, rel=1e-12)
    reach = np.sqrt(variance) * stats.t.ppf(0.95, 4)
    assert (found.low, found.high) == pytest.approx((1.02 - reach, 1.02 + reach), rel=1e-12)


def test_p_values_have_one_degree_of_freedom_less_than_there_are_tables():
    made = imputations(True)
    model = SimpleNamespace(names=("Intercept", "x"), family="gaussian", formula=SimpleNamespace(columns={}))
    rng = np.random.default_rng(1)
    whole = np.array([0.3, 0.05]) + 0.1 * rng.normal(size=(5, 2))
    halves = whole[:, None] + 0.1 * rng.normal(size=(5, 2, 2))
    # The second coefficient has no fit in a table: four are left.
    whole[2, 1] = np.nan
    found = _combined(made, model, "y ~ x", whole, halves, np.full((5, 2), 0.1), np.zeros((0, 3, 2)), 0.95)
    for k, tables in enumerate((5, 4)):
        t = found.values[k] / found.deviations[k]
        assert found.p[k] == pytest.approx(2.0 * stats.t.sf(abs(t), tables - 1), rel=1e-9)
        reach = found.deviations[k] * stats.t.ppf(0.975, tables - 1)
        assert (found.low[k], found.high[k]) == pytest.approx((found.values[k] - reach, found.values[k] + reach))
    # What a plain regression of so many rows as the private table has would say.
    assert found.naive.tolist() == pytest.approx([0.1 * np.sqrt(60 / 5_000)] * 2)


def test_progress_counts_tables_up_to_their_number():
    rows = np.random.default_rng(0).random((40, 2))
    made = tm.synthesize(rows, SCHEMA, tm.Budget(1.0, 1e-6), tm.TableMechanism(points=64), np.random.default_rng(0))
    told = []
    assert len(made.imputations(3, progress=lambda *step: told.append(step))) == 3
    assert told == [("imputations", k, 3) for k in (1, 2, 3)]
