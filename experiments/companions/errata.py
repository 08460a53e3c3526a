"""The figures of docs/errata.md about the companions; `python -m experiments.errata NAME` prints them too.

Printed claims of privacy are tested by experiment, see `experiments.claims`.
"""

import math
from collections.abc import Callable
from functools import partial

import numpy as np

from experiments.audit import false_alarm
from experiments.claims import CLAIMS, RUNS, SEED
from experiments.companions import marginal_models as models
from experiments.companions import tutorial
from experiments.errata import Figure, figure

# The source's example: columns count from 1, as printed.
GRAPH = ((1, 3), (1, 5), (3, 5), (2, 5), (3, 4), (4, 5), (4, 6), (5, 6))
DOMAIN = (2, 2, 3, 3, 2, 2)


def exponential_mechanism() -> list[Figure]:
    """What the exponential mechanism makes of a distance and of a log-likelihood."""
    r, p = np.linspace(-60.0, 60.0, 1_200_001), np.array([0.7, 0.2, 0.1])
    law, drawn = np.exp(-np.abs(r) / 2.0), np.exp(np.log(p) / 2.0)
    return [figure("q = -|f(D) - r|, S = epsilon = 1: mean distance; Laplace has 1", "mean",
                   [(float((np.abs(r) * law).sum() / law.sum()),)]),
            figure("q = log P, whose sensitivity is epsilon", "P; drawn with; the root of P, normalised",
                   np.column_stack([p, drawn / drawn.sum(), p**0.5 / (p**0.5).sum()]).tolist())]


def junction_tree_examples() -> list[Figure]:
    """The printed example: cliques, errors of noise, consistency."""
    cliques = models.triangulated(6, [(a - 1, b - 1) for a, b in GRAPH])
    tables = (np.array([[1.0, 2.0], [3.0, 3.0]]), np.full((2, 2, 2), 1.5) + np.array([0.0, 0.25]))
    made = models.JunctionTree((2,) * 6, [(1, 4), (2, 3, 4)], tables).consistent().tables[0]
    found = [*made.sum(axis=0).tolist(), *made[:, 0].tolist()]
    return [figure("Chordal as it is: no chord was missing", "cliques",
                   [(" ".join("".join(str(j + 1) for j in clique) for clique in cliques),)]),
            figure("Sum of variances times epsilon^2", "cliques; right; printed",
                   [("four", models.noise_error(DOMAIN, cliques), 2304),
                    ("three", models.noise_error(DOMAIN, [(0, 2, 4), (1, 4), (2, 3, 4, 5)]), 1296)]),
            figure("Counts (4, 5) and (6, 7) on a5 made consistent", "; right; printed",
                   zip(("a5 = 0", "a5 = 1", "first cell", "second cell"), found, (4.33, 5.67, 1.33, 3.33),
                       strict=True))]


FIGURES: dict[str, Callable[[], list[Figure]]] = {
    "exponential_mechanism": exponential_mechanism, "junction_tree_examples": junction_tree_examples,
    "propose_test_release": lambda: [figure(
        "epsilon = 1: probability that D = 0 passes", "threshold; delta; T; probability",
        [(name, 32_563**-2.0, T, 0.5 * math.exp(-T))
         for name, T in (("printed", math.log(2 * 32_563**2) / 2), ("corrected", math.log(32_563**2 / 2)))])],
    "sample_and_aggregate": list,
    "report_noisy_max": lambda: [figure(
        "Two counts 5 or 32 apart, epsilon = 1: loss of a replaced row", "scale; loss",
        [(scale, math.log(tutorial.noisy_max_law(gap, scale) / tutorial.noisy_max_law(gap + 2.0, scale)))
         for scale in (1.0, 2.0) for gap in (3.0, 30.0)])],
    "privhd_filter": list, "jtree_filter": list}


def entry(name: str) -> list[Figure]:
    """Return an entry's figures, and of a claim the lower bounds, as printed and corrected."""
    found = FIGURES[name]()
    if name in CLAIMS:
        claim = CLAIMS[name]()
        bounds = {which: claim.bound(which, RUNS, SEED) for which in ("published", "corrected", "planted")}
        found.append(figure(
            f"{claim.name}: lower bounds of epsilon by {RUNS} runs, with 99.9 % confidence",
            "as; claimed; at least; share; other share; probability of a false alarm",
            [(which, claim.claimed, each.epsilon, each.share, each.other,
              false_alarm(each.other, RUNS // 2, claim.claimed, 0.0)) for which, each in bounds.items()]))
    return found


ENTRIES = {name: partial(entry, name) for name in FIGURES}
