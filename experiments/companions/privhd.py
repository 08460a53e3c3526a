"""PrivHD (Zhang, Chen, Jin and Meng 2018): a high-pass filter of pairs, then edges by the exponential mechanism.

Every pair's mutual information has noise for its own sensitivity, but all of them move together: the filter of d
columns costs d(d-1)/2 times what is claimed. The source's text has lost the filter's threshold (JTree's is taken), the
number of edges and their shares of the budget (equal ones).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from experiments.companions.discrete import Codes, check_table
from experiments.companions.jtree import Variant, fitted, passed, split, thresholds
from experiments.companions.marginal_models import (
    Columns,
    JunctionTree,
    dependence_sensitivity,
    information_sensitivity,
    pair_scores,
    pairs,
    useful_cells,
    within,
)
from experiments.companions.selection import several


@dataclass(frozen=True)
class PrivHD:
    """Options of PrivHD.

    Parameters
    ----------
    variant : {"published", "honest"}
        Honest, and private: no filter, edges drawn by R, `share` of the budget for them, counts with Lap(2m/ε2);
        edges that would make a clique too large to be useful, by PrivBayes's rule, are left out afterwards.
    edges : int
        How many are drawn.
    share : float
        Of the honest variant.
    usefulness : float
        Of the honest variant: the least mean count of a cell over the noise's scale, of d cliques.
    strength : float
        The filter's threshold, as JTree's.
    """

    variant: Variant = "published"
    edges: int = 25
    share: float = 0.3
    usefulness: float = 4.0
    strength: float = 0.2

    def kept(self, table: Codes, domain: Sequence[int], epsilon: float, rng: np.random.Generator) -> list[int]:
        """Return which pairs pass the published filter, of budget `epsilon`."""
        scale = information_sensitivity(len(table), min(domain) == 2) / epsilon
        scores = pair_scores(table, domain, "I")
        return np.flatnonzero(passed(scores, thresholds(domain, self.strength), scale, rng, shared=False)).tolist()

    def graph(self, table: Codes, domain: Sequence[int], epsilon: float, rng: np.random.Generator) -> list[Columns]:
        """Return the graph."""
        every = pairs(len(domain))
        if self.variant == "honest":
            drawn = several(pair_scores(table, domain, "R"), dependence_sensitivity(len(table)), epsilon, self.edges,
                            rng)
            rest = epsilon * (1.0 - self.share) / self.share
            limit = useful_cells(len(table), len(domain), rest, self.usefulness)
            return within(domain, [every[i] for i in drawn], limit)
        kept = self.kept(table, domain, epsilon / 2.0, rng)
        scores = pair_scores(table, domain, "I")[kept]
        moved = information_sensitivity(len(table), min(domain) == 2)
        return [every[kept[i]] for i in several(scores, moved, epsilon / 2.0, self.edges, rng)]

    def fit(self, table: Codes, domain: Sequence[int], epsilon: float, rng: np.random.Generator) -> JunctionTree:
        """Return the tree with consistent, non-negative tables."""
        honest, table = self.variant == "honest", check_table(table, domain)
        first, rest = (self.share * epsilon, (1.0 - self.share) * epsilon) if honest else split(epsilon)
        return fitted(table, domain, self.graph(table, domain, first, rng), rest, rng, 2.0 if honest else 1.0)
