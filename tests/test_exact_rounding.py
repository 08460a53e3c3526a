"""Rounding always goes to the safe side: each scale and each epsilon against exact arithmetic, for numbers at random.

Without the factor that rounds up, about half of these numbers would be too small in their last digit.
"""

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from test_queries import queries

import trigmech as tm
from trigmech.measurement.private_bounds import histogram_charge, histogram_charges, rest_of
from trigmech.planning.design import Regime
from trigmech.privacy import privacy_loss
from trigmech.privacy.accounting import gaussian_mu
from trigmech.queries import functions
from trigmech.queries.base import Measurement, scaled, sensitivity_of
from trigmech.queries.directions import Directions
from trigmech.queries.distances import Distance, Moment, RowShare
from trigmech.queries.functions import Functions
from trigmech.queries.joint import Products
from trigmech.queries.one_way import Contrasts, PrefixSums
from trigmech.queries.signs import Signs
from trigmech.thesis import calibration

PI = Decimal("3.14159265358979323846264338327950288419716939937510582097494459230781640628620899862803482534211706798")
NUMBERS = np.random.default_rng(2014).random(40).tolist()


def some(law):
    """Return a test that tries a law with many numbers."""
    def test():
        for number in NUMBERS:
            law(number)

    test.__name__ = law.__name__
    return test


def test_the_closed_epsilon_of_much_noise_is_rounded_up():
    rng = np.random.default_rng(2014)
    for mu, delta in zip(10.0 ** rng.uniform(4.001, 8.0, 200), 10.0 ** rng.uniform(-12.0, -1.0, 200), strict=True):
        found = privacy_loss.gaussian_epsilon(mu, delta)
        with localcontext() as context:
            context.prec = 60
            m = Decimal(float(mu))
            exact = m * m / 2 + m * (-2 * Decimal(float(delta)).ln()).sqrt()
        assert exact <= Decimal(found) <= exact * (1 + Decimal("3e-15"))


@some
def test_nothing_is_free_whose_delta_is_above_the_given_one_by_a_last_digit(number):
    mu = 1e-9 * (1.0 + number)
    with localcontext() as context:
        context.prec = 60
        # The largest delta of mu-GDP, whose next term is a 10^-37th of it.
        exact = Decimal(mu) / (2 * PI).sqrt() * (1 - Decimal(mu) ** 2 / 24)
    below = float(exact)
    below = below if Decimal(below) < exact else math.nextafter(below, 0.0)
    assert privacy_loss.gaussian_epsilon(mu, below) > 0.0
    assert privacy_loss.gaussian_epsilon(mu, float(exact) * (1.0 + 4e-15)) == 0.0


@some
def test_pure_privacy_is_gaussian_privacy_of_a_mu_that_is_rounded_up(number):
    epsilon = 1e-9 * (1.0 + number)
    with localcontext() as context:
        context.prec = 60
        slope = (PI / 2).sqrt() * Decimal(epsilon)
        # The function's next term is a 10^-18th of the first.
        assert slope <= Decimal(privacy_loss.mu_of_pure(epsilon)) <= slope * (1 + Decimal("1e-15"))


@some
def test_histograms_of_bounds_have_their_share_of_a_pure_budget_at_most(number):
    budget, share = tm.Budget(0.1 + number), 0.05 + 0.9 * number**2
    charge = histogram_charge("p", budget, share, 3)
    assert (charge.law, charge.sensitivity) == ("laplace", 6.0)
    assert Fraction(charge.sensitivity) <= Fraction(charge.scale) * Fraction(budget.epsilon) * Fraction(share)
    assert charge.scale == pytest.approx(6.0 / (budget.epsilon * share), rel=2e-12)
    # Both histograms, and what is left, are the budget.
    spent = sum(Fraction(each.sensitivity) / Fraction(each.scale) for each in histogram_charges(budget, share, 3))
    left = Fraction(rest_of(budget, share).epsilon)
    assert left <= Fraction(budget.epsilon) * (1 - Fraction(share))
    assert spent + left <= Fraction(budget.epsilon)
    assert spent + left >= Fraction(budget.epsilon) * (1 - Fraction(1, 10**11))


@some
def test_histograms_of_bounds_have_their_share_of_a_gaussian_budget_at_most(number):
    budget, share = tm.Budget(0.1 + number, 1e-6), 0.05 + 0.9 * number**2
    charge, mu = histogram_charge("p", budget, share, 3), gaussian_mu(budget)
    assert (charge.law, charge.norm) == ("gaussian", "L2")
    assert Fraction(charge.sensitivity) ** 2 >= 6
    assert Fraction(charge.sensitivity) ** 2 <= Fraction(charge.scale) ** 2 * Fraction(mu) ** 2 * Fraction(share)
    assert charge.scale == pytest.approx(math.sqrt(6.0 / share) / mu, rel=2e-12)


@some
def test_a_charge_of_a_design_has_its_part_of_the_budget_at_most(number):
    fraction, moved = 0.05 + 0.9 * number**2, 0.001 + number
    budget = tm.Budget(0.1 + number)
    pure = Regime.of(budget).charge("p", moved, "proof", fraction)
    assert Fraction(moved) <= Fraction(pure.scale) * Fraction(budget.epsilon) * Fraction(fraction)
    budget = tm.Budget(0.1 + number, 1e-6)
    noisy = Regime.of(budget).charge("p", moved, "proof", fraction)
    strength = Fraction(gaussian_mu(budget)) ** 2 * Fraction(fraction)
    assert Fraction(moved) ** 2 <= Fraction(noisy.scale) ** 2 * strength
    assert [(each.sensitivity, each.norm) for each in (pure, noisy)] == [(moved, "L1"), (moved, "L2")]


@some
def test_noise_for_the_max_norm_has_room_for_its_lattice(number):
    budget, fraction, moved = tm.Budget(0.1 + number), 0.05 + 0.9 * number**2, 0.001 + number
    charge = Regime.of(budget).max_charge("p", moved, "proof", fraction)
    # Both the values and what a row moves are on the lattice, a step of which is at most a 2^39th of the scale.
    assert moved < charge.sensitivity <= moved + charge.scale / 2**39 * (1.0 + 1e-9)
    assert Fraction(charge.sensitivity) <= Fraction(charge.scale) * Fraction(budget.epsilon) * Fraction(fraction)
    assert charge.scale == pytest.approx(moved / (budget.epsilon * fraction), rel=1e-6)
    assert (charge.law, charge.norm) == ("linf", "Linf")


@some
def test_charges_of_the_thesis_have_their_budget_at_most(number):
    strength, moved, count = 0.1 + number, 0.001 + number**2, 1 + int(50 * number)
    pure = calibration._laplace("p", moved, strength, count, "proof")
    assert Fraction(moved) <= Fraction(pure.scale) * Fraction(strength)
    noisy = calibration._gaussian("p", moved, strength, count, "proof")
    assert Fraction(moved) ** 2 * count <= Fraction(noisy.scale) ** 2 * Fraction(strength) ** 2
    assert [(each.law, each.norm, each.count, each.sensitivity) for each in (pure, noisy)] == [
        ("laplace", "L1", count, moved), ("gaussian", "L2", count, moved)]
    assert (pure.scale, noisy.scale) == pytest.approx(
        (moved / strength, moved * math.sqrt(count) / strength), rel=2e-12)


# Half of the distance between 1 and the next float, and the step of the lattice of sums.
UNIT, LATTICE = 2.0**-53, 2.0**-40
NORMS = {"L1": 1, "L2": 2, "Linf": np.inf}


def rounding_of(query, norm, n):
    """As the docstrings say it."""
    length = {"L1": query.size, "L2": math.sqrt(query.size), "Linf": 1.0}[norm]
    if isinstance(query, Functions):
        degrees = query.degrees.sum(axis=1)
        plain = (16.0 * int(degrees.max(initial=0)) ** 2 * UNIT + 2.0 * LATTICE) / n + 8.0 * UNIT
        each = np.concatenate([np.full(len(degrees), plain),
                               functions.roundings(query.features, n)[query.members][len(degrees):]])
        return 0.5 * float(np.linalg.norm(query.weights * each, NORMS[norm]))
    if isinstance(query, Directions):
        return 4.0 * UNIT * query.diameter(norm) + length * LATTICE / n
    if isinstance(query, Products):
        return 4.0 * UNIT * query.diameter(norm)
    if isinstance(query, PrefixSums | Contrasts):
        return (query.partition.size + 5.0) * UNIT * length
    if isinstance(query, Signs):
        return 4.0 * UNIT * length
    return 4.0 * UNIT


def test_each_kind_of_query_is_charged_for_its_rounding():
    seen = set()
    for query in queries().values():
        if isinstance(query, Distance | Moment | RowShare):
            continue
        seen.add(type(query))
        for norm in NORMS:
            assert query.rounding(norm, 900) == pytest.approx(rounding_of(query, norm, 900), rel=1e-12, abs=0.0)
    assert len(seen) >= 7


def test_functions_of_whole_rows_round_by_their_own_degree():
    assert functions.rounding(10, 3) == (16.0 * 9.0 * UNIT + 2.0 * LATTICE) / 10.0 + 8.0 * UNIT
    features = tm.Features(tm.ChebyshevBasis.graded(2, 5), [[1.0, 0.3, 0.2]])
    found = functions.roundings(features, 10)
    plain, whole = found[:5], found[5:]
    np.testing.assert_array_equal(plain, functions.rounding(10, 2))
    degree = math.ceil(5 * 2 * functions.PROFILE_DEGREE / math.sqrt(1.0 - float(features.floors[0])))
    np.testing.assert_array_equal(whole, functions.rounding(10, degree))


def test_a_sensitivity_is_the_move_and_the_rounding_of_both_tables():
    held = [Measurement(query, weight) for query, weight in zip(queries().values(), (0.5, 2.0, 0.25), strict=False)]
    for norm, order in NORMS.items():
        moves = np.array([each.weight * each.query.diameter(norm) for each in held])
        # Of so many rows that a move is as small as the rounding.
        n = 10**15
        rounding = np.array([each.weight * each.query.rounding(norm, n) for each in held])
        whole = 1.5 * float(np.linalg.norm(moves, order)) / n + 2.0 * float(np.linalg.norm(rounding, order))
        assert sensitivity_of(held, norm, n, 1.5) == pytest.approx(whole, rel=1e-9, abs=0.0)
        made = scaled(held, norm, 900)
        assert sensitivity_of(made, norm, 900, 1.0) == pytest.approx(1.0 / 900, rel=1e-12, abs=0.0)
        ratio = [one.weight / other.weight for one, other in zip(made, held, strict=True)]
        np.testing.assert_allclose(ratio, ratio[0], rtol=1e-12)
    assert sensitivity_of([], "L2", 9) == sensitivity_of([], "Linf", 9) == 0.0
