"""What the second round measures: tables and products of scores, from the released distributions of the columns."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from trigmech.functions.contrasts import contrasts
from trigmech.functions.released_column import ReleasedColumn
from trigmech.planning.contrasted import most_cells
from trigmech.planning.tables import SCORE_BITS, TableDesign

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

# Cells of equal mass are so many that the noise in one is about this part of 1 / cells^2, squared; a column of at most
# so many levels keeps those above the noise.
FINENESS, MOST_CELLS = 1.5, 48
# All tables together.
MOST_ENTRIES = 2**18


@dataclass(frozen=True, eq=False)
class DependenceDesign:
    """Tables and products of the second round. Public; made from public numbers and released ones.

    Parameters
    ----------
    maps : tuple of ndarray (size,) of int
        For each column, the cell of each of its positions.
    tables : ndarray (t, 2) of int
        Columns.
    weights : ndarray (t,)
        Of the tables' frequencies.
    scores : tuple of ndarray (size, q_j) of int
        s_a 2^15 of each column at its positions, or its contrasts; see :mod:`trigmech.planning.tables`.
    pairs : ndarray (p, 2) of int
        Columns; of each pair the means of all products of a score of each are measured.
    product_weight : float
        Of each of these means.
    """

    maps: tuple[Integers, ...]
    tables: Integers
    weights: Array
    scores: tuple[Integers, ...]
    pairs: Integers
    product_weight: float

    @cached_property
    def shapes(self) -> list[tuple[int, int]]:
        """The shape of each table."""
        cells = [int(each.max()) + 1 for each in self.maps]
        return [(cells[j], cells[h]) for j, h in self.tables.tolist()]

    @cached_property
    def features(self) -> list[Array]:
        """The scores (size, q) of each column as numbers."""
        return [score / 2.0**SCORE_BITS for score in self.scores]

    @cached_property
    def factors(self) -> Integers:
        """Of each product (K, 4): the two columns, and which score of each."""
        counts = [score.shape[1] for score in self.scores]
        found = [(j, h, a, b) for j, h in self.pairs.tolist() for a in range(counts[j]) for b in range(counts[h])]
        return np.array(found, dtype=np.int64).reshape(-1, 4)

    @property
    def places(self) -> Integers:
        """Where both factors of each product (K, 2) are among the scores of all columns."""
        starts = np.cumsum([0, *(score.shape[1] for score in self.scores)])
        return starts[self.factors[:, :2]] + self.factors[:, 2:]

    @property
    def contrasted(self) -> bool:
        """Whether the scores are contrasts of the cells, and their products all that is measured."""
        return len(self.tables) == 0

    @property
    def size(self) -> int:
        """How many numbers are measured."""
        return sum(a * b for a, b in self.shapes) + len(self.factors)

    def weighted(self, tables: Sequence[Array], products: Array) -> Array:
        """Return frequencies and means as the vector that is released."""
        parts = [weight * table.ravel() for weight, table in zip(self.weights, tables, strict=True)]
        return np.concatenate([*parts, self.product_weight * products])

    def parted(self, vector: Array) -> tuple[tuple[Array, ...], Array]:
        """Return tables and products (K,) from such a vector."""
        stops = np.cumsum([a * b for a, b in self.shapes], dtype=np.int64)
        parts = np.split(vector, stops)
        tables = tuple(part.reshape(shape) / weight for part, shape, weight in zip(parts, self.shapes, self.weights,
                                                                                  strict=False))
        # Without pairs there is nothing to divide, nor a weight.
        return tables, parts[-1] / (self.product_weight or 1.0)

    def sensitivity(self, law: str) -> float:
        """Return n times how far the released vector moves at most; see :mod:`trigmech.planning.tables`.

        In L2 for Gaussian noise, in L1 for Laplace noise, in max norm for that of law "linf".
        """
        length = self.product_weight * _largest(self.scores) * len(np.unique(self.pairs))
        if law == "gaussian":
            return math.sqrt(2.0 * float(self.weights @ self.weights) + length**2)
        if law == "linf":
            most = max(int(np.abs(each).max(initial=0)) for each in self.scores)
            return max(float(self.weights.max(initial=0.0)), 2.0 * self.product_weight * most**2 / 4.0**SCORE_BITS)
        return 2.0 * float(self.weights.sum()) + length * math.sqrt(len(self.factors))


def design_dependence(design: TableDesign, columns: Sequence[ReleasedColumn]) -> DependenceDesign:
    """Return what the second round measures.

    Parameters
    ----------
    design : TableDesign
        With a charge for dependence.
    columns : sequence of ReleasedColumn

    Notes
    -----
    The error that noise of deviation s leaves in the total variation of a table of a by b cells, after its small
    singular values are shrunk, is about s sqrt(a b (a + b)). The sum over the tables, each times its importance, is
    least if weights are proportional to the cube roots of these factors.
    """
    if design.dependence is not None and design.dependence.law == "linf":
        return _by_contrasts(columns, design.dependence.scale)
    d = len(columns)
    numbers = [j for j, column in enumerate(columns) if column.partition.value is not None]
    tables = np.array(list(combinations(range(d), 2)), dtype=np.int64).reshape(-1, 2)
    pairs = np.array(list(combinations(numbers, 2)), dtype=np.int64).reshape(-1, 2)
    of_products = design.products if len(pairs) else 0.0
    if not of_products:
        pairs = pairs[:0]
    budget = math.sqrt((1.0 - of_products) / 2.0) if design.gaussian else (1.0 - of_products) / 2.0
    power = 2 if design.gaussian else 1
    even = budget / len(tables) ** (1.0 / power)
    # Of all rounds: what is kept for the last one buys precision too.
    noise = design.deviation(design.dependence) / even
    if design.selected is not None:
        noise /= math.sqrt(1.0 + 0.5 * (noise / design.deviation(design.selected)) ** 2 / len(tables))
    wanted = FINENESS / math.sqrt(2.0 * noise)
    maps = _maps(columns, wanted, noise)
    cells = np.array([int(each.max()) + 1.0 for each in maps])
    a, b = cells[tables[:, 0]], cells[tables[:, 1]]
    weights = (design.importance(tables) * np.sqrt(a * b * (a + b))) ** (1.0 / 3.0)
    weights *= budget / np.linalg.norm(weights, power)
    scores = tuple(_scores(column, design.scores if len(pairs) else 0) for column in columns)
    if not _largest(scores):
        # Of numbers with one position each all ranks are the middle one: there is nothing to measure.
        pairs, scores = pairs[:0], tuple(score[:, :0] for score in scores)
    product_weight = 0.0
    if len(pairs):
        length = _largest(scores) * len(numbers) * (1.0 if design.gaussian else math.sqrt(len(pairs)) * design.scores)
        product_weight = of_products ** (1.0 / power) / length
    return DependenceDesign(maps, tables, weights, scores, pairs, product_weight)


def _by_contrasts(columns: Sequence[ReleasedColumn], scale: float) -> DependenceDesign:
    """Return products of contrasts of all pairs, of as many cells as noise of this scale leaves to see."""

    def maps(count: int) -> tuple[Integers, ...]:
        return tuple(cells_of(column, count, 0.5 / count, count) for column in columns)

    def sizes(count: int) -> Integers:
        return np.array([int(each.max()) + 1 for each in maps(count)])

    chosen = maps(most_cells(sizes, 2.0 * scale))
    scores = tuple(contrasts(int(cells.max()) + 1)[cells] << SCORE_BITS for cells in chosen)
    pairs = np.array(list(combinations(range(len(columns)), 2)), dtype=np.int64).reshape(-1, 2)
    return DependenceDesign(chosen, pairs[:0], np.zeros(0), scores, pairs, 0.5)


def _maps(columns: Sequence[ReleasedColumn], wanted: float, noise: float) -> tuple[Integers, ...]:
    """Return the cells of all columns, fewer of them if all tables would have too many."""
    while True:
        count = int(min(max(round(wanted), 2), MOST_CELLS))
        maps = tuple(cells_of(column, count, noise) for column in columns)
        cells = np.array([int(each.max()) + 1.0 for each in maps])
        if ((cells.sum() ** 2 - (cells**2).sum()) / 2.0 <= MOST_ENTRIES) or cells.max() <= 2:
            return maps
        wanted, noise = min(wanted, float(MOST_CELLS)) * 0.8, max(noise, 1e-6) * 1.5


def _largest(scores: Sequence[Integers]) -> float:
    """Return the largest sum of squares of a position's scores."""
    squares = max((int((score**2).sum(axis=1).max(initial=0)) for score in scores), default=0)
    return squares / 4.0**SCORE_BITS


def cells_of(column: ReleasedColumn, wanted: int, noise: float, most: int | None = None) -> Integers:
    """Return the cell of each position: of numbers about equal mass; what is below the noise together.

    Of categories there are at most so many cells, if that is given: neighbours that hold less than their part together.
    """
    k, mass = len(column.partition.indicators), column.mass
    cells = np.zeros(len(mass), dtype=np.int64)
    crowded = most if most is not None and k > most else 0
    rare = mass[:k] < (1.0 / crowded if crowded else noise)
    cells[:k][~rare] = np.arange(k - int(rare.sum()))
    cells[:k][rare] = k - int(rare.sum())
    if crowded:
        cells[:k][rare] += _evenly(mass[:k][rare], crowded)
    following = int(cells[:k].max(initial=-1)) + 1
    if column.partition.value is not None:
        levels = column.partition.levels
        few = levels is not None and len(levels) <= 2 * wanted
        cells[k:] = following + _grouped(mass[k:], noise if few else max(noise, 1.0 / wanted))
    return cells


def _evenly(mass: Array, parts: int) -> Integers:
    """Return numbers from 0 for neighbours together, of about equal mass: as many as hold 1 / parts, one at least."""
    total = float(mass.sum())
    count = max(int(total * parts), 1)
    middle = (np.cumsum(mass) - 0.5 * mass) / max(total, np.finfo(float).tiny)
    return np.unique(np.minimum((count * middle).astype(np.int64), count - 1), return_inverse=True)[1].ravel()


def _grouped(mass: Array, enough: float) -> Integers:
    """Return the cell of each interval of a number: neighbours together until they hold enough."""
    cells = np.zeros(len(mass), dtype=np.int64)
    cell, held = 0, 0.0
    for i, own in enumerate(mass.tolist()):
        # What is heavy alone does not take its lighter neighbours along.
        if held > 0.0 and (held >= enough * (1.0 - 1e-9) or held + own > 1.5 * enough):
            cell, held = cell + 1, 0.0
        cells[i] = cell
        held += own
    return cells


def _scores(column: ReleasedColumn, q: int) -> Integers:
    """Return the scores (size, q) of a column's positions, in units of 2^-15."""
    values = np.zeros((len(column.mass), q))
    if column.partition.value is not None and q:
        k = len(column.partition.indicators)
        degrees = np.arange(1, q + 1)
        values[k:] = np.cos(np.pi * column.ranks[k:, None] * degrees) / degrees
    return np.rint(values * 2**SCORE_BITS).astype(np.int64)
