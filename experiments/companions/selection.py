"""Private selection: the exponential mechanism, report noisy max, above threshold."""

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trigmech.errors import InputError

Array = NDArray[np.float64]
Draw = Callable[[float, float], float]


def check_positive(**numbers: float) -> None:
    """Refuse what is not a positive, finite number, by its name."""
    for name, number in numbers.items():
        if not (number > 0 and math.isfinite(number)):
            raise InputError(f"{name} must be positive and finite, not {number}")


def exponents(scores: ArrayLike, sensitivity: float, epsilon: float) -> Array:
    """Return epsilon scores / (2 sensitivity), the logarithms of the exponential mechanism's law but for a constant.

    Raises
    ------
    InputError
        If there are no scores, one is not finite, or a number is not positive.
    """
    check_positive(sensitivity=sensitivity, epsilon=epsilon)
    values = np.asarray(scores, dtype=np.float64).ravel()
    if not values.size:
        raise InputError("the exponential mechanism needs at least one thing to choose from, not 0")
    if not np.isfinite(values).all():
        raise InputError(f"scores must be finite; {(~np.isfinite(values)).sum()} of {values.size} are not")
    return values * (epsilon / (2.0 * sensitivity))


def exponential(scores: ArrayLike, sensitivity: float, epsilon: float, rng: np.random.Generator) -> int:
    """Return an index drawn with probability proportional to exp(epsilon score / (2 sensitivity)): epsilon-private.

    The largest of these exponents with Gumbel noise has that law. Seeded, hence a simulation.
    """
    at = exponents(scores, sensitivity, epsilon)
    return int(np.argmax(at + rng.gumbel(size=at.size)))


def several(scores: ArrayLike, sensitivity: float, epsilon: float, count: int, rng: np.random.Generator) -> list[int]:
    """Return up to `count` different indices, each drawn from those left at epsilon / count: epsilon-private."""
    left, found = np.asarray(scores, dtype=np.float64).ravel(), list[int]()
    places = list(range(left.size))
    for _ in range(min(count, left.size)):
        found.append(places.pop(exponential(left[places], sensitivity, epsilon / count, rng)))
    return found


def noisy_max(scores: ArrayLike, sensitivity: float, epsilon: float, draw: Draw, monotone: bool = False) -> int:
    """Return the index of the largest score with Laplace noise; the scale is half as large where all scores move one
    way. `draw(value, scale)` adds the noise."""
    at = exponents(scores, sensitivity, epsilon) * (2.0 * sensitivity / epsilon)
    scale = (1.0 if monotone else 2.0) * sensitivity / epsilon
    return int(np.argmax([draw(float(value), scale) for value in at]))


def above_threshold(queries: Iterable[Any], threshold: float, epsilon: float, draw: Draw) -> int | None:
    """Return the place of the first query of sensitivity 1 that is noisily above the threshold, None if there is none.

    Threshold with Lap(2 / epsilon), each query with Lap(4 / epsilon): epsilon-private however many there are.
    """
    return next(sparse(queries, threshold, epsilon, 1, draw), None)


def sparse(queries: Iterable[Any], threshold: float, epsilon: float, count: int, draw: Draw) -> Iterator[int]:
    """Yield the places of the first `count` queries above the threshold: above threshold again, epsilon / count each.

    A new query may depend on the places before it.
    """
    check_positive(epsilon=epsilon, count=count)
    each, limit, found = epsilon / count, None, 0
    for place, query in enumerate(queries):
        limit = draw(threshold, 2.0 / each) if limit is None else limit
        if draw(float(query), 4.0 / each) >= limit:
            yield place
            limit, found = None, found + 1
            if found == count:
                return
