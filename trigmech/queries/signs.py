"""Queries about the coarse shape of a number: signs of its first cosines, for noise in the max norm."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from trigmech._arrays import Array
from trigmech.domain import Domain
from trigmech.errors import InputError, shown
from trigmech.functions.contrasts import signs
from trigmech.functions.naming import column_name
from trigmech.functions.partition import columns_of, even_edges
from trigmech.queries.base import UNIT, length_of_ones
from trigmech.queries.book import Book, Numbers, register
from trigmech.queries.one_way import MOST_CONTRASTS, ORDERS, Look


@register
@dataclass(frozen=True, eq=False)
class Signs(Look):
    """The means of the signs of a number's first cosines, beside those of its special values; for noise in max norm.

    count: The number of cosines, at least 1 and below the number of intervals.

    The cosines are cos(pi a (i + 1/2) / c) at interval i of c, for a = 1, 2, ... They are 0 at special values, and each
    special value has a sign of its own: 1 there, and -1 elsewhere. These means tell the coarse shape of a column. They
    do not determine the frequencies of all intervals, so a prior must fill the rest
    (:mod:`trigmech.reconstruction.densities`).

    Proof of the diameters: a row has one position, and its values are the signs of that position. So a replaced row
    moves n times the means by the difference of two positions' signs. All pairs of positions are compared, in integers.
    In the max norm the difference is at most 2, for any number of functions.
    """

    name: ClassVar[str] = "signs"
    encoding: ClassVar[str] = "signs"
    count: int

    def __post_init__(self) -> None:
        if not 0 < self.count < self.partition.intervals <= MOST_CONTRASTS:
            raise InputError(f"signs of cosines must be at least 1 and fewer than the intervals, of which there are at "
                             f"most {MOST_CONTRASTS}; given {shown(self.count)} of {self.partition.intervals}")

    @cached_property
    def values(self) -> NDArray[np.int64]:
        """The signs (positions, size)."""
        return signs(len(self.partition.indicators), self.partition.intervals, self.count)

    @property
    def size(self) -> int:
        return len(self.partition.indicators) + self.count

    def evaluate(self, points: Array) -> Array:
        return self.values[self.partition.codes(points)].astype(np.float64)

    def diameter(self, norm: str) -> float:
        """Return the largest distance between the signs of two positions. It is computed without rounding."""
        values = np.unique(self.values, axis=0).astype(np.float64)
        return max(float(np.linalg.norm(values - own, ORDERS[norm], axis=1).max()) for own in values)

    def rounding(self, norm: str, n: int) -> float:
        """Return the rounding error. Sums of signs are exact, and each entry is at most 1."""
        return 4.0 * UNIT * length_of_ones(norm, self.size)

    def names(self, coordinates: Sequence[str]) -> list[str]:
        held = [f"sign of {coordinates[c]}" for c in self.partition.indicators]
        own = column_name(self.partition, coordinates)
        return held + [f"sign cos({a} pi place of {own})" for a in range(1, self.count + 1)]

    def written(self, book: Book) -> tuple[list[int], Array]:
        return [book.partition(self.column, self.partition), self.count], np.empty(0)

    @classmethod
    def read(cls, integers: Numbers, floats: Numbers, book: Book) -> Self:
        column, partition = book.partition_at(integers.one())
        return cls(column, partition, integers.one())

    @classmethod
    def examples(cls, domain: Domain) -> Sequence[Self]:
        return [cls(j, own.cut(even_edges(own.levels, 7)), count) for j, own in enumerate(columns_of(domain))
                if own.value is not None for count in (1, 4) if own.levels is None or len(own.levels) > count]

    @property
    def greatest_noise(self) -> float:
        """The deviation in the share of the rows at which a cosine's sign is 1.

        That share is (1 + mean - special) / 2, and the share of special values is the sum of (1 + mean) / 2 over their
        signs.
        """
        return 0.25 * math.sqrt(4.0 + len(self.partition.indicators))

    @property
    def resolved(self) -> Array:
        changes = (np.diff(self.values[len(self.partition.indicators) :], axis=0) != 0).any(axis=1)
        return self.partition.edges[np.concatenate([[True], changes, [True]])]

    def noise_of(self, values: Array) -> Array:
        """Return the noise in the means, as far as signs tell them.

        A function counts as its least-squares fit by a constant and the signs. The rest is not measured.
        """
        known = np.column_stack([np.ones(self.partition.size), self.values])
        return np.asarray(np.linalg.norm((values @ np.linalg.pinv(known).T)[..., 1:], axis=-1))
