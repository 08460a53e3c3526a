"""Between which numbers an aggregate of a question in SQL can lie."""

import json
import math

import numpy as np
import pandas as pd
import pytest

import trigmech as tm
from trigmech.inference.sql import ask
from trigmech.inference.sql_ranges import ANY, column_range, range_of

duckdb = pytest.importorskip("duckdb")

COLUMNS = {column.name.lower(): column for column in (
    tm.Column("days", 0, 24, "integer", special=(-1,)), tm.Column("Gain", -5, 20), tm.Column("sick", 0, 1, "binary"),
    tm.Column("rooms", kind="categorical", categories=[2, 3, 7]),
    tm.Column("ward", kind="categorical", categories=["a", "b"]),
    tm.Column("born", "1980-01-01", "1999-12-31", "datetime"),
    tm.Column("income", kind="continuous", private_bounds=True))}
N = 500
CONNECTION = duckdb.connect()


def ranged(expression):
    tree = json.loads(CONNECTION.execute("select json_serialize_sql(?)", [f"select {expression} from release"])
                      .fetchone()[0])
    return range_of(tree["statements"][0]["node"]["select_list"][0], COLUMNS, N)


@pytest.mark.parametrize(("expression", "found"), [
    ("avg(days)", (-1, 24)), ("avg(GAIN)", (-5, 20)), ("median(gain)", (-5, 20)),
    ("quantile_cont(gain, 0.9)", (-5, 20)), ("avg(rooms)", (2, 7)), ("avg(sick)", (0, 1)), ("avg(-gain)", (-20, 5)),
    ("avg(+gain)", (-5, 20)), ("avg(gain + days)", (-6, 44)), ("avg(gain - days)", (-29, 21)),
    ("avg(gain * days)", (-120, 480)), ("avg(2 * gain - 1.5)", (-11.5, 38.5)), ("avg(gain / 2)", (-2.5, 10)),
    ("avg(gain / -2)", (-10, 2.5)), ("100 * avg((gain > 3)::int)", (0, 100)),
    ("avg(case when gain > 3 then 1 else 0 end)", (0, 1)), ("avg(case when gain > 3 then days end)", (-1, 24)),
    ("avg(case when gain > 3 then 7 when sick = 1 then -2 end)", (-2, 7)),
    ("avg((gain between 1 and 2)::double)", (0, 1)), ("avg((gain is null or not (sick = 1))::int)", (0, 1)),
    ("avg((ward in ('a'))::int)", (0, 1)), ("avg(coalesce(gain, 30))", (-5, 30)),
    ("avg(cast(gain / 8 as int))", (-1, 3)), ("sum(days)", (-N, 24 * N)), ("sum(rooms)", (0, 7 * N)),
    ("sum(gain) filter (where gain > 3)", (-5 * N, 20 * N)), ("sum(gain) / 500", (-5, 20)), ("count(*)", (0, N)),
    ("count(gain)", (0, N)), ("count_if(gain > 3)", (0, N)), ("1 - count(*)", (1 - N, 1)),
    ("stddev(gain)", (0, math.inf)), ("var_pop(gain)", (0, math.inf)), ("corr(gain, days)", (-1, 1)),
    ("regr_r2(gain, days)", (0, 1)), ("-stddev(gain)", (-math.inf, 0)), ("avg(0 * income)", (0, 0)),
    ("avg(1e3)", (1e3, 1e3)), ("avg(true::int)", (0, 1))])
def test_the_range_of_an_expression_is_found_by_its_parts(expression, found):
    np.testing.assert_allclose(ranged(expression), found, rtol=1e-12)


@pytest.mark.parametrize("expression", [
    "avg(income)", "avg(ln(days))", "avg(gain % 3)", "avg(days // 2)", "avg(gain / days)", "avg(gain / 0)",
    "avg(1 / gain)", "regr_slope(gain, days)", "skewness(gain)", "avg(epoch(born))", "avg(length(ward))",
    "avg(ward::int)", "avg(gain ** 2)", "avg(gain + income)", "avg('3'::double)", "avg(null)", "avg(unknown)",
    "avg(born::varchar::int)"])
def test_what_is_not_known_can_have_any_value(expression):
    assert ranged(expression) == ANY


def test_no_rows_give_a_value_beyond_the_range():
    rng = np.random.default_rng(0)
    ends = [0.0, -5.0, 20.0, 24.0, -1.0, 2.0, 7.0]
    for _ in range(300):
        atoms = ["gain", "days", "rooms", "sick", "(gain > 3)", "(sick = 1 and days > 3)", "null",
                 str(rng.choice(ends))]
        made = [f"cast({each} as double)" if "(" in each else each for each in rng.choice(atoms, 4)]
        while len(made) > 1:
            one, other = made.pop(), made.pop()
            made.append(str(rng.choice([f"({one} + {other})", f"({one} - {other})", f"({one} * {other})", f"(-{one})",
                                        f"coalesce({one}, {other})", f"({one} / 4.0)",
                                        f"(case when days > 9 then {one} else {other} end)",
                                        f"cast({one} as bigint)"])))
        low, high = ranged(f"avg({made[0]})")
        rows = pd.DataFrame({  # noqa: F841 - DuckDB reads it by its name
            "gain": rng.choice([-5.0, 20.0, 3.3, None], 64), "days": rng.choice([-1, 0, 24, 7], 64),
            "rooms": rng.choice([2, 3, 7], 64), "sick": rng.choice([0, 1], 64)}).astype({"gain": "Float64"})
        found = CONNECTION.execute(f"select ({made[0]})::double from rows").fetchall()
        values = [each for each, in found if each is not None]
        slack = 1e-9 * max(map(abs, values), default=0.0)
        assert all(low - slack <= each <= high + slack for each in values), made


def test_older_trees_of_duckdb_are_read():
    column = {"class": "COLUMN_REF", "type": "COLUMN_REF", "column_names": ["release", "gain"]}
    constant = {"class": "CONSTANT", "value": {"type": {"id": "INTEGER"}, "is_null": False, "value": 2}}
    decimal = {"id": "DECIMAL", "type_info": {"scale": 1}}
    tenth = {"class": "CONSTANT", "value": {"type": decimal, "is_null": False, "value": 1}}
    nothing = {"class": "CONSTANT", "value": {"type": {"id": "NULL"}, "is_null": True}}

    def called(name, *children):
        return {"class": "FUNCTION", "type": "FUNCTION", "function_name": name, "children": list(children)}

    assert range_of(called("avg", called("*", constant, column)), COLUMNS, N) == (-10, 40)
    assert range_of(called("avg", called("*", tenth, column)), COLUMNS, N) == ANY
    assert range_of(called("avg", nothing), COLUMNS, N) == ANY
    # An operator without a name, which this package does not know.
    assert range_of({"class": "OPERATOR", "type": "OPERATOR_OTHER", "children": [column]}, COLUMNS, N) == ANY
    cast = {"class": "CAST", "child": called("/", column, constant), "cast_type": {"id": "INTEGER"}}
    assert range_of(called("avg", cast), COLUMNS, N) == (-3, 10)


def test_the_range_of_a_column_has_its_special_values_and_numeric_categories():
    assert column_range(COLUMNS["days"]) == (-1, 24)
    assert column_range(COLUMNS["rooms"]) == (2, 7)
    for name in ("ward", "born", "income"):
        assert column_range(COLUMNS[name]) == ANY


@pytest.fixture(scope="module")
def made():
    rng = np.random.default_rng(0)
    n = 400
    days = np.where(rng.random(n) < 0.9, 0, rng.integers(1, 25, n))
    table = pd.DataFrame({"days": days, "gain": rng.normal(1.2, 4.0, n),
                          "ward": rng.choice(["a", "b", "c"], n, p=[0.7, 0.25, 0.05])})
    schema = tm.Schema([tm.Column("days", 0, 24, "integer"), tm.Column("gain", -20, 20),
                        tm.Column("ward", kind="categorical", categories=["a", "b", "c"])])
    return tm.synthesize(table, schema, tm.Budget(1.0, 1e-6), rng=rng).imputations(10, rng=rng)


def test_intervals_end_where_no_value_can_lie(made):
    """The mean of 0 to 24 days was said to lie between -5.8 and 12.3, and a share between -.4 and 1.1."""
    answer = ask(made, "select ward, avg(days) as mean, stddev(days) as spread, corr(days, gain) as r, sum(days) as "
                 "total, avg(case when days > 0 then 1 else 0 end) as share, count(*) as n from release group by ward")
    for name, low, high in (("mean", 0, 24), ("spread", 0, math.inf), ("r", -1, 1), ("total", 0, 24 * 400),
                            ("share", 0, 1), ("n", 0, 400)):
        told = np.isfinite(answer.low[name])
        assert told[0]
        assert (answer.low[name][told] >= low).all()
        assert (answer.high[name][told] <= high).all()
        assert (answer.low[name][told] <= answer.values[name][told]).all()
        assert (answer.values[name][told] <= answer.high[name][told]).all()
    # It is the end, not only a bound of it.
    assert (answer.low["mean"] == 0.0).sum() == np.isfinite(answer.low["mean"]).sum() > 0


def test_a_sum_that_can_be_below_0_has_an_interval_that_reaches_there(made):
    """It ended at 0 if all imputed sums were positive, although the true sum can be negative."""
    answer = ask(made, "select sum(gain) as total, 400 * avg(gain) as mean from release")
    assert answer.low["total"][0] == pytest.approx(answer.low["mean"][0])
    assert answer.low["total"][0] < 0.0 < answer.values["total"][0]
