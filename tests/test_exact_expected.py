"""A preview's figures by hand: the noise of each statistic in its column's units, for each kind of column and query."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

import trigmech as tm
from trigmech.functions.partition import Partition
from trigmech.queries.base import Measurement
from trigmech.queries.joint import Marginal, Products
from trigmech.queries.one_way import Histogram
from trigmech.report import expected
from trigmech.report.expected import Expected

POINTS = "percentage points"


def told(found):
    return [(each.column, each.what, each.error, each.unit, each.note) for each in found]


@pytest.mark.parametrize(("column", "what", "error", "unit"), [
    (tm.Column("x", 10, 50), "mean", 2.0, ""),
    (tm.Column("x", 10, 50, kind="integer"), "mean", 2.0, ""),
    (tm.Column("x", 0, 1, kind="binary"), "share of 1", 5.0, POINTS),
    (tm.Column("x", 2, 7, kind="binary"), "share of 7", 5.0, POINTS),
    (tm.Column("x", kind="ordinal", categories=["a", "b", "c", "d", "e"]), "mean place among 5 categories", 0.2,
     "places"),
    (tm.Column("x", "2020-01-01", "2020-01-31", kind="datetime"), "mean", 1.5, "days"),
    (tm.Column("x", "2020-01-01", "2020-01-11", kind="datetime"), "mean", 12.0, "hours"),
    (tm.Column("x", "2020-01-01T00", "2020-01-01T10", kind="datetime", resolution="minute"), "mean", 30.0, "minutes"),
    (tm.Column("x", 1, 100, transform="log"), "geometric mean", 100.0 * math.expm1(0.1 * math.log(100.0) / 2.0), "%"),
    (tm.Column("x", 0, 99, transform="log1p"), "geometric mean of 1 + value",
     100.0 * math.expm1(0.1 * math.log(100.0) / 2.0), "%"),
    (tm.Column("x", 5, 104, transform="log1p"), "geometric mean of 1 + value - 5",
     100.0 * math.expm1(0.1 * math.log(100.0) / 2.0), "%"),
    (tm.Column("x", -5, 94, transform="log1p"), "geometric mean of 1 + value + 5",
     100.0 * math.expm1(0.1 * math.log(100.0) / 2.0), "%"),
    (tm.Column("x", private_bounds=True), "mean", 5.0, "% of the range that the private step finds"),
    (tm.Column("x", private_bounds=True, transform="log"), "mean", 5.0,
     "% of the logarithmic range that the private step finds")])
def test_noise_of_a_coordinate_is_told_in_the_column_s_units(column, what, error, unit):
    found = expected._of_number(column, 0.1)
    assert (found.column, found.what, found.unit, found.note) == ("x", what, unit, "")
    assert found.error == pytest.approx(error, rel=1e-12)


def test_noise_beside_special_and_missing_values_says_its_assumption():
    found = expected._of_number(tm.Column("x", 0, 10, missing="keep"), 0.1)
    assert found.note == "if all rows hold an ordinary number; more if few do"
    assert found.error == pytest.approx(0.5)


def test_no_error_is_beyond_the_largest():
    assert expected._of_number(tm.Column("x", 1e-300, 1e300, transform="log"), 5.0).error == 1e300
    assert Expected("x", "mean", math.inf).error == 1e300
    assert (Expected("x", "mean", None).amount, str(Expected("x", "mean", None))) == ("not measured",
                                                                                      "mean: not measured")
    assert str(Expected("x", "mean", 0.126, "days", "at worst")) == "mean: ± 0.13 days   (at worst)"
    assert Expected("x", "mean", 2.0).amount == "± 2"


def test_noise_of_moments_is_that_of_the_number_and_of_the_worst_indicator():
    assert told(expected._of_column_moments(tm.Column("x", 0, 10, missing="keep"), np.array([0.1, 0.02, 0.03]))) == [
        ("x", "mean", 0.5, "", "if all rows hold an ordinary number; more if few do"),
        ("x", "share of a special or missing value", 3.0, POINTS, "")]
    assert told(expected._of_column_moments(tm.Column("x", 0, 10), np.array([0.1]))) == [("x", "mean", 0.5, "", "")]
    column = tm.Column("x", kind="categorical", categories=["a", "b"])
    assert told(expected._of_column_moments(column, np.array([0.05, 0.04]))) == [
        ("x", "frequency of a category", 5.0, POINTS, "")]


def test_noise_of_a_histogram_is_that_of_its_sums():
    # An indicator, and four intervals with the centres -.75, -.25, .25 and .75.
    partition = Partition((0,), 1, np.linspace(-1.0, 1.0, 5))
    look = Measurement(Histogram(0, partition), 1.0, None, 0.01)
    mean, below, special = expected._of_look(look, tm.Column("x", 0, 10, special=[99]))
    assert mean.error == pytest.approx(5.0 * 0.01 * math.sqrt(2 * (0.75**2 + 0.25**2)), rel=1e-12)
    assert (below.what, below.unit) == ("share of the rows below any value", POINTS)
    assert below.error == pytest.approx(100.0 * 0.01 * look.query.greatest_noise, rel=1e-12)
    assert told([special]) == [("x", "share of a special or missing value", pytest.approx(1.0), POINTS, "")]
    found = list(expected._of_look(look, tm.Column("x", 0, 1, kind="binary", missing="keep")))
    assert [each.what for each in found] == ["share of 1", "share of a special or missing value"]
    names = Measurement(Histogram(0, Partition((0, 1, 2), None, np.empty(0))), 1.0, None, 0.02)
    column = tm.Column("x", kind="categorical", categories=["a", "b", "c"])
    assert told(expected._of_look(names, column)) == [("x", "frequency of a category", pytest.approx(2.0), POINTS,
                                                            "")]


def table(columns, sizes, noise):
    partitions = tuple(Partition((), j, np.linspace(-1.0, 1.0, size + 1))
                       for j, size in zip(columns, sizes, strict=True))
    return Measurement(Marginal(columns, partitions, tuple(np.arange(size) for size in sizes)), 1.0, None, noise)


def test_noise_of_tables_is_the_worst_of_all_and_the_largest_is_named():
    asked = [table((0, 1), (2, 9), 0.02), table((0, 2), (5, 4), 0.03), table((1, 2), (3, 3), 0.01)]
    found, = expected._of_tables(asked, None, "at first")
    assert told([found]) == [("", "cell of a table of two columns, at worst", pytest.approx(3.0), POINTS,
                              "3 tables of up to 5 by 4 cells at first")]
    found, = expected._of_tables([table((0, 1), (2, 2), 0.02), table((0, 1, 2), (2, 2, 2), 0.01)], None, "")
    assert found.what == "cell of a table, at worst"
    assert found.note == "2 tables of up to 2 by 2 by 2 cells "


def test_noise_of_products_is_that_of_correlations_or_of_contrasts():
    numbers, names = (SimpleNamespace(deviation=0.02, query=query) for query in (
        SimpleNamespace(tells_tables=False, correlation_noise=1.5, correlated="columns"),
        SimpleNamespace(tells_tables=True, size=12, correlation_noise=math.inf)))
    assert told(expected._of_products([numbers, names], None, "last")) == [
        ("", "correlation of the ranks of two columns", pytest.approx(0.03), "", ""),
        ("", "product of contrasts of the cells of two columns; all products determine the table", 2.0, POINTS,
         "12 products last")]
    ranks = SimpleNamespace(deviation=0.02, query=object.__new__(type("Ranks", (Products,), {
        "tells_tables": False, "correlation_noise": 2.0})))
    assert next(iter(expected._of_products([ranks], None, ""))).what == (
        "correlation of the ranks of two columns of numbers")


def test_an_outlook_has_columns_apart_from_what_is_of_several():
    schema = tm.Schema([tm.Column("a", 0, 10), tm.Column("b", 0, 10)])
    partition = Partition((), 0, np.linspace(-1.0, 1.0, 5))
    other = SimpleNamespace(query=SimpleNamespace(kind="my query", shape=(2, 3), shown_as=""),
                            deviations=np.array([0.1, 0.4]))
    agenda = SimpleNamespace(measurements=[Measurement(Histogram(0, partition), 1.0, None, 0.01),
                                           table((0, 1), (2, 3), 0.02), other],
                             note="n", words="words", predicted={"q": 1.0})
    found = expected.outlook_of(agenda, schema)
    assert [each.column for each in found.columns] == ["a", "a"]
    assert told(found.together[1:]) == [("", "my query, at worst", 0.4, "", "")]
    assert (found.measured, found.words, found.predicted) == (4 + 6 + 6, "words", {"q": 1.0})


def index_of(numbers, groups, kinds):
    """What is read of an index: the functions of each kind, the columns of each, and how many columns it is of."""
    return SimpleNamespace(
        domain=SimpleNamespace(numbers=numbers, groups=[SimpleNamespace(value=value) for value in groups]),
        bilinear=lambda held: (np.array(kinds["bilinear"], dtype=np.int64), None),
        of_kind=lambda kind: np.array(kinds[kind], dtype=np.int64), column_sets=np.array([7, 8, 8, 9, 9, 9]),
        total=np.array([2, 2, 2, 3, 2, 2]))


def test_noise_of_products_of_moments_is_the_worst_of_its_kind():
    scales = np.array([0.01, 0.02, 0.03, 0.9, 0.05, 0.06])
    found = told(expected._together_moments(index_of((0, 1), (None, None, 2), {
        "bilinear": [1, 0], "two-way table": [1, 2, 4], "number by category": [2, 3, 4]}), scales))
    assert found == [
        ("", "correlation of two columns of numbers", pytest.approx(0.06), "",
         "if both spread evenly over their bounds; more if they fill less of them"),
        ("", "cell of a table of two columns of categories, at worst", pytest.approx(5.0), POINTS,
         "2 of 3 tables are measured, including those of missing values"),
        # Products of three columns do not count.
        ("", "mean of a number over the rows of a category that holds a tenth of all rows", pytest.approx(25.0),
         "% of the width of its bounds", "")]
    nothing = told(expected._together_moments(index_of((0, 1), (None, None), {
        "bilinear": [], "two-way table": [], "number by category": []}), scales))
    assert [error for _, _, error, _, _ in nothing] == [None, None, None]
    assert told(expected._together_moments(index_of((0,), (), {}), scales)) == []
    assert told(expected._together_moments(index_of((), (None,), {}), scales)) == []
