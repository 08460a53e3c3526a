import numpy as np
import oracles
import pytest
from numpy.polynomial import chebyshev

from trigmech._parallel import THREADS_VARIABLE
from trigmech.errors import InputError
from trigmech.functions.chebyshev import ChebyshevBasis
from trigmech.reconstruction.l1_cube import CubeSearch

CASES = [(1, 1), (1, 9), (2, 5), (3, 3), (6, 3)]


def combination(d, degree, seed=0):
    rng = np.random.default_rng([seed, d, degree])
    basis = ChebyshevBasis.total_degree(d, degree)
    return basis, rng.standard_normal(basis.K), rng


def restriction(x, j, index, y):
    """The Chebyshev series in column j of sum_r y_r phi_r with the other columns of x fixed."""
    others = np.delete(index, j, axis=1)
    series = np.zeros(index[:, j].max() + 1)
    np.add.at(series, index[:, j], y * oracles.products_by_series(np.delete(x, j)[None], others)[0])
    return series


def best_of_one(series):
    """Where a Chebyshev series is largest on [-1, 1]: among the ends and the roots of its derivative."""
    roots = chebyshev.chebroots(chebyshev.chebder(series)) if len(series) > 2 else np.zeros(0)
    inside = roots.real[(np.abs(roots.imag) < 1e-6) & (np.abs(roots.real) <= 1.0)]
    candidates = np.concatenate([[-1.0, 1.0], inside])
    values = chebyshev.chebval(candidates, series)
    return candidates[np.argmax(values)], values.max()


def values_at(X, index, y):
    return oracles.products_by_series(X, index) @ y


@pytest.mark.parametrize(("d", "degree"), [case for case in CASES if case[0] <= 3])
@pytest.mark.parametrize("seed", range(2))
def test_the_best_of_many_starts_is_the_maximum_on_a_fine_grid(d, degree, seed):
    basis, y, rng = combination(d, degree, seed)
    _, values = CubeSearch(basis).ascend(rng.uniform(-1.0, 1.0, (60, d)), y)
    nodes = np.cos(np.linspace(0.0, np.pi, {1: 20_001, 2: 401, 3: 81}[d]))
    coefficients = np.zeros((degree + 1,) * d)
    coefficients[tuple(basis.index.T)] = y
    largest = oracles.tensor_transform(coefficients, nodes).max()
    # In angles no second derivative exceeds sum_r |r|_1^2 |y_r|, and a node is within half a step in each column.
    short = (0.5 * np.pi / (len(nodes) - 1)) ** 2 / 2 * (basis.index.sum(axis=1) ** 2 @ np.abs(y))
    assert largest - 1e-9 <= values.max() <= largest + short + 1e-9


@pytest.mark.parametrize(("d", "degree"), CASES)
@pytest.mark.parametrize("tolerance", [1e-12, 1e-3, 1.0])
def test_no_start_loses_and_all_stay_in_the_cube(d, degree, tolerance):
    basis, y, rng = combination(d, degree, 1)
    # Also from corners and centres, where derivatives by the angle are 0.
    starts = np.concatenate([rng.uniform(-1.0, 1.0, (40, d)), rng.integers(-1, 2, (40, d)).astype(float)])
    before = starts.copy()
    ends, values = CubeSearch(basis).ascend(starts, y, tolerance)
    np.testing.assert_array_equal(starts, before)
    assert np.abs(ends).max() <= 1.0
    assert (values - values_at(starts, basis.index, y)).min() >= -1e-12 * np.abs(y).sum()


def largest_possible_gain(ends, index, y):
    """By how much one column alone can still improve a point, at most."""
    return max(best_of_one(series)[1] - chebyshev.chebval(x[j], series)
               for x in ends for j in range(len(x)) for series in [restriction(x, j, index, y)])


@pytest.mark.daily(5)
@pytest.mark.parametrize(("d", "degree"), CASES)
def test_no_column_alone_can_improve_an_end(d, degree):
    basis, y, rng = combination(d, degree, 2)
    starts = rng.uniform(-1.0, 1.0, (8, d))
    ends, _ = CubeSearch(basis).ascend(starts, y)
    assert largest_possible_gain(ends, basis.index, y) <= 1e-9 * np.abs(y).sum()
    # The measure sees a place that is missed by little.
    assert largest_possible_gain(np.clip(0.99 * ends - 0.005, -1.0, 1.0), basis.index, y) > 1e-6 * np.abs(y).sum()


@pytest.mark.parametrize("degree", [2, 3, 12, 30])
def test_one_column_is_maximised_exactly_whatever_the_start(degree):
    basis = ChebyshevBasis.tensor(1, degree + 1)
    rng = np.random.default_rng(degree)
    search = CubeSearch(basis)
    for _ in range(100):
        # Sparse and decaying series as well, which have flat places, ties and maxima at the ends.
        y = rng.standard_normal(degree + 1) * rng.integers(0, 2, degree + 1) / (1.0 + np.arange(degree + 1))
        _, values = search.ascend([[0.3]], y)
        assert values[0] == pytest.approx(best_of_one(y)[1], abs=1e-10)


def test_the_number_of_threads_changes_no_bit(monkeypatch):
    basis, y, rng = combination(6, 3)
    starts = rng.uniform(-1.0, 1.0, (100, 6))
    results = []
    for threads in "12":
        monkeypatch.setenv(THREADS_VARIABLE, threads)
        results.append(CubeSearch(basis).ascend(starts, y))
    np.testing.assert_array_equal(results[0][0], results[1][0])
    np.testing.assert_array_equal(results[0][1], results[1][1])


BAD = {
    "starts outside": {"starts": [[0.0, 1.5]]},
    "start that is NaN": {"starts": [[0.0, np.nan]]},
    "starts of another width": {"starts": np.zeros((2, 3))},
    "one start as a row": {"starts": np.zeros(2)},
    "too few coefficients": {"coefficients": np.zeros(5)},
    "coefficient that is NaN": {"coefficients": [0.0, 0.0, np.nan, 0.0, 0.0, 0.0]},
    "infinite coefficient": {"coefficients": [0.0, 0.0, np.inf, 0.0, 0.0, 0.0]},
    "negative tolerance": {"tolerance": -1.0},
    "tolerance that is NaN": {"tolerance": np.nan},
}


@pytest.mark.parametrize("changes", BAD.values(), ids=BAD)
def test_bad_input_is_refused(changes):
    search = CubeSearch(ChebyshevBasis.total_degree(2, 2))
    good = {"starts": np.zeros((2, 2)), "coefficients": np.zeros(6)}
    search.ascend(**good)
    with pytest.raises(InputError):
        search.ascend(**{**good, **changes})
