"""Near-optimal noise for linear queries (Wu, He and Xia 2017): densities that fall by e^-epsilon from layer to layer.

A query is a sum over records of a value from V, a union of intervals. Neighbours move it by N, symmetric and with 0.
A_0 = {0}, A_i = A_(i-1) + N; U_i is A_i widened by `width`, and layer i is U_i without U_(i-1). A point of U_i, moved
by N, lies in U_(i+1), so that layers of neighbours differ by at most 1: noise of density e^(-i epsilon) / alpha on
layer i is epsilon-private, for every width. V must be a public superset of the values.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
from scipy import optimize, sparse

from experiments.companions import pages
from experiments.companions.discrete import Array
from experiments.companions.selection import check_positive
from trigmech.errors import InputError

Intervals = Sequence[tuple[float, float]]
# V of figures 1 and 2, and the step by which the text's algorithm has converged.
FIGURES: dict[str, tuple[Intervals, int]] = {
    "V1 = V6": (((0, 1), (1000, 1001)), 1000), "V2": (((0, 100), (1000, 1001)), 901),
    "V3": (((0, 500), (1000, 1001)), 501), "V4": (((0, 1001),), 1), "V5": (((0, 1), (100, 101)), 100),
    "V7": (((0, 1), (2000, 2001)), 2000)}
EPSILONS = (0.1, 0.5, 1.0, 2.0, 3.0, 5.0)
# On the integers: of the text's form [0, a] and [b, c], and others.
LATTICES = ((0, 1, 10, 11), (0, 1, 2, 20, 21), (0, 1, 12), (0, 1, 2, 3, 9, 10, 11, 12), (0, 6, 7, 8))
OTHERS = ((0, 3, 10), (0, 1, 4, 9, 16), (0, 7, 8, 15))
STEPS = 2200


def union(intervals: Any) -> Array:
    """Return the parts of a union of intervals, ascending; those that touch are one."""
    parts = np.asarray(intervals, dtype=np.float64).reshape(-1, 2)
    parts = parts[np.argsort(parts[:, 0], kind="stable")]
    ends = np.maximum.accumulate(parts[:, 1])
    first = np.append(True, parts[1:, 0] > ends[:-1] + 1e-12 * max(1.0, ends[-1]))
    return np.column_stack([parts[first, 0], ends[np.append(np.flatnonzero(first)[1:] - 1, len(parts) - 1)]])


def neighbours(values: Intervals, replace_one: bool = True) -> Array:
    """Return N of a query's possible values V: V - V of replace-one, or V, -V and 0 of add/remove.

    Raises
    ------
    InputError
        If V is empty, or its intervals are not finite, at least 0, ascending and apart.
    """
    parts = np.asarray(values, dtype=np.float64)
    if not parts.size or parts.ndim != 2 or not np.isfinite(parts).all():
        raise InputError(f"values must be one or more finite intervals (low, high), not {values}")
    if not (parts[0, 0] >= 0 and (parts[:, 0] <= parts[:, 1]).all() and (parts[1:, 0] > parts[:-1, 1]).all()):
        raise InputError(f"intervals must be at least 0, ascending and must not overlap; given are {values}")
    if replace_one:
        return union([(a - d, b - c) for a, b in parts for c, d in parts])
    return union([*parts, *(-parts[:, ::-1]), (0.0, 0.0)])


def layers(moves: Array, steps: int = STEPS, cell: float = 0.0) -> list[Array]:
    """Return A_0, A_1, ... up to the first from A_1 on that is one interval, or A_steps.

    On the integers `cell` is 1: the length around each number that stands for it.
    """
    found = [np.array([[-cell / 2.0, cell / 2.0]])]
    while len(found) == 1 or (len(found[-1]) > 1 and len(found) <= steps):
        found.append(union((found[-1][:, None, :] + moves[None, :, :]).reshape(-1, 2)))
    return found


@lru_cache(maxsize=8)
def _known(moves: tuple[tuple[float, float], ...], steps: int, cell: float,
           ) -> tuple[list[Array], Array, tuple[Array, ...]]:
    """Return the sets, where each ends, and of all gaps to the right of 0 their layer, centre and size."""
    sets = layers(np.array(moves), steps, cell)
    right = [part[part[:, 1] >= 0] for part in sets]
    gaps = [(np.full(len(part) - 1, i), (part[1:, 0] + part[:-1, 1]) / 2, part[1:, 0] - part[:-1, 1])
            for i, part in enumerate(right)]
    return sets, np.array([part[-1, 1] for part in sets]), tuple(map(np.concatenate, zip(*gaps, strict=True)))


@dataclass(frozen=True, eq=False)
class Layered:
    """The noise.

    Parameters
    ----------
    moves : ndarray (parts, 2)
        N, by :func:`neighbours`.
    epsilon : float
    width : float or "best"
        "best": of the least expected size.
    lattice : bool
        Whether the noise is on the integers: the ends of N's parts, which are single integers, and the width, of which
        0 is one.
    steps : int
        Layers that are looked at.

    Raises
    ------
    InputError
        If epsilon or the width is not positive, or gaps remain after all steps.
    """

    moves: Array
    epsilon: float
    width: float | Literal["best"] = "best"
    lattice: bool = False
    steps: int = STEPS

    def __post_init__(self) -> None:
        check_positive(epsilon=self.epsilon)
        if self.width == "best":
            object.__setattr__(self, "width", self._best())
        elif not self.lattice:
            check_positive(width=float(self.width))
        if self._converged(float(self.width)) is None:
            left = self._known[2][2][self._known[2][0] == len(self._known[0]) - 1].max()
            raise InputError(f"after {len(self._known[0]) - 1} steps a gap of {left:g} is left, which a width of "
                             f"{self.width} does not close")

    @cached_property
    def _known(self) -> tuple[list[Array], Array, tuple[Array, ...]]:
        return _known(tuple(map(tuple, self.moves.tolist())),
                      math.ceil(45.0 / self.epsilon) if self.lattice else self.steps, float(self.lattice))

    @property
    def sensitivity(self) -> float:
        """The farthest that a neighbour moves the query."""
        return float(self.moves[-1, 1])

    def _converged(self, width: float) -> int | None:
        """Return the first layer from 1 on without gaps; from there on each is the last one moved outwards."""
        sets, _, (at, _, size) = self._known
        open_layers = at[size > 2.0 * width + 1e-9]
        first = max(1, int(open_layers.max(initial=0)) + 1)
        if first < len(sets):
            return first
        # At the ends of sets of integers gaps may stay for ever; the layers beyond these weigh less than e^-45.
        return len(sets) - 1 if self.lattice else None

    @property
    def converged(self) -> int:
        """The step of convergence."""
        return self._converged(float(self.width)) or 0

    def _sizes(self, width: float) -> tuple[Array, Array]:
        """Return for each U_i its measure and the integral of |z| over it."""
        _, reach, (at, centre, size) = self._known
        closed = np.maximum(size - 2.0 * width, 0.0)
        lengths, firsts = (2.0 * np.bincount(at, weights=w, minlength=len(reach)) for w in (closed, centre * closed))
        # A unit cell around each integer has the integer's size for its integral, but for the one at 0.
        return 2.0 * (reach + width) - lengths, (reach + width) ** 2 - firsts - 0.25 * self.lattice

    def expected(self, width: float) -> float:
        """Return E|z| at a width; infinite where layers have not converged."""
        if self._converged(width) is None:
            return math.inf
        (lengths, firsts), q, step = self._sizes(width), math.exp(-self.epsilon), self.sensitivity
        decay, end = q ** np.arange(len(lengths)), float(self._known[1][-1]) + width
        # Sums of q^j, j q^j, j^2 q^j for the layers after the last one known.
        s0, s1, s2 = q / (1 - q), q / (1 - q) ** 2, q * (1 + q) / (1 - q) ** 3
        total = decay @ lengths + decay[-1] * 2.0 * (end * s0 + step * s1)
        moment = decay @ firsts + decay[-1] * ((end**2 - 0.25 * self.lattice) * s0 + 2 * end * step * s1 + step**2 * s2)
        return float(moment / total)

    def _best(self) -> float:
        if self.lattice:
            return float(min(range(int(self.sensitivity) + 1), key=self.expected))
        tried = (np.geomspace(1e-4, 1.0, 241) * self.sensitivity).tolist()
        best = min(range(len(tried)), key=lambda i: self.expected(tried[i]))
        low, high = tried[max(0, best - 1)], tried[min(len(tried) - 1, best + 1)]
        found: Any = optimize.minimize_scalar(self.expected, bounds=(low, high), method="bounded",
                                              options={"xatol": 1e-6 * high})
        return float(found.x if found.fun < self.expected(tried[best]) else tried[best])

    @property
    def expected_size(self) -> float:
        """E|z|."""
        return self.expected(float(self.width))

    def layer(self, z: Array) -> Any:
        """Return the layer of each place."""
        size, width = np.abs(np.asarray(z, dtype=np.float64)), float(self.width)
        sets, reach, _ = self._known
        found = len(sets) - 1 + np.ceil(np.maximum(0.0, size - reach[-1] - width) / self.sensitivity)
        for i in range(len(sets) - 1, -1, -1):
            place = np.clip(np.searchsorted(sets[i][:, 0], size, side="right") - 1, 0, None)
            after = np.minimum(place + 1, len(sets[i]) - 1)
            away = np.minimum(np.abs(size - np.clip(size, *sets[i][place].T)),
                              np.abs(size - np.clip(size, *sets[i][after].T)))
            found = np.where(away <= width, i, found)
        return found

    @cached_property
    def _alpha(self) -> float:
        lengths, q = self._sizes(float(self.width))[0], math.exp(-self.epsilon)
        end = float(self._known[1][-1]) + float(self.width)
        tail = 2.0 * (end * q / (1 - q) + self.sensitivity * q / (1 - q) ** 2)
        decay = q ** np.arange(len(lengths))
        return float((1 - q) * (decay @ lengths + decay[-1] * tail))

    def density(self, z: Array) -> Array:
        """Return the density at each place."""
        return np.asarray(np.exp(-self.epsilon * self.layer(z)) / self._alpha)

    def sample(self, rng: np.random.Generator, size: int = 1, first: int = 1) -> Array:
        """Return draws of the noise on the line. A seeded simulation. `first` = 0 is what the text leaves possible."""
        n, width, q = self.converged, float(self.width), math.exp(-self.epsilon)
        sets = [union(part + np.array([-width, width])) for part in self._known[0][: n + 1]]
        # U_(i-1) lies within U_i, so their ends, sorted, are those of the parts of what lies between.
        parts = [sets[0], *(np.sort(np.concatenate([a, b]).ravel()).reshape(-1, 2)
                            for a, b in zip(sets[1:], sets[:-1], strict=True))]
        measures = np.array([(part[:, 1] - part[:, 0]).sum() for part in parts])
        tail = 2.0 * self.sensitivity * q ** (n + 1) / (1 - q)
        weights = np.append(measures * q ** np.arange(n + 1), tail)
        chosen, out = rng.choice(n + 2, size, p=weights / weights.sum()), np.empty(size)
        for i in np.unique(chosen):
            held = np.flatnonzero(chosen == i)
            if i <= n:
                length = parts[i][:, 1] - parts[i][:, 0]
                which = rng.choice(len(length), held.size, p=length / length.sum())
                out[held] = parts[i][which, 0] + rng.random(held.size) * length[which]
            else:
                j = rng.geometric(1 - q, held.size) - 1 + first
                away = sets[-1][-1, 1] + (j - 1 + rng.random(held.size)) * self.sensitivity
                out[held] = np.where(rng.random(held.size) < 0.5, -away, away)
        return out


@dataclass(frozen=True)
class Staircase:
    """Noise of Geng and Viswanath; `gamma` is by default of the least expected size."""

    sensitivity: float
    epsilon: float
    gamma: float | None = None

    @property
    def expected_size(self) -> float:
        """E|z|."""
        check_positive(sensitivity=self.sensitivity, epsilon=self.epsilon)
        q = math.exp(-self.epsilon)
        g = 1.0 / (1.0 + math.exp(self.epsilon / 2.0)) if self.gamma is None else self.gamma
        level = g + q * (1.0 - g)
        return self.sensitivity * (q / (1.0 - q) + (g**2 + q * (1.0 - g**2)) / (2.0 * level))


def optimum(values: Sequence[int], epsilon: float) -> float:
    """Return the least E|r| of noise r on the integers, the same wherever it is added, that is epsilon-private.

    For add/remove of records with these values. A linear program: p symmetric and at least 0, of sum 1,
    p(r) <= e^epsilon p(r + v) for all moves v, and geometric from a range of 14 Delta / epsilon on, at least 8 Delta,
    which can only raise the optimum, by a part of e^-14.
    """
    moves, widest, q = sorted({abs(v) for v in values} - {0}), max(map(abs, values)), math.exp(-epsilon)
    last = max(8, math.ceil(14.0 / epsilon)) * widest

    def place(r: int) -> tuple[int, float]:
        over = max(0, -(-(abs(r) - last) // widest))
        return abs(r) - over * widest, q**over

    entries: list[tuple[int, int, float]] = []
    count = 0
    for r in range(last + 2 * widest + 1):
        for v in (*moves, *(-move for move in moves)):
            (a, x), (b, y) = place(r), place(r + v)
            entries += [(count, a, x), (count, b, -math.exp(epsilon) * y)]
            count += 1
    row, column, value = zip(*entries, strict=True)
    at = np.arange(last + 1)
    mass, cost = np.where(at == 0, 1.0, 2.0), 2.0 * at
    tail = at > last - widest
    cost = np.where(tail, 2.0 * (at / (1 - q) + widest * q / (1 - q) ** 2), cost)
    mass = np.where(tail, 2.0 / (1 - q), mass)
    scale = float(widest) / epsilon
    minimise: Any = optimize.linprog
    found = minimise(cost / scale, A_ub=sparse.csr_array((value, (row, column)), (count, last + 1)),
                     b_ub=np.zeros(count), A_eq=mass[None, :], b_eq=[1.0], method="highs")
    return float(found.fun) * scale


def gain(k: int, epsilon: float) -> float:
    """Return how much less E||z|| layers (i - 1 + width, i + width] of a convex ball in k dimensions have than K-norm
    noise, at the best width."""
    i, q = np.arange(math.ceil((60.0 + 8.0 * k) / epsilon)), math.exp(-epsilon)

    def size(width: float) -> float:
        weights = (i + width) ** k * q ** i
        return float(k / (k + 1) * (weights @ (i + width)) / weights.sum())

    best: Any = optimize.minimize_scalar(size, bounds=(1e-3, 1.0), method="bounded")
    return 1.0 - best.fun * epsilon / k


def linear(jobs: int, quick: bool) -> list[Path]:
    """Write results/linear.csv and .md; quick: two of the figures' sets and a third of the linear programs."""
    sets = {name: FIGURES[name] for name in (("V4", "V5") if quick else FIGURES)}
    rows: list[dict[str, Any]] = []
    for name, (values, step) in sets.items():
        for replace in (False, True):
            for epsilon in EPSILONS:
                made, stairs = Layered(neighbours(values, replace), epsilon), Staircase(values[-1][1], epsilon)
                rows.append({"set": name, "neighbours": "replace-one" if replace else "add/remove", "epsilon": epsilon,
                             "printed": "lost", "rate": made.expected_size / stairs.expected_size, "width": made.width,
                             "converged": len(made._known[0]) - 1, "expected_size": made.expected_size,
                             "staircase": stairs.expected_size, "laplace": values[-1][1] / epsilon,
                             "expected_steps": step})
    programs = [(held, e) for held in LATTICES + OTHERS for e in ((2.0,) if quick else (0.5, 1.0, 2.0, 3.0, 4.0))]
    certified = []
    for held, epsilon in programs:
        # The staircase on the integers has the layers of all moves up to the largest.
        layered, stepped = (Layered(neighbours([(v, v) for v in moves], False), epsilon, lattice=True).expected_size
                            for moves in (held, range(held[-1] + 1)))
        a = math.exp(-epsilon / held[-1])
        certified.append((str(held), epsilon, layered, stepped, 2 * a / (1 - a * a), optimum(held, epsilon)))
    nearest = [max(min(layered, stepped) / best for v, _, layered, stepped, _, best in certified if v in map(str, form))
               for form in (LATTICES, OTHERS)]
    columns = ("V", "neighbours", *(f"ε = {e:g}" for e in EPSILONS), "converged at", "best widths")
    table = []
    for name in sets:
        for which in ("add/remove", "replace-one"):
            these = [row for row in rows if (row["set"], row["neighbours"]) == (name, which)]
            table.append((name, which, *(f"{row['rate']:.3f}" for row in these), these[0]["converged"],
                          ", ".join(f"{row['width']:.3g}" for row in these)))
    lines = ["# Near-optimal noise for linear queries", "", pages.SIMULATED, "",
             "The source's figures are pictures, which are lost, so there is no printed number to compare with. Rate: "
             "E|z| of the layered noise at its best width over that of the best staircase; below 1 is better. As "
             "printed neighbours add or remove a record; the package's replace one, which moves the query by V − V. "
             "The staircase is for the largest move.", "",
             *pages.grid(columns, table),
             "Laplace over staircase: " + ", ".join(
                 f"{Staircase(1, e).expected_size ** -1 / e:.3f} (ε = {e:g})" for e in EPSILONS) + ".", "",
             "![Rates by width and ε, and densities](../../paper_figures/companions_linear.png)", "",
             "## How near to optimal", "",
             "Of all private noise on the integers that is the same wherever it is added, the least E|r|, by a linear "
             f"program. The better of layers and staircase is within {nearest[0] - 1:.2%} of it for V of the text's "
             f"form, two intervals, and within {nearest[1] - 1:.2%} for the other V here. Layers are not always the "
             "better of the two: take whichever is, both are private. Gaps may stay for ever at the ends of sets of "
             "integers, where the text's algorithm does not stop; layers of weight below e^-45 are cut off here.", "",
             *pages.grid(("V", "ε", "layers", "staircase", "geometric", "optimum"),
                         [(v, e, *(f"{x:.3f}" for x in found)) for v, e, *found in certified]),
             "## In several dimensions", "", "How much smaller E‖z‖ is than of K-norm noise, the continuous limit, for "
             "a convex ball in k dimensions:", "",
             *pages.grid(("k", "ε = 0.5", "1", "2", "4"),
                         [(k, *(f"{gain(k, e):.1%}" for e in (0.5, 1.0, 2.0, 4.0))) for k in (1, 3, 10, 30)])]
    return pages.publish("linear", quick, rows, lines)
