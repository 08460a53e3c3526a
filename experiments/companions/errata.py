"""The figures of docs/errata.md about the companions; `python -m experiments.errata NAME` prints them too."""

import math
from collections.abc import Callable

import numpy as np

from experiments.companions import audits, composition, jtree, linear_noise, marginal_models, net, tutorial
from experiments.companions.marginal_models import JunctionTree
from experiments.errata import Figure

RUNS, SEED = 20_000, 2018
# The source's example: columns count from 1, as printed.
GRAPH = ((1, 3), (1, 5), (3, 5), (2, 5), (3, 4), (4, 5), (4, 6), (5, 6))
DOMAIN = (2, 2, 3, 3, 2, 2)


def from_one(columns: tuple[int, ...]) -> tuple[int, ...]:
    """Return columns that count from 0."""
    return tuple(j - 1 for j in columns)


def audited(claim: audits.Claim) -> Figure:
    """Return the lower bounds of a claim, as printed and corrected."""
    rows: list[tuple[object, ...]] = []
    for which in ("published", "corrected"):
        bound = claim.bound(which, RUNS, SEED)
        rows.append((which, claim.claimed, bound.epsilon, bound.share, bound.other))
    return Figure(f"{claim.name}: lower bounds of epsilon by {RUNS} runs, with 99.9 % confidence",
                  ("as", "claimed", "at least", "share", "other share"), rows)


def exponential_mechanism() -> list[Figure]:
    """What the exponential mechanism makes of a distance and of a log-likelihood."""
    r, epsilon = np.linspace(-60.0, 60.0, 1_200_001), 1.0
    law = np.exp(-epsilon * np.abs(r) / 2.0)
    scale = float((np.abs(r) * law).sum() / law.sum())
    p = np.array([0.7, 0.2, 0.1])
    drawn = np.exp(epsilon * np.log(p) / (2.0 * epsilon))
    return [Figure("q = -|f(D) - r|, S = epsilon = 1: mean distance; Laplace has 1", ("mean",), [(scale,)]),
            Figure("q = log P, whose sensitivity is epsilon", ("P", "drawn with", "the root of P, normalised"),
                   list(zip(p.tolist(), (drawn / drawn.sum()).tolist(), (p**0.5 / (p**0.5).sum()).tolist(),
                            strict=True)))]


def section_2_3() -> list[Figure]:
    """Exponents of the comparison, and what algorithm 3 costs exactly."""
    rows: list[tuple[object, ...]] = [(d, K, *net.exponents_of_n(d, K).values())
                                      for d, K in ((1, 4), (2, 4), (8, 4), (8, 100))]
    answers = np.array([[-1.0, 0.0, 1.0], [1.0, -1.0, 0.5]])
    losses: list[tuple[object, ...]] = [(low, s, net.exact_loss(3, 4, 2, np.maximum(answers, low), 1.0, s / 4))
                                        for low, s in ((0.0, 1), (-1.0, 1), (-1.0, 2))]
    return [Figure("Errors fall as n epsilon to minus these, but for logarithms",
                   ("d", "K", *net.exponents_of_n(1, 1)), rows),
            Figure("Algorithm 3 exactly, epsilon = 1: largest loss for queries into [low, 1] and the sensitivity s/n",
                   ("low", "s", "loss"), losses)]


def linear_queries() -> list[Figure]:
    """The sensitivity of V = [5, 6] with add/remove, and the optimum beside both noises."""
    made = linear_noise.Layered(linear_noise.neighbours([(0, 1)], False), 1.0)
    z = np.linspace(-30, 30, 6001)
    loss = float(np.abs(np.log(made.density(z + 6.0) / made.density(z))).max())
    right = linear_noise.Layered(linear_noise.neighbours([(5, 6)], False), 1.0)
    moved = float(np.abs(np.log(right.density(z + 6.0) / right.density(z))).max())
    V, epsilon = (0, 1, 2, 20, 21), 1.0
    layered, stairs = (linear_noise.Layered(linear_noise.neighbours([(v, v) for v in values], False), epsilon,
                                            lattice=True).expected_size for values in (V, range(22)))
    return [Figure("V = [5, 6], epsilon = 1: loss when a record of value 6 is added", ("sensitivity", "loss"),
                   [("max |a - b| = 1, printed", loss), ("V and -V", moved)]),
            Figure("V = {0, 1, 2, 20, 21}, epsilon = 1: E|r|", ("layers", "staircase", "least possible"),
                   [(layered, stairs, linear_noise.optimum(V, epsilon))])]


def advanced_composition() -> list[Figure]:
    """The tutorial's formula against the optimum."""
    rows: list[tuple[object, ...]] = [(e, k, composition.published(e, k), composition.exact(e, k),
                                       composition.exact_delta(composition.published(e, k), e, k) / composition.DELTA)
                                      for e, k in ((0.1, 100), (1.0, 100), (1.0, 200), (1.0, 1000))]
    return [Figure("delta = 1e-5", ("each", "k", "printed", "least possible", "delta at the printed epsilon / 1e-5"),
                   rows)]


def propose_test_release() -> list[Figure]:
    """The printed threshold, and what the whole costs."""
    n, rows = 32_563, list[tuple[object, ...]]()
    for name, threshold in (("printed", lambda d: math.log(2 / d) / 2), ("corrected", lambda d: math.log(1 / (2 * d)))):
        delta = n**-2.0
        rows.append((name, delta, threshold(delta), 0.5 * math.exp(-threshold(delta))))
    return [Figure("epsilon = 1: probability that D = 0 passes", ("threshold", "delta", "T", "probability"), rows),
            audited(audits.propose_test_release())]


def sample_and_aggregate() -> list[Figure]:
    """Groups by position and by a keyed hash."""
    return [audited(audits.sample_and_aggregate())]


def report_noisy_max() -> list[Figure]:
    """Lap(1/epsilon) where a row is replaced."""
    rows: list[tuple[object, ...]] = [(scale, math.log(tutorial.noisy_max_law(gap, scale)
                                                       / tutorial.noisy_max_law(gap + 2.0, scale)))
                                      for scale in (1.0, 2.0) for gap in (3.0, 30.0)]
    return [Figure("Two counts 5 or 32 apart, epsilon = 1: loss of a replaced row", ("scale", "loss"), rows),
            audited(audits.noisy_max())]


def privhd_filter() -> list[Figure]:
    """What the high-pass filter costs."""
    rows: list[tuple[object, ...]] = [(d, d * (d - 1) // 2, 0.05, d * (d - 1) / 2 * 0.05) for d in (8, 15, 16, 24)]
    return [Figure("All pairs move by the sensitivity together: epsilon that is attained", ("d", "pairs", "claimed",
                   "attained"), rows), audited(audits.privhd())]


def jtree_filter() -> list[Figure]:
    """What one noisy threshold for all pairs costs."""
    rows: list[tuple[object, ...]] = [(d, e, jtree.worst_loss(d, 21_574, e)) for d in (8, 16, 24) for e in (0.1, 1.0)]
    return [Figure("n = 21574, binary columns, all rows: loss of one event", ("d", "claimed", "at least"), rows),
            audited(audits.jtree_filter())]


def junction_tree_examples() -> list[Figure]:
    """The printed example: cliques, errors of noise, consistency."""
    cliques = marginal_models.triangulated(6, map(from_one, GRAPH))
    joined = [from_one(each) for each in ((1, 3, 5), (2, 5), (3, 4, 5, 6))]
    shown = " ".join("".join(str(j + 1) for j in clique) for clique in cliques)
    tables = (np.array([[1.0, 2.0], [3.0, 3.0]]), np.full((2, 2, 2), 1.5) + np.array([0.0, 0.25]))
    made = JunctionTree((2,) * 6, [from_one((2, 5)), from_one((3, 4, 5))], tables).consistent()
    agreed, cells = made.tables[0].sum(axis=0), made.tables[0][:, 0]
    return [Figure("Chordal as it is: no chord was missing", ("cliques",), [(shown,)]),
            Figure("Sum of variances times epsilon^2", ("cliques", "right", "printed"),
                   [("four", marginal_models.noise_error(DOMAIN, cliques), 2304),
                    ("three", marginal_models.noise_error(DOMAIN, joined), 1296)]),
            Figure("Counts (4, 5) and (6, 7) on a5 made consistent", ("", "right", "printed"),
                   [("a5 = 0", float(agreed[0]), 4.33), ("a5 = 1", float(agreed[1]), 5.67),
                    ("first cell", float(cells[0]), 1.33), ("second cell", float(cells[1]), 3.33)])]


ENTRIES: dict[str, Callable[[], list[Figure]]] = {entry.__name__: entry for entry in (
    exponential_mechanism, section_2_3, linear_queries, advanced_composition, propose_test_release,
    sample_and_aggregate, report_noisy_max, privhd_filter, jtree_filter, junction_tree_examples)}
