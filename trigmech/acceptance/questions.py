"""The queries of an acceptance test: the compared columns and cells. Public: this module does not read a table.

Cells and scores come from the release alone, so they are the same for any two neighbouring tables.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from trigmech._arrays import Array
from trigmech.acceptance.criteria import Criterion
from trigmech.distribution import Distribution
from trigmech.errors import InputError
from trigmech.functions.partition import Partition, columns_of
from trigmech.queries.base import Query
from trigmech.queries.distances import Distance, Moment, RowShare
from trigmech.queries.joint import Marginal
from trigmech.schema.encoding import decoded_number, place_of
from trigmech.schema.schema import Schema

# Cells of all tables of one criterion: each row of the table is counted in one cell of every table.
MOST_CELLS = 10**7


@dataclass(frozen=True)
class Rules:
    """Finds the rows that break a constraint of a schema."""

    schema: Schema

    def __call__(self, points: Array) -> NDArray[np.bool_]:
        """Return for points (m, D) whether each breaks a constraint, as a synthetic row of its values would."""
        return ~self.schema.holds(self.schema.decode(points))


class Questions:
    """The queries about a release.

    distribution: The released one.
    """

    def __init__(self, schema: Schema, distribution: Distribution) -> None:
        held = distribution.weights > 0.0
        self._schema, self._weights = schema, distribution.weights[held]
        self._points = distribution.points[held].copy()
        self._whole = columns_of(schema.domain)
        # As their values are published: rounded as each column is.
        for column, partition in zip(schema.columns, self._whole, strict=True):
            if partition.value is not None:
                free = partition.codes(self._points) >= len(partition.indicators)
                number = decoded_number(column, self._points[:, partition.value])
                self._points[:, partition.value] = np.where(free, place_of(column, number), 0.0)

    def query(self, criterion: Criterion) -> Query:
        """Return the query of a criterion; an InputError says why it cannot be asked of this release."""
        columns = [self._place(name) for name in criterion.columns] or list(range(self._schema.d))
        bins = criterion.bins or 1
        if criterion.measure == "broken rules":
            if not self._schema.constraints:
                raise InputError("'broken rules' needs a schema with constraints, and the release's schema does not "
                                 "have any")
            return RowShare(tuple(columns), Rules(self._schema))
        if criterion.measure in ("ks", "correlation"):
            for name, j in zip(criterion.columns, columns, strict=True):
                if self._whole[j].value is None:
                    raise InputError(f"{criterion.measure!r} needs columns of numbers, and {name!r} has categories")
        cut = {j: self._cut(j, bins) for j in columns}
        if criterion.measure == "correlation":
            return self._correlation(criterion, columns, cut)
        if criterion.measure == "mean two-way":
            if len(columns) < 2:
                raise InputError("'mean two-way' needs two columns, and the release has one")
            groups: list[tuple[int, ...]] = list(combinations(sorted(columns), 2))
        else:
            groups = [(j,) for j in sorted(columns)]
        cells = sum(int(np.prod([cut[j].size for j in group])) for group in groups)
        if cells > MOST_CELLS:
            raise InputError(f"{criterion.measure!r} would compare {cells:,} cells, more than {MOST_CELLS:,}; name "
                             "fewer columns or bins")
        tables = tuple(_table(group, cut) for group in groups)
        return Distance(tables, tuple(table.means(self._points, self._weights) for table in tables),
                        ordered=criterion.measure == "ks", mean=criterion.measure == "mean two-way")

    def _place(self, name: str) -> int:
        if name not in self._schema.names:
            raise InputError(f"there is no column {name!r}; the columns are "
                             f"{', '.join(map(repr, self._schema.names))}")
        return self._schema.names.index(name)

    def _cut(self, j: int, bins: int) -> Partition:
        """Return a column's partition, a number's range cut near quantiles of the release, between its values."""
        partition = self._whole[j]
        if partition.value is None:
            return partition
        free = partition.codes(self._points) >= len(partition.indicators)
        values, places = np.unique(self._points[free, partition.value], return_inverse=True)
        between = 0.5 * (values[1:] + values[:-1])
        if len(values) > bins:
            below = np.cumsum(np.bincount(places, self._weights[free]))
            wanted = below[-1] * np.arange(1, bins) / bins
            after = np.minimum(np.searchsorted(below[:-1], wanted), len(between) - 1)
            before = np.maximum(after - 1, 0)
            nearer = np.abs(below[before] - wanted) < np.abs(below[after] - wanted)
            between = between[np.unique(np.where(nearer, before, after))]
        inner = np.unique(between[(between > -1.0) & (between < 1.0)])
        return partition.cut(np.concatenate([[-1.0], inner, [1.0]]))

    def _correlation(self, criterion: Criterion, columns: Sequence[int], cut: dict[int, Partition]) -> Moment:
        for name, j in zip(criterion.columns, columns, strict=True):
            if len(np.unique(self._scores(j, cut[j], criterion.clip))) < 2:
                raise InputError(f"'correlation' needs numbers that differ, and {name!r} is constant in the release")
        table = _table(tuple(sorted(columns)), cut)
        first, second = (self._scores(j, cut[j], criterion.clip) for j in table.columns)
        reference = float(first @ table.means(self._points, self._weights) @ second)
        return Moment(table, first, second, reference)

    def _scores(self, j: int, partition: Partition, clip: float) -> Array:
        """Return the score (size,) of each position: its numbers' mean, clipped, with mean 0 and deviation 1.

        All of these are of the release. The score of missing values, and of a position that the release does not have,
        is 0: they count as the mean.
        """
        column, k = self._schema.columns[j], len(partition.indicators)
        codes = partition.codes(self._points)
        numbers = decoded_number(column, self._points[:, partition.value or 0])
        for i, special in enumerate(column.special):
            numbers[codes == i] = column.number(special)
        mass = np.bincount(codes, self._weights, partition.size).astype(np.float64)
        present = np.arange(partition.size) >= (k if column.missing == "keep" else 0)
        present[: len(column.special)] = True
        present &= mass > 0.0
        scores = np.zeros(partition.size)
        total = np.bincount(codes, self._weights * np.where(present[codes], numbers, 0.0), partition.size)
        scores[present] = total[present] / mass[present]
        for most in (clip, np.inf):
            scores[present] = np.clip(_standardised(scores[present], mass[present]), -most, most)
        return scores


def _standardised(values: Array, mass: Array) -> Array:
    weights = mass / max(float(mass.sum()), np.finfo(float).tiny)
    apart = values - weights @ values
    deviation = float(np.sqrt(weights @ apart**2))
    return np.asarray(apart / deviation if deviation > 0.0 else np.zeros(len(values)))


def _table(columns: tuple[int, ...], cut: dict[int, Partition]) -> Marginal:
    partitions = tuple(cut[j] for j in columns)
    return Marginal(columns, partitions, tuple(np.arange(each.size) for each in partitions))
