import datetime
import decimal
import json
import math
from fractions import Fraction

import numpy as np
import oracles
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from trigmech.errors import InputError
from trigmech.schema import encoding, rounding
from trigmech.schema.encoding import key_of
from trigmech.schema.schema import Column, Schema
from trigmech.schema.words import how_fine
from trigmech.tables import frames as tables

FRAMES = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table}
EPSILON = np.finfo(np.float64).eps

laws = settings(max_examples=30, derandomize=True, deadline=None, database=None)
few_laws = settings(laws, max_examples=15)
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


@pytest.mark.parametrize("options", [{}, {"transform": "log1p"}, {"transform": "log"}, {"missing": "keep"},
                                     {"kind": "integer"}, {"special": (7.0,)}], ids=str)
def test_values_outside_the_bounds_are_clipped_under_every_transform(options):
    schema = Schema([Column("a", 2.0, 5.0, **options)])
    beyond = [-1e300, -np.inf, -3.0, 0.0, 1.0, 6.0, 1e300, np.inf]
    points = schema.to_cube(np.array([beyond]).T)
    np.testing.assert_array_equal(points[:, 0], [-1.0] * 5 + [1.0] * 3)
    inside = schema.to_cube(np.linspace(2.0, 5.0, 1001)[:, None])[:, 0]
    assert np.abs(inside).max() == 1.0
    assert (np.diff(inside) > 0).all()


@laws
@given(bounds)
@example((-1e16, 1.0))
@example((-8e307, 8e307))
@example((0.0, 1e-300))
@example((1.0, 1.0 + EPSILON))
def test_the_bounds_are_the_faces_of_the_cube_and_the_faces_the_bounds(pair):
    schema = Schema([Column("a", *pair)])
    np.testing.assert_array_equal(schema.to_cube(np.transpose([pair])), [[-1.0], [1.0]])
    np.testing.assert_array_equal(schema.from_cube([[-1.0], [1.0]]), np.transpose([pair]))


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


def test_binary_values_are_the_nearer_bound_also_outside_the_cube():
    schema = Schema([Column("a", 2, 5, "binary")])
    points = [[-2.0], [-0.3], [-1e-9], [1e-9], [0.3], [9.0]]
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
@pytest.mark.parametrize("values", [[77131, None], [7.7131, math.nan]], ids=str)
def test_empty_cells_of_a_dataframe_are_missing_values(frame, values):
    with pytest.raises(InputError, match=r"missing .* 'age'") as caught:
        people().to_cube(frame({"age": values, "income": [7.7131, 1.0], "smokes": [0, 1]}))
    assert oracles.SECRET_DIGITS not in oracles.whole_message(caught.value)


@pytest.mark.parametrize(("lower", "upper"), [
    (1, 1), (2, 1), (math.nan, 1), (0, math.inf), (-1e308, 1e308), (0.0, 5e-324), ("0", "1"), (None, 1), (0, 10**400),
], ids=lambda bound: str(bound)[:10])
def test_bounds_are_finite_numbers_lower_below_upper_with_a_range_whose_half_is_a_float(lower, upper):
    with pytest.raises(InputError, match="'age'"):
        Column("age", lower, upper)


@pytest.mark.parametrize("name", ["", None, b"age"])
def test_a_name_is_a_non_empty_string(name):
    with pytest.raises(InputError, match="name"):
        Column(name, 0, 1)


@pytest.mark.parametrize(("columns", "message"), [
    ([], "at least one"),
    ([Column("a", 0, 1), Column("b", 0, 1), Column("a", 2, 3)], "'a'$"),
    ([Column("a", 0, 1), ("b", 0, 1)], "tuple"),
])
def test_a_schema_is_columns_with_distinct_names(columns, message):
    with pytest.raises(InputError, match=message):
        Schema(columns)


@pytest.mark.parametrize("points", [[0.0, 0.0, 0.0], [[0.0, 0.0]]])
def test_from_cube_wants_one_column_of_points_for_each_column(points):
    with pytest.raises(InputError, match=r"\(m, 3\)"):
        people().from_cube(points)


def test_the_cube_has_its_own_schema():
    points = np.random.default_rng(1).uniform(-1.0, 1.0, (50, 4))
    assert Schema.cube(4).names == ("x1", "x2", "x3", "x4")
    np.testing.assert_allclose(Schema.cube(4).to_cube(points), points, rtol=0, atol=EPSILON)
    for d in (0, 2.0):
        with pytest.raises(InputError):
            Schema.cube(d)


# Columns of all kinds

DAYS = st.dates(datetime.date(1900, 1, 1), datetime.date(2100, 1, 1))
SECONDS = st.datetimes(datetime.datetime(1900, 1, 1), datetime.datetime(2100, 1, 1)).map(
    lambda time: time.replace(microsecond=0))
TEXT = st.text(st.characters(codec="utf-8"), max_size=5)


def two(values):
    return st.lists(values, min_size=2, max_size=2, unique=True).map(sorted)


@st.composite
def columns(draw, name="a"):
    """A column of any kind with any options, and values that it can hold, None where missing."""
    kind = draw(st.sampled_from(["continuous", "integer", "binary", "ordinal", "categorical", "datetime"]))
    options = {"missing": draw(st.sampled_from(["refuse", "keep"] + ["centre"] * (kind != "categorical")))}
    special = []
    if kind in ("ordinal", "categorical"):
        values = draw(st.sampled_from([TEXT, st.integers(-10**6, 10**6), st.booleans()]
                                      + [st.floats(-1e6, 1e6)] * (kind == "ordinal")))
        options["categories"] = draw(st.lists(values, min_size=2, max_size=5, unique_by=(
            lambda value: value.strip() if isinstance(value, str) else value)))
        options["other"] = draw(st.none() | st.sampled_from(options["categories"]))
        cells = st.sampled_from(options["categories"])
    elif kind == "datetime":
        times = draw(st.sampled_from([DAYS, SECONDS]))
        options["lower"], options["upper"] = draw(two(times))
        special = draw(st.lists(times, max_size=2, unique=True))
        cells = times.map(lambda time: min(max(time, options["lower"]), options["upper"]))
    else:
        numbers = st.integers(-10**6, 10**6) if kind == "integer" else st.floats(-1e6, 1e6)
        options["lower"], options["upper"] = lower, upper = draw(two(numbers).filter(lambda p: p[1] - p[0] > 1e-6))
        if kind == "binary":
            cells = st.sampled_from([lower, upper])
        else:
            special = draw(st.lists(numbers, max_size=2, unique=True))
            cells = numbers.map(lambda value: min(max(value, lower), upper))
            options["transform"] = draw(st.sampled_from([None, "log1p"] + ["log"] * (lower > 0.01)))
    if special:
        options["special"] = special
        cells |= st.sampled_from(special)
    if options["missing"] != "refuse":
        cells |= st.none()
    return Column(name, kind=kind, **options), draw(st.lists(cells, min_size=4, max_size=4))


@st.composite
def filled_tables(draw):
    pairs = [draw(columns(name)) for name in ("a", "b and c", "d.e")[:draw(st.integers(1, 3))]]
    return Schema(column for column, _ in pairs), {column.name: values for column, values in pairs}


def array_of(rows):
    out = np.empty((4, len(rows)), dtype=object)
    for j, values in enumerate(rows.values()):
        out[:, j] = values
    return out


def same(column, value, found):
    """Whether a value that came back is the one that was encoded."""
    if value is None:
        return found is np.ma.masked or column.missing == "centre"
    if column.unit:
        return found == np.datetime64(value)
    if column.kind == "continuous" and value not in column.special:
        # Numbers of more digits than 1/10,000 of the range, or of its logarithm, are rounded.
        lower, upper = column.lower, column.upper
        part = (upper - lower if column.transform is None else value * np.log(upper / lower)
                if column.transform == "log" else (1.0 + value - lower) * np.log1p(upper - lower)) / 10_000
        return abs(value - found) <= part + 1e-9 * (1.0 + abs(value) + abs(lower))
    return found == value and isinstance(found, bool | np.bool_) == isinstance(value, bool)


@few_laws
@given(st.integers(0, 4), st.integers(-50, 50), st.integers(1, 400), st.sampled_from([None, "log1p"]), st.data())
def test_numbers_of_so_many_decimals_are_the_nearest_ones_of_them(decimals, low, count, transform, data):
    steps = 10**decimals
    lower, upper = low / steps, (low + count) / steps
    special = data.draw(st.lists(st.integers(low, low + count).map(lambda k: k / steps), max_size=2, unique=True))
    column = Column("x", lower, upper, decimals=decimals, transform=transform, special=special)
    known = [k / steps for k in range(low, low + count + 1)]
    schema = Schema([column])
    # What has so many decimals comes back as it is; special values by their indicators.
    assert schema.decode(schema.to_cube(np.array(known)[:, None]))["x"].tolist() == known
    points = np.zeros((200, schema.domain.d))
    points[:, 0] = np.linspace(-1.0, 1.0, 200)
    plain = Schema([Column("x", lower, upper, transform=transform)]).decode(points[:, :1])["x"]
    found = schema.decode(points)["x"]
    assert set(found) <= set(known)
    free = [value for value in known if value not in special] or known
    # Up to the last digit of a tie, and one step further where the nearest is a special value.
    for value, exact in zip(found.tolist(), plain.tolist(), strict=True):
        nearest = min(abs(each - exact) for each in free)
        assert abs(value - exact) <= max(nearest * (1.0 + 1e-9) + 1e-12, 1.5 / steps if special else 0.0)
        assert value in free
    assert Column.from_dict(column.to_dict()) == column


@few_laws
@given(filled_tables())
def test_any_table_comes_back_and_keeps_to_its_domain(table):
    schema, rows = table
    points = schema.to_cube(array_of(rows))
    schema.domain.check(points)
    assert points.shape == (4, len(schema.coordinates)) == (4, schema.domain.d)
    assert np.abs(points).max() <= 1.0
    for column, values, back in zip(schema.columns, rows.values(), schema.decode(points).values(), strict=True):
        assert all(same(column, value, found) for value, found in zip(values, back, strict=True))
    # Decoding and encoding again changes nothing more, so that a table that was released can be used as one.
    decoded = tables.like(None, schema.names, list(schema.decode(points).values()))
    again = schema.to_cube(decoded) if not any("centre" in column.missing for column in schema.columns) else points
    np.testing.assert_allclose(again, points, rtol=0, atol=2.1e-4)


def twin(column, value):
    """The coordinates of one value, in the words of the specification."""
    gone = value is None
    if column.kind == "categorical":
        indicators = [float(value == category) if not gone else 0.0 for category in column.categories]
        return indicators + [float(gone)] * (column.missing == "keep")
    if column.kind == "ordinal":
        point = 0.0 if gone else 2.0 * column.categories.index(value) / (len(column.categories) - 1) - 1.0
    elif gone or value in column.special:
        point = 0.0
    else:
        log = {None: lambda x: x, "log": lambda x: math.log(x), "log1p": lambda x: math.log1p(x - column.lower)}
        number = {None: float, "D": lambda day: day.toordinal(), "s": lambda time: time.timestamp()}[column.unit]
        if column.unit == "s":
            number = lambda time: (time - datetime.datetime(2000, 1, 1)).total_seconds()  # noqa: E731
        lower, x, upper = (log[column.transform](number(bound)) for bound in (column.lower, value, column.upper))
        point = 2.0 * (x - lower) / (upper - lower) - 1.0
    indicators = [float(not gone and value == special) for special in column.special]
    return [point, *indicators] + [float(gone)] * (column.missing == "keep")


@few_laws
@given(columns())
def test_the_encoding_is_that_of_the_specification(pair):
    column, values = pair
    points = Schema([column]).to_cube(array_of({"a": values}))
    np.testing.assert_allclose(points, [twin(column, value) for value in values], rtol=0, atol=1e-9)


@few_laws
@given(st.data())
def test_a_changed_row_moves_the_indicators_of_a_column_by_no_more_than_charged(data):
    column, values = data.draw(columns())
    schema = Schema([column])
    points = schema.to_cube(array_of({"a": values}))
    for group in schema.domain.groups:
        moved = points[:2][:, list(group.coordinates)] - points[2:][:, list(group.coordinates)]
        assert np.abs(moved).sum(axis=1).max() <= 2.0
        assert np.linalg.norm(moved, axis=1).max() <= math.sqrt(2.0)


@few_laws
@given(filled_tables(), st.integers(0, 2**32))
def test_any_points_decode_to_values_that_can_be_encoded(table, seed):
    schema, _ = table
    points = np.random.default_rng(seed).uniform(-1.3, 1.3, (20, schema.domain.d))
    decoded = schema.decode(points)
    back = schema.to_cube(tables.like(None, schema.names, list(decoded.values())))
    schema.domain.check(back)
    again = schema.decode(back)
    for column in schema.columns:
        if column.kind != "continuous":
            np.testing.assert_array_equal(np.ma.getmaskarray(again[column.name]),
                                          np.ma.getmaskarray(decoded[column.name]))
            assert (again[column.name] == decoded[column.name]).all()


def mixed():
    return Schema([
        Column("age", 0, 120, "integer", missing="keep", special=(999,)),
        Column("income", 1, 1e6, transform="log", missing="centre"),
        Column("gain", 0, 1e5, special=(0,), transform="log1p"),
        Column("smokes", 0, 1, "binary", missing="keep"),
        Column("level", kind="ordinal", categories=["low", "middle", "high"], missing="keep"),
        Column("size", kind="ordinal", categories=[1, 2.5, 4]),
        Column("sex", kind="categorical", categories=["F", "M", "X"], other="X", missing="keep"),
        Column("flag", kind="categorical", categories=[False, True], missing="keep"),
        Column("code", kind="categorical", categories=[1, 2, 3]),
        Column("day", "2000-01-01", datetime.date(2030, 1, 1), "datetime", missing="keep", special=["9999-12-31"]),
        Column("time", datetime.datetime(2000, 1, 1), "2030-01-01", "datetime"),
    ])


ROWS = {
    "age": [30, 999, None], "income": [10.0, 1e7, None], "gain": [0.0, -0.0, 50.0], "smokes": [True, False, None],
    "level": ["low", None, "high"], "size": [1.0, 2.5, 4.0], "sex": ["F", "?", "M"], "flag": [True, None, False],
    "code": [1, 2, 3], "day": [datetime.date(2001, 2, 3), None, datetime.date(9999, 12, 31)],
    "time": [datetime.datetime(2001, 2, 3, 4, 5, 6), datetime.datetime(1990, 1, 1),
             datetime.datetime(2029, 12, 31, 23, 59, 59, 999_999)],
}
VARIANTS = {
    "pandas": lambda: pd.DataFrame(ROWS),
    "pandas nullable": lambda: pd.DataFrame(ROWS).convert_dtypes(),
    "pandas objects": lambda: pd.DataFrame(ROWS, dtype=object),
    "pandas categories": lambda: pd.DataFrame(ROWS).astype({"level": "category", "sex": "category", "code": "category",
                                                            "flag": "category"}),
    "polars": lambda: pl.DataFrame(ROWS),
    "polars categories": lambda: pl.DataFrame(ROWS).with_columns(
        pl.col("level").cast(pl.Enum(["high", "low", "middle"])), pl.col("sex").cast(pl.Categorical),
        pl.col("gain", "size").cast(pl.Decimal(10, 2)), pl.col("time").cast(pl.Datetime("ns"))),
    "pyarrow": lambda: pa.table(ROWS),
    "pyarrow dictionaries": lambda: pa.table({
        name: pa.chunked_array([pa.array(values[:1]).dictionary_encode(), pa.array(values[1:]).dictionary_encode()])
        if name in ("level", "sex", "code", "flag") else pa.array(values) for name, values in ROWS.items()}),
    "pyarrow date64": lambda: pa.table(ROWS | {"day": pa.array(ROWS["day"], pa.date64()),
                                               "size": pa.array(map(decimal.Decimal, ROWS["size"]))}),
    "text": lambda: pl.DataFrame(ROWS | {"code": ["1", "2", "3"], "flag": ["true", None, "False"],
                                         "size": ["1", "2.5", "4.0"], "day": ["2001-02-03", None, "9999-12-31"],
                                         "time": ["2001-02-03T04:05:06", "1990-01-01", "2029-12-31 23:59:59.99"]}),
    "objects": lambda: np.array(list(zip(*ROWS.values(), strict=True)), dtype=object),
    "list": lambda: list(zip(*ROWS.values(), strict=True)),
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_tables_of_all_libraries_and_types_encode_alike_and_come_back(variant):
    table = VARIANTS[variant]()
    schema = mixed()
    points = schema.to_cube(table)
    schema.domain.check(points)
    values = [[None if value is None or (name == "sex" and value == "?") else value for value in column]
              for name, column in ROWS.items()]
    values[6][1] = "X"
    values[3] = [1, 0, None]
    values[10][2] = values[10][2].replace(microsecond=0)
    expected = np.hstack([[twin(column, value if value is None or column.kind in ("ordinal", "categorical")
                                or value in column.special else min(max(value, column.lower), column.upper))
                           for value in cells]
                          for column, cells in zip(schema.columns, values, strict=True)])
    np.testing.assert_allclose(points, expected, rtol=0, atol=2e-9)
    back = tables.like(tables.library_of(table), schema.names, list(schema.decode(points).values()))
    assert type(back) is (np.ndarray if variant in ("objects", "list") else type(table))
    np.testing.assert_allclose(schema.to_cube(back), points, rtol=0, atol=1e-12)


def test_types_that_come_back_follow_from_the_schema_alone():
    schema = mixed()
    for points in (schema.to_cube(VARIANTS["list"]()), np.ones((3, schema.domain.d))):
        decoded = list(schema.decode(points).values())
        arrow = tables.like("pyarrow", schema.names, decoded)
        assert [str(column.type) for column in arrow.columns] == [
            "int64", "double", "double", "int64", "string", "double", "string", "bool", "int64", "date32[day]",
            "timestamp[s]"]
        text = str(pd.Series(["x"]).dtype)
        assert [str(dtype) for dtype in tables.like("pandas", schema.names, decoded).dtypes] == [
            "Int64", "float64", "float64", "Int64", text, "float64", text, "boolean", "int64", "datetime64[s]",
            "datetime64[s]"]
        assert tables.like("polars", schema.names, decoded).dtypes == [
            pl.Int64, pl.Float64, pl.Float64, pl.Int64, pl.String, pl.Float64, pl.String, pl.Boolean, pl.Int64, pl.Date,
            pl.Datetime("ms")]
    numbers = Schema([Column("a", 0, 5, "integer", missing="keep"), Column("b", kind="categorical", categories=[1, 2])])
    array = tables.like(None, numbers.names, list(numbers.decode(np.eye(4)).values()))
    np.testing.assert_array_equal(array, numbers.from_cube(np.eye(4)))
    assert math.isnan(array[1, 0])


def test_times_with_a_zone_are_converted_to_utc_and_lose_it():
    schema = Schema([Column("t", datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC), "2021-01-01T09:00:00+09:00",
                            "datetime")])
    assert schema.columns[0].upper == datetime.datetime(2021, 1, 1)
    zone = datetime.timezone(datetime.timedelta(hours=9))
    time = datetime.datetime(2020, 6, 1, 9, tzinfo=zone)
    for table in (pd.DataFrame({"t": [time]}), pl.DataFrame({"t": [time]}), pa.table({"t": [time]}), [[time]],
                  pl.DataFrame({"t": ["2020-06-01T09:00:00+09:00"]}), np.array([["2020-06-01T00:00Z"]])):
        assert schema.decode(schema.to_cube(table))["t"] == np.datetime64("2020-06-01T00:00:00")
    array = np.array([["2020-06-01T00:00:00.999", "NaT"]], dtype="datetime64[ns]").T
    schema = Schema([Column("t", "2020-01-01", "2021-01-01", "datetime", missing="keep")])
    assert schema.decode(schema.to_cube(array))["t"].tolist() == [datetime.date(2020, 6, 1), None]


def test_days_are_those_that_times_lie_in_also_before_1970():
    schema = Schema([Column("t", "1950-01-01", "1990-01-01", "datetime")])
    times = [[datetime.datetime(1969, 12, 31, 23, 59, 59, 999_999)], [datetime.datetime(1990, 1, 1, 5)]]
    assert schema.decode(schema.to_cube(times))["t"].astype(str).tolist() == ["1969-12-31", "1990-01-01"]


def test_an_unknown_value_counts_as_other_or_is_refused_without_being_quoted():
    options = {"kind": "categorical", "categories": ["77", "x"]}
    schema = Schema([Column("a", **options), Column("b", other="x", **options)])
    with pytest.raises(InputError, match="'a' hold") as caught:
        schema.to_cube([["7.7131", "7.7131"], ["x", "x"]])
    assert oracles.SECRET_DIGITS not in oracles.whole_message(caught.value)
    assert "'b'" not in str(caught.value)
    np.testing.assert_array_equal(Schema([schema.columns[1]]).to_cube([["7.7131"], [77.0]]), [[0, 1], [1, 0]])


@pytest.mark.parametrize(("categories", "cells", "expected"), [
    (("1", "2"), ["2.0", "1.", 2.0, 1, " 2.00 "], "21212"), (("1.0", "2.0"), ["2", 2, "1.00", 1.0, "1.0"], "22111"),
    (("2.5", "x"), ["2.50", 2.5, "x", "2.500", decimal.Decimal("2.50")], ["2.5", "2.5", "x", "2.5", "2.5"]),
    (("2", "2.0"), ["2", "2.0", "2.00", 2.0, 2], ["2", "2.0", "2", "2", "2"]),
    ((1, 2), ["2.0", "1", 2.0, 1.0, 1], [2, 1, 2, 1, 1]),
], ids=["whole", "with decimals", "no whole ones", "both", "numbers"])
def test_categories_that_are_numbers_are_found_however_they_are_written(categories, cells, expected):
    schema = Schema([Column("a", kind="categorical", categories=categories)])
    expected = [f"{each}.0" if categories[0] == "1.0" else each for each in expected]
    assert schema.decode(schema.to_cube(np.array(cells, dtype=object)[:, None]))["a"].tolist() == expected
    # Codes with leading zeros are others.
    for strange in ("02.0", "1e0", "2.0.", "+2"):
        if isinstance(categories[0], str):
            with pytest.raises(InputError, match="not among the categories"):
                schema.to_cube([[strange]])


@pytest.mark.parametrize("cell", [
    [7.7131], {"x": 7.7131}, object(), b"7.7131", datetime.timedelta(0.77131), "7.7131", 7.7131j, float("nan"), None,
], ids=lambda cell: type(cell).__name__)
@pytest.mark.parametrize("name", ["age", "gain", "level", "size", "sex", "flag", "code", "time"])
def test_no_message_quotes_a_cell(cell, name):
    column = next(column for column in mixed().columns if column.name == name)
    schema = Schema([Column(**vars_of(column) | {"missing": "refuse", "other": None})])
    tried = 0
    for frame in (pd.DataFrame, pl.DataFrame, pa.table, lambda rows: as_objects(cell)):
        try:
            table = frame({name: [cell, cell]})
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            continue  # the library has no such cells
        with pytest.raises(InputError, match=name) as caught:
            schema.to_cube(table)
        assert oracles.SECRET_DIGITS not in oracles.whole_message(caught.value)
        tried += 1
    assert tried


def as_objects(cell):
    out = np.empty((2, 1), dtype=object)
    out[0, 0] = out[1, 0] = cell
    return out


def vars_of(column):
    return {option: getattr(column, option) for option in Column.__dataclass_fields__}


@pytest.mark.parametrize(("options", "message"), [
    ({"kind": "categorical"}, "at least two categories; given 0"),
    ({"lower": 0, "upper": 1, "kind": "Integer"}, "continuous, integer, binary"),
    ({"lower": -0.9, "upper": -0.1, "kind": "integer"}, "no integer"),
    ({"kind": "categorical", "categories": "xy"}, "a list"),
    ({"kind": "categorical", "categories": ["x", "y", "x"]}, "distinct; given twice: 'x'"),
    ({"kind": "categorical", "categories": ["x", "y", "\u00a0x "]}, "white space around them does not count"),
    ({"kind": "categorical", "categories": ["x", 1]}, "all strings, all integers"),
    ({"kind": "categorical", "categories": [1.5, 2.5]}, "all strings, all integers"),
    ({"kind": "ordinal", "categories": [1.5, math.nan]}, "all finite numbers"),
    ({"kind": "ordinal", "categories": [0.0, -0.0]}, "distinct"),
    ({"kind": "categorical", "categories": ["x", "\ud800"]}, "Unicode"),
    ({"kind": "categorical", "categories": ["x", "y"], "other": "z"}, "other must be one of the categories"),
    ({"kind": "categorical", "categories": [0, 1], "other": False}, "other must be one of the categories"),
    ({"kind": "categorical", "categories": ["x", "y"], "lower": 0}, "must not have lower and upper"),
    ({"kind": "categorical", "categories": ["x", "y"], "missing": "centre"}, "no centre"),
    ({"lower": 0, "upper": 9, "transform": "log"}, "upper=9.0; 'log1p', the logarithm of 1 + x, takes them"),
    ({"categories": ["x", "y"]}, "not for continuous, which a column is unless you name its kind"),
    ({"lower": 0, "upper": 1, "categories": ["x", "y"]}, "categories is for the kinds"),
    ({"lower": 0, "upper": 1, "missing": "drop"}, "refuse, centre, keep"),
    ({"lower": 0, "upper": 1, "kind": "binary", "special": [0]}, "special is for the kinds"),
    ({"lower": 0, "upper": 1, "special": [math.inf]}, "finite numbers"),
    ({"lower": 0, "upper": 1, "special": [0.5], "kind": "integer"}, "must be integers"),
    ({"lower": 0, "upper": 1, "transform": "log"}, "bounds above 0"),
    ({"lower": 1e300, "upper": math.nextafter(1e300, 2e300), "transform": "log"}, "logarithms differ"),
    ({"lower": 1, "upper": 2, "transform": "sqrt"}, "one of log, log1p"),
    ({"lower": 0, "upper": 1, "decimals": 1.0}, "decimals must be an integer from 0 to 12, not 1.0"),
    ({"lower": 0, "upper": 1, "decimals": True}, "decimals must be"),
    ({"lower": 0, "upper": 1, "decimals": 13}, "decimals must be"),
    ({"lower": 0, "upper": 1, "decimals": -1}, "decimals must be"),
    ({"lower": 0, "upper": 1, "decimals": 1, "kind": "integer"}, "decimals is for the kind continuous"),
    ({"private_bounds": True, "decimals": 1}, "cannot have decimals"),
    ({"lower": 0.01, "upper": 0.04, "decimals": 1}, "no number with 1 decimals"),
    ({"lower": 0, "upper": 1e308, "decimals": 12}, "floats are not exact enough"),
    ({"lower": 1, "upper": 2, "private_bounds": True}, "private bounds must not have lower"),
    ({"private_bounds": "yes"}, "True or False"),
    ({"kind": "ordinal", "categories": "private"}, "private_categories is for the kind categorical"),
    ({"kind": "categorical", "private_categories": 1}, "private_categories must be True or False"),
    ({"kind": "categorical", "private_categories": True, "categories": ("x", "y")}, "must not list"),
    ({"kind": "categorical", "categories": "private", "other": 3}, "other must be text"),
    ({"kind": "categorical", "categories": "private", "other": "\ud800"}, "other must be text"),
    ({"kind": "categorical", "categories": "secret"}, "categories must be a list"),
    ({"lower": "2020-13-01", "upper": "2021-01-01", "kind": "datetime"}, "ISO form"),
    ({"lower": "2021-01-01", "upper": "2020-01-01", "kind": "datetime"}, "before upper"),
    ({"lower": "2020-01-01T00:00:00.2", "upper": "2020-01-01T00:00:00.9", "kind": "datetime"}, "at least a second"),
    ({"lower": "2020-01-01", "upper": "2021-01-01", "kind": "datetime", "special": ["2020-01-01T05:00"]}, "dates if"),
], ids=lambda value: value.replace(" ", "-") if isinstance(value, str) else "")
def test_options_that_break_a_rule_are_refused(options, message):
    with pytest.raises(InputError, match="'a'") as caught:
        Column("a", **options)
    assert message in str(caught.value)


def test_private_bounds_are_completed_before_any_row_is_read():
    schema = Schema([Column("a", private_bounds=True, transform="log"), Column("b", 0, 1),
                     Column("c", kind="integer", private_bounds=True, special=(0,))])
    assert schema.private_bounds == ("a", "c")
    assert schema.coordinates == ("a", "b", "c", "c=0")
    for use in (lambda: schema.to_cube([[7.7131, 0, 1]]), lambda: schema.from_cube(np.zeros((1, 4))),
                lambda: schema.decode(np.zeros((1, 4)))):
        with pytest.raises(InputError, match=r"'a', 'c' (.*)with_bounds"):
            use()
    half = schema.with_bounds({"a": (1, 10)})
    assert half.private_bounds == ("c",)
    assert half.with_bounds({"c": (2, 5)}) == Schema([
        Column("a", 1, 10, transform="log"), Column("b", 0, 1), Column("c", 2, 5, "integer", special=(0,))])
    for bounds_of, message in (({"b": (0, 1)}, "'b'"), ({"a": (0, 1)}, "above 0"), ({"a": (1, math.nan)}, "finite")):
        with pytest.raises(InputError, match=message):
            schema.with_bounds(bounds_of)


def test_private_categories_are_completed_before_any_row_is_read():
    schema = Schema([Column("a", kind="categorical", categories="private"), Column("b", 0, 1),
                     Column("c", kind="categorical", private_categories=True, other=" rest ", missing="keep")])
    assert schema.private_categories == ("a", "c")
    assert schema.coordinates == ("a=other", "a=not other", "b", "c= rest ", "c=not  rest ", "c is missing")
    for use in (lambda: schema.to_cube([["7.7131", 0, "y"]]), lambda: schema.from_cube(np.zeros((1, 6))),
                lambda: schema.decode(np.zeros((1, 6)))):
        with pytest.raises(InputError, match=r"'a', 'c' (.*)with_categories"):
            use()
    half = schema.with_categories({"c": ["z", "Z", "é"]})
    assert half.private_categories == ("a",)
    assert half.columns[2] == Column("c", kind="categorical", categories=("Z", "z", "é", " rest "), other=" rest ",
                                     missing="keep")
    # A kind needs two categories, also if none was found.
    assert half.with_categories({"a": ()}).columns[0].categories == ("other", "not other")
    assert schema.with_categories(dict.fromkeys("ac", ())).coordinates == schema.coordinates
    for found, message in (({"b": ["x"]}, "'b'"), ({"a": ["x", "other"]}, "distinct")):
        with pytest.raises(InputError, match=message):
            schema.with_categories(found)
    assert Schema.from_dict(json.loads(json.dumps(schema.to_dict()))) == schema
    assert schema.to_dict()["columns"][0] == {"name": "a", "kind": "categorical", "categories": "private",
                                              "other": "other"}
    assert schema._repr_html_().count("private, not found yet") == 2


CELLS = st.one_of(st.text(max_size=3), st.booleans(), st.integers(), st.floats(allow_nan=False), st.binary(max_size=2),
                  st.decimals(allow_nan=False), st.sampled_from([np.float32(0.1), np.int8(3), np.str_(" x "), 10**5000,
                                                                 np.bool_(True), "\ud800", "x" * 300,
                                                                 datetime.date(2000, 1, 1)]))


@laws
@given(CELLS)
def test_a_value_is_of_the_category_that_it_was_counted_for(value):
    key = key_of(value)
    schema = Schema([Column("a", kind="categorical", categories=("the others", key or ""), other="the others")])
    table = np.empty((1, 1), dtype=object)
    table[0, 0] = value
    assert schema.decode(schema.to_cube(table))["a"].tolist() == ["the others" if key is None else key]


# Plain data


@few_laws
@given(filled_tables())
def test_a_schema_comes_back_from_json(table):
    schema, _ = table
    back = Schema.from_dict(json.loads(json.dumps(schema.to_dict(), allow_nan=False)))
    assert back == schema
    assert repr(back) == repr(schema)


@pytest.mark.parametrize(("plain", "message"), [
    ([], "a list 'columns'"), ({"columns": {}}, "a list 'columns'"), ({"columns": [], "more": 1}, "nothing else"),
    ({"columns": []}, "at least one"), ({"columns": ["a"]}, "table"),
    ({"columns": [{"lower": 0}]}, "needs a name"),
    ({"columns": [{"name": "a", "lowre": 0}]}, "column 'a': there is no option 'lowre'"),
    ({"columns": [{"name": "a", "lower": True, "upper": 2}]}, "column 'a': lower must be a number"),
    ({"columns": [{"name": "a", "lower": 0, "upper": 1, "special": [True]}]}, "column 'a': special must be"),
], ids=str)
def test_plain_data_of_another_form_is_refused(plain, message):
    with pytest.raises(InputError) as caught:
        Schema.from_dict(plain)
    assert message in str(caught.value)


@pytest.mark.parametrize(("lower", "upper", "special", "below", "above"), [
    (0, 100, (40,), 39, 41), (0, 100, (40, 41, 39), 38, 42), (40, 100, (40,), 41, 41), (0, 40, (40,), 39, 39),
    (40, 40.5, (40,), 40, 40)])
def test_numbers_that_are_only_rounded_to_a_special_value_go_beside_it(lower, upper, special, below, above):
    column = Column("hours", lower, upper, "integer", special=special)
    schema = Schema([column])
    near = np.linspace(-1.0, 1.0, 4_001)
    points = np.column_stack([near, np.zeros((len(near), len(special)))])
    decoded = schema.decode(points)["hours"]
    exact = lower + (near + 1.0) * (upper - lower) / 2.0
    assert below == above == 40 or not np.isin(decoded, special).any()
    around = np.rint(exact) == 40
    assert set(decoded[around & (exact < 40)]) <= {below}
    assert set(decoded[around & (exact > 40)]) <= {above}
    # What has an indicator is the special value all the same.
    points[:, 1] = 1.0
    assert set(schema.decode(points)["hours"]) == {special[0]}


# Where whole numbers, or their steps, are no longer floats.
@pytest.mark.timeout(20)
@pytest.mark.parametrize(("column", "found"), [
    (Column("a", 0, 2**53, "integer", special=(2**53,)), 2**53 - 1),
    (Column("a", 0, 2**60, "integer", special=(2**60, 2**60 - 128)), 2**60 - 256),
    (Column("a", 0, 1, decimals=3, special=(1.7e308,)), 1.0),
    (Column("a", 0, 1, decimals=0, special=(1, 1e300, -1e300)), 0.0),
    (Column("a", -8e307, 8e307, "integer", special=(8e307,)), math.nextafter(8e307, 0.0)),
], ids=["ends of exact numbers", "numbers in steps", "beyond floats", "beyond both bounds", "the largest"])
def test_beside_a_special_value_of_any_size_there_is_another_number_or_the_bound(column, found):
    points = np.zeros((2, 1 + len(column.special)))
    points[0, 0] = points[1, 1] = 1.0
    assert Schema([column]).decode(points)["a"].tolist() == [found, column.special[0]]


def test_a_schema_is_shown_as_it_is_written_and_on_a_screen():
    schema = mixed()
    names = {"Schema": Schema, "Column": Column, "datetime": datetime}
    for column in schema.columns:
        assert eval(repr(column), names) == column
    small = Schema(schema.columns[:3], ["age is missing or age > 3"], "whose")
    assert eval(repr(small), names) == small
    assert repr(Column("c", 0, 1)) == "Column('c', 0, 1)"
    many = [f"value {k}" for k in range(40)]
    wide = Schema([Column(f"c{j}", kind="categorical", categories=many) for j in range(40)])
    lines = repr(wide).splitlines()
    assert len(lines) <= 20
    assert max(map(len, lines)) <= 120
    assert "more" in repr(wide)
    assert sum("Column(" in line for line in lines) + int(repr(wide).partition("# ")[2].split()[0]) == 40
    assert "Column('c39'" in lines[-2]


def test_how_fine_values_are_is_said_of_all_columns_that_are_alike():
    columns = [Column("a", 0, 100), Column("b", 5, 205), Column("c", 0, 1, decimals=1), Column("d", -1, 1),
               Column("e", 0, 1e5, transform="log1p"), Column("f", private_bounds=True), Column("g", 0, 9, "integer"),
               Column("t", "2020-01-01", "2020-12-31", "datetime"),
               Column("u", "2020-01-01T05:00", "2020-12-31T07:00", "datetime")]
    assert how_fine(columns) == [
        "numbers are rounded to 2 digits after the point, as fits the range (set decimals to change this): 'a', 'b'",
        "numbers are rounded to 1 digit after the point, as the option decimals states: 'c'",
        "numbers are not rounded (set decimals to change this): 'd'",
        "numbers are rounded to 3 (small numbers) to 0 (large ones) digits after the point, as fits the range (set "
        "decimals to change this): 'e'",
        "numbers are rounded to 1/10,000 of the range that the private step finds: 'f'",
        "times are whole days; finer parts are cut off (set resolution to change this): 't'",
        "times are whole hours; finer parts are cut off (set resolution to change this): 'u'"]


@pytest.mark.parametrize(("lower", "upper", "fits"), [
    (0.0, 2.0**63 - 1024.0, True), (0.0, 2.0**63, False), (-(2.0**63), 0.0, True),
    (-(2.0**63) - 2048.0, 0.0, False)])
@pytest.mark.parametrize("kind", ["integer", "binary", "special"])
def test_integers_come_back_as_such_if_all_of_them_are_of_64_bits(kind, lower, upper, fits):
    column = (Column("x", 0, 9, "integer", special=(lower, upper)) if kind == "special"
              else Column("x", lower, upper, kind))
    assert column.fits_int64 == fits
    ends = np.array([lower, upper])
    schema = Schema([column])
    found = schema.decode(schema.to_cube(ends[:, None]))["x"]
    assert found.dtype == (np.int64 if fits else np.float64)
    np.testing.assert_array_equal(found.astype(np.float64), ends)


@pytest.mark.parametrize("value", [2.0**53, 5.0, 2.0**52, 2.0**53 - 1.0, 2.0**62, -(2.0**53), -(2.0**60)])
def test_a_number_beside_a_special_value_is_the_next_that_floats_can_tell_apart(value):
    below, above = (rounding._next_whole(value, side) for side in (-1, 1))
    assert below < value < above
    for other in (below, above):
        assert other.is_integer()
        # No float lies between, or no whole number.
        between = (int(value) + int(other)) // 2
        assert float(between) in (value, other)
    # Also where the next one is a special value too.
    for other in (below, above):
        column = Column("x", min(value, 0.0) - 2.0**61, max(value, 0.0) + 2.0**61, "integer", special=(value, other))
        found = rounding.beside_special(column, np.full(2, value), np.full(2, value))
        assert not np.isin(found, [value, other]).any()
        assert column.lower <= found[0] <= column.upper


def test_special_values_are_floats_whatever_they_were_given_as():
    for kind in ("integer", "continuous"):
        special = Column("x", 0, 9, kind, special=[3, np.int64(4), np.float32(5.0)]).special
        assert special == (3.0, 4.0, 5.0)
        assert {*map(type, special)} == {float}


@pytest.mark.parametrize("rows", [0, 1, encoding.ROWS_AT_A_TIME, encoding.ROWS_AT_A_TIME + 1,
                                  2 * encoding.ROWS_AT_A_TIME + 7])
def test_the_largest_indicators_are_found_in_any_number_of_rows_and_the_first_of_equal_ones(rows):
    rng = np.random.default_rng(rows)
    values = rng.integers(0, 3, (rows, 7)).astype(np.float64)
    found = encoding.largest(values[:, 1:6])
    assert found.dtype == np.int64
    np.testing.assert_array_equal(found, np.argmax(values[:, 1:6], axis=1))
