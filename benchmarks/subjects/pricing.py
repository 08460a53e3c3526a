"""Combinations of the basis functions at all points of a full grid, which price its candidates."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.fft import dctn
from threadpoolctl import ThreadpoolController

from benchmarks.core import Alternative, Row, Settings, Subject, compare
from trigmech import ChebyshevBasis, Grid
from trigmech._parallel import thread_count

Array = NDArray[np.float64]


def by_cosine_transform(basis: ChebyshevBasis, N: int, coefficients: Array) -> Array:
    """Return the combination at the N^d Chebyshev nodes cos(pi (2k + 1) / (2N)), by a cosine transform of type 3."""
    padded = np.zeros((N,) * basis.d)
    # Type 3 doubles all but the first coefficient along each axis.
    padded[tuple(basis.index.T)] = coefficients / 2.0 ** (basis.index > 0).sum(axis=1)
    return dctn(padded, type=3, workers=thread_count()).ravel()


def on_one_thread(blas: ThreadpoolController, grid: Grid, basis: ChebyshevBasis, coefficients: Array) -> Array:
    """Return `Grid.combine` without BLAS's threads, which must wait for a core on a busy machine."""
    with blas.limit(limits=1):
        return grid.combine(basis, coefficients)


def rows(settings: Settings) -> Iterator[Row]:
    """Yield the rows of this subject."""
    for d, N, t in ((2, 300, 8), (3, 40, 5)) if settings.quick else ((2, 1000, 8), (3, 100, 5)):
        yield from _case(settings, d, N, t)


def _case(settings: Settings, d: int, N: int, t: int) -> Iterator[Row]:
    grid, basis = Grid(d, N), ChebyshevBasis.tensor(d, t)
    points = grid.take(np.arange(len(grid)))
    coefficients = np.random.default_rng(0).standard_normal(basis.K)

    # Finding the libraries takes milliseconds, so it is not done inside the timed run.
    blas = ThreadpoolController().select(user_api="blas")

    def value(name: str, result: Any) -> Array | None:
        return None if name == "scipy dctn" else result

    return compare(settings, f"d={d}, N={N}, t={t}", [
        Alternative("Grid.combine", lambda: grid.combine(basis, coefficients)),
        Alternative("Grid.combine, BLAS on 1 thread", lambda: on_one_thread(blas, grid, basis, coefficients)),
        Alternative("scipy dctn", lambda: by_cosine_transform(basis, N, coefficients), note="other nodes"),
        Alternative("basis.combine, all points", lambda: basis.combine(points, coefficients)),
    ], "scipy dctn", work=len(grid), value=value)


SUBJECT = Subject(
    "Pricing of a full grid",
    "`Grid.combine`, one small matrix product for each column, against the cosine transform that the theory proposed "
    "(zero-padded coefficients; it is right on Chebyshev nodes only and not on the thesis's grid, so only its time "
    "is comparable) and against `ChebyshevBasis.combine` over all points, held in memory. Baseline: the cosine "
    "transform. Rate: points per second.",
    "points/s", rows)
