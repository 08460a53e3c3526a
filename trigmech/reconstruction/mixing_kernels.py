"""Compiled: exchanges of entries between two rows by Metropolis's rule, for :mod:`trigmech.reconstruction.mixing`."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trigmech._arrays import Array, Codes, Integers
from trigmech.reconstruction.prefetch import LINE, prefetch
from trigmech.reconstruction.row_arrays import Floats, Lists, Objective, Sets, inner, kernel

# Rows ahead that are fetched into the cache.
AHEAD = 2


class Offered(NamedTuple):
    """Sets of columns that are exchanged, and the tables that each exchange changes: those of set s follow each other.

    A row of the state has the positions of its columns, then its cells in all maps. ``members`` are the places in it of
    each set's columns, and ``moved`` of all that goes with them. Place i of the tables' lists belongs to table
    ``of[i]``, which has a cell for each sum of its ``offset`` and of ``stride`` times cell (i, 4): the first two cells
    are exchanged, the others stay, and a stride of 0 means no column.
    """

    members: Lists
    moved: Lists
    start: Integers
    of: Integers
    offset: Integers
    at: Integers
    stride: Integers

    @classmethod
    def by(cls, objective: Objective, sets: Sets, order: Array) -> "Offered":
        """Return the sets of columns and their tables (t,), those with the least ``order`` first."""
        tables, d = objective.tables, len(sets.of)
        places, at, stride, ends = list[int](), list[list[int]](), list[list[int]](), [0]
        members = [np.flatnonzero(sets.of == own) for own in np.unique(sets.of)]
        for own in members:
            of = sets.tables.of[sets.tables.start[sets.of[own[0]]]: sets.tables.start[sets.of[own[0]] + 1]]
            for t in of[np.argsort(order[of], kind="stable")].tolist():
                held = np.flatnonzero(tables.columns[t] >= 0)
                inside = np.isin(tables.columns[t, held], own)
                if inside.all():
                    continue
                places.append(t)
                for to, values in ((at, d + tables.maps[t]), (stride, tables.strides[t])):
                    parts = [values[held[inside == own_part]].tolist() for own_part in (True, False)]
                    to.append([number for part in parts for number in (*part, 0)[:2]])
            ends.append(len(places))
        moved = [np.concatenate([own, *(d + np.arange(objective.map_of[j], objective.map_of[j + 1]) for j in own)])
                 for own in members]
        return cls(_lists(members), _lists(moved), np.array(ends), np.array(places, dtype=np.int64),
                   tables.offset[places], np.array(at, dtype=np.int64).reshape(-1, 4),
                   np.array(stride, dtype=np.int64).reshape(-1, 4))


def state_of(objective: Objective, rows: Codes) -> NDArray[np.integer]:
    """Return the positions of rows (m, d), and their cells in all maps, in as few bits as these need."""
    owner = np.repeat(np.arange(rows.shape[1]), np.diff(objective.map_of))
    kind = np.uint16 if objective.cell.shape[1] <= 2**16 else np.int32
    state = np.empty((len(rows), rows.shape[1] + len(owner)), dtype=kind)
    state[:, : rows.shape[1]] = rows
    for k, j in enumerate(owner.tolist()):
        state[:, rows.shape[1] + k] = objective.cell[k].astype(kind)[rows[:, j]]
    return state


@kernel
def mix(state: NDArray[np.integer], differences: Floats, weights: Floats, offered: Offered, own: int, by: int,
        groups: int, part: float, step: int, rng: np.random.Generator) -> int:
    """Offer exchanges of a set of columns to pairs of rows, in place; return how many were accepted.

    Metropolis's rule has the density exp(-sum of weight difference^2) over the cells of tables, with a weight for each
    table; the differences are in rows, and kept up to date. An infinite one keeps rows out of its cell. Each row is
    visited once, in steps through all of them. It meets the last one before it that has the same entry in column ``by``
    of so many ``groups``, or in any if that is below 0. The exchanged entries do not decide which rows meet, so an
    exchange is offered as often as its reverse. A pair gets an offer with a probability of ``part``.
    """
    members, moved, moves, first_of, last_of = (offered.members.of, offered.moved, 0, offered.members.start[own],
                                                offered.members.start[own + 1])
    # A call with few arrays costs less than one with all of them.
    at, stride, offset, of = offered.at, offered.stride, offered.offset, offered.of
    start, end = offered.start[own], offered.start[own + 1]
    wide = (stride[:, 1] != 0) | (stride[:, 3] != 0)
    waiting, line = np.full(groups, -1), LINE // state.itemsize
    for first in range(step):
        for place in range(first, len(state), step):
            # Rows are visited in steps that the processor does not foresee, and would wait for them.
            if place + AHEAD * step < len(state):
                for j in range(0, state.shape[1], line):
                    prefetch(state, place + AHEAD * step, j)
            group = np.int64(state[place, by]) if by >= 0 else 0
            other = waiting[group]
            if other < 0:
                waiting[group] = place
                continue
            waiting[group] = -1
            if part < 1.0 and rng.random() >= part:
                continue
            one, two, alike = state[place], state[other], True
            for s in range(first_of, last_of):
                alike &= one[members[s]] == two[members[s]]
            if alike:
                continue
            change = _change(differences, weights, at, stride, wide, offset, of, start, end, one, two)
            if change == np.inf or (change > 0.0 and rng.random() >= np.exp(-change)):
                continue
            moves += 1
            for s in range(start, end):
                a, b, x, y = _crossed(at, stride, s, one, two)
                o = offset[s]
                differences[o + a + x] -= 1.0
                differences[o + b + y] -= 1.0
                differences[o + a + y] += 1.0
                differences[o + b + x] += 1.0
            for s in range(moved.start[own], moved.start[own + 1]):
                j = moved.of[s]
                one[j], two[j] = two[j], one[j]
    return moves


@inner
def _change(differences: Floats, weights: Floats, at: Integers, stride: Integers, wide: NDArray[np.bool_],
            offset: Integers, of: Integers, start: int, end: int, one: NDArray[np.integer],
            two: NDArray[np.integer]) -> float:
    """Return by how much the sum of weight difference^2 grows if two rows exchange the entries of a set."""
    change = 0.0
    for s in range(np.uint64(start), np.uint64(end)):
        # Most tables have two columns, and the other two looks would cost as much again.
        p, u = stride[s, 0], stride[s, 2]
        i, k = np.uint64(at[s, 0]), np.uint64(at[s, 2])
        a, b, x, y = u * np.int64(one[k]), u * np.int64(two[k]), p * np.int64(one[i]), p * np.int64(two[i])
        if wide[s]:
            a, b, x, y = _crossed(at, stride, s, one, two)
        if a != b and x != y:
            o = offset[s]
            more = differences[np.uint64(o + a + y)] + differences[np.uint64(o + b + x)]
            if more == np.inf:
                return np.inf
            change += weights[of[s]] * (4.0 + 2.0 * (more - differences[np.uint64(o + a + x)]
                                                     - differences[np.uint64(o + b + y)]))
    return change


@inner
def _crossed(at: Integers, stride: Integers, s: int, one: NDArray[np.integer],
             two: NDArray[np.integer]) -> tuple[int, int, int, int]:
    """Return where two rows are in a table, a + x and b + y; they would exchange x and y."""
    i, j, k, h = np.uint64(at[s, 0]), np.uint64(at[s, 1]), np.uint64(at[s, 2]), np.uint64(at[s, 3])
    p, q, u, v = stride[s, 0], stride[s, 1], stride[s, 2], stride[s, 3]
    return (u * np.int64(one[k]) + v * np.int64(one[h]), u * np.int64(two[k]) + v * np.int64(two[h]),
            p * np.int64(one[i]) + q * np.int64(one[j]), p * np.int64(two[i]) + q * np.int64(two[j]))


def _lists(held: Sequence[Integers]) -> Lists:
    return Lists(np.concatenate([[0], np.cumsum([len(each) for each in held])]).astype(np.int64),
                 np.concatenate(held).astype(np.int64))
