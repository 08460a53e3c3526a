"""What a domain lets through: of all rows of zeros and ones exactly those that sensitivities rely on."""

from itertools import product

import numpy as np
import pytest

from trigmech.domain import Domain, OneHotGroup
from trigmech.errors import InputError


def kept(domain, row):
    # Among rows that keep to the domain, for a sum over rows must not hide one.
    good = np.zeros((3, domain.d))
    for group in domain.groups:
        good[:, group.coordinates[0]] = 1.0
    good[1] = row
    try:
        domain.check(good)
    except InputError:
        return False
    return True


@pytest.mark.parametrize("size", [1, 2, 3, 4])
@pytest.mark.parametrize("complete", [True, False])
def test_of_all_rows_of_zeros_and_ones_those_with_one_1_pass_or_with_none_where_that_is_allowed(complete, size):
    domain = Domain(size, [OneHotGroup(tuple(range(size)), complete)])
    for row in product((0.0, 1.0), repeat=size):
        assert kept(domain, np.array(row)) == (sum(row) == 1.0 or (not complete and sum(row) == 0.0)), row


@pytest.mark.parametrize("complete", [True, False])
def test_every_group_is_looked_at(complete):
    domain = Domain(5, [OneHotGroup((0, 1), True), OneHotGroup((2, 3, 4), complete)])
    for row in product((0.0, 1.0), repeat=5):
        second = sum(row[2:])
        expected = sum(row[:2]) == 1.0 and (second == 1.0 or (not complete and second == 0.0))
        assert kept(domain, np.array(row)) == expected, row


@pytest.mark.parametrize("value", [0.5, -1.0, 2.0, 1.0 - 2.0**-53, 5e-324, np.nan, 1e308])
@pytest.mark.parametrize("complete", [True, False])
def test_what_is_neither_0_nor_1_is_no_indicator_whatever_the_sum(complete, value):
    domain = Domain(3, [OneHotGroup((0, 1, 2), complete)])
    assert not kept(domain, np.array([value, 1.0 - value, 0.0]))
    assert not kept(domain, np.array([value, 0.0, 0.0]))


@pytest.mark.parametrize("value", [0.5, -1.0, 2.0, 1.0 - 2.0**-53, 5e-324])
def test_special_values_of_a_number_are_told_by_indicators_too(value):
    domain = Domain(3, [OneHotGroup((1, 2), False, 0)])
    for row in ([0.0, value, 1.0 - value], [0.0, value, 0.0], [0.0, 1.0, 1.0], [0.3, value, 1.0 - value]):
        assert not kept(domain, np.array(row))


@pytest.mark.parametrize("number", [0.3, -1.0, 5e-324, np.nan])
def test_beside_a_special_value_the_number_is_0(number):
    domain = Domain(3, [OneHotGroup((1, 2), False, 0)])
    assert kept(domain, np.array([0.0, 1.0, 0.0]))
    assert not kept(domain, np.array([number, 1.0, 0.0]))
    # Without one it is any.
    assert kept(domain, np.array([number, 0.0, 0.0]))
