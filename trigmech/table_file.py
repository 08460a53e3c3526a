"""PRIVATE. Tables in files, CSV and Parquet, read in chunks of rows with the types that a schema gives.

No type is guessed from the cells. Memory does not grow with the rows. The messages of the libraries beneath quote
cells, so none is passed on: an error names the file, the column and the rule.
"""

import csv
import io
import mmap
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

from trigmech.column import Column
from trigmech.errors import InputError
from trigmech.file_formats import COMPRESSIONS, MAX_ROWS, MISSING, PARQUET, check_options, write_table
from trigmech.schema import Schema

__all__ = ["TableFile", "write_table"]

MAGIC = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd", b"BZh": "bz2", b"PAR1": "parquet"}
# Encoded, a chunk has about as many numbers as this: 64 MiB.
MAX_NUMBERS = 2**23
# Bytes of CSV that are parsed together, at least and for each column; no row may be longer. The reader holds about 32
# blocks at once.
BLOCK = 2**20
BLOCK_OF_A_COLUMN = 2**7
# How many characters at the end of a text are looked at.
END = 2**16
WHITE_SPACE = " \t\n\v\f\r"


class TableFile:
    """A table in a file.

    Parameters
    ----------
    path : path or "-"
        A Parquet file (.parquet, .pq), or else a CSV file in UTF-8, which may be compressed (.gz, .zst, .bz2). "-" is
        standard input, which, like any pipe, is copied to a temporary file without a name; what it is shows from its
        first bytes.
    delimiter : str
        One character between the cells of CSV.
    header : bool
        Whether the first row of CSV holds the names. If not, the columns are the schema's, in its order.
    missing : collection of str
        Cells of CSV that count as missing, in quotes or not. One that is among a column's categories counts as that
        category. White space around cells is taken off.

    Attributes
    ----------
    names : tuple of str
        Of the columns; "column1" and so on if there is no header.

    Raises
    ------
    InputError
        If an option breaks a rule, or the file cannot be opened, is empty, not UTF-8, damaged, or has a name twice.

    Notes
    -----
    Privacy: n is public, so it must not depend on what is in the cells. Therefore no row is passed over. In a CSV file
    of one column an empty line is a row whose cell is missing, as most programs write it; the end of the last line
    begins no further row. In one of several columns a row has its delimiters, and an empty line is none: before the
    header and after the last row, where editors leave it, it says nothing, and between rows it is refused, because
    nobody can tell whether it stands for a person of whom nothing is known.
    """

    def __init__(self, path: str | os.PathLike[str], *, delimiter: str = ",", header: bool = True,
                 missing: Collection[str] = MISSING) -> None:
        check_options({"delimiter": delimiter, "header": header, "missing": list(missing)})
        self._path = Path(path)
        self._delimiter, self._header, self._missing = delimiter, header, tuple(missing)
        self._copy: mmap.mmap | None = None
        self._title = "standard input" if str(path) == "-" else repr(str(path))
        with self._row_free():
            self._open_file()
            names = self._parquet().schema_arrow.names if self._is_parquet else self._csv_names()
        self.names: tuple[str, ...] = tuple(names)
        if len(set(self.names)) < len(self.names):
            # The names are not quoted: where a header is missing they are a record.
            raise self._error("two columns have the same name")

    def __repr__(self) -> str:
        return f"TableFile({self._title}, values hidden)"

    @property
    def options(self) -> dict[str, Any]:
        """The options that the file is read with, which differ from the defaults."""
        given = {"delimiter": self._delimiter, "header": self._header, "missing": list(self._missing)}
        usual = {"delimiter": ",", "header": True, "missing": list(MISSING)}
        return {option: value for option, value in given.items() if value != usual[option]}

    @cached_property
    def n(self) -> int:
        """The number of rows; CSV is read once for it.

        Raises
        ------
        InputError
            If there are none, or rows of CSV have different numbers of cells or empty lines between them.
        """
        with self._row_free():
            n = int(self._parquet().metadata.num_rows) if self._is_parquet else self._csv_rows()
        if n == 0:
            raise self._error("it has no rows")
        return n

    def chunks(self, schema: Schema, rows: int | None = None) -> Iterator[Any]:
        """Yield the schema's columns as pyarrow tables of consecutive rows.

        Parameters
        ----------
        schema : Schema
        rows : int, optional
            Rows of each table but the last; by default as many as make 64 MiB when encoded, at most 2^18.

        Yields
        ------
        pyarrow.Table, private
            For :meth:`trigmech.Schema.to_cube`. From CSV, numbers are floats and everything else is text.

        Raises
        ------
        InputError
            If a column is absent, a cell of a column of numbers is none, the text is not UTF-8, or the file is damaged
            or has changed since its rows were counted.
        """
        if rows is None:
            rows = max(1, min(MAX_ROWS, MAX_NUMBERS // schema.layout.d))
        seen = 0
        for table in _of_equal_length(self._tables(schema, rows), rows):
            seen += table.num_rows
            if seen > self.n:
                break
            yield table
        if seen != self.n:
            raise self._error("it changed while it was read")

    def first_rows(self, count: int) -> Any:
        """Return the first rows as a pyarrow table; private. From CSV, all cells are text."""
        import pyarrow as pa

        with self._row_free():
            if self._is_parquet:
                batches = self._parquet().iter_batches(batch_size=count, use_threads=False)
            else:
                batches = self._csv(range(len(self.names)))
            for batch in batches:
                table = pa.Table.from_batches([batch]).slice(0, count).rename_columns(list(self.names))
                return table if self._is_parquet else pa.table({
                    name: self._cells(table[name], ()) for name in self.names})
        raise self._error("it has no rows")

    # Opening

    def _open_file(self) -> None:
        """Find out what the file is; copy it first if it is none that can be read twice."""
        if self._title != "standard input":
            if self._path.is_dir():
                raise self._error("it is a folder")
            if not self._path.exists():
                raise self._error("there is no such file")
        if self._title == "standard input" or not self._path.is_file():
            self._copy = self._copied()
            kinds = [kind for magic, kind in MAGIC.items() if self._copy[:len(magic)] == magic]
            self._is_parquet, self._compression = kinds == ["parquet"], kinds[0] if kinds else None
            return
        suffix = self._path.suffix.lower()
        self._is_parquet, self._compression = suffix in PARQUET, COMPRESSIONS.get(suffix)
        if self._path.stat().st_size == 0:
            raise self._error("it is empty")

    def _copied(self) -> mmap.mmap:
        with tempfile.TemporaryFile() as file:
            if self._title == "standard input":
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

    def _csv_names(self) -> list[str]:
        start = self._stream().read(4096)
        if not start.strip():
            raise self._error("it is empty")
        if b"\0" in start or start.startswith((b"\xff\xfe", b"\xfe\xff")):
            raise self._error("its text is not UTF-8; convert it first")
        self._skip = 0
        with io.TextIOWrapper(io.BufferedReader(self._stream()), encoding="utf-8-sig", newline="") as text:
            for row in csv.reader(text, delimiter=self._delimiter):
                self._skip += 1
                if row:
                    names = [name.strip(WHITE_SPACE) for name in row]
                    break
        if not self._header:
            self._skip = 0
            names = [f"column{j + 1}" for j in range(len(names))]
        return names

    @property
    def _block(self) -> int:
        return max(BLOCK, BLOCK_OF_A_COLUMN * len(self.names))

    def _csv_rows(self) -> int:
        import pyarrow.compute as pc

        n, cell, gaps = 0, "", False
        for batch in self._csv(sorted({0, len(self.names) - 1}), empty_lines=True):
            if batch.num_rows:
                n += batch.num_rows
                first, last = batch.column(0), batch.column(batch.num_columns - 1)
                cell = last[-1].as_py()
                gaps = gaps or pc.any(pc.and_(pc.equal(first, ""), pc.equal(last, ""))).as_py()
        # An open quote makes one cell of all rows after it, and the end of the file passes for its end.
        if ("\n" in cell or "\r" in cell) and not self._end().rstrip().endswith('"'):
            raise self._error("a quote is not closed")
        return n - self._empty_lines(n) if gaps and len(self.names) > 1 else n

    def _empty_lines(self, lines: int) -> int:
        """Return how many of the lines of several columns are empty, if all of them follow the last row."""
        found = lines - sum(batch.num_rows for batch in self._csv([0], empty_lines=False))
        end = self._end()
        line_ends = re.findall(r"\r\n|\r|\n", end[len(end.rstrip("\r\n")):])
        if found > max(0, len(line_ends) - 1):
            raise self._error("there is an empty line between its rows (or before them, without a header); it could "
                              "stand for a row of which everything is missing: remove it, or write its delimiters")
        return found

    def _end(self) -> str:
        """Return the last characters of the text; private."""
        end = ""
        with io.TextIOWrapper(io.BufferedReader(self._stream()), encoding="utf-8", newline="") as text:
            while block := text.read(2**20):
                end = (end + block)[-END:]
        return end

    # Reading

    def _csv(self, places: Iterable[int], empty_lines: bool | None = None) -> Any:
        """Open the CSV file; the columns at these places come as text, as it stands.

        An empty line is a row of empty cells, or passed over; by default it is a row in files of one column.
        """
        import pyarrow as pa
        import pyarrow.csv

        wanted, names = [str(j) for j in places], [str(j) for j in range(len(self.names))]
        if empty_lines is None:
            empty_lines = len(names) == 1
        return pa.csv.open_csv(
            self._stream(),
            read_options=pa.csv.ReadOptions(block_size=self._block, column_names=names,
                                            skip_rows_after_names=self._skip),
            parse_options=pa.csv.ParseOptions(delimiter=self._delimiter, newlines_in_values=True,
                                              ignore_empty_lines=not empty_lines),
            convert_options=pa.csv.ConvertOptions(include_columns=wanted, strings_can_be_null=False,
                                                  column_types=dict.fromkeys(wanted, pa.string())))

    def _tables(self, schema: Schema, rows: int) -> Iterator[Any]:
        """Yield tables with the schema's columns, of any lengths."""
        import pyarrow as pa

        names = list(schema.names)
        if not self._is_parquet and not self._header:
            if len(names) != len(self.names):
                raise self._error(f"it has {len(self.names)} columns and no header, and the schema has {len(names)}; "
                                  "without names they must be as many")
            places = list(range(len(names)))
        else:
            place = {name: j for j, name in enumerate(self.names)}
            absent = [name for name in names if name not in place]
            if absent:
                more = "" if self._is_parquet else ("; if its first row holds no names, write header = false below "
                                                    "[file] in the schema file, or give header=False")
                raise self._error(f"it lacks the column(s) {', '.join(map(repr, absent))} that the schema names{more}")
            places = [place[name] for name in names]
        with self._row_free():
            if self._is_parquet:
                text = [column.name for column in schema.columns if column.is_text]
                for batch in self._parquet(text).iter_batches(batch_size=rows, columns=names, use_threads=False):
                    yield pa.Table.from_batches([batch]).select(names)
            else:
                for batch in self._csv(places):
                    yield pa.table([self._typed(column, cells) for column, cells
                                    in zip(schema.columns, batch.columns, strict=True)], names=names)

    def _cells(self, cells: Any, categories: Iterable[Any]) -> Any:
        """Return the cells of a column without white space around them, null where missing."""
        import pyarrow as pa
        import pyarrow.compute as pc

        missing = [mark for mark in self._missing if mark not in set(categories)]
        cells = pc.ascii_trim_whitespace(cells)
        absent = pc.is_in(cells, value_set=pa.array(missing, pa.string()))
        return pc.if_else(absent, pa.scalar(None, pa.string()), cells)

    def _typed(self, column: Column, cells: Any) -> Any:
        """Return the cells of a column of CSV as floats, or as text if it has categories or times."""
        import pyarrow as pa

        cells = self._cells(cells, column.categories or ())
        if column.categories is not None or column.unit:
            return cells
        try:
            return cells.cast(pa.float64())
        except pa.ArrowException:
            pass
        try:
            return cells.cast(pa.bool_()).cast(pa.int8()).cast(pa.float64())
        except pa.ArrowException:
            raise self._error(f"column {column.name!r} holds a cell that is no number and does not count as "
                              "missing") from None

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
            raise self._error("there is no permission") from None
        except Exception as problem:
            raise self._error(self._reason(problem)) from None

    def _reason(self, problem: Exception) -> str:
        text = str(problem)
        if isinstance(problem, csv.Error):
            return "its first row cannot be split into cells; a quote may be open"
        if text.startswith("CSV parse error: Expected"):
            return "its rows have different numbers of cells, or a quote is not closed"
        if text.startswith("straddling object") or "block size" in text:
            return f"a row is longer than {self._block} bytes, or a quote is not closed"
        if isinstance(problem, UnicodeDecodeError) or "invalid UTF8" in text:
            return "its text is not UTF-8; convert it first"
        if self._is_parquet:
            return "it is no Parquet file, or a damaged one, or one of a sort that cannot be read"
        if self._compression:
            return f"it is no whole {self._compression} file"
        return "it is no CSV file that can be read"


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
