import highspy
import numpy as np
import oracles
import pytest

from trigmech._parallel import THREADS_VARIABLE
from trigmech.errors import (
    InfeasibleError,
    InputError,
    NumericalError,
    SolverTimeoutError,
    UnboundedError,
)
from trigmech.functions import coordinate_ascent
from trigmech.functions.chebyshev import ChebyshevBasis
from trigmech.functions.grid import Grid
from trigmech.reconstruction.l1 import Problem, fit_l1
from trigmech.reconstruction.l1_cube import CubeProblem, CubeSearch, fit_cube
from trigmech.reconstruction.linear_program import RestrictedProgram, solve


def problem(d, K, m, kind="noisy", seed=0):
    """A basis, candidates, and a target: a mixture's means as they are, with noise, or far from any mixture's."""
    rng = np.random.default_rng([seed, d, K, m])
    basis = ChebyshevBasis.graded(d, K)
    points = rng.uniform(-1.0, 1.0, (m, d))
    exact = oracles.products_by_series(points, basis.index).T @ rng.dirichlet(np.ones(m))
    noise = {"exact": 0.0, "noisy": 0.05, "far outside": 3.0}[kind]
    return basis, points, exact + noise * rng.standard_normal(K)


def rounded(values, levels):
    return values if levels is None else np.ceil(values * levels - 0.5) / levels


def objective_of(basis, points, weights, target, costs=1.0, levels=None):
    features = rounded(oracles.products_by_series(points, basis.index), levels)
    return float(np.sum(costs * np.abs(weights @ features - target)))


def optimum_of(basis, points, target, costs=None, cap=None, levels=None):
    features = rounded(oracles.products_by_series(points, basis.index), levels)
    costs = np.ones(basis.K) if costs is None else costs
    return oracles.l1_fit_by_linprog(features, target, costs, cap)


SMALL = [(1, 9, 30), (4, 15, 50), (2, 1, 5)]
OPTIONS = {
    "plain": {},
    "costs": {"weights": True},
    "cap": {"max_weight": 0.21},
    "levels": {"levels": 7},
    "costs, cap and levels": {"weights": True, "max_weight": 0.21, "levels": 4},
}


# The optimum


@pytest.mark.daily(4)
@pytest.mark.parametrize("method", ["auto", "columns", "whole"])
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize(("d", "K", "m"), SMALL)
def test_the_optimum_is_linprogs(d, K, m, options, method):
    basis, points, target = problem(d, K, m)
    options = dict(options)
    if options.pop("weights", False):
        # One mean that costs nothing among others that cost from 0.1 to 10.
        options["weights"] = np.geomspace(0.1, 10.0, K) * (np.arange(K) != 1)
    fit = fit_l1(basis, points, target, method=method, **options)
    optimum, _ = optimum_of(basis, points, target, options.get("weights"), options.get("max_weight"),
                            options.get("levels"))
    assert fit.status == "optimal"
    assert fit.objective == pytest.approx(optimum, rel=1e-8, abs=1e-8)


@pytest.mark.daily("exact-None", "far outside-0.02")
@pytest.mark.parametrize("cap", [None, 0.02])
@pytest.mark.parametrize("kind", ["noisy", "exact", "far outside"])
def test_column_generation_reaches_the_optimum_of_the_whole_program(kind, cap):
    basis, points, target = problem(5, 60, 2000, kind)
    columns = fit_l1(basis, points, target, max_weight=cap, method="columns")
    whole = fit_l1(basis, points, target, max_weight=cap, method="whole")
    # A target that is met exactly has the optimum 0, of which only absolute errors make sense.
    assert columns.objective == pytest.approx(whole.objective, rel=1e-8, abs=1e-8 * basis.K)
    assert columns.iterations > 1


@pytest.mark.nightly  # By day thousands of points, above.
@pytest.mark.parametrize(("d", "N", "t"), [(3, 100, 3)])
def test_a_million_points_are_fitted_to_a_certified_gap(d, N, t):
    grid, basis = Grid(d, N), ChebyshevBasis.tensor(d, t)
    target = np.random.default_rng(N).uniform(-0.5, 0.5, basis.K)
    fit = fit_l1(basis, grid, target)
    atoms = np.flatnonzero(fit.weights)
    assert fit.weights.shape == (10**6,)
    assert objective_of(basis, grid.take(atoms), fit.weights[atoms], target) == pytest.approx(fit.objective, rel=1e-9)
    assert fit.gap <= 1e-8 * fit.objective
    # An optimum on a part of the candidates cannot be below the bound for all.
    part = grid.take(np.random.default_rng(1).integers(len(grid), size=3000))
    assert optimum_of(basis, part, target)[0] >= fit.objective - fit.gap


# Weights


@pytest.mark.daily(18)
@pytest.mark.parametrize("method", ["columns", "whole"])
@pytest.mark.parametrize("kind", ["noisy", "exact", "far outside"])
@pytest.mark.parametrize("cap", [None, 0.5, 0.03])
def test_weights_are_a_distribution_under_the_cap(cap, kind, method):
    basis, points, target = problem(2, 12, 49, kind)
    fit = fit_l1(basis, points, target, max_weight=cap, method=method)
    assert fit.weights.shape == (49,)
    assert (fit.weights >= 0).all()
    assert fit.weights.sum() == pytest.approx(1.0, abs=1e-12)
    assert cap is None or fit.weights.max() <= cap * (1.0 + 1e-6)


# The certificate


def refutes(fit, claimed):
    """Whether the certificate proves that no feasible weights have an objective as low as claimed."""
    return claimed < fit.objective - fit.gap


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize(("d", "K", "m"), [(1, 9, 30), (3, 10, 400)])
def test_the_certificate_refutes_a_lower_objective_and_never_the_optimum(d, K, m, options):
    basis, points, target = problem(d, K, m, "far outside")
    options = dict(options)
    costs = np.geomspace(0.1, 10.0, K) if options.pop("weights", False) else np.ones(K)
    levels = options.get("levels")
    fit = fit_l1(basis, points, target, weights=costs, method="columns", **options)
    optimum, _ = optimum_of(basis, points, target, costs, options.get("max_weight"), levels)
    assert fit.objective == pytest.approx(objective_of(basis, points, fit.weights, target, costs, levels), rel=1e-10)
    assert not refutes(fit, optimum * (1.0 + 1e-10))
    assert refutes(fit, 0.99 * fit.objective)


@pytest.fixture
def interrupt(monkeypatch):
    """Let a time limit pass after so many solves."""
    finish, calls = RestrictedProgram.solve, []

    def after(solves):
        monkeypatch.setattr(RestrictedProgram, "solve", lambda program, seconds: (
            calls.append(seconds) or (finish(program, seconds) if len(calls) <= solves else "time limit")))

    return after


@pytest.mark.nightly
@pytest.mark.parametrize("solves", [2])
def test_the_gap_of_interrupted_weights_is_a_true_bound(interrupt, solves):
    basis, points, target = problem(3, 60, 5000)
    optimum, _ = optimum_of(basis, points, target)
    interrupt(solves)
    fit = fit_l1(basis, points, target, method="columns")
    assert fit.status == "time limit"
    assert fit.weights.sum() == pytest.approx(1.0, abs=1e-12)
    assert fit.objective == pytest.approx(objective_of(basis, points, fit.weights, target), rel=1e-10)
    # The point of the gap: these weights are visibly not optimal, and it says by how much at most.
    assert fit.objective > 1.001 * optimum >= 1.001 * (fit.objective - fit.gap) * (1.0 - 1e-10)


@pytest.mark.daily(4)
@pytest.mark.parametrize("options", [{}, {"cap": 0.15}, {"levels": 5}, {"cap": 0.15, "levels": 5}], ids=str)
def test_any_dual_in_the_box_bounds_the_optimum_from_below_and_the_best_one_attains_it(options):
    basis, points, target = problem(2, 12, 45, "far outside")
    costs = np.linspace(0.5, 2.0, basis.K)
    certificate = Problem(basis, points, target, costs, options.get("cap"), options.get("levels"))
    optimum, best = optimum_of(basis, points, target, costs, **options)

    def bound(dual):
        return certificate.lower_bound(dual, certificate.price(dual))

    rng = np.random.default_rng(3)
    near = [np.clip(best + rng.normal(0.0, 0.1, basis.K), -costs, costs) for _ in range(100)]
    anywhere = [rng.uniform(-costs, costs) for _ in range(100)]
    assert max(map(bound, near + anywhere)) <= optimum * (1.0 + 1e-10)
    assert bound(np.clip(best, -costs, costs)) == pytest.approx(optimum, rel=1e-8)
    # A dual outside the box proves nothing: scaled up, it "refutes" the optimum.
    assert bound(1.5 * best) > 1.01 * optimum


# Outcomes


def model(cost, lower, upper, rows=(), **options):
    """HiGHS with a program in nonnegative-or-bounded columns and dense rows (lower, upper, coefficients)."""
    highs = highspy.Highs()
    highs.setOptionValue("output_flag", False)
    for name, value in options.items():
        assert highs.setOptionValue(name, value) == highspy.HighsStatus.kOk
    numbers = np.arange(len(cost), dtype=np.int32)
    for column in zip(lower, upper, strict=True):
        highs.addVar(*column)
    highs.changeColsCost(len(cost), numbers, np.asarray(cost, dtype=np.float64))
    for low, high, coefficients in rows:
        highs.addRow(low, high, len(cost), numbers, np.asarray(coefficients, dtype=np.float64))
    return highs


@pytest.mark.parametrize("presolve", ["on", "off"])
def test_solve_tells_infeasible_and_unbounded(presolve):
    with pytest.raises(InfeasibleError):
        solve(model([1.0, 1.0], [0.0, 0.0], [1.0, 1.0], [(3.0, 3.0, [1.0, 1.0])], presolve=presolve))
    with pytest.raises(UnboundedError):
        solve(model([-1.0, 0.0], [0.0, 0.0], [np.inf, np.inf], [(0.0, 0.0, [1.0, -1.0])], presolve=presolve))


def hard(**options):
    rng = np.random.default_rng(0)
    rows = [(1.0, np.inf, rng.uniform(0.1, 1.0, 30)) for _ in range(30)]
    return model(np.ones(30), np.zeros(30), np.full(30, np.inf), rows, presolve="off", **options)


def test_solve_tells_a_limit_of_iterations_or_time():
    assert solve(hard(simplex_iteration_limit=1)) is False
    assert solve(hard(), seconds=0.0) is False
    assert solve(hard()) is True


def test_solve_does_not_take_another_outcome_for_an_answer():
    with pytest.raises(NumericalError, match="status"):
        solve(highspy.Highs())


@pytest.mark.parametrize(("m", "cap"), [(4, 0.2), (49, 0.02)])
def test_a_cap_below_one_over_m_is_infeasible(m, cap):
    basis, points, target = problem(2, 6, m)
    with pytest.raises(InfeasibleError, match="at least 1/m"):
        fit_l1(basis, points, target, max_weight=cap)


def test_a_time_limit_that_passes_before_any_weights_is_an_error_that_names_it():
    basis, points, target = problem(6, 80, 4000)
    with pytest.raises(SolverTimeoutError, match="1e-09 s"):
        fit_l1(basis, points, target, time_limit=1e-9)


@pytest.mark.parametrize("of_the_cube", [False, True])
def test_an_answer_without_weights_is_another_method_s_turn_and_no_time_limit(monkeypatch, of_the_cube):
    basis, points, target = problem(2, 6, 40)

    def fitted():
        return (fit_cube(basis, target, points, rng=np.random.default_rng(0)) if of_the_cube
                else fit_l1(basis, points, target))

    weights, empty, found = RestrictedProgram.weights, [0], fitted()
    monkeypatch.setattr(RestrictedProgram, "weights", lambda self: (
        empty.append(1) or None) if len(empty) < 2 else weights(self))
    assert fitted().objective == pytest.approx(found.objective, abs=1e-6)
    assert len(empty) == 2
    monkeypatch.setattr(RestrictedProgram, "weights", lambda self: None)
    with pytest.raises(NumericalError, match="neither the simplex methods nor the interior point method"):
        fitted()


# Bad input

BAD = {
    "target with NaN": {"target": [0.0, np.nan, 0.0]},
    "short target": {"target": [0.0, 0.0]},
    "negative cost": {"weights": [1.0, -1.0, 1.0]},
    "too few costs": {"weights": [1.0]},
    "candidates outside the cube": {"points": [[0.0, 1.1], [0.0, 0.0]]},
    "candidates of another width": {"points": np.zeros((4, 3))},
    "grid of another width": {"points": Grid(3, 5)},
    "no candidates": {"points": np.zeros((0, 2))},
    "unknown method": {"method": "simplex"},
    "time limit 0": {"time_limit": 0},
    "cap 0": {"max_weight": 0.0},
    "levels 0": {"levels": 0},
}


@pytest.mark.parametrize("changes", BAD.values(), ids=BAD)
def test_bad_input_is_refused(changes):
    good = {"points": np.zeros((5, 2)), "target": np.zeros(3)}
    basis = ChebyshevBasis.graded(2, 3)
    fit_l1(basis, **good)
    with pytest.raises(InputError):
        fit_l1(basis, **{**good, **changes})


def test_a_whole_matrix_that_is_too_large_is_refused_and_the_other_method_named():
    with pytest.raises(InputError, match="columns"):
        fit_l1(ChebyshevBasis.tensor(2, 8), Grid(2, 1000), np.zeros(64), method="whole")


# The whole cube


def cube_problem(d, K, m=30, kind="noisy", seed=0):
    """A basis, a start, and a target: the means of three atoms that are not in the start, or these with noise."""
    rng = np.random.default_rng([seed, d, K, m])
    basis = ChebyshevBasis.graded(d, K)
    exact = rng.dirichlet(np.ones(3)) @ oracles.products_by_series(rng.uniform(-1.0, 1.0, (3, d)), basis.index)
    noise = {"exact": 0.0, "noisy": 0.3}[kind] * rng.standard_normal(K)
    return basis, rng.uniform(-1.0, 1.0, (m, d)), exact + noise * (np.arange(K) > 0)


def generator(seed=0):
    return np.random.default_rng(seed)


CUBES = [(1, 9), (2, 10), (5, 21)]


@pytest.mark.daily("1-9-exact", "2-10-exact")
@pytest.mark.parametrize("kind", ["exact", "noisy"])
@pytest.mark.parametrize(("d", "K"), CUBES)
def test_the_cube_is_at_least_as_good_as_its_start_and_the_objective_is_that_of_the_atoms(d, K, kind):
    basis, start, target = cube_problem(d, K, kind=kind)
    fit = fit_cube(basis, target, start, rng=generator())
    assert fit.status == "optimal"
    assert fit.objective <= fit_l1(basis, start, target).objective
    # The atoms of an exact target lie outside the start.
    assert kind == "noisy" or fit.objective <= 1e-6 * K
    assert fit.objective == pytest.approx(objective_of(basis, fit.points, fit.weights, target), rel=1e-9, abs=1e-12)
    assert fit.points.shape == (len(fit.weights), d)
    assert np.abs(fit.points).max() <= 1.0
    assert fit.weights.min() > 0.0
    assert fit.weights.sum() == pytest.approx(1.0, abs=1e-12)
    assert fit.bound_estimate <= fit.objective <= fit.bound_estimate + 1e-3 * max(fit.objective, 1e-3 * K)


@pytest.mark.daily(4)
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("K", [4, 12])
def test_one_column_is_the_same_as_the_whole_program_on_a_fine_grid(K, seed):
    basis, start, target = cube_problem(1, K, seed=seed)
    costs = np.geomspace(0.2, 2.0, K)
    fit = fit_cube(basis, target, start, costs, gap=1e-6, rng=generator())
    fine, _ = optimum_of(basis, np.cos(np.linspace(0.0, np.pi, 2001))[:, None], target, costs)
    # An atom split between its neighbours on the grid moves the mean of degree q by at most (q step)^2 / 8.
    short = float(costs @ basis.index[:, 0] ** 2) * (np.pi / 4000) ** 2 / 2
    assert fine - short <= fit.objective * (1.0 + 1e-9)
    assert fit.objective <= fine + 2e-6 * max(fine, 1e-3 * costs.sum())
    assert fit.bound_estimate <= fine * (1.0 + 1e-9) + 1e-12


@pytest.mark.nightly
def test_a_noise_level_ends_the_search_early():
    basis, start, target = cube_problem(5, 56, m=300)
    last = fit_cube(basis, target, start, rng=generator())
    level = 1.5 * last.objective
    fit = fit_cube(basis, target, start, noise_level=level, rng=generator())
    assert fit.status == "noise level"
    assert last.objective < fit.objective <= level
    assert fit.iterations < last.iterations
    assert fit.weights.sum() == pytest.approx(1.0, abs=1e-12)
    # One that is too low to be reached changes nothing.
    assert fit_cube(basis, target, start, noise_level=0.5 * last.objective, rng=generator()).status == "optimal"


@pytest.mark.parametrize("solves", [1, 6])
def test_what_a_time_limit_leaves_of_the_cube_is_a_distribution(interrupt, solves):
    basis, start, target = cube_problem(5, 56)
    interrupt(solves)
    fit = fit_cube(basis, target, start, rng=generator())
    assert fit.status == "time limit"
    assert fit.weights.min() > 0.0
    assert fit.weights.sum() == pytest.approx(1.0, abs=1e-12)
    assert fit.objective == pytest.approx(objective_of(basis, fit.points, fit.weights, target), rel=1e-9)


@pytest.mark.nightly
def test_the_cube_is_fitted_alike_on_one_thread_and_on_two(monkeypatch):
    basis, start, target = cube_problem(3, 20)
    fits = []
    for threads in "12":
        monkeypatch.setenv(THREADS_VARIABLE, threads)
        fits.append(fit_cube(basis, target, start, rng=generator(7)))
    np.testing.assert_array_equal(fits[0].points, fits[1].points)
    np.testing.assert_array_equal(fits[0].weights, fits[1].weights)
    assert fits[0].iterations == fits[1].iterations


def test_a_search_that_misses_the_maximum_is_refuted_by_what_it_finds_later(monkeypatch):
    # A search that returns its starts claims too high a bound, which must fall when later points contradict it.
    basis, start, target = cube_problem(3, 20)
    optimum = fit_cube(basis, target, start, gap=1e-6, rng=generator()).objective
    monkeypatch.setattr(CubeSearch, "ascend", lambda self, starts, y, tolerance: (starts, basis.combine(starts, y)))
    seen = []
    whole = CubeProblem.price_and_bound

    def watched(problem, dual, threshold, *arguments):
        entering = whole(problem, dual, threshold, *arguments)
        seen.append((problem.bound, float(dual @ problem.target) - threshold))
        return entering

    monkeypatch.setattr(CubeProblem, "price_and_bound", watched)
    fit = fit_cube(basis, target, start, rng=generator())
    assert fit.objective > optimum
    assert fit.bound_estimate <= fit.objective
    # Every time the bound is at most the restricted optimum, whose atoms are known.
    assert all(bound <= value * (1.0 + 1e-8) + 1e-8 for bound, value in seen)


def test_a_new_point_of_a_higher_price_refutes_the_bound_of_the_search_that_missed_it():
    basis = ChebyshevBasis.graded(2, 6)
    rng = np.random.default_rng(0)
    centre = rng.uniform(-1.0, 1.0, 6)
    target = 9.0 * centre
    found = CubeProblem(basis, rng.uniform(-1.0, 1.0, (5, 2)), target, None, 1e-6, rng)
    # As if a search had found nothing above the middle of the cube.
    missed = float(oracles.products_by_series(np.zeros((1, 2)), basis.index)[0] @ centre)
    found._raise_bound(centre, missed)
    assert found.bound == pytest.approx(float(centre @ target) - missed)
    ends = rng.uniform(-1.0, 1.0, (40, 2))
    prices = oracles.products_by_series(ends, basis.index) @ centre
    assert prices.max() > missed
    new = found._add(ends, centre, missed)
    assert len(new) > 0
    assert found.bound == pytest.approx(float(centre @ target) - prices.max())
    # And a lower one leaves it.
    found._add(ends[[prices.argmin()]], centre, -np.inf)
    assert found.bound == pytest.approx(float(centre @ target) - prices.max())


BAD_CUBE = {
    **{name: changes for name, changes in BAD.items() if set(changes) <= {"target", "weights", "time_limit"}},
    "start outside the cube": {"start": [[0.0, 1.1], [0.0, 0.0]]},
    "start of another width": {"start": np.zeros((4, 3))},
    "start that is a grid": {"start": Grid(2, 5)},
    "no start": {"start": np.zeros((0, 2))},
    "gap 1": {"gap": 1.0},
    "negative noise level": {"noise_level": -1.0},
}


@pytest.mark.parametrize("changes", BAD_CUBE.values(), ids=BAD_CUBE)
def test_bad_input_for_the_cube_is_refused(changes):
    good = {"start": np.zeros((5, 2)), "target": [1.0, 0.0, 0.0]}
    basis = ChebyshevBasis.graded(2, 3)
    fit_cube(basis, **good)
    with pytest.raises(InputError):
        fit_cube(basis, **{**good, **changes})


@pytest.mark.parametrize(("options", "said"), [
    ({"weights": -np.ones(10)}, "weights must be at least 0"),
    ({"max_weight": 0.0}, "max_weight must be positive, not 0.0"),
    ({"max_weight": 0.01}, "with max_weight = 0.01 the weights of 49 candidates cannot sum to 1; it must be at least "
                           "1/m = 0.0204082")])
def test_a_rule_is_told_with_its_numbers(options, said):
    basis, points, target = problem(2, 10, 49)
    with pytest.raises((InputError, InfeasibleError)) as refused:
        fit_l1(basis, points, target, **options)
    assert str(refused.value) == said


@pytest.mark.parametrize("degree", [1, 2, 3, 4, 9])
def test_the_best_place_on_a_line_is_that_of_a_fine_grid(degree):
    rng, N = np.random.default_rng(degree), 4 * (degree + 1)
    grid, fine = np.cos(np.arange(N + 1) * np.pi / N), np.cos(np.linspace(0.0, np.pi, 20_001))
    for k in range(60):
        c = np.concatenate([[0.0], rng.normal(size=degree)])
        # Sometimes the highest degree counts most, and sometimes it alone.
        c[-1] *= (1.0, 10.0, 1.0)[k % 3]
        c[:-1] *= (1.0, 1.0, 0.0)[k % 3]
        series = np.polynomial.chebyshev.Chebyshev(c)
        found = series(coordinate_ascent._best_abscissa(c, degree, grid, np.empty(N + 1)))
        assert found >= series(fine).max() - 1e-12


@pytest.mark.parametrize("side", [1, -1])
@pytest.mark.parametrize("degree", [3, 4, 9, 10])
def test_a_best_place_nearer_to_an_end_than_to_the_next_of_the_grid_is_found(degree, side):
    N = 4 * (degree + 1)
    grid = np.cos(np.arange(N + 1) * np.pi / N)
    for part in (0.05, 0.3, 0.45):
        # The end is the best place of the grid, but no maximum: the parabola's top lies between it and the next.
        top = side * np.cos(part * np.pi / N)
        c = np.zeros(degree + 1)
        # -(x - top)^2 without its constant.
        c[1:3] = 2.0 * top, -0.5
        values = np.polynomial.chebyshev.chebval(grid, c)
        assert values.argmax() == (0 if side > 0 else N)
        assert coordinate_ascent._best_abscissa(c, degree, grid, np.empty(N + 1)) == pytest.approx(top, abs=1e-9)
        # (x - top)^2 (x - 1.2), seen from the other side: at both ends it rises towards the same side.
        cubic = np.polynomial.polynomial.polyfromroots([-abs(top), -abs(top), 1.2]) * [1.0, -side, 1.0, -side]
        c = np.resize([0.0], degree + 1)
        c[:4] = np.polynomial.chebyshev.poly2cheb(cubic)
        c[0] = 0.0
        assert coordinate_ascent._best_abscissa(c, degree, grid, np.empty(N + 1)) == pytest.approx(top, abs=1e-9)
