"""The ends of a number: rows that hold a bound itself are seen, and noise makes no such rows."""

import numpy as np
import pandas as pd
import pytest
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.stats import laplace, norm

import trigmech as tm
from trigmech.functions.partition import END, Partition, even_edges, with_ends
from trigmech.functions.released_column import ReleasedColumn
from trigmech.queries.base import Measurement
from trigmech.queries.one_way import Histogram, HistogramWithEnds, PrefixSums, PrefixSumsWithEnds
from trigmech.reconstruction.columns import released_column
from trigmech.reconstruction.ends import (
    FURTHEST,
    LEAST_ATOM,
    LIKELY,
    PRIOR,
    SMALL,
    SPREAD,
    atom_probabilities,
    beside,
    hidden_atom_probabilities,
    ordinary_shares,
    put_back,
)

LEVELS = np.linspace(-1.0, 1.0, 501)


def partition_of(levels=None, k=1):
    return Partition(tuple(range(1, k + 1)), 0, with_ends(levels, even_edges(levels, 64)), levels)


@pytest.mark.parametrize("levels", [None, LEVELS])
def test_an_end_holds_a_bound_and_hardly_anything_else(levels):
    partition = partition_of(levels, 0)
    assert partition.intervals == 66
    if levels is None:
        np.testing.assert_array_equal(partition.edges[[1, -2]], [END - 1.0, 1.0 - END])
        held = np.array([-1.0, np.nextafter(END - 1.0, -1.0), END - 1.0, 1.0 - END, 1.0])
    else:
        held = levels[[0, 0, 1, -2, -1]]
        assert np.diff(np.searchsorted(levels, partition.edges))[[0, -1]].tolist() == [1, 0]
    codes = partition.codes(held[:, None])
    assert codes[0] == codes[1] == 0
    assert codes[2] == 1
    assert codes[-1] == 65
    assert codes[-2] == (65 if levels is None else 64)
    # All others are the even intervals.
    np.testing.assert_array_equal(partition.edges[2:-2], even_edges(levels, 64)[1:-1])
    # An end is not divided again.
    assert len(partition.finer(0, 1_024)) == len(partition.finer(65, 1_024)) == 2


def test_intervals_as_narrow_as_ends_stay_without_ends():
    assert with_ends(LEVELS, even_edges(LEVELS, len(LEVELS))) is None
    for few in ([0.0], [-1.0, 1.0], [-1.0, 0.0, 1.0]):
        assert with_ends(np.array(few), even_edges(np.array(few), 64)) is None
    assert with_ends(None, np.array([-1.0, -1.0 + END, 0.0, 1.0 - END, 1.0])) is None
    # If one of them is as narrow, the other bound has an end all the same.
    for edges in ([-1.0, -1.0 + END, 0.0, 1.0], [-1.0, 0.0, 1.0 - END, 1.0]):
        np.testing.assert_array_equal(with_ends(None, np.array(edges)), [-1.0, -1.0 + END, 0.0, 1.0 - END, 1.0])


@pytest.mark.parametrize("count", [2, 3, 16, 64])
def test_the_first_and_the_last_interval_are_one_level_for_every_number_of_levels(count):
    """With 17 to 31 levels in 16 intervals, the last interval was one level, and then the first two were one interval.
    """
    for size in range(3, 4 * count + 2):
        levels = np.linspace(-1.0, 1.0, size)
        even = even_edges(levels, count)
        edges = with_ends(levels, even)
        assert (edges is None) == (size <= count)
        edges = even if edges is None else edges
        held = np.diff(np.searchsorted(levels, edges[:-1]), append=size)
        assert held.min() >= 1
        assert held[0] == held[-1] == 1
        assert np.isin(even, edges).all()


@pytest.mark.nightly
@pytest.mark.parametrize(("levels", "epsilon", "delta"), [
    (17, 0.5, 0.0), (20, 0.5, 0.0), (31, 0.5, 0.0), (65, 0.3, 1e-6), (100, 0.3, 1e-6), (127, 0.3, 1e-6)])
@pytest.mark.parametrize("at_the_top", [False, True])
def test_many_rows_at_a_bound_stay_there_for_every_number_of_levels(levels, epsilon, delta, at_the_top):
    """Four of five have 0: half of them had 1 in the table, if levels are a few more than intervals."""
    rng = np.random.default_rng(0)
    days = np.where(rng.random(1_000) < 0.8, 0, np.minimum(1 + rng.geometric(4.0 / levels, 1_000), levels - 1))
    rows = pd.DataFrame({"days": levels - 1 - days if at_the_top else days, "age": rng.normal(50.0, 15.0, 1_000)})
    schema = tm.Schema([tm.Column("days", 0, levels - 1, "integer"), tm.Column("age", 0, 100)])
    for seed in range(3):
        made = tm.synthesize(rows, schema, tm.Budget(epsilon, delta), rng=np.random.default_rng(seed)).sample(
            1_000, np.random.default_rng(seed))
        share = np.mean(np.asarray(made["days"]) == (levels - 1 if at_the_top else 0))
        assert abs(share - (days == 0).mean()) < 0.15


NOISE = {True: lambda deviation: norm(scale=deviation), False: lambda deviation: laplace(scale=deviation / 2.0**0.5)}


@pytest.mark.daily(6)
@pytest.mark.parametrize("normal", [True, False])
@pytest.mark.parametrize("deviation", [0.003, 0.05, 0.4])
@pytest.mark.parametrize("share", [0.01, 0.2, 0.9, 1.0])
def test_the_probability_of_an_atom_is_that_of_bayes(share, deviation, normal):
    noise = NOISE[normal](deviation)
    even = quad(lambda held: noise.pdf(share - held), 0.0, 1.0, points=[share], limit=200)[0]
    with np.errstate(under="ignore"):
        nothing = noise.pdf(share)
    wanted = PRIOR * even / (PRIOR * even + (1.0 - PRIOR) * nothing)
    assert atom_probabilities(np.array([share, -share]), deviation, normal) == pytest.approx([wanted, 0.0], rel=1e-6)


@pytest.mark.parametrize(("normal", "seldom"), [(True, 2e-4), (False, 4e-4)])
def test_noise_alone_is_seldom_an_atom(normal, seldom):
    at = brentq(lambda share: atom_probabilities(np.array([share]), 0.02, normal)[0] - 0.5, 0.02, 0.2)
    assert NOISE[normal](0.02).sf(at) == pytest.approx(seldom, rel=0.3)


@pytest.mark.parametrize("normal", [True, False])
@pytest.mark.parametrize("deviation", [1e-300, 1e-16, 1.0, 1e59])
def test_hostile_shares_have_probabilities(deviation, normal):
    found = atom_probabilities(np.array([-1e300, -1.0, 0.0, 1e-300, 0.5, 1.0, 1e300]), deviation, normal)
    assert ((found >= 0.0) & (found <= 1.0)).all()
    assert (found[:3] == 0.0).all()


@pytest.mark.parametrize(("low", "high", "atoms"), [
    (0.4, 0.1, [True, True]), (0.4, 0.1, [True, False]), (0.4, 0.1, [False, True]), (0.0, 0.0, [False, False]),
    (0.9 * LEAST_ATOM, 1.1 * LEAST_ATOM, [True, True])])
def test_an_end_that_is_no_atom_joins_the_interval_beside_it(low, high, atoms):
    partition = partition_of()
    inner = beside(partition)
    mass = np.full(64, (0.9 - low - high) / 64.0)
    made = put_back(partition, ReleasedColumn(inner, np.concatenate([[0.1, low, high], mass]), 0.01), np.array(atoms))
    below, above = (own and held >= LEAST_ATOM for own, held in zip(atoms, (low, high), strict=True))
    wanted = [0.1, *([low] if below else []), *mass, *([high] if above else [])]
    wanted[1 + below] += 0.0 if below else low
    wanted[-1 - above] += 0.0 if above else high
    np.testing.assert_allclose(made.mass, wanted, rtol=1e-12)
    edges = even_edges(None, 64).tolist()
    np.testing.assert_array_equal(made.partition.edges, [
        -1.0, *([END - 1.0] if below else []), *edges[1:-1], *([1.0 - END] if above else []), 1.0])
    assert made.partition.indicators == (1,)


@pytest.mark.parametrize("kind", [PrefixSumsWithEnds, HistogramWithEnds])
@pytest.mark.parametrize("levels", [None, LEVELS])
@pytest.mark.parametrize("deviation", [1e-6, 1e-3, 0.02])
def test_shares_of_rows_at_both_bounds_are_released_as_measured(levels, deviation, kind):
    partition, rng = partition_of(levels), np.random.default_rng(1)
    inside = np.exp(-0.5 * ((np.arange(64) - 20.0) / 9.0) ** 2)
    truth = np.concatenate([[0.05, 0.6], 0.2 * inside / inside.sum(), [0.15]])
    query = kind(0, partition)
    noisy = (query.encode(truth) if kind.name.startswith("ranges") else truth) + deviation * rng.normal(size=len(truth))
    column = released_column(Measurement(query, 1.0, noisy, deviation))
    assert column.mass.sum() == pytest.approx(1.0)
    np.testing.assert_allclose(column.mass[[0, 1, -1]], [0.05, 0.6, 0.15], atol=4.0 * deviation)
    np.testing.assert_array_equal(column.partition.edges[[1, -2]], partition.edges[[1, -2]])


@pytest.mark.nightly
def test_a_column_without_rows_at_its_bounds_has_no_ends():
    partition, query = partition_of(), PrefixSumsWithEnds(0, partition_of())
    inside = np.exp(-0.5 * ((np.arange(64) - 20.0) / 9.0) ** 2)
    truth = np.concatenate([[0.05, 0.0], 0.95 * inside / inside.sum(), [0.0]])
    for seed in range(50):
        noisy = query.encode(truth) + 0.02 * np.random.default_rng(seed).normal(size=len(truth))
        column = released_column(Measurement(query, 1.0, noisy, 0.02))
        assert partition.edges[1] < column.partition.edges[1]
        assert column.partition.edges[-2] < partition.edges[-2]
        assert column.mass.sum() == pytest.approx(1.0)


@pytest.mark.nightly
@pytest.mark.parametrize("kind", [PrefixSumsWithEnds, HistogramWithEnds])
@pytest.mark.parametrize("deviation", [1e-4, 1e-3, 0.01])
@pytest.mark.parametrize("intervals", [16, 24, 40, 64])
def test_bounds_are_released_as_measured_with_any_number_of_levels(intervals, deviation, kind):
    """Before, 48 levels in 16 intervals ended a release after its charge: smooth parts of them are single levels."""
    rng, tried = np.random.default_rng(intervals), 0
    for count in [*range(intervals + 1, 3 * intervals + 4), 5 * intervals, 9 * intervals + 1]:
        levels = np.linspace(-1.0, 1.0, count)
        edges = with_ends(levels, even_edges(levels, intervals))
        if edges is None:
            continue
        query = kind(0, Partition((), 0, edges, levels))
        inside = rng.dirichlet(np.full(len(edges) - 3, 5.0))
        truth = np.concatenate([[0.35], 0.4 * inside, [0.25]])
        noisy = (query.encode(truth) if kind.name.startswith("ranges") else truth) + deviation * rng.laplace(
            scale=0.5**0.5, size=len(truth))
        column = released_column(Measurement(query, 1.0, noisy, deviation))
        assert column.mass.sum() == pytest.approx(1.0)
        np.testing.assert_allclose(column.mass[[0, -1]], [0.35, 0.25], atol=8.0 * deviation)
        np.testing.assert_array_equal(column.partition.edges[[1, -2]], edges[[1, -2]])
        tried += 1
    assert tried > intervals


@pytest.mark.parametrize("finer", [True, False])
@pytest.mark.parametrize("atoms", [[True, True], [True, False], [False, True], [False, False]])
def test_rows_counted_outside_of_an_end_stay_outside(atoms, finer):
    levels = np.linspace(-1.0, 1.0, 6)
    partition = Partition((), 0, with_ends(levels, np.array([-1.0, -0.4, 0.4, 1.0])), levels)
    inner = beside(partition)
    inner = inner.cut(np.array([-1.0, -0.8, 0.8, 1.0])) if finer else inner
    made = put_back(partition, ReleasedColumn(inner, np.array([0.3, 0.2, 0.1, 0.25, 0.15]), 0.01), np.array(atoms))
    # Single levels lie beyond -0.8 and 0.8. Where one is an atom, its rows are those that were counted there.
    low, high = atoms
    np.testing.assert_array_equal(made.partition.edges, [
        -1.0, *([-0.8] if low or finer else []), *([] if finer else [-0.4, 0.4]), *([0.8] if high or finer else []),
        1.0])
    wanted = np.array([0.1, 0.25, 0.15])
    if finer:
        wanted = np.array([0.0 if low else 0.1, 0.25 + 0.1 * low + 0.15 * high, 0.0 if high else 0.15])
        wanted += [0.3, 0.0, 0.2]
    else:
        wanted[[0, -1]] += [0.0 if low else 0.3, 0.0 if high else 0.2]
        wanted = np.array([*([0.3] if low else []), *wanted, *([0.2] if high else [])])
    np.testing.assert_allclose(made.mass, wanted, rtol=1e-12)


@pytest.mark.parametrize("kind", [PrefixSumsWithEnds, HistogramWithEnds])
@pytest.mark.parametrize("values", ["huge", "one", "negative", "zero"])
@pytest.mark.parametrize("deviation", [1e-16, 0.1, 1e20])
def test_hostile_noise_leaves_a_distribution(values, deviation, kind):
    query, rng = kind(0, partition_of()), np.random.default_rng(2)
    for k in (0, 1, 66):
        vector = {"huge": rng.choice([-1e300, 0.0, 1e300], 67), "one": 1e6 * np.eye(67)[k],
                  "negative": -rng.random(67), "zero": np.zeros(67)}[values]
        column = released_column(Measurement(query, 1.0, vector, deviation))
        assert (column.mass >= 0.0).all()
        assert column.mass.sum() == pytest.approx(1.0)


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-5), (5.0, 0.0)])
def test_a_column_that_is_0_in_most_rows_is_so_in_a_release_of_few_rows(epsilon, delta):
    rng = np.random.default_rng(0)
    gain = np.where(rng.random(300) < 0.8, 0.0, rng.lognormal(8.0, 1.0, 300)).clip(0.0, 100_000.0)
    # Values above 20 were cut there, in units that are no round numbers.
    table = pd.DataFrame({"gain": gain, "cut": rng.normal(19.0, 3.0, 300).clip(0.77, 20.13),
                          "days": np.where(rng.random(300) < 0.6, 0, rng.integers(0, 1_000, 300)),
                          "plain": rng.normal(0.0, 1.0, 300).clip(-4.0, 4.0)})
    schema = tm.Schema((tm.Column("gain", 0.0, 100_000.0), tm.Column("cut", 0.77, 20.13),
                        tm.Column("days", 0, 1_000, kind="integer"), tm.Column("plain", -4.0, 4.0)))
    made = tm.synthesize(table, schema, tm.Budget(epsilon, delta), rng=np.random.default_rng(1)).sample(
        300, rng=np.random.default_rng(2))
    for name, value in (("gain", 0.0), ("cut", 20.13), ("days", 0)):
        assert (made[name] == value).mean() == pytest.approx((table[name] == value).mean(), abs=0.12), name
    assert not made["plain"].abs().ge(4.0).any()


def test_an_end_without_rows_leaves_the_column_as_it_is_without_ends():
    noisy, rng = np.concatenate([[0.05], np.zeros(66)]), np.random.default_rng(3)
    noisy[2:-1] = PrefixSums(0, plain := partition_of().cut(even_edges(None, 64))).encode(
        np.concatenate([[0.0], np.full(64, 1.2 / 64.0)]))[1:] + 0.05 * rng.normal(size=64)
    noisy[[1, -1]] = -0.02
    found = released_column(Measurement(PrefixSumsWithEnds(0, partition_of()), 1.0, noisy, 0.05))
    wanted = released_column(Measurement(PrefixSums(0, plain), 1.0, np.delete(noisy, [1, 66]), 0.05))
    np.testing.assert_allclose(found.mass, wanted.mass, rtol=1e-12)
    np.testing.assert_array_equal(found.partition.edges, wanted.partition.edges)


def test_an_end_is_an_atom_by_the_law_of_its_noise():
    partition = partition_of(None, 0)
    inside = np.full(64, 1.0 / 64.0)
    # Between the limits of normal noise, about 3.6 deviations, and of Laplace's, about 5.
    for kind, atom in ((PrefixSumsWithEnds, True), (HistogramWithEnds, False)):
        query = kind(0, partition)
        truth = np.concatenate([[4.2 * 0.02], inside, [0.0]])
        column = released_column(Measurement(query, 1.0, query.encode(truth) if atom else truth, 0.02))
        assert (column.partition.edges[1] == partition.edges[1]) == atom


@pytest.mark.parametrize("deviation", [0.001, 0.02, 0.3])
def test_a_level_that_is_no_atom_has_its_posterior_mean(deviation):
    levels = np.linspace(-1.0, 1.0, 74)
    partition, ends = partition_of(levels, 0), np.array([0.06, -0.01])
    usual = 1.0 / 74
    for end, found in zip(ends, ordinary_shares(partition, ends, deviation), strict=True):
        def weight(share, end=end):
            return norm.pdf(share, usual, SPREAD * usual) * norm.pdf(end, share, deviation)

        around = sorted([usual, end])
        whole = [quad(f, -1.0, 1.0, points=around, limit=500)[0] for f in (weight, lambda x: x * weight(x))]
        assert found == pytest.approx(whole[1] / whole[0], rel=1e-4)
    np.testing.assert_array_equal(ordinary_shares(partition_of(None, 0), ends, deviation), [0.0, 0.0])


@pytest.mark.parametrize(("size", "near"), [(74, 0.01), (140, 0.02)])
def test_rows_at_a_bound_that_is_no_atom_are_not_lost(size, near):
    """A number that falls from its lower bound on lost rows there to everywhere else: .025 and .035 of all."""
    levels = np.linspace(-1.0, 1.0, size)
    query = PrefixSumsWithEnds(0, partition_of(levels, 0))
    shares = 0.94 ** np.arange(size)
    shares /= shares.sum()
    means = query.encode(np.bincount(query.partition.codes(levels[:, None]), shares, query.partition.size))
    rng, deviation, below = np.random.default_rng(0), 0.02, []
    for _ in range(60):
        found = released_column(Measurement(query, 1.0, means + rng.normal(0.0, deviation, len(means)), deviation))
        below.append(np.interp(levels[4], found.partition.edges, np.concatenate([[0.0], np.cumsum(found.mass)])))
    assert np.mean(below) == pytest.approx(shares[:4].sum() + 0.5 * shares[4], abs=near)


@pytest.mark.nightly
@pytest.mark.parametrize(("levels", "epsilon", "delta"), [
    (20, 0.3, 0.0), (29, 0.3, 0.0), (80, 0.1, 1e-6), (150, 0.1, 1e-6)])
def test_an_even_number_has_no_peak_where_intervals_would_become_narrower(levels, epsilon, delta):
    """Of 80 levels in 64 intervals the first 16 had two levels each: those after them had 1.8 times the rows."""
    places = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        rows = pd.DataFrame({"age": rng.integers(0, levels, 5_000), "size": rng.normal(50.0, 15.0, 5_000)})
        schema = tm.Schema([tm.Column("age", 0, levels - 1, "integer"), tm.Column("size", 0, 100)])
        made = tm.synthesize(rows, schema, tm.Budget(epsilon, delta), rng=rng)
        places.append(np.asarray(made.sample(20_000, np.random.default_rng(seed))["age"]))
    first = levels % (16 if delta == 0.0 else 64) * (2 if levels < 128 else 3)
    wide = levels // 20
    after, before = (np.isin(np.concatenate(places), np.arange(low, low + wide)).sum() for low in (first, first - wide))
    assert 0.8 < after / before < 1.25


@pytest.mark.parametrize(("levels", "delta", "kind", "intervals"), [
    (32, 1e-6, PrefixSums, 32), (33, 1e-6, PrefixSumsWithEnds, 33), (80, 1e-6, PrefixSumsWithEnds, 80),
    (150, 1e-6, PrefixSumsWithEnds, 77), (29, 0.0, Histogram, 29), (33, 0.0, HistogramWithEnds, 18)])
def test_which_numbers_have_ends_and_how_many_intervals(levels, delta, kind, intervals):
    schema = tm.Schema([tm.Column("days", 0, levels - 1, "integer"), tm.Column("size", 0, 100)])
    query = tm.design(1_000, schema, tm.Budget(1.0, delta)).measured.looks[0].query
    assert (type(query), query.partition.intervals) == (kind, intervals)


@pytest.mark.parametrize("normal", [True, False])
@pytest.mark.parametrize("deviation", [0.002, 0.01, 0.1])
@pytest.mark.parametrize("share", [-0.01, 0.0, 0.004, 0.03])
def test_the_probability_of_a_hidden_atom_is_that_of_the_integral(share, deviation, normal):
    law = NOISE[normal](deviation)
    with_atom = quad(lambda s: np.exp(-s / SMALL) / SMALL * law.pdf(share - s), 0.0, FURTHEST * SMALL,
                     points=[min(max(share, 0.0), FURTHEST * SMALL)], limit=400)[0]
    odds = LIKELY / (1.0 - LIKELY) * with_atom / law.pdf(share)
    found = hidden_atom_probabilities(np.array([share, share]), deviation, normal)
    assert found == pytest.approx([odds / (1.0 + odds)] * 2, rel=0.05)


@pytest.mark.parametrize("deviation", [1e-300, 1e-9, 0.01, 1e300])
@pytest.mark.parametrize("normal", [True, False])
def test_any_noise_gives_a_probability_of_a_hidden_atom(deviation, normal):
    found = hidden_atom_probabilities(np.array([-1e300, -1.0, 0.0, 1e-5, 0.5, 1e300]), deviation, normal)
    assert ((found >= 0.0) & (found <= 1.0)).all()
    assert (np.diff(found) >= -1e-12).all()
