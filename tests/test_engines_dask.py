"""Tables that Dask measures: the bits of a frame, whichever worker dies. Skipped where Dask is not installed."""

import multiprocessing

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from engine_statistics import SECRET, Ending, Failing
from engine_tables import (
    BASIS,
    BUDGET,
    COLUMNS,
    MECHANISMS,
    PERSONS,
    SCHEMA,
    N,
    identified,
    measured,
    table,
    written,
)

import trigmech as tm
from trigmech.engines import choice
from trigmech.engines.question import PieceQuestion
from trigmech.engines.spread import SpreadTable
from trigmech.errors import InputError, WorkerError
from trigmech.functions.chebyshev import ChebyshevBasis
from trigmech.measurement.moments import FunctionSums
from trigmech.measurement.rows import PrivateTable
from trigmech.privacy.ledger_file import LedgerFile
from trigmech.tables.parquet_files import ParquetFiles

dask = pytest.importorskip("dask", reason="Dask is not installed: pip install trigmech[dask]")
distributed = pytest.importorskip("distributed", reason="Dask is not installed: pip install trigmech[dask]")
dask_frames = pytest.importorskip("dask.dataframe", reason="Dask is not installed: pip install trigmech[dask]")
dask_module = pytest.importorskip("trigmech.engines.dask", reason="Dask is not installed: pip install trigmech[dask]")

pytestmark = pytest.mark.filterwarnings("ignore:::distributed")


@pytest.fixture(scope="module", autouse=True)
def copied():
    """Workers begin as copies of a process that has loaded what all of them need."""
    multiprocessing.get_context("forkserver").set_forkserver_preload(
        ["distributed", "dask.dataframe", "trigmech.engines.dask", "trigmech.engines.processes"])
    with (pytest.MonkeyPatch.context() as patch,
          dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"})):
        patch.setattr(distributed.utils, "_forkserver_preload_set", True)
        yield


@pytest.fixture(scope="module")
def address(copied):
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        yield cluster.scheduler_address


@pytest.fixture(scope="module")
def whole():
    return table()


@pytest.fixture
def pattern(tmp_path, whole):
    folder = tmp_path / "table"
    folder.mkdir()
    return written(folder, whole)


def frame(whole, pieces=7):
    return dask_frames.from_pandas(whole.to_pandas(), npartitions=pieces)


def sums(address, data, asked):
    with choice.opened(data, SCHEMA, engine="dask", scheduler=address) as private:
        assert isinstance(private, SpreadTable)
        return private.rows(SCHEMA).sums(asked)


# By day each mechanism, each form, and both once.
@pytest.mark.daily("frame-moments", "files-tables")
@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("form", ["frame", "files"])
def test_dask_releases_the_bits_of_a_frame(form, mechanism, address, whole, pattern, tmp_path):
    data, options = (frame(whole, 7), {}) if form == "frame" else (pattern, {"engine": "dask"})
    assert measured(data, tmp_path, mechanism, scheduler=address, **options) == measured(whole, tmp_path, mechanism)


@pytest.mark.nightly  # By day seven partitions, above.
def test_a_hundred_partitions_have_the_sums_of_one_with_the_client_that_there_is(address, whole):
    asked = FunctionSums(BASIS, covariance=True)
    with distributed.Client(address):
        found = choice.opened(frame(whole, 100), SCHEMA)
        with found as private:
            total = private.rows(SCHEMA).sums(asked)
        with pytest.raises(InputError, match="the program already has a Dask client"):
            tm.synthesize(frame(whole), SCHEMA, BUDGET, workers=2)
    np.testing.assert_array_equal(total.limbs, PrivateTable(whole, SCHEMA).rows(SCHEMA).sums(asked).limbs)


@pytest.mark.nightly  # By day test_engine_types.py measures files by Dask.
def test_a_cluster_of_one_is_made_and_ended_for_a_run(pattern, whole, tmp_path):
    assert measured(pattern, tmp_path, engine="dask", workers=1) == measured(whole, tmp_path)
    with pytest.raises(ValueError, match="client found"):
        distributed.get_client()


@pytest.mark.nightly  # By day test_engine_types.py names persons with Dask; bounds ask the same questions.
def test_persons_and_private_bounds(address, tmp_path):
    whole = table(persons=True)
    columns = [COLUMNS[0], tm.Column("pay", private_bounds=True), *COLUMNS[2:]]
    schema = tm.Schema(columns, person="who")
    alone = measured(whole, tmp_path, schema=schema)
    assert measured(frame(whole), tmp_path, schema=schema, scheduler=address) == alone
    folder = tmp_path / "table"
    folder.mkdir()
    assert measured(written(folder, whole), tmp_path, schema=schema, engine="dask", scheduler=address) == alone


@pytest.mark.nightly
def test_a_person_counts_once_in_whatever_partitions_her_rows_are(address, tmp_path):
    whole = table(persons=True)
    who = [f" {name}" if k % 3 else f"{name}\u00a0" for k, name in enumerate(whole["who"].to_pylist())]
    mixed = whole.set_column(whole.column_names.index("who"), "who", pa.array(who))
    schema = tm.Schema(COLUMNS, person="who")
    alone = measured(whole, tmp_path, schema=schema)
    assert measured(frame(mixed), tmp_path, schema=schema, scheduler=address) == alone


def test_a_person_s_rows_of_a_long_partition_are_summed_together(monkeypatch):
    monkeypatch.setattr(dask_module, "rows_at_once", lambda schema: 2)
    (whole, persons), asked = identified("int64"), FunctionSums(ChebyshevBasis.graded(1, 6))
    found = dask_module.answer_of_frame(PieceQuestion(asked, PERSONS, PERSONS).packed(), whole.to_pandas())
    exact = PrivateTable(whole, PERSONS).rows(PERSONS).sums(asked)
    np.testing.assert_array_equal(found.total.limbs, exact.limbs)
    assert found.n == exact.n == persons


@pytest.mark.nightly
def test_the_pieces_of_a_worker_that_died_count_once(address, whole, tmp_path):
    exact = PrivateTable(whole, SCHEMA).rows(SCHEMA).sums(FunctionSums(BASIS))
    found = sums(address, frame(whole), Ending(BASIS, folder=str(tmp_path), times=1))
    assert (tmp_path / "ended 0").exists()
    np.testing.assert_array_equal(found.limbs, exact.limbs)
    assert found.n == N


@pytest.mark.nightly  # By day a process that fails quotes no row, in test_engines.py.
def test_no_message_quotes_a_row(address, whole, tmp_path):
    with pytest.raises(WorkerError, match=r"^a worker failed on a piece of the table \(RuntimeError\)$"):
        sums(address, frame(whole), Failing(BASIS))

    def odd(part):
        raise ValueError(f"{SECRET} is odd")

    data = frame(whole)
    with pytest.raises(WorkerError, match=r"Dask could not measure the table: .*\(ValueError\)") as caught:
        sums(address, data.map_partitions(odd, meta=data._meta), FunctionSums(BASIS))
    assert SECRET not in str(caught.value)
    assert caught.value.__cause__ is None
    strange = dask_frames.from_pandas(whole.set_column(1, "pay", pa.array([SECRET] * N)).to_pandas(), npartitions=2)
    with pytest.raises(InputError, match="column 'pay'") as refused:
        sums(address, strange, FunctionSums(BASIS))
    assert SECRET not in str(refused.value)


def test_what_does_not_go_together_is_refused_before_anything_is_charged(address, whole, tmp_path, monkeypatch):
    # Who is not there is waited for, here for a moment.
    client = distributed.Client
    monkeypatch.setattr(distributed, "Client", lambda *given, **options: client(*given, **options | {"timeout": 1}))
    ledger = LedgerFile.create(tmp_path / "ledger.json", tm.Budget(50.0, 1e-6))
    secret = tm.Schema([*COLUMNS[:2], tm.Column("region", kind="categorical", categories="private")])
    lost = frame(whole)
    for data, schema, options, said in (
            (lost, SCHEMA, {"engine": "spark"}, "engine must be 'dask' for a DataFrame of Dask, not 'spark'"),
            (lost, SCHEMA, {"scheduler": "tcp://127.0.0.1:1"}, "there is no Dask scheduler at 'tcp://127.0.0.1:1'"),
            (lost, secret, {"scheduler": address}, "Dask and Spark cannot find private categories"),
            (lost[["pay"]], SCHEMA, {"scheduler": address}, r"lacks the column\(s\) 'age', 'region', 'seen'"),
            (lost, tm.Schema(COLUMNS, person="whose"), {"scheduler": address}, r"lacks the column\(s\) 'whose'"),
            (lost.loc[lost["pay"] < 0], SCHEMA, {"scheduler": address}, "at least 2 rows; the table has 0")):
        with pytest.raises(InputError, match=said):
            tm.synthesize(data, schema, BUDGET, ledger=tmp_path / "ledger.json", **options)
    assert LedgerFile.open(ledger.path).entries == ()


def test_a_file_without_a_column_is_refused(address, pattern, tmp_path, whole):
    pq.write_table(whole.drop_columns("pay"), tmp_path / "table" / "9.parquet")
    with pytest.raises(InputError, match=r"lacks the column\(s\) 'pay'"):
        tm.synthesize(pattern, SCHEMA, BUDGET, engine="dask", scheduler=address)


def test_a_partition_s_column_is_taken_in_types_that_mean_the_same():
    """Texts in any type of texts, numbers in any type of numbers; nothing else in another type than was told."""
    arrow, objects = pd.ArrowDtype(pa.large_string()), pd.Series(["a", None], dtype=object)
    texts = [pd.Series(["a", None], dtype=kind) for kind in ("string[python]", "string[pyarrow]", arrow)]
    for column in (*texts, objects):
        for told in (each.dtype for each in texts):
            found = dask_module._as_told(column, told, False)
            assert found[0] == "a"
            assert found.isna().tolist() == [False, True]
    whole = pd.Series([1, 2])
    assert dask_module._as_told(whole, np.dtype(float), False) is whole
    for column, told, person in ((whole, np.dtype(float), True), (whole, arrow, False), (texts[0], whole.dtype, False),
                                 (pd.Series([1, "a"], dtype=object), arrow, False)):
        with pytest.raises(tm.InputError, match="a type in some partitions that differs"):
            dask_module._as_told(column, told, person)


def test_a_frame_of_files_has_the_types_that_it_promises(tmp_path):
    for k in range(2):
        pq.write_table(pa.table({
            "a": pa.array([f"p{k}", "q"]).dictionary_encode(), "b": pa.array(["x", "y"], pa.large_string()),
            "c": pa.array([1, 2], pa.int16()), "d": pa.array([0.5, 1.5], pa.float32())}), tmp_path / f"{k}.parquet")
    schema = tm.Schema([*(tm.Column(name, kind="categorical", categories="private") for name in "ab"),
                        *(tm.Column(name, 0, 2) for name in "cd")])
    frame = dask_module._frame_of(ParquetFiles([tmp_path / "0.parquet", tmp_path / "1.parquet"]), schema)
    promised = frame.dtypes
    for part in frame.to_delayed():
        held = part.compute(scheduler="synchronous")
        assert held.dtypes.to_dict() == promised.to_dict()
