"""Weights, imputations and estimates against dense algebra, laws of made populations, and hostile input."""

import warnings
from dataclasses import replace
from functools import lru_cache

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy import stats

import trigmech as tm
from trigmech.functions.partition import Partition
from trigmech.functions.released_column import ReleasedColumn
from trigmech.inference.drawing import _exchanged, tilted
from trigmech.inference.estimate import at_zero
from trigmech.inference.imputations import Imputations
from trigmech.inference.posterior import RELATED, SMOOTH, Posterior
from trigmech.inference.projection import projections, smooth
from trigmech.inference.rehearsing import rehearsed_white
from trigmech.inference.smooth import MOST_PRODUCTS, SmoothFunctions
from trigmech.reconstruction.tables import cells_of_columns

SCHEMA = tm.Schema([tm.Column("age", 0, 100, "integer"), tm.Column("pay", -4, 4, missing="keep"),
                    tm.Column("town", kind="categorical", categories=("a", "b", "c"))])


def table_of(n, seed):
    rng = np.random.default_rng(seed)
    pay = rng.normal(size=n).clip(-4, 4)
    return pd.DataFrame({"age": (50 + 12 * pay + 8 * rng.normal(size=n)).clip(0, 100).round(),
                         "pay": np.where(rng.random(n) < 0.1, np.nan, pay),
                         "town": rng.choice(["a", "b", "c"], n, p=[0.6, 0.3, 0.1])})


@lru_cache
def release(delta=1e-6, n=600, epsilon=2.0, seed=0):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return tm.synthesize(table_of(n, seed), SCHEMA, tm.Budget(epsilon, delta), rng=np.random.default_rng(seed))


def dense(posterior):
    """The design of the least-squares problem, from what is taken of each measurement's own definition."""
    rows, vectors, wanted = posterior.points, [], []
    for each, measured in zip(projections(posterior.release), posterior.release.known, strict=True):
        values = each.query.evaluate(rows)
        if each.sums is None:
            made = np.column_stack([each.query.encode(row.reshape(each.query.shape)).ravel() for row in values])
            wanted.append(measured.known.ravel() / measured.deviation)
        else:
            made = each.sums.toarray() @ values.T
            wanted.append(each.sums.toarray() @ measured.means.ravel() / measured.deviation)
        vectors.append(made / measured.deviation)
    A, y = np.vstack(vectors), np.concatenate(wanted)
    m = len(rows)
    smooth = posterior.smooth.evaluate(posterior.codes)
    beside = []
    for j, cells in cells_of_columns(posterior.release).items():
        if posterior.release.columns[j].partition.value is not None:
            number, own = posterior.smooth.features[j][posterior.codes[:, j], 0], cells[posterior.codes[:, j]]
            beside.append(number - np.array([number[own == cell].mean() for cell in own]))
    within = [a * b / np.sqrt(np.mean(a**2 * b**2)) for i, a in enumerate(beside) for b in beside[:i]]
    single = posterior.smooth.size - len(posterior.smooth.factors)
    sizes = np.concatenate([SMOOTH * posterior.smooth.deviations[:single],
                            RELATED * posterior.smooth.deviations[single:], np.full(len(within), SMOOTH)])
    smooth = np.column_stack([smooth, *within])
    smooth = smooth - smooth.mean(axis=0)
    prior = posterior.white / m * np.eye(m)
    prior += (smooth * sizes**2) @ smooth.T / m**2
    centre = np.eye(m) - 1.0 / m
    prior = centre @ prior @ centre
    gain = prior @ A.T @ np.linalg.inv(A @ prior @ A.T + np.eye(len(A)))
    return A, y, prior, gain


@pytest.fixture(scope="module", params=[1e-6, 0.0])
def small(request):
    made = release(request.param)
    rows = made.distribution.points[np.random.default_rng(0).choice(len(made.distribution.points), 150, replace=False)]
    return Posterior(made.release, rows, 0.004)


def test_weights_are_the_normal_posterior_mean(small):
    A, y, _, gain = dense(small)
    even = np.full(150, 1.0 / 150)
    np.testing.assert_allclose(small.weights, even + gain @ (y - A @ even), atol=2e-5)
    assert small.weights.sum() == pytest.approx(1.0)


def test_variances_are_the_posterior_ones_split_by_cause(small):
    A, _, prior, gain = dense(small)
    psi = np.random.default_rng(1).normal(size=(150, 3))
    psi[:, 0] = small.points[:, 0]
    whole = prior - gain @ A @ prior
    found = small.variances(psi)
    np.testing.assert_allclose(found.noise + found.untold, np.einsum("ij,ik,kj->j", psi, whole, psi), rtol=1e-3)
    # The noise's part: what an estimate that uses the same coefficients inherits of it.
    np.testing.assert_allclose(found.noise, np.square(gain.T @ psi).sum(axis=0), rtol=1e-3)


def test_drawn_weights_have_the_posterior_mean_and_variances(small):
    A, _y, prior, gain = dense(small)
    psi = np.column_stack([small.points[:, 0], np.random.default_rng(2).normal(size=150)])
    drawn = psi.T @ small.drawn(600, np.random.default_rng(3), sampled=False)
    expected = np.einsum("ij,ik,kj->j", psi, prior - gain @ A @ prior, psi)
    for own, variance, mean in zip(drawn, expected, psi.T @ small.weights, strict=True):
        assert abs(own.mean() - mean) < 4.0 * np.sqrt(variance / 600)
        low, high = stats.chi2.ppf([1e-4, 1 - 1e-4], 599) / 599
        assert low < own.var(ddof=1) / variance < high


@pytest.mark.parametrize("sampled", [False, True])
def test_sums_of_paired_weights_vary_by_noise_and_sampling_alone(small, sampled):
    A, _y, prior, gain = dense(small)
    psi = np.column_stack([small.points[:, 0], np.random.default_rng(2).normal(size=150)])
    psi -= psi.mean(axis=0)
    own = gain.T @ psi
    sampling = sampled * psi.T @ psi / 150 / small.release.n
    # What each pair has in common and with opposite signs: noise and sampling alone, and with what is not told.
    noise, whole = own.T @ own + sampling, psi.T @ (prior - gain @ A @ prior) @ psi + sampling
    one, other = np.split(psi.T @ small.drawn(1_200, np.random.default_rng(3), sampled, paired=True), 2, axis=1)
    low, high = stats.chi2.ppf([1e-5, 1 - 1e-5], 599) / 599
    for found, expected in (((one + other) / np.sqrt(2.0), noise), ((one - other) / np.sqrt(2.0), 2.0 * whole - noise),
                            (one, whole), (other, whole)):
        ratio = found.var(axis=1, ddof=1) / expected.diagonal()
        assert low < ratio.min()
        assert ratio.max() < high
    # What is not told is a good part of it.
    assert (noise.diagonal() < 0.8 * whole.diagonal()).any()


def test_covariances_are_of_noise_and_of_what_is_not_smooth(small):
    A, _y, _prior, gain = dense(small)
    psi = np.random.default_rng(1).normal(size=(150, 3))
    psi[:, 0] = small.points[:, 0]
    psi -= psi.mean(axis=0)
    # The prior variance of each direction is counted by the square of what the estimate leaves of it.
    left = (np.eye(150) - gain @ A).T @ psi
    left -= left.mean(axis=0)
    wanted = (gain.T @ psi).T @ (gain.T @ psi) + small.white / 150 * left.T @ left
    np.testing.assert_allclose(small.covariance(psi), wanted, rtol=2e-3, atol=1e-3 * wanted.diagonal().min())
    assert (small.covariance(psi).diagonal() < np.sum(small.variances(psi), axis=0)).all()


@pytest.mark.parametrize("delta", [1e-6, 0.0])
def test_rows_that_cannot_have_what_was_released_have_wider_deviations(delta):
    """A fit at epsilon 1,000 lacked rows: closed intervals held 124 of 178 values of the table."""
    made = release(delta)
    # Nobody is where half of the table is.
    rows = made.distribution.points[np.argsort(made.distribution.points[:, 0])[:150]]
    posterior = Posterior(made.release, rows, 0.004)
    A, y, prior, gain = dense(posterior)
    off = y - A @ np.full(150, 1.0 / 150)
    square = off @ np.linalg.solve(A @ prior @ A.T + np.eye(len(y)), off) / len(y)
    assert square > 1.0 + 4.0 * np.sqrt(2.0 / len(y))
    assert posterior.strain**2 == pytest.approx(square, rel=1e-4)
    psi = np.column_stack([rows[:, 0], np.random.default_rng(2).normal(size=150)])
    psi -= psi.mean(axis=0)
    wanted = square * np.einsum("ij,ik,kj->j", psi, prior - gain @ A @ prior, psi)
    found = posterior.variances(psi)
    np.testing.assert_allclose(found.noise + found.untold, wanted, rtol=1e-3)
    np.testing.assert_allclose(found.noise, square * np.square(gain.T @ psi).sum(axis=0), rtol=1e-3)
    left = (np.eye(150) - gain @ A).T @ psi
    left -= left.mean(axis=0)
    np.testing.assert_allclose(posterior.covariance(psi), square * (
        (gain.T @ psi).T @ (gain.T @ psi) + 0.004 / 150 * left.T @ left), rtol=1e-3, atol=1e-9)
    drawn = psi.T @ posterior.drawn(600, np.random.default_rng(3), sampled=False)
    low, high = stats.chi2.ppf([1e-4, 1 - 1e-4], 599) / 599
    for own, variance, mean in zip(drawn, wanted, psi.T @ posterior.weights, strict=True):
        assert abs(own.mean() - mean) < 4.0 * np.sqrt(variance / 600)
        assert low < own.var(ddof=1) / variance < high
    # Sampling is what it is.
    more = psi.T @ (posterior.drawn(600, np.random.default_rng(3), sampled=True)
                    - posterior.drawn(600, np.random.default_rng(3), sampled=False))
    sampling = np.square(psi).mean(axis=0) / made.release.n
    assert ((low < more.var(axis=1) / sampling) & (more.var(axis=1) / sampling < high)).all()


def test_rows_that_have_what_was_released_have_the_prior_s_deviations(small):
    assert small.strain == 1.0
    # A misfit that chance explains is no evidence.
    y = small.equations.y
    for square, strain in ((1.0 + 3.9 * np.sqrt(2.0 / y), 1.0), (1.0 + 4.1 * np.sqrt(2.0 / y), None)):
        own = Posterior(small.release, small.points, small.white)
        size = float(np.square(small._residual - own.equations.forward(small._middle)).sum()
                     + np.square(small._middle).sum())
        own.__dict__["_residual"] = small._residual * np.sqrt(square * y / size)
        assert own.strain == pytest.approx(np.sqrt(square) if strain is None else strain, rel=1e-4)


def test_a_population_varies_by_a_sample_of_n_rows_more(small):
    psi = np.random.default_rng(4).normal(size=150)
    psi -= psi.mean()
    both = [psi @ small.drawn(1, np.random.default_rng(5), sampled=sampled) for sampled in (True, False)]
    more = np.concatenate([psi @ (small.drawn(40, np.random.default_rng(seed), sampled=True)
                                  - small.drawn(40, np.random.default_rng(seed), sampled=False))
                           for seed in range(20)])
    assert both[0] != both[1]
    low, high = stats.chi2.ppf([1e-4, 1 - 1e-4], 800) / 800
    assert low < more.var() / ((psi**2).mean() / small.release.n) < high


@pytest.mark.parametrize("delta", [1e-6, 0.0])
def test_sums_have_independent_noise_of_the_stated_deviation(delta):
    # Without delta, little of it leaves so much noise that contrasts are measured in place of tables.
    made = release(delta, epsilon=2.0 if delta else 0.5).release
    kinds = set()
    for each, measured in zip(projections(made), made.known, strict=True):
        if each.sums is None:
            continue
        kinds.add(type(each.query).__name__)
        sums = each.sums.toarray()
        np.testing.assert_allclose(sums @ measured.covariance @ sums.T, each.deviation**2 * np.eye(len(sums)),
                                   atol=1e-9 * each.deviation**2)
        assert len(sums) <= int(np.prod(each.query.shape))
    assert {"Contrasts", "Products"} <= kinds if delta == 0.0 else {"PrefixSums", "Marginal"} <= kinds


def test_smooth_functions_of_cells_tell_what_is_asked_most():
    """Numbers, their squares and every category are sums of them."""
    number = ReleasedColumn(Partition((0,), 1, np.linspace(-1, 1, 21)), np.full(21, 1.0 / 21), 0.01)
    cells = np.concatenate([[0], 1 + np.arange(20) // 2])
    found = smooth(number, cells, (2, 4))
    np.testing.assert_allclose(found.T @ found, np.eye(found.shape[1]), atol=1e-12)
    middle = np.concatenate([[0.0], number.partition.centres.reshape(10, 2).mean(axis=1)])
    for wanted in (np.ones(11), middle, middle**2, np.eye(11)[0]):
        np.testing.assert_allclose(found @ (found.T @ wanted), wanted, atol=1e-9)
    town = ReleasedColumn(Partition((0, 1, 2), None, np.empty(0)), np.array([0.5, 0.3, 0.2]), 0.01)
    assert smooth(town, np.arange(3), (2, 4)).shape == (3, 3)


def test_tables_of_many_cells_count_by_few_sums():
    """Single cells would confirm rows that the fit has only where noise is positive."""
    found = [each for each in projections(release(1e-6, 5_000, 5.0).release) if each.query.name == "marginal"]
    large = max(found, key=lambda each: each.query.size)
    assert large.query.size > 300
    assert large.sums.shape[0] < 0.25 * large.query.size


def test_the_bias_of_rehearsals_widens_intervals():
    made = Imputations(SCHEMA, 100, np.zeros((4, 2, 50, SCHEMA.domain.d)), 0.03, True)
    whole, halves = np.array([1.0, 2.0, 4.0, 3.0]), np.array([[1.0, 1.4], [2.1, 1.9], [4.0, 4.4], [3.0, 3.2]])
    without = made.combined(whole, halves)
    # Biases of 1 and -3; one rehearsal says nothing.
    found = made.combined(whole, halves, again=np.array([[5.0, 8.0, 4.0], [2.0, -1.0, -1.0], [np.nan, 1.0, 1.0]]))
    assert float(found.value) == float(without.value)
    # Three quarters of what is left open, 100 r times .03, are no bias.
    r = np.square(halves[:, 0] - halves[:, 1]).mean() / 4
    assert float(found.deviation) ** 2 == pytest.approx(float(without.deviation) ** 2 + (1.0 + 9.0) / 2.0
                                                        - 0.75 * 100 * r * 0.03)
    # Fits that differ by noise alone show no bias.
    assert float(made.combined(whole, halves, again=[[5.0, 8.0, 2.0]]).deviation) == float(without.deviation)


def test_both_releases_of_a_rehearsal_have_opposite_noise():
    from trigmech.mechanisms.rehearsal import _Rehearsal
    from trigmech.privacy.budget import Charge

    charge, values = Charge("x", "gaussian", 1.0, 0.1, "L2", 1, "a test"), np.linspace(0.0, 1.0, 50)
    one, other = (_Rehearsal(np.random.default_rng(3), turned).draw(values, charge) for turned in (False, True))
    assert np.abs(one - values).max() > 0.01
    np.testing.assert_allclose(one + other, 2.0 * values, atol=1e-12)


def test_biases_are_those_of_the_rehearsed_smooth_table():
    made = imputed()
    # The rehearsal of the fit hides what the fit has lost already.
    both = release()._rehearsed
    assert both.shape[:2] == (2, 3)
    assert made.rehearsed.shape[:2] == (1, 3)
    np.testing.assert_array_equal(release().weighted().rehearsed, both[:1])
    table, one, other = made.rehearsals(0)
    assert len(table["age"]) == len(one["age"]) == len(other["age"])
    assert not np.array_equal(one["age"], other["age"])
    assert abs(float(np.mean(table["age"])) - 50.0) < 6.0


@pytest.mark.parametrize("far", [1e300, 1e120])
def test_far_noise_leaves_weights_finite(small, far):
    made = replace(small.release, measurements=tuple(replace(each, values=each.known + far, noise=1e-12)
                                                     for each in small.release.measurements))
    weights = Posterior(made, small.points, 0.004).weights
    assert np.isfinite(weights).all()
    assert np.abs(weights).max() < 1e9


@pytest.mark.parametrize(("partition", "mass"), [
    (Partition((0, 1, 2), None, np.empty(0)), [0.5, 0.3, 0.2]),
    (Partition((1,), 0, np.linspace(-1, 1, 9)), [0.2, *[0.1] * 8]),
    (Partition((), 0, np.linspace(-1, 1, 9)), [0.0] * 7 + [1.0]),
    (Partition((0,), None, np.empty(0)), [1.0])])
def test_smooth_functions_of_a_column_are_orthonormal(partition, mass):
    made = SmoothFunctions.of([partition], [np.array(mass)])
    values = made.features[0]
    np.testing.assert_allclose(values.T @ (np.array(mass)[:, None] * values), np.eye(values.shape[1]), atol=1e-9)
    np.testing.assert_allclose(np.array(mass) @ values, 0.0, atol=1e-9)
    assert len(made.powers[0]) == values.shape[1] == made.deviations.size


def test_a_number_s_first_function_rises_and_products_are_those_of_two_columns():
    partitions = [Partition((1,), 0, np.linspace(-1, 1, 9)), Partition((2, 3, 4), None, np.empty(0))]
    made = SmoothFunctions.of(partitions, [np.array([0.2, *[0.1] * 8]), np.array([0.5, 0.3, 0.2])])
    assert (np.diff(made.features[0][1:, 0]) > 0).all()
    codes = np.random.default_rng(0).integers(0, [9, 3], (40, 2)).astype(np.int32)
    values = made.evaluate(codes)
    assert values.shape == (40, made.size)
    assert made.size == len(made.deviations)
    singles = made.features[0].shape[1] + made.features[1].shape[1]
    for k, (a, b, i, j) in enumerate(made.factors.tolist()):
        np.testing.assert_array_equal(values[:, singles + k],
                                      made.features[a][codes[:, a], i] * made.features[b][codes[:, b], j])
    assert {(a, b) for a, b, *_ in made.factors.tolist()} == {(0, 1)}


@pytest.mark.parametrize(("indicators", "special"), [((1,), [0.9]), ((1, 2), [0.3, 0.6]), ((1, 2, 3), [0.1, 0.3, 0.5])])
def test_functions_of_ordinary_numbers_say_nothing_of_special_values(indicators, special):
    k = len(indicators)
    mass = np.array([*special, *(1.0 - sum(special)) * np.arange(1.0, 17.0) / 136.0])
    made = SmoothFunctions.of([Partition(indicators, 0, np.linspace(-1, 1, 17))], [mass])
    at_special, inside = np.split(made.features[0], [k])
    # k functions are of frequencies alone: constant inside. All others are of numbers: 0 at each special value.
    frequencies = np.ptp(inside, axis=0) < 1e-9
    assert frequencies.sum() == k
    np.testing.assert_allclose(at_special[:, ~frequencies], 0.0, atol=1e-9)
    assert (~frequencies).sum() > 2
    # Among the products' factors are two powers and the most frequent special value.
    assert frequencies[: made.joint[0]].tolist() == [False, False, True]


@pytest.mark.parametrize("d", [20, 60, 90])
def test_wide_tables_have_a_limited_number_of_products(d):
    partitions = [Partition((), j, np.linspace(-1, 1, 5)) for j in range(d)]
    made = SmoothFunctions.of(partitions, [np.full(4, 0.25)] * d)
    assert len(made.factors) <= MOST_PRODUCTS
    assert (len(made.factors) > 0) == (d < 70)


def test_tilted_probabilities_have_the_moments_and_differ_least():
    rng = np.random.default_rng(0)
    mass = rng.dirichlet(np.ones(30))
    values = SmoothFunctions.of([Partition((), 0, np.linspace(-1, 1, 31))], [mass]).features[0][:, :3]
    moments = np.array([0.3, -0.2, 0.1])
    p = tilted(mass, values, moments)
    assert (p >= 0.0).all()
    assert p.sum() == pytest.approx(1.0)
    np.testing.assert_allclose(values.T @ p, moments, atol=2e-3)
    # Of all with these moments it has the least divergence: no exchange that keeps them lowers it.
    null = np.linalg.svd(np.vstack([np.ones(30), values.T]))[2][4:]
    slope = np.log(p / mass) + 1.0
    assert np.abs(null @ slope).max() < 1e-6


@pytest.mark.parametrize("moments", [[50.0, 0.0, 0.0], [0.0, -30.0, 1e6], [1e300, 0.0, 0.0]])
def test_moments_that_nothing_has_leave_probabilities(moments):
    mass = np.array([0.0, 0.2, 0.3, 0.5])
    values = np.column_stack([np.arange(4.0), np.arange(4.0) ** 2, np.arange(4.0) ** 3])
    p = tilted(mass, values, np.array(moments))
    assert np.isfinite(p).all()
    assert p.sum() == pytest.approx(1.0)
    assert p[0] == 0.0


@pytest.mark.parametrize("freedom", [1, 2, 3, 4, 19, 20, 99, 400])
@pytest.mark.parametrize("level", [0.1, 0.5, 0.95, 0.9999])
def test_quantiles_of_student_s_t_are_scipy_s(freedom, level):
    from trigmech.inference.estimate import within

    assert within(freedom, level) == pytest.approx(stats.t.ppf(0.5 * (1.0 + level), freedom), rel=1e-8)


def test_combine_is_rubin_s_rule():
    estimates, variances = np.array([1.0, 2.0, 4.0, 3.0]), np.array([0.5, 0.4, 0.6, 0.5])
    b, u = estimates.var(ddof=1), variances.mean()
    found = tm.combine(estimates, variances, 0.9)
    total = 1.25 * b + u
    freedom = 3 * (1.0 + u / (1.25 * b)) ** 2
    assert float(found.deviation) == pytest.approx(np.sqrt(total))
    assert float(found.high - found.low) == pytest.approx(2 * stats.t.ppf(0.95, freedom) * np.sqrt(total))
    assert float(found.value) == 2.5
    assert found.population
    alone = tm.combine(estimates, level=0.9)
    assert float(alone.high - alone.low) == pytest.approx(2 * stats.t.ppf(0.95, 3) * np.sqrt(1.25 * b))
    same = tm.combine([[1.0, 2.0], [1.0, 3.0]], [[0.25, 0.0], [0.25, 0.0]])
    assert same.deviation[0] == 0.5
    assert float(same.high[0] - same.value[0]) == pytest.approx(0.5 * stats.norm.ppf(.975))


@pytest.mark.parametrize("arguments", [([1.0],), (1.0,), ([1.0, np.nan],), ([1.0, 2.0], [1.0]),
                                       ([1.0, 2.0], [-1.0, 1.0]), ([1.0, 2.0], None, 1.0), (["a", "b"],)])
def test_combine_refuses(arguments):
    with pytest.raises(tm.InputError):
        tm.combine(*arguments)


def test_variances_of_combined_statistics_follow_the_stated_rule():
    made = Imputations(SCHEMA, 100, np.zeros((4, 2, 50, SCHEMA.domain.d)), 0.03, True)
    whole, halves = np.array([1.0, 2.0, 4.0, 3.0]), np.array([[1.0, 1.4], [2.1, 1.9], [4.0, 4.4], [3.0, 3.2]])
    b, r = whole.var(ddof=1), np.square(halves[:, 0] - halves[:, 1]).mean() / 4
    untold = 100 * r * (0.03 + 0.01)
    found = made.combined(whole, halves)
    assert float(found.deviation) == pytest.approx(np.sqrt(b / 4 + b - r + untold))
    assert float(found.untold) == pytest.approx(untold / float(found.deviation) ** 2)
    assert float(found.high - found.value) == pytest.approx(stats.t.ppf(0.975, 3) * float(found.deviation))
    of_table = replace(made, population=False).combined(whole, halves)
    assert float(of_table.deviation) == pytest.approx(np.sqrt(b / 4 + b - r + 3.0 * r))
    # Halves that differ by more than tables do leave no variance below 0.
    apart = made.combined(np.ones(4), np.column_stack([np.zeros(4), np.full(4, 2.0)]))
    assert float(apart.deviation) == pytest.approx(np.sqrt(100 * 1.0 * 0.04))


@lru_cache
def imputed(delta=1e-6):
    return release(delta).imputations(6)


@pytest.mark.nightly
@pytest.mark.parametrize("delta", [1e-6, 0.0])
def test_imputations_are_tables_of_the_schema_and_cover_what_was_released(delta):
    made = imputed(delta)
    assert len(made) == 6
    assert made.population
    assert made.n == 600
    for i in range(6):
        one, other = made.halves(i)
        whole = made.columns(i)
        assert list(whole) == ["age", "pay", "town"]
        assert len(whole["age"]) == made.rows
        assert (np.asarray(whole["age"]) % 1 == 0).all()
        assert set(whole["town"]) <= {"a", "b", "c"}
        assert np.ma.isMaskedArray(whole["pay"])
        np.testing.assert_array_equal(np.concatenate([one["age"], other["age"]]), whole["age"])
    # The deviation between six tables is itself uncertain by a third.
    found = release(delta).imputations(24).estimate(lambda table: [
        np.mean(table["age"]), np.mean(table["town"] == "a"), np.mean(np.ma.getmaskarray(table["pay"]))])
    assert (np.abs(found.value - [50.0, 0.6, 0.1]) < 4.0 * found.deviation).all()
    assert (found.deviation > 0.8 * np.array([14.4, 0.49, 0.3]) / np.sqrt(600)).all()
    assert (found.deviation < [3.0, 0.12, 0.08]).all()


@pytest.mark.nightly
def test_imputations_have_the_missing_values_that_the_release_tells():
    # Nine of ten are missing, so what the release says of the numbers is mostly noise, which no rows can have.
    schema, off = tm.Schema([tm.Column("seldom", 0, 100, missing="keep"), tm.Column("x", -5, 5)]), []
    for seed in (1, 2, 3):
        rng = np.random.default_rng(seed)
        table = pa.table({"seldom": pa.array(rng.normal(50.0, 10.0, 2_000), mask=rng.random(2_000) < 0.9),
                          "x": rng.normal(0.0, 1.0, 2_000)})
        made = tm.synthesize(table, schema, tm.Budget(0.5, 1e-6), rng=np.random.default_rng(seed))
        rows = made.weighted()
        told = float(rows.weights @ np.ma.getmaskarray(rows.columns["seldom"]))
        assert abs(told - 0.9) < 0.03
        found = made.imputations(10).estimate(lambda table: np.mean(np.ma.getmaskarray(table["seldom"])))
        off.append(float(found.value) - told)
    assert abs(np.mean(off)) < 0.01, off


@pytest.mark.nightly  # Both are compared with their law, of injected numbers, in test_intervals_law.py.
def test_intervals_of_imputations_and_of_weights_agree():
    made = release()
    rows = made.weighted()
    age, town = np.asarray(rows.columns["age"], dtype=float), rows.columns["town"]
    values = np.column_stack([age, town == "a", age * (town == "a")])
    means = rows.weights @ values
    closed = rows.interval(means, values - means)
    # Both count the bias of fits that the same rehearsals show.
    drawn = made.imputations(60).estimate(lambda table: np.array([
        np.mean(table["age"]), np.mean(table["town"] == "a"), np.mean(table["age"] * (table["town"] == "a"))]))
    ratio = drawn.deviation / closed.deviation
    assert ((ratio > 0.6) & (ratio < 1.6)).all(), ratio
    assert (np.abs(drawn.value - closed.value) < 2.0 * closed.deviation).all()


def test_a_table_s_intervals_are_narrower_than_a_population_s():
    rows = release().weighted()
    age = np.asarray(rows.columns["age"], dtype=float)[:, None]
    mean = rows.weights @ age
    both = [rows.interval(mean, age - mean, population=which) for which in (True, False)]
    sampling = rows.weights @ (age - mean) ** 2 / 600
    assert both[0].deviation**2 - both[1].deviation**2 == pytest.approx(sampling, rel=1e-6)


def test_imputations_repeat_and_are_saved_whole(tmp_path):
    made, path = imputed(), tmp_path / "six.imputations"
    np.testing.assert_array_equal(made.points, release().imputations(6).points)
    made.save(path)
    again = Imputations.load(path)
    np.testing.assert_array_equal(made.points, again.points)
    np.testing.assert_array_equal(made.rehearsed, again.rehearsed)
    assert (again.n, again.white, again.population, again.schema.names) == (600, made.white, True, SCHEMA.names)
    statistic = lambda table: np.mean(table["age"])  # noqa: E731
    assert again.estimate(statistic).low == made.estimate(statistic).low
    assert not again.paired
    for count, paired in ((10, True), (11, False), (9, False)):
        made = release().imputations(count)
        made.save(path)
        assert made.paired == Imputations.load(path).paired == paired


def test_other_files_are_no_imputations(tmp_path):
    release().save(tmp_path / "release.tm")
    with pytest.raises(tm.InputError, match="imputations"):
        Imputations.load(tmp_path / "release.tm")
    imputed().save(tmp_path / "six")
    content = (tmp_path / "six").read_bytes()
    (tmp_path / "cut").write_bytes(content[:-30])
    with pytest.raises(tm.InputError, match="cut short"):
        Imputations.load(tmp_path / "cut")
    with pytest.raises(tm.InputError):
        tm.load(tmp_path / "six")


@pytest.mark.parametrize("change", [{"white": -1.0}, {"n": 1}, {"population": 1}, {"schema": {}},
                                    {"paired": 1}, {"measured": [["absent"]]}, {"measured": [1]}, {"measured": [[[]]]}])
def test_files_with_wrong_contents_are_refused(tmp_path, change):
    from trigmech.inference.imputations import KIND
    from trigmech.storage import archive

    imputed().save(tmp_path / "six")
    content, arrays = archive.read(tmp_path / "six", KIND)
    archive.write(tmp_path / "wrong", content | change, arrays, KIND)
    with pytest.raises(tm.InputError):
        Imputations.load(tmp_path / "wrong")
    arrays["indicators"] = arrays["indicators"] + 1
    archive.write(tmp_path / "wrong", content, arrays, KIND)
    with pytest.raises(tm.InputError):
        Imputations.load(tmp_path / "wrong")


@pytest.mark.parametrize("statistic", [lambda table: np.nan, lambda table: "a", lambda table: [1.0, np.inf],
                                       lambda table: np.arange(float(np.mean(table["age"]) * 100 % 7))])
def test_statistics_that_are_no_numbers_are_refused(statistic):
    with pytest.raises(tm.InputError):
        imputed().estimate(statistic)


def test_wrong_arguments_are_refused():
    with pytest.raises(tm.InputError, match="at least 2"):
        release().imputations(1)
    with pytest.raises(tm.InputError, match="between 0 and 1"):
        imputed().estimate(lambda table: 1.0, 95)
    rows = release().weighted()
    with pytest.raises(tm.InputError, match="influence"):
        rows.variances(np.zeros((3, 1)))
    with pytest.raises(tm.InputError, match="level"):
        rows.interval([1.0], np.zeros((len(rows.weights), 1)), 0.0)
    moments = tm.synthesize(np.random.default_rng(0).random((50, 1)), tm.Schema([tm.Column("x", 0, 1)]), tm.Budget(5.0),
                            tm.MomentMechanism(), np.random.default_rng(0))
    with pytest.raises(tm.InputError, match="release of moments"):
        moments.imputations()
    with pytest.raises(tm.InputError, match="release of moments"):
        moments.weighted()


@pytest.mark.nightly
def test_rows_keep_constraints():
    schema = tm.Schema([tm.Column("low", 0, 20, "integer"), tm.Column("high", 0, 20, "integer"),
                        tm.Column("open", kind="categorical", categories=("no", "yes"))],
                       constraints=["low <= high"])
    rng = np.random.default_rng(0)
    pairs = np.sort(rng.integers(0, 21, (400, 2)), axis=1)
    table = pd.DataFrame({"low": pairs[:, 0], "high": pairs[:, 1], "open": rng.choice(["no", "yes"], 400)})
    made = tm.synthesize(table, schema, tm.Budget(3.0, 1e-6), rng=np.random.default_rng(0)).imputations(3)
    for i in range(3):
        rows = made.columns(i)
        assert (rows["low"] <= rows["high"]).all()


@pytest.mark.nightly
def test_a_rehearsal_finds_more_uncertainty_with_more_noise():
    found = [made.weighted().posterior.white for made in (release(epsilon=0.5), release(epsilon=20.0))]
    assert found[1] >= 1.0 / 600
    assert found[0] > found[1]


def test_what_the_release_does_not_tell_is_the_distance_of_rehearsed_fits():
    made = release().release.described(SCHEMA)
    rows = release().distribution.points[:400]
    same = np.array([[rows, rows, rows]])
    assert rehearsed_white(made, same) == 1.0 / 600
    other = rows[np.random.default_rng(0).permutation(400)[:100]].repeat(4, axis=0)
    found = rehearsed_white(made, np.array([[rows, other, rows], [rows, rows, rows]]))
    # The rehearsal with the larger distance counts, and the mean over both of its fits.
    both = rehearsed_white(made, np.array([[rows, other, other]]))
    assert found == pytest.approx(max(1.0 / 600, 0.5 * both), rel=1e-12)
    assert both > 1.0 / 600


def test_means_that_rows_can_have_are_met_by_exchanges():
    rng = np.random.default_rng(0)
    values, picked = rng.normal(size=(600, 8)), rng.permutation(600).astype(np.int64)
    wanted = values.mean(axis=0) + 0.1
    before = picked.copy()
    missing = wanted - values[picked].mean(axis=0)
    for _ in range(16):
        _exchanged(values, picked, missing, values @ missing, np.square(values).sum(axis=1),
                   rng.integers(600, size=(600, 2)))
    assert len(picked) == len(before)
    assert np.abs(values[picked].mean(axis=0) - wanted).max() < 0.01
    # What is missing is counted along with the exchanges.
    np.testing.assert_allclose(missing, wanted - values[picked].mean(axis=0), atol=1e-12)


def test_closed_intervals_count_the_bias_of_rehearsals():
    made = release().weighted()
    age = np.asarray(made.columns["age"], dtype=float)[:, None]
    mean = made.weights @ age
    without = replace(made, rehearsed=np.zeros((0, 3, 0, SCHEMA.domain.d)))
    assert (without.squared_bias(age - mean) == 0.0).all()
    place = SCHEMA.domain.numbers[0]
    table = made.posterior.points.copy()
    table[:, place] = np.clip(table[:, place], -0.5, 0.5)
    moved, back = table.copy(), table.copy()
    moved[:, place] += 0.1
    back[:, place] -= 0.1
    # Both fits are .1 of the cube too high: 5 years. Fits that differ by noise alone show no bias.
    found = replace(made, rehearsed=np.array([[table, moved, moved]])).squared_bias(age - mean)
    assert float(found[0]) == pytest.approx(25.0, rel=0.2)
    assert float(replace(made, rehearsed=np.array([[table, moved, back]])).squared_bias(age - mean)[0]) < 1.0
    wide = made.interval(mean, age - mean)
    assert wide.deviation**2 == pytest.approx(without.interval(mean, age - mean).deviation ** 2
                                              + made.squared_bias(age - mean))


def test_closed_intervals_of_a_statistic_count_its_own_bias():
    made = release().weighted()
    table = made.posterior.points.copy()
    moved, back = table.copy(), table.copy()
    place = SCHEMA.domain.numbers[0]
    table[:, place] = 0.0
    moved[:, place], back[:, place] = 0.2, 0.1
    made = replace(made, rehearsed=np.array([[table, moved, back]]))
    places = [SCHEMA.decode(points, ["age"])["age"].mean() for points in (table, moved, back)]

    def squares(columns, weights):
        age = np.asarray(columns["age"], dtype=float)
        assert weights.sum() == pytest.approx(1.0)
        mean = weights @ age
        return [mean**2], 2.0 * mean * (age - mean)[:, None]

    found = made.estimate(squares)
    values, influence = squares(made.columns, made.weights)
    np.testing.assert_array_equal(found.value, values)
    without = replace(made, rehearsed=np.zeros((0, 3, 0, SCHEMA.domain.d)))
    np.testing.assert_array_equal(without.estimate(squares).low, without.interval(values, influence).low)
    # The mean of both squares less the table's, which is not the square of what the mean of ages has too much.
    bias = 0.5 * (places[1] ** 2 + places[2] ** 2) - places[0] ** 2
    assert found.deviation**2 == pytest.approx(without.estimate(squares).deviation ** 2 + bias**2)
    with pytest.raises(tm.InputError, match="level"):
        made.estimate(squares, 1.0)


def test_tests_of_weighted_rows_count_noise_sampling_and_the_bias_at_zero():
    made = release().weighted()

    def both(columns, weights):
        age, town = np.asarray(columns["age"], dtype=float), np.asarray(columns["town"]) == "a"
        off = np.column_stack([age - 50.0, town - 0.6])
        return weights @ off, off - weights @ off

    values, psi = both(made.columns, made.weights)
    without = replace(made, rehearsed=np.zeros((0, 3, 0, SCHEMA.domain.d)))
    sampling = np.maximum(made.weights @ psi**2, 0.3 * (psi**2).mean(axis=0)) / 600
    scale = np.sqrt(sampling / psi.var(axis=0))
    covariance = made.posterior.covariance(psi) + np.cov(psi.T, ddof=0) * np.outer(scale, scale)
    for k in range(2):
        one = lambda columns, weights: tuple(each[..., [k]] for each in both(columns, weights))  # noqa: B023, E731
        size = np.sqrt(covariance[k, k])
        assert without.p_value(one) == pytest.approx(2.0 * stats.norm.sf(abs(values[k]) / size), rel=1e-9)
    wanted = stats.chi2.sf(values @ np.linalg.solve(covariance, values), 2)
    assert without.p_value(both) == pytest.approx(wanted, rel=1e-9)
    off = at_zero(np.array([[both(made.schema.decode(points), np.full(len(points), 1.0 / len(points)))[0]
                             for points in each] for each in made.rehearsed]))
    wanted = stats.chi2.sf(values @ np.linalg.solve(covariance + off.T @ off / len(off), values), 2)
    assert made.p_value(both) == pytest.approx(wanted, rel=1e-9)
    # It is the mean over rehearsals: the same ones again change nothing.
    again = replace(made, rehearsed=np.concatenate([made.rehearsed, made.rehearsed]))
    assert again.p_value(both) == pytest.approx(wanted, rel=1e-9)
    for one, other in ((again.estimate(both), made.estimate(both)),
                       (again.interval(values, psi), made.interval(values, psi))):
        np.testing.assert_allclose(one.deviation, other.deviation, rtol=1e-9)
    with pytest.raises(tm.InputError, match="follow"):
        made.p_value(lambda columns, weights: (np.repeat(values, 2), np.repeat(psi, 2, axis=1)))
    with pytest.raises(tm.InputError, match="vary"):
        made.p_value(lambda columns, weights: ([0.0], np.zeros((len(weights), 1))))


def test_a_bias_under_the_hypothesis_is_the_smaller_of_both():
    # Fits are off by .2, though the table is at .3 by chance; near the table; on its other side.
    again = np.array([[[0.3, 0.3, -0.3], [0.1, 0.4, 0.2], [0.3, 0.4, 0.2]]])
    np.testing.assert_allclose(at_zero(again), [[0.2 - 0.3, 0.1, 0.2]])
    again[0, 1:] = 0.1
    np.testing.assert_allclose(at_zero(again), [[0.1, 0.1, 0.1]])


def test_files_without_rehearsals_still_answer(tmp_path):
    from trigmech.inference.imputations import KIND
    from trigmech.inference.sql import ask
    from trigmech.storage import archive

    made = imputed()
    made.save(tmp_path / "six")
    content, arrays = archive.read(tmp_path / "six", KIND)
    archive.write(tmp_path / "older", content, {name: each for name, each in arrays.items()
                                                if not name.startswith("rehearsed")}, KIND)
    older = Imputations.load(tmp_path / "older")
    statistic = lambda table: np.mean(table["age"])  # noqa: E731
    found, whole = older.estimate(statistic), made.estimate(statistic)
    assert float(found.value) == float(whole.value)
    assert float(found.deviation) <= float(whole.deviation)
    answer = ask(older, "select avg(age) as age from release")
    assert answer.low["age"][0] == pytest.approx(float(found.low))


def test_questions_and_regressions_count_the_bias_as_estimates_do():
    from trigmech.inference.regression import fitted
    from trigmech.inference.sql import ask

    made = replace(imputed(), rehearsed=release()._rehearsed)
    assert len(made.rehearsed) == 2
    mean = made.estimate(lambda table: np.mean(table["age"]))
    answer = ask(made, "select avg(age) as age from release")
    assert (answer.low["age"][0], answer.high["age"][0]) == pytest.approx((float(mean.low), float(mean.high)))
    held = fitted(made, "age ~ 1")
    assert (held.low[0], held.high[0]) == pytest.approx((float(mean.low), float(mean.high)))


def test_an_exchange_is_made_only_if_it_brings_the_means_nearer():
    """Against plain sums: each exchange that is made gains, and each that gains much is made."""
    rng = np.random.default_rng(1)
    values, picked = rng.normal(size=(50, 3)), np.arange(50)
    wanted = values.mean(axis=0) + 0.2
    lengths = np.square(values).sum(axis=1)
    made = 0
    for _ in range(400):
        before, missing = picked.copy(), wanted - values[picked].mean(axis=0)
        place, other = rng.integers(50, size=2)
        distance = float(missing @ missing)
        _exchanged(values, picked, missing.copy(), values @ missing, lengths, np.array([[place, other]]))
        trial = before.copy()
        trial[place] = other
        after = float(np.square(wanted - values[trial].mean(axis=0)).sum())
        if np.array_equal(picked, before):
            change = values[other] - values[before[place]]
            assert (after >= distance or float(change @ change) < 0.5 * (lengths[other] + lengths[before[place]])
                    or other == before[place])
        else:
            np.testing.assert_array_equal(picked, trial)
            assert after < distance
            made += 1
    assert made > 10


@pytest.mark.parametrize("delta", [1e-6, 0.0])
def test_gradients_solve_what_the_factor_solves(delta, monkeypatch):
    """Releases with many measured numbers are solved for by conjugate gradients: the same equations."""
    import trigmech.inference.equations as module

    made = release(delta)
    rows = made.distribution.points[:200]
    psi = np.random.default_rng(6).normal(size=(200, 2))
    direct = Posterior(made.release, rows, 0.004)
    assert direct.equations.factored is not None
    monkeypatch.setattr(module, "MOST_FACTORED", 0)
    monkeypatch.setattr(module, "STEPS", 150)
    steps = Posterior(made.release, rows, 0.004)
    assert steps.equations.factored is None
    np.testing.assert_allclose(steps.weights, direct.weights, atol=1e-6)
    for one, other in zip(steps.variances(psi), direct.variances(psi), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-3)


def test_intervals_of_numbers_near_the_largest_float_are_numbers():
    """Before, squares of such numbers overflowed: deviations were infinite, and so were means of some tables."""
    rng = np.random.default_rng(0)
    table = {"x": rng.choice([-8e307, 0.0, 8e307], 300), "y": rng.integers(0, 5, 300)}
    schema = tm.Schema([tm.Column("x", -8e307, 8e307), tm.Column("y", 0, 4, "integer")])
    made = tm.synthesize(pd.DataFrame(table), schema, tm.Budget(30.0), tm.TableMechanism(points=64), rng)
    held = made.imputations(4)
    found = held.estimate(lambda columns: np.array([columns["x"].max(), np.mean(columns["x"] / 8e307)]))
    assert found.value[0] == pytest.approx(8e307)
    assert np.isfinite(found.deviation[1])
    large = held.combined(*(8e307 * np.array(each) for each in ([0.1, 0.3, 0.2], [[0.1, 0.2]] * 3)))
    small = held.combined([0.1, 0.3, 0.2], [[0.1, 0.2]] * 3)
    for name in ("value", "deviation", "low", "high"):
        np.testing.assert_allclose(getattr(large, name) / 8e307, getattr(small, name), rtol=1e-12)
    assert 0.0 < held.tested(*(8e307 * np.array(each) for each in (
        [[0.1], [0.3], [0.2], [0.4]], [[[0.1], [0.2]]] * 4)), np.zeros((0, 3, 1))) < 1.0
