"""PrivBayes (Zhang, Cormode, Procopiuc, Srivastava and Xiao 2014, 2017): a Bayesian network of noisy conditionals.

Without the generalisation of values by taxonomies. Private as published, of replace-one neighbours.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from typing import Literal

import numpy as np

from experiments import Array
from experiments.companions import marginal_models as models
from experiments.companions.discrete import cells, check_table, marginal
from experiments.companions.marginal_models import Columns
from experiments.companions.selection import exponential
from experiments.protocols.coding import Codes, compact, mixed
from trigmech._validate import check_positive
from trigmech.errors import InputError


def nearness(counts: Array) -> float:
    """Return F of integer counts, axis 0 a binary column: minus how far they are from the nearest maximal dependence.

    Each parent value goes to 0 or to 1; K_x is the share of (x, parents that went to x), and F = -min((1/2 - K_0)+
    + (1/2 - K_1)+). By dynamic programming: the largest n K_1 for each n K_0, up to n/2.
    """
    table = np.rint(counts.reshape(2, -1)).astype(np.int64)
    n = int(table.sum())
    half = (n + 1) // 2
    # The rarer value is 0, and parent values come by its counts, ascending, so that most steps are few places long.
    table = table[np.argsort(table.sum(axis=1))]
    # Places that no assignment reaches have -n - 1: they stay negative. The last place stands for all from there on.
    best, reach = np.full(half + 1, -n - 1), 0
    best[0] = 0
    for zero, one in table[:, np.argsort(table[0])].T:
        shift, reach = min(zero, half), min(reach + zero, half)
        new = best[: reach + 1] + one
        new[shift:] = np.maximum(new[shift:], best[: reach + 1 - shift])
        if reach == half:
            new[half] = max(new[half], best[half - shift:].max())
        best[: reach + 1] = new
    best = best[: reach + 1]
    missing = np.maximum(n / 2 - np.arange(reach + 1), 0.0) + np.maximum(n / 2 - best, 0.0)
    return -float(missing[best >= 0].min()) / n


@dataclass(frozen=True)
class PrivBayes:
    """Options of PrivBayes: the score, where I is the mutual information and F is for binary columns; the share of the
    budget for the network; the least mean count of a cell over the noise's scale; how many parents at most."""

    score: Literal["R", "I", "F"] = "R"
    share: float = 0.3
    usefulness: float = 4.0
    most: int = 4

    def parents(self, domain: Sequence[int], placed: Columns, size: int, limit: float) -> Iterable[Columns]:
        """Return the maximal sets of up to `most` placed columns with up to limit / size cells, or the empty set."""
        sets = [found for k in range(min(self.most, len(placed)) + 1) for found in combinations(placed, k)
                if size * cells(domain, found) <= limit]
        larger = {found[:i] + found[i + 1:] for found in sets for i in range(len(found))}
        return [found for found in sets if found not in larger] or [()]

    def fit(self, table: Codes, domain: Sequence[int], epsilon: float, rng: np.random.Generator) -> models.Network:
        """Return the network; with k = 0 all of the budget goes to independent columns."""
        if self.most > len(domain):
            raise InputError(f"{self.most} parents need more than {len(domain)} columns")
        first, rest = self.share * epsilon, (1.0 - self.share) * epsilon
        check_positive(network=first, tables=rest)
        rows, counts = compact(check_table(table, domain), domain)
        n, d, binary = len(table), len(domain), max(domain) == 2
        if self.score == "F" and not binary:
            raise InputError("the score F is for binary columns only")
        moved = 1.0 / n if self.score == "F" else models.sensitivity(n, domain, self.score)
        # Parents come with many columns one after the other.
        of_parents = lru_cache(maxsize=1)(lambda parents: mixed(rows, domain, parents))

        def measure(x: int, *parents: int) -> float:
            size = cells(domain, parents)
            exact = np.bincount(rows[:, x] * size + of_parents(parents), counts, domain[x] * size).reshape(-1, size)
            return nearness(exact.astype(np.float64)) if self.score == "F" else models.score(exact / n, self.score)

        # For binary columns: the largest useful number of parents, 0 for independent columns.
        k = max((k for k in range(1, min(d - 1, self.most) + 1)
                 if binary and n * rest / ((d - k) * 2 ** (k + 2)) >= self.usefulness), default=0)
        limit = n * rest / (2.0 * d * self.usefulness)
        known, order = dict[Columns, float](), [(int(rng.integers(d)), Columns())]
        independent = not k if binary else limit < min(a * b for a, b in combinations(domain, 2))
        while len(order) < d and not independent:
            placed = tuple(x for x, _ in order)
            left = [x for x in range(d) if x not in placed]
            choices = [(x, each) for each in combinations(placed, min(k, len(placed))) for x in left] if binary else [
                (x, each) for x in left for each in self.parents(domain, placed, domain[x], limit)]
            keys = [(x, *sorted(each)) for x, each in choices]
            known |= {key: measure(*key) for key in keys if key not in known}
            order.append(choices[exponential([known[key] for key in keys], moved, first / (d - 1), rng)])
        order += [(x, ()) for x in range(d) if x not in dict(order)]
        # With k parents each, the first k columns are among the parents of the next, whose table has theirs.
        scale, parts = 2.0 * (d - k) / (epsilon if independent else rest), list[tuple[Columns, Columns, Array]]()
        for place, (x, parents) in enumerate(order[k:]):
            exact = marginal(rows, domain, (*parents, x), counts)
            noisy = np.maximum(exact + rng.laplace(0.0, scale, exact.shape), 0.0)
            parts += [(below, (column,), models.einsum(noisy, [*parents, x], [*below, column]))
                      for column, below in (*(order[:k] if not place else ()), (x, parents))]
        return models.Network(domain, parts)
