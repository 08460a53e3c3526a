"""PRIVATE. The rows of a table on their way to the moments."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trigmech.layout import Layout
from trigmech.tables import numbers


@dataclass(frozen=True, eq=False)
class PrivateRows:
    """The rows of a table as points of the cube, which may be too many for memory.

    Parameters
    ----------
    n : int
        Number of rows; public.
    layout : Layout
        What their coordinates mean; public.
    chunks : callable, private
        Returns the rows again at each call, in arrays (k, d) of any lengths.
    """

    n: int
    layout: Layout
    chunks: Callable[[], Iterable[NDArray[np.float64]]]

    @classmethod
    def of(cls, X: NDArray[np.float64], layout: Layout | None = None) -> "PrivateRows":
        """Return the rows of an array (n, d)."""
        X = numbers("the rows", X, "n", "d")
        return cls(len(X), layout or Layout(X.shape[1]), lambda: (X,))

    @property
    def d(self) -> int:
        """The number of coordinates."""
        return self.layout.d

    def __repr__(self) -> str:
        return f"PrivateRows(n={self.n}, d={self.d}, values hidden)"
