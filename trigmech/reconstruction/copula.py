"""A normal copula with the released distributions: rows start from it, and tables of pairs are shrunk towards it.

Each column is a function of a normal variable: a number increases with it, and categories follow it in the order of
their first score. If two such variables have correlation r, the table of their columns is, by Mehler's formula, the sum
over k of r^k a_k b_k', with a_k and b_k the k-th Hermite coefficients of the indicators of positions. The mean of a
product of scores has the same form. This function of r is inverted at the released products of first scores, which
gives r. All correlations together are then made a correlation matrix by its eigenvalues.

References
----------
Mehler 1866; Pearson 1900, for two-way tables (tetrachoric correlations); Nelsen 2006, An introduction to copulas;
Higham 2002, Computing the nearest correlation matrix.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from trigmech._arrays import Array, Codes
from trigmech.functions.released_column import ReleasedColumn
from trigmech.queries.base import Measurement
from trigmech.queries.directions import SCORE_BITS, Directions
from trigmech.queries.joint import Marginal
from trigmech.reconstruction.dependence import shrunk_directions

# Terms of Mehler's series; the largest correlation, at which the omitted terms are negligible; and the number of
# correlations, between it and its negative, with which a product's mean is compared.
TERMS, LARGEST, STEPS = 40, 0.97, 195
LEAST_EIGENVALUE = 1e-3
# If all products are below this part of their noise after shrinkage, noise alone explains them.
FAINT = 0.1
# Simulated rows that give the products of directions under given correlations, and steps towards the measured ones.
SIMULATED, STEPS_OF_DESCENT = 4_096, 12
# Rounds of draws within cells.
ROUNDS, FIRM = 3, 0.2
# Rounds of projections onto the possible matrices.
PROJECTIONS = 40


class Scored(Protocol):
    """Products of features of two columns each: :class:`trigmech.queries.joint.Products` is one."""

    @property
    def features(self) -> list[Array]:
        """The features (size, q) of each column's positions."""
    @property
    def factors(self) -> NDArray[np.int64]:
        """The two columns and the two features (K, 4) of each product."""


@dataclass(frozen=True, eq=False)
class Copula:
    """Correlations (d, d), and for each column Hermite coefficients (size, TERMS + 1) and an order (size,).

    Coefficients and order are those of its positions. Special and missing values of a number are independent of all
    other columns; their order is below 0.
    """

    correlations: Array
    coefficients: tuple[Array, ...]
    orders: tuple[Array, ...]
    _known: dict[tuple[int, int], tuple[NDArray[np.int64], Array]] = field(default_factory=dict, init=False, repr=False)

    @classmethod
    def by_directions(cls, columns: Sequence[ReleasedColumn], measured: Measurement[Directions]) -> "Copula | None":
        """Return the copula that denoised directions imply; None if noise alone can explain them."""
        correlations = _by_directions(columns, measured)
        if correlations is None:
            return None
        orders = tuple(_order(column, np.arange(1.0 * len(column.mass))) for column in columns)
        return cls(correlations, tuple(_coefficients(column.mass, order)
                                       for column, order in zip(columns, orders, strict=True)), orders)

    @classmethod
    def by_products(cls, columns: Sequence[ReleasedColumn], products: "Scored", deviations: Array) -> "Copula":
        """Return the copula that products' denoised deviations (K,) from independence imply."""
        first = [score[:, 0] if score.shape[1] else np.zeros(len(score)) for score in products.features]
        orders = tuple(_order(column, score) for column, score in zip(columns, first, strict=True))
        coefficients = tuple(_coefficients(column.mass, order) for column, order in zip(columns, orders, strict=True))
        of_scores = np.array([score @ own for score, own in zip(first, coefficients, strict=True)])
        alone = (products.factors[:, 2:] == 0).all(axis=1)
        j, h = products.factors[alone, :2].T
        grid = np.linspace(-LARGEST, LARGEST, STEPS)
        powers = grid ** np.arange(1, TERMS + 1)[:, None]
        means = (of_scores[j, 1:] * of_scores[h, 1:]) @ powers
        correlations = np.eye(len(columns))
        # Scores that ascend in one column and descend in the other make it a descending function.
        for a, b, mean, deviation in zip(j.tolist(), h.tolist(), means, deviations[alone].tolist(), strict=True):
            rising = 1.0 if mean[-1] >= mean[0] else -1.0
            ascending = np.maximum.accumulate(rising * mean)
            found = float(np.interp(rising * deviation, ascending, grid)) if deviation and ascending[-1] > ascending[
                0] else 0.0
            correlations[a, b] = correlations[b, a] = found
        return cls(_definite(correlations), coefficients, orders)

    def table(self, query: Marginal) -> Array:
        """Return the table of two columns under the copula."""
        correlation = self.correlations[query.columns]
        own = [self._summed(*each) for each in zip(query.columns, query.maps, strict=True)]
        return np.maximum((own[0] * correlation ** np.arange(TERMS + 1.0)) @ own[1].T, 0.0)

    def within(self, columns: tuple[int, ...], features: Sequence[Array], of_cells: Sequence[Array]) -> Array:
        """Return the part (q, r) of the means of products of two columns' features that lies within cells.

        ``of_cells`` are the means of the features (size, q) and (size, r) over each position's cell.
        """
        one, two = ([own.T @ self.coefficients[j] for j, own in zip(columns, each, strict=True)]
                    for each in (features, of_cells))
        powers = self.correlations[columns] ** np.arange(TERMS + 1.0)
        return np.asarray((one[0] * powers) @ one[1].T - (two[0] * powers) @ two[1].T)

    def _summed(self, column: int, cells: NDArray[np.int64]) -> Array:
        """Return the coefficients of a column's cells, computed once for a map: many tables share it."""
        known = self._known.get((column, id(cells)))
        # A copy of this object has maps with other numbers.
        if known is None or known[0] is not cells:
            known = self._known[column, id(cells)] = cells, _summed(self.coefficients[column], cells)
        return known[1]

    def arrange(self, rows: Codes, rng: np.random.Generator) -> None:
        """Exchange entries of each column between rows (m, d), in place, so that rows follow the copula."""
        normal = rng.normal(size=rows.shape) @ np.linalg.cholesky(self.correlations).T
        for j, order in enumerate(self.orders):
            # Rows with equal positions stay in their random order.
            place = order[rows[:, j]]
            held = np.flatnonzero(place >= 0.0)
            ascending = held[np.argsort(place[held], kind="stable")]
            rows[held[np.argsort(normal[held, j], kind="stable")], j] = rows[ascending, j]

    def arrange_within(self, rows: Codes, cells: Sequence[NDArray[np.int64]], rng: np.random.Generator,
                       rounds: int = ROUNDS, *, every: bool = True) -> None:
        """Exchange entries of each column between rows in the same cell, in place, so that rows follow the copula.

        ``cells`` has the cell (size,) of each position of each column. No function of cells changes. Each column in
        turn draws normal values given those of the others; its entries in a cell take their order (Gibbs sampling).
        Unless ``every`` entry takes part, those in cells of one position keep the value that they have first.
        """
        precision = np.linalg.inv(_definite(self.correlations, FIRM))
        spread = 1.0 / np.sqrt(np.diag(precision))
        weights = -precision * spread[:, None] ** 2
        np.fill_diagonal(weights, 0.0)
        values, turns = np.zeros(rows.shape), list[tuple[int, Array, NDArray[np.integer], Array, Array]]()
        for j, (order, held) in enumerate(zip(self.orders, cells, strict=True)):
            place = order[rows[:, j]]
            values[:, j] = _normal_values(place, rng)
            moving = order if every else np.where(np.bincount(held)[held] > 1, order, -1.0)
            if not weights[j].any() or not (moving >= 0.0).any():
                continue
            # Exchanges within a cell do not change which values it has.
            now = np.flatnonzero(place >= 0.0)
            own, least, most = held[rows[now, j]], np.full(held.max() + 1, np.inf), np.full(held.max() + 1, -np.inf)
            np.minimum.at(least, own, values[now, j])
            np.maximum.at(most, own, values[now, j])
            least[least <= least.min()], most[most >= most.max()] = -np.inf, np.inf
            turns.append((j, moving, _short(np.argsort(np.lexsort((order, held)))), least, most))
        for j, moving, ranks, least, most in turns * rounds:
            held = np.flatnonzero(moving[rows[:, j]] >= 0.0)
            if len(held) < 2:
                continue
            codes = rows[held, j]
            own = cells[j][codes]
            drawn = truncated((values @ weights[j])[held], spread[j], least[own], most[own], rng)
            before, after = np.argsort(ranks[codes], kind="stable"), sorted_within(own, drawn)
            rows[held[after], j] = codes[before]
            values[held[after], j] = values[held[before], j]


def sorted_within(groups: NDArray[np.int64], values: Array) -> NDArray[np.int64]:
    """Return an order (m,) by groups, and within these by values, which differ."""
    order = np.argsort(values)
    return order[np.argsort(_short(groups)[order], kind="stable")]


def _short(numbers: NDArray[np.int64]) -> NDArray[np.integer]:
    """Return numbers from 0 on in 16 bits where these are enough: they are then sorted by their digits, much faster."""
    return numbers.astype(np.uint16) if numbers.max(initial=0) < 2**16 else numbers


def truncated(means: Array, deviation: float | Array, least: Array, most: Array, rng: np.random.Generator) -> Array:
    """Return normal values (m,) between bounds, by inversion; uniform ones where floats are too coarse for that."""
    # Computed in the lower tail, where distribution functions are exact.
    turned = least - means > 0.0
    low, high = (np.where(turned, means - most, least - means) / deviation,
                 np.where(turned, means - least, most - means) / deviation)
    a, b, u = ndtr(low), ndtr(high), rng.random(len(means))
    made = ndtri(np.clip(a + u * (b - a), 1e-300, 1.0 - 1e-16))
    made = np.clip(np.where(b > a, made, np.clip(low, -30.0, 30.0) + u * 1e-9), low, high)
    return np.asarray(means + deviation * np.where(turned, -made, made))


def _normal_values(place: Array, rng: np.random.Generator) -> Array:
    """Return normal scores (m,) of places in random order where they are equal; 0 where they are below 0."""
    held = np.flatnonzero(place >= 0.0)
    ranked = np.empty(len(held))
    ranked[sorted_within(place[held].astype(np.int64), rng.random(len(held)))] = (
        np.arange(len(held)) + 0.5) / max(len(held), 1)
    made = np.zeros(len(place))
    made[held] = ndtri(ranked)
    return made


def _by_directions(columns: Sequence[ReleasedColumn], measured: Measurement[Directions]) -> Array | None:
    """Return the correlations under which rows of the copula have the measured products after denoising."""
    query, d = measured.query, len(columns)
    first, second = query.pairs.T
    ends = [column.normal_ends for column in columns]
    starts = [len(column.mass) - len(own) - 1 for column, own in zip(columns, ends, strict=True)]
    gone = [float(column.mass[:start].sum()) for column, start in zip(columns, starts, strict=True)]
    normal, absent = _even_rows(d)
    absences = [np.flatnonzero(absent[:, j] < gone[j]) for j in range(d)]

    def products(correlations: Array) -> Array:
        values, codes = np.linalg.cholesky(correlations) @ normal.T, np.empty((d, SIMULATED), dtype=np.int64)
        for own, value, end, start, nothing in zip(codes, values, ends, starts, absences, strict=True):
            own[:] = np.searchsorted(end, value)
            own += start
            own[nothing] = 0
        entries = query.entries(codes.T)
        return np.asarray(entries.T @ entries / SIMULATED)

    scores = [score * 2.0**-SCORE_BITS for score in query.scores]
    spread = np.sqrt([max(float(column.mass @ score**2 - (column.mass @ score) ** 2), 0.0)
                      for column, score in zip(columns, scores, strict=True)])
    # About how much products change with correlations.
    slopes = spread[first] * spread[second] / max(float(spread @ spread), np.finfo(float).tiny)
    if not slopes.any():
        return None
    alone = products(np.eye(d))
    kept = shrunk_directions(measured.means - alone[first, second], measured.deviation, query.pairs, slopes)
    if not (np.abs(kept) > FAINT * measured.deviation).any():
        return None
    nearest = alone.copy()
    nearest[first, second] = nearest[second, first] = alone[first, second] + kept
    wanted = _nearest(nearest)[first, second]
    correlations, most = np.eye(d), float(slopes.max())
    loose = correlations.copy()
    # Few steps, so that correlations with little effect on the products stay near 0.
    for _ in range(STEPS_OF_DESCENT):
        change = slopes * (wanted - products(correlations)[first, second]) / most**2
        loose[first, second] = np.clip(loose[first, second] + change, -LARGEST, LARGEST)
        loose[second, first] = loose[first, second]
        correlations = _definite(loose)
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


def _order(column: ReleasedColumn, score: Array) -> Array:
    k = len(column.partition.indicators)
    if column.partition.value is None:
        return np.argsort(np.argsort(score, kind="stable"), kind="stable").astype(np.float64)
    return np.concatenate([np.full(k, -1.0), np.arange(len(score) - k)])


def _coefficients(mass: Array, order: Array) -> Array:
    """Return the coefficients (size, TERMS + 1) of each position's indicator in normalised Hermite polynomials."""
    made = np.zeros((len(mass), TERMS + 1))
    made[:, 0] = mass
    held = np.flatnonzero(order >= 0.0)
    held = held[np.argsort(order[held], kind="stable")]
    total = float(mass[held].sum())
    if not total > 0.0:
        return made
    ends = ndtri(np.clip(np.concatenate([[0.0], np.cumsum(mass[held])]) / total, 0.0, 1.0))
    inner = np.isfinite(ends)
    z = np.where(inner, ends, 0.0)
    density = np.where(inner, np.exp(-0.5 * z**2) / np.sqrt(2.0 * np.pi), 0.0)
    before, now = np.zeros(len(z)), np.ones(len(z))
    polynomials = np.empty((TERMS, len(z)))
    for k, own in enumerate(polynomials, 1):
        own[:] = now
        before, now = now, (z * now - math.sqrt(k - 1.0) * before) / math.sqrt(k)
    made[held, 1:] = (-total * np.diff(polynomials * density) / np.sqrt(np.arange(1.0, TERMS + 1.0))[:, None]).T
    return made


def _summed(coefficients: Array, cells: NDArray[np.int64]) -> Array:
    made = np.zeros((int(cells.max()) + 1, coefficients.shape[1]))
    np.add.at(made, cells, coefficients)
    return made


def _nearest(symmetric: Array) -> Array:
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


def _definite(correlations: Array, least: float = LEAST_EIGENVALUE) -> Array:
    """Return a correlation matrix that is near to a symmetric one, whose eigenvalues are about this much at least."""
    values, vectors = np.linalg.eigh(correlations)
    made = (vectors * np.maximum(values, least)) @ vectors.T
    scale = np.sqrt(np.diag(made))
    return np.asarray(made / scale / scale[:, None])
