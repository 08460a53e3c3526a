"""What comes out of the release: noisy moments and axes, public, from which everything else is made."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trigmech.functions.chebyshev import ChebyshevBasis
from trigmech.functions.features import Features

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Axes:
    """Released principal axes.

    Parameters
    ----------
    directions : ndarray (d, k)
        Orthonormal columns: the last subspace X^(L).
    images : ndarray (d, k)
        The last noisy product W^(L), of the released covariance with the subspace before it.
    previous : ndarray (d, k)
        That subspace, X^(L-1).
    """

    directions: Array
    images: Array
    previous: Array

    def eigenvalues(self, how: str) -> Array:
        """Return estimates (k,) of the first eigenvalues, at least 0.

        "norm" is the thesis's |w_s|, whose square is inflated by the noise of all d entries; "rayleigh" is the
        quotient x_s . w_s, whose noise is that of one entry.
        """
        if how == "norm":
            return np.linalg.norm(self.images, axis=0)
        return np.maximum(np.einsum("ij,ij->j", self.previous, self.images), 0.0)


@dataclass(frozen=True, eq=False)
class Release:
    """All that was released; everything made from it is post-processing.

    Parameters
    ----------
    n : int
        Rows of the table; public.
    basis : ChebyshevBasis
        The K functions.
    means : ndarray (K,)
        Noisy means of the basis functions; the constant's is 1.
    scale : float
        Noise scale of the means.
    mean : ndarray (d,), optional
        Noisy mean of the rows.
    axes : Axes, optional
        Noisy principal axes.
    """

    n: int
    basis: ChebyshevBasis
    means: Array
    scale: float
    mean: Array | None = None
    axes: Axes | None = None


@dataclass(frozen=True, eq=False)
class MomentRelease:
    """One noisy vector of moments; everything made from it is post-processing.

    Parameters
    ----------
    n : int
        Rows of the table; public.
    features : Features
        The K functions.
    means : ndarray (K,)
        Their noisy means.
    scales : ndarray (K,)
        Standard deviations of the noise.
    """

    n: int
    features: Features
    means: Array
    scales: Array
