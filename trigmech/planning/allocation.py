"""The precision of selected moments: the weights, noise and charges of a design for each noise distribution.

For delta > 0 one Gaussian vector holds the weighted moments. For delta = 0 there are two choices. One is the weighted
Laplace mechanism. The other has blocks: each degree of the columns, each two degrees of the pairs, the triples, and the
whole-row functions. Each block gets a fraction of epsilon, and noise from the l-infinity K-norm mechanism. Both choices
are one K-norm mechanism, for the norm sum |.| or for the sum over blocks of max |.|. It is a product of independent
mechanisms, whose epsilons add up.

Sensitivities. Weighted L2 and L1: :func:`trigmech.functions.sensitivity.pair_l2_diameter` and `pair_l1_diameter` for
columns and pairs. Triples and whole-row functions have values in [-1, 1]; with weight s each of them adds at most
(2 s)^2 or 2 s. Max norm: 2 for every function. Rounding: :func:`trigmech.queries.functions.roundings`, for each moment.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from trigmech._arrays import Array
from trigmech.functions.features import Features
from trigmech.functions.sensitivity import pair_l1_diameter, pair_l2_diameter
from trigmech.planning.design import Regime, Round, round_of
from trigmech.planning.error_model import Selection
from trigmech.privacy.budget import Law
from trigmech.queries.functions import Functions, roundings

# A function without importance still gets a small weight, because its mean is divided by the weight.
LEAST_IMPORTANCE = 1e-9

_PROOF = "planned-moments"


@dataclass(frozen=True)
class Allocation(ABC):
    """How one noise distribution spends a budget on selected moments, with one weight for each entry of the selection.

    n: The number of rows.
    strength: mu of Gaussian noise, else epsilon.
    symmetric: Whether the queries treat all columns alike.
    """

    n: int
    strength: float
    selection: Selection
    symmetric: bool

    # The search computes new weights this many times, each time from the errors of the last weights.
    ROUNDS: ClassVar[int]
    # True: the search goes on after every gain, and ends at the first round without one. False: it tries all rounds,
    # and starts again with all changes after a gain.
    GREEDY: ClassVar[bool]

    @abstractmethod
    def equal(self) -> Array:
        """Return weights for equal noise, or nearly equal noise."""

    @abstractmethod
    def by_importance(self, importance: Array) -> Array:
        """Return the best weights, given the importance of each variance."""

    @abstractmethod
    def deviations(self, weights: Array) -> Array:
        """Return the standard deviations of the noise, infinite for unmeasured functions."""

    @abstractmethod
    def changes(self, step: float) -> list[Array]:
        """Return factors that may improve the weights; each is ``step``, its inverse, or 1."""

    def normal(self, weights: Array) -> Array:
        """Return the weights on the scale of the budget, if it sets one."""
        return weights

    @abstractmethod
    def rounds(self, features: Features, weights: Array) -> tuple[Round, ...]:
        """Return the rounds of the release, with their charges, in the order of the functions."""


class _Vector(Allocation):
    """One vector of weighted moments."""

    ROUNDS, GREEDY = 3, False
    LAW: ClassVar[Law]
    # The standard deviation of the noise, in units of its scale.
    DEVIATION: ClassVar[float]
    # The best weights are this root of the importance.
    ROOT: ClassVar[float]

    @abstractmethod
    def diameter(self, weights: Array) -> float:
        """Return the largest distance that a row's weighted functions move, in the norm of the noise."""

    @abstractmethod
    def norm(self, weights: Array, slack: Array) -> float:
        """Return the norm of the weighted rounding errors (K,)."""

    def equal(self) -> Array:
        return np.ones(len(self.selection.sizes))

    def by_importance(self, importance: Array) -> Array:
        relative = np.maximum(importance / max(float(importance.max()), 1e-300), LEAST_IMPORTANCE)
        single, pair, triple, whole = self.selection.split(relative)
        # The sensitivity's proof needs weights of pairs that are products of one factor for each degree. The diagonal
        # alone would miss the importance of T_1 T_2.
        most = np.diag(pair) if self.symmetric else np.maximum(pair, pair.T).max(axis=1, initial=0.0)
        factor = np.sqrt(most ** (1.0 / self.ROOT))
        return np.concatenate([single ** (1.0 / self.ROOT), np.outer(factor, factor).ravel(),
                               [triple ** (1.0 / self.ROOT), whole ** (1.0 / self.ROOT)]])

    def deviations(self, weights: Array) -> Array:
        deviation = self.DEVIATION * self.diameter(weights) / (self.n * self.strength)
        return np.where(self.selection.sizes > 0, deviation / weights, math.inf)

    def changes(self, step: float) -> list[Array]:
        p, q, found = self.selection.degree, self.selection.pair_degree, []
        for factor in (step, 1.0 / step):
            for part in (slice(1, 2), slice(2, 4), slice(4, p), slice(0, 1)):
                if p > part.start:
                    found.append(factors := self.equal())
                    factors[:p][part] = factor
            for low in range(min(q, 3)):
                found.append(factors := self.equal())
                # All pairs get the factor; or the degrees from ``low`` on get it, once for each column.
                tilt = np.where(np.arange(q) >= low, factor, 1.0)
                self.selection.split(factors)[1][:] = np.outer(tilt, tilt) if low else factor
            for last in (-2, -1):
                if self.selection.sizes[last]:
                    found.append(factors := self.equal())
                    factors[last] = factor
        return found

    def rounds(self, features: Features, weights: Array) -> tuple[Round, ...]:
        each = np.repeat(weights, self.selection.sizes)
        sensitivity = self.diameter(weights) / self.n + self.norm(each, roundings(features, self.n))
        charge = Regime(self.LAW, self.strength).charge("moments", sensitivity, _PROOF)
        return (round_of(Functions.of(features, weights=each, proved={charge.norm: self.diameter(weights)}), charge),)


class GaussianVector(_Vector):
    """Gaussian noise, for the L2 diameter of the weighted moments."""

    LAW, DEVIATION, ROOT = "gaussian", 1.0, 4.0

    def diameter(self, weights: Array) -> float:
        single, pair, triple, whole = self.selection.split(weights)
        triples, wholes = self.selection.sizes[-2:].tolist()
        extra = 4.0 * (triples * triple**2 + wholes * whole**2)
        return math.sqrt(pair_l2_diameter(self.selection.d, *_of_degrees(single, pair)) + extra)

    def norm(self, weights: Array, slack: Array) -> float:
        return float(np.linalg.norm(weights * slack))


class LaplaceVector(_Vector):
    """Laplace noise, for the L1 diameter of the weighted moments."""

    LAW, DEVIATION, ROOT = "laplace", math.sqrt(2.0), 3.0

    def diameter(self, weights: Array) -> float:
        single, pair, triple, whole = self.selection.split(weights)
        triples, wholes = self.selection.sizes[-2:].tolist()
        extra = 2.0 * (triples * triple + wholes * whole)
        return pair_l1_diameter(self.selection.d, *_of_degrees(single, pair)) + extra

    def norm(self, weights: Array, slack: Array) -> float:
        return float(weights @ slack)


def _of_degrees(single: Array, pair: Array) -> tuple[tuple[float, ...], tuple[float, ...]]:
    return tuple(single.tolist()), tuple(np.sqrt(np.diag(pair)).tolist())


class InfinityBlocks(Allocation):
    """l-infinity blocks; see the module. The weights are fractions of epsilon."""

    ROUNDS, GREEDY = 4, True

    def equal(self) -> Array:
        return self.normal(self.selection.sizes.astype(np.float64))

    def by_importance(self, importance: Array) -> Array:
        # Variances are proportional to (size / fraction)^2, so the best fractions are the cube roots of importance
        # times squared size.
        least = LEAST_IMPORTANCE * max(float(importance.max()), 1e-300)
        return self.normal(np.cbrt(np.maximum(importance, least)) * self.selection.sizes)

    def deviations(self, weights: Array) -> Array:
        sizes = self.selection.sizes
        with np.errstate(divide="ignore"):
            return 2.0 * np.sqrt((sizes + 1.0) * (sizes + 2.0) / 3.0) / (self.n * self.strength * weights)

    def changes(self, step: float) -> list[Array]:
        blocks = np.eye(len(self.selection.sizes), dtype=bool)[self.selection.sizes > 0]
        return [np.where(block, factor, 1.0) for block in blocks for factor in (step, 1.0 / step)]

    def normal(self, weights: Array) -> Array:
        return weights / weights.sum()

    def rounds(self, features: Features, weights: Array) -> tuple[Round, ...]:
        p, q = (range(1, most + 1) for most in (self.selection.degree, self.selection.pair_degree))
        names = [*(f"degree {a}" for a in p), *(f"pairs {a}, {b}" for a in q for b in q), "triples", "whole rows"]
        slack, found, first = roundings(features, self.n), [], 0
        for K, fraction, name in zip(self.selection.sizes.tolist(), weights, names, strict=True):
            if not K:
                continue
            members = slice(first, first + K)
            first += K
            sensitivity = 2.0 / self.n + float(slack[members].max())
            charge = Regime("laplace", self.strength).max_charge(name, sensitivity, _PROOF, float(fraction))
            found.append(round_of(Functions.of(features, members=members), charge))
        return tuple(found)
