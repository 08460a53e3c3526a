"""Random points of an ellipsoid: uniform ones, and those of the thesis's algorithm 8."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from trigmech.errors import InputError, shown

Draw = Literal["uniform", "published"]


@dataclass(frozen=True, eq=False)
class Ellipsoid:
    """A k-dimensional ellipsoid in d dimensions.

    directions (d, k): Orthonormal columns.
    radii (k,): Semi-axes, at least 0.
    """

    center: NDArray[np.float64]
    directions: NDArray[np.float64]
    radii: NDArray[np.float64]

    def draw(self, size: int, rng: np.random.Generator, how: Draw = "uniform") -> NDArray[np.float64]:
        """Return points (size, d) of the ellipsoid.

        how, one of {"uniform", "published"}: "uniform": uniform in volume, g/|g| U^(1/k) with normal g. "published":
          the radius and angles of algorithm 8. This radius has the same distribution. The angles are uniform in [0,
          pi], and the last in [0, 2 pi]; so the first axes get too much of the variance. (R^k has k - 1 angles, but
          algorithm 8 draws k. The last k - 1 are used. In one dimension the single angle is a random sign.)

        Privacy: post-processing of released axes. The variance of uniform points along an axis is radius^2/(k+2). So
        semi-axes of sqrt(k+2) standard deviations match a covariance. Source: Huang 2014, algorithm 8.
        """
        k = len(self.radii)
        if how == "uniform":
            sphere = rng.standard_normal((size, k))
            sphere /= np.linalg.norm(sphere, axis=1, keepdims=True)
        elif how == "published":
            sphere = _from_angles(rng.uniform(0.0, np.pi, (size, k)))
        else:
            raise InputError(f'ellipsoid must be "uniform" or "published", not {shown(how)}')
        # U^(1/k) is Beta(k, 1).
        ball = sphere * rng.random((size, 1)) ** (1.0 / k)
        return self.center + (ball * self.radii) @ self.directions.T


def _from_angles(angles: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the points of the unit sphere of R^k at polar angles (size, k), without the first angle."""
    size, k = angles.shape
    if k == 1:
        return np.where(angles < np.pi / 2, 1.0, -1.0)
    used = angles[:, 1:].copy()
    used[:, -1] *= 2.0
    sines = np.cumprod(np.sin(used), axis=1)
    points = np.ones((size, k))
    points[:, 1:] = sines
    points[:, :-1] *= np.cos(used)
    return points
