"""Theorems of composition against the exact optimum for k mechanisms of the same pure epsilon, at delta = 1e-5."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from scipy import optimize, stats

from experiments.asked import Asked
from experiments.cells import call
from experiments.declare import Experiment
from experiments.frames import markdown, of_cells, worded
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


def of_rules(each: float, count: int) -> dict[str, float]:
    return {name: rule(each, count) for name, rule in RULES.items()}


def page(lines: pd.DataFrame, asked: Asked) -> list[str]:
    wrong = lines["printed"] < lines["exact"] - 1e-9
    least = {delta: next(k for k in range(1, 10_000) if published(0.01, k, delta) < 0.01 * k)
             for delta in (1e-3, 1e-5, 1e-9)}
    text = lines.map("{:.4g}".format)
    text["printed"] = text["printed"].where(~wrong, "**" + text["printed"] + "**")
    spent = lines["epsilon_0"] * lines["k"] ** 0.5
    return worded("composition", simulated=worded("simulated"), delta=DELTA,
                  table=markdown(list(text), text.to_numpy()), wrong=wrong.sum(), cases=len(lines),
                  from_on=spent[wrong].min(), least=", ".join(f"{k} at δ = {delta:g}" for delta, k in least.items()))


of_composition = Experiment(
    name="composition", what="companions: theorems of composition against the exact optimum (seconds; no data)",
    size=(COUNTS[::3], COUNTS), lines=of_cells, page=page, formats=dict.fromkeys(("epsilon_0", *RULES), ".6g"),
    cells=lambda asked: {call(of_rules, each, k): {"epsilon_0": each, "k": k} for each in EPSILONS for k in asked.size})
