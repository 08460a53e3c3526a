"""Intervals of unequal numbers of levels: single levels are as frequent as in the table, not combs or steps."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import trigmech as tm
from trigmech.functions.partition import Partition, even_edges
from trigmech.functions.released_column import ReleasedColumn
from trigmech.planning.closer import closer_looks
from trigmech.planning.peaks import are_wide, peaks
from trigmech.planning.tables import plan_tables
from trigmech.queries.one_way import Histogram, PrefixSums
from trigmech.queries.signs import Signs
from trigmech.reconstruction.columns import _smooth_places, distribution_of
from trigmech.reconstruction.common import common_positions
from trigmech.reconstruction.cuts import with_whole_peaks
from trigmech.reconstruction.details import SHARED, SHARES, with_a_shared_value
from trigmech.reconstruction.divided import FINE, divided, equal_parts, lengths, on_places, relative_sizes

LEVELS = [None, *(np.linspace(-1.0, 1.0, size) for size in (40, 71, 100, 121, 256, 257, 900)),
          np.expm1(np.linspace(0.0, 3.0, 150)) / np.expm1(3.0) * 2.0 - 1.0]


def looked_at(levels, count, indicators=()):
    return Partition(indicators, 0, even_edges(levels, count), levels)


def of_levels(column):
    """Return the mass (l,) of each level of a number's column: rows of a position are spread evenly over its levels."""
    first = column.partition.first_levels
    mass = column.mass[len(column.partition.indicators) :]
    return np.repeat(mass / np.diff(first), np.diff(first))


@pytest.mark.parametrize("levels", LEVELS, ids=lambda each: "none" if each is None else str(len(each)))
@pytest.mark.parametrize("count", [1, 3, 16, 21, 64, 200])
def test_divided_intervals_keep_their_edges_and_have_equally_many_parts(count, levels):
    partition = looked_at(levels, count, (1,))
    finer, parts = divided(partition), equal_parts(partition)
    at = np.searchsorted(finer.edges, partition.edges)
    assert (finer.edges[at] == partition.edges).all()
    assert {*np.diff(at).tolist()} == {parts}
    if levels is None:
        assert parts == max(FINE // count, 1)
        np.testing.assert_allclose(np.diff(finer.edges), 2.0 / finer.intervals, atol=1e-12)
        return
    assert parts == max(min(min(FINE, len(levels)) // partition.intervals, np.diff(partition.first_levels).min()), 1)
    held = np.diff(finer.first_levels)
    assert held.min() >= 1
    if parts > 1 and levels is not LEVELS[-1]:
        assert (np.ptp(held.reshape(-1, parts), axis=1) <= 1).all()
        assert (lengths(partition, finer) == held).all()
    else:
        assert lengths(partition, finer) is None


@pytest.mark.parametrize("levels", LEVELS, ids=lambda each: "none" if each is None else str(len(each)))
@pytest.mark.parametrize("count", [3, 16, 21, 64])
def test_the_rows_of_a_part_are_spread_evenly_over_its_levels(count, levels):
    partition = looked_at(levels, count)
    fine, parts = divided(partition), equal_parts(partition)
    each = np.random.default_rng(count).random(partition.intervals * parts)
    found = on_places(partition, fine, each)
    assert len(found) == fine.intervals
    assert found.sum() == pytest.approx(each.sum(), rel=1e-12)
    if levels is None or levels is LEVELS[-1] or parts == 1:
        assert (found == each).all()
        return
    # A level's place is an interval of length 1, and so is a part of an interval of m levels one of length m / parts.
    expected = np.zeros(fine.intervals)
    ends = fine.first_levels
    for i, (start, stop) in enumerate(zip(partition.first_levels, partition.first_levels[1:], strict=False)):
        for part in range(parts):
            low = start + (stop - start) * part / parts
            high = start + (stop - start) * (part + 1) / parts
            for f in range(fine.intervals):
                shared = max(min(high, ends[f + 1]) - max(low, ends[f]), 0.0)
                expected[f] += each[i * parts + part] * shared / (high - low)
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_sizes_count_where_intervals_differ_by_more_than_a_fifth():
    def sizes(*held):
        total = sum(held)
        levels = np.linspace(-1.0, 1.0, total)
        cuts = np.cumsum(held)[:-1]
        return relative_sizes(Partition((), 0, np.concatenate([
            [-1.0], 0.5 * (levels[cuts - 1] + levels[cuts]), [1.0]]), levels))

    np.testing.assert_allclose(sizes(4, 4, 4, 3, 3, 3, 3), np.array([4, 4, 4, 3, 3, 3, 3]) / 3.0)
    np.testing.assert_allclose(sizes(2, 1, 1, 2, 1, 1, 1), [2.0, 1.0, 1.0, 2.0, 1.0, 1.0, 1.0])
    # An interval of less than half of the usual number of levels has too much noise to count by them.
    np.testing.assert_allclose(sizes(5, 4, 5, 4, 5, 4, 4, 1), [1.25, 1.0, 1.25, 1.0, 1.25, 1.0, 1.0, 1.0])
    assert sizes(6, 6, 6, 5, 5, 5, 5) is None
    assert sizes(3, 3, 3, 3, 3, 3, 3, 2) is None
    assert sizes(2, 1, 1, 1, 1, 2) is None
    np.testing.assert_allclose(sizes(3, 2, 2, 2, 2, 2), [1.5, 1.0, 1.0, 1.0, 1.0, 1.0])
    assert sizes(9, 1) is None
    assert relative_sizes(looked_at(None, 16)) is None
    assert relative_sizes(looked_at(LEVELS[-1], 16)) is None


@pytest.mark.parametrize("count", [8, 16, 64])
def test_flat_and_bell_shaped_numbers_have_neither_combs_nor_steps(count):
    """The exact histogram with little noise: a level has its frequency, but for a sixth; the ends are left out."""
    deviation = 0.012 / count
    for size in range(min(2 * count, 80) + 1, 131, 9):
        levels = np.linspace(-1.0, 1.0, size)
        partition = looked_at(levels, count)
        for truth in (np.full(size, 1.0 / size), stats.norm(0.1, 0.6).pdf(levels)):
            truth = truth / truth.sum()
            exact = np.add.reduceat(truth, partition.first_levels[:-1])
            noise = deviation * np.random.default_rng(size).normal(size=count)
            ratio = of_levels(distribution_of(partition, exact + noise, deviation, False)) / truth
            inner = ratio[size // 10 : -size // 10]
            assert (np.abs(inner - 1.0) < 0.16).all(), (size, ratio.round(2))


@pytest.mark.daily(3)
@pytest.mark.parametrize("size", [65, 71, 100, 127, 128, 200])
def test_intervals_of_signs_and_of_columns_without_a_look_have_as_many_levels(size):
    schema = tm.Schema([tm.Column("age", 0, size - 1, "integer"), tm.Column("pay", 0, 1)])
    rows = pd.DataFrame({"age": np.arange(200) % size, "pay": np.linspace(0.0, 1.0, 200)})
    made = tm.synthesize(rows, schema, tm.Budget(0.5, 0), rng=np.random.default_rng(0))
    look = next(each.query for each in made.release.measurements if isinstance(each.query, Signs))
    even = common_positions(schema.domain, [])[0].partition
    for partition in (look.partition, even):
        held = np.diff(partition.first_levels)
        # All but the last of many.
        assert (held[: int(0.9 * len(held))] == held[0]).all(), held
        assert held.max() - held.min() <= 1
        assert 64 <= partition.intervals <= 128


@pytest.mark.nightly
@pytest.mark.parametrize("size", [71, 100])
@pytest.mark.parametrize(("n", "epsilon"), [(300, 1.0), (3_000, 1.0)])
def test_ages_are_no_comb_and_have_no_step_at_delta_0(n, epsilon, size):
    """Even and odd levels, and those of either half, are as frequent as in the table; also where signs are measured."""
    rng = np.random.default_rng(5)
    ages = rng.integers(0, size, n)
    table = pd.DataFrame({"age": ages, "pay": rng.random(n)})
    schema = tm.Schema([tm.Column("age", 0, size - 1, "integer"), tm.Column("pay", 0, 1)])
    counts = np.zeros(size)
    for seed in range(12):
        made = tm.synthesize(table, schema, tm.Budget(epsilon, 0), rng=np.random.default_rng(seed))
        drawn = pd.DataFrame(made.sample(n, np.random.default_rng(seed)))["age"]
        counts += np.bincount(drawn.astype(int), minlength=size)
    share = counts / counts.sum() * size
    # Each residue of 2, 3, 4 and 5: a comb's teeth.
    for period in (2, 3, 4, 5):
        teeth = [share[10:-10][start::period].mean() for start in range(period)]
        assert max(teeth) / min(teeth) < 1.15
    true = np.bincount(ages, minlength=size) / n * size
    for low in range(0, size - 20, 5):
        assert share[low : low + 20].mean() == pytest.approx(true[low : low + 20].mean(), abs=0.3)


def test_positions_are_cut_where_the_density_changes():
    held = np.array([2.0, 1.0, 1.0] * 8)
    dense = np.where(np.arange(24) < 12, 0.4, 1.0)
    each = held * dense / (held * dense).sum() * 0.01
    edges, mass = _smooth_places(np.linspace(-1.0, 1.0, 25), each, 0.0001, held)
    assert edges.tolist() == [-1.0, 0.0, 1.0]
    np.testing.assert_allclose(mass, [each[:12].sum(), each[12:].sum()])
    # Without their lengths, intervals of one level are unlike those of two.
    assert len(_smooth_places(np.linspace(-1.0, 1.0, 25), each, 0.0001)[0]) > 10


def whole(mass, deviation, levels=40, count=8, kind=Histogram):
    """Return the positions of a column of single levels, in levels, after the joining of intervals that stand out."""
    own = Partition((), 0, even_edges(np.linspace(-1.0, 1.0, levels), levels), np.linspace(-1.0, 1.0, levels))
    column = ReleasedColumn(own, np.asarray(mass), 0.01)
    look = kind(0, own.cut(even_edges(own.levels, count)))
    made = with_whole_peaks(column, look, deviation)
    assert made.mass.sum() == pytest.approx(column.mass.sum())
    held = np.diff(made.partition.first_levels)
    if kind is Histogram:
        # Those are the intervals that the plan names, and joined ones are named again.
        np.testing.assert_array_equal(peaks(look.partition, column, deviation), peaks(look.partition, made, deviation))
        wide = are_wide(look, made, deviation)
        assert (held > 1).sum() == peaks(look.partition, column, deviation).sum() + wide.sum()
    return held.tolist()


def test_intervals_that_stand_out_are_looked_at_as_a_whole():
    """Five levels in each of eight intervals."""
    even = np.full(40, 1.0 / 40.0)
    peak = np.r_[np.full(15, 0.01), np.full(5, 0.13), np.full(20, 0.01)]
    assert whole(even, 0.02) == [1] * 40
    assert whole(peak, 0.2) == [1] * 15 + [5] + [1] * 20
    # Below three deviations of a closer look it would tell nothing.
    assert whole(peak, 0.22) == [1] * 40
    # Without a guess, if each level is above the noise.
    assert whole(even, 0.003) == [5] * 8
    assert whole(even, 0.0032) == [1] * 40
    # At an end there is one neighbour.
    assert whole(peak[15:], 0.1, 25, 5) == [5] + [1] * 20
    assert whole(peak[:20], 0.1, 20, 4) == [1] * 15 + [5]
    # Positions of several levels are looked at each by itself; a light interval is not looked at.
    assert whole(np.repeat(peak, 4) / 4.0, 0.2, 160) == [1] * 160
    # But one with most rows is, if their noise does not hide it: a few parts of it are measured.
    assert whole(np.repeat(peak, 4) / 4.0, 0.16, 160) == [1] * 60 + [20] + [1] * 80
    light = np.r_[0.97, np.full(14, 0.0006), np.full(5, 0.002), np.full(20, 0.0006)]
    assert whole(light, 0.0002)[1:] == [1] * 35
    # Prefix sums tell intervals that are narrow already.
    assert whole(peak, 0.1, kind=PrefixSums) == [1] * 40


def test_a_few_levels_are_looked_at_together_or_not_at_all():
    """A closer look at two of five levels would leave its noise in the density of all five."""
    schema = tm.Schema([tm.Column("months", 6, 79, "integer"), tm.Column("pay", 0, 1)])
    design = plan_tables(3_000, schema.domain, tm.Budget(1, 0))
    look, other = (each.query.partition for each in design.looks)
    shares = np.where(np.arange(look.intervals) == 5, 0.5, 0.5 / (look.intervals - 1))
    first = look.first_levels[5]
    parted = look.cut(np.insert(look.edges, 6, 0.5 * (look.levels[first + 1] + look.levels[first + 2])))
    others = ReleasedColumn(other, np.full(other.intervals, 1.0 / other.intervals), 0.01)

    def of_months(partition, mass):
        found = closer_looks(design, [ReleasedColumn(partition, mass, 0.01), others])
        return [(each.query.interval, each.query.size) for each in found if each.query.column == 0]

    assert 8.0 * design.closer_deviation(2) < 0.5
    count = np.diff(look.first_levels)
    assert count[5] > 2
    assert of_months(look, shares) == [(5, count[5])]
    assert np.diff(parted.first_levels)[5] == 2
    assert of_months(parted, np.insert(shares * np.where(shares == 0.5, 0.6, 1.0), 6, 0.2)) == []


def slow_mean(values, deviation, total, shape):
    """Return the posterior mean of levels' frequencies by plain loops over all that may be true."""
    scale, odds, means = deviation / 2.0**0.5, [], []
    for level in [None, *range(len(values))]:
        for part in [0.0] if level is None else [(2 * i + 1) / (2 * SHARES) for i in range(SHARES)]:
            truth = [(1.0 - part) * total * own + part * total * (each == level) for each, own in enumerate(shape)]
            likelihood = np.prod([np.exp(-abs(v - f) / scale) for v, f in zip(values, truth, strict=True)])
            odds.append(likelihood * (1.0 - SHARED if level is None else SHARED / (len(values) * SHARES)))
            means.append(truth)
    return np.average(means, axis=0, weights=odds)


def test_a_shared_value_has_its_posterior_mean():
    rng = np.random.default_rng(3)
    for size in (2, 4, 5, 16):
        for total in (0.05, 0.4, 1.0):
            for deviation in (0.02, 0.1, 0.5):
                values = rng.dirichlet(np.full(size, 0.3)) * total + rng.laplace(0.0, deviation / 2.0**0.5, size)
                shape = rng.dirichlet(np.ones(size))
                found = with_a_shared_value(values, deviation, total, shape)[0]
                np.testing.assert_allclose(found, slow_mean(values, deviation, total, shape), atol=1e-12)
                assert found.sum() == pytest.approx(total)
                assert (found >= 0.0).all()
    # Extreme numbers end nothing.
    for values, deviation, total in (([1e100, -1e100], 1e-300, 1.0), ([0.0, 0.0], 1e100, 0.0), ([0.1, 0.2], 0.0, 0.3)):
        found = with_a_shared_value(np.array(values), deviation, total, np.array([0.0, 1.0]))[0]
        assert np.isfinite(found).all()
        assert found.sum() == pytest.approx(total)


@pytest.mark.parametrize("planted", [False, True])
def test_the_mean_of_a_shared_value_is_right_on_average(planted):
    """Draws from the prior: where the mean says so, so many rows are there. With half of the noise they are not."""
    rng, told, true = np.random.default_rng(8), [], []
    for _ in range(20_000):
        part, at, shape = rng.random() * (rng.random() < SHARED), rng.integers(4), np.array([0.4, 0.3, 0.2, 0.1])
        truth = (1.0 - part) * shape + part * (np.arange(4) == at)
        values = truth + rng.laplace(0.0, 0.2 / 2.0**0.5, 4)
        told.append(with_a_shared_value(values, 0.1 if planted else 0.2, 1.0, shape)[0] - shape)
        true.append(truth - shape)
    told, true = np.array(told).ravel(), np.array(true).ravel()
    slope = told @ true / (told @ told)
    error = np.sqrt(((true - told) ** 2 * told**2).sum()) / (told @ told)
    assert (abs(slope - 1.0) < 4.0 * error) == (not planted)


@pytest.mark.parametrize(("seed", "at"), [(0, 60), (1, 62), (2, 25)])
def test_three_of_ten_rows_with_one_value_stay_together_also_in_noise(seed, at):
    """Without the price of a shared value, less than a tenth of the rows had this value."""
    rng = np.random.default_rng(seed)
    months = np.where(rng.random(3_000) < 0.3, at, rng.integers(6, 80, 3_000))
    table = pd.DataFrame({"months": months, "a": rng.random(3_000), "b": rng.random(3_000)})
    schema = tm.Schema([tm.Column("months", 6, 79, "integer"), tm.Column("a", 0, 1), tm.Column("b", 0, 1)])
    shares = []
    for again in range(4):
        made = tm.synthesize(table, schema, tm.Budget(0.25, 0), rng=np.random.default_rng(again))
        shares.append((pd.DataFrame(made.sample(3_000, np.random.default_rng(0)))["months"] == at).mean())
    assert np.mean(shares) > 0.2


@pytest.mark.parametrize(("epsilon", "most"), [(0.3, 0.05), (0.6, 0.035)])
def test_a_narrow_bell_is_no_block_where_its_interval_stands_out(epsilon, most):
    """Two of the intervals, of 12 values each, hold most rows, and the density falls within them.

    At epsilon 0.6 it is not one either where a block is clear of the noise: before, the mean distance was .052.
    """
    schema, places, found = tm.Schema([tm.Column("score", 0, 199, "integer"), tm.Column("pay", 0, 1)]), range(200), []
    for seed in range(4):
        rows = np.random.default_rng(seed).binomial(199, 0.4, 3_000)
        table = pd.DataFrame({"score": rows, "pay": np.random.default_rng(seed).random(3_000)})
        made = tm.synthesize(table, schema, tm.Budget(epsilon, 0), rng=np.random.default_rng(seed))
        drawn = pd.DataFrame(made.sample(3_000, np.random.default_rng(0)))["score"].to_numpy()
        below = [np.searchsorted(np.sort(each), places, "right") / 3_000 for each in (drawn, rows)]
        found.append(np.abs(below[0] - below[1]).max())
    assert np.mean(found) < most


@pytest.mark.daily(3)
@pytest.mark.parametrize("later", [0, 1, 2, 3])
def test_a_value_that_two_of_five_rows_have_is_not_spread_over_its_interval(later):
    """44 % of credits run for 60 months: at delta 0 all releases had as many of 61, 62 and 63 months."""
    rng = np.random.default_rng(0)
    months = rng.choice([60, 36, 48, 24, 12, 18, 30, 6, 42, 54], 3_000,
                        p=[0.44, 0.206, 0.196, 0.077, 0.032, 0.02, 0.011, 0.007, 0.006, 0.005]) + later
    table = pd.DataFrame({"months": months, **{name: rng.random(3_000) for name in "abc"}})
    schema = tm.Schema([tm.Column("months", 6, 79, "integer"), *(tm.Column(name, 0, 1) for name in "abc")])
    for seed in range(3):
        made = tm.synthesize(table, schema, tm.Budget(2, 0), rng=np.random.default_rng(seed))
        share = (pd.DataFrame(made.sample(3_000, np.random.default_rng(0)))["months"] == 60 + later).mean()
        assert share == pytest.approx(0.44, abs=0.1)
