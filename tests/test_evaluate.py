"""Errors of a distribution on a workload."""

from itertools import product

import numpy as np
import pytest
from scipy.stats import rankdata

import trigmech as tm
from trigmech import Distribution
from trigmech.domain import Domain, OneHotGroup
from trigmech.evaluation.distances import (
    compare,
    distribution_difference,
    evaluate,
    total_variations,
)
from trigmech.functions.ranks import ranks
from trigmech.report import against


def test_the_table_itself_has_no_error_and_another_one_has_the_errors_of_the_workload():
    rng = np.random.default_rng(5)
    X = rng.uniform(-1, 1, (40, 3))
    workload = tm.workload.GaussianKernels(3, seed=1, n_queries=50, widths=(0.5, 2.0))
    itself = tm.Distribution(X, np.full(40, 1 / 40))
    other = tm.Distribution(X[:7], np.full(7, 1 / 7))
    assert evaluate(workload, X, itself).worst_absolute.max() < 1e-14
    found = evaluate(workload, X, other)
    np.testing.assert_array_equal(found.worst_absolute, workload.errors(X, other).max(axis=0))


LAYOUT = Domain(6, [OneHotGroup((1, 2, 3), True), OneHotGroup((4, 5), False, 0)])


def rows_of(categories, specials, numbers):
    rows = np.zeros((len(categories), 6))
    rows[np.arange(len(rows)), 1 + np.array(categories)] = 1.0
    for row, special, number in zip(rows, specials, numbers, strict=True):
        if special < 2:
            row[4 + special] = 1.0
        else:
            row[0] = number
    return rows


def test_total_variations_are_those_of_counted_categories():
    rng = np.random.default_rng(3)
    tables = [(rng.integers(0, 3, n), rng.integers(0, 3, n), rng.uniform(-1, 1, n)) for n in (50, 80)]
    true, made = (rows_of(*table) for table in tables)
    weights = rng.dirichlet(np.ones(80))
    single, pairs = total_variations(LAYOUT, true, Distribution(made, weights))
    a, b = [dict.fromkeys(product(range(3), range(3)), 0.0) for _ in range(2)]
    for first, second in zip(*tables[0][:2], strict=True):
        a[first, second] += 1.0 / 50
    for first, second, weight in zip(*tables[1][:2], weights, strict=True):
        b[first, second] += weight
    assert pairs[0, 1] == pytest.approx(0.5 * sum(abs(a[key] - b[key]) for key in a), rel=1e-12)
    assert pairs[1, 0] == pytest.approx(pairs[0, 1], rel=1e-12)
    for g, axis in ((0, 0), (1, 1)):
        expected = 0.5 * sum(abs(sum(a[key] - b[key] for key in a if key[axis] == k)) for k in range(3))
        assert single[g] == pytest.approx(expected, rel=1e-12)
    zero, none = total_variations(LAYOUT, true, Distribution(true, np.full(50, 0.02)))
    assert max(zero.max(), none.max()) < 1e-12


def test_a_comparison_in_chunks_is_that_of_the_whole_table():
    rng = np.random.default_rng(6)
    draws = [(rng.integers(0, 3, n), rng.integers(0, 3, n), np.round(rng.uniform(-1, 1, n), 1)) for n in (501, 80)]
    true, made = (rows_of(*draw) for draw in draws)
    distribution = Distribution(made, rng.dirichlet(np.ones(80)))
    families = (tm.workload.GaussianKernels(1, seed=1, n_queries=30), tm.workload.SecondMoments(1))
    told = []
    chunks = (true[at : at + 100] for at in range(0, 501, 100))
    found = compare(chunks, 501, LAYOUT, distribution, distribution, families, lambda *step: told.append(step))
    of_numbers = Distribution(made[:, :1], distribution.weights)
    for family, evaluation in zip(families, found.evaluations, strict=True):
        whole = evaluate(family, true[:, :1], of_numbers)
        np.testing.assert_allclose(evaluation.truth, whole.truth, rtol=1e-12)
        np.testing.assert_array_equal(evaluation.answers, whole.answers)
    np.testing.assert_allclose(found.variations, total_variations(LAYOUT, true, distribution)[0], rtol=1e-9)
    expected = distribution_difference(true[:, 0], made[:, 0], distribution.weights)
    np.testing.assert_allclose(found.differences, [expected], rtol=1e-12)
    assert told[:2] == [("asking the release", 0, 2), ("asking the release", 1, 2)]
    assert told[-1] == ("asking the table", 501, 501)
    assert [done for step, done, _ in told if step == "asking the table"] == [100, 200, 300, 400, 500, 501]


def test_queries_are_asked_of_the_distribution_and_columns_compared_as_a_table_has_them():
    rng = np.random.default_rng(8)
    true, made, rounded = (rows_of(rng.integers(0, 3, n), rng.integers(0, 3, n), rng.uniform(-1, 1, n))
                           for n in (90, 40, 30))
    points, table = Distribution(made, rng.dirichlet(np.ones(40))), Distribution(rounded, rng.dirichlet(np.ones(30)))
    family = tm.workload.SecondMoments(1)
    found = compare([true], 90, LAYOUT, points, table, [family], lambda *step: None)
    (evaluation,) = found.evaluations
    np.testing.assert_allclose(evaluation.answers, family.answers(made[:, :1], points.weights), rtol=1e-12)
    np.testing.assert_allclose(evaluation.truth, family.answers(true[:, :1]), rtol=1e-12)
    expected = distribution_difference(true[:, 0], rounded[:, 0], table.weights)
    np.testing.assert_allclose(found.differences, [expected], rtol=1e-12)
    np.testing.assert_allclose(found.variations, total_variations(LAYOUT, true, table)[0], rtol=1e-9)


def test_larger_tables_are_asked_fewer_queries_and_small_ones_all():
    for d in (1, 14):
        counts = [against.affordable(rows, d) for rows in (1_000, 100_000, 10**7)]
        assert counts[0] >= 10_000 > counts[1] > counts[2] == against.FEWEST_QUERIES
        assert counts[1] * 100_000 * (d + against.EXPONENTIALS) <= against.QUERY_WORK
        asked = [len(family.answers(np.zeros((1, d)))) for family in against.families(d, 60, 60)]
        assert asked == [60, *([60] if d > 1 else []), d * (d + 1) // 2]
        assert against.families(d, 10**6, 10**6)[0].n_queries == 10_000
    assert against.families(0, 60, 60) == []


def test_distribution_differences_are_those_of_scipy():
    from scipy.stats import ks_2samp

    rng = np.random.default_rng(4)
    true, made = np.round(rng.uniform(-1, 1, (60, 2)), 1), np.round(rng.uniform(-1, 1, (90, 2)) ** 3, 1)
    found = [distribution_difference(true[:, j], made[:, j], np.full(90, 1.0 / 90)) for j in range(2)]
    np.testing.assert_allclose(found, [ks_2samp(true[:, j], made[:, j]).statistic for j in range(2)], atol=1e-12)
    # Weights count, whatever their sum.
    weights = rng.dirichlet(np.ones(90))
    every = [abs((true[:, 0] <= x).mean() - weights[made[:, 0] <= x].sum()) for x in np.arange(-10, 11) / 10 + 0.01]
    assert distribution_difference(true[:, 0], made[:, 0], 7.0 * weights) == pytest.approx(max(every), rel=1e-9)
    assert np.isnan(distribution_difference(true[:0, 0], made[:, 0], weights))


@pytest.mark.parametrize("levels", [1, 2, 7, 10**9])
def test_ranks_are_those_of_scipy(levels):
    rng = np.random.default_rng(levels)
    for m in (0, 1, 2, 60):
        values = rng.integers(-levels, levels, m) / 8
        np.testing.assert_array_equal(ranks(values), rankdata(values))
