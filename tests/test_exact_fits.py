"""Parts of fits and of answers by hand: closer looks, positions in common, projections, rows that must keep rules."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import trigmech as tm
from trigmech.acceptance.criteria import load_criteria
from trigmech.domain import Domain
from trigmech.engines import processes
from trigmech.errors import InputError, WorkerError
from trigmech.functions.chebyshev import ChebyshevBasis
from trigmech.functions.partition import Partition
from trigmech.functions.released_column import ReleasedColumn
from trigmech.inference import posterior, projection
from trigmech.inference.smooth import SmoothFunctions
from trigmech.measurement.exact import QueryStatistic
from trigmech.measurement.rows import PrivateRows
from trigmech.measurement.sums import Chunk
from trigmech.planning import error_model
from trigmech.queries.base import Measurement
from trigmech.queries.functions import Functions
from trigmech.queries.joint import Marginal
from trigmech.queries.one_way import Detail, Histogram
from trigmech.reconstruction import constrained
from trigmech.reconstruction.common import common_positions
from trigmech.reconstruction.details import looked_closer
from trigmech.reconstruction.positions import ColumnFeatures
from trigmech.report import columns as page_columns
from trigmech.tables.frames import Columns
from trigmech.workload import GaussianKernels

HALVES = Partition((), 0, np.array([-1.0, 0.0, 1.0]))
QUARTERS = np.array([0.0, 0.25, 0.5, 0.75, 1.0])


def detail(values, deviation, edges=QUARTERS):
    return Measurement(Detail(0, HALVES, 1, edges), 1.0, np.array(values), deviation)


def test_a_closer_look_divides_the_mass_of_its_interval():
    column = ReleasedColumn(HALVES, np.array([0.4, 0.6]), 0.01)
    # One piece is clear, and the noise of the others is not: they share the rest evenly.
    made = looked_closer(column, detail([0.0, 0.5, 0.0, 0.0], 1e-3), 4)
    assert made.mass.sum() == pytest.approx(1.0)
    mass = {(float(a), float(b)): float(held) for a, b, held in zip(
        made.partition.edges[:-1], made.partition.edges[1:], made.mass, strict=True)}
    assert mass.pop((-1.0, 0.0)) == 0.4
    in_quarters = np.zeros(4)
    for (start, stop), held in mass.items():
        own = (QUARTERS[:-1] >= start) & (QUARTERS[1:] <= stop)
        in_quarters[own] += held / own.sum()
    np.testing.assert_allclose(in_quarters, [0.1 / 3, 0.5, 0.1 / 3, 0.1 / 3], rtol=1e-9)


def test_what_is_clear_is_scaled_to_the_mass_of_its_interval():
    column = ReleasedColumn(HALVES, np.array([0.4, 0.6]), 0.01)
    made = looked_closer(column, detail([0.2, 0.9, 0.1, 0.6], 1e-3), 4)
    assert made.mass[0] == 0.4
    np.testing.assert_allclose(np.diff(np.interp(QUARTERS, made.partition.edges, np.concatenate(
        [[0.0], np.cumsum(made.mass)]))), np.array([0.2, 0.9, 0.1, 0.6]) / 3.0, rtol=1e-9)


DOMAIN = Domain(2)


def test_common_positions_are_those_of_the_closer_look_unless_another_query_cuts_its_interval():
    look = Measurement(Histogram(0, HALVES), 1.0, np.array([0.4, 0.6]), 1e-3)
    close = detail([0.0, 0.5, 0.0, 0.0], 1e-3)
    column, _ = common_positions(DOMAIN, [look, close])
    assert {0.25, 0.5} < set(column.partition.edges.tolist())
    assert column.mass[(column.partition.edges[:-1] == 0.25)].tolist() == pytest.approx([0.5], rel=1e-2)
    # Thirds of the upper half cut its interval: the mass lies evenly again.
    thirds, other = Partition((), 0, np.array([-1.0, 0.0, 1 / 3, 2 / 3, 1.0])), Partition((), 1, np.array([-1.0, 1.0]))
    table = Marginal((0, 1), (thirds, other), (np.arange(4), np.arange(1)))
    column, _ = common_positions(DOMAIN, [look, close, Measurement(table, 1.0, np.full(4, 0.25), 1e-9)])
    upper = column.partition.edges[:-1] >= 0.0
    density = column.mass / np.diff(column.partition.edges)
    np.testing.assert_allclose(density[upper], density[upper][0], rtol=1e-9)


def test_a_closer_look_is_projected_to_polynomials_of_its_intervals():
    query = Detail(0, HALVES, 1, np.linspace(0.0, 1.0, 9))
    means = np.array([0.1, 0.0, 0.3, 0.1, 0.05, 0.05, 0.0, 0.02])
    release = SimpleNamespace(known=[Measurement(query, 1.0, means, 0.01)], look_at=lambda j: None,
                              columns=[ReleasedColumn(HALVES, np.ones(2) / 2, 0.01)])
    taken, = projection.projections(release)
    sums = taken.sums.toarray()
    assert sums.shape == (4, 8)
    np.testing.assert_allclose(sums @ sums.T, np.eye(4), atol=1e-12)
    x = np.linspace(-1.0, 1.0, 8)
    for power in range(4):
        np.testing.assert_allclose(sums.T @ (sums @ x**power), x**power, atol=1e-12)
    assert np.abs(sums.T @ (sums @ x**4) - x**4).max() > 0.01
    np.testing.assert_allclose(taken.values, sums @ means, rtol=1e-12)
    assert (taken.query, taken.deviation) == (query, 0.01)
    np.testing.assert_array_equal(posterior._map(taken).toarray(), sums)


@pytest.mark.parametrize("size", [4, 3])
def test_a_query_without_sums_is_mapped_as_it_is_encoded(size):
    matrix = np.arange(4.0 * size).reshape(size, 4)
    query = SimpleNamespace(shape=(2, 2), size=size, decoding=None if size == 4 else "decoded",
                            encode=lambda means: matrix @ means.ravel())
    taken = projection.Projection(query, None, np.zeros(4), 1.0)
    np.testing.assert_array_equal(posterior._map(taken).toarray(), np.eye(4) if size == 4 else matrix)
    # A query of as many numbers as entries that are decoded is mapped too.
    query.size, query.decoding = 4, "decoded"
    query.encode = lambda means: 2.0 * means
    np.testing.assert_array_equal(posterior._map(taken).toarray(), 2.0 * np.eye(4))


def test_functions_of_one_set_are_computed_once_for_all_queries_about_them():
    basis = ChebyshevBasis.graded(2, 5)
    one, two = Functions.of(basis, members=slice(0, 2)), Functions.of(basis, members=slice(2, 5))
    together = QueryStatistic((one, two))
    (members, sums), = together._parts
    assert (members, together.statistic is sums, sums.size) == ([0, 1], True, 5)
    apart = QueryStatistic((one, Functions.of(ChebyshevBasis.graded(2, 5), members=slice(2, 5))))
    assert [members for members, _ in apart._parts] == [[0], [1]]
    assert apart.statistic.size == 10
    points = np.array([[0.5, -0.25], [1.0, 0.0]])
    of = {statistic: PrivateRows(2, Domain(2), lambda: [Chunk(points, Domain(2))]).sums(statistic.statistic)
          for statistic in (together, apart)}
    for first, second in zip(*(statistic.parted(total) for statistic, total in of.items()), strict=True):
        np.testing.assert_array_equal(first, second)


# Rules


def test_numbers_that_no_draw_makes_keep_their_rule_are_copied_from_another_row(monkeypatch):
    schema = tm.Schema([tm.Column("a", 0, 1), tm.Column("b", 0, 1)], ["a <= b"])
    columns = [ReleasedColumn(Partition((), j, np.array([-1.0, 1.0])), np.ones(1), 0.01) for j in range(2)]
    rows = constrained.ConstrainedRows(schema, columns)
    drawn = []

    def place(columns, codes, fractions, d):
        drawn.append(fractions.shape)
        points = np.tile([0.5, -0.5], (len(codes), 1))
        points[0] = [-0.25, 0.25]
        return points if len(drawn) == 1 else points[1 : len(codes) + 1] if len(codes) > 1 else np.array([[0.5, -0.5]])

    monkeypatch.setattr(constrained, "placed", place)
    monkeypatch.setattr(constrained, "keeps", lambda schema, points, own=None: points[:, 0] <= points[:, 1])
    monkeypatch.setattr(rows, "_valued", lambda points, codes: points)
    monkeypatch.setattr(rows, "_rounded", lambda points, codes: np.tile([0.5, -0.5], (len(codes), 1)))
    made = rows.placed(np.zeros((3, 2), dtype=np.int32), 2, np.random.default_rng(0))
    np.testing.assert_array_equal(made, [[-0.25, 0.25]] * 3)
    assert len(drawn) == 1 + constrained.DRAWS


def test_without_constraints_numbers_are_placed_once():
    columns = [ReleasedColumn(Partition((), 0, np.array([-1.0, 0.5, 1.0])), np.ones(2) / 2, 0.01)]
    rows = constrained.ConstrainedRows(None, columns)
    made = rows.placed(np.array([[0], [1]], dtype=np.int32), 1, np.random.default_rng(0))
    u = np.random.default_rng(0).random((2, 1))
    np.testing.assert_allclose(made[:, 0], [-1.0 + 1.5 * u[0, 0], 0.5 + 0.5 * u[1, 0]], rtol=1e-12)


# Others


def test_a_group_whose_mean_cannot_be_measured_has_no_profile(monkeypatch):
    workload = GaussianKernels(2, seed=0, n_queries=10, widths=(0.5,))
    assert error_model.ErrorModel(workload, 3, 2).measurable == [0]

    def refuse(*given):
        raise InputError("constant")

    monkeypatch.setattr(error_model, "Features", refuse)
    made = error_model.ErrorModel(workload, 3, 2)
    assert (made.measurable, made.profiles, made.gain.tolist()) == ([], [None], [0.0])


def test_criteria_that_are_no_toml_are_refused_with_its_reason(tmp_path):
    (tmp_path / "c.toml").write_text("criteria = ")
    with pytest.raises(InputError, match=r"is not valid TOML: Invalid value"):
        load_criteria(tmp_path / "c.toml")
    (tmp_path / "c.toml").write_text("criteria = " + "[" * 100_000)
    with pytest.raises(InputError, match=r"c\.toml' is not valid TOML: it is nested too deeply$"):
        load_criteria(tmp_path / "c.toml")


def test_what_is_no_sequence_is_an_array_or_refused():
    class Rows:
        def __init__(self, *rows):
            self.rows = rows

        def __array__(self, dtype=None, copy=None):
            return np.array(self.rows, dtype=dtype)

    assert Columns(Rows([1.0, 2.0], [3.0, 4.0]), ("a", "b")).numbers(1).tolist() == [2.0, 4.0]
    with pytest.raises(InputError, match=r"shape \(n, 2\); its shape is \(\)"):
        Columns(object(), ("a", "b"))
    with pytest.raises(InputError, match=r"shape \(n, 2\); its shape is \(2, 3\)"):
        Columns(np.zeros((2, 3)), ("a", "b"))
    assert Columns(pd.DataFrame({"a": [1.0]}), ("a",)).n == 1


def test_indicators_are_named_by_their_position_and_other_functions_kept_once():
    # A number with a special value, in coordinates 1 and 0, and three categories.
    number = SimpleNamespace(coordinates=np.array([1, 0]), indicators=1, masses=np.ones(3),
                             values=np.array([[1.0, 0.0], [0.0, -1.0], [0.0, 0.5]]))
    names = SimpleNamespace(coordinates=np.array([2, 3, 4]), indicators=3, masses=np.ones(3), values=np.eye(3))
    factors = ColumnFeatures(Domain(5), [number, names])
    assert factors.of([1], [1]) == [(0, -1)]
    assert factors.of([4, 2], [1, 1]) == [(1, 0)]
    assert factors.of([3], [1]) == [(1, -2)]
    assert factors.of([0, 4], [2, 1]) == [(0, 0), (1, -3)]
    assert factors.of([0], [1]) == [(0, 1)]
    assert factors.of([0], [2]) == [(0, 0)]
    assert factors.append(0, np.array([1.0, 2.0, 3.0])) == 2
    first, second = factors.values()
    # A special value has the number 0.
    np.testing.assert_allclose(first, np.array([[-1.0, 1.0, -0.5], [0.0, -1.0, 0.5], [1.0, 2.0, 3.0]]).T, atol=1e-12)
    np.testing.assert_allclose(second, np.zeros((3, 1)), atol=1e-12)


@pytest.mark.parametrize(("indicators", "value", "mass", "joint", "plain", "powers"), [
    ((), 0, [0.125] * 8, 2, 3, [1, 2, 3]), ((1,), 0, [0.2, *[0.1] * 8], 3, 4, [1, 2, 1, 3]),
    ((1, 2), 0, [0.1, 0.2, *[0.0875] * 8], 3, 5, [1, 2, 1, 3, 1]),
    # A special value that nobody has is no function.
    ((1, 2), 0, [0.0, 0.2, *[0.1] * 8], 3, 4, [1, 2, 1, 3]),
    ((0, 1, 2), None, [0.5, 0.3, 0.2], 2, 2, [1, 1]), ((0, 1, 2, 3, 4), None, [0.2] * 5, 3, 4, [1] * 4)])
def test_few_functions_of_a_column_are_multiplied_with_those_of_others(indicators, value, mass, joint, plain, powers):
    edges = np.empty(0) if value is None else np.linspace(-1.0, 1.0, 9)
    made = SmoothFunctions.of([Partition(indicators, value, edges)], [np.array(mass)])
    assert (made.joint, made.plain) == ([joint], [plain])
    assert made.powers[0][:plain].tolist() == powers


def test_categories_have_no_numbers_on_a_page():
    column = tm.Column("c", kind="categorical", categories=["x", "y"], missing="keep")
    values = np.ma.MaskedArray(np.array(["y", "x", "x"], dtype=object), [False, False, True])
    found = page_columns._values(column, values)
    assert (found.labels, found.codes.tolist()) == (("x", "y", "missing"), [1, 0, 2])
    assert np.isnan(found.numbers).all()
    ordered = page_columns._values(tm.Column("c", kind="ordinal", categories=["x", "y"], missing="keep"), values)
    np.testing.assert_array_equal(ordered.numbers, [1.0, 0.0, np.nan])


class Result:
    """What a process is asked for, which it answers or dies of."""

    def __init__(self, answer):
        self.answer, self.cancelled = answer, False

    def result(self):
        if self.answer is None:
            raise processes.BrokenProcessPool
        return self.answer

    def cancel(self):
        self.cancelled = True


@pytest.mark.parametrize(("dying", "ended"), [(0, 0), (1, 1), (3, 3)])
def test_processes_are_kept_between_questions_and_begun_anew_after_one_died(monkeypatch, dying, ended):
    monkeypatch.setattr(processes, "as_completed", list)
    monkeypatch.setattr(processes, "MOST_DEATHS", 3)
    workers, rounds, ends = object.__new__(processes.FileWorkers), [], []
    workers._buckets, workers._files = None, SimpleNamespace(pieces=["a", "b"])

    def begun(packed, waiting):
        rounds.append(sorted(waiting))
        # In the first rounds the process of the second piece dies.
        return {Result(None if place == 1 and len(rounds) <= dying else place): place for place in waiting}

    monkeypatch.setattr(workers, "_begun", begun, raising=False)
    monkeypatch.setattr(workers, "_end", lambda: ends.append(len(rounds)), raising=False)
    assert list(workers.answers(SimpleNamespace(packed=bytes))) == [0, 1]
    assert (rounds, len(ends)) == ([[0, 1], *[[1]] * dying], ended)
    rounds.clear()
    dying = 9
    with pytest.raises(WorkerError, match="ended 4 times before they were done"):
        list(workers.answers(SimpleNamespace(packed=bytes)))
