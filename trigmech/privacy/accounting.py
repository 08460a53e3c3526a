"""The cost of charges: epsilons and Gaussian DP of lists of charges.

Two rules of composition, for two situations:

*Within one run* every option, and so every least scale, is fixed before the first output. Privacy loss distributions
compose such charges, each of which may still look at the outputs before it: :func:`epsilon_of`.

*Across runs* somebody may choose the next run's budget, mechanism and options after looking at earlier outputs, and
stop at any time (fully adaptive composition). Then composition theorems with parameters fixed in advance do not
apply, and privacy filters limit the spent budget: :func:`filtered_epsilon`.

**Theorem.** Fix (epsilon, delta). Suppose each charge is admitted only if, with all that was admitted before it on the
same path, either (A) the pure epsilons sum to at most epsilon, or (B) the root of the sum of mu^2 is a mu for which
mu-GDP implies (epsilon, delta)-DP. However charges are chosen, the whole is (epsilon, delta)-DP.

*Proof.* Let P and Q be the distributions of the whole transcript t on two neighbouring tables; it must be shown that
the sum of (P(t) - e^epsilon Q(t))+ is at most delta. Both totals grow along a path, so a transcript whose end satisfies
A or B satisfied the same one all along. Transcripts that end with A have P(t) <= e^epsilon Q(t), as the losses of their
steps add up (Rogers et al. 2016), and contribute nothing. Those that end with B only are also, with the same P and Q,
transcripts of the interaction in which B alone is the rule. That is mu-GDP, fully adaptively (Smith and Thakurta 2022;
Koskela, Tobaben and Honkela 2023), hence (epsilon, delta)-DP, so they contribute at most delta together. The same holds
with P and Q exchanged.

**Raising the total.** Each condition of the theorem that holds for (epsilon, delta) holds for every larger pair, so the
filter of a larger total would have admitted the same charges. Let (E, D) be any pair fixed in advance, and stop the
interaction where its total would be raised beyond it: that is (E, D)-DP by the theorem. So if the only total to which
it may be raised was fixed beforehand, the whole is (E, D)-DP for that total. If the new total was chosen after looking
at outputs, it is itself an output of the analyst's. Then this holds: for each (E, D) fixed in advance, the inequality
of (E, D)-DP holds for all events within "the total was never raised beyond (E, D)".

**Claimed charges.** For releases by other tools only a claimed (epsilon_i, delta_i) is known. For two neighbouring
tables such a release is post-processing of this: with probability delta_i reveal which table it is,
else run some epsilon_i-DP mechanism (Kairouz, Oh and Viswanath 2015; Murtagh and Vadhan 2016). Within one run all
delta_i are fixed in advance, so nothing is revealed with probability p = prod (1 - delta_i), and the whole has the
delta 1 - p + p delta' if the rest, with epsilon_i for each, has delta': `epsilon_of` composes the rest at
delta' = 1 - (1 - delta) / p. Across runs the delta_i are chosen on the way, so a part r of delta is reserved in advance
and a charge is admitted only while the sum of the delta_i keeps to r, and the theorem's conditions hold for the rest at
delta - r. *Proof.* On every path the delta_i sum to at most r, so with probability at least 1 - r nothing is revealed.
Paths that reveal something contribute at most r. On the other paths P and Q are the distributions of the interaction
with the epsilon_i-DP mechanisms, both times the same product of (1 - delta_i), so they contribute at most delta - r.
Raised totals, as above, have four parts: epsilon, delta, r and delta - r. Each may only grow.

**Thresholds** are (0, delta_i)-DP, which is proved where they are charged, and compose as claims of epsilon_i = 0.

**Lemma.** An epsilon-DP mechanism is mu-GDP for mu = 2 Phi^-1(e^epsilon / (1 + e^epsilon)).

*Proof.* Its trade-off function lies on or above f(a) = max(0, 1 - e^epsilon a, e^-epsilon (1 - a)): two lines that meet
at a* = 1 / (1 + e^epsilon), where f(a*) = a*. That of mu-GDP is G(a) = Phi(Phi^-1(1 - a) - mu), which is convex.
G(0) = 1 = f(0) and G(1) = 0 = f(1); and Phi^-1(1 - a*) = mu / 2, so G(a*) = Phi(-mu / 2) = a* = f(a*). A convex
function lies below its chords, and f consists of the chords of G on [0, a*] and [a*, 1]: G <= f.

References: Dong, Roth and Su 2022 (Gaussian DP); Doroshenko et al. 2022 (connecting the dots); Kairouz, Oh and
Viswanath 2015, Murtagh and Vadhan 2016 (claimed charges).
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from trigmech.errors import BudgetError
from trigmech.privacy.budget import Budget, Charge, as_decimal, float_above, float_below, shown_down, shown_up
from trigmech.privacy.privacy_loss import Pure, gaussian_deviation, gaussian_epsilon, mu_of_pure, pessimistic, too_large

# Gaussian noise is calibrated between these epsilons; beyond, the search for its scale runs into cancellation.
SMALLEST_GAUSSIAN_EPSILON = 1e-6
LARGEST_GAUSSIAN_EPSILON = 1e7

# Rounding errors of transforms over a million points, with room to spare, as a part of delta. Below the second number
# they would be felt, and privacy loss distributions are not used.
ROUNDING_DELTA = 1e-13
SMALLEST_DELTA = 1e-11

# Above the rounding of a product of a few square roots, quotients and sums.
_UP = 1.0 + 2.0**-50


def gaussian_mu(budget: Budget) -> float:
    """Return mu for which mu-GDP implies the budget, 1e-6 below the largest: 1 / (the analytic Gaussian's multiplier).

    Raises
    ------
    BudgetError
        If epsilon is below 1e-6 or above 1e7.

    References
    ----------
    Balle and Wang 2018; Dong, Roth and Su 2022, corollary 2.13.
    """
    if not SMALLEST_GAUSSIAN_EPSILON <= budget.epsilon <= LARGEST_GAUSSIAN_EPSILON:
        side, limit = (("below", SMALLEST_GAUSSIAN_EPSILON) if budget.epsilon < 1.0
                       else ("above", LARGEST_GAUSSIAN_EPSILON))
        raise BudgetError(f"epsilon = {budget.epsilon:g} is {side} {limit:g}, where floating point is not exact enough "
                          "to compute the cost of Gaussian noise; use a pure mechanism")
    return _gaussian_mu(float(budget.epsilon), float(budget.delta))


# One run asks for it some ten times. Of Python's floats alone: others could round differently, and be the same key.
@lru_cache(maxsize=4096)
def _gaussian_mu(epsilon: float, delta: float) -> float:
    # Rounded down by far more than the errors of the search and of cancellation above that epsilon.
    return (1.0 - 1e-6) / gaussian_deviation(epsilon, delta)


def epsilon_of(charges: Iterable[Charge], delta: float) -> float:
    """Return a proved epsilon, at the given delta, of all charges of one run together under adaptive composition.

    Without Gaussian noise, at delta = 0, the epsilons add up. Gaussian alone is composed exactly (GDP). Anything else
    is composed by the pessimistic privacy loss distributions of dp_accounting, or by basic composition where that
    proves less: a release with an L1 or an Linf sensitivity enters as the worst mechanism of its pure epsilon, single
    coordinates as the one-dimensional Laplace mechanism. The privacy loss of additive noise depends on shift / scale
    alone, so the library's default relation serves for the replace-one sensitivities used here. Claimed charges enter
    as in the module's docstring.

    Parameters
    ----------
    charges : iterable of Charge
        Their least scales and their claims fixed in advance.
    delta : float
        At least 0 and below 1.

    Returns
    -------
    float
        At least 0; infinite if nothing is proved.

    Notes
    -----
    Cost: at most about half a second for each of at most 64 unequal pure charges, and some hundred megabytes.
    """
    charges = list(charges)
    delta = _delta_of_the_rest(charges, delta)
    if not delta >= 0:
        return math.inf
    charges = [charge for charge in charges if charge.sensitivity > 0]
    simple = min(_spent(_pure_sum(charges), _mu(charges), delta), _added(charges, delta))
    parts, mu = _collected(charges)
    if delta < SMALLEST_DELTA or not parts or too_large(parts, mu):
        return simple
    return min(simple, _composed(tuple((float(ratio), int(count), each) for ratio, count, each in parts), float(mu),
                                 float(delta)))


def _added(charges: list[Charge], delta: float) -> float:
    """Return the sum of the pure epsilons and of the epsilon of all Gaussian noise.

    *Proof* (basic composition, in any order). Let P and Q be the distributions of the transcript t on two neighbouring
    tables, and Q' the one whose pure steps run on the first table and whose Gaussian steps run on the second. Pure
    losses add up, so Q'(t) <= e^a Q(t) for their sum a. P and Q' differ in the Gaussian steps alone, so the sum of
    (P(t) - e^b Q'(t))+ is at most delta for the epsilon b of the Gaussian noise. Hence so is that of
    (P(t) - e^(a + b) Q(t))+. The same holds with the tables exchanged.
    """
    noise = [charge for charge in charges if charge.law == "gaussian"]
    if not noise or not delta > 0:
        return math.inf
    pure = _pure_sum([charge for charge in charges if charge.law != "gaussian"])
    return math.nextafter(pure + gaussian_epsilon(_mu(noise), delta), math.inf)


# A run asks for the same some three times, which would take a tenth of a second each.
@lru_cache(maxsize=1024)
def _composed(parts: tuple[Pure, ...], mu: float, delta: float) -> float:
    return float(pessimistic(list(parts), mu).get_epsilon_for_delta(delta - ROUNDING_DELTA))


def filtered_epsilon(charges: Iterable[Charge], delta: float, reserve: float = 0.0) -> float:
    """Return an epsilon that holds at a delta even if each charge was chosen after looking at the outputs before it.

    The smaller of the sum of pure epsilons and the epsilon of :func:`gdp_mu`; the proof is in the module's docstring.

    Parameters
    ----------
    charges : iterable of Charge
        Charges of any number of runs.
    delta : float
        At least 0 and below 1; chosen, like the epsilon it is compared with, before the first of them.
    reserve : float
        The part of delta for claimed charges and thresholds, from 0 to delta; chosen at the same time.

    Returns
    -------
    float
        Infinite if nothing is proved, as when the claimed deltas sum to more than the reserve.

    Notes
    -----
    Numbers that people wrote (claims, delta, the reserve) count as the decimals they wrote, so three times 0.1 is 0.3.
    """
    charges = list(charges)
    if claimed_delta(charges) > as_decimal(reserve):
        return math.inf
    return _spent(_pure_sum(charges), _mu(charges), float_below(as_decimal(delta) - as_decimal(reserve)))


def claimed_delta(charges: Iterable[Charge]) -> Fraction:
    """Return the sum of all deltas of claims and thresholds, each of their releases counted."""
    return sum((charge.count * as_decimal(charge.claimed_delta) for charge in charges if charge.claimed_delta > 0),
               Fraction(0))


def gdp_mu(charges: Iterable[Charge]) -> float:
    """Return mu for which all charges together are mu-GDP, fully adaptively: the root of the sum of their mu^2.

    Pure charges enter by :func:`mu_of_pure`, each of their releases on its own. Infinite with a claimed delta > 0.
    """
    charges = list(charges)
    return math.inf if any(charge.claimed_delta > 0 for charge in charges) else _mu(charges)


@dataclass(frozen=True)
class NextCharge:
    """The largest charge of each kind that a filter would still admit, if no other charge is made beside it.

    Parameters
    ----------
    pure : float
        The largest epsilon of a pure release; 0 if no pure release is admitted.
    gaussian : float
        The largest epsilon of a release by Gaussian noise of ``Budget(epsilon, delta)``; 0 if no such release is
        admitted.
    delta : float
        That delta: the whole total's.
    claimed_delta : float
        The rest of the part of delta that is reserved for the claims of other tools.
    """

    pure: float
    gaussian: float
    delta: float
    claimed_delta: float

    def __str__(self) -> str:
        kinds = []
        if self.gaussian > 0:
            kinds.append(f"a Gaussian release of up to (epsilon = {shown_down(self.gaussian)}, "
                         f"delta = {shown_down(self.delta)})")
        if self.pure > 0:
            kinds.append(f"a pure release of up to epsilon = {shown_down(self.pure)}")
            if self.claimed_delta > 0:
                kinds.append(f"a claim of up to ({shown_down(self.pure)}, {shown_down(self.claimed_delta)})")
        return ", or ".join(kinds) or "nothing"


def next_charge(charges: Iterable[Charge], budget: Budget, reserve: float = 0.0) -> NextCharge:
    """Return the largest charges that :func:`filtered_epsilon` would still admit to a budget, in at most six digits.

    Costs do not add up, so this is no difference of budgets. Each number was tried and is admitted, as a claim or as
    the package's own charge. A number with one more at the sixth digit is not admitted, or lies outside the range of a
    release: epsilon from 1e-9 to 1e12, for Gaussian noise from 1e-6 to 1e7. To split a pure epsilon costs no more.
    """
    charges = list(charges)
    left = as_decimal(reserve) - claimed_delta(charges)
    rest = float_below(as_decimal(budget.delta) - as_decimal(reserve))
    if left < 0:
        return NextCharge(0.0, 0.0, budget.delta, 0.0)
    noise, claims, mu = _pure_parts(charges), _claimed_epsilon(charges), _mu(charges)

    # The mu of all charges is rounded up twice here, so an epsilon that fits here is admitted.
    def pure_fits(epsilon: float) -> bool:
        # Scales are raised by 1e-12, so that a round number is not refused for its last bit.
        total = max(_sum([*noise, *_in_two(claims), epsilon / (1.0 + 5e-13)]),
                    _sum([*noise, *_in_two(claims + as_decimal(epsilon))]))
        return _spent(total, _UP * math.hypot(mu, mu_of_pure(epsilon)), rest) <= budget.epsilon

    def gaussian_fits(epsilon: float) -> bool:
        more = gaussian_mu(Budget(epsilon, budget.delta))
        return _spent(math.inf, _UP * math.hypot(mu, more), rest) <= budget.epsilon

    gaussian = _largest(SMALLEST_GAUSSIAN_EPSILON, LARGEST_GAUSSIAN_EPSILON, gaussian_fits) if rest > 0 else 0.0
    return NextCharge(_largest(1e-9, 1e12, pure_fits), gaussian, budget.delta, float_below(left))


def _largest(low: float, high: float, fits: Callable[[float], bool]) -> float:
    """Return the largest number of six digits that fits; 0 if ``low`` does not fit."""
    if not fits(low):
        return 0.0
    if fits(high):
        return high
    while high > low * (1.0 + 1e-7):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if fits(middle) else (low, middle)
    above = float(shown_up(low))
    return above if fits(above) else float(shown_down(low))


def cost(charge: Charge, delta: float) -> tuple[float, float]:
    """Return a charge's own (epsilon, delta). Delta is 0 if it is not needed; epsilon is infinite if nothing is proved.

    A claimed charge costs the sum of its claims, and a threshold costs (0, delta).
    """
    if charge.law in ("other", "threshold"):
        claimed = claimed_delta([charge])
        return (_pure_sum([charge]), float_above(claimed)) if claimed < 1 else (math.inf, 0.0)
    if charge.law != "gaussian" or delta == 0 or charge.sensitivity == 0:
        return (charge.pure_epsilon if charge.sensitivity > 0 else 0.0), 0.0
    return gaussian_epsilon(charge.mu, delta), delta


def _spent(pure: float, mu: float, delta: float) -> float:
    """Return the smaller of the epsilons of the filter's two conditions."""
    return min(pure, gaussian_epsilon(mu, delta)) if delta > 0 else pure


def _pure_sum(charges: list[Charge]) -> float:
    """Return the sum of pure epsilons. A claim counts with its epsilon, as if it does not reveal all.

    It is the float next to the exact sum, so that thirty times 0.01 is 0.3, whichever of them are claims.
    """
    return _sum([*_pure_parts(charges), *_in_two(_claimed_epsilon(charges))])


def _pure_parts(charges: Iterable[Charge]) -> list[float]:
    """Return floats that add up to the pure epsilons of all but claims, to twice a float's digits."""
    parts = []
    for charge in charges:
        if charge.law != "other" and charge.sensitivity > 0:
            epsilon = charge.pure_epsilon
            parts += [epsilon] if epsilon == math.inf else _in_two(
                charge.count * Fraction(charge.sensitivity) / Fraction(charge.least_scale))
    return parts


def _in_two(number: Fraction) -> list[float]:
    """Return the float next to a number, and the rest."""
    try:
        near = float(number)
    except OverflowError:
        return [math.inf]
    return [near, float(number - Fraction(near))]


def _claimed_epsilon(charges: Iterable[Charge]) -> Fraction:
    return sum((charge.count * as_decimal(charge.sensitivity) for charge in charges if charge.law == "other"),
               Fraction(0))


def _mu(charges: Iterable[Charge]) -> float:
    """Return :func:`gdp_mu`, where a claim counts with its epsilon, as if it does not reveal all."""
    return _UP * math.hypot(*(charge.mu if charge.law == "gaussian" else
                              math.sqrt(charge.count) * mu_of_pure(charge.sensitivity / charge.least_scale)
                              for charge in charges))


def _delta_of_the_rest(charges: list[Charge], delta: float) -> float:
    """Return 1 - (1 - delta) / prod (1 - delta_i), rounded down: the delta that claims leave to the rest, if >= 0."""
    claimed = claimed_delta(charges)
    if claimed == 0:
        return delta
    # The product is at least 1 - sum, which is exact here, as where one claim has all of delta.
    exact = (as_decimal(delta) - claimed) / (1 - claimed) if claimed < 1 else Fraction(-1)
    logs = [math.log1p(-delta), *(-charge.count * math.log1p(-charge.claimed_delta) for charge in charges)]
    low = -math.expm1(min(_sum(logs) + 1e-15 * _sum(map(abs, logs)), 700.0))
    return max(low, float_below(exact)) if exact >= 0 else low


def _collected(charges: Iterable[Charge]) -> tuple[list[Pure], float]:
    """Return the pure charges, equal ones counted together and in an order of their own, and the mu of the others."""
    counts: dict[tuple[float, bool], int] = {}
    mus = []
    for charge in charges:
        if charge.law == "gaussian":
            mus.append(charge.mu)
        else:
            key = (charge.sensitivity / charge.least_scale, charge.norm == "each")
            counts[key] = counts.get(key, 0) + charge.count
    return [(ratio, counts[ratio, each], each) for ratio, each in sorted(counts)], math.hypot(*sorted(mus))


def _sum(values: Iterable[float]) -> float:
    try:
        return math.fsum(values)
    except OverflowError:
        return math.inf
