"""PrivHD (Zhang, Chen, Jin and Meng 2018): a high-pass filter of pairs, then edges by the exponential mechanism.

Every pair's mutual information has noise for its own sensitivity, but all of them move together: the filter of d
columns costs d(d-1)/2 times what is claimed. The source's text has lost the filter's threshold (JTree's is taken), the
number of edges and their shares of the budget (equal ones).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from experiments.companions import marginal_models as models
from experiments.companions.discrete import Codes
from experiments.companions.jtree import JTree, passed, split, thresholds
from experiments.companions.selection import several


@dataclass(frozen=True)
class PrivHD(JTree):
    """Options of PrivHD; `edges` are drawn.

    Honest, and private: no filter, edges drawn by R, `share` of the budget for them, counts with Lap(2m/ε2); edges that
    would make a clique too large to be useful are left out afterwards. As published counts move by 1: add/remove.
    """

    edges: int = 25
    share: float = 0.3

    def split(self, epsilon: float) -> tuple[float, float]:
        """Return the parts of the budget for the graph and for its tables."""
        return (self.share * epsilon, (1.0 - self.share) * epsilon) if self.variant == "honest" else split(epsilon)

    @property
    def moved(self) -> float:
        """How far a clique's counts are taken to move."""
        return 2.0 if self.variant == "honest" else 1.0

    def graph(self, table: Codes, domain: Sequence[int], epsilon: float, rest: float,
              rng: np.random.Generator) -> list[models.Columns]:
        """Return the edges, for which epsilon is spent; `rest` will be spent on the tables."""
        every, n, d = models.pairs(len(domain)), len(table), len(domain)
        if self.variant == "honest":
            drawn = several(models.pair_scores(table, domain, "R"), models.dependence_sensitivity(n), epsilon,
                            self.edges, rng)
            return models.within(domain, [every[i] for i in drawn], models.useful_cells(n, d, rest, self.usefulness))
        moved, scores = models.information_sensitivity(n, min(domain) == 2), models.pair_scores(table, domain, "I")
        kept = np.flatnonzero(passed(scores, thresholds(domain, self.strength), 2.0 * moved / epsilon, rng, False))
        return [every[kept[i]] for i in several(scores[kept], moved, epsilon / 2.0, self.edges, rng)]
