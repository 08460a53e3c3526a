"""Tables that Spark measures: the bits of a frame, whichever worker dies. Skipped where there is no Spark or Java."""

import contextlib
import datetime
import os
import shutil
import sys
import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from engine_statistics import SECRET, Ending, Failing
from engine_tables import (
    BASIS,
    BUDGET,
    COLUMNS,
    DIFFERENT,
    IDENTIFIERS,
    NOT_OF_SPARK,
    PERSONS,
    SCHEMA,
    N,
    different,
    identified,
    in_files,
    measured,
    outcome,
    table,
    written,
)

import trigmech as tm
from trigmech.engines import choice
from trigmech.engines.question import PieceQuestion
from trigmech.engines.spark import SparkWorkers
from trigmech.engines.spread import SpreadTable
from trigmech.errors import InputError, WorkerError
from trigmech.functions.chebyshev import ChebyshevBasis
from trigmech.measurement.moments import FunctionSums
from trigmech.measurement.rows import PrivateTable
from trigmech.measurement.sums import Total
from trigmech.privacy.ledger_file import LedgerFile
from trigmech.tables.parquet_files import ParquetFiles

sql = pytest.importorskip("pyspark.sql", reason="Spark is not installed: pip install trigmech[spark]")
if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
    pytest.skip("there is no Java, which Spark needs", allow_module_level=True)

# Spark leaves sockets and files to the end of the process.
pytestmark = [pytest.mark.filterwarnings(f"ignore::{warning}") for warning in (
    "ResourceWarning", "DeprecationWarning", "FutureWarning", "UserWarning:pyspark",
    "pytest.PytestUnraisableExceptionWarning")]



@pytest.fixture(scope="module")
def session(tmp_path_factory):
    """A local Spark of two workers that find the package and these tests."""
    folder = tmp_path_factory.mktemp("spark")
    before = dict(os.environ)
    os.environ |= {"PYSPARK_PYTHON": sys.executable,
                   "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *filter(None, sys.path)])}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = (sql.SparkSession.builder.master("local[2,4]").config("spark.ui.enabled", "false")
                .config("spark.sql.shuffle.partitions", "3").config("spark.sql.warehouse.dir", str(folder))
                .config("spark.driver.host", "127.0.0.1").config("spark.ui.showConsoleProgress", "false")
                .config("spark.python.daemon.module", "spark_daemon")
                # Java's better compiler takes longer than what it makes faster, and so do checks of its classes.
                .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC "
                        "-XX:+IgnoreUnrecognizedVMOptions -XX:+UnlockDiagnosticVMOptions "
                        "-XX:-BytecodeVerificationRemote").getOrCreate())
        made.sparkContext.setLogLevel("OFF")
        yield made
        made.stop()
    os.environ.clear()
    os.environ.update(before)


@pytest.fixture(scope="module")
def whole():
    return table()


@pytest.fixture
def pattern(tmp_path, whole):
    folder = tmp_path / "table"
    folder.mkdir()
    return written(folder, whole)


def frame(session, folder, data, pieces=None):
    pq.write_table(data, folder / "frame.parquet")
    made = session.read.parquet(str(folder / "frame.parquet"))
    return made if pieces is None else made.repartition(pieces)


def sums(data, asked):
    with choice.opened(data, SCHEMA) as private:
        assert isinstance(private, SpreadTable)
        return private.rows(SCHEMA).sums(asked)


def test_spark_releases_the_bits_of_a_frame(session, whole, tmp_path):
    assert measured(frame(session, tmp_path, whole, 3), tmp_path, "moments") == measured(whole, tmp_path, "moments")


@pytest.mark.nightly  # By day Dask measures tables, whose questions are the same, and Spark reads other files.
def test_spark_releases_the_bits_of_files(session, whole, pattern, tmp_path):
    assert measured(pattern, tmp_path, "tables", engine="spark") == measured(whole, tmp_path, "tables")


@pytest.mark.nightly  # Persons by day below, private bounds with Dask, whose questions and answers are the same.
def test_persons_and_private_bounds(session, tmp_path):
    whole = table(persons=True)
    columns = [COLUMNS[0], tm.Column("pay", private_bounds=True), *COLUMNS[2:]]
    schema = tm.Schema(columns, person="who")
    data = frame(session, tmp_path, whole, 3)
    assert measured(data, tmp_path, schema=schema) == measured(whole, tmp_path, schema=schema)


@pytest.mark.nightly  # By day Dask and processes name persons, in test_engine_types.py.
def test_a_person_counts_once_in_whatever_partitions_her_rows_are(session, tmp_path):
    whole = table(persons=True)
    who = [f" {name}" if k % 3 else f"{name}\u00a0" for k, name in enumerate(whole["who"].to_pylist())]
    mixed = whole.set_column(whole.column_names.index("who"), "who", pa.array(who))
    schema = tm.Schema(COLUMNS, person="who")
    alone = measured(whole, tmp_path, schema=schema)
    assert measured(frame(session, tmp_path, mixed, 3), tmp_path, schema=schema) == alone


def check_identifiers(kind, tmp_path):
    data, _ = identified(kind)
    files = in_files(tmp_path / kind, data.slice(0, 5), data.slice(5))
    question = PieceQuestion(FunctionSums(ChebyshevBasis.graded(1, 6)), PERSONS, PERSONS)
    with contextlib.closing(SparkWorkers(ParquetFiles(files), PERSONS, None, None)) as workers:
        found = Total(question.asked.size)
        for answer in workers.answers(question):
            found += answer.total
    assert (found.n, found.limbs.tobytes()) == outcome(data)


# Spark has none of these types, or others that stand for them.
@pytest.mark.nightly  # By day with Dask and processes, in test_engine_types.py.
@pytest.mark.parametrize("kind", ["text", "times of a zone"])
def test_identifiers_of_a_type_name_the_same_persons(kind, session, tmp_path):
    check_identifiers(kind, tmp_path)


@pytest.mark.nightly
@pytest.mark.parametrize("kind", [kind for kind in IDENTIFIERS if kind not in NOT_OF_SPARK])
def test_identifiers_of_all_types_name_the_same_persons(kind, session, tmp_path):
    check_identifiers(kind, tmp_path)


def test_types_that_spark_lacks_are_named(session, tmp_path):
    for kind in NOT_OF_SPARK:
        files = in_files(tmp_path / kind, identified(kind)[0])
        with pytest.raises((InputError, WorkerError), match=kind):
            tm.synthesize(files, PERSONS, BUDGET, engine="spark")


@pytest.mark.daily("times and times of a zone")
@pytest.mark.parametrize("kind", DIFFERENT)
def test_files_that_differ_in_a_type_are_those_of_other_engines(kind, session, tmp_path):
    without = tm.Schema([tm.Column("x", 0, 10)])
    tables, name = different(kind)
    files = in_files(tmp_path / kind, *tables)
    said = outcome(files, engine="spark")
    assert said == outcome(files)
    assert said.startswith(f"column '{name}' has the type ")
    assert outcome(files, without, engine="spark") == outcome(files, without)


def test_files_of_any_name_are_read_whole_or_refused(session, tmp_path):
    data, _ = identified("int64")
    files = in_files(tmp_path / "files", *[data.slice(2 * k, 2) for k in range(8)])
    for path, name in zip(files[:4], ("[1].parquet", "{a,b}.parquet", "?*.parquet", "a\\b.parquet"), strict=True):
        path.rename(path.with_name(name))
    files = sorted(files[0].parent.glob("*"))
    assert outcome(files, engine="spark") == outcome(files) == outcome(data)
    for name in ("_hidden.parquet", ".hidden.parquet"):
        files[-1] = files[-1].rename(files[-1].with_name(name))
        assert "Spark ignores files whose names begin with '.' or '_'" in outcome(files, engine="spark")
    lacking = in_files(tmp_path / "lacking", data, data.drop_columns("x"))
    assert "1.parquet': it lacks the column(s) 'x'" in outcome(lacking, engine="spark")


def test_times_without_a_zone_are_read_as_they_are_or_refused(session, tmp_path):
    schema = tm.Schema([tm.Column("seen", "2000-01-01", "2030-01-01", "datetime")])
    data = pa.table({"seen": pa.array([datetime.datetime(2010, 1, 1), datetime.datetime(2010, 7, 1, 12)])})
    zoned = data.set_column(0, "seen", data["seen"].cast(pa.timestamp("us", "UTC")))
    files, instants = in_files(tmp_path / "files", data), in_files(tmp_path / "instants", zoned)
    expected = outcome(data, schema)
    before = session.conf.get("spark.sql.session.timeZone")
    try:
        for zone in ("UTC", "America/New_York"):
            session.conf.set("spark.sql.session.timeZone", zone)
            shifted = session.createDataFrame(data.to_pandas())
            assert outcome(files, schema, engine="spark") == outcome(instants, schema, engine="spark") == expected
            assert outcome(shifted.selectExpr("cast(seen as timestamp_ntz) as seen"), schema) == expected
            if zone == "UTC":
                assert outcome(shifted, schema) == expected
                continue
            said = outcome(shifted, schema)
            assert "'seen' have Spark's type 'timestamp', which is read as UTC" in said
            assert "cast them to 'timestamp_ntz'" in said
            # Spark makes instants of a file's times, too, where it is told to.
            session.conf.set("spark.sql.parquet.inferTimestampNTZ.enabled", "false")
            assert "is read as UTC" in outcome(files, schema, engine="spark")
    finally:
        session.conf.set("spark.sql.session.timeZone", before)
        session.conf.unset("spark.sql.parquet.inferTimestampNTZ.enabled")


@pytest.mark.nightly  # By day with processes, in test_engines.py.
def test_the_pieces_of_a_worker_that_died_count_once(session, whole, tmp_path):
    exact = PrivateTable(whole, SCHEMA).rows(SCHEMA).sums(FunctionSums(BASIS))
    found = sums(frame(session, tmp_path, whole, 5), Ending(BASIS, folder=str(tmp_path), times=1))
    assert (tmp_path / "ended 0").exists()
    np.testing.assert_array_equal(found.limbs, exact.limbs)
    assert found.n == N


@pytest.mark.nightly  # By day with Dask: the same function keeps rows out of what both say.
def test_no_message_quotes_a_row(session, whole, tmp_path):
    data = frame(session, tmp_path, whole)
    with pytest.raises(WorkerError, match=r"^a worker failed on a piece of the table \(RuntimeError\)$"):
        sums(data, Failing(BASIS))
    with pytest.raises(WorkerError, match=r"Spark could not measure the table \(\w+\)") as caught:
        sums(data.selectExpr("age", f"raise_error('{SECRET}') as pay", "region", "seen"), FunctionSums(BASIS))
    assert SECRET not in str(caught.value)
    assert caught.value.__cause__ is None
    strange = whole.set_column(1, "pay", pa.array([SECRET] * N))
    with pytest.raises(InputError, match="column 'pay'") as refused:
        sums(frame(session, tmp_path, strange), FunctionSums(BASIS))
    assert SECRET not in str(refused.value)


@pytest.mark.nightly  # By day with Dask.
def test_what_does_not_go_together_is_refused_before_anything_is_charged(session, whole, pattern, tmp_path):
    ledger = LedgerFile.create(tmp_path / "ledger.json", tm.Budget(50.0, 1e-6))
    secret = tm.Schema([*COLUMNS[:2], tm.Column("region", kind="categorical", categories="private")])
    data = frame(session, tmp_path, whole)
    for given, schema, options, said in (
            (data, SCHEMA, {"engine": "dask"}, "engine must be 'spark' for a DataFrame of Spark, not 'dask'"),
            (data, SCHEMA, {"workers": 2}, "own session measures it; leave workers and scheduler out"),
            (pattern, SCHEMA, {"engine": "spark", "workers": 2}, "the program already has a Spark session"),
            (data, secret, {}, "Dask and Spark cannot find private categories"),
            (data.select("pay"), SCHEMA, {}, r"lacks the column\(s\) 'age', 'region', 'seen'"),
            (data, tm.Schema(COLUMNS, person="whose"), {}, r"lacks the column\(s\) 'whose'"),
            (data.limit(1), SCHEMA, {}, "at least 2 rows; the table has 1")):
        with pytest.raises(InputError, match=said):
            tm.synthesize(given, schema, BUDGET, ledger=tmp_path / "ledger.json", **options)
    assert LedgerFile.open(ledger.path).entries == ()
