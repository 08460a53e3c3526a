"""Files with tables: the meaning of their suffixes and options, and how they are written."""

import codecs
import csv
import datetime
import io
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trigmech._arrays import Integers
from trigmech._files import replacing
from trigmech._optional import need
from trigmech.errors import InputError, shown
from trigmech.tables.column_types import to_arrow
from trigmech.tables.scalars import distinct_objects

MISSING = ("", "NA", "NaN", "null", "?")
COMPRESSIONS = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2"}
PARQUET = (".parquet", ".pq")
# The suffixes of CSV, and the sign between its cells by default.
DELIMITERS = {".csv": ",", ".tsv": "\t", ".tab": "\t", ".txt": ",", "": ","}
WORKBOOKS = (".xlsx", ".xlsm", ".xlsb", ".xls", ".ods", ".numbers")
WORKBOOK = "it is a workbook; save the sheet with the table as CSV, and give that file"
A_RELEASE = "it is a release, not a table; `trigmech sample` makes a table from it"
# How CSV is read by default.
USUAL: dict[str, Any] = {"delimiter": ",", "decimal": ".", "encoding": "utf-8", "date_format": None, "header": True,
                         "missing": list(MISSING)}
# The signs that may stand between cells, in words.
SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "bars", ",": "commas"}

# Rows of a chunk at most.
MAX_ROWS = 2**18
# Bytes of CSV that are made at once, about; a byte that no text in UTF-8 has; and how many numbers say whether most
# numbers of a column differ.
MOST_BYTES, NO_BYTE, LOOKED_AT = 2**25, 0xFF, 1_024
# Between other separators than these a number needs no quotes.
IN_NUMBERS = "0123456789+-.einfa"


def suffixes(path: str | os.PathLike[str]) -> tuple[str, str]:
    """Return the suffix of a table's file without that of its compression, and that one, both in small letters."""
    path = Path(path)
    last = path.suffix.lower()
    return (Path(path.stem).suffix.lower(), last) if last in COMPRESSIONS else (last, "")


def usual_delimiter(path: str | os.PathLike[str]) -> str:
    """Return the separator of CSV cells in a file of that name."""
    return DELIMITERS.get(suffixes(path)[0], ",")


def check_table_name(path: str | os.PathLike[str]) -> None:
    """Raise an InputError if the name of a file is not that of a table which :func:`write_table` can write."""
    suffix, compression = suffixes(path)
    if not (suffix in DELIMITERS or (suffix in PARQUET and not compression)):
        raise InputError(f"cannot write {str(path)!r}: the name must end in .csv, .tsv, .tab or .txt, also compressed "
                         f"(.csv.gz, .csv.zst, .csv.bz2), or in .parquet or .pq, not in {suffix + compression!r}")


def give(option: str, value: str) -> str:
    """Return how an option is given on the command line and in Python."""
    typed = {"\t": "tab"}.get(value, repr(value))
    return f"give --{option.replace('_', '-')} {typed} (in Python {option}={value!r})"


def check_options(options: Mapping[str, Any]) -> None:
    """Raise an InputError if options of a file (those of :data:`USUAL`) break a rule."""
    strange = [option for option in options if option not in USUAL]
    if strange:
        raise InputError(f"a file has no option {strange[0]!r}; the options are {', '.join(USUAL)}")
    delimiter, decimal = options.get("delimiter", ","), options.get("decimal", ".")
    if not (isinstance(delimiter, str) and len(delimiter) == 1 and delimiter.isascii() and delimiter not in '"\r\n\0'):
        raise InputError("delimiter must be one ASCII character, but not a quote or a line break; given "
                         f"{shown(delimiter)}")
    if not (isinstance(decimal, str) and decimal in (".", ",")):
        raise InputError(f"decimal must be '.' or ',', not {shown(decimal)}")
    if "delimiter" in options and delimiter == decimal:
        raise InputError(f"delimiter and decimal must differ; both are {decimal!r}. Tables with decimal commas usually "
                         f"have semicolons between cells: {give('delimiter', ';')}")
    _check_encoding(options.get("encoding", "utf-8"))
    _check_date_format(options.get("date_format"))
    if not isinstance(options.get("header", True), bool):
        raise InputError(f"header must be true or false, not {shown(options['header'])}")
    missing = options.get("missing", [])
    if not (isinstance(missing, list | tuple) and all(isinstance(mark, str) for mark in missing)):
        raise InputError(f"missing must be a list of strings, not {shown(missing)}")


def _check_encoding(encoding: Any) -> None:
    try:
        # Codecs that are not of text are refused by the first, those that cannot be used in pieces by the second.
        "a".encode(encoding)
        codecs.getincrementaldecoder(encoding)
    except (LookupError, TypeError, ValueError):
        raise InputError(f"encoding must be one that Python knows, such as 'utf-8', 'cp1252' or 'utf-16', not "
                         f"{shown(encoding)}") from None


def _check_date_format(date_format: Any) -> None:
    if date_format is None:
        return
    day = datetime.datetime(2001, 2, 3, tzinfo=datetime.UTC)
    try:
        found = datetime.datetime.strptime(day.strftime(date_format), date_format)
    except (ValueError, TypeError, re.error):  # the last if a directive occurs twice
        found = None
    if found is None or found.year != day.year:
        raise InputError("date_format must be a format of Python's strptime with the year, such as "
                         f"'%d.%m.%Y' or '%m/%d/%Y %H:%M', not {shown(date_format)}")


def write_table(path: str | os.PathLike[str], columns: Mapping[str, NDArray] | Iterable[Mapping[str, NDArray]], *,
                delimiter: str | None = None) -> None:
    """Write columns to a file, whole or not at all.

    Parameters
    ----------
    path : path or "-"
        The suffix decides the format: Parquet (.parquet, .pq), or CSV in UTF-8 with a header (.csv, .tsv, .tab,
        .txt or no suffix), which may be compressed (.gz, .zst, .bz2 after that). "-" is CSV on standard output.
    columns : mapping of str to array (n,), or iterable of such mappings
        As :meth:`trigmech.Schema.decode` gives them; several are written below each other, and must have the same
        names and types. Masked entries are empty cells, or null.
    delimiter : str, optional
        Between the cells of CSV; by default a tab for .tsv and .tab, and else a comma.

    Raises
    ------
    InputError
        If the name has another suffix, the file cannot be written, there are no columns, or the mappings' names differ.
    """
    if str(path) != "-":
        check_table_name(path)
    delimiter = usual_delimiter(path) if delimiter is None else delimiter
    check_options({"delimiter": delimiter})
    pieces = _checked([columns] if isinstance(columns, Mapping) else columns)
    if str(path) == "-":
        _write_to_standard_output(pieces, delimiter)
        return
    need("tables", "writing a table's file")
    import pyarrow as pa

    path = Path(path)
    suffix = path.suffix.lower()
    with replacing(path) as beside:
        if suffix in PARQUET:
            _write_parquet(beside, pieces)
        else:
            with pa.output_stream(str(beside), compression=COMPRESSIONS.get(suffix)) as sink:
                _write_csv(sink, pieces, delimiter)


def _write_to_standard_output(pieces: Iterator[Mapping[str, NDArray]], delimiter: str) -> None:
    sink: Any = sys.stdout.buffer
    if not isinstance(sink, io.RawIOBase):
        _write_csv(sink, pieces, delimiter)
        return
    # Python runs without buffers then, and a raw stream may write a part of its input only.
    whole = io.BufferedWriter(sink)
    try:
        _write_csv(whole, pieces, delimiter)
    finally:
        whole.detach()


def _checked(pieces: Iterable[Mapping[str, NDArray]]) -> Iterator[Mapping[str, NDArray]]:
    names: list[str] | None = None
    for piece in pieces:
        if not piece or (names is not None and list(piece) != names):
            raise InputError("a table to write must have columns, and all its pieces must have the same columns")
        names = list(piece)
        yield piece
    if names is None:
        raise InputError("a table to write must have columns, and all its pieces must have the same columns")


def _write_parquet(path: Path, pieces: Iterator[Mapping[str, NDArray]]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    tables = (pa.table({name: to_arrow(values) for name, values in piece.items()}) for piece in pieces)
    first = next(tables)
    with pq.ParquetWriter(str(path), first.schema, compression="zstd") as writer:
        for table in chain([first], tables):
            writer.write_table(table, row_group_size=MAX_ROWS)


def _write_csv(sink: Any, pieces: Iterator[Mapping[str, NDArray]], delimiter: str) -> None:
    """Write pieces as CSV: each different cell of a column is made once, and copied to its rows."""
    named = False
    for piece in pieces:
        if len(set(map(len, piece.values()))) > 1:
            raise ValueError("columns of a table to write have different lengths")
        if not max(map(len, piece.values())):
            continue
        columns = [_cells_of(values) for values in piece.values()]
        # A lone carriage return in a cell is the one line break that the writer would not quote by itself.
        texts = [list(piece), *(cells for (cells, _), values in zip(columns, piece.values(), strict=True)
                                if values.dtype.kind in "OU")]
        returns = any("\r" in cell for cells in texts for cell in cells if isinstance(cell, str))
        options: dict[str, Any] = {"delimiter": delimiter, "lineterminator": "\n",
                                   "quoting": csv.QUOTE_NONNUMERIC if returns else csv.QUOTE_MINIMAL}
        if not named:
            text = io.StringIO(newline="")
            csv.writer(text, **options).writerow(piece)
            sink.write(text.getvalue().encode())
            named = True
        made = [_bytes_of(cells, options, len(columns) == 1) for cells, _ in columns]
        for own in made:
            own[:, -1] = ord(delimiter)
        made[-1][:, -1] = ord("\n")
        ends = np.cumsum([0, *(own.shape[1] for own in made)]).tolist()
        step = max(min(2**16, MOST_BYTES // ends[-1]), 1)
        for start in range(0, len(columns[0][1]), step):
            held = [codes[start : start + step] for _, codes in columns]
            rows = np.empty((len(held[0]), ends[-1]), dtype=np.uint8)
            for own, codes, first, last in zip(made, held, ends, ends[1:], strict=False):
                rows[:, first:last] = own[codes]
            sink.write(rows[rows != NO_BYTE].tobytes())
    sink.flush()


def _cells_of(values: NDArray) -> tuple[list[Any], Integers]:
    """Return cells of a column in the form that the writer of CSV needs, and which of them each row has.

    They are the different ones, but for numbers of which most differ. Masked cells are None.
    """
    plain, absent = np.ma.getdata(values), np.ma.getmaskarray(values)
    kind, width = plain.dtype.kind, plain.dtype.itemsize
    # Bits tell two zeros and two times apart.
    bits = plain.view(f"i{width}") if kind == "M" or (kind == "f" and width <= 8) else plain
    if kind == "O":
        cells, codes = distinct_objects(plain)
    else:
        if kind == "f" and 2 * len(np.unique(bits[:LOOKED_AT])) > LOOKED_AT:
            found, codes = bits, np.arange(len(bits))
        else:
            found, codes = _distinct(bits)
        found = found.view(plain.dtype)
        cells = np.datetime_as_string(found).tolist() if kind == "M" else found.tolist()
    return ([*cells, None], np.where(absent, len(cells), codes)) if absent.any() else (cells, codes)


def _distinct(values: NDArray) -> tuple[NDArray, Integers]:
    """Return the different values, ascending, and which of them each is; whole numbers side by side are not sorted."""
    if values.dtype.kind == "i" and len(values):
        low, high = int(values.min()), int(values.max())
        if high - low < 4 * len(values):
            place, held = values.astype(np.int64) - low, np.zeros(high - low + 1, dtype=np.bool_)
            held[place] = True
            return (np.flatnonzero(held) + low).astype(values.dtype), (np.cumsum(held) - 1)[place]
    found, codes = np.unique(values, return_inverse=True)
    return found, codes.astype(np.int64, copy=False)


def _bytes_of(cells: Sequence[Any], options: Mapping[str, Any], alone: bool) -> NDArray[np.uint8]:
    """Return the bytes (cells, longest + 1) of cells, with room for the sign after each; `NO_BYTE` is in no text."""
    delimiter, made = options["delimiter"], list[bytes]()
    if not alone and options["quoting"] == csv.QUOTE_MINIMAL and delimiter not in IN_NUMBERS and (
            set(map(type, cells)) <= {int, float, type(None)}):
        made = [b"" if cell is None else repr(cell).encode() for cell in cells]
    else:
        # The writer sees whether a cell is alone in its row, because a row must not be empty.
        parts, beside = list[str](), 1 if delimiter == "0" else 0
        csv.writer(_Parts(parts), **options).writerows(zip(cells, strict=True) if alone else zip(cells, repeat(beside)))
        made = [part[: -1 if alone else -3].encode() for part in parts]
    lengths = np.fromiter(map(len, made), dtype=np.int64, count=len(made))
    width = int(lengths.max(initial=1)) + 1
    texts = np.array(made, dtype=f"S{width}").view(np.uint8).reshape(-1, width)
    texts[np.arange(width) >= lengths[:, None]] = NO_BYTE
    return texts


class _Parts:
    """A file for the writer of CSV that keeps each row apart."""

    def __init__(self, parts: list[str]) -> None:
        self.write = parts.append
