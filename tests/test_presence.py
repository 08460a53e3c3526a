"""Presence of numbers, in directions and products and in the copula: tables, correlations found again, and rows."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import ndtri
from test_copula import categories, number

import trigmech as tm
from trigmech.functions.released_column import LEAST_APART
from trigmech.planning.dependence import _scores, _with_absence, directions_of
from trigmech.planning.shares import Shares
from trigmech.queries.base import Measurement
from trigmech.queries.book import Book, Numbers
from trigmech.queries.joint import Marginal, Products
from trigmech.reconstruction import copula as module
from trigmech.reconstruction.copula import Copula, Presence

# Two numbers that are often absent, one of them in two ways; a number that is always there; and categories.
COLUMNS = (number([0.3, 0.1, 0.2, 0.3, 0.1], 0, (1,)), number([0.2, 0.15, 0.2, 0.2, 0.25], 2, (3, 4)),
           number([1.0, 2.0, 3.0], 5), categories([0.5, 0.2, 0.3], 6))
# The variables of the columns, then those of the presence of the first two.
ORDINARY = {(0, 1): 0.5, (0, 2): 0.2, (1, 2): 0.3, (0, 3): -0.2, (4, 5): 0.5, (2, 4): -0.3,
            (1, 4): 0.2, (2, 5): 0.15, (3, 4): 0.35, (3, 5): 0.1}
STRONG = {(4, 5): 0.95, (2, 4): 0.8, (2, 5): 0.75, (0, 1): 0.6}


def correlations_of(given):
    made = np.eye(6)
    for (j, h), value in given.items():
        made[j, h] = made[h, j] = value
    assert np.linalg.eigvalsh(made).min() > 0.0
    return made


def copula_of(given, columns=COLUMNS, presence=(0, 1)):
    orders = tuple(module._order(column, np.arange(1.0 * len(column.mass))) for column in columns)
    coefficients = tuple(module._coefficients(column.mass, order)
                         for column, order in zip(columns, orders, strict=True))
    return Copula(correlations_of(given), coefficients, orders, tuple(
        Presence.of(j, columns[j].absent, coefficients[j], orders[j]) for j in presence))


def drawn(given, count, rng, columns=COLUMNS):
    """Rows by the definition: a number where the second variable is high, at the rank of the first one."""
    z = rng.normal(size=(count, 6)) @ np.linalg.cholesky(correlations_of(given)).T
    codes = np.empty((count, len(columns)), dtype=np.int32)
    for j, column in enumerate(columns):
        k = len(column.mass) - len(column.normal_ends) - 1
        codes[:, j] = k + np.searchsorted(column.normal_ends, z[:, j])
        if k:
            gone = np.flatnonzero(z[:, 4 + j] < ndtri(column.absent))
            codes[gone, j] = rng.choice(k, len(gone), p=column.mass[:k] / column.absent)
    return codes


def independent(columns, count, rng):
    return np.column_stack([rng.choice(len(column.mass), count, p=column.mass) for column in columns]).astype(np.int32)


def table_of(codes, j, h):
    shape = len(COLUMNS[j].mass), len(COLUMNS[h].mass)
    return np.bincount(codes[:, j] * shape[1] + codes[:, h], minlength=shape[0] * shape[1]).reshape(shape) / len(codes)


def asked(j, h):
    return Marginal((j, h), (COLUMNS[j].partition, COLUMNS[h].partition), (
        np.arange(len(COLUMNS[j].mass)), np.arange(len(COLUMNS[h].mass))))


PAIRS = [(j, h) for h in range(4) for j in range(h)]


@pytest.mark.daily("strong")
@pytest.mark.parametrize("given", [ORDINARY, STRONG], ids=["ordinary", "strong"])
def test_tables_of_columns_with_presence_are_those_of_rows_by_the_definition(given):
    copula, codes = copula_of(given), drawn(given, 1_000_000, np.random.default_rng(0))
    for pair in PAIRS:
        made, counted = copula.table(asked(*pair)), table_of(codes, *pair)
        np.testing.assert_allclose(made, counted, atol=3e-3 if given is STRONG else 1.5e-3)
        for axis in (0, 1):
            np.testing.assert_allclose(made.sum(axis=1 - axis), COLUMNS[pair[axis]].mass, atol=1e-4)
        # Of coarser cells too, and of functions of positions: those of tables.
        features = [np.random.default_rng(1).normal(size=(len(COLUMNS[j].mass), 2)) for j in pair]
        alone = [np.repeat(COLUMNS[j].mass[None] @ own, len(own), axis=0)
                 for j, own in zip(pair, features, strict=True)]
        expected = features[0].T @ counted @ features[1] - alone[0][0][:, None] * alone[1][0]
        np.testing.assert_allclose(copula.within(pair, features, alone), expected, atol=1e-2)
        assert copula.joins(pair) == (np.abs(counted - np.outer(*(COLUMNS[j].mass for j in pair))).max() > 3e-3)


def test_rows_follow_the_copula_and_keep_their_columns_and_within_cells_their_presence():
    rng = np.random.default_rng(2)
    copula = copula_of(ORDINARY)
    rows = independent(COLUMNS, 100_000, rng)
    before = np.sort(rows, axis=0)
    copula.arrange(rows, rng)
    np.testing.assert_array_equal(np.sort(rows, axis=0), before)
    for pair in PAIRS:
        np.testing.assert_allclose(table_of(rows, *pair), copula.table(asked(*pair)), atol=5e-3)
    # Numbers are exchanged at random first, in a cell of their own.
    cells, mixed = [np.where(order < 0.0, 0, 1).astype(np.int64) for order in copula.orders], rows.copy()
    for j, own in enumerate(cells):
        held = np.flatnonzero(own[mixed[:, j]] == 1)
        mixed[held, j] = rng.permutation(mixed[held, j])
    made = mixed.copy()
    copula.arrange_within(made, cells, rng, rounds=6)
    np.testing.assert_array_equal(np.sort(made, axis=0), before)
    for j, own in enumerate(cells):
        np.testing.assert_array_equal(own[made[:, j]], own[rows[:, j]])
    for pair in PAIRS:
        # Correlations within cells are a little weaker: they are made firm.
        np.testing.assert_allclose(table_of(made, *pair), copula.table(asked(*pair)), atol=9e-3)
    apart = [np.abs(table_of(each, 0, 1) - copula.table(asked(0, 1))).sum() for each in (mixed, made)]
    assert apart[1] < 0.35 * apart[0]


def measured_of(codes, noise=1e-4, rng=None):
    query = directions_of(COLUMNS)
    entries = query.entries(codes)
    means = (entries.T @ entries / len(entries))[tuple(query.pairs.T)]
    return Measurement(query, 1.0, means + (0.0 if rng is None else noise * rng.normal(size=len(means))), noise)


@pytest.mark.parametrize("given", [ORDINARY, STRONG], ids=["ordinary", "strong"])
def test_directions_of_known_presence_give_its_correlations_back(given):
    measured = measured_of(drawn(given, 200_000, np.random.default_rng(3)))
    assert measured.query.presence == (0, 1)
    made = Copula.by_directions(COLUMNS, measured)
    apart = np.abs(made.correlations - correlations_of(given))
    assert apart.mean() < 0.05
    assert apart.max() < 0.25
    assert [each.column for each in made.presence] == [0, 1]


def test_presence_at_random_stays_independent_and_noise_alone_is_none():
    given = {(0, 1): 0.6, (0, 2): 0.6, (1, 2): 0.6}
    rng = np.random.default_rng(4)
    found = [Copula.by_directions(COLUMNS, measured_of(drawn(given, 2_000, rng), 0.005, rng)) for _ in range(5)]
    assert all(each is not None for each in found)
    assert np.mean([np.abs(each.correlations[4:, :4]).max() for each in found]) < 0.1
    assert np.mean([each.correlations[0, 1] for each in found]) > 0.4
    alone = measured_of(drawn({}, 200_000, rng), 1.0)
    assert Copula.by_directions(COLUMNS, alone) is None


def test_presence_is_measured_where_special_and_missing_values_and_numbers_are_many():
    for absent, wanted in ((0.0, False), (0.9 * LEAST_APART, False), (LEAST_APART, True), (0.5, True),
                           (1.0 - LEAST_APART, True), (1.0 - 0.9 * LEAST_APART, False), (1.0, False)):
        column = number([absent / 2, absent / 2, 0.4 * (1.0 - absent), 0.6 * (1.0 - absent)], 0, (1, 2))
        scores = column.presence_scores
        assert (scores is not None) == wanted
        if scores is not None:
            assert column.mass @ scores == pytest.approx(0.0, abs=1e-12)
            assert column.mass @ scores**2 == pytest.approx(1.0)
            assert scores[0] == scores[1] < 0.0 < scores[2] == scores[3]
    assert categories([0.5, 0.5]).presence_scores is None
    assert number([0.5, 0.5]).presence_scores is None


@pytest.mark.parametrize("absent", [0.0, 1.0, 1e-320])
@pytest.mark.parametrize("size", [1.0, 1e3, 1e60])
def test_noise_of_any_size_and_columns_of_other_masses_give_possible_copulas(absent, size):
    """The fit can give a column another mass than the one by which its presence was measured."""
    rng = np.random.default_rng(5)
    query = directions_of(COLUMNS)
    first = number([absent, *((1.0 - absent) * np.array([0.2, 0.3, 0.4, 0.1]))], 0, (1,))
    columns = (first, *COLUMNS[1:])
    for _ in range(3):
        made = Copula.by_directions(columns, Measurement(query, 1.0, size * rng.normal(size=query.size), 0.01))
        assert made is not None
        rows = independent(columns, 50, rng)
        before = np.sort(rows, axis=0)
        made.arrange(rows, rng)
        made.arrange_within(rows, [np.where(order < 0.0, 0, 1).astype(np.int64) for order in made.orders], rng)
        np.testing.assert_array_equal(np.sort(rows, axis=0), before)
        for pair in PAIRS:
            table = made.table(asked(*pair))
            assert np.isfinite(table).all()
            assert (table >= 0.0).all()
            assert table.sum() == pytest.approx(1.0, abs=1e-12)


def products_of(columns, degree):
    scores = tuple(_scores(column, degree) if column.partition.value is not None else np.zeros((3, 0), dtype=np.int64)
                   for column in columns)
    pairs = np.array([(0, 1), (0, 2), (1, 2)])
    return Products(tuple(column.partition for column in columns), _with_absence(columns, scores), pairs)


@pytest.mark.nightly
@pytest.mark.parametrize("degree", [1, 2])
@pytest.mark.parametrize("given", [ORDINARY, STRONG], ids=["ordinary", "strong"])
def test_products_of_known_presence_give_its_correlations_back(given, degree):
    query, codes = products_of(COLUMNS, degree), drawn(given, 200_000, np.random.default_rng(6))
    assert query.presence == (0, 1)
    values = np.concatenate([feature[own] for feature, own in zip(query.features, codes.T, strict=True)], axis=1)
    first, second = query.places.T
    alone = np.concatenate([column.mass @ feature for column, feature in zip(COLUMNS, query.features, strict=True)])
    deviations = (values[:, first] * values[:, second]).mean(axis=0) - alone[first] * alone[second]
    made = Copula.by_products(COLUMNS, query, deviations, query.presence)
    # Products are of numbers: columns 0 to 2, and variables 4 and 5.
    held = np.ix_([0, 1, 2, 4, 5], [0, 1, 2, 4, 5])
    apart = np.abs(made.correlations - correlations_of(given))[held]
    assert apart.mean() < 0.05
    assert apart.max() < 0.25


def test_scores_of_absence_leave_the_noise_of_products_as_it_is():
    with_absence = products_of(COLUMNS, 2)
    plain = Products(with_absence.partitions, tuple(_scores(column, 2 * (column.partition.value is not None))
                                                    for column in COLUMNS), with_absence.pairs)
    assert with_absence.diameter("L2") == plain.diameter("L2")
    assert [own.shape[1] for own in with_absence.scores] == [3, 3, 2, 0]
    for own, before in zip(with_absence.scores[:2], plain.scores[:2], strict=True):
        np.testing.assert_array_equal(own[:, :2], before)
        # Where one score is not 0, all others are.
        assert not (own[:, -1:] * own[:, :-1]).any()
        assert own[0, -1] > 30_000
    assert plain.presence == ()
    names = with_absence.names([f"x{i}" for i in range(9)])
    assert len(names) == with_absence.size
    assert sum("absence" in name for name in names) == 5 + 2 * 2
    # Files have them without a form of their own.
    book = Book([(j, partition) for j, partition in enumerate(with_absence.partitions)])
    integers, floats = with_absence.written(book)
    assert Products.read(Numbers(np.array(integers)), Numbers(floats), book).presence == (0, 1)


def people(n, rng):
    """Two pays that are nearly always 0 together, a skipped answer that depends on a group, and one skipped at random.
    """
    works, group, common = rng.random(n) < 0.45, rng.integers(0, 2, n), rng.normal(size=(n, 1))
    pay, more, hours, age = np.exp(0.5 * (0.8 * common + 0.6 * rng.normal(size=(n, 4)))).T * 20.0
    made = pd.DataFrame({
        "pay": np.where(works, pay, 0.0), "more": np.where(works ^ (rng.random(n) < 0.02), more, 0.0),
        "hours": np.where(rng.random(n) < np.array([0.1, 0.8])[group], np.nan, hours),
        "age": np.where(rng.random(n) < 0.3, np.nan, age), "group": np.array(["a", "b"])[group],
        **{f"x{i}": rng.normal(size=n) for i in range(4)}})
    schema = tm.Schema([
        tm.Column("pay", 0, 200, special=(0,)), tm.Column("more", 0, 200, special=(0,)),
        tm.Column("hours", 0, 200, missing="keep"), tm.Column("age", 0, 200, missing="keep"),
        tm.Column("group", kind="categorical", categories=("a", "b")), *(tm.Column(f"x{i}", -5, 5) for i in range(4))])
    return made, schema


def test_rows_keep_what_is_absent_together_where_rows_are_few():
    found = []
    for seed in range(3):
        table, schema = people(1_500, np.random.default_rng(seed))
        made = tm.synthesize(table, schema, tm.Budget(1.5, 1e-6), rng=np.random.default_rng(seed))
        assert made.release.directions.query.presence == (0, 1, 2, 3)
        rows = made.sample()
        none, skipped, group = (rows[["pay", "more"]] == 0.0).to_numpy(), rows["hours"].isna(), rows["group"] == "b"
        found.append((none.all(axis=1).mean(), none.mean(), skipped[group].mean() - skipped[~group].mean(),
                      abs(rows["age"].isna().corr(pd.Series(none[:, 0], rows.index)))))
    both, each, apart, random = np.mean(found, axis=0)
    # In truth 0.54 of 0.55, and 0.7. Independent columns would have 0.3, and 0.
    assert both > 0.43
    assert each == pytest.approx(0.55, abs=0.05)
    assert apart > 0.4
    assert random < 0.12


def test_rows_keep_what_is_absent_together_where_rows_are_neither_few_nor_many():
    found = []
    for seed in range(2):
        table, schema = people(4_000, np.random.default_rng(seed))
        made = tm.synthesize(table, schema, tm.Budget(1.5, 1e-6), rng=np.random.default_rng(seed))
        assert made.release.products.query.presence == (0, 1, 2, 3)
        rows = made.sample()
        none = (rows[["pay", "more"]] == 0.0).to_numpy()
        found.append((none.all(axis=1).mean(), abs(rows["age"].isna().corr(pd.Series(none[:, 0], rows.index)))))
    both, random = np.mean(found, axis=0)
    assert both > 0.5
    assert random < 0.06


def test_shares_without_scores_measure_no_directions_if_delta_is_0():
    """Directions move by more than 1 in L1: such a release was charged, and then refused."""
    columns = [tm.Column(f"x{i}", 0, 9, special=(0,)) for i in range(3)]
    table = np.random.default_rng(0).integers(0, 9, (100_000, 3)).astype(float)
    made = tm.synthesize(pd.DataFrame(table, columns=["x0", "x1", "x2"]), tm.Schema(columns), tm.Budget(1.0),
                         tm.TableMechanism(points=1_024, shares=Shares(0.3, 0.1, 0.5, 0)), np.random.default_rng(0))
    assert made.release.directions is None
    assert made.release.tables


def test_tables_of_absent_columns_are_released_whatever_is_absent():
    for absent in ("all", "one", "together"):
        table = pd.DataFrame({"a": np.where(np.arange(300) % 2, 0.0, 1.0 + np.arange(300) % 7), "b": 1.0, "c": 2.0})
        table["b"] = np.nan if absent == "all" else table["a"].where(table["a"] != 0.0)
        table["c"] = 0.0 if absent != "one" else table["c"]
        schema = tm.Schema([tm.Column("a", 0, 9, special=(0,)), tm.Column("b", 0, 9, missing="keep"),
                            tm.Column("c", 0, 9, special=(0,))])
        made = tm.synthesize(table, schema, tm.Budget(1.0, 1e-6), rng=np.random.default_rng(0))
        assert len(made.sample()) == 300
