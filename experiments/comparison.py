"""W1, W2 and W3: this package against trivial baselines, the thesis, the goals, and the rivals of `smooth`."""

import math
from collections.abc import Container, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from experiments import baselines, fingerprints, frames
from experiments.asked import Asked
from experiments.cells import HERE, Call
from experiments.declare import Experiment
from experiments.frames import SIGMAS, geometric, markdown, read_csv, shown
from experiments.protocols import boards
from experiments.runs import BEST, release
from experiments.search import expected

# epsilon, delta, the thesis's table, and its mechanism.
SETTINGS: dict[str, tuple[float, float, str, str]] = {"A": (1.0, 0.0, "table_3_2", "ImprovedTrigI"),
                                                      "B": (1.0, 1e-3, "table_3_3", "ImprovedTrigII")}
QUERIES = {"w1": "{} Gaussian kernel queries of 10 centres", "w2": "1000 kernels on random pairs of columns",
           "w3": "all second moments E x_i x_j"}
# By default, whatever the queries.
DEFAULT = "TableMechanism"
OWN = (BEST, DEFAULT, *(mechanism for *_, mechanism in SETTINGS.values()))
HISTOGRAMS = "histograms"
KINDS = {"absolute": "Worst absolute error", "relative": "Worst relative error",
         "typical": "Median over the queries of the absolute error"}
FACTS = {"seconds": "seconds", "distinct": "points", "proved_epsilon": "proved_epsilon"}
LARGE = 5_000  # rows
SCOREBOARD = HERE / "results" / "smooth.csv"

Row = tuple[str, str, str]  # data set, setting, row
Rows = dict[Row, dict[tuple[str, str], float]]  # by "what" and "sigma"


def methods(setting: str, quick: bool) -> list[tuple[str, dict[str, int], int]]:
    """Return the methods of a setting, each with its options and its number of repetitions."""
    most = 3 if quick else 10
    # The uniform distribution has no noise, so no repetition.
    return [*((name, {}, most) for name in (BEST, DEFAULT, SETTINGS[setting][3])), ("uniform", {}, 1),
            ("Gaussian", {}, most), ("diagonal", {}, most),
            *((HISTOGRAMS, {"bins": bins}, most) for bins in baselines.BINS)]


def cells(asked: Asked) -> dict[Call, dict[str, Any]]:
    """Return the calls, which are the same for the three workloads; with `asked.ours` those of this package alone."""
    found = dict[Call, dict[str, Any]]()
    for name, (setting, (epsilon, delta, *_)) in product(asked.names, SETTINGS.items()):
        for row, options, repetitions in methods(setting, asked.quick):
            if asked.ours and not again(asked, (name, setting, row)):
                continue
            # CSN's distributions have 50,000 points: to answer 10^4 queries from them takes a minute.
            most = min(5, repetitions) if row in (BEST, DEFAULT) and name == "CSN" else repetitions
            head = {"dataset": name, "setting": setting, "row": row,
                    "method": " ".join([row, *(f"{value} {key}" for key, value in options.items())])}
            found |= {release(name, row, options, epsilon=epsilon, delta=delta, repetition=r,
                              n_queries=asked.size): head for r in range(most)}
    return found


def again(asked: Asked, key: Any) -> bool:
    """Return whether lines of a data set, setting and row are of this package, by a mechanism that is asked for."""
    _, setting, row, *_ = key
    return row in OWN and mechanism_of(row, setting) in (asked.methods or fingerprints.OWN)


def summary(workload: str, lines: pd.DataFrame) -> pd.DataFrame:
    """Return the lines of the CSV: mean, median and standard error over the repetitions, and the costs of runs."""
    head = ["dataset", "setting", "row", "method"]
    mine = lines[(lines["workload"] == workload) | lines["what"].isin(FACTS)]
    found = mine.groupby([*head, "what", "sigma"], sort=False)["value"].agg(
        mean="mean", median="median", standard_error="sem", most="max", repetitions="count").fillna(0.0).reset_index()
    kinds = pd.DataFrame({"what": [*KINDS, *FACTS]})
    found = frames.arranged(frames.arranged(found, ["what"], kinds), head, mine)
    facts, slowest = found["what"].isin(FACTS), found["what"].isin(("seconds", "proved_epsilon"))
    found["mean"] = found["mean"].where(~slowest, found["most"])
    found[["median", "standard_error"]] = found[["median", "standard_error"]].mask(facts)
    found["what"] = found["what"].replace(FACTS)
    return frames.formatted(found, mean=".6g", median=".6g", standard_error=".2g")[
        [*head, "repetitions", "what", "sigma", "mean", "median", "standard_error"]]


def rows_of(lines: pd.DataFrame) -> Rows:
    """Return the rows of the tables: of histograms the best number of bins, in hindsight, for each cell."""
    found: Rows = {}
    for line in lines.itertuples():
        row = found.setdefault((line.dataset, line.setting, line.row), {("repetitions", ""): line.repetitions})
        key, value = (line.what, line.sigma), float(line.mean)
        row[key] = (min if line.what in KINDS else max)(value, row.get(key, value))
    return found


def goals_of(workload: str, setting: str, dataset: str, rows: Rows) -> dict[str, float]:
    """Return the goals by sigma, where there are some: numbers, or factors of the histograms' measured errors."""
    goals = pd.read_csv(HERE / "expected" / "goals.csv", keep_default_na=False, dtype={"sigma": str})
    mine = goals[(goals["workload"] == workload) & (goals["setting"] == setting) & (goals["dataset"] == dataset)]
    if not set(goals["of"]) <= {"", HISTOGRAMS}:
        raise ValueError(f"goals.csv: a goal is a number or a factor of {HISTOGRAMS}, not of {set(goals['of'])}")
    found = {goal.sigma: goal.goal if not goal.of else
             goal.goal * rows.get((dataset, setting, goal.of), {}).get(("absolute", goal.sigma), math.nan)
             for goal in mine.itertuples()}
    return {sigma: goal for sigma, goal in found.items() if not math.isnan(goal)}


def ratio_to_thesis(setting: str, name: str, rows: Rows, large: bool = False) -> float:
    """Return the geometric mean of thesis / ours over the cells of W1's absolute errors; nan if there are none.

    Cells printed as 0.000 and data sets that are not in the thesis are left out; `large` keeps only the sets that have
    5000 rows there.
    """
    printed = expected(SETTINGS[setting][2])
    sizes = pd.read_csv(HERE / "expected" / "table_3_1.csv", index_col="dataset")["n"]
    return geometric([told / row["absolute", sigma] for (dataset, where, found), row in rows.items()
                      if (where, found) == (setting, name) and sizes.get(dataset, 0) >= (LARGE if large else 1)
                      for sigma in SIGMAS["w1"] if (told := printed[dataset, "absolute", float(sigma)]) > 0])


def missed(workload: str, setting: str, name: str, rows: Rows) -> tuple[int, int]:
    """Return in how many cells a row misses its goals, and how many cells have one."""
    over = [row["absolute", sigma] > goal for (dataset, where, found), row in rows.items()
            if (where, found) == (setting, name)
            for sigma, goal in goals_of(workload, setting, dataset, rows).items()]
    return sum(over), len(over)


def mechanism_of(name: str, setting: str) -> str:
    return {"ImprovedTrigI": fingerprints.PURE_THESIS, "ImprovedTrigII": fingerprints.THESIS}.get(
        name, f"{name} (pure)" if setting == "A" else name)


def labelled(name: str, setting: str, older: Container[str], shown_as: str | None = None) -> str:
    """Return a row's name as tables have it, marked if its mechanism is among those of older code."""
    return (shown_as or name) + fingerprints.OLDER * (name in OWN and mechanism_of(name, setting) in older)


def page(workload: str, lines: pd.DataFrame, asked: Asked) -> list[str]:
    rows = rows_of(lines)
    text = []
    widths = [f"σ = {sigma}" if sigma else "error" for sigma in SIGMAS[workload]]
    head = ["data", "method", *widths, "seconds", "points", "proved", "repetitions"]
    for setting, (epsilon, delta, *_) in SETTINGS.items():
        names = list(dict.fromkeys(dataset for dataset, where, _ in rows if where == setting))
        text += ["", f"## Setting {setting}: ε = {epsilon:g}, δ = {delta:g}"]
        for kind, title in KINDS.items():
            table = [["" if i else dataset, *row] for dataset in names
                     for i, row in enumerate(_block(workload, setting, kind, dataset, rows, asked.older))]
            text += ["", f"### {title}", "", *markdown(head, table)]
            if kind == "absolute":
                text += ["", *_verdict(workload, setting, rows)]
    if workload != "w1":
        text.insert(0, "- Relative errors are relative to the answer or 0.01, whichever is larger.")
    return frames.worded("comparison", workload=workload.upper(), what=QUERIES[workload].format(asked.size),
                         tables=text, bins=", ".join(map(str, baselines.BINS)), own=", ".join(OWN),
                         queries="2,000 queries of the same law" if workload == "w1" else "the same queries")


def _block(workload: str, setting: str, kind: str, dataset: str, rows: Rows,
           older: Container[str]) -> list[list[str]]:
    block, printed, nothing = [], expected(SETTINGS[setting][2]), [""] * 4
    if workload == "w1" and kind != "typical" and (dataset, "seconds", None) in printed:
        block.append(["thesis", *(shown(printed[dataset, kind, float(sigma)]) for sigma in SIGMAS["w1"]),
                      f"{printed[dataset, 'seconds', None]:g}", *nothing[1:]])
    goal = goals_of(workload, setting, dataset, rows) if kind == "absolute" else {}
    if goal:
        block.append(["goal", *(shown(goal[sigma]) if sigma in goal else "" for sigma in SIGMAS[workload]), *nothing])
    for (found, where, name), row in rows.items():
        if (found, where) == (dataset, setting):
            errors = {sigma: row[kind, sigma] for sigma in SIGMAS[workload]}
            marked = [shown(error) + " ✗" * (name in OWN and error > goal.get(sigma, math.inf))
                      for sigma, error in errors.items()]
            block.append([labelled(name, setting, older), *marked,
                          f"{row['seconds', '']:.2f}", f"{row['points', '']:.0f}" if row["points", ""] else "",
                          f"{row['proved_epsilon', '']:.2f}", f"{row['repetitions', '']:.0f}"])
    if setting == "B" and kind == "absolute" and SCOREBOARD.exists():
        block += rows_of_rivals(workload, dataset)
    return block


def rows_of_rivals(workload: str, dataset: str) -> list[list[str]]:
    """Return the lines of a data set in the committed scoreboard of smooth queries, as rows of the tables."""
    best, older = boards.best_cells(read_csv(SCOREBOARD)), fingerprints.older("smooth", SCOREBOARD.parent)
    mine = best[(best["dataset"] == dataset.lower()) & (best["epsilon"] == SETTINGS["B"][0])
                & (best["method"] != boards.EQUAL)]
    table = []
    for method, own in mine.groupby("method", sort=False):
        row = own.set_index("measure")
        if "w3" in row.index:
            means = [row.loc[f"{workload}_{sigma}".rstrip("_"), "mean"] for sigma in SIGMAS[workload]]
            table.append([f"rows of {boards.labelled(method, older)}", *map(shown, means),
                          f"{row.loc['seconds', 'mean']:.2f}", "", f"{row.loc['replace_one_epsilon', 'mean']:.2f}",
                          str(row.loc["w3", "seeds"])])
    return table


def _verdict(workload: str, setting: str, rows: Rows) -> list[str]:
    lines = []
    for name in OWN:
        over, cells = missed(workload, setting, name, rows)
        if cells:
            lines.append(f"- {name} misses the goal in {over} of {cells} cells.")
        if workload == "w1" and not math.isnan(ratio := ratio_to_thesis(setting, name, rows)):
            large = ratio_to_thesis(setting, name, rows, large=True)
            lines.append(f"- Geometric mean of thesis / {name}: {ratio:.1f}"
                         + ("" if math.isnan(large) else f"; over sets of at least {LARGE} rows: {large:.1f}") + ".")
    return lines


def readme_rows(results: Path, workloads: Sequence[str], setting: str = "B") -> list[str]:
    """Return the rows of a table of docs/results.md, of W1 or of W2 and W3, from results/: worst absolute errors."""
    found = {workload: rows_of(read_csv(results / f"{workload}.csv")) for workload in workloads}
    older = frozenset().union(*(fingerprints.older(workload, results) for workload in workloads))
    first, printed, table = found[workloads[0]], expected(SETTINGS[setting][2]), []
    for dataset in dict.fromkeys(name for name, where, _ in first if where == setting):
        errors = {name: [found[workload][dataset, setting, name]["absolute", sigma]
                         for workload in workloads for sigma in SIGMAS[workload]]
                  for where, which, name in first if (where, which) == (dataset, setting)}
        own = {name: label for name, label in ((BEST, "ours"), (DEFAULT, "default")) if name in errors}
        table += [["" if i else dataset, labelled(name, setting, older, label), *map(shown, errors[name])]
                  for i, (name, label) in enumerate(own.items())]
        trivial = np.min([errors[name] for name in ("uniform", HISTOGRAMS, "diagonal", "Gaussian")], axis=0)
        table.append(["", "trivial", *map(shown, trivial)])
        if "w1" in workloads and (dataset, "seconds", None) in printed:
            table.append(["", "thesis", *(shown(printed[dataset, "absolute", float(sigma)]) for sigma in SIGMAS["w1"])])
    return [line.replace("|  |", "| |") for line in markdown([], table)[2:]]


def check(lines: pd.DataFrame) -> list[str]:
    """Return the project's promises that lines of W1 break.

    Every mechanism proves at most the budget. `MomentMechanism`: in each setting the geometric mean of thesis / ours is
    at least 10, and 20 where n is at least 5000. (No promise on times: two runs share the cores.)
    """
    rows = rows_of(lines)
    failures = [f"w1: {dataset}, {setting}: {name} proved more than epsilon = {SETTINGS[setting][0]:g}"
                for (dataset, setting, name), row in rows.items()
                if row["proved_epsilon", ""] > SETTINGS[setting][0]]
    for setting, (large, least) in product(SETTINGS, ((False, 10.0), (True, 20.0))):
        ratio = ratio_to_thesis(setting, BEST, rows, large)
        if ratio < least:
            failures.append(f"w1: {setting}: thesis / {BEST} is {ratio:.1f} in the geometric mean"
                            f"{f' over sets of at least {LARGE} rows' if large else ''}, not {least:g}")
    return failures


declared = [Experiment(
    name=workload, what=said, numbers=True, size=(2_000, 10_000), cells=cells, lines=frames.of_workloads, again=again,
    table=partial(summary, workload), page=partial(page, workload),
    check=check if workload == "w1" else lambda lines: [],
    keys=["dataset", "setting", "row", "method", "what", "sigma"])
    for workload, said in (
        ("w1", "all methods on the thesis's queries, against the goals (an hour; w2 and w3 share its runs)"),
        ("w2", "the same on kernels of pairs of columns"), ("w3", "the same on second moments"))]
