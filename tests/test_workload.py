import math

import numpy as np
import oracles
import pytest

from trigmech.chunks import THREADS_VARIABLE
from trigmech.distribution import Distribution
from trigmech.errors import InputError
from trigmech.workload import GaussianKernels, PairKernels, SecondMoments

# Ratios that are powers of two or of its root and ratios that are not, repeats, and widths in no order.
WIDTHS = [(1.0,), (3.0, 1.7, 0.4), (0.5, 2.0, 0.5, 0.25), (math.sqrt(8), 2.0, math.sqrt(2), 8.0)]
FAMILIES = {
    "GaussianKernels, fresh": lambda seed: GaussianKernels(4, seed, n_queries=60),
    "GaussianKernels, pool": lambda seed: GaussianKernels(4, seed, n_queries=60, variant="pool"),
    "PairKernels": lambda seed: PairKernels(4, seed, n_queries=600),
    "SecondMoments": lambda seed: SecondMoments(4),
}
each_family = pytest.mark.parametrize("make", FAMILIES.values(), ids=FAMILIES)
each_variant = pytest.mark.parametrize("variant", ["fresh", "pool"])


def points_of_cube(n, d=4, seed=5):
    return np.random.default_rng(seed).uniform(-1.0, 1.0, (n, d))


def weights_of(n):
    weights = np.random.default_rng(6).exponential(size=n)
    return weights / weights.sum()


# Answers, query by query


@pytest.mark.parametrize("widths", [(2.0, 4.0, 6.0, 8.0, 10.0), *WIDTHS], ids=str)
@each_variant
def test_gaussian_answers_are_sums_over_centres_and_points(variant, widths):
    family = GaussianKernels(4, 7, n_queries=30, widths=widths, n_centers=10, variant=variant)
    centers, numbers, parts = family._queries
    # One row more than a block of points, and more centres than a chunk.
    points, weights = points_of_cube(257), weights_of(257)
    expected = oracles.gaussian_answers(points, weights, centers.T[numbers], parts, widths)
    np.testing.assert_allclose(family.answers(points, weights), expected, rtol=1e-12, atol=0)


@pytest.mark.parametrize("widths", [(0.25, 0.5, 1.0), *WIDTHS], ids=str)
def test_pair_answers_are_sums_over_points_of_two_columns(widths):
    family = PairKernels(4, 7, n_queries=300, widths=widths)
    columns, centers = family._queries
    points, weights = points_of_cube(257), weights_of(257)
    expected = oracles.pair_answers(points, weights, columns, centers, widths)
    np.testing.assert_allclose(family.answers(points, weights), expected, rtol=1e-12, atol=0)


@pytest.mark.parametrize("d", [1, 2, 5])
def test_second_moments_are_sums_over_points(d):
    points, weights = points_of_cube(2**14 + 1, d) + 0.5, weights_of(2**14 + 1)
    expected = oracles.second_moments(points, weights)
    np.testing.assert_allclose(SecondMoments(d).answers(points, weights), expected, rtol=1e-12, atol=0)


@each_family
@pytest.mark.parametrize("n", [1, 255, 256, 257, 512])
def test_without_weights_all_points_weigh_the_same(make, n):
    family, points = make(7), points_of_cube(n)
    np.testing.assert_allclose(family.answers(points), family.answers(points, np.full(n, 1.0 / n)),
                               rtol=1e-14, atol=1e-16)
    each = np.mean([family.answers(point[None]) for point in points[:20]], axis=0)
    np.testing.assert_allclose(family.answers(points[:20]), each, rtol=1e-13, atol=1e-15)


@each_family
def test_answers_are_linear_in_the_weights(make):
    family, points = make(7), points_of_cube(300)
    one, other = weights_of(300), weights_of(300)[::-1]
    expected = 0.25 * family.answers(points, one) + 0.75 * family.answers(points, other)
    mixed = family.answers(points, 0.25 * one + 0.75 * other)
    np.testing.assert_allclose(mixed, expected, rtol=1e-13, atol=1e-15)


@each_family
@pytest.mark.parametrize("threads", [2, 3])
def test_any_number_of_threads_gives_the_same_bits(make, threads, monkeypatch):
    # 600 centres or queries, or 3 * 2^14 rows: several chunks in each family.
    family = make(7)
    points = points_of_cube(3 * 2**14 + 5 if isinstance(family, SecondMoments) else 700)
    monkeypatch.setenv(THREADS_VARIABLE, "1")
    alone = family.answers(points)
    monkeypatch.setenv(THREADS_VARIABLE, str(threads))
    np.testing.assert_array_equal(family.answers(points), alone)


# Errors


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
    np.testing.assert_array_equal(family.errors(table, distribution), np.abs(difference))


# The draw of the queries


@pytest.mark.parametrize("name", ["GaussianKernels, fresh", "GaussianKernels, pool", "PairKernels"])
def test_the_seed_decides_the_queries(name):
    make, points = FAMILIES[name], points_of_cube(100)
    answers = make(7).answers(points)
    np.testing.assert_array_equal(make(7).answers(points), answers)
    np.testing.assert_array_equal(make(np.random.SeedSequence(7)).answers(points), answers)
    assert (make(8).answers(points) != answers).all()


def test_the_variants_draw_different_queries():
    points = points_of_cube(100)
    fresh, pool = (FAMILIES[f"GaussianKernels, {name}"](7).answers(points) for name in ("fresh", "pool"))
    assert (fresh != pool).all()


@each_variant
def test_centres_fill_the_cube_and_weights_sum_to_1(variant):
    centers, numbers, parts = GaussianKernels(3, 7, n_queries=1000, variant=variant)._queries
    centers = centers.T[numbers]
    assert centers.shape == (1000, 10, 3)
    # Six thousand different centres of three columns miss an end of 0.01 with probability below 1e-39.
    assert -1.0 <= centers.min() < -0.99
    assert 0.99 < centers.max() <= 1.0
    assert parts.min() >= 0
    np.testing.assert_allclose(parts.sum(axis=1), 1.0, rtol=1e-14)


def test_fresh_centres_are_used_once_and_pooled_ones_come_from_ten_thousand():
    fresh = GaussianKernels(3, 7, n_queries=2000)._queries
    assert len(np.unique(fresh[0].T[fresh[1]].reshape(-1, 3), axis=0)) == 20_000
    pool = GaussianKernels(3, 7, n_queries=2000, variant="pool")._queries
    assert len(np.unique(pool[0].T[pool[1]].reshape(-1, 3), axis=0)) <= 10_000


def squared_weights(variant, J, n_queries=20_000):
    """How far the mean over queries of sum_j a_j^2 is from its expectation on the simplex, and the tolerance.

    For a uniform on the simplex, E a_j^2 = 2/(J(J+1)), E a_j^4 = 24/(J(J+1)(J+2)(J+3)) and E a_i^2 a_j^2 is a
    sixth of that. The sum lies between 1/J and 1.
    """
    parts = GaussianKernels(2, 9, n_queries=n_queries, n_centers=J, variant=variant)._queries[2]
    fourth = 24.0 / (J * (J + 1) * (J + 2) * (J + 3))
    mean = 2.0 / (J + 1)
    variance = J * fourth + J * (J - 1) * fourth / 6.0 - mean**2
    return (parts**2).sum(axis=1).mean() - mean, oracles.bernstein_tolerance(variance, 1.0, n_queries)


@pytest.mark.parametrize("J", [2, 10])
def test_fresh_weights_are_uniform_on_the_simplex(J):
    # Bernstein's inequality: fails by chance less than once in 1e9.
    difference, tolerance = squared_weights("fresh", J)
    assert abs(difference) < tolerance


@pytest.mark.parametrize("J", [2, 10])
def test_that_test_fails_for_normalised_uniform_numbers(J):
    # The planted fault is the other variant, whose weights are by design not uniform on the simplex.
    difference, tolerance = squared_weights("pool", J)
    assert abs(difference) > tolerance


def pair_counts(columns):
    """How often each of the six pairs of four columns occurs."""
    low, high = columns.min(axis=1), columns.max(axis=1)
    assert (low < high).all()
    return np.array([((low == i) & (high == j)).sum() for i in range(4) for j in range(i + 1, 4)])


def test_pairs_of_columns_are_distinct_and_equally_frequent():
    # The two-sided chi-square test fails by chance less than once in 1e9.
    columns, centers = PairKernels(4, 9, n_queries=30_000)._queries
    assert oracles.frequencies_p(pair_counts(columns), np.full(6, 1 / 6)) > 1e-10
    assert -1.0 <= centers.min() < -0.99
    assert 0.99 < centers.max() <= 1.0


def test_that_test_fails_when_one_pair_in_ten_is_of_neighbours():
    columns = PairKernels(4, 9, n_queries=30_000)._queries[0].copy()
    columns[::10, 1] = (columns[::10, 0] + 1) % 4
    assert oracles.frequencies_p(pair_counts(columns), np.full(6, 1 / 6)) < 1e-10


# What is refused


@pytest.mark.parametrize("make", [
    lambda **changes: GaussianKernels(**{"d": 3, "seed": 1} | changes),
    lambda **changes: PairKernels(**{"d": 3, "seed": 1} | changes),
], ids=["GaussianKernels", "PairKernels"])
@pytest.mark.parametrize("changes", [
    {"d": 0}, {"d": -2}, {"n_queries": 0}, {"widths": ()}, {"widths": (1.0, 0.0)}, {"widths": (-1.0,)},
    {"widths": (math.nan,)},
], ids=str)
def test_sizes_and_widths_are_positive(make, changes):
    with pytest.raises(InputError):
        make(**changes)


@pytest.mark.parametrize("make", [
    lambda: GaussianKernels(3, 1, n_centers=0),
    lambda: GaussianKernels(3, 1, variant="paper"),
    lambda: PairKernels(1, 1),
    lambda: SecondMoments(0),
])
def test_so_are_the_rest(make):
    with pytest.raises(InputError):
        make()


@each_family
@pytest.mark.parametrize("points", [
    np.full((2, 3), 0.77131), np.full((2, 5), 0.77131), np.full(4, 0.77131), np.empty((0, 4)),
    np.full((1, 2, 4), 0.77131), 0.77131, [["0.77131x", "0", "0", "0"]], [[0.77131] * 4, [0.77131]], None,
], ids=["narrow", "wide", "1-D", "no rows", "3-D", "number", "strings", "ragged", "None"])
def test_bad_points_are_refused_without_quoting_them(make, points):
    with pytest.raises(InputError) as caught:
        make(7).answers(points)
    assert oracles.SECRET_DIGITS not in oracles.whole_message(caught.value)


@each_family
@pytest.mark.parametrize("weights", [np.full(2, 0.5), np.full((3, 1), 1 / 3), 1.0])
def test_there_is_one_weight_for_each_point(make, weights):
    with pytest.raises(InputError, match=r"\(3,\)"):
        make(7).answers(points_of_cube(3), weights)


@pytest.mark.parametrize("variant", ["fresh", "pool"])
def test_answers_under_the_uniform_distribution_equal_a_fine_grid_of_midpoints(variant):
    workload = GaussianKernels(2, seed=3, n_queries=20, widths=(0.5, 2.0), variant=variant)
    nodes = (2.0 * np.arange(400) + 1.0 - 400) / 400
    grid = np.stack(np.meshgrid(nodes, nodes), axis=-1).reshape(-1, 2)
    np.testing.assert_allclose(workload.uniform_answers(), workload.answers(grid), rtol=1e-5)
