"""A missing value that counts as the middle of the range is the same value in tables and in comparisons with them.

The middle of a column with steps can lie between two values. Tables count it in the interval that begins there.
"""

import itertools
import math

import numpy as np
import pandas as pd
import pytest

import trigmech as tm
from trigmech.functions.partition import columns_of, even_edges
from trigmech.schema.encoding import place_of

WHOLE = [(lower, upper, special) for lower, upper, special in itertools.product(
    (-7, -1, 0, 1, 5), (4, 9, 10, 99, 255, 360, 999, 12_345), ((), (5,), (4, 5), (2, 4, 5, 49, 50, 52)))
    if lower < upper - 1]


def columns():
    for lower, upper, special in WHOLE:
        yield tm.Column("x", lower, upper, "integer", missing="centre",
                        special=[value for value in special if lower <= value <= upper])
    for lower, steps in itertools.product((1, 2, 3, 10), (2, 3, 9, 31)):
        # The middle of a logarithmic scale is the root of the product of its ends.
        for upper in {steps * (steps + 1) // lower, steps * (steps + 1)}:
            if upper > lower + 2:
                yield tm.Column("x", lower, upper, "integer", transform="log", missing="centre")
                yield tm.Column("x", lower - 8, upper - 8, "integer", transform="log1p", missing="centre")
    for last in ("2020-01-04", "2020-01-31", "2021-01-30"):
        yield tm.Column("x", "2020-01-01", last, "datetime", missing="centre")
    for size in (2, 3, 4, 11, 12):
        yield tm.Column("x", kind="ordinal", categories=[f"c{k:02d}" for k in range(size)], missing="centre")
    yield tm.Column("x", 0, 1, "binary", missing="centre")


def middle_of(schema):
    """The number, in the cube, of the value that a missing one is decoded to."""
    values = schema.decode(np.zeros((1, schema.domain.d)), ["x"])
    return schema.to_cube(pd.DataFrame(values))[0, 0]


@pytest.mark.parametrize("column", list(columns()), ids=repr)
def test_every_interval_that_holds_the_middle_holds_the_value_it_is_decoded_to(column):
    schema = tm.Schema([column])
    at = middle_of(schema)
    partition = columns_of(schema.domain)[0]
    assert partition.levels is not None
    assert at in partition.levels
    # As near to the middle as any value; the upper one of two.
    assert abs(at) == pytest.approx(np.abs(partition.levels).min(), rel=1e-6)
    assert at >= 0 or -at < np.abs(partition.levels[partition.levels >= 0]).min() * (1 - 1e-6)
    for count in {*range(2, 20), 32, 64, 100, len(partition.levels)}:
        cut = partition.cut(even_edges(partition.levels, count))
        both = np.zeros((2, schema.domain.d))
        both[1, 0] = at
        assert len(set(cut.codes(both).tolist())) == 1, count
        # The interval of the middle divided once more, into its single values.
        held = cut.codes(both)[0] - len(cut.indicators)
        finer = cut.finer(held, 2**16)
        first, second = np.searchsorted(finer[1:-1], [0.0, at], side="right")
        assert first == second, count


@pytest.mark.parametrize(("column", "expected"), [
    (tm.Column("x", 0, 9, "integer"), 5), (tm.Column("x", 0, 99, "integer"), 50), (tm.Column("x", 0, 8, "integer"), 4),
    (tm.Column("x", -3, 2, "integer"), 0), (tm.Column("x", 0.2, 9.6, "integer"), 5),
    (tm.Column("x", 0, 9, "integer", special=[5]), 4), (tm.Column("x", 0, 9, "integer", special=[4]), 5),
    (tm.Column("x", 0, 9, "integer", special=[4, 5]), 6), (tm.Column("x", 0, 9, "integer", special=[4, 5, 6]), 3),
    (tm.Column("x", 1, 90, "integer", transform="log"), 10), (tm.Column("x", 1, 89, "integer", transform="log"), 9),
    (tm.Column("x", -8, 81, "integer", transform="log1p"), 1), (tm.Column("x", 0, 1, "binary"), 1),
    (tm.Column("x", -8, 80, "integer", transform="log1p"), 0), (tm.Column("x", 2, 9, decimals=0), 6),
    (tm.Column("x", 0, 0.5, decimals=1), 0.3), (tm.Column("x", 0, 2**20 + 1, "integer"), 2**19 + 1),
    (tm.Column("x", 0, 5), 2.5), (tm.Column("x", 0, 1e-3, "integer"), 0)])
def test_the_middle_is_decoded_to_the_nearest_value_and_to_the_upper_one_of_two(column, expected):
    schema = tm.Schema([column])
    point = np.zeros((1, schema.domain.d))
    assert schema.decode(point)["x"].tolist() == [expected]
    assert schema.from_cube(point).tolist() == [[expected]]
    # A number close to the middle is rounded as any other number.
    for side in (-1.0, 1.0):
        point[0, 0] = side * 1e-3
        near = schema.from_cube(point)[0, 0]
        assert abs(place_of(column, np.array([near]))[0] - side * 1e-3) <= 2.0 * abs(
            place_of(column, np.array([expected]))[0]) + 2e-3


def test_a_middle_that_is_known_well_is_the_same_in_a_comparison():
    rng = np.random.default_rng(3)
    columns = [tm.Column(f"x{upper}", 0, upper, "integer", missing="centre") for upper in (1, 3, 9, 99, 999)]
    columns += [tm.Column(f"d{upper}", 0, upper, decimals=0, missing="centre") for upper in (9, 99)]
    for column in columns:
        # The values beside the middle come from missing cells alone, so a value in the wrong place is half of the rows.
        ends = rng.choice([column.lower, column.upper], 2_000)
        table = pd.DataFrame({column.name: np.where(rng.random(2_000) < 0.5, np.nan, ends)})
        schema = tm.Schema([column])
        made = tm.synthesize(table, schema, tm.Budget(100.0, 1e-6), rng=np.random.default_rng(1))
        counted = pd.Series(schema.decode(schema.to_cube(table))[column.name]).value_counts(normalize=True)
        rows = made.sample(2_000)[column.name].value_counts(normalize=True)
        assert 0.5 * counted.sub(rows, fill_value=0.0).abs().sum() < 0.02, column


@pytest.mark.parametrize("lower", [2.0**53, 2.0**55, 1e17, -(2.0**56)])
def test_whole_numbers_that_not_all_are_floats_are_not_all_the_lowest_one(lower):
    """Steps of 1 lead nowhere there: the column had one level, and every synthetic value was the lower bound."""
    upper = lower + 4_096.0
    column = tm.Column("x", lower, upper, "integer")
    table = pd.DataFrame({"x": lower + 64.0 * np.random.default_rng(0).integers(0, 65, 2_000)})
    made = tm.synthesize(table, tm.Schema([column]), tm.Budget(100.0, 1e-6), rng=np.random.default_rng(1))
    found = np.asarray(made.sample(2_000)["x"], dtype=float) - lower
    assert ((found >= 0.0) & (found <= 4_096.0)).all()
    assert abs(found.mean() - float((table["x"] - lower).mean())) < 200.0
    assert len(np.unique(found)) > 40


def test_the_least_steps_about_the_middle_are_told_apart():
    """A gap of one step in a range of 2^53 is no tie, and no error."""
    for upper in (2.0**53, 2.0**53 - 1, 1e308):
        schema = tm.Schema([tm.Column("x", 0, upper, "integer")])
        found = float(schema.decode(np.zeros((1, 1)))["x"][0])
        assert math.isclose(found, upper / 2, rel_tol=1e-15)
