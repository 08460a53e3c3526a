"""What is measured and how exactly, with one draw of noise for each block, and what rounding adds to a sensitivity.

Rounding. What is released is computed in floating point, with unit u = 2^-53, and that moves too. A computed phi_r of
total degree Q differs from phi_r by at most 8 Q^2 u: each step of T_q = 2 x T_(q-1) - T_(q-2) errs by at most 5u, which
U_(q-k) <= q - k + 1 carries on, and the product adds Q u. It is rounded to the lattice of 2^-40, and so is a person's
mean over her rows: each moves it by at most 2^-41. The sum over persons is exact, so only the person who is replaced
makes a difference, of at most 2 (8 Q^2 u + 2^-40) / n to a mean. Then the sum is rounded to a float (at most twice),
divided by n and multiplied by a weight, each with an error of at most u of a mean of at most 1, with what that leaves
of the second order: at most 4u of either table, 8u of both. Together this is what `rounding` adds to each mean.

Whole-row functions with profiles of degree q <= 8 err by at most 2 d (8 q^2 + 4) units in the last place times
sum |c_m| <= 1 + 8 4/pi over 1 - low^d, which the same formula covers with degree 5 d q / sqrt(1 - low^d): 12,800 d^2
units, where the product is 11,544 d for q = 8.
"""

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from trigmech._html import html_table
from trigmech.errors import BudgetError
from trigmech.functions import lattice
from trigmech.functions.features import Features
from trigmech.functions.index import FunctionIndex
from trigmech.privacy.accounting import gaussian_mu
from trigmech.privacy.budget import Budget, Charge

Array = NDArray[np.float64]

# Scales are raised by this factor, so that rounding can never make the sum of the parts exceed the whole.
UPWARD = 1.0 + 1e-12
UNIT = 2.0**-53
# Of the profiles of whole-row functions.
PROFILE_DEGREE = 8
NOISE_NAMES = {"gaussian": "Gaussian", "laplace": "Laplace", "linf": "l-infinity K-norm"}


@dataclass(frozen=True)
class Block:
    """Moments that share one mechanism call.

    Parameters
    ----------
    members : slice
        Of the functions.
    weights : ndarray
        What each moment is multiplied by before the noise, and divided by after it.
    charge : Charge
    """

    members: slice
    weights: Array
    charge: Charge

    def __post_init__(self) -> None:
        # A weight of 0 would release nothing but noise divided by 0, and after it was paid for.
        if not (np.isfinite(self.weights).all() and (self.weights > 0).all()):
            raise BudgetError(f"{self.charge.purpose}: weights must be positive and finite")

    @property
    def deviation(self) -> float:
        """The standard deviation of the noise of an entry of weight 1."""
        return self.charge.deviation(len(self.weights))


@dataclass(frozen=True, eq=False)
class MomentDesign:
    """What will be measured, how exactly, and what error that should leave. Public.

    Parameters
    ----------
    features : Features
    index : FunctionIndex
        What each of the functions is.
    blocks : tuple of Block
        In the order of the functions.
    predicted : dict of str to float
        Root mean square error over each query group of the workload, as far as it comes from T_a of a column (a up to
        32, or to 64 if a group's columns do not matter alike), T_a T_b of two (a and b up to 8) and x_i x_j x_k. The
        error bars of a release count all products of such families.
    baseline : dict of str to float
        The same if nothing were measured.
    """

    features: Features
    index: FunctionIndex
    blocks: tuple[Block, ...]
    predicted: dict[str, float]
    baseline: dict[str, float] = field(repr=False)

    @property
    def degree(self) -> int:
        """The largest degree p of a function of one column."""
        return int(self.index.highest[self.index.single].max())

    @property
    def pair_degree(self) -> int:
        """The largest degree q in a product of two numbers; 1 if only categories are in products, 0 without any."""
        products = bool((self.index.width == 2).any())
        return int(self.index.highest[self.index.of_kind("pair")].max(initial=int(products)))

    @property
    def triples(self) -> bool:
        """Whether products of three numbers are measured."""
        return len(self.index.of_kind("triple")) > 0

    @property
    def whole_row(self) -> bool:
        """Whether functions of whole rows are measured."""
        return self.index.whole > 0

    @property
    def deviations(self) -> Array:
        """The standard deviation (K,) of the noise in each released moment."""
        return np.concatenate([block.deviation / block.weights for block in self.blocks])

    @property
    def scales(self) -> Array:
        """The same as ``deviations``."""
        return self.deviations

    @property
    def _groups(self) -> list[tuple[str, int, int, str]]:
        """The Chebyshev products by the number of their columns and the highest degree: kind, degree, count, noise."""
        width, highest, deviations = self.index.width, self.index.highest, self.deviations[: len(self.index.degrees)]
        found = []
        for w, a in np.unique(np.column_stack([width, highest]), axis=0).tolist():
            own = deviations[(width == w) & (highest == a)]
            least, most = (f"{noise:.3g}" for noise in (own.min(), own.max()))
            kind = {1: "columns", 2: "pairs", 3: "triples"}.get(w, f"{w} columns")
            found.append((kind, a, len(own), least if least == most else f"{least} to {most}"))
        return found

    def _head(self) -> str:
        counts: dict[str, int] = {}
        for kind, _, count, _ in self._groups:
            counts[kind] = counts.get(kind, 0) + count
        parts = [f"{count} of {kind}" for kind, count in counts.items()]
        if self.whole_row:
            parts.append(f"{self.index.whole} of whole rows")
        return (f"{self.features.K} moments ({', '.join(parts)}; degrees up to {self.degree} of a column"
                + (f", {self.pair_degree} in a pair" if self.pair_degree else "")
                + f") with {NOISE_NAMES[self.blocks[0].charge.law]} noise")

    def __str__(self) -> str:
        lines = [self._head()]
        lines += [f"  {kind:<8} highest degree {degree:>2}: noise {noise}" for kind, degree, _, noise in self._groups]
        lines.append("predicted root mean square error (and if nothing were measured):")
        lines += [f"  {label}: {error:.2g} ({self.baseline[label]:.2g})" for label, error in self.predicted.items()]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        rows = [(label, f"{error:.2g}", f"{self.baseline[label]:.2g}") for label, error in self.predicted.items()]
        return html_table(self._head(), self._groups, ("moments of", "highest degree", "number", "noise")) + html_table(
            "Predicted root mean square error", rows, ("queries", "error", "if nothing were measured"))


def rounding(n: int, degree: int) -> float:
    """Return how much further a mean computed in floating point moves than an exact one; see the module's text.

    Parameters
    ----------
    n : int
        Persons.
    degree : int
        The largest total degree of a function.
    """
    return (16.0 * degree**2 * UNIT + 2.0 * lattice.STEP) / n + 8.0 * UNIT


def roundings(features: Features, n: int) -> Array:
    """Return how much further each computed mean (K,) moves than the exact one; see the module's text."""
    products = rounding(n, features.degree)
    whole = [rounding(n, math.ceil(5 * features.d * PROFILE_DEGREE / math.sqrt(1.0 - floor)))
             for floor in features.floors]
    return np.array([products] * features.basis.K + whole)


def strength_of(budget: Budget, fraction: float = 1.0) -> float:
    """Return what a fraction of a budget spends on one vector: mu of Gaussian noise, or epsilon where delta is 0.

    The fraction is of epsilon, or of mu^2: mechanisms with fractions of sum 1 satisfy the budget together.
    """
    return gaussian_mu(budget) * math.sqrt(fraction) if budget.delta > 0 else budget.epsilon * fraction


def vector_charge(purpose: str, gaussian: bool, sensitivity: float, strength: float, proof: str) -> Charge:
    """Return the charge for one vector: Gaussian noise for its L2 sensitivity, or Laplace noise for that in L1.

    The sensitivity is of the weighted means, rounding included; the strength is that of :func:`strength_of`.
    """
    scale = sensitivity / strength * UPWARD
    if gaussian:
        return Charge(purpose, "gaussian", scale, sensitivity, "L2", 1, proof)
    return Charge(purpose, "laplace", scale, sensitivity, "L1", 1, proof)
