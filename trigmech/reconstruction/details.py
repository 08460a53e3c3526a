"""Details of a column: the counts in finer intervals of its heavy positions divide these positions."""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from trigmech._arrays import Array, Integers
from trigmech.functions.partition import Partition, between
from trigmech.functions.released_column import ReleasedColumn
from trigmech.planning.peaks import MOST_LEVELS, guessed
from trigmech.privacy.false_alarms import clear_of_noise
from trigmech.queries.base import Measurement
from trigmech.queries.one_way import Detail
from trigmech.reconstruction.columns import LEAST_REST, NEGLIGIBLE, Opened, opened_histogram
from trigmech.reconstruction.cuts import cut, joined
from trigmech.reconstruction.frequencies import LARGEST
from trigmech.reconstruction.pieces import PRICE, pieces, places_of

# A detail tells the mass of its position if its own noise, times this, is at most the mass by the look.
PRECISE = 4.0
# The price of a piece, and of a density of a few parts beside the guess, in variances of the noise: as where pieces
# compete with a smooth density.
EVIDENCE = 10.0
# The prior probability that an interval that stands out has a shared value, and the number of parts of the interval's
# rows that this value can have.
SHARED, SHARES = .2, 32


def with_details(column: ReleasedColumn, measured: Partition,
                 details: Sequence[Measurement[Detail]], among: int, guess: ReleasedColumn) -> ReleasedColumn:
    """Return a column whose positions are divided by details. ``measured`` are the intervals of its look.

    ``among`` is the number of finer intervals of all details of the release. ``guess`` is the column by its look alone.

    The details are of different positions, the last position first, so that no division moves the others.
    """
    if details:
        column = _shared(column, measured, details, among)
    for look in details:
        low, high = look.query.edges[[0, -1]]
        at = int(np.searchsorted(measured.edges, low))
        whole = measured.levels is not None and measured.edges[at] == low and measured.edges[at + 1] == high
        if any(look.query.divides(each.query) for each in details):
            continue
        if guessed(column, look):
            finest = next((each for each in details if each.query.divides(look.query)), look)
            column = with_parts(column, look, guess, _shared_values(finest, among))
            continue
        shape = _shape(guess, look.query.edges) if whole and look.query.size <= MOST_LEVELS else None
        column = looked_closer(column, look, among, shape)
    return column


def _shape(column: ReleasedColumn, edges: Array) -> Array:
    """Return the parts (f,) of the frequency between the first and the last edge that lie between two edges."""
    fine = cut(column, np.unique(np.concatenate([column.partition.edges, edges])))
    inside = np.searchsorted(edges, fine.partition.edges[:-1], side="right") - 1
    held = (inside >= 0) & (inside < len(edges) - 1)
    found = np.bincount(inside[held], fine.mass[len(fine.partition.indicators) :][held], len(edges) - 1)
    total = float(found.sum())
    return found / total if total > 0.0 else np.full(len(found), 1.0 / len(found))


def looked_closer(column: ReleasedColumn, look: Measurement[Detail], among: int,
                  shape: Array | None = None) -> ReleasedColumn:
    """Return a column's distribution in which a detail divides one position; ``among``: see :func:`with_details`.

    shape (f,): If the position is a whole interval of few levels, their parts of it by the look alone.
    """
    query = look.query
    interval, finer = query.interval, query.edges
    mass = float(column.mass[len(column.partition.indicators) + interval])
    ends, masses, clear = _pieces_of(look, among)
    width = np.diff(ends)
    held = float(masses[clear].sum())
    # The other pieces, which are not clearly above the noise, share the rest evenly.
    if held > 0.0 and (held >= mass or clear.all()):
        masses = np.where(clear, masses, 0.0) * (mass / held)
    else:
        masses = np.where(clear, masses, (mass - held) * width / width[~clear].sum())
    edges, made = places_of(finer, ends, np.repeat(masses / width, width))
    if shape is not None and look.law == "laplace":
        values = np.clip(look.known, -LARGEST, LARGEST)
        likely, surprise = with_a_shared_value(values, look.deviation, mass, shape)
        by_pieces = np.abs(values - np.repeat(masses / width, width)).sum() * (math.sqrt(2.0) / look.deviation)
        if not clear.any() or surprise < by_pieces + 0.5 * EVIDENCE * (len(width) - 1):
            edges, made = finer, likely
    return _divided(column, interval, edges, made)


def _divided(column: ReleasedColumn, interval: int, edges: Array, mass: Array) -> ReleasedColumn:
    """Return a column in which an interval is divided at the edges, with a mass for each of its parts."""
    own, at = column.partition.edges, len(column.partition.indicators) + interval
    finer = column.partition.cut(np.concatenate([own[: interval + 1], edges[1:], own[interval + 2 :]]))
    return replace(column, partition=finer, mass=np.concatenate([column.mass[:at], mass, column.mass[at + 1 :]]))


def with_parts(column: ReleasedColumn, look: Measurement[Detail], guess: ReleasedColumn,
               shared: tuple[Array, Array] | None = None) -> ReleasedColumn:
    """Return a column in which a few parts of a position were measured.

    The interval is like a column of its own, with a smooth density or pieces, whichever explains the parts better.
    This distribution and that of ``guess``, the column by its look alone, are averaged by how likely they are.

    shared ((s, 2), (s,)): Intervals with values that many rows share, and the masses of these, which are no part of the
      density.
    """
    query, k = look.query, len(column.partition.indicators)
    (low, high), mass = query.edges[[0, -1]], float(column.mass[k + query.interval])
    if mass <= LEAST_REST:
        return column
    edges, held = shared or (np.empty((0, 2)), np.empty(0))
    held = held * min(1.0, mass / max(float(held.sum()), LEAST_REST))
    rest = max(mass - float(held.sum()), LEAST_REST)
    places = np.searchsorted(query.edges[1:-1], edges.mean(axis=1), side="right")
    values = np.clip(look.known, -LARGEST, LARGEST) - np.bincount(places, held, query.size)
    opened = _opened(look, values / rest, min(look.deviation, LARGEST) / rest)
    made = opened.under(None)
    if query.partition.levels is None:
        ends = low + (high - low) * 0.5 * (made.partition.edges[1:-1] + 1.0)
    else:
        levels, first = query.partition.levels_in(query.interval), made.partition.first_levels[1:-1]
        ends = between(levels[first - 1], levels[first])
    found = _divided(column, query.interval, np.concatenate([[low], ends, [high]]), rest * made.mass)
    if opened.density is not None:
        away = (values - rest * _shape(guess, query.edges)) / min(look.deviation, LARGEST)
        surprise = float((np.clip(away, -1e140, 1e140) ** 2).sum())
        part = expit(0.5 * (min(opened.density.surprise, 1e300) + EVIDENCE - surprise))
        found = _mixed(found, guess, low, high, float(part))
    for own, rows in zip(edges, held.tolist(), strict=True):
        found = joined(found, *own.tolist())
        at = k + int(np.searchsorted(found.partition.edges[1:-1], own.mean(), side="right"))
        found = replace(found, mass=found.mass + rows * (np.arange(len(found.mass)) == at))
    return found


def _shared_values(finest: Measurement[Detail], among: int) -> tuple[Array, Array] | None:
    """Return the finest intervals (s, 2) of an interval that hold more than noise, and their masses (s,)."""
    if finest.query.by_parts:
        return None
    values, deviation = np.clip(finest.known, -LARGEST, LARGEST), min(finest.deviation, LARGEST)
    held = np.flatnonzero(clear_of_noise(finest.law, values / deviation, np.ones(len(values), dtype=np.int64), among))
    return np.column_stack([finest.query.edges[held], finest.query.edges[held + 1]]), values[held]


def _mixed(column: ReleasedColumn, guess: ReleasedColumn, low: float, high: float, part: float) -> ReleasedColumn:
    """Return a column with a part of the guess of its distribution between two numbers."""
    if part < NEGLIGIBLE:
        return column
    inside = guess.partition.edges[(guess.partition.edges > low) & (guess.partition.edges < high)]
    fine = cut(column, np.unique(np.concatenate([column.partition.edges, inside])))
    at = slice(*np.searchsorted(fine.partition.edges, [low, high]))
    mixed, k = fine.mass.copy(), len(fine.partition.indicators)
    own = mixed[k:][at]
    mixed[k:][at] = (1.0 - part) * own + part * own.sum() * _shape(guess, fine.partition.edges[at.start : at.stop + 1])
    return replace(fine, mass=mixed)


def _opened(look: Measurement[Detail], values: Array, deviation: float) -> Opened:
    """Return an interval of which parts were measured, as a column of its own, from the parts' shares (f,) of it."""
    query, (low, high) = look.query, look.query.edges[[0, -1]]
    levels = None if query.partition.levels is None else query.partition.levels_in(query.interval)

    def scaled(places: Array) -> Array:
        return np.clip(2.0 * (places - low) / (high - low) - 1.0, -1.0, 1.0)

    own = Partition((), query.partition.value, scaled(query.edges), None if levels is None else scaled(levels))
    return opened_histogram(own, values, deviation, False)


def with_a_shared_value(values: Array, deviation: float, total: float, shape: Array) -> tuple[Array, float]:
    """Return the posterior mean (m,) of levels' frequencies, from counts with Laplace noise, and their known total.

    Also return -log of the marginal likelihood without a constant: the mean absolute residual in scales of the noise.

    Either the levels have the parts ``shape`` (m,) of the total, or with the probability `SHARED` one of them, each
    with the same probability, has any part of the total more.
    """
    m, part = len(values), (np.arange(SHARES) + 0.5) / SHARES
    if not total > 0.0:
        return np.full(m, max(total, 0.0) / m), math.inf
    scale = max(deviation / math.sqrt(2.0), 1e-12 * total)
    rest = (1.0 - part) * (total * shape)[:, None]
    away = np.abs(values[:, None] - rest)
    # (levels, parts): the surprise if that level has the part more.
    surprise = (away.sum(axis=0) - away + np.abs(values[:, None] - rest - part * total)) / scale
    alone = float(np.abs(values - total * shape).sum()) / scale
    least = min(alone, float(surprise.min()))
    odds, usual = SHARED * np.exp(least - surprise) / (m * SHARES), (1.0 - SHARED) * math.exp(least - alone)
    # The total parts that the shape has, and that each level has more.
    kept, more = usual + (odds * (1.0 - part)).sum(), (odds * part).sum(axis=1)
    return np.asarray(total * (kept * shape + more) / (kept + more.sum())), least - math.log(usual + odds.sum())


def _shared(column: ReleasedColumn, measured: Partition,
            details: Sequence[Measurement[Detail]], among: int) -> ReleasedColumn:
    """Return a column whose positions share each interval of its look as the details of these positions show.

    Within an interval of the look, the masses of positions are those of a smooth density. If many rows have one value,
    its position holds more of the interval, and the others hold less. A position with few finer intervals gets the mass
    that its detail found; one with many gets at least its pieces that are clear of noise. All other mass of the
    interval keeps its proportions. The interval's mass remains.
    """
    k = len(column.partition.indicators)
    mass, own = column.mass[k:], measured.holding(column.partition)
    found, known = np.zeros(len(mass)), np.zeros(len(mass), dtype=np.bool_)
    for look in details:
        i = look.query.interval
        _, masses, clear = _pieces_of(look, among)
        known[i] = PRECISE * look.deviation * math.sqrt(look.query.size) <= mass[i]
        found[i] = max(float(masses.sum()), 0.0) if known[i] else float(masses[clear].sum())
    free = np.where(known, 0.0, mass)
    whole, told, left = (np.bincount(own, each) for each in (mass, found, free))
    tiny = np.finfo(float).tiny
    # If the details found more than the interval has, or nothing is left that could hold the rest, they are scaled.
    scaled = (told > 0.0) & ((told > whole) | (left <= 0.0))
    scale = np.where(scaled, whole / np.maximum(told, tiny), 1.0)
    rest = np.maximum(whole - told, 0.0) / np.maximum(left, tiny)
    changed = np.bincount(own, known | (found > 0.0)) * (np.bincount(own) > 1) * ((told > 0.0) | (left > 0.0)) > 0.0
    made = np.where(changed[own], scale[own] * found + np.where(scaled, 0.0, rest)[own] * free, mass)
    return replace(column, mass=np.concatenate([column.mass[:k], made]))


# Each detail is asked twice: for its position's mass, and to divide the position.
@lru_cache(maxsize=64)
def _ends(packed: bytes) -> Integers:
    """Return the ends of the pieces of equal density of a detail, from its counts in deviations of the noise."""
    return pieces(np.frombuffer(packed).copy(), PRICE)


def _pieces_of(look: Measurement[Detail], among: int) -> tuple[Integers, Array, NDArray[np.bool_]]:
    """Return the ends of pieces of equal density of a detail, their masses, and which are clearly above the noise.

    Without pieces that are, the interval is even.
    """
    values, deviation = np.clip(look.known, -LARGEST, LARGEST), min(look.deviation, LARGEST)
    ends = _ends(np.clip(values / deviation, -1e140, 1e140).tobytes())
    masses = np.add.reduceat(values, ends[:-1])
    width = np.diff(ends)
    return ends, masses, clear_of_noise(look.law, masses / (deviation * np.sqrt(width)), width, among)
