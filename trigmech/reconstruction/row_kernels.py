"""Compiled sweeps of the descent over rows; see :mod:`trigmech.reconstruction.rows`."""

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from trigmech.reconstruction.row_arrays import Crossings, Floats, Integers, Objective, Residuals, Row

# The number of rows whose products are summed at a time.
CHUNK = 256
# After the first rows a sweep leaves out entries that cost less, where they are, than the best other position usually
# would: less than the mean of what that was for the first rows, less so many of its standard deviations.
BELOW = 0.5


@njit(cache=True, nogil=True)
def sweep(objective: Objective, residuals: Residuals, rows: NDArray[np.int32], order: Integers, columns: Integers,
          least_gain: float, sampled: int) -> int:
    """Move every entry of the rows in ``order`` to the position with the least objective. Return the number of moves.

    ``rows`` (m, d) are positions within each column. ``columns`` are the columns to move: first the entries of the
    first one in all rows, then those of the next. A move must lower the objective by at least ``least_gain``, in units
    of rows. After the first ``sampled`` rows, entries that will hardly move are left out.
    """
    moves = 0
    for j in columns:
        moves += _sweep_column(objective, residuals, rows, order, j, least_gain, sampled)
    return moves


@njit(cache=True, nogil=True)
def _sweep_column(objective: Objective, residuals: Residuals, rows: NDArray[np.int32], order: Integers, j: int,
                  least_gain: float, sampled: int) -> int:
    """Move the entries of one column.

    What entering a cell costs is kept beside the residuals, so that the cells that an entry may enter follow each other
    in memory; a table of the column is small enough for the cache.

    Near the end few entries move: those in cells with too many rows. What it costs to stay is one look for each table,
    and what it costs elsewhere is one for each cell. So the second is sampled, and later entries are tried only if the
    first is as high as in ordinary moves.
    """
    first, cell, cells, map_of = objective.first, objective.cell, objective.cells, objective.map_of
    feature, features, groups = objective.feature, objective.features, objective.groups
    rules, rule_of, rule_start = objective.rules, objective.rules_of.of, objective.rules_of.start
    group_start, part_start, product_of, part_own = groups.start, groups.product_start, groups.product_of, groups.own
    other_start, other_columns, other_features = groups.other_start, groups.other_columns, groups.other_features
    product_weights, forbidden = objective.products.weights, objective.forbidden
    product, tables = residuals.products, _tables_of(objective, residuals, j)
    start, size, q, k_first = first[j], first[j + 1] - first[j], features[j], map_of[j]
    histogram = residuals.frequencies[start : start + size]
    linear, curvature = np.zeros(len(feature)), np.zeros(len(feature))
    # The features of the moved row; and for each product of the moved column, the other columns' factor.
    value, part = np.zeros((rows.shape[1], len(feature))), np.zeros(group_start[j + 1] - group_start[j])
    maps = map_of[j + 1] - k_first
    gain, left, tried = np.zeros((maps, cells.max())), np.zeros(maps), np.zeros(size)
    # Smaller numbers, more of which stay in the cache.
    small = cell.astype(np.int32)
    own_cell = small[k_first : k_first + maps, :size]
    at = np.zeros(len(tables.start), dtype=np.int64)
    firm = 2.0 * objective.frequency_weights[j]
    indicators = False
    for s in range(part_start[group_start[j]], part_start[group_start[j + 1]]):
        indicators |= part_own[s] >= q
    moves, tries, mean, spread, least_cost = 0, 0, 0.0, 0.0, -np.inf
    for i in order:
        row = rows[i]
        x = row[j]
        if part_start[group_start[j + 1]] > part_start[group_start[j]]:
            read(objective, row, value)
        for k in range(maps):
            left[k] = 0.0
        # Moving from cell a of a table to b changes the sum by w_b (2 R_b + 1) - w_a (2 R_a - 1), by 0 if a = b.
        for s in range(len(at)):
            base, k = tables.start[s], tables.own[s]
            for c in range(tables.columns.shape[1]):
                h = tables.columns[s, c]
                if h >= 0:
                    base += tables.strides[s, c] * small[tables.maps[s, c], row[h]]
            at[s] = base
            a = own_cell[k, x]
            left[k] += 2.0 * tables.weights[base + a] - tables.entering[base + a]
        constant = firm * (1.0 - histogram[x])
        for k in range(maps):
            constant += left[k]
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
                r, own_feature = product_of[s], part_own[s]
                w = product_weights[r] * others
                if own_feature < q:
                    linear[own_feature] += w * product[r]
                    curvature[own_feature] += w * others
                elif own_feature - q == x:
                    constant += w * (others - 2.0 * product[r])
        for a in range(q):
            # u (linear + bend u) with u = feature - here.
            linear[a] = 2.0 * (linear[a] - curvature[a] * value[j, a])
            constant -= value[j, a] * (linear[a] + curvature[a] * value[j, a])
        if -constant < least_cost:
            continue
        for k in range(maps):
            gain[k, : cells[k_first + k]] = 0.0
        for s in range(len(at)):
            k = tables.own[s]
            many = cells[k_first + k]
            own, entering = gain[k], tables.entering[at[s] : at[s] + many]
            for b in range(many):
                own[b] += entering[b]
        for k in range(maps):
            # This is exact, so that a move without a change never looks like a gain.
            gain[k, own_cell[k, x]] = -left[k]
        for s in range(rule_start[j], rule_start[j + 1]):
            base, stride, k = beside(rules, rule_of[s], row, j, cell)
            for b in range(cells[k]):
                if forbidden[base + stride * b]:
                    gain[k - k_first, b] = np.inf
        for y in range(size):
            tried[y] = firm * histogram[y]
        for k in range(maps):
            own, place = gain[k], own_cell[k]
            for y in range(size):
                tried[y] += own[place[y]]
        for g in range(group_start[j], group_start[j + 1] if indicators else group_start[j]):
            others = part[g - group_start[j]]
            for s in range(part_start[g], part_start[g + 1]):
                r, own_feature = product_of[s], part_own[s]
                if others != 0.0 and own_feature >= q and own_feature - q != x:
                    tried[own_feature - q] += product_weights[r] * others * (others + 2.0 * product[r])
        for a in range(q):
            slope, bend = linear[a], curvature[a]
            there = feature[a, start : start + size]
            for y in range(size):
                tried[y] += there[y] * (slope + there[y] * bend)
        tried[x] = np.inf
        best = np.inf
        for y in range(size):
            best = min(best, tried[y])
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
        for s in range(len(at)):
            k = tables.own[s]
            a, b = own_cell[k, x], own_cell[k, chosen]
            if a != b:
                tables.entering[at[s] + a] -= 2.0 * tables.weights[at[s] + a]
                tables.entering[at[s] + b] += 2.0 * tables.weights[at[s] + b]
                base, stride, _ = beside(objective.tables, objective.tables_of.of[objective.tables_of.start[j] + s],
                                          row, j, cell)
                residuals.tables[base + stride * a] -= 1.0
                residuals.tables[base + stride * b] += 1.0
        for a in range(q):
            linear[a] = feature[a, start + chosen] - value[j, a]
        for g in range(group_start[j], group_start[j + 1]):
            others = part[g - group_start[j]]
            if others == 0.0:
                continue
            for s in range(part_start[g], part_start[g + 1]):
                own_feature = part_own[s]
                if own_feature < q:
                    product[product_of[s]] += others * linear[own_feature]
                elif own_feature - q == x:
                    product[product_of[s]] -= others
                elif own_feature - q == chosen:
                    product[product_of[s]] += others
        row[j] = chosen
    return moves


class Entering(NamedTuple):
    """What it costs to enter each cell of a column's tables: w (1 + 2 R), beside the ``weights`` w.

    Table s begins at start[s]. The column's own cells, of map own[s], follow each other; the other columns' maps have
    strides. Column -1 means no column.
    """

    start: Integers
    own: Integers
    columns: Integers
    maps: Integers
    strides: Integers
    weights: Floats
    entering: Floats


@njit(cache=True, nogil=True)
def _tables_of(objective: Objective, residuals: Residuals, j: int) -> Entering:
    tables, of = objective.tables, objective.tables_of
    count, widest = of.start[j + 1] - of.start[j], tables.columns.shape[1]
    start, own = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64)
    columns, maps = np.full((count, widest), -1), np.zeros((count, widest), dtype=np.int64)
    strides, total = np.zeros((count, widest), dtype=np.int64), 0
    for s in range(count):
        t = of.of[of.start[j] + s]
        total += tables.offset[t + 1] - tables.offset[t]
    weights, entering = np.zeros(total), np.zeros(total)
    total = 0
    for s in range(count):
        t = of.of[of.start[j] + s]
        size, stride, side = tables.offset[t + 1] - tables.offset[t], 1, 1
        larger = size
        for c in range(widest):
            if tables.columns[t, c] == j:
                stride, own[s] = tables.strides[t, c], tables.maps[t, c] - objective.map_of[j]
                side = larger // stride
            if tables.columns[t, c] >= 0:
                larger = tables.strides[t, c]
        for c in range(widest):
            if tables.columns[t, c] >= 0 and tables.columns[t, c] != j:
                columns[s, c], maps[s, c] = tables.columns[t, c], tables.maps[t, c]
                # Without the own column, the strides of the columns before it are smaller.
                strides[s, c] = tables.strides[t, c] * side if tables.strides[t, c] < stride else tables.strides[t, c]
        start[s] = total
        for high in range(size // (stride * side)):
            for low in range(stride):
                place, old = total + (high * stride + low) * side, tables.offset[t] + high * stride * side + low
                for b in range(side):
                    w = objective.table_weights[old + b * stride]
                    weights[place + b] = w
                    entering[place + b] = w * (1.0 + 2.0 * residuals.tables[old + b * stride])
        total += size
    return Entering(start, own, columns, maps, strides, weights, entering)


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
def read(objective: Objective, row: Row, value: Floats) -> None:
    """Write the values of a row's features to ``value``."""
    first, feature, features = objective.first, objective.feature, objective.features
    for j in range(len(row)):
        for a in range(features[j]):
            value[j, a] = feature[a, first[j] + row[j]]


@njit(cache=True, nogil=True)
def beside(crossings: Crossings, t: int, row: Row, own: int, cell: Integers) -> tuple[int, int, int]:
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
