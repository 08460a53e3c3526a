"""Junction trees of noisy marginals: scores of pairs, triangulation, merging, consistency, sampling."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, reduce
from itertools import combinations
from typing import Self

import networkx as nx
import numpy as np

from experiments.companions.discrete import LARGEST_TABLE, Array, Codes, cells, distinct, marginal
from trigmech.errors import InputError

Columns = tuple[int, ...]


def mutual_information(joint: Array) -> float:
    """Return the mutual information, in nats, of the axis 0 of a table of shares and all its others."""
    table = joint.reshape(len(joint), -1)
    independent = np.outer(table.sum(axis=1), table.sum(axis=0))
    held = table > 0
    return float(np.sum(table[held] * np.log(table[held] / independent[held])))


def dependence(joint: Array) -> float:
    """Return R, half the L1 distance of a table of shares from that of its independent first and other axes."""
    table = joint.reshape(len(joint), -1)
    return 0.5 * float(np.abs(table - np.outer(table.sum(axis=1), table.sum(axis=0))).sum())


def information_sensitivity(n: float, binary: bool) -> float:
    """Return how far the mutual information moves at most when one of n rows is replaced."""
    if binary:
        return math.log(n) / n + (n - 1) / n * math.log(n / (n - 1))
    return 2.0 / n * math.log((n + 1) / 2) + (n - 1) / n * math.log((n + 1) / (n - 1))


def dependence_sensitivity(n: float) -> float:
    """Return how far R moves at most."""
    return 3.0 / n + 2.0 / n**2


def pairs(d: int) -> list[Columns]:
    """Return all pairs of columns, in the order of :func:`pair_scores`."""
    return list(combinations(range(d), 2))


def pair_scores(table: Codes, domain: Sequence[int], score: str) -> Array:
    """Return R ("R") or the mutual information ("I") of every pair of columns."""
    rows, counts = distinct(table)
    measure = dependence if score == "R" else mutual_information
    return np.array([measure(marginal(rows, domain, pair, counts) / len(table)) for pair in pairs(len(domain))])


def check_budget(**parts: float) -> None:
    """Refuse a part of the budget that is not positive, by its name."""
    for name, epsilon in parts.items():
        if not (epsilon > 0 and math.isfinite(epsilon)):
            raise InputError(f"{name}, a part of the budget, must be positive and finite, not {epsilon}")


def triangulated(d: int, edges: Iterable[Columns]) -> list[Columns]:
    """Return the maximal cliques of a chordal completion of a graph of d columns."""
    graph = nx.Graph(edges)
    graph.add_nodes_from(range(d))
    chordal, _ = nx.complete_to_chordal_graph(graph)
    return sorted(tuple(sorted(clique)) for clique in nx.chordal_graph_cliques(chordal))


def useful_cells(n: int, d: int, epsilon: float, usefulness: float) -> float:
    """Return how many cells a table may have if their mean count is to be `usefulness` times the scale 2d/epsilon."""
    return n * epsilon / (2.0 * d * usefulness)


def within(domain: Sequence[int], edges: Iterable[Columns], limit: float) -> list[Columns]:
    """Return the edges, each in its turn, that leave every triangulated clique at most `limit` cells.

    Post-processing of the edges and their order.
    """
    kept = list[Columns]()
    for edge in edges:
        if all(cells(domain, clique) <= limit for clique in triangulated(len(domain), [*kept, edge])
               if set(clique) & {*edge}):
            kept.append(edge)
    return kept


def tree_of(cliques: Sequence[Columns]) -> list[tuple[int, int]]:
    """Return the edges of a spanning tree of the cliques of largest total intersection: a junction tree, if any is."""
    graph = nx.Graph()
    graph.add_nodes_from(range(len(cliques)))
    graph.add_weighted_edges_from((a, b, len(set(cliques[a]) & set(cliques[b])))
                                  for a, b in combinations(range(len(cliques)), 2))
    return sorted((a, b) for a, b in nx.maximum_spanning_tree(graph).edges)


def noise_error(domain: Sequence[int], cliques: Sequence[Columns]) -> float:
    """Return the sum of all variances of counts with Lap(m / epsilon) in m cliques, times epsilon squared."""
    return 2.0 * len(cliques) ** 2 * sum(cells(domain, clique) for clique in cliques)


def merged(domain: Sequence[int], cliques: Sequence[Columns], limit: int = LARGEST_TABLE) -> list[Columns]:
    """Return the cliques, those next to each other in the tree joined while the error of the noise falls."""
    found = list(cliques)
    while True:
        choices = [[c for i, c in enumerate(found) if i not in pair]
                   + [tuple(sorted({*found[pair[0]], *found[pair[1]]}))] for pair in tree_of(found)]
        best = min((c for c in choices if cells(domain, c[-1]) <= limit), default=found,
                   key=lambda choice: noise_error(domain, choice))
        if not noise_error(domain, best) < noise_error(domain, found):
            return sorted(found)
        found = best


def keep_largest(counts: Array, total: float) -> Array:
    """Return the largest counts as far as they sum to the total, and 0 elsewhere; a smaller sum is scaled up."""
    flat = np.maximum(counts.ravel(), 0.0)
    order = np.argsort(-flat, kind="stable")
    before = np.cumsum(flat[order]) - flat[order]
    kept = np.zeros_like(flat)
    kept[order] = np.clip(total - before, 0.0, flat[order])
    share = kept.sum()
    return (kept * (total / share) if share > 0 else np.full_like(flat, total / flat.size)).reshape(counts.shape)


@dataclass(frozen=True, eq=False)
class JunctionTree:
    """Tables of cliques of columns that form a tree.

    Parameters
    ----------
    domain : sequence of int
        Sizes of the columns.
    cliques : sequence of tuple of int, ascending
        With the running intersection property, as :func:`triangulated` and :func:`merged` return them.
    tables : tuple of ndarray
        Counts, an axis for each column; by :meth:`noisy`.

    Raises
    ------
    InputError
        If a clique has more than a million cells.
    """

    domain: Sequence[int]
    cliques: Sequence[Columns]
    tables: tuple[Array, ...] = field(default=())

    def __post_init__(self) -> None:
        for clique in self.cliques:
            if (size := cells(self.domain, clique)) > LARGEST_TABLE:
                raise InputError(f"the clique of columns {', '.join(map(str, clique))} has {size:.3g} cells; at most "
                                 f"{LARGEST_TABLE} are counted")

    def noisy(self, table: Codes, epsilon: float, rng: np.random.Generator, moved: float = 2.0) -> Self:
        """Return the tree with counts + Lap(moved m / epsilon); m counts of a row move by `moved` in L1 when it is
        replaced (2), or added or removed (1)."""
        check_budget(epsilon=epsilon)
        scale = moved * len(self.cliques) / epsilon
        exact = [marginal(table, self.domain, clique) for clique in self.cliques]
        return type(self)(self.domain, self.cliques, tuple(c + rng.laplace(0.0, scale, c.shape) for c in exact))

    def non_negative(self, total: float) -> Self:
        """Return the tree with the largest counts kept."""
        return type(self)(self.domain, self.cliques, tuple(keep_largest(counts, total) for counts in self.tables))

    def consistent(self) -> Self:
        """Return the tree with tables that agree on what they share, by least squares; smallest intersections first."""
        tables = list(self.tables)
        shared = {frozenset(a) & frozenset(b) for a, b in combinations(self.cliques, 2)}
        while more := {a & b for a, b in combinations(shared, 2)} - shared:
            shared |= more
        for common in sorted(shared, key=lambda columns: (len(columns), sorted(columns))):
            over = [i for i, clique in enumerate(self.cliques) if common <= set(clique)]
            rest = {i: tuple(a for a, j in enumerate(self.cliques[i]) if j not in common) for i in over}
            size = {i: math.prod(self.tables[i].shape[a] for a in rest[i]) for i in over}
            sums = {i: tables[i].sum(axis=rest[i], keepdims=True) for i in over}
            flat = [sums[i].ravel() / size[i] for i in over]
            agreed = reduce(np.add, flat) / sum(1.0 / size[i] for i in over)
            for i in over:
                tables[i] = tables[i] + (agreed.reshape(sums[i].shape) - sums[i]) / size[i]
        return type(self)(self.domain, self.cliques, tuple(tables))

    @cached_property
    def order(self) -> list[tuple[int, Columns]]:
        """The cliques from the largest one outwards, each with its separator."""
        graph = nx.Graph(tree_of(self.cliques))
        graph.add_nodes_from(range(len(self.cliques)))
        root = max(range(len(self.cliques)), key=lambda i: cells(self.domain, self.cliques[i]))
        parents = {child: parent for parent, child in nx.bfs_edges(graph, root)}
        return [(i, tuple(sorted(set(self.cliques[i]) & set(self.cliques[parents[i]]))) if i in parents else ())
                for i in nx.bfs_tree(graph, root)]

    def sample(self, n: int, rng: np.random.Generator) -> Codes:
        """Return n rows: the largest clique, then every other one given its separator."""
        rows = np.zeros((n, len(self.domain)), dtype=np.int64)
        for i, separator in self.order:
            new = tuple(j for j in self.cliques[i] if j not in separator)
            axes = [self.cliques[i].index(j) for j in (*separator, *new)]
            draw_given(rows, self.domain, separator, new, self.tables[i].transpose(axes), rng)
        return rows

    def marginal(self, columns: Columns) -> Array:
        """Return the joint law's shares of these columns, from the product of all tables over separators.

        By elimination of the whole joint table: for domains of at most a few million cells.
        """
        d, joint = len(self.domain), np.ones([1] * len(self.domain))
        for i, separator in self.order:
            table = self.tables[i] / max(self.tables[i].sum(), 1e-300)
            if separator:
                rest = tuple(a for a, j in enumerate(self.cliques[i]) if j not in separator)
                below = table.sum(axis=rest, keepdims=True)
                cell = math.prod(table.shape[a] for a in rest)
                table = np.where(below > 0, table / np.where(below > 0, below, 1.0), 1.0 / cell)
            joint = joint * table.reshape([self.domain[j] if j in self.cliques[i] else 1 for j in range(d)])
        summed = joint.sum(axis=tuple(j for j in range(d) if j not in columns))
        return np.asarray(summed.transpose(np.argsort(np.argsort(columns))))


def draw_given(rows: Codes, domain: Sequence[int], given: Columns, new: Columns, table: Array,
               rng: np.random.Generator) -> None:
    """Fill in the new columns of rows, drawn given others by a table of non-negative weights, axes (given, new).

    Where a whole condition has no weight the new columns are uniform.
    """
    weights = table.reshape(cells(domain, given), -1)
    weights = np.where(weights.sum(axis=1, keepdims=True) > 0, weights, 1.0)
    cumulative = np.cumsum(weights, axis=1)
    cumulative /= cumulative[:, -1:]
    condition = np.zeros(len(rows), dtype=np.int64)
    for j in given:
        condition = condition * domain[j] + rows[:, j]
    # Row c of the cumulative weights lies in (c, c + 1], so that one search serves all conditions.
    at = (cumulative + np.arange(len(weights))[:, None]).ravel()
    found = np.searchsorted(at, condition + 1.0 - rng.random(len(rows))) - condition * weights.shape[1]
    for j in reversed(new):
        found, rows[:, j] = np.divmod(np.clip(found, 0, None), domain[j])

