"""From released columns, tables and products to rows that have them."""

import time
from collections.abc import Sequence
from copy import copy
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from trigmech.distribution import Distribution
from trigmech.functions.released_column import ReleasedColumn
from trigmech.measurement.table_release import TableRelease
from trigmech.reconstruction.constrained import ConstrainedRows
from trigmech.reconstruction.dependence import shrunk_products, shrunk_table
from trigmech.reconstruction.result import Reconstruction
from trigmech.reconstruction.rows import FittedRows, RowObjective, independent_rows

Array = NDArray[np.float64]

# How firmly columns keep their own distributions while they move.
FIRMNESS = 3.0


def reconstruct_table(release: TableRelease, count: int, rng: np.random.Generator, *,
                      shrunk: bool = True) -> Reconstruction:
    """Return equally weighted rows that have the released numbers as far as these are not noise.

    Parameters
    ----------
    release : TableRelease
        With any finite numbers.
    count : int
        Rows.
    rng : numpy.random.Generator
    shrunk : bool
        False if tables and products are no noisy ones, but what rows should have.

    Returns
    -------
    Reconstruction

    Notes
    -----
    Privacy: post-processing. The start are independent columns with the released distributions; the descent moves
    entries between positions, of which cells of tables and ranks are functions (:mod:`trigmech.reconstruction.rows`);
    numbers then lie anywhere in the interval of their position, evenly. All rows keep the constraints of the schema
    (:mod:`trigmech.reconstruction.constrained`).
    """
    started = time.perf_counter()
    constrained = ConstrainedRows(release.schema, release.columns)
    release = constrained.of(release)
    targets = Targets(release, shrunk)
    fitted = descended(targets, constrained, count, rng)
    points = constrained.placed(fitted.rows, release.domain.d, rng)
    return Reconstruction(Distribution(points, np.full(count, 1.0 / count)), targets.flat, "converged",
                          fitted.sweeps, time.perf_counter() - started, fitted.misfit, True, targets.dependent)


def descended(targets: "Targets", constrained: ConstrainedRows, count: int, rng: np.random.Generator) -> FittedRows:
    """Return rows of positions that have the targets and keep the constraints; both are of the same positions."""
    rows = independent_rows([column.mass for column in targets.release.columns], count, rng)
    constrained.repair(rows, rng)
    objective = targets.objective(count)
    constrained.ask(objective)
    return objective.compiled().descend(rows, rng)


def independent(release: TableRelease) -> tuple[list[Array], Array]:
    """Return what tables and products (p, q, q) would be if the columns were independent."""
    chosen = release.dependence
    if chosen is None:
        return [], release.products
    cells = [np.bincount(held, weights=column.mass) for held, column in zip(chosen.maps, release.columns, strict=True)]
    tables = [np.outer(cells[j], cells[h]) for j, h in chosen.tables.tolist()]
    means = np.array([feature.T @ column.mass
                      for feature, column in zip(chosen.features, release.columns, strict=True)])
    return tables, means[chosen.pairs[:, 0], :, None] * means[chosen.pairs[:, 1], None, :]


class Targets:
    """What the released numbers are taken to be, without what is noise.

    Parameters
    ----------
    release : TableRelease
    shrunk : bool
        False to take tables and products as they are.

    Attributes
    ----------
    release : TableRelease
    tables : list of ndarray (a, b)
    products : ndarray (p, q, q)
    dependent : bool
        Whether any table or product is above the noise.
    """

    def __init__(self, release: TableRelease, shrunk: bool = True) -> None:
        self.release, chosen = release, release.dependence
        self.tables, self.products = list(release.tables), release.products
        self.dependent = False
        if chosen is None or not shrunk:
            return
        tables, products = independent(release)
        for t, (expected, noise) in enumerate(zip(tables, release.table_deviations.tolist(), strict=True)):
            kept = shrunk_table(self.tables[t] - expected, noise)
            self.dependent |= bool(kept.any())
            self.tables[t] = expected + kept
        if len(products):
            kept = shrunk_products(self.products - products, release.product_deviation, chosen.pairs)
            self.dependent |= bool(kept.any())
            self.products = products + kept

    def of(self, columns: Sequence[ReleasedColumn], tables: list[Array], part: float) -> "Targets":
        """Return targets for a part of the rows: of the same positions, no products, and with so much more noise."""
        chosen = self.release.dependence
        made = copy(self)
        made.tables, made.products = tables, np.zeros((0, 0, 0))
        made.release = replace(self.release, columns=tuple(columns), deviation=self.release.deviation / part,
                               dependence=None if chosen is None else replace(chosen, pairs=chosen.pairs[:0]))
        return made

    @property
    def flat(self) -> Array:
        """In the order of the release's means, of which the columns' own are as released."""
        release = self.release
        own = release.K - sum(table.size for table in release.tables) - release.products.size
        return np.concatenate([release.means[:own], *(table.ravel() for table in self.tables), self.products.ravel()])

    def objective(self, count: int) -> RowObjective:
        """Return what ``count`` rows should have; no deviation is taken to be finer than half a row."""
        release, chosen = self.release, self.release.dependence
        least = 0.5 / count
        asked = RowObjective([len(column.mass) for column in release.columns],
                             None if chosen is None or not len(chosen.pairs) else chosen.features)
        if chosen is None:
            return asked
        maps = [asked.map(j, cells) for j, cells in enumerate(chosen.maps)]
        noise = np.maximum(release.table_deviations, least)
        for (j, h), table, deviation in zip(chosen.tables.tolist(), self.tables, noise, strict=True):
            asked.table((maps[j], maps[h]), table, 1.0 / float(deviation) ** 2)
        # As much as all of a column's tables together: what these gain must not cost the column itself.
        for j, column in enumerate(release.columns):
            own = np.minimum(noise[(chosen.tables == j).any(axis=1)], max(column.deviation, least))
            asked.frequencies(j, column.mass, FIRMNESS * float((1.0 / own**2).sum()))
        if len(chosen.pairs):
            q = chosen.q
            degrees = np.stack(np.meshgrid(np.arange(q), np.arange(q), indexing="ij"), axis=-1).reshape(-1, 2)
            size = self.products.size
            deviation = max(release.product_deviation, least)
            asked.products(np.repeat(chosen.pairs, q * q, axis=0), np.tile(degrees, (len(chosen.pairs), 1)),
                           self.products.ravel(), np.full(size, 1.0 / deviation**2))
        return asked

