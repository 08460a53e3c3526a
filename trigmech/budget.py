"""What may be spent, what was spent, and what that proves."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import reduce
from typing import Literal

from trigmech.errors import BudgetError

Law = Literal["laplace", "gaussian", "linf"]
Norm = Literal["L1", "L2", "Linf", "each"]

# The norms in which a sensitivity proves something of noise of a law.
NORMS: dict[Law, tuple[Norm, ...]] = {"laplace": ("L1", "each"), "gaussian": ("L2",), "linf": ("Linf",)}

# A single loss above this is beyond what privacy loss distributions hold in floating point; epsilons are added up.
LARGEST_LOSS = 500.0

SMALLEST_GAUSSIAN_EPSILON = 1e-6

ADJACENCY = "replace-one: two tables are neighbours if they differ in one row; n is public"


@dataclass(frozen=True)
class Budget:
    """An (epsilon, delta) differential privacy budget under replace-one adjacency.

    Parameters
    ----------
    epsilon : float
        Positive and finite.
    delta : float
        At least 0 and below 1; 0 is pure differential privacy.

    Raises
    ------
    BudgetError
        If a rule above is broken.
    """

    epsilon: float
    delta: float = 0.0

    def __post_init__(self) -> None:
        for name in ("epsilon", "delta"):
            value = getattr(self, name)
            try:
                number = float(value)
            except (TypeError, ValueError):
                raise BudgetError(f"{name} must be a number, not {value!r}") from None
            object.__setattr__(self, name, number)
        if not (self.epsilon > 0 and math.isfinite(self.epsilon)):
            raise BudgetError(f"epsilon must be positive and finite, not {self.epsilon}")
        if not 0 <= self.delta < 1:
            raise BudgetError(f"delta must be at least 0 and below 1, not {self.delta}")

    def __str__(self) -> str:
        return f"({self.epsilon:g}, {self.delta:g})"


@dataclass(frozen=True)
class Charge:
    """One noisy release, or a run of equal ones, each of which may depend on those before.

    Parameters
    ----------
    purpose : str
        What was released.
    law : {"laplace", "gaussian", "linf"}
        Of the noise: independent in each coordinate, or, for "linf", of a joint density proportional to
        exp(-max |z_i| / scale).
    scale : float
        The Laplace scale, the Gaussian standard deviation, or the scale in that density.
    sensitivity : float
        How far one of the releases moves when a row is replaced, in the stated norm.
    norm : {"L1", "L2", "Linf", "each"}
        "L1", "L2" and "Linf": of a whole released vector. "each": of a single coordinate, each coordinate being
        counted as a release of its own. Gaussian noise goes with "L2", linf noise with "Linf", Laplace noise with
        "L1" or "each".
    count : int
        The number of releases.
    proof : str
        Where the sensitivity is proved.
    claim : Budget, optional
        What the source of a published scale says that the charge costs. Never a guarantee.
    floor : float, optional
        For a scale that was computed from an earlier release: the least that it could have been, whatever that
        release was. Proofs use it, because composition theorems take parameters that are fixed in advance.
    """

    purpose: str
    law: Law
    scale: float
    sensitivity: float
    norm: Norm
    count: int
    proof: str
    claim: Budget | None = None
    floor: float | None = None

    def __post_init__(self) -> None:
        if not (self.scale > 0 and math.isfinite(self.scale)):
            raise BudgetError(f"{self.purpose}: the noise scale must be positive and finite, not {self.scale}")
        if not (self.sensitivity >= 0 and math.isfinite(self.sensitivity)):
            raise BudgetError(f"{self.purpose}: the sensitivity must be at least 0, not {self.sensitivity}")
        if self.norm not in NORMS.get(self.law, ()):
            raise BudgetError(f"{self.purpose}: {self.law} noise does not go with sensitivity in {self.norm}")

    @property
    def least_scale(self) -> float:
        """The scale that proofs may rely on."""
        return self.scale if self.floor is None else min(self.floor, self.scale)

    @property
    def pure_epsilon(self) -> float:
        """The epsilon of all releases together at delta = 0: infinite for Gaussian noise."""
        return math.inf if self.law == "gaussian" else self.count * self.sensitivity / self.least_scale

    @property
    def mu(self) -> float:
        """The parameter of Gaussian differential privacy of all releases together; infinite for other noise."""
        return math.sqrt(self.count) * self.sensitivity / self.least_scale if self.law == "gaussian" else math.inf


def gaussian_mu(budget: Budget) -> float:
    """Return mu for which mu-GDP implies the budget, 1e-6 below the largest: 1 / (the analytic Gaussian's multiplier).

    Raises
    ------
    BudgetError
        If epsilon is below 1e-6.

    References
    ----------
    Balle and Wang 2018; Dong, Roth and Su 2022, corollary 2.13.
    """
    from dp_accounting import get_sigma_gaussian

    if budget.epsilon < SMALLEST_GAUSSIAN_EPSILON:
        raise BudgetError(f"epsilon = {budget.epsilon} is below {SMALLEST_GAUSSIAN_EPSILON}, where floating point no "
                          "longer tells what Gaussian noise costs; use a pure mechanism")
    # Rounded down by far more than the library's search and cancellation errors above that epsilon.
    return (1.0 - 1e-6) / float(get_sigma_gaussian(budget.epsilon, budget.delta))


def epsilon_of(charges: Iterable[Charge], delta: float) -> float:
    """Return a proved epsilon, at the given delta, of all charges together under adaptive composition.

    Without Gaussian noise, at delta = 0, it adds up. Gaussian alone is composed exactly (GDP). Anything else is
    composed by the pessimistic privacy loss distributions of dp_accounting: a release with an L1 or an Linf
    sensitivity enters as the worst mechanism of its pure epsilon, single coordinates as the one-dimensional Laplace
    mechanism. The privacy loss of additive noise depends on shift / scale alone, so the library's default relation
    serves for the replace-one sensitivities used here.
    """
    charges = [charge for charge in charges if charge.sensitivity > 0]
    pure = math.fsum(charge.pure_epsilon for charge in charges)
    if delta == 0 or not charges:
        return pure
    if all(charge.law == "gaussian" for charge in charges):
        from dp_accounting import get_epsilon_gaussian

        mu = math.hypot(*(charge.mu for charge in charges))
        return float(get_epsilon_gaussian(1.0 / mu, delta)) if mu > 0 else 0.0
    from dp_accounting.pld import common
    from dp_accounting.pld import privacy_loss_distribution as pld

    ratios = [charge.sensitivity / charge.least_scale for charge in charges]
    if max(ratios) > LARGEST_LOSS:
        return pure
    # Finer than the library's 1e-4 where single losses are small, as with hundreds of means; but of the range of all
    # losses together never more than a million parts, which bounds memory. Rounding is upwards in either case.
    ranges = [charge.mu * (charge.mu + 20.0) if charge.law == "gaussian" else charge.count * ratio
              for charge, ratio in zip(charges, ratios, strict=True)]
    interval = max(min(1e-4, max(1e-6, min(ratios) / 50)), math.fsum(ranges) / 1e6)
    losses = []
    for charge in charges:
        scale, shift = charge.least_scale, charge.sensitivity
        if charge.law == "gaussian":
            one = pld.from_gaussian_mechanism(scale, shift, value_discretization_interval=interval)
        elif charge.norm == "each":
            one = pld.from_laplace_mechanism(scale, shift, value_discretization_interval=interval)
        else:
            worst = common.DifferentialPrivacyParameters(shift / scale, 0.0)
            one = pld.from_privacy_parameters(worst, value_discretization_interval=interval)
        losses.append(one.self_compose(charge.count) if charge.count > 1 else one)
    return min(pure, float(reduce(lambda a, b: a.compose(b), losses).get_epsilon_for_delta(delta)))


@dataclass
class Ledger:
    """The record of all charges against one table, in order.

    Parameters
    ----------
    budget : Budget
        What may be spent.
    enforced : bool
        True: a charge that would exceed the budget is refused. False, for the thesis's published scales only: the
        budget is the thesis's claim, anything is recorded, and :attr:`guarantee` says what is proved.
    simulated : bool
        True if the noise came from a seeded generator, which anyone may repeat: the output is then not private.

    Notes
    -----
    Adjacency is replace-one with n public. A charge is recorded before its noise is drawn.
    """

    budget: Budget
    enforced: bool = True
    simulated: bool = False
    charges: list[Charge] = field(default_factory=list)

    def charge(self, charge: Charge) -> None:
        """Record a charge, before any noise is drawn.

        Raises
        ------
        BudgetError
            If the ledger is enforced and the total would exceed the budget. Nothing is recorded then.
        """
        if self.enforced:
            total = epsilon_of([*self.charges, charge], self.budget.delta)
            if not total <= self.budget.epsilon:
                raise BudgetError(f"{charge.purpose}: the charge would bring epsilon to {total:.6g} at "
                                  f"delta={self.budget.delta:g}, over the budget {self.budget}")
        self.charges.append(charge)

    @property
    def proved_epsilon(self) -> float:
        """The epsilon that is proved of all charges together at the budget's delta; infinite if none is."""
        return epsilon_of(self.charges, self.budget.delta)

    @property
    def guarantee(self) -> Budget:
        """What is proved of all charges together.

        Raises
        ------
        BudgetError
            If no finite epsilon is proved, which no enforced ledger admits.
        """
        return Budget(max(self.proved_epsilon, 1e-300), self.budget.delta)

    @property
    def claim(self) -> Budget | None:
        """What the thesis claims of a run at its published scales; None for rigorous runs."""
        return None if self.enforced else self.budget

    def __str__(self) -> str:
        lines = [f"{'purpose':<16} {'noise':<9} {'scale':>10} {'sensitivity':>12} {'norm':<5} {'times':>6}  proof"]
        lines += [f"{c.purpose:<16} {c.law:<9} {c.scale:>10.4g} {c.sensitivity:>12.4g} {c.norm:<5} {c.count:>6}  "
                  f"{c.proof}" for c in self.charges]
        lines.append(f"adjacency: {ADJACENCY}")
        if self.enforced:
            lines.append(f"budget: {self.budget}")
        else:
            lines.append(f"the thesis claims {self.budget} for these scales; that is not a guarantee")
        lines.append(f"proved: ({self.proved_epsilon:g}, {self.budget.delta:g})-differential privacy of all charges "
                     "together" if math.isfinite(self.proved_epsilon) else "proved: no differential privacy at all")
        if self.simulated:
            lines.append("SIMULATED: the noise came from a seeded generator, so the output is NOT PRIVATE")
        return "\n".join(lines)
