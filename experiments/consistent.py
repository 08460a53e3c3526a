"""More and more budget: no error of the default release's tables should grow."""

from itertools import pairwise
from pathlib import Path

import pandas as pd

from experiments.asked import Asked, LeftOut
from experiments.cells import run_cells, write_markdown
from experiments.frames import formatted, markdown, write
from experiments.protocols.boards import BOOTSTRAP, DEFAULT, SEEDS, TableCell, available, loss

SETS = {"nist_demographic": "nist", "adult": "adult", "pks": "smooth", "csn": "smooth"}
# CSN's kernels take half an hour: by name only.
WHOLE = ("nist_demographic", "adult", "pks")
EPSILONS = (1.0, 3.0, 10.0, 100.0, 1000.0)
# A mean has grown if it is larger by this part and by so many standard errors of the difference.
GROWN, ERRORS = 1.05, 2.0


def consistent(asked: Asked) -> Path:
    """Write results/consistent.csv and .md, and return the page.

    No sets: those of `WHOLE`. Quick: 2 releases of the smallest set.
    """
    wanted = ["nist_demographic"] if asked.quick else [name for name in SETS if name in (asked.sets or WHOLE)]
    found, seeds = available(wanted), 2 if asked.quick else asked.seeds or SEEDS
    cells = [TableCell(name, SETS[name], method, 0, epsilon, seed, asked.minutes) for name in found
             for seed in range(seeds)
             for method, epsilon in [(BOOTSTRAP, 0.0), *((DEFAULT, epsilon) for epsilon in EPSILONS)]]
    if not cells:
        raise LeftOut("it needs a table of the protocols")
    lines = [{"dataset": cell.dataset, "epsilon": cell.epsilon, "measure": measure, "value": loss(measure, value)}
             for cell, result in run_cells(cells, asked.jobs, "consistent")
             for measure, value in {**result["scores"], "warnings": result.get("warnings", 0)}.items()]
    means = pd.DataFrame(lines).groupby(["dataset", "measure", "epsilon"])["value"].agg(["mean", "sem"]).reset_index()
    stem = asked.stem("consistent", asked.quick or set(found) == set(WHOLE))
    write(stem, formatted(means, mean=".5g", sem=".3g"))
    return write_markdown(stem, page(means, seeds))


def page(means: pd.DataFrame, seeds: int) -> list[str]:
    """Return the Markdown: a table for each data set, with a mark where more budget did harm."""
    text = ["# More and more budget", "",
            f"Means of {seeds} releases by default, with as many rows as the data. All numbers are errors: of "
            "k_marginal what is missing to 1000, of auc, accuracy and f1 what is missing to 1, of the detector what it "
            f"has above 0.5. ✗: larger than at the budget before by more than {GROWN - 1:.0%} and {ERRORS:g} standard "
            "errors. *bootstrap*: real rows drawn with replacement. The last column is the error at the largest budget "
            "over that of the bootstrap.", ""]
    for dataset, group in means.groupby("dataset", sort=False):
        rows = []
        for measure, own in group.groupby("measure", sort=False):
            of = own.set_index("epsilon")
            entries = [f"{of['mean'][EPSILONS[0]]:.4g}"]
            for before, epsilon in pairwise(EPSILONS):
                more = of["mean"][epsilon] - max(of["mean"][before] * GROWN, of["mean"][before] + ERRORS * (
                    of["sem"][epsilon] ** 2 + of["sem"][before] ** 2) ** 0.5)
                entries.append(f"{of['mean'][epsilon]:.4g}" + " ✗" * bool(more > 0.0))
            floor = of["mean"][0.0]
            rows.append([measure, *entries, f"{floor:.4g}",
                         f"{of['mean'][EPSILONS[-1]] / floor:.2f}" if floor > 0.0 else ""])
        text += [f"## {dataset}", "", *markdown(
            ["measure", *(f"ε = {epsilon:g}" for epsilon in EPSILONS), "bootstrap", "ratio"], rows), ""]
    return text
