"""The interface of a family of queries for planners, and checks that all families share.

A family is public: it is made from a seed and never looks at data. Its answers on a private table are private.
"""

from collections.abc import Iterable
from typing import Protocol, cast, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from trigmech._arrays import Array, Integers
from trigmech._parallel import in_order
from trigmech._validate import check_integers, finite, numbers
from trigmech.distribution import Distribution
from trigmech.errors import InputError


@runtime_checkable
class Family(Protocol):
    """The facts about queries that decide the choice of functions to measure; all of it is public.

    A family has one or more *parts*, such as the widths of its kernels. If a class states ``symmetric = True``,
    its importance must not change when columns are exchanged, and is asked only for the first columns; see
    :func:`is_symmetric`.
    """

    d: int

    @property
    def labels(self) -> tuple[str, ...]:
        """One short text for each part."""

    def importance(self, index: ArrayLike) -> Array:
        """Return how much each product phi_r(x) = T_{r_1}(x_1) ... T_{r_d}(x_d) matters to each part.

        Parameters
        ----------
        index : array_like (K, d) of int
            The r, at least 0.

        Returns
        -------
        ndarray (parts, K)
            The mean over random queries f of c_r^2, where f = sum_r c_r phi_r. Random means before the seed is known:
            it is an expectation, not an average over the queries that were drawn.

        Raises
        ------
        InputError
            If the index breaks a rule above.

        Notes
        -----
        Privacy: the result depends on the family's parameters alone, which are public.
        Cost: O(K d) for each part.
        """


def is_symmetric(family: Family) -> bool:
    """Return whether a family's class declares ``symmetric = True``: that it treats all columns alike.

    An inherited declaration does not count, because the class's own ``importance`` may differ from the inherited one.
    """
    return vars(type(family)).get("symmetric") is True


def distinct(labels: Iterable[str]) -> tuple[str, ...]:
    """Return the labels, those that occurred before with the first number from 2 that makes them new: "a (2)"."""
    given = list(labels)
    found: list[str] = []
    for label in given:
        name, count = label, 1
        while name in found or (count > 1 and name in given):
            count += 1
            name = f"{label} ({count})"
        found.append(name)
    return tuple(found)


def answerable(family: Family) -> "Workload":
    """Return a family that has answers and coefficients.

    Raises an InputError if it lacks one.
    """
    for name in ("answers", "coefficients"):
        if not callable(getattr(family, name, None)):
            raise InputError(f"{type(family).__name__} has no {name}(): it can be planned for, but not asked")
    return cast("Workload", family)


class Workload(Family, Protocol):
    """A family of queries that can be answered."""

    def answers(self, points: ArrayLike, weights: ArrayLike | None = None) -> Array:
        """Return the exact answers on weighted points.

        Parameters
        ----------
        points : array_like (n, d)
            Points of the cube; private if they are a table.
        weights : array_like (n,), optional
            Default 1/n each.

        Returns
        -------
        ndarray (queries, parts)
        """

    def coefficients(self, index: ArrayLike, start: int = 0, stop: int | None = None) -> Array:
        """Return the Chebyshev coefficients of the queries that were drawn.

        Parameters
        ----------
        index : array_like (K, d) of int
            The r, at least 0, of the products phi_r(x) = T_{r_1}(x_1) ... T_{r_d}(x_d).
        start, stop : int
            The range of queries, in the order of the rows of the answers; default all. 0 <= start <= stop <= queries.

        Returns
        -------
        ndarray (stop - start, parts, K)
            The c_r of each query f = sum_r c_r phi_r, so that the answer on weighted points is sum_r c_r E phi_r.
            Parts are the columns of the answers.

        Raises
        ------
        InputError
            If the index, start or stop breaks a rule above.

        Notes
        -----
        Privacy: the queries are public.
        """

    def errors(self, table: ArrayLike, distribution: Distribution) -> Array:
        """Return the absolute errors of the distribution's answers.

        Parameters
        ----------
        table : array_like (n, d), private
            Points of the cube.
        distribution : Distribution

        Returns
        -------
        ndarray, private
            In the shape of the answers.
        """
        return self.error_of(self.answers(distribution.points, distribution.weights) - self.answers(table))

    def error_of(self, difference: Array) -> Array:
        """Return the errors of answers that differ from the exact ones by so much: the absolute differences."""
        return np.abs(difference)


def weighted_points(points: ArrayLike, weights: ArrayLike | None, d: int) -> tuple[Array, Array]:
    points = numbers("points", points, "n", d)
    if len(points) == 0 or not all(in_order(lambda a, b: bool(np.isfinite(points[a:b]).all()), len(points), 2**14)):
        raise InputError(f"points must be finite numbers of shape (n, {d}) with n of at least 1; their shape is "
                         f"{points.shape}")
    if weights is None:
        return points, np.full(len(points), 1.0 / len(points))
    return points, np.ascontiguousarray(finite("weights", weights, len(points)), dtype=np.float64)


def multi_indices(index: ArrayLike, d: int) -> Integers:
    array = numbers("index", index, "K", d)
    if array.dtype.kind not in "iu":
        raise InputError(f"index must hold integers; its type is {array.dtype.name}")
    array = array.astype(np.int64, copy=False)
    if (array < 0).any():
        raise InputError("index must hold integers that are at least 0; one is negative")
    return array


def asked(index: ArrayLike, d: int, start: int, stop: int | None, count: int) -> tuple[Integers, int, int]:
    """Return the multi-indices, the first query and the one after the last."""
    return multi_indices(index, d), *query_span(start, stop, count)


def query_span(start: int, stop: int | None, count: int) -> tuple[int, int]:
    """Return the first query and the one after the last."""
    stop = count if stop is None else stop
    check_integers(0, start=start, stop=stop)
    if not start <= stop <= count:
        raise InputError(f"of {count} queries, start and stop must be 0 <= start <= stop <= {count}; "
                         f"given {start} and {stop}")
    return int(start), int(stop)


def check_widths(widths: tuple[float, ...]) -> None:
    if not widths or not all(width > 0 for width in widths):
        raise InputError(f"widths must be positive, not {widths}")
