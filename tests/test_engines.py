"""Tables that processes measure: the same bits as by one, whoever dies; and what goes together."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from engine_statistics import SECRET, Ending, Failing
from engine_tables import BASIS, BUDGET, COLUMNS, MECHANISMS, SCHEMA, N, measured, table, written

import trigmech as tm
from trigmech.cli.app import main
from trigmech.engines import choice, processes
from trigmech.engines.processes import FileWorkers
from trigmech.engines.question import Persons, PieceQuestion, PieceSums, answered
from trigmech.engines.spark import joined
from trigmech.engines.spread import SpreadTable
from trigmech.errors import InputError, WorkerError
from trigmech.measurement import persons as persons_module
from trigmech.measurement.moments import FunctionSums
from trigmech.measurement.rows import PrivateTable
from trigmech.privacy.ledger_file import LedgerFile
from trigmech.tables import parquet_files
from trigmech.tables.parquet_files import ParquetFiles, Piece

TESTS = Path(__file__).parent
pytestmark = pytest.mark.usefixtures("quick_processes")


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    """Many pieces of a small table."""
    monkeypatch.setattr(parquet_files, "ROWS_OF_A_PIECE", 200)


@pytest.fixture(scope="module")
def whole():
    return table()


@pytest.fixture
def pattern(tmp_path, whole):
    folder = tmp_path / "table"
    folder.mkdir()
    return written(folder, whole, groups=20)


@pytest.fixture
def two(pattern):
    """The table's files and two processes."""
    with contextlib.closing(FileWorkers(ParquetFiles(pattern), SCHEMA, 2)) as made:
        yield made


def sums(workers, asked, schema=SCHEMA):
    return SpreadTable(workers, schema).rows(schema).sums(asked)


# The same bits


# By day parts of a table by moments are those of one process, below.
@pytest.mark.parametrize("mechanism", [pytest.param("moments", marks=pytest.mark.nightly), "tables"])
def test_processes_release_the_bits_of_one(mechanism, whole, pattern, tmp_path):
    files = sorted(Path(pattern).parent.glob("[0-9].parquet"))
    data, workers = {"tables": (pattern, 2), "moments": (files[::-1], 1)}[mechanism]
    alone = measured(whole, tmp_path, mechanism)
    assert measured(whole.to_pandas(), tmp_path, mechanism) == alone
    assert measured(pattern, tmp_path, mechanism) == alone
    assert measured(data, tmp_path, mechanism, engine="processes", workers=workers) == alone


@pytest.mark.nightly  # By day test_sums.py cuts and orders rows in many ways.
def test_sums_have_the_same_bits_from_1_7_and_300_pieces(whole):
    asked = FunctionSums(BASIS, covariance=True)
    exact = PrivateTable(whole, SCHEMA).rows(SCHEMA).sums(asked)
    packed = PieceQuestion(asked, SCHEMA, SCHEMA).packed()
    for pieces in (1, 7, 300):
        rows = -(-N // pieces)
        found = [answered(packed, lambda question, low=low, rows=rows: [whole.slice(low, rows)]).total
                 for low in range(0, N, rows)]
        assert len(found) == pieces
        total = found[0]
        for part in found[1:]:
            total += part
        np.testing.assert_array_equal(total.limbs, exact.limbs)
        assert total.n == N


# Parts find private bounds alike by day, in test_parts.py, where the same questions are asked.
@pytest.mark.nightly  # By day test_categories.py asks the same of a file.
@pytest.mark.parametrize("private", [pytest.param("bounds", marks=pytest.mark.nightly), "categories"])
def test_what_is_private_of_the_schema_is_found_alike(private, whole, pattern, tmp_path):
    columns = list(COLUMNS)
    if private == "bounds":
        columns[1] = tm.Column("pay", private_bounds=True)
    else:
        columns[2] = tm.Column("region", kind="categorical", private_categories=True)
    schema = tm.Schema(columns)
    assert measured(pattern, tmp_path, schema=schema, workers=2) == measured(whole, tmp_path, schema=schema)


@pytest.mark.nightly  # By day test_engine_types.py and test_persons.py fill many buckets.
def test_persons_in_many_buckets_release_the_bits_of_a_frame(tmp_path, monkeypatch):
    schema = tm.Schema(COLUMNS, person="who")
    whole = table(persons=True)
    alone = measured(whole, tmp_path, schema=schema)
    folder = tmp_path / "table"
    folder.mkdir()
    pattern = written(folder, whole)
    # In memory, which takes no process, then on disk.
    assert measured(pattern, tmp_path, schema=schema, workers=2) == alone
    monkeypatch.setattr(persons_module, "NUMBERS_IN_A_BUCKET", 5000)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert measured(pattern, tmp_path, schema=schema, workers=2) == alone
    assert list(tmp_path.glob("trigmech-persons-*")) == []


@pytest.mark.nightly  # By day a release by processes is, above, and test_parts.py has parts.
def test_a_part_by_processes_is_that_of_one(whole, pattern):
    design = tm.design(N, SCHEMA, BUDGET)
    said = []
    part = tm.measure_part(pattern, design, engine="processes", workers=2, progress=lambda *step: said.append(step))
    np.testing.assert_array_equal(part.total.limbs, tm.measure_part(whole, design).total.limbs)
    steps = [done for step, done, total in said if (step, total) == ("measuring", N)]
    assert steps == sorted(steps)
    assert len(steps) > 5
    assert steps[-1] == N


@pytest.mark.parametrize("length", [1, 7, 40])
def test_batches_that_are_sorted_by_person_are_cut_between_persons(length):
    whole = pa.table({"who": sorted([*"aaaabbc", *["d"] * 60, *"efg"]), "x": range(70)})
    batches = whole.to_batches(max_chunksize=length)
    found = list(joined(batches, 10, "who"))
    persons = [person for part in found for person in set(part["who"].to_pylist())]
    assert len(persons) == len(set(persons))
    assert pa.concat_tables(found).to_pylist() == whole.to_pylist()
    # Without persons they are only put together.
    assert [part.num_rows for part in joined(batches, 1, None)] == [batch.num_rows for batch in batches]


# Who dies


def test_the_pieces_of_a_process_that_died_count_once(two, whole, tmp_path):
    plain = FunctionSums(BASIS)
    exact = PrivateTable(whole, SCHEMA).rows(SCHEMA).sums(plain)
    found = sums(two, Ending(BASIS, folder=str(tmp_path), times=2))
    assert (tmp_path / "ended 1").exists()
    assert found.n == N
    np.testing.assert_array_equal(found.limbs, exact.limbs)


@pytest.mark.nightly  # By day those that die once count once, above.
def test_processes_that_die_again_and_again_are_an_error_that_says_what_to_do(pattern, tmp_path, monkeypatch):
    monkeypatch.setattr(processes, "MOST_DEATHS", 1)
    said = r"ended 2 times .* use fewer workers, or .* smaller row groups"
    with (contextlib.closing(FileWorkers(ParquetFiles(pattern), SCHEMA, 1)) as one,
          pytest.raises(WorkerError, match=said)):
        sums(one, Ending(BASIS, folder=str(tmp_path), times=1000))


def test_what_fails_in_a_worker_quotes_no_row(two):
    with pytest.raises(WorkerError, match=r"^a worker failed on a piece of the table \(RuntimeError\)$") as caught:
        sums(two, Failing(BASIS))
    assert SECRET not in "".join(map(str, [caught.value, caught.value.__cause__, caught.value.__context__]))


def test_an_answer_shows_no_sums():
    answer = answered(PieceQuestion(Persons(), SCHEMA, SCHEMA).packed(), lambda question: [table(100)])
    assert repr(answer) == "Answer(n=100, problem='', values hidden)"
    assert answer.total.n == 100
    with pytest.raises(InputError, match="it is so"):
        _ = PieceSums(b"", 0, "it is so").total


KILLED = """
import sys
import numpy as np
import trigmech as tm
from engine_tables import BUDGET, MECHANISMS, SCHEMA
from trigmech.tables import parquet_files
parquet_files.ROWS_OF_A_PIECE = 200
measured = []
def progress(step, done, total):
    if step == "measuring" and done == total:
        measured.append(1)
        print("measured", len(measured), flush=True)
        if len(measured) == 2:
            sys.stdin.read()
tm.synthesize(sys.argv[1], SCHEMA, BUDGET, MECHANISMS["tables"], ledger="ledger.json", rounds="a.rounds",
              engine="processes", workers=1, progress=progress)
"""


@pytest.mark.nightly  # By day test_rounds.py ends a run at every moment, in one process.
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no SIGKILL on this system")
@pytest.mark.filterwarnings("ignore::trigmech.FitWarning")
def test_a_run_whose_first_process_was_killed_goes_on_and_its_workers_are_gone(pattern, tmp_path):
    ledger = LedgerFile.create(tmp_path / "ledger.json", tm.Budget(50.0, 1e-6))
    # Without a guard for its main part: workers do not run the program's own file.
    (tmp_path / "program.py").write_text(KILLED)
    path = os.pathsep.join([str(TESTS), *filter(None, sys.path)])
    process = subprocess.Popen([sys.executable, "program.py", pattern], cwd=tmp_path, stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": path})
    with process:
        assert [process.stdout.readline() for _ in range(2)] == ["measured 1\n", "measured 2\n"]
        workers = [int(child) for listed in Path(f"/proc/{process.pid}/task").glob("*/children")
                   for child in listed.read_text().split()]
        process.kill()
    drawn = (tmp_path / "a.rounds").read_text()
    charged = LedgerFile.open(ledger.path).entries
    assert len(drawn.splitlines()) == 2
    made = tm.synthesize(pattern, SCHEMA, BUDGET, MECHANISMS["tables"], ledger=tmp_path / "ledger.json",
                         rounds=tmp_path / "a.rounds")
    assert (tmp_path / "a.rounds").read_text().startswith(drawn)
    assert [entry.charge for entry in LedgerFile.open(ledger.path).entries][: len(charged)] == [
        entry.charge for entry in charged]
    assert len({entry.run for entry in LedgerFile.open(ledger.path).entries}) == 1
    assert made.release.n == N
    deadline = time.monotonic() + 60
    while any(map(_runs, workers)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(map(_runs, workers))


def _runs(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


# What goes together


FOUND = "measures Parquet files"
WRONG = {
    "unknown engine": (lambda pattern: (pattern, {"engine": "ray"}),
                       "engine must be one of 'processes', 'dask', 'spark'"),
    "no workers": (lambda pattern: (pattern, {"workers": 0}), "workers must be a positive integer, not 0"),
    "a scheduler of processes": (lambda pattern: (pattern, {"engine": "processes", "scheduler": "tcp://a:1"}),
                                 "scheduler is for the engines 'dask' and 'spark'"),
    "a scheduler of nobody": (lambda pattern: (pattern, {"scheduler": "tcp://a:1"}),
                              "give the engine 'dask' or 'spark'"),
    "a scheduler that is none": (lambda pattern: (pattern, {"engine": "dask", "scheduler": 1}),
                                 "scheduler must be the address of a cluster as text, not 1"),
    "workers and a scheduler": (lambda pattern: (pattern, {"engine": "dask", "scheduler": "tcp://a:1", "workers": 2}),
                                r"give either workers \(processes on this machine\) or scheduler"),
    "a frame": (lambda pattern: (table(10), {"engine": "processes"}), f"{FOUND}, not a table in memory"),
    "a frame for Dask": (lambda pattern: (table(10), {"engine": "dask"}), f"{FOUND}, or a DataFrame of Dask, not a"),
    "workers for a frame": (lambda pattern: (table(10), {"workers": 2}), "this process itself measures this table"),
    "a pattern of nothing": (lambda pattern: (pattern.replace("*", "x*"), {}), "no file matches the pattern"),
    "a file that is not there": (lambda pattern: ([Path(pattern).parent / "9.parquet"], {}), "number 1 in the list"),
    "a file twice": (lambda pattern: ([Path(pattern).parent / "1.parquet"] * 2, {}), "the list names a file twice"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_does_not_go_together_is_refused_before_anything_is_charged(case, pattern, tmp_path):
    ledger = LedgerFile.create(tmp_path / "ledger.json", tm.Budget(50.0, 1e-6))
    given, said = WRONG[case]
    data, options = given(pattern)
    with pytest.raises(InputError, match=said):
        tm.synthesize(data, SCHEMA, BUDGET, ledger=tmp_path / "ledger.json", **options)
    assert LedgerFile.open(ledger.path).entries == ()


def test_files_that_do_not_fit_are_refused(pattern, tmp_path):
    folder = Path(pattern).parent
    csv = tmp_path / "a.csv"
    csv.write_text("age,pay,region,seen\n1,2,north,2010-01-01\n")
    for data, options, said in (
            (csv, {"engine": "processes"}, "is not a Parquet file; a table in several files"),
            ([folder / "1.parquet", csv], {}, "is not a Parquet file; a table in several files"),
            (folder, {"engine": "processes"}, "it is a folder"),
            (csv, {"workers": 2}, "this process itself measures this table")):
        with pytest.raises(InputError, match=said):
            tm.synthesize(data, SCHEMA, BUDGET, **options)
    pq.write_table(table(10).drop_columns("pay"), folder / "9.parquet")
    with pytest.raises(InputError, match=r"9.parquet'.* lacks the column\(s\) 'pay'"):
        tm.synthesize(pattern, SCHEMA, BUDGET, engine="processes")


@pytest.mark.nightly
def test_cells_that_break_a_rule_are_refused_without_a_quote(pattern, tmp_path):
    folder = Path(pattern).parent
    odd = table(10).set_column(1, "pay", pa.array([SECRET] * 10))
    pq.write_table(odd, folder / "9.parquet")
    ledger = LedgerFile.create(tmp_path / "ledger.json", tm.Budget(50.0, 1e-6))
    with pytest.raises(InputError, match="column 'pay'") as caught:
        tm.synthesize(pattern, SCHEMA, BUDGET, MECHANISMS["moments"], ledger=tmp_path / "ledger.json", workers=1)
    assert SECRET not in str(caught.value)
    assert LedgerFile.open(ledger.path).entries == ()


def test_pieces_of_a_file_that_was_replaced_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(parquet_files, "ROWS_OF_A_PIECE", 100)
    path = tmp_path / "a.parquet"
    data = table(400)

    def lengths():
        return [sum(part.num_rows for part in parquet_files.read(piece, SCHEMA)) for piece in pieces]

    pq.write_table(data, path, row_group_size=100)
    pieces = [*ParquetFiles([path]).pieces, Piece(str(path), None, 400)]
    assert lengths() == [100, 100, 100, 100, 400]
    # As many groups of other lengths; fewer groups, as many rows; more of both.
    for rows, size in ((200, 50), (396, 99), (400, 400), (100, 100), (800, 200)):
        pq.write_table(pa.concat_tables([data, data]).slice(0, rows), path, row_group_size=size)
        for piece in pieces:
            if not (piece.groups == (0,) and size == 100) and not (piece.groups is None and rows == 400):
                with pytest.raises(InputError, match=r"a\.parquet': it changed while it was read"):
                    list(parquet_files.read(piece, SCHEMA))
    pq.write_table(data, path, row_group_size=100)
    assert lengths() == [100, 100, 100, 100, 400]


@pytest.mark.nightly  # By day pieces of a file that was replaced are, above.
def test_a_file_that_changes_while_it_is_measured_is_refused(two, pattern):
    rows = SpreadTable(two, SCHEMA).rows(SCHEMA)
    pq.write_table(table(50), Path(pattern).parent / "1.parquet")
    with pytest.raises(InputError, match="changed while it was read"):
        rows.sums(FunctionSums(BASIS))


def test_functions_that_cannot_be_sent_are_refused():
    question = PieceQuestion(FunctionSums(value for value in ()), SCHEMA, SCHEMA)
    with pytest.raises(InputError, match=r"cannot be sent to other processes \(TypeError\)"):
        question.packed()


@pytest.mark.parametrize(("least", "threads", "engine"), [(N, "2", "processes"), (N + 1, "2", None), (N, "1", None)])
def test_many_rows_in_parquet_files_are_measured_by_processes_by_default(least, threads, engine, pattern, monkeypatch):
    monkeypatch.setattr(choice, "MANY_ROWS", least)
    monkeypatch.setenv("TRIGMECH_NUM_THREADS", threads)
    with choice.opened(pattern, SCHEMA) as private:
        assert isinstance(private, SpreadTable if engine else PrivateTable)
        assert private.n == N
        assert private.library == "pyarrow"
    with choice.opened(Path(pattern).parent / "1.parquet", SCHEMA) as private:
        assert isinstance(private, PrivateTable)


# The command line


def release(monkeypatch, capsys, *arguments):
    monkeypatch.setattr(sys, "argv", ["trigmech", "release", *map(str, arguments)])
    with pytest.raises(SystemExit) as ended:
        main()
    return ended.value.code, capsys.readouterr()


TOML = """
[columns.pay]
kind = "continuous"
lower = 0
upper = 100_000
"""


def test_the_command_line_takes_a_pattern_and_an_engine(pattern, tmp_path, monkeypatch, capsys):
    schema = tmp_path / "schema.toml"
    schema.write_text(TOML)
    out = tmp_path / "out.tm"
    common = ["--schema", schema, "--epsilon", "5", "--delta", "1e-6", "--out", out]
    status, said = release(monkeypatch, capsys, pattern, *common, "--engine", "processes", "--workers", "1", "--json")
    assert status == 0, said.err
    assert json.loads(said.out)["n"] == N
    for arguments, expected, words in (
            ([pattern, "--engine", "ray"], 2, "engine must be one of"),
            ([pattern, "--workers", "0"], 2, "--workers"),
            ([pattern, "--scheduler", "tcp://a:1", "--workers", "2"], 2, "give either workers"),
            ([pattern, "--delimiter", ";"], 2, "do not apply to a pattern"),
            ([pattern, "--scheduler", "tcp://a:1"], 2, "scheduler is the address of a cluster"),
            ([pattern.replace("*", "x*")], 2, "no file matches the pattern")):
        status, said = release(monkeypatch, capsys, *arguments, *common, "--force")
        assert (status, words in said.err.replace("\n", " ").replace("│ ", "")) == (expected, True), said.err
    assert tm.load(out).release.n == N


def test_cells_of_a_piece_are_read_by_the_schema_that_was_given_first(monkeypatch):
    asked, first = [], tm.Schema.cube(1)
    monkeypatch.setattr(processes, "read", lambda *given: asked.append(given) or [])
    piece, question = object(), PieceQuestion(Persons(), SCHEMA, first)
    assert list(processes._tables(piece, question)) == []
    assert asked == [(piece, first)]
