"""What charges cost: epsilons, zCDP and Gaussian DP of lists of charges. The only importer of dp_accounting.

Two rules of composition, for two situations:

*Within one run* every option, and so every least scale, is fixed before the first output. Privacy loss distributions
compose such charges, each of which may still look at the outputs before it: :func:`epsilon_of`,
:func:`epsilon_interval`.

*Across runs* somebody may choose the next run's budget, mechanism and options after looking at earlier outputs, and
stop when it suits (fully adaptive composition). Then composition theorems with parameters fixed in advance do not
apply, and what is spent is watched by privacy filters: :func:`filtered_epsilon`.

**Theorem.** Fix (epsilon, delta). Suppose each charge is admitted only if, with all that was admitted before it on the
same path, either (A) the pure epsilons sum to at most epsilon, or (B) the root of the sum of mu^2 is a mu for which
mu-GDP implies (epsilon, delta)-DP. However charges are chosen, the whole is (epsilon, delta)-DP.

*Proof.* Let P and Q be the laws of the whole transcript t on two neighbouring tables; it must be shown that the sum of
(P(t) - e^epsilon Q(t))+ is at most delta. Both totals grow along a path, so a transcript whose end satisfies A or B
satisfied the same one all along. Transcripts that end with A have P(t) <= e^epsilon Q(t), as the losses of their steps
add up (Rogers et al. 2016), and contribute nothing. Those that end with B only are also, with the same P and Q,
transcripts of the interaction in which B alone is the rule. That is mu-GDP, fully adaptively (Smith and Thakurta 2022;
Koskela, Tobaben and Honkela 2023), hence (epsilon, delta)-DP, so they contribute at most delta together. The same holds
with P and Q exchanged.

**Lemma.** An epsilon-DP mechanism is mu-GDP for mu = 2 Phi^-1(e^epsilon / (1 + e^epsilon)).

*Proof.* Its trade-off function lies on or above f(a) = max(0, 1 - e^epsilon a, e^-epsilon (1 - a)): two lines that meet
at a* = 1 / (1 + e^epsilon), where f(a*) = a*. That of mu-GDP is G(a) = Phi(Phi^-1(1 - a) - mu), which is convex.
G(0) = 1 = f(0) and G(1) = 0 = f(1); and Phi^-1(1 - a*) = mu / 2, so G(a*) = Phi(-mu / 2) = a* = f(a*). A convex
function lies below its chords, and f consists of the chords of G on [0, a*] and [a*, 1]: G <= f.

References: Dong, Roth and Su 2022 (Gaussian DP); Doroshenko et al. 2022 (connecting the dots); Bun and Steinke 2016
(zCDP).
"""

import math
from collections.abc import Iterable
from functools import reduce
from typing import Any

import numpy as np
from scipy.special import log_ndtr, ndtr, ndtri_exp

from trigmech.budget import Budget, Charge
from trigmech.errors import BudgetError

# A single loss above this is beyond what privacy loss distributions hold in floating point.
LARGEST_LOSS = 500.0

# Gaussian noise is calibrated between these epsilons; beyond, the search for its scale runs into cancellation.
SMALLEST_GAUSSIAN_EPSILON = 1e-6
LARGEST_GAUSSIAN_EPSILON = 1e7

# Rounding errors of transforms over a million points, with room to spare, as a part of delta. Below the second number
# they would be felt, and privacy loss distributions are not used.
ROUNDING_DELTA = 1e-13
SMALLEST_DELTA = 1e-11

# Each distribution takes up to a second, so of more unequal pure charges only the most costly have their own.
MOST_DISTRIBUTIONS = 64

# Above this mu the closed bound mu^2/2 + mu sqrt(2 ln(1/delta)) is used, within 0.2 % of the exact value.
LARGEST_MU = 1e4

# Of a Gaussian epsilon: the library's search, which is told to go on to 1e-15, and the cancellation of its two terms.
SEARCH_ERROR = 2e-13

# Of pure charges with equal shifts / scales: that ratio, the number of releases, and whether each of them is one
# Laplace coordinate or any pure mechanism.
_Pure = tuple[float, int, bool]


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
    from dp_accounting import get_sigma_gaussian

    if not SMALLEST_GAUSSIAN_EPSILON <= budget.epsilon <= LARGEST_GAUSSIAN_EPSILON:
        side, limit = (("below", SMALLEST_GAUSSIAN_EPSILON) if budget.epsilon < 1.0
                       else ("above", LARGEST_GAUSSIAN_EPSILON))
        raise BudgetError(f"epsilon = {budget.epsilon:g} is {side} {limit:g}, where floating point no longer tells "
                          "what Gaussian noise costs; use a pure mechanism")
    # Where delta is smaller than any float the library takes the logarithm of 0, which is -inf as it should be.
    with np.errstate(divide="ignore"):
        # Rounded down by far more than the library's search and cancellation errors above that epsilon.
        return (1.0 - 1e-6) / float(get_sigma_gaussian(budget.epsilon, budget.delta))


def epsilon_of(charges: Iterable[Charge], delta: float) -> float:
    """Return a proved epsilon, at the given delta, of all charges of one run together under adaptive composition.

    Without Gaussian noise, at delta = 0, it adds up. Gaussian alone is composed exactly (GDP). Anything else is
    composed by the pessimistic privacy loss distributions of dp_accounting: a release with an L1 or an Linf
    sensitivity enters as the worst mechanism of its pure epsilon, single coordinates as the one-dimensional Laplace
    mechanism. The privacy loss of additive noise depends on shift / scale alone, so the library's default relation
    serves for the replace-one sensitivities used here.

    Parameters
    ----------
    charges : iterable of Charge
        Their least scales fixed in advance.
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
    charges = [charge for charge in charges if charge.sensitivity > 0]
    simple = filtered_epsilon(charges, delta)
    parts, mu = _collected(charges)
    if delta < SMALLEST_DELTA or not parts or _too_large(parts, mu):
        return simple
    composed = _pessimistic(parts, mu).get_epsilon_for_delta(delta - ROUNDING_DELTA)
    return min(simple, float(composed))


def epsilon_interval(charges: Iterable[Charge], delta: float) -> tuple[float, float]:
    """Return a lower and an upper bound of the least epsilon of all charges of one run together at the given delta.

    The least epsilon is that of the worst mechanisms which the charges describe, see :func:`epsilon_of`; it is what
    an exact accountant would find. What a run really loses can be less, where no two tables attain its sensitivities.

    Parameters
    ----------
    charges : iterable of Charge
    delta : float
        At least 0 and below 1.

    Returns
    -------
    (float, float)
        The optimistic and the pessimistic bound; the second is :func:`epsilon_of`. From epsilon 0.1 to 10 they agree
        to 1 %, mostly to 0.01 %. Where the losses together can exceed 700, delta lies below 1e-11 or more than 64
        unequal pure charges are composed, the first may be far below.

    Notes
    -----
    The upper bound connects the dots. The lower bound is the exact loss of a post-processing of the same mechanisms,
    chosen so that its losses lie on the grid: a smaller shift on the grid, and outcomes of a Laplace coordinate merged
    whose losses lie in one cell, which then have the loss of the cell's middle (see :func:`_merged_laplace`). Both
    errors are of second order in the step, so thousands of small charges do not add them up; rounding every loss down
    would.
    """
    charges = [charge for charge in charges if charge.sensitivity > 0]
    upper = epsilon_of(charges, delta)
    parts, mu = _collected(charges)
    if delta == 0 or upper == 0:
        return upper, upper
    lower = max(_single_lower(parts, delta), gaussian_epsilon(mu, delta, below=True))
    losses = _sum(ratio * count for ratio, count, _ in parts) + mu * (mu + 20.0)
    # The library takes exp(-loss) for 0 above 745, which is an upper bound's business.
    if parts and delta >= SMALLEST_DELTA and not _too_large(parts, mu) and losses < 700.0:
        composed = _optimistic(parts, mu)
        # What truncation counted as an infinite loss, and as much that it misplaced, bounds nothing from below.
        lost = ROUNDING_DELTA + 2.0 * float(composed.get_delta_for_epsilon(math.inf))
        lower = max(lower, float(composed.get_epsilon_for_delta(delta + lost)) * (1.0 - 1e-12))
    return min(lower, upper), upper


def filtered_epsilon(charges: Iterable[Charge], delta: float) -> float:
    """Return an epsilon that holds at a delta even if each charge was chosen after looking at the outputs before it.

    The smaller of the sum of pure epsilons and the epsilon of :func:`gdp_mu`; the proof is in the module's docstring.

    Parameters
    ----------
    charges : iterable of Charge
        Of any number of runs.
    delta : float
        At least 0 and below 1; chosen, like the epsilon it is compared with, before the first of them.
    """
    charges = list(charges)
    pure = _sum(charge.pure_epsilon for charge in charges if charge.sensitivity > 0)
    return min(pure, gaussian_epsilon(gdp_mu(charges), delta)) if delta > 0 else pure


def gdp_mu(charges: Iterable[Charge]) -> float:
    """Return mu for which all charges together are mu-GDP, fully adaptively: the root of the sum of their mu^2.

    Pure charges enter by :func:`mu_of_pure`, each of their releases on its own.
    """
    return math.hypot(*(charge.mu if charge.law == "gaussian" else
                        math.sqrt(charge.count) * mu_of_pure(charge.sensitivity / charge.least_scale)
                        for charge in charges))


def mu_of_pure(epsilon: float) -> float:
    """Return mu = 2 Phi^-1(e^epsilon / (1 + e^epsilon)), rounded up: epsilon-DP implies mu-GDP."""
    # For small epsilon the difference from 1/2 is lost; the slope at 0 bounds the function, which is concave.
    slope = math.sqrt(math.pi / 2.0) * epsilon
    if epsilon < 1e-4:
        return slope
    return min(slope, -2.0 * float(ndtri_exp(-np.logaddexp(0.0, epsilon))) * (1.0 + 1e-9))


def zcdp_rho(charges: Iterable[Charge]) -> float:
    """Return rho for which all charges together are rho-zCDP, fully adaptively: mu^2 / 2 each, epsilon^2 / 2 if pure.

    A pure epsilon above 2 counts as itself: no Renyi divergence exceeds epsilon, which is at most alpha epsilon.
    """
    def of(charge: Charge) -> float:
        if charge.law == "gaussian":
            return charge.mu * charge.mu / 2.0
        epsilon = charge.sensitivity / charge.least_scale
        return charge.count * min(epsilon * epsilon / 2.0, epsilon)

    return _sum(map(of, charges))


def gaussian_epsilon(mu: float, delta: float, below: bool = False) -> float:
    """Return the least epsilon of mu-GDP at delta > 0, rounded up, or down if ``below``.

    References
    ----------
    Balle and Wang 2018; above mu = 10,000 the bound of Bun and Steinke 2016.
    """
    from dp_accounting import get_epsilon_gaussian

    if mu > LARGEST_MU:
        # The loss is N(mu^2 / 2, mu^2): twenty deviations below its mean no delta below 1 is enough.
        return mu * mu / 2.0 + mu * (-20.0 if below else math.sqrt(2.0 * math.log(1.0 / delta)))
    # The largest delta of mu-GDP is 2 Phi(mu/2) - 1, at most mu / sqrt(2 pi).
    if mu / math.sqrt(2.0 * math.pi) <= delta:
        return 0.0
    with np.errstate(divide="ignore"):
        found = float(get_epsilon_gaussian(1.0 / mu, delta, tol=1e-15))
    if below:
        return max(0.0, found * (1.0 - 1e-9) - SEARCH_ERROR)
    return found * (1.0 + 1e-12) + SEARCH_ERROR if found > 0 else 0.0


def cost(charge: Charge, delta: float) -> tuple[float, float]:
    """Return a charge's own (epsilon, delta): the delta is 0 where it needs none; epsilon is infinite if none holds."""
    if charge.law != "gaussian" or delta == 0 or charge.sensitivity == 0:
        return (charge.pure_epsilon if charge.sensitivity > 0 else 0.0), 0.0
    return gaussian_epsilon(charge.mu, delta), delta


def _collected(charges: Iterable[Charge]) -> tuple[list[_Pure], float]:
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


def _too_large(parts: list[_Pure], mu: float) -> bool:
    return max(mu, *(ratio for ratio, _, _ in parts)) > LARGEST_LOSS


def _step(parts: list[_Pure], mu: float) -> float:
    """Return the step of the losses' grid: a 400th of the least loss, but at most half a million points in all."""
    # Of k losses of size r the sum keeps to k r^2 + 10 r sqrt(k), but for a probability that no delta here feels.
    reach = mu * (mu + 20.0) + math.fsum(min(count * ratio, count * ratio**2 + 10.0 * ratio * math.sqrt(count))
                                         for ratio, count, _ in parts)
    step = max(min(1e-4, min(ratio for ratio, _, _ in parts) / 400.0), reach / 2.5e5)
    # Even multiples for the most costly charge, which then has no error at all.
    main = max(parts, key=lambda part: part[1] * part[0] ** 2)[0]
    return main / (2.0 * math.ceil(main / (2.0 * step))) if main > 4.0 * step else step


def _most_costly(parts: list[_Pure]) -> list[_Pure]:
    return sorted(sorted(parts, key=lambda part: -part[1] * part[0] ** 2)[:MOST_DISTRIBUTIONS])


def _pessimistic(parts: list[_Pure], mu: float) -> Any:
    from dp_accounting.pld import pld_pmf
    from dp_accounting.pld import privacy_loss_distribution as pld

    step = _step(parts, mu)
    losses = []
    main = _most_costly(parts)
    for ratio, count, each in parts:
        if ratio < 10.0 * step or (ratio, count, each) not in main:
            # Too small for this grid, beside others that are not: as Gaussian, which is a quarter too much or so.
            mu = math.hypot(mu, math.sqrt(count) * mu_of_pure(ratio))
        elif each:
            one = pld.from_laplace_mechanism(1.0 / ratio, 1.0, value_discretization_interval=step)
            losses.append(_power(one, count))
        else:
            ends = {math.floor(ratio / step), math.ceil(ratio / step)}
            dots = np.array(sorted(ends | {-end for end in ends}))
            # Of randomised response; rounded towards 0 at the last dot, where rounding would make it negative.
            hockey = np.maximum(0.0, -np.expm1(dots * step - ratio) / (1.0 + math.exp(-ratio)))
            hockey = np.maximum(hockey, -np.expm1(dots * step))
            # Between -500 and 500 the library divides by an infinite number, which gives the 0 that it should.
            with np.errstate(over="ignore"):
                one = pld.PrivacyLossDistribution(pld_pmf.create_pmf_pessimistic_connect_dots(step, dots, hockey))
            losses.append(_power(one, count))
    if mu > 0:
        # As the library's from_gaussian_mechanism, which takes most of a second, one loss after the other.
        low, high = (math.floor((mu**2 / 2.0 + side * 10.0 * mu) / step) for side in (-1.0, 1.0))
        dots = np.arange(low, high + 1)
        hockey = ndtr(mu / 2.0 - dots * step / mu) - np.exp(dots * step + log_ndtr(-mu / 2.0 - dots * step / mu))
        hockey = np.minimum.accumulate(np.clip(hockey, 0.0, 1.0))
        joined = pld_pmf.create_pmf_pessimistic_connect_dots_fixed_gap(step, low, high, hockey)
        losses.append(pld.PrivacyLossDistribution(joined))
    return reduce(lambda a, b: a.compose(b), losses)


def _optimistic(parts: list[_Pure], mu: float) -> Any:
    from dp_accounting.pld import privacy_loss_distribution as pld

    step = _step(parts, mu)
    losses = []
    for ratio, count, each in _most_costly(parts):
        cells = math.floor(ratio / (2.0 * step) * (1.0 + 1e-15))
        if cells == 0:
            continue
        top = 2 * cells
        p = 1.0 / (1.0 + math.exp(-top * step))
        masses = _merged_laplace(cells, step) if each else {-top: 1.0 - p, top: p}
        losses.append(_power(_lower(pld, masses, step), count))
    if mu > 0:
        losses.append(_lower(pld, _floored_gaussian(mu, step), step))
    if not losses:
        return _lower(pld, {0: 1.0}, step)
    return reduce(lambda a, b: a.compose(b), losses)


def _lower(pld: Any, masses: dict[int, float], step: float) -> Any:
    return pld.PrivacyLossDistribution.create_from_rounded_probability(masses, 0.0, step, pessimistic_estimate=False)


def _merged_laplace(cells: int, step: float) -> dict[int, float]:
    """Return masses, by multiple of the step, of the losses of a Laplace coordinate whose outcomes are merged.

    The shift over the scale is r = 2 cells step. The loss is r with probability 1/2, -r with exp(-r) / 2, and has the
    density exp((l - r) / 2) / 4 between. The outcomes with losses from a to b have the probability
    (exp((b - r) / 2) - exp((a - r) / 2)) / 2 under one table and exp(-r / 2) (exp(-a / 2) - exp(-b / 2)) / 2 under the
    other, so merged they have the loss (a + b) / 2 exactly. With a and b even multiples of the step that is an odd one.
    """
    r = 2.0 * cells * step
    odd = np.arange(-2 * cells + 1, 2 * cells, 2)
    merged = np.exp((odd * step - r) / 2.0) * math.sinh(step / 2.0)
    return {-2 * cells: math.exp(-r) / 2.0, 2 * cells: 0.5} | dict(zip(odd.tolist(), merged.tolist(), strict=True))


def _floored_gaussian(mu: float, step: float) -> dict[int, float]:
    """Return masses of the losses of a Gaussian, N(mu^2 / 2, mu^2), rounded down to multiples of the step."""
    low, high = (math.floor((mu**2 / 2.0 + side * 9.0 * mu) / step) for side in (-1.0, 1.0))
    edges = (np.arange(low, high + 1) * step - mu**2 / 2.0) / mu
    masses = np.append(np.diff(ndtr(edges)), ndtr(-edges[-1]))
    return dict(zip(range(low, high + 1), masses.tolist(), strict=True))


def _power(loss: Any, count: int) -> Any:
    """Compose a loss with itself, at most 16 at a time: the library's cut of tails finds only so much at once."""
    if count == 1:
        return loss
    # What is cut off here is cut off count / 16 times in the end; the library's own 1e-15 would be felt.
    cut = 1e-15 / max(1.0, count / 16.0)
    if count <= 16:
        return loss.self_compose(count, cut)
    many, rest = divmod(count, 16)
    power = _power(loss.self_compose(16, cut), many)
    return power if rest == 0 else power.compose(_power(loss, rest))


def _single_lower(parts: list[_Pure], delta: float) -> float:
    """Return the largest of the exact epsilons of single releases: all together cost no less."""
    return max((ratio + (2.0 * math.log1p(-delta) if each else
                         math.log(max(1.0 - delta * (1.0 + math.exp(-ratio)), 1e-300)))
                for ratio, _, each in parts), default=0.0)
