"""The query for the dependence between columns when rows are few: products of the entries of unit vectors."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from trigmech._arrays import Array, Integers
from trigmech.errors import InputError
from trigmech.functions.naming import column_name
from trigmech.functions.partition import Partition, all_codes
from trigmech.queries.base import UNIT, Query, length_of_ones, parents
from trigmech.queries.book import Book, Numbers, register

# Scores are multiples of 2^-10, and entries of directions multiples of 2^-15, so that sums over rows are exact.
SCORE_BITS, ENTRY_BITS = 10, 15
# Scores of ranks are below 64. With this limit the squares of a hundred thousand columns fit into 63 bits.
LARGEST_SCORE = 2**16
# The mean over a person's rows is rounded to a multiple of 2^-40.
LATTICE = 2.0**-40


@register
@dataclass(frozen=True, eq=False)
class Directions(Query):
    """Means of products of two entries of the direction of a row's scores, for all pairs of columns.

    Each position of a column has a score. Some columns of numbers have a second score, which tells special and missing
    values from numbers. Let z be the vector of a row's e scores: one of each of the d columns, then the second ones.
    The direction is u = z / |z|, or 0 if z is 0, with each entry rounded towards 0 to a multiple of 2^-15. The query
    measures the means of u_i u_j for i < j, where entries i and j belong to different columns. With normal scores of
    the ranks they are nearly proportional to rank correlations. All products together get only as much noise as one
    bounded function.

    partitions: The partitions of all columns of the schema, at least two.
    scores (size,) of int: The scores of each entry at the positions of its column, in units of 2^-10, between -2^16 and
      2^16.
    presence: The columns of the entries after the first d, ascending. They are numbers with indicators.

    Sensitivity. Rounding towards 0 leaves |u| <= 1. For u and v of length at most 1, with ||.|| the Frobenius norm,

        2 sum over i < j of (u_i u_j - v_i v_j)^2 <= ||u u' - v v'||^2 = |u|^4 + |v|^4 - 2 (u . v)^2 <= 2,

    so the vector of all products moves by at most 1 in L2. By Cauchy and Schwarz, the absolute products of one row sum
    to at most ((sum |u_i|)^2 - |u|^2) / 2 <= (e - 1) / 2, so the vector moves by at most e - 1 in L1. A single product
    lies between -1/2 and 1/2, and moves by at most 1. The proof holds for any e functions of a row, whatever their
    columns, and for some of the products. Cost: e^2 / 2 multiplications for each row.
    """

    name: ClassVar[str] = "directions"
    kind: ClassVar[str] = "product of directions"
    order: ClassVar[int] = 3  # type: ignore[misc]
    shown_as: ClassVar[str] = "products"
    summed: ClassVar[str] = "means"
    partitions: tuple[Partition, ...]
    scores: tuple[Integers, ...]
    presence: tuple[int, ...] = ()

    @property
    def size(self) -> int:
        return math.comb(len(self.scores), 2) - len(self.presence)

    @property
    def correlation_noise(self) -> float:
        """A product is about the correlation over the number of entries."""
        return float(len(self.scores))

    @property
    def columns(self) -> tuple[int, ...]:
        return tuple(range(len(self.partitions)))

    @cached_property
    def owners(self) -> Integers:
        """The column of each entry (e,)."""
        return np.array([*range(len(self.partitions)), *self.presence], dtype=np.int64)

    @cached_property
    def pairs(self) -> Integers:
        """The two entries of each product (K, 2)."""
        found = np.column_stack(np.triu_indices(len(self.scores), 1)).astype(np.int64)
        return found[self.owners[found[:, 0]] != self.owners[found[:, 1]]]

    def entries(self, codes: NDArray[Any]) -> Array:
        """Return the directions (m, e) of rows, given their positions (m, d). Every machine gives the same bits."""
        scores = np.array([score[codes[:, j]] for score, j in zip(self.scores, self.owners.tolist(), strict=True)])
        # The sums are whole numbers below 2^53, so only the root and the quotients round. The factor outweighs this.
        length = np.sqrt((scores**2).sum(axis=0).astype(np.float64)) * (1.0 + 2.0**-50)
        made = scores * 2.0**ENTRY_BITS
        made /= np.maximum(length, 1.0)
        return np.ascontiguousarray((np.trunc(made, out=made) * 2.0**-ENTRY_BITS).T)

    def evaluate(self, points: Array) -> Array:
        entries = self.entries(all_codes(self.partitions, points))
        return np.asarray(entries[:, self.pairs[:, 0]] * entries[:, self.pairs[:, 1]])

    def means(self, points: Array, weights: Array | None = None) -> Array:
        # Products are on the lattice, so with weights of 1 floats hold the sums of 2^13 rows exactly.
        entries = self.entries(all_codes(self.partitions, points))
        weighted = entries / len(entries) if weights is None else entries * weights[:, None]
        return np.asarray((weighted.T @ entries)[tuple(self.pairs.T)])

    def diameter(self, norm: str) -> float:
        """Return 1 in L2 and Linf, and e - 1 in L1; see the class for the proof."""
        return float(len(self.scores) - 1) if norm == "L1" else 1.0

    def rounding(self, norm: str, n: int) -> float:
        """Return the rounding error of floats and of the mean over a person's rows, which lies on the lattice."""
        return 4.0 * UNIT * self.diameter(norm) + length_of_ones(norm, self.size) * LATTICE / n

    def names(self, coordinates: Sequence[str]) -> list[str]:
        names = [column_name(partition, coordinates) for partition in self.partitions]
        names += [f"presence of {names[j]}" for j in self.presence]
        return [f"direction of {names[j]} * direction of {names[h]}" for j, h in self.pairs.tolist()]

    def written(self, book: Book) -> tuple[list[int], Array]:
        d = len(self.partitions)
        numbers = [d]
        for j, (partition, score) in enumerate(zip(self.partitions, self.scores[:d], strict=True)):
            numbers += [book.partition(j, partition), *score.tolist()]
        for j, score in zip(self.presence, self.scores[d:], strict=True):
            numbers += [j, *score.tolist()]
        return numbers, np.empty(0)

    @classmethod
    def read(cls, integers: Numbers, floats: Numbers, book: Book) -> Self:
        if (d := integers.one()) != book.columns or d < 2:
            raise InputError("directions must have the scores of all columns, and of at least two")
        partitions, scores, presence = [], [], list[int]()
        for j in range(d):
            column, partition = book.partition_at(integers.one())
            if column != j:
                raise InputError("directions must have the scores of all columns, in order")
            partitions.append(partition)
            scores.append(integers.some(partition.size))
        # Older files end here.
        while integers.left:
            j = integers.one()
            if not (presence or [-1])[-1] < j < d or partitions[j].value is None or not partitions[j].indicators:
                raise InputError("second scores of directions must be of numbers with special or missing values, in "
                                 "order")
            presence.append(j)
            scores.append(integers.some(partitions[j].size))
        if any(((score > LARGEST_SCORE) | (score < -LARGEST_SCORE)).any() for score in scores):
            raise InputError(f"scores of directions must lie between -{LARGEST_SCORE} and {LARGEST_SCORE}")
        return cls(tuple(partitions), tuple(scores), tuple(presence))

    def on(self, finer: Sequence[Partition], known: dict[Any, Any] | None = None) -> Self:
        own = [parents(cut, partition) for cut, partition in zip(finer, self.partitions, strict=True)]
        return replace(self, partitions=tuple(finer), scores=tuple(
            score[own[j]] for score, j in zip(self.scores, self.owners.tolist(), strict=True)))
