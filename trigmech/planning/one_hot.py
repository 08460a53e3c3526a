"""Which moments to measure of rows that hold categories besides numbers, and how exactly; from public numbers alone.

Measured are, of the numbers, what :func:`trigmech.planning.planner.plan_moments` chooses for them with its part of the
budget, and by a second mechanism the means of: every indicator u (the frequencies of categories, of special values and
of missing ones), the products u v of indicators of two columns (contingency tables), and x u and T_2(x) u for a number
x of another column.

Sensitivity of the second mechanism. A row has at most one indicator of a group that is 1. Of group g let w_g be the
weight of its indicators, w_gh that of its table with group h, and w_gj, j = 1, 2, ..., those of its products with a
number's polynomial t_j, |t_j| <= 1. Replace a row.

- If the row's indicator in g changes, or comes or goes, w_g u moves by at most w_g in each of two entries, and the
  products w_gj t_j u by at most w_gj in each of two. If it stays, w_g u does not move and each product moves by at most
  2 w_gj in one entry (or in none). In L1 that is at most 2 w_g + 2 sum_j w_gj in either case, and squared in L2 at most

      m_g = max(2 w_g^2 + 2 sum_j w_gj^2, 4 sum_j w_gj^2).

- A table holds at most one entry that is not 0 for a row, and it is w_gh: it moves by at most 2 w_gh in L1 and
  2 w_gh^2 in squared L2.

So the squared L2 sensitivity of the sum over rows is at most sum_g m_g + 2 sum w_gh^2, and that in L1 at most
2 (sum_g w_g + sum_j w_gj + sum w_gh). Both are attained by one group, and by any number of complete groups without
numbers: a row that changes all its categories. These facts hold only of rows that keep to their domain, which
`moments.measure` checks. Rounding is added as in :mod:`trigmech.thesis.calibration`.

The two mechanisms together: epsilons add up, or for Gaussian noise mu^2 does; shares of sum 1 spend the budget.

Which of these to measure, with which shares: every column has the same part in the half of the budget that goes to
single columns, but for indicators, of which a column with more has more; every pair of columns has the same part in the
other half, unless the noise in its entries would exceed those entries' typical size, in which case it is not measured
at all and its part goes to the others.
"""

import math
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from trigmech.domain import Domain, OneHotGroup
from trigmech.errors import InputError
from trigmech.functions.chebyshev import ChebyshevBasis
from trigmech.functions.features import Features
from trigmech.functions.index import FunctionIndex
from trigmech.planning.design import UPWARD, Block, rounding
from trigmech.planning.planner import Design, plan_moments
from trigmech.privacy.accounting import gaussian_mu
from trigmech.privacy.budget import Budget, Charge
from trigmech.workload import Family
from trigmech.workload.family import distinct

Array = NDArray[np.float64]

SINGLE_SHARE = 0.5
# A table's entries are measured if the noise in each is below this part of 1 / their number; products of a category and
# a number, if it is below this part of 1 / the number of categories.
WORTH_MEASURING = 1.0
NUMBER_DEGREES = (1, 2)
MAX_MIXED_FUNCTIONS = 16_384
# Every point holds all indicators: 50,000 points of so many are some gigabytes.
MOST_INDICATORS = 4_096
# Supposed total variation between a column of categories and the uniform distribution.
NOTHING_KNOWN = 0.5

_PROOF = "trigmech.planning.one_hot"


@dataclass(frozen=True)
class _Item:
    """Functions of one or two groups of one weight: the indicators of a group, a table, or products with a number."""

    groups: tuple[int, ...]
    number: int | None
    degree: int
    size: int  # of functions
    cells: int  # of the smallest entries' typical frequency, 1 / cells
    share: float


def plan_mixed(n: int, domain: Domain, budget: Budget, workload: Family | None, *, degree: int | None = None,
               pair_degree: int | None = None, triples: bool | None = None, weighted: bool = True,
               max_functions: int = MAX_MIXED_FUNCTIONS) -> Design:
    """Return what to measure of rows with at least one group of indicators.

    Parameters
    ----------
    n : int
        Rows, at least 2.
    domain : Domain
    budget : Budget
    workload : Family, optional
        Of the numbers alone, in their order; not needed if there are none.
    degree, pair_degree, triples, weighted
        For the numbers, as for :func:`trigmech.planning.planner.plan_moments`.
    max_functions : int
        Limit of K; the largest tables are left out first.

    Returns
    -------
    Design
        Its functions are of all coordinates, those of numbers first.

    Raises
    ------
    InputError
        If the indicators are more than ``max_functions`` or 4096, or a fixed part for the numbers breaks a rule.

    Notes
    -----
    Privacy: public numbers only; the sensitivity is proved in the module's docstring. Cost: seconds at most.
    """
    numbers = domain.numbers
    columns = len(numbers) + sum(group.value is None for group in domain.groups)
    items = _items(domain, columns)
    indicators, most = sum(len(group.coordinates) for group in domain.groups), min(max_functions, MOST_INDICATORS)
    if indicators > most:
        raise InputError(f"the columns have {indicators} categories, special and missing values together, more than "
                         f"the {most} that can be measured (max_functions = {max_functions}); name fewer, and "
                         "other = ... for the rest")
    unit = _unit(n, budget)
    own = _number_share(len(numbers), columns)
    while True:
        total = own + sum(item.share for item in items)
        items = [replace(item, share=item.share / total) for item in items]
        own /= total
        kept = _worth(items, unit, budget.delta > 0, max_functions)
        if len(kept) == len(items):
            break
        items = kept
    of_numbers: Design | None = None
    if numbers:
        if workload is None:
            raise InputError("rows with numbers need a workload for them")
        of_numbers = plan_moments(n, len(numbers), budget, workload, degree=degree, pair_degree=pair_degree,
                                  triples=triples, whole_row=False, weighted=weighted, share=own)
    return _design(n, domain, budget, items, own, of_numbers)


def l2_diameter(domain: Domain, items: list[_Item], weights: Array) -> float:
    """Return the bound of the module's docstring on the movement of a row's weighted functions in squared L2."""
    alone, products = np.zeros(len(domain.groups)), np.zeros(len(domain.groups))
    tables = 0.0
    for item, weight in zip(items, weights, strict=True):
        if len(item.groups) == 2:
            tables += 2.0 * weight**2
        elif item.number is None:
            alone[item.groups[0]] += weight**2
        else:
            products[item.groups[0]] += weight**2
    return float(np.maximum(2.0 * alone + 2.0 * products, 4.0 * products).sum()) + tables


def _items(domain: Domain, columns: int) -> list[_Item]:
    """Return all that could be measured besides the numbers' own moments, with first shares."""
    groups = domain.groups
    pairs = max(math.comb(columns, 2), 1)
    size = [len(group.coordinates) for group in groups]
    entries = sum(count + 1 for count in size)
    categories = sum(group.value is None for group in groups)
    alone = SINGLE_SHARE * max(categories, 1) / columns
    items = [_Item((g,), None, 0, size[g], size[g], alone * (size[g] + 1) / entries) for g in range(len(groups))]
    each = (1.0 - SINGLE_SHARE) / pairs
    for g, h in combinations(range(len(groups)), 2):
        items.append(_Item((g, h), None, 0, size[g] * size[h], size[g] * size[h], each))
    for g, group in enumerate(groups):
        for j in domain.numbers:
            if j != group.value:
                items += [_Item((g,), j, degree, size[g], size[g], each / len(NUMBER_DEGREES))
                          for degree in NUMBER_DEGREES]
    return items


def _number_share(numbers: int, columns: int) -> float:
    return SINGLE_SHARE * numbers / columns + (1.0 - SINGLE_SHARE) * math.comb(numbers, 2) / max(
        math.comb(columns, 2), 1)


def _unit(n: int, budget: Budget) -> float:
    """Return the noise in a mean that moves by 1 / n and has all of the budget."""
    return 1.0 / (n * gaussian_mu(budget)) if budget.delta > 0 else math.sqrt(2.0) / (n * budget.epsilon)


def _worth(items: list[_Item], unit: float, gaussian: bool, max_functions: int) -> list[_Item]:
    """Return the items without the worst of those whose noise would drown them, or of the largest of too many."""
    def noise(item: _Item) -> float:
        return unit * (math.sqrt(2.0 / item.share) if gaussian else 2.0 / item.share)

    optional = [item for item in items if len(item.groups) == 2 or item.number is not None]
    drowned = [item for item in optional if noise(item) * item.cells > WORTH_MEASURING]
    if drowned:
        # Not all at once: what the worst leave may be enough for the others.
        worst = max(noise(item) * item.cells for item in drowned)
        return [item for item in items if item not in drowned or noise(item) * item.cells < 0.7 * worst]
    if sum(item.size for item in items) > max_functions:
        return [item for item in items if item is not max(optional, key=lambda item: item.size)]
    return items


def _design(n: int, domain: Domain, budget: Budget, items: list[_Item], own: float,
            of_numbers: Design | None) -> Design:
    share = 1.0 - own if of_numbers else 1.0
    gaussian = budget.delta > 0
    shares = np.array([item.share for item in items])
    weights = np.sqrt(shares / 2.0) if gaussian else shares / 2.0
    sizes = np.array([item.size for item in items])
    flat = np.repeat(weights / weights.max(), sizes)
    weights = weights / weights.max()
    rounded = rounding(n, max(NUMBER_DEGREES) + 1)
    if gaussian:
        mu = gaussian_mu(budget) * math.sqrt(share)
        moved = math.sqrt(l2_diameter(domain, items, weights)) / n + float(np.linalg.norm(flat)) * rounded
        charge = Charge("indicators", "gaussian", moved / mu * UPWARD, moved, "L2", 1, _PROOF)
    else:
        moved = 2.0 * float(weights.sum()) / n + float(flat.sum()) * rounded
        charge = Charge("indicators", "laplace", moved / (budget.epsilon * share) * UPWARD, moved, "L1", 1, _PROOF)
    index = np.vstack([_rows(domain, item) for item in items])
    first = 0
    blocks: tuple[Block, ...] = ()
    predicted: dict[str, float] = {}
    baseline: dict[str, float] = {}
    if of_numbers:
        first = of_numbers.features.K
        embedded = np.zeros((first, domain.d), dtype=np.int64)
        embedded[:, list(domain.numbers)] = of_numbers.features.basis.index
        index = np.vstack([embedded, index])
        blocks, predicted, baseline = of_numbers.blocks, of_numbers.predicted, of_numbers.baseline
    block = Block(slice(first, len(index)), flat, charge)
    variations = _variations(domain, items, block.deviation / weights)
    labels = distinct([*predicted, *variations])
    predicted = dict(zip(labels, [*predicted.values(), *variations.values()], strict=True))
    baseline = dict(zip(labels, [*baseline.values(), *[NOTHING_KNOWN] * len(variations)], strict=True))
    features = Features(ChebyshevBasis(index))
    numbers = (of_numbers.degree, of_numbers.pair_degree, of_numbers.triples) if of_numbers else (1, 0, False)
    tables = any(len(item.groups) == 2 or item.number is not None for item in items)
    return Design(features, numbers[0], max(numbers[1], int(tables)), numbers[2], False, (*blocks, block), predicted,
                  baseline, FunctionIndex(index, domain))


def _rows(domain: Domain, item: _Item) -> NDArray[np.int64]:
    """Return the multi-indices of an item's functions."""
    first: OneHotGroup = domain.groups[item.groups[0]]
    others: tuple[int | None, ...] = (item.number,)
    if len(item.groups) == 2:
        others = domain.groups[item.groups[1]].coordinates
    rows = np.zeros((item.size, domain.d), dtype=np.int64)
    for row, (u, v) in zip(rows, ((u, v) for u in first.coordinates for v in others), strict=True):
        row[u] = 1
        if v is not None:
            row[v] = item.degree or 1
    return rows


def _variations(domain: Domain, items: list[_Item], deviations: Array) -> dict[str, float]:
    """Return the expected total variation of noise alone in the frequencies of the group where it is largest."""
    noise = [math.sqrt(2.0 / math.pi) * deviation * item.size / 2.0
             for item, deviation in zip(items, deviations, strict=True)
             if len(item.groups) == 1 and item.number is None]
    return {"frequencies of a column, total variation": max(noise)}
