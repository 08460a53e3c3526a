"""Points whose indicators are probabilities while they move, and the way back to indicators.

A point with probabilities u in place of a group's indicators stands for points with category k in the fraction u_k of
them, drawn independently of the other groups. Means of products of different columns' functions, linear in each
indicator, are the same for it as on average for those; so the fit may move the probabilities, and rounding them
afterwards changes the fitted means by its sampling error alone.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from trigmech.distribution import systematic
from trigmech.domain import Domain, OneHotGroup
from trigmech.reconstruction.marginals import positive_definite

Array = NDArray[np.float64]

# What a point's own category starts with; the rest is shared out by the column's frequencies, so that all can grow.
OWN_CATEGORY = 0.75
SMALLEST_PROBABILITY = 1e-6
# Of a raked weight that is not 0: it can always grow back, and what it is divided by never underflows.
SMALLEST_WEIGHT = 1e-20
# Of two events that always happen together.
LARGEST_CORRELATION = 0.9999


class GroupedChart:
    """A chart (:class:`trigmech.reconstruction.particles.Chart`) that keeps to a domain.

    Numbers move in the angles arccos x. If ``relax`` is True, indicators of complete groups become probabilities, which
    move in logits. Other indicators stay, and so do numbers whose column holds one of its special values. Only what
    moves is among the parameters: categories can be many, and points as well.

    Parameters
    ----------
    points : ndarray (m, d)
        The start.
    domain : Domain
    relax : bool
    moving : ndarray (d,) of bool, optional
        Groups without any of these coordinates keep the probabilities that they start with. Default: all move.
    """

    def __init__(self, points: Array, domain: Domain, relax: bool, moving: NDArray[np.bool_] | None = None) -> None:
        self._numbers = numbers = list(domain.numbers)
        self._fixed = points.copy()
        self._free = np.ones((len(points), len(numbers)))
        for group in domain.groups:
            if group.value is not None:
                held = points[:, list(group.coordinates)].any(axis=1)
                self._free[held, numbers.index(group.value)] = 0.0
        parameters = [np.arccos(np.clip(points[:, numbers], -1.0, 1.0)) * self._free]
        # Of each group that moves its coordinates, and their places among the parameters.
        self._groups: list[tuple[list[int], slice]] = []
        used = len(numbers)
        for group in domain.groups:
            if not (relax and group.complete):
                continue
            coordinates = list(group.coordinates)
            u = points[:, coordinates]
            mixed = np.maximum(OWN_CATEGORY * u + (1.0 - OWN_CATEGORY) * u.mean(axis=0), SMALLEST_PROBABILITY)
            if moving is None or moving[coordinates].any():
                self._groups.append((coordinates, slice(used, used + len(coordinates))))
                used += len(coordinates)
                parameters.append(np.log(mixed))
            else:
                self._fixed[:, coordinates] = mixed / mixed.sum(axis=1, keepdims=True)
        self.start = np.hstack(parameters)

    def points(self, parameters: Array) -> Array:
        """Return the points (m, d)."""
        x = self._fixed.copy()
        angles = parameters[:, : len(self._numbers)]
        x[:, self._numbers] = np.where(self._free > 0.0, np.cos(angles), x[:, self._numbers])
        for coordinates, place in self._groups:
            logits = parameters[:, place]
            u = np.exp(logits - logits.max(axis=1, keepdims=True))
            x[:, coordinates] = u / u.sum(axis=1, keepdims=True)
        return np.clip(x, -1.0, 1.0, out=x)

    def pull(self, parameters: Array, points: Array, gradient: Array) -> Array:
        """Return the gradient by the parameters."""
        pulled = np.empty(parameters.shape)
        count = len(self._numbers)
        pulled[:, :count] = -gradient[:, self._numbers] * np.sin(parameters[:, :count]) * self._free
        for coordinates, place in self._groups:
            u, g = points[:, coordinates], gradient[:, coordinates]
            pulled[:, place] = u * (g - (u * g).sum(axis=1, keepdims=True))
        return pulled


def round_groups(points: Array, domain: Domain, rng: np.random.Generator) -> Array:
    """Return the points with one category for each complete group, drawn by the point's probabilities.

    Systematic: over any run of points the number of those with a category is near the sum of their probabilities, over
    all points within about 1 of it. Copies of one point side by side share out its probabilities among them.
    """
    rounded = points.copy()
    # Equal points side by side, in an order of their own for each group: else their categories would be in step.
    change = np.any(points[1:] != points[:-1], axis=1)
    run = np.concatenate([[0], np.cumsum(change)])
    for group in domain.groups:
        if group.complete:
            order = np.lexsort((rng.random(len(points)), run))
            where = np.ix_(order, np.array(group.coordinates))
            rounded[where] = _one_each(points[where], rng)
    return rounded


def _one_each(probabilities: Array, rng: np.random.Generator) -> Array:
    """Return indicators (m, c), one 1 in each row: category after category, among the rows that have none yet."""
    m, c = probabilities.shape
    chosen = np.full(m, c - 1)
    left = np.arange(m)
    rest = probabilities.sum(axis=1)
    for k in range(c - 1):
        p = probabilities[left, k]
        # Of what the categories from k on have together.
        fraction = np.clip(p / np.maximum(rest[left], 1e-300), 0.0, 1.0)
        # A row is taken if a whole number lies in its stretch of the cumulative shares, shifted by one uniform offset.
        taken = np.diff(np.floor(np.cumsum(fraction) + rng.random()), prepend=0.0) >= 1.0
        taken |= fraction > 1.0 - 1e-9
        chosen[left[taken]] = k
        rest[left] -= p
        left = left[~taken]
    indicators = np.zeros((m, c))
    indicators[np.arange(m), chosen] = 1.0
    return indicators


def draw_groups(frequencies: list[Array], domain: Domain, count: int, rng: np.random.Generator,
                held: Array | None = None) -> Array:
    """Return rows (count, d), 0 but for indicators that are drawn by group.

    Frequencies of a group's indicators sum to 1 if the group is complete, and to at most 1 else. ``held`` (g, g) is the
    correlation of a Gaussian copula of the incomplete groups, as by :func:`held_together`; without it all are
    independent.
    """
    rows = np.zeros((count, domain.d))
    weights = [p if group.complete else np.append(p, max(0.0, 1.0 - float(p.sum())))
               for group, p in zip(domain.groups, frequencies, strict=True)]
    chosen = [rng.permutation(systematic(w, count, rng)) for w in weights]
    if held is not None:
        scores = rng.standard_normal((count, len(held))) @ np.linalg.cholesky(held).T
        incomplete = [i for i, group in enumerate(domain.groups) if not group.complete]
        for i, score in zip(incomplete, scores.T, strict=True):
            # The same draws as before in the order of the scores: the frequencies stay as they are.
            chosen[i] = np.sort(chosen[i])[np.argsort(np.argsort(score))]
    for group, p, which in zip(domain.groups, frequencies, chosen, strict=True):
        has = which < len(p)
        rows[np.flatnonzero(has), np.array(group.coordinates)[which[has]]] = 1.0
    return rows


def held_together(shares: Array, joint: Array, scales: Array, threshold: float = 3.0) -> Array | None:
    """Return the correlation of a Gaussian copula under which events happen together as often as released.

    Parameters
    ----------
    shares : ndarray (g,)
        How often each event happens, from 0 to 1.
    joint : ndarray (g, g)
        How often two happen together; the diagonal is not read.
    scales : ndarray (g, g)
        The standard deviations of their noise; infinite where nothing was released.
    threshold : float
        A dependence counts only if it exceeds this many standard deviations of its noise.

    Returns
    -------
    ndarray (g, g) or None
        Positive definite with unit diagonal; None if no pair passes.

    Notes
    -----
    Privacy: post-processing. The correlation of two events is found by bisection; together they may be no correlation
    matrix, and the nearest by eigenvalues is taken.
    """
    passed = np.abs(joint - np.outer(shares, shares)) > threshold * scales
    np.fill_diagonal(passed, False)
    if not passed.any():
        return None
    a, b = np.nonzero(np.triu(passed | passed.T))
    inside = np.clip(shares, 1e-6, 1.0 - 1e-6)
    # Scores of the first event, evenly over the fraction of cases in which it happens.
    first = ndtri(inside[a, None] * (np.arange(64) + 0.5) / 64.0)
    low, high = np.full(len(a), -LARGEST_CORRELATION), np.full(len(a), LARGEST_CORRELATION)
    for _ in range(30):
        middle = (low + high) / 2.0
        residual = np.sqrt(1.0 - middle**2)
        both = inside[a] * ndtr((ndtri(inside[b]) - middle * first.T) / residual).mean(axis=0)
        low, high = np.where(both < joint[a, b], middle, low), np.where(both < joint[a, b], high, middle)
    correlation = np.eye(len(shares))
    correlation[a, b] = correlation[b, a] = (low + high) / 2.0
    return positive_definite(correlation, 1.0 - LARGEST_CORRELATION)


def nearest_frequencies(noisy: Array, group: OneHotGroup) -> Array:
    """Return the nearest point of the simplex (of sum 1, or at most 1 for an incomplete group) to noisy frequencies."""
    clipped = np.maximum(noisy, 0.0)
    if not group.complete and clipped.sum() <= 1.0:
        return clipped
    ordered = np.sort(noisy)[::-1]
    excess = (np.cumsum(ordered) - 1.0) / np.arange(1, len(noisy) + 1)
    return np.maximum(noisy - excess[np.flatnonzero(ordered > excess)[-1]], 0.0)


def rake(points: Array, weights: Array, frequencies: list[Array], domain: Domain, rounds: int = 20,
         joint: Array | None = None) -> Array:
    """Return weights (m,) with the given frequencies of every group's indicators, near the ones given.

    Iterative proportional fitting: the result is nearest in KL divergence once it has converged. A category that no
    weighted point has stays without weight, and a group of which no weighted point has a wanted category is passed
    over. Weights that sum to a positive number give weights that sum to 1, whatever the frequencies are. ``joint``
    (g, g) holds how often two of the g incomplete groups hold an indicator together; without it that is not raked.
    """
    weights = _kept_alive(weights / weights.sum())
    tables = [] if joint is None else _tables(points, frequencies, domain, joint)
    for _ in range(rounds):
        for cell, wanted in tables:
            have = np.bincount(cell, weights, 4)
            raked = weights * np.divide(wanted, have, out=np.zeros(4), where=have > 0.0)[cell]
            if raked.sum() > 0.0:
                weights = _kept_alive(raked / raked.sum())
        for group, p in zip(domain.groups, frequencies, strict=True):
            indicators = points[:, list(group.coordinates)]
            none = 1.0 - indicators.sum(axis=1)
            have = np.append(weights @ indicators, weights @ none)
            want = np.append(p, max(0.0, 1.0 - float(p.sum())))
            ratio = np.divide(want, have, out=np.zeros_like(want), where=have > 0.0)
            raked = weights * (indicators @ ratio[:-1] + none * ratio[-1])
            if raked.sum() > 0.0:
                weights = _kept_alive(raked / raked.sum())
    return weights / weights.sum()


def _tables(points: Array, frequencies: list[Array], domain: Domain,
            joint: Array) -> list[tuple[NDArray[np.int64], Array]]:
    """Return of every two incomplete groups each point's cell in their table, and what the four cells should have."""
    incomplete = [i for i, group in enumerate(domain.groups) if not group.complete]
    holds = [points[:, list(domain.groups[i].coordinates)].any(axis=1).astype(np.int64) for i in incomplete]
    shares = [float(frequencies[i].sum()) for i in incomplete]
    tables: list[tuple[NDArray[np.int64], Array]] = []
    for a in range(len(incomplete)):
        for b in range(a):
            both = min(max(joint[a, b], shares[a] + shares[b] - 1.0, 0.0), shares[a], shares[b])
            wanted = np.array([1.0 - shares[a] - shares[b] + both, shares[b] - both, shares[a] - both, both])
            cell = np.asarray(2 * holds[a] + holds[b], dtype=np.int64)
            tables.append((cell, np.maximum(wanted, 0.0)))
    return tables


def _kept_alive(weights: Array) -> Array:
    return np.where(weights > 0.0, np.maximum(weights, SMALLEST_WEIGHT), 0.0)


def rake_probabilities(points: Array, frequencies: list[Array], domain: Domain, rounds: int = 20) -> Array:
    """Return the points with the probabilities of complete groups raked, so that their means are the frequencies."""
    raked = points.copy()
    for group, p in zip(domain.groups, frequencies, strict=True):
        if group.complete:
            u = np.maximum(points[:, list(group.coordinates)], SMALLEST_PROBABILITY)
            for _ in range(rounds):
                u = u * (p / np.maximum(u.mean(axis=0), 1e-300))
                u /= u.sum(axis=1, keepdims=True)
            raked[:, list(group.coordinates)] = u
    return raked
