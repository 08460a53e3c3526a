"""Laws of lines that were drawn by chance from the whole package, each called directly."""

import contextlib
import re
from types import SimpleNamespace

import numpy as np
import pandas
import pytest
from test_cli import run as run  # a fixture

import trigmech as tm
from trigmech.acceptance.criteria import Criterion
from trigmech.cli import app, release
from trigmech.errors import InputError
from trigmech.evaluation.verdict import LIMITS
from trigmech.functions.chebyshev import ChebyshevBasis
from trigmech.functions.partition import Partition
from trigmech.functions.released_column import ReleasedColumn
from trigmech.inference import posterior
from trigmech.mechanisms.adaptive import SoFar
from trigmech.parts.answers import AskedTable, Unanswered
from trigmech.planning import dependence
from trigmech.planning.allocation import GaussianVector, InfinityBlocks
from trigmech.planning.error_model import Selection
from trigmech.reconstruction import positions
from trigmech.reconstruction.dependence import IMPOSSIBLE, shrunk_contrasts
from trigmech.reconstruction.l1_cube import CubeProblem, CubeSearch
from trigmech.reconstruction.rows import RowObjective
from trigmech.reconstruction.shrinkage import within_reason
from trigmech.reconstruction.sparse import TableEstimate, beside_finer
from trigmech.reconstruction.tables import cells_of_columns
from trigmech.report import advised, comparison, figures, sections
from trigmech.schema.encoding import values_of
from trigmech.schema.lookup import read_lookup
from trigmech.tables.frames import Columns
from trigmech.tables.reader import _of_equal_length
from trigmech.tables.scalars import seconds_of

# Tables and files


def test_a_folder_is_no_table_for_lookup(tmp_path):
    (tmp_path / "rates.csv").mkdir()
    with pytest.raises(InputError, match=r"cannot read the table 'rates\.csv' for lookup: "):
        read_lookup("rates.csv", tmp_path)


@pytest.mark.parametrize("value", ["tomorrow", "2020-02-30", "", 3, None])
def test_what_is_no_date_has_no_seconds(value):
    assert seconds_of(value) is None


@pytest.mark.parametrize("lengths", [(3, 3, 3), (1, 9, 2), (4, 4), (2,), (0, 5), ()])
def test_chunks_have_one_length_wherever_a_file_is_cut(lengths):
    import pyarrow as pa

    whole = pa.table({"x": np.arange(sum(lengths))})
    ends = np.cumsum(lengths)
    made = list(_of_equal_length((whole.slice(end - length, length) for end, length in zip(ends, lengths, strict=True)),
                                 4))
    full, rest = divmod(len(whole), 4)
    assert [each.num_rows for each in made] == [4] * full + [rest] * (rest > 0)
    assert [value for each in made for value in each["x"].to_pylist()] == list(range(len(whole)))


def test_an_absent_column_is_told_as_the_persons_only_if_it_is():
    schema = tm.Schema([tm.Column("x", 0.0, 1.0), tm.Column("y", 0.0, 1.0)], person="who")
    for held, absent, said in ((["who", "x"], "y", "this column"),
                               (["x", "y"], "who", "the column that identifies persons")):
        found = tm.check(pandas.DataFrame({name: [0.25, 0.5, 0.75] for name in held}), schema).found
        assert [(each.kind, each.column) for each in found if each.kind == "absent"] == [("absent", absent)]
        assert next(each.sentence for each in found if each.kind == "absent") == f"the table lacks {said}"


def test_ordered_categories_stand_as_they_are():
    size = tm.Column("size", kind="ordinal", categories=("S", "M", "L"), missing="keep")
    schema = tm.Schema([size, tm.Column("w", 0.0, 1.0)], ["size >= 'M' or size is missing"])
    frame = pandas.DataFrame({"size": ["L", "S", None, "M"], "w": [0.0, 0.5, 0.5, 1.0]})
    found = values_of(size, Columns(frame, schema.names), 0)
    assert found.tolist() == ["L", "S", None, "M"]
    assert schema.holds(frame).tolist() == [True, False, True, True]


# Rows and tables


def test_the_table_with_the_most_cells_counts_whatever_the_order():
    few, more, most = (np.arange(12) // step for step in (6, 3, 1))
    tables = [SimpleNamespace(query=SimpleNamespace(columns=columns, maps=maps))
              for columns, maps in (((0, 1), (few, more)), ((0, 2), (most, few)), ((1, 2), (few, few)))]
    products = SimpleNamespace(query=SimpleNamespace(maps=(few, few, few, more)))
    for measured in (tables, tables[::-1]):
        found = cells_of_columns(SimpleNamespace(tables=measured, products=products))
        assert {j: int(cells.max()) + 1 for j, cells in found.items()} == {0: 12, 1: 4, 2: 2, 3: 4}
    assert set(cells_of_columns(SimpleNamespace(tables=tables[1:2], products=None))) == {0, 2}


def test_finer_cells_of_several_positions_are_summed_by_their_cells():
    # Six positions in three finer cells, of which two lie in the first coarse one.
    fine, coarse = np.array([0, 0, 1, 1, 2, 2]), np.array([0, 0, 0, 0, 1, 1])
    finer = TableEstimate(np.array([[0.2, 0.1, 0.0], [0.1, 0.1, 0.0], [0.0, 0.0, 0.5]]), np.full((3, 3), 1e-9), True)
    known = TableEstimate(np.full((2, 2), 0.25), np.full((2, 2), 1e-2), False)
    made = beside_finer(known, known.table, 1e-2, (coarse, coarse), finer, (fine, fine))
    np.testing.assert_allclose(made.table, [[0.5, 0.0], [0.0, 0.5]], atol=1e-9)


def test_rows_in_an_empty_cell_of_any_sparse_table_are_visited_at_last(monkeypatch):
    made = RowObjective([2, 2, 2])
    identity = [made.map(j, np.arange(2)) for j in range(3)]
    for a, b in ((0, 1), (1, 2)):
        made.table([identity[a], identity[b]], np.eye(2) / 2.0, 1.0, sparse=True)
    objective = made.compiled()
    # In an empty cell of the first table, of the second, of both, of neither.
    rows = np.array([[0, 1, 1], [1, 1, 0], [0, 1, 0], [0, 0, 0]] * 2, dtype=np.int32)
    visited = []
    monkeypatch.setattr(type(objective), "leave_empty", lambda *_: 0)
    monkeypatch.setattr(type(objective), "sweep", lambda self, rows, residuals, order, columns, sampled=None:
                        visited.append((sorted(order.tolist()), sampled)))
    objective.clear_empty(objective.descend(rows, np.random.default_rng(0), most=0), np.random.default_rng(0), 3)
    # And then all rows once, around these cells.
    assert visited.pop() == ([*range(8)], 3)
    assert visited
    assert all(each == ([0, 1, 2, 4, 5, 6], None) for each in visited)


def test_rows_that_fit_already_are_left_as_they_are():
    made = RowObjective([2, 2])
    maps = [made.map(j, np.arange(2)) for j in range(2)]
    rows = np.array([[0, 0], [0, 1], [1, 0], [1, 1]] * 50, dtype=np.int32)
    # Less than the noise beside what the rows have.
    made.table(maps, np.array([[0.2501, 0.25], [0.25, 0.2499]]), 1.0 / 0.005**2)
    before = rows.copy()
    fitted = made.compiled().descend(rows, np.random.default_rng(0))
    assert (fitted.sweeps, 0.0 < fitted.misfit < 0.1) == (0, True)
    np.testing.assert_array_equal(fitted.rows, before)


@pytest.mark.parametrize("width", [2, 3])
def test_the_complete_tables_of_two_columns_are_found_beside_other_functions(width):
    pair = [[0, 1], [0, 1], [0, 1], [0, 1]]
    columns = np.array([[*each, *[-1] * (width - 2)] for each in [*pair, [0, 1]]])
    features = np.full(columns.shape, -1)
    codes = np.array([[-1, -1], [-2, -1], [-1, -2], [-2, -2]])
    features[:4, :2] = codes
    # A product of numbers is no part of a table.
    features[4, :2] = 0
    held = [SimpleNamespace(indicators=2, masses=np.full(2, 0.5)) for _ in range(2)]
    found, = positions._tables(columns, features, held, np.ones(5))
    assert found.tolist() == [0, 1, 2, 3]
    assert positions._tables(columns, features, held, np.array([1.0, 1.0, 1.0, 2.0, 1.0])) == []


def test_contrasts_that_no_row_can_have_leave_noise_alone_at_zero():
    deviation = np.array([0.5, -2.0, 0.99 * IMPOSSIBLE, 2.0 * IMPOSSIBLE]) * 0.1
    found = shrunk_contrasts(deviation, 0.1, np.array([[0, 1], [0, 2], [1, 2], [0, 3]]), np.zeros(4))
    np.testing.assert_allclose(found, [0.0, 0.0, 0.0, 0.2 * IMPOSSIBLE])


def test_released_numbers_keep_their_digits_within_what_a_fit_can_square():
    means, scales = within_reason(np.array([-1e9, -1e5, 0.5, 1e9]), np.array([1e-15, 1e-11, 1e5, 1e9]))
    assert means.tolist() == [-1e6, -1e5, 0.5, 1e6]
    assert scales.tolist() == [1e-12, 1e-11, 1e5, 1e6]


def test_each_column_ascends_on_the_grid_of_its_own_degree():
    rng = np.random.default_rng(0)
    index = np.array([[1, 0], *([0, k] for k in range(1, 10))])
    fine = np.cos(np.linspace(0.0, np.pi, 20_001))
    for turned in (False, True):
        search = CubeSearch(ChebyshevBasis(index[:, ::-1].copy() if turned else index))
        for _ in range(20):
            y = rng.normal(size=10)
            ends, _ = search.ascend(np.zeros((1, 2)), y)
            single, series = ends[0, ::-1] if turned else ends[0]
            assert single == np.sign(y[0])
            curve = np.polynomial.chebyshev.Chebyshev(np.concatenate([[0.0], y[1:]]))
            assert curve(series) >= curve(fine).max() - 1e-9


def test_points_enter_only_if_they_gain_more_than_a_part_of_the_gap():
    asked = []
    given = SimpleNamespace(
        price=lambda dual: dual + 1.0, scale=2.0, target=np.array([1.0, 2.0]), _gap=0.1,
        entering=lambda prices, least, chosen: asked.append((prices.tolist(), least)) or np.array([0]))
    for threshold, least in ((1.0, 1.0 + 0.25 * 0.1 * 7.0), (8.0, 8.0 + 0.25 * 0.1 * 1e-3 * 2.0)):
        asked.clear()
        assert CubeProblem.price_and_bound(given, np.array([2.0, 3.0]), threshold, np.array([0]), None).tolist() == [0]
        (prices, found), = asked
        assert (prices, found) == ([3.0, 4.0], pytest.approx(least, rel=1e-12))


def test_fractions_of_blocks_are_tried_larger_and_smaller():
    blocks = InfinityBlocks(100, 1.0, SimpleNamespace(sizes=np.array([3, 0, 2])), True)
    assert [each.tolist() for each in blocks.changes(2.0)] == [
        [2.0, 1.0, 1.0], [0.5, 1.0, 1.0], [1.0, 1.0, 2.0], [1.0, 1.0, 0.5]]


def test_weights_of_vectors_are_tried_larger_and_smaller_in_the_same_places():
    found = GaussianVector(100, 1.0, Selection(3, 5, 2, True, (0, 1)), True).changes(2.0)
    larger, smaller = found[: len(found) // 2], found[len(found) // 2 :]
    for up, down in zip(larger, smaller, strict=True):
        np.testing.assert_array_equal(up * down, 1.0)
        assert up.max() in (2.0, 4.0)
    # Degree 2; 3 and 4; the fifth; the first; all pairs; those of degree 2, twice if of both; triples; whole rows.
    tried = [np.flatnonzero(each > 1.0).tolist() for each in larger]
    assert tried == [[1], [2, 3], [4], [0], [5, 6, 7, 8], [6, 7, 8], [9], [10]]
    assert larger[5].tolist() == [1.0] * 6 + [2.0, 2.0, 4.0] + [1.0] * 2


def test_rows_are_looked_at_once_each_in_their_order(monkeypatch):
    monkeypatch.setattr(posterior, "MOST_ROWS", 1_000)
    monkeypatch.setattr(posterior.SmoothFunctions, "of", lambda *_: SimpleNamespace(size=1))
    points, release = np.arange(1_200.0)[:, None], SimpleNamespace(columns=())
    found = posterior.rows_looked_at(release, points, np.random.default_rng(0))
    assert len(found) == 1_000
    assert (np.diff(found[:, 0]) > 0.0).all()
    assert posterior.rows_looked_at(release, points[:1_000], np.random.default_rng(0)) is not None


@pytest.mark.parametrize(("fewer", "values", "rows"), [
    (1_100, 5_000, 1_100), (1_100, 1_000, 1_150), (2_000, 5_000, 1_150), (1_150, 5_000, 1_150)])
def test_fewer_rows_are_looked_at_beside_many_measured_values_and_never_more(monkeypatch, fewer, values, rows):
    monkeypatch.setattr(posterior, "MOST_ROWS", 1_150)
    monkeypatch.setattr(posterior, "FEWER_ROWS", fewer)
    monkeypatch.setattr(posterior, "projections", lambda release: [SimpleNamespace(values=np.zeros(values))])
    monkeypatch.setattr(posterior.SmoothFunctions, "of", lambda *_: SimpleNamespace(size=1))
    points, release = np.arange(5_000.0)[:, None], SimpleNamespace(columns=())
    assert len(posterior.rows_looked_at(release, points, np.random.default_rng(0))) == rows


@pytest.mark.parametrize(("room", "cells"), [(20, [4, 5]), (19, [4, 4])])
def test_columns_have_fewer_cells_if_their_tables_have_no_room(monkeypatch, room, cells):
    columns = [ReleasedColumn(Partition(tuple(range(len(mass))), None, np.empty(0)), np.array(mass), 0.0)
               for mass in ([0.25] * 4, [0.3, 0.3, 0.2, 0.1, 0.1])]
    monkeypatch.setattr(dependence, "MOST_ENTRIES", room)
    made = dependence._maps(columns, 5.0, 0.05)
    assert [int(each.max()) + 1 for each in made] == cells


# What is asked, and what is written


def test_rounds_that_are_released_are_answered_by_zeros_of_all_persons_and_later_ones_not():
    asked, schema = SimpleNamespace(size=3), tm.Schema([tm.Column("x", 0.0, 1.0)])
    table = AskedTable(SimpleNamespace(n=7, history=SimpleNamespace(round=2)))
    for _ in range(2):
        total = table.answer(asked, schema, False)
        assert (total.n, total.limbs.tolist()) == (7, [[0, 0, 0], [0, 0, 0]])
    with pytest.raises(Unanswered) as question:
        table.answer(asked, schema, True)
    assert (question.value.asked, question.value.schema, question.value.raw) == (asked, schema, True)


def test_a_column_is_named_or_counted_from_0():
    given = SimpleNamespace(facts=SimpleNamespace(names=("a", "b", "c")), columns=(None,) * 3)
    assert [SoFar._place(given, column) for column in ("a", "c", 0, 2, np.int64(1))] == [0, 2, 0, 2, 1]
    for column in ("d", -1, 3, 1.0):
        with pytest.raises(InputError, match="there is no column"):
            SoFar._place(given, column)


def test_a_criterion_keeps_the_order_of_its_columns():
    assert Criterion("correlation", columns=["b", "a"], limit=0.1).columns == ("b", "a")


def test_one_column_in_common_is_enough_to_compare(monkeypatch):
    releases = {name: SimpleNamespace(schema=SimpleNamespace(names=names), release=SimpleNamespace(n=9),
                                      ledger=SimpleNamespace(to_dict=dict))
                for name, names in (("a", ("x", "y")), ("b", ("z", "x")))}
    monkeypatch.setattr(comparison, "forecast_of", lambda made, limits: None)
    monkeypatch.setattr(comparison, "_guarantees", lambda releases: None)
    named = []
    monkeypatch.setattr(comparison, "_lights", lambda caption, of, names, *_: named.append(names))
    assert list(comparison.compare(releases, None, LIMITS).facts["releases"]) == ["a", "b"]
    assert named == [["x"]]


def test_a_picture_of_advice_has_each_kind_s_mean_error_and_its_own_limit(monkeypatch):
    def step(epsilon, **errors):
        return SimpleNamespace(epsilon=epsilon, expected=SimpleNamespace(**{
            kind: [SimpleNamespace(error=each) for each in own] for kind, own in errors.items()}))

    steps = [step(1.0, columns=[0.25, 0.75], pairs=[0.5], correlations=[]),
             step(2.0, columns=[0.25, 0.25], pairs=[0.125], correlations=[])]
    limits = {"column_worst": SimpleNamespace(good=0.75, best=1.0), "pair_worst": SimpleNamespace(good=0.5, best=1.0),
              "correlation_worst": SimpleNamespace(good=0.125, best=0.0)}
    monkeypatch.setattr(figures, "styled", contextlib.nullcontext)
    monkeypatch.setattr(figures, "curves", lambda epsilons, lines: (epsilons, lines))
    monkeypatch.setattr(sections, "Pictures", lambda *_: SimpleNamespace(add=lambda name, alt, figure: figure))
    assert advised._picture(steps, limits) == (
        [1.0, 2.0], [("columns", [0.5, 0.25], 0.25), ("pairs", [0.5, 0.125], 0.5)])
    for each in steps:
        each.expected.columns, each.expected.correlations = each.expected.correlations, each.expected.columns
    assert advised._picture(steps, limits)[1][1] == ("correlations", [0.5, 0.25], 0.125)
    assert advised._picture(steps[:1], limits) is None


@pytest.mark.parametrize(("words", "option", "least"), [
    ("demo", "--rows", 1), ("demo", "--seed", 0), ("advise", "--rows", 20), ("release", "--rows", 1),
    ("release", "--simulate", 0), ("release", "--workers", 1), ("accept", "--simulate", 0), ("ask", "--count", 2),
    ("fit", "--count", 2), ("sample", "--rows", 1), ("sample", "--imputations", 2), ("sample", "--rows-per-person", 1),
    ("sample", "--seed", 0), ("ledger add", "--count", 1), ("part design", "--n", 2), ("part measure", "--workers", 1),
    ("part share", "--party", 1), ("part share", "--parties", 1), ("part share", "--tolerated", 0)])
def test_a_number_below_the_least_is_refused_by_its_option(run, words, option, least):
    status, _, err = run(*words.split(), option, str(least - 1))
    assert status == 2
    assert f"'{option}'" in err
    assert re.search(rf"\b{least}\b", err)


def test_a_seed_of_zero_is_a_seed(run, monkeypatch, tmp_path):
    (tmp_path / "a.tm").write_bytes(b"")
    drawn = []
    monkeypatch.setattr(app, "write_copies", lambda saved, out, count, rng, as_json: drawn.append(rng and rng.random()))
    for seed in ((), ("--seed", "0"), ("--seed", "7")):
        assert run("sample", "a.tm", "--imputations", "3", "--out", "copies", *seed)[0] == 0
    assert drawn == [None, np.random.default_rng(0).random(), np.random.default_rng(7).random()]


def test_a_simulation_with_the_seed_of_zero_is_one(monkeypatch):
    asked = SimpleNamespace(simulate=0, budget=None, mechanism=None, bounds_share=0.1, rounds=None, out="a.tm",
                            rows=None, ledger="l.json")
    monkeypatch.setattr(tm, "synthesize", lambda *_, rng, **options: rng)
    monkeypatch.setattr(release, "write_sample", lambda made, csv, rows, rng: rng)
    for simulate, there in ((0, True), (None, False)):
        asked.simulate = simulate
        drawn = release._synthesized(asked, None, None, None), release._write_table(None, None, asked)
        assert [rng is not None for rng in drawn] == [there, there]
        assert (release.Asked.rounds.fget(asked) is None) == there
