import numpy as np
import pytest
from scipy import optimize, special, stats

from trigmech.errors import InputError
from trigmech.reconstruction.marginals import NODES, SmoothMarginals, copula_correlation

FINE = np.cos((np.arange(100_000) + 0.5) * np.pi / 100_000)
ANGLES = (np.arange(NODES) + 0.5) * np.pi / NODES


def law(density):
    weights = density(FINE) * np.sqrt(1.0 - FINE**2)
    return FINE, weights / weights.sum()


# Points and their probabilities.
SMOOTH = {
    "uniform": law(np.ones_like),
    "beta": law(lambda x: (1.0 + x) ** 1.5 * (1.0 - x) ** 4),
    "narrow": law(lambda x: np.exp(-((x - 0.3) ** 2) / 0.02)),
    "two humps": law(lambda x: np.exp(-((x - 0.5) ** 2) / 0.02) + np.exp(-((x + 0.6) ** 2) / 0.05)),
    "piled up on the left": law(lambda x: np.exp(-30.0 * (1.0 + x))),
}
SPIKES = {
    "at the right end": (np.array([0.999]), np.array([1.0])),
    "near the left end": (np.array([-0.9995, -0.99]), np.array([0.9, 0.1])),
    "two points": (np.array([-0.6, 0.7]), np.array([0.3, 0.7])),
    "both ends": (np.array([-1.0, 1.0]), np.array([0.4, 0.6])),
}


def moments_of(laws, p):
    return np.column_stack([np.polynomial.chebyshev.chebvander(x, p)[:, 1:].T @ w for x, w in laws.values()])


def fitted(laws, p, scale):
    moments = moments_of(laws, p)
    return moments, SmoothMarginals.fit(moments, np.full(moments.shape, scale))


# Fit


@pytest.mark.parametrize("p", [1, 4, 8])
def test_exact_moments_of_smooth_laws_are_recovered(p):
    moments, marginals = fitted(SMOOTH, p, 1e-6)
    np.testing.assert_allclose(marginals.chebyshev_means(p), moments, rtol=0, atol=1e-7)


@pytest.mark.parametrize("p", [2, 8])
def test_moments_of_spikes_and_of_two_points_are_recovered_within_noise(p):
    moments, marginals = fitted(SMOOTH | SPIKES, p, 1e-3)
    np.testing.assert_allclose(marginals.chebyshev_means(p), moments, rtol=0, atol=1.1e-3)


def dual_by_scipy(z, s, fault=1.0):
    """The same column's probabilities by a general solver; `fault` multiplies the variances."""
    T = np.cos(np.outer(np.arange(1, len(z) + 1), ANGLES))
    log_base = np.log(np.sin(ANGLES) / np.sin(ANGLES).sum())

    def dual(y):
        exponents = y @ T + log_base
        q = special.softmax(exponents)
        return special.logsumexp(exponents) - y @ z + 0.5 * fault * s**2 @ y**2, T @ q - z + fault * s**2 * y

    result = optimize.minimize(dual, np.zeros(len(z)), jac=True, method="BFGS", options={"gtol": 1e-10})
    return special.softmax(result.x @ T + log_base)


def test_the_fit_solves_the_dual_that_a_general_solver_does():
    rng = np.random.default_rng(1)
    p, d = 4, 5
    z, s = rng.uniform(-0.8, 0.8, (p, d)), rng.uniform(0.05, 0.5, (p, d))
    q = SmoothMarginals.fit(z, s).probabilities
    expected = np.array([dual_by_scipy(z[:, j], s[:, j]) for j in range(d)])
    np.testing.assert_allclose(q, expected, rtol=0, atol=1e-7)
    # The planted fault: variances 2 per cent too large.
    assert np.abs(q - [dual_by_scipy(z[:, j], s[:, j], 1.02) for j in range(d)]).max() > 1e-5


def test_impossible_moments_give_a_distribution_all_the_same():
    marginals = SmoothMarginals.fit(np.array([[3.0, -1.2, 0.9], [-4.0, -1.0, -1.0]]), np.full((2, 3), 0.01))
    assert (marginals.probabilities >= 0.0).all()
    np.testing.assert_allclose(marginals.probabilities.sum(axis=1), 1.0, rtol=1e-12)


@pytest.mark.parametrize(("moments", "scales"), [
    (np.zeros(3), np.ones(3)), (np.zeros((2, 3)), np.ones((3, 2))), (np.zeros((2, 3)), np.zeros((2, 3))),
    (np.zeros((2, 3)), -np.ones((2, 3))), (np.zeros((2, 3)), np.full((2, 3), np.nan)),
    (np.zeros((2, 3)), np.full((2, 3), np.inf)), (np.full((2, 3), np.nan), np.ones((2, 3))),
])
def test_bad_moments_are_refused(moments, scales):
    with pytest.raises(InputError):
        SmoothMarginals.fit(moments, scales)


# Quantiles and clouds

MANY = fitted(SMOOTH | SPIKES, 6, 0.01)[1]


def test_quantiles_invert_the_distribution_function():
    levels = np.tile(np.linspace(0.01, 0.99, 99)[:, None], MANY.d)
    points = MANY.quantiles(levels)
    edges = np.cos(np.arange(NODES + 1) * np.pi / NODES)
    for j in range(MANY.d):
        below = np.interp(points[:, j], edges[::-1], np.concatenate([[0.0], np.cumsum(MANY.probabilities[j, ::-1])]))
        np.testing.assert_allclose(below, levels[:, j], rtol=0, atol=1e-9)


def correlation(d, r):
    return np.full((d, d), r) + (1.0 - r) * np.eye(d)


@pytest.mark.parametrize("copula", [None, correlation(MANY.d, 0.6)], ids=["independent", "copula"])
@pytest.mark.parametrize("count", [4096, 3000])
def test_a_cloud_has_the_marginals(count, copula):
    cloud = MANY.cloud(count, np.random.default_rng(4), copula)
    assert cloud.shape == (count, MANY.d)
    means = np.polynomial.chebyshev.chebvander(cloud, 6)[:, :, 1:].mean(axis=0).T
    # Low discrepancy: well below 1/sqrt(count). A copula mixes columns, and a cut leaves less of it.
    tolerance = 0.002 if copula is None else 1.0 / np.sqrt(count)
    np.testing.assert_allclose(means, MANY.chebyshev_means(6), rtol=0, atol=tolerance)


@pytest.mark.parametrize("r", [-0.4, 0.0, 0.7])
def test_a_copula_has_the_rank_correlation_of_a_gaussian(r):
    d = 3
    moments = moments_of({name: SMOOTH[name] for name in ("uniform", "beta", "two humps")}, 4)
    marginals = SmoothMarginals.fit(moments, np.full((4, d), 0.01))
    cloud = marginals.cloud(4096, np.random.default_rng(5), correlation(d, r))
    ranks = stats.spearmanr(cloud).statistic
    expected = 6.0 / np.pi * np.arcsin(r / 2.0)
    np.testing.assert_allclose(ranks[np.triu_indices(d, 1)], expected, rtol=0, atol=0.03)


@pytest.mark.parametrize(("count", "copula"), [(0, None), (-1, None), (2.0, None), (4, np.eye(2))])
def test_bad_clouds_are_refused(count, copula):
    with pytest.raises(InputError):
        MANY.cloud(count, np.random.default_rng(1), copula)


# The copula's correlation

FEW = SmoothMarginals.fit(moments_of({k: SMOOTH[k] for k in ("uniform", "beta", "two humps", "narrow")}, 4),
                    np.full((4, 4), 0.01))


def symmetric(upper):
    return np.triu(upper, 1) + np.triu(upper, 1).T


def alarms(threshold, draws=3000):
    """How often pure noise of scale 0.01 around independence passes the test."""
    first = FEW.chebyshev_means(1)[0]
    noise, count = np.random.default_rng(6), 0
    for _ in range(draws):
        products = np.outer(first, first) + symmetric(0.01 * noise.standard_normal((4, 4)))
        count += copula_correlation(FEW, products, np.full((4, 4), 0.01), threshold) is not None
    return count, draws


def refutes(count, draws, threshold):
    """Whether the count of alarms contradicts six two-sided tests of a normal at the threshold, at level 1e-9."""
    rate = 1.0 - (1.0 - 2.0 * stats.norm.sf(threshold)) ** 6
    return stats.binomtest(count, draws, rate).pvalue < 1e-9


@pytest.mark.nightly
def test_pure_noise_passes_as_often_as_the_threshold_says():
    count, draws = alarms(3.0)
    assert not refutes(count, draws, 3.0)
    # The planted fault: a threshold 15 per cent too low.
    assert refutes(*alarms(2.55), 3.0)


def test_strong_dependence_is_found_with_its_sign_and_size():
    R = np.eye(4)
    R[0, 1] = R[1, 0] = 0.7
    R[2, 3] = R[3, 2] = -0.5
    cloud = FEW.cloud(4096, np.random.default_rng(7), R)
    found = copula_correlation(FEW, cloud.T @ cloud / len(cloud), np.full((4, 4), 0.003))
    np.testing.assert_allclose(found, R, rtol=0, atol=0.06)


@pytest.mark.parametrize("seed", range(2))
def test_the_correlation_is_positive_definite_with_unit_diagonal(seed):
    # Products that no distribution has: the plain matrix would have negative eigenvalues.
    products = symmetric(np.random.default_rng(seed).uniform(-1.0, 1.0, (4, 4)))
    found = copula_correlation(FEW, products, np.full((4, 4), 0.001))
    np.testing.assert_allclose(np.diag(found), 1.0, rtol=1e-15)
    np.testing.assert_allclose(found, found.T, rtol=0, atol=1e-15)
    assert np.linalg.eigvalsh(found).min() > 0.001
    np.linalg.cholesky(found)


def test_pairs_that_were_not_released_are_taken_as_independent():
    scales = np.full((4, 4), np.inf)
    scales[0, 1] = scales[1, 0] = 0.01
    found = copula_correlation(FEW, symmetric(np.full((4, 4), 0.3)), scales)
    expected = np.eye(4)
    expected[0, 1] = expected[1, 0] = found[0, 1]
    assert found[0, 1] != 0.0
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)
    assert copula_correlation(FEW, np.ones((4, 4)), np.full((4, 4), np.inf)) is None


@pytest.mark.parametrize(("products", "scales"), [
    (np.zeros((3, 3)), np.ones((4, 4))), (np.zeros((4, 4)), np.ones(4)), (np.triu(np.ones((4, 4))), np.ones((4, 4))),
])
def test_bad_products_are_refused(products, scales):
    with pytest.raises(InputError):
        copula_correlation(FEW, products, scales)
