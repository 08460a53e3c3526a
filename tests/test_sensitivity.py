"""Weighted sensitivities: what a search for the worst two rows finds, a bound must cover, and closely."""

import math
from fractions import Fraction
from functools import cache
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trigmech.functions import sensitivity
from trigmech.functions.chebyshev import ChebyshevBasis
from trigmech.functions.sensitivity import (
    l1_diameter,
    l2_diameter,
    pair_l1_diameter,
    pair_l2_diameter,
    quotient_up,
    root_up,
)

# Angles of the search: a multiple of 1..6, 8 and 10, so that corners, zeros and the extremes of these degrees are met.
ANGLES = 120
# What a certified supremum of a function from 0 up may add, 1/(2 c^2) - 1/2.
SLACK = 0.002


def powers(r, length):
    return tuple(r**a for a in range(1, length + 1))


# d, weights of columns, weights of pairs, and the largest ratio of the bound and what the search finds, measured.
CASES = {
    "one column": (1, (1.0, 0.8), (), 1.002),
    "two columns, decaying": (2, (1.0, 0.5), (0.7, 0.3), 1.002),
    "products of T1 alone": (20, (0.0,), (1.0,), 1.002),
    "products of T1 alone, d odd": (3, (), (1.0,), 1.13),
    "products of T2 dominate": (8, (1.0,), (0.1, 1.0), 1.02),
    "products of T4 dominate": (15, (), (0.0, 0.1, 0.0, 1.0), 1.01),
    "equal weights": (10, (1.0,) * 3, (1.0,) * 3, 1.01),
    "decaying": (30, powers(0.6, 5), powers(0.6, 5), 1.003),
    "columns dominate, T2 missing": (20, (9.0, 0.0, 2.0), (1.0, 0.5, 0.2), 1.002),
    "columns and pairs": (20, (3.0,), (1.0, 0.5, 0.2), 1.003),
}
each_case = pytest.mark.parametrize("name", CASES)


def weighted_functions(angles, v, w):
    """Every weighted function at the row with these angles, by the definition."""
    columns = [[weight * math.cos(a * angle) for angle in angles] for a, weight in enumerate(v, 1)]
    T = [np.array(w) * np.cos(np.arange(1, len(w) + 1) * angle) for angle in angles]
    pairs = [np.outer(T[i], T[j]).ravel() for i, j in combinations(range(len(angles)), 2)] if w else []
    return np.concatenate([np.ravel(columns), *pairs])


def movement(rows, v, w, p):
    first, second = (weighted_functions(angles, v, w) for angles in rows)
    return math.fsum(np.abs(first - second) ** p)


def starts(d, rng, count):
    """Two rows of angles, as numbers of the grid's: antipodal corners, corners, extremes of T_2, anything."""
    for k in range(count):
        if k % 4 == 0:
            x = ANGLES * rng.integers(2, size=d)
            yield x, ANGLES - x
        else:
            step = (ANGLES, ANGLES // 2, 1)[k % 4 - 1]
            yield tuple(step * rng.integers(ANGLES // step + 1, size=(2, d)))


def ascend(x, y, move_alone, A, C):
    """Ascent over one column of both rows at a time, in more sweeps than any case needs."""
    for _ in range(10):
        for i in range(len(x)):
            rest = np.arange(len(x)) != i
            gain = move_alone + A[:, None] * A[x[rest]].sum() + A * A[y[rest]].sum() - 2 * C * C[x[rest], y[rest]].sum()
            x[i], y[i] = np.unravel_index(gain.argmax(), gain.shape)


@cache
def worst_rows(name):
    """The largest sum of squares found, and its rows."""
    d, v, w, _ = CASES[name]
    rng = np.random.default_rng(5)
    grid = np.pi * np.arange(ANGLES + 1) / ANGLES
    V, W = (np.cos(np.outer(grid, np.arange(1, len(u) + 1))) * u for u in (v, w))
    move_alone = ((V[:, None] - V) ** 2).sum(axis=2)
    best, best_rows = -1.0, None
    for x, y in starts(d, rng, 12):
        x, y = x.copy(), y.copy()
        ascend(x, y, move_alone, (W**2).sum(axis=1), W @ W.T)
        found = movement((grid[x], grid[y]), v, w, 2)
        if found > best:
            best, best_rows = found, (grid[x], grid[y])
    return best, best_rows


@pytest.mark.daily(3)
@each_case
def test_no_rows_found_move_the_functions_further_than_the_bound(name):
    d, v, w, ratio = CASES[name]
    found, _ = worst_rows(name)
    assert found <= pair_l2_diameter(d, v, w) <= ratio * found


@pytest.mark.parametrize("nodes_per_degree", [1.2, 2, 5])
@pytest.mark.parametrize("degree", [1, 2, 5, 12])
def test_between_nodes_no_polynomial_exceeds_what_ehlich_and_zeller_allow(degree, nodes_per_degree):
    rng = np.random.default_rng(degree)
    nodes = math.ceil(nodes_per_degree * degree + 1e-9)
    angles = np.pi * (np.arange(nodes) + 0.5) / nodes, np.linspace(0.0, np.pi, 40 * degree + 1)
    missed = 0
    for _ in range(40):
        # Of two variables, at all pairs of angles.
        coefficients = rng.standard_normal((degree + 1, degree + 1)) * rng.random((degree + 1, degree + 1)) ** 4
        T, fine = (np.cos(np.outer(one, np.arange(degree + 1))) for one in angles)
        at_nodes, supremum = T @ coefficients @ T.T, (fine @ coefficients @ fine.T).max()
        assert supremum <= sensitivity._between_nodes(at_nodes.min(), at_nodes.max(), degree, nodes)
        missed += supremum > at_nodes.max() * (1 + 1e-9)
    # The planted fault: the largest value at a node.
    assert missed >= 20


@pytest.mark.parametrize("name", ["two columns, decaying", "products of T2 dominate", "equal weights", "decaying"])
@pytest.mark.parametrize("shift", [-3.0, 0.0, 0.7, 40.0])
def test_suprema_are_of_all_pairs_of_nodes(name, shift):
    # What is looked at is the half of all pairs, in blocks; the other half has the same values.
    d, v, w, _ = CASES[name]
    degree = max(2 * len(v), 4 * len(w))
    nodes = sensitivity._NODES * degree
    angles = np.pi * (np.arange(nodes) + 0.5) / nodes
    V, W = (np.cos(np.outer(angles, np.arange(1, len(u) + 1))) * u for u in (v, w))
    A, C, apart = (W**2).sum(axis=1), W @ W.T, ((V[:, None] - V) ** 2).sum(axis=2)
    own = d * sum(a * a for a in w) / 2.0 * A - A**2 / 2.0
    h = apart + own[:, None] + own + C**2 - 2.0 * shift * C
    middle, half = (h.max() + h.min()) / 2.0, (h.max() - h.min()) / 2.0
    expected = middle + half / math.cos(degree * math.pi / (2 * nodes)) ** 2
    assert sensitivity._column_supremum(d, v, w, shift) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("v", [(1.0,), (1.0, 1.0), (0.3, 1.0, 0.4), powers(0.9, 8), (0.0,) * 31 + (1.0,)])
def test_one_column_is_exact_but_for_the_slack(v):
    T = np.cos(np.outer(np.linspace(0.0, np.pi, 1025), np.arange(1, len(v) + 1))) * v
    norms = (T**2).sum(axis=1)
    exact = (norms[:, None] + norms - 2 * T @ T.T).max()
    for d in (1, 7):
        assert d * exact * (1 - 1e-9) <= pair_l2_diameter(d, v, ()) <= d * exact * (1 + SLACK)


weights = st.lists(st.floats(0.0, 2.0), max_size=4)


@settings(max_examples=40, deadline=None)
@given(d=st.integers(1, 40), v=weights, w=weights, data=st.data())
def test_a_larger_weight_never_lowers_the_bounds(d, v, w, data):
    # But for the slack: a supremum on nodes is within it of the true one, and only that is monotone.
    raised = v + w
    if raised:
        raised[data.draw(st.integers(0, len(raised) - 1))] += data.draw(st.floats(0.0, 1.0))
    more = raised[: len(v)], raised[len(v) :]
    assert pair_l2_diameter(d, v, w) <= pair_l2_diameter(d, *more) * (1 + 2 * SLACK) + 1e-280
    assert pair_l1_diameter(d, v, w) <= pair_l1_diameter(d, *more) * (1 + 2 * SLACK) + 1e-140




def test_weights_of_zero_are_no_weights():
    assert pair_l2_diameter(5, (0.0, 0.0), (0.0,)) == pair_l1_diameter(5, (0.0,), ()) == 0.0
    assert pair_l2_diameter(5, (1.0, 0.0), (0.5, 0.0, 0.0)) == pair_l2_diameter(5, [1.0], np.array([0.5]))
    # Nor are those of pairs, where there is no pair.
    for bound in (pair_l2_diameter, pair_l1_diameter):
        assert bound(1, (1.0,), (7.0,)) == bound(1, (1.0,), ())


def test_a_weight_whose_fourth_power_underflows_still_costs_something():
    assert pair_l2_diameter(5, (), (1e-90,)) > 4 * 5 * 1e-360
    assert pair_l2_diameter(5, (1e-200,), ()) > 0.0


# Sums of absolute values


def largest_l1_movement(d, v, w, rng):
    """Coordinate ascent over a few angles, each of both rows in turn."""
    grid = np.pi * np.arange(13) / 12
    best = 0.0
    for _ in range(12):
        rows = rng.choice(grid[:: rng.choice([1, 6, 12])], size=(2, d))
        found = movement(rows, v, w, 1)
        improved = True
        while improved:
            improved = False
            for place in np.ndindex(2, d):
                for angle in grid:
                    kept, rows[place] = rows[place], angle
                    now = movement(rows, v, w, 1)
                    if now > found * (1 + 1e-12):
                        found, improved = now, True
                    else:
                        rows[place] = kept
        best = max(best, found)
    return best


# The last number is the largest ratio of bound and search, measured.
@pytest.mark.parametrize(("d", "v", "w", "ratio"), [
    (1, (1.0, 0.8), (), 1.03), (2, (1.0, 0.5), (0.7, 0.3), 1.2), (3, (), (1.0,), 1.31), (4, (1.0,), (0.1, 1.0), 1.19),
])
def test_no_rows_found_move_the_absolute_sum_further_than_the_bound(d, v, w, ratio):
    found = largest_l1_movement(d, v, w, np.random.default_rng(2))
    assert found <= pair_l1_diameter(d, v, w) <= ratio * found
    # The planted fault: 1 for the movement of one mean, where 2 is right.
    assert found > d * sum(v) + d * (d - 1) / 2 * sum(w) ** 2


@pytest.mark.parametrize("bound", [pair_l2_diameter, pair_l1_diameter])
def test_the_number_of_columns_is_a_positive_integer_and_weights_are_finite_and_not_negative(bound):
    for d in (0, 2.0, True):
        with pytest.raises(ValueError, match="number of columns must be a positive integer"):
            bound(d, (1.0,), (1.0,))
    for bad in (-0.1, math.nan, 1e61, "1"):
        with pytest.raises(ValueError, match="weights of columns must be numbers from 0"):
            bound(3, (1.0, bad), (1.0,))
        with pytest.raises(ValueError, match="weights of pairs must be numbers from 0"):
            bound(3, (1.0,), (bad, 0.0))


# What corners attain, in whole numbers


def corner_sets():
    rng = np.random.default_rng(0)
    for d in range(1, 7):
        columns = np.eye(d, dtype=np.int64)
        pairs = np.array([columns[i] + columns[j] for i, j in combinations(range(d), 2)], dtype=np.int64).reshape(-1, d)
        yield from (columns[:k] for k in range(1, d + 1))
        yield from (np.vstack([columns, pairs[:k]]) for k in range(len(pairs) + 1))
        yield from (pairs[:k] for k in range(1, len(pairs) + 1))
    for _ in range(100):
        yield np.unique(rng.integers(0, 3, size=(rng.integers(1, 12), rng.integers(1, 5))), axis=0)


def test_no_bound_lies_a_rounding_below_what_corners_attain():
    for index in corner_sets():
        # A function is 1 or -1 at a corner, by the parity of its odd degrees among the columns that are -1.
        signs = np.array(list(product((0, 1), repeat=index.shape[1])))
        moved = int((signs @ (index % 2).T % 2).sum(axis=1).max())
        assert Fraction(l1_diameter(index)) >= 2 * moved
        assert Fraction(l2_diameter(index)) ** 2 >= 4 * moved
        for n in (3, 7, 569):
            basis = ChebyshevBasis(index)
            assert Fraction(basis.l1_sensitivity(n)) >= Fraction(2 * moved, n)
            assert Fraction(basis.l2_sensitivity(n)) ** 2 >= Fraction(4 * moved, n * n)


@settings(derandomize=True, max_examples=100)
@given(st.floats(1e-100, 1e100), st.integers(1, 10**9))
def test_roots_and_quotients_are_rounded_up_and_by_no_more_than_one_step(number, n):
    for rounded, near, back in ((root_up(number), math.sqrt(number), lambda x: Fraction(x) ** 2),
                                (quotient_up(number, n), number / n, lambda x: Fraction(x) * n)):
        assert back(rounded) >= Fraction(number)
        assert near <= rounded <= math.nextafter(near, math.inf)
        assert rounded == near or back(near) < Fraction(number)
