"""The minimax design: its sensitivity, its noise, its proved error, and what it refuses."""

import math

import numpy as np
import pytest
from releases import blocks

from trigmech.errors import InputError
from trigmech.mechanisms.moment import minimax
from trigmech.planning.minimax import plan_smooth
from trigmech.privacy.accounting import gaussian_mu
from trigmech.privacy.budget import Budget
from trigmech.privacy.ledger import Ledger
from trigmech.schema.schema import Schema
from trigmech.synthesis import synthesize
from trigmech.workload import Smooth

# n, d, k, delta, most functions.
DESIGNS = {
    "one column": (300, 1, 1.0, 1e-6, 1024),
    "one column, pure": (300, 1, 1.0, 0.0, 1024),
    "one column, beyond the search": (3000, 1, 0.5, 1e-6, 90),
    "one column, very smooth": (300, 1, 3.0, 1e-6, 1024),
    "two columns": (300, 2, 1.0, 1e-6, 60),
    "two columns, pure": (300, 2, 2.0, 0.0, 60),
    "three columns": (300, 3, 1.0, 1e-6, 70),
    "four columns, degree one": (2, 4, 2.0, 1e-6, 15),
}  # fmt: skip
each_design = pytest.mark.parametrize("name", DESIGNS)


def designed(name, epsilon=1.0):
    n, d, k, delta, most = DESIGNS[name]
    return plan_smooth(n, d, Budget(epsilon, delta), k, most)


def furthest(name, power):
    """n times the largest movement of the weighted means that is found, by coordinate ascent over angles."""
    design, d = designed(name), DESIGNS[name][1]
    index, weights = design.features.basis.index, blocks(design)[0].weights
    rng, grid = np.random.default_rng(1), np.linspace(0.0, np.pi, 241 if d == 1 else 49)

    def weighted(angles):
        return np.cos(angles[:, None, :] * index).prod(axis=2) * weights

    best = 0.0
    for k in range(12):
        corner = np.pi * rng.integers(2, size=d)
        pair = np.array([(corner, np.pi - corner), (corner, np.full(d, np.pi / 2)), np.pi * rng.random((2, d))][k % 3])
        before, now = -1.0, 0.0
        while now > before * (1 + 1e-9):
            before = now
            for side in (0, 1):
                for j in range(d):
                    rows = np.repeat(pair[side][None], len(grid) + 1, axis=0)
                    rows[1:, j] = grid
                    moved = np.linalg.norm(weighted(rows) - weighted(pair[1 - side : 2 - side]), power, axis=1)
                    pair[side], now = rows[moved.argmax()], float(moved.max())
        best = max(best, now)
    return best


@each_design
def test_no_rows_found_move_the_means_further_than_is_charged(name):
    (block,) = blocks(designed(name))
    found = furthest(name, 1 if block.charge.law == "laplace" else 2)
    assert found <= DESIGNS[name][0] * block.charge.sensitivity
    # The planted fault: had 1 been taken for the movement of each function, as the thesis does, it would be refuted.
    weights = block.weights
    halved = weights.sum() if block.charge.law == "laplace" else np.linalg.norm(weights)
    assert found > halved or name in ("one column, beyond the search", "three columns")


@each_design
def test_the_design_has_all_moments_up_to_a_degree_in_the_order_of_the_reconstruction(name):
    design, (_, d, _, _, most) = designed(name), DESIGNS[name]
    index, m = design.features.basis.index, design.degree
    assert m >= 1
    assert (m + 1) ** d - 1 == len(index) <= most
    assert len(np.unique(index, axis=0)) == len(index)
    assert index.max() == m
    singles = [np.roll(np.eye(1, d, dtype=int)[0] * a, j).tolist() for a in range(1, m + 1) for j in range(d)]
    assert index[: m * d].tolist() == singles
    assert ((index[m * d :] > 0).sum(axis=1) > 1).all()


@each_design
def test_noise_grows_with_the_order_at_the_rate_of_the_proof(name):
    design, (_, _, k, delta, _) = designed(name), DESIGNS[name]
    norms = np.linalg.norm(design.features.basis.index, axis=1)
    growth = k / 2 if delta else 2 * k / 3
    np.testing.assert_allclose(design.deviations, design.deviations[0] * norms**growth, rtol=1e-12)
    (error,) = design.predicted.values()
    assert error == pytest.approx(2 * math.sqrt((norms ** (-2 * k) * design.deviations**2).sum()), rel=1e-12)
    if delta:
        # 2 sqrt(S) sigma, at most 4 S / (n mu) but for rounding, of the module's text.
        S, n = (norms**-k).sum(), DESIGNS[name][0]
        assert error == pytest.approx(2 * math.sqrt(S) * design.deviations[0], rel=1e-12)
        assert error <= 4 * S / (n * gaussian_mu(Budget(1.0, delta))) * (1 + 1e-9)


@pytest.mark.daily(24)
@each_design
@pytest.mark.parametrize("epsilon", [0.01, 1.0, 30.0])
def test_the_charge_spends_the_budget_and_no_more(name, epsilon):
    ledger = Ledger(Budget(epsilon, DESIGNS[name][3]))
    (block,) = blocks(designed(name, epsilon))
    ledger.charge(block.charge)
    assert 0.999 * epsilon <= ledger.proved_epsilon <= epsilon


def beta(n, d, seed):
    rng = np.random.default_rng(seed)
    X = rng.beta(2.0, 4.0, (n, d)) * 2 - 1
    X[:, -1] = np.where(rng.random(n) < 0.7, X[:, 0], X[:, -1])
    return X


@pytest.mark.daily(2)
@pytest.mark.parametrize(("d", "k", "delta"), [(1, 1.0, 1e-6), (1, 1.0, 0.0), (1, 2.0, 1e-6), (2, 1.0, 1e-6),
                                               (2, 2.0, 0.0), (2, 2.0, 1e-6)])
def test_the_worst_smooth_query_errs_by_less_than_is_proved(d, k, delta):
    n, budget = 2000, Budget(1.0, delta)
    X = beta(n, d, 5)
    mechanism = minimax(k, max_functions=80)
    design = mechanism.design(n, d, budget)
    family = Smooth(d, k, design.degree)
    runs = [synthesize(X, Schema.cube(d), budget, mechanism, np.random.default_rng(seed)) for seed in range(3)]
    found = [family.errors(X, synthesis.distribution) for synthesis in runs]
    (bound,) = design.predicted.values()
    # The bound is on the mean; the largest of three would do too.
    assert np.max(found) <= bound
    # The planted fault: data of another law have a larger error than the release's own.
    other = synthesize(-X, Schema.cube(d), budget, mechanism, np.random.default_rng(0)).distribution
    assert family.errors(X, other) > 3 * np.mean(found)


def test_more_data_gives_a_higher_degree_and_a_smaller_bound():
    for d in (1, 2):
        designs = [plan_smooth(n, d, Budget(1.0, 1e-6), 1.0, 500) for n in (10, 100, 1000)]
        assert designs[0].degree < designs[1].degree < designs[2].degree
        bounds = [next(iter(design.predicted.values())) for design in designs]
        assert bounds[0] > bounds[1] > bounds[2]


@pytest.mark.parametrize("smoothness", [0, -1.0, math.nan, math.inf])
def test_smoothness_must_be_positive(smoothness):
    for make in (lambda: plan_smooth(10, 1, Budget(1.0), smoothness, 10), lambda: minimax(smoothness)):
        with pytest.raises(InputError, match="smoothness must be positive"):
            make()


def test_many_columns_are_refused():
    assert plan_smooth(10, 10, Budget(1.0), 1.0, 1023).features.K == 1023
    with pytest.raises(InputError, match="at least 1023, more than max_functions = 1022"):
        plan_smooth(10, 10, Budget(1.0), 1.0, 1022)
    with pytest.raises(InputError, match="40 columns"):
        plan_smooth(10, 40, Budget(1.0), 1.0, 4096)
