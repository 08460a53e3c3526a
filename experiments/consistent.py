"""More and more budget: no error of the default release's tables should grow."""

from itertools import pairwise
from typing import Any

import pandas as pd

from experiments.asked import Asked
from experiments.declare import Experiment
from experiments.frames import markdown, means, sections, worded
from experiments.protocols.boards import BOOTSTRAP, DEFAULT, SEEDS, TableCell, loss

SETS = {"nist_demographic": "nist", "adult": "adult", "pks": "smooth", "csn": "smooth"}
EPSILONS = (1.0, 3.0, 10.0, 100.0, 1000.0)
# A mean has grown if it is larger by this part and by so many standard errors of the difference.
GROWN, ERRORS = 1.05, 2.0


def cells(asked: Asked) -> dict[TableCell, dict[str, Any]]:
    return {TableCell(each.source, SETS[each.source], method, 0, epsilon, seed, asked.minutes): {
                "dataset": each.source, "epsilon": epsilon}
            for each in asked.inputs for seed in range(asked.seeds)
            for method, epsilon in [(BOOTSTRAP, 0.0), *((DEFAULT, epsilon) for epsilon in EPSILONS)]}


def losses(head: dict[str, Any], result: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a line for each measure, as an error."""
    return [{**head, "measure": measure, "value": loss(measure, value)}
            for measure, value in {**result["scores"], "warnings": result.get("warnings", 0)}.items()]


def page(lines: pd.DataFrame, asked: Asked) -> list[str]:
    tables = {}
    for dataset, group in lines.groupby("dataset", sort=False):
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
        tables[str(dataset)] = markdown(
            ["measure", *(f"ε = {epsilon:g}" for epsilon in EPSILONS), "bootstrap", "ratio"], rows)
    return worded("consistent", seeds=asked.seeds, grown=GROWN - 1, errors=ERRORS, tables=sections(tables))


# CSN's kernels take half an hour: by name only.
consistent = Experiment(
    name="consistent", what="tables at epsilon from 1 to 1000: more budget should do no harm (an hour)",
    inputs=list(SETS)[:3], quick=list(SETS)[:1], more=list(SETS)[3:], seeds=(2, SEEDS), cells=cells, lines=losses,
    table=lambda lines: means(lines, ["dataset", "measure", "epsilon"], mean="mean", sem="sem").sort_values(
        ["dataset", "measure", "epsilon"], kind="stable"),
    page=page, formats={"mean": ".5g", "sem": ".3g"})
