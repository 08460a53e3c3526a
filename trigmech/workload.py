"""Query families, their exact answers, and how much each product of Chebyshev polynomials matters to them."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trigmech.errors import InputError
from trigmech.kernel_queries import GaussianKernels, PairKernels
from trigmech.polynomial_queries import Polynomials, SecondMoments, Smooth
from trigmech.query_family import Family, Workload

__all__ = ["Family", "GaussianKernels", "Mixture", "PairKernels", "Polynomials", "SecondMoments", "Smooth", "Workload"]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Mixture(Family):
    """Several families at once, to choose functions that serve them all.

    It has no answers of its own, because those of its members differ in shape: ask each of ``members``.

    Parameters
    ----------
    members : tuple of Family
        At least one, all of the same d. The parts are those of the first member, then those of the second, ...
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
        """The labels of all members, one after the other."""
        return tuple(label for member in self.members for label in member.labels)

    def importance(self, index: ArrayLike) -> Array:
        """Return the importance (parts of all members, K), member after member; see :meth:`Family.importance`."""
        return np.concatenate([member.importance(index) for member in self.members])
