"""JTree (Chen, Xiao, Zhang and Xu 2015): pairs that pass a noisy threshold, a junction tree, noisy tables of cliques.

The filter is not private as claimed: one noisy threshold is compared with all pairs, any number of which may pass.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

import numpy as np
from scipy import stats

from experiments.companions import marginal_models as models
from experiments.companions.discrete import Array, Codes, check_table
from experiments.companions.selection import check_positive


def split(epsilon: float) -> tuple[float, float]:
    """Return the parts for structure and tables: 0.1 and the rest, half each where that is less."""
    check_positive(epsilon=epsilon)
    first = 0.1 if epsilon > 0.1 else epsilon / 2.0
    return first, epsilon - first


@cache
def sampling_rate(n: int, epsilon: float, binary: bool) -> tuple[float, float]:
    """Return the rate at which sampled rows need the least noise, and the filter's scale b at it."""
    rates = np.geomspace(min(1.0, 10.0 / n), 1.0, 400)
    amplified = np.log(np.expm1(epsilon) + rates) - np.log(rates)
    scales = [2.0 * models.information_sensitivity(rate * n, binary) / e
              for rate, e in zip(rates, amplified, strict=True)]
    best = int(np.argmin(scales))
    return float(rates[best]), float(scales[best])


def thresholds(domain: Sequence[int], strength: float) -> Array:
    """Return for each pair the mutual information of Cramér's phi: phi² (the smaller domain - 1) / 2."""
    return np.array([strength**2 * (min(domain[a], domain[b]) - 1) / 2.0 for a, b in models.pairs(len(domain))])


def passed(scores: Array, least: Array, scale: float, rng: np.random.Generator, shared: bool) -> Array:
    """Return which noisy scores are at least their noisy thresholds; `shared`: all thresholds by one number."""
    noise = rng.laplace(0.0, scale, len(scores))
    return np.asarray(scores + noise >= least + (rng.laplace(0.0, scale) if shared else 0.0))


@dataclass(frozen=True)
class JTree:
    """Options of JTree.

    Honest: every pair's mutual information has noise that pays for all pairs, Lap(ΔI d(d-1)/(2 ε1)), and edges are
    taken by it, the largest first, while a mean count is `usefulness` times the noise's scale, of d cliques, by
    PrivBayes's rule. `strength` is Cramér's phi from which a pair is kept.
    """

    variant: Literal["published", "honest"] = "published"
    strength: float = 0.2
    usefulness: float = 4.0

    def split(self, epsilon: float) -> tuple[float, float]:
        """Return the parts of the budget for the graph and for its tables."""
        return split(epsilon)

    @property
    def moved(self) -> float:
        """How far a clique's counts are taken to move."""
        return 2.0

    def graph(self, table: Codes, domain: Sequence[int], epsilon: float, rest: float,
              rng: np.random.Generator) -> list[models.Columns]:
        """Return the edges, for which epsilon is spent; `rest` will be spent on the tables."""
        binary, n, every = min(domain) == 2, len(table), models.pairs(len(domain))
        least = thresholds(domain, self.strength)
        if self.variant == "published":
            rate, scale = sampling_rate(n, epsilon, binary)
            sampled = table[rng.random(n) < rate] if rate < 1.0 else table
            keep = passed(models.pair_scores(sampled, domain, "I"), least, scale, rng, shared=True)
            return [every[i] for i in np.flatnonzero(keep)]
        scale = models.information_sensitivity(n, binary) * len(every) / epsilon
        noisy = models.pair_scores(table, domain, "I") + rng.laplace(0.0, scale, len(every))
        return models.within(domain, [every[i] for i in np.argsort(-noisy) if noisy[i] >= least[i]],
                             models.useful_cells(n, len(domain), rest, self.usefulness))

    def fit(self, table: Codes, domain: Sequence[int], epsilon: float,
            rng: np.random.Generator) -> models.JunctionTree:
        """Return the tree of the graph, merged, with noisy, consistent, non-negative tables."""
        (first, rest), table, n = self.split(epsilon), check_table(table, domain), float(len(table))
        edges = self.graph(table, domain, first, rest, rng)
        tree = models.JunctionTree(domain, models.merged(domain, models.triangulated(len(domain), edges)))
        return tree.noisy(table, rest, rng, self.moved).non_negative(n).consistent().non_negative(n)


def worst_loss(d: int, n: int, epsilon: float, strength: float = 0.2) -> float:
    """Return a privacy loss of the published filter on d binary columns, by two tables and an event.

    n - 1 rows of zeros and (1..1, 0..0), against (0..0, 1..1): every pair of one half has the mutual information
    ΔI or 0. The event is that no pair of the first half passes and all of the second do.
    """
    moved, count = models.information_sensitivity(n, True), math.comb(d // 2, 2)
    scale, least = 2.0 * moved / epsilon, strength**2 / 2.0
    # The threshold's noise, and pairs' scores less the threshold, over the scale.
    at, low, high = np.linspace(-60.0, 60.0, 240_001), -least / scale, (moved - least) / scale
    near, far = (np.logaddexp.reduce(-np.abs(at) + count * (stats.laplace.logcdf(at - a) + stats.laplace.logsf(at - b)))
                 for a, b in ((low, high), (high, low)))
    return float(near - far)
