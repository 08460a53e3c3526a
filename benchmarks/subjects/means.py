"""Means of the basis functions over the rows of a table."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from benchmarks.core import Alternative, Row, Settings, Subject, compare, threads
from trigmech import ChebyshevBasis
from trigmech._parallel import thread_count

Array = NDArray[np.float64]

ROWS, QUICK_ROWS = 100_000, 20_000


def from_formula(X: Array, basis: ChebyshevBasis) -> Array:
    """Return the means by cos(r_1 arccos x_1) ... cos(r_d arccos x_d), as a first program would."""
    angles = np.arccos(X)
    return np.array([np.cos(r * angles).prod(axis=1).mean() for r in basis.index])


def from_table(X: Array, basis: ChebyshevBasis) -> Array:
    """Return the means by a table of T_q(x_j), multiplying only the columns with q > 0: careful numpy."""
    table = np.empty((int(basis.index.max()) + 1, X.shape[1], len(X)))
    table[0] = 1.0
    table[1:2] = X.T
    for q in range(2, len(table)):
        table[q] = 2.0 * table[1] * table[q - 1] - table[q - 2]
    means = np.ones(basis.K)
    for k, r in enumerate(basis.index):
        columns = np.flatnonzero(r)
        if len(columns):
            product = table[r[columns[0]], columns[0]]
            for j in columns[1:]:
                product = product * table[r[j], j]
            means[k] = product.mean()
    return means


def one_thread(X: Array, basis: ChebyshevBasis) -> Array:
    """Return trigmech's means on one thread."""
    with threads(1):
        return basis.means(X)


def rows(settings: Settings) -> Iterator[Row]:
    """Yield the rows of this subject."""
    # The formula is so slow at d >= 30 that it is given every so-manieth function only, and its time is scaled.
    yield from _case(settings, "d=8, K=50", ChebyshevBasis.graded(8, 50), 1)
    yield from _case(settings, "d=30, K=102", ChebyshevBasis.graded(30, 102), 5)
    yield from _case(settings, "d=30, K=496, total degree 2", ChebyshevBasis.total_degree(30, 2), 25)
    yield from _case(settings, "d=101, K=102", ChebyshevBasis.graded(101, 102), 10)


def _case(settings: Settings, name: str, basis: ChebyshevBasis, every: int) -> Iterator[Row]:
    n = QUICK_ROWS if settings.quick else ROWS
    X = np.random.default_rng(0).uniform(-1.0, 1.0, (n, basis.d))
    # From the second function on, so that the cheap constant does not count more than its share.
    part = basis if every == 1 else ChebyshevBasis(basis.index[1::every])

    def comparable(alternative: str, means: Array) -> Array:
        return means if every == 1 or alternative == "numpy, formula" else means[1::every]

    return compare(settings, f"{name}, n={n}", [
        Alternative(f"trigmech, {thread_count()} threads", lambda: basis.means(X)),
        Alternative("trigmech, 1 thread", lambda: one_thread(X, basis)),
        Alternative("numpy, table", lambda: from_table(X, basis)),
        Alternative("numpy, formula", lambda: from_formula(X, part), share=part.K / basis.K, slow=True),
    ], "numpy, formula", work=n * basis.K, value=comparable)


SUBJECT = Subject(
    "Basis means",
    "`ChebyshevBasis.means` against numpy, on uniform rows. \"formula\": cos(r arccos x) multiplied over all d "
    "columns, with the arc cosines taken once. \"table\": all T_q(x_j) tabulated, and only columns with q > 0 "
    "multiplied. Baseline: the formula. Rate: rows times functions per second.",
    "products/s", rows)
