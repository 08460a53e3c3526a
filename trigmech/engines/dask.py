"""The engine "dask": a Dask DataFrame, or pieces of Parquet files, over the workers of a Dask cluster."""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

import distributed
import numpy as np
from dask.delayed import delayed

from trigmech.engines.processes import answer_of_file
from trigmech.engines.question import Answer, Question, answered
from trigmech.errors import InputError, TrigmechError, WorkerError
from trigmech.measurement.persons import free_name, hashes, read_by
from trigmech.schema.column import CATEGORIES
from trigmech.schema.schema import Schema
from trigmech.tables.frames import categorical_names
from trigmech.tables.parquet_files import ParquetFiles
from trigmech.tables.reader import rows_at_once

NO_CATEGORIES = ("private categories are not found over Dask or Spark; give the categories in the schema, or measure "
                 "Parquet files without an engine")


class DaskWorkers:
    """A table, and the cluster that measures it; see :class:`trigmech.engines.spread.Workers`.

    Parameters
    ----------
    table : dask.dataframe.DataFrame or ParquetFiles, private
        Files must be where every worker can read them.
    schema : Schema
    workers : int, optional
        Processes of a cluster on this machine, which is made and ended here.
    scheduler : str, optional
        The address of a cluster's scheduler. Without either, the client is used that the program has, if it has one.
    """

    def __init__(self, table: Any, schema: Schema, workers: int | None, scheduler: str | None) -> None:
        if schema.private_categories:
            raise InputError(NO_CATEGORIES)
        if isinstance(table, ParquetFiles):
            table.check(read_by(schema))
            self.library: str | None = "pyarrow"
            self.categorical: tuple[str, ...] = ()
            if schema.person is not None:
                import dask.dataframe as frames

                table = frames.read_parquet([str(file.path) for file in table.files],
                                            columns=[*schema.names, schema.person])
        else:
            self.library = "pandas"
            names = [column.name for column in schema.columns if column.kind in CATEGORIES]
            _check_columns(table, schema)
            self.categorical = categorical_names(table._meta, names)
        self._table = table
        self._client, self._own = _client(workers, scheduler)

    def n(self, schema: Schema) -> int | None:
        """Return the number of rows, which Dask counts."""
        if schema.person is not None:
            return None
        return self._table.n if isinstance(self._table, ParquetFiles) else int(_row_free(
            lambda: self._client.compute(self._table.shape[0]).result()))

    def tables(self, schema: Schema) -> Iterable[Any]:
        """Refuse what needs the cells themselves."""
        raise InputError(NO_CATEGORIES)

    def answers(self, question: Question) -> Iterator[Answer]:
        """Yield the answer of each piece; Dask repeats those of workers that end, and returns each once."""
        packed = question.packed()
        futures = _row_free(lambda: self._begun(packed, question))
        try:
            for future in distributed.as_completed(futures, loop=self._client.loop):
                yield _row_free(future.result)
                future.release()
        finally:
            for future in futures:
                future.release()

    def close(self) -> None:
        """End the cluster that was made for this table, or leave the one it was given."""
        if self._own:
            cluster = self._client.cluster
            with suppress(Exception):
                self._client.close()
            if cluster is not None:
                with suppress(Exception):
                    cluster.close()

    def _begun(self, packed: bytes, question: Question) -> list[Any]:
        if isinstance(self._table, ParquetFiles):
            return self._client.map(answer_of_file, [packed] * len(self._table.pieces), self._table.pieces, pure=False)
        frame = self._table[question.columns]
        if question.schema.person is not None:
            person, by = question.schema.person, free_name(question.columns)
            hashed = frame.map_partitions(with_hashes, person, by, meta=with_hashes(frame._meta, person, by))
            frame = hashed.shuffle(on=by)[question.columns]
        answer = delayed(answer_of_frame, pure=False)
        return self._client.compute([answer(packed, part) for part in frame.to_delayed()])


def with_hashes(frame: Any, person: str, by: str) -> Any:
    """Return a dataframe of pandas with a column by which rows of the same person are brought together."""
    # Some partitions, and what stands for all of them, are empty.
    return frame.assign(**{by: hashes(frame, person) if len(frame) else np.zeros(0, dtype=np.int64)})


def answer_of_frame(packed: bytes, frame: Any) -> Answer:
    """Return the answer of a partition, a dataframe of pandas."""
    def tables(question: Question) -> Iterable[Any]:
        rows = rows_at_once(question.schema) if question.schema.person is None else max(len(frame), 1)
        return (frame.iloc[low : low + rows] for low in range(0, len(frame), rows))

    return answered(packed, tables)


def _client(workers: int | None, scheduler: str | None) -> tuple[Any, bool]:
    """Return a client, and whether it was made here."""
    if scheduler is not None:
        try:
            return distributed.Client(scheduler, timeout=10, set_as_default=False), True
        except (OSError, ValueError) as problem:
            raise InputError(f"there is no Dask scheduler at {scheduler!r} ({type(problem).__name__}); its address "
                             "looks like tcp://host:8786") from None
    try:
        found = distributed.get_client()
    except ValueError:
        cluster = distributed.LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None)
        return distributed.Client(cluster, set_as_default=False), True
    if workers is not None:
        raise InputError("workers is for a cluster that is made here, and the program has a Dask client already; "
                         "leave it out")
    return found, False


def _check_columns(table: Any, schema: Schema) -> None:
    held = list(table.columns)
    wanted = [*schema.names] if schema.person is None else [*schema.names, schema.person]
    absent = [name for name in wanted if name not in held]
    if absent:
        raise InputError(f"the table lacks the column(s) {', '.join(map(repr, absent))} that the schema names")
    if len(set(held)) < len(held):
        raise InputError("the table's column names must be distinct")


def _row_free(work: Any) -> Any:
    """Return what Dask returns, or raise an error without its words, which could quote a row."""
    try:
        return work()
    except (TrigmechError, MemoryError):
        raise
    except Exception as problem:
        why = ("workers ended again and again while they measured it, as they do when memory is short: take smaller "
               "partitions, or more memory a worker" if type(problem).__name__ == "KilledWorker" else
               f"computing it failed ({type(problem).__name__}); the workers' logs say more")
        raise WorkerError(f"Dask could not measure the table: {why}") from None
