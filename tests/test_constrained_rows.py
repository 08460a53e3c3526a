"""Synthetic rows keep the schema's constraints, whatever was released; columns that are tied together move together."""

import itertools
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_constraints import COLUMNS, conditions, random_rows, trees, written

import trigmech as tm
from trigmech.distribution import Distribution
from trigmech.errors import InputError
from trigmech.functions.partition import columns_of, even_edges
from trigmech.functions.released_column import ReleasedColumn
from trigmech.queries.base import parents
from trigmech.reconstruction import constrained as constrained_module
from trigmech.reconstruction.constrained import ConstrainedRows, keeps, kept, witness
from trigmech.reconstruction.rows import RowObjective, independent_rows
from trigmech.schema.column import Column
from trigmech.schema.schema import Schema

laws = settings(max_examples=20, derandomize=True, deadline=None, database=None)
# Of whole releases.
releases = settings(laws, max_examples=7)


def released(schema, rng):
    """Any distribution of each column, of the coarsest positions or of finer ones."""
    columns = []
    for partition in columns_of(schema.domain):
        if partition.value is not None and partition.levels is not None and rng.random() < 0.5:
            middles = 0.5 * (partition.levels[1:] + partition.levels[:-1])
            chosen = middles[rng.random(len(middles)) < 0.5]
            partition = partition.cut(np.concatenate([[-1.0], chosen, [1.0]]))
        columns.append(ReleasedColumn(partition, rng.dirichlet(np.full(partition.size, 0.5)), 0.1))
    return columns


# Every row


@pytest.mark.nightly  # By day cases of it, below.
@pytest.mark.filterwarnings("ignore::trigmech.FitWarning")  # of tables that break the constraints
@releases
@given(st.lists(trees(conditions()), min_size=1, max_size=3), st.floats(-3.0, 4.0), st.booleans(),
       st.integers(2, 40), st.integers(0, 2**32))
def test_every_row_keeps_the_constraints_or_nothing_is_charged(rules, magnitude, pure, n, seed):
    rng = np.random.default_rng(seed)
    budget = tm.Budget(10.0**magnitude, 0.0 if pure else 1e-6)
    try:
        schema = Schema(COLUMNS, map(written, rules))
    except InputError:
        return
    table = np.array([list(row.values()) for row in random_rows(rng, n)], dtype=object)
    table[:, [column.missing == "refuse" for column in COLUMNS]] = [
        [column.categories[0] if column.categories else column.upper for column in COLUMNS
         if column.missing == "refuse"]] * n
    try:
        design = tm.design(n, schema, budget, tm.TableMechanism(points=int(rng.integers(1, 60))))
    except InputError:
        with pytest.raises(InputError, match=r"^no synthetic row can satisfy these constraints"):
            witness(schema)
        return
    moments = tm.measure(table, schema, design, rng)
    made = tm.reconstruct(moments, rng)
    # Each is of more rows than were fitted; the sample is a table of objects.
    assert schema.holds(made.sample(100, rng) if seed % 2 else made.columns(100, rng)).all()


def test_the_fit_also_of_other_mechanisms_is_made_to_keep_them():
    schema = Schema([Column("a", 0, 9, "integer"), Column("b", 0, 9, missing="keep"),
                     Column("c", kind="categorical", categories=("x", "y"))],
                    ["a < 3 if and only if b is missing", "b >= a or c = 'x'"])
    table = np.array([[7, None, "y"], [1, 0.5, "y"]] * 40, dtype=object)
    rng = np.random.default_rng(0)
    made = tm.synthesize(table, schema, tm.Budget(1.0, 1e-4), tm.MomentMechanism(points=64, iterations=2), rng)
    assert schema.holds(made.sample(200, rng)).all()
    fit = made.fit.distribution
    assert Distribution(kept(schema, fit.points, rng), fit.weights).points is fit.points


def test_where_no_row_keeps_the_constraints_all_take_over_what_does():
    schema = Schema([Column("a", 0, 3, "integer"), Column("b", 0, 3, "integer"), Column("c", 0, 3, "integer")],
                    ["a < b"])
    columns = []
    for partition, level in zip(columns_of(schema.domain), (3, 0, 2), strict=True):
        partition = partition.cut(even_edges(partition.levels, 4))
        columns.append(ReleasedColumn(partition, np.eye(4)[level], 0.1))
    constrained = ConstrainedRows(schema, columns)
    rows = np.tile(np.array([column.mass.argmax() for column in constrained.columns], dtype=np.int32), (20, 1))
    before = rows.copy()
    assert (constrained.broken(rows) == 1).all()
    constrained.repair(rows, np.random.default_rng(0))
    assert (constrained.broken(rows) == 0).all()
    assert np.array_equal(rows[:, 2], before[:, 2])


def test_a_point_that_breaks_a_constraint_takes_over_from_the_nearest_of_those_that_were_drawn():
    schema = Schema([Column("a", -1.0, 1.0), Column("b", -1.0, 1.0), Column("c", -1.0, 1.0)], ["a <= b"])
    rng = np.random.default_rng(0)
    points = rng.uniform(-1.0, 1.0, (200, 3))
    good = np.flatnonzero(points[:, 0] <= points[:, 1])
    bad = np.flatnonzero(points[:, 0] > points[:, 1])
    drawn = rng.integers(len(good), size=(len(bad), 32))

    class Drawn:
        def integers(self, high, size):
            assert (high, size) == (len(good), drawn.shape)
            return drawn

    found = kept(schema, points, Drawn())
    assert np.array_equal(found[good], points[good])
    # What no constraint is about stays.
    assert np.array_equal(found[:, 2], points[:, 2])
    for i, offered in zip(bad.tolist(), drawn.tolist(), strict=True):
        others = points[good[offered], :2]
        nearest = min(others.tolist(), key=lambda other, i=i: (other[0] - points[i, 0]) ** 2
                      + (other[1] - points[i, 1]) ** 2)
        assert found[i, :2].tolist() == nearest


def test_values_found_privately_keep_them():
    schema = Schema([Column("pay", kind="integer", private_bounds=True, missing="keep"),
                     Column("age", 0, 120, "integer"),
                     Column("town", kind="categorical", categories="private", missing="keep")],
                    ["pay is missing if and only if age < 15", "town is missing implies age >= 40"])
    rng = np.random.default_rng(3)
    table = [[None if age < 50 else 100 + age, age, None if age % 3 else "Rome"] for age in range(90)]
    made = tm.synthesize(table, schema, tm.Budget(3.0, 1e-4), tm.TableMechanism(points=300), rng)
    assert made.schema.constraints == schema.constraints
    assert made.schema.holds(made.sample(400, rng)).all()


@pytest.mark.parametrize(("columns", "constraint"), [
    ([Column("x", 0, 1)], "x = 0.5"),
    ([Column("x", 0, 1, missing="keep"), Column("y", 0, 1, "integer")], "x = 0.25 and y = 1")])
def test_what_no_synthetic_row_can_keep_is_refused_before_the_charge(columns, constraint, tmp_path):
    path = tmp_path / "ledger.json"
    tm.LedgerFile.create(path, tm.Budget(9.0, 1e-4))
    schema = Schema(columns, [constraint])
    said = rf"no synthetic row can satisfy these constraints: '{constraint}'\. .* in `special`"
    with pytest.raises(InputError, match=said):
        tm.synthesize(np.full((9, schema.d), 0.5), schema, tm.Budget(1.0, 1e-4), ledger=path)
    assert not json.loads(path.read_text())["entries"]


@pytest.mark.parametrize(("upper", "rule"), [
    (10**18, "x >= 500000000000000000"), (2**62, "x > 4000000000000000000"),
    (10**18, "x > 3 and x < 999999999999999000"), (2**53, "x > 9007199254740000 and x < 9007199254740900")])
def test_integers_beyond_what_floating_point_counts_one_by_one_can_keep_a_constraint(upper, rule):
    schema = Schema([Column("x", 0, upper, "integer")], [rule])
    assert keeps(schema, witness(schema)).all()


def test_too_many_combinations_are_refused_before_the_charge():
    columns = [Column(f"c{k}", kind="categorical", categories=tuple(range(210))) for k in range(3)]
    rules = [f"c0 = c1 or c1 = c2 or c2 = c0 or c0 = {k}" for k in range(11)]
    with pytest.raises(InputError, match="more than 100000000 combinations of values"):
        witness(Schema(columns, rules))


def test_a_search_without_an_end_is_not_told_as_constraints_that_no_row_can_satisfy(monkeypatch):
    columns = [Column("a", 0.0, 1.0), Column("b", 0.0, 1.0)]
    assert keeps(Schema(columns, ["a < b"]), witness(Schema(columns, ["a < b"]))).all()
    # Without constraints every row will do.
    assert witness(Schema(columns)).shape == (1, 2)
    for found, said in ((None, "a search of 1000000 steps did not find out whether a synthetic row can satisfy"),
                        (False, "no synthetic row can satisfy")):
        monkeypatch.setattr(constrained_module, "combination", lambda tables, found=found: found)
        with pytest.raises(InputError, match=f"{said} these constraints.*'a < b'"):
            witness(Schema(columns, ["a < b"]))


@pytest.mark.nightly
@laws
@given(st.lists(trees(conditions()), min_size=1, max_size=3), st.integers(0, 2**32))
def test_positions_decide_but_for_numbers_of_the_same_cell(rules, seed):
    """A combination is allowed if some values of its positions keep the constraints, and only rarely otherwise."""
    rng = np.random.default_rng(seed)
    try:
        schema = Schema(COLUMNS, map(written, rules))
        witness(schema)
    except InputError:
        return
    before = released(schema, rng)
    constrained = ConstrainedRows(schema, before)
    rows = np.column_stack([rng.integers(len(column.mass), size=300, dtype=np.int32) for column in constrained.columns])
    found = constrained.broken(rows) == 0
    for column, was in zip(constrained.columns, before, strict=True):
        assert column.mass.sum() == pytest.approx(1.0)
        # Of what was one position before, as much as it had.
        np.testing.assert_allclose(np.bincount(parents(column.partition, was.partition), column.mass), was.mass,
                                   atol=1e-12)
    possible = np.zeros(300, dtype=np.bool_)
    for _ in range(10):
        points = np.zeros((300, schema.width))
        for j, column in enumerate(constrained.columns):
            column.partition.place(rows[:, j], rng.random(300), points)
        now = schema.holds(schema.decode(points))
        possible |= now
        if not any(condition.other for each in schema.constraints for condition in each.rule.conditions()):
            np.testing.assert_array_equal(now, found)
    assert not (possible & ~found).any()
    constrained.repair(rows, rng)
    assert not constrained.broken(rows).any()


# A start


def test_exchanges_leave_each_column_as_it_is():
    schema = Schema([Column("age", 0, 99, "integer"),
                     Column("pay", kind="categorical", categories=("N", "low", "high")),
                     Column("status", kind="categorical", categories=("N", "single", "married"))],
                    ["age < 15 if and only if pay = 'N'", "age < 15 if and only if status = 'N'"])
    columns = [ReleasedColumn(column.cut(np.array([-1.0, 0.1, 1.0])) if column.value is not None else column, mass, 0.1)
               for column, mass in zip(columns_of(schema.domain), (np.array([0.9, 0.1]), np.array([0.252, 0.4, 0.348]),
                                                                   np.array([0.248, 0.4, 0.352])), strict=True)]
    constrained = ConstrainedRows(schema, columns)
    assert [len(column.mass) for column in constrained.columns] == [3, 3, 3]
    rng = np.random.default_rng(0)
    rows = independent_rows([column.mass for column in constrained.columns], 1_000, rng)
    before = [np.bincount(rows[:, j], minlength=3) for j in range(3)]
    assert (constrained.broken(rows) > 0).mean() > 0.3
    constrained.repair(rows, rng)
    assert not constrained.broken(rows).any()
    # The first 15 of 55 ages have .245, and .252 and .248 are missing: these few rows cannot be exchanged.
    for j in range(3):
        assert np.abs(np.bincount(rows[:, j], minlength=3) - before[j]).max() <= 12


TIED = Schema([Column(name, kind="categorical", categories=("p", "q", "r")) for name in "abc"],
              ["a = 'p' if and only if b = 'p'", "b = 'p' if and only if c = 'p'"])


@pytest.mark.parametrize(("before", "after"), [
    # Both break a rule less; both break as many as before; one breaks what the other kept.
    ("pqq qpp", "ppq qqp"), ("pqr prq", "prr pqq"), ("pqq ppp", "pqq ppp"),
    ("qpq qrr", "qrq qpr")])
def test_an_exchange_is_made_unless_more_rules_are_broken_after_it(before, after, monkeypatch):
    monkeypatch.setattr(constrained_module, "EXCHANGES", 2)
    constrained = ConstrainedRows(TIED, [ReleasedColumn(column, np.full(3, 1 / 3), 0.1)
                                         for column in columns_of(TIED.domain)])
    [(members, rules)] = constrained._groups
    start, end = (np.array([["pqr".index(letter) for letter in row] for row in text.split()], dtype=np.int32)
                  for text in (before, after))
    assert (constrained.broken(end).sum() <= constrained.broken(start).sum()) or before == after
    seen = set()
    for seed in range(40):
        rows = start.copy()
        # Of the second column alone, among rows that break a rule and then with one that keeps them.
        constrained._exchange(rows, [members[1]], rules, np.random.default_rng(seed))
        seen.add(rows.tobytes())
    assert seen <= {start.tobytes(), end.tobytes()}
    assert end.tobytes() in seen


@pytest.mark.parametrize("rule", ["low < high", "low = high"])
def test_numbers_of_one_cell_are_drawn_until_they_keep_what_compares_them(rule):
    schema = Schema([Column("low", 0, 1), Column("high", 0, 1)], [rule])
    columns = [ReleasedColumn(column.cut(np.array([-1.0, 0.0, 1.0])), np.array([0.5, 0.5]), 0.1)
               for column in columns_of(schema.domain)]
    constrained = ConstrainedRows(schema, columns)
    rng = np.random.default_rng(0)
    cells = rng.integers(len(constrained.columns[0].mass), size=300).astype(np.int32)
    rows = np.column_stack([cells, cells])
    points = constrained.placed(rows, schema.width, rng)
    assert keeps(schema, points).all()
    for j, column in enumerate(constrained.columns):
        np.testing.assert_array_equal(column.partition.codes(points), rows[:, j])
        # Each has its own: none was taken over from another row.
        assert len(np.unique(points[:, j])) == len(points)


# Columns that move together


def small_objective(rng):
    """Four columns, tables of some pairs and a triple, products, and rules that tie the first three together."""
    sizes, cells = [4, 3, 3, 2], 3
    features = [rng.normal(size=(size, 2)) for size in sizes]
    asked = RowObjective(sizes, features)
    maps = [asked.map(j, rng.integers(min(cells, size), size=size)) for j, size in enumerate(sizes)]
    whole = [asked.map(j, np.arange(size)) for j, size in enumerate(sizes)]
    shape = [int(asked._maps[k][1].max()) + 1 for k in maps]
    for j in range(4):
        asked.frequencies(j, rng.dirichlet(np.ones(sizes[j])), float(rng.uniform(0.5, 2.0)))
    # The first table, and the first product, are of none of the columns that move together.
    for held in [(3,), (0, 1), (1, 3), (2, 3), (0, 1, 2)]:
        target = rng.dirichlet(np.ones(int(np.prod([shape[j] for j in held])))).reshape([shape[j] for j in held])
        asked.table([maps[j] for j in held], target, float(rng.uniform(0.5, 2.0)))
    asked.products(np.array([[3, -1], [0, 1], [1, 2], [0, 3]]), rng.integers(2, size=(4, 2)), rng.normal(size=4),
                   rng.uniform(0.1, 1.0, 4))
    tied = np.zeros((4, 3), dtype=np.bool_)
    tied[:2, 0] = tied[2:, 1:] = True
    other = np.ones((3, 3), dtype=np.bool_)
    other[1, 0] = False
    asked.rule((whole[0], whole[1]), tied)
    asked.rule((whole[1], whole[2]), other)
    asked.together((0, 1, 2))
    allowed = [row for row in itertools.product(*map(range, sizes)) if tied[row[0], row[1]] and other[row[1], row[2]]]
    return asked, np.array(allowed, dtype=np.int32)


@pytest.mark.parametrize(("rule", "tied"), [("a <= b", False), ("a = b or a < b", False), ("not a > b", False),
                                            ("a = b", True), ("a <= b and b <= a", True)])
def test_numbers_of_one_cell_are_equal_only_where_constraints_ask_for_it(rule, tied):
    schema = Schema([Column("a", 0, 9_999, "integer"), Column("b", 0, 9_999, "integer"), Column("c", 0, 1),
                     Column("d", 0, 1)], [rule])
    columns = [ReleasedColumn(partition.cut(even_edges(partition.levels, 2)), np.full(2, 0.5), 0.01)
               for partition in columns_of(schema.domain)]
    constrained = ConstrainedRows(schema, columns)
    held = [int(np.argmax(column.mass)) for column in constrained.columns]
    points = constrained.placed(np.tile(np.array(held, dtype=np.int32), (4_000, 1)), 4, np.random.default_rng(0))
    assert keeps(schema, points).all()
    made = schema.decode(points)
    low, high = constrained.columns[0].partition.edges[held[0] : held[0] + 2] * 5_000 + 5_000
    assert high - low > 4_000
    assert (made["a"] == made["b"]).mean() < 0.01 or tied
    if not tied:
        # The density is even where the constraint holds: the means of the lesser and the greater of two.
        np.testing.assert_allclose([made["a"].mean(), made["b"].mean()],
                                   [(2 * low + high) / 3, (low + 2 * high) / 3], atol=100)
    # Columns beside the constraint stay independent.
    assert abs(np.corrcoef(made["c"], made["d"])[0, 1]) < 0.08


@pytest.mark.parametrize("count", [4, 1, 7])
def test_columns_move_together_as_a_plain_twin_says(count, monkeypatch):
    """Each candidate's objective is computed anew from all rows."""
    monkeypatch.setattr("trigmech.reconstruction.rows.OTHERS", count)
    moved = 0
    for seed in range(12):
        rng = np.random.default_rng(seed)
        asked, allowed = small_objective(rng)
        compiled = asked.compiled()
        rows = allowed[rng.integers(len(allowed), size=15)]
        twin, residuals, order = rows.copy(), compiled.residuals(rows), rng.permutation(15)
        columns = np.array([0, 1, 2, 3]) if seed % 3 else np.array([1, 2])
        moves = compiled.sweep_together(rows, residuals, order, columns, np.random.default_rng(seed))
        again = np.random.default_rng(seed)
        others, seeds = again.integers(15, size=(15, count)), again.choice([0, 1, 2], size=(15, count))
        possible = {tuple(row) for row in allowed}
        for place, i in enumerate(order):
            best, chosen = compiled.value(compiled.residuals(twin), 15), twin[i].copy()
            for k in range(count):
                other = twin[others[place, k]]
                # From the entry that is taken first, the smallest set of further ones that keeps the rules.
                first = [seeds[place, k]] if k % 2 else [0, 1, 2]
                sets = [{*first, *more} & set(columns.tolist()) for size in range(4)
                        for more in itertools.combinations([0, 1, 2], size)]
                for taken in sets:
                    made = twin.copy()
                    made[i, sorted(taken)] = other[sorted(taken)]
                    if tuple(made[i]) in possible:
                        value = compiled.value(compiled.residuals(made), 15)
                        if value < best - 1e-10:
                            best, chosen = value, made[i].copy()
                        break
            twin[i] = chosen
        np.testing.assert_array_equal(rows, twin)
        for kept_up, anew in zip(residuals, compiled.residuals(rows), strict=True):
            np.testing.assert_allclose(kept_up, anew, atol=1e-9)
        assert all(tuple(row) in possible for row in rows)
        moved += moves
    assert moved > 40


def test_each_of_several_sets_of_columns_moves_together():
    # Rules let no column move alone: both sets have the frequencies that are asked for only if both move.
    for sets in ([(0, 1), (2, 3)], [(0, 2), (1, 3)], [(0, 1), (2, 3), (4, 5)]):
        d = 2 * len(sets)
        asked = RowObjective([2] * d)
        whole = [asked.map(j, np.arange(2)) for j in range(d)]
        for first, second in sets:
            asked.frequencies(first, np.array([0.5, 0.5]), 1.0)
            asked.rule((whole[first], whole[second]), np.eye(2, dtype=np.bool_))
            asked.together((first, second))
        compiled, rng = asked.compiled(), np.random.default_rng(len(sets))
        rows = np.zeros((40, d), dtype=np.int32)
        rows[:10] = 1
        residuals = compiled.residuals(rows)
        assert compiled.sweep(rows, residuals, np.arange(40), np.arange(d)) == 0
        moves = sum(compiled.sweep_together(rows, residuals, rng.permutation(40), np.arange(d), rng) for _ in range(20))
        assert moves == 10 * len(sets)
        assert rows.sum(axis=0).tolist() == [20] * d
        for first, second in sets:
            np.testing.assert_array_equal(rows[:, first], rows[:, second])


@pytest.mark.parametrize("moving", [0, 1])
def test_each_of_several_sets_of_columns_is_exchanged_as_one(moving):
    sets = [(0, 2), (1, 3)]
    asked = RowObjective([2] * 4)
    whole = [asked.map(j, np.arange(2)) for j in range(4)]
    for first, second in sets:
        asked.rule((whole[first], whole[second]), np.eye(2, dtype=np.bool_))
        asked.together((first, second))
    asked.table((whole[0], whole[1]), np.eye(2) / 2.0, 1.0)
    compiled, rng = asked.compiled(), np.random.default_rng(5)
    codes = np.arange(40) % 2, np.arange(40) // 2 % 2
    rows = np.column_stack([*codes, *codes]).astype(np.int32)
    residuals = compiled.residuals(rows)
    for _ in range(60):
        compiled.exchange(rows, residuals, rng.permutation(40), np.array(sets[moving]), rng)
    # The one set has come to agree with the other, which stayed, and no column's frequencies have changed.
    np.testing.assert_array_equal(rows, np.repeat(codes[1 - moving][:, None], 4, axis=1))


def test_single_moves_never_break_a_rule_and_are_the_best_of_those_allowed():
    for seed in range(8):
        rng = np.random.default_rng(seed)
        asked, allowed = small_objective(rng)
        compiled, possible = asked.compiled(), {tuple(row) for row in allowed}
        rows = allowed[rng.integers(len(allowed), size=12)]
        twin, order, columns = rows.copy(), rng.permutation(12), rng.permutation(4)
        compiled.sweep(rows, compiled.residuals(rows), order, columns)
        for j, i in itertools.product(columns, order):
            best, chosen = compiled.value(compiled.residuals(twin), 12) - 1e-10, twin[i, j]
            for y in range(asked.sizes[j]):
                made = twin.copy()
                made[i, j] = y
                value = compiled.value(compiled.residuals(made), 12)
                if tuple(made[i]) in possible and value < best:
                    best, chosen = value, y
            twin[i, j] = chosen
        np.testing.assert_array_equal(rows, twin)


def test_a_descent_crosses_between_combinations_that_are_tied():
    """Half of the rows must change two columns at once, which no single move can."""
    asked = RowObjective([2, 2, 2])
    maps = [asked.map(j, np.arange(2)) for j in range(3)]
    asked.table((maps[0], maps[2]), np.array([[0.5, 0.0], [0.0, 0.5]]), 1e6)
    asked.rule((maps[0], maps[1]), np.eye(2, dtype=np.bool_))
    start = np.array(list(itertools.product([0, 1], [0, 1])) * 50, dtype=np.int32)[:, [0, 0, 1]]
    alone = asked.compiled().descend(start.copy(), np.random.default_rng(0), columns=[0, 1])
    assert np.array_equal(alone.rows, start)
    asked.together((0, 1))
    made = asked.compiled().descend(start.copy(), np.random.default_rng(0), columns=[0, 1])
    assert made.misfit < 1e-6
    assert np.array_equal(made.rows[:, 0], made.rows[:, 1])
    assert np.array_equal(made.rows[:, 2], start[:, 2])
