"""Where numbers lie within measured intervals, and tails that a fit has lost: exact laws, and tables with atoms."""

import warnings
from functools import lru_cache

import numpy as np
import pandas as pd
import pytest

import trigmech as tm
from trigmech.functions.partition import Partition
from trigmech.functions.released_column import ReleasedColumn
from trigmech.inference import posterior
from trigmech.inference import unresolved as unresolved_module
from trigmech.inference.lost import MOST_ADDED, with_tails
from trigmech.inference.unresolved import MOST_SHARE, Unresolved, excess, unresolved
from trigmech.measurement.released import Release
from trigmech.planning.shares import Shares
from trigmech.queries.base import Measurement
from trigmech.queries.one_way import Detail, Histogram
from trigmech.queries.signs import Signs
from trigmech.reconstruction.constrained import ConstrainedRows

TENTHS = Partition((), 0, np.linspace(-1.0, 1.0, 11))
SCHEMA = tm.Schema([tm.Column("x", -1, 1)])


def column(*mass, partition=TENTHS, deviation=0.0):
    return ReleasedColumn(partition, np.array(mass), deviation)


def release_of(mass, query=None, deviation=0.0, means=None, more=(), schema=SCHEMA):
    partition = TENTHS if query is None else query.partition
    query = Histogram(0, partition) if query is None else query
    values = np.array(mass if means is None else means, dtype=np.float64)
    return Release(500, schema.domain, (Measurement(query, 1.0, values, deviation), *more),
                   (column(*mass, partition=partition, deviation=deviation),))


def of(release, schema=SCHEMA):
    return unresolved(release, ConstrainedRows(schema, release.columns, release.closer))


def test_a_count_counts_as_far_as_it_is_above_the_counts_beside_it():
    shares = excess(column(0.05, 0.05, 0.05, 0.5, 0.05, 0.05, 0.05, 0.05, 0.05, 0.1), TENTHS)
    # At an end there is one count beside it alone.
    np.testing.assert_allclose(shares, [0, 0, 0, 0.9, 0, 0, 0, 0, 0, 0.5], atol=1e-12)
    assert not excess(column(*np.arange(1.0, 11.0) / 55.0), TENTHS)[1:-1].any()
    noisy = excess(column(0.05, 0.05, 0.05, 0.5, 0.05, 0.05, 0.05, 0.05, 0.05, 0.1, deviation=0.1), TENTHS)
    np.testing.assert_allclose(noisy[3], np.sqrt(0.45**2 - 1.5 * 0.1**2) / 0.5)
    assert (noisy[np.arange(10) != 3] == 0.0).all()


def test_counts_are_compared_by_the_length_of_their_intervals():
    uneven = Partition((1,), 0, np.array([-1.0, -0.5, 0.5, 0.75, 1.0]))
    even = np.array([0.2, 0.2, 0.4, 0.1, 0.1])
    assert not excess(ReleasedColumn(uneven, even, 0.0), uneven).any()
    assert excess(ReleasedColumn(uneven, even, 0.0), uneven.cut(np.array([-1.0, 1.0]))) == MOST_SHARE
    # Not all rows share a value, or a column would be constant.
    assert excess(column(1.0, *[0.0] * 9), TENTHS)[0] == MOST_SHARE


def test_intervals_are_the_finest_that_were_measured():
    mass = np.array([0.1, 0.1, 0.1, 0.1, 0.1, 0.3, 0.05, 0.05, 0.05, 0.05])
    finer = Measurement(Detail(0, TENTHS, 5, np.array([0.0, 0.05, TENTHS.edges[6]])), 1.0, np.array([0.3, 0.0]), 0.0)
    plain, closer = of(release_of(mass)), of(release_of(mass, more=(finer,)))
    assert plain[0].partition.intervals == 10
    assert closer[0].partition.edges.tolist() == sorted([*TENTHS.edges.tolist(), 0.05])
    # Signs do not tell where rows lie between two changes of a sign.
    signs = Signs(0, TENTHS, 1)
    found = of(release_of([0.1, 0.1, 0.1, 0.1, 0.2, 0.2, 0.05, 0.05, 0.05, 0.05], signs, means=[0.2]))
    assert found[0].partition.edges.tolist() == [-1.0, 0.0, 1.0]


def test_a_single_level_is_where_it_is():
    levels = tm.Schema([tm.Column("x", 0, 3, "integer")])
    two = Partition((), 0, np.array([-1.0, 0.0, 1.0]), levels.domain.levels_of(0))
    four = Partition((), 0, np.array([-1.0, -0.5, 0.0, 0.5, 1.0]), levels.domain.levels_of(0))
    assert of(release_of([0.9, 0.1], Histogram(0, two), schema=levels), levels)
    assert not of(release_of([0.7, 0.1, 0.1, 0.1], Histogram(0, four), schema=levels), levels)


def test_moved_rows_share_one_number_of_their_interval():
    held = Unresolved(0, TENTHS, np.array([0, 0, 0, 0.8, 0, 0, 0, 0, 0, 0.3]))
    points = np.random.default_rng(0).uniform(-1.0, 1.0, (4_000, 2))
    places = np.full(10, 0.25)
    moved = held.moved(points, places, SCHEMA, np.random.default_rng(1))
    np.testing.assert_array_equal(moved[:, 1], points[:, 1])
    np.testing.assert_array_equal(TENTHS.codes(moved), TENTHS.codes(points))
    changed = moved[:, 0] != points[:, 0]
    for interval, share, at in ((3, 0.8, -0.35), (9, 0.3, 0.85)):
        inside = TENTHS.codes(points) == interval
        np.testing.assert_allclose(moved[changed & inside, 0], at)
        # Six deviations of a share of some 400 rows.
        assert abs(changed[inside].mean() - share) < 6.0 * np.sqrt(share * (1.0 - share) / inside.sum())
    assert set(TENTHS.codes(points)[changed]) == {3, 9}


def test_a_moved_row_keeps_constraints_and_levels():
    schema = tm.Schema([tm.Column("x", 0, 9, "integer"), tm.Column("y", 0, 9, "integer")], constraints=["x <= y"])
    whole = Partition((), 0, np.array([-1.0, 1.0]), schema.domain.levels_of(0))
    rows = np.random.default_rng(0).integers(0, 10, (500, 2))
    points = schema.to_cube(pd.DataFrame({"x": rows.min(axis=1), "y": rows.max(axis=1)}))
    moved = Unresolved(0, whole, np.ones(1)).moved(points, np.array([0.55]), schema, np.random.default_rng(0))
    values = schema.decode(moved)
    x, y = (np.asarray(values[name]) for name in ("x", "y"))
    assert (x[rows.max(axis=1) >= 5] == 5).all()
    assert (x <= y).all()
    np.testing.assert_array_equal(y, rows.max(axis=1))


def test_places_of_all_tables_are_even():
    places = Unresolved(0, TENTHS, np.full(10, 0.5)).drawn(20, np.random.default_rng(0))
    np.testing.assert_array_equal(np.sort((places * 20).astype(int), axis=0), np.tile(np.arange(20)[:, None], 10))
    assert len({tuple(each) for each in (places * 20).astype(int).T}) == 10


def test_waves_give_a_mean_the_variance_of_a_place_drawn_evenly():
    shares = np.array([0, 0, 0, 0.8, 0, 0, 0, 0, 0, 0])
    points = np.random.default_rng(0).uniform(-1.0, 1.0, (200_000, 1))
    values, wide = Unresolved(0, TENTHS, shares).waves(points)
    # The interval's count is measured, and does not change with them.
    np.testing.assert_allclose(values.mean(axis=0), 0.0, atol=1e-12)
    contributed = wide * (values.T @ points[:, 0]) / len(points)
    part = (TENTHS.codes(points) == 3).mean()
    np.testing.assert_allclose((contributed**2).sum(), (0.8 * part * 0.2) ** 2 / 12.0, rtol=0.03)
    assert not Unresolved(0, TENTHS, shares).waves(points[:0])[0].size


@pytest.mark.parametrize("indicators", [(), (1,)])
def test_waves_of_integers_count_the_values_of_an_interval(indicators):
    """An interval's ends are no places of its values: each of five values has a fifth of it."""
    levels = np.linspace(-1.0, 1.0, 12)
    partition = Partition(indicators, 0, np.array([-1.0, 0.5 * (levels[4] + levels[5]), 1.0]), levels)
    own = np.random.default_rng(1).integers(0, 12, 600)
    points = np.zeros((600, 1 + len(indicators)))
    points[:, 0] = levels[own]
    values, wide = Unresolved(0, partition, np.array([0.5, 0.3])).waves(points)
    k = np.arange(1, unresolved_module.WAVES + 1)
    assert len(wide) == 2 * len(k)
    for i, (first, count) in enumerate(((0, 5), (5, 7))):
        held = (first <= own) & (own < first + count)
        waves = np.cos(np.pi * k * (own[held, None] - first + 0.5) / count) * np.sqrt(2.0 / held.mean())
        found = values[:, i * len(k) : (i + 1) * len(k)]
        np.testing.assert_allclose(found[held], waves - waves.mean(axis=0), atol=1e-12)
        assert not found[~held].any()


@lru_cache
def with_an_atom():
    """A release without delta of rows of which half have the number at the lower end of a measured interval.

    No interval is looked at closer, which would find that number.
    """
    rng = np.random.default_rng(3)
    x = np.where(rng.random(3_000) < 0.5, 0.0, rng.normal(0.0, 0.3, 3_000).clip(-1, 1))
    # Both depend on each other, in the fit too: laws about rows that move must not hold by independence alone.
    table = pd.DataFrame({"x": x, "y": (0.5 * x + rng.normal(0.0, 0.3, 3_000)).clip(-1, 1)})
    schema = tm.Schema([tm.Column("x", -1, 1), tm.Column("y", -1, 1)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return tm.synthesize(table, schema, tm.Budget(1.0, 0.0), tm.TableMechanism(shares=Shares(0.32, 0.0, 0.15)),
                             np.random.default_rng(0))


def means(table, w=None):
    x, y = np.asarray(table["x"]), np.asarray(table["y"])
    w = np.full(len(x), 1.0 / len(x)) if w is None else w
    values = np.array([w @ x, w @ y])
    return values, np.column_stack([x, y]) - values


def test_intervals_hold_the_mean_and_the_median_of_a_column_with_an_atom():
    made = with_an_atom()
    imputations = made.imputations(rng=np.random.default_rng(0))
    found = imputations.estimate(lambda table: [np.mean(table["x"]), np.median(table["x"]), np.mean(table["y"])])
    assert (found.low <= 0.0).all()
    assert (found.high >= 0.0).all()
    closed = made.weighted().estimate(means)
    assert (closed.low <= 0.0).all()
    assert (closed.high >= 0.0).all()
    # The other column has no atom, so its interval is not wider.
    assert 1.5 * found.deviation[2] < found.deviation[0]
    assert 1.5 * closed.deviation[1] < closed.deviation[0]


def test_tests_count_where_the_atom_may_be():
    from dataclasses import replace

    weighted = with_an_atom().weighted()
    _, psi = means(weighted.columns, weighted.weights)
    held, bare = weighted.posterior, replace(weighted.posterior, unresolved=())
    more = held.covariance(psi) - bare.covariance(psi)
    variances = held.variances(psi).untold - bare.variances(psi).untold
    np.testing.assert_allclose(more.diagonal(), variances, rtol=1e-9, atol=1e-15)
    assert more[0, 0] > 1e-4
    # A row that moves keeps its value of the other column, though both depend on each other in the fit.
    assert more[1, 1] < 0.005 * more[0, 0]


@pytest.mark.parametrize("most", [5, 1])
def test_of_wide_tables_fewer_functions_say_what_rows_have_beside_their_place(most, monkeypatch):
    """One function of each column, and without any an interval only gets wider."""
    monkeypatch.setattr(posterior, "MOST_SINGLE", most)
    weighted = with_an_atom().weighted()
    held = weighted.posterior
    _, psi = means(weighted.columns, weighted.weights)
    functions, _, columns = held._single_functions
    assert functions.shape == (held.m, most // 2 * 2)
    assert columns.tolist() == [0, 0, 1, 1][: functions.shape[1]]
    found = (held._of_places(psi) ** 2).sum(axis=0)
    assert (found[1] < 0.02 * found[0]) == (most == 5)


def test_labels_of_rows_by_chance_differ_along_no_interval():
    from dataclasses import replace

    held = with_an_atom().weighted().posterior
    psi = np.random.default_rng(1).choice([-1.0, 1.0], size=(held.m, 60))
    bare = replace(held, unresolved=())
    more = (held.covariance(psi) - bare.covariance(psi)).diagonal()
    by_chance = sum(float(np.square(wide[:, None] * values.T).sum()) for values, wide in (
        each.waves(held.points) for each in held.unresolved)) / held.m**2
    assert more.mean() < 0.6 * by_chance


def lost(off, spread, noise=0.0001, n=400):
    """A release whose measured mean is that of the rows plus ``off``, and rows with a deviation near ``spread``."""
    points = np.random.default_rng(0).normal(0.0, spread, (n, 1)).clip(-0.99, 0.99)
    means = np.bincount(TENTHS.codes(points), minlength=10) / n
    # Mass from the fit's own places to the upper end.
    means += off / 0.9 * (np.eye(10)[9] - 0.5 * (np.eye(10)[4] + np.eye(10)[5]))
    return release_of(np.bincount(TENTHS.codes(points), minlength=10) / n, deviation=noise, means=means), points


@pytest.mark.parametrize("off", [0.2, -0.2])
def test_a_fit_that_has_lost_a_tail_gets_rows_there(off):
    release, points = lost(off, 0.05)
    wider, rows = with_tails(SCHEMA, release, points, 0.3, np.random.default_rng(0))
    np.testing.assert_array_equal(rows[: len(points)], points)
    part = 1.0 - len(points) / len(rows)
    assert 0.1 < part <= MOST_ADDED + 0.01
    np.testing.assert_allclose(wider.columns[0].mass, (1.0 - part) * release.columns[0].mass + part * 0.1, atol=1e-3)
    added = rows[len(points) :, 0]
    assert added.min() < -0.8
    assert added.max() > 0.8


def test_a_fit_gets_no_rows_without_need():
    # As far off as the fit may be anyway, by noise alone, or with noise that is small beside the column's deviation.
    for off, spread, noise in ((0.05, 0.3, 0.001), (0.03, 0.05, 0.02), (0.0, 0.05, 0.01)):
        release, points = lost(off, spread, noise)
        same, rows = with_tails(SCHEMA, release, points, 0.3, np.random.default_rng(0))
        assert rows is points or len(rows) == len(points)
        np.testing.assert_array_equal(same.columns[0].mass, release.columns[0].mass)
    # But noise that a narrow column would hide shows in some rows.
    release, points = lost(0.0, 0.01, 0.2)
    assert len(with_tails(SCHEMA, release, points, 0.3, np.random.default_rng(0))[1]) > len(points)


def test_rows_that_are_added_keep_constraints_and_finite_at_any_noise():
    schema = tm.Schema([tm.Column("x", -1, 1), tm.Column("y", -1, 1)], constraints=["x <= y"])
    release, points = lost(0.2, 0.05)
    both = np.column_stack([points[:, 0] - 0.001, np.full(len(points), 0.5)])
    release = Release(500, schema.domain, release.measurements, release.columns)
    _, rows = with_tails(schema, release, both, 0.3, np.random.default_rng(0))
    assert len(rows) > len(both)
    assert (rows[:, 0] <= rows[:, 1]).all()
    for far in (1e300, -1e300, np.inf):
        hostile = release_of(np.full(10, 0.1), means=np.full(10, far), deviation=0.1)
        wider, more = with_tails(SCHEMA, hostile, points, 0.3, np.random.default_rng(0))
        assert np.isfinite(wider.columns[0].mass).all()
        assert len(more) <= len(points) * 1.26
