"""What a first user of answers met: a crash on C(number), and messages that gave a wrong reason."""

from functools import lru_cache
from types import SimpleNamespace

import duckdb
import numpy as np
import pandas as pd
import pytest

import trigmech as tm
from trigmech.inference.regression import fitted
from trigmech.inference.sql import _notes, ask
from trigmech.inference.sql_question import parsed

SCHEMA = tm.Schema([tm.Column("weight", 0, 10), tm.Column("weeks", 30, 45, "integer"),
                    tm.Column("gained", 0, 50, "integer"), tm.Column("sex", kind="categorical",
                                                                     categories=("f", "m"), missing="keep")])


@lru_cache
def held(m=6, rows=60):
    """Tables that have not the same weeks: 30 only in the first one, 44 only in the last one, 38 to 40 in all."""
    rng, tables = np.random.default_rng(0), []
    for i in range(2 * m):
        weeks = rng.choice([38, 39, 40], rows)
        weeks[:3] = 38, 39, 40
        if i == 0:
            weeks[3:6] = 30
        if i >= 2 * m - 2:
            weeks[3:6] = 44
        weight = 0.1 * (weeks - 35) + rng.normal(3.0, 0.2, rows)
        gained = rng.integers(0, 3, rows)
        gained[0] = 0
        sex = rng.choice(np.array(["f", "m", None], dtype=object), rows)
        tables.append(SCHEMA.to_cube(pd.DataFrame({"weight": weight, "weeks": weeks, "gained": gained, "sex": sex})))
    points = np.array(tables).reshape(m, 2, rows, -1)
    return tm.Imputations(SCHEMA, 2 * rows, points, 0.005, True)


def test_numbers_as_categories_have_the_values_of_all_tables():
    """A value that the first table lacked ended `fit` as a fault of the program."""
    found = fitted(held(), "weight ~ C(weeks) + gained")
    assert found.names == ("Intercept", "C(weeks)[T.30]", "C(weeks)[T.39]", "C(weeks)[T.40]", "C(weeks)[T.44]",
                           "gained")
    known = np.isin(found.names, ["Intercept", "C(weeks)[T.39]", "C(weeks)[T.40]", "gained"])
    assert (np.isfinite(found.low) == known).all()
    np.testing.assert_allclose(found.values[[2, 3]], [0.1, 0.2], atol=0.05)
    assert found.notes[0] == "weeks = 38 is the reference."
    # Beside the number itself there are no two meanings of it.
    with pytest.raises(tm.InputError, match="depend on each other"):
        fitted(held(), "weight ~ C(weeks) + weeks")


@pytest.mark.parametrize(("formula", "said"), [
    ("weight ~ log(gained)", "not a finite number"), ("log(gained) ~ weeks", "not a finite number"),
    ("weight ~ weeks + I(2 * weeks)", "depend on each other"),
    ("weight ~ weight", "follows from the terms exactly"),
    ("weeks ~ I(1000 - weeks / 3)", "follows from the terms exactly")])
def test_what_no_regression_can_tell_is_refused_for_the_right_reason(formula, said):
    with pytest.raises(tm.InputError, match=said):
        fitted(held(), formula)


def test_an_answer_without_a_value_gives_the_reason_and_names_no_other_tables():
    found = ask(held(), "select avg(weight / 0) as v from release")
    assert len(found.notes) == 1
    assert found.notes[0].startswith("v: the answer has no estimate, because fewer than two imputed tables have")
    # 30 weeks are in one half of one table.
    found = ask(held(), "select weeks, avg(weight) as v from release where weeks in (30, 38) group by weeks")
    assert np.isfinite(found.values["v"]).tolist() == [False, True]
    assert found.notes[0].startswith("v: some groups have no estimate")
    assert not any("other tables" in note or "does not tell" in note for note in found.notes)


def test_counts_are_of_no_more_rows_than_there_are():
    found = ask(held(), "select count(*) as n, count(sex) as s, count_if(weeks < 44) as few from release "
                        "where weight < 9.0")
    for name in ("n", "s", "few"):
        assert found.low[name] <= found.values[name] <= found.high[name] <= 120
    assert found.high["few"] == 120


def test_a_missing_key_is_seen():
    found = ask(held(), "select sex, count(*) as n from release group by sex")
    assert [line.split()[0] for line in str(found).splitlines()[1:4]] == ["f", "m", "(missing)"]
    assert found.keys["sex"] == ["f", "m", None]


@pytest.mark.parametrize(("query", "said"), [
    ("select max(weight) from release", "one row decides it"), ("select min(weeks) from release", "quantile_cont"),
    ("select avg(weight) from release limit 0", "whole number above 0"),
    ("pragma version", "no other statement"),
    ("select avg(weight) over () from release", "must not have a window"),
    ("select avg(weight) from release where weeks > (select 1)", "must not have a subquery")])
def test_refusals_give_the_reason(query, said):
    with pytest.raises(tm.InputError, match=said):
        ask(held(), query)


@pytest.mark.parametrize("measured", [[("gained", "sex")], [("weight", "gained", "sex")], [("weeks", "gained", "sex")]])
def test_the_reason_of_a_wide_interval_names_only_columns_that_its_aggregate_uses(measured):
    asked = parsed(duckdb.connect(), "select sex, avg(weight) as w, median(Weeks + 1) as m, count(*) as n from release "
                                     "where gained > 1 group by sex", SCHEMA)
    assert asked.uses == (("gained", "sex"), ("weight", "gained", "sex"), ("weeks", "gained", "sex"), ("gained", "sex"))
    names = ("w", "m", "n")
    made = SimpleNamespace(tables={}, count=6, untold=dict.fromkeys(names, np.ones(1)),
                           low=dict.fromkeys(names, np.zeros(1)), high=dict.fromkeys(names, np.ones(1)),
                           values=dict.fromkeys(names, np.ones(1)))
    said = {name: note.split("because ")[1] for note in _notes(made, asked, SimpleNamespace(
        schema=SCHEMA, measured=measured)) for name in note.split(":")[0].split(", ")}
    finer = "the question is finer than the cells and functions that the release measured."
    assert said["n"] == finer
    for name, column in (("w", "weight"), ("m", "weeks")):
        known = any(column in table for table in measured)
        assert said[name] == (finer if known else
                              f"the release measured no table of {column}, gained and sex together.")
