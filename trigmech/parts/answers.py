"""Questions to a table that is elsewhere: a run is repeated up to the first question without an answer.

A run asks for sums, draws noise for them, and goes on with the released numbers, which are public. So anybody who has
the numbers that were released so far can repeat the run without the table. Sums that were asked for before are not
needed, because their draws are known. The next question is the one at which the repetition ends.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec

import numpy as np

from trigmech._arrays import Array
from trigmech.errors import InputError
from trigmech.functions import lattice
from trigmech.measurement.release import Rounds, Selected
from trigmech.measurement.rows import PrivateRows, silent
from trigmech.measurement.sums import SHARE_BITS, Statistic, Total
from trigmech.mechanisms.base import Design, History
from trigmech.privacy.budget import Charge
from trigmech.privacy.ledger_lock import version
from trigmech.privacy.noise import Noise
from trigmech.privacy.noise import drawn as simulated
from trigmech.schema.schema import Schema
from trigmech.storage.rounds_file import fingerprint

# A function from a statistic and the fingerprint of the question to the sums.
Answer = Callable[[Statistic, str], Total]


class Unanswered(Exception):  # noqa: N818 - it says what happened
    """The question that is next.

    Its schema maps the table to points. If the table is asked ``raw``, as it is, the schema says how to read it.
    """

    def __init__(self, asked: Statistic, schema: Schema, raw: bool) -> None:
        super().__init__()
        self.asked, self.schema, self.raw = asked, schema, raw


class AskedTable:
    """Stands for a table that is elsewhere; see :class:`trigmech.measurement.rows.PrivateTable`.

    design: With the history of the rounds before.
    answer: Gives the answer to the question that is next, or raises an InputError.
    """

    library: str | None
    categorical: tuple[str, ...] = ()
    say = staticmethod(silent)

    def __init__(self, design: Design, answer: Answer | None = None) -> None:
        self.n = design.n
        # The parts' own types are not known here.
        self.library = "pyarrow" if find_spec("pyarrow") else None
        self._design, self._next, self._place = design, answer, 0

    def raw(self, schema: Schema) -> PrivateRows:
        return _AskedRows(self.n, schema.domain, tuple, self, schema, True)

    def rows(self, schema: Schema, found: bool = False) -> PrivateRows:
        return _AskedRows(self.n, schema.domain, tuple, self, schema, False)

    def answer(self, asked: Statistic, schema: Schema, raw: bool) -> Total:
        """Return the requested sums: empty ones if their draws are known, otherwise the answer."""
        place, now = self._place, 0 if self._design.history is None else self._design.history.round
        self._place += 1
        if place < now:
            return nothing(asked, self.n)
        if place > now or self._next is None:
            raise Unanswered(asked, schema, raw)
        return self._next(asked, question_of(self._design, asked, schema))


@dataclass(frozen=True, eq=False)
class _AskedRows(PrivateRows):
    table: AskedTable
    schema: Schema
    raw: bool

    def sums(self, asked: Statistic) -> Total:
        return self.table.answer(asked, self.schema, self.raw)


class Recorder:
    """The numbers that a run has released so far, read from a history or a rounds file, and written to the latter.

    rounds: The rounds file; None for a simulation, and for repeating only the questions.
    """

    def __init__(self, history: History | None, rounds: Rounds | None = None, noise: Noise | None = None) -> None:
        self.draws: list[tuple[Charge, Array]] = []
        self._known = [] if history is None or rounds is not None else list(history.draws)
        self._rounds, self._noise = rounds, noise

    def begin(self) -> bool:
        return self._rounds is not None and self._rounds.begin()

    def remove(self) -> None:
        if self._rounds is not None:
            self._rounds.remove()

    def known(self, charge: Charge, shape: tuple[int, ...] | None) -> Array | Selected | None:
        found = None if self._rounds is None else self._rounds.known(charge, shape)
        if self._known:
            drawn, found = self._known.pop(0)
            if drawn != charge or found.shape != shape:
                raise InputError("the earlier rounds in the design do not fit the design")
            if self._noise is not None:
                simulated(self._noise, charge.law, np.zeros(shape), charge.scale)
        if isinstance(found, np.ndarray):
            self.draws.append((charge, found))
        return found

    def keep(self, charge: Charge, released: Array | Selected) -> None:
        if self._rounds is not None:
            self._rounds.keep(charge, released)
        if isinstance(released, np.ndarray):
            self.draws.append((charge, released))


def nothing(asked: Statistic, n: int) -> Total:
    """Return sums that are 0, as if n persons had them."""
    total = Total(asked.size)
    total.n = n
    return total


def question_of(design: Design, asked: Statistic, schema: Schema) -> str:
    """Return a fingerprint of all that must be the same for parts that are added."""
    history = design.history
    return fingerprint(version(), lattice.BITS, SHARE_BITS, design.n, schema.to_dict(), asked,
                       type(design.mechanism).__qualname__, design.all_charges,
                       None if history is None else (history.run, history.round))
