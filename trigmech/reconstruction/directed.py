"""Correlations of normal variables under which rows have the released products of directions.

Each column has a variable, and a column whose presence is measured has another one: rows with its lowest values hold
the special and missing values. Rows are simulated, and correlations move until their products are the released ones.

References
----------
Higham 2002, Computing the nearest correlation matrix.
"""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from scipy.special import ndtri

from trigmech._arrays import Array
from trigmech.functions.released_column import ReleasedColumn
from trigmech.queries.base import Measurement
from trigmech.queries.directions import SCORE_BITS, Directions
from trigmech.reconstruction.dependence import shrunk_directions, shrunk_presence

# The largest correlation; and the least eigenvalue of correlations, about.
LARGEST, LEAST_EIGENVALUE = 0.97, 1e-3
# If all products are below this part of their noise after shrinkage, noise alone explains them.
FAINT = 0.1
# Simulated rows that give the products of directions under given correlations, and steps towards the measured ones.
SIMULATED, STEPS_OF_DESCENT = 4_096, 12
# Rounds of projections onto the possible matrices.
PROJECTIONS = 40


def correlations_of(columns: Sequence[ReleasedColumn], measured: Measurement[Directions]) -> Array | None:
    """Return the correlations under which rows of the copula have the measured products after denoising."""
    query, d, e = measured.query, len(columns), len(measured.query.scores)
    first, second = query.pairs.T
    ends = [column.normal_ends for column in columns]
    starts = [len(column.mass) - len(own) - 1 for column, own in zip(columns, ends, strict=True)]
    gone = [column.absent for column in columns]
    normal, even = _even_rows(e)
    absences = [np.flatnonzero(even[:, j] < gone[j]) for j in range(d)]

    def products(correlations: Array) -> Array:
        values, codes = np.linalg.cholesky(correlations) @ normal.T, np.empty((d, SIMULATED), dtype=np.int64)
        for j, value in zip(query.presence, values[d:], strict=True):
            absences[j] = np.flatnonzero(value < ndtri(gone[j]))
        for own, value, end, start, nothing in zip(codes, values[:d], ends, starts, absences, strict=True):
            own[:] = np.searchsorted(end, value)
            own += start
            own[nothing] = 0
        entries = query.entries(codes.T)
        return np.asarray(entries.T @ entries / SIMULATED)

    scores = [score * 2.0**-SCORE_BITS for score in query.scores]
    spread = np.sqrt([max(float(column.mass @ score**2 - (column.mass @ score) ** 2), 0.0)
                      for column, score in zip([columns[j] for j in query.owners.tolist()], scores, strict=True)])
    # About how much products change with correlations.
    slopes = spread[first] * spread[second] / max(float(spread @ spread), np.finfo(float).tiny)
    if not slopes.any():
        return None
    alone = products(np.eye(e))
    apart, counts = measured.means - alone[first, second], (query.pairs >= d).sum(axis=1)
    kept, own = shrunk_presence(apart, measured.deviation, counts, slopes), counts == 0
    if slopes[own].any():
        kept[own] = shrunk_directions(apart[own], measured.deviation, query.pairs[own], slopes[own])
    if not (np.abs(kept) > FAINT * measured.deviation).any():
        return None
    nearest = alone.copy()
    nearest[first, second] = nearest[second, first] = alone[first, second] + kept
    wanted = nearest_possible(nearest)[first, second]
    correlations, most = np.eye(e), float(slopes.max())
    loose = correlations.copy()
    # Few steps, so that correlations with little effect on the products stay near 0.
    for _ in range(STEPS_OF_DESCENT):
        change = slopes * (wanted - products(correlations)[first, second]) / most**2
        loose[first, second] = np.clip(loose[first, second] + change, -LARGEST, LARGEST)
        loose[second, first] = loose[first, second]
        correlations = definite(loose)
    return correlations


@lru_cache(maxsize=4)
def _even_rows(d: int) -> tuple[Array, Array]:
    """Return normal and even values (`SIMULATED`, d), always the same: Kronecker's sequence, made uncorrelated."""
    steps = np.sqrt(_primes(2 * d)) % 1.0
    even = (np.arange(1.0, SIMULATED + 1.0)[:, None] * steps) % 1.0
    normal = ndtri(np.clip(even[:, :d], 1e-12, 1.0 - 1e-12))
    normal -= normal.mean(axis=0)
    root = np.linalg.cholesky(normal.T @ normal / SIMULATED + LEAST_EIGENVALUE * np.eye(d))
    found = np.asarray(np.linalg.solve(root, normal.T).T), even[:, d:]
    for each in found:
        each.setflags(write=False)
    return found


@lru_cache(maxsize=4)
def _primes(count: int) -> Array:
    """Return the first prime numbers."""
    bound = 16 + 2 * int(count * np.log(count + 2.0))
    sieve = np.ones(bound, dtype=bool)
    sieve[:2] = False
    for i in range(2, int(bound**0.5) + 1):
        if sieve[i]:
            sieve[i * i :: i] = False
    return np.flatnonzero(sieve)[:count].astype(np.float64)


def nearest_possible(symmetric: Array) -> Array:
    """Return the nearest matrix that is positive semi-definite with the same diagonal, nearly (Higham 2002).

    Impossible combinations are noise, and the projection removes more of it than the eigenvalues' sizes alone show.
    """
    diagonal, made, correction = np.diag(symmetric).copy(), symmetric, np.zeros(symmetric.shape)
    for _ in range(PROJECTIONS):
        values, vectors = np.linalg.eigh(made - correction)
        held = (vectors * np.maximum(values, 0.0)) @ vectors.T
        correction = held - (made - correction)
        made = held.copy()
        np.fill_diagonal(made, diagonal)
    return made


def definite(correlations: Array, least: float = LEAST_EIGENVALUE) -> Array:
    """Return a correlation matrix that is near to a symmetric one, whose eigenvalues are about this much at least."""
    values, vectors = np.linalg.eigh(correlations)
    made = (vectors * np.maximum(values, least)) @ vectors.T
    scale = np.sqrt(np.diag(made))
    return np.asarray(made / scale / scale[:, None])
