"""The minimax design: all moments up to a degree, with more noise at higher orders, for smooth functions.

The class: f = sum_r c_r phi_r on [-1, 1]^d with sum_r |r|^(2k) c_r^2 <= 1, where |r| is the Euclidean norm. Up to a
constant factor it holds all functions with k bounded derivatives.

**Release.** The moments r of {0..m}^d except 0, each times s_r = |r|^(-k/2), form one Gaussian vector. Every phi_r lies
in [-1, 1]. So a replaced row moves the weighted means by at most 2 sqrt(S) / n in L2, with S = sum_r s_r^2 =
sum_r |r|^(-k). For d = 1 `sensitivity.pair_l2_diameter` proves a smaller bound. Let the budget be mu-GDP. The noise in
moment r has variance |r|^k sigma^2 with sigma = 2 sqrt(S) / (n mu). (For delta = 0: Laplace noise, s_r = |r|^(-2k/3),
sensitivity at most 2 sum_r s_r / n in L1.)

**Fit.** A distribution q that minimises sum_r |r|^(-2k) (z_r - E_q phi_r)^2.

**Error.** Let D(q) be the square root of that sum, with the table's means in place of z. By Cauchy and Schwarz, the
error of any f of the class, truncated at degree m, is at most D(q). The table's own distribution is one candidate of
the minimum. So the exact minimiser has D(q) <= 2 |noise| in the weighted norm, and E |noise|^2 = sum_r |r|^(-2k) |r|^k
sigma^2 = S sigma^2. Hence E D(q) <= 2 sqrt(S) sigma = 4 S / (n mu). S grows like m^(d-k) for k < d and like log m for
k = d, and is bounded for k > d. The truncation costs a constant times m^(-k). With m = (n mu)^(1/max(d, k)) both errors
have the order (n mu)^(-min(1, k/d)), up to the logarithm. This is the minimax rate. A variance v_r proportional to
|r|^k is best: the sensitivity fixes the sum of 1 / v_r, and then sum_r |r|^(-2k) v_r is least.

For delta = 0 the same steps give E D(q) <= 2 sqrt(2) 2 (sum_r |r|^(-2k/3))^(3/2) / (n epsilon), which grows like
m^(3d/2 - k) for k < 3d/2. With m = (n epsilon)^(1/max(3d/2, k)) the error has the order
(n epsilon)^(-min(1, 2k/(3d))). No better rate by moments is known there. For d = 1 other methods have a better rate.

The printed constants of the sources are not used. For d >= 2 Musco et al. state a variance that lacks a factor 2 of
their own Gaussian mechanism, and they print their objective with the unnormalised polynomials.

References
----------
Musco, Musco, Rosenblatt and Singh 2025 (d = 1, k = 1); Ding, He and Zhu 2026.
"""

import math

import numpy as np

from trigmech._arrays import Array
from trigmech.errors import InputError, shown
from trigmech.functions.chebyshev import ChebyshevBasis
from trigmech.functions.features import Features
from trigmech.functions.index import FunctionIndex
from trigmech.functions.sensitivity import pair_l2_diameter
from trigmech.planning.design import MomentDesign, Regime, Round, round_of
from trigmech.privacy.budget import Budget
from trigmech.queries.functions import Functions, rounding

# The search for the sensitivity takes too long beyond some tens of degrees.
SEARCHED = 64
MOST_LOG = 200.0

_PROOF = "minimax-moments"


def plan_smooth(n: int, d: int, budget: Budget, smoothness: float, max_functions: int) -> MomentDesign:
    """Return the design of the minimax mechanism for smoothness k > 0; see the module's docstring.

    Raises an InputError if m = 1 already needs more than ``max_functions`` functions (m + 1)^d - 1. The mechanism is
    for few columns.
    """
    if not smoothness > 0 or not math.isfinite(smoothness):
        raise InputError(f"smoothness must be positive and finite, not {shown(smoothness)}")
    if 2**d - 1 > max_functions:
        raise InputError(f"the minimax mechanism measures all moments up to a degree; with {d} columns these are at "
                         f"least {2**d - 1}, more than max_functions = {max_functions}")
    growth = float(d) if budget.delta > 0 else 1.5 * d
    best = math.ceil(max(1.0, n * Regime.of(budget).strength) ** (1.0 / max(growth, smoothness)))
    m = max(1, min(best, math.floor((max_functions + 1) ** (1.0 / d) + 1e-9) - 1))
    index = FunctionIndex.of(ChebyshevBasis.tensor(d, m + 1).index[1:])
    # In the reconstruction's order: columns first, degree by degree.
    index = FunctionIndex.of(index.degrees[np.lexsort((index.degrees.argmax(axis=1), index.highest, index.width > 1))])
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


def _round(features: Features, n: int, budget: Budget, weights: Array) -> Round:
    regime, slack = Regime.of(budget), rounding(n, features.degree)
    if regime.gaussian:
        # Functions beyond the search add the distance of any function with values in [-1, 1].
        searched = SEARCHED if features.d == 1 else 0
        squared = pair_l2_diameter(1, tuple(weights[:searched].tolist()), ())
        diameter = math.sqrt(squared + 4.0 * float(weights[searched:] @ weights[searched:]))
    else:
        diameter = 2.0 * float(weights.sum())
    functions = Functions.of(features, weights=weights, proved={regime.norm: diameter})
    return round_of(functions, regime.charge("moments", diameter / n + regime.length(weights) * slack, _PROOF))
