"""Descent over rows: each sweep against a slow twin that computes the whole objective anew for every candidate."""

from collections import Counter
from itertools import product as each

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trigmech.reconstruction import row_kernels as kernels
from trigmech.reconstruction.rows import ENOUGH, RowObjective, independent_rows


class Problem:
    """What a table should have, kept as it was said; and the sums over a table's rows, by plain loops."""

    def __init__(self, sizes, features=None):
        self.sizes, self.features = sizes, features
        self.frequencies, self.maps, self.tables, self.products = [], [], [], []

    def objective(self):
        return self.asked().compiled()

    def asked(self):
        asked = RowObjective(self.sizes, self.features)
        for entry in self.frequencies:
            asked.frequencies(*entry)
        for column, cells in self.maps:
            asked.map(column, np.array(cells))
        for entry in self.tables:
            asked.table(*entry)
        for width in {len(columns) for columns, *_ in self.products}:
            those = [entry for entry in self.products if len(entry[0]) == width]
            asked.products(*(np.array(part) for part in zip(*those, strict=True)))
        return asked

    def residuals(self, rows, m=None):
        """Of each function its weight, and the sum over the rows less m times the target."""
        m, found = len(rows) if m is None else m, []
        for j, target, weight in self.frequencies:
            counts = Counter(rows[:, j].tolist())
            found += [(weight, counts[b] - m * target[b]) for b in range(self.sizes[j])]
        for maps, target, weight in self.tables:
            counts = Counter(tuple(self.maps[k][1][row[self.maps[k][0]]] for k in maps) for row in rows.tolist())
            each_weight = np.broadcast_to(weight, target.shape)
            found += [(each_weight[place], counts[place] - m * target[place]) for place in np.ndindex(target.shape)]
        for columns, features, target, weight in self.products:
            total = 0.0
            for row in rows.tolist():
                value = 1.0
                for j, a in zip(columns, features, strict=True):
                    value *= 1.0 if j < 0 else float(self.features[j][row[j], a])
                total += value
            found.append((weight, total - m * target))
        return found

    def value(self, rows):
        return sum(weight * residual**2 for weight, residual in self.residuals(rows))

    def swept(self, rows, order, columns):
        """The table and the number of moves after a sweep; of positions that are equally good the first."""
        rows, moves = rows.copy(), 0
        for j, i in each(columns, order):
            at = rows[i, j]
            values = []
            for y in range(self.sizes[j]):
                rows[i, j] = y
                values.append(self.value(rows))
            best = int(np.argmin(values))
            rows[i, j] = best if values[best] < values[at] else at
            moves += rows[i, j] != at
        return rows, moves


def some_rows(rng, sizes, m):
    return np.column_stack([rng.integers(size, size=m) for size in sizes]).astype(np.int32)


def numbers_of(rng, shape, whole):
    """Random numbers; if ``whole``, multiples of 1/8, of which sums and products have no rounding errors here."""
    return rng.integers(-8, 9, size=shape) / 8.0 if whole else rng.normal(size=shape)


def problem_of(rng, kinds, whole, d=3, sizes=None):
    """A random problem of d columns with functions of these kinds."""
    sizes = rng.integers(1, 6, size=d).tolist() if sizes is None else sizes
    made = Problem(sizes, [numbers_of(rng, (size, int(rng.integers(1, 4))), whole) for size in sizes])
    weights = [0.25, 1.0, 4.0]
    if "frequencies" in kinds:
        made.frequencies = [(j, numbers_of(rng, sizes[j], whole), rng.choice(weights)) for j in range(d)
                            if rng.random() < 0.7]
    if "tables" in kinds:
        # Several maps of a column, in any order, and cells that no position has.
        made.maps = [(j, rng.integers(max(1, sizes[j] - 1), size=sizes[j]).tolist())
                     for j in rng.permutation(np.repeat(np.arange(d), 2)).tolist()]
        for _ in range(4):
            columns = rng.permutation(d)[:rng.integers(min(d, 2), d + 1)].tolist()
            maps = [int(rng.choice([k for k, (owner, _) in enumerate(made.maps) if owner == j])) for j in columns]
            shape = [max(made.maps[k][1]) + 1 + int(rng.integers(2)) for k in maps]
            # The same weight for all cells, or one for each.
            made.tables.append((maps, numbers_of(rng, shape, whole),
                                rng.choice(weights, size=shape if rng.random() < 0.5 else None)))
    if "products" in kinds:
        for _ in range(6):
            width = int(rng.integers(1, d + 1))
            columns = rng.permutation(d)[:width].tolist()
            features = [int(rng.integers(made.features[j].shape[1])) for j in columns]
            if rng.random() < 0.3:
                columns[int(rng.integers(width))] = -1
            made.products.append((columns, features, float(numbers_of(rng, (), whole)), rng.choice(weights)))
    return made


def flat(problem, residuals, compiled):
    """The residuals with a weight, in the order of the problem's own."""
    first = np.concatenate([[0], np.cumsum(problem.sizes)])
    parts = [residuals.frequencies[first[j] : first[j + 1]] for j, *_ in problem.frequencies]
    widths = {len(columns) for columns, *_ in problem.products}
    order = [r for width in widths for r, entry in enumerate(problem.products) if len(entry[0]) == width]
    return np.concatenate([*parts, residuals.tables, residuals.products[np.argsort(order)]])


KINDS = [("frequencies",), ("tables",), ("products",), ("frequencies", "tables", "products")]
each_kind = pytest.mark.parametrize("kinds", KINDS, ids="+".join)


@each_kind
@pytest.mark.parametrize("seed", range(8))
def test_a_sweep_is_that_of_a_twin_that_computes_the_objective_anew_for_every_candidate(kinds, seed):
    rng = np.random.default_rng(seed)
    # The last two have columns of more positions than are compared at a time.
    problem = problem_of(rng, kinds, whole=True, sizes=None if seed < 6 else [8, 19, 3])
    compiled, rows = problem.objective(), some_rows(rng, problem.sizes, 8)
    residuals = compiled.residuals(rows)
    for _ in range(2):
        order, columns = rng.permutation(8)[:6], rng.permutation(3)
        expected, moves = problem.swept(rows, order.tolist(), columns.tolist())
        assert compiled.sweep(rows, residuals, order, columns) == moves
        # Without rounding errors, so the same of several best positions too.
        np.testing.assert_array_equal(rows, expected)
        np.testing.assert_array_equal(flat(problem, residuals, compiled), [r for _, r in problem.residuals(rows)])
        assert compiled.value(residuals, 8) == problem.value(rows) / 64.0


@each_kind
@pytest.mark.parametrize("m", [63, 64, 65, 200])
def test_a_sweep_of_many_rows_is_that_of_one_row_after_the_other(kinds, m):
    """Rows are swept by blocks; without rounding errors the residuals are the same bits."""
    rng = np.random.default_rng(m)
    problem = problem_of(rng, kinds, whole=True, sizes=[9, 17, 4])
    compiled, rows = problem.objective(), some_rows(rng, problem.sizes, m)
    alone, order = rows.copy(), rng.permutation(m)
    residuals, beside, moves = compiled.residuals(rows), compiled.residuals(rows), 0
    for j, i in each((2, 0, 1), order.tolist()):
        moves += compiled.sweep(alone, beside, np.array([i]), np.array([j]))
    assert compiled.sweep(rows, residuals, order, np.array([2, 0, 1])) == moves
    np.testing.assert_array_equal(rows, alone)
    for one, other in zip(residuals, beside, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.daily("0-frequencies+tables+products", "0-frequencies")
@each_kind
@pytest.mark.parametrize("seed", range(4))
def test_entries_are_left_out_by_what_their_best_moves_cost_the_first_rows(kinds, seed):
    """The twin computes what an entry costs where it is and elsewhere: the objective with it less that without it."""
    rng = np.random.default_rng(seed)
    problem, m, sampled = problem_of(rng, kinds, whole=True, d=2), 4 * kernels.BLOCK - 5, 20
    compiled, rows = problem.objective(), some_rows(rng, problem.sizes, m)
    for j in range(2):
        alone = Problem(problem.sizes, problem.features)
        alone.maps = problem.maps
        alone.frequencies = [entry for entry in problem.frequencies if entry[0] == j]
        alone.tables = [entry for entry in problem.tables if j in [problem.maps[k][0] for k in entry[0]]]
        alone.products = [entry for entry in problem.products if j in entry[0]]

        def value(table, alone=alone):
            return sum(weight * residual**2 for weight, residual in alone.residuals(table, m))

        order, expected, costs, left_out, moves = rng.permutation(m), rows.copy(), [], 0, 0
        for i in order.tolist():
            rest, row = value(np.delete(expected, i, axis=0)), expected[i].copy()
            values = []
            for y in range(problem.sizes[j]):
                expected[i, j] = y
                values.append(value(expected) - rest)
            stay, expected[i, j] = values[row[j]], row[j]
            values[row[j]] = np.inf
            if len(costs) >= sampled and stay < np.mean(costs[:sampled]) - kernels.BELOW * np.std(costs[:sampled]):
                left_out += 1
                continue
            if np.isfinite(min(values)):
                costs.append(min(values))
            if min(values) < stay:
                expected[i, j] = int(np.argmin(values))
                moves += 1
        residuals = compiled.residuals(rows)
        assert compiled.sweep(rows, residuals, order, np.array([j]), 0.0, sampled) == moves
        np.testing.assert_array_equal(rows, expected)
        np.testing.assert_array_equal(flat(problem, residuals, compiled), [r for _, r in problem.residuals(rows)])
        assert left_out < m - sampled or problem.sizes[j] > 1


@pytest.mark.daily(4)
@each_kind
@pytest.mark.parametrize("m", [1, kernels.BLOCK])
def test_what_each_entry_of_a_block_costs_is_what_the_objective_loses_without_it(kinds, m):
    rng = np.random.default_rng(m)
    problem = problem_of(rng, kinds, whole=True)
    compiled, rows = problem.objective(), some_rows(rng, problem.sizes, m)
    objective, residuals, block = compiled.arrays[0], compiled.residuals(rows), np.ascontiguousarray(rows.T)
    for j, size in enumerate(problem.sizes):
        tables, parts = (made(objective, residuals, j) for made in (kernels.tables_of, kernels.parts_of))
        first, k, maps = objective.first[j], objective.map_of[j], np.diff(objective.map_of)[j]
        groups, width = np.diff(objective.groups.start)[j], kernels.BLOCK
        places, factors = np.zeros((len(tables.start), width), dtype=np.int64), np.zeros((groups, width))
        kernels.find_places(tables, objective.cell.astype(np.int32), block, places)
        kernels.find_factors(objective, block, j, factors)
        costs, firm = np.zeros(width), float(objective.frequency_weights[j])
        kernels.find_costs(tables, parts, objective.cell[k : k + maps, :size].astype(np.int32),
                           residuals.frequencies[first : first + size], 2.0 * firm,
                           objective.feature[:, first : first + size], block[j], places, factors, np.zeros((2, width)),
                           costs)
        own = Problem(problem.sizes, problem.features)
        own.maps, own.frequencies = problem.maps, [entry for entry in problem.frequencies if entry[0] == j]
        own.tables = [entry for entry in problem.tables if j in [problem.maps[k][0] for k in entry[0]]]
        own.products = [entry for entry in problem.products if j in entry[0]]

        def value(table, own=own):
            return sum(weight * residual**2 for weight, residual in own.residuals(table, m))

        # The frequency that the entry enters elsewhere costs its weight more, which counts here.
        np.testing.assert_array_equal(costs[:m], [
            value(np.delete(rows, i, axis=0)) - value(rows) + firm for i in range(m)])


def test_few_moves_are_lost_where_entries_are_left_out():
    """A table of rows near its end: so that the same sweep with all entries gains hardly more."""
    rng = np.random.default_rng(7)
    m, sizes = 20_000, [30, 25, 20]
    problem = Problem(sizes)
    problem.maps = [(j, list(range(size))) for j, size in enumerate(sizes)]
    hidden = rng.normal(size=m)
    truth = np.column_stack([np.clip((hidden + rng.normal(0.0, 1.0, m) + 4.0) / 8.0 * size, 0, size - 1)
                             for size in sizes]).astype(np.int32)
    for i, j in ((0, 1), (0, 2), (1, 2)):
        counts = np.zeros((sizes[i], sizes[j]))
        np.add.at(counts, (truth[:, i], truth[:, j]), 1.0 / m)
        problem.tables.append(([i, j], counts + rng.normal(0.0, 1e-3, counts.shape), 1.0))
    compiled = problem.objective()
    start = np.column_stack([rng.permutation(column) for column in truth.T]).astype(np.int32)
    compiled.descend(start, rng, most=3)
    before, gains, moved = compiled.value(compiled.residuals(start), m), [], []
    for sampled in (None, 500, m):
        rows = start.copy()
        residuals = compiled.residuals(rows)
        moved.append(compiled.sweep(rows, residuals, np.arange(m), np.arange(3), 0.0, sampled))
        gains.append(before - compiled.value(residuals, m))
    assert moved[0] == moved[2]
    assert gains[0] == gains[2]
    assert gains[0] > 0.0
    assert moved[1] < moved[0]
    assert gains[1] > 0.7 * gains[0]


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from(KINDS), st.integers(1, 12), st.integers(1, 3), st.data())
def test_whatever_the_problem_a_sweep_lowers_the_objective_and_keeps_the_residuals(seed, kinds, m, d, data):
    rng = np.random.default_rng(seed)
    problem = problem_of(rng, kinds, whole=False, d=d)
    compiled, rows = problem.objective(), some_rows(rng, problem.sizes, m)
    moving = np.array(data.draw(st.lists(st.integers(0, d - 1), unique=True)), dtype=np.int64)
    start, residuals = rows.copy(), compiled.residuals(rows)
    value = compiled.value(residuals, m)
    assert value == pytest.approx(problem.value(rows) / m**2, rel=1e-12, abs=1e-12)
    for _ in range(3):
        before = rows.copy()
        moves = compiled.sweep(rows, residuals, rng.permutation(m), moving)
        after = compiled.value(residuals, m)
        assert after <= value * (1.0 + 1e-12)
        assert (after < value) == (moves > 0)
        assert (before != rows).sum() <= moves
        value = after
        for kept, anew in zip(residuals, compiled.residuals(rows), strict=True):
            np.testing.assert_allclose(kept, anew, rtol=0.0, atol=1e-11 * m)
    still = np.setdiff1d(np.arange(d), moving)
    np.testing.assert_array_equal(rows[:, still], start[:, still])
    assert (rows >= 0).all()
    assert (rows < problem.sizes).all()


@pytest.mark.parametrize("seed", range(20))
def test_a_move_goes_to_the_position_with_the_least_objective(seed):
    rng = np.random.default_rng(seed)
    problem = problem_of(rng, KINDS[-1], whole=False)
    compiled, rows = problem.objective(), some_rows(rng, problem.sizes, 6)
    for i, j in each(range(6), range(3)):
        values = []
        for y in range(problem.sizes[j]):
            other = rows.copy()
            other[i, j] = y
            values.append(problem.value(other))
        compiled.sweep(rows, compiled.residuals(rows), np.array([i]), np.array([j]))
        assert values[rows[i, j]] <= min(values) + 1e-8


def test_a_move_that_changes_nothing_is_not_made():
    rng = np.random.default_rng(0)
    problem = Problem([12, 4])
    problem.maps = [(0, np.repeat(np.arange(4), 3).tolist()), (1, list(range(4)))]
    problem.tables = [([0, 1], rng.dirichlet(np.ones(16)).reshape(4, 4), 1e9)]
    compiled, rows = problem.objective(), some_rows(rng, problem.sizes, 200)
    residuals = compiled.residuals(rows)
    for _ in range(5):
        before = rows.copy()
        compiled.sweep(rows, residuals, rng.permutation(200), np.array([0]))
        moved = before[:, 0] != rows[:, 0]
        assert (before[moved, 0] // 3 != rows[moved, 0] // 3).all()
    # Rows that found their cell have kept their places in it.
    assert len(set(rows[:, 0].tolist())) > 8


def adult(seed=4, m=400):
    """A table with dependent columns, and the problem that its own frequencies, tables and products are."""
    rng = np.random.default_rng(seed)
    hidden = rng.normal(size=m)
    sizes = [8, 5, 6]
    truth = np.column_stack([np.clip((hidden + rng.normal(0, 0.6, m)) * size / 5 + size / 2, 0, size - 1)
                             for size in sizes]).astype(np.int32)
    features = [np.column_stack([np.cos(np.pi * a * (np.arange(size) + 0.5) / size) for a in (1, 2)]) for size in sizes]
    problem = Problem(sizes, features)
    problem.frequencies = [(j, np.bincount(truth[:, j], minlength=size) / m, 1e4) for j, size in enumerate(sizes)]
    problem.maps = [(j, list(range(size))) for j, size in enumerate(sizes)]
    for i, j in [(0, 1), (0, 2)]:
        counts = np.zeros((sizes[i], sizes[j]))
        np.add.at(counts, (truth[:, i], truth[:, j]), 1.0 / m)
        problem.tables.append(([i, j], counts, 1e4))
    for a, b in each((0, 1), repeat=2):
        target = float((features[1][truth[:, 1], a] * features[2][truth[:, 2], b]).mean())
        problem.products.append(([1, 2], [a, b], target, 1e4))
    return problem, truth


def independent(problem, seed, m=400):
    return independent_rows([target for _, target, _ in problem.frequencies], m, np.random.default_rng(seed))


def test_a_descent_finds_a_table_with_what_was_asked():
    problem, truth = adult()
    compiled, rows = problem.objective(), independent(problem, 1)
    count = sum(problem.sizes) + 8 * 5 + 8 * 6 + 4
    assert compiled.size == count
    assert compiled.value(compiled.residuals(truth), 400) == pytest.approx(0.0, abs=1e-12)
    before = compiled.value(compiled.residuals(rows), 400) / count
    fitted = compiled.descend(rows, np.random.default_rng(2))
    assert fitted.rows is rows
    assert fitted.misfit < 0.02 * before
    assert fitted.misfit == pytest.approx(problem.value(rows) / 400**2 / count, rel=1e-9)


def test_a_descent_ends_where_more_would_fit_noise():
    problem, truth = adult()
    problem.frequencies = [(j, target, 100.0) for j, target, _ in problem.frequencies]
    problem.tables = [(maps, target, 100.0) for maps, target, _ in problem.tables]
    problem.products = [(*entry[:3], 100.0) for entry in problem.products]
    compiled = problem.objective()
    rows = truth.copy()
    assert compiled.descend(rows, np.random.default_rng(0)).sweeps == 0
    np.testing.assert_array_equal(rows, truth)
    heard = []
    rows = independent(problem, 1)
    fitted = compiled.descend(rows, np.random.default_rng(2), progress=lambda done, most: heard.append((done, most)))
    assert fitted.misfit <= ENOUGH
    # In fifths of sweeps.
    assert heard == [(done + 1, 200) for done in range(len(heard))]
    assert fitted.sweeps == -(-len(heard) // 5)


def test_a_descent_makes_no_more_sweeps_than_it_may():
    problem, _ = adult()
    rows = independent(problem, 1)
    assert problem.objective().descend(rows.copy(), np.random.default_rng(2), most=0).sweeps == 0
    assert problem.objective().descend(rows.copy(), np.random.default_rng(2), most=1).sweeps == 1


@pytest.mark.parametrize("columns", [[], [1], [2, 0]])
def test_columns_that_may_not_move_stay(columns):
    problem, _ = adult()
    start = independent(problem, 1)
    rows = start.copy()
    problem.objective().descend(rows, np.random.default_rng(2), columns=columns)
    for j in range(3):
        assert (rows[:, j] != start[:, j]).any() == (j in columns)


def test_a_seed_repeats_a_descent_on_any_number_of_threads(monkeypatch):
    problem, _ = adult()
    found = []
    for threads in ("1", "2"):
        monkeypatch.setenv("TRIGMECH_NUM_THREADS", threads)
        fitted = problem.objective().descend(independent(problem, 1), np.random.default_rng(2))
        found.append((fitted.rows.tobytes(), fitted.misfit, fitted.sweeps))
    assert found[0] == found[1]
    other = problem.objective().descend(independent(problem, 1), np.random.default_rng(3))
    assert other.rows.tobytes() != found[0][0]


@pytest.mark.parametrize("sizes", [[3, 2], [4], [1], [1, 1]])
@pytest.mark.parametrize("m", [1, 5])
def test_a_problem_of_nothing_is_solved_as_it_is(sizes, m):
    rows = some_rows(np.random.default_rng(0), sizes, m)
    start = rows.copy()
    fitted = RowObjective(sizes).compiled().descend(rows, np.random.default_rng(0))
    np.testing.assert_array_equal(rows, start)
    assert (fitted.misfit, fitted.sweeps) == (0.0, 0)


def test_a_single_row_goes_to_what_is_wanted():
    asked = RowObjective([4, 3], [np.zeros((4, 0)), np.array([[0.0], [0.5], [1.0]])])
    asked.frequencies(0, np.array([0.1, 0.2, 0.6, 0.1]), 1.0)
    asked.products(np.array([[1]]), np.array([[0]]), np.array([0.6]), np.array([1.0]))
    rows = np.zeros((1, 2), dtype=np.int32)
    fitted = asked.compiled().descend(rows, np.random.default_rng(0))
    assert rows.tolist() == [[2, 1]]
    assert fitted.misfit == pytest.approx((0.01 + 0.04 + 0.16 + 0.01 + 0.01) / 5)


@pytest.mark.parametrize("size", [1e6, 1e20, 1e100])
@pytest.mark.parametrize("seed", range(3))
def test_huge_targets_that_contradict_each_other_leave_a_table(size, seed):
    rng = np.random.default_rng(seed)
    problem = problem_of(rng, KINDS[-1], whole=False)
    problem.frequencies = [(j, size * target, 1e8) for j, target, _ in problem.frequencies]
    problem.tables += [(maps, -size * target, 1e8) for maps, target, _ in problem.tables]
    problem.products += [(*entry[:2], size * entry[2], entry[3]) for entry in problem.products]
    rows = some_rows(rng, problem.sizes, 20)
    fitted = problem.objective().descend(rows, rng)
    assert np.isfinite(fitted.misfit)
    assert (rows >= 0).all()
    assert (rows < problem.sizes).all()


@settings(max_examples=25, deadline=None)
@given(st.lists(st.lists(st.integers(0, 20), min_size=1, max_size=6).filter(any), min_size=1, max_size=3),
       st.integers(1, 50), st.integers(0, 1000))
def test_independent_rows_have_each_position_as_often_as_whole_rows_allow(masses, m, seed):
    masses = [np.array(mass) / sum(mass) for mass in masses]
    rows = independent_rows(masses, m, np.random.default_rng(seed))
    assert rows.shape == (m, len(masses))
    assert rows.dtype == np.int32
    for j, mass in enumerate(masses):
        assert (np.abs(np.bincount(rows[:, j], minlength=len(mass)) - m * mass) < 1.0 + 1e-9).all()


def test_independent_rows_are_in_no_order():
    rows = independent_rows([np.full(4, 0.25)] * 2, 4000, np.random.default_rng(0))
    # A correlation of independent columns has a standard deviation of 1 / sqrt(4000).
    assert abs(np.corrcoef(rows.T)[0, 1]) < 6.0 / np.sqrt(4000)
    assert abs(np.corrcoef(rows[1:, 0], rows[:-1, 0])[0, 1]) < 6.0 / np.sqrt(4000)


# Exchanges between rows


def with_rules(rng, problem):
    """An objective with random forbidden combinations, most of them allowed, and perhaps two columns tied together."""
    asked = problem.asked()
    rules, tied = [], []
    for width in (1, 2, 3):
        columns = rng.permutation(3)[:width].tolist()
        allowed = rng.random([problem.sizes[j] for j in columns]) < 0.8
        asked.rule([asked.map(j, np.arange(problem.sizes[j])) for j in columns], allowed)
        rules.append((columns, allowed))
    if rng.random() < 0.5:
        tied = sorted(rng.permutation(3)[:2].tolist())
        asked.together(tied)
    return asked.compiled(), rules, [tied, *([j] for j in range(3) if j not in tied)] if tied else [[0], [1], [2]]


def exchanged(problem, rows, order, others, sets, rules):
    """The table and the number of exchanges, by the objective of all and of tables alone, computed anew."""
    rows, moves = rows.copy(), 0
    of_tables = Problem(problem.sizes, problem.features)
    of_tables.maps, of_tables.tables = problem.maps, problem.tables
    for i, partners in zip(order, others, strict=True):
        for h, members in each(partners, sets):
            made = rows.copy()
            made[i, members], made[h, members] = rows[h, members], rows[i, members]
            keeps = all(allowed[tuple(made[row, columns])] for row in (i, h) for columns, allowed in rules
                        if set(columns) & set(members))
            if keeps and of_tables.value(made) <= of_tables.value(rows) and problem.value(made) < problem.value(rows):
                rows, moves = made, moves + 1
    return rows, moves


@each_kind
def test_exchanges_are_those_of_a_twin_that_computes_the_objective_anew(kinds, monkeypatch):
    monkeypatch.setattr("trigmech.reconstruction.rows.PARTNERS", 3)
    total = 0
    for seed, moving in each(range(8), ([0, 1, 2], [0, 2])):
        rng = np.random.default_rng(seed)
        problem = problem_of(rng, kinds, whole=True)
        compiled, rules, sets = with_rules(rng, problem)
        rows = some_rows(rng, problem.sizes, 12)
        residuals, start, order = compiled.residuals(rows), rows.copy(), rng.permutation(12)[:9]
        movable = [members for members in sorted(sets) if set(members) <= set(moving)]
        others = np.random.default_rng(seed).integers(12, size=(9, 3))
        expected, moves = exchanged(problem, rows, order.tolist(), others.tolist(), movable, rules)
        assert compiled.exchange(rows, residuals, order, np.array(moving), np.random.default_rng(seed)) == moves
        np.testing.assert_array_equal(rows, expected)
        np.testing.assert_array_equal(flat(problem, residuals, compiled), [r for _, r in problem.residuals(rows)])
        # Each column is as it was.
        np.testing.assert_array_equal(np.sort(rows, axis=0), np.sort(start, axis=0))
        total += moves
    assert (total > 5) == (kinds != ("frequencies",))


def test_exchanges_of_three_tied_columns_leave_their_table_as_it_is():
    """Tables of three columns with all, two and one of the exchanged ones: residuals stay those of the rows."""
    rng, sizes, made = np.random.default_rng(0), [3, 4, 2, 5], []
    for columns in ((0, 1, 2), (0, 1), (0, 1, 3), (2, 3)):
        made.append((columns, rng.dirichlet(np.ones(np.prod([sizes[j] for j in columns])))))
    asked = RowObjective(sizes)
    maps = [asked.map(j, np.arange(size)) for j, size in enumerate(sizes)]
    for columns, target in made:
        asked.table([maps[j] for j in columns], target.reshape([sizes[j] for j in columns]), 1.0)
    asked.together([0, 1, 2])
    compiled = asked.compiled()
    rows = some_rows(rng, sizes, 200)
    whole = np.sort(rows[:, :3] @ [1, 10, 100])
    residuals, before = compiled.residuals(rows), compiled.value(compiled.residuals(rows), 200)
    assert compiled.exchange(rows, residuals, np.arange(200), np.arange(4), rng) > 20
    np.testing.assert_allclose(residuals.tables, compiled.residuals(rows).tables, atol=1e-9)
    np.testing.assert_array_equal(np.sort(rows[:, :3] @ [1, 10, 100]), whole)
    assert compiled.value(residuals, 200) < before


def test_places_and_orders_are_those_of_numpy():
    rng, sizes = np.random.default_rng(1), [6, 3, 5]
    asked = RowObjective(sizes)
    cells = [rng.integers(4, size=size) for size in sizes]
    maps = [asked.map(j, own) for j, own in enumerate(cells)]
    for columns in ((2, 0), (0, 1, 2)):
        shape = [int(cells[j].max()) + 1 for j in columns]
        asked.table([maps[j] for j in columns], np.full(shape, 1.0 / np.prod(shape)), 1.0)
    compiled, rows = asked.compiled(), some_rows(rng, sizes, 50)
    for t, columns in enumerate(((2, 0), (0, 1, 2))):
        own = [cells[j][rows[:, j]] for j in columns]
        whole = np.ravel_multi_index(own, [int(cells[j].max()) + 1 for j in columns])
        np.testing.assert_array_equal(compiled._places(t, rows), [whole, *own])
        order, counts = kernels.counted_order(whole.astype(np.int64), int(whole.max()) + 2)
        np.testing.assert_array_equal(order, np.argsort(whole, kind="stable"))
        np.testing.assert_array_equal(counts, np.bincount(whole, minlength=int(whole.max()) + 2))


def test_exchanges_keep_the_sums_of_products_with_indicators():
    rng = np.random.default_rng(0)
    asked = RowObjective([4, 3], [rng.normal(size=(4, 2)), rng.normal(size=(3, 1))])
    # Of either column a feature times the indicators of the other's positions, the first of which comes after features.
    asked.products(np.array([[0, 1]] * 7), np.array([*([1, 1 + b] for b in range(3)), *([2 + a, 0] for a in range(4))]),
                   rng.normal(scale=0.3, size=7), np.ones(7))
    compiled = asked.compiled()
    rows = np.column_stack([rng.integers(size, size=40) for size in (4, 3)]).astype(np.int32)
    residuals = compiled.residuals(rows)
    assert compiled.exchange(rows, residuals, np.arange(40), np.arange(2), rng) > 5
    np.testing.assert_allclose(residuals.products, compiled.residuals(rows).products, atol=1e-9)


def test_exchanges_go_on_where_columns_are_too_firm_for_single_moves():
    """Two columns, each exactly as it should be and held so, that depend on each other."""
    problem = Problem([4, 4])
    problem.maps = [(0, list(range(4))), (1, list(range(4)))]
    problem.frequencies = [(j, np.full(4, 0.25), 1e6) for j in (0, 1)]
    problem.tables = [([0, 1], np.eye(4) / 4, 1.0)]
    compiled, start = problem.objective(), independent(problem, 3)
    alone = compiled.descend(start.copy(), np.random.default_rng(0), enough=0.0)
    np.testing.assert_array_equal(alone.rows, start)
    found = compiled.descend(start.copy(), np.random.default_rng(0), enough=0.0, exchanging=40)
    assert found.misfit < 0.2 * alone.misfit
    np.testing.assert_array_equal(np.sort(found.rows, axis=0), np.sort(start, axis=0))
