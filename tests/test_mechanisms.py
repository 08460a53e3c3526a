import math

import numpy as np
import oracles
import pytest

from trigmech._parallel import THREADS_VARIABLE
from trigmech.errors import BudgetError, InputError
from trigmech.functions.chebyshev import ChebyshevBasis
from trigmech.functions.features import Features
from trigmech.measurement.released import Axes, Release
from trigmech.mechanisms.default import default_mechanism
from trigmech.mechanisms.moment import MomentMechanism
from trigmech.mechanisms.table import TableMechanism
from trigmech.planning.design import Regime
from trigmech.privacy.budget import Budget
from trigmech.privacy.ledger import Ledger
from trigmech.results import load
from trigmech.schema.schema import Column, Schema
from trigmech.synthesis import synthesize
from trigmech.thesis import mechanisms
from trigmech.thesis.candidates import ellipsoid_points
from trigmech.thesis.mechanisms import ImprovedTrigI, ImprovedTrigII, TrigI, TrigII
from trigmech.thesis.sizes import Sizes
from trigmech.workload import GaussianKernels

PURE, APPROXIMATE = Budget(1.0), Budget(1.0, 1e-3)
SMALL = {
    TrigI: {"degree": 3, "grid": 8},
    TrigII: {"degree": 3, "grid": 8},
    ImprovedTrigI: {"n_candidates": 150, "rank": 2},
    ImprovedTrigII: {"n_candidates": 150, "rank": 2},
}
each_class = pytest.mark.parametrize("cls", SMALL, ids=lambda cls: cls.__name__)


def small(cls, **options):
    return cls(**{**SMALL[cls], **options})


def table(n=80, d=2, seed=0):
    return np.random.default_rng(seed).beta(2.0, 4.0, (n, d)) * 2.0 - 1.0


def run(mechanism, X=None, budget=APPROXIMATE, seed=1):
    X = table() if X is None else X
    return synthesize(X, Schema.cube(X.shape[1]), budget, mechanism, np.random.default_rng(seed))


def same(first, second):
    """Whether two runs agree to the bit in all that is random."""
    pairs = [(first.release.means, second.release.means), (first.distribution.points, second.distribution.points),
             (first.distribution.weights, second.distribution.weights)]
    return all(a.shape == b.shape and a.tobytes() == b.tobytes() for a, b in pairs)


# The first line of the algorithms


@pytest.mark.parametrize(("n", "d", "K", "delta", "expected"), [
    # n^(1/6) = 10: all are powers of ten, which rounding must not raise.
    (10**6, 1, 4, None, (10, 10**4, 10**11, 10**5)),
    # n^(1/7) = 2.68, n^(3/7) = 19.3, n^(5/7) = 138.95.
    (1000, 2, 3, None, (3, 20, math.ceil(1000 ** (11 / 7)), 139)),
    # ln(1/delta) = 4 and n^2/4 = 2^10, so the unit is 2^(10/5) = 4.
    (64, 1, 1, math.exp(-4.0), (4, 4, 4**5, 4**2)),
    (569, 30, 4, 1e-3, tuple(math.ceil(569 ** (2 * e / 98) * math.log(1e3) ** (-e / 98)) for e in (1, 4, 69, 34))),
])
def test_sizes_are_the_printed_formulas(n, d, K, delta, expected):
    sizes = Sizes.of(n, d, K, delta)
    assert (sizes.degree, sizes.grid, sizes.rows, sizes.levels) == expected


@pytest.mark.parametrize("delta", [None, 1e-3])
@pytest.mark.parametrize("sigma", [2, 4, 6, 8, 10])
@pytest.mark.parametrize(("n", "d"), [(1993, 101), (100_000, 8), (2126, 28), (19_870, 28), (5875, 19), (569, 30)],
                         ids=["CRM", "CSN", "CTG", "PAM", "PKS", "WDBC"])
def test_the_formulas_leave_degree_one_alone_on_the_data_sets_of_the_thesis(n, d, sigma, delta):
    assert Sizes.of(n, d, sigma**2, delta).degree == 2


# Runs


@pytest.mark.daily(8)
@pytest.mark.parametrize("calibration", ["published", "rigorous"])
@each_class
def test_every_mechanism_gives_a_distribution_of_the_cube_with_a_certified_gap(cls, calibration):
    synthesis = run(small(cls, calibration=calibration))
    points, weights = synthesis.distribution.points, synthesis.distribution.weights
    assert weights.sum() == pytest.approx(1.0, abs=1e-12)
    assert (weights > 0).all()
    assert np.abs(points).max() <= 1.0
    # All atoms are points of the thesis's grid A^d.
    N = 8 if cls in (TrigI, TrigII) else 100
    np.testing.assert_allclose((points + 1.0) * N / 2.0 % 1.0, 0.5, atol=1e-9)
    assert synthesis.fit.status == "optimal"
    assert 0.0 <= synthesis.fit.gap <= 1e-8 * max(synthesis.fit.objective, 1e-3 * synthesis.release.basis.K)


@pytest.mark.parametrize("cls", [ImprovedTrigI, ImprovedTrigII])
@pytest.mark.parametrize("d", [2, 5])
def test_a_basis_has_one_function_and_two_for_each_column_unless_another_size_is_asked_for(cls, d):
    assert 2 * d + 1 == run(small(cls), table(d=d)).release.basis.K
    assert d + 3 == run(small(cls, n_basis=d + 3), table(d=d)).release.basis.K


@pytest.mark.parametrize("mechanism", [small(TrigI, levels=None), small(ImprovedTrigII),
                                       MomentMechanism(points=40, iterations=1), TableMechanism(points=40)],
                         ids=lambda mechanism: type(mechanism).__name__)
def test_only_a_linear_program_has_an_objective_and_a_gap_and_only_other_fits_have_a_misfit(mechanism, tmp_path):
    made = run(mechanism)
    made.save(tmp_path / "made.tm")
    for fit in (made.fit, load(tmp_path / "made.tm").fit):
        if isinstance(mechanism, TrigI | ImprovedTrigII):
            assert fit.misfit is None
            # The smallest sum of distances, by plain sums over the weighted points; the file keeps both numbers.
            reached = np.abs(fit.weights @ made.release.basis.evaluate(fit.points) - fit.target).sum()
            assert fit.objective == pytest.approx(reached, rel=1e-9)
            assert (fit.objective, fit.gap) == (made.fit.objective, made.fit.gap)
        else:
            assert (fit.objective, fit.gap) == (None, None)
            assert fit.misfit == made.fit.misfit >= 0.0


@pytest.mark.parametrize("levels", [None, 40])
@each_class
def test_the_fit_is_of_the_released_means_rounded_if_asked(cls, levels):
    synthesis = run(small(cls, levels=levels))
    features = oracles.products_by_series(synthesis.distribution.points, synthesis.release.basis.index)
    target = synthesis.release.means
    if levels is not None:
        # Values at nodes that are ties of the rounding would depend on the last bit.
        scaled = features * levels
        assert np.abs(scaled % 1.0 - 0.5).min() > 1e-9
        features, target = np.rint(scaled) / levels, np.clip(np.rint(target * levels), -levels, levels) / levels
    error = np.abs(synthesis.distribution.weights @ features - target).sum()
    assert error == pytest.approx(synthesis.fit.objective, rel=1e-9)


@pytest.mark.parametrize("budget", [Budget(0.3), PURE, APPROXIMATE, Budget(5.0, 1e-6)], ids=str)
@each_class
def test_rigorous_runs_prove_their_budget(cls, budget):
    if cls.approximate and budget.delta == 0:
        with pytest.raises(BudgetError, match="delta"):
            run(small(cls), budget=budget)
        return
    ledger = run(small(cls), budget=budget).ledger
    assert ledger.enforced
    assert ledger.claim is None
    assert ledger.guarantee.delta == budget.delta
    assert ledger.guarantee.epsilon <= budget.epsilon
    if cls.approximate or budget.delta == 0:
        assert ledger.guarantee.epsilon == pytest.approx(budget.epsilon, rel=1e-4)


@pytest.mark.parametrize("calibration", ["published", "rigorous"])
@pytest.mark.parametrize("cls", [TrigI, ImprovedTrigI])
def test_pure_mechanisms_draw_laplace_noise_whatever_delta(cls, calibration):
    for budget in (PURE, APPROXIMATE):
        charges = run(small(cls, calibration=calibration), budget=budget).ledger.charges
        assert {charge.law for charge in charges} == {"laplace"}
        assert math.isfinite(sum(charge.pure_epsilon for charge in charges))


@pytest.mark.parametrize(("cls", "budget"), [(TrigI, PURE), (TrigII, APPROXIMATE), (ImprovedTrigI, PURE),
                                             (ImprovedTrigII, APPROXIMATE)])
def test_published_runs_carry_the_thesis_claim_apart_from_what_is_proved(cls, budget):
    ledger = run(small(cls, calibration="published"), budget=budget).ledger
    assert not ledger.enforced
    assert ledger.claim == budget
    assert ledger.guarantee != budget
    assert "not a guarantee" in str(ledger)
    assert str(ledger.guarantee) in str(ledger)


@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 7.0])
def test_algorithm_4_at_t_2_is_exactly_epsilon_private_as_published(d, epsilon):
    ledger = run(TrigI(degree=2, grid=5, calibration="published"), table(50, d), Budget(epsilon)).ledger
    assert ledger.guarantee.epsilon == pytest.approx(epsilon, rel=1e-6)


def test_the_default_mechanism_is_that_of_tables_and_for_smooth_queries_that_of_moments():
    for budget, laws in ((PURE, {"laplace", "linf"}), (APPROXIMATE, {"gaussian"})):
        synthesis = run(None, budget=budget)
        assert {charge.law for charge in synthesis.ledger.charges} <= laws
        assert 0.999 * budget.epsilon <= synthesis.ledger.guarantee.epsilon <= budget.epsilon
        made = run(TableMechanism(), budget=budget)
        assert np.array_equal(synthesis.means, made.means)
        assert np.array_equal(synthesis.distribution.points, made.distribution.points)
        assert isinstance(default_mechanism(GaussianKernels(2, seed=0)), MomentMechanism)


@each_class
def test_a_seed_repeats_a_run_and_another_one_does_not(cls):
    first, again, other = (run(small(cls), seed=seed) for seed in (1, 1, 2))
    assert same(first, again)
    assert not np.isclose(first.release.means[1:], other.release.means[1:], rtol=0, atol=1e-9).any()
    assert first.sample(5, np.random.default_rng(3)).tolist() == again.sample(5, np.random.default_rng(3)).tolist()


@each_class
def test_the_number_of_threads_does_not_change_a_bit(cls, monkeypatch):
    runs = []
    # So many rows that the moments are summed in several chunks.
    X = table(70_000)
    for threads in ("1", "2"):
        monkeypatch.setenv(THREADS_VARIABLE, threads)
        runs.append(run(small(cls), X))
    assert same(*runs)


@each_class
def test_a_real_run_is_not_repeatable_and_says_so(cls):
    X = table(20)
    first, second = (synthesize(X, Schema.cube(2), APPROXIMATE, small(cls)) for _ in range(2))
    # 53-bit noise that agrees has a probability far below 1e-9.
    assert not np.isin(first.release.means[1:], second.release.means[1:]).any()
    assert not first.ledger.simulated
    assert "NOT PRIVATE" not in str(first.ledger)
    assert "NOT PRIVATE" in str(run(small(cls)).ledger)


# Candidates


def released(directions, values):
    d = len(directions)
    axes = Axes(directions, directions * values, directions)
    return Release.of_moments(50, Features(ChebyshevBasis.graded(d, 3)), np.ones(3), np.full(3, 0.1),
                              mean=np.full(d, 0.2), axes=axes)


@pytest.mark.parametrize("options", [{}, {"draw": "published"}, {"background": 0.25}, {"grid": 6}], ids=str)
def test_candidates_are_a_function_of_the_release_and_the_generator(options):
    given = released(np.eye(4)[:, :2], np.array([0.04, 0.01]))
    first, again, other = (ellipsoid_points(given, 300, 2.0, np.random.default_rng(seed), **options)
                           for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)
    assert first.shape == (300, 4)
    on_the_plane = (first[:, 2:] == (0.2 if "grid" not in options else 1 / 6)).all(axis=1)
    assert on_the_plane.mean() == 1.0 - options.get("background", 0.0)


def test_rayleigh_estimates_are_cut_to_the_largest_variance_that_a_cube_has():
    given = released(np.eye(4)[:, :1], np.array([1e6]))
    for eigenvalues, inside in (("rayleigh", True), ("norm", False)):
        points = ellipsoid_points(given, 400, 0.2, np.random.default_rng(1), eigenvalues=eigenvalues)
        # Semi-axis 0.2 sqrt(4), or 0.2 * 1000 of which nearly all is clipped.
        assert (np.abs(points[:, 0] - 0.2).max() <= 0.4) == inside


@pytest.mark.parametrize(("options", "scale"), [
    ({}, math.sqrt(3 + 2)), ({"scale": 0.7}, 0.7), ({"rank": 1}, math.sqrt(3))])
def test_the_semi_axes_are_those_with_which_uniform_points_have_the_released_covariance(options, scale, monkeypatch):
    asked = []
    monkeypatch.setattr(mechanisms, "ellipsoid_points", lambda release, count, scale, rng, **options: asked.append(
        (count, scale, options)) or rng.uniform(-1.0, 1.0, (count, 3)))
    mechanism = ImprovedTrigII(**{"rank": 3, "n_candidates": 60, "background": 0.25, **options})
    X = np.random.default_rng(0).uniform(-1.0, 1.0, (300, 3))
    synthesize(X, Schema.cube(3), Budget(1.0, 1e-3), mechanism, np.random.default_rng(1))
    ((count, found, others),) = asked
    assert (count, found) == (60, pytest.approx(scale))
    assert others == {"draw": "uniform", "eigenvalues": "rayleigh", "background": 0.25, "grid": 100}


def test_candidates_need_axes():
    with pytest.raises(InputError, match="axes"):
        ellipsoid_points(Release.of_moments(9, ChebyshevBasis.graded(2, 3), np.ones(3), np.full(3, 0.1)), 5, 1.0,
                         np.random.default_rng(0))


# Samples


def test_the_thesis_formula_gives_the_default_rows_up_to_a_limit():
    X = table(60)
    assert run(TrigI(degree=2, grid=4, smoothness=2), X).sample().shape == (math.ceil(60 ** (9 / 6)), 2)
    assert run(small(ImprovedTrigI, rows=11), X).sample().shape == (11, 2)
    too_many = run(TrigI(degree=2, grid=4, rows=10**9), X)
    with pytest.raises(InputError, match="give size"):
        too_many.sample()
    assert too_many.sample(3).shape == (3, 2)


# Bad options. None may cost anything: all is known before the first charge.

COMMON = {"smoothness": [0, None], "grid": [0, 2.0], "levels": [0, True], "rows": [0, 1.5], "calibration": ["exact"],
          "max_weight": [0.0, np.nan], "time_limit": [0.0, "1"]}
FULL = {"degree": [0, None], **COMMON}
ELLIPSOID = {"degree": [0, 2.5], "n_candidates": [0, "formula"], "n_basis": [0, "x"], "rank": [0, 1.5],
             "iterations": [0, None], "scale": [0.0, np.inf], "ellipsoid": ["ball"], "eigenvalues": ["true"],
             "background": [-0.1, np.nan], "ties": ["first"], **COMMON}
BAD = [(cls, name, value) for cls, options in ((TrigII, FULL), (ImprovedTrigI, ELLIPSOID))
       for name, values in options.items() for value in values]


@pytest.mark.parametrize(("cls", "name", "value"), BAD, ids=lambda part: getattr(part, "__name__", repr(part)))
def test_a_bad_option_is_refused_before_anything_is_charged(cls, name, value, monkeypatch):
    charged = []
    monkeypatch.setattr(Ledger, "charge", lambda _, charge: charged.append(charge))
    with pytest.raises(InputError, match=name if name not in ("grid", "degree", "n_basis") else None):
        run(small(cls, **{name: value}))
    assert charged == []


@pytest.mark.parametrize("cls", [TrigI, TrigII])
def test_a_full_grid_in_many_columns_is_refused_and_the_alternative_named(cls):
    with pytest.raises(InputError, match="ImprovedTrig"):
        run(cls(), table(60, 30))


@pytest.mark.parametrize("cls", [ImprovedTrigI, ImprovedTrigII])
def test_a_basis_larger_than_the_degrees_allow_is_refused(cls):
    assert run(small(cls, degree=2, n_basis=4)).release.basis.K == 4
    with pytest.raises(InputError, match="there are 4"):
        run(small(cls, degree=2, n_basis=5))


# Awkward tables


@each_class
def test_values_outside_the_bounds_count_as_the_bounds(cls):
    X = table() * 4.0
    assert np.abs(X).max() > 2.0
    assert same(run(small(cls), X), run(small(cls), np.clip(X, -1.0, 1.0)))


SECRET = 7.0 + float("0." + oracles.SECRET_DIGITS)


def test_neither_a_synthesis_nor_its_ledger_shows_a_record():
    X = np.full((4, 2), SECRET)
    synthesis = synthesize(X, Schema([Column("a", 0.0, 10.0), Column("b", 0.0, 10.0)]), PURE, small(ImprovedTrigI),
                           np.random.default_rng(0))
    shown = f"{synthesis!r} {synthesis} {synthesis.ledger} {synthesis.library!r} {synthesis.release!r}"
    assert oracles.SECRET_DIGITS not in shown


def reachable_arrays(value, seen):
    """Yield every array that can be reached from an object through attributes, containers and views."""
    if id(value) in seen or isinstance(value, type(np)):
        return
    seen.add(id(value))
    if isinstance(value, np.ndarray):
        yield value
        yield from reachable_arrays(value.base, seen)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from reachable_arrays(each, seen)
    elif hasattr(value, "__dict__"):
        for each in vars(value).values():
            yield from reachable_arrays(each, seen)


def test_a_synthesis_keeps_nothing_of_the_table():
    X = np.random.default_rng(8).uniform(-1, 1, (40, 2))
    synthesis = synthesize(X, Schema.cube(2), PURE, small(ImprovedTrigI), np.random.default_rng(1))
    kept = list(reachable_arrays(synthesis, set()))
    assert any(np.shares_memory(array, synthesis.distribution.points) for array in kept)
    assert not any(np.shares_memory(array, X) for array in kept)
    assert any(np.shares_memory(array, X) for array in reachable_arrays([X[:0]], set()))  # the fault it looks for


@pytest.mark.parametrize("mechanism", [ImprovedTrigI, ImprovedTrigII])
@pytest.mark.parametrize(("rank", "iterations"), [(1, 1), (2, 1), (3, 2)])
def test_as_many_axes_are_released_by_as_many_iterations_as_were_asked_for(mechanism, rank, iterations):
    budget = Budget(5.0, 1e-3 if mechanism is ImprovedTrigII else 0.0)
    table = np.random.default_rng(0).uniform(-1.0, 1.0, (60, 4))
    made = synthesize(table, Schema.cube(4), budget, mechanism(rank=rank, iterations=iterations, n_candidates=50),
                      np.random.default_rng(1))
    axes = made.release.axes
    assert [each.shape for each in (axes.directions, axes.images, axes.previous)] == [(4, rank)] * 3
    np.testing.assert_allclose(axes.directions.T @ axes.directions, np.eye(rank), atol=1e-12)
    assert made.ledger.charges[-1].count == iterations


@pytest.mark.parametrize(("mechanism", "degree"), [(TrigI, 2), (TrigI, 4), (TrigII, 3)])
def test_products_of_chebyshev_polynomials_are_of_the_degree_that_was_asked_for(mechanism, degree):
    budget = Budget(5.0, 1e-3 if mechanism is TrigII else 0.0)
    made = synthesize(np.zeros((30, 2)), Schema.cube(2), budget, mechanism(degree=degree, grid=5),
                      np.random.default_rng(1))
    assert degree**2 == made.design.measured.features.K


@pytest.mark.parametrize(("approximate", "delta", "law", "norm"), [
    (True, 1e-6, "gaussian", "L2"), (False, 1e-6, "laplace", "L1"), (True, 0.0, "laplace", "L1")])
def test_the_kind_of_noise_follows_from_delta_unless_a_mechanism_is_pure(approximate, delta, law, norm):
    found = Regime.of(Budget(1.0, delta), approximate).charge("moments", 0.1, "here")
    assert (found.law, found.norm) == (law, norm)
    account = Ledger(Budget(1.0, delta))
    account.charge(found)
    assert 0.99 < account.proved_epsilon <= 1.0
