"""How wrong a guess of an unmeasured moment is supposed to be, on a table never seen.

A moment that is not measured, or badly, is guessed when the table is made: from the other moments of its column, or by
independence. The standard deviations of such guesses are a matter of opinion, and are stated here.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from trigmech.functions.index import FunctionIndex

# The deviation of x_i x_j x_k from independence.
PRIOR_TRIPLE = 0.08
# The common deviation of all pairs' T_2 T_2.
PRIOR_COHERENT = 0.1


def prior_single(degree: Any) -> Any:
    """Return the supposed standard deviation of the mean of T_a about what lower degrees suggest."""
    return 0.5 / np.sqrt(degree)


def prior_pair(first: Any, second: Any) -> Any:
    """Return the supposed standard deviation of the mean of T_a T_b about independence."""
    return 0.15 / (first * second) ** 0.25


def prior_deviations(degrees: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the supposed standard deviation (K,) of the guess of each Chebyshev product's mean."""
    index = FunctionIndex.of(degrees)
    deviations = np.full(index.K, PRIOR_TRIPLE)
    deviations[index.single] = prior_single(index.highest[index.single])
    pairs = index.width == 2
    deviations[pairs] = prior_pair(index.highest[pairs], (index.total - index.highest)[pairs])
    return deviations
