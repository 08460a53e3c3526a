"""Compiled: the numbers that a sweep of one column reads, in the order in which it reads them.

:mod:`trigmech.reconstruction.row_kernels` sweeps the column with them.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trigmech._arrays import Integers
from trigmech.reconstruction.row_arrays import Floats, Objective, Residuals, inner, kernel


class Tables(NamedTuple):
    """The tables of a column, with the cells of the column's own maps next to each other.

    Table s begins at start[s], and has the column's own map own[s]; the other columns' maps have strides. Column -1
    means no column. For each cell: its place ``cells`` in the objective's tables, its weight w and its residual R, the
    cost w (1 + 2 R) of entering the cell, and the cost w (1 - 2 R) of staying in it.
    """

    start: Integers
    own: Integers
    columns: Integers
    maps: Integers
    strides: Integers
    cells: Integers
    weights: Floats
    residuals: Floats
    entering: Floats
    staying: Floats


class MovedProducts(NamedTuple):
    """The products of a column's features; those of feature a are start[a] <= s < start[a + 1].

    Product s is product of[s] of all, and belongs to the column's group ``groups``; ``sums`` are the residuals.
    """

    start: Integers
    groups: Integers
    of: Integers
    weights: Floats
    sums: Floats


@kernel
def find_places(tables: Tables, cell: NDArray[np.int32], block: NDArray[np.int32], places: Integers) -> None:
    """Write where each table of the moved column begins for each row (tables, block): at the other columns' cells.

    ``block`` (d, any) has the rows column by column.
    """
    for s in range(len(tables.start)):
        begins = places[s]
        begins[:] = tables.start[s]
        for c in range(tables.columns.shape[1]):
            h, stride, own = tables.columns[s, c], tables.strides[s, c], cell[tables.maps[s, c]]
            if h >= 0:
                there = block[h]
                for n in range(len(there)):
                    begins[n] += stride * own[np.uint32(there[n])]


@kernel
def find_factors(objective: Objective, block: NDArray[np.int32], j: int, factors: Floats) -> None:
    """Write the other columns' factor of the products in each group (groups, block) of the moved column."""
    first, feature, features, groups = objective.first, objective.feature, objective.features, objective.groups
    for g in range(groups.start[j], groups.start[j + 1]):
        own = factors[g - groups.start[j]]
        own[:] = 1.0
        for o in range(groups.other_start[g], groups.other_start[g + 1]):
            h, a = groups.other_columns[o], groups.other_features[o]
            of = block[h]
            if a < features[h]:
                there = feature[a, first[h] : first[h + 1]]
                for n in range(len(of)):
                    own[n] *= there[np.uint32(of[n])]
            else:
                for n in range(len(of)):
                    if a - features[h] != of[n]:
                        own[n] = 0.0


@kernel
def find_costs(tables: Tables, parts: MovedProducts, cell: NDArray[np.int32], histogram: Floats, firm: float,
               feature: Floats, block: NDArray[np.int32], places: Integers, factors: Floats, slopes: Floats,
               costs: Floats) -> None:
    """Write how much the objective would change without each entry (block,) of the moved column.

    ``cell`` and ``feature`` are those of the column's positions. ``slopes`` (2, block) is room.
    """
    slope, bend, staying = slopes[0], slopes[1], tables.staying
    for n in range(len(block)):
        costs[n] = firm * (1.0 - histogram[block[n]])
    for s in range(len(tables.own)):
        at, own = places[s], cell[tables.own[s]]
        for n in range(len(block)):
            costs[n] += staying[np.uint64(at[n] + own[np.uint32(block[n])])]
    for a in range(len(parts.start) - 1):
        slopes[:] = 0.0
        for s in range(parts.start[a], parts.start[a + 1]):
            own_factors, w = factors[parts.groups[s]], parts.weights[s]
            twice = 2.0 * w * parts.sums[s]
            for n in range(len(slope)):
                slope[n] += twice * own_factors[n]
                bend[n] += w * own_factors[n] * own_factors[n]
        own_feature = feature[a]
        for n in range(len(block)):
            u = own_feature[np.uint32(block[n])]
            costs[n] -= u * (slope[n] - bend[n] * u)


@inner
def find_slopes(parts: MovedProducts, factors: Floats, n: int, linear: Floats, curvature: Floats) -> None:
    """Write how the products' sum of squares depends on each feature of the moved column in row n of a block."""
    for a in range(len(linear)):
        slope = bend = 0.0
        for s in range(parts.start[a], parts.start[a + 1]):
            others = factors[np.uint64(parts.groups[s]), n]
            w = parts.weights[s] * others
            slope += w * parts.sums[s]
            bend += w * others
        linear[a], curvature[a] = slope, bend


@inner
def add_cells(tables: Tables, places: Integers, n: int, many: Integers, gain: Floats) -> None:
    """Write the costs of entering each cell (maps, cells) of the moved column's maps, in all tables of a block's row n.

    No part of an array has a name here: its references would be counted, which takes longer than a few additions.
    """
    entering, owns = tables.entering, tables.own
    for k in range(len(many)):
        for b in range(many[k]):
            gain[k, b] = 0.0
    for s in range(len(owns)):
        own, at = np.uint64(owns[s]), np.uint64(places[s, n])
        for b in range(np.uint64(many[own])):
            gain[own, b] += entering[at + b]


@inner
def add_gain(gain: Floats, cell: NDArray[np.int32], k: int, tried: Floats) -> None:
    """Add to each position the gain of its cell in map k."""
    for y in range(len(tried)):
        tried[y] += gain[np.uint64(k), np.uint32(cell[np.uint64(k), y])]


@inner
def least(values: Floats) -> float:
    """Return the least value, or infinity. Eight comparisons do not wait for each other."""
    a = b = c = d = e = f = g = h = np.inf
    whole = len(values) // 8 * 8
    for y in range(0, whole, 8):
        a, b, c, d = min(a, values[y]), min(b, values[y + 1]), min(c, values[y + 2]), min(d, values[y + 3])
        e, f, g, h = min(e, values[y + 4]), min(f, values[y + 5]), min(g, values[y + 6]), min(h, values[y + 7])
    for y in range(whole, len(values)):
        a = min(a, values[y])
    return min(min(min(a, b), min(c, d)), min(min(e, f), min(g, h)))


@kernel
def tables_of(objective: Objective, residuals: Residuals, j: int) -> Tables:
    tables, of = objective.tables, objective.tables_of
    count, widest = of.start[j + 1] - of.start[j], tables.columns.shape[1]
    start, own = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64)
    columns, maps = np.full((count, widest), -1), np.zeros((count, widest), dtype=np.int64)
    strides, total = np.zeros((count, widest), dtype=np.int64), 0
    table_weights, residual = objective.table_weights, residuals.tables
    for s in range(count):
        t = of.of[of.start[j] + s]
        total += tables.offset[t + 1] - tables.offset[t]
    cells, weights, held = np.empty(total, dtype=np.int64), np.empty(total), np.empty(total)
    entering, staying, total = np.empty(total), np.empty(total), 0
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
                    # In one pass: a sweep of few moves would take longer to copy tables than to look for moves.
                    i, at = np.uint64(place + b), np.uint64(old + b * stride)
                    w, missed = table_weights[at], residual[at]
                    cells[i], weights[i], held[i], entering[i] = at, w, missed, w * (1.0 + 2.0 * missed)
                    staying[i] = 2.0 * w - entering[i]
        total += size
    return Tables(start, own, columns, maps, strides, cells, weights, held, entering, staying)


@kernel
def parts_of(objective: Objective, residuals: Residuals, j: int) -> MovedProducts:
    groups, q = objective.groups, objective.features[j]
    start, low, high = np.zeros(q + 1, dtype=np.int64), groups.start[j], groups.start[j + 1]
    for s in range(groups.product_start[low], groups.product_start[high]):
        if groups.own[s] < q:
            start[groups.own[s] + 1] += 1
    start = np.cumsum(start)
    place, own, of = start.copy(), np.zeros(start[q], dtype=np.int64), np.zeros(start[q], dtype=np.int64)
    for g in range(low, high):
        for s in range(groups.product_start[g], groups.product_start[g + 1]):
            a = groups.own[s]
            if a < q:
                own[place[a]], of[place[a]] = g - low, groups.product_of[s]
                place[a] += 1
    return MovedProducts(start, own, of, objective.products.weights[of], residuals.products[of])


@inner
def put_back(places: Integers, own: Floats, residuals: Floats) -> None:
    """Write a column's residuals to their places among all."""
    for i in range(len(places)):
        residuals[places[i]] = own[i]
