"""Rows whose entries move: what they are asked for, single moves, whole descents; and what keeps to a domain."""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest

import trigmech as tm
from trigmech.domain import Domain, OneHotGroup
from trigmech.errors import InputError
from trigmech.functions.chebyshev import ChebyshevBasis
from trigmech.functions.features import Features
from trigmech.functions.index import FunctionIndex
from trigmech.reconstruction.positions import objective_of, points_of, positions_of
from trigmech.reconstruction.rows import RowObjective, independent_rows
from trigmech.reconstruction.targets import MomentTargets, nearest_frequencies
from trigmech.workload import GaussianKernels

# Two numbers, of which one has two special values, two columns of categories, and a number of three levels.
LAYOUT = Domain(10, [OneHotGroup((2, 3), False, 1), OneHotGroup((4, 5, 6), True), OneHotGroup((7, 8), True)],
                [(9, (-1.0, 0.25, 1.0))])


@pytest.fixture
def points():
    rng = np.random.default_rng(1)
    rows = np.zeros((40, 10))
    rows[:, :2] = rng.uniform(-1.0, 1.0, (40, 2))
    rows[:5, 2], rows[5:9, 3], rows[:9, 1] = 1.0, 1.0, 0.0
    rows[np.arange(40), 4 + rng.integers(3, size=40)] = 1.0
    rows[np.arange(40), 7 + rng.integers(2, size=40)] = 1.0
    rows[:, 9] = rng.choice([-1.0, 0.25, 1.0], 40)
    return rows


def asked_for(rng, m):
    """An objective with frequencies, tables of two and three columns and products of up to four, and random rows."""
    sizes = [4, 1, 6, 3]
    features = [rng.uniform(-1.0, 1.0, (size, q)) for size, q in zip(sizes, (2, 0, 3, 1), strict=True)]
    asked = RowObjective(sizes, features)
    asked.frequencies(0, rng.dirichlet(np.ones(4)), 0.7)
    maps = [asked.map(2, np.array([0, 0, 1, 1, 2, 2])), asked.map(0, np.arange(4)), asked.map(3, np.arange(3))]
    asked.table(maps[:2], rng.dirichlet(np.ones(12)).reshape(3, 4), 2.0)
    asked.table(maps, rng.dirichlet(np.ones(36)).reshape(3, 4, 3), 1.0)
    # Features from the number of a column's own on are indicators of its positions.
    columns = np.array([[0, -1, -1, -1], [2, 0, -1, -1], [0, 2, -1, -1], [3, 2, 0, 1], [1, 3, -1, -1], [2, 3, -1, -1]])
    which = np.array([[1, 0, 0, 0], [2, 0, 0, 0], [3, 5, 0, 0], [0, 1, 1, 0], [0, 2, 0, 0], [7, 0, 0, 0]])
    targets = rng.uniform(-0.5, 0.5, 6)
    asked.products(columns, which, targets, rng.uniform(0.5, 2.0, 6))
    rows = np.column_stack([rng.integers(size, size=m) for size in sizes]).astype(np.int32)
    return asked.compiled(), features, columns, which, targets, rows


def test_residuals_of_products_are_sums_over_the_rows():
    fitted, features, columns, which, targets, rows = asked_for(np.random.default_rng(2), 30)
    sums = np.zeros(6)
    for row, r in itertools.product(rows, range(6)):
        value = 1.0
        for c, a in zip(columns[r], which[r], strict=True):
            if c >= 0:
                own = features[c].shape[1]
                value *= features[c][row[c], a] if a < own else float(row[c] == a - own)
        sums[r] += value
    np.testing.assert_allclose(sums - len(rows) * targets, fitted.residuals(rows).products, atol=1e-9)


@pytest.mark.daily(3)
@pytest.mark.parametrize("seed", range(12))
def test_one_step_takes_the_best_position_of_all(seed):
    fitted, *_, rows = asked_for(np.random.default_rng(seed), 8)
    for i, j in itertools.product(range(8), range(4)):
        residuals = fitted.residuals(rows)
        tried = []
        for y in range(fitted.sizes[j]):
            other = rows.copy()
            other[i, j] = y
            tried.append(fitted.value(fitted.residuals(other), 8))
        fitted.sweep(rows, residuals, np.array([i]), np.array([j]))
        assert fitted.value(fitted.residuals(rows), 8) == pytest.approx(min(tried), abs=1e-9)
        # What is kept up to date is what it would be anew.
        for kept, anew in zip(residuals, fitted.residuals(rows), strict=True):
            np.testing.assert_allclose(kept, anew, atol=1e-9)


def test_a_move_that_gains_too_little_is_not_made():
    fitted, *_, rows = asked_for(np.random.default_rng(3), 50)
    still = rows.copy()
    assert fitted.sweep(still, fitted.residuals(still), np.arange(50), np.arange(4), 1e9) == 0
    assert fitted.sweep(rows, fitted.residuals(rows), np.arange(50), np.arange(4)) > 0


@pytest.mark.parametrize("even", [True, "within a table", False])
@pytest.mark.parametrize("whole", [False, True])
def test_rows_are_asked_for_what_was_released(whole, even):
    """Residuals are the features' own means at the rows' points, whatever coordinates a product is of."""
    rng = np.random.default_rng(4)
    degrees = np.array([row for row in itertools.product(*[[0, 1]] * 10) if 0 < sum(row) <= 2])
    degrees = np.vstack([degrees, rng.choice([0, 0, 0, 1, 2, 3], (60, 10))])
    degrees = np.unique(degrees[degrees.any(axis=1)], axis=0)
    features = Features(ChebyshevBasis(degrees), [GaussianKernels(10, seed=0).mean_profile(2.0, 8)] if whole else [])
    index = FunctionIndex.of(features, LAYOUT)
    means, deviations = rng.uniform(-0.5, 0.5, features.K), np.full(features.K, 0.5)
    if not even:
        # Functions of one table have prices of their own, so they are no table.
        deviations = rng.uniform(0.3, 0.7, features.K)
    elif even == "within a table":
        # The entries of the one complete table of two categories have one price, and all others prices of their own.
        held = features.basis.index[:, 4:7].any(axis=1) & features.basis.index[:, 7:9].any(axis=1)
        held &= ~features.basis.index[:, [0, 1, 2, 3, 9]].any(axis=1) & (features.basis.index.sum(axis=1) == 2)
        assert held.sum() == 6
        deviations = np.where(np.append(held, [False] * whole), 0.4, rng.uniform(0.3, 0.7, features.K))
    positions = positions_of(LAYOUT, MomentTargets.explained(index, means, deviations, denoise=True))
    asked = objective_of(index, features, positions, means, deviations).compiled()
    rows = independent_rows([column.masses for column in positions], 500, rng)
    points = np.zeros((500, 10))
    for column, codes in zip(positions, rows.T, strict=True):
        points[:, column.coordinates] = column.values[codes]
    LAYOUT.check(points)
    wanted = (((features.means(points) - means) / deviations) ** 2).sum()
    assert asked.value(asked.residuals(rows), 500) == pytest.approx(wanted, rel=1e-9)
    # The one complete table of two categories is asked for as a table.
    assert asked.size == features.K
    placed, free = points_of(positions, rows, 10, rng)
    LAYOUT.check(placed)
    assert np.abs(np.arccos(placed) - np.arccos(points)).max() <= np.pi / 512 * (1.0 + 1e-9)
    assert set(placed[:, 9]) <= {-1.0, 0.25, 1.0}
    np.testing.assert_array_equal(free.any(axis=0), np.arange(10) < 2)
    assert not free[points[:, 2:4].any(axis=1), 1].any()


def test_positions_of_each_column_have_its_own_masses():
    frequencies = [np.array([0.1, 0.2]), np.array([0.5, 0.3, 0.2]), np.array([0.6, 0.4])]
    marginals = SimpleNamespace(masses=lambda column, edges: np.full(len(edges) - 1, (column + 1.0) / (len(edges) - 1)))
    found = positions_of(LAYOUT, SimpleNamespace(frequencies=frequencies, marginals=marginals))
    assert [column.coordinates.tolist() for column in found] == [[0], [2, 3, 1], [4, 5, 6], [7, 8], [9]]
    assert [column.indicators for column in found] == [0, 2, 3, 2, 0]
    # Of the numbers, the first, second and third have the sums 1, 2 and 3 here; special values come first.
    np.testing.assert_allclose([column.masses.sum() for column in found], [1.0, 0.3 + 0.7 * 2.0, 1.0, 1.0, 3.0])
    np.testing.assert_array_equal(found[1].masses[:2], frequencies[0])
    for column, own in ((found[2], frequencies[1]), (found[3], frequencies[2])):
        np.testing.assert_array_equal(column.masses, own)
        np.testing.assert_array_equal(column.values, np.eye(len(own)))
    np.testing.assert_array_equal(found[4].values[:, 0], [-1.0, 0.25, 1.0])
    assert [column.between for column in found] == [True, True, False, False, False]


@pytest.mark.daily("True")
@pytest.mark.parametrize("complete", [True, False])
def test_nearest_frequencies_are_the_projection(complete):
    rng = np.random.default_rng(12)
    grid = np.stack(np.meshgrid(*[np.linspace(0.0, 1.0, 101)] * 3, indexing="ij"), axis=-1).reshape(-1, 3)
    total = grid.sum(axis=1)
    grid = grid[np.abs(total - 1.0) < 1e-9] if complete else grid[total <= 1.0 + 1e-9]
    for _ in range(20):
        noisy = rng.normal(1.0 / 3.0, 0.4, 3)
        nearest = nearest_frequencies(noisy, complete)
        assert nearest.min() >= 0.0
        assert nearest.sum() <= 1.0 + 1e-12
        assert not complete or nearest.sum() == pytest.approx(1.0, rel=1e-12)
        assert np.linalg.norm(nearest - noisy) <= np.linalg.norm(grid - noisy, axis=1).min() + 1e-12


@pytest.mark.parametrize(("column", "value"), [(4, 0.5), (2, -1.0), (3, 1.0 + 1e-9), (7, np.nan)])
def test_rows_that_break_their_layout_are_refused(points, column, value):
    LAYOUT.check(points)
    points[0, column] = value
    with pytest.raises(InputError, match="indicators"):
        LAYOUT.check(points)


def test_two_categories_none_and_a_number_beside_a_special_value_are_refused(points):
    for change in ((slice(4, 7), 1.0), (slice(4, 7), 0.0), (slice(2, 4), 1.0)):
        broken = points.copy()
        broken[0, change[0]] = change[1]
        with pytest.raises(InputError):
            LAYOUT.check(broken)
    broken = points.copy()
    broken[0, [1, 2, 3]] = 0.5, 1.0, 0.0
    with pytest.raises(InputError):
        LAYOUT.check(broken)


@pytest.mark.parametrize("groups", [[OneHotGroup((), True)], [OneHotGroup((0, 0), True)], [OneHotGroup((9,), True)],
                                    [OneHotGroup((0, 1), True), OneHotGroup((1, 2), True)],
                                    [OneHotGroup((0, 1), False, 1)],
                                    [OneHotGroup((0,), False, 2), OneHotGroup((1,), False, 2)]])
def test_impossible_layouts_are_refused(groups):
    with pytest.raises(InputError):
        Domain(3, groups)


@pytest.mark.parametrize("special", [pytest.param((), marks=pytest.mark.nightly), (0.0,)])
def test_columns_that_are_missing_together_are_missing_together_in_the_release(special):
    rng, n = np.random.default_rng(3), 20_000
    table = np.clip(rng.normal(0.0, 0.4, (n, 5)), -1.0, 1.0)
    table[rng.random(n) < 0.03, :4] = np.nan
    schema = tm.Schema([tm.Column(name, -1, 1, missing="keep", special=special) for name in "abcd"]
                       + [tm.Column("e", -1, 1)])
    made = tm.synthesize(table, schema, tm.Budget(1.0, 1e-6), tm.MomentMechanism(points=1024), rng=rng)
    missing = np.isnan(made.sample(n))[:, :4].astype(float)
    assert np.abs(missing.T @ missing / n - 0.03).max() < 0.012
