"""The queries of the second round: tables and products of scores, by the released distributions of the columns."""

import math
from collections.abc import Sequence
from itertools import combinations, pairwise

import numpy as np

from trigmech._arrays import Array, Integers
from trigmech.functions.contrasts import contrasts
from trigmech.functions.partition import scored_columns
from trigmech.functions.released_column import SLACK, ReleasedColumn
from trigmech.planning.contrasted import best_cells
from trigmech.planning.tables import MOST_ENTRIES, TableDesign
from trigmech.queries.base import Measurement
from trigmech.queries.directions import SCORE_BITS as DIRECTION_BITS
from trigmech.queries.directions import Directions
from trigmech.queries.joint import SCORE_BITS, Marginal, Products, largest_squares

Joint = Measurement[Marginal] | Measurement[Products] | Measurement[Directions]

# A column gets about FINENESS / sqrt(2 s) cells of equal mass, for noise of deviation s, and at most MOST_CELLS. There
# can be up to FINEST while all tables together have about ENTRIES_OF_FEW entries at most: few columns are soon fitted.
# Laplace's noise is not drawn again for the tables that are above it, so fewer cells are better (FEWER).
FINENESS, FEWER, MOST_CELLS, FINEST, ENTRIES_OF_FEW = 1.5, 1.0, 48, 128, 2**16
# A cell of a number is cut where this takes away all but the fraction TOGETHER of the variance of its values: there is
# a gap with rows on both sides, as between ordinary values and rare ones far off. A cut takes away three quarters of
# the variance of evenly spread values, and about two thirds in tails.
TOGETHER = 0.05
# Scores of presence in directions, as a part of normal scores: smaller ones would be lost in noise, and larger ones
# leave less of the length of a direction to the normal scores.
OF_PRESENCE = 0.7


def design_dependence(design: TableDesign, columns: Sequence[ReleasedColumn]) -> tuple[Joint, ...]:
    """Return the queries of the second round: tables of all pairs with products of ranks, or products of contrasts.

    The design must have a charge for dependence.

    Take a table of a by b cells with noise of deviation s, whose small singular values are shrunk. The remaining error
    in total variation is about s sqrt(a b (a + b)). The sum of these errors over the tables, each times its importance,
    is least if the weights are proportional to the cube roots of importance times sqrt(a b (a + b)).
    """
    if design.dependence is not None and design.dependence.law == "linf":
        return _by_contrasts(columns, design.dependence.scale)
    d = len(columns)
    scored = scored_columns([column.partition for column in columns], design.gaussian)
    tables = np.array(list(combinations(range(d), 2)), dtype=np.int64).reshape(-1, 2)
    pairs = np.array(list(combinations(scored, 2)), dtype=np.int64).reshape(-1, 2)
    # If delta is 0, shares without scores leave tables alone.
    directed = design.scores == 0 and d > 1 and design.gaussian
    of_products = design.products if len(pairs) or directed else 0.0
    if not of_products or directed:
        pairs = pairs[:0]
    budget = math.sqrt((1.0 - of_products) / 2.0) if design.gaussian else (1.0 - of_products) / 2.0
    power = 2 if design.gaussian else 1
    even = budget / len(tables) ** (1.0 / power)
    # The noise after all rounds, because the last round adds precision.
    noise = design.deviation(design.dependence) / even
    if design.selected is not None:
        noise /= math.sqrt(1.0 + 0.5 * (noise / design.deviation(design.selected)) ** 2 / len(tables))
    wanted = (FINENESS if design.gaussian else FEWER) / math.sqrt(2.0 * noise)
    maps = _maps(columns, wanted, noise)
    cells = np.array([int(each.max()) + 1.0 for each in maps])
    a, b = cells[tables[:, 0]], cells[tables[:, 1]]
    weights = (design.importance(tables) * np.sqrt(a * b * (a + b))) ** (1.0 / 3.0)
    weights *= budget / np.linalg.norm(weights, power)
    partitions = tuple(column.partition for column in columns)
    asked: list[Joint] = [
        Measurement(Marginal((j, h), (partitions[j], partitions[h]), (maps[j], maps[h])), weight)
        for (j, h), weight in zip(tables.tolist(), weights.tolist(), strict=True)]
    if directed and of_products:
        asked.append(Measurement(directions_of(columns), math.sqrt(of_products) * (1.0 - 2.0**-26)))
    scores = tuple(_scores(column, design.scores if len(pairs) and j in scored else 0)
                   for j, column in enumerate(columns))
    if design.gaussian and len(pairs):
        scores = _with_absence(columns, scores)
    # If each number has a single position, all scores are 0, and products need no measurement.
    if len(pairs) and largest_squares(scores).any():
        products = Products(partitions, scores, pairs)
        length = products.diameter("L2" if design.gaussian else "L1")
        asked.append(Measurement(products, of_products ** (1.0 / power) / length))
    return tuple(asked)


def directions_of(columns: Sequence[ReleasedColumn]) -> Directions:
    """Return the directions of rows: normal scores, and scores of presence where numbers are often absent."""
    second = [column.presence_scores for column in columns]
    presence = tuple(j for j, own in enumerate(second) if own is not None)
    values = [column.normal_scores for column in columns]
    values += [OF_PRESENCE * own for own in second if own is not None]
    return Directions(tuple(column.partition for column in columns), tuple(
        np.rint(own * 2**DIRECTION_BITS).astype(np.int64) for own in values), presence)


def _by_contrasts(columns: Sequence[ReleasedColumn], scale: float) -> tuple[Joint, ...]:
    """Return products of contrasts of all pairs, in as many cells as are predicted to show the most dependence."""

    def maps(*wanted: int) -> tuple[Integers, ...]:
        counts = [wanted[column.partition.value is None] for column in columns]
        return tuple(cells_of(column, count, 0.5 / count, count) for column, count in zip(columns, counts, strict=True))

    def sizes(*wanted: int) -> Integers:
        return np.array([int(each.max()) + 1 for each in maps(*wanted)])

    numbers = sum(column.partition.value is not None for column in columns)
    chosen = maps(*best_cells(sizes, numbers, 2.0 * scale)[:2])
    scores = tuple(contrasts(int(cells.max()) + 1)[cells] << SCORE_BITS for cells in chosen)
    pairs = np.array(list(combinations(range(len(columns)), 2)), dtype=np.int64).reshape(-1, 2)
    partitions = tuple(column.partition for column in columns)
    return (Measurement(Products(partitions, scores, pairs, True, chosen), 0.5),)


def _maps(columns: Sequence[ReleasedColumn], wanted: float, noise: float) -> tuple[Integers, ...]:
    """Return the cells of all columns. There are fewer cells if all tables together would have too many entries."""
    pairs = max(len(columns) * (len(columns) - 1) // 2, 1)
    most = float(np.clip(math.sqrt(ENTRIES_OF_FEW / pairs), MOST_CELLS, FINEST))
    while True:
        count = int(min(max(round(wanted), 2), most))
        maps = tuple(cells_of(column, count, noise) for column in columns)
        cells = np.array([int(each.max()) + 1.0 for each in maps])
        if ((cells.sum() ** 2 - (cells**2).sum()) / 2.0 <= MOST_ENTRIES) or cells.max() <= 2:
            return maps
        wanted, noise = min(wanted, most) * 0.8, max(noise, 1e-6) * 1.5


def cells_of(column: ReleasedColumn, wanted: int, noise: float, most: int | None = None) -> Integers:
    """Return the cell of each position.

    The cells of a number have about equal mass, and no cell spans a gap between values that are each above the noise.
    Categories below the noise share a cell. With ``most``, there are at most so many cells: no cell is cut at a gap,
    and neighbouring categories with a small mass share one.
    """
    k, mass = len(column.partition.indicators), column.mass
    cells = np.zeros(len(mass), dtype=np.int64)
    crowded = most if most is not None and k > most else 0
    rare = mass[:k] < ((1.0 - SLACK) / crowded if crowded else noise)
    cells[:k][~rare] = np.arange(k - int(rare.sum()))
    cells[:k][rare] = k - int(rare.sum())
    if crowded:
        cells[:k][rare] += evenly(mass[:k][rare], crowded)
    following = int(cells[:k].max(initial=-1)) + 1
    if column.partition.value is not None:
        levels = column.partition.levels
        few = levels is not None and len(levels) <= 2 * wanted
        own = _grouped(mass[k:], noise if few else max(noise, 1.0 / wanted))
        if most is None:
            own = _cut_at_gaps(own, mass[k:], column.partition.edges, noise)
        cells[k:] = following + own
    return cells


def evenly(mass: Array, parts: int) -> Integers:
    """Return the numbers, from 0, of groups of neighbours with about equal mass.

    Each group holds about 1 / parts of all mass. There is at least one group.
    """
    total = float(mass.sum())
    count = max(int(total * parts + SLACK), 1)
    middle = (np.cumsum(mass) - 0.5 * mass) / max(total, np.finfo(float).tiny)
    return np.unique(np.minimum((count * middle + SLACK).astype(np.int64), count - 1), return_inverse=True)[1].ravel()


def _grouped(mass: Array, enough: float) -> Integers:
    """Return the cell of each interval of a number. Neighbours share a cell until it holds enough mass."""
    cells = np.zeros(len(mass), dtype=np.int64)
    cell, held = 0, 0.0
    for i, own in enumerate(mass.tolist()):
        # A heavy interval gets its own cell, without its lighter neighbours.
        if held > 0.0 and (held >= enough * (1.0 - SLACK) or held + own > 1.5 * enough * (1.0 + SLACK)):
            cell, held = cell + 1, 0.0
        cells[i] = cell
        held += own
    return cells


def _cut_at_gaps(cells: Integers, mass: Array, edges: Array, least: float) -> Integers:
    """Return the cells (c,) of intervals, cut at each gap that has at least the mass ``least`` on both sides."""
    starts = np.flatnonzero(np.diff(cells, prepend=-1)).tolist()
    cuts = [cut for a, b in pairwise([*starts, len(cells)]) for cut in _gaps(mass[a:b], edges[a : b + 1], least, a)]
    return cells + np.searchsorted(np.array(sorted(cuts)), np.arange(len(cells)), side="right")


def _gaps(mass: Array, edges: Array, least: float, first: int) -> list[int]:
    """Return the intervals that begin after a gap in a cell. ``first`` is the number of the cell's first interval."""
    middles = 0.5 * (edges[1:] + edges[:-1]) - edges[0]
    moments = np.stack([mass, mass * middles, mass * (middles**2 + np.diff(edges) ** 2 / 12.0)])
    left = np.cumsum(moments, axis=1)
    right = left[:, -1:] - left
    held = np.flatnonzero((left[0] >= least * (1.0 - SLACK)) & (right[0] >= least * (1.0 - SLACK)))
    if not len(held):
        return []
    within = sum(each[2, held] - each[1, held] ** 2 / each[0, held] for each in (left, right))
    whole = left[2, -1] - left[1, -1] ** 2 / left[0, -1]
    # Where values differ by less than rounding there is no gap.
    if not 0.0 <= within.min() <= TOGETHER * whole:
        return []
    # Cuts before and after empty intervals are equally good, and rounding must not choose between them.
    cut = int(held[np.flatnonzero(within <= within.min() + SLACK * whole)[0]]) + 1
    return [*_gaps(mass[:cut], edges[: cut + 1], least, first), first + cut,
            *_gaps(mass[cut:], edges[cut:], least, first + cut)]


def _with_absence(columns: Sequence[ReleasedColumn], scores: Sequence[Integers]) -> tuple[Integers, ...]:
    """Return scores with another one for numbers that are often absent: of special and missing values alone.

    The other scores are 0 there, so that the largest sum of squares, and with it all noise, stays as it is.
    """
    told = [column.presence_scores for column in columns]
    sizes = [min(math.isqrt(int((own**2).sum(axis=1).max(initial=0))), 2**SCORE_BITS) for own in scores]
    return tuple(own if scored is None else np.column_stack([own, size * (scored < 0.0)])
                 for scored, own, size in zip(told, scores, sizes, strict=True))


def _scores(column: ReleasedColumn, q: int) -> Integers:
    """Return the scores (size, q) of a column's positions, in units of 2^-15: q cosines of the ranks.

    Categories have one score: there are two of them, so any other score would say the same.
    """
    if column.partition.value is None:
        q = min(q, 1)
    values, k = np.zeros((len(column.mass), q)), column.special
    degrees = np.arange(1, q + 1)
    values[k:] = np.cos(np.pi * column.ranks[k:, None] * degrees) / degrees
    return np.rint(values * 2**SCORE_BITS).astype(np.int64)
