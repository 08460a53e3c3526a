"""The engine "dask": a Dask DataFrame, or pieces of Parquet files, over the workers of a Dask cluster."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any

import distributed
import numpy as np
from dask.delayed import delayed

from trigmech.engines.processes import answer_of_file
from trigmech.engines.question import PieceQuestion, PieceSums, answered
from trigmech.engines.spread import ClusterWorkers, check_columns, row_free
from trigmech.errors import InputError
from trigmech.measurement.persons import free_name, hashes, plain, read_by
from trigmech.schema.column import CATEGORIES
from trigmech.schema.schema import Schema
from trigmech.tables.column_types import ColumnsOfFile
from trigmech.tables.frames import categorical_names
from trigmech.tables.parquet_files import ParquetFiles, Piece, plain_type, read
from trigmech.tables.reader import rows_at_once

OBJECT = np.dtype(object)
_measured = partial(
    row_free, why="Dask could not measure the table: computing it failed ({}), perhaps because partitions have other "
                  "columns, another order of columns or other types than Dask was told; the workers' logs say more",
    KilledWorker="Dask could not measure the table: its workers ended several times, probably because memory is short: "
                 "use smaller partitions, or give each worker more memory")


class DaskWorkers(ClusterWorkers):
    """A table, and the cluster that measures it; see :class:`trigmech.engines.spread.Workers`.

    Files must be where every worker can read them. ``workers`` are the processes of a cluster on this machine, which is
    made and ended here; ``scheduler`` is the address of another one. Without either, the client is used that the
    program has, if it has one.
    """

    def __init__(self, table: Any, schema: Schema, workers: int | None, scheduler: str | None) -> None:
        super().__init__(schema)
        if isinstance(table, ParquetFiles):
            table.check(read_by(schema), alike=schema.person is not None)
            self.library: str | None = "pyarrow"
            self.categorical: tuple[str, ...] = ()
            if schema.person is not None:
                table = _frame_of(table, read_by(schema))
        else:
            self.library = "pandas"
            names = [column.name for column in schema.columns if column.kind in CATEGORIES]
            check_columns(list(table.columns), read_by(schema).names)
            table = _typed(table[list(read_by(schema).names)])
            self.categorical = categorical_names(table._meta, names)
        self._table = table
        self._client, self._own = _client(workers, scheduler)

    def n(self, schema: Schema) -> int | None:
        """Return the number of rows, which Dask counts."""
        if schema.person is not None:
            return None
        return self._table.n if isinstance(self._table, ParquetFiles) else int(_measured(
            lambda: self._client.compute(self._table.shape[0]).result()))

    def answers(self, question: PieceQuestion) -> Iterator[PieceSums]:
        """Yield the answer of each piece; Dask repeats those of workers that end, and returns each once."""
        packed = question.packed()
        futures = _measured(lambda: self._begun(packed, question))
        try:
            for future in distributed.as_completed(futures, loop=self._client.loop):
                yield _measured(future.result)
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

    def _begun(self, packed: bytes, question: PieceQuestion) -> list[Any]:
        if isinstance(self._table, ParquetFiles):
            return self._client.map(answer_of_file, [packed] * len(self._table.pieces), self._table.pieces, pure=False)
        frame = self._table[question.columns]
        if question.schema.person is not None:
            by = free_name(question.columns)
            meta = frame._meta.assign(**{name: _as_values(frame._meta[name]) for name in question.columns})
            work = partial(with_hashes, meta, question.schema.person, by)
            # Arrow, by which Dask sends rows otherwise, has no type for columns of objects.
            method = "tasks" if any(kind == OBJECT for kind in meta.dtypes) else None
            hashed = frame.map_partitions(work, meta=work(meta))
            frame = hashed.shuffle(on=by, shuffle_method=method)[question.columns]
        answer = delayed(answer_of_frame, pure=False)
        return self._client.compute([answer(packed, part) for part in frame.to_delayed()])


def with_hashes(meta: Any, person: str, by: str, frame: Any) -> Any:
    """Return a partition, a private dataframe of pandas, with a column ``by`` that brings a person's rows together.

    ``meta`` has no rows, but the columns with the types that Dask was told they have. An InputError says that the
    partition lacks a column, or has it in a type in which it would mean something else than in others.
    """
    absent = [name for name in meta.columns if name not in frame.columns]
    if absent:
        raise InputError(f"a partition lacks the column(s) {', '.join(map(repr, absent))} that the schema names")
    if not len(frame):
        return meta.assign(**{by: np.zeros(0, dtype=np.int64)})
    frame = frame[list(meta.columns)]
    told = {name: _as_told(_as_values(frame[name]), meta[name].dtype, name == person) for name in meta.columns}
    return frame.assign(**told, **{by: hashes(frame, person)})


def _as_told(column: Any, told: Any, person: bool) -> Any:
    """Return a partition's column in a type that goes with the one that Dask was told, or raise an InputError."""
    from pandas.api.types import is_numeric_dtype

    if told == OBJECT:
        return column.astype(object)
    kind = column.dtype
    if kind == told or (_is_text(kind) and _is_text(told)) or str(kind) == str(told) == "category" or (
            not person and is_numeric_dtype(kind) and is_numeric_dtype(told)):
        return column
    if kind == OBJECT and _is_text(told) and _holds_text(column):
        return column.astype(told)
    raise InputError(f"column {column.name!r} has a type in some partitions that differs from the type that Dask was "
                     "told; use astype in the function that makes the partitions")


def _as_values(column: Any) -> Any:
    """Return a column, with a dictionary of Arrow as plain values: Dask cannot join the dictionaries of partitions."""
    from pandas import ArrowDtype

    kind = column.dtype
    return column.astype(ArrowDtype(plain_type(kind.pyarrow_dtype))) if isinstance(kind, ArrowDtype) else column


def _is_text(kind: Any) -> bool:
    from pandas import ArrowDtype, StringDtype

    return isinstance(kind, StringDtype) or (
        isinstance(kind, ArrowDtype) and str(plain_type(kind.pyarrow_dtype)) == "large_string")


def _holds_text(column: Any) -> bool:
    from pandas.api.types import infer_dtype

    return infer_dtype(column, skipna=True) in ("string", "empty")


def part_of_file(columns: ColumnsOfFile, piece: Piece) -> Any:
    """Return a piece of a file as a dataframe of pandas whose columns keep their types of Arrow."""
    import pandas
    import pyarrow as pa

    return pa.concat_tables([plain(table) for table in read(piece, columns)]).to_pandas(types_mapper=pandas.ArrowDtype)


def _frame_of(files: ParquetFiles, columns: ColumnsOfFile) -> Any:
    """Return files as a Dask DataFrame of their pieces, read as everywhere."""
    import dask.dataframe as frames
    import pandas
    import pyarrow as pa

    if not files.n:
        raise InputError("the files have no rows")
    types = files.of_one_type(columns)[0][0].types
    empty = pa.table({name: pa.array([], plain_type(types[name])) for name in columns.names})
    return frames.from_map(partial(part_of_file, columns), files.pieces,
                           meta=empty.to_pandas(types_mapper=pandas.ArrowDtype))


def answer_of_frame(packed: bytes, frame: Any) -> PieceSums:
    """Return the answer of a partition, a dataframe of pandas."""
    def tables(question: PieceQuestion) -> Iterable[Any]:
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
        raise InputError("workers is for a cluster that trigmech starts, but the program already has a Dask client; "
                         "leave workers out")
    return found, False


def _typed(frame: Any) -> Any:
    """Return a Dask DataFrame that refuses to convert other values to text: 1, 1.0 and "1" differ elsewhere.

    Dask converts columns without a type when it takes a dataframe of pandas or the result of a function. The
    conversions of a persisted frame cannot be seen. A dataframe of pandas is refused here, and the result of a function
    where the partition is made.
    """
    from dask.dataframe import DataFrame, Series

    expression = getattr(frame, "expr", None)
    if expression is None:
        return frame
    expression = expression.simplify()
    for each in list(expression.walk()):
        if type(each).__name__ in ("FromPandas", "FromPandasDivisions") and each.operand("pyarrow_strings_enabled"):
            held = each.operand("frame")._data
            _check_texts(held[list(each.columns)] if held.ndim == 2 else held.to_frame())
        elif type(each).__name__ == "ArrowStringConversion" and each.ndim and hasattr(each._meta, "iloc"):
            made = (DataFrame if each.ndim == 2 else Series)(each.operand("frame"))
            checked = made.map_partitions(partial(_as_text, each.operation), meta=each._meta, enforce_metadata=False)
            expression = expression.substitute(each, checked.expr)
    return type(frame)(expression)


def _as_text(operation: Callable[[Any], Any], part: Any) -> Any:
    """Return a partition after Dask's conversion to text; raise an InputError if a column holds other values."""
    _check_texts(part if part.ndim == 2 else part.to_frame())
    return operation(part)


def _check_texts(frame: Any) -> None:
    names = [name for name in frame.columns if frame[name].dtype == OBJECT and not _holds_text(frame[name])]
    if names:
        raise InputError(f"column(s) {', '.join(map(repr, names))} have the type 'object' and hold values that are not "
                         "text. Dask would convert these to text, and 1, 1.0 and '1' would become different values; "
                         "give the columns a type first, such as astype('string') or astype('int64')")
