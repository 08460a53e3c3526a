"""What charges cost, against closed forms, exact sums over losses, simulated losses, OpenDP and trade-off functions."""

import math
import warnings
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import oracles
import pytest
from scipy import integrate, stats

from trigmech.errors import BudgetError
from trigmech.privacy import accounting, privacy_loss
from trigmech.privacy.accounting import (
    cost,
    epsilon_of,
    filtered_epsilon,
    gaussian_epsilon,
    gaussian_mu,
    gdp_mu,
    mu_of_pure,
    next_charge,
)
from trigmech.privacy.budget import Budget, Charge


def gaussian(ratio, count=1):
    return Charge("values", "gaussian", 1.0 / ratio, 1.0, "L2", count, "given")


def pure(ratio, count=1, law="linf"):
    return Charge("values", law, 1.0 / ratio, 1.0, "Linf" if law == "linf" else "L1", count, "given")


def claim(epsilon, delta=0.0, count=1):
    return Charge.claimed("values", Budget(epsilon, delta), "another tool", count)


def threshold(delta, count=1):
    return Charge("threshold", "threshold", delta, 0.0, "none", count, "given")


def each(ratio, count=1):
    return Charge("values", "laplace", 1.0 / ratio, 1.0, "each", count, "given")


# Exact deltas of compositions: a sum over the losses of one part of the delta of the rest.


def laplace_delta(x, r):
    """The delta at any real epsilon of one Laplace coordinate of shift / scale r."""
    return 0.0 if x >= r else -math.expm1(x) if x < -r else -math.expm1((x - r) / 2.0)


def over_laplace(rest, r):
    """The delta of a Laplace coordinate and a rest, whose delta is given."""
    def delta(epsilon):
        ends = 0.5 * rest(epsilon - r) + 0.5 * math.exp(-r) * rest(epsilon + r)
        return ends + integrate.quad(lambda loss: 0.25 * math.exp((loss - r) / 2.0) * rest(epsilon - loss), -r, r,
                                     epsabs=1e-14, epsrel=1e-10, limit=200)[0]
    return delta


def over_response(rest, r, count):
    """The delta of `count` randomised responses of epsilon r and a rest."""
    ups = np.arange(count + 1)
    chances = stats.binom.pmf(ups, count, 1.0 / (1.0 + math.exp(-r)))
    return lambda epsilon: math.fsum(c * rest(epsilon - (2 * k - count) * r)
                                     for k, c in zip(ups.tolist(), chances.tolist(), strict=True))


def nothing(epsilon):
    return max(0.0, -math.expm1(epsilon))


def of_gaussian(mu):
    return lambda epsilon: oracles.gaussian_delta(epsilon, mu)


EXACT = {
    "one coordinate": ([each(1.3)], lambda x: laplace_delta(x, 1.3)),
    "many vectors": ([pure(0.02, 300), pure(0.02, 100, "laplace")], over_response(nothing, 0.02, 400)),
    "two sizes": ([pure(0.05, 60), pure(0.7, 3)], over_response(over_response(nothing, 0.7, 3), 0.05, 60)),
    "vectors and gaussian": ([pure(0.11, 50), gaussian(0.3), gaussian(0.2, 4)],
                             over_response(of_gaussian(0.5), 0.11, 50)),
    "one of each": ([each(0.9), pure(0.5, 2), gaussian(0.6)],
                    over_response(over_laplace(of_gaussian(0.6), 0.9), 0.5, 2)),
}


@pytest.mark.daily("one of each-0.01", "many vectors-1e-06", "two sizes-1e-06")
@pytest.mark.parametrize("delta", [1e-6, 0.01])
@pytest.mark.parametrize("name", EXACT)
def test_the_proved_epsilon_is_the_exact_one_or_hardly_more(name, delta):
    charges, exact = EXACT[name]
    epsilon = epsilon_of(charges, delta)
    # The exact delta falls with epsilon; the quadrature errs by 1e-10 of it.
    assert exact(epsilon) <= delta * (1.0 + 1e-8)
    assert exact(epsilon * 0.999) > delta


def coordinates(*sizes):
    """Many small Laplace coordinates, whose losses are together nearly those of this mu."""
    return [each(ratio, count) for ratio, count in sizes], math.sqrt(sum(count * ratio**2 for ratio, count in sizes))


MIXTURES = {
    "many sizes": (coordinates(*((0.01 * (1 + k / 5), 50) for k in range(5))), [], 0.0),
    "near 10": (coordinates((0.02, 2000)), [(0.7, 1), (0.33, 3)], 0.8),
    "far sizes": (coordinates((1e-3, 3000)), [(2.0, 1)], 1.0),
}


@pytest.mark.daily(3)
@pytest.mark.parametrize("name", MIXTURES)
def test_mixtures_cost_what_the_central_limit_theorem_says(name):
    (charges, limit), responses, mu = MIXTURES[name]
    exact = of_gaussian(math.hypot(limit, mu))
    for ratio, count in responses:
        charges, exact = [*charges, pure(ratio, count)], over_response(exact, ratio, count)
    charges += [gaussian(mu)] if mu else []
    epsilon = epsilon_of(charges, 1e-6)
    assert exact(epsilon * 1.015) < 1e-6 < exact(epsilon * 0.985)
    assert epsilon <= filtered_epsilon(charges, 1e-6)


@pytest.mark.nightly
def test_many_coordinates_agree_with_simulated_losses():
    # delta(epsilon) = E max(0, 1 - exp(epsilon - loss)) of independent losses.
    ratio, count, mu, delta, size = 0.03, 400, 0.3, 0.05, 100_000
    charges = [each(ratio, count), gaussian(mu)]
    rng = np.random.default_rng(8)
    # A Laplace number is z with probability 1/2 below 0: the loss |z - r| - |z| is r there, and clipped r - 2z above.
    losses = rng.normal(mu**2 / 2.0, mu, size)
    for _ in range(count):
        z = rng.standard_exponential(size, dtype=np.float32) * rng.choice(np.float32([-1, 1]), size)
        losses += np.clip(ratio - 2.0 * z, -ratio, ratio)
    error = oracles.bernstein_tolerance(2.0 * delta, 1.0, size)

    def simulated(at):
        return np.maximum(0.0, -np.expm1(at - losses)).mean()

    assert abs(simulated(epsilon_of(charges, delta)) - delta) < error
    # Planted fault: a fifth of the coordinates forgotten.
    assert simulated(epsilon_of([each(ratio, count * 4 // 5), gaussian(mu)], delta)) > delta + error


def test_more_unequal_charges_than_have_distributions_are_still_bounded(monkeypatch):
    charges = [each(0.1 + 0.01 * k, 3) for k in range(6)] + [gaussian(0.3)]
    epsilon = epsilon_of(charges, 1e-4)
    monkeypatch.setattr(privacy_loss, "MOST_DISTRIBUTIONS", 2)
    monkeypatch.setattr(accounting, "_composed", accounting._composed.__wrapped__)
    assert epsilon < epsilon_of(charges, 1e-4) <= filtered_epsilon(charges, 1e-4)


@pytest.mark.nightly  # By day mixtures cost no more, here.
@pytest.mark.parametrize("charges", [[each(600.0, 3), gaussian(1.0)], [pure(1e300), gaussian(1e200)],
                                     [pure(1e-300), gaussian(1e-9)]])
def test_extreme_charges_cost_no_more_than_adaptively_chosen_ones(charges):
    for delta in (0.0, 1e-300, 1e-12, 1e-3, 0.999):
        assert 0.0 <= epsilon_of(charges, delta) <= filtered_epsilon(charges, delta) * (1 + 1e-12)


def test_the_closed_forms():
    assert epsilon_of([pure(0.5), each(0.1, 4)], 0.0) == 0.9
    assert epsilon_of([], 0.1) == epsilon_of([pure(0.1), gaussian(0.1)], 0.5) == 0.0
    assert epsilon_of([gaussian(1.0)], 0.0) == math.inf
    exact = oracles.gaussian_epsilon(1.0, 1e-5)
    assert exact <= epsilon_of([gaussian(0.6), gaussian(0.4, 4)], 1e-5) <= exact * (1 + 1e-8)


# Fully adaptive composition


def pure_trade_off(alpha, epsilon):
    return np.maximum(0.0, np.maximum(1.0 - np.exp(epsilon) * alpha, np.exp(-epsilon) * (1.0 - alpha)))


@pytest.mark.parametrize("epsilon", [1e-8, 1e-3, 0.1, 1.0, 5.0, 30.0])
def test_pure_privacy_implies_gaussian_privacy_of_the_given_mu_and_no_less(epsilon):
    mu, meet = mu_of_pure(epsilon), 1.0 / (1.0 + math.exp(epsilon))
    alpha = np.concatenate([np.linspace(0.0, 1.0, 10_001), np.geomspace(1e-300, 1.0, 10_001), meet * (1 + np.linspace(
        -1e-3, 1e-3, 101))])
    gaussian_trade_off = stats.norm.sf(stats.norm.ppf(alpha) + mu)
    assert (gaussian_trade_off <= pure_trade_off(alpha, epsilon) * (1 + 1e-12) + 1e-15).all()
    # Touching where the two lines meet.
    assert stats.norm.sf(stats.norm.ppf(meet) + mu) == pytest.approx(meet, rel=1e-6)


def test_the_conversion_is_never_below_the_exact_one():
    # mu is enough where Phi(-mu / 2) <= 1 / (1 + e^epsilon), in a hundred digits.
    rng = np.random.default_rng(3)
    grid = [*np.geomspace(1e-12, 50.0, 40), *10.0 ** rng.uniform(-12, -6, 40), 1e-4, 1.0001e-4]
    with localcontext() as context:
        context.prec = 100
        for epsilon in map(float, grid):
            least = 1 / (1 + Decimal(epsilon).exp())
            mu = mu_of_pure(epsilon)
            assert oracles.exact_normal_tail(Fraction(mu) / 2) <= least


def test_a_filter_takes_the_smaller_of_two_sums():
    few, many = [pure(0.1), each(0.1, 3)], [pure(0.01, 1000), gaussian(0.1, 4)]
    assert filtered_epsilon(few, 1e-6) == filtered_epsilon(few, 0.0) == pytest.approx(0.4)
    mu = math.sqrt(1000 * mu_of_pure(0.01) ** 2 + 4 * 0.01)
    assert gdp_mu(many) == pytest.approx(mu, rel=1e-12)
    assert filtered_epsilon(many, 1e-6) == pytest.approx(oracles.gaussian_epsilon(mu, 1e-6), rel=1e-9)
    assert filtered_epsilon(many, 0.0) == math.inf
    assert filtered_epsilon([], 0.0) == filtered_epsilon([], 0.1) == gdp_mu([]) == 0.0


# Claims of other tools


def told(rest, claims):
    """The delta of mechanisms that tell all with the claimed probabilities, else behave as the rest."""
    silent = math.prod((1.0 - one.claimed_delta) ** one.count for one in claims)
    return lambda epsilon: 1.0 - silent + silent * rest(epsilon)


CLAIMS = {
    "two": ([claim(0.5, 1e-3), claim(0.9, 2e-3)], over_response(over_response(nothing, 0.9, 1), 0.5, 1)),
    "many": ([claim(0.05, 1e-5, 100)], over_response(nothing, 0.05, 100)),
    "beside noise": ([claim(0.4, 1e-3, 2), pure(0.4, 3), gaussian(0.5)], over_response(of_gaussian(0.5), 0.4, 5)),
    "a threshold beside noise": ([threshold(1e-3), gaussian(0.5)], of_gaussian(0.5)),
    "a claim and thresholds beside noise": ([claim(0.4, 1e-3), threshold(2e-3, 2), gaussian(0.5)],
                                            over_response(of_gaussian(0.5), 0.4, 1)),
    "beside coordinates": ([claim(0.3, 1e-3), each(0.6)], over_laplace(over_response(nothing, 0.3, 1), 0.6)),
}


@pytest.mark.daily(6)
@pytest.mark.parametrize("name", CLAIMS)
def test_the_epsilon_of_claims_is_the_exact_optimum_or_hardly_more(name):
    charges, rest = CLAIMS[name]
    exact = told(rest, [one for one in charges if one.claimed_delta > 0])
    for delta in (0.01, 0.05):
        epsilon = epsilon_of(charges, delta)
        assert exact(epsilon) <= delta * (1.0 + 1e-8)
        assert exact(epsilon * 0.999) > delta


def test_pure_claims_add_up_as_the_decimals_that_were_written():
    for charges, total in (([claim(0.1)] * 3, 0.3), ([claim(0.7), pure(0.25)], 0.95)):
        assert epsilon_of(charges, 1e-6) <= total == epsilon_of(charges, 0.0) == filtered_epsilon(charges, 0.0)
    # With all of delta spent on what is told, the rest adds up too: the sum theorem for (epsilon, delta).
    assert epsilon_of([claim(0.5, 4e-7), claim(0.3, 6e-7)], 1e-6) == 0.8
    assert epsilon_of([claim(0.5, 1e-6)], 1e-6) == 0.5


@pytest.mark.daily("1")
@pytest.mark.parametrize("hundredths", [1, 7])
def test_thirty_equal_costs_add_up_to_thirty_times_one_whoever_made_them(hundredths):
    noise = Charge("values", "laplace", 100.0, float(hundredths), "L1", 1, "given")
    claimed = claim(hundredths / 100)
    for k in range(31):
        charges = [noise] * k + [claimed] * (30 - k)
        assert filtered_epsilon(charges, 0.0) == epsilon_of(charges, 0.0) == 30 * hundredths / 100
        assert claimed.sensitivity <= next_charge(charges[1:], Budget(30 * hundredths / 100)).pure


def test_a_sum_of_pure_costs_is_the_float_next_to_the_exact_one():
    rng = np.random.default_rng(3)
    for _ in range(300):
        charges = [Charge("values", "laplace", rng.choice([3.0, 7.0, 100.0, rng.uniform(1, 50)]),
                          rng.choice([1.0, 0.3, 1e-12, rng.uniform(0, 1)]), "L1",
                          int(rng.choice([1, 2, 3, 10**6], p=[0.5, 0.3, 0.19, 0.01])), "given")
                   if rng.random() < 0.6 else claim(float(rng.integers(1, 1000)) / 100, count=int(rng.integers(1, 9)))
                   for _ in range(int(rng.integers(1, 40)))]
        exact = sum((one.count * (Fraction(repr(float(one.sensitivity))) if one.law == "other" else
                                  Fraction(one.sensitivity) / Fraction(one.scale)) for one in charges), Fraction(0))
        assert filtered_epsilon(charges, 0.0) == filtered_epsilon(rng.permutation(charges), 0.0) == float(exact)
    assert filtered_epsilon([pure(1e300), pure(5e307), pure(1.5e308)], 0.0) == math.inf
    assert filtered_epsilon([Charge("values", "laplace", 1e-200, 1e200, "L1", 1, "given"), claim(1.0)], 0.0) == math.inf


@pytest.mark.parametrize("delta", [0.0, 1e-6, 0.1])
def test_what_is_told_with_more_than_delta_proves_nothing(delta):
    for charges in ([claim(0.1, 0.2)], [claim(0.1, 0.15), gaussian(0.1)], [claim(1.0, 1e-3, 10**6)]):
        assert epsilon_of(charges, delta) == math.inf
        assert gdp_mu(charges) == math.inf
        assert charges[0].pure_epsilon == math.inf


def test_a_filter_admits_claims_to_their_reserve_and_the_rest_at_what_it_leaves():
    charges = [claim(0.2, 1e-7, 3), gaussian(0.2)]
    assert filtered_epsilon(charges, 1e-6, 2.9e-7) == filtered_epsilon(charges, 1e-6) == math.inf
    rest = filtered_epsilon([claim(0.2, 0.0, 3), gaussian(0.2)], 7e-7)
    assert filtered_epsilon(charges, 1e-6, 3e-7) == rest < math.inf
    assert filtered_epsilon([claim(0.2, 1e-7, 3)], 1e-6, 3e-7) == pytest.approx(0.6)
    assert filtered_epsilon([gaussian(0.2)], 1e-6, 1e-6) == math.inf
    assert cost(claim(0.2, 1e-7, 3), 1e-6) == (0.6, 3e-7)
    assert cost(claim(0.2, 1e-7, 10**7), 1e-6) == (math.inf, 0.0)


@pytest.mark.parametrize(("epsilon", "first"), [(0.5, 0.05), (1.0, 0.2), (2.0, 0.4)])
def test_who_chooses_the_second_charge_after_seeing_the_first_does_not_pass_the_filter(epsilon, first):
    # A first release tells all with probability first_delta, else is a randomised response. If it tells nothing, as
    # much Gaussian noise follows as the filter admits after the likely outcome, and a second claim after the other.
    delta, reserve, first_delta = 0.02, 0.01, 0.004
    mu = math.sqrt(gaussian_mu(Budget(epsilon, delta - reserve)) ** 2 - mu_of_pure(first) ** 2)
    second = [claim(epsilon - first - 1e-9, reserve - first_delta)]
    admitted = [claim(first, first_delta), gaussian(mu)], [claim(first, first_delta), *second]
    assert all(filtered_epsilon(charges, delta, reserve) <= epsilon for charges in admitted)
    likely = 1.0 / (1.0 + math.exp(-first))

    def spent(mu, second):
        options = [lambda x: oracles.gaussian_delta(x, mu),
                   told(over_response(nothing, second[0].sensitivity, 1), second)]
        rest = max(likely * one(epsilon - first) + (1.0 - likely) * other(epsilon + first)
                   for one in options for other in options)
        return first_delta + (1.0 - first_delta) * rest

    assert spent(mu, second) <= delta
    # Planted fault: the whole of delta for the noise, though a part of it is spent on what is told.
    assert spent(gaussian_mu(Budget(epsilon, delta)), second) > delta


# What may come next

STATES = {
    "nothing": (Budget(3.0, 1e-6), 0.0, []), "much pure": (Budget(3.0, 1e-6), 0.0, [pure(2.9)]),
    "little left": (Budget(1.0, 1e-6), 0.0, [gaussian(gaussian_mu(Budget(0.999, 1e-6)))]),
    "of three tenths": (Budget(0.3), 0.0, [claim(0.1, 0.0, 2)]),
    "a reserve": (Budget(2.0, 1e-5), 4e-6, [gaussian(0.2), claim(0.1, 1e-6, 3)]),
    "all delta reserved": (Budget(2.0, 1e-5), 1e-5, [claim(0.5, 1e-6)]),
    "used up": (Budget(1.0, 1e-6), 0.0, [pure(1.0)]),
}


@pytest.mark.parametrize("name", STATES)
def test_the_next_charge_that_is_printed_is_admitted_and_a_thousandth_more_is_not(name):
    budget, reserve, charges = STATES[name]
    left = next_charge(charges, budget, reserve)

    def admitted(more):
        return filtered_epsilon([*charges, more], budget.delta, reserve) <= budget.epsilon

    def run(epsilon):
        return gaussian(gaussian_mu(Budget(epsilon, budget.delta)) / (1.0 + 1e-12))

    for shown, made, least in ((left.pure, lambda e: pure(e / (1.0 + 1e-12)), 1e-9), (left.pure, claim, 1e-9),
                               (left.gaussian, run, 1e-6)):
        if shown > 0:
            assert float(f"{shown:.6g}") == shown
            assert admitted(made(shown))
            assert not admitted(made(shown * 1.001))
        else:
            assert budget.delta == reserve or not admitted(made(least))
    assert (left.gaussian > 0) == (name in ("nothing", "little left", "a reserve"))
    assert (left.pure > 0) == (name != "used up")
    if left.pure and left.claimed_delta > 0:
        assert admitted(claim(left.pure, left.claimed_delta))
        assert not admitted(claim(left.pure / 2, left.claimed_delta * 1.001))
    assert (str(left) == "nothing") == (left.pure == left.gaussian == 0)


# Another library


@pytest.mark.parametrize("one", [each, pure, gaussian])
@pytest.mark.parametrize("delta", [1e-6, 0.01])
def test_equal_charges_cost_as_much_as_one_of_their_number(one, delta):
    apart, together = [one(0.3)] * 7, [one(0.3, 7)]
    assert epsilon_of(apart, delta) == pytest.approx(epsilon_of(together, delta), rel=1e-9)
    assert epsilon_of(apart, delta) > 1.2 * epsilon_of([one(0.3)], delta)
    # Beside others too, among which they may stand anywhere.
    others = [pure(0.11, 2), gaussian(0.2)]
    assert epsilon_of([*others, *apart], delta) == pytest.approx(epsilon_of([*together, *others], delta), rel=1e-9)


@pytest.mark.parametrize("delta", [1e-9, 1e-6, 1e-3, 0.1])
@pytest.mark.parametrize("mu", [0.3, 4.0, 20.0, 1.0001e4, 1e6])
def test_a_gaussian_epsilon_is_never_below_the_exact_one(mu, delta):
    epsilon = gaussian_epsilon(mu, delta)
    if mu < 100.0:
        # The oracle's two terms err by less than 1e-11 of their difference here; 1e-7 less epsilon would show.
        assert oracles.gaussian_delta(epsilon, mu) <= delta * (1.0 + 1e-10)
        assert oracles.gaussian_delta(epsilon * (1.0 - 1e-7) - 1e-11, mu) > delta * (1.0 + 1e-10)
    else:
        # The loss is N(mu^2 / 2, mu^2), and no more than its part above epsilon counts.
        assert stats.norm.sf((epsilon - mu**2 / 2.0) / mu) <= delta


@pytest.mark.parametrize("delta", [1e-9, 1e-6, 1e-3, 0.1])
@pytest.mark.parametrize("part", [0.5, 1.0 - 1e-9, 1.0, 1.0 + 1e-6, 1.02, 1.5, 1.999, 3.0])
def test_epsilon_is_0_only_where_delta_pays_for_all_of_the_noise(part, delta):
    # At epsilon = 0 the delta of mu-GDP is 2 Phi(mu / 2) - 1, an error function; mu / sqrt(2 pi) but for its cube.
    mu = part * math.sqrt(2.0 * math.pi) * delta
    all_of_it = math.erf(mu / math.sqrt(8.0))
    epsilon = gaussian_epsilon(mu, delta)
    if epsilon == 0.0:
        assert all_of_it <= delta
    else:
        assert oracles.gaussian_delta(epsilon, mu) <= delta * (1.0 + 1e-6)
    # And nobody pays where the bound of that delta is smaller than delta by more than rounding.
    assert epsilon == 0.0 or part >= 1.0


def test_what_claims_leave_of_delta_is_never_above_the_exact_part():
    rng, tight = np.random.default_rng(0), 0
    for _ in range(300):
        delta = float(f"{10.0 ** rng.uniform(-9.0, -1.0):.6g}")
        claims = [claim(0.1, float(f"{delta * rng.uniform(1e-4, 0.3):.6g}"), int(rng.integers(1, 3)))
                  for _ in range(int(rng.integers(1, 4)))]
        kept = math.prod((1 - Fraction(repr(each.claimed_delta))) ** each.count for each in claims)
        exact = 1 - (1 - Fraction(repr(delta))) / kept
        if exact <= 0:
            continue
        found = accounting._delta_of_the_rest(claims, delta)
        # As people wrote the numbers, which floats are near.
        assert Fraction(found) <= exact + Fraction(delta) / 2**52
        assert found >= float(exact) * (1.0 - 1e-6) - 1e-14
        logs = math.log1p(-delta) - sum(each.count * math.log1p(-each.claimed_delta) for each in claims)
        tight += -math.expm1(logs) > found
    # What the logarithms alone would give is more, nearly always: their rounding is taken off.
    assert tight > 200


def test_the_mu_of_charges_together_is_never_below_the_exact_root_of_their_squares():
    rng, close = np.random.default_rng(0), []
    for _ in range(300):
        charges = [Charge("values", "gaussian", float(rng.uniform(0.1, 9.0)), float(rng.uniform(0.01, 3.0)), "L2",
                          int(rng.integers(1, 9)), "given") for _ in range(int(rng.integers(1, 6)))]
        exact = sum(charge.count * (Fraction(charge.sensitivity) / Fraction(charge.scale)) ** 2 for charge in charges)
        found = Fraction(gdp_mu(charges)) ** 2
        assert found >= exact
        close.append(float(found / exact) - 1.0)
    # By no more than a few bits, of which about half are needed: without them every other root would be too small.
    assert max(close) < 4.0 * 2.0**-50


@pytest.mark.parametrize("count", [1, 2, 16, 17, 100, 256, 4_096, 5_000, 10**6])
def test_of_all_tails_of_a_power_of_losses_no_more_is_cut_off_than_the_library_cuts_of_one(count):
    class Loss:
        """How many losses are composed in it, and the probability that was cut off in all."""

        def __init__(self, number=1, cut=0.0):
            self.number, self.cut = number, cut

        def self_compose(self, times, cut=1e-15):
            assert 2 <= times <= 16
            return Loss(self.number * times, self.cut * times + cut)

        def compose(self, other):
            return Loss(self.number + other.number, self.cut + other.cut)

    found = privacy_loss._power(Loss(), count)
    assert found.number == count
    # In each of the few rounds once, and no more in all: what epsilon_of takes off its delta is a hundred times that.
    assert found.cut <= 1e-15 * max(1.0, 3.0 * math.log(count, 16))
    assert found.cut <= accounting.ROUNDING_DELTA / 10.0


@pytest.mark.parametrize("delta", [1e-11, 2e-11, 1e-9])
def test_a_delta_pays_for_the_rounding_of_distributions_of_losses(delta, monkeypatch):
    # In the place of a distribution one whose deltas are wrong by as much as the transforms may be.
    charges, wrong = [gaussian(0.5), pure(0.1)], 1e-13

    class Wrong:
        def get_epsilon_for_delta(self, asked):
            return oracles.gaussian_epsilon(0.5, asked + wrong)

    monkeypatch.setattr(accounting, "pessimistic", lambda parts, mu: Wrong())
    # Nothing that was computed before, and nothing for later.
    monkeypatch.setattr(accounting, "_composed", accounting._composed.__wrapped__)
    epsilon = epsilon_of(charges, delta)
    # What it was asked for was less by that: what it finds is right at the delta that was meant, and hardly more.
    assert epsilon == pytest.approx(oracles.gaussian_epsilon(0.5, delta), rel=1e-9)


# The first five were below the exact epsilon where the margin did not grow with delta's logarithm.
@pytest.mark.daily(4)
@pytest.mark.parametrize(("mu", "delta"), [
    (0.0007316493692386205, 6.899452754845937e-266), (0.00018785998917891284, 2.198161609233712e-297),
    (2.883605623348322e-05, 3.6488616732091917e-292), (4.428732677885536e-07, 2.430343646263529e-255),
    (1.1473035660172454e-08, 1.1730692416680262e-259), (0.01, 5e-324), (5.0, 1e-300), (1e-5, 1e-100), (2.0, 1e-13),
    (1e-7, 3e-8), (1.0, 0.383), (0.5, 0.1974126)])
def test_a_gaussian_epsilon_is_rounded_up_in_exact_arithmetic(mu, delta):
    epsilon, digits = gaussian_epsilon(mu, delta), 750 if delta < 1e-20 else 120
    assert oracles.exact_gaussian_delta(epsilon, mu, digits) <= Decimal(delta)
    less = epsilon * (1.0 - 1e-11) - 2e-12
    assert less <= 0.0 or oracles.exact_gaussian_delta(less, mu, digits) > Decimal(delta)


@pytest.mark.parametrize("delta", [1e-200, 1e-300, 5e-324])
@pytest.mark.parametrize("epsilon", [1e-6, 1.3e-6, 1e-3, 1.0, 1e7])
def test_noise_for_a_tiny_delta_is_within_the_budget_that_it_is_for(epsilon, delta):
    assert 0.99 * epsilon < gaussian_epsilon(gaussian_mu(Budget(epsilon, delta)), delta) <= epsilon


@pytest.mark.parametrize("epsilon", [1e-6, 1e-4, 1e6, 1e7])
def test_the_ends_of_the_range_give_no_warning_and_hold(epsilon):
    for delta in (1e-9, 1e-3):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            mu = gaussian_mu(Budget(epsilon, delta))
            assert epsilon_of([gaussian(mu)], delta) <= epsilon
            assert epsilon_of([gaussian(mu), pure(epsilon / 10)], delta) < 3 * epsilon + 1e-4
            assert filtered_epsilon([pure(epsilon)], delta) <= epsilon
        if epsilon <= 1.0:
            assert oracles.gaussian_delta(epsilon, mu) < delta < oracles.gaussian_delta(epsilon, mu * (1 + 1e-4))
        else:
            # The loss is N(mu^2 / 2, mu^2), and nearly all of it above epsilon counts.
            assert stats.norm.sf((epsilon - mu**2 / 2.0) / mu) < 1.1 * delta + 1e-12


@pytest.mark.parametrize(("epsilon", "what"), [(9e-7, "below 1e-06"), (1.1e7, "above 1e\\+07")])
def test_gaussian_noise_for_other_epsilons_is_refused_plainly(epsilon, what):
    with pytest.raises(BudgetError, match=f"epsilon = .* is {what}"):
        gaussian_mu(Budget(epsilon, 1e-5))


@pytest.mark.parametrize("delta", [5e-324, 1e-300, 1e-12, 1e-5, 0.01, 0.5, 0.99])
def test_gaussian_noise_and_its_epsilon_are_those_of_another_library(delta):
    from dp_accounting import get_epsilon_gaussian, get_sigma_gaussian

    for epsilon in np.geomspace(1e-6, 1e7, 27):
        with np.errstate(divide="ignore"):
            wanted = float(get_sigma_gaussian(epsilon, delta))
        assert privacy_loss.gaussian_deviation(float(epsilon), delta) == pytest.approx(wanted, rel=1e-10, abs=1e-12)
    for mu in np.geomspace(1e-6, 1e4, 21):
        if mu / math.sqrt(2.0 * math.pi) * (1.0 + 1e-15) <= delta:
            continue
        with np.errstate(divide="ignore"):
            found = float(get_epsilon_gaussian(1.0 / mu, delta, tol=1e-15))
        added = max(privacy_loss.SEARCH_ERROR, privacy_loss.LOG_ERROR * -math.log(delta))
        assert privacy_loss.gaussian_epsilon(mu, delta) == pytest.approx(found * (1.0 + 1e-12) + added, rel=1e-11,
                                                                         abs=1e-14)


@pytest.mark.parametrize(("choice", "noise", "delta"), [
    (90.0, 810.0, 1e-6), (100.0, 900.0, 1e-9), (300.0, 1_500.0, 1e-3), (5e3, 2e3, 1e-6), (1.0, 9e4, 1e-6)])
def test_pure_charges_never_cost_more_than_their_epsilons_beside_gaussian_noise(choice, noise, delta):
    """Privacy loss distributions of large losses are coarse: a plan within its budget was refused by .1 %."""
    mu = gaussian_mu(Budget(noise, delta))
    for charges, parts in (([pure(choice), gaussian(mu)], 1),
                           ([gaussian(mu / math.sqrt(3.0), 3), pure(choice / 4.0, 4)], 4),
                           ([claim(choice / 2.0), gaussian(mu), pure(choice / 2.0)], 2)):
        found = epsilon_of(charges, delta)
        assert found <= (choice + noise) * (1.0 + 1e-12)
        # The exact delta of the worst pure mechanisms beside Gaussian noise, at this epsilon.
        assert over_response(of_gaussian(mu), choice / parts, parts)(found) <= delta * (1.0 + 1e-9)


@pytest.mark.daily("1e-05")
@pytest.mark.parametrize("delta", [1e-9, 1e-5, 1e-2])
def test_what_is_proved_of_a_choice_and_noise_is_never_below_the_exact_epsilon(delta):
    rng = np.random.default_rng(3)
    for _ in range(40):
        ratio, mu = np.exp(rng.uniform(np.log(0.01), np.log(30.0), 2))
        found = epsilon_of([pure(ratio), gaussian(mu)], delta)
        assert over_response(of_gaussian(mu), ratio, 1)(found) <= delta * (1.0 + 1e-9)
        assert found <= (ratio + gaussian_epsilon(mu, delta)) * (1.0 + 1e-12)
