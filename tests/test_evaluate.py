"""Errors of a distribution on a workload."""

from itertools import product

import numpy as np
import pytest

import trigmech as tm
from trigmech import Distribution
from trigmech.evaluate import Evaluation, distribution_differences, evaluate, total_variations
from trigmech.layout import Group, Layout


def test_the_table_itself_has_no_error_and_another_one_has_the_errors_of_the_workload():
    rng = np.random.default_rng(5)
    X = rng.uniform(-1, 1, (40, 3))
    workload = tm.workload.GaussianKernels(3, seed=1, n_queries=50, widths=(0.5, 2.0))
    itself = tm.Distribution(X, np.full(40, 1 / 40))
    other = tm.Distribution(X[:7], np.full(7, 1 / 7))
    assert evaluate(workload, X, itself).worst_absolute.max() < 1e-14
    found = evaluate(workload, X, other)
    np.testing.assert_array_equal(found.worst_absolute, workload.errors(X, other).max(axis=0))
    expected = (workload.errors(X, other) / workload.answers(X)).max(axis=0)
    np.testing.assert_allclose(found.worst_relative, expected, rtol=1e-9)


def test_an_error_relative_to_nothing_is_infinite_and_of_nothing_is_none():
    found = Evaluation(np.array([[0.0, 0.0], [1.0, 2.0]]), np.array([[0.5, 0.0], [1.0, 1.0]]))
    np.testing.assert_array_equal(found.worst_relative, [np.inf, 0.5])


LAYOUT = Layout(6, [Group((1, 2, 3), True), Group((4, 5), False, 0)])


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


def test_distribution_differences_are_those_of_scipy():
    from scipy.stats import ks_2samp

    rng = np.random.default_rng(4)
    true, made = np.round(rng.uniform(-1, 1, (60, 2)), 1), np.round(rng.uniform(-1, 1, (90, 2)) ** 3, 1)
    found = distribution_differences(true, Distribution(made, np.full(90, 1.0 / 90)))
    np.testing.assert_allclose(found, [ks_2samp(true[:, j], made[:, j]).statistic for j in range(2)], atol=1e-12)
    # Weights count: all weight on one point is far from anything else.
    one = np.zeros(90)
    one[0] = 1.0
    assert distribution_differences(true, Distribution(made, one)).min() > 0.3
