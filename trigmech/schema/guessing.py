"""PRIVATE. Guesses of columns' kinds from the first rows of a table, for its holder to confirm."""

import datetime
import itertools
import math
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from trigmech._optional import Later
from trigmech.errors import InputError
from trigmech.schema.column import Kind
from trigmech.tables.csv_cells import is_number, is_whole_number, seconds_of_text
from trigmech.tables.frames import Columns
from trigmech.tables.lenient import TIME_OF_DAY, cause_of_number
from trigmech.tables.reader import TableFile
from trigmech.tables.scalars import is_missing, numbers_of_objects
from trigmech.tables.writer import USUAL, give

if TYPE_CHECKING:
    import narwhals as nw
else:
    nw = Later("narwhals")

# How many rows a kind is guessed from; and how many are looked through for those of a column that is empty at first.
LOOKED_AT, LOOKED_THROUGH = 100, 100_000

NOTHING = "The first rows are empty here, so no kind was guessed: write a kind and its options, or remove this column."
ONE = ("All of the first rows hold the same value here. If all other rows do so too, remove this column: it needs no "
       "release.")
WHOLE = "Whole numbers written with decimals. If the column can hold other numbers too, write continuous."
ZEROS = "These numbers have leading zeros, as codes have. If they are numbers, write integer: the zeros are then lost."
INFINITE = "There are infinite numbers, which become the nearest bound. If they mean missing, empty the cells."
POINTS = "Numbers? The decimal sign is a comma here: write all numbers with it, without points between thousands."
MIXED = "Numbers? Some have a decimal point and some a decimal comma: first write all of them in the same way."
FORMS = "Dates in several forms? Only one form can be read: first write all of them in one, best as 2020-12-31."
THOUSANDS = ("Numbers? Some have a sign before three digits. If it separates thousands, write the numbers without it: "
             "1234.5, or 1234,5 with --decimal ','. If it is the decimal sign, make this file again and state it.")
UNITS = "Numbers with a unit? If all are in the same one, write the numbers alone, and integer or continuous here."
MOSTLY = ("Numbers? Most of the first values are. If the others are mistakes, or mean missing, write integer or "
          "continuous here; `trigmech check` lists them.")
TIMES = ("Times of a day? If their order matters, write the minutes after midnight instead, in a column of integers "
         "from 0 to 1439.")
ALL_DIFFER = ("All of the first values differ, as identifiers do. If the column identifies rows, remove it; if it "
              "identifies persons who can have several rows, name it as the person above all tables.")
# In so many rows at least; and the part of values that are numbers, above which the others may be mistakes.
LEAST_DIFFERENT, MOST_ARE = 50, 0.8
# A number with a currency before it, or a percent sign or a short unit behind it.
WITH_UNIT = re.compile(r"([$€£¥] ?)?[+-]?[1-9]?\d([\d.,' ]*\d)?( ?(%|[^\W\d_]{1,4}\.?|[$€£¥]))?")
# How dates are written, other than in ISO form: by numbers, of which the last is the year, and by names of months.
ISO = r"\d{4}-\d{1,2}-\d{1,2}([T ].*)?"
NUMBERS = r"(\d{1,2})([./-])(\d{1,2})\2\d{2,4}( .*)?"
YEAR_FIRST = r"\d{4}([./])\d{1,2}\1\d{1,2}( .*)?"
# As a reader of CSV takes them.
INFINITY = re.compile(r"[+-]?inf(inity)?", re.IGNORECASE)
NO_NUMBER = re.compile(r"[+-]?nan", re.IGNORECASE)
NAMED = r"(\d{1,2}\.?[- ]?[^\W\d_]{3,9}\.?[-, ]+\d{2,4}|[^\W\d_]{3,9}\.? \d{1,2},? \d{4})( .*)?"


class Beginning:
    """PRIVATE. The first rows of a TableFile or dataframe, with its names and the ``options`` of its file.

    An InputError is raised if the table is of another type or has no rows, or its header holds numbers.
    """

    def __init__(self, table: Any) -> None:
        self._table = table
        self.options: dict[str, Any] = {}
        if isinstance(table, TableFile):
            self.names, self.options, first = table.names, table.options, table.first_rows(LOOKED_AT)
            numbers = [name for name in self.names if re.fullmatch(r"[+-]?\d+(\.\d*)?", name)]
            if self.options.get("header", True) and numbers:
                raise InputError("the first row of the table holds numbers; if the table has no header, give "
                                 "--no-header (in Python header=False)")
        else:
            frame = nw.from_native(table, eager_only=True, pass_through=True)
            if not isinstance(frame, nw.DataFrame):
                raise InputError(f"the table must be a TableFile or a dataframe, not {type(table).__name__}")
            if not all(isinstance(name, str) for name in frame.columns):
                raise InputError("the names of the dataframe's columns must be strings")
            self.names, first = tuple(frame.columns), frame.head(LOOKED_AT).to_native()
        self._first = first

    def __repr__(self) -> str:
        return f"Beginning(d={len(self.names)}, values hidden)"

    def guess(self, name: str) -> tuple[Kind | str, list[str]]:
        """Return a kind that suits a column's first values, "" if there is none, and comments where it is in doubt."""
        columns = Columns(self._first, self.names)
        values, held, dtype = _values(columns, self.names.index(name), self._first, name)
        if not values:
            # A column that is empty at first may hold something further down.
            later = self._later(name)
            if later is not None:
                values, held, dtype = _values(Columns(later, (name,)), 0, later, name)
        if not values and dtype != nw.Boolean:
            return "", [NOTHING]
        kind, doubt = _guess(values, dtype, USUAL | self.options)
        if not doubt and _identifies(kind, values, held):
            doubt = [ALL_DIFFER]
        return kind, [*doubt, *([ONE] if len(values) == 1 and len(held) > 1 else [])]

    def _later(self, name: str) -> Any:
        """Return the first rows in which a column is not missing, as a dataframe of it alone; None if it has none."""
        if isinstance(self._table, TableFile):
            return self._table.first_present(name, LOOKED_AT, LOOKED_THROUGH)
        found = nw.from_native(self._table, eager_only=True).select(name).head(LOOKED_THROUGH).drop_nulls()
        return found.head(LOOKED_AT).to_native() if len(found) else None


def _values(columns: Columns, j: int, frame: Any, name: str) -> tuple[list[Any], list[Any], Any]:
    """Return the different values of a column that are not missing, those of the rows that have one in their order, and
    the column's type."""
    distinct, codes = columns.distinct(j)
    present = np.array([not is_missing(value) for value in distinct], dtype=bool)
    values = [value for value, there in zip(distinct, present.tolist(), strict=True) if there]
    held = [distinct[code] for code in codes[codes >= 0].tolist() if present[code]]
    return values, held, nw.from_native(frame, eager_only=True).schema[name]


def _identifies(kind: str, values: list[Any], held: list[Any]) -> bool:
    """Whether all of a column's first values differ, and numbers grow from row to row, as those of rows do."""
    if not LEAST_DIFFERENT <= len(held) == len(values):
        return False
    return kind == "categorical" or (kind == "integer" and all(
        float(before) < float(after) for before, after in itertools.pairwise(held)))


def _guess(values: list[Any], dtype: Any, options: Mapping[str, Any]) -> tuple[Kind, list[str]]:
    """Return a kind that suits the different values of a few rows, and a comment if it could well be another."""
    if dtype.is_integer():
        return "integer", []
    if dtype.is_numeric():
        return _guess_of_numbers([float(value) for value in values])
    if dtype in (nw.Datetime, nw.Date):
        return "datetime", []
    if dtype == nw.Boolean or not values:
        return "categorical", []
    if all(isinstance(value, str) for value in values):
        return _guess_of_text(values, options)
    if all(isinstance(value, datetime.date | np.datetime64) for value in values):
        return "datetime", []
    found = None if any(isinstance(value, bool) for value in values) else numbers_of_objects(values)
    if found is not None:
        whole = all(isinstance(value, int) for value in values)
        return ("integer", []) if whole else _guess_of_numbers(found.tolist())
    return "categorical", []


def _guess_of_numbers(values: list[float]) -> tuple[Kind, list[str]]:
    """Return the kind of floats: integers beside missing values are floats in some libraries."""
    finite = [value for value in values if math.isfinite(value)]
    doubt = [INFINITE] if len(finite) < len(values) else []
    whole = bool(finite) and all(value.is_integer() for value in finite)
    return ("integer", [WHOLE, *doubt]) if whole else ("continuous", doubt)


def _guess_of_text(values: list[str], options: Mapping[str, Any]) -> tuple[Kind, list[str]]:
    known = [value for value in values if not NO_NUMBER.fullmatch(value)]
    finite = [value for value in known if not INFINITY.fullmatch(value)]
    if len(finite) < len(values):
        # They say nothing of the others, unless these are words.
        kind, doubt = _guess_of_text(finite, options) if finite else ("continuous", [])
        doubt = [*doubt, *([INFINITE] if len(finite) < len(known) else [])]
        return (kind, doubt) if kind in ("integer", "continuous") else ("categorical", [])
    date_format, decimal = options["date_format"], options["decimal"]
    dates = all(seconds_of_text(value, date_format) is not None for value in values)
    # A format that is given may be of digits alone; in ISO form digits alone are rather numbers.
    if dates and date_format is not None:
        return "datetime", []
    if all(map(is_whole_number, values)):
        if any(re.match(r"[+-]?0\d", value.strip()) for value in values):
            return "categorical", [ZEROS]
        return "integer", []
    if all(is_number(value, decimal) for value in values):
        # 181.0, but not 1e5.
        whole = all(re.fullmatch(rf"[+-]?\d+({re.escape(decimal)}0*)?", value) for value in values)
        return ("integer", [WHOLE]) if whole else ("continuous", [])
    if dates:
        return "datetime", []
    if decimal == "." and all(is_number(value, ",") for value in values) and _grouped(values, ",") < 1.0:
        return "categorical", [f"Numbers? Then make this file again and {give('decimal', ',')}."]
    if all(is_number(value, ".") or is_number(value, ",") for value in values):
        return "categorical", [POINTS if decimal == "," else THOUSANDS if _grouped(values, ",") == 1.0 else MIXED]
    forms = _forms_of_dates(values)
    if len(forms) > 1:
        return "categorical", [FORMS]
    if forms and date_format is None:
        return "categorical", ["Dates? Then make this file again and state how they are written: "
                               f"{give('date_format', '%d.%m.%Y')}."]
    return "categorical", _doubts_of_numbers([value.strip() for value in values], decimal)


def _grouped(values: list[str], sign: str) -> float:
    """Return the part of the values with a sign that have it before groups of three digits alone."""
    signed = [value for value in values if sign in value]
    return sum(bool(re.fullmatch(rf"[+-]?[1-9]\d{{0,2}}({re.escape(sign)}\d{{3}})+", value)) for value in signed) / max(
        len(signed), 1)


def _doubts_of_numbers(values: list[str], decimal: str) -> list[str]:
    """Return a comment if most of some texts are numbers in another form, or all are times of a day."""
    if all(TIME_OF_DAY.fullmatch(value) for value in values):
        return [TIMES]
    if any(re.match(r"[+-]?0\d", value) for value in values):
        return []
    causes = [cause_of_number(value, decimal) for value in values]
    units = [WITH_UNIT.fullmatch(value) is not None for value in values]
    # A reader takes "true" for 1, but who wrote it meant no number.
    numbers = [cause in ("", "thousands", "decimal sign") and any(map(str.isdigit, value))
               for cause, value in zip(causes, values, strict=True)]
    if sum(a or b for a, b in zip(numbers, units, strict=True)) < MOST_ARE * len(values):
        return []
    if any(cause in ("thousands", "decimal sign") for cause in causes):
        return [POINTS if decimal == "," else THOUSANDS]
    return [MOSTLY if 2 * sum(numbers) >= len(values) else UNITS]


def _forms_of_dates(values: list[str]) -> set[str]:
    """Return the forms of values that all look like dates, or an empty set if one does not."""
    forms, orders = set(), set()
    for value in map(str.strip, values):
        numbers = re.fullmatch(NUMBERS, value)
        if numbers:
            forms.add(numbers[2])
            orders |= {numbers[2] + order for order, part in (("day first", numbers[1]), ("month first", numbers[3]))
                       if int(part) > 12}
        else:
            found = [form for form in (ISO, YEAR_FIRST, NAMED) if re.fullmatch(form, value)]
            if not found:
                return set()
            forms.add(found[0])
    return forms if len(orders) < 2 else orders
