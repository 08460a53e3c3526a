"""Queries that compare a table with a fixed distribution: each query is one number.

They are not means, so they have no decoding and no form in a file. Each proves in its docstring how far its number
moves when one of n rows is replaced. Such a replacement moves 1/n of mass from one cell of a table to another one, or
nothing. For a person with several rows the moved mass is spread over cells: it is 1/n too, and the proofs use no more
than that.

Rounding. With u = 2^-53, cells K and parts P, each frequency errs by at most u of itself, each difference by u more, a
sum of K terms by at most K u of their sum, which is at most 2 for differences and 1 for frequencies, and the mean of P
distances by (P + 1) u: less than 2 (K + P + 4) u together. A mean of products of scores errs by (K + 4) u of the
largest product in size.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from trigmech._arrays import Array
from trigmech.queries.base import UNIT, Query
from trigmech.queries.joint import Marginal


@dataclass(frozen=True, eq=False)
class Distance(Query):
    """A distance between the tables of some columns and those of a fixed distribution.

    references: The fixed probability of each cell, in the shape of its table.
    ordered: True: the largest difference of the shares of rows up to a cell, in the order of the cells (Kolmogorov and
      Smirnov). False: half the sum of the absolute differences (total variation).
    mean: True: the mean over the tables. False: the largest of them.

    Sensitivity. Let p and p' be the frequencies of two tables that differ in one of n rows, and q the fixed
    probabilities. At most 1/n of mass moves, so |p - p'| is at most 2/n in L1, and by the triangle inequality

        | |p - q| / 2 - |p' - q| / 2 | <= |p - p'| / 2 <= 1/n.

    Each cumulative sum of p moves by at most 1/n, and so does the largest difference of such sums, by the triangle
    inequality of the maximum norm. A maximum and a mean of numbers that each move by at most 1/n do so too.
    """

    name: ClassVar[str] = "distance"
    kind: ClassVar[str] = "distance"
    size: ClassVar[int] = 1
    tables: tuple[Marginal, ...]
    references: tuple[Array, ...]
    ordered: bool = False
    mean: bool = False

    @property
    def parts(self) -> tuple[Query, ...]:
        return self.tables

    @property
    def shape(self) -> tuple[int, ...]:
        return (sum(table.size for table in self.tables),)

    @property
    def columns(self) -> tuple[int, ...]:
        return tuple(sorted({column for table in self.tables for column in table.columns}))

    def evaluate(self, points: Array) -> Array:
        return np.concatenate([table.evaluate(points) for table in self.tables], axis=1)

    def encode(self, means: Array) -> Array:
        """Return the distance of the frequencies of all cells; it is not linear."""
        ends = np.cumsum([table.size for table in self.tables])[:-1]
        apart = [own - fixed.ravel() for own, fixed in zip(np.split(means, ends), self.references, strict=True)]
        found = [np.abs(np.cumsum(each)).max() if self.ordered else 0.5 * np.abs(each).sum() for each in apart]
        return np.array([np.mean(found) if self.mean else np.max(found)])

    def diameter(self, norm: str) -> float:
        """Return 1; see the class for the proof."""
        return 1.0

    def rounding(self, norm: str, n: int) -> float:
        """Return the error of sums over all cells, see the module's text."""
        return 2.0 * (self.shape[0] + len(self.tables) + 4.0) * UNIT

    def names(self, coordinates: Sequence[str]) -> list[str]:
        return [name for table in self.tables for name in table.names(coordinates)]


@dataclass(frozen=True, eq=False)
class Moment(Query):
    """The mean of the product of two columns' scores, less a fixed number.

    first, second: The score of each cell of the columns: fixed, finite numbers.

    Sensitivity. The mean is the sum of frequency times product over the cells. A replaced row takes 1/n of mass from
    cells and gives it to others, so the mean moves by at most 1/n times the largest product less the smallest.
    """

    name: ClassVar[str] = "moment"
    kind: ClassVar[str] = "mean product of scores"
    size: ClassVar[int] = 1
    table: Marginal
    first: Array
    second: Array
    reference: float

    @property
    def parts(self) -> tuple[Query, ...]:
        return (self.table,)

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.table.size,)

    @property
    def columns(self) -> tuple[int, ...]:
        return self.table.columns

    @property
    def products(self) -> Array:
        return np.outer(self.first, self.second).ravel()

    def evaluate(self, points: Array) -> Array:
        return self.table.evaluate(points)

    def encode(self, means: Array) -> Array:
        return np.array([(means * self.products).sum() - self.reference])

    def diameter(self, norm: str) -> float:
        """Return the largest product less the smallest; see the class for the proof."""
        return float(np.ptp(self.products))

    def rounding(self, norm: str, n: int) -> float:
        """Return the error of a sum over all cells, see the module's text."""
        return 2.0 * (self.table.size + 4.0) * UNIT * float(np.abs(self.products).max() + abs(self.reference))

    def names(self, coordinates: Sequence[str]) -> list[str]:
        return self.table.names(coordinates)


@dataclass(frozen=True, eq=False)
class RowShare(Query):
    """The share of rows for which something holds.

    holds: Returns for points (m, D) an array (m,) of bool. A row's answer must not depend on other rows.

    Sensitivity. A row counts 0 or 1, and a person the share of her rows, so a replaced one moves the mean by at most
    1/n.
    """

    name: ClassVar[str] = "share"
    kind: ClassVar[str] = "share of rows"
    size: ClassVar[int] = 1
    columns: tuple[int, ...]
    holds: Callable[[Array], NDArray[np.bool_]]

    def evaluate(self, points: Array) -> Array:
        return self.holds(points).astype(np.float64)[:, None]

    def diameter(self, norm: str) -> float:
        """Return 1; see the class for the proof."""
        return 1.0

    def rounding(self, norm: str, n: int) -> float:
        """Return the error of floats, and of a person's mean, which is rounded to the lattice of 2^-40."""
        return 4.0 * UNIT + 2.0**-40 / n

    def names(self, coordinates: Sequence[str]) -> list[str]:
        return ["rows for which a rule holds"]
