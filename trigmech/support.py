"""Candidate points, made from released numbers alone: where a fit may put its weights."""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from trigmech.ellipsoid import Draw, Ellipsoid
from trigmech.errors import InputError
from trigmech.grid import round_to_grid
from trigmech.release import Release

Eigenvalues = Literal["norm", "rayleigh"]


def ellipsoid_points(release: Release, count: int, scale: float, rng: np.random.Generator, *, draw: Draw = "uniform",
                     eigenvalues: Eigenvalues = "rayleigh", background: float = 0.0,
                     grid: int | None = None) -> NDArray[np.float64]:
    """Return points of the ellipsoid round the released mean, in the cube.

    Parameters
    ----------
    release : Release
        With mean and axes.
    count : int
        Number of points.
    scale : float
        kappa: semi-axes in units of the released standard deviations.
    rng : numpy.random.Generator
    draw : {"uniform", "published"}
        See :meth:`trigmech.ellipsoid.Ellipsoid.draw`.
    eigenvalues : {"norm", "rayleigh"}
        See :meth:`trigmech.release.Axes.eigenvalues`. No variance of a cube's points exceeds d, so larger estimates
        are cut to d ("rayleigh" only: the thesis does not).
    background : float
        Share of the points, in [0, 1], drawn uniformly from the cube instead: a fit on an ellipsoid that noise has
        spoilt can still fall back on them.
    grid : int, optional
        Round to A^d with this N. Points outside the cube are clipped to it in any case.

    Returns
    -------
    ndarray (count, d)

    Notes
    -----
    Privacy: post-processing.

    References
    ----------
    Huang 2014, algorithm 9, lines 12 to 14.
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
