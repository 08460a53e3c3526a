"""What is counted of columns, and what a noisy histogram or table is taken to be."""

import itertools
import math
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from releases import joint_counts
from scipy import integrate, interpolate, stats

import trigmech as tm
from trigmech.domain import Domain, OneHotGroup
from trigmech.errors import InputError
from trigmech.functions import prefix_sums
from trigmech.functions.partition import Partition, all_codes, columns_of, even_edges
from trigmech.measurement import counts
from trigmech.measurement import sums as sums_module
from trigmech.measurement.rows import PrivateRows
from trigmech.privacy.false_alarms import CLEAR
from trigmech.queries.base import Measurement
from trigmech.queries.one_way import Detail, PrefixSums
from trigmech.reconstruction import columns, pieces
from trigmech.reconstruction import divided as divided_module
from trigmech.reconstruction.columns import ReleasedColumn, distribution_of
from trigmech.reconstruction.dependence import shrunk_table
from trigmech.reconstruction.details import looked_closer
from trigmech.reconstruction.divided import divided
from trigmech.reconstruction.frequencies import nearest_probabilities, share_of_one, shrunk_frequencies
from trigmech.reconstruction.pieces import CORNER, LARGEST_PLACE, TAIL

# Counts

# A number, one with a special value, and a column of categories.
DOMAIN = Domain(6, [OneHotGroup((2,), False, 1), OneHotGroup((3, 4, 5), True)])


def rows_of(n, seed=0):
    rng = np.random.default_rng(seed)
    points = np.zeros((n, 6))
    points[:, :2] = rng.choice([-1.0, 1.0, -0.5, 0.25], (n, 2)) * rng.choice([1.0, 0.3], (n, 2))
    held = rng.random(n) < 0.3
    points[held, 1], points[held, 2] = 0.0, 1.0
    points[np.arange(n), rng.integers(3, 6, n)] = 1.0
    return points


def private(points, lengths=(), n=None):
    """Private rows that come in chunks of these lengths."""
    chunks = np.split(points, np.cumsum(lengths)) if len(lengths) else [points]
    return PrivateRows(len(points) if n is None else n, DOMAIN, lambda: iter(chunks))


@pytest.mark.parametrize("indicators", [(1, 2, 3), (1, 3, 4), (4, 2, 1)])
def test_a_row_has_one_position_whatever_it_holds(indicators):
    points = np.zeros((6, 5))
    points[:, 0] = [-1.0, 0.5, 0.0, 0.0, 1.0, 0.0]
    for row, place in ((2, 0), (3, 1), (5, 2)):
        points[row, indicators[place]] = 1.0
    beside, alone = Partition(indicators, 0, np.array([-1.0, 0.0, 1.0])), Partition(indicators, None, np.empty(0))
    assert beside.codes(points).tolist() == [3, 4, 0, 1, 4, 2]
    assert alone.codes(points).tolist() == [0, 0, 0, 1, 0, 2]
    # A row that breaks the domain counts in one cell of its own column, as all others do.
    points[:, indicators] = 1.0
    for partition in (beside, alone):
        assert set(partition.codes(points).tolist()) <= {0, 1, 2}
        assert partition.codes(points).dtype == np.int32


def partitions():
    return [column if column.value is None else column.cut(even_edges(None, 4 + 3 * i))
            for i, column in enumerate(columns_of(DOMAIN))]


def histograms(rows, parts):
    asked = counts.Histograms(tuple(parts))
    return asked.parted(rows.sums(asked))


CHUNKS = [(), (1, 0, 70), (50, 50, 50), (199,)]


@pytest.mark.parametrize("lengths", CHUNKS)
def test_histograms_count_the_rows_at_each_position(lengths):
    points = rows_of(200)
    found = histograms(private(points, lengths), partitions())
    for partition, count in zip(partitions(), found, strict=True):
        codes = partition.codes(points).tolist()
        assert count.tolist() == [codes.count(position) for position in range(partition.size)]
        assert count.sum() == 200


def asked(rng):
    """Tables of two and of three columns by random cells, scores, and pairs of columns."""
    columns = partitions()
    tables = [(own, [np.append(rng.integers(3, size=columns[j].size - 1), 2) for j in own])
              for own in ([0, 1], [2, 0], [1, 2, 0])]
    scores = [rng.integers(-2**15, 2**15, size=(column.size, 2)) for column in columns]
    return columns, tables, scores, np.array([[0, 1], [1, 2]])


def places(pairs, scores):
    """Where both factors of all products of two columns' scores are among all columns' scores."""
    q = scores[0].shape[1]
    return np.array([(i * q + a, j * q + b) for i, j in pairs for a in range(q) for b in range(q)])


@pytest.mark.parametrize("lengths", CHUNKS)
@pytest.mark.parametrize("at_a_time", [2**16, 7])
def test_joint_counts_are_those_of_pandas_whatever_the_chunks(lengths, at_a_time, monkeypatch):
    monkeypatch.setattr(counts, "pieces", partial(sums_module.pieces, most=at_a_time))
    points = rows_of(200)
    columns, tables, scores, pairs = asked(np.random.default_rng(1))
    found, sums = joint_counts(private(points, lengths), columns, tables, scores, places(pairs, scores))
    codes = all_codes(columns, points)
    for (own, maps), count in zip(tables, found, strict=True):
        cells = [pd.Categorical(cell[codes[:, j]], range(3)) for j, cell in zip(own, maps, strict=True)]
        expected = pd.crosstab(cells[0], cells[1:], dropna=False).to_numpy()
        np.testing.assert_array_equal(count, expected.reshape(count.shape))
    values = [score[codes[:, j]] for j, score in enumerate(scores)]
    np.testing.assert_array_equal(sums * 2.0**30, np.ravel([values[i].T @ values[j] for i, j in pairs]))


def test_nothing_is_counted_where_nothing_is_asked():
    tables, sums = joint_counts(private(rows_of(5)), partitions(), [], [], np.empty((0, 2), dtype=np.int64))
    assert (tables, sums.shape) == ([], (0,))


@pytest.mark.parametrize("n", [199, 201])
def test_another_number_of_rows_than_was_said_is_refused(n):
    with pytest.raises(InputError, match=f"the table had {n} rows before and now has 200"):
        histograms(private(rows_of(200), (120,), n), partitions())


WRONG = {"number beyond the cube": (0, 1.5), "number below the cube": (0, -1.0000001), "no number": (0, math.nan),
         "infinite": (0, math.inf), "indicator": (2, 0.5), "two categories": (slice(3, 6), [1.0, 1.0, 0.0]),
         "no category": (slice(3, 6), 0.0), "number beside its indicator": (slice(1, 3), [0.5, 1.0])}


@pytest.mark.parametrize("entry", WRONG.values(), ids=WRONG)
def test_rows_that_do_not_keep_to_their_domain_are_refused(entry):
    points = rows_of(200)
    points[150, entry[0]] = entry[1]
    with pytest.raises(InputError, match=r"must lie in the cube|must hold indicators"):
        histograms(private(points, (100,)), partitions())


@pytest.mark.parametrize("entry", WRONG.values(), ids=WRONG)
def test_a_row_that_changed_after_the_charge_is_in_one_cell_as_any_other(entry):
    points = rows_of(200)
    points[150, entry[0]] = entry[1]
    columns, tables, scores, pairs = asked(np.random.default_rng(1))
    found, _ = joint_counts(private(points), columns, tables, scores, places(pairs, scores))
    before, _ = joint_counts(private(rows_of(200)), columns, tables, scores, places(pairs, scores))
    for count, other in zip(found, before, strict=True):
        assert np.abs(count - other).sum() <= 2
        assert count.sum() == 200


# The distribution of a column

anything = st.one_of(st.floats(-2.0, 2.0), st.floats(allow_nan=False, allow_infinity=False),
                     st.sampled_from([0.0, 1e300, -1e300, 1.0]))


@st.composite
def noisy_columns(draw):
    """A partition, and whatever was measured."""
    k, c = draw(st.integers(0, 3)), draw(st.integers(0, 20))
    if k + c == 0:
        c = 1
    return (column_of(k, c), np.array(draw(st.lists(anything, min_size=k + c, max_size=k + c))),
            draw(st.floats(1e-12, 1e300)), draw(st.booleans()))


def column_of(k, c):
    return Partition(tuple(range(1, k + 1)), 0 if c else None, even_edges(None, c) if c else np.empty(0))


def check_distribution(column, k, looked):
    """Probabilities; edges that were measured, or equal parts where few were; no large position where more edges were.
    """
    partition, measured = column.partition, looked.edges
    if not set(partition.edges.tolist()) <= set(measured.tolist()):
        # A smooth density has parts of the measured intervals; pieces have not.
        measured = divided(looked).edges
    assert column.mass.shape == (partition.size,)
    assert (column.mass >= 0.0).all()
    assert column.mass.sum() == pytest.approx(1.0, abs=1e-9)
    assert len(partition.indicators) == k
    if partition.value is None:
        return
    assert set(partition.edges.tolist()) <= set(measured.tolist())
    # Cut between measured intervals alone, so one may have nearly twice as many of these as another.
    single = np.diff(np.searchsorted(measured, partition.edges)) == 1
    assert (single | (column.mass[k:] < 2.0 * LARGEST_PLACE)).all()
    ranks = column.ranks
    assert np.isnan(ranks[:k]).all()
    assert (np.diff(ranks[k:]) >= 0.0).all()
    assert ((ranks[k:] >= 0.0) & (ranks[k:] <= 1.0 + 1e-12)).all()


@settings(max_examples=75, deadline=None)
@given(noisy_columns())
@example((column_of(2, 4), np.zeros(6), 0.1, True))
@example((column_of(1, 4), np.full(5, -1e300), 1e300, True))
@example((column_of(3, 2), np.array([1e300, 1e300, 0.0, -1e300, 1e300]), 1e-12, False))
@example((column_of(2, 3), np.array([0.7, 0.7, 0.1, 0.1, 0.1]), 1e-12, False))
@example((column_of(3, 0), np.array([1e300, -1e300, 5e299]), 1.0, True))
def test_whatever_was_measured_a_distribution_is_made(measured):
    partition, values, deviation, cumulative = measured
    column = distribution_of(partition, values, deviation, cumulative)
    assert column.deviation == min(deviation, 1e100)
    check_distribution(column, len(partition.indicators), partition)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.floats(-3.0, 3.0), min_size=1, max_size=8), st.floats(0.1, 4.0))
def test_the_nearest_probabilities_are_the_values_less_one_threshold(values, total):
    values = np.array(values)
    low, high = values.min() - total, values.max()
    for _ in range(100):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if np.maximum(values - middle, 0.0).sum() > total else (low, middle)
    np.testing.assert_allclose(nearest_probabilities(values, total), np.maximum(values - low, 0.0), atol=1e-12)


@pytest.mark.parametrize("below", [lambda x: stats.beta(2, 5).cdf(0.5 * (x + 1.0)), lambda x: 0.5 * (
    stats.norm(-0.4, 0.15).cdf(x) + stats.norm(0.4, 0.2).cdf(x))], ids=["skewed", "two peaks"])
def test_rows_do_not_lie_evenly_in_wide_intervals_of_a_smooth_column(below, monkeypatch):
    partition, places = column_of(0, 16), np.linspace(-1.0, 1.0, 129)
    exact = below(places) / below(1.0)
    errors = {}
    for fine in (64, 1):
        monkeypatch.setattr(divided_module, "FINE", fine)
        for seed in range(5):
            noisy = np.diff(exact[::8]) + np.random.default_rng(seed).normal(0.0, 0.002, 16)
            column = distribution_of(partition, noisy, 0.002, False)
            found = np.interp(places, column.partition.edges, np.append(0.0, np.cumsum(column.mass)))
            errors.setdefault(fine, []).append(np.abs(found - exact).max())
    # Within intervals the function is about as exact as at their ends, where even rows have twice the error.
    assert np.mean(errors[64]) < 0.75 * np.mean(errors[1])


def test_a_heavy_interval_is_even_because_its_place_within_is_unknown():
    partition = column_of(0, 16)
    heavy = np.full(16, 0.03)
    heavy[5] = 0.55
    column = distribution_of(partition, heavy, 0.002, False)
    inside = (column.partition.edges >= partition.edges[5]) & (column.partition.edges <= partition.edges[6])
    density = column.mass[inside[1:] & inside[:-1]] / np.diff(column.partition.edges[inside])
    assert density.min() > 0.8 * density.max()


@pytest.mark.parametrize("k", [3, 5, 30])
def test_much_noise_moves_categories_towards_even_ones_and_little_noise_does_not(k):
    truth = np.arange(1.0, k + 1.0) / (k * (k + 1) / 2)
    rng = np.random.default_rng(k)
    for noise in (1e-12, 1e-4):
        values = truth + rng.normal(0.0, noise, k)
        np.testing.assert_allclose(shrunk_frequencies(values, noise), nearest_probabilities(values), rtol=1e-12)
    values = truth + rng.normal(0.0, 0.5, k)
    for noise in (0.01, 0.5, 1e30, 1e100):
        made = shrunk_frequencies(values, noise)
        assert (made >= 0.0).all()
        assert made.sum() == pytest.approx(1.0, abs=1e-12)
    np.testing.assert_allclose(shrunk_frequencies(values, 1e30), 1.0 / k, atol=1e-12)
    ways = (partial(shrunk_frequencies, noise=0.5), nearest_probabilities)
    errors = np.array([[np.abs(way(own) - truth).sum() for way in ways]
                       for own in truth + rng.normal(0.0, 0.5, (200, k))]).mean(axis=0)
    assert errors[0] < 0.85 * errors[1]
    # Where the frequencies are clearly uneven, noise of this size moves them little.
    heavy = np.full(k, 0.1 / max(k - 1, 1))
    heavy[0] = 0.9
    assert shrunk_frequencies(heavy, 0.02)[0] > 0.89


TWO = columns_of(tm.Schema([tm.Column("x", 0, 1, "integer")]).domain)[0]
TWO = TWO.cut(even_edges(TWO.levels, 2))
KIND = columns_of(tm.Schema([tm.Column("g", kind="categorical", categories=("a", "b"))]).domain)[0]


def posterior_share(measured, noise):
    """By adaptive integration over the angle, where the likelihood is not negligible."""
    best = min(max(measured, 0.0), 1.0)
    wide = 12.0 * noise if measured >= 0.0 else min(60.0 * noise**2 / -measured, 12.0 * noise)
    angles = 2.0 * np.arcsin(np.sqrt([max(best - 12.0 * noise, 0.0), min(best + wide, 1.0)]))

    def density(angle):
        share = np.sin(angle / 2.0) ** 2
        return np.exp(-0.5 * ((measured - share) / noise) ** 2 + 0.5 * ((measured - best) / noise) ** 2)

    whole = integrate.quad(density, *angles, limit=400)[0]
    return integrate.quad(lambda angle: density(angle) * np.sin(angle / 2.0) ** 2, *angles, limit=400)[0] / whole


@pytest.mark.parametrize("noise", [1e-3, 0.03, 0.5, 3.0])
def test_the_share_of_one_of_two_values_is_its_posterior_mean(noise):
    for measured in (-5.0, -0.3, -0.01, 0.0, 0.003, 0.1, 0.4, 0.5):
        share = share_of_one(measured, noise)
        assert share == pytest.approx(posterior_share(measured, noise), rel=1e-6)
        assert share_of_one(1.0 - measured, noise) == pytest.approx(1.0 - share, abs=1e-12)


def test_the_share_of_one_of_two_values_is_a_share_for_any_noise():
    for measured, noise in itertools.product([-1e100, -1e6, -1e-6, 0.0, 0.3, 1.0, 7.0, 1e100],
                                             [0.0, 1e-300, 1e-9, 1e-6, 1.0, 1e6, 1e100]):
        assert 0.0 <= share_of_one(measured, noise) <= 1.0
    assert share_of_one(0.3, 1e-6) == pytest.approx(0.3, abs=1e-9)
    assert share_of_one(0.3, 1e100) == pytest.approx(0.5)


@pytest.mark.parametrize(("truth", "noise"), [(0.01, 0.01), (0.03, 0.01), (0.02, 0.03), (0.3, 0.03)])
@pytest.mark.parametrize("partition", [TWO, KIND], ids=["number", "categories"])
def test_a_rare_value_of_two_is_not_lost(partition, truth, noise):
    rng, exact = np.random.default_rng(0), np.array([1.0 - truth, truth])
    number = partition.value is not None
    factor = prefix_sums.factor(2) if number else np.eye(2)
    shares = np.array([distribution_of(partition, factor @ exact + rng.normal(0.0, noise, 2), noise, number).mass[1]
                       for _ in range(300)])
    assert shares.min() > 0.0
    # Not further off than the nearest share; nearer if the value is rare.
    own = noise / np.linalg.norm(factor @ [-1.0, 1.0])
    nearest = np.clip(truth + rng.normal(0.0, own, 3_000), 0.0, 1.0)
    assert np.abs(shares - truth).mean() < 1.1 * np.abs(nearest - truth).mean()


def test_the_noise_of_a_share_is_that_of_the_measured_sums():
    """The share follows the best estimate from both sums and the known whole, with this estimate's own noise."""
    factor, exact = prefix_sums.factor(2), np.array([0.9, 0.1])
    inverse = np.linalg.inv(factor)
    # Frequencies with the sum 1: one number is free, so its variance by least squares is a quotient.
    free = factor @ np.array([-1.0, 1.0])
    for noise, seed in ((0.01, 0), (0.1, 1), (0.4, 2)):
        values = factor @ exact + np.random.default_rng(seed).normal(0.0, noise, 2)
        measured = float(free @ (values - factor @ np.array([1.0, 0.0])) / (free @ free))
        np.testing.assert_allclose(inverse @ factor, np.eye(2), atol=1e-12)
        share = share_of_one(measured, noise / np.linalg.norm(free))
        assert distribution_of(TWO, values, noise, True).mass[1] == pytest.approx(share, rel=1e-9)


def truth_of(kind, k, c):
    """The probabilities of a column with k special values: smooth, two lumps with nothing between, or with an atom."""
    x = (np.arange(c) + 0.5) / c
    mass = {"even": np.ones(c), "bell": np.exp(-0.5 * ((x - 0.4) / 0.08) ** 2),
            "lumps": np.where(np.abs(x - 0.5) > 0.35, 1.0, 0.0),
            "atom": np.where(np.arange(c) == c // 3, 0.5 * c, 1.0)}[kind]
    return np.concatenate([np.full(k, 0.1), (1.0 - 0.1 * k) * mass / mass.sum()])


def released(truth, k, deviation, cumulative, seed):
    c = len(truth) - k
    noise = np.random.default_rng(seed).normal(0.0, deviation, k + c) if deviation > 1e-9 else np.zeros(k + c)
    partition = column_of(k, c)
    values = PrefixSums(0, partition).encode(truth) if cumulative else truth
    column = distribution_of(partition, values + noise, deviation, cumulative)
    check_distribution(column, k, partition)
    return column, partition.edges


def cumulative_errors(column, edges, truth, k):
    """At the edges that were kept, and at all that were measured, how wrong the distribution function is."""
    exact = np.concatenate([[0.0], np.cumsum(truth[k:])])
    kept = np.concatenate([[0.0], np.cumsum(column.mass[k:])])
    at_kept = np.abs(kept - exact[np.searchsorted(edges, column.partition.edges)]).max()
    return at_kept, np.abs(np.interp(edges, column.partition.edges, kept) - exact).max()


KINDS = ["even", "bell", "lumps", "atom"]


@pytest.mark.daily(16)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("k", [0, 2])
@pytest.mark.parametrize("cumulative", [True, False])
def test_without_noise_the_distribution_function_is_exact_at_the_edges_that_are_kept(kind, k, cumulative):
    truth = truth_of(kind, k, 256)
    column, edges = released(truth, k, 1e-9, cumulative, 0)
    at_kept, at_all = cumulative_errors(column, edges, truth, k)
    # But for what is no larger than the noise, at the very ends.
    assert at_kept <= math.sqrt(TAIL) * 1e-9
    assert at_all <= (CORNER + math.sqrt(TAIL)) * 1e-9
    np.testing.assert_allclose(column.mass[:k], truth[:k], atol=1e-12)


@pytest.mark.nightly
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("k", [0, 2])
@pytest.mark.parametrize("cumulative", [True, False])
def test_the_distribution_function_is_as_accurate_as_the_noise_allows(kind, k, cumulative):
    c, deviation = 256, 1e-3 if cumulative else 1e-4
    truth = truth_of(kind, k, c)
    # A prefix sum errs by the factor times the noise, and less once the sum is corrected; six standard deviations.
    factor = prefix_sums.factor(c) if cumulative else np.tri(c)
    most = 6.0 * deviation * math.sqrt((factor[-1] ** 2).sum())
    for seed in range(5):
        at_kept, at_all = cumulative_errors(*released(truth, k, deviation, cumulative, seed), truth, k)
        # Isotonic regression is no further off than the noise, a chord than its ends, what it spans than the tolerance.
        assert at_kept <= most
        assert at_all <= 2.0 * most + CORNER * deviation


@pytest.mark.nightly
def test_most_noise_of_an_even_column_is_gone_and_no_atom_is_hidden():
    deviation, wrong = 2e-3, np.zeros(2)
    for seed in range(10):
        truth = truth_of("even", 0, 256)
        column, edges = released(truth, 0, deviation, True, seed)
        inside = np.interp(edges, column.partition.edges, np.concatenate([[0.0], np.cumsum(column.mass)]))
        noise = np.random.default_rng(seed).normal(0.0, deviation, 256)
        alone = nearest_probabilities(truth + prefix_sums.inverse(256) @ noise)
        wrong += np.abs(np.diff(inside) - truth).sum(), np.abs(alone - truth).sum()
        truth = truth_of("atom", 0, 256)
        column, edges = released(truth, 0, deviation, True, seed)
        position = column.partition.edges.tolist().index(edges[256 // 3])
        assert column.partition.edges[position + 1] == edges[256 // 3 + 1]
        # Between two prefix sums, of which each errs by the factor times the noise.
        assert column.mass[position] == pytest.approx(truth[256 // 3], abs=6.0 * deviation * math.sqrt(1.5))
    assert wrong[0] < 0.4 * wrong[1]


def test_pieces_that_fit_exactly_stay_even_and_a_smooth_density_becomes_smooth():
    ends, masses = np.array([0, 4, 8, 16]), np.array([0.6, 0.1, 0.3])
    even = np.repeat(masses / np.diff(ends), np.diff(ends))
    np.testing.assert_array_equal(pieces._smoothed(ends, masses, even, np.eye(16)), even)
    below = interpolate.PchipInterpolator(ends, np.concatenate([[0.0], np.cumsum(masses)]))
    smooth = np.diff(below(np.arange(17)))
    assert np.abs(smooth - even).max() > 0.01
    np.testing.assert_allclose(pieces._smoothed(ends, masses, smooth, np.eye(16)), smooth, rtol=0, atol=1e-15)


@pytest.mark.nightly  # By day what fits is decided exactly, above.
@pytest.mark.parametrize(("kind", "most"), [("bell", 0.95), ("lumps", 1.02), ("atom", 1.02)])
@pytest.mark.parametrize("deviation", [3e-3, 1e-2])
def test_a_smooth_density_is_closer_than_its_pieces_and_steps_stay(kind, most, deviation, monkeypatch):
    truth, errors = truth_of(kind, 0, 64), []
    for smoothed in (True, False):
        if not smoothed:
            monkeypatch.setattr("trigmech.reconstruction.columns._averaged", lambda *_: None)
            monkeypatch.setattr("trigmech.reconstruction.pieces._smoothed", lambda ends, masses, *_: np.repeat(
                masses / np.diff(ends), np.diff(ends)))
        found = []
        for seed in range(40):
            column, edges = released(truth, 0, deviation, True, seed)
            inside = np.interp(edges, column.partition.edges, np.concatenate([[0.0], np.cumsum(column.mass)]))
            found.append(np.abs(inside - np.concatenate([[0.0], np.cumsum(truth)])).mean())
        errors.append(np.mean(found))
    assert errors[0] < most * errors[1]


@pytest.mark.parametrize("seed", range(6))
def test_corners_are_added_until_no_value_is_further_than_the_tolerance_from_its_chord(seed):
    rng = np.random.default_rng(seed)
    values = np.cumsum(rng.exponential(size=60) ** 3)
    tolerance = float(rng.uniform(0.02, 0.3)) * values[-1]
    ends = pieces._with_corners(values, np.array([0, 20, 59]), tolerance)
    chords = np.interp(np.arange(60), ends, values[ends])
    assert np.abs(values - chords).max() <= tolerance * (1.0 + 1e-12)
    assert {0, 20, 59} <= set(ends.tolist())

    def wanted(start, stop):
        """The corners of a chord: the furthest value of all, and those of both its parts."""
        far = [abs(values[i] - values[start] - (values[stop] - values[start]) * (i - start) / (stop - start))
               for i in range(start, stop + 1)]
        corner = start + int(np.argmax(far))
        return [] if max(far) <= tolerance else [*wanted(start, corner), corner, *wanted(corner, stop)]

    assert ends.tolist() == [0, *wanted(0, 20), 20, *wanted(20, 59), 59]
    # Also a value beside the end of its chord.
    step = np.array([0.0, 1.0, 1.0, 1.0, 1.0])
    assert pieces._with_corners(step, np.array([0, 4]), 0.1).tolist() == [0, 1, 4]
    assert pieces._with_corners(1.0 - step[::-1], np.array([0, 4]), 0.1).tolist() == [0, 3, 4]


@pytest.mark.parametrize(("deviation", "noise"), [(0.01, 0.01), (0.03, 0.03), (0.2, 0.03)])
def test_ends_of_a_distribution_function_lose_what_three_squares_of_the_noise_are_of_theirs(deviation, noise):
    below, rest = np.array([-0.01, 0.0, 0.5 * noise, noise, 1.5 * noise, 2.0 * noise, 0.1, 0.3, 0.449]), 0.9
    found = pieces._without_noise_in_tails(below, rest, deviation)
    for value, made in zip(below.tolist(), found.tolist(), strict=True):
        kept = max(0.0, 1.0 - 3.0 * (noise / value) ** 2) if value > noise else 0.0
        assert made == pytest.approx(value * kept, abs=1e-15)
    # From above as from below.
    np.testing.assert_allclose(pieces._without_noise_in_tails(rest - below, rest, deviation), rest - found, atol=1e-15)


def test_a_piece_is_smooth_where_that_is_nearer_to_what_was_measured():
    rng, ends, factor, gains = np.random.default_rng(0), np.array([0, 3, 4, 9, 20]), prefix_sums.factor(20), []
    for _ in range(60):
        masses = rng.dirichlet(np.ones(4))
        frequencies = np.repeat(masses / np.diff(ends), np.diff(ends)) + rng.normal(0.0, 0.02, 20)
        below = interpolate.PchipInterpolator(ends, np.concatenate([[0.0], np.cumsum(masses)]))(np.arange(21))
        smooth, expected = np.maximum(np.diff(below), 0.0), np.repeat(masses / np.diff(ends), np.diff(ends))
        # One piece after the other, the heaviest first, by how far all is then from what was measured.
        for p in sorted(range(4), key=lambda p, masses=masses: -masses[p]):
            tried = expected.copy()
            tried[ends[p] : ends[p + 1]] = smooth[ends[p] : ends[p + 1]]
            even, other = (((factor @ (frequencies - each)) ** 2).sum() for each in (expected, tried))
            change = float(((factor @ (tried - expected)) ** 2).sum())
            gains += [(even - other) / change] if change > 1e-12 else []
            expected = tried if other < even else expected
        np.testing.assert_allclose(pieces._smoothed(ends, masses, frequencies, factor), expected, atol=1e-12)
    # Also where it is a close call, either way.
    assert sum(0.0 < gain < 0.5 for gain in gains) > 5
    assert sum(-0.5 < gain < 0.0 for gain in gains) > 5


@pytest.mark.parametrize("cumulative", [True, False])
def test_what_is_too_much_or_little_is_taken_off_by_the_covariance_of_the_noise(cumulative, monkeypatch):
    rng, k, c, deviation, seen = np.random.default_rng(0), 2, 16, 0.01, []
    partition = Partition((1, 2), 0, even_edges(None, c))
    values = PrefixSums(0, partition).encode(rng.dirichlet(np.ones(k + c))) if cumulative else rng.dirichlet(
        np.ones(k + c))
    values = values + rng.normal(0.0, deviation, k + c)
    monkeypatch.setattr(pieces, "_with_corners", lambda below, ends, tolerance: seen.append(below) or ends)
    columns.distribution_of(partition, values, deviation, cumulative)
    # Generalised least squares: of all frequencies of sum 1 those that the noise makes likeliest.
    measuring = np.eye(k + c)
    if cumulative:
        measuring[k:, k:] = prefix_sums.factor(c)
    nearest = np.linalg.inv(measuring) @ values
    covariance = np.linalg.inv(measuring.T @ measuring)
    ones = np.ones(k + c)
    expected = nearest + covariance @ ones * (1.0 - nearest.sum()) / (ones @ covariance @ ones)
    np.testing.assert_allclose(np.diff(seen[0]), expected[k:], atol=1e-12)


# A closer look

FINER = 128


def coarse(k=1, mass=(0.1, 0.2, 0.3, 0.4)):
    return ReleasedColumn(column_of(k, len(mass) - k), np.array(mass), 1e-3)


def look(column, interval, values, deviation):
    """The column after a closer look, which leaves all other positions as they were; and where it was looked."""
    k = len(column.partition.indicators)
    low, high = column.partition.edges[interval : interval + 2]
    finer = np.linspace(low, high, len(values) + 1)
    query = Detail(0, column.partition, interval, finer)
    found = looked_closer(column, Measurement(query, 0.5, values, deviation / 2.0), len(values))
    inside = np.flatnonzero((found.partition.edges[:-1] >= low) & (found.partition.edges[:-1] < high)) + k
    edges = found.partition.edges[inside[0] - k : inside[-1] - k + 2]
    assert (edges[0], edges[-1]) == (low, high)
    assert set(edges.tolist()) <= set(finer.tolist())
    np.testing.assert_array_equal(np.delete(found.mass, inside), np.delete(column.mass, k + interval))
    assert found.mass.shape == (found.partition.size,)
    assert (found.mass >= 0.0).all()
    assert found.mass[inside].sum() == pytest.approx(column.mass[k + interval], abs=1e-12)
    return found.mass[inside], edges, finer


@pytest.mark.parametrize("interval", [0, 1, 2])
@pytest.mark.parametrize("seed", range(5))
def test_a_closer_look_finds_an_atom_and_leaves_the_rest_even(interval, seed):
    # The atom is far above the noise, and the rest below it.
    column, deviation = coarse(), 2e-3
    mass = float(column.mass[1 + interval])
    values = np.full(FINER, 0.1 * mass / FINER)
    values[40] += 0.9 * mass
    values += np.random.default_rng(seed).normal(0.0, deviation, FINER)
    masses, edges, finer = look(column, interval, values, deviation)
    position = edges.tolist().index(finer[40])
    assert edges[position + 1] == finer[41]
    assert masses[position] == pytest.approx(0.9 * mass, abs=6.0 * deviation)
    density = np.delete(masses / np.diff(edges), position)
    np.testing.assert_allclose(density, density.mean(), rtol=1e-9)


@pytest.mark.parametrize("seed", range(20))
def test_a_closer_look_leaves_an_even_interval_even(seed):
    # The noise of all finer intervals together: too much for any piece to be clear.
    deviation = 0.3 / (CLEAR * math.sqrt(FINER))
    values = 0.3 / FINER + np.random.default_rng(seed).normal(0.0, 1.01 * deviation, FINER)
    masses, edges, _ = look(coarse(), 1, values, 1.5 * deviation)
    np.testing.assert_allclose(masses / np.diff(edges), 0.3 * 3.0 / 2.0, rtol=1e-12)


@settings(max_examples=40, deadline=None)
@given(st.lists(anything, min_size=2, max_size=20), st.floats(1e-12, 1e300), st.integers(0, 2),
       st.sampled_from([(0.1, 0.2, 0.3, 0.4), (0.5, 0.5, 0.0, 0.0), (1.0, 0.0, 0.0, 0.0)]))
@example([0.0, 0.0], 1.0, 1, (1.0, 0.0, 0.0, 0.0))
@example([1e300, -1e300, 1e300], 1e-12, 2, (0.1, 0.2, 0.3, 0.4))
def test_whatever_a_closer_look_sees_it_moves_no_mass_into_or_out_of_its_interval(values, deviation, interval, mass):
    look(coarse(mass=mass), interval, np.array(values), deviation)


def test_a_closer_look_at_levels_divides_between_them():
    levels = np.linspace(-1.0, 1.0, 9)
    partition = Partition((), 0, even_edges(levels, 2), levels)
    column = ReleasedColumn(partition, np.array([0.8, 0.2]), 1e-6)
    finer = np.concatenate([[-1.0], 0.5 * (levels[1:5] + levels[:4]), partition.edges[1:2]])
    look = Measurement(Detail(0, partition, 0, finer), 1.0, np.array([0.1, 0.5, 0.05, 0.05, 0.1]), 1e-6)
    found = looked_closer(column, look, 5)
    np.testing.assert_array_equal(found.partition.edges, [*finer, 1.0])
    np.testing.assert_allclose(found.mass, [0.1, 0.5, 0.05, 0.05, 0.1, 0.2], atol=1e-12)
    assert replace(found, mass=column.mass).partition.levels is levels


# The dependence of two columns


def singular_value_shrunk(y, ratio):
    """Gavish and Donoho's by the singular value x without noise, and the angles between noisy and true vectors."""
    # y^2 = (x + 1/x) (x + ratio/x)
    square = 0.5 * (y**2 - 1 - ratio + math.sqrt((y**2 - 1 - ratio) ** 2 - 4 * ratio))
    left = (square**2 - ratio) / (square**2 + ratio * square)
    right = (square**2 - ratio) / (square**2 + square)
    return math.sqrt(square * left * right)


SHAPES = [(1, 1), (1, 6), (6, 1), (2, 2), (3, 9), (12, 5), (20, 20)]


def centred(table):
    return table - table.mean(axis=0) - table.mean(axis=1)[:, None] + table.mean()


@pytest.mark.parametrize("shape", SHAPES)
def test_without_noise_a_table_is_left_as_it_is(shape):
    table = centred(np.random.default_rng(0).normal(size=shape))
    np.testing.assert_array_equal(shrunk_table(table, 0.0), table)
    np.testing.assert_allclose(shrunk_table(table, 1e-9), table, atol=1e-8)


@pytest.mark.parametrize("shape", [*SHAPES, (0, 3), (3, 0)])
def test_a_table_of_nothing_stays_one(shape):
    np.testing.assert_array_equal(shrunk_table(np.zeros(shape), 0.1), np.zeros(shape))


@pytest.mark.parametrize("shape", [(6, 6), (3, 9), (12, 5), (20, 20)])
def test_nearly_nothing_is_left_of_noise_alone(shape):
    rng = np.random.default_rng(1)
    left, before = 0.0, 0.0
    for _ in range(100):
        noise = centred(rng.normal(0.0, 0.01, shape))
        left, before = left + (shrunk_table(noise, 0.01) ** 2).sum(), before + (noise**2).sum()
    assert left < 0.05 * before


@pytest.mark.daily(4)
@pytest.mark.parametrize("shape", [(3, 3), (3, 9), (12, 5), (20, 20)])
@pytest.mark.parametrize("strength", [0.0, 1.0, 2.0, 4.0, 10.0])
def test_a_table_of_rank_one_is_nearer_than_the_noisy_one(shape, strength):
    rng = np.random.default_rng(2)
    errors = np.zeros(2)
    for _ in range(100):
        vectors = [rng.normal(size=size) for size in shape]
        u, v = ((vector - vector.mean()) / np.linalg.norm(vector - vector.mean()) for vector in vectors)
        truth = strength * 0.01 * math.sqrt(max(shape) - 1) * np.outer(u, v)
        noisy = truth + centred(rng.normal(0.0, 0.01, shape))
        errors += ((noisy - truth) ** 2).sum(), ((shrunk_table(noisy, 0.01) - truth) ** 2).sum()
    assert errors[1] < errors[0]
    if min(shape) > 4:
        assert errors[1] < 0.6 * errors[0]


@settings(max_examples=50, deadline=None)
@given(st.integers(2, 8), st.integers(2, 8), st.integers(0, 1000), st.floats(0.01, 2.0))
def test_a_table_is_shrunk_along_its_singular_vectors(a, b, seed, noise):
    table = centred(np.random.default_rng(seed).normal(size=(a, b)))
    found = shrunk_table(table, noise)
    left, values, right = np.linalg.svd(table, full_matrices=False)
    # The last is 0, as rows and columns sum to 0.
    left, values, right = left[:, : min(a, b) - 1], values[: min(a, b) - 1], right[: min(a, b) - 1]
    kept = np.diag(left.T @ found @ right.T)
    np.testing.assert_allclose(found, left * kept @ right, atol=1e-10)
    assert (kept >= -1e-10).all()
    assert (kept <= values + 1e-10).all()
    unit, ratio = noise * math.sqrt(max(a, b) - 1), (min(a, b) - 1) / (max(a, b) - 1)
    above = values / unit > 1.0 + math.sqrt(ratio)
    expected = [unit * singular_value_shrunk(value / unit, ratio) for value in values[above]]
    np.testing.assert_allclose(kept[above], expected, rtol=1e-6, atol=1e-6)
    # What lies below is shrunk together, by the squares that noise would have.
    below = float((values[~above] ** 2).sum())
    part = max(0.0, 1.0 - unit**2 * (~above).sum() / below) if below > 0.0 else 0.0
    np.testing.assert_allclose(kept[~above], part * values[~above], atol=1e-9)


@pytest.mark.nightly
def test_tails_that_are_noise_do_not_widen_a_column_and_others_stay():
    # All rows lie in the middle tenth of the range; of another column a twentieth lies in each far end.
    rng, wide, partition = np.random.default_rng(0), [], Partition((), 0, even_edges(None, 128), None)
    centres = partition.centres
    for mass, least, most in ((np.abs(centres) < 0.1, 0.0, 0.085), ((np.abs(centres) > 0.9) + 8.0 * (
            np.abs(centres) < 0.1), 0.27, 0.34)):
        exact = mass / mass.sum()
        found = [distribution_of(partition, PrefixSums(0, partition).encode(exact) + 0.01 * rng.normal(size=128), 0.01,
                                 True) for _ in range(40)]
        spread = [np.sqrt(column.mass @ (column.partition.centres - column.mass @ column.partition.centres) ** 2)
                  for column in found]
        wide.append(np.median(spread))
        assert least < wide[-1] < most, wide


@pytest.mark.nightly
def test_where_all_is_noise_a_column_is_seldom_gathered_in_its_middle():
    rng, partition, spread = np.random.default_rng(1), Partition((), 0, even_edges(None, 64), None), []
    for _ in range(60):
        noisy = PrefixSums(0, partition).encode(np.full(64, 1.0 / 64.0)) + 0.35 * rng.normal(size=64)
        column = distribution_of(partition, noisy, 0.35, True)
        away = column.partition.centres - column.mass @ column.partition.centres
        spread.append(np.sqrt(column.mass @ away**2))
    # An even distribution has .58.
    assert np.percentile(spread, 10) > 0.25


def test_ranks_and_normal_scores_of_positions_leave_out_what_is_no_number():
    number, category = columns_of(Domain(5, [OneHotGroup((1, 2), False, 0), OneHotGroup((3, 4), True)]))
    mass = np.array([0.1, 0.3, 0.05, 0.15, 0.0, 0.4])
    column = ReleasedColumn(number.cut(np.linspace(-1.0, 1.0, 5)), mass, 0.1)
    numbers = mass[2:] / mass[2:].sum()
    middles = [numbers[:i].sum() + numbers[i] / 2.0 for i in range(4)]
    np.testing.assert_allclose(column.ranks, [np.nan, np.nan, *middles], rtol=1e-12)
    below = np.cumsum(numbers)[:-1]
    np.testing.assert_allclose(column.normal_ends, stats.norm.ppf(below), rtol=1e-12)
    ends = [-np.inf, *stats.norm.ppf(below), np.inf]
    # The mean of a normal variable between two ends; 0 where nothing lies.
    scores = [integrate.quad(lambda z: z * stats.norm.pdf(z), a, b)[0] / share if share else 0.0
              for a, b, share in zip(ends[:-1], ends[1:], numbers, strict=True)]
    np.testing.assert_allclose(column.normal_scores, [0.0, 0.0, *scores], atol=1e-7)
    # Each category has a rank and a score of its own, in the order of the categories.
    column = ReleasedColumn(category, np.array([0.2, 0.8]), 0.1)
    np.testing.assert_allclose(column.ranks, [0.1, 0.6], rtol=1e-12)
    np.testing.assert_allclose(column.normal_ends, stats.norm.ppf([0.2]), rtol=1e-12)
    peak = stats.norm.pdf(stats.norm.ppf(0.2))
    np.testing.assert_allclose(column.normal_scores, [-peak / 0.2, peak / 0.8], rtol=1e-9)
