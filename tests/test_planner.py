"""Designs: what they cover, what they charge, what rows a search finds against them, and what error they promise."""

import math
from fractions import Fraction
from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest
from releases import blocks, release_moments
from scipy import stats

from trigmech.errors import BudgetError, InputError
from trigmech.functions.chebyshev import ChebyshevBasis
from trigmech.functions.features import Features
from trigmech.measurement.moments import PrivateMoments
from trigmech.mechanisms.moment import default_workload
from trigmech.planning import search
from trigmech.planning.error_model import unmeasured_variances
from trigmech.planning.search import MAX_FUNCTIONS, plan_moments
from trigmech.privacy.accounting import gaussian_mu
from trigmech.privacy.budget import Budget
from trigmech.privacy.ledger import Ledger
from trigmech.privacy.noise import SimulatedNoise
from trigmech.queries.functions import PROFILE_DEGREE, rounding, roundings
from trigmech.workload import GaussianKernels, Mixture, PairKernels, Polynomials, SecondMoments, Smooth


@cache
def design_of(n, d, epsilon, delta, workload=None, **options):
    workload = default_workload(d) if workload is None else workload
    return plan_moments(n, d, Budget(epsilon, delta), workload, **options)


# Tiny and huge in every respect.
SETTINGS = [
    (2, 1, 1.0, 1e-6), (10**9, 1, 0.1, 0.0), (50, 1, 1e4, 1e-6), (50, 1, 1e4, 0.0), (2, 2, 1e-3, 1e-12),
    (2, 2, 1e-5, 0.0), (20, 2, 1.0, 0.9), (10**6, 2, 1e-3, 1e-300), (300, 3, 5.0, 0.0), (569, 30, 1.0, 1e-3),
    (10**7, 30, 8.0, 0.0), (2, 101, 1.0, 1e-6), (10**9, 101, 50.0, 0.0), (10**9, 101, 0.1, 1e-6),
]  # fmt: skip
each_setting = pytest.mark.parametrize("setting", SETTINGS, ids=str)


@pytest.mark.nightly
@each_setting
def test_blocks_cover_all_functions_once_and_in_order(setting):
    design = design_of(*setting)
    covered = [r for block in blocks(design) for r in range(design.features.K)[block.members]]
    assert covered == list(range(design.features.K))
    assert all((block.weights > 0).all() for block in blocks(design))
    assert design.features.K <= MAX_FUNCTIONS
    assert np.isfinite(design.deviations).all()
    assert (design.deviations > 0).all()
    # The reconstruction reads the columns' moments degree by degree.
    d, p = setting[1], design.degree
    singles = [np.roll(np.eye(1, d, dtype=int)[0] * a, j).tolist() for a in range(1, p + 1) for j in range(d)]
    assert design.features.basis.index[: p * d].tolist() == singles
    assert ((design.features.basis.index[p * d :] > 0).sum(axis=1) > 1).all()
    np.testing.assert_array_equal(design.index.degrees, design.features.basis.index)
    assert design.index.K == design.features.K


@pytest.mark.daily(4)
@each_setting
def test_the_charges_spend_the_budget_and_no_more(setting):
    *_, epsilon, delta = setting
    ledger = Ledger(Budget(epsilon, delta))
    for block in blocks(design_of(*setting)):
        ledger.charge(block.charge)
    assert ledger.proved_epsilon <= epsilon
    if delta > 0:
        (charge,) = ledger.charges
        assert charge.mu >= 0.99999 * gaussian_mu(ledger.budget)
    assert ledger.proved_epsilon >= 0.999 * epsilon
    with pytest.raises(BudgetError, match="over the budget"):
        ledger.charge(blocks(design_of(*setting))[0].charge)


# A search for rows that move the released vector further than is charged

SEARCHED = {
    "two columns": (2, 1.0, 1e-6, None, {}),
    "two columns, pure": (2, 1.0, 0.0, None, {}),
    "three columns, all kinds": (3, 1.0, 1e-6, None, {"triples": True, "whole_row": True}),
    "three columns, all kinds, pure": (3, 1.0, 0.0, None, {"triples": True, "whole_row": True}),
    "one column and whole rows, pure": (1, 1.0, 0.0, None, {"whole_row": True}),
    "second moments": (5, 1.0, 1e-6, SecondMoments(5), {}),
    "kernels of five columns": (5, 1.0, 1e-6, None, {"pair_degree": 2, "triples": True}),
    "means alone": (7, 1.0, 0.0, None, {"degree": 1, "pair_degree": 0, "triples": False, "whole_row": False}),
    "equal weights, pure": (4, 1.0, 0.0, None, {"degree": 3, "pair_degree": 2, "weighted": False}),
    "mostly the whole row": (12, 1.0, 1e-6, GaussianKernels(12, seed=0, widths=(2.0,)),
                             {"pair_degree": 0, "whole_row": True}),
}
ROWS = 1000
NORMS = {"gaussian": 2, "laplace": 1, "linf": math.inf}


def searched_design(name):
    d, epsilon, delta, workload, options = SEARCHED[name]
    return design_of(ROWS, d, epsilon, delta, workload, **options)


def starts(d, rng):
    """Opposite corners, the centre and a corner, corners that differ in half of the columns, anything."""
    for k in range(10):
        corner = np.pi * rng.integers(2, size=d)
        half = np.where(rng.permutation(d) < (d + 1) // 2, np.pi - corner, corner)
        yield np.array([(corner, np.pi - corner), (corner, np.full(d, np.pi / 2)), (corner, half),
                        np.pi * rng.random((2, d))][k % 4])


def furthest(name):
    """How far each block's weighted vector moves at most, times n, as far as coordinate ascent finds."""
    design = searched_design(name)
    rng, grid = np.random.default_rng(3), np.linspace(0.0, np.pi, 25)
    found = np.zeros(len(blocks(design)))
    # One search for each vector; of the many blocks in the max norm, for some.
    for b in range(len(blocks(design)))[:: max(1, len(blocks(design)) // 6)]:
        block = blocks(design)[b]
        power = NORMS[block.charge.law]

        def weighted(angles, block=block):
            return design.features.evaluate(np.cos(angles))[:, block.members] * block.weights

        for pair in starts(design.features.d, rng):
            before, now = -1.0, 0.0
            while now > before * (1 + 1e-9):
                before = now
                for side in (0, 1):
                    other = weighted(pair[1 - side : 2 - side])
                    for j in range(design.features.d):
                        rows = np.repeat(pair[side][None], len(grid) + 1, axis=0)
                        rows[1:, j] = grid
                        moved = np.linalg.norm(weighted(rows) - other, power, axis=1)
                        pair[side], now = rows[moved.argmax()], float(moved.max())
            found[b] = max(found[b], now)
    return found


@pytest.mark.daily("two columns", "two columns, pure", "one column and whole rows, pure",
                   "mostly the whole row", "means alone")
@pytest.mark.parametrize("name", SEARCHED)
def test_no_rows_found_move_the_released_vector_further_than_is_charged(name):
    charged = ROWS * np.array([block.charge.sensitivity for block in blocks(searched_design(name))])
    found = furthest(name)
    assert (found <= charged).all()
    # The planted fault, a bound divided by 1.5, is refuted for every design.
    assert (found > charged / 1.5).any()


def test_the_searched_designs_are_of_every_law_and_kind():
    designs = [searched_design(name) for name in SEARCHED]
    assert {block.charge.law for design in designs for block in blocks(design)} == set(NORMS)
    assert any(design.triples and design.whole_row and design.pair_degree for design in designs)


# Scales


def scale_p(design, reported, numbers=9000):
    """Two-sided p-value of the reported standard deviations, in released vectors of zero data, by their exact laws."""
    K, rng = design.features.K, np.random.default_rng(11)
    zero = PrivateMoments(ROWS, np.zeros(K), np.empty(0), np.empty((0, 0)), design.features)
    noise = SimulatedNoise(rng)
    ledgers = [Ledger(Budget(1.0), enforced=False) for _ in range(numbers // K + 1)]
    z = np.array([release_moments(zero, design.features, design, ledger, noise).means for ledger in ledgers])
    z /= reported
    law = blocks(design)[0].charge.law
    if law == "gaussian":
        statistic, null = (z**2).sum(), stats.chi2(z.size)
    elif law == "laplace":
        statistic, null = np.abs(z).sum() * math.sqrt(2.0), stats.gamma(z.size)
    else:
        # The largest entry of a block of size k is a Gamma(k) number of scales, the deviation of an entry is
        # sqrt((k+1)(k+2)/3) scales.
        statistic = sum(np.abs(z[:, each.members]).max(axis=1).sum()
                        * math.sqrt((len(each.weights) + 1) * (len(each.weights) + 2) / 3) for each in blocks(design))
        null = stats.gamma(z.size)
    return 2.0 * min(null.cdf(statistic), null.sf(statistic))


# Those of all kinds have the same two laws.
@pytest.mark.daily(3)
@pytest.mark.parametrize("name", ["two columns", "two columns, pure", "means alone",
                                  pytest.param("three columns, all kinds, pure", marks=pytest.mark.nightly)])
def test_scales_are_the_standard_deviations_of_what_is_released(name):
    design = searched_design(name)
    assert scale_p(design, design.deviations) > 1e-9
    # The planted fault.
    assert scale_p(design, design.deviations * 1.1) < 1e-9


# Choices


@pytest.mark.nightly  # By day the golden runs repeat designs.
def test_a_design_repeats():
    for delta in (0.0, 1e-6):
        first, second = (plan_moments(700, 4, Budget(1.0, delta), default_workload(4)) for _ in range(2))
        assert first.features.basis.index.tolist() == second.features.basis.index.tolist()
        assert first.deviations.tobytes() == second.deviations.tobytes()
        assert first.predicted == second.predicted


@pytest.mark.nightly
@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("d", [1, 3, 30])
def test_more_rows_or_more_epsilon_never_predict_a_larger_error(d, delta):
    def score(n, epsilon):
        return np.log(list(design_of(n, d, epsilon, delta).predicted.values())).mean()

    for chain in ([(n, 1.0) for n in (20, 300, 3000)], [(300, e) for e in (0.01, 0.2, 1.0, 5.0)]):
        scores = [score(n, epsilon) for n, epsilon in chain]
        # The greedy search stops at gains below 0.001.
        assert (np.diff(scores) <= 0.01).all()
        assert scores[-1] < scores[0] - 0.1


@pytest.mark.daily("(50, 1, 10000.0, 0.0)", "(50, 1, 10000.0, 1e-06)", "(569, 30, 1.0, 0.001)", "(2, 101, 1.0, 1e-06)")
@each_setting
def test_predicted_errors_never_exceed_those_of_measuring_nothing(setting):
    design = design_of(*setting)
    assert list(design.predicted) == list(design.baseline) == list(default_workload(setting[1]).labels)
    assert np.isfinite(list(design.predicted.values())).all()
    assert all(0 < design.predicted[label] <= design.baseline[label] * (1 + 1e-9) for label in design.predicted)


@pytest.mark.nightly  # By day a limit is kept to the last function, below.
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_the_limit_of_functions_is_kept(delta):
    assert design_of(2000, 4, 1.0, delta, max_functions=12).features.K <= 12
    assert design_of(2000, 4, 1.0, delta).features.K >= 40


@pytest.mark.daily("0.0")
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_exactly_as_many_functions_as_are_allowed_are_measured(delta):
    # Six of single columns, three products of x and six of higher degree.
    assert design_of(100, 3, 1.0, delta, pair_degree=2, max_functions=15).features.K == 15
    free = design_of(2000, 4, 1.0, delta)
    K = free.features.K
    assert design_of(2000, 4, 1.0, delta, max_functions=K).predicted == free.predicted
    assert design_of(2000, 4, 1.0, delta, max_functions=K - 1).features.K < K


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_the_search_ends_where_no_step_lessens_the_mean_logarithm_of_the_errors_enough(delta, monkeypatch):
    found = []

    def best(self, choices):
        found.append((self, choices, whole(self, choices)))
        return found[-1][2]

    def error(trial):
        # Of each trial anew: the noise by its weights, the errors by the model.
        selection, weights = trial.allocation.selection, trial.weights
        variances = found[0][0].model.variances(selection, trial.allocation.deviations(weights))
        return float(np.mean([math.log(math.sqrt(variance)) for variance in variances.tolist()]))

    whole = search._Search.best
    monkeypatch.setattr(search._Search, "best", best)
    monkeypatch.setattr(search, "_design", lambda model, trial: trial)
    refined = plan_moments(300, 3, Budget(1.0, delta), default_workload(3))
    ((made, choices, first),) = found
    steps = [made._allocated(each) for each in choices.neighbours(first.allocation.selection)]
    assert len(steps) > 3
    for each in (first, refined, *steps):
        assert each.score == pytest.approx(error(each), rel=1e-12)
    assert all(error(each) >= error(first) - search.LEAST_GAIN for each in steps)
    assert error(refined) <= error(first)
    # A step that is allowed gained enough; the search went more than one.
    assert first.score < made._allocated(choices.first()).score - 2.0 * search.LEAST_GAIN


@pytest.mark.daily("{'degree': 5}-0.0", "{'triples': True}-0.0", "{'whole_row': True}-0.0")
@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("options", [
    {"degree": 5}, {"degree": 1, "pair_degree": 0}, {"pair_degree": 4}, {"triples": True}, {"whole_row": True},
    {"degree": 9, "pair_degree": 3, "triples": True, "whole_row": False}], ids=str)
def test_what_is_fixed_is_kept(options, delta):
    # Few rows, because searches end sooner there.
    design = design_of(40, 3, 1.0, delta, **options)
    index = design.features.basis.index
    width = (index > 0).sum(axis=1)
    found = {"degree": index[width == 1].max(), "pair_degree": index[width == 2].max(initial=0),
             "triples": (width == 3).any(), "whole_row": len(design.features.profiles) > 0}
    assert found == {name: getattr(design, name) for name in found} == found | options


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_degrees_beyond_those_that_are_searched_can_be_fixed(delta):
    # Without weights, for the search for those takes seconds at such degrees.
    assert design_of(40, 1, 1.0, delta, degree=33, weighted=False).degree == 33
    assert design_of(40, 2, 1.0, delta, degree=1, pair_degree=9, weighted=False).pair_degree == 9


@pytest.mark.daily("0.0")
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_pairs_and_triples_that_the_table_has_no_columns_for_are_left_out(delta):
    one = design_of(500, 1, 1.0, delta, pair_degree=2, triples=True)
    assert (one.pair_degree, one.triples) == (0, False)
    assert not design_of(500, 2, 1.0, delta, triples=True).triples


@pytest.mark.daily("SecondMoments(d=4)-0.0", "Smooth(d=4, smoothness=2.0, degree=3)-0.0")
@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("workload", [
    SecondMoments(4), Polynomials(4, 3, seed=0), PairKernels(4, seed=0), Smooth(4, 2.0, 3),
    GaussianKernels(4, seed=0, widths=(0.3,)), Mixture((SecondMoments(4), Polynomials(4, 1, seed=0)))], ids=repr)
def test_every_family_of_queries_can_be_planned_for(workload, delta):
    # Some of them give no importance at all to T_1, or to a pair's T_2 T_2.
    for options in ({}, {"degree": 1, "pair_degree": 2}):
        design = design_of(3000, 4, 0.2, delta, workload, **options)
        assert np.isfinite(design.deviations).all()
        assert np.isfinite(list(design.predicted.values())).all()
    assert sum(design_of(3000, 4, 0.2, delta, workload).predicted.values()) < 0.9 * sum(design.baseline.values())


def test_second_moments_are_planned_as_second_moments():
    for delta in (0.0, 1e-6):
        design = design_of(10_000, 8, 1.0, delta, SecondMoments(8))
        assert (design.degree, design.pair_degree, design.triples, design.whole_row) == (2, 1, False, False)
        # T_1 of a column has no part in any second moment, so its noise is the larger one by far.
        assert design.deviations[0] > 5.0 * design.deviations[8]


def test_the_next_degree_that_matters_is_that_of_functions_of_so_many_columns():
    model = SimpleNamespace(d=3, matters=lambda width, low, high: high >= 6 + width)
    choices = search._Choices(model, (2, 3, 4, 7, 8), (2, 3, 4, 7, 8), (False,), ((),), 10**9)
    first, found = choices.first(), choices.neighbours(choices.first())
    assert [each.degree for each in found if each.degree != first.degree] == [3, 4, 7]
    assert [each.pair_degree for each in found if each.pair_degree != first.pair_degree] == [3, 4, 8]


def test_an_unweighted_design_has_nearly_equal_noise():
    scales = design_of(800, 4, 1.0, 1e-6, weighted=False, whole_row=True, triples=True).deviations
    np.testing.assert_allclose(scales, scales[0], rtol=1e-12)
    # Laplace noise is equal; blocks of size k have noise in proportion to sqrt((k+1)(k+2))/k.
    scales = design_of(800, 30, 1.0, 0.0, weighted=False, degree=4, pair_degree=1).deviations
    assert scales.max() <= scales.min() * math.sqrt(31 * 32) / 30 * (1 + 1e-9)


def test_weights_lower_the_predicted_error():
    for delta in (0.0, 1e-6):
        for d in (2, 6):
            weighted, equal = (np.log(list(design_of(100, d, 1.0, delta, weighted=w).predicted.values())).mean()
                               for w in (True, False))
            assert weighted < equal


@pytest.mark.parametrize(("changes", "words"), [
    ({"n": 1}, "n must be"), ({"d": 0}, "d must be"), ({"d": 4}, "has 3 columns, but"),
    ({"degree": True}, "degree must be"),
    ({"pair_degree": -1}, "pair_degree must"), ({"max_functions": 2}, "max_functions = 2"),
    ({"pair_degree": 2, "max_functions": 14}, "needs 15 functions"),
    ({"degree": 65}, "degree must be at most 64"), ({"pair_degree": 33}, "pair_degree must be at most 32"),
    ({"workload": SecondMoments(3), "whole_row": True}, "whole_row")])
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_bad_arguments_are_refused(changes, words, delta):
    arguments = {"n": 100, "d": 3, "budget": Budget(1.0, delta), "workload": default_workload(3), **changes}
    with pytest.raises(InputError, match=words):
        plan_moments(**arguments)


@each_setting
def test_a_design_explains_itself(setting):
    design = design_of(*setting)
    said = str(design)
    assert f"{design.features.K} moments" in said
    assert all(label in said for label in design.predicted)
    assert ("pairs" in said) == (design.pair_degree > 0)
    assert ("whole rows" in said) == design.whole_row


# The promise


@pytest.mark.daily(4)
@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("d", [2, 6])
def test_the_predicted_error_of_second_moments_is_that_of_a_simulation(d, delta):
    n = 20_000
    design = design_of(n, d, 1.0, delta, SecondMoments(d), degree=2, pair_degree=1)
    X = np.random.default_rng(2).uniform(-1.0, 1.0, (n, d))
    exact = PrivateMoments(n, n * design.features.evaluate(X).mean(axis=0), np.empty(0), np.empty((0, 0)),
                           design.features)
    queries = SecondMoments(d).coefficients(design.features.basis.index)[:, 0]
    constant = SecondMoments(d).coefficients(np.zeros((1, d), dtype=np.int64))[:, 0, 0]
    truth = SecondMoments(d).answers(X)[:, 0]
    squares = []
    for seed in range(100):
        released = release_moments(exact, design.features, design, Ledger(Budget(1.0), enforced=False),
                                   SimulatedNoise(np.random.default_rng(seed)))
        squares.append(((queries @ released.means + constant - truth) ** 2).mean())
    (predicted,) = design.predicted.values()
    assert predicted / 2 < math.sqrt(np.mean(squares)) < 2 * predicted


def test_what_is_not_measured_is_what_the_planner_supposes_at_no_noise():
    workload = default_workload(3)
    huge = design_of(10**9, 3, 1.0, 0.0, degree=8, pair_degree=4, whole_row=False)
    rest = unmeasured_variances(huge.features, huge.deviations, workload)
    # What is left at the smallest noise is not below what is not measured at all, but for the pairs of degrees above 8,
    # which the plan does not count.
    assert (np.array(list(huge.predicted.values())) >= 0.98 * np.sqrt(rest)).all()
    small = design_of(500, 3, 1.0, 0.0, degree=1, pair_degree=0, triples=False)
    more = unmeasured_variances(small.features, small.deviations, workload)
    assert (more >= rest).all()
    assert (more > rest).any()


# The rounding of whole-row functions

UNIT = 2.0**-53


def exact_whole_rows(features, rows):
    """The whole-row function of the stored profile at each row, as Fractions."""
    coefficients, floor = [Fraction(c) for c in features.profiles[0].tolist()], Fraction(float(features.floors[0]))
    found = []
    for row in rows.tolist():
        whole = Fraction(1)
        for x in map(Fraction, row):
            T = [Fraction(1), x]
            while len(T) < len(coefficients):
                T.append(2 * x * T[-1] - T[-2])
            whole *= sum(c * t for c, t in zip(coefficients, T, strict=True))
        found.append(2 * (whole - floor) / (1 - floor) - 1)
    return found


@pytest.mark.daily(3)
@pytest.mark.parametrize("d", [1, 3, 10])
def test_no_whole_row_found_errs_by_more_than_is_charged(d):
    rng = np.random.default_rng(d)
    worst = 0.0
    for _ in range(6):
        coefficients = np.concatenate([[0.0], rng.choice([-1.0, 1.0], PROFILE_DEGREE) * rng.random(PROFILE_DEGREE)])
        values = np.polynomial.chebyshev.chebval(np.cos(np.linspace(0.0, np.pi, 4001)), coefficients)
        coefficients[0] = rng.choice([1e-2, 1.0]) * np.ptp(values) - values.min()
        features = Features(ChebyshevBasis(np.eye(d, dtype=np.int64)), [coefficients])
        rows = np.concatenate([rng.uniform(-1.0, 1.0, (40, d)), np.cos(rng.uniform(0.0, 0.1, (20, d)))])
        found = features.evaluate(rows)[:, -1]
        error = max(abs(Fraction(float(a)) - b) for a, b in zip(found, exact_whole_rows(features, rows), strict=True))
        charged = (roundings(features, 1)[-1] - rounding(1, 0)) / 2.0
        assert error <= charged
        worst = max(worst, float(error) / UNIT)
    # The search finds errors that a bound of one unit, the planted fault, would not cover.
    assert worst > 2.0
