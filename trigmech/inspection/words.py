"""Findings in words: for each kind of fault its severity, a sentence and a remedy. No value of a row is quoted."""

from collections.abc import Sequence
from typing import NamedTuple

from trigmech.inspection.findings import Finding, Severity, times
from trigmech.inspection.tallies import MarkedRows

MISSING_MARKS = ("list these marks below [file] in the schema file, such as missing = [\"\", \"n/a\"], and choose an "
                 "option for missing values (missing = \"keep\")")


class Fault(NamedTuple):
    """A kind of fault: the counted thing, a statement about it, and the next step."""

    severity: Severity
    one: str
    said: str
    remedy: str


KINDS: dict[str, Fault] = {
    # Refused
    "mark": Fault("refused", "cell", "with a mark that looks like a missing value", MISSING_MARKS),
    "decimal sign": Fault("refused", "number", "with another decimal sign",
                          "give --decimal , (or --decimal .) if all numbers have this sign; else use one sign for all"),
    "thousands": Fault("refused", "number", "with signs between thousands, or with another decimal sign",
                       "write the numbers without signs between thousands: 1234.5, or 1234,5 with --decimal ,"),
    "unit": Fault("refused", "number", "with a unit, a currency or a percent sign",
                  "write the numbers alone, all in one unit"),
    "word": Fault("refused", "cell", "that cannot be read as the schema's kind",
                  "correct the cells; if the words are codes, make the column categorical; if they mean missing, list "
                  "them as missing below [file]"),
    "time of day": Fault("refused", "time", "of a day without its date",
                         "write the minutes after midnight, in a column of integers from 0 to 1439, or date and time "
                         "in one cell"),
    "form": Fault("refused", "date", "in another form than the expected one",
                  "state the form below [file] in the schema file, such as date_format = \"%d.%m.%Y\"; if a column has "
                  "dates in two forms, first write all of them in one"),
    "no such date": Fault("refused", "date", "that do not exist in the calendar, or with an impossible time",
                          "correct the dates, or empty the cells"),
    "type": Fault("refused", "value", "of a type that does not suit the kind",
                  "convert the column to the type of its kind, or give it another kind"),
    "missing": Fault("refused", "missing value", "which the schema refuses",
                     "decide about the meaning of a missing value: missing = \"keep\" or \"centre\" in the schema; do "
                     "not drop the rows"),
    "no category": Fault("refused", "value", "not among the categories",
                         "complete the list from knowledge of the subject, or name a category for all others by the "
                         "option other"),
    "no category, but for capitals": Fault(
        "refused", "value", "that differ from a category only in capital letters",
        "write the values as the schema writes its categories"),
    "nobody": Fault("refused", "row", "without a person",
                    "every row must belong to a person: complete the column that identifies persons"),
    # Counted as others
    "infinite": Fault("clipped", "infinite value", "which count as the nearer bound",
                      "if they mean missing, empty the cells and choose an option missing"),
    "far outside": Fault("clipped", "value", "outside the bounds by more than the width of the bounds",
                         "look for marks of missing values such as 9999, wrong units and wrong columns"),
    "outside": Fault("clipped", "value", "outside the bounds, which count as the nearer bound",
                     "look for wrong values; if they are right, check the bounds, from knowledge of the subject"),
    "other": Fault("clipped", "value", "not among the categories, which count as other",
                   "nothing, if these values should be other; otherwise complete the list from knowledge of the "
                   "subject, or write the values as the list does (capital letters count)"),
    "finer": Fault("clipped", "time", "finer than the resolution, which is cut off",
                   "nothing, if this resolution is intended; else set the option resolution"),
    # Declarations that do not hold
    "not whole": Fault("broken", "number", "with a fraction, though the column is declared as integer",
                       "synthetic values are whole numbers; if fractions matter, make the column continuous"),
    "decimals": Fault("broken", "number", "with more digits after the point than decimals declares",
                      "synthetic values have the declared digits; if more digits matter, raise decimals"),
    "neither": Fault("broken", "value", "between the two values of a binary column",
                     "correct the values, or give the column another kind"),
}


def finding(column: str | None, kind: str, places: MarkedRows, more: str = "") -> list[Finding]:
    """Return the finding of a kind of :data:`KINDS`, in a list that is empty if nothing was counted."""
    if not places.count:
        return []
    fault = KINDS[kind]
    link = ", " if fault.said.startswith("which") else " "
    said = fault.said.replace("which count ", "which counts ") if places.count == 1 else fault.said
    sentence = f"{times(places.count, fault.one)}{link}{said}{more}"
    # Both kinds of it are values that are no category.
    kind = "no category" if kind.startswith("no category") else kind
    return [Finding(column, fault.severity, kind, places.count, places.first, sentence, fault.remedy)]


def hint(column: str | None, kind: str, count: int, lines: Sequence[int], sentence: str, remedy: str) -> Finding:
    return Finding(column, "hint", kind, count, tuple(lines), sentence, remedy)
