"""PRIVATE. A worker reads a piece of a table, and answers with sums. Nothing else of the piece leaves the worker.

The messages of the libraries beneath may quote cells, and other programs log and show the errors of a worker. So it
raises no error: an answer has a problem instead, in this package's own words, or as the bare type of an error.
"""

import pickle
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from trigmech.errors import InputError, TrigmechError, WorkerError
from trigmech.measurement.persons import chunk_of
from trigmech.measurement.sums import Chunk, Statistic, Total
from trigmech.schema.schema import Schema


@dataclass(frozen=True, eq=False)
class Persons:
    """The statistic of nothing but how many persons there are."""

    size = 0

    def add(self, chunk: Chunk, total: Total) -> None:
        total.n += chunk.persons

    def check(self, total: Total) -> None:
        """Raise nothing."""


@dataclass(frozen=True, eq=False)
class PieceQuestion:
    """The question to each piece; public.

    ``schema`` maps rows to points, and names the person; cells of files are read by ``first``, see
    :meth:`trigmech.measurement.rows.PrivateTable.rows`. ``raw`` rows are asked as they are.
    """

    asked: Statistic
    schema: Schema
    first: Schema
    raw: bool = False

    @property
    def columns(self) -> list[str]:
        """The names of the columns that are needed."""
        names = list(self.schema.names)
        return names if self.schema.person is None else [*names, self.schema.person]

    def packed(self) -> bytes:
        """Return the question as workers take it, or raise an InputError if a part of it cannot leave this process."""
        try:
            from cloudpickle import dumps  # Takes functions of a program's own file as well.
        except ImportError:
            from pickle import dumps
        try:
            return dumps(self)
        except Exception as problem:
            raise InputError("the mechanism's queries cannot be sent to other processes "
                             f"({type(problem).__name__}): define custom functions at the top level of a module"
                             ) from None


class PieceSums(NamedTuple):
    """The sums of a piece; **private**.

    The ``limbs`` of the :class:`Total` are 64-bit integers with the low byte first; ``n`` counts persons. With a
    ``problem`` there are no sums; it is the worker's if it ``failed``, and otherwise the table's.
    """

    limbs: bytes
    n: int
    problem: str = ""
    failed: bool = False

    def __repr__(self) -> str:
        return f"Answer(n={self.n}, problem={self.problem!r}, values hidden)"

    @property
    def total(self) -> Total:
        """The sums; a problem is raised as the error that it is."""
        if self.problem:
            raise (WorkerError if self.failed else InputError)(self.problem)
        total = Total(0)
        total.limbs, total.n = np.frombuffer(self.limbs, dtype="<i8").reshape(2, -1).astype(np.int64), self.n
        return total


def answered(packed: bytes, tables: Callable[[PieceQuestion], Iterable[Any]]) -> PieceSums:
    """Return the answer to a packed question; each of the ``tables`` of the piece has all rows of its persons."""
    try:
        question: PieceQuestion = pickle.loads(packed)
        total = Total(question.asked.size)
        for table in tables(question):
            chunk = chunk_of(table, question.schema, question.raw)
            # Mapped once, for all statistics.
            question.asked.add(chunk if question.raw else chunk.mapped(), total)
        return PieceSums(total.limbs.astype("<i8").tobytes(), total.n)
    except TrigmechError as error:
        return PieceSums(b"", 0, str(error))
    except MemoryError:
        return PieceSums(b"", 0, "a worker did not have enough memory for a piece of the table: use fewer workers, or "
                                "smaller row groups or partitions", True)
    except Exception as error:
        return PieceSums(b"", 0, f"a worker failed on a piece of the table ({type(error).__name__})", True)
