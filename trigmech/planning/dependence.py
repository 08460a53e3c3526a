"""What the second round measures: tables and products of scores, from the released distributions of the columns."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from trigmech.planning.tables import MOST_CELLS, SCORE_BITS, TableDesign
from trigmech.reconstruction.columns import ReleasedColumn

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

SCORES = 3
FINENESS = 1.5


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
    scores : tuple of ndarray (size, q) of int
        s_a 2^15 of each column at its positions.
    pairs : ndarray (p, 2) of int
        Columns of numbers.
    product_weight : float
    """

    maps: tuple[Integers, ...]
    tables: Integers
    weights: Array
    scores: tuple[Integers, ...]
    pairs: Integers
    product_weight: float

    @cached_property
    def cells(self) -> list[int]:
        """The number of cells of each column."""
        return [int(cells.max()) + 1 for cells in self.maps]

    @cached_property
    def shapes(self) -> list[tuple[int, int]]:
        """The shape of each table."""
        return [(self.cells[j], self.cells[h]) for j, h in self.tables.tolist()]


def design_dependence(design: TableDesign, columns: Sequence[ReleasedColumn]) -> DependenceDesign:
    """Return what the second round measures."""
    assert design.dependence is not None
    d = len(columns)
    numbers = [j for j, column in enumerate(columns) if column.partition.value is not None]
    tables = np.array(list(combinations(range(d), 2)), dtype=np.int64).reshape(-1, 2)
    pairs = np.array(list(combinations(numbers, 2)), dtype=np.int64).reshape(-1, 2)
    of_products = design.products
    if not len(pairs) or not of_products:
        pairs, of_products = pairs[:0], 0.0
    if design.gaussian:
        weights = np.full(len(tables), math.sqrt((1.0 - of_products) / (2.0 * len(tables))))
    else:
        weights = np.full(len(tables), (1.0 - of_products) / (2.0 * len(tables)))
    deviation = design.dependence.scale * (1.0 if design.gaussian else math.sqrt(2.0)) / weights[0]
    wanted = int(min(max(round(FINENESS / math.sqrt(2.0 * deviation)), 2), MOST_CELLS))
    maps = tuple(_cells(column, wanted, deviation) for column in columns)
    scores = tuple(_scores(column, SCORES if len(pairs) else 0) for column in columns)
    largest = max((float((score.astype(np.float64) ** 2).sum(axis=1).max()) for score in scores), default=0.0)
    largest /= 4.0**SCORE_BITS
    product_weight = 0.0
    if len(pairs):
        length = largest * len(numbers) * (1.0 if design.gaussian else math.sqrt(len(pairs) * SCORES**2))
        product_weight = (math.sqrt(of_products) if design.gaussian else of_products) / length
    return DependenceDesign(maps, tables, weights, scores, pairs, product_weight)


def _cells(column: ReleasedColumn, wanted: int, noise: float) -> Integers:
    """Return the cell of each position: of numbers about equal mass; what is below the noise together."""
    k, mass = len(column.partition.indicators), column.mass
    cells = np.zeros(len(mass), dtype=np.int64)
    frequent = np.flatnonzero(mass[:k] >= noise)
    rare = np.flatnonzero(mass[:k] < noise)
    cells[frequent] = np.arange(len(frequent))
    following = len(frequent)
    if len(rare):
        cells[rare] = following
        following += 1
    if column.partition.value is not None:
        levels = column.partition.levels
        few = levels is not None and len(levels) <= MOST_CELLS
        cells[k:] = following + _grouped(mass[k:], noise if few else max(noise, 1.0 / wanted))
    return cells


def _grouped(mass: Array, enough: float) -> Integers:
    """Return the cell of each interval of a number: neighbours together until they hold enough."""
    cells = np.zeros(len(mass), dtype=np.int64)
    cell, held = 0, 0.0
    for i, own in enumerate(mass):
        # What is heavy alone does not take its lighter neighbours along.
        if held > 0.0 and (held >= enough * (1.0 - 1e-9) or held + own > 1.5 * enough):
            cell, held = cell + 1, 0.0
        cells[i] = cell
        held += float(own)
    return cells


def _scores(column: ReleasedColumn, q: int) -> Integers:
    """Return the scores (size, q) of a column's positions, in units of 2^-15."""
    values = np.zeros((len(column.mass), q))
    if column.partition.value is not None and q:
        k = len(column.partition.indicators)
        degrees = np.arange(1, q + 1)
        values[k:] = np.cos(np.pi * column.ranks[k:, None] * degrees) / degrees
    return np.rint(values * 2**SCORE_BITS).astype(np.int64)
