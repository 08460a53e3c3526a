"""Questions in SQL by hand: what is a key, what grows, in which order the answer stands, and each refusal alone."""

import duckdb
import pytest

import trigmech as tm
from trigmech.errors import InputError
from trigmech.inference.sql_question import MARK, first_line, parsed, statement_of

SCHEMA = tm.Schema([tm.Column("age", 0, 9, kind="integer"),
                    tm.Column("Town", kind="categorical", categories=("a", "b")), tm.Column("x", 0, 9)])


@pytest.fixture(scope="module")
def connection():
    with duckdb.connect() as held:
        held.execute(f"create table {MARK} as select * from (values (1, 'a', 2.0), (3, 'b', 4.0), (5, 'b', null)) "
                     "t(age, Town, x)")
        yield held


@pytest.mark.parametrize(("query", "names", "keys", "growing", "used"), [
    ("select count(*), avg(age) from release", ("count(*)", "avg(age)"), (False, False), (True, False), ("age",)),
    ("select town, sum(x) as s from release group by town", ("town", "s"), (True, False), (False, True), ("Town", "x")),
    ("select town as t, count(x) from release group by t", ("t", "count(x)"), (True, False), (False, True),
     ("Town", "x")),
    ("select stddev(x), town from release group by 2", ("stddev(x)", "town"), (False, True), (False, False),
     ("Town", "x")),
    ("select age // 2 as half, median(x) from release where town = 'a' group by age // 2", ("half", "median(x)"),
     (True, False), (False, False), ("age", "Town", "x")),
    ("select town, avg(x) from release group by all", ("town", "avg(x)"), (True, False), (False, False), ("Town", "x")),
    ('select sum(x) + 1 as "Sum one" from RELEASE r', ("Sum one",), (False,), (False,), ("x",))])
def test_a_question_has_keys_and_aggregates(connection, query, names, keys, growing, used):
    found = parsed(connection, query, SCHEMA)
    assert (found.names, found.keys, found.growing, found.used) == (names, keys, growing, used)
    assert (found.order, found.limit) == ((), None)


@pytest.mark.parametrize(("end", "order", "limit"), [
    ("order by town", ((0, False),), None), ("order by 2 desc, town", ((1, True), (0, False)), None),
    ("order by s desc limit 3", ((1, True),), 3), ("limit 999999999", (), 999_999_999),
    ("order by sum(x)", ((1, False),), None)])
def test_an_answer_stands_in_the_order_that_was_asked(connection, end, order, limit):
    found = parsed(connection, f"select town, sum(x) as s from release group by town {end}", SCHEMA)
    assert (found.order, found.limit) == (order, limit)


@pytest.mark.parametrize("query", [
    "select avg(agee) from release", "select agee, count(*) from release group by agee",
    "select count(*) from release r where r.agee > 2", "select avg(x) as agee from release where y = 1 and agee > 1",
    'select count(*) from release where town = "c"'])
def test_a_name_that_is_no_column_is_refused_with_the_columns(connection, query):
    with pytest.raises(InputError, match=r"there is no column '(agee|y|c)'; the columns are 'age', 'Town', 'x'; texts"):
        parsed(connection, query, SCHEMA)


@pytest.mark.parametrize(("condition", "absent"), [
    ("town = 'c'", "c"), ("'c' <> Town", "c"), ("r.town in ('a', 'c', 'd')", "c"), ("town not in ('c')", "c"),
    ("not (age > 2 and town = 'A')", "A"), ("town = ''", ""), ("town is distinct from 'c'", "c"),
    ("town is not distinct from 'c'", "c")])
def test_a_text_that_is_no_category_is_refused_in_place_of_a_certain_zero(connection, condition, absent):
    with pytest.raises(InputError, match=f"column '[Tt]own' has no category {absent!r}; its categories are 'a', 'b'"):
        parsed(connection, f"select count(*) from release r where {condition}", SCHEMA)
    with pytest.raises(InputError, match="has no category"):
        parsed(connection, f"select sum(case when {condition} then 1 else 0 end) from release r", SCHEMA)


def test_another_name_of_a_column_is_compared_with_its_categories(connection):
    asked = "select town as T, count(*) from release where t = '{}' group by t"
    with pytest.raises(InputError, match="column 't' has no category 'c'; its categories are 'a', 'b'"):
        parsed(connection, asked.format("c"), SCHEMA)
    assert parsed(connection, asked.format("a"), SCHEMA).keys == (True, False)
    # A name that a column has is this column's, and another name of an expression has no categories.
    for other in ("select town as age, count(*) from release where age = '3' group by town",
                  "select upper(town) as t, count(*) from release where t = 'C' group by t"):
        assert parsed(connection, other, SCHEMA).keys == (True, False)


def test_texts_that_are_no_categories_by_right_are_asked(connection):
    for condition in ("town < 'c'", "town like 'c%'", "lower(town) = 'c'", "age = 5", "town in ('a', 'b')",
                      "town = 'a' or town <> 'b'", "coalesce(town, 'none') = 'none'"):
        assert parsed(connection, f"select count(*) from release where {condition}", SCHEMA).texts == (
            () if condition == "age = 5" else ("Town",))


@pytest.mark.parametrize(("query", "said"), [
    ("", "must be a text of 1 to"), (" ", "must be a text of 1 to"), (5, "must be a text of 1 to"),
    ("select count(*) from release\0", "must be a text of 1 to"),
    ("select count(*) from", "the query cannot be read"), ("drop table release", "only one SELECT"),
    ("select count(*) from release; select count(*) from release", "only one SELECT"),
    ("select count(*) from release union select count(*) from release", "without UNION"),
    ("with r as (select 1) select count(*) from release", "must not have WITH"),
    ("select count(*) from other", "must use the table 'release'"), ("select count(*)", "must use the table 'release'"),
    ("select count(*) from main.release", "must use the table 'release'"),
    ("select count(*) from release tablesample 10%", "must use the table 'release'"),
    ("select count(*) from release as r(a)", "must use the table 'release'"),
    ("select town, count(*) from release group by town having count(*) > 1", "must not have 'HAVING'"),
    ("select count(*) from release using sample 10%", "must not have"),
    ("select count(*) from release qualify true", "must not have 'QUALIFY'"),
    ("select town, age, count(*) from release group by grouping sets ((town), (age))", "several grouping sets"),
    ("select * from release", r"must not have \*; .*; ask for aggregates"),
    ("select sum(x) over () from release", "must not have a window"),
    ("select count((select 1)) from release", "must not have a subquery"),
    ("select sum(hash(x)) from release", "must not have the function 'hash'"),
    ("select count(*) from release where age > avg(age)", "the aggregate 'avg' must be selected"),
    ("select age from release", "must have an aggregate"), ("select age, count(*) from release", "GROUP BY"),
    ("select count(*) from release group by town", "each expression of GROUP BY must be selected"),
    ("select town, count(*) from release group by town order by age", "ORDER BY must name"),
    ("select distinct count(*) from release", "must not have DISTINCT"),
    ("select count(distinct town) from release", "the aggregate 'count' must not have DISTINCT"),
    ("select 1 + avg(distinct x) from release", "the aggregate 'avg' must not have DISTINCT"),
    ("select count(*) from release limit 5 offset 1", "must not have DISTINCT, OFFSET"),
    ("select count(*) from release limit 1 + 1", "LIMIT that is no whole number above 0"),
    ("select count(*) from release limit 0", "LIMIT that is no whole number above 0"),
    ("select count(*) as a, sum(x) as a from release", "two output columns are called 'a'"),
    ("select count(*) as a, sum(x) as a_low from release", "two output columns are called 'a_low'"),
    ("select count(*) as a, sum(x) as a_high from release", "two output columns are called 'a_high'"),
    ('select count(*) as "a\n" from release', "must have a name of printable letters")])
def test_each_part_that_may_not_be_asked_is_refused_for_itself(connection, query, said):
    with pytest.raises(InputError, match=f"(?s){said}"):
        parsed(connection, query, SCHEMA)


@pytest.mark.parametrize(("query", "rows"), [
    ("select count(*), avg(age), sum(x), count(x) from release", [(7.5, 3.0, 15.0, 5.0)]),
    ("select stddev(x), sum(x) / count(x), -sum(age) from release", [(2.0**0.5, 3.0, -22.5)]),
    ("select town, count(*) from release group by town order by town", [("a", 2.5), ("b", 5.0)]),
    ("select count(*) filter (where age > 1) from release r where r.x is not null", [(2.5,)])])
def test_sums_and_counts_are_those_of_so_many_times_as_many_rows(connection, query, rows):
    question = parsed(connection, query, SCHEMA)
    found = connection.execute(statement_of(connection, question, 2.5)).fetchall()
    assert sorted(found) == rows
    # A question can be asked again with another factor.
    again = connection.execute(statement_of(connection, question, 1.0)).fetchall()
    assert len(again) == len(rows)


def test_of_a_message_the_first_line_alone_is_told():
    assert first_line(ValueError("one\ntwo")) == "one"
    assert first_line(ValueError("")) == "ValueError"
    assert len(first_line(ValueError("x" * 400))) == 300
