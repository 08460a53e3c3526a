"""What is measured of rows with indicators: its sensitivity, attacked; its budget; and what it leaves out."""

import math

import numpy as np
import pytest
from releases import blocks

from trigmech.domain import Domain, OneHotGroup
from trigmech.errors import InputError
from trigmech.mechanisms.moment import MomentMechanism
from trigmech.planning.one_hot import FunctionBlock, l2_diameter, plan_mixed
from trigmech.privacy.accounting import epsilon_of
from trigmech.privacy.budget import Budget
from trigmech.workload import GaussianKernels, Mixture, SecondMoments

# Two numbers, of which one has two special values, and two columns of categories.
LAYOUT = Domain(9, [OneHotGroup((2, 3), False, 1), OneHotGroup((4, 5, 6), True), OneHotGroup((7, 8), True)])
NUMBERS = Mixture((GaussianKernels(2, seed=0), SecondMoments(2)))


def rows_of(domain, count, rng, corners=False):
    """Random rows that keep to a domain; with corners, numbers are -1, 0 or 1."""
    rows = np.zeros((count, domain.d))
    numbers = list(domain.numbers)
    rows[:, numbers] = rng.choice([-1.0, 0.0, 1.0], (count, len(numbers))) if corners else rng.uniform(
        -1.0, 1.0, (count, len(numbers)))
    for group in domain.groups:
        options = len(group.coordinates) + (not group.complete)
        chosen = rng.integers(options, size=count)
        has = chosen < len(group.coordinates)
        rows[np.flatnonzero(has), np.array(group.coordinates)[chosen[has]]] = 1.0
        if group.value is not None:
            rows[has, group.value] = 0.0
    domain.check(rows)
    return rows


def furthest(design, block, order, rng):
    """The largest movement of a block's weighted functions, over random pairs and pairs of corners."""
    found = 0.0
    for corners in (False, True):
        first, second = (rows_of(LAYOUT, 20_000, rng, corners) for _ in range(2))
        moved = (design.features.evaluate(first) - design.features.evaluate(second))[:, block.members] * block.weights
        found = max(found, float(np.linalg.norm(moved, order, axis=1).max()))
    return found


@pytest.mark.parametrize(("delta", "order"), [(1e-6, 2), (0.0, 1)])
def test_no_pair_of_rows_moves_the_weighted_functions_further_than_charged(delta, order):
    n = 20_000
    design = plan_mixed(n, LAYOUT, Budget(1.0, delta), NUMBERS)
    block = blocks(design)[-1]
    assert block.charge.purpose == "indicators"
    found = furthest(design, block, order, np.random.default_rng(1))
    assert found / n <= block.charge.sensitivity
    # The bound is near: half of it, the planted fault, does not hold.
    assert found / n > 0.75 * block.charge.sensitivity


def test_the_bound_is_attained_by_rows_that_change_all_their_categories():
    domain = Domain(7, [OneHotGroup((0, 1, 2), True), OneHotGroup((3, 4, 5, 6), True)])
    marginals = [FunctionBlock((0,), 3, 0.2), FunctionBlock((1,), 4, 0.3), FunctionBlock((0, 1), 12, 0.5)]
    weights = np.array([0.7, 1.0, 0.4])
    index = [np.eye(7, dtype=int)[[0, 1, 2]], np.eye(7, dtype=int)[[3, 4, 5, 6]],
             [np.eye(7, dtype=int)[a] + np.eye(7, dtype=int)[b] for a in range(3) for b in range(3, 7)]]

    def value(row):
        return np.concatenate([w * np.prod(row[None, :] ** np.array(rows), axis=1)
                               for w, rows in zip(weights, index, strict=True)])

    first, second = np.array([1.0, 0, 0, 1, 0, 0, 0]), np.array([0, 1.0, 0, 0, 1, 0, 0])
    moved = value(first) - value(second)
    assert l2_diameter(domain, marginals, weights) == pytest.approx(float(moved @ moved), rel=1e-14)


def test_products_of_a_category_that_stays_attain_their_part_of_the_bound():
    # Two numbers go from 1 to -1 while the category stays: each product moves by twice its weight, and nothing else.
    domain = Domain(4, [OneHotGroup((2, 3), True)])
    marginals = [FunctionBlock((0,), 2, 0.1), FunctionBlock((0,), 2, 0.5, number=0),
                 FunctionBlock((0,), 2, 0.4, number=1)]
    weights = np.array([0.1, 1.0, 0.8])
    moved = np.array([0.0, 2.0 * weights[1], 2.0 * weights[2]])
    assert l2_diameter(domain, marginals, weights) == pytest.approx(float(moved @ moved), rel=1e-14)


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("numbers", [True, False])
def test_the_charges_of_a_design_spend_the_budget_and_no_more(delta, numbers):
    domain = LAYOUT if numbers else Domain(5, [OneHotGroup((0, 1, 2), True), OneHotGroup((3, 4), True)])
    budget = Budget(0.7, delta)
    design = plan_mixed(5_000, domain, budget, NUMBERS if numbers else None)
    spent = epsilon_of([block.charge for block in blocks(design)], delta)
    assert 0.999 * budget.epsilon < spent <= budget.epsilon
    covered = np.concatenate([np.arange(design.features.K)[block.members] for block in blocks(design)])
    np.testing.assert_array_equal(covered, np.arange(design.features.K))
    np.testing.assert_array_equal(design.index.degrees, design.features.basis.index)
    assert design.index.domain == domain


def test_tables_are_measured_where_their_entries_are_above_the_noise_only():
    domain = Domain(60, [OneHotGroup(tuple(range(30)), True), OneHotGroup(tuple(range(30, 60)), True)])
    budget = Budget(1.0, 1e-6)
    few, many = (plan_mixed(n, domain, budget, None) for n in (500, 1_000_000))
    assert few.features.K == 60
    assert many.features.K == 60 + 900
    assert plan_mixed(1_000_000, domain, budget, None, max_functions=500).features.K == 60
    # What is allowed may be used up, by all that is worth it and by the indicators alone.
    K = many.features.K
    assert plan_mixed(1_000_000, domain, budget, None, max_functions=K).features.K == K
    assert plan_mixed(1_000_000, domain, budget, None, max_functions=60).features.K == 60
    with pytest.raises(InputError, match="but at most 59"):
        plan_mixed(1_000_000, domain, budget, None, max_functions=59)


def test_the_stated_variation_is_that_of_the_noise():
    domain = Domain(12, [OneHotGroup(tuple(range(12)), True)])
    design = plan_mixed(1_000, domain, Budget(1.0, 1e-6), None)
    noise = design.deviations[0] * np.random.default_rng(2).standard_normal((20_000, 12))
    variation = 0.5 * np.abs(noise).sum(axis=1)
    stated = design.predicted["frequencies of a column, total variation"]
    assert variation.mean() == pytest.approx(stated, abs=6.0 * variation.std() / math.sqrt(20_000))


def test_what_cannot_be_planned_is_refused():
    with pytest.raises(InputError, match="max_functions"):
        plan_mixed(100, LAYOUT, Budget(1.0), NUMBERS, max_functions=4)
    with pytest.raises(InputError, match="workload"):
        plan_mixed(100, LAYOUT, Budget(1.0), None)


@pytest.mark.parametrize("options", [{"fit": "cloud"}, {"fit": "atoms"}, {"whole_row": True}, {"smoothness": 2.0}])
def test_options_for_tables_of_numbers_alone_are_refused_and_not_ignored(options):
    with pytest.raises(InputError, match=r"indicators|are all numbers"):
        MomentMechanism(**options).design(1_000, LAYOUT, Budget(1.0))


def test_more_categories_than_points_could_hold_are_refused():
    domain = Domain(5_000, [OneHotGroup(tuple(range(5_000)), True)])
    with pytest.raises(InputError, match="5000 categories"):
        plan_mixed(10_000, domain, Budget(1.0), None)
