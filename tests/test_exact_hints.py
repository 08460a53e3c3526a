"""Hints and guesses at their limits: the number of rows, values or digits at which each begins, and one below."""

import datetime

import narwhals as nw
import numpy as np
import pandas as pd
import pytest

import trigmech as tm
from trigmech.inspection import categories, numbers, tallies
from trigmech.inspection.findings import Finding, Findings, printable
from trigmech.inspection.numbers import NumberLook, digits_of, has_digits
from trigmech.schema import guessing, times
from trigmech.schema.guessing import ALL_DIFFER, INFINITE, MIXED, MOSTLY, ONE, POINTS, THOUSANDS, UNITS, WHOLE, ZEROS
from trigmech.tables.frames import Columns
from trigmech.tables.writer import USUAL


def hints(column, values, bad=None, chunks=1):
    look = NumberLook(column)
    for rows in np.array_split(np.arange(len(values)), chunks):
        look.add(np.asarray(values, dtype=np.float64)[rows], {} if bad is None else {"mark": bad[rows]}, rows + 1)
    return {each.kind: (each.count, each.lines, each.sentence) for each in look.findings()}


WIDE = tm.Column("x", 0, 1_000, decimals=3)


@pytest.mark.parametrize("chunks", [1, 3])
def test_each_fault_of_a_number_is_counted_once(chunks):
    column = tm.Column("x", 0, 10, kind="integer", special=[99])
    values = np.array([1.0, 99.0, np.nan, np.inf, -np.inf, 10.0, 10.5, -0.25, 20.0, 20.5, -10.0, -11.0, 2.0, np.nan])
    bad = np.arange(14) == 13
    found = hints(column, values, bad, chunks)
    assert {kind: (count, lines) for kind, (count, lines, _) in found.items()} == {
        "mark": (1, (14,)), "missing": (1, (3,)), "infinite": (2, (4, 5)), "far outside": (2, (10, 12)),
        "outside": (4, (7, 8, 9, 11)), "not whole": (3, (7, 8, 10))}


@pytest.mark.parametrize(("different", "rows", "found"), [(19, 190, True), (20, 200, False), (19, 189, False),
                                                          (2, 100, True), (2, 99, False)])
def test_numbers_of_a_few_values_may_be_categories(different, rows, found):
    values = np.arange(rows) % different * 37.0
    known = hints(tm.Column("x", 0, 1_000, kind="integer"), values)
    assert ("few values" in known) == found
    if found:
        assert known["few values"] == (rows, (), f"all numbers are among {different} values")
    assert ("few values" in hints(tm.Column("x", 0, 1_000), values)) == found


@pytest.mark.parametrize(("kind", "upper", "found"), [("integer", 64, True), ("integer", 63, False),
                                                      ("continuous", 63, True)])
def test_few_whole_numbers_that_are_possible_need_no_categories(kind, upper, found):
    assert ("few values" in hints(tm.Column("x", 0, upper, kind=kind), np.arange(100) % 2 * 8.0)) == found


def test_the_values_of_a_binary_column_are_its_bounds():
    found = hints(tm.Column("x", 2, 7, kind="binary"), [2.0, 7.0, 3.0, 2.5, 8.0])
    assert {kind: count for kind, (count, _, _) in found.items()} == {"neither": 2, "outside": 1}


def test_times_are_counted_in_their_unit():
    day = tm.Column("t", "1970-01-02", "1970-01-11", kind="datetime")
    seconds = np.array([86_400.0, 86_400.0 + 1.0, 11 * 86_400.0, 21 * 86_400.0, -1.0])
    look = NumberLook(day)
    np.testing.assert_array_equal(look.add(seconds, {}, np.arange(5)), [1.0, 1.0, 11.0, 21.0, -1.0])
    assert {each.kind: each.lines for each in look.findings()} == {"finer": (1, 4), "far outside": (3,),
                                                                  "outside": (2, 4)}


@pytest.mark.parametrize(("rows", "least", "found"), [(20, 0.0, True), (19, 0.0, False)])
def test_identifiers_are_whole_and_different_in_twenty_rows(rows, least, found):
    column = tm.Column("x", 0, 10**9, kind="integer")
    values = np.arange(rows) * 10.0**7
    assert ("identifier" in hints(column, values, chunks=2)) == found
    assert "identifier" not in hints(column, np.where(np.arange(rows) == 3, values[5], values), chunks=2)
    assert "identifier" not in hints(tm.Column("x", 0, 10**9), np.where(np.arange(rows) == 3, 0.5, values), chunks=2)
    if found:
        assert hints(column, values)["identifier"] == (
            20, (), "all 20 values are different whole numbers, as identifiers are")


@pytest.mark.parametrize(("span", "rows", "wide"), [(1.0, 20, False), (0.999, 20, True), (0.5, 19, False)])
def test_bounds_are_too_wide_from_a_thousand_times_the_values_on(span, rows, wide):
    values = 5.0 + span * np.linspace(0.0, 1.0, rows)
    found = hints(WIDE, np.round(values, 3))
    assert ("too wide" in found) == wide
    if wide:
        assert found["too wide"] == (20, (), "the bounds are more than 1,000 times as far apart as the values")


def spiked(value, count, others=None, total=200):
    others = np.linspace(100.0, 900.0, 40) if others is None else others
    return np.concatenate([np.resize(others, total - count), np.full(count, value)])


@pytest.mark.parametrize(("values", "special"), [
    (spiked(0.0, 10), True), (spiked(0.0, 9), False), (spiked(0.0, 10, total=201), False),
    (spiked(0.0, 10, np.linspace(100.0, 900.0, 19)), True), (spiked(0.0, 10, np.linspace(100.0, 900.0, 18)), False),
    (spiked(900.0, 10), True), (spiked(100.0, 10), True), (spiked(500.0, 60), False), (spiked(1_001.0, 10), True),
    (spiked(700.0, 10, np.append(np.linspace(0.0, 600.0, 30), np.linspace(801.0, 1_000.0, 10))), False),
    (spiked(700.0, 10, np.append(np.linspace(0.0, 599.0, 30), np.linspace(801.0, 1_000.0, 10))), True)])
def test_a_value_of_many_rows_is_special_if_it_stands_apart(values, special):
    assert ("special" in hints(WIDE, np.round(values, 3))) == special


def test_a_special_value_is_told_with_its_part_of_the_rows():
    found = hints(WIDE, np.round(spiked(1_001.0, 12), 3))
    assert found["special"] == (12, (189,), "12 rows (6%) hold the same value outside the bounds")
    assert hints(WIDE, np.round(spiked(0.0, 20), 3))["special"] == (20, (181,), "20 rows (10%) hold the same value")
    assert "special" not in hints(tm.Column("x", 0, 1, kind="binary"), spiked(0.0, 20))


@pytest.mark.parametrize(("digits", "rows", "told"), [
    (0, 20, "all values are whole numbers"), (0, 19, None), (1, 20, "no value has more than 1 digit after the point"),
    (7, 20, None)])
def test_digits_other_than_the_default_are_told(digits, rows, told):
    rng = np.random.default_rng(3)
    column = tm.Column("x", 0, 1_000 / 10**digits * 100)
    default = numbers.default_digits(column)
    values = np.round(rng.uniform(0.0, 1_000.0, rows), digits) / 1.0 if digits < 7 else rng.uniform(0.0, 0.01, rows)
    values[0] = round(0.5 + 1.0 / 10**digits, digits) if digits else 3.0
    found = hints(tm.Column("x", 0, 10) if told and default is None else column, np.clip(values, 0.0, column.upper))
    held = found.get("decimals")
    inside = default is not None and default[0] <= digits <= default[1]
    assert (held is not None) == (told is not None and not inside)
    if held is not None:
        assert held == (20, (), told)


def test_digits_are_counted_up_to_six():
    assert [digits_of(np.array(values)) for values in ([1.0, 2.0], [0.5, 1.0], [0.25], [0.000001], [1e-7], [])] == [
        0, 1, 2, 6, 7, 0]
    assert has_digits(np.array([0.125, 0.12, np.inf, 1e300]), 2).tolist() == [False, True, True, True]


@pytest.mark.parametrize(("rows", "told"), [(2, True), (1, False)])
def test_one_value_in_all_of_two_rows_is_a_constant(rows, told):
    assert ("constant" in hints(WIDE, np.full(rows, 3.0))) == told
    if told:
        assert hints(WIDE, [3.0, 3.0])["constant"] == (2, (), "all 2 rows hold the same value")
        assert "constant" not in hints(tm.Column("x", 0, 10, missing="keep"), [3.0, 3.0, np.nan])
        assert "constant" not in hints(WIDE, [3.0, 3.0, 3.0], np.array([True, True, True]))


# Categories


def of_categories(column, values):
    look = categories.CategoryLook(column)
    table = Columns(pd.DataFrame({"c": values}), ("c",))
    look.add(table, 0, {}, np.arange(len(values)))
    return {each.kind: (each.count, each.lines, each.sentence) for each in look.findings()}


LETTERS = tm.Column("c", kind="categorical", categories=list("abcdefgh"))


def test_strange_values_are_told_apart_from_those_in_other_capitals():
    found = of_categories(LETTERS, ["a", " A", "z", "y", "z", None, "H "])
    assert found["missing"][:2] == (1, (5,))
    look = categories.CategoryLook(LETTERS)
    look.add(Columns(pd.DataFrame({"c": ["a", "B", "z", "y", "z"]}), ("c",)), 0, {}, np.arange(5))
    assert [(each.kind, each.count, each.lines, each.sentence) for each in look.findings()] == [
        ("no category", 2 + 1, (2, 3, 4), "3 values not among the categories (2 different values)"),
        ("no category", 1, (1,), "1 value that differ from a category only in capital letters")]


@pytest.mark.parametrize(("rows", "told"), [(20, True), (19, False)])
def test_categories_that_never_occur_are_named_from_twenty_rows_on(rows, told):
    found = of_categories(LETTERS, ["a", "b"] * (rows // 2) + ["a"] * (rows % 2))
    assert ("never occurs" in found) == told
    if told:
        names = "'c', 'd', 'e', 'f', 'g'" if categories.NAMED == 5 else None
        assert found["never occurs"][0] == 6
        assert names is None or found["never occurs"][2] == f"6 categories in no row: {names} and 1 more"
        # If all rows hold the same one, that alone is told.
        assert set(of_categories(LETTERS, ["a"] * 20)) == {"constant"}
        other = tm.Column("c", kind="categorical", categories=["a", "b", "else"], other="else")
        assert of_categories(other, ["a", "b"] * 10) == {}


def test_many_categories_that_are_whole_numbers_may_be_a_quantity():
    def told(names, kind="categorical"):
        return "numbers" in of_categories(tm.Column("c", kind=kind, categories=names), names * 20)

    many = [str(k) for k in range(categories.MANY_NUMBERS)]
    assert told(many)
    assert not told(many[1:])
    assert not told([*many[1:], "01"])
    assert not told([*many, "x"])
    assert not told(many, "ordinal")


@pytest.mark.parametrize(("texts", "kinds"), [
    ([f"name {k}" for k in range(20)], {"identifier"}), ([f"name {k}" for k in range(19)], set()),
    (["same"] * 2, {"constant"}), (["same"], set()), (["same", " same "], {"constant"}), (["same", None], set()),
    ([f"name {k}" for k in range(20)] + ["name 3"], set())])
def test_private_categories_are_looked_at_for_constants_and_identifiers(texts, kinds):
    column = tm.Column("c", kind="categorical", categories="private", missing="keep")
    assert set(of_categories(column, texts)) == kinds


# Tallies


def test_what_is_compared_ends_at_the_limit(monkeypatch):
    monkeypatch.setattr(tallies, "COMPARED", 4)
    for later in ([5.0, 6.0], [1.0, 1.0]):
        look, texts = tallies.Different(), tallies.DifferentTexts()
        for part in ([1.0, 2.0, 3.0], [4.0, *later], later):
            look.add(np.array(part))
            texts.add(dict.fromkeys(part), len(part))
        assert (look.all, look.count) == (True, 4)
        assert (texts.all, texts.count) == (True, 4)
    texts = tallies.DifferentTexts()
    texts.add(["a", "b"], 3)
    texts.add(["c"], 1)
    assert (texts.all, texts.count) == (False, 2)


def test_frequent_values_keep_their_first_line_and_lose_the_rarest_count(monkeypatch):
    monkeypatch.setattr(tallies, "COUNTED", 2)
    look = tallies.Frequent()
    look.add(np.array([3.0, 5.0, 5.0, 5.0]), np.array([11, 12, 13, 14]))
    assert (look.complete, look.total, look.different) == (True, 4, 2)
    assert look.above(0) == [(5.0, 3, (12,)), (3.0, 1, (11,))]
    look.add(np.array([7.0, 7.0]), np.array([15, 16]))
    assert (look.complete, look.total) == (False, 6)
    assert look.above(0) == [(5.0, 2, (12,)), (7.0, 1, (15,))]
    assert look.above(2) == [(5.0, 2, (12,))]
    # Of a chunk of more values than are counted, those that are more frequent than the first that is not.
    look.add(np.array([1.0, 2.0, 2.0, 3.0, 3.0, 3.0, 5.0, 5.0]), np.arange(8))
    assert look.above(0) == [(5.0, 1, (12,))]
    look.add(np.array([1.0, 2.0, 2.0, 3.0, 3.0, 3.0, 3.0, 4.0]), np.arange(20, 28))
    assert look.above(0) == [(3.0, 2, (23,))]
    # Others have no count; the least and the greatest are known.
    assert (look.some.tolist(), look.different) == ([1.0, 7.0], 3)


def test_a_frequent_value_loses_no_more_than_its_bound_whatever_the_chunks(monkeypatch):
    monkeypatch.setattr(tallies, "COUNTED", 8)
    look, held, total = tallies.Frequent(), 0, 0
    # What is lost within a chunk and what is lost between chunks was counted twice.
    for chunk in [[-1.0] * 20, *([*np.repeat(np.arange(8.0) + 8 * i, 2), -1.0] for i in range(15))]:
        look.add(np.array(chunk), np.arange(len(chunk)))
        held, total = held + chunk.count(-1.0), total + len(chunk)
        known = {value: count for value, count, _ in look.above(0)}
        assert held - total / 9 <= known.get(-1.0, 0) <= held
    assert known[-1.0] >= 2


def test_some_values_are_known_that_lie_evenly_among_all(monkeypatch):
    monkeypatch.setattr(tallies, "COUNTED", 5)
    look = tallies.Frequent()
    for chunk, some in (([3.0, 1.0, 1.0], [1.0, 3.0]), ([2.0, 4.0, 0.0], [0.0, 1.0, 2.0, 3.0, 4.0]),
                        ([5.0, 6.0, 7.0, 8.0], [0.0, 2.0, 4.0, 6.0, 8.0]), ([2.0, 2.0], [0.0, 2.0, 4.0, 6.0, 8.0])):
        look.add(np.array(chunk), np.arange(len(chunk)))
        assert look.some.tolist() == some
    assert (look.complete, look.different) == (False, 6)


@pytest.mark.parametrize("chunks", [1, 2, 3, 4])
def test_a_value_of_many_rows_is_told_whatever_the_number_of_chunks(monkeypatch, chunks):
    """After every second chunk of different numbers it was the only one with a count, and nothing was told."""
    monkeypatch.setattr(tallies, "COUNTED", 64)
    look, rng = NumberLook(tm.Column("x", lower=0.0, upper=1.0)), np.random.default_rng(0)
    for _ in range(chunks):
        values = rng.uniform(0.25, 1.0, 400)
        values[:40] = 0.0
        look.add(values, {}, np.arange(400))
    told = [each for each in look.findings() if each.kind == "special"]
    assert len(told) == 1
    assert 40 * chunks - 400 * chunks / 65 <= told[0].count <= 40 * chunks
    # One among others, in the middle, is no special one.
    look = NumberLook(tm.Column("x", lower=0.0, upper=1.0))
    for _ in range(chunks):
        values = rng.uniform(0.0, 1.0, 400)
        values[:40] = 0.5
        look.add(values, {}, np.arange(400))
    assert not [each for each in look.findings() if each.kind == "special"]


def test_findings_are_told_by_severity_with_their_lines():
    found = Findings((Finding("a", "refused", "missing", 7, (1, 2), "s1", "r1"),
                      Finding(None, "hint", "file", 1, (4,), "s2", "r2"),
                      Finding("a", "refused", "missing", 2, (), "s3", "r3")), 1_234, "row")
    lines = str(found).splitlines()
    assert lines[0] == "A release would be refused. 1,234 rows were read; findings: 2 refused, 1 hint."
    assert lines[3:7] == ["  'a': s1 (rows 1, 2, ...)", "      r1", "  'a': s3", "      r3"]
    assert "  the table: s2 (row 4)" in lines
    assert found.counts() == {"a": {"missing": 9}}
    assert found.counts(["file"]) == {}
    assert (len(found), found.refused, repr(found)) == (3, True, "Findings(private)")
    assert printable("a\tb") == "a\\tb"
    clean = Findings((), 20, "line")
    assert clean.verdict.startswith("Nothing was found in 20 rows")
    assert str(clean) == clean.verdict


# Guesses


def guess(values, **options):
    return guessing._guess(values, nw.from_native(pd.DataFrame({"x": pd.Series(values, dtype=object)}),
                                                  eager_only=True).schema["x"], USUAL | options)


@pytest.mark.parametrize(("values", "kind", "doubt"), [
    (["1", "2"], "integer", []), (["01", "2"], "categorical", [ZEROS]), (["-01"], "categorical", [ZEROS]),
    (["0", "0.5"], "continuous", []), (["1.0", "2."], "integer", [WHOLE]), (["1e5", "2"], "continuous", []),
    (["1", "inf"], "integer", [INFINITE]), (["1.5", "-Infinity", "nan"], "continuous", [INFINITE]),
    (["nan"], "continuous", []), (["inf"], "continuous", [INFINITE]), (["a", "inf"], "categorical", []),
    (["1,5", "2,25"], "categorical", ["Numbers? Then make this file again and --decimal ','."]),
    (["1,234", "5,678"], "categorical", [THOUSANDS]), (["1,5", "2.5"], "categorical", [MIXED]),
    (["2020-01-31", "2020-02-01"], "datetime", []), (["2020-01-31", "31.01.2020"], "categorical", [guessing.FORMS]),
    (["31.01.2020", "01/02/2020"], "categorical", [guessing.FORMS]),
    (["31.01.2020", "01.13.2020"], "categorical", [guessing.FORMS]),
    (["10:30", "9:05"], "categorical", [guessing.TIMES]),
    (["5 kg", "7 kg"], "categorical", [UNITS]), (["1", "2", "3", "4", "x"], "categorical", [MOSTLY]),
    (["True", "False"], "categorical", []), (["true", "no"], "categorical", []),
    (["1", "2", "3", "xx", "x"], "categorical", []), (["$5", "1", "2", "3"], "categorical", [MOSTLY]),
    (["05 kg", "7 kg"], "categorical", []), ([True, False], "categorical", []), ([1, 2], "integer", []),
    ([1, 2.5], "continuous", []), ([1, 2.0], "integer", [WHOLE]), ([datetime.date(2020, 1, 1)], "datetime", []),
    ([1, "a"], "categorical", []), ([True, 2], "categorical", [])])
def test_kinds_are_guessed_from_what_was_written(values, kind, doubt):
    found, said = guess(values)
    if doubt and doubt[0].startswith("Numbers? Then"):
        assert len(said) == 1
        assert said[0].startswith("Numbers? Then make this file again and ")
        doubt = said
    assert (found, said) == (kind, doubt)


def test_a_stated_form_decides_what_digits_are():
    assert guess(["31.01.2020"], date_format="%d.%m.%Y") == ("datetime", [])
    assert guess(["20200131", "20200201"], date_format="%Y%m%d") == ("datetime", [])
    assert guess(["20200131", "20200201"]) == ("integer", [])
    assert guess(["1,5", "2,0"], decimal=",") == ("continuous", [])
    assert guess(["1,0", "2,0"], decimal=",") == ("integer", [WHOLE])
    assert guess(["1.5", "2,0"], decimal=",") == ("categorical", [POINTS])
    assert guess(["1.234,5", "2", "3", "4", "5"], decimal=",") == ("categorical", [POINTS])


def test_groups_of_three_digits_are_counted():
    assert guessing._grouped(["1,234", "5,6", "7"], ",") == 0.5
    assert guessing._grouped(["1,234,567", "12,345"], ",") == 1.0
    assert guessing._grouped(["0,234", "1234,567"], ",") == 0.0
    assert guessing._grouped(["5"], ",") == 0.0


@pytest.mark.parametrize(("values", "forms"), [
    (["1.2.2020", "31.1.2020"], {"."}), (["31/1/2020", "1/31/2020"], {"/day first", "/month first"}),
    (["12/12/2020", "13/1/2020"], {"/"}), (["2020/1/31"], {guessing.YEAR_FIRST}), (["3 May 2020"], {guessing.NAMED}),
    (["May 3, 2020", "word"], set()), (["2020-01-01T10:00"], {guessing.ISO})])
def test_forms_of_dates_are_told_apart(values, forms):
    assert guessing._forms_of_dates(values) == forms


@pytest.mark.parametrize(("count", "kind", "differ"), [(50, "categorical", True), (49, "categorical", False),
                                                      (50, "integer", True), (50, "continuous", False)])
def test_fifty_different_values_identify_rows(count, kind, differ):
    texts = [str(k) for k in range(count)]
    assert guessing._identifies(kind, texts, texts) == differ
    if kind == "integer":
        # Numbers that do not grow are no numbers of rows.
        swapped = [texts[1], texts[0], *texts[2:]]
        assert not guessing._identifies(kind, swapped, swapped)
        assert not guessing._identifies(kind, texts, [*texts, texts[-1]])


def test_a_beginning_says_what_it_guesses_and_why_it_doubts(monkeypatch):
    frame = pd.DataFrame({"a": [f"n{k}" for k in range(60)], "b": [7] * 60, "c": [None] * 60,
                          "late": [None] * 59 + [2.5], "ok": [1.5, 2.5] * 30})
    beginning = guessing.Beginning(frame)
    assert beginning.guess("a") == ("categorical", [ALL_DIFFER])
    assert beginning.guess("b") == ("integer", [ONE])
    assert beginning.guess("c") == ("", [guessing.NOTHING])
    assert beginning.guess("late") == ("continuous", [])
    assert beginning.guess("ok") == ("continuous", [])
    assert repr(beginning) == "Beginning(d=5, values hidden)"
    monkeypatch.setattr(guessing, "LOOKED_AT", 10)
    assert guessing.Beginning(frame).guess("late") == ("continuous", [])
    monkeypatch.setattr(guessing, "LOOKED_THROUGH", 59)
    assert guessing.Beginning(frame).guess("late") == ("", [guessing.NOTHING])


# Times


def moment(*parts):
    return datetime.datetime(*parts)


@pytest.mark.parametrize(("lower", "upper", "special", "found"), [
    (datetime.date(2020, 1, 1), datetime.date(2020, 2, 1), (), "day"),
    (moment(2020, 1, 1, 5), moment(2020, 1, 2, 5), (), "hour"),
    (moment(2020, 1, 1, 5), moment(2020, 1, 2, 4), (), "minute"),
    (moment(2020, 1, 1, 5, 30), moment(2020, 1, 1, 6, 30), (), "minute"),
    (moment(2020, 1, 1, 5, 30), moment(2020, 1, 1, 6, 29), (), "second"),
    (moment(2020, 1, 1, 5), moment(2020, 1, 3, 5), (moment(2020, 1, 1, 6, 30),), "minute"),
    (moment(2020, 1, 1, 5), moment(2020, 1, 3, 5), (moment(2020, 1, 1, 6, 30, 1),), "second"),
    (moment(2020, 1, 1), moment(2020, 1, 3), (), "second"),
    (moment(2020, 1, 1), datetime.date(2020, 1, 3), (), "second"),
    (moment(2020, 1, 1, 5), datetime.date(2020, 1, 3), (), "hour")])
def test_how_fine_times_are_follows_from_the_form_of_their_bounds(lower, upper, special, found):
    assert times.resolution_of(lower, upper, special) == found


def test_bounds_are_cut_to_their_resolution_and_a_last_day_ends_at_its_end():
    first, last = datetime.date(2020, 1, 1), datetime.date(2020, 1, 31)
    assert times.with_resolution(first, last, None) == (first, last, "day")
    assert times.with_resolution(moment(2020, 1, 1, 5), moment(2020, 1, 31, 6), "day") == (first, last, "day")
    assert times.with_resolution(first, last, "second")[:2] == (moment(2020, 1, 1), moment(2020, 1, 31, 23, 59, 59))
    assert times.with_resolution(first, last, "minute")[:2] == (moment(2020, 1, 1), moment(2020, 1, 31, 23, 59))
    assert times.with_resolution(first, last, "hour")[:2] == (moment(2020, 1, 1), moment(2020, 1, 31, 23))
    assert times.with_resolution(first, moment(2020, 1, 31, 5, 6, 7, 8), "second")[:2] == (
        moment(2020, 1, 1), moment(2020, 1, 31, 5, 6, 7, 8))
    assert times.with_resolution(moment(2020, 1, 1, 2, 3, 4), last, "minute")[:2] == (
        moment(2020, 1, 1, 2, 3), moment(2020, 1, 31))


def test_times_are_read_without_their_zone():
    zone = datetime.timezone(datetime.timedelta(hours=2))
    assert times.read(datetime.datetime(2020, 1, 1, 1, 2, 3, 4, zone)) == moment(2019, 12, 31, 23, 2, 3, 4)
    assert times.read("2020-01-01T01:02:03+02:00") == moment(2019, 12, 31, 23, 2, 3)
    assert times.read("2020-01-01") == datetime.date(2020, 1, 1)
    assert times.read(np.datetime64("2020-01", "M")) == datetime.date(2020, 1, 1)
    assert times.read(np.datetime64("2020-01-01T05:06", "m")) == moment(2020, 1, 1, 5, 6)
    assert times.read("word") is times.read(5) is None
    assert times.read(datetime.datetime(1, 1, 1, tzinfo=zone)) is None
    assert [times.is_date(value) for value in (datetime.date(2020, 1, 1), moment(2020, 1, 1), "2020-01-01")] == [
        True, False, False]


def test_numbers_of_times_are_units_since_1970_and_back():
    at = moment(1970, 1, 3, 6, 30)
    assert [times.number_of(at, unit) for unit in ("day", "hour", "minute", "second")] == [
        2.0 + 6.5 / 24.0, 54.5, 3_270.0, 196_200.0]
    assert times.number_of(datetime.date(1970, 1, 3), "hour") == 48.0
    for unit, text, dtype in (("day", "1970-01-03", "<M8[D]"), ("hour", "1970-01-01T02:00:00", "<M8[s]"),
                              ("minute", "1970-01-01T00:02:00", "<M8[s]"), ("second", "1970-01-01T00:00:02", "<M8[s]")):
        found, = times.times_of(np.array([2.0]), unit)
        assert (str(found), found.dtype.str) == (text, dtype)

