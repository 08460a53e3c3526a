"""Public tables that derived columns look values up in."""

import csv
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from trigmech.errors import InputError, shown
from trigmech.schema.values import is_unicode

MOST_ROWS, MOST_BYTES, LARGEST = 100_000, 2**22, 1e300
Cell = float | int | str | None


@dataclass(frozen=True)
class Lookup:
    """A public table: the last cell of each row is the result, and the other cells are its key.

    name: The name that formulas use, usually the name of its file.
    rows: From 1 to 100,000 rows of equal length, at least 2. A column is of numbers, or of text; in the last column
      None means that the result is missing.

    Raises an InputError if rows differ in length, a column mixes numbers and text, or two rows of one key have
    different results.
    """

    name: str
    rows: tuple[tuple[Cell, ...], ...]

    def __post_init__(self) -> None:
        rows = self.rows
        if isinstance(rows, str | bytes | Mapping) or not isinstance(rows, Iterable):
            raise self._error(f"must be a list of rows, not {type(rows).__name__}")
        rows = tuple(tuple(row) if isinstance(row, list | tuple) else () for row in rows)
        if not 1 <= len(rows) <= MOST_ROWS:
            raise self._error(f"must have from 1 to {MOST_ROWS:,} rows; it has {len(rows):,}")
        if len(rows[0]) < 2 or any(len(row) != len(rows[0]) for row in rows):
            raise self._error("must have rows of one length, with at least one key and the result")
        object.__setattr__(self, "rows", tuple(tuple(map(self._cell, row)) for row in rows))
        for j in range(len(rows[0])):
            held = {isinstance(row[j], str) for row in self.rows if row[j] is not None}
            if len(held) != 1 or (j < self.width and any(row[j] is None for row in self.rows)):
                raise self._error(f"must have numbers alone or text alone in its column {j + 1}, and no empty key")
        results: dict[tuple[Cell, ...], Cell] = {}
        for *key, result in self.rows:
            if results.setdefault(tuple(key), result) != result:
                raise self._error("has two rows of the same key with different results")

    def _error(self, rule: str) -> InputError:
        return InputError(f"the table {self.name!r} for lookup {rule}")

    def _cell(self, value: Any) -> Cell:
        if value is None or (isinstance(value, str) and is_unicode(value)):
            return value.strip() or None if isinstance(value, str) else None
        number = math.inf
        if isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool):
            number = float(value) if -LARGEST < value < LARGEST else math.inf
        if not math.isfinite(number):
            raise self._error(f"must have finite numbers and text, not {shown(value)}")
        return int(number) if number.is_integer() and abs(number) < 2.0**53 else number

    @property
    def width(self) -> int:
        """How many columns are the key."""
        return len(self.rows[0]) - 1

    @property
    def sorts(self) -> tuple[str, ...]:
        """The sort of each column of the key: "numbers" or "text"."""
        return tuple("text" if isinstance(cell, str) else "numbers" for cell in self.rows[0][:-1])

    @cached_property
    def of_text(self) -> bool:
        return any(isinstance(row[-1], str) for row in self.rows)

    @cached_property
    def range(self) -> tuple[float, float, bool]:
        """The least and the greatest result, and whether all are whole numbers; infinite ones for text."""
        if self.of_text:
            return -math.inf, math.inf, False
        held = [row[-1] for row in self.rows if isinstance(row[-1], int | float)]
        return float(min(held)), float(max(held)), all(isinstance(value, int) for value in held)

    @cached_property
    def _places(self) -> tuple[list[dict[Cell, int]], dict[tuple[int, ...], int]]:
        """For each column of the key a number for each cell, and the row of each combination of these."""
        columns = [{cell: k for k, cell in enumerate(dict.fromkeys(row[j] for row in self.rows))}
                   for j in range(self.width)]
        return columns, {tuple(columns[j][row[j]] for j in range(self.width)): i for i, row in enumerate(self.rows)}

    def values(self, keys: Sequence[Any]) -> np.ma.MaskedArray:
        """Return the results (m,) for arrays (m,) of keys, missing where no row has these or a key is missing."""
        columns, rows = self._places
        shape = np.broadcast_shapes(*(np.shape(each) for each in keys))
        codes = np.zeros((math.prod(shape), self.width), dtype=np.int64)
        for j, each in enumerate(keys):
            held = np.broadcast_to(np.ma.getdata(each), shape).ravel()
            absent = np.broadcast_to(np.ma.getmaskarray(each), shape).ravel()
            different, place = np.unique(held.astype(str) if self.sorts[j] == "text" else held, return_inverse=True)
            found = np.array([columns[j].get(cell.strip() if isinstance(cell, str) else cell, -1)
                              for cell in different.tolist()] or [-1], dtype=np.int64)
            codes[:, j] = np.where(absent, -1, found[place])
        combinations, place = np.unique(codes, axis=0, return_inverse=True)
        row = np.array([rows.get(tuple(each), -1) for each in combinations.tolist()], dtype=np.int64)[place.ravel()]
        results = [each[-1] for each in self.rows]
        lost = np.array([*(result is None for result in results), True])
        held = np.array([*("" if result is None else result for result in results), ""], dtype=object) if (
            self.of_text) else np.array([*(0.0 if result is None else result for result in results), 0.0], np.float64)
        return np.ma.MaskedArray(held[row], lost[row])


def read_lookup(name: str, folder: str | os.PathLike[str] = ".") -> Lookup:
    """Return the public table of a CSV file with a header, in UTF-8, at most 4 MB.

    A column is of numbers if all its cells are numbers, and else of text. Empty results are missing.

    Raises an InputError if the file cannot be read, or its rows break a rule of :class:`Lookup`.
    """
    path = Path(folder, name)
    try:
        text = path.read_bytes().decode("utf-8-sig") if path.stat().st_size <= MOST_BYTES else None
    except OSError as problem:
        raise InputError(f"cannot read the table {name!r} for lookup: {problem.strerror}") from None
    except (UnicodeDecodeError, ValueError):
        raise InputError(f"cannot read the table {name!r} for lookup: it is not UTF-8 text") from None
    if text is None:
        raise InputError(f"the table {name!r} for lookup has more than {MOST_BYTES:,} bytes")
    try:
        rows = [row for row in csv.reader(text.splitlines(), strict=True) if row][1:]
    except csv.Error:
        raise InputError(f"cannot read the table {name!r} for lookup: it is not a CSV file") from None
    if len({len(row) for row in rows}) == 1:
        columns = [_numbers_or_text(column) for column in zip(*rows, strict=True)]
        return Lookup(name, tuple(zip(*columns, strict=True)))
    return Lookup(name, tuple(map(tuple, rows)))


def _numbers_or_text(cells: Sequence[str]) -> list[Cell]:
    try:
        found: list[Cell] = [float(cell) if cell.strip() else None for cell in cells]
    except ValueError:
        return list(cells)
    # Words such as "nan" are no numbers here.
    return found if all(cell is None or math.isfinite(cell) for cell in found if not isinstance(cell, str)) else list(
        cells)
