"""Who measures a table: this process, several, or a cluster."""

import multiprocessing
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from trigmech import _parallel
from trigmech._optional import need
from trigmech._validate import check_choice, check_integers
from trigmech.engines.spread import SpreadTable, Workers
from trigmech.errors import InputError, shown
from trigmech.measurement.rows import PrivateTable, Progress, TableSource
from trigmech.schema.schema import Schema
from trigmech.tables.parquet_files import ParquetFiles, is_list_of_paths, paths_of
from trigmech.tables.reader import TableFile

Engine = Literal["processes", "dask", "spark"]

# From so many rows on, Parquet files are measured by several processes unless something else is asked for: they take
# seconds to start.
MANY_ROWS = 2**24


@contextmanager
def opened(table: Any, schema: Schema, progress: Progress | None = None, engine: Engine | None = None,
           workers: int | None = None, scheduler: str | None = None, least: int = 2) -> Iterator[TableSource]:
    """Yield a table as the steps see it, with who measures it.

    Parameters
    ----------
    table : private
        A table for :class:`trigmech.measurement.rows.PrivateTable`; a pattern or a list of Parquet files; a DataFrame
        of Dask or Spark.
    schema, progress, least
        As for that class.
    engine : {"processes", "dask", "spark"}, optional
        Default: the engine of the table's type; several processes for Parquet files of 2^24 rows and more, if this
        process may use more than one core; else this process.
    workers : int, optional
        How many processes; by default one for each core, see ``TRIGMECH_NUM_THREADS``.
    scheduler : str, optional
        The address of a cluster of Dask or Spark.

    Raises
    ------
    InputError
        If engine, workers and scheduler do not go with each other or with the table.
    MissingLibraryError
        If the engine's library is not installed.
    """
    check_engine(engine, workers, scheduler)
    files, kind = files_of(table), _kind(table)
    if kind is not None and engine not in (None, kind):
        raise InputError(f"engine must be {kind!r} for a DataFrame of {kind.title()}, not {engine!r}")
    if scheduler is not None and engine is None and kind is None:
        raise InputError("scheduler is the address of a cluster; give the engine 'dask' or 'spark' as well")
    chosen = engine or kind or (None if files is None else _default(files, workers))
    if chosen is None:
        if workers is not None:
            raise InputError("workers can measure Parquet files and DataFrames of Dask and Spark only; this process "
                             "itself measures this table, and TRIGMECH_NUM_THREADS limits its threads")
        with PrivateTable(table if files is None else files, schema, progress, least) as private:
            yield private
        return
    if files is None and kind is None:
        raise InputError(f"engine={chosen!r} measures Parquet files" + (
            "" if chosen == "processes" else f", or a DataFrame of {chosen.title()}") + (
            ", not CSV" if isinstance(table, TableFile) else ", not a table in memory"))
    made = _workers(chosen, table if files is None else files, schema, workers, scheduler)
    try:
        yield SpreadTable(made, schema, progress, least)
    finally:
        made.close()


def check_engine(engine: Any, workers: Any, scheduler: Any) -> None:
    """Raise an InputError if options do not go with each other."""
    if engine is not None:
        check_choice("engine", engine, Engine)
    if workers is not None:
        check_integers(1, workers=workers)
    if scheduler is not None:
        if not isinstance(scheduler, str) or not scheduler:
            raise InputError(f"scheduler must be the address of a cluster as text, not {shown(scheduler)}")
        if engine == "processes":
            raise InputError("scheduler is for the engines 'dask' and 'spark', not for 'processes'")
        if workers is not None:
            raise InputError("give either workers (processes on this machine) or scheduler (the address of a cluster, "
                             "which has its own workers), not both")


def files_of(table: Any) -> ParquetFiles | TableFile | None:
    """Return the files that a table is given as: Parquet files, another file, or None."""
    if isinstance(table, ParquetFiles | TableFile):
        return table
    if is_list_of_paths(table) or (isinstance(table, str | Path) and paths_of(table)):
        need("tables", "reading a table's file")
        return ParquetFiles(table)
    return TableFile(table) if isinstance(table, str | Path) else None


def _kind(table: Any) -> Engine | None:
    """Return whose DataFrame a table is, by the module of its type: nothing is imported for that."""
    module = type(table).__module__.split(".")
    if module[0] in ("dask", "dask_expr") and hasattr(table, "npartitions"):
        return "dask"
    return "spark" if module[:2] == ["pyspark", "sql"] and hasattr(table, "mapInArrow") else None


def _default(files: ParquetFiles | TableFile, workers: int | None) -> Engine | None:
    """Return the default engine for files; None if this process itself measures them."""
    if isinstance(files, TableFile) and (files.groups is None or files.path is None):
        return None
    if workers is not None:
        return "processes"
    many = sum(files.groups or ()) if isinstance(files, TableFile) else files.n
    alone = _parallel.thread_count() == 1 or multiprocessing.current_process().daemon
    return None if alone or many < MANY_ROWS else "processes"


def _workers(engine: Engine, table: Any, schema: Schema, workers: int | None, scheduler: str | None) -> Workers:
    if isinstance(table, TableFile):
        if table.path is None:
            raise InputError(f"engine={engine!r} needs a file that several processes can open, not standard input")
        table = ParquetFiles([table.path])
    need("tables", f"engine={engine!r}")
    if engine == "processes":
        from trigmech.engines.processes import FileWorkers

        return FileWorkers(table, schema, workers)
    need(engine, f"engine={engine!r}")
    if engine == "dask":
        from trigmech.engines.dask import DaskWorkers

        return DaskWorkers(table, schema, workers, scheduler)
    from trigmech.engines.spark import SparkWorkers

    return SparkWorkers(table, schema, workers, scheduler)
