"""The targets of tables of two columns: released tables after shrinkage."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trigmech._arrays import Array
from trigmech.measurement.released import Release
from trigmech.queries.base import Measurement
from trigmech.queries.joint import Marginal
from trigmech.reconstruction.agreement import Agreement
from trigmech.reconstruction.copula import Copula
from trigmech.reconstruction.estimates import estimates_of
from trigmech.reconstruction.ridges import Ridge
from trigmech.reconstruction.sparse import TableEstimate, beside_finer


@dataclass(frozen=True, eq=False)
class Pair:
    """A target table (a, b) of two columns, with the cell of each position of both.

    The deviation (a, b) of each entry can also be a single number. In a ``sparse`` table most entries count as empty.
    """

    columns: tuple[int, int]
    maps: tuple[NDArray[np.int64], NDArray[np.int64]]
    table: Array
    deviation: float | Array
    sparse: bool = False

    @classmethod
    def of(cls, measured: Measurement[Marginal], known: TableEstimate) -> "Pair":
        """Return the target of a measured table of two columns."""
        (j, h), (down, across) = measured.query.columns, measured.query.maps
        return cls((j, h), (down, across), known.table, known.deviation, known.sparse)

    def at_least(self, least: float, empty: float) -> Array:
        """Return the deviations, at least ``least``; at least ``empty`` for the empty cells of a sparse table."""
        lowest = np.where(self.table == 0.0, empty, least) if self.sparse else least
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
    return [Pair.of(*both) for both in zip(release.tables, made, strict=True)], shown


def predicted(measured: Measurement[Marginal], expected: Array, copula: Copula | None) -> Array:
    """Return the table of two columns under the copula if it joins them, else ``expected``."""
    return copula.table(measured.query) if copula is not None and copula.joins(measured.query.columns) else expected
