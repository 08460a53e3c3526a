"""Frequencies of many categories: posterior means under a prior that all of them show."""

import math

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy import optimize

import trigmech as tm
from trigmech.evaluation.features import OF_MANY, causes_of
from trigmech.evaluation.sides import Coding
from trigmech.reconstruction.columns import expected_error
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
    of_prior = sum(math.log(sum(p * math.exp(-0.5 * (max(values[i] / noise, -8.0) - size) ** 2)
                                for p, size in zip(prior, sizes, strict=True))) for i in rare)
    of_even = sum(-0.5 * (max(value / noise, -8.0) - 1.0 / (k * noise)) ** 2 for value in values)
    weight = 1.0 / (1.0 + math.exp(of_prior - of_even)) if of_prior - of_even < 700.0 else 0.0
    found = [weight / k + (1.0 - weight) * mean for mean in means(tilt)]
    off = [sum(p * abs(noise * size - found[i]) for p, size in zip(posterior(i, tilt), sizes, strict=True))
           if i in rare else math.sqrt(2.0 / math.pi) * noise for i in range(k)]
    return found, 0.5 * ((1.0 - weight) * sum(off) + weight * sum(abs(1.0 / k - each) for each in found))


def causes_of_release(made, schema):
    """The sizes of the causes of errors, of the rows of a release."""
    points = made.distribution.points
    rows = schema.decode(points)
    coding = Coding.of(schema.columns, rows)
    return causes_of(made.release.described(schema), coding, coding.side(rows), points, len(points))


def uneven(k, rng):
    """Frequencies as real columns of many categories have them: one of them holds most rows."""
    found = np.exp(1.5 * rng.normal(size=k))
    found[0] = 9.0 * found[1:].sum()
    return found / found.sum()


@pytest.mark.daily(4)
@pytest.mark.parametrize("noise", NOISE)
@pytest.mark.parametrize("k", [9, 20])
def test_they_are_what_loops_give(k, noise):
    rng = np.random.default_rng(k)
    for _ in range(3):
        values = uneven(k, rng) + rng.normal(0.0, noise, k)
        (made, error), (own, expected) = means_of_many(values, noise), slow(values.tolist(), noise)
        assert_allclose(made, own, rtol=1e-9, atol=1e-12)
        assert error == pytest.approx(expected, rel=1e-9)
        assert np.array_equal(shrunk_frequencies(values, noise), means_of_many(values, noise)[0])


@pytest.mark.nightly
@pytest.mark.parametrize(("noise", "most"), [(0.003, 0.93), (0.01, 0.85), (0.03, 0.8)])
def test_they_are_nearer_to_uneven_frequencies_than_the_nearest_probabilities_are(noise, most):
    rng, errors = np.random.default_rng(5), np.zeros((100, 2))
    for each in errors:
        truth = uneven(40, rng)
        values = truth + rng.normal(0.0, noise, 40)
        each[:] = [np.abs(found - truth).sum() for found in (means_of_many(values, noise)[0],
                                                             nearest_probabilities(values))]
    mean, other = errors.mean(axis=0)
    assert mean < most * other


@pytest.mark.nightly
@pytest.mark.parametrize("noise", [0.001, 0.003, 0.01, 0.03])
def test_the_expected_distance_is_nearly_that_from_the_truth(noise):
    rng, errors = np.random.default_rng(9), np.zeros((60, 2))
    for each in errors:
        truth = uneven(40, rng)
        made, expected = means_of_many(truth + rng.normal(0.0, noise, 40), noise)
        each[:] = 0.5 * np.abs(made - truth).sum(), expected
    true, expected = errors.mean(axis=0)
    assert 0.7 < true / expected < 1.3


@pytest.mark.parametrize(("k", "known"), [(8, False), (9, True)])
def test_a_page_expects_of_many_categories_the_error_that_their_shared_prior_leaves(k, known):
    rng = np.random.default_rng(10)
    names = [f"c{i}" for i in range(k)]
    schema = tm.Schema([tm.Column("of", kind="categorical", categories=names), tm.Column("x", 0, 1)])
    table = pd.DataFrame({"of": rng.choice(names, 400, p=uneven(k, rng)), "x": rng.random(400)})
    made = tm.synthesize(table, schema, tm.Budget(1.0, 1e-6), rng=rng)
    look = made.release.look_at(0)
    error = expected_error(look)
    assert (error is not None) is known
    assert expected_error(made.release.look_at(1)) is None
    if error is not None:
        assert error == means_of_many(look.means, look.deviation)[1]
        causes = causes_of_release(made, schema)
        assert causes.columns[0, 0] == pytest.approx(OF_MANY * error)


@pytest.mark.parametrize(("noise", "most"), [(0.01, 0.02), (0.02, 0.04), (0.1, 0.12), (0.3, 0.12)])
def test_even_frequencies_stay_nearly_even(noise, most):
    # In the mean of 100 columns; the nearest probabilities are .16 to .9 from them.
    rng = np.random.default_rng(6)
    distances = [0.5 * np.abs(means_of_many(0.025 + rng.normal(0.0, noise, 40), noise)[0] - 0.025).sum()
                 for _ in range(100)]
    assert np.mean(distances) < most


def test_even_frequencies_are_out_of_the_question_where_one_category_is_clear():
    # The others alone would show even frequencies.
    values = np.concatenate([[0.5], np.full(50, 0.01)])
    assert means_of_many(values, 0.05)[0][0] == pytest.approx(0.5, abs=0.05)


@pytest.mark.parametrize("noise", NOISE)
def test_all_categories_have_rows_in_any_order(noise):
    rng = np.random.default_rng(7)
    values = uneven(15, rng) + rng.normal(0.0, noise, 15)
    made, order = means_of_many(values, noise)[0], rng.permutation(15)
    assert made.min() > 0.0
    assert made.sum() == pytest.approx(1.0, abs=1e-12)
    assert_allclose(means_of_many(values[order], noise)[0], made[order], rtol=1e-9)
    # A larger frequency never has a smaller probability.
    assert (np.diff(made[np.argsort(values)]) >= -1e-12).all()


def test_frequent_categories_stay_as_measured_and_rare_ones_take_what_is_missing():
    values = np.concatenate([[0.6, 0.3], np.full(10, 0.0102)])
    made = means_of_many(values, 1e-3)[0]
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
