"""More laws that other tests go past: of plans and budgets, of words on pages, and of what files and workers leave."""

import math
import re
from datetime import UTC, datetime, timedelta, timezone
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

import trigmech as tm
from trigmech.acceptance import questions
from trigmech.cli import files
from trigmech.cli import parts as parts_commands
from trigmech.engines.processes import FileWorkers
from trigmech.errors import InputError
from trigmech.evaluation.judgement import Judgement
from trigmech.functions.partition import Partition
from trigmech.functions.released_column import ReleasedColumn
from trigmech.inference.formula import parsed_formula
from trigmech.inference.regression import Regression
from trigmech.inference.rehearsing import without_tails
from trigmech.measurement import private_bounds
from trigmech.measurement.exact import QueryStatistic, Several
from trigmech.measurement.release import Session
from trigmech.measurement.rows import PrivateTable
from trigmech.mechanisms import adaptive
from trigmech.mechanisms.adaptive import SoFar
from trigmech.planning import contrasted
from trigmech.planning.shares import budget_of
from trigmech.privacy import ledger_format
from trigmech.privacy.budget import Charge
from trigmech.privacy.noise import SimulatedNoise
from trigmech.queries.book import Book
from trigmech.queries.joint import Marginal
from trigmech.queries.one_way import Histogram
from trigmech.reconstruction import particles
from trigmech.reconstruction.densities import density_of_signs
from trigmech.reconstruction.directed import nearest_possible
from trigmech.report import columns, figures
from trigmech.schema.encoding import shortened
from trigmech.schema.satisfiability import combination
from trigmech.storage.measurements_file import maps_in
from trigmech.tables.lenient import LenientFile
from trigmech.thesis import candidates
from trigmech.thesis.calibration import NoiseScales

# Plans and budgets


def test_rounds_of_gaussian_noise_cost_the_root_of_their_squares_and_pure_ones_their_sum():
    gaussian = [Charge("it", "gaussian", 0.1 * k, 0.01, "L2", 1, "given") for k in (1, 2, 3)]
    together = Charge("it", "gaussian", 0.1 / math.sqrt(1 + 1 / 4 + 1 / 9), 0.01, "L2", 1, "given")
    made = budget_of(gaussian, tm.Budget(9.0, 1e-5))
    assert made.delta == 1e-5
    assert made.epsilon == pytest.approx(budget_of([together], tm.Budget(9.0, 1e-5)).epsilon, rel=1e-9)
    pure = [Charge("it", "laplace", 0.1 * k, 0.01, "L1", 1, "given") for k in (1, 2)]
    assert budget_of(pure, tm.Budget(9.0)).epsilon == pytest.approx(0.15)
    assert budget_of(pure, tm.Budget(9.0)).delta == 0.0


@pytest.mark.parametrize(("workload", "triples"), [
    (None, 2.0 / 3.0), (tm.workload.Marginals(1), 0.0), (tm.workload.Marginals(2), 0.0),
    (tm.workload.Marginals(3), 2.0), (tm.workload.Ranges(3), 2.0), (tm.workload.Ranges(2), 0.0)])
def test_tables_of_three_columns_are_planned_for_whoever_asks_for_them(workload, triples):
    design = tm.design(3_000, tm.Schema.cube(4), tm.Budget(1.0, 1e-6), tm.TableMechanism(workload=workload))
    assert design.measured.triples == triples


@pytest.mark.parametrize(("mechanism", "role"), [
    (tm.TableMechanism(target="z"), "the target, 'z', must be one of the columns 'x1', 'x2'"),
    (tm.TableMechanism(workload=tm.workload.Marginals(2, "z")),
     "the column that the workload is crossed with, 'z', must be")])
def test_a_column_that_a_plan_turns_about_must_be_there(mechanism, role):
    with pytest.raises(InputError, match=re.escape(role)):
        tm.design(50, tm.Schema([tm.Column("x1", 0, 1), tm.Column("x2", 0, 1)]), tm.Budget(1.0, 1e-6), mechanism)


def test_charges_that_are_known_beforehand_have_the_least_scale_of_the_axes():
    asked = []
    scales = NoiseScales("means", "mean", lambda norm: asked.append(norm) or "axes")
    assert (scales.charges, asked) == (("means", "mean", "axes"), [0.0])
    assert NoiseScales("means").charges == ("means",)


def test_simulated_choices_of_rows_repeat_and_others_do_not():
    def drawn(seed):
        session = SimpleNamespace(_noise=SimulatedNoise(np.random.default_rng(seed)))
        return Session.uniform(session, 5)

    np.testing.assert_array_equal(drawn(3), drawn(3))
    np.testing.assert_array_equal(drawn(3), np.random.default_rng(3).random(5))
    real = [Session.uniform(SimpleNamespace(_noise=None), 5) for _ in range(2)]
    assert (real[0] != real[1]).any()
    assert ((real[0] >= 0.0) & (real[0] < 1.0)).all()


def test_queries_of_two_kinds_are_summed_by_two_statistics_and_one_kind_by_one():
    whole = [Partition((), j, np.array([-1.0, 0.0, 1.0])) for j in range(2)]
    counts = [Histogram(j, own) for j, own in enumerate(whole)]
    table = Marginal((0, 1), tuple(whole), (np.arange(2), np.arange(2)))
    assert not isinstance(QueryStatistic(tuple(counts)).statistic, Several)
    both = QueryStatistic((*counts, table)).statistic
    assert isinstance(both, Several)
    assert both.size == QueryStatistic(tuple(counts)).statistic.size + QueryStatistic((table,)).statistic.size


def test_a_column_s_cells_are_at_least_two_even_if_their_products_are_too_many(monkeypatch):
    monkeypatch.setattr(contrasted, "MOST_PRODUCTS", 3)
    asked = []

    def cells(count, of_categories):
        asked.append((count, of_categories))
        return np.array([count, count, of_categories, of_categories])

    most, of_categories, missed = contrasted.best_cells(cells, 2, 0.01)
    assert (most, of_categories, math.isfinite(missed)) == (2, 2, True)
    assert asked == [(2, 3), (2, 2), (3, 3)]
    monkeypatch.setattr(contrasted, "MOST_PRODUCTS", contrasted.products_of(np.full(4, 3)))
    assert contrasted.best_cells(cells, 2, 1e-9)[:2] == (3, 3)


def test_beside_numbers_with_two_cells_categories_have_three():
    """With two, a third category moved as the first one, and pairs with it had twice the error."""
    def cells(count, of_categories):
        return np.array([count, count, of_categories, of_categories])

    assert contrasted.best_cells(cells, 2, 10.0)[:2] == (2, 3)
    # Without numbers, the number of cells is that of the categories alone.
    assert contrasted.best_cells(cells, 0, 10.0)[:2] == (2, 2)


def test_a_search_counts_a_step_for_each_constraint_that_it_looks_at():
    yes = np.ones((2, 2), dtype=bool)
    tables = [(("a", "b"), yes), (("b", "c"), yes)]
    needed = next(steps for steps in range(1, 50) if combination(tables, steps) is not None)
    assert needed > 3
    assert combination(tables, needed) == {"a": 0, "b": 0, "c": 0}
    assert combination([(("a", "b"), ~yes)], 50) is False


def test_outer_positions_that_noise_may_hold_are_left_out_on_both_sides():
    def kept(mass):
        partition = Partition((9,), 0, np.linspace(-1.0, 1.0, len(mass)))
        made = without_tails(ReleasedColumn(partition, np.array(mass), 0.01))
        return (made.mass > 0.0).tolist()

    even = [0.1, *np.full(6, 0.15)]
    assert all(kept(even))
    tail = [0.1, 1e-4, 0.3, 0.3, 0.3 - 1e-4]
    assert kept(tail) == [True, False, True, True, True]
    assert kept([tail[0], *tail[:0:-1]]) == [True, True, True, True, False]


# Files and workers


@pytest.mark.parametrize(("text", "good"), [
    ("2026-01-01T00:00:00Z", True), ("2026-01-01T00:00:00+00:00", True), ("2026-01-01T00:00:00", False),
    ("2026-01-01T00:00:00+01:00", False), ("2026-01-01T00:00:00-05:00", False), ("yesterday", False), ("", False),
    (datetime(2026, 1, 1, tzinfo=UTC).isoformat(), True),
    (datetime(2026, 1, 1, tzinfo=timezone(timedelta(minutes=1))).isoformat(), False)])
def test_times_of_ledgers_are_in_utc(text, good):
    if good:
        ledger_format._check_time(text, "entry 1")
    else:
        with pytest.raises(InputError, match="entry 1: a time must be ISO 8601 in UTC"):
            ledger_format._check_time(text, "entry 1")


@pytest.mark.parametrize(("cells", "good"), [([0, 1, 1, 2], True), ([2, 0, 1, 1], True), ([1, 2, 2, 1], False),
                                             ([0, 2, 2, 0], False), ([0, -1, 0, 1], False)])
def test_cells_of_files_are_numbered_from_0_without_gaps(cells, good):
    arrays = {"m": np.array(cells)}
    if good:
        (found,) = maps_in(arrays, "m", [4])
        assert found.tolist() == cells
    else:
        with pytest.raises(InputError, match="numbered from 0, without gaps"):
            maps_in(arrays, "m", [4])


def test_a_partition_of_two_columns_is_written_twice_and_of_one_once():
    book, partition = Book(), Partition((), 0, np.array([-1.0, 1.0]))
    assert [book.partition(j, partition) for j in (0, 1, 0, 1)] == [0, 1, 0, 1]
    assert [column for column, _ in book.partitions] == [0, 1]


def test_workers_that_are_closed_leave_no_process_and_no_bucket():
    ended = []
    workers = object.__new__(FileWorkers)
    workers._pool = SimpleNamespace(shutdown=lambda **options: ended.append(options))
    workers._buckets = SimpleNamespace(close=lambda: ended.append("buckets"))
    workers.close()
    assert (ended, workers._pool) == ([{"cancel_futures": True}, "buckets"], None)
    workers.close()
    assert ended[2:] == ["buckets"]


@pytest.mark.parametrize("given", [{}, {"given": {"a": 1}}, {"shares": {"a": {1: 1.0}}}])
def test_a_written_sample_tells_its_rows_how_many_differ_and_how_far_it_is(monkeypatch, given):
    from trigmech.tables import reader

    steps = []
    pieces = [{"a": np.array([1.0, 2.0]), "who": np.array([1, 2])},
              {"a": np.array([1.0, 1.0]), "who": np.array([3, 4])}]
    made = SimpleNamespace(rows=3, schema=SimpleNamespace(names=("a",)),
                           batches=lambda rows, rng, **asked: iter(pieces),
                           distribution=SimpleNamespace(points=np.zeros((7, 1))))
    monkeypatch.setattr(reader, "write_table", lambda path, pieces: list(pieces))
    found = files.write_sample(made, "a.csv", None, progress=lambda *step: steps.append(step), **given)
    # Numbers of persons are made up, and do not make rows different.
    assert (found.rows, found.different, found.fitted) == (4, 2, None if given else 7)
    assert steps == [("writing rows", 2, 3), ("writing rows", 4, 4)]


@pytest.mark.parametrize("jitter", [-1e-9, np.inf, np.nan, "0"])
def test_a_jitter_below_0_or_without_end_is_refused(jitter):
    with pytest.raises((InputError, TypeError)):
        particles.draw(np.zeros((2, 1)), np.ones(2), 3, jitter, np.random.default_rng(0))
    if jitter == -1e-9:
        made = particles.draw(np.array([[0.25], [0.5]]), np.array([1.0, 3.0]), 8, 0.0, np.random.default_rng(0))
        np.testing.assert_allclose(np.sort(made.ravel()), [0.25] * 2 + [0.5] * 6)


@pytest.mark.parametrize("error", [1e-13, 1e-9, 1e-6])
def test_numbers_within_an_error_of_a_short_one_are_short_and_others_stay(error):
    short = np.array([19.99, -0.5, 3.0, 0.0])
    np.testing.assert_array_equal(shortened(short + 0.5 * error, error), short)
    np.testing.assert_array_equal(shortened(short - 0.5 * error, error), short)
    # What has more decimals than the error allows but for three or four is not short.
    longer = np.array([19.99, 0.5]) + 12.0 * error
    np.testing.assert_array_equal(shortened(longer, error), longer)


# Words


@pytest.mark.parametrize(("compared", "said"), [
    (400, "All 400 true rows were compared with 50 synthetic ones; a detector learned from 30 of each."),
    (100, "100 drawn rows of the 400 true rows were compared with 50 synthetic ones; a detector learned from 30 of "
          "each; a share of so many rows has a standard error of 5 percentage points at most, and measured errors "
          "contain it.")])
def test_a_judgement_says_how_exact_its_shares_are_if_it_looked_at_a_part(compared, said):
    rows = {"true": 400, "true_compared": compared, "synthetic": 50, "detector": 30}
    assert Judgement((), {}, rows).compared == said


def test_numbers_that_are_none_are_null_in_the_data_of_a_regression():
    one = np.array([1.5, math.nan])
    made = Regression("y ~ x", "gaussian", ("Intercept", "x"), np.array([1.0, 2.0]), one, one, one, one, one, one, 5,
                      0.9, "the table", ("a note",))
    found = made.to_dict()
    assert {key: found[key] for key in ("formula", "family", "covers", "level", "imputations", "notes")} == {
        "formula": "y ~ x", "family": "gaussian", "covers": "the table", "level": 0.9, "imputations": 5,
        "notes": ["a note"]}
    for name, held in made.columns.items():
        assert [row[name] for row in found["coefficients"]] == [
            None if isinstance(value, float) and math.isnan(value) else value for value in held.tolist()]
    assert found["coefficients"][1]["low"] is None


@pytest.mark.parametrize("text", ["x", "x" * 14])
def test_axes_begin_where_the_marks_of_the_vertical_axis_have_room_and_never_further_left(text):
    figure = Figure(figsize=(3.0, 2.0))
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0.2, 0.2, 0.7, 0.7))
    axes.set_yticks([0.0, 1.0], [text, "y"])
    figures._make_room(axes)
    box, renderer = axes.get_position(), figure.canvas.get_renderer()
    assert box.x0 >= 0.2
    assert (box.x0 == 0.2) == (text == "x")
    assert (box.x1, box.y0, box.y1) == pytest.approx((0.9, 0.2, 0.9))
    assert min(label.get_window_extent(renderer).x0 for label in axes.get_yticklabels()) >= 0.0


# Tables and fits


def test_bounds_that_are_found_for_logarithms_of_whole_numbers_are_above_0():
    schema = tm.Schema([tm.Column("x", kind="integer", private_bounds=True, transform="log")])
    raw = PrivateTable(pd.DataFrame({"x": [1, 1, 1, 2, 3] * 500}), schema).raw(schema)
    session = SimpleNamespace(charge=lambda *charges: None, draw=lambda values, charge: values)
    (column,) = private_bounds.with_private_bounds(
        raw, schema, private_bounds.histogram_charges(tm.Budget(10.0), 0.5, 1), session).columns
    assert (column.lower, column.upper) == (1, 4)


@pytest.mark.parametrize(("column", "values", "labels", "codes"), [
    (tm.Column("x", 0, 9, special=(-1, -2)), [-2.0, 3.0, -1.0, 0.0], ("= -1", "= -2"), [1, -1, 0, -1]),
    (tm.Column("x", 0, 9), [3.0, 0.0], (), [-1, -1]),
    (tm.Column("x", 0, 1, "binary"), [1.0, 0.0, 1.0], ("0", "1"), [1, 0, 1]),
    (tm.Column("x", kind="categorical", categories=("b", "a")), np.array(["a", "b", "z"], dtype=object), ("b", "a"),
     [1, 0, -1])])
def test_values_without_a_name_have_no_label_on_a_page(column, values, labels, codes):
    found, places = columns._codes(column, np.asarray(values))
    assert (found, places.tolist()) == (labels, codes)


@pytest.mark.parametrize("diagonal", [[1.0, 1.0, 1.0], [2.0, 1.0, 0.5]])
def test_the_nearest_possible_matrix_has_the_diagonal_that_it_is_given(diagonal):
    given = np.array([[0.0, 0.9, -0.9], [0.9, 0.0, 0.9], [-0.9, 0.9, 0.0]]) + np.diag(diagonal)
    made = nearest_possible(given)
    np.testing.assert_array_equal(np.diag(made), diagonal)
    assert np.linalg.eigvalsh(made).min() > np.linalg.eigvalsh(given).min()
    np.testing.assert_allclose(nearest_possible(np.diag(diagonal)), np.diag(diagonal), atol=1e-12)


@pytest.mark.parametrize(("background", "count", "inside"), [(0.5, 3, 1), (0.25, 7, 5), (0.0, 4, 4), (1.0, 4, 0)])
def test_a_background_has_its_rounded_part_of_the_points(monkeypatch, background, count, inside):
    asked = []
    monkeypatch.setattr(candidates, "Ellipsoid", lambda *_: SimpleNamespace(
        draw=lambda number, rng, draw: asked.append(number) or np.full((number, 2), 5.0)))
    given = SimpleNamespace(mean=np.zeros(2), axes=SimpleNamespace(eigenvalues=lambda kind: np.ones(1),
                                                                   directions=np.eye(2)[:, :1]))
    points = candidates.ellipsoid_points(given, count, 1.0, np.random.default_rng(0), background=background)
    assert (asked, points.shape) == ([inside], (count, 2))
    assert (points[:inside] == 1.0).all()
    assert (np.abs(points[inside:]) < 1.0).all()


def test_means_of_no_row_are_refused():
    basis = tm.ChebyshevBasis(np.array([[1], [2]]))
    with pytest.raises(InputError, match="X must have at least one row"):
        basis.means(np.empty((0, 1)))
    assert basis.means(np.array([[0.5]])).tolist() == [0.5, -0.5]


def test_levels_are_those_of_numbers_alone():
    schema = tm.Schema([tm.Column("k", kind="categorical", categories=(1, 2, 5)), tm.Column("x", 0, 3, "integer"),
                        tm.Column("y", 0, 1), tm.Column("z", 0, 2, "integer", special=(-1,), missing="keep")])
    domain = schema.domain
    assert [(coordinate, len(values)) for coordinate, values in domain.levels] == [(3, 4), (5, 3)]
    assert [(group.coordinates, group.value) for group in domain.groups] == [((0, 1, 2), None), ((6, 7), 5)]


def test_a_formula_tells_the_first_eighty_letters_of_a_name_that_no_column_has():
    with pytest.raises(InputError, match=f"the formula has '{'n' * 80}', and there is no such column"):
        parsed_formula(f"x ~ {'n' * 100}", ["x", "y"])


def test_names_of_an_earlier_table_are_forgotten_by_a_fit_without_names():
    rows = np.random.default_rng(0).uniform(-1.0, 1.0, (60, 2))
    model = tm.Synthesizer("cube", epsilon=1.0, delta=1e-5, random_state=0,
                           mechanism=tm.MomentMechanism(degree=1, points=16))
    model.fit(pd.DataFrame(rows, columns=["a", "b"]))
    assert (model.feature_names_in_.tolist(), model.n_features_in_) == (["a", "b"], 2)
    model.fit(rows)
    assert (hasattr(model, "feature_names_in_"), model.n_features_in_) == (False, 2)


def test_rows_of_files_of_columns_are_counted_from_1(tmp_path):
    pq.write_table(pa.table({"x": [1.0, 2.0, 3.0, 4.0, 5.0]}), tmp_path / "a.parquet")
    file = LenientFile(tmp_path / "a.parquet")
    file.begin()
    lines = [part.lines.tolist() for part in file.parts([tm.Column("x", 0, 9)], {"x": 0})]
    assert [line for part in lines for line in part] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("factor", [0.25, 3.0])
def test_a_density_of_signs_of_twice_as_many_rows_is_twice_as_high(factor):
    values = np.array([0.2, -0.1, 0.05])
    one, other = (density_of_signs(size * values, size * 0.02, size * 0.8, 16) for size in (1.0, factor))
    np.testing.assert_allclose(other.mean(), factor * one.mean(), rtol=1e-9)


def test_columns_are_cut_near_quantiles_of_the_weights_and_not_of_the_points():
    schema = tm.Schema([tm.Column("x", 0, 1)])
    points = np.linspace(-0.95, 0.95, 20)[:, None]
    heavy = np.where(np.arange(20) < 4, 0.2, 0.0125)
    for weights, inner in ((np.full(20, 0.05), [0.0]), (heavy, [-0.75])):
        asked = questions.Questions(schema, tm.Distribution(points, weights))
        cut = asked._cut(0, 2)
        np.testing.assert_allclose(cut.edges, [-1.0, *inner, 1.0], atol=0.11)
        held = np.bincount(cut.codes(points), weights)
        assert abs(held[0] - 0.5) <= 0.5 * weights.max() + 1e-12


def test_a_table_that_a_round_asks_for_combines_what_holds_less_than_half_of_an_even_cell(monkeypatch):
    told = []
    monkeypatch.setattr(adaptive, "cells_of", lambda column, *more: told.append(more) or np.arange(2))
    partition = Partition((), 0, np.array([-1.0, 0.0, 1.0]))
    so_far = SimpleNamespace(columns=[SimpleNamespace(partition=partition)], _place=lambda column: column)
    SoFar.marginal(so_far, 0, cells=8)
    assert told == [(8, 0.5 / 8, 8)]


@pytest.mark.parametrize(("text", "options", "names", "before"), [
    ("a;b\n1;2\n", {"delimiter": ";"}, ("a", "b"), 1), ("sep=;\na;b\n1;2\n", {"delimiter": ";"}, ("a", "b"), 2),
    ("\n\na,b\n1,2\n", {}, ("a", "b"), 3), ('"a\nc",b\n1,2\n', {}, ("a\nc", "b"), 2),
    ("1,2\n3,4\n", {"header": False}, ("column1", "column2"), 0)])
def test_the_lines_before_the_first_row_are_counted(tmp_path, text, options, names, before):
    (tmp_path / "a.csv").write_text(text)
    file = LenientFile(tmp_path / "a.csv", **options)
    file.begin()
    assert (tuple(file.names), file._csv.lines_before) == (names, before)


@pytest.mark.parametrize("simulated", [(), (True,), (False,), (True, False)])
def test_a_ledger_file_says_whether_some_of_its_entries_are_simulated(tmp_path, simulated):
    book = tm.LedgerFile.create(tmp_path / "book.json", tm.Budget(3.0, 1e-5))
    for k, each in enumerate(simulated):
        book.charge(f"{k}" * 32, [Charge("it", "gaussian", 0.1, 0.01, "L2", 1, "here")], each)
    assert ("SIMULATED entries" in str(book)) == any(simulated)


@pytest.mark.parametrize(("history", "number"), [
    (None, 1), (SimpleNamespace(round=1), 2), (SimpleNamespace(round=4), 5)])
def test_rounds_of_parts_are_counted_from_1(history, number):
    assert parts_commands._round(SimpleNamespace(history=history)) == number
