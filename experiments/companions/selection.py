"""Private selection: the exponential mechanism, report noisy max, above threshold."""

from collections.abc import Callable, Iterable, Iterator

import numpy as np
from numpy.typing import ArrayLike

from experiments import Array
from trigmech._validate import check_positive, finite
from trigmech.errors import InputError

Draw = Callable[[float, float], float]


def exponents(scores: ArrayLike, sensitivity: float, epsilon: float) -> Array:
    """Return epsilon scores / (2 sensitivity), the logarithms of the exponential mechanism's law but for a constant."""
    check_positive(sensitivity=sensitivity, epsilon=epsilon)
    values: Array = finite("scores", scores, "n") * (epsilon / (2.0 * sensitivity))
    if not values.size:
        raise InputError("scores must be of one thing at least, to choose from")
    return values


def exponential(scores: ArrayLike, sensitivity: float, epsilon: float, rng: np.random.Generator) -> int:
    """Return an index drawn with probability proportional to exp(epsilon score / (2 sensitivity)): epsilon-private."""
    return several(scores, sensitivity, epsilon, 1, rng)[0]


def several(scores: ArrayLike, sensitivity: float, epsilon: float, count: int, rng: np.random.Generator) -> list[int]:
    """Return up to `count` different indices, each drawn from those left at epsilon / count: epsilon-private."""
    at = exponents(scores, sensitivity, epsilon / count)
    # The largest of these with Gumbel noise, one after the other, have that law.
    return np.argsort(-(at + rng.gumbel(size=at.size)))[:count].tolist()


def noisy_max(scores: ArrayLike, sensitivity: float, epsilon: float, draw: Draw, monotone: bool = False) -> int:
    """Return the index of the largest score with Laplace noise of scale 2 sensitivity / epsilon: epsilon-private.

    Half that scale is enough where all scores move one way (`monotone`). `draw(value, scale)` adds the noise.
    """
    scale = (1.0 if monotone else 2.0) * sensitivity / epsilon
    return int(np.argmax([draw(value, scale) for value in 2.0 * sensitivity / epsilon
                          * exponents(scores, sensitivity, epsilon)]))


def above_threshold(queries: Iterable[float], threshold: float, epsilon: float, draw: Draw) -> int | None:
    """Return the place of the first query above the threshold by :func:`sparse`, None if there is none."""
    return next(sparse(queries, threshold, epsilon, 1, draw), None)


def sparse(queries: Iterable[float], threshold: float, epsilon: float, count: int, draw: Draw) -> Iterator[int]:
    """Yield the places of the first `count` queries noisily above the threshold; `draw(value, scale)` adds the noise.

    At epsilon / count for each: threshold with Lap(2 / epsilon), again after each that is found, every query, of
    sensitivity 1, with Lap(4 / epsilon). Epsilon-private however many there are, also if they depend on places before.
    """
    check_positive(epsilon=epsilon, count=count)
    each, limit = epsilon / count, draw(threshold, 2.0 * count / epsilon)
    for place, query in enumerate(queries):
        if draw(query, 4.0 / each) >= limit:
            yield place
            count -= 1
            if not count:
                return
            limit = draw(threshold, 2.0 / each)
