"""Columns that are narrow in their bounds, at delta = 0: a few parts of the interval with most rows are measured."""

import numpy as np
import pandas as pd
import pytest
from test_paid_rounds import paid

import trigmech as tm
from trigmech.functions.partition import Partition, even_edges
from trigmech.functions.released_column import ReleasedColumn
from trigmech.planning.closer import FOUND, closer_looks
from trigmech.planning.peaks import (
    LARGE,
    LARGE_BY_NOISE,
    LEAST_PARTS,
    SECOND,
    SECOND_BY_NOISE,
    TELLING,
    are_wide,
    guessed,
    parts_of,
    wide_intervals,
)
from trigmech.planning.tables import plan_tables
from trigmech.queries.base import Measurement
from trigmech.queries.one_way import Detail, Histogram, HistogramWithEnds, PrefixSums
from trigmech.queries.signs import Signs
from trigmech.reconstruction.columns import distribution_of, opened_histogram
from trigmech.reconstruction.cuts import with_whole_peaks
from trigmech.reconstruction.details import EVIDENCE, with_details, with_parts

LEVELS = np.linspace(-1.0, 1.0, 801)


def ks(a, b):
    both = np.sort(np.concatenate([a, b]))
    return np.abs(np.searchsorted(np.sort(a), both, "right") / len(a)
                  - np.searchsorted(np.sort(b), both, "right") / len(b)).max()


def made(table, schema, epsilon, seed):
    release = tm.synthesize(table, schema, tm.Budget(epsilon, 0.0), rng=np.random.default_rng(seed))
    return pd.DataFrame(release.sample(len(table), np.random.default_rng(9)))


def delays(n, rng):
    """Most of them between -8 and 30 minutes, in bounds of a day."""
    return np.clip(np.round(rng.gamma(0.5, 30.0, n) - 8.0), -60, 1500)


# Without parts the distances are .59 and .50.
@pytest.mark.nightly
@pytest.mark.parametrize(("kind", "n", "epsilon", "most"), [("delay", 5000, 0.5, 0.3), ("date", 2000, 4.0, 0.25)])
def test_a_column_that_is_narrow_in_its_bounds_is_where_it_is(kind, n, epsilon, most):
    rng = np.random.default_rng(0)
    if kind == "delay":
        values, column = delays(n, rng), tm.Column("x", -60, 1500, "integer")
    else:
        values = np.datetime64("2019-01-07") + 7 * rng.integers(0, 26, n) + rng.integers(0, 5, n)
        column = tm.Column("x", "2000-01-01", "2030-12-31", "datetime")
    table = pd.DataFrame({"x": values, **{f"y{i}": rng.normal(size=n).clip(-4, 4) for i in range(3)}})
    schema = tm.Schema([column, *(tm.Column(f"y{i}", -4, 4) for i in range(3))])

    def numbers(values):
        return np.asarray(values, dtype="datetime64[s]" if kind == "date" else float).astype(np.float64)

    found = [ks(numbers(made(table, schema, epsilon, seed)["x"]), numbers(values)) for seed in range(3)]
    assert np.mean(found) < most


def column_of(mass, look):
    return ReleasedColumn(look.partition, np.asarray(mass), 0.01)


def looked(kind=Histogram, count=8, levels=LEVELS):
    whole = Partition((), 0, np.array([-1.0, 1.0]), levels)
    return kind(0, whole.cut(even_edges(levels, count)))


def test_an_interval_is_wide_if_it_holds_many_rows():
    look, noise = looked(), 0.05
    assert [LARGE, LARGE_BY_NOISE, SECOND, SECOND_BY_NOISE, LEAST_PARTS] == [0.5, 4.0, 0.3, 32.0, 4]
    mass = np.array([0.1, 0.6, 0.1, 0.1, 0.1, 0.0, 0.0, 0.0])
    ends = [tuple(look.partition.edges[1:3].tolist())]
    assert wide_intervals(look, column_of(mass, look), noise) == ends
    np.testing.assert_array_equal(are_wide(look, column_of(mass, look), noise), np.arange(8) == 1)
    # It must hold half of the rows, and four deviations, or three in ten rows, and 32 deviations.
    assert wide_intervals(look, column_of(mass, look), 0.1501) == []
    assert wide_intervals(look, column_of(mass, look), 0.1499) == ends
    assert wide_intervals(look, column_of(mass * 0.83, look), 0.0157) == []
    assert wide_intervals(look, column_of(mass * 0.83, look), 0.0155) == ends
    assert wide_intervals(look, column_of(mass * 0.51, look), 1e-9) == ends
    assert wide_intervals(look, column_of(mass * 0.49, look), 1e-9) == []
    both = [(float(low), float(high)) for low, high in zip(look.partition.edges[1:3], look.partition.edges[2:4],
                                                           strict=True)]
    assert wide_intervals(look, column_of([0.0, 0.35, 0.65, 0, 0, 0, 0, 0], look), 0.01) == both
    # Numbers without levels, too.
    smooth = looked(levels=None)
    assert wide_intervals(smooth, column_of(mass, smooth), noise) == [tuple(smooth.partition.edges[1:3].tolist())]
    # Fewer levels than 16 are never measured as a whole, and prefix sums tell enough.
    few, enough = (looked(levels=np.linspace(-1.0, 1.0, 8 * count)) for count in (15, 16))
    assert wide_intervals(few, column_of(mass, few), noise) == []
    assert wide_intervals(enough, column_of(mass, enough), noise) == [tuple(enough.partition.edges[1:3].tolist())]
    sums = looked(PrefixSums)
    assert wide_intervals(sums, column_of(mass, sums), noise) == []


def test_an_end_without_an_atom_belongs_to_the_interval_beside_it():
    edges = even_edges(LEVELS, 8)
    own = 0.5 * (LEVELS[:-1] + LEVELS[1:])
    look = HistogramWithEnds(0, Partition((), 0, np.concatenate([[-1.0, own[0]], edges[1:-1], [own[-1], 1.0]]), LEVELS))
    inner = Partition((), 0, edges, LEVELS)
    for turned in (False, True):
        mass = np.array([0.8, 0.2, 0, 0, 0, 0, 0, 0])[:: -1 if turned else 1]
        column = ReleasedColumn(inner, mass, 0.01)
        assert wide_intervals(look, column, 0.05) == [tuple((edges[-2:] if turned else edges[:2]).tolist())]
        # With an atom of its own it is measured already.
        apart = inner.cut(np.insert(edges, -1 if turned else 1, own[-1] if turned else own[0]))
        atom = ReleasedColumn(apart, np.insert(mass, 8 if turned else 0, 0.0), 0.01)
        assert wide_intervals(look, atom, 0.05) == [
            (float(edges[-2]), float(own[-1])) if turned else (float(own[0]), float(edges[1]))]


def test_signs_tell_intervals_in_which_no_sign_changes():
    whole = Partition((), 0, np.linspace(-1.0, 1.0, 65))
    look = Signs(0, whole, 4)
    edges = look.resolved
    assert 4 < len(edges) < 20
    mass = np.where(whole.edges[1:] <= edges[1], 1.0, 0.001)
    column = ReleasedColumn(whole, mass / mass.sum(), 0.01)
    assert wide_intervals(look, column, 0.05) == [(-1.0, float(edges[1]))]
    joined = with_whole_peaks(column, look, 0.05)
    assert joined.partition.edges[1] == edges[1]
    assert joined.mass[0] == pytest.approx(column.mass[whole.edges[1:] <= edges[1]].sum())


def test_parts_are_as_many_as_noise_tells_apart():
    assert [parts_of(0.8, each, 10**6) for each in (0.2, 0.1, 0.05, 0.01, 0.001)] == [4, 4, 6, 18, 86]
    # All levels are measured if their noise together is at most a sixth of the rows: that of 100 is 10 deviations.
    assert TELLING == 1.0 / 6.0
    assert [parts_of(0.6, each, 100) for each in (0.0101, 0.0099)] == [15, 100]
    whole = Partition((), 0, even_edges(LEVELS, 3), LEVELS)
    for i in range(3):
        edges = whole.parts(i, 6, 1024)
        count = np.diff(np.searchsorted(LEVELS, edges, side="left") + (edges == 1.0))
        assert edges[[0, -1]].tolist() == whole.edges[i : i + 2].tolist()
        assert len(count) == 6
        assert count.sum() == 267
        assert count.max() - count.min() <= 1
        # As many as there are levels.
        np.testing.assert_array_equal(whole.parts(i, 267, 1024), whole.finer(i, 267))
    smooth = Partition((), 0, np.array([-1.0, -0.5, 1.0]))
    np.testing.assert_allclose(smooth.parts(1, 3, 1023), [-0.5, 0.0, 0.5, 1.0])
    narrow = Partition((), 0, np.array([-1.0, np.nextafter(-1.0, 0.0), 1.0]))
    assert len(narrow.parts(0, 8, 1024)) == 2


@pytest.fixture(params=[None, LEVELS], ids=["smooth", "levels"])
def interval(request):
    """A column of which the second of four intervals was measured in eight parts: rows are in the first three."""
    whole = Partition((), 0, even_edges(request.param, 4), request.param)
    column = ReleasedColumn(whole, np.array([0.1, 0.7, 0.2, 0.0]), 0.01)
    detail = Detail(0, whole, 1, whole.parts(1, 8, 1024))
    assert detail.by_parts
    assert not Detail(0, whole, 1, whole.finer(1, 1024)).by_parts
    return column, detail


def share(column, low, high):
    below = np.concatenate([[0.0], np.cumsum(column.mass)])
    return float(np.diff(np.interp([low, high], column.partition.edges, below))[0])


def noisy(detail, mass, noise, rng):
    return Measurement(detail, values=mass + rng.laplace(0.0, noise / np.sqrt(2.0), len(mass)), noise=noise,
                       law="laplace")


def test_rows_are_where_the_parts_show_them(interval):
    column, detail = interval
    true, rng = np.array([0.3, 0.3, 0.1, 0, 0, 0, 0, 0]), np.random.default_rng(0)
    for _ in range(8):
        found = with_details(column, column.partition, [noisy(detail, true, 0.04, rng)], 8, column)
        assert found.mass.sum() == pytest.approx(1.0)
        assert found.mass.min() >= 0.0
        # The other intervals stay, and this one keeps its rows.
        for i in (0, 2, 3):
            assert share(found, *column.partition.edges[i : i + 2]) == pytest.approx(column.mass[i])
        assert share(found, detail.edges[0], detail.edges[3]) == pytest.approx(0.7, abs=0.15)
        if found.partition.levels is not None:
            assert (np.diff(found.partition.first_levels) > 0).all()


def test_the_guess_stays_where_the_parts_do_not_contradict_it(interval):
    column, detail = interval
    within = column.partition.parts(1, 16, 1024)[1:-1]
    finer = column.partition.cut(np.sort(np.concatenate([column.partition.edges, within])))
    shape = np.exp(-0.5 * np.square((np.arange(16) - 7.5) / 2.0))
    guess = ReleasedColumn(finer, np.concatenate([[0.1], 0.7 * shape / shape.sum(), [0.2, 0.0]]), 0.01)
    true = 0.7 * shape.reshape(8, 2).sum(axis=1) / shape.sum()
    rng, with_guess, without = np.random.default_rng(0), [], []
    for _ in range(8):
        look = noisy(detail, true, 0.1, rng)
        for own, kept in ((guess, with_guess), (column, without)):
            found = with_parts(column, look, own)
            kept.append(sum(abs(share(found, *finer.edges[i : i + 2]) - guess.mass[i]) for i in range(len(guess.mass))))
    assert np.mean(with_guess) < 0.6 * np.mean(without)
    # One that is contradicted has no weight: rows are at the other end.
    look = noisy(detail, true[::-1] * 0.0 + np.array([0, 0, 0, 0, 0, 0, 0, 0.7]), 0.03, rng)
    assert share(with_parts(column, look, guess), *detail.edges[6:8]) < 0.05
    assert share(with_parts(column, look, guess), *detail.edges[7:9]) > 0.5


def test_the_average_with_the_guess_is_that_by_their_likelihoods(interval, monkeypatch):
    """Slowly: the distribution of the interval as a column of its own, the guess, and their odds."""
    column, detail = interval
    rng, look = np.random.default_rng(3), noisy(detail, np.full(8, 0.0875), 0.05, np.random.default_rng(3))
    guess = ReleasedColumn(column.partition.cut(np.unique(np.concatenate([column.partition.edges, detail.edges]))),
                           np.concatenate([[0.1], 0.7 * rng.dirichlet(np.full(8, 3.0)), [0.2, 0.0]]), 0.01)
    found = with_parts(column, look, guess)
    inner = np.linspace(-1.0, 1.0, 9)
    levels = None
    if column.partition.levels is not None:
        inside = column.partition.levels_in(1)
        scale = 2.0 / (detail.edges[-1] - detail.edges[0])
        levels, inner = (inside - detail.edges[0]) * scale - 1.0, (detail.edges - detail.edges[0]) * scale - 1.0
        inner[[0, -1]] = -1.0, 1.0
    own = Partition((), 0, inner, levels)
    free = distribution_of(own, look.known / 0.7, 0.05 / 0.7, False)
    density = opened_histogram(own, look.known / 0.7, 0.05 / 0.7, False).density
    surprise = sum((look.known[i] - guess.mass[1 + i]) ** 2 / 0.05**2 for i in range(8))
    odds = np.exp(0.5 * EVIDENCE - 0.5 * surprise) / np.exp(-0.5 * density.surprise)
    part = odds / (1.0 + odds)
    assert 0.02 < part < 0.98
    below = np.concatenate([[0.0], np.cumsum(free.mass)])
    for i in range(8):
        expected = (1.0 - part) * 0.7 * np.diff(np.interp(inner[i : i + 2], free.partition.edges, below))[0]
        expected += part * guess.mass[1 + i]
        assert share(found, *detail.edges[i : i + 2]) == pytest.approx(expected, abs=2e-3)


@pytest.mark.parametrize("values", [np.zeros(8), np.full(8, 1e300), np.full(8, -1e300), np.r_[1e-300, np.zeros(7)],
                                    np.r_[1e308, -1e308, np.zeros(6)]])
@pytest.mark.parametrize("mass", [0.7, 1e-300, 0.0])
@pytest.mark.parametrize("noise", [1e-12, 0.1, 1e300])
def test_no_noise_ends_a_release_that_is_paid(interval, values, mass, noise):
    column, detail = interval
    column = ReleasedColumn(column.partition, np.array([0.3, mass, 0.7 - mass, 0.0]), 0.01)
    found = with_parts(column, Measurement(detail, values=values, noise=noise, law="laplace"), column)
    assert np.isfinite(found.mass).all()
    assert (found.mass >= 0.0).all()
    assert found.mass.sum() == pytest.approx(1.0)


def test_a_release_with_parts_is_saved_and_asked(tmp_path):
    rng = np.random.default_rng(2)
    table = pd.DataFrame({"delay": delays(3000, rng), **{f"y{i}": rng.random(3000) for i in range(3)}})
    schema = tm.Schema([tm.Column("delay", -60, 1500, "integer"), *(tm.Column(f"y{i}", 0, 1) for i in range(3))])
    release = tm.synthesize(table, schema, tm.Budget(0.4, 0.0), rng=np.random.default_rng(0))
    details = [each.query for each in release.release.closer]
    assert any(each.by_parts and each.edges[0] == -1.0 for each in details)
    release.save(tmp_path / "delay.tm")
    again = tm.load(tmp_path / "delay.tm")
    pd.testing.assert_frame_equal(pd.DataFrame(again.sample(50, np.random.default_rng(1))),
                                  pd.DataFrame(release.sample(50, np.random.default_rng(1))))

    def early(rows):
        return np.mean(np.asarray(rows["delay"], dtype=float) < 0.0)

    answer = again.error_bars(early)
    assert 0.0 < answer.error.bound < 0.5


def narrow_design(n=20_000, numbers=4, epsilon=1.0):
    columns = [tm.Column("x", -60, 1500, "integer"), *(tm.Column(f"y{i}", 0, 1) for i in range(numbers - 1))]
    return plan_tables(n, tm.Schema(columns).domain, tm.Budget(epsilon, 0.0))


def spread_columns(design, places):
    """Columns of which these have nine in ten rows in the third interval of their look, and the others have no rows."""
    made = []
    for j, partition in enumerate(design.partitions):
        mass = np.zeros(partition.size)
        if j in places:
            mass = np.where(np.arange(partition.size) == len(partition.indicators) + 2, 0.9, 0.1 / (partition.size - 1))
        made.append(ReleasedColumn(partition, mass, 0.001))
    return made


@pytest.mark.daily("0.2-places0", "0.2-places3", "0.6-places1", "1.0-places2")
@pytest.mark.parametrize("places", [(0,), (1,), (0, 2), (0, 1, 2, 3)])
@pytest.mark.parametrize("epsilon", [0.2, 0.6, 1.0])
def test_details_of_few_columns_have_less_noise_and_move_no_further(places, epsilon):
    design = narrow_design(epsilon=epsilon)
    asked = closer_looks(design, spread_columns(design, places), len(places))
    assert {each.query.column for each in asked} == set(places)
    deviation = design.closer_deviation(len(places))
    assert deviation == pytest.approx(design.closer_deviation(4) * len(places) / 4)
    for each in asked:
        twice = FOUND * deviation <= 0.9 and (each.query.column, each.query.interval) in wide_of(asked)
        assert design.deviation(design.closer) / each.weight == pytest.approx(deviation * (1.0 + twice))
    # The weighted vector moves by at most 1/n, as is stated, and as all pairs of one row show.
    assert paid(design.closer, asked, design.n)
    rng, worst = np.random.default_rng(0), 0.0
    rows = rng.uniform(-1.0, 1.0, (400, 4))
    low, high = design.partitions[0].edges[2:4]
    rows[::2, 0] = LEVELS_OF_X[np.searchsorted(LEVELS_OF_X, rng.uniform(low, high, 200)) - 1]
    for j in (1, 2, 3):
        rows[::3, j] = rng.uniform(*design.partitions[j].edges[2:4], 134)
    rows[1::2, 0] = rng.choice(LEVELS_OF_X, 200)
    held = np.hstack([each.weight * each.query.sparse(rows).toarray() for each in asked])
    for i in range(len(rows)):
        worst = max(worst, float(np.abs(held - held[i]).sum(axis=1).max()))
    assert worst <= 1.0 + 1e-12
    assert worst > (0.99 if len(places) < 4 else 0.7)


LEVELS_OF_X = np.linspace(-1.0, 1.0, 1561)


def wide_of(asked):
    return {(each.query.column, each.query.interval) for each in asked if each.query.by_parts}


def test_both_sizes_are_asked_where_a_shared_value_would_be_found():
    design = narrow_design(epsilon=0.2)
    asked = closer_looks(design, spread_columns(design, (1,)), 1)
    assert [each.query.by_parts for each in asked] == [True, False]
    parts, finest = (each.query for each in asked[:2])
    assert finest.divides(parts)
    assert not parts.divides(finest)
    # A row is counted by both, so their moves add up; and the wider parts consist of finest ones.
    assert parts.disjoint == finest.disjoint
    assert np.isin(parts.edges, finest.edges).all()
    # With more noise the wider parts alone are measured, with all of the weight.
    noisy = narrow_design(epsilon=0.05)
    alone = closer_looks(noisy, spread_columns(noisy, (1,)), 1)
    assert [each.query.by_parts for each in alone] == [True]


@pytest.mark.parametrize("levels", [None, LEVELS], ids=["smooth", "levels"])
def test_a_shared_value_is_found_in_an_interval_that_is_measured_in_parts(levels):
    whole = Partition((), 0, even_edges(levels, 4), levels)
    column = ReleasedColumn(whole, np.array([0.1, 0.8, 0.1, 0.0]), 0.01)
    finest = Detail(0, whole.cut(whole.edges), 1, whole.finer(1, 1024))
    parts = Detail(0, whole, 1, whole.parts(1, 6, 1024))
    rng, at, shared = np.random.default_rng(1), finest.size // 3, 0.5
    # Half of the rows have one value, and three in ten are in the last two parts.
    true = np.where(np.arange(parts.size) >= 4, 0.15, 0.0)
    true[np.searchsorted(parts.edges[1:-1], finest.edges[at : at + 2].mean(), "right")] += shared
    fine = np.where(finest.edges[1:] > parts.edges[4], 0.3 / (finest.edges[1:] > parts.edges[4]).sum(), 0.0)
    fine[at] += shared
    for _ in range(6):
        looks = [noisy(parts, true, 0.02, rng), noisy(finest, fine, 0.02, rng)]
        found = with_details(column, whole, looks, finest.size + parts.size, column)
        assert found.mass.sum() == pytest.approx(1.0)
        low, high = finest.edges[at : at + 2]
        assert share(found, low, high) == pytest.approx(shared, abs=0.15)
        if levels is None:
            # As narrow as the closer look goes, so that it is an atom.
            assert {float(low), float(high)} <= set(found.partition.edges.tolist())
        assert share(found, parts.edges[4], parts.edges[6]) == pytest.approx(0.3, abs=0.17)
        # Without the finest parts it is spread over a part.
        alone = with_details(column, whole, looks[:1], parts.size, column)
        assert share(alone, low, high) < 0.1


@pytest.mark.parametrize("levels", [None, LEVELS], ids=["smooth", "levels"])
def test_rows_are_where_the_finest_parts_show_them_together(levels):
    """A part holds less than a deviation, or a level four, and the guess has the rows elsewhere."""
    whole = Partition((), 0, even_edges(levels, 4), levels)
    column = ReleasedColumn(whole, np.array([0.1, 0.8, 0.1, 0.0]), 0.01)
    finest = Detail(0, whole, 1, whole.finer(1, 1024))
    # The last tenth of the interval has all rows but those of one value.
    true = np.zeros(finest.size)
    true[-(finest.size // 10) :] = 0.6 / (finest.size // 10)
    true[finest.size // 3] += 0.2
    ends = whole.parts(1, 10, 1024)[1:-1]
    guess = ReleasedColumn(column.partition.cut(np.sort(np.concatenate([whole.edges, ends]))),
                           np.concatenate([[0.1], [0.25, 0.25], np.full(8, 0.0375), [0.1, 0.0]]), 0.01)
    rng, shared, last = np.random.default_rng(3), [], []
    for _ in range(8):
        look = noisy(finest, true, 0.008, rng)
        assert guessed(column, look)
        found = with_details(column, whole, [look], finest.size, guess)
        assert found.mass.sum() == pytest.approx(1.0)
        shared.append(share(found, *finest.edges[[finest.size // 3, finest.size // 3 + 1]]))
        last.append(share(found, ends[-1], finest.edges[-1]))
        # Other intervals keep their rows.
        for i in (0, 2, 3):
            assert share(found, *whole.edges[i : i + 2]) == pytest.approx(column.mass[i])
    assert np.mean(shared) == pytest.approx(0.2, abs=0.006)
    assert np.mean(last) == pytest.approx(0.55, abs=0.05)


def test_details_of_other_intervals_keep_the_guess():
    whole = Partition((), 0, even_edges(LEVELS, 4), LEVELS)
    finest, few = Detail(0, whole, 1, whole.finer(1, 1024)), Detail(0, whole, 1, whole.parts(1, 4, 1024))

    def column(mass):
        return ReleasedColumn(whole, np.array([1.0 - mass, mass, 0.0, 0.0]), 0.01)

    def law(detail, law):
        return Measurement(detail, values=np.zeros(detail.size), noise=0.01, law=law)

    assert guessed(column(0.31), law(finest, "laplace"))
    assert not guessed(column(0.29), law(finest, "laplace"))
    assert guessed(column(0.29), law(few, "laplace"))
    for detail in (finest, few):
        assert not guessed(column(0.8), law(detail, "gaussian"))


@pytest.mark.parametrize("values", [1e300, -1e300, 0.0])
def test_no_noise_in_finest_parts_ends_a_release_that_is_paid(interval, values):
    column, detail = interval
    whole = column.partition
    finest = Detail(0, whole.cut(whole.edges), 1, whole.finer(1, 1024))
    for own in (np.full(finest.size, values), np.r_[values, np.zeros(finest.size - 1)]):
        for noise in (1e-12, 0.1, 1e300):
            looks = [Measurement(detail, values=np.full(8, 0.1), noise=noise, law="laplace"),
                     Measurement(finest, values=own, noise=noise, law="laplace")]
            found = with_details(column, whole, looks, finest.size + 8, column)
            assert np.isfinite(found.mass).all()
            assert found.mass.min() >= 0.0
            assert found.mass.sum() == pytest.approx(1.0)


def test_one_column_of_many_is_looked_at_closer_by_its_own_noise():
    """Nine in ten rows share one number: the noise of ten columns together would hide it."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"x": np.where(rng.random(2_000) < 0.9, 17.3, rng.uniform(0, 100, 2_000)),
                          **{f"y{i}": rng.random(2_000) for i in range(9)}})
    schema = tm.Schema([tm.Column("x", 0, 100), *(tm.Column(f"y{i}", 0, 1) for i in range(9))])
    release = tm.synthesize(table, schema, tm.Budget(3.0, 0.0), rng=np.random.default_rng(0))
    assert {each.query.column for each in release.release.closer} == {0}
    drawn = pd.DataFrame(release.sample(2_000, np.random.default_rng(1)))["x"]
    assert (drawn == 17.3).mean() == pytest.approx(0.9, abs=0.1)


def test_two_sizes_in_one_interval_leave_the_others_all_of_their_weight():
    """Half of the rows are in each of two intervals of the look: twice the noise would hide where they are."""
    design = narrow_design(epsilon=0.2)
    (column,) = spread_columns(design, (1,))[1:2]
    mass = np.zeros_like(column.mass)
    k = len(column.partition.indicators)
    mass[[k + 2, k + 3]] = 0.52, 0.48
    columns = spread_columns(design, ())
    columns[1] = ReleasedColumn(column.partition, mass, 0.001)
    asked, weight = closer_looks(design, columns, 1), design.closer_weight(1)
    assert [(each.query.interval, each.query.by_parts, each.weight / weight) for each in asked] == [
        (3, False, 1.0), (2, True, 0.5), (2, False, 0.5)]
    assert paid(design.closer, asked, design.n)


def test_finer_intervals_are_no_more_than_their_limit(monkeypatch):
    """Both sizes of the first columns count; what would be too much is not asked."""
    design = narrow_design(epsilon=0.2)
    columns = spread_columns(design, (1, 2))
    whole = closer_looks(design, columns, 1)
    assert [each.query.by_parts for each in whole] == [True, False] * 2
    sizes = [each.query.size for each in whole]
    for count in range(5):
        monkeypatch.setattr("trigmech.planning.closer.MOST_FINER", sum(sizes[:count]))
        asked = closer_looks(design, columns, 1)
        assert sum(each.query.size for each in asked) <= sum(sizes[:count])
        assert [each.query.size for each in asked][:count] == sizes[:count]
