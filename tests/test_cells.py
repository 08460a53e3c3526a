"""The cells of a table one by one: the posterior against sums over all frequencies, the best part by its own law."""

import numpy as np
import pytest
from scipy.stats import expon, norm

from trigmech.reconstruction import cells
from trigmech.reconstruction.cells import with_cells
from trigmech.reconstruction.sparse import LEAST_CELLS, ROUNDS, TableEstimate, estimated, slopes_of

NOISE = 5e-4


def by_sums(y, expected):
    """The posterior means by sums over a fine grid of frequencies, and expectation maximisation."""
    step = 2.5e-4
    grid = (np.arange(160_000) + 0.5) * step
    evidence, means = [], []
    highest = int(np.ceil(np.log2(max(np.max(np.maximum(y, 1.0) / expected), 4.0))))
    for value, own in zip(y, expected, strict=True):
        priors = [None, *cells.SPREADS, *(expon(scale=2.0**k * own) for k in range(highest + 1))]
        found = []
        for prior in priors:
            if prior is None or prior == 0.0:
                at = 0.0 if prior is None else own
                found.append((norm.pdf(value - at), at))
            elif isinstance(prior, float):
                # A normal distribution reaches below 0 by so little that its own mean is taken.
                likely = norm.pdf(value, own, np.sqrt(1.0 + (prior * own) ** 2))
                part = (prior * own) ** 2 / (1.0 + (prior * own) ** 2)
                found.append((likely, max(own + part * (value - own), 0.0)))
            else:
                dense = prior.pdf(grid) * norm.pdf(value - grid) * step
                found.append((dense.sum(), dense @ grid / dense.sum()))
        for kept, numbers in zip((evidence, means), zip(*found, strict=True), strict=True):
            kept.append(numbers)
    evidence, means = np.array(evidence), np.array(means)
    weights = np.full(evidence.shape[1], 1.0 / evidence.shape[1])
    for _ in range(ROUNDS):
        own = weights * evidence
        weights = (own / own.sum(axis=1, keepdims=True)).mean(axis=0)
    own = weights * evidence
    return (own / own.sum(axis=1, keepdims=True) * means).sum(axis=1)


def test_cells_are_averaged_over_all_kinds_and_frequencies():
    y = np.array([-2.0, 0.3, 1.0, 2.5, 6.0, 6.5, 0.0, 12.0])
    expected = np.array([0.5, 0.4, 1.0, 2.0, 1.5, 6.0, 3.0, 0.7])
    np.testing.assert_allclose(cells._posterior(y, expected), by_sums(y, expected), rtol=2e-3, atol=2e-4)


def few_cells(seed):
    """A table of independent columns but for some cells, each of its own row and column, with ten times the rows."""
    rng = np.random.default_rng(seed)
    table = np.outer(rng.dirichlet(np.full(12, 4.0)), rng.dirichlet(np.full(24, 4.0)))
    table[np.arange(8), rng.permutation(24)[:8]] *= 10.0
    return table / table.sum()


def low_rank(seed):
    """A table of two smooth columns, with one pattern that all cells share."""
    down, across = np.sin(np.linspace(0.0, 3.0, 16) + seed), np.cos(np.linspace(0.0, 3.0, 20))
    return (1.0 + 0.5 * np.outer(down - down.mean(), across - across.mean())) / 320.0


def errors(table, seeds):
    """The squared errors (seeds, 2) of an estimate by what cells have in common, and of its blend."""
    expected, found = np.outer(table.sum(axis=1), table.sum(axis=0)), []
    for seed in range(seeds):
        noisy = table + NOISE * np.random.default_rng([1, seed]).normal(size=table.shape)
        known = estimated(noisy, expected, NOISE)
        made = with_cells(known, noisy, NOISE, lambda _: expected)
        found.append([((each.table - table) ** 2).sum() / NOISE**2 for each in (known, made)])
    return np.array(found)


@pytest.mark.parametrize("seed", range(2))
def test_a_few_cells_far_from_independence_keep_their_size(seed):
    found = errors(few_cells(seed), 12)
    assert found[:, 1].mean() < 0.93 * found[:, 0].mean()


def test_where_all_cells_share_a_pattern_little_is_lost():
    found = errors(low_rank(0), 12)
    assert found[:, 1].mean() < 1.05 * found[:, 0].mean()


def test_the_part_has_the_least_forecast_of_all_and_the_divergence_is_that_of_the_blend():
    table = few_cells(2)
    expected = np.outer(table.sum(axis=1), table.sum(axis=0))
    noisy = table + NOISE * np.random.default_rng(5).normal(size=table.shape)
    known = estimated(noisy, expected, NOISE)
    made = with_cells(known, noisy, NOISE, lambda _: expected)
    def estimate(values):
        return NOISE * cells._posterior(values / NOISE, expected / NOISE)

    alone = estimate(noisy)
    slope = float(slopes_of(estimate, alone, noisy, NOISE).sum())
    parts = np.linspace(0.0, 1.0, 2_001)
    risks = [((noisy - known.table - part * (alone - known.table)) ** 2).sum() / NOISE**2
             + 2.0 * (known.divergence + part * (slope - known.divergence)) for part in parts]
    best = parts[int(np.argmin(risks))]
    assert 0.0 < best < 1.0
    np.testing.assert_allclose(made.table, known.table + best * (alone - known.table), atol=1e-3 * NOISE)
    assert made.divergence == pytest.approx(known.divergence + best * (slope - known.divergence), rel=1e-3)
    assert made.deviation is known.deviation


def test_other_estimates_remain():
    table = few_cells(3)
    expected, own = np.outer(table.sum(axis=1), table.sum(axis=0)), np.full(table.shape, NOISE)
    for known in (TableEstimate(table, own, True, 10.0), TableEstimate(table, own, False)):
        assert with_cells(known, table, NOISE, lambda _: expected) is known
    side = int(np.sqrt(LEAST_CELLS - 1))
    small = np.full((side, side), 1.0 / side**2)
    known = TableEstimate(small, small, False, 3.0)
    assert with_cells(known, small + 1e-3 * np.eye(side), NOISE, lambda _: small) is known


@pytest.mark.parametrize("noise", [1e-100, 1e-12, 1e-3, 1e6])
def test_whatever_the_noise_numbers_stay_finite(noise):
    one = np.zeros((8, 10))
    one[1, 2] = 1.0
    for table in (np.zeros((8, 10)), one, np.full((8, 10), 1.0 / 80.0), np.full((8, 10), -1e100),
                  np.full((8, 10), 1e50), 1e50 * (one - one[::-1])):
        for expected in (np.zeros((8, 10)), np.full((8, 10), 1.0 / 80.0), one):
            made = with_cells(estimated(table, expected, noise), table, noise, lambda _, own=expected: own)
            assert np.isfinite(made.table).all()
            assert made.divergence is None or np.isfinite(made.divergence)
