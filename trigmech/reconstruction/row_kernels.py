"""Compiled sweeps of the descent over rows; see :mod:`trigmech.reconstruction.rows`."""

import numpy as np
from numba import njit
from numpy.typing import NDArray

from trigmech.reconstruction.row_arrays import Crossings, Floats, Integers, Objective, Residuals, Row

# The number of rows whose products are summed at a time.
CHUNK = 256


@njit(cache=True, nogil=True)
def sweep(objective: Objective, residuals: Residuals, rows: NDArray[np.int32], order: Integers, columns: Integers,
          least_gain: float) -> int:
    """Move every entry of the rows in ``order`` to the position with the least objective. Return the number of moves.

    ``rows`` (m, d) are positions within each column. ``columns`` are the columns to move, in order. A move must lower
    the objective by at least ``least_gain``, in units of rows.
    """
    first, cell, cells, map_of = objective.first, objective.cell, objective.cells, objective.map_of
    feature, features, groups = objective.feature, objective.features, objective.groups
    tables, table_of, table_start = objective.tables, objective.tables_of.of, objective.tables_of.start
    rules, rule_of, rule_start = objective.rules, objective.rules_of.of, objective.rules_of.start
    group_start, part_start, product_of, part_own = groups.start, groups.product_start, groups.product_of, groups.own
    other_start, other_columns, other_features = groups.other_start, groups.other_columns, groups.other_features
    frequency_weights, table_weights = objective.frequency_weights, objective.table_weights
    product_weights, forbidden = objective.products.weights, objective.forbidden
    histogram, table, product = residuals.frequencies, residuals.tables, residuals.products
    linear, curvature = np.zeros(len(feature)), np.zeros(len(feature))
    # The features of the moved row; and for each product of the moved column, the other columns' factor.
    value, part = np.zeros((rows.shape[1], len(feature))), np.zeros(np.diff(group_start).max())
    gain, score = np.zeros((len(cells), cells.max())), np.zeros(np.diff(first).max())
    moves = 0
    for i in order:
        row = rows[i]
        read(objective, row, value)
        for j in columns:
            start, size, q = first[j], first[j + 1] - first[j], features[j]
            x = row[j]
            for k in range(map_of[j], map_of[j + 1]):
                for b in range(cells[k]):
                    gain[k, b] = 0.0
            # Moving from cell a of a table to b changes the sum by w_b (2 R_b + 1) - w_a (2 R_a - 1), by 0 if a = b.
            for s in range(table_start[j], table_start[j + 1]):
                t = table_of[s]
                base, stride, k = _beside(tables, t, row, j, cell)
                a = cell[k, x]
                at, staying = base + stride * a, gain[k, a]
                leaving = table_weights[at] * (1.0 - 2.0 * table[at])
                for b in range(cells[k]):
                    to = base + stride * b
                    gain[k, b] += table_weights[to] * (1.0 + 2.0 * table[to]) + leaving
                # This is exact, so that a move without a change never looks like a gain.
                gain[k, a] = staying
            for s in range(rule_start[j], rule_start[j + 1]):
                base, stride, k = _beside(rules, rule_of[s], row, j, cell)
                for b in range(cells[k]):
                    if forbidden[base + stride * b]:
                        gain[k, b] = np.inf
            tried = score[:size]
            near = histogram[start : start + size]
            w, leaving = 2.0 * frequency_weights[j], 1.0 - histogram[start + x]
            for y in range(size):
                tried[y] = w * (near[y] + leaving)
            for k in range(map_of[j], map_of[j + 1]):
                cell_of = cell[k, :size]
                for y in range(size):
                    tried[y] += gain[k, cell_of[y]]
            constant = 0.0
            for a in range(q):
                linear[a], curvature[a] = 0.0, 0.0
            for g in range(group_start[j], group_start[j + 1]):
                others = 1.0
                for o in range(other_start[g], other_start[g + 1]):
                    h, a = other_columns[o], other_features[o]
                    if a < features[h]:
                        others *= value[h, a]
                    elif a - features[h] != row[h]:
                        others = 0.0
                        break
                part[g - group_start[j]] = others
                if others == 0.0:
                    continue
                for s in range(part_start[g], part_start[g + 1]):
                    r, own = product_of[s], part_own[s]
                    w = product_weights[r] * others
                    if own < q:
                        linear[own] += w * product[r]
                        curvature[own] += w * others
                    elif own - q == x:
                        constant += w * (others - 2.0 * product[r])
                    else:
                        tried[own - q] += w * (others + 2.0 * product[r])
            for a in range(q):
                here, bend = value[j, a], curvature[a]
                # u (linear + bend u) with u = feature - here.
                slope = 2.0 * (linear[a] - bend * here)
                constant -= here * (slope + bend * here)
                there = feature[a, start : start + size]
                for y in range(size):
                    tried[y] += there[y] * (slope + there[y] * bend)
            tried[x] = np.inf
            best = np.inf
            for y in range(size):
                best = min(best, tried[y])
            if not best + constant < -max(least_gain, 1e-9):
                continue
            chosen = 0
            while tried[chosen] != best:
                chosen += 1
            moves += 1
            histogram[start + x] -= 1.0
            histogram[start + chosen] += 1.0
            for s in range(table_start[j], table_start[j + 1]):
                base, stride, k = _beside(tables, table_of[s], row, j, cell)
                table[base + stride * cell[k, x]] -= 1.0
                table[base + stride * cell[k, chosen]] += 1.0
            for a in range(q):
                linear[a] = feature[a, start + chosen] - value[j, a]
                value[j, a] = feature[a, start + chosen]
            for g in range(group_start[j], group_start[j + 1]):
                others = part[g - group_start[j]]
                if others == 0.0:
                    continue
                for s in range(part_start[g], part_start[g + 1]):
                    own = part_own[s]
                    if own < q:
                        product[product_of[s]] += others * linear[own]
                    elif own - q == x:
                        product[product_of[s]] -= others
                    elif own - q == chosen:
                        product[product_of[s]] += others
            row[j] = chosen
    return moves


@njit(cache=True, nogil=True)
def add_products(objective: Objective, rows: NDArray[np.int32], sums: Floats) -> None:
    """Add the sum of each product over the rows to ``sums``."""
    first, feature, features, products = objective.first, objective.feature, objective.features, objective.products
    m, d = rows.shape
    value = np.zeros((d, feature.shape[0], CHUNK))
    product = np.zeros(CHUNK)
    for begin in range(0, m, CHUNK):
        size = min(CHUNK, m - begin)
        part = rows[begin : begin + size]
        for j in range(d):
            for a in range(features[j]):
                for i in range(size):
                    value[j, a, i] = feature[a, first[j] + part[i, j]]
        for r in range(len(sums)):
            product[:size] = 1.0
            for o in range(products.start[r], products.start[r + 1]):
                j, a = products.columns[o], products.factors[o]
                if a < features[j]:
                    factor = value[j, a]
                    for i in range(size):
                        product[i] *= factor[i]
                else:
                    for i in range(size):
                        product[i] *= part[i, j] == a - features[j]
            total = 0.0
            for i in range(size):
                total += product[i]
            sums[r] += total


@njit(cache=True, nogil=True)
def sweep_together(objective: Objective, residuals: Residuals, rows: NDArray[np.int32], order: Integers,
                   others: Integers, seeds: Integers, movable: NDArray[np.bool_], members: Integers, tables: Integers,
                   products: Integers, rules: Integers) -> int:
    """Move several entries of each row at once to those of another row, if this lowers the objective.

    It works as :func:`sweep`, with the columns ``members`` and the tables, products and rules that use any of them.
    ``others`` (len(order), c) holds c other rows for each row. ``seeds`` (len(order), c) holds the column whose entry
    is taken first; then more entries are taken until all rules hold. With seed -1 all members' entries are taken. The
    candidate with the least objective wins. ``movable`` (d,) marks the columns that may change. Return the number of
    moves.
    """
    d, first = rows.shape[1], objective.first
    histogram, table, product = residuals.frequencies, residuals.tables, residuals.products
    offered, chosen = np.empty(d, dtype=np.int32), np.empty(d, dtype=np.int32)
    held, value = np.empty(len(tables), dtype=np.int64), np.empty(len(products))
    moves = 0
    for place in range(len(order)):
        row = rows[order[place]]
        for s in range(len(tables)):
            held[s] = _cell(objective.tables, tables[s], row, objective.cell)
        for s in range(len(products)):
            value[s] = _product(objective, products[s], row)
        best = -1e-9
        for candidate in range(others.shape[1]):
            other = rows[others[place, candidate]]
            if not _taken_over(objective, row, other, seeds[place, candidate], offered, movable, members, rules):
                continue
            change = 0.0
            for j in members:
                if offered[j] != row[j]:
                    change += 2.0 * objective.frequency_weights[j] * (
                        histogram[first[j] + offered[j]] - histogram[first[j] + row[j]] + 1.0)
            for s in range(len(tables)):
                a, t = held[s], tables[s]
                b = _cell(objective.tables, t, offered, objective.cell)
                if a != b:
                    change += (objective.table_weights[b] * (1.0 + 2.0 * table[b])
                               + objective.table_weights[a] * (1.0 - 2.0 * table[a]))
            for s in range(len(products)):
                r = products[s]
                u = _product(objective, r, offered) - value[s]
                change += objective.products.weights[r] * u * (2.0 * product[r] + u)
            if change < best:
                best = change
                chosen[:] = offered
        if best == -1e-9:
            continue
        moves += 1
        for j in members:
            histogram[first[j] + row[j]] -= 1.0
            histogram[first[j] + chosen[j]] += 1.0
        for s in range(len(tables)):
            table[held[s]] -= 1.0
            table[_cell(objective.tables, tables[s], chosen, objective.cell)] += 1.0
        for s in range(len(products)):
            r = products[s]
            product[r] += _product(objective, r, chosen) - value[s]
        row[:] = chosen
    return moves


@njit(cache=True, nogil=True)
def read(objective: Objective, row: Row, value: Floats) -> None:
    """Write the values of a row's features to ``value``."""
    first, feature, features = objective.first, objective.feature, objective.features
    for j in range(len(row)):
        for a in range(features[j]):
            value[j, a] = feature[a, first[j] + row[j]]


@njit(cache=True, nogil=True)
def _beside(crossings: Crossings, t: int, row: Row, own: int, cell: Integers) -> tuple[int, int, int]:
    """Return the place of a row's cell if column ``own`` were in cell 0; and the stride and the map of this column."""
    columns, maps, strides = crossings.columns, crossings.maps, crossings.strides
    base, stride, k = crossings.offset[t], 0, 0
    for c in range(columns.shape[1]):
        h = columns[t, c]
        if h == own:
            stride, k = strides[t, c], maps[t, c]
        elif h >= 0:
            base += strides[t, c] * cell[maps[t, c], row[h]]
    return base, stride, k


@njit(cache=True, nogil=True)
def _cell(crossings: Crossings, t: int, row: Row, cell: Integers) -> int:
    return _beside(crossings, t, row, -1, cell)[0]


@njit(cache=True, nogil=True)
def _product(objective: Objective, r: int, row: Row) -> float:
    products, features = objective.products, objective.features
    value = 1.0
    for o in range(products.start[r], products.start[r + 1]):
        j, a = products.columns[o], products.factors[o]
        if a < features[j]:
            value *= objective.feature[a, objective.first[j] + row[j]]
        elif a - features[j] != row[j]:
            return 0.0
    return value


@njit(cache=True, nogil=True)
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
    return bool((offered != row).any())
