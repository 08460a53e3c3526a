"""Compiled: moves of several entries of a row at once; see :mod:`trigmech.reconstruction.rows`."""

import numpy as np
from numba import njit
from numpy.typing import NDArray

from trigmech.reconstruction.row_arrays import Crossings, Integers, Objective, Residuals, Row
from trigmech.reconstruction.row_kernels import beside


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
def _cell(crossings: Crossings, t: int, row: Row, cell: Integers) -> int:
    return beside(crossings, t, row, -1, cell)[0]


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
