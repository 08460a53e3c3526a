"""Compiled: moves of several entries of a row at once; see :mod:`trigmech.reconstruction.rows`."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trigmech._arrays import Codes, Integers
from trigmech.reconstruction.row_arrays import Crossings, Floats, Objective, Residuals, Row, inner, kernel
from trigmech.reconstruction.row_kernels import beside


@kernel
def sweep_together(objective: Objective, residuals: Residuals, rows: NDArray[np.int32], order: Integers,
                   others: Integers, seeds: Integers, movable: NDArray[np.bool_], members: Integers, tables: Integers,
                   products: Integers, rules: Integers) -> int:
    """Move several entries of each row at once to those of another row, if this lowers the objective.

    It works as :func:`trigmech.reconstruction.row_kernels.sweep`, with the columns ``members`` and the tables, products
    and rules that use any of them.
    ``others`` (len(order), c) holds c other rows for each row. ``seeds`` (len(order), c) holds the column whose entry
    is taken first; then more entries are taken until all rules hold. With seed -1 all members' entries are taken. The
    candidate with the least objective wins. ``movable`` (d,) marks the columns that may change. Return the number of
    moves.
    """
    first, histogram, table, product = objective.first, residuals.frequencies, residuals.tables, residuals.products
    candidates, weights = others.shape[1], objective.table_weights
    moving, factors = _moving_of(objective, tables, members), _factors_of(objective, products, members)
    offered, kept = np.empty((candidates, rows.shape[1]), dtype=np.int32), np.empty(candidates, dtype=np.bool_)
    # The row's cells without the columns that move, and with them; its factors and products. The same of candidates.
    base, held = np.empty_like(tables), np.empty((1, len(tables)), dtype=np.int64)
    there, change = np.empty((candidates, len(tables)), dtype=np.int64), np.empty(candidates)
    factor, theirs = np.ones(len(factors.columns) + 1), np.ones(len(factors.columns) + 1)
    slopes, bends = np.empty(len(factors.start) - 1), np.empty(len(factors.start) - 1)
    product_weights, sums = objective.products.weights[products], product[products]
    moves = 0
    for place in range(len(order)):
        row = rows[order[place]]
        for c in range(candidates):
            kept[c] = _taken_over(objective, row, rows[others[place, c]], seeds[place, c], offered[c], movable, members,
                                  rules)
            change[c] = 0.0
        if not kept.any():
            continue
        _find_bases(objective, tables, moving, row, base)
        _find_cells(objective, moving, row.reshape(1, -1), base, held)
        _find_cells(objective, moving, offered, base, there)
        for j in members:
            for c in range(candidates):
                if offered[c, j] != row[j]:
                    change[c] += 2.0 * objective.frequency_weights[j] * (
                        histogram[first[j] + offered[c, j]] - histogram[first[j] + row[j]] + 1.0)
        for s in range(len(tables)):
            a = held[0, s]
            left = weights[a] * (1.0 - 2.0 * table[a])
            for c in range(candidates):
                b = there[c, s]
                if a != b:
                    change[c] += weights[b] * (1.0 + 2.0 * table[b]) + left
        if len(products):
            _find_factors(objective, factors, 0, row, factor)
            _find_slopes(factors, product_weights, sums, factor, slopes, bends)
            theirs[:] = factor
            for c in range(candidates):
                if kept[c]:
                    _find_factors(objective, factors, factors.moved, offered[c], theirs)
                    change[c] += _of_products(factors, product_weights, sums, factor, theirs, slopes, bends)
        best, chosen = -1e-9, -1
        for c in range(candidates):
            if kept[c] and change[c] < best:
                best, chosen = change[c], c
        if chosen < 0:
            continue
        moves += 1
        for j in members:
            histogram[first[j] + row[j]] -= 1.0
            histogram[first[j] + offered[chosen, j]] += 1.0
        for s in range(len(tables)):
            table[held[0, s]] -= 1.0
            table[there[chosen, s]] += 1.0
        if len(products):
            _find_factors(objective, factors, factors.moved, offered[chosen], theirs)
            for s in range(len(products)):
                sums[s] += _product(factors.of, s, theirs) - _product(factors.of, s, factor)
        row[:] = offered[chosen]
    for s in range(len(products)):
        product[products[s]] = sums[s]
    return moves


@inner
def _taken_over(objective: Objective, row: Row, other: Row, seed: int, offered: Row, movable: NDArray[np.bool_],
                members: Integers, rules: Integers) -> bool:
    """Write the row with entries of another row to ``offered``. Return whether it differs and keeps the rules."""
    columns = objective.rules.columns
    offered[:] = row
    for j in members:
        if movable[j] and (seed < 0 or seed == j):
            offered[j] = other[j]
    again = True
    while again:
        again = False
        for t in rules:
            if objective.forbidden[_cell(objective.rules, t, offered, objective.cell)]:
                broken = True
                for c in range(columns.shape[1]):
                    h = columns[t, c]
                    if h >= 0 and movable[h] and offered[h] != other[h]:
                        offered[h] = other[h]
                        broken, again = False, True
                if broken:
                    return False
    differs = False
    for j in members:
        differs |= offered[j] != row[j]
    return differs


@inner
def _cell(crossings: Crossings, t: int, row: Row, cell: Codes) -> int:
    return beside(crossings, t, row, -1, cell)[0]


class Moving(NamedTuple):
    """The columns of each table that move (tables, widest), their maps and strides; column -1 means no column."""

    columns: Integers
    maps: Integers
    strides: Integers


class Factors(NamedTuple):
    """The different factors of some products: feature ``features`` of ``columns``. From ``moved`` on they may move.

    Product s has the factors of[:, s]. A number one beyond the last factor stands for 1. The products in which factor
    moved + f alone moves are alone[i], with the other factors others[:, i], for start[f] <= i < start[f + 1]. In the
    products ``several`` more factors move.
    """

    columns: Integers
    features: Integers
    moved: int
    of: Integers
    start: Integers
    alone: Integers
    others: Integers
    several: Integers


@inner
def _moving_of(objective: Objective, tables: Integers, members: Integers) -> Moving:
    crossings = objective.tables
    columns = crossings.columns[tables].copy()
    for s in range(columns.shape[0]):
        for c in range(columns.shape[1]):
            if not (members == columns[s, c]).any():
                columns[s, c] = -1
    return Moving(columns, crossings.maps[tables], crossings.strides[tables])


@inner
def _factors_of(objective: Objective, products: Integers, members: Integers) -> Factors:
    held, widest, total = objective.products, 1, 0
    for r in products:
        widest = max(widest, held.start[r + 1] - held.start[r])
        total += held.start[r + 1] - held.start[r]
    known = np.full((len(objective.features), held.factors.max() + 1 if total else 1), -1)
    columns, features = np.empty(total, dtype=np.int64), np.empty(total, dtype=np.int64)
    of, count, moved = np.full((widest, len(products)), -1), 0, 0
    for moves in (False, True):
        moved = count
        for s in range(len(products)):
            r = products[s]
            for o in range(held.start[r], held.start[r + 1]):
                j, a = held.columns[o], held.factors[o]
                if (members == j).any() != moves:
                    continue
                if known[j, a] < 0:
                    known[j, a], columns[count], features[count] = count, j, a
                    count += 1
                of[o - held.start[r], s] = known[j, a]
    of = np.where(of < 0, count, of)
    many, start = np.zeros(len(products), dtype=np.int64), np.zeros(count - moved + 1, dtype=np.int64)
    for s in range(len(products)):
        for o in range(widest):
            many[s] += moved <= of[o, s] < count
    alone, others, i = np.empty((many == 1).sum(), dtype=np.int64), np.full((widest, (many == 1).sum()), count), 0
    for f in range(moved, count):
        for s in range(len(products)):
            if many[s] == 1 and (of[:, s] == f).any():
                alone[i] = s
                for o in range(widest):
                    others[o, i] = of[o, s] if of[o, s] != f else count
                i += 1
        start[f - moved + 1] = i
    return Factors(columns[:count].copy(), features[:count].copy(), moved, of, start, alone, others,
                   np.flatnonzero(many > 1))


@inner
def _find_bases(objective: Objective, tables: Integers, moving: Moving, row: Row, base: Integers) -> None:
    """Write the place of a row's cell in each table without the part of the columns that move."""
    crossings, cell = objective.tables, objective.cell
    for s in range(len(tables)):
        t = tables[s]
        base[s] = crossings.offset[t]
        for c in range(crossings.columns.shape[1]):
            h = crossings.columns[t, c]
            if h >= 0 and moving.columns[s, c] < 0:
                base[s] += crossings.strides[t, c] * cell[crossings.maps[t, c], row[h]]


@inner
def _find_cells(objective: Objective, moving: Moving, rows: NDArray[np.int32], base: Integers, cells: Integers) -> None:
    """Write the place of each row's cell in each table (rows, tables)."""
    # Without views of parts of arrays: each would count its references, which takes longer than an addition.
    cell, columns, maps, strides = objective.cell, moving.columns, moving.maps, moving.strides
    for s in range(len(base)):
        for i in range(len(rows)):
            cells[i, s] = base[s]
        for c in range(columns.shape[1]):
            h, k, stride = columns[s, c], maps[s, c], strides[s, c]
            if h >= 0:
                for i in range(len(rows)):
                    cells[i, s] += stride * cell[np.uint64(k), np.uint32(rows[i, h])]


@inner
def _find_factors(objective: Objective, factors: Factors, first: int, row: Row, factor: Floats) -> None:
    """Write the values of a row's factors from the ``first`` on."""
    for f in range(first, len(factors.columns)):
        j, a = factors.columns[f], factors.features[f]
        if a < objective.features[j]:
            factor[f] = objective.feature[a, objective.first[j] + row[j]]
        else:
            factor[f] = 1.0 if a - objective.features[j] == row[j] else 0.0


@inner
def _product(of: Integers, s: int, factor: Floats) -> float:
    value = 1.0
    for o in range(len(of)):
        value *= factor[np.uint64(of[o, s])]
    return value


@inner
def _find_slopes(factors: Factors, weights: Floats, sums: Floats, factor: Floats, slopes: Floats,
                 bends: Floats) -> None:
    """Write how the objective depends on each factor that may move, by the products in which no other one moves."""
    start, alone, others = factors.start, factors.alone, factors.others
    for f in range(len(slopes)):
        slope = bend = 0.0
        for i in range(np.uint64(start[f]), np.uint64(start[f + 1])):
            s, value = np.uint64(alone[i]), _product(others, i, factor)
            weighted = weights[s] * value
            slope += weighted * sums[s]
            bend += weighted * value
        slopes[f], bends[f] = 2.0 * slope, bend


@inner
def _of_products(factors: Factors, weights: Floats, sums: Floats, before: Floats, after: Floats, slopes: Floats,
                 bends: Floats) -> float:
    """Return by how much the products' part of the objective grows if factors move from ``before`` to ``after``."""
    change = 0.0
    for f in range(len(slopes)):
        u = after[factors.moved + f] - before[factors.moved + f]
        change += u * (slopes[f] + bends[f] * u)
    for s in factors.several:
        u = _product(factors.of, s, after) - _product(factors.of, s, before)
        change += weights[s] * u * (2.0 * sums[s] + u)
    return change
