import math

import numpy as np
import oracles
import pytest

from trigmech._parallel import THREADS_VARIABLE
from trigmech.errors import InputError
from trigmech.functions.chebyshev import POINTS_PER_CHUNK, ROWS_PER_CHUNK, ChebyshevBasis
from trigmech.functions.features import Features, _range
from trigmech.workload import GaussianKernels


def mean_profile(d, width):
    return GaussianKernels(d, seed=0).mean_profile(width, 8)


def without_constant(d, K):
    return ChebyshevBasis(ChebyshevBasis.graded(d, K + 1).index[1:])


# Lopsided, steep at an end, and on a scale of its own.
PROFILES = [[1.0, 0.3, 0.1, -0.05, 0.02], [50.0, -20.0, 7.0, 0.0, 1.0]]
SETS = {
    "products alone": Features(without_constant(3, 20)),
    "one column": Features(without_constant(1, 5), [mean_profile(1, 1.0)]),
    "two whole-row functions": Features(without_constant(4, 30), PROFILES),
    "the shortest profile": Features(without_constant(3, 3), [[2.0, 1.0]]),
    "kernels of two widths": Features(without_constant(30, 60), [mean_profile(30, s) for s in (2.0, 6.0)]),
    "many columns": Features(without_constant(101, 101), [mean_profile(101, 1.0)]),
}
each_set = pytest.mark.parametrize("features", SETS.values(), ids=SETS)


def points_of_cube(n, d, seed=3):
    """Random points, random corners, the centre, and two opposite corners."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.0, 1.0, (n, d))
    X[n // 2 :] = np.sign(X[n // 2 :])
    X[-3:] = np.array([[0.0], [1.0], [-1.0]])[: len(X)][-min(3, n):] * np.ones(d)
    return X


def coefficients(features):
    return np.random.default_rng(4).normal(size=features.K)


def factors(features, X):
    """Each column's values of each profile, and their derivatives: two arrays (G, n, d)."""
    cheb = np.polynomial.chebyshev
    return (np.array([cheb.chebval(X, profile) for profile in features.profiles]),
            np.array([cheb.chebval(X, cheb.chebder(profile)) for profile in features.profiles]))


def values_by_definition(features, X):
    products = oracles.products_by_series(X, features.basis.index)
    if not len(features.profiles):
        return products
    values, _ = factors(features, X)
    spans = 1.0 - features.floors[:, None]
    return np.hstack([products, (2.0 * (values.prod(axis=2) - features.floors[:, None]) / spans - 1.0).T])


def slope_by_definition(features, X, y, degree=float):
    """By the product rule; `degree` is the factor q in T_q' = q U_(q-1)."""
    K = features.basis.K
    out = oracles.products_slope(X, features.basis.index, y[:K], degree)
    if len(features.profiles):
        values, slopes = factors(features, X)
        for g in range(len(features.profiles)):
            for j in range(features.d):
                others = np.delete(values[g], j, axis=1).prod(axis=1)
                out[:, j] += y[K + g] * 2.0 / (1.0 - features.floors[g]) * slopes[g, :, j] * others
    return out


@pytest.mark.daily(12)
@each_set
@pytest.mark.parametrize("n", [3, 257])
def test_values_means_and_gradients_are_those_of_the_definition(features, n):
    X, y = points_of_cube(n, features.d), coefficients(features)
    expected = values_by_definition(features, X)
    assert expected.shape == (n, features.K)
    # Where the floor is near 1, rounding errors are stretched with the values.
    tolerance = 1e-12 / (1.0 - features.floors.max(initial=0.0))
    np.testing.assert_allclose(features.evaluate(X), expected, rtol=0, atol=tolerance)
    np.testing.assert_allclose(features.means(X), expected.mean(axis=0), rtol=0, atol=tolerance)
    scale = np.abs(y).sum() * features.basis.index.max() ** 2 + 100.0
    np.testing.assert_allclose(features.gradient(X, y), slope_by_definition(features, X, y), rtol=0,
                               atol=scale * tolerance)


def test_a_gradient_without_the_degree_is_noticed():
    features = SETS["two whole-row functions"]
    X, y = points_of_cube(257, 4), coefficients(features)
    wrong = slope_by_definition(features, X, y, lambda q: 1.0)
    assert np.abs(features.gradient(X, y) - wrong).max() > 0.1


@each_set
def test_all_values_lie_in_minus_1_to_1(features):
    values = features.evaluate(points_of_cube(3000, features.d))
    assert np.abs(values).max() <= 1.0 + 1e-13


def test_a_whole_row_function_ranks_points_as_the_mean_of_all_queries_does():
    d, width = 6, 2.0
    features = Features(without_constant(d, d), [mean_profile(d, width)])
    X = points_of_cube(60, d)
    # E_y exp(-(x - y)^2 / (2 s^2)), by the midpoint rule.
    y = (np.arange(4000) + 0.5) / 2000.0 - 1.0
    mean = np.exp(-((X[:, :, None] - y) ** 2) / (2.0 * width**2)).mean(axis=2).prod(axis=1)
    values = features.evaluate(X)[:, -1]
    slope, offset = np.polyfit(mean, values, 1)
    assert slope > 0.0
    np.testing.assert_allclose(values, slope * mean + offset, rtol=0, atol=1e-6)


def test_means_are_sums_to_the_last_digits():
    features, X = SETS["two whole-row functions"], points_of_cube(2 * ROWS_PER_CHUNK + 7, 4)
    means, values = features.means(X), features.evaluate(X)
    for k in (0, 29, 30, 31):
        assert means[k] == pytest.approx(math.fsum(values[:, k]) / len(X), rel=0, abs=3e-15)


@pytest.mark.parametrize("threads", [3])
def test_any_number_of_threads_gives_the_same_bits(threads, monkeypatch):
    features, X = SETS["two whole-row functions"], points_of_cube(3 * ROWS_PER_CHUNK + 7, 4)
    some, y = X[: 3 * POINTS_PER_CHUNK + 5], coefficients(SETS["two whole-row functions"])
    monkeypatch.setenv(THREADS_VARIABLE, "1")
    alone = features.means(X), features.gradient(some, y)
    monkeypatch.setenv(THREADS_VARIABLE, str(threads))
    np.testing.assert_array_equal(features.means(X), alone[0])
    np.testing.assert_array_equal(features.gradient(some, y), alone[1])


@pytest.mark.parametrize("profile", [*PROFILES, [2.0, 1.0], [1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.5],
                                     mean_profile(5, 1.0), mean_profile(5, 10.0)],
                         ids=["lopsided", "steep", "linear", "wavy", "narrow kernel", "wide kernel"])
def test_the_range_of_a_profile_bounds_it_and_is_tight(profile):
    profile = np.asarray(profile, dtype=np.float64)
    low, high = _range(profile)
    # Not a multiple of the nodes of the bound, and with the ends.
    values = np.polynomial.chebyshev.chebval(np.cos(np.linspace(0.0, np.pi, 100_003)), profile)
    assert low <= values.min()
    assert values.max() <= high
    assert high - low <= 1.01 * (values.max() - values.min()) + 2e-12


def test_a_bound_from_the_grid_alone_is_refuted():
    # The planted fault: the largest of 4097 values, without the slack, for a maximum between two nodes.
    profile = np.zeros(1501)
    profile[0], profile[1499], profile[1500] = 2.0, 0.5, 0.5

    def values(angles):
        return 2.0 + 0.5 * np.cos(1499 * angles) + 0.5 * np.cos(1500 * angles)

    grid = np.linspace(0.0, np.pi, 4097)
    nearest = grid[values(grid).argmin()]
    between = values(nearest + np.linspace(-1.0, 1.0, 1001) * np.pi / 4096)
    assert _range(profile)[0] <= between.min() < values(grid).min() - 1e-6


@pytest.mark.parametrize("profiles", [
    [[1.0]], [[1.0, 0.0]], [[1.0, 0.0, 1e-12]], [[0.0, 1.0]], [[1.0, 1.0]], [[-3.0, 1.0]],
    [[1.0, 0.1], [1.0, 0.1, 0.0]],
    [[np.nan, 0.1]], [[np.inf, 0.1]], [["1", "0"]], [1.0, 0.1], [[[1.0, 0.1]]],
], ids=["one coefficient", "constant", "constant but for rounding", "of both signs", "0 at an end", "negative",
        "two lengths", "not a number", "infinite", "strings", "no sequence of profiles", "three-dimensional"])
def test_bad_profiles_are_refused(profiles):
    with pytest.raises(InputError, match="profile"):
        Features(without_constant(2, 2), profiles)


METHODS = {
    "evaluate": lambda features, X: features.evaluate(X),
    "means": lambda features, X: features.means(X),
    "gradient": lambda features, X: features.gradient(X, np.ones(features.K)),
    "the whole-row functions alone": lambda features, X: features._whole(X),
}


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
@pytest.mark.parametrize("table", [[[0.77131, 7.7131]], [[0.77131, -7.7131]], [[0.77131, np.nan]]])
def test_points_outside_of_the_cube_are_refused_without_quoting_them(method, table):
    with pytest.raises(InputError) as caught:
        method(Features(without_constant(2, 2), PROFILES), table)
    assert oracles.SECRET_DIGITS not in oracles.whole_message(caught.value)


@pytest.mark.parametrize("profile", [[0.0, 1.0], [0.3, 0.0, 0.0, 0.0, 0.5], [1.0, -0.2, 0.1, 0.7, -0.4, 0.25]])
def test_bounds_of_a_profile_are_its_values_at_nodes_and_all_that_its_steepest_slope_allows_between(profile):
    angles = np.linspace(0.0, np.pi, 4_096 + 1)
    values = [sum(c * math.cos(a * angle) for a, c in enumerate(profile)) for angle in angles.tolist()]
    # From the nearest node it is half a step at most.
    slack = sum(a * abs(c) for a, c in enumerate(profile)) * math.pi / (2 * 4_096)
    low, high = _range(np.array(profile))
    assert min(values) - low == pytest.approx(slack, rel=1e-6)
    assert high - max(values) == pytest.approx(slack, rel=1e-6)
    assert low < min(values) - slack


@pytest.mark.parametrize(("profiles", "lengths"), [([[1.0]], r"\[1\]"), ([[1.0, 0.1], [1.0, 0.1, 0.0]], r"\[2, 3\]")])
def test_lengths_of_profiles_are_told_with_the_rule(profiles, lengths):
    with pytest.raises(InputError, match=f"all have the same length, at least 2; given lengths {lengths}$"):
        Features(without_constant(2, 2), profiles)
