"""PRIVATE. Findings of a check of a table, for its holder alone: counts, places and remedies, but no value of a row."""

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, Literal

Severity = Literal["refused", "clipped", "broken", "hint"]

# With fewer rows, or persons, the command `trigmech release` refuses a table unless it is forced.
FEWEST = 20
# A finding names the first so many of its lines.
FIRST_LINES = 5
# Severities in the order in which they are shown, with their meanings.
MEANINGS: dict[Severity, str] = {
    "refused": "A release is refused because of these",
    "clipped": "A release counts these values as others",
    "broken": "The table does not keep these declarations, which synthetic rows will keep",
    "hint": "Look at these choices of the schema",
}
BOUNDS = ("Do not copy bounds, categories or special values from this output into the schema: they come from knowledge "
          "of the subject, and the guarantee does not cover a value that was read off the table.")


@dataclass(frozen=True)
class Finding:
    """PRIVATE. One kind of fault of one column, or of the table.

    Parameters
    ----------
    column : str or None
        The column's name; None for the table as a whole, and for a constraint.
    severity : {"refused", "clipped", "broken", "hint"}
        A release is refused; values count as others; a declaration does not hold; or a choice looks suspicious.
    kind : str
        A short name of the fault, the same in all versions, such as "missing" or "no category".
    count : int
        How many rows (or names) it concerns, exactly.
    lines : tuple of int
        The first of these rows: their lines in a CSV file, the first line being 1, or the numbers of the rows, from 1.
        Empty if it concerns no rows in particular.
    sentence : str
        The fault in words. Names of columns and categories are the schema's; no value of a row is quoted.
    remedy : str
        The next step for its holder.
    """

    column: str | None
    severity: Severity
    kind: str
    count: int
    lines: tuple[int, ...]
    sentence: str
    remedy: str


@dataclass(frozen=True)
class Findings:
    """PRIVATE. Everything that :func:`trigmech.check` found; it is exact, so nothing of it may be published.

    Parameters
    ----------
    found : tuple of Finding
        The gravest first; within a severity the table's own, then those of columns in the schema's order.
    rows : int
        Rows that were read; rows that cannot be split into cells are not among them.
    places : {"line", "row"}
        Whether the numbers in ``lines`` count lines or rows.
    """

    found: tuple[Finding, ...]
    rows: int
    places: Literal["line", "row"]

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.found)

    def __len__(self) -> int:
        return len(self.found)

    def __repr__(self) -> str:
        # A repr comes into logs, and counts are private too.
        return "Findings(private)"

    @property
    def refused(self) -> bool:
        """Whether a release of the table would be refused."""
        return any(finding.severity == "refused" for finding in self.found)

    def counts(self, kinds: Iterable[str] | None = None) -> dict[str, dict[str, int]]:
        """Return counts by column and kind, of columns alone; by default of all kinds."""
        wanted = None if kinds is None else set(kinds)
        found: dict[str, dict[str, int]] = {}
        for each in self.found:
            if each.column is not None and (wanted is None or each.kind in wanted):
                of_column = found.setdefault(each.column, {})
                of_column[each.kind] = of_column.get(each.kind, 0) + each.count
        return found

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain data for JSON, marked as private."""
        return {"private": True, "refused": self.refused, "rows": self.rows, "places": self.places,
                "verdict": self.verdict, "warning": BOUNDS, "findings": [asdict(each) for each in self.found]}

    @property
    def verdict(self) -> str:
        """The first sentence: whether a release would be refused, and how many findings there are."""
        counts = {severity: sum(each.severity == severity for each in self.found) for severity in MEANINGS}
        if not self.found:
            return f"Nothing was found in {times(self.rows, 'row')}: a release would read the table as the schema says."
        told = "A release would be refused" if self.refused else "A release would not be refused"
        numbers = ", ".join(times(count, "hint") if severity == "hint" else f"{count:,} {severity}"
                            for severity, count in counts.items() if count)
        return f"{told}. {times(self.rows, 'row')} {'was' if self.rows == 1 else 'were'} read; findings: {numbers}."

    def __str__(self) -> str:
        text = [self.verdict]
        for severity, meaning in MEANINGS.items():
            own = [each for each in self.found if each.severity == severity]
            if own:
                text += ["", f"{meaning}:"]
                text += [line for each in own for line in (
                    f"  {'the table' if each.column is None else repr(each.column)}: {printable(each.sentence)}"
                    f"{self._where(each)}", f"      {printable(each.remedy)}")]
        return "\n".join([*text, "", BOUNDS] if self.found else text)

    def _where(self, each: Finding) -> str:
        if not each.lines:
            return ""
        more = ", ..." if each.count > len(each.lines) else ""
        return f" ({self.places}{'s' * (len(each.lines) > 1)} {', '.join(map(str, each.lines))}{more})"


def printable(text: str) -> str:
    """Return a text without letters that a terminal would take for commands."""
    return "".join(sign if sign.isprintable() else repr(sign)[1:-1] for sign in text)


def times(count: int, one: str, several: str | None = None) -> str:
    """Return a count with its noun: "1 value", "2,000 values"."""
    return f"{count:,} {one if count == 1 else several or one + 's'}"
