"""Errors of a table that several parties hold: released by parts, or by each alone, with all or part of the budget."""

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import trigmech as tm
from experiments.cells import code_fingerprint, key_of, run_cells, write_markdown
from experiments.frames import formatted, markdown, write
from experiments.protocols import data
from experiments.protocols.boards import available
from experiments.protocols.coding import codes, total_variations
from trigmech.mechanisms.base import Mechanism

SET = "adult"
PARTIES = (1, 5, 10, 20, 50, 100)
WAYS = {"parts": "parts, added and released once",
        "alone": "each releases its own rows, with the whole budget, and the tables are put together",
        "split": "the same, with the budget over the number of parties"}
MECHANISMS = {"default": None, "smooth": tm.MomentMechanism()}
EPSILON, DELTA = 1.0, 1e-6


@dataclass(frozen=True)
class Run:
    """One synthetic table of rows that parties hold, dealt out at random.

    Parameters
    ----------
    mechanism : str
        One of `MECHANISMS`.
    way : str
        One of `WAYS`.
    parties, seed : int
    """

    mechanism: str
    way: str
    parties: int
    seed: int

    def key(self) -> str:
        """Return the name of the cache file."""
        return key_of(self, "parties", code_fingerprint(None, ("parties", "protocols/data", "protocols/coding")))

    @property
    def shares(self) -> Hashable:
        """Nothing worth sharing."""
        return None

    def compute(self) -> dict[str, Any]:
        """Return "error": the mean total variation distance over the tables of all pairs of columns."""
        table, schema = data.load(SET)
        rng = np.random.default_rng([self.seed, self.parties])
        own = [table.iloc[rows] for rows in np.array_split(rng.permutation(len(table)), self.parties)]
        made = pd.concat(self._made(own, schema), ignore_index=True)
        (real, size), (found, _) = codes(schema, table), codes(schema, made)
        pairs = combinations(range(len(size)), 2)
        return {"error": float(total_variations(real, found, size, pairs).mean())}

    def _made(self, own: list[pd.DataFrame], schema: tm.Schema) -> Iterator[pd.DataFrame]:
        mechanism: Mechanism | None = MECHANISMS[self.mechanism]
        if self.way == "parts":
            # The same random numbers for any number of parties.
            n, rng = sum(map(len, own)), np.random.default_rng(self.seed)
            asked = tm.design(n, schema, tm.Budget(EPSILON, DELTA), mechanism)
            while isinstance(asked, tm.Design):
                parts = [tm.measure_part(rows, asked) for rows in own]
                released = tm.release_parts(parts, asked, np.random.default_rng(self.seed))
                if not isinstance(released, tm.Design):
                    yield tm.generate(released, n, rng).to_pandas()
                    return
                asked = released
        over = self.parties if self.way == "split" else 1
        for k, rows in enumerate(own):
            budget = tm.Budget(EPSILON / over, DELTA / over)
            release = tm.synthesize(rows, schema, budget, mechanism, np.random.default_rng([self.seed, k]))
            yield pd.DataFrame(release.sample(len(rows), np.random.default_rng([self.seed, k, 1])))


def parties(jobs: int, quick: bool) -> list[Path]:
    """Write results/parties.csv and .md, and return the page.

    Parameters
    ----------
    jobs : int
    quick : bool
        1 seed and up to 5 parties, instead of 3 and 100.
    """
    if not available([SET]):
        return []
    seeds, numbers = (1, PARTIES[:2]) if quick else (3, PARTIES)
    cells = [Run(mechanism, way, m, seed) for mechanism in MECHANISMS for way in WAYS for m in numbers
             for seed in range(seeds)]
    lines = pd.DataFrame([{"mechanism": cell.mechanism, "way": cell.way, "parties": cell.parties, **result}
                          for cell, result in run_cells(cells, jobs, "parties")])
    found = lines.groupby(["mechanism", "way", "parties"])["error"].agg(error="mean", standard_error="sem")
    stem = "parties" + "_quick" * quick
    written = write(stem, formatted(found.fillna(0.0).reset_index(), error=".4g", standard_error=".2g"))
    return [write_markdown(stem, page(written, seeds))]


def page(lines: pd.DataFrame, seeds: int) -> list[str]:
    """Return the Markdown, from the lines of the CSV file."""
    of = lines.set_index(["mechanism", "way", "parties"])["error"].map("{:.4g}".format)
    numbers = sorted(set(lines["parties"]))
    return ["# Rows that several parties hold", "",
            f"Adult's rows dealt out at random to so many parties, (ε, δ) = ({EPSILON:g}, {DELTA:g}). Error: total "
            "variation distance between the real and the synthetic table of two columns, numbers in cells, mean over "
            f"all pairs and {seeds} seed(s).", "",
            *(f"- *{way}*: {words}." for way, words in WAYS.items()), "",
            *markdown(["mechanism", "way", *(f"{m} parties" if m > 1 else "1 party" for m in numbers)],
                      [[mechanism, way, *(of[mechanism, way, m] for m in numbers)] for mechanism in MECHANISMS
                       for way in WAYS])]
