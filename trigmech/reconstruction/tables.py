"""From released columns, tables and products to rows that have them."""

import time
from collections.abc import Sequence
from copy import copy
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from trigmech.distribution import Distribution
from trigmech.functions.contrasts import decoding
from trigmech.functions.released_column import ReleasedColumn
from trigmech.measurement.table_release import TableRelease
from trigmech.planning.dependence import DependenceDesign
from trigmech.reconstruction.constrained import ConstrainedRows
from trigmech.reconstruction.dependence import shrunk_beside, shrunk_products, shrunk_table
from trigmech.reconstruction.result import Reconstruction
from trigmech.reconstruction.rows import FittedRows, RowObjective, independent_rows

Array = NDArray[np.float64]

# How firmly columns keep their own distributions while they move: at most, and for each row of the tables' noise. A
# move changes a frequency by a row, so where that is more than the noise firm columns would not move at all.
FIRMNESS, FIRMNESS_BY_ROWS = 3.0, 0.5
# Of a row: no deviation is taken to be finer.
LEAST = 0.5


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
    entries between positions, of which cells of tables and ranks are functions (:mod:`trigmech.reconstruction.rows`).
    What the released tables of three columns have beside these rows, and is no noise, is then asked for too. Numbers
    lie anywhere in the interval of their position, evenly. All rows keep the constraints of the schema
    (:mod:`trigmech.reconstruction.constrained`).
    """
    started = time.perf_counter()
    constrained = ConstrainedRows(release.schema, release.columns, release.closer)
    release = constrained.of(release)
    targets = Targets(release, shrunk)
    fitted = _with_triples(descended(targets, constrained, count, rng), targets, constrained, rng)
    points = constrained.placed(fitted.rows, release.domain.d, rng)
    return Reconstruction(Distribution(points, np.full(count, 1.0 / count)), targets.flat, "converged",
                          fitted.sweeps, time.perf_counter() - started, fitted.misfit, True, targets.dependent)


def descended(targets: "Targets", constrained: ConstrainedRows, count: int, rng: np.random.Generator) -> FittedRows:
    """Return rows of positions that have the targets and keep the constraints; both are of the same positions."""
    rows = independent_rows([column.mass for column in targets.release.columns], count, rng)
    constrained.repair(rows, rng)
    objective = targets.objective(count)
    constrained.ask(objective)
    return objective.compiled().descend(rows, rng, exchanging=1)


def _with_triples(fitted: FittedRows, targets: "Targets", constrained: ConstrainedRows,
                  rng: np.random.Generator) -> FittedRows:
    """Return rows that also have what tables of three columns show beyond what tables of two let them have."""
    release, chosen, rows = targets.release, targets.release.selected, fitted.rows
    if chosen is None or not release.triples:
        return fitted
    objective, asked = targets.objective(len(rows)), False
    maps = [objective.map(j, cells) for j, cells in enumerate(chosen.maps)]
    for (j, h, k), table, noise in zip(chosen.triples.tolist(), release.triples, release.triple_deviations.tolist(),
                                       strict=True):
        place = np.ravel_multi_index(tuple(chosen.maps[c][rows[:, c]] for c in (j, h, k)), table.shape)
        held = np.bincount(place, minlength=table.size).reshape(table.shape) / len(rows)
        # Beyond 1 all is noise, of which squares could overflow.
        kept = shrunk_beside(np.clip(table, -1.0, 2.0) - held, noise)
        if kept.any():
            objective.table((maps[j], maps[h], maps[k]), held + kept, 1.0 / max(noise, LEAST / len(rows)) ** 2)
            asked = True
    if not asked:
        return fitted
    constrained.ask(objective)
    further = objective.compiled().descend(rows, rng, exchanging=1)
    return replace(further, sweeps=fitted.sweeps + further.sweeps)


def strengths_of(release: TableRelease) -> Array:
    """Return the total variation of each released table (t,) from independence, without what is noise."""
    return np.array([0.5 * np.abs(shrunk_table(table - expected, noise)).sum() for table, expected, noise in zip(
        release.tables, independent(release)[0], release.table_deviations.tolist(), strict=True)])


def independent(release: TableRelease) -> tuple[list[Array], Array]:
    """Return what tables and products (K,) would be if the columns were independent."""
    chosen = release.dependence
    if chosen is None:
        return [], release.products
    cells = _cells(release, chosen)
    tables = [np.outer(cells[j], cells[h]) for j, h in chosen.tables.tolist()]
    means = np.concatenate([feature.T @ column.mass
                            for feature, column in zip(chosen.features, release.columns, strict=True)])
    return tables, means[chosen.places].prod(axis=1)


def _cells(release: TableRelease, chosen: DependenceDesign) -> list[Array]:
    """Return the released frequencies of each column's cells."""
    return [np.bincount(cells, weights=column.mass).astype(np.float64)
            for cells, column in zip(chosen.maps, release.columns, strict=True)]


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
        Of pairs of columns, as measured or as products of contrasts tell.
    pairs : ndarray (t, 2) of int
        The columns of each.
    deviations : ndarray (t,)
        Of the noise in an entry of each.
    products : ndarray (K,)
    dependent : bool
        Whether any table or product is above the noise.
    """

    def __init__(self, release: TableRelease, shrunk: bool = True) -> None:
        self.release, self.dependent, chosen = release, False, release.dependence
        self.tables, self.products, self.deviations = list(release.tables), release.products, release.table_deviations
        if chosen is None:
            self.pairs = np.empty((0, 2), dtype=np.int64)
            return
        self.pairs, (tables, products) = chosen.tables, independent(release)
        if shrunk:
            for t, (expected, noise) in enumerate(zip(tables, release.table_deviations.tolist(), strict=True)):
                kept = shrunk_table(self.tables[t] - expected, noise)
                self.dependent |= bool(kept.any())
                self.tables[t] = expected + kept
            if len(products):
                kept = shrunk_products(self.products - products, release.product_deviation, chosen.places)
                self.dependent |= bool(kept.any())
                self.products = products + kept
        if chosen.contrasted:
            self._decode(chosen, self.products - products)

    def _decode(self, chosen: DependenceDesign, deviation: Array) -> None:
        """Set the tables that products of contrasts are, and the deviations of the noise in their entries."""
        self.pairs, deviations, start = chosen.pairs, [], 0
        cells = _cells(self.release, chosen)
        for j, h in self.pairs.tolist():
            left, right = decoding(len(cells[j])), decoding(len(cells[h]))
            shape = left.shape[1], right.shape[1]
            found = left @ deviation[start : start + shape[0] * shape[1]].reshape(shape) @ right.T
            self.tables.append(np.outer(cells[j], cells[h]) + found)
            deviations.append(np.sqrt((left**2).sum() * (right**2).sum() / found.size))
            start += shape[0] * shape[1]
        self.deviations = self.release.product_deviation * np.array(deviations)

    def of(self, columns: Sequence[ReleasedColumn], tables: list[Array], part: float) -> "Targets":
        """Return targets for a part of the rows: of the same positions, no products, and with so much more noise."""
        chosen = self.release.dependence
        made = copy(self)
        made.tables, made.products, made.deviations = tables, np.zeros(0), self.deviations / part
        made.release = replace(self.release, columns=tuple(columns),
                               dependence=None if chosen is None else replace(chosen, pairs=chosen.pairs[:0]))
        return made

    @property
    def flat(self) -> Array:
        """In the order of the release's means, of which the columns' own and those of three columns are as released."""
        release = self.release
        triples = [table.ravel() for table in release.triples]
        own = release.K - sum(table.size for table in (*release.tables, *triples)) - release.products.size
        tables = self.tables[: len(release.tables)]
        return np.concatenate([release.means[:own], *(table.ravel() for table in tables), self.products, *triples])

    def objective(self, count: int) -> RowObjective:
        """Return what ``count`` rows should have; no deviation is taken to be finer than half a row."""
        release, chosen = self.release, self.release.dependence
        least = LEAST / count
        by_products = chosen is not None and len(chosen.pairs) > 0 and not chosen.contrasted
        asked = RowObjective([len(column.mass) for column in release.columns],
                             chosen.features if chosen is not None and by_products else None)
        if chosen is None:
            return asked
        maps = [asked.map(j, cells) for j, cells in enumerate(chosen.maps)]
        noise = np.maximum(self.deviations, least)
        for (j, h), table, deviation in zip(self.pairs.tolist(), self.tables, noise, strict=True):
            asked.table((maps[j], maps[h]), table, 1.0 / float(deviation) ** 2)
        # As much as all of a column's tables together: what these gain must not cost the column itself.
        for j, column in enumerate(release.columns):
            own = noise[(self.pairs == j).any(axis=1)]
            firmness = np.minimum(FIRMNESS, FIRMNESS_BY_ROWS * count * own)
            own = np.minimum(own, max(column.deviation, least))
            asked.frequencies(j, column.mass, float((firmness / own**2).sum()))
        if by_products:
            weight = 1.0 / max(release.product_deviation, least) ** 2
            asked.products(chosen.factors[:, :2], chosen.factors[:, 2:], self.products,
                           np.full(len(self.products), weight))
        return asked

