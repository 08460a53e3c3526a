"""Theorems of composition against the exact optimum for k mechanisms of the same pure epsilon."""

import math
from pathlib import Path
from typing import Any

import numpy as np
from scipy import optimize, stats

from experiments.companions import pages
from trigmech.privacy.accounting import epsilon_of
from trigmech.privacy.budget import Budget, Charge
from trigmech.privacy.privacy_loss import gaussian_epsilon, mu_of_pure

DELTA = 1e-5
EPSILONS = (0.01, 0.1, 1.0)
COUNTS = (1, 2, 5, 10, 20, 50, 92, 100, 200, 500, 1000)


def exact_delta(epsilon: float, each: float, count: int) -> float:
    """Return the least delta at epsilon that all compositions of `count` each-private mechanisms have.

    Randomised response is the worst of them: losses are each (2j - count), j binomial.
    """
    j = np.arange(count + 1)
    shares = stats.binom(count, 1.0 / (1.0 + math.exp(-each))).pmf(j)
    return float(shares @ np.maximum(0.0, -np.expm1(np.minimum(0.0, epsilon - each * (2 * j - count)))))


def exact(each: float, count: int, delta: float = DELTA) -> float:
    """Return the least epsilon of composition at delta > 0."""
    if exact_delta(0.0, each, count) <= delta:
        return 0.0
    found: Any = optimize.brentq(lambda e: exact_delta(e, each, count) - delta, 0.0, each * count, xtol=1e-10)
    return float(found)


def published(each: float, count: int, delta: float = DELTA) -> float:
    """Return the tutorial's formula 2 each sqrt(2 k ln(1/delta)), which is false for large each sqrt(k)."""
    return 2.0 * each * math.sqrt(2.0 * count * math.log(1.0 / delta))


def advanced(each: float, count: int, delta: float = DELTA) -> float:
    """Return the theorem of Dwork, Rothblum and Vadhan."""
    return published(each, count, delta) / 2.0 + count * each * math.expm1(each)


def concentrated(each: float, count: int, delta: float = DELTA) -> float:
    """Return rho + 2 sqrt(rho ln(1/delta)) for rho = k each^2 / 2."""
    rho = count * each**2 / 2.0
    return rho + 2.0 * math.sqrt(rho * math.log(1.0 / delta))


def gaussian(each: float, count: int, delta: float = DELTA) -> float:
    """Return what Gaussian differential privacy proves."""
    return gaussian_epsilon(math.sqrt(count) * mu_of_pure(each), delta)


def ours(each: float, count: int, delta: float = DELTA) -> float:
    """Return what the package's accounting proves of `count` claims of each."""
    return epsilon_of([Charge.claimed("composition", Budget(each), "experiments", count=count)], delta)


RULES = {"printed": published, "Dwork, Rothblum, Vadhan": advanced, "zCDP": concentrated, "Gaussian DP": gaussian,
         "exact": exact, "epsilon_of": ours}


def composition(jobs: int, quick: bool) -> list[Path]:
    """Write results/composition.csv and .md; quick: every third k."""
    rows: pages.Rows = [
        {"epsilon_0": each, "k": k, "sum": each * k} | {name: rule(each, k) for name, rule in RULES.items()}
        for each in EPSILONS for k in (COUNTS[::3] if quick else COUNTS)]
    wrong = [row for row in rows if row["printed"] < row["exact"] - 1e-9]
    least = {delta: next(k for k in range(1, 10_000) if published(0.01, k, delta) < 0.01 * k)
             for delta in (1e-3, 1e-5, 1e-9)}
    table = pages.grid(rows[0], [[f"**{row[key]:.4g}**" if key == "printed" and row in wrong else f"{row[key]:.4g}"
                                  for key in row] for row in rows])
    return pages.publish("composition", quick, rows, delta=DELTA, table=table, wrong=len(wrong), cases=len(rows),
                         from_on=min((row["epsilon_0"] * row["k"]**0.5 for row in wrong), default=math.inf),
                         least=", ".join(f"{k} at δ = {delta:g}" for delta, k in least.items()))
