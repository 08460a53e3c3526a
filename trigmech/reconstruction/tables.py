"""The fit of rows to released columns, tables and products."""

import time
from collections.abc import Sequence
from copy import copy
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from trigmech._arrays import Array
from trigmech._parallel import one_blas_thread
from trigmech.distribution import Distribution
from trigmech.functions.released_column import ReleasedColumn
from trigmech.measurement.released import Release
from trigmech.queries.base import Measurement
from trigmech.queries.joint import Marginal, Products
from trigmech.reconstruction.agreement import of_cells
from trigmech.reconstruction.constrained import ConstrainedRows
from trigmech.reconstruction.copula import Copula
from trigmech.reconstruction.dependence import shrunk_beside, shrunk_contrasts, shrunk_presence, shrunk_products
from trigmech.reconstruction.estimates import estimate_of
from trigmech.reconstruction.pairs import Cells, Pair, decoded, pairs_of, predicted
from trigmech.reconstruction.result import Reconstruction
from trigmech.reconstruction.ridges import Ridge
from trigmech.reconstruction.row_arrays import FittedRows
from trigmech.reconstruction.rows import CompiledObjective, RowObjective, independent_rows
from trigmech.reconstruction.sparse import TableEstimate, with_margins

# The weight of a column's own distribution during the descent: at most FIRMNESS, and FIRMNESS_BY_ROWS times the tables'
# noise in rows. A move changes a frequency by one row. If this exceeds the noise, a firm column would never move.
FIRMNESS, FIRMNESS_BY_ROWS = 3.0, 0.5
# A position that should have fewer rows than EMPTY counts as empty. A row in it costs as much as FROM_EMPTY rows more.
EMPTY, FROM_EMPTY = 0.05, 2.0
# More rows than FIRST are fitted from COPIES of fewer.
FIRST, COPIES = 50_000, 2
# Then a part of a sweep tries all entries of so many rows, and leaves out entries of others that will hardly move.
SAMPLED = 512
# The smallest deviation, in rows. Smaller ones are raised to it.
LEAST = 0.5
# The same for tables of a ridge is so much smaller: few rows in the tails decide the correlation, and with as little
# weight as elsewhere they would be moved out of their cells for the sake of other tables.
FIRMER_TAILS = 10.0
# The same for sparse tables' empty cells, once most rows have found their place: before, such cells would be walls.
LEAST_EMPTY = 0.03
# An exchanged entry changes each table by a whole row, but the mean of a product of ranks by a small part of its noise,
# and hundreds of entries would be needed to reach the mean. If products miss more than their noise, and more than
# LEAST_MISSED rows, they weigh more by the factor FIRMER, and rows move on. Rows that have them anyway would only lose
# tables. The value gave the best correlations, at no cost to tables, for weather data and made-up rows.
LEAST_MISSED, FIRMER = 2.0, 10.0


def reconstruct_table(release: Release, count: int, rng: np.random.Generator, *,
                      shrunk: bool = True) -> Reconstruction:
    """Return rows of equal weight that agree with the released numbers within their noise.

    Notes
    -----
    Privacy: post-processing. The start has columns with the released distributions, arranged by the released
    correlations if there are some, else independent. The descent moves entries between positions, which determine the
    cells of tables and the ranks (:mod:`trigmech.reconstruction.rows`). Then the tables of three columns become targets
    too, where they differ from these rows by more than noise. Numbers lie at random places in the interval of their
    position. All rows keep the constraints of the schema
    (:mod:`trigmech.reconstruction.constrained`).
    """
    started = time.perf_counter()
    constrained = ConstrainedRows(release.schema, release.columns, release.closer)
    release = constrained.of(release)
    targets = Targets(release, shrunk)
    with one_blas_thread():
        if count > FIRST:
            fitted = descended(targets, constrained, count, rng, release.triples)
        else:
            fitted = _with_triples(descended(targets, constrained, count, rng), targets, constrained, rng)
    points = constrained.placed(fitted.rows, release.domain.d, rng)
    return Reconstruction(Distribution(points, np.full(count, 1.0 / count)), targets.flat, "converged",
                          fitted.sweeps, time.perf_counter() - started, fitted.misfit, True, targets.dependent)


def descended(targets: "Targets", constrained: ConstrainedRows, count: int, rng: np.random.Generator,
              triples: Sequence[Measurement[Marginal]] = ()) -> FittedRows:
    """Return rows of positions that fit the targets and keep the constraints. Both must use the same positions.

    More than `FIRST` rows grow: a part of them is fitted first, and `COPIES` copies of each of these rows are fitted
    further; the last ones also to some tables of three columns. Then few rows are left in cells that should be empty,
    and these cost so much that they leave.
    """
    sizes = [count]
    while sizes[0] > FIRST:
        sizes.insert(0, -(-sizes[0] // COPIES))
    rows = independent_rows([column.mass for column in targets.release.columns], sizes[0], rng)
    if targets.copula is not None:
        targets.copula.arrange(rows, rng)
    constrained.repair(rows, rng)
    sweeps, firmness = 0, 1.0
    for size in sizes:
        rows, objective = rows[np.arange(size) % len(rows)], targets.objective(size, firm=size > sizes[0])
        if size == count > sizes[0]:
            _ask_triples(objective, triples, rows)
        constrained.ask(objective)
        if size < count:
            fitted = _moved(objective.compiled(), rows, rng, firmness, int(not sweeps), SAMPLED)
            sweeps, firmness = sweeps + fitted.sweeps, fitted.firmness
    fitted = _descended(objective, rows, targets, rng, firmness, int(not sweeps))
    return replace(fitted, sweeps=sweeps + fitted.sweeps)


def _descended(objective: RowObjective, rows: NDArray[np.int32], targets: "Targets", rng: np.random.Generator,
               firmness: float, exchanging: int = 0) -> FittedRows:
    compiled, large = objective.compiled(), len(rows) > FIRST
    fitted = _moved(compiled, rows, rng, firmness, exchanging, SAMPLED if large else None)
    holes = None if large else [t for t, pair in enumerate(targets.pairs) if pair.holes]
    fitted = compiled.clear_empty(fitted, rng, SAMPLED if large else None, holes)
    # The moves between cells ignored the dependence within cells.
    cells = [objective.joint_cells(j) for j in range(objective.d)]
    if targets.copula is not None:
        targets.copula.arrange_within(fitted.rows, cells, rng)
    for ridge in targets.ridges:
        ridge.arrange_within(fitted.rows, cells, rng)
    return fitted


def _moved(compiled: CompiledObjective, rows: NDArray[np.int32], rng: np.random.Generator, firmness: float,
           exchanging: int, sampled: int | None) -> FittedRows:
    """Move the rows until further moves would fit noise, and again with firmer products if these are missed."""
    compiled.firmer(firmness)
    fitted = compiled.descend(rows, rng, exchanging=exchanging, smooth=True, sampled=sampled)
    if firmness < FIRMER and compiled.missed(rows, LEAST_MISSED) > 1.0:
        compiled.firmer(FIRMER)
        further = compiled.descend(rows, rng, smooth=True, sampled=sampled)
        return replace(further, sweeps=fitted.sweeps + further.sweeps)
    return fitted


def _with_triples(fitted: FittedRows, targets: "Targets", constrained: ConstrainedRows,
                  rng: np.random.Generator) -> FittedRows:
    """Return rows that also fit the tables of three columns, where these show more than the tables of two."""
    if not targets.release.triples:
        return fitted
    objective = targets.objective(len(fitted.rows))
    asked = _ask_triples(objective, targets.release.triples, fitted.rows)
    constrained.ask(objective)
    if not asked:
        return fitted
    further = _descended(objective, fitted.rows, targets, rng, fitted.firmness, 1)
    return replace(further, sweeps=fitted.sweeps + further.sweeps)


def _ask_triples(objective: RowObjective, triples: Sequence[Measurement[Marginal]], rows: NDArray[np.int32]) -> bool:
    """Ask for tables of three columns that differ from these rows' by more than noise; return whether any does."""
    asked, maps = False, dict[tuple[int, int], int]()
    for measured in triples:
        query, noise = measured.query, measured.deviation
        held = query.counted(rows[:, list(query.columns)], np.full(len(rows), 1.0)) / len(rows)
        # Deviations beyond 1 are only noise, and their squares could overflow.
        kept = shrunk_beside(np.clip(measured.means, -1.0, 2.0) - held, noise)
        if kept.any():
            objective.table([objective.map(j, cells, maps) for j, cells in zip(query.columns, query.maps, strict=True)],
                            held + kept, 1.0 / max(noise, LEAST / len(rows)) ** 2)
            asked = True
    return asked


def strengths_of(release: Release) -> tuple[Array, Array]:
    """Return the dependence in each released table (t,) after shrinkage: its total variation from independence.

    Also return how many cells of each table are occupied, by more than half the noise; infinite if it is not sparse.
    """
    pairs = Targets(release).pairs
    return (np.array([0.5 * np.abs(pair.table - expected).sum()
                      for pair, expected in zip(pairs, independent(release)[0], strict=False)]),
            np.array([(pair.table > 0.5 * np.max(pair.deviation)).sum() if pair.sparse else np.inf for pair in pairs]))


def independent(release: Release) -> tuple[list[Array], Array]:
    """Return the tables and products (K,) of independent columns."""
    cells = Cells(release)
    tables = [np.outer(*cells.of(table)) for table in release.tables]
    if release.products is None:
        return tables, np.zeros(0)
    query = release.products.query
    means = np.concatenate([feature.T @ column.mass
                            for feature, column in zip(query.features, release.columns, strict=True)])
    return tables, means[query.places].prod(axis=1)


def products_kept(measured: Measurement[Products], columns: Sequence[ReleasedColumn], deviation: Array) -> Array:
    """Return the shrunk deviations (K,) of released products from independence."""
    query = measured.query
    if not query.tells_tables:
        kept, own = shrunk_presence(deviation, measured.deviation, query.absences), query.absences == 0
        kept[own] = shrunk_products(deviation[own], measured.deviation, query.places[own])
        return kept
    variances = [np.maximum(column.mass @ feature**2 - (column.mass @ feature) ** 2, 0.0)
                 for feature, column in zip(query.features, columns, strict=True)]
    scales = np.sqrt(np.concatenate(variances))[query.places].prod(axis=1)
    return shrunk_contrasts(deviation, measured.deviation, query.places, scales)


def cells_of_columns(release: Release) -> dict[int, NDArray[np.int64]]:
    """Return the cell of each position, for each column in a table of two columns or in products of contrasts.

    If a column has different cells in its tables, the table with the most cells counts.
    """
    found: dict[int, NDArray[np.int64]] = {}
    for measured in release.tables:
        for j, cells in zip(measured.query.columns, measured.query.maps, strict=True):
            if j not in found or cells.max() > found[j].max():
                found[j] = cells
    if release.products is not None:
        found |= {j: cells for j, cells in enumerate(release.products.query.maps) if j not in found}
    return found


def copula_of(release: Release) -> Copula | None:
    """Return the normal copula from released directions, or from products. None if noise alone explains them."""
    if release.directions is not None:
        return Copula.by_directions(release.columns, release.directions)
    if (measured := release.products) is None:
        return None
    kept, query = products_kept(measured, release.columns, measured.means - independent(release)[1]), measured.query
    return Copula.by_products(release.columns, query, kept, query.presence) if kept.any() else None


def ridges_of(release: Release, copula: Copula | None) -> tuple[Ridge, ...]:
    """Return the ridges of pairs of numbers that were measured by cells of tails too, if they predict better."""
    found, cells, held = list[Ridge](), Cells(release), dict[tuple[int, ...], list[Measurement[Marginal]]]()
    for each in release.tables:
        held.setdefault(each.query.columns, []).append(each)
    for pair, measured in held.items():
        if len(measured) < 2 or any(release.columns[j].partition.value is None for j in pair):
            continue
        if any(len(np.unique(own)) == len(own) for each in measured for own in each.query.maps):
            continue
        others = [predicted(each, np.outer(*cells.of(each)), copula) for each in measured]
        estimates = [estimate_of(each, own).table for each, own in zip(measured, others, strict=True)]
        ridge = Ridge.of(release.columns, measured, estimates)
        if ridge is not None and ridge.better(measured, estimates, others):
            found.append(ridge)
    return tuple(found)


class Targets:
    """The targets of the fit: released numbers after shrinkage.

    Attributes
    ----------
    release : Release
    pairs : list of Pair
        The measured tables, or the tables that products of contrasts give.
    products : ndarray (K,)
    dependent : bool
        Whether any table or product is above the noise.
    """

    def __init__(self, release: Release, shrunk: bool = True) -> None:
        self.release, self.dependent = release, False
        # The threads of BLAS cost more here than they save, and their number would change the last bits.
        with one_blas_thread():
            self._shrink(release, shrunk)

    def _shrink(self, release: Release, shrunk: bool) -> None:
        self.copula = copula_of(release) if shrunk else None
        self.ridges = ridges_of(release, self.copula) if shrunk else ()
        tables, products = independent(release)
        measured = release.products
        self.products = np.zeros(0) if measured is None else measured.means
        if measured is not None and shrunk and len(products):
            kept = products_kept(measured, release.columns, self.products - products)
            self.products, self.dependent = products + kept, bool(kept.any())
        self.dependent |= self.copula is not None
        if shrunk:
            self.pairs, shown = pairs_of(release, tables, self.copula, self.ridges)
            self.dependent |= shown
        else:
            self.pairs = [Pair.of(each, TableEstimate(each.means, np.full(each.means.shape, each.deviation), False))
                          for each in release.tables]
        self.release = replace(release, columns=tuple(self._with_margins(j, column)
                                                      for j, column in enumerate(release.columns)))
        if measured is None:
            return
        if measured.query.tells_tables:
            raw = measured.means - products if shrunk else None
            self.pairs += decoded(self.release, measured, self.products - products, raw)

    def _with_margins(self, j: int, column: ReleasedColumn) -> ReleasedColumn:
        """Return a column that agrees with its sparse tables at the resolution of its positions."""
        margins = []
        for pair in self.pairs:
            if pair.sparse and j in pair.columns:
                axis = pair.columns.index(j)
                if np.array_equal(pair.maps[axis], np.arange(len(column.mass))):
                    margins.append((pair.table.sum(axis=1 - axis),
                                    (np.broadcast_to(pair.deviation, pair.table.shape) ** 2).sum(axis=1 - axis)))
        return replace(column, mass=with_margins(column.mass, margins)) if margins else column

    def beside(self, columns: Sequence[ReleasedColumn], tables: Sequence[Array],
               deviations: Sequence[float | Array]) -> "Targets":
        """Return other targets of the same positions: for columns and tables, but not for products."""
        made = copy(self)
        made.pairs = [replace(pair, table=table, deviation=deviation)
                      for pair, table, deviation in zip(self.pairs, tables, deviations, strict=True)]
        made.products = np.zeros(0)
        made.release = replace(self.release, columns=tuple(columns), measurements=tuple(
            each for each in self.release.measurements if each.query.summed != "products"))
        return made

    @property
    def flat(self) -> Array:
        """The targets in the order of the release's means. Columns and tables of three keep their released values."""
        tables, found = iter(self.pairs), []
        for each in self.release.known:
            if each.query.summed == "products":
                found.append(self.products)
            elif each.query.ways == 2:
                found.append(next(tables).table.ravel())
            else:
                found.append(each.means.ravel())
        return np.concatenate([np.zeros(0), *found])

    def objective(self, count: int, features: Sequence[Array] | None = None, firm: bool = False) -> RowObjective:
        """Return the objective for ``count`` rows. Every deviation is at least half a row.

        If the targets have no products, the caller can ask for products of other ``features`` of the positions. With
        ``firm``, the deviation of a cell that should be empty in a sparse table may be less: at least `LEAST_EMPTY`.
        """
        columns, measured = self.release.columns, self.release.products
        least = LEAST / count
        asked = RowObjective([len(column.mass) for column in columns], features)
        maps, tails = dict[tuple[int, int], int](), {ridge.columns for ridge in self.ridges}
        for pair in self.pairs:
            own = least / FIRMER_TAILS if pair.columns in tails else least
            asked.table([asked.map(*each, maps) for each in zip(pair.columns, pair.maps, strict=True)], pair.table,
                        1.0 / pair.at_least(own, LEAST_EMPTY / count if firm else own) ** 2, sparse=pair.walled)
        noise = np.maximum([np.max(pair.deviation) for pair in self.pairs], least)
        # A column gets as much weight as all its tables together, so that their fit does not spoil the column.
        if self.pairs:
            held = np.array([pair.columns for pair in self.pairs])
            for j, column in enumerate(columns):
                own = noise[(held == j).any(axis=1)]
                firmness = np.minimum(FIRMNESS, FIRMNESS_BY_ROWS * count * own)
                own = np.minimum(own, max(column.deviation, least))
                # A row in an empty interval is worse than one more row elsewhere, so it costs more.
                empty = count * column.mass < EMPTY
                wanted, weight = column.mass - empty * FROM_EMPTY / count, float((firmness / own**2).sum())
                # No rows change the part of the objective from empty categories. It must not end the descent early.
                more = (wanted**2 - column.mass**2)[: len(column.partition.indicators)]
                asked.frequencies(j, wanted, weight, weight * float(more.sum()))
        if measured is not None and len(self.products) and not measured.query.tells_tables:
            self._ask_products(asked, measured, least)
        return asked

    def _ask_products(self, asked: RowObjective, measured: Measurement[Products], least: float) -> None:
        """Ask for the means of products of ranks, once the tables are asked for.

        The means of the scores of each column are asked for too. Otherwise more rows at both ends of the columns would
        also give these products.
        """
        query, columns, tabled = measured.query, self.release.columns, {j for pair in self.pairs for j in pair.columns}
        cells = [asked.joint_cells(j) if j in tabled else np.arange(len(column.mass))
                 for j, column in enumerate(columns)]
        scores, wanted = of_cells(query, columns, cells, self.products, self.copula)
        asked.features(scores)
        weight = 1.0 / max(measured.deviation, least) ** 2
        asked.products(query.factors[:, :2], query.factors[:, 2:], wanted, np.full(len(wanted), weight))
        for j, (column, own) in enumerate(zip(columns, scores, strict=True)):
            held = np.flatnonzero(own.any(axis=0))
            asked.products(np.full((len(held), 1), j), held[:, None], column.mass @ own[:, held],
                           np.full(len(held), weight))
