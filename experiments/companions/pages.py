"""How results of the companions are written: a CSV file, and a Markdown page, whose words are a file of pages/."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from experiments.asked import Asked
from experiments.cells import write_csv, write_markdown

Rows = list[dict[str, Any]]
WORDS = Path(__file__).parent / "pages"


def grid(columns: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    """Return a Markdown table, numbers with three digits; None is empty."""
    lines = [list(columns), *([f"{x:.3g}" if isinstance(x, float) else "" if x is None else str(x) for x in row]
                              for row in rows)]
    lines.insert(1, ["---"] * len(lines[0]))
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def crossed(rows: Rows, across: str, value: str, title: str, more: Iterable[Sequence[Any]] = ()) -> str:
    """Return a Markdown table: a line for each method, a column for each of `across`, "refused" where there is no
    value; then the lines `more`."""
    places = sorted({row[across] for row in rows})
    at = {(row["method"], row[across]): row[value] for row in rows}
    return grid(["method", *map(title.format, places)],
                [*((name, *(at.get((name, place), "refused") for place in places))
                   for name in dict.fromkeys(row["method"] for row in rows)), *more])


def summary(records: Rows, mean: str) -> Rows:
    """Return the mean of each "value" over records that are otherwise equal, its standard error and their number."""
    frame = pd.DataFrame(records)
    groups = frame.groupby([name for name in frame if name != "value"], sort=False)["value"]
    found = groups.agg(**{mean: "mean", "standard_error": "sem", "runs": "size"})
    return found.fillna({"standard_error": 0.0}).reset_index().to_dict("records")


def publish(name: str, asked: Asked, rows: Rows, **parts: Any) -> Path:
    """Write results/NAME.csv, with six digits, and NAME.md of pages/NAME.md and its `parts`; return this one."""
    stem, simulated = asked.stem(name), (WORDS / "simulated.md").read_text(encoding="utf-8").strip()
    write_csv(stem, pd.DataFrame([{key: f"{value:.6g}" if isinstance(value, float) else value
                                   for key, value in row.items()} for row in rows], dtype=object))
    words = (WORDS / f"{name}.md").read_text(encoding="utf-8").format(simulated=simulated, **parts)
    return write_markdown(stem, [words.rstrip("\n")])
