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
          product_weight: Floats, product: Floats) -> int:
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
