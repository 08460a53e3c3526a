"""Smooth functions of single columns and of pairs of columns: the ways in which a whole fit may be wrong."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.polynomial.legendre import legvander
from numpy.typing import NDArray

from trigmech._arrays import Array, Codes, Integers
from trigmech.functions.partition import Partition
from trigmech.functions.released_column import ReleasedColumn

# Powers of a number, polynomials of its ranks, and categories, of which there is a function; fewer of them are
# multiplied with other columns'.
POWERS, RANKS, CATEGORIES = 3, 8, 6
POWERS_OF_PAIRS, CATEGORIES_OF_PAIRS = 2, 3
# Products that a fit can meet in reasonable time.
MOST_PRODUCTS = 2_048
# Parts of equal mass of a column.
BINS = 16
# A function that the others before it tell up to this part of its deviation is left out.
TOLD = 1e-3


@dataclass(frozen=True, eq=False)
class SmoothFunctions:
    """Functions of one column, and products of these for each pair of columns, all with mean 0 and mean square near 1.

    features (size_j, q_j): The values of each column's functions at its positions.
    powers (q_j,): The power of the number that each is, 1 for indicators. Products of powers are supposed to be
      smaller.
    joint, plain: How many of them, from the first on, are multiplied with those of other columns, and are no
      polynomials of ranks.
    """

    features: list[Array]
    powers: list[Array]
    joint: list[int]
    plain: list[int]

    @classmethod
    def of(cls, partitions: Sequence[Partition], masses: Sequence[Array]) -> "SmoothFunctions":
        """Return the functions that are orthonormal where the positions have these probabilities (size_j,)."""
        found = [_orthonormal(partition, mass) for partition, mass in zip(partitions, masses, strict=True)]
        joint = [count for _, _, count, _ in found]
        # Wide tables have products of fewer functions of each column, and the widest tables have no products.
        while sum(joint) ** 2 > 2 * MOST_PRODUCTS:
            joint = [min(count, max(joint) - 1) for count in joint]
        return cls([values for values, *_ in found], [powers for _, powers, *_ in found], joint,
                   [count for *_, count in found])

    @cached_property
    def factors(self) -> Integers:
        """The two columns and the two functions (K, 4) of each product."""
        return np.array([(a, b, i, j) for b in range(len(self.features)) for a in range(b)
                         for i in range(self.joint[a]) for j in range(self.joint[b])], dtype=np.int64).reshape(-1, 4)

    @property
    def deviations(self) -> Array:
        """How large the mean of each function (size,) may be, in the order of `evaluate`, relative to a correlation."""
        products = [1.0 / (self.powers[a][i] * self.powers[b][j]) for a, b, i, j in self.factors.tolist()]
        return np.concatenate([*(np.ones(len(own)) for own in self.powers), np.array(products)])

    @property
    def size(self) -> int:
        """How many functions there are."""
        return sum(values.shape[1] for values in self.features) + len(self.factors)

    def evaluate(self, codes: Codes) -> Array:
        """Return the values (m, size) for rows (m, d) of positions: functions of one column first."""
        own = [values[codes[:, j]] for j, values in enumerate(self.features)]
        return np.column_stack([*own, self._products(np.column_stack(own))])

    def products(self, codes: Codes, kept: NDArray[np.bool_]) -> Array:
        """Return the values (m, q) of these products (K,) for rows (m, d) of positions."""
        return self._products(np.column_stack([values[codes[:, j]] for j, values in enumerate(self.features)]), kept)

    def without_ranks(self, codes: Codes) -> Array:
        """Return the values (m, q) of all functions but polynomials of ranks, whose means far tails can dominate."""
        own = [values[codes[:, j]] for j, values in enumerate(self.features)]
        return np.column_stack([*(values[:, :count] for values, count in zip(own, self.plain, strict=True)),
                                self._products(np.column_stack(own))])

    def _products(self, own: Array, kept: NDArray[np.bool_] | None = None) -> Array:
        """Return the products of the columns' functions (m, q), which are in the order of the columns."""
        starts = np.cumsum([0, *(values.shape[1] for values in self.features)])
        a, b, i, j = (self.factors if kept is None else self.factors[kept]).T
        return np.asarray(own[:, starts[a] + i] * own[:, starts[b] + j])


def _orthonormal(partition: Partition, mass: Array) -> tuple[Array, Array, int, int]:
    """Return functions (size, q) of a column's positions, their powers (q,), how many are multiplied with others, and
    how many are no polynomials of ranks.

    They are indicators of the most frequent categories but one; for a number its powers, special values, then
    polynomials of its ranks, without which a density could be wrong only where few measured functions see it.

    Powers are made orthogonal to the special values, not these to powers. So there are functions of frequencies alone,
    which a release tells well, and the others are of ordinary numbers alone. If few rows have ordinary numbers,
    functions of both are known badly, and rows that meet these as well as they can would have wrong frequencies.
    """
    k, p = len(partition.indicators), mass / max(float(mass.sum()), np.finfo(float).tiny)
    frequent = np.argsort(-p[:k], kind="stable")
    held = [(np.eye(len(p))[c], 1.0) for c in frequent if 0.0 < p[c] < 1.0]
    if partition.value is None:
        raw = held[1 : CATEGORIES + 1]
        order, joint, plain = range(len(raw)), CATEGORIES_OF_PAIRS, len(raw)
    else:
        place = np.concatenate([np.zeros(k), partition.centres])
        count, some = min(len(held), CATEGORIES), min(len(held), 1)
        raw = [*held[:count], *((place**power, float(power)) for power in range(1, POWERS + 1))]
        joint, plain = POWERS_OF_PAIRS + some, len(raw)
        raw += _of_ranks(p, k)
        order = np.r_[count : count + POWERS_OF_PAIRS, :some, count + POWERS_OF_PAIRS : plain, some:count,
                      plain : len(raw)]
    basis, kept = [np.ones(len(p))], list[int]()
    for number, (values, _) in enumerate(raw):
        rest = values
        # Twice, because the first time leaves errors of rounding.
        for _ in range(2):
            for each in basis:
                rest = rest - float(p @ (rest * each)) * each
        size = float(np.sqrt(p @ rest**2))
        if size > TOLD * float(np.sqrt(p @ values**2)):
            basis.append(rest / size)
            kept.append(number)
    listed = [number for number in order if number in kept]
    return (np.column_stack(basis)[:, [1 + kept.index(number) for number in listed]],
            np.array([raw[number][1] for number in listed]), sum(number in kept for number in order[:joint]),
            sum(number < plain for number in kept))


def _of_ranks(p: Array, k: int) -> list[tuple[Array, float]]:
    """Return Legendre polynomials (size,) of the middle ranks of a number's positions, 0 at its k special values."""
    inside = p[k:]
    middle = (np.cumsum(inside) - 0.5 * inside) / max(float(inside.sum()), np.finfo(float).tiny)
    values = legvander(2.0 * middle - 1.0, RANKS)
    return [(np.concatenate([np.zeros(k), values[:, power]]), float(power)) for power in range(1, RANKS + 1)]


def parts(column: ReleasedColumn) -> NDArray[np.int64]:
    """Return the part (size,) of the positions that each is in: the most frequent categories, or parts of equal mass.

    Special values of a number are a part together.
    """
    k, mass = len(column.partition.indicators), column.mass
    if column.partition.value is None:
        place = np.argsort(np.argsort(-mass, kind="stable"), kind="stable")
        return np.minimum(place, BINS - 1)
    below = np.cumsum(mass[k:]) - 0.5 * mass[k:]
    total = max(float(mass[k:].sum()), np.finfo(float).tiny)
    inside = np.minimum((below / total * (BINS - 1)).astype(np.int64), BINS - 2)
    return np.concatenate([np.full(k, BINS - 1), inside])
