"""The possible entries of a table of rows: for each column its indicators, and a grid of points for its number."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from trigmech._arrays import Array, Codes, Integers
from trigmech.domain import Domain
from trigmech.functions.features import Features, FunctionSet
from trigmech.functions.index import FunctionIndex
from trigmech.reconstruction.rows import RowObjective
from trigmech.reconstruction.targets import MomentTargets

# The number of cells of equal angle. While rows move, a number is at the middle of its cell. A number with at most so
# many levels is at its levels instead.
GRID = 256


@dataclass(frozen=True, eq=False)
class Positions:
    """The positions of one column: first its indicators, then those of its number, or one position without indicator.

    ``coordinates`` (c,) are the column's indicators, then its number if it has one. ``values`` (size, c) are the
    coordinates at each position. ``masses`` (size,) are the positions' probabilities for independent columns.
    ``indicators`` is the number of indicators. ``edges`` (numbers + 1,) are the ends of the cells of the number's
    positions. If ``between``, the number can lie anywhere in its cell.
    """

    coordinates: Integers
    values: Array
    masses: Array
    indicators: int
    edges: Array | None
    between: bool


def positions_of(domain: Domain, targets: MomentTargets) -> list[Positions]:
    grouped = {int(domain.owner[group.coordinates[0]]): (group, p)
               for group, p in zip(domain.groups, targets.frequencies, strict=True)}
    found = []
    for owner in np.unique(domain.owner).tolist():
        group, p = grouped.get(owner, (None, np.zeros(0)))
        number = owner if group is None else group.value
        coordinates = [] if group is None else list(group.coordinates)
        own = np.ones(int(group is not None and not group.complete))
        edges, between = None, False
        if number is not None and targets.marginals is not None:
            levels, edges, between = _levels(domain, number)
            coordinates.append(number)
            own = targets.marginals.masses(domain.numbers.index(number), edges)
        values = np.zeros((len(p) + len(own), len(coordinates)))
        values[np.arange(len(p)), np.arange(len(p))] = 1.0
        if edges is not None:
            values[len(p) :, -1] = levels
        masses = np.concatenate([p, max(0.0, 1.0 - float(p.sum())) * own])
        found.append(Positions(np.array(coordinates), values, masses, len(p), edges, between))
    return found


def _levels(domain: Domain, number: int) -> tuple[Array, Array, bool]:
    """Return the places of a number, ascending; the ends of the cells around them; and whether it can lie between."""
    levels = domain.levels_of(number)
    if levels is None or len(levels) > GRID:
        return -np.cos((np.arange(GRID) + 0.5) * np.pi / GRID), -np.cos(np.arange(GRID + 1) * np.pi / GRID), True
    return levels, np.concatenate([[-1.0], (levels[1:] + levels[:-1]) / 2.0, [1.0]]), False


def points_of(positions: list[Positions], rows: Codes, d: int,
              rng: np.random.Generator) -> tuple[Array, NDArray[np.bool_]]:
    """Return rows as points (m, d), with numbers at random in their cells, and a mask of the entries that may move."""
    points, free = np.zeros((len(rows), d)), np.zeros((len(rows), d), dtype=np.bool_)
    for column, codes in zip(positions, rows.T, strict=True):
        points[:, column.coordinates] = column.values[codes]
        if column.between:
            held = codes >= column.indicators
            angles = np.arccos(column.values[codes[held], -1])
            angles += (rng.random(len(angles)) - 0.5) * np.pi / GRID
            points[held, column.coordinates[-1]] = np.cos(angles)
            free[held, column.coordinates[-1]] = True
    return points, free


class ColumnFeatures:
    """The features of each column, which are the factors of functions, numbered in order of their first use."""

    def __init__(self, domain: Domain, positions: list[Positions]) -> None:
        self._positions = positions
        self._column, self._place = np.zeros((2, domain.d), dtype=np.int64)
        for c, column in enumerate(positions):
            self._column[column.coordinates], self._place[column.coordinates] = c, np.arange(len(column.coordinates))
        self._values: list[list[Array]] = [[] for _ in positions]
        self._known: dict[tuple[tuple[int, int], ...], int] = {}

    def of(self, coordinates: list[int], degrees: list[int]) -> list[tuple[int, int]]:
        """Return the columns of a Chebyshev product and their features; the indicator of position k is -1 - k."""
        by_column: dict[int, tuple[tuple[int, int], ...]] = {}
        for j, degree in zip(coordinates, degrees, strict=True):
            c = int(self._column[j])
            by_column[c] = (*by_column.get(c, ()), (j, degree))
        return [(c, self._feature(c, factors)) for c, factors in by_column.items()]

    def _feature(self, c: int, factors: tuple[tuple[int, int], ...]) -> int:
        column = self._positions[c]
        if len(factors) == 1 and factors[0][1] == 1 and self._place[factors[0][0]] < column.indicators:
            return -1 - int(self._place[factors[0][0]])
        if factors not in self._known:
            angles = [degree * np.arccos(column.values[:, self._place[j]]) for j, degree in factors]
            self._known[factors] = self.append(c, np.cos(angles).prod(axis=0))
        return self._known[factors]

    def append(self, c: int, values: Array) -> int:
        """Add a feature (size,) of column c, and return its number."""
        self._values[c].append(values)
        return len(self._values[c]) - 1

    def values(self) -> list[Array]:
        """Return each column's features (size, q)."""
        return [np.array(values).reshape(-1, len(column.masses)).T
                for values, column in zip(self._values, self._positions, strict=True)]

    @property
    def counts(self) -> Integers:
        return np.array([len(values) for values in self._values])


def objective_of(index: FunctionIndex, functions: FunctionSet, positions: list[Positions], target: Array,
                 scales: Array) -> RowObjective:
    """Return the objective of rows: products, complete tables of two categorical columns, and whole-row functions.

    It holds whole-row functions only if they are products of a profile. ``target`` and ``scales`` (K,) are the means
    and their deviations.
    """
    factors = ColumnFeatures(index.domain, positions)
    columns, features = _products(index, len(positions), factors)
    target, weights = target.copy(), 1.0 / scales**2
    if isinstance(functions, Features):
        for g, (profile, floor) in enumerate(zip(functions.profiles, functions.floors, strict=True)):
            r = len(index.degrees) + g
            columns[r] = np.arange(len(positions))
            for c, column in enumerate(positions):
                features[r, c] = factors.append(c, np.polynomial.chebyshev.chebval(column.values, profile).prod(axis=1))
            # The function is 2 (product - floor) / (1 - floor) - 1.
            target[r] = floor + (target[r] + 1.0) * (1.0 - floor) / 2.0
            weights[r] *= 4.0 / (1.0 - floor) ** 2
    asked = RowObjective([len(column.masses) for column in positions], factors.values())
    kept = columns[:, 0] >= 0
    maps: dict[int, int] = {}
    for entries in _tables(columns, features, positions, weights):
        pair = columns[entries[0], :2].tolist()
        sizes = [len(positions[c].masses) for c in pair]
        maps |= {c: asked.map(c, np.arange(size)) for c, size in zip(pair, sizes, strict=True) if c not in maps}
        table = np.zeros(sizes)
        table[tuple(-1 - features[entries, :2].T)] = target[entries]
        asked.table([maps[c] for c in pair], table, float(weights[entries[0]]))
        kept[entries] = False
    # The numbers of indicators follow those of the column's own features.
    features = np.where(features < 0, factors.counts[columns] - 1 - features, features)
    asked.products(columns[kept], features[kept], target[kept], weights[kept])
    return asked


def _products(index: FunctionIndex, count: int, factors: ColumnFeatures) -> tuple[Integers, Integers]:
    """Return the columns (K, widest) and features of each product, with -1 for no column. Whole rows come later."""
    widest = count if index.whole else max(int(index.width.max(initial=1)), 1)
    columns, features = np.full((2, index.K, widest), -1)
    where, coordinates = np.nonzero(index.degrees)
    starts = np.searchsorted(where, np.arange(len(index.degrees) + 1)).tolist()
    met, degrees = coordinates.tolist(), index.degrees[where, coordinates].tolist()
    for r, (start, stop) in enumerate(pairwise(starts)):
        for k, (c, feature) in enumerate(factors.of(met[start:stop], degrees[start:stop])):
            columns[r, k], features[r, k] = c, feature
    return columns, features


def _tables(columns: Integers, features: Integers, positions: list[Positions], weights: Array) -> list[Integers]:
    """Return the places of the functions of each complete contingency table with a single weight."""
    if columns.shape[1] < 2:
        return []
    complete = np.array([column.indicators == len(column.masses) for column in positions])
    two = (columns[:, 1] >= 0) & (columns[:, 2:] < 0).all(axis=1)
    two &= (features[:, :2] < 0).all(axis=1) & complete[columns[:, :2]].all(axis=1)
    pairs, which = np.unique(columns[two, :2], axis=0, return_inverse=True)
    where = np.flatnonzero(two)
    found = []
    for p, (a, b) in enumerate(pairs):
        r = where[which.ravel() == p]
        distinct = len(np.unique(features[r, :2], axis=0))
        if distinct == len(r) == len(positions[a].masses) * len(positions[b].masses) and (
                weights[r].max() <= weights[r].min() * (1.0 + 1e-9)):
            found.append(r)
    return found
