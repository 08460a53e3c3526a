"""Scoreboards of public protocols: this package, its rivals, and tables that are not private beside them.

*independent*: the real columns, each in an order of its own; *bootstrap*: real rows drawn with replacement; *real*: the
real rows themselves, where others are kept for tests. These three are not private. *default* and *smooth* are this
package; *default-equal* is the default at the budget at which its Gaussian noise hides a replaced row as well as a
rival's hides one that is added or removed, if the rival spends all of its budget on tables. All others are rivals.
"""

import hashlib
import itertools
import json
import math
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.optimize import brentq

import trigmech as tm
from experiments import cells as machinery
from experiments import fingerprints, rivals, small
from experiments.asked import Asked, LeftOut
from experiments.cells import CACHE, code_of, name_of, save
from experiments.declare import Experiment, at_hand
from experiments.frames import markdown, read_csv, worded
from experiments.protocols import scores
from experiments.protocols.data import every_set, find, loaded, resampled, shuffled
from experiments.rivals.adapters import interface

DEFAULT, EQUAL, SMOOTH = "default", "default-equal", "smooth"
AS_PRIVATE = "-equal"  # the end of the name of a rival at equal privacy
OWN = (DEFAULT, EQUAL, SMOOTH)
INDEPENDENT, BOOTSTRAP, REAL = "independent", "bootstrap", "real"
NOT_PRIVATE = (INDEPENDENT, BOOTSTRAP, REAL)
FINGERPRINTS = {DEFAULT: fingerprints.DEFAULT, EQUAL: fingerprints.EQUAL, SMOOTH: fingerprints.SMOOTH}
SEEDS = 5
# Measures of which more is better, by their beginnings, and the best table's value.
GAINS = {"k_marginal": 1000.0, "auc": 1.0, "f1_": 1.0, "r2_": 1.0, "accuracy": 1.0}
FREQUENCY, SECONDS = 0.01, 30.0  # promises about Adult
CELLS = (16, 64)  # that numbers are cut into for rivals that want categories
QUICK = ("MST-dpmm", "PrivBayes-dpmm")
KEYS = ["dataset", "method", "cells", "epsilon", "delta"]
# The facts of a run that are kept beside its scores.
FACTS = ("seconds", "cpu_seconds", "peak_mib", "replace_one_epsilon")


@dataclass(frozen=True)
class Protocol:
    """A public way to compare synthesizers, as expected/protocols.toml says."""

    name: str
    title: str
    delta: float
    degree: int
    # Its arguments: the schema, the real, the synthetic and the test rows, and the column that all tables have.
    score: Callable[..., dict[str, float]]
    shown: Sequence[str]
    floor: str
    quick: Sequence[str]


PROTOCOLS = {name: Protocol(name, score=getattr(small if name == "few" else scores, name), **each)
             for name, each in machinery.described("protocols").items()}


@dataclass(frozen=True)
class TableCell:
    """One synthetic table of a data set, and its scores."""

    dataset: str  # a name, or a path
    protocol: str
    method: str
    cells: int  # of numbers, for methods of categories; 0 for the others
    epsilon: float  # as the method understands it; 0 for methods that are not private
    seed: int
    minutes: float  # time limit

    @property
    def budget(self) -> tm.Budget:
        delta, epsilon = PROTOCOLS[self.protocol].delta, self.epsilon
        if self.method == EQUAL:
            epsilon = equal_epsilon(epsilon, delta)
        elif self.method.endswith(AS_PRIVATE):
            epsilon = rival_epsilon(self.method, epsilon, delta)
        return tm.Budget(epsilon, delta)

    def key(self) -> str:
        """Return the name of the file with its scores: another one for another table, or other code of the scores."""
        return name_of("board", [asdict(self), self.made() + code_of(PROTOCOLS[self.protocol].score.__module__)])

    def made(self) -> str:
        """Return the name of the table itself: another one for other rows, or other code of the method."""
        table, schema = loaded(self.dataset)
        content = hashlib.sha256(pd.util.hash_pandas_object(table, index=False).to_numpy().tobytes())
        content.update(json.dumps(schema.to_dict()).encode())
        if self.method not in NOT_PRIVATE:
            content.update(rival_of(self.method)[0].source)
        own = code_of("trigmech") if self.method in OWN else ""
        # A table that was made is the same for another time limit.
        return name_of("made", [asdict(replace(self, minutes=0.0)), content.hexdigest() + own])

    def compute(self) -> dict[str, Any]:
        """Return "scores", and facts such as seconds; or "failed", why there is no table."""
        described, protocol = find(self.dataset), PROTOCOLS[self.protocol]
        table, schema = loaded(self.dataset)
        rng = np.random.default_rng(self.seed)
        facts: dict[str, Any] = {}
        if self.method == INDEPENDENT:
            made = shuffled(table, rng)
        elif self.method == BOOTSTRAP:
            made = resampled(table, rng)
        elif self.method == REAL:
            made = table
        else:
            try:
                made, facts = self._made(table, schema, described.within)
            except rivals.RivalError as error:
                return {"failed": str(error)}
        test = described.test() if described.test else None
        return {**facts, "scores": protocol.score(schema, table, made, test, described.within)}

    def files(self) -> tuple[Path, Path]:
        """Return where a rival's table is told of once it is made, and where is told that it cannot be."""
        place = CACHE / self.made()
        return place.with_suffix(".facts.json"), place.with_suffix(f".failed-{self.minutes:g}.json")

    def _made(self, table: pd.DataFrame, schema: tm.Schema, within: str) -> tuple[pd.DataFrame, dict[str, Any]]:
        """Return a rival's table, kept with its facts, as its scores may be computed anew."""
        told, failed = self.files()
        kept = told.with_name(told.name.replace(".facts.json", ".csv.xz"))
        if not told.exists():
            if failed.exists():
                raise rivals.RivalError(json.loads(failed.read_text(encoding="utf-8")))
            rival, name = rival_of(self.method)
            degree = PROTOCOLS[self.protocol].degree
            workload = [(within, *names) if within else names for names in itertools.combinations(
                [each for each in schema.names if each != within], min(degree, schema.d))]
            try:
                made, facts = rivals.run(rival, name, table, schema, self.budget, seed=self.seed, cells=self.cells,
                                         workload=workload, within=within, seconds=60.0 * self.minutes)
            except rivals.RivalError as error:
                save(failed, json.dumps(str(error)))
                raise
            kept.parent.mkdir(parents=True, exist_ok=True)
            made.to_csv(kept, index=False)
            save(told, json.dumps(facts))
        facts = json.loads(told.read_text(encoding="utf-8"))
        return rivals.read_made(kept, schema), {**facts,
                                                "replace_one_epsilon": replace_one_epsilon(facts, self.budget)}

    @property
    def finished(self) -> bool:
        """Whether its scores, or the table, or why there is none, are there."""
        return any(path.exists() for path in (CACHE / f"{self.key()}.json", *self.files()))


def rival_of(method: str) -> tuple[rivals.Rival, str]:
    """Return the tool of a method such as "AIM-dpmm", and the method's name there; KeyError if there is none."""
    if method in OWN:
        return rivals.rivals()[rivals.OWN], SMOOTH if method == SMOOTH else DEFAULT
    name, _, tool = method.removesuffix(AS_PRIVATE).rpartition("-")
    found = rivals.rivals().get(tool)
    if found is None or name not in found.methods:
        raise KeyError(method)
    return found, name


def rival_methods() -> list[str]:
    """Return all methods of all rivals, at the protocol's budget and, where their accounts are known, as private."""
    return [f"{method}-{rival.name}{end}" for rival in rivals.rivals().values() if rival.name != rivals.OWN
            for method in rival.methods for end in ("", AS_PRIVATE)
            if not end or (rival.name == "dpmm" and method.partition("-")[0] in interface.SPENT)]


def equal_epsilon(epsilon: float, delta: float) -> float:
    """Return the epsilon at which Gaussian noise for replaced rows is as large as a rival's for added and removed ones.

    The rival has the largest rho of zCDP for (epsilon, delta) and spends it on tables of counts, so mu^2 = 2 rho; a
    replaced row moves a table by the root of 2 instead of 1, so then mu^2 = 4 rho.
    """
    from dp_accounting import get_epsilon_gaussian

    return float(get_epsilon_gaussian(1.0 / math.sqrt(4.0 * interface.rho_of(epsilon, delta)), delta))


def rival_epsilon(method: str, epsilon: float, delta: float) -> float:
    """Return the epsilon that a rival is given so that its own accounts, `interface.SPENT`, prove `epsilon` for a
    replaced row; KeyError if these are not known before it runs."""
    spent = interface.SPENT[rival_of(method)[1].partition("-")[0]]

    def excess(given: float) -> float:
        facts = {"neighbours": "add or remove"} | interface.rhos(**spent(given, delta))
        return replace_one_epsilon(facts, tm.Budget(given, delta)) - epsilon

    return float(brentq(excess, epsilon / 8.0, epsilon, xtol=1e-6 * epsilon))


def replace_one_epsilon(facts: dict[str, Any], budget: tm.Budget) -> float:
    """Return the epsilon, at the budget's delta, that a method's own accounts prove for a replaced row."""
    if facts["neighbours"] == "replace":
        return budget.epsilon
    rho = facts["replace_one_rho"]
    return 2.0 * facts.get("pure_epsilon", 0.0) + (interface.epsilon_of(rho, budget.delta) if rho else 0.0)


def cells(name: str, asked: Asked) -> dict[TableCell, dict[str, Any]]:
    """Return the tables of a protocol, each with the entries that identify its lines.

    Without data sets: all of the protocol. Without methods: this package, methods that are not private and all rivals
    that are installed; rivals that are named are installed. Quick: one seed of small data sets, fewer cells, two
    rivals. `finished`: the tables that earlier runs have finished. `ours`: the tables of this package, and of methods
    that are not private, in the committed results. Raises LeftOut if there is no table, and DatasetMissing if only ours
    are run again and one of their sets is not there.
    """
    protocol, quick = PROTOCOLS[name], asked.quick
    if asked.ours:
        return described(own_cells(protocol, read_csv(machinery.RESULTS / f"{name}.csv"), asked.minutes))
    found = available(asked.sets or (protocol.quick if quick else
                                     [each.name for each in every_set().values() if name in each.protocols]), protocol)
    chosen = asked.methods or [*OWN, INDEPENDENT, protocol.floor, *(QUICK if quick else [
        method for method in rival_methods() if rival_of(method)[0].installed])]
    for method in asked.methods or (QUICK if quick else ()):
        if method not in NOT_PRIVATE and not rival_of(method)[0].installed:
            print(f"installing {rival_of(method)[0].name}")
            rivals.install(rival_of(method)[0])
    sizes = asked.cells[:1] if quick else asked.cells
    # Each method makes one table first, so that an interrupted run has something of all.
    todo = described(TableCell(each, name, method, size, 0.0 if method in NOT_PRIVATE else epsilon, seed, asked.minutes)
                     for seed in range(asked.seeds) for k in range(len(sizes)) for each in found for method in chosen
                     for size in sizes_for(method, loaded(each)[1], sizes)[k:k + 1] for epsilon in asked.epsilons)
    todo = {cell: head for cell, head in todo.items() if not asked.finished or cell.finished}
    if not todo:
        raise LeftOut("there is nothing of its data sets")
    return todo


def described(todo: Iterable[TableCell]) -> dict[TableCell, dict[str, Any]]:
    return {cell: {"dataset": Path(cell.dataset).stem, "method": cell.method, "cells": cell.cells,
                   "epsilon": cell.epsilon, "delta": PROTOCOLS[cell.protocol].delta if cell.epsilon else 0.0}
            for cell in todo}


def of_tables(head: dict[str, Any], result: dict[str, Any]) -> list[dict[str, Any]]:
    told = {name: result.get(name, "") for name in ("neighbours", "version", "failed")}
    values = {"failures": float("failed" in result), **result.get("scores", {}),
              **{name: result[name] for name in FACTS if name in result}}
    return [{**head, **told, "measure": measure, "value": value} for measure, value in values.items()]


def own_cells(protocol: Protocol, lines: pd.DataFrame, minutes: float) -> list[TableCell]:
    """Return the tables in results by this package and by methods that are not private, as many seeds of each."""
    counted = lines[(lines["measure"] == "failures") & lines["method"].isin((*OWN, *NOT_PRIVATE))]
    return [TableCell(line.dataset, protocol.name, line.method, 0, float(line.epsilon), seed, minutes)
            for line in counted.itertuples() for seed in range(int(line.seeds))]


def again(asked: Asked, key: Any) -> bool:
    """Return whether the method of a key is of this package or is not private."""
    return key[1] in (*OWN, *NOT_PRIVATE)


def available(names: Iterable[str], protocol: Protocol | None = None) -> list[str]:
    """Return the data sets, of a protocol, that can be had; print why each of the others cannot."""
    known = []
    for name in names:
        if protocol is None or protocol.name in find(name).protocols:
            known.append(name)
        else:
            print(f"left out: {name} is no data set of {protocol.name}")
    return list(at_hand(known, loaded))


def sizes_for(method: str, schema: tm.Schema, sizes: Sequence[int]) -> Sequence[int]:
    """Return the numbers of cells that a method is run with: one if it takes numbers, or if they make no difference."""
    if method in (*OWN, *NOT_PRIVATE):
        return (0,)
    alike = all(column.categories is not None or len(interface.edges(each, sizes[-1])) == len(
        interface.edges(each, sizes[0])) for column, each in zip(schema.columns, rivals.plain(schema), strict=True))
    return sizes[:1] if alike else sizes


def summary(lines: pd.DataFrame) -> pd.DataFrame:
    """Return a line for each data set, method, budget and measure: mean and spread over the seeds that did not fail."""
    grouped = lines.groupby([*KEYS, "measure"], sort=False)
    found = grouped["value"].agg(mean="mean", deviation="std", least="min", most="max", seeds="count")
    # Another seed has the texts that a failed seed lacks.
    told = grouped[["neighbours", "version", "failed"]].agg(lambda texts: max(texts, key=len))
    return found.join(told).reset_index()


def loss(measure: str, value: float) -> float:
    """Return a number that is smaller for better tables: an error as it is, a gain by its distance to the best."""
    if measure == "detector":
        return max(0.0, value - 0.5)
    best = next((best for start, best in GAINS.items() if measure.startswith(start)), None)
    return value if best is None else best - value


def best_cells(lines: pd.DataFrame) -> pd.DataFrame:
    """Return the lines without those of a number of cells that did worse, in each measure by itself."""
    losses = [loss(*pair) for pair in zip(lines["measure"], lines["mean"], strict=True)]
    order = lines.assign(loss=losses).sort_values("loss", kind="stable", na_position="last")
    kept = order.drop_duplicates(["dataset", "method", "epsilon", "measure"]).index
    return lines.loc[sorted(kept)]


def losses(lines: pd.DataFrame, dataset: str, epsilon: float, measure: str) -> dict[str, float]:
    """Return the losses of all methods at a budget, with those that are not private."""
    there = lines[(lines["dataset"] == dataset) & lines["epsilon"].isin([epsilon, 0.0]) & (lines["measure"] == measure)]
    return {name: loss(measure, mean) for name, mean in zip(there["method"], there["mean"], strict=True)}


def lost(lines: pd.DataFrame, dataset: str, epsilon: float, measure: str, method: str = DEFAULT) -> list[str]:
    """Return the rivals whose mean is better than that of a method of ours."""
    means = losses(lines, dataset, epsilon, measure)
    return [name for name, value in means.items()
            if name not in (*OWN, *NOT_PRIVATE) and method in means and value < means[method]]


def labelled(method: str, older: Container[str]) -> str:
    return method + fingerprints.OLDER * (FINGERPRINTS.get(method) in older)


def page(protocol: Protocol, lines: pd.DataFrame, asked: Asked) -> list[str]:
    """Return the Markdown: for each data set and budget a table, methods by measures."""
    best = best_cells(lines)
    text = []
    for (dataset, epsilon), group in best[best["epsilon"] > 0].groupby(["dataset", "epsilon"], sort=False):
        beside = best[(best["dataset"] == dataset) & (best["epsilon"] == 0)]
        every = lines[(lines["dataset"] == dataset) & (lines["epsilon"] == epsilon)]
        measures = [measure for measure in protocol.shown if measure in set(group["measure"])]
        rows = []
        for method, own in pd.concat([group, beside]).groupby("method", sort=False):
            row = own.set_index("measure")
            slowest = every[every["method"] == method].groupby("measure")["mean"].max()
            worse = {measure for measure in measures if method in OWN and lost(best, dataset, epsilon, measure, method)}
            entries = [f"{entry(row.loc[measure])}{' ✗' if measure in worse else ''}" if measure in row.index else ""
                       for measure in measures]
            entries.append(f"{slowest['replace_one_epsilon']:.2f}" if "replace_one_epsilon" in slowest else "")
            entries.append(max(row["neighbours"], key=len))
            entries += [f"{slowest[name]:.0f}" if name in slowest else "" for name in ("cpu_seconds", "peak_mib")]
            made = row["seeds"].drop("failures", errors="ignore")
            rows.append([labelled(method, asked.older), *entries, made.max() if len(made) else 0])
        text += ["", f"## {dataset}, ε = {epsilon:g}", "", *markdown(
            ["method", *measures, "replaced", "neighbours", "CPU", "MiB", "seeds"], rows)]
        failed = every[(every["measure"] == "failures") & (every["mean"] > 0)]
        text += [""] * bool(len(failed))
        text += [f"- {line.method}{f', {line.cells} cells' if line.cells else ''}: no table in "
                 f"{line.mean * line.seeds:.0f} of {line.seeds} runs: {line.failed}" for line in failed.itertuples()]
    if versions := sorted(set(lines["version"]) - {""}):
        text += ["", f"Versions: {', '.join(versions)}."]
    equal = f" A rival with *{AS_PRIVATE}* has the budget at which this is the ε of the title."
    equal *= any(method.endswith(AS_PRIVATE) and method != EQUAL for method in lines["method"])
    return worded("board", title=protocol.title, delta=protocol.delta, cells=" or ".join(map(str, CELLS)), equal=equal,
                  tables=text)


def entry(line: Any) -> str:
    mean = f"{line['mean']:.4g}"
    return mean if not line["deviation"] > 0 else f"{mean} ({line['deviation']:.2g})"


def check_adult(lines: pd.DataFrame) -> list[str]:
    """Return which promises about Adult the lines do not keep."""
    own = lines[(lines["method"] == DEFAULT) & (lines["epsilon"] == 1.0) & (lines["dataset"] == "adult_whole")]
    off = own[own["measure"].str.startswith("frequencies of ") & (own["mean"] > FREQUENCY)]
    slow = own[(own["measure"] == "seconds") & (own["mean"] > SECONDS)]
    return [*(f"adult: {line.measure} off by {line.mean}, above {FREQUENCY}" for line in off.itertuples()),
            *(f"adult: {line.mean} seconds, above {SECONDS}" for line in slow.itertuples())]


declared = [Experiment(
    name=protocol.name, what=f"scoreboard: {protocol.title} (hours with rivals; minutes with --quick)",
    seeds=(1, SEEDS), epsilons=((1.0,), (1.0,)), cells=partial(cells, protocol.name), lines=of_tables, table=summary,
    formats=dict.fromkeys(("epsilon", "delta", "mean", "deviation", "least", "most"), ".6g"),
    page=partial(page, protocol), keys=["dataset", "method", "epsilon"], again=again,
    whole=lambda asked: not asked.sets and not asked.methods and asked.cells == CELLS,
    check=check_adult if protocol.name == "adult" else lambda lines: [])
    for protocol in PROTOCOLS.values()]
