"""Compiled: exchanges of entries between two rows, which leave columns as they are.

:mod:`trigmech.reconstruction.rows` makes those that gain; those that change little are in
:mod:`trigmech.reconstruction.mixing_kernels`.
"""

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from trigmech._arrays import Integers
from trigmech.reconstruction.row_arrays import Crossings, Floats, Objective, Residuals, Row, Sets
from trigmech.reconstruction.row_kernels import read


class CrossedTables(NamedTuple):
    """The tables (t,) that some sets of columns change; ``place`` has the place of each table among them.

    ``sets`` (t, widest) has the set of each column of a table; -1 means no column. The weight and the residual of each
    cell stand side by side in ``held`` (cells, 2), where each table has its ``start``: the two are read together.
    """

    tables: Integers
    place: Integers
    sets: Integers
    start: Integers
    held: Floats


class Places(NamedTuple):
    """A row's cell in each of these tables (t,), and the part of it that each column makes (t, widest)."""

    cells: Integers
    parts: Integers


@njit(cache=True, nogil=True)
def exchange(objective: Objective, residuals: Residuals, rows: NDArray[np.int32], order: Integers, others: Integers,
             chosen: Integers, sets: Sets) -> int:
    """Exchange entries between two rows if that lowers the objective and, alone, that of tables; return how often.

    Two rows exchange their entries in all columns of a set, for each set of ``chosen``. others (len(order), c): for
    each row c other rows, one after the other. The columns' own frequencies stay as they are. That tables must gain
    spares most looks at products, of which there are many.
    """
    table, product, weights = residuals.tables, residuals.products, objective.products.weights
    member_of, product_of, rule_of, of_set = sets.members, sets.products, sets.rules, sets.of
    forbidden, offset, rules, offset_of = (objective.forbidden, objective.rules.offset, objective.rules,
                                           objective.tables.offset)
    features, cell = objective.features, objective.cell
    shape = rows.shape[1], objective.feature.shape[0]
    value, other = np.zeros(shape), np.zeros(shape)
    crossed = _crossed_of(objective, table, chosen, sets)
    mine, theirs = _places_of(crossed), _places_of(crossed)
    moves = 0
    for place in range(len(order)):
        one, known = rows[order[place]], False
        _find_places(objective, crossed, one, mine)
        for candidate in range(others.shape[1]):
            two, both = rows[others[place, candidate]], False
            _find_places(objective, crossed, two, theirs)
            for own in chosen:
                if _alike(one, two, own, sets):
                    continue
                change = _change_of_places(crossed, mine, theirs, own, sets)
                if change > 0.0:
                    continue
                # Few pairs come so far.
                if not known:
                    read(objective, one, value)
                if not both:
                    read(objective, two, other)
                known = both = True
                for s in range(product_of.start[own], product_of.start[own + 1]):
                    r = product_of.of[s]
                    u = _gained(objective, r, one, two, own, of_set, value, other)
                    change += weights[r] * u * (2.0 * product[r] + u)
                if not change < -1e-9:
                    continue
                broken = False
                for s in range(rule_of.start[own], rule_of.start[own + 1]):
                    t = rule_of.of[s]
                    a, b, x, y = _crossed(rules, t, one, two, own, of_set, cell)
                    broken |= forbidden[offset[t] + a + y] or forbidden[offset[t] + b + x]
                if broken:
                    continue
                moves += 1
                _exchanged_of_places(crossed, mine, theirs, own, sets)
                for s in range(product_of.start[own], product_of.start[own + 1]):
                    r = product_of.of[s]
                    product[r] += _gained(objective, r, one, two, own, of_set, value, other)
                for s in range(member_of.start[own], member_of.start[own + 1]):
                    j = member_of.of[s]
                    one[j], two[j] = two[j], one[j]
                    for a in range(features[j]):
                        value[j, a], other[j, a] = other[j, a], value[j, a]
    for s in range(len(crossed.tables)):
        first, start = offset_of[crossed.tables[s]], crossed.start[s]
        for i in range(crossed.start[s + 1] - start):
            table[first + i] = crossed.held[start + i, 1]
    return moves


@njit(cache=True, nogil=True)
def _crossed_of(objective: Objective, table: Floats, chosen: Integers, sets: Sets) -> CrossedTables:
    offset, held = objective.tables.offset, np.zeros(len(objective.tables.columns), dtype=np.bool_)
    for own in chosen:
        for s in range(sets.tables.start[own], sets.tables.start[own + 1]):
            held[sets.tables.of[s]] = True
    tables, place = np.flatnonzero(held), np.cumsum(held) - 1
    of = np.full((len(tables), objective.tables.columns.shape[1]), -1)
    for s in range(len(tables)):
        for c in range(of.shape[1]):
            h = objective.tables.columns[tables[s], c]
            if h >= 0:
                of[s, c] = sets.of[h]
    start = np.zeros(len(tables) + 1, dtype=np.int64)
    start[1:] = np.cumsum(offset[tables + 1] - offset[tables])
    both = np.empty((start[-1], 2))
    for s in range(len(tables)):
        for i in range(start[s + 1] - start[s]):
            both[start[s] + i, 0] = objective.table_weights[offset[tables[s]] + i]
            both[start[s] + i, 1] = table[offset[tables[s]] + i]
    return CrossedTables(tables, place, of, start, both)


@njit(cache=True, nogil=True)
def _places_of(crossed: CrossedTables) -> Places:
    return Places(np.zeros(len(crossed.tables), dtype=np.int64), np.zeros(crossed.sets.shape, dtype=np.int64))


@njit(cache=True, nogil=True)
def _find_places(objective: Objective, crossed: CrossedTables, row: Row, places: Places) -> None:
    """Write the cells of a row."""
    tables, cell = objective.tables, objective.cell
    for s in range(len(crossed.tables)):
        t = crossed.tables[s]
        total = crossed.start[s]
        for c in range(crossed.sets.shape[1]):
            h = tables.columns[t, c]
            if h >= 0:
                part = tables.strides[t, c] * cell[tables.maps[t, c], row[h]]
                places.parts[s, c] = part
                total += part
        places.cells[s] = total


@njit(cache=True, nogil=True)
def _change_of_places(crossed: CrossedTables, one: Places, two: Places, own: int, sets: Sets) -> float:
    """Return by how much the tables' part of the objective grows if two rows exchange the entries of a set."""
    held, change = crossed.held, 0.0
    for i in range(sets.tables.start[own], sets.tables.start[own + 1]):
        s = crossed.place[sets.tables.of[i]]
        moved = 0
        for c in range(crossed.sets.shape[1]):
            if crossed.sets[s, c] == own:
                moved += two.parts[s, c] - one.parts[s, c]
        ax, by = one.cells[s], two.cells[s]
        ay, bx = ax + moved, by - moved
        if ay != by and moved != 0:
            change += (held[ay, 0] * (1.0 + 2.0 * held[ay, 1]) + held[ax, 0] * (1.0 - 2.0 * held[ax, 1])
                       + held[bx, 0] * (1.0 + 2.0 * held[bx, 1]) + held[by, 0] * (1.0 - 2.0 * held[by, 1]))
    return change


@njit(cache=True, nogil=True)
def _exchanged_of_places(crossed: CrossedTables, one: Places, two: Places, own: int, sets: Sets) -> None:
    """Keep tables and the rows' cells up to date when two rows exchange the entries of a set."""
    for i in range(sets.tables.start[own], sets.tables.start[own + 1]):
        s = crossed.place[sets.tables.of[i]]
        crossed.held[one.cells[s], 1] -= 1.0
        crossed.held[two.cells[s], 1] -= 1.0
        for c in range(crossed.sets.shape[1]):
            if crossed.sets[s, c] == own:
                moved = two.parts[s, c] - one.parts[s, c]
                one.cells[s] += moved
                two.cells[s] -= moved
                one.parts[s, c], two.parts[s, c] = two.parts[s, c], one.parts[s, c]
        crossed.held[one.cells[s], 1] += 1.0
        crossed.held[two.cells[s], 1] += 1.0


@njit(cache=True, nogil=True)
def _alike(one: Row, two: Row, own: int, sets: Sets) -> bool:
    alike = True
    for s in range(sets.members.start[own], sets.members.start[own + 1]):
        alike &= one[sets.members.of[s]] == two[sets.members.of[s]]
    return alike


@njit(cache=True, nogil=True)
def _crossed(crossings: Crossings, t: int, one: Row, two: Row, own: int, of_set: Integers,
             cell: Integers) -> tuple[int, int, int, int]:
    """Return where two rows are in a table, a + x and b + y, of which x and y are what they would exchange."""
    a, b, x, y = 0, 0, 0, 0
    for c in range(crossings.columns.shape[1]):
        h = crossings.columns[t, c]
        if h >= 0:
            stride, k = crossings.strides[t, c], crossings.maps[t, c]
            mine, theirs = stride * cell[k, one[h]], stride * cell[k, two[h]]
            if of_set[h] == own:
                x += mine
                y += theirs
            else:
                a += mine
                b += theirs
    return a, b, x, y


@njit(cache=True, nogil=True)
def _gained(objective: Objective, r: int, one: Row, two: Row, own: int, of_set: Integers, value: Floats,
            other: Floats) -> float:
    """Return by how much a product's sum over two rows grows if they exchange entries."""
    products, features = objective.products, objective.features
    a, b, x, y = 1.0, 1.0, 1.0, 1.0
    for o in range(products.start[r], products.start[r + 1]):
        j, k = products.columns[o], products.factors[o]
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
