"""PrivBayes (Zhang, Cormode, Procopiuc, Srivastava and Xiao 2014, 2017): a Bayesian network of noisy conditionals.

Without the generalisation of values by taxonomies. Private as printed, of replace-one neighbours.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

import numpy as np

from experiments.companions.discrete import Array, Codes, cells, check_table, distinct, marginal
from experiments.companions.marginal_models import (
    Columns,
    check_budget,
    dependence,
    dependence_sensitivity,
    draw_given,
    information_sensitivity,
    mutual_information,
    useful_cells,
)
from experiments.companions.selection import exponential
from trigmech.errors import InputError


def nearness(counts: Array) -> float:
    """Return F of integer counts, axis 0 a binary column: minus how far they are from the nearest maximal dependence.

    Each parent value goes to 0 or to 1; K_x is the share of (x, parents that went to x), and F = -min((1/2 - K_0)+
    + (1/2 - K_1)+). By dynamic programming: the largest n K_1 for each n K_0, up to n/2.
    """
    table = np.rint(counts.reshape(2, -1)).astype(np.int64)
    n = int(table.sum())
    half = (n + 1) // 2
    best = np.full(half + 1, -1, dtype=np.int64)
    best[0] = 0
    for zero, one in table.T:
        new = np.where(best >= 0, best + one, -1)
        held = np.flatnonzero(best >= 0)
        places = np.minimum(held + zero, half)
        # Only the last place, half, is reached from several.
        inside = places < half
        new[places[inside]] = np.maximum(new[places[inside]], best[held[inside]])
        new[half] = max(new[half], best[held[~inside]].max(initial=-1))
        best = new
    missing = np.maximum(n / 2 - np.arange(half + 1), 0.0) + np.maximum(n / 2 - best, 0.0)
    return -float(missing[best >= 0].min()) / n


@dataclass(frozen=True, eq=False)
class Network:
    """Columns in order, each with its parents and a table of weights, axes (parents, column)."""

    domain: Sequence[int]
    parts: tuple[tuple[int, Columns, Array], ...]

    def sample(self, n: int, rng: np.random.Generator) -> Codes:
        """Return n rows."""
        rows = np.zeros((n, len(self.domain)), dtype=np.int64)
        for column, parents, table in self.parts:
            draw_given(rows, self.domain, parents, (column,), table, rng)
        return rows


@dataclass(frozen=True)
class PrivBayes:
    """Options of PrivBayes.

    Parameters
    ----------
    score : {"R", "I", "F"}
        I is the mutual information; F is for binary columns.
    share : float
        Of the budget, for the network.
    usefulness : float
        The least mean count of a cell over the noise's scale.
    most : int
        Parents at most.
    """

    score: Literal["R", "I", "F"] = "R"
    share: float = 0.3
    usefulness: float = 4.0
    most: int = 4

    def degree(self, n: int, d: int, epsilon: float) -> int:
        """Return k for binary columns: the largest that is useful, 0 for independent columns."""
        fits = [k for k in range(1, min(d - 1, self.most) + 1)
                if n * epsilon / ((d - k) * 2 ** (k + 2)) >= self.usefulness]
        return max(fits, default=0)

    def parents(self, domain: Sequence[int], placed: Columns, size: int, limit: float) -> Iterator[Columns]:
        """Yield the maximal sets of placed columns, at most `most`, with at most limit / size cells; () if none."""
        sets = [found for k in range(min(self.most, len(placed)) + 1) for found in combinations(placed, k)
                if size * cells(domain, found) <= limit]
        larger = {found[:i] + found[i + 1:] for found in sets for i in range(len(found))}
        yield from (found for found in sets if found not in larger) if sets else [()]

    def fit(self, table: Codes, domain: Sequence[int], epsilon: float, rng: np.random.Generator) -> Network:
        """Return the network; with k = 0 all of the budget goes to independent columns."""
        if self.most > len(domain):
            raise InputError(f"{self.most} parents need more than {len(domain)} columns")
        check_budget(network=self.share * epsilon, tables=(1.0 - self.share) * epsilon)
        rows, counts = distinct(check_table(table, domain))
        n, d, binary = len(table), len(domain), max(domain) == 2
        first, rest = self.share * epsilon, (1.0 - self.share) * epsilon
        k = self.degree(n, d, rest) if binary else 0
        if self.score == "F" and not binary:
            raise InputError("the score F is for binary columns only")
        measure = {"R": dependence, "I": mutual_information, "F": nearness}[self.score]

        def score(columns: Columns) -> float:
            joint = marginal(rows, domain, columns, counts)
            return measure(joint if self.score == "F" else joint / n)

        moved = {"R": dependence_sensitivity(n), "I": information_sensitivity(n, min(domain) == 2),
                 "F": 1.0 / n}[self.score]
        limit, known = useful_cells(n, d, rest, self.usefulness), dict[Columns, float]()
        placed: Columns = (int(rng.integers(d)),)
        order: list[tuple[int, Columns]] = [(placed[0], ())]
        independent = (binary and not k) or (not binary and limit < min(a * b for a, b in combinations(domain, 2)))
        while len(placed) < d:
            left = [x for x in range(d) if x not in placed]
            if independent:
                order += [(x, ()) for x in left]
                break
            choices = [(x, each) for x in left for each in (
                combinations(placed, min(k, len(placed))) if binary
                else self.parents(domain, placed, domain[x], limit))]
            known |= {key: score(key) for x, each in choices if (key := (x, *sorted(each))) not in known}
            scores = [known[x, *sorted(each)] for x, each in choices]
            x, chosen = choices[exponential(scores, moved, first / (d - 1), rng)]
            order.append((x, chosen))
            placed = (*placed, x)
        return self._noisy(rows, counts, domain, order, epsilon if independent else rest, k, rng)

    def _noisy(self, rows: Codes, counts: Array, domain: Sequence[int], order: list[tuple[int, Columns]],
               epsilon: float, k: int, rng: np.random.Generator) -> Network:
        # With k parents each, the first k columns are among the parents of the next, whose table has theirs.
        scale = 2.0 * (len(order) - k) / epsilon
        parts = list[tuple[int, Columns, Array]]()
        for place, (x, parents) in enumerate(order[k:], start=k):
            exact = marginal(rows, domain, (*parents, x), counts)
            noisy = np.maximum(exact + rng.laplace(0.0, scale, exact.shape), 0.0)
            if place == k and k:
                for earlier, below in order[:k]:
                    kept = (*below, earlier)
                    summed = noisy.sum(axis=tuple(a for a, j in enumerate((*parents, x)) if j not in kept))
                    present = [j for j in (*parents, x) if j in kept]
                    parts.append((earlier, below, summed.transpose([present.index(j) for j in kept])))
            parts.append((x, parents, noisy))
        return Network(domain, tuple(parts))
