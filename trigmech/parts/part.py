"""PRIVATE. A part: what some persons add to the sums that are asked for, to be added to other parts."""

import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from trigmech._files import replacing
from trigmech._validate import fields
from trigmech.errors import InputError
from trigmech.measurement.sums import Total
from trigmech.storage import archive

KIND = "trigmech part"
NOT_PRIVATE = "NOT PRIVATE: exact sums over persons; whoever sees two of them can see a person"
MOST_PARTS = 10_000


@dataclass(frozen=True, eq=False)
class Part:
    """Exact sums over all rows of some persons: **private**, to be guarded as the table itself. By ``measure_part``.

    Parts of other persons that answer the same question are added by ``+`` or :func:`sum`; the result has the same bits
    in any order. Only :func:`trigmech.release_parts` makes anything public of them.

    Parameters
    ----------
    total : Total
        The sums, as whole numbers on lattices that are fixed beforehand.
    question : str
        A fingerprint of all that must be the same for parts that are added: what is asked, by which design and round,
        the schema, the lattices and the version.
    identities : frozenset of str
        A random one of each part that was measured, so that none is added twice.
    """

    total: Total
    question: str
    identities: frozenset[str]

    @classmethod
    def of(cls, total: Total, question: str) -> "Part":
        """Return a part that was measured just now."""
        return cls(total, question, frozenset([secrets.token_hex(16)]))

    @property
    def n(self) -> int:
        """The number of persons."""
        return self.total.n

    def __repr__(self) -> str:
        return f"Part(NOT PRIVATE, n={self.n}, of {len(self.identities)}, question={self.question[:12]}, values hidden)"

    def __add__(self, other: "Part") -> "Part":
        if not isinstance(other, Part):
            return NotImplemented
        if self.question != other.question:
            raise InputError("the parts answer different questions: their schema, design, round, lattice or version of "
                             "trigmech is not the same")
        if self.identities & other.identities:
            raise InputError("a part would be added twice: both hold the same measured part")
        total = Total(self.total.limbs.shape[1])
        total += self.total
        total += other.total
        return Part(total, self.question, self.identities | other.identities)

    def __radd__(self, other: object) -> "Part":
        return self if isinstance(other, int) and other == 0 else NotImplemented

    def save(self, path: str | Path) -> None:
        """Write the part to a file that its owner alone can read; **private**, as the table is.

        Raises
        ------
        InputError
            If the file cannot be written; what was there before is then still there.
        """
        content = {"privacy": NOT_PRIVATE, "question": self.question, "n": self.n,
                   "identities": sorted(self.identities)}
        with replacing(Path(path), private=True) as beside:
            archive.write(beside, content, {"sums": self.total.limbs}, KIND)

    @classmethod
    def load(cls, path: str | Path) -> "Part":
        """Return the part of a file; nothing of it is executed.

        Raises
        ------
        InputError
            If it is no such file, or damaged.
        """
        content, arrays = archive.read(path, KIND)
        try:
            return _part_of(content, arrays)
        except InputError as broken:
            raise InputError(f"cannot read {str(path)!r}: {broken}") from None


def _part_of(content: dict[str, Any], arrays: dict[str, Any]) -> Part:
    values = fields(content, "the manifest", {"privacy": str, "question": str, "n": (int, 1), "identities": list})
    identities = values["identities"]
    if not (0 < len(identities) <= MOST_PARTS and all(isinstance(each, str) for each in identities)):
        raise InputError(f"it must have from 1 to {MOST_PARTS:,} identities of parts, which are texts")
    limbs = arrays.pop("sums", None)
    if arrays or limbs is None or limbs.dtype != np.int64 or limbs.ndim != 2 or len(limbs) != 2 or not (
            (limbs[1] >= 0) & (limbs[1] < 2**32)).all():
        raise InputError("it must have one array, of sums in two limbs")
    total = Total(0)
    total.limbs, total.n = limbs.copy(), values["n"]
    return Part(total, values["question"], frozenset(identities))
