"""Results of a few sentences and tables: for a terminal, a notebook and a page of their own."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trigmech._files import write_whole
from trigmech._html import html_lines, html_table
from trigmech._optional import need
from trigmech.report.sections import page_path
from trigmech.report.statement import Table

FOOTER = "Written by trigmech; the same arguments give the same page."


@dataclass(frozen=True, eq=False)
class Section:
    """One part of a result: a title, a table, a sentence about it, and a figure as its bytes' place on the page."""

    title: str
    table: Table
    words: str = ""
    picture: dict[str, Any] | None = None


@dataclass(frozen=True, eq=False, repr=False)
class Tabled:
    """Sentences and tables.

    Parameters
    ----------
    title : str
    sentences : tuple of str
    parts : tuple of Section
    facts : dict
        The same, and more, as plain data.
    private : bool
        Whether some of it was computed from a private table.
    """

    title: str
    sentences: tuple[str, ...]
    parts: tuple[Section, ...]
    facts: dict[str, Any] = field(default_factory=dict)
    private: bool = False

    def __repr__(self) -> str:
        return f"{self.title} (private)" if self.private else "\n".join((self.title, *self.sentences))

    def _repr_html_(self) -> str:
        if self.private:
            return html_table(f"{self.title}: NOT PRIVATE; show its parts one by one", [])
        return html_lines(self.title, self.sentences) + "".join(
            html_table(part.table.caption, part.table.rows, part.table.head, part.table.lights) for part in self.parts)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain data."""
        return {"private": self.private, "sentences": list(self.sentences), **self.facts}

    def write(self, path: str | Path) -> Path:
        """Write a page of its own, and return its path; a private one has "not-private" in its name.

        Raises
        ------
        InputError
            If the file cannot be written.
        """
        from trigmech.report.page import template

        need("report", "a page")
        path = page_path(path, self.private)
        page = template("tables.html").render(
            title=("NOT PRIVATE: " if self.private else "") + self.title, private=self.private,
            sentences=self.sentences, parts=self.parts, footer=FOOTER)
        write_whole(path, page.encode("utf-8"))
        return path
