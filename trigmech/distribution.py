"""A distribution on points of the cube: what is published, and what anyone may query for ever."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trigmech.errors import InputError


@dataclass(frozen=True, eq=False)
class Distribution:
    """Weighted points of the cube.

    Parameters
    ----------
    points : ndarray (m, d)
        Entries in [-1, 1].
    weights : ndarray (m,)
        At least 0, summing to 1.

    Notes
    -----
    Privacy: post-processing; everything here is public.
    """

    points: NDArray[np.float64]
    weights: NDArray[np.float64]

    def __post_init__(self) -> None:
        if self.points.ndim != 2 or self.weights.shape != (len(self.points),):
            raise InputError(f"points and weights must have shapes (m, d) and (m,); given {self.points.shape} and "
                             f"{self.weights.shape}")
        if not (np.abs(self.points) <= 1.0).all():
            raise InputError("points must lie in the cube [-1, 1]^d")
        if not ((self.weights >= 0).all() and abs(float(self.weights.sum()) - 1.0) < 1e-9):
            raise InputError("weights must be at least 0 and sum to 1")

    def __repr__(self) -> str:
        return f"Distribution(m={len(self.points)}, d={self.points.shape[1]})"

    def expect(self, f: Callable[[NDArray[np.float64]], Any]) -> Any:
        """Return the mean of f under the distribution.

        Parameters
        ----------
        f : callable
            From points (m, d) to values (m,) or (m, q).

        Returns
        -------
        float or ndarray (q,)
        """
        values = np.asarray(f(self.points))
        if values.ndim not in (1, 2) or len(values) != len(self.weights):
            raise InputError(f"f must return one value or one row for each of the {len(self.weights)} points; it "
                             f"returned shape {values.shape}")
        mean = self.weights @ values
        return float(mean) if values.ndim == 1 else mean

    def sample(self, size: int, rng: np.random.Generator | None = None) -> NDArray[np.float64]:
        """Return independent draws.

        Parameters
        ----------
        size : int
            Number of rows, at least 0.
        rng : numpy.random.Generator, optional
            By default one seeded by the operating system; a seed does no harm to privacy here.

        Returns
        -------
        ndarray (size, d)
        """
        if isinstance(size, bool) or not (isinstance(size, int | np.integer) and size >= 0):
            raise InputError(f"size must be an integer that is at least 0, not {size!r}")
        rng = np.random.default_rng() if rng is None else rng
        return self.points[rng.choice(len(self.weights), size=size, p=self.weights / self.weights.sum())]
