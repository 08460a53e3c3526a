"""PRIVATE. A table, and its rows as points of the cube."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, Self

from trigmech._arrays import Array
from trigmech._validate import numbers
from trigmech.domain import Domain
from trigmech.errors import InputError
from trigmech.measurement.kept import Kept
from trigmech.measurement.persons import Buckets, Reading, chunk_of, read_by
from trigmech.measurement.sums import Chunk, Statistic, Total
from trigmech.schema.column import CATEGORIES
from trigmech.schema.schema import Schema, counted
from trigmech.tables.frames import categorical_names, collected, library_of
from trigmech.tables.parquet_files import ParquetFiles
from trigmech.tables.reader import TableFile

# Called with the name of a step, the finished amount and the total (0: not known); all public.
Progress = Callable[[str, int, int], None]


def silent(step: str, done: int, total: int, /) -> None:
    """Tell nobody."""


@dataclass(frozen=True, eq=False)
class PrivateRows:
    """The rows of a table as points of the cube, which may be too many for memory.

    Parameters
    ----------
    n : int
        Number of persons; public.
    domain : Domain
        The kinds of the coordinates; public.
    chunks : callable, private
        Each call returns all rows again, in chunks or in arrays (k, D) of any length.
    """

    n: int
    domain: Domain
    chunks: Callable[[], Iterable[Array | Chunk]]

    @classmethod
    def of(cls, X: Array, domain: Domain | None = None) -> "PrivateRows":
        """Return the rows of an array (n, d)."""
        X = numbers("the rows", X, "n", "d")
        return cls(len(X), domain or Domain(X.shape[1]), lambda: (X,))

    @property
    def d(self) -> int:
        """The number of coordinates."""
        return self.domain.d

    def __repr__(self) -> str:
        return f"PrivateRows(n={self.n}, d={self.d}, values hidden)"

    def sums(self, asked: Statistic) -> Total:
        """Return the sums of a statistic over the persons; private.

        Raises
        ------
        InputError
            If the rows break a rule of the statistic, or the number of persons differs from the stated one.
        """
        total = Total(asked.size)
        for chunk in self.chunks():
            asked.add(chunk if isinstance(chunk, Chunk) else Chunk(chunk, self.domain), total)
        self.check(total)
        return total

    def check(self, total: Total) -> None:
        """Raise an InputError if the sums count more or fewer persons than n."""
        if total.n != self.n:
            raise InputError(f"the table had {self.n} rows before and now has {total.n}; it changed while it was read")


class TableSource(Protocol):
    """A table, as a run uses it: in this process or on workers."""

    n: int
    library: str | None
    categorical: tuple[str, ...]

    def say(self, step: str, done: int, total: int, /) -> None:
        """Report progress."""

    def raw(self, schema: Schema) -> PrivateRows:
        """Return the schema's columns of the table, not mapped to points."""

    def rows(self, schema: Schema, found: bool = False) -> PrivateRows:
        """Return the rows as points of the cube; ``found`` if bounds or categories of the schema were private."""


def persons_of(file: TableFile | ParquetFiles, schema: Schema) -> int:
    """Return the number of persons in a file; public. Without a column of persons, each row is a person."""
    if schema.person is None:
        return file.n
    # Without a header, the place among all columns identifies a column.
    named = not isinstance(file, TableFile) or file.options.get("header", True)
    buckets = Buckets(file, Reading(person=schema.person) if named else schema)
    buckets.close()
    return buckets.n


def completed_for_check(schema: Schema) -> Schema:
    """Return a schema whose private bounds and categories are made up: a table that fits it has no other fault."""
    # All kinds and transforms allow these bounds.
    complete = schema.with_bounds(dict.fromkeys(schema.private_bounds, (1.0, 2.0)))
    return complete.with_categories(dict.fromkeys(schema.private_categories, ()))


def check_enough(n: int, schema: Schema, least: int) -> None:
    """Raise an InputError if a table has fewer rows, or persons, than a release needs."""
    if n < least:
        raise InputError(f"a release needs at least {least} {counted(schema)}; the table has {n}")


class PrivateTable:
    """A table that is checked against its schema and can be read several times.

    table (n, d), private: A lazy table, or one that can be read only once, is read into memory. A file is read in
      chunks; if the schema has a column of persons, :class:`trigmech.measurement.persons.Buckets` groups its rows.
    schema: Its private bounds and categories may be unknown yet. Then only the rest of the table is checked.
    progress: Called with public facts only.
    least: The smallest accepted number of persons.

    Public are ``n``, the number of persons (without a column of persons, of rows); ``library``, the dataframe's,
    "pyarrow" for a file; and ``categorical``, the columns that the dataframe holds in a categorical type.

    Raises an InputError if the table does not fit the schema, or has fewer than ``least`` persons. A file is read for
    this check only if the schema has private bounds or categories.
    """

    def __init__(self, table: Any, schema: Schema, progress: Progress | None = None, least: int = 2) -> None:
        self.say = progress or silent
        self._table = TableFile(table) if isinstance(table, str | Path) else (
            table if isinstance(table, ParquetFiles) else collected(table))
        self._file = isinstance(self._table, TableFile | ParquetFiles)
        if isinstance(self._table, ParquetFiles):
            self._table.check(read_by(schema))
        self.library = "pyarrow" if self._file else library_of(self._table)
        self.categorical = categorical_names(
            self._table, [column.name for column in schema.columns if column.kind in CATEGORIES])
        checking = bool(schema.private_bounds or schema.private_categories)
        self.say("checking the table and the options" if checking else self._next, 0, 0)
        complete = completed_for_check(schema)
        self._buckets = Buckets(self._table, schema) if self._file and schema.person is not None else None
        # Closes the temporary files.
        self._open = ExitStack()
        if self._buckets is not None:
            self._open.callback(self._buckets.close)
        self._rows = self._encoded(complete, schema, quiet=checking)
        self.n = self._rows.n
        check_enough(self.n, schema, least)
        if checking:
            for _ in self._rows.chunks():
                pass

    def __repr__(self) -> str:
        return f"PrivateTable(n={self.n}, values hidden)"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def raw(self, schema: Schema) -> PrivateRows:
        return PrivateRows(self.n, self._rows.domain,
                           lambda: (chunk_of(part, schema, raw=True) for part in self._parts(schema)))

    def rows(self, schema: Schema, found: bool = False) -> PrivateRows:
        if not found:
            return self._rows
        self.say(self._next, 0, 0)
        return self._encoded(schema, schema)

    @property
    def _next(self) -> str:
        return "counting rows and planning" if self._file else "planning, measuring and fitting"

    def _parts(self, schema: Schema) -> Iterable[Any]:
        """Return the table in one or more parts. Each part holds all rows of its persons."""
        if self._buckets is not None:
            return self._buckets.tables()
        return self._table.chunks(schema) if self._file else (self._table,)

    def _encoded(self, schema: Schema, first: Schema, quiet: bool = False) -> PrivateRows:
        """Return the rows. A file's cells are read by the schema ``first``, which may lack found bounds or categories.

        A mark of missing values counts as missing unless it is one of the categories. So a value that is missing by the
        complete schema is also missing by the incomplete one. A table that is refused is therefore refused before the
        private categories are found.
        """
        if not self._file:
            # Mapped once, for all rounds.
            mapped = chunk_of(self._table, schema).mapped()
            return PrivateRows(mapped.persons, schema.domain, lambda: (mapped,))
        n = self._table.n if self._buckets is None else self._buckets.n
        kept = Kept(lambda: (chunk_of(part, schema).mapped() for part in self._parts(first)))
        # A pass that only checks is not repeated.
        source = kept.encoded if quiet else kept.chunks
        self._open.callback(kept.close)

        def chunks() -> Iterator[Chunk]:
            done = 0
            if not quiet and schema.person is not None:
                self.say("measuring", 0, 0)
            for mapped in source():
                done += mapped.persons
                # The number of parts, and of persons in each, depends on hashes and is private.
                if not quiet and schema.person is None:
                    self.say("measuring", done, n)
                yield mapped
            if not quiet:
                self.say("releasing and fitting", 0, 0)

        return PrivateRows(n, schema.domain, chunks)
