"""Samples of many more rows than were fitted: whether they differ from each other, and whether their tables hold."""

import numpy as np
import pandas as pd

import trigmech as tm
from experiments.asked import Asked
from experiments.declare import Experiment, calls_of
from experiments.frames import across, means, worded
from experiments.protocols.data import Sample
from experiments.small import SAMPLES, WITHOUT_DATA, scores
from trigmech.tables.different import DifferentRows

EPSILON, DELTA = 1.0, 1e-5
REAL, FITTED, FURTHER = "real rows", "fitted rows", "further rows"
MEASURES = {"pairs": "total variation of pairs", "ranks": "error of rank correlations"}


def errors_of(source: str, rows: int, seed: int, many: int) -> dict[str, float]:
    """Return the errors of the fitted rows of a release and of many, and how many of these and the real rows differ."""
    table, schema = Sample(source, rows).load(seed)
    made = tm.synthesize(table, schema, tm.Budget(EPSILON, DELTA), rng=np.random.default_rng(seed))
    rng = np.random.default_rng([seed, 1])
    found = {f"different, {REAL}": float(len(table.drop_duplicates()) / len(table))}
    for name, size in ((FITTED, len(made.distribution.points)), (FURTHER, many)):
        sample = made.sample(size, rng)
        values = DifferentRows()
        values.add(list(schema.decode(schema.to_cube(sample)).values()))
        found[f"different, {name}"] = float(values.different or 0) / size
        found |= {f"{measure}, {name}": error for measure, error in scores(schema, table, sample).items()
                  if measure in MEASURES}
        words = [column.name for column in schema.columns if column.categories is not None]
        if words:
            found[f"combinations, {name}"] = float(len(sample[words].drop_duplicates()))
    return found


def page(lines: pd.DataFrame, asked: Asked) -> list[str]:
    heads = {f"{measure}, {name}": (f"{said}, {name}", form) for measure, said, names, form in (
        *((measure, said, (FITTED, FURTHER), ".4f") for measure, said in MEASURES.items()),
        ("different", "part that differs", (REAL, FITTED, FURTHER), ".3f"),
        ("combinations", "combinations of categories", (FITTED, FURTHER), ",.0f")) for name in names}
    text = [format(value, heads[measure][1]) for measure, value in zip(lines["measure"], lines["value"], strict=True)]
    wide = lines.assign(text=text).pivot_table("text", "table", "measure", "first", sort=False)
    return worded("further", epsilon=EPSILON, delta=DELTA, size=asked.size, seeds=asked.seeds,
                  table=across(["table"], wide, {measure: said for measure, (said, _) in heads.items()}))


further = Experiment(
    name="further", what="samples of many more rows than were fitted (ten minutes; a part needs no data)",
    inputs=SAMPLES, quick=WITHOUT_DATA, seeds=(2, 3), size=(20_000, 1_000_000), page=page,
    cells=lambda asked: calls_of(errors_of, asked, asked.size, table=asked.inputs),
    formats={"value": ".6g"}, table=lambda lines: means(lines, ["table", "measure"]))
