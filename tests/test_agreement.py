"""Tables that agree with the columns and products of ranks: against dense least squares, integrals, fitted rows."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.special import ndtr, ndtri

import trigmech as tm
from trigmech.distribution import systematic
from trigmech.functions.partition import Partition, even_edges
from trigmech.functions.released_column import ReleasedColumn
from trigmech.queries.joint import Marginal, Products
from trigmech.reconstruction.agreement import Agreement, cell_means, corrected
from trigmech.reconstruction.copula import Copula, _coefficients
from trigmech.reconstruction.sparse import LARGEST, TableEstimate
from trigmech.reconstruction.tables import Targets

NOISE = 2e-3


def least_squares(table, variance, masses, noise, scores, means, deviations):
    """The same by dense least squares over all cells: one equation for each cell and for each measurement."""
    a, b = table.shape
    equations, wanted, error = [], [], []
    for i in range(a):
        equations.append(np.repeat(np.arange(a) == i, b))
        wanted.append(masses[0][i])
        error.append(noise)
    for j in range(b):
        equations.append(np.tile(np.arange(b) == j, a))
        wanted.append(masses[1][j])
        error.append(noise)
    for x in range(scores[0].shape[1]):
        for y in range(scores[1].shape[1]):
            equations.append(np.outer(scores[0][:, x], scores[1][:, y]).ravel())
            wanted.append(means[x, y])
            error.append(deviations[x, y])
    held = variance.ravel() > 0.0
    equations, error = np.array(equations, dtype=float), np.array(error)
    left = (np.array(wanted) - equations @ table.ravel()) / error
    spread = np.sqrt(variance.ravel()[held])
    stacked = np.vstack([np.eye(held.sum()), equations[:, held] * spread / error[:, None]])
    made = table.ravel().copy()
    made[held] += spread * np.linalg.lstsq(stacked, np.concatenate([np.zeros(held.sum()), left]), rcond=None)[0]
    return made.reshape(a, b)


def case(seed, shape=(6, 5), scores=(2, 3)):
    rng = np.random.default_rng(seed)
    table, masses = rng.uniform(0.0, 0.1, shape), [rng.dirichlet(np.ones(size)) for size in shape]
    table[1, 2] = 0.0
    features = [rng.uniform(-1.0, 1.0, (size, q)) for size, q in zip(shape, scores, strict=True)]
    return (table, table * rng.uniform(0.2, 2.0, shape) * NOISE, masses, NOISE, features,
            rng.uniform(-0.1, 0.1, scores), rng.uniform(0.5, 2.0, scores) * NOISE)


@pytest.mark.parametrize("seed", range(3))
def test_the_correction_is_that_of_dense_least_squares(seed):
    given = case(seed)
    made = corrected(*given)
    np.testing.assert_allclose(made, least_squares(*given), atol=1e-12)
    assert made[1, 2] == 0.0
    table, variance, masses, noise = given[:4]
    alone = least_squares(table, variance, masses, noise, [np.zeros((6, 0)), np.zeros((5, 0))], None, None)
    np.testing.assert_allclose(corrected(table, variance, masses, noise), alone, atol=1e-12)


def test_what_is_measured_without_noise_is_met():
    table, variance, masses, _, scores, means, deviations = case(3)
    made = corrected(table, variance, masses, 1e-7, scores, means, deviations * 1e-4)
    np.testing.assert_allclose(made.sum(axis=1), masses[0], atol=1e-6)
    np.testing.assert_allclose(made.sum(axis=0), masses[1], atol=1e-6)
    np.testing.assert_allclose(scores[0].T @ made @ scores[1], means, atol=1e-6)


def test_scores_of_cells_are_means_over_their_positions_by_mass():
    mass, cells = np.array([0.1, 0.3, 0.0, 0.6, 0.0]), np.array([0, 0, 0, 1, 2])
    features = np.arange(10.0).reshape(5, 2)
    made = cell_means(mass, cells, features)
    np.testing.assert_allclose(made, [(0.1 * features[0] + 0.3 * features[1]) / 0.4, features[3], [0.0, 0.0]])
    assert cell_means(mass, cells, np.zeros((5, 0))).shape == (3, 0)


def numbers(masses):
    return [ReleasedColumn(Partition((), j, even_edges(None, len(mass))), mass, 1e-4)
            for j, mass in enumerate(masses)]


def normal_pair(correlation, size=48, each=2):
    """Two columns of even mass under a normal copula, cells of ``each`` positions, and their first two cosines."""
    columns = numbers([np.full(size, 1.0 / size)] * 2)
    places = np.arange(1.0 * size)
    copula = Copula(np.array([[1.0, correlation], [correlation, 1.0]]),
                    tuple(_coefficients(column.mass, places) for column in columns), (places, places))
    features = [np.cos(np.pi * column.ranks[:, None] * np.array([1, 2])) for column in columns]
    return columns, copula, features, np.arange(size) // each


@pytest.mark.parametrize("correlation", [0.0, 0.6, -0.9])
def test_the_part_within_cells_is_what_the_copula_has_beyond_its_cells(correlation):
    columns, copula, features, cells = normal_pair(correlation)
    partitions, alone = tuple(column.partition for column in columns), np.arange(48)
    coarse = [cell_means(column.mass, cells, own) for column, own in zip(columns, features, strict=True)]
    whole = features[0].T @ copula.table(Marginal((0, 1), partitions, (alone, alone))) @ features[1]
    between = coarse[0].T @ copula.table(Marginal((0, 1), partitions, (cells, cells))) @ coarse[1]
    found = copula.within((0, 1), features, [own[cells] for own in coarse])
    # The series for whole tables ends with small negative numbers, which they leave out.
    np.testing.assert_allclose(found, whole - between, atol=1e-6 if abs(correlation) < 0.9 else 3e-4)
    assert (abs(found[0, 0]) > 1e-4) == (correlation != 0.0)


class Known:
    """What an agreement reads of a release."""

    def __init__(self, columns, products=None):
        self.columns, self.products = columns, products


class Value:
    """A measurement with its noise."""

    def __init__(self, query, means, deviation):
        self.query, self.means, self.deviation = query, means, deviation


def released(correlation, deviation=1e-3, wrong=0.0):
    """A pair with the copula's products, its table in cells, and an estimate without a tenth of the dependence."""
    columns, copula, features, cells = normal_pair(correlation)
    partitions, alone = tuple(column.partition for column in columns), np.arange(48)
    query = Marginal((0, 1), partitions, (cells, cells))
    true = copula.table(query)
    whole = features[0].T @ copula.table(Marginal((0, 1), partitions, (alone, alone))) @ features[1]
    scores = tuple(np.rint(own * 2**15).astype(np.int64) for own in features)
    products = Value(Products(partitions, scores, np.array([[0, 1]])), whole.ravel() + wrong, deviation)
    weak = 0.9 * true + 0.1 * np.outer(true.sum(axis=1), true.sum(axis=0))
    return Known(columns, products), copula, Value(query, true, NOISE), true, weak


@pytest.mark.parametrize("correlation", [0.6, -0.9])
def test_an_estimate_gets_back_the_dependence_that_it_lost(correlation):
    release, copula, measured, true, weak = released(correlation)
    known = TableEstimate(weak, np.full(weak.shape, NOISE), False)
    made = Agreement(release, copula).of(measured, known).table
    scores = [cell_means(column.mass, cells, own) for column, cells, own in zip(
        release.columns, measured.query.maps, release.products.query.features, strict=True)]
    lost, left = (np.abs(scores[0].T @ (each - true) @ scores[1]).max() for each in (weak, made))
    assert left < 0.15 * lost
    assert np.abs(made - true).sum() < 0.6 * np.abs(weak - true).sum()
    np.testing.assert_allclose(made.sum(axis=0), 1.0 / 24.0, atol=NOISE)
    # Without products of this pair, only the sums of rows and columns are known.
    alone = Agreement(Known(release.columns), copula).of(measured, known).table
    np.testing.assert_allclose(alone, weak, atol=1e-4)
    heavy = TableEstimate(1.1 * weak, known.deviation, False)
    np.testing.assert_allclose(Agreement(Known(release.columns), None).of(measured, heavy).table.sum(axis=1),
                               1.0 / 24.0, atol=NOISE)


def test_a_product_moves_a_table_the_less_the_noisier_it_is():
    release, copula, measured, true, _ = released(0.6, 1e-3, 4e-3)
    exact, doubtful = (
        Agreement(Known(release.columns, Value(release.products.query, release.products.means, deviation)), copula).of(
            measured, TableEstimate(true, np.full(true.shape, NOISE), False)).table - true for deviation in (1e-6, 1.0))
    assert np.abs(doubtful).max() < 1e-2 * np.abs(exact).max()


def test_a_product_counts_by_its_noise_and_by_what_lies_within_cells():
    release, copula, measured, _, weak = released(0.6)
    columns, (cells, _), query = release.columns, measured.query.maps, release.products.query
    coarse = [cell_means(column.mass, cells, own) for column, own in zip(columns, query.features, strict=True)]
    within = copula.within((0, 1), query.features, [own[cells] for own in coarse])
    expected = least_squares(weak, NOISE * (NOISE * weak / (NOISE + weak)), [np.full(24, 1.0 / 24.0)] * 2, NOISE,
                             coarse, release.products.means.reshape(2, 2) - within, np.sqrt(1e-6 + within**2))
    made = Agreement(release, copula).of(measured, TableEstimate(weak, np.full(weak.shape, NOISE), False))
    np.testing.assert_allclose(made.table, expected, atol=1e-9)


@pytest.mark.parametrize("change", ["sparse", "small", "huge", "no noise"])
def test_estimates_that_are_certain_small_or_only_noise_remain(change):
    release, copula, measured, _, weak = released(0.6)
    known = TableEstimate(weak, np.full(weak.shape, NOISE), change == "sparse")
    if change == "small":
        known = TableEstimate(weak[:7, :7], known.deviation[:7, :7], False)
    if change == "huge":
        known = TableEstimate(weak * LARGEST, known.deviation, False)
    if change == "no noise":
        measured = Value(measured.query, measured.means, 0.0)
    assert Agreement(release, copula).of(measured, known) is known


@pytest.mark.parametrize("product", [1e300, -1e300, 1e-300])
def test_a_product_that_no_rows_have_leaves_targets_of_ordinary_size(product):
    release, copula, measured, _, weak = released(0.6)
    release.products.means = np.full(4, product)
    with np.errstate(all="raise", under="ignore"):
        made = Agreement(release, copula).of(measured, TableEstimate(weak, np.full(weak.shape, NOISE), False))
    assert np.abs(made.table).max() < 10.0


@pytest.mark.parametrize("deviation", [1e-300, 1e-30, 1e-12])
@pytest.mark.parametrize("correlation", [0.0, 0.6])
def test_products_of_any_noise_and_scores_of_few_cells_leave_a_solution(deviation, correlation):
    """Scores that are the same in all cells, and much more exact than these, would make the equations singular."""
    release, copula, measured, _, weak = released(correlation, deviation)
    release.products.query = replace(release.products.query, scores=tuple(
        np.repeat(own[:, :1], 2, axis=1) for own in release.products.query.scores))
    with np.errstate(all="raise", under="ignore"):
        made = Agreement(release, copula).of(measured, TableEstimate(weak, np.full(weak.shape, NOISE), False))
    assert np.abs(made.table).max() < 10.0
    np.testing.assert_allclose(made.table.sum(axis=0), 1.0 / 24.0, atol=NOISE)


def correlated(n):
    """Numbers that hang together in several ways, one of them in no normal way."""
    normal = np.random.default_rng(n).normal(size=(n, 3))
    first = normal[:, 0]
    second = 0.9 * first + 0.436 * normal[:, 1]
    third = 0.6 * second - 0.5 * first + 0.4 * normal[:, 2]
    return np.clip(np.column_stack([first, second, third, first**2 + 0.3 * normal[:, 2] - 2.0]) / 4.0, -1.0, 1.0)


def released_of(table, seed):
    return tm.synthesize(table, tm.Schema.cube(4), tm.Budget(10.0, 1e-6), tm.TableMechanism(),
                         np.random.default_rng(seed))


@pytest.fixture(scope="module")
def made():
    table = correlated(4_000)
    found = released_of(table, 1)
    return table, found.release, found.distribution.points


def apart(release, points):
    """How far the rows are from the released products, and their columns from their ranks, in units of the noise."""
    measured, query = release.products, release.products.query
    held = [np.bincount(column.partition.codes(points), minlength=len(column.mass)) / len(points)
            for column in release.columns]
    columns = [(own - column.mass) @ feature for own, column, feature in
               zip(held, release.columns, query.features, strict=True)]
    return ((query.means(points) - Targets(release).products) / measured.deviation,
            np.concatenate(columns) / measured.deviation)


def test_rows_have_the_products_and_their_columns_keep_their_ranks(made):
    """The means of products are met within their noise, and not by more rows at both ends of the columns."""
    table, *first = made
    each = [first, *((found.release, found.distribution.points) for found in (released_of(table, 2),
                                                                              released_of(table, 3)))]
    products, columns = np.mean([[np.sqrt(np.square(own).mean()) for own in apart(*one)] for one in each], axis=0)
    # The means of eight releases are .55 and .34, and their deviations .08 and .06.
    assert products < 0.68
    assert columns < 0.4


def test_correlations_of_ranks_are_as_exact_as_the_products(made):
    table, _, points = made
    ranks = [np.corrcoef(np.argsort(np.argsort(each, axis=0), axis=0).T)[np.triu_indices(4, 1)]
             for each in (table, points)]
    assert np.abs(ranks[0] - ranks[1]).mean() < 0.009


def test_cells_are_asked_for_and_positions_are_not(made):
    """No score differs between the positions of a cell, so that nothing is gained by moves within cells."""
    _, release, _ = made
    targets = Targets(release)
    asked = targets.objective(1_000)
    for j, column in enumerate(targets.release.columns):
        cells, scores = asked.joint_cells(j), asked._feature[:3, asked._first[j] : asked._first[j + 1]]
        mean = np.array([np.bincount(cells, weights=column.mass * own) for own in scores])
        held = np.bincount(cells, weights=column.mass)
        occupied = held[cells] > 0.0
        np.testing.assert_allclose(scores[:, occupied], (mean / np.maximum(held, 1e-300))[:, cells][:, occupied],
                                   atol=1e-9)
        assert len(np.unique(cells)) < len(column.mass)


def test_products_without_tables_are_asked_of_positions(made):
    _, release, _ = made
    targets = Targets(release)
    targets.pairs = []
    asked = targets.objective(1_000)
    features = release.products.query.features
    for j, column in enumerate(targets.release.columns):
        own, held = asked._feature[:3, asked._first[j] : asked._first[j + 1]], column.mass > 0.0
        np.testing.assert_allclose(own[:, held], features[j].T[:, held])


def test_the_normal_scores_of_the_fixture_are_what_they_should_be():
    """A planted check of the oracle: the copula's first product of even ranks is that of the integral."""
    _, copula, features, _ = normal_pair(0.6, 400, 4)
    grid = ndtri((np.arange(2_000) + 0.5) / 2_000)
    inner = ndtr((grid[None, :] - 0.6 * grid[:, None]) / 0.8)
    density = np.diff(np.concatenate([np.zeros((2_000, 1)), inner], axis=1), axis=1)
    ranks = (np.arange(2_000) + 0.5) / 2_000
    expected = (np.cos(np.pi * ranks) * (density @ np.cos(np.pi * ranks))).mean()
    found = copula.within((0, 1), features, [np.zeros_like(each) for each in features])[0, 0]
    assert found == pytest.approx(expected, abs=2e-3)


def test_empty_categories_add_nothing_to_the_objective_until_a_row_is_in_them():
    """Otherwise columns with many of them would end a descent, which stops at small gains relative to the objective."""
    rng = np.random.default_rng(3)
    for count in (3, 40):
        names = tuple(f"c{i}" for i in range(count))
        schema = tm.Schema([tm.Column("one", kind="categorical", categories=names), tm.Column("two", 0.0, 1.0)])
        table = pd.DataFrame({"one": np.array(names)[np.arange(2_000) % 2], "two": (np.arange(2_000) % 100) / 99.0})
        release = tm.synthesize(table, schema, tm.Budget(1e4, 1e-6), None, np.random.default_rng(1)).release
        targets = Targets(release)
        objective = targets.objective(2_000)
        column = targets.release.columns[0]
        rows = np.column_stack([rng.permutation(np.arange(2_000) % 2),
                                systematic(targets.release.columns[1].mass, 2_000, rng)]).astype(np.int32)
        plain = targets.objective(2_000)
        plain.frequencies(0, column.mass, plain._frequency_weights[0], -plain.constant)
        values = [each.compiled().value(each.compiled().residuals(rows), 2_000) for each in (objective, plain)]
        assert values[0] == pytest.approx(values[1], rel=1e-9)
        rows[0, 0] = 2
        values = [each.compiled().value(each.compiled().residuals(rows), 2_000) for each in (objective, plain)]
        # One row in an empty category costs as much as three too many would: 9 - 4 in place of 1.
        assert values[0] - values[1] == pytest.approx(4.0 * plain._frequency_weights[0] / 2_000**2, rel=1e-3)
