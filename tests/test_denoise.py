import numpy as np
import pytest
from scipy import stats

from trigmech.errors import InputError
from trigmech.functions.chebyshev import ChebyshevBasis
from trigmech.reconstruction.marginals import SmoothMarginals
from trigmech.reconstruction.shrinkage import (
    FEWEST_COLUMNS,
    independent_means,
    moments_of_columns,
    shrink_columns,
    shrink_interactions,
)

# Columns


def gains(shrink, spread, d=20, runs=400):
    """Squared errors of the raw moments less those of the shrunk ones, run by run; noise 0.1, truth of that spread."""
    rng, out = np.random.default_rng(1), np.empty(runs)
    for run in range(runs):
        truth = 0.2 + spread * rng.standard_normal((2, d))
        raw = truth + 0.1 * rng.standard_normal((2, d))
        out[run] = ((raw - truth) ** 2).sum() - ((shrink(raw, np.full((2, d), 0.1))[0] - truth) ** 2).sum()
    return out


def improves(gains):
    """Whether the mean gain is above 0 by six standard errors: by chance at most about 1e-9."""
    return gains.mean() > 6.0 * gains.std(ddof=1) / np.sqrt(len(gains))


@pytest.mark.parametrize("spread", [0.0, 0.05, 0.1])
def test_shrinking_columns_reduces_the_error_where_noise_matters(spread):
    assert improves(gains(shrink_columns, spread))


@pytest.mark.parametrize("d", [6, 9, 40])
def test_columns_are_kept_by_james_and_steins_fraction_and_known_as_well_as_that_says(d):
    rng, noise = np.random.default_rng(d), 0.1
    means = 0.2 + np.array([[0.02], [0.15], [1.0]]) * rng.standard_normal((3, d))
    found, deviations = shrink_columns(means, np.full((3, d), noise))
    for p in range(3):
        centre = means[p].mean()
        kept = max(0.0, 1.0 - (d - 3) * noise**2 / float(((means[p] - centre) ** 2).sum()))
        np.testing.assert_allclose(found[p], centre + kept * (means[p] - centre), atol=1e-12)
        # The part that is taken from the centre errs as a mean of d.
        np.testing.assert_allclose(deviations[p], noise * np.sqrt(kept + (1.0 - kept) / d), rtol=1e-12)


def test_too_much_and_no_shrinking_are_noticed():
    # The planted faults: everything to the centre, which hurts where columns differ, and nothing.
    assert not improves(gains(lambda means, scales: (0.0 * means + means.mean(axis=1, keepdims=True), scales), 0.3))
    assert not improves(gains(lambda means, scales: (means, scales), 0.0))


def test_the_stated_deviations_are_those_of_the_errors():
    # Normal truth: the posterior's deviation, averaged, is the root of the mean squared error.
    rng, d, errors, stated = np.random.default_rng(2), 40, [], []
    for _ in range(300):
        truth = 0.1 * rng.standard_normal((1, d))
        shrunk, scales = shrink_columns(truth + 0.1 * rng.standard_normal((1, d)), np.full((1, d), 0.1))
        errors.append(((shrunk - truth) ** 2).mean())
        stated.append((scales**2).mean())
    assert np.mean(errors) == pytest.approx(np.mean(stated), rel=0.1)


def test_equal_moments_stay_and_are_known_as_well_as_their_mean():
    shrunk, scales = shrink_columns(np.full((1, 16), 0.3), np.full((1, 16), 0.1))
    np.testing.assert_allclose(shrunk, 0.3, rtol=1e-15)
    np.testing.assert_allclose(scales, 0.1 / 4.0, rtol=1e-12)


@pytest.mark.parametrize("d", range(1, FEWEST_COLUMNS))
def test_few_columns_are_left_alone(d):
    means, scales = np.random.default_rng(5).normal(size=(2, d)), np.full((2, d), 0.7)
    shrunk, deviations = shrink_columns(means, scales)
    np.testing.assert_array_equal(shrunk, means)
    np.testing.assert_array_equal(deviations, scales)


@pytest.mark.parametrize(("means", "scales"), [
    (np.zeros((2, 8)), np.ones((8, 2))), (np.zeros(8), np.ones(8)), (np.zeros((2, 8)), np.zeros((2, 8))),
    (np.zeros((2, 8)), np.full((2, 8), np.nan)),
])
def test_bad_moments_are_refused(means, scales):
    with pytest.raises(InputError):
        shrink_columns(means, scales)


# Sets of columns

D = 12
MARGINALS = SmoothMarginals.fit(np.random.default_rng(6).uniform(-0.4, 0.4, (2, D)), np.full((2, D), 0.05))
MEANS = MARGINALS.chebyshev_means(2)
# Total degree 3 over at least two columns: pairs with three moments each, triples with one.
INDEX = ChebyshevBasis.total_degree(D, 3).index
INDEX = INDEX[(INDEX > 0).sum(axis=1) > 1]
PAIRS = (INDEX > 0).sum(axis=1) == 2
SCALES = np.random.default_rng(7).uniform(0.01, 0.1, len(INDEX))
EXPECTED = np.prod([[1.0 if a == 0 else np.cos(a * (np.arange(512) + 0.5) * np.pi / 512) @ MARGINALS.probabilities[j]
                     for j, a in enumerate(row)] for row in INDEX], axis=1)


def test_moments_of_columns_that_were_not_measured_are_as_if_noise_were_all_of_them():
    means, scales = np.array([0.3, -0.2, 0.5]), np.array([0.01, 0.02, 0.03])
    found, deviations = moments_of_columns(np.array([[0, 2], [1, -1], [-1, -1]]), means, scales)
    assert found.tolist() == [[0.3, 0.5], [-0.2, 0.0], [0.0, 0.0]]
    assert deviations.tolist() == [[0.01, 0.03], [0.02, 1e6], [1e6, 1e6]]


def test_independent_means_are_products_of_the_columns_means():
    np.testing.assert_allclose(independent_means(INDEX, MEANS), EXPECTED, rtol=0, atol=1e-13)
    singles = np.repeat(np.eye(D, dtype=np.int64), 2, axis=0) * np.tile([1, 2], D)[:, None]
    np.testing.assert_allclose(independent_means(singles, MEANS), MEANS.T.ravel(), rtol=1e-13)
    np.testing.assert_array_equal(independent_means(np.zeros((1, D), dtype=np.int64), MEANS), [1.0])
    assert independent_means(np.empty((0, D), dtype=np.int64), MEANS).shape == (0,)


def share_of_noise_kept(caution, threshold=lambda k, c: c * k, runs=60):
    """How many sets of columns keep some deviation under pure noise, in all, and how many chi-square laws say."""
    rng, kept, sets = np.random.default_rng(9), 0, 0
    _, numbers = np.unique(INDEX > 0, axis=0, return_inverse=True)
    size = np.bincount(numbers.ravel())
    for _ in range(runs):
        noisy = EXPECTED + SCALES * rng.standard_normal(len(INDEX))
        shrunk = shrink_interactions(INDEX, noisy, SCALES, EXPECTED, caution)
        kept += (np.bincount(numbers.ravel(), weights=np.abs(shrunk - EXPECTED)) > 1e-12).sum()
        sets += len(size)
    return kept, sets, stats.chi2.sf(threshold(size, caution), size).mean()


def refutes(kept, sets, rate):
    # The sets' chances differ, which makes their sum vary less than the binomial: the test is on the safe side.
    return stats.binomtest(int(kept), sets, rate).pvalue < 1e-9


@pytest.mark.daily(3)
@pytest.mark.parametrize("caution", [0.0, 1.0, 4.0])
def test_pure_noise_goes_to_independence_but_for_a_computed_share(caution):
    kept, sets, rate = share_of_noise_kept(caution)
    assert not refutes(kept, sets, rate)
    assert caution < 4.0 or kept < 0.05 * sets
    # The planted fault: a threshold a quarter too low.
    assert caution == 0.0 or refutes(*share_of_noise_kept(caution, lambda k, c: 0.75 * c * k))


def test_a_strong_signal_is_kept():
    rng = np.random.default_rng(10)
    signal = 20.0 * SCALES * rng.choice([-1.0, 1.0], len(INDEX))
    shrunk = shrink_interactions(INDEX, EXPECTED + signal, SCALES, EXPECTED)
    kept = (shrunk - EXPECTED) / signal
    assert kept.min() > 0.95
    assert kept.max() < 1.0


def test_shrinking_reduces_the_error_where_few_pairs_depend():
    rng = np.random.default_rng(12)
    truth = EXPECTED + np.where(PAIRS & (rng.random(len(INDEX)) < 0.1), 0.3, 0.0)
    gains = np.empty(100)
    for run in range(100):
        raw = truth + SCALES * rng.standard_normal(len(INDEX))
        shrunk = shrink_interactions(INDEX, raw, SCALES, EXPECTED)
        gains[run] = (((raw - truth) / SCALES) ** 2).sum() - (((shrunk - truth) / SCALES) ** 2).sum()
    assert improves(gains)


@pytest.mark.parametrize(("means", "scales", "caution"), [
    (EXPECTED[1:], SCALES, 1.0), (EXPECTED, SCALES[1:], 1.0), (EXPECTED, 0.0 * SCALES, 1.0), (EXPECTED, SCALES, -0.1),
    (EXPECTED, SCALES, np.nan),
])
def test_bad_interactions_are_refused(means, scales, caution):
    with pytest.raises(InputError):
        shrink_interactions(INDEX, means, scales, EXPECTED, caution)
