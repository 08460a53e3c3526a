"""A refused question or formula says which column's name must be quoted."""

import re

import duckdb
import pytest

import trigmech as tm
from trigmech.errors import InputError
from trigmech.inference.formula import parsed_formula
from trigmech.inference.sql_question import parsed

NAMES = ("sample", "sample.yr", "lambda", "group", "plain", "two words", "Größe")
SCHEMA = tm.Schema([tm.Column(name, 0, 1) for name in NAMES])


@pytest.fixture(scope="module")
def connection():
    with duckdb.connect() as held:
        yield held


def refusal(read, *given):
    with pytest.raises(InputError) as caught:
        read(*given)
    return str(caught.value)


@pytest.mark.parametrize("name", ["sample.yr", "lambda", "group", "two words"])
def test_a_query_that_has_a_name_without_its_quotes_says_how_to_write_it(connection, name):
    said = refusal(parsed, connection, f"select avg({name}) from release", SCHEMA)
    assert said.endswith(f'; write the column \'{name}\' as "{name}"')
    assert parsed(connection, f'select avg("{name}") from release', SCHEMA).used == (name,)


@pytest.mark.parametrize("name", ["sample.yr", "lambda", "two words"])
def test_a_formula_that_has_a_name_without_its_quotes_says_how_to_write_it(name):
    assert refusal(parsed_formula, f"plain ~ {name} + sample", NAMES).endswith(
        f"; write the column '{name}' as `{name}`")
    assert name in parsed_formula(f"plain ~ `{name}` + sample", NAMES).columns.values()


@pytest.mark.parametrize("query", ["select avg(absent) from release", 'select avg("lambda"), avg(absent) from release',
                                   "select count(*) from release where absent = 'lambda'", "select plain from release",
                                   "select avg(größe), avg(absent) from release", "drop table release", ""])
def test_what_needs_no_quotes_or_has_them_is_not_named(connection, query):
    assert not re.search("write the column", refusal(parsed, connection, query, SCHEMA))


@pytest.mark.parametrize("formula", ["plain ~ absent", "plain ~ `lambda` + absent", "plain ~ 5",
                                     "plain ~ Größe + absent"])
def test_what_a_formula_quotes_is_not_named(formula):
    assert "write the column" not in refusal(parsed_formula, formula, NAMES)
