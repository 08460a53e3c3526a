import numpy as np
import oracles
import pytest
from scipy import optimize, stats

from trigmech.errors import InputError
from trigmech.functions.chebyshev import ChebyshevBasis
from trigmech.functions.features import Features
from trigmech.reconstruction.particles import Angles, _Objective, descend, draw, reweight, systematic

PRODUCTS = Features(ChebyshevBasis(ChebyshevBasis.graded(3, 16).index[1:]))
WITH_WHOLE_ROWS = Features(PRODUCTS.basis, [[1.0, 0.0, -0.2, 0.0, 0.01]])


def points_of_cube(n, d, seed=3):
    return np.random.default_rng(seed).uniform(-1.0, 1.0, (n, d))


# Weights


def problem(m, K, scale, seed=1):
    """Values, noisy means of unequal weights, and scales."""
    rng = np.random.default_rng(seed)
    values, scales = rng.uniform(-1.0, 1.0, (m, K)), scale * rng.uniform(0.5, 2.0, K)
    return values, rng.dirichlet(np.full(m, 0.5)) @ values + 0.02 * rng.standard_normal(K), scales


def primal(q, values, target, scales):
    """KL(q, uniform) + 1/2 sum ((E_q phi - z) / s)^2."""
    return q @ np.log(np.maximum(q, 1e-300) * len(q)) + 0.5 * (((q @ values - target) / scales) ** 2).sum()


def weights_by_trust_constr(values, target, scales):
    """The primal itself, with the constraints as they are written."""
    m = len(values)

    def slope(q):
        return np.log(q * m) + 1.0 + values @ ((q @ values - target) / scales**2)

    curvature = (values / scales**2) @ values.T
    result = optimize.minimize(
        primal, np.full(m, 1.0 / m), args=(values, target, scales), jac=lambda q, *_: slope(q),
        hess=lambda q, *_: np.diag(1.0 / q) + curvature, method="trust-constr",
        constraints=[optimize.LinearConstraint(np.ones((1, m)), 1.0, 1.0)],
        bounds=optimize.Bounds(1e-12, 1.0, keep_feasible=True), options={"gtol": 1e-10, "xtol": 1e-14, "maxiter": 500})
    return result.x


@pytest.mark.daily("6-2")
@pytest.mark.parametrize(("m", "K"), [(6, 2), (12, 4)])
def test_weights_are_those_of_a_general_solver_of_the_primal(m, K):
    values, target, scales = problem(m, K, 0.3)
    slow = weights_by_trust_constr(values, target, scales)
    np.testing.assert_allclose(reweight(values, target, scales), slow, rtol=0, atol=1e-5)
    # The planted fault: scales 2 per cent too large.
    assert np.abs(reweight(values, target, 1.02 * scales) - slow).max() > 1e-4


@pytest.mark.parametrize(("m", "K", "scale"), [(50, 3, 0.02), (50, 3, 5.0), (200, 30, 0.02), (200, 30, 0.3),
                                               (10, 40, 0.3), (10, 40, 5.0)])
def test_weights_satisfy_the_conditions_of_the_optimum(m, K, scale):
    values, target, scales = problem(m, K, scale)
    q = reweight(values, target, scales)
    assert (q > 0.0).all()
    assert q.sum() == pytest.approx(1.0, rel=1e-12)
    # q_j is proportional to exp(l . phi_j) for some l ...
    columns = np.hstack([np.ones((m, 1)), values])
    np.testing.assert_allclose(columns @ np.linalg.lstsq(columns, np.log(q), rcond=None)[0], np.log(q), atol=1e-10)
    # ... and for l = (z - E_q phi) / s^2 in the optimum, where the primal is minus the dual: the gap bounds the error.
    y = (target - q @ values) / scales**2
    top = (values @ y).max()
    dual = np.log(np.exp(values @ y - top).mean()) + top - y @ target + 0.5 * ((y * scales) ** 2).sum()
    assert -1e-12 < primal(q, values, target, scales) + dual < 1e-2 * min(1.0, scale * 10.0)


@pytest.mark.parametrize(("values", "target", "scales"), [
    (np.zeros((4, 2)), np.zeros(3), np.ones(2)), (np.zeros((4, 2)), np.zeros(2), np.ones(3)),
    (np.zeros((4, 2)), np.zeros(2), np.zeros(2)), (np.zeros((4, 2)), np.zeros(2), np.full(2, np.nan)),
    (np.zeros((4, 2)), np.full(2, np.nan), np.ones(2)), (np.zeros((0, 2)), np.zeros(2), np.ones(2)),
])
def test_bad_targets_are_refused(values, target, scales):
    with pytest.raises(InputError):
        reweight(values, target, scales)


# Draws

UNEQUAL = np.random.default_rng(4).dirichlet(np.full(30, 0.4)) + 1e-4
UNEQUAL /= UNEQUAL.sum()


@pytest.mark.parametrize("weights", [UNEQUAL, 7.0 * UNEQUAL, np.ones(17), np.eye(9)[4], np.array([0.0, 3.0, 0.0, 1.0])],
                         ids=["unequal", "of another sum", "equal", "one point", "with zeros"])
@pytest.mark.parametrize("count", [1, 17, 100, 1000])
def test_each_index_is_taken_floor_or_ceil_of_its_share(weights, count):
    share = count * weights / weights.sum()
    for seed in range(5):
        taken = systematic(weights, count, np.random.default_rng(seed))
        counts = np.bincount(taken, minlength=len(weights))
        assert len(taken) == count
        assert (counts >= np.floor(share - 1e-9)).all()
        assert (counts <= np.ceil(share + 1e-9)).all()


def extra_counts(weights, count, draws):
    """The sum over draws of how often an index is taken beyond the floor of its share."""
    rng = np.random.default_rng(5)
    total = sum(np.bincount(systematic(weights, count, rng), minlength=len(weights)) for _ in range(draws))
    return total - draws * np.floor(count * weights)


def surprise(extra, weights, count, draws):
    """The least p-value over the indices, times their number; each draw adds 0 or 1 with the share's fraction."""
    rates = np.clip(count * weights - np.floor(count * weights), 0.0, 1.0)
    return len(weights) * min(stats.binomtest(int(k), draws, rate).pvalue for k, rate in zip(extra, rates, strict=True))


@pytest.mark.nightly
def test_each_index_is_taken_as_often_as_its_weight_says():
    draws, count = 4000, 13
    extra = extra_counts(UNEQUAL, count, draws)
    assert surprise(extra, UNEQUAL, count, draws) > 1e-9
    # The planted fault: weights tilted by up to 10 per cent.
    tilted = UNEQUAL * np.linspace(0.9, 1.1, 30)
    assert surprise(extra_counts(tilted / tilted.sum(), count, draws), UNEQUAL, count, draws) < 1e-9


def test_drawn_points_are_distinct_and_in_the_cube():
    points = np.vstack([points_of_cube(20, 3), [[1.0, 1.0, 1.0], [-1.0, 1.0, -1.0]]])
    drawn = draw(points, np.ones(22), 500, 0.02, np.random.default_rng(7))
    assert drawn.shape == (500, 3)
    assert len(np.unique(drawn, axis=0)) == 500
    assert np.abs(drawn).max() <= 1.0


@pytest.mark.parametrize("jitter", [0.02, 0.3])
def test_jitter_shrinks_each_moment_by_its_known_factor(jitter):
    points, weights, index = points_of_cube(64, 3), np.ones(64), PRODUCTS.basis.index
    before, after = PRODUCTS.means(points), PRODUCTS.means(draw(points, weights, 64 * 500, jitter,
                                                                np.random.default_rng(9)))
    factor = np.exp(-0.5 * jitter**2 * (index**2).sum(axis=1))
    # All points are taken 500 times, so only the jitter is random: each value in [-1, 1], its deviation at most
    # 1 and at most jitter |r|.
    variance = np.minimum(1.0, jitter**2 * (index**2).sum(axis=1))
    tolerance = [oracles.bernstein_tolerance(v, 2.0, 64 * 500, 1e-9 / 15) for v in variance]
    assert (np.abs(after - factor * before) <= tolerance).all()
    # The planted fault, where it can be seen: moments kept as they are.
    assert jitter < 0.1 or (np.abs(after - before) > tolerance).any()


@pytest.mark.parametrize(("weights", "count", "jitter"), [
    (np.ones(3), 5, 0.1), (np.zeros(4), 5, 0.1), (np.array([1.0, -1.0, 1.0, 1.0]), 5, 0.1),
    (np.full(4, np.nan), 5, 0.1), (np.array([1.0, np.inf, 1.0, 1.0]), 5, 0.1), (np.ones(4), 0, 0.1),
    (np.ones(4), 2.0, 0.1), (np.ones(4), 5, -0.1), (np.ones(4), 5, np.nan),
])
def test_bad_draws_are_refused(weights, count, jitter):
    with pytest.raises(InputError):
        draw(points_of_cube(4, 2), weights, count, jitter, np.random.default_rng(1))


# Descent


@pytest.mark.daily(4)
@pytest.mark.parametrize("features", [PRODUCTS, WITH_WHOLE_ROWS], ids=["products", "with a whole-row function"])
@pytest.mark.parametrize("seed", [1, 2])
def test_attainable_targets_are_reached(features, seed):
    target = features.means(points_of_cube(50, 3, seed) ** 3)
    moved = descend(features, points_of_cube(200, 3, 10 + seed), target, np.full(features.K, 0.02), 300)
    assert moved.misfit < 1e-6
    assert moved.status == "converged"
    assert np.abs(moved.points).max() <= 1.0
    # What is reported is what the points have.
    assert moved.misfit == pytest.approx((((features.means(moved.points) - target) / 0.02) ** 2).mean(), rel=1e-9)


@pytest.mark.parametrize("iterations", [0, 1, 5])
@pytest.mark.parametrize("seed", [1, 2])
def test_the_misfit_is_never_above_that_of_the_start(iterations, seed):
    rng = np.random.default_rng(seed)
    start, target, scales = points_of_cube(60, 3, seed), rng.uniform(-1.0, 1.0, 15), rng.uniform(1e-3, 1.0, 15)
    moved = descend(PRODUCTS, start, target, scales, iterations)
    before = (((PRODUCTS.means(start) - target) / scales) ** 2).mean()
    assert moved.misfit <= before * (1.0 + 1e-12)
    assert moved.misfit < before or iterations == 0
    assert moved.iterations <= iterations
    assert moved.status == "iteration limit"
    assert np.abs(moved.points).max() <= 1.0




def test_the_same_start_gives_the_same_bits():
    start, target = points_of_cube(3000, 3), PRODUCTS.means(points_of_cube(50, 3, 8) ** 3)
    one, other = (descend(WITH_WHOLE_ROWS, start, np.append(target, 0.1), np.full(16, 0.01), 10) for _ in range(2))
    np.testing.assert_array_equal(one.points, other.points)


@pytest.mark.parametrize(("points", "target", "scales"), [
    (np.zeros((4, 2)), np.zeros(15), np.ones(15)), (np.zeros((0, 3)), np.zeros(15), np.ones(15)),
    (np.full((4, 3), np.nan), np.zeros(15), np.ones(15)), (np.zeros((4, 3)), np.zeros(14), np.ones(15)),
    (np.zeros((4, 3)), np.zeros(15), np.zeros(15)), (np.zeros((4, 3)), np.full(15, np.inf), np.ones(15)),
])
def test_bad_starts_and_targets_are_refused(points, target, scales):
    with pytest.raises(InputError):
        descend(PRODUCTS, points, target, scales)


@pytest.mark.parametrize("fixed", ["nothing", "a column", "some entries"])
def test_the_gradient_by_the_parameters_is_the_slope_of_what_they_change(fixed):
    rng = np.random.default_rng(0)
    points, values = rng.uniform(-0.9, 0.9, (6, 3)), rng.normal(size=(6, 3))
    free = np.ones((6, 3), dtype=bool)
    free[:, 1] = fixed != "a column"
    if fixed == "some entries":
        free[rng.random((6, 3)) < 0.4] = False
    chart = Angles(points, None if fixed == "nothing" else free)
    np.testing.assert_allclose(chart.points(chart.start), points, atol=1e-15)
    pulled, step = chart.pull(chart.start, values), 1e-6
    for place in np.ndindex(chart.start.shape):
        # Of the sum of values times points; where an entry is fixed nothing changes.
        ends = []
        for sign in (-1.0, 1.0):
            moved = chart.start.copy()
            moved[place] += sign * step
            ends.append(float((values * chart.points(moved)).sum()))
        assert pulled[place] == pytest.approx((ends[1] - ends[0]) / (2.0 * step), abs=1e-8)
    assert np.count_nonzero(pulled) == free.sum()


@pytest.mark.parametrize("profiles", [[], [[1.0, 0.3, 0.2]]])
def test_the_slope_of_the_misfit_is_that_of_its_values(profiles):
    rng, functions = np.random.default_rng(2), Features(ChebyshevBasis.graded(3, 12), profiles)
    points, scales = rng.uniform(-0.9, 0.9, (40, 3)), rng.uniform(0.01, 0.1, functions.K)
    objective = _Objective(functions, points, functions.means(points) + scales, scales, Angles(points))
    start, step = Angles(points).start.ravel(), 1e-5
    value, slope = objective(start)
    residual = (functions.means(points) - functions.means(points) - scales) / scales
    np.testing.assert_allclose(value, np.sqrt(40) * (residual @ residual) / functions.K, rtol=1e-9)
    for i in rng.choice(len(start), 12, replace=False):
        moved = step * np.eye(len(start))[i]
        np.testing.assert_allclose(slope[i], (objective(start + moved)[0] - objective(start - moved)[0]) / (2 * step),
                                   rtol=1e-4, atol=1e-6)
