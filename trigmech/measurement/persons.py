"""PRIVATE. Group the rows of a table by person; a large file is grouped on disk.

A file need not be sorted. A hash of the person decides to which bucket a row goes. So all rows of a person are in one
bucket, and each bucket is small enough for memory. A small file has one bucket, which stays in memory. The buckets of a
large file are Parquet files in a folder that only its owner can read, in the place for temporary files (``TMPDIR``).
The folder is removed when the run ends. If the process is killed, its folder stays until the next run makes such a
folder there and removes the old one. A living process holds a lock on its folder, so its folder is kept.
"""

import datetime
import math
import os
import re
import shutil
import tempfile
import weakref
import zlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from decimal import Decimal
from numbers import Real
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from trigmech.errors import InputError, TrigmechError
from trigmech.measurement.sums import Chunk
from trigmech.schema.schema import Schema
from trigmech.tables.frames import Columns, column_names
from trigmech.tables.parquet_files import ParquetFiles, plain_type
from trigmech.tables.reader import TableFile
from trigmech.tables.scalars import is_missing

# A bucket of 2^22 numbers has 32 MiB, and needs several times as much while it is read. Each bucket is an open file.
NUMBERS_IN_A_BUCKET, MOST_BUCKETS = 2**22, 512
FOLDER, LOCK = "trigmech-persons-", "lock"
ROWS_AT_ONCE = 2**14
# A text that is a whole number as programs write it, also as a float. Not "01" or "+1": these can be other identifiers.
WHOLE = re.compile(r"-?(?:0|[1-9][0-9]{0,99})(?:\.0*)?")


class PersonColumn(NamedTuple):
    """The column that identifies the person of a row, read from a file as unchanged text."""

    name: str
    is_text: bool = True
    unit: str | None = None
    categories: tuple[str, ...] = ()


class Reading(NamedTuple):
    """The columns to read from a file, see :class:`trigmech.tables.column_types.ColumnsOfFile`; beside them a person's.
    """

    names: tuple[str, ...] = ()
    columns: tuple[Any, ...] = ()
    width: int = 0
    person: str | None = None


def read_by(schema: Schema | Reading) -> Any:
    """Return the columns to read from a file: those of the schema, and the column of persons if there is one."""
    person = schema.person
    return schema if person is None else Reading((*schema.names, person), (*schema.columns, PersonColumn(person)),
                                                 schema.width + 1)


def chunk_of(table: Any, schema: Schema, raw: bool = False) -> Chunk:
    """Return a table with all rows of its persons as a chunk, which the schema maps to points unless it is ``raw``.

    Raises an InputError if the table lacks the column of persons, or this column has a missing value.
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
        raise InputError(f"the schema has a column of persons ({person!r}), so the table must have column names: give "
                         "a dataframe or a file")
    values, codes = Columns(table, (person,)).distinct(0)
    # Several of the distinct values can name the same person.
    place: dict[Any, int] = {}
    try:
        absent = np.array([is_nobody(value) for value in values] + [True])
        numbers = np.array([-1 if nobody else place.setdefault(identity(value), len(place))
                            for value, nobody in zip(values, absent[:-1], strict=True)], dtype=np.int64)
    except Exception:  # Values of other libraries' classes can raise any error, and its text may quote the value.
        raise InputError(f"column {person!r}, which identifies persons, must hold texts or numbers") from None
    if absent[codes].any():
        raise InputError(f"column {person!r}, which identifies persons, must not have missing values")
    return numbers[codes]


def identity(value: Any) -> Any:
    """Return a hashable key that is the same for all values that name the same person.

    White space around text is ignored, as it is in categories. Numbers and times are compared by value: 1 equals 1.0,
    0.0 equals -0.0, and an instant is the same in two time zones. That holds for whole numbers in text, too, because a
    CSV file has no other numbers: "1.0" equals 1. Text that no number is written as, such as "01", is compared as text.
    """
    if isinstance(value, str):
        text = value.strip()
        return int(text.partition(".")[0]) if WHOLE.fullmatch(text) else text
    if type(value) is int:
        return value
    if isinstance(value, Real | Decimal | np.number | np.bool_) and math.isfinite(number := float(cast(Any, value))):
        if number.is_integer() and number == value:
            return int(number)
        return number if number == value else Decimal(str(value)).normalize()
    if isinstance(value, datetime.datetime) and value.tzinfo is not None:
        return value.astimezone(datetime.UTC)
    return value


def hashes(table: Any, person: str) -> NDArray[np.int64]:
    """Return a number (n,) for each row, equal for all rows of a person and in every process; private.

    Different persons can have the same number. Rows without a person, which :func:`chunk_of` refuses, have number 0.
    """
    values, codes = Columns(table, (person,)).distinct(0)
    found = [0 if is_nobody(value) else zlib.crc32(str(identity(value)).encode("utf-8", "surrogatepass"))
             for value in values]
    return np.array([*found, 0], dtype=np.int64)[codes]


def free_name(names: Iterable[str]) -> str:
    """Return a name that no column has."""
    name = "person"
    while name in names:
        name += "_"
    return name


def is_nobody(value: Any) -> bool:
    """Return whether a value names no person: it is missing, or it is empty text, which means missing in files."""
    return is_missing(value) or (isinstance(value, str) and not value.strip())


class Buckets:
    """The rows of a file, grouped by person, of whom there are ``n``; the schema names the column of persons."""

    def __init__(self, file: TableFile | ParquetFiles, schema: Schema | Reading) -> None:
        self._person = str(schema.person)
        columns = read_by(schema)
        if isinstance(file, ParquetFiles):
            file.check(columns, alike=True)
        count = max(1, min(-(-file.n * columns.width // NUMBERS_IN_A_BUCKET), MOST_BUCKETS))
        self._tables: list[Any] = []
        self._folder: Path | None = None
        if count == 1:
            self._tables = [_together([plain(table) for table in file.chunks(columns)])]
        else:
            try:
                self._folder, lock = _new_folder()
            except OSError as problem:
                raise _unwritable(problem) from None
            # Removes the folder at the latest when this object is collected or the process ends.
            self._gone = weakref.finalize(self, _remove, self._folder, lock)
            try:
                self._deal(file.chunks(columns), count, self._folder)
            except BaseException:
                self.close()
                raise
        self.n = sum(int(_codes(table, self._person).max()) + 1 for table in self.tables())

    def __repr__(self) -> str:
        return f"Buckets(n={self.n}, values hidden)"

    @property
    def paths(self) -> list[str]:
        """The Parquet files of the buckets. The list is empty for a small file, whose rows are in memory."""
        return [] if self._folder is None else sorted(map(str, self._folder.glob("*.parquet")))

    def tables(self) -> Iterator[Any]:
        """Yield tables. Each holds all rows of its persons."""
        yield from self._tables
        if self._folder is not None:
            import pyarrow.parquet as pq

            for path in self.paths:
                yield pq.read_table(path)

    def close(self) -> None:
        """Remove the files on the disk."""
        if self._folder is not None:
            self._gone()

    def _deal(self, tables: Iterator[Any], count: int, folder: Path) -> None:
        """Write the rows of each bucket to the bucket's own file."""
        writers: dict[int, Any] = {}
        waiting: dict[int, list[Any]] = {}
        try:
            for table in tables:
                texts = plain(table)
                bucket = hashes(texts, self._person) % count
                order = np.argsort(bucket, kind="stable")
                sorted_table = texts.take(order)
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
            raise _unwritable(problem) from None
        finally:
            for writer in writers.values():
                writer.close()


def plain(table: Any) -> Any:
    """Return a pyarrow table with one type for all texts, because the dictionaries of parts differ."""
    import pyarrow as pa

    values = [column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
              for column in table.columns]
    return pa.table([column.cast(plain_type(column.type)) for column in values], names=table.column_names)


def _together(tables: list[Any]) -> Any:
    """Return tables as one, or raise an InputError if a column has different types in them."""
    import pyarrow as pa

    try:
        return pa.concat_tables(tables)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        names = [each.name for each in tables[0].schema if any(
            other.schema.field(each.name).type != each.type for other in tables)]
        raise InputError(f"column(s) {', '.join(map(repr, names))} have different types in the files") from None


def _write(writers: dict[int, Any], waiting: dict[int, list[Any]], bucket: int, folder: Path) -> None:
    import pyarrow.parquet as pq

    table = _together(waiting.pop(bucket))
    if bucket not in writers:
        writers[bucket] = pq.ParquetWriter(folder / f"{bucket:04}.parquet", table.schema, compression="lz4")
    elif writers[bucket].schema != table.schema:
        _together([table, writers[bucket].schema.empty_table()])
    writers[bucket].write_table(table)


def _unwritable(problem: OSError) -> InputError:
    return InputError("cannot write the rows to the folder for temporary files (see TMPDIR): "
                      f"{problem.strerror or 'the system failed'}")


def _new_folder() -> tuple[Path, int]:
    """Return a folder for private rows and the lock on it. Remove the folders that killed processes left behind."""
    import fcntl

    for left in Path(tempfile.gettempdir()).glob(f"{FOLDER}*"):
        # The folder of another user cannot be opened, and that of a living process cannot be locked.
        with suppress(OSError):
            lock = os.open(left / LOCK, os.O_RDWR)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(left, ignore_errors=True)
            finally:
                os.close(lock)
    while True:
        folder = Path(tempfile.mkdtemp(prefix=FOLDER))
        lock = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
        except OSError:
            _remove(folder, lock)
            raise
        # Another process may have locked the folder for an instant, and removed it as left behind.
        if folder.exists():
            return folder, lock
        os.close(lock)


def _remove(folder: Path, lock: int) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    os.close(lock)
