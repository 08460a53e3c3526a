"""Whether noisy numbers are clear of their noise: how far noise alone reaches, and how often, under each law.

Normal noise exceeds 6 deviations once in 10^9 numbers, Laplace noise once in 10^4. So a number is judged by the
probability that noise alone reaches it, and not by its deviations alone.
"""

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaincc, gammaln, ndtr

# Under any law, a number that is clear of the noise exceeds so many deviations. For normal noise this is enough.
CLEAR = 6.0
# Noise alone is clear, among all numbers that are looked at, with at most this probability. Pieces are chosen for their
# mass, so some of them are clear up to twice as often: once in fifty releases. With a smaller chance, values that many
# rows share would not be found: with 5e-4, a value of .3 of 1,000 rows in four columns at epsilon = 3.
CHANCE = 1e-2


def clear_of_noise(law: str, sums: NDArray[np.float64], counts: NDArray[np.int64],
                   among: int) -> NDArray[np.bool_]:
    """Return which sums (k,) of noisy numbers are clear of the noise.

    law: The law of the numbers' noise.
    sums (k,): The sums, in standard deviations of their own noise.
    counts (k,): How many numbers each sum has.
    among: The number of all numbers that are looked at, of which some could be clear by chance.
    """
    made, most = sums > CLEAR, max(CHANCE / max(among, 1), float(ndtr(-CLEAR)))
    for i in np.flatnonzero(made).tolist():
        made[i] = tail(law, float(sums[i]), int(counts[i])) <= most
    return made


def tail(law: str, limit: float, count: int) -> float:
    """Return the probability that the noise of a sum of ``count`` numbers exceeds so many of its deviations, from 0.

    It is exact for normal and Laplace noise, where numbers are independent. Discrete laws are on lattices so fine that
    they differ by less than rounding. Under any other law the result is that of a single number with Laplace noise.
    For l-infinity noise of K numbers, this is exact for K = 1 and for the sum of both of K = 2; from 3 deviations on,
    other sums have lighter tails.

    A sum of Laplace numbers of scale 1 has the law of G - H, where these are the times of the last of ``count`` events
    of two Poisson processes. At the last event of H, the other process may still lack count - j events: j is a negative
    binomial number. The rest of G is then a gamma variable of shape count - j.
    """
    if law == "gaussian":
        return float(ndtr(-limit))
    if law != "laplace":
        count = 1
    j = np.arange(count)
    before = np.exp(gammaln(count + j) - gammaln(count) - gammaln(j + 1.0) - (count + j) * math.log(2.0))
    return float(before @ gammaincc(count - j, limit * math.sqrt(2.0 * count)))
