"""Budgets, and the charges against them."""

import math
import operator
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from numbers import Real
from typing import Any, Literal, Self

from trigmech._validate import LONGEST_TEXT, fields, of_kind
from trigmech.errors import BudgetError, InputError, shown

Law = Literal["laplace", "gaussian", "linf", "exponential", "threshold", "other"]
Norm = Literal["L1", "L2", "Linf", "each", "none"]

# The norms in which a sensitivity proves something of noise of a distribution.
NORMS: dict[Law, tuple[Norm, ...]] = {"laplace": ("L1", "each"), "gaussian": ("L2",), "linf": ("Linf",),
                                      "exponential": ("Linf",), "threshold": ("none",), "other": ("none",)}

# More releases than this in one charge are a mistake, and their number would leave floating point behind.
LARGEST_COUNT = 10**12

# Outside, rounding errors are no longer small beside a budget.
SMALLEST_EPSILON, LARGEST_EPSILON = 1e-9, 1e12

# The part of a budget that finds bounds and categories, if the schema asks for private ones.
BOUNDS_SHARE = 0.1
# Two computed costs that should be equal differ by less, relatively.
ROUNDING_OF_COSTS = 1 + Fraction(1, 10**12)
# Stands for a declared sensitivity of 0, which pays for nothing.
TINIEST = Fraction(5e-324)

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
            object.__setattr__(self, name, real_number(name, getattr(self, name)))
        if not (self.epsilon > 0 and math.isfinite(self.epsilon)):
            raise BudgetError(f"epsilon must be positive and finite, not {self.epsilon}")
        if not 0 <= self.delta < 1:
            raise BudgetError(f"delta must be at least 0 and below 1, not {self.delta}")

    def __str__(self) -> str:
        return f"({shown_up(self.epsilon)}, {shown_up(self.delta)})"

    def to_dict(self) -> dict[str, Any]:
        """Return the two numbers by name."""
        return {"epsilon": self.epsilon, "delta": self.delta}

    def for_replace_one(self) -> Self:
        """Return the budget for replacing a row that follows if this budget is for adding or removing a row: two steps.

        That is (2 epsilon, (1 + e^epsilon) delta), both numbers as they are written, rounded up.

        Raises
        ------
        BudgetError
            If that delta is not below 1.
        """
        delta = 0.0
        if self.delta > 0:
            # By logarithms first: the exponential of a large epsilon has no float, and takes a decimal for ever.
            delta = 1.0 if self.epsilon + math.log(self.delta) >= 0 else _times_one_plus_exp(self.epsilon, self.delta)
        if not delta < 1:
            raise BudgetError(f"{self} for adding or removing a row implies no guarantee for replacing a row: its "
                              "delta times (1 + e^epsilon) is not below 1")
        return type(self)(float_above(2 * as_decimal(self.epsilon)), delta)

    def split(self, *shares: float) -> "tuple[Budget, ...]":
        """Return budgets whose mechanisms, one for each share, satisfy this one together.

        Parameters
        ----------
        *shares : float
            Above 0, of sum 1 at most. Where delta is 0 each is a part of epsilon. Else each is a part of mu^2, of
            Gaussian noise: all mechanisms must then add Gaussian noise, calibrated to their part.

        Raises
        ------
        BudgetError
            If a share breaks a rule, or is too small for Gaussian noise.
        """
        from trigmech.privacy.accounting import gaussian_mu
        from trigmech.privacy.privacy_loss import gaussian_epsilon

        if not shares or not all(isinstance(share, Real) and share > 0 for share in shares) or (
                sum(map(Fraction, shares)) > 1 + Fraction(1, 10**12)):
            raise BudgetError(f"shares of a budget must be above 0 and sum to at most 1, not {shown(shares)}")
        if not self.delta > 0:
            # Products are rounded, so that the parts could sum to more than the whole.
            return tuple(Budget(self.epsilon * share * (1.0 - 1e-12)) for share in shares)
        mu = gaussian_mu(self)
        return tuple(Budget(gaussian_epsilon(mu * math.sqrt(share), self.delta), self.delta) for share in shares)

    @classmethod
    def from_dict(cls, data: object, where: str = "the budget") -> Self:
        """Return the budget of :meth:`to_dict`; an InputError, beginning with ``where``, names a wrong field."""
        values = fields(data, where, {"epsilon": Real, "delta": Real})
        try:
            return cls(**values)
        except BudgetError as error:
            raise InputError(f"{where}: {error}") from None


def deviation_of(law: Law, entries: int = 1) -> float:
    """Return the standard deviation, in scales, of noise in each of so many entries that are drawn together.

    Infinite for laws that are not noise, because nothing can be drawn from them.
    """
    # l-infinity noise is r U with r ~ Gamma(entries + 1) and U uniform on [-1, 1]: for one entry Laplace noise.
    squares = {"gaussian": 1.0, "exponential": 1.0, "laplace": 2.0, "linf": (entries + 1.0) * (entries + 2.0) / 3.0}
    return math.sqrt(squares.get(law, math.inf))


@dataclass(frozen=True)
class Charge:
    """One noisy release, or several equal ones; each of them may depend on the earlier ones.

    Parameters
    ----------
    purpose : str
        A description of the release.
    law : {"laplace", "gaussian", "linf", "exponential", "threshold", "other"}
        The law of the noise: independent in each coordinate, or, for "linf", with a joint density proportional to
        exp(-max |z_i| / scale). "exponential" is the choice of one of several scores, each of which moves by at most
        half the sensitivity: see :meth:`trigmech.privacy.noise.SystemNoise.exponential`. "threshold" is not noise but
        a proved (0, delta)-privacy: a value that only one row reveals passes a threshold with a probability of at most
        delta. "other" is any mechanism for which only an (epsilon, delta) is known, which somebody else claims; see
        :meth:`claimed`.
    scale : float
        The Laplace scale, the Gaussian standard deviation, or the scale in that density; for a threshold its delta.
    sensitivity : float
        The largest change of one of the releases when a row is replaced, in the stated norm.
    norm : {"L1", "L2", "Linf", "each", "none"}
        "L1", "L2" and "Linf" are norms of a whole released vector. "each" is the change of a single coordinate, where
        each coordinate counts as its own release. Gaussian noise needs "L2", linf noise and choices need "Linf", and
        Laplace noise needs "L1" or "each". "none" is for "threshold", whose sensitivity is 0, and for "other", whose
        scale is 1 and whose sensitivity is the claimed epsilon.
    count : int
        The number of releases, at least 1 and at most 10^12.
    proof : str
        The name of the sensitivity's proof; for this package's proofs, an anchor of docs/proofs.md.
    claim : Budget, optional
        The cost that the source of a published scale claims: never a guarantee. For law "other": the claimed cost of
        each release, on which the proofs of the rest rely.
    floor : float, optional
        For a scale that was computed from an earlier release: its least possible value over all such releases. Proofs
        use it, because composition theorems need parameters that are fixed in advance.

    Raises
    ------
    BudgetError
        If a rule above is broken.
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
        for name in ("purpose", "proof"):
            # A ledger or a release with another text could not be read again, so the text is refused.
            text = getattr(self, name)
            if not (isinstance(text, str) and len(text) <= LONGEST_TEXT and text.isprintable()):
                raise BudgetError(f"a charge's {name} must be a text of at most {LONGEST_TEXT} printable letters, not "
                                  f"{shown(text)}")
        for name in ("scale", "sensitivity", "floor"):
            value = getattr(self, name)
            if value is not None or name != "floor":
                object.__setattr__(self, name, real_number(f"{self.purpose}: the {name}", value))
        if not (self.scale > 0 and math.isfinite(self.scale)):
            raise BudgetError(f"{self.purpose}: the noise scale must be positive and finite, not {self.scale}")
        if not (self.sensitivity >= 0 and math.isfinite(self.sensitivity)):
            raise BudgetError(f"{self.purpose}: the sensitivity must be at least 0, not {self.sensitivity}")
        for name, given in (("law", self.law), ("norm", self.norm)):
            if not isinstance(given, str):
                raise BudgetError(f"{self.purpose}: the {name} must be a word, not {shown(given)}")
        if self.norm not in NORMS.get(self.law, ()):
            rule = (f"its norm must be {' or '.join(NORMS[self.law])}" if self.law in NORMS else
                    f"the law must be one of {', '.join(NORMS)}")
            raise BudgetError(f"{self.purpose}: {self.law} noise cannot have its sensitivity in {self.norm}; {rule}")
        try:
            count = operator.index(self.count)
        except TypeError:
            raise BudgetError(f"{self.purpose}: the count must be an integer, not {shown(self.count)}") from None
        if not 1 <= count <= LARGEST_COUNT:
            raise BudgetError(f"{self.purpose}: the count must be from 1 to {LARGEST_COUNT:g}, not {count}")
        object.__setattr__(self, "count", count)
        if self.floor is not None and not (self.floor > 0 and math.isfinite(self.floor)):
            raise BudgetError(f"{self.purpose}: the floor must be positive and finite, not {self.floor}")
        if self.law == "other" and (self.claim is None or self.floor is not None or self.scale != 1.0
                                    or self.sensitivity != self.claim.epsilon):
            raise BudgetError(f"{self.purpose}: law 'other' needs a claim, the scale 1, the claimed epsilon as its "
                              "sensitivity, and no floor")
        if self.law == "threshold" and not (self.scale < 1.0 and self.sensitivity == 0.0 and self.claim is None
                                            and self.floor is None):
            raise BudgetError(f"{self.purpose}: law 'threshold' needs a delta below 1 as its scale, the sensitivity 0, "
                              "and neither a claim nor a floor")

    @classmethod
    def claimed(cls, purpose: str, claim: Budget, tool: str, count: int = 1) -> Self:
        """Return the charge for releases of another tool that only claims an (epsilon, delta) for each.

        Parameters
        ----------
        purpose : str
            A description of the release.
        claim : Budget
            The claimed cost of each release, for replace-one neighbours.
        tool : str
            The source of the claim.
        count : int
        """
        return cls(purpose, "other", 1.0, claim.epsilon, "none", count, f"claimed by {tool}, not proved here", claim)

    @property
    def claimed_delta(self) -> float:
        """The claimed delta of each release, or a threshold's delta; 0 for noise of a known distribution."""
        if self.law == "threshold":
            return self.scale
        return self.claim.delta if self.law == "other" and self.claim is not None else 0.0

    @property
    def least_scale(self) -> float:
        """The scale that proofs may rely on."""
        return self.scale if self.floor is None else min(self.floor, self.scale)

    @property
    def pure_epsilon(self) -> float:
        """The epsilon of all releases together at delta = 0: infinite for Gaussian noise and a delta of its own."""
        if self.law == "gaussian" or self.claimed_delta > 0:
            return math.inf
        return self.count * self.sensitivity / self.least_scale

    @property
    def mu(self) -> float:
        """The parameter of Gaussian differential privacy of all releases together; infinite for other noise."""
        return math.sqrt(self.count) * self.sensitivity / self.least_scale if self.law == "gaussian" else math.inf

    def deviation(self, entries: int = 1) -> float:
        """Return the standard deviation of the noise in each of so many entries that are drawn together."""
        return self.scale * deviation_of(self.law, entries)

    def scale_paid_by(self, declared: "Charge") -> float | None:
        """Return a scale at which this charge's noise costs no more than a declared charge does; None if it costs more.

        It is this charge's own scale, or one that is larger by rounding errors: costs that should be equal differ by
        these. The law, the norm and the count must be the same.

        Notes
        -----
        Privacy: noise of that scale has, by exact arithmetic, at most the declared ratio of sensitivity and scale.
        """
        own = self.scale
        if self == declared:
            return own
        if (self.law not in ("laplace", "gaussian") or self.sensitivity == 0.0
                or (self.floor, self.claim, declared.floor, declared.claim) != (None, None, None, None)
                or (self.law, self.norm, self.count) != (declared.law, declared.norm, declared.count)):
            return None
        least = Fraction(self.sensitivity) * Fraction(declared.scale) / max(Fraction(declared.sensitivity), TINIEST)
        if least <= Fraction(own):
            return own
        if least > Fraction(own) * ROUNDING_OF_COSTS:
            return None
        above = float(least)
        return above if Fraction(above) >= least else math.nextafter(above, math.inf)

    def to_dict(self) -> dict[str, Any]:
        """Return all fields by name, of the types that JSON has."""
        return {"purpose": self.purpose, "law": self.law, "scale": float(self.scale),
                "sensitivity": float(self.sensitivity), "norm": self.norm, "count": self.count, "proof": self.proof,
                "claim": None if self.claim is None else self.claim.to_dict(),
                "floor": None if self.floor is None else float(self.floor)}

    @classmethod
    def from_dict(cls, data: object, where: str = "the charge") -> Self:
        """Return the charge of :meth:`to_dict`; an InputError, beginning with ``where``, names a wrong field."""
        values = fields(data, where, {"purpose": str, "law": str, "scale": Real, "sensitivity": Real, "norm": str,
                                      "count": int, "proof": str, "claim": object, "floor": object})
        if values["claim"] is not None:
            values["claim"] = Budget.from_dict(values["claim"], f"{where}: claim")
        if values["floor"] is not None:
            values["floor"] = of_kind(f"{where}: floor", values["floor"], Real)
        try:
            return cls(**values)
        except BudgetError as error:
            raise InputError(f"{where}: {error}") from None


def check_epsilon(budget: Budget) -> None:
    """Raise a BudgetError if it is not a Budget, or no ledger can have this total."""
    if not isinstance(budget, Budget):
        raise BudgetError(f"budget must be a Budget, not {type(budget).__name__}")
    epsilon = budget.epsilon
    if not SMALLEST_EPSILON <= epsilon <= LARGEST_EPSILON:
        why = ("the noise would hide every table completely" if epsilon < 1.0
               else "it protects nobody, and rounding errors would outweigh its noise")
        raise BudgetError(f"a ledger's epsilon must lie between {SMALLEST_EPSILON:g} and {LARGEST_EPSILON:g}, not "
                          f"{epsilon:g}: {why}")


def real_number(name: str, value: object) -> float:
    """Return a number of any library as a float; text, truth values and other inputs of float() are refused.

    The BudgetError begins with ``name``.
    """
    if isinstance(value, bool) or not isinstance(value, Real):
        raise BudgetError(f"{name} must be a number, not {shown(value)}")
    try:
        return float(value)
    except OverflowError:
        raise BudgetError(f"{name} is too large for floating point") from None


def shown_up(value: float, digits: int = 6) -> str:
    """Return a number as text of at most so many significant digits that reads as no less than the number.

    A number with a text of that length, such as 0.1, is shown exactly; otherwise the last digit is rounded up.
    """
    return _shown(value, digits, ROUND_CEILING)


def shown_down(value: float, digits: int = 6) -> str:
    """Return the same, but reading as no more than the number."""
    return _shown(value, digits, ROUND_FLOOR)


def _shown(value: float, digits: int, rounding: str) -> str:
    value = float(value)
    text = f"{value:.{digits}g}"
    if not math.isfinite(value) or float(text) == value:
        return text
    # The float's exact value; its nearest text could lie on the wrong side.
    exact = Decimal(value)
    rounded = exact.quantize(Decimal(1).scaleb(exact.adjusted() - digits + 1), rounding)
    return f"{float(rounded):.{digits}g}"


@lru_cache(maxsize=1024)
def as_decimal(number: float) -> Fraction:
    """Return the shortest decimal that reads as the float, exactly."""
    return Fraction(repr(real_number("a part of a budget", number)))


def _times_one_plus_exp(epsilon: float, delta: float) -> float:
    """Return (1 + e^epsilon) delta of two decimals, rounded up to a float."""
    with localcontext() as context:
        context.prec = 50
        # Correctly rounded, to the nearest.
        exponential = Decimal(repr(epsilon)).exp().next_plus()
    return float_above((1 + Fraction(exponential)) * as_decimal(delta))


def float_below(number: Fraction) -> float:
    """Return the largest decimal's float that is at most the number, for a decimal's own float counts as itself."""
    near = float(number)
    return near if as_decimal(near) <= number else math.nextafter(near, -math.inf)


def float_above(number: Fraction) -> float:
    """Return the smallest one that is at least the number."""
    near = float(number)
    return near if as_decimal(near) >= number else math.nextafter(near, math.inf)
