"""W1, W2 and W3: this package against trivial baselines, the thesis and the goals; rivals are in `smooth`."""

import csv
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import trigmech as tm
from experiments import baselines
from experiments.cells import BEST, HERE, PAIR_WIDTHS, WIDTHS, Cell, run_cells, write_csv, write_markdown
from experiments.search import expected, partial

# epsilon, delta, the thesis's table, and its mechanism.
SETTINGS: dict[str, tuple[float, float, str, str]] = {"A": (1.0, 0.0, "table_3_2", "ImprovedTrigI"),
                                                      "B": (1.0, 1e-3, "table_3_3", "ImprovedTrigII")}
# As in goals.csv; W3 has no widths.
SIGMAS = {"w1": tuple(f"{width:g}" for width in WIDTHS), "w2": tuple(f"{width:g}" for width in PAIR_WIDTHS),
          "w3": ("",)}
QUERIES = {"w1": "{} Gaussian kernel queries of 10 centres", "w2": "1000 kernels on random pairs of columns",
           "w3": "all second moments E x_i x_j"}
# By default, whatever the queries.
DEFAULT = "TableMechanism"
OWN = (BEST, DEFAULT, *(mechanism for *_, mechanism in SETTINGS.values()))
HISTOGRAMS = "histograms"
KINDS = {"absolute": "Worst absolute error", "relative": "Worst relative error",
         "typical": "Median over the queries of the absolute error"}
LARGE = 5_000  # rows

Errors = dict[str, float]  # by sigma


class Method(NamedTuple):
    """What is run: a row of the tables, of which histograms of several numbers of bins make one."""

    row: str
    mechanism: str
    options: tuple[tuple[str, Any], ...]
    repetitions: int

    @property
    def name(self) -> str:
        """As in the CSV files."""
        return " ".join([self.row, *(f"{value} {key}" for key, value in self.options)])


class Goals(NamedTuple):
    """goals.csv: numbers, or factors of the best histograms' error, by (workload, setting, data set, sigma)."""

    fixed: dict[tuple[str, str, str, str], float]
    factors: dict[tuple[str, str, str, str], float]


def methods(setting: str, quick: bool) -> list[Method]:
    """Return what is run in a setting, with the number of repetitions of each."""
    own = [name for name in (BEST, DEFAULT) if hasattr(tm, name)]
    most = 3 if quick else 10
    found = [Method(name, name, (), most) for name in [*own, SETTINGS[setting][3]]]
    # No noise, so no repetition.
    found += [Method("uniform", "uniform", (), 1), Method("Gaussian", "Gaussian", (), most),
              Method("diagonal", "diagonal", (), most)]
    return found + [Method(HISTOGRAMS, HISTOGRAMS, (("bins", bins),), most) for bins in baselines.BINS]


def goals() -> Goals:
    """Read expected/goals.csv."""
    found = Goals({}, {})
    with (HERE / "expected" / "goals.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if row["of"] not in ("", HISTOGRAMS):
                raise ValueError(f"goals.csv: a goal is a number or a factor of {HISTOGRAMS}, not of {row['of']!r}")
            where = found.factors if row["of"] else found.fixed
            where[row["workload"], row["setting"], row["dataset"], row["sigma"]] = float(row["goal"])
    return found


def comparison(workload: str, names: list[str], jobs: int, quick: bool) -> Path:
    """Run the comparison on one workload and write results/<workload>.csv and .md.

    The three workloads are answered in the same cells, so the second and the third cost nothing.

    Parameters
    ----------
    workload : {"w1", "w2", "w3"}
    names : list of str
        Data sets.
    jobs : int
        Processes.
    quick : bool
        3 repetitions and 2000 queries of W1, instead of 10 (the own mechanism on CSN: 5) and 10^4.
    """
    queries = 2_000 if quick else 10_000
    cells: dict[Cell, tuple[str, str, Method]] = {}
    for name in names:
        for setting, (epsilon, delta, *_) in SETTINGS.items():
            for method in methods(setting, quick):
                # CSN's distributions have 50,000 points: to answer 10^4 queries from them takes a minute.
                most = 5 if method.mechanism in (BEST, DEFAULT) and name == "CSN" else method.repetitions
                for r in range(min(most, method.repetitions)):
                    cell = Cell(name, method.mechanism, method.options, epsilon, delta, r, queries)
                    cells[cell] = (name, setting, method)
    results: dict[tuple[str, str, Method], list[dict[str, Any]]] = {}
    for cell, result in run_cells(cells, jobs, workload):
        results.setdefault(cells[cell], []).append(result)
    rows = [line for key in dict.fromkeys(cells.values()) for line in summary(workload, *key, results[key])]
    suffix = ("_quick" if quick else "") + partial(names)
    write_csv(workload + suffix, rows)
    return write_markdown(workload + suffix, report(workload, rows, queries))


def summary(workload: str, dataset: str, setting: str, method: Method,
            results: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the CSV lines of one method: mean, median and standard error over the repetitions."""
    head = {"dataset": dataset, "setting": setting, "row": method.row, "method": method.name,
            "repetitions": len(results)}
    lines = []
    for kind in KINDS:
        # Sorted, so that sums do not depend on the order in which the cells were done.
        values = np.sort(np.array([result[workload][kind] for result in results]), axis=0)
        errors = values.std(axis=0, ddof=1) / math.sqrt(len(values)) if len(values) > 1 else 0.0 * values[0]
        for i, sigma in enumerate(SIGMAS[workload]):
            lines.append({**head, "what": kind, "sigma": sigma, "mean": f"{values[:, i].mean():.6g}",
                          "median": f"{np.median(values[:, i]):.6g}", "standard_error": f"{errors[i]:.2g}"})
    for what, value in (("seconds", max(result["seconds"] for result in results)),
                        ("points", float(np.mean([result["distinct"] for result in results]))),
                        ("proved_epsilon", max(result["proved_epsilon"] for result in results))):
        lines.append({**head, "what": what, "sigma": "", "mean": f"{value:.6g}", "median": "", "standard_error": ""})
    return lines


class Row(NamedTuple):
    """What the CSV files hold of a row of the tables: of histograms the best number of bins, in hindsight, per cell."""

    errors: dict[str, Errors]  # by kind
    seconds: float
    points: float
    proved: float
    repetitions: int


def rows_of(lines: list[dict[str, Any]]) -> dict[tuple[str, str, str], Row]:
    """Return (data set, setting, row) -> Row from the lines of a CSV file, in their order."""
    found: dict[tuple[str, str, str], Row] = {}
    for line in lines:
        key = line["dataset"], line["setting"], line["row"]
        row = found.get(key, Row({kind: {} for kind in KINDS}, 0.0, 0.0, 0.0, int(line["repetitions"])))
        value = float(line["mean"])
        if line["what"] in KINDS:
            errors = row.errors[line["what"]]
            errors[line["sigma"]] = min(value, errors.get(line["sigma"], math.inf))
        elif line["what"] == "seconds":
            row = row._replace(seconds=max(row.seconds, value))
        elif line["what"] == "points":
            row = row._replace(points=max(row.points, value))
        else:
            row = row._replace(proved=max(row.proved, value))
        found[key] = row
    return found


def goals_of(workload: str, setting: str, dataset: str, rows: dict[tuple[str, str, str], Row]) -> Errors:
    """Return the goals by sigma; those relative to histograms from what was measured here. Empty if there are none."""
    known, found = goals(), {}
    for sigma in SIGMAS[workload]:
        key = (workload, setting, dataset, sigma)
        if key in known.fixed:
            found[sigma] = known.fixed[key]
        elif key in known.factors and (dataset, setting, HISTOGRAMS) in rows:
            found[sigma] = known.factors[key] * rows[dataset, setting, HISTOGRAMS].errors["absolute"][sigma]
    return found


def ratio_to_thesis(setting: str, name: str, rows: dict[tuple[str, str, str], Row], large: bool = False) -> float:
    """Return the geometric mean of thesis / ours over the cells of W1's absolute errors; nan if there are none.

    Cells printed as 0.000 and data sets that are not in the thesis are left out; `large` keeps only the sets that have
    5000 rows there.
    """
    printed = expected(SETTINGS[setting][2])
    with (HERE / "expected" / "table_3_1.csv").open(encoding="utf-8") as file:
        sizes = {row["dataset"]: int(row["n"]) for row in csv.DictReader(file)}
    logs = [math.log(printed[dataset, "absolute", float(sigma)] / error)
            for (dataset, where, row), values in rows.items()
            if (where, row) == (setting, name) and sizes.get(dataset, 0) >= (LARGE if large else 1)
            for sigma, error in values.errors["absolute"].items() if printed[dataset, "absolute", float(sigma)] > 0]
    return math.exp(float(np.mean(logs))) if logs else math.nan


def report(workload: str, lines: list[dict[str, Any]], queries: int) -> list[str]:
    """Return the Markdown of a comparison, from the lines of its CSV file."""
    rows = rows_of(lines)
    text = [f"# {workload.upper()}: {QUERIES[workload].format(queries)}", "",
            "Means over the repetitions of the error that is named; the same queries in every repetition. Answers from "
            "the weighted points, not from a sample of rows; independent columns are answered in closed form. One "
            "release serves W1, W2 and W3 and all σ. Seconds: the slowest repetition, from the table in memory to the "
            "distribution. Points: distinct ones, mean. Proved: the epsilon at that delta.", "",
            "- *histograms*: independent columns; for each cell the best of "
            f"{', '.join(map(str, baselines.BINS))} bins, chosen in hindsight, which flatters them.",
            "- *diagonal*, *Gaussian*: independent normals, and a normal with all covariances, clipped to the cube.",
            "- *uniform*: ignores the data.",
            f"- ✗: above the goal; marked for {', '.join(OWN)}."]
    if workload != "w1":
        text.append("- Relative errors are relative to the answer or 0.01, whichever is larger.")
    for setting, (epsilon, delta, *_) in SETTINGS.items():
        names = list(dict.fromkeys(dataset for dataset, where, _ in rows if where == setting))
        text += ["", f"## Setting {setting}: ε = {epsilon:g}, δ = {delta:g}"]
        for kind, title in KINDS.items():
            text += ["", f"### {title}", "", _header(workload),
                     "| --- | --- |" + " --- |" * (len(SIGMAS[workload]) + 4)]
            for dataset in names:
                text += [f"| {'' if i else dataset} {line}"
                         for i, line in enumerate(_block(workload, setting, kind, dataset, rows))]
            if kind == "absolute":
                text += ["", *_verdict(workload, setting, names, rows)]
    return text


def _block(workload: str, setting: str, kind: str, dataset: str, rows: dict[tuple[str, str, str], Row]) -> list[str]:
    """Return the lines of one data set in one table, without its name."""
    block = []
    if workload == "w1" and kind != "typical":
        printed = expected(SETTINGS[setting][2])
        if (dataset, "seconds", None) in printed:
            block.append(_line("thesis", {sigma: printed[dataset, kind, float(sigma)] for sigma in SIGMAS[workload]},
                               workload, f"{printed[dataset, 'seconds', None]:g}"))
    goal = goals_of(workload, setting, dataset, rows) if kind == "absolute" else {}
    if goal:
        block.append(_line("goal", goal, workload))
    for (found, where, name), row in rows.items():
        if (found, where) == (dataset, setting):
            block.append(_line(name, row.errors[kind], workload, f"{row.seconds:.2f}",
                               f"{row.points:.0f}" if row.points else "", f"{row.proved:.2f}", str(row.repetitions),
                               goal if name in OWN else {}))
    return block


def missed(workload: str, setting: str, name: str, rows: dict[tuple[str, str, str], Row]) -> tuple[int, int]:
    """Return in how many cells a row misses its goals, and how many cells have one."""
    over = [row.errors["absolute"][sigma] > goal for (dataset, where, found), row in rows.items()
            if (where, found) == (setting, name)
            for sigma, goal in goals_of(workload, setting, dataset, rows).items()]
    return sum(over), len(over)


def _verdict(workload: str, setting: str, names: list[str], rows: dict[tuple[str, str, str], Row]) -> list[str]:
    run = [name for name in OWN if any((dataset, setting, name) in rows for dataset in names)]
    lines = []
    for name in run:
        over, cells = missed(workload, setting, name, rows)
        if cells:
            lines.append(f"- {name} misses the goal in {over} of {cells} cells.")
        if workload == "w1" and not math.isnan(ratio := ratio_to_thesis(setting, name, rows)):
            large = ratio_to_thesis(setting, name, rows, large=True)
            lines.append(f"- Geometric mean of thesis / {name}: {ratio:.1f}"
                         + ("" if math.isnan(large) else f"; over sets of at least {LARGE} rows: {large:.1f}") + ".")
    return lines


def _header(workload: str) -> str:
    widths = [f"σ = {sigma}" if sigma else "error" for sigma in SIGMAS[workload]]
    return "| data | method | " + " | ".join([*widths, "seconds", "points", "proved", "repetitions"]) + " |"


def _line(name: str, errors: Errors, workload: str, seconds: str = "", points: str = "", proved: str = "",
          repetitions: str = "", goal: Errors | None = None) -> str:
    goal = goal or {}
    cells = [f"{shown(errors[sigma])}{' ✗' if errors[sigma] > goal.get(sigma, math.inf) else ''}" if sigma in errors
             else "" for sigma in SIGMAS[workload]]
    return f"| {name} | " + " | ".join([*cells, seconds, points, proved, repetitions]) + " |"


def shown(value: float) -> str:
    """Return a number with three digits that say something, without an exponent."""
    return np.format_float_positional(value, precision=3, fractional=False, trim="-") if value else "0"


def readme_rows(results: Path, setting: str = "B") -> tuple[list[str], list[str]]:
    """Return the rows of the README's tables of W1, and of W2 and W3, from results/: worst absolute errors."""
    def row(label: str, errors: Iterable[float]) -> str:
        return f"| {label} | {' | '.join(map(shown, errors))} |"

    found = {}
    for workload in SIGMAS:
        with (results / f"{workload}.csv").open(encoding="utf-8") as file:
            found[workload] = rows_of(list(csv.DictReader(file)))
    printed = expected(SETTINGS[setting][2])
    first: list[str] = []
    others: list[str] = []
    for dataset in dict.fromkeys(name for name, where, _ in found["w1"] if where == setting):
        def errors(method: str, *workloads: str, dataset: str = dataset) -> list[float]:
            return [found[workload][dataset, setting, method].errors["absolute"][sigma]
                    for workload in workloads for sigma in SIGMAS[workload]]

        for rows, workloads in ((first, ("w1",)), (others, ("w2", "w3"))):
            trivial = [errors(name, *workloads) for name in ("uniform", HISTOGRAMS, "diagonal", "Gaussian")]
            rows += [row(f"{dataset} | ours", errors(BEST, *workloads))]
            if (dataset, setting, DEFAULT) in found["w1"]:
                rows += [row("| default", errors(DEFAULT, *workloads))]
            rows += [row("| trivial", np.min(trivial, axis=0))]
        if (dataset, "seconds", None) in printed:
            first.append(row("| thesis", [printed[dataset, "absolute", float(sigma)] for sigma in SIGMAS["w1"]]))
    return first, others


def check(results: Path) -> list[str]:
    """Return what results/w1.csv breaks of the project's promises; an empty list if nothing, or if it is not there.

    Every mechanism proves at most the budget. `MomentMechanism`, if it was run: in each setting the geometric mean of
    thesis / ours is at least 10, and 20 where n is at least 5000. (No promise on times: two runs share the cores.)
    """
    path = results / "w1.csv"
    if not path.exists():
        return []
    with path.open(encoding="utf-8") as file:
        rows = rows_of(list(csv.DictReader(file)))
    failures = []
    for (dataset, setting, name), row in rows.items():
        if row.proved > SETTINGS[setting][0]:
            failures.append(f"w1: {dataset}, {setting}: {name} proved more than epsilon = {SETTINGS[setting][0]:g}")
    for setting in SETTINGS:
        for large, least in ((False, 10.0), (True, 20.0)):
            ratio = ratio_to_thesis(setting, BEST, rows, large)
            if ratio < least:
                failures.append(f"w1: {setting}: thesis / {BEST} is {ratio:.1f} in the geometric mean"
                                f"{f' over sets of at least {LARGE} rows' if large else ''}, not {least:g}")
    return failures
