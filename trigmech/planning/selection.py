"""The last round: it measures tables of two and three columns that deserve more precision.

Let S be the dependence of a table: its total variation from the prediction without it. Measured with precision p, the
table has an error of about S e / sqrt(S^2 + e^2) after shrinkage. Here e = c / sqrt(p) is the error of noise alone, and
c grows with the number of cells. The sum of all tables' errors, each times its importance i, is convex in the
precisions. For a given sum of precisions it is least where p = k (i c)^(2/3) - (c / S)^2, with one k for all tables
that get more precision.

For a pair, S comes from the first measurement after shrinkage. For three columns only their pairs are known before. So
S is assumed to be a fraction of the geometric mean of the two weaker pairs. Two columns can matter together for a
target column without any dependence between them. So if one of the three columns is a target, S is a fraction of the
geometric mean of its two pairs.

If one column nearly determines another, most cells of their table are empty, and the occupied cells have little noise
(:mod:`trigmech.reconstruction.sparse`). Then the cells are coarser than necessary. Half of the round measures such
tables again at the resolution of the columns' positions. It measures as many of them as keep their occupied cells clear
of noise.

Cells of equal mass hide the tails of a column: the last one can hold a tenth of its variance. Where two numbers with
such tails are correlated (two delays), half of their correlation in the tails is lost. These pairs are measured again
by cells with equal shares of the columns' variances, beside the sparse tables and with the same precision.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np

from trigmech._arrays import Array, Integers
from trigmech.functions.released_column import ReleasedColumn
from trigmech.planning.dependence import FINENESS, cells_of, evenly
from trigmech.planning.tables import (
    MOST_ENTRIES,
    MOST_FINE_ENTRIES,
    MOST_PLACES,
    MOST_TAIL_PLACES,
    MOST_TRIPLES,
    TableDesign,
)
from trigmech.queries.base import Measurement
from trigmech.queries.joint import Marginal

# The root mean square of the dependence of three columns in real tables, relative to that of their weaker pairs; and
# relative to the two pairs of a target column.
OF_THE_PAIRS, OF_THE_CROSSED = 0.2, 0.4
# A table is sparse if it has at most NEARLY occupied cells for each cell of a column. At most MOST_FINER sparse tables,
# with at most MOST_FINE_ENTRIES entries together, are measured again at the resolution of positions. They get the
# fraction FINER of the last round. Then an occupied cell holds at least CLEAR_OF_NOISE standard deviations of noise.
NEARLY, MOST_FINER, FINER, CLEAR_OF_NOISE = 2.5, 8, 0.5, 4.0
# At most MOST_TAILS pairs are measured by cells of equal shares of the variance, TAIL_CELLS of them for a number. Noise
# is small: the first table has as many cells, or it has no more noise than tables of so many cells, and at least
# LEAST_CELLS because most rows are at few values. Its cells hide at least HIDDEN of the variance of both numbers, whose
# correlation is at least CORRELATED and clear of its own noise.
MOST_TAILS, TAIL_CELLS, LEAST_CELLS, HIDDEN, CORRELATED = 4, 24, 4, 0.01, 0.3
# Noise of deviation 1 in a table of N cells and r degrees of freedom makes this many times sqrt(N r) total variation.
VARIATION = 0.4
# A column of a table of three has COARSENESS s^(-1/3) cells for noise of deviation s, and at most MOST_CELLS.
COARSENESS, MOST_CELLS = 0.67, 12
# The most columns whose triples are all compared.
MOST_COLUMNS = 100


def select_tables(design: TableDesign, columns: Sequence[ReleasedColumn], tables: Sequence[Measurement[Marginal]],
                  strengths: Array, occupied: Array | None = None) -> tuple[Measurement[Marginal], ...]:
    """Return the queries of the last round: some of the tables of two columns again, and tables of three.

    design: A design with a charge for selected tables.
    tables: The first measurements of the tables of two columns.
    strengths (t,): The total variation of each table from independence, after shrinkage.
    occupied (t,): The number of occupied cells of each table; infinite if the table is not sparse. Default: all
      infinite.

    Privacy: public and released numbers only. The sensitivity of the weighted vector is 1 / n for any selection.
    """
    noise = design.deviation(design.selected)
    # The sum of the added precisions: the squared weights sum to 1/2.
    budget = 0.5 / noise**2
    tails = () if occupied is None else _tails(columns, tables, budget)
    finer = () if occupied is None else _finer(columns, tables, strengths, occupied, budget, len(tails))
    # A few tables of tails alone get as much as they would beside the most sparse tables.
    part, finer = FINER if finer else FINER * len(tails) / MOST_FINER, finer + tails
    fine = part * budget / max(len(finer), 1)
    budget *= 1.0 - part
    a, b = np.array([each.query.shape for each in tables], dtype=np.float64).reshape(-1, 2).T
    pairs = np.array([each.query.columns for each in tables], dtype=np.int64).reshape(-1, 2)
    costs, importance = VARIATION * np.sqrt(a * b * (a + b)), design.importance(pairs)
    held, wanted = 1.0 / np.array([each.deviation for each in tables]) ** 2, MOST_CELLS
    triples, expected = _candidates(design, len(columns), pairs, strengths)
    maps = [tuple(cells_of(column, count, 0.5 / count, count) for column in columns)
            for count in range(2, MOST_CELLS + 1)]
    sizes = np.array([[float(each.max()) + 1.0 for each in own] for own in maps])[:, triples]
    places = np.array([len(column.mass) for column in columns])
    while True:
        finest = _finest(sizes.prod(axis=2), wanted)
        # Maps must fit into a file. If they do not, each column gets the same cells in all tables.
        distinct = np.unique(np.column_stack([np.repeat(finest, 3), triples.ravel()]), axis=0)[:, 1]
        if places[distinct].sum() > MOST_PLACES:
            finest = np.full(len(triples), wanted - 2)
        shapes = sizes[finest, np.arange(len(triples))]
        # A column with a single cell has no dependence.
        three = VARIATION * np.sqrt(shapes.prod(axis=1) * (shapes - 1.0).prod(axis=1))
        precisions = _allotted(np.concatenate([costs, three]), np.concatenate([strengths, expected * (three > 0.0)]),
                               np.concatenate([importance, design.importance(triples)]),
                               np.concatenate([held, np.zeros(len(triples))]), budget)
        own = precisions[len(held) :]
        fits = shapes.prod(axis=1)[own > 0.0].sum() <= MOST_ENTRIES
        if wanted <= 2 or (fits and wanted <= _cells_wanted(own)):
            break
        wanted -= 1
    weights = np.sqrt(np.maximum(precisions[: len(held)] - held, 0.0))
    if not (weights.any() or own.any() or finer):
        # Without any visible dependence, all tables are measured again with the same weights.
        weights = np.array([each.weight for each in tables])
    total = np.sqrt(2.0 * float(weights @ weights + own.sum() + fine * len(finer)))
    again = [replace(each, weight=weight, values=None, noise=np.inf)
             for each, weight in zip(tables, (weights / total).tolist(), strict=True) if weight > 0.0]
    partitions = [column.partition for column in columns]
    again += [Measurement(query, float(np.sqrt(fine) / total)) for query in finer]
    more = own > 0.0
    return *again, *(Measurement(Marginal(tuple(held), tuple(partitions[j] for j in held),
                                          tuple(maps[fine][j] for j in held)), weight)
                     for held, fine, weight in zip(triples[more].tolist(), finest[more].tolist(),
                                                   (np.sqrt(own[more]) / total).tolist(), strict=True))


def _finer(columns: Sequence[ReleasedColumn], tables: Sequence[Measurement[Marginal]], strengths: Array,
           occupied: Array, budget: float, beside: int = 0) -> tuple[Marginal, ...]:
    """Return sparse tables of two columns in finer cells: their positions, or fewer cells where these are too many.

    These are the strongest sparse tables, as many as keep each occupied cell clear of noise ``beside`` some others.
    """
    half, entries = MOST_FINE_ENTRIES // 2, [math.prod(_positions(columns, each.query)) for each in tables]
    sparse = [t for t, each in enumerate(tables) if occupied[t] <= NEARLY * sum(each.query.shape)
              and each.query.shape != _positions(columns, each.query)
              and (entries[t] <= half or each.query.size <= half // 2)]
    sparse = sorted(sparse, key=lambda t: -strengths[t])[:MOST_FINER]
    # Tables with too many positions share the room that the others leave, so that more positions do not mean less.
    large = [t for t in sparse if entries[t] > half]
    left = MOST_FINE_ENTRIES - sum(entries[t] for t in sparse if entries[t] <= half)
    room = min(max(left // max(len(large), 1), half // 2), half)
    found = []
    for t in sparse:
        query = tables[t].query
        finer = _in_finer_cells(columns, query, room if entries[t] > half else half)
        # The finer table has more occupied cells, by the factor of the column that becomes finer.
        found.append((occupied[t] * max(size / side for size, side in zip(finer.shape, query.shape, strict=True)),
                      finer))
    # All tables together must fit into a file.
    found = found[: int((np.cumsum([finer.size for _, finer in found]) <= MOST_FINE_ENTRIES).sum())]
    while found:
        noise = math.sqrt((len(found) + beside) / (FINER * budget))
        clear = [each for each in found if each[0] * noise * CLEAR_OF_NOISE <= 1.0]
        if len(clear) == len(found):
            break
        found = clear if len(clear) >= len(found) - 1 else found[:-1]
    return tuple(finer for _, finer in found)


def _positions(columns: Sequence[ReleasedColumn], query: Marginal) -> tuple[int, ...]:
    return tuple(len(columns[j].mass) for j in query.columns)


def _in_finer_cells(columns: Sequence[ReleasedColumn], query: Marginal, most: int) -> Marginal:
    """Return a table at the resolution of its columns' positions, or in as many cells as give at most so many entries.

    Each finer cell lies in one of the query's; so there are more entries if the query itself has more. A column keeps
    its positions if these are few beside the other's.
    """
    sizes = _positions(columns, query)
    maps: list[Integers] = [np.arange(size) for size in sizes]
    side = max(most // min(sizes), math.isqrt(most))
    while math.prod(int(each.max()) + 1 for each in maps) > most and side > 0:
        maps = [np.arange(size) if size <= side else np.unique(
            wide * size + evenly(columns[j].mass, side), return_inverse=True)[1].ravel()
                for j, size, wide in zip(query.columns, sizes, query.maps, strict=True)]
        side = min(int(0.97 * side), side - 1)
    return Marginal(query.columns, query.partitions, (maps[0], maps[1]))


def _tails(columns: Sequence[ReleasedColumn], tables: Sequence[Measurement[Marginal]],
           budget: float) -> tuple[Marginal, ...]:
    """Return tables of correlated numbers with tails, by cells that share the variance of each number."""
    found, noise = [], math.sqrt(MOST_TAILS / (FINER * budget))
    for each in tables:
        held = [columns[j] for j in each.query.columns]
        quiet = each.deviation <= 0.5 * (FINENESS / TAIL_CELLS) ** 2
        if min(each.query.shape) < (LEAST_CELLS if quiet else TAIL_CELLS) or any(
                column.partition.value is None or len(column.partition.indicators) > TAIL_CELLS for column in held):
            continue
        (one, lost), (two, lost_too) = (_within(column, cells) for column, cells in zip(
            held, each.query.maps, strict=True))
        covariance = float(one @ np.clip(each.means, -1.0, 2.0) @ two)
        clear = CLEAR_OF_NOISE * each.deviation * float(np.linalg.norm(one) * np.linalg.norm(two))
        if min(lost, lost_too) >= HIDDEN and abs(covariance) >= max(CORRELATED, clear):
            found.append((abs(covariance) * math.sqrt(lost * lost_too), each.query))
    chosen, maps, places = list[Marginal](), dict[int, Integers](), 0
    for _, query in sorted(found, key=lambda each: -each[0])[:MOST_TAILS]:
        for j in query.columns:
            if j not in maps:
                maps[j] = _by_variance(columns[j], CLEAR_OF_NOISE * noise)
                places += len(maps[j])
        if places > MOST_TAIL_PLACES or min(int(maps[j].max()) for j in query.columns) < 1:
            break
        chosen.append(Marginal(query.columns, query.partitions, tuple(maps[j] for j in query.columns)))
    return tuple(chosen)


def _within(column: ReleasedColumn, cells: Integers) -> tuple[Array, float]:
    """Return the standardised mean of each cell's numbers, and the fraction of the variance that is within cells."""
    shares, values = column.mass, _standardised(column)
    mass, sums = np.bincount(cells, shares), np.bincount(cells, shares * values)
    means = sums / np.maximum(mass, np.finfo(float).tiny)
    return np.clip(means, -1e6, 1e6), 1.0 - float(mass @ means**2)


def _standardised(column: ReleasedColumn) -> Array:
    """Return the number at the middle of each position, with mean 0 and variance 1; 0 where there is no number."""
    k = len(column.partition.indicators)
    values, mass = column.partition.centres, column.mass[k:]
    total = max(float(mass.sum()), np.finfo(float).tiny)
    values = values - float(mass @ values) / total
    spread = math.sqrt(float(mass @ values**2))
    return np.concatenate([np.zeros(k), values / spread if spread > 0.0 else np.zeros(len(values))])


def _by_variance(column: ReleasedColumn, enough: float) -> Integers:
    """Return the cell of each position: cells of a number share its variance, and each holds ``enough`` of the rows."""
    k = len(column.partition.indicators)
    shares = (column.mass * _standardised(column) ** 2)[k:].tolist()
    cells, cell, variance, mass = np.arange(len(column.mass)), k, 0.0, 0.0
    for i, (share, own) in enumerate(zip(shares, column.mass[k:].tolist(), strict=True)):
        if variance >= 1.0 / TAIL_CELLS and mass >= enough:
            cell, variance, mass = cell + 1, 0.0, 0.0
        cells[k + i] = cell
        variance, mass = variance + share, mass + own
    if mass < enough and cell > k:
        cells[cells == cell] = cell - 1
    return cells


def _candidates(design: TableDesign, d: int, tables: Integers, strengths: Array) -> tuple[Integers, Array]:
    """Return sets of three columns (r, 3) that may depend on each other, and their assumed dependence S (r,)."""
    if not (design.triples or design.crossed) or d < 3:
        return np.zeros((0, 3), dtype=np.int64), np.zeros(0)
    between = np.zeros((d, d))
    between[tuple(tables.T)] = between[tuple(tables.T[::-1])] = strengths
    # A target column comes first.
    order = np.argsort(-between.sum(axis=1) - 1e300 * np.isin(np.arange(d), design.crossed), kind="stable")
    members = np.sort(order[:MOST_COLUMNS])
    found = members[np.array(list(combinations(range(len(members)), 3)), dtype=np.int64)]
    opposite = np.column_stack([between[found[:, i], found[:, j]] for i, j in ((1, 2), (0, 2), (0, 1))])
    crossed = np.isin(found, design.crossed)
    among = crossed.sum(axis=1) == 1
    pairs = np.sort(np.where(crossed & among[:, None], np.inf, opposite), axis=1)
    expected = np.where(among, OF_THE_CROSSED, OF_THE_PAIRS) * np.sqrt(pairs[:, 0] * pairs[:, 1])
    worth = expected * design.importance(found)
    best = np.sort(np.argsort(-worth, kind="stable")[:MOST_TRIPLES])
    best = best[worth[best] > 0.0]
    return found[best], expected[best]


def _cells_wanted(precisions: Array) -> int:
    """Return the number of cells of a column for which a cell of a table of three has about as much mass as noise.

    The precisions (r,) belong to the tables of three columns. A table with precision 0 is not measured.
    """
    chosen = precisions[precisions > 0.0]
    # If all precisions are 0, fewer cells may help.
    each = float(np.median(chosen)) if len(chosen) else 0.0
    return int(np.clip(np.round(COARSENESS * each ** (1.0 / 6.0)), 2, MOST_CELLS))


def _finest(cells: Array, wanted: int) -> Integers:
    """Return, for each table, the place of the largest allowed number of cells of a column; place 0 means 2 cells.

    ``cells`` (c, r) holds the tables' sizes for each of these numbers. A table may have ``wanted``^3 cells. So if one
    of its columns has few levels, the others may have more than ``wanted`` cells.
    """
    enough = cells <= wanted**3
    last = len(cells) - 1 - np.argmax(enough[::-1], axis=0)
    return np.where(enough.any(axis=0), np.maximum(last, wanted - 2), wanted - 2)


def _allotted(costs: Array, strengths: Array, importance: Array, held: Array, budget: float) -> Array:
    """Return precisions of all tables with the least predicted error, each at least ``held``; see the module."""
    found, more = held.copy(), (strengths > 0.0) & (importance > 0.0)
    while more.any():
        # The term (c / S)^2 of the module's formula.
        least = (costs[more] / np.maximum(strengths[more], 1e-30)) ** 2
        rate = (importance[more] * costs[more]) ** (2.0 / 3.0)
        wanted = (budget + held[more].sum() + least.sum()) / rate.sum() * rate - least
        enough = wanted > held[more]
        if enough.all():
            found[more] = wanted
            break
        more[np.flatnonzero(more)[~enough]] = False
    return found
