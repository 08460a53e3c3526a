"""The engine "processes": pieces of Parquet files over processes of this machine."""

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing.connection import wait
from types import ModuleType
from typing import Any

from threadpoolctl import threadpool_limits

from trigmech import _parallel
from trigmech.engines.question import PieceQuestion, PieceSums, answered
from trigmech.errors import InputError, WorkerError
from trigmech.measurement.persons import Buckets, read_by
from trigmech.schema.schema import Schema
from trigmech.tables.parquet_files import ParquetFiles, Piece, read

# How often processes may end before their time until a pass over the table is given up.
MOST_DEATHS = 3


class FileWorkers:
    """Parquet files, and processes that measure their pieces; see :class:`trigmech.engines.spread.Workers`.

    With a person in the schema the rows are first dealt out by person, see :mod:`trigmech.measurement.persons`, and the
    pieces are the buckets.
    """

    library: str | None = "pyarrow"
    categorical: tuple[str, ...] = ()

    def __init__(self, files: ParquetFiles, schema: Schema, workers: int | None) -> None:
        if multiprocessing.current_process().daemon:
            raise InputError("engine 'processes' cannot be used here, because this process may not start others; leave "
                             "engine out")
        files.check(read_by(schema))
        self._files = files
        self._buckets = None if schema.person is None else Buckets(files, schema)
        self._workers = workers or _parallel.thread_count()
        self._pool: ProcessPoolExecutor | None = None

    def n(self, schema: Schema) -> int | None:
        return self._files.n if self._buckets is None else self._buckets.n

    def tables(self, schema: Schema) -> Iterable[Any]:
        return self._files.chunks(schema) if self._buckets is None else self._buckets.tables()

    def answers(self, question: PieceQuestion) -> Iterator[PieceSums]:
        """Yield the answer of each piece once. If a process ends early, its pieces are measured again."""
        packed = question.packed()
        buckets = self._buckets
        if buckets is not None and not buckets.paths:
            yield answered(packed, lambda _: buckets.tables())
            return
        pieces = self._files.pieces if buckets is None else [Piece(path, None, 0) for path in buckets.paths]
        waiting, deaths = dict(enumerate(pieces)), 0
        while waiting:
            futures = self._begun(packed, waiting)
            try:
                for future in as_completed(futures):
                    place = futures.pop(future)
                    try:
                        answer = future.result()
                    except BrokenProcessPool:
                        continue
                    del waiting[place]
                    yield answer
            finally:
                # After an error, or when the caller stops listening, nothing goes on behind its back.
                for future in futures:
                    future.cancel()
            if waiting:
                deaths += 1
                self._end()
                if deaths > MOST_DEATHS:
                    raise WorkerError(f"processes that measure the table ended {deaths} times before they were done, "
                                      "probably because memory is short: use fewer workers, or write files with "
                                      "smaller row groups. Nothing was charged for this measurement")

    def close(self) -> None:
        self._end()
        if self._buckets is not None:
            self._buckets.close()

    def _end(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
            self._pool = None

    def _begun(self, packed: bytes, waiting: dict[int, Piece]) -> dict[Future[PieceSums], int]:
        if self._pool is None:
            workers = min(self._workers, len(waiting))
            self._pool = ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), _begin)
        futures: dict[Future[PieceSums], int] = {}
        with _without_main():
            for place, piece in waiting.items():
                try:
                    futures[self._pool.submit(answer_of_file, packed, piece)] = place
                except BrokenProcessPool:
                    break
        return futures


def answer_of_file(packed: bytes, piece: Piece) -> PieceSums:
    """Return the answer of a piece, or of a bucket, of a file that this process can read."""
    return answered(packed, lambda question: _tables(piece, question))


def _tables(piece: Piece, question: PieceQuestion) -> Iterable[Any]:
    if question.schema.person is None:
        return read(piece, question.first)
    import pyarrow.parquet as pq

    return [pq.read_table(piece.path)]


def _begin() -> None:
    """Be one process of several: with one thread, ended by the first one alone, or together with it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ[_parallel.THREADS_VARIABLE] = "1"
    threadpool_limits(1)
    first = multiprocessing.parent_process()
    if first is not None:
        threading.Thread(target=_end_with, args=(first.sentinel,), daemon=True).start()


def _end_with(sentinel: int) -> None:
    wait([sentinel])
    os._exit(1)


_starting = threading.Lock()


@contextmanager
def _without_main() -> Iterator[None]:
    """Start processes that do not run the program's own file, which would ask for this table in its turn."""
    with _starting:
        main = sys.modules["__main__"]
        sys.modules["__main__"] = ModuleType("__main__")
        try:
            yield
        finally:
            sys.modules["__main__"] = main
