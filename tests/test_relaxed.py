"""Indicators as probabilities: the chart, the rounding, the raking, and what domains refuse."""

import numpy as np
import pytest
from test_mixed import LAYOUT, rows_of

import trigmech as tm
from trigmech.domain import Domain, OneHotGroup
from trigmech.errors import InputError
from trigmech.reconstruction.one_hot import (
    GroupedChart,
    draw_groups,
    held_together,
    nearest_frequencies,
    rake,
    rake_probabilities,
    round_groups,
)

COMPLETE = [list(group.coordinates) for group in LAYOUT.groups if group.complete]


@pytest.fixture
def points():
    return rows_of(LAYOUT, 40, np.random.default_rng(3))


def relaxed(count, rng):
    """Points whose complete groups hold probabilities."""
    made = rows_of(LAYOUT, count, rng)
    for coordinates in COMPLETE:
        made[:, coordinates] = rng.dirichlet(np.ones(len(coordinates)), count)
    return made


@pytest.mark.parametrize("relax", [True, False])
def test_the_chart_starts_near_its_points_and_pulls_gradients_back(points, relax):
    chart = GroupedChart(points, LAYOUT, relax)
    numbers = list(LAYOUT.numbers)
    there = chart.points(chart.start)
    np.testing.assert_allclose(there[:, numbers], points[:, numbers], atol=1e-12)
    if not relax:
        np.testing.assert_allclose(there, points, atol=1e-12)
    for coordinates in COMPLETE:
        np.testing.assert_allclose(there[:, coordinates].sum(axis=1), 1.0, rtol=1e-12)
        np.testing.assert_array_equal(there[:, coordinates].argmax(axis=1), points[:, coordinates].argmax(axis=1))
    rng = np.random.default_rng(4)
    slope, step = rng.standard_normal(points.shape), rng.standard_normal(chart.start.shape)
    pulled = chart.pull(chart.start, there, slope)
    h = 1e-6
    change = ((chart.points(chart.start + h * step) - chart.points(chart.start - h * step)) * slope).sum() / (2.0 * h)
    assert (pulled * step).sum() == pytest.approx(change, rel=1e-6)


def test_special_values_and_their_numbers_stay(points):
    chart = GroupedChart(points, LAYOUT, relax=True)
    moved = chart.points(chart.start + np.random.default_rng(5).standard_normal(chart.start.shape))
    np.testing.assert_array_equal(moved[:, [2, 3]], points[:, [2, 3]])
    special = points[:, [2, 3]].any(axis=1)
    np.testing.assert_array_equal(moved[special, 1], 0.0)
    assert (moved[~special, 1] != points[~special, 1]).all()


def test_only_what_moves_is_a_parameter_and_other_groups_keep_probabilities(points):
    assert GroupedChart(points, LAYOUT, relax=True).start.shape == (40, 2 + 3 + 2)
    assert GroupedChart(points, LAYOUT, relax=False).start.shape == (40, 2)
    moving = np.arange(LAYOUT.d) == 8
    chart = GroupedChart(points, LAYOUT, relax=True, moving=moving)
    assert chart.start.shape == (40, 2 + 2)
    there = chart.points(chart.start)
    np.testing.assert_allclose(there, (every := GroupedChart(points, LAYOUT, relax=True)).points(every.start),
                               atol=1e-12)
    moved = chart.points(chart.start + 0.3)
    np.testing.assert_array_equal(moved[:, 4:7], there[:, 4:7])


def test_rounding_keeps_to_the_layout_and_to_the_sums_of_probabilities():
    rng = np.random.default_rng(6)
    made = np.repeat(relaxed(50, rng), 7, axis=0)
    rounded = round_groups(made, LAYOUT, rng)
    LAYOUT.check(rounded)
    for coordinates in COMPLETE:
        assert np.abs(rounded[:, coordinates].sum(axis=0) - made[:, coordinates].sum(axis=0)).max() < 2.0


def test_rounding_is_right_on_average_and_groups_are_independent():
    rng = np.random.default_rng(7)
    made = relaxed(3, rng)
    runs = 2_000
    total, both = np.zeros((3, LAYOUT.d)), np.zeros((3, 3, 2))
    for _ in range(runs):
        rounded = round_groups(made, LAYOUT, rng)
        total += rounded
        both += rounded[:, COMPLETE[0], None] * rounded[:, None, COMPLETE[1]]
    # Six standard errors of a frequency, 15 + 18 of them: by chance once in some 10^7.
    assert np.abs(total / runs - made)[:, [4, 5, 6, 7, 8]].max() < 6.0 * 0.5 / np.sqrt(runs)
    expected = made[:, COMPLETE[0], None] * made[:, None, COMPLETE[1]]
    assert np.abs(both / runs - expected).max() < 6.0 * 0.5 / np.sqrt(runs)
    # The planted fault: the most probable category instead of a drawn one.
    assert np.abs((made[:, COMPLETE[0]] == made[:, COMPLETE[0]].max(axis=1, keepdims=True)) - made[:, COMPLETE[0]]
                  ).max() > 6.0 * 0.5 / np.sqrt(runs)


def test_a_category_without_probability_is_never_drawn():
    made = np.zeros((5_000, 4))
    made[:, 1] = 1.0
    domain = Domain(4, [OneHotGroup((0, 1, 2, 3), True)])
    np.testing.assert_array_equal(round_groups(made, domain, np.random.default_rng(8)), made)


def test_raked_weights_and_probabilities_have_the_frequencies():
    rng = np.random.default_rng(9)
    frequencies = [np.array([0.2, 0.1]), np.array([0.5, 0.3, 0.2]), np.array([0.9, 0.1])]
    rows = rows_of(LAYOUT, 2_000, rng)
    weights = rake(rows, rng.dirichlet(np.ones(2_000)), frequencies, LAYOUT)
    for group, p in zip(LAYOUT.groups, frequencies, strict=True):
        np.testing.assert_allclose(weights @ rows[:, list(group.coordinates)], p, atol=1e-9)
    raked = rake_probabilities(relaxed(500, rng), frequencies, LAYOUT)
    for group, p in zip(LAYOUT.groups[1:], frequencies[1:], strict=True):
        np.testing.assert_allclose(raked[:, list(group.coordinates)].mean(axis=0), p, atol=1e-3)
        np.testing.assert_allclose(raked[:, list(group.coordinates)].sum(axis=1), 1.0, rtol=1e-12)


def test_weights_that_underflowed_are_raked_and_contradictions_end_in_weights():
    domain = Domain(4, [OneHotGroup((0, 1), True), OneHotGroup((2, 3), True)])
    rows = np.array([[1.0, 0, 1, 0], [1, 0, 0, 1], [0, 1, 1, 0]])
    # The category that only the last row has comes back from a weight that one division would take to infinity.
    for lost in (5e-324, 1e-310, 1e-200):
        raked = rake(rows, np.array([0.5, 0.5, lost]), [np.array([0.7, 0.3]), np.array([0.5, 0.5])], domain)
        np.testing.assert_allclose(raked, [0.2, 0.5, 0.3], atol=1e-9)
    # No row has the second category of both groups; and none has the wanted category of either.
    for wanted in ([np.array([0.0, 1.0]), np.array([0.0, 1.0])], [np.array([1e-300, 1.0]), np.array([1e-9, 1.0])]):
        raked = rake(rows, np.full(3, 1.0 / 3.0), wanted, domain)
        assert raked.min() >= 0.0
        assert raked.sum() == pytest.approx(1.0, rel=1e-12)


def test_a_frequency_of_zero_does_no_harm():
    raked = rake_probabilities(relaxed(50, np.random.default_rng(10)),
                               [np.zeros(2), np.array([0.0, 0.4, 0.6]), np.array([1.0, 0.0])], LAYOUT)
    assert np.isfinite(raked).all()
    assert raked[:, 4].max() < 1e-12


def test_drawn_groups_have_the_frequencies_of_whole_rows():
    frequencies = [np.array([0.25, 0.0]), np.array([0.5, 0.3, 0.2]), np.array([0.9, 0.1])]
    rows = draw_groups(frequencies, LAYOUT, 1_000, np.random.default_rng(11))
    LAYOUT.check(rows)
    for group, p in zip(LAYOUT.groups, frequencies, strict=True):
        np.testing.assert_allclose(rows[:, list(group.coordinates)].sum(axis=0), 1_000 * p, atol=1.0)


@pytest.mark.parametrize("complete", [True, False])
def test_nearest_frequencies_are_the_projection(complete):
    group = OneHotGroup((0, 1, 2), complete)
    rng = np.random.default_rng(12)
    grid = np.stack(np.meshgrid(*[np.linspace(0.0, 1.0, 101)] * 3, indexing="ij"), axis=-1).reshape(-1, 3)
    total = grid.sum(axis=1)
    grid = grid[np.abs(total - 1.0) < 1e-9] if complete else grid[total <= 1.0 + 1e-9]
    for _ in range(20):
        noisy = rng.normal(1.0 / 3.0, 0.4, 3)
        nearest = nearest_frequencies(noisy, group)
        assert nearest.min() >= 0.0
        assert nearest.sum() <= 1.0 + 1e-12
        assert not complete or nearest.sum() == pytest.approx(1.0, rel=1e-12)
        assert np.linalg.norm(nearest - noisy) <= np.linalg.norm(grid - noisy, axis=1).min() + 1e-12


@pytest.mark.parametrize(("column", "value"), [(4, 0.5), (2, -1.0), (3, 1.0 + 1e-9), (7, np.nan)])
def test_rows_that_break_their_layout_are_refused(points, column, value):
    LAYOUT.check(points)
    points[0, column] = value
    with pytest.raises(InputError, match="indicators"):
        LAYOUT.check(points)


def test_two_categories_none_and_a_number_beside_a_special_value_are_refused(points):
    for change in ((slice(4, 7), 1.0), (slice(4, 7), 0.0), (slice(2, 4), 1.0)):
        broken = points.copy()
        broken[0, change[0]] = change[1]
        with pytest.raises(InputError):
            LAYOUT.check(broken)
    broken = points.copy()
    broken[0, [1, 2, 3]] = 0.5, 1.0, 0.0
    with pytest.raises(InputError):
        LAYOUT.check(broken)


@pytest.mark.parametrize("groups", [[OneHotGroup((), True)], [OneHotGroup((0, 0), True)], [OneHotGroup((9,), True)],
                                    [OneHotGroup((0, 1), True), OneHotGroup((1, 2), True)],
                                    [OneHotGroup((0, 1), False, 1)],
                                    [OneHotGroup((0,), False, 2), OneHotGroup((1,), False, 2)]])
def test_impossible_layouts_are_refused(groups):
    with pytest.raises(InputError):
        Domain(3, groups)


def test_events_meet_in_the_cloud_as_often_as_released():
    shares = np.array([0.03, 0.04, 0.2, 0.5])
    joint = np.array([[0.03, 0.03, 0.006, 0.015], [0.03, 0.04, 0.008, 0.02], [0.006, 0.008, 0.2, 0.02],
                      [0.015, 0.02, 0.02, 0.5]])
    scales = np.full((4, 4), 1e-3)
    held = held_together(shares, joint, scales)
    assert np.linalg.eigvalsh(held).min() > 0.0
    assert np.diag(held) == pytest.approx(np.ones(4))
    domain = Domain(8, [OneHotGroup((4 + k,), complete=False, value=k) for k in range(4)])
    frequencies = [np.array([share]) for share in shares]
    events = draw_groups(frequencies, domain, 20_000, np.random.default_rng(1), held)[:, 4:]
    assert np.abs(events.mean(axis=0) - shares).max() <= 1.0 / 20_000
    assert np.abs(events.T @ events / 20_000 - joint)[~np.eye(4, dtype=bool)].max() < 0.004


def test_independent_and_unreleased_events_have_no_copula():
    shares = np.array([0.1, 0.3])
    assert held_together(shares, np.outer(shares, shares) + 1e-3, np.full((2, 2), 1e-3)) is None
    assert held_together(shares, np.zeros((2, 2)), np.full((2, 2), np.inf)) is None
    assert held_together(np.zeros(0), np.zeros((0, 0)), np.zeros((0, 0))) is None


@pytest.mark.parametrize("special", [pytest.param((), marks=pytest.mark.nightly), (0.0,)])
def test_columns_that_are_missing_together_are_missing_together_in_the_release(special):
    rng, n = np.random.default_rng(3), 20_000
    table = np.clip(rng.normal(0.0, 0.4, (n, 5)), -1.0, 1.0)
    table[rng.random(n) < 0.03, :4] = np.nan
    schema = tm.Schema([tm.Column(name, -1, 1, missing="keep", special=special) for name in "abcd"]
                       + [tm.Column("e", -1, 1)])
    made = tm.synthesize(table, schema, tm.Budget(1.0, 1e-6), tm.MomentMechanism(points=1024), rng=rng)
    missing = np.isnan(made.sample(n))[:, :4].astype(float)
    assert np.abs(missing.T @ missing / n - 0.03).max() < 0.012


def test_raking_meets_how_often_two_columns_hold_special_values_together():
    domain = Domain(6, [OneHotGroup((3 + k,), complete=False, value=k) for k in range(3)])
    frequencies = [np.array([0.03]), np.array([0.04]), np.array([0.2])]
    joint = np.array([[0.0, 0.03, 0.006], [0.03, 0.0, 0.008], [0.006, 0.008, 0.0]])
    points = draw_groups([np.array([0.3])] * 3, domain, 4_000, np.random.default_rng(2))
    # As after weights that had taken all from the points with the second and not the first.
    weights = np.where((points[:, 4] > 0.0) & (points[:, 3] == 0.0), 1e-30, 1.0)
    raked = rake(points, weights, frequencies, domain, joint=joint)
    events = points[:, 3:]
    found = (events * raked[:, None]).T @ events
    assert found[~np.eye(3, dtype=bool)] == pytest.approx(joint[~np.eye(3, dtype=bool)], abs=1e-4)
    assert np.diag(found) == pytest.approx([0.03, 0.04, 0.2], abs=1e-4)
