"""Points of equal weight whose means match noisy targets: reweight proposal points, draw from them, and move them."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from trigmech._arrays import Array
from trigmech._validate import numbers
from trigmech.distribution import systematic
from trigmech.errors import InputError, shown
from trigmech.functions.features import FunctionSet


@dataclass(frozen=True, eq=False)
class Descent:
    """The outcome of :func:`descend`.

    misfit: Reduced chi-square, the mean over the functions of ((mean - target) / scale)^2; 1 is the noise level.
    status, one of {"converged", "iteration limit"}: "converged" if no step gained more.
    """

    points: Array
    misfit: float
    iterations: int
    status: Literal["converged", "iteration limit"]


def reweight(values: Array, target: Array, scales: Array, iterations: int = 60) -> Array:
    """Return the weights (m,) nearest to uniform, in KL divergence, that agree with noisy means.

    q minimises KL(q, uniform) + 1/2 sum_r ((E_q phi_r - z_r) / s_r)^2 over all weights of the given points.

    Parameters
    ----------
    values : ndarray (m, K)
        phi_r at the m points.
    target : ndarray (K,)
        z.
    scales : ndarray (K,)
        s, positive. Larger scales keep the weights closer to uniform.
    iterations : int
        Limit for L-BFGS on the dual. Any number gives weights that sum to 1.

    Raises
    ------
    InputError
        If shapes differ, there are no points, a target is not finite, or a scale is not positive.

    Notes
    -----
    Privacy: post-processing. Cost: 4 m K for each iteration.
    The dual, log-sum-exp(Phi l) - l.z + 1/2 sum (l_r s_r)^2, is smooth and strictly convex in K variables.
    """
    from scipy.optimize import minimize

    values = numbers("values", values, "m", "K")
    if not len(values):
        raise InputError("values must have at least one row")
    target, scales = _noisy(target, scales, values.shape[1])
    # In units of the scales the quadratic part has unit curvature.
    scaled, goal = values / scales, target / scales

    def dual(y: Array) -> tuple[float, Array]:
        q, log_total = _softmax(scaled @ y)
        return log_total - float(y @ goal) + 0.5 * float(y @ y), q @ scaled - goal + y

    result = minimize(dual, np.zeros(len(target)), jac=True, method="L-BFGS-B", options={"maxiter": iterations})
    return _softmax(scaled @ result.x)[0]


def draw(points: Array, weights: Array, count: int, jitter: float, rng: np.random.Generator) -> Array:
    """Return points (count, d) of equal weight from weighted ones, each moved a little so that no two are equal.

    The draw is systematic: a point of weight w is drawn floor or ceil of w count times. The jitter is normal in the
    angles arccos x and reflected at the ends. On average it multiplies the mean of phi_r by
    exp(-jitter^2 |r|^2 / 2).

    Parameters
    ----------
    points : ndarray (m, d)
    weights : ndarray (m,)
        At least 0, with a positive sum.
    count : int
        At least 1.
    jitter : float
        Standard deviation in radians, at least 0. With 0, a point that is drawn several times gives copies.
    rng : numpy.random.Generator

    Raises
    ------
    InputError
        If there is not one weight for each point, or an argument is out of its range.
    """
    points = numbers("points", points, "m", "d")
    numbers("weights", weights, len(points))
    if not 0.0 <= jitter < np.inf:
        raise InputError(f"jitter must be at least 0 and finite, not {shown(jitter)}")
    chosen = points[systematic(weights, count, rng)]
    return np.cos(np.abs(np.arccos(np.clip(chosen, -1.0, 1.0)) + jitter * rng.standard_normal(chosen.shape)))


class Angles:
    """Unbounded parameters of points (m, d): the angles arccos x of their free entries.

    By default all entries are free. Only columns with a free entry have parameters.
    """

    def __init__(self, points: Array, free: NDArray[np.bool_] | None = None) -> None:
        self._fixed = np.clip(points, -1.0, 1.0)
        self._columns = np.arange(points.shape[1]) if free is None else np.flatnonzero(free.any(axis=0))
        self._free = None if free is None or free.all() else free[:, self._columns]
        self.start = np.arccos(self._fixed[:, self._columns])

    def points(self, parameters: Array) -> Array:
        """Return the points (m, d) for parameters."""
        moved = np.clip(np.cos(parameters), -1.0, 1.0)
        if self._free is not None:
            moved = np.where(self._free, moved, self._fixed[:, self._columns])
        x = self._fixed.copy()
        x[:, self._columns] = moved
        return x

    def pull(self, parameters: Array, gradient: Array) -> Array:
        """Return the gradient with respect to the parameters, given the one with respect to the points (m, d)."""
        pulled = -gradient[:, self._columns] * np.sin(parameters)
        return pulled if self._free is None else pulled * self._free


def descend(functions: FunctionSet, points: Array, target: Array, scales: Array, iterations: int = 80,
            chart: Angles | None = None, enough: float = 0.0) -> Descent:
    """Move points of equal weight until their means are as near to the target as possible.

    The descent minimises sum_r ((mean of phi_r - z_r) / s_r)^2 over all points of the cube, by L-BFGS in the angles
    arccos x. It finds a local minimum near its start, so a plausible table stays plausible. An entry that starts at
    exactly -1 or 1 stays there, because the derivative with respect to the angle is 0.

    Parameters
    ----------
    functions : FunctionSet
    points : ndarray (m, d)
        The start; clipped to the cube.
    target, scales : ndarray (K,)
        z, and s > 0.
    iterations : int
        Limit of the iterations. With 0, the result is the start.
    chart : Angles, optional
        The parameters of the points. Default: all entries are free.
    enough : float
        The reduced chi-square at which the descent ends.

    Returns
    -------
    Descent
        The points with the least reduced chi-square of all iterations, which is at most that of the start.

    Raises
    ------
    InputError
        If shapes differ, there are no points, a coordinate or target is not finite, or a scale is not positive.

    Notes
    -----
    Privacy: post-processing. Cost: about 8 m K for each iteration; memory 20 m d for the method's history.
    """
    from scipy.optimize import OptimizeResult, minimize

    points = numbers("points", points, "m", functions.d)
    if not (len(points) and np.isfinite(points).all()):
        raise InputError("there must be at least one point, of finite numbers")
    target, scales = _noisy(target, scales, functions.K)
    chart = Angles(points) if chart is None else chart
    objective, start = _Objective(functions, points, target, scales, chart), chart.start.ravel()
    objective(start)
    if iterations < 1 or not start.size or objective.least <= enough:
        # The solver would make at least one iteration.
        return Descent(objective.best, objective.least, 0, "iteration limit" if iterations < 1 else "converged")

    def stop_if_enough(intermediate_result: OptimizeResult) -> None:
        if objective.least <= enough:
            raise StopIteration

    result = minimize(objective, start, jac=True, method="L-BFGS-B", callback=stop_if_enough,
                      options={"maxiter": iterations, "maxcor": 10, "ftol": 1e-9, "gtol": 1e-12})
    # The solver's code 1 means a limit. Its code 2 means a line search without an improvement.
    return Descent(objective.best, objective.least, int(result.nit),
                   "iteration limit" if result.status == 1 else "converged")


class _Objective:
    """The reduced chi-square (``misfit``) as a function of the parameters, with the least value so far and its points.
    """

    def __init__(self, functions: FunctionSet, points: Array, target: Array, scales: Array, chart: Angles) -> None:
        self._functions, self._target, self._inverse, self._chart = functions, target, 1.0 / scales, chart
        # With this factor the gradient is about 1, so the solver's tolerances fit any number of points.
        self._factor = float(np.sqrt(len(points)))
        self.least, self.best = np.inf, points

    def __call__(self, flat: Array) -> tuple[float, Array]:
        parameters = flat.reshape(self._chart.start.shape)
        x = self._chart.points(parameters)
        residual = (self._functions.means(x) - self._target) * self._inverse
        misfit = float(residual @ residual) / len(residual)
        if misfit < self.least:
            self.least, self.best = misfit, x
        slope = 2.0 * self._factor / (len(residual) * len(x))
        gradient = self._functions.gradient(x, residual * self._inverse) * slope
        return misfit * self._factor, self._chart.pull(parameters, gradient).ravel()


def _noisy(target: Array, scales: Array, K: int) -> tuple[Array, Array]:
    target, scales = numbers("target", target, K), numbers("scales", scales, K)
    if not (np.isfinite(target).all() and (scales > 0.0).all()):
        raise InputError("targets must be finite, and their scales positive")
    return target, scales


def _softmax(exponents: Array) -> tuple[Array, float]:
    top = float(exponents.max())
    q = np.exp(exponents - top)
    total = float(q.sum())
    return q / total, float(np.log(total)) + top
