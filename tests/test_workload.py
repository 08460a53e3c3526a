import math
from types import SimpleNamespace

import numpy as np
import oracles
import pytest
from scipy import special, stats

from trigmech import workload as families
from trigmech._parallel import THREADS_VARIABLE
from trigmech.distribution import Distribution
from trigmech.errors import InputError
from trigmech.functions.chebyshev import ChebyshevBasis
from trigmech.workload import (
    GaussianKernels,
    Mixture,
    PairKernels,
    Polynomials,
    SecondMoments,
    Smooth,
    Truth,
    members_of,
)

# Ratios that are powers of two or of its root and ratios that are not, repeats, and widths in no order.
WIDTHS = [(3.0, 1.7, 0.4), (0.5, 2.0, 0.5, 0.25), (math.sqrt(8), 2.0, math.sqrt(2), 8.0)]
FAMILIES = {
    "GaussianKernels, fresh": lambda seed: GaussianKernels(4, seed, n_queries=60),
    "GaussianKernels, pool": lambda seed: GaussianKernels(4, seed, n_queries=60, variant="pool"),
    "PairKernels": lambda seed: PairKernels(4, seed, n_queries=600),
    "SecondMoments": lambda seed: SecondMoments(4),
    "Polynomials": lambda seed: Polynomials(4, 3, n_queries=150, seed=seed),
    "Smooth": lambda seed: Smooth(4, 1.5, 3),
}
each_family = pytest.mark.parametrize("make", FAMILIES.values(), ids=FAMILIES)
each_variant = pytest.mark.parametrize("variant", ["fresh", "pool"])


def points_of_cube(n, d=4, seed=5):
    return np.random.default_rng(seed).uniform(-1.0, 1.0, (n, d))


def weights_of(n):
    weights = np.random.default_rng(6).exponential(size=n)
    return weights / weights.sum()


# Answers, query by query


@pytest.mark.daily(8)
@pytest.mark.parametrize("widths", [(2.0, 4.0, 6.0, 8.0, 10.0), *WIDTHS], ids=str)
@each_variant
def test_gaussian_answers_are_sums_over_centres_and_points(variant, widths):
    family = GaussianKernels(4, 7, n_queries=30, widths=widths, n_centers=10, variant=variant)
    centers, numbers, parts = family.queries
    # One row more than a block of points, and more centres than a chunk.
    points, weights = points_of_cube(257), weights_of(257)
    expected = oracles.gaussian_answers(points, weights, centers.T[numbers], parts, widths)
    np.testing.assert_allclose(family.answers(points, weights), expected, rtol=1e-12, atol=0)


@pytest.mark.parametrize("widths", [(0.25, 0.5, 1.0), *WIDTHS], ids=str)
def test_pair_answers_are_sums_over_points_of_two_columns(widths):
    family = PairKernels(4, 7, n_queries=300, widths=widths)
    columns, centers = family.queries
    points, weights = points_of_cube(257), weights_of(257)
    expected = oracles.pair_answers(points, weights, columns, centers, widths)
    np.testing.assert_allclose(family.answers(points, weights), expected, rtol=1e-12, atol=0)


@pytest.mark.parametrize("d", [1, 2, 5])
def test_second_moments_are_sums_over_points(d):
    points, weights = points_of_cube(2**14 + 1, d) + 0.5, weights_of(2**14 + 1)
    expected = oracles.second_moments(points, weights)
    np.testing.assert_allclose(SecondMoments(d).answers(points, weights), expected, rtol=1e-12, atol=0)


@pytest.mark.parametrize(("d", "degree"), [(1, 5), (3, 4), (12, 2)])
def test_polynomial_answers_are_combinations_of_means(d, degree):
    family = Polynomials(d, degree, n_queries=70, seed=7)
    points, weights = points_of_cube(300, d), weights_of(300)
    # All at once, while the family draws them block by block.
    N = math.comb(d + degree, d) - 1
    coefficients = np.random.default_rng(7).standard_normal((70, N)) / math.sqrt(N)
    products = oracles.products_by_arccos(points, ChebyshevBasis.total_degree(d, degree).index)
    # All but the constant, which comes first.
    expected = coefficients @ (weights @ products)[1:]
    np.testing.assert_allclose(family.answers(points, weights), expected[:, None], rtol=0, atol=1e-13)


@pytest.mark.parametrize(("d", "smoothness", "degree"), [(1, 1.0, 9), (2, 0.5, 4), (3, 2.0, 3), (4, 1.0, 2)])
def test_smooth_answers_are_scaled_means_of_products(d, smoothness, degree):
    points, weights = points_of_cube(300, d), weights_of(300)
    index = ChebyshevBasis.tensor(d, degree + 1).index[1:]
    expected = weights @ oracles.products_by_arccos(points, index) / np.linalg.norm(index, axis=1) ** smoothness
    found = Smooth(d, smoothness, degree).answers(points, weights)
    np.testing.assert_allclose(found[:, 0], expected, rtol=0, atol=1e-14)


@each_family
def test_without_weights_all_points_weigh_the_same(make):
    family, points = make(7), points_of_cube(257)
    np.testing.assert_allclose(family.answers(points), family.answers(points, np.full(257, 1.0 / 257)),
                               rtol=1e-14, atol=1e-16)


@pytest.mark.daily(3)
@each_family
def test_any_number_of_threads_gives_the_same_bits(make, monkeypatch):
    # 600 centres or queries, or 3 * 2^14 rows: several chunks in each family.
    family, index = make(7), ChebyshevBasis.total_degree(4, 3).index
    points = points_of_cube(700 if isinstance(family, GaussianKernels | PairKernels) else 3 * 2**14 + 5)
    monkeypatch.setenv(THREADS_VARIABLE, "1")
    answers, coefficients = family.answers(points), family.coefficients(index)
    monkeypatch.setenv(THREADS_VARIABLE, "3")
    np.testing.assert_array_equal(family.answers(points), answers)
    np.testing.assert_array_equal(family.coefficients(index), coefficients)


# Errors


@pytest.mark.daily(6)
@each_family
def test_a_table_as_a_distribution_has_no_errors(make):
    table = np.repeat(points_of_cube(150), 2, axis=0)
    own = Distribution(table[::-1], np.full(300, 1.0 / 300))
    merged = Distribution(table[::2], np.full(150, 1.0 / 150))
    for distribution in (own, merged):
        assert make(7).errors(table, distribution).max() < 1e-14


@each_family
def test_errors_are_absolute_differences_of_answers(make):
    family, table = make(7), points_of_cube(200)
    distribution = Distribution(points_of_cube(50, seed=8), weights_of(50))
    difference = family.answers(distribution.points, distribution.weights) - family.answers(table)
    assert difference.min() < -1e-3
    assert difference.max() > 1e-3
    # Of a class of functions there is one error, the largest; it has its own tests.
    expected = [[np.linalg.norm(difference)]] if isinstance(family, Smooth) else np.abs(difference)
    np.testing.assert_array_equal(family.errors(table, distribution), expected)


class Scored:
    """Answers alone, and no more of a workload."""

    def answers(self, points, weights=None):
        return np.average(np.asarray(points)[:, :1], axis=0, weights=weights)[:, None]


class Halved(SecondMoments):
    """A class with errors of its own."""

    def errors(self, table, distribution):
        return 0.5 * super().errors(table, distribution)


COMPARED = {name: make(7) for name, make in FAMILIES.items()} | {"errors of its own": Halved(4)}
COMPARED["Mixture"] = Mixture((COMPARED["PairKernels"], Mixture((COMPARED["Smooth"], Halved(4)))))


def test_the_members_of_mixtures_in_mixtures_are_families_of_their_own():
    one, two, three = SecondMoments(4), COMPARED["PairKernels"], Halved(4)
    assert members_of(Mixture((one, Mixture((two, Mixture((three, one))))))) == (one, two, three, one)
    assert members_of(one) == (one,)


@pytest.mark.parametrize("name", COMPARED)
def test_errors_from_the_truth_are_those_from_the_table(name):
    workload, table = COMPARED[name], points_of_cube(200)
    truth = Truth(workload, table)
    for seed in (8, 9):
        distribution = Distribution(points_of_cube(50, seed=seed), weights_of(50))
        np.testing.assert_array_equal(truth.errors(distribution), workload.errors(table, distribution))


def test_the_truth_is_asked_of_the_table_once_and_of_whatever_has_answers(monkeypatch):
    table, distribution = points_of_cube(200), Distribution(points_of_cube(50, seed=8), weights_of(50))
    asked, answers = [], Scored.answers
    monkeypatch.setattr(Scored, "answers", lambda self, points, weights=None: (
        asked.append(len(points)) or answers(self, points, weights)))
    truth = Truth(Scored(), table)
    for _ in range(3):
        np.testing.assert_array_equal(truth.errors(distribution), np.abs(
            answers(None, distribution.points, distribution.weights) - answers(None, table)))
    assert asked == [200, 50, 50, 50]
    assert repr(truth) == "Truth(Scored: exact answers, private)"
    unanswered = SimpleNamespace(d=4, labels=("unanswered",), importance=SecondMoments(4).importance)
    for nothing in (unanswered, Mixture((SecondMoments(4), unanswered))):
        with pytest.raises(InputError, match="has no answers"):
            Truth(nothing, table)


# The draw of the queries


@pytest.mark.parametrize("name", ["GaussianKernels, fresh", "GaussianKernels, pool", "PairKernels", "Polynomials"])
def test_the_seed_decides_the_queries(name):
    make, points = FAMILIES[name], points_of_cube(100)
    answers = make(7).answers(points)
    np.testing.assert_array_equal(make(7).answers(points), answers)
    np.testing.assert_array_equal(make(np.random.SeedSequence(7)).answers(points), answers)
    assert (make(8).answers(points) != answers).all()


@each_variant
def test_fresh_centres_are_used_once_and_pooled_ones_come_from_ten_thousand_and_weights_sum_to_1(variant):
    centers, numbers, parts = GaussianKernels(3, 7, n_queries=2000, variant=variant).queries
    centers = centers.T[numbers]
    # So many different centres of three columns miss an end of 0.01 with probability below 1e-39.
    assert -1.0 <= centers.min() < -0.99
    assert 0.99 < centers.max() <= 1.0
    different = len(np.unique(centers.reshape(-1, 3), axis=0))
    assert different == 20_000 if variant == "fresh" else different <= 10_000
    assert parts.min() >= 0
    np.testing.assert_allclose(parts.sum(axis=1), 1.0, rtol=1e-14)


def test_pairs_of_columns_are_distinct_and_equally_frequent():
    # The two-sided chi-square test fails by chance less than once in 1e9.
    columns, centers = PairKernels(4, 9, n_queries=30_000).queries
    low, high = columns.min(axis=1), columns.max(axis=1)
    assert (low < high).all()
    counts = np.array([((low == i) & (high == j)).sum() for i in range(4) for j in range(i + 1, 4)])
    assert oracles.frequencies_p(counts, np.full(6, 1 / 6)) > 1e-10
    assert -1.0 <= centers.min() < -0.99
    assert 0.99 < centers.max() <= 1.0


# What is refused


@pytest.mark.parametrize("make", [
    lambda: GaussianKernels(0, 1), lambda: GaussianKernels(3, 1, n_queries=0), lambda: GaussianKernels(3, 1, widths=()),
    lambda: GaussianKernels(3, 1, widths=(1.0, 0.0)), lambda: GaussianKernels(3, 1, widths=(math.nan,)),
    lambda: GaussianKernels(3, 1, n_centers=0), lambda: GaussianKernels(3, 1, variant="paper"),
    lambda: PairKernels(1, 1), lambda: PairKernels(3, 1, n_queries=0), lambda: PairKernels(3, 1, widths=(0.0,)),
    lambda: Polynomials(0, 2, seed=1), lambda: Polynomials(3, 2.0, seed=1), lambda: Polynomials(3, 2, 0, seed=1),
    lambda: Smooth(0, 1.0, 2), lambda: Smooth(3, 1.0, True), lambda: Smooth(3, 0.0, 2), lambda: Smooth(3, math.nan, 2),
    lambda: SecondMoments(0),
])
def test_sizes_and_widths_are_positive(make):
    with pytest.raises(InputError):
        make()


def test_there_are_at_most_20000_polynomials_and_a_million_functions_of_a_smooth_class():
    # comb(24 + 4, 4) - 1 = 20474 is too many, and comb(23 + 4, 4) - 1 = 17549 is not.
    for d, degree in [(24, 4), (10**9, 10**9)]:
        with pytest.raises(InputError, match="smaller degree"):
            Polynomials(d, degree, seed=1)
    assert Polynomials(23, 4, seed=1).importance(np.eye(23, dtype=int)).max() == 1 / 17_549
    for d, degree in [(3, 100), (10**9, 10**9)]:
        with pytest.raises(InputError, match="1000000"):
            Smooth(d, 1.0, degree)
    assert Smooth(3, 1.0, 99).labels == ("smooth functions, order 1",)


@pytest.mark.parametrize("name", ["Polynomials", "Smooth"])
def test_points_outside_the_cube_are_refused_without_quoting_them(name):
    with pytest.raises(InputError) as caught:
        FAMILIES[name](7).answers(np.full((2, 4), -1.77131))
    assert oracles.SECRET_DIGITS not in oracles.whole_message(caught.value)


@pytest.mark.parametrize("members", [
    (), None, SecondMoments(3), (SecondMoments(3), SecondMoments(4)), [SecondMoments(3)], (SecondMoments(3), "x"),
], ids=["none", "None", "not a tuple", "two d", "list", "text"])
def test_a_mixture_is_of_families_of_the_same_columns(members):
    with pytest.raises(InputError, match="members"):
        Mixture(members)


@each_family
def test_multi_indices_are_rows_of_integers(make):
    for index in (np.zeros((2, 3), int), np.zeros((2, 4)), [[0, 0, 0, -1]], [[0] * 4, [0]]):
        for ask in (make(7).importance, Mixture((make(7),)).importance, make(7).coefficients):
            with pytest.raises(InputError, match="index"):
                ask(index)


def test_kernels_too_narrow_for_their_coefficients_are_refused_there_alone():
    constant = np.zeros((1, 2), int)
    for family in (GaussianKernels(2, 1, n_queries=2, widths=(0.009,)), PairKernels(2, 1, widths=(0.009,))):
        assert np.isfinite(family.answers(points_of_cube(3, 2))).all()
        for ask in (family.importance, family.coefficients):
            with pytest.raises(InputError, match=r"0\.009"):
                ask(constant)
    for width in (0.009, 0.0, -1.0, math.nan):
        with pytest.raises(InputError):
            GaussianKernels(2, 1).mean_profile(width, 3)
    for degree in (-1, 1.5, True):
        with pytest.raises(InputError, match="degree"):
            GaussianKernels(2, 1).mean_profile(1.0, degree)


@each_family
@pytest.mark.parametrize("points", [
    np.full((2, 3), 0.77131), np.full(4, 0.77131), np.empty((0, 4)), [["0.77131x", "0", "0", "0"]],
    [[0.77131] * 4, [0.77131]], None,
], ids=["narrow", "1-D", "no rows", "strings", "ragged", "None"])
def test_bad_points_are_refused_without_quoting_them(make, points):
    with pytest.raises(InputError) as caught:
        make(7).answers(points)
    assert oracles.SECRET_DIGITS not in oracles.whole_message(caught.value)


@each_family
def test_there_is_one_weight_for_each_point(make):
    with pytest.raises(InputError, match=r"\(3,\)"):
        make(7).answers(points_of_cube(3), np.full((3, 1), 1 / 3))


@pytest.mark.daily("fresh")
@each_variant
def test_answers_under_the_uniform_distribution_equal_a_fine_grid_of_midpoints(variant):
    workload = GaussianKernels(2, seed=3, n_queries=20, widths=(0.5, 2.0), variant=variant)
    nodes = (2.0 * np.arange(100) + 1.0 - 100) / 100
    grid = np.stack(np.meshgrid(nodes, nodes), axis=-1).reshape(-1, 2)
    np.testing.assert_allclose(workload.uniform_answers(), workload.answers(grid), rtol=2e-4)


# Importance


def coefficients(family, index, nodes):
    """The coefficients (K, queries, parts) of phi_r in the family's queries, through their answers alone.

    They are 2^(number of r_i > 0) times the mean of f phi_r over Chebyshev's nodes, and answers are linear in weights
    of any sign. Of degrees below `nodes`, what is wrong comes from degrees above it.
    """
    angles = (np.arange(nodes) + 0.5) * np.pi / nodes
    grid = np.cos(np.stack(np.meshgrid(*[angles] * family.d, indexing="ij"), axis=-1).reshape(-1, family.d))
    weights = oracles.products_by_arccos(grid, index) * 2.0 ** (index > 0).sum(axis=1) / len(grid)
    return np.array([family.answers(grid, column) for column in weights.T])


def column_coefficients(width, y, degree):
    """c_m(y) (degree + 1, len(y)) of one column's kernel, by the rule of midpoints in arccos x."""
    angles = (np.arange(2000) + 0.5) * np.pi / 2000
    kernel = np.exp(-((np.cos(angles)[:, None] - y) ** 2) / (2.0 * width**2))
    factors = np.where(np.arange(degree + 1) > 0, 2.0, 1.0)[:, None]
    return factors * (np.cos(np.arange(degree + 1)[:, None] * angles) @ kernel) / 2000


def empirical_tolerance(values, bound, false_alarm):
    """A t with P(|mean - expectation| >= t) <= false_alarm for independent values in [0, bound] along the first axis.

    Empirical Bernstein bound, Maurer and Pontil 2009, theorem 4, on both sides.
    """
    log, n = math.log(4.0 / false_alarm), len(values)
    return np.sqrt(2.0 * values.var(axis=0, ddof=1) * log / n) + 7.0 * bound * log / (3.0 * (n - 1))


RANDOM_FAMILIES = {
    "Gaussian, d=2": lambda: GaussianKernels(2, 11, n_queries=3000, widths=(0.5, 2.0)),
    "Gaussian, d=3": lambda: GaussianKernels(3, 12, n_queries=3000, widths=(1.0, 2.0), n_centers=3),
    # So many columns that no quadrature could tell.
    "Gaussian, d=12": lambda: GaussianKernels(12, 15, n_queries=5000, widths=(2.0, 4.0)),
    "Pair, d=2": lambda: PairKernels(2, 13, n_queries=8000, widths=(0.5, 1.0)),
    "Pair, d=5": lambda: PairKernels(5, 17, n_queries=20_000, widths=(0.5, 1.0)),
}


def test_importance_of_polynomials_is_the_mean_squared_coefficient():
    # N times the sum of squares is chi-square with one degree of freedom for each query, exactly; false alarms below
    # 2 * 20 * 1e-11.
    family = Polynomials(3, 3, n_queries=500, seed=3)
    index = np.array(list(np.ndindex(4, 4, 4)))
    squares = (coefficients(family, index, 6)[:, :, 0] ** 2).sum(axis=1)
    inside = family.importance(index)[0] > 0
    np.testing.assert_array_equal(inside, (index.sum(axis=1) >= 1) & (index.sum(axis=1) <= 3))
    assert inside.sum() == 19
    np.testing.assert_allclose(squares[~inside], 0.0, atol=1e-26)
    law = stats.chi2(500)
    for factor, passes in ((1.0, True), (2.0, False)):
        p = law.cdf(squares[inside] * 19 * factor), law.sf(squares[inside] * 19 * factor)
        assert (np.minimum(*p).min() > 1e-11) == passes


@pytest.mark.parametrize("d", [1, 2, 3])
def test_importance_of_second_moments_is_the_mean_squared_coefficient(d):
    index = np.array(list(np.ndindex((4,) * d)))
    expected = (coefficients(SecondMoments(d), index, 6)[:, :, 0] ** 2).mean(axis=1)
    np.testing.assert_allclose(SecondMoments(d).importance(index), expected[None], rtol=1e-12, atol=1e-28)


def test_importance_of_smooth_functions_is_their_largest_squared_coefficient():
    found = Smooth(2, 1.5, 3).importance([[0, 0], [1, 0], [0, 2], [3, 3], [30, 40]])
    np.testing.assert_allclose(found, [[0.0, 1.0, 1 / 8, 18.0**-1.5, 50.0**-3]], rtol=1e-14)


# Coefficients of the drawn queries


# With a number of nodes at which what is wrong with the quadrature, from degrees above, is below 1e-14.
DRAWN = {
    "Gaussian, fresh, d=2": (lambda: GaussianKernels(2, 11, n_queries=70, widths=(0.7, 2.0)), 32),
    "Gaussian, pool, d=2": (lambda: GaussianKernels(2, 11, n_queries=70, widths=(4.0,), variant="pool"), 20),
    "Gaussian, one centre, d=3": (lambda: GaussianKernels(3, 12, n_queries=9, widths=(2.0,), n_centers=1), 20),
    "Pair, d=3": (lambda: PairKernels(3, 14, n_queries=30, widths=(2.0, 1.5)), 20),
    "Second moments, d=3": (lambda: SecondMoments(3), 8),
    "Polynomials, d=3": (lambda: Polynomials(3, 3, n_queries=150, seed=16), 8),
    "Smooth, d=3": (lambda: Smooth(3, 0.7, 2), 8),
}
each_drawn = pytest.mark.parametrize(("make", "nodes"), DRAWN.values(), ids=DRAWN)


def tensor_index(d, size, seed=4):
    """All multi-indices below `size`, in no order, and some of them twice."""
    index = np.random.default_rng(seed).permutation(np.array(list(np.ndindex((size,) * d))))
    return np.concatenate([index, index[:5]])


@pytest.mark.daily("Smooth, d=3", "Pair, d=3", "Polynomials, d=3", "Second moments, d=3")
@each_drawn
def test_coefficients_equal_quadrature_of_the_answers(make, nodes):
    family = make()
    index = np.concatenate([tensor_index(family.d, 5), 3 * np.eye(family.d, dtype=int)])
    expected = coefficients(family, index, nodes).transpose(1, 2, 0)
    found = family.coefficients(index)
    assert found.shape == (*family.answers(np.zeros((1, family.d))).shape, len(index))
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-13)


@pytest.mark.daily(3)
@pytest.mark.parametrize("width", [0.01, 1.0, 30.0])
def test_coefficients_of_one_column_at_any_width_and_degree(width):
    family = GaussianKernels(1, 3, n_queries=3, widths=(width,), n_centers=2)
    centers, numbers, parts = family.queries
    degrees = np.array([1100, 3, 0, 64, 1, 2])
    expected = np.einsum("qj,mqj->qm", parts,
                         column_coefficients(width, centers[0, numbers].ravel(), 1100)[degrees].reshape(6, 3, 2))
    np.testing.assert_allclose(family.coefficients(degrees[:, None])[:, 0], expected, rtol=0, atol=1e-14)
    # A degree in company of others is what it is alone; those beyond all rounding are 0.
    np.testing.assert_allclose(family.coefficients([[3]])[:, 0], expected[:, [1]], rtol=0, atol=1e-14)
    np.testing.assert_array_equal(family.coefficients([[2**62], [10**6]]), 0.0)


@pytest.mark.daily("fresh")
@each_variant
def test_coefficients_of_a_hundred_columns_are_sums_of_products(variant):
    width = 0.3
    family = GaussianKernels(100, 3, n_queries=70, widths=(9.0, width), variant=variant)
    rng = np.random.default_rng(4)
    index = np.zeros((40, 100), dtype=int)
    # None, one, two and three columns with r_i > 0, and many.
    for _ in range(3):
        index[np.arange(30), rng.integers(100, size=30)] = rng.integers(4, size=30)
    index[30:39] = rng.integers(3, size=(9, 100))
    centers, numbers, parts = family.queries
    rows = numbers[-3:]
    table = column_coefficients(width, centers[:, rows].ravel(), 3).reshape(4, 100, *rows.shape)
    expected = [(parts[-3:] * table[r, np.arange(100)].prod(axis=0)).sum(axis=1) for r in index]
    # The scale is that of the constant, which is 1e-50 for the narrow kernel.
    np.testing.assert_allclose(family.coefficients(index)[-3:, 1], np.transpose(expected), rtol=1e-10,
                               atol=1e-14 * np.max(expected))


@pytest.mark.daily("Gaussian, d=2", "Gaussian, d=12")
@pytest.mark.parametrize("make", RANDOM_FAMILIES.values(), ids=RANDOM_FAMILIES)
def test_mean_squared_coefficients_are_the_importance(make):
    # Fails by chance less than once in 1e9, by the union bound over the coefficients.
    family = make()
    index = np.zeros((6, family.d), dtype=int)
    index[1:, 0], index[2:, 1] = [1, 1, 2, 0, 3], [1, 2, 2, 0]
    squares = family.coefficients(index) ** 2
    largest = np.array([(column_coefficients(width, np.linspace(-1, 1, 2001), 3) ** 2).max(axis=1)
                        for width in family.widths])
    # Of a pair two columns count, and the index has no others; of the bound 1e-6 more, for the grid of y.
    used = index[:, :2] if isinstance(family, PairKernels) else index
    bound = largest[:, used].prod(axis=2) * (1.0 + 1e-6)
    assert (squares <= bound).all()
    tolerance = empirical_tolerance(squares, bound, 1e-9 / squares[0].size)
    importance, mean = family.importance(index), squares.mean(axis=0)
    assert (np.abs(importance - mean) <= tolerance).all()
    # The planted faults: no factor 2, and one centre or all pairs of columns in every query.
    width = (index > 0).sum(axis=1)
    faults = [importance / 4.0**width]
    if isinstance(family, GaussianKernels):
        faults += [GaussianKernels(family.d, 1, widths=family.widths, n_centers=1).importance(index)]
    elif family.d > 2:
        faults += [importance * np.array([1.0, family.d / 2.0, family.d * (family.d - 1) / 2.0])[width]]
    for fault in faults:
        assert (np.abs(fault - mean) > tolerance).any(axis=1).all()


@each_family
def test_coefficients_of_some_queries_are_those_of_all(make):
    family, index = make(7), ChebyshevBasis.total_degree(4, 3).index
    whole = family.coefficients(index)
    count = len(whole)
    assert count == len(family.answers(points_of_cube(1)))
    for start, stop in [(0, count), (1, 3), (2, 2), (count // 3, count)]:
        part = family.coefficients(index, start, stop)
        assert part.shape == (stop - start, *whole.shape[1:])
        # Matrix products round otherwise in other sizes.
        np.testing.assert_allclose(part, whole[start:stop], rtol=1e-13, atol=1e-15)


@each_family
def test_coefficients_do_not_depend_on_order_company_or_the_type_of_the_integers(make):
    family, index = make(7), ChebyshevBasis.total_degree(4, 3).index
    whole = family.coefficients(index)
    order = np.random.default_rng(3).permutation(len(index))
    np.testing.assert_allclose(family.coefficients(index[order]), whole[:, :, order], rtol=1e-13, atol=1e-15)
    np.testing.assert_allclose(family.coefficients(index[7:9]), whole[:, :, 7:9], rtol=1e-13, atol=1e-15)
    np.testing.assert_array_equal(family.coefficients(index.astype(np.uint8)), whole)
    np.testing.assert_array_equal(family.importance(index.astype(np.uint8)), family.importance(index))
    # Degrees so high that their sum wraps around.
    wrapping = np.array([[2**63 - 1, 2**63 - 1, 4, 0], [2**62] * 4, [0, 0, 2**63 - 1, 2]])
    np.testing.assert_array_equal(family.coefficients(wrapping), 0.0)


@each_family
def test_spans_of_queries_are_within_the_family(make):
    for span in ((-1, None), (2, 1), (0, 10**6), (0.0, 2), (True, 2)):
        with pytest.raises(InputError, match=r"start|stop"):
            make(7).coefficients(np.zeros((1, 4), int), *span)


# Closed forms, of one column and of all


def mean_kernel(x, width):
    """E exp(-(x - y)^2 / (2 s^2)) over y uniform in [-1, 1]."""
    ends = special.erf((1.0 - x) / (width * math.sqrt(2.0))) + special.erf((1.0 + x) / (width * math.sqrt(2.0)))
    return ends * width * math.sqrt(math.pi / 2.0) / 2.0


@pytest.mark.daily(3)
@pytest.mark.parametrize("width", [0.01, 1.0, 1e6])
def test_the_mean_profile_is_the_mean_kernel(width):
    x = np.linspace(-1.0, 1.0, 997)
    profile = GaussianKernels(3, 1).mean_profile(width, 1200)
    assert profile.shape == (1201,)
    assert (profile[1::2] == 0.0).all()
    value = np.polynomial.chebyshev.chebval(x, profile)
    np.testing.assert_allclose(value, mean_kernel(x, width), rtol=0, atol=2e-14)


def test_ten_thousand_products_of_a_hundred_columns_are_finite_and_positive():
    d, K, widths = 100, 10_000, (0.05, 0.5, 2.0, 10.0)
    rng = np.random.default_rng(4)
    index = np.zeros((K, d), dtype=int)
    for _ in range(3):
        index[np.arange(K), rng.integers(d, size=K)] += rng.integers(2, size=K)
    for variant in ("fresh", "pool"):
        found = GaussianKernels(d, 1, widths=widths, variant=variant).importance(index)
        assert found.shape == (4, K)
        assert np.isfinite(found).all()
        assert found.min() > 0


@pytest.mark.parametrize("family", [GaussianKernels(2, 1), PairKernels(2, 1)], ids=["GaussianKernels", "PairKernels"])
def test_degrees_beyond_all_rounding_count_for_nothing(family):
    np.testing.assert_array_equal(family.importance([[10**6, 0], [2, 10**15]]), 0.0)


# The chance that two draws from a query's weights name one centre


def test_that_chance_for_two_normalised_uniform_weights_in_closed_form():
    # With w = U / (U + V), of density 1 / (2 (1 - w)^2) below 1/2 and symmetric, E w^2 + (1 - w)^2 = 2 - 2 log 2.
    alone = 2.0 - 2.0 * math.log(2.0)
    found = GaussianKernels(1, 1, n_centers=2, variant="pool")._concentration
    assert found == pytest.approx(alone + (1.0 - alone) / 10_000, rel=1e-12)


# The worst error over a class of smooth functions


@pytest.mark.parametrize(("d", "smoothness", "degree"), [(1, 1.0, 8), (2, 2.0, 4), (3, 0.7, 3)])
def test_the_error_of_a_smooth_class_is_attained_and_never_exceeded(d, smoothness, degree):
    family, table = Smooth(d, smoothness, degree), points_of_cube(100, d)
    distribution = Distribution(points_of_cube(40, d, seed=8), weights_of(40))
    index = ChebyshevBasis.tensor(d, degree + 1).index[1:]
    powers = np.linalg.norm(index, axis=1) ** (2.0 * smoothness)

    def error(c):
        def f(x):
            return oracles.products_by_arccos(x, index) @ c
        return abs(distribution.expect(f) - f(table).mean())

    found = family.errors(table, distribution)
    assert found.shape == (1, 1)
    difference = (distribution.weights @ oracles.products_by_arccos(distribution.points, index)
                  - oracles.products_by_arccos(table, index).mean(axis=0))
    worst = difference / powers
    worst /= math.sqrt((powers * worst**2).sum())
    assert (powers * worst**2).sum() == pytest.approx(1.0, rel=1e-12)
    assert error(worst) == pytest.approx(found[0, 0], rel=1e-12)
    rng = np.random.default_rng(3)
    for scale in (0.0, 0.1, 1.0):
        for _ in range(20):
            c = scale * rng.standard_normal(len(index)) / np.sqrt(powers) + worst
            c /= math.sqrt((powers * c**2).sum())
            assert error(c) <= found[0, 0] * (1.0 + 1e-12)


# Labels and mixtures


@each_family
def test_there_is_one_label_for_each_part(make):
    family = make(7)
    assert len(family.labels) == family.answers(points_of_cube(3)).shape[1]
    assert len(set(family.labels)) == len(family.labels)
    assert family.importance(np.zeros((0, 4), int)).shape == (len(family.labels), 0)


def test_a_mixture_has_the_parts_of_its_members_in_their_order():
    members = tuple({make(7).labels: make(7) for make in FAMILIES.values()}.values())
    index = ChebyshevBasis.total_degree(4, 3).index
    whole = Mixture(members)
    assert whole.d == 4
    assert whole.labels == sum((member.labels for member in members), ())
    np.testing.assert_array_equal(whole.importance(index),
                                  np.concatenate([member.importance(index) for member in members]))


def test_all_that_a_workload_may_be_is_named_by_its_package():
    public = {name for name, value in vars(families).items() if isinstance(value, type)}
    assert public == set(families.__all__)
