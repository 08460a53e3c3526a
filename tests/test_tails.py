"""Tails of columns: falling or empty where their mass is not clear of noise, and as heavy as they are."""

import numpy as np
import pytest
from scipy.stats import norm

from trigmech.functions.partition import Partition
from trigmech.queries.base import Measurement
from trigmech.queries.one_way import PrefixSums
from trigmech.queries.signs import Signs
from trigmech.reconstruction import columns, tails
from trigmech.reconstruction.columns import distribution_of, released_column
from trigmech.reconstruction.tails import with_tails, without_tails

COUNT, ROWS = 512, 300_000
EDGES = np.linspace(-1.0, 1.0, COUNT + 1)


def without_smooth(patch):
    """Leave out the search for a smooth density where it is known to have no weight: it takes nearly all the time."""
    patch.setattr(columns, "_averaged", lambda *_: None)


def steps_and_tail(turned=False, spike=0):
    """Counts of a column whose body has steps, which no smooth density has, and whose tail is exponential."""
    places = np.arange(COUNT)
    body = np.where(places < 80, np.random.default_rng(5).lognormal(0.0, 1.5, COUNT), 0.0)
    tail = np.where(places >= 80, np.exp(-(places - 80) / 18.0), 0.0)
    counts = 0.985 * body / body.sum() + 0.015 * tail / tail.sum()
    counts *= ROWS
    counts[480] += spike
    return (counts[::-1] if turned else counts) / counts.sum()


def released(frequencies, deviation, seed):
    partition = Partition((), 0, EDGES)
    values = PrefixSums(0, partition).encode(frequencies) + deviation * np.random.default_rng(seed).normal(size=COUNT)
    return distribution_of(partition, values, deviation, True)


def spread(column):
    """The standard deviation of a column whose numbers lie evenly in their positions."""
    low, high = column.partition.edges[:-1], column.partition.edges[1:]
    mean = column.mass @ (low + high) / 2.0
    return np.sqrt(column.mass @ (low**2 + low * high + high**2) / 3.0 - mean**2)


def plain_spread(frequencies):
    low, high = EDGES[:-1], EDGES[1:]
    mean = frequencies @ (low + high) / 2.0
    return np.sqrt(frequencies @ (low**2 + low * high + high**2) / 3.0 - mean**2)


@pytest.mark.parametrize("turned", [pytest.param(False, marks=pytest.mark.nightly), True])
def test_standard_deviations_are_right_where_noise_was_mass_far_out(turned, monkeypatch):
    frequencies = steps_and_tail(turned)
    true, noise = plain_spread(frequencies), 150.0 / ROWS
    without_smooth(monkeypatch)
    found = np.array([spread(released(frequencies, noise, seed)) / true for seed in range(3)])
    monkeypatch.setattr(columns, "with_tails", lambda ends, each, *_: (ends, each))
    before = np.array([spread(released(frequencies, noise, seed)) / true for seed in range(3)])
    assert abs(found.mean() - 1.0) < 0.015
    assert np.abs(found - 1.0).mean() < 0.6 * np.abs(before - 1.0).mean()


@pytest.mark.nightly
def test_no_smooth_density_has_weight_beside_steps(monkeypatch):
    """The other tests of this table leave it out."""
    found = []
    own = columns._averaged
    monkeypatch.setattr(columns, "_averaged", lambda *given: found.append(own(*given)))
    released(steps_and_tail(), 150.0 / ROWS, 0)
    released(steps_and_tail(spike=1_200), 150.0 / ROWS, 0)
    assert found == [None, None]


@pytest.mark.nightly  # By day its deviation is right, above, and a heavy value stays.
@pytest.mark.parametrize("turned", [False, True])
def test_a_tail_falls_and_keeps_its_mass(turned, monkeypatch):
    without_smooth(monkeypatch)
    frequencies = steps_and_tail(turned)
    for seed in range(3):
        column = released(frequencies, 150.0 / ROWS, seed)
        density = column.mass / np.diff(column.partition.edges)
        if turned:
            density = density[::-1]
        assert column.mass.sum() == pytest.approx(1.0)
        # Behind the last place with 8 deviations of the noise outside.
        outside = np.cumsum((column.mass[::-1] if turned else column.mass)[::-1])[::-1]
        last = density[outside < 7.0 * 1.6 * 150.0 / ROWS]
        assert len(last) >= 4
        assert (np.diff(last) <= 1e-9).all()


def test_a_heavy_value_far_out_stays(monkeypatch):
    without_smooth(monkeypatch)
    noise = 150.0 / ROWS
    for seed in range(3):
        column = released(steps_and_tail(spike=1_200), noise, seed)
        inside = (column.partition.edges[:-1] >= EDGES[478]) & (column.partition.edges[1:] <= EDGES[484])
        assert column.mass[inside].sum() == pytest.approx(1_200 / ROWS, abs=4.0 * noise)


def test_what_is_clear_of_noise_is_left_as_it_is():
    # Little noise: the tail's own pieces are likelier than any falling density where it has a step.
    places = np.arange(COUNT)
    counts = np.where(places < 300, 1.0, np.where(places < 400, 0.001, 0.01))
    frequencies = counts / counts.sum()
    column = released(frequencies, 2e-5, 0)
    held = column.mass[(column.partition.edges[:-1] >= EDGES[400] - 1e-9)].sum()
    assert held == pytest.approx(frequencies[400:].sum(), abs=2e-4)
    below = column.mass[(column.partition.edges[1:] <= EDGES[400] + 1e-9)].sum()
    assert held + below == pytest.approx(1.0)


def test_the_average_over_tails_is_that_of_plain_loops():
    rng = np.random.default_rng(0)
    length, count = 20, 3
    pieces, spikes = rng.random(length), np.zeros(length)
    spikes[7] = pieces[7]
    factor = np.tril(rng.random((30, length)))
    residual = factor @ pieces + 0.3 * rng.normal(size=30)
    made = tails._averaged(pieces, spikes, residual, factor, 40)
    total, weight, least = np.zeros(length), 0.0, np.inf
    found = []
    for shape in tails.SHAPES:
        for scale in np.geomspace(0.5, length, tails.SCALES):
            left = np.array([np.exp(-t / scale) if shape == 0.0 else max(1.0 + shape * t / scale, 0.0) ** (-1.0 / shape)
                             for t in range(length + 1)])
            own = spikes + (pieces.sum() - spikes.sum()) * (left[:-1] - left[1:]) / (left[0] - left[-1])
            surprise = sum((residual[i] - factor[i] @ own) ** 2 for i in range(30))
            found.append((surprise, own))
            least = min(least, surprise)
    for surprise, own in found:
        total += np.exp(-0.5 * (surprise - least)) * own
        weight += np.exp(-0.5 * (surprise - least))
    np.testing.assert_allclose(made, total / weight)
    # Pieces are taken where they are likelier by more than their price.
    evidence = least - 2.0 * np.log(weight / len(found)) + tails.EVIDENCE
    by_pieces = ((residual - factor @ pieces) ** 2).sum()
    assert (tails._averaged(pieces, spikes, residual, factor, count) is None) == (
        evidence > by_pieces + tails.EVIDENCE * count)
    assert tails._averaged(pieces, spikes, residual, factor, 0) is None


def test_columns_without_a_tail_stay():
    each = np.full(16, 1.0 / 16.0)
    ends = np.arange(17)
    for noise in (1e-6, 1.0):
        same = with_tails(ends, each, each / noise, np.eye(16) / noise, np.eye(16) * noise)
        np.testing.assert_array_equal(same[0], ends)
        np.testing.assert_array_equal(same[1], each)


def bell(count, centre=-0.3, width=0.15):
    """The frequencies of a smooth column that is far from the ends of its range."""
    return np.diff(norm.cdf(np.linspace(-1.0, 1.0, count + 1), centre, width))


def spread_of_exponentials(edges, mass):
    """The log of the standard deviation over the mean of exp(9 x): logarithms in bounds of eight powers of ten."""
    values = np.exp(9.0 * np.linspace(edges[:-1], edges[1:], 9))
    mean = mass @ values.mean(axis=0)
    return np.log(np.sqrt(mass @ (values**2).mean(axis=0) - mean**2) / mean)


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("way", ["sums", "frequencies", "signs"])
def test_no_noise_is_left_far_out_in_a_smooth_density(way, turned):
    """The class: however a column was measured, and at both ends, numbers on a logarithmic scale keep their spread."""
    count, noise = (32, 0.02) if way == "signs" else (64, 0.004)
    true = bell(count)[::-1] if turned else bell(count)
    partition = Partition((), 0, np.linspace(-1.0, 1.0, count + 1))
    rng, found = np.random.default_rng(0), []
    for _ in range(8):
        if way == "signs":
            exact = np.sign(np.cos(np.pi * np.outer(np.arange(1, 13), (np.arange(count) + 0.5) / count))) @ true
            noisy = exact + noise * rng.normal(size=12)
            release = released_column(Measurement(Signs(0, partition, 12), values=noisy, noise=noise))
        else:
            values = PrefixSums(0, partition).encode(true) if way == "sums" else true
            release = distribution_of(partition, values + noise * rng.normal(size=count), noise, way == "sums")
        edges, mass = release.partition.edges, release.mass
        found.append(spread_of_exponentials(*((-edges[::-1], mass[::-1]) if turned else (edges, mass))))
    fine = np.linspace(-1.0, 1.0, 2_001)
    # With what noise leaves far out it is above 3.3. Counts have more noise there than prefix sums have.
    most = 1.0 if way == "frequencies" else 0.6
    assert np.mean(found) == pytest.approx(spread_of_exponentials(fine, bell(2_000)), abs=most)


def test_only_ends_that_noise_hides_are_empty():
    each = np.array([0.001, 0.001, 0.004, 0.5, 0.0, 0.491, 0.002, 0.001])
    # A quarter of a deviation is .0015: two intervals below together are above it, and so are the last two.
    np.testing.assert_array_equal(without_tails(each, 0.006) > 0.0, [False, True, True, True, False, True, True, False])
    # At most a part of the mass, however much noise there is.
    hidden = tails.LARGEST_HIDDEN
    assert 0.002 < hidden < 0.003
    np.testing.assert_array_equal(without_tails(each, 1e9) > 0.0, [False, False, True, True, False, True, True, False])
    for noise in (0.006, 1e9):
        made, kept = without_tails(each, noise), without_tails(each, noise) > 0.0
        assert made.sum() == pytest.approx(each.sum())
        np.testing.assert_allclose(made[kept] / made[3], each[kept] / each[3])
    # The part is one of all the mass, whatever the unit.
    np.testing.assert_allclose(without_tails(1e-6 * each, 1e9), 1e-6 * without_tails(each, 1e9))
    np.testing.assert_array_equal(without_tails(each, 0.0), each)
    np.testing.assert_array_equal(without_tails(np.zeros(3), 1.0), np.zeros(3))
