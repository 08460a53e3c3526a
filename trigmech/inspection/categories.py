"""PRIVATE. A check of one column of categories: values that are refused or count as others, and suspicious choices."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from trigmech._arrays import Integers
from trigmech.inspection.findings import FEWEST, Finding, times
from trigmech.inspection.numbers import CONSTANT, IDENTIFIER, ColumnLook
from trigmech.inspection.tallies import DifferentTexts, Lines, Mask
from trigmech.inspection.words import finding, hint
from trigmech.schema.column import Column
from trigmech.schema.encoding import ABSENT, UNKNOWN, codes_of
from trigmech.tables.csv_cells import is_whole_number
from trigmech.tables.frames import Columns
from trigmech.tables.scalars import is_missing

# A column with so many categories that are all whole numbers may be one of numbers.
MANY_NUMBERS = 10
# A finding names at most so many categories; unknown values are told apart up to so many.
NAMED, TOLD_APART = 8, 1_000


class CategoryLook(ColumnLook):
    """The counts of a column of categories."""

    def __init__(self, column: Column) -> None:
        super().__init__(column, "missing", "no category", "no category, but for capitals", "other")
        self._counts = np.zeros(len(column.categories or ()), dtype=np.int64)
        self._folded = {each.strip().casefold() for each in column.categories or () if isinstance(each, str)}
        self._unknown: set[int] = set()
        self._texts = DifferentTexts()
        self._known = 0
        self._only: set[int] = set()

    def add(self, table: Columns, j: int, bad: Mapping[str, Mask], lines: Lines) -> Integers:
        """Count a chunk's values; return their category numbers (k,), ABSENT or UNKNOWN."""
        self._mark_bad(bad, lines)
        self._rows += len(lines)
        if self._column.private_categories:
            return self._add_texts(table, j, lines)
        codes = codes_of(self._column, table, j, other=False)
        values, places = table.distinct(j)
        absent, strange = codes == ABSENT, codes == UNKNOWN
        self._places["missing"].add(absent & (self._column.missing == "refuse"), lines)
        if self._column.other is not None:
            self._places["other"].add(strange, lines)
        elif strange.any():
            near = np.array([*(isinstance(value, str) and value.strip().casefold() in self._folded
                               for value in values), False])[places] & strange
            self._places["no category, but for capitals"].add(near, lines)
            self._places["no category"].add(strange & ~near, lines)
            self._tell_apart(values, places[strange & ~near])
        self._counts += np.bincount(codes[codes >= 0], minlength=len(self._counts))
        return codes if self._column.other is None else codes_of(self._column, table, j)

    def _tell_apart(self, values: list[Any], places: Integers) -> None:
        for place in np.unique(places[places >= 0]).tolist():
            if len(self._unknown) < TOLD_APART:
                self._unknown.add(hash(str(values[place]).strip()))

    def _add_texts(self, table: Columns, j: int, lines: Lines) -> Integers:
        values, codes = table.distinct(j)
        absent = np.array([*map(is_missing, values), True])[codes]
        self._places["missing"].add(absent & (self._column.missing == "refuse"), lines)
        held = np.unique(codes[~absent]).tolist()
        texts = {str(values[code]).strip() for code in held}
        self._known += int(np.count_nonzero(~absent))
        self._texts.add(texts, int(np.count_nonzero(~absent)))
        if len(self._only) < 2:
            self._only |= {hash(text) for text in list(texts)[:2]}
        return np.where(absent, ABSENT, UNKNOWN)

    def findings(self) -> list[Finding]:
        name, count = self._column.name, len(self._unknown)
        found = [each for kind, places in self._bad.items() for each in finding(name, kind, places)]
        for kind, places in self._places.items():
            more = ""
            if kind == "no category" and count < TOLD_APART:
                more = f" ({times(count, 'different value')})"
            found += finding(name, kind, places, more)
        return found + (self._hints_of_private() if self._column.private_categories else self._hints())

    def _hints(self) -> list[Finding]:
        column, known = self._column, int(self._counts.sum())
        categories = column.categories or ()
        found = []
        if known == self._rows > 1 and self._counts.max() == known:
            found.append(hint(column.name, "constant", known, (), f"all {times(known, 'row')} hold the same category",
                              CONSTANT))
        never = [str(each) for each, count in zip(categories, self._counts, strict=True)
                 if count == 0 and each != column.other]
        if never and known >= FEWEST and not found:
            names = ", ".join(map(repr, never[:NAMED])) + (f" and {len(never) - NAMED} more" if len(never) > NAMED
                                                            else "")
            found.append(hint(column.name, "never occurs", len(never), (), (
                f"{times(len(never), 'category', 'categories')} in no row: {names}"), (
                "check their spelling; keep every category that is possible, because the list must not depend on "
                "the table")))
        texts = [each if isinstance(each, str) else str(each) for each in categories if not isinstance(each, bool)]
        if column.kind == "categorical" and len(texts) >= MANY_NUMBERS and all(
                is_whole_number(text) and str(int(text)) == text for text in map(str.strip, texts)):
            found.append(hint(column.name, "numbers", len(texts), (), f"all {len(texts)} categories are whole numbers",
                              "if they are quantities and not codes, kind = \"integer\" with bounds is better; if "
                              "they have an order, \"ordinal\""))
        return found

    def _hints_of_private(self) -> list[Finding]:
        name, texts = self._column.name, self._texts
        if self._known == self._rows > 1 and len(self._only) == 1:
            return [hint(name, "constant", self._known, (), f"all {times(self._known, 'row')} hold the same value",
                         CONSTANT)]
        if texts.all and texts.count >= FEWEST:
            return [hint(name, "identifier", texts.count, (), f"all {texts.count:,} values are different, as names "
                         "and identifiers are", IDENTIFIER)]
        return []
