"""Designs for means of functions: rounds of measurements, with one charge for each round."""

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from trigmech._arrays import Array
from trigmech._html import html_table
from trigmech.errors import BudgetError
from trigmech.functions.features import Features
from trigmech.functions.index import FunctionIndex
from trigmech.privacy.accounting import gaussian_mu
from trigmech.privacy.budget import Budget, Charge, Law, Norm
from trigmech.privacy.noise import lattice_step
from trigmech.queries.base import Measurement
from trigmech.queries.functions import Functions

# Scales are raised by this factor, so that the sum of all costs stays within the budget despite rounding.
UPWARD = 1.0 + 1e-12
NOISE_NAMES = {"gaussian": "Gaussian", "laplace": "Laplace", "linf": "l-infinity K-norm"}


@dataclass(frozen=True, eq=False)
class Round:
    """Measurements without values that are released by one draw of noise."""

    asked: tuple[Measurement[Any], ...]
    charge: Charge

    @property
    def size(self) -> int:
        """The number of drawn values."""
        return sum(each.query.size for each in self.asked)

    @property
    def deviation(self) -> float:
        """The standard deviation of the noise in each number of the weighted vector."""
        return self.charge.deviation(self.size)

    @cached_property
    def planned(self) -> tuple[Measurement[Any], ...]:
        """The measurements with their noise."""
        return tuple(replace(each, noise=self.deviation) for each in self.asked)

    @property
    def deviations(self) -> Array:
        """The standard deviations of the noise in all means, flat."""
        return np.concatenate([each.deviations for each in self.planned])


@dataclass(frozen=True, eq=False)
class Agenda:
    """The facts about a release that are known before it is made. Public.

    measurements: The planned measurements with their noise, as far as their queries are known.
    note: The assumption under which later rounds measure this.
    predicted: The predicted root mean square errors of queries.
    """

    measurements: tuple[Measurement[Any], ...]
    words: str
    note: str = ""
    predicted: dict[str, float] = field(default_factory=dict)


def round_of(functions: Functions, charge: Charge) -> Round:
    return Round((Measurement(functions),), charge)


@dataclass(frozen=True, eq=False)
class MomentDesign:
    """The planned measurements, their noise and the predicted error. Public.

    Parameters
    ----------
    features : Features
    index : FunctionIndex
        The descriptions of the functions.
    rounds : tuple of Round
        The rounds, in the order of the functions.
    predicted : dict of str to float
        The root mean square error over each query group of the workload. It counts T_a of a column (a up to 32, or up
        to 64 if a group's columns have different importance), T_a T_b of two columns (a and b up to 8) and x_i x_j x_k.
        The error bars of a release count all products of such families.
    baseline : dict of str to float
        The same error without any measurement.
    """

    features: Features
    index: FunctionIndex
    rounds: tuple[Round, ...]
    predicted: dict[str, float]
    baseline: dict[str, float] = field(repr=False)

    @property
    def degree(self) -> int:
        """The largest degree p of a function of one column."""
        return int(self.index.highest[self.index.single].max())

    @property
    def pair_degree(self) -> int:
        """The largest degree q in a product of two numbers; 1 if all products contain categories; 0 without products.
        """
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
        return np.concatenate([each.deviations for each in self.rounds])

    @property
    def scales(self) -> Array:
        """The same as ``deviations``, by its older name."""
        return self.deviations

    @property
    def _groups(self) -> list[tuple[str, int, int, str]]:
        """The kind, degree, count and noise of the Chebyshev products with each number of columns and highest degree.
        """
        width, highest, deviations = self.index.width, self.index.highest, self.deviations[: len(self.index.degrees)]
        found = []
        for w, a in np.unique(np.column_stack([width, highest]), axis=0).tolist():
            own = deviations[(width == w) & (highest == a)]
            least, most = (f"{noise:.3g}" for noise in (own.min(), own.max()))
            kind = {1: "columns", 2: "pairs", 3: "triples"}.get(w, f"{w} columns")
            found.append((kind, a, len(own), least if least == most else f"{least} to {most}"))
        return found

    @property
    def head(self) -> str:
        """The functions and their noise in one line."""
        counts: dict[str, int] = {}
        for kind, _, count, _ in self._groups:
            counts[kind] = counts.get(kind, 0) + count
        parts = [f"{count} of {kind}" for kind, count in counts.items()]
        if self.whole_row:
            parts.append(f"{self.index.whole} of whole rows")
        return (f"{self.features.K} moments ({', '.join(parts)}; degrees up to {self.degree} of a column"
                + (f", {self.pair_degree} in a pair" if self.pair_degree else "")
                + f") with {NOISE_NAMES[self.rounds[0].charge.law]} noise")

    def __str__(self) -> str:
        lines = [self.head]
        lines += [f"  {kind:<8} highest degree {degree:>2}: noise {noise}" for kind, degree, _, noise in self._groups]
        lines.append("predicted root mean square error (and if nothing were measured):")
        lines += [f"  {label}: {error:.2g} ({self.baseline[label]:.2g})" for label, error in self.predicted.items()]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        rows = [(label, f"{error:.2g}", f"{self.baseline[label]:.2g}") for label, error in self.predicted.items()]
        return html_table(self.head, self._groups, ("moments of", "highest degree", "number", "noise")) + html_table(
            "Predicted root mean square error", rows, ("queries", "error", "if nothing were measured"))


@dataclass(frozen=True)
class Regime:
    """The kind of noise that a budget allows, chosen here alone: Gaussian noise if delta > 0, else pure noise.

    law: The law of the noise of one vector.
    strength: mu of Gaussian noise, or epsilon. Parts with fractions of sum 1 satisfy the budget together.
    """

    law: Law
    strength: float

    @classmethod
    def of(cls, budget: Budget, approximate: bool = True) -> "Regime":
        """Return the regime of a budget; that of a mechanism which is not ``approximate`` is pure."""
        if approximate and budget.delta > 0:
            return cls("gaussian", gaussian_mu(budget))
        return cls("laplace", budget.epsilon)

    @property
    def gaussian(self) -> bool:
        return self.law == "gaussian"

    @property
    def norm(self) -> Norm:
        """The norm of a vector's sensitivity."""
        return "L2" if self.gaussian else "L1"

    def length(self, values: Array) -> float:
        """Return the length of a vector in the norm."""
        return float(np.linalg.norm(values, 2 if self.gaussian else 1))

    def part(self, fraction: float) -> float:
        """Return the strength of a fraction of mu^2, or of epsilon."""
        return self.strength * math.sqrt(fraction) if self.gaussian else self.strength * fraction

    def charge(self, purpose: str, sensitivity: float, proof: str, fraction: float = 1.0) -> Charge:
        """Return the charge of one vector; the sensitivity is that of the weighted means, with their rounding."""
        scale = sensitivity / self.part(fraction) * UPWARD
        return Charge(purpose, self.law, scale, sensitivity, self.norm, 1, proof)

    def max_charge(self, purpose: str, sensitivity: float, proof: str, fraction: float) -> Charge:
        """Return the charge of one vector with noise for the max norm. The regime must be pure."""
        # The lattice of the noise also moves the values, by less than scale / 2^39.
        epsilon = self.part(fraction) / UPWARD - 2.0**-39
        if not epsilon > 0.0:
            raise BudgetError(f"{purpose}: epsilon = {self.part(fraction):.3g} is too small for l-infinity noise")
        scale = sensitivity / epsilon
        return Charge(purpose, "linf", scale, sensitivity + lattice_step(scale), "Linf", 1, proof)
