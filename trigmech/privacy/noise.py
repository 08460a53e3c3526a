"""The samplers of noise: hardened ones for real releases (OpenDP), and a seeded one for simulations."""

import math
import secrets
from fractions import Fraction
from functools import cache, lru_cache
from types import SimpleNamespace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from trigmech.errors import InputError

Values = NDArray[np.float64]

# The lattice of the l-infinity noise has between 2^40 and 2^41 steps to the scale.
LATTICE_BITS = 40

# OpenDP cuts its numbers at the largest 64-bit integer.
LARGEST_INTEGER = 2**63 - 1

# OpenDP's Laplace and Gaussian noise is on the multiples of 2^FINEST. Every float is one, so no value is rounded first.
FINEST = -1074


class Noise(Protocol):
    """Adds noise to an array of any shape; Laplace and Gaussian noise is independent in each entry."""

    simulated: bool

    def laplace(self, values: Values, scale: float) -> Values:
        """Return values + Laplace noise of density exp(-|z| / scale) / (2 scale)."""

    def gaussian(self, values: Values, scale: float) -> Values:
        """Return values + normal noise of standard deviation scale."""

    def linf(self, values: Values, scale: float) -> Values:
        """Return values + noise of the joint density, over all entries, proportional to exp(-max |z_i| / scale)."""

    def exponential(self, values: Values, scale: float) -> Values:
        """Return 1 for the largest of scores with noise of density exp(-z / scale) / scale, and 0 for the others."""

    def loss(self, law: str, scale: float, sensitivity: float) -> float:
        """Return the proved cost of noise of this distribution and scale on values of this sensitivity.

        The cost is epsilon; for "gaussian" it is the rho of zero-concentrated differential privacy. The sensitivity is
        in L1 for "laplace", in L2 for "gaussian" and in max norm for "linf". For "exponential" it is twice the largest
        move of a score.
        """


class SystemNoise:
    """OpenDP's samplers: exact, from the operating system's entropy, on a lattice.

    Notes
    -----
    Privacy. Laplace and Gaussian noise is of OpenDP's discrete distributions on the lattice of the multiples of
    2^-1074, its finest and its default for floats of 64 bits (its k = -1074). All floats, subnormal ones included, lie
    on it, so values reach the lattice as they are. A coarser one would round them, and OpenDP would then need their
    number and add the largest change by rounding. The sum of value and noise is exact there, and is rounded to the
    nearest float only afterwards, which is post-processing. So OpenDP's privacy maps are those of the ideal
    distributions, sensitivity / scale and (sensitivity / scale)^2 / 2, rounded upwards; :meth:`loss` asks them.

    OpenDP has no l-infinity noise, and so no privacy map for it. :meth:`linf` builds it from OpenDP's discrete Laplace
    numbers and has its own proof, there and in :func:`integer_linf`. Its lattice is public, see :func:`lattice_step`,
    coarser than floats are, and has its part in the sensitivity.

    Cost: about 20 (Laplace, linf) or 40 (Gaussian) microseconds an entry; 1 to 2 seconds once to load the library.

    References
    ----------
    OpenDP's proof documents of its version 0.14 and later: get_min_k, get_rounding_distance, make_float_to_bigint (a
    rounding of n^(1/p) (2^k - 2^-1074), none for this k), then_deintegerize_vec (a valid postprocessor),
    NoisePrivacyMap_for_ZExpFamily1 and 2 (the maps). Canonne, Kamath and Steinke 2020.
    """

    simulated = False

    def laplace(self, values: Values, scale: float) -> Values:
        """Return values + Laplace noise."""
        return _apply(_measurement("laplace", scale), values)

    def gaussian(self, values: Values, scale: float) -> Values:
        """Return values + normal noise."""
        return _apply(_measurement("gaussian", scale), values)

    def linf(self, values: Values, scale: float) -> Values:
        """Return values, rounded to a lattice, + noise of probabilities proportional to exp(-max |z_i| / scale) on it.

        The values have any shape and K entries. The scale is from 1e-300 to 1e300.

        Raises
        ------
        InputError, ValueError, OverflowError
            If the scale is out of range; if a value is not a number; if it is infinite.

        Notes
        -----
        Privacy: with g = lattice_step(scale), the integers round(values / g) and a = g / scale are exact. If the
        values of two tables differ by at most D in each entry, these integers differ by at most D / g + 1. To them is
        added z in Z^K of probability proportional to exp(-a max |z_i|), exactly (:func:`integer_linf`), so by the
        triangle inequality the probability of any outcome changes by a factor of at most
        exp(a (D / g + 1)) = exp((D + g) / scale). The sum times g, rounded to the nearest float, is post-processing
        of that exact integer outcome; nothing is rounded if it lies below 2^53 g, which is at least 2^12 scale.
        """
        step = lattice_step(scale)
        exact = Fraction(step)
        lattice = [round(Fraction(value) / exact) for value in np.ravel(values).tolist()]
        # A quotient by a power of two, so the scale of the integers is exact too.
        noise = integer_linf(len(lattice), scale / step)
        noisy = [float((value + z) * exact) for value, z in zip(lattice, noise, strict=True)]
        return np.array(noisy, dtype=np.float64).reshape(np.shape(values))

    def exponential(self, values: Values, scale: float) -> Values:
        """Return 1 for one of some scores (K,), and 0 for the others: by permute-and-flip, exactly.

        Parameters
        ----------
        values : ndarray (K,)
            Numbers, or -inf for values that must not be chosen; at least one number.
        scale : float
            Above 0.

        Notes
        -----
        Privacy: 2 D / scale, if each score moves by at most D (theorem 1 of the paper). The scores, in random order,
        are accepted with the probability exp((score - best) / scale), until one is. Scores and scale are taken as the
        rational numbers that they are, and the coins are exact (:func:`falls`), so no rounding adds anything. The
        outcome has the distribution of the largest of scores with noise of an exponential distribution.

        References
        ----------
        McKenna and Sheldon 2020, Permute-and-flip; Ding, Kifer, Sayed, Steinke, Wang, Xiao and Zhang 2021.
        """
        exact = [None if value == -math.inf else Fraction(value) for value in np.ravel(values).tolist()]
        left = [i for i, value in enumerate(exact) if value is not None]
        best = max(value for value in exact if value is not None)
        while True:
            i = left.pop(secrets.randbelow(len(left)))
            if falls((best - (exact[i] or Fraction(0))) / Fraction(scale)):
                return one_of(i, np.shape(values))

    def loss(self, law: str, scale: float, sensitivity: float) -> float:
        """Return the cost that OpenDP's own privacy map proves for the measurement that draws; see :meth:`Noise.loss`.

        For "linf" the sensitivity includes the step of the lattice. If it is below the step, but not 0, the cost is
        infinite.

        Raises
        ------
        InputError
            If the distribution is unknown, or the scale of "linf" is out of range.

        Notes
        -----
        Privacy: public numbers only. For "linf" the map is that of the discrete Laplace numbers for a sensitivity of 1.
        With the a that it proves and a sensitivity of D + g, :meth:`linf` costs a (D / g + 1), as proved there.
        """
        if law == "exponential":
            # The method's docstring has the proof, for exact arithmetic.
            return math.nextafter(sensitivity / scale, math.inf)
        if law != "linf":
            return float(_measurement(law, scale).map(sensitivity))
        step = lattice_step(scale)
        if sensitivity == 0.0:
            return 0.0
        return sensitivity / step * float(_integer_laplace(scale / step).map(1)) if sensitivity >= step else math.inf


class SimulatedNoise:
    """Noise from a numpy generator: repeatable, and therefore not private.

    Parameters
    ----------
    rng : numpy.random.Generator
    """

    simulated = True

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng

    def laplace(self, values: Values, scale: float) -> Values:
        """Return values + Laplace noise."""
        return values + self.rng.laplace(0.0, scale, np.shape(values))

    def gaussian(self, values: Values, scale: float) -> Values:
        """Return values + normal noise."""
        return values + self.rng.normal(0.0, scale, np.shape(values))

    def linf(self, values: Values, scale: float) -> Values:
        """Return values + noise of density proportional to exp(-max |z_i| / scale).

        The density of r U, for U uniform on [-1, 1]^K and r of density proportional to r^K exp(-r / scale), is
        at z the integral over r >= max |z_i| of (2r)^-K r^K exp(-r / scale), up to a factor.
        """
        radius = self.rng.gamma(np.size(values) + 1.0, scale)
        return values + radius * self.rng.uniform(-1.0, 1.0, np.shape(values))

    def exponential(self, values: Values, scale: float) -> Values:
        """Return 1 for the largest of scores with noise of an exponential distribution, and 0 for the others."""
        return one_of(int(np.argmax(values + self.rng.exponential(scale, np.shape(values)))), np.shape(values))

    def loss(self, law: str, scale: float, sensitivity: float) -> float:
        """Return infinity: the seed determines the noise, so nothing is proved of it."""
        return math.inf


def falls(rate: Fraction) -> bool:
    """Return True with the probability exp(-rate) for a rational number of at least 0, exactly.

    Toss independent coins with the probabilities rate / 1, rate / 2, ...: the number of the first failure is odd with
    the probability exp(-rate), for rates of at most 1; larger rates are a sum of such. Source: Canonne, Kamath and
    Steinke 2020, algorithm 1.
    """
    while rate > 1:
        if not falls(Fraction(1)):
            return False
        rate -= 1
    count = 1
    while secrets.randbelow(rate.denominator * count) < rate.numerator:
        count += 1
    return count % 2 == 1


def one_of(place: int, shape: tuple[int, ...]) -> Values:
    """Return 1 at one place, and 0 elsewhere."""
    chosen = np.zeros(shape)
    chosen.flat[place] = 1.0
    return chosen


def drawn(noise: Noise, law: str, values: Values, scale: float) -> Values:
    """Return values with noise of a distribution, or a choice by it."""
    if law not in ("laplace", "gaussian", "linf", "exponential"):
        raise InputError(f"noise of law {law!r} cannot be drawn")
    return np.asarray(getattr(noise, law)(values, scale))


def uniform(size: int) -> Values:
    """Return uniform numbers (size,) of [0, 1), in steps of 2^-53, from the operating system's entropy."""
    bits = np.frombuffer(secrets.token_bytes(8 * size), dtype=np.uint64)
    return (bits >> np.uint64(11)).astype(np.float64) * 2.0**-53


def lattice_step(scale: float) -> float:
    """Return the step g of the lattice on which :meth:`SystemNoise.linf` adds noise of the given scale.

    It is a power of two with 2^40 <= scale / g < 2^41. Rounding to the lattice moves each entry by at most g / 2. So if
    the values of two tables differ by at most D in max norm, they differ by at most D + g on the lattice. The charge is
    for the sensitivity D + g.

    Raises an InputError if the scale is not between 1e-300 and 1e300.
    """
    if not 1e-300 <= scale <= 1e300:
        raise InputError(f"the scale of l-infinity noise must lie between 1e-300 and 1e300, not {scale}")
    return math.ldexp(1.0, math.frexp(scale)[1] - 1 - LATTICE_BITS)


def integer_linf(size: int, scale: float) -> list[int]:
    """Return integers z_1..z_K of joint probability exactly proportional to exp(-max |z_i| / scale).

    They come from OpenDP's exact sampler and the operating system's entropy, without floating-point arithmetic. The
    size K is at least 0. The scale is positive and finite, and counts as the exact rational number of the float.

    Proof. Write a = 1 / scale. (1) Let R >= 0 have a probability proportional to (2R + 1)^K exp(-a R), and let z be
    uniform on the (2R + 1)^K integer points of the cube [-R, R]^K. Then z has a probability proportional to the sum
    over R >= max |z_i| of exp(-a R), which is exp(-a max |z_i|) / (1 - exp(-a)).

    (2) The sum R of K + 1 independent geometric numbers, each k >= 0 of probability (1 - exp(-a)) exp(-a k), has the
    probability C(R + K, K) exp(-a R) (1 - exp(-a))^(K + 1). As C(R + K, K) = (R + 1)...(R + K) / K!, the distribution
    of (1) is in proportion to it as the product over i = 1..K of (2R + 1) / (2R + 2i), up to the factor 2^K K!. Each of
    these ratios is at most 1, so R is accepted if K independent coins of these probabilities all fall well, and else
    drawn anew. The coins are exact: a uniform integer below 2R + 2i is below 2R + 1.

    (3) A discrete Laplace number, of probability proportional to exp(-a |k|), given that it is not negative, is
    geometric as in (2). OpenDP's integer measurement draws such numbers by exact arithmetic, with a scale that is
    the given float as a rational number (its `integerize_scale`), so no direction of rounding need be watched. Its
    versions before 0.14.2 drew them with a bias, from a wrong division of rational numbers.

    Cost: of the order of 2 (K + 1) discrete Laplace numbers and 2 K uniform integers for each R, of which a part of
    about exp(-K a / 2) is accepted for small a: all but always, if scale is far above K.

    Source: Hardt and Talwar 2010 (K-norm mechanism); Steinke and Ullman 2017 (l-infinity norm); Canonne, Kamath and
    Steinke 2020 (discrete Laplace).
    """
    while True:
        radius = _geometric_sum(size + 1, scale)
        if _accepted(radius, size):
            return [secrets.randbelow(2 * radius + 1) - radius for _ in range(size)]


def _accepted(radius: int, size: int) -> bool:
    return all(secrets.randbelow(2 * (radius + i)) < 2 * radius + 1 for i in range(1, size + 1))


def _geometric_sum(count: int, scale: float) -> int:
    """Return the sum of `count` independent integers k >= 0 of probabilities proportional to exp(-k / scale)."""
    total = 0
    while count > 0:
        draws = [draw for draw in _discrete_laplace(scale, 2 * count + 8) if draw >= 0][:count]
        total += sum(draws)
        # A geometric distribution has no memory: a draw that was cut is the largest integer plus a fresh draw.
        count -= len(draws) - draws.count(LARGEST_INTEGER)
    return total


def _discrete_laplace(scale: float, size: int) -> list[int]:
    return _integer_laplace(scale)([0] * size)


def integer_gaussian(size: int, scale: float) -> NDArray[np.int64]:
    """Return independent integers z (size,) of probability proportional to exp(-z^2 / (2 scale^2)).

    By OpenDP's exact sampler, which takes the scale as the rational number that it is, and the operating system's
    entropy. It cuts at 64 bits: up to a scale of 2^50 this has a probability below exp(-2^24).
    """
    return np.array(_integer_gaussian(scale)([0] * size), dtype=np.int64)


def integer_gaussian_rho(scale: float, distance: float) -> float:
    """Return the rho that OpenDP's own map proves for this noise on integers that move by a distance in L2."""
    return float(_integer_gaussian(scale).map(distance))


@lru_cache(maxsize=4)
def _integer_gaussian(scale: float) -> Any:
    dp = _opendp()
    return dp.m.make_gaussian(dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T="f64"), scale=scale)


@lru_cache(maxsize=1)
def _integer_laplace(scale: float) -> Any:
    dp = _opendp()
    # Use 64 bits: OpenDP takes Python's int for one of 32 bits, which would cut nearly every draw.
    return dp.m.make_laplace(dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64"), scale=scale)


def _measurement(law: str, scale: float) -> Any:
    """Return OpenDP's measurement of a distribution: the same object draws and has the privacy map."""
    dp = _opendp()
    domain = dp.vector_domain(dp.atom_domain(T=float, nan=False))
    if law == "laplace":
        return dp.m.make_laplace(domain, dp.l1_distance(T=float), scale=scale, k=FINEST)
    if law == "gaussian":
        return dp.m.make_gaussian(domain, dp.l2_distance(T=float), scale=scale, k=FINEST)
    raise InputError(f"OpenDP has no measurement that draws {law} noise")


@cache
def _opendp() -> Any:
    # Not by its prelude, which imports scikit-learn, polars and pandas where they are installed: seconds.
    from opendp import domains, measurements, metrics, mod

    mod.enable_features("contrib")
    return SimpleNamespace(**(vars(domains) | vars(metrics)), m=measurements)


def _apply(measurement: Any, values: Values) -> Values:
    return np.array(measurement(np.ravel(values).tolist())).reshape(np.shape(values))
