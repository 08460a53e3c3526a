"""Tables and claims of documentation pages, from the committed results of the scoreboards.

A page asks for a table by ``<!-- board: protocol data set, epsilon, measures -->``, or with ``means`` in place of
``board`` for one without spreads, and stands by a claim by ``<!--
better: protocol data set, epsilon, measure: method, method -->``: the first of the two has the better mean. Tables of
worst errors are asked for by ``<!-- worst: w1 -->``, of several files with commas, and have heads of their own. Rows
that older code made are marked; see :mod:`experiments.fingerprints`.
"""

import re
from collections.abc import Container
from functools import cache
from pathlib import Path

import pandas as pd

from experiments import comparison, fingerprints, tables
from experiments.frames import markdown, read_csv
from experiments.protocols import boards

TABLE = re.compile(r"(<!-- (board|means): (\w+) (\w+), ([\d.]+), ([\w., ]+?) -->\n\n?)((?:\|.*\n)*)")
WORST = re.compile(r"(<!-- worst: ([\w, ]+?) -->\n\n(?:\|.*\n){2})((?:\|.*\n)*)")
CLAIM = re.compile(r"<!-- better: (\w+) (\w+), ([\d.]+), ([\w.]+): ([\w-]+), ([\w-]+) -->")


@cache
def best_of(results: Path, protocol: str) -> pd.DataFrame:
    """Return the committed lines of a protocol, of several numbers of cells the best in each measure."""
    return boards.best_cells(boards.read_csv(results / f"{protocol}.csv"))


def filled(text: str, results: Path) -> str:
    """Return a page with its tables as the results have them."""
    text = TABLE.sub(lambda found: found[1] + "\n".join(table(
        best_of(results, found[3]), found[4], float(found[5]), found[6].split(", "), found[2] == "board",
        fingerprints.older(found[3], results))) + "\n", text)
    return WORST.sub(lambda found: found[1] + "".join(f"{row}\n" for row in worst(found[2].split(", "), results)), text)


def worst(stems: list[str], results: Path) -> list[str]:
    """Return the rows of a table of worst errors, by the files that it is of."""
    if stems[0].startswith("table"):
        lines = "\n".join(tables.page(stems[0], results)).split("## Absolute error\n\n")[1]
        return lines.split("\n\n")[0].splitlines()[2:]
    return comparison.readme_rows(results, stems)


def rewritten(stem: str, results: Path) -> str:
    """Return the page of results that is committed, with what older code made marked as it is now."""
    path = results / f"{stem}.md"
    if stem not in fingerprints.BY_ROWS:
        return fingerprints.marked(path.read_text(encoding="utf-8"), stem, results)
    if stem in boards.PROTOCOLS:
        lines = boards.page(boards.PROTOCOLS[stem], boards.read_csv(results / f"{stem}.csv"),
                            fingerprints.older(stem, results))
    elif stem in tables.CHOSEN:
        lines = tables.page(stem, results)
    else:
        lines = comparison.report(stem, read_csv(results / f"{stem}.csv"), comparison.MOST_QUERIES,
                                  fingerprints.older(stem, results))
    return "\n".join(lines) + "\n"


def table(best: pd.DataFrame, dataset: str, epsilon: float, measures: list[str], spreads: bool,
          older: Container[str] = ()) -> list[str]:
    """Return the lines of a table: methods by measures, with the ε for a replaced row, processor seconds and seeds."""
    there = best[(best["dataset"] == dataset) & best["epsilon"].isin([epsilon, 0.0])]
    rows = []
    for method, own in there.groupby("method", sort=False):
        row = own.set_index("measure")
        if row["seeds"].drop("failures").empty:
            rows.append([boards.labelled(method, older), "no table", *[""] * (len(measures) - 1), "", "", 0])
            continue
        means = [boards.entry(row.loc[measure]) if spreads else f"{row.loc[measure, 'mean']:.4g}"
                 for measure in measures]
        rows.append([boards.labelled(method, older), *means,
                     *(f"{row.loc[name, 'mean']:.{digits}f}" if name in row.index else ""
                       for name, digits in (("replace_one_epsilon", 2), ("cpu_seconds", 0))),
                     row["seeds"].drop("failures").max()])
    return markdown(["method", *measures, "ε, replaced", "CPU s", "seeds"], rows)


def older_rows(text: str) -> list[str]:
    """Return the rows of a page's tables that are marked as made by older code."""
    return [line for line in text.splitlines() if line.startswith("|") and fingerprints.OLDER in line]


def broken_claims(text: str, results: Path) -> list[str]:
    """Return the claims of a page that the results do not bear out."""
    broken = []
    for protocol, dataset, epsilon, measure, first, second in CLAIM.findall(text):
        best = best_of(results, protocol)
        there = best[(best["dataset"] == dataset) & best["epsilon"].isin([float(epsilon), 0.0])
                     & (best["measure"] == measure)].set_index("method")["mean"]
        if not {first, second} <= set(there.index) or not (
                boards.loss(measure, there[first]) < boards.loss(measure, there[second])):
            broken.append(f"{protocol} {dataset}, {measure}: {first} is not better than {second}")
    return broken
