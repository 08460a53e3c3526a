"""Privacy losses of pure mechanisms and of Gaussian noise: closed forms, and dp_accounting's distributions."""

import math
from collections.abc import Callable
from functools import lru_cache, reduce
from typing import Any

import numpy as np
from scipy.special import log_ndtr, ndtr, ndtri_exp

# A single loss above this is too large for privacy loss distributions in floating point.
LARGEST_LOSS = 500.0

# Each distribution takes up to a second, so of more unequal pure charges only the most costly have their own.
MOST_DISTRIBUTIONS = 64

# Above this mu the closed bound mu^2/2 + mu sqrt(2 ln(1/delta)) is used, within 0.2 % of the exact value.
LARGEST_MU = 1e4

# Errors of a Gaussian epsilon: the search, which stops at 1e-15, and the cancellation of its two terms, whose
# logarithms are as large as delta's and err in their last digits.
SEARCH_ERROR, LOG_ERROR = 2e-13, 2.0**-50
# Above the rounding of a few products and quotients.
UP = 1.0 + 1e-15

# The slope at 0 of the function below: the root of pi / 2, rounded up.
SLOPE = math.nextafter(math.sqrt(math.pi / 2.0), math.inf)

# Pure charges with equal shifts / scales: that ratio, the number of releases, and whether each of them is one Laplace
# coordinate or any pure mechanism.
Pure = tuple[float, int, bool]


def mu_of_pure(epsilon: float) -> float:
    """Return mu = 2 Phi^-1(e^epsilon / (1 + e^epsilon)), rounded up: epsilon-DP implies mu-GDP."""
    # For small epsilon the difference from 1/2 is lost; the slope at 0 bounds the function, which is concave.
    slope = math.nextafter(SLOPE * epsilon, math.inf) if epsilon > 0 else 0.0
    if epsilon < 1e-4:
        return slope
    return min(slope, -2.0 * float(ndtri_exp(-np.logaddexp(0.0, epsilon))) * (1.0 + 1e-9))


def gaussian_epsilon(mu: float, delta: float) -> float:
    """Return the least epsilon of mu-GDP at delta > 0, rounded up (Balle and Wang 2018).

    Above mu = 10,000 it is the bound of Bun and Steinke 2016.
    """
    return _gaussian_epsilon(float(mu), float(delta))


# A ledger asks for it at every look. Of Python's floats alone: others could round differently, and be the same key.
@lru_cache(maxsize=4096)
def _gaussian_epsilon(mu: float, delta: float) -> float:
    if mu > LARGEST_MU:
        return (mu * mu / 2.0 + mu * math.sqrt(-2.0 * math.log(delta))) * UP
    # The largest delta of mu-GDP is 2 Phi(mu/2) - 1, at most mu / sqrt(2 pi).
    if mu / math.sqrt(2.0 * math.pi) * UP <= delta:
        return 0.0
    wanted, deviation, low, high, found = math.log(delta), 1.0 / mu, 0.0, 1.0, 0.0
    if not _log_delta(deviation, 0.0) < wanted:
        while _log_delta(deviation, high) > wanted:
            low, high = high, 10.0 * high
        found = _root(lambda epsilon: _log_delta(deviation, epsilon) - wanted, low, high, 1e-15)
    # Also where that is 0, because the compared logarithms had been rounded.
    return found * (1.0 + 1e-12) + max(SEARCH_ERROR, LOG_ERROR * -math.log(delta))


def gaussian_deviation(epsilon: float, delta: float) -> float:
    """Return the standard deviation of Gaussian noise, in sensitivities, that is (epsilon, delta)-DP (Balle and Wang).

    Not rounded to a side: it errs by the search, which stops at 1e-12, and by the cancellation of two terms.
    """
    wanted, low, high = math.log(delta) if delta > 0.0 else -math.inf, 0.1, 1.0
    while _log_delta(low, epsilon) < wanted:
        high, low = low, low / 10.0
    while _log_delta(high, epsilon) > wanted:
        low, high = high, 10.0 * high
    return _root(lambda deviation: _log_delta(deviation, epsilon) - wanted, low, high, 1e-12)


def _log_delta(deviation: float, epsilon: float) -> float:
    """Return the logarithm of the least delta of Gaussian noise at an epsilon (Balle and Wang 2018, equation 6)."""
    far = epsilon * deviation + 1.0 / (2.0 * deviation)
    more, less = float(log_ndtr(1.0 / deviation - far)), epsilon + float(log_ndtr(-far))
    with np.errstate(divide="ignore"):
        return more + float(np.log1p(-np.exp(less - more))) if less <= more else -math.inf


def _root(function: Callable[[float], float], low: float, high: float, error: float) -> float:
    from scipy.optimize import brentq

    return float(brentq(function, low, high, xtol=error))


def too_large(parts: list[Pure], mu: float) -> bool:
    """Return whether a single loss is too large for privacy loss distributions."""
    return max(mu, *(ratio for ratio, _, _ in parts)) > LARGEST_LOSS


def _step(parts: list[Pure], mu: float) -> float:
    """Return the step of the losses' grid: a 400th of the least loss, but at most half a million points in all."""
    # The sum of k losses of size r stays below k r^2 + 10 r sqrt(k), except with a probability far below any delta.
    reach = mu * (mu + 20.0) + math.fsum(min(count * ratio, count * ratio**2 + 10.0 * ratio * math.sqrt(count))
                                         for ratio, count, _ in parts)
    step = max(min(1e-4, min(ratio for ratio, _, _ in parts) / 400.0), reach / 2.5e5)
    # Even multiples for the most costly charge, which then has no error at all.
    main = max(parts, key=lambda part: part[1] * part[0] ** 2)[0]
    return main / (2.0 * math.ceil(main / (2.0 * step))) if main > 4.0 * step else step


def pessimistic(parts: list[Pure], mu: float) -> Any:
    """Return a distribution that loses no less than these charges together: its epsilons are proved."""
    from dp_accounting.pld import pld_pmf
    from dp_accounting.pld import privacy_loss_distribution as pld

    step = _step(parts, mu)
    losses = []
    main = sorted(parts, key=lambda part: -part[1] * part[0] ** 2)[:MOST_DISTRIBUTIONS]
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
            # For randomised response; set to 0 at the last dot, where rounding would make it negative.
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


def _power(loss: Any, count: int) -> Any:
    """Compose a loss with itself, at most 16 at a time: the library's cut of tails finds only so much at once."""
    if count == 1:
        return loss
    # The tail that is cut off here is cut off count / 16 times in the end; the library's own 1e-15 would be felt.
    cut = 1e-15 / max(1.0, count / 16.0)
    if count <= 16:
        return loss.self_compose(count, cut)
    many, rest = divmod(count, 16)
    power = _power(loss.self_compose(16, cut), many)
    return power if rest == 0 else power.compose(_power(loss, rest))
