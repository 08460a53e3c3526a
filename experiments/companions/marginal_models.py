"""Junction trees of noisy marginals: scores of pairs, triangulation, merging, consistency, sampling."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, Self

import networkx as nx
import numpy as np
from scipy import special

from experiments import Array
from experiments.companions.discrete import LARGEST_TABLE, cells, marginal
from experiments.protocols.coding import Codes, compact, mixed
from trigmech._validate import check_positive
from trigmech.errors import InputError

Columns = tuple[int, ...]


def einsum(*operands: Any, **options: Any) -> Array:
    """Return numpy's sum of products; subscripts are lists of any columns, where numpy's must be below 52."""
    columns = list(dict.fromkeys(j for each in operands if isinstance(each, list) for j in each))
    return np.asarray(np.einsum(*[[columns.index(j) for j in each] if isinstance(each, list) else each
                                  for each in operands], **options))


def score(joint: Array, which: str) -> float:
    """Return how far the first axis of a table of shares depends on the others together.

    "R": half the L1 distance from the table of independence; "I": the mutual information, in nats.
    """
    table = joint.reshape(len(joint), -1)
    apart = np.outer(table.sum(axis=1), table.sum(axis=0))
    return float(special.rel_entr(table, apart).sum() if which == "I" else 0.5 * np.abs(table - apart).sum())


def sensitivity(n: float, domain: Sequence[int], which: str) -> float:
    """Return how far such a score moves at most when one of n rows is replaced; I moves less if all are binary."""
    if which == "R":
        return 3.0 / n + 2.0 / n**2
    if max(domain) == 2:
        return math.log(n) / n + (n - 1) / n * math.log(n / (n - 1))
    return 2.0 / n * math.log((n + 1) / 2) + (n - 1) / n * math.log((n + 1) / (n - 1))


def pairs(d: int) -> list[Columns]:
    """Return all pairs of columns, in the order of :func:`pair_scores`."""
    return list(combinations(range(d), 2))


def pair_scores(table: Codes, domain: Sequence[int], which: str) -> Array:
    rows, counts = compact(table, domain)
    return np.array([score(marginal(rows, domain, pair, counts) / len(table), which) for pair in pairs(len(domain))])


def triangulated(d: int, edges: Iterable[Columns]) -> list[Columns]:
    """Return the maximal cliques of a chordal completion of a graph of d columns."""
    graph = nx.Graph(edges)
    graph.add_nodes_from(range(d))
    return sorted(tuple(sorted(c)) for c in nx.chordal_graph_cliques(nx.complete_to_chordal_graph(graph)[0]))


def eliminated(d: int, edges: Iterable[Columns]) -> list[Columns]:
    """Return the maximal cliques of PrivHD's Triangulation-Partition (its algorithm 3), in the order of elimination.

    A column that goes joins its neighbours to each other: they and it are a clique. Columns go in the reverse of
    Bigger-Clique's labels, each given to the column with most labelled neighbours, of several to the first: the text
    has the rule of the labels, but which order it means by "given" is lost.
    """
    near, labelled, found = [set[int]() for _ in range(d)], list[int](), list[frozenset[int]]()
    for a, b in edges:
        near[a].add(b)
        near[b].add(a)
    while len(labelled) < d:
        labelled.append(max({*range(d)}.difference(labelled), key=lambda j: (len(near[j].intersection(labelled)), -j)))
    for column in reversed(labelled):
        clique = frozenset({column, *near[column]})
        for other in near[column]:
            near[other] = (near[other] | clique) - {column, other}
        if not any(clique <= larger for larger in found):
            found.append(clique)
    return [tuple(sorted(clique)) for clique in found]


def bigger(domain: Sequence[int], cliques: Sequence[Columns], limit: int = LARGEST_TABLE) -> list[Columns]:
    """Return the cliques of :func:`eliminated` with the chords of PrivHD's Bigger-Clique (its algorithm 5).

    Each clique in its turn is joined to the next one that holds all columns shared with later ones. The end of the
    printed algorithm is lost. The reading here has the result of the printed example: a chord closes a cycle, so that
    two columns or more are shared; a clique is enlarged once; the error of the noise falls.
    """
    found = list(cliques)
    for at, clique in enumerate(cliques, 1):
        shared = {*clique}.intersection({j for other in cliques[at:] for j in other})
        parent = next((other for other in cliques[at:] if other in found and shared <= {*other}), None)
        if clique in found and parent and len(shared) > 1:
            both = tuple(sorted({*clique, *parent}))
            chosen = [each for each in found if each not in (clique, parent)] + [both]
            if cells(domain, both) <= limit and noise_error(domain, chosen) < noise_error(domain, found):
                found = chosen
    return sorted(found)


def within(domain: Sequence[int], edges: Iterable[Columns], limit: float) -> list[Columns]:
    """Return the edges, each in its turn, that leave every triangulated clique at most `limit` cells."""
    kept = list[Columns]()
    for edge in edges:
        if cells(domain, edge) <= limit and all(
                cells(domain, clique) <= limit for clique in triangulated(len(domain), [*kept, edge])
                if set(clique) & {*edge}):
            kept.append(edge)
    return kept


def tree_of(cliques: Sequence[Columns]) -> list[tuple[int, int]]:
    """Return the edges of a spanning tree of the cliques of largest total intersection: a junction tree, if any."""
    graph = nx.Graph()
    graph.add_nodes_from(range(len(cliques)))
    graph.add_weighted_edges_from((a, b, len({*cliques[a]} & {*cliques[b]})) for a, b in pairs(len(cliques)))
    return sorted(nx.maximum_spanning_tree(graph).edges)


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
    kept = np.zeros_like(flat)
    kept[order] = np.clip(total - (np.cumsum(flat[order]) - flat[order]), 0.0, flat[order])
    share = kept.sum()
    return (kept * (total / share) if share > 0 else np.full_like(flat, total / flat.size)).reshape(counts.shape)


def conditional(table: Array, given: int) -> Array:
    """Return the shares of each row of a table whose first axes are `given`; where a row is empty, equal ones."""
    rows = table.reshape(math.prod(table.shape[:given]), -1)
    rows = np.where(rows.sum(axis=1, keepdims=True) > 0, rows, 1.0)
    return rows / rows.sum(axis=1, keepdims=True)


@dataclass(frozen=True, eq=False)
class Network:
    """Factors of a joint law: columns, others that they are drawn given, and weights, axes (given, new)."""

    domain: Sequence[int]
    factors: Iterable[tuple[Columns, Columns, Array]]

    def sample(self, n: int, rng: np.random.Generator) -> Codes:
        rows = np.zeros((n, len(self.domain)), dtype=np.int64)
        for given, new, table in self.factors:
            cumulative = np.cumsum(conditional(table, len(given)), axis=1)
            cumulative /= cumulative[:, -1:]
            condition = mixed(rows, self.domain, given)
            # Row c of the cumulative weights lies in (c, c + 1], so that one search serves all conditions.
            at = (cumulative + np.arange(len(cumulative))[:, None]).ravel()
            found = np.searchsorted(at, condition + 1.0 - rng.random(n)) - condition * cumulative.shape[1]
            for j in reversed(new):
                found, rows[:, j] = np.divmod(np.clip(found, 0, None), self.domain[j])
        return rows


@dataclass(frozen=True, eq=False)
class JunctionTree:
    """Counts of cliques of columns, each ascending, that form a tree, as :func:`triangulated` and :func:`merged` return
    them; `domain` has the columns' sizes. InputError if a clique has more than a million cells."""

    domain: Sequence[int]
    cliques: Sequence[Columns]
    tables: Sequence[Array] = ()

    def __post_init__(self) -> None:
        for clique in self.cliques:
            if (size := cells(self.domain, clique)) > LARGEST_TABLE:
                raise InputError(f"the clique of columns {', '.join(map(str, clique))} has {size:.3g} cells; at most "
                                 f"{LARGEST_TABLE} are counted")

    def noisy(self, table: Codes, epsilon: float, rng: np.random.Generator, moved: float = 2.0) -> Self:
        """Return the tree with counts + Lap(moved m / epsilon); a row moves each of m tables by `moved` in L1."""
        check_positive(epsilon=epsilon)
        exact = [marginal(table, self.domain, clique) for clique in self.cliques]
        scale = moved * len(exact) / epsilon
        return replace(self, tables=[c + rng.laplace(0.0, scale, c.shape) for c in exact])

    def non_negative(self, total: float) -> Self:
        return replace(self, tables=[keep_largest(counts, total) for counts in self.tables])

    def consistent(self) -> Self:
        """Return the tree with tables that agree on shared columns, by least squares; smallest intersections first."""
        tables, shared = list(self.tables), {frozenset(a) & frozenset(b) for a, b in combinations(self.cliques, 2)}
        while more := {a & b for a, b in combinations(shared, 2)} - shared:
            shared |= more
        for common in sorted(shared, key=lambda columns: (len(columns), sorted(columns))):
            over = [i for i, clique in enumerate(self.cliques) if common <= set(clique)]
            sums = {i: tables[i].sum(axis=tuple(a for a, j in enumerate(self.cliques[i]) if j not in common),
                                     keepdims=True) for i in over}
            size = {i: tables[i].size / sums[i].size for i in over}
            agreed = sum(sums[i].ravel() / size[i] for i in over) / sum(1.0 / size[i] for i in over)
            for i in over:
                tables[i] = tables[i] + (agreed.reshape(sums[i].shape) - sums[i]) / size[i]
        return replace(self, tables=tables)

    def factors(self) -> Iterator[tuple[Columns, Columns, Array]]:
        """Yield of each clique, from the largest one outwards, its separator, other columns and table, axes so."""
        graph = nx.Graph(tree_of(self.cliques))
        graph.add_nodes_from(range(len(self.cliques)))
        root = max(range(len(self.cliques)), key=lambda i: cells(self.domain, self.cliques[i]))
        for i, parent in ((root, None), *nx.bfs_predecessors(graph, root)):
            clique = self.cliques[i]
            separator = () if parent is None else tuple(sorted({*clique} & {*self.cliques[parent]}))
            new = tuple(j for j in clique if j not in separator)
            yield separator, new, einsum(self.tables[i], list(clique), [*separator, *new])

    def sample(self, n: int, rng: np.random.Generator) -> Codes:
        return Network(self.domain, self.factors()).sample(n, rng)

    def marginal(self, columns: Columns) -> Array:
        """Return the joint law's shares of these columns, from the product of all tables over separators."""
        operands = list[Any]()
        for separator, new, table in self.factors():
            operands += [conditional(table, len(separator)).reshape(table.shape), [*separator, *new]]
        return einsum(*operands, list(columns), optimize="greedy")
