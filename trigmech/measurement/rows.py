"""PRIVATE. The rows of a table on their way to the moments."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trigmech._validate import numbers
from trigmech.domain import Domain


@dataclass(frozen=True, eq=False)
class PrivateRows:
    """The rows of a table as points of the cube, which may be too many for memory.

    Parameters
    ----------
    n : int
        Number of rows; public.
    domain : Domain
        What their coordinates mean; public.
    chunks : callable, private
        Returns the rows again at each call, in arrays (k, d) of any lengths.
    """

    n: int
    domain: Domain
    chunks: Callable[[], Iterable[NDArray[np.float64]]]

    @classmethod
    def of(cls, X: NDArray[np.float64], domain: Domain | None = None) -> "PrivateRows":
        """Return the rows of an array (n, d)."""
        X = numbers("the rows", X, "n", "d")
        return cls(len(X), domain or Domain(X.shape[1]), lambda: (X,))

    @property
    def d(self) -> int:
        """The number of coordinates."""
        return self.domain.d

    def __repr__(self) -> str:
        return f"PrivateRows(n={self.n}, d={self.d}, values hidden)"
