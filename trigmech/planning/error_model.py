"""The predicted error of a design: the effect of noise in the moments, and of unmeasured moments, on queries.

Noise of variance s_r^2 in moment r gives an error of variance sum_r a_r^2 s_r^2 in a query with coefficients a_r. The
workload gives the mean squares of a_r over each query group (`importance`). When the table is made, a moment with much
noise or without a measurement is guessed; the error of the guess has standard deviation t_r
(:mod:`trigmech.planning.priors`). Then the error of a measured moment has variance t_r^2 s_r^2 / (t_r^2 + s_r^2).

All columns are treated alike. So noise and importance have one entry for each degree of the columns, each two degrees
of the pairs, the triples, and the whole-row functions. A :class:`Selection` splits these vectors (p + q^2 + 2,).
"""

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from trigmech._arrays import Array
from trigmech.errors import InputError
from trigmech.functions.chebyshev import ChebyshevBasis
from trigmech.functions.features import Features
from trigmech.functions.index import FunctionIndex
from trigmech.planning.priors import PRIOR_COHERENT, PRIOR_TRIPLE, prior_pair, prior_single
from trigmech.queries.functions import PROFILE_DEGREE
from trigmech.workload import Family, GaussianKernels, members_of
from trigmech.workload.coefficients import summed_importance
from trigmech.workload.family import distinct, is_symmetric

MOST_DEGREE, MOST_PAIR_DEGREE = 64, 32
# Smaller variances are raised to this value, so that they can be divisors.
LEAST_VARIANCE = 1e-300


@dataclass(frozen=True)
class Selection:
    """A choice of moments to measure; all d columns are treated alike.

    degree, pair_degree: p and q: T_1, ..., T_p of every column, T_a T_b (a, b <= q) of every pair of columns.
    triples: Whether x_i x_j x_k is measured for every three columns.
    whole: The query groups whose mean query is measured.
    """

    d: int
    degree: int
    pair_degree: int
    triples: bool
    whole: tuple[int, ...]

    @cached_property
    def sizes(self) -> NDArray[np.int64]:
        """The number of functions of each entry, (p + q^2 + 2,)."""
        return np.array([self.d] * self.degree + [math.comb(self.d, 2)] * self.pair_degree**2
                        + [self.triples * math.comb(self.d, 3), len(self.whole)])

    @property
    def multi_indices(self) -> NDArray[np.int64]:
        """The multi-indices (K', d) of the Chebyshev products, in the same order."""
        columns, p, q = range(self.d), range(1, self.degree + 1), range(1, self.pair_degree + 1)
        factors: list[tuple[tuple[int, ...], tuple[int, ...]]] = [((j,), (a,)) for a in p for j in columns]
        factors += [(pair, (a, b)) for a in q for b in q for pair in combinations(columns, 2)]
        factors += [(triple, (1, 1, 1)) for triple in combinations(columns, 3) if self.triples]
        index = np.zeros((len(factors), self.d), dtype=np.int64)
        for row, (of, degrees) in zip(index, factors, strict=True):
            row[list(of)] = degrees
        return index

    def split(self, entries: Array) -> tuple[Array, Array, float, float]:
        """Return the entries of columns (p,), pairs (q, q), triples and whole rows. The arrays are views."""
        p, q = self.degree, self.pair_degree
        return entries[:p], entries[p:-2].reshape(q, q), float(entries[-2]), float(entries[-1])


class ErrorModel:
    """Predicts the variance of the error in each query group, from public numbers only.

    Moments up to ``degree`` and ``pair_degree`` count, measured or not. Cost: that of the workload's importance.
    """

    def __init__(self, workload: Family, degree: int, pair_degree: int) -> None:
        self.d = d = workload.d
        self.pairs, self.threes = math.comb(d, 2), math.comb(d, 3)
        p, q = degree, pair_degree if d > 1 else 0
        members = members_of(workload)
        self.labels = distinct(workload.labels)
        self.symmetric = all(map(is_symmetric, members))
        self.single, self.pair, self.triple = map(np.concatenate, zip(
            *(summed_importance(member, p, q) for member in members), strict=True))
        self.prior_single = np.array([prior_single(a + 1) for a in range(p)])
        self.prior_pair = np.array([[prior_pair(a + 1, b + 1) for b in range(q)] for a in range(q)]).reshape(q, q)
        # All Gaussian queries of a width share their mean's profile h = c_0 + c_2 T_2 + ... So errors in T_2 of all
        # columns, and in the dependence between the columns' T_2, shift all these queries in one direction.
        self.profiles: list[Array | None] = []
        for member in members:
            self.profiles += ([member.mean_profile(width, PROFILE_DEGREE) for width in member.widths]
                              if isinstance(member, GaussianKernels) else [None] * len(member.labels))
        self.gain, self.common_single, self.common_pair, self.common_triple = np.zeros((4, len(self.labels)))
        for group, profile in enumerate(self.profiles):
            if profile is not None and not self._has_mean_query(group, profile):
                self.profiles[group] = None

    def _has_mean_query(self, group: int, profile: Array) -> bool:
        """Find the coefficients of a group's mean query, and return whether this query can be measured."""
        # Very wide kernels are constant, and the mean of very narrow ones underflows. Both have no such query.
        try:
            lone = Features(ChebyshevBasis(np.eye(1, self.d, dtype=np.int64)), [profile])
        except InputError:
            return False
        highest = float(np.polynomial.chebyshev.chebval(np.linspace(-1.0, 1.0, 257), profile).max())
        self.gain[group] = highest**self.d * (1.0 - float(lone.floors[0])) / 2.0
        c0, ratio = profile[0] ** self.d, abs(profile[2] / profile[0])
        self.common_single[group] = c0 * ratio
        self.common_pair[group] = c0 * ratio**2 * self.pairs
        self.common_triple[group] = c0 * ratio**3 * self.threes * PRIOR_COHERENT / 2.0
        return bool(self.common_single[group] > 1e-100)

    @property
    def measurable(self) -> list[int]:
        """The query groups whose mean query can be measured."""
        return [group for group, profile in enumerate(self.profiles) if profile is not None]

    def matters(self, width: int, above: int, most: int) -> bool:
        """Return whether any group depends on products of one or two columns with a highest degree in (above, most]."""
        if width == 1:
            return bool((self.single[:, above:most] > 0.0).any())
        inside = self.pair[:, :most, :most] > 0.0
        inside[:, :above, :above] = False
        return bool(inside.any())

    def variances(self, selection: Selection, noise: Array, coherent: float | None = None) -> Array:
        """Return the predicted variance (groups,) of a query's error.

        ``noise`` (p + q^2 + 2,) is infinite for unmeasured moments. ``coherent`` is the common error of all pairs'
        T_2 T_2; its default is the prior or their noise. A measured mean query also reduces the common error of other
        widths. This effect is assumed to scale like the influence of the T_2 of all columns.
        """
        p, q = selection.degree, selection.pair_degree
        of_single, of_pair, of_triple, of_whole = selection.split(noise)
        single, pair, triple = self.prior_single**2, self.prior_pair**2, PRIOR_TRIPLE**2
        single[:p] *= of_single**2 / (single[:p] + of_single**2)
        pair[:q, :q] *= of_pair**2 / (pair[:q, :q] + of_pair**2)
        if math.isfinite(of_triple):
            triple *= of_triple**2 / (triple + of_triple**2)
        if coherent is None:
            coherent = PRIOR_COHERENT if q < 2 else min(PRIOR_COHERENT, float(of_pair[1, 1]) / math.sqrt(self.pairs))
        # The effect of T_2 that all queries share is counted here; the rest of T_2 is counted with the other moments.
        second = self.d * self.common_single**2
        common = second * (single[1] if len(single) > 1 else 0.0)
        common = common + (self.common_pair * coherent) ** 2 + self.common_triple**2
        rest = self.single @ single - np.minimum(second, self.single[:, 1]) * single[1]
        rest = rest + np.einsum("fab,ab->f", self.pair, pair) + self.triple * triple
        for group in selection.whole:
            direct = (of_whole * self.transfer(group)) ** 2
            common = np.where(direct > 0, common * direct / np.maximum(common + direct, LEAST_VARIANCE), common)
        return rest + common

    def transfer(self, whole: int) -> Array:
        """Return the effect of an error of 1 in one group's mean query on the common error of each group (groups,)."""
        linear = self.common_single / self.common_single[whole]
        quadratic = self.common_pair / max(self.common_pair[whole], 1e-300)
        return self.gain[whole] * np.maximum(linear, quadratic)

    def score(self, variances: Array) -> float:
        """Return the mean logarithm of the error over all query groups, which the planner minimises."""
        return float(np.log(np.maximum(variances, LEAST_VARIANCE)).mean()) / 2.0

    def nothing(self) -> Array:
        """Return the variance (groups,) of a query's error if nothing is measured."""
        return self.variances(Selection(self.d, 0, 0, False, ()), np.full(2, math.inf))

    def importance(self, selection: Selection, variances: Array) -> Array:
        """Return the effect (p + q^2 + 2,) of each moment's variance on the score, given the errors' variances."""
        p, q = selection.degree, selection.pair_degree
        of_group = 1.0 / np.maximum(variances, LEAST_VARIANCE)
        single = of_group @ self.single[:, :p] / self.d
        pair = np.einsum("f,fab->ab", of_group, self.pair[:, :q, :q]) / max(1, self.pairs)
        triple = float(of_group @ self.triple) / max(1, self.threes)
        whole = sum(float(of_group @ self.transfer(f) ** 2) for f in selection.whole) / max(1, len(selection.whole))
        return np.concatenate([single, pair.ravel(), [triple, whole]])


def unmeasured_variances(features: Features, deviations: Array, workload: Family) -> Array:
    """Return the assumed variance (groups,) of a query's error if all measured moments were exact.

    Whole-row functions count as unmeasured. Pairs that were shrunk to independence may share a common dependence, up to
    the noise (``deviations``) of T_2 T_2.
    """
    index = FunctionIndex.of(features.basis.index)
    pairs = index.width == 2
    # All degrees that can be measured count, not only those of a default plan. Narrow kernels and polynomials have
    # pairs of higher degrees, and with little noise these cause all of the error.
    model = ErrorModel(workload, MOST_DEGREE, MOST_PAIR_DEGREE)
    p = min(int(index.highest[index.single].max(initial=0)), len(model.prior_single))
    q = min(int(index.highest[pairs].max(initial=0)), len(model.prior_pair))
    exact = np.append(np.zeros(p + q**2), [0.0 if (index.width == 3).any() else math.inf, math.inf])
    both = np.flatnonzero(pairs & (index.highest == 2) & (index.total == 4))
    return model.variances(Selection(model.d, p, q, False, ()), exact,
                           min([PRIOR_COHERENT, *deviations[both[:1]].tolist()]))
