"""Questions to a release: SQL and regressions over imputations, each with an interval, and copies for others."""

import json
import math
import os
import re
import subprocess
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm

import trigmech as tm
from trigmech.cli.app import main
from trigmech.cli.copies import page_of
from trigmech.inference import sql
from trigmech.inference.formula import parsed_formula
from trigmech.inference.regression import check_formula, fitted
from trigmech.inference.sql import ask, check_query

SCHEMA = tm.Schema([
    tm.Column("age", 0, 100, "integer"), tm.Column("pay", 0, 1000, missing="keep"), tm.Column("sick", 0, 1, "binary"),
    tm.Column("region", kind="categorical", categories=("north", "south", "west", "island")),
    tm.Column("smokes now", kind="categorical", categories=("no", "yes")),
    tm.Column("born", "1950-01-01", "2020-12-31", "datetime")],
    derived=[tm.Derived("decade", "10 * (age // 10)")])


def table(n, seed):
    rng = np.random.default_rng(seed)
    age = rng.normal(50, 15, n).clip(0, 100).round()
    return pd.DataFrame({
        "age": age, "pay": np.where(rng.random(n) < 0.1, np.nan, (age * 5 + rng.normal(0, 50, n)).clip(0, 1000)),
        "sick": (rng.random(n) < 0.2 + 0.005 * age).astype(int),
        "region": rng.choice(["north", "south", "west"], n, p=[0.5, 0.3, 0.2]),
        "smokes now": np.where(rng.random(n) < 0.3, "yes", "no"),
        "born": (np.datetime64("1950-01-01") + rng.integers(0, 20_000, n)).astype("datetime64[s]")})


@cache
def imputations(m=5, rows=600, n=3_000, population=True, schema=SCHEMA):
    """Tables of two halves, as a release would have them."""
    points = np.array([[schema.to_cube(table(rows // 2, 10 * i + half)) for half in (0, 1)] for i in range(m)])
    return tm.Imputations(schema, n, points, 2.0 / n, population)


def frames(held=None):
    held = held or imputations()
    for i in range(len(held)):
        columns = held.columns(i)
        yield pd.DataFrame(columns | {"pay": np.ma.filled(columns["pay"], np.nan)})


@pytest.fixture(scope="module")
def made():
    return tm.synthesize(table(900, 0), SCHEMA, tm.Budget(3.0, 1e-6), rng=np.random.default_rng(0))


# SQL


def test_counts_and_sums_are_scaled_to_the_private_table_and_means_are_not():
    found = ask(imputations(), "select count(*) as c, sum(age) s, avg(age) a, count(pay), sum(sick)/count(*) as share, "
                               "count(*) filter (where age > 50) + 0 as old from release")
    wanted = pd.DataFrame([{"c": 3_000.0, "s": 5.0 * each["age"].sum(), "a": each["age"].mean(),
                            "count(pay)": 5.0 * each["pay"].notna().sum(), "share": each["sick"].mean(),
                            "old": 5.0 * (each["age"] > 50).sum()} for each in frames()]).mean()
    for name, value in wanted.items():
        assert found.values[name][0] == pytest.approx(value, rel=1e-9)
    assert list(found.values) == list(wanted.index)
    assert "3,000 rows" in found.covers


def test_intervals_are_those_of_the_imputations():
    held = imputations()
    found, wanted = ask(held, "select avg(age) from release", 0.9), held.estimate(lambda t: np.mean(t["age"]), 0.9)
    for mine, theirs in ((found.values, wanted.value), (found.low, wanted.low), (found.high, wanted.high),
                         (found.untold, wanted.untold)):
        assert mine["avg(age)"][0] == pytest.approx(float(theirs), rel=1e-12)
    counted = ask(held, "select count(*) from release where age > 60")
    share = held.estimate(lambda t: np.mean(t["age"] > 60))
    assert counted.low["count(*)"][0] == pytest.approx(3_000 * float(share.low), rel=1e-9)


def test_groups_are_matched_over_tables_and_sorted_as_asked():
    found = ask(imputations(), "select region, avg(age) as a, count(*) as c from release group by region")
    assert found.keys == {"region": ["north", "south", "west"]}
    for k, region in enumerate(found.keys["region"]):
        assert found.values["a"][k] == pytest.approx(np.mean([each["age"][each["region"] == region].mean()
                                                               for each in frames()]))
    for order in ("3 desc", "c desc", "count(*) desc"):
        again = ask(imputations(), "select region, avg(age) as a, count(*) as c from release group by 1 "
                                   f"order by {order} limit 2")
        assert again.keys["region"] == ["north", "south"]
    for place, values in enumerate((found.keys["region"], found.values["a"], found.values["c"]), 1):
        for order, step in (("", 1), (" desc", -1)):
            again = ask(imputations(), "select region, avg(age) as a, count(*) as c from release group by region "
                                       f"order by {place}{order}")
            assert again.keys["region"] == [region for _, region in sorted(
                zip(values, found.keys["region"], strict=True))[::step]]
    assert ask(imputations(), "select region r, count(*) from release group by all order by r desc"
               ).keys["r"] == ["west", "south", "north"]


def test_a_group_that_some_tables_lack_counts_0_there_and_its_mean_is_of_the_others():
    held = imputations()
    oldest = [each["age"].max() for each in frames()]
    limit = sorted(oldest)[2]
    found = ask(held, f"select age >= {limit} as oldest, count(*) as c, avg(sick) as s from release "
                      f"where age >= {limit} group by oldest")
    assert found.values["c"][0] == pytest.approx(5.0 * np.mean([(each["age"] >= limit).sum() for each in frames()]))
    assert found.tables["c"][0] == 5
    assert found.tables["s"][0] < 5
    assert any("no value in some of the 5" in note for note in found.notes)
    assert found.low["c"][0] >= 0.0


@pytest.mark.parametrize(("group", "shown"), [("(sick - sick) / 0", "nan"), ("(1 + sick - sick) / 0", "inf")])
def test_a_group_without_a_finite_key_is_one_group_of_all_tables_and_is_json(group, shown):
    found = ask(imputations(), f"select {group} as kind, count(*) as n from release group by kind")
    assert found.values["n"].tolist() == [3_000.0]
    assert found.tables["n"].tolist() == [5]
    assert json.loads(json.dumps(found.to_dict(), allow_nan=False))["rows"][0]["kind"] == shown


def test_derived_columns_times_missing_values_and_persons_can_be_asked():
    found = ask(imputations(), 'select decade, count(pay) p, count(*) c from release where "smokes now" = \'yes\' and '
                               "born > '1970-01-01' and pay is not null group by decade order by decade")
    assert found.keys["decade"] == sorted(found.keys["decade"])
    np.testing.assert_array_equal(found.values["p"], found.values["c"])
    persons = imputations(schema=tm.Schema(SCHEMA.columns, person="who"))
    assert "3,000 persons" in ask(persons, "select count(*) from release").covers


def test_what_intervals_cover_is_said():
    assert "the population of which" in ask(imputations(), "select avg(age) from release").covers
    assert "value of the private table" in ask(imputations(population=False), "select avg(age) from release").covers


def test_a_wide_interval_says_which_table_was_not_measured():
    # White noise of a sample of 30 rows: nearly all of the variance is untold.
    held = tm.Imputations(SCHEMA, 3_000, imputations().points, 1.0 / 30, True)
    query = "select avg(pay) from release where age > 50 and region = 'north'"
    told = ask(replace(held, measured=(("age", "pay", "region"),)), query)
    assert "finer than the cells" in told.notes[-1]
    assert "no table of age, pay and region together" in ask(replace(held, measured=(("age", "pay"),)), query).notes[-1]
    assert ask(tm.Imputations(SCHEMA, 3_000, held.points, 0.0, False, (("age",),)), query).notes == ()


def test_an_interval_of_no_width_is_not_called_wide():
    # Rounding is all that differs, and no share of it means anything.
    held = replace(imputations(), white=1.0 / 30)
    notes = ask(held, "select corr(age, 2 * age) as r from release").notes
    assert [each.endswith("from theirs.") for each in notes] == [True]


def test_a_derived_column_counts_as_those_that_it_follows_from():
    schema = tm.Schema(SCHEMA.columns, derived={"double": "age * 2", "sum": "double + pay"})
    held = tm.Imputations(schema, 3_000, imputations().points, 1.0 / 30, True, (("age", "pay"),))
    assert "finer than the cells" in ask(held, "select corr(double, pay) as r from release where sum > 60").notes[-1]
    assert "no table of region, pay and age together" in ask(
        held, "select avg(sum) from release where region = 'north'").notes[-1]


def test_an_outcome_that_never_varies_has_no_logistic_regression():
    # Half of the tables have one category alone; the others lack a fit only where it does not matter.
    points = imputations(10).points.copy()
    answers = SCHEMA.coordinates.index("smokes now=no") + np.arange(2)
    points[:5, :, :, answers] = [1.0, 0.0]
    held = tm.Imputations(SCHEMA, 3_000, points, 2.0 / 3_000, True)
    found = fitted(held, "`smokes now` ~ age", "binomial")
    assert np.isfinite(found.values).all()
    assert (np.abs(found.values) < 5.0).all()
    assert np.isnan([found.low, found.high, found.p]).all()
    assert found.notes == ("smokes now = 'yes' counts as 1.",
                           "Some of the 10 imputed tables have no fit of some coefficients; their estimates come from "
                           "the other tables, if there are any.",
                           "Some coefficients have no interval, because the private table may have no fit of them.")
    assert fitted(imputations(10), "`smokes now` ~ age", "binomial").notes[:1] == found.notes[:1]
    assert not any("counts as 1" in note for note in fitted(imputations(10), "age ~ sick").notes)


HOSTILE = [
    "", "   ", "select", "age", "select age from release", "select * from release", "select count(*)",
    "select count(*) from other", "select count(*) from t0", "select count(*) from t0_0", "select count(*) from arrow",
    "select count(*) from 'secret.csv'", "select count(*) from read_csv('secret.csv')",
    "select count(*) from read_text('secret.csv')", "select count(*) from glob('*')", "select count(*) from range(10)",
    "select count(*) from release, release r", "select count(*) from release join release r using (age)",
    "select count(*) from release; select count(*) from release", "select count(*) from release; drop table t0_0",
    "copy release to 'out.csv'", "copy (select count(*) from release) to 'out.csv'", "attach 'out.db'",
    "install httpfs", "load httpfs", "pragma version", "set enable_external_access = true", "reset lock_configuration",
    "create table x as select 1", "insert into release values (1)", "update release set age = 1", "delete from release",
    "drop table release", "export database 'out'", "call pragma_version()", "explain select count(*) from release",
    "describe release", "with release as (select 1 as age) select count(*) from release",
    "select count(*) from (select * from release)", "select (select count(*) from release) from release",
    "select count(*) from release where age in (select 1)", "select count(*) from release union select 1",
    "select sum(age) over () from release", "select getenv('HOME'), count(*) from release",
    "select count(current_setting('memory_limit')) from release", "select list(age) from release",
    "select string_agg(region) from release", "select max(age) from release", "select histogram(age) from release",
    "select count(*) from release group by region", "select region, count(*) from release",
    "select region, count(*) from release group by rollup (region)", "select distinct count(*) from release",
    "select count(*) from release having count(*) > 2", "select count(*) from release limit 1 offset 2",
    "select count(*) from release order by random()", "select count(*) from release using sample 3",
    "select count(*) from main.release", "select count(height) from release", "select avg(region) from release",
    "select count(*), count(*) from release", "select avg(age) as x_low, count(*) as x from release",
    'select count(*) as "a\nb" from release', "select count(*) from release where " + "not " * 900 + "true",
    "select sum(" + "abs(" * 900 + "age" + ")" * 900 + ") from release",  "select count(*) from release where age = ?",
    "select count(*) from release where avg(age) > 3", "select sum(repeat('a', 1000000000)::int) from release",
    "select avg(x -> x) from release", "select count(columns(*)) from release", "select 'a' || count(*) from release",
    "select count(*) from release at (version => 3)", "select avg(age) from release where nextval('x') = 1",
    "select count(*) from release -- '\n; drop table t0", "select c\0ount(*) from release", "x" * 20_000, None, 3,
    "select count(*) from read_parquet('secret.csv')", "select count(*) from read_blob('secret.csv')",
    "select count(*) from parquet_metadata('secret.csv')", "select count(*) from sniff_csv('secret.csv')",
    "select avg(getvariable('x')) from release", "select count(*) from duckdb_secrets()",
    "select count(*) from information_schema.tables", "select count(*) from sqlite_scan('secret.csv', 'x')",
    "with recursive r as (select 1 as age union all select age + 1 from r) select count(*) from r",
    "select count(*) from release a cross join release b cross join release c cross join release d",
    "select sum(len(range(1000000000))) from release",
    "select avg(unnest(generate_series(1, 1000000000))) from release",
    "select sum(length(rpad('a', 2000000000, 'b'))) from release", "select count(*) from \uff52elease",
    "s\u0435lect count(*) from release", "select count(*) from release\u202e where 1 = 1; drop table t0",
    "select avg(pg_read_file('secret.csv')) from release", "from 'secret.csv' select count(*)",
    "import database 'out'", "vacuum", "checkpoint", "use main", "prepare p as select 1", "execute p",
    "select count(*) from (values (1)) release(age)", "pivot release on region using count(*)",
    "select count(*) from query('select 1')", "select count(*) from query_table('t0')"]


@pytest.mark.parametrize("query", HOSTILE, ids=[f"{k}: {str(query)[:60]!r}" for k, query in enumerate(HOSTILE)])
def test_wrong_and_hostile_queries_are_refused_in_one_line_and_reach_nothing(query, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "secret.csv").write_text("age\n4242\n")
    with pytest.raises(tm.InputError) as problem:
        ask(imputations(2), query)
    assert "\n" not in str(problem.value)
    assert "4242" not in str(problem.value)
    assert [path.name for path in tmp_path.iterdir()] == ["secret.csv"]


def test_too_many_groups_are_refused(monkeypatch):
    monkeypatch.setattr(sql, "MOST_GROUPS", 100)
    with pytest.raises(tm.InputError, match="more than 100 groups"):
        ask(imputations(), "select pay, count(*) from release group by pay")


def test_a_query_is_checked_before_there_are_imputations():
    check_query(SCHEMA, "select region, avg(pay) from release group by region")
    for query in ("select region from release", "select avg(height) from release", "copy release to 'x'"):
        with pytest.raises(tm.InputError):
            check_query(SCHEMA, query)


def test_imputations_of_a_population_do_not_answer_about_the_table(made):
    held = made.imputations(2)
    with pytest.raises(tm.InputError, match="the imputations are for the population; give population=False"):
        made.sql("select avg(age) from release", population=False, imputations=held)
    with pytest.raises(tm.InputError, match="the imputations are for the population"):
        made.regression("age ~ pay", population=False, imputations=held)
    own = made.imputations(2, population=False)
    assert "private table" in made.sql("select avg(age) from release", population=False, imputations=own).covers
    assert "private table" in made.sql("select avg(age) from release", imputations=own).covers


def test_the_answer_is_a_table_and_json(made):
    held = made.imputations(3)
    found = made.sql("select region, avg(pay) as pay from release group by region", imputations=held)
    assert list(found.to_frame()) == ["region", "pay", "pay_low", "pay_high"]
    plain = json.loads(json.dumps(found.to_dict()))
    assert plain["imputations"] == 3
    assert [row["region"] for row in plain["rows"]] == found.keys["region"]
    assert str(found).splitlines()[0].split() == ["region", "pay", "pay_low", "pay_high"]
    other = tm.synthesize(table(60, 0), tm.Schema(SCHEMA.columns), tm.Budget(3.0, 1e-6),
                          tm.MomentMechanism(points=64, iterations=1), np.random.default_rng(0))
    with pytest.raises(tm.InputError, match="those of this release"):
        other.sql("select avg(age) from release", imputations=held)


# Regressions


def test_coefficients_are_those_of_every_table_combined():
    held = imputations()
    found = fitted(held, "pay ~ age + region")
    assert found.names == ("Intercept", "age", "region[T.south]", "region[T.west]", "region[T.island]")

    def plain(columns):
        frame = pd.DataFrame({"pay": np.ma.filled(columns["pay"], np.nan), "age": columns["age"],
                              "south": columns["region"] == "south", "west": columns["region"] == "west"}).dropna()
        return sm.OLS(frame["pay"], sm.add_constant(frame[["age", "south", "west"]].astype(float))).fit()

    whole = np.array([plain(held.columns(i)).params for i in range(len(held))])
    halves = np.array([[plain(half).params for half in held.halves(i)] for i in range(len(held))])
    wanted = held.combined(whole, halves)
    for mine, theirs in ((found.values, wanted.value), (found.deviations, wanted.deviation), (found.low, wanted.low)):
        np.testing.assert_allclose(mine[:4], theirs, rtol=1e-6)
    # No imputed row is of the island.
    assert math.isnan(found.values[4])
    # As a table of 3,000 rows would have them; these tables have 600.
    naive = np.mean([plain(held.columns(i)).bse for i in range(len(held))], axis=0) * math.sqrt(600 / 3_000)
    np.testing.assert_allclose(found.naive[:4], naive, rtol=1e-6)
    assert found.p[1] < 1e-3


@pytest.mark.parametrize(("formula", "family", "names"), [
    ("sick ~ age", "binomial", ("Intercept", "age")),
    ("`smokes now` ~ age + C(sick)", "binomial", ("Intercept", "age", "C(sick)[T.1]")),
    ("sick ~ log(1 + age) * `smokes now`", "poisson",
     ("Intercept", "log(1 + age)", "smokes now[T.yes]", "log(1 + age):smokes now[T.yes]")),
    ("log(pay + 1) ~ age - 1", "gaussian", ("age",)),
    ("pay ~ 0 + age + I(age ** 2)", "gaussian", ("age", "I(age ** 2)")),
    ("pay ~ (age + sick) ** 2", "gaussian", ("Intercept", "age", "sick", "age:sick")),
    ("pay ~ age:sick + decade", "gaussian", ("Intercept", "decade", "age:sick"))])
def test_formulas_have_the_terms_that_they_name(formula, family, names):
    found = fitted(imputations(), formula, family)
    assert found.names == names
    assert np.isfinite(found.deviations).all()
    assert (found.low < found.values).all()
    assert json.loads(json.dumps(found.to_dict()))["family"] == family
    assert list(found.to_frame()["coefficient"]) == list(names)


def test_rows_with_a_missing_text_are_left_out():
    schema = tm.Schema([tm.Column("y", 0, 1), tm.Column("where", kind="categorical", categories=("north", "south"),
                                                        missing="keep")])
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"y": rng.random(400), "where": rng.choice(np.array(["north", "south", None], object), 400)})
    frame.loc[frame["where"].isna(), "y"] = 1.0
    points = schema.to_cube(frame)
    found = fitted(tm.Imputations(schema, 400, np.array([[points[:200], points[200:]]] * 3), 0.005, True), "y ~ where")
    assert found.names == ("Intercept", "where[T.south]")
    means = frame.groupby("where")["y"].mean()
    np.testing.assert_allclose(found.values, [means["north"], means["south"] - means["north"]], atol=1e-4)


def test_a_logistic_regression_is_statsmodels():
    columns = [imputations().columns(i) for i in range(5)]
    wanted = [sm.GLM((each["smokes now"] == "yes").astype(float), sm.add_constant(each["age"].astype(float)),
                     family=sm.families.Binomial()).fit().params for each in columns]
    np.testing.assert_allclose(fitted(imputations(), "`smokes now` ~ age", "binomial").values, np.mean(wanted, axis=0),
                               rtol=1e-6)


BAD = [
    "", "pay", "~ age", "pay ~", "pay ~ age ~ sick", "pay ~ height", "pay ~ Age", "pay ~ .", "pay ~ 2",
    "pay ~ age + 'x'",
    "pay ~ __import__('os').system('touch out')", "pay ~ age + __import__('os')", "__import__('os') ~ age",
    "pay ~ np.load('secret.csv')", "pay ~ open('secret.csv').read()", "pay ~ exec('1')", "pay ~ eval('1')",
    "pay ~ I(__import__('os').system('touch out'))", "pay ~ C(__import__('os'))", "pay ~ log(open('secret.csv'))",
    "pay ~ age.__class__", "pay ~ log(age.__class__)", "pay ~ age[0]", "pay ~ [age]", "pay ~ {age}",
    "pay ~ (age, sick)",
    "pay ~ lambda x: x", "pay ~ log(lambda: 1)", "pay ~ age if sick else 1", "pay ~ age and sick", "pay ~ age > 3",
    "pay ~ I(age > 3)", "pay ~ (x := age)", "pay ~ age @ sick", "pay ~ bs(age, 3)", "pay ~ poly(age, 1000000)",
    "pay ~ age ** 50", "pay ~ age ** sick", "pay ~ I(10 ** 10 ** 10 ** 10 * age) + range(3)", "pay ~ log()",
    "pay ~ log(age, sick)", "pay ~ log(*age)", "pay ~ log(x=age)", "pay ~ C(age + sick)", "pay ~ C(age, levels=[1])",
    "pay ~ Q('age')", "pay ~ `age", "pay ~ `__import__('os')`", "pay ~ hashed(region)", "pay ~ f'{age}'",
    "pay ~ age; import os", "pay ~ age\nimport os", "pay ~ " + "(" * 90 + "age" + ")" * 90 + " + ",
    "pay ~ " + " + ".join(["age"] * 400), "pay ~ born", "pay ~ log(region)", "region ~ age", "pay + sick ~ region",
    "pay ~ age + I(2 * age)", "pay ~ True", "pay ~ 1j", "pay ~ yield", "pay ~ await age", "pay | sick ~ age", None, 3,
    "pay ~ I(open('secret.csv'))", "pay ~ I(age.__class__.__mro__)", "pay ~ I(getattr(age, 'x'))",
    "pay ~ I(globals())", "pay ~ I([x for x in (1, 2)])", "pay ~ I(age := 3)", "pay ~ log(I(breakpoint()))",
    "pay ~ I('a' * 10 ** 9)", "pay ~ I(age << 40)", "pay ~ I(age // 0)", "pay ~ I(...)", "pay ~ print(age)",
    "pay ~ C(C(age))", "pay ~ \uff49mport(age)", "pay ~ I(1e999)", "pay ~ I(b'x')", "pay ~ *age", "pay ~ **age"]


@pytest.mark.parametrize("formula", BAD, ids=[f"{k}: {str(formula)[:60]!r}" for k, formula in enumerate(BAD)])
def test_wrong_and_hostile_formulas_are_refused_in_one_line_and_run_nothing(formula, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "secret.csv").write_text("4242\n")
    with pytest.raises(tm.InputError) as problem:
        fitted(imputations(2), formula)
    assert "\n" not in str(problem.value)
    assert "4242" not in str(problem.value)
    assert [path.name for path in tmp_path.iterdir()] == ["secret.csv"]


@pytest.mark.parametrize("formula", [each for each in BAD if isinstance(each, str) and "(" in each])
def test_nothing_but_allowed_words_reaches_the_library(formula):
    """What is accepted is written anew, of safe names, numbers and functions alone."""
    try:
        parsed = parsed_formula(formula, SCHEMA.table_names)
    except tm.InputError:
        return
    words = set(re.findall(r"[^\W\d]\w*", f"{parsed.left} {parsed.right}"))
    assert all(word.startswith("column_") or word in ("C", "I", "log", "e") for word in words)


@pytest.mark.parametrize(("formula", "family", "said"), [
    ("age ~ sick", "binomial", "must be 0 or 1"), ("region ~ age", "binomial", "of two"),
    ("I(0 - age) ~ sick", "poisson", "at least 0"), ("pay ~ age", "logistic", "family must be one of"),
    ("pay ~ region * `smokes now` * C(sick) * C(region) * C(region)", "gaussian", "depend on each other|coefficients")])
def test_what_a_family_cannot_explain_is_refused(formula, family, said):
    with pytest.raises(tm.InputError, match=said):
        fitted(imputations(2), formula, family)


def test_a_model_of_too_many_coefficients_is_refused_before_its_matrix_is_made():
    wide = tm.Schema([tm.Column("y", 0, 1), *(tm.Column(f"c{j}", kind="categorical", categories=[
        f"v{i}" for i in range(30)]) for j in range(2))])
    with pytest.raises(tm.InputError, match="more than 500"):
        check_formula(wide, "y ~ c0 * c1", "gaussian")


# The commands


@pytest.fixture
def run(tmp_path, monkeypatch, capsys, made):
    monkeypatch.chdir(tmp_path)
    made.save("clinic.tm")

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["trigmech", *arguments])
        with pytest.raises(SystemExit) as ending:
            main()
        printed = capsys.readouterr()
        return ending.value.code or 0, printed.out, printed.err

    return call


@pytest.mark.nightly  # By day test_options.py asks for each option of it.
def test_a_file_of_imputations_is_made_once_and_answers_alike(run, tmp_path):
    asked = ("ask", "clinic.tm", "select region, avg(pay) p from release group by region", "--imputations", "kept",
             "--count", "3")
    status, out, _ = run(*asked, "--csv", "out.csv")
    assert status == 0
    content = (tmp_path / "kept").read_bytes()
    status, again, _ = run(*asked)
    assert (status, again) == (0, out)
    assert (tmp_path / "kept").read_bytes() == content
    written = pd.read_csv(tmp_path / "out.csv")
    assert list(written) == ["region", "p", "p_low", "p_high"]
    status, out, _ = run("fit", "clinic.tm", "pay ~ age", "--imputations", "kept", "--json")
    found = json.loads(out)
    assert status == 0
    assert [each["coefficient"] for each in found["coefficients"]] == ["Intercept", "age"]
    status, _, err = run(*asked, "--table")
    assert status == 2
    assert "are for the population" in err


def test_a_question_to_saved_imputations_loads_no_mechanism(made, tmp_path):
    """In a process of its own, for the suite has loaded all of them."""
    made.save(tmp_path / "clinic.tm")
    held = made.imputations(2)
    held.save(tmp_path / "kept")
    program = """
import sys
from trigmech.cli import main
sys.argv = ["trigmech", "ask", "clinic.tm", "select avg(pay) p from release", "--imputations", "kept", "--json"]
try:
    main()
except SystemExit as end:
    assert not end.code
heavy = {"numba", "sklearn", "statsmodels", "formulaic", "opendp", "highspy", "matplotlib", "scipy.stats",
         "scipy", "pyarrow.compute", "trigmech.results", "trigmech.mechanisms",
         "trigmech.reconstruction", "trigmech.measurement"}
print(sorted(heavy & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True,
                          env=os.environ | {"PYTHONPATH": str(Path(tm.__file__).parents[1])})
    answer, loaded = done.stdout.splitlines()
    assert loaded == "[]"
    rows = json.loads(answer)["rows"]
    assert rows[0]["p"] == float(made.sql("select avg(pay) p from release", imputations=held).values["p"][0])


def test_as_many_imputations_are_asked_for_as_the_file_has_or_none_are_named(run, made):
    made.imputations(3).save("kept")
    for command in (("ask", "clinic.tm", "select avg(pay) from release"), ("fit", "clinic.tm", "pay ~ age")):
        status, _, err = run(*command, "--imputations", "kept", "--count", "5")
        assert status == 2
        assert err == ("trigmech: the file 'kept' has 3 imputations, not 5; name another file, or leave out --count\n")
        for how in (("--imputations", "kept"), ("--imputations", "kept", "--count", "3"), ("--count", "3")):
            status, out, _ = run(*command, "--json", *how)
            assert (status, json.loads(out)["imputations"]) == (0, 3)


def test_imputations_of_another_release_are_refused(run, made):
    replace(made.imputations(2), n=made.n + 1).save("others")
    made.imputations(2).save("table")
    status, _, err = run("ask", "clinic.tm", "select avg(pay) from release", "--imputations", "others")
    assert status == 2
    assert "were not made from this release" in err
    # A file of imputations is no release.
    status, _, err = run("ask", "others", "select avg(pay) from release", "--imputations", "table")
    assert status == 2


def test_a_question_sees_the_columns_that_it_uses(made):
    """Derived columns need others, and counts need no column."""
    held = made.imputations(2)
    found = ask(held, "select decade, count(*) c from release group by decade")
    assert sum(found.values["c"]) == pytest.approx(made.n)
    assert float(ask(held, "select count(*) c from release").values["c"][0]) == pytest.approx(made.n)
    one, _ = held.halves(0, ["pay"])
    assert list(one) == ["pay"]
    np.testing.assert_array_equal(one["pay"], held.halves(0)[0]["pay"])


@pytest.mark.parametrize(("arguments", "status", "said"), [
    (("ask", "clinic.tm", "select * from release"), 2, "columns, constants"),
    (("ask", "clinic.tm", "select avg(age) from release", "--csv", "out.xyz"), 2, "out.xyz"),
    (("ask", "clinic.tm", "select avg(age) from release", "--level", "2"), 2, "between 0 and 1"),
    (("ask", "absent.tm", "select avg(age) from release"), 2, "absent.tm"),
    (("ask", "clinic.tm", "select avg(age) from release", "--imputations", "clinic.tm"), 2, "given twice"),
    (("fit", "clinic.tm", "pay ~ __import__('os')"), 2, "a call of"),
    (("fit", "clinic.tm", "pay ~ age", "--family", "x"), 2, "family must be"),
    (("sample", "clinic.tm", "--imputations", "3"), 2, "a folder"),
    (("sample", "clinic.tm", "--imputations", "3", "--out", "x", "--rows", "3"), 2, "needs a folder"),
    (("sample", "clinic.tm", "--imputations", "3", "--out", "."), 2, "not an empty folder"),
    (("sample", "clinic.tm", "--imputations", "3", "--out", "a/b"), 2, "no folder")])
def test_wrong_commands_are_told_in_one_line_before_anything_is_made(run, tmp_path, arguments, status, said):
    found, _, err = run(*arguments)
    assert found == status
    assert said in " ".join(err.split())
    assert [path.name for path in tmp_path.iterdir()] == ["clinic.tm"]


@pytest.mark.parametrize("wrong", [
    lambda made: made.sql("select avg(nothing) from release"), lambda made: made.sql("select 1", level=0.5),
    lambda made: made.sql("select avg(age) from release", level=1.5), lambda made: made.regression("pay ~ nothing"),
    lambda made: made.regression("pay ~ age", "x"), lambda made: made.regression("pay ~ age", level=0.0)])
def test_wrong_questions_are_refused_before_imputations_are_made(made, monkeypatch, wrong):
    monkeypatch.setattr(type(made), "imputations", lambda *_, **__: pytest.fail("imputations were made"))
    with pytest.raises(tm.InputError):
        wrong(made)


@pytest.mark.parametrize("command", [
    ("ask", "clinic.tm", "select avg(age) from release"), ("fit", "clinic.tm", "pay ~ age")])
def test_a_wrong_level_is_refused_before_imputations_are_made(run, made, monkeypatch, command):
    monkeypatch.setattr(type(made), "imputations", lambda *_, **__: pytest.fail("imputations were made"))
    status, _, err = run(*command, "--level", "1.5")
    assert (status, err) == (2, "trigmech: level must be between 0 and 1, not 1.5\n")


@pytest.mark.nightly  # By day test_inference.py combines them.
def test_copies_for_others_come_with_a_page_whose_python_runs(run, tmp_path, monkeypatch):
    status, out, _ = run("sample", "clinic.tm", "--imputations", "3", "--out", "copies", "--seed", "1")
    assert status == 0
    assert "README.md" in out
    folder = tmp_path / "copies"
    assert sorted(path.name for path in folder.iterdir()) == [
        "README.md", *(f"imputation_{i:02}.csv" for i in (1, 2, 3))]
    page = (folder / "README.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    monkeypatch.chdir(folder)
    names = {}
    exec(code, names)
    rows = len(pd.read_csv("imputation_01.csv"))
    factor = float(f"{rows / 900:.6g}")
    fits = [sm.OLS(each["age"], sm.add_constant(each[["pay"]])).fit() for each in (
        pd.read_csv(path).dropna(subset=["pay"]) for path in sorted(folder.glob("*.csv")))]
    wanted = tm.combine(np.array([fit.params for fit in fits]), factor * np.array([fit.bse**2 for fit in fits]))
    np.testing.assert_allclose(names["estimate"], wanted.value, rtol=1e-9)
    np.testing.assert_allclose(names["deviation"], wanted.deviation, rtol=1e-9)
    assert "are not valid" in page


def test_the_page_s_regression_is_of_names_that_python_and_r_can_read():
    names = ("class", "next", "NULL", "first name", "age", "pay")
    schema = tm.Schema([tm.Column(name, 0, 1) for name in names])
    held = tm.Imputations(schema, 90, np.zeros((3, 2, 10, 6)), 0.0, False)
    assert page_of(held, names).count("age ~ pay") == 2


def test_the_page_says_how_counts_are_scaled():
    page = page_of(imputations(), SCHEMA.table_names)
    assert "multiplied by 5 " in page
    assert "0.2 * vcov(fit)" in page
    assert "age ~ pay" in page


def test_a_sample_warns_of_standard_errors(run):
    _, out, _ = run("sample", "clinic.tm", "--out", "synth.csv", "--json")
    assert "standard errors that are computed on one synthetic table are not valid" in json.loads(out)["note"]
