"""PRIVATE. A part: the sums of some persons, which are added to the sums of other parts."""

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar

import numpy as np

from trigmech._files import reading, replacing
from trigmech._validate import fields
from trigmech.errors import InputError, shown
from trigmech.measurement.sums import Statistic, Total
from trigmech.storage import archive

MOST_PARTS = 10_000
P = TypeVar("P", bound="Part")


@dataclass(frozen=True, eq=False)
class Part:
    """Exact sums over all rows of some persons; guard them like the table itself. ``measure_part`` makes a part.

    Parts of other persons that answer the same question are added by ``+`` or :func:`sum`; the result has the same bits
    in any order. Only :func:`trigmech.release_parts` makes anything public of them.

    Parameters
    ----------
    total : Total
        The sums, as whole numbers on lattices that are fixed in advance.
    question : str
        A fingerprint that must be the same for all added parts: of the statistic, the design and its round, the schema,
        the lattices and the version.
    identities : frozenset of str
        A random identity of each measured part, so that no part is added twice.
    """

    total: Total
    question: str
    identities: frozenset[str]

    KIND: ClassVar[str] = "trigmech part"
    PRIVACY: ClassVar[str] = "NOT PRIVATE: exact sums over persons; two such sums can reveal one person"
    TWICE: ClassVar[str] = "a part would be added twice: both files contain the same measured part"
    # The fields of a file beside the sums, by name, as trigmech._validate.fields takes them.
    MORE: ClassVar[dict[str, Any]] = {}

    @classmethod
    def of(cls, total: Total, question: str, **more: Any) -> Self:
        """Return a part that was measured just now."""
        return cls(total, question, frozenset([secrets.token_hex(16)]), **more)

    @property
    def n(self) -> int:
        """The number of persons."""
        return self.total.n

    def __repr__(self) -> str:
        return (f"{type(self).__name__}(NOT PRIVATE, n={self.n}, of {len(self.identities)}, "
                f"question={self.question[:12]}, values hidden)")

    def __add__(self, other: "Part") -> Self:
        if not isinstance(other, Part):
            return NotImplemented
        if self.question != other.question:
            raise InputError("the parts answer different questions: they differ in schema, design, round, lattice or "
                             "version of trigmech")
        if self.identities & other.identities:
            raise InputError(self.TWICE)
        total = Total(self.total.limbs.shape[1])
        total += self.total
        total += other.total
        return replace(self, total=total, identities=self.identities | other.identities)

    def __radd__(self, other: object) -> Self:
        return self if isinstance(other, int) and other == 0 else NotImplemented

    def save(self, path: str | Path) -> None:
        """Write the part to a file that only its owner can read; **private**, like the table.

        Raises
        ------
        InputError
            If the file cannot be written; then the old content is still there.
        """
        content = {"privacy": self.PRIVACY, "question": self.question, "n": self.n,
                   "identities": sorted(self.identities), **{name: getattr(self, name) for name in self.MORE}}
        with replacing(Path(path), private=True) as beside:
            archive.write(beside, content, {"sums": self.total.limbs}, self.KIND)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Return the part of a file; nothing of it is executed.

        Raises
        ------
        InputError
            If it is not such a file, or is damaged.
        """
        content, arrays = archive.read(path, cls.KIND)
        with reading(path):
            values = fields(content, "the manifest", {"privacy": str, "question": str, "n": (int, 1),
                                                      "identities": list, **cls.MORE})
            total, identities = _total_and_identities(values, arrays)
        return cls(total, values["question"], identities, **{name: values[name] for name in cls.MORE})


def added(parts: Any, n: int, kind: type[P]) -> P:
    """Return the sum of parts of one kind, of n persons together, or raise an InputError."""
    if isinstance(parts, Part):
        parts = [parts]
    name = kind.__name__.lower()
    if not isinstance(parts, Sequence) or not parts or not all(type(part) is kind for part in parts):
        raise InputError(f"{name}s must be a non-empty list of {name}s made by trigmech."
                         f"{'measure' if kind is Part else 'share'}_part, not {shown(parts)}")
    whole: P = parts[0]
    for part in parts[1:]:
        whole = whole + part
    if whole.n != n:
        raise InputError(f"the design is for {n} persons, but the {name}s have {whole.n} together")
    return whole


def check_question(part: Part, question: str) -> None:
    """Raise an InputError unless a part answers a question."""
    if part.question != question:
        raise InputError("the parts were not measured for this design: they have another schema, design, round, "
                         "lattice or version of trigmech")


def answer_of(part: Part) -> Callable[[Statistic, str], Total]:
    """Return a function that answers a part's own question, and no other, with the part's sums."""
    def answer(asked: Statistic, question: str) -> Total:
        check_question(part, question)
        if part.total.limbs.shape[1] != asked.size:
            raise InputError("the parts do not contain the statistic that they name")
        asked.check(part.total)
        return part.total

    return answer


def _total_and_identities(values: dict[str, Any], arrays: dict[str, Any]) -> tuple[Total, frozenset[str]]:
    identities = values["identities"]
    if not (0 < len(identities) <= MOST_PARTS and all(isinstance(each, str) for each in identities)):
        raise InputError(f"it must have 1 to {MOST_PARTS:,} identities of parts, each a text")
    limbs = arrays.pop("sums", None)
    if arrays or limbs is None or limbs.dtype != np.int64 or limbs.ndim != 2 or len(limbs) != 2 or not (
            (limbs[1] >= 0) & (limbs[1] < 2**32)).all():
        raise InputError("it must have one array, of sums in two limbs")
    total = Total(0)
    total.limbs, total.n = limbs.copy(), values["n"]
    return total, frozenset(identities)
