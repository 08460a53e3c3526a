"""How often acceptance tests accept the truth, a release, and columns without their dependence."""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

import trigmech as tm
from experiments.asked import Asked
from experiments.declare import Experiment, calls_of
from experiments.frames import across, of_cells, worded
from trigmech.distribution import Distribution

SIZES, EPSILONS = (1_000, 5_000), (0.1, 0.3, 1.0)
TRUTH, RELEASE, INDEPENDENT = "the truth", "a release at ε = 1", "independent columns"
KINDS = (TRUTH, RELEASE, INDEPENDENT)
SCHEMA = tm.Schema([tm.Column(f"x{j}", -5, 5) for j in range(4)])
CRITERIA = (tm.Criterion("worst one-way", 0.15), tm.Criterion("mean two-way", 0.2),
            tm.Criterion("correlation", 0.5, columns=("x0", "x1"), share=3.0))
# Tests with other noise, of each release.
TESTS = 200


def acceptance_rate(kind: str, n: int, epsilon: float, repetition: int) -> dict[str, Any]:
    """Return "rate", the share of `TESTS` acceptance tests at (epsilon, 0) that accept; None if they are refused."""
    rng = np.random.default_rng([repetition, n])
    # Correlations of 0.9 of neighbours.
    X = np.cumsum(rng.normal(size=(n, 4)) * [1.0, 0.44, 0.44, 0.44], axis=1)
    X /= np.sqrt(1.0 + 0.44**2 * np.arange(4))
    made = tm.synthesize(X, SCHEMA, tm.Budget(1.0, 1e-6), rng=rng)
    if kind != RELEASE:
        points = SCHEMA.to_cube(X if kind == TRUTH else rng.permuted(X, axis=0))
        made = replace(made, fit=replace(made.fit, distribution=Distribution(points, np.full(n, 1.0 / n))))
    try:
        found = [tm.accept(made, X, CRITERIA, tm.Budget(epsilon), np.random.default_rng([seed, repetition])).accepted
                 for seed in range(TESTS)]
    except tm.InputError:
        return {"rate": None}
    return {"rate": float(np.mean(found))}


def page(lines: pd.DataFrame, asked: Asked) -> list[str]:
    rate = pd.to_numeric(lines["rate"]).map("{:.3f}".format).replace("nan", "refused")
    wide = lines.assign(rate=rate).pivot(index="release", columns=["n", "epsilon"], values="rate")
    return worded("acceptance", tests=TESTS, seeds=asked.seeds,
                  criteria="; ".join(f"{each.words}, limit {each.limit:g}" for each in CRITERIA), table=across(
                      ["what is tested"], wide.loc[list(KINDS)],
                      {(n, epsilon): f"n = {n:,}, ε = {epsilon:g}" for n, epsilon in wide}))


acceptance = Experiment(
    name="acceptance", what="how often acceptance tests accept what they should (two minutes; no data)", seeds=(1, 5),
    cells=lambda asked: calls_of(acceptance_rate, asked, release=KINDS, n=SIZES, epsilon=EPSILONS),
    lines=of_cells, page=page, formats={"epsilon": "g", "rate": ".3f"},
    table=lambda lines: lines.groupby(["release", "n", "epsilon"], sort=False)["rate"].mean().reset_index())
