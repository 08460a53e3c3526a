"""Compiled: one sweep of the descent over rows; see :mod:`trigmech.reconstruction.rows`."""

import numpy as np
from numba import njit
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@njit(cache=True, nogil=True)
def sweep(rows: NDArray[np.int32], order: Integers, columns: Integers, first: Integers,
          histogram: Floats, histogram_weight: Floats,
          cell: Integers, cells: Integers, map_of: Integers,
          table_start: Integers, table_of: Integers, table_columns: Integers, table_maps: Integers,
          table_strides: Integers, table_offset: Integers, table_weight: Floats, table: Floats,
          feature: Floats, features: Integers,
          product_start: Integers, product_of: Integers, product_columns: Integers, product_features: Integers,
          product_weight: Floats, product: Floats,
          rule_start: Integers, rule_of: Integers, rule_columns: Integers, rule_maps: Integers,
          rule_strides: Integers, rule_offset: Integers, forbidden: NDArray[np.bool_]) -> int:
    """Move every entry of the rows in ``order`` to the position with the least objective; return the moves.

    Positions of all columns stand one after the other: column j has first[j] to first[j + 1]. All residuals are in
    rows: the sum over the rows of a function less its target, which is kept up to date.

    rows (m, d): positions within each column. columns: which to move, in order.
    histogram (positions,), histogram_weight (d,): residuals and weights of the columns' own frequencies.
    cell (maps, most), cells (maps,): the cell of each position of a map's column, and how many cells there are;
    map_of (d + 1,): the maps of column j are map_of[j] to map_of[j + 1].
    Tables: of column j those in table_of[table_start[j]:table_start[j + 1]]; table t is of the columns
    table_columns[t] (-1: none) by their maps table_maps[t], its cell at table_offset[t] + sum of strides.
    Products: the same, of one feature of each column. feature (positions, most), features (d,): values and how many.
    Rules: as tables, of any number of columns; where ``forbidden`` no entry is moved to.
    """
    most = feature.shape[1]
    linear, curvature, here = np.zeros(most), np.zeros(most), np.zeros(most)
    widest = 0
    for k in range(len(cells)):
        widest = max(widest, cells[k])
    gain = np.zeros((len(cells), widest))
    moves = 0
    for i in order:
        for j in columns:
            start, size = first[j], first[j + 1] - first[j]
            x = rows[i, j]
            for k in range(map_of[j], map_of[j + 1]):
                for b in range(cells[k]):
                    gain[k, b] = 0.0
            # Of a table, moving from cell a to b changes the sum of squares by 2 (R_b - R_a + 1), and by 0 if a = b.
            for s in range(table_start[j], table_start[j + 1]):
                t = table_of[s]
                base, stride, k = table_offset[t], 0, 0
                for c in range(table_columns.shape[1]):
                    h = table_columns[t, c]
                    if h == j:
                        stride, k = table_strides[t, c], table_maps[t, c]
                    elif h >= 0:
                        base += table_strides[t, c] * cell[table_maps[t, c], rows[i, h]]
                a = cell[k, x]
                w = 2.0 * table_weight[t]
                leaving = 1.0 - table[base + stride * a]
                for b in range(cells[k]):
                    gain[k, b] += w * (table[base + stride * b] + leaving)
                gain[k, a] -= w
            for s in range(rule_start[j], rule_start[j + 1]):
                t = rule_of[s]
                base, stride, k = rule_offset[t], 0, 0
                for c in range(rule_columns.shape[1]):
                    h = rule_columns[t, c]
                    if h == j:
                        stride, k = rule_strides[t, c], rule_maps[t, c]
                    elif h >= 0:
                        base += rule_strides[t, c] * cell[rule_maps[t, c], rows[i, h]]
                for b in range(cells[k]):
                    if forbidden[base + stride * b]:
                        gain[k, b] = np.inf
            q = features[j]
            if q:
                for a in range(q):
                    linear[a] = 0.0
                    curvature[a] = 0.0
                    here[a] = feature[start + x, a]
                for s in range(product_start[j], product_start[j + 1]):
                    r = product_of[s]
                    own, others = 0, 1.0
                    for c in range(product_columns.shape[1]):
                        h = product_columns[r, c]
                        if h == j:
                            own = product_features[r, c]
                        elif h >= 0:
                            others *= feature[first[h] + rows[i, h], product_features[r, c]]
                    w = product_weight[r] * others
                    linear[own] += 2.0 * w * product[r]
                    curvature[own] += w * others
            best, chosen = -1e-9, x
            wh = 2.0 * histogram_weight[j]
            leaving = 1.0 - histogram[start + x]
            for y in range(size):
                if y == x:
                    continue
                change = wh * (histogram[start + y] + leaving)
                for k in range(map_of[j], map_of[j + 1]):
                    change += gain[k, cell[k, y]]
                for a in range(q):
                    u = feature[start + y, a] - here[a]
                    change += u * (linear[a] + curvature[a] * u)
                if change < best:
                    best, chosen = change, y
            if chosen == x:
                continue
            moves += 1
            histogram[start + x] -= 1.0
            histogram[start + chosen] += 1.0
            for s in range(table_start[j], table_start[j + 1]):
                t = table_of[s]
                base, stride, k = table_offset[t], 0, 0
                for c in range(table_columns.shape[1]):
                    h = table_columns[t, c]
                    if h == j:
                        stride, k = table_strides[t, c], table_maps[t, c]
                    elif h >= 0:
                        base += table_strides[t, c] * cell[table_maps[t, c], rows[i, h]]
                table[base + stride * cell[k, x]] -= 1.0
                table[base + stride * cell[k, chosen]] += 1.0
            if q:
                for s in range(product_start[j], product_start[j + 1]):
                    r = product_of[s]
                    own, others = 0, 1.0
                    for c in range(product_columns.shape[1]):
                        h = product_columns[r, c]
                        if h == j:
                            own = product_features[r, c]
                        elif h >= 0:
                            others *= feature[first[h] + rows[i, h], product_features[r, c]]
                    product[r] += others * (feature[start + chosen, own] - here[own])
            rows[i, j] = chosen
    return moves


@njit(cache=True, nogil=True)
def sweep_together(rows: NDArray[np.int32], order: Integers, others: Integers, seeds: Integers,
                   movable: NDArray[np.bool_], members: Integers, first: Integers,
                   histogram: Floats, histogram_weight: Floats, cell: Integers,
                   tables: Integers, table_columns: Integers, table_maps: Integers, table_strides: Integers,
                   table_offset: Integers, table_weight: Floats, table: Floats,
                   feature: Floats, products: Integers, product_columns: Integers, product_features: Integers,
                   product_weight: Floats, product: Floats,
                   rules: Integers, rule_columns: Integers, rule_maps: Integers, rule_strides: Integers,
                   rule_offset: Integers, forbidden: NDArray[np.bool_]) -> int:
    """Move several entries of each row at once to those of another row, if that lowers the objective; return the moves.

    As :func:`sweep`, with the columns ``members`` and the tables, products and rules that have any of them. others,
    seeds (len(order), c): for each row c other rows, and the column whose entry is taken from it first, with as many
    more as the rules then need; -1: all members' entries. Of them the one with the least objective is taken.
    movable (d,): columns whose entries may change.
    """
    d = rows.shape[1]
    offered, chosen = np.empty(d, dtype=np.int32), np.empty(d, dtype=np.int32)
    held, value = np.empty(len(tables), dtype=np.int64), np.empty(len(products))
    moves = 0
    for place in range(len(order)):
        row = rows[order[place]]
        for s in range(len(tables)):
            held[s] = table_offset[tables[s]] + _cell(row, tables[s], table_columns, table_maps, table_strides, cell)
        for s in range(len(products)):
            value[s] = _product(row, products[s], product_columns, product_features, first, feature)
        best = -1e-9
        for candidate in range(others.shape[1]):
            other = rows[others[place, candidate]]
            if not _taken_over(row, other, seeds[place, candidate], offered, movable, members, rules, rule_columns,
                               rule_maps, rule_strides, rule_offset, cell, forbidden):
                continue
            change = 0.0
            for j in members:
                if offered[j] != row[j]:
                    change += 2.0 * histogram_weight[j] * (
                        histogram[first[j] + offered[j]] - histogram[first[j] + row[j]] + 1.0)
            for s in range(len(tables)):
                a, t = held[s], tables[s]
                b = table_offset[t] + _cell(offered, t, table_columns, table_maps, table_strides, cell)
                if a != b:
                    change += 2.0 * table_weight[t] * (table[b] - table[a] + 1.0)
            for s in range(len(products)):
                r = products[s]
                u = _product(offered, r, product_columns, product_features, first, feature) - value[s]
                change += product_weight[r] * u * (2.0 * product[r] + u)
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
            t = tables[s]
            table[held[s]] -= 1.0
            table[table_offset[t] + _cell(chosen, t, table_columns, table_maps, table_strides, cell)] += 1.0
        for s in range(len(products)):
            r = products[s]
            product[r] += _product(chosen, r, product_columns, product_features, first, feature) - value[s]
        row[:] = chosen
    return moves


@njit(cache=True, nogil=True)
def _cell(row: NDArray[np.int32], t: int, columns: Integers, maps: Integers, strides: Integers, cell: Integers) -> int:
    place = 0
    for c in range(columns.shape[1]):
        h = columns[t, c]
        if h >= 0:
            place += strides[t, c] * cell[maps[t, c], row[h]]
    return place


@njit(cache=True, nogil=True)
def _product(row: NDArray[np.int32], r: int, columns: Integers, features: Integers, first: Integers,
             feature: Floats) -> float:
    value = 1.0
    for c in range(columns.shape[1]):
        h = columns[r, c]
        if h >= 0:
            value *= feature[first[h] + row[h], features[r, c]]
    return value


@njit(cache=True, nogil=True)
def _taken_over(row: NDArray[np.int32], other: NDArray[np.int32], seed: int, offered: NDArray[np.int32],
                movable: NDArray[np.bool_], members: Integers, rules: Integers, rule_columns: Integers,
                rule_maps: Integers, rule_strides: Integers, rule_offset: Integers, cell: Integers,
                forbidden: NDArray[np.bool_]) -> bool:
    """Write to ``offered`` the row with entries of another; return whether it is another row that keeps the rules."""
    offered[:] = row
    for j in members:
        if movable[j] and (seed < 0 or seed == j):
            offered[j] = other[j]
    again = True
    while again:
        again = False
        for t in rules:
            if forbidden[rule_offset[t] + _cell(offered, t, rule_columns, rule_maps, rule_strides, cell)]:
                broken = True
                for c in range(rule_columns.shape[1]):
                    h = rule_columns[t, c]
                    if h >= 0 and movable[h] and offered[h] != other[h]:
                        offered[h] = other[h]
                        broken, again = False, True
                if broken:
                    return False
    return bool((offered != row).any())
