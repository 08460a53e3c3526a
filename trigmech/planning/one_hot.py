"""The choice and the precision of moments for rows with categories and numbers, from public numbers only.

There are two mechanisms. The first measures moments of the numbers, which
:func:`trigmech.planning.search.plan_moments` chooses for its fraction of the budget. The second measures the means of
every indicator u (the frequencies of categories, special values and missing values), the products u v of indicators of
two columns (contingency tables), and x u and T_2(x) u for a number x of another column.

Sensitivity of the second mechanism. At most one indicator of a group is 1 for a row. For group g let w_g be the weight
of its indicators, and w_gh that of its table with group h. Let w_gj, j = 1, 2, ..., be the weights of its products with
a number's polynomial t_j, |t_j| <= 1. Replace a row.

- If the row's indicator in g changes, appears or disappears, w_g u moves by at most w_g in each of two entries, and the
  products w_gj t_j u by at most w_gj in each of two. If it stays, w_g u does not move, and each product moves by at
  most 2 w_gj in at most one entry. In L1 this is at most 2 w_g + 2 sum_j w_gj in both cases, and squared in L2 at most

      m_g = max(2 w_g^2 + 2 sum_j w_gj^2, 4 sum_j w_gj^2).

- At most one entry of a table is nonzero for a row, and it is w_gh. So the table moves by at most 2 w_gh in L1 and
  2 w_gh^2 in squared L2.

So the squared L2 sensitivity of the sum over rows is at most sum_g m_g + 2 sum w_gh^2, and that in L1 at most
2 (sum_g w_g + sum_j w_gj + sum w_gh). One group attains both. So does any number of complete groups without numbers, if
a row changes all its categories. These facts hold only for rows inside their domain, which `moments.measure` checks.
Rounding is added as in :mod:`trigmech.queries.functions`.

The two mechanisms together: epsilons add up, or for Gaussian noise mu^2 does. Fractions of sum 1 spend the budget.

The fractions: single columns get one half of the budget. There all columns get the same, but among indicators a column
with more of them gets more. Pairs of columns get the other half, and there all pairs get the same. If the typical size
of a pair's entries is below their noise, the pair is not measured, and its fraction goes to the others.
"""

import math
from dataclasses import dataclass, replace
from itertools import combinations, product

import numpy as np
from numpy.typing import NDArray

from trigmech._arrays import Array
from trigmech.domain import Domain
from trigmech.errors import InputError
from trigmech.functions.chebyshev import ChebyshevBasis
from trigmech.functions.features import Features
from trigmech.functions.index import FunctionIndex
from trigmech.planning.design import MomentDesign, Regime, Round, round_of
from trigmech.planning.search import plan_moments
from trigmech.privacy.budget import Budget
from trigmech.queries.functions import Functions, rounding
from trigmech.workload import Family
from trigmech.workload.family import distinct

SINGLE_FRACTION = 0.5
# A table is measured if the noise in each entry is below this factor times 1 / the number of entries. Products of
# categories and a number are measured if the noise is below this factor times 1 / the number of categories.
WORTH_MEASURING = 1.0
NUMBER_DEGREES = (1, 2)
MAX_MIXED_FUNCTIONS = 16_384
# Every point holds all indicators. 50,000 points with so many indicators take some gigabytes.
MOST_INDICATORS = 4_096
# Assumed total variation between a categorical column and the uniform distribution.
NOTHING_KNOWN = 0.5
VARIATION = "frequencies of a column, total variation"

_PROOF = "one-hot-moments"


@dataclass(frozen=True)
class FunctionBlock:
    """Functions with a common weight: indicators of a group, entries of a table of two groups, or products.

    groups: One or two groups of the domain, by position.
    number, degree: The coordinate of the number and the degree of its polynomial, for products with one group's
      indicators.
    """

    groups: tuple[int, ...]
    size: int
    fraction: float
    number: int | None = None
    degree: int = 1

    @property
    def optional(self) -> bool:
        """Whether the functions use two columns. Then they are not measured if they are below the noise."""
        return len(self.groups) == 2 or self.number is not None

    def noise(self, n: int, budget: Budget, strength: float) -> float:
        """Return the noise in an entry, relative to the typical size of an entry."""
        if budget.delta > 0:
            return 1.0 / (n * strength) * math.sqrt(2.0 / self.fraction) * self.size
        return math.sqrt(2.0) / (n * strength) * (2.0 / self.fraction) * self.size


def plan_mixed(n: int, domain: Domain, budget: Budget, workload: Family | None, *, degree: int | None = None,
               pair_degree: int | None = None, triples: bool | None = None, weighted: bool = True,
               max_functions: int = MAX_MIXED_FUNCTIONS) -> MomentDesign:
    """Return a design for n rows with at least one group of indicators.

    workload: A workload for the numeric columns, in their order. It is required if there are such columns.
    degree, pair_degree, triples, weighted: For the numbers; see :func:`trigmech.planning.search.plan_moments`.
    max_functions: Limit of K. The largest tables are left out first.

    The functions of numbers come first. Raises an InputError if there are more than ``max_functions`` or 4096
    indicators, or if an option for the numbers breaks a rule.

    Privacy: public numbers only; the sensitivity is proved in the module's docstring. Cost: seconds at most.
    """
    numbers = domain.numbers
    indicators, most = sum(len(group.coordinates) for group in domain.groups), min(max_functions, MOST_INDICATORS)
    if indicators > most:
        raise InputError(f"the columns have {indicators} categories, special and missing values together, but at most "
                         f"{most} can be measured (max_functions = {max_functions}); list fewer categories, and let "
                         "the option other stand for the rest")
    marginals, own = _selected(n, domain, budget, max_functions)
    if not numbers:
        return _design(n, domain, budget, marginals, 1.0, None)
    if workload is None:
        raise InputError("a workload is required when there are numeric columns")
    of_numbers = plan_moments(n, len(numbers), budget, workload, degree=degree, pair_degree=pair_degree,
                              triples=triples, whole_row=False, weighted=weighted, fraction=own)
    return _design(n, domain, budget, marginals, 1.0 - own, of_numbers)


def l2_diameter(domain: Domain, marginals: list[FunctionBlock], weights: Array) -> float:
    """Return the bound of the module's docstring on the squared L2 sensitivity of the weighted functions' sums."""
    alone, products = np.zeros(len(domain.groups)), np.zeros(len(domain.groups))
    tables = 0.0
    for marginal, weight in zip(marginals, weights, strict=True):
        if len(marginal.groups) == 2:
            tables += 2.0 * weight**2
        elif marginal.number is None:
            alone[marginal.groups[0]] += weight**2
        else:
            products[marginal.groups[0]] += weight**2
    return float(np.maximum(2.0 * alone + 2.0 * products, 4.0 * products).sum()) + tables


def _selected(n: int, domain: Domain, budget: Budget, max_functions: int) -> tuple[list[FunctionBlock], float]:
    """Return the marginals that are above the noise, and the fraction of the budget for the numbers' own moments."""
    numbers, strength = len(domain.numbers), Regime.of(budget).strength
    columns = numbers + sum(group.value is None for group in domain.groups)
    pairs = max(math.comb(columns, 2), 1)
    own = SINGLE_FRACTION * numbers / columns + (1.0 - SINGLE_FRACTION) * math.comb(numbers, 2) / pairs
    kept = _all_marginals(domain, columns, (1.0 - SINGLE_FRACTION) / pairs)
    while True:
        total = own + sum(marginal.fraction for marginal in kept)
        own /= total
        marginals = [replace(marginal, fraction=marginal.fraction / total) for marginal in kept]
        kept = _worth_measuring(marginals, [each.noise(n, budget, strength) for each in marginals], max_functions)
        if len(kept) == len(marginals):
            return marginals, own


def _all_marginals(domain: Domain, columns: int, of_pair: float) -> list[FunctionBlock]:
    """Return all marginals that can be measured, without the numbers' own moments, with their first fractions."""
    size = [len(group.coordinates) for group in domain.groups]
    groups, entries = range(len(size)), sum(count + 1 for count in size)
    alone = SINGLE_FRACTION * max(sum(group.value is None for group in domain.groups), 1) / columns
    return [*(FunctionBlock((g,), size[g], alone * (size[g] + 1) / entries) for g in groups),
            *(FunctionBlock((g, h), size[g] * size[h], of_pair) for g, h in combinations(groups, 2)),
            *(FunctionBlock((g,), size[g], of_pair / len(NUMBER_DEGREES), j, degree) for g in groups
              for j in domain.numbers if j != domain.groups[g].value for degree in NUMBER_DEGREES)]


def _worth_measuring(marginals: list[FunctionBlock], noise: list[float], max_functions: int) -> list[FunctionBlock]:
    """Return fewer marginals: without the worst of those below the noise, or without the largest if K is too large."""
    below = [level for marginal, level in zip(marginals, noise, strict=True)
             if marginal.optional and level > WORTH_MEASURING]
    if below:
        # The worst ones go first: their fractions may lift the others above the noise.
        limit = 0.7 * max(below)
        return [marginal for marginal, level in zip(marginals, noise, strict=True)
                if not marginal.optional or level <= WORTH_MEASURING or level < limit]
    if sum(marginal.size for marginal in marginals) > max_functions:
        largest = max((marginal for marginal in marginals if marginal.optional), key=lambda marginal: marginal.size)
        return [marginal for marginal in marginals if marginal is not largest]
    return marginals


def _design(n: int, domain: Domain, budget: Budget, marginals: list[FunctionBlock], fraction: float,
            of_numbers: MomentDesign | None) -> MomentDesign:
    """Return a design that joins the numbers' own design and the marginals, which get a fraction of the budget."""
    fractions = np.array([marginal.fraction for marginal in marginals])
    weights = np.sqrt(fractions / 2.0) if budget.delta > 0 else fractions / 2.0
    weights = weights / weights.max()
    each = np.repeat(weights, [marginal.size for marginal in marginals])
    degrees = [_multi_indices(domain, marginal) for marginal in marginals]
    first, predicted, baseline = 0, dict[str, float](), dict[str, float]()
    rounds: tuple[Round, ...] = ()
    if of_numbers is not None:
        first, rounds = of_numbers.features.K, of_numbers.rounds
        predicted, baseline = of_numbers.predicted, of_numbers.baseline
        embedded = np.zeros((first, domain.d), dtype=np.int64)
        embedded[:, list(domain.numbers)] = of_numbers.index.degrees
        degrees = [embedded, *degrees]
    index = FunctionIndex(np.vstack(degrees), domain)
    features = Features(ChebyshevBasis(index.degrees))
    measured = _round(n, Functions(features, domain, each, slice(first, first + len(each))), budget, marginals, weights,
                      fraction)
    # The total variation from noise alone, for the group with the largest noise.
    variation = max(math.sqrt(2.0 / math.pi) * float(measured.deviation / weight) * marginal.size / 2.0
                    for marginal, weight in zip(marginals, weights, strict=True) if not marginal.optional)
    labels = distinct([*predicted, VARIATION])
    return MomentDesign(features, index, (*(_among(features, domain, each) for each in rounds), measured),
                  dict(zip(labels, [*predicted.values(), variation], strict=True)),
                  dict(zip(labels, [*baseline.values(), NOTHING_KNOWN], strict=True)))


def _among(features: Features, domain: Domain, alone: Round) -> Round:
    """Return a round of the numbers' own design for functions of all coordinates."""
    return replace(alone, asked=tuple(replace(each, query=replace(each.query, features=features, domain=domain))
                                      for each in alone.asked))


def _round(n: int, functions: Functions, budget: Budget, marginals: list[FunctionBlock], weights: Array,
           fraction: float) -> Round:
    slack, regime = rounding(n, max(NUMBER_DEGREES) + 1), Regime.of(budget)
    if regime.gaussian:
        diameter = math.sqrt(l2_diameter(functions.domain, marginals, weights))
    else:
        diameter = 2.0 * float(weights.sum())
    charge = regime.charge("indicators", diameter / n + regime.length(functions.weights) * slack, _PROOF, fraction)
    return round_of(replace(functions, proved={regime.norm: diameter}), charge)


def _multi_indices(domain: Domain, marginal: FunctionBlock) -> NDArray[np.int64]:
    """Return the multi-indices (size, d) of a marginal's functions."""
    factors: list[tuple[int, ...]] = [domain.groups[g].coordinates for g in marginal.groups]
    degrees = [1] * len(factors)
    if marginal.number is not None:
        factors, degrees = [*factors, (marginal.number,)], [*degrees, marginal.degree]
    rows = np.zeros((marginal.size, domain.d), dtype=np.int64)
    for row, coordinates in zip(rows, product(*factors), strict=True):
        row[list(coordinates)] = degrees
    return rows
