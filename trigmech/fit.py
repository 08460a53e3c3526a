"""Weights on candidate points whose moments are closest in L1: a linear program, solved by HiGHS and certified.

    minimise  sum_r w_r |sum_j u_j phi_r(x_j) - b_r|   over   u >= 0, sum_j u_j = 1 (and u_j <= cap).

For every y with |y_r| <= w_r, weak duality gives the lower bound y.b - max over feasible u of sum_j u_j y.phi(x_j).
The maximum is max_j y.phi(x_j) without a cap, and a sum over the largest values with one. It takes no solver to
evaluate, so whatever the solver returns, the gap between the weights' objective and this bound is certified.
"""

import time
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trigmech.basis import ChebyshevBasis
from trigmech.errors import (
    InfeasibleError,
    InputError,
    NumericalError,
    SolverTimeoutError,
    UnboundedError,
)
from trigmech.grid import Grid, round_to_levels
from trigmech.tables import numbers

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
    status : {"optimal", "time limit"}
        "optimal": the gap is at most 1e-8 of the objective (of 1e-3 of the sum of the weights, if that is more), or the
        objective itself is at most 1e-8 of that sum: the target is met. "time limit": feasible weights and a
        valid gap, but the gap is not small.
    seconds : float
        Wall time.
    iterations : int
        Restricted programs solved; 1 for the whole program.
    """

    weights: Array
    objective: float
    gap: float
    status: Literal["optimal", "time limit"]
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
    started = time.perf_counter()
    problem = _Problem(basis, points, target, weights, max_weight, levels)
    if method not in ("auto", "columns", "whole"):
        raise InputError(f'method must be "auto", "columns" or "whole", not {method!r}')
    if time_limit is not None and not time_limit > 0:
        raise InputError(f"time_limit must be positive, not {time_limit}")
    whole = method == "whole" or (method == "auto" and problem.m <= 2 * basis.K)
    if whole and problem.m * basis.K > WHOLE_LIMIT:
        raise InputError(f'the whole matrix of {problem.m} candidates and {basis.K} functions has more than '
                         f'{WHOLE_LIMIT} entries; use method "columns"')
    chosen = np.arange(problem.m) if whole else problem.first_columns()
    master = _Master(problem, chosen)
    best: Array | None = None
    objective, bound = np.inf, 0.0
    iterations = 0
    while True:
        left = None if time_limit is None else time_limit - (time.perf_counter() - started)
        outcome = master.solve(left)
        iterations += 1
        u = master.weights()
        reached = np.inf if u is None else problem.objective(chosen, u)
        if reached < objective:
            best, objective = u, reached
        size = max(1e-3 * problem.scale, objective)
        if outcome == "optimal":
            dual, threshold = master.duals()
            prices = problem.price(dual)
            bound = max(bound, problem.lower_bound(dual, prices))
        if outcome == "time limit" or objective - bound <= SOUGHT_GAP * size or objective <= EXACT * problem.scale:
            break
        if outcome == "stalled":
            continue
        entering = problem.entering(prices, threshold, chosen)
        if len(entering):
            master.add(entering)
            chosen = np.concatenate([chosen, entering])
        elif objective - bound <= ALLOWED_GAP * size:
            break
        else:
            # Nothing improves the solver's answer, yet the certificate does not confirm it.
            master.change_method()
    if best is None:
        raise SolverTimeoutError(f"the time limit of {time_limit} s passed before any feasible weights were found")
    result = np.zeros(problem.m)
    result[chosen[: len(best)]] = best
    return Fit(result, objective, max(0.0, objective - bound), "time limit" if outcome == "time limit" else "optimal",
               time.perf_counter() - started, iterations)


class _Problem:
    """The data of one program: checked arguments, pricing, and the certificate."""

    def __init__(self, basis: ChebyshevBasis, points: ArrayLike | Grid, target: ArrayLike, weights: ArrayLike | None,
                 max_weight: float | None, levels: int | None) -> None:
        self.basis = basis
        self.points = points if isinstance(points, Grid) else numbers("points", points, "m", basis.d)
        self.m = len(self.points)
        if self.m == 0:
            raise InputError("there must be at least one candidate point")
        self.target = _vector("target", target, basis.K)
        self.costs = np.ones(basis.K) if weights is None else _vector("weights", weights, basis.K)
        if (self.costs < 0).any():
            raise InputError("weights must be at least 0")
        if levels is not None and not levels >= 1:
            raise InputError(f"levels must be at least 1, not {levels}")
        self.levels = levels
        if max_weight is not None and not max_weight > 0:
            raise InputError(f"max_weight must be positive, not {max_weight}")
        if max_weight is not None and max_weight * self.m < 1.0 - 1e-12:
            raise InfeasibleError(f"with max_weight = {max_weight} the weights of {self.m} candidates cannot sum to 1; "
                                  f"it must be at least 1/m = {1 / self.m:.6g}")
        self.cap = 1.0 if max_weight is None else min(1.0, float(max_weight))
        self.scale = float(self.costs.sum())

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


def _vector(name: str, values: ArrayLike, length: int) -> Array:
    vector = numbers(name, values, length).astype(np.float64, copy=False)
    if not np.isfinite(vector).all():
        raise InputError(f"{name} must be {length} finite numbers; an entry is not finite")
    return vector
