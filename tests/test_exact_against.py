"""The comparison with a true table by hand: how much work is done for how many rows, and what is said of it."""

from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

import trigmech as tm
from trigmech.distribution import Distribution
from trigmech.evaluation import distances
from trigmech.report import against
from trigmech.workload import GaussianKernels, PairKernels, SecondMoments

COLUMNS = (tm.Column("a", 0, 10), tm.Column("b", 100, 200), tm.Column("c", kind="ordinal", categories=["x", "y", "z"]))
SCHEMA = tm.Schema(COLUMNS[:2])


@pytest.mark.parametrize(("rows", "d", "asked"), [
    (1_000_000, 20, 200), (1_000_000, 70, 100), (10**7, 20, 50), (4_000_000, 20, 50), (3_900_000, 20, 51)])
def test_so_many_queries_are_asked_as_there_is_work_for(rows, d, asked):
    assert against.affordable(rows, d) == asked
    # A query of ten kernels costs as much as ten of one.
    assert against.affordable(rows // 10, d, 10) == asked


def test_families_are_those_of_the_default_workload_with_fewer_queries():
    assert against.families(0, 100, 100) == []
    found = against.families(2, 7, 8, seed=3)
    assert [type(each) for each in found] == [GaussianKernels, PairKernels, SecondMoments]
    assert [(each.seed, each.n_queries) for each in found[:2]] == [(3, 7), (3, 8)]
    assert [each.n_queries for each in against.families(2, 10**6, 10**6)[:2]] == [10_000, 1_000]


@pytest.mark.parametrize(("numbers", "count"), [(2 * 10**7 - 3, 1_000), (2 * 10**7, 1_000), (4 * 10**7, 500),
                                               (10**8, 200), (10**9, 200)])
def test_distances_are_of_as_many_rows_as_there_is_work_for(monkeypatch, numbers, count):
    seen = []
    monkeypatch.setattr(against, "systematic", lambda weights, some, rng: seen.append(some) or np.arange(1))
    monkeypatch.setattr(against, "_nearest", lambda points, rows, k: seen.append(len(points)) or np.zeros((1, k)))

    class Rows(np.ndarray):
        size = numbers

        def __getitem__(self, chosen):
            return np.empty((len(chosen), 1))

    rows = np.broadcast_to(0.0, (2_000, 1)).view(Rows)
    against.distances(Distribution(np.zeros((2_000, 1)), np.full(2_000, 1 / 2_000)), rows, np.random.default_rng(0))
    assert seen == [count, 1, count]


def test_distances_are_to_the_nearest_true_record_and_to_the_nearest_other_one():
    rows = np.array([[0.0, 0.0], [0.3, 0.4], [1.0, 0.0]])
    made = Distribution(np.array([[0.3, 0.4], [1.0, 0.5]]), np.array([0.5, 0.5]))
    synthetic, true = against.distances(made, rows, np.random.default_rng(0))
    np.testing.assert_allclose(np.sort(synthetic), [0.0, 0.5])
    np.testing.assert_allclose(np.sort(true), np.sort([0.5, 0.5, np.hypot(0.7, 0.4)]))


def test_the_worst_queries_are_told_from_the_greatest_error_down():
    errors = np.array([[0.1, 0.2], [0.9, 0.3], [0.5, 0.6], [0.0, 0.4]])
    evaluation = SimpleNamespace(errors=errors, truth=errors + 1.0, answers=errors + 2.0)
    pairs = PairKernels(2, seed=0, n_queries=4, widths=(0.5, 0.25))
    found = against.worst_queries(pairs, evaluation, 2.0 * errors, COLUMNS[:2])
    assert [each[1:] for each in found] == [[0.9, 1.8, "1.9", "2.9"], [0.6, 1.2, "1.6", "2.6"],
                                            [0.4, 0.8, "1.4", "2.4"]]
    assert [each[0].split(" around ")[0] for each in found] == [
        "Gaussian kernel of width 0.5", "Gaussian kernel of width 0.25", "Gaussian kernel of width 0.25"]
    kernels = GaussianKernels(2, seed=0, n_centers=3, widths=(0.5, 0.25))
    only, = against.worst_queries(kernels, evaluation, None, COLUMNS[:2], 1)
    assert only == ["query 2: a mean of 3 Gaussian kernels of width 0.5 in all 2 columns", 0.9, "", "1.9", "2.9"]


def test_queries_are_told_in_the_columns_units():
    moments = SecondMoments(3)
    assert [against.in_words(moments, query, 0, COLUMNS) for query in range(6)] == [
        "mean square of a", "mean product of a and b", "mean product of a and c", "mean square of b",
        "mean product of b and c", "mean square of c"]
    pairs = PairKernels(3, seed=0, n_queries=40, widths=(0.5,))
    of, centres = pairs.queries
    for query in range(40):
        def value(j, y):
            if j == 2:
                return ["x", "y", "z"][round(y + 1.0)]
            return float(f"{COLUMNS[j].lower + (y + 1.0) / 2.0 * (COLUMNS[j].upper - COLUMNS[j].lower):.4g}")

        said = against.in_words(pairs, query, 0, COLUMNS)
        parts = said.removeprefix("Gaussian kernel of width 0.5 around ").split(" and ")
        for part, j, y in zip(parts, of[query], centres[query], strict=True):
            name, text = part.split(" = ")
            assert name == COLUMNS[j].name
            assert (text if j == 2 else float(text)) == value(j, y)


def test_a_table_in_any_form_is_the_same_rows():
    a, b = [0.0, 5.0, 10.0], [100.0, 150.0, 125.0]
    wanted = SCHEMA.to_cube(np.column_stack([a, b]))
    for form in ([a, b], {"b": b, "a": a}, np.column_stack([a, b]), pa.table({"b": b, "a": a}),
                 [np.array(a, dtype=object), b]):
        np.testing.assert_array_equal(against.rows_of(SCHEMA, form), wanted)
    for wrong, said in (([a], "a list must hold the 2 columns of the schema in order; it has 1 entries"),
                        ({"a": a, "b": b[:2]}, "must be sequences of one length"),
                        ({"a": [[1.0], [2.0]], "b": [[1.0], [2.0]]}, "must be sequences of one length"),
                        ({"a": [[1.0], [2.0, 3.0]], "b": b}, "must be sequences of one length"),
                        ({"a": a}, "the table")):
        with pytest.raises(tm.InputError, match=said):
            against.rows_of(SCHEMA, wrong)


@pytest.mark.parametrize("count", [7, 4])
def test_rows_are_judged_with_as_many_synthetic_ones_and_their_reading_is_told(monkeypatch, count):
    monkeypatch.setattr(against, "compared_rows", lambda n, d: count)
    monkeypatch.setattr(against, "ROWS_AT_A_TIME", 3)
    monkeypatch.setattr(against, "judged", lambda schema, true, made, n, say: (true, made, n))
    made, said = SimpleNamespace(schema=SCHEMA, columns=lambda k, rng: k), []
    table = pa.table({"a": np.arange(7.0), "b": np.arange(100.0, 107.0)})
    true, synthetic, n = against.judgement_of(made, table, lambda *step: said.append(step))
    assert (synthetic, n) == (count, 7)
    assert said == [("reading the rows", at, count) for at in range(0, count, 3)]
    for name, first in (("a", 0.0), ("b", 100.0)):
        assert len(true[name]) == count
        assert (np.diff(true[name]) > 0.0).all()
        assert set(true[name] - first) <= set(range(7))
    # A page compares the same rows, in whatever form the table is.
    for form in (table, SCHEMA.from_cube(SCHEMA.to_cube(table))):
        drawn = against.DrawnRows.of(SCHEMA, form)
        assert "hidden" in repr(drawn)
        again, synthetic, n = drawn.judged(made)
        assert (len(drawn.points), synthetic, n) == (count, count, 7)
        for name in ("a", "b"):
            np.testing.assert_array_equal(again[name], true[name])


def test_rows_of_a_large_table_are_drawn_before_they_are_read(monkeypatch):
    monkeypatch.setattr(against, "compared_rows", lambda n, d: 4)
    read = []
    monkeypatch.setattr(tm.Schema, "to_cube", lambda schema, rows: read.append(len(rows)) or np.zeros((len(rows), 2)))
    against.DrawnRows.of(SCHEMA, pa.table({"a": np.arange(7.0), "b": np.arange(100.0, 107.0)}))
    assert read == [4]


def test_a_pass_over_the_table_tells_how_far_it_is_and_what_differs():
    schema = tm.Schema([tm.Column("a", 0, 10), tm.Column("c", kind="categorical", categories=["x", "y"])])
    domain = schema.domain
    made = Distribution(np.array([[-1.0, 1.0, 0.0], [0.0, 0.0, 1.0]]), np.array([0.75, 0.25]))
    rows = np.array([[-1.0, 1.0, 0.0], [0.5, 0.0, 1.0], [0.5, 0.0, 1.0], [1.0, 0.0, 1.0], [0.0, 1.0, 0.0]])
    means = SimpleNamespace(answers=lambda points, weights=None: np.average(points, axis=0, weights=weights)[None])
    said = []
    found = distances.compare([rows[:2], rows[2:]], 5, domain, made, made, [means, means],
                              lambda *step: said.append(step))
    assert said == [("asking the release", 0, 2), ("asking the release", 1, 2), ("asking the table", 2, 5),
                    ("asking the table", 5, 5)]
    for each in found.evaluations:
        np.testing.assert_allclose([each.truth[0, 0], each.answers[0, 0]], [0.2, -0.75])
    # Three quarters of the synthetic rows are at -1 and a fifth of the true ones; two fifths are at most at 0.
    np.testing.assert_allclose(found.differences, [0.6])
    np.testing.assert_allclose(found.variations, [0.35])
