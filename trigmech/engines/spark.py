"""The engine "spark": a Spark DataFrame, or Parquet files that Spark reads, by ``mapInArrow``."""

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

from trigmech.engines.question import Answer, Question, answered
from trigmech.errors import InputError, TrigmechError, WorkerError
from trigmech.measurement.persons import free_name, hashes
from trigmech.schema.schema import Schema
from trigmech.tables.parquet_files import ParquetFiles
from trigmech.tables.reader import rows_at_once

MOST_TRIES = 4
ANSWER = "limbs binary, n bigint, problem string, failed boolean"
NO_CATEGORIES = ("private categories are not found over Dask or Spark; give the categories in the schema, or measure "
                 "Parquet files without an engine")


class SparkWorkers:
    """A table, and the session that measures it; see :class:`trigmech.engines.spread.Workers`.

    Parameters
    ----------
    table : pyspark.sql.DataFrame or ParquetFiles, private
        Files must be where Spark's workers can read them.
    schema : Schema
    workers : int, optional
        Threads of a local session that is made here, each with a process of Python.
    scheduler : str, optional
        The address of Spark's master for a session that is made here, or, with sc://, of its server. Without either the
        session is used that the program has, if it has one.
    """

    library: str | None = "pyarrow"
    categorical: tuple[str, ...] = ()

    def __init__(self, table: Any, schema: Schema, workers: int | None, scheduler: str | None) -> None:
        if schema.private_categories:
            raise InputError(NO_CATEGORIES)
        self._session: Any = None
        if isinstance(table, ParquetFiles):
            paths = [str(file.path.absolute()) for file in table.files if file.path is not None]
            session, own = _session(workers, scheduler)
            self._session = session if own else None
            table = _row_free(lambda: session.read.parquet(*paths))
        elif workers is not None or scheduler is not None:
            raise InputError("a Spark DataFrame is measured by its own session; leave workers and scheduler out")
        self._table = table
        held = table.columns
        wanted = [*schema.names] if schema.person is None else [*schema.names, schema.person]
        absent = [name for name in wanted if name not in held]
        if absent:
            self.close()
            raise InputError(f"the table lacks the column(s) {', '.join(map(repr, absent))} that the schema names")
        if len(set(held)) < len(held):
            self.close()
            raise InputError("the table's column names must be distinct")

    def n(self, schema: Schema) -> int | None:
        """Return the number of rows, which Spark counts."""
        return None if schema.person is not None else int(_row_free(self._table.count))

    def tables(self, schema: Schema) -> Iterable[Any]:
        """Refuse what needs the cells themselves."""
        raise InputError(NO_CATEGORIES)

    def answers(self, question: Question) -> Iterator[Answer]:
        """Yield the answer of each partition; Spark repeats those of tasks that end, and returns each once."""
        frame = self._table.select([f"`{name.replace('`', '``')}`" for name in question.columns])
        by = None
        if question.schema.person is not None:
            from pyspark.sql.types import LongType, StructField, StructType

            by = free_name(question.columns)
            frame = frame.mapInArrow(partial(with_hashes, question.schema.person, by),
                                     StructType([*frame.schema.fields, StructField(by, LongType())]))
            # So that a partition is read in parts that each have all rows of their persons.
            frame = frame.repartition(by).sortWithinPartitions(by)
        answers = frame.mapInArrow(partial(answer_of_batches, question.packed(), by), ANSWER)
        for limbs, n, problem, failed in _row_free(answers.collect):
            yield Answer(bytes(limbs), n, problem, failed)

    def close(self) -> None:
        """End the session that was made for this table."""
        if self._session is not None:
            self._session.stop()
            self._session = None


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
    yield pa.RecordBatch.from_pydict({name: [value] for name, value in zip(Answer._fields, found, strict=True)})


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
            raise InputError("workers and scheduler are for a session that is made here, and the program has one of "
                             "Spark already; leave them out")
        return found, False
    # Else Spark's workers would be whatever "python3" is.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName("trigmech")
    if scheduler is not None and scheduler.startswith("sc://"):
        return _row_free(builder.remote(scheduler).getOrCreate), True
    builder = builder.master(scheduler or f"local[{workers or '*'},{MOST_TRIES}]").config(
        "spark.ui.showConsoleProgress", "false")
    if scheduler is None:
        # Spark starts its workers of Python, and from this process they have no path.
        builder = builder.config("spark.executorEnv.PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
    return _row_free(builder.getOrCreate), True


def _row_free(work: Callable[[], Any]) -> Any:
    """Return what Spark returns, or raise an error without its words, which could quote a row."""
    try:
        return work()
    except (TrigmechError, MemoryError):
        raise
    except Exception as problem:
        raise WorkerError(f"Spark could not measure the table ({type(problem).__name__}); its own log says more. It "
                          "needs a Java, and workers that have trigmech installed") from None
