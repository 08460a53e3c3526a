"""Tables and claims of documentation pages, from the committed results of the scoreboards.

A page asks for a table by ``<!-- board: protocol data set, epsilon, measures -->``, or with ``means`` in place of
``board`` for one without spreads, and stands by a claim by ``<!--
better: protocol data set, epsilon, measure: method, method -->``: the first of the two has the better mean. Tables of
worst errors are asked for by ``<!-- worst: w1 -->``, of several files with commas, and have heads of their own. A short
table of the default beside the best of the rivals is asked for by ``<!-- reach: protocol data set measure = words; ...
-->``, at ε = 1. Rows that older code made are marked; see :mod:`experiments.fingerprints`.
"""

import math
import re
from collections.abc import Container
from functools import cache
from pathlib import Path

import pandas as pd

from experiments import comparison, every, fingerprints
from experiments.frames import markdown, read_csv
from experiments.protocols import boards

TABLE = re.compile(r"(<!-- (board|means): (\w+) (\w+), ([\d.]+), ([\w., ]+?) -->\n\n?)((?:\|.*\n)*)")
WORST = re.compile(r"(<!-- worst: ([\w, ]+?) -->\n\n(?:\|.*\n){2})((?:\|.*\n)*)")
REACH = re.compile(r"(<!-- reach: ((?:\w+ \w+ \w+ = [^;>]+?(?:; )?)+) -->\n\n?)((?:\|.*\n)*)")
CLAIM = re.compile(r"<!-- better: (\w+) (\w+), ([\d.]+), ([\w.]+): ([\w-]+), ([\w-]+) -->")


@cache
def best_of(results: Path, protocol: str) -> pd.DataFrame:
    """Return the committed lines of a protocol, of several numbers of cells the best in each measure."""
    return boards.best_cells(read_csv(results / f"{protocol}.csv"))


def filled(text: str, results: Path) -> str:
    text = TABLE.sub(lambda found: found[1] + "\n".join(table(
        best_of(results, found[3]), found[4], float(found[5]), found[6].split(", "), found[2] == "board",
        fingerprints.older(found[3], results))) + "\n", text)
    text = REACH.sub(lambda found: found[1] + "\n".join(reached(found[2].split("; "), results)) + "\n", text)
    return WORST.sub(lambda found: found[1] + "".join(f"{row}\n" for row in worst(found[2].split(", "), results)), text)


def worst(stems: list[str], results: Path) -> list[str]:
    if stems[0].startswith("table"):
        lines = rewritten(stems[0], results).split("## Absolute error\n\n")[1]
        return lines.split("\n\n")[0].splitlines()[2:]
    return comparison.readme_rows(results, stems)


def rewritten(stem: str, results: Path) -> str:
    """Return the committed page of results, with present marks on the results that older code made."""
    if stem in fingerprints.BY_ROWS:
        return every.EXPERIMENTS[stem].committed(results, fingerprints.older(stem, results))
    return fingerprints.marked((results / f"{stem}.md").read_text(encoding="utf-8"), stem, results)


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


def reached(asked: list[str], results: Path) -> list[str]:
    """Return the lines of a table: for each "protocol data set measure = words" the default and the best rival.

    The better of the two is bold; shuffled columns stand beside them.
    """
    rows = []
    for words in asked:
        where, _, said = words.partition(" = ")
        protocol, dataset, measure = where.split()
        best = best_of(results, protocol)
        lines = best[(best["dataset"] == dataset) & best["epsilon"].isin([1.0, 0.0]) & (best["measure"] == measure)]
        means = lines.set_index("method")["mean"].dropna()
        losses = boards.losses(best.dropna(subset="mean"), dataset, 1.0, measure)
        rival = min((name for name in losses if name not in (*boards.OWN, *boards.NOT_PRIVATE)), key=losses.__getitem__)
        shown = {name: f"{means[name]:.4g}" for name in (boards.DEFAULT, rival, boards.INDEPENDENT)}
        winner = min((boards.DEFAULT, rival), key=losses.__getitem__)
        shown[winner] = f"**{shown[winner]}**"
        older = boards.labelled(boards.DEFAULT, fingerprints.older(protocol, results)).removeprefix(boards.DEFAULT)
        rows.append([said, shown[boards.DEFAULT] + older, f"{shown[rival]} ({rival.split('-')[0]})",
                     shown[boards.INDEPENDENT]])
    return markdown(["what", "this", "other tool", "shuffled"], rows)


def broken_claims(text: str, results: Path) -> list[str]:
    """Return the claims of a page that the results do not bear out."""
    broken = []
    for protocol, dataset, epsilon, measure, first, second in CLAIM.findall(text):
        losses = boards.losses(best_of(results, protocol), dataset, float(epsilon), measure)
        if not losses.get(first, math.nan) < losses.get(second, math.nan):
            broken.append(f"{protocol} {dataset}, {measure}: {first} is not better than {second}")
    return broken
