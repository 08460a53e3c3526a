"""Derived columns: computed by a public formula, never measured, and refused where they could have no value."""

import copy
import math
import operator
import pickle
import sys

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import trigmech as tm
from trigmech.cli.app import main
from trigmech.errors import InputError
from trigmech.measurement import private_bounds
from trigmech.schema import formula as formula_module
from trigmech.schema import toml as schema_file
from trigmech.schema.derived import Derived
from trigmech.schema.formula import parse, range_of
from trigmech.schema.lookup import Lookup, read_lookup

COLUMNS = [tm.Column("a", 0, 10, "integer"), tm.Column("b", -3, 5, decimals=1), tm.Column("c", 1, 4),
           tm.Column("kept", 2, 9, missing="keep"), tm.Column("sale price", 1, 100, special=(0,)),
           tm.Column("born", "1990-01-01", "2020-12-31", "datetime"),
           tm.Column("seen", "2020-01-01 00:00", "2021-12-31 23:59", "datetime", resolution="minute"),
           tm.Column("region", kind="categorical", categories=("north", "south")),
           tm.Column("grade", kind="ordinal", categories=(1, 2, 4)),
           tm.Column("smokes", kind="categorical", categories=(True, False)),
           tm.Column("wide", kind="continuous", private_bounds=True)]
RANGES = {column.name: range_of(column) for column in COLUMNS}
ROUTES = Lookup("routes.csv", (("north", 1, 12.5), ("south", 1, 40.0), ("south", 2, None)))


def values(m=50):
    rng = np.random.default_rng(0)
    return {"a": rng.integers(0, 11, m), "b": np.round(rng.uniform(-3, 5, m), 1), "c": rng.uniform(1, 4, m),
            "kept": np.ma.MaskedArray(rng.uniform(2, 9, m), rng.random(m) < 0.3),
            "sale price": np.where(rng.random(m) < 0.2, 0.0, rng.uniform(1, 100, m)),
            "born": np.datetime64("1990-01-01") + rng.integers(0, 11_000, m),
            "seen": np.datetime64("2020-01-01T00:00:00") + 60 * rng.integers(0, 1_000_000, m),
            "region": rng.choice(np.array(["north", "south"], dtype=object), m), "grade": rng.choice([1, 2, 4], m)}


def result(formula, tables=None):
    return parse("z", formula, RANGES, tables or {}).values(values())


# Formulas of numbers, and what they mean in plain Python.
LEAVES = st.sampled_from([("a", "a"), ("b", "b"), ("c", "c"), ("`sale price`", "p"), ("2", "2"), ("0.5", "0.5"),
                          ("-1", "-1"), ("grade", "g")])
PLAIN = {"abs": abs, "floor": math.floor, "ceil": math.ceil, "sqrt": math.sqrt, "log": math.log, "exp": math.exp,
         "min": min, "max": max, "operator": operator}


def joined(part):
    two = st.tuples(part, part)
    return st.one_of(
        st.tuples(st.sampled_from(["+", "-", "*", "/", "//", "%"]), two).map(
            lambda drawn: tuple(f"({one}) {drawn[0]} ({other})" for one, other in zip(*drawn[1], strict=True))),
        st.tuples(st.sampled_from(["min", "max"]), two).map(
            lambda drawn: tuple(f"{drawn[0]}({one}, {other})" for one, other in zip(*drawn[1], strict=True))),
        st.tuples(st.sampled_from(["abs", "floor", "ceil", "sqrt", "log", "exp", "-"]), part).map(
            lambda drawn: tuple(f"{drawn[0]}({one})" for one in drawn[1])),
        part.map(lambda drawn: tuple(f"({one}) ** 2" for one in drawn)))


@settings(max_examples=400, derandomize=True, deadline=None, database=None)
@given(st.recursive(LEAVES, joined, max_leaves=6))
def test_a_formula_is_what_python_would_compute_and_stays_in_its_range_or_it_is_refused(drawn):
    text, plain = drawn
    try:
        formula = parse("z", text, RANGES, {})
    except InputError:
        return
    held = values()
    found = np.broadcast_to(formula.values(held), 50)
    assert not np.ma.getmaskarray(found).any()
    for i in range(50):
        own = {"a": int(held["a"][i]), "b": float(held["b"][i]), "c": float(held["c"][i]),
               "p": float(held["sale price"][i]), "g": int(held["grade"][i])}
        wanted = float(eval(plain, {**PLAIN, **own}))
        assert found[i] == pytest.approx(wanted, rel=1e-9, abs=1e-9)
        slack = 1e-9 * (1.0 + abs(wanted))
        assert formula.range.low - slack <= found[i] <= formula.range.high + slack
        assert not formula.range.whole or found[i] == round(found[i])


@pytest.mark.parametrize(("formula", "plain"), [
    ("seen - born", lambda v: (v["seen"] - v["born"].astype("M8[s]")).astype(float) / 86_400),
    ("year(born)", lambda v: pd.DatetimeIndex(v["born"]).year),
    ("month(born)", lambda v: pd.DatetimeIndex(v["born"]).month),
    ("day(born)", lambda v: pd.DatetimeIndex(v["born"]).day),
    ("hour(seen)", lambda v: pd.DatetimeIndex(v["seen"]).hour),
    ("minute(seen)", lambda v: pd.DatetimeIndex(v["seen"]).minute),
    ("weekday(seen)", lambda v: pd.DatetimeIndex(v["seen"]).day_of_week + 1),
    ("round(c, 2)", lambda v: np.round(v["c"], 2)), ("round(b)", lambda v: np.rint(v["b"])),
    ("max(a, b, 3)", lambda v: np.maximum(np.maximum(v["a"], v["b"]), 3)),
    ("a ** 3 - 1", lambda v: v["a"] ** 3 - 1.0), ("-a", lambda v: -v["a"])])
def test_parts_of_times_and_functions_of_several_numbers(formula, plain):
    found, known = result(formula), parse("z", formula, RANGES, {}).range
    np.testing.assert_allclose(found, np.asarray(plain(values()), dtype=float), atol=1e-9)
    assert known.low - 1e-9 <= found.min() <= found.max() <= known.high + 1e-9
    assert not known.whole or (found == np.rint(found)).all()


def test_what_is_missing_makes_the_result_missing():
    held = values()
    for formula in ("kept + a", "a - kept", "max(a, kept)", "kept % 3", "abs(kept)"):
        found = parse("z", formula, RANGES, {}).values(held)
        np.testing.assert_array_equal(np.ma.getmaskarray(found), np.ma.getmaskarray(held["kept"]))


def test_lookups_find_the_row_of_several_keys():
    held = values()
    found = result('lookup("routes.csv", region, min(a, 3))', {"routes.csv": ROUTES})
    wanted = {(row[0], row[1]): row[2] for row in ROUTES.rows}
    for region, a, own, absent in zip(held["region"], held["a"], np.ma.getdata(found), np.ma.getmaskarray(found),
                                      strict=True):
        there = wanted.get((region, min(a, 3)))
        assert absent == (there is None)
        assert absent or own == there
    assert {True, False} == set(np.ma.getmaskarray(found).tolist())
    # Names of columns may stand in quotes, as in other tools.
    np.testing.assert_array_equal(result('lookup("routes.csv", "region", "grade")', {"routes.csv": ROUTES}),
                                  result("lookup('routes.csv', region, grade)", {"routes.csv": ROUTES}))
    words = Lookup("words", (("north", "N"), ("south", "")))
    found = result('lookup("words", region)', {"words": words})
    assert found.dtype == object
    np.testing.assert_array_equal(np.ma.getmaskarray(found), held["region"] == "south")
    assert set(found.compressed()) == {"N"}


WRONG = {
    "": "must be text", "a +": "not a formula", "a + nothing": "no column 'nothing'", "a / a": "divide by 0",
    "b // (a - 3)": "divide by 0", "a % b": "divide by 0", "1 / `sale price`": "divide by 0", "a / wide": "divide by 0",
    "sqrt(b)": "at least 0", "log(a)": "above 0", "exp(exp(exp(a)))": "too large", "a ** b": "exponent",
    "a ** 99": "exponent", "9e999 + a": "too large", "region + 1": "needs numbers", "born": "it is a time",
    "born + 1": "needs numbers", "year(a)": "needs times", "abs(region)": "needs numbers",
    "a if b else c": "only columns", "a < b": "only columns",
    "__import__('os').system('true')": "the functions are", "a.real": "only columns",
    "(lambda: a)()": "the functions are", "[a for a in b]": "only columns", "open(a)": "the functions are",
    "f'{a}'": "only columns", "'text'": "no number", "True + a": "no number", "abs()": "takes 1",
    "min(a)": "takes 2 or more", "round(a, b)": "whole number of digits", "round(a, 1, 2)": "takes 1 or 2",
    "max(a, *b)": "the functions are", "round(a, digits=1)": "the functions are", "abs": "needs parentheses",
    "lookup(a)": "write lookup", "lookup('nowhere', a)": "cannot read the table",
    "lookup('routes.csv', a)": "2 column(s)",
    "lookup('routes.csv', a, a)": "holds text where numbers", "smokes * 2": "needs numbers", "`a": "not a formula",
    "(" * 300 + "a" + ")" * 300: "not a formula", "-" * 400 + "a": "nested", "a" * 2_000: "characters",
    "a\0": "not a formula",
    "a; b": "not a formula", "a := 3": "not a formula", "3 + 4": "reads no column", "'%s' % a": "no number"}


@pytest.mark.parametrize("formula", WRONG)
def test_wrong_formulas_get_one_line_that_says_why(formula):
    tables = {"routes.csv": ROUTES} if "routes" in formula else ()
    with pytest.raises(InputError) as found:
        tm.Schema(COLUMNS, derived=[Derived("z", formula, tables=tables)])
    said = str(found.value)
    assert "\n" not in said
    assert len(said) < 700
    assert WRONG[formula] in said


@settings(max_examples=120, derandomize=True, deadline=None, database=None)
@given(st.text(st.sampled_from(list("ab()+-*/%.,`'\" 012ewlookup_[]{}:=!\\@\n\t#"))) | st.text())
def test_any_text_is_a_formula_or_is_refused_in_one_line(text):
    said = ""
    try:
        made = tm.Schema(COLUMNS, derived={"z": text}).with_bounds({"wide": (0.0, 1.0)})
    except InputError as problem:
        said = str(problem)
    assert "\n" not in said
    if not said:
        assert len(made.completed(made.decode(np.zeros((2, made.width))))["z"]) == 2


@pytest.mark.parametrize(("derived", "rule"), [
    ({"x": "y + 1", "y": "x + 1"}, "in a circle"), ({"x": "x + 1"}, "in a circle"),
    ({"a": "b + 1"}, "given twice: 'a'"),
    ({"": "a"}, "non-empty"), ([3], "it holds 3"), ("a + b", "must be a list"), ({"who": "a"}, "given twice: 'who'"),
    ([Derived("x", "a"), Derived("x", "b")], "given twice: 'x'"), ([Derived("x", "a", after="no")], "after names 'no'"),
    ([Derived("x", "a", after="x")], "after names 'x'")])
def test_wrong_lists_of_derived_columns_are_refused(derived, rule):
    with pytest.raises(InputError, match=rule) as found:
        tm.Schema(COLUMNS, person="who", derived=derived)
    assert "\n" not in str(found.value)


ARGUMENTS = {"min": "a, c", "max": "a, c", "lookup": '"lookup", grade', **dict.fromkeys(formula_module.PARTS, "seen")}


@pytest.mark.parametrize("function", formula_module.FUNCTIONS)
def test_a_derived_column_may_have_the_name_of_a_function_that_it_calls(function):
    tables = {"lookup": Lookup("lookup", ((1, 10.0), (2, 20.0), (4, 40.0)))} if function == "lookup" else ()
    formula = f"{function}({ARGUMENTS.get(function, 'c')})"
    made = tm.Schema(COLUMNS, derived=[Derived("next", f"{function} + 1"), Derived(function, formula, tables=tables)])
    points = made.with_bounds({"wide": (0.0, 1.0)}).decode(np.zeros((2, made.width)))
    found = made.with_bounds({"wide": (0.0, 1.0)}).completed(points)
    due = np.ma.getdata(parse(function, formula, RANGES, dict(tables)).values(points)).astype(float)
    assert np.allclose(np.ma.getdata(found[function]), due, atol=0.01)
    assert np.allclose(np.ma.getdata(found["next"]), due + 1, atol=0.01)
    with pytest.raises(InputError, match="in a circle: 'next' -> "):
        tm.Schema(COLUMNS, derived=[Derived("next", f"{function} + 1"),
                                    Derived(function, f"{formula} + next", tables=tables)])


@pytest.mark.parametrize(("options", "rule"), [
    ({"decimals": -1}, "decimals"), ({"decimals": 2.0}, "decimals"), ({"decimals": True}, "decimals"),
    ({"after": 3}, "after must be"), ({"tables": [1]}, "tables must be"),
    ({"tables": {"t": []}}, "does not look up 't'")])
def test_wrong_options_are_refused(options, rule):
    with pytest.raises(InputError, match=rule):
        Derived("x", "a", **options)


@pytest.mark.parametrize(("rows", "rule"), [
    ([], "from 1 to"), ([[1]], "at least one key"), ([[1, 2], [1, 2, 3]], "one length"),
    ([["a", 1], [2, 1]], "column 1"), ([[None, 1]], "column 1"), ([[1, "a"], [2, 3]], "column 2"),
    ([[1, 2], [1, 3]], "different results"),
    ([[1, math.nan]], "finite"), ([[1, True]], "finite"), ("ab", "list of rows"), ([1, 2], "at least one key")])
def test_wrong_public_tables_are_refused(rows, rule):
    with pytest.raises(InputError, match=rule):
        Lookup("t", rows)


def test_public_tables_are_read_from_files(tmp_path):
    (tmp_path / "t.csv").write_text("key,code,name\n1,007,one\n2,x,\n\n", encoding="utf-8-sig")
    assert read_lookup("t.csv", tmp_path).rows == ((1, "007", "one"), (2, "x", None))
    for content, rule in ((b"\xff\xfe\xff", "UTF-8"), (b'key,"a\n1,"2', "not a CSV"), (b"a,b\n", "from 1 to"),
                          (b"a,b\n1,2\n1,2,3\n", "one length")):
        (tmp_path / "bad.csv").write_bytes(content)
        with pytest.raises(InputError, match=rule):
            read_lookup("bad.csv", tmp_path)
    with pytest.raises(InputError, match="cannot read"):
        read_lookup("none.csv", tmp_path)
    with pytest.raises(InputError, match="cannot read"):
        read_lookup("a\0b", tmp_path)


def small(derived=()):
    return tm.Schema([tm.Column("start", 0, 2_359, "integer"), tm.Column("region", kind="categorical",
                                                                          categories=("north", "south")),
                      tm.Column("before", 40, 120, decimals=1), tm.Column("after", 40, 120, decimals=1,
                                                                          missing="keep")], derived=derived)


DERIVED = [Derived("hour", "start // 100", after="start"), Derived("change", "after - before"),
           Derived("tax", "hour * rate", decimals=0, after="rate"),
           Derived("rate", 'lookup("rates", region)', after="hour", tables={"rates": [["north", 1.5], ["south", 2.0]]})]


def table(n=300):
    rng = np.random.default_rng(0)
    return pd.DataFrame({"start": rng.integers(0, 2_360, n), "region": rng.choice(["north", "south"], n),
                         "before": rng.uniform(50, 90, n).round(1),
                         "after": np.where(rng.random(n) < 0.2, np.nan, rng.uniform(50, 90, n).round(1)),
                         "hour": "not looked at", "extra": 1})


def release(derived=DERIVED):
    return tm.synthesize(table(), small(derived), tm.Budget(1.0, 1e-5), rng=np.random.default_rng(1))


def test_synthetic_tables_have_them_in_order_and_exactly():
    made = release()
    frame = made.sample(400, np.random.default_rng(0))
    assert list(frame) == ["start", "hour", "rate", "tax", "region", "before", "after", "change"]
    assert list(frame) == list(made.schema.table_names)
    assert (frame.hour == frame.start // 100).all()
    assert (frame.rate == frame.region.map({"north": 1.5, "south": 2.0})).all()
    assert (frame.tax == (frame.hour * frame.rate).round()).all()
    # Rounded as numbers between -80 and 80 are.
    pd.testing.assert_series_equal(frame.change, (frame.after - frame.before).round(2), check_names=False)
    assert frame.change.isna().any()
    assert made.expect(lambda held: held["hour"], "table") == pytest.approx(made.columns(
        len(made.distribution.points))["hour"].mean(), abs=0.3)
    bars = made.error_bars(lambda held: np.mean(held["hour"] < 12))
    assert 0.0 < bars.values < 1.0
    assert bars.error.bound > 0.0


def test_they_cost_nothing_and_the_release_does_not_depend_on_them():
    with_them, without = release(), release(())
    np.testing.assert_array_equal(with_them.release.means, without.release.means)
    assert with_them.ledger.to_dict()["charges"] == without.ledger.to_dict()["charges"]
    np.testing.assert_array_equal(with_them.distribution.points, without.distribution.points)


def test_releases_and_files_hold_them(tmp_path):
    made = release()
    made.save(tmp_path / "r.tm")
    loaded = tm.load(tmp_path / "r.tm")
    assert loaded.schema == made.schema
    pd.testing.assert_frame_equal(*(each.sample(50, np.random.default_rng(0)) for each in (loaded, made)))
    assert tm.Schema.from_dict(made.schema.to_dict()) == made.schema
    schema_file.save(tmp_path / "s.toml", made.schema)
    again = tm.load_schema(tmp_path / "s.toml")
    assert again.table_names == made.schema.table_names
    assert list(again.completed(again.decode(np.zeros((2, again.width))))) == list(again.table_names)
    assert "derived" in repr(made.schema)
    assert "start // 100" in made.schema._repr_html_()
    with pytest.raises(InputError, match="nothing else"):
        tm.Schema.from_dict(made.schema.to_dict() | {"derived": [{"name": "x", "formula": "start", "code": 1}]})


def test_private_bounds_and_categories_keep_them():
    schema = tm.Schema([tm.Column("x", private_bounds=True), tm.Column("c", kind="categorical", categories="private")],
                       derived=[Derived("twice", "2 * x"),
                                Derived("name", 'lookup("t", c)', tables={"t": [["a", "A"]]})])
    done = schema.with_bounds({"x": (0.0, 1.0)}).with_categories({"c": ("a", "b")})
    assert done.derived == schema.derived
    held = done.completed(done.decode(np.random.default_rng(0).uniform(-1, 1, (20, done.width))))
    np.testing.assert_allclose(held["twice"], 2 * held["x"], atol=1e-4)
    assert (held["name"].compressed() == "A").all()


TOML = """
[columns.start]
kind = "integer"
lower = 0
upper = 2359
[columns.hour]
derived = "start // 100"
[columns.region]
kind = "categorical"
categories = ["north", "south"]
[columns.rate]
derived = 'lookup("rates.csv", region)'
decimals = 2
"""


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")

    def call(*words):
        monkeypatch.setattr(sys, "argv", ["trigmech", *map(str, words)])
        with pytest.raises(SystemExit) as ending:
            main()
        return ending.value.code or 0, *capsys.readouterr()

    return call


def test_by_the_command_line(run, tmp_path):
    (tmp_path / "public").mkdir()
    (tmp_path / "public" / "s.toml").write_text(TOML)
    (tmp_path / "public" / "rates.csv").write_text("region,rate\nnorth,1.25\nsouth,2\n")
    table().to_csv(tmp_path / "data.csv", index=False)
    status, said, _ = run("schema", "check", "public/s.toml")
    assert (status, "derived: hour = start // 100" in said) == (0, True)
    status, _, said = run("release", "data.csv", "--schema", "public/s.toml", "--epsilon", 1, "--delta", 1e-5,
                          "--out", "r.tm", "--csv", "r.csv")
    assert status == 0, said
    made = pd.read_csv(tmp_path / "r.csv")
    assert list(made) == ["start", "hour", "region", "rate"]
    assert (made.hour == made.start // 100).all()
    assert (made.rate == made.region.map({"north": 1.25, "south": 2.0})).all()
    # The release holds the public table.
    (tmp_path / "public" / "rates.csv").unlink()
    assert run("sample", "r.tm", "--rows", 30, "--out", "more.csv")[0] == 0
    assert list(pd.read_csv(tmp_path / "more.csv")) == list(made)
    status, _, said = run("release", "data.csv", "--schema", "public/s.toml", "--epsilon", 1, "--out", "s.tm",
                          "--ledger", "l.json")
    assert (status, "rates.csv" in said, (tmp_path / "l.json").exists()) == (2, True, False)


@pytest.mark.parametrize(("change", "rule"), [
    (('derived = "start // 100"', 'derived = "start // 100"\nkind = "integer"'), "remove the option 'kind'"),
    (('derived = "start // 100"', "derived = 3"), "must be text"),
    (('derived = "start // 100"', 'derived = "rate // 0"'), "divide by 0"),
    (("rates.csv", "none.csv"), "cannot read the table 'none.csv'"),
    (('kind = "integer"\nlower = 0\nupper = 2359', 'derived = "1"'), "reads no column|no column")])
def test_faults_in_a_file_are_listed(tmp_path, change, rule):
    (tmp_path / "s.toml").write_text(TOML.replace(*change))
    (tmp_path / "rates.csv").write_text("region,rate\nnorth,1.25\nsouth,2\n")
    with pytest.raises(InputError, match=rule):
        tm.load_schema(tmp_path / "s.toml")
    assert schema_file.check(tmp_path / "s.toml")


def test_pieces_of_a_table_are_of_one_type():
    derived = [Derived("rate", 'lookup("t", region)', tables={"t": [["north", 1]]})]
    schema = small(derived)
    for region in (0, 1):
        points = np.zeros((3, schema.width))
        points[:, 1 + region] = 1.0
        held = schema.completed(schema.decode(points))["rate"]
        assert isinstance(held, np.ma.MaskedArray)
        assert held.dtype == np.int64
        assert np.ma.getmaskarray(held).all() == bool(region)


@settings(max_examples=200, derandomize=True, deadline=None, database=None)
@given(st.recursive(st.sampled_from(["x", "y", "2", "0.5", "1e40", "-1"]), lambda part: st.one_of(
    st.tuples(part, st.sampled_from(["+", "-", "*", "/", "//", "%"]), part).map("({0[0]}) {0[1]} ({0[2]})".format),
    st.tuples(st.sampled_from(["abs", "floor", "sqrt", "log", "exp", "-", "round"]), part).map("{0[0]}({0[1]})".format),
    st.tuples(st.sampled_from(["min", "max"]), part, part).map("{0[0]}({0[1]}, {0[2]})".format),
    part.map("({}) ** 9".format)), max_leaves=5),
    st.lists(st.floats(-formula_module.LARGEST_FOUND, formula_module.LARGEST_FOUND), min_size=4, max_size=4))
def test_what_is_accepted_with_private_bounds_is_accepted_with_any_that_are_found(text, ends):
    (a, b), (c, d) = sorted(ends[:2]), sorted(ends[2:])
    if not (b - a > 1e-300 and d - c > 1e-300):
        return
    columns = [tm.Column(name, private_bounds=True) for name in "xy"]
    try:
        schema = tm.Schema(columns, derived={"z": text})
    except InputError:
        return
    # This is after the charge.
    found = schema.with_bounds({"x": (a, b), "y": (c, d)})
    points = np.random.default_rng(0).uniform(-1, 1, (20, 2))
    assert np.isfinite(found.completed(found.decode(points))["z"]).all()


def test_bounds_that_are_found_are_within_those_that_formulas_are_checked_for():
    for positive in (False, True):
        edges = private_bounds._coarse_edges(positive)
        # An integer's bound is the next whole number.
        assert np.abs(edges).max() + 1.0 <= formula_module.LARGEST_FOUND


def test_schemas_with_formulas_can_be_sent_to_workers(tmp_path):
    schema = small(DERIVED)
    for again in (pickle.loads(pickle.dumps(schema)), copy.deepcopy(schema)):
        assert again == schema
        assert list(again.completed(again.decode(np.zeros((2, again.width))))) == list(schema.table_names)
    rows = table()[["start", "region", "before", "after"]]
    rows.to_parquet(tmp_path / "t.parquet")
    made = tm.synthesize(tmp_path / "t.parquet", schema, tm.Budget(1.0, 1e-5), rng=np.random.default_rng(1),
                         engine="processes", workers=2)
    np.testing.assert_array_equal(made.release.means, release().release.means)


def test_digits_that_floats_do_not_have_are_not_made_up():
    schema = tm.Schema([tm.Column("x", -1e299, 1e299)],
                       derived=[Derived("y", "2 * x", 12), Derived("z", "x / 1e299", 3)])
    held = schema.completed(schema.decode(np.array([[0.9], [-0.3], [0.12345]])))
    np.testing.assert_array_equal(held["y"], 2.0 * held["x"])
    np.testing.assert_array_equal(held["z"], [0.9, -0.3, 0.123])


def test_columns_behind_the_same_one_stand_in_the_order_that_they_were_given_in():
    columns = [tm.Column("a", 0, 10), tm.Column("b", 0, 10)]
    schema = tm.Schema(columns, derived=[
        tm.Derived("one", "a + 1", after="a"), tm.Derived("two", "a + 2", after="a"),
        tm.Derived("last", "b + 1"), tm.Derived("three", "a + 3", after="one")])
    assert list(schema.table_names) == ["a", "one", "three", "two", "b", "last"]


def test_differences_of_times_have_the_digits_of_their_range():
    columns = [tm.Column("came", "2022-01-01 00:00", "2023-12-31 23:59", "datetime", resolution="minute"),
               tm.Column("left", "2024-01-02", "2024-03-31", "datetime", special=("2024-05-01",))]
    schema = tm.Schema(columns, derived={"stay": "left - came", "each": "1 / (left - came)", "when": "year(came) + "
                                         "month(came) / 12", "share": "year(left) / year(came)", "year": "year(came)"})
    came, left = np.array(["2022-01-01T10:48", "2023-12-31T23:59"], "M8[s]"), np.array(["2024-01-02", "2024-05-01"],
                                                                                       "M8[D]")
    found = schema.completed({"came": came, "left": left})
    np.testing.assert_allclose(found["stay"], [730.55, 121.0])
    np.testing.assert_allclose(found["when"], [2022.0833, 2024.0])
    np.testing.assert_allclose(found["each"], [0.00137, 0.00826], atol=1e-5)
    assert found["year"].tolist() == [2022, 2023]
    known = {name: formula.range for name, formula, _ in schema.completion.steps}
    assert (known["stay"].low, known["stay"].high) == pytest.approx((1.0 + 1.0 / 1440.0, 851.0))
    assert (known["year"].low, known["year"].high) == (2022.0, 2023.0)
    with pytest.raises(InputError, match="divide by 0"):
        tm.Schema([columns[0], tm.Column("left", "2023-12-31", "2024-03-31", "datetime")],
                  derived={"each": "1 / (left - came)"})
