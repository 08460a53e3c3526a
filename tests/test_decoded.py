"""How fine synthetic numbers and times are, where nothing is said about it and where it is."""

import datetime
import json
import math
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import trigmech as tm
from trigmech.errors import InputError
from trigmech.reconstruction.constrained import keeps, witness
from trigmech.report.columns import unit_text, values_of
from trigmech.schema import encoding
from trigmech.schema.column import Column
from trigmech.schema.constraints import stated
from trigmech.schema.encoding import number_at
from trigmech.schema.rounding import default_digits
from trigmech.schema.schema import Schema

laws = settings(max_examples=150, deadline=None, derandomize=True, database=None)
DRAWN = np.random.default_rng(0).uniform(-1.0, 1.0, 300)


def decoded(column, places):
    schema = Schema([column])
    points = np.zeros((len(places), schema.domain.d))
    points[:, 0] = places
    return schema.decode(points)[column.name]


def written_digits(text):
    """How many digits after the point a number is written with."""
    mantissa, _, exponent = text.partition("e")
    after = mantissa.partition(".")[2].rstrip("0")
    return max(len(after) - int(exponent or 0), 0)


# Numbers


@pytest.mark.nightly
@laws
@given(st.integers(-10**6, 10**6), st.integers(1, 10**7), st.integers(0, 6))
def test_numbers_have_as_many_digits_as_a_ten_thousandth_of_the_range(low, count, places):
    lower, upper = low / 10**places, (low + count) / 10**places
    if (lower, upper) == (-1.0, 1.0):
        return
    part = Fraction(count, 10**places) / 10_000
    most = next(k for k in range(30) if Fraction(1, 10**k) <= part or k == 29)
    column = Column("x", lower, upper)
    assert default_digits(column) == (most, most)
    found, exact = decoded(column, DRAWN), number_at(column, DRAWN)
    assert all(written_digits(repr(value)) <= most for value in found.tolist())
    assert (np.abs(found - exact) <= 0.5 * 10.0**-most * (1.0 + 1e-6)).all()
    assert ((lower <= found) & (found <= upper)).all()
    assert decoded(column, np.array([-1.0, 1.0])).tolist() == [lower, upper]


@pytest.mark.parametrize(("bounds", "expected"), [
    ((30, 60), 3), ((0, 100), 2), ((32.1, 59.6), 3), ((0, 1), 4), ((0, 10_000), 0), ((0, 1e12), 0), ((0, 1e-3), 7)])
def test_a_range_warrants_so_many_digits(bounds, expected):
    assert default_digits(Column("x", *bounds)) == (expected, expected)


def test_rounding_stays_within_bounds_that_are_no_short_decimals():
    for lower, upper in ((2 / 3, 20 / 3), (1 / 3, 100 / 3), (-200 / 3, 1 / 7)):
        found = decoded(Column("x", lower, upper), np.concatenate([np.linspace(-1.0, -0.9999, 99), [-1.0, 1.0],
                                                                   np.linspace(0.9999, 1.0, 99)]))
        assert found.min() == lower
        assert found.max() == upper
        assert found[99:101].tolist() == [lower, upper]


@pytest.mark.nightly
def test_a_sampled_table_has_no_digits_that_mean_nothing():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"bill": rng.normal(44.0, 5.0, 300), "mass": rng.normal(4200.0, 800.0, 300)})
    schema = Schema([Column("bill", 30, 60), Column("mass", 2500, 6500)])
    for mechanism in (tm.TableMechanism(points=64), tm.MomentMechanism(points=64, iterations=10)):
        made = tm.synthesize(table, schema, tm.Budget(1.0, 1e-6), mechanism, rng=np.random.default_rng(1))
        sample = made.sample(500, np.random.default_rng(2))
        assert {written_digits(repr(value)) for value in sample["bill"].tolist()} <= {0, 1, 2, 3}
        assert {written_digits(repr(value)) for value in sample["mass"].tolist()} <= {0, 1}
        # Points of the cube are not rounded.
        assert np.abs(made.distribution.points * 1e4 - np.rint(made.distribution.points * 1e4)).max() > 1e-3


def test_points_of_the_cube_come_back_as_they_are():
    points = np.random.default_rng(0).uniform(-1.0, 1.0, (50, 3))
    for schema in (Schema.cube(3), Schema.from_dict(json.loads(json.dumps(Schema.cube(3).to_dict())))):
        assert default_digits(schema.columns[0]) is None
        # Up to a decimal that is as near as rounding errors.
        np.testing.assert_allclose(schema.from_cube(points), points, rtol=0, atol=2.0**-50)
        np.testing.assert_array_equal(np.column_stack(list(schema.decode(points).values())), schema.from_cube(points))
    assert default_digits(Column("x", -1, 1, transform="log1p")) is not None
    assert set(decoded(Column("x", -1, 1, decimals=1), DRAWN)) <= {k / 10 for k in range(-10, 11)}


@laws
@given(st.integers(-10**5, 10**5), st.integers(1, 10**7), st.integers(0, 4), st.lists(st.floats(0.0, 1.0), max_size=9))
def test_decimals_that_were_there_come_back(low, count, places, parts):
    column = Column("x", low / 10**places, (low + count) / 10**places)
    most = default_digits(column)
    known = [round(column.lower + part * (column.upper - column.lower), 3 if most is None else most[1] + 3)
             for part in parts]
    known = [min(max(value, column.lower), column.upper) for value in known]
    # As far as floats have so many digits.
    if max(abs(column.lower), abs(column.upper)) * 10.0 ** (3 if most is None else most[1] + 3) < 2.0**30:
        assert Schema([column]).decode(Schema([column]).to_cube(np.array(known).reshape(-1, 1)) if known else
                                       np.empty((0, 1)))["x"].tolist() == known


@pytest.mark.nightly
@laws
@given(st.floats(1e-6, 1e4), st.floats(1.5, 1e9), st.sampled_from(["log", "log1p"]))
def test_under_a_transform_steps_grow_with_the_numbers_and_keep_their_order(lower, factor, transform):
    column = Column("x", lower, lower * factor, transform=transform)
    places = np.sort(DRAWN)
    found, exact = decoded(column, places), number_at(column, places)
    assert (np.diff(found) >= 0.0).all()
    assert ((column.lower <= found) & (found <= column.upper)).all()
    own = exact if transform == "log" else exact - lower + 1.0
    part = (np.log(factor) if transform == "log" else np.log1p(column.upper - lower)) / 10_000
    warranted = np.maximum(own * part, 0.0)
    # Half a step, which is at most as warranted and, rounded to a power of ten, a tenth of it at least.
    assert (np.abs(found - exact) <= 0.5 * np.maximum(warranted, 1e-22) * (1.0 + 1e-6)).all()
    for value, each in zip(found.tolist(), warranted.tolist(), strict=True):
        assert value in (column.lower, column.upper) or 10.0 ** -written_digits(repr(value)) >= min(each, 1.0) / 1000.0


@pytest.mark.parametrize(("lower", "upper", "transform"), [
    (1e-300, 1e300, "log"), (5e-324, 1.7e308, "log"), (1e-320, 1.0, "log"), (1e-300, 1e300, "log1p"),
    (-1e308, 0.0, "log1p"), (-1e300, -1e299, "log1p"), (1e300, 1.7e308, "log"), (1e299, 1.7e308, "log1p"),
    (0.0, 1e-300, None), (-8e307, 8e307, None), (1e22, 1e22 + 2**30, None)])
@pytest.mark.filterwarnings("error")
def test_numbers_of_bounds_of_any_size_come_back_in_their_order_within_the_bounds(lower, upper, transform):
    for special in ((), (3.5, upper)):
        column = Column("x", lower, upper, transform=transform, special=special)
        found = decoded(column, np.linspace(-1.0, 1.0, 101))
        assert ((lower <= found) & (found <= upper)).all()
        assert (np.diff(found) >= 0.0).all()
        assert found[0] == lower
        assert special or found[-1] == upper


@laws
@given(st.integers(0, 5), st.lists(st.integers(0, 30), min_size=1, max_size=4, unique=True),
       st.sampled_from([None, "log1p"]))
def test_a_number_is_never_rounded_to_a_special_value(places, special, transform):
    column = Column("x", 0, 10.0 ** (4 - places), special=[k / 10**places for k in special], transform=transform)
    near = np.linspace(-1.0, -0.99, 400)
    found = decoded(column, near)
    assert not np.isin(found, column.special).any()
    assert ((column.lower <= found) & (found <= column.upper)).all()
    own = column.lower + (near + 1.0) / 2.0 * (column.upper - column.lower)
    if transform is None:
        # The next free ones lie on one side or the other of what stands together.
        assert (np.abs(found - own) <= (len(special) + 1.0) * 10.0**-places).all()


def test_a_number_at_a_special_value_goes_to_its_near_side_where_one_is_free():
    apart = np.sqrt(np.array([0.02, 0.1, 0.2])) / 10.0
    for decimals, step in ((1, 0.1), (None, 0.001)):
        column, off = Column("x", 0, 10, special=(0, 5, 7), decimals=decimals), step * apart
        for value, side in ((0.0, 1.0), (5.0, -1.0), (5.0, 1.0), (7.0, -1.0), (7.0, 1.0)):
            found = decoded(column, (value + side * off) / 5.0 - 1.0)
            np.testing.assert_allclose(found, value + side * step, atol=1e-9)


def test_constraints_bind_on_rounded_numbers():
    columns = [Column("x", 0, 100), Column("y", 0, 50), Column("c", kind="categorical", categories=("a", "b"))]
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"x": rng.uniform(45, 55, 400), "y": rng.uniform(0, 50, 400),
                          "c": rng.choice(["a", "b"], 400)})
    for rules in (["c = 'a' implies x > 50", "c = 'b' implies x < 50"], ["y < x"], ["x > 49.99 and x < 50.01"]):
        schema = Schema(columns, rules)
        assert keeps(schema, witness(schema)).all()
        made = tm.synthesize(table, schema, tm.Budget(1.0, 1e-6), tm.TableMechanism(points=256), rng=rng)
        sample = made.sample(2000, rng)
        assert schema.holds(sample).all()


def test_a_constraint_finer_than_the_numbers_is_refused_with_the_remedy_before_any_charge():
    rules = ["x > 50.0001 and x < 50.0009"]
    with pytest.raises(InputError, match="decimals"):
        witness(Schema([Column("x", 0, 100)], rules))
    fine = Schema([Column("x", 0, 100, decimals=6)], rules)
    assert keeps(fine, witness(fine)).all()


# Times


@pytest.mark.parametrize(("lower", "upper", "expected"), [
    ("2024-01-01", "2024-12-31", "day"), (datetime.date(2024, 1, 1), datetime.date(2024, 1, 3), "day"),
    ("2024-01-01T00:00", "2024-12-31T23:00", "hour"), ("2013-01-01T05:00:00", "2013-12-31", "hour"),
    ("2024-01-01T00:00", "2024-12-31T23:59", "minute"), ("2024-01-01T08:00", "2024-01-01T18:00", "minute"),
    ("2024-01-01T00:00", "2024-12-31T23:59:59", "second"), ("2024-01-01T00:00", "2024-01-01T00:01", "second"),
    ("2024-01-01T00:00", "2025-01-01T00:00", "second"),
    (pd.Timestamp("2024-01-01"), pd.Timestamp("2025-01-01"), "second"),
    ("2024-01-01T00:00:00.5", "2024-12-31T23:00", "second")])
def test_the_form_of_the_bounds_says_how_fine_times_are(lower, upper, expected):
    assert Column("t", lower, upper, "datetime").resolution == expected


@pytest.mark.parametrize(("resolution", "unit"), [("day", "D"), ("hour", "h"), ("minute", "m"), ("second", "s")])
@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame])
def test_times_come_back_whole_in_their_resolution(resolution, unit, make):
    column = Column("t", "1969-12-01", "1970-03-31", "datetime", resolution=resolution, missing="keep")
    seconds = np.random.default_rng(0).integers(-30 * 86_400, 90 * 86_400, 200)
    times = seconds.astype("datetime64[s]")
    schema = Schema([column])
    points = schema.to_cube(make({"t": times.astype("datetime64[ms]")}))
    expected = times.astype(f"datetime64[{unit}]")
    np.testing.assert_array_equal(schema.decode(points)["t"], expected)
    assert schema.holds({"t": times}).all()
    # Any other point is a whole one too, between the bounds.
    loose = np.zeros((300, schema.domain.d))
    loose[:, 0] = DRAWN
    found = schema.decode(loose)["t"]
    assert (found == found.astype(f"datetime64[{unit}]")).all()
    assert found.dtype == ("datetime64[D]" if unit == "D" else "datetime64[s]")
    assert found.min() >= np.datetime64("1969-12-01")
    assert found.max() < np.datetime64("1970-04-01")


def test_a_date_as_upper_bound_is_the_whole_day():
    for resolution, last in (("day", "2024-12-31"), ("hour", "2024-12-31T23:00:00"), ("minute", "2024-12-31T23:59:00"),
                             ("second", "2024-12-31T23:59:59")):
        column = Column("t", "2024-01-01", "2024-12-31", "datetime", resolution=resolution)
        schema = Schema([column])
        assert schema.decode(np.array([[1.0]]))["t"] == np.datetime64(last)
        assert Column.from_dict(json.loads(json.dumps(column.to_dict()))) == column
    assert Column("t", "2024-01-01T07:30", "2024-12-31T07:30", "datetime", resolution="day").upper == datetime.date(
        2024, 12, 31)


def test_whole_hours_have_levels_and_come_back_whole_from_a_release():
    rng = np.random.default_rng(0)
    start = np.datetime64("2013-01-01T05", "h")
    table = pd.DataFrame({"t": (start + rng.integers(0, 700, 500)).astype("M8[s]")})
    schema = Schema([Column("t", "2013-01-01T05:00", "2013-01-31T23:00", "datetime")])
    assert len(schema.domain.levels_of(0)) == 30 * 24 + 19
    made = tm.synthesize(table, schema, tm.Budget(2.0, 1e-6), tm.TableMechanism(points=64), rng=rng)
    sample = made.sample(300, rng)["t"]
    assert (sample.dt.minute == 0).all()
    assert (sample.dt.second == 0).all()
    assert sample.dt.hour.nunique() > 12


def test_special_values_say_too_how_fine_times_are():
    for special, expected in (("2024-02-03T07:00", "hour"), ("2024-02-03T07:30", "minute"),
                              ("1900-01-01T00:00:09", "second")):
        column = Column("t", "2024-01-01T05:00", "2024-12-31T23:00", "datetime", special=[special])
        assert column.resolution == expected
        assert Column.from_dict(column.to_dict()) == column
        again = Schema.from_dict({"columns": [{key: value for key, value in column.to_dict().items()
                                               if key != "resolution"}]})
        assert again.columns[0].resolution == "second"


def test_releases_that_say_no_resolution_have_the_one_of_their_time():
    plain = Schema([Column("t", "2024-01-01T05:00", "2024-12-31T23:00", "datetime"),
                    Column("day", "2024-01-01", "2024-12-31", "datetime")]).to_dict()
    assert [column["resolution"] for column in plain["columns"]] == ["hour", "day"]
    older = [{key: value for key, value in column.items() if key != "resolution"} for column in plain["columns"]]
    assert [column.resolution for column in Schema.from_dict({"columns": older}).columns] == ["second", "day"]


def test_constraints_compare_hours():
    schema = Schema([Column("from", "2024-01-01", "2024-01-05", "datetime", resolution="hour"),
                     Column("to", "2024-01-01", "2024-01-05", "datetime", resolution="minute"),
                     Column("day", "2024-01-01", "2024-01-05", "datetime")],
                    ['"from" < "to"', 'day <= "from"', '"from" >= 2024-01-02', '"to" <= 2024-01-04T12:30:00'])
    point = witness(schema)
    assert keeps(schema, point).all()
    with pytest.raises(InputError, match="no row can satisfy"):
        Schema(schema.columns, ['"from" > 2024-01-02T03:00:00', '"from" < 2024-01-02T04:00:00'])
    assert "2024-01-02" in stated(schema.columns[0], "2024-01-02")


def test_reports_write_hours_as_hours():
    column = Column("t", "2024-01-01", "2024-01-05", "datetime", resolution="hour")
    assert unit_text(column, column.number(datetime.datetime(2024, 1, 2, 5))) == "2024-01-02 05:00"
    schema = Schema([column])
    numbers = values_of(schema, schema.to_cube([[datetime.datetime(2024, 1, 2, 5, 40)]]))[0].numbers
    assert unit_text(column, float(numbers[0])) == "2024-01-02 05:00"


@pytest.mark.parametrize(("options", "message"), [
    ({"lower": "2020-01-01", "upper": "2021-01-01", "resolution": "week"}, "resolution must be one of"),
    ({"lower": "2020-01-01", "upper": "2020-01-01", "resolution": "hour", "special": ["2020-01-01T05:30"]},
     "whole hours"),
    ({"lower": "2020-01-01T05:10", "upper": "2020-01-01T05:50", "resolution": "hour"}, "at least an hour before"),
    ({"lower": "2020-01-01", "upper": "2020-01-01"}, "at least a day before"),
    ({"lower": 0, "upper": 1, "kind": "integer", "resolution": "day"}, "resolution is for the kind datetime")])
def test_resolutions_that_break_a_rule_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        Column("t", **{"kind": "datetime"} | options)


@pytest.mark.parametrize("column", [Column("a", 1, 1e6, transform="log"), Column("a", -3, 500, transform="log1p")])
def test_transformed_numbers_are_shortened_by_no_more_than_their_rounding(column, monkeypatch):
    asked = []
    monkeypatch.setattr(encoding, "shortened", lambda values, error: asked.append((values, error)) or values)
    encoding.number_at(column, np.linspace(-0.9, 0.9, 7))
    # The last: places are shortened before, by an error of their own.
    values, error = asked[-1]
    # Rounding of the logarithm, which the exponential multiplies by the number (or the number above log1p's start).
    ends = [math.log(bound) if column.transform == "log" else math.log1p(bound - column.lower)
            for bound in column.bounds]
    own = values if column.transform == "log" else values - column.lower + 1.0
    np.testing.assert_allclose(error, 2.0**-49 * (np.abs(values) + max(map(abs, ends)) * own), rtol=1e-12)


@pytest.mark.parametrize(("cell", "place"), [
    ("10", 1), (" 10.0 ", 1), ("1e1", 1), ("1_0", None), ("2", 0), ("x", None)])
def test_text_is_a_category_of_numbers_only_in_the_form_of_a_number(cell, place):
    column = Column("a", kind="categorical", categories=(2, 10))
    try:
        found = encoding._found(column, {2: 0, 10: 1}, cell)
    except ValueError:
        found = None
    assert found == place
