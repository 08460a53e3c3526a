"""What floating point adds to a sensitivity: each charge holds the documented term, which is computed anew here.

At 10^12 rows that term is by far the larger part, so a charge that lacks it is too small by orders of magnitude; at few
rows, charges are compared with the exact movement plus the term. And computed means of adversarial tables do move
further than exact ones can.
"""

import math
from fractions import Fraction

import numpy as np
import pytest
from releases import blocks

from trigmech.domain import Domain, OneHotGroup
from trigmech.functions.chebyshev import ChebyshevBasis
from trigmech.measurement.moments import measure
from trigmech.planning.minimax import plan_smooth
from trigmech.planning.one_hot import plan_mixed
from trigmech.planning.search import plan_moments
from trigmech.planning.tables import plan_tables
from trigmech.privacy.budget import Budget
from trigmech.queries.functions import PROFILE_DEGREE
from trigmech.thesis.calibration import noise_scales
from trigmech.workload import GaussianKernels, SecondMoments

UNIT = Fraction(1, 2**53)
MANY = 10**12
BUDGETS = {"gaussian": Budget(1.0, 1e-6), "laplace": Budget(1.0)}
laws = pytest.mark.parametrize("law", BUDGETS)


def term(n, degree):
    """The documented movement, by rounding, of a mean of n values of products of a total degree."""
    # Of both persons: of the value, of its rounding to 2^-40, and of that of the mean over her rows.
    return float(UNIT * (Fraction(16 * math.ceil(degree) ** 2, n) + 8) + Fraction(4, n * 2**41))


def added(law, each):
    """The same of a vector, in the norm of the law; ``each`` is of its entries, times their weights."""
    return {"gaussian": np.linalg.norm(each), "laplace": np.sum(each), "linf": np.max(each)}[law]


def lattice(scale):
    """The step of the lattice of l-infinity noise: the power of two with 2^40 <= scale / step < 2^41."""
    step = Fraction(1)
    while Fraction(scale) / step < 2**40:
        step /= 2
    while Fraction(scale) / step >= 2**41:
        step *= 2
    return float(step)


def exactly(charge, exact, rounding):
    """Whether a charge's sensitivity is the exact movement plus the term, where that is not lost in its last bits."""
    return charge.sensitivity - exact == pytest.approx(rounding, rel=1e-2, abs=4e-16 * exact)


# The mechanisms of the thesis


@pytest.mark.parametrize("n", [100, 10**6, MANY])
@pytest.mark.parametrize("t", [2, 3])
@pytest.mark.parametrize("calibration", ["rigorous", "published"])
def test_basis_means_are_charged_for_their_rounding(calibration, t, n):
    d = 3
    basis = ChebyshevBasis.tensor(d, t)
    each = np.full(basis.K - 1, term(n, d * (t - 1)))
    pure, approximate = (noise_scales(basis, n, Budget(1.0, 1e-6), calibration, a).means for a in (False, True))
    if t == 2:
        assert exactly(pure, 2.0**d / n, added("laplace", each))
    if calibration == "published":
        assert exactly(approximate, 2.0 / n, each[0])
    elif n == MANY:
        assert approximate.sensitivity >= added("gaussian", each)
    if n == MANY:
        assert pure.sensitivity >= added("laplace", each)


@pytest.mark.parametrize("n", [100, 10**6, MANY])
@pytest.mark.parametrize(("d", "k"), [(1, 1), (4, 1), (4, 3), (30, 2)])
def test_mean_and_axes_are_charged_for_their_rounding(d, k, n):
    basis = ChebyshevBasis.graded(d, 2)
    product = 3 * d * term(n, 2) + 2.02 * d**2 * math.sqrt(k) * float(UNIT)
    for calibration, moved in (("rigorous", d / n), ("published", 4 * d * (n - 1) / n**2)):
        exact = math.sqrt(min(k, 2)) * moved
        pure, approximate = (noise_scales(basis, n, Budget(1.0, 1e-6), calibration, a, k, 2) for a in (False, True))
        assert exactly(approximate.axes(0.5), exact, product)
        assert exactly(pure.axes(0.5), math.sqrt(d * k) * exact, math.sqrt(d * k) * product)
        assert exactly(pure.mean, 2 * d / n, d * term(n, 1))
        root = math.sqrt(d) if calibration == "rigorous" else 1.0
        assert exactly(approximate.mean, root * 2 / n, root * term(n, 1))


def test_computed_means_move_further_than_exact_ones_can():
    # Replacing -1 by 1 moves the exact mean by 2/n; a computed one, of rows whose sums round, by more now and then.
    basis, rng = ChebyshevBasis.tensor(1, 2), np.random.default_rng(3)
    beyond = 0
    for n in range(3, 200):
        rows = rng.uniform(-1.0, 1.0, (n, 1))
        means = []
        for value in (-1.0, 1.0):
            rows[n // 2] = value
            moments = measure(rows, basis)
            means.append(Fraction(float(moments.basis_sum[1] / n)))
        moved = means[1] - means[0]
        beyond += moved > Fraction(2, n)
        charge = noise_scales(basis, n, Budget(1.0), "rigorous", False).means
        assert moved <= Fraction(charge.sensitivity)
    # So that the charge without rounding, which is 2/n to the last bit, would be refuted.
    assert beyond > 10


# The package's own mechanisms


def design_of(n, law, **options):
    return plan_moments(n, 4, BUDGETS[law], options.pop("workload", SecondMoments(4)), degree=2, pair_degree=1,
                        triples=True, **options)


@laws
@pytest.mark.parametrize("whole_row", [False, True])
def test_planned_moments_are_charged_for_their_rounding(whole_row, law):
    design = design_of(MANY, law, whole_row=whole_row, workload=GaussianKernels(4, seed=0, widths=(1.0,)))
    degree = design.features.degree
    each = np.full(design.features.K, term(MANY, degree))
    for g, low in enumerate(design.features.floors):
        each[design.features.basis.K + g] = term(MANY, 4 * 4 * PROFILE_DEGREE / math.sqrt(1.0 - low))
    for block in blocks(design):
        least = added(block.charge.law, block.weights * each[block.members])
        # All of the rest is less than 2/n an entry, and the lattice's step.
        most = least + added(block.charge.law, block.weights * np.full(len(block.weights), 2.1 / MANY))
        more = lattice(block.charge.scale) if block.charge.law == "linf" else 0.0
        assert least + more <= block.charge.sensitivity * (1.0 + 1e-12)
        assert block.charge.sensitivity <= (most + more) * (1.0 + 1e-6)


@pytest.mark.parametrize("epsilon", [1e-3, 1.0, 50.0])
@pytest.mark.parametrize("n", [10, 10_000])
def test_linf_noise_is_charged_for_the_step_of_its_lattice(n, epsilon):
    # What is drawn is of values rounded to the lattice, and its certificate asks for what the charge says.
    design = plan_moments(n, 30, Budget(epsilon), SecondMoments(30), degree=2, pair_degree=0)
    cubes = [block for block in blocks(design) if block.charge.law == "linf"]
    assert len(cubes) == 2
    for block in cubes:
        parts = [2.0 / n, term(n, 2), lattice(block.charge.scale)]
        assert block.charge.sensitivity == pytest.approx(math.fsum(parts), rel=4e-16, abs=0.0)
        # Which is more than its last bits.
        assert parts[2] > 1e-14 * parts[0]


@pytest.mark.parametrize("n", [10, 10_000])
def test_whole_row_functions_are_charged_for_the_degree_that_covers_them(n):
    design = plan_moments(n, 30, Budget(1.0), GaussianKernels(30, seed=0, widths=(2.0, 6.0)), degree=2, pair_degree=0,
                          whole_row=True)
    block = blocks(design)[-1]
    assert (block.charge.law, block.charge.purpose) == ("linf", "whole rows")
    # At least the degree for which the products of q-th degree polynomials of all columns are proved to be covered.
    least, most = (factor * 30 * PROFILE_DEGREE / math.sqrt(1.0 - design.features.floors.max()) for factor in (4, 6))
    rest = [2.0 / n, lattice(block.charge.scale)]
    assert block.charge.sensitivity >= math.fsum([*rest, term(n, least)]) * (1.0 - 4e-16)
    assert block.charge.sensitivity <= math.fsum([*rest, term(n, most)])
    assert term(n, least) > 2.0 * term(n, 2)


@laws
def test_weighted_indicators_are_charged_for_their_rounding(law):
    domain = Domain(9, [OneHotGroup((2, 3), False, 1), OneHotGroup((4, 5, 6), True), OneHotGroup((7, 8), True)])
    design = plan_mixed(MANY, domain, BUDGETS[law], SecondMoments(2), degree=2, pair_degree=1)
    block = blocks(design)[-1]
    assert block.charge.purpose == "indicators"
    assert (block.weights > 0).all()
    least = added(law, block.weights * term(MANY, 3))
    assert least <= block.charge.sensitivity <= least + added(law, block.weights * 2.1 / MANY)


@laws
@pytest.mark.parametrize("d", [1, 2])
def test_the_minimax_moments_are_charged_for_their_rounding(d, law):
    design = plan_smooth(MANY, d, BUDGETS[law], 1.0, 200)
    (block,) = blocks(design)
    least = added(law, block.weights * term(MANY, design.features.degree))
    assert least <= block.charge.sensitivity <= least + added(law, block.weights * 2.1 / MANY)


# So many rows that rounding is all but all of what a replaced row moves.
BEYOND = 10**22
DESIGNS = {
    "moments": lambda budget: design_of(BEYOND, "gaussian" if budget.delta else "laplace"),
    "moments and whole rows": lambda budget: design_of(
        BEYOND, "gaussian" if budget.delta else "laplace", whole_row=True,
        workload=GaussianKernels(4, seed=0, widths=(1.0,))),
    "indicators": lambda budget: plan_mixed(BEYOND, Domain(9, [OneHotGroup((2, 3), False, 1), OneHotGroup(
        (4, 5, 6), True), OneHotGroup((7, 8), True)]), budget, SecondMoments(2), degree=2, pair_degree=1),
    "smooth": lambda budget: plan_smooth(BEYOND, 2, budget, 1.0, 200),
}


@laws
@pytest.mark.parametrize("name", DESIGNS)
def test_where_rounding_is_all_that_moves_every_entry_s_is_charged_for(name, law):
    design = DESIGNS[name](BUDGETS[law])
    first = 0
    for block in blocks(design):
        stop = first + len(block.weights)
        # Of a mean of so many rows each entry errs by 8 units, whatever its degree.
        exact = added(block.charge.law, block.weights * float(8 * UNIT))
        more = lattice(block.charge.scale) if block.charge.law == "linf" else 0.0
        assert block.charge.sensitivity - more == pytest.approx(exact, rel=1e-4, abs=0.0)
        first = stop
    assert first == design.features.K


@pytest.mark.parametrize("kind", BUDGETS)
@pytest.mark.parametrize("n", [1_000, MANY, 10**15])
def test_histograms_are_charged_for_their_rounding(kind, n):
    # Two numbers, one of them with a special value, and a column of 20 categories.
    domain = Domain(23, [OneHotGroup((2,), False, 1), OneHotGroup(tuple(range(3, 23)), True)])
    design = plan_tables(n, domain, BUDGETS[kind])
    look = design.first[0]
    sizes = [each.query.partition.size for each in look.asked]
    # In each entry, of both tables, the sum of at most so many products of total at most 1.
    each = np.full(sum(sizes), float(2 * UNIT * (max(sizes) + 8)))
    assert max(sizes) >= 20
    assert exactly(look.charge, (1.0 + 1e-9) / n, added(look.charge.law, each))
    for charge in (design.closer, design.dependence, design.selected):
        if charge is not None:
            more = lattice(charge.scale) if charge.law == "linf" else 0.0
            assert exactly(charge, (1.0 + 1e-9) / n + more, float(16 * UNIT))


def test_histograms_by_contrasts_are_charged_for_their_rounding():
    domain = Domain(6, [OneHotGroup((0, 1), True), OneHotGroup((2, 3, 4, 5), True)])
    design = plan_tables(MANY, domain, BUDGETS["laplace"])
    (look,) = design.first
    exact = (1.0 + 1e-9) / MANY + lattice(look.charge.scale)
    assert exactly(look.charge, exact, float(2 * UNIT * (4 + 8)))
