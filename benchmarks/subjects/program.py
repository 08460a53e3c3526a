"""The L1 program: column generation against models that hold every candidate."""

from collections.abc import Iterator
from typing import Any

import highspy
import numpy as np
from numpy.typing import NDArray

from benchmarks.core import Alternative, Row, Settings, Subject, compare
from experiments.datasets import cube, load
from trigmech import ChebyshevBasis, Fit, Grid, fit_l1

Array = NDArray[np.float64]


def interior_point(basis: ChebyshevBasis, points: Array, target: Array) -> float:
    """Return the optimum of the whole program by HiGHS's interior point method, in a model of our own."""
    K, m = basis.K, len(points)
    columns = np.column_stack([basis.evaluate(points), np.ones(m)])
    model = highspy.HighsLp()
    # Columns: the parts p, q >= 0 of each deviation, then the weights u. Rows: u.phi_r + p_r - q_r = b_r; sum u = 1.
    model.num_col_, model.num_row_ = 2 * K + m, K + 1
    model.col_cost_ = np.repeat([1.0, 0.0], [2 * K, m])
    model.col_lower_, model.col_upper_ = np.zeros(2 * K + m), np.full(2 * K + m, highspy.kHighsInf)
    model.row_lower_ = model.row_upper_ = np.append(target, 1.0)
    model.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    model.a_matrix_.start_ = np.concatenate([np.arange(2 * K), 2 * K + (K + 1) * np.arange(m + 1)]).astype(np.int32)
    model.a_matrix_.index_ = np.concatenate([np.tile(np.arange(K), 2), np.tile(np.arange(K + 1), m)]).astype(np.int32)
    model.a_matrix_.value_ = np.concatenate([np.repeat([1.0, -1.0], K), columns.ravel()])
    highs = highspy.Highs()
    for name, option in (("output_flag", False), ("threads", 1), ("solver", "ipm"),
                         ("primal_feasibility_tolerance", 1e-10), ("dual_feasibility_tolerance", 1e-10)):
        highs.setOptionValue(name, option)
    highs.passModel(model)
    highs.run()
    if highs.getModelStatus() != highspy.HighsModelStatus.kOptimal:
        raise RuntimeError(f"HiGHS: {highs.modelStatusToString(highs.getModelStatus())}")
    return float(highs.getInfo().objective_function_value)


def rows(settings: Settings) -> Iterator[Row]:
    """Yield the rows of this subject."""
    X = cube(load("WDBC"))
    rng = np.random.default_rng(0)
    m = 2_000 if settings.quick else 10_000
    for level in (0.2, 0.02):
        basis = ChebyshevBasis.graded(30, 102)
        target = _noisy(basis, X, level, rng)
        yield from _three_ways(settings, f"m={m}, K=102, noise {level}, uniform", basis, _uniform(m, rng), target)
        yield from _three_ways(settings, f"m={m}, K=102, noise {level}, cloud", basis, _cloud(X, m, rng), target)
    basis, m = ChebyshevBasis.graded(30, 200), 20_000 if settings.quick else 100_000
    target = _noisy(basis, X, 0.02, rng)
    yield from _columns(settings, f"m={m}, K=200, noise 0.02, uniform", basis, _uniform(m, rng), target)
    yield from _columns(settings, f"m={m}, K=200, noise 0.02, cloud", basis, _cloud(X, m, rng), target)
    for d, N, t in ((2, 300, 8), (3, 40, 4)) if settings.quick else ((2, 1000, 8), (3, 100, 4)):
        basis = ChebyshevBasis.tensor(d, t)
        yield from _columns(settings, f"full grid of {N}^{d} points, t={t}, noise 0.02", basis, Grid(d, N),
                            _noisy(basis, X[:, :d], 0.02, rng))


def _noisy(basis: ChebyshevBasis, X: Array, level: float, rng: np.random.Generator) -> Array:
    """Return the means with normal noise of this standard deviation, but on the constant."""
    return basis.means(X) + level * rng.standard_normal(basis.K) * basis.index.any(axis=1)


def _uniform(m: int, rng: np.random.Generator) -> Array:
    return rng.uniform(-1.0, 1.0, (m, 30))


def _cloud(X: Array, m: int, rng: np.random.Generator) -> Array:
    """Return normal points with the data's mean and covariance, clipped to the cube."""
    return np.clip(rng.multivariate_normal(X.mean(axis=0), np.cov(X.T), m), -1.0, 1.0)


def _three_ways(settings: Settings, case: str, basis: ChebyshevBasis, points: Array, target: Array) -> Iterator[Row]:
    return compare(settings, case, [
        Alternative("trigmech, columns", lambda: fit_l1(basis, points, target, method="columns")),
        Alternative("HiGHS simplex, whole", lambda: fit_l1(basis, points, target, method="whole"), slow=True),
        Alternative("HiGHS interior point, whole", lambda: interior_point(basis, points, target), slow=True),
    ], "HiGHS simplex, whole", value=lambda name, result: _objective(result), describe=_describe)


def _columns(settings: Settings, case: str, basis: ChebyshevBasis, points: Array | Grid,
             target: Array) -> Iterator[Row]:
    return compare(settings, case, [
        Alternative("trigmech, columns", lambda: fit_l1(basis, points, target, method="columns"), slow=True)],
        describe=_describe)


def _objective(result: Any) -> float:
    return result.objective if isinstance(result, Fit) else float(result)


def _describe(result: Any) -> str:
    if not isinstance(result, Fit):
        return ""
    programs = "1 program" if result.iterations == 1 else f"{result.iterations} programs"
    return f"{programs}, certified relative gap {result.gap / result.objective:.0e}"


SUBJECT = Subject(
    "L1 program",
    "`fit_l1` by column generation against one HiGHS model with all candidates (`method=\"whole\"`: dual simplex; "
    "and the interior point method with crossover in a model written here), all on one thread with tolerances of "
    "1e-10. WDBC, basis by total degree, exact means plus normal noise; candidates uniform in the cube, or a normal "
    "cloud with the data's mean and covariance. Times include the basis values. Differences are of objectives. Peaks "
    "leave out the solver's own memory. Baseline: simplex.",
    "", rows)
