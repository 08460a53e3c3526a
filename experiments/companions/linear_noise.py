"""Near-optimal noise for linear queries (Wu, He and Xia 2017): densities that fall by e^-epsilon from layer to layer.

A query is a sum over records of a value from V, a union of intervals. Neighbours move it by N, symmetric and with 0.
A_0 = {0}, A_i = A_(i-1) + N; U_i is A_i widened by `width`, and layer i is U_i without U_(i-1). A point of U_i, moved
by N, lies in U_(i+1), so that layers of neighbours differ by at most 1: noise of density e^(-i epsilon) / alpha on
layer i is epsilon-private, for every width. V must be a public superset of the values.
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from scipy import ndimage, optimize, sparse

from experiments.companions.discrete import Array
from trigmech._validate import check_positive
from trigmech.errors import InputError

Intervals = tuple[tuple[float, float], ...]
# V of figures 1 and 2, and the step by which the text's algorithm has converged.
FIGURES: dict[str, tuple[Intervals, int]] = {
    "V1 = V6": (((0, 1), (1000, 1001)), 1000), "V2": (((0, 100), (1000, 1001)), 901),
    "V3": (((0, 500), (1000, 1001)), 501), "V4": (((0, 1001),), 1), "V5": (((0, 1), (100, 101)), 100),
    "V7": (((0, 1), (2000, 2001)), 2000)}
EPSILONS = (0.1, 0.5, 1.0, 2.0, 3.0, 5.0)
# On the integers: of the text's form [0, a] and [b, c] (0), and others (1).
LATTICES = [(0, (0, 1, 10, 11)), (0, (0, 1, 2, 20, 21)), (0, (0, 1, 12)), (0, (0, 1, 2, 3, 9, 10, 11, 12)),
            (0, (0, 6, 7, 8)), (1, (0, 3, 10)), (1, (0, 1, 4, 9, 16)), (1, (0, 7, 8, 15))]
STEPS = 2200


def union(intervals: Any) -> Array:
    """Return the parts of a union of intervals, ascending; those that touch are one."""
    parts = np.asarray(intervals, dtype=np.float64).reshape(-1, 2)
    parts = parts[np.argsort(parts[:, 0], kind="stable")]
    ends = np.maximum.accumulate(parts[:, 1])
    first = np.append(True, parts[1:, 0] > ends[:-1] + 1e-12 * max(1.0, ends[-1]))
    return np.column_stack([parts[first, 0], ends[np.append(first[1:], True)]])


def neighbours(values: Intervals, replace_one: bool = True) -> Intervals:
    """Return N of a query's possible values V, ascending and apart: V - V of replace-one, or V, -V, 0 of add/remove."""
    parts = np.asarray(values, dtype=np.float64)
    if not parts.size or parts.ndim != 2 or not np.isfinite(parts).all():
        raise InputError(f"values must be one or more finite intervals (low, high), not {values}")
    if not (parts[0, 0] >= 0 and (parts[:, 0] <= parts[:, 1]).all() and (parts[1:, 0] > parts[:-1, 1]).all()):
        raise InputError(f"intervals must be at least 0, ascending and must not overlap; given are {values}")
    moves = [(a - d, b - c) for a, b in parts for c, d in parts] if replace_one else [
        *parts, *(-parts[:, ::-1]), (0.0, 0.0)]
    return tuple(map(tuple, union(moves).tolist()))


@lru_cache(maxsize=8)
def layers(moves: Intervals, steps: int = STEPS) -> list[Array]:
    """Return A_0, A_1, ... up to the first from A_1 on that is one interval, or A_steps."""
    found = [np.zeros((1, 2))]
    while len(found) == 1 or (len(found[-1]) > 1 and len(found) <= steps):
        found.append(union(found[-1][:, None, :] + np.array(moves)[None, :, :]))
    return found


@lru_cache(maxsize=8)
def gaps_of(moves: Intervals, steps: int) -> Array:
    """Return of all gaps of all layers to the right of 0 the layer, the centre and the size."""
    right = [part[part[:, 1] >= 0] for part in layers(moves, steps)]
    return np.concatenate([np.column_stack([np.full(len(part) - 1, i), (part[1:, 0] + part[:-1, 1]) / 2,
                                            part[1:, 0] - part[:-1, 1]]) for i, part in enumerate(right)]).T


class Layered:
    """The size of the noise of N (by :func:`neighbours`); the width "best" is of the least. Gaps must close.

    The noise itself is `layers_in_space.LayersInSpace` of one entry.
    """

    def __init__(self, moves: Intervals, epsilon: float, width: float | Literal["best"] = "best",
                 steps: int = STEPS) -> None:
        check_positive(epsilon=epsilon)
        self.moves, self.epsilon, self.step = moves, epsilon, float(moves[-1][1])
        self.sets, (self._at, self._centre, self._size) = layers(moves, steps), gaps_of(moves, steps)
        self.width = self._best() if width == "best" else float(width)
        check_positive(width=self.width)
        if self._converged(self.width) is None:
            last = len(self.sets) - 1
            raise InputError(f"after {last} steps a gap of {self._size[self._at == last].max():g} is left, which a "
                             f"width of {self.width} does not close")

    def _converged(self, width: float) -> int | None:
        """Return the first layer from 1 on without gaps; from there on each is the last one moved outwards."""
        first = max(1, int(self._at[self._size > 2.0 * width + 1e-9].max(initial=0)) + 1)
        return first if first < len(self.sets) else None

    def expected(self, width: float) -> float:
        """Return E|z| at a width; infinite where layers have not converged."""
        if self._converged(width) is None:
            return math.inf
        q, closed = math.exp(-self.epsilon), np.maximum(self._size - 2.0 * width, 0.0)
        reach = np.array([part[-1, 1] for part in self.sets]) + width
        # For each U_i its measure and the integral of |z| over it.
        holes, firsts = (2.0 * np.bincount(self._at.astype(int), part, len(reach))
                         for part in (closed, self._centre * closed))
        lengths, firsts, decay, end = 2.0 * reach - holes, reach**2 - firsts, q ** np.arange(len(reach)), reach[-1]
        # Sums of q^j, j q^j, j^2 q^j for the layers after the last one known.
        s0, s1, s2 = q / (1 - q), q / (1 - q) ** 2, q * (1 + q) / (1 - q) ** 3
        total = decay @ lengths + decay[-1] * 2.0 * (end * s0 + self.step * s1)
        more = end**2 * s0 + 2 * end * self.step * s1 + self.step**2 * s2
        return float((decay @ firsts + decay[-1] * more) / total)

    def _best(self) -> float:
        tried = (np.geomspace(1e-4, 1.0, 241) * self.step).tolist()
        best = min(range(len(tried)), key=lambda i: self.expected(tried[i]))
        bounds = (tried[max(0, best - 1)], tried[min(len(tried) - 1, best + 1)])
        found: Any = optimize.minimize_scalar(self.expected, bounds=bounds, method="bounded",
                                              options={"xatol": 1e-6 * bounds[1]})
        return float(found.x if found.fun < self.expected(tried[best]) else tried[best])

    @property
    def expected_size(self) -> float:
        """E|z|."""
        return self.expected(self.width)


def staircase(sensitivity: float, epsilon: float, gamma: float | None = None) -> float:
    """Return E|z| of the noise of Geng and Viswanath; `gamma` is by default of the least."""
    check_positive(sensitivity=sensitivity, epsilon=epsilon)
    q, g = math.exp(-epsilon), 1.0 / (1.0 + math.exp(epsilon / 2.0)) if gamma is None else gamma
    return sensitivity * (q / (1.0 - q) + (g**2 + q * (1.0 - g**2)) / (2.0 * (g + q * (1.0 - g))))


def on_integers(values: Sequence[int], epsilon: float) -> float:
    """Return E|r| of layers on the integers at their best width, for add/remove of records with these values.

    Layers of weight below e^-45 are cut off. For all values up to the largest it is the staircase.
    """
    steps, widest = math.ceil(45.0 / epsilon), max(values)
    r, widths = np.arange(-(steps + 1) * widest, (steps + 1) * widest + 1), np.arange(widest + 1)[:, None]
    layer, reached = np.full((len(widths), len(r)), np.inf), r == 0
    for i in range(steps + 1):
        layer = np.minimum(layer, np.where(ndimage.distance_transform_edt(~reached) <= widths, i, np.inf))
        reached = np.any([np.roll(reached, sign * v) for v in (0, *values) for sign in (-1, 1)], axis=0)
    weights = np.exp(-epsilon * layer)
    return float((weights @ np.abs(r) / weights.sum(axis=1)).min())


def optimum(values: Sequence[int], epsilon: float) -> float:
    """Return the least E|r| of epsilon-private noise r on the integers, the same wherever it is added.

    For add/remove of records with these values. A linear program: p symmetric, p(r) <= e^epsilon p(r + v) for all moves
    v, and geometric from a range of 14 Delta / epsilon on, which raises the optimum by a part of e^-14 at most.
    """
    widest, q = max(values), math.exp(-epsilon)
    last = max(8, math.ceil(14.0 / epsilon)) * widest
    at, r = np.arange(last + 1), np.arange(last + 2 * widest + 1)

    def p(places: Any) -> Any:
        over = np.maximum(0, -(-(np.abs(places) - last) // widest))
        return sparse.csr_array((q**over, (np.arange(len(places)), np.abs(places) - over * widest)),
                                (len(places), last + 1))

    rules = sparse.vstack([p(r) - math.exp(epsilon) * p(r + sign * v) for v in {*values} - {0} for sign in (-1, 1)])
    tail = at > last - widest
    cost = 2.0 * np.where(tail, at / (1 - q) + widest * q / (1 - q) ** 2, at)
    mass, scale = np.where(tail, 2.0 / (1 - q), np.where(at == 0, 1.0, 2.0)), widest / epsilon
    minimise: Any = optimize.linprog
    found = minimise(cost / scale, A_ub=rules, b_ub=np.zeros(rules.shape[0]), A_eq=mass[None, :], b_eq=[1.0],
                     method="highs")
    return float(found.fun) * scale


def gain(k: int, epsilon: float) -> float:
    """Return how much less E||z|| layers of a ball in k dimensions have than K-norm noise, at the best width."""
    i = np.arange(math.ceil((60.0 + 8.0 * k) / epsilon))

    def size(width: float) -> float:
        return float(k / (k + 1) * np.average(i + width, weights=(i + width) ** k * np.exp(-epsilon * i)))

    best: Any = optimize.minimize_scalar(size, bounds=(1e-3, 1.0), method="bounded")
    return 1.0 - best.fun * epsilon / k
