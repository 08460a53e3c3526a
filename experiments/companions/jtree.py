"""JTree (Chen, Xiao, Zhang and Xu 2015): pairs that pass a noisy threshold, a junction tree, noisy tables of cliques.

The filter is not private as claimed: one noisy threshold is compared with all pairs, any number of which may pass.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

import numpy as np

from experiments.companions.discrete import LARGEST_TABLE, Array, Codes, check_table
from experiments.companions.marginal_models import (
    Columns,
    JunctionTree,
    check_budget,
    information_sensitivity,
    merged,
    pair_scores,
    pairs,
    triangulated,
    useful_cells,
    within,
)

Variant = Literal["published", "honest"]


def split(epsilon: float) -> tuple[float, float]:
    """Return the parts for structure and tables: 0.1 and the rest, half each where that is less."""
    check_budget(epsilon=epsilon)
    first = 0.1 if epsilon > 0.1 else epsilon / 2.0
    return first, epsilon - first


@cache
def sampling_rate(n: int, epsilon: float, binary: bool) -> tuple[float, float]:
    """Return the rate at which sampled rows need the least noise, and the filter's scale b at it."""
    rates = np.geomspace(min(1.0, 10.0 / n), 1.0, 400)
    amplified = np.log(np.expm1(epsilon) + rates) - np.log(rates)
    scales = [2.0 * information_sensitivity(rate * n, binary) / e for rate, e in zip(rates, amplified, strict=True)]
    best = int(np.argmin(scales))
    return float(rates[best]), float(scales[best])


def thresholds(domain: Sequence[int], strength: float) -> Array:
    """Return for each pair the mutual information of Cramér's phi: phi² (the smaller domain - 1) / 2."""
    return np.array([strength**2 * (min(domain[a], domain[b]) - 1) / 2.0 for a, b in pairs(len(domain))])


def passed(scores: Array, least: Array, scale: float, rng: np.random.Generator, shared: bool) -> Array:
    """Return which noisy scores are at least their noisy thresholds; `shared`: all thresholds by one number."""
    noise = rng.laplace(0.0, scale, len(scores))
    return np.asarray(scores + noise >= least + (rng.laplace(0.0, scale) if shared else 0.0))


@dataclass(frozen=True)
class JTree:
    """Options of JTree.

    Parameters
    ----------
    variant : {"published", "honest"}
        Honest: every pair's mutual information has noise that pays for all pairs, Lap(ΔI d(d-1)/(2 ε1)), and edges
        are taken by it, the largest first, while cliques are useful by PrivBayes's rule.
    strength : float
        Cramér's phi from which a pair is kept.
    usefulness : float
        Of the honest variant: the least mean count of a cell over the noise's scale, of d cliques.
    """

    variant: Variant = "published"
    strength: float = 0.2
    usefulness: float = 4.0

    def edges(self, table: Codes, domain: Sequence[int], epsilon: float, rest: float,
              rng: np.random.Generator) -> list[Columns]:
        """Return the graph, for which epsilon is spent; `rest` will be spent on its tables."""
        binary, n, every = min(domain) == 2, len(table), pairs(len(domain))
        least = thresholds(domain, self.strength)
        if self.variant == "published":
            rate, scale = sampling_rate(n, epsilon, binary)
            sampled = table[rng.random(n) < rate] if rate < 1.0 else table
            keep = passed(pair_scores(sampled, domain, "I"), least, scale, rng, shared=True)
            return [pair for pair, kept in zip(every, keep, strict=True) if kept]
        scale = information_sensitivity(n, binary) * len(every) / epsilon
        noisy = pair_scores(table, domain, "I") + rng.laplace(0.0, scale, len(every))
        order = [i for i in np.argsort(-noisy) if noisy[i] >= least[i]]
        return within(domain, [every[i] for i in order], useful_cells(n, len(domain), rest, self.usefulness))

    def fit(self, table: Codes, domain: Sequence[int], epsilon: float, rng: np.random.Generator) -> JunctionTree:
        """Return the tree with consistent, non-negative tables."""
        first, rest = split(epsilon)
        table = check_table(table, domain)
        return fitted(table, domain, self.edges(table, domain, first, rest, rng), rest, rng)


def fitted(table: Codes, domain: Sequence[int], edges: list[Columns], epsilon: float, rng: np.random.Generator,
           moved: float = 2.0) -> JunctionTree:
    """Return the tree of a graph: triangulated, merged, noisy, and consistent."""
    tree = JunctionTree(domain, merged(domain, triangulated(len(domain), edges), LARGEST_TABLE))
    n = float(len(table))
    return tree.noisy(table, epsilon, rng, moved).non_negative(n).consistent().non_negative(n)


def worst_loss(d: int, n: int, epsilon: float, strength: float = 0.2) -> float:
    """Return a privacy loss of the published filter on d binary columns, by two tables and an event.

    n - 1 rows of zeros and (1..1, 0..0), against (0..0, 1..1): every pair of one half has the mutual information
    ΔI or 0. The event is that no pair of the first half passes and all of the second do.
    """
    moved, count = information_sensitivity(n, True), math.comb(d // 2, 2)
    scale, least = 2.0 * moved / epsilon, strength**2 / 2.0
    at = np.linspace(-60.0, 60.0, 240_001) * scale + least

    def log_above(shift: float) -> Array:
        away = (at - shift) / scale
        return np.where(away > 0, math.log(0.5) - np.abs(away), np.log1p(-0.5 * np.exp(-np.abs(away))))

    def log_below(shift: float) -> Array:
        away = (at - shift) / scale
        return np.where(away < 0, math.log(0.5) - np.abs(away), np.log1p(-0.5 * np.exp(-np.abs(away))))

    density = -np.abs(at - least) / scale
    near, far = (np.logaddexp.reduce(density + count * (log_below(a) + log_above(b)))
                 for a, b in ((0.0, moved), (moved, 0.0)))
    return float(near - far)
