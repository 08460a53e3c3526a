"""Compiled sweeps of the descent over rows; see :mod:`trigmech.reconstruction.rows`."""

import numpy as np
from numpy.typing import NDArray

from trigmech._arrays import Codes, Integers
from trigmech.reconstruction.column_kernels import (
    add_cells,
    add_gain,
    find_costs,
    find_factors,
    find_places,
    find_slopes,
    least,
    parts_of,
    put_back,
    tables_of,
)
from trigmech.reconstruction.row_arrays import Crossings, Floats, Objective, Residuals, Row, inner, kernel

# The number of rows whose products are summed at a time.
CHUNK = 256
# The number of rows whose cells and factors are found at a time.
BLOCK = 32
# After the first rows a sweep leaves out entries that cost less, where they are, than the best other position usually
# would: less than the mean of that position's cost for the first rows, minus so many of its standard deviations.
BELOW = 0.5


@kernel
def sweep(objective: Objective, residuals: Residuals, rows: NDArray[np.int32], order: Integers, columns: Integers,
          least_gain: float, sampled: int) -> int:
    """Move every entry of the rows in ``order`` to the position with the least objective. Return the number of moves.

    ``rows`` (m, d) are positions within each column. ``columns`` are the columns to move: first the entries of the
    first one in all rows, then those of the next. A move must lower the objective by at least ``least_gain``, in units
    of rows. After the first ``sampled`` rows, entries that will hardly move are left out.
    """
    # Column by column, so that the entries of a block of rows follow each other in memory.
    moves, held = 0, np.empty((rows.shape[1], len(order)), dtype=np.int32)
    for place in range(len(order)):
        for j in range(len(held)):
            held[j, place] = rows[order[place], j]
    for j in columns:
        moves += _sweep_column(objective, residuals, held, j, least_gain, sampled)
    for place in range(len(order)):
        for j in columns:
            rows[order[place], j] = held[j, place]
    return moves


@inner
def _sweep_column(objective: Objective, residuals: Residuals, rows: NDArray[np.int32], j: int, least_gain: float,
                  sampled: int) -> int:
    """Move the entries of one column in rows (d, m), which are given column by column.

    The costs of entering a cell and of staying in it are kept beside the residuals, so that the cells that an entry may
    enter follow each other in memory; a table of the column is small enough for the cache. The other entries of a row
    stay as they are, so the places of its cells and the factors of its products are found for a block of rows at a
    time.

    Near the end few entries move: those in cells with too many rows. The cost of staying takes one look for each table,
    and the cost of other positions takes one look for each cell. So the cost of other positions is sampled, and later
    entries are tried only if their cost of staying is as high as in ordinary moves. The costs of staying are found for
    a block of rows at once, and they hold until one of these rows moves.
    """
    first, cell, cells, map_of = objective.first, objective.cell, objective.cells, objective.map_of
    feature, features, groups = objective.feature, objective.features, objective.groups
    rules, rule_of, rule_start = objective.rules, objective.rules_of.of, objective.rules_of.start
    group_start, part_start, product_of, part_own = groups.start, groups.product_start, groups.product_of, groups.own
    product_weights, forbidden, product = objective.products.weights, objective.forbidden, residuals.products
    tables, parts = tables_of(objective, residuals, j), parts_of(objective, residuals, j)
    entering, staying, held, weights = tables.entering, tables.staying, tables.residuals, tables.weights
    start, size, q, k_first = first[j], first[j + 1] - first[j], features[j], map_of[j]
    histogram = residuals.frequencies[start : start + size]
    linear, curvature = np.zeros(q), np.zeros(q)
    group_first, group_last = group_start[j], group_start[j + 1]
    # The cell of a row in each table, and the other columns' factor of each product of the moved column.
    places, factors = np.zeros((len(tables.start), BLOCK), dtype=np.int64), np.zeros((group_last - group_first, BLOCK))
    costs, slopes = np.zeros(BLOCK), np.zeros((2, BLOCK))
    maps = map_of[j + 1] - k_first
    gain, left, tried = np.zeros((maps, cells.max())), np.zeros(maps), np.zeros(size)
    own_cell = cell[k_first : k_first + maps, :size]
    many = cells[k_first : k_first + maps]
    firm = 2.0 * objective.frequency_weights[j]
    indicators = False
    for s in range(part_start[group_first], part_start[group_last]):
        indicators |= part_own[s] >= q
    moves, tries, mean, spread, least_cost, known = 0, 0, 0.0, 0.0, -np.inf, False
    for place in range(rows.shape[1]):
        n = place % BLOCK
        if n == 0:
            block = rows[:, place : place + BLOCK]
            find_places(tables, cell, block, places)
            find_factors(objective, block, j, factors)
            known = least_cost > -np.inf and not indicators
            if known:
                find_costs(tables, parts, own_cell, histogram, firm, feature[:, start : start + size], block[j], places,
                           factors, slopes, costs)
        if known and -costs[n] < least_cost:
            continue
        x = rows[j, place]
        for k in range(maps):
            left[k] = 0.0
        # Moving from cell a of a table to b changes the sum by w_b (2 R_b + 1) - w_a (2 R_a - 1), by 0 if a = b.
        for s in range(len(tables.own)):
            k = tables.own[s]
            left[k] += staying[places[s, n] + own_cell[k, x]]
        constant = firm * (1.0 - histogram[x])
        for k in range(maps):
            constant += left[k]
        for g in range(group_first, group_last if indicators else group_first):
            others = factors[g - group_first, n]
            for s in range(part_start[g], part_start[g + 1]):
                if others != 0.0 and part_own[s] - q == x:
                    r = product_of[s]
                    constant += product_weights[r] * others * (others - 2.0 * product[r])
        find_slopes(parts, factors, n, linear, curvature)
        for a in range(q):
            # u (linear + bend u) with u = feature - here.
            here = feature[a, start + x]
            linear[a] = 2.0 * (linear[a] - curvature[a] * here)
            constant -= here * (linear[a] + curvature[a] * here)
        if -constant < least_cost:
            continue
        add_cells(tables, places, n, many, gain)
        for k in range(maps):
            # This is exact, so that a move without a change never looks like a gain.
            gain[k, own_cell[k, x]] = -left[k]
        for s in range(rule_start[j], rule_start[j + 1]):
            base, stride, k = beside(rules, rule_of[s], rows[:, place], j, cell)
            for b in range(cells[k]):
                if forbidden[base + stride * b]:
                    gain[k - k_first, b] = np.inf
        for y in range(size):
            tried[y] = firm * histogram[y]
        for k in range(maps):
            add_gain(gain, own_cell, k, tried)
        for g in range(group_first, group_last if indicators else group_first):
            others = factors[g - group_first, n]
            for s in range(part_start[g], part_start[g + 1]):
                r, own_feature = product_of[s], part_own[s]
                if others != 0.0 and own_feature >= q and own_feature - q != x:
                    tried[own_feature - q] += product_weights[r] * others * (others + 2.0 * product[r])
        for a in range(q):
            slope, bend = linear[a], curvature[a]
            for y in range(size):
                there = feature[np.uint64(a), np.uint64(start + y)]
                tried[y] += there * (slope + there * bend)
        tried[x] = np.inf
        best = least(tried)
        if tries < sampled and best < np.inf:
            tries += 1
            apart = best - mean
            mean += apart / tries
            spread += apart * (best - mean)
            if tries == sampled:
                least_cost = mean - BELOW * np.sqrt(spread / tries)
        if not best + constant < -max(least_gain, 1e-9):
            continue
        chosen = 0
        while tried[chosen] != best:
            chosen += 1
        moves += 1
        histogram[x] -= 1.0
        histogram[chosen] += 1.0
        for s in range(len(tables.own)):
            k = tables.own[s]
            a, b = places[s, n] + own_cell[k, x], places[s, n] + own_cell[k, chosen]
            if a != b:
                entering[a] -= 2.0 * weights[a]
                entering[b] += 2.0 * weights[b]
                staying[a], staying[b] = 2.0 * weights[a] - entering[a], 2.0 * weights[b] - entering[b]
                held[a] -= 1.0
                held[b] += 1.0
        for a in range(q):
            linear[a] = feature[a, start + chosen] - feature[a, start + x]
            for s in range(parts.start[a], parts.start[a + 1]):
                parts.sums[s] += factors[parts.groups[s], n] * linear[a]
        for g in range(group_first, group_last if indicators else group_first):
            others = factors[g - group_first, n]
            for s in range(part_start[g], part_start[g + 1]):
                if part_own[s] - q == x:
                    product[product_of[s]] -= others
                elif part_own[s] - q == chosen:
                    product[product_of[s]] += others
        # A move changes the costs of the next entries.
        rows[j, place], known = chosen, False
    if moves:
        put_back(tables.cells, tables.residuals, residuals.tables)
        put_back(parts.of, parts.sums, product)
    return moves


@kernel
def add_counts(objective: Objective, rows: NDArray[np.int32], counts: Floats) -> None:
    """Add the number of rows in each cell of each table to ``counts``."""
    tables, cell, place = objective.tables, objective.cell, np.zeros(CHUNK, dtype=np.int64)
    for begin in range(0, len(rows), CHUNK):
        part = rows[begin : begin + CHUNK]
        for t in range(len(tables.columns)):
            place[:] = tables.offset[t]
            for c in range(tables.columns.shape[1]):
                h, stride, own = tables.columns[t, c], tables.strides[t, c], cell[tables.maps[t, c]]
                if h >= 0:
                    for i in range(len(part)):
                        place[i] += stride * own[part[i, h]]
            for i in range(len(part)):
                counts[place[i]] += 1.0


@kernel
def write_places(tables: Crossings, cell: Codes, t: int, rows: NDArray[np.int32], places: Integers) -> None:
    """Write the cell (1 + c, m) of each row in table t, and in each of its c columns, which come first in the table."""
    for i in range(len(rows)):
        total = 0
        for c in range(len(places) - 1):
            own = cell[tables.maps[t, c], rows[i, tables.columns[t, c]]]
            places[1 + c, i] = own
            total += tables.strides[t, c] * own
        places[0, i] = total


@kernel
def counted_order(held: Integers, cells: int) -> tuple[Integers, Integers]:
    """Return the rows (m,) by their cells ``held``, those of a cell in their order; and the number of rows of each."""
    counts, order = np.zeros(cells, dtype=np.int64), np.empty(len(held), dtype=np.int64)
    for own in held:
        counts[own] += 1
    ends = np.cumsum(counts) - counts
    for i in range(len(held)):
        order[ends[held[i]]] = i
        ends[held[i]] += 1
    return order, counts


@kernel
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


@inner
def beside(crossings: Crossings, t: int, row: Row, own: int, cell: Codes) -> tuple[int, int, int]:
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
