"""The targets of tables of two columns: released tables after shrinkage."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from trigmech._arrays import Array
from trigmech.functions.contrasts import decoding
from trigmech.measurement.released import Release
from trigmech.queries.base import Measurement
from trigmech.queries.joint import Marginal, Products
from trigmech.reconstruction.agreement import Agreement
from trigmech.reconstruction.copula import Copula
from trigmech.reconstruction.estimates import estimates_of
from trigmech.reconstruction.ridges import Ridge
from trigmech.reconstruction.sparse import LEAST_CELLS, TableEstimate, beside_finer, weights_of

# A cell of a small table can show that it is empty if independent columns would have so many rows there, and these are
# so many times the noise. It is taken to be empty if that is so many times as likely as any other share up to theirs,
# and if it is so certain that it has not few rows, of up to so many times the noise.
LEAST_ROWS, LEAST_SHARE, EMPTIER, CERTAIN, FEW = 1.0, 6.0, 8.0, 0.9, 4.0
# In units of the noise: numbers further below 0 or above it show nothing more, nor do larger shares.
LOWEST, HIGHEST, LARGEST = -6.0, 30.0, 1e6


@dataclass(frozen=True, eq=False)
class Pair:
    """A target table (a, b) of two columns, with the cell of each position of both.

    The deviation (a, b) of each entry can also be a single number. In a ``sparse`` table most entries count as empty.
    A small table can have ``holes``: entries of 0 that the release shows to be empty.
    """

    columns: tuple[int, int]
    maps: tuple[NDArray[np.int64], NDArray[np.int64]]
    table: Array
    deviation: float | Array
    sparse: bool = False
    holes: bool = False

    @classmethod
    def of(cls, measured: Measurement[Marginal], known: TableEstimate) -> "Pair":
        """Return the target of a measured table of two columns."""
        (j, h), (down, across) = measured.query.columns, measured.query.maps
        return cls((j, h), (down, across), known.table, known.deviation, known.sparse)

    def without(self, empty: NDArray[np.bool_]) -> "Pair":
        """Return the same with holes in the ``empty`` entries (a, b), whose mass goes to the other entries."""
        table = np.where(empty, 0.0, self.table)
        total, left = float(self.table.sum()), float(table.sum())
        if self.sparse or not empty.any() or not min(total, left) > 0.0:
            return self
        return replace(self, table=table * (total / left), holes=True)

    @property
    def walled(self) -> bool:
        """Whether rows are to leave the entries of 0."""
        return self.sparse or self.holes

    def at_least(self, least: float, empty: float) -> Array:
        """Return the deviations, at least ``least``; at least ``empty`` for the cells that are known to be empty."""
        lowest = np.where(self.table == 0.0, empty, least) if self.walled else least
        return np.maximum(self.deviation, lowest)


def pairs_of(release: Release, alone: Sequence[Array], copula: Copula | None,
             ridges: Sequence[Ridge]) -> tuple[list[Pair], bool]:
    """Return the target of each released table of two columns, and whether any shows dependence.

    ``alone`` are the tables of independent columns. Tables of the same columns agree on which cells are empty.
    """
    found, shown = list[TableEstimate](), False
    agreement = Agreement(release, copula)
    wanted = [predicted(*both, copula) for both in zip(release.tables, alone, strict=True)]
    for each, expected, known in zip(release.tables, wanted, estimates_of(release.tables, wanted), strict=True):
        shown |= bool((known.table != expected).any())
        for ridge in ridges:
            if ridge.columns == each.query.columns:
                known = TableEstimate(*ridge.shrunk(each, known.table), False)
        found.append(agreement.of(each, known))
    held = dict[tuple[int, ...], list[int]]()
    for t, each in enumerate(release.tables):
        held.setdefault(each.query.columns, []).append(t)
    made = list(found)
    for t, each in enumerate(release.tables):
        for other in held[each.query.columns]:
            if found[other].sparse and found[other].table.size > found[t].table.size:
                made[t] = beside_finer(made[t], each.means, each.deviation, each.query.maps, found[other],
                                       release.tables[other].query.maps)
    return with_holes([Pair.of(*both) for both in zip(release.tables, made, strict=True)],
                      [_beside_margins(*both) for both in zip(release.tables, alone, strict=True)],
                      alone, release.n), shown


class Cells:
    """The released frequencies of the cells of columns, each computed once."""

    def __init__(self, release: Release) -> None:
        self._columns = release.columns
        self._known: dict[tuple[int, int], Array] = {}

    def of(self, table: Measurement[Marginal]) -> list[Array]:
        """Return the frequencies of the cells of each column of a table."""
        query = table.query
        return [self.sums(j, cells) for j, cells in zip(query.columns, query.maps, strict=True)]

    def sums(self, column: int, cells: NDArray[np.int64]) -> Array:
        key = column, id(cells)
        if key not in self._known:
            self._known[key] = np.bincount(cells, weights=self._columns[column].mass).astype(np.float64)
        return self._known[key]


def decoded(release: Release, measured: Measurement[Products], products: Array, raw: Array | None) -> list[Pair]:
    """Return the tables that products of contrasts tell.

    ``products`` (K,) are their means minus those of independent columns. With ``raw`` (K,), the same before shrinkage,
    tables have holes. Contrasts have no margins, so they tell a table's difference from that of independent columns.
    """
    made, numbers, alone, start, cells = list[Pair](), list[tuple[Array, Array]](), list[Array](), 0, Cells(release)
    for j, h in measured.query.pairs.tolist():
        own = [cells.sums(c, measured.query.maps[c]) for c in (j, h)]
        left, right = (decoding(len(each)) for each in own)
        expected, shape = np.outer(*own), (left.shape[1], right.shape[1])
        part = slice(start, start + shape[0] * shape[1])
        noise = measured.deviation * float(np.sqrt((left**2).sum() * (right**2).sum() / expected.size))
        made.append(Pair((j, h), (measured.query.maps[j], measured.query.maps[h]),
                         expected + left @ products[part].reshape(shape) @ right.T, noise))
        if raw is not None:
            released = np.clip(raw[part], -LARGEST, LARGEST).reshape(shape)
            numbers.append(_in_noise(expected + left @ released @ right.T, expected, noise))
        alone.append(expected)
        start = part.stop
    return made if raw is None else with_holes(made, numbers, alone, release.n)


def with_holes(pairs: Sequence[Pair], numbers: Sequence[tuple[Array, Array]], alone: Sequence[Array],
               n: int) -> list[Pair]:
    """Return the same tables without the cells that are shown to be empty: see :func:`shown_empty`."""
    return [pair.without(empty) for pair, empty in zip(pairs, shown_empty(numbers, alone, n), strict=True)]


def shown_empty(numbers: Sequence[tuple[Array, Array]], alone: Sequence[Array], n: int) -> list[NDArray[np.bool_]]:
    """Return which cells (a, b) of each small table the release shows to be empty.

    ``alone`` are the tables of independent columns. ``numbers`` are the released share of each cell and the predicted
    share of independent columns, both in units of the noise. A cell is empty, has few rows, or has any share up to that
    of independent columns; all cells together show how often each of these is so. Larger tables have estimates that
    know empty cells (:mod:`trigmech.reconstruction.sparse`).
    """
    asked = [(own * n >= LEAST_ROWS) & (shares >= LEAST_SHARE)
             for own, (_, shares) in zip(alone, numbers, strict=True)]
    y, shares = (np.concatenate([np.zeros(0), *(each[k][own] for each, own in zip(numbers, asked, strict=True))])
                 for k in range(2))
    below = ndtr(y)
    densities = np.array([np.exp(-0.5 * y**2) / math.sqrt(2.0 * math.pi), (below - ndtr(y - FEW)) / FEW,
                          below / np.maximum(shares, LEAST_SHARE)])
    # As if one cell of each kind was known, so that few cells show little.
    empty, few, _ = weights_of(np.hstack([densities, np.eye(3)]))
    found = (densities[0] > EMPTIER * densities[2]) & (
        empty * densities[0] > CERTAIN * (empty * densities[0] + few * densities[1]))
    made, left = [np.zeros(own.shape, dtype=np.bool_) for own in asked], found
    for own, cells in zip(asked, made, strict=True):
        cells[own], left = left[: own.sum()], left[own.sum() :]
    return made


def _beside_margins(measured: Measurement[Marginal], alone: Array) -> tuple[Array, Array]:
    """Return a table's cells (a, b) with the margins of independent columns, and the cells that these columns predict.

    Both are in units of the noise. The margins are known much better than a cell, so the table's own margins are left
    out. The rest of the table has less noise.
    """
    noise = measured.deviation * math.sqrt(math.prod(1.0 - 1.0 / size for size in alone.shape))
    apart = np.clip(measured.means, -LARGEST, LARGEST) - alone
    apart = apart - apart.mean(axis=0) - apart.mean(axis=1)[:, None] + apart.mean()
    return _in_noise(alone + apart, alone, noise)


def _in_noise(cells: Array, alone: Array, noise: float) -> tuple[Array, Array]:
    """Return cells (a, b), and the prediction of independent columns, in units of the noise.

    Nothing is predicted of a larger table, or by a column of one level, so that no cell shows that it is empty.
    """
    if alone.size >= LEAST_CELLS or not 0.0 < noise < 1.0:
        return np.zeros(alone.shape), np.zeros(alone.shape)
    return np.clip(cells, LOWEST * noise, HIGHEST * noise) / noise, np.minimum(alone, LARGEST * noise) / noise


def predicted(measured: Measurement[Marginal], expected: Array, copula: Copula | None) -> Array:
    """Return the table of two columns under the copula if it joins them, else ``expected``."""
    return copula.table(measured.query) if copula is not None and copula.joins(measured.query.columns) else expected
