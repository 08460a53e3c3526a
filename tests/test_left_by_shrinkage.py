"""What noise and its shrinkage leave wrong in released tables: estimated without the truth, as a part of forecasts."""

from functools import partial

import numpy as np
import pytest

import trigmech as tm
from trigmech.evaluation import features
from trigmech.evaluation.features import causes_of, left_wrong
from trigmech.evaluation.forecast import OF_LEFT, forecast
from trigmech.evaluation.judgement import compared_rows
from trigmech.evaluation.sides import Coding
from trigmech.reconstruction.sparse import estimated

NOISE, REPEATS = 0.006, 400


def true_table(rough, rng):
    if rough:
        return rng.dirichlet(np.full(64, 0.3)).reshape(8, 8)
    return np.outer(rng.dirichlet(np.full(8, 3.0)), rng.dirichlet(np.full(8, 3.0)))


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.nightly) for seed in (2, 3))])
def test_the_estimate_is_on_average_the_squared_distance_to_the_truth(seed):
    rng = np.random.default_rng(seed)
    truth = true_table(True, rng)
    alone = np.outer(truth.sum(axis=1), truth.sum(axis=0))
    apart = []
    for _ in range(REPEATS):
        table = truth + NOISE * rng.normal(size=truth.shape)
        shrunk = estimated(table, alone, NOISE).table
        found = left_wrong(table, shrunk, partial(estimated, expected=alone, noise=NOISE), NOISE, rng)
        apart.append(found - float(((shrunk - truth) ** 2).sum()))
    whole = truth.size * NOISE**2
    # The choice between ways of shrinking is not smooth, which Stein's law asks for: a tenth of the noise is allowed.
    assert abs(np.mean(apart)) < 4.0 * np.std(apart) / np.sqrt(REPEATS) + 0.1 * whole
    # Without the slopes it would be too low by most of the noise, and without the residual too high.
    assert np.std(apart) / np.sqrt(REPEATS) < 0.02 * whole


@pytest.mark.nightly
def test_where_columns_are_independent_next_to_nothing_is_left_wrong():
    rng = np.random.default_rng(4)
    truth = true_table(False, rng)
    # They scatter so little that a quarter of the repeats tells their mean to a few hundredths of the limit.
    found = []
    for _ in range(REPEATS // 4):
        table = truth + NOISE * rng.normal(size=truth.shape)
        found.append(left_wrong(table, estimated(table, truth, NOISE).table, partial(
            estimated, expected=truth, noise=NOISE), NOISE, rng))
    assert np.std(found) / np.sqrt(len(found)) < 0.025 * truth.size * NOISE**2
    assert abs(np.mean(found)) < 0.1 * truth.size * NOISE**2


@pytest.fixture(scope="module")
def releases():
    """Releases of columns that form many small groups, and of the same columns, each shuffled."""
    rng = np.random.default_rng(0)
    centres = rng.random((12, 6))
    grouped = np.clip(centres[rng.integers(0, 12, 4_000)] + 0.03 * rng.normal(size=(4_000, 6)), 0.0, 1.0)
    shuffled = rng.permuted(grouped, axis=0)
    schema = tm.Schema([tm.Column(f"c{j}", 0, 1) for j in range(6)])
    return [tm.synthesize(table, schema, tm.Budget(1.0, 1e-6), rng=np.random.default_rng(1))
            for table in (grouped, shuffled)]


def causes(made):
    points, schema = made.distribution.points, made.schema
    rows = schema.decode(points)
    coding = Coding.of(schema.columns, rows)
    return causes_of(made.release.described(schema), coding, coding.side(rows), points, compared_rows(4_000, 6))


def test_the_forecast_is_no_better_than_what_is_left_wrong_in_the_tables(releases):
    grouped, shuffled = map(causes, releases)
    assert grouped.left.mean() > 2.0 * shuffled.left.mean()
    assert (grouped.left > 0.0).all()
    for made, known in zip(releases, (grouped, shuffled), strict=True):
        expected = forecast(made.release, made.schema, made.distribution.points)
        errors = np.array([each.error for each in expected.pairs])
        assert (errors >= np.minimum(OF_LEFT * known.left, 1.0) - 1e-12).all()
    # In these groups it is what decides.
    assert (errors_of(releases[0]) == OF_LEFT * grouped.left).any()


def errors_of(made):
    return np.array([each.error for each in forecast(made.release, made.schema, made.distribution.points).pairs])


def test_of_many_tables_some_tell_the_part_of_the_noise_that_is_left(releases, monkeypatch):
    whole = causes(releases[0])
    asked = []

    def quarter(table, made, estimate, deviation, rng):
        asked.append(table)
        return 0.25 * table.size * deviation**2

    monkeypatch.setattr(features, "left_wrong", quarter)
    every = causes(releases[0])
    assert len(asked) == 15
    asked.clear()
    monkeypatch.setattr(features, "MOST_TABLES", 4)
    some = causes(releases[0])
    assert len({id(table) for table in asked}) == len(asked) == 4
    # The part is a half in any of them, and all pairs get their own noise times this part.
    np.testing.assert_allclose(some.left, every.left, rtol=1e-12)
    assert (some.left > 0.0).all()
    # Nothing else of a release depends on which tables are chosen.
    for name in ("columns", "pairs", "correlations", "groups", "strengths"):
        np.testing.assert_array_equal(getattr(some, name), getattr(whole, name))
