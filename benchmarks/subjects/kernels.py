"""Answers of Gaussian kernel queries of five widths."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from benchmarks.core import Alternative, Row, Settings, Subject, compare
from trigmech._parallel import thread_count
from trigmech.workload import GaussianKernels

Array = NDArray[np.float64]


def from_cdist(X: Array, centers: Array, widths: tuple[float, ...]) -> Array:
    """Return the mean kernel value at each centre (count, widths), with exact distances."""
    return _means(cdist(X, centers, "sqeuclidean"), widths)


def from_product(X: Array, centers: Array, widths: tuple[float, ...]) -> Array:
    """Return the same by |x|^2 + |c|^2 - 2 x.c, whose matrix product is fast and whose differences cancel digits."""
    squares = np.einsum("ij,ij->i", X, X)[:, None] + np.einsum("ij,ij->i", centers, centers)
    return _means(squares - 2.0 * X @ centers.T, widths)


def _means(D: Array, widths: tuple[float, ...]) -> Array:
    return np.column_stack([np.exp(D * (-0.5 / width**2)).mean(axis=0) for width in widths])


def rows(settings: Settings) -> Iterator[Row]:
    """Yield the rows of this subject."""
    for d in (8, 30, 101):
        yield from _case(settings, d, 500 if settings.quick else 2_000)


def _case(settings: Settings, d: int, n: int) -> Iterator[Row]:
    X = np.random.default_rng(1).uniform(-1.0, 1.0, (n, d))
    # With one centre a query, whose weight is then 1, the answers are the mean kernel values themselves.
    queries = GaussianKernels(d, seed=0, n_queries=n, n_centers=1)
    centers = np.ascontiguousarray(queries.queries[0].T)
    return compare(settings, f"d={d}, {n} points, {n} centres", [
        Alternative(f"trigmech, {thread_count()} threads", lambda: queries.answers(X)),
        Alternative("cdist and exp", lambda: from_cdist(X, centers, queries.widths)),
        Alternative("matrix product and exp", lambda: from_product(X, centers, queries.widths)),
    ], "cdist and exp", work=n * n)


SUBJECT = Subject(
    "Kernel answers",
    "`GaussianKernels.answers` for widths 2, 4, 6, 8, 10 from one set of squared distances, against "
    "`scipy.spatial.distance.cdist` (or a matrix product on all cores) and `np.exp` for each width. Baseline: cdist. "
    "Rate: pairs of a point and a centre per second, all five widths together.",
    "pairs/s", rows)
