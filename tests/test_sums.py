"""Sums over persons: whole numbers that do not depend on how a table was cut, and that a person moves as a row does."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trigmech.domain import Domain, OneHotGroup
from trigmech.errors import InputError
from trigmech.functions.chebyshev import ChebyshevBasis
from trigmech.functions.features import Features
from trigmech.functions.partition import columns_of, even_edges
from trigmech.measurement import sums as sums_module
from trigmech.measurement.counts import Histograms, JointCounts
from trigmech.measurement.moments import FunctionSums
from trigmech.measurement.private_bounds import CellCounts
from trigmech.measurement.rows import PrivateRows
from trigmech.measurement.sums import Chunk, Total, shares

# A number beside a special value, and a column of three categories.
DOMAIN = Domain(5, [OneHotGroup((1,), False, 0), OneHotGroup((2, 3, 4), True)])


def rows_of(n, seed=0):
    rng = np.random.default_rng(seed)
    points = np.zeros((n, 5))
    special = rng.random(n) < 0.2
    points[:, 1] = special
    points[:, 0] = np.where(special, 0.0, rng.uniform(-1, 1, n))
    points[np.arange(n), rng.integers(2, 5, n)] = 1.0
    return points


def statistics():
    """One of each kind, all of the same five coordinates."""
    number, category = columns_of(DOMAIN)
    fine = (number.cut(even_edges(None, 8)), category)
    basis = ChebyshevBasis.graded(5, 30)
    rng = np.random.default_rng(3)
    scores = tuple(rng.integers(-2**15, 2**15, (column.size, 2)) for column in fine)
    maps = tuple(np.arange(column.size) // 2 for column in fine)
    return {"functions": FunctionSums(Features(basis, [[1.0, 0.3, 0.1]]), covariance=True),
            "functions on a grid": FunctionSums(basis, grid=7),
            "histograms": Histograms(fine),
            "tables and products": JointCounts(fine, (((0, 1), maps),), scores, np.array([[0, 2], [1, 3]])),
            "products": JointCounts(fine, (), scores, np.array([[0, 3]])),
            "cells": CellCounts(("a", "b", "c", "d", "e"), (0, 2), ((0.5,), ()),
                                (np.linspace(-0.5, 0.5, 5), np.linspace(-1, 1, 4)))}


each_statistic = pytest.mark.parametrize("asked", statistics().values(), ids=statistics())


def sums(asked, *chunks, n=None):
    chunks = [Chunk(chunk, DOMAIN) if isinstance(chunk, np.ndarray) else chunk for chunk in chunks]
    persons = sum(len(c.rows) if c.starts is None else len(c.starts) for c in chunks)
    return PrivateRows(persons if n is None else n, DOMAIN, lambda: chunks).sums(asked)


def persons_of(points, lengths):
    """The rows as those of persons with these numbers of rows."""
    return Chunk(points, DOMAIN, starts=np.concatenate([[0], np.cumsum(lengths)[:-1]]).astype(np.int64))


# Totals


@settings(max_examples=80)
@given(st.lists(st.integers(-2**62, 2**62), min_size=1, max_size=20), st.integers(0, 60))
def test_totals_are_those_of_python_s_integers(numbers, unit):
    total, halves = Total(1), [Total(1), Total(1)]
    for i, number in enumerate(numbers):
        total.add(np.array([number]), 1)
        halves[i % 2].add(np.array([number]), 1)
    halves[0] += halves[1]
    np.testing.assert_array_equal(total.limbs, halves[0].limbs)
    exact = sum(numbers)
    assert int(total.limbs[0, 0]) * 2**32 + int(total.limbs[1, 0]) == exact
    assert total.n == halves[0].n == len(numbers)
    assert total.over(unit)[0] == float(Fraction(exact, 2**unit))


def test_totals_of_more_than_64_bits_are_exact():
    total, times = Total(2), 5_000
    for _ in range(times):
        total.add(np.array([2**62, -2**62]), 2**16)
    assert total.over(0).tolist() == [times * 2.0**62, -times * 2.0**62]
    assert total.is_sum_of(times * 2**62, slice(0, 1))
    assert not total.is_sum_of(times * 2**62 - 1, slice(0, 1))
    assert not total.is_sum_of(0)
    assert "hidden" in repr(total)


# However a table is cut


@pytest.mark.daily(3)
@each_statistic
def test_sums_have_the_same_bits_however_the_rows_are_cut_and_ordered(asked):
    points = rows_of(3_000)
    whole = sums(asked, points)
    rng = np.random.default_rng(1)
    for parts in (7, 1_000):
        cuts = np.sort(rng.choice(np.arange(1, 3_000), parts - 1, replace=False))
        found = sums(asked, *np.split(rng.permutation(points), cuts))
        np.testing.assert_array_equal(found.limbs, whole.limbs)
    added = Total(asked.size)
    for part in np.split(points, 5):
        added += sums(asked, part)
    np.testing.assert_array_equal(added.limbs, whole.limbs)
    assert added.n == whole.n == 3_000
    asked.check(whole)


@each_statistic
def test_one_row_a_person_is_no_other_table(asked):
    points = rows_of(500)
    np.testing.assert_array_equal(sums(asked, persons_of(points, [1] * 500)).limbs, sums(asked, points).limbs)


@pytest.mark.daily("1-tables and products", "64-functions", "1000000-cells")
@each_statistic
@pytest.mark.parametrize("most", [1, 64, 10**6])
def test_persons_are_summed_alike_in_any_order_and_in_any_pieces(asked, most, monkeypatch):
    rng = np.random.default_rng(2)
    lengths = rng.integers(1, 30, 60)
    points = rows_of(int(lengths.sum()))
    whole = sums(asked, persons_of(points, lengths))
    # As many values at a time, of as many persons.
    monkeypatch.setattr(sums_module, "MOST_VALUES", most * asked.size)
    monkeypatch.setattr(sums_module.pieces, "__defaults__", (min(most, 2**16),))
    groups = [rng.permutation(group) for group in np.split(points, np.cumsum(lengths)[:-1])]
    order = rng.permutation(60)
    for own in (order, *np.array_split(order, 4)[:1]):
        mixed = persons_of(np.concatenate([groups[p] for p in own]), lengths[own])
        assert sums(asked, mixed).n == len(own)
    mixed = [persons_of(np.concatenate([groups[p] for p in own]), lengths[own]) for own in np.array_split(order, 4)]
    np.testing.assert_array_equal(sums(asked, *mixed).limbs, whole.limbs)
    assert whole.n == 60


# Persons


@settings(max_examples=100)
@given(st.lists(st.lists(st.integers(0, 4), min_size=1, max_size=12), min_size=1, max_size=6), st.sampled_from([2, 46]))
def test_shares_are_those_of_a_slow_twin(persons, bits):
    expected = [0] * 5
    for places in persons:
        own = [places.count(place) * 2**bits // len(places) for place in range(5)]
        left = 2**bits - sum(own)
        for place in sorted(set(places)):
            own[place] += left > 0
            left -= left > 0
        assert sum(own) == 2**bits
        expected = [a + b for a, b in zip(expected, own, strict=True)]
    starts = np.cumsum([0, *(len(places) for places in persons[:-1])])
    found = shares(np.concatenate(persons).astype(np.int64), starts, 5, bits)
    assert found.tolist() == expected


@pytest.mark.parametrize("rows", [1, 2, 3, 1_000])
def test_means_of_functions_are_those_of_a_slow_twin(rows):
    asked = FunctionSums(ChebyshevBasis.graded(5, 30))
    points = rows_of(4 * rows)
    found = sums(asked, persons_of(points, [rows] * 4)).over(40)
    expected = np.zeros(30)
    for person in np.split(points, 4):
        values = np.rint(asked.functions.evaluate(person) * 2.0**40)
        expected += [math.floor(Fraction(int(column.sum()), rows) + Fraction(1, 2)) for column in values.T]
    np.testing.assert_array_equal(found, expected / 2.0**40)


def vectors(asked):
    """What one row adds, for many rows, as floats."""
    unit = {FunctionSums: 40, CellCounts: 10}.get(type(asked), 46)
    return unit, np.array([sums(asked, row[None]).over(unit) for row in rows_of(150, seed=5)])


@each_statistic
def test_a_person_moves_the_sums_no_further_than_a_row_does(asked):
    # Every norm of the difference of two persons is at most the largest of two rows, but for the lattice.
    unit, single = vectors(asked)
    rng, points = np.random.default_rng(6), rows_of(150, seed=5)
    moved = []
    for _ in range(100):
        pair = [sums(asked, persons_of(points[rng.choice(150, m)], [m])).over(unit)
                for m in rng.choice([1, 2, 3, 10, 1_000], 2)]
        moved.append(pair[0] - pair[1])
    for order in (1, 2, np.inf):
        furthest = max(np.linalg.norm(single - b, order, axis=1).max() for b in single)
        slack = 2.0 * 2.0**-(unit + 1) * np.linalg.norm(np.ones(asked.size), order) if unit != 10 else 0.0
        worst = float(np.linalg.norm(moved, order, axis=1).max())
        assert 0.2 * furthest < worst <= furthest + slack


def test_shares_move_no_further_than_rows_to_the_last_bit():
    # Not even by a unit of their lattice: probability vectors, in L1 at most 2.
    rng = np.random.default_rng(7)
    for _ in range(500):
        first, second = (shares(rng.integers(0, 40, m), np.array([0]), 40) for m in rng.integers(1, 100, 2))
        assert np.abs(first - second).sum() <= 2 << 46
        assert min(first.min(), second.min()) >= 0


def test_a_person_of_more_rows_than_can_be_divided_is_refused(monkeypatch):
    monkeypatch.setattr(sums_module, "MOST_ROWS_OF_A_PERSON", 5)
    for asked in statistics().values():
        with pytest.raises(InputError, match="a person has more than 5 rows"):
            sums(asked, persons_of(rows_of(8), [2, 6]))


# What cannot be


@pytest.mark.parametrize("asked", [statistics()[name] for name in ("histograms", "tables and products", "cells")])
def test_counts_that_are_not_of_all_persons_are_refused(asked):
    total = sums(asked, rows_of(50))
    asked.check(total)
    total.limbs[0, 0] += 2**32
    with pytest.raises(InputError, match="50 persons"):
        asked.check(total)


def test_sums_that_are_of_more_persons_than_there_are_are_refused():
    asked = statistics()["functions"]
    total = sums(asked, rows_of(50))
    total.add(np.full(asked.size, 51 << 40))
    with pytest.raises(InputError, match="larger than the number of persons"):
        asked.check(total)
