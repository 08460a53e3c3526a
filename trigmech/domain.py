"""The public description of the coordinates of encoded rows: which are numbers, and which are indicators."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from trigmech.errors import InputError


@dataclass(frozen=True)
class OneHotGroup:
    """The indicator coordinates of one column: in every row each is 0 or 1, and at most one of them is 1.

    Parameters
    ----------
    coordinates : tuple of int
        At least one, ascending.
    complete : bool
        Whether exactly one is 1, as for the categories of a column; else all may be 0, as where the column holds an
        ordinary number instead of one of its special values.
    value : int, optional
        The coordinate of the column's number, which is 0 wherever an indicator is 1.
    """

    coordinates: tuple[int, ...]
    complete: bool
    value: int | None = None


@dataclass(frozen=True)
class Domain:
    """The coordinates of encoded rows: numbers in [-1, 1], and groups of indicators.

    Parameters
    ----------
    d : int
        Number of coordinates.
    groups : tuple of OneHotGroup
        Disjoint.
    levels : tuple of (int, tuple of float)
        For numbers with few values: the coordinate, and the values, ascending in [-1, 1].

    Raises
    ------
    InputError
        If a coordinate is out of range or in two groups, or a group's value is an indicator.
    """

    d: int
    groups: tuple[OneHotGroup, ...] = ()
    levels: tuple[tuple[int, tuple[float, ...]], ...] = field(default=(), repr=False)

    def __init__(self, d: int, groups: Iterable[OneHotGroup] = (),
                 levels: Iterable[tuple[int, tuple[float, ...]]] = ()) -> None:
        object.__setattr__(self, "d", d)
        object.__setattr__(self, "groups", tuple(groups))
        object.__setattr__(self, "levels", tuple(levels))
        taken = [c for group in self.groups for c in group.coordinates]
        values = [group.value for group in self.groups if group.value is not None]
        if not (all(group.coordinates for group in self.groups) and set(taken) | set(values) <= set(range(d))
                and len(set(taken)) == len(taken) and not set(taken) & set(values)
                and len(set(values)) == len(values)):
            raise InputError(f"the groups {self.groups} do not fit {d} coordinates")

    @cached_property
    def numbers(self) -> tuple[int, ...]:
        """The coordinates that are no indicators."""
        taken = {c for group in self.groups for c in group.coordinates}
        return tuple(j for j in range(self.d) if j not in taken)

    @cached_property
    def owner(self) -> NDArray[np.int64]:
        """A number (d,) for the column that each coordinate belongs to: that of its first coordinate."""
        owner = np.arange(self.d)
        for group in self.groups:
            first = min(group.coordinates) if group.value is None else group.value
            owner[list(group.coordinates)] = first
        return owner

    def levels_of(self, coordinate: int) -> NDArray[np.float64] | None:
        """Return the few values (l,) that a number can have, or None."""
        levels = dict(self.levels).get(coordinate)
        return None if levels is None else np.array(levels)

    def check(self, points: NDArray[np.float64]) -> None:
        """Raise an InputError if rows (n, d) do not keep to the domain, which sensitivities rely on."""
        for group in self.groups:
            indicators = points[:, list(group.coordinates)]
            count = indicators.sum(axis=1)
            valid = ((indicators == 0.0) | (indicators == 1.0)).all() and (
                (count == 1.0).all() if group.complete else (count <= 1.0).all())
            if group.value is not None:
                valid = valid and not points[count == 1.0, group.value].any()
            if not valid:
                raise InputError(f"coordinates {group.coordinates} must hold indicators, of which one is 1 in a row")
