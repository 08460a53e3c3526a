"""Rows with given values or shares in some columns. The other columns follow their released conditional distribution.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trigmech._arrays import Array
from trigmech._validate import is_number
from trigmech.distribution import Distribution, systematic
from trigmech.errors import InputError, shown
from trigmech.measurement.released import Release
from trigmech.reconstruction.constrained import ConstrainedRows, keeps, witness
from trigmech.reconstruction.frequencies import nearest_probabilities
from trigmech.reconstruction.mixing import FurtherRows
from trigmech.reconstruction.tables import Targets, descended
from trigmech.schema.column import Column
from trigmech.schema.constraints import stated
from trigmech.schema.schema import Schema

Given = Mapping[str, Any]
Shares = Mapping[str, Mapping[Any, float]]

# A draw needs this effective number of matching fitted rows, or as many as are requested.
ENOUGH = 500
# The rounds of proportional fitting; and the weight of an independent table, which is added so that any sums fit.
ROUNDS, EVEN = 50, 1e-6
TINY = 1e-300


def conditional_points(schema: Schema, release: Release, fitted: Distribution, size: int,
                       rng: np.random.Generator, given: Given | None = None,
                       shares: Shares | None = None) -> Array:
    """Return points of the cube whose rows have the given values, and the shares, as exactly as whole rows allow.

    Raises an InputError if a name, value or share breaks a rule, or the release has no rows of a combination.

    Privacy: post-processing. Rows are drawn from the matching rows of the fitted table. If these are too few, and
    columns and tables were released, new rows are fitted. Each column is fitted to its distribution given these values.
    Each table is fitted to the table with these sums and the released odds ratios.
    """
    given, shares = given or {}, shares or {}
    for what, asked in (("given", given), ("shares", shares)):
        if not isinstance(asked, Mapping):
            raise InputError(f"{what} must be a dictionary with names of columns, not {shown(asked)}")
    _matched(schema, given, fitted.points[:0])
    parts = [_points_given(schema, release, fitted, count, rng, {**given, **chosen})
             for chosen, count in _strata(schema, fitted, size, rng, given, shares)]
    points = np.concatenate([fitted.points[:0], *parts])
    return points[rng.permutation(len(points))]


def _strata(schema: Schema, fitted: Distribution, size: int, rng: np.random.Generator, given: Given,
            shares: Shares) -> list[tuple[dict[str, Any], int]]:
    """Return each combination of the values with shares, and its number of rows."""
    for name, wanted in shares.items():
        numbers = list(wanted.values()) if isinstance(wanted, Mapping) else []
        if not (numbers and all(isinstance(share, Real) and 0.0 <= share <= 1.0 for share in numbers)
                and math.isclose(math.fsum(numbers), 1.0, abs_tol=1e-9)):
            told = ", ".join(map(shown, wanted.values())) if isinstance(wanted, Mapping) else shown(wanted)
            raise InputError(f"the shares of {name!r} must be numbers from 0 to 1 with the sum 1, in a dictionary with "
                             f"the values of the column, not {told or 'an empty dictionary'}")
        if name in given:
            raise InputError(f"column {name!r} appears in both given and shares; use one")
    matched = [np.array([_matched(schema, {name: value}, fitted.points) for value in wanted])
               for name, wanted in shares.items()]
    for name, held in zip(shares, matched, strict=True):
        if (held.sum(axis=0) > 1).any():
            raise InputError(f"the values of {name!r} in shares must not overlap")
    parts = [np.array(list(wanted.values()), dtype=np.float64) for wanted in shares.values()]
    weights = np.ones(1) if not parts else parts[0]
    if len(parts) > 1:
        weights = _raked_weights(fitted.weights * _matched(schema, given, fitted.points), matched, parts)
        if not weights.any():
            raise InputError("the release has no rows that can have these shares together")
    counts = np.bincount(systematic(weights, size, rng), minlength=len(weights)) if size else np.zeros(1, dtype=int)
    combinations = (dict(zip(shares, values, strict=True)) for values in itertools.product(*shares.values()))
    return [(chosen, count) for chosen, count in zip(combinations, counts.tolist(), strict=False) if count]


def _raked_weights(weights: Array, matched: Sequence[NDArray[np.bool_]], parts: Sequence[Array]) -> Array:
    """Return the weight of each combination of values in the fitted rows, raked to the shares.

    All weights are 0 if no rows have these shares together.
    """
    for _ in range(ROUNDS):
        for held, wanted in zip(matched, parts, strict=True):
            sums = held @ weights
            if (wanted[sums <= 0.0] > 0.0).any():
                return np.zeros(1)
            weights = weights * ((wanted / np.where(sums > 0.0, sums, 1.0)) @ held)
    return np.array([(weights * np.logical_and.reduce(chosen)).sum() for chosen in itertools.product(*matched)])


def _points_given(schema: Schema, release: Release, fitted: Distribution, size: int,
                  rng: np.random.Generator, given: Given) -> Array:
    weights, wanted = fitted.weights * _matched(schema, given, fitted.points), _with(schema, given)
    total = float(weights.sum())
    effective = total**2 / float(weights @ weights) if total else 0.0
    if effective < min(size, ENOUGH) and release.columns:
        made = _rows_given(schema, release, max(size, ENOUGH), rng, given)
        if made is not None:
            alone = Distribution(made, np.full(len(made), 1.0 / len(made)))
            return FurtherRows(wanted, release, alone).sample(size, rng)
    if not total:
        raise InputError(f"the release has no row with {' and '.join(_conditions(schema, given))}, and cannot make "
                         "such a row")
    return FurtherRows(wanted, release, Distribution(fitted.points, weights / total), total).sample(size, rng)


def _rows_given(schema: Schema, release: Release, count: int, rng: np.random.Generator,
                given: Given) -> Array | None:
    """Return points that are fitted to the released numbers, given the values; None if no such rows are possible."""
    wanted = _with(schema, given)
    witness(wanted)
    constrained = ConstrainedRows(wanted, release.columns, release.closer)
    targets = _targets_given(Targets(constrained.of(release)), constrained, [schema.names.index(name)
                                                                             for name in given])
    if targets is None:
        return None
    return constrained.placed(descended(targets, constrained, count, rng).rows, schema.width, rng)


def _targets_given(targets: Targets, constrained: ConstrainedRows, given: list[int]) -> Targets | None:
    """Return the targets for rows with only the allowed positions of each column; None if such rows have no mass."""
    columns = targets.release.columns
    masses = [column.mass * constrained.allowed(j) for j, column in enumerate(columns)]
    part = math.prod(float(masses[j].sum()) for j in given)
    for pair in targets.pairs:
        own = [np.bincount(cells, weights=columns[j].mass * constrained.allowed(j))
               for j, cells in zip(pair.columns, pair.maps, strict=True)]
        for one, table in ((0, pair.table), (1, pair.table.T)):
            other = 1 - one
            if pair.columns[one] in given:
                # The factor by which the given values change the frequency of each cell of the other column.
                whole, all_others = (np.bincount(pair.maps[k], weights=columns[pair.columns[k]].mass)
                                     for k in (one, other))
                beside = nearest_probabilities((own[one] / np.maximum(whole, TINY)) @ table, float(own[one].sum()))
                masses[pair.columns[other]] = masses[pair.columns[other]] * (
                    beside / np.maximum(all_others, TINY))[pair.maps[other]]
    # If noise hides all that the schema allows of another column, its allowed positions are even.
    masses = [mass if mass.any() else constrained.allowed(j).astype(np.float64) for j, mass in enumerate(masses)]
    totals = [float(mass.sum()) for mass in masses]
    if not (part > 0.0 and min(totals) > 0.0):
        return None
    masses = [mass / total for mass, total in zip(masses, totals, strict=True)]
    tables = [_raked(pair.table, *(np.bincount(cells, weights=masses[j]).astype(np.float64)
                                   for j, cells in zip(pair.columns, pair.maps, strict=True)))
              for pair in targets.pairs]
    return targets.beside([replace(column, mass=mass) for column, mass in zip(columns, masses, strict=True)], tables,
                          [pair.deviation / part for pair in targets.pairs])


def _raked(table: Array, down: Array, across: Array) -> Array:
    """Return a table (a, b) with these sums and the odds ratios of a given table, apart from its zeros."""
    made = nearest_probabilities(table.ravel()).reshape(table.shape) + EVEN * np.outer(down, across)
    for _ in range(ROUNDS):
        made = made * (down / np.maximum(made.sum(axis=1), TINY))[:, None]
        made = made * (across / np.maximum(made.sum(axis=0), TINY))
    return made


def own_column(schema: Schema, name: str) -> Column:
    """Return a column whose values can be given; raise an InputError if there is none, or it is derived."""
    for column in schema.columns:
        if column.name == name:
            return column
    if name in schema.table_names:
        raise InputError(f"column {name!r} is derived, so its values follow from other columns: give those of these")
    raise InputError(f"there is no column {name!r}; the columns are {', '.join(map(repr, schema.names))}")


def _conditions(schema: Schema, given: Given) -> list[str]:
    """Return the given values as constraints."""
    found = []
    for column, value in [(own_column(schema, name), value) for name, value in given.items()]:
        found.append(stated(column, value))
        _check_bounds(column, value)
    return found


def _check_bounds(column: Column, value: Any) -> None:
    """Raise an error if a number, or all of a range, is outside the bounds of its column."""
    low, high = value if isinstance(value, tuple) else (value, value)
    if column.unit or column.categories is not None or not (is_number(low) and is_number(high)):
        return
    # Special values can be anywhere.
    if (high < column.lower or low > column.upper) and not any(low <= each <= high for each in column.special):
        # The command line gives whole numbers as floats.
        told = [f"{each:.15g}" if isinstance(each, float) else shown(each) for each in (low, high)]
        what = told[0] if low == high else " to ".join(told)
        raise InputError(f"the given {what} is outside the bounds of {column.name!r}, {column.lower:.15g} to "
                         f"{column.upper:.15g}")


def _matched(schema: Schema, given: Given, points: Array) -> NDArray[np.bool_]:
    # Only the given values count here, because the schema's own constraints may forbid them.
    return keeps(schema, points, _with(schema, given).constraints[len(schema.constraints) :])


def _with(schema: Schema, given: Given) -> Schema:
    """Return the schema with the given values as further constraints."""
    conditions = _conditions(schema, given)
    try:
        return Schema(schema.columns, [*schema.constraints, *conditions], schema.person, schema.derived)
    except InputError as error:
        raise InputError(f"given {'; '.join(conditions)}: {error}") from None

