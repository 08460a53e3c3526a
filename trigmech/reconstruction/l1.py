"""Distributions whose moments are closest in L1: linear programs, solved by HiGHS and certified where that is possible.

    minimise  sum_r w_r |sum_j u_j phi_r(x_j) - b_r|   over   u >= 0, sum_j u_j = 1 (and u_j <= cap).

For every y with |y_r| <= w_r, weak duality gives the lower bound y.b - max over feasible u of sum_j u_j y.phi(x_j).
The maximum is max_j y.phi(x_j) without a cap, and a sum over the largest values with one. It takes no solver to
evaluate, so whatever the solver returns, the gap between the weights' objective and this bound is certified.

Over the whole cube instead of candidates the program is the same with infinitely many columns, and the maximum is that
of a polynomial. Searched for, it is only known from below, so the bound and the gap are then estimates.
"""

import time
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trigmech._validate import check_choice, check_integers, finite, numbers
from trigmech.errors import InfeasibleError, InputError, NumericalError, SolverTimeoutError, UnboundedError
from trigmech.functions.chebyshev import ChebyshevBasis
from trigmech.functions.grid import Grid, round_to_levels
from trigmech.reconstruction.pricing import CubeSearch

Array = NDArray[np.float64]
Method = Literal["auto", "columns", "whole"]

WHOLE_LIMIT = 50_000_000
"""Entries of the largest matrix that method "whole" accepts: 400 MB, several times that inside the solver."""

POINTS_AT_A_TIME = 2**16

# Relative gaps: column generation goes on until the first is reached, and the second is the most that an optimum may
# have when the solver's own tolerance of 1e-10 leaves nothing to improve. Typical gaps are below 1e-12.
SOUGHT_GAP, ALLOWED_GAP = 1e-9, 1e-8

# An objective below this part of the sum of the weights meets the target exactly, for every practical purpose.
EXACT = 1e-8

# Below this part of the sum of the weights, an objective is too small to ask for gaps relative to it.
SMALL = 1e-3

# Pricing over the cube: how many of the known points with the highest prices, and how many new ones, go uphill; the
# part of the best dual in the one that is searched (see _CubeProblem); points nearer than this in every column are one;
# how many enter at most, for more slow the simplex method down; the tolerance of the ascents, relative to the gap.
KNOWN_STARTS, FRESH_STARTS = 64, 64
STAY = 0.8
DISTINCT = 1e-6
MOST_ENTERING = 50
ASCENT = 1e-4


@dataclass(frozen=True, eq=False)
class Fit:
    """Weights on the candidates, with their certificate.

    Parameters
    ----------
    weights : ndarray (m,)
        Nonnegative, summing to 1.
    objective : float
        Their weighted L1 distance from the target, evaluated from the weights.
    gap : float
        Certified: no feasible weights have an objective below ``objective - gap``.
    status : {"optimal", "time limit", "not solved"}
        "optimal": the gap is at most 1e-8 of the objective (of 1e-3 of the sum of the weights, if that is more), or the
        objective itself is at most 1e-8 of that sum: the target is met. "time limit": feasible weights and a
        valid gap, but the gap is not small. "not solved": equal weights, which a mechanism falls back on when the
        program fails.
    seconds : float
        Wall time.
    iterations : int
        Restricted programs solved; 1 for the whole program.
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
        Candidates in the cube. A full grid's points are priced by its tensor structure and never held.
    target : array_like (K,)
        Finite; the released means.
    weights : array_like (K,), optional
        Finite and at least 0: what an error of 1 in each mean costs. Default 1.
    max_weight : float, optional
        A cap on every single weight, at least 1/m.
    levels : int, optional
        Round basis values to multiples of 1/levels, as the thesis's W'.
    method : {"auto", "columns", "whole"}
        "columns": column generation, which starts from a few candidates and adds those that the dual prices; never
        holds the (K, m) matrix. "whole": one model with all candidates. "auto" is "columns" for m > 2 K.
    time_limit : float, optional
        Seconds.

    Returns
    -------
    Fit

    Raises
    ------
    InputError
        If a shape or a value breaks a rule above.
    InfeasibleError
        If max_weight < 1/m.
    SolverTimeoutError
        If the time limit passes before the first feasible weights.
    NumericalError
        If the solver's answer is not confirmed by the certificate.

    Notes
    -----
    Privacy: post-processing of a released target.
    Cost: each iteration evaluates y.phi at all m candidates (m K multiplications) and re-solves a program of K + 1 rows
    from the last basis.

    References
    ----------
    Huang 2014, algorithm 4, line 20.
    """
    clock = _Clock(time_limit)
    problem = _Problem(basis, points, target, weights, max_weight, levels)
    check_choice("method", method, Method)
    whole = method == "whole" or (method == "auto" and problem.m <= 2 * basis.K)
    if whole and problem.m * basis.K > WHOLE_LIMIT:
        raise InputError(f'the whole matrix of {problem.m} candidates and {basis.K} functions has more than '
                         f'{WHOLE_LIMIT} entries; use method "columns"')
    found = _solve_by_columns(problem, np.arange(problem.m) if whole else problem.first_columns(), clock,
                              gap=SOUGHT_GAP, allowed_gap=ALLOWED_GAP, enough=EXACT * problem.scale)
    result = np.zeros(problem.m)
    result[found.atoms] = found.weights
    return Fit(result, found.objective, found.gap, "time limit" if found.interrupted else "optimal", clock.passed(),
               found.iterations)


@dataclass(frozen=True, eq=False)
class CubeFit:
    """A distribution on points of the cube.

    Parameters
    ----------
    points : ndarray (m, d)
        The atoms, in the cube.
    weights : ndarray (m,)
        Positive, summing to 1.
    objective : float
        Their weighted L1 distance from the target, evaluated from points and weights.
    bound_estimate : float
        An estimate of a bound below the objective of every distribution on the cube; at least 0 and at most
        ``objective``. It would be certified if the search had found the true maximum of the best dual's polynomial.
        It has found local maxima only, so the true bound may be lower. No distribution that was met contradicts it.
    status : {"optimal", "noise level", "time limit"}
        "optimal": objective and bound estimate differ by at most ``gap`` of the objective (of 1e-3 of the sum of the
        weights, if that is more), or the objective is at most 1e-8 of that sum. "noise level": the objective is at
        most the noise level. "time limit": neither; a valid distribution all the same.
    seconds : float
        Wall time.
    iterations : int
        Restricted programs solved.
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
        At least one point of the cube. The objective will not be above the best on these points, unless ``gap``,
        ``noise_level`` or the time limit ends the search first.
    weights : array_like (K,), optional
        Finite and at least 0: what an error of 1 in each mean costs. Default 1.
    gap : float
        Between 0 and 1: the relative gap at which to stop, see :class:`CubeFit`.
    noise_level : float
        At least 0: an objective that is small enough, such as sum_r w_r E|noise_r| of the target's noise, which is how
        far the true means are from the target on average. It saves time; going on can still come nearer to them.
    time_limit : float, optional
        Seconds. Looked at between searches, each of which takes a small part of a second for K in the hundreds.
    rng : numpy.random.Generator, optional
        Draws the points from which the search starts; by default a fresh one.

    Returns
    -------
    CubeFit

    Raises
    ------
    InputError
        If a shape or a value breaks a rule above.
    SolverTimeoutError
        If the time limit passes before the first feasible weights.
    NumericalError
        If the solver's answer is not confirmed by the bound.

    Notes
    -----
    Privacy: post-processing of a released target.
    Cost: each iteration takes some hundred coordinate ascents and re-solves a program of K + 1 rows from the last
    basis, which is most of the time.
    The result depends on the arguments and the generator alone, whatever the number of threads, unless there is a time
    limit.

    References
    ----------
    Wentges 1997, Weighted Dantzig-Wolfe decomposition for linear mixed-integer programming (the smoothed dual).
    """
    clock = _Clock(time_limit)
    if not 0 < gap < 1:
        raise InputError(f"gap must be between 0 and 1, not {gap}")
    if not 0 <= noise_level < np.inf:
        raise InputError(f"noise_level must be finite and at least 0, not {noise_level}")
    problem = _CubeProblem(basis, start, target, weights, gap, np.random.default_rng() if rng is None else rng)
    exact = EXACT * problem.scale
    found = _solve_by_columns(problem, problem.first_columns(), clock, gap=gap, allowed_gap=max(gap, ALLOWED_GAP),
                              enough=max(noise_level, exact))
    status: Literal["optimal", "noise level", "time limit"] = "optimal"
    if found.objective <= noise_level:
        status = "noise level"
    elif found.interrupted:
        status = "time limit"
    return CubeFit(problem.points[found.atoms], found.weights, found.objective, found.objective - found.gap, status,
                   clock.passed(), found.iterations)


class _Clock:
    """Wall time since it was made, and what is left of a limit."""

    def __init__(self, limit: float | None) -> None:
        if limit is not None and not limit > 0:
            raise InputError(f"time_limit must be positive, not {limit}")
        self.limit = limit
        self._started = time.perf_counter()

    def passed(self) -> float:
        return time.perf_counter() - self._started

    def left(self) -> float | None:
        return None if self.limit is None else self.limit - self.passed()


@dataclass(frozen=True, eq=False)
class _Solution:
    """The numbers of the points with positive weight, their weights, and how the search ended."""

    atoms: NDArray[np.int64]
    weights: Array
    objective: float
    gap: float
    interrupted: bool
    iterations: int


def _solve_by_columns(problem: "_Problem", chosen: NDArray[np.int64], clock: _Clock, *, gap: float, allowed_gap: float,
                      enough: float) -> _Solution:
    """Solve the program of the chosen points, let its dual price others, add those that improve it, and so on.

    Ends when the relative gap or the objective is small enough or, if no other points improve the program, when the gap
    is at most the one that is allowed.
    """
    master = _Master(problem, chosen)
    best: Array | None = None
    objective = np.inf
    iterations = 0
    while True:
        outcome = master.solve(clock.left())
        iterations += 1
        u = master.weights()
        reached = np.inf if u is None else problem.objective(chosen, u)
        if reached < objective:
            best, objective = u, reached
        if outcome == "optimal":
            entering = problem.price_and_bound(*master.duals(), chosen, u)
        size = max(SMALL * problem.scale, objective)
        if outcome == "time limit" or objective - problem.bound <= gap * size or objective <= enough:
            break
        if outcome == "stalled":
            continue
        if len(entering):
            master.add(entering)
            chosen = np.concatenate([chosen, entering])
        elif objective - problem.bound <= allowed_gap * size:
            break
        else:
            # Nothing improves the solver's answer, yet the certificate does not confirm it.
            master.change_method()
    if best is None:
        raise SolverTimeoutError(f"the time limit of {clock.limit} s passed before any feasible weights were found")
    used = np.flatnonzero(best)
    return _Solution(chosen[used], best[used], objective, max(0.0, objective - problem.bound), outcome == "time limit",
                     iterations)


class _Problem:
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
        """Return the numbers of points that improve the restricted program; raise the bound if the dual allows it."""
        prices = self.price(dual)
        self.bound = max(self.bound, self.lower_bound(dual, prices))
        return self.entering(prices, threshold, chosen)

    def features(self, numbers: NDArray[np.int64]) -> Array:
        """Return the basis values (len(numbers), K) of the candidates with these numbers."""
        points = self.points.take(numbers) if isinstance(self.points, Grid) else self.points[numbers]
        values = self.basis.evaluate(points)
        return values if self.levels is None else round_to_levels(values, self.levels)

    def price(self, dual: Array) -> Array:
        """Return y.phi(x_j) for all candidates (m,); -inf for some that rounding cannot bring among the largest."""
        exact = (self.points.combine(self.basis, dual) if isinstance(self.points, Grid)
                 else self.basis.combine(self.points, dual))
        if self.levels is None:
            return exact
        # Rounding destroys the products' structure, but moves a price by at most sum|y| / (2 levels): only candidates
        # within twice that of the largest that count need to be evaluated one by one.
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
        """Return how many candidates can share the whole weight when the cap binds; 1 without a cap."""
        return 1 if self.cap >= 1.0 else min(self.m, int(1.0 / self.cap) + 1)

    def objective(self, chosen: NDArray[np.int64], weights: Array) -> float:
        used = weights > 0
        means = weights[used] @ self.features(chosen[used])
        return float(self.costs @ np.abs(means - self.target))

    def lower_bound(self, dual: Array, prices: Array) -> float:
        """Return the certified bound for a dual in the box |y_r| <= w_r."""
        # The best weights under the cap fill the largest prices one after another.
        count = self._most_atoms()
        top = np.sort(np.partition(prices, self.m - count)[self.m - count :])[::-1]
        largest = float(np.clip(1.0 - self.cap * np.arange(count), 0.0, self.cap) @ top)
        return float(dual @ self.target) - largest

    def first_columns(self) -> NDArray[np.int64]:
        """Return the candidates to start with: evenly spread numbers, enough for the cap, never all the memory."""
        count = min(self.m, max(2 * self.basis.K, int(np.ceil(1.5 / self.cap))))
        return np.unique(np.linspace(0, self.m - 1, count).astype(np.int64))

    def entering(self, prices: Array, threshold: float, chosen: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return candidates that improve the restricted program, the best few of them.

        On a full grid only local maxima of the price: neighbours of one maximum are worth little beside it, unless a
        cap forces weight on them.
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


class _CubeProblem(_Problem):
    """The program over the whole cube: a pool of points that grows by what a search finds.

    Duals of the first restricted programs jump from corner to corner of the box. So the search is at a point between
    the current dual and the best so far (Wentges), where it often finds points that improve the program as well, and
    better bounds; if it finds none there, it is at the current dual itself.
    """

    def __init__(self, basis: ChebyshevBasis, start: ArrayLike, target: ArrayLike, weights: ArrayLike | None,
                 gap: float, rng: np.random.Generator) -> None:
        points = numbers("start", start, "m", basis.d).astype(np.float64, copy=False)
        super().__init__(basis, points, target, weights, None, None)
        self.points: Array = points
        self._search = CubeSearch(basis)
        self._gap, self._rng = gap, rng
        # The best dual so far and the largest value of its polynomial that any search or any known point had.
        self._centre: Array | None = None
        self._largest = np.inf

    def price_and_bound(self, dual: Array, threshold: float, chosen: NDArray[np.int64],
                        weights: Array | None) -> NDArray[np.int64]:
        prices = self.price(dual)
        # By duality dual @ target - threshold is the restricted optimum. If nothing exceeds the threshold by more than
        # this, the gap is closed, and the search need not go on for rounding errors.
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
        """Add the distinct ends whose price exceeds the least to the pool, and return their numbers."""
        prices = self.basis.combine(ends, dual)
        found = np.flatnonzero(prices > least)
        found = found[np.argsort(-prices[found], kind="stable")]
        # The first of equals is the best; and the best of all are enough.
        _, first = np.unique(np.round(ends[found] / DISTINCT), axis=0, return_index=True)
        new = ends[found[np.sort(first)[:MOST_ENTERING]]]
        if len(new) and self._centre is not None:
            # A new point can refute the bound: the search that gave it had missed this point.
            self._largest = max(self._largest, float(self.basis.combine(new, self._centre).max()))
            self.bound = max(0.0, float(self._centre @ self.target) - self._largest)
        self.points = np.concatenate([self.points, new])
        self.m = len(self.points)
        return np.arange(self.m - len(new), self.m)


class _Master:
    """The restricted program in HiGHS: u over the chosen candidates, and the parts p, q >= 0 of each deviation.

    Rows r: sum_j u_j phi_r(x_j) + p_r - q_r = b_r. Last row: sum_j u_j = 1.
    """

    # Solver, simplex strategy (4 primal, 1 dual), iterations allowed in units of K + 50. New columns leave the basis
    # primal feasible, so after a first solve by the dual simplex the primal one goes on from it; either can cycle when
    # the target is met exactly, the interior point method cannot.
    _METHODS = (("simplex", 4, 20), ("simplex", 1, 100), ("ipm", 1, 1000))

    def __init__(self, problem: _Problem, chosen: NDArray[np.int64]) -> None:
        import highspy

        self._problem = problem
        K = problem.basis.K
        self._status = highspy.HighsModelStatus
        self._method = 1
        self._highs = highspy.Highs()
        # The matrix holds numbers in [-1, 1]; scaling it only loosens the tolerances, and made some programs cycle.
        self._set(output_flag=False, threads=1, primal_feasibility_tolerance=1e-10, dual_feasibility_tolerance=1e-10,
                  simplex_scale_strategy=0,
                  primal_simplex_bound_perturbation_multiplier=0.0)
        model = highspy.HighsLp()
        model.num_col_, model.num_row_ = 2 * K, K + 1
        model.col_cost_ = np.concatenate([problem.costs, problem.costs])
        model.col_lower_, model.col_upper_ = np.zeros(2 * K), np.full(2 * K, highspy.kHighsInf)
        model.row_lower_ = model.row_upper_ = np.append(problem.target, 1.0)
        model.a_matrix_.format_ = highspy.MatrixFormat.kColwise
        model.a_matrix_.start_ = np.arange(2 * K + 1, dtype=np.int32)
        model.a_matrix_.index_ = np.tile(np.arange(K, dtype=np.int32), 2)
        model.a_matrix_.value_ = np.repeat([1.0, -1.0], K)
        _accepted(self._highs.passModel(model), "the model")
        self.add(chosen)

    def add(self, numbers: NDArray[np.int64]) -> None:
        """Add the columns of these candidates; the last basis stays, so the next solve starts from it."""
        K, count = self._problem.basis.K, len(numbers)
        cap = self._problem.cap
        columns = np.column_stack([self._problem.features(numbers), np.ones(count)])
        upper = np.full(count, cap if cap < 1.0 else np.inf)
        status = self._highs.addCols(count, np.zeros(count), np.zeros(count), upper, columns.size,
                                     np.arange(0, columns.size, K + 1, dtype=np.int32),
                                     np.tile(np.arange(K + 1, dtype=np.int32), count), columns.ravel())
        _accepted(status, "new columns")

    def solve(self, seconds: float | None) -> Literal["optimal", "stalled", "time limit"]:
        """Solve by the current method; "stalled" on a degenerate program means that the next call tries another."""
        method, strategy, patience = self._METHODS[self._method]
        self._set(solver=method, simplex_strategy=strategy,
                  simplex_iteration_limit=patience * (self._problem.basis.K + 50))
        if solve(self._highs, seconds):
            self._method = 0
            return "optimal"
        if self._highs.getModelStatus() == self._status.kTimeLimit:
            return "time limit"
        self.change_method()
        return "stalled"

    def change_method(self) -> None:
        """Go over to the next method and start it afresh, or raise NumericalError if there is none."""
        self._method += 1
        if self._method == len(self._METHODS):
            raise NumericalError("neither the simplex methods nor the interior point method solves the program")
        _accepted(self._highs.clearSolver(), "a fresh start")

    def _set(self, **options: Any) -> None:
        for name, value in options.items():
            _accepted(self._highs.setOptionValue(name, value), f"option {name}")

    def duals(self) -> tuple[Array, float]:
        """Return the dual of the deviations, clipped to its box, and that of the row of sums with its sign turned.

        A candidate can improve the weights only if its price y.phi(x_j) exceeds the second.
        """
        dual = np.array(self._highs.getSolution().row_dual)
        return np.clip(dual[:-1], -self._problem.costs, self._problem.costs), -float(dual[-1])

    def weights(self) -> Array | None:
        """Return the weights of the chosen candidates, made exactly feasible, or None if the solver has none.

        Whatever the solver's state, nonnegative numbers that are divided by their sum are feasible, but for a cap.
        """
        values = np.array(self._highs.getSolution().col_value)[2 * self._problem.basis.K :]
        u = np.maximum(values, 0.0)
        if len(u) == 0 or not (np.isfinite(u).all() and u.sum() > 0):
            return None
        u /= u.sum()
        return None if u.max() > self._problem.cap * (1.0 + 1e-6) else u


def solve(highs: Any, seconds: float | None = None) -> bool:
    """Run HiGHS and turn every outcome into one of four: True, False, or an error that says what happened.

    Parameters
    ----------
    highs : highspy.Highs
        With a model.
    seconds : float, optional
        Time limit.

    Returns
    -------
    bool
        True for an optimal solution; False if a limit of time or iterations came first.

    Raises
    ------
    InfeasibleError, UnboundedError, NumericalError
    """
    from highspy import HighsModelStatus as Status

    if seconds is not None:
        # HiGHS counts the time of all runs of one object together.
        _accepted(highs.setOptionValue("time_limit", highs.getRunTime() + max(seconds, 0.0)), "option time_limit")
    highs.run()
    status = highs.getModelStatus()
    if status == Status.kOptimal:
        return True
    if status in (Status.kTimeLimit, Status.kIterationLimit):
        return False
    if status == Status.kInfeasible:
        raise InfeasibleError("no weights satisfy the constraints")
    if status in (Status.kUnbounded, Status.kUnboundedOrInfeasible):
        raise UnboundedError("the program has no finite optimum")
    raise NumericalError(f"HiGHS stopped with status {highs.modelStatusToString(status)!r}")


def _accepted(status: Any, what: str) -> None:
    from highspy import HighsStatus

    if status == HighsStatus.kError:
        raise NumericalError(f"HiGHS did not accept {what}")
