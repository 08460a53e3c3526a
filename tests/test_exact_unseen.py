"""Laws that other tests go past: what is left as it was, what ends a search, and words for each case."""

import csv
import itertools
import signal
import threading
import time
from contextlib import nullcontext
from functools import partial
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from golden_cases import OwnFunctions, Waves
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

import trigmech as tm
from trigmech import _parallel
from trigmech.cli.files import check_outputs
from trigmech.domain import Domain
from trigmech.engines import processes
from trigmech.engines.spread import row_free
from trigmech.errors import BudgetError, InputError, WorkerError
from trigmech.functions import sensitivity
from trigmech.functions.partition import Partition
from trigmech.inference import equations
from trigmech.measurement import private_bounds
from trigmech.measurement.release import Session
from trigmech.mechanisms import table as table_module
from trigmech.parts.answers import Recorder
from trigmech.planning import selection, shares
from trigmech.privacy import ledger_server
from trigmech.reconstruction import l1, l1_cube, particles
from trigmech.reconstruction.conditional import _conditions
from trigmech.reconstruction.constrained import keeps
from trigmech.reconstruction.tables import cells_of_columns
from trigmech.report.figures import mark
from trigmech.report.preview import preview
from trigmech.report.tabled import Tabled
from trigmech.report.tables import TableAccount
from trigmech.schema.satisfiability import representatives
from trigmech.storage import older_releases
from trigmech.tables.column_types import to_arrow
from trigmech.tables.csv_text import CsvText
from trigmech.tables.lenient import LenientFile
from trigmech.tables.reader import TableFile
from trigmech.tables.scalars import seconds_of_array
from trigmech.tables.writer import check_options

UNEVEN = "its rows have different numbers of cells"

# Files and tables


def test_a_table_takes_the_place_of_an_empty_file_and_of_no_other(tmp_path):
    (path := tmp_path / "new.csv").touch()
    check_outputs((), table=path)
    path.write_text("a\n")
    check_outputs((), table=path, force=True)
    with pytest.raises(InputError, match="exists; name another file, or give --force"):
        check_outputs((), table=path)


@pytest.mark.parametrize("sign", [chr(code) for code in range(128)])
def test_any_ascii_character_separates_cells_but_quotes_line_breaks_and_nul(sign):
    if sign in '"\r\n\0':
        with pytest.raises(InputError, match="delimiter must be one ASCII character, but not a quote or a line break"):
            check_options({"delimiter": sign})
    elif sign == ".":
        with pytest.raises(InputError, match="must differ; both are"):
            check_options({"delimiter": sign})
    else:
        check_options({"delimiter": sign})


@pytest.mark.parametrize("sign", ["", ";;", ", ", "\u00a7", b";", 3, None])
def test_no_other_thing_separates_cells(sign):
    with pytest.raises(InputError, match="delimiter must be one ASCII character"):
        check_options({"delimiter": sign})


def test_a_look_by_other_separators_leaves_a_file_as_it_was(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("a;b,c\n1;2,3\n")
    file = LenientFile(path, delimiter=",")
    file.begin()
    others = file.other_separators
    assert {sign: file.separated_by(sign) for sign in others}[";"] == ("a", "b,c")
    assert file.separated_by("\0") == ()
    assert (file.other_separators, file.names) == (others, ("a;b", "c"))


@pytest.mark.parametrize("kind", ["i2", "i8", "u4", "f4", "f8"])
@pytest.mark.parametrize("masked", [False, True])
def test_numbers_whose_bytes_stand_in_another_order_are_the_same_in_arrow(kind, masked):
    def column(order):
        values = np.array([1, 2, 300], dtype=order + kind)
        return np.ma.MaskedArray(values, [False, True, False]) if masked else values

    for order in "=<>":
        assert to_arrow(column(order)).to_pylist() == [1, None if masked else 2, 300]


@pytest.mark.parametrize("error", [MemoryError("7"), BudgetError("words"), InputError("words")])
def test_errors_of_memory_and_of_the_package_keep_their_words_and_others_lose_them(error):
    def fail():
        raise error

    with pytest.raises(type(error)) as raised:
        row_free(fail, "{} stopped it")
    assert raised.value is error
    for own, said in ((KeyError("4242"), "KeyError stopped it"), (ValueError("4242"), "a bad value: ValueError")):
        error = own
        with pytest.raises(WorkerError) as raised:
            row_free(fail, "{} stopped it", ValueError="a bad value: {}")
        assert (str(raised.value), raised.value.__cause__) == (said, None)


@pytest.mark.parametrize("private", [False, True])
@pytest.mark.parametrize("sentences", [(), ("One.", "Two.")])
def test_a_result_of_tables_tells_whether_it_is_private_in_each_form(private, sentences, tmp_path):
    made = Tabled("A title", sentences, (), {"more": [1]}, private)
    assert made.to_dict() == {"private": private, "sentences": list(sentences), "more": [1]}
    assert repr(made) == ("A title (private)" if private else "\n".join(("A title", *sentences)))
    assert ("NOT PRIVATE" in made._repr_html_()) == private
    assert all((each in made._repr_html_()) != private for each in sentences)
    path = made.write(tmp_path / "page.html")
    assert ("not-private" in path.name) == private
    assert ("NOT PRIVATE: A title" in path.read_text()) == private


@pytest.mark.parametrize(("within", "found"), [(3, None), (5, None), (6, [7.0]), (9, [7.0]), (12, [7.0])])
def test_only_so_many_first_rows_are_searched_for_cells(within, found):
    values = [None] * 5 + [7.0, None, None, 8.0, 9.0]
    batches = pa.table({"x": values}).to_batches(max_chunksize=3)
    file = SimpleNamespace(_csv=None, _row_free=nullcontext, _parquet=lambda: SimpleNamespace(
        iter_batches=lambda columns, use_threads: iter(batches)))
    cells = TableFile.first_present(file, "x", 2, within)
    # Of one batch: it is enough to guess by.
    assert (None if cells is None else cells["x"].to_pylist()) == found


@pytest.mark.parametrize("count", [1, 2, 3])
def test_so_many_first_cells_are_taken(tmp_path, count):
    (tmp_path / "a.csv").write_text("x,y\n?,1\n5,2\n6,3\n")
    file = TableFile(tmp_path / "a.csv")
    assert file.first_present("x", count, 9)["x"].to_pylist() == ["5", "6"][:count]
    assert file.first_present("y", count, 2)["y"].to_pylist() == ["1", "2"][:count]
    assert file.first_present("x", count, 1) is None


@pytest.mark.parametrize("header", [False, True])
@pytest.mark.parametrize(("problem", "said"), [
    (csv.Error("4242"), "its first row cannot be split into cells; a quote may be open"),
    (ValueError("CSV parse error: Row #3: Expected 2 columns, got 3: 4242"), UNEVEN),
    (ValueError("CSV parse error: Expected 2 columns, got 3: 4242"), UNEVEN),
    (ValueError("straddling object straddles two blocks"), "a row is longer than 77 bytes, or a quote is not closed"),
    (ValueError("try to increase block size?"), "a row is longer than 77 bytes, or a quote is not closed"),
    (UnicodeError("4242"), "another encoding"), (ValueError("CSV: invalid UTF8 data"), "another encoding"),
    (ValueError("4242"), None)])
def test_what_a_library_says_of_a_text_is_told_in_other_words_and_separators_by_names_alone(header, problem, said):
    text = SimpleNamespace(header=header, separators="give another", _block=77, _other_encoding="another encoding")
    if said == UNEVEN:
        said += ", or a quote is not closed" + "; give another" * header
    assert CsvText.reason(text, problem) == said


def test_times_of_arrays_are_whole_seconds_and_earlier_ones_are_not_later():
    times = np.array(["1970-01-01T00:00:01.999", "1969-12-31T23:59:59.250", "NaT", "2020-02-29T12:00:00"], "M8[ms]")
    np.testing.assert_array_equal(seconds_of_array(times), [1.0, -1.0, np.nan, 1582977600.0])


@pytest.mark.parametrize(("scales", "good"), [
    ([0.0, 0.1, 0.2], True), ([0.1, 0.1, 0.2], False), ([0.0, 0.0, 0.2], False), ([0.0, 0.1, -0.2], False)])
def test_moments_of_older_files_have_noise_but_for_the_constant(scales, good):
    arrays = {"release.index": np.array([[0, 0], [1, 0], [0, 2]]), "release.profiles": np.empty((0, 2)),
              "release.means": np.array([1.0, 0.2, 0.1]), "release.scales": np.array(scales)}
    call = partial(older_releases.of_moments, None, {"kind": "moments", "n": 50}, arrays, Domain(2))
    if good:
        assert call().deviations.tolist() == scales
        assert arrays == {}
    else:
        with pytest.raises(InputError, match="must be positive, and 0 for the constant"):
            call()


# Threads and processes


@pytest.mark.parametrize("ending", ["closed", "failed"])
def test_work_in_order_goes_on_behind_nobodys_back(monkeypatch, ending):
    monkeypatch.setenv(_parallel.THREADS_VARIABLE, "2")
    begun, ended, lock = [], [], threading.Lock()

    def work(start, stop):
        with lock:
            begun.append(start)
        if start:
            time.sleep(0.03)
        elif ending == "failed":
            raise InputError("the first piece")
        with lock:
            ended.append(start)
        return start

    results = _parallel.in_order(work, 40, 1)
    if ending == "closed":
        assert [next(results), next(results)] == [0, 1]
        results.close()
    else:
        with pytest.raises(InputError, match="the first piece"):
            next(results)
        begun.remove(0)
    assert sorted(begun) == sorted(ended)
    # Two for each of two threads wait or are under way.
    assert len(begun) < 8


def test_a_process_of_several_has_one_thread_and_leaves_interrupts_to_the_first(monkeypatch):
    limits, signals = [], []
    monkeypatch.setattr(processes, "threadpool_limits", limits.append)
    monkeypatch.setattr(processes.signal, "signal", lambda *given: signals.append(given))
    monkeypatch.setenv(_parallel.THREADS_VARIABLE, "7")
    processes._begin()
    assert (limits, signals) == ([1], [(signal.SIGINT, signal.SIG_IGN)])
    assert _parallel.thread_count() == 1


# Planning and releasing


def test_the_noise_of_functions_of_whole_rows_is_that_of_the_worst_of_them():
    class Weighted(OwnFunctions):
        def plan(self, facts):
            return self.equip(facts, Waves(facts.domain.d, self.K), 40.0, np.arange(1.0, self.K + 1.0),
                              evaluation_error=1e-12)

    expected = preview(400, tm.Schema.cube(3), tm.Budget(1.0, 1e-6), mechanism=Weighted(4))
    planned = tm.design(400, tm.Schema.cube(3), tm.Budget(1.0, 1e-6), Weighted(4)).measured.rounds[0].deviations
    assert [each.error for each in expected.together] == [pytest.approx(planned[0], rel=1e-12)]
    np.testing.assert_allclose(planned * np.arange(1.0, 5.0), planned[0], rtol=1e-12)


@pytest.mark.parametrize("count", [1, 3, 4, 9])
def test_no_score_is_chosen_twice_even_if_more_are_asked_for_than_there_are(count):
    session = SimpleNamespace(draw=lambda scores, charge: scores)
    found = Session.choose(session, np.array([2.0, 7.0, 5.0, -1.0]), SimpleNamespace(count=count))
    assert found == (1, 2, 0, 3)[:count]


@pytest.mark.parametrize("measure", [sensitivity.pair_l1_diameter, sensitivity.pair_l2_diameter])
def test_pairs_of_a_single_column_count_nothing(measure):
    assert measure(1, [1.0, 0.5], [3.0, 1.0]) == measure(1, [1.0, 0.5], [])
    assert measure(1, [], [3.0]) == measure(1, [], [])
    assert measure(2, [1.0, 0.5], [3.0, 1.0]) > measure(2, [1.0, 0.5], [])


@pytest.mark.parametrize("widest", [1, 2, 16])
def test_false_alarms_in_empty_cells_are_at_most_one_percent_among_runs_of_all_widths(monkeypatch, widest):
    asked = []
    monkeypatch.setattr(private_bounds, "_threshold", lambda charge, runs, width: asked.append((runs, width)) or np.inf)
    session = SimpleNamespace(charge=lambda charge: None, draw=lambda values, charge: values)
    counts = [np.zeros(32), np.eye(1, 64, 40)[0]]
    assert private_bounds._significant(counts, None, widest, session) == [(0, 0), (40, 40)]
    # Each column asks for each width; of a width there are 96 / width runs in both.
    assert {width for _, width in asked} == {2**k for k in range(widest.bit_length())}
    assert sum((96 // width) / runs for runs, width in set(asked)) == pytest.approx(1.0)


def test_a_rounds_file_stands_in_for_what_a_design_remembers():
    charge = tm.Charge("values", "laplace", 1.0, 1.0, "L1", 1, "given")
    history, drawn = SimpleNamespace(draws=((charge, np.array([1.0])),)), np.array([2.0])
    file = SimpleNamespace(known=lambda *asked: drawn)
    assert Recorder(history, file).known(charge, (1,)) is drawn
    assert Recorder(history).known(charge, (1,)).tolist() == [1.0]
    assert Recorder(None, file).known(charge, (1,)) is drawn


def test_a_longer_ledger_that_breaks_a_rule_of_files_is_not_written_to_a_server(monkeypatch):
    written, before = [], SimpleNamespace(entries=())
    server = object.__new__(ledger_server.Server)
    server.ledger, server.name = "clinic", "the ledger 'clinic'"
    monkeypatch.setattr(server, "_state", lambda cursor: before)
    monkeypatch.setattr(server, "_check_written", written.append)
    monkeypatch.setattr(server, "_transaction", lambda changed, there, what: changed(None))

    def refuse(state, where):
        assert (state, where) == ("longer", server.name)
        raise InputError("too large")

    monkeypatch.setattr(ledger_server, "content_of", refuse)
    with pytest.raises(InputError, match="too large"):
        server.change(lambda state: "longer")
    assert written == []


@pytest.mark.parametrize("budget", [tm.Budget(1.0, 1e-6), tm.Budget(1.0)])
def test_a_replaced_row_moves_a_mean_by_two_errors_of_evaluation_more(budget):
    weights, facts = np.array([1.0, 2.0, 0.5]), tm.design(100, tm.Schema.cube(2), budget, OwnFunctions(3)).facts

    def sensitivity_for(error):
        return OwnFunctions(3).equip(facts, Waves(2, 3), 3.0, weights, evaluation_error=error).charges[0].sensitivity

    own = np.linalg.norm(weights, 2 if budget.delta else 1)
    assert sensitivity_for(0.01) - sensitivity_for(1e-12) == pytest.approx(2.0 * 0.01 * own / 100, rel=1e-3)


@pytest.mark.parametrize("gaussian", [True, False])
def test_parts_of_the_look_grow_with_the_numbers_of_a_column_by_the_law_s_power(gaussian):
    even = np.linspace(-1.0, 1.0, 101)
    columns = [Partition((0,), None, np.empty(0)), Partition(tuple(range(7)), None, np.empty(0)),
               Partition((1, 2), 0, even[[0, 100]], even[[0, 50, 100]]), Partition((), 0, even[[0, 100]])]
    expected = np.array([1.0, 7.0, 2.0 + 3.0, shares.OF_A_NUMBER])
    np.testing.assert_allclose(shares.look_parts(columns, gaussian), expected ** (0.45 if gaussian else 0.5))


def test_sets_of_three_with_one_target_are_expected_to_depend_by_its_own_pairs():
    rng, tables = np.random.default_rng(0), np.array(list(itertools.combinations(range(5), 2)))
    strengths = rng.uniform(0.1, 1.0, len(tables))
    of_pair = {tuple(pair): strength for pair, strength in zip(tables.tolist(), strengths, strict=True)}
    for crossed in ((), (1,), (1, 3), (0, 1, 2)):
        design = SimpleNamespace(triples=0.1, crossed=crossed, importance=lambda sets: np.ones(len(sets)))
        sets, expected = selection._candidates(design, 5, tables, strengths)
        assert len(sets) == 10
        for three, found in zip(sets.tolist(), expected, strict=True):
            targets, pairs = set(three) & set(crossed), list(itertools.combinations(three, 2))
            if len(targets) == 1:
                own = sorted(of_pair[pair] for pair in pairs if targets & set(pair))
                assert found == pytest.approx(selection.OF_THE_CROSSED * np.sqrt(own[0] * own[1]))
            else:
                own = sorted(of_pair[pair] for pair in pairs)
                assert found == pytest.approx(selection.OF_THE_PAIRS * np.sqrt(own[0] * own[1]))


def test_details_are_shared_among_all_finer_intervals_of_a_release(monkeypatch):
    told = []
    monkeypatch.setattr(table_module, "with_details", lambda column, partition, details, among, _: told.append(
        (len(details), among)) or column)
    schema = tm.Schema([tm.Column("x", 0, 1000), tm.Column("y", 0, 1000)])
    data = np.random.default_rng(0).choice([1.0, 2.0, 3.0, 4.0, 500.0], (3_000, 2))
    made = tm.measure(data, schema, tm.design(3_000, schema, tm.Budget(20.0, 1e-6)), np.random.default_rng(0))
    closer = made.release.closer
    assert sum(count for count, _ in told) == len(closer) > 0
    assert {among for _, among in told} == {sum(each.query.size for each in closer)}
    assert sum(each.query.size for each in closer) > len(closer)


# Fitting


@pytest.mark.parametrize(("status", "said"), [(0, "converged"), (1, "iteration limit"), (2, "converged"),
                                              (99, "converged")])
def test_a_descent_that_cannot_go_on_or_is_near_enough_has_converged(monkeypatch, status, said):
    import scipy.optimize

    monkeypatch.setattr(scipy.optimize, "minimize", lambda *_, **__: SimpleNamespace(status=status, nit=3))
    found = particles.descend(tm.ChebyshevBasis(np.array([[1]])), np.array([[0.5]]), np.zeros(1), np.ones(1))
    assert (found.status, found.iterations) == (said, 3)


def test_a_descent_ends_where_it_is_near_enough():
    basis = tm.ChebyshevBasis(np.array([[1], [2], [3]]))
    start, target = np.random.default_rng(0).uniform(-1.0, 1.0, (20, 1)), np.array([0.3, -0.2, 0.1])
    near = particles.descend(basis, start, target, np.full(3, 1e-3), enough=1.0)
    far = particles.descend(basis, start, target, np.full(3, 1e-3))
    assert (near.status, near.misfit <= 1.0) == ("converged", True)
    assert far.misfit < near.misfit
    assert far.iterations > near.iterations > 0


@pytest.mark.parametrize(("objective", "interrupted", "said"), [
    (0.5, False, "noise level"), (0.5, True, "noise level"), (0.6, True, "time limit"), (0.6, False, "optimal")])
@pytest.mark.parametrize("gap", [1e-3, 1e-12])
def test_a_fit_on_the_cube_ends_by_its_gap_and_says_what_ended_it(monkeypatch, objective, interrupted, said, gap):
    asked = []

    def solved(problem, first, clock, **options):
        asked.append(options)
        return SimpleNamespace(atoms=[0], weights=np.ones(1), objective=objective, gap=0.125, interrupted=interrupted,
                               iterations=4)

    monkeypatch.setattr(l1_cube, "solve_by_columns", solved)
    basis = tm.ChebyshevBasis(np.array([[1], [2]]))
    found = l1_cube.fit_cube(basis, [0.2, 0.1], np.array([[0.5]]), gap=gap, noise_level=0.5,
                             rng=np.random.default_rng(0))
    # A gap that is wider than the solver's own is what a search may end with.
    assert asked == [{"gap": gap, "allowed_gap": max(gap, 1e-8), "enough": 0.5}]
    assert (found.status, found.objective, found.bound_estimate, found.iterations) == (
        said, objective, objective - 0.125, 4)


@pytest.mark.parametrize("exponent", [-6, -2, 1])
def test_gradients_end_with_residuals_as_short_as_they_are_asked_for(exponent):
    rng = np.random.default_rng(0)
    made = object.__new__(equations.Equations)
    D = rng.normal(size=(12, 6))
    made.__dict__.update(unit=1.0, _along=D[:, :2])
    object.__setattr__(made, "_image", lambda x: D[:, 2:] @ x)
    object.__setattr__(made, "_adjoint", lambda u: D[:, 2:].T @ u)
    object.__setattr__(made, "_near", lambda u: u)
    wanted, least = rng.normal(size=(12, 3)), np.array([0.5, 1.0, 2.0]) * 10.0**exponent
    found, done = made._by_gradients(wanted, least, patient=True)
    away = np.linalg.norm(wanted - D @ (D.T @ found) - found, axis=0)
    assert done
    assert (away <= 1.001 * least).all()
    if exponent == 1:
        # What is good enough at first is left so.
        np.testing.assert_array_equal(found, 0.0)


def test_intervals_are_as_long_as_their_edges_are_apart_or_as_many_levels_as_they_hold():
    edges = np.array([-1.0, 0.5, 1.0])
    np.testing.assert_allclose(Partition((), 0, edges).lengths, [0.75, 0.25])
    levels = np.array([-1.0, 0.6, 0.7, 0.8, 1.0])
    np.testing.assert_allclose(Partition((), 0, edges, levels).lengths, [0.2, 0.8])


def test_no_constraint_in_place_of_a_schema_s_is_kept_by_every_point():
    schema = tm.Schema([tm.Column("a", 0, 1), tm.Column("b", 0, 1)], constraints=["a <= b", "a >= 0.5"])
    points = np.array([[1.0, -1.0], [-1.0, 1.0], [0.5, 0.7]])
    assert keeps(schema, points).tolist() == [False, False, True]
    assert keeps(schema, points, []).tolist() == [True, True, True]
    assert keeps(schema, points, schema.constraints[:1]).tolist() == [False, True, True]


def test_the_first_given_name_that_no_column_has_is_told():
    schema = tm.Schema([tm.Column("a", 0, 1), tm.Column("b", 0, 1)])
    with pytest.raises(InputError, match="there is no column 'no'; the columns are 'a', 'b'"):
        _conditions(schema, {"a": 0.5, "no": 1, "nor": 2})


@pytest.mark.parametrize("mechanism", [tm.ImprovedTrigII(n_candidates=40, rows=17), tm.MomentMechanism(degree=2)])
def test_a_reconstruction_has_the_rows_that_its_fit_says_or_else_those_of_the_table(mechanism):
    data = np.random.default_rng(0).uniform(-1.0, 1.0, (60, 2))
    moments = tm.measure(data, tm.Schema.cube(2), tm.design(60, tm.Schema.cube(2), tm.Budget(2.0, 1e-5), mechanism),
                         np.random.default_rng(0))
    made = tm.reconstruct(moments, np.random.default_rng(0))
    fitted = mechanism.reconstruct(moments.release, moments.design, np.random.default_rng(0))
    assert made.rows == (fitted.rows or 60)
    assert (fitted.rows is None) == isinstance(mechanism, tm.MomentMechanism)


def test_a_method_that_does_not_exist_is_refused_by_the_fit():
    basis = tm.ChebyshevBasis(np.array([[1]]))
    for method in ("auto", "columns", "whole"):
        assert l1.fit_l1(basis, np.array([[0.0], [1.0]]), [0.5], method=method).objective < 1e-9
    with pytest.raises(InputError, match="method must be one of 'auto', 'columns', 'whole', not 'rows'"):
        l1.fit_l1(basis, np.array([[0.0], [1.0]]), [0.5], method="rows")


def test_of_tables_with_equally_many_cells_the_first_gives_a_column_s_cells():
    maps = [np.array([0, 0, 1, 1]), np.array([0, 1, 1, 1]), np.array([0, 1, 2, 2])]
    other = np.array([0, 1])

    def found(*own):
        tables = [SimpleNamespace(query=SimpleNamespace(columns=(0, 1), maps=(cells, other))) for cells in own]
        return cells_of_columns(SimpleNamespace(tables=tables, products=None))[0]

    assert found(maps[0], maps[1]) is maps[0]
    assert found(maps[1], maps[0]) is maps[1]
    assert found(maps[0], maps[2], maps[1]) is maps[2]


def test_numbers_of_a_grid_are_looked_at_where_columns_are_compared_with_each_other_alone():
    grid = np.array([0.1, 0.2, 0.7])
    columns = {name: tm.Column(name, 0, 1) for name in "abc"}
    for rules, own in ((["a >= 0.5"], {0.0, 0.5, 1.0}), (["a <= b", "c >= 0.5"], {0.0, 0.1, 0.2, 0.7, 1.0})):
        constraints = tm.Schema(columns.values(), constraints=rules).constraints
        breaks = representatives(constraints, columns, grid)[1]
        assert set(breaks["a"].tolist()) == own
        assert "c" not in breaks or set(breaks["c"].tolist()) == {0.0, 0.5, 1.0}


@pytest.mark.parametrize("numbers", [2, 3, 4])
def test_a_test_takes_two_numbers_fewer_than_there_are_tables_at_most(numbers):
    rng = np.random.default_rng(0)
    made = tm.Imputations(tm.Schema.cube(1), 500, rng.uniform(-1.0, 1.0, (5, 2, 30, 1)), 0.0, True)
    whole = rng.normal(size=(5, numbers))
    halves = np.stack([whole, whole], axis=1)
    object.__setattr__(made, "_found", lambda statistic: (whole, halves, np.zeros((0, 3, numbers))))
    if numbers <= 3:
        assert 0.0 < made.p_value(np.mean) < 1.0
    else:
        with pytest.raises(InputError, match="a test on 5 tables needs from 1 to 3 numbers, not 4"):
            made.p_value(np.mean)


# Pages and figures


def test_a_page_counts_columns_pairs_and_numbers_of_each_round():
    def measured(columns, count, **more):
        query = SimpleNamespace(columns=columns, kind="their kind", **more)
        return SimpleNamespace(query=query, deviations=np.full(count, 0.5))

    numbers = measured((0,), 5, tells_frequencies=True, partition=SimpleNamespace(indicators=(9,)))
    names = measured((3,), 4, tells_frequencies=True, partition=SimpleNamespace(indicators=(5, 6, 7, 8)))
    sides = measured((1,), 3, tells_frequencies=False)
    closer = (measured((0,), 6), measured((0,), 7), measured((2,), 8))
    tables = (measured((0, 1), 10), measured((0, 2), 11), measured((0, 1), 12))
    triples, other = (measured((0, 1, 2), 13), measured((0, 1, 3), 14)), [measured((0, 1), 2), measured((1, 2), 1)]
    everything = (numbers, names, sides, *closer, *tables, *triples)
    release = SimpleNamespace(looks=(numbers, names, sides), closer=closer, tables=tables, triples=triples,
                              measurements=(*everything, tables[1]), known=everything, products=None, directions=None)
    account = SimpleNamespace(release=release, _others=other, _products_named="products")
    assert [(words, len(noise)) for words, noise in TableAccount._rounds(account)] == [
        ("first: frequencies of categories, special and missing values", 1 + 4),
        ("first: intervals of 1 columns with an order", 4),
        ("first: signs of cosines of 1 columns of numbers", 3),
        ("second: within 3 heavy intervals of 2 columns", 6 + 7 + 8),
        ("third: cells of tables of 2 pairs of columns, 1 of them twice", 10 + 11),
        ("products", 0),
        ("last: positions of 1 pairs of columns of which one nearly determines the other", 12),
        ("last: cells of tables of 2 sets of three columns", 13 + 14),
        ("beside them: their kind", 2 + 1)]




@pytest.mark.parametrize("seed", range(6))
def test_texts_of_an_axis_never_overlap_and_stay_inside(seed):
    rng = np.random.default_rng(seed)
    figure = Figure(figsize=(4.0, 2.0))
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0.05, 0.2, 0.9, 0.7))
    axes.set_xlim(0.0, 1.0)
    at = np.sort(np.concatenate([rng.random(12), [0.0, 0.9, 0.95, 1.0]]))
    mark(axes, [(float(x), "x" * int(rng.integers(1, 12))) for x in at])
    boxes = [label.get_window_extent(figure.canvas.get_renderer()) for label in axes.get_xticklabels()]
    assert len(boxes) >= 3
    assert all(one.x1 < other.x0 for one, other in itertools.pairwise(boxes))
    assert boxes[0].x0 >= 0.0
    assert boxes[-1].x1 <= figure.bbox.x1
