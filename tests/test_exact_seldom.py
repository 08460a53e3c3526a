"""Code that few runs reach, such as the way out after a failure: each is called directly, and compared with numbers."""


import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from rich.progress import Task

import trigmech as tm
from trigmech import _memory
from trigmech.acceptance.questions import Questions, _standardised
from trigmech.cli.progress import RowsPerSecond
from trigmech.distribution import Distribution
from trigmech.errors import BudgetError, InputError, NumericalError
from trigmech.inference import regression
from trigmech.inference.formula import parsed_formula
from trigmech.measurement import private_bounds
from trigmech.measurement.sums import Total
from trigmech.parts.part import Part, added
from trigmech.privacy import ledger_lock
from trigmech.privacy.accounting import gaussian_mu
from trigmech.reconstruction.linear_program import RestrictedProgram
from trigmech.reconstruction.marginals import SmoothMarginals
from trigmech.report import advised
from trigmech.schema import toml
from trigmech.schema.formula import Range, parse
from trigmech.schema.lookup import read_lookup
from trigmech.storage import release_file
from trigmech.tables.frames import Columns
from trigmech.tables.scalars import distinct_arrow

# Tables


def test_values_that_are_read_alike_are_counted_together():
    columns = Columns(pd.DataFrame({"c": ["a", " a", "b", None, "a", "?"]}), ("c",))

    def read(text):
        return None if text == "?" else text.strip()

    assert columns.tally(0, read) == {"a": 3, "b": 1}
    assert columns.tally(0, read, np.array([1, 2, 3, 4])) == {"a": 2, "b": 1}
    seen = []
    assert columns.tally(0, lambda text: seen.append(text), np.array([2])) == {}
    assert seen == ["b"]


@pytest.mark.parametrize("chunks", [1, 2])
def test_places_in_arrow_s_dictionaries_are_those_of_their_values(chunks):
    parts = [pa.array(["x", None, "y"]).dictionary_encode(), pa.array(["z", "y", "z"]).dictionary_encode()][:chunks]
    values, codes = distinct_arrow(pa.chunked_array(parts))
    assert [values[code] if code >= 0 else None for code in codes] == ["x", None, "y", "z", "y", "z"][: 3 * chunks]
    values, codes = distinct_arrow(pa.chunked_array([pa.nulls(2)]))
    assert (values, codes.tolist()) == ([], [-1, -1])


def test_the_table_for_lookup_takes_words_for_no_numbers(tmp_path):
    (tmp_path / "t.csv").write_text("key,result\n1,inf\n2,3\n")
    assert read_lookup("t.csv", tmp_path).rows == ((1.0, "inf"), (2.0, "3"))
    (tmp_path / "t.csv").write_text("key,result\n1,\n2,3\n")
    assert read_lookup("t.csv", tmp_path).rows == ((1.0, None), (2.0, 3.0))


# Schemas


def test_a_schema_of_derived_columns_alone_is_told_what_it_lacks(tmp_path):
    (tmp_path / "s.toml").write_text('[columns.a]\nderived = "1 + 1"\n')
    with pytest.raises(InputError, match="write a column that is not derived"):
        toml.load(tmp_path / "s.toml")


def test_a_formula_of_unknown_bounds_is_a_number_without_bounds():
    found = parse("new", "a - b", {"a": Range("numbers"), "b": Range("numbers")}, {})
    assert (found.range.low, found.range.high, found.range.whole) == (-np.inf, np.inf, False)
    found = parse("new", "a - b", {each: Range("numbers", whole=True) for each in "ab"}, {})
    assert found.range == Range("numbers", whole=True)
    with pytest.raises(InputError, match="there is no table 't' to look values up in"):
        parse("new", 'lookup("t", a)', {"a": Range("numbers")}, {})


# Regressions


def model(formula, family="gaussian", **columns):
    schema = tm.Schema([tm.Column(name, 0, 10) for name in ("y", "x", "z")] + [
        tm.Column("group", kind="categorical", categories=["p", "q", "r"])])
    made = regression._Model(schema, parsed_formula(formula, schema.table_names), family)
    return made, {name: np.ma.asarray(values) for name, values in columns.items()}


Y, X = np.array([1.0, 3.0, 2.0, 5.0, 4.0]), np.array([0.0, 1.0, 2.0, 3.0, 4.0])


def test_coefficients_are_least_squares_and_those_of_absent_categories_are_not_told():
    made, table = model("y ~ x + group", y=Y, x=X, group=np.array(["p", "q", "p", "q", "p"], dtype=object))
    found, errors = made.coefficients(table)
    A = np.column_stack([np.ones(5), [0.0, 1.0, 0.0, 1.0, 0.0], X])
    solved, (rest,), _, _ = np.linalg.lstsq(A, Y, rcond=None)
    wanted = np.sqrt(np.diag(np.linalg.inv(A.T @ A)) * rest / 2.0)
    held = np.isfinite(found)
    assert held.sum() == 3
    np.testing.assert_array_equal(np.isfinite(errors), held)
    np.testing.assert_allclose(np.sort(found[held]), np.sort(solved), rtol=1e-9)
    np.testing.assert_allclose(np.sort(errors[held]), np.sort(wanted), rtol=1e-9)


@pytest.mark.parametrize("rows", [2, 3])
def test_a_table_of_as_many_rows_as_coefficients_tells_none(rows):
    made, table = model("y ~ x", y=Y[:rows], x=X[:rows])
    found, errors = made.coefficients(table)
    assert np.isnan(found).all() == np.isnan(errors).all() == (rows == 2)
    assert found.shape == errors.shape == (2,)


@pytest.mark.parametrize("name", ["y", "x"])
def test_numbers_without_end_tell_no_coefficient(name):
    table = {"y": Y, "x": X + 1.0}
    made, given = model("log(y) ~ log(x)", **{each: np.where(np.arange(5) == 2, 0.0, values) if each == name else values
                                              for each, values in table.items()})
    assert np.isnan(made.coefficients(given)).all()


def test_a_fit_that_does_not_converge_tells_no_coefficient(monkeypatch):
    # A number that separates the response has no finite coefficient.
    made, table = model("y ~ x", "poisson", y=Y, x=X)
    assert np.isfinite(made.coefficients(table)).all()
    monkeypatch.setattr(regression, "STEPS", 1)
    assert np.isnan(made.coefficients(table)).all()


def test_a_fit_that_raises_tells_no_coefficient(monkeypatch):
    import statsmodels.api as sm

    def fail(*given, **named):
        raise ZeroDivisionError

    made, table = model("y ~ x", y=Y, x=X)
    monkeypatch.setattr(sm, "OLS", fail)
    assert np.isnan(made.coefficients(table)).all()
    assert np.shape(made.coefficients(table)) == (2, 2)


# Budgets


@pytest.mark.parametrize("error", [1.0, 1.0 + 1e-4])
def test_what_is_left_costs_no_more_however_the_difference_was_rounded(monkeypatch, error):
    budget, plain = tm.Budget(0.5, 1e-3), private_bounds.ndtr
    exact = gaussian_mu(budget) * np.sqrt(0.5)
    monkeypatch.setattr(private_bounds, "gaussian_epsilon", lambda mu, delta: 0.0)
    monkeypatch.setattr(private_bounds, "ndtr", lambda x: plain(x) * error)
    rest = private_bounds.rest_of(budget, 0.5)
    assert rest.epsilon == 0.5
    assert exact * (1.0 - 1e-5) < gaussian_mu(rest) <= exact
    monkeypatch.setattr(private_bounds, "ndtr", lambda x: 0.0)
    with pytest.raises(BudgetError, match=r"a share of 0\.5 for private bounds leaves too little"):
        private_bounds.rest_of(budget, 0.5)


# Parts


def test_one_part_alone_may_stand_for_all():
    total = Total(1)
    total.n = 7
    part = Part.of(total, "question")
    assert added(part, 7, Part) is part
    assert added([part], 7, Part) is part
    with pytest.raises(InputError, match="the design is for 8 persons, but the parts have 7 together"):
        added(part, 8, Part)
    for wrong in ([], [part, 1], None):
        with pytest.raises(InputError, match=r"non-empty list of parts made by trigmech\.measure_part"):
            added(wrong, 7, Part)


# Fits


def test_clouds_of_many_columns_are_independent_draws(monkeypatch):
    from scipy.stats import qmc

    marginals = SmoothMarginals(np.full((3, 512), 1.0 / 512))
    points = marginals.cloud(6, np.random.default_rng(0))
    assert points.shape == (6, 3)
    monkeypatch.setattr(qmc.Sobol, "MAXDIM", 2)
    again = marginals.cloud(6, np.random.default_rng(0))
    np.testing.assert_array_equal(again, marginals.quantiles(np.random.default_rng(0).random((6, 3))))
    assert not np.array_equal(points, again)
    monkeypatch.setattr(qmc.Sobol, "MAXDIM", 3)
    np.testing.assert_array_equal(marginals.cloud(6, np.random.default_rng(0)), points)


def test_after_the_last_method_of_a_program_there_is_none():
    program = RestrictedProgram(np.array([0.5]), np.array([1.0]), 1.0)
    assert program._method == 1
    program.change_method()
    with pytest.raises(NumericalError, match="neither the simplex methods nor the interior point method"):
        program.change_method()
    assert program._method == 3
    # A program that was never solved keeps its method when columns enter.
    other = RestrictedProgram(np.array([0.5]), np.array([1.0]), 1.0)
    other.change_method()
    other.add(np.array([[1.0], [0.0]]))
    assert other._method == 2
    assert other.solve(None) == "optimal"
    np.testing.assert_allclose(other.weights(), [0.5, 0.5], atol=1e-9)
    other.add(np.array([[0.5]]))
    assert other._method == 0


def test_a_program_without_columns_has_no_weights():
    assert RestrictedProgram(np.array([0.5]), np.array([1.0]), 1.0).weights() is None


# Around a run


def test_only_the_rate_of_measuring_is_shown():
    def text(step, done):
        task = Task(0, step, 100, done, _get_time=lambda: 1.0)
        task.__class__ = type("Fast", (Task,), {"speed": 1234.5 if done else None})
        return RowsPerSecond().render(task).plain

    assert [text("measuring", 5), text("measuring", 0), text("saving", 5)] == ["1,234 rows/s", "", ""]


def test_too_little_memory_is_told_in_its_own_words():
    assert _memory.shortage(_memory.TooLittleMemoryError("words")) == "words"
    assert _memory.shortage(ValueError("other")) is None
    assert _memory.shortage(RuntimeError("can't start new thread")).startswith("there is not enough memory: about 2.8")


def test_versions_of_what_is_not_installed_are_unknown(monkeypatch):
    def version(name):
        if name == "opendp":
            raise ledger_lock.metadata.PackageNotFoundError(name)
        return "9.9"

    monkeypatch.setattr(ledger_lock.metadata, "version", version)
    ledger_lock.version.cache_clear()
    try:
        found = release_file.versions_now()
    finally:
        ledger_lock.version.cache_clear()
    assert {name: found[name] for name in ("trigmech", "numpy", "opendp")} == {
        "trigmech": "9.9", "numpy": "9.9", "opendp": "unknown"}


def test_advice_compares_round_budgets_from_a_tenth_to_ten():
    assert advised.EPSILONS == (0.1, 0.2, 0.3, 0.5, 1.0, 2.0, 3.0, 5.0, 10.0)


# Acceptance


def test_scores_of_special_and_missing_values_are_their_numbers_and_0():
    schema = tm.Schema([tm.Column("x", 0, 10, special=[4], missing="keep")])
    table = pd.DataFrame({"x": [0.0, 10.0, 4.0, np.nan] * 2})
    points = schema.to_cube(table)
    asked = Questions(schema, Distribution(points, np.full(8, 1 / 8)))
    cut = asked._cut(0, 2)
    mass = np.bincount(cut.codes(points), minlength=cut.size) / 8.0
    scores = asked._scores(0, cut, np.inf)
    by_value = {value: float(scores[cut.codes(points[[i]])[0]]) for i, value in enumerate(("0", "10", "4", "missing"))}
    held = np.array([0.0, 10.0, 4.0])
    wanted = (held - held.mean()) / held.std()
    np.testing.assert_allclose([by_value["0"], by_value["10"], by_value["4"]], wanted, rtol=1e-9)
    assert by_value["missing"] == 0.0
    assert mass @ scores == pytest.approx(0.0, abs=1e-12)


def test_numbers_without_a_spread_have_the_score_0():
    np.testing.assert_array_equal(_standardised(np.array([2.0, 2.0]), np.array([0.5, 0.5])), [0.0, 0.0])
    np.testing.assert_array_equal(_standardised(np.array([2.0]), np.array([0.0])), [0.0])
    np.testing.assert_allclose(_standardised(np.array([0.0, 1.0]), np.array([0.3, 0.1])), [-1 / 3**0.5, 3**0.5])
