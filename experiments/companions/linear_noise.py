"""Near-optimal noise for linear queries (Wu, He and Xia 2017): densities that fall by e^-epsilon from layer to layer.

A query is a sum over records of a value from V, a union of intervals. Neighbours move it by N, symmetric and with 0.
A_0 = {0}, A_i = A_(i-1) + N; U_i is A_i widened by `width`, and layer i is U_i without U_(i-1). A point of U_i, moved
by N, lies in U_(i+1), so that layers of neighbours differ by at most 1: noise of density e^(-i epsilon) / alpha on
layer i is epsilon-private, for every width. V must be a public superset of the values.

In R^n (theorem 2): for sums of vectors whose entries come from sets of their own, V = V1 x ... x Vd, and a replaced
row, N is the product of the entries' differences, so that every A_i is the product of the entries' own, and so is U_i,
widened in the maximum norm. The layer of a point is the largest of its entries' layers. After the step `last` no set
has gaps: each is an interval that grows by its largest move.
"""

import math
from collections.abc import Callable, Sequence
from functools import cached_property, lru_cache
from itertools import product
from typing import Any, Literal

import numpy as np
import pandas as pd
from scipy import ndimage, optimize, sparse

from experiments import Array
from experiments.asked import Asked
from experiments.cells import described
from experiments.declare import Experiment, calls_of
from experiments.frames import across, grid, of_cells, worded
from trigmech._validate import check_positive
from trigmech.errors import InputError

Intervals = tuple[tuple[float, float], ...]
KNOWN = described("linear")
FIGURES: dict[str, tuple[Intervals, int]] = {
    name: (tuple((low, high) for low, high in each["values"]), each["step"]) for name, each in KNOWN["figures"].items()}
EPSILONS = (0.1, 0.5, 1.0, 2.0, 3.0, 5.0)
STEPS, SEED = 2200, 2017


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


def narrowed(size: Callable[[float], float], largest: float, least: float, count: int, error: float) -> float:
    """Return the width of the least size, of so many from a `least` part of the largest on, or beside it."""
    tried = (np.geomspace(least, 1.0, count) * largest).tolist()
    sizes = [size(width) for width in tried]
    at = int(np.argmin(sizes))
    bounds = (tried[max(0, at - 1)], tried[min(count - 1, at + 1)])
    found: Any = optimize.minimize_scalar(size, bounds=bounds, method="bounded", options={"xatol": error * bounds[1]})
    return float(found.x if found.fun < sizes[at] else tried[at])


class Layered:
    """The size of the noise of N (by :func:`neighbours`); the width "best" is of the least. Gaps must close.

    The noise itself is `LayersInSpace` of one entry.
    """

    def __init__(self, moves: Intervals, epsilon: float, width: float | Literal["best"] = "best",
                 steps: int = STEPS) -> None:
        check_positive(epsilon=epsilon)
        self.moves, self.epsilon, self.step = moves, epsilon, float(moves[-1][1])
        self.sets, (self._at, self._centre, self._size) = layers(moves, steps), gaps_of(moves, steps)
        self.width = narrowed(self.expected, self.step, 1e-4, 241, 1e-6) if width == "best" else float(width)
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

    @property
    def expected_size(self) -> float:
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


# In R^n


def sum_of(function: Callable[[Array], Array], degree: int, q: float) -> float:
    """Return the sum over j >= 0 of q^j f(j), exact for a polynomial f of this degree: by its differences at 0."""
    values = function(np.arange(degree + 1.0))
    return float(sum(np.diff(values, m)[0] * q**m / (1.0 - q) ** (m + 1) for m in range(degree + 1)))


def without(outer: Array, inner: Array) -> Array:
    """Return the parts of a union of intervals that are not in another one."""
    ends = np.unique(np.concatenate([outer.ravel(), inner.ravel()]))
    middles = (ends[1:] + ends[:-1]) / 2.0
    inside, taken = (np.searchsorted(each.ravel(), middles) % 2 == 1 for each in (outer, inner))
    return np.column_stack([ends[:-1], ends[1:]])[inside & ~taken]


class LayersInSpace:
    """The noise of a product of sets N, one for each entry, by :func:`neighbours`; `width` above 0.

    Epsilon-private for a row that moves every entry by its N. The density is exp(-epsilon layer) / alpha, the weight
    alpha summed in closed form; no layer is cut off. InputError if the gaps of an entry's layers do not close.
    """

    def __init__(self, moves: Sequence[Intervals], epsilon: float, width: float) -> None:
        if not moves:
            raise InputError("a vector needs at least one entry")
        self.entries = [Layered(each, epsilon, width) for each in moves]
        self.epsilon, self.width, self.steps = epsilon, float(width), np.array([e.step for e in self.entries])
        self.last = max(entry._converged(self.width) or 0 for entry in self.entries)
        self.part = lru_cache(maxsize=None)(self._part)

    def _part(self, entry: int, i: int) -> Array:
        known = self.entries[entry].sets
        reach = i * self.steps[entry]
        held = known[i] if 0 <= i < len(known) else np.array([[-reach, reach]])
        return union(held + np.array([-self.width, self.width])) if i >= 0 else np.empty((0, 2))

    def _sizes(self, i: int) -> Array:
        return np.array([np.diff(self.part(entry, i)).sum() for entry in range(len(self.entries))])

    def _total(self, of: Callable[[int], float], grown: Callable[[Array], Array], degree: int) -> float:
        """Return (1 - q) times the sum over i of q^i f(i), f by `of` up to the last step and by `grown` after it."""
        q, known = math.exp(-self.epsilon), range(self.last + 1)
        head = sum(q**i * of(i) for i in known)
        return (1.0 - q) * (head + q ** len(known) * sum_of(lambda j: grown(j + len(known)), degree, q))

    def _grown(self, i: Array) -> Array:
        """Return the halves of the lengths of U_i after the last step (entries, i)."""
        return np.multiply.outer(self.steps, i) + self.width

    @cached_property
    def alpha(self) -> float:
        """The integral of exp(-epsilon layer): by parts, of the U_i instead of the layers."""
        return self._total(lambda i: float(self._sizes(i).prod()), lambda i: (2.0 * self._grown(i)).prod(axis=0),
                           len(self.entries))

    def expected_size(self, entry: int = 0) -> float:
        def of(i: int) -> float:
            sizes, part = self._sizes(i), self.part(entry, i)
            first = 0.5 * float((part * np.abs(part)) @ np.array([-1.0, 1.0]) @ np.ones(len(part)))
            return first * float(np.delete(sizes, entry).prod())

        def grown(i: Array) -> Array:
            halves = self._grown(i)
            return np.asarray(halves[entry] ** 2 * (2.0 * np.delete(halves, entry, axis=0)).prod(axis=0))

        return self._total(of, grown, len(self.entries) + 1) / self.alpha

    def density(self, z: Array) -> Array:
        layer = np.zeros(len(z))
        for entry, values in enumerate(np.asarray(z, dtype=np.float64).T):
            found = np.ceil((np.abs(values) - self.width) / self.steps[entry])
            for i in range(self.last, -1, -1):
                inside = np.searchsorted(self.part(entry, i).ravel(), values) % 2 == 1
                found = np.where(inside, i, np.where(found <= i, i + 1, found))
            layer = np.maximum(layer, found)
        return np.exp(-self.epsilon * layer) / self.alpha

    def layer_of(self, rng: np.random.Generator) -> int:
        """Return a layer, with probability exp(-epsilon i) |R_i| / alpha: from a list, or drawn beyond it.

        Beyond the last step |R| grows as a polynomial below a multiple of C(j + d - 2, d - 1); times q^j that is the
        law of a sum of d geometric numbers. These are drawn and kept in proportion; for d = 1 all are: j = 1, 2, ...
        """
        found = int(np.searchsorted(self._listed, rng.random()))
        if found <= self.last:
            return found
        d = len(self.entries)
        while True:
            j = 1 + int(rng.negative_binomial(d, -math.expm1(-self.epsilon)))
            if rng.random() * self._most <= self._ratio(j):
                return self.last + j

    def _ratio(self, j: int) -> float:
        """Return |R| of the j-th layer after the last step over C(j + d - 2, d - 1)."""
        low, high = (2.0 * self._grown(np.array([self.last + j - 1.0, self.last + j]))).prod(axis=0)
        return float(high - low) / math.comb(j + len(self.entries) - 2, len(self.entries) - 1)

    @cached_property
    def _most(self) -> float:
        """The largest such ratio: it falls, to d! times the product of twice the steps."""
        return max(self._ratio(1), math.factorial(len(self.entries)) * float((2.0 * self.steps).prod()))

    @cached_property
    def _listed(self) -> Array:
        """The cumulative probabilities of the layers up to the last step."""
        volumes = [float(self._sizes(i).prod()) for i in range(self.last + 1)]
        return np.cumsum(np.exp(-self.epsilon * np.arange(self.last + 1)) * np.diff(volumes, prepend=0.0)) / self.alpha

    def sample(self, rng: np.random.Generator, size: int = 1) -> Array:
        """Return draws (size, entries): a layer, then a point of it, uniformly. A seeded simulation."""
        return np.array([self._point(self.layer_of(rng), rng) for _ in range(size)])

    def _point(self, i: int, rng: np.random.Generator) -> list[float]:
        """Return a uniform point of layer i: by the first entry that is not in its U_(i-1)."""
        inner, outer = self._sizes(i - 1), self._sizes(i)
        weights = [inner[:k].prod() * (outer[k] - inner[k]) * outer[k + 1:].prod() for k in range(len(outer))]
        first = int(rng.choice(len(outer), p=np.array(weights) / sum(weights)))
        places = [self.part(k, i - 1) if k < first else self.part(k, i) if k > first
                  else without(self.part(k, i), self.part(k, i - 1)) for k in range(len(outer))]
        return [float(uniform(each, rng)) for each in places]


def uniform(parts: Array, rng: np.random.Generator) -> float:
    lengths = np.diff(parts).ravel()
    at = rng.random() * lengths.sum()
    place = min(int(np.searchsorted(np.cumsum(lengths), at)), len(parts) - 1)
    return float(parts[place, 0] + at - lengths[:place].sum())


def best(moves: Sequence[Intervals], epsilon: float) -> LayersInSpace:
    """Return the noise with the width that is best for the first entry."""
    width = narrowed(lambda width: LayersInSpace(moves, epsilon, width).expected_size(),
                     max(each[-1][1] for each in moves), 1e-3, 25, 1e-4)
    return LayersInSpace(moves, epsilon, width)


def rates_of(name: str, neighbourhood: str, epsilon: float, seed: int) -> dict[str, Any]:
    values, expected = FIGURES[name]
    made = Layered(neighbours(values, neighbourhood == "replace-one"), epsilon)
    size, stairs = made.expected_size, staircase(values[-1][1], epsilon)
    return {"printed": "lost", "rate": size / stairs, "width": made.width, "converged": len(made.sets) - 1,
            "expected_size": size, "staircase": stairs, "laplace": values[-1][1] / epsilon, "expected_steps": expected}


def in_space(draws: int) -> tuple[list[str], list[str]]:
    """Return a table of E|z| of an entry in one to three dimensions, and one of draws beside their law."""
    moves, rows, means = neighbours(FIGURES["V5"][0]), [], []
    size = moves[-1][1]
    for d, epsilon in product((1, 2, 3), (1.0, 2.0, 4.0)):
        own = Layered(moves, epsilon / d).expected_size
        rows.append((d, f"{epsilon:g}", best([moves] * d, epsilon).expected_size(), (d + 1) * size / (2 * epsilon),
                     own, staircase(size, epsilon / d)))
    for d in (1, 2, 3):
        rng, made = np.random.default_rng([SEED, d]), LayersInSpace([moves] * d, 1.0, 10.0)
        sizes = np.abs(made.sample(rng, draws)[:, 0])
        means.append((d, float(sizes.mean()), float(sizes.std() / draws**0.5), made.expected_size()))
    return (grid(("d", "ε", "layers in R^d", "K-norm noise", "layers of each entry", "staircase of each entry"), rows),
            grid(("d", "mean size", "standard error", "by the law"), means))


def near_optimal(epsilons: Sequence[float]) -> tuple[list[str], tuple[float, float]]:
    """Return a table of noise on the integers, and how far the better kind is above the optimum at most, by form."""
    rows, nearest = [], [0.0, 0.0]
    lattices = [(form, tuple(held)) for form, each in enumerate(KNOWN["lattices"].values()) for held in each]
    for (form, held), epsilon in product(lattices, epsilons):
        layered, stair = on_integers(held, epsilon), on_integers(range(held[-1] + 1), epsilon)
        a, least = math.exp(-epsilon / held[-1]), optimum(held, epsilon)
        rows.append((str(held), epsilon, *(f"{x:.3f}" for x in (layered, stair, 2 * a / (1 - a * a), least))))
        nearest[form] = max(nearest[form], min(layered, stair) / least - 1.0)
    return grid(("V", "ε", "layers", "staircase", "geometric", "optimum"), rows), (nearest[0], nearest[1])


def judged(lines: pd.DataFrame) -> list[str]:
    """Return the source's three statements, of its own neighbours, with the numbers that decide; "" without them."""
    rates = lines[lines["neighbours"] == "add/remove"].pivot(index="epsilon", columns="set", values="rate")
    told = []
    for what, order in (("The rate grows with the measure of V", ["V1 = V6", "V2", "V3", "V4"]),
                        ("The rate falls as Δf over the measure of V grows", ["V7", "V1 = V6", "V5"])):
        if {*order} <= {*rates}:
            # The file of results does not show smaller differences.
            holds = (rates[order].diff(axis=1).iloc[:, 1:] > 2e-6).all(axis=1)
            shown = ", ".join(f"{rates.loc[1.0, name]:.3f} of {name}" for name in order)
            later = holds.any() and holds.is_monotonic_increasing
            from_on = f"true from ε = {holds.idxmax():g} on" if later else "false"
            told.append(f'"{what}": {shown} at ε = 1; in this order for {holds.sum()} of {len(holds)} ε: '
                        f"{'true' if holds.all() else from_on}")
    steps = lines["converged"].max()
    return [*told, f'"All examples converge within 2,200 steps": within {steps}: {str(steps <= STEPS).lower()}']


def page(lines: pd.DataFrame, asked: Asked) -> list[str]:
    method = lines["set"] + ", " + lines["neighbours"] + ", " + lines["converged"].astype(str) + " steps"
    shown = {what: lines.assign(method=method).pivot_table(what, "method", "epsilon", sort=False)
             for what in ("rate", "width")}
    heads = {epsilon: f"ε = {epsilon:g}" for epsilon in shown["rate"]}
    epsilons, draws = asked.size
    certified, nearest = near_optimal(epsilons)
    spaces, drawn = in_space(draws)
    return worded(
        "linear", simulated=worded("simulated"), nearest=nearest, certified=certified, spaces=spaces, drawn=drawn,
        statements=[f"- {each}" for each in judged(lines)],
        rates=across(["method"], shown["rate"], heads, "{:.3f}".format),
        widths=across(["method"], shown["width"], heads, "{:.3g}".format),
        laplace=", ".join(f"{staircase(1, e) ** -1 / e:.3f} (ε = {e:g})" for e in EPSILONS),
        gains=grid(("k", "ε = 0.5", "1", "2", "4"), [
            (k, *(f"{gain(k, e):.1%}" for e in (0.5, 1.0, 2.0, 4.0))) for k in (1, 3, 10, 30)]))


of_linear = Experiment(
    name="linear", what="companions: near-optimal noise for linear queries, and how near (a minute; no data)",
    size=(((2.0,), 2_000), ((0.5, 1.0, 2.0, 3.0, 4.0), 50_000)), lines=of_cells, page=page,
    cells=lambda asked: calls_of(rates_of, asked, set=("V4", "V5") if asked.quick else FIGURES,
                                 neighbours=("add/remove", "replace-one"), epsilon=EPSILONS),
    formats=dict.fromkeys(("epsilon", "rate", "width", "expected_size", "staircase", "laplace"), ".6g"))
