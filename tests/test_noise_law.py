import gc
import math
import random
import sys
from fractions import Fraction
from functools import partial
from types import CodeType, FunctionType, ModuleType, SimpleNamespace

import numpy as np
import oracles
import pytest
from scipy import special, stats

from trigmech.measurement.moments import PrivateMoments
from trigmech.measurement.rows import PrivateRows
from trigmech.mechanisms.moment import MomentMechanism, minimax
from trigmech.privacy import noise as noise_module
from trigmech.privacy.budget import Budget
from trigmech.privacy.noise import SimulatedNoise, SystemNoise, integer_linf, lattice_step
from trigmech.schema.schema import Schema
from trigmech.synthesis import design, measure, synthesize
from trigmech.thesis.mechanisms import ImprovedTrigI, ImprovedTrigII, TrigI

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
@pytest.mark.parametrize("law", [*LAWS, "linf"])
@pytest.mark.parametrize("shape", [(), (0,), (2, 3, 4)])
def test_noise_keeps_the_shape_and_leaves_the_values_alone(sampler, law, shape):
    values = np.full(shape, 5.0)
    drawn = getattr(samplers()[sampler][0], law)(values, 1e-3)
    assert drawn.shape == shape
    # Twenty standard deviations or more: a false alarm has a probability below 1e-12. The largest of K entries of
    # linf noise is Gamma(K), of standard deviation sqrt(K).
    np.testing.assert_allclose(drawn, 5.0, rtol=0, atol=0.04 if law != "linf" else 0.04 + 2e-3 * values.size)
    assert len(np.unique(drawn)) == np.size(drawn)
    np.testing.assert_array_equal(values, 5.0)


@laws
def test_planted_wrong_scales_biases_grids_and_repeats_are_found(law):
    def drawn(size, scale=SCALE, seed=0):
        return getattr(SimulatedNoise(np.random.default_rng(seed)), law)(np.zeros(size), scale)

    # Two faults of the thesis's authors' program: the scale is the standard deviation, and every generator starts from
    # the same constant.
    draws = drawn(60_000)
    for fault in (draws / math.sqrt(2.0), 1.2 * draws, draws + 0.1 * SCALE, np.round(draws / SCALE) * SCALE):
        assert oracles.misfit(fault, LAWS[law]) > 1.0
    few = drawn(2_000)
    assert oracles.dependence(few, drawn(2_000), LAWS[law]) > 1.0
    for fault in (np.tile(few, 2), np.repeat(few, 2), np.column_stack([few, -few]).ravel()):
        assert independent(fault, law) > 1.0


# The joint law of l-infinity noise


def linf_marginal(K):
    """The law of one entry at scale 1, from z = r u: P(|z| > t) is the mean of max(0, 1 - t / r), r of Gamma(K + 1)."""
    def cdf(z):
        t = np.abs(z)
        beyond = special.gammaincc(K + 1, t) - t / K * special.gammaincc(K, t)
        return 0.5 + 0.5 * np.sign(z) * (1.0 - beyond)

    return SimpleNamespace(cdf=cdf)


def linf_misfit(draws):
    """How badly rows of scale 1 fit the law, in units of what chance may reach; at most 8 false alarms of 1e-9.

    The density exp(-||z||) makes the norm Gamma(K), and apart from it the direction uniform on the surface of the
    cube: each of the 2K faces is as likely, and on it the K - 1 other entries are uniform and independent.
    """
    n, K = draws.shape
    norm, place = np.abs(draws).max(axis=1), np.abs(draws).argmax(axis=1)
    # Made continuous by a draw of its own, the face has a law that Kolmogorov's distance is exact for.
    face = 2 * place + (draws[np.arange(n), place] > 0) + np.random.default_rng(0).uniform(size=n)
    tests = [oracles.misfit(norm, stats.gamma(K)), oracles.misfit(face, stats.uniform(scale=2 * K)),
             oracles.misfit(draws[:, 0], linf_marginal(K)),
             oracles.dependence(norm[: n // 2], norm[n // 2 : n // 2 * 2], stats.gamma(K))]
    if K > 1:
        others = np.arange(K) != place[:, None]
        direction = (draws / norm[:, None])[others].reshape(n, K - 1)
        level = stats.gamma(K).cdf(norm)
        tests += [oracles.misfit(direction, stats.uniform(-1.0, 2.0)),
                  oracles.dependence(level, np.abs(direction[:, 0]), stats.uniform()),
                  oracles.dependence(draws[:, 0], draws[:, -1], linf_marginal(K)),
                  oracles.dependence(direction[:, :-1].mean(axis=1), direction[:, -1], stats.uniform(-1.0, 2.0))]
    return max(tests)


def linf_draws(noise, n, K):
    values = np.linspace(-1.0, 1.0, K)
    return np.array([noise.linf(values, SCALE) - values for _ in range(n)]) / SCALE


@pytest.mark.daily("1-1000-OpenDP", "3-2000-simulated", "3-2000-OpenDP")
@each_sampler
@pytest.mark.parametrize(("K", "n"), [(1, 1_000), (3, 2_000), (60, 200)])
def test_linf_noise_has_its_joint_law(sampler, K, n):
    assert linf_misfit(linf_draws(samplers()[sampler][0], n, K)) <= 1.0


def test_linf_noise_of_thousands_of_entries_has_the_norm_of_its_law():
    norm = np.abs(linf_draws(SystemNoise(), 1, 4_000)).max()
    law = stats.gamma(4_000)
    assert min(law.cdf(norm), law.sf(norm)) > 5e-10


# The exact law on the integers


def integer_p(draws, scale, largest=2):
    """The p-value of integer vectors against probabilities in proportion to exp(-max |z_i| / scale).

    By the exact binomial law of the count of each vector of norm up to `largest`, and of each norm with the first
    entry below 0 or not; two-sided, the least of them times their number, so without any limit theorem.
    """
    n, K = draws.shape
    m = np.arange(int(60 * scale) + 60)
    # The points of a shell, and those of a first entry below 0: half of those where it is not 0.
    points = (2.0 * m + 1.0) ** K - np.where(m > 0, 2.0 * m - 1.0, 0.0) ** K
    below = (points - (2.0 * m + 1.0) ** (K - 1) + np.where(m > 0, np.abs(2.0 * m - 1.0) ** (K - 1), 0.0)) / 2.0
    weights = np.exp(-m / scale)
    vectors = np.indices((2 * largest + 1,) * K).reshape(K, -1).T - largest
    norm = np.abs(draws).max(axis=1)
    cells = [((draws == z).all(axis=1).sum(), weights[np.abs(z).max()]) for z in vectors]
    for shell in range(1, int(6 * scale) + 3 * K):
        first = draws[norm == shell, 0]
        cells += [((first < 0).sum(), below[shell] * weights[shell]),
                  ((first >= 0).sum(), (points - below)[shell] * weights[shell])]
    counts, parts = np.array(cells).T
    law = stats.binom(n, parts / (points @ weights))
    return min(1.0, 2.0 * len(cells) * min(law.cdf(counts).min(), law.sf(counts - 1).min()))


def integer_draws(n, K, scale):
    return np.array([integer_linf(K, scale) for _ in range(n)])


@pytest.mark.daily("2-1.0-2000")
@pytest.mark.parametrize(("K", "scale", "n"), [
    (1, 3.0, 2_000), pytest.param(1, 0.4, 2_000, marks=pytest.mark.nightly), (2, 1.0, 2_000),
    # One number and several are drawn by day, of a small scale and of a large one.
    pytest.param(3, 1.0, 1_000, marks=pytest.mark.nightly)])
def test_integer_linf_noise_has_exactly_its_probabilities(K, scale, n):
    assert integer_p(integer_draws(n, K, scale), scale) > 1e-9


def discrete_laplace_p(draws, scale):
    largest = int(2 * scale)
    k = np.arange(-largest, largest + 1)
    p = math.tanh(0.5 / scale) * np.exp(-np.abs(k) / scale)
    counts = np.array([(draws == one).sum() for one in k])
    return oracles.frequencies_p(np.append(counts, len(draws) - counts.sum()), np.append(p, 1.0 - p.sum()))


@pytest.mark.nightly  # By day integer noise has exactly its probabilities, here.
@pytest.mark.parametrize("scale", [1.5, pytest.param(3.0, marks=pytest.mark.nightly)])
def test_the_discrete_laplace_numbers_of_opendp_are_exact(scale):
    # Of the scales at which its versions before 0.14.2 had a bias: p-values below 1e-30 in as many draws.
    draws = np.array(noise_module._discrete_laplace(scale, 30_000))
    assert discrete_laplace_p(draws, scale) > 1e-10
    assert discrete_laplace_p(np.array(noise_module._discrete_laplace(0.95 * scale, 30_000)), scale) < 1e-10


def test_numbers_beyond_64_bits_are_not_cut():
    scale = 2.0**64
    assert oracles.misfit(np.abs(integer_draws(500, 1, scale).astype(float)) / scale, stats.gamma(1)) <= 1.0


# What is proved of real noise: OpenDP's own privacy maps


@pytest.mark.parametrize("scale", [1e-9, 0.37, 1.0, 3e4])
@pytest.mark.parametrize("sensitivity", [0.0, 1e-300, 0.3, 7e5])
def test_the_maps_are_those_of_the_ideal_laws_and_never_below_them(scale, sensitivity):
    ratio = Fraction(sensitivity) / Fraction(scale)
    for law, ideal in (("laplace", ratio), ("gaussian", ratio**2 / 2)):
        proved = SystemNoise().loss(law, scale, sensitivity)
        assert Fraction(proved) >= ideal
        assert proved == pytest.approx(float(ideal), rel=1e-14, abs=5e-324)


@pytest.mark.parametrize("scale", [1e-9, 0.37, 1.0, 3e4])
def test_the_loss_of_linf_noise_is_that_of_its_integers(scale):
    step = lattice_step(scale)
    for sensitivity in (step, 0.3 * scale + step, 5.0 * scale):
        assert SystemNoise().loss("linf", scale, sensitivity) == pytest.approx(sensitivity / scale, rel=1e-14)
    assert SystemNoise().loss("linf", scale, 0.0) == 0.0
    # Values that move at all may move by a step of the lattice.
    assert SystemNoise().loss("linf", scale, step / 2) == math.inf


def test_simulated_noise_proves_nothing():
    assert SimulatedNoise(np.random.default_rng(0)).loss("laplace", 1.0, 0.1) == math.inf


@pytest.mark.parametrize("law", ["laplace", "gaussian"])
def test_the_lattice_of_opendp_is_the_finest_and_rounds_no_float(law):
    # It must know the number of entries wherever rounding could add to the sensitivity: already one step above.
    dp = noise_module._opendp()
    domain = dp.vector_domain(dp.atom_domain(T=float, nan=False))
    make, distance = {"laplace": (dp.m.make_laplace, dp.l1_distance), "gaussian": (dp.m.make_gaussian,
                                                                                  dp.l2_distance)}[law]
    assert 2.0**noise_module.FINEST == 5e-324
    with pytest.raises(Exception, match="size must be known"):
        make(domain, distance(T=float), scale=1.0, k=noise_module.FINEST + 1)
    with pytest.raises(Exception, match="must not be smaller"):
        make(domain, distance(T=float), scale=1.0, k=noise_module.FINEST - 1)
    # A planted coarse lattice, of 1/8: the map grows and the draws show it.
    coarse = make(dp.vector_domain(dp.atom_domain(T=float, nan=False), size=1), distance(T=float), scale=1.0, k=-3)
    assert coarse.map(1.0) > 1.05 * SystemNoise().loss(law, 1.0, 1.0)
    assert (coarse([0.3])[0] * 8.0) % 1.0 == 0.0
    assert (getattr(SystemNoise(), law)(np.full(9, 0.3), 1.0) * 2.0**30 % 1.0 != 0.0).any()


# No way back to the noise

SEED = 0x5EED_0F_7A57_0F_7E575


def children(thing):
    """What an object holds: attributes, elements, closures; but not what a module or a class holds for everyone."""
    if isinstance(thing, np.ndarray):
        return [thing.base, *(thing.ravel().tolist() if thing.dtype == object else [])]
    if isinstance(thing, FunctionType):
        return [thing.__closure__, thing.__defaults__, thing.__kwdefaults__, thing.__dict__]
    return gc.get_referents(thing)


def sources_of_noise(root, *numbers):
    """Generators, seeds, samplers and private sums that can be reached from an object, and the given numbers."""
    forbidden = (np.random.Generator, np.random.BitGenerator, np.random.SeedSequence, np.random.RandomState,
                 random.Random, SystemNoise, SimulatedNoise, PrivateMoments, PrivateRows)
    seen, waiting, found, kept = set(), [root], [], []
    while waiting:
        thing = waiting.pop()
        if id(thing) in seen or isinstance(thing, ModuleType | type | CodeType):
            continue
        seen.add(id(thing))
        kept.append(thing)  # so that no other object gets its address
        if isinstance(thing, forbidden) or (isinstance(thing, int) and thing in numbers):
            found.append(thing)
        waiting += children(thing)
    return found


RELEASES = {
    "MomentMechanism": (MomentMechanism(iterations=2), 1e-3),
    "MomentMechanism, pure": (MomentMechanism(iterations=2), 0.0),
    "minimax": (minimax(1), 1e-3),
    "TrigI": (TrigI(degree=3, grid=4), 0.0),
    "ImprovedTrigII": (ImprovedTrigII(n_candidates=60), 1e-3),
}


@pytest.mark.parametrize("real", [False, True], ids=["simulated", "real"])
@pytest.mark.parametrize(("mechanism", "delta"), RELEASES.values(), ids=RELEASES)
def test_nothing_that_is_returned_leads_to_a_generator_a_seed_or_entropy(mechanism, delta, real):
    X = np.random.default_rng(0).uniform(-1.0, 1.0, (40, 2))
    rng = np.random.default_rng(SEED)
    state = rng.bit_generator.state["state"]
    numbers = [SEED, *state.values()]
    release = synthesize(X, Schema.cube(2), Budget(1.0, delta), mechanism, None if real else rng)
    assert sources_of_noise(release, *numbers) == []
    release.sample(3)
    assert sources_of_noise(release, *numbers) == []


@pytest.mark.parametrize("hide", [
    lambda rng: {"a": [(rng,)]}, lambda rng: lambda: rng.normal(), lambda rng: partial(rng.normal, 1),
    lambda rng: SimulatedNoise(rng).laplace, lambda rng: (rng.normal() for _ in range(3)), lambda rng: [SEED],
    lambda rng: np.array([[rng]], dtype=object)[:, :1],
])
def test_planted_ways_back_to_the_noise_are_found(hide):
    release = synthesize(np.zeros((9, 2)), Schema.cube(2), Budget(1.0), TrigI(degree=2, grid=3))
    object.__setattr__(release.fit, "_cache", hide(np.random.default_rng(SEED)))
    assert sources_of_noise(release, SEED)


@pytest.mark.parametrize("law", [*LAWS, "linf"])
def test_hardened_noise_does_not_come_from_a_generator_that_can_be_seeded(law, monkeypatch):
    def fails(*_, **__):
        raise RuntimeError("a generator with a seed")

    # The secrets module has a generator of its own, which asks the operating system.
    for name in ("random", "getrandbits"):
        monkeypatch.setattr(random.Random, name, fails, raising=False)
    monkeypatch.setattr(np.random, "default_rng", fails)
    assert getattr(SystemNoise(), law)(np.zeros(5), 1.0).all()


# The lattice


@pytest.mark.parametrize("scale", [1e-300, 0.037, math.nextafter(2.0, 0.0), 2.0, 1e300])
def test_the_lattice_has_a_power_of_two_of_2_to_the_40_steps_to_the_scale(scale):
    step = lattice_step(scale)
    assert math.frexp(step)[0] == 0.5
    assert 2**40 <= Fraction(scale) / Fraction(step) < 2**41
    # The scale of the integers loses nothing.
    assert Fraction(scale / step) == Fraction(scale) / Fraction(step)


@pytest.mark.parametrize("scale", [0.0, -1.0, 1e-301, 1e301, math.inf, math.nan])
def test_a_scale_without_a_lattice_is_refused(scale):
    with pytest.raises(ValueError, match="scale"):
        lattice_step(scale)
    with pytest.raises(ValueError, match="scale"):
        SystemNoise().linf(np.zeros(3), scale)


@pytest.mark.parametrize("scale", [1e-300, 0.037, 1e5])
def test_hardened_linf_noise_is_the_rounded_values_and_integers_times_the_step(scale, monkeypatch):
    asked = []
    integers = [0, 1, -1, 3 * 2**41, -(2**52), 2**70 + 1]

    def known(size, integer_scale):
        asked.append((size, integer_scale))
        return integers

    monkeypatch.setattr(noise_module, "integer_linf", known)
    step = Fraction(lattice_step(scale))
    values = np.array([[0.3, -1.0, 1e-3], [math.pi, 0.0, -1e-12]])
    got = SystemNoise().linf(values, scale)
    assert got.shape == values.shape
    assert asked == [(6, scale / lattice_step(scale))]
    for value, integer, one in zip(values.ravel().tolist(), integers, got.ravel().tolist(), strict=True):
        nearest = [Fraction(value) // step + up for up in (0, 1)]
        sums = [(k + integer) * step for k in nearest if abs(k * step - Fraction(value)) <= step / 2]
        assert one in [float(exact) for exact in sums]
        if all(abs(exact) < 2**53 * step for exact in sums):
            assert Fraction(one) in sums


@pytest.mark.parametrize(("bad", "error"), [(math.nan, ValueError), (math.inf, OverflowError)])
def test_values_that_are_not_finite_are_refused_before_any_noise(bad, error, monkeypatch):
    monkeypatch.setattr(noise_module, "integer_linf", None)
    with pytest.raises(error):
        SystemNoise().linf(np.array([0.0, bad]), 1.0)


# The noise that a whole run adds

RUNS = 100


@pytest.mark.nightly  # By day test_audit.py and test_release.py have scale and law of draws.
@pytest.mark.parametrize("real", [pytest.param(False, marks=pytest.mark.nightly), True], ids=["simulated", "real"])
# Those with axes draw the noise of the others too; the first is audited by day.
@pytest.mark.parametrize(("make", "delta"), [pytest.param(ImprovedTrigI, 0.0, marks=pytest.mark.nightly),
                                             (ImprovedTrigII, 1e-3)])
def test_a_run_adds_noise_of_the_charged_scale_to_the_means(make, delta, real):
    mechanism = make(n_basis=100, n_candidates=40, iterations=1, rank=1)
    X = np.random.default_rng(0).uniform(-1.0, 1.0, (30, 2))
    X = (2.0 * np.ceil((X + 1.0) * mechanism.grid / 2.0) - 1.0) / mechanism.grid - 1.0
    rng = np.random.default_rng(1)
    standard, mean = [], []
    planned = design(len(X), Schema.cube(2), Budget(1.0, delta), mechanism)
    for _ in range(RUNS):
        run = measure(X, Schema.cube(2), planned, None if real else rng.spawn(1)[0])
        charge = run.ledger.charges[0]
        exact = oracles.products_by_series(X, run.release.basis.index).mean(axis=0)
        standard.append(((run.release.means - exact) / charge.scale)[run.release.basis.index.any(axis=1)])
        mean.append((run.release.mean - X.mean(axis=0)) / run.ledger.charges[1].scale)
    law = {"laplace": stats.laplace(), "gaussian": stats.norm()}[charge.law]
    assert np.shape(standard) == (RUNS, 99)
    assert oracles.misfit(standard, law) <= 1.0
    # A scale that is sqrt(2) too small is 0.063 away (Laplace) or 0.083, twice what chance may reach in 9900 draws;
    # that it goes undetected has a probability below 1e-7.
    assert oracles.misfit(np.array(standard) / math.sqrt(2.0), law) > 1.0
    for one, other in ((0, 1), (5, 40)):
        column = np.array(standard)[:, [one, other]]
        assert oracles.dependence(column[:, 0], column[:, 1], law) <= 1.0
    assert oracles.misfit(mean, law) <= 1.0


# Uniform numbers


def test_uniform_numbers_are_the_first_53_bits_of_the_system_s_words(monkeypatch):
    words = [0, 1, 2**11 - 1, 2**11, 2**63 - 1, 2**63, 2**64 - 2**11 - 1, 2**64 - 1,
             *map(int, np.random.default_rng(0).integers(2**64, size=200, dtype=np.uint64))]
    content = b"".join(word.to_bytes(8, sys.byteorder) for word in words)
    monkeypatch.setattr(noise_module.secrets, "token_bytes", lambda size: content[:size])
    found = noise_module.uniform(len(words))
    assert [Fraction(value) for value in found.tolist()] == [Fraction(word // 2**11, 2**53) for word in words]
    # From 0 to just below 1: so every row of a person's can be the one that counts.
    assert found.min() == 0.0
    assert found.max() == 1.0 - 2.0**-53


def test_uniform_numbers_of_the_system_fill_the_unit_interval():
    # Kolmogorov's bound: false alarms have a probability of 10^-9.
    assert stats.kstest(noise_module.uniform(20_000), "uniform").pvalue > 1e-9
