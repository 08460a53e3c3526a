"""Refusals and text forms that no other test of the day reaches, each called directly."""


import numpy as np
import pandas as pd
import pytest
from test_cli import run as run  # a fixture

import trigmech as tm
from trigmech.errors import InputError
from trigmech.evaluation import statistics
from trigmech.inference.formula import DEEPEST, parsed_formula
from trigmech.queries.distances import RowShare

SCHEMA = tm.Schema([tm.Column("a", 0, 10), tm.Column("c", kind="categorical", categories=["x", "y"]),
                    tm.Column("n", 0, 500, "integer")])
TABLE = pd.DataFrame({"a": np.linspace(0, 10, 200), "c": ["x", "y"] * 100, "n": np.arange(200)})


@pytest.fixture(scope="module")
def made():
    return tm.synthesize(TABLE, SCHEMA, tm.Budget(5.0, 1e-6), rng=np.random.default_rng(0))


# Formulas


@pytest.mark.parametrize("formula", ["a ~ " + "+".join(["n"] * (DEEPEST + 2)),
                                     "a ~ I(" + "+".join(["n"] * (DEEPEST + 2)) + ")"])
def test_formulas_that_are_nested_too_deeply_are_refused(formula):
    with pytest.raises(InputError, match=r"^a formula must not be nested so deeply$"):
        parsed_formula(formula, SCHEMA.names)


@pytest.mark.parametrize(("formula", "right"), [("a ~ n + -1", "column_2_ - 1"), ("a ~ n + +0", "column_2_ - 1"),
                                                ("a ~ n - 1", "column_2_ - 1")])
def test_the_intercept_is_left_out_in_any_form(formula, right):
    assert parsed_formula(formula, SCHEMA.names).right == right


# Statistics and criteria


@pytest.mark.parametrize("columns", ["a", "ac", [], (), 5, None, {"a"}])
def test_columns_of_a_statistic_are_a_list_of_names(columns):
    with pytest.raises(InputError, match=r"^columns must be a non-empty list of names, not "):
        statistics.marginal(SCHEMA, columns)


@pytest.mark.parametrize("columns", [["a", "c"], ("a", "c"), np.array(["a", "c"]), pd.Index(["a", "c"])])
def test_names_of_columns_can_be_in_any_list(columns):
    held = {name: TABLE[name].to_numpy() for name in SCHEMA.names}
    found = statistics.marginal(SCHEMA, columns, 2)(held)
    np.testing.assert_allclose(found, [[0.25, 0.25], [0.25, 0.25]])


@pytest.mark.parametrize("name", ["b", ["a"], 3, None, np.array(["a", "c"])])
def test_a_column_of_a_statistic_is_one_of_the_schema(name):
    for refused in (lambda: statistics.frequencies(SCHEMA, name), lambda: statistics.ranges(SCHEMA, name, [1.0]),
                    lambda: statistics.marginal(SCHEMA, ["a", name])):
        with pytest.raises(InputError, match=r"^the schema has no column "):
            refused()


def test_a_share_of_rows_is_named_and_evaluated_row_by_row():
    share = RowShare((0,), lambda rows: rows[:, 0] > 0.0)
    assert share.names(["x"]) == ["rows for which a rule holds"]
    np.testing.assert_array_equal(share.evaluate(np.array([[0.5], [-0.5], [0.0]])), [[1.0], [0.0], [0.0]])


# Designs in notebooks


def test_a_design_in_a_notebook_has_its_plan_and_its_charges():
    planned = tm.design(1_000, SCHEMA, tm.Budget(1.0, 1e-6))
    shown = planned._repr_html_()
    assert planned.measured._repr_html_() in shown
    assert "<caption>Charges for 1,000 rows, (1, 1e-06)</caption>" in shown
    for charge in planned.all_charges:
        assert charge.purpose in shown
    for head in ("purpose", "noise", "scale", "sensitivity", "norm", "count"):
        assert f">{head}</th>" in shown


# Answers


def test_the_answer_in_a_file_is_the_answer(made, run, tmp_path):
    made.save("r.tm")
    status, _, err = run("ask", "r.tm", "select c, avg(a) m from release group by c", "--csv", "out.csv",
                           "--imputations", "held", "--count", "3")
    assert status == 0, err
    told = pd.read_csv("out.csv")
    assert told["c"].tolist() == ["x", "y"]
    assert list(told.columns) == ["c", "m", "m_low", "m_high"]
    assert (told["m_low"] < told["m"]).all()
    assert (told["m"] < told["m_high"]).all()
    status, _, err = run("ask", "r.tm", "select avg(a) from release", "--imputations", "held", "--table")
    assert status == 2
    assert "the imputations in 'held' are for the population; name another file" in " ".join(err.split())
