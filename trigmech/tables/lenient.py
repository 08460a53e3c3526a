"""PRIVATE. A reader that goes on after faults, to list all of them for the holder; never for a release.

:class:`trigmech.tables.reader.TableFile` refuses a table at the first cell that it cannot read. Here such cells are
left out, with their places and causes. All other cells mean the same as there, because the same functions read them.
"""

import codecs
import copy
import re
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trigmech.errors import InputError
from trigmech.tables.column_types import ColumnOfFile
from trigmech.tables.csv_cells import seconds_of_text, trimmed
from trigmech.tables.csv_text import CsvText
from trigmech.tables.reader import TableFile
from trigmech.tables.writer import SEPARATORS, check_options

Mask = NDArray[np.bool_]
Lines = NDArray[np.int64]

# Rows with another number of cells whose places are kept; with more of them the file is not read to its end.
MOST_RAGGED = 2**18
# Cells that Arrow reads as numbers, and :func:`trigmech.tables.csv_cells.floats_of` as booleans.
NUMBER = re.compile(r"[+-]?(([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?|inf(inity)?|nan(\([a-z0-9_]*\))?)|true|false",
                    re.IGNORECASE | re.ASCII)
# Causes of a cell that is no number or no date, in the order in which they are looked for.
MARKS = re.compile(r"[-–—.*#/\\_]+|#?n\.?/?a\.?n?|#?n/?a!?|nan|null|nil|none|missing|unknown|unspecified|void|empty|"
                   r"k\.? ?a\.?|<na>|\(null\)|#(value|ref|div/0|name|num)[!?]", re.IGNORECASE)
THOUSANDS = re.compile(r"[+-]?[0-9]{1,3}([ ,.'’\u00a0\u202f][0-9]{3})+([.,][0-9]+)?")
OTHER_SIGN = re.compile(r"[+-]?[0-9]*[.,][0-9]*(e[+-]?[0-9]+)?", re.IGNORECASE)
UNIT = re.compile(r"[^0-9+-]{0,4}\s?[+-]?[0-9][0-9.,' ]*\s?[^0-9]{0,12}|\([0-9.,]+\)")
ISO_DATE = re.compile(r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}([T ].*)?")
TIME_OF_DAY = re.compile(r"([01]?[0-9]|2[0-4])[:.][0-5][0-9]([:.][0-5][0-9]([.,][0-9]+)?)?( ?[ap]\.?m\.?)?",
                         re.IGNORECASE)
SOME_DATE = re.compile(r"[0-9]{1,4}([./ -])[0-9]{1,2}\1[0-9]{1,4}([T ,].*)?|[0-9]{1,2}[. -]+[^\W\d_]{3,9}.*|"
                       r"[^\W\d_]{3,9}\.? .*[0-9].*")


class RowsRead(NamedTuple):
    """Some consecutive rows.

    ``table`` is a pyarrow table (k rows) in which unreadable cells are null; ``bad`` tells by name and cause which
    cells these are, in masks (k,); ``lines`` (k,) is the line on which a row of CSV begins, or the number of a row of
    Parquet, from 1.
    """

    table: Any
    bad: dict[str, dict[str, Mask]]
    lines: Lines


@dataclass
class Ragged:
    """Rows with another number of cells: their numbers, among all rows from 1, and the line breaks within them."""

    rows: array = field(default_factory=lambda: array("q"))
    breaks: array = field(default_factory=lambda: array("q"))
    # Line breaks within rows that are not ragged: before each of the ragged ones so far, and in all so far.
    others: array = field(default_factory=lambda: array("q"))
    all_others: int = 0

    def __call__(self, number: int, text: str) -> bool:
        """Keep a row's place; False if there are too many of them."""
        self.rows.append(number)
        self.breaks.append(len(re.findall(r"\r\n|\r|\n", text.rstrip("\r\n"))))
        return len(self.rows) < MOST_RAGGED

    def numbers(self, kept: Lines) -> Lines:
        """Return the number among all rows of rows that are counted without the ragged ones."""
        rows = np.array(self.rows, dtype=np.int64)
        return kept + np.searchsorted(rows - np.arange(len(rows)), kept, side="right")

    def pass_rows(self, done: int, breaks: int, own: Lines) -> None:
        """Note how many breaks stand before ragged rows, when kept rows with their own breaks have been read."""
        self.all_others = breaks + int(own.sum())
        while len(self.others) < len(self.rows):
            before = self.rows[len(self.others)] - 1 - len(self.others)
            if before > done + len(own):
                return
            self.others.append(breaks + int(own[: before - done].sum()))

    def breaks_before(self, numbers: Lines) -> Lines:
        """Return how many line breaks the ragged rows before others have within."""
        rows = np.array(self.rows, dtype=np.int64)
        sums = np.concatenate([[0], np.cumsum(np.array(self.breaks, dtype=np.int64))])
        found: Lines = sums[np.searchsorted(rows, numbers)]
        return found


class View(NamedTuple):
    """Some columns of a file by their names in it; see :class:`trigmech.tables.column_types.ColumnsOfFile`."""

    names: tuple[str, ...]
    columns: Sequence[ColumnOfFile]

    @property
    def width(self) -> int:
        """Numbers of a row, several for each column: while they are looked at there are copies."""
        return 4 * len(self.columns)


class LenientFile(TableFile):
    """PRIVATE. A table in a file that can be read past its faults.

    Path and options are those of :class:`trigmech.tables.reader.TableFile`, and so are the errors; :meth:`begin` looks
    at the content. After :meth:`parts`, ``ragged`` has the rows of CSV with another number of cells than the first.
    """

    def __init__(self, path: Any, **options: Any) -> None:
        self.ragged = Ragged()
        self.empty_lines: Lines = np.empty(0, dtype=np.int64)
        super().__init__(path, **options)

    def __repr__(self) -> str:
        return f"LenientFile({self._title}, values hidden)"

    def _begin(self) -> None:
        """Nothing is read yet."""

    def begin(self, **changed: Any) -> None:
        """Read the names, with some options changed; they may have a name twice.

        An InputError is raised if an option breaks a rule, or the first row cannot be read.
        """
        self._options |= changed
        check_options(self._options)
        self.__dict__.pop("n", None)
        self.names = ()
        if self._csv is not None:
            self._csv = CsvText(self._stream, self._options, self._error)
        self._read_names()

    @property
    def encoding(self) -> str:
        return str(self._options["encoding"])

    @property
    def is_text(self) -> bool:
        return self._csv is not None

    @property
    def header(self) -> bool:
        """Whether its columns have names."""
        return self._csv is None or self._csv.header

    def undecodable(self) -> int | None:
        """Return the line of the first bytes of CSV that are not in its encoding; None if all are. Reads to there."""
        if self._csv is None:
            return None
        decoder, line = codecs.getincrementaldecoder(str(self._options["encoding"]))(), 1
        with self._row_free():
            stream = self._stream()
            while True:
                block, held = stream.read(2**20), len(decoder.getstate()[0])
                try:
                    text = decoder.decode(block, final=not block)
                except UnicodeError as problem:
                    # Its place counts from the first byte of a character that the block before left unfinished.
                    good = block[: max(getattr(problem, "start", 0) - held, 0)]
                    return line + decoder.decode(good).count("\n")
                if "\0" in text:
                    return line + text.partition("\0")[0].count("\n")
                if not block:
                    return None
                line += text.count("\n")

    def other_encodings(self) -> list[str]:
        """Return encodings that spreadsheets write and this file may have, the likeliest first."""
        with self._row_free():
            start = self._stream().read(4096)
        return ["utf-16"] if start[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) else (
            ["utf-16-le", "utf-16-be"] if b"\0" in start else ["cp1252", "latin-1"])

    def separated_by(self, sign: str) -> tuple[str, ...]:
        """Return the names that the first row would have with another delimiter, or () if it cannot be read."""
        other = copy.copy(self)
        other._options = dict(self._options)
        try:
            other.begin(delimiter=sign)
        except InputError:
            return ()
        return other.names

    @property
    def other_separators(self) -> list[str]:
        """Characters that often separate cells, but are not the delimiter or the decimal sign."""
        return [sign for sign in SEPARATORS if sign not in (self._options["delimiter"], self._options["decimal"])]

    def find_empty_lines(self) -> Lines:
        """Return the lines of a CSV's text that are empty and stand between others, from 1. Reads all of it."""
        found, line, open_quote, last = array("q"), 0, False, 0
        if self._csv is not None:
            with self._row_free(), self._csv.text() as text:
                for content in text:
                    line += 1
                    if not open_quote and not content.strip("\r\n"):
                        found.append(line)
                    else:
                        open_quote ^= content.count('"') % 2 == 1
                        last = line
        lines = np.array(found, dtype=np.int64)
        self.empty_lines = lines[(lines < last) & (lines > (0 if self._csv is None else self._csv.lines_before))]
        return self.empty_lines

    def parts(self, columns: Sequence[ColumnOfFile], places: Mapping[str, int]) -> Iterator[RowsRead]:
        """Yield some columns of the table under the names of a schema; ``places`` are theirs in the file, from 0.

        Raises an InputError if the file is damaged, or has changed, or its text is in another encoding.
        """
        if self._csv is not None:
            yield from self._parts_of_text(self._csv, columns, places)
            return
        view = View(tuple(self.names[places[column.name]] for column in columns), columns)
        done = 0
        for table in self.chunks(view):
            named = table.rename_columns([column.name for column in columns])
            yield RowsRead(named, {}, np.arange(done + 1, done + table.num_rows + 1))
            done += table.num_rows

    def _parts_of_text(self, text: CsvText, columns: Sequence[ColumnOfFile],
                       places: Mapping[str, int]) -> Iterator[RowsRead]:
        import pyarrow as pa

        self.ragged = Ragged()
        done, breaks = 0, 0
        with self._row_free():
            for batch in text.batches(range(len(self.names)), ragged=self.ragged):
                if not batch.num_rows:
                    continue
                numbers = self.ragged.numbers(np.arange(done + 1, done + batch.num_rows + 1))
                own = breaks_within(batch.columns)
                within = breaks + np.cumsum(own) - own
                self.ragged.pass_rows(done, breaks, own)
                done, breaks = done + batch.num_rows, breaks + int(own.sum())
                cells = {column.name: self._cells(text, column, batch.column(places[column.name]))
                         for column in columns}
                yield RowsRead(pa.table({name: held for name, (held, _) in cells.items()}),
                           {name: bad for name, (_, bad) in cells.items() if bad},
                           self._lines(numbers, within + self.ragged.breaks_before(numbers)))

    def lines_of_ragged(self, count: int) -> Lines:
        """Return the lines on which the first so many rows with another number of cells begin, after all parts."""
        rows = np.array(self.ragged.rows[:count], dtype=np.int64)
        others = [*self.ragged.others, *[self.ragged.all_others] * len(rows)]
        return self._lines(rows, self.ragged.breaks_before(rows) + np.array(others[: len(rows)], dtype=np.int64))

    def _lines(self, numbers: Lines, breaks: Lines) -> Lines:
        lines = numbers + breaks + (0 if self._csv is None else self._csv.lines_before)
        empty = self.empty_lines
        return lines + np.searchsorted(empty - np.arange(len(empty)), lines, side="right")

    def _cells(self, text: CsvText, column: ColumnOfFile, cells: Any) -> tuple[Any, dict[str, Mask]]:
        """Return cells as the reader has them, null where it refuses them, and where and why it does."""
        import pyarrow as pa
        import pyarrow.compute as pc

        try:
            return text.typed(column, cells), {}
        except InputError:
            coded = trimmed(cells, self._missing, column.categories or ()).dictionary_encode()
            causes = [self._cause(column, value) for value in coded.dictionary.to_pylist()]
            codes = coded.indices.fill_null(len(causes)).to_numpy(zero_copy_only=False)
            found = np.array([*causes, ""], dtype=object)[codes]
            readable = pc.if_else(pa.array(found == ""), cells, pa.scalar(None, pa.string()))
            return text.typed(column, readable), {cause: found == cause for cause in dict.fromkeys(causes) if cause}

    def _cause(self, column: ColumnOfFile, value: str) -> str:
        """Return why a cell cannot be read, "" if it can."""
        date_format, decimal = self._options["date_format"], self._options["decimal"]
        if column.unit:
            return cause_of_date(value, None if date_format is None else str(date_format))
        return cause_of_number(value, str(decimal))


def cause_of_number(text: str, decimal: str) -> str:
    """Return why a cell without white space around it is no number, or "" if it is one, as a reader takes it."""
    if not (decimal == "," and "." in text) and NUMBER.fullmatch(text.replace(decimal, ".")):
        return ""
    if MARKS.fullmatch(text):
        return "mark"
    # 1,234 could be either; the cells around it show which.
    if THOUSANDS.fullmatch(text):
        return "thousands"
    if OTHER_SIGN.fullmatch(text) and any(sign.isdigit() for sign in text):
        return "decimal sign"
    # 1.2.3 has no unit.
    return "unit" if UNIT.fullmatch(text) and set(text) - set("0123456789.,' +-") else "word"


def cause_of_date(text: str, date_format: str | None) -> str:
    """Return why a cell without white space around it is no date or time, or "" if it is one."""
    if seconds_of_text(text, date_format) is not None:
        return ""
    if MARKS.fullmatch(text):
        return "mark"
    if date_format is None and ISO_DATE.fullmatch(text):
        return "no such date"
    if TIME_OF_DAY.fullmatch(text):
        return "time of day"
    return "form" if SOME_DATE.fullmatch(text) else "word"


def breaks_within(columns: Sequence[Any]) -> Lines:
    """Return how many line breaks the cells of each row have (n,)."""
    import pyarrow.compute as pc

    found = np.zeros(len(columns[0]), dtype=np.int64)
    for cells in columns:
        data = cells.buffers()[2]
        raw = np.frombuffer(data, dtype=np.uint8) if data is not None and data.size else np.empty(0, dtype=np.uint8)
        if (raw == 10).any() or (raw == 13).any():
            found += pc.count_substring_regex(cells, r"\r\n|\r|\n").to_numpy(zero_copy_only=False)
    return found
