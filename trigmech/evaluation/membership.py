"""NON-PRIVATE. A membership attack: are synthetic rows nearer to rows of the table than to rows of other people?

The attacker has the synthetic rows, and scores a person's row by its distance to the nearest one [1]_. Rows of the
table and rows of other people of the same population are scored. The AUC is the probability that a row of the table is
nearer than a row of another person; an interval is that of DeLong et al. [2]_. The maintained library for such attacks,
anonymeter 1.1, requires NumPy below 1.27, and this package does not run with it; so these few lines are its own.

References
----------
.. [1] D. Chen, N. Yu, Y. Zhang, M. Fritz, "GAN-Leaks: a taxonomy of membership inference attacks against generative
   models", CCS 2020 (the black-box attack).
.. [2] E. R. DeLong, D. M. DeLong, D. L. Clarke-Pearson, "Comparing the areas under two or more correlated receiver
   operating characteristic curves", Biometrics 44 (1988).
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from trigmech._arrays import Array
from trigmech.functions.ranks import ranks

# At most so many rows of either side are scored, by their distances to so many synthetic ones.
MOST_SCORED, MOST_ROWS, LEVEL = 2_000, 20_000, 0.95
# Fewer rows tell nothing.
FEWEST = 20


@dataclass(frozen=True)
class Attack:
    """The result of a membership attack; private.

    auc: From 0 to 1; 0.5 if the attacker can only guess.
    low, high: Its interval of 95 %, from 0 to 1.
    members, others: How many rows of the table and of other people were scored.
    """

    auc: float
    low: float
    high: float
    members: int
    others: int

    def __repr__(self) -> str:
        return "Attack(private)"

    @property
    def words(self) -> str:
        """How to read it, in one sentence."""
        said = "Rows of the table are nearer to synthetic rows than rows of other people are: look for a leak" if (
            self.low > 0.5) else "This attack does not distinguish rows of the table from rows of other people"
        return (f"{said}. AUC {self.auc:.3f}, 95 % interval {self.low:.3f} to {self.high:.3f}; 0.5 means guessing; "
                f"{self.members:,} rows of the table and {self.others:,} of other people were scored.")


def attacked(made: Array, members: Array, others: Array, rng: np.random.Generator) -> Attack:
    """Return how well distances to synthetic rows tell members of the table from other people; private.

    members (n, D), private: Rows of the table. At least 20.
    others (k, D), private: Rows of other people of the same population, who are not in the table. At least 20.

    Privacy: NONE. Cost: at most 4,000 times 20,000 distances, some seconds.
    """
    from sklearn.neighbors import NearestNeighbors

    found = NearestNeighbors(n_neighbors=1, algorithm="brute").fit(_drawn(made, MOST_ROWS, rng))
    # An attacker prefers near rows.
    scores = [-found.kneighbors(_drawn(rows, MOST_SCORED, rng))[0][:, 0] for rows in (members, others)]
    return Attack(*auc_of(*scores), len(scores[0]), len(scores[1]))


def auc_of(first: Array, second: Array) -> tuple[float, float, float]:
    """Return the AUC of scores (n,) above others (k,), ties counting half, and its 95 % interval by DeLong et al."""
    n, k = len(first), len(second)
    together = ranks(np.concatenate([first, second]))
    # For each score, the part of the other side that is below it.
    below = (together[:n] - ranks(first)) / k
    above = 1.0 - (together[n:] - ranks(second)) / n
    auc = float(below.mean())
    error = float(ndtri(0.5 + LEVEL / 2.0)) * math.sqrt(below.var(ddof=1) / n + above.var(ddof=1) / k)
    return auc, max(auc - error, 0.0), min(auc + error, 1.0)


def _drawn(rows: Array, most: int, rng: np.random.Generator) -> Array:
    return rows if len(rows) <= most else rows[rng.choice(len(rows), most, replace=False)]
