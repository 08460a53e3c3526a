"""The targets of tables of two columns: released tables after shrinkage."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr

from trigmech._arrays import Array
from trigmech.measurement.released import Release
from trigmech.queries.base import Measurement
from trigmech.queries.joint import Marginal
from trigmech.reconstruction.agreement import Agreement
from trigmech.reconstruction.copula import Copula
from trigmech.reconstruction.estimates import estimates_of
from trigmech.reconstruction.ridges import Ridge
from trigmech.reconstruction.sparse import LEAST_CELLS, TableEstimate, beside_finer

# A cell of a small table is taken to be empty if the release makes this so many times as likely as any other share up
# to that of independent columns; and if these would have this many rows in it. A smaller factor took more cells with
# rows to be empty, in public tables, and a larger one found fewer of the empty ones.
EMPTIER, LEAST_ROWS = 15.0, 1.0
# Noise below this is none, and numbers so many deviations from 0 are as good as further ones: squares stay finite.
LEAST_NOISE, FURTHEST = 1e-12, 1e6


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
        """Return the same with holes: the other entries get what these entries (a, b) have."""
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
    return [Pair.of(each, known).without(shown_empty(each, expected, release.n))
            for each, known, expected in zip(release.tables, made, alone, strict=True)], shown


def shown_empty(measured: Measurement[Marginal], alone: Array, n: int) -> NDArray[np.bool_]:
    """Return which cells (a, b) of a small table the release shows to be empty.

    A cell is empty if this is more likely, by the factor `EMPTIER`, than that its share is anywhere between 0 and that
    of independent columns (a, b), ``alone``. Their margins are known much better than a cell, so only what differs from
    them and does not belong to a margin counts: it has less noise. Larger tables have estimates that know empty cells
    (:mod:`trigmech.reconstruction.sparse`).
    """
    noise = measured.deviation * math.sqrt(math.prod(1.0 - 1.0 / size for size in alone.shape))
    if measured.query.size >= LEAST_CELLS or not 0.0 < noise < 1.0:
        return np.zeros(alone.shape, dtype=np.bool_)
    noise, apart = max(noise, LEAST_NOISE), np.clip(measured.means, -FURTHEST, FURTHEST) - alone
    apart = apart - apart.mean(axis=0) - apart.mean(axis=1)[:, None] + apart.mean()
    y = np.clip(alone + apart, -FURTHEST * noise, FURTHEST * noise) / noise
    # The density of the number without rows, over the mean of its densities with shares from 0 on.
    factor = np.log(np.maximum(alone, np.finfo(float).tiny) / noise) - 0.5 * (y**2 + np.log(2.0 * np.pi)) - log_ndtr(y)
    return np.asarray((factor > np.log(EMPTIER)) & (alone * n >= LEAST_ROWS))


def predicted(measured: Measurement[Marginal], expected: Array, copula: Copula | None) -> Array:
    """Return the table of two columns under the copula if it joins them, else ``expected``."""
    return copula.table(measured.query) if copula is not None and copula.joins(measured.query.columns) else expected
