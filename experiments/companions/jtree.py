"""JTree (Chen, Xiao, Zhang and Xu 2015) and PrivHD (Zhang, Chen, Jin and Meng 2018): junction trees of chosen pairs.

Neither filter is private as claimed. JTree compares one noisy threshold with all pairs, any number of which may pass.
PrivHD gives every pair's mutual information noise for its own sensitivity, but all of them move together: d columns
cost d(d-1)/2 times the claimed epsilon. The source's text has lost PrivHD's threshold (JTree's is taken), the number of
edges and their shares of the budget (equal ones).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy import stats

from experiments import Array
from experiments.companions import marginal_models as models
from experiments.companions.discrete import check_table
from experiments.companions.selection import several
from experiments.protocols.coding import Codes
from trigmech._validate import check_positive


def passed(scores: Array, least: Array, scale: float, rng: np.random.Generator, shared: bool = False) -> list[int]:
    """Return which noisy scores are at least their thresholds; `shared`: with one noise that all thresholds share."""
    noisy = scores + rng.laplace(0.0, scale, len(scores)) - (rng.laplace(0.0, scale) if shared else 0.0)
    return [i for i in np.argsort(-noisy).tolist() if noisy[i] >= least[i]]


@dataclass(frozen=True)
class JTree:
    """Options of JTree; `strength` is Cramér's phi from which a pair is kept.

    Honest: every pair's mutual information has noise that pays for all pairs, Lap(ΔI d(d-1)/(2 ε1)), and edges are
    taken by it, the largest first, while a mean count is `usefulness` times the noise's scale, of d cliques.
    """

    variant: Literal["published", "honest"] = "published"
    strength: float = 0.2
    usefulness: float = 4.0

    def parts(self, epsilon: float) -> tuple[float, float, float]:
        """Return the budgets of the graph and of its tables, and how far noise lets a row move their counts."""
        check_positive(epsilon=epsilon)
        first = 0.1 if epsilon > 0.1 else epsilon / 2.0
        return first, epsilon - first, 2.0

    def thresholds(self, domain: Sequence[int]) -> Array:
        """Return for each pair the mutual information of Cramér's phi: phi² (the smaller domain - 1) / 2."""
        smaller = np.array([min(domain[a], domain[b]) for a, b in models.pairs(len(domain))])
        return self.strength**2 * (smaller - 1.0) / 2.0

    def chosen(self, table: Codes, domain: Sequence[int], epsilon: float, rng: np.random.Generator) -> list[int]:
        """Return the chosen pairs, for which epsilon is spent, the most important ones first."""
        n, least = len(table), self.thresholds(domain)
        if self.variant == "honest":
            scale = models.sensitivity(n, domain, "I") * len(least) / epsilon
            return passed(models.pair_scores(table, domain, "I"), least, scale, rng)
        # The rate of sampled rows that needs the least noise.
        scale, rate = min((2.0 * models.sensitivity(rate * n, domain, "I")
                           / (math.log(math.expm1(epsilon) + rate) - math.log(rate)), rate)
                          for rate in np.geomspace(min(1.0, 10.0 / n), 1.0, 400).tolist())
        sampled = table[rng.random(n) < rate] if rate < 1.0 else table
        return sorted(passed(models.pair_scores(sampled, domain, "I"), least, scale, rng, shared=True))

    def fit(self, table: Codes, domain: Sequence[int], epsilon: float, rng: np.random.Generator) -> models.JunctionTree:
        """Return the tree of the graph, merged, with noisy, consistent, non-negative tables."""
        (first, rest, moved), table, d, n = self.parts(epsilon), check_table(table, domain), len(domain), len(table)
        edges = [models.pairs(d)[i] for i in self.chosen(table, domain, first, rng)]
        if self.variant == "honest":
            edges = models.within(domain, edges, n * rest / (2.0 * d * self.usefulness))
        tree = models.JunctionTree(domain, self.cliques(domain, edges))
        return tree.noisy(table, rest, rng, moved).non_negative(n).consistent().non_negative(n)

    def cliques(self, domain: Sequence[int], edges: Sequence[models.Columns]) -> list[models.Columns]:
        """Return the cliques of a graph's chordal completion, merged while the error of the noise falls."""
        return models.merged(domain, models.triangulated(len(domain), edges))


@dataclass(frozen=True)
class PrivHD(JTree):
    """Options of PrivHD: a high-pass filter of pairs, then `edges` by the exponential mechanism.

    Honest, and private: no filter, edges drawn by R, `share` of the budget for them; edges that would make a clique too
    large to be useful are left out afterwards. Counts have Lap(moved m / ε2): the source's `moved`, 1, is for a row
    that is added or removed; 2 is for one that is replaced. `joined`: the cliques merged as JTree's, as the source
    joins them, or not at all.
    """

    edges: int = 25
    share: float = 0.3
    moved: float = 2.0
    joined: Literal["merged", "source", "apart"] = "merged"

    def parts(self, epsilon: float) -> tuple[float, float, float]:
        if self.variant == "honest":
            return self.share * epsilon, (1.0 - self.share) * epsilon, self.moved
        return *super().parts(epsilon)[:2], self.moved

    def cliques(self, domain: Sequence[int], edges: Sequence[models.Columns]) -> list[models.Columns]:
        """As of JTree, by the option `joined`."""
        if self.joined == "source":
            return models.bigger(domain, models.eliminated(len(domain), edges))
        return super().cliques(domain, edges) if self.joined == "merged" else models.triangulated(len(domain), edges)

    def chosen(self, table: Codes, domain: Sequence[int], epsilon: float, rng: np.random.Generator) -> list[int]:
        if self.variant == "honest":
            moved = models.sensitivity(len(table), domain, "R")
            return several(models.pair_scores(table, domain, "R"), moved, epsilon, self.edges, rng)
        scores, moved = models.pair_scores(table, domain, "I"), models.sensitivity(len(table), domain, "I")
        kept = sorted(passed(scores, self.thresholds(domain), 2.0 * moved / epsilon, rng))
        return [kept[i] for i in several(scores[kept], moved, epsilon / 2.0, self.edges, rng)] if kept else []


def worst_loss(d: int, n: int, epsilon: float, strength: float = 0.2) -> float:
    """Return a privacy loss of JTree's published filter on d binary columns, by two tables and an event.

    n - 1 rows of zeros and (1..1, 0..0), against (0..0, 1..1): every pair of one half has the mutual information
    ΔI or 0. The event is that no pair of the first half passes and all of the second do.
    """
    moved, count = models.sensitivity(n, (2, 2), "I"), math.comb(d // 2, 2)
    scale, least = 2.0 * moved / epsilon, strength**2 / 2.0
    # The threshold's noise, and pairs' scores less the threshold, over the scale.
    at, low, high = np.linspace(-60.0, 60.0, 240_001), -least / scale, (moved - least) / scale
    near, far = (np.logaddexp.reduce(-np.abs(at) + count * (stats.laplace.logcdf(at - a) + stats.laplace.logsf(at - b)))
                 for a, b in ((low, high), (high, low)))
    return float(near - far)
