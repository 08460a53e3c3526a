"""A description of each measured function: its columns, degrees, kind and position.

A design makes one index; it goes with the noisy moments to the reconstruction, the error bars and the report, so that
so they need not guess the meaning of a number from multi-indices.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trigmech._validate import numbers
from trigmech.domain import Domain
from trigmech.errors import InputError

Positions = NDArray[np.int64]

WHOLE_ROW = "whole row"
# By how many numbers and how many categories a product is of.
KINDS = {(1, 0): "column", (2, 0): "pair", (3, 0): "triple", (0, 1): "frequency", (0, 2): "two-way table",
         (1, 1): "number by category"}


@dataclass(frozen=True, eq=False)
class FunctionIndex:
    """The measured functions: Chebyshev products of coordinates, then functions of whole rows. Public.

    Parameters
    ----------
    degrees : ndarray (K', d) of int
        A multi-index for each product; none is negative. All 0: the constant.
    domain : Domain
        The domain of the d coordinates.
    whole : int
        How many functions of whole rows follow.

    Raises
    ------
    InputError
        If the degrees are not (K', d) numbers, or one is negative.
    """

    degrees: Positions
    domain: Domain
    whole: int = 0

    def __init__(self, degrees: Positions, domain: Domain, whole: int = 0) -> None:
        degrees = numbers("degrees", degrees, "K", domain.d).astype(np.int64, copy=False)
        if (degrees < 0).any():
            raise InputError("degrees must not be negative")
        object.__setattr__(self, "degrees", degrees)
        object.__setattr__(self, "domain", domain)
        object.__setattr__(self, "whole", whole)

    @classmethod
    def of(cls, functions: Any, domain: Domain | None = None) -> "FunctionIndex":
        """Return the index of functions. Custom functions (not Chebyshev products) count as whole-row functions.

        Parameters
        ----------
        functions : Features, ChebyshevBasis or another FunctionSet; or multi-indices (K, d)
        domain : Domain, optional
            Default: numbers alone.
        """
        if isinstance(functions, np.ndarray):
            return cls(functions, domain or Domain(functions.shape[1]))
        degrees = getattr(getattr(functions, "basis", functions), "index", np.zeros((0, functions.d), dtype=np.int64))
        return cls(degrees, domain or Domain(functions.d), functions.K - len(degrees))

    @property
    def d(self) -> int:
        """The number of coordinates."""
        return self.domain.d

    @property
    def K(self) -> int:  # noqa: N802 - the thesis's letter
        """The number of functions, including those of whole rows."""
        return len(self.degrees) + self.whole

    def __repr__(self) -> str:
        kinds, counts = np.unique(self.kinds, return_counts=True)
        return f"FunctionIndex({', '.join(f'{kind}: {count}' for kind, count in zip(kinds, counts, strict=True))})"

    @cached_property
    def width(self) -> Positions:
        """The number of coordinates of each product (K',)."""
        return (self.degrees > 0).sum(axis=1)

    @cached_property
    def highest(self) -> Positions:
        """The highest degree in each product, (K',)."""
        return self.degrees.max(axis=1, initial=0)

    @cached_property
    def total(self) -> Positions:
        """The total degree of each product, (K',)."""
        return self.degrees.sum(axis=1)

    @cached_property
    def single(self) -> Positions:
        """The positions of the products of one coordinate."""
        return np.flatnonzero(self.width == 1)

    @cached_property
    def joint(self) -> Positions:
        """The positions of the products of several coordinates."""
        return np.flatnonzero(self.width > 1)

    @cached_property
    def by_column(self) -> Positions:
        """Degrees (K', d) of columns instead of coordinates: a column's indicators count as its first coordinate."""
        together = np.zeros_like(self.degrees)
        np.add.at(together.T, self.domain.owner, self.degrees.T)
        return together

    @cached_property
    def column_sets(self) -> Positions:
        """A number (K',) for the set of columns that each product is of."""
        _, sets = np.unique(self.by_column > 0, axis=0, return_inverse=True)
        return sets.ravel()

    @cached_property
    def kinds(self) -> NDArray[np.str_]:
        """The kind of each function (K,): a value of `KINDS`, "constant", "k columns" for more, or "whole row"."""
        of_number = np.isin(np.arange(self.d), self.domain.numbers)
        counts = np.column_stack([(self.degrees[:, part] > 0).sum(axis=1) for part in (of_number, ~of_number)])
        named = [("constant" if not any(pair) else KINDS.get(pair, f"{sum(pair)} columns"))
                 for pair in map(tuple, counts.tolist())]
        return np.array([*named, *[WHOLE_ROW] * self.whole], dtype=np.str_)

    def of_kind(self, kind: str) -> Positions:
        """Return the positions of the functions of a kind."""
        return np.flatnonzero(self.kinds == kind)

    def alone(self, coordinates: Sequence[int]) -> Positions:
        """Return where the functions of one coordinate stand, in whatever order they are.

        Returns
        -------
        ndarray (p, c)
            The position of T_1, ..., T_p of each of the c coordinates, p at least 1 and the largest degree measured of
            them; -1 where T_a of a coordinate was not measured.
        """
        degrees, of = self.highest[self.single], self.degrees[self.single].argmax(axis=1)
        places = np.full((int(degrees[np.isin(of, coordinates)].max(initial=1)), self.d), -1)
        here = degrees <= len(places)
        places[degrees[here] - 1, of[here]] = self.single[here]
        return places[:, list(coordinates)]

    def bilinear(self, coordinates: Sequence[int]) -> tuple[Positions, Positions]:
        """Return the positions (P,) of the products x_i x_j of two of these coordinates, and their i and j (P, 2)."""
        inside = np.isin(np.arange(self.d), coordinates)
        places = np.flatnonzero((self.total == 2) & (self.width == 2) & ~(self.degrees[:, ~inside] > 0).any(axis=1))
        return places, np.nonzero(self.degrees[places])[1].reshape(-1, 2)

    def names(self, coordinates: Sequence[str]) -> list[str]:
        """Return each function (K,) in words: "age", "T2(age)", "age * T3(income)", "work=Private".

        Parameters
        ----------
        coordinates : sequence of str
            Names of the d coordinates.
        """
        def name(row: list[int]) -> str:
            factors = [coordinates[j] if a == 1 else f"T{a}({coordinates[j]})" for j, a in enumerate(row) if a]
            return " * ".join(factors) or "1"

        whole = [f"{WHOLE_ROW} {g + 1}" for g in range(self.whole)]
        return [*map(name, self.degrees.tolist()), *whole]
