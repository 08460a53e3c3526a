"""A distribution on points of the cube: it can be published, and anyone can query it indefinitely."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trigmech._validate import check_integers, generator, numbers
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
        # Without an array of the points' size; NaN fails both comparisons.
        if not (self.points.min(initial=0.0) >= -1.0 and self.points.max(initial=0.0) <= 1.0):
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
            A function from points (m, d) to values (m,) or (m, q).

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
        """Return rows drawn as evenly as whole rows allow.

        A point of weight w appears floor or ceil of ``size`` w times, ``size`` w on average, and the order is random:
        each row by itself follows the distribution, and means over the rows err far less than over independent draws.

        Parameters
        ----------
        size : int
            Number of rows, at least 0.
        rng : numpy.random.Generator, optional
            Default: a generator that the operating system seeds; a seed does no harm to privacy here.

        Returns
        -------
        ndarray (size, d)
        """
        return self.points[self.drawn(size, rng)]

    def drawn(self, size: int, rng: np.random.Generator | None = None) -> NDArray[np.int64]:
        """Return which points (size,) the rows of :meth:`sample` are."""
        check_integers(0, size=size)
        rng = generator(rng)
        if size == 0:
            return np.empty(0, dtype=np.int64)
        return rng.permutation(systematic(self.weights, int(size), rng))


def systematic(weights: NDArray[np.float64], count: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return ``count`` indices: i floor or ceil of count w_i / sum w times, equal ones side by side.

    An InputError is raised unless the weights (m,) are at least 0 and not all 0, and the count is at least 1.
    """
    weights = numbers("weights", weights, "m")
    if not (np.isfinite(weights).all() and (weights >= 0.0).all() and (weights > 0.0).any()):
        raise InputError("weights must be finite, at least 0, and not all 0")
    check_integers(1, count=count)
    # Without the shuffle, evenly spaced positions would pick from a low-discrepancy sequence those of one corner.
    order = rng.permutation(len(weights))
    cumulative = np.cumsum(weights[order])
    positions = (np.arange(count) + rng.random()) * (cumulative[-1] / count)
    return order[np.minimum(np.searchsorted(cumulative, positions, side="right"), len(weights) - 1)]
