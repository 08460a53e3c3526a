"""The assumed errors of guesses of unmeasured moments, for a table that nobody has seen.

When the table is made, a moment with much noise or without a measurement is guessed: from the other moments of its
column, or by independence. The standard deviations of these guesses are assumptions. They are stated here.
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
    """Return the assumed standard deviation of the mean of T_a about the guess from lower degrees."""
    return 0.5 / np.sqrt(degree)


def prior_pair(first: Any, second: Any) -> Any:
    """Return the assumed standard deviation of the mean of T_a T_b about independence."""
    return 0.15 / (first * second) ** 0.25


def prior_deviations(degrees: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the assumed standard deviation (K,) of the guess of each Chebyshev product's mean."""
    index = FunctionIndex.of(degrees)
    deviations = np.full(index.K, PRIOR_TRIPLE)
    deviations[index.single] = prior_single(index.highest[index.single])
    pairs = index.width == 2
    deviations[pairs] = prior_pair(index.highest[pairs], (index.total - index.highest)[pairs])
    return deviations
