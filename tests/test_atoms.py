"""Values that many rows of a continuous column share come back as they are, in the column's units."""

import datetime
import math
from itertools import islice

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import trigmech as tm
from trigmech.functions.partition import Partition
from trigmech.functions.released_column import ReleasedColumn
from trigmech.queries.base import Measurement
from trigmech.queries.one_way import Detail
from trigmech.reconstruction.atoms import ATOM, atoms, round_numbers
from trigmech.reconstruction.constrained import ConstrainedRows
from trigmech.schema.column import Column
from trigmech.schema.encoding import number_at, place_of
from trigmech.schema.schema import Schema

N = 4000
FIRST, LAST = datetime.datetime(2019, 12, 30, 7), datetime.datetime(2020, 2, 20)


def income(rng):
    return np.where(rng.random(N) < 0.3, 0.0, rng.lognormal(8.0, 1.0, N))


def age(rng):
    return np.clip(np.round(rng.normal(40.0, 8.0, N)), 17.0, 90.0)


def price(rng):
    return np.where(rng.random(N) < 0.9, np.floor(rng.uniform(4.0, 20.0, N)) + 0.99, rng.uniform(1.0, 50.0, N))


def when(rng):
    days = np.datetime64("2020-01-01") + rng.integers(0, 20, N)
    return days.astype("M8[s]") + np.where(rng.random(N) < 0.7, 0, rng.integers(0, 86_400, N))


COLUMNS = {
    "income": (income, Column("x", 0, 100_000)), "income below 0": (income, Column("x", -33_333, 100_000)),
    "income's logarithm": (income, Column("x", 0, 100_000, transform="log1p")),
    "age": (age, Column("x", 16.5, 91.3)), "price": (price, Column("x", 0.37, 100)),
    "price's logarithm": (price, Column("x", 0.7, 100, transform="log")), "date": (when, Column(
        "x", FIRST, LAST, "datetime", resolution="second")),
    "large whole numbers": (lambda rng: 1000.0 * age(rng), Column("x", 0, 123_456_789, "integer")),
}


@pytest.mark.nightly
@pytest.mark.parametrize("name", COLUMNS)
def test_shared_values_come_back_exactly_and_as_often(name):
    make, column = COLUMNS[name]
    rng = np.random.default_rng(3)
    table = pd.DataFrame({"x": make(rng), "y": rng.normal(0.0, 1.0, N).clip(-3.0, 3.0)})
    schema = tm.Schema([column, tm.Column("y", -3, 3)])
    made = tm.synthesize(table, schema, tm.Budget(20.0, 1e-6), tm.TableMechanism(), rng=rng).sample(N, rng)
    real, synthetic = (np.asarray(values["x"]) for values in (table, made))
    shared, counts = np.unique(real, return_counts=True)
    for value, count in zip(shared[counts > 0.02 * N], counts[counts > 0.02 * N], strict=True):
        assert abs((synthetic == value).sum() - count) < 0.01 * N
    # Nothing is an atom that was none.
    found, counts = np.unique(synthetic, return_counts=True)
    assert np.isin(found[counts > 0.01 * N], real).all()
    both = np.union1d(real, synthetic)
    below = [np.searchsorted(np.sort(values), both, side="right") / N for values in (real, synthetic)]
    assert np.abs(below[0] - below[1]).max() < 0.03


def looked_at(masses, edges, finest):
    """A column of a number with these masses, and the closer look that found them."""
    partition = Partition((), 0, np.array(edges))
    mass = np.array(masses) / sum(masses)
    look = Measurement(Detail(0, partition, 0, np.array(finest)), 1.0, np.zeros(len(finest) - 1), 1e-3)
    return ReleasedColumn(partition, mass, 1e-3), look


# Finest intervals are .001 long.
FINEST = np.round(np.arange(-0.002, 0.0041, 0.001), 9).tolist()


@pytest.mark.parametrize(("masses", "edges", "expected"), [
    ([5, 2, 5], [-1, 0.0, 0.001, 1], [1]), ([5, 2, 5], [-1, -0.001, 0.001, 1], []),
    ([5, 2, 5], [-1, 0.2, 0.201, 1], []),
    ([5, 2, 2, 5], [-1, 0.0, 0.001, 0.002, 1], []), ([5, 2, 1.01 * 2 * ATOM, 5], [-1, 0.0, 0.001, 0.002, 1], [2]),
    ([5, 2, 0.99 * 2 * ATOM, 5], [-1, 0.0, 0.001, 0.002, 1], [])],
    ids=["tiny and heavy", "of two finest", "not looked at", "as dense as the next", "denser", "not dense enough"])
def test_an_atom_is_a_finest_interval_that_is_clearly_denser_than_those_beside_it(masses, edges, expected):
    released, look = looked_at(masses, edges, FINEST)
    found = atoms(Column("x", 0, 100), released, [look.query])
    assert np.flatnonzero(~np.isnan(found)).tolist() == expected


def test_special_values_and_levels_are_no_atoms():
    released, look = looked_at([5, 2, 5], [-1, 0.0, 0.001, 1], FINEST)
    assert np.isnan(atoms(Column("x", 0, 100, special=(50,)), released, [look.query])).all()
    assert not np.isnan(atoms(Column("x", 0, 100, special=(50.01,)), released, [look.query])).all()
    levels = np.linspace(-1.0, 1.0, 100)
    released = ReleasedColumn(Partition((), 0, np.array([-1.0, 0.0, 0.001, 1.0]), levels), released.mass, 1e-3)
    assert np.isnan(atoms(Column("x", 0, 99, "integer"), released, [look.query])).all()


@pytest.mark.parametrize(("ends", "expected"), [
    ((19.985, 19.995), 19.99), ((-0.1, 0.2), 0.0), ((20.9998, 21.0005), 21.0), ((1e-9, 3e-9), 2e-9),
    ((7.25, 7.25), 7.25),
    ((-0.35, -0.31), -0.33), ((99_999.2, 100_000.0), 1e5), ((19.99, 19.9909), 19.99),
    ((0.1, 0.1 + 2.0**-56), 0.1)])
def test_the_roundest_number_is_the_shortest_decimal(ends, expected):
    assert next(round_numbers(Column("x", -1e6, 1e6), *ends)) == expected


def test_the_roundest_time_is_the_roundest_of_a_clock():
    column = Column("x", FIRST, LAST, "datetime", resolution="second")
    for text, before, after in (("2020-01-05", 900, 900), ("2020-01-05T13:00:00", 900, 900),
                                ("2020-01-05T13:20:00", 9, 50), ("2020-01-05T13:20:07", 0, 0.9)):
        second = column.number(datetime.datetime.fromisoformat(text))
        assert next(round_numbers(column, second - before, second + after)) == second
    days = Column("x", FIRST.date(), LAST.date(), "datetime")
    assert list(islice(round_numbers(days, 18_000.2, 18_001.3), 2)) == [18_001.0]
    assert not list(round_numbers(Column("x", 0, 10**9, "integer"), 7.2, 7.9))


@settings(max_examples=80, deadline=None)
@given(st.floats(-1e9, 1e9), st.floats(1e-3, 1e9), st.floats(0.01, 0.99), st.sampled_from([None, "log", "log1p"]))
def test_decimals_survive_there_and_back(lower, width, part, transform):
    lower = abs(lower) + 1e-3 if transform == "log" else lower
    column = Column("x", lower, lower + width, transform=transform)
    digits = 7 - math.ceil(math.log10(max(abs(lower), abs(lower + width))))
    value = np.array([round(lower + part * width, digits)])
    if lower + 0.005 * width < value < lower + 0.995 * width:
        assert number_at(column, place_of(column, value)) == value


@settings(max_examples=40, deadline=None)
@given(st.floats(-1e6, 1e6), st.floats(1e-2, 1e6), st.integers(0, 2**32), st.sampled_from([None, "log1p"]))
def test_any_numbers_come_back_but_for_rounding_and_in_order(lower, width, seed, transform):
    column = Column("x", lower, lower + width, transform=transform)
    places = np.sort(np.random.default_rng(seed).uniform(-1.0, 1.0, 200))
    values = number_at(column, places)
    assert (np.diff(values) >= 0.0).all()
    most, length = max(abs(lower), abs(lower + width)), width if transform is None else math.log1p(width)
    np.testing.assert_allclose(place_of(column, values), places, rtol=0.0, atol=1e-13 * (1.0 + most / length))


def test_an_atom_stays_on_its_side_of_what_a_constraint_compares_it_with():
    released, look = looked_at([5, 2, 5], [-1, -0.0005, 0.0005, 1], [-0.0015, -0.0005, 0.0005, 0.0015])
    other = ReleasedColumn(Partition((1, 2), None, np.empty(0)), np.array([0.5, 0.5]), 1e-3)
    for rule, everywhere in (("x >= 50", True), ("x > 50.02", False), ("x > 50", False)):
        schema = Schema([Column("x", 0, 100), Column("c", kind="categorical", categories=("a", "b"))],
                        [f"c = 'a' implies {rule}"])
        rows = ConstrainedRows(schema, [released, other], [look])
        assert sum(mass for column in rows.columns[:1] for mass in column.mass) == pytest.approx(1.0)
        rng = np.random.default_rng(0)
        held = np.column_stack([rng.choice(len(rows.columns[0].mass), 3000, p=rows.columns[0].mass),
                                rng.integers(0, 2, 3000)]).astype(np.int32)
        rows.repair(held, rng)
        table = schema.decode(rows.placed(held, schema.width, rng))
        assert schema.holds(table).all()
        share = (table["x"] == 50.0).mean()
        assert share == pytest.approx(1 / 6, abs=0.03) if everywhere else 0.0 < share < 0.2
        assert (table["x"] == 50.0)[np.asarray(table["c"]) == "a"].any() == everywhere
