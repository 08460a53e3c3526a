"""Baselines: their sensitivities, their noise, and closed forms against weighted points."""

import ast
import math

import numpy as np
import pytest
from scipy.stats import norm

import trigmech as tm
from experiments import baselines, cells
from experiments.baselines import BASELINES, Product
from trigmech.privacy.accounting import gaussian_mu
from trigmech.workload import GaussianKernels, PairKernels, SecondMoments

APPROXIMATE, PURE = tm.Budget(1.0, 1e-3), tm.Budget(1.0, 0.0)
ENDLESS = tm.Budget(1e9, 0.0)


def rows(n, d, seed=3):
    rng = np.random.default_rng(seed)
    return np.clip(rng.normal(rng.uniform(-0.5, 0.5, d), 0.4, (n, d)), -1.0, 1.0)


# What each baseline measures, as a function of one row: the mean over the rows is released.
def shares(bins):
    return lambda x: baselines.shares_of(x[None], bins).ravel()


def squares(weight):
    return lambda x: np.concatenate([x, weight * x**2])


def products(x):
    return np.outer(x, x)[np.triu_indices(len(x))]


def bounds(d):
    """What -> (measurement, L1, L2), times n."""
    root = math.sqrt(d)
    return {"histograms of 4": (shares(4), 2 * d, math.sqrt(2 * d)),
            "histograms of 32": (shares(32), 2 * d, math.sqrt(2 * d)),
            "x and x^2, gaussian": (squares(baselines.SQUARE_GAUSSIAN), math.inf, 2 * root),
            "x and x^2, laplace": (squares(baselines.SQUARE_LAPLACE), 2 * d, math.inf),
            "mean": (lambda x: x, 2 * d, 2 * root),
            "second moments": (products, 2 * (d * d // 4) + d, d)}


def search(measure, d, order, seed):
    """The largest movement that a coordinate-wise ascent from random neighbours finds."""
    rng = np.random.default_rng(seed)
    levels = np.array([-1.0, -0.75, -0.5, -0.25, 0.0, 0.236, 0.25, 0.5, 0.75, 1.0])
    best = 0.0
    for _ in range(6):
        pair = rng.choice(levels, (2, d))
        value = np.linalg.norm(measure(pair[0]) - measure(pair[1]), order)
        for _ in range(3):
            for place in np.ndindex(2, d):
                for level in levels:
                    old = pair[place]
                    pair[place] = level
                    other = np.linalg.norm(measure(pair[0]) - measure(pair[1]), order)
                    if other > value:
                        value = other
                    else:
                        pair[place] = old
        best = max(best, value)
    return best


@pytest.mark.daily(4)  # Each statistic, and each number of columns.
@pytest.mark.parametrize("d", [1, 2, 5])
@pytest.mark.parametrize("what", bounds(1))
def test_no_neighbours_move_further_than_is_claimed(what, d):
    measure, l1, l2 = bounds(d)[what]
    for order, bound in ((1, l1), (2, l2)):
        if math.isfinite(bound):
            found = search(measure, d, order, seed=8)
            assert found <= bound * (1 + 1e-12)
            # Close enough to notice a bound that is too small by a third.
            assert found > 0.7 * bound


def test_the_search_notices_a_weight_of_the_squares_that_is_not_free():
    for weight, order, bound in ((2 * baselines.SQUARE_GAUSSIAN, 2, 2.0), (2 * baselines.SQUARE_LAPLACE, 1, 2.0)):
        assert search(squares(weight), 1, order, seed=8) > bound


@pytest.mark.parametrize("budget", [APPROXIMATE, PURE], ids=["gaussian", "laplace"])
@pytest.mark.parametrize("name", ["histograms", "diagonal", "Gaussian"])
def test_the_ledger_charges_the_claimed_sensitivities_and_proves_the_budget(name, budget):
    n, d = 40, 5
    claimed = bounds(d)
    lists = {"histograms": [claimed["histograms of 4"]],
             "diagonal": [claimed["x and x^2, gaussian" if budget.delta else "x and x^2, laplace"]],
             "Gaussian": [claimed["mean"], claimed["second moments"]]}
    ledger = BASELINES[name](rows(n, d), budget, np.random.default_rng(1)).ledger
    assert ledger.simulated
    assert budget.epsilon * (1 - 1e-5) < ledger.proved_epsilon <= budget.epsilon
    for charge, (_, l1, l2) in zip(ledger.charges, lists[name], strict=True):
        assert charge.norm == ("L2" if budget.delta else "L1")
        assert charge.sensitivity == pytest.approx((l2 if budget.delta else l1) / n)


def noise_of(name, budget, measure, X, runs):
    """The noise that a baseline adds, caught where it is added; (runs, values)."""
    caught = []
    plain = baselines._noisy

    def catch(exact, *rest):
        out = plain(exact, *rest)
        np.testing.assert_allclose(exact.ravel(), np.mean([measure(x) for x in X], axis=0), atol=1e-12)
        caught.append((out - exact).ravel())
        return out

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(baselines, "_noisy", catch)
        for seed in range(runs):
            BASELINES[name](X, budget, np.random.default_rng(seed))
    return np.array(caught)


def far_off(noise, variance, kurtosis):
    """Whether the mean square is unlike the variance; a false alarm has probability 1e-9."""
    error = math.sqrt((kurtosis - 1.0) / noise.size)
    return abs(float(np.mean(noise**2)) / variance - 1.0) > norm.isf(0.5e-9) * error


@pytest.mark.daily(3)
@pytest.mark.parametrize("budget", [APPROXIMATE, PURE], ids=["gaussian", "laplace"])
@pytest.mark.parametrize("name", ["histograms", "diagonal"])
def test_the_noise_has_the_variance_that_the_budget_asks_for(name, budget):
    n, d, runs = 30, 4, 120
    measure, l1, l2 = {"histograms": (shares(8), 2 * d, math.sqrt(2 * d)),
                       "diagonal": (squares(1.6 if budget.delta else 0.5), 2 * d, 2 * math.sqrt(d))}[name]
    noise = noise_of(name, budget, measure, rows(n, d), runs)
    if budget.delta:
        variance, kurtosis = (l2 / (n * gaussian_mu(budget))) ** 2, 3.0
    else:
        variance, kurtosis = 2.0 * (l1 / (n * budget.epsilon)) ** 2, 6.0
    assert not far_off(noise, variance, kurtosis)
    # A sensitivity for one row added or removed, root 2 or 2 too small, would be noticed.
    assert far_off(noise / math.sqrt(2.0), variance, kurtosis)


def test_histograms_at_an_endless_budget_are_the_exact_shares():
    X = rows(200, 3)
    X[0], X[1] = -1.0, 1.0
    for bins in baselines.BINS:
        product = baselines.histograms(X, ENDLESS, np.random.default_rng(1), bins=bins).distribution
        edges = np.linspace(-1.0, 1.0, bins + 1)
        for j in range(3):
            exact = np.histogram(X[:, j], edges)[0] / len(X)
            found = np.histogram(product.nodes[j], edges, weights=product.weights[j])[0]
            np.testing.assert_allclose(found, exact, atol=1e-6)
            # Inside a bin the nodes integrate polynomials as the uniform distribution does.
            inside = (product.nodes[j] > edges[0]) & (product.nodes[j] < edges[1])
            if exact[0] > 0:
                share = product.weights[j][inside] / product.weights[j][inside].sum()
                want = np.mean([edges[0] ** 2, edges[0] * edges[1], edges[1] ** 2])
                assert share @ product.nodes[j][inside] ** 2 == pytest.approx(want)


def test_the_gaussians_at_an_endless_budget_have_the_tables_moments():
    X = 0.3 * rows(500, 4)  # far from the faces, so that clipping does nothing
    X[:, 1] = 0.5 * X[:, 0] + 0.1
    moments = X.T @ X / len(X)
    full = baselines.gaussian(X, ENDLESS, np.random.default_rng(1)).distribution
    np.testing.assert_allclose(full.expect(lambda x: x), X.mean(axis=0), atol=1e-6)
    np.testing.assert_allclose((full.points.T * full.weights) @ full.points, moments, atol=1e-5)
    product = baselines.diagonal(X, ENDLESS, np.random.default_rng(1)).distribution
    np.testing.assert_allclose((product.weights * product.nodes).sum(axis=1), X.mean(axis=0), atol=1e-6)
    np.testing.assert_allclose((product.weights * product.nodes**2).sum(axis=1), np.diag(moments), rtol=1e-2)


@pytest.mark.parametrize("workload", [GaussianKernels(3, seed=5, n_queries=30),
                                      GaussianKernels(3, seed=5, n_queries=20, widths=(0.3, 1.0), variant="pool"),
                                      PairKernels(3, seed=5, n_queries=40), SecondMoments(3)],
                         ids=["w1", "narrow, pool", "w2", "w3"])
def test_products_answer_as_all_combinations_of_their_nodes_do(workload):
    rng = np.random.default_rng(6)
    product = Product(rng.uniform(-1.0, 1.0, (3, 4)), rng.dirichlet(np.ones(4), 3))
    grid = np.array(list(np.ndindex(4, 4, 4)))
    points = product.nodes[np.arange(3), grid]
    weights = product.weights[np.arange(3), grid].prod(axis=1)
    np.testing.assert_allclose(product.answers(workload), workload.answers(points, weights), rtol=1e-9, atol=1e-13)


def test_the_uniform_baseline_is_the_uniform_distribution():
    workload = GaussianKernels(7, seed=5, n_queries=50)
    release = baselines.uniform(rows(5, 7), PURE, np.random.default_rng(1))
    np.testing.assert_allclose(baselines.answers(workload, release.distribution), workload.uniform_answers(), rtol=1e-9)
    assert release.ledger.charges == []
    assert release.ledger.proved_epsilon == 0.0
    # The narrowest pair kernels, whose rule of a few nodes for each bin is the least exact.
    pairs = PairKernels(7, seed=5, n_queries=50)
    columns, centers = pairs.queries
    width = np.array(pairs.widths)
    ends = norm.cdf((1 - centers[:, :, None]) / width) - norm.cdf((-1 - centers[:, :, None]) / width)
    exact = (ends * width * math.sqrt(math.pi / 2)).prod(axis=1)
    assert columns.shape == (50, 2)
    np.testing.assert_allclose(release.distribution.answers(pairs), exact, rtol=1e-7)


@pytest.mark.nightly
def test_the_code_of_the_package_is_all_but_what_only_shows_or_is_run_by_itself():
    every = {".".join(path.relative_to(cells.ROOT).with_suffix("").parts).removesuffix(".__init__")
             for path in (cells.ROOT / "trigmech").rglob("*.py")}
    showing = {name for name in every if name.startswith(cells.SHOWING)}
    asked_by_these = set().union(*map(cells.reached, showing))
    missing = every - cells.reached("trigmech") - asked_by_these - showing
    # But for folders' own files, which say no more than what is there.
    code = {name for name in missing if not all(
        isinstance(node, ast.Expr) for node in ast.parse(cells.source_of(name).read_text(encoding="utf-8")).body)}
    assert code == set()
