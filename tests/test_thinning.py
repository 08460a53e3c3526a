"""Samples of fewer rows than were fitted: a part of the fitted rows that is most like all of them."""

import itertools

import numpy as np
import pandas as pd
import pytest
from scipy.stats import rankdata

import trigmech as tm
from trigmech.distribution import Distribution
from trigmech.functions.partition import columns_of
from trigmech.reconstruction import mixing, thinning
from trigmech.reconstruction.mixing import FurtherRows
from trigmech.reconstruction.thinning import SCALES, STEPS, Thinning

SCHEMA = tm.Schema([
    tm.Column("a", 0, 10), tm.Column("b", 0, 10), tm.Column("pay", 0, 100, missing="keep", special=(0,)),
    tm.Column("g", kind="categorical", categories=("x", "y", "z")), tm.Column("k", 0, 5, "integer")])


def table(n=300, seed=0):
    rng = np.random.default_rng(seed)
    a = rng.normal(size=n)
    b = 0.9 * a + 0.4 * rng.normal(size=n)
    pay = np.where(rng.random(n) < 0.3, np.nan, np.where(rng.random(n) < 0.3, 0.0, rng.lognormal(2.0, 1.0, n)))
    return pd.DataFrame({
        "a": (5 + 2 * a).clip(0, 10), "b": (5 + 2 * b).clip(0, 10), "pay": np.clip(pay, 0, 100),
        "g": np.array(["x", "y", "z"])[np.digitize(b, [-1.0, 0.5])], "k": rng.binomial(5, 0.3, n)})


@pytest.fixture(scope="module")
def points():
    return SCHEMA.to_cube(table())


@pytest.fixture(scope="module")
def made():
    return tm.synthesize(table(), SCHEMA, tm.Budget(30.0, 1e-6), tm.TableMechanism(), np.random.default_rng(1))


def plain_kernel(points):
    """By its definition, pair of rows by pair of rows."""
    alike = []
    for column in columns_of(SCHEMA.domain):
        told = points[:, column.indicators]
        indicated = np.full(len(points), -1)
        if column.indicators:
            indicated[told.any(axis=1)] = told.argmax(axis=1)[told.any(axis=1)]
        own = (indicated[:, None] == indicated) & (indicated >= 0)[:, None]
        if column.value is not None:
            free = np.flatnonzero(indicated < 0)
            steps = np.floor(STEPS * (rankdata(points[free, column.value]) - 0.5) / len(free)) / STEPS
            own = own.astype(float)
            for (i, one), (j, other) in itertools.product(zip(free, steps, strict=True), repeat=2):
                own[i, j] = np.mean([max(0.0, 1.0 - abs(one - other) / scale) for scale in SCALES])
        alike.append(own.astype(float))
    return sum(alike) + sum(one * other for one, other in itertools.combinations(alike, 2))


def apart(kernel, chosen):
    """The squared discrepancy between some rows and all."""
    m = len(kernel)
    difference = np.bincount(chosen, minlength=m) / len(chosen) - 1.0 / m
    return float(difference @ kernel @ difference)


def test_the_kernel_is_the_one_of_the_definition(points):
    kernel = Thinning(SCHEMA.domain, points[:120])._kernel
    np.testing.assert_allclose(kernel, plain_kernel(points[:120]), rtol=1e-6)
    # A discrepancy is a distance only for a positive semidefinite kernel.
    assert np.linalg.eigvalsh(kernel.astype(float)).min() > -1e-4


@pytest.mark.daily("2", "119")
@pytest.mark.parametrize("size", [1, 2, 7, 60, 119])
def test_no_exchange_brings_the_chosen_rows_nearer(points, size):
    kernel = plain_kernel(points[:120])
    first = np.random.default_rng(size).permutation(120)[:size]
    chosen = Thinning(SCHEMA.domain, points[:120]).nearer(first)
    assert len(set(chosen.tolist())) == size
    best = apart(kernel, chosen)
    assert best <= apart(kernel, first)
    others = np.setdiff1d(np.arange(120), chosen)
    for k, other in itertools.product(range(size), others):
        assert apart(kernel, [*chosen[:k], other, *chosen[k + 1 :]]) >= best - thinning.LEAST / size


def test_given_rows_are_not_changed(points):
    first = np.arange(50)
    Thinning(SCHEMA.domain, points).nearer(first)
    np.testing.assert_array_equal(first, np.arange(50))


def errors(made, size, by, seeds=6):
    """Mean distances of columns and of pairs of cells from those of all fitted rows, and of correlations of ranks."""
    fitted = SCHEMA.decode(made.distribution.points)
    whole, found = pd.DataFrame(fitted), []
    cuts = {name: np.unique(np.nanquantile(whole[name], np.linspace(0, 1, 9)[1:-1])) for name in ("a", "b", "pay", "k")}

    def codes(rows):
        made = [pd.Categorical(rows.g, ["x", "y", "z"]).codes if name == "g" else
                np.where(rows[name].isna(), 9, np.searchsorted(cuts[name], rows[name].astype(float), side="right"))
                for name in SCHEMA.names]
        return np.column_stack(made)

    def tables(rows, k):
        own = codes(rows)
        return [np.histogramdd(own[:, held], [np.arange(-0.5, 10.5)] * k)[0] / len(own)
                for held in itertools.combinations(range(5), k)]

    for seed in range(seeds):
        rows = pd.DataFrame(SCHEMA.decode(by(size, np.random.default_rng(seed))))
        ranks = [each[["a", "b", "k"]].astype(float).corr("spearman").to_numpy() for each in (rows, whole)]
        found.append([*(np.mean([0.5 * np.abs(one - other).sum() for one, other in
                                 zip(tables(rows, k), tables(whole, k), strict=True)]) for k in (1, 2)),
                      np.abs(ranks[0] - ranks[1]).mean()])
    return np.mean(found, axis=0)


@pytest.mark.nightly
@pytest.mark.parametrize("size", [100, 300, 700])
def test_columns_pairs_and_ranks_are_nearer_to_all_than_those_of_a_random_part(made, size):
    further = FurtherRows(SCHEMA, made.release, made.distribution)
    near = errors(made, size, lambda count, rng: further.sample(count, rng))
    random = errors(made, size, lambda count, rng: made.distribution.sample(count, rng))
    assert (near < [0.3 * random[0], 0.7 * random[1], 0.6 * random[2]]).all()


def test_a_smaller_sample_is_made_of_different_fitted_rows_and_repeats_with_a_seed(made):
    further = FurtherRows(SCHEMA, made.release, made.distribution)
    rows = further.sample(300, np.random.default_rng(0))
    held = {row.tobytes() for row in made.distribution.points}
    assert len({row.tobytes() for row in rows} & held) == len({row.tobytes() for row in rows})
    again = FurtherRows(SCHEMA, made.release, made.distribution).sample(300, np.random.default_rng(0))
    np.testing.assert_array_equal(rows, again)
    assert (further.sample(300, np.random.default_rng(1)) != rows).any()
    # The order is random: its first half is like its second, and rows of a kind are not side by side.
    firsts = [further.sample(200, np.random.default_rng(seed))[:100, 0].mean() for seed in range(20)]
    lasts = [further.sample(200, np.random.default_rng(seed))[100:, 0].mean() for seed in range(20)]
    assert abs(np.mean(firsts) - np.mean(lasts)) < 0.1


@pytest.mark.nightly
def test_every_fitted_row_can_be_in_a_sample(made):
    """Over many seeds each row is chosen about as often as others: rows at the margin are not left out."""
    thinned, m, times = Thinning(SCHEMA.domain, made.distribution.points), len(made.distribution.points), 80
    counts = sum(np.bincount(thinned.nearer(np.random.default_rng(seed).permutation(m)[: m // 4]), minlength=m)
                 for seed in range(times))
    assert counts.sum() == times * (m // 4)
    assert (counts == 0).mean() < 0.02
    assert counts.max() < 0.8 * times


@pytest.mark.parametrize("size", [0, 1, 1_024, 1_500])
def test_other_samples_are_as_before(made, size, monkeypatch):
    def fail(*_):
        raise AssertionError

    monkeypatch.setattr(Thinning, "nearer", fail)
    assert len(made.distribution.points) == 1_024
    assert len(made.sample(size, np.random.default_rng(0))) == size
    with pytest.raises(AssertionError):
        made.sample(1_023, np.random.default_rng(0))


def test_many_points_points_of_unequal_weights_and_releases_of_means_are_drawn_at_random(made, monkeypatch):
    def drawn(further):
        np.testing.assert_array_equal(further.sample(90, np.random.default_rng(0)),
                                      further._fitted.sample(90, np.random.default_rng(0)))

    drawn(FurtherRows(SCHEMA, made.release, Distribution(made.distribution.points, np.arange(1.0, 1_025.0) / 524_800)))
    moments = tm.synthesize(table(), SCHEMA, tm.Budget(2.0, 1e-6), tm.MomentMechanism(), np.random.default_rng(1))
    drawn(FurtherRows(SCHEMA, moments.release, moments.distribution))
    monkeypatch.setattr(mixing, "MOST", 1_023)
    drawn(FurtherRows(SCHEMA, made.release, made.distribution))


@pytest.mark.daily("given1")
@pytest.mark.parametrize("given", [{"g": ["x", "y"]}, {"g": "z", "k": 4}])
def test_a_sample_with_given_values_is_like_all_rows_that_have_them(made, given):
    """Also where too few fitted rows have the values, and more are fitted."""
    rows = [made.sample(60, np.random.default_rng(seed), given=given)[["a", "b"]].astype(float) for seed in range(8)]
    means = np.array([each.mean() for each in rows])
    random = np.mean([each.std() for each in rows], axis=0) / np.sqrt(60)
    assert (means.std(axis=0) < 0.7 * random).all()


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_exchanged_rows_stay_different_though_one_twice_would_be_nearer(size):
    """All that is wanted is the first row; among different rows, none is nearer than it and those beside it."""
    place = np.array([0.0, 0.1, -0.2, 0.3, -0.4, 0.5])
    kernel = np.exp(-np.subtract.outer(place, place) ** 2)
    found = thinning.exchanged(kernel.astype(np.float32), kernel[:, 0].copy(), np.arange(6)[-size:].copy())

    def apart(rows):
        rows = list(rows)
        return kernel[np.ix_(rows, rows)].mean() - 2.0 * kernel[rows, 0].mean()

    assert len(set(found.tolist())) == size
    others = [[*np.delete(found, k), j] for k in range(size) for j in range(6) if j not in found]
    assert all(apart(found) <= apart(each) + 1e-5 for each in others)
    if size > 1:
        # The first row again and again would be nearer.
        assert apart([0] * size) < apart(found)
