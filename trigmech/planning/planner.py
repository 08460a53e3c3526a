"""Which moments to measure and how exactly: a choice made from public numbers alone, by predicted error.

A design measures T_1, ..., T_p of every column, T_a T_b (a, b <= q) of every pair of columns, perhaps x_i x_j x_k of
every three, and perhaps the whole-row functions of :class:`trigmech.functions.features.Features`. All columns are
treated alike; what a workload asks for of some columns alone is measured of all, with the weight of its mean use. Noise
of variance s_r^2 in moment r makes an error of variance sum_r a_r^2 s_r^2 in a query with coefficients a_r, whose mean
squares over the workload the workload tells (`importance`). A moment that is not measured, or badly, is guessed when
the table is made: from the other moments of its column, or by independence. How wrong such guesses are on a table never
seen is a matter of opinion, stated here as the standard deviations `prior_*`; the variance of a measured moment is then
t^2 s^2 / (t^2 + s^2).

The planner minimises the mean logarithm of the predicted error over the parts of the workload (every width of every
member of a mixture counting alike): a greedy search over p, q, the triples and the whole-row functions, with weights
by importance, followed by a coordinate search over the weights' groups.

Noise. delta > 0: one Gaussian vector of the weighted moments. delta = 0: the better of the weighted Laplace mechanism
and of blocks (each degree of the columns, each two degrees of the pairs, triples, whole-row functions), each with a
share of epsilon and noise from the l-infinity K-norm mechanism. Both are one K-norm mechanism, of the norms sum |.|
and sum over blocks of max |.|: a product of independent ones, whose epsilons add up.

Sensitivities. Weighted L2 and L1: :func:`trigmech.functions.sensitivity.pair_l2_diameter` and `pair_l1_diameter` for
columns and pairs; triples and whole-row functions, with values in [-1, 1], add at most (2 s)^2 or 2 s each. Max norm: 2
for every function. Rounding of the computed moments: `calibration.rounding`, per moment; whole-row functions err by at
most 2 d (8 q^2 + 4) units in the last place times sum |c_m| <= 1 + 8 4/pi over 1 - low^d, which the same formula covers
with degree 5 d q / sqrt(1 - low^d): 12,800 d^2 units, where the product is 11,544 d for q = 8.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trigmech._html import html_table
from trigmech.errors import BudgetError, InputError, shown
from trigmech.functions.chebyshev import ChebyshevBasis
from trigmech.functions.features import Features
from trigmech.functions.index import FunctionIndex
from trigmech.functions.sensitivity import pair_l1_diameter, pair_l2_diameter
from trigmech.planning.design import UPWARD, Block, rounding
from trigmech.privacy.accounting import gaussian_mu
from trigmech.privacy.budget import Budget, Charge
from trigmech.privacy.noise import lattice_step
from trigmech.workload import Family, GaussianKernels, members_of
from trigmech.workload.coefficients import summed_importance
from trigmech.workload.family import distinct, is_symmetric

Array = NDArray[np.float64]

MAX_FUNCTIONS = 4_096
DEGREES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
PAIR_DEGREES = (0, 1, 2, 3, 4, 5, 6, 8)
PROFILE_DEGREE = 8
MOST_DEGREE, MOST_PAIR_DEGREE = 64, 32
PRIOR_COHERENT = 0.1
PRIOR_TRIPLE = 0.08
LEAST_USE = 1e-9

_PROOF = "trigmech.planning.planner, trigmech.functions.sensitivity"


def prior_single(degree: Any) -> Any:
    """Return the supposed standard deviation of the mean of T_a about what lower degrees suggest."""
    return 0.5 / np.sqrt(degree)


def prior_pair(first: Any, second: Any) -> Any:
    """Return the supposed standard deviation of the mean of T_a T_b about independence."""
    return 0.15 / (first * second) ** 0.25


def prior_deviations(index: NDArray[np.int64]) -> Array:
    """Return the supposed standard deviation (K,) of each Chebyshev product's mean about its guess."""
    several = (index > 0).sum(axis=1)
    highest = np.sort(index, axis=1)
    product = np.maximum(highest[:, -1], 1) * np.maximum(highest[:, -2] if index.shape[1] > 1 else 1, 1)
    pairs = np.where(several == 2, prior_pair(product, 1), PRIOR_TRIPLE)
    return np.where(several == 1, prior_single(highest[:, -1]), pairs)


def unmeasured_variances(features: Features, scales: Array, workload: Family) -> Array:
    """Return the supposed variance (parts,) of a query's error if all measured moments were exact.

    Parameters
    ----------
    features : Features
        Whole-row functions count as not measured.
    scales : ndarray (K,)
        Of the noise. Pairs that were shrunk to independence may be dependent together, up to the noise of T_2 T_2.
    workload : Family
    """
    index = features.basis.index
    several = (index > 0).sum(axis=1)
    # All degrees that could be measured, not those that are planned by default: kernels that are narrow and polynomials
    # have pairs beyond these, and with little noise nothing else is left.
    problem = _Problem(2, features.d, Budget(1.0), workload, degree=MOST_DEGREE, pair_degree=MOST_PAIR_DEGREE)
    p = min(int(index[several == 1].max(initial=0)), problem.single.shape[1])
    q = min(int(index[several == 2].max(initial=0)), problem.pair.shape[1])
    exact = _Levels(np.zeros(p), np.zeros((q, q)), 0.0 if (several == 3).any() else math.inf, math.inf)
    both = np.flatnonzero((several == 2) & (np.where(index > 0, index, 2) == 2).all(axis=1))
    return problem.errors(exact, coherent=min([PRIOR_COHERENT, *scales[both[:1]].tolist()]))


@dataclass(frozen=True, eq=False)
class Design:
    """What will be measured, how exactly, and what error that should leave. Public.

    Parameters
    ----------
    features : Features
    degree, pair_degree : int
        p and q.
    triples, whole_row : bool
    blocks : tuple of Block
        In the order of the functions.
    predicted : dict of str to float
        Root mean square error over each part of the workload, as far as it comes from T_a of a column (a up to 32, or
        to 64 if a part's columns do not matter alike), T_a T_b of two (a and b up to 8) and x_i x_j x_k. The
        error bars of a release count all products of such families.
    baseline : dict of str to float
        The same if nothing were measured.
    """

    features: Features
    degree: int
    pair_degree: int
    triples: bool
    whole_row: bool
    blocks: tuple[Block, ...]
    predicted: dict[str, float]
    baseline: dict[str, float] = field(repr=False)
    index: FunctionIndex = field(default=None, repr=False)  # type: ignore[assignment]

    def __post_init__(self) -> None:
        if self.index is None:
            object.__setattr__(self, "index", FunctionIndex.of(self.features))

    @property
    def scales(self) -> Array:
        """The standard deviation (K,) of each released moment."""
        return np.concatenate([block.deviation / block.weights for block in self.blocks])

    @property
    def _groups(self) -> list[tuple[str, int, int, str]]:
        """The Chebyshev products by the number of their columns and the highest degree: kind, degree, count, noise."""
        index, scales = self.features.basis.index, self.scales[: self.features.basis.K]
        width, highest = (index > 0).sum(axis=1), index.max(axis=1)
        found = []
        for w, a in np.unique(np.column_stack([width, highest]), axis=0).tolist():
            own = scales[(width == w) & (highest == a)]
            least, most = (f"{noise:.3g}" for noise in (own.min(), own.max()))
            found.append((_kind(w), a, len(own), least if least == most else f"{least} to {most}"))
        return found

    def _head(self) -> str:
        counts: dict[str, int] = {}
        for kind, _, count, _ in self._groups:
            counts[kind] = counts.get(kind, 0) + count
        parts = [f"{count} of {kind}" for kind, count in counts.items()]
        if len(self.features.profiles):
            parts.append(f"{len(self.features.profiles)} of whole rows")
        law = self.blocks[0].charge.law
        name = {"gaussian": "Gaussian", "laplace": "Laplace", "linf": "l-infinity K-norm"}[law]
        return (f"{self.features.K} moments ({', '.join(parts)}; degrees up to {self.degree} of a column"
                + (f", {self.pair_degree} in a pair" if self.pair_degree else "") + f") with {name} noise")

    def __str__(self) -> str:
        lines = [self._head()]
        lines += [f"  {kind:<8} highest degree {degree:>2}: noise {noise}" for kind, degree, _, noise in self._groups]
        lines.append("predicted root mean square error (and if nothing were measured):")
        lines += [f"  {label}: {error:.2g} ({self.baseline[label]:.2g})" for label, error in self.predicted.items()]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        rows = [(label, f"{error:.2g}", f"{self.baseline[label]:.2g}") for label, error in self.predicted.items()]
        return html_table(self._head(), self._groups, ("moments of", "highest degree", "number", "noise")) + html_table(
            "Predicted root mean square error", rows, ("queries", "error", "if nothing were measured"))


def _kind(width: int) -> str:
    return {1: "columns", 2: "pairs", 3: "triples"}.get(width, f"{width} columns")


@dataclass(frozen=True)
class _Shape:
    """A design without its weights."""

    p: int
    q: int
    triples: bool
    whole: tuple[int, ...]  # the parts whose mean query is measured

    def groups(self, d: int) -> tuple[int, int, int, int]:
        """Return the numbers of functions of one, two, three and all columns."""
        return (self.p * d, self.q**2 * math.comb(d, 2), self.triples * math.comb(d, 3), len(self.whole))


@dataclass(frozen=True)
class _Levels:
    """Weights (or, for noise, standard deviations) of a design's groups."""

    single: Array
    pair: Array
    triple: float
    whole: float


class _Problem:
    """What is known before the release, and the error that a design would leave."""

    def __init__(self, n: int, d: int, budget: Budget, workload: Family, weighted: bool = True, share: float = 1.0,
                 degree: int | None = None, pair_degree: int | None = None) -> None:
        self.n, self.d, self.weighted = n, d, weighted
        self.mu = gaussian_mu(budget) * math.sqrt(share) if budget.delta > 0 else math.inf
        self.epsilon = budget.epsilon * share
        self.labels = distinct(workload.labels)
        self.pairs, self.threes = math.comb(d, 2), math.comb(d, 3)
        members = members_of(workload)
        self.symmetric = all(map(is_symmetric, members))
        # What is beyond the degrees that are planned counts too, as not measured.
        p = max(DEGREES[-1] if self.symmetric else MOST_DEGREE, degree or 0)
        q = max(PAIR_DEGREES[-1], pair_degree or 0) if d > 1 else 0
        self.single, self.pair, self.triple = map(np.concatenate, zip(
            *(summed_importance(member, p, q) for member in members), strict=True))
        self.prior_single = np.array([prior_single(a + 1) for a in range(p)])
        self.prior_pair = np.array([[prior_pair(a + 1, b + 1) for b in range(q)] for a in range(q)]).reshape(q, q)
        self._coherent(members)

    def needed(self, width: int, above: int, most: int) -> bool:
        """Return whether products of one or two columns with a highest degree in (above, most] matter to any part."""
        if width == 1:
            return bool((self.single[:, above:most] > 0.0).any())
        inside = self.pair[:, :most, :most] > 0.0
        inside[:, :above, :above] = False
        return bool(inside.any())

    def _coherent(self, members: Sequence[Family]) -> None:
        """What all Gaussian queries of a width have in common: their mean's profile h = c_0 + c_2 T_2 + ...

        T_2 of all columns then errs in one direction, as does dependence between the columns' T_2.
        """
        self.profiles: list[Array | None] = []
        for member in members:
            self.profiles += ([member.mean_profile(width, PROFILE_DEGREE) for width in member.widths]
                              if isinstance(member, GaussianKernels) else [None] * len(member.labels))
        self.gain = np.zeros(len(self.labels))
        self.second, self.bias_two, self.bias_three = np.zeros((3, len(self.labels)))
        for f, profile in enumerate(self.profiles):
            if profile is None:
                continue
            # Kernels so wide that they are constant, or so narrow that their mean underflows, have no mean query to
            # measure.
            try:
                lone = Features(ChebyshevBasis(np.eye(1, self.d, dtype=np.int64)), [profile])
            except InputError:
                self.profiles[f] = None
                continue
            highest = float(np.polynomial.chebyshev.chebval(np.linspace(-1.0, 1.0, 257), profile).max())
            self.gain[f] = highest**self.d * (1.0 - float(lone.floors[0])) / 2.0
            c0, ratio = profile[0] ** self.d, abs(profile[2] / profile[0])
            self.second[f] = c0 * ratio
            if not self.second[f] > 1e-100:
                self.profiles[f] = None
            self.bias_two[f] = c0 * ratio**2 * self.pairs
            self.bias_three[f] = c0 * ratio**3 * self.threes * PRIOR_COHERENT / 2.0

    def errors(self, noise: _Levels, whole: tuple[int, ...] = (), coherent: float | None = None) -> Array:
        """Return the predicted variance (parts,) of a query's error, for noise of these standard deviations.

        ``whole`` are the parts whose mean query is measured; what they tell of the other widths' common part is taken
        to scale like the influence of the T_2 of all columns. ``coherent`` is what all pairs' T_2 T_2 may err together.
        """
        single, pair = self.prior_single**2, self.prior_pair**2
        p, q = len(noise.single), len(noise.pair)
        single[:p] *= noise.single**2 / (single[:p] + noise.single**2)
        pair[:q, :q] *= noise.pair**2 / (pair[:q, :q] + noise.pair**2)
        triple = PRIOR_TRIPLE**2
        if math.isfinite(noise.triple):
            triple *= noise.triple**2 / (triple + noise.triple**2)
        coherent_two = PRIOR_COHERENT if coherent is None else coherent
        if q >= 2 and coherent is None:
            coherent_two = min(coherent_two, float(noise.pair[1, 1]) / math.sqrt(self.pairs))
        # The share of T_2 that all queries have in common is counted once, and its rest among the others.
        common = self.d * self.second**2 * (single[1] if len(single) > 1 else 0.0)
        common = common + (self.bias_two * coherent_two) ** 2 + self.bias_three**2
        rest = self.single @ single - np.minimum(self.d * self.second**2, self.single[:, 1]) * single[1]
        rest = rest + np.einsum("fab,ab->f", self.pair, pair) + self.triple * triple
        for f in whole:
            direct = (noise.whole * self.transfer(f)) ** 2
            common = np.where(direct > 0, common * direct / np.maximum(common + direct, 1e-300), common)
        return rest + common

    def transfer(self, whole: int) -> Array:
        """Return how an error of 1 in the whole-row function of one part bears on the common part of each part
        (parts,)."""
        linear, quadratic = self.second / self.second[whole], self.bias_two / max(self.bias_two[whole], 1e-300)
        return self.gain[whole] * np.maximum(linear, quadratic)

    def nothing(self) -> _Levels:
        return _Levels(np.zeros(0), np.zeros((0, 0)), math.inf, math.inf)

    def score(self, variances: Array) -> float:
        return float(np.log(np.maximum(variances, 1e-300)).mean()) / 2.0

    def score_of(self, shape: _Shape, noise: _Levels) -> float:
        return self.score(self.errors(noise, shape.whole))

    def use(self, shape: _Shape, variances: Array) -> _Levels:
        """Return how much the score depends on the variance of each moment of a group."""
        share = 1.0 / np.maximum(variances, 1e-300)
        single = share @ self.single[:, : shape.p] / self.d
        pair = np.einsum("f,fab->ab", share, self.pair[:, : shape.q, : shape.q]) / max(1, self.pairs)
        triple = float(share @ self.triple) / max(1, self.threes)
        whole = sum(float(share @ self.transfer(f) ** 2) for f in shape.whole) / max(1, len(shape.whole))
        return _Levels(single, pair, triple, whole)


def plan_moments(n: int, d: int, budget: Budget, workload: Family, *, degree: int | None = None,
                 pair_degree: int | None = None, triples: bool | None = None, whole_row: bool | None = None,
                 weighted: bool = True, max_functions: int = MAX_FUNCTIONS, share: float = 1.0) -> Design:
    """Return the design with the least predicted error.

    Parameters
    ----------
    n, d : int
        Rows, at least 2, and columns.
    budget : Budget
    workload : Family
        What the release should be good at.
    degree, pair_degree, triples, whole_row : optional
        Fix a part of the design instead of planning it.
    weighted : bool
        False: equal noise in all moments, which is worth having for comparisons only.
    max_functions : int
        Limit of K; time and memory of the fit grow with it.
    share : float
        The part of the budget that may be spent, above 0 and at most 1: of epsilon, or, for delta > 0, of mu^2 of the
        Gaussian mechanism that just satisfies it, so that mechanisms with shares of sum 1 satisfy it together.

    Returns
    -------
    Design

    Raises
    ------
    InputError
        If a fixed part breaks a rule or needs more than ``max_functions`` functions.

    Notes
    -----
    Privacy: public numbers only. Cost: some hundred sensitivities: below a second, but some seconds where the degrees
    go beyond 16 (n above 10^7).
    """
    _check(n, d, workload, degree, pair_degree)
    problem = _Problem(n, d, budget, workload, weighted, share, degree, pair_degree)
    measurable = [f for f, profile in enumerate(problem.profiles) if profile is not None]
    degrees = DEGREES if degree is None else (degree,)
    pair_degrees = (0,) if d == 1 else PAIR_DEGREES if pair_degree is None else (pair_degree,)
    with_triples = (False, True) if triples is None else (triples,)
    some: list[tuple[int, ...]] = [(f,) for f in measurable] + list(combinations(measurable, 2))
    wholes: list[tuple[int, ...]] = [()] if whole_row is False else some if whole_row else [(), *some]
    if d < 3:
        with_triples = (False,)
    if not wholes:
        raise InputError("whole_row needs a workload of Gaussian kernels")
    law = _gaussian if budget.delta > 0 else _pure

    def allowed(shape: _Shape) -> bool:
        return (shape.p in degrees and shape.q in pair_degrees and shape.triples in with_triples
                and shape.whole in wholes and sum(shape.groups(d)) <= max_functions)

    start = _Shape(degrees[0], pair_degrees[0], with_triples[0], wholes[0])
    if sum(start.groups(d)) > max_functions:
        raise InputError(f"the design needs {sum(start.groups(d))} functions for {d} columns, more than "
                         f"max_functions = {max_functions}; lower the degrees or raise it")
    best = law(problem, start)
    while True:
        trials = [law(problem, shape) for shape in _neighbours(problem, best.shape, wholes) if allowed(shape)]
        better = min(trials, key=lambda trial: trial.score, default=best)
        if not better.score < best.score - 1e-3:
            break
        best = better
    best = best.refined()
    basis = ChebyshevBasis(_index(d, best.shape))
    profiles = [np.asarray(problem.profiles[f]) for f in best.shape.whole]
    features = Features(basis, profiles)
    predicted, baseline = (dict(zip(problem.labels, np.sqrt(variances).tolist(), strict=True)) for variances in (
        problem.errors(best.noise, best.shape.whole), problem.errors(problem.nothing())))
    return Design(features, best.shape.p, best.shape.q, best.shape.triples, bool(profiles), best.blocks(features),
                  predicted, baseline)


def _check(n: int, d: int, workload: Family, degree: int | None, pair_degree: int | None) -> None:
    for name, value, least in (("n", n, 2), ("d", d, 1), ("degree", degree, 1), ("pair_degree", pair_degree, 0)):
        if value is None and name.endswith("degree"):
            continue
        if isinstance(value, bool) or not (isinstance(value, int | np.integer) and value >= least):
            raise InputError(f"{name} must be an integer that is at least {least}, not {shown(value)}")
    for name, value, most in (("degree", degree, MOST_DEGREE), ("pair_degree", pair_degree, MOST_PAIR_DEGREE)):
        if value is not None and value > most:
            raise InputError(f"{name} must be at most {most}, beyond which no sensitivity is searched; given {value}")
    if workload.d != d:
        raise InputError(f"the workload is of {workload.d} columns, the table of {d}")


def _neighbours(problem: _Problem, shape: _Shape, wholes: Sequence[tuple[int, ...]]) -> list[_Shape]:
    """Return the designs one step away; two degrees up as well, since an odd one alone may not pay, and up to the next
    degree that matters, if those between do not."""
    def near(options: tuple[int, ...], value: int, width: int) -> list[int]:
        if value not in options:
            return []
        at = options.index(value)
        above = [i for i in range(at + 1, len(options)) if problem.needed(width, options[at], options[i])]
        return [options[i] for i in sorted({at - 1, at + 1, at + 2, *above[:1]}) if 0 <= i < len(options)]

    found = [replace(shape, p=p) for p in near(DEGREES, shape.p, 1)]
    found += [replace(shape, q=q) for q in near(PAIR_DEGREES, shape.q, 2)]
    found.append(replace(shape, triples=not shape.triples))
    return found + [replace(shape, whole=f) for f in wholes if f != shape.whole]


def _index(d: int, shape: _Shape) -> NDArray[np.int64]:
    """Return the multi-indices in the order of the blocks: degrees of columns, pairs, triples."""
    rows = [[0] * j + [a] + [0] * (d - 1 - j) for a in range(1, shape.p + 1) for j in range(d)]
    for columns, degrees in (((i, j), (a, b)) for a in range(1, shape.q + 1) for b in range(1, shape.q + 1)
                             for i, j in combinations(range(d), 2)):
        row = [0] * d
        for column, value in zip(columns, degrees, strict=True):
            row[column] = value
        rows.append(row)
    for columns3 in combinations(range(d), 3) if shape.triples else ():
        row = [0] * d
        for column in columns3:
            row[column] = 1
        rows.append(row)
    return np.array(rows, dtype=np.int64)


@dataclass(frozen=True)
class _Trial:
    """A design with weights, its noise and its score."""

    problem: _Problem
    shape: _Shape
    noise: _Levels
    score: float
    refined: Callable[[], "_Trial"]
    blocks: Callable[[Features], tuple[Block, ...]]


def _movements(features: Features, n: int) -> Array:
    """Return how much further, for rounding, each computed moment moves than the exact one."""
    basis = rounding(n, features.degree)
    whole = [rounding(n, math.ceil(5 * features.d * PROFILE_DEGREE / math.sqrt(1.0 - floor)))
             for floor in features.floors]
    return np.array([basis] * features.basis.K + whole)


def _flat(problem: _Problem, shape: _Shape, weights: _Levels) -> Array:
    """Return a group's values for every function, in the order of `_index`."""
    return np.concatenate([np.repeat(weights.single, problem.d), np.repeat(weights.pair.ravel(), problem.pairs),
                           np.full(shape.triples * problem.threes, weights.triple),
                           np.full(len(shape.whole), weights.whole)])


def _gaussian(problem: _Problem, shape: _Shape) -> _Trial:
    mu = problem.mu

    def spread(weights: _Levels) -> float:
        w = tuple(np.sqrt(np.diag(weights.pair)).tolist())
        _, _, triples, whole = shape.groups(problem.d)
        extra = 4.0 * ((triples and triples * weights.triple**2) + (whole and whole * weights.whole**2))
        return math.sqrt(pair_l2_diameter(problem.d, tuple(weights.single.tolist()), w) + extra)

    def charge(features: Features, weights: _Levels) -> tuple[Block, ...]:
        flat = _flat(problem, shape, weights)
        moved = spread(weights) / problem.n + float(np.linalg.norm(flat * _movements(features, problem.n)))
        return (Block(slice(0, features.K), flat,
                      Charge("moments", "gaussian", moved / mu * UPWARD, moved, "L2", 1, _PROOF)),)

    return _weighted(problem, shape, 4.0, lambda weights: spread(weights) / (problem.n * mu), charge)


def _laplace(problem: _Problem, shape: _Shape) -> _Trial:
    epsilon = problem.epsilon

    def spread(weights: _Levels) -> float:
        w = tuple(np.sqrt(np.diag(weights.pair)).tolist())
        _, _, triples, whole = shape.groups(problem.d)
        extra = 2.0 * ((triples and triples * weights.triple) + (whole and whole * weights.whole))
        return pair_l1_diameter(problem.d, tuple(weights.single.tolist()), w) + extra

    def charge(features: Features, weights: _Levels) -> tuple[Block, ...]:
        flat = _flat(problem, shape, weights)
        moved = spread(weights) / problem.n + float(flat @ _movements(features, problem.n))
        return (Block(slice(0, features.K), flat,
                      Charge("moments", "laplace", moved / epsilon * UPWARD, moved, "L1", 1, _PROOF)),)

    return _weighted(problem, shape, 3.0, lambda weights: math.sqrt(2.0) * spread(weights) / (problem.n * epsilon),
                     charge)


def _weighted(problem: _Problem, shape: _Shape, power: float, deviation: Callable[[_Levels], float],
              charge: Callable[[Features, _Levels], tuple[Block, ...]]) -> _Trial:
    """Return a design whose weights are the ``power``-th root of the use of each moment, and may be refined."""

    def trial(weights: _Levels) -> _Trial:
        with np.errstate(divide="ignore"):
            sd = deviation(weights)
            noise = _Levels(sd / weights.single, sd / weights.pair, sd / weights.triple if shape.triples else math.inf,
                            sd / weights.whole if shape.whole else math.inf)
        return _Trial(problem, shape, noise, problem.score_of(shape, noise), lambda: refine(weights),
                      lambda features: charge(features, weights))

    def by_use(variances: Array) -> _Levels:
        if not problem.weighted:
            return _Levels(np.ones(shape.p), np.ones((shape.q, shape.q)), 1.0, 1.0)
        use = problem.use(shape, variances)
        top = max(float(use.single.max()), float(use.pair.max(initial=0.0)), use.triple, use.whole, 1e-300)

        def root(values: Any) -> Any:
            # What is of no use is measured a little nonetheless: without a weight it could not be divided by it.
            return np.maximum(values / top, LEAST_USE) ** (1.0 / power)

        # Pairs' weights are products of one factor a degree, as the sensitivity's proof needs them. Of a pair's T_1 T_2
        # alone the diagonal would say nothing.
        most = np.diag(use.pair) if problem.symmetric else np.maximum(use.pair, use.pair.T).max(axis=1, initial=0.0)
        factor = np.sqrt(root(most))
        return _Levels(root(use.single), np.outer(factor, factor), float(root(use.triple)) if shape.triples else 0.0,
                       float(root(use.whole)) if shape.whole else 0.0)

    def refine(weights: _Levels) -> _Trial:
        """Try each group at other multiples of its weight until nothing improves."""
        best = trial(weights)
        step = 1.5 if problem.weighted else 1.0
        while step > 1.1:
            improved = False
            for change in _changes(weights, step):
                other = trial(change)
                if other.score < best.score - 1e-4:
                    best, weights, improved = other, change, True
                    break
            if not improved:
                step = math.sqrt(step)
        return best

    variances = problem.errors(problem.nothing())
    best: _Trial | None = None
    for _ in range(4):
        now = trial(by_use(variances))
        variances = problem.errors(now.noise, shape.whole)
        if best is None or now.score < best.score:
            best = now
    if best is None:
        raise InputError("a design needs at least one function")
    return best


def _changes(weights: _Levels, step: float) -> list[_Levels]:
    found = []
    for factor in (step, 1.0 / step):
        for first, last in ((1, 2), (2, 4), (4, None), (0, 1)):
            if len(weights.single) > first:
                single = weights.single.copy()
                single[first:last] *= factor
                found.append(replace(weights, single=single))
        if len(weights.pair):
            found.append(replace(weights, pair=weights.pair * factor))
            for first in (1, 2):
                if len(weights.pair) > first:
                    tilt = np.where(np.arange(len(weights.pair)) >= first, factor, 1.0)
                    found.append(replace(weights, pair=weights.pair * np.outer(tilt, tilt)))
        if weights.triple:
            found.append(replace(weights, triple=weights.triple * factor))
        if weights.whole:
            found.append(replace(weights, whole=weights.whole * factor))
    return found


def _blocks(problem: _Problem, shape: _Shape) -> _Trial:
    """Return a design of l-infinity blocks: each degree of the columns, each two degrees of the pairs, and so on."""
    d, pq = problem.d, (shape.p, shape.q**2)
    _, _, *others = shape.groups(d)
    sizes = np.array([d] * pq[0] + [problem.pairs] * pq[1] + others)
    names = ([f"degree {a + 1}" for a in range(shape.p)]
             + [f"pairs {a + 1}, {b + 1}" for a in range(shape.q) for b in range(shape.q)] + ["triples", "whole rows"])

    def noise_of(shares: Array) -> _Levels:
        with np.errstate(divide="ignore"):
            sd = 2.0 * np.sqrt((sizes + 1.0) * (sizes + 2.0) / 3.0) / (problem.n * problem.epsilon * shares)
        return _Levels(sd[: pq[0]], sd[pq[0] : sum(pq)].reshape(shape.q, shape.q), float(sd[-2]), float(sd[-1]))

    def shares_for(variances: Array) -> Array:
        if not problem.weighted:
            return sizes / sizes.sum()
        use = problem.use(shape, variances)
        # Variance falls as 1/share^2: the best shares are the cube roots of use times squared size.
        each = np.concatenate([use.single, use.pair.ravel(), [use.triple, use.whole]])
        roots = np.cbrt(np.maximum(each, LEAST_USE * max(float(each.max()), 1e-300))) * sizes
        return roots / roots.sum()

    def trial(shares: Array) -> _Trial:
        noise = noise_of(shares)
        return _Trial(problem, shape, noise, problem.score_of(shape, noise), lambda: refine(shares),
                      lambda features: charges(features, shares))

    def refine(shares: Array) -> _Trial:
        best, step = trial(shares), 1.5 if problem.weighted else 1.0
        while step > 1.1:
            improved = False
            for i in np.flatnonzero(shares):
                for factor in (step, 1.0 / step):
                    changed = shares.copy()
                    changed[i] *= factor
                    changed /= changed.sum()
                    other = trial(changed)
                    if other.score < best.score - 1e-4:
                        best, shares, improved = other, changed, True
            if not improved:
                step = math.sqrt(step)
        return best

    def charges(features: Features, shares: Array) -> tuple[Block, ...]:
        found, first = [], 0
        movements = _movements(features, problem.n)
        for K, share, name in zip(sizes.tolist(), shares, names, strict=True):
            if not K:
                continue
            members = slice(first, first + K)
            first += K
            moved = 2.0 / problem.n + float(movements[members].max())
            # The lattice on which the noise is drawn moves the values too, by less than scale / 2^39.
            epsilon = problem.epsilon * float(share) / UPWARD - 2.0**-39
            if not epsilon > 0:
                raise BudgetError(f"epsilon = {problem.epsilon} is too small for this many kinds of moments")
            scale = moved / epsilon
            found.append(Block(members, np.ones(K), Charge(name, "linf", scale, moved + lattice_step(scale), "Linf", 1,
                                                           _PROOF)))
        return tuple(found)

    variances = problem.errors(problem.nothing())
    best = trial(shares_for(variances))
    for _ in range(4):
        now = trial(shares_for(problem.errors(best.noise, shape.whole)))
        if now.score < best.score:
            best = now
    return best


def _pure(problem: _Problem, shape: _Shape) -> _Trial:
    return min(_blocks(problem, shape), _laplace(problem, shape), key=lambda trial: trial.score)
