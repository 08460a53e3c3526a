"""The last round: tables that depend are measured again, tables of three columns with them, as prediction says."""

import math
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from releases import first_and_again
from scipy.optimize import minimize
from scipy.stats import chi2

import trigmech as tm
from trigmech.domain import Domain, OneHotGroup
from trigmech.functions.partition import Partition
from trigmech.functions.prefix_sums import ROUNDED_UP
from trigmech.functions.released_column import ReleasedColumn
from trigmech.mechanisms.base import PublicFacts
from trigmech.planning import selection
from trigmech.planning.dependence import FINENESS, cells_of, design_dependence
from trigmech.planning.selection import MOST_CELLS, MOST_TRIPLES, select_tables
from trigmech.planning.shares import Shares
from trigmech.planning.tables import plan_tables
from trigmech.queries.base import Measurement, moved
from trigmech.queries.joint import Marginal
from trigmech.reconstruction.dependence import (
    FRACTIONS,
    LEAST_SIZE,
    MULTIPLES,
    NOTHING,
    SIZES,
    shrunk_beside,
    shrunk_directions,
    shrunk_products,
    shrunk_table,
    shrunk_tables,
    sparse_means,
)
from trigmech.reconstruction.tables import strengths_of

C = tm.Column


def three(measurements):
    return [each for each in measurements if len(each.query.columns) == 3]


def error(precisions, costs, strengths, importance):
    """The predicted error, as the module's docstring has it, in plain numpy."""
    e = costs / np.sqrt(np.maximum(precisions, 1e-300))
    return float((importance * strengths * e / np.hypot(strengths, e)).sum())


@pytest.mark.daily(2)
@pytest.mark.parametrize("seed", range(6))
def test_no_other_precisions_of_the_same_sum_have_less_predicted_error(seed):
    rng = np.random.default_rng(seed)
    costs, strengths, importance = rng.uniform(1.0, 9.0, 7), rng.uniform(0.0, 0.3, 7), rng.uniform(0.2, 3.0, 7)
    held, budget = rng.choice([0.0, 40.0, 400.0], 7), 10.0 ** rng.uniform(2.0, 6.0)
    strengths[rng.random(7) < 0.2] = 0.0
    found = selection._allotted(costs, strengths, importance, held, budget)
    assert (found >= held).all()
    assert found.sum() == pytest.approx(held.sum() + budget)
    least = error(found, costs, strengths, importance)
    # The best of a solver from several starts, in shares of the budget.
    for start in rng.dirichlet(np.ones(7), 2):
        best = minimize(lambda part: error(held + budget * np.abs(part) / np.abs(part).sum(), costs, strengths,
                                           importance), start, method="Nelder-Mead", options={"maxiter": 4_000})
        assert least <= best.fun * (1.0 + 1e-9)
    # A planted fault: to have them evenly.
    assert least < 0.999 * error(held + budget / 7.0, costs, strengths, importance)


def test_what_depends_is_measured_again_and_three_columns_where_their_pairs_depend():
    rng = np.random.default_rng(0)
    names = "abcdef"
    schema = tm.Schema(C(name, kind="categorical", categories=("p", "q", "r")) for name in names)
    hidden = rng.integers(3, size=20_000)
    codes = rng.integers(3, size=(20_000, 6))
    for j in range(3):
        codes[:, j] = np.where(rng.random(20_000) < 0.6, hidden, codes[:, j])
    made = tm.synthesize(np.array(["p", "q", "r"], dtype=object)[codes], schema, tm.Budget(2.0, 1e-6),
                         rng=np.random.default_rng(1))
    again = {each.query.columns for each in first_and_again(made.release)[1]}
    assert set(combinations(range(3), 2)) <= again
    # A planted fault: all precisions alike.
    among = np.array([max(each.query.columns) < 3 for each in made.release.tables])
    deviations = np.array([each.deviation for each in made.release.tables])
    assert deviations[among].mean() < 0.8 * deviations[~among].mean()
    assert (0, 1, 2) in again
    # Where nothing depends, all are measured again.
    alone = tm.synthesize(np.array(["p", "q", "r"], dtype=object)[codes[:, 3:]], tm.Schema(schema.columns[3:]),
                          tm.Budget(2.0, 1e-6), rng=np.random.default_rng(1)).release
    last = first_and_again(alone)[1]
    assert len([each for each in last if len(each.query.columns) == 2]) in (1, 2, 3)
    assert moved(last, "L2") == pytest.approx(1.0)


def test_what_a_table_s_noise_costs_is_by_its_shape(monkeypatch):
    domain = tm.Schema([C(name, kind="categorical", categories=tuple(range(k)))
                        for name, k in (("a", 2), ("b", 3), ("c", 5))]).domain
    design = plan_tables(5_000, domain, tm.Budget(3.0, 1e-6))
    columns = [ReleasedColumn(partition, np.full(partition.size, 1.0 / partition.size), 0.001)
               for partition in design.partitions]
    tables = tuple(each.drawn(np.full(each.query.size, 1.0 / each.query.size), 0.01, "gaussian")
                   for each in design_dependence(design, columns) if len(each.query.columns) == 2)
    allotted, asked = selection._allotted, []
    monkeypatch.setattr(selection, "_allotted", lambda costs, *more: asked.append(costs) or allotted(costs, *more))
    select_tables(design, columns, tables, np.array([0.3, 0.2, 0.1]))
    assert [each.query.shape for each in tables] == [(2, 3), (2, 5), (3, 5)]
    # About the total variation that noise of 1 in each entry leaves, after shrinking.
    np.testing.assert_allclose(asked[-1][:3], [0.4 * math.sqrt(a * b * (a + b)) for a, b in ((2, 3), (2, 5), (3, 5))])


@pytest.mark.parametrize(("workload", "triples"), [
    (None, True), (tm.workload.Marginals(3), True), (tm.workload.Ranges(3), True), (tm.workload.Marginals(2), False),
    (tm.workload.Ranges(1), False)])
def test_three_columns_are_for_who_asks_for_them(workload, triples):
    facts = PublicFacts(1_000, Domain(9, [OneHotGroup((3 * j, 3 * j + 1, 3 * j + 2), True) for j in range(3)]),
                        tm.Budget(1e3, 1e-6), tuple("abc"))
    design = tm.TableMechanism(workload=workload).plan(facts).measured
    columns = [ReleasedColumn(partition, np.full(3, 1.0 / 3.0), 0.001) for partition in design.partitions]
    chosen = [replace(each, weight=1.0, noise=0.001) for each in design_dependence(design, columns)]
    last = select_tables(design, columns, chosen, np.full(3, 0.3))
    assert bool(three(last)) == triples
    crossed = tm.TableMechanism(workload=tm.workload.Marginals(2, "b")).plan(facts).measured
    assert [each.query.columns for each in three(select_tables(crossed, columns, chosen, np.full(3, 0.3)))] == [
        (0, 1, 2)]


@given(data=st.data())
@settings(derandomize=True, deadline=None, max_examples=30)
def test_the_last_round_costs_its_share_whatever_was_released(data):
    d = data.draw(st.integers(3, 7))
    domain = Domain(3 * d, [OneHotGroup((3 * j, 3 * j + 1, 3 * j + 2), True) for j in range(d)])
    design = plan_tables(50, domain, tm.Budget(data.draw(st.sampled_from([1e-6, 1.0, 1e6])), 1e-9),
                         Shares(0.3, 0.03, 0.3, 0), triples=1.0)
    mass = data.draw(st.sampled_from([(1.0, 0.0, 0.0), (0.5, 0.5, 0.0), (0.2, 0.3, 0.5)]))
    columns = [ReleasedColumn(partition, np.array(mass), 0.1) for partition in design.partitions]
    chosen = [replace(each, noise=design.deviation(design.dependence)) for each in design_dependence(design, columns)
              if isinstance(each.query, Marginal)]
    t = len(chosen)
    hostile = st.sampled_from([0.0, 1e-300, 1e-9, 0.1, 1.0, 1e30, 1e60])
    strengths = np.array(data.draw(st.lists(hostile, min_size=t, max_size=t)))
    last = select_tables(design, columns, chosen, strengths)
    assert moved(last, "L2") <= ROUNDED_UP
    assert moved(last, "L2") == pytest.approx(1.0)
    weights = np.array([each.weight for each in last])
    assert np.isfinite(weights).all()
    assert (weights > 0.0).all()
    # By hand: what two rows of different cells everywhere add to the vector.
    assert np.sqrt(2.0 * float((weights**2).sum())) <= design.selected.sensitivity * 50


@pytest.mark.parametrize("crossed", [None, "b"])
@pytest.mark.parametrize("seed", range(4))
def test_three_columns_are_taken_to_depend_by_a_part_of_their_two_weaker_pairs(seed, crossed):
    rng, d = np.random.default_rng(seed), 6
    facts = PublicFacts(1_000, Domain(3 * d, [OneHotGroup((3 * j, 3 * j + 1, 3 * j + 2), True) for j in range(d)]),
                        tm.Budget(1.0, 1e-6), tuple("abcdef"))
    design = tm.TableMechanism(workload=tm.workload.Marginals(3, crossed)).plan(facts).measured
    tables = np.array(list(combinations(range(d), 2)))
    strengths = rng.uniform(0.0, 0.5, len(tables)) * (rng.random(len(tables)) < 0.8)
    between = {frozenset(pair): strength for pair, strength in zip(tables.tolist(), strengths.tolist(), strict=True)}
    wanted = {}
    for triple in combinations(range(d), 3):
        held = crossed is not None and 1 in triple
        # With the crossed column, its two pairs, whatever the third; else the two weaker ones.
        weakest, middle = sorted(between[frozenset(pair)] for pair in combinations(triple, 2)
                                 if not held or 1 in pair)[:2]
        if weakest > 0.0 and design.importance(np.array([triple]))[0] > 0.0:
            wanted[triple] = (0.4 if held else 0.2) * (weakest * middle) ** 0.5
    triples, expected = selection._candidates(design, d, tables, strengths)
    assert dict(zip(map(tuple, triples.tolist()), expected.tolist(), strict=True)) == pytest.approx(wanted, rel=1e-12)
    assert len(wanted) > 3
    # If not all are looked at, it is the worthiest.
    worth = {triple: own * design.importance(np.array([triple]))[0] for triple, own in wanted.items()}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(selection, "MOST_TRIPLES", 3)
        best = selection._candidates(design, d, tables, strengths)[0]
    assert set(map(tuple, best.tolist())) == set(sorted(worth, key=worth.get)[-3:])


@pytest.mark.parametrize(("deviations", "cells"), [
    ([1e-2], 3), ([1e-3], 7), ([1e-4], 12), ([10.0], 2), ([], 2), ([1e-3, 1e-3, 10.0], 7), ([1e-3, 1e-2, 1e-2], 3)])
def test_cells_of_three_columns_are_so_many_that_each_holds_about_as_much_as_the_noise_of_most(deviations, cells):
    """With w cells of each column a cell of three holds about w^-3; tables that are not measured do not count."""
    if deviations:
        assert cells == min(max(round(0.67 / np.median(deviations) ** (1.0 / 3.0)), 2), 12)
    precisions = np.array([0.0, 0.0, *(each**-2.0 for each in deviations)])
    assert selection._cells_wanted(precisions) == cells


def test_where_a_column_has_few_levels_the_others_of_its_table_have_more_cells():
    # Cells of three tables for 2, 3, 4, ... 12 cells of a column: all finer, one of two levels, and two of them.
    count = np.arange(2.0, 13.0)
    cells = np.column_stack([count**3, 2.0 * count**2, 4.0 * count])
    for wanted in range(2, 13):
        found = selection._finest(cells, wanted)
        for t, own in enumerate(found):
            assert cells[own, t] <= wanted**3
            assert own == len(count) - 1 or cells[own + 1, t] > wanted**3
    assert (selection._finest(cells, 4) == [2, 3, 10]).all()
    # If even the coarsest cells are too many, they are what was asked for.
    assert (selection._finest(cells + 1e6, 5) == 3).all()


def test_maps_that_would_not_fit_into_a_file_are_one_for_each_column(monkeypatch):
    sizes = (2, 9, 9, 9)
    domain = tm.Schema([C(name, kind="categorical", categories=tuple(range(k))) for name, k in
                        zip("abcd", sizes, strict=True)]).domain
    design = plan_tables(8_000, domain, tm.Budget(1.0, 1e-6), triples=1.0)
    columns = [ReleasedColumn(partition, np.full(partition.size, 1.0 / partition.size), 1e-4)
               for partition in design.partitions]
    tables = tuple(each.drawn(np.full(each.query.size, 1.0 / each.query.size), 1e-3, "gaussian")
                   for each in design_dependence(design, columns) if len(each.query.columns) == 2)
    counts = []
    for most in (selection.MOST_PLACES, 0):
        monkeypatch.setattr(selection, "MOST_PLACES", most)
        last = three(select_tables(design, columns, tables, np.full(6, 0.3)))
        cells = [{own for each in last for own, c in zip(each.query.shape, each.query.columns, strict=True) if c == j}
                 for j in range(4)]
        counts.append(max(map(len, cells)))
    assert counts == [2, 1]


def test_tables_of_three_that_are_not_worth_fine_cells_get_coarse_ones():
    """Columns of twelve levels and much noise: with twelve cells of each no table of three would be measured."""
    rng = np.random.default_rng(6)
    hidden = rng.integers(12, size=4_000)
    codes = np.column_stack([np.where(rng.random(4_000) < 0.8, hidden, rng.integers(12, size=4_000)) for _ in range(4)])
    schema = tm.Schema(C(name, 0, 11, "integer") for name in "abcd")
    release = tm.synthesize(codes.astype(float), schema, tm.Budget(2.0, 1e-6), rng=np.random.default_rng(0)).release
    assert release.triples
    assert max(max(each.query.shape) for each in release.triples) < 12


def test_cells_of_triples_are_judged_by_the_tables_that_are_measured():
    """A target of six others: only two of them matter for it, so that few tables share the noise and cells are fine."""
    rng = np.random.default_rng(4)
    codes = rng.integers(2, size=(30_000, 7))
    codes[:, 6] = np.where(rng.random(30_000) < 0.9, codes[:, 0] ^ (codes[:, 1] & (rng.random(30_000) < 0.5)),
                           codes[:, 6])
    schema = tm.Schema([*(C(name, 0, 1, "binary") for name in "abcde"), C("f", 0, 1, "binary"), C("y", 0, 1, "binary")])
    release = tm.synthesize(codes.astype(float), schema, tm.Budget(2.0, 1e-6), tm.TableMechanism(target="y"),
                            np.random.default_rng(0)).release
    assert release.triples
    assert all(6 in each.query.columns for each in release.triples)
    assert (0, 1, 6) in {each.query.columns for each in release.triples}


def test_many_columns_and_cells_stay_within_what_can_be_fitted():
    d, levels = 120, 40
    domain = Domain(d * levels, [OneHotGroup(tuple(range(levels * j, levels * j + levels)), True) for j in range(d)])
    design = plan_tables(10**6, domain, tm.Budget(1e3, 1e-6), triples=1.0)
    columns = [ReleasedColumn(partition, np.full(levels, 1.0 / levels), 1e-5) for partition in design.partitions]
    chosen = [replace(each, noise=design.deviation(design.dependence)) for each in design_dependence(design, columns)]
    strengths = np.random.default_rng(0).uniform(0.1, 0.4, len(chosen))
    last = three(select_tables(design, columns, chosen, strengths))
    assert 0 < len(last) <= MOST_TRIPLES
    assert sum(each.query.size for each in last) <= selection.MOST_ENTRIES
    assert max(max(each.query.shape) for each in last) <= MOST_CELLS


def test_a_table_measured_twice_has_the_noise_that_is_said():
    """Of what is released less the truth, over what is said: its squares are chi-square, and without the second
    measurement (a planted fault) they are not."""
    rng = np.random.default_rng(3)
    schema = tm.Schema(C(name, kind="categorical", categories=(0, 1, 2)) for name in "abcd")
    codes = np.repeat(rng.integers(3, size=(2_000, 1)), 4, axis=1)
    squares, once, count = 0.0, 0.0, 0
    for seed in range(40):
        release = tm.measure(codes, schema, tm.design(len(codes), schema, tm.Budget(1.0, 1e-6)),
                             np.random.default_rng(seed)).release
        first, again = first_and_again(release)
        assert {each.query.columns for each in release.tables} <= {each.query.columns for each in again}
        for table, alone in zip(release.tables, first, strict=True):
            assert table.query is alone.query
            cells = tuple(own[codes[:, j]] for j, own in zip(table.query.columns, table.query.maps, strict=True))
            true = np.zeros(table.query.shape)
            np.add.at(true, cells, 1.0 / len(codes))
            squares += float((((table.means - true) / table.deviation) ** 2).sum())
            once += float((((table.means - true) / alone.deviation) ** 2).sum())
            count += table.query.size
    low, high = chi2(count).ppf([1e-4, 1.0 - 1e-4])
    assert low < squares < high
    assert not low < once < high


def interaction(n, seed):
    """Rows of four columns, each pair of the first three dependent, the third the parity of the others in part."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(2, size=(n, 4))
    codes[:, 1] = np.where(rng.random(n) < 0.3, codes[:, 0], codes[:, 1])
    parity = (codes[:, 0] + codes[:, 1]) % 2
    draw = rng.random(n)
    codes[:, 2] = np.where(draw < 0.5, parity, np.where(draw < 0.75, codes[:, 0], codes[:, 2]))
    return codes


def apart(made, codes):
    def table(rows):
        return np.bincount(rows[:, :3].astype(int) @ [4, 2, 1], minlength=8) / len(rows)

    return 0.5 * float(np.abs(table(made) - table(codes)).sum())


def test_what_three_columns_have_beyond_their_pairs_comes_back():
    codes = interaction(20_000, 0)
    schema = tm.Schema(C(name, 0, 1, "binary") for name in "abcd")
    errors = {}
    for name, mechanism in (("default", tm.TableMechanism()),
                            ("pairs", tm.TableMechanism(workload=tm.workload.Marginals(2)))):
        made = tm.synthesize(codes.astype(float), schema, tm.Budget(5.0, 1e-6), mechanism, np.random.default_rng(1))
        errors[name] = apart(made.sample(20_000, np.random.default_rng(2)), codes)
    assert errors["default"] < 0.01
    # A planted fault: pairs alone do not know of it.
    assert errors["pairs"] > 0.05


@pytest.mark.parametrize("shape", [(4, 3, 5), (2, 2, 2), (3, 1, 4), (12, 5, 2), (6, 4)])
def test_of_noise_alone_little_is_left_and_of_a_strong_table_nearly_all(shape):
    rng = np.random.default_rng(0)
    kept = [float((shrunk_table(rng.normal(size=shape), 1.0) ** 2).sum()) for _ in range(200)]
    freedom = np.prod([side - 1 for side in shape])
    assert np.mean(kept) <= 0.5 * freedom
    strong = rng.normal(size=shape)
    for axis in range(len(shape)):
        strong -= strong.mean(axis=axis, keepdims=True)
    found = shrunk_table(1e6 * strong, 1.0)
    assert np.allclose(found, 1e6 * strong, atol=1e-3 * np.abs(1e6 * strong).max(initial=1e-3))
    for axis in range(len(shape)):
        assert np.allclose(found.sum(axis=axis), 0.0, atol=1e-6 * np.abs(found).max(initial=1.0))


@pytest.mark.parametrize("strength", [0.0, 2.0, 20.0])
@pytest.mark.parametrize("shape", [(6, 4), (4, 9), (12, 12), (5, 3, 4)])
def test_singular_values_above_the_noise_are_shrunk_as_is_best_and_the_others_together(shape, strength):
    rng, noise = np.random.default_rng(5), 0.1
    deviation = noise * (rng.normal(size=shape) + strength * rng.normal(size=(shape[0], *[1] * (len(shape) - 1)))
                         * rng.normal(size=(1, *shape[1:])))
    values = deviation / noise
    for axis in range(len(shape)):
        values = values - values.mean(axis=axis, keepdims=True)
    # The longest axis beside the others.
    longest = max(range(len(shape)), key=lambda axis: shape[axis])
    matrix = np.moveaxis(values, longest, 0).reshape(shape[longest], -1)
    sides = sorted((shape[longest] - 1, int(np.prod([side - 1 for axis, side in enumerate(shape) if axis != longest]))))
    left, singular, right = np.linalg.svd(matrix, full_matrices=False)
    y, ratio = [s / math.sqrt(sides[1]) for s in singular[: sides[0]]], sides[0] / sides[1]
    high = [s > 1.0 + math.sqrt(ratio) for s in y]
    low = sum(s * s for s, above in zip(y, high, strict=True) if not above)
    kept = [math.sqrt((s * s - ratio - 1.0) ** 2 - 4.0 * ratio) / s if above else
            s * max(0.0, 1.0 - high.count(False) / low) for s, above in zip(y, high, strict=True)]
    made = sum(one * math.sqrt(sides[1]) * noise * np.outer(left[:, i], right[i]) for i, one in enumerate(kept))
    found = np.moveaxis(shrunk_table(deviation, noise), longest, 0).reshape(matrix.shape)
    np.testing.assert_allclose(found, made, atol=1e-12)
    assert any(high) == (strength > 0.0) or strength == 0.0


@pytest.mark.parametrize("shape", [(2, 2), (2, 31), (7, 9), (9, 7), (3, 4, 5), (1, 6)])
def test_tables_that_are_shrunk_at_once_have_the_bits_of_each_alone(shape):
    rng = np.random.default_rng(6)
    # Of all strengths, so that different numbers of singular values are above those of noise.
    noise = rng.uniform(0.05, 2.0, 40)
    tables = rng.normal(size=(40, *shape)) * rng.choice([0.01, 1.0, 30.0], size=(40, *[1] * len(shape)))
    tables[::3] += 20.0 * rng.normal(size=(shape[0], *[1] * (len(shape) - 1))) * rng.normal(size=(1, *shape[1:]))
    for table, own, found in zip(tables, noise, shrunk_tables(tables, noise), strict=True):
        np.testing.assert_array_equal(found, shrunk_table(table, float(own)))


@pytest.mark.parametrize(("value", "left"), [(0.5, 0.0), (1.0, 0.0), (2.0, 1.5), (-2.0, -1.5), (2.8, 2.8 - 1 / 2.8)])
def test_a_product_alone_is_shrunk_by_itself_and_a_strong_one_as_a_matrix_of_two(value, left):
    # Of two scores: a matrix of 2 by 2 whose eigenvalues in units of the root of 2 are below 2.
    places = np.array([[0, 1]])
    assert shrunk_products(0.1 * np.array([value]), 0.1, places)[0] == pytest.approx(0.1 * left, abs=1e-15)
    # What is far above the noise is kept but for its inverse.
    strong = shrunk_products(np.array([1e3]), 1.0, places)[0]
    assert strong == pytest.approx(1e3, rel=1e-4)


def mean_under_the_prior(values, scales):
    """Return the posterior means of sparse numbers by sums over the whole grid and over all numbers."""
    held = np.linspace(-40.0, 40.0, 8001)
    largest = max(float(np.abs(values).max()), 2.0 * LEAST_SIZE)
    logs, means = [math.log(NOTHING)], [np.zeros(len(values))]
    for size in np.geomspace(LEAST_SIZE, largest, SIZES):
        for fraction in FRACTIONS:
            found, evidence = [], -math.log(SIZES * len(FRACTIONS))
            for value, scale in zip(values, scales, strict=True):
                likelihood = (1.0 - fraction) * math.exp(-0.5 * value**2)
                moment = 0.0
                for multiple in MULTIPLES:
                    deviation = multiple * size * scale
                    prior = np.where(held == 0.0, 1.0, 0.0)
                    if deviation > 0.0:
                        prior = np.exp(-0.5 * (held / deviation) ** 2) * 0.01 / (deviation * math.sqrt(2.0 * math.pi))
                    each = fraction / len(MULTIPLES) * prior * np.exp(-0.5 * (value - held) ** 2)
                    likelihood += each.sum()
                    moment += each @ held
                found.append(moment / likelihood)
                evidence += math.log(likelihood) + 0.5 * value**2
            logs.append(evidence)
            means.append(np.array(found))
    weights = np.exp(np.array(logs) - max(logs))
    return weights @ np.array(means) / weights.sum()


@pytest.mark.parametrize("strong", [0.0, 1.5, 3.0])
def test_sparse_numbers_have_their_posterior_means(strong):
    rng = np.random.default_rng(7)
    scales = rng.uniform(0.2, 1.0, 12)
    scales[3] = 0.0
    values = rng.normal(size=12)
    values[:2] += strong
    np.testing.assert_allclose(sparse_means(values, scales), mean_under_the_prior(values, scales), atol=1e-6)
    assert sparse_means(values, scales)[3] == 0.0


def test_noise_is_not_taken_for_dependence_and_strong_dependence_is_kept():
    """A factor for each product would leave .57 of the noise, and would make rank correlations worse than none."""
    rng = np.random.default_rng(2)
    places = np.column_stack(np.triu_indices(15, 1))
    scales = np.ones(len(places))
    left = [shrunk_directions(0.1 * rng.normal(size=len(places)), 0.1, places, scales) for _ in range(40)]
    assert np.sqrt(np.mean(np.square(left))) < 0.012
    # A few strong products beside nothing: nearer than all of them are, and nearer than by single factors.
    truth = np.zeros(len(places))
    truth[[3, 40, 77]] = 0.1 * np.array([6.0, -7.0, 5.0])
    errors = {shrunk_directions: [], shrunk_products: []}
    for _ in range(40):
        noisy = truth + 0.1 * rng.normal(size=len(places))
        errors[shrunk_directions].append(np.sum((shrunk_directions(noisy, 0.1, places, scales) - truth) ** 2))
        errors[shrunk_products].append(np.sum((shrunk_products(noisy, 0.1, places) - truth) ** 2))
    assert np.mean(errors[shrunk_directions]) < 0.75 * np.mean(errors[shrunk_products])
    # With little noise all products stay as they are, even where squares are large.
    dense = rng.normal(size=len(places))
    for noise in (1e-6, 1e-40):
        np.testing.assert_allclose(shrunk_directions(dense, noise, places, scales), dense, rtol=1e-4, atol=1e-4)


def test_the_rest_of_a_matrix_of_low_rank_has_less_noise_and_what_is_in_it_is_kept():
    """The matrix follows two fifths of the noise. If all of it were expected in the rest, much would be lost there."""
    rng = np.random.default_rng(3)
    places, errors = np.column_stack(np.triu_indices(10, 1)), {0.2: [], 1.0: []}
    scales = np.ones(len(places))
    loads = rng.normal(size=(10, 3)) * [4.0, 4.0, 0.0]
    for _ in range(60):
        rest = 1.6 * rng.normal(size=len(places))
        truth = (loads @ loads.T)[tuple(places.T)] + rest
        noisy = truth + rng.normal(size=len(places))
        for least in errors:
            with pytest.MonkeyPatch.context() as patched:
                patched.setattr("trigmech.reconstruction.dependence.LEAST_LEFT", least)
                errors[least].append(np.mean((shrunk_directions(noisy, 1.0, places, scales) - truth) ** 2))
    assert np.mean(errors[0.2]) < 0.9 * np.mean(errors[1.0])


@pytest.mark.parametrize("size", [0.0, 0.7, 1.3, 20.0])
@pytest.mark.parametrize("shape", [(4, 3, 5), (2, 2, 2), (12, 5, 2), (3, 1, 4)])
def test_of_fewer_columns_is_kept_what_exceeds_the_noise_of_as_many_directions(shape, size):
    rng, noise = np.random.default_rng(1), 0.3
    # All directions, and those of sums of 0 along each axis, as a matrix of its own.
    within = np.eye(1)
    for side in shape:
        within = np.kron(within, np.eye(side) - 1.0 / side)
    fewer = np.eye(len(within)) - within
    freedom = np.linalg.matrix_rank(fewer)
    deviation = noise * (rng.normal(size=shape) + size * rng.normal(size=(*shape[:2], 1)))
    lower = (fewer @ deviation.ravel()).reshape(shape)
    # James and Stein: one less the noise's squares over all squares, and not below 0.
    kept = max(0.0, 1.0 - freedom * noise**2 / float((lower**2).sum()))
    found = shrunk_beside(deviation, noise) - shrunk_table(deviation, noise)
    np.testing.assert_allclose(found, kept * lower, atol=1e-12)


@pytest.mark.parametrize("shape", [(4, 3, 5), (2, 2, 2), (12, 5, 2)])
def test_what_rows_have_of_fewer_columns_stays_unless_it_is_clearly_off(shape):
    rng, size = np.random.default_rng(0), np.prod(shape)
    kept = [float((shrunk_beside(rng.normal(size=shape), 1.0) ** 2).sum()) for _ in range(200)]
    assert np.mean(kept) <= 0.5 * size
    # Of two columns alone, and far above the noise, nearly all is kept; by the interaction alone (a fault) nothing.
    strong = 30.0 * np.broadcast_to(rng.normal(size=(*shape[:2], 1)), shape) + rng.normal(size=shape)
    assert ((shrunk_beside(strong, 1.0) - strong) ** 2).sum() <= 2.0 * size
    assert ((shrunk_table(strong, 1.0) - strong) ** 2).sum() > 20.0 * size


def test_strengths_are_the_total_variation_from_independence():
    codes = np.repeat(np.random.default_rng(0).integers(2, size=(50_000, 1)), 3, axis=1)
    codes[:, 2] = np.random.default_rng(1).integers(2, size=50_000)
    release = tm.measure(codes.astype(float), schema := tm.Schema(C(name, 0, 1, "binary") for name in "abc"),
                         tm.design(50_000, schema, tm.Budget(100.0, 1e-6)), np.random.default_rng(0)).release
    assert list(combinations(range(3), 2)) == [each.query.columns for each in release.tables]
    strengths, occupied = strengths_of(release)
    assert strengths == pytest.approx([0.5, 0.0, 0.0], abs=0.01)
    # Tables of few cells are not taken to be sparse.
    assert np.isinf(occupied).all()


def tailed(rng, correlation, n=40_000):
    """Rows of two numbers with exponential tails of this rank correlation, about."""
    normal = rng.multivariate_normal([0.0, 0.0], [[1.0, correlation], [correlation, 1.0]], n)
    return np.clip(5.0 * np.exp(1.2 * normal), 0.0, 200.0)


def first_tables(points, cells):
    """Columns of two numbers by their counts, and the table of both by cells of equal mass, with little noise."""
    edges = np.linspace(-1.0, 1.0, 401)
    held, maps = [], []
    for j in range(2):
        mass = np.histogram(points[:, j] / 100.0 - 1.0, edges)[0] / len(points)
        held.append(ReleasedColumn(Partition((), j, edges), mass, 1e-6))
        maps.append(cells_of(held[-1], cells, 1.0 / cells))
    query = Marginal((0, 1), (held[0].partition, held[1].partition), tuple(maps))
    counted = query.counted(np.column_stack([each.partition.codes(points / 100.0 - 1.0) for each in held]),
                            np.full(len(points), 1.0 / len(points)))
    return held, [Measurement(query, 1.0, counted.ravel(), 1e-6)]


def test_tails_are_measured_where_correlated_numbers_hide_them():
    rng = np.random.default_rng(0)
    # Large budgets make many cells, and two hundredths of the variance are then hidden: half of a correlation of tails.
    for correlation, cells, wanted in ((0.9, 40, 1), (0.9, 200, 1), (0.9, 300, 0), (0.9, 12, 1), (0.9, 3, 0),
                                       (0.0, 40, 0), (0.15, 40, 0)):
        columns, tables = first_tables(tailed(rng, correlation), cells)
        assert len(selection._tails(columns, tables, 1e9)) == wanted
        # Few cells because of noise, and not because most rows are at few values.
        noisier = [replace(tables[0], noise=1.1 * 0.5 * (FINENESS / selection.TAIL_CELLS) ** 2)]
        assert len(selection._tails(columns, noisier, 1e9)) == (wanted if cells == 40 else 0)
    # Even numbers hide nothing, and with noise above the covariance nothing is known.
    close = rng.random((40_000, 1)) + rng.normal(0.0, 0.001, (40_000, 2))
    even, tables = first_tables(200.0 * close.clip(0.0, 1.0), 40)
    assert selection._tails(even, tables, 1e9) == ()
    columns, tables = first_tables(tailed(rng, 0.9), 40)
    noisy = [replace(tables[0], noise=0.1)]
    assert selection._tails(columns, noisy, 1e9) == ()
    # Not even a single cell of so many rows.
    assert selection._tails(columns, tables, 1e-6) == ()


def test_a_pair_alone_is_measured_again_and_its_tails_too():
    """Two nearly equal numbers with long tails lost a tenth of their correlation, however much budget they had."""
    rng = np.random.default_rng(4)
    pay = np.minimum(rng.lognormal(0.0, 1.2, 10_000), 80.0)
    table = np.column_stack([pay, pay * rng.uniform(0.85, 1.0, 10_000)])
    schema = tm.Schema([tm.Column("pay", 0, 100), tm.Column("net", 0, 100)])
    made = tm.synthesize(table, schema, tm.Budget(20.0, 1e-6), rng=np.random.default_rng(0))
    assert [charge.purpose for charge in made.ledger.charges][-2:] == ["dependence", "selected tables"]
    shapes = [each.query.shape for each in made.release.tables]
    assert len(shapes) == 2
    # One has cells of equal frequency, and the other one cells of equal variance: fewer, and narrow where rows are few.
    first, tails = sorted(made.release.tables, key=lambda each: -math.prod(each.query.shape))
    assert len(np.flatnonzero(tails.query.maps[0] == 0)) > len(np.flatnonzero(first.query.maps[0] == 0))
    rows = made.sample(10_000, rng=np.random.default_rng(1))
    lost = np.corrcoef(table.T)[0, 1] - np.corrcoef(np.asarray(rows, dtype=float).T)[0, 1]
    assert abs(lost) < 0.04


@pytest.mark.parametrize(("second", "again"), [
    (tm.Column("b", 0, 9), True), (tm.Column("b", kind="categorical", categories=("x", "y", "z")), False)])
def test_a_pair_of_categories_alone_is_measured_once(second, again):
    first = tm.Column("a", kind="categorical", categories=("u", "v", "w"))
    design = tm.design(5_000, tm.Schema([first, second]), tm.Budget(2.0, 1e-6))
    assert ("selected tables" in [charge.purpose for charge in design.charges]) is again


def test_cells_of_tails_share_the_variance_and_hold_rows():
    columns, _ = first_tables(tailed(np.random.default_rng(1), 0.9), 40)
    for enough in (1e-4, 5e-3):
        for column in columns:
            cells = selection._by_variance(column, enough)
            assert (np.diff(cells) >= 0).all()
            assert set(np.diff(cells).tolist()) <= {0, 1}
            centres, mass = column.partition.centres, column.mass
            share = mass * (centres - mass @ centres) ** 2
            share /= share.sum()
            assert np.bincount(cells, mass).min() >= enough * (1.0 - 1e-9)
            held = np.bincount(cells, share)
            # Of a cell that holds more than its share the last position, or the rows, are the reason.
            assert (held[:-1] >= 1.0 / selection.TAIL_CELLS - 1e-12).all() or len(held) == 1
            if enough == 1e-4:
                assert len(held) > 10
                assert held[:-1].max() < 3.0 / selection.TAIL_CELLS


def test_a_table_that_is_what_lower_tables_say_is_shrunk_without_an_overflow():
    # Its deviation has no part of lower order, or one far below floating point's squares.
    for deviation in (np.zeros((3, 4, 5)), np.full((3, 4, 5), 1e-170)):
        with np.errstate(all="raise", under="ignore"):
            assert not shrunk_beside(deviation, 1.0).any()
