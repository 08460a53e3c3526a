"""The restricted program of column generation in HiGHS. Every returned status is checked."""

import time
from typing import Any, Literal

import numpy as np

from trigmech._arrays import Array
from trigmech.errors import InfeasibleError, InputError, NumericalError, UnboundedError


class Clock:
    """The wall time since its creation, and the rest of a time limit."""

    def __init__(self, limit: float | None) -> None:
        if limit is not None and not limit > 0:
            raise InputError(f"time_limit must be positive, not {limit}")
        self.limit = limit
        self._started = time.perf_counter()

    def passed(self) -> float:
        return time.perf_counter() - self._started

    def left(self) -> float | None:
        return None if self.limit is None else self.limit - self.passed()


class RestrictedProgram:
    """The program of the chosen columns, with weights u and the positive and negative parts p, q of each deviation.

    Row r: sum_j u_j phi_r(x_j) + p_r - q_r = b_r. Last row: sum_j u_j = 1. The costs are w_r (p_r + q_r) with w_r >= 0.
    No u_j may exceed the cap; a cap of 1 has no effect.
    """

    # Each entry: solver, simplex strategy (4 primal, 1 dual), allowed iterations in units of K + 50. New columns leave
    # the basis primal feasible, so the primal simplex method continues after a first solve by the dual one. Both can
    # cycle when the target is met exactly. The interior point method cannot.
    _METHODS = (("simplex", 4, 20), ("simplex", 1, 100), ("ipm", 1, 1000))

    def __init__(self, target: Array, costs: Array, cap: float) -> None:
        import highspy

        self._K, self._costs, self._cap = len(target), costs, cap
        self._method, self._solved = 1, False
        self._status = highspy.HighsModelStatus
        self._highs = highspy.Highs()
        # The matrix holds numbers in [-1, 1]. Scaling would only loosen the tolerances, and made some programs cycle.
        self._set(output_flag=False, threads=1, primal_feasibility_tolerance=1e-10, dual_feasibility_tolerance=1e-10,
                  simplex_scale_strategy=0, primal_simplex_bound_perturbation_multiplier=0.0)
        K = self._K
        model = highspy.HighsLp()
        model.num_col_, model.num_row_ = 2 * K, K + 1
        model.col_cost_ = np.concatenate([costs, costs])
        model.col_lower_, model.col_upper_ = np.zeros(2 * K), np.full(2 * K, highspy.kHighsInf)
        model.row_lower_ = model.row_upper_ = np.append(target, 1.0)
        model.a_matrix_.format_ = highspy.MatrixFormat.kColwise
        model.a_matrix_.start_ = np.arange(2 * K + 1, dtype=np.int32)
        model.a_matrix_.index_ = np.tile(np.arange(K, dtype=np.int32), 2)
        model.a_matrix_.value_ = np.repeat([1.0, -1.0], K)
        _accepted(self._highs.passModel(model), "the model")

    def add(self, features: Array) -> None:
        """Add columns with values (count, K). The last basis stays, and the next solve starts from it."""
        # The method goes back to the first only here, so that changes of the method come to an end.
        self._method = 0 if self._solved else self._method
        count, rows = len(features), self._K + 1
        columns = np.column_stack([features, np.ones(count)])
        upper = np.full(count, self._cap if self._cap < 1.0 else np.inf)
        status = self._highs.addCols(count, np.zeros(count), np.zeros(count), upper, columns.size,
                                     np.arange(0, columns.size, rows, dtype=np.int32),
                                     np.tile(np.arange(rows, dtype=np.int32), count), columns.ravel())
        _accepted(status, "new columns")

    def solve(self, seconds: float | None) -> Literal["optimal", "stalled", "time limit"]:
        """Solve by the current method. "stalled" means a degenerate program; the next call uses another method."""
        method, strategy, patience = self._METHODS[self._method]
        self._set(solver=method, simplex_strategy=strategy,
                  simplex_iteration_limit=patience * (self._K + 50))
        if solve(self._highs, seconds):
            self._solved = True
            return "optimal"
        if self._highs.getModelStatus() == self._status.kTimeLimit:
            return "time limit"
        self.change_method()
        return "stalled"

    def change_method(self) -> None:
        """Start the next method afresh, or raise NumericalError after the last one."""
        self._method += 1
        if self._method == len(self._METHODS):
            raise NumericalError("neither the simplex methods nor the interior point method solves the program")
        _accepted(self._highs.clearSolver(), "a fresh start")

    def _set(self, **options: Any) -> None:
        for name, value in options.items():
            _accepted(self._highs.setOptionValue(name, value), f"option {name}")

    def duals(self) -> tuple[Array, float]:
        """Return the dual y of the deviations, clipped to its box, and the negative dual of the last row.

        A column can improve the weights only if its price y.phi(x_j) exceeds the second number.
        """
        dual = np.array(self._highs.getSolution().row_dual)
        return np.clip(dual[:-1], -self._costs, self._costs), -float(dual[-1])

    def weights(self) -> Array | None:
        """Return exactly feasible weights of the columns, or None without such weights.

        Apart from a cap, nonnegative numbers over their sum are feasible in any state of the solver.
        """
        values = np.array(self._highs.getSolution().col_value)[2 * self._K :]
        u = np.maximum(values, 0.0)
        if len(u) == 0 or not (np.isfinite(u).all() and u.sum() > 0):
            return None
        u /= u.sum()
        return None if u.max() > self._cap * (1.0 + 1e-6) else u


def solve(highs: Any, seconds: float | None = None) -> bool:
    """Run HiGHS. Return True for an optimal solution, and False if a limit of time or iterations came first.

    Every other outcome raises an InfeasibleError, UnboundedError or NumericalError.
    """
    from highspy import HighsModelStatus as Status

    if seconds is not None:
        # HiGHS adds up the time of all runs of an object.
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
