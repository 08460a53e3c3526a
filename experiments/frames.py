"""What cells give as tables: lines for each number, summed up with pandas, and pages of Markdown."""

from collections.abc import Container, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from experiments import cells as machinery
from experiments.asked import Asked
from experiments.cells import Call
from experiments.runs import PAIR_WIDTHS, WIDTHS

# Of the workloads, as texts; W3 has no widths.
SIGMAS = {"w1": tuple(f"{width:g}" for width in WIDTHS), "w2": tuple(f"{width:g}" for width in PAIR_WIDTHS),
          "w3": ("",)}


def measured(cells: Mapping[Call, dict[str, Any]], asked: Asked, title: str) -> pd.DataFrame:
    """Run cells, and return a line for each number that they give.

    Parameters
    ----------
    cells : dict
        Of each cell what its lines have besides "workload", "what" and "sigma", empty where there is none, and "value".
    asked : Asked
    title : str
        Of the progress.
    """
    results = dict(machinery.run_cells(cells, asked.jobs, title))
    lines = []
    # In this order, whichever cell was done first.
    for cell, head in cells.items():
        for what, found in results[cell].items():
            every = found if isinstance(found, dict) else {what: [found]}
            where, sigmas = (what, SIGMAS[what]) if isinstance(found, dict) else ("", ("",))
            lines += [{**head, "workload": where, "what": kind, "sigma": sigma, "value": value}
                      for kind, values in every.items() for sigma, value in zip(sigmas, values, strict=True)]
    return pd.DataFrame(lines)


def measured_kinds(cells: Mapping[Call, dict[str, Any]], asked: Asked, title: str) -> pd.DataFrame:
    """Run cells that give numbers of several kinds, and return a line for each kind; as :func:`measured`."""
    results = dict(machinery.run_cells(cells, asked.jobs, title))
    return pd.DataFrame([{**head, "kind": kind, **found} for cell, head in cells.items()
                         for kind, found in results[cell].items()])


def write(stem: str, lines: pd.DataFrame, run: Container[str] | None = None) -> pd.DataFrame:
    """Publish results/<stem>.csv, and return its lines as they can be read from it; NaN is an empty text there."""
    return read_csv(machinery.write_csv(stem, lines, run=run))


def read_csv(path: Path) -> pd.DataFrame:
    """Return a published file's lines; empty entries are empty texts where a column has others, and else NaN."""
    return pd.read_csv(path, keep_default_na=False, dtype={"sigma": str})


def formatted(lines: pd.DataFrame, **specifications: str) -> pd.DataFrame:
    """Return lines with numbers as texts, by a format for each column that is named."""
    return lines.assign(**{name: lines[name].map(lambda value, how=how: format(value, how), na_action="ignore")
                           for name, how in specifications.items()})


def arranged(lines: pd.DataFrame, keys: list[str], like: pd.DataFrame) -> pd.DataFrame:
    """Return lines in the order in which their keys come first in other lines; those of equal keys stay in theirs."""
    every = like[keys].drop_duplicates()
    place = pd.Series(range(len(every)), index=pd.MultiIndex.from_frame(every))
    return lines.iloc[np.argsort(place.loc[pd.MultiIndex.from_frame(lines[keys])].to_numpy(), kind="stable")]


def markdown(head: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    """Return a table of a page."""
    return [f"| {' | '.join(head)} |", "|" + " --- |" * len(head),
            *(f"| {' | '.join(map(str, row))} |" for row in rows)]


def shown(value: float) -> str:
    """Return a number with three digits that say something, without an exponent."""
    return np.format_float_positional(value, precision=3, fractional=False, trim="-") if value else "0"


def geometric(values: Any) -> float:
    """Return the geometric mean; NaN of nothing."""
    return float(np.exp(np.mean(np.log(values)))) if len(values) else np.nan
