"""The thesis's tables 3.1, 3.2 and 3.3, ours beside its own."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from experiments import datasets, fingerprints, frames
from experiments.asked import Asked
from experiments.cells import HERE, Call, write_csv, write_markdown
from experiments.declare import Experiment
from experiments.frames import SIGMAS, geometric, markdown, worded
from experiments.runs import release
from experiments.search import ALGORITHM, FIXED, THESIS_SETS, expected

# The thesis's own options, and the values that `python -m experiments run search` found nearest to its tables.
CHOSEN: dict[str, dict[str, Any]] = {
    "table_3_2": {**FIXED["table_3_2"], "scale": 1.0, "ties": "last", "grid": 100, "max_weight": None},
    "table_3_3": {**FIXED["table_3_3"], "rank": 2, "ties": "last", "grid": 100, "max_weight": 0.01},
}
VARIANTS = ("published", "rigorous", "uniform")
KINDS = ("absolute", "relative")
FACTS = {"seconds": ("max", ".3f"), "proved_epsilon": ("max", ".6g"), "atoms": ("mean", ".4g")}

Values = dict[tuple[str, str, str, str], float]  # by data set, variant, error and sigma


def table_3_1(asked: Asked) -> Path:
    printed = pd.read_csv(HERE / "expected" / "table_3_1.csv", index_col="dataset")
    rows = []
    for name in dict.fromkeys([*THESIS_SETS, *asked.names]):
        theirs = tuple(printed.loc[name]) if name in printed.index else ("", "")
        ours: tuple[Any, Any] = datasets.load(name).shape if name in asked.names else ("", "")
        rows.append([name, *theirs, *ours, datasets.DATASETS[name].note if name in asked.names else "not available"])
    stem = replace(asked, quick=False).stem("table_3_1", asked.of_thesis)
    write_csv(stem, pd.DataFrame([row[:5] for row in rows], columns=["dataset", "n_thesis", "d_thesis", "n", "d"],
                                 dtype=object))
    return write_markdown(stem, ["# Table 3.1: sizes of the data sets", "", *markdown(
        ["data", "n, thesis", "d, thesis", "n, ours", "d, ours", "note"], rows)])


def cells(table: str, asked: Asked) -> dict[Call, dict[str, Any]]:
    mechanism, delta = ALGORITHM[table]
    options = {"published": CHOSEN[table], "rigorous": {}, "uniform": {}}
    return {release(name, "uniform" if variant == "uniform" else mechanism, options[variant], delta=delta,
                    repetition=r, n_queries=asked.size): {"dataset": name, "variant": variant}
            for name in asked.names for variant in VARIANTS for r in range(1 if variant == "uniform" else asked.seeds)}


def table_of(lines: pd.DataFrame) -> pd.DataFrame:
    keys = ["dataset", "variant", "what", "sigma"]
    found = lines[(lines["workload"] == "w1") & lines["what"].isin(KINDS)].groupby(keys, sort=False)["value"].agg(
        value="mean", standard_error="sem")
    parts = [frames.formatted(found.fillna(0.0).reset_index(), value=".6g", standard_error=".2g")]
    parts += [frames.formatted(lines[lines["what"] == fact].groupby(keys, sort=False)["value"].agg(how).reset_index(),
                        value=form) for fact, (how, form) in FACTS.items()]
    whole = pd.concat(parts).rename(columns={"what": "error"})
    # A variant's numbers stand together.
    return frames.arranged(whole, ["dataset", "variant"], whole)


def values_of(lines: pd.DataFrame) -> Values:
    return lines.set_index(["dataset", "variant", "error", "sigma"])["value"].astype(float).to_dict()


def ratios(table: str, values: Values, name: str, variant: str) -> list[float]:
    """Return ours / thesis of the absolute errors of one data set, without cells that are printed as 0.000."""
    printed = expected(table)
    return [values[name, variant, "absolute", sigma] / told for sigma in SIGMAS["w1"]
            if (told := printed.get((name, "absolute", float(sigma)), 0.0)) > 0]


def nearness(table: str, values: Values, names: Sequence[str]) -> tuple[float, float, float]:
    """Return geometric means over cells: of published ours / thesis and by which factor it is off, of rigorous ours /
    thesis."""
    published, rigorous = (np.concatenate([ratios(table, values, name, variant) for name in names])
                           for variant in ("published", "rigorous"))
    return geometric(published), geometric(np.maximum(published, 1.0 / published)), geometric(rigorous)


def page(table: str, lines: pd.DataFrame, asked: Asked) -> list[str]:
    """Return the Markdown; variants are marked if older code made any of them."""
    (mechanism, delta), printed, values = ALGORITHM[table], expected(table), values_of(lines)
    names = list(dict.fromkeys(lines["dataset"]))
    known, text = [name for name in names if (name, "seconds", None) in printed], list[str]()
    for kind in KINDS:
        rows = []
        for name in names:
            told = [f"{printed[name, kind, float(sigma)]:.3f}" if name in known else "" for sigma in SIGMAS["w1"]]
            seconds = f"{printed[name, 'seconds', None]:g}" if name in known else ""
            rows.append(f"| {name} | thesis | {' | '.join(told)} | {seconds} | |")
            for variant in VARIANTS:
                costs = ["", "0"] if variant == "uniform" else [
                    f"{values[name, variant, what, '']:.2f}" for what in ("seconds", "proved_epsilon")]
                errors = [f"{values[name, variant, kind, sigma]:.4f}" for sigma in SIGMAS["w1"]]
                mark = fingerprints.OLDER * bool(asked.older and variant != "uniform")
                rows.append(f"| | {variant}{mark} | {' | '.join([*errors, *costs])} |")
        text += frames.sections({f"{kind.capitalize()} error": markdown(
            ["data", "variant", *(f"σ = {sigma}" for sigma in SIGMAS["w1"]), "seconds", "proved"], []) + rows})
    if known:
        near = {name: nearness(table, values, those)
                for name, those in [*((name, [name]) for name in known), ("all", known)]}
        text += worded("table_nearness", table=markdown(
            ["data", "ratio, published", "factor, published", "ratio, rigorous"], [
                [name, f"{ratio:.2f}", f"{factor:.2f}", f"{rigorous:.3f}"]
                for name, (ratio, factor, rigorous) in near.items()]))
    return worded("table", number=table[6:].replace("_", "."), mechanism=mechanism, delta=delta, seeds=asked.seeds,
                  size=asked.size, tables=text, options=", ".join(
                      f"{key} = {value}" for key, value in CHOSEN[table].items() if key != "calibration"))


def check(table: str, lines: pd.DataFrame) -> list[str]:
    """Return the project's promises that the lines of table 3.2 or 3.3 break.

    Published: within a factor of 3 of the thesis in the geometric mean over cells. Rigorous: the proved epsilon is at
    most 1, the errors are smaller than the thesis's in the geometric mean over all cells, and a release is faster.
    """
    failures, values, printed = list[str](), values_of(lines), expected(table)
    names = sorted(set(lines["dataset"]))
    known = [name for name in names if (name, "seconds", None) in printed]
    if known:
        _, factor, rigorous = nearness(table, values, known)
        if factor > 3:
            failures.append(f"{table}: published errors are off by a factor of {factor:.2f} in the geometric mean")
        if rigorous > 1.0:
            failures.append(f"{table}: rigorous errors are {rigorous:.2f} times the thesis's")
    failures += [f"{table}: {name}: a rigorous run proved more than epsilon = 1" for name in names
                 if values[name, "rigorous", "proved_epsilon", ""] > 1.0]
    return failures + [f"{table}: {name}: a {variant} release was slower than the thesis's" for name in known
                       for variant in ("published", "rigorous")
                       if values[name, variant, "seconds", ""] > printed[name, "seconds", None]]


declared = [Experiment(name="table_3_1", what="sizes of the data sets (seconds)", numbers=True, run=table_3_1), *(
    Experiment(name=table, what=f"worst errors of {words} (minutes)", numbers=True, seeds=(3, 30),
               size=(1_000, 10_000), cells=partial(cells, table), lines=frames.of_workloads, table=table_of,
               page=partial(page, table), check=partial(check, table), promised=True)
    for table, words in (("table_3_2", "ImprovedTrigI at epsilon = 1"),
                         ("table_3_3", "ImprovedTrigII at epsilon = 1, delta = 1e-3")))]
