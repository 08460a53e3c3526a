"""The figures of docs/errata.md about the companions; `python -m experiments.errata NAME` prints them too.

Printed claims of privacy are tested by experiment: as printed and corrected, on two tables, by `experiments.audit`.
"""

import math
from collections.abc import Callable
from functools import partial

import numpy as np

from experiments.audit import Claim, Statistic
from experiments.companions import composition, jtree, linear_noise, net, selection, tutorial
from experiments.companions import marginal_models as models
from experiments.companions.discrete import Array
from experiments.errata import Figure, figure

RUNS, SEED = 20_000, 2018
# Of the tables of the filters: few rows, so that a threshold is passed about every second time.
ROWS, COLUMNS = 50, 16
HALVES = (slice(COLUMNS // 2), slice(COLUMNS // 2, None))
LEAST, MOVED = jtree.thresholds((2,) * COLUMNS, 0.2), models.information_sensitivity(ROWS, True)
# The source's example: columns count from 1, as printed.
GRAPH = ((1, 3), (1, 5), (3, 5), (2, 5), (3, 4), (4, 5), (4, 6), (5, 6))
DOMAIN = (2, 2, 3, 3, 2, 2)


def scores(score: str, *ones: slice) -> list[Array]:
    """Return the pairs' scores of tables of zeros whose last row has ones in some columns."""
    last = [np.isin(np.arange(COLUMNS), np.arange(COLUMNS)[columns]) for columns in ones]
    return [models.pair_scores(np.vstack([np.zeros((ROWS - 1, COLUMNS), dtype=np.int64), row]), (2,) * COLUMNS, score)
            for row in last]


def privhd_filter(claimed: float = 0.5, count: int = 5) -> Claim:
    """The filter of PrivHD at half of `claimed`, against `count` edges drawn at all of it."""
    filtered, drawn = scores("I", slice(0), slice(None)), scores("R", *HALVES)
    moved = models.dependence_sensitivity(ROWS)

    def corrected(side: int, rng: np.random.Generator) -> float:
        ratio, left = 0.0, [selection.exponents(each, moved, claimed / count) for each in drawn]
        for i in selection.several(drawn[side], moved, claimed, count, rng):
            ratio += float(left[1][i] - np.logaddexp.reduce(left[1]) - left[0][i] + np.logaddexp.reduce(left[0]))
            left[0][i] = left[1][i] = -np.inf
        return ratio

    return Claim("PrivHD's filter", claimed, lambda side, rng: len(jtree.passed(
        filtered[side], LEAST, 2.0 * MOVED / claimed, rng, shared=False)), corrected)


def jtree_filter(claimed: float = 0.5) -> Claim:
    """The filter of JTree without sampling, against noise that pays for all pairs."""
    of = scores("I", *HALVES)
    sign = np.sign(of[1] - of[0])

    def kept(scale: float, shared: bool) -> Statistic:
        return lambda side, rng: float(sign[jtree.passed(of[side], LEAST, scale, rng, shared)].sum())

    return Claim("JTree's filter", claimed, kept(2.0 * MOVED / claimed, True), kept(len(sign) * MOVED / claimed, False))


def report_noisy_max(claimed: float = 1.0) -> Claim:
    """Report noisy max of two counts, of which a replaced row moves one down and one up: whether the lower one wins."""
    def wins(monotone: bool) -> Statistic:
        return lambda side, rng: selection.noisy_max([3.0 - side, side], 1.0, claimed, rng.laplace, monotone)

    return Claim("Report noisy max, replace-one", claimed, wins(True), wins(False))


def sample_and_aggregate(claimed: float = 1.0, k: int = 20) -> Claim:
    """The mean of k groups' clipped means, by position and by a keyed hash, of rows and of all but one.

    By position the first row goes, by the hash the one that raises the mean most.
    """
    ages, n = np.tile([0.0, 0.0, 200.0, 200.0], k // 2), 2 * k
    places, hashed = np.arange(n) // 2, tutorial.keyed_groups(n, k)
    without = max(tutorial.chunk_answers(np.delete(ages, r), np.delete(hashed, r), k).mean() for r in range(n))
    by_place = [tutorial.chunk_answers(ages[cut:], places[: n - cut], k).mean() for cut in (0, 1)]
    by_hash = [tutorial.chunk_answers(ages, hashed, k).mean(), without]
    return Claim("Sample and aggregate, one row removed", claimed, *(
        lambda side, rng, means=means: float(means[side] + rng.laplace(0.0, 60.0 / (k * claimed)))
        for means in (by_place, by_hash)))


def propose_test_release(claimed: float = 1.0) -> Claim:
    """A test one step short of its threshold or at it, and a mean that moves by b: both spend, so half of each."""
    def run(scale: float) -> Statistic:
        return lambda side, rng: (side + rng.laplace(0.0, scale) if side - 1.0 + rng.laplace(0.0, scale) >= 0 else -1e9)

    return Claim("Propose-test-release", claimed, run(1.0 / claimed), run(2.0 / claimed))


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


def section_2_3() -> list[Figure]:
    """Exponents of the comparison, and what algorithm 3 costs exactly."""
    answers = np.array([[-1.0, 0.0, 1.0], [1.0, -1.0, 0.5]])
    return [figure("Errors fall as n epsilon to minus these, but for logarithms",
                   "; ".join(["d; K", *net.exponents_of_n(1, 1)]),
                   [(d, K, *net.exponents_of_n(d, K).values()) for d, K in net.SIZES_OF_2_3]),
            figure("Algorithm 3 exactly, epsilon = 1: largest loss for queries into [low, 1] and the sensitivity s/n",
                   "low; s; loss", [(low, s, net.exact_loss(3, 4, 2, np.maximum(answers, low), 1.0, s / 4))
                                    for low, s in ((0.0, 1), (-1.0, 1), (-1.0, 2))])]


def linear_queries() -> list[Figure]:
    """The sensitivity of V = [5, 6] with add/remove, and the optimum beside both noises."""
    losses, z, V = [], np.linspace(-30, 30, 6001), (0, 1, 2, 20, 21)
    for name, values in (("max |a - b| = 1, printed", (0, 1)), ("V and -V", (5, 6))):
        made = linear_noise.Layered(linear_noise.neighbours([values], False), 1.0)
        losses.append((name, float(np.abs(np.log(made.density(z + 6.0) / made.density(z))).max())))
    return [figure("V = [5, 6], epsilon = 1: loss when a record of value 6 is added", "sensitivity; loss", losses),
            figure("V = {0, 1, 2, 20, 21}, epsilon = 1: E|r|", "layers; staircase; least possible",
                   [(*(linear_noise.on_integers(each, 1.0) for each in (V, range(22))), linear_noise.optimum(V, 1.0))])]


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
    "exponential_mechanism": exponential_mechanism, "section_2_3": section_2_3, "linear_queries": linear_queries,
    # The tutorial's formula against the optimum.
    "advanced_composition": lambda: [figure(
        "delta = 1e-5", "each; k; printed; least possible; delta at the printed epsilon / 1e-5",
        [(e, k, composition.published(e, k), composition.exact(e, k),
          composition.exact_delta(composition.published(e, k), e, k) / composition.DELTA)
         for e, k in ((0.1, 100), (1.0, 100), (1.0, 200), (1.0, 1000))])],
    "propose_test_release": lambda: [figure(
        "epsilon = 1: probability that D = 0 passes", "threshold; delta; T; probability",
        [(name, 32_563**-2.0, T, 0.5 * math.exp(-T))
         for name, T in (("printed", math.log(2 * 32_563**2) / 2), ("corrected", math.log(32_563**2 / 2)))])],
    "sample_and_aggregate": list,
    "report_noisy_max": lambda: [figure(
        "Two counts 5 or 32 apart, epsilon = 1: loss of a replaced row", "scale; loss",
        [(scale, math.log(tutorial.noisy_max_law(gap, scale) / tutorial.noisy_max_law(gap + 2.0, scale)))
         for scale in (1.0, 2.0) for gap in (3.0, 30.0)])],
    "privhd_filter": lambda: [figure(
        "All pairs move by the sensitivity together: epsilon that is attained", "d; pairs; claimed; attained",
        [(d, math.comb(d, 2), 0.05, math.comb(d, 2) * 0.05) for d in (8, 15, 16, 24)])],
    "jtree_filter": lambda: [figure(
        "n = 21574, binary columns, all rows: loss of one event", "d; claimed; at least",
        [(d, e, jtree.worst_loss(d, 21_574, e)) for d in (8, 16, 24) for e in (0.1, 1.0)])],
    "junction_tree_examples": junction_tree_examples}


def entry(name: str) -> list[Figure]:
    """Return an entry's figures, and of a claim the lower bounds, as printed and corrected."""
    found = FIGURES[name]()
    if name in CLAIMS:
        claim = CLAIMS[name]()
        bounds = {which: claim.bound(which, RUNS, SEED) for which in ("published", "corrected")}
        found.append(figure(
            f"{claim.name}: lower bounds of epsilon by {RUNS} runs, with 99.9 % confidence",
            "as; claimed; at least; share; other share",
            [(which, claim.claimed, each.epsilon, each.share, each.other) for which, each in bounds.items()]))
    return found


ENTRIES = {name: partial(entry, name) for name in FIGURES}
