"""Queries about whole points: means of Chebyshev products and of other functions with values in [-1, 1].

Rounding. Released numbers are computed in floating point, with unit u = 2^-53, which moves them too. A computed phi_r
of total degree Q differs from phi_r by at most 8 Q^2 u: each step of T_q = 2 x T_(q-1) - T_(q-2) errs by at most 5u,
which U_(q-k) <= q - k + 1 carries on, and the product adds Q u. It is rounded to the lattice of 2^-40, and so is a
person's mean over her rows: each moves it by at most 2^-41. The sum over persons is exact, so only the person who is
replaced makes a difference, of at most 2 (8 Q^2 u + 2^-40) / n to a mean. Then the sum is rounded to a float (at most
twice), divided by n and multiplied by a weight, each with an error of at most u, because a mean is at most 1: with the
terms of the second order at most 4u for either table, 8u for both. `rounding` adds all this to each mean.

Whole-row functions with profiles of degree q <= 8 err by at most 2 d (8 q^2 + 4) units in the last place times
sum |c_m| <= 1 + 8 4/pi over 1 - low^d, which the same formula covers with degree 5 d q / sqrt(1 - low^d): 12,800 d^2
units, where the product is 11,544 d for q = 8.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from trigmech._arrays import Array
from trigmech.domain import Domain
from trigmech.errors import BudgetError, InputError
from trigmech.functions import lattice
from trigmech.functions.chebyshev import ChebyshevBasis
from trigmech.functions.features import Features, FunctionSet
from trigmech.functions.index import WHOLE_ROW, FunctionIndex
from trigmech.functions.sensitivity import l1_diameter, l2_diameter
from trigmech.queries.base import UNIT, Query
from trigmech.queries.book import Book, Numbers, register
from trigmech.queries.one_way import ORDERS

# The degree of the profiles of whole-row functions.
PROFILE_DEGREE = 8


# The least weight of a function in a file; the largest is its inverse.
LEAST = 1e-100


@register
@dataclass(frozen=True, eq=False)
class Functions(Query):
    """Means of functions with values in [-1, 1], each multiplied by a weight before the noise.

    Parameters
    ----------
    features : FunctionSet
        Chebyshev products (:class:`trigmech.ChebyshevBasis`), :class:`trigmech.Features`, or custom functions.
    domain : Domain
        The domain of the coordinates.
    weights : ndarray (K,)
        Each mean is multiplied by its weight before the noise is added, and divided by it afterwards.
    members : slice
        Which K consecutive functions these are. Queries about one set of functions share the object, so
        that its values are computed once.
    proved : mapping of str to float, optional
        For "L1", "L2" or "Linf" the largest distance between the weighted values of two rows, where more is proved than
        :meth:`diameter` finds by itself.
    error : float
        The largest error of a computed value, for custom functions.

    Raises
    ------
    BudgetError
        If a weight is not positive and finite: noise divided by 0 would be all that is released.
    """

    name: ClassVar[str] = "functions"
    kind: ClassVar[str] = "function"
    shown_as: ClassVar[str] = "functions"
    features: FunctionSet
    domain: Domain
    weights: Array
    members: slice
    proved: Mapping[str, float] = field(default_factory=dict)
    error: float = 0.0

    @classmethod
    def of(cls, features: FunctionSet, domain: Domain | None = None, members: slice = slice(None),
           weights: Array | None = None, **more: Any) -> Self:
        """Return the query about some functions of a set, by default all, of numbers alone, with weights of 1."""
        places = range(features.K)[members]
        return cls(features, domain or Domain(features.d), np.ones(len(places)) if weights is None else weights,
                   slice(places.start, places.stop), **more)

    def __post_init__(self) -> None:
        places = range(self.features.K)[self.members]
        if not places or places.step != 1:
            raise BudgetError(f"the members {self.members} are not consecutive functions of {self.features.K}")
        if self.weights.shape != (len(places),) or not ((self.weights >= LEAST) & (self.weights <= 1.0 / LEAST)).all():
            raise BudgetError(f"{len(places)} functions need {len(places)} weights, which are positive and finite, "
                              f"from {LEAST:g} to {1.0 / LEAST:g}")

    @cached_property
    def degrees(self) -> NDArray[np.int64]:
        """The multi-indices of the products among the members."""
        return self._products[self.members]

    @property
    def _products(self) -> NDArray[np.int64]:
        basis = getattr(self.features, "basis", self.features)
        return basis.index if isinstance(basis, ChebyshevBasis) else np.zeros((0, self.features.d), dtype=np.int64)

    @cached_property
    def index(self) -> FunctionIndex:
        """The members, as products of coordinates and functions of whole rows."""
        return FunctionIndex(self.degrees, self.domain, self.size - len(self.degrees))

    @property
    def of_set(self) -> tuple[FunctionSet, slice]:
        return self.features, self.members

    @property
    def constant(self) -> bool:
        return self.size == len(self.degrees) == 1 and not self.degrees.any()

    @property
    def has_known_errors(self) -> bool:
        """Whether errors of smooth queries follow from the noise: not if these are functions of one's own."""
        return isinstance(self.features, Features)

    @property
    def size(self) -> int:
        return len(self.weights)

    @property
    def kinds(self) -> NDArray[np.str_]:
        return self.index.kinds

    @property
    def columns(self) -> tuple[int, ...]:
        """The columns that products are of; all, for functions of whole rows."""
        owner = np.unique(self.domain.owner, return_inverse=True)[1]
        used = (self.degrees > 0).any(axis=0) | (len(self.degrees) < self.size)
        return tuple(np.unique(owner[used]).tolist())

    def evaluate(self, points: Array) -> Array:
        return self.features.evaluate(points)[:, self.members]

    def means(self, points: Array, weights: Array | None = None) -> Array:
        return self.features.means(points)[self.members] if weights is None else weights @ self.evaluate(points)

    def encode(self, means: Array) -> Array:
        return means * self.weights

    def decode(self, vector: Array) -> Array:
        return vector / self.weights

    @property
    def decoding(self) -> Array:
        return np.diag(1.0 / self.weights)

    def deviations(self, deviation: float) -> Array:
        return np.asarray(deviation / self.weights)

    def diameter(self, norm: str) -> float:
        """Return the proved diameter, or else the smaller of two bounds.

        Each function moves by at most 2, so the weighted ones by twice the norm of the weights. And with the largest
        weight for all of them they move at least as far as with their own.
        """
        if norm in self.proved:
            return self.proved[norm]
        plain = 2.0 * float(np.linalg.norm(self.weights, ORDERS[norm]))
        if norm == "Linf" or len(self.degrees) < self.size:
            return plain
        alike = (l1_diameter if norm == "L1" else l2_diameter)(self.degrees)
        return min(plain, float(self.weights.max()) * alike)

    def rounding(self, norm: str, n: int) -> float:
        """Return half of the change by rounding in the weighted means, see the module's text."""
        own, products = self.features, len(self.degrees)
        if not isinstance(own, Features | ChebyshevBasis):
            each: float | Array = rounding(n, 0) + 2.0 * self.error / n
        else:
            # By the members' own degree: others of the set may be of higher ones.
            each = rounding(n, int(self.degrees.sum(axis=1).max(initial=0)))
            if products < self.size:
                each = np.concatenate([np.full(products, each), roundings(own, n)[self.members][products:]])
        if isinstance(each, float):
            return 0.5 * each * float(np.linalg.norm(self.weights, ORDERS[norm]))
        return 0.5 * float(np.linalg.norm(self.weights * each, ORDERS[norm]))

    def names(self, coordinates: Sequence[str]) -> list[str]:
        first = max(self.members.start - len(self._products), 0)
        return [*self.index.names(coordinates)[: len(self.degrees)],
                *(f"{WHOLE_ROW} {first + g + 1}" for g in range(self.index.whole))]

    def written(self, book: Book) -> tuple[list[int], Array]:
        """Return the number of the set of functions, the first member, and the weights.

        Raises
        ------
        InputError
            If the functions are somebody's own.
        """
        return [book.functions(self.features), self.members.start], self.weights

    @classmethod
    def read(cls, integers: Numbers, floats: Numbers, book: Book) -> Self:
        features, first, weights = book.functions_at(integers.one()), integers.one(), floats.rest()
        if not 0 <= first < first + len(weights) <= features.K:
            raise InputError("the file has means of functions that it does not contain")
        if not ((weights >= LEAST) & (weights <= 1.0 / LEAST)).all():
            raise InputError("the weights of functions must be positive")
        return cls.of(features, book.domain, slice(first, first + len(weights)), weights)


def rounding(n: int, degree: int) -> float:
    """Return how much further a mean of n persons, computed in floating point, moves than an exact one.

    The degree is the largest total degree of a function; see the module's text.
    """
    return (16.0 * degree**2 * UNIT + 2.0 * lattice.STEP) / n + 8.0 * UNIT


def roundings(features: Features | ChebyshevBasis, n: int) -> Array:
    """Return how much further each computed mean (K,) moves than the exact one; see the module's text."""
    own = Features.of(features)
    whole = [rounding(n, math.ceil(5 * own.d * PROFILE_DEGREE / math.sqrt(1.0 - floor))) for floor in own.floors]
    return np.array([rounding(n, own.degree)] * own.basis.K + whole)
