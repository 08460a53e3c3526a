import math
from fractions import Fraction
from itertools import pairwise, product

import numpy as np
import oracles
import pytest

from trigmech.errors import InputError
from trigmech.functions.chebyshev import ChebyshevBasis
from trigmech.functions.grid import Grid, nodes, round_to_grid, round_to_levels


def exact_nodes(N):
    return [Fraction(2 * k + 1 - N, N) for k in range(N)]


def exact_ties(choices):
    """The midpoints between neighbours that a float holds exactly; elsewhere no float is a tie."""
    middles = [(low + high) / 2 for low, high in pairwise(choices)]
    return [float(middle) for middle in middles if Fraction(float(middle)) == middle]


# Nodes and rounding


@pytest.mark.parametrize(("N", "expected"), [
    (1, [0.0]),
    (2, [-0.5, 0.5]),
    (5, [-0.8, -0.4, 0.0, 0.4, 0.8]),
    (100, [k / 100 for k in range(-99, 100, 2)]),
])
def test_nodes_are_the_midpoints_of_equal_parts(N, expected):
    np.testing.assert_allclose(nodes(N), expected, rtol=0, atol=1e-15)


@pytest.mark.daily(2)
@pytest.mark.parametrize("N", [1, 2, 5, 8, 100])
def test_rounding_to_the_grid_picks_the_nearest_node_and_of_two_the_lower(N):
    ties = exact_ties(exact_nodes(N))
    values = [*np.random.default_rng(N).uniform(-1.5, 1.5, 300), *ties, *nodes(N), -1.0, 1.0, -7.0, 7.0]
    expected = [float(oracles.nearest(value, exact_nodes(N))) for value in values]
    np.testing.assert_array_equal(round_to_grid(values, N), expected)
    np.testing.assert_array_equal(round_to_grid([-math.inf, math.inf], N), nodes(N)[[0, -1]])


@pytest.mark.daily(2)
@pytest.mark.parametrize("L", [1, 2, 8, 10, 101])
def test_rounding_to_levels_picks_the_nearest_level_and_of_two_the_lower(L):
    levels = [Fraction(k, L) for k in range(-L, L + 1)]
    ties = exact_ties(levels)
    values = [*np.random.default_rng(L).uniform(-1.5, 1.5, 300), *ties, -1.0, 1.0, -1.3, 1.3]
    expected = [float(oracles.nearest(value, levels)) for value in values]
    np.testing.assert_array_equal(round_to_levels(values, L), expected)
    np.testing.assert_array_equal(round_to_levels([-math.inf, math.inf], L), [-1.0, 1.0])


# The full grid

each_grid = pytest.mark.parametrize(("d", "N"), [(1, 1), (1, 9), (2, 5), (3, 4), (4, 3)])


def mesh(d, N):
    return np.array(list(product(nodes(N), repeat=d)))


@each_grid
def test_points_are_numbered_with_the_last_column_fastest(d, N):
    grid, points = Grid(d, N), mesh(d, N)
    assert len(grid) == len(points)
    np.testing.assert_array_equal(grid.take(np.arange(len(grid))), points)
    some = np.random.default_rng(1).integers(len(grid), size=20)
    np.testing.assert_array_equal(grid.take(some), points[some])


@each_grid
def test_local_maxima_are_at_least_their_neighbours_along_the_axes(d, N):
    # Values from few, so that there are ties, which count as maxima.
    values = np.random.default_rng(4).integers(3, size=N**d).astype(float)
    at = {tuple(point): value for point, value in zip(np.ndindex((N,) * d), values, strict=True)}
    steps = [*np.eye(d, dtype=int), *-np.eye(d, dtype=int)]
    expected = [value >= max(at.get(tuple(np.add(point, step).tolist()), -1.0) for step in steps)
                for point, value in at.items()]
    assert Grid(d, N).local_maxima(values).tolist() == expected


@pytest.mark.daily(20)
@each_grid
@pytest.mark.parametrize("make", [
    lambda d: ChebyshevBasis.tensor(d, 3),
    lambda d: ChebyshevBasis.graded(d, 12),
    lambda d: ChebyshevBasis(np.eye(d, dtype=int)[::-1] * 5),
    lambda d: ChebyshevBasis.tensor(d, 1),
], ids=["tensor", "graded", "without the constant", "the constant alone"])
def test_combine_is_the_combination_at_each_point(d, N, make):
    basis = make(d)
    y = np.random.default_rng(2).normal(size=basis.K)
    expected = oracles.products_by_arccos(mesh(d, N), basis.index) @ y
    np.testing.assert_allclose(Grid(d, N).combine(basis, y), expected, rtol=0, atol=1e-12 * np.abs(y).sum())


# What is refused


@pytest.mark.parametrize(("d", "N"), [(0, 3), (3, 0), (-1, 3), (1.5, 3), (2, 2.5), (2, math.nan)])
def test_sizes_are_positive_integers(d, N):
    with pytest.raises(InputError):
        Grid(d, N)


@pytest.mark.parametrize(("d", "N"), [(1, 20_000_001), (2, 4473), (5, 29), (25, 2), (400, 100)])
def test_a_grid_of_more_than_20_million_points_is_refused(d, N):
    with pytest.raises(InputError, match=rf"{N}\^{d} points"):
        Grid(d, N)


@pytest.mark.parametrize("y", [np.zeros(8), np.zeros(10), np.zeros((9, 1)), [1.0], 1.0])
def test_combine_wants_one_coefficient_for_each_function(y):
    with pytest.raises(InputError, match=r"\(9,\)"):
        Grid(2, 4).combine(ChebyshevBasis.tensor(2, 3), y)
