"""The causes of a release's errors, in numbers: for each column, each pair and each correlation. Public.

Each number has the size of one cause of error: noise, cells that are coarser than the compared ones, and the chance of
few rows. :mod:`trigmech.evaluation.forecast` adds them with weights that were found by experiment.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trigmech._arrays import Array, Integers
from trigmech.evaluation.measures import column_scores, correlation_differences, group_differences, pair_scores
from trigmech.evaluation.plausible import plausible_column
from trigmech.evaluation.sides import Coding, Side, unit_of
from trigmech.functions.partition import all_codes
from trigmech.measurement.released import Release
from trigmech.reconstruction.columns import expected_error, priors_of
from trigmech.reconstruction.densities import Prior
from trigmech.reconstruction.estimates import estimate_at, estimate_of
from trigmech.reconstruction.pairs import Pair, predicted
from trigmech.reconstruction.sparse import TableEstimate
from trigmech.reconstruction.tables import Targets, copula_of, independent

DRAWS, SEED = 12, 2014
# Columns of many categories are wrong by so many times the expected error, which takes their estimated prior for the
# true one: the geometric mean over 21 public columns and noise of .0003 to .3 is 1.12.
OF_MANY = 1.15
# How strong a dependence usually is of which a release shows nothing: a correlation, and the total variation of a table
# from that of independent columns. No error that noise makes is expected to be larger.
USUAL = 0.35
# A table is moved by this part of its noise, so many times, to see how much of the noise its shrinkage keeps.
STEP, PROBES = 0.3, 2
# The most tables that are looked at for this, chosen at random: others would change the part of the noise that is left
# by about a tenth.
MOST_TABLES = 1_000
# A dependence below it is one of rounding errors.
ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class Causes:
    """Sizes of the causes of errors, of d columns and their d (d - 1) / 2 pairs; public.

    columns (d, 4): The causes of a column's error: noise, rows within one interval, how much it stands out, chance.
    pairs (pairs, 5): The causes of a pair's error: dependence that noise may hide, noise in the cells that a dependence
      fills, dependence within cells, noise of both columns, chance.
    correlations (c, 4): The causes of the error of two numbers' correlation: noise, the correlation itself, the spread
      of both columns, chance. ``places`` are the pairs of columns that have one.
    strengths (pairs,): How strongly both columns depend on each other, as released; ``above``: whether this is more
      than noise explains.
    groups (2 t,): For each table, both ways: the noise in the mean of one column over the rows of a group of the other,
      in standard deviations, times the group's part of all rows.
    groups_chance: The mean error of means over groups that chance makes, in standard deviations; 0 without groups of
      100 rows.
    left (pairs,): How much of each table of two columns the noise and its shrinkage leave wrong, in the compared cells
      (:func:`left_wrong`); 0 of pairs without a table.
    """

    columns: Array
    pairs: Array
    correlations: Array
    numeric: NDArray[np.bool_]
    places: list[tuple[int, int]]
    strengths: Array
    above: NDArray[np.bool_]
    groups: Array
    groups_chance: float
    left: Array

    @property
    def hidden(self) -> Array:
        """How large a dependence noise hides in each pair."""
        return np.asarray(self.pairs[:, 0])


def causes_of(release: Release, coding: Coding, rows: Side, points: Array, compared: int) -> Causes:
    """Return the sizes of the causes of errors of a release.

    Privacy: post-processing. Random numbers have a fixed seed. Cost: pairs times rows, and a shrinkage of each table.
    """
    rng = np.random.default_rng(SEED)
    again = rows.rows(rng.integers(0, len(rows.values), len(rows.values)))
    chance = math.sqrt(len(rows.values) / compared)
    noise, within, peak, spread = np.array([_of_column(release, j, prior, rng)
                                              for j, prior in enumerate(_priors_of_draws(release))]).T
    columns = np.column_stack([noise, within, peak, chance * (1.0 - column_scores(coding, rows, again))])
    pairs, strengths, above, targets = _of_pairs(release, coding, noise)
    fresh = chance * (1.0 - pair_scores(coding, rows, again)) if len(coding.columns) > 1 else np.empty(0)
    correlations, places = _of_correlations(release, targets, coding, rows, points, spread)
    usual = chance * correlation_differences(coding, rows, again)[0]
    means = group_differences(coding, rows, again)
    return Causes(columns, np.column_stack([pairs, fresh]), np.column_stack([correlations, usual]),
                  np.array([column.categories is None for column in coding.columns]), places, strengths, above,
                  _of_groups(release, targets, rows, points), chance * float(means.mean()) if len(means) else 0.0,
                  _left(release, coding, rng))


def mean_causes(found: Sequence[Causes]) -> Causes:
    """Return the mean of the causes of several releases of the same public rows; groups are those of all releases."""
    def mean(of: Callable[[Causes], NDArray[Any]]) -> Array:
        return np.asarray(np.mean([of(each) for each in found], axis=0), dtype=float)

    return replace(found[0], columns=mean(lambda each: each.columns), pairs=mean(lambda each: each.pairs),
                   correlations=mean(lambda each: each.correlations), strengths=mean(lambda each: each.strengths),
                   above=mean(lambda each: each.above) > 0.5, groups=np.concatenate([each.groups for each in found]),
                   left=mean(lambda each: each.left))


def _priors_of_draws(release: Release) -> list[Prior | None]:
    """Return the prior of each column's density for draws that do not suppose that densities are smooth.

    Only those of signs use a prior. It comes from the densities of all columns, which take long. So these are left out
    if no column was measured by signs.
    """
    looks = [release.look_at(j) for j in range(len(release.columns))]
    signs = any(look is not None and not look.query.tells_frequencies for look in looks)
    return priors_of(looks) if signs else [None] * len(looks)


def _of_column(release: Release, j: int, prior: Prior | None, rng: np.random.Generator) -> tuple[float, ...]:
    """Return the error that noise makes, the largest share of rows within one interval, by how much the share of one
    is above those of its neighbours, and the error of the spread."""
    column, look = release.columns[j], release.look_at(j)
    of_many = None if look is None else expected_error(look)
    if of_many is not None:
        return min(OF_MANY * of_many, 1.0), 0.0, 0.0, 0.0
    partition, k = column.partition, len(column.partition.indicators)
    closer = [each for each in release.closer if each.query.columns == (j,)]
    drawn = np.array([plausible_column(column, look, closer, rng, prior, smooth=False).mass for _ in range(DRAWS)])
    if look is None and column.deviation < 1.0:
        drawn = np.maximum(column.mass + rng.normal(0.0, min(column.deviation, 1.0), drawn.shape), 0.0)
        drawn /= np.maximum(drawn.sum(axis=1, keepdims=True), np.finfo(float).tiny)
    if release.schema is None or release.schema.columns[j].categories is not None:
        return float(np.abs(drawn - column.mass).sum(axis=1).mean()) / 2.0, 0.0, 0.0, 0.0
    total = max(float(column.mass[k:].sum()), np.finfo(float).tiny)
    own, others = column.mass[k:] / total, drawn[:, k:] / np.maximum(drawn[:, k:].sum(axis=1, keepdims=True), 1e-12)
    error = float(np.abs(np.cumsum(others - own, axis=1)).max(axis=1).mean())
    many = np.ones(partition.intervals, dtype=bool)
    if partition.levels is not None:
        many = np.diff(partition.first_levels) > 1
    centres = partition.centres
    spreads = [math.sqrt(max(float(mass @ centres**2 - (mass @ centres) ** 2), 1e-18)) for mass in (own, *others)]
    around = np.pad(own, 1)
    peak = ((own - 0.5 * (around[2:] + around[:-2])) * many).max(initial=0.0)
    changes = np.abs(np.log(np.array(spreads[1:]) / spreads[0]))
    return error, float((own * many).max(initial=0.0)), float(peak), float(changes.mean())


def _of_pairs(release: Release, coding: Coding, noise: Array) -> tuple[Array, Array, NDArray[np.bool_], dict]:
    targets = Targets(release)
    held: dict[tuple[int, int], Pair] = {pair.columns: pair for pair in targets.pairs}
    sizes = coding.sizes - 1.0
    found, strengths, above = [], [], []
    for j, h in itertools.combinations(range(len(release.columns)), 2):
        pair = held.get((j, h))
        if pair is None:
            found.append((USUAL, 0.0, 0.0, noise[j] + noise[h]))
            strengths.append(0.0)
            above.append(False)
            continue
        table = pair.table
        a, b = table.shape
        each = math.sqrt(2.0 / math.pi) / 2.0 * np.broadcast_to(np.minimum(pair.deviation, 1.0), table.shape)
        # One cell shows nothing.
        left = float(each.mean()) * math.sqrt(a * b * (a + b)) if min(a, b) > 1 else math.inf
        strength = min(float(np.abs(table - np.outer(table.sum(axis=1), table.sum(axis=0))).sum()) / 2.0, 1.0)
        strength = 0.0 if strength < ROUNDING else strength
        coarse = 1.0 - min(1.0, a / sizes[j]) * min(1.0, b / sizes[h])
        # Noise cannot lower a frequency by more than itself.
        filled = min(float(np.minimum(2.0 * each, np.maximum(table, 0.0)).sum()) / 2.0, 1.0)
        found.append((float(hidden(left)), math.sqrt(strength * filled), strength * coarse, noise[j] + noise[h]))
        strengths.append(strength)
        above.append(strength > left)
    return np.array(found).reshape(-1, 4), np.array(strengths), np.array(above, dtype=bool), held


def _left(release: Release, coding: Coding, rng: np.random.Generator) -> Array:
    """Return the total variation (d (d - 1) / 2,) by which the tables of two columns are wrong, in the compared cells.

    The part of the noise that is left is estimated from many tables together, because that of a single table is noisy.
    """
    tables, expected, copula = release.tables, independent(release)[0], copula_of(release)
    chosen = list(range(len(tables)))
    if len(tables) > MOST_TABLES:
        chosen = np.sort(rng.choice(len(tables), MOST_TABLES, replace=False)).tolist()
    sizes = [float(tables[t].means.size * tables[t].deviation**2) for t in chosen]
    if not sum(sizes) > 0.0:
        return np.zeros(math.comb(len(release.columns), 2))
    wrong = 0.0
    for t in chosen:
        each, prediction = tables[t], predicted(tables[t], expected[t], copula)
        wrong += left_wrong(each.means, estimate_of(each, prediction).table, partial(
            estimate_at, each.query, expected=prediction, noise=each.deviation), each.deviation, rng)
    part = math.sqrt(max(wrong, 0.0) / sum(sizes))
    held: dict[tuple[int, ...], float] = {}
    for each in tables:
        j, h = each.query.columns
        cells = min(float(each.means.size), float(coding.sizes[j] - 1) * float(coding.sizes[h] - 1))
        held[j, h] = math.sqrt(2.0 / math.pi) / 2.0 * part * each.deviation * math.sqrt(each.means.size * cells)
    return np.array([held.get(pair, 0.0) for pair in itertools.combinations(range(len(release.columns)), 2)])


def left_wrong(table: Array, made: Array, estimate: Callable[[Array], TableEstimate], deviation: float,
               rng: np.random.Generator) -> float:
    """Return an estimate of the squared distance between an estimated table and the true one; it can be below 0.

    ``made`` is the ``estimate`` of the released ``table`` (a, b), which has normal noise. Source: Stein, "Estimation of
    the mean of a multivariate normal distribution", 1981; the divergence is by random differences, as of Ramani, Blu
    and Unser, "Monte-Carlo SURE", 2008.
    """
    slopes, step = [], STEP * deviation
    for _ in range(PROBES):
        probe = rng.normal(size=table.shape)
        slopes.append(float((probe * (estimate(table + step * probe).table - made)).sum()) / step)
    return float(((made - table) ** 2).sum()) + deviation**2 * (2.0 * float(np.mean(slopes)) - table.size)


def _of_correlations(release: Release, held: dict[tuple[int, int], Pair], coding: Coding, rows: Side, points: Array,
                     spread: Array) -> tuple[Array, list[tuple[int, int]]]:
    numbers = [j for j, column in enumerate(coding.columns) if column.kind != "categorical"]
    places = list(itertools.combinations(numbers, 2))
    codes = all_codes([column.partition for column in release.columns], points)
    ranked = min((each.deviation * each.query.correlation_noise for each in release.known
                  if math.isfinite(each.query.correlation_noise)), default=math.inf)
    standard = {j: _standardised(rows.values[:, j]) for j in numbers}
    found = []
    for j, h in places:
        pair = held.get((j, h))
        both = standard[j] * standard[h]
        correlation = float(np.nanmean(both)) if np.isfinite(both).any() else 0.0
        if pair is None:
            found.append((hidden(ranked), abs(correlation), abs(correlation) * (spread[j] + spread[h])))
            continue
        first, second = (_means(standard[c], cells[codes[:, c]], size) for c, cells, size in zip(
            (j, h), pair.maps, pair.table.shape, strict=True))
        noise = float(np.max(pair.deviation)) * math.sqrt(float((first**2).sum() * (second**2).sum()))
        noise = max(noise, 1e-12) if min(len(first), len(second)) > 1 else math.inf
        found.append((hidden(1.0 / max(math.hypot(1.0 / noise, 1.0 / ranked), 1e-12)), abs(correlation),
                      abs(correlation) * (spread[j] + spread[h])))
    return np.array(found).reshape(-1, 3), places


def _of_groups(release: Release, held: dict[tuple[int, int], Pair], rows: Side, points: Array) -> Array:
    """Return the noise in the mean of a column over the rows of a group, times the group's part of all rows."""
    codes = all_codes([column.partition for column in release.columns], points)
    # Without squares, which overflow for columns of very large numbers.
    found = [math.inf if min(pair.table.shape) < 2 else float(np.max(pair.deviation)) * math.hypot(
        *_means(rows.outcomes[:, c], cells[codes[:, c]], size).tolist())
        for columns, pair in held.items() for c, cells, size in zip(columns, pair.maps, pair.table.shape, strict=True)]
    return np.array(found)


def hidden(noise: float | Array) -> Any:
    """Return about how large a dependence is that noise of this size hides; infinite noise hides all."""
    return USUAL / np.hypot(1.0, USUAL / np.maximum(noise, 1e-12))


def _standardised(values: Array) -> Array:
    values = values / unit_of(values)
    known = values[~np.isnan(values)]
    deviation = float(known.std()) if len(known) else 0.0
    return (values - (known.mean() if len(known) else 0.0)) / (deviation if deviation > 0.0 else 1.0)


def _means(values: Array, cells: Integers, size: int) -> Array:
    """Return the mean (size,) of each cell."""
    known = ~np.isnan(values)
    count = np.bincount(cells[known], minlength=size)
    found: Array = np.bincount(cells[known], values[known], minlength=size) / np.maximum(count, 1)
    return found
