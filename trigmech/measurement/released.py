"""What comes out of the release: noisy moments and axes, public, from which everything else is made."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trigmech.domain import Domain
from trigmech.errors import InputError
from trigmech.functions.chebyshev import ChebyshevBasis
from trigmech.functions.features import Features, FunctionSet
from trigmech.functions.index import FunctionIndex

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
    """The noisy means of the measured functions; everything made from them is post-processing.

    Parameters
    ----------
    n : int
        Rows of the table; public.
    features : FunctionSet
        The K functions.
    means : ndarray (K,)
        Their noisy means; that of the constant, if it is among them, is 1 without noise.
    deviations : ndarray (K,)
        Standard deviations of the noise.
    index : FunctionIndex, optional
        What the functions are. Default: functions of numbers alone.
    mean : ndarray (d,), optional
        Noisy mean of the rows, if principal axes were released.
    axes : Axes, optional
    """

    n: int
    features: FunctionSet
    means: Array
    deviations: Array
    index: FunctionIndex = None  # type: ignore[assignment]
    mean: Array | None = None
    axes: Axes | None = None

    def __post_init__(self) -> None:
        if self.index is None:
            object.__setattr__(self, "index", FunctionIndex.of(self.features))

    @property
    def basis(self) -> ChebyshevBasis:
        """The Chebyshev products among the functions; an InputError if these are functions of somebody's own."""
        return self.own_features.basis

    @property
    def profiles(self) -> Array:
        """The profiles (G, q + 1) of the functions of whole rows; see :class:`Features`."""
        return self.own_features.profiles

    @property
    def own_features(self) -> Features:
        """The functions, if they are the package's own; else an InputError."""
        if not isinstance(self.features, Features):
            raise InputError("the release is of functions of your own; error bars and files are for Chebyshev products "
                             "and the package's functions of whole rows")
        return self.features

    def described(self, schema: Any) -> "Release":
        """Return the release itself: its moments hold all that points are made of."""
        return self

    @property
    def K(self) -> int:  # noqa: N802 - the thesis's letter
        """How many numbers were released."""
        return self.features.K

    @property
    def kinds(self) -> NDArray[np.str_]:
        """The kind of each function (K,); see :class:`FunctionIndex`."""
        return self.index.kinds

    def names(self, coordinates: Sequence[str]) -> list[str]:
        """Return what each function is (K,), in words, by the names of the D coordinates."""
        return self.index.names(coordinates)

    @property
    def scales(self) -> Array:
        """The same as ``deviations``, by its older name."""
        return self.deviations

    def of_numbers(self) -> tuple["Release", NDArray[np.int64]]:
        """Return what was released of the coordinates that are numbers alone, and the positions of these functions.

        Raises
        ------
        InputError
            If no coordinate is a number.
        """
        chosen = list(self.index.domain.numbers)
        if not chosen:
            raise InputError("the table has no column of numbers, which such queries are about")
        if not self.index.domain.groups:
            return self, np.arange(self.features.K)
        kept = np.flatnonzero(self.index.degrees[:, chosen].sum(axis=1) == self.index.total)
        degrees = self.index.degrees[kept][:, chosen]
        return replace(self, features=Features(ChebyshevBasis(degrees)), means=self.means[kept],
                       deviations=self.deviations[kept], index=FunctionIndex(degrees, Domain(len(chosen)))), kept
