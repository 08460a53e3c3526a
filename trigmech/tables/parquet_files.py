"""PRIVATE. A table in several Parquet files, and in pieces that can be read apart from each other."""

import glob
import os
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from trigmech._validate import lacks
from trigmech.errors import InputError, shown
from trigmech.tables.column_types import ColumnsOfFile
from trigmech.tables.reader import TableFile, rows_at_once

# Rows of a piece, unless a row group has more: a tenth of a second to some seconds of work.
ROWS_OF_A_PIECE = 2**19
LETTERS = "*?["


class Piece(NamedTuple):
    """Some row groups of a file (None: all of it), and the number of their rows; public."""

    path: str
    groups: tuple[int, ...] | None
    rows: int


class ParquetFiles:
    """A table in Parquet files, one after another; see :class:`trigmech.tables.reader.TableFile`.

    Parameters
    ----------
    table : pattern, path or sequence of path
        A pattern such as "data/*.parquet", which stands for the files in the order of their names.

    Attributes
    ----------
    files : tuple of TableFile
    names : tuple of str
        The columns that all files have.

    Raises
    ------
    InputError
        If a pattern fits no file; a file is not Parquet, or stands twice in a list.
    """

    options: dict[str, Any] = {}  # noqa: RUF012 - of CSV there are none
    separators = ""

    def __init__(self, table: str | Path | Sequence[str | Path]) -> None:
        paths = (paths_of(table) or [str(table)]) if isinstance(table, str | Path) else [str(path) for path in table]
        if not paths:
            raise InputError("the list of files is empty")
        absent = next((k for k, path in enumerate(paths, 1) if not os.path.exists(path)), None)
        if absent is not None and not isinstance(table, str | Path):
            # Not quoted: it could be the cell of a table that was given as a list of texts.
            raise InputError(f"file number {absent} in the list of {len(paths)} files does not exist; if the list is a "
                             "table, its rows must be lists or tuples")
        if len({Path(path).resolve() for path in paths}) < len(paths):
            raise InputError("the list names a file twice; its rows would count twice")
        self.files = tuple(TableFile(path) for path in paths)
        for path, file in zip(paths, self.files, strict=True):
            if file.groups is None or file.path is None:
                raise InputError(f"{path!r} is not a Parquet file; a table in several files, or for several workers, "
                                 "must be in Parquet files: convert it, or name one CSV file and no engine")
        self.names = tuple(name for name in self.files[0].names if all(name in file.names for file in self.files))

    def __repr__(self) -> str:
        return f"ParquetFiles({len(self.files)} files, values hidden)"

    @cached_property
    def n(self) -> int:
        """The number of rows; an InputError is raised if the files have no rows."""
        n = sum(piece.rows for piece in self.pieces)
        if n == 0:
            raise InputError("the files have no rows")
        return n

    @cached_property
    def pieces(self) -> tuple[Piece, ...]:
        """Whole row groups of one file, some 500,000 rows if each has fewer."""
        return tuple(piece for file in self.files for piece in _pieces(file))

    def check(self, schema: ColumnsOfFile, alike: bool = False) -> None:
        """Raise an InputError if a file lacks a column or, where types must be alike, has another than others."""
        for file in self.files:
            if rule := lacks(schema.names, file.names):
                raise InputError(f"cannot read {str(file.path)!r}: it {rule}")
        held = [file for file in self.files if sum(file.groups or ())]
        for name, other in product(schema.names if alike else (), held[1:]):
            kinds = [plain_type(file.types[name]) for file in (held[0], other)]
            if kinds[0] != kinds[1]:
                raise InputError(f"column {name!r} has the type {kinds[0]} in {str(held[0].path)!r} and {kinds[1]} in "
                                 f"{str(other.path)!r}; the rows of a person are collected from all files, so write "
                                 "the column with the same type to all of them")

    def of_one_type(self, schema: ColumnsOfFile) -> list[list[TableFile]]:
        """Return the files that have rows in groups, each of files that have the schema's columns in the same types."""
        groups: dict[tuple[str, ...], list[TableFile]] = {}
        for file in self.files:
            if sum(file.groups or ()):
                groups.setdefault(tuple(str(plain_type(file.types[name])) for name in schema.names), []).append(file)
        return list(groups.values())

    def chunks(self, schema: ColumnsOfFile) -> Iterator[Any]:
        """Yield the schema's columns as pyarrow tables of consecutive rows, of one file each."""
        rows = rows_at_once(schema)
        for file in self.files:
            if sum(file.groups or ()):
                yield from file.chunks(schema, rows)


def paths_of(text: str | Path) -> list[str] | None:
    """Return the files that a pattern fits, sorted by name, or None if it is no pattern but a path."""
    text = str(text)
    if not any(letter in text for letter in LETTERS) or Path(text).exists():
        return None
    found = sorted(glob.glob(text, recursive=True))
    if not found:
        raise InputError(f"no file matches the pattern {text!r}")
    return found


def plain_type(kind: Any) -> Any:
    """Return the Arrow type of a column's values: that of the values of a dictionary, and one type for all text."""
    import pyarrow as pa

    while pa.types.is_dictionary(kind):
        kind = kind.value_type
    return pa.large_string() if str(kind) in ("string", "string_view") else kind


def is_list_of_paths(table: Any) -> bool:
    return isinstance(table, list | tuple) and bool(table) and all(isinstance(path, str | Path) for path in table)


def read(piece: Piece, schema: ColumnsOfFile) -> Iterator[Any]:
    """Yield a piece's rows as pyarrow tables; raises an InputError if the file has changed since the pieces were
    made."""
    file = TableFile(piece.path)
    rows = file.groups or ()
    groups = range(len(rows)) if piece.groups is None else piece.groups
    if not all(i < len(rows) for i in groups) or sum(rows[i] for i in groups) != piece.rows:
        raise InputError(f"cannot read {shown(piece.path)}: it changed while it was read")
    yield from file.chunks(schema, groups=list(groups))


def _pieces(file: TableFile) -> Iterator[Piece]:
    groups: list[int] = []
    rows = 0
    for i, count in enumerate(file.groups or ()):
        if groups and rows + count > ROWS_OF_A_PIECE:
            yield Piece(str(file.path), tuple(groups), rows)
            groups, rows = [], 0
        if count:
            groups.append(i)
            rows += count
    if groups:
        yield Piece(str(file.path), tuple(groups), rows)
