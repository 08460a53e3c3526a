"""Branches that few tables reach, each against numbers that were worked out by hand."""

import math
import pickle
import threading
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.integrate import dblquad
from typer.testing import CliRunner

import trigmech as tm
from trigmech import _parallel
from trigmech.cli.app import app
from trigmech.cli.decision import check_page
from trigmech.engines import question
from trigmech.errors import InputError
from trigmech.evaluation.verdict import english
from trigmech.functions.partition import Partition
from trigmech.functions.released_column import ReleasedColumn
from trigmech.functions.sensitivity import _one_column
from trigmech.measurement.persons import free_name
from trigmech.planning import contrasted, few_rows, one_hot, priors
from trigmech.planning.allocation import GaussianVector, LaplaceVector
from trigmech.planning.error_model import LEAST_VARIANCE, ErrorModel, Selection
from trigmech.privacy.accounting import Charge, _largest, next_charge
from trigmech.queries.base import Measurement
from trigmech.queries.distances import Distance
from trigmech.queries.joint import Marginal
from trigmech.reconstruction import common
from trigmech.reconstruction.cuts import cut
from trigmech.report import advised, lead, pair_figures, pairs
from trigmech.storage.release_file import _fit_out
from trigmech.tables.frames import _cells_of_row
from trigmech.workload.kernel_expansion import normalised_uniform_squares

# Positions of a column: one indicator, and two intervals of different lengths.
UNEVEN = Partition((0,), 1, np.array([-1.0, 0.5, 1.0]))


def test_a_column_that_is_cut_finer_divides_its_mass_by_length():
    column = ReleasedColumn(UNEVEN, np.array([0.1, 0.6, 0.3]), 0.01)
    made = cut(column, np.array([-1.0, 0.0, 0.5, 0.625, 1.0]))
    np.testing.assert_allclose(made.mass, [0.1, 0.4, 0.2, 0.075, 0.225], rtol=1e-12)
    np.testing.assert_array_equal(made.partition.edges, [-1.0, 0.0, 0.5, 0.625, 1.0])
    assert made.partition.indicators == (0,)
    assert made.deviation == 0.01


def test_a_column_of_levels_that_is_cut_finer_divides_its_mass_by_levels():
    levels = np.array([-1.0, -0.5, 0.0, 0.25, 0.75, 1.0])
    column = ReleasedColumn(Partition((0,), 1, np.array([-1.0, 0.5, 1.0]), levels), np.array([0.1, 0.6, 0.3]), 0.01)
    # No level lies between 0.3 and 0.5, so there is no interval of its own.
    made = cut(column, np.array([-1.0, -0.25, 0.3, 0.5, 0.8, 1.0]))
    np.testing.assert_array_equal(np.searchsorted(levels, made.partition.edges[:-1]), [0, 2, 4, 5])
    # Two of four levels of .6 on each side, and one of two of .3.
    np.testing.assert_allclose(made.mass, [0.1, 0.3, 0.3, 0.15, 0.15], rtol=1e-12)


@pytest.mark.parametrize("seed", range(20))
def test_whatever_the_cuts_a_level_keeps_its_part_of_the_mass(seed):
    rng = np.random.default_rng(seed)
    levels = np.unique(np.round(np.concatenate([[-1.0, 1.0], rng.uniform(-1.0, 1.0, 8)]), 2))
    between = 0.5 * (levels[1:] + levels[:-1])
    edges = np.concatenate([[-1.0], np.sort(rng.choice(between, 3, replace=False)), [1.0]])
    mass = rng.dirichlet(np.ones(4))
    column = ReleasedColumn(Partition((), 0, edges, levels), mass, 0.01)
    made = cut(column, np.unique(np.concatenate([edges, rng.uniform(-1.0, 1.0, 6)])))

    def of_levels(partition, masses):
        own = np.searchsorted(partition.edges[1:-1], levels, side="right")
        return masses[own] / np.bincount(own)[own]

    np.testing.assert_allclose(of_levels(made.partition, made.mass), of_levels(column.partition, mass), rtol=1e-9)
    assert (np.bincount(np.searchsorted(made.partition.edges[1:-1], levels, side="right")) > 0).all()


def test_a_column_of_categories_is_not_cut():
    column = ReleasedColumn(Partition((0, 1), None, np.empty(0)), np.array([0.1, 0.9]), 0.01)
    assert cut(column, np.array([-1.0, 1.0])) is column


def table_of_two():
    """A table of categories by a number's two cells of three positions, whose rows are not yet probabilities."""
    first, second = Partition((0, 1), None, np.empty(0)), Partition((), 2, np.array([-1.0, -0.5, 0.0, 1.0]))
    query = Marginal((0, 1), (first, second), (np.array([0, 1]), np.array([0, 0, 1])))
    return Measurement(query, 2.0, np.array([0.1, 0.2, 0.3, 0.4]), 0.02)


def test_a_column_of_a_table_has_the_table_s_sums_evenly_within_a_cell():
    table = table_of_two()
    column = common._margin(1, table)
    np.testing.assert_allclose(column.mass, [0.2, 0.2, 0.6], rtol=1e-12)
    # Each sum is of the two categories' cells, with the noise of both.
    assert column.deviation == pytest.approx(table.deviation * math.sqrt(2.0), rel=1e-12)
    np.testing.assert_allclose(common._margin(0, table).mass, [0.3, 0.7], rtol=1e-12)


def test_of_several_tables_the_most_exact_tells_a_column():
    table = table_of_two()
    worse = Measurement(table.query, 1.0, np.full(4, 0.25), 0.5)
    schema = tm.Schema([tm.Column("a", kind="categorical", categories=["x", "y"]), tm.Column("b", -1.0, 1.0)])
    for given in ([table, worse], [worse, table]):
        made = common.common_positions(schema.domain, given)
        np.testing.assert_allclose(made[0].mass, [0.3, 0.7], rtol=1e-12)
        # Without a histogram a number has the table's positions alone.
        np.testing.assert_array_equal(made[1].partition.edges, [-1.0, -0.5, 0.0, 1.0])
    # What nothing tells is even.
    column, = common.common_positions(tm.Schema.cube(1).domain, [])
    np.testing.assert_allclose(column.mass, np.full(64, 1.0 / 64.0))


def test_a_distance_names_evaluates_and_counts_the_cells_of_all_its_tables():
    table = table_of_two().query
    other = Marginal((2,), (Partition((3, 4), None, np.empty(0)),), (np.array([0, 1]),))
    asked = Distance((other, table), (np.array([0.5, 0.5]), np.full((2, 2), 0.25)), mean=True)
    assert asked.columns == (0, 1, 2)
    assert asked.shape == (6,)
    points = np.array([[0.0, 1.0, -0.7, 1.0, 0.0], [1.0, 0.0, 0.5, 0.0, 1.0]])
    np.testing.assert_array_equal(asked.evaluate(points), [[1, 0, 0, 0, 1, 0], [0, 1, 0, 1, 0, 0]])
    names = ["a", "b", "c", "d", "e"]
    assert asked.names(names) == [*other.names(names), *table.names(names)]
    # (.5 (.3 + .3) + .5 (.15 + .05 + .05 + .15)) / 2, from halves and quarters.
    means = np.array([0.8, 0.2, 0.1, 0.2, 0.3, 0.4])
    assert asked.encode(means)[0] == pytest.approx((0.3 + 0.2) / 2.0, rel=1e-12)


def test_words_are_listed_as_in_english():
    assert [english(words) for words in (["a"], ["a", "b"], ["a", "b", "c"])] == ["a", "a and b", "a, b and c"]


def test_a_name_that_is_free_is_no_column_s():
    assert free_name(["x"]) == "person"
    assert free_name(["person_", "person"]) == "person__"


@pytest.mark.parametrize(("error", "said", "again"), [
    (MemoryError("777"), "did not have enough memory", True),
    (ValueError("777"), "a piece of the table (ValueError)", True),
    (InputError("rows are refused"), "rows are refused", False)])
def test_a_worker_that_fails_names_no_value_and_says_whether_it_may_be_tried_again(error, said, again):
    def tables(asked):
        raise error

    packed = pickle.dumps(SimpleNamespace(asked=SimpleNamespace(size=1)))
    answer = question.answered(packed, tables)
    assert said in answer.problem
    assert "777" not in answer.problem
    assert answer == question.PieceSums(b"", 0, answer.problem, *([True] if again else []))


def test_a_single_uniform_number_is_all_of_its_sum_and_of_two_the_mean_is_the_integral():
    assert normalised_uniform_squares(1) == 1.0
    exact = dblquad(lambda v, u: (u * u + v * v) / (u + v) ** 2, 0.0, 1.0, 0.0, 1.0)[0]
    assert normalised_uniform_squares(2) == pytest.approx(exact, rel=1e-6)


@pytest.mark.parametrize("p", [1, 2])
def test_many_or_high_degrees_have_the_bound_of_each_polynomial_s_range(p):
    assert _one_column(tuple(range(1, 66)), p) == 2.0**p * 65
    assert _one_column((1, 257), p) == 2.0**p * 2
    # Up to there it is searched: T_1 moves by 2, and no other value is larger.
    assert _one_column((1,), p) == pytest.approx(2.0**p, rel=1e-5)


def test_products_of_contrasts_are_counted_by_pairs_and_two_cells_are_left_where_noise_is_all():
    assert contrasted.products_of(np.array([3, 4, 2])) == 2 * 3 + 2 * 1 + 3 * 1
    for numbers in range(3):
        assert contrasted.best_cells(lambda count, _: np.array([count, count]), numbers, math.inf)[0] == 2
        most, of_categories, missed = contrasted.best_cells(lambda count, _: np.array([count, count]), numbers, 0.0)
        assert most == of_categories == contrasted.MOST_CONTRASTED
        assert missed == pytest.approx(few_rows.UNSEEN / most**2 * sum(few_rows.dependences(2, numbers)))
    # Too many products are not looked at, but for those of two cells.
    many = np.ones(600, dtype=np.int64)
    assert contrasted.best_cells(lambda count, _: count * many, 0, 0.0)[0] == 2
    assert contrasted.best_cells(lambda count, _: count * many[:300], 0, 0.0)[0] == 3


def test_what_products_of_contrasts_miss_is_what_neither_factors_nor_single_pairs_show():
    cells, noise = np.array([2, 3, 4, 4, 4]), 0.2
    factors = [0.64 * eigenvalue / (noise * math.sqrt(1 + 2 + 3 + 3 + 3)) / (4.0 * 0.5**0.5)
               for eigenvalue in (0.35 * 3 + 0.05 * 2, 0.05 * 5)]
    numbers = 3 * 2 / 20
    wanted = sum(own * (1.0 - (1.0 - 1.6 / 16) * (x**2 + 0.25) / (1.0 + x**2 + 0.25)) for x, own in zip(
        factors, (numbers * 0.22**2, (1.0 - numbers) * 0.1**2), strict=True))
    assert few_rows.missed_by_contrasts(cells, 3, 4, noise) == pytest.approx(wanted, rel=1e-12)
    assert few_rows.missed_by_contrasts(cells, 3, 4, math.inf) == pytest.approx(sum(few_rows.dependences(5, 3)))


def test_quantiles_are_the_least_values_with_so_much_weight_at_or_below_them():
    side = SimpleNamespace(values=[SimpleNamespace(numbers=np.array([3.0, 1.0, np.nan, 2.0, 9.0]))],
                           weights=np.array([1.0, 1.0, 50.0, 6.0, 2.0]))
    every = np.ones(5, dtype=bool)
    # Of weights 1, 6, 1, 2 at 1, 2, 3, 9: 5 % and 10 %, then up to 70 %, 80 % and all.
    np.testing.assert_array_equal(pairs._quantiles(side, 0, every), [1.0, 2.0, 2.0, 3.0, 9.0])
    assert np.isnan(pairs._quantiles(side, 0, np.arange(5) == 2)).all()


def test_variances_of_nothing_count_as_the_least_in_a_score():
    score = ErrorModel.score(None, np.array([1e-4, 0.0]))
    assert score == pytest.approx((math.log(1e-4) + math.log(LEAST_VARIANCE)) / 4.0, rel=1e-12)


def test_what_is_guessed_of_unmeasured_moments_is_as_the_text_says():
    degrees = np.array([[1, 0, 0], [4, 0, 0], [1, 1, 0], [4, 0, 4], [1, 1, 1], [2, 3, 1]])
    np.testing.assert_allclose(priors.prior_deviations(degrees), [0.5, 0.25, 0.15, 0.075, 0.08, 0.08], rtol=1e-12)
    assert priors.PRIOR_COHERENT == 0.1


def test_fractions_of_a_mixed_table_s_budget_add_up_to_all_of_it():
    schema = tm.Schema([tm.Column("a", kind="categorical", categories=list("xyz")),
                        tm.Column("b", kind="categorical", categories=list("xy")),
                        tm.Column("c", -1.0, 1.0), tm.Column("d", -1.0, 1.0)])
    for n, budget in ((100, tm.Budget(0.1)), (20_000, tm.Budget(1.0)), (20_000, tm.Budget(1.0, 1e-6))):
        chosen, own = one_hot._selected(n, schema.domain, budget, 5_000)
        assert own + math.fsum(each.fraction for each in chosen) == pytest.approx(1.0, rel=1e-12)


def test_nothing_is_left_where_claims_take_more_delta_than_the_reserve():
    claim = Charge.claimed("elsewhere", tm.Budget(0.5, 1e-6), "another tool")
    left = next_charge([claim], tm.Budget(2.0, 1e-5), 9e-7)
    assert (left.pure, left.gaussian, left.delta, left.claimed_delta) == (0.0, 0.0, 1e-5, 0.0)
    # The whole of the reserve may be claimed, and then pure releases are admitted still.
    left = next_charge([claim], tm.Budget(2.0, 1e-5), 1e-6)
    assert left.pure == pytest.approx(1.5, rel=2e-6)
    assert left.claimed_delta == 0.0


def test_the_largest_number_that_fits_is_found_to_six_digits_and_at_both_ends():
    assert _largest(1.0, 10.0, lambda x: False) == 0.0
    assert _largest(1.0, 10.0, lambda x: True) == 10.0
    found = _largest(1e-9, 1e12, lambda x: x <= 3.0)
    assert 3.0 * (1.0 - 2e-6) < found <= 3.0


@pytest.mark.parametrize(("objective", "gap"), [(None, None), (0.25, 0.125)])
def test_a_fit_by_a_linear_program_is_written_with_zeros_for_what_it_lacks(objective, gap):
    fit = SimpleNamespace(status="not solved", iterations=3, seconds=1.5, target=1, points=2, weights=3, misfit=None,
                          objective=objective, gap=gap)
    assert _fit_out(fit) == ({"status": "not solved", "iterations": 3, "seconds": 1.5, "kind": "linear program",
                              "objective": objective or 0.0, "gap": gap or 0.0},
                             {"fit.target": 1, "distribution.points": 2, "distribution.weights": 3})


@pytest.mark.parametrize(("row", "cells"), [
    ((1, 2), (1, 2)), ([1, 2], [1, 2]), (np.array([1, 2]), (1, 2)), (range(2), (0, 1)), (np.zeros((1, 2)), None),
    (np.array(5.0), None), ("ab", None), (5, None), (None, None), ({1, 2}, None), (np.ma.array([1, 2]), None)])
def test_a_row_of_a_list_is_a_sequence_or_an_array_of_one_axis(row, cells):
    assert _cells_of_row(row) == cells


@pytest.mark.parametrize(("threads", "rows", "alone"), [(1, 9, True), (2, 3, True), (2, 9, False)])
def test_pieces_come_in_order_and_by_other_threads_only_if_there_are_several(monkeypatch, threads, rows, alone):
    monkeypatch.setenv(_parallel.THREADS_VARIABLE, str(threads))
    here, seen = threading.current_thread(), []

    def work(start, stop):
        seen.append(threading.current_thread() is here)
        return start, stop

    spans = [(start, min(start + 3, rows)) for start in range(0, rows, 3)]
    assert list(_parallel.in_order(work, rows, 3)) == spans
    assert seen == [alone] * len(spans)


def test_work_that_is_done_by_threads_does_not_wait_for_threads(monkeypatch):
    monkeypatch.setenv(_parallel.THREADS_VARIABLE, "2")

    def work(start, stop):
        inner = list(_parallel.in_order(lambda a, b: threading.current_thread(), 4, 1))
        return len(inner) == 4 and set(inner) == {threading.current_thread()}

    # As many pieces as there are threads, so that none is free for what they would ask of others.
    assert all(_parallel.in_order(work, 4, 1))


@pytest.mark.parametrize(("words", "commands"), [
    ([], ["release", "sample", "check"]), (["schema"], ["init"]), (["ledger"], ["create", "show", "verify", "raise"]),
    (["part"], ["design", "measure", "release", "share"])])
def test_a_group_of_commands_without_one_lists_them(words, commands):
    done = CliRunner().invoke(app, words)
    assert all(command in done.output for command in commands)
    assert "Missing command" not in done.output


@pytest.mark.parametrize(("kind", "root"), [(GaussianVector, 4.0), (LaplaceVector, 3.0)])
@pytest.mark.parametrize("symmetric", [False, True])
def test_weights_by_importance_are_roots_with_a_factor_for_each_degree_of_a_pair(kind, root, symmetric):
    chosen = Selection(3, 2, 2, True, ())
    # T_1 and T_2 of columns; T_1 T_1, T_1 T_2, T_2 T_1, T_2 T_2 of pairs; triples; whole rows.
    importance = np.array([16.0, 8.0, 4.0, 16.0, 2.0, 1.0, 8.0, 0.0])
    given = SimpleNamespace(selection=chosen, symmetric=symmetric, ROOT=root)
    first, second = (0.25, 1.0 / 16.0) if symmetric else (1.0, 1.0)
    factors = [first ** (0.5 / root), second ** (0.5 / root)]
    expected = [1.0, 0.5 ** (1.0 / root), *(a * b for a in factors for b in factors), 0.5 ** (1.0 / root),
                1e-9 ** (1.0 / root)]
    np.testing.assert_allclose(kind.by_importance(given, importance), expected, rtol=1e-12)


def test_columns_of_a_page_have_lights_of_what_is_known_alone():
    synthesis = SimpleNamespace(schema=SimpleNamespace(names=["a"]))
    judged = SimpleNamespace(lights_of_columns=lambda: {"a": "care"}, details={"columns": {"a": 0.875}})
    error = SimpleNamespace(light="good", kind="column", error=0.25, high=0.5)
    expected = SimpleNamespace(columns=[error])
    for one, two, cells, lights in (
            (None, judged, ["a", "care", "12.5 %"], [1]), (expected, None, ["a", "good", "25 %", "50 %"], [1]),
            (expected, judged, ["a", "good", "25 %", "50 %", "care", "12.5 %"], [1, 4])):
        made = lead._columns(synthesis, one, two)
        assert [list(map(str, row)) for row in made.rows] == [cells]
        assert list(made.lights) == lights
        assert len(made.head) == len(cells)


def test_panels_stand_beside_each_other_above_the_room_that_names_need():
    figure, panels = pair_figures._panels(["true", "synthetic"], 0.5, "x", "y")
    width, height = figure.get_size_inches()
    assert (width, height) == pytest.approx((2 * (0.5 + 0.3 + 2.55 + 0.12), 0.12 + 0.3 + 2.1 + 0.25))
    for k, axes in enumerate(panels):
        place = axes.get_position()
        assert (place.x0 * width, place.y0 * height) == pytest.approx((k * 3.47 + 0.8, 0.42))
        assert (place.width * width, place.height * height) == pytest.approx((2.55, 2.1))
    alone = pair_figures._panels(["true"], 0.5, "x", "y", 0.4)[0]
    assert alone.get_size_inches()[1] == pytest.approx(0.4 + 0.3 + 2.1 + 0.12)


def test_advice_over_epsilon_has_the_means_of_errors_and_counts_of_good_lights():
    def error(value):
        return SimpleNamespace(error=value)

    forecast = SimpleNamespace(
        columns=[error(0.1), error(0.3)], pairs=[error(0.5)], correlations=[],
        lights_of_columns=lambda: {"a": "good", "b": "care"}, lights_of_pairs=lambda: {("a", "b"): "good"})
    made = advised._overall([SimpleNamespace(epsilon=0.5, expected=forecast)])
    assert [tuple(row) for row in made.rows] == [("0.5", "20 %", "50 %", "", "1 of 2", "1 of 1")]


def test_a_page_over_a_ledger_is_refused_as_a_ledger(tmp_path):
    page = tmp_path / "page.html"
    tm.LedgerFile.create(tmp_path / "ledger.json", tm.Budget(1.0), "a data set")
    page.write_bytes((tmp_path / "ledger.json").read_bytes())
    with pytest.raises(InputError, match="is a ledger file, the record of spent budget"):
        check_page(page, ())
