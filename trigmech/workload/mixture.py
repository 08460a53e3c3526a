"""Several query families at once."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from trigmech._arrays import Array
from trigmech.distribution import Distribution
from trigmech.errors import InputError
from trigmech.workload.family import Family, Workload, answerable, distinct, multi_indices, query_span


@dataclass(frozen=True, eq=False)
class Mixture(Workload):
    """Several families at once, to choose functions that serve them all, and to ask them all at once.

    Its answers are those of its members one after the other, flattened: of each member query by query, and of each
    query part by part. They make one column; ask each of ``members`` for tables of its own.

    Parameters
    ----------
    members : tuple of Family
        At least one, all of the same d. The parts are those of the first member, then those of the second, ... Members
        without answers can be planned for, but not asked.
    """

    members: tuple[Family, ...]

    def __post_init__(self) -> None:
        if not isinstance(self.members, tuple) or not all(isinstance(member, Family) for member in self.members):
            raise InputError("members must be a tuple of query families")
        widths = sorted({member.d for member in self.members})
        if len(widths) != 1:
            raise InputError(f"members must be at least one family, all of the same d; their d are {widths}")

    @property
    def d(self) -> int:  # type: ignore[override]
        """The number of columns."""
        return self.members[0].d

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels of all members, one after the other; equal ones are numbered, as in "second moments (2)"."""
        return distinct(label for member in members_of(self) for label in member.labels)

    def importance(self, index: ArrayLike) -> Array:
        """Return the importance (parts of all members, K), member after member; see :meth:`Family.importance`."""
        return np.concatenate([member.importance(index) for member in self.members])

    @property
    def workloads(self) -> tuple[Workload, ...]:
        """The members; all of them must have answers.

        Raises
        ------
        InputError
            If one has none.
        """
        return tuple(map(answerable, self.members))

    def answers(self, points: ArrayLike, weights: ArrayLike | None = None) -> Array:
        """Return the exact answers (queries times parts of all members, 1) on weighted points."""
        return as_column([member.answers(points, weights) for member in self.workloads])

    def coefficients(self, index: ArrayLike, start: int = 0, stop: int | None = None) -> Array:
        """Return the coefficients (stop - start, 1, K), in the order of the answers; see :meth:`Workload.coefficients`.

        Notes
        -----
        Privacy: the queries are public. Cost: that of all members' coefficients, whatever start and stop are.
        """
        index = multi_indices(index, self.d)
        each = [member.coefficients(index) for member in self.workloads]
        rows = np.concatenate([part.reshape(part.shape[0] * part.shape[1], 1, len(index)) for part in each])
        first, last = query_span(start, stop, len(rows))
        return rows[first:last]

    def errors(self, table: ArrayLike, distribution: Distribution) -> Array:
        """Return the members' own absolute errors of the distribution's answers, as one column; private."""
        return as_column([member.errors(table, distribution) for member in self.workloads])


def members_of(family: Family) -> tuple[Family, ...]:
    """Return the families that a mixture is made of, those of mixtures in it included; of any other family itself."""
    if not isinstance(family, Mixture):
        return (family,)
    return tuple(part for member in family.members for part in members_of(member))


def as_column(parts: list[Array]) -> Array:
    return np.concatenate([part.reshape(-1, 1) for part in parts])
