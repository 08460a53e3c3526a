"""Noise alone counts as real with one probability under every law, and makes no spikes in smooth columns."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy.integrate import quad
from scipy.special import gammaln, ndtr
from scipy.stats import laplace, norm

import trigmech as tm
from tests.test_details import COLUMN
from trigmech.privacy.budget import deviation_of
from trigmech.privacy.false_alarms import CHANCE, CLEAR, clear_of_noise, tail
from trigmech.privacy.noise import SimulatedNoise, SystemNoise, drawn
from trigmech.queries.base import Measurement
from trigmech.queries.one_way import Detail
from trigmech.reconstruction.details import looked_closer


def least_clear(law, count, among):
    """The least sum, in its deviations, that is clear."""
    low, high = 0.0, 100.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        if clear_of_noise(law, np.array([middle]), np.array([count]), among)[0]:
            high = middle
        else:
            low = middle
    return high


@pytest.mark.parametrize("among", [1_000, 30_000, 100_000, 10**9])
def test_one_noisy_number_is_clear_with_the_same_probability_under_each_law(among):
    chance = max(CHANCE / among, norm.sf(CLEAR))
    # No law has a limit below six deviations: normal noise is clear less often.
    assert least_clear("gaussian", 1, among) == pytest.approx(CLEAR)
    for law in ("laplace", "linf"):
        limit = least_clear(law, 1, among)
        assert limit > CLEAR
        assert laplace.sf(limit * math.sqrt(2.0)) == pytest.approx(chance, rel=1e-6)


@pytest.mark.parametrize("count", [1, 2, 3, 5, 20])
def test_the_tail_of_a_sum_of_laplace_numbers_is_that_of_its_characteristic_function(count):
    """P(S > x) = 1/2 - the integral of sin(w x) / (pi w (1 + w^2)^count) over w > 0 (Gil-Pelaez)."""
    for limit in (0.0, 0.5, 1.0, 2.0, 4.0):
        x = limit * math.sqrt(2.0 * count)
        inside = quad(lambda w, x=x: np.sinc(w * x / np.pi) * x / (1.0 + w * w) ** count, 0.0, 200.0, limit=4000)[0]
        assert tail("laplace", limit, count) == pytest.approx(0.5 - inside / math.pi, abs=2e-5)


def test_tails_fall_with_the_length_of_a_sum_to_that_of_normal_noise():
    found = [tail("laplace", 6.0, count) for count in (1, 2, 4, 8, 64, 1024, 100_000)]
    assert found[0] == pytest.approx(0.5 * math.exp(-6.0 * math.sqrt(2.0)))
    assert (np.diff(found) < 0.0).all()
    assert found[-1] == pytest.approx(float(ndtr(-6.0)), rel=0.01)
    assert tail("laplace", math.inf, 7) == tail("laplace", 1e140, 1) == 0.0


@pytest.mark.parametrize(("size", "count"), [(1, 1), (2, 1), (2, 2), (3, 2), (3, 3), (10, 1), (10, 3), (50, 5)])
def test_sums_under_the_l_infinity_law_exceed_a_limit_as_often_as_is_said_or_less_often(size, count):
    """Given the radius r, of density r^size exp(-r) / size!, a sum is r times that of uniform numbers on [-1, 1]."""
    def above(u):
        left = 0.5 * (count - u)
        return sum((-1.0) ** k * math.comb(count, k) * (left - k) ** count
                   for k in range(math.floor(left) + 1)) / math.factorial(count)

    for limit in (3.0, 6.0, 10.0):
        x = limit * math.sqrt(count) * deviation_of("linf", size)
        # The sum reaches x if r is at least x / count.
        exact = quad(lambda r, x=x: np.exp(size * np.log(r) - r - gammaln(size + 1.0)) * above(x / r),
                     x / count, x / count + 40.0 + 4.0 * size, limit=400)[0]
        said = tail("linf", limit, count)
        assert exact <= said * (1.0 + 1e-6)
        if size == count <= 2:
            assert exact == pytest.approx(said, rel=1e-6)


@pytest.mark.parametrize("noise", ["simulated", "system"])
@pytest.mark.parametrize("law", ["laplace", "gaussian"])
def test_drawn_noise_exceeds_limits_as_often_as_is_said(law, noise):
    size = 4_000 if noise == "system" else 400_000
    maker = SystemNoise() if noise == "system" else SimulatedNoise(np.random.default_rng(0))
    made = drawn(maker, law, np.zeros(size), 0.3) / (0.3 * deviation_of(law))
    for limit in (0.5, 1.5, 2.5):
        chance = tail(law, limit, 1)
        assert abs((made > limit).mean() - chance) < 6.0 * math.sqrt(chance / size)


def looked(law, values, among):
    query = Detail(0, COLUMN.partition, 2, np.linspace(*COLUMN.partition.edges[2:4], len(values) + 1))
    return looked_closer(COLUMN, Measurement(query, 0.5, values, 0.5, law), among)


@pytest.mark.parametrize("law", ["gaussian", "laplace", "linf"])
def test_noise_alone_divides_no_interval(law):
    """In 200 details of 1,024 numbers, Laplace noise exceeds 6 deviations about 21 times."""
    rng, scale = np.random.default_rng(0), 1.0 / deviation_of(law, 1024)
    for _ in range(200):
        made = looked(law, drawn(SimulatedNoise(rng), law, np.zeros(1024), scale), 200 * 1024)
        at = (made.partition.edges[:-1] >= -0.5) & (made.partition.edges[1:] <= -0.25)
        density = made.mass[1:][at] / np.diff(made.partition.edges)[at]
        np.testing.assert_allclose(density, density[0], rtol=1e-9)


def test_the_law_of_a_release_reaches_its_details():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"x": rng.normal(50.0, 12.0, 1_000).clip(0.0, 100.0)})
    for delta, law in ((0.0, "laplace"), (1e-6, "gaussian")):
        release = tm.synthesize(table, tm.Schema([tm.Column("x", 0, 100)]), tm.Budget(3.0, delta),
                                tm.TableMechanism(points=64), np.random.default_rng(0)).release
        assert {each.law for each in release.measurements} == {law}
    one, other = release.measurements[0], release.measurements[0].drawn(np.zeros(1), 1.0, "laplace")
    assert one.combined(other).law == other.combined(one).law == "laplace"


def test_without_delta_no_value_of_a_smooth_column_holds_many_rows():
    """A value that no row had held a tenth of them: among thousands of numbers, Laplace noise exceeds 6 deviations."""
    rng = np.random.default_rng(1)
    n = 2_000
    table = pd.DataFrame({"x": rng.gamma(4.0, 9.0, n).clip(0.0, 100.0), "y": rng.normal(50.0, 12.0, n).clip(0.0, 100.0),
                          "z": 100.0 * rng.beta(2.0, 5.0, n), "w": rng.exponential(12.0, n).clip(0.0, 100.0)})
    schema = tm.Schema([tm.Column(name, 0, 100) for name in table])
    counted = 0
    for seed in range(6):
        release = tm.synthesize(table, schema, tm.Budget(3.0), tm.TableMechanism(points=64),
                                np.random.default_rng(seed)).release
        counted += sum(each.query.size for each in release.closer)
        for column, (_, values) in zip(release.columns, table.items(), strict=True):
            edges = column.partition.edges
            truth = np.histogram(values / 50.0 - 1.0, edges)[0] / n
            narrow = np.diff(edges) < 0.003
            assert (column.mass - truth)[narrow].max(initial=0.0) < 0.02
    # There were enough numbers for false spikes.
    assert counted > 10_000
