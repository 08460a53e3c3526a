"""Ridges: their distribution, tables that are shrunk towards them, rows that follow them, and large fits with them."""

import numpy as np
import pytest
from scipy.stats import norm

import trigmech as tm
from trigmech.domain import Domain
from trigmech.functions.partition import columns_of
from trigmech.functions.released_column import ReleasedColumn
from trigmech.queries.base import Measurement
from trigmech.queries.joint import Marginal
from trigmech.reconstruction import ridges, tables
from trigmech.reconstruction.copula import truncated
from trigmech.reconstruction.ridges import Parts, Ridge
from trigmech.reconstruction.rows import RowObjective

DOMAIN = Domain(2)


def column(mass, j, edges=None):
    """A released number of these masses, in intervals of equal length or with these edges."""
    edges = np.linspace(-1.0, 1.0, len(mass) + 1) if edges is None else edges
    return ReleasedColumn(columns_of(DOMAIN)[j].cut(edges), np.asarray(mass) / np.sum(mass), 1e-6)


def normal_column(j, size=80):
    """A normal number of deviation 1/4."""
    return column(np.diff(norm.cdf(np.linspace(-4.0, 4.0, size + 1))), j)


def measured(columns, cells, means, noise):
    """A released table of two columns."""
    partitions = tuple(each.partition for each in columns)
    return Measurement(Marginal((0, 1), partitions, tuple(cells)), 1.0, means, noise)


def counted(codes, cells):
    """The frequencies of rows in cells."""
    held = [cell[own] for cell, own in zip(cells, codes.T, strict=True)]
    made = np.zeros([int(cell.max()) + 1 for cell in cells])
    np.add.at(made, tuple(held), 1.0 / len(codes))
    return made


def delays(n, seed=0):
    """A number with a long tail, and a second one that is the first one and a little more; codes of both columns."""
    rng = np.random.default_rng(seed)
    one = rng.lognormal(-2.5, 1.0, n).clip(0.0, 1.5) - 0.7
    two = (one + rng.normal(0.0, 0.03, n)).clip(-1.0, 1.0)
    edges = np.linspace(-1.0, 1.0, 201)
    codes = np.column_stack([np.searchsorted(edges[1:-1], each, side="right") for each in (one, two)]).astype(np.int32)
    return [column(np.bincount(codes[:, j], minlength=200), j) for j in range(2)], codes


def wide(column, count):
    """Cells of a column with equal mass, of which the last hold long tails."""
    middle = np.cumsum(column.mass) - 0.5 * column.mass
    return np.unique(np.minimum((count * middle).astype(np.int64), count - 1), return_inverse=True)[1]


def test_the_scaled_distribution_has_both_margins_and_one_association_everywhere():
    parts = Parts.of(normal_column(0)), Parts.of(column(np.arange(1.0, 41.0), 1))
    joint = ridges._scaled(parts, 1.7, 20)
    np.testing.assert_allclose(joint.sum(axis=1), parts[0].mass, atol=1e-9)
    np.testing.assert_allclose(joint.sum(axis=0), parts[1].mass, atol=1e-9)
    odds = np.log(joint[1:, 1:] * joint[:-1, :-1] / (joint[1:, :-1] * joint[:-1, 1:]))
    np.testing.assert_allclose(odds, 1.7 * np.outer(np.diff(parts[0].values), np.diff(parts[1].values)), atol=1e-6)


@pytest.mark.parametrize("correlation", [-0.8, 0.6, 0.9])
def test_of_two_normal_columns_it_is_the_normal_distribution(correlation):
    columns = [normal_column(0), normal_column(1)]
    cells = [np.arange(80) // 5] * 2
    places = np.linspace(-4.0, 4.0, 801)
    middle = 0.5 * (places[1:] + places[:-1])
    # Given the first number, the second is normal: each cell of the true table by a fine sum.
    inside = norm.cdf((np.linspace(-4.0, 4.0, 17)[None, :] - correlation * middle[:, None])
                      / np.sqrt(1.0 - correlation**2))
    true = np.add.reduceat(np.diff(norm.cdf(places))[:, None] * np.diff(inside, axis=1), np.arange(0, 800, 50), axis=0)
    table = measured(columns, cells, true, 1e-4)
    ridge = Ridge.of(columns, [table], [true])
    assert np.abs(ridge.table(table, true) - true).sum() < 0.02
    parts = ridge.parts
    assert parts[0].values @ ridge.joint @ parts[1].values == pytest.approx(correlation, abs=0.01)
    mean, spread = ridge._given(1)
    inner = np.abs(parts[0].values) < 2.0
    np.testing.assert_allclose(mean[inner], correlation * parts[0].values[inner], atol=0.05)
    np.testing.assert_allclose(spread[inner], np.sqrt(1.0 - correlation**2), atol=0.05)


def test_in_tails_it_is_as_narrow_as_in_the_middle_and_a_normal_copula_is_not():
    columns, codes = delays(200_000)
    cells = [wide(each, 24) for each in columns]
    true = counted(codes, cells)
    table = measured(columns, cells, true, 1e-5)
    ridge = Ridge.of(columns, [table], [true])
    independent = np.outer(true.sum(axis=1), true.sum(axis=0))
    assert 0.5 * np.abs(ridge.table(table, true) - true).sum() < 0.1
    assert ridge.better([table], [true], [independent])
    assert not ridge.better([table], [true], [true])


@pytest.mark.parametrize("noise", [1e-4, 4e-4])
def test_a_table_that_is_shrunk_towards_it_is_nearer_to_the_truth(noise):
    columns, codes = delays(200_000)
    cells = [wide(each, 24) for each in columns]
    true, rng = counted(codes, cells), np.random.default_rng(3)
    released = measured(columns, cells, true + noise * rng.standard_normal(true.shape), noise)
    made, deviation = Ridge.of(columns, [released], [released.means]).shrunk(released, released.means)
    errors = [((each - true) ** 2).sum() for each in (made, released.means)]
    assert errors[0] < 0.7 * errors[1]
    assert (made >= 0.0).all()
    assert ((deviation > 0.0) & (deviation <= noise)).all()
    # The deviations are about those of the errors: neither too small nor only the noise.
    assert 0.3 < np.sqrt((((made - true) / deviation) ** 2)[true > noise].mean()) < 3.0


def test_cells_far_from_it_that_hold_something_beyond_doubt_keep_it():
    columns, codes = delays(200_000)
    codes[:2_000] = 30, 195
    cells, noise = [wide(each, 24) for each in columns], 2e-4
    true, rng = counted(codes, cells), np.random.default_rng(4)
    released = measured(columns, cells, true + noise * rng.standard_normal(true.shape), noise)
    made, _ = Ridge.of(columns, [released], [released.means]).shrunk(released, released.means)
    place = cells[0][30], cells[1][195]
    assert true[place] > 0.009
    assert made[place] == pytest.approx(true[place], rel=0.15)


@pytest.mark.parametrize("sign", [1, -1])
def test_rows_in_wide_cells_follow_it_and_cells_keep_their_rows(sign):
    columns, codes = delays(60_000)
    if sign < 0:
        last = len(columns[1].mass) - 1
        codes[:, 1] = last - codes[:, 1]
        columns[1] = column(columns[1].mass[::-1], 1, -columns[1].partition.edges[::-1])
    cells, rng = [wide(each, 8) for each in columns], np.random.default_rng(5)
    values = [each.partition.centres for each in columns]

    def correlation(rows):
        return np.corrcoef(*(own[entries] for own, entries in zip(values, rows.T, strict=True)))[0, 1]

    rows = codes.copy()
    for j in range(2):
        for cell in range(8):
            held = np.flatnonzero(cells[j][rows[:, j]] == cell)
            rows[held, j] = rows[rng.permutation(held), j]
    released = measured(columns, cells, counted(codes, cells), 1e-5)
    made = rows.copy()
    finer = [wide(each, 24) for each in columns]
    ridge = Ridge.of(columns, [released, measured(columns, finer, counted(codes, finer), 1e-5)],
                     [released.means, counted(codes, finer)])
    ridge.arrange_within(made, cells, rng)
    assert abs(correlation(rows) - correlation(codes)) > 0.15
    assert abs(correlation(made) - correlation(codes)) < 0.05
    for j in range(2):
        np.testing.assert_array_equal(cells[j][made[:, j]], cells[j][rows[:, j]])
        np.testing.assert_array_equal(np.sort(made[:, j]), np.sort(rows[:, j]))


@pytest.mark.nightly  # By day whatever was released is a table, in test_table_mechanism.py.
def test_whatever_was_released_is_shrunk_to_finite_numbers():
    columns, codes = delays(500)
    cells = [wide(each, 24) for each in columns]
    shape = tuple(int(cell.max()) + 1 for cell in cells)
    for means in (np.zeros(shape), np.full(shape, -1e300), np.eye(*shape) * 1e300, np.full(shape, 1e-300)):
        for noise in (1e-300, 1e300):
            released = measured(columns, cells, means, noise)
            ridge = Ridge.of(columns, [released], [np.clip(means, -1.0, 2.0)])
            made, deviation = ridge.shrunk(released, np.clip(means, -1.0, 2.0))
            assert np.isfinite([made, deviation]).all()
            assert (deviation > 0.0).all()
            ridge.arrange_within(codes, cells, np.random.default_rng(0))
    point = np.zeros(len(columns[0].mass))
    point[5] = 1.0
    assert Parts.of(column(point, 0, columns[0].partition.edges)) is None
    assert Parts.of(column([0.0, 1e-320], 0)) is None
    alone = [column(point, 0, columns[0].partition.edges), columns[1]]
    assert Ridge.of(alone, [measured(alone, cells, np.zeros(shape), 1e-3)], [np.zeros(shape)]) is None


def delays_table(n, seed):
    """Two numbers with long tails that nearly agree, and places of a few kinds each."""
    rng = np.random.default_rng(seed)
    one = np.rint(rng.lognormal(2.2, 1.3, n).clip(0, 2_000))
    two = np.rint(one + rng.laplace(0.0, 9.0, n)).clip(-60, 2_400)
    place = rng.integers(40, size=n)
    kind = (3 * place + rng.integers(0, 5, size=n)) % 60
    return np.column_stack([one, two, place, kind])


SCHEMA = tm.Schema([tm.Column("one", 0, 2_000, "integer"), tm.Column("two", -60, 2_400, "integer"),
                    tm.Column("place", kind="categorical", categories=tuple(range(40))),
                    tm.Column("kind", kind="categorical", categories=tuple(range(60)))])


def released(table, seed, epsilon=8.0):
    """A release of a table, with a fit that counts as large."""
    with pytest.MonkeyPatch.context() as patched:
        # Fits of more rows than this count as large.
        patched.setattr(tables, "FIRST", 4_000)
        return tm.synthesize(table, SCHEMA, tm.Budget(epsilon, 1e-8), tm.TableMechanism(points=6_000),
                             np.random.default_rng(seed))


@pytest.fixture(scope="module")
def large():
    """A large table, and a release of it."""
    table = delays_table(30_000, 0)
    return table, released(table, 1)


@pytest.mark.nightly  # What ridges do is compared with plain sums above.
def test_correlated_tails_and_empty_cells_of_a_large_table_come_back(large):
    table, made = large
    correlations, slopes = [], []
    # The correlation of a single release scatters by .015, and by .05 without ridges, where its mean is .83.
    for each in (made, released(table, 2)):
        found = each.columns(30_000, np.random.default_rng(2))
        one, two = found["one"].astype(float), found["two"].astype(float)
        correlations.append(np.corrcoef(one, two)[0, 1])
        slopes.append(np.polyfit(one, two, 1)[0])
    assert np.mean(correlations) == pytest.approx(np.corrcoef(table[:, 0], table[:, 1])[0, 1], abs=0.035)
    assert np.mean(slopes) == pytest.approx(np.polyfit(table[:, 0], table[:, 1], 1)[0], abs=0.08)
    possible = (found["kind"].astype(int) - 3 * found["place"].astype(int)) % 60 < 5
    assert np.mean(~possible) < 0.002
    release = made.release
    assert [ridge.columns for ridge in tables.ridges_of(release, tables.copula_of(release))] == [(0, 1)]


@pytest.mark.nightly  # By day with the smaller budget, above.
def test_a_larger_budget_does_not_lose_the_correlation():
    # With as little weight as other tables, the table of tails gave .91 here, less than with a budget of 8.
    table, found = delays_table(30_000, 0), []
    for seed in (1, 2):
        rows = released(table, seed, 20.0).columns(30_000, np.random.default_rng(2))
        found.append(np.corrcoef(rows["one"].astype(float), rows["two"].astype(float))[0, 1])
    assert np.mean(found) == pytest.approx(np.corrcoef(table[:, 0], table[:, 1])[0, 1], abs=0.03)


@pytest.mark.parametrize("firm", [False, True])
def test_tables_of_a_ridge_reach_their_targets_to_a_twentieth_of_a_row_and_others_to_half_a_row(large, firm):
    targets, count = tables.Targets(large[1].release), 200
    ridges = {ridge.columns for ridge in targets.ridges}
    own = [pair.columns in ridges for pair in targets.pairs]
    assert any(own)
    assert not all(own)
    for pair, (_, _, weights) in zip(targets.pairs, targets.objective(count, firm=firm)._tables, strict=True):
        least = (0.05 if pair.columns in ridges else 0.5) / count
        lowest = np.where(pair.table == 0.0, 0.03 / count if firm else least, least) if pair.sparse else least
        np.testing.assert_allclose(weights, 1.0 / np.maximum(pair.deviation, lowest) ** 2, rtol=1e-9)


@pytest.mark.nightly
def test_without_tables_of_tails_there_is_no_ridge():
    made = tm.synthesize(delays_table(3_000, 0), SCHEMA, tm.Budget(1.0, 1e-8), rng=np.random.default_rng(1))
    assert tables.ridges_of(made.release, tables.copula_of(made.release)) == ()


def test_cells_that_should_be_empty_are_firm_in_the_last_stage_of_a_large_fit_alone(monkeypatch):
    asked = []

    class EnoughError(Exception):
        pass

    class Made:
        columns, products = (), None

    made = object.__new__(tables.Targets)
    made.release, made.copula, made.ridges, made.pairs, made.products = Made(), None, (), [], np.zeros(0)

    def objective(self, count, features=None, firm=False):
        asked.append((count, firm))
        if len(asked) == len(wanted):
            raise EnoughError
        return RowObjective([2])

    monkeypatch.setattr(tables.Targets, "objective", objective)
    monkeypatch.setattr(tables, "independent_rows", lambda masses, count, rng: np.zeros((count, 1), dtype=np.int32))

    class Nothing:
        def repair(self, rows, rng):
            pass

        def ask(self, objective):
            pass

    for count, wanted in ((tables.FIRST, [(tables.FIRST, False)]),
                          (tables.FIRST + 2, [(tables.FIRST // 2 + 1, False), (tables.FIRST + 2, True)])):
        asked.clear()
        with pytest.raises(EnoughError):
            tables.descended(made, Nothing(), count, np.random.default_rng(0))
        assert asked == wanted


def test_firmness_is_for_empty_cells_of_sparse_tables():
    cells = (np.arange(2), np.arange(2))
    table = np.array([[0.0, 0.5], [0.5, 0.0]])
    sparse = tables.Pair((0, 1), cells, table, np.full((2, 2), 1e-9), True)
    np.testing.assert_array_equal(sparse.at_least(1e-3, 1e-5), [[1e-5, 1e-3], [1e-3, 1e-5]])
    dense = tables.Pair((0, 1), cells, table, 1e-9)
    np.testing.assert_array_equal(dense.at_least(1e-3, 1e-5), 1e-3)


def test_draws_may_have_deviations_of_their_own():
    rng = np.random.default_rng(0)
    made = truncated(np.zeros(20_000), np.repeat([0.1, 3.0], 10_000), np.full(20_000, -np.inf), np.full(20_000, np.inf),
                     rng)
    assert made[:10_000].std() == pytest.approx(0.1, rel=0.03)
    assert made[10_000:].std() == pytest.approx(3.0, rel=0.03)


def many_positions(count, j):
    """A number with a long tail and so many positions, most of them narrow."""
    edges = np.concatenate([np.linspace(-1.0, -0.5, count), np.linspace(-0.5, 1.0, 21)[1:]])
    middle = 0.5 * (edges[1:] + edges[:-1])
    return column(np.exp(-6.0 * (middle + 1.0)) * np.diff(edges), j, edges)


def test_neighbours_in_the_same_cells_are_joined_until_there_are_few_parts():
    own = many_positions(3_000, 0)
    parts, maps = Parts.of(own), [wide(own, 40), wide(own, 7)]
    made = parts.joined(maps)
    assert len(parts.values) > 3_000
    assert 0.4 * ridges.MOST_PARTS < len(made.values) <= ridges.MOST_PARTS
    np.testing.assert_allclose([made.mass.sum(), made.mass @ made.values], [1.0, parts.mass @ parts.values], atol=1e-12)
    assert (np.diff(made.values) > 0.0).all()
    assert made.at is parts.at
    # Each cell of each table keeps its mass exactly.
    for cells in maps:
        np.testing.assert_allclose(np.bincount(cells[made.position], made.mass),
                                   np.bincount(cells[parts.position], parts.mass), atol=1e-12)
    # Few parts stay as they are, and cells are never joined.
    assert made.joined(maps) is made
    assert len(parts.joined([np.arange(len(own.mass))]).values) == len(own.mass)


@pytest.mark.parametrize("theta", [5.0, -5.0])
def test_a_ridge_of_joined_parts_predicts_the_same_table(monkeypatch, theta):
    # The other prediction is independence, whose covariance is 0 but for rounding: the table has to tell the sign.
    columns = [many_positions(500, 0), many_positions(500, 1)]
    cells = [wide(each, 12) for each in columns]
    shape = [int(each.max()) + 1 for each in cells]
    independent = np.outer(*(np.bincount(each, one.mass) for each, one in zip(cells, columns, strict=True)))
    whole = ridges.Ridge(*((0, 1), parts := (Parts.of(columns[0]), Parts.of(columns[1]))),
                         ridges._scaled(parts, theta, 12))
    released = measured(columns, cells, np.zeros(shape), 1e-4)
    released = measured(columns, cells, whole.table(released, independent), 1e-4)
    monkeypatch.setattr(ridges, "MOST_PARTS", 200)
    found = Ridge.of(columns, [released], [independent])
    assert max(found.joint.shape) <= 200
    np.testing.assert_allclose(found.table(released, independent), released.means, atol=4e-4)


def test_deviations_are_above_0_whatever_the_noise():
    columns = [normal_column(0), normal_column(1)]
    cells = [np.arange(80) // 5] * 2
    released = measured(columns, cells, np.zeros((16, 16)), 5e-324)
    deviation = Ridge.of(columns, [released], [released.means]).shrunk(released, released.means)[1]
    assert (deviation > 0.0).all()
