"""The minimax design: all moments up to a degree, with noise that grows with the order at the rate smooth functions
forgive.

The class: f = sum_r c_r phi_r on [-1, 1]^d with sum_r |r|^(2k) c_r^2 <= 1, |r| the Euclidean norm, which holds all
functions with k bounded derivatives up to a constant factor.

**Release.** The moments r of {0..m}^d but 0, each times s_r = |r|^(-k/2), in one Gaussian vector. Every phi_r lies in
[-1, 1], so a replaced row moves the weighted means by at most 2 sqrt(S) / n in L2, S = sum_r s_r^2 = sum_r |r|^(-k);
for d = 1 `sensitivity.pair_l2_diameter` proves less. The noise in moment r has variance |r|^k sigma^2 with sigma = 2
sqrt(S) / (n mu), where mu-GDP is the budget. (For delta = 0: Laplace, s_r = |r|^(-2k/3), sensitivity at most 2 sum_r
s_r / n in L1.)

**Fit.** A distribution q that minimises sum_r |r|^(-2k) (z_r - E_q phi_r)^2.

**Error.** Let D(q) be the square root of that sum with the table's means instead of z. By Cauchy and Schwarz the error
of any f of the class, truncated at degree m, is at most D(q). The table's own distribution is one candidate of the
minimum, so for the exact minimiser D(q) <= 2 |noise| in the weighted norm, and E |noise|^2 = sum_r |r|^(-2k) |r|^k
sigma^2 = S sigma^2. Hence E D(q) <= 2 sqrt(S) sigma = 4 S / (n mu). S grows like m^(d-k) for k < d, like log m for k =
d and is bounded for k > d; the truncation costs a constant times m^(-k). With m = (n mu)^(1/max(d, k)) both are of the
order (n mu)^(-min(1, k/d)), up to the logarithm: the minimax rate. Variance proportional to |r|^k is best because, for
sum of v_r^(-1) fixed (the sensitivity), sum_r |r|^(-2k) v_r is least for v_r proportional to |r|^k.

For delta = 0 the same steps give E D(q) <= 2 sqrt(2) 2 (sum_r |r|^(-2k/3))^(3/2) / (n epsilon), which grows like
m^(3d/2 - k) for k < 3d/2; with m = (n epsilon)^(1/max(3d/2, k)) the error is of the order
(n epsilon)^(-min(1, 2k/(3d))). No better rate by moments is known there; for d = 1 other methods have one.

The printed constants of the sources are not used: Musco et al. state a variance for d >= 2 that lacks a factor 2 of
their own Gaussian mechanism, and print their objective with the unnormalised polynomials.

References
----------
Musco, Musco, Rosenblatt and Singh 2025 (d = 1, k = 1); Ding, He and Zhu 2026.
"""

import math

import numpy as np
from numpy.typing import NDArray

from trigmech.errors import InputError, shown
from trigmech.functions.chebyshev import ChebyshevBasis
from trigmech.functions.features import Features
from trigmech.functions.index import FunctionIndex
from trigmech.functions.sensitivity import pair_l2_diameter
from trigmech.planning.design import MomentDesign, Round, round_of, strength_of, vector_charge
from trigmech.privacy.budget import Budget
from trigmech.queries.functions import Functions, rounding

Array = NDArray[np.float64]

# The search for the supremum takes too long beyond some tens of degrees.
SEARCHED = 64
MOST_LOG = 200.0

_PROOF = "minimax-moments"


def plan_smooth(n: int, d: int, budget: Budget, smoothness: float, max_functions: int) -> MomentDesign:
    """Return the design of the minimax mechanism.

    Parameters
    ----------
    n, d : int
    budget : Budget
    smoothness : float
        k, positive.
    max_functions : int
        Limit of (m + 1)^d - 1.

    Returns
    -------
    MomentDesign

    Raises
    ------
    InputError
        If even m = 1 needs more than ``max_functions`` functions: the mechanism is for few columns.

    Notes
    -----
    Privacy: public numbers only; the proof is in the module's text.
    """
    if not smoothness > 0 or not math.isfinite(smoothness):
        raise InputError(f"smoothness must be positive and finite, not {shown(smoothness)}")
    if 2**d - 1 > max_functions:
        raise InputError(f"the minimax mechanism measures all moments up to a degree; with {d} columns these are at "
                         f"least {2**d - 1}, more than max_functions = {max_functions}")
    growth = float(d) if budget.delta > 0 else 1.5 * d
    best = math.ceil(max(1.0, n * strength_of(budget)) ** (1.0 / max(growth, smoothness)))
    m = max(1, min(best, math.floor((max_functions + 1) ** (1.0 / d) + 1e-9) - 1))
    index = _all_moments(d, m)
    norms = np.linalg.norm(index.degrees, axis=1)
    if smoothness * math.log(norms.max()) > MOST_LOG:
        raise InputError(f"smoothness = {smoothness:g} is too large for moments up to degree {m}: their weights would "
                         "underflow")
    features = Features(ChebyshevBasis(index.degrees))
    weights = norms ** (-smoothness / 2.0 if budget.delta > 0 else -2.0 * smoothness / 3.0)
    measured = _round(features, n, budget, weights)
    label, forgiven = f"smooth functions, order {smoothness:g}", norms**-smoothness
    predicted, baseline = (2.0 * float(np.linalg.norm(each)) for each in (
        forgiven * measured.deviation / weights, forgiven))
    return MomentDesign(features, index, (measured,), {label: predicted}, {label: baseline})


def _all_moments(d: int, m: int) -> FunctionIndex:
    """Return those of {0..m}^d but 0, columns first, degree by degree, as the reconstruction wants them."""
    found = FunctionIndex.of(ChebyshevBasis.tensor(d, m + 1).index[1:])
    return FunctionIndex.of(found.degrees[np.lexsort((found.degrees.argmax(axis=1), found.highest, found.width > 1))])


def _round(features: Features, n: int, budget: Budget, weights: Array) -> Round:
    gaussian, slack = budget.delta > 0, rounding(n, features.degree)
    if gaussian:
        # Functions beyond the search count like any other function.
        searched = SEARCHED if features.d == 1 else 0
        squared = pair_l2_diameter(1, tuple(weights[:searched].tolist()), ())
        diameter = math.sqrt(squared + 4.0 * float(weights[searched:] @ weights[searched:]))
        sensitivity = diameter / n + float(np.linalg.norm(weights)) * slack
    else:
        diameter = 2.0 * float(weights.sum())
        sensitivity = 2.0 * float(weights.sum()) / n + float(weights.sum()) * slack
    functions = Functions.of(features, weights=weights, proved={"L2" if gaussian else "L1": diameter})
    return round_of(functions, vector_charge("moments", gaussian, sensitivity, strength_of(budget), _PROOF))
