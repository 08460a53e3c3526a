"""Compiled: one sweep of the descent over rows; see :mod:`trigmech.reconstruction.rows`."""

import numpy as np
from numba import njit
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

# Rows whose products are added together.
CHUNK = 256


@njit(cache=True, nogil=True)
def sweep(rows: NDArray[np.int32], order: Integers, columns: Integers, least_gain: float,
          first: Integers, histogram: Floats, histogram_weight: Floats,
          cell: Integers, cells: Integers, map_of: Integers,
          table_start: Integers, table_of: Integers, table_columns: Integers, table_maps: Integers,
          table_strides: Integers, table_offset: Integers, table_weight: Floats, table: Floats,
          feature: Floats, features: Integers,
          group_start: Integers, other_start: Integers, other_columns: Integers, other_features: Integers,
          product_start: Integers, product_of: Integers, product_own: Integers, product_weight: Floats,
          product: Floats,
          rule_start: Integers, rule_of: Integers, rule_columns: Integers, rule_maps: Integers,
          rule_strides: Integers, rule_offset: Integers, forbidden: NDArray[np.bool_]) -> int:
    """Move every entry of the rows in ``order`` to the position with the least objective; return the moves.

    Positions of all columns stand one after the other: column j has first[j] to first[j + 1]. All residuals are in
    rows: the sum over the rows of a function less its target, which is kept up to date.

    rows (m, d): positions within each column. columns: which to move, in order. least_gain: by how much a move must
    lower the objective, in these units.
    histogram (positions,), histogram_weight (d,): residuals and weights of the columns' own frequencies.
    cell (maps, positions), cells (maps,): numbers of cells for each position of a column; map_of (d + 1,): the maps of
    a column are map_of[j] to map_of[j + 1]; maps have as many entries as the column has positions, at first[j].
    Tables: of column j those in table_of[table_start[j]:table_start[j + 1]]; table t is of the columns
    table_columns[t] (-1: none) by their maps table_maps[t], its cell at table_offset[t] + sum of strides.
    Products: of column j the groups g from group_start[j] to group_start[j + 1], each of products that differ in the
    column's own feature alone: product_own[s] of product_of[s], product_start[g] <= s < product_start[g + 1]. The
    others are other_features[o] of other_columns[o], other_start[g] <= o < other_start[g + 1]. feature (most,
    positions), features (d,): values, and how many; a feature beyond these is the indicator of a position.
    Rules: as tables, of any number of columns; where ``forbidden`` no entry is moved to.
    """
    d = rows.shape[1]
    most = feature.shape[0]
    linear, curvature = np.zeros(most), np.zeros(most)
    # Of the row that is moved; and for each product of the column that is moved, the other columns' part.
    value = np.zeros((d, most))
    longest = 0
    for j in range(d):
        longest = max(longest, group_start[j + 1] - group_start[j])
    part = np.zeros(longest)
    widest = 0
    for k in range(len(cells)):
        widest = max(widest, cells[k])
    gain = np.zeros((len(cells), widest))
    score = np.zeros(0)
    for j in range(d):
        if first[j + 1] - first[j] > len(score):
            score = np.zeros(first[j + 1] - first[j])
    moves = 0
    for i in order:
        for j in range(d):
            for a in range(features[j]):
                value[j, a] = feature[a, first[j] + rows[i, j]]
        for j in columns:
            start, size, q = first[j], first[j + 1] - first[j], features[j]
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
            tried = score[:size]
            w = 2.0 * histogram_weight[j]
            near = histogram[start : start + size]
            leaving = 1.0 - histogram[start + x]
            for y in range(size):
                tried[y] = w * (near[y] + leaving)
            for k in range(map_of[j], map_of[j + 1]):
                cell_of = cell[k, :size]
                for y in range(size):
                    tried[y] += gain[k, cell_of[y]]
            for a in range(q):
                linear[a] = 0.0
                curvature[a] = 0.0
            constant = 0.0
            for g in range(group_start[j], group_start[j + 1]):
                others = 1.0
                for o in range(other_start[g], other_start[g + 1]):
                    h, a = other_columns[o], other_features[o]
                    if a < features[h]:
                        others *= value[h, a]
                    elif a - features[h] != rows[i, h]:
                        others = 0.0
                        break
                part[g - group_start[j]] = others
                if others == 0.0:
                    continue
                for s in range(product_start[g], product_start[g + 1]):
                    r, own = product_of[s], product_own[s]
                    w = product_weight[r] * others
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
            for a in range(q):
                linear[a] = feature[a, start + chosen] - value[j, a]
                value[j, a] = feature[a, start + chosen]
            for g in range(group_start[j], group_start[j + 1]):
                others = part[g - group_start[j]]
                if others == 0.0:
                    continue
                for s in range(product_start[g], product_start[g + 1]):
                    own = product_own[s]
                    if own < q:
                        product[product_of[s]] += others * linear[own]
                    elif own - q == x:
                        product[product_of[s]] -= others
                    elif own - q == chosen:
                        product[product_of[s]] += others
            rows[i, j] = chosen
    return moves


@njit(cache=True, nogil=True)
def add_products(rows: NDArray[np.int32], first: Integers, feature: Floats, features: Integers, start: Integers,
                 columns: Integers, own: Integers, sums: Floats) -> None:
    """Add each product's sum over the rows; product r is of the features own[o] of columns[o], start[r] <= o."""
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
            for o in range(start[r], start[r + 1]):
                j, a = columns[o], own[o]
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
def sweep_together(rows: NDArray[np.int32], order: Integers, others: Integers, seeds: Integers,
                   movable: NDArray[np.bool_], members: Integers, first: Integers,
                   histogram: Floats, histogram_weight: Floats, cell: Integers,
                   tables: Integers, table_columns: Integers, table_maps: Integers, table_strides: Integers,
                   table_offset: Integers, table_weight: Floats, table: Floats,
                   feature: Floats, features: Integers, products: Integers, factor_start: Integers,
                   factor_columns: Integers, factors: Integers, product_weight: Floats, product: Floats,
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
            value[s] = _product(row, products[s], factor_start, factor_columns, factors, first, feature, features)
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
                u = _product(offered, r, factor_start, factor_columns, factors, first, feature, features) - value[s]
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
            product[r] += _product(chosen, r, factor_start, factor_columns, factors, first, feature,
                                   features) - value[s]
        row[:] = chosen
    return moves


@njit(cache=True, nogil=True)
def exchange(rows: NDArray[np.int32], order: Integers, others: Integers, sets: Integers, of_set: Integers,
             member_start: Integers, member_of: Integers, first: Integers, cell: Integers,
             table_start: Integers, table_of: Integers, table_columns: Integers, table_maps: Integers,
             table_strides: Integers, table_offset: Integers, table_weight: Floats, table: Floats,
             feature: Floats, features: Integers, product_start: Integers, product_of: Integers,
             factor_start: Integers, factor_columns: Integers, factors: Integers, product_weight: Floats,
             product: Floats, rule_start: Integers, rule_of: Integers, rule_columns: Integers, rule_maps: Integers,
             rule_strides: Integers, rule_offset: Integers, forbidden: NDArray[np.bool_]) -> int:
    """Exchange entries between two rows if that lowers the objective and, alone, that of tables; return how often.

    As :func:`sweep`, with lists by sets of columns: of set s those members, tables, products and rules that lie from
    start[s] to start[s + 1]. of_set (d,): which set a column is in. What is exchanged are the entries of all columns of
    a set, for each of ``sets``. others (len(order), c): for each row c other rows, one after the other. The columns'
    own frequencies stay as they are. That tables must gain spares most looks at products, of which there are many.
    """
    d = rows.shape[1]
    value, other = np.zeros((d, feature.shape[0])), np.zeros((d, feature.shape[0]))
    moves = 0
    for place in range(len(order)):
        one = rows[order[place]]
        _read(one, first, feature, features, value)
        for candidate in range(others.shape[1]):
            two = rows[others[place, candidate]]
            _read(two, first, feature, features, other)
            for own in sets:
                alike = True
                for s in range(member_start[own], member_start[own + 1]):
                    alike &= one[member_of[s]] == two[member_of[s]]
                if alike:
                    continue
                change = 0.0
                for s in range(table_start[own], table_start[own + 1]):
                    t = table_of[s]
                    a, b, x, y = _crossed(one, two, t, own, of_set, table_columns, table_maps, table_strides, cell)
                    if a != b and x != y:
                        o = table_offset[t]
                        change += 2.0 * table_weight[t] * (
                            table[o + a + y] - table[o + a + x] + table[o + b + x] - table[o + b + y] + 2.0)
                if change > 0.0:
                    continue
                for s in range(product_start[own], product_start[own + 1]):
                    r = product_of[s]
                    u = _gained(one, two, r, own, of_set, factor_start, factor_columns, factors, features, value, other)
                    change += product_weight[r] * u * (2.0 * product[r] + u)
                if not change < -1e-9:
                    continue
                broken = False
                for s in range(rule_start[own], rule_start[own + 1]):
                    t = rule_of[s]
                    a, b, x, y = _crossed(one, two, t, own, of_set, rule_columns, rule_maps, rule_strides, cell)
                    broken |= forbidden[rule_offset[t] + a + y] or forbidden[rule_offset[t] + b + x]
                if broken:
                    continue
                moves += 1
                for s in range(table_start[own], table_start[own + 1]):
                    t = table_of[s]
                    a, b, x, y = _crossed(one, two, t, own, of_set, table_columns, table_maps, table_strides, cell)
                    o = table_offset[t]
                    table[o + a + x] -= 1.0
                    table[o + b + y] -= 1.0
                    table[o + a + y] += 1.0
                    table[o + b + x] += 1.0
                for s in range(product_start[own], product_start[own + 1]):
                    r = product_of[s]
                    product[r] += _gained(one, two, r, own, of_set, factor_start, factor_columns, factors, features,
                                          value, other)
                for s in range(member_start[own], member_start[own + 1]):
                    j = member_of[s]
                    one[j], two[j] = two[j], one[j]
                    for a in range(features[j]):
                        value[j, a], other[j, a] = other[j, a], value[j, a]
    return moves


@njit(cache=True, nogil=True)
def _read(row: NDArray[np.int32], first: Integers, feature: Floats, features: Integers, value: Floats) -> None:
    for j in range(len(row)):
        for a in range(features[j]):
            value[j, a] = feature[a, first[j] + row[j]]


@njit(cache=True, nogil=True)
def _crossed(one: NDArray[np.int32], two: NDArray[np.int32], t: int, own: int, of_set: Integers, columns: Integers,
             maps: Integers, strides: Integers, cell: Integers) -> tuple[int, int, int, int]:
    """Return where two rows are in a table, a + x and b + y, of which x and y are what they would exchange."""
    a, b, x, y = 0, 0, 0, 0
    for c in range(columns.shape[1]):
        h = columns[t, c]
        if h >= 0:
            mine, theirs = strides[t, c] * cell[maps[t, c], one[h]], strides[t, c] * cell[maps[t, c], two[h]]
            if of_set[h] == own:
                x += mine
                y += theirs
            else:
                a += mine
                b += theirs
    return a, b, x, y


@njit(cache=True, nogil=True)
def _gained(one: NDArray[np.int32], two: NDArray[np.int32], r: int, own: int, of_set: Integers, start: Integers,
            columns: Integers, factors: Integers, features: Integers, value: Floats, other: Floats) -> float:
    """Return by how much a product's sum over two rows grows if they exchange entries."""
    a, b, x, y = 1.0, 1.0, 1.0, 1.0
    for o in range(start[r], start[r + 1]):
        j, k = columns[o], factors[o]
        if k < features[j]:
            mine, theirs = value[j, k], other[j, k]
        else:
            mine, theirs = 1.0 * (one[j] == k - features[j]), 1.0 * (two[j] == k - features[j])
        if of_set[j] == own:
            x *= mine
            y *= theirs
        else:
            a *= mine
            b *= theirs
    return (a - b) * (y - x)


@njit(cache=True, nogil=True)
def _cell(row: NDArray[np.int32], t: int, columns: Integers, maps: Integers, strides: Integers, cell: Integers) -> int:
    place = 0
    for c in range(columns.shape[1]):
        h = columns[t, c]
        if h >= 0:
            place += strides[t, c] * cell[maps[t, c], row[h]]
    return place


@njit(cache=True, nogil=True)
def _product(row: NDArray[np.int32], r: int, start: Integers, columns: Integers, own: Integers, first: Integers,
             feature: Floats, features: Integers) -> float:
    value = 1.0
    for o in range(start[r], start[r + 1]):
        j, a = columns[o], own[o]
        if a < features[j]:
            value *= feature[a, first[j] + row[j]]
        elif a - features[j] != row[j]:
            return 0.0
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
