"""The library of base distributions of smooth densities: bells, slopes and skewed ones on a public range."""

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc, ndtr

from trigmech._arrays import Array

# The number of cosines of a base.
COSINES = 16
# The standard deviations of the beta distributions, as fractions of the public range. Their means lie STEP deviations
# apart, and at least LEAST_MEAN and NEAREST deviations from both ends.
DEVIATIONS = (0.03, 0.045, 0.065, 0.09, 0.13, 0.18, 0.24)
STEP, LEAST_MEAN, NEAREST, LEAST_PARAMETER = 0.4, 0.02, 0.5, 0.7
# The wider distributions that are mixed with them: factors of the deviation, parts, and probabilities. Standard
# deviations of public columns and of normal ones come out right together only with light and heavy tails.
WIDER = ((1.0, 0.0, 0.5), (2.0, 0.05, 0.4), (3.0, 0.08, 0.1))
# The medians of the log-normal distributions, from either end, and the deviations of their logarithms.
MEDIANS, LOG_DEVIATIONS = (0.015, 0.03, 0.06, 0.1, 0.16, 0.25, 0.35), (0.35, 0.6, 0.9, 1.4)
# The prior probability of the even base, and that of a skewed one if the base is not even. Each deviation of the beta
# distributions is as probable as the others, however many means it has.
EVEN, SKEWED = 0.1, 0.33
# A base's mean, or the median of a skewed one, is in one of so many equal parts of the range.
PLACES = 5


class Bases(NamedTuple):
    """Bases on equal intervals.

    ``masses`` (b, m), ``cosines`` (b, m, K) and prior ``probabilities`` (b,), whose total with the even base is 1.
    ``widths`` (b,) number the deviations of bells and of skewed bases; ``places`` (b,) are the parts of the range.
    """

    masses: Array
    cosines: Array
    probabilities: Array
    widths: NDArray[np.int64]
    places: NDArray[np.int64]


@lru_cache(maxsize=24)
def bases(count: int) -> Bases:
    """Return the bases on ``count`` equal intervals."""
    ends = np.linspace(0.0, 1.0, count + 1)
    found, probabilities, kinds = list[Array](), list[float](), list[tuple[int, float]]()

    def beta(mean: float, deviation: float) -> tuple[float, float]:
        size = mean * (1.0 - mean) / deviation**2 - 1.0
        return mean * size, (1.0 - mean) * size

    for width, deviation in enumerate(DEVIATIONS):
        nearest = max(LEAST_MEAN, NEAREST * deviation)
        count = math.ceil((1.0 - 2.0 * nearest) / (STEP * deviation)) + 1
        means = [mean for mean in np.linspace(nearest, 1.0 - nearest, count).tolist()
                 if min(beta(mean, deviation)) >= LEAST_PARAMETER]
        for mean in means:
            below = betainc(*beta(mean, deviation), ends)
            for factor, part, probability in WIDER:
                wide = betainc(*beta(mean, min(factor * deviation, math.sqrt(0.5 * mean * (1.0 - mean)))), ends)
                found.append((1.0 - part) * below + part * wide)
                probabilities.append((1.0 - SKEWED) * probability / (len(DEVIATIONS) * len(means)))
                kinds.append((width, mean))
    skewed = 2 * len(MEDIANS) * len(LOG_DEVIATIONS)
    for median in MEDIANS:
        for width, deviation in enumerate(LOG_DEVIATIONS, len(DEVIATIONS)):
            below = np.concatenate([[0.0], ndtr(np.log(ends[1:] / median) / deviation)])
            below /= below[-1]
            found += [below, 1.0 - below[::-1]]
            kinds += [(width, median), (width, 1.0 - median)]
    probabilities += [SKEWED / skewed] * skewed
    below, k = np.array(found), np.arange(1.0, COSINES + 1.0)
    # The integral of sqrt(2) cos(k pi B) over each interval, with respect to the base.
    cosines = np.sqrt(2.0) * np.diff(np.sin(np.pi * k * below[:, :, None]) / (np.pi * k), axis=1)
    widths, places = (np.array(each) for each in zip(*kinds, strict=True))
    return Bases(np.diff(below), cosines, (1.0 - EVEN) * np.array(probabilities), widths,
                 np.minimum((places * PLACES).astype(np.int64), PLACES - 1))
