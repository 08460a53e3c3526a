"""What noise alone reaches: how many standard deviations a sum of noisy numbers must exceed to be clear of the noise.

The laws of noise have different tails: normal noise exceeds 6 deviations once in 10^9 numbers, Laplace noise once in
10^4. So a limit belongs to a probability, and each law has its own.
"""

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import gammaincc, ndtr
from scipy.stats import nbinom

# Noise alone counts as something real with the probability of so many deviations of normal noise.
CLEAR = 6.0
FALSE_ALARM = float(ndtr(-CLEAR))
# Longer sums have the limit of sums of so many numbers. The limit falls with the number, so it is then too high, by
# little: the sum is nearly normal.
LONGEST = 1024


def clear(law: str, counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return how many of its own deviations each sum of ``counts`` (k,) numbers must exceed to be clear of the noise.

    The numbers have noise of one law, and were drawn together. Noise alone exceeds the limit with the probability
    `FALSE_ALARM`, or less often if the law is "linf" or is not known: then the limit is that of one number with Laplace
    noise. One entry, and the sum of the two entries of two, have exactly this tail under the l-infinity law; those of
    more entries are lighter.
    """
    if law == "gaussian":
        return np.full(len(counts), CLEAR)
    return np.array([_of_laplace(min(count, LONGEST) if law == "laplace" else 1) for count in counts.tolist()])


def laplace_tail(limit: float, count: int) -> float:
    """Return the probability that a sum of so many Laplace numbers exceeds so many of its deviations, at least 0.

    With scale 1 the sum has the law of G - H, the times of the last of ``count`` events of two Poisson processes. At the
    last event of H, the other process still lacks count - j events, if j came before: a negative binomial number. The
    rest of G is then a gamma variable of shape count - j.
    """
    j = np.arange(count)
    return float(nbinom.pmf(j, count, 0.5) @ gammaincc(count - j, limit * math.sqrt(2.0 * count)))


@lru_cache(maxsize=LONGEST)
def _of_laplace(count: int) -> float:
    # One number has the heaviest tail: exp(-sqrt(2) t) / 2.
    most = -math.log(2.0 * FALSE_ALARM) / math.sqrt(2.0)
    if count == 1:
        return most
    return float(brentq(lambda limit: math.log(laplace_tail(limit, count) / FALSE_ALARM), 1.0, most))
