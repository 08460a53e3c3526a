"""Equally weighted points whose means meet noisy targets: reweight a cloud, draw from it, and let the points move."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from trigmech.features import FunctionSet

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Descent:
    """The outcome of :func:`descend`.

    Parameters
    ----------
    points : ndarray (m, d)
    misfit : float
        Mean over the functions of ((mean - target) / scale)^2: 1 is the noise level.
    iterations : int
    status : {"converged", "noise level", "iteration limit"}
    """

    points: Array
    misfit: float
    iterations: int
    status: Literal["converged", "noise level", "iteration limit"]


def reweight(values: Array, target: Array, scales: Array, iterations: int = 60) -> Array:
    """Return the weights nearest to uniform, in KL divergence, that explain noisy means.

    q minimises KL(q, uniform) + 1/2 sum_r ((E_q phi_r - z_r) / s_r)^2 over all weights of the given points.

    Parameters
    ----------
    values : ndarray (m, K)
        phi_r at the m points.
    target : ndarray (K,)
        z.
    scales : ndarray (K,)
        s, positive. Twice as large scales keep the weights closer to uniform.
    iterations : int
        Limit for L-BFGS on the dual; any number gives positive weights that sum to 1.

    Returns
    -------
    ndarray (m,)

    Notes
    -----
    Privacy: post-processing. Cost: 2 m K an iteration.
    The dual, log-sum-exp(Phi l) - l.z + 1/2 sum (l_r s_r)^2, is smooth and strictly convex in K variables.
    """
    from scipy.optimize import minimize

    # In units of the scales, so that the quadratic part has unit curvature.
    scaled, goal = values / scales, target / scales

    def dual(y: Array) -> tuple[float, Array]:
        q, log_total = _softmax(scaled @ y)
        return log_total - float(y @ goal) + 0.5 * float(y @ y), q @ scaled - goal + y

    result = minimize(dual, np.zeros(len(target)), jac=True, method="L-BFGS-B", options={"maxiter": iterations})
    return _softmax(scaled @ result.x)[0]


def draw(points: Array, weights: Array, count: int, jitter: float, rng: np.random.Generator) -> Array:
    """Return equally weighted points from weighted ones, each moved a little so that no two are the same.

    Systematic: a point of weight w is taken floor or ceil of w count times. The jitter is normal in the angles arccos x,
    reflected at the ends.

    Parameters
    ----------
    points : ndarray (m, d)
    weights : ndarray (m,)
        At least 0, not all 0.
    count : int
    jitter : float
        Standard deviation in radians, at least 0.
    rng : numpy.random.Generator

    Returns
    -------
    ndarray (count, d)
    """
    return _shaken(points[systematic(weights, count, rng)], jitter, rng)


def systematic(weights: Array, count: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return ``count`` indices, index i floor or ceil of count w_i / sum w times, in random order."""
    # Without the shuffle, evenly spaced positions would pick from a low-discrepancy sequence those of one corner.
    order = rng.permutation(len(weights))
    cumulative = np.cumsum(weights[order])
    positions = (np.arange(count) + rng.random()) * (cumulative[-1] / count)
    return order[np.minimum(np.searchsorted(cumulative, positions, side="right"), len(weights) - 1)]


def descend(functions: FunctionSet, points: Array, target: Array, scales: Array, iterations: int = 80,
            enough: float = 0.0) -> Descent:
    """Move equally weighted points until their means meet the target as well as they can.

    Minimises sum_r ((mean of phi_r - z_r) / s_r)^2 over all points of the cube by L-BFGS in the angles arccos x. It finds
    a local minimum, near where it starts: a start that is already a plausible table stays one.

    Parameters
    ----------
    functions : FunctionSet
    points : ndarray (m, d)
        The start.
    target, scales : ndarray (K,)
        z, and s > 0.
    iterations : int
        Limit.
    enough : float
        Stop when the misfit is at most this: fitting far below 1, the noise level, is fitting noise.

    Returns
    -------
    Descent

    Notes
    -----
    Privacy: post-processing. Cost: about 8 m K an iteration; memory 20 m d for the method's history.
    """
    from scipy.optimize import minimize

    m, d = points.shape
    K = len(target)
    inverse = 1.0 / scales
    # Of the order of 1, so that the solver's tolerances mean the same for any number of points.
    factor = float(np.sqrt(m))
    best: dict[str, Array | float] = {}

    def objective(angles: Array) -> tuple[float, Array]:
        x = np.clip(np.cos(angles.reshape(m, d)), -1.0, 1.0)
        residual = (functions.means(x) - target) * inverse
        misfit = float(residual @ residual) / K
        if misfit < best.get("misfit", np.inf):
            best["misfit"], best["points"] = misfit, x
        if misfit <= enough:
            raise StopIteration
        gradient = functions.gradient(x, residual * inverse) * (2.0 * factor / (K * m))
        return misfit * factor, (-gradient * np.sin(angles.reshape(m, d))).ravel()

    used, status = 0, "noise level"
    try:
        result = minimize(objective, np.arccos(np.clip(points, -1.0, 1.0)).ravel(), jac=True, method="L-BFGS-B",
                          options={"maxiter": iterations, "maxcor": 10, "ftol": 1e-9, "gtol": 1e-12})
        used, status = int(result.nit), "converged" if result.success else "iteration limit"
    except StopIteration:
        pass
    return Descent(best["points"], float(best["misfit"]), used, status)


def _shaken(points: Array, jitter: float, rng: np.random.Generator) -> Array:
    return np.cos(np.abs(np.arccos(np.clip(points, -1.0, 1.0)) + jitter * rng.standard_normal(points.shape)))


def _softmax(exponents: Array) -> tuple[Array, float]:
    top = float(exponents.max())
    q = np.exp(exponents - top)
    total = float(q.sum())
    return q / total, float(np.log(total)) + top
