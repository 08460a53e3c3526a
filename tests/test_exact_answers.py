"""Answers to questions in SQL from the values of each table, by hand: tables that count, their order, and notes."""

import math
from dataclasses import replace

import numpy as np
import pytest

import trigmech as tm
from trigmech.errors import InputError
from trigmech.inference import sql
from trigmech.inference.imputations import Imputations
from trigmech.inference.sql_question import Question

SCHEMA = tm.Schema([tm.Column("x", 0, 1), tm.Column("y", 0, 1)])
NONE = (None,)


def imputations(m=4):
    return Imputations(SCHEMA, 5_000, np.random.default_rng(0).uniform(-1.0, 1.0, (m, 2, 30, 2)), 0.0, False)


def tree_of(*functions, where=None):
    """The tree of functions of a column that the schema does not know, so that they can have any value."""
    unknown = {"class": "COLUMN_REF", "column_names": ["z"]}
    items = [{"class": "FUNCTION", "function_name": name, "children": [unknown]} if name else unknown
             for name in functions]
    return {"statements": [{"node": {"select_list": items, "where_clause": where}}]}


def question(function="avg", order=(), limit=None, used=("x", "y")):
    functions, growing = ("", function), function in ("count", "sum")
    return Question(tree_of(*functions), ("k", "v"), (True, False), (False, growing), tuple(order), limit, tuple(used),
                    functions=functions)


def answer(whole, halves, function="avg", groups=(("a",), ("b",)), **asked):
    held = imputations(len(whole))
    return held, sql._answer(held, question(function, **asked), list(groups), whole, halves, [], 0.9)


@pytest.mark.parametrize(("function", "value", "ends", "m"), [
    ("count_star", 0.0, (0.0, 115.13), 4), ("count", 0.0, (0.0, 115.13), 4),
    ("count_if", 5_000.0, (4_884.87, 5_000.0), 4), ("count_star", 7.0, None, 4), ("sum", 0.0, None, 4),
    ("avg", 0.0, None, 4), ("corr", 1.0, None, 4), ("median", 3.0, (3.0, 3.0), 8), ("median", 3.0, None, 7)])
def test_what_all_tables_agree_on_is_not_certain(function, value, ends, m):
    """A fit without any row of a rare kind said with certainty that there is no such row."""
    held = replace(imputations(m), white=0.01)
    growing = function in ("count_star", "count", "count_if", "sum")
    asked = Question(tree_of("", function, where={}), ("k", "v"), (True, False), (False, growing), (),
                     None, ("x",), functions=("", function))
    whole = [{("a",): (value,)}] * m
    found = sql._answer(held, asked, [("a",)], whole, [[each, each] for each in whole], [], 0.9)
    assert found.values["v"].tolist() == [value]
    if ends is None:
        assert np.isnan([found.low["v"][0], found.high["v"][0]]).all()
    else:
        # One of 1 / .01 rows, none of which is of this kind with probability .1: a share of .023.
        assert (found.low["v"][0], found.high["v"][0]) == pytest.approx(ends, abs=0.01)
    why = "rare rows" if ends and function != "median" else "this value alone" if ends else "no interval"
    assert [why in each for each in found.notes] == [True]


@pytest.mark.parametrize(("item", "value"), [
    ("count(*)", 5_000.0), ("2 * count(*)", 10_000.0), ("count(*)::integer", 5_000.0), ("sum(3)", 15_000.0)])
def test_what_the_number_of_all_rows_decides_is_certain(item, value):
    found = sql.ask(replace(imputations(), white=0.01), f"select {item} as v from release", 0.9)
    assert (found.low["v"][0], found.high["v"][0], found.notes) == (value, value, ())
    assert "scaled to 5,000 rows" in found.covers


@pytest.mark.parametrize(("asked", "end", "ends"), [
    ("count(*) filter (where x > 2)", "", (0.0, 115.13)), ("count_if(x > 2)", "", (0.0, 115.13)),
    ("count(*)", "where x > 2", (0.0, 115.13)), ("count(*) filter (where x < 2)", "", (4_884.87, 5_000.0)),
    ("count(*)", "where x < 2", (4_884.87, 5_000.0)), ("x < 2 as k, count(*)", "group by k", (4_884.87, 5_000.0))])
def test_a_count_with_a_condition_is_not_certain_wherever_the_condition_stands(asked, end, ends):
    found = sql.ask(replace(imputations(), white=0.01), f"select {asked} as v from release {end}", 0.9)
    assert (found.low["v"][0], found.high["v"][0]) == pytest.approx(ends, abs=0.01)
    assert "rare rows" in found.notes[0]


def test_a_group_counts_in_the_tables_that_have_it_in_both_halves():
    whole = [{("a",): (1.0,), ("b",): (5.0,)}, {("a",): (2.0,), ("b",): (6.0,)}, {("a",): (3.0,)},
             {("a",): (4.0,), ("b",): (7.0,)}]
    halves = [[{("a",): (each + 0.5,), ("b",): (5.0,)}, {("a",): (each - 0.5,), ("b",): (6.0,)}]
              for each in (1.0, 2.0, 3.0, 4.0)]
    # A half without the first group, and one with the second but without its value.
    halves[1][0].pop(("a",))
    halves[3][1][("b",)] = NONE
    held, found = answer(whole, halves)
    assert found.tables["v"].tolist() == [3, 2]
    one = held.combined(np.array([1.0, 3.0, 4.0]), np.array([[1.5, 0.5], [3.5, 2.5], [4.5, 3.5]]), 0.9, [])
    two = held.combined(np.array([5.0, 6.0]), np.array([[5.0, 6.0], [5.0, 6.0]]), 0.9, [])
    assert (found.values["v"][0], found.low["v"][0], found.high["v"][0], found.untold["v"][0]) == (
        one.value, one.low, one.high, one.untold)
    # The private table may have no rows of the second group: one of four tables has none.
    assert (found.values["v"][1], found.untold["v"][1]) == (two.value, two.untold)
    assert np.isnan([found.low["v"][1], found.high["v"][1]]).all()
    assert found.keys == {"k": ["a", "b"]}
    assert found.notes[0] == ("v: some groups have no value in some of the 4 imputed tables; estimates come from the "
                              "other tables.")
    assert found.notes[1] == ("v: some groups have no interval, because the release does not tell whether the private "
                              "table has a value there.")
    assert found.covers == "Each interval holds the value of the private table of 5,000 rows with probability 0.9."


@pytest.mark.parametrize("population", [True, False])
def test_an_estimate_says_of_whom_its_interval_is(population):
    held = replace(imputations(3), population=population)
    found = held.combined(np.array([1.0, 3.0, 4.0]), np.array([[1.5, 0.5], [3.5, 2.5], [4.5, 3.5]]), 0.9, [])
    assert found.population is population


@pytest.mark.parametrize(("lacking", "told"), [(0, True), (1, True), (2, False)])
def test_a_group_that_may_be_empty_has_no_interval(lacking, told):
    # 1 of 10 tables lacks it: at a level of 0.9 it has rows. Nine rows that are all alike would make its mean certain.
    whole = [{("a",): (100.0 + 1e-3 * k,)} for k in range(-4, 6)]
    whole[:lacking] = [{} for _ in range(lacking)]
    _, found = answer(whole, [[each, each] for each in whole], groups=[("a",)])
    assert found.values["v"].tolist() == pytest.approx([100.0], abs=0.01)
    assert np.isfinite([found.low["v"][0], found.high["v"][0]]).all() == told


def test_a_value_of_one_table_alone_is_no_estimate():
    _, found = answer([{("a",): (1.0,)}, {}, {}], [[{("a",): (1.0,)}] * 2, [{}, {}], [{}, {}]], groups=[("a",)])
    assert found.tables["v"].tolist() == [1]
    assert np.isnan([found.values["v"][0], found.low["v"][0], found.high["v"][0]]).all()


@pytest.mark.parametrize("function", ["count", "sum"])
def test_counts_of_absent_groups_are_0_and_no_interval_of_a_count_is_below_it(function):
    """A sum can be below 0, even if it is above in all tables."""
    whole = [{("a",): (0.0,)}, {("a",): (9.0,)}, {}]
    halves = [[{("a",): (0.0,)}, {}], [{("a",): (20.0,)}, {}], [{}, {}]]
    held, found = answer(whole, halves, function, groups=[("a",)])
    plain = held.combined(np.array([0.0, 9.0, 0.0]), np.array([[0.0, 0.0], [20.0, 0.0], [0.0, 0.0]]), 0.9, [])
    assert found.tables["v"].tolist() == [3]
    assert plain.low < 0.0
    assert found.low["v"][0] == (0.0 if function == "count" else plain.low)
    assert (found.values["v"][0], found.high["v"][0]) == (plain.value, plain.high)
    assert found.covers.endswith("; counts and sums are scaled to 5,000 rows.")


def test_an_aggregate_is_a_number_or_refused():
    assert sql._number("v", (None, 2), 1, False) == 2.0
    assert sql._number("v", NONE, 0, True) == sql._number("v", None, 0, True) == 0.0
    assert math.isnan(sql._number("v", NONE, 0, False))
    assert math.isnan(sql._number("v", None, 0, False))
    for wrong in ("word", [1]):
        with pytest.raises(InputError, match="'v' is not a number, so it has no interval"):
            sql._number("v", (wrong,), 0, True)


GROUPS = [("b", 2), (None, 1), ("a", 2), ("a", None)]


@pytest.mark.parametrize(("order", "limit", "places"), [
    # By the keys, in which missing ones come last.
    ((), None, [2, 3, 0, 1]), ((), 2, [2, 3]), (((0, True),), None, [0, 2, 3, 1]),
    (((2, False), (0, False)), None, [1, 2, 0, 3]), (((1, False),), None, [2, 1, 0, 3]),
    (((1, True), (2, True)), None, [0, 1, 2, 3])])
def test_groups_stand_in_the_order_that_was_asked_for(order, limit, places):
    asked = Question({}, ("k", "v", "l"), (True, False, True), (False,) * 3, order, limit, ())
    assert sql._sorted(asked, GROUPS, {"v": np.array([9.0, 5.0, 1.0, np.nan])}) == places


def test_why_an_interval_is_wide():
    finer = "the question is finer than the cells and functions that the release measured"
    assert sql.why_untold(["x", "y"], [["x", "z"]]) == "the release measured no table of x and y together"
    assert sql.why_untold(["x", "y", "z"], [["x", "y"]]) == "the release measured no table of x, y and z together"
    assert sql.why_untold(["x", "y"], [["z", "y", "x"]]) == sql.why_untold(["x"], [["y"]]) == finer
    assert sql.why_untold(["x", "y"], []) == finer


def test_cells_of_an_answer_are_text():
    assert [sql._shown(value) for value in (None, 12.34567, 1_234.5, 12_345.6, 7, "a")] == [
        "", "12.35", "1,234", "12,346", "7", "a"]
    assert [sql._plain(value) for value in (None, True, 1.5, "a", np.datetime64("2020-01-01"))] == [
        None, True, 1.5, "a", "2020-01-01"]


def test_a_key_that_comes_twice_is_refused_and_a_failure_told_in_one_line():
    class Connection:
        def __init__(self, rows):
            self.rows = rows

        def execute(self, statement):
            if self.rows is None:
                raise ValueError("first\nsecond")
            return self

        def fetchall(self):
            return self.rows

    assert sql._found(Connection([("a", 1.0), ("b", 2.0)]), "", question()) == {("a",): (1.0,), ("b",): (2.0,)}
    with pytest.raises(InputError, match="each expression of GROUP BY must be selected as it"):
        sql._found(Connection([("a", 1.0), ("a", 2.0)]), "", question())
    with pytest.raises(InputError, match=r"the query cannot be computed: first$"):
        sql._found(Connection(None), "", question())
    with pytest.raises(InputError, match=r"first; of its columns, these hold texts, .* single quotes: a, b$"):
        sql._found(Connection(None), "", replace(question(), texts=("a", "b")))
