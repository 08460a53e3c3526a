"""Candidate points for the weights of a fit: random points of ellipsoids, uniform or those of the thesis's algorithm 8.

Also equal weights, without a fit.
"""

import math
import time
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from trigmech.errors import InputError, shown
from trigmech.functions.chebyshev import ChebyshevBasis
from trigmech.functions.grid import Grid, round_to_grid, round_to_levels
from trigmech.measurement.released import Release
from trigmech.reconstruction.l1 import Fit

Draw = Literal["uniform", "published"]
Eigenvalues = Literal["norm", "rayleigh"]

EVEN_POINTS = 4_096
POINTS_AT_A_TIME = 256


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


def ellipsoid_points(release: Release, count: int, scale: float, rng: np.random.Generator, *, draw: Draw = "uniform",
                     eigenvalues: Eigenvalues = "rayleigh", background: float = 0.0,
                     grid: int | None = None) -> NDArray[np.float64]:
    """Return points (count, d) of the ellipsoid around the released mean, clipped to the cube.

    scale: kappa: semi-axes in units of the released standard deviations.
    draw, one of {"uniform", "published"}: See :meth:`Ellipsoid.draw`.
    eigenvalues, one of {"norm", "rayleigh"}: See :meth:`trigmech.measurement.released.Axes.eigenvalues`. A variance in
      the cube is at most d. So "rayleigh" cuts larger estimates to d; the thesis does not.
    background: Fraction of the points, in [0, 1], that are uniform in the cube. A fit needs them if noise spoils the
      ellipsoid.

    Privacy: post-processing. Source: Huang 2014, algorithm 9, lines 12 to 14.
    """
    if release.mean is None or release.axes is None:
        raise InputError("points of an ellipsoid need a release with mean and axes")
    values = release.axes.eigenvalues(eigenvalues)
    if eigenvalues == "rayleigh":
        values = np.minimum(values, len(release.mean))
    ellipsoid = Ellipsoid(release.mean, release.axes.directions, scale * np.sqrt(values))
    uniform = round(background * count)
    points = np.concatenate([ellipsoid.draw(count - uniform, rng, draw),
                             rng.uniform(-1.0, 1.0, (uniform, len(release.mean)))])
    return np.clip(points, -1.0, 1.0) if grid is None else round_to_grid(points, grid)


def even_fit(basis: ChebyshevBasis, points: NDArray[np.float64] | Grid, target: NDArray[np.float64],
             max_weight: float | None, levels: int | None) -> Fit:
    """Return equal weights on at most some thousand candidates, evenly spread, for use when a program fails.

    Arguments are those of :func:`trigmech.reconstruction.l1.fit_l1`, with max_weight at least 1/m. The status is "not
    solved". The gap is the objective, because all objectives are at least 0. Privacy: post-processing.
    """
    started, m = time.perf_counter(), len(points)
    count = min(m, max(EVEN_POINTS, math.ceil(1.0 / (max_weight or 1.0))))
    chosen = np.arange(count, dtype=np.int64) * m // count
    total = np.zeros(basis.K)
    for part in np.array_split(chosen, -(-count // POINTS_AT_A_TIME)):
        values = basis.evaluate(points.take(part) if isinstance(points, Grid) else points[part])
        total += (values if levels is None else round_to_levels(values, levels)).sum(axis=0)
    weights = np.zeros(m)
    weights[chosen] = 1.0 / count
    objective = float(np.abs(total / count - target).sum())
    return Fit(weights, objective, objective, "not solved", time.perf_counter() - started, 0)
