"""Distributions on the whole cube with the nearest moments in L1: column generation without candidates.

The program is that of :mod:`trigmech.reconstruction.l1` with infinitely many columns. Its bound needs the maximum over
the cube of a combination sum_r y_r phi_r. This maximum is hard to compute: with total degrees up to 2 it is already a
quadratic program in a box. A search finds it only from below. So the bound and the gap are estimates.

The search is exact coordinate ascent from many starts. With all other columns fixed, the combination is a polynomial of
one variable, whose maximum over [-1, 1] can be found exactly. The ascent moves one column after the other to this
maximum. It never lowers the value, and it ends when no single column can improve it.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trigmech._arrays import Array
from trigmech._parallel import for_each
from trigmech._validate import numbers
from trigmech.errors import InputError
from trigmech.functions.chebyshev import ChebyshevBasis
from trigmech.functions.coordinate_ascent import coordinate_ascent
from trigmech.reconstruction.l1 import ALLOWED_GAP, EXACT, SMALL, Problem, solve_by_columns
from trigmech.reconstruction.linear_program import Clock

# The number of starts of the ascents: known points with the highest prices, and random points.
KNOWN_STARTS, FRESH_STARTS = 64, 64
# The weight of the best dual in the searched one; see CubeProblem.
STAY = 0.8
# Points that are nearer than this in every column count as one.
DISTINCT = 1e-6
# The most points that enter at a time. More points slow the simplex method down.
MOST_ENTERING = 50
# The tolerance of the ascents, relative to the gap.
ASCENT = 1e-4

STARTS_PER_CHUNK = 16
MOST_SWEEPS = 1_000


@dataclass(frozen=True, eq=False)
class CubeFit:
    """A distribution on points of the cube.

    objective: Their weighted L1 distance from the target, evaluated from points and weights.
    bound_estimate: An estimate of a lower bound on the objective of every distribution on the cube; at least 0 and at
      most ``objective``. It would be certified if the search had found the true maximum of the best dual's polynomial.
      The search finds local maxima only, so the true bound may be lower. Every distribution that the search met agrees
      with the estimate.
    status, one of {"optimal", "noise level", "time limit"}: "optimal": objective and bound estimate differ by at most
      ``gap`` of the objective (of 1e-3 of the sum of the weights, if that is more), or the objective is at most 1e-8 of
      that sum. "noise level": the objective is at most the noise level. "time limit": the search ended before; the
      distribution is valid.
    """

    points: Array
    weights: Array
    objective: float
    bound_estimate: float
    status: Literal["optimal", "noise level", "time limit"]
    seconds: float
    iterations: int


def fit_cube(basis: ChebyshevBasis, target: ArrayLike, start: ArrayLike, weights: ArrayLike | None = None, *,
             gap: float = 1e-3, noise_level: float = 0.0, time_limit: float | None = None,
             rng: np.random.Generator | None = None) -> CubeFit:
    """Return a distribution on the cube whose basis means are nearest to the target in weighted L1.

    Parameters
    ----------
    basis : ChebyshevBasis
        K functions of d columns.
    target : array_like (K,)
        Finite; the released means.
    start : array_like (m, d)
        At least one point of the cube. The objective will be at most the best one on these points, unless ``gap``,
        ``noise_level`` or the time limit ends the search first.
    weights : array_like (K,), optional
        The cost of an error of 1 in each mean; finite and at least 0. Default 1.
    gap : float
        The relative gap at which the search ends, between 0 and 1; see :class:`CubeFit`.
    noise_level : float
        The objective at which the search ends, at least 0. An example is sum_r w_r E|noise_r|, the mean distance of the
        true means from the target. An early end saves time, but a longer search can come nearer to the true means.
    time_limit : float, optional
        Seconds. The search checks it a few times in a second for K in the hundreds.
    rng : numpy.random.Generator, optional
        Draws the points from which the search starts; by default a fresh one.

    Raises
    ------
    InputError
        If a shape or a value breaks a rule above.
    SolverTimeoutError
        If the time limit passes before the first feasible weights.
    NumericalError
        If the bound does not confirm the solver's answer.

    Notes
    -----
    Privacy: post-processing of a released target. Cost: each iteration takes some hundred coordinate ascents, and
    solves a program of K + 1 rows again from the last basis, which takes most of the time. Without a time limit the
    result depends only on the arguments and the generator, for any number of threads.

    References
    ----------
    Wentges 1997, Weighted Dantzig-Wolfe decomposition for linear mixed-integer programming (the smoothed dual).
    """
    clock = Clock(time_limit)
    if not 0 < gap < 1:
        raise InputError(f"gap must be between 0 and 1, not {gap}")
    if not 0 <= noise_level < np.inf:
        raise InputError(f"noise_level must be finite and at least 0, not {noise_level}")
    problem = CubeProblem(basis, start, target, weights, gap, np.random.default_rng() if rng is None else rng)
    exact = EXACT * problem.scale
    found = solve_by_columns(problem, problem.first_columns(), clock, gap=gap, allowed_gap=max(gap, ALLOWED_GAP),
                              enough=max(noise_level, exact))
    status: Literal["optimal", "noise level", "time limit"] = (
        "noise level" if found.objective <= noise_level else "time limit" if found.interrupted else "optimal")
    return CubeFit(problem.points[found.atoms], found.weights, found.objective, found.objective - found.gap, status,
                   clock.passed(), found.iterations)


class CubeProblem(Problem):
    """The program over the whole cube, with a pool of points that grows by a search.

    The duals of the first restricted programs jump from corner to corner of the box. So the search uses a dual between
    the current one and the best one so far (Wentges). There it often finds points that improve the program, and better
    bounds. If it finds no such point, it uses the current dual.
    """

    def __init__(self, basis: ChebyshevBasis, start: ArrayLike, target: ArrayLike, weights: ArrayLike | None,
                 gap: float, rng: np.random.Generator) -> None:
        points = numbers("start", start, "m", basis.d).astype(np.float64, copy=False)
        super().__init__(basis, points, target, weights, None, None)
        self.points: Array = points
        self._search = CubeSearch(basis)
        self._gap, self._rng = gap, rng
        # The best dual so far, and the largest value of its polynomial at any known point or found by any search.
        self._centre: Array | None = None
        self._largest = np.inf

    def price_and_bound(self, dual: Array, threshold: float, chosen: NDArray[np.int64],
                        weights: Array | None) -> NDArray[np.int64]:
        prices = self.price(dual)
        # By duality dual @ target - threshold is the restricted optimum. If no price exceeds this limit, the gap is
        # closed, and a further search would only chase rounding errors.
        least = threshold + 0.25 * self._gap * max(SMALL * self.scale, float(dual @ self.target) - threshold)
        entering = self.entering(prices, least, chosen)
        if len(entering):
            return entering
        atoms = chosen[:0] if weights is None else chosen[weights > 0]
        known = np.argsort(-prices, kind="stable")[:KNOWN_STARTS]
        starts = np.concatenate([self.points[np.union1d(atoms, known)],
                                 self._rng.uniform(-1.0, 1.0, (FRESH_STARTS, self.basis.d))])
        for centre in [dual] if self._centre is None else [STAY * self._centre + (1.0 - STAY) * dual, dual]:
            ends, values = self._search.ascend(starts, centre, ASCENT * self._gap)
            self._raise_bound(centre, max(float(values.max()), float(self.price(centre).max())))
            entering = self._add(ends, dual, least)
            if len(entering):
                break
        return entering

    def _raise_bound(self, dual: Array, largest: float) -> None:
        if self._centre is None or dual @ self.target - largest > self._centre @ self.target - self._largest:
            self._centre, self._largest = dual, largest
            self.bound = max(0.0, float(dual @ self.target) - largest)

    def _add(self, ends: Array, dual: Array, least: float) -> NDArray[np.int64]:
        """Add the distinct ends with a price above the least to the pool, and return their numbers."""
        prices = self.basis.combine(ends, dual)
        found = np.flatnonzero(prices > least)
        found = found[np.argsort(-prices[found], kind="stable")]
        # Among equal ends the first has the best price.
        _, first = np.unique(np.round(ends[found] / DISTINCT), axis=0, return_index=True)
        new = ends[found[np.sort(first)[:MOST_ENTERING]]]
        if len(new) and self._centre is not None:
            # A new point can refute the bound, if the search for the bound missed this point.
            self._largest = max(self._largest, float(self.basis.combine(new, self._centre).max()))
            self.bound = max(0.0, float(self._centre @ self.target) - self._largest)
        self.points = np.concatenate([self.points, new])
        self.m = len(self.points)
        return np.arange(self.m - len(new), self.m)


class CubeSearch:
    """A search for local maxima over the cube of combinations of one basis."""

    def __init__(self, basis: ChebyshevBasis) -> None:
        self._basis = basis
        self._offsets, self._degrees = basis.tree.offsets, basis.tree.degrees
        terms, columns = np.nonzero(basis.index)
        degrees = basis.index[terms, columns]
        self._term_starts = np.searchsorted(terms, np.arange(basis.K + 1))
        self._term_features = self._offsets[columns] + degrees - 1
        by_column = np.argsort(columns, kind="stable")
        self._column_starts = np.searchsorted(columns[by_column], np.arange(basis.d + 1))
        self._column_terms = terms[by_column]
        self._column_degrees = degrees[by_column]

    def ascend(self, starts: ArrayLike, coefficients: ArrayLike, tolerance: float = 1e-12) -> tuple[Array, Array]:
        """Ascend sum_r y_r phi_r from starts (m, d) until no single column gains more; return ends and values.

        Apart from rounding, no value is below that of its start. The ascent from a start ends with the first sweep over
        all columns that gains at most this tolerance times sum_r abs(y_r), or after 1000 sweeps.

        Raises an InputError if a shape is wrong, a start is outside the cube, a coefficient is not finite or the
        tolerance is below 0.

        Cost: for each column of each term, a sweep multiplies the term's other factors. So it costs the sum over r of
        the squared number of columns in r. 10 to 100 sweeps are common. Any number of threads gives the same bits.
        """
        points = np.array(numbers("starts", starts, "m", self._basis.d), dtype=np.float64, order="C")
        # The negation also refuses NaN.
        if not (np.abs(points) <= 1.0).all():
            raise InputError(f"starts must lie in the cube [-1, 1]^{self._basis.d}, but an entry is outside or not "
                             "a number")
        y = np.ascontiguousarray(numbers("coefficients", coefficients, self._basis.K), dtype=np.float64)
        if not np.isfinite(y).all():
            raise InputError("coefficients must be finite; an entry is not")
        if not 0.0 <= tolerance < np.inf:
            raise InputError(f"tolerance must be finite and at least 0, not {tolerance}")
        least = tolerance * float(np.abs(y).sum())

        def work(start: int, stop: int) -> None:
            coordinate_ascent(points[start:stop], y, self._term_starts, self._term_features, self._column_starts,
                              self._column_terms, self._column_degrees, self._offsets, self._degrees, least,
                              MOST_SWEEPS)

        for_each(work, len(points), STARTS_PER_CHUNK)
        return points, self._basis.combine(points, y)
