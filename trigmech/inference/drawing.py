"""The drawing of imputations: possible exact numbers, and tables that are fitted to them.

Each table is fitted anew to measured functions and smooth functions. Their means are drawn from the distribution that
the release leaves possible (:mod:`trigmech.inference.posterior`). The two halves of a table are fitted independently of
each other.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import cho_factor, cho_solve

from trigmech._arrays import Array, Codes
from trigmech._parallel import in_order, one_blas_thread
from trigmech._validate import check_integers
from trigmech.distribution import systematic
from trigmech.functions.released_column import ReleasedColumn
from trigmech.inference.imputations import Imputations
from trigmech.inference.lost import with_rare, with_tails
from trigmech.inference.posterior import SMOOTH, Posterior, rows_looked_at
from trigmech.inference.rehearsing import BIASED, rehearsed_white
from trigmech.inference.smooth import BINS, parts
from trigmech.inference.unresolved import Unresolved, unresolved
from trigmech.inference.weighted import WeightedTable
from trigmech.measurement.released import Release
from trigmech.measurement.rows import Progress
from trigmech.mechanisms.base import Design
from trigmech.reconstruction.constrained import ConstrainedRows
from trigmech.reconstruction.copula import Copula
from trigmech.reconstruction.ends import with_ends
from trigmech.reconstruction.rows import RowObjective, independent_rows
from trigmech.reconstruction.tables import LEAST, Targets
from trigmech.schema.schema import Schema

# Rows of a half: at least and at most.
FEWEST, MOST = 512, 4_096
# Tables come in pairs, for tests, if there are at least so many. Pairs of few tables would widen intervals.
FEWEST_PAIRED = 10
# Newton's steps, and the weight of the square of theta.
NEWTON, STIFF = 40, 1e-3
# Rounds of calibration, how far a weight changes in one at most, and exchanges that are tried for each row: of them so
# many at the end, for the columns.
RAKED, RATIO, TRIED, LAST = 3, (0.5, 2.0), 16, 4


# The workers are the threads: those of BLAS would only wait for each other.
@one_blas_thread()
def imputed(release: Release, points: Array, design: Design, rehearsed: Array, count: int, population: bool,
            rng: np.random.Generator, progress: Progress | None = None) -> Imputations:
    """Return imputations of a release of tables: of its fitted rows ``points`` (m, D) and rehearsals (r, 3, rows, D).

    Privacy: post-processing. Cost: a fit of the release of some thousand rows for each table, on all threads.
    """
    check_integers(2, m=count)
    schema = design.schema_given
    constrained, release, points = _with_lost_rows(schema, release, points, rng)
    posterior = Posterior(release, points, rehearsed_white(release, rehearsed))
    paired = count >= FEWEST_PAIRED and count % 2 == 0
    drawn = posterior.drawn(count, rng, population, paired)
    shared = [(each, each.drawn(count, rng)) for each in unresolved(release, constrained)]
    fits = _Fits(schema, release, constrained, posterior, drawn, shared)
    half = int(np.clip(release.n // 2, FEWEST, MOST))
    rngs = rng.spawn(2 * count)

    def one(start: int, stop: int) -> list[Array]:
        return fits.halves(start, half, rngs[2 * start : 2 * stop])

    made = []
    for each in in_order(one, count, 1):
        made.append(each)
        if progress is not None:
            progress("imputations", len(made), count)
    measured = tuple(tuple(schema.names[j] for j in each.query.columns) for each in release.measurements
                     if each.query.ways)
    return Imputations(schema, release.n, np.array(made), posterior.white, population, measured,
                       rehearsed[:BIASED], paired)


def weighted(release: Release, points: Array, design: Design, rehearsed: Array,
             rng: np.random.Generator) -> WeightedTable:
    """Return the fitted rows with the weights that the release tells; parameters as for :func:`imputed`."""
    schema = design.schema_given
    constrained, release, points = _with_lost_rows(schema, release, points, rng)
    posterior = Posterior(release, points, rehearsed_white(release, rehearsed), unresolved(release, constrained))
    return WeightedTable(schema, posterior, rehearsed[:BIASED])


def _with_lost_rows(schema: Schema, release: Release, points: Array,
                    rng: np.random.Generator) -> tuple[ConstrainedRows, Release, Array]:
    """Return a release's constraints on rows, the release, and its fitted rows with the rows that the fit has lost."""
    release = with_ends(release)
    constrained = ConstrainedRows(schema, release.columns, release.closer)
    release = constrained.of(release.described(schema))
    release, points = with_tails(schema, release, rows_looked_at(release, points, rng), SMOOTH, rng)
    return constrained, *with_rare(schema, release, points, rng)


class _Fits:
    """Fits halves of tables to drawn weights of the fitted rows."""

    def __init__(self, schema: Schema, release: Release, constrained: ConstrainedRows, posterior: Posterior,
                 drawn: Array, shared: Sequence[tuple[Unresolved, Array]]) -> None:
        self._schema, self._unresolved = schema, shared
        self._release, self._constrained, self._smooth = release, constrained, posterior.smooth
        self._targets = Targets(release)
        codes, smooth = posterior.codes, posterior.smooth
        places = [np.ravel_multi_index([cells[codes[:, j]] for j, cells in zip(pair.columns, pair.maps, strict=True)],
                                       pair.table.shape) for pair in self._targets.pairs]
        self._tables = [np.column_stack([np.bincount(place, w, pair.table.size).astype(np.float64) for w in drawn.T])
                        for place, pair in zip(places, self._targets.pairs, strict=True)]
        self._spreads = [table.std(axis=1) for table in self._tables]
        self._triples = [np.column_stack([each.query.counted(codes[:, list(each.query.columns)], w).ravel()
                                          for w in drawn.T]) for each in release.triples]
        # Columns follow the drawn frequencies of some parts of them, too. With mean square 1, rare ones do so as well.
        held = [np.eye(BINS)[parts(column)][:, 1:] for column in release.columns]
        own_parts = [each / np.sqrt(np.maximum(column.mass @ each, 1.0 / posterior.m))
                     for each, column in zip(held, release.columns, strict=True)]
        self._shapes = [np.column_stack([values, own]) for values, own in zip(smooth.features, own_parts, strict=True)]
        self._moments = [values[own].T @ drawn for values, own in zip(self._shapes, codes.T, strict=True)]
        means = smooth.evaluate(codes).T @ drawn
        ends = np.cumsum([values.shape[1] for values in smooth.features])
        *self._single, self._products = np.split(means, ends)

    def halves(self, i: int, count: int, rngs: Sequence[np.random.Generator]) -> list[Array]:
        """Return points (count, D) that are fitted to the i-th weights, for each generator; the last places them."""
        columns = [replace(column, mass=tilted(column.mass, values, moments[:, i], np.square(moments.std(axis=1))))
                   for column, values, moments in zip(self._release.columns, self._shapes, self._moments, strict=True)]
        copula = Copula.by_products(columns, self._smooth, self._products[:, i])
        objective = self._objective(columns, i, count)
        rows = [self._half(columns, copula, objective, i, count, rng) for rng in rngs]
        points = self._constrained.placed(np.concatenate(rows), self._release.domain.d, rngs[-1])
        for each, places in self._unresolved:
            points = each.moved(points, places[i], self._schema, rngs[-1])
        return np.split(points, len(rows))

    def _half(self, columns: list[ReleasedColumn], copula: Copula, objective: RowObjective, i: int, count: int,
              rng: np.random.Generator) -> Codes:
        rows = independent_rows([column.mass for column in columns], count, rng)
        copula.arrange(rows, rng)
        self._constrained.repair(rows, rng)
        fitted = objective.compiled().descend(rows, rng, exchanging=1, smooth=True)
        if len(self._products):
            copula.arrange_within(fitted.rows, [objective.joint_cells(j) for j in range(objective.d)], rng)
        return self._raked(fitted.rows, columns, i, rng)

    def _objective(self, columns: list[ReleasedColumn], i: int, count: int) -> RowObjective:
        """Return the objective that asks rows for the i-th weights' tables, products and means."""
        release, targets, least = self._release, self._targets, LEAST / count
        own = targets.beside(columns, [table[:, i].reshape(pair.table.shape)
                                       for table, pair in zip(self._tables, targets.pairs, strict=True)],
                             [np.maximum(spread, least).reshape(pair.table.shape)
                              for spread, pair in zip(self._spreads, targets.pairs, strict=True)])
        objective = own.objective(count, self._smooth.features)
        if not own.pairs:
            for j, column in enumerate(columns):
                objective.frequencies(j, column.mass, 1.0 / max(column.deviation, least) ** 2)
        for each, table in zip(release.triples, self._triples, strict=True):
            maps = [objective.map(j, cells) for j, cells in zip(each.query.columns, each.query.maps, strict=True)]
            objective.table(maps, table[:, i].reshape(each.query.shape),
                            (1.0 / np.maximum(table.std(axis=1), least) ** 2).reshape(each.query.shape))
        self._ask_smooth(objective, i, least)
        self._constrained.ask(objective)
        return objective

    def _ask_smooth(self, objective: RowObjective, i: int, least: float) -> None:
        """Ask for the means of the smooth functions, but for products of powers, which no rows may have."""
        for j, moments in enumerate(self._single):
            own = np.arange(len(moments))[:, None]
            objective.products(np.full_like(own, j), own, moments[:, i],
                               1.0 / np.maximum(moments.std(axis=1), least) ** 2)
        kept, factors = self._kept, self._smooth.factors
        if kept.any():
            objective.products(factors[kept, :2], factors[kept, 2:], self._products[kept, i],
                               1.0 / np.maximum(self._products[kept].std(axis=1), least) ** 2)

    @cached_property
    def _kept(self) -> NDArray[np.bool_]:
        """Which products (K,) are asked for."""
        return self._smooth.deviations[self._smooth.size - len(self._products) :] == 1.0

    def _raked(self, rows: Codes, columns: Sequence[ReleasedColumn], i: int, rng: np.random.Generator) -> Codes:
        """Return rows among these (count, d), some of them twice, that have the means of the smooth functions.

        The descent ends when the rows meet most targets of the objective. The means of smooth functions are few among
        these targets, but users look at them. No rows have all drawn products: rows with a rare value are too few for
        the strong relations that noise shows, and more such rows would come nearer to these relations. So the means of
        a column's functions are those of the drawn column, and in the end each of them weighs as much as all products
        with the column. If they had this weight from the beginning, hardly any exchange would be made, because each
        exchange moves all columns a little.
        """
        singles = [functions.T @ column.mass for functions, column in zip(self._functions, columns, strict=True)]
        goals, least = np.concatenate([*singles, self._products[self._kept, i]]), 1.0 / len(rows)
        values = np.column_stack([*(functions[own] for functions, own in zip(self._functions, rows.T, strict=True)),
                                  self._smooth.products(rows, self._kept)])
        w, missing = np.full(len(rows), least), goals - values.mean(axis=0)
        spread, deviations = values - values.mean(axis=0), self._deviations
        # One matrix for all rounds: weights stay so near to even ones that another would hardly differ.
        gram = cho_factor(spread.T @ spread / len(rows) + np.diag(np.square(deviations) + STIFF))
        for _ in range(RAKED):
            w *= np.clip(1.0 + (spread - w @ spread) @ cho_solve(gram, missing), *RATIO)
            w /= w.sum()
            missing = goals - w @ values
        picked = rng.permutation(systematic(w, len(rows), rng)).astype(np.int64)
        for firm, tried in ((np.ones_like(self._firmness), TRIED - LAST), (self._firmness, LAST)):
            # The means that are known best are to be met best, because no rows have all drawn means.
            weight = np.sqrt(firm) / np.maximum(deviations, least)
            scaled = values * weight
            missing = goals * weight - scaled[picked].mean(axis=0)
            lengths = np.einsum("ij,ij->i", scaled, scaled)
            for _ in range(tried):
                _exchanged(scaled, picked, missing, scaled @ missing, lengths,
                           rng.integers(len(rows), size=(len(rows), 2)))
        return rows[picked]

    @cached_property
    def _functions(self) -> list[Array]:
        """The functions (size, q) of each column whose means rows are to have: frequencies of categories, or smooth."""
        return [shapes[:, own] for shapes, own in zip(self._shapes, self._asked, strict=True)]

    @cached_property
    def _asked(self) -> list[NDArray[np.bool_]]:
        """Which of each column's functions (q,) these are."""
        places = [np.arange(shapes.shape[1]) < values.shape[1]
                  for shapes, values in zip(self._shapes, self._smooth.features, strict=True)]
        return [smooth if column.partition.value is not None else ~smooth & shapes.any(axis=0)
                for column, smooth, shapes in zip(self._release.columns, places, self._shapes, strict=True)]

    @cached_property
    def _deviations(self) -> Array:
        """How well the means of these functions, and of the products that are asked for, are known (q,)."""
        singles = [moments[own] for moments, own in zip(self._moments, self._asked, strict=True)]
        return np.concatenate([*singles, self._products[self._kept]]).std(axis=1)

    @cached_property
    def _firmness(self) -> Array:
        """The weights (q,) of the same functions in the end, times the variances of their means: see `_raked`."""
        used = np.bincount(self._smooth.factors[self._kept, :2].ravel(), minlength=len(self._functions))
        singles = np.repeat(np.maximum(used, 1), [functions.shape[1] for functions in self._functions])
        return np.concatenate([singles, np.ones(int(self._kept.sum()), dtype=np.int64)])


@njit(cache=True, nogil=True)
def _exchanged(values: Array, picked: NDArray[np.int64], missing: Array, along: Array, lengths: Array,
               tried: NDArray[np.int64]) -> None:
    """Replace picked rows (count,) by others in place, where this brings their means nearer to the wanted ones.

    ``missing`` (q,) are the wanted means of ``values`` (m, q) minus those of the picked rows; ``tried`` (t, 2) are
    places and rows. ``along`` (m,) are the products of each row's values with ``missing`` before the first exchange,
    and ``lengths`` (m,) the products of each row's values with themselves. These two numbers show for most pairs that
    they are of no use, without a look at their values.
    """
    count, q = len(picked), values.shape[1]
    for t in range(len(tried)):
        place, other = tried[t, 0], tried[t, 1]
        own = picked[place]
        if 4.0 * count * (along[other] - along[own]) <= lengths[other] + lengths[own]:
            continue
        gain = 0.0
        for k in range(q):
            change = (values[other, k] - values[own, k]) / count
            gain += change * (2.0 * missing[k] - change)
        if gain > 0.0:
            picked[place] = other
            for k in range(q):
                missing[k] -= (values[other, k] - values[own, k]) / count


def tilted(mass: Array, values: Array, moments: Array, loose: ArrayLike = 0.0) -> Array:
    """Return the probabilities (size,) nearest to the given ones that have these means (q,) of functions (size, q).

    They are proportional to mass * exp(values @ theta), by Newton's method on the dual. Means that no probabilities
    have are met as well as a theta of moderate size allows, those with a small variance ``loose`` (q,) best.
    """
    stiff = STIFF + np.broadcast_to(np.asarray(loose, dtype=np.float64), moments.shape)
    theta, total = np.zeros(values.shape[1]), max(float(mass.sum()), np.finfo(float).tiny)
    moments = np.clip(moments, values.min(axis=0), values.max(axis=0))
    with np.errstate(divide="ignore"):
        log = np.log(mass / total)

    def made(theta: Array) -> tuple[Array, float]:
        exponent = log + values @ theta
        top = float(exponent.max())
        raised = np.exp(exponent - top)
        whole = float(raised.sum())
        held = float(theta @ moments) - 0.5 * float(theta @ (stiff * theta))
        return raised / whole, top + float(np.log(whole)) - held

    p, value = made(theta)
    for _ in range(NEWTON):
        mean = p @ values
        slope = mean - moments + stiff * theta
        curvature = (values * p[:, None]).T @ values - np.outer(mean, mean) + np.diag(stiff)
        step, size = np.linalg.solve(curvature, slope), 1.0
        if float(slope @ step) < 1e-12:
            break
        while size > 1e-6:
            trial, further = made(theta - size * step)
            if further <= value - 0.25 * size * float(slope @ step):
                break
            size *= 0.5
        else:
            break
        theta, p, value = theta - size * step, trial, further
    return p
