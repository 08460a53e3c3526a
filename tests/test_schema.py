import math
from fractions import Fraction

import numpy as np
import oracles
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trigmech.errors import InputError
from trigmech.schema import Column, Schema

FRAMES = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table}
EPSILON = np.finfo(np.float64).eps

laws = settings(max_examples=60, derandomize=True, deadline=None, database=None)
bounds = st.tuples(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6)).map(sorted).filter(
    lambda pair: pair[1] - pair[0] > 1e-300)
fractions = st.lists(st.floats(0.0, 1.0), min_size=1, max_size=20)


def people():
    return Schema([
        Column("age", 0, 120, "integer"), Column("income", -1e4, 5e5), Column("smokes", 0, 1, "binary"),
    ])


# The map to the cube and back


@laws
@given(bounds, fractions)
def test_the_map_to_the_cube_is_the_affine_one(pair, parts):
    lower, upper = map(Fraction, pair)
    values = np.clip([pair[0] + part * (pair[1] - pair[0]) for part in parts], *pair)
    cube = Schema([Column("a", *pair)]).to_cube(values[:, None])
    for value, point in zip(values, cube[:, 0], strict=True):
        assert abs(Fraction(point) - (2 * (Fraction(value) - lower) / (upper - lower) - 1)) < 1e-15


@laws
@given(bounds, fractions)
def test_there_and_back_returns_the_values(pair, parts):
    schema = Schema([Column("a", *pair)])
    values = np.clip([pair[0] + part * (pair[1] - pair[0]) for part in parts], *pair)[:, None]
    back = schema.from_cube(schema.to_cube(values))
    np.testing.assert_allclose(back, values, rtol=0, atol=8 * EPSILON * max(map(abs, pair)))


@laws
@given(bounds)
def test_the_bounds_are_the_faces_of_the_cube(pair):
    schema = Schema([Column("a", *pair)])
    np.testing.assert_array_equal(schema.to_cube(np.transpose([pair])), [[-1.0], [1.0]])


@laws
@given(bounds)
def test_the_faces_of_the_cube_are_the_bounds(pair):
    schema = Schema([Column("a", *pair)])
    np.testing.assert_array_equal(schema.from_cube([[-1.0], [1.0]]), np.transpose([pair]))


@pytest.mark.parametrize("pair", [
    (-1e16, 1.0), (-1.0, 1e16), (-8e307, 8e307), (0.0, 1e-300), (1.0, 1.0 + EPSILON),
], ids=str)
def test_extreme_bounds_are_the_faces_of_the_cube_too(pair):
    schema = Schema([Column("a", *pair)])
    np.testing.assert_array_equal(schema.to_cube(np.transpose([pair])), [[-1.0], [1.0]])
    np.testing.assert_array_equal(schema.from_cube([[-1.0], [1.0]]), np.transpose([pair]))


def test_values_outside_the_bounds_are_clipped_the_infinite_ones_too():
    schema = Schema([Column("a", -3, 5)])
    values = np.array([[-math.inf], [-1e300], [-3.1], [5.1], [1e300], [math.inf]])
    np.testing.assert_array_equal(schema.to_cube(values), [[-1], [-1], [-1], [1], [1], [1]])


def test_points_outside_the_cube_come_back_as_the_bounds():
    table = people().from_cube([[-2, -2, -2], [9, 9, 9]])
    np.testing.assert_array_equal(table, [[0, -1e4, 0], [120, 5e5, 1]])


def test_to_cube_leaves_the_table_as_it_was():
    table = np.array([[7.0], [-1.0]])
    table.setflags(write=False)
    Schema([Column("a", 0, 5)]).to_cube(table)
    assert table.tolist() == [[7.0], [-1.0]]


@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.int64, np.float32, np.float16, bool])
def test_other_number_types_count_as_the_numbers_they_hold(dtype):
    table = np.array([[0, 1, 0], [17, 60, 1]]).astype(dtype)
    np.testing.assert_array_equal(people().to_cube(table), people().to_cube(table.astype(np.float64)))


@pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)
def test_columns_of_a_dataframe_are_found_by_name_in_any_order(frame):
    age, income, smokes = [30, 131], [0.5, 1e9], [True, False]
    table = frame({"smokes": smokes, "other": ["x", "y"], "income": income, "age": age})
    plain = np.column_stack([age, income, smokes])
    np.testing.assert_array_equal(people().to_cube(table), people().to_cube(plain))


# Kinds


@pytest.mark.parametrize(("lower", "upper"), [(0, 120), (-7, 5), (0.5, 9.5), (-100_000, 3)])
def test_integers_survive_there_and_back_and_nothing_else_comes_back(lower, upper):
    schema = Schema([Column("a", lower, upper, "integer")])
    integers = np.arange(math.ceil(lower), math.floor(upper) + 1.0)[:, None]
    np.testing.assert_array_equal(schema.from_cube(schema.to_cube(integers)), integers)
    points = np.linspace(-1.0, 1.0, 1001)[:, None]
    assert np.isin(schema.from_cube(points), integers).all()


def test_integer_values_are_the_nearest_integers_within_the_bounds():
    schema = Schema([Column("a", -0.4, 3.6, "integer")])
    values = np.array([[-0.4], [0.4], [0.6], [2.9], [3.6]])
    np.testing.assert_array_equal(schema.from_cube(schema.to_cube(values)), [[0], [0], [1], [3], [3]])


def test_binary_values_are_the_nearer_bound():
    schema = Schema([Column("a", 2, 5, "binary")])
    points = [[-1.0], [-0.3], [-1e-9], [1e-9], [0.3], [1.0]]
    np.testing.assert_array_equal(schema.from_cube(points), [[2], [2], [2], [5], [5], [5]])


# What is refused


def test_missing_values_are_reported_by_column_and_without_any_value():
    table = np.array([[0.77131, 7.7131, math.nan], [7.7131, math.nan, 1.0]])
    with pytest.raises(InputError, match="'income', 'smokes'") as caught:
        people().to_cube(table)
    message = oracles.whole_message(caught.value)
    assert "'age'" not in message
    assert oracles.SECRET_DIGITS not in message


@pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)
@pytest.mark.parametrize("values", [[77131, None], [7.7131, None], [7.7131, math.nan]], ids=str)
def test_empty_cells_of_a_dataframe_are_missing_values(frame, values):
    with pytest.raises(InputError, match=r"missing .* 'age'") as caught:
        people().to_cube(frame({"age": values, "income": [7.7131, 1.0], "smokes": [0, 1]}))
    assert oracles.SECRET_DIGITS not in oracles.whole_message(caught.value)


@pytest.mark.parametrize(("lower", "upper"), [
    (1, 1), (2, 1), (math.nan, 1), (0, math.nan), (-math.inf, 1), (0, math.inf), (-1e308, 1e308),
    (0.0, 5e-324), ("low", 1), ("0", "1"), (None, 1), ([0], 1), (0, 1j), (0, 10**400),
], ids=lambda bound: str(bound)[:10])
def test_bounds_are_finite_numbers_lower_below_upper_with_a_range_whose_half_is_a_float(lower, upper):
    with pytest.raises(InputError, match="'age'"):
        Column("age", lower, upper)


@pytest.mark.parametrize("name", ["", None, 3, b"age"])
def test_a_name_is_a_non_empty_string(name):
    with pytest.raises(InputError, match="name"):
        Column(name, 0, 1)


@pytest.mark.parametrize("kind", ["ordinal", "Integer", "", None, ["integer"]])
def test_unknown_kinds_are_refused(kind):
    with pytest.raises(InputError, match="continuous, integer, binary"):
        Column("age", 0, 1, kind)


@pytest.mark.parametrize(("lower", "upper"), [(0.2, 0.8), (-0.9, -0.1), (7.5, 7.75)])
def test_an_integer_column_holds_an_integer(lower, upper):
    with pytest.raises(InputError, match="no integer"):
        Column("age", lower, upper, "integer")


@pytest.mark.parametrize(("columns", "message"), [
    ([], "at least one"),
    ([Column("a", 0, 1), Column("b", 0, 1), Column("a", 2, 3)], "'a'$"),
    ([Column("a", 0, 1), ("b", 0, 1)], "tuple"),
])
def test_a_schema_is_columns_with_distinct_names(columns, message):
    with pytest.raises(InputError, match=message):
        Schema(columns)


@pytest.mark.parametrize("points", [[0.0, 0.0, 0.0], [[0.0, 0.0]], [[[0.0, 0.0, 0.0]]], 0.0])
def test_from_cube_wants_one_column_of_points_for_each_column(points):
    with pytest.raises(InputError, match=r"\(m, 3\)"):
        people().from_cube(points)


# Small facts


def test_a_schema_knows_its_columns():
    schema = people()
    assert schema.d == 3
    assert schema.names == ("age", "income", "smokes")
    assert Schema(column for column in schema.columns) == schema


def test_the_cube_has_its_own_schema():
    points = np.random.default_rng(1).uniform(-1.0, 1.0, (50, 4))
    assert Schema.cube(4).names == ("x1", "x2", "x3", "x4")
    np.testing.assert_allclose(Schema.cube(4).to_cube(points), points, rtol=0, atol=EPSILON)
    for d in (0, -1, 2.0, "2"):
        with pytest.raises(InputError):
            Schema.cube(d)
