"""Constraints: the grammar and its messages, what they mean against plain Python, and what no row can keep."""

import datetime
import fractions
import itertools
import operator
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import trigmech as tm
from trigmech.cli.app import main
from trigmech.errors import InputError
from trigmech.schema import satisfiability
from trigmech.schema import toml as schema_file
from trigmech.schema.column import Column
from trigmech.schema.constraints import allowed, stated
from trigmech.schema.satisfiability import representatives
from trigmech.schema.schema import Schema

laws = settings(max_examples=40, derandomize=True, deadline=None, database=None)
LEVELS = ["low", "middle", "high"]
COLUMNS = [
    Column("age", 0, 6, "integer", missing="keep", special=(99,)),
    Column("family size", 1, 5, "integer"),
    Column("income", -1, 1, missing="keep"),
    Column('the "b"', 0, 1, "binary", missing="keep"),
    Column("level", kind="ordinal", categories=LEVELS, missing="keep"),
    Column("in", kind="ordinal", categories=LEVELS),
    Column("size", kind="ordinal", categories=[4, 2.5, 1]),
    Column("sex", kind="categorical", categories=["it's", "M", " low"], missing="keep"),
    Column("flag", kind="categorical", categories=[True, False], missing="keep"),
    Column("day", "2020-01-01", "2020-01-06", "datetime", missing="keep"),
    Column("time", "2020-01-01", "2020-01-06T12:00:00", "datetime"),
]
NAMED = {column.name: column for column in COLUMNS}
START = datetime.datetime(2020, 1, 1)
HELD = {
    "age": [0, 1, 2, 5, 6, 99], "family size": [1, 2, 5], "income": [-1.0, -0.25, 0.0, 0.5, 1.0], 'the "b"': [0, 1],
    "level": LEVELS, "in": LEVELS, "size": [4, 2.5, 1], "sex": ["it's", "M", " low"], "flag": [True, False],
    "day": [START.date() + datetime.timedelta(days=k) for k in range(4)],
    "time": [START + datetime.timedelta(hours=12 * k) for k in range(6)],
}
ORDERED = ("=", "!=", "<", "<=", ">", ">=")
# Columns that can be compared with one another, and how.
PAIRS = [("age", "family size", ORDERED), ("income", "age", ORDERED), ('the "b"', "age", ORDERED),
         ("family size", "size", ("=", "!=")), ("size", "age", ("=", "!=")), ("level", "in", ORDERED),
         ("sex", "level", ("=", "!=")), ("day", "time", ORDERED), ("day", "day", ORDERED)]
PLAIN = {"=": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt,
         ">=": operator.ge}


def in_order(name, value, ordered):
    """A value as it compares: by the order of its categories, without white space, and days as midnight."""
    if isinstance(value, str):
        value = value.strip()
    if ordered and name in NAMED and NAMED[name].kind == "ordinal":
        return list(NAMED[name].categories).index(value)
    return value if isinstance(value, datetime.datetime) or not isinstance(value, datetime.date) else (
        datetime.datetime.combine(value, datetime.time()))


def keeps(tree, row):
    """Whether a row (a mapping, None where missing) keeps a rule, by the plain rules of the documentation."""
    match tree:
        case ("not", part):
            return not keeps(part, row)
        case ("and", *parts):
            return all(keeps(part, row) for part in parts)
        case ("or", *parts):
            return any(keeps(part, row) for part in parts)
        case ("implies", first, second):
            return keeps(second, row) if keeps(first, row) else True
        case ("if and only if", first, second):
            return keeps(first, row) is keeps(second, row)
        case ("is missing", name):
            return row[name] is None
        case ("is not missing", name):
            return row[name] is not None
        case ("in", name, constants):
            return row[name] is not None and any(in_order(name, row[name], False) == in_order(name, each, False)
                                                 for each in constants)
        case (("constant" | "column") as kind, name, sign, right):
            other = row[right] if kind == "column" else right
            if row[name] is None or other is None:
                return False
            ordered = sign not in ("=", "!=")
            return PLAIN[sign](in_order(name, row[name], ordered),
                               in_order(right if kind == "column" else name, other, ordered))
    raise ValueError(tree)


def quoted(text, mark='"'):
    return mark + text.replace(mark, 2 * mark) + mark


def literal(value):
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return quoted(value, "'")
    return quoted(value.isoformat()) if isinstance(value, datetime.date) else repr(value)


def written(tree):
    """A rule as text, with every parenthesis."""
    match tree:
        case ("not", part):
            return f"not ({written(part)})"
        case (("and" | "or" | "implies" | "if and only if") as joined, *parts):
            return f" {joined}  ".join(f"({written(part)})" for part in parts)
        case (("is missing" | "is not missing") as asked, name):
            return f"{quoted(name)} {asked}"
        case ("in", name, constants):
            return f"{quoted(name)} in({','.join(map(literal, constants))})"
        case ("constant", name, sign, value):
            return f"{quoted(name)}{sign}{literal(value)}"
        case ("column", name, sign, other):
            return f"{quoted(name)} {sign} {quoted(other)}"
    raise ValueError(tree)


def conditions(held=HELD, pairs=PAIRS, columns=NAMED):
    def compared(name):
        signs = ("=", "!=") if columns[name].kind == "categorical" else ORDERED
        return st.tuples(st.just("constant"), st.just(name), st.sampled_from(signs), st.sampled_from(held[name]))

    names = st.sampled_from(list(held))
    keep = st.sampled_from([name for name in held if columns[name].missing == "keep"])
    return st.one_of(
        names.flatmap(compared),
        st.sampled_from(pairs).flatmap(lambda pair: st.tuples(st.just("column"), st.just(pair[0]),
                                                              st.sampled_from(pair[2]), st.just(pair[1]))),
        names.flatmap(lambda name: st.tuples(st.just("in"), st.just(name),
                                             st.lists(st.sampled_from(held[name]), min_size=1, max_size=3))),
        st.tuples(st.sampled_from(["is missing", "is not missing"]), keep))


def trees(leaves):
    return st.recursive(leaves, lambda part: st.one_of(
        st.tuples(st.just("not"), part), st.tuples(st.sampled_from(["implies", "if and only if"]), part, part),
        st.lists(part, min_size=2, max_size=3).flatmap(lambda parts: st.sampled_from(["and", "or"]).map(
            lambda joined: (joined, *parts)))), max_leaves=5)


def random_rows(rng, m):
    def one(name):
        missing = NAMED[name].missing == "keep" and rng.uniform() < 0.25
        return None if missing else HELD[name][rng.integers(len(HELD[name]))]

    return [{name: one(name) for name in HELD} for _ in range(m)]


TYPES = {"age": np.int64, "family size": np.int64, "income": float, 'the "b"': np.int64, "size": float, "flag": bool,
         "day": "M8[D]", "time": "M8[s]"}


def decoded(rows):
    """Rows in the form of Schema.decode."""
    columns = {}
    for name, held in HELD.items():
        gone = [row[name] is None for row in rows]
        values = np.array([held[0] if row[name] is None else row[name] for row in rows], dtype=TYPES.get(name, object))
        columns[name] = np.ma.MaskedArray(values, gone) if NAMED[name].missing == "keep" else values
    return columns


def made(columns, constraints):
    """The schema, or the message of the error."""
    try:
        return Schema(columns, constraints), None
    except InputError as error:
        return None, str(error)


# What a constraint means


@laws
@given(trees(conditions()), st.integers(0, 2**32))
def test_rows_keep_a_constraint_as_plain_python_says(tree, seed):
    rows = random_rows(np.random.default_rng(seed), 60)
    expected = [keeps(tree, row) for row in rows]
    schema, refusal = made(COLUMNS, [written(tree)])
    if refusal:
        assert refusal.startswith("no row can satisfy the constraint: ")
        assert not any(expected)
        return
    constraint = schema.constraints[0]
    found = constraint.holds(decoded(rows))
    assert found.dtype == np.bool_
    assert found.tolist() == expected == schema.holds(decoded(rows)).tolist()
    # The normal form has the same meaning, and is its own normal form.
    again = Schema(COLUMNS, [constraint.text]).constraints[0]
    assert again == constraint
    assert again.holds(decoded(rows)).tolist() == expected


@pytest.mark.parametrize("frame", [pd.DataFrame, lambda rows: pd.DataFrame(rows, dtype=object), pl.DataFrame,
                                   lambda rows: np.array([list(row.values()) for row in rows], dtype=object)])
def test_tables_of_any_library_are_read_as_they_stand(frame):
    rules = [("implies", ("constant", "age", "<", 2), ("is missing", "level")), ("column", "day", "<=", "time"),
             ("or", ("constant", "income", ">=", 0.5), ("constant", "sex", "!=", "M"), ("constant", "flag", "=", True)),
             ("constant", "size", "<", 1)]
    schema = Schema(COLUMNS, map(written, rules))
    rows = random_rows(np.random.default_rng(3), 200)
    expected = [all(keeps(rule, row) for rule in rules) for row in rows]
    assert schema.holds(frame(rows)).tolist() == schema.holds(decoded(rows)).tolist() == expected
    assert 0 < sum(expected) < 200


def test_rows_of_a_schema_without_constraints_all_hold():
    points = np.random.default_rng(0).uniform(-1, 1, (5, 2))
    schema = Schema.cube(2)
    assert schema.constraints == ()
    assert schema.holds(points).tolist() == schema.holds(schema.decode(points)).tolist() == [True] * 5


def test_what_decode_returns_can_be_asked():
    schema = Schema(COLUMNS, ['age is missing if and only if level is missing', '"in" <= level or level is missing'])
    points = np.random.default_rng(1).uniform(-1, 1, (300, schema.width))
    values = schema.decode(points)
    rows = [{name: None if cell is np.ma.masked else cell for name, cell in zip(values, cells, strict=True)}
            for cells in zip(*values.values(), strict=True)]
    expected = [(row["age"] is None) == (row["level"] is None)
                and (row["level"] is None or LEVELS.index(row["in"]) <= LEVELS.index(row["level"])) for row in rows]
    assert schema.holds(values).tolist() == expected
    assert 0 < sum(expected) < 300
    with pytest.raises(InputError, match=r"'age is missing if and only if .* needs the column\(s\) 'level'"):
        schema.constraints[0].holds({"age": values["age"]})


def test_a_value_of_a_table_that_is_no_category_is_refused_without_being_quoted():
    schema = Schema([Column("level", kind="ordinal", categories=LEVELS)], ["level > 'low'"])
    with pytest.raises(InputError, match=r"^column 'level' holds a value that is not among the categories$"):
        schema.holds(pd.DataFrame({"level": ["low", "secret"]}))


@pytest.mark.nightly
@laws
@given(trees(conditions()))
def test_allowed_combinations_are_those_of_rows(tree):
    schema, refusal = made(COLUMNS, [written(tree)])
    if refusal:
        return
    constraint, = schema.constraints
    positions = decoded([{name: held[k % len(held)] for name, held in HELD.items()} for k in range(2)]
                        + [dict.fromkeys(HELD)])
    positions = {name: values[:2] if NAMED[name].missing != "keep" else values for name, values in positions.items()}
    found = allowed(constraint, positions)
    assert found.shape == tuple(len(positions[name]) for name in constraint.columns)
    for place in np.ndindex(found.shape):
        row = {name: positions[name][k:k + 1] for name, k in zip(constraint.columns, place, strict=True)}
        assert found[place] == constraint.holds(row)[0]


# The grammar


@pytest.mark.parametrize(("text", "normal", "columns"), [
    ('"age"  < 1_5 implies\t"level" is   missing', "age < 15 implies level is missing", ("age", "level")),
    ('level is missing or "family size" > age', 'level is missing or "family size" > age',
     ("age", "family size", "level")),
    ("not (age = 1 and flag = true)", "not (age = 1 and flag = true)", ("age", "flag")),
    ("(not (age = 1)) and ((flag = true))", "not age = 1 and flag = true", ("age", "flag")),
    ("age=1 or age=2 and age=3", "age = 1 or age = 2 and age = 3", ("age",)),
    ("(age=1 or age=2) and age!=3", "(age = 1 or age = 2) and age != 3", ("age",)),
    ("age=1 or (age=2 or age=3)", "age = 1 or age = 2 or age = 3", ("age",)),
    ("not not age = 1", "not not age = 1", ("age",)),
    ("(age=1 implies age=2) implies age=3", "(age = 1 implies age = 2) implies age = 3", ("age",)),
    ("age=1 implies age=2 if  and only if age=3", "age = 1 implies age = 2 if and only if age = 3", ("age",)),
    ("age=1 implies (age=2 if and only if age=3)", "age = 1 implies (age = 2 if and only if age = 3)", ("age",)),
    ("day < \"2020-01-02\" or time>=2020-01-02T10:30:00", "day < 2020-01-02 or time >= 2020-01-02T10:30:00",
     ("day", "time")),
    ("sex in ('it''s', \"low\")", "sex in ('it''s', ' low')", ("sex",)),
    ("'in' = 'low' or 'the \"b\"' = 1", "\"in\" = 'low' or \"the \"\"b\"\"\" = 1", ('the "b"', "in")),
    ("income > -.5 and income < 1e-3", "income > -0.5 and income < 0.001", ("income",)),
    ("size <= 2.5 or size = 1.0", "size <= 2.5 or size = 1", ("size",)),
    ("income < 1e300", "income < 1e+300", ("income",)),
])
def test_a_constraint_has_a_normal_form(text, normal, columns):
    constraint, = Schema(COLUMNS, [text]).constraints
    assert (constraint.text, str(constraint), constraint.columns) == (normal, normal, columns)
    again, = Schema(COLUMNS, [normal]).constraints
    assert (again, hash(again)) == (constraint, hash(constraint))
    assert pickle.loads(pickle.dumps(constraint)) == constraint


@pytest.mark.parametrize(("text", "place", "rule"), [
    ("", "at its end", "expected the name of a column on the left"),
    ("age <", "at its end", "expected a constant"),
    ("age", "at its end", "expected = or !="),
    ("age == 3", "at '=', character 6", "expected a constant"),
    ("(age = 1", "at its end", "expected )"),
    ("age = 1)", "at ')', character 8", "or the end"),
    ("age < 3 implise flag = true", "at 'implise', character 9", "expected and, or, implies, if and only if, or the"),
    ("  age = 'low", "at \"'\", character 9", "a quote is not closed"),
    ("age = 3; import os", "at ';', character 8", "not a word, number or sign"),
    ("__import__('os')", "at '__import__', character 1", "there is no column '__import__'"),
    ("ages = 3", "at 'ages', character 1", "there is no column 'ages'"),
    ("sex = M", "at 'M', character 7", "there is no column 'M'; write text in quotes"),
    ("3 < age", "at '3', character 1", "expected the name of a column on the left"),
    ("in = 'low'", "at 'in', character 1", "expected the name of a column on the left"),
    ("age in 3", "at '3', character 8", "expected ("),
    ("age in ()", "at ')', character 9", "expected a constant"),
    ("age in (1 2)", "at '2', character 11", "expected , or )"),
    ("age in (1, income)", "at 'income', character 12", "expected a constant"),
    ("sex = 'F'", "at \"'F'\", character 7", "not a category of 'sex'"),
    ("size = 3", "at '3', character 8", "not a category of 'size'"),
    ("sex < 'M'", "at '<', character 5", "the categories of 'sex' have no order"),
    ("level < sex", "at '<', character 7", "the categories of 'sex' have no order"),
    ("size < age", "at '<', character 6", "'size' and 'age' have different categories, so they have no common order"),
    ("age = 'low'", "at \"'low'\", character 7", "'age' holds numbers; these cannot be compared with text"),
    ("sex = 1", "at '1', character 7", "'sex' holds text; these cannot be compared with numbers"),
    ("flag = 1", "at '1', character 8", "'flag' holds true and false; these cannot be compared with numbers"),
    ("day = 3", "at '3', character 7", "'day' holds times; these cannot be compared with numbers"),
    ("day = '2020-02-30'", "at \"'2020-02-30'\", character 7", "not a date or time in ISO form"),
    ("day = age", "at '=', character 5", "'day' holds times and 'age' holds numbers; these cannot be compared"),
    ("time is missing", "at 'is missing', character 6", "'time' has no missing values"),
    ("time is not missing", "at 'is not missing', character 6", "'time' has no missing values"),
    ("age < 1e999", "at '1e999', character 7", "this number is too large"),
    ("age=1 implies age=2 implies age=3", "at 'implies', character 21", "appears twice: put one of the two into"),
    ("(" * 60 + "age = 1" + ")" * 60, "at '(', character 52", "nested more than 50 times"),
    ("not " * 50_000 + "age = 1", "at 'not', character 205", "nested more than 50 times"),
])
def test_what_is_wrong_is_named_with_its_place(text, place, rule):
    with pytest.raises(InputError) as caught:
        Schema(COLUMNS, [text])
    told = str(caught.value)
    assert told.startswith(f"constraint {text!r}: {place}: ")
    assert rule in told.removeprefix(f"constraint {text!r}: ")


@laws
@given(st.text(st.sampled_from(list("age <=>!()'\"1,._-implesandortf "))) | st.text())
def test_any_text_is_a_constraint_or_an_error(text):
    schema, refusal = made(COLUMNS, [text])
    assert refusal or Schema(COLUMNS, [schema.constraints[0].text]) == schema


def test_text_that_is_a_column_and_a_category_is_refused():
    columns = [Column("a", kind="categorical", categories=("b", "c")),
               Column("b", kind="ordinal", categories=("b", "d"))]
    for mark in ("'", '"'):
        with pytest.raises(InputError, match="'b' is a column and also a category of 'a'; write it without quotes for "
                                             r"the column, or write in \('b'\) for the category"):
            Schema(columns, [f"a = {mark}b{mark}"])
    column, = Schema(columns, ["a = b"]).constraints
    category, = Schema(columns, ["a in ('b')"]).constraints
    values = {"a": np.array(["b", "b", "c"], dtype=object), "b": np.array(["b", "d", "d"], dtype=object)}
    assert column.holds(values).tolist() == [True, False, False]
    assert category.holds(values).tolist() == [True, True, False]
    assert [each.columns for each in (column, category)] == [("a", "b"), ("a",)]
    # A name alone, or a category alone, is what it is in any quotes.
    assert [each.text for each in Schema(columns, ["b != 'a'", 'a = "c"']).constraints] == ["b != a", "a = 'c'"]


@pytest.mark.parametrize("given", ["age = 1", 5, None])
def test_constraints_are_a_list_of_texts(given):
    with pytest.raises(InputError, match="constraints must be a list of texts"):
        Schema(COLUMNS, given)
    with pytest.raises(InputError, match="a constraint must be text"):
        Schema(COLUMNS, [5])


# What no row can keep

# Of the continuous ones a grid is enough whose steps are a quarter of those between constants.
SMALL = [Column("a", 0, 2, "integer", missing="keep"), Column("b", 0.5, 2.5, "integer"),
         Column("x", 0, 1, special=(7,)), Column("y", 0, 1)]
SMALL_NAMED = {column.name: column for column in SMALL}
GRID = [k / 8 for k in range(9)]
SMALL_HELD = {"a": [0, 1, 2], "b": [1, 2, 3], "x": [0.0, 0.5, 1.0, 7.0], "y": [0.0, 0.5]}
SMALL_PAIRS = [(a, b, ORDERED) for a, b in itertools.permutations("abxy", 2)]
SMALL_ROWS = [dict(zip("abxy", row, strict=True))
              for row in itertools.product([0, 1, 2, None], [1, 2], [*GRID, 7.0], GRID)]


@settings(laws, max_examples=40)
@given(st.lists(conditions(SMALL_HELD, SMALL_PAIRS, SMALL_NAMED), max_size=3, unique_by=written),
       st.lists(trees(conditions(SMALL_HELD, SMALL_PAIRS, SMALL_NAMED)), max_size=3, unique_by=written))
def test_what_no_row_can_keep_is_refused_and_nothing_else(simple, more):
    rules = list({written(rule): rule for rule in [*simple, *more]}.values())

    def possible(some):
        return any(all(keeps(rule, row) for rule in some) for row in SMALL_ROWS)

    refusal = made(SMALL, map(written, rules))[1]
    assert (refusal is None) == possible(rules)
    if refusal is not None and all(possible([rule]) for rule in rules):
        normal = [Schema(SMALL, [written(rule)]).constraints[0].text for rule in rules]
        start, texts = refusal.split(": ", 1)
        assert start == "no row can satisfy all of these constraints"
        named = [rule for rule, text in zip(rules, normal, strict=True) if repr(text) in texts.split("; ")]
        assert len(named) == len(texts.split("; "))
        assert not possible(named)
        assert all(possible([other for other in named if other is not rule]) for rule in named)


@pytest.mark.daily(5)
@pytest.mark.parametrize(("columns", "constraints", "possible"), [
    ([Column(name, 0, 1) for name in "abcd"], ["a < b and b < c and c < d and a > 0 and d < 1"], True),
    ([Column(name, 0, 3, "integer") for name in "abcd"], ["a < b", "b < c", "c < d"], True),
    ([Column(name, 0, 2, "integer") for name in "abcd"], ["a < b", "b < c", "c < d"], False),
    ([Column("a", 0, 2, "integer"), Column("x", 0, 2), Column("b", 0, 2, "integer")],
     ["a < x", "x < b", "b != 2"], True),
    ([Column("a", 1, 2, "integer"), Column("x", 0, 2), Column("b", 1, 2, "integer")],
     ["a < x", "x < b", "b != 2"], False),
    ([Column("p", 0, 1, "binary"), Column("q", 2, 5, "binary")], ["q > p", "q != 5", "p = 1"], True),
    ([Column("p", 0, 1, "binary"), Column("x", 0, 1)], ["p > x", "x > 0.5", "not p = 1"], False),
    ([Column("s", kind="ordinal", categories=(1, 3)), Column("x", 0, 5)], ["x = s", "x > 1"], True),
    ([Column("s", kind="ordinal", categories=(1, 3)), Column("x", 0, 5)], ["x = s", "x > 1", "x < 3"], False),
    ([Column("s", kind="ordinal", categories=("u", "v")), Column("t", kind="ordinal", categories=("u", "v"))],
     ["s < t", "s = 'v'"], False),
    ([Column("day", "2020-01-01", "2020-01-02", "datetime"),
      Column("time", "2020-01-01T23:59:57", "2020-01-02T00:00:01", "datetime"),
      Column("late", "2020-01-01T23:59:57", "2020-01-02T00:00:01", "datetime")],
     ["time < late", "late < day"], True),
    ([Column("day", "2020-01-01", "2020-01-02", "datetime"),
      Column("time", "2020-01-01T23:59:59", "2020-01-02T00:00:01", "datetime"),
      Column("late", "2020-01-01T23:59:59", "2020-01-02T00:00:01", "datetime")],
     ["time < late", "late < day"], False),
    ([Column("day", "2020-01-01", "2020-01-03", "datetime", special=("1900-01-01",))],
     ["day < 2020-01-01", "day != '1900-01-01'"], False),
    ([Column("day", "2020-01-01", "2020-01-03", "datetime", special=("1900-01-01",))], ["day < 2020-01-01"], True),
    ([Column(f"c{k}", 0, 1, missing="keep") for k in range(600)],
     [f"c{k} is missing if and only if c{k + 1} is missing" for k in range(599)], True),
])
def test_orders_need_room_between_their_ends(columns, constraints, possible):
    if possible:
        schema = Schema(columns, constraints)
        # And the values that were looked at are values of the columns.
        looked_at, _ = representatives(schema.constraints, {column.name: column for column in columns})
        for column in columns:
            values = looked_at[column.name]
            present = np.ma.getdata(values)[~np.ma.getmaskarray(values)]
            alone = Schema([column])
            again = np.ma.getdata(alone.decode(alone.to_cube(present[:, None]))[column.name])
            assert len(present) > 0
            assert np.allclose(present, again) if present.dtype.kind == "f" else (present == again).all()
    else:
        with pytest.raises(InputError, match="no row can satisfy all of these constraints: "):
            Schema(columns, constraints)


def test_constraints_that_share_no_column_are_not_blamed():
    with pytest.raises(InputError) as caught:
        Schema(COLUMNS, ["flag = true", "age > 3", "income > 0", "age < 3", "age != 1"])
    assert str(caught.value) == "no row can satisfy all of these constraints: 'age > 3'; 'age < 3'"


def test_work_is_bounded(monkeypatch):
    columns = [Column(f"c{k}", kind="categorical", categories=tuple(range(10))) for k in range(9)]
    different = [f"{first.name} != {second.name}" for first, second in itertools.combinations(columns, 2)]
    Schema(columns, different)
    with pytest.raises(InputError, match="too large: its columns have 1000000000 combinations of values"):
        Schema(columns, [" or ".join(different)])
    tight = [Column(each.name, kind="categorical", categories=tuple(range(8))) for each in columns]
    monkeypatch.setattr(satisfiability, "STEPS", 5_000)
    with pytest.raises(InputError, match="a search of 5000 steps did not find out whether a row can"):
        Schema(tight, different)


def test_numbers_with_private_bounds_can_only_be_missing():
    columns = [Column("pay", private_bounds=True, missing="keep"), Column("age", 0, 120, missing="keep"),
               Column("n", kind="integer", private_bounds=True)]
    for text in ("pay > 3", "pay in (3)", "age < pay", "n = age"):
        with pytest.raises(InputError, match=r"'(pay|n)' cannot be compared, because its bounds are private"):
            Schema(columns, [text])
    schema = Schema(columns, ["pay is missing if and only if age < 15"])
    assert schema.with_bounds({"pay": (5.0, 7.0), "n": (1, 3)}).constraints == schema.constraints


def test_columns_with_private_categories_can_only_be_missing():
    columns = [Column("town", kind="categorical", categories="private", missing="keep"), Column("age", 0, 120)]
    for text in ("town = 3", "town = 'Rome'", "town != age"):
        with pytest.raises(InputError, match="'town' cannot be compared, because its categories are private"):
            Schema(columns, [text])
    schema = Schema(columns, ["town is missing implies age < 15"])
    assert schema.with_categories({"town": ["Rome"]}).constraints == schema.constraints


# Schemas with constraints


def test_constraints_are_part_of_a_schema():
    texts = ["age < 3 implies level is missing", "flag = true"]
    schema = Schema(COLUMNS, texts)
    assert schema == Schema(COLUMNS, schema.constraints)
    assert schema == Schema(COLUMNS, ["(age<3) implies level is missing", "flag=true"])
    assert schema != Schema(COLUMNS)
    assert schema != Schema(COLUMNS, texts[:1])
    assert hash(schema) == hash(Schema(COLUMNS, texts))
    assert pickle.loads(pickle.dumps(schema)) == schema
    assert "age &lt; 3 implies level is missing" in schema._repr_html_()
    plain = schema.to_dict()
    assert plain["constraints"] == texts
    assert Schema.from_dict(plain) == schema
    assert "constraints" not in Schema(COLUMNS).to_dict()


def test_constraints_come_back_from_a_file(tmp_path):
    schema = Schema(COLUMNS, ["sex in ('it''s', 'M')", '"the ""b""" = 1 or time < 2020-01-03T12:00:00'])
    path = tmp_path / "schema.toml"
    schema_file.save(path, schema, {"delimiter": ";"})
    assert schema_file.load(path) == (schema, {"delimiter": ";"})
    schema_file.save(path, Schema(COLUMNS))
    assert "constraints" not in path.read_text()


BEGIN = '[columns.a]\nlower = 0\nupper = 9\nkind = "integer"\n'


@pytest.mark.parametrize(("line", "faults"), [
    ("constraints = ['a < 0', 'b = 1', 'a > 3', 'a >']",
     ["no row can satisfy the constraint: 'a < 0'",
      "constraint 'b = 1': at 'b', character 1: there is no column 'b'; write text in quotes, on the right of a "
      "comparison",
      "constraint 'a >': at its end: expected a constant: a number, text in quotes, a date, true or false"]),
    ("constraints = ['a < 3', 'a > 3', 'a != 5']",
     ["no row can satisfy all of these constraints: 'a < 3'; 'a > 3'"]),
    ("constraints = 'a < 3'", ["constraints must be a list of texts, not 'a < 3'"]),
    ("constraints = 3", ["constraints must be a list of texts, not 3"]),
    ("constraints = [['a < 3']]", ["a constraint must be text, not an object of type list"]),
    ("constraints = []", []),
])
def test_a_file_with_constraints_is_checked(tmp_path, line, faults):
    path = tmp_path / "schema.toml"
    path.write_text(f"{line}\n{BEGIN}")
    assert schema_file.check(path) == faults


def test_the_command_lists_the_constraints(tmp_path, capsys, monkeypatch):
    path = tmp_path / "schema.toml"
    path.write_text(f"constraints = ['\"a\"<5', 'a in (1,2)']\n{BEGIN}")
    monkeypatch.setattr("sys.argv", ["trigmech", "schema", "check", str(path)])
    with pytest.raises(SystemExit, match=r"^0$"):
        main()
    assert capsys.readouterr().out.startswith(f"{path} is complete\nconstraint: a < 5\nconstraint: a in (1, 2)\n")


def test_a_saved_release_keeps_the_constraints(tmp_path):
    schema = Schema([Column("a", 0, 9), Column("b", 0, 9)], ["a <= b or a < 5"])
    table = np.random.default_rng(0).uniform(0, 9, (50, 2))
    release = tm.synthesize(table, schema, tm.Budget(1.0, 1e-4), tm.MomentMechanism(points=64, iterations=1),
                            rng=np.random.default_rng(1))
    release.save(tmp_path / "r.tm")
    assert tm.load(tmp_path / "r.tm").schema == schema


DAY = Column("at", "2020-01-01", "2024-12-31", "datetime", resolution="day")
HOUR = Column("at", "2020-01-01", "2024-12-31", "datetime", resolution="hour")
FLAG = Column("at", kind="categorical", categories=(True, False))
CODE = Column("at", 0, 9, "integer")


@pytest.mark.parametrize(("column", "values", "text"), [
    (DAY, ["2021-02-03", datetime.date(2021, 2, 3), np.datetime64("2021-02-03")], "2021-02-03"),
    (HOUR, ["2021-02-03T04:00", "2021-02-03 04:00", datetime.datetime(2021, 2, 3, 4), np.datetime64("2021-02-03T04"),
            pd.Timestamp("2021-02-03 04:00")], "2021-02-03T04:00:00"),
    (FLAG, [True, np.True_], "true"), (FLAG, [False, np.False_], "false"),
    (CODE, [3, np.int64(3), np.uint8(3)], "3"), (CODE, [0.5, np.float32(0.5), fractions.Fraction(1, 2)], "0.5"),
    (Column("at", kind="categorical", categories=("it's", "b")), ["it's", np.str_("it's")], "'it''s'")], ids=str)
def test_a_value_stands_in_a_constraint_as_the_column_has_it_whatever_its_type(column, values, text):
    for value in values:
        assert stated(column, value) == stated(column, [value]) == f"at in ({text})"
        assert stated(column, (value, value)) == f"at >= {text} and at <= {text}"
    assert stated(column, values) == f"at in ({', '.join([text] * len(values))})"
    assert stated(column, None) == "at is missing"
