"""PRIVATE. A table that workers measure, as the steps see it."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from trigmech._validate import lacks
from trigmech.engines.question import Persons, PieceQuestion, PieceSums
from trigmech.errors import InputError, TrigmechError, WorkerError
from trigmech.measurement.persons import chunk_of
from trigmech.measurement.rows import PrivateRows, Progress, check_enough, completed_for_check, silent
from trigmech.measurement.sums import Chunk, Statistic, Total
from trigmech.schema.schema import Schema

NO_CATEGORIES = ("Dask and Spark cannot find private categories; give the categories in the schema, or measure "
                 "Parquet files without an engine")


class Workers(Protocol):
    """A table in pieces, and the workers that measure them: the interface of an engine."""

    library: str | None
    categorical: tuple[str, ...]

    def n(self, schema: Schema) -> int | None:
        """Return the number of persons, if it can be had without asking each piece."""

    def answers(self, question: PieceQuestion) -> Iterable[PieceSums]:
        """Yield the answer of each piece, once, in any order."""

    def tables(self, schema: Schema) -> Iterable[Any]:
        """Yield the table, as it is, in parts that each have all rows of their persons."""

    def close(self) -> None:
        """Release the workers that were started for this table."""


class ClusterWorkers:
    """The common part of the workers of Dask and Spark: they keep the cells."""

    def __init__(self, schema: Schema) -> None:
        if schema.private_categories:
            raise InputError(NO_CATEGORIES)

    def tables(self, schema: Schema) -> Iterable[Any]:
        """Refuse, because only the workers have the cells."""
        raise InputError(NO_CATEGORIES)


def check_columns(held: Sequence[str], wanted: Iterable[str]) -> None:
    """Raise an InputError if a DataFrame lacks a column of the schema, or has two of one name."""
    if rule := lacks(wanted, held):
        raise InputError(f"the table {rule}")
    if len(set(held)) < len(held):
        raise InputError("the table's column names must be distinct")


def row_free(work: Callable[[], Any], why: str, **causes: str) -> Any:
    """Return a library's result, or raise an error without the library's words, which could quote a row.

    The error says ``why``, or the text that the causes have for the name of the library's error. This name takes the
    place of {}.
    """
    try:
        return work()
    except (TrigmechError, MemoryError):
        raise
    except Exception as problem:
        name = type(problem).__name__
        raise WorkerError(causes.get(name, why).format(name)) from None


class SpreadTable:
    """A table that workers measure; see :class:`trigmech.measurement.rows.PrivateTable`.

    It is read at the start, to be checked, only if something of the schema is private.
    """

    def __init__(self, workers: Workers, schema: Schema, progress: Progress | None = None, least: int = 2) -> None:
        self._workers, self._schema, self.say = workers, schema, progress or silent
        self.library, self.categorical = workers.library, workers.categorical
        checking = bool(schema.private_bounds or schema.private_categories)
        self.say("checking the table and the options" if checking else "counting rows and planning", 0, 0)
        self._complete = completed_for_check(schema)
        n = None if checking else workers.n(schema)
        if n is None:
            n = self.sums(PieceQuestion(Persons(), self._complete, schema, raw=not checking)).n
        self.n = n
        check_enough(n, schema, least)

    def __repr__(self) -> str:
        return f"SpreadTable(n={self.n}, values hidden)"

    def raw(self, schema: Schema) -> PrivateRows:
        return _SpreadRows(self.n, self._complete.domain, lambda: (chunk_of(table, schema, raw=True) for table in
                                                                   self._workers.tables(schema)), self, schema,
                           schema, True)

    def rows(self, schema: Schema, found: bool = False) -> PrivateRows:
        complete, first = (schema, schema) if found else (self._complete, self._schema)
        return _SpreadRows(self.n, complete.domain, _nowhere, self, complete, first, False)

    def sums(self, question: PieceQuestion, n: int = 0) -> Total:
        """Return the sums over all pieces, of so many persons if that is known; private."""
        total = Total(question.asked.size)
        if n and question.schema.person is not None:
            self.say("measuring", 0, 0)
        for answer in self._workers.answers(question):
            total += answer.total
            # How many persons have which hash is private.
            if n and question.schema.person is None:
                self.say("measuring", total.n, n)
        if n:
            self.say("releasing and fitting", 0, 0)
        return total


@dataclass(frozen=True, eq=False)
class _SpreadRows(PrivateRows):
    table: SpreadTable
    schema: Schema
    first: Schema
    raw: bool

    def sums(self, asked: Statistic) -> Total:
        total = self.table.sums(PieceQuestion(asked, self.schema, self.first, self.raw), self.n)
        self.check(total)
        return total


def _nowhere() -> Iterator[Chunk]:
    raise InputError("the rows stay with the workers, which return only sums")
