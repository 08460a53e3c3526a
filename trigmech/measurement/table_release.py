"""What comes out of a release of columns and tables: noisy frequencies and means, public."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from trigmech.domain import Domain
from trigmech.functions import contrasts, prefix_sums
from trigmech.functions.partition import Partition
from trigmech.functions.released_column import ReleasedColumn
from trigmech.planning.dependence import DependenceDesign
from trigmech.planning.selection import SelectedTables
from trigmech.schema.schema import Schema

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class NoisyHistogram:
    """What the look released of one column.

    Parameters
    ----------
    partition : Partition
    values : ndarray (size,) or (size - 1,)
        As they were measured; see :mod:`trigmech.functions.prefix_sums` and :mod:`trigmech.functions.contrasts`.
    deviation : float
        Of the noise in each.
    cumulative : bool
        Whether intervals were measured by the factor of prefix sums, or by their frequencies.
    contrasted : bool
        Whether contrasts of the positions were measured, one less than there are positions.
    """

    partition: Partition
    values: Array
    deviation: float
    cumulative: bool
    contrasted: bool = False

    @property
    def frequencies(self) -> Array:
        """The frequencies (size,), without bias."""
        if self.contrasted:
            return contrasts.decoded(self.values)
        return prefix_sums.decoded(self.partition, self.values) if self.cumulative else self.values

    @property
    def deviations(self) -> Array:
        """Of the noise in each of them; it is correlated where they are decoded, see NoisyMoments.deviations."""
        k, c = len(self.partition.indicators), self.partition.intervals
        if self.contrasted:
            return self.deviation * np.linalg.norm(contrasts.decoding(k + c), axis=1)
        if not (self.cumulative and c):
            return np.full(k + c, self.deviation)
        rows = np.sqrt(np.cumsum(prefix_sums.inverse(c)[:, 0] ** 2))
        return self.deviation * np.concatenate([np.ones(k), rows])

    def deviations_of(self, values: Array) -> Array:
        """Return the standard deviation of the noise in the means (...) of functions (..., size) of the positions."""
        k, c = len(self.partition.indicators), self.partition.intervals
        if self.contrasted:
            values = values @ contrasts.decoding(k + c)
        elif self.cumulative and c:
            values = np.concatenate([values[..., :k], values[..., k:] @ prefix_sums.inverse(c)], axis=-1)
        return np.asarray(self.deviation * np.linalg.norm(values, axis=-1))

    @property
    def greatest_deviation(self) -> float:
        """Of the noise in the share of the rows below a value of a number, wherever that lies, or in a category's."""
        k, c = len(self.partition.indicators), self.partition.intervals
        if not c:
            return float(self.deviations.max())
        if self.contrasted:
            below = np.cumsum(contrasts.decoding(k + c)[k:], axis=0)
            return self.deviation * float(np.linalg.norm(below, axis=1).max())
        return self.deviation * (float(np.linalg.norm(prefix_sums.factor(c)[-1])) if self.cumulative else c**0.5)


@dataclass(frozen=True, eq=False)
class CloserLook:
    """What the closer look released of one interval of one column: frequencies (f,) between the edges (f + 1,)."""

    column: int
    interval: int
    edges: Array
    frequencies: Array
    deviation: float


@dataclass(frozen=True, eq=False)
class TableRelease:
    """The noisy numbers of all rounds; everything made from them is post-processing. Public.

    Parameters
    ----------
    n : int
        Rows of the table.
    domain : Domain
    looks : tuple of NoisyHistogram
        Of each column.
    closer : tuple of CloserLook
    columns : tuple of ReleasedColumn
        What the columns' distributions were taken to be when the second round was designed.
    dependence : DependenceDesign or None
        What the second round measured.
    tables : tuple of ndarray (a, b)
        Noisy frequencies: of a table that was measured in both rounds, their mean by the precisions.
    products : ndarray (K,)
        Noisy means.
    deviation : float
        Of the noise in an entry of weight 1 of the second round.
    selected : SelectedTables or None
        What the last round measured.
    triples : tuple of ndarray (a, b, c)
        Noisy frequencies of its tables of three columns.
    selected_deviation : float
        Of the noise in an entry of weight 1 of the last round.
    schema : Schema, optional
        Whose constraints rows keep.
    """

    n: int
    domain: Domain
    looks: tuple[NoisyHistogram, ...]
    closer: tuple[CloserLook, ...]
    columns: tuple[ReleasedColumn, ...]
    dependence: DependenceDesign | None = None
    tables: tuple[Array, ...] = ()
    products: Array = field(default_factory=lambda: np.zeros(0))
    deviation: float = 0.0
    schema: Schema | None = None
    selected: SelectedTables | None = None
    triples: tuple[Array, ...] = ()
    selected_deviation: float = 0.0

    def described(self, schema: Schema) -> "TableRelease":
        """Return the release with the schema, whose constraints rows are to keep."""
        return replace(self, schema=schema)

    @property
    def table_deviations(self) -> Array:
        """Of the noise in an entry of each table (t,)."""
        if self.dependence is None:
            return np.zeros(0)
        if self.selected is None:
            return self.deviation / self.dependence.weights
        return 1.0 / np.hypot(self.dependence.weights / self.deviation,
                              self.selected.weights / self.selected_deviation)

    @property
    def triple_deviations(self) -> Array:
        """Of the noise in an entry of each table of three columns (r,)."""
        return np.zeros(0) if self.selected is None else self.selected_deviation / self.selected.triple_weights

    @property
    def product_deviation(self) -> float:
        """Of the noise in each product."""
        return 0.0 if not len(self.products) or self.dependence is None else (
            self.deviation / self.dependence.product_weight)

    @property
    def K(self) -> int:  # noqa: N802 - the thesis's letter
        """How many numbers were released."""
        return len(self.means)

    @cached_property
    def means(self) -> Array:
        """All released frequencies and means (K,), without bias."""
        return np.concatenate([*(look.frequencies for look in self.looks), *(look.frequencies for look in self.closer),
                               *(table.ravel() for table in self.tables), self.products,
                               *(table.ravel() for table in self.triples)])

    @cached_property
    def deviations(self) -> Array:
        """The standard deviations (K,) of their noise, each by itself; see :attr:`trigmech.NoisyMoments.deviations`."""
        return np.concatenate([
            *(look.deviations for look in self.looks),
            *(np.full(len(look.frequencies), look.deviation) for look in self.closer),
            *(np.full(table.size, deviation) for table, deviation in zip(self.tables, self.table_deviations,
                                                                        strict=True)),
            np.full(self.products.size, self.product_deviation),
            *(np.full(table.size, deviation) for table, deviation in zip(self.triples, self.triple_deviations,
                                                                        strict=True))])

    @cached_property
    def kinds(self) -> NDArray[np.str_]:
        """The kind of each (K,)."""
        counts = {"column": sum(look.partition.size for look in self.looks),
                  "column, closer": sum(len(look.frequencies) for look in self.closer),
                  "two-way table": sum(table.size for table in self.tables),
                  f"product of {'contrasts' if self._contrasted else 'ranks'}": self.products.size,
                  "three-way table": sum(table.size for table in self.triples)}
        return np.repeat(list(counts), list(counts.values()))

    def names(self, coordinates: Sequence[str]) -> list[str]:
        """Return what each is (K,), in words; intervals are of the coordinates in [-1, 1].

        Parameters
        ----------
        coordinates : sequence of str
            Names of the D coordinates.
        """
        names = [name for look in self.looks for name in position_names(look.partition, coordinates)]
        for look in self.closer:
            value = self.looks[look.column].partition.value or 0
            names += _intervals(coordinates[value], look.edges)
        if self.dependence is not None:
            own = self._cells_named(self.dependence.maps, coordinates)
            names += [f"{a} * {b}" for j, h in self.dependence.tables.tolist() for a in own[j] for b in own[h]]
            names += self._product_names(self.dependence, coordinates)
        if self.selected is not None:
            own = self._cells_named(self.selected.maps, coordinates)
            names += [f"{a} * {b} * {c}" for j, h, k in self.selected.triples.tolist()
                      for a in own[j] for b in own[h] for c in own[k]]
        return names

    def _cells_named(self, maps: Sequence[NDArray[np.int64]], coordinates: Sequence[str]) -> list[list[str]]:
        return [cell_names(column, cells, coordinates) for column, cells in zip(self.columns, maps, strict=True)]

    @property
    def _contrasted(self) -> bool:
        return self.dependence is not None and self.dependence.contrasted

    def _product_names(self, dependence: DependenceDesign, coordinates: Sequence[str]) -> list[str]:
        """Return the names of products: signs of cosines of the cells' places, or cosines of ranks over degrees."""
        of = [_column_name(column, coordinates) for column in self.columns]
        terms = (dependence.factors + np.array([0, 0, 1, 1])).tolist()
        return [f"sign cos({a} pi cell of {of[j]}) * sign cos({b} pi cell of {of[h]})" if self._contrasted else
                f"cos({a} pi rank of {of[j]}) * cos({b} pi rank of {of[h]}) / {a * b}" for j, h, a, b in terms]


def _column_name(column: ReleasedColumn, coordinates: Sequence[str]) -> str:
    value = column.partition.value
    return coordinates[column.partition.indicators[0]].split("=")[0] if value is None else coordinates[value]


def position_names(partition: Partition, coordinates: Sequence[str]) -> list[str]:
    """Return a name for each position of a column."""
    names = [coordinates[c] for c in partition.indicators]
    return names if partition.value is None else names + _intervals(coordinates[partition.value], partition.edges)


def cell_names(column: ReleasedColumn, cells: NDArray[np.int64], coordinates: Sequence[str]) -> list[str]:
    """Return a name for each cell of a column: its only position's, or that of an interval, or "others"."""
    names, k = position_names(column.partition, coordinates), len(column.partition.indicators)
    found = []
    for cell in range(int(cells.max()) + 1):
        held = np.flatnonzero(cells == cell)
        if len(held) == 1:
            found.append(names[held[0]])
        elif held[0] >= k:
            edges = column.partition.edges[[held[0] - k, held[-1] - k + 1]]
            found += _intervals(coordinates[column.partition.value or 0], edges)
        else:
            found.append(f"others of {names[held[0]].split('=')[0]}")
    return found


def _intervals(name: str, edges: Array) -> list[str]:
    return [f"{name} in [{low:.6g}, {high:.6g})" for low, high in pairwise(edges.tolist())]
