"""Expected errors by hand: each cause's size from a few numbers, and each figure of a forecast from each cause."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

from trigmech.evaluation import features
from trigmech.evaluation import forecast as forecasts
from trigmech.evaluation.features import Causes
from trigmech.evaluation.verdict import LIMITS, LightLimits, QualityMeasure, lights_of_uses, verdict_of

NAMES = ("a", "b", "c")
N = 400


def causes(**given):
    """Of three columns, the second of which has categories, so that one pair has a correlation."""
    return Causes(**{
        "columns": np.array([[0.1, 0.2, 0.04, 0.02], [0.05, 0.3, 0.2, 0.01], [0.0, 0.0, 0.0, 0.5]]),
        "pairs": np.array([[0.1, 0.2, 0.3, 0.1, 0.05], [0.02, 0.0, 0.0, 0.05, 0.01], [0.9, 0.9, 0.9, 0.9, 0.9]]),
        "correlations": np.array([[0.1, 0.3, 0.2, 0.05]]), "numeric": np.array([True, False, True]),
        "places": [(0, 2)], "strengths": np.array([0.5, 0.25, 0.0]), "above": np.array([True, False, True]),
        "groups": np.array([0.02, 0.05, 0.03]), "groups_chance": 0.04, "left": np.array([0.2, 0.01, 0.0])} | given)


def hidden(noise):
    return 0.35 * noise / math.hypot(noise, 0.35)


def made(n=N, **given):
    return forecasts._forecast(causes(**given), NAMES, n, LIMITS)


def test_errors_are_the_weighted_sums_of_their_causes():
    found = made()
    for each, about, error, low, high, fresh, light in zip(
            found.columns, NAMES, (0.085, 0.052, 0.075), (0.0085, 0.0052, 0.0075), (0.1445, 0.0884, 0.1275),
            (0.02, 0.01, 0.5), ("care", "good", "good"), strict=True):
        assert (each.about, each.kind, each.light, each.hidden) == ((about,), "column", light, 0.0)
        np.testing.assert_allclose([each.error, each.low, each.high, each.fresh], [error, low, high, fresh], rtol=1e-12)
    # What shrinkage leaves of the first table is more than its causes say; the last error would be above 1.
    for each, about, error, fresh, light, unseen in zip(
            found.pairs, (("a", "b"), ("a", "c"), ("b", "c")), (0.16, 0.0335, 1.0), (0.05, 0.01, 0.9),
            ("care", "good", "good"), (0.1, 0.02, 0.9), strict=True):
        assert (each.about, each.kind, each.light, each.hidden) == (about, "pair", light, unseen)
        np.testing.assert_allclose([each.error, each.low, each.high, each.fresh],
                                   [error, 0.5 * error, min(1.75 * error, 1.0), fresh], rtol=1e-12)
    each, = found.correlations
    assert (each.about, each.kind, each.light, each.hidden) == (("a", "c"), "correlation", "poor", 0.1)
    np.testing.assert_allclose([each.error, each.low, each.high, each.fresh], [0.1394, 0.01394, 0.3485, 0.05],
                               rtol=1e-12)
    assert found.above == 2
    assert found.strengths == {("a", "b"): 0.5, ("a", "c"): 0.25, ("b", "c"): 0.0}


def test_no_error_of_a_correlation_is_above_two():
    each, = made(correlations=np.array([[3.0, 1.0, 1.0, 0.5]])).correlations
    assert (each.error, each.high) == (2.0, 2.0)


def test_errors_in_groups_and_of_regressions_are_those_of_their_causes():
    found = made()
    columns = (0.1 + 0.05 + 0.9) / 3.0
    in_group = np.mean([hidden(noise / 0.1) for noise in (0.02, 0.05, 0.03)])
    assert found.group_error == pytest.approx(0.2 * in_group + 0.44 * columns + 1.24 * 0.04, rel=1e-12)
    assert found.regression_loss == pytest.approx(0.39 * (0.1 + 0.02 + 0.9) / 3.0 + 1.7 * columns**2, rel=1e-12)
    assert found.group_noise == 0.03
    assert found.group_rows == math.inf
    assert made(groups=np.empty(0)).group_noise == math.inf
    # Without tables a group hides as much as is usual.
    assert made(groups=np.empty(0)).group_error == pytest.approx(0.2 * 0.35 + 0.44 * columns + 1.24 * 0.04, rel=1e-12)
    assert math.isnan(made(groups_chance=0.0).group_error)
    assert made(pairs=np.full((3, 5), 2.0)).regression_loss == 1.0


def test_the_smallest_good_group_is_the_first_of_two_hundred_sizes():
    quiet = np.zeros((3, 5))
    quiet[:, 3] = 0.01
    found = made(20_000, pairs=quiet, groups=np.array([0.002, 0.004]))
    sizes = [20_000.0 ** (k / 199.0) for k in range(200)]

    def error(size):
        noise = np.mean([hidden(each * 20_000.0 / size) for each in (0.002, 0.004)])
        return 0.2 * noise + 0.44 * 0.01 + 1.24 * math.sqrt(2.0 / math.pi) / math.sqrt(size)

    assert found.group_rows == pytest.approx(next(size for size in sizes if error(size) <= 0.1), rel=1e-9)
    assert 50.0 < found.group_rows < 5_000.0


def test_a_single_column_has_no_groups_and_no_regressions():
    found = forecasts._forecast(causes(
        columns=np.array([[0.1, 0.2, 0.04, 0.02]]), pairs=np.empty((0, 5)), correlations=np.empty((0, 4)),
        numeric=np.array([True]), places=[], strengths=np.empty(0), above=np.empty(0, dtype=bool), groups=np.empty(0),
        groups_chance=0.0, left=np.empty(0)), ("a",), N, LIMITS)
    assert (found.pairs, found.correlations, found.above, found.group_rows) == ((), (), 0, math.inf)
    assert math.isnan(found.group_error)
    assert math.isnan(found.regression_loss)
    assert [each.name for each in found.measures()] == ["columns_mean", "column_worst"]
    assert found.to_dict()["group_rows"] is found.to_dict()["regression_loss"] is None
    assert found.sentences(N) == ["With care for single columns. By expected errors, 0 of 1 columns are good."]


def test_expected_measures_are_scores_of_tables_and_errors_of_the_rest():
    found = {each.name: each for each in made().measures()}
    expected = {
        "columns_mean": (1.0 - 0.212 / 3.0, 1.0 - 0.53 / 3.0, "good", ""), "column_worst": (0.915, 0.98, "good", "a"),
        "pairs_mean": (1.0 - 1.1935 / 3.0, 1.0 - 0.96 / 3.0, "good", ""), "pair_worst": (0.0, 0.1, "good", "b and c"),
        "correlations_mean": (0.1394, 0.05, "poor", ""), "correlation_worst": (0.1394, 0.05, "care", "a and c")}
    assert list(found) == [*expected, "groups_mean", "regression_loss"]
    for name, (value, fresh, light, about) in expected.items():
        each = found[name]
        assert (each.words, each.definition, each.light, each.about) == (name.replace("_", " "), "expected", light,
                                                                         about)
        assert (each.value, each.fresh) == pytest.approx((value, fresh), rel=1e-12)


@pytest.mark.parametrize(("kind", "name", "error", "light"), [
    ("group_error", "groups_mean", 0.068, "good"), ("group_error", "groups_mean", 0.07, "care"),
    ("group_error", "groups_mean", 0.139, "poor"), ("regression_loss", "regression_loss", 0.0108, "good"),
    ("regression_loss", "regression_loss", 0.011, "care"), ("regression_loss", "regression_loss", 0.0703, "poor")])
def test_lights_of_single_figures_are_those_of_the_upper_ends(kind, name, error, light):
    found = made()
    object.__setattr__(found, kind, error)
    each, = (each for each in found.measures() if each.name == name)
    assert (each.value, each.fresh, each.light) == (error, None, light)


def test_sentences_name_the_uses_the_groups_and_the_relations():
    found = made()
    object.__setattr__(found, "group_rows", 123.4)
    said = found.sentences(N)
    assert said[0].endswith("By expected errors, 2 of 3 columns and 1 of 3 pairs of columns are good.")
    assert said[1] == ("Means over groups of about 130 rows or more are expected to be off by 0.1 standard deviations "
                       "or less, on average; for smaller groups by more.")
    assert said[2] == ("2 of 3 pairs of columns show a relation above the noise; the others may depend on each other, "
                       "and the release would not show it.")
    object.__setattr__(found, "group_rows", N + 0.5)
    object.__setattr__(found, "above", 3)
    assert found.sentences(N)[1:] == [
        "Means over groups of any size are expected to be off by more than 0.1 standard deviations.",
        "3 of 3 pairs of columns show a relation above the noise."]
    assert [forecasts._rounded(rows) for rows in (6.2, 99.2, 100.0, 101.0, 1_234.0, 20_000.0)] == [
        7, 100, 100, 110, 1_300, 20_000]


def test_a_pair_has_the_worse_light_of_its_table_and_its_correlation():
    assert made().lights_of_pairs() == {"a and b": "care", "a and c": "poor", "b and c": "good"}


# Lights


@pytest.mark.parametrize(("value", "fresh", "light"), [
    (0.9, None, "good"), (0.8999, None, "care"), (0.8, None, "care"), (0.7999, None, "poor"), (1.0999, None, "good"),
    (0.701, 0.8, "good"), (0.699, 0.8, "poor"), (0.85, 0.91, "care")])
def test_a_light_is_that_of_the_distance_from_the_best_value(value, fresh, light):
    assert LightLimits(0.9, 0.8, 1.0, "").light(value, fresh) == light


def measured(**lights):
    return [QualityMeasure(name, name, "", 0.0, None, light) for name, light in lights.items()]


def test_what_only_limits_a_use_lowers_it_to_care_and_no_further():
    assert lights_of_uses(measured(pairs_mean="good", correlations_mean="good", pair_worst="poor")) == {
        "pairs of columns": "care"}
    assert lights_of_uses(measured(pairs_mean="good", correlations_mean="poor", pair_worst="care")) == {
        "pairs of columns": "poor"}
    assert lights_of_uses(measured(pair_worst="poor")) == {}
    assert verdict_of([]) == "Nothing could be measured."


# Causes


def test_what_noise_hides_grows_with_it_up_to_what_is_usual():
    np.testing.assert_allclose(features.hidden(np.array([0.0, 0.1, 0.35, np.inf])),
                               [1e-12, hidden(0.1), 0.35 / math.sqrt(2.0), 0.35], rtol=1e-12)


def test_means_and_standardised_numbers_leave_missing_ones_out():
    np.testing.assert_array_equal(features._means(np.array([1.0, 3.0, np.nan, 5.0]), np.array([0, 0, 0, 2]), 4),
                                  [2.0, 0.0, 5.0, 0.0])
    np.testing.assert_allclose(features._standardised(np.array([1.0, 3.0, np.nan])), [-1.0, 1.0, np.nan])
    np.testing.assert_array_equal(features._standardised(np.array([2.0, 2.0])), [0.0, 0.0])
    np.testing.assert_array_equal(features._standardised(np.array([np.nan])), [np.nan])


@pytest.mark.parametrize("deviation", [0.05, 30.0])
def test_the_error_of_categories_without_a_look_is_the_mean_variation_by_their_noise(monkeypatch, deviation):
    mass = np.array([0.5, 0.3, 0.2])
    column = SimpleNamespace(mass=mass, deviation=deviation, partition=SimpleNamespace(indicators=()))
    release = SimpleNamespace(columns=[column], look_at=lambda j: None, closer=[], schema=None)
    monkeypatch.setattr(features, "plausible_column", lambda *given, **options: column)
    found = features._of_column(release, 0, None, np.random.default_rng(3))
    drawn = np.tile(mass, (features.DRAWS, 1))
    if deviation < 1.0:
        noise = np.random.default_rng(3).normal(size=drawn.shape) * deviation
        drawn = np.maximum(drawn + noise, 0.0)
        drawn /= drawn.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(found, [np.mean([0.5 * np.abs(each - mass).sum() for each in drawn]), 0.0, 0.0, 0.0],
                               rtol=1e-12)


class Table:
    """What the causes read of a pair."""

    def __init__(self, columns, table, deviation, maps=()):
        self.columns, self.table, self.deviation, self.maps = columns, np.array(table), deviation, maps


def pairs_of(monkeypatch, *tables):
    monkeypatch.setattr(features, "Targets", lambda release: SimpleNamespace(pairs=tables))
    release, coding = SimpleNamespace(columns=[None] * 3), SimpleNamespace(sizes=np.array([5, 7, 6]))
    return features._of_pairs(release, coding, np.array([0.1, 0.02, 0.003]))


def test_causes_of_pairs_are_those_of_their_tables(monkeypatch):
    table = np.array([[0.3, 0.01, 0.19], [0.1, 0.4, 0.0]])
    found, strengths, above, held = pairs_of(monkeypatch, Table((0, 1), table, 0.05),
                                             Table((0, 2), [[0.2, 0.3, 0.5]], 0.01),
                                             Table((1, 2), [[0.25, 0.25], [0.25, 0.25 + 1e-13]], 0.5))
    each = math.sqrt(2.0 / math.pi) / 2.0 * 0.05
    strength = 0.5 * np.abs(table - np.outer([0.5, 0.5], [0.4, 0.41, 0.19])).sum()
    left, filled = each * math.sqrt(2 * 3 * 5), (4 * 2.0 * each + 0.01) / 2.0
    # Two of four values of the first column are told apart, and three of six of the second.
    np.testing.assert_allclose(found[0], [hidden(left), math.sqrt(strength * filled), strength * 0.75, 0.12], rtol=1e-9)
    # A single row of cells shows no dependence.
    np.testing.assert_allclose(found[1], [0.35, 0.0, 0.0, 0.103], rtol=1e-9)
    # Rounding is no dependence.
    np.testing.assert_array_equal(found[2, 1:3], [0.0, 0.0])
    np.testing.assert_allclose(strengths, [strength, 0.0, 0.0], rtol=1e-9)
    assert above.tolist() == [True, False, False]
    assert list(held) == [(0, 1), (0, 2), (1, 2)]
    # A table that is finer than what is compared is as fine.
    found, *_ = pairs_of(monkeypatch, Table((0, 1), np.eye(5, 3) / 3, 0.05))
    table = np.eye(5, 3) / 3
    strength = 0.5 * np.abs(table - np.outer(table.sum(axis=1), table.sum(axis=0))).sum()
    assert found[0, 2] == pytest.approx(strength * 0.5)


def test_a_pair_without_a_table_hides_what_is_usual(monkeypatch):
    found, strengths, above, _ = pairs_of(monkeypatch, Table((0, 2), np.full((2, 2), 0.25), 9.0))
    np.testing.assert_allclose(found[[0, 2]], [[0.35, 0.0, 0.0, 0.12], [0.35, 0.0, 0.0, 0.023]], rtol=1e-12)
    assert (strengths.tolist(), above.tolist()) == ([0.0] * 3, [False] * 3)
    # No noise of a cell is above 1, and no dependence above what noise hides of it.
    each = math.sqrt(2.0 / math.pi) / 2.0
    np.testing.assert_allclose(found[1, 0], hidden(each * math.sqrt(2 * 2 * 4)), rtol=1e-12)


CODES = np.array([[0, 0], [0, 1], [1, 1], [1, 0]])
VALUES = np.array([[-1.0, -3.0], [-1.0, 1.0], [1.0, 1.0], [1.0, 1.0]])


@pytest.mark.parametrize("noise", [math.inf, 0.2])
def test_causes_of_correlations_are_noise_and_the_correlation_itself(monkeypatch, noise):
    monkeypatch.setattr(features, "all_codes", lambda partitions, points: CODES)
    release = SimpleNamespace(columns=[], known=[SimpleNamespace(deviation=0.5, query=SimpleNamespace(
        correlation_noise=each)) for each in (math.inf, 2.0 * noise, 3.0 * noise)])
    coding = SimpleNamespace(columns=[SimpleNamespace(kind="continuous")] * 2)
    rows, spread = SimpleNamespace(values=VALUES), np.array([0.1, 0.04])
    standard = np.array([-3.0, 1.0, 1.0, 1.0]) / math.sqrt(3.0)
    correlation = float((VALUES[:, 0] * standard).mean())
    maps = (np.array([0, 1]), np.array([0, 1]))
    found, places = features._of_correlations(release, {(0, 1): Table((0, 1), np.eye(2) / 2, np.array([[0.01, 0.03]]),
                                                                      maps)}, coding, rows, None, spread)
    assert places == [(0, 1)]
    # Means of cells: -1 and 1; -2 and 2 of the standardised numbers, over the root of 3.
    in_cells = np.array([np.mean(standard[[0, 3]]), np.mean(standard[[1, 2]])])
    of_table = 0.03 * math.sqrt(2.0 * (in_cells**2).sum())
    both = 1.0 / math.hypot(1.0 / of_table, 1.0 / noise)
    np.testing.assert_allclose(found, [[hidden(both), correlation, correlation * 0.14]], rtol=1e-9)
    found, _ = features._of_correlations(release, {}, coding, rows, None, spread)
    np.testing.assert_allclose(found, [[0.35 if noise == math.inf else hidden(noise), correlation,
                                        correlation * 0.14]], rtol=1e-9)
    # A table of one row of cells tells nothing.
    flat = Table((0, 1), np.ones((1, 2)) / 2, 0.01, (np.array([0, 0]), maps[1]))
    found, _ = features._of_correlations(release, {(0, 1): flat}, coding, rows, None, spread)
    assert found[0, 0] == pytest.approx(0.35 if noise == math.inf else hidden(noise), rel=1e-9)


def test_noise_of_groups_is_that_of_the_other_column_s_cells(monkeypatch):
    monkeypatch.setattr(features, "all_codes", lambda partitions, points: CODES)
    rows = SimpleNamespace(outcomes=VALUES)
    maps = (np.array([0, 1]), np.array([0, 1]))
    found = features._of_groups(SimpleNamespace(columns=[]), {
        (0, 1): Table((0, 1), np.eye(2) / 2, np.array([[0.01, 0.03]]), maps),
        (1, 0): Table((1, 0), np.ones((1, 2)), 0.1, (np.array([0, 0]), maps[0]))}, rows, None)
    np.testing.assert_allclose(found, [0.03 * math.sqrt(2.0), 0.03 * math.sqrt(1.0 + 1.0), math.inf, math.inf])


def test_what_shrinkage_leaves_wrong_is_stein_s_estimate():
    table, expected = np.array([[0.5, 0.1], [0.2, 0.3]]), np.full((2, 2), 0.25)

    def estimate(values):
        return SimpleNamespace(table=expected + 0.25 * (values - expected))

    found = features.left_wrong(table, estimate(table).table, estimate, 0.2, np.random.default_rng(3))
    rng = np.random.default_rng(3)
    slopes = [0.25 * float((rng.normal(size=(2, 2)) ** 2).sum()) for _ in range(2)]
    moved = float(((0.75 * (table - expected)) ** 2).sum())
    assert found == pytest.approx(moved + 0.2**2 * (2.0 * np.mean(slopes) - 4), rel=1e-9)
