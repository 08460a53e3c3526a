"""From released moments to points, by every fit."""

import math
from functools import cache

import numpy as np
import pytest
from scipy import stats

from trigmech._parallel import THREADS_VARIABLE
from trigmech.domain import Domain, OneHotGroup
from trigmech.evaluation.error_bars import predicted_error
from trigmech.functions.chebyshev import ChebyshevBasis
from trigmech.functions.features import Features
from trigmech.measurement.released import Release
from trigmech.mechanisms.moment import MomentMechanism
from trigmech.planning.one_hot import plan_mixed
from trigmech.privacy.budget import Budget
from trigmech.reconstruction import pipeline
from trigmech.reconstruction.marginals import SmoothMarginals
from trigmech.reconstruction.pipeline import reconstruct
from trigmech.reconstruction.targets import MomentTargets
from trigmech.schema.schema import Schema
from trigmech.synthesis import synthesize
from trigmech.workload import GaussianKernels, SecondMoments


def law(n, d, seed, dependence=0.6):
    """Rows of a smooth law inside the cube, with columns in positive and negative dependence by turns."""
    rng = np.random.default_rng(seed)
    z = rng.standard_normal((n, d))
    z = math.sqrt(1 - dependence**2) * z + dependence * z[:, :1] * np.where(np.arange(d) % 2, -1.0, 1.0)
    return np.tanh(0.6 * z + np.linspace(-0.3, 0.3, d))


def features_of(d, p, q, profile=False):
    rows = [np.roll(np.eye(1, d, dtype=np.int64)[0] * a, j) for a in range(1, p + 1) for j in range(d)]
    for a in range(1, q + 1):
        for b in range(1, q + 1):
            for i in range(d):
                for j in range(i + 1, d):
                    row = np.zeros(d, dtype=np.int64)
                    row[i], row[j] = a, b
                    rows.append(row)
    profiles = [GaussianKernels(d, seed=0).mean_profile(2.0, 8)] if profile else []
    return Features(ChebyshevBasis(np.array(rows)), profiles)


def released(X, features, deviation, domain=None, seed=0):
    noise = np.random.default_rng(seed).normal(0.0, deviation, features.K)
    return Release.of_moments(len(X), features, features.evaluate(X).mean(axis=0) + noise,
                              np.full(features.K, deviation), domain)


SHAPES = {"one column": (1, 6, 0, False), "two columns": (2, 4, 2, False), "three columns": (3, 4, 2, True),
          "seven columns": (7, 3, 1, False), "columns alone": (3, 5, 0, False)}


@cache
def exact(name, fit, dependence=0.6):
    d, p, q, profile = SHAPES[name]
    given = released(law(20_000, d, 1, dependence), features_of(d, p, q, profile and fit != "atoms"), 1e-4)
    return given, reconstruct(given, 512, np.random.default_rng(2), fit=fit, iterations=400)


@pytest.mark.daily(3)
@pytest.mark.parametrize("fit", ["rows", "cloud", "atoms"])
@pytest.mark.parametrize("name", SHAPES)
def test_at_next_to_no_noise_all_released_moments_are_met(name, fit):
    given, made = exact(name, fit)
    reached = made.weights @ given.features.evaluate(made.points)
    # The cloud's points stay where they are, and its weights stay near to equal.
    assert np.abs(reached - given.means).max() < {"rows": 3e-3, "cloud": 3e-3, "atoms": 5e-4}[fit]
    # A fit that did nothing would be far away: of the uniform law, and of independent columns.
    columns = (given.features.basis.index > 0).sum(axis=1)
    uniform = Features(ChebyshevBasis(given.features.basis.index)).evaluate(np.random.default_rng(0).uniform(
        -1, 1, (4096, given.features.d))).mean(axis=0)
    gap = np.abs(given.means[: len(uniform)] - uniform)
    assert gap.max() > 0.1
    assert columns.max() == 1 or gap[columns == 2].max() > 0.03
    assert made.misfit >= 0
    assert made.target.shape == given.means.shape


@pytest.mark.parametrize("fit", ["rows", "cloud", "atoms"])
@pytest.mark.parametrize("name", SHAPES)
def test_points_lie_in_the_cube_and_weights_sum_to_one(name, fit):
    given, made = exact(name, fit)
    d = given.features.d
    assert made.points.shape == (len(made.weights), d)
    assert np.abs(made.points).max() <= 1.0
    assert made.weights.min() >= 0
    assert made.weights.sum() == pytest.approx(1.0, abs=1e-9)
    m = len(made.points)
    if fit == "rows":
        assert m == 512
        assert (made.weights == 1 / 512).all()
        assert len(np.unique(made.points, axis=0)) == m
    elif fit == "cloud":
        assert m >= 4096
        assert made.weights.max() <= 100 / m
        assert len(np.unique(made.points, axis=0)) == m
    else:
        assert m <= given.features.basis.K + 1


@pytest.mark.nightly
@pytest.mark.parametrize("fit", ["rows", "cloud"])
@pytest.mark.parametrize("n", [300, 3000])
def test_at_least_half_of_a_sample_as_large_as_the_table_is_distinct(fit, n):
    X = law(n, 3, 4)
    mechanism = MomentMechanism(fit=fit, degree=4, pair_degree=2, **({"iterations": 20} if fit == "rows" else {}))
    synthesis = synthesize(X, Schema.cube(3), Budget(1.0, 1e-6), mechanism, np.random.default_rng(1))
    sample = synthesis.sample(n, np.random.default_rng(2))
    assert len(np.unique(sample, axis=0)) >= n / 2


def same(first, second):
    return all(getattr(first, name).tobytes() == getattr(second, name).tobytes()
               for name in ("points", "weights", "target"))


@pytest.mark.parametrize("fit", ["rows", "cloud", "atoms"])
def test_a_seed_repeats_a_reconstruction_on_any_number_of_threads(fit, monkeypatch):
    given = released(law(500, 3, 3), features_of(3, 4, 2), 0.02)
    made = []
    for threads, seed in (("1", 1), ("2", 1), ("2", 2)):
        monkeypatch.setenv(THREADS_VARIABLE, threads)
        made.append(reconstruct(given, 3000, np.random.default_rng(seed), fit=fit, iterations=16))
    assert same(made[0], made[1])
    assert fit == "atoms" or not same(made[1], made[2])


def test_every_whole_pipeline_gives_correlations_of_the_right_sign():
    X = law(2000, 4, 5)
    truth = np.corrcoef(X.T)[np.triu_indices(4, 1)]
    assert np.abs(truth).min() > 0.3
    for fit, delta in (("rows", 1e-6), ("rows", 0.0), ("cloud", 1e-6), ("atoms", 1e-6)):
        mechanism = MomentMechanism(fit=fit, degree=3, pair_degree=1, triples=False, whole_row=False)
        synthesis = synthesize(X, Schema.cube(4), Budget(1.0, delta), mechanism, np.random.default_rng(1))
        found = np.cov(synthesis.distribution.points.T, aweights=synthesis.distribution.weights)
        found = (found / np.sqrt(np.outer(np.diag(found), np.diag(found))))[np.triu_indices(4, 1)]
        np.testing.assert_allclose(found, truth, atol=0.2)
        assert (np.sign(found) == np.sign(truth)).all()


@pytest.mark.nightly
def test_no_dependence_is_made_of_noise():
    d, n, deviation = 8, 300, 0.1
    workload, features = SecondMoments(d), features_of(8, 3, 2)
    above = np.triu_indices(d)
    pairs = above[0] != above[1]
    ratios, dependent, believed = [], 0, []
    for seed in range(6):
        X = law(n, d, seed, dependence=0.0)
        given = released(X, features, deviation, seed=seed)
        made = reconstruct(given, 512, np.random.default_rng(seed), iterations=40)
        dependent += made.dependent
        answers = workload.answers(made.points, made.weights)[pairs, 0]
        means = made.points.mean(axis=0)
        invented = np.abs(answers - np.outer(means, means)[above][pairs]).mean()
        # To take the noise for truth would make dependence of 0.8 of its deviation.
        assert invented < 0.35 * deviation
        # The planted fault: nothing is shrunk.
        answers_of_noise = workload.answers(reconstruct(given, 512, np.random.default_rng(seed), denoise=False,
                                                        iterations=40).points)[pairs, 0]
        believed.append(np.abs(answers_of_noise - np.outer(means, means)[above][pairs]).mean())
        truth = workload.answers(X)[pairs, 0]
        independent = np.outer(*2 * [X.mean(axis=0)])[above][pairs]
        ratios.append(np.abs(answers - truth).mean() / np.abs(given.means[d * 3 : d * 3 + len(truth)] - truth).mean())
        # The sample's own deviation from independence is what nobody can see under this noise.
        assert np.abs(independent - truth).mean() < 0.5 * deviation
    assert np.median(ratios) < 0.6
    assert min(believed) > 0.35 * deviation
    # 28 pairs a run pass a test of 3 deviations by chance in 7 percent of the runs, if nothing is shrunk before.
    assert dependent <= 3


def test_a_step_that_is_switched_off_is_not_made():
    X = law(2000, 7, 6)
    given = released(X, features_of(7, 3, 1), 0.03)

    def made(**options):
        return reconstruct(given, 64, np.random.default_rng(1), **{"fit": "cloud", **options})

    usual, plain = made(), made(denoise=False)
    np.testing.assert_array_equal(plain.target, given.means)
    assert (usual.target != given.means).any()
    assert usual.dependent
    alone = made(copula=False)
    assert not alone.dependent
    assert len(alone.points) == len(usual.points) / 2
    even = made(weigh=False)
    assert (even.weights == 1 / len(even.points)).all()
    assert usual.weights.std() > 0
    # Without a copula and weights nothing knows of the dependence.
    x, y = made(copula=False, weigh=False).points.T[:2]
    assert abs(stats.pearsonr(x, y).statistic) < 0.05


def test_dependence_is_seen_only_where_it_was_measured():
    X = law(2000, 3, 6)
    assert reconstruct(released(X, features_of(3, 2, 1), 0.01), 64, np.random.default_rng(1)).dependent
    assert not reconstruct(released(X, features_of(3, 2, 0), 0.01), 64, np.random.default_rng(1)).dependent


def test_costs_take_the_place_of_the_noise():
    given = released(law(500, 2, 3), features_of(2, 3, 2), 0.3)
    costs = np.ones(given.features.K)
    costs[0] = 1e-3
    made = reconstruct(given, 400, np.random.default_rng(1), denoise=False, costs=costs)
    reached = made.weights @ given.features.evaluate(made.points)
    assert abs(reached[0] - given.means[0]) < 1e-3
    # In units of the noise, as any other.
    noise = ((given.deviations / costs) ** 2).mean()
    assert made.misfit == pytest.approx((((reached - given.means) / costs) ** 2).mean() / noise, rel=1e-6)


def test_a_reconstruction_shows_how_it_was_made():
    _, made = exact("two columns", "rows")
    assert "m=512" in repr(made)
    assert "iterations" in repr(made)
    assert made.seconds > 0
    assert made.iterations >= 1


def shuffled(given, seed):
    """The same release with its Chebyshev products in another order, and where each of them went."""
    order = np.random.default_rng(seed).permutation(given.features.basis.K)
    places = np.concatenate([order, np.arange(given.features.basis.K, given.features.K)])
    features = Features(ChebyshevBasis(given.features.basis.index[order]), given.features.profiles)
    return Release.of_moments(given.n, features, given.means[places], given.deviations[places], given.domain), places


@pytest.mark.daily(6)
@pytest.mark.parametrize("fit", ["rows", "cloud"])
@pytest.mark.parametrize("name", ["three columns", "seven columns", "columns alone"])
def test_functions_may_come_in_any_order(name, fit):
    d, p, q, profile = SHAPES[name]
    given = released(law(3000, d, 1), features_of(d, p, q, profile), 0.02)
    other, places = shuffled(given, 5)
    first, second = (reconstruct(one, 256, np.random.default_rng(2), fit=fit, iterations=60) for one in (given, other))
    np.testing.assert_allclose(second.target, first.target[places], atol=1e-9)
    assert second.dependent == first.dependent
    # Sums in another order differ in their last bits, which a descent enlarges.
    reached = [one.weights @ given.features.evaluate(one.points) for one in (first, second)]
    np.testing.assert_allclose(*reached, atol=2e-3)
    assert second.misfit == pytest.approx(first.misfit, abs=0.05)


def test_categories_may_come_in_any_order():
    domain = Domain(6, [OneHotGroup((2,), False, 1), OneHotGroup((3, 4, 5), True)])
    rng = np.random.default_rng(3)
    X = np.zeros((3000, 6))
    X[:, :2] = law(3000, 2, 1)
    X[np.arange(3000), rng.choice([3, 4, 5], 3000, p=[0.6, 0.3, 0.1])] = 1.0
    X[rng.random(3000) < 0.3, 2] = 1.0
    X[X[:, 2] == 1.0, 1] = 0.0
    design = plan_mixed(3000, domain, Budget(5.0, 1e-6), SecondMoments(2), degree=3, pair_degree=1)
    given = released(X, design.features, 0.005, domain)
    other, places = shuffled(given, 6)
    first, second = (reconstruct(one, 500, np.random.default_rng(2), iterations=60)
                     for one in (given, other))
    np.testing.assert_allclose(second.target, first.target[places], atol=1e-9)
    np.testing.assert_allclose(given.features.means(second.points), given.features.means(first.points), atol=5e-3)
    assert np.abs(given.features.means(second.points) - given.means).max() < 0.05


@pytest.mark.parametrize("special", [True, False])
def test_a_special_value_leaves_the_copula_to_the_other_columns(special, monkeypatch):
    domain = Domain(4, [OneHotGroup((3,), False, 2)]) if special else Domain(4, [OneHotGroup((3,), True)])
    rng = np.random.default_rng(3)
    X = np.hstack([law(5000, 3, 1, 0.8), np.ones((5000, 1))])
    if special:
        X[:, 3] = rng.random(5000) < 0.3
        X[X[:, 3] == 1.0, 2] = 0.0
    design = plan_mixed(5000, domain, Budget(5.0, 1e-6), SecondMoments(3), degree=3, pair_degree=1)
    asked, cloud = [], SmoothMarginals.cloud
    monkeypatch.setattr(SmoothMarginals, "cloud", lambda self, count, rng, correlation=None: (
        asked.append(correlation) or cloud(self, count, rng, correlation)))
    made = reconstruct(released(X, design.features, 0.003, domain), 400, np.random.default_rng(2), iterations=4)
    assert made.dependent
    (copula,) = asked
    truth = np.corrcoef(X[:, :3].T)
    assert copula[0, 1] == pytest.approx(truth[0, 1], abs=0.1)
    assert abs(truth[0, 1]) > 0.5
    # Of the column with special values the copula says nothing.
    assert (copula[2, :2] == 0.0).all() == special


@pytest.mark.parametrize("kept", ["pairs alone", "one column", "second degrees", "one and another degree"])
def test_functions_of_some_columns_alone_are_enough(kept):
    features = features_of(3, 3, 2)
    index = features.basis.index
    several = (index > 0).sum(axis=1) > 1
    chosen = {"pairs alone": several, "one column": (index[:, 1:] == 0).all(axis=1),
              "second degrees": ~several & (index.max(axis=1) == 2),
              "one and another degree": ~several & ((index[:, 0] == 3) | (index[:, 1] == 1))}[kept]
    given = released(law(3000, 3, 1), Features(ChebyshevBasis(index[chosen])), 0.01)
    made = reconstruct(given, 500, np.random.default_rng(2))
    # Between independence and what was measured, to which noise and caution count.
    assert np.abs(features_of(3, 3, 2).means(made.points)[chosen] - given.means).max() < 0.03
    bars = predicted_error(SecondMoments(3), given, made)
    assert np.isfinite(bars.bound).all()


@pytest.mark.parametrize(("name", "more"), [("two columns", 8), ("three columns", 8), ("seven columns", 9)])
def test_columns_keep_the_shape_that_their_moments_suggest_up_to_degree_12(name, more):
    d, p, q, profile = SHAPES[name]
    given = released(law(500, d, 1), features_of(d, p, q, profile), 0.02)
    targets = MomentTargets.explained(given.index, given.means, given.deviations, True)
    functions, goal, scales = pipeline._anchored(given, targets)
    K, count = given.basis.K, more * d
    assert (functions.K, len(goal), len(scales)) == (given.features.K + count,) * 3
    np.testing.assert_array_equal(functions.basis.index[:K], given.basis.index)
    # Degree by degree, all columns of each.
    added = [[a if j == column else 0 for j in range(d)] for a in range(p + 1, 13) for column in range(d)]
    assert functions.basis.index[K:].tolist() == added
    means = targets.marginals.chebyshev_means(12)[p:]
    np.testing.assert_allclose(goal[K : K + count], means.ravel(), atol=1e-12)
    # The shape gives way to what was measured: it is held as by noise of a twentieth.
    assert scales[K : K + count].tolist() == [0.05] * count
    for whole, own in ((goal, targets.means), (scales, targets.deviations)):
        np.testing.assert_array_equal(np.delete(whole, slice(K, K + count)), own)
    # Of T_1 alone nothing is suggested.
    few = released(law(500, 3, 1), features_of(3, 1, 1), 0.02)
    targets = MomentTargets.explained(few.index, few.means, few.deviations, True)
    assert pipeline._anchored(few, targets)[0] is few.features
