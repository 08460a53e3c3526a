import math

import numpy as np
import oracles
import pytest
from scipy import stats

from trigmech.budget import Budget
from trigmech.mechanisms import ImprovedTrigI, ImprovedTrigII, TrigI, TrigII
from trigmech.noise import SimulatedNoise, SystemNoise
from trigmech.schema import Schema
from trigmech.synthesis import synthesize

SCALE = 0.037
LAWS = {"laplace": stats.laplace(scale=SCALE), "gaussian": stats.norm(scale=SCALE)}
laws = pytest.mark.parametrize("law", LAWS)


def samplers():
    # OpenDP draws from the operating system's entropy: no seed, and false alarms of 1e-9 a test.
    return {"OpenDP": (SystemNoise(), 4_000), "simulated": (SimulatedNoise(np.random.default_rng(8)), 20_000)}


each_sampler = pytest.mark.parametrize("sampler", ["OpenDP", "simulated"])


def independent(draws, law):
    """The largest dependence of neighbouring entries, of the halves, and of the columns of a pair."""
    pairs = draws[: len(draws) // 2 * 2].reshape(-1, 2)
    half = len(draws) // 2
    return max(oracles.dependence(pairs[:, 0], pairs[:, 1], LAWS[law]),
               oracles.dependence(draws[:half], draws[half : 2 * half], LAWS[law]))


@each_sampler
@laws
def test_noise_has_the_whole_distribution_of_its_law_and_independent_entries(sampler, law):
    noise, size = samplers()[sampler]
    values = np.linspace(-1.0, 1.0, size)
    draws = getattr(noise, law)(values, SCALE) - values
    assert oracles.misfit(draws, LAWS[law]) <= 1.0
    assert independent(draws, law) <= 1.0


@each_sampler
@laws
def test_two_calls_are_independent(sampler, law):
    noise, size = samplers()[sampler]
    first, second = (getattr(noise, law)(np.zeros(size // 2), SCALE) for _ in range(2))
    assert oracles.dependence(first, second, LAWS[law]) <= 1.0
    assert oracles.misfit(np.concatenate([first, second]), LAWS[law]) <= 1.0


@each_sampler
@laws
@pytest.mark.parametrize("shape", [(), (1,), (0,), (7, 3), (2, 3, 4)])
def test_noise_keeps_the_shape_and_leaves_the_values_alone(sampler, law, shape):
    values = np.full(shape, 5.0)
    drawn = getattr(samplers()[sampler][0], law)(values, 1e-3)
    assert drawn.shape == shape
    # Twenty standard deviations or more: a false alarm has a probability below 1e-12.
    np.testing.assert_allclose(drawn, 5.0, rtol=0, atol=0.04)
    assert len(np.unique(drawn)) == np.size(drawn)
    np.testing.assert_array_equal(values, 5.0)


@laws
@pytest.mark.parametrize("factor", [1 / math.sqrt(2), 1 / 1.2, 1.2, math.sqrt(2)])
def test_a_planted_wrong_scale_is_found(law, factor):
    # 1/sqrt(2) is the fault of the thesis's authors' program, which makes the scale the standard deviation.
    draws = getattr(SimulatedNoise(np.random.default_rng(9)), law)(np.zeros(60_000), factor * SCALE)
    assert oracles.misfit(draws, LAWS[law]) > 1.0


@laws
def test_a_planted_wrong_law_bias_or_grid_is_found(law):
    other = "gaussian" if law == "laplace" else "laplace"
    noise = SimulatedNoise(np.random.default_rng(10))
    of_same_variance = SCALE * (math.sqrt(2) if law == "laplace" else 1 / math.sqrt(2))
    assert oracles.misfit(getattr(noise, other)(np.zeros(60_000), of_same_variance), LAWS[law]) > 1.0
    draws = getattr(noise, law)(np.zeros(20_000), SCALE)
    assert oracles.misfit(draws + 0.1 * SCALE, LAWS[law]) > 1.0
    assert oracles.misfit(np.round(draws / SCALE) * SCALE, LAWS[law]) > 1.0


@laws
def test_planted_repeats_are_found(law):
    def seeded():
        # The other fault of the authors' program: every generator starts from the same constant.
        return getattr(SimulatedNoise(np.random.default_rng(0)), law)(np.zeros(2_000), SCALE)

    assert oracles.misfit(np.full(4_000, seeded()[0]), LAWS[law]) > 1.0
    assert oracles.dependence(seeded(), seeded(), LAWS[law]) > 1.0
    assert independent(np.tile(seeded(), 2), law) > 1.0
    assert independent(np.repeat(seeded(), 2), law) > 1.0
    assert independent(np.column_stack([seeded(), -seeded()]).ravel(), law) > 1.0


# The noise that a whole run adds

RUNS = 200
MECHANISMS = {
    "TrigI": (TrigI(degree=7, grid=5, levels=None), 0.0),
    "TrigII": (TrigII(degree=7, grid=5, levels=None), 1e-3),
    "ImprovedTrigI": (ImprovedTrigI(n_basis=49, n_candidates=40, iterations=1, rank=1), 0.0),
    "ImprovedTrigII": (ImprovedTrigII(n_basis=49, n_candidates=40, iterations=1, rank=1), 1e-3),
}


@pytest.mark.parametrize("real", [False, True], ids=["simulated", "real"])
@pytest.mark.parametrize(("mechanism", "delta"), MECHANISMS.values(), ids=MECHANISMS)
def test_a_run_adds_noise_of_the_charged_scale_to_the_means(mechanism, delta, real):
    X = np.random.default_rng(0).uniform(-1.0, 1.0, (30, 2))
    X = (2.0 * np.ceil((X + 1.0) * mechanism.grid / 2.0) - 1.0) / mechanism.grid - 1.0
    rng = np.random.default_rng(1)
    standard, mean = [], []
    for _ in range(RUNS):
        run = synthesize(X, Schema.cube(2), Budget(1.0, delta), mechanism, None if real else rng.spawn(1)[0])
        charge = run.ledger.charges[0]
        exact = oracles.products_by_series(X, run.release.basis.index).mean(axis=0)
        standard.append(((run.release.means - exact) / charge.scale)[run.release.basis.index.any(axis=1)])
        if run.release.mean is not None:
            mean.append((run.release.mean - X.mean(axis=0)) / run.ledger.charges[1].scale)
    law = {"laplace": stats.laplace(), "gaussian": stats.norm()}[charge.law]
    assert np.shape(standard) == (RUNS, 48)
    assert oracles.misfit(standard, law) <= 1.0
    # A scale that is sqrt(2) too small is 0.063 away (Laplace) or 0.083, twice what chance may reach in 9600 draws;
    # that it goes undetected has a probability below 1e-7.
    assert oracles.misfit(np.array(standard) / math.sqrt(2.0), law) > 1.0
    for one, other in ((0, 1), (5, 40)):
        column = np.array(standard)[:, [one, other]]
        assert oracles.dependence(column[:, 0], column[:, 1], law) <= 1.0
    if mean:
        assert oracles.misfit(mean, law) <= 1.0
        # 400 draws are few: they tell ten times the scale, 0.35 away, and miss it with a probability below 1e-11.
        assert oracles.misfit(np.array(mean) * 10.0, law) > 1.0
