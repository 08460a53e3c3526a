"""What a default, an older name, a hook or a limit decides: each is called directly, and compared with numbers."""

import contextlib
import math
import sys
from dataclasses import replace
from types import SimpleNamespace

import narwhals as nw
import numpy as np
import pandas as pd
import pytest

import trigmech as tm
from trigmech.cli import app
from trigmech.domain import Domain
from trigmech.engines import spark
from trigmech.errors import InputError
from trigmech.evaluation import judgement
from trigmech.functions.partition import Partition
from trigmech.functions.released_column import ReleasedColumn
from trigmech.inference import drawing
from trigmech.inspection import files
from trigmech.measurement.exact import _Evaluated
from trigmech.measurement.private_bounds import CellCounts, histogram_charges
from trigmech.measurement.private_categories import selection_charges, without_thresholds
from trigmech.mechanisms import asked
from trigmech.mechanisms.adaptive import SoFar
from trigmech.planning import dependence
from trigmech.planning.tables import plan_tables
from trigmech.queries.joint import Marginal
from trigmech.schema import guessing
from trigmech.synthesis import design
from trigmech.tables.lenient import LenientFile


def test_the_older_name_of_rows_is_rows():
    assert tm.MomentMechanism(fit="particles").fit == "rows"


def test_a_mechanism_of_ones_own_stands_for_a_table_by_as_many_points_as_rows_within_three_limits():
    found = [tm.Mechanism.most_points(object(), n, d) for n, d in (
        (10, 1), (1_025, 3), (50_001, 3), (50_000, 4_000), (10, 10**9))]
    assert found == [1_024, 1_025, 50_000, 12_500, 1]


def test_random_polynomials_are_a_thousand_by_default():
    assert tm.workload.Polynomials(2, 2, seed=0).n_queries == 1_000


def test_options_that_are_lists_are_no_tables_of_names():
    with pytest.raises(InputError, match="categories must be a list, not dict"):
        tm.Column("x", kind="categorical", categories={"a": 1, "b": 2})


def test_the_decision_about_a_release_tells_how_far_it_has_read():
    schema, seen = tm.Schema([tm.Column("x", 0, 9, "integer")]), []
    table = pd.DataFrame({"x": np.arange(40) % 10})
    made = tm.synthesize(table, schema, tm.Budget(5.0, 1e-6), rng=np.random.default_rng(0))
    tm.accept(made, table, (tm.Criterion("ks", 1, columns=["x"]),), tm.Budget(1.0), np.random.default_rng(0),
              progress=lambda *step: seen.append(step))
    assert seen


def test_the_command_line_ends_by_its_own_rules_and_not_by_those_of_typer(monkeypatch):
    given = []
    monkeypatch.setattr(app, "_command", lambda: lambda **options: given.append(options))
    with pytest.raises(SystemExit):
        app.main()
    assert given == [{"prog_name": "trigmech", "standalone_mode": False}]


# Planning and measuring


def test_special_and_missing_values_have_the_normal_score_0():
    column = ReleasedColumn(Partition((1, 2), 0, np.linspace(-1.0, 1.0, 3)), np.array([0.2, 0.3, 0.25, 0.25]), 0.1)
    assert column.normal_scores[:2].tolist() == [0.0, 0.0]
    # The mean of the half of a normal law.
    np.testing.assert_allclose(column.normal_scores[2:], [-math.sqrt(2.0 / math.pi), math.sqrt(2.0 / math.pi)])


def test_functions_of_whole_points_are_measured_with_the_weights_that_are_given():
    so_far = SimpleNamespace(facts=SimpleNamespace(domain=Domain(2)))
    weights = np.array([1.0, 2.0, 4.0])
    asked = SoFar.functions(so_far, tm.ChebyshevBasis(np.array([[1, 0], [0, 1], [1, 1]])), weights)
    np.testing.assert_array_equal(asked.weights, weights)
    np.testing.assert_array_equal(SoFar.functions(so_far, tm.ChebyshevBasis(np.array([[1, 0], [0, 1]]))).weights,
                                  np.ones(2))


@pytest.mark.parametrize("last", [True, False])
def test_the_noise_that_cells_are_planned_for_is_that_of_equal_weights_after_all_rounds(monkeypatch, last):
    domain = tm.Schema([tm.Column(name, kind="categorical", categories=tuple(range(k)))
                        for name, k in (("a", 2), ("b", 3), ("c", 5))]).domain
    design = plan_tables(5_000, domain, tm.Budget(3.0, 1e-6))
    design = design if last else replace(design, selected=None)
    columns = [ReleasedColumn(partition, np.full(partition.size, 1.0 / partition.size), 0.001)
               for partition in design.partitions]
    maps, seen = dependence._maps, []
    monkeypatch.setattr(dependence, "_maps", lambda columns, *given: seen.append(given) or maps(columns, *given))
    asked = dependence.design_dependence(design, columns)
    tables = [each for each in asked if isinstance(each.query, Marginal)]
    # Of the squared diameter of all, 2 for each table, tables have what their weights have, here each a third of it.
    share = 2.0 * sum(each.weight**2 for each in tables)
    noise = design.dependence.deviation() / math.sqrt(share / 2.0 / 3.0)
    if last:
        noise = 1.0 / math.hypot(1.0 / noise, math.sqrt(0.5 / 3.0) / design.selected.deviation())
    (wanted, found), = seen
    assert found == pytest.approx(noise, rel=1e-12)
    assert wanted == pytest.approx(dependence.FINENESS / math.sqrt(2.0 * noise), rel=1e-12)


def test_each_column_whose_bounds_or_categories_are_found_has_an_equal_part_of_their_share():
    schema = tm.Schema([tm.Column("x", private_bounds=True), tm.Column("a", kind="categorical", categories="private"),
                        tm.Column("b", kind="categorical", categories="private"), tm.Column("y", 0, 1)])
    budget = tm.Budget(3.0, 1e-6)
    made = design(500, schema, budget, bounds_share=0.3)
    np.testing.assert_allclose([each.scale for each in made.categories],
                               [each.scale for each in selection_charges(budget, 0.2, 2)], rtol=1e-12)
    bounds = histogram_charges(without_thresholds(budget), 0.1, 1)
    np.testing.assert_allclose([each.scale for each in made.bounds], [each.scale for each in bounds], rtol=1e-12)


def test_counts_of_private_bounds_are_at_most_the_persons():
    counts = CellCounts(("x",), (0,), ((),), (np.arange(3.0),))

    def check(*found):
        counts.check(SimpleNamespace(n=5, over=lambda bits: np.array(found)))

    check(2.0, 3.0)
    for wrong in ((3.0, 3.0), (2.0, 3.001), (6.0, -1.0)):
        with pytest.raises(InputError, match="sum to more than 5"):
            check(*wrong)


@pytest.mark.parametrize("shape", [(3,), (3, 4), (2, 3, 4)])
def test_a_query_has_as_many_functions_as_its_shape_has_entries(shape):
    seen = _Evaluated(SimpleNamespace(shape=shape))
    assert len(np.zeros(shape).ravel()) == seen.K


# Comparisons


def test_the_loss_of_regressions_is_the_mean_over_columns_of_what_is_lost(monkeypatch):
    monkeypatch.setattr(judgement, "regression_losses", lambda *_: (
        np.array([0.5, 0.4, np.nan, 0.2]), np.array([0.1, 0.5, 0.0, 0.0])))
    coding = SimpleNamespace(columns=[SimpleNamespace(name=name) for name in "abcd"])
    side, details = SimpleNamespace(values=np.zeros((4, 4))), {}
    (found,) = judgement._regressions(coding, side, side, side, details, None)
    assert found.value == pytest.approx((0.4 + 0.0 + 0.2) / 3.0)
    assert sorted(details["regressions"]) == ["a", "b", "d"]


def test_the_moments_of_imputed_rows_are_asked_for_in_the_order_of_the_functions():
    asked, moments = [], np.array([[0.1, 0.2], [0.3, 0.4], [0.5, 0.6]])
    fits = SimpleNamespace(_single=[moments, moments[:1]], _kept=np.zeros(0, dtype=np.bool_),
                           _smooth=SimpleNamespace(factors=np.zeros((0, 4), dtype=np.int64)))
    drawing._Fits._ask_smooth(fits, SimpleNamespace(products=lambda *given: asked.append(given)), 1, 0.01)
    (columns, functions, means, weights), (other, *_) = asked
    assert (columns.tolist(), functions.tolist(), other.tolist()) == ([[0]] * 3, [[0], [1], [2]], [[1]])
    np.testing.assert_array_equal(means, [0.2, 0.4, 0.6])
    np.testing.assert_allclose(weights, 1.0 / 0.05**2)


# Tables


def test_names_of_another_encoding_are_told_with_it(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes("Größe,b\n1,2\n".encode("latin-1"))
    file, found = LenientFile(path), []
    assert files._begun(file, found)
    assert file.names == ("Größe", "b")
    assert [each.kind for each in found] == ["encoding"]


def test_a_spark_session_that_was_made_for_a_table_is_ended_with_it_and_no_other():
    stopped = []
    table = SimpleNamespace(_session=SimpleNamespace(stop=lambda: stopped.append(True)))
    spark.SparkWorkers.close(table)
    assert (stopped, table._session) == ([True], None)
    spark.SparkWorkers.close(table)
    assert stopped == [True]


@pytest.mark.parametrize(("workers", "scheduler", "master", "with_path"), [
    (None, None, "local[*,4]", True), (3, None, "local[3,4]", True), (None, "spark://host:7077", "spark://host:7077",
                                                                      False), (None, "sc://host", None, False)])
def test_a_spark_session_has_as_many_workers_as_asked_for_or_all(monkeypatch, workers, scheduler, master, with_path):
    said = {}

    class Builder:
        def appName(self, name):  # noqa: N802 - Spark's own name
            return self

        def master(self, name):
            said["master"] = name
            return self

        def remote(self, name):
            said["remote"] = name
            return self

        def config(self, name, value):
            said[name] = value
            return self

        def getOrCreate(self):  # noqa: N802 - Spark's own name
            return "a session"

    sql = SimpleNamespace(SparkSession=SimpleNamespace(getActiveSession=lambda: None, builder=Builder()))
    monkeypatch.setitem(sys.modules, "pyspark", SimpleNamespace(sql=sql))
    monkeypatch.setitem(sys.modules, "pyspark.sql", sql)
    monkeypatch.setenv("PYSPARK_PYTHON", "python")
    assert spark._session(workers, scheduler) == ("a session", True)
    assert (said.get("master"), said.get("remote")) == (master, None if master else scheduler)
    assert ("spark.executorEnv.PYTHONPATH" in said) == with_path
    monkeypatch.setattr(sql.SparkSession, "getActiveSession", lambda: "another")
    assert spark._session(None, None) == ("another", False)
    with pytest.raises(InputError, match="workers and scheduler are for a session that trigmech starts"):
        spark._session(2, None)


def test_a_column_that_is_empty_at_first_has_the_type_of_what_comes_later(monkeypatch):
    beginning = guessing.Beginning(pd.DataFrame({"x": np.array([None, None], dtype=object)}))
    monkeypatch.setattr(beginning, "_later", lambda name: pd.DataFrame({"x": [0.0, 1.5]}))
    seen, guess = [], guessing._guess
    monkeypatch.setattr(guessing, "_guess", lambda values, dtype, options: seen.append(dtype) or guess(
        values, dtype, options))
    assert beginning.guess("x") == ("continuous", [])
    assert seen == [nw.Float64]


@pytest.mark.parametrize(("weight", "deviations", "refused"), [
    (1.0, [1.0, 1.0], False), (1.0, [1.0, asked.MOST_APART], False), (1.0, [1.0, 2.0 * asked.MOST_APART], True),
    (1.0, [0.5 / asked.MOST_APART, 1.0], True), (2.0 * asked.MOST_APART, [1.0], True), (1.0, [math.nan], True)])
def test_noise_that_no_file_holds_is_refused(weight, deviations, refused):
    seen = []
    query = SimpleNamespace(deviations=lambda scale: seen.append(scale) or np.array(deviations))
    with pytest.raises(InputError, match="the noise of one number of a round may be at most 1e") if refused else (
            contextlib.nullcontext()):
        asked.check_weights([SimpleNamespace(weight=weight, query=query)])
    assert seen == [1.0 / weight]
