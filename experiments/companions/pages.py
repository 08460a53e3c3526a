"""How results of the companions are written: a CSV file and a Markdown page of the same name."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from experiments.cells import write_csv, write_markdown

SIMULATED = ("Simulated with a seeded generator: nothing here is a release, no ledger is charged. Neighbours are "
             "replace-one with n public, unless said.")


def shown(value: Any) -> str:
    """Return a number with three digits, anything else as it is; None is empty."""
    return "" if value is None else f"{value:.3g}" if isinstance(value, float) else str(value)


def grid(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> list[str]:
    """Return a Markdown table."""
    return ["| " + " | ".join(columns) + " |", "|" + " --- |" * len(columns),
            *("| " + " | ".join(map(shown, row)) + " |" for row in rows), ""]


def publish(name: str, quick: bool, rows: list[dict[str, Any]], lines: list[str]) -> list[Path]:
    """Write results/NAME.csv and .md, with the suffix _quick of a quick run; numbers with six digits."""
    stem = name + "_quick" * quick
    write_csv(stem, [{key: f"{value:.6g}" if isinstance(value, float) else value for key, value in row.items()}
                      for row in rows])
    return [write_markdown(stem, lines)]
