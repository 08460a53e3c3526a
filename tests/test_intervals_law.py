"""The rule of combined estimates, term by term, where the rows of a fit and those of the table differ in number."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

import trigmech as tm
from trigmech.inference.imputations import Imputations
from trigmech.inference.regression import _combined

SCHEMA = tm.Schema([tm.Column("x", 0, 1), tm.Column("y", 0, 1)])


def imputations(population, n=5_000, m=5, half=30, white=0.0):
    points = np.random.default_rng(0).uniform(-1.0, 1.0, (m, 2, half, 2))
    return Imputations(SCHEMA, n, points, white, population)


@pytest.mark.parametrize("population", [False, True])
@pytest.mark.parametrize("white", [0.0, 0.003])
def test_what_a_sample_adds_is_by_the_rows_of_the_table_and_not_of_a_fit(population, white):
    made, whole = imputations(population, white=white), np.array([1.0, 1.4, 0.7, 1.1, 0.9])
    assert (made.rows, made.n) == (60, 5_000)
    halves = whole[:, None] + np.array([[-0.1, 0.1], [0.2, -0.2], [0.1, 0.1], [-0.3, 0.1], [0.0, 0.2]])
    found = made.combined(whole, halves, 0.9)
    between = ((whole - whole.mean()) ** 2).sum() / 4
    left_open = sum((one - other) ** 2 for one, other in halves) / 5 / 4
    untold = 60 * left_open * white + (60 * left_open / 5_000 if population else 0.0)
    variance = between / 5 + max(between - left_open, 0.0) + untold
    assert found.deviation == pytest.approx(np.sqrt(variance), rel=1e-12)
    assert found.untold == pytest.approx(untold / variance, rel=1e-12)
    reach = np.sqrt(variance) * stats.t.ppf(0.95, 4)
    assert (found.low, found.high) == pytest.approx((1.02 - reach, 1.02 + reach), rel=1e-12)


def test_p_values_have_one_degree_of_freedom_less_than_there_are_tables():
    made = imputations(True)
    model = SimpleNamespace(names=("Intercept", "x"), family="gaussian", formula=SimpleNamespace(columns={}))
    rng = np.random.default_rng(1)
    whole = np.array([0.3, 0.05]) + 0.1 * rng.normal(size=(5, 2))
    halves = whole[:, None] + 0.1 * rng.normal(size=(5, 2, 2))
    # The second coefficient has no fit in a table: four are left, which are enough at a level of 0.8.
    whole[2, 1] = np.nan
    found, strict = (_combined(made, model, "y ~ x", whole, halves, np.full((5, 2), 0.1), np.zeros((0, 3, 2)), level)
                     for level in (0.8, 0.95))
    assert np.isnan([strict.low, strict.high, strict.p]).tolist() == [[False, True]] * 3
    for k, tables in enumerate((5, 4)):
        t = found.values[k] / found.deviations[k]
        assert found.p[k] == pytest.approx(2.0 * stats.t.sf(abs(t), tables - 1), rel=1e-9)
        reach = found.deviations[k] * stats.t.ppf(0.9, tables - 1)
        assert (found.low[k], found.high[k]) == pytest.approx((found.values[k] - reach, found.values[k] + reach))
    # What a plain regression of so many rows as the private table has would say.
    assert found.naive.tolist() == pytest.approx([0.1 * np.sqrt(60 / 5_000)] * 2)


def test_progress_counts_tables_up_to_their_number():
    rows = np.random.default_rng(0).random((40, 2))
    made = tm.synthesize(rows, SCHEMA, tm.Budget(1.0, 1e-6), tm.TableMechanism(points=64), np.random.default_rng(0))
    told = []
    assert len(made.imputations(3, progress=lambda *step: told.append(step))) == 3
    assert told == [("imputations", k, 3) for k in (1, 2, 3)]


def covered(true, found, part=1.0):
    """The share of truths within a part of the half widths."""
    return float(np.mean(np.abs(true - found.value) <= part * 0.5 * (found.high - found.low)))


@pytest.mark.parametrize("level", [0.8, 0.95])
@pytest.mark.parametrize("m", [3, 20])
def test_intervals_hold_numbers_of_the_tables_law_at_exactly_their_level(m, level):
    """Injected numbers: truth and tables have one normal law, so the error over its deviation has Student's t law."""
    count, rng = 100_000, np.random.default_rng(7)
    true, *whole = 3.0 + 2.0 * rng.normal(size=(m + 1, count))
    whole = np.array(whole)
    found = imputations(True, m=m).combined(whole, np.stack([whole, whole], axis=1), level)
    four = 4.0 * np.sqrt(level * (1.0 - level) / count)
    assert abs(covered(true, found) - level) < four
    # Error bars a fifth narrower are found out at once, and ones a twentieth narrower, too.
    narrower = 2.0 * stats.t.cdf(0.8 * stats.t.ppf(0.5 + level / 2, m - 1), m - 1) - 1.0
    assert abs(covered(true, found, 0.8) - narrower) < four
    assert level - covered(true, found, 0.8) > 8.0 * four
    assert level - covered(true, found, 0.95) > four


def test_what_tables_leave_open_and_the_bias_of_fits_are_held_too():
    """Injected numbers: rows add noise to tables, the truth has as much as the undetermined part says, and fits are
    off by a bias of random sign."""
    count, rng, m, n, white, half = 50_000, np.random.default_rng(8), 20, 400, 0.01, 30
    made = imputations(True, n=n, m=m, half=half, white=white)
    middle, per_row = rng.normal(size=count), 9.0
    halves = (middle + rng.normal(size=(m, 1, count)) + np.sqrt(per_row / half) * rng.normal(size=(m, 2, count)))
    off = 1.5 * rng.choice([-1.0, 1.0], count)
    true = middle + rng.normal(size=count) + np.sqrt(per_row * (white + 1.0 / n)) * rng.normal(size=count) + off
    found = made.combined(halves.mean(axis=1), halves, again=np.array([[0.0 * off, off, off]]))
    # Two values of a bias are nearer to each other than normal ones, so intervals are a little wide.
    assert 0.95 < covered(true, found) < 0.99
    without = made.combined(halves.mean(axis=1), halves)
    assert covered(true, without) < 0.85
    # What rows alone do: without noise of the release, the undetermined part is all of the variance.
    halves = middle + np.sqrt(per_row / half) * rng.normal(size=(m, 2, count))
    true = middle + np.sqrt(per_row * (white + 1.0 / n)) * rng.normal(size=count)
    found = made.combined(halves.mean(axis=1), halves)
    assert covered(true, found) > 0.95
    assert covered(true, found, 0.4) < 0.9


def test_what_is_left_open_is_not_counted_again_as_a_bias():
    """Injected rehearsals without bias: the table and both fits are independent draws of what is left open."""
    rng, n, white, half, per_row = np.random.default_rng(11), 400, 0.02, 30, 9.0
    count, made = 4_000, imputations(True, n=n, half=half, white=white, m=20)
    halves = np.sqrt(per_row / half) * rng.normal(size=(20, 2, count))
    again = np.sqrt(0.5 * white * per_row) * rng.normal(size=(2, 3, count))
    whole, without = halves.mean(axis=1), made.combined(halves.mean(axis=1), halves)
    found = made.combined(whole, halves, again=again)
    more = float(np.mean(found.deviation**2) / np.mean(without.deviation**2))
    # Squares of two draws, less their mean: what is above 0 has a mean of about .37 of it, which is .22 of the whole.
    assert 1.05 < more < 1.35
    k = np.arange(3)
    covariance = made._covariance(whole[:, k], halves[:, :, k], again[:, :, k])
    alone = made._covariance(whole[:, k], halves[:, :, k], np.zeros((0, 3, 3)))
    assert (np.linalg.eigvalsh(covariance - alone) > -1e-12).all()


def weighted_rows(delta):
    rows = np.random.default_rng(1).random((500, 2))
    rows[:, 1] = 0.5 * rows[:, 0] + 0.5 * rows[:, 1]
    return tm.synthesize(rows, SCHEMA, tm.Budget(2.0, delta), rng=np.random.default_rng(1)).weighted()


@pytest.mark.daily("0.0")
@pytest.mark.parametrize("delta", [1e-6, 0.0])
def test_closed_intervals_hold_tables_of_the_prior_s_law_at_exactly_their_level(delta):
    """Injected numbers: tables are weights drawn before the release is looked at, and their releases have its noise."""
    made = weighted_rows(delta)
    posterior, rng, count = made.posterior, np.random.default_rng(9), 4_000
    prior = rng.normal(size=(posterior.m + posterior._values.shape[1], count))
    tables = posterior._weights(prior)
    released = posterior.equations.forward(prior) + rng.normal(size=(len(posterior._residual), count))
    estimates = posterior._weights(posterior.equations.solve(posterior.equations.backward(released)))
    psi = np.column_stack([posterior.points, posterior.points[:, 0] * posterior.points[:, 1],
                           rng.normal(size=posterior.m)])
    psi -= psi.mean(axis=0)
    without = replace(made, rehearsed=np.zeros((0, 3, 0, 2)))
    found = without.interval(np.zeros(psi.shape[1]), psi, population=False)
    errors, half = np.abs(psi.T @ (estimates - tables)), found.high[:, None]
    four = 4.0 * np.sqrt(0.95 * 0.05 / count)
    assert np.abs(np.mean(errors <= half, axis=1) - 0.95).max() < four
    narrower = np.mean(errors <= 0.8 * half, axis=1)
    assert (0.95 - narrower > 2.5 * four).all()


def test_a_test_of_several_numbers_has_its_level_and_is_the_interval_s_for_one():
    """Injected numbers: where all numbers are 0 in truth, p-values are even."""
    rng, m, made = np.random.default_rng(10), 12, imputations(True, m=12)
    root = np.array([[1.0, 0.0, 0.0], [0.8, 0.5, 0.0], [0.1, 0.2, 2.0]])

    def p_of(whole):
        halves = np.stack([whole, whole], axis=1)
        object.__setattr__(made, "_found", lambda statistic: (whole, halves, np.zeros((0, 3, *whole.shape[1:]))))
        return made.p_value(np.mean)

    found = []
    for _ in range(2_000):
        whole = (rng.normal(size=(m, 3)) + rng.normal(size=3)) @ root.T
        found.append(p_of(whole))
    assert stats.kstest(found, "uniform").pvalue > 1e-3
    # Tests that take the errors for a fifth smaller do not pass this.
    distance = stats.f.isf(found, 3, m - 3)
    assert stats.kstest(stats.f.sf(distance / 0.8**2, 3, m - 3), "uniform").pvalue < 1e-9
    whole = rng.normal(0.9, 1.0, size=(m, 1))
    one = made.combined(whole, np.stack([whole, whole], axis=1), level=1.0 - p_of(whole))
    assert min(abs(float(one.low[0])), abs(float(one.high[0]))) < 1e-9
    assert p_of(whole + 30.0) < 1e-8


@pytest.mark.daily("2-20")
@pytest.mark.parametrize(("k", "m"), [(1, 20), (2, 20), (1, 10)])
def test_tests_on_paired_tables_count_what_the_estimate_varies_by_and_no_more(k, m):
    """Injected numbers: estimates that vary by noise alone, and tables that also vary by what is not told."""
    rng, made = np.random.default_rng(11), replace(imputations(True, m=m), paired=True)
    root = np.array([[1.0, 0.0], [0.8, 0.5]])[:k, :k]
    found, wide = [], []
    for _ in range(2_000):
        open_ = 1.5 * rng.normal(size=(m // 2, k))
        whole = (rng.normal(size=(m, k)) + np.concatenate([open_, -open_]) + rng.normal(size=k)) @ root.T
        halves = np.stack([whole, whole], axis=1)
        for each, tables in ((found, made), (wide, replace(made, paired=False))):
            each.append(tables.tested(whole, halves, np.zeros((0, 3, k))))
    assert stats.kstest(found, "uniform").pvalue > 1e-3
    assert np.mean(np.array(wide) < 0.05) < 0.01
    # Tests that take the errors for a fifth smaller do not pass this.
    freedom = m // 2 - k
    distance = stats.f.isf(found, k, freedom)
    assert stats.kstest(stats.f.sf(distance / 0.8**2, k, freedom), "uniform").pvalue < 1e-9


def test_tests_on_pairs_count_the_bias_at_zero_and_what_no_function_tells():
    made = replace(imputations(True, m=12, white=0.002), paired=True)
    rng = np.random.default_rng(12)
    whole, again = rng.normal(0.5, 1.0, size=(12, 1)), np.array([[[1.0], [0.3], [0.5]]])
    halves = whole[:, None] + 0.2 * rng.normal(size=(12, 2, 1))
    sums = 0.5 * (whole[:6, 0] + whole[6:, 0])
    between, open_ = 2.0 * sums.var(ddof=1), 0.25 * np.mean((halves[:, 0] - halves[:, 1]) ** 2)
    variance = between / 12 + between - open_ + 60 * open_ * (0.002 + 1 / 5_000)
    for rehearsed, more in ((np.zeros((0, 3, 1)), 0.0), (again, 0.4**2 - 0.75 * 60 * open_ * 0.002),
                            (again + np.nan, 0.0)):
        t = whole.mean() / np.sqrt(variance + more)
        assert made.tested(whole, halves, rehearsed) == pytest.approx(2.0 * stats.t.sf(abs(t), 5), rel=1e-9)
    # Pairs of which a table is missing, and as many numbers as there are pairs, count all that intervals do.
    for own, halved in ((whole[1:], halves[1:]), (rng.normal(size=(12, 5)), rng.normal(size=(12, 2, 5)))):
        rest = np.zeros((0, 3, own.shape[1]))
        assert made.tested(own, halved, rest) == replace(made, paired=False).tested(own, halved, rest)


@pytest.mark.parametrize("statistic", [lambda table: [], lambda table: [1.0, 2.0], lambda table: np.arange(4.0),
                                       lambda table: [np.mean(table["x"])] * 2, lambda table: np.nan,
                                       lambda table: 0.1, lambda table: 1.0 + 1e-12 * np.mean(table["x"]),
                                       lambda table: [np.mean(table["x"]), 0.1],
                                       lambda table: [np.mean(table["x"]), 1.0 - np.mean(table["x"])]])
def test_tests_that_have_no_answer_are_refused(statistic):
    with pytest.raises(tm.InputError):
        imputations(True).p_value(statistic)


@pytest.mark.nightly  # By day tables of the law itself are held, above.
def test_a_coefficient_is_held_beside_a_covariate_that_it_goes_with():
    """Leaving the covariate out would move the coefficient from .5 to .92, which the intervals tell apart."""
    schema = tm.Schema([tm.Column("x", -4, 4), tm.Column("c", -4, 4), tm.Column("y", -8, 8)])
    held, far, alone = 0, 0, 0
    for seed in range(4):
        rng = np.random.default_rng(seed)
        x, e = rng.normal(size=(2, 2_000))
        c = 0.7 * x + 0.51**0.5 * e
        table = np.column_stack([x, c, 0.5 * x + 0.6 * c + 0.7 * rng.normal(size=2_000)])
        made = tm.synthesize(np.clip(table, [-4, -4, -8], [4, 4, 8]), schema, tm.Budget(2.0, 1e-6),
                             rng=np.random.default_rng(seed))
        tables = made.imputations(6)
        with_it, without = (made.regression(formula, imputations=tables) for formula in ("y ~ x + c", "y ~ x"))
        k = with_it.names.index("x")
        held += with_it.low[k] <= 0.5 <= with_it.high[k]
        far += with_it.high[k] < 0.92
        alone += without.low[1] <= 0.92 <= without.high[1]
    # Of 4 intervals of 95 %, fewer than 3 hold in one of 70 times.
    assert held >= 3
    assert alone >= 3
    assert far >= 3


def test_a_rehearsal_with_a_constant_column_says_nothing_about_a_correlation():
    made = replace(imputations(True, m=24), rehearsed=np.random.default_rng(1).uniform(-1.0, 1.0, (2, 3, 30, 2)))

    def correlation(table):
        return np.corrcoef(table["x"], table["y"])[0, 1:]

    def constant(rehearsed):
        rehearsed = rehearsed.copy()
        rehearsed[1, 2, :, 0] = -1.0
        return rehearsed

    # All columns vary in the first rehearsal, and in the second one the last fit has a constant.
    found = replace(made, rehearsed=constant(made.rehearsed)).estimate(correlation)
    alone = replace(made, rehearsed=made.rehearsed[:1]).estimate(correlation)
    np.testing.assert_allclose([found.value, found.deviation], [alone.value, alone.deviation], rtol=1e-12)
    assert 0.0 < replace(made, rehearsed=constant(made.rehearsed)).p_value(correlation) < 1.0
    # A table is no rehearsal.
    with np.errstate(invalid="ignore"), pytest.raises(tm.InputError, match="finite numbers"):
        replace(made, points=np.concatenate([made.points[:, :1], made.points[:, 1:] * [0.0, 1.0]], axis=1)).estimate(
            lambda table: correlation({name: values[-30:] for name, values in table.items()}))
