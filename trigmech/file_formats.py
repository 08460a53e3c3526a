"""Files with tables: what their suffixes and options mean, and how they are written."""

import csv
import io
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from trigmech.errors import InputError
from trigmech.outputs import replacing
from trigmech.typed_columns import to_arrow

MISSING = ("", "NA", "NaN", "null", "?")
COMPRESSIONS = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2"}
PARQUET = (".parquet", ".pq")

# Rows of a chunk at most.
MAX_ROWS = 2**18


def check_options(options: Mapping[str, Any]) -> None:
    """Raise an InputError if options of a file (delimiter, header, missing) break a rule."""
    strange = [option for option in options if option not in ("delimiter", "header", "missing")]
    if strange:
        raise InputError(f"there is no option {strange[0]!r} of a file; the options are delimiter, header, missing")
    delimiter = options.get("delimiter", ",")
    if not (isinstance(delimiter, str) and len(delimiter) == 1 and delimiter.isascii() and delimiter not in '"\r\n\0'):
        raise InputError(f"delimiter must be one ASCII character, no quote and no line break, not {delimiter!r}")
    if not isinstance(options.get("header", True), bool):
        raise InputError(f"header must be true or false, not {options['header']!r}")
    missing = options.get("missing", [])
    if not (isinstance(missing, list | tuple) and all(isinstance(mark, str) for mark in missing)):
        raise InputError(f"missing must be a list of strings, not {missing!r}")


def write_table(path: str | os.PathLike[str], columns: Mapping[str, NDArray] | Iterable[Mapping[str, NDArray]], *,
                delimiter: str = ",") -> None:
    """Write columns to a file, whole or not at all.

    Parameters
    ----------
    path : path or "-"
        The suffix says what is written: Parquet (.parquet, .pq), or else CSV with a header, which may be compressed
        (.gz, .zst, .bz2). "-" is CSV on standard output.
    columns : mapping of str to array (n,), or iterable of such mappings
        As :meth:`trigmech.Schema.decode` gives them; several are written below each other, and must have the same
        names and types. Masked entries are empty cells, or null.
    delimiter : str
        Between the cells of CSV.

    Raises
    ------
    InputError
        If the file cannot be written, there are no columns, or the mappings' names differ.
    """
    check_options({"delimiter": delimiter})
    pieces = _checked([columns] if isinstance(columns, Mapping) else columns)
    if str(path) == "-":
        _write_to_standard_output(pieces, delimiter)
        return
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
    # Python runs without buffers then, and what a raw stream is given it may write in part.
    whole = io.BufferedWriter(sink)
    try:
        _write_csv(whole, pieces, delimiter)
    finally:
        whole.detach()


def _checked(pieces: Iterable[Mapping[str, NDArray]]) -> Iterator[Mapping[str, NDArray]]:
    names: list[str] | None = None
    for piece in pieces:
        if not piece or (names is not None and list(piece) != names):
            raise InputError("a table to write needs columns, and all its pieces the same ones")
        names = list(piece)
        yield piece
    if names is None:
        raise InputError("a table to write needs columns, and all its pieces the same ones")


def _write_parquet(path: Path, pieces: Iterator[Mapping[str, NDArray]]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    tables = (pa.table({name: to_arrow(values) for name, values in piece.items()}) for piece in pieces)
    first = next(tables)
    with pq.ParquetWriter(str(path), first.schema, compression="zstd") as writer:
        for table in chain([first], tables):
            writer.write_table(table, row_group_size=MAX_ROWS)


def _write_csv(sink: Any, pieces: Iterator[Mapping[str, NDArray]], delimiter: str) -> None:
    named = False
    for piece in pieces:
        lists = [_cells_of(values) for values in piece.values()]
        # A lone carriage return in a cell is the one line break that the writer would not quote by itself.
        text_cells = [list(piece), *(cells for cells, values in zip(lists, piece.values(), strict=True)
                                     if values.dtype.kind == "O")]
        returns = any("\r" in value for cells in text_cells for value in set(cells) if value is not None)
        quoting: Literal[0, 2] = csv.QUOTE_NONNUMERIC if returns else csv.QUOTE_MINIMAL
        for start in range(0, max(map(len, lists)), 2**16):
            text = io.StringIO(newline="")
            writer = csv.writer(text, delimiter=delimiter, lineterminator="\n", quoting=quoting)
            if not named:
                writer.writerow(piece)
                named = True
            writer.writerows(zip(*(cells[start:start + 2**16] for cells in lists), strict=True))
            sink.write(text.getvalue().encode())
    sink.flush()


def _cells_of(values: NDArray) -> list[Any]:
    """Return a column as what the writer of CSV makes cells of, None where masked."""
    absent = np.ma.getmaskarray(values)
    plain = np.ma.getdata(values)
    cells = np.datetime_as_string(plain).tolist() if plain.dtype.kind == "M" else plain.tolist()
    for i in np.flatnonzero(absent):
        cells[i] = None
    return cells
