"""Made-up tables of known dependence: numbers and categories that follow two common normal factors."""

from functools import partial

import numpy as np
import pandas as pd

import trigmech as tm
from experiments.protocols.data import TableSet

ROWS, SIZES = 20_000, (5, 15, 40)
# The thresholds of ordered categories, and the range of the loadings' lengths: correlations lie between -.6 and .6.
CUTS, LENGTHS = ((-0.7, 0.0, 0.5, 1.3), (0.4,)), (0.2, 0.78)


def table(d: int) -> tuple[pd.DataFrame, tm.Schema]:
    """Return rows and schema: normal, log-normal and integer numbers, five categories and two, in turn."""
    rng = np.random.default_rng([2026, d])
    loads = rng.normal(size=(d, 2))
    loads *= (rng.uniform(*LENGTHS, d) / np.linalg.norm(loads, axis=1))[:, None]
    z = rng.normal(size=(ROWS, 2)) @ loads.T + rng.normal(size=(ROWS, d)) * np.sqrt(1.0 - (loads**2).sum(axis=1))
    made, columns = {}, []
    for j in range(d):
        name, kind = f"column {j + 1}", j % 5
        if kind < 3:
            made[name] = (z[:, j].clip(-4.0, 4.0), np.exp(z[:, j]).clip(0.0, 20.0),
                          np.rint(50.0 + 18.0 * z[:, j]).clip(0.0, 100.0))[kind]
            lower, upper = ((-4.0, 4.0), (0.0, 20.0), (0, 100))[kind]
            columns.append(tm.Column(name, lower, upper, "integer" if kind == 2 else "continuous"))
            continue
        cuts = CUTS[kind - 3]
        categories = tuple("abcde"[: len(cuts) + 1])
        made[name] = np.array(categories)[np.searchsorted(cuts, z[:, j])]
        columns.append(tm.Column(name, kind="categorical", categories=categories))
    return pd.DataFrame(made), tm.Schema(columns)


SETS = [TableSet(f"factors_{d}", (), partial(table, d)) for d in SIZES]
