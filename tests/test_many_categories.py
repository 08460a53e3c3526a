"""Frequencies of many categories: posterior means under a prior that all of them show."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import optimize

from trigmech.reconstruction.frequencies import EXACT, means_of_many, nearest_probabilities, shrunk_frequencies

NOISE = (1e-3, 0.01, 0.05, 0.3)


def slow(values, noise):
    """The same by loops: expectation and maximisation over sizes, then the posterior mean of each category."""
    k, missing = len(values), 1.0 - sum(values)
    values = [value + missing / k for value in values]
    sizes, size = [0.0], 0.2
    while size <= min(12.0, 1.0 / noise) * (1.0 + 1e-9):
        sizes, size = [*sizes, size], size * 1.15
    rare = [i for i in range(k) if values[i] <= 8.0 * noise]
    prior = before = [0.3, *[0.7 / (len(sizes) - 1)] * (len(sizes) - 1)]

    def posterior(i, tilt=0.0):
        own = [p * math.exp(tilt * size - 0.5 * (max(values[i] / noise, -8.0) - size) ** 2)
               for p, size in zip(prior, sizes, strict=True)]
        return [each / sum(own) for each in own]

    for _ in range(60):
        every = [posterior(i) for i in rare]
        prior = [(sum(own[a] for own in every) + 0.5 * before[a]) / (len(rare) + 0.5) for a in range(len(sizes))]

    def means(tilt):
        return [noise * sum(p * size for p, size in zip(posterior(i, tilt), sizes, strict=True)) if i in rare
                else values[i] + noise * tilt for i in range(k)]

    tilt = optimize.brentq(lambda tilt: sum(means(tilt)) - 1.0, -50.0, 50.0, xtol=1e-14)
    return means(tilt)


def uneven(k, rng):
    """Frequencies as real columns of many categories have them: one of them holds most rows."""
    found = np.exp(1.5 * rng.normal(size=k))
    found[0] = 9.0 * found[1:].sum()
    return found / found.sum()


@pytest.mark.parametrize("noise", NOISE)
@pytest.mark.parametrize("k", [9, 20])
def test_they_are_what_loops_give(k, noise):
    rng = np.random.default_rng(k)
    for _ in range(3):
        values = uneven(k, rng) + rng.normal(0.0, noise, k)
        assert_allclose(means_of_many(values, noise), slow(values.tolist(), noise), rtol=1e-9, atol=1e-12)
        assert np.array_equal(shrunk_frequencies(values, noise), means_of_many(values, noise))


@pytest.mark.parametrize(("noise", "most"), [(0.003, 0.93), (0.01, 0.85), (0.03, 0.8)])
def test_they_are_nearer_to_uneven_frequencies_than_the_nearest_probabilities_are(noise, most):
    rng, errors = np.random.default_rng(5), np.zeros((100, 2))
    for each in errors:
        truth = uneven(40, rng)
        values = truth + rng.normal(0.0, noise, 40)
        each[:] = [np.abs(found - truth).sum() for found in (means_of_many(values, noise),
                                                             nearest_probabilities(values))]
    mean, other = errors.mean(axis=0)
    assert mean < most * other


def test_even_frequencies_stay_nearly_even():
    rng = np.random.default_rng(6)
    values = np.full(40, 1.0 / 40.0) + rng.normal(0.0, 0.02, 40)
    assert np.abs(means_of_many(values, 0.02) - 1.0 / 40.0).sum() < 0.35 * np.abs(
        nearest_probabilities(values) - 1.0 / 40.0).sum()


@pytest.mark.parametrize("noise", NOISE)
def test_all_categories_have_rows_in_any_order(noise):
    rng = np.random.default_rng(7)
    values = uneven(15, rng) + rng.normal(0.0, noise, 15)
    made, order = means_of_many(values, noise), rng.permutation(15)
    assert made.min() > 0.0
    assert made.sum() == pytest.approx(1.0, abs=1e-12)
    assert_allclose(means_of_many(values[order], noise), made[order], rtol=1e-9)
    # A larger frequency never has a smaller probability.
    assert (np.diff(made[np.argsort(values)]) >= -1e-12).all()


def test_frequent_categories_stay_as_measured_and_rare_ones_take_what_is_missing():
    values = np.concatenate([[0.6, 0.3], np.full(10, 0.0102)])
    made = means_of_many(values, 1e-3)
    assert_allclose(made, values / values.sum(), rtol=0.03)
    # Measured without doubt, both keep their distance from each other.
    assert made[0] - made[1] == pytest.approx(0.3, abs=1e-12)


def test_few_categories_and_extreme_noise_have_the_nearest_probabilities_moved_towards_even_ones():
    rng = np.random.default_rng(8)
    values = uneven(8, rng) + rng.normal(0.0, 1e-4, 8)
    assert np.array_equal(shrunk_frequencies(values, 1e-4), nearest_probabilities(values))
    values = uneven(9, rng) + rng.normal(0.0, 1e-10, 9)
    assert np.array_equal(shrunk_frequencies(values, 1e-10), nearest_probabilities(values))
    assert_allclose(shrunk_frequencies(values, 0.5), 1.0 / 9.0, atol=0.2)
    assert np.ptp(shrunk_frequencies(values, 1e30)) < 1e-12


@pytest.mark.parametrize("noise", [EXACT, 1e-6, 0.1, 0.499])
@pytest.mark.parametrize("values", [np.full(9, 1e100), np.full(9, -1e100), np.array([1e100, -1e100, *[0.0] * 8]),
                                    np.zeros(12), np.array([1.0, *[0.0] * 9]), np.full(12, 1.0 / 12.0),
                                    np.linspace(-1e6, 1e6, 11)], ids=repr)
def test_any_noise_leaves_probabilities(values, noise):
    made = shrunk_frequencies(values, noise)
    assert (made >= 0.0).all()
    assert made.sum() == pytest.approx(1.0, abs=1e-9)
