import math
from functools import cache
from itertools import product

import numpy as np
import oracles
import pytest

from trigmech._parallel import THREADS_VARIABLE
from trigmech.errors import InputError
from trigmech.functions import chebyshev
from trigmech.functions.chebyshev import POINTS_PER_CHUNK, ROWS_PER_CHUNK, ChebyshevBasis

BASES = {
    "tensor": ChebyshevBasis.tensor(2, 4),
    "tensor of one column": ChebyshevBasis.tensor(1, 9),
    "graded": ChebyshevBasis.graded(3, 17),
    "graded, last column first": ChebyshevBasis.graded(3, 17, ties="last"),
    "total degree": ChebyshevBasis.total_degree(4, 3),
    "many columns": ChebyshevBasis.graded(101, 130),
    "not closed under prefixes": ChebyshevBasis([[0, 5, 1], [3, 0, 2], [0, 0, 0], [0, 7, 0], [2, 2, 2]]),
    "without the constant": ChebyshevBasis([[4, 0], [1, 3]]),
    "the constant alone": ChebyshevBasis([[0, 0, 0]]),
}
# So many functions that the kernels work on blocks of 64 and of 32 rows instead of 256.
LARGE = {"64 rows a block": ChebyshevBasis.tensor(3, 12), "32 rows a block": ChebyshevBasis.graded(6, 4500)}


def points_of_cube(n, d, seed=3):
    """Random points; the first is a corner and the last has columns at -1, 0 and 1."""
    X = np.random.default_rng(seed).uniform(-1.0, 1.0, (n, d))
    X[-1] = np.resize([-1.0, 0.0, 1.0], d)
    X[0] = np.resize([1.0, -1.0], d)
    return X


def coefficients(basis):
    return np.random.default_rng(4).normal(size=basis.K)


def assert_agrees_with_definition(basis, n):
    X, y = points_of_cube(n, basis.d), coefficients(basis)
    expected = oracles.products_by_arccos(X, basis.index)
    np.testing.assert_allclose(basis.evaluate(X), expected, rtol=0, atol=1e-12)
    np.testing.assert_allclose(basis.means(X), expected.mean(axis=0), rtol=0, atol=1e-12)
    np.testing.assert_allclose(basis.combine(X, y), expected @ y, rtol=0, atol=1e-12 * np.abs(y).sum())


METHODS = {
    "evaluate": lambda basis, X: basis.evaluate(X),
    "means": lambda basis, X: basis.means(X),
    "combine": lambda basis, X: basis.combine(X, coefficients(basis)),
    "gradient": lambda basis, X: basis.gradient(X, coefficients(basis)),
}
each_method = pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)


# Values


# At the ends of blocks and of chunks.
ENDS = {f"{name}, {n} rows": (basis, n) for bases, ns in ((BASES, (1, 256, 257)), (LARGE, (32, 33, 65)))
        for name, basis in bases.items() for n in ns}
ENDS["a chunk and a row"] = BASES["without the constant"], ROWS_PER_CHUNK + 1


@pytest.mark.daily(3)
@pytest.mark.parametrize(("basis", "n"), ENDS.values(), ids=ENDS)
def test_values_means_and_combinations_are_products_of_cosines(basis, n):
    assert_agrees_with_definition(basis, n)


@pytest.mark.parametrize("basis", BASES.values(), ids=BASES)
def test_values_at_corners_are_exactly_signs(basis):
    X = np.random.default_rng(5).choice([-1.0, 1.0], size=(40, basis.d))
    signs = np.where(X < 0, -1.0, 1.0)
    np.testing.assert_array_equal(basis.evaluate(X), [(row**basis.index).prod(axis=1) for row in signs])


@pytest.mark.parametrize("basis", BASES.values(), ids=BASES)
def test_a_row_has_the_same_values_whatever_the_other_rows(basis):
    X = points_of_cube(600, basis.d)
    some = np.random.default_rng(6).permutation(600)[:301]
    np.testing.assert_array_equal(basis.evaluate(X)[some], basis.evaluate(X[some]))


@pytest.mark.parametrize("position", [0, 3, 9], ids=["first", "inside", "last"])
def test_the_constant_may_stand_anywhere(position):
    basis = ChebyshevBasis(np.insert(ChebyshevBasis.graded(2, 10).index[1:], position, 0, axis=0))
    assert basis.constant == position
    assert_agrees_with_definition(basis, 300)


@each_method
def test_the_layout_of_the_rows_does_not_matter(method, tmp_path):
    basis, X = BASES["graded"], points_of_cube(600, 3)
    np.save(tmp_path / "rows.npy", X)
    for same in (np.asfortranarray(X), np.load(tmp_path / "rows.npy", mmap_mode="r"), X.tolist()):
        np.testing.assert_array_equal(method(basis, same), method(basis, X))


@each_method
@pytest.mark.parametrize("dtype", [np.float16, bool])
def test_other_number_types_count_as_the_numbers_they_hold(method, dtype):
    basis, X = BASES["graded"], points_of_cube(300, 3).astype(dtype)
    np.testing.assert_array_equal(method(basis, X), method(basis, X.astype(np.float64)))


@each_method
def test_any_number_of_threads_gives_the_same_bits(method, monkeypatch):
    basis, X = BASES["graded"], points_of_cube(5 * ROWS_PER_CHUNK + 7, 3)
    monkeypatch.setenv(THREADS_VARIABLE, "1")
    alone = method(basis, X)
    monkeypatch.setenv(THREADS_VARIABLE, "3")
    np.testing.assert_array_equal(method(basis, X), alone)


def test_no_rows_have_no_values_and_no_means():
    basis = BASES["graded"]
    assert basis.evaluate(np.empty((0, 3))).shape == (0, 17)
    assert basis.combine(np.empty((0, 3)), np.ones(17)).shape == (0,)
    assert basis.gradient(np.empty((0, 3)), np.ones(17)).shape == (0, 3)
    with pytest.raises(InputError, match="at least one row"):
        basis.means(np.empty((0, 3)))


BAD_TABLES = {
    "not a number": [[0.77131, math.nan]],
    "below the cube": [[0.0, -7.7131]],
    "just above the cube": [[0.77131, np.nextafter(1.0, 2.0)]],
    "outside in the last chunk": np.vstack([np.zeros((ROWS_PER_CHUNK, 2)), [[7.7131, 0.0]]]),
    "too wide": [[0.77131, 0.0, 0.0]],
    "one row without its brackets": [0.77131, 0.0],
    "of objects": np.array([[0.77131, 0.0]], dtype=object),
    "of strings": [["0.77131", "0"]],
    "of rows of unequal length": [[0.77131, 0.0], [0.77131]],
}


@each_method
@pytest.mark.parametrize("table", BAD_TABLES.values(), ids=BAD_TABLES)
def test_a_bad_table_is_refused_without_quoting_it(method, table):
    with pytest.raises(InputError) as caught:
        method(BASES["tensor"], table)
    assert oracles.SECRET_DIGITS not in oracles.whole_message(caught.value)


@pytest.mark.parametrize("method", ["combine", "gradient"])
def test_combinations_want_one_coefficient_for_each_function(method):
    with pytest.raises(InputError, match=r"\(16,\)"):
        getattr(BASES["tensor"], method)([[0.0, 0.0]], np.zeros((16, 1)))


# Gradients

STEEP = {
    "one column to degree 12": ChebyshevBasis.tensor(1, 13),
    "degree 12 beside others": ChebyshevBasis([[12, 0, 0], [0, 11, 0], [12, 0, 1], [12, 3, 7], [1, 1, 1], [0, 0, 5]]),
    "a chain": ChebyshevBasis([[2, 0, 0, 0], [2, 1, 0, 0], [2, 1, 3, 0], [2, 1, 3, 1]]),
    "prefixes alone absent": ChebyshevBasis([[4, 4, 4, 4], [4, 4, 0, 4]]),
}


SLOPES = {f"{name}, {n} rows": (basis, n) for bases, ns in ((BASES | STEEP, (257,)), (LARGE, (33,)))
          for name, basis in bases.items() for n in ns}
SLOPES["two chunks and a row"] = BASES["graded"], 2 * POINTS_PER_CHUNK + 1


@pytest.mark.daily(3)
@pytest.mark.parametrize(("basis", "n"), SLOPES.values(), ids=SLOPES)
def test_gradients_are_those_of_the_product_rule(basis, n):
    X, y = points_of_cube(n, basis.d), coefficients(basis)
    X[1:-1:7] = np.random.default_rng(9).choice([-1.0, 0.0, 1.0], X[1:-1:7].shape)
    # Nothing is steeper than its degree squared.
    most = np.abs(y) @ basis.index.max(axis=1) ** 2.0 + 1.0
    np.testing.assert_allclose(basis.gradient(X, y) / most, oracles.products_slope(X, basis.index, y) / most, rtol=0,
                               atol=1e-13)


# Sets


def rows(text):
    return [[int(digit) for digit in word] for word in text.split()]


@pytest.mark.parametrize(("ties", "first"), [
    ("fewest", "000 100 010 001 200 020 002 110 101 011 300 030 003 210 120 201 102 021 012 111 400"),
    ("last", "000 001 010 100 002 011 101 020 110 200 003 012 102 021 111 201 030 120 210 300 004"),
])
def test_graded_begins_as_its_docstring_says(ties, first):
    assert ChebyshevBasis.graded(3, 21, ties=ties).index.tolist() == rows(first)


@pytest.mark.parametrize("ties", ["fewest", "last"])
@pytest.mark.parametrize(("d", "cap"), [(1, 4), (3, 1), (4, 3)])
def test_a_largest_degree_leaves_out_functions_and_keeps_the_order(d, cap, ties):
    count = (cap + 1) ** d
    everything = ChebyshevBasis.graded(d, math.comb(d + d * cap, d), ties=ties).index
    capped = ChebyshevBasis.graded(d, count, max_degree=cap, ties=ties).index
    np.testing.assert_array_equal(capped, everything[everything.max(axis=1) <= cap])


@pytest.mark.daily("fewest")
@pytest.mark.parametrize("ties", ["fewest", "last"])
def test_graded_reaches_a_thousand_columns_and_more(ties):
    index = ChebyshevBasis.graded(1100, 1102, ties=ties).index
    assert index.sum(axis=1).tolist() == [0] + [1] * 1100 + [2]


def test_asking_for_more_functions_than_there_are_says_how_many_there_are():
    with pytest.raises(InputError, match=r"K = 10\b.* 9$"):
        ChebyshevBasis.graded(2, 10, max_degree=2)


def test_a_basis_of_the_most_functions_is_made_and_one_of_more_is_refused(monkeypatch):
    monkeypatch.setattr(chebyshev, "MAX_SIZE", 16)
    for basis in (ChebyshevBasis.graded(3, 16), ChebyshevBasis.tensor(2, 4), ChebyshevBasis.tensor(4, 2)):
        assert len(basis) == 16
    for make, said in ((lambda: ChebyshevBasis.graded(3, 17), "K = 17 functions are more than the 16 that a basis may"),
                       (lambda: ChebyshevBasis.total_degree(3, 3), "20 functions"),
                       (lambda: ChebyshevBasis.tensor(1, 17), r"t\^d = 17\^1 functions, more than 16"),
                       (lambda: ChebyshevBasis.tensor(2, 5), r"t\^d = 5\^2 functions, more than 16")):
        with pytest.raises(InputError, match=said):
            make()


@pytest.mark.parametrize(("d", "degree"), [(1, 0), (1, 6), (8, 2), (4, 5), (101, 1)])
def test_total_degree_holds_each_multi_index_of_at_most_that_degree_once(d, degree):
    index = ChebyshevBasis.total_degree(d, degree).index
    assert len(index) == math.comb(d + degree, d)
    assert index.sum(axis=1).max() == degree
    assert len(np.unique(index, axis=0)) == len(index)


@pytest.mark.parametrize(("d", "t"), [(1, 1), (1, 5), (2, 3), (4, 2), (30, 1)])
def test_tensor_is_the_full_set_with_the_last_column_fastest(d, t):
    assert ChebyshevBasis.tensor(d, t).index.tolist() == [list(row) for row in product(range(t), repeat=d)]


@pytest.mark.parametrize("make", [
    lambda: ChebyshevBasis.tensor(0, 2),
    lambda: ChebyshevBasis.tensor(2, 0),
    lambda: ChebyshevBasis.tensor(23, 2),
    lambda: ChebyshevBasis.graded(0, 5),
    lambda: ChebyshevBasis.graded(2, 5, max_degree=0),
    lambda: ChebyshevBasis.graded(2, 5, ties="first"),
    lambda: ChebyshevBasis.total_degree(2, -1),
    lambda: ChebyshevBasis.total_degree(2, 1.5),
    lambda: ChebyshevBasis.tensor(2, 2).l1_sensitivity(0),
    lambda: ChebyshevBasis.tensor(2, 2).l2_sensitivity(math.nan),
])
def test_sizes_must_be_positive_integers_and_moderate(make):
    with pytest.raises(InputError):
        make()


@pytest.mark.parametrize("index", [[[0, -1]], [[1, 2], [0, 0], [1, 2]], [1, 2], np.empty((0, 2), int),
                                   np.empty((2, 0), int), [[0.0, 1.0]], [[0, 1], [0]]],
                         ids=["negative", "twice", "1-D", "no rows", "no columns", "floats", "ragged"])
def test_an_index_is_distinct_rows_of_integers_from_0(index):
    with pytest.raises(InputError):
        ChebyshevBasis(index)


def test_a_basis_keeps_its_own_index():
    given = np.array([[0, 1], [2, 0]])
    basis = ChebyshevBasis(given)
    given[:] = 7
    assert basis.index.tolist() == [[0, 1], [2, 0]]
    with pytest.raises(ValueError, match="read-only"):
        basis.index[0, 0] = 7


# Sensitivity: what a search for the worst replacement of one row finds, a bound must cover.

SETS = {f"tensor({d}, {t})": ChebyshevBasis.tensor(d, t) for d in (1, 3) for t in (2, 5, 6)} | {
    "total_degree(8, 2)": ChebyshevBasis.total_degree(8, 2),
    "graded(5, 60)": ChebyshevBasis.graded(5, 60),
    "graded(30, 102)": ChebyshevBasis.graded(30, 102),
    "graded(101, 102)": ChebyshevBasis.graded(101, 102),
    "without the constant": ChebyshevBasis([[4, 0], [1, 3]]),
}
each_set = pytest.mark.parametrize("name", SETS)
each_norm = pytest.mark.parametrize("p", [1, 2])


@cache
def bound(name, p, n=1):
    return SETS[name].l1_sensitivity(n) if p == 1 else SETS[name].l2_sensitivity(n)


@cache
def worst_rows(name, p):
    # One column needs a fine grid to come within 1e-5 of a supremum: the loss is about (degree * step)^2 / 2.
    angles, starts = (4097, 6) if SETS[name].d <= 3 else (65, 3)
    return oracles.largest_movement(SETS[name].index, p, np.random.default_rng(8), angles, starts)


@pytest.mark.daily(4)
@each_norm
@each_set
def test_no_replacement_found_moves_the_means_further_than_the_bound(name, p):
    basis = SETS[name]
    (row, replacement), movement = worst_rows(name, p)
    common = points_of_cube(2, basis.d)
    before, after = basis.means(np.vstack([common, row])), basis.means(np.vstack([common, replacement]))
    moved = np.linalg.norm(before - after, ord=p)
    assert moved == pytest.approx(movement / 3, rel=1e-9)
    assert moved <= bound(name, p) / 3 * (1.0 + 1e-12)
    assert bound(name, p, n=1000) == pytest.approx(bound(name, p) / 1000, rel=1e-15)
    if name.startswith("tensor") and (p == 1 or basis.index.max() % 2 == 1):
        # Exact: the supremum is found, so a bound that is too cautious fails as well.
        assert movement == pytest.approx(bound(name, p), rel=1e-5)


@pytest.mark.parametrize("d", [1, 3, 10])
def test_the_constant_moves_nothing(d):
    constant = ChebyshevBasis.tensor(d, 1)
    assert constant.l1_sensitivity(1) == constant.l2_sensitivity(1) == 0.0
    with_columns, columns = ChebyshevBasis.graded(d, d + 1), ChebyshevBasis(np.eye(d, dtype=int))
    assert with_columns.l1_sensitivity(1) == columns.l1_sensitivity(1)
    assert with_columns.l2_sensitivity(1) == columns.l2_sensitivity(1)


def test_the_search_refutes_that_each_mean_moves_by_at_most_1_over_n():
    # The planted fault: the proof of theorem 2.13 bounds the movement of one mean by 1/n.
    name = "graded(101, 102)"
    assert worst_rows(name, 1)[1] > 1.9 * (SETS[name].K - 1)
    assert worst_rows(name, 2)[1] > 1.9 * math.sqrt(SETS[name].K - 1)


def test_a_basis_is_as_long_as_it_has_functions():
    assert [len(ChebyshevBasis.graded(2, K)) for K in (1, 5, 10)] == [1, 5, 10]
