"""PRIVATE. The text of a CSV file: its names, its rows, and the cells of a column by the types of a schema."""

import codecs
import csv
import io
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

from trigmech.errors import InputError
from trigmech.tables.column_types import ColumnOfFile, texts_to_arrow
from trigmech.tables.csv_cells import floats_of, times_of, trimmed, with_points
from trigmech.tables.writer import A_RELEASE, SEPARATORS, WORKBOOK, give

# Bytes of CSV that are parsed together, at least and for each column; no row may be longer. The reader holds about 32
# blocks at once.
BLOCK = 2**20
BLOCK_OF_A_COLUMN = 2**7
# How many characters at the end of a text are looked at.
END, TEXT_AT_ONCE = 2**16, 2**20

# The first bytes of .xlsx and .ods, which are ZIP archives, and of .xls.
ARCHIVES = (b"PK\x03\x04", b"\xd0\xcf\x11\xe0")
UTF_8 = ("utf-8", "utf-8-sig")
# All possible causes are listed, so that the message does not depend on the cell.
OTHER_CAUSES = ("a word (then give the column another kind, such as categorical), a sign between thousands, a unit, "
                "currency or percent sign, or a mark of missing values that is "
                "not listed (missing = [...] below [file] in the schema file)")
NO_NUMBER = {".": f"not a number; usual causes are a decimal comma (then {give('decimal', ',')}), {OTHER_CAUSES}",
             ",": f"not a number with a decimal comma; usual causes are a decimal point, {OTHER_CAUSES}"}
TWO_FORMS = "; a column with dates in two forms cannot be read: first write all of them in one form"
NO_TIME = ("not a date or time in ISO form, such as 2020-12-31; if dates are written in another form, state it: "
           f"{give('date_format', '%d.%m.%Y')}{TWO_FORMS}")


class CsvText:
    """PRIVATE. A CSV file that is read repeatedly.

    ``stream`` opens it and returns its bytes, decompressed, as a stream of pyarrow; ``options`` are all of
    :data:`trigmech.tables.writer.USUAL`, checked; ``error`` makes an error that names the file from a broken rule.
    """

    def __init__(self, stream: Callable[[], Any], options: Mapping[str, Any],
                 error: Callable[[str], InputError]) -> None:
        self._stream, self._error = stream, error
        self._delimiter, self._decimal, self._date_format = (options[option] for option in
                                                             ("delimiter", "decimal", "date_format"))
        self.header, self._missing = options["header"], options["missing"]
        encoding = options["encoding"]
        self._encoding = "utf-8" if codecs.lookup(encoding).name in UTF_8 else encoding
        self.names: list[str] = []
        # How many rows, and how many lines, stand before those of the table.
        self._skip = self.lines_before = 0

    def read_names(self) -> list[str]:
        """Return the names of the columns: those of the first row, or column1 and so on if there is no header."""
        start = self._stream().read(4096)
        if start.startswith(ARCHIVES):
            raise self._error(A_RELEASE if start[30:43] == b"manifest.json" else WORKBOOK)
        text = codecs.getincrementaldecoder(self._encoding)().decode(start)
        # Text with two bytes per character shows zeros if it is read with one byte per character.
        if "\0" in text:
            raise self._error(self._other_encoding)
        if not text.strip("\ufeff \t\n\v\f\r"):
            raise self._error("it is empty")
        with self.text() as lines:
            first = lines.readline().removeprefix("\ufeff")
            stated = re.fullmatch(r"sep=([;,\t|])[\r\n]*", first, re.IGNORECASE)
            if stated and not self.header:
                raise self._error("its first line states the character between cells; without a header this line could "
                                  "also be a row: remove it")
            if stated and stated[1] != self._delimiter:
                raise self._error(f"its first line states that {SEPARATORS[stated[1]]} separate its cells: "
                                  f"{give('delimiter', stated[1])}")
            rows = csv.reader(lines if stated else chain([first], lines), delimiter=self._delimiter)
            self._skip, names = 1 if stated else 0, []
            for row in rows:
                self._skip += self.header
                if row:
                    names = [name.strip() for name in row]
                    break
            self.lines_before = (rows.line_num if self.header else 0) + bool(stated)
        self.names = names if self.header else [f"column{j + 1}" for j in range(len(names))]
        return self.names

    @property
    def separators(self) -> str:
        """A sentence of advice if the names hold a character that often separates cells; else empty."""
        held = [sign for sign in SEPARATORS if sign != self._delimiter and any(sign in name for name in self.names)]
        # The message states only that it is there: where a header is missing the names are a record.
        return "" if not held else (f"its first row holds {SEPARATORS[held[0]]}; if they separate the cells, "
                                    f"{give('delimiter', held[0])}")

    def count_rows(self) -> int:
        """Return the number of rows; :class:`trigmech.tables.reader.TableFile` defines a row."""
        import pyarrow.compute as pc

        n, cell, gaps, within = 0, "", False, [0, 0]
        nothing = texts_to_arrow([""])[0]
        for batch in self.batches(sorted({0, len(self.names) - 1}), empty_lines=True):
            if batch.num_rows:
                n += batch.num_rows
                first, last = batch.column(0), batch.column(batch.num_columns - 1)
                cell = last[-1].as_py()
                gaps = gaps or pc.any(pc.and_(pc.equal(first, nothing), pc.equal(last, nothing))).as_py()
                if len(self.names) == 1:
                    returns, both, feeds = (pc.sum(pc.count_substring(first, sign)).as_py()
                                            for sign in ("\r", "\r\n", "\n"))
                    within = [within[0] + returns - both, within[1] + feeds]
        # An open quote makes one cell of all rows after it, and the end of the file passes for its end.
        if ("\n" in cell or "\r" in cell) and not self._end().rstrip().endswith('"'):
            raise self._error("a quote is not closed")
        # In a file of one column without a last line break, an empty last cell would not count as a row.
        if n and len(self.names) == 1 and not self._end().endswith(("\n", "\r")):
            raise self._error("it has one column and no line break after the last row, so an empty cell in the last "
                              "row would be overlooked: add a line break at its end")
        # In several columns a row that is cut has too few cells.
        if len(self.names) == 1 and all(count > quoted for count, quoted in zip(self._breaks(), within, strict=True)):
            raise self._error("it has one column, and its lines end in two ways: some end with a carriage return "
                              "alone, but a cell without quotes can also contain one. Write quotes around all cells")
        return n - self._empty_lines(n) if gaps and len(self.names) > 1 else n

    def _empty_lines(self, lines: int) -> int:
        """Return how many of the lines of several columns are empty, if all of them follow the last row."""
        found = lines - sum(batch.num_rows for batch in self.batches([0], empty_lines=False))
        end = self._end()
        line_ends = re.findall(r"\r\n|\r|\n", end[len(end.rstrip("\r\n")):])
        if found > max(0, len(line_ends) - 1):
            raise self._error("there is an empty line between its rows (or before them, without a header); it could "
                              "mean a row in which all values are missing: remove it, or write its delimiters")
        return found

    def text(self) -> io.TextIOWrapper:
        return io.TextIOWrapper(io.BufferedReader(self._stream()), encoding=self._encoding, newline="")

    def _end(self) -> str:
        """Return the last characters of the text; private."""
        end = ""
        for block in self._blocks():
            end = (end + block)[-END:]
        return end

    def _breaks(self) -> tuple[int, int]:
        """Return how many carriage returns alone, and how many line feeds, the text has; private."""
        alone, feeds, last = 0, 0, ""
        for block in self._blocks():
            # A pair may be cut in two.
            alone += block.count("\r") - (last[-1:] + block).count("\r\n")
            feeds += block.count("\n")
            last = block
        return alone, feeds

    def _blocks(self) -> Iterator[str]:
        with self.text() as text:
            while block := text.read(TEXT_AT_ONCE):
                yield block

    @property
    def _block(self) -> int:
        return max(BLOCK, BLOCK_OF_A_COLUMN * len(self.names))

    def batches(self, places: Iterable[int], empty_lines: bool | None = None,
                ragged: Callable[[int, str], bool] | None = None) -> Any:
        """Open the file; the columns at these places come in batches of rows, as text as it stands.

        An empty line is a row of empty cells, or passed over; by default it is a row in files of one column. A row with
        another number of cells is an error, or else left out if ``ragged``, which gets its number (the table's first
        row has 1) and its text, returns True.
        """
        import pyarrow as pa
        import pyarrow.csv

        wanted, names = [str(j) for j in places], [str(j) for j in range(len(self.names))]
        if empty_lines is None:
            empty_lines = len(names) == 1

        def left_out(row: Any) -> str:
            return "skip" if ragged is not None and ragged(row.number - self._skip, row.text) else "error"

        return pa.csv.open_csv(
            self._stream(),
            read_options=pa.csv.ReadOptions(block_size=self._block, column_names=names, encoding=self._encoding,
                                            skip_rows_after_names=self._skip, use_threads=ragged is None),
            parse_options=pa.csv.ParseOptions(delimiter=self._delimiter, newlines_in_values=True,
                                              ignore_empty_lines=not empty_lines,
                                              invalid_row_handler=left_out if ragged else None),
            convert_options=pa.csv.ConvertOptions(include_columns=wanted, strings_can_be_null=False,
                                                  column_types=dict.fromkeys(wanted, pa.string())))

    def typed(self, column: ColumnOfFile, cells: Any) -> Any:
        """Return the cells of a column as floats or times, null where missing; or as text if it has categories."""
        cells = trimmed(cells, self._missing, column.categories or ())
        if column.is_text:
            return cells
        if column.unit:
            found = times_of(cells, self._date_format)
            form = self._date_format
            rule = f"not a date or time of the format {form!r}{TWO_FORMS}" if form else NO_TIME
        else:
            cells = with_points(cells, self._decimal)
            if column.categories is not None:
                return cells
            found, rule = floats_of(cells), NO_NUMBER[self._decimal]
        if found is None:
            raise self._error(f"column {column.name!r} holds a cell that is not marked as missing and is {rule}")
        return found

    @property
    def _other_encoding(self) -> str:
        if self._encoding != "utf-8":
            return f"its text is not in the encoding {self._encoding!r}"
        return (f"its text is not UTF-8; state its encoding: {give('encoding', 'cp1252')} if a spreadsheet of a "
                "western language saved it as CSV, or 'utf-16' if it was saved as Unicode text")

    def reason(self, problem: Exception) -> str | None:
        """Return the meaning of a library's error for the text, without its words, which could quote a row."""
        text = str(problem)
        if isinstance(problem, csv.Error):
            return "its first row cannot be split into cells; a quote may be open"
        # With one thread it says which row.
        if re.match(r"CSV parse error: (Row #\d+: )?Expected", text):
            more = f"; {self.separators}" if self.header and self.separators else ""
            return f"its rows have different numbers of cells, or a quote is not closed{more}"
        if text.startswith("straddling object") or "block size" in text:
            return f"a row is longer than {self._block} bytes, or a quote is not closed"
        if isinstance(problem, UnicodeError) or "invalid UTF8" in text:
            return self._other_encoding
        return None
