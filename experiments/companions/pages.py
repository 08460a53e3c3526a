"""How results of the companions are written: a CSV file, and a Markdown page."""

from pathlib import Path
from typing import Any

import pandas as pd

from experiments.asked import Asked
from experiments.cells import write_csv, write_markdown
from experiments.frames import crossed as crossed
from experiments.frames import grid as grid
from experiments.frames import means, worded

Rows = list[dict[str, Any]]


def summary(records: Rows, mean: str) -> Rows:
    """Return the mean of each "value" over records that are otherwise equal, its standard error and their number."""
    keys = [name for name in dict.fromkeys(name for record in records for name in record) if name != "value"]
    found = means(pd.DataFrame(records), keys, **{mean: "mean"}, standard_error="sem", runs="size")
    return found.fillna({"standard_error": 0.0}).to_dict("records")


def publish(name: str, asked: Asked, rows: Rows, **parts: Any) -> Path:
    """Write results/NAME.csv, with six digits, and NAME.md of pages/NAME.md and its `parts`; return this one."""
    stem = asked.stem(name)
    write_csv(stem, pd.DataFrame([{key: f"{value:.6g}" if isinstance(value, float) else value
                                   for key, value in row.items()} for row in rows], dtype=object))
    return write_markdown(stem, worded(name, simulated=worded("simulated"), **parts))
