"""The figures of docs/errata.md about the companions; `python -m experiments.errata NAME` prints them too."""

import math
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from experiments.companions import audits, composition, jtree, linear_noise, marginal_models, net, tutorial
from experiments.companions.linear_noise import Layered, neighbours
from experiments.errata import Figure

RUNS, SEED = 20_000, 2018
# The source's example: columns count from 1, as printed.
GRAPH = ((1, 3), (1, 5), (3, 5), (2, 5), (3, 4), (4, 5), (4, 6), (5, 6))
DOMAIN = (2, 2, 3, 3, 2, 2)


def figure(title: str, columns: str, rows: Iterable[Sequence[object]]) -> Figure:
    """Return a figure; its columns are parted by semicolons."""
    return Figure(title, tuple(columns.split("; ")), [tuple(row) for row in rows])


def audited(claim: audits.Claim) -> Figure:
    """Return the lower bounds of a claim, as printed and corrected."""
    bounds = {which: claim.bound(which, RUNS, SEED) for which in ("published", "corrected")}
    return figure(f"{claim.name}: lower bounds of epsilon by {RUNS} runs, with 99.9 % confidence",
                  "as; claimed; at least; share; other share",
                  [(which, claim.claimed, bound.epsilon, bound.share, bound.other) for which, bound in bounds.items()])


def exponential_mechanism() -> list[Figure]:
    """What the exponential mechanism makes of a distance and of a log-likelihood."""
    r, p = np.linspace(-60.0, 60.0, 1_200_001), np.array([0.7, 0.2, 0.1])
    law = np.exp(-np.abs(r) / 2.0)
    drawn = np.exp(np.log(p) / 2.0)
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
        made = Layered(neighbours([values], False), 1.0)
        losses.append((name, float(np.abs(np.log(made.density(z + 6.0) / made.density(z))).max())))
    return [figure("V = [5, 6], epsilon = 1: loss when a record of value 6 is added", "sensitivity; loss", losses),
            figure("V = {0, 1, 2, 20, 21}, epsilon = 1: E|r|", "layers; staircase; least possible",
                   [(*(linear_noise.on_integers(each, 1.0) for each in (V, range(22))), linear_noise.optimum(V, 1.0))])]


def advanced_composition() -> list[Figure]:
    """The tutorial's formula against the optimum."""
    return [figure("delta = 1e-5", "each; k; printed; least possible; delta at the printed epsilon / 1e-5",
                   [(e, k, composition.published(e, k), composition.exact(e, k),
                     composition.exact_delta(composition.published(e, k), e, k) / composition.DELTA)
                    for e, k in ((0.1, 100), (1.0, 100), (1.0, 200), (1.0, 1000))])]


def propose_test_release() -> list[Figure]:
    """The printed threshold, and what the whole costs."""
    delta = 32_563**-2.0
    return [figure("epsilon = 1: probability that D = 0 passes", "threshold; delta; T; probability",
                   [(name, delta, T, 0.5 * math.exp(-T)) for name, T in (
                       ("printed", math.log(2 / delta) / 2), ("corrected", math.log(1 / (2 * delta))))]),
            audited(audits.propose_test_release())]


def sample_and_aggregate() -> list[Figure]:
    """Groups by position and by a keyed hash."""
    return [audited(audits.sample_and_aggregate())]


def report_noisy_max() -> list[Figure]:
    """Lap(1/epsilon) where a row is replaced."""
    law = tutorial.noisy_max_law
    return [figure("Two counts 5 or 32 apart, epsilon = 1: loss of a replaced row", "scale; loss",
                   [(scale, math.log(law(gap, scale) / law(gap + 2.0, scale)))
                    for scale in (1.0, 2.0) for gap in (3.0, 30.0)]), audited(audits.noisy_max())]


def privhd_filter() -> list[Figure]:
    """What the high-pass filter costs."""
    return [figure("All pairs move by the sensitivity together: epsilon that is attained",
                   "d; pairs; claimed; attained",
                   [(d, math.comb(d, 2), 0.05, math.comb(d, 2) * 0.05) for d in (8, 15, 16, 24)]),
            audited(audits.privhd())]


def jtree_filter() -> list[Figure]:
    """What one noisy threshold for all pairs costs."""
    return [figure("n = 21574, binary columns, all rows: loss of one event", "d; claimed; at least",
                   [(d, e, jtree.worst_loss(d, 21_574, e)) for d in (8, 16, 24) for e in (0.1, 1.0)]),
            audited(audits.jtree_filter())]


def junction_tree_examples() -> list[Figure]:
    """The printed example: cliques, errors of noise, consistency."""
    cliques = marginal_models.triangulated(6, [(a - 1, b - 1) for a, b in GRAPH])
    tables = (np.array([[1.0, 2.0], [3.0, 3.0]]), np.full((2, 2, 2), 1.5) + np.array([0.0, 0.25]))
    made = marginal_models.JunctionTree((2,) * 6, [(1, 4), (2, 3, 4)], tables).consistent().tables[0]
    found = [*made.sum(axis=0).tolist(), *made[:, 0].tolist()]
    return [figure("Chordal as it is: no chord was missing", "cliques",
                   [(" ".join("".join(str(j + 1) for j in clique) for clique in cliques),)]),
            figure("Sum of variances times epsilon^2", "cliques; right; printed",
                   [("four", marginal_models.noise_error(DOMAIN, cliques), 2304),
                    ("three", marginal_models.noise_error(DOMAIN, [(0, 2, 4), (1, 4), (2, 3, 4, 5)]), 1296)]),
            figure("Counts (4, 5) and (6, 7) on a5 made consistent", "; right; printed",
                   zip(("a5 = 0", "a5 = 1", "first cell", "second cell"), found, (4.33, 5.67, 1.33, 3.33),
                       strict=True))]


ENTRIES: dict[str, Callable[[], list[Figure]]] = {entry.__name__: entry for entry in (
    exponential_mechanism, section_2_3, linear_queries, advanced_composition, propose_test_release,
    sample_and_aggregate, report_noisy_max, privhd_filter, jtree_filter, junction_tree_examples)}
