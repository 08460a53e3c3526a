"""The experiment on marginals: its runs, its page, and the source's statements judged by them."""

import itertools
import math
from typing import Any

import numpy as np
import pandas as pd

from experiments.asked import Asked, LeftOut
from experiments.cells import Call, call
from experiments.companions import marginals as protocol
from experiments.companions.jtree import JTree, worst_loss
from experiments.companions.marginals import FALSE, INDEPENDENT, METHODS, NO_PRIVACY, TARGETS
from experiments.declare import Experiment, at_hand
from experiments.frames import across, grid, of_measures, sections, with_errors, worded

EPSILONS = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6)
# Releases at each budget, of marginals and again of support vector machines.
RUNS = {"nltcs": 10, "br2000": 10, "adult": 10, "acs": 10, "tic": 5}
# The readings of PrivHD by which statements are judged, and its rivals; PrivBayes by F on binary columns, else by R.
READINGS = {"as printed, for a row that is added or removed": "PrivHD, as printed, add/remove",
            "for a replaced row": "PrivHD, printed cliques, replace-one",
            "for a replaced row with merged cliques": "PrivHD, merged, replace-one",
            "by the honest junction tree": "junction tree, honest"}
JTREE = "JTree, published"  # the only one that is refused, for cliques of more than a million cells
HONEST, RIVALS = READINGS["by the honest junction tree"], ["PrivBayes", JTREE]
# One target for each set with support vector machines: it tells how many runs there were.
FIRST = {name: next(iter(targets)) for name, targets in TARGETS.items()}
# A copy of another column: its error without privacy is 0.
COPIED = "post-secondary"


def filter_loss(method: str, d: int, n: int, epsilon: float) -> float:
    """Return the epsilon that a published filter of d binary columns costs at least: derived in docs/errata.md."""
    first = JTree().parts(epsilon)[0]
    return worst_loss(d, n, first) if method.startswith("JTree") else d * (d - 1) / 2 * first / 2.0


def cells_of(asked: Asked) -> dict[Call, dict[str, Any]]:
    """Return the calls of the sets that are at hand; quick: NLTCS, two epsilons, one run; `ours`: this package's."""
    epsilons, once = (0.2, 0.8) if asked.quick else EPSILONS, (INDEPENDENT, NO_PRIVACY)
    cells, names = dict[Call, dict[str, Any]](), at_hand(("nltcs",) if asked.quick else RUNS, protocol.loaded)
    if not names:
        raise LeftOut("it needs one of its tables")
    for name, svm in itertools.product(names, (False, True)):
        # F is for binary columns.
        methods = [method for method in METHODS if name in ("nltcs", "acs") or not method.endswith(", F")]
        runs = (1 if asked.quick else RUNS[name]) * (name in TARGETS or not svm)
        cells |= {call(protocol.measured, name, method, epsilon, r, svm): {
                      "dataset": name, "method": method, "epsilon": epsilon, "printed": ""}
                  for method in ([protocol.OURS] if asked.ours else [NO_PRIVACY] * svm + methods)
                  for epsilon in (epsilons[:1] if method in once else epsilons) for r in range(runs)}
    # One run of all, then another: if it is stopped, all have about as many runs.
    return dict(sorted(cells.items(), key=lambda pair: pair[0].arguments[3]))


def page(lines: pd.DataFrame, asked: Asked) -> list[str]:
    costs = [(e, first / 2.0, filter_loss("PrivHD", 16, 21_574, e), first, filter_loss("JTree", 16, 21_574, e))
             for e in EPSILONS for first in [JTree().parts(e)[0]]]
    return worded(
        "marginals", simulated=worded("simulated"),
        costs=grid(("ε", "claimed by PrivHD", "PrivHD's filter", "claimed by JTree", "JTree's filter"), costs),
        tables=sections({f"{dataset}: {measure}": table(own) for (dataset, measure), own in lines.groupby(
            ["dataset", "measure"], sort=False)})[:-1],
        refused=grid(("data", "method", "ε", "runs"), refused(lines, 1 if asked.quick else 0)),
        statements=[f"- {line}" for line in judged(lines)])


def refused(lines: pd.DataFrame, each: int = 0) -> list[tuple[Any, ...]]:
    """Return how many runs of JTree have given no table: those that are missing of `each`, or of the usual number."""
    made = lines[(lines["method"] == JTREE) & lines["measure"].isin(["2-way", *FIRST.values()])]
    found = made.groupby(["dataset", "epsilon"])["runs"].sum()
    return [(name, JTREE, epsilon, missing) for name, epsilon in itertools.product(
                lines["dataset"].unique(), sorted(lines["epsilon"].unique().tolist()))
            if (missing := (each or RUNS[name]) * (1 + (name in FIRST)) - found.get((name, epsilon), 0))]


def table(own: pd.DataFrame) -> list[str]:
    wide = own.pivot_table("mean", "method", "epsilon", sort=False).sort_index(axis=1)
    once = wide.index.isin([INDEPENDENT, NO_PRIVACY])
    wide[once] = wide[once].ffill(axis=1).bfill(axis=1)
    wide.index = [name + " (not private as claimed)" * (name in FALSE) for name in wide.index]
    return across(["method"], wide.fillna(math.inf), {epsilon: f"ε = {epsilon:g}" for epsilon in wide},
                  lambda mean: "refused" if math.isinf(mean) else f"{mean:.3g}")


def judged(lines: pd.DataFrame) -> list[str]:
    """Return the source's statements with the numbers by which they are true or false; refused means are infinite."""
    means = lines.pivot(index=["measure", "dataset", "epsilon"], columns="method", values="mean")
    means["PrivBayes"] = means["PrivBayes, F"].fillna(means["PrivBayes, R"])
    means = means.fillna(np.inf).reset_index()
    # By number of columns, the cases in one order.
    ways = [means[means["measure"] == f"{k}-way"].sort_values(["dataset", "epsilon"]) for k in protocol.WAYS]
    svm = means[means["measure"].isin([name for named in TARGETS.values() for name in named if ", " not in name])]
    two, every, adult = ways[0], pd.concat(ways), svm[svm["dataset"] == "adult"]
    small = two[two["epsilon"] < max(0.2, 1.01 * two["epsilon"].min())]

    def by_reading(of: Any) -> str:
        return "; ".join(f"{of(name)} {reading}" for reading, name in READINGS.items())

    def true(holds: Any) -> str:
        return f"({str(bool(holds)).lower()})"

    def best(part: pd.DataFrame) -> str:
        wins = {name: int((part[name] < part[RIVALS].min(axis=1)).sum()) for name in READINGS.values()}
        return by_reading(lambda name: f"{wins[name]} of {len(part)} {true(2 * wins[name] > len(part))}")

    def times(name: str) -> str:
        more = small["PrivBayes"] / small[name]
        return f"{more.min():.2f} to {more.max():.2f} times {true(more.min() > 2)}"

    def apart(name: str) -> str:
        errors = two[two["dataset"] == "nltcs"].set_index("epsilon")[[name, *RIVALS]]
        ratio = errors.max(axis=1) / errors.min(axis=1)
        return ", ".join(f"{ratio[e]:.2f} times at ε = {e:g}, {' '.join(f'{x:.3f}' for x in line)}"
                         for e, *line in errors.iloc[[0, -1]].itertuples()) + f" {true(ratio.max() < 1.25)}"

    def worse(name: str) -> str:
        most = [(part["PrivBayes"] / part[name]).max() for part in (adult[adult["measure"] != COPIED], adult)]
        return f"{most[0]:.2f} times, {most[1]:.1f} with the copied column, {true(most[0] > 2.5)}"

    grown = [[later[name].iloc[i] > each[name].iloc[i] for each, later in itertools.pairwise(ways)]
             for name in (*RIVALS, *READINGS.values(), protocol.OURS) for i in range(len(two))
             if np.isfinite(two[name].iloc[i])]
    ours, beaten = two[protocol.OURS] / two[HONEST], svm[HONEST] < svm["PrivBayes"]
    return ['"PrivHD is best in most cases", of marginals, against PrivBayes and JTree as published: ' + best(every),
            '"At ε < 0.2 PrivBayes\'s distance is more than twice PrivHD\'s", of pairs: ' + by_reading(times),
            f'"The error grows with k": in {sum(map(all, grown))} of {len(grown)} cases of a method, a set and an ε '
            + true(all(map(all, grown))),
            '"The three differ little on NLTCS": largest over smallest of PrivHD, PrivBayes and JTree, of pairs, '
            + by_reading(apart),
            *(f'"PrivHD is best" by support vector machines on {name}: {best(part)}'
              for name, part in svm.groupby("dataset")),
            *['"On Adult PrivBayes is up to three times worse" by support vector machines: at most '
              + by_reading(worse)] * (len(adult) > 0),
            "The honest junction tree beats PrivBayes by support vector machines: " + "; ".join(
                f"{int(part.sum())} of {len(part)} on {name}" for name, part in beaten.groupby(svm["dataset"])),
            f"Ours over the honest junction tree, of pairs: {ours.min():.2f} to {ours.max():.2f}, smaller in "
            f"{int((ours < 1).sum())} of {len(ours)}"]


of_marginals = Experiment(
    name="marginals",
    what="companions: PrivBayes, JTree and PrivHD on marginals and SVM, their privacy tested (an hour)",
    cells=cells_of, page=page,
    table=lambda lines: with_errors(lines, ["dataset", "method", "epsilon", "printed", "measure"], "mean").assign(
        private_as_claimed=lambda found: ~found["method"].isin([*FALSE, INDEPENDENT, NO_PRIVACY])),
    lines=lambda head, found: [] if "refused" in found else of_measures(head, found),
    formats=dict.fromkeys(("epsilon", "mean", "standard_error"), ".6g"),
    keys=["dataset", "method", "epsilon", "measure"], again=lambda asked, key: key[1] == protocol.OURS)
