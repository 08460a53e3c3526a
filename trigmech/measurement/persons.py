"""PRIVATE. Whose each row of a table is: the rows of each person brought together, of a file by way of the disk.

A file need not be sorted. Its rows are dealt out to buckets by a hash of the person, so that all rows of one are in
one bucket, and each bucket is small enough for memory. A small file has one, which stays in memory; those of a large
one are Parquet files in a folder that its owner alone can read, in the place for temporary files (``TMPDIR``), until
the run ends.
"""

import shutil
import tempfile
import weakref
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trigmech.errors import InputError, TrigmechError
from trigmech.measurement.sums import Chunk
from trigmech.schema.schema import Schema
from trigmech.tables.frames import Columns, column_names
from trigmech.tables.parquet_files import ParquetFiles
from trigmech.tables.reader import TableFile
from trigmech.tables.scalars import is_missing

# Encoded numbers of a bucket: 32 MiB, and several times as much while they are read. More buckets are more open files.
NUMBERS_IN_A_BUCKET, MOST_BUCKETS = 2**22, 512
ROWS_AT_ONCE = 2**14


class PersonColumn(NamedTuple):
    """The column that says whose a row is, as files are read: text as it stands."""

    name: str
    is_text: bool = True
    unit: str | None = None
    categories: tuple[str, ...] = ()


class WithPerson:
    """A schema's columns and the person's, for reading a file; see :class:`trigmech.tables.column_types.ColumnsOfFile`.
    """

    def __init__(self, schema: Schema, person: str) -> None:
        self.names = (*schema.names, person)
        self.columns = (*schema.columns, PersonColumn(person))
        self.width = schema.width + 1


def read_by(schema: Schema) -> Any:
    """Return what a file is read by: the schema, with the column of the person if there is one."""
    return schema if schema.person is None else WithPerson(schema, schema.person)


def chunk_of(table: Any, schema: Schema, raw: bool = False) -> Chunk:
    """Return a table, with all rows of its persons, as a chunk; as it is, or to be mapped to points by the schema.

    Raises
    ------
    InputError
        If there is no column of persons, or it has a missing value.
    """
    mapped = None if raw else schema
    if schema.person is None:
        return Chunk(table, schema.domain, mapped)
    codes = _codes(table, schema.person)
    order = np.argsort(codes, kind="stable")
    starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
    return Chunk(table, schema.domain, mapped, starts, order)


def _codes(table: Any, person: str) -> NDArray[np.int64]:
    """Return a number for each row's person."""
    if column_names(table) is None:
        raise InputError(f"the schema has the column {person!r} of persons, so the table must be a dataframe or a "
                         "file, whose columns have names")
    values, codes = Columns(table, (person,)).distinct(0)
    absent = np.array([_is_nobody(value) for value in values] + [True])
    if absent[codes].any():
        raise InputError(f"column {person!r}, which says whose each row is, has missing values")
    # A value may stand twice among the different ones.
    place: dict[Any, int] = {}
    try:
        return np.array([place.setdefault(value, len(place)) for value in values], dtype=np.int64)[codes]
    except TypeError:
        raise InputError(f"column {person!r}, which says whose each row is, must hold texts or numbers") from None


def _is_nobody(value: Any) -> bool:
    """Return whether a value names nobody: what is missing, and empty text, which files have for it."""
    return is_missing(value) or (isinstance(value, str) and not value.strip())


class Buckets:
    """The rows of a file by person.

    Parameters
    ----------
    file : TableFile or ParquetFiles, private
    schema : Schema
        With a person.

    Attributes
    ----------
    n : int
        Persons.
    """

    def __init__(self, file: TableFile | ParquetFiles, schema: Schema) -> None:
        self._schema = schema
        columns = read_by(schema)
        count = max(1, min(-(-file.n * columns.width // NUMBERS_IN_A_BUCKET), MOST_BUCKETS))
        self._tables: list[Any] = []
        self._folder: Path | None = None
        if count == 1:
            import pyarrow

            self._tables = [pyarrow.concat_tables([_plain(table) for table in file.chunks(columns)])]
        else:
            self._folder = Path(tempfile.mkdtemp(prefix="trigmech-persons-"))
            # At the latest when nobody needs them any more, or the process ends.
            self._gone = weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
            try:
                self._deal(file.chunks(columns), count, self._folder)
            except BaseException:
                self.close()
                raise
        self.n = sum(chunk_of(table, schema, raw=True).persons for table in self.tables())

    def __repr__(self) -> str:
        return f"Buckets(n={self.n}, values hidden)"

    @property
    def paths(self) -> list[str]:
        """The Parquet files of the buckets; none if the file is small, and its rows are in memory."""
        return [] if self._folder is None else sorted(map(str, self._folder.iterdir()))

    def tables(self) -> Iterator[Any]:
        """Yield tables that each have all rows of their persons."""
        yield from self._tables
        if self._folder is not None:
            import pyarrow.parquet as pq

            for path in self.paths:
                yield pq.read_table(path)

    def close(self) -> None:
        """Remove what is on the disk."""
        if self._folder is not None:
            self._gone()

    def _deal(self, tables: Iterator[Any], count: int, folder: Path) -> None:
        """Write the rows of each bucket to a file of its own."""
        person = len(self._schema.names)
        writers: dict[int, Any] = {}
        waiting: dict[int, list[Any]] = {}
        try:
            for table in tables:
                plain = _plain(table)
                bucket = bucket_of(plain.column(person), count, self._schema.person or "")
                order = np.argsort(bucket, kind="stable")
                sorted_table = plain.take(order)
                ends = np.searchsorted(bucket[order], np.arange(count + 1))
                for b in np.flatnonzero(np.diff(ends)).tolist():
                    own = waiting.setdefault(b, [])
                    own.append(sorted_table.slice(ends[b], ends[b + 1] - ends[b]))
                    if sum(part.num_rows for part in own) >= ROWS_AT_ONCE:
                        _write(writers, waiting, b, folder)
            for b in list(waiting):
                _write(writers, waiting, b, folder)
        except (TrigmechError, MemoryError):
            raise
        except OSError as problem:
            raise InputError(f"cannot write the rows to the folder for temporary files, which TMPDIR names: "
                             f"{problem.strerror or 'the system failed'}") from None
        finally:
            for writer in writers.values():
                writer.close()


def bucket_of(persons: Any, count: int, name: str) -> NDArray[np.int64]:
    """Return the bucket (n,) of each row by a hash of its person, of a pyarrow column; the same in every run."""
    encoded = persons.combine_chunks().dictionary_encode()
    if hasattr(encoded, "combine_chunks"):
        encoded = encoded.combine_chunks()
    if encoded.indices.null_count:
        raise InputError(f"column {name!r}, which says whose each row is, has missing values")
    texts = (str(value).encode("utf-8", "surrogatepass") for value in encoded.dictionary.to_pylist())
    found = np.array([zlib.crc32(text) % count for text in texts], dtype=np.int64)
    return found[encoded.indices.to_numpy(zero_copy_only=False)]


def _plain(table: Any) -> Any:
    """Return a pyarrow table whose texts are texts: dictionaries of parts differ."""
    import pyarrow as pa

    for j, each in enumerate(table.schema):
        if pa.types.is_dictionary(each.type):
            table = table.set_column(j, each.name, table.column(j).cast(each.type.value_type))
    return table


def _write(writers: dict[int, Any], waiting: dict[int, list[Any]], bucket: int, folder: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.concat_tables(waiting.pop(bucket))
    if bucket not in writers:
        writers[bucket] = pq.ParquetWriter(folder / f"{bucket:04}.parquet", table.schema, compression="lz4")
    writers[bucket].write_table(table)
