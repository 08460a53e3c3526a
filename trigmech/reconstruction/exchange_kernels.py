"""Exchanges of entries between two rows, which leave columns as they are; most of it is compiled.

:mod:`trigmech.reconstruction.rows` makes those that gain; those that change little are in
:mod:`trigmech.reconstruction.mixing_kernels`.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trigmech._arrays import Array, Codes, Integers
from trigmech.reconstruction.column_kernels import put_back
from trigmech.reconstruction.row_arrays import Crossings, Floats, Objective, Residuals, Row, Sets, inner, kernel
from trigmech.reconstruction.row_kernels import counted_order

# The number of other rows whose entries are offered to a row that is in a cell that should be empty.
OFFERS = 8


class Crossed(NamedTuple):
    """The tables that some sets of columns change; those of the set chosen[c] are start[c] <= s < start[c + 1].

    Place s belongs to table ``of[s]``, whose cells begin at ``begin[s]``. Their place there is the sum of ``strides``
    times the codes of a row at ``at`` (s, 4): the first two are exchanged, the others stay; a stride of 0 means no
    column. Tables of two columns come first, those of three begin at ``wide[c]``. Tables of which all columns are
    exchanged do not change; they begin at ``last[c]``. A row's codes are its cells in the maps of these tables; those
    of column j are code_of[j] to code_of[j + 1]. Numbers that are read together stand next to each other: the codes
    ``coded`` of a position, the first of which begin at code_start[j] for column j, and in ``held`` (cells, 2) the
    weight and the residual of a cell, which has its place ``cells`` among all.
    """

    start: Integers
    wide: Integers
    last: Integers
    of: Integers
    begin: Integers
    at: Integers
    strides: Integers
    coded: Codes
    code_start: Integers
    code_of: Integers
    cells: Integers
    held: Floats


class Multiplied(NamedTuple):
    """The products that some sets change; those of the set chosen[c] are start[c] <= s < start[c + 1].

    Place s belongs to product ``of[s]`` of all. Its factors are ``exchanged[s]`` and ``others[s]`` among the different
    ones, which are feature ``features`` of ``columns``; those of column j are factor_of[j] to factor_of[j + 1]. A
    number one beyond the last stands for 1. Products of which all columns are exchanged stay as they are, and are left
    out.
    """

    start: Integers
    of: Integers
    exchanged: Integers
    others: Integers
    weights: Floats
    columns: Integers
    features: Integers
    factor_of: Integers


@kernel
def exchange(objective: Objective, residuals: Residuals, rows: NDArray[np.int32], order: Integers, others: Integers,
             chosen: Integers, sets: Sets) -> int:
    """Exchange entries between two rows if that lowers the objective and, alone, that of tables; return how often.

    Two rows exchange their entries in all columns of a set, for each set of ``chosen``. others (len(order), c): for
    each row c other rows, one after the other. The columns' own frequencies stay as they are. That tables must gain
    spares most looks at products, of which there are many.
    """
    crossed = _crossed_of(objective, residuals.tables, chosen, sets)
    # Calls with few arrays cost far less than those with all of them.
    coded, code_start, code_of = crossed.coded, crossed.code_start, crossed.code_of
    start, wide, last = crossed.start, crossed.wide, crossed.last
    begin, at, strides, held = crossed.begin, crossed.at, crossed.strides, crossed.held
    mine, theirs = np.zeros(code_of[-1], dtype=np.int64), np.zeros(code_of[-1], dtype=np.int64)
    multiplied, first, feature, features = (_multiplied_of(objective, chosen, sets), objective.first, objective.feature,
                                            objective.features)
    product, product_start, product_of = residuals.products, multiplied.start, multiplied.of
    exchanged, staying, weights, factor_of = (multiplied.exchanged, multiplied.others, multiplied.weights,
                                              multiplied.factor_of)
    factor_columns, factor_features = multiplied.columns, multiplied.features
    value, other = np.ones(len(factor_columns) + 1), np.ones(len(factor_columns) + 1)
    gained = np.empty(len(product_of))
    of, member_start, rule_start = sets.members.of, sets.members.start, sets.rules.start
    moves = 0
    for place in range(len(order)):
        one, known = rows[order[place]], False
        _find_codes(coded, code_start, code_of, one, mine)
        for candidate in range(others.shape[1]):
            two, both, seen = rows[others[place, candidate]], False, False
            for c in range(len(chosen)):
                own = chosen[c]
                if _alike(one, two, of, member_start[own], member_start[own + 1]):
                    continue
                if not seen:
                    _find_codes(coded, code_start, code_of, two, theirs)
                    seen = True
                change = _change(begin, at, strides, held, start[c], wide[c], last[c], mine, theirs)
                if change > 0.0:
                    continue
                # Few pairs come so far.
                if not known:
                    _read(first, feature, features, factor_columns, factor_features, one, value)
                if not both:
                    _read(first, feature, features, factor_columns, factor_features, two, other)
                known = both = True
                change = _multiplied(exchanged, staying, weights, product_of, product, product_start[c],
                                     product_start[c + 1], value, other, change, gained)
                if not change < -1e-9:
                    continue
                if rule_start[own] < rule_start[own + 1] and _broken(objective, sets, own, one, two):
                    continue
                moves += 1
                _move(begin, at, strides, held, start[c], start[c + 1], last[c], mine, theirs)
                for s in range(product_start[c], product_start[c + 1]):
                    product[product_of[s]] += gained[s]
                for s in range(member_start[own], member_start[own + 1]):
                    j = of[s]
                    one[j], two[j] = two[j], one[j]
                    for k in range(code_of[j], code_of[j + 1]):
                        mine[k], theirs[k] = theirs[k], mine[k]
                    for k in range(factor_of[j], factor_of[j + 1]):
                        value[k], other[k] = other[k], value[k]
    put_back(crossed.cells, held[:, 1], residuals.tables)
    return moves


@inner
def _crossed_of(objective: Objective, table: Floats, chosen: Integers, sets: Sets) -> Crossed:
    tables, of_set, of_tables = objective.tables, sets.of, sets.tables
    count, widest = len(tables.columns), tables.columns.shape[1]
    begins, code, total, asked = np.full(count, -1), np.full(len(objective.cells), -1), 0, 0
    for own in chosen:
        for i in range(of_tables.start[own], of_tables.start[own + 1]):
            t = of_tables.of[i]
            if begins[t] < 0:
                begins[t] = total
                total += tables.offset[t + 1] - tables.offset[t]
            asked += 1
            for c in range(widest):
                if tables.columns[t, c] >= 0:
                    code[tables.maps[t, c]] = 0
    maps = np.flatnonzero(code == 0)
    code[maps] = np.arange(len(maps))
    code_of, sizes = np.searchsorted(maps, objective.map_of), np.diff(objective.first)
    ends = np.cumsum(sizes * np.diff(code_of))
    code_start, coded = ends - sizes * np.diff(code_of), np.zeros(ends[-1], dtype=np.int32)
    for j in range(len(sizes)):
        many = code_of[j + 1] - code_of[j]
        for i in range(many):
            coded[code_start[j] + i : ends[j] : many] = objective.cell[maps[code_of[j] + i], : sizes[j]]
    cells = np.zeros(total, dtype=np.int64)
    for t in range(count):
        if begins[t] >= 0:
            for i in range(tables.offset[t + 1] - tables.offset[t]):
                cells[begins[t] + i] = tables.offset[t] + i
    start, wide, last = np.zeros(len(chosen) + 1, dtype=np.int64), np.zeros(len(chosen), dtype=np.int64), np.zeros(
        len(chosen), dtype=np.int64)
    of, begin = np.zeros(asked, dtype=np.int64), np.zeros(asked, dtype=np.int64)
    at, strides, s = np.zeros((asked, 4), dtype=np.int64), np.zeros((asked, 4), dtype=np.int64), 0
    for o in range(len(chosen)):
        own = chosen[o]
        for kind in range(3):
            for i in range(of_tables.start[own], of_tables.start[own + 1]):
                t, inside, outside = of_tables.of[i], 0, 0
                for c in range(widest):
                    if tables.columns[t, c] >= 0:
                        inside += of_set[tables.columns[t, c]] == own
                        outside += of_set[tables.columns[t, c]] != own
                if kind != (2 if outside == 0 else 0 if inside == outside == 1 else 1):
                    continue
                of[s], begin[s], inside, outside = t, begins[t], 0, 2
                for c in range(widest):
                    h = tables.columns[t, c]
                    if h >= 0:
                        place = inside if of_set[h] == own else outside
                        at[s, place], strides[s, place] = code[tables.maps[t, c]], tables.strides[t, c]
                        inside, outside = inside + (of_set[h] == own), outside + (of_set[h] != own)
                s += 1
            if kind == 0:
                wide[o] = s
            elif kind == 1:
                last[o] = s
        start[o + 1] = s
    held = np.empty((total, 2))
    for i in range(total):
        held[i, 0], held[i, 1] = objective.table_weights[cells[i]], table[cells[i]]
    return Crossed(start, wide, last, of, begin, at, strides, coded, code_start, code_of, cells, held)


@inner
def _multiplied_of(objective: Objective, chosen: Integers, sets: Sets) -> Multiplied:
    held, of_products, of_set, d = objective.products, sets.products, sets.of, len(objective.features)
    number, widest, total = np.zeros((d, held.factors.max() + 1 if len(held.factors) else 1), dtype=np.int64), 1, 0
    for own in chosen:
        for r in of_products.of[of_products.start[own] : of_products.start[own + 1]]:
            inside, outside = _factors(held.columns[held.start[r] : held.start[r + 1]], of_set, own)
            if outside:
                widest, total = max(widest, inside, outside), total + 1
                for o in range(held.start[r], held.start[r + 1]):
                    number[held.columns[o], held.factors[o]] = 1
    columns, features = np.nonzero(number)
    for f in range(len(columns)):
        number[columns[f], features[f]] = f
    start, of = np.zeros(len(chosen) + 1, dtype=np.int64), np.empty(total, dtype=np.int64)
    exchanged, others, s = np.full((total, widest), len(columns)), np.full((total, widest), len(columns)), 0
    for c in range(len(chosen)):
        own = chosen[c]
        for r in of_products.of[of_products.start[own] : of_products.start[own + 1]]:
            inside, outside = _factors(held.columns[held.start[r] : held.start[r + 1]], of_set, own)
            if outside:
                of[s], inside, outside = r, 0, 0
                for o in range(held.start[r], held.start[r + 1]):
                    factor = number[held.columns[o], held.factors[o]]
                    if of_set[held.columns[o]] == own:
                        exchanged[s, inside], inside = factor, inside + 1
                    else:
                        others[s, outside], outside = factor, outside + 1
                s += 1
        start[c + 1] = s
    return Multiplied(start, of, exchanged, others, held.weights[of], columns, features,
                      np.searchsorted(columns, np.arange(d + 1)))


@inner
def _factors(columns: Integers, of_set: Integers, own: int) -> tuple[int, int]:
    """Return how many of a product's columns are in a set, and how many are not."""
    inside = 0
    for j in columns:
        inside += of_set[j] == own
    return inside, len(columns) - inside


@inner
def _read(first: Integers, feature: Floats, features: Integers, columns: Integers, factors: Integers, row: Row,
          value: Floats) -> None:
    """Write the values of a row's factors."""
    for f in range(len(columns)):
        j, a = columns[f], factors[f]
        if a < features[j]:
            value[f] = feature[a, first[j] + row[j]]
        else:
            value[f] = 1.0 * (row[j] == a - features[j])


@inner
def _multiplied(exchanged: Integers, staying: Integers, weights: Floats, of: Integers, product: Floats, first: int,
                last: int, one: Floats, two: Floats, change: float, gained: Floats) -> float:
    """Return ``change`` plus the growth of the products' part of the objective; write how each product's sum grows."""
    for s in range(np.uint64(first), np.uint64(last)):
        k, h = np.uint64(exchanged[s, 0]), np.uint64(staying[s, 0])
        x, y, a, b = one[k], two[k], one[h], two[h]
        for o in range(1, exchanged.shape[1]):
            k, h = np.uint64(exchanged[s, o]), np.uint64(staying[s, o])
            x, y, a, b = x * one[k], y * two[k], a * one[h], b * two[h]
        u = (a - b) * (y - x)
        gained[s] = u
        change += weights[s] * u * (2.0 * product[np.uint64(of[s])] + u)
    return change


@inner
def _broken(objective: Objective, sets: Sets, own: int, one: Row, two: Row) -> bool:
    """Return whether an exchange of a set breaks a rule."""
    rules, forbidden, broken = objective.rules, objective.forbidden, False
    for s in range(sets.rules.start[own], sets.rules.start[own + 1]):
        t = sets.rules.of[s]
        a, b, x, y = _crossed(rules, t, one, two, own, sets.of, objective.cell)
        broken |= forbidden[rules.offset[t] + a + y] or forbidden[rules.offset[t] + b + x]
    return broken


@inner
def _find_codes(coded: Codes, code_start: Integers, code_of: Integers, row: Row, codes: Integers) -> None:
    """Write the codes of a row."""
    for j in range(len(row)):
        first, many = code_of[j], code_of[j + 1] - code_of[j]
        begin = code_start[j] + many * row[j]
        for i in range(many):
            codes[np.uint64(first + i)] = coded[np.uint64(begin + i)]


@inner
def _change(begin: Integers, at: Integers, strides: Integers, held: Floats, first: int, wide: int, last: int,
            one: Integers, two: Integers) -> float:
    """Return by how much the tables' part of the objective grows if two rows exchange the entries of a set."""
    change = 0.0
    for s in range(np.uint64(first), np.uint64(wide)):
        i, k, p, u = np.uint64(at[s, 0]), np.uint64(at[s, 2]), strides[s, 0], strides[s, 2]
        a, b, x, y = begin[s] + u * one[k], begin[s] + u * two[k], p * one[i], p * two[i]
        if a != b and x != y:
            change += _gain(held, a, b, x, y)
    for s in range(np.uint64(wide), np.uint64(last)):
        a, b, x, y = _places(begin, at, strides, s, one, two)
        if a != b and x != y:
            change += _gain(held, a, b, x, y)
    return change


@inner
def _gain(held: Floats, a: int, b: int, x: int, y: int) -> float:
    ay, ax, bx, by = np.uint64(a + y), np.uint64(a + x), np.uint64(b + x), np.uint64(b + y)
    return (held[ay, 0] * (1.0 + 2.0 * held[ay, 1]) + held[ax, 0] * (1.0 - 2.0 * held[ax, 1])
            + held[bx, 0] * (1.0 + 2.0 * held[bx, 1]) + held[by, 0] * (1.0 - 2.0 * held[by, 1]))


@inner
def _places(begin: Integers, at: Integers, strides: Integers, s: int, one: Integers,
            two: Integers) -> tuple[int, int, int, int]:
    """Return where the codes of two rows are in a table, a + x and b + y; they would exchange x and y."""
    i, j, k, h = np.uint64(at[s, 0]), np.uint64(at[s, 1]), np.uint64(at[s, 2]), np.uint64(at[s, 3])
    p, q, u, v = strides[s, 0], strides[s, 1], strides[s, 2], strides[s, 3]
    return (begin[s] + u * one[k] + v * one[h], begin[s] + u * two[k] + v * two[h], p * one[i] + q * one[j],
            p * two[i] + q * two[j])


@inner
def _move(begin: Integers, at: Integers, strides: Integers, held: Floats, first: int, end: int, last: int,
          one: Integers, two: Integers) -> None:
    """Keep tables up to date when two rows exchange the entries of a set.

    A table of which all columns are exchanged, from ``last`` on, is left and entered again, which may change the last
    bit.
    """
    for s in range(first, end):
        a, b, x, y = _places(begin, at, strides, s, one, two)
        whole = s >= last
        held[a + x, 1] -= 1.0
        held[b + y, 1] -= 1.0
        held[b + y if whole else a + y, 1] += 1.0
        held[a + x if whole else b + x, 1] += 1.0


@inner
def _alike(one: Row, two: Row, members: Integers, first: int, last: int) -> bool:
    alike = True
    for s in range(first, last):
        alike &= one[members[s]] == two[members[s]]
    return alike


@inner
def _crossed(crossings: Crossings, t: int, one: Row, two: Row, own: int, of_set: Integers,
             cell: Codes) -> tuple[int, int, int, int]:
    """Return where two rows are in a table, a + x and b + y; they would exchange x and y."""
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


def wanted_rows(wants: Array, groups: Integers, held: Integers, rng: np.random.Generator) -> Integers:
    """Return `OFFERS` rows (len(groups), `OFFERS`) for each of some groups, drawn from the cells that the group wants.

    ``wants`` (g, c) are how much each cell is wanted by each group, and ``held`` (m,) the cell of each row. If no row
    is in any cell that a group wants, its rows are drawn from all.
    """
    order, counts = counted_order(held, wants.shape[1])
    ends = np.cumsum(np.where(counts > 0, wants, 0.0))
    last = ends[(groups + 1) * wants.shape[1] - 1]
    first = np.where(groups > 0, ends[groups * wants.shape[1] - 1], 0.0)
    drawn = first[:, None] + (last - first)[:, None] * rng.random((len(groups), OFFERS))
    cell = np.minimum(np.searchsorted(ends, drawn, side="right"), ends.size - 1) % wants.shape[1]
    place = (rng.random(drawn.shape) * counts[cell]).astype(np.int64)
    known = (last > first)[:, None] & (counts[cell] > 0)
    return np.where(known, order[np.minimum((np.cumsum(counts) - counts)[cell] + place, len(order) - 1)],
                    rng.integers(len(held), size=drawn.shape))
