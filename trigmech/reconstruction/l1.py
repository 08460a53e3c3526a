"""Distributions with the nearest moments in L1: linear programs that HiGHS solves, with a certified gap.

    minimise  sum_r w_r |sum_j u_j phi_r(x_j) - b_r|   over   u >= 0, sum_j u_j = 1 (and u_j <= cap).

For every y with |y_r| <= w_r, weak duality gives the lower bound y.b - max over feasible u of sum_j u_j y.phi(x_j).
Without a cap the maximum is max_j y.phi(x_j); with a cap it is a sum over the largest values. It needs no solver. So
the gap between the weights' objective and this bound is certified for any answer of the solver.

Over the whole cube the same program has infinitely many columns; see :mod:`trigmech.reconstruction.l1_cube`.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trigmech._arrays import Array
from trigmech._validate import check_choice, check_integers, finite, numbers
from trigmech.errors import InfeasibleError, InputError, SolverTimeoutError
from trigmech.functions.chebyshev import ChebyshevBasis
from trigmech.functions.grid import Grid, round_to_levels
from trigmech.reconstruction.linear_program import Clock, RestrictedProgram

Method = Literal["auto", "columns", "whole"]

WHOLE_LIMIT = 50_000_000
"""The most entries of a matrix for method "whole": 400 MB, and several times as much inside the solver."""

POINTS_AT_A_TIME = 2**16

# Column generation goes on until the relative gap is at most the first number. If no candidate improves the program
# within the solver's own tolerance of 1e-10, a gap up to the second is accepted. Typical gaps are below 1e-12.
SOUGHT_GAP, ALLOWED_GAP = 1e-9, 1e-8

# An objective below this fraction of the sum of the weights meets the target exactly, for all practical purposes.
EXACT = 1e-8

# Gaps are relative to the objective, but at least to this fraction of the sum of the weights.
SMALL = 1e-3


@dataclass(frozen=True, eq=False)
class Fit:
    """Weights on the candidates, with their certificate.

    Parameters
    ----------
    weights : ndarray (m,)
        Nonnegative, with sum 1.
    objective : float
        Their weighted L1 distance from the target, evaluated from the weights.
    gap : float
        A certified bound: all feasible weights have an objective of at least ``objective - gap``.
    status : {"optimal", "time limit", "not solved"}
        "optimal": the gap is at most 1e-8 of the objective (of 1e-3 of the sum of the weights, if that is more), or the
        objective itself is at most 1e-8 of that sum, so that the target is met. "time limit": feasible weights and a
        valid gap, but the gap is not small. "not solved": equal weights, which a mechanism uses if the program fails.
    seconds : float
        Wall time.
    iterations : int
        The number of solved restricted programs; 1 for the whole program.
    """

    weights: Array
    objective: float
    gap: float
    status: Literal["optimal", "time limit", "not solved"]
    seconds: float
    iterations: int


def fit_l1(basis: ChebyshevBasis, points: ArrayLike | Grid, target: ArrayLike, weights: ArrayLike | None = None,
           max_weight: float | None = None, *, levels: int | None = None, method: Method = "auto",
           time_limit: float | None = None) -> Fit:
    """Return the distribution on the candidates whose basis means are nearest to the target in weighted L1.

    Parameters
    ----------
    basis : ChebyshevBasis
        K functions of d columns.
    points : array_like (m, d) or Grid
        Candidates in the cube. A full grid's points are priced by its tensor structure and never kept in memory.
    target : array_like (K,)
        Finite; the released means.
    weights : array_like (K,), optional
        The cost of an error of 1 in each mean; finite and at least 0. Default 1.
    max_weight : float, optional
        A cap on each weight, at least 1/m.
    levels : int, optional
        Round basis values to multiples of 1/levels, as the thesis's W'.
    method : {"auto", "columns", "whole"}
        "columns": column generation, which starts from a few candidates and adds those that the dual prices. It never
        builds the (K, m) matrix. "whole": one model with all candidates. "auto" is "columns" for m > 2 K, or if the
        whole matrix is too large.
    time_limit : float, optional
        Seconds.

    Raises
    ------
    InputError
        If a shape or a value breaks a rule above.
    InfeasibleError
        If max_weight < 1/m.
    SolverTimeoutError
        If the time limit passes before the first feasible weights.
    NumericalError
        If the certificate does not confirm the solver's answer.

    Notes
    -----
    Privacy: post-processing of a released target.
    Cost: each iteration evaluates y.phi at all m candidates (m K multiplications) and solves a program of K + 1 rows
    again from the last basis.

    References
    ----------
    Huang 2014, algorithm 4, line 20.
    """
    clock = Clock(time_limit)
    problem = Problem(basis, points, target, weights, max_weight, levels)
    check_choice("method", method, Method)
    fits = problem.m * basis.K <= WHOLE_LIMIT
    # Whoever leaves the method open, as the mechanisms do after their charge, gets an answer.
    whole = method == "whole" or (method == "auto" and problem.m <= 2 * basis.K and fits)
    if whole and not fits:
        raise InputError(f'the whole matrix of {problem.m} candidates and {basis.K} functions has more than '
                         f'{WHOLE_LIMIT} entries; use method "columns"')
    found = solve_by_columns(problem, np.arange(problem.m) if whole else problem.first_columns(), clock,
                              gap=SOUGHT_GAP, allowed_gap=ALLOWED_GAP, enough=EXACT * problem.scale)
    result = np.zeros(problem.m)
    result[found.atoms] = found.weights
    return Fit(result, found.objective, found.gap, "time limit" if found.interrupted else "optimal", clock.passed(),
               found.iterations)


@dataclass(frozen=True, eq=False)
class Solution:
    """The numbers of the points with positive weight, their weights, and the outcome of the search."""

    atoms: NDArray[np.int64]
    weights: Array
    objective: float
    gap: float
    interrupted: bool
    iterations: int


def solve_by_columns(problem: "Problem", chosen: NDArray[np.int64], clock: Clock, *, gap: float, allowed_gap: float,
                      enough: float) -> Solution:
    """Solve the program of the chosen points, price other points by its dual, add those that improve it, and repeat.

    The search ends when the relative gap or the objective is small enough. It also ends when no other point improves
    the program and the gap is at most the allowed one.
    """
    program = RestrictedProgram(problem.target, problem.costs, problem.cap)
    program.add(problem.features(chosen))
    best: Array | None = None
    objective = np.inf
    iterations = 0
    while True:
        outcome = program.solve(clock.left())
        iterations += 1
        u = program.weights()
        reached = np.inf if u is None else problem.objective(chosen, u)
        if reached < objective:
            best, objective = u, reached
        if outcome == "optimal" and best is None:
            # The solver's answer holds no weights, so the next method is tried. After the last one this raises.
            program.change_method()
            continue
        if outcome == "optimal":
            entering = problem.price_and_bound(*program.duals(), chosen, u)
        size = max(SMALL * problem.scale, objective)
        if outcome == "time limit" or objective - problem.bound <= gap * size or objective <= enough:
            break
        if outcome == "stalled":
            continue
        if len(entering):
            program.add(problem.features(entering))
            chosen = np.concatenate([chosen, entering])
        elif objective - problem.bound <= allowed_gap * size:
            break
        else:
            # No point improves the solver's answer, but the certificate does not confirm it.
            program.change_method()
    if best is None:
        raise SolverTimeoutError(f"the time limit of {clock.limit} s passed before any feasible weights were found")
    used = np.flatnonzero(best)
    return Solution(chosen[used], best[used], objective, max(0.0, objective - problem.bound), outcome == "time limit",
                     iterations)


class Problem:
    """The data of one program: checked arguments, pricing, and the certificate."""

    def __init__(self, basis: ChebyshevBasis, points: ArrayLike | Grid, target: ArrayLike, weights: ArrayLike | None,
                 max_weight: float | None, levels: int | None) -> None:
        self.basis = basis
        self.points = points if isinstance(points, Grid) else numbers("points", points, "m", basis.d)
        self.m = len(self.points)
        if self.m == 0:
            raise InputError("there must be at least one candidate point")
        self.target = finite("target", target, basis.K).astype(np.float64, copy=False)
        self.costs = finite("weights", np.ones(basis.K) if weights is None else weights, basis.K).astype(
            np.float64, copy=False)
        if (self.costs < 0).any():
            raise InputError("weights must be at least 0")
        if levels is not None:
            check_integers(1, levels=levels)
        self.levels = levels
        if max_weight is not None and not max_weight > 0:
            raise InputError(f"max_weight must be positive, not {max_weight}")
        if max_weight is not None and max_weight * self.m < 1.0 - 1e-12:
            raise InfeasibleError(f"with max_weight = {max_weight} the weights of {self.m} candidates cannot sum to 1; "
                                  f"it must be at least 1/m = {1 / self.m:.6g}")
        self.cap = 1.0 if max_weight is None else min(1.0, float(max_weight))
        self.scale = float(self.costs.sum())
        self.bound = 0.0

    def price_and_bound(self, dual: Array, threshold: float, chosen: NDArray[np.int64],
                        weights: Array | None) -> NDArray[np.int64]:
        """Return the numbers of points that improve the restricted program; also improve the bound by the dual."""
        prices = self.price(dual)
        self.bound = max(self.bound, self.lower_bound(dual, prices))
        return self.entering(prices, threshold, chosen)

    def features(self, numbers: NDArray[np.int64]) -> Array:
        """Return the basis values (len(numbers), K) of some candidates."""
        points = self.points.take(numbers) if isinstance(self.points, Grid) else self.points[numbers]
        values = self.basis.evaluate(points)
        return values if self.levels is None else round_to_levels(values, self.levels)

    def price(self, dual: Array) -> Array:
        """Return y.phi(x_j) for all candidates (m,), with -inf for some that cannot be among the largest."""
        exact = (self.points.combine(self.basis, dual) if isinstance(self.points, Grid)
                 else self.basis.combine(self.points, dual))
        if self.levels is None:
            return exact
        # Rounding destroys the products' structure, but moves a price by at most sum|y| / (2 levels). So only
        # candidates within twice this distance of the largest prices are evaluated one by one.
        slack = float(np.abs(dual).sum()) / self.levels
        count = self._most_atoms()
        least = np.partition(exact, self.m - count)[self.m - count] - slack * (1.0 + 1e-9) - 1e-12
        close = np.flatnonzero(exact >= least)
        prices = np.full(self.m, -np.inf)
        for start in range(0, len(close), POINTS_AT_A_TIME):
            part = close[start : start + POINTS_AT_A_TIME]
            prices[part] = self.features(part) @ dual
        return prices

    def _most_atoms(self) -> int:
        """Return the number of candidates that share the whole weight when the cap binds; 1 without a cap."""
        return 1 if self.cap >= 1.0 else min(self.m, int(1.0 / self.cap) + 1)

    def objective(self, chosen: NDArray[np.int64], weights: Array) -> float:
        used = weights > 0
        means = weights[used] @ self.features(chosen[used])
        return float(self.costs @ np.abs(means - self.target))

    def lower_bound(self, dual: Array, prices: Array) -> float:
        """Return the certified bound for a dual in the box |y_r| <= w_r."""
        # Under the cap, the best weights fill the candidates in order of their prices.
        count = self._most_atoms()
        top = np.sort(np.partition(prices, self.m - count)[self.m - count :])[::-1]
        largest = float(np.clip(1.0 - self.cap * np.arange(count), 0.0, self.cap) @ top)
        return float(dual @ self.target) - largest

    def first_columns(self) -> NDArray[np.int64]:
        """Return the first candidates: evenly spread, and enough for the cap."""
        count = min(self.m, max(2 * self.basis.K, int(np.ceil(1.5 / self.cap))))
        return np.unique(np.linspace(0, self.m - 1, count).astype(np.int64))

    def entering(self, prices: Array, threshold: float, chosen: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the best few candidates that improve the restricted program.

        On a full grid these are local maxima of the price, because the neighbours of a maximum add little to it. With a
        cap all candidates count, because a cap can force weight on neighbours.
        """
        if isinstance(self.points, Grid) and self.cap >= 1.0:
            found = np.flatnonzero(self.points.local_maxima(prices) & (prices > threshold))
        else:
            found = np.flatnonzero(prices > threshold)
        found = np.setdiff1d(found, chosen)
        count = max(50, self.basis.K)
        if len(found) > count:
            found = np.sort(found[np.argpartition(prices[found], len(found) - count)[len(found) - count :]])
        return found
