"""Whether a row can satisfy all constraints of a schema, decided before the schema is used."""

import datetime
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from trigmech._arrays import Array
from trigmech.errors import InputError
from trigmech.schema.column import Column
from trigmech.schema.constraints import MISSING, Constraint, Truth, allowed
from trigmech.schema.encoding import Values, categories_of
from trigmech.schema.times import times_of

# How many constraints the search looks at, counting all that are left each time when one more column gets a value.
STEPS = 1_000_000

# For each constraint that is not settled yet: the columns without a value, and which combinations of theirs keep it.
Tables = list[tuple[tuple[str, ...], Truth]]


def check_satisfiable(constraints: Sequence[Constraint], columns: Mapping[str, Column]) -> None:
    """Raise an InputError unless a row can satisfy all constraints.

    Constraints that share columns are examined together, on few values of each column: see :func:`representatives`. The
    answer is exact for categories, special and missing values, integers, dates and times, and for continuous columns as
    if between any two numbers there were another. The message names a few constraints that contradict each other. An
    InputError is also raised if a constraint has too many combinations of values or the search takes too many steps:
    work is bounded.
    """
    positions, _ = representatives(constraints, columns)
    for names in connected([each.columns for each in constraints]):
        tables = {each: (each.columns, allowed(each, positions))
                  for each in constraints if names.issuperset(each.columns)}
        found = combination(list(tables.values()), STEPS)
        if found:
            continue
        for each in tuple(tables):
            fewer = [table for other, table in tables.items() if other != each]
            if found is False and combination(fewer, STEPS // len(tables)) is False:
                del tables[each]
        listed = "; ".join(repr(each.text) for each in tables)
        if found is None:
            raise InputError(f"a search of {STEPS} steps did not find out whether a row can satisfy these constraints; "
                             f"write fewer or simpler ones: {listed}")
        raise InputError(f"no row can satisfy {'all of these constraints' if len(tables) > 1 else 'the constraint'}: "
                         f"{listed}")


def without_missing(constraints: Sequence[Constraint], columns: Iterable[Column]) -> list[str]:
    """Return a sentence for each constraint that no row with a missing value in a column keeps, if the column has
    ``missing="keep"``: a comparison with a missing value is false, and this is easily forgotten.

    A constraint that asks whether the column's value is missing was written with the missing values in mind.
    """
    named = {column.name: column for column in columns}
    positions, _ = representatives(constraints, named)
    found = []
    for each in constraints:
        kept = allowed(each, positions)
        meant = {condition.column for condition in each.rule.conditions() if condition.operator in MISSING}
        found += [f"the constraint {each.text!r} is false where {name!r} is missing, so synthetic rows have no missing "
                  "values there; if true rows have some, allow them in the constraint: \"or ... is missing\""
                  for axis, name in enumerate(each.columns) if name not in meant
                  and named[name].missing == "keep" and not kept.take(-1, axis).any()]
    return found


def representatives(constraints: Sequence[Constraint], columns: Mapping[str, Column],
                    grid: Array | None = None) -> tuple[dict[str, Values], dict[str, Array]]:
    """Return few values of each column, among which there is a row that satisfies the constraints if any row does.

    For categories and binary columns these are all values. Whether a comparison of numbers or times holds depends only
    on their order among each other, the constants, bounds and special values. So for columns that are compared with one
    another, g of them, all those constants, bounds and special values are taken, and between neighbouring ones as many
    more as g columns can need: the first g whole numbers, and g others between neighbours. "Missing" is added where it
    is kept. For a column that is never compared, one value and "missing" are enough, so that private bounds, which are
    found later, change nothing. A ``grid`` (g,) adds numbers, taken like constants where columns of numbers are
    compared with each other.

    The first mapping has the values (k,) in the form of :meth:`trigmech.Schema.decode`; the second, for each compared
    column, those constants, bounds, special values and numbers of the grid, ascending.
    """
    breaks: dict[str, Array] = {}
    found: dict[str, Values] = {name: np.ma.MaskedArray([0.0, 0.0], [False, True])
                                for each in constraints for name in each.columns}
    comparisons = [each for constraint in constraints for each in constraint.rule.conditions()
                   if each.operator not in MISSING]
    for names in connected([(each.column, each.other or each.column) for each in comparisons]):
        group = [columns[name] for name in names]
        numeric = [column for column in group if column.categories is None]
        places: list[Any] = [bound for column in numeric for bound in (column.lower, column.upper, *column.special)]
        if numeric:
            places += [value for each in comparisons if each.column in names for value in each.constants]
            places += [value for column in group for value in column.categories or ()]
        points = np.unique(np.array(list(map(_place, places)), dtype=np.float64))
        if grid is not None and len(numeric) > 1:
            points = np.union1d(points, grid)
        breaks |= {column.name: points for column in group}
        for step in sorted({_step(column) for column in numeric if column.kind != "binary"}, reverse=True):
            points = _between(points, step, len(numeric))
        found |= {column.name: _positions(column, points) for column in group}
    return found, breaks


def _place(value: Any) -> float:
    """Return a number, or a date or time as seconds since 1970."""
    if isinstance(value, datetime.date):
        return float(np.datetime64(value, "us").astype(np.int64)) / 1e6
    return float(value)


def _step(column: Column) -> float:
    if column.unit:
        return float(column.seconds)
    return 1.0 if column.kind == "integer" else 0.0


def _between(points: Array, step: float, many: int) -> Array:
    """Return points (k,), ascending, and up to ``many`` more between neighbours: the first multiples of a step."""
    low, high = points[:-1, None], points[1:, None]
    count = np.arange(1.0, many + 1.0)
    part = count / (many + 1.0)
    # Beyond 2^53 not every multiple is a number of floating point.
    own = np.maximum(step, np.spacing(np.abs(low)))
    more = (np.floor(low / own) + count) * own if step else low * (1.0 - part) + high * part
    return np.unique(np.concatenate([points, more[(low < more) & (more < high)]]))


def _positions(column: Column, points: Array) -> Values:
    """Return those points that are values of a column, or all its categories; and missing."""
    if column.categories is not None:
        values = categories_of(column)
    else:
        low, high, step = _place(column.lower), _place(column.upper), _step(column)
        inside = (low <= points) & (points <= high) & ((points % step == 0.0) if step else True)
        if column.kind == "binary":
            inside = np.isin(points, [low, high])
        values = points[inside | np.isin(points, list(map(_place, column.special)))]
        if column.resolution:
            values = times_of(values / step, column.resolution)
    if column.missing != "keep":
        return values
    return np.ma.MaskedArray(np.append(values, values[:1]), [False] * len(values) + [True])


def connected(sets: Iterable[Iterable[str]]) -> list[set[str]]:
    """Return the unions of sets that are connected by shared members."""
    found: list[set[str]] = []
    for each in map(set, sets):
        touched = [other for other in found if not each.isdisjoint(other)]
        found = [other for other in found if each.isdisjoint(other)] + [each.union(*touched)]
    return found


def combination(tables: Tables, steps: int = STEPS) -> dict[str, int] | Literal[False] | None:
    """Return the place of a value of each column that together satisfy all constraints, depth first.

    False if no such places exist, and None if the search takes more steps.
    """
    stack: list[Iterator[tuple[dict[str, int], Tables]]] = [iter([({}, tables)])]
    while stack and steps > 0:
        taken, left = next(stack[-1], ({}, None))
        if left is None:
            stack.pop()
        elif not left:
            return taken
        else:
            steps -= len(left)
            stack.append(_extended(taken, left))
    return None if stack else False


def _extended(taken: dict[str, int], tables: Tables) -> Iterator[tuple[dict[str, int], Tables]]:
    """Yield the taken values and the remaining tables for each value of one more column that no constraint forbids.

    The column belongs to the constraint with the fewest combinations left.
    """
    column = min(tables, key=lambda each: each[1].size)[0][0]
    settled = [(names, np.moveaxis(table, names.index(column), 0)) for names, table in tables if column in names]
    others = [each for each in tables if column not in each[0]]
    fits = np.logical_and.reduce([table.any(axis=tuple(range(1, table.ndim))) for _, table in settled])
    for value in np.flatnonzero(fits).tolist():
        yield taken | {column: value}, others + [(tuple(name for name in names if name != column), table[value])
                                                 for names, table in settled if len(names) > 1]
