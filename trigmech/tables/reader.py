"""PRIVATE. Tables in files, CSV and Parquet, read in chunks of rows with the types that a schema gives.

No type is guessed from the cells. Memory does not grow with the rows. The messages of the libraries beneath quote
cells, so they are not passed on: an error names the file, the column and the rule.
"""

import mmap
import os
import shutil
import sys
import tempfile
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

from trigmech._optional import need
from trigmech._validate import lacks
from trigmech.errors import InputError
from trigmech.tables.column_types import ColumnsOfFile
from trigmech.tables.csv_cells import trimmed
from trigmech.tables.csv_text import CsvText
from trigmech.tables.writer import (
    COMPRESSIONS,
    MAX_ROWS,
    MISSING,
    PARQUET,
    USUAL,
    WORKBOOK,
    WORKBOOKS,
    check_options,
    suffixes,
    usual_delimiter,
    write_table,
)

__all__ = ["TableFile", "write_table"]

MAGIC = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd", b"BZh": "bz2", b"PAR1": "parquet"}
# Encoded, a chunk has about as many numbers as this: 64 MiB.
MAX_NUMBERS = 2**23


class TableFile:
    """A table in a file.

    Parameters
    ----------
    path : path or "-"
        A Parquet file (.parquet, .pq), or else a CSV file, which may be compressed (.gz, .zst, .bz2). "-" is standard
        input, which, like any pipe, is copied to a temporary file without a name; its first bytes show its format.
    delimiter : str, optional
        One character between the cells of CSV; by default a tab in files called .tsv or .tab, and a comma in others. A
        first line such as "sep=;", which spreadsheets write, must agree with it and does not count as a row; in a file
        without a header, where it could be a row, it is refused.
    decimal : {".", ","}
        The decimal sign of CSV's numbers. Cells with signs between thousands, currencies or percents are not numbers.
    encoding : str
        The encoding of a CSV's text by its name in Python, such as "cp1252" or "utf-16". A byte order mark is ignored.
    date_format : str, optional
        The form of dates and times in CSV, for :meth:`datetime.datetime.strptime`, such as "%d.%m.%Y". By default they
        are in ISO form; the program never guesses which number is the day.
    header : bool
        Whether the first row of CSV holds the names. If not, the columns are the schema's, in its order.
    missing : collection of str
        Cells of CSV that count as missing, with or without quotes. A cell that is also a column's category counts as
        that category. White space around cells, also Unicode's, does not count.

    Attributes
    ----------
    names : tuple of str
        The columns' names; "column1" and so on if there is no header.

    Raises
    ------
    InputError
        If an option breaks a rule, or the file cannot be opened, is empty, damaged, in another encoding or a workbook,
        or has a name twice.

    Notes
    -----
    Privacy: n is public, so it must not depend on the content of the cells. Therefore no row is ignored. In a CSV file
    of one column an empty line is a row whose cell is missing, as most programs write it. The last line must end with a
    line break, which does not begin another row; without it, an empty last cell would not count as a row. The lines
    must not end in two ways if one of them is a carriage return alone, because some programs write a cell that contains
    one without quotes. In a file of several columns a row has its delimiters, so an empty line is not a row: before the
    header and after the last row, where editors leave it, it is ignored. Between rows it is refused, because it could
    mean a person without any known value.
    """

    def __init__(self, path: str | os.PathLike[str], *, delimiter: str | None = None, decimal: str = ".",
                 encoding: str = "utf-8", date_format: str | None = None, header: bool = True,
                 missing: Collection[str] = MISSING) -> None:
        need("tables", "reading a table's file")
        delimiter = usual_delimiter(path) if delimiter is None else delimiter
        self._options = {"delimiter": delimiter, "decimal": decimal, "encoding": encoding, "date_format": date_format,
                         "header": header, "missing": list(missing)}
        check_options(self._options)
        self._path = Path(path)
        self._missing = missing
        self._copy: mmap.mmap | None = None
        self._csv: CsvText | None = None
        self._title = "standard input" if str(path) == "-" else repr(str(path))
        self.names: tuple[str, ...] = ()
        with self._row_free():
            self._open_file()
        self._begin()

    def __repr__(self) -> str:
        return f"TableFile({self._title}, values hidden)"

    @property
    def options(self) -> dict[str, Any]:
        """The options that the file is read with, which differ from the defaults for a file called .csv."""
        return {option: value for option, value in self._options.items() if value != USUAL[option]
                or (option == "delimiter" and value != usual_delimiter(self._path))}

    @property
    def separators(self) -> str:
        """A sentence of advice if a header holds a character that often separates cells; else empty."""
        return "" if self._csv is None or not self._csv.header else self._csv.separators

    @cached_property
    def n(self) -> int:
        """The number of rows; CSV is read once for it.

        Raises
        ------
        InputError
            If there are none, or rows of CSV have different numbers of cells or empty lines between them, or a file of
            one column does not end with a line break, or has carriage returns alone among line breaks of another kind.
        """
        with self._row_free():
            n = int(self._parquet().metadata.num_rows) if self._csv is None else self._csv.count_rows()
        if n == 0:
            raise self._error("it has no rows")
        return n

    @cached_property
    def groups(self) -> tuple[int, ...] | None:
        """The number of rows of each row group of a Parquet file, of those in a row; None for CSV."""
        if self._csv is not None:
            return None
        with self._row_free():
            found = self._parquet().metadata
            return tuple(found.row_group(i).num_rows for i in range(found.num_row_groups))

    @cached_property
    def types(self) -> dict[str, Any]:
        """The types of Arrow of a Parquet file's columns, by name; CSV has none."""
        if self._csv is not None:
            return {}
        with self._row_free():
            return {each.name: each.type for each in self._parquet().schema_arrow}

    @property
    def path(self) -> Path | None:
        """Where the file is; None if it is a copy of an input that can be read only once."""
        return self._path if self._copy is None else None

    def chunks(self, schema: ColumnsOfFile, rows: int | None = None,
               groups: Sequence[int] | None = None) -> Iterator[Any]:
        """Yield the schema's columns as pyarrow tables of consecutive rows.

        Parameters
        ----------
        schema : Schema
            Or another object with these attributes.
        rows : int, optional
            Rows of each table but the last; by default as many as make 64 MiB when encoded, at most 2^18.
        groups : sequence of int, optional
            Read only these row groups of a Parquet file.

        Yields
        ------
        pyarrow.Table, private
            For :meth:`trigmech.Schema.to_cube`. From CSV, numbers are floats, times are times, and categories are text.

        Raises
        ------
        InputError
            If a column is absent, a cell is no number or time and its column is one of these, the text is in another
            encoding, or the file is damaged, gone, or has changed since its rows were counted.
        """
        if rows is None:
            rows = rows_at_once(schema)
        n = self.n if groups is None or self.groups is None else sum(self.groups[i] for i in groups)
        seen = 0
        for table in _of_equal_length(self._tables(schema, rows, groups), rows):
            seen += table.num_rows
            if seen > n:
                break
            yield table
        if seen != n:
            raise self._error("it changed while it was read")

    def first_rows(self, count: int) -> Any:
        """Return the first rows as a pyarrow table; private. From CSV, all cells are text as it stands."""
        import pyarrow as pa

        with self._row_free():
            batches = (self._parquet().iter_batches(batch_size=count, use_threads=False) if self._csv is None
                       else self._csv.batches(range(len(self.names))))
            for batch in batches:
                table = pa.Table.from_batches([batch]).slice(0, count).rename_columns(list(self.names))
                return table if self._csv is None else pa.table({
                    name: trimmed(table[name], self._missing) for name in self.names})
        raise self._error("it has no rows")

    def first_present(self, name: str, count: int, within: int) -> Any:
        """Return a column's first cells that are not missing, of so many first rows, as a pyarrow table; private.

        None if all are missing. From CSV, cells are text as it stands.
        """
        import pyarrow as pa

        with self._row_free():
            batches = (self._parquet().iter_batches(columns=[name], use_threads=False) if self._csv is None
                       else self._csv.batches([self.names.index(name)]))
            seen = 0
            for batch in batches:
                cells = batch.column(0).slice(0, within - seen)
                cells = (cells if self._csv is None else trimmed(cells, self._missing)).drop_null()
                seen += batch.num_rows
                if len(cells):
                    return pa.table({name: cells.slice(0, count)})
                if seen >= within:
                    break
        return None

    # Opening

    def _begin(self) -> None:
        self._read_names()
        if len(set(self.names)) < len(self.names):
            # The names are not quoted: where a header is missing they are a record.
            raise self._error("two columns have the same name")

    def _read_names(self) -> None:
        with self._row_free():
            self.names = tuple(self._parquet().schema_arrow.names if self._csv is None else self._csv.read_names())

    def _open_file(self) -> None:
        """Find out the file's type and how to read it; copy it first if it cannot be read twice."""
        if self._title != "standard input":
            if self._path.is_dir():
                raise self._error("it is a folder; for a table in several Parquet files give a pattern such as "
                                  f"{str(self._path / '*.parquet')!r}")
            if not self._path.exists():
                raise self._error("it is a link to a file that does not exist" if self._path.is_symlink()
                                  else "there is no such file")
            if suffixes(self._path)[0] in WORKBOOKS:
                raise self._error(WORKBOOK)
        if self._title == "standard input" or not self._path.is_file():
            self._copy = self._copied()
            kinds = [kind for magic, kind in MAGIC.items() if self._copy[:len(magic)] == magic]
            is_parquet, self._compression = kinds == ["parquet"], kinds[0] if kinds else None
        else:
            suffix = self._path.suffix.lower()
            is_parquet, self._compression = suffix in PARQUET, COMPRESSIONS.get(suffix)
            if self._path.stat().st_size == 0:
                raise self._error("it is empty")
        self._csv = None if is_parquet else CsvText(self._stream, self._options, self._error)

    def _copied(self) -> mmap.mmap:
        with tempfile.TemporaryFile() as file:
            if self._title == "standard input":
                if sys.stdin is None:
                    raise self._error("it is closed")
                shutil.copyfileobj(sys.stdin.buffer, file)
            else:
                with self._path.open("rb") as source:
                    shutil.copyfileobj(source, file)
            file.flush()
            if file.tell() == 0:
                raise self._error("it is empty")
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)

    def _source(self) -> Any:
        import pyarrow as pa

        if self._copy is not None:
            return pa.BufferReader(pa.py_buffer(self._copy))
        return pa.OSFile(str(self._path), "rb")

    def _parquet(self, text: Iterable[str] = ()) -> Any:
        """Open a Parquet file; columns of text come as dictionaries, which are smaller."""
        import pyarrow.parquet as pq

        # Without buffers ahead, memory holds pages and not whole groups of rows.
        return pq.ParquetFile(self._source(), pre_buffer=False, buffer_size=2**20, read_dictionary=list(text))

    def _stream(self) -> Any:
        import pyarrow as pa

        source = self._source()
        return pa.CompressedInputStream(source, self._compression) if self._compression else source

    # Reading

    def _tables(self, schema: ColumnsOfFile, rows: int, groups: Sequence[int] | None) -> Iterator[Any]:
        import pyarrow as pa

        names = list(schema.names)
        if self._csv is not None and not self._csv.header:
            if len(names) != len(self.names):
                raise self._error(f"it has {len(self.names)} columns and no header, and the schema has {len(names)}; "
                                  "without a header both must have the same number of columns (if the cells are "
                                  "separated by another character, give --delimiter, in Python delimiter=)")
            places = list(range(len(names)))
        else:
            place = {name: j for j, name in enumerate(self.names)}
            # A header is read without the white space around its names.
            wanted = names if self._csv is None else [name.strip() for name in names]
            if len(set(wanted)) < len(wanted):
                raise self._error("the schema has two names that differ only by white space at an end, which a CSV "
                                  "file does not keep; rename one of them in the table and in the schema")
            if rule := lacks(wanted, place):
                more = "" if self._csv is None else "; " + (self.separators or (
                    "if its first row does not hold names, write header = false below [file] in the schema file, or "
                    "give header=False"))
                raise self._error(f"it {rule}{more}")
            places = [place[name] for name in wanted]
        with self._row_free():
            if self._csv is None:
                text = [column.name for column in schema.columns if column.is_text]
                for batch in self._parquet(text).iter_batches(batch_size=rows, row_groups=groups, columns=names,
                                                              use_threads=False):
                    yield pa.Table.from_batches([batch]).select(names)
            else:
                for batch in self._csv.batches(places):
                    yield pa.table([self._csv.typed(column, cells) for column, cells
                                    in zip(schema.columns, batch.columns, strict=True)], names=names)

    # Errors

    def _error(self, rule: str) -> InputError:
        return InputError(f"cannot read {self._title}: {rule}")

    @contextmanager
    def _row_free(self) -> Iterator[None]:
        """Turn an error of a library, which could quote a row, into one that does not."""
        try:
            yield
        except (InputError, MemoryError):
            raise
        except PermissionError:
            raise self._error("you do not have permission to read it") from None
        except FileNotFoundError:
            raise self._error("it was deleted or renamed while it was read") from None
        except Exception as problem:
            if isinstance(problem, OSError) and problem.errno:
                # The system's words for a number quote nothing; errors of pyarrow's own have none.
                raise self._error(os.strerror(problem.errno)) from None
            raise self._error(self._reason(problem)) from None

    def _reason(self, problem: Exception) -> str:
        of_text = self._csv and self._csv.reason(problem)
        if of_text:
            return of_text
        if self._csv is None:
            return "it is not a Parquet file, or is damaged, or uses a feature of Parquet that cannot be read"
        if self._compression:
            return f"it is not a complete {self._compression} file"
        return "it is not a CSV file that can be read"


def rows_at_once(schema: ColumnsOfFile) -> int:
    """Return the rows of a chunk: as many as make 64 MiB when encoded, at most 2^18."""
    return max(1, min(MAX_ROWS, MAX_NUMBERS // schema.width))


def _of_equal_length(tables: Iterable[Any], rows: int) -> Iterator[Any]:
    """Yield the rows of tables in tables of the same length, so that it does not depend on the file's format."""
    import pyarrow as pa

    waiting: list[Any] = []
    count = 0
    for table in tables:
        waiting.append(table)
        count += table.num_rows
        if count >= rows:
            whole = pa.concat_tables(waiting)
            full = count - count % rows
            for start in range(0, full, rows):
                yield whole.slice(start, rows)
            count -= full
            waiting = [whole.slice(full)]
    if count:
        yield pa.concat_tables(waiting)
