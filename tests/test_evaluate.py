"""Errors of a distribution on a workload."""

import numpy as np

import trigmech as tm
from trigmech.evaluate import Evaluation, evaluate


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
