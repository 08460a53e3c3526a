"""From noisy frequencies of categories to probabilities."""

import numpy as np

from trigmech._arrays import Array
from trigmech.planning.few_rows import OF_CATEGORIES

# The power of the noise's part in the shrinking of categories, by the errors of columns of fourteen public tables.
# Below the second number the shrinking is left out.
POWER, LEAST_SHRUNK = 1.5, 1e-3
# Values beyond this limit are only noise, and their squares would overflow.
LARGEST = 1e100


def nearest_probabilities(values: Array, total: float = 1.0) -> Array:
    """Return the nonnegative values with this total that are nearest to some finite values."""
    ordered = np.sort(values)[::-1]
    excess = (np.cumsum(ordered) - total) / np.arange(1, len(values) + 1)
    above = np.flatnonzero(ordered > excess)
    # If all values are nearly equal, rounding can leave no entry above.
    made = np.maximum(values - excess[above[-1] if len(above) else -1], 0.0)
    found = made.sum()
    return made * (total / found) if found > 0 else np.full(len(values), total / len(values))


def shrunk_frequencies(values: Array, noise: float) -> Array:
    """Return the probabilities (k,) of categories from frequencies with this standard deviation of the noise.

    They are the nearest probabilities, moved towards even ones. Without this, noise alone would choose a few categories
    that hold all rows. Let x be the variance of the noise over that of the frequencies about even ones. The latter is
    what the measured frequencies show, and at least the one that plans assume. The distance from even probabilities is
    divided by 1 + x^POWER. On public tables posterior means of Dirichlet priors were about as good for at most five
    categories, and worse for more with little noise.
    """
    made, k = nearest_probabilities(values), len(values)
    shown = float(np.square(values - values.mean()).sum()) / max(k - 1, 1) - noise**2
    x = min(noise**2 / max(shown, min(OF_CATEGORIES / (k + 2), 1.0) / k), LARGEST)
    return made if x**POWER < LEAST_SHRUNK else 1.0 / k + (made - 1.0 / k) / (1.0 + x**POWER)
