"""Plausible private tables, made from a release: each is a possible truth, for error bars.

Each is drawn anew. Its numbers are drawn from the posterior of their densities. Its categories have the released
frequencies without bias, with noise of the released scale. Its tables and products are the fitted targets plus a normal
deviation, because shrinkage leaves the truth open: by Tweedie's formula the posterior variance is that of the noise
times the derivative of the shrunken value. Nothing was measured within cells, so dependence there continues the
dependence between them. Products of contrasts tell few cells, so finer cells depend on each other by chance, too.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
from scipy.optimize import isotonic_regression
from scipy.special import ndtri

from trigmech._arrays import Array, Codes
from trigmech.functions.partition import Partition, all_codes
from trigmech.functions.ranks import ranks
from trigmech.functions.released_column import SLACK, ReleasedColumn
from trigmech.measurement.released import Release
from trigmech.planning.dependence import cells_of
from trigmech.queries.base import Measurement
from trigmech.queries.joint import Marginal
from trigmech.queries.one_way import Detail, Look
from trigmech.reconstruction.columns import drawn_column, priors_of
from trigmech.reconstruction.constrained import kept
from trigmech.reconstruction.densities import Prior
from trigmech.reconstruction.dependence import centred, shrunk_table
from trigmech.reconstruction.ends import with_ends
from trigmech.reconstruction.frequencies import nearest_probabilities
from trigmech.reconstruction.tables import Targets, cells_of_columns, independent, products_kept, reconstruct_table

# For the derivative: random directions, and the step in units of the noise.
DIRECTIONS, STEP = 4, 0.05
# Noise may hide so much dependence, in standard deviations of the mean square of noise alone.
HIDDEN = 0.5
# Where in an interval the rows are is not known: at u^g of it for even u, the logarithm of g of this deviation.
UNEVEN = 0.7
# Cells of a column beside contrasts, and the dependence that contrasts do not show: the root of its mean square.
FINE_CELLS, UNSEEN = 6, 0.7
# Larger than any frequency, but small enough that its square does not overflow.
LARGEST = 1e60
# A regression of scores on one another adds this to each mean square.
RIDGE = 1e-3


class PlausibleTables:
    """Draws tables as the private one may be.

    Privacy: post-processing. Cost: five shrunken versions of each table and product once; a fit for each draw.
    """

    def __init__(self, release: Release, rng: np.random.Generator) -> None:
        # An atom that noise may hide at the end of a number is a position of its own.
        self._release = release = with_ends(release)
        self._priors = priors_of([release.look_at(j) for j in range(len(release.columns))])
        targets, (tables, products) = Targets(release), independent(release)
        # Tables that contrasts tell are not measured.
        self._kept = [pair.table - own for pair, own in zip(targets.pairs, tables, strict=False)]
        self._deviations = [
            np.where(pair.table > 0.0, pair.deviation, 0.0) if pair.sparse else
            _left_open(partial(shrunk_table, noise=table.deviation), table.means - own, table.deviation, centred, rng)
            for pair, table, own in zip(targets.pairs, release.tables, tables, strict=False)]
        self._kept_products, self._product_deviation = targets.products - products, 0.0
        if release.products is not None:
            noise = release.products.deviation
            shrink = partial(products_kept, release.products, release.columns)
            self._product_deviation = _left_open(shrink, release.products.means - products, noise, np.asarray, rng)

    def draw(self, count: int, rng: np.random.Generator, at: Array | None = None) -> Array:
        """Return the points (count, D) of one plausible table.

        at (d, 2): Even numbers that draw the atoms that noise may hide at the ends of numbers.
        """
        release = self._release
        columns = tuple(plausible_column(column, release.look_at(j), [each for each in release.closer
                                                                if each.query.columns == (j,)], rng, prior,
                                         at=None if at is None else at[j])
                        for j, (column, prior) in enumerate(zip(release.columns, self._priors, strict=True)))
        release = replace(release, columns=columns)
        tables, products = independent(release)
        drawn = [np.clip(own + shift + centred(rng.normal(0.0, deviation, own.shape)), 0.0, 1.0)
                 for own, shift, deviation in zip(tables, self._kept, self._deviations, strict=True)]
        products = np.clip(products + self._kept_products + rng.normal(0.0, self._product_deviation, products.shape),
                           -1.0, 1.0)
        # Tables of three columns get noise once more, before shrinkage.
        made = [*(replace(each, weight=1.0, noise=each.deviation, values=table.ravel())
                  for each, table in zip(release.tables, drawn, strict=True)),
                *([] if release.products is None else [replace(release.products, values=products)]),
                *(replace(each, weight=1.0, noise=each.deviation,
                          values=(each.means + rng.normal(0.0, each.deviation, each.means.shape)).ravel())
                  for each in release.triples)]
        release = replace(release, measurements=(*release.looks, *release.closer, *made))
        if release.products is not None and release.products.query.tells_tables:
            release = in_finer_cells(release, rng)
        points = reconstruct_table(release, count, rng, shrunk=False).points
        codes = all_codes([column.partition for column in columns], points)
        for column, own in zip(columns, codes.T, strict=True):
            bend = np.exp(rng.normal(0.0, UNEVEN, column.partition.size))
            column.partition.place(own, rng.random(count) ** bend[own], points)
        _go_on_within_cells(points, codes, release, rng)
        return points if release.schema is None else kept(release.schema, points, rng)


def in_finer_cells(release: Release, rng: np.random.Generator) -> Release:
    """Return a release with tables in finer cells in place of products of contrasts, which tell few cells.

    Each table continues the dependence between the contrasts' cells, and it has a random one that these do not show: in
    each cell a normal deviation, such that the mean-square contingency is UNSEEN^2 on average.
    """
    cells = [cells_of(column, FINE_CELLS, 0.5 / FINE_CELLS, FINE_CELLS) for column in release.columns]
    found = []
    for pair in Targets(release, shrunk=False).pairs:
        columns, maps, within = [release.columns[j] for j in pair.columns], [], []
        for wide, own in zip(pair.maps, (cells[j] for j in pair.columns), strict=True):
            # Each finer cell lies in one of the contrasts'.
            fine = np.unique(wide * (own.max() + 1) + own, return_inverse=True)[1].ravel().astype(np.int64)
            maps.append(fine)
            within.append(np.zeros(fine.max() + 1, dtype=np.int64))
            within[-1][fine] = wide
        (p, q), broad = ([np.bincount(each, column.mass) for each, column in zip(own, columns, strict=True)]
                        for own in (maps, pair.maps))
        alone, even = np.outer(p, q), np.maximum(np.outer(*broad), np.finfo(float).tiny)
        hidden = rng.normal(0.0, UNSEEN, alone.shape) * np.sqrt(alone / alone.size)
        hidden -= np.outer(hidden.sum(axis=1), q) + np.outer(p, hidden.sum(axis=0)) - hidden.sum() * alone
        # Contrasts do show the sums over their own cells.
        sums = np.zeros(even.shape)
        np.add.at(sums, np.ix_(*within), hidden)
        hidden -= alone * (sums / even)[np.ix_(*within)]
        query = Marginal(pair.columns, (columns[0].partition, columns[1].partition), (maps[0], maps[1]))
        # In each finer cell there is a part of the noise in a cell of the contrasts.
        noise = float(np.mean(pair.deviation)) * math.sqrt(even.size / alone.size)
        # Large noise must not make an empty cell's ratio infinite.
        table = np.clip(alone * (np.clip(pair.table, 0.0, 1.0) / even)[np.ix_(*within)] + hidden, 0.0, 1.0)
        found.append(Measurement(query, values=table.ravel(), noise=noise))
    return replace(release, measurements=(*release.looks, *release.closer, *found, *release.triples))


def _left_open(shrink: Callable[[Array], Array], deviation: Array, noise: float, project: Callable[[Array], Array],
               rng: np.random.Generator) -> float:
    """Return the standard deviation that is left of the noise in an entry when deviations are known as shrunken."""
    base, directions = shrink(deviation), [project(rng.normal(size=deviation.shape)) for _ in range(DIRECTIONS)]
    size = sum(float((each**2).sum()) for each in directions)
    if not size > 0.0:
        return 0.0
    step = STEP * noise
    slope = sum(float(((shrink(deviation + step * each) - base) * each).sum()) for each in directions) / (step * size)
    hidden = HIDDEN * np.sqrt(2.0 * DIRECTIONS / size)
    return min(noise, LARGEST) * float(np.sqrt(np.clip(slope + hidden, 0.0, 1.0)))


def plausible_column(column: ReleasedColumn, look: Measurement[Look] | None, closer: list[Measurement[Detail]],
                     rng: np.random.Generator, prior: Prior | None = None, *, smooth: bool = True,
                     at: Array | None = None) -> ReleasedColumn:
    """Return a column as it may truly be.

    prior: That of its density.
    at (2,): Even numbers that draw the atoms that noise may hide at its ends.
    smooth: Whether numbers are drawn from the posterior of densities. If not, they have their released frequencies
      without bias, with as much noise once more, unless they were measured by signs.
    """
    if look is None:
        # It is known from tables, or not at all: then nearly all rows may be at one of its positions.
        size = len(column.mass)
        return column if column.deviation < 1.0 else replace(column, mass=rng.dirichlet(np.full(size, 1.0 / size)))
    partition, held, rest, below = _redrawn(look, rng, prior, smooth, at)
    if partition.value is None:
        return replace(column, mass=held)
    edges, under = partition.edges, np.concatenate([[0.0], below[:-1], [rest]])
    for each in closer:
        if any(each.query.divides(other.query) for other in closer):
            # It tells values that many rows share, which the released column has, and nothing else.
            continue
        own = each.query.edges
        low, high = np.interp(own[[0, -1]], edges, under)
        noisy = (np.clip(each.known, -LARGEST, LARGEST)
                 + rng.normal(0.0, min(each.deviation, LARGEST), len(each.known)))
        inside = np.minimum(low + np.cumsum(nearest_probabilities(noisy, high - low))[:-1], high)
        before, after = edges <= own[0], edges >= own[-1]
        edges = np.concatenate([edges[before], own[1:-1], edges[after]])
        under = np.concatenate([under[before], inside, under[after]])
    # Between measured thresholds rows lie as in the released density; the second term tells empty positions apart.
    own = column.partition.edges
    below = np.concatenate([[0.0], np.cumsum(column.mass[len(held) :])]) + SLACK * (own + 1.0)
    made = np.maximum(np.diff(np.interp(below, np.interp(edges, own, below), under)), 0.0)
    return replace(column, mass=np.concatenate([held, made]))


def _redrawn(look: Measurement[Look], rng: np.random.Generator, prior: Prior | None, smooth: bool,
             at: Array | None) -> tuple[Partition, Array, float, Array]:
    """Return positions, drawn shares of the indicators, that of the rest, and shares (c,) up to each interval's end.

    Signs leave much open, so a draw from the posterior always takes the place of noise.
    """
    query, known = look.query, np.clip(look.known, -LARGEST, LARGEST)
    partition, k = query.partition, len(query.partition.indicators)
    if not query.tells_frequencies or (smooth and partition.value is not None and query.encoding != "map"):
        made = drawn_column(look, prior, rng, at)
        return made.partition, made.mass[:k], float(made.mass[k:].sum()), np.cumsum(made.mass[k:])
    again = replace(look, values=known + rng.normal(0.0, min(look.deviation, LARGEST), len(known)))
    mass = nearest_probabilities(again.means)
    if partition.value is None:
        return partition, mass, 0.0, np.empty(0)
    if query.encoding == "sums":
        # Each prefix sum is known as well as the noise allows, the single frequencies are not.
        held = np.clip(again.means[:k], 0.0, 1.0)
        held /= max(1.0, float(held.sum()))
        rest = 1.0 - float(held.sum())
        return partition, held, rest, np.clip(isotonic_regression(np.cumsum(again.means[k:])).x, 0.0, rest)
    return partition, mass[:k], float(mass[k:].sum()), np.cumsum(mass[k:])


def _go_on_within_cells(points: Array, codes: Codes, release: Release, rng: np.random.Generator) -> None:
    """Exchange the numbers of rows of the same cell, in place, so that they depend on each other as the cells do.

    Column by column each row has a key, its regression on the normal scores of the other columns and a normal residual,
    and a cell's numbers are put in the order of the keys: columns and tables stay as they are.
    """
    partitions, cells = [column.partition for column in release.columns], cells_of_columns(release)
    numbers = [j for j, partition in enumerate(partitions) if partition.value is not None and partition.intervals > 1]
    numbers = [j for j in numbers if j in cells]
    if len(numbers) < 2:
        return
    free = [np.flatnonzero(codes[:, j] >= len(partitions[j].indicators)) for j in numbers]
    values = [points[held, partitions[j].value] for j, held in zip(numbers, free, strict=True)]
    scores = np.zeros((len(points), len(numbers)))
    for i, (held, own) in enumerate(zip(free, values, strict=True)):
        scores[held, i] = _normal_scores(own)
    for i in rng.permutation(len(numbers)):
        held, own = free[i], values[i]
        if len(held) < 2:
            continue
        others, cell = np.delete(scores[held], i, axis=1), cells[numbers[i]][codes[held, numbers[i]]]
        gram = others.T @ others + RIDGE * len(held) * np.eye(len(numbers) - 1)
        predicted = others @ np.linalg.solve(gram, others.T @ scores[held, i])
        keys = predicted + rng.normal(0.0, np.std(scores[held, i] - predicted), len(held))
        exchanged = np.empty(len(held))
        exchanged[np.lexsort((keys, cell))] = own[np.lexsort((own, cell))]
        points[held, partitions[numbers[i]].value] = exchanged
        scores[held, i] = _normal_scores(exchanged)


def _normal_scores(values: Array) -> Array:
    return ndtri((ranks(values) - 0.5) / max(len(values), 1))
