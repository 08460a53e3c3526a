"""The engine "spark": a Spark DataFrame, or Parquet files that Spark reads, by ``mapInArrow``."""

import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any

from trigmech.engines.question import PieceQuestion, PieceSums, answered
from trigmech.engines.spread import ClusterWorkers, check_columns, row_free
from trigmech.errors import InputError
from trigmech.measurement.persons import free_name, hashes, read_by
from trigmech.schema.schema import Schema
from trigmech.tables.parquet_files import ParquetFiles, plain_type
from trigmech.tables.reader import TableFile, rows_at_once

MOST_TRIES = 4
STARTING = ("Spark could not measure the table ({}): its session did not start; Spark needs Java, and the address of a "
            "master or a server that runs")
READING = ("Spark could not read the files ({}). Usual causes: its workers do not have a file, a column has a "
           "type that Spark lacks (times of nanoseconds, times of a day), or two names differ only in capital letters")
MEASURING = ("Spark could not measure the table ({}); its own log says more. Its workers must have trigmech installed "
             "and find the files")
UTC = ("UTC", "Etc/UTC", "Z", "GMT", "Etc/GMT", "+00:00", "Zulu", "Universal", "Etc/Universal", "Etc/Zulu")
ANSWER = "limbs binary, n bigint, problem string, failed boolean"


class SparkWorkers(ClusterWorkers):
    """A table, and the session that measures it; see :class:`trigmech.engines.spread.Workers`.

    Files must be where Spark's workers can read them. ``workers`` are the threads of a local session that is made here,
    each with a process of Python; ``scheduler`` is the address of Spark's master for a session that is made here, or,
    with sc://, of its server. Without either the session is used that the program has, if it has one.
    """

    library: str | None = "pyarrow"
    categorical: tuple[str, ...] = ()

    def __init__(self, table: Any, schema: Schema, workers: int | None, scheduler: str | None) -> None:
        super().__init__(schema)
        self._session: Any = None
        self._rows: int | None = None
        columns = read_by(schema)
        try:
            if isinstance(table, ParquetFiles):
                table.check(columns, alike=schema.person is not None)
                self._rows = table.n
                session, own = _session(workers, scheduler)
                self._session = session if own else None
                self._tables = [_frame_of(session, files, columns.names) for files in table.of_one_type(columns)]
            elif workers is not None or scheduler is not None:
                raise InputError("a Spark DataFrame's own session measures it; leave workers and scheduler out")
            else:
                check_columns(table.columns, columns.names)
                _check_times(_selected(table, columns.names), columns.names)
                self._tables = [table]
        except BaseException:
            self.close()
            raise

    def n(self, schema: Schema) -> int | None:
        """Return the number of rows, which files say and Spark counts of a DataFrame."""
        if schema.person is not None:
            return None
        return int(row_free(self._tables[0].count, MEASURING)) if self._rows is None else self._rows

    def answers(self, question: PieceQuestion) -> Iterator[PieceSums]:
        """Yield the answer of each partition; Spark repeats those of tasks that end, and returns each once."""
        for table in self._tables:
            yield from self._answers(table, question)

    def _answers(self, table: Any, question: PieceQuestion) -> Iterator[PieceSums]:
        frame = _selected(table, question.columns)
        by = None
        if question.schema.person is not None:
            from pyspark.sql.types import LongType, StructField, StructType

            by = free_name(question.columns)
            frame = frame.mapInArrow(partial(with_hashes, question.schema.person, by),
                                     StructType([*frame.schema.fields, StructField(by, LongType())]))
            # So that a partition is read in parts that each have all rows of their persons.
            frame = frame.repartition(by).sortWithinPartitions(by)
        answers = frame.mapInArrow(partial(answer_of_batches, question.packed(), by), ANSWER)
        for limbs, n, problem, failed in row_free(answers.collect, MEASURING):
            yield PieceSums(bytes(limbs), n, problem, failed)

    def close(self) -> None:
        """End the session that was made for this table."""
        if self._session is not None:
            self._session.stop()
            self._session = None


def _frame_of(session: Any, files: Sequence[TableFile], names: Sequence[str]) -> Any:
    """Return files whose columns have the same types as a Spark DataFrame."""
    import pyarrow as pa

    for name in names:
        kind = plain_type(files[0].types[name])
        if pa.types.is_timestamp(kind) and kind.unit == "ns":
            raise InputError(f"column {name!r} has times in nanoseconds, which Spark cannot read; write them in "
                             "microseconds")
    hidden = [str(file.path) for file in files if file.path is not None and file.path.name[0] in "._"]
    if hidden:
        raise InputError(f"Spark ignores files whose names begin with '.' or '_': rename {hidden[0]!r}")
    # These are names: the signs of patterns are escaped.
    paths = [re.sub(r"([\\*?{}\[\]])", r"\\\1", str(file.path.absolute())) for file in files if file.path is not None]
    frame = row_free(lambda: _selected(session.read.parquet(*paths), names), READING)
    _check_times(frame, [name for name in names if getattr(plain_type(files[0].types[name]), "tz", None) is None])
    return frame


def _selected(table: Any, names: Sequence[str]) -> Any:
    return table.select([f"`{name.replace('`', '``')}`" for name in names])


def _check_times(frame: Any, names: Sequence[str]) -> None:
    """Raise an InputError if times without a zone may have been shifted by the session's zone.

    Spark makes instants of them when it takes them from Python, by the session's zone, and an instant is read in UTC.
    """
    kinds = {field.name: field.dataType.typeName() for field in row_free(lambda: frame.schema, MEASURING).fields}
    times = [name for name in names if kinds[name] == "timestamp"]
    zone = UTC[0] if not times else str(
        row_free(lambda: frame.sparkSession.conf.get("spark.sql.session.timeZone"), MEASURING))
    if zone not in UTC:
        raise InputError(f"column(s) {', '.join(map(repr, times))} have Spark's type 'timestamp', which is read as "
                         f"UTC, but the session's time zone is {zone!r}: cast them to 'timestamp_ntz' for times in "
                         "that zone, as in a dataframe without Spark, or set spark.sql.session.timeZone to 'UTC'")


def with_hashes(person: str, by: str, batches: Iterable[Any]) -> Iterator[Any]:
    """Yield record batches with a column by which rows of the same person are brought together."""
    import pyarrow as pa

    for batch in batches:
        found = pa.array(hashes(pa.Table.from_batches([batch]), person))
        yield pa.RecordBatch.from_arrays([*batch.columns, found], names=[*batch.schema.names, by])


def answer_of_batches(packed: bytes, by: str | None, batches: Iterable[Any]) -> Iterator[Any]:
    """Yield the answer of a partition as one row of Arrow; `by` tells persons apart, or more than one."""
    import pyarrow as pa

    found = answered(packed, lambda question: joined(batches, rows_at_once(question.schema), by))
    yield pa.RecordBatch.from_pydict({name: [value] for name, value in zip(PieceSums._fields, found, strict=True)})


def joined(batches: Iterable[Any], rows: int, by: str | None) -> Iterator[Any]:
    """Yield record batches as tables of about so many rows or, if they are sorted by a column, of all of each value."""
    import numpy as np
    import pyarrow as pa

    waiting: list[Any] = []
    count = 0
    for batch in batches:
        waiting.append(batch)
        count += batch.num_rows
        if count < rows:
            continue
        table, rest = pa.Table.from_batches(waiting), None
        if by is not None:
            # The last person may have more rows.
            found = table.column(by).to_numpy()
            other = np.flatnonzero(found != found[-1])
            end = int(other[-1]) + 1 if len(other) else 0
            table, rest = table.slice(0, end), table.slice(end)
        if table.num_rows:
            yield table
        waiting = rest.to_batches() if rest is not None else []
        count = 0 if rest is None else rest.num_rows
    if count:
        yield pa.Table.from_batches(waiting)


def _session(workers: int | None, scheduler: str | None) -> tuple[Any, bool]:
    """Return a session, and whether it was made here."""
    from pyspark.sql import SparkSession

    found = SparkSession.getActiveSession()
    if found is not None:
        if workers is not None or scheduler is not None:
            raise InputError("workers and scheduler are for a session that trigmech starts, but the program already "
                             "has a Spark session; leave them out")
        return found, False
    # Else Spark's workers would run "python3", which may be another Python.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName("trigmech")
    if scheduler is not None and scheduler.startswith("sc://"):
        return row_free(builder.remote(scheduler).getOrCreate, STARTING), True
    builder = builder.master(scheduler or f"local[{workers or '*'},{MOST_TRIES}]").config(
        "spark.ui.showConsoleProgress", "false")
    if scheduler is None:
        # Spark starts its workers of Python, and from this process they have no path.
        builder = builder.config("spark.executorEnv.PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
    return row_free(builder.getOrCreate, STARTING), True
