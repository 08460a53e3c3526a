"""Checks of the rounds of custom mechanisms: queries that no file could hold cost nothing, or their round alone."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from trigmech._arrays import Array
from trigmech._validate import finite, is_integer, is_number
from trigmech.domain import Domain
from trigmech.errors import InputError, shown
from trigmech.functions.partition import columns_of
from trigmech.planning.tables import MOST_ENTRIES
from trigmech.queries.base import Measurement, Query

# A query of somebody's own is tried at this many points; its values may differ by rounding.
TRIED, ROUNDED_APART = 64, 1e-9
# The most numbers that a choice counts in all of its tables, that are released in all rounds, and that a histogram has
# as intervals: time and memory grow with the square of these.
MOST_COUNTED, MOST_RELEASED, MOST_INTERVALS = 2**24, 2**20, 2**12
# The most that the highest degrees of all coordinates are together.
MOST_DEGREES = 2**20
# Noise is at most this many times smaller or larger in one number of a round than in the whole round.
MOST_APART = 1e40


def check_sizes(asked: Sequence[Measurement[Query]], chooses: bool, before: int) -> None:
    """Raise an InputError if memory or files might not hold a round's numbers, or a choice's tables are too large.

    before: How many numbers the earlier rounds released.
    """
    sizes = [max(math.prod(map(int, each.query.shape)), 0) for each in asked]
    # The charge of a choice has room for the rounding of so many cells.
    if chooses and (max(sizes, default=0) > MOST_ENTRIES or sum(sizes) > MOST_COUNTED):
        raise InputError(f"a Select round can choose from tables of at most {MOST_ENTRIES:,} cells each and "
                         f"{MOST_COUNTED:,} together, not of {max(sizes):,} and {sum(sizes):,}")
    if not chooses and before + sum(sizes) > MOST_RELEASED:
        raise InputError(f"all rounds together can measure at most {MOST_RELEASED:,} numbers, not "
                         f"{before + sum(sizes):,}; take smaller tables, or fewer")
    for each in asked:
        intervals = getattr(getattr(each.query, "partition", None), "intervals", 0)
        if intervals > MOST_INTERVALS:
            raise InputError(f"a histogram can have at most {MOST_INTERVALS:,} intervals, not {intervals:,}")
        features = each.query.of_set[0] if each.query.of_set else None
        index = getattr(getattr(features, "basis", features), "index", None)
        degrees = 0 if index is None else int(index.max(axis=0, initial=0).sum())
        if degrees > MOST_DEGREES:
            raise InputError(f"the degrees of all columns can be at most {MOST_DEGREES:,} together, not {degrees:,}")


def evened(asked: Sequence[Measurement[Query]], norm: str) -> list[Measurement[Query]]:
    """Return the measurements with each weight divided by its query's diameter, and the largest of them 1."""
    own = [each.weight / max(each.query.diameter(norm), 1e-300) for each in asked]
    largest = max(own, default=1.0)
    if not (0.0 < largest < math.inf and min(own, default=1.0) >= largest / MOST_APART):
        raise InputError(f"the weights of a round's measurements must be within a factor of {MOST_APART:g}, and not "
                         "near the limits of floats")
    return [replace(each, weight=weight / largest) for each, weight in zip(asked, own, strict=True)]


def check_weights(asked: Sequence[Measurement[Query]]) -> None:
    """Raise an InputError if the noise of a number would be so large or so small that files do not hold it."""
    for each in asked:
        apart = np.concatenate([[each.weight], each.query.deviations(1.0 / each.weight)])
        if not ((apart >= 1.0 / MOST_APART) & (apart <= MOST_APART)).all():
            raise InputError(f"the noise of one number of a round may be at most {MOST_APART:g} times that of another")


def check_query_of_own(query: Query, domain: Domain) -> None:
    """Raise an InputError if a query of somebody's own breaks a rule of queries at some points.

    Otherwise the fault would be found after the budget is spent: in a later round, in the report, or in a file. A
    query's values at a point must not depend on other points, because then one replaced row would move all values.
    """
    try:
        _check_values(query, _tried(domain))
        _check_described(query, domain)
    except InputError:
        raise
    except Exception as problem:
        raise InputError(f"a query of the kind {query.kind!r} raises {type(problem).__name__}: {problem}") from problem


def _check_values(query: Query, points: Array) -> None:
    count, what = int(np.prod(query.shape)), "a query's values"
    among = np.asarray(query.evaluate(points.copy()))
    if among.shape != (TRIED, count):
        raise InputError(f"a query's evaluate must return {count} values for each point: at {TRIED} points the shape "
                         f"({TRIED}, {count}), not {among.shape}")
    among = finite(what, among, TRIED, count).astype(np.float64)
    alone = np.concatenate([finite(what, query.evaluate(points[i : i + 1].copy()), 1, count) for i in range(TRIED)])
    # Libraries add the terms of a product of matrices in another order if there are more rows.
    if not (np.abs(among - alone) <= ROUNDED_APART).all():
        raise InputError(f"{what} at a point must not depend on other points")
    # Not even by rounding: the sensitivity has no room for it.
    if not (np.abs(among) <= 1.0).all():
        raise InputError(f"{what} must lie in [-1, 1]")


def _check_described(query: Query, domain: Domain) -> None:
    """Check everything but the values: diameter, encoding, names and columns."""
    moves = [query.diameter(norm) for norm in ("L1", "L2", "Linf")]
    if not all(is_number(move) and 0.0 < move < np.inf for move in moves):
        raise InputError("a query's diameter must be above 0 in L1, L2 and Linf, not "
                         f"[{', '.join(map(shown, moves))}]")
    vector = query.encode(np.zeros(query.shape))
    if vector.shape != (query.size,) or query.decode(vector).shape != query.shape:
        raise InputError(f"a query's encode must return {query.size} numbers, and decode the shape {query.shape}")
    names, count = query.names([f"x{i}" for i in range(domain.d)]), int(np.prod(query.shape))
    if isinstance(names, str) or [isinstance(name, str) for name in names] != [True] * count:
        given = ", ".join(map(shown, names)) or "an empty list" if isinstance(names, list) else shown(names)
        raise InputError(f"a query's names must be a list of {count} texts, one for each mean, not {given}")
    places = len(columns_of(domain))
    if not all(is_integer(column, 0) and column < places for column in query.columns):
        raise InputError(f"a query's columns must be places from 0 to {places - 1}, not "
                         f"{', '.join(map(shown, query.columns))}")


def _tried(domain: Domain) -> Array:
    """Return points (TRIED, D) that rows can be: the middle, the ends and others, always the same."""
    inner, place = list(domain.numbers), np.arange(TRIED)
    points = np.zeros((TRIED, domain.d))
    # Multiples of irrational numbers: no two coordinates go together.
    points[:, inner] = np.outer(place, np.sqrt(np.arange(len(inner)) + 0.5)) % 2.0 - 1.0
    points[:4, inner] = np.array([0.0, 0.5, -1.0, 1.0])[:, None]
    for i, group in enumerate(domain.groups):
        if group.complete:
            points[place, np.array(group.coordinates)[(place // (i % 5 + 1)) % len(group.coordinates)]] = 1.0
    return points
