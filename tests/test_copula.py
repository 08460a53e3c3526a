"""The normal copula: tables and products against integrals, correlations found again, rows arranged, cells kept."""

import pickle

import numpy as np
import pytest
from scipy.special import ndtri
from scipy.stats import kstest, multivariate_normal, norm, spearmanr

from trigmech.functions.partition import Partition, even_edges
from trigmech.functions.released_column import ReleasedColumn
from trigmech.queries.base import Measurement
from trigmech.queries.directions import SCORE_BITS, Directions
from trigmech.queries.joint import Marginal, Products
from trigmech.reconstruction import copula as module
from trigmech.reconstruction import directed
from trigmech.reconstruction.copula import Copula


def number(mass, value=0, indicators=()):
    mass = np.asarray(mass, dtype=np.float64)
    partition = Partition(tuple(indicators), value, even_edges(None, len(mass) - len(indicators)))
    return ReleasedColumn(partition, mass / mass.sum(), 0.01)


def categories(mass, first=0):
    mass = np.asarray(mass, dtype=np.float64)
    return ReleasedColumn(Partition(tuple(range(first, first + len(mass))), None, np.empty(0)), mass / mass.sum(), 0.01)


def copula_of(columns, correlation):
    orders = tuple(module._order(column, np.arange(1.0 * len(column.mass))) for column in columns)
    coefficients = [module._coefficients(column.mass, order) for column, order in zip(columns, orders, strict=True)]
    return Copula(np.asarray(correlation, dtype=np.float64), tuple(coefficients), orders)


@pytest.mark.parametrize("correlation", [0.0, 0.3, -0.7, 0.9])
def test_the_table_of_two_columns_is_the_integral_over_their_cells(correlation):
    columns = number([0.1, 0.2, 0.3, 0.4]), categories([0.5, 0.2, 0.3], 1)
    made = copula_of(columns, [[1.0, correlation], [correlation, 1.0]]).table(Marginal(
        (0, 1), tuple(column.partition for column in columns), (np.array([0, 0, 1, 2]), np.arange(3))))
    ends = [ndtri(np.clip(np.append(0.0, np.cumsum(mass)), 1e-14, 1.0 - 1e-14)) for mass in
            ([0.3, 0.3, 0.4], [0.5, 0.2, 0.3])]
    below = np.array([[multivariate_normal.cdf([a, b], cov=[[1.0, correlation], [correlation, 1.0]])
                       for b in ends[1]] for a in ends[0]])
    np.testing.assert_allclose(made, np.diff(np.diff(below, axis=0), axis=1), atol=1e-4)
    np.testing.assert_allclose(made.sum(), 1.0)


def test_special_values_of_a_number_do_not_depend_on_anything():
    columns = number([0.3, 0.1, 0.2, 0.4], 1, (0,)), number([1.0, 2.0, 1.0], 2)
    made = copula_of(columns, [[1.0, 0.8], [0.8, 1.0]]).table(Marginal(
        (0, 1), tuple(column.partition for column in columns), (np.arange(4), np.arange(3))))
    np.testing.assert_allclose(made[0], 0.3 * columns[1].mass, atol=1e-12)
    assert made[3, 2] > 0.4 * 0.25 * 1.5


def scored(columns, degree):
    scores = []
    for column in columns:
        k = len(column.partition.indicators)
        values = np.zeros((len(column.mass), degree))
        values[k:] = np.cos(np.pi * column.ranks[k:, None] * np.arange(1, degree + 1)) / np.arange(1, degree + 1)
        scores.append(np.rint(values * 2**15).astype(np.int64))
    return tuple(scores)


def test_products_of_a_known_correlation_give_it_back():
    columns = [number(np.ones(50), 0), number(np.linspace(1.0, 4.0, 60), 1)]
    products = Products(tuple(column.partition for column in columns), scored(columns, 2), np.array([[0, 1]]))
    rng = np.random.default_rng(0)
    for correlation in (-0.8, 0.0, 0.25, 0.6):
        z = rng.normal(size=(400_000, 2)) @ np.linalg.cholesky([[1.0, correlation], [correlation, 1.0]]).T
        codes = [np.searchsorted(column.normal_ends, z[:, j]) for j, column in enumerate(columns)]
        features = products.features
        means = np.array([(features[0][codes[0], a] * features[1][codes[1], b]).mean()
                          for _, _, a, b in products.factors.tolist()])
        alone = np.array([(features[0][:, a] @ columns[0].mass) * (features[1][:, b] @ columns[1].mass)
                          for _, _, a, b in products.factors.tolist()])
        found = Copula.by_products(columns, products, means - alone).correlations[0, 1]
        assert found == pytest.approx(correlation, abs=0.012)


def directions_of(columns):
    return Directions(tuple(column.partition for column in columns), tuple(
        np.rint(column.normal_scores * 2**SCORE_BITS).astype(np.int64) for column in columns))


def test_directions_of_known_correlations_give_them_back():
    columns = [number(np.ones(40), 0), number(np.linspace(1.0, 9.0, 64), 1), number(np.exp(-np.linspace(0, 4, 64)), 2),
               categories([3.0, 2.0, 1.0, 2.0], 3), number([20.0, *np.ones(30)], 8, (7,)), number(np.ones(16), 9)]
    factors = np.random.default_rng(4).normal(size=(6, 2))
    truth = factors @ factors.T + np.diag(np.random.default_rng(5).random(6) + 0.5)
    truth /= np.sqrt(np.outer(np.diag(truth), np.diag(truth)))
    query, rng = directions_of(columns), np.random.default_rng(1)
    z = rng.normal(size=(200_000, 6)) @ np.linalg.cholesky(truth).T
    ends = [column.normal_ends for column in columns]
    codes = np.column_stack([len(column.mass) - len(own) - 1 + np.searchsorted(own, z[:, j])
                             for j, (column, own) in enumerate(zip(columns, ends, strict=True))])
    codes[rng.random(len(codes)) < columns[4].mass[0], 4] = 0
    entries = query.entries(codes)
    means = (entries.T @ entries / len(entries))[tuple(query.pairs.T)]
    noise = 1e-4
    found = Copula.by_directions(columns, Measurement(query, 1.0, means, noise)).correlations
    # Twelve steps towards the measured products leave a part of those that hardly change with correlations.
    assert np.abs(found - truth).mean() < 0.03
    assert np.abs(found - truth).max() < 0.1
    assert Copula.by_directions(columns, Measurement(query, 1.0, 0.01 * rng.normal(size=15), 1.0)) is None


def test_the_nearest_possible_matrix_is_possible_and_nearest():
    rng = np.random.default_rng(2)
    given = rng.normal(size=(8, 8))
    given = 0.5 * (given + given.T)
    np.fill_diagonal(given, 1.0)
    made = directed.nearest_possible(given)
    assert np.linalg.eigvalsh(made).min() > -5e-3
    np.testing.assert_allclose(np.diag(made), 1.0)
    # No possible matrix is on the other side of the plane through it: the projection's own law (Kolmogorov).
    for _ in range(200):
        x = rng.normal(size=(8, rng.integers(1, 9)))
        other = x @ x.T
        other /= np.sqrt(np.outer(np.diag(other), np.diag(other)))
        assert ((given - made) * (other - made)).sum() < 0.05


def test_rows_are_arranged_by_the_copula_and_keep_their_columns():
    columns = [number(np.ones(60), 0), number(np.linspace(1.0, 3.0, 40), 1), categories(np.ones(5), 2)]
    truth = np.array([[1.0, 0.6, -0.5], [0.6, 1.0, 0.0], [-0.5, 0.0, 1.0]])
    rng = np.random.default_rng(6)
    rows = np.column_stack([rng.choice(len(c.mass), 20_000, p=c.mass) for c in columns]).astype(np.int32)
    before = np.sort(rows, axis=0)
    copula_of(columns, truth).arrange(rows, rng)
    np.testing.assert_array_equal(np.sort(rows, axis=0), before)
    wanted = 6.0 / np.pi * np.arcsin(truth / 2.0)
    np.testing.assert_allclose(spearmanr(rows).statistic, wanted, atol=0.03)


def test_within_cells_rows_follow_the_copula_and_cells_stay():
    columns = [number(np.ones(200), 0), number(np.ones(200), 1)]
    truth = np.array([[1.0, 0.7], [0.7, 1.0]])
    rng = np.random.default_rng(7)
    rows = np.column_stack([rng.permutation(np.repeat(np.arange(200), 100)) for _ in columns]).astype(np.int32)
    copula_of(columns, truth).arrange(rows, rng)
    whole = spearmanr(rows).statistic
    cells = [np.arange(200) // 25] * 2
    # Moved within cells at random, as a descent does.
    mixed = rows.copy()
    for j in range(2):
        for cell in range(8):
            held = np.flatnonzero(cells[j][mixed[:, j]] == cell)
            mixed[held, j] = rng.permutation(mixed[held, j])
    made = mixed.copy()
    copula_of(columns, truth).arrange_within(made, cells, rng)
    for j in range(2):
        np.testing.assert_array_equal(cells[j][made[:, j]], cells[j][mixed[:, j]])
        np.testing.assert_array_equal(np.sort(made[:, j]), np.sort(mixed[:, j]))
    assert whole - spearmanr(mixed).statistic > 0.01
    assert spearmanr(made).statistic == pytest.approx(whole, abs=0.004)


def test_tables_of_columns_that_share_a_map_are_those_of_maps_of_their_own():
    columns, cells = [number([0.1, 0.2, 0.3, 0.4]), number([0.4, 0.1, 0.1, 0.4]), number(np.ones(4))], np.arange(4) // 2
    truth = [[1.0, 0.5, 0.2], [0.5, 1.0, -0.6], [0.2, -0.6, 1.0]]
    shared = copula_of(columns, truth)
    for pair in ((0, 1), (0, 2), (1, 2)):
        partitions = tuple(columns[j].partition for j in pair)
        one, own = (made.table(Marginal(pair, partitions, maps)) for made, maps in (
            (shared, (cells, cells)), (copula_of(columns, truth), (cells.copy(), cells.copy()))))
        np.testing.assert_array_equal(one, own)
    copied = pickle.loads(pickle.dumps(shared))
    for made in (shared, copied):
        # The map that had this number may be gone.
        made._known[0, id(cells)] = np.arange(4), np.zeros((4, module.TERMS + 1))
        assert made.table(Marginal((0, 1), tuple(column.partition for column in columns[:2]), (cells, cells))).any()


def test_cells_of_any_positions_stay():
    columns = [number(np.ones(200), 0), number(np.ones(200), 1)]
    rng = np.random.default_rng(9)
    rows = np.column_stack([rng.permutation(np.repeat(np.arange(200), 10)) for _ in columns]).astype(np.int32)
    # Of two stretches each, so that another cell lies between them.
    cells, made = [np.arange(200) // 25 % 4] * 2, rows.copy()
    copula_of(columns, [[1.0, 0.7], [0.7, 1.0]]).arrange_within(made, cells, rng)
    for j in range(2):
        np.testing.assert_array_equal(cells[j][made[:, j]], cells[j][rows[:, j]])
        np.testing.assert_array_equal(np.sort(made[:, j]), np.sort(rows[:, j]))
    assert spearmanr(made).statistic > spearmanr(rows).statistic + 0.1


@pytest.mark.parametrize("bounds", [(-0.5, 0.7), (2.0, 2.5), (-np.inf, -1.0), (-9.0, -8.0), (-np.inf, np.inf)])
def test_truncated_normal_values_have_their_distribution_and_a_shifted_one_does_not(bounds):
    least, most = bounds
    rng = np.random.default_rng(8)
    made = module.truncated(np.full(4000, 0.3), 1.2, np.full(4000, least), np.full(4000, most), rng)
    assert ((made >= least) & (made <= most)).all()

    def distribution(x, mean):
        low, high, value = (norm.cdf((each - mean) / 1.2) for each in (least, most, x))
        return (value - low) / (high - low)

    assert kstest(made, lambda x: distribution(x, 0.3)).pvalue > 1e-4
    assert kstest(made, lambda x: distribution(x, 2.3)).pvalue < 1e-4


def test_beyond_what_floats_tell_apart_values_stay_between_their_bounds():
    made = module.truncated(np.zeros(50), 1.0, np.full(50, 60.0), np.full(50, 61.0), np.random.default_rng(0))
    assert ((made >= 60.0) & (made <= 61.0)).all()
