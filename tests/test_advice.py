"""Where exactly what is worth a second thought begins, and what a page says of a guarantee: words and numbers."""

import math
import platform

import numpy as np
import pandas as pd
import pytest
from test_cli import run as run  # a fixture

import trigmech as tm
from trigmech.privacy.budget import Budget, Charge
from trigmech.privacy.ledger import Ledger
from trigmech.report import advice
from trigmech.report.statement import Table, guarantee, ledger_table, upward, versions_table
from trigmech.schema import toml
from trigmech.schema.column import Column
from trigmech.schema.schema import Schema
from trigmech.schema.words import without_middle

PLAIN = Schema([Column("height", 0.0, 2.5)])


def beginnings(found):
    return [sentence.split(":")[0] for sentence in found]


@pytest.mark.parametrize(("n", "epsilon", "delta", "found"), [
    (50, 10.0, 0.0, []), (49, 10.0, 0.0, ["49 rows are few"]),
    (50, 10.01, 0.0, ["epsilon = 10.01 is above 10"]),
    (50, 1.0, 0.019, []),
    (50, 1.0, 0.02, ["delta = 0.02 is not below 1 / 50, one divided by the number of rows; a release may then show a "
                     "whole record"])])
def test_a_budget_and_a_number_of_rows_are_warned_of_from_their_limits_on(n, epsilon, delta, found):
    assert beginnings(advice.warnings_of(n, PLAIN, Budget(epsilon, delta), True)) == found


def test_a_forgotten_delta_is_warned_of_where_it_would_make_noise_so_much_smaller():
    schemas = {d: Schema([Column(f"x{j}", 0, 1) for j in range(d)]) for d in range(1, 40)}
    warned = {d: advice.warnings_of(1000, schema, Budget(1.0)) for d, schema in schemas.items()}
    first = min(d for d, found in warned.items() if found)
    (said,) = warned[first]
    # sqrt(d (d + 1) / 6) times the mu of a Gaussian release at delta = 1 / (10 n), over epsilon.
    mu = advice.gaussian_mu(Budget(1.0, 1e-4))
    gain = math.sqrt(first * (first + 1) / 6.0) * mu
    assert gain >= 1.5 > math.sqrt(first * (first - 1) / 6.0) * mu
    assert said == ("delta is not given: with delta = 0.0001, which is at most 1 / (10 n), the noise in the means of "
                    f"all columns and pairs would be about {gain:.2g} times smaller")
    # Rows of another power of ten: delta is at most 1 / (10 n).
    assert "with delta = 1e-05" in advice.warnings_of(1001, schemas[39], Budget(1.0))[0]
    assert advice.warnings_of(1000, schemas[39], Budget(1.0), delta_chosen=True) == []
    assert advice.warnings_of(1000, schemas[39], Budget(1.0, 1e-6)) == []


@pytest.mark.parametrize(("column", "n", "like"), [
    (Column("patient_id", 0, 5), 100, "by its name; leave"), (Column("patientId", 0, 5), 100, "by its name; leave"),
    (Column("E-Mail", kind="categorical", categories=("a", "b")), 100, "by its name; leave"),
    (Column("idea", 0, 5), 100, None), (Column("paid", 0, 5), 100, None),
    (Column("row_number", 0, 99, "integer"), 100, "at least as many values as there are rows (100)"),
    (Column("row_number", 0, 98, "integer"), 100, None), (Column("row_number", 0, 99), 100, None),
    (Column("count", 0, 99, "integer"), 100, None),
    (Column("town", kind="categorical", categories=tuple(map(str, range(50)))), 100, "has 50 categories for 100 rows"),
    (Column("town", kind="categorical", categories=tuple(map(str, range(49)))), 100, None),
    (Column("town", kind="categorical", categories=tuple(map(str, range(10)))), 12, "has 10 categories for 12 rows"),
    (Column("town", kind="categorical", categories=tuple(map(str, range(9)))), 12, None)])
def test_a_column_looks_like_an_identifier_by_a_word_of_its_name_or_as_many_values_as_rows(column, n, like):
    found = advice._like_an_identifier(column, n)
    assert len(found) == (like is not None)
    assert all(like in sentence for sentence in found)


USUAL = "the range that such a name usually has"


@pytest.mark.parametrize(("column", "said"), [
    (Column("age", 0, 120), None), (Column("age", 18, 100), None), (Column("age", 0, 500), None),
    (Column("age", 0, 501), f"much wider than {USUAL}, 0 to 100"),
    (Column("age", 0, 10), None), (Column("age", 0, 9), f"leave out most of {USUAL}, 0 to 100"),
    (Column("age", 200, 300), "leave out most of"), (Column("mother_age", 0, 9, "integer"), "leave out most of"),
    (Column("month", 1, 12, "integer"), None), (Column("BMI", 0.0, 1.0), f"{USUAL}, 15 to 45"),
    (Column("latitude", 52.3, 52.7), None), (Column("latitude", 100, 120), "leave out most of"),
    (Column("longitude", -180, 180), None), (Column("wage", 0, 9), None),
    (Column("age", private_bounds=True), None), (Column("age", kind="ordinal", categories=("old", "young")), None)])
def test_bounds_are_odd_where_they_leave_out_nine_tenths_or_are_five_times_as_wide(column, said):
    found = advice._unusual_bounds(column)
    assert len(found) == (said is not None)
    assert all(said in sentence for sentence in found)


# The statement of privacy


def ledger(epsilon, delta=0.0):
    made = Ledger(Budget(epsilon, delta))
    made.charge(Charge("all of it", "laplace", 1.0, epsilon, "L1", 1, "a proof"))
    return made


def test_the_page_tells_what_was_proved_and_what_it_means():
    said = guarantee(ledger(1.0, 1e-3), 900)
    # Part of delta makes epsilon smaller: exp(epsilon) = e - 0.001 (1 + e).
    assert (said["proved"], said["epsilon"]) == ("(0.9987, 0.001)-differential privacy", "0.9987")
    assert (said["n"], said["person"], said["finite"], said["delta_is_zero"], said["is_one"]) == (
        "900", None, True, False, False)
    # (e + delta) / (1 + e), a test with 5 % false alarms, and odds; all rounded up.
    assert (said["guess"], said["power"], said["odds"]) == ("73.2 %", "13.7 %", "2.72")
    assert said["warning"] == ""
    assert guarantee(ledger(1.0, 1e-3), 1000, "who")["warning"].startswith("δ is not below 1/n = 0.001: ")
    assert guarantee(ledger(1.0, 1e-3), 1000, "who")["person"] == "who"
    assert guarantee(ledger(1.0), 900)["is_one"]
    pure = guarantee(ledger(0.5), 12_345)
    assert (pure["delta_is_zero"], pure["is_one"], pure["n"]) == (True, False, "12,345")
    # exp(1/2) / (1 + exp(1/2)) = 0.62246 and 0.05 exp(1/2) = 0.08244
    assert (pure["guess"], pure["power"], pure["odds"]) == ("62.3 %", "8.3 %", "1.65")


@pytest.mark.parametrize(("value", "digits", "shown"), [
    (1.0, 4, "1"), (0.12341, 4, "0.1235"), (0.1234, 4, "0.1234"), (2.7182818, 3, "2.72"), (2.711, 3, "2.72"),
    (1e-6, 6, "1e−6"), (1.0000001, 4, "1.001")])
def test_numbers_of_a_guarantee_are_rounded_up(value, digits, shown):
    assert upward(value, digits) == shown


def test_the_charges_are_listed_as_they_were_made():
    made = Ledger(Budget(9.0, 1e-6))
    made.charge(Charge("moments", "gaussian", 12.0, 0.25, "L2", 1200, "by Parseval"),
                Charge("means", "laplace", 3.0, 1.5, "each", 3, "by range"),
                Charge("groups", "exponential", 2.0, 1.0, "Linf", 1, "by order"),
                Charge.claimed("a count", Budget(0.5), "a tool", 1))
    table = ledger_table(made)
    assert table.head == ("Purpose", "Noise", "Scale", "Sensitivity", "Norm", "Times", "Proof")
    assert table.rows == [["moments", "Gaussian", "12", "0.25", "L2", "1,200", "by Parseval"],
                          ["means", "Laplace", "3", "1.5", "each number", "3", "by range"],
                          ["groups", "a choice by exponential noise", "2", "1", "Linf", "1", "by order"],
                          ["a count", "other", "—", "—", "none", "1", "claimed by a tool, not proved here"]]
    assert table.numeric == (2, 3, 5)


def test_cells_of_a_table_are_counts_in_full_and_numbers_in_few_digits():
    table = Table("caption", ("a", "b", "c"), [["x", 12345, 0.123456], ["y", True, 1e9]])
    assert table.rows == [["x", "12,345", "0.123"], ["y", "1", "1e9"]]
    assert list(table.numeric) == [1, 2]
    assert Table("", ("a", "b"), [], (0,)).numeric == (0,)


def test_versions_are_those_that_made_the_release_and_those_of_here():
    table = versions_table({"trigmech": "0.1", "elsewhere": "7"})
    assert table.head == ("Program", "Made the release", "Wrote this page")
    rows = {name: (made, here) for name, made, here in table.rows}
    assert [name for name, *_ in table.rows][:2] == ["trigmech", "elsewhere"]
    assert rows["elsewhere"] == ("7", "—")
    assert rows["trigmech"][0] == "0.1"
    assert rows["python"] == ("—", platform.python_version())
    alone = versions_table({})
    assert alone.head == ("Program", "Wrote this page")
    assert dict(alone.rows)["python"] == platform.python_version()


@pytest.mark.parametrize(("column", "warned"), [
    (tm.Column("b", 0, 1, "binary", missing="centre"), True), (tm.Column("b", 0, 3, "integer", missing="centre"), True),
    (tm.Column("b", 0, 9, "integer", missing="centre"), True),
    (tm.Column("b", 0, 4, "integer", missing="centre"), False),
    (tm.Column("b", 0, 99, "integer", missing="centre"), False),
    (tm.Column("b", 0, 1, missing="centre"), False),
    (tm.Column("b", kind="ordinal", categories=["low", "high"], missing="centre"), True),
    (tm.Column("b", kind="ordinal", categories=["low", "middle", "high"], missing="centre"), False),
    (tm.Column("b", "2020-01-01", "2020-01-04", "datetime", missing="centre"), True),
    (tm.Column("b", 1, 1000, transform="log", missing="centre"), False),
    (tm.Column("b", 0, 1, "binary", missing="keep"), False), (tm.Column("b", 0, 1, "binary"), False),
    (tm.Column("b", private_bounds=True, missing="centre"), False)])
def test_missing_values_that_count_as_a_middle_without_a_value_are_warned_of(column, warned, tmp_path, run):
    schema = tm.Schema([tm.Column("a", 0, 1), column])
    said = [text for text in advice.warnings_of(1_000, schema, tm.Budget(1.0, 1e-6)) if "middle" in text]
    assert said == without_middle(schema.columns)
    assert len(said) == warned
    assert all(text.startswith("column 'b': a missing value counts as the middle of the range, where the column has no "
                               "value") for text in said)
    toml.save(tmp_path / "s.toml", schema)
    assert ("warning: column 'b': a missing value counts" in run("schema", "check", "s.toml")[1]) == warned


@pytest.mark.parametrize("column", [
    tm.Column("b", -8e307, 8e307, missing="centre"), tm.Column("b", 1e-300, 1e300, transform="log", missing="centre"),
    tm.Column("b", 0, 0.5, "integer", missing="centre"), tm.Column("b", -(2**53), 2**53, "integer", missing="centre"),
    tm.Column("b", 0, 1.7e308, "integer", missing="centre"), tm.Column("b", 0, 10, special=[-9], missing="centre"),
    tm.Column("b", "0001-01-01", "9999-12-31", "datetime", missing="centre"),
    tm.Column("b", 0, 1.7e308, transform="log1p", missing="centre")])
def test_columns_of_any_range_are_looked_at_without_a_warning_of_numbers(column):
    assert len(without_middle([column])) <= 1


@pytest.mark.parametrize("column", [
    tm.Column("b", 0, 1, "binary", missing="centre"), tm.Column("b", 0, 3, "integer", missing="centre")])
def test_tables_count_missing_values_as_one_value_beside_such_a_middle(column):
    made = tm.synthesize(pd.DataFrame({"b": np.full(2_000, np.nan)}), tm.Schema([column]), tm.Budget(100.0, 1e-6),
                         rng=np.random.default_rng(0))
    values, counts = np.unique(np.asarray(made.sample(2_000))[:, 0], return_counts=True)
    assert counts.max() > 1_950
    assert abs(values[counts.argmax()] - (column.lower + column.upper) / 2.0) == 0.5
