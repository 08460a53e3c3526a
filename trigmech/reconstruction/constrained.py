"""Rows that keep a schema's constraints: the allowed combinations of positions, the start, and the final values.

Numbers are cut where a constraint compares them. So the positions decide most constraints. If a constraint compares two
numbers of the same cell, their values decide. They are checked when the numbers get their places.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import cast

import numpy as np
from numpy.typing import NDArray

from trigmech._arrays import Array, Codes, Integers
from trigmech.distribution import Distribution
from trigmech.errors import InputError
from trigmech.functions.partition import Partition, all_codes, between, columns_of
from trigmech.functions.released_column import ReleasedColumn
from trigmech.measurement.released import Release
from trigmech.queries.base import Measurement
from trigmech.queries.one_way import Detail
from trigmech.reconstruction.atoms import atoms
from trigmech.reconstruction.drawn_values import DrawnValues
from trigmech.reconstruction.result import Reconstruction
from trigmech.reconstruction.rows import RowObjective
from trigmech.schema.cells import ConstraintCells
from trigmech.schema.constraints import COMPARE, Constraint
from trigmech.schema.encoding import Values, decode, decoded_number, number_at, place_of, rounded_within
from trigmech.schema.satisfiability import STEPS, combination, connected, representatives
from trigmech.schema.schema import Schema

# Columns that are compared with each other are cut at a grid of released edges. The grid is the finest of these for
# which all constraints together have at most MOST_LOOKED_AT combinations of values.
GRIDS, MOST_LOOKED_AT = (256, 64, 16, 0), 4 * 10**6
# The most combinations of values of a schema's constraints, without such a grid.
MOST_COMBINATIONS = 10**8
# Rounds of exchanges between rows for each column; draws of values for a row that breaks its constraints, of which so
# many come before columns may get equal values; and other rows whose values are tried for a row that still breaks them.
EXCHANGES, DRAWS, ALONE, NEIGHBOURS = 20, 24, 8, 32
# A place in an interval. The middle would be wrong, because a constraint could name this number.
SOMEWHERE = math.sqrt(2.0) - 1.0


class ConstrainedRows:
    """The constraints of a schema, with complete bounds and categories, for rows of positions of released columns.

    The details of intervals show the values that many rows share. ``columns`` are the given ones, with numbers cut
    further where their constraints compare them.
    """

    def __init__(self, schema: Schema | None, columns: Sequence[ReleasedColumn],
                 looks: Sequence[Measurement[Detail]] = ()) -> None:
        self.schema, self.columns = schema, list(columns)
        # The atom in each interval of each column; NaN without an atom.
        self._atoms = [np.full(column.partition.intervals, np.nan) for column in columns]
        if schema is not None:
            for j, column in enumerate(columns):
                if column.partition.value is not None:
                    self._atoms[j] = atoms(schema.columns[j], column,
                                           [look.query for look in looks if look.query.columns == (j,)])
        self._codes: dict[int, Integers] = {}
        self._rules: list[tuple[tuple[int, ...], NDArray[np.bool_]]] = []
        # The columns that constraints connect, and these constraints.
        self._groups: list[tuple[list[int], list[int]]] = []
        if schema is None or not schema.constraints:
            return
        named, place = {column.name: column for column in schema.columns}, {name: j for j, name in enumerate(
            schema.names)}
        cells = ConstraintCells(schema.constraints, named, _grid(schema, self.columns))
        for name in {name: None for each in schema.constraints for name in each.columns}:
            j = place[name]
            self.columns[j], self._atoms[j] = _cut(self.columns[j], cells.cuts(name), self._atoms[j])
            self._codes[j] = cells.codes(name, decode(named[name], _examples(self.columns[j].partition)))
        self._rules = [(tuple(place[name] for name in each.columns), table)
                       for each, table in zip(schema.constraints, cells.tables, strict=True)]
        self._alike = [_connected_by(schema, operators) for operators in (("=", "!="), tuple(COMPARE))]
        for names in connected([each.columns for each in schema.constraints]):
            members = sorted(place[name] for name in names)
            self._groups.append((members, [r for r, (held, _) in enumerate(self._rules) if held[0] in members]))

    def atoms(self, column: int) -> Array:
        """Return the place (c,) of the atom in each interval of a column; NaN without an atom."""
        return self._atoms[column]

    def of(self, release: Release) -> Release:
        """Return the release with these columns and positions."""
        if all(own is given for own, given in zip(self.columns, release.columns, strict=True)):
            return release
        return release.on(self.columns)

    def ask(self, objective: RowObjective) -> None:
        """Forbid moves that break a constraint, and let the columns of a constraint move together."""
        maps = {j: objective.map(j, codes) for j, codes in self._codes.items()}
        for held, allowed in self._rules:
            # A map has only the cells of its column's positions.
            inside = tuple(slice(int(self._codes[j].max()) + 1) for j in held)
            objective.rule([maps[j] for j in held], allowed[inside])
        for members, _ in self._groups:
            if len(members) > 1:
                objective.together(members)

    def allowed(self, column: int) -> NDArray[np.bool_]:
        """Return a mask (size,) of the positions that the constraints of this column alone allow."""
        held = np.ones(len(self.columns[column].mass), dtype=np.bool_)
        for members, allowed in self._rules:
            if members == (column,):
                held &= allowed[self._codes[column]]
        return held

    def broken(self, rows: Codes, rules: Sequence[int] | None = None) -> Integers:
        """Return the number of constraints, or of those with these numbers, that each row (m,) breaks."""
        count = np.zeros(len(rows), dtype=np.int64)
        for r in range(len(self._rules)) if rules is None else rules:
            held, allowed = self._rules[r]
            count += ~allowed[tuple(self._codes[j][rows[:, j]] for j in held)]
        return count

    def repair(self, rows: Codes, rng: np.random.Generator) -> None:
        """Change rows in place until they keep the constraints, by exchanges that keep each column's frequencies.

        If the columns' frequencies do not fit together, a few rows remain. These copy the entries of other rows.
        """
        for members, rules in self._groups:
            self._exchange(rows, members, rules, rng)
            bad = np.flatnonzero(self.broken(rows, rules))
            keeping = np.flatnonzero(self.broken(rows, rules) == 0)
            if len(bad) and len(keeping):
                rows[bad[:, None], members] = rows[rng.choice(keeping, len(bad))[:, None], members]
            elif len(bad):
                point = witness(cast(Schema, self.schema))
                for j in members:
                    rows[bad, j] = self.columns[j].partition.codes(point)[0]

    def _exchange(self, rows: Codes, members: list[int], rules: list[int], rng: np.random.Generator) -> None:
        count = self.broken(rows, rules)
        for attempt in range(EXCHANGES * len(members)):
            one = rng.permutation(np.flatnonzero(count))
            if not len(one):
                return
            if attempt % 2:
                # Rows that keep the constraints also take part, each once.
                other = np.unique(rng.integers(len(rows), size=len(one)))
                other = rng.permutation(other[count[other] == 0])
            else:
                other = one[len(one) // 2 :]
            half = min(len(one) // 2 if attempt % 2 == 0 else len(one), len(other))
            one, other, j = one[:half], other[:half], members[attempt // 2 % len(members)]
            mine, theirs = rows[one], rows[other]
            mine[:, j], theirs[:, j] = rows[other, j], rows[one, j]
            after = self.broken(mine, rules), self.broken(theirs, rules)
            better = after[0] + after[1] <= count[one] + count[other]
            for held, made, found in ((one, mine, after[0]), (other, theirs, after[1])):
                rows[held[better]], count[held[better]] = made[better], found[better]

    def placed(self, rows: Codes, d: int, rng: np.random.Generator) -> Array:
        """Return rows of positions as points (m, d) of the cube whose values keep the constraints.

        Numbers are uniform in the interval of their position, or all lie at its atom. If a row breaks a constraint, its
        numbers are drawn again from the whole interval. If this does not help, they are copied from another row.
        """
        points = self._first_points(rows, rng.random(rows.shape), d)
        if self.schema is None or not self.schema.constraints:
            return points
        bad = np.flatnonzero(~keeps(self.schema, points))
        points[bad], left = self._again(rows[bad], d, rng)
        return kept(self.schema, points, rng) if left else points

    def decoded(self, rows: Codes, rng: np.random.Generator) -> dict[str, Values]:
        """Return rows of positions as the values of each column: those of :meth:`placed`, decoded, in less time."""
        schema, fractions = cast(Schema, self.schema), rng.random(rows.shape)
        values = {column.name: drawn.of(rows[:, j], fractions[:, j])
                  for j, (column, drawn) in enumerate(zip(schema.columns, self._drawn, strict=True))}
        if not schema.constraints:
            return values
        bad, d = np.flatnonzero(~schema.holds(values)), schema.domain.d
        others, left = self._again(rows[bad], d, rng)
        if left:
            # Rows that copy others need the points of these.
            points = self._first_points(rows, fractions, d)
            points[bad] = others
            return schema.decode(kept(schema, points, rng))
        for name, own in schema.decode(others).items() if len(bad) else ():
            values[name][bad] = own
        return values

    @cached_property
    def _drawn(self) -> list[DrawnValues]:
        schema = cast(Schema, self.schema)
        return [DrawnValues(column, released.partition, start, places)
                for column, released, (start, _), places in zip(schema.columns, self.columns, schema.spans, self._atoms,
                                                                strict=True)]

    def _first_points(self, rows: Codes, fractions: Array, d: int) -> Array:
        return self._valued(placed(self.columns, rows, fractions, d), rows)

    def _again(self, rows: Codes, d: int, rng: np.random.Generator) -> tuple[Array, int]:
        """Return points (m, d) of rows that broke a constraint, drawn again; and how many of them still break one."""
        points, bad = np.zeros((len(rows), d)), np.arange(len(rows))
        for attempt in range(DRAWS):
            if not len(bad):
                break
            # Numbers at the same fraction of equal intervals are equal. Where another order is possible too, they
            # seldom are.
            alike = np.arange(len(self.columns))
            if attempt >= ALONE and attempt % 4 == 0:
                alike = self._alike[attempt == DRAWS - 4]
            fractions = rng.random((len(bad), len(alike)))[:, alike]
            points[bad] = self._rounded(placed(self.columns, rows[bad], fractions, d), rows[bad])
            bad = bad[~keeps(cast(Schema, self.schema), points[bad])]
        return points, len(bad)

    def positions(self, points: Array) -> Codes:
        """Return the positions (m, columns) of points (m, D), after numbers are decoded and rounded."""
        changed: Array | None = None
        for column, released in zip(() if self.schema is None else self.schema.columns, self.columns, strict=False):
            partition = released.partition
            if partition.value is not None and partition.levels is None:
                changed = points.copy() if changed is None else changed
                changed[:, partition.value] = place_of(column, decoded_number(column, points[:, partition.value]))
        return all_codes([released.partition for released in self.columns], points if changed is None else changed)

    def _valued(self, points: Array, rows: Codes) -> Array:
        """Write the atoms of positions to points, and return the points, rounded within their positions."""
        for column, places, codes in zip(self.columns, self._atoms, rows.T, strict=True):
            place = np.concatenate([np.full(len(column.partition.indicators), np.nan), places])[codes]
            held = np.flatnonzero(~np.isnan(place))
            points[held, column.partition.value or 0] = place[held]
        return self._rounded(points, rows)

    def _rounded(self, points: Array, rows: Codes) -> Array:
        """Round numbers within their positions: a number whose decoded value leaves its position moves back into it."""
        columns = () if self.schema is None else self.schema.columns
        for column, released, codes in zip(columns, self.columns, rows.T, strict=False):
            partition = released.partition
            if partition.value is None or partition.levels is not None:
                continue
            free = np.flatnonzero(codes >= len(partition.indicators))
            inside = codes[free] - len(partition.indicators)
            points[free, partition.value] = rounded_within(column, points[free, partition.value],
                                                           partition.edges[inside], partition.edges[inside + 1])
        return points


def placed(columns: Sequence[ReleasedColumn], rows: Codes, fractions: Array, d: int) -> Array:
    """Return rows of positions as points (m, d) of the cube, each number at a fraction of its interval."""
    points = np.zeros((len(rows), d))
    for j, column in enumerate(columns):
        column.partition.place(rows[:, j], fractions[:, j], points)
    return points


def keeps(schema: Schema, points: Array, constraints: Sequence[Constraint] | None = None) -> NDArray[np.bool_]:
    """Return for each point of the cube whether its values keep the given constraints; by default, all of the schema.
    """
    chosen = schema.constraints if constraints is None else constraints
    values = schema.decode(points, {name for each in chosen for name in each.columns})
    kept = np.ones(len(points), dtype=np.bool_)
    for each in chosen:
        kept &= each.holds(values)
    return kept


def kept(schema: Schema, points: Array, rng: np.random.Generator) -> Array:
    """Return points of the cube that keep the constraints; points that break them are changed.

    Such a point copies the coordinates of the connected columns from the nearest of some points that keep the
    constraints. If there is no such point, it copies them from :func:`witness`.
    """
    for names in connected([each.columns for each in schema.constraints]):
        own = [each for each in schema.constraints if names.issuperset(each.columns)]
        good = keeps(schema, points, own)
        bad, keeping = np.flatnonzero(~good), np.flatnonzero(good)
        if not len(bad):
            continue
        coordinates = [c for column, span in zip(schema.columns, schema.spans, strict=True) if column.name in names
                       for c in range(*span)]
        points = points.copy()
        if len(keeping):
            others = points[keeping][:, coordinates]
            for some in np.array_split(bad, -(-len(bad) // 1024)):
                drawn = rng.integers(len(keeping), size=(len(some), NEIGHBOURS))
                distance = ((others[drawn] - points[some][:, None, coordinates]) ** 2).sum(axis=2)
                points[some[:, None], coordinates] = others[drawn[np.arange(len(some)), distance.argmin(axis=1)]]
        else:
            points[bad[:, None], coordinates] = witness(schema)[0, coordinates]
    return points


def with_constraints_kept(schema: Schema, fit: Reconstruction, rng: np.random.Generator) -> Reconstruction:
    """Return a fit whose points keep the constraints. If they do already, return the same fit."""
    points = kept(schema, fit.points, rng)
    return fit if points is fit.points else replace(fit, distribution=Distribution(points, fit.weights))


def witness(schema: Schema) -> Array:
    """Return a point (1, D) of the cube whose values keep all constraints. Private bounds may still be unknown.

    Raises an InputError if no such row exists, or there are too many combinations of values. The outcome does not
    depend on bounds or categories that are found later. So a check before the charge is enough.
    """
    schema = schema.with_bounds(dict.fromkeys(schema.private_bounds, (1.0, 2.0))).with_categories(
        dict.fromkeys(schema.private_categories, ()))
    texts = "; ".join(repr(each.text) for each in schema.constraints)
    named = {column.name: column for column in schema.columns}
    if _looked_at(schema.constraints, representatives(schema.constraints, named)[0]) > MOST_COMBINATIONS:
        raise InputError(f"these constraints have more than {MOST_COMBINATIONS} combinations of values; write fewer or "
                         f"simpler ones: {texts}")
    coarse = [ReleasedColumn(column, np.full(column.size, 1.0 / column.size), 0.0)
              for column in columns_of(schema.domain)]
    rows = ConstrainedRows(schema, coarse)
    names = [str(j) for j in range(schema.d)]
    taken = combination([(tuple(names[j] for j in held), allowed[np.ix_(*(rows._codes[j] for j in held))])
                         for held, allowed in rows._rules]) if rows._rules else {}
    if taken is None:
        raise InputError(f"a search of {STEPS} steps did not find out whether a synthetic row can satisfy these "
                         f"constraints; write fewer or simpler ones: {texts}")
    if taken is not False:
        chosen = np.array([taken.get(name, 0) for name in names], dtype=np.int32)
        tries = np.arange(256.0)[:, None]
        # The places are evenly spread in each column, and differ in any two columns. Every second row has equal places.
        fractions = np.where(tries % 2, tries * np.sqrt(np.arange(schema.d) + 2.5), tries * math.sqrt(0.5)) % 1.0
        points = placed(rows.columns, np.tile(chosen, (len(tries), 1)), fractions, schema.domain.d)
        good = np.flatnonzero(keeps(schema, points))
        if len(good):
            return points[good[:1]]
    raise InputError(f"no synthetic row can satisfy these constraints: {texts}. If a continuous column must equal a "
                     "value, list this value in `special`; if it must lie between two close numbers, raise `decimals`")


def _looked_at(constraints: Sequence[Constraint], values: dict[str, NDArray]) -> int:
    return sum(math.prod(len(values[name]) for name in each.columns) for each in constraints)


def _grid(schema: Schema, columns: Sequence[ReleasedColumn]) -> Array | None:
    """Return the numbers at which columns that are compared with each other are cut: some of their released edges."""
    compared = {name for each in schema.constraints for condition in each.rule.conditions() if condition.other
                for name in (condition.column, condition.other)}
    named = {column.name: column for column in schema.columns}
    edges = [number_at(named[name], column.partition.edges[1:-1]) * named[name].seconds
             for name, column in zip(schema.names, columns, strict=True)
             if name in compared and named[name].categories is None and column.partition.value is not None]
    if not edges:
        return None
    all_edges = np.unique(np.concatenate(edges))
    for count in GRIDS:
        # At most ``count`` edges, evenly spaced in their order.
        grid = all_edges[:: -(-len(all_edges) // count)] if count and len(all_edges) else np.empty(0)
        if _looked_at(schema.constraints, representatives(schema.constraints, named, grid)[0]) <= MOST_LOOKED_AT:
            return grid
    return None


def _connected_by(schema: Schema, operators: Sequence[str]) -> Integers:
    """Return for each column (d,) the first column that comparisons by these operators connect with it, or itself."""
    first = np.arange(schema.d)
    for names in connected([(condition.column, condition.other) for each in schema.constraints
                            for condition in each.rule.conditions()
                            if condition.other and condition.operator in operators]):
        held = [schema.names.index(name) for name in names]
        first[held] = min(held)
    return first


def _examples(partition: Partition) -> Array:
    """Return the column's own coordinates of one point in each position. No constraint names such a number."""
    held = [*partition.indicators, *([] if partition.value is None else [partition.value])]
    points = np.zeros((partition.size, max(held) + 1))
    partition.place(np.arange(partition.size), np.full(partition.size, SOMEWHERE), points)
    return points[:, min(held) :]


def _cut(column: ReleasedColumn, cuts: Array, places: Array) -> tuple[ReleasedColumn, Array]:
    """Return a column whose intervals are also cut at some places, and its atoms.

    An interval with an atom keeps its whole mass at the atom. Other intervals divide their mass by length.
    """
    partition, k = column.partition, len(column.partition.indicators)
    if partition.value is None or not len(cuts):
        return column, places
    inner = np.concatenate([partition.edges[1:-1], cuts])
    if partition.levels is None:
        inner = np.unique(inner[(inner > -1.0) & (inner < 1.0)])
        length = np.diff(np.concatenate([[-1.0], inner, [1.0]]))
    else:
        below = np.unique(np.searchsorted(partition.levels, inner))
        below = below[(below > 0) & (below < len(partition.levels))]
        inner = between(partition.levels[below - 1], partition.levels[below])
        length = np.diff(np.concatenate([[0], below, [len(partition.levels)]])).astype(np.float64)
    finer = partition.cut(np.concatenate([[-1.0], inner, [1.0]]))
    parent = np.searchsorted(partition.edges[1:-1], finer.centres, side="right")
    places = places[parent]
    elsewhere = ~np.isnan(places) & (np.searchsorted(inner, places, side="right") != np.arange(len(parent)))
    length[elsewhere], places[elsewhere] = 0.0, np.nan
    mass = column.mass[k:][parent] * length / np.bincount(parent, weights=length)[parent]
    return replace(column, partition=finer, mass=np.concatenate([column.mass[:k], mass])), places
