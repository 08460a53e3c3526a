"""Errors of a table that several parties hold: released by parts, or by each alone, with all or part of the budget."""

from collections.abc import Iterator
from itertools import combinations, product
from typing import Any

import numpy as np
import pandas as pd

import trigmech as tm
from experiments.asked import Asked
from experiments.declare import Experiment, calls_of
from experiments.frames import across, of_cells, worded
from experiments.protocols import data
from experiments.protocols.coding import codes, total_variations
from trigmech.mechanisms.base import Mechanism

SET = "adult"
PARTIES = (1, 5, 10, 20, 50, 100)
WAYS = {"parts": "parts, added and released once",
        "alone": "each releases its own rows, with the whole budget, and the tables are put together",
        "split": "the same, with the budget over the number of parties"}
MECHANISMS: dict[str, Mechanism | None] = {"default": None, "smooth": tm.MomentMechanism()}
EPSILON, DELTA = 1.0, 1e-6


def pairs_error(mechanism: str, way: str, parties: int, seed: int) -> dict[str, Any]:
    """Return "error", the mean total variation distance over the tables of all pairs of columns, of rows dealt out."""
    table, schema = data.load(SET)
    rng = np.random.default_rng([seed, parties])
    own = [table.iloc[rows] for rows in np.array_split(rng.permutation(len(table)), parties)]
    made = pd.concat(synthetic(own, schema, MECHANISMS[mechanism], way, seed), ignore_index=True)
    (real, size), (found, _) = codes(schema, table), codes(schema, made)
    return {"error": float(total_variations(real, found, size, combinations(range(len(size)), 2)).mean())}


def synthetic(own: list[pd.DataFrame], schema: tm.Schema, mechanism: Mechanism | None, way: str,
              seed: int) -> Iterator[pd.DataFrame]:
    if way == "parts":
        # The same random numbers for any number of parties.
        n, rng = sum(map(len, own)), np.random.default_rng(seed)
        design: Any = tm.design(n, schema, tm.Budget(EPSILON, DELTA), mechanism)
        while isinstance(design, tm.Design):
            parts = [tm.measure_part(rows, design) for rows in own]
            design = tm.release_parts(parts, design, np.random.default_rng(seed))
        yield tm.generate(design, n, rng).to_pandas()
        return
    over = len(own) if way == "split" else 1
    for k, rows in enumerate(own):
        budget = tm.Budget(EPSILON / over, DELTA / over)
        release = tm.synthesize(rows, schema, budget, mechanism, np.random.default_rng([seed, k]))
        yield pd.DataFrame(release.sample(len(rows), np.random.default_rng([seed, k, 1])))


def table(lines: pd.DataFrame) -> pd.DataFrame:
    return lines.groupby(["mechanism", "way", "parties"])["error"].agg(
        error="mean", standard_error="sem").fillna(0.0).reset_index()


def page(lines: pd.DataFrame, asked: Asked) -> list[str]:
    wide = lines.pivot(index=["mechanism", "way"], columns="parties", values="error")
    return worded("parties", epsilon=EPSILON, delta=DELTA, seeds=asked.seeds,
                  ways=[f"- *{way}*: {said}." for way, said in WAYS.items()], table=across(
                      ["mechanism", "way"], wide.loc[[*product(MECHANISMS, WAYS)]],
                      {m: f"{m} parties" if m > 1 else "1 party" for m in wide}, "{:.4g}".format))


parties = Experiment(
    name="parties", what="tables that 1 to 100 parties hold, by parts and each alone (half an hour; needs Adult)",
    inputs=[SET], seeds=(1, 3), size=(PARTIES[:2], PARTIES), lines=of_cells, table=table, page=page,
    cells=lambda asked: calls_of(pairs_error, asked, mechanism=MECHANISMS, way=WAYS, parties=asked.size),
    formats={"error": ".4g", "standard_error": ".2g"})
