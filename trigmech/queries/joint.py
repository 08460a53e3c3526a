"""Queries about several columns: contingency tables by cells of their positions, and products of their scores.

A contingency table moves by 1/n in two entries when a row is replaced. For products of scores see
:mod:`trigmech.planning.tables`, whose proof asks no more of scores than that they are the same for both tables.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise, product
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, kron

from trigmech._arrays import Array, Integers
from trigmech.errors import InputError
from trigmech.functions.naming import cell_names, column_name
from trigmech.functions.partition import Partition, all_codes
from trigmech.queries.base import UNIT, Cells, Query, Smooth, indicators, parents
from trigmech.queries.book import Book, Numbers, register

# Scores are whole numbers over 2^15, so that sums of their products over rows are exact.
SCORE_BITS = 15
# The most scores of one column, and the most cells of one table, in a file. An archive cannot hold more cells.
MOST_SCORES, MOST_CELLS = 256, 2**27
WORDS = {1: "one", 2: "two", 3: "three", 4: "four"}


@register
@dataclass(frozen=True, eq=False)
class Marginal(Cells):
    """The contingency table of some columns, by cells of their positions.

    columns: By position in the schema, ascending.
    maps (size,) of int: The cell of each position, numbered from 0 without gaps.
    """

    name: ClassVar[str] = "marginal"
    order: ClassVar[int] = 2  # type: ignore[misc]
    shown_as: ClassVar[str] = "tables"
    summed: ClassVar[str] = "cells"
    columns: tuple[int, ...]
    partitions: tuple[Partition, ...]
    maps: tuple[Integers, ...]

    @cached_property
    def shape(self) -> tuple[int, ...]:
        return tuple(int(cells.max()) + 1 for cells in self.maps)

    tells_tables = True

    @property
    def ways(self) -> int:  # type: ignore[override]
        return len(self.columns)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def held(self) -> tuple[tuple[int, Partition], ...]:
        return tuple(zip(self.columns, self.partitions, strict=True))

    def smoothed(self, smooth: Smooth) -> csr_matrix:
        sums = csr_matrix(np.ones((1, 1)))
        for j, cells in zip(self.columns, self.maps, strict=True):
            sums = kron(sums, smooth.of_cells(j, cells).T, format="csr")
        return sums

    @property
    def kind(self) -> str:
        count = len(self.columns)
        return f"{WORDS.get(count, str(count))}-way table"

    def sparse(self, points: Array) -> csr_matrix:
        return indicators(self._places(all_codes(self.partitions, points)), self.size)

    def means(self, points: Array, weights: Array | None = None) -> Array:
        return self.counted(all_codes(self.partitions, points), np.full(len(points), 1.0 / len(points))
                            if weights is None else weights)

    def counted(self, codes: NDArray[np.int32], weights: Array) -> Array:
        """Return the sums of weights (m,) in each cell, of positions (m, columns) of the query's columns."""
        return np.asarray(np.bincount(self._places(codes), weights, self.size).reshape(self.shape), dtype=np.float64)

    def _places(self, codes: NDArray[np.int32]) -> Integers:
        """Return the cell (m,) of rows of positions, numbered through."""
        return np.ravel_multi_index(tuple(cells[own] for cells, own in zip(self.maps, codes.T, strict=True)),
                                    self.shape)

    def names(self, coordinates: Sequence[str]) -> list[str]:
        own = [cell_names(partition, cells, coordinates)
               for partition, cells in zip(self.partitions, self.maps, strict=True)]
        return [" * ".join(names) for names in product(*own)]

    def written(self, book: Book) -> tuple[list[int], Array]:
        return [book.map(*each) for each in zip(self.columns, self.partitions, self.maps, strict=True)], np.empty(0)

    @classmethod
    def read(cls, integers: Numbers, floats: Numbers, book: Book) -> Self:
        """Return the table of some maps, of columns in ascending order."""
        numbers, size = integers.rest().tolist(), 1
        held = [book.map_at(number) for number in numbers]
        columns = tuple(column for column, *_ in held)
        if not columns or any(a >= b for a, b in pairwise(columns)):
            raise InputError("the columns of a table must be different, in ascending order")
        # Counted once for each map, so that a file with many tables of one long map is read in linear time.
        shape = tuple(book.count_at(number) for number in numbers)
        for count in shape:
            size *= count
            if size > MOST_CELLS:
                raise InputError(f"a table in the file has more than {MOST_CELLS} cells")
        made = cls(columns, tuple(partition for _, partition, _ in held), tuple(cells for *_, cells in held))
        made.__dict__["shape"] = shape
        return made

    def on(self, finer: Sequence[Partition], known: dict[Any, Any] | None = None) -> Self:
        """Return the table of the same cells, as sets of finer positions."""
        maps, known = list[Integers](), {} if known is None else known
        for j, partition, cells in zip(self.columns, self.partitions, self.maps, strict=True):
            if (key := (j, id(cells))) not in known:
                known[key] = cells[parents(finer[j], partition)]
            maps.append(known[key])
        made = replace(self, partitions=tuple(finer[j] for j in self.columns), maps=tuple(maps))
        # Known already: a release has many tables, and maps of many positions.
        made.__dict__["shape"] = self.shape
        return made


@register
@dataclass(frozen=True, eq=False)
class Products(Query):
    """Means of products of a score of one column and a score of another, for some pairs of columns.

    scores (size, q_j) of int: The scores of each column at its positions, in units of 2^-15: at most 2^15 in size. The
      last score of a number can tell special and missing values alone; see `presence`.
    pairs (p, 2) of int: Columns. All products of a score of each are measured.
    contrasted: Whether the scores are contrasts of cells; else cosines of ranks.
    maps (size,) of int: For contrasts: the cell of each position of each column. Empty otherwise.
    """

    name: ClassVar[str] = "products"
    order: ClassVar[int] = 3  # type: ignore[misc]
    shown_as: ClassVar[str] = "products"
    summed: ClassVar[str] = "products"
    correlated: ClassVar[str] = "columns of numbers"
    partitions: tuple[Partition, ...]
    scores: tuple[Integers, ...]
    pairs: Integers
    contrasted: bool = False
    maps: tuple[Integers, ...] = ()

    @property
    def size(self) -> int:
        counts = np.array([score.shape[1] for score in self.scores], dtype=np.int64)
        return int(counts[self.pairs].prod(axis=1).sum())

    @property
    def kind(self) -> str:
        return f"product of {self.factors_named.split()[0]}"

    @property
    def factors_named(self) -> str:
        """The factors of the products, in words."""
        return "contrasts of the cells" if self.contrasted else "ranks"

    @property
    def tells_tables(self) -> bool:
        """Products of contrasts determine the tables of pairs, by cells of `maps`; products of ranks do not."""
        return self.contrasted

    @property
    def held(self) -> tuple[tuple[int, Partition], ...]:
        return tuple(enumerate(self.partitions))

    def smoothed(self, smooth: Smooth) -> csr_matrix | None:
        return smooth.of_contrasts(self.pairs, self.maps) if self.contrasted else None

    @property
    def correlation_noise(self) -> float:
        """The product of first scores has the mean 1/2 where two columns have the same ranks."""
        return np.inf if self.contrasted else 2.0

    @property
    def columns(self) -> tuple[int, ...]:
        return tuple(np.unique(self.pairs).tolist())

    @cached_property
    def features(self) -> list[Array]:
        """The scores (size, q_j) of each column as numbers."""
        return [score / 2.0**SCORE_BITS for score in self.scores]

    @cached_property
    def factors(self) -> Integers:
        """For each product (K, 4): the two columns, and which score of each."""
        counts = [score.shape[1] for score in self.scores]
        found = [(j, h, a, b) for j, h in self.pairs.tolist() for a in range(counts[j]) for b in range(counts[h])]
        return np.array(found, dtype=np.int64).reshape(-1, 4)

    @cached_property
    def presence(self) -> tuple[int, ...]:
        """The columns of numbers whose last score, of several, is constant at special and missing values, else 0."""
        found = list[int]()
        for j, (partition, score) in enumerate(zip(self.partitions, self.scores, strict=True)):
            k = len(partition.indicators)
            if partition.value is not None and k and score.shape[1] > 1 and not self.contrasted:
                absent, present = score[:k, -1], score[k:, -1]
                if absent[0] and (absent == absent[0]).all() and not present.any():
                    found.append(j)
        return tuple(found)

    @property
    def absences(self) -> Integers:
        """How many of both scores of each product (K,) are of special and missing values."""
        last = np.array([score.shape[1] - 1 if j in self.presence else -1 for j, score in enumerate(self.scores)])
        return np.asarray((self.factors[:, 2:] == last[self.factors[:, :2]]).sum(axis=1))

    @property
    def places(self) -> Integers:
        """Where both factors of each product (K, 2) are among the scores of all columns."""
        starts = np.cumsum([0, *(score.shape[1] for score in self.scores)])
        return np.asarray(starts[self.factors[:, :2]] + self.factors[:, 2:])

    def evaluate(self, points: Array) -> Array:
        codes = all_codes(self.partitions, points)
        values = np.concatenate([feature[own] for feature, own in zip(self.features, codes.T, strict=True)], axis=1)
        first, second = self.places.T
        return values[:, first] * values[:, second]

    def diameter(self, norm: str) -> float:
        """With S_j the largest sum of squares of a position's scores of column j: the sum of all S_j in L2.

        Let u(x) be the vector of the scores, at a row x, of all columns that have a pair. The products are different
        entries of u u^T above its diagonal. So the squared distance of the products of two rows x and y, with v = u(y),
        is at most half of |u u^T - v v^T|^2 = |u|^4 + |v|^4 - 2 (u . v)^2. This is at most the square of the larger of
        |u|^2 and |v|^2, which are at most the sum of all S_j.
        """
        length = float(largest_squares(self.scores)[np.unique(self.pairs)].sum())
        if norm == "L2":
            return length
        if norm == "L1":
            return length * math.sqrt(self.size)
        most = max((int(np.abs(each).max(initial=0)) for each in self.scores), default=0)
        return 2.0 * most**2 / 4.0**SCORE_BITS

    def rounding(self, norm: str, n: int) -> float:
        """Return the error of a vector that is no longer than the diameter."""
        return 4.0 * UNIT * self.diameter(norm)

    def names(self, coordinates: Sequence[str]) -> list[str]:
        of = [column_name(partition, coordinates) for partition in self.partitions]
        terms = (self.factors + np.array([0, 0, 1, 1])).tolist()
        if self.contrasted:
            return [f"sign cos({a} pi cell of {of[j]}) * sign cos({b} pi cell of {of[h]})" for j, h, a, b in terms]
        absent = [(j, self.scores[j].shape[1]) for j in self.presence]

        def named(j: int, a: int) -> str:
            return f"absence of {of[j]}" if (j, a) in absent else f"cos({a} pi rank of {of[j]})"

        return [f"{named(j, a)} * {named(h, b)}" + f" / {a * b}" * (not {(j, a), (h, b)} & set(absent))
                for j, h, a, b in terms]

    def written(self, book: Book) -> tuple[list[int], Array]:
        numbers = [int(self.contrasted), len(self.pairs), len(self.partitions), *self.pairs.ravel().tolist()]
        for j, (partition, score) in enumerate(zip(self.partitions, self.scores, strict=True)):
            numbers += [book.map(j, partition, self.maps[j]) if self.maps else book.partition(j, partition),
                        score.shape[1], *score.ravel().tolist()]
        return numbers, np.empty(0)

    @classmethod
    def read(cls, integers: Numbers, floats: Numbers, book: Book) -> Self:
        contrasted, count, d = (integers.one() for _ in range(3))
        if d != book.columns:
            raise InputError("products must have the scores of all columns")
        pairs = integers.some(2 * count).reshape(-1, 2)
        partitions, scores, maps = [], [], []
        for j in range(d):
            column, partition, *cells = (book.map_at if contrasted else book.partition_at)(integers.one())
            q = integers.one()
            if column != j or not 0 <= q <= MOST_SCORES:
                raise InputError(f"products must have 0 to {MOST_SCORES} scores of each column, in order")
            partitions.append(partition)
            scores.append(integers.some(partition.size * q).reshape(partition.size, q))
            maps += cells
        if not (contrasted in (0, 1) and (pairs[:, 0] < pairs[:, 1]).all() and ((pairs >= 0) & (pairs < d)).all()
                and len(np.unique(pairs, axis=0)) == len(pairs)):
            raise InputError("the pairs of products must be different pairs of columns that exist")
        # Without np.abs, which is negative for the least integer.
        if any(((score > 2**SCORE_BITS) | (score < -(2**SCORE_BITS))).any() for score in scores):
            raise InputError(f"scores must lie between -2^{SCORE_BITS} and 2^{SCORE_BITS}")
        return cls(tuple(partitions), tuple(scores), pairs, bool(contrasted), tuple(maps))

    def on(self, finer: Sequence[Partition], known: dict[Any, Any] | None = None) -> Self:
        """Return the products of the same scores, at finer positions."""
        own = [parents(cut, partition) for cut, partition in zip(finer, self.partitions, strict=True)]
        return replace(self, partitions=tuple(finer),
                       scores=tuple(score[parent] for score, parent in zip(self.scores, own, strict=True)),
                       maps=tuple(cells[parent] for cells, parent in zip(self.maps, own, strict=False)))


def largest_squares(scores: Sequence[Integers]) -> Array:
    """Return the largest sum of squares (columns,) of a position's scores."""
    return np.array([int((score**2).sum(axis=1).max(initial=0)) for score in scores]) / 4.0**SCORE_BITS
