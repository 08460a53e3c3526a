"""The objective of a descent over rows, as flat arrays for compiled sweeps.

The positions of all columns stand one after the other: column j has first[j] to first[j + 1]. Residuals are in units of
rows: the sum of a function over the rows less m times its target.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from trigmech._arrays import Codes, Integers

Floats = NDArray[np.float64]
Row = NDArray[np.int32]

# A function that Python calls, and one that only others of these call. To compile how Python passes so many arrays
# takes about as long as the function, so the second has no such entry: a call by Python ends the process.
_BARE: dict[str, Any] = {"cache": True, "nogil": True, "no_cfunc_wrapper": True}
kernel, inner = njit(**_BARE), njit(**_BARE | {"no_cpython_wrapper": True})


class Lists(NamedTuple):
    """One list for each column, or for each set of columns: list j is of[start[j]:start[j + 1]]."""

    start: Integers
    of: Integers


class Crossings(NamedTuple):
    """Tables or rules (t,): their ``columns`` (t, widest), with -1 for no column, and the columns' ``maps``.

    A cell's place is the offset plus the sum of stride times cell over the columns.
    """

    columns: Integers
    maps: Integers
    strides: Integers
    offset: Integers


class ProductArrays(NamedTuple):
    """Products (K,) of features: product r has the features factors[o] of columns[o], start[r] <= o < start[r + 1]."""

    start: Integers
    columns: Integers
    factors: Integers
    weights: Floats


class Groups(NamedTuple):
    """Groups of products that differ only in the feature of one column; column j has start[j] <= g < start[j + 1].

    The column's own feature in product product_of[s] is own[s], for product_start[g] <= s < product_start[g + 1]. The
    other features are other_features[o] of other_columns[o], for other_start[g] <= o < other_start[g + 1].
    """

    start: Integers
    other_start: Integers
    other_columns: Integers
    other_features: Integers
    product_start: Integers
    product_of: Integers
    own: Integers


class Objective(NamedTuple):
    """The objective of rows.

    ``cell`` (maps, positions) holds the cell of each position, and ``cells`` (maps,) the number of cells. The maps of
    column j are map_of[j] to map_of[j + 1]. ``feature`` (most, positions) holds the features' values, and ``features``
    (d,) their number for each column; a feature beyond these is the indicator of a position. No entry moves to a
    combination that is ``forbidden``.
    """

    first: Integers
    frequency_weights: Floats
    cell: Codes
    cells: Integers
    map_of: Integers
    feature: Floats
    features: Integers
    tables: Crossings
    table_weights: Floats
    rules: Crossings
    forbidden: NDArray[np.bool_]
    products: ProductArrays
    tables_of: Lists
    rules_of: Lists
    groups: Groups


class Sets(NamedTuple):
    """Sets of columns that are exchanged together: each column's set (d,), and each set's columns, tables and so on."""

    of: Integers
    members: Lists
    tables: Lists
    products: Lists
    rules: Lists


class Residuals(NamedTuple):
    """Sums over the rows less m times the targets: for the columns' frequencies, tables and products."""

    frequencies: Floats
    tables: Floats
    products: Floats


@dataclass(frozen=True, eq=False)
class FittedRows:
    """The end of a descent: positions (m, d), and the objective over the number of functions.

    With weights 1 / deviation^2 this misfit is a reduced chi-square.
    """

    rows: Codes
    misfit: float
    sweeps: int
    firmness: float = 1.0


def joined(sets: Integers, groups: Iterable[Sequence[int]]) -> Integers:
    """Return each column's set (d,) if the columns of each group are in one set. Its first column names a set."""
    made = sets.copy()
    for members in map(list, groups):
        made[np.isin(made, made[members])] = made[members].min()
    return made


def sets_of(sets: Integers, measured: Iterable[Integers]) -> Sets:
    """Return sets of columns (d,) with the tables, products and rules of each, which have these columns (K, widest)."""
    d = len(sets)
    return Sets(sets, *(lists(d, np.where(each >= 0, sets[each], -1)) for each in (np.arange(d)[:, None], *measured)))


def lists(d: int, members: Integers) -> Lists:
    """Return, for each of d columns, the sets of columns that hold it; ``members`` (K, widest) has -1 for no column."""
    place, held = np.nonzero(members.T >= 0)
    owner, of = np.unique(np.column_stack([members[held, place], held]), axis=0).T
    return Lists(np.searchsorted(owner, np.arange(d + 1)).astype(np.int64), np.ascontiguousarray(of, dtype=np.int64))


def crossings(shapes: Sequence[tuple[int, ...]], maps: Sequence[Sequence[int]], owners: Integers) -> Crossings:
    """Return tables or rules with these shapes and maps; ``owners`` holds the column of each map."""
    filled = np.zeros((3, len(maps), max(map(len, maps), default=1)), dtype=np.int64)
    filled[0] = -1
    for t, (shape, places) in enumerate(zip(shapes, maps, strict=True)):
        strides = [math.prod(shape[c + 1 :]) for c in range(len(shape))]
        filled[:, t, : len(places)] = owners[list(places)], places, strides
    sizes = [math.prod(shape) for shape in shapes]
    return Crossings(filled[0], filled[1], filled[2], np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64))


def products(columns: Integers, features: Integers, weights: Floats) -> ProductArrays:
    """Return products of features of columns (K, widest), with -1 for no column."""
    held = columns >= 0
    return ProductArrays(_starts(held), columns[held], features[held], weights)


def groups(d: int, columns: Integers, features: Integers) -> Groups:
    """Return, for each column, the groups of products that differ only in this column's feature."""
    start, of = lists(d, columns)
    owner = np.repeat(np.arange(d), np.diff(start))
    columns, features = columns[of], features[of]
    own = columns == owner[:, None]
    others = np.where((columns >= 0) & ~own, columns * (int(features.max(initial=0)) + 1) + features, -1)
    _, first, group = np.unique(np.column_stack([owner, others]), axis=0, return_index=True, return_inverse=True)
    order = np.argsort(group.ravel(), kind="stable")
    kept = others[first] >= 0
    return Groups(np.searchsorted(owner[first], np.arange(d + 1)).astype(np.int64), _starts(kept),
                  columns[first][kept], features[first][kept],
                  np.concatenate([[0], np.cumsum(np.bincount(group.ravel()))]).astype(np.int64), of[order],
                  features[own][order])


def _starts(held: NDArray[np.bool_]) -> Integers:
    """Return the start of each row's entries among all held entries, and the end of the last row's."""
    return np.concatenate([[0], np.cumsum(held.sum(axis=1))]).astype(np.int64)
