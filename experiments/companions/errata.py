"""The figures of docs/errata.md about the companions; `python -m experiments.errata NAME` prints them too.

Printed claims of privacy are tested by experiment: as printed and corrected, on two tables, by `experiments.audit`.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from experiments.audit import Claim, Statistic, false_alarm
from experiments.companions import jtree, selection, tutorial
from experiments.companions import marginal_models as models
from experiments.companions.discrete import Array, Codes
from experiments.errata import Figure, figure

RUNS, SEED = 20_000, 2018
# By how much a planted fault makes noise too small.
FAULT = 1.75
# Of the tables of the filters: few rows, so that a threshold is passed about every second time.
ROWS, COLUMNS = 50, 16
LEAST, MOVED = jtree.JTree().thresholds((2,) * COLUMNS), models.sensitivity(ROWS, (2, 2), "I")
# The source's example: columns count from 1, as printed.
GRAPH = ((1, 3), (1, 5), (3, 5), (2, 5), (3, 4), (4, 5), (4, 6), (5, 6))
DOMAIN = (2, 2, 3, 3, 2, 2)


def zeros_and(*last: int) -> Codes:
    """Return a table of zeros but for its last row."""
    return np.vstack([np.zeros((ROWS - 1, len(last)), dtype=np.int64), last])


def scores_of_halves(score: str) -> tuple[list[Array], Array]:
    """Return the pairs' scores of two tables, whose last rows have ones in one half, and the signs of differences."""
    ones, zeros = (1,) * (COLUMNS // 2), (0,) * (COLUMNS // 2)
    found = [models.pair_scores(zeros_and(*row), (2,) * COLUMNS, score) for row in (ones + zeros, zeros + ones)]
    return found, np.sign(found[1] - found[0])


def privhd_filter(claimed: float = 4.0, edges: int = 8) -> Claim:
    """The filter of PrivHD at half of `claimed`, against edges drawn at all of it; the fault spends it on each edge."""
    filtered, (drawn, sign) = (np.zeros(len(LEAST)), np.full(len(LEAST), MOVED)), scores_of_halves("R")

    def corrected(epsilon: float) -> Statistic:
        return lambda side, rng: float(sign[selection.several(
            drawn[side], models.sensitivity(ROWS, (2, 2), "R"), epsilon, edges, rng)].sum())

    return Claim("PrivHD's filter", claimed, lambda side, rng: len(jtree.passed(
        filtered[side], LEAST, 2.0 * MOVED / claimed, rng)), corrected(claimed), corrected(edges * claimed))


def jtree_filter(claimed: float = 1.0) -> Claim:
    """The filter of JTree without sampling, against noise that pays for all pairs, of three columns that all move."""
    (of, sign), tables = scores_of_halves("I"), (zeros_and(0, 0, 0), zeros_and(1, 1, 1))

    def corrected(epsilon: float) -> Statistic:
        # A threshold just above the scores.
        method = jtree.JTree("honest", strength=0.45)
        return lambda side, rng: len(method.chosen(tables[side], (2,) * 3, epsilon, rng))

    def published(side: int, rng: np.random.Generator) -> float:
        return float(sign[jtree.passed(of[side], LEAST, 2.0 * MOVED / claimed, rng, shared=True)].sum())

    return Claim("JTree's filter", claimed, published, corrected(claimed), corrected(FAULT * claimed))


def report_noisy_max(claimed: float = 1.0) -> Claim:
    """Report noisy max of two counts, of which a replaced row moves one down and one up: whether the lower one wins."""
    def wins(epsilon: float, monotone: bool) -> Statistic:
        return lambda side, rng: selection.noisy_max([3.0 - side, side], 1.0, epsilon, rng.laplace, monotone)

    return Claim("Report noisy max, replace-one", claimed, wins(claimed, True), wins(claimed, False),
                 wins(FAULT * claimed, False))


def sample_and_aggregate(claimed: float = 1.0, k: int = 20) -> Claim:
    """The mean of k groups' clipped means, by position and by a keyed hash, of all rows and without one.

    By position the first row goes; by the hash one that is alone in its group, which had 80 and then has 20.
    """
    ages, places = np.tile([0.0, 0.0, 200.0, 200.0], k // 2), np.arange(2 * k) // 2
    hashed = tutorial.keyed_groups(2 * k, k)
    alone = int(np.flatnonzero(np.bincount(hashed)[hashed] == 1)[0])
    others = np.arange(2 * k) != alone
    only = np.where(others, 0.0, 200.0)
    by_place = [tutorial.chunk_answers(ages[cut:], places[: 2 * k - cut], k).mean() for cut in (0, 1)]
    by_hash = [tutorial.chunk_answers(only[kept], hashed[kept], k).mean() for kept in (others, slice(None))]

    def noisy(means: list[Any], epsilon: float) -> Statistic:
        return lambda side, rng: float(means[side] + rng.laplace(0.0, 60.0 / (k * epsilon)))

    return Claim("Sample and aggregate, one row removed", claimed, noisy(by_place, claimed), noisy(by_hash, claimed),
                 noisy(by_hash, FAULT * claimed))


def propose_test_release(claimed: float = 1.0) -> Claim:
    """A test one step short of its threshold or at it, and a mean that moves by b: both spend, so half of each."""
    def run(epsilon: float) -> Statistic:
        return lambda side, rng: (side + rng.laplace(0.0, 1.0 / epsilon) if side - 1.0 + rng.laplace(0.0, 1.0 / epsilon)
                                  >= 0 else -1e9)

    return Claim("Propose-test-release", claimed, run(claimed), run(claimed / 2.0), run(FAULT * claimed / 2.0))


CLAIMS = {claim.__name__: claim for claim in (privhd_filter, jtree_filter, report_noisy_max, sample_and_aggregate,
                                              propose_test_release)}


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
