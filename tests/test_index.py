"""What measured functions are, against a plain reading of each multi-index."""

from types import SimpleNamespace

import numpy as np
import pytest

import trigmech as tm
from trigmech.domain import Domain, OneHotGroup
from trigmech.errors import InputError
from trigmech.functions.chebyshev import ChebyshevBasis
from trigmech.functions.index import FunctionIndex
from trigmech.report.figures import number
from trigmech.report.moments import MomentAccount

# x0 is a number, x1 and x2 say of which category a column is, x3 is a number with a special value, x4.
DOMAIN = Domain(5, [OneHotGroup((1, 2), True), OneHotGroup((4,), False, 3)])
DEGREES = np.array([[0, 0, 0, 0, 0], [3, 0, 0, 0, 0], [1, 0, 0, 0, 0], [0, 0, 1, 0, 0], [0, 1, 0, 0, 1],
                    [1, 0, 0, 1, 0], [2, 1, 0, 0, 0], [2, 0, 0, 2, 0], [1, 0, 1, 0, 1]])


@pytest.fixture
def index():
    return FunctionIndex(DEGREES, DOMAIN, whole=1)


def test_every_function_has_its_kind_and_its_name(index):
    assert index.kinds.tolist() == ["constant", "column", "column", "frequency", "two-way table", "pair",
                                    "number by category", "pair", "3 columns", "whole row"]
    assert index.names(["age", "job=a", "job=b", "gain", "gain=0"]) == [
        "1", "T3(age)", "age", "job=b", "job=a * gain=0", "age * gain", "T2(age) * job=a", "T2(age) * T2(gain)",
        "age * job=b * gain=0", "whole row 1"]
    assert (index.K, index.d, index.of_kind("pair").tolist()) == (10, 5, [5, 7])
    assert "pair: 2" in repr(index)


def test_a_negative_degree_anywhere_and_rows_of_another_width_are_refused():
    for place in np.ndindex(2, 5):
        degrees = DEGREES[1:3].copy()
        degrees[place] = -1
        with pytest.raises(InputError, match="degrees must not be negative"):
            FunctionIndex(degrees, DOMAIN)
        with pytest.raises(InputError, match="integers that are at least 0"):
            ChebyshevBasis(degrees)
    for width in (4, 6):
        with pytest.raises(InputError, match=r"degrees must be .* of shape \(K, 5\)"):
            FunctionIndex(np.ones((2, width), dtype=np.int64), DOMAIN)


def test_degrees_and_widths_are_those_of_a_plain_reading(index):
    for k, row in enumerate(DEGREES.tolist()):
        assert (index.width[k], index.highest[k], index.total[k]) == (sum(a > 0 for a in row), max(row), sum(row))
    assert index.single.tolist() == [1, 2, 3]
    assert index.joint.tolist() == [4, 5, 6, 7, 8]


def test_functions_of_one_coordinate_are_found_in_any_order(index):
    assert index.alone([0, 3]).tolist() == [[2, -1], [-1, -1], [1, -1]]
    assert index.alone([2]).tolist() == [[3]]
    assert index.alone([]).shape == (1, 0)


def test_bilinear_products_are_of_the_named_coordinates_alone(index):
    places, pairs = index.bilinear([0, 3])
    assert (places.tolist(), pairs.tolist()) == ([5], [[0, 3]])
    places, pairs = index.bilinear([1, 4])
    assert (places.tolist(), pairs.tolist()) == ([4], [[1, 4]])
    assert index.bilinear([0])[1].shape == (0, 2)


def test_a_contingency_table_is_one_set_of_columns(index):
    assert index.by_column[4].tolist() == [0, 1, 0, 1, 0]
    assert index.column_sets[5] == index.column_sets[7] != index.column_sets[4]
    assert index.column_sets[1] == index.column_sets[2] != index.column_sets[3]


@pytest.mark.parametrize("degrees", [np.zeros((2, 4), int), np.full((1, 5), -1), np.zeros(5, int)])
def test_impossible_degrees_are_refused(degrees):
    with pytest.raises(tm.InputError):
        FunctionIndex(degrees, DOMAIN)


def test_the_page_counts_each_function_among_its_kind_and_a_constant_nowhere():
    # A third number, of which a product of three is made.
    domain = Domain(6, [OneHotGroup((1, 2), True), OneHotGroup((4,), False, 3)])
    degrees = np.vstack([np.column_stack([DEGREES, np.zeros(9, dtype=int)]), [[1, 0, 0, 1, 0, 2]]])
    places = {"one number, degrees up to 3": [1, 2], "products of two numbers": [5, 7],
              "products of three numbers": [9], "frequencies of categories, special and missing values": [3],
              "tables of two columns of categories": [4],
              "products of a category and a number": [6], "other products": [8], "functions of whole rows": [10, 11]}
    held, deviations = FunctionIndex(degrees, domain, whole=2), np.arange(1, 13) / 16
    release = SimpleNamespace(index=held, features=held, deviations=deviations, mean=None, axes=None)
    fit = SimpleNamespace(misfit=1.0, shrunk=True, dependent=True, status="fitted", iterations=1, seconds=0.0)
    found = MomentAccount(SimpleNamespace(fit=fit), release).measured()["table"].rows
    assert found == [[name, str(len(own)), number(deviations[own].min()), number(deviations[own].max())]
                     for name, own in places.items()]
