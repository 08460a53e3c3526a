"""The use of each part of `MomentMechanism`: it is run without the part, with the same random numbers."""

import math
from functools import cache
from typing import Any

import pandas as pd

import trigmech as tm
from experiments import datasets
from experiments.asked import Asked
from experiments.cells import Call, described
from experiments.comparison import SETTINGS
from experiments.curves import EXACT
from experiments.declare import Experiment
from experiments.frames import SIGMAS, across, arranged, geometric, of_workloads, shown, worded
from experiments.runs import BEST, release
from trigmech.privacy.accounting import epsilon_of, gaussian_mu

DEFAULT, SPLIT = "default", "three releases"
# For each variant: the mechanism's options, and the words for it on pages.
VARIANTS: dict[str, tuple[dict[str, Any], str]] = {
    each["variant"]: (each["options"], each["words"]) for each in described("ablations")["ablation"]}
# Setting A only for tables of so many rows at most.
MOST_ROWS: dict[str, int | None] = {"A": 10_000, "B": None}
FACTS = {"seconds": "seconds, median", "distinct": "distinct points with weight, mean",
         "table": "distinct rows of a drawn table of n rows, mean",
         "largest": "largest weight times the number of points, mean"}


def split_budget(budget: tm.Budget, releases: int) -> tm.Budget:
    """Return the budget of one of several releases that together spend all of it.

    For delta = 0 epsilons add up; Gaussian releases have mu over the root of their number, whose squares add up.
    """
    if budget.delta == 0:
        return tm.Budget(budget.epsilon / releases)
    part = gaussian_mu(budget) / math.sqrt(releases)
    charge = tm.Charge("moments", "gaussian", 1.0, part, "L2", 1, "experiments.ablations")
    return tm.Budget(epsilon_of([charge], budget.delta), budget.delta)


@cache
def _split(name: str, setting: str) -> tuple[dict[str, Any], float]:
    """Return the options that fix the default's functions, and the epsilon of one of three releases."""
    epsilon, delta, *_ = SETTINGS[setting]
    budget = tm.Budget(epsilon, delta)
    n, d = datasets.load(name).shape
    design = tm.MomentMechanism().design(n, d, budget)
    return ({part: getattr(design, part) for part in ("degree", "pair_degree", "triples", "whole_row")},
            split_budget(budget, 3).epsilon)


def cell_of(variant: str, name: str, setting: str, repetition: int, n_queries: int) -> Call:
    epsilon, delta, *_ = SETTINGS[setting]
    options = VARIANTS[variant][0]
    if variant == SPLIT:
        # The same functions: only the noise is to differ.
        options, epsilon = _split(name, setting)
    return release(name, BEST, options, epsilon=epsilon, delta=delta, repetition=repetition, n_queries=n_queries)


def cells(asked: Asked) -> dict[Call, dict[str, Any]]:
    rows_of = {name: len(datasets.load(name)) for name in asked.names}
    return {cell_of(variant, name, setting, r, asked.size): {
                "setting": setting, "dataset": name, "variant": variant, "repetition": r}
            for setting, most in MOST_ROWS.items() for name in asked.names if most is None or rows_of[name] <= most
            for variant in VARIANTS for r in range(asked.seeds)}


def summary(lines: pd.DataFrame) -> pd.DataFrame:
    keys = ["setting", "dataset", "variant"]
    worst = lines[lines["what"] == "absolute"].assign(value=lambda those: those["value"].clip(lower=EXACT))
    errors = worst.groupby([*keys, "workload", "repetition"], sort=False)["value"].agg(geometric).reset_index()
    default = errors[errors["variant"] == DEFAULT].drop(columns="variant")
    errors = errors.merge(default, "left", on=["setting", "dataset", "workload", "repetition"], suffixes=("", "_of"))
    ratios = errors.assign(value=errors["value"] / errors["value_of"]).drop(columns="value_of").rename(
        columns={"workload": "what"})
    found = [part.groupby([*keys, "what"], sort=False)["value"].agg([how, "min", "max"]).set_axis(
        ["value", "least", "most"], axis=1) for part, how in (
            (ratios, geometric), *((lines[lines["what"] == fact], "median" if fact == "seconds" else "mean")
                                   for fact in FACTS))]
    return arranged(pd.concat(found).reset_index(), keys, lines)


def page(lines: pd.DataFrame, asked: Asked) -> list[str]:
    tables = list[str]()
    for setting, own in lines.groupby("setting"):
        (epsilon, delta, *_), names = SETTINGS[str(setting)], list(dict.fromkeys(own["dataset"]))
        wide = own.pivot(index="variant", columns=["dataset", "what"], values="value").loc[list(VARIANTS)]
        tables += ["", f"## Setting {setting}: ε = {epsilon:g}, δ = {delta:g}", "", *across(["variant"], wide, {
            (name, workload): f"{name} {workload.upper()}" for name in names for workload in SIGMAS}, "{:.2f}".format)]
        for what, said in FACTS.items():
            tables += ["", f"### {said.capitalize()}", "", *across(
                ["variant"], wide, {(name, what): name for name in names},
                shown if what == "seconds" else "{:.4g}".format)]
    return worded("ablations", size=asked.size, seeds=asked.seeds, tables=tables,
                  variants=[f"- *{variant}*: {said}." for variant, (_, said) in VARIANTS.items()])


ablations = Experiment(
    name="ablations", what="what each part of the package's mechanism is worth (an hour)", numbers=True,
    seeds=(2, 3), size=(500, 2_000), cells=cells, lines=of_workloads, table=summary, page=page,
    formats={"value": ".6g", "least": ".6g", "most": ".6g"})
