"""PRIVATE. A check of one column of numbers or times: values that are refused or clipped, and suspicious choices."""

import math
from collections.abc import Mapping

import numpy as np

from trigmech._arrays import Array
from trigmech.inspection.findings import FEWEST, Finding, times
from trigmech.inspection.tallies import Different, Frequent, Lines, MarkedRows, Mask
from trigmech.inspection.words import finding, hint
from trigmech.schema.column import Column
from trigmech.schema.encoding import transformed
from trigmech.schema.rounding import default_digits

# Bounds so many times as far apart as the values make noise as many times too large.
TOO_WIDE = 1_000.0
# Digits after the point that are looked for, and the most for which a hint asks for more than the default has.
MOST_DIGITS, MORE_DIGITS = 6, 2
# A value that this part of all rows holds, and at least so many rows, may be special, in a column with at least so many
# different values: if it is 0, the smallest or the largest one, beyond the bounds, or a tenth of the values' range from
# all others.
SPECIAL_SHARE, SPECIAL_ROWS, SPECIAL_DIFFERENT, APART = 0.05, 10, 20, 0.1
# Numbers with fewer different values than that may be categories, if there are at least so many rows, and so many for
# each value, and if more whole numbers are possible than the third: up to there each is measured alone.
LEAST_ROWS, ROWS_FOR_EACH, MEASURED_ALONE = 100, 10, 64


class ColumnLook:
    """The rows of a column that are marked: by the reader as bad, and here by kinds of findings."""

    def __init__(self, column: Column, *kinds: str) -> None:
        self._column, self._rows = column, 0
        self._places = {kind: MarkedRows() for kind in kinds}
        self._bad: dict[str, MarkedRows] = {}

    def _mark_bad(self, bad: Mapping[str, Mask], lines: Lines) -> None:
        for kind, mask in bad.items():
            self._bad.setdefault(kind, MarkedRows()).add(mask, lines)


class NumberLook(ColumnLook):
    """The counts of a column of numbers, binary values or times."""

    def __init__(self, column: Column) -> None:
        super().__init__(column, "missing", "infinite", "far outside", "outside", "finer", "not whole", "decimals",
                         "neither")
        self._frequent, self._different = Frequent(), Different()
        self._digits = 0
        self._low, self._high = math.inf, -math.inf
        self._special = np.array([column.number(value) for value in column.special])

    def add(self, values: Array, bad: Mapping[str, Mask], lines: Lines) -> Array:
        """Count a chunk's values (k,), NaN where missing or bad, times in seconds; return them in the column's unit."""
        column, places = self._column, self._places
        absent = np.isnan(values)
        self._mark_bad(bad, lines)
        for mask in bad.values():
            absent = absent & ~mask
        places["missing"].add(absent & (column.missing == "refuse"), lines)
        places["infinite"].add(np.isinf(values), lines)
        if column.seconds > 1:
            places["finer"].add(np.isfinite(values) & (values % column.seconds != 0.0), lines)
            values = np.floor(values / column.seconds)
        self._rows += len(values)
        finite = np.isfinite(values) & ~np.isin(values, self._special)
        self._count_outside(values, finite, lines)
        self._count_finer(values, np.isfinite(values), lines)
        held = values[finite]
        self._frequent.add(held, lines[finite])
        self._different.add(held)
        self._digits = max(self._digits, digits_of(held)) if column.kind == "continuous" else 0
        return values

    def _count_outside(self, values: Array, finite: Mask, lines: Lines) -> None:
        column, inside = self._column, finite
        if not column.private_bounds:
            lower, upper = column.bounds
            with np.errstate(invalid="ignore", over="ignore"):
                beyond = np.where(finite, np.maximum(lower - values, values - upper), 0.0)
            self._places["far outside"].add(beyond > upper - lower, lines)
            self._places["outside"].add((beyond > 0.0) & (beyond <= upper - lower), lines)
            inside = finite & (beyond <= 0.0)
            if column.kind == "binary":
                self._places["neither"].add(inside & (values != lower) & (values != upper), lines)
        if inside.any():
            self._low = min(self._low, float(values[inside].min()))
            self._high = max(self._high, float(values[inside].max()))

    def _count_finer(self, values: Array, finite: Mask, lines: Lines) -> None:
        with np.errstate(invalid="ignore", over="ignore"):
            if self._column.kind == "integer":
                self._places["not whole"].add(finite & (values % 1.0 != 0.0), lines)
            if self._column.decimals is not None:
                self._places["decimals"].add(finite & ~has_digits(values, self._column.decimals), lines)

    def findings(self) -> list[Finding]:
        name = self._column.name
        found = [each for kind, places in {**self._bad, **self._places}.items() for each in finding(name, kind, places)]
        bad = sum(places.count for places in self._bad.values())
        return [*found, *(self._hints() if bad < self._rows else [])]

    def _hints(self) -> list[Finding]:
        name, known = self._column.name, self._frequent.total
        if not known:
            only = self._rows > 1 and not self._special.size and not any(each.count for each in self._bad.values())
            return [hint(name, "constant", self._rows, (), "no row holds a value", CONSTANT)] if only else []
        if self._frequent.complete and self._frequent.different == 1 and known == self._rows > 1:
            return [hint(name, "constant", known, (), f"all {times(known, 'row')} hold the same value", CONSTANT)]
        return [*self._identifier(), *self._wide(), *self._spikes(), *self._few(), *self._decimals()]

    def _identifier(self) -> list[Finding]:
        seen = self._different
        whole = self._column.kind in ("integer", "continuous") and self._digits == 0
        if not (whole and seen.all and seen.count >= FEWEST and not self._places["not whole"].count):
            return []
        return [hint(self._column.name, "identifier", seen.count, (),
                     f"all {seen.count:,} values are different whole numbers, as identifiers are", IDENTIFIER)]

    def _wide(self) -> list[Finding]:
        column = self._column
        if column.private_bounds or column.kind == "binary" or not self._low < self._high or self._rows < FEWEST:
            return []
        ends = transformed(column, np.array([*column.bounds, self._low, self._high]))
        if not (ends[1] - ends[0]) / TOO_WIDE > ends[3] - ends[2]:
            return []
        return [hint(column.name, "too wide", self._rows, (), f"the bounds are more than {TOO_WIDE:,.0f} times as far "
                     "apart as the values", "noise grows with the distance of the bounds: check the unit, and whether "
                     "you know tighter bounds or a transform from the subject; do not take them from the values")]

    def _spikes(self) -> list[Finding]:
        column, seen = self._column, self._frequent
        if column.kind == "binary" or seen.different < SPECIAL_DIFFERENT or self._rows < FEWEST:
            return []
        values = seen.some
        reach = APART * (values[-1] - values[0])
        lower, upper = (-math.inf, math.inf) if column.private_bounds else column.bounds
        found = []
        for value, count, lines in seen.above(max(SPECIAL_SHARE * self._rows, SPECIAL_ROWS)):
            others = np.abs(values[values != value] - value)
            if not (value in (0.0, values[0], values[-1]) or not lower <= value <= upper or others.min() > reach):
                continue
            more = "" if lower <= value <= upper else " outside the bounds"
            found.append(hint(column.name, "special", count, lines, (
                f"{times(count, 'row')} ({count / self._rows:.0%}) hold the same value{more}"), SPECIAL))
        return found

    def _few(self) -> list[Finding]:
        column, seen = self._column, self._frequent
        if (column.kind not in ("integer", "continuous") or not seen.complete or seen.different >= SPECIAL_DIFFERENT
                or seen.total < max(LEAST_ROWS, ROWS_FOR_EACH * seen.different)):
            return []
        if column.kind == "integer" and not column.private_bounds and column.bounds[1] - column.bounds[0] < (
                MEASURED_ALONE):
            return []
        return [hint(column.name, "few values", seen.total, (), f"all numbers are among {seen.different} values", FEW)]

    def _decimals(self) -> list[Finding]:
        column, digits = self._column, self._digits
        default = default_digits(column)
        if default is None or default[0] <= digits <= default[1] or self._rows < FEWEST or digits > MOST_DIGITS:
            return []
        # More digits than the default are mostly those of a computation, but prices have two.
        if digits > default[1] and digits > MORE_DIGITS:
            return []
        kind = 'kind = "integer", or ' if digits == 0 else ""
        remedy = (f"if that is a fact of the subject, write {kind}decimals = {digits}; synthetic values have "
                  f"{default[1]} otherwise")
        said = f"no value has more than {times(digits, 'digit')} after the point" if digits else (
            "all values are whole numbers")
        return [hint(column.name, "decimals", self._rows, (), said, remedy)]


CONSTANT = "leave out a column that has the same value for everybody: it needs no release"
IDENTIFIER = ("leave out a column that identifies rows; if it identifies persons with several rows, name it as the "
              "schema's person")
FEW = ('if only a few values are possible in the subject, give the column kind = "ordinal" and list all of them as '
       "categories: synthetic rows then hold these values alone")
SPECIAL = ("if it is known that many rows hold this value exactly (such as 0 = nothing), list it in the option "
           "special; if it means missing, empty the cells")


def has_digits(values: Array, digits: int) -> Mask:
    """Return where numbers (k,) have at most so many digits after the point."""
    scale = 10.0**digits
    with np.errstate(invalid="ignore", over="ignore"):
        scaled = values * scale
        found: Mask = (np.rint(scaled) / scale == values) | ~np.isfinite(scaled)
    return found


def digits_of(values: Array) -> int:
    """Return the most digits after the point that one of finite numbers (k,) has, or more than :data:`MOST_DIGITS`."""
    for digits in range(MOST_DIGITS + 1):
        values = values[~has_digits(values, digits)]
        if not len(values):
            return digits
    return MOST_DIGITS + 1
