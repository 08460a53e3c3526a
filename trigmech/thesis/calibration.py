"""Noise scales of the thesis's mechanisms: the printed ones, and the proved ones.

They use only public numbers: n, d, the basis, the budget.

This module proves the *rigorous* scales, for n rows, replace-one neighbours and public n:

Basis means. Sensitivities are those of `sensitivity`. Pure: Laplace noise of scale S_1 / (n epsilon_b). Approximate:
Gaussian noise of standard deviation S_2 / (n mu_b).

Mean. |x - x'|_1 <= 2d and |x - x'|_2 <= 2 sqrt(d), attained at opposite corners.

Axes (private subspace iteration). The iteration multiplies by the second moment about the public centre of the cube,
M = (1/n) sum x x^T, and subtracts the released mean afterwards, because M moves less than the covariance:
M(D) - M(D') = (x x^T - y y^T)/n =: E/n. E has rank at most 2. Its eigenvalues of either sign are at most
max(|x|^2, |y|^2) <= d. So its spectral norm is at most d, and its Frobenius norm at most sqrt(2) d (attained by
orthogonal corners, for even d). For X with k orthonormal columns, |E X|_F <= min(sqrt(2) d, sqrt(k) d) =
sqrt(min(k, 2)) d, and entrywise |E X|_1 <= sqrt(d k) |E X|_F. Given all earlier outputs, X is fixed. So adaptive
composition over the iterations applies.

Rounding is added as in :mod:`trigmech.queries.functions`. Take a product of X with M, or with the covariance, whose
entries combine three means; each entry of the product takes d additions. In Frobenius norm it moves by at most
3 d `rounding` + 2.02 d^2 sqrt(k) u more.

Together. Pure: epsilons add up. Approximate: all steps are Gaussian, and mu^2 adds up (Dong, Roth and Su 2022). mu is
the largest value whose mu-GDP implies (epsilon, delta), less one part in a million. No other slack is added.

For the *published* scales, the ledger computes the proved cost from these facts. Each basis mean moves by at most 2/n,
not 1/n. So there are K - 1 coordinates with "each" 2/n, or S_1 if epsilon is pure. The mean's scale 6d/(n epsilon) is
right. The covariance moves by at most 4 d (n-1)/n^2 in spectral norm and sqrt(2) times as much in Frobenius norm, by
the identity A(D) - A(D') = ((n-1)/n^2) [(x-m)(x-m)^T - (y-m)(y-m)^T], where m is the mean of the other rows and
|x - m| <= 2 sqrt(d). The printed rho is computed at the *noisy* mean, and may be below the true sensitivity. So the
proof uses its least possible value, at mean 0, which is the charge's `floor`.

References
----------
Huang 2014, algorithms 4, 5, 6, 7, 9, 10, propositions 1.7 and 1.12, lemma 2.7, theorem 2.13.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from trigmech.errors import BudgetError
from trigmech.functions.chebyshev import ChebyshevBasis
from trigmech.planning.design import UPWARD
from trigmech.privacy.accounting import gaussian_mu
from trigmech.privacy.budget import Budget, Charge
from trigmech.queries.functions import rounding

Calibration = Literal["published", "rigorous"]

_AXES = "mean-and-axes"
_MEANS_PROOF = "chebyshev-means"


@dataclass(frozen=True)
class NoiseScales:
    """The charges of one run, from public numbers.

    Parameters
    ----------
    means : Charge
        The charge for the basis means.
    mean : Charge, optional
        The charge for the mean of the rows; None without axes.
    axes : callable, optional
        Maps the norm of the released mean to the charge for the axes, because the published scale depends on it.
    """

    means: Charge
    mean: Charge | None = None
    axes: Callable[[float], Charge] | None = None

    @property
    def charges(self) -> tuple[Charge, ...]:
        """All charges, as known before the first draw. The charge for the axes has its least possible scale."""
        return (self.means, *([] if self.mean is None else [self.mean]),
                *([] if self.axes is None else [self.axes(0.0)]))


def noise_scales(basis: ChebyshevBasis, n: int, budget: Budget, calibration: Calibration, approximate: bool,
                 rank: int = 0, iterations: int = 0) -> NoiseScales:
    """Return the noise scales of a thesis mechanism for n rows.

    Parameters
    ----------
    budget : Budget
        The budget of the whole run. With axes, each of the three steps gets a third of epsilon (or of mu^2).
    approximate : bool
        False for the pure mechanisms (algorithms 4, 7, 9), which spend no delta; True for 5, 6, 10.
    rank, iterations : int
        The rank and the steps of the private subspace iteration. Rank 0: no such iteration.

    Raises
    ------
    BudgetError
        If an approximate mechanism is given delta = 0.
    """
    if approximate and not budget.delta > 0:
        raise BudgetError("this mechanism needs delta > 0; with delta = 0 use TrigI or ImprovedTrigI")
    if calibration == "rigorous":
        return _rigorous(basis, n, budget, approximate, rank, iterations)
    return (_published_approximate if approximate else _published_pure)(basis, n, budget, rank, iterations)


def _rigorous(basis: ChebyshevBasis, n: int, budget: Budget, gaussian: bool, rank: int, iterations: int) -> NoiseScales:
    d, steps = basis.d, 3 if rank else 1
    part = gaussian_mu(budget) / math.sqrt(steps) if gaussian else budget.epsilon / steps
    charge = _gaussian if gaussian else _laplace
    means = charge("basis means", _means_sensitivity(basis, n, 2 if gaussian else 1), part, 1, _MEANS_PROOF)
    if not rank:
        return NoiseScales(means)
    product = _product_sensitivity(math.sqrt(min(rank, 2)) * d / n, d, n, rank)
    axes = (_gaussian("axes", product, part, iterations, _AXES) if gaussian else
            _laplace("axes", math.sqrt(d * rank) * product, part / iterations, iterations, _AXES))
    mean = charge("mean", math.sqrt(d) * (2 / n + rounding(n, 1)) if gaussian else 2 * d / n + d * rounding(n, 1),
                  part, 1, _AXES)
    return NoiseScales(means, mean, lambda _: axes)


def _published_pure(basis: ChebyshevBasis, n: int, budget: Budget, rank: int, iterations: int) -> NoiseScales:
    d = basis.d
    epsilon = budget.epsilon / 3 if rank else budget.epsilon
    claim = Budget(epsilon)
    means = Charge("basis means", "laplace", basis.K / (n * epsilon), _means_sensitivity(basis, n, 1), "L1", 1,
                   _MEANS_PROOF, claim)
    if not rank:
        return NoiseScales(means)

    def axes(norm: float) -> Charge:
        factor = 10 * math.sqrt(d) * rank * iterations / epsilon
        exact = math.sqrt(min(rank, 2)) * covariance_sensitivity(d, n)
        return Charge("axes", "laplace", factor * published_rho(d, n, norm),
                      math.sqrt(d * rank) * _product_sensitivity(exact, d, n, rank), "L1", iterations, _AXES, claim,
                      floor=factor * published_rho(d, n, 0.0))

    mean = Charge("mean", "laplace", 2 * d / (n * epsilon), 2 * d / n + d * rounding(n, 1), "L1", 1, _AXES, claim)
    return NoiseScales(means, mean, axes)


def _published_approximate(basis: ChebyshevBasis, n: int, budget: Budget, rank: int, iterations: int) -> NoiseScales:
    d = basis.d
    epsilon, delta = (budget.epsilon / 3 if rank else budget.epsilon), budget.delta
    scale = math.sqrt(2 * basis.K * math.log(1 / delta)) / (n * epsilon)
    moving = basis.K - (basis.constant is not None)
    means = Charge("basis means", "laplace", scale, 2 / n + rounding(n, _degree(basis)), "each", moving, _MEANS_PROOF,
                   Budget(epsilon, delta))
    if not rank:
        return NoiseScales(means)

    def axes(norm: float) -> Charge:
        factor = math.sqrt(4 * rank * iterations * math.log(2 / delta)) / epsilon
        exact = math.sqrt(min(rank, 2)) * covariance_sensitivity(d, n)
        return Charge("axes", "gaussian", factor * published_rho(d, n, norm), _product_sensitivity(exact, d, n, rank),
                      "L2", iterations, _AXES, Budget(epsilon, delta / 2), floor=factor * published_rho(d, n, 0.0))

    mean = Charge("mean", "laplace", 2 * d / (n * epsilon), 2 / n + rounding(n, 1), "each", d, _AXES, Budget(epsilon))
    return NoiseScales(means, mean, axes)


def _degree(basis: ChebyshevBasis) -> int:
    return int(basis.index.sum(axis=1).max())


def _means_sensitivity(basis: ChebyshevBasis, n: int, p: Literal[1, 2]) -> float:
    """Return the sensitivity of the computed basis means in L1 or L2. It is exactly 0 for the constant alone."""
    moving = basis.K - (basis.constant is not None)
    exact = basis.l1_sensitivity(n) if p == 1 else basis.l2_sensitivity(n)
    return exact + moving ** (1.0 / p) * rounding(n, _degree(basis))


def _product_sensitivity(exact: float, d: int, n: int, rank: int) -> float:
    """Return the sensitivity, in Frobenius norm, of a computed product of a (d, d) moment matrix and k unit columns."""
    return exact + 3 * d * rounding(n, 2) + 2.02 * d**2 * math.sqrt(rank) * 2.0**-53


def published_rho(d: int, n: int, norm: float) -> float:
    """Return c(n, d, norm) of the thesis's (2.10), with p as printed there.

    The thesis proves it for the norm of the exact mean. Algorithms 6 and 7 use the norm of a noisy mean; the proof
    fails if this norm is smaller. (The printed p has an error of 1/n^2, which cancels to leading order.)
    """
    p = 1 / n + (n - 1) ** 2 / n**2
    root = math.sqrt(d)
    return ((norm + root / n) ** 2 / p + p * d + 2 * root * norm + 2 * d / n) / n


def covariance_sensitivity(d: int, n: int) -> float:
    """Return 4 d (n-1)/n^2, the sensitivity of the covariance of n points of the cube in spectral norm."""
    return 4 * d * (n - 1) / n**2


def _laplace(purpose: str, sensitivity: float, epsilon: float, count: int, proof: str) -> Charge:
    scale = max(sensitivity, 1e-300) / epsilon * UPWARD
    return Charge(purpose, "laplace", scale, sensitivity, "L1", count, proof)


def _gaussian(purpose: str, sensitivity: float, mu: float, count: int, proof: str) -> Charge:
    scale = max(sensitivity, 1e-300) * math.sqrt(count) / mu * UPWARD
    return Charge(purpose, "gaussian", scale, sensitivity, "L2", count, proof)
