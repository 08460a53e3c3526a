import dataclasses
import json
import math
import re
import tracemalloc
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import oracles
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from trigmech.errors import BudgetError
from trigmech.privacy.accounting import cost, epsilon_of, gaussian_mu
from trigmech.privacy.budget import Budget, Charge, as_decimal, float_above, float_below, shown_down, shown_up
from trigmech.privacy.ledger import Ledger
from trigmech.privacy.ledger_file import LedgerFile
from trigmech.report.statement import guarantee


def laplace(scale, sensitivity=1.0, count=1, norm="L1", floor=None):
    return Charge("values", "laplace", scale, sensitivity, norm, count, "given", floor=floor)


def gaussian(scale, sensitivity=1.0, count=1, floor=None):
    return Charge("values", "gaussian", scale, sensitivity, "L2", count, "given", floor=floor)


def linf(scale, sensitivity=1.0, count=1, floor=None):
    return Charge("values", "linf", scale, sensitivity, "Linf", count, "given", floor=floor)


# Budgets and charges


@pytest.mark.parametrize("epsilon", [0, -1, math.nan, math.inf, "1", True, np.bool_(True), 1j, 10**400, None])
def test_epsilon_is_positive_and_finite(epsilon):
    with pytest.raises(BudgetError, match="epsilon"):
        Budget(epsilon)


@pytest.mark.parametrize("delta", [-0.1, 1, 1.5, math.nan, math.inf, "small", "1e-6", False, None])
def test_delta_is_at_least_0_and_below_1(delta):
    with pytest.raises(BudgetError, match="delta"):
        Budget(1.0, delta)


@pytest.mark.parametrize("number", [2, np.float32(2), Fraction(2)])
def test_a_budget_holds_floats_whatever_it_was_given(number):
    budget = Budget(number, np.float64(0.25))
    assert (type(budget.epsilon), type(budget.delta)) == (float, float)
    assert budget == Budget(2.0, 0.25)


@pytest.mark.parametrize("bad", ["1", True])
@pytest.mark.parametrize("name", ["scale", "sensitivity", "floor"])
def test_the_numbers_of_a_charge_are_no_text_and_no_truth_values(name, bad):
    with pytest.raises(BudgetError, match=f"values: the {name} must be a number, not "):
        laplace(**{"scale": 1.0, name: bad})


@pytest.mark.parametrize(("law", "norm"), [(law, norm) for law in ("laplace", "gaussian", "linf", "cauchy")
                                           for norm in ("L1", "L2", "Linf", "each", "L3")])
def test_a_law_goes_with_its_own_norm(law, norm):
    if (law, norm) in {("laplace", "L1"), ("laplace", "each"), ("gaussian", "L2"), ("linf", "Linf")}:
        assert Charge("x", law, 1.0, 1.0, norm, 1, "given").norm == norm
    else:
        with pytest.raises(BudgetError, match=f"{law} noise cannot have its sensitivity in {norm}"):
            Charge("x", law, 1.0, 1.0, norm, 1, "given")


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf])
def test_a_charge_without_noise_is_refused(bad):
    with pytest.raises(BudgetError, match="scale"):
        laplace(bad)
    with pytest.raises(BudgetError, match="floor"):
        laplace(1.0, floor=bad)


@pytest.mark.parametrize("bad", [-1.0, math.nan, math.inf])
def test_a_sensitivity_is_finite_and_not_negative(bad):
    with pytest.raises(BudgetError, match="sensitivity"):
        gaussian(1.0, bad)


@pytest.mark.parametrize("bad", [0, -1, 2.0, "3", None, 10**12 + 1])
def test_a_count_is_an_integer_of_at_least_1(bad):
    with pytest.raises(BudgetError, match="count"):
        laplace(1.0, count=bad)
    assert type(laplace(1.0, count=np.int64(3)).count) is int


def test_budgets_and_charges_are_the_same_after_a_round_through_json():
    for one in (Budget(1 / 3, 1e-7), gaussian(np.float64(0.1), 1 / 7, 5), laplace(2.0, norm="each", count=3, floor=1.0),
                Charge("x", "linf", 2.0, np.float32(0.5), "Linf", 1, "here", claim=Budget(1.0))):
        assert type(one).from_dict(json.loads(json.dumps(one.to_dict(), allow_nan=False))) == one


def test_a_claim_is_a_charge_of_its_own_law():
    one = Charge.claimed("mean age", Budget(0.5, 1e-7), "SmartNoise", 3)
    assert (one.law, one.norm, one.count, one.claimed_delta) == ("other", "none", 3, 1e-7)
    assert one.proof == "claimed by SmartNoise, not proved here"
    assert (one.pure_epsilon, one.mu) == (math.inf, math.inf)
    assert Charge.claimed("x", Budget(0.5), "tool").pure_epsilon == 0.5
    assert laplace(1.0).claimed_delta == 0.0
    assert Charge.from_dict(json.loads(json.dumps(one.to_dict()))) == one
    for bad in ({"claim": None}, {"scale": 2.0}, {"sensitivity": 0.4}, {"floor": 1.0}):
        with pytest.raises(BudgetError, match="law 'other' needs a claim"):
            dataclasses.replace(one, **bad)


def test_a_threshold_is_a_charge_of_its_own_law_that_costs_a_delta_alone():
    one = Charge("threshold", "threshold", 1e-7, 0.0, "none", 1, "here")
    assert (one.claimed_delta, one.pure_epsilon, one.mu) == (1e-7, math.inf, math.inf)
    assert cost(one, 1e-6) == (0.0, 1e-7)
    assert Charge.from_dict(json.loads(json.dumps(one.to_dict()))) == one
    for bad in ({"claim": Budget(1.0)}, {"scale": 1.0}, {"sensitivity": 0.4}, {"floor": 1.0}):
        with pytest.raises(BudgetError, match="law 'threshold' needs a delta below 1"):
            dataclasses.replace(one, **bad)
    with pytest.raises(BudgetError, match="count"):
        dataclasses.replace(one, count=0)


@pytest.mark.parametrize(("epsilon", "delta"), [
    (0.1, 0.0), (1.0, 1e-6), (3.0, 1e-3), (1e-9, 0.4), (12.0, 1e-9), (0.1 + 0.2, 5e-324), (705.0, 1e-308),
    (709.9, 1e-310)])
def test_a_claim_for_adding_or_removing_a_row_is_paid_for_in_two_steps(epsilon, delta):
    converted = Budget(epsilon, delta).for_replace_one()
    # Group privacy of two, of the decimals that somebody wrote, in exact arithmetic but for the exponential.
    assert Decimal(repr(converted.epsilon)) >= 2 * Decimal(repr(epsilon))
    assert converted.epsilon <= math.nextafter(2.0 * epsilon, math.inf)
    with localcontext() as context:
        context.prec = 60
        exact = (1 + Decimal(repr(epsilon)).exp()) * Decimal(repr(delta))
        below = Decimal(repr(math.nextafter(converted.delta, 0.0)))
        # The least float that is no less, in the steps of numbers next to 0, too.
        assert below < exact <= Decimal(repr(converted.delta)) or delta == converted.delta == 0.0


@settings(derandomize=True, max_examples=200)
@given(st.floats(1e-9, 1e4), st.floats(-745.0, -0.01))
@example(700.0, -705.0)
@example(701.0, -705.0)
@example(740.0, -741.0)
@example(744.0, -743.9)
def test_a_claim_for_adding_or_removing_a_row_is_never_understated(epsilon, log_delta):
    budget = Budget(epsilon, max(math.exp(log_delta), 5e-324))
    with localcontext() as context:
        context.prec = 60
        exact = (1 + min(Decimal(repr(epsilon)), Decimal(2000)).exp()) * Decimal(repr(budget.delta))
        if exact >= 1:
            with pytest.raises(BudgetError, match="implies no guarantee for replacing a row"):
                budget.for_replace_one()
        else:
            assert exact <= Decimal(repr(budget.for_replace_one().delta)) <= exact * (1 + Decimal("1e-15")) + Decimal(
                "5e-324")


def test_a_claim_that_implies_nothing_for_replacing_a_row_is_refused():
    assert Budget(1e5).for_replace_one() == Budget(2e5)
    for bad in (Budget(1.0, 0.3), Budget(1e5, 1e-9), Budget(1e300, 5e-324), Budget(712.0, 1e-309)):
        with pytest.raises(BudgetError, match="implies no guarantee for replacing a row"):
            bad.for_replace_one()


# What is printed


@settings(derandomize=True, max_examples=40)
@given(st.floats(min_value=0.0, max_value=1e300), st.integers(2, 9))
def test_what_is_shown_as_a_bound_is_one_and_close(value, digits):
    above, below = float(shown_up(value, digits)), float(shown_down(value, digits))
    assert below <= value <= above
    if value > 1e-300:
        assert above - below <= 10.0 ** (2 - digits) * value
    # What has few digits is shown as it is, and a shown number is shown again as itself.
    assert shown_up(above, digits) == shown_down(above, digits) == shown_up(value, digits)


def test_what_people_wrote_is_shown_as_they_wrote_it():
    for text in ("1", "0.1", "0.3", "1e-06", "2.5e-07", "0.0001", "1e+12", "123456", "0"):
        assert shown_up(float(text)) == shown_down(float(text)) == text
    assert str(Budget(1, 1e-6)) == "(1, 1e-06)"
    assert (shown_up(math.inf), shown_up(1.1458333), shown_down(1.1458337)) == ("inf", "1.14584", "1.14583")


def numbers_after(word, text):
    """The two numbers in parentheses after a word."""
    first, second = text.split(f"{word}(")[1].split(")")[0].split(", ")
    return float(first), float(second)


def test_no_text_states_less_than_what_is_proved(tmp_path):
    rng = np.random.default_rng(6)
    for k in range(4):
        delta = float(10.0 ** rng.uniform(-9, -3)) if k % 2 else 0.0
        charges = [laplace(float(scale), count=int(rng.integers(1, 4))) for scale in rng.uniform(1.0, 30.0, 2)]
        ledger = Ledger(Budget(100.0, delta), charges=charges)
        book = LedgerFile.create(tmp_path / f"{k}.json", Budget(100.0, delta))
        book.charge("run", charges, False)
        page = guarantee(ledger, 10**6)
        proved = ledger.proved_epsilon
        for text, exact in ((f"proved: {ledger.guarantee}", proved), (str(ledger), proved),
                            (f"proved: {page['proved']}", proved),
                            (ledger._repr_html_().replace("proved (", "proved: ("), proved),
                            (str(book).replace("total: ", "proved: "), book.total)):
            shown = numbers_after("proved: ", text.replace("−", "-"))
            assert exact <= shown[0] <= exact * (1 + 1e-3)
            assert delta <= shown[1] <= delta * (1 + 1e-5)
        # An own line's cost too.
        lines = str(ledger).splitlines()[1:3]
        assert all(float(line.split()[6]) >= one.pure_epsilon for line, one in zip(lines, charges, strict=True))


# Proved epsilons


def test_pure_epsilons_add_up():
    charges = [laplace(2.0), laplace(0.5, 0.1, 3), laplace(4.0, 0.2, 10, "each"), laplace(1.0, 0.0)]
    assert epsilon_of(charges, 0.0) == pytest.approx(0.5 + 0.6 + 0.5, rel=1e-14)
    assert epsilon_of([*charges, linf(4.0, 0.2, 3)], 0.0) == pytest.approx(1.6 + 0.15, rel=1e-14)
    assert epsilon_of([], 0.0) == epsilon_of([], 1e-3) == 0.0


def test_an_linf_charge_costs_what_an_l1_charge_of_its_shift_and_scale_costs():
    charge, twin = linf(0.7, 0.1, 3, 0.2), laplace(0.7, 0.1, 3, floor=0.2)
    assert charge.pure_epsilon == twin.pure_epsilon
    assert charge.mu == math.inf
    others = [laplace(5.0, norm="each", count=4), gaussian(3.0)]
    assert epsilon_of([charge, *others], 1e-3) == epsilon_of([twin, *others], 1e-3)


@pytest.mark.parametrize("delta", [1e-9, 0.2])
@pytest.mark.parametrize("parts", [[(3.0, 2.0, 5), (10.0, 1.0, 1)], [(30.0, 1.0, 2), (40.0, 0.5, 9)]])
def test_gaussian_charges_compose_to_the_closed_form(parts, delta):
    mu = math.sqrt(sum(count * (sensitivity / scale) ** 2 for scale, sensitivity, count in parts))
    got = epsilon_of([gaussian(*part) for part in parts], delta)
    # Never below what holds, and not visibly above.
    expected = oracles.gaussian_epsilon(mu, delta) if oracles.gaussian_delta(0.0, mu) > delta else 0.0
    assert expected * (1.0 - 1e-9) <= got <= expected + 1e-6


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-3), (0.05, 1e-8), (20.0, 1e-5), (1e-3, 0.4)])
def test_gaussian_mu_is_the_largest_that_implies_the_budget(epsilon, delta):
    mu = gaussian_mu(Budget(epsilon, delta))
    assert oracles.gaussian_delta(epsilon, mu) <= delta
    assert mu == pytest.approx(oracles.gaussian_mu_of(epsilon, delta), rel=2e-6)


@pytest.mark.parametrize("delta", [0.0, 1e-3])
def test_proofs_use_the_floor_and_never_a_larger_scale(delta):
    least = epsilon_of([laplace(4.0, 2.0)], delta)
    assert epsilon_of([laplace(100.0, 2.0, floor=4.0)], delta) == pytest.approx(least, rel=1e-12)
    assert epsilon_of([laplace(4.0, 2.0, floor=100.0)], delta) == pytest.approx(least, rel=1e-12)
    assert epsilon_of([laplace(100.0, 2.0)], delta) < least / 2
    assert gaussian(100.0, floor=4.0).mu == gaussian(4.0).mu == 0.25


def test_more_charges_less_noise_and_a_smaller_delta_prove_less():
    base = [laplace(5.0, norm="each", count=4), gaussian(5.0)]
    reference = epsilon_of(base, 1e-3)
    assert epsilon_of([*base, laplace(50.0)], 1e-3) > reference
    assert epsilon_of([base[0], gaussian(4.0)], 1e-3) > reference
    assert epsilon_of(base, 1e-4) > reference
    assert epsilon_of(base[::-1], 1e-3) == pytest.approx(reference, rel=1e-9)


# Ledgers


@pytest.mark.parametrize(("budget", "half"), [
    (Budget(1.0), laplace(2.0)),
    (Budget(1.0, 1e-3), gaussian(math.sqrt(2.0) * (1.0 + 1e-9) / oracles.gaussian_mu_of(1.0, 1e-3))),
], ids=["pure", "gaussian"])
def test_a_ledger_takes_two_halves_and_refuses_the_least_more(budget, half):
    ledger = Ledger(budget)
    ledger.charge(half)
    ledger.charge(half)
    for more in (half, gaussian(1e3) if half.law == "gaussian" else laplace(1e4)):
        with pytest.raises(BudgetError, match="values"):
            ledger.charge(more)
        assert ledger.charges == [half, half]
    assert ledger.guarantee.epsilon <= budget.epsilon
    assert ledger.guarantee.epsilon == pytest.approx(budget.epsilon, rel=1e-6)


def test_gaussian_noise_is_refused_by_a_pure_budget():
    with pytest.raises(BudgetError, match="inf"):
        Ledger(Budget(100.0)).charge(gaussian(1e9))


def test_a_ledger_that_is_not_enforced_records_all_and_proves_what_holds():
    ledger = Ledger(Budget(1.0), enforced=False)
    for _ in range(3):
        ledger.charge(laplace(1.0))
    assert (ledger.claim, ledger.guarantee) == (Budget(1.0), Budget(3.0))
    ledger.charge(gaussian(1.0))
    assert ledger.proved_epsilon == math.inf
    assert "no differential privacy" in str(ledger)
    with pytest.raises(BudgetError):
        _ = ledger.guarantee


@pytest.mark.parametrize("simulated", [False, True])
@pytest.mark.parametrize("enforced", [False, True])
def test_a_ledger_says_what_was_spent_and_what_that_proves(enforced, simulated):
    ledger = Ledger(Budget(1.0), enforced, simulated)
    ledger.charge(laplace(4.0, 0.5))
    text = str(ledger)
    assert "replace-one" in text
    assert "proved: (0.125, 0)-differential privacy" in text
    assert ("the thesis claims (1, 0)" in text) == (not enforced)
    assert ("NOT PRIVATE" in text) == simulated


def test_a_huge_loss_is_accounted_for_in_little_memory():
    ratio = 1e6
    charges = [laplace(1.0, ratio, 3, "each"), gaussian(1.0)]
    tracemalloc.start()
    try:
        got = epsilon_of(charges, 1e-3)
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 500_000_000
    # Three coordinates lose at most 3 * ratio for sure, and with some probability nearly that.
    assert got > 2.9 * ratio


def test_floats_beside_a_number_are_the_nearest_that_are_no_more_and_no_less():
    rng = np.random.default_rng(0)
    numbers = [Fraction(1, 3), Fraction(1, 10), Fraction(3, 10), Fraction(2, 3) * Fraction(1, 10**9), Fraction(0)]
    numbers += [Fraction(int(a), int(b)) for a, b in rng.integers(1, 10**15, (300, 2))]
    for number in numbers:
        below, above = float_below(number), float_above(number)
        # As people would write them: 0.3 is three tenths, though its float is less.
        assert as_decimal(below) <= number < as_decimal(math.nextafter(below, math.inf))
        assert as_decimal(math.nextafter(above, -math.inf)) < number <= as_decimal(above)
    assert float_below(Fraction(3, 10)) == float_above(Fraction(3, 10)) == 0.3


@pytest.mark.parametrize(("epsilon", "delta", "said"), [
    (3.0, 1.0, "delta must be at least 0 and below 1, not 1.0"), (3.0, -0.5, "below 1, not -0.5"),
    (0.0, 0.25, "epsilon must be positive and finite, not 0.0"),
    (math.inf, 0.25, "epsilon must be positive and finite, not inf")])
def test_a_budget_that_is_none_is_told_by_the_number_that_breaks_the_rule(epsilon, delta, said):
    with pytest.raises(BudgetError, match=f"{re.escape(said)}$"):
        Budget(epsilon, delta)
