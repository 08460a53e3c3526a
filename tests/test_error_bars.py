"""Error bars against the errors that they are about, on simulated tables."""

import dataclasses
import math
import warnings
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from scipy import stats

from trigmech.distribution import Distribution
from trigmech.errors import FitWarning, InputError
from trigmech.evaluation import error_bars
from trigmech.evaluation.error_bars import QUERIES_AT_A_TIME, missed_moments, predicted_error
from trigmech.mechanisms.moment import MomentMechanism, minimax
from trigmech.planning import priors
from trigmech.privacy.budget import Budget
from trigmech.reconstruction.row_arrays import FittedRows
from trigmech.reconstruction.rows import CompiledObjective
from trigmech.report import page as report
from trigmech.results import load
from trigmech.schema.schema import Column, Schema
from trigmech.synthesis import synthesize
from trigmech.thesis.mechanisms import TrigI
from trigmech.workload import GaussianKernels, Mixture, PairKernels, Polynomials, SecondMoments, Smooth
from trigmech.workload.family import is_symmetric

RUNS = 48
# Fixed, for planning takes longer than all else.
FAST = MomentMechanism(points=128, iterations=20, degree=4, pair_degree=2, triples=False, whole_row=False)


def workloads(d):
    return {"gaussian": GaussianKernels(d, seed=1, n_queries=40, widths=(1.0, 2.0, 4.0)),
            "pairs": PairKernels(d, seed=1, n_queries=40) if d > 1 else GaussianKernels(d, seed=2, n_queries=40),
            "moments": SecondMoments(d)}


def dependent(n, d, seed):
    rng = np.random.default_rng(seed)
    z = rng.standard_normal((n, d))
    z[:, 1:] = 0.5 * z[:, :1] + 0.8 * z[:, 1:]
    return np.clip(0.4 * z + rng.uniform(-0.3, 0.3, d), -1.0, 1.0)


def run(seed, d, delta=1e-6, n=600, mechanism=FAST):
    X = dependent(n, d, [seed, 1])
    return X, synthesize(X, Schema.cube(d), Budget(1.0, delta), mechanism, np.random.default_rng([seed, 2]))


@cache
def simulated():
    """Of independent runs of several kinds, for each workload: deviations, bounds, worst bounds and true errors."""
    found = {name: [] for name in workloads(2)}
    for seed in range(RUNS):
        d = (1, 2, 3, 7)[seed % 4]
        X, synthesis = run(seed, d, (0.0, 1e-6)[seed // 4 % 2])
        for name, workload in workloads(d).items():
            found[name].append((synthesis.predicted_error(workload), workload.errors(X, synthesis.distribution)))
    return found


def coverage_p(name, deviations_by=1.0):
    """The probability of so few covered queries, one at random in each run, if the bounds were right."""
    rng, covered = np.random.default_rng(3), 0
    for bars, errors in simulated()[name]:
        q, part = (int(rng.integers(size)) for size in errors.shape)
        reach = stats.norm.ppf(0.975) * bars.deviation[q, part]
        covered += bool(errors[q, part] <= bars.bound[q, part] - reach * (1.0 - deviations_by))
    return stats.binom.cdf(covered, RUNS, 0.95)


@pytest.mark.daily("pairs")
@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.nightly] * (name == "gaussian"))
                                  for name in workloads(2)])
def test_bounds_hold_at_the_rate_that_they_state(name):
    assert coverage_p(name) > 1e-6
    # The planted fault: variances 25 times too small.
    assert coverage_p(name, 0.2) < 1e-9


@pytest.mark.parametrize("name", workloads(2))
def test_the_worst_error_is_below_its_bound(name):
    held = [bool((errors.max(axis=0) <= bars.worst).all()) for bars, errors in simulated()[name]]
    assert stats.binom.cdf(sum(held), RUNS, 0.95) > 1e-6


@pytest.mark.parametrize("name", workloads(2))
def test_bounds_are_not_absurdly_wide(name):
    ratios = [np.median(bars.bound / np.maximum(errors, 1e-300)) for bars, errors in simulated()[name]]
    # A normal error is 2.9 times below its 95 percent bound in the median; measured 2 to 5.
    assert 1.5 < np.median(ratios) < 10
    ratios = [np.median(bars.worst / errors.max(axis=0)) for bars, errors in simulated()[name]]
    assert 1 < np.median(ratios) < 10


@pytest.mark.parametrize("workload", [GaussianKernels(3, seed=1, n_queries=QUERIES_AT_A_TIME + 3, widths=(1.0, 3.0)),
                                      PairKernels(3, seed=1, n_queries=2 * QUERIES_AT_A_TIME), SecondMoments(3),
                                      Polynomials(3, 2, 7, seed=0), Smooth(3, 1.0, 2)], ids=repr)
def test_there_is_a_bound_for_each_query_of_each_part(workload):
    X, synthesis = run(5, 3)
    bars = synthesis.predicted_error(workload)
    shape = workload.answers(X).shape
    assert bars.deviation.shape == bars.bound.shape == shape
    assert bars.worst.shape == shape[1:]
    assert bars.level == 0.95
    assert len(repr(bars)) < 120  # and not as long as the arrays
    assert (bars.deviation > 0).all()
    assert (bars.worst >= bars.bound.max(axis=0)).all()


def test_a_higher_level_gives_wider_bounds_and_the_same_deviations():
    _, synthesis = run(6, 2)
    workload = PairKernels(2, seed=1, n_queries=20)
    for narrow, wide in pairwise([synthesis.predicted_error(workload, level) for level in (0.01, 0.5, 0.95, 0.999)]):
        np.testing.assert_array_equal(narrow.deviation, wide.deviation)
        assert (narrow.bound < wide.bound).all()
        assert (narrow.worst < wide.worst).all()


class OfNoKind(PairKernels):
    """Queries of which nothing says that they treat all columns alike."""


def test_numbers_are_taken_of_a_fit_wherever_their_columns_are():
    schema = Schema([Column("c", kind="categorical", categories=["a", "b", "c"]), Column("x", 0, 1), Column("y", 0, 1)])
    rng = np.random.default_rng(0)
    table = np.array([rng.choice(list("abc"), 200), rng.random(200), rng.random(200) ** 2], dtype=object).T
    made = synthesize(table, schema, Budget(2.0, 1e-6), MomentMechanism(points=50, iterations=2), rng)
    numbers = list(schema.domain.numbers)
    assert numbers != [0, 1]
    release, fit = error_bars._of_numbers(made.release, made.fit)
    np.testing.assert_array_equal(fit.points, made.fit.points[:, numbers])
    np.testing.assert_array_equal(fit.weights, made.fit.weights)
    assert len(fit.target) == release.features.K


@pytest.mark.parametrize("shrunk", [False, True])
@pytest.mark.parametrize("workload", [PairKernels(3, seed=1, n_queries=150), SecondMoments(3),
                                      Polynomials(3, 2, 7, seed=0), OfNoKind(3, seed=2, n_queries=20)], ids=repr)
def test_deviations_are_the_roots_of_what_measured_and_unmeasured_products_may_err(workload, shrunk, monkeypatch):
    _, synthesis = run(5, 3)
    # Some targets are nearly as far from what was released as is believed of noise, and some a little farther.
    release, away = synthesis.release, np.resize([0.0, 3.99, -3.99, 4.01, -4.01], synthesis.release.K)
    fit = dataclasses.replace(synthesis.fit, shrunk=shrunk, target=release.means + away * release.deviations)
    index, unmeasured = release.index.degrees, 0.01 * np.arange(1.0, 1.0 + len(workload.labels))
    if is_symmetric(workload):
        monkeypatch.setattr(error_bars, "unmeasured_variances", lambda *given: unmeasured)
    bars = predicted_error(workload, release, fit)
    refuted = (np.abs(away) > 4.0)[: len(index)]
    means = np.einsum("m,mk->k", fit.weights, release.basis.evaluate(fit.points))
    missed = np.where(refuted, release.means[: len(index)], fit.target[: len(index)]) - means
    noise, prior = release.deviations[: len(index)], priors.prior_deviations(index)
    coefficients = workload.coefficients(index)
    if not is_symmetric(workload):
        # What an answer varies by that its measured products do not tell, over the cube's even points.
        points = np.cos(np.random.default_rng([3, len(index)]).uniform(0.0, np.pi, (256, 3)))
        values = np.stack([workload.answers(point[None]) for point in points], axis=-1)
        left = values - np.einsum("qpk,mk->qpm", coefficients, release.basis.evaluate(points))
        # Degree 5 of a column is the first that was not measured; products of two of degree 1 are.
        ratio = max(2.0 * 0.5**2 / 5, 4.0 * 0.15**2, 8.0 * 0.08**2)
    for q in range(len(coefficients)):
        for p in range(coefficients.shape[1]):
            own = coefficients[q, p]
            variance = sum(c**2 * s**2 * (1.0 if r or not shrunk else v**2 / (s**2 + v**2))
                           for c, s, v, r in zip(own, noise, prior, refuted, strict=True))
            rest = unmeasured[p] if is_symmetric(workload) else ratio * left[q, p].var()
            deviation = math.sqrt(variance + 1.5**2 * rest)
            assert bars.deviation[q, p] == pytest.approx(deviation, rel=1e-9)
            # A bound is what is known to be off, and 1.96 deviations.
            assert bars.bound[q, p] == pytest.approx(abs(own @ missed) + 1.959963984540054 * deviation, rel=1e-9)


def test_a_mixture_has_the_bars_of_its_members_one_after_the_other():
    members = (PairKernels(2, seed=1, n_queries=3, widths=(0.5, 1.0)), SecondMoments(2),
               PairKernels(2, seed=2, n_queries=2))
    rng, made = np.random.default_rng(0), {}

    def bars(member):
        shape = member.answers(np.zeros((1, 2))).shape
        made[member] = error_bars.PredictedError(0.9, *rng.random((2, *shape)), rng.random(shape[1]))
        return made[member]

    found = error_bars.of_members(Mixture((Mixture(members[:2]), members[2])), bars)
    assert found.level == 0.9
    for name in ("deviation", "bound"):
        expected = [number for member in members for number in getattr(made[member], name).ravel().tolist()]
        assert getattr(found, name).tolist() == [[number] for number in expected]
    assert found.worst.tolist() == [number for member in members for number in made[member].worst.tolist()]
    assert error_bars.of_members(members[0], bars) is made[members[0]]


@pytest.mark.parametrize("queries", [1, 7, 300])
@pytest.mark.parametrize("level", [0.5, 0.95])
def test_the_bound_of_the_worst_shares_the_risk_among_all_queries(queries, level):
    _, synthesis = run(8, 2)
    bars = synthesis.predicted_error(PairKernels(2, seed=1, n_queries=queries), level)
    # What is added to a bound besides the noise is there in both.
    offset = bars.bound - stats.norm.ppf((1.0 + level) / 2.0) * bars.deviation
    assert offset.min() > -1e-12
    each = offset + stats.norm.ppf(1.0 - (1.0 - level) / (2.0 * queries)) * bars.deviation
    np.testing.assert_allclose(bars.worst, each.max(axis=0), rtol=1e-9)


@pytest.mark.nightly
def test_more_noise_gives_wider_bounds():
    small, large = (run(7, 3, n=n)[1].predicted_error(SecondMoments(3)) for n in (20_000, 200))
    assert (small.deviation < large.deviation).all()


def test_what_the_fit_did_not_reach_is_added():
    X = dependent(20_000, 2, 4)
    lazy = dataclasses.replace(FAST, fit="cloud", points=None, iterations=80, weigh=False, copula=False)
    with pytest.warns(FitWarning, match="do not fit"):
        synthesis = synthesize(X, Schema.cube(2), Budget(1.0, 1e-6), lazy, np.random.default_rng(4))
    bars = synthesis.predicted_error(SecondMoments(2))
    errors = SecondMoments(2).errors(X, synthesis.distribution)
    # The columns are taken as independent, and the fit tells that it missed x_1 x_2 by far.
    assert errors[1] > 6 * bars.deviation[1]
    assert errors[1] <= bars.bound[1]


def test_the_minimax_release_has_error_bars_too():
    X = dependent(600, 2, 4)
    synthesis = synthesize(X, Schema.cube(2), Budget(1.0, 1e-6), minimax(1.0, max_functions=80),
                           np.random.default_rng(4))
    bars = synthesis.predicted_error(SecondMoments(2), 0.9999)
    assert (SecondMoments(2).errors(X, synthesis.distribution) <= bars.bound).all()


@pytest.mark.parametrize("level", [0.0, 1.0, -0.5, 1.5, np.nan])
def test_a_level_is_a_probability(level):
    _, synthesis = run(5, 3)
    with pytest.raises(InputError, match="level must be between 0 and 1"):
        synthesis.predicted_error(SecondMoments(3), level)


def test_a_workload_of_another_width_is_refused():
    _, synthesis = run(5, 3)
    with pytest.raises(InputError, match="has 4 columns, but the release has 3"):
        predicted_error(SecondMoments(4), synthesis.release, synthesis.fit)


def test_the_mechanisms_of_the_thesis_have_no_error_bars():
    _, synthesis = run(5, 2, delta=0.0, mechanism=TrigI(degree=2, grid=4))
    with pytest.raises(InputError, match="not available for a fit by a linear program, as the thesis's"):
        synthesis.predicted_error(SecondMoments(2))
    with pytest.raises(InputError, match="a release of moments: it has no error bars, because a linear"):
        synthesis.error_bars(lambda table: 0.0)


# Three columns whose values are missing together, which the fit of the time has nowhere.
TOGETHER = Schema([Column(name, -1.0, 1.0, missing="keep") for name in "abc"])
MISSING = MomentMechanism(points=2000, iterations=20, degree=4, pair_degree=2, triples=False)


def never_missing(objective, rows, *_, **__):
    """Rows that stay as they start, but for their missing values, of which the indicators come first."""
    rows[rows == 0] = 1
    return FittedRows(rows, 0.0, 0)


@cache
def missed():
    """Of some runs: the encoded table and the release."""
    found = []
    for seed in range(8):
        rng = np.random.default_rng([seed, 5])
        z = rng.standard_normal((20_000, 3))
        z[:, 1] = 0.95 * z[:, 0] + 0.3 * z[:, 1]
        rows = np.clip(0.25 * z, -1.0, 1.0)
        rows[rng.random(len(rows)) < 0.03] = np.nan
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(CompiledObjective, "descend", never_missing)
            with pytest.warns(FitWarning, match="the points do not fit the released numbers"):
                made = synthesize(rows, TOGETHER, Budget(30.0, 1e-6), MISSING, np.random.default_rng([seed, 6]))
        found.append((TOGETHER.to_cube(rows), made))
    return found


@pytest.mark.nightly
def test_error_bars_hold_what_the_fit_missed():
    held, noise_alone, frequencies, by_noise = [], [], [], []
    for X, made in missed():
        numbers = list(made.schema.domain.numbers)
        points = Distribution(made.distribution.points[:, numbers], made.distribution.weights)
        for workload in (SecondMoments(3), Polynomials(3, 2, 40, seed=0)):
            bars, errors = made.predicted_error(workload), workload.errors(X[:, numbers], points)
            held.append((errors <= bars.bound).mean())
            noise_alone.append((errors <= stats.norm.ppf(0.975) * bars.deviation).mean())
        features, scales = made.release.features, made.release.deviations
        errors = np.abs(features.means(made.distribution.points) - features.means(X))
        one = np.flatnonzero((features.basis.index[:, [1, 3, 5]].sum(axis=1) == 1) & (
            features.basis.index.sum(axis=1) == 1))
        bounds = np.abs(missed_moments(made.release, made.fit)[0]) + 1.96 * scales
        frequencies.append((errors <= bounds)[one].mean())
        by_noise.append((errors <= 1.96 * scales)[one].mean())
    assert np.mean(held) > 0.93
    assert np.mean(frequencies) > 0.9
    # The planted fault, and the report's of the time: noise as all that there is.
    assert np.mean(noise_alone) < 0.7
    assert np.mean(by_noise) < 0.5


@pytest.mark.nightly
def test_a_target_that_was_refuted_is_not_believed():
    X, made = missed()[0]
    numbers = made.schema.domain.numbers
    # As if the descent had been led to where its points are.
    led = dataclasses.replace(made.fit, target=made.release.features.means(made.fit.points))
    errors = SecondMoments(3).errors(X[:, numbers], Distribution(made.fit.points[:, numbers], made.fit.weights))
    bars = predicted_error(SecondMoments(3), made.release, led)
    far = errors > 5.0 * bars.deviation
    assert far.any()
    assert (errors <= bars.bound)[far].all()


@pytest.mark.usefixtures("unpainted")
def test_a_miss_is_told_everywhere(tmp_path):
    _, made = missed()[0]
    made.save(tmp_path / "made.tm")
    for each in (made, load(tmp_path / "made.tm")):
        (said,) = each.warnings
        assert "standard deviations" in said
        assert said in str(each)
    page = report.write(made, tmp_path / "page.html").read_text(encoding="utf-8")
    assert "The points do not fit the release" in page
    assert "Error of the points" in page
    _, fine = run(5, 3)
    assert fine.warnings == ()
    assert "WARNING" not in repr(fine)
    assert "points do not fit" not in report.write(fine, tmp_path / "fine.html").read_text(encoding="utf-8")


def test_a_warning_never_loses_a_release():
    X = dependent(2_000, 2, 4)
    lazy = MomentMechanism(degree=4, pair_degree=2, fit="cloud", weigh=False, copula=False)
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("error")
        made = synthesize(X, Schema.cube(2), Budget(100.0, 1e-6), lazy, np.random.default_rng(4))
    assert made.fit.missed
    assert [each.category for each in shown] == [FitWarning]
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("ignore")
        synthesize(X, Schema.cube(2), Budget(100.0, 1e-6), lazy, np.random.default_rng(4))
    assert shown == []


@pytest.mark.nightly
@pytest.mark.parametrize("fit", ["cloud", "rows"])
def test_products_beyond_the_planned_degrees_are_in_the_bounds_where_noise_is_small(fit):
    """Polynomials of degree 20 have pairs of degrees above 8, of which nothing is measured."""
    rng = np.random.default_rng(0)
    table = rng.uniform(-1.0, 1.0, (400, 2))
    family = Polynomials(2, 20, 50, seed=1)
    made = synthesize(table, Schema.cube(2), Budget(1e3), MomentMechanism(workload=family, fit=fit),
                      np.random.default_rng(1))
    answers = made.query(family)
    inside = np.abs(family.answers(table) - answers.values) <= answers.error.bound
    assert inside.mean() >= 0.9
