"""Samples of many more rows than were fitted: whether they differ from each other, and whether their tables hold."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

import trigmech as tm
from experiments.asked import Asked, LeftOut
from experiments.cells import code_of, key_of, run_cells, write_markdown
from experiments.datasets import DatasetMissing
from experiments.frames import formatted, markdown, write
from experiments.small import SAMPLES, WITHOUT_DATA, Sample, scores
from trigmech.tables.different import DifferentRows

SEEDS, EPSILON, DELTA, ROWS, QUICK_ROWS = 3, 1.0, 1e-5, 1_000_000, 20_000
REAL, FITTED, FURTHER = "real rows", "fitted rows", "further rows"
MEASURES = {"pairs": "total variation of pairs", "ranks": "error of rank correlations"}


@dataclass(frozen=True)
class FurtherCell:
    """The fitted rows of one release, and a sample of so many rows."""

    sample: Sample
    rows: int
    seed: int

    def key(self) -> str:
        """Return the name of the file with its scores."""
        return key_of(self, "further", code_of("experiments.further") + code_of("experiments.small"))

    def compute(self) -> dict[str, float]:
        """Return the errors of both, and of the real, the fitted and the further rows the part that differs."""
        table, schema = self.sample.load(self.seed)
        made = tm.synthesize(table, schema, tm.Budget(EPSILON, DELTA), rng=np.random.default_rng(self.seed))
        size, rng = len(made.distribution.points), np.random.default_rng([self.seed, 1])
        found = {f"different, {REAL}": float(len(table.drop_duplicates()) / len(table))}
        for name, rows in ((FITTED, size), (FURTHER, self.rows)):
            sample = made.sample(rows, rng)
            values = DifferentRows()
            values.add(list(schema.decode(schema.to_cube(sample)).values()))
            found[f"different, {name}"] = float(values.different or 0) / rows
            found |= {f"{measure}, {name}": error for measure, error in scores(schema, table, sample).items()
                      if measure in MEASURES}
            words = [column.name for column in schema.columns if column.categories is not None]
            if words:
                found[f"combinations, {name}"] = float(len(sample[words].drop_duplicates()))
        return found


def further(asked: Asked) -> Path:
    """Write results/further.csv and .md, and return the page.

    Quick: two seeds of scikit-learn's sets, and fewer rows.
    """
    wanted, seeds, rows = (WITHOUT_DATA, 2, QUICK_ROWS) if asked.quick else (SAMPLES, asked.seeds or SEEDS, ROWS)
    samples = []
    for sample in wanted:
        try:
            sample.load(0)
            samples.append(sample)
        except DatasetMissing as missing:
            print(f"left out: {missing}")
    if not samples:
        raise LeftOut("it needs a table of the protocols")
    cells = [FurtherCell(sample, rows, seed) for sample in samples for seed in range(seeds)]
    lines = [{"table": cell.sample.name, "measure": measure, "value": value}
             for cell, result in run_cells(cells, asked.jobs, "further") for measure, value in result.items()]
    means = pd.DataFrame(lines).groupby(["table", "measure"], sort=False)["value"].mean().reset_index()
    stem = asked.stem("further", len(samples) == len(SAMPLES))
    write(stem, formatted(means, value=".6g"))
    return write_markdown(stem, page(means, seeds, rows))


def page(means: pd.DataFrame, seeds: int, rows: int) -> Sequence[str]:
    """Return the Markdown: a line for each table."""
    found = means.set_index(["table", "measure"])["value"]
    lines = []
    for table in dict.fromkeys(means["table"]):
        own = found[table]
        lines.append([table, *(f"{own[f'{measure}, {name}']:.4f}" if f"{measure}, {name}" in own else ""
                               for measure in MEASURES for name in (FITTED, FURTHER)),
                      *(f"{own[f'different, {name}']:.3f}" for name in (REAL, FITTED, FURTHER)),
                      *(f"{own[f'combinations, {name}']:,.0f}" if f"combinations, {name}" in own else ""
                        for name in (FITTED, FURTHER))])
    header = ["table", *(f"{words}, {name}" for words in MEASURES.values() for name in (FITTED, FURTHER)),
              *(f"part that differs, {name}" for name in (REAL, FITTED, FURTHER)),
              *(f"combinations of categories, {name}" for name in (FITTED, FURTHER))]
    return ["# Samples of many more rows than were fitted", "",
            f"Releases at ε = {EPSILON:g}, δ = {DELTA:g}: errors of the fitted rows, and of {rows:,} further rows of "
            "the same release (`trigmech.reconstruction.mixing`), against the real table; the part of the rows that "
            f"differ from each other; and how many combinations of all categories occur. Means of {seeds} releases.",
            "", *markdown(header, lines), ""]
