"""The thesis's tables 3.1, 3.2 and 3.3, ours beside its own."""

import csv
import math
from pathlib import Path
from typing import Any

import numpy as np

from experiments import datasets
from experiments.cells import HERE, WIDTHS, Cell, run_cells, write_csv, write_markdown
from experiments.search import ALGORITHM, FIXED, expected, partial

# The thesis's own options, and the values that `python -m experiments run search` found nearest to its tables.
CHOSEN: dict[str, dict[str, Any]] = {
    "table_3_2": {**FIXED["table_3_2"], "scale": 1.0, "ties": "last", "grid": 100, "max_weight": None},
    "table_3_3": {**FIXED["table_3_3"], "rank": 2, "ties": "last", "grid": 100, "max_weight": 0.01},
}
VARIANTS = ("published", "rigorous", "uniform")
THESIS_SETS = ("CRM", "CSN", "CTG", "PAM", "PKS", "WDBC")


def table_3_1(names: list[str]) -> Path:
    """Write the sizes of the data sets beside the thesis's."""
    with (HERE / "expected" / "table_3_1.csv").open(encoding="utf-8") as file:
        printed = {row["dataset"]: (int(row["n"]), int(row["d"])) for row in csv.DictReader(file)}
    lines = ["# Table 3.1: sizes of the data sets", "", "| data | n, thesis | d, thesis | n, ours | d, ours | note |",
             "| --- | --- | --- | --- | --- | --- |"]
    rows = []
    for name in dict.fromkeys([*THESIS_SETS, *names]):
        theirs: tuple[Any, Any] = printed.get(name, ("", ""))
        ours: tuple[Any, Any] = datasets.load(name).values.shape if name in names else ("", "")
        note = datasets.DATASETS[name].note if name in names else "not available"
        rows.append({"dataset": name, "n_thesis": theirs[0], "d_thesis": theirs[1], "n": ours[0], "d": ours[1]})
        lines.append(f"| {name} | {theirs[0]} | {theirs[1]} | {ours[0]} | {ours[1]} | {note} |")
    write_csv("table_3_1" + partial(names), rows)
    return write_markdown("table_3_1" + partial(names), lines)


def error_table(table: str, names: list[str], jobs: int, quick: bool) -> Path:
    """Run the thesis's protocol for table_3_2 or table_3_3 and write CSV and Markdown.

    Three variants: "published", the thesis's options and noise scales; "rigorous", the package's defaults, whose scales
    satisfy the budget; "uniform", the uniform distribution on the cube, which ignores the data.
    """
    mechanism, delta = ALGORITHM[table]
    repetitions, queries = (3, 1_000) if quick else (30, 10_000)
    options = {"published": CHOSEN[table], "rigorous": {}, "uniform": {}}
    cells = {Cell(name, "uniform" if variant == "uniform" else mechanism, tuple(sorted(options[variant].items())),
                  delta=delta, repetition=r, n_queries=queries): (name, variant)
             for name in names for variant in VARIANTS for r in range(1 if variant == "uniform" else repetitions)}
    results: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for cell, result in run_cells(cells, jobs, table):
        results.setdefault(cells[cell], []).append(result)
    printed = expected(table)
    rows = [_summary(name, variant, results[name, variant]) for name in names for variant in VARIANTS]
    suffix = ("_quick" if quick else "") + partial(names)
    write_csv(table + suffix, [flat for row in rows for flat in _flat(row)])
    return write_markdown(table + suffix, _markdown(table, names, rows, printed, repetitions, queries))


def _summary(name: str, variant: str, results: list[dict[str, Any]]) -> dict[str, Any]:
    # Results arrive in the order in which they were done; sorting makes the sums the same in every run.
    stacked = {key: np.sort(np.array([result["w1"][key] for result in results]), axis=0)
               for key in ("absolute", "relative")}
    row: dict[str, Any] = {"dataset": name, "variant": variant}
    for key, values in stacked.items():
        row[key] = values.mean(axis=0)
        row[f"{key}_error"] = values.std(axis=0, ddof=1) / math.sqrt(len(values)) if len(values) > 1 else 0 * values[0]
    row["seconds"] = max(result["seconds"] for result in results)
    row["proved"] = max((result.get("proved_epsilon", 0.0) for result in results), default=0.0)
    row["atoms"] = float(np.mean([result["atoms"] for result in results]))
    return row


def _flat(row: dict[str, Any]) -> list[dict[str, Any]]:
    head = {"dataset": row["dataset"], "variant": row["variant"]}
    lines = [{**head, "error": key, "sigma": f"{width:g}", "value": f"{row[key][i]:.6g}",
              "standard_error": f"{row[key + '_error'][i]:.2g}"}
             for key in ("absolute", "relative") for i, width in enumerate(WIDTHS)]
    extra = {"seconds": f"{row['seconds']:.3f}", "proved_epsilon": f"{row['proved']:.6g}",
             "atoms": f"{row['atoms']:.4g}"}
    return lines + [{**head, "error": key, "sigma": "", "value": value, "standard_error": ""}
                    for key, value in extra.items()]


def _markdown(table: str, names: list[str], rows: list[dict[str, Any]],
              printed: dict[tuple[str, str, float | None], float], repetitions: int, queries: int) -> list[str]:
    mechanism, delta = ALGORITHM[table]
    of = {(row["dataset"], row["variant"]): row for row in rows}
    number = table[6:].replace("_", ".")
    known = [name for name in names if (name, "seconds", None) in printed]
    lines = [f"# Table {number}: worst errors of {mechanism} at epsilon = 1, delta = {delta:g}", "",
             f"Mean over {repetitions} repetitions of the worst error over {queries} queries (the same queries in "
             "every repetition; the thesis draws them anew). Answers from the weighted points. Seconds: the slowest "
             "repetition, from the table in memory to the distribution.", "",
             "- *thesis*: the printed numbers.",
             "- *published*: its algorithm at its noise scales, with " + ", ".join(
                 f"{key} = {value}" for key, value in CHOSEN[table].items() if key != "calibration")
             + ". Not all are printed in the thesis; `python -m experiments run search` chose the rest.",
             "- *rigorous*: the package's defaults, whose scales satisfy the budget.",
             "- *uniform*: the uniform distribution on the cube, which ignores the data.",
             "- *proved*: the epsilon at that delta that is proved for the run, whatever the thesis claims.", ""]
    for key in ("absolute", "relative"):
        lines += [f"## {key.capitalize()} error", "",
                  "| data | variant | " + " | ".join(f"σ = {width:g}" for width in WIDTHS) + " | seconds | proved |",
                  "| --- | --- |" + " --- |" * (len(WIDTHS) + 2)]
        for name in names:
            told = " | ".join(f"{printed[name, key, width]:.3f}" if name in known else "" for width in WIDTHS)
            lines.append(f"| {name} | thesis | {told} | "
                         + (f"{printed[name, 'seconds', None]:g}" if name in known else "") + " | |")
            for variant in VARIANTS:
                row = of[name, variant]
                proved = f"{row['proved']:.2f}" if variant != "uniform" else "0"
                lines.append(f"| | {variant} | " + " | ".join(f"{value:.4f}" for value in row[key])
                             + f" | {'' if variant == 'uniform' else format(row['seconds'], '.2f')} | {proved} |")
        lines.append("")
    return [*lines, *(_nearness(known, of, printed) if known else ())]


def _nearness(known: list[str], of: dict[tuple[str, str], dict[str, Any]],
              printed: dict[tuple[str, str, float | None], float]) -> list[str]:
    lines = ["## How near the thesis's numbers", "",
              "Geometric mean of ours / thesis over the five widths of the absolute error, and of the larger of the "
              "ratio and its inverse (1 is a perfect match). Cells printed as 0.000 are left out.", "",
              "| data | ratio, published | factor, published | ratio, rigorous |", "| --- | --- | --- | --- |"]
    everything: list[float] = []
    rigorous: list[float] = []
    for name in known:
        logs = {variant: [math.log(of[name, variant]["absolute"][i] / printed[name, "absolute", width])
                          for i, width in enumerate(WIDTHS) if printed[name, "absolute", width] > 0]
                for variant in ("published", "rigorous")}
        everything += logs["published"]
        rigorous += logs["rigorous"]
        lines.append(_near(name, logs["published"], logs["rigorous"]))
    return [*lines, _near("all", everything, rigorous)]


def _near(name: str, published: list[float], rigorous: list[float]) -> str:
    return (f"| {name} | {math.exp(np.mean(published)):.2f} | {math.exp(np.mean(np.abs(published))):.2f} | "
            f"{math.exp(np.mean(rigorous)):.3f} |")


def check(results: Path) -> list[str]:
    """Return what the committed tables 3.2 and 3.3 break of the project's promises; an empty list if nothing.

    Published: within a factor of 3 of the thesis in the geometric mean over cells. Rigorous: the proved epsilon is at
    most 1, the errors are smaller than the thesis's in the geometric mean over all cells, and a release is faster.
    """
    failures = []
    for table in ALGORITHM:
        path = results / f"{table}.csv"
        if not path.exists():
            failures.append(f"{table}: {path.name} is missing; run it")
            continue
        with path.open(encoding="utf-8") as file:
            ours = {(row["dataset"], row["variant"], row["error"], row["sigma"]): float(row["value"])
                    for row in csv.DictReader(file)}
        printed = expected(table)
        names = {name for name, *_ in ours}
        known = {name for name in names if (name, "seconds", None) in printed}
        logs = {variant: [math.log(ours[name, variant, "absolute", f"{width:g}"] / printed[name, "absolute", width])
                          for name in sorted(known) for width in WIDTHS if printed[name, "absolute", width] > 0]
                for variant in ("published", "rigorous")}
        factor = math.exp(np.mean(np.abs(logs["published"]))) if known else 0.0
        if factor > 3:
            failures.append(f"{table}: published errors are off by a factor of {factor:.2f} in the geometric mean")
        if known and np.mean(logs["rigorous"]) > 0:
            times = math.exp(np.mean(logs["rigorous"]))
            failures.append(f"{table}: rigorous errors are {times:.2f} times the thesis's")
        for name in sorted(names):
            if ours[name, "rigorous", "proved_epsilon", ""] > 1.0:
                failures.append(f"{table}: {name}: a rigorous run proved more than epsilon = 1")
            for variant in ("published", "rigorous") if name in known else ():
                if ours[name, variant, "seconds", ""] > printed[name, "seconds", None]:
                    failures.append(f"{table}: {name}: a {variant} release was slower than the thesis's")
    return failures
