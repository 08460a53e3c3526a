"""How exactly selected moments are measured: the weights, noise and charges of a design for each noise distribution.

delta > 0: one Gaussian vector of the weighted moments. delta = 0: the weighted Laplace mechanism, or blocks (each
degree of the columns, each two degrees of the pairs, triples, whole-row functions), each with a fraction of epsilon and
noise from the l-infinity K-norm mechanism. Both are one K-norm mechanism, of the norms sum |.| and sum over blocks of
max |.|: a product of independent ones, whose epsilons add up.

Sensitivities. Weighted L2 and L1: :func:`trigmech.functions.sensitivity.pair_l2_diameter` and `pair_l1_diameter` for
columns and pairs; triples and whole-row functions, with values in [-1, 1] and weight s, add at most (2 s)^2 or 2 s
each. Max norm: 2 for every function. Rounding: :func:`trigmech.queries.functions.roundings`, per moment.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from trigmech.errors import BudgetError
from trigmech.functions.features import Features
from trigmech.functions.sensitivity import pair_l1_diameter, pair_l2_diameter
from trigmech.planning.design import UPWARD, Round, round_of, vector_charge
from trigmech.planning.error_model import Selection
from trigmech.privacy.budget import Charge
from trigmech.privacy.noise import lattice_step
from trigmech.queries.functions import Functions, roundings

Array = NDArray[np.float64]

# A function without importance gets a small weight nonetheless: the mean is divided by the weight.
LEAST_IMPORTANCE = 1e-9

_PROOF = "planned-moments"


@dataclass(frozen=True)
class Allocation(ABC):
    """How one noise distribution spends a budget on selected moments, by one weight for each entry of the selection.

    Parameters
    ----------
    n : int
        Rows.
    strength : float
        mu of Gaussian noise, else epsilon.
    selection : Selection
    symmetric : bool
        Whether the queries treat all columns alike.
    """

    n: int
    strength: float
    selection: Selection
    symmetric: bool

    # The search makes weights anew so often, from the errors that the last ones left.
    ROUNDS: ClassVar[int]
    # It continues after every gain, and ends without one. Otherwise it tries all rounds, and all changes after a gain.
    GREEDY: ClassVar[bool]

    @abstractmethod
    def equal(self) -> Array:
        """Return weights of equal noise, or nearly."""

    @abstractmethod
    def by_importance(self, importance: Array) -> Array:
        """Return the weights that are best for variances that matter so much."""

    @abstractmethod
    def deviations(self, weights: Array) -> Array:
        """Return the standard deviations of the noise, infinite for unmeasured functions."""

    @abstractmethod
    def changes(self, step: float) -> list[Array]:
        """Return factors for the weights that may improve them, made of ``step`` or its inverse."""

    def normal(self, weights: Array) -> Array:
        """Return weights on the scale that the budget sets, if any."""
        return weights

    @abstractmethod
    def rounds(self, features: Features, weights: Array) -> tuple[Round, ...]:
        """Return the measurements that are released at once, and their charges, in the order of the functions."""


class _Vector(Allocation):
    """One vector of weighted moments."""

    ROUNDS, GREEDY = 3, False
    GAUSSIAN: ClassVar[bool]
    # The standard deviation of the noise, in units of its scale.
    DEVIATION: ClassVar[float]
    # The best weights are this root of the importance.
    ROOT: ClassVar[float]

    @abstractmethod
    def diameter(self, weights: Array) -> float:
        """Return how far a row's weighted functions move at most, in the norm of the noise."""

    @abstractmethod
    def norm(self, weights: Array, slack: Array) -> float:
        """Return how far they move for slack (K,) alone."""

    def equal(self) -> Array:
        return np.ones(len(self.selection.sizes))

    def by_importance(self, importance: Array) -> Array:
        relative = np.maximum(importance / max(float(importance.max()), 1e-300), LEAST_IMPORTANCE)
        single, pair, triple, whole = self.selection.split(relative)
        # Pairs' weights are products of one factor a degree, as the sensitivity's proof needs them. The diagonal
        # alone would miss a pair's T_1 T_2.
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
                # All pairs by the factor, or by one for each degree above the low ones.
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
        charge = vector_charge("moments", self.GAUSSIAN, sensitivity, self.strength, _PROOF)
        return (round_of(Functions.of(features, weights=each, proved={charge.norm: self.diameter(weights)}), charge),)


class GaussianVector(_Vector):
    """Gaussian noise, for the L2 diameter of the weighted moments."""

    GAUSSIAN, DEVIATION, ROOT = True, 1.0, 4.0

    def diameter(self, weights: Array) -> float:
        single, pair, triple, whole = self.selection.split(weights)
        triples, wholes = self.selection.sizes[-2:].tolist()
        extra = 4.0 * (triples * triple**2 + wholes * whole**2)
        return math.sqrt(pair_l2_diameter(self.selection.d, *_of_degrees(single, pair)) + extra)

    def norm(self, weights: Array, slack: Array) -> float:
        return float(np.linalg.norm(weights * slack))


class LaplaceVector(_Vector):
    """Laplace noise, for the L1 diameter of the weighted moments."""

    GAUSSIAN, DEVIATION, ROOT = False, math.sqrt(2.0), 3.0

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
    """l-infinity blocks: each degree of the columns, each two degrees of the pairs, and so on.

    Their weights are fractions of epsilon.
    """

    ROUNDS, GREEDY = 4, True

    def equal(self) -> Array:
        return self.normal(self.selection.sizes.astype(np.float64))

    def by_importance(self, importance: Array) -> Array:
        # Variance falls as 1/fraction^2: the best fractions are the cube roots of importance times squared size.
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
            # The lattice on which the noise is drawn moves the values too, by less than scale / 2^39.
            epsilon = self.strength * float(fraction) / UPWARD - 2.0**-39
            if not epsilon > 0:
                raise BudgetError(f"epsilon = {self.strength} is too small for this many kinds of moments")
            scale = sensitivity / epsilon
            found.append(round_of(Functions.of(features, members=members), Charge(
                name, "linf", scale, sensitivity + lattice_step(scale), "Linf", 1, _PROOF)))
        return tuple(found)
