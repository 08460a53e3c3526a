"""Theorems of composition against the exact optimum for k mechanisms of the same pure epsilon, at delta = 1e-5."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy import optimize, stats

from experiments import frames
from experiments.asked import Asked
from experiments.declare import Experiment
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


def exact(each: float, count: int) -> float:
    """Return the least epsilon of composition."""
    if exact_delta(0.0, each, count) <= DELTA:
        return 0.0
    found: Any = optimize.brentq(lambda e: exact_delta(e, each, count) - DELTA, 0.0, each * count, xtol=1e-10)
    return float(found)


def published(each: float, count: int, delta: float = DELTA) -> float:
    """Return the tutorial's formula 2 each sqrt(2 k ln(1/delta)), which is false for large each sqrt(k)."""
    return 2.0 * each * math.sqrt(2.0 * count * math.log(1.0 / delta))


RULES: dict[str, Callable[[float, int], float]] = {
    "sum": lambda each, k: each * k, "printed": published,
    "Dwork, Rothblum, Vadhan": lambda each, k: published(each, k) / 2.0 + k * each * math.expm1(each),
    # rho + 2 sqrt(rho ln(1/delta)) for rho = k each^2 / 2.
    "zCDP": lambda each, k: k * each**2 / 2.0 + published(each, k) / 2.0,
    "Gaussian DP": lambda each, k: gaussian_epsilon(math.sqrt(k) * mu_of_pure(each), DELTA),
    "exact": exact,
    "epsilon_of": lambda each, k: epsilon_of([Charge.claimed("rules", Budget(each), "experiments", count=k)], DELTA)}


def composition(asked: Asked) -> Path:
    rows: frames.Rows = [{"epsilon_0": each, "k": k} | {name: rule(each, k) for name, rule in RULES.items()}
                        for each in EPSILONS for k in (COUNTS[::3] if asked.quick else COUNTS)]
    wrong = [row for row in rows if row["printed"] < row["exact"] - 1e-9]
    least = {delta: next(k for k in range(1, 10_000) if published(0.01, k, delta) < 0.01 * k)
             for delta in (1e-3, 1e-5, 1e-9)}
    table = frames.grid(rows[0], [[f"**{row[key]:.4g}**" if key == "printed" and row in wrong else f"{row[key]:.4g}"
                                  for key in row] for row in rows])
    return frames.published("composition", asked, rows, delta=DELTA, table=table, wrong=len(wrong), cases=len(rows),
                         from_on=min((row["epsilon_0"] * row["k"]**0.5 for row in wrong), default=math.inf),
                         least=", ".join(f"{k} at δ = {delta:g}" for delta, k in least.items()))


declared = [Experiment(
    name="composition", run=composition,
    what="companions: theorems of composition against the exact optimum (seconds; no data)")]
