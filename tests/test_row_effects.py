"""Row effects: against sums over all values of theta, the choice by risk, degenerate tables, and pairs that agree."""

from functools import partial
from weakref import WeakKeyDictionary

import numpy as np
import pytest
from scipy.stats import norm

import trigmech as tm
from trigmech.functions.partition import Partition
from trigmech.queries.joint import Marginal
from trigmech.reconstruction import estimates, row_effects, sparse, tables
from trigmech.reconstruction.cells import with_cells
from trigmech.reconstruction.row_effects import by_row_effects
from trigmech.reconstruction.sparse import TableEstimate, beside_finer, estimated

NOISE = 2e-4


def shifted_table(effect, levels=20, cells=24):
    """A table of levels of very different sizes, whose normal number shifts by up to some effects."""
    rng = np.random.default_rng(5)
    rows = np.geomspace(1.0, 3e-4, levels)
    rows /= rows.sum()
    edges = norm.ppf(np.linspace(0.0, 1.0, cells + 1))
    means = effect * rng.normal(size=levels)
    return rows[:, None] * np.diff(norm.cdf(edges - means[:, None]), axis=1)


def product_of(table):
    return np.outer(table.sum(axis=1), table.sum(axis=0))


def released(effect, seed):
    true = shifted_table(effect)
    return true, true + NOISE * np.random.default_rng(seed).normal(size=true.shape)


def between(expected, part, values):
    return expected + part * (values - expected)


def both(table, expected, numbers=None):
    known = estimated(table, expected, NOISE)
    own = np.ones(table.shape[1], dtype=bool) if numbers is None else numbers
    return known, by_row_effects(known, table, expected, NOISE, own)


def test_levels_are_averaged_over_all_values_of_theta():
    # One level of all rows but for a few: the posterior by a sum over the same values, written out.
    score, mass = np.array([-1.0, 0.0, 1.0]), np.array([0.25, 0.5, 0.25])
    rows = np.array([40.0, 10.0])
    values = np.outer(rows, mass) + np.array([[0.0, 0.0, 0.0], [-2.0, 0.0, 3.0]])
    best = None
    for spread in row_effects.SPREADS:
        prior = norm.pdf(row_effects.THETAS, scale=spread)
        prior /= prior.sum()
        evidence, means = 0.0, []
        for size, value in zip(rows, values, strict=True):
            shapes = mass * np.exp(np.outer(row_effects.THETAS, score))
            shapes /= shapes.sum(axis=1, keepdims=True)
            likely = prior * np.exp(-0.5 * ((value - size * shapes) ** 2).sum(axis=1))
            evidence += np.log(likely.sum())
            means.append(size * (likely @ shapes) / likely.sum())
        if best is None or evidence > best[0]:
            best = evidence, np.array(means)
    made = best[1]
    for _ in range(row_effects.ROUNDS):
        made = made * 50.0 * mass / made.sum(axis=0)
        made = made * (rows / made.sum(axis=1))[:, None]
    np.testing.assert_allclose(row_effects._shifted(values, np.outer(rows, mass), score), made, rtol=1e-9)
    np.testing.assert_allclose(made.sum(axis=1), rows)


def test_small_levels_are_nearer_to_the_truth_with_row_effects():
    score = np.arange(24) - 11.5
    errors = []
    for seed in range(8):
        true, table = released(0.3, seed)
        known, made = both(table, product_of(true))
        assert made is not known
        sizes = true.sum(axis=1)
        small = sizes < np.median(sizes)
        errors.append([[((each.table - true) ** 2).sum(),
                        np.abs((each.table - true)[small] @ score / sizes[small]).mean()] for each in (known, made)])
    old, new = np.mean(errors, axis=0)
    assert new[0] < 0.9 * old[0]
    assert new[1] < 0.6 * old[1]


def test_the_estimated_difference_of_errors_is_the_true_one_on_average():
    found = []
    for seed in range(60):
        true, table = released(0.3, seed)
        expected = product_of(true)
        ways = [partial(between, expected, part) for part in (0.5, 0.2)]
        one, two = (way(table) for way in ways)
        slopes = [sparse.slopes_of(way, made, table, NOISE) for way, made in zip(ways, (one, two), strict=True)]
        wrong = ((one - true) ** 2 - (two - true) ** 2).sum() / NOISE**2
        gains = ((table - one) ** 2 - (table - two) ** 2) / NOISE**2 - 2.0 * (slopes[1] - slopes[0])
        found.append(float(gains.sum()) - wrong)
        # It is clear by fewer of its standard errors than it has, and not by more.
        clear = float(gains.sum()) / float(np.sqrt(((gains - gains.mean()) ** 2).sum()))
        for more in (-1e-6, 1e-6):
            assert sparse.nearer(table, NOISE, one, slopes[0], two, slopes[1], clear + more) == (more < 0.0)
    # Four standard errors of the mean: once in 16,000 draws of seeds.
    assert abs(np.mean(found)) < 4.0 * np.std(found) / np.sqrt(len(found))
    # The slopes of a straight line are its own.
    assert slopes[0].sum() == pytest.approx(0.5 * table.size)


def test_tables_that_row_effects_do_not_explain_are_hardly_worse():
    """Levels with dependence that no shift explains, and levels without any."""
    wrong = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        for turned in (False, True):
            true = np.full((12, 24), 1.0 / 288.0)
            if turned:
                true *= 1.0 + 0.5 * np.outer(np.cos(np.arange(12)), np.cos(np.arange(24) * np.pi * 6.0 / 24.0))
            true /= true.sum()
            table = true + NOISE * rng.normal(size=true.shape)
            known, made = both(table, product_of(true))
            wrong.append([((each.table - true) ** 2).sum() for each in (known, made)])
    old, new = np.mean(wrong, axis=0)
    assert new < 1.05 * old


def test_the_rest_of_a_table_keeps_its_estimate():
    true, table = released(0.3, 0)
    numbers = np.arange(24) > 0
    expected = product_of(true)
    known, made = both(table, expected, numbers)
    assert made is not known
    assert not made.sparse
    assert np.isfinite(made.table).all()
    np.testing.assert_array_equal(made.deviation, known.deviation)
    # The first cell is not an ordinary value: no level shifts it.
    score = row_effects._score(expected[:, numbers].sum(axis=0))
    shift = NOISE * row_effects._shifted(table[:, numbers] / NOISE, expected[:, numbers] / NOISE, score)
    np.testing.assert_allclose(shift.sum(), expected[:, numbers].sum())


@pytest.mark.parametrize("noise", [1e-300, 1e-12, 1e-3, 1e6])
def test_degenerate_tables_keep_their_estimate_or_stay_finite(noise):
    one = np.zeros((4, 6))
    one[1, 2] = 1.0
    for table in (np.zeros((4, 6)), one, np.full((4, 6), 1.0 / 24.0), np.full((1, 6), 1.0 / 6.0), np.full((4, 1), 0.25),
                  np.full((4, 6), -1e100), np.full((4, 6), 1e50)):
        for expected in (np.abs(product_of(np.clip(table, 0.0, 1.0))), np.zeros(table.shape),
                         np.full(table.shape, 1.0 / table.size)):
            known = TableEstimate(table, np.full(table.shape, noise), False)
            for numbers in (np.ones(table.shape[1], dtype=bool), np.zeros(table.shape[1], dtype=bool)):
                made = by_row_effects(known, table, expected, noise, numbers)
                assert np.isfinite(made.table).all()
    assert by_row_effects(TableEstimate(one, one, True), one, one, noise, np.ones(6, dtype=bool)).table is one


def test_a_table_agrees_with_a_sparse_one_in_finer_cells():
    fine, coarse = np.arange(6), np.array([0, 0, 1, 1, 2, 2])
    true = np.diag(np.full(6, 1.0 / 6.0))
    finer = TableEstimate(true, np.where(true > 0.0, 1e-3, 3e-5), True)
    table = np.full((3, 3), 1.0 / 9.0)
    known = TableEstimate(table, np.full((3, 3), 1e-2), False)
    made = beside_finer(known, table, 1e-2, (coarse, coarse), finer, (fine, fine))
    assert made.sparse
    np.testing.assert_array_equal(made.table > 0.0, np.eye(3) > 0.0)
    assert made.table.sum() == pytest.approx(1.0)
    # Two occupied and two empty cells of the finer table, and the noise of the other measurement.
    variance = 2e-6 + 2.0 * 9e-10
    np.testing.assert_allclose(np.diag(made.deviation), np.sqrt(variance * 1e-4 / (1e-4 + variance)))
    assert (made.deviation[~np.eye(3, dtype=bool)] >= sparse.FIRMEST * 1e-2).all()
    # With a precise table of its own, its frequencies count.
    own = np.diag([0.5, 0.3, 0.2])
    made = beside_finer(known, own, 1e-9, (coarse, coarse), finer, (fine, fine))
    np.testing.assert_allclose(made.table, own, atol=1e-9)
    # Cells that cross remain.
    crossed = np.array([0, 1, 1, 2, 2, 2]), np.array([0, 0, 1, 1, 2, 2])
    assert beside_finer(known, table, 1e-2, (crossed[0], coarse), finer, (np.array([0, 0, 1, 1, 2, 2]), fine)) is known
    # Nothing is occupied.
    nothing = TableEstimate(np.zeros((6, 6)), np.full((6, 6), 1e-3), True)
    assert not beside_finer(known, table, 1e-2, (coarse, coarse), nothing, (fine, fine)).table.any()


def test_row_effects_are_for_tables_of_a_category_and_a_number(monkeypatch):
    rng = np.random.default_rng(0)
    level, shift = rng.integers(4, size=2_000), rng.normal(size=2_000)
    frame = np.column_stack([level, level % 2, np.clip(0.5 + 0.1 * level + 0.1 * shift, 0.0, 1.0),
                             np.clip(0.5 + 0.1 * shift, 0.0, 1.0)])
    schema = tm.Schema([tm.Column("level", kind="categorical", categories=(0, 1, 2, 3)),
                        tm.Column("half", kind="categorical", categories=(0, 1)),
                        tm.Column("x", lower=0.0, upper=1.0), tm.Column("y", lower=0.0, upper=1.0)])
    release = tm.synthesize(frame, schema, tm.Budget(5.0, 1e-6), rng=np.random.default_rng(1)).release
    seen = []

    def noted(known, table, expected, noise, numbers):
        seen.append((table.shape[0], int(numbers.sum()), table.shape[1]))
        return known

    monkeypatch.setattr(estimates, "by_row_effects", noted)
    monkeypatch.setattr(estimates, "_ESTIMATES", WeakKeyDictionary())
    made = tables.Targets(release)
    assert len(seen) == sum(len({0, 1} & set(each.query.columns)) == 1 for each in release.tables) > 0
    assert {levels for levels, *_ in seen} <= {2, 4}
    assert all(held == cells for _, held, cells in seen)
    assert all(pair.table.shape == each.query.shape for pair, each in zip(made.pairs, release.tables, strict=True))


def test_single_cells_are_drawn_to_the_shift_of_their_level():
    # Empty cells, which single cells find out.
    true = shifted_table(0.6)
    true[:, 3:11] = 0.0
    true /= true.sum()
    table = true + NOISE * np.random.default_rng(0).normal(size=true.shape)
    expected, levels, cells = product_of(true), *true.shape
    partition = Partition((), 0, np.linspace(-1.0, 1.0, cells + 1))
    category = Partition(tuple(range(1, levels + 1)), None, np.empty(0))
    numbers, maps = np.ones(cells, dtype=bool), (np.arange(levels), np.arange(cells))
    known = by_row_effects(estimated(table, expected, NOISE), table, expected, NOISE, numbers)
    wanted, others = (with_cells(known, table, NOISE, predict) for predict in (
        row_effects.shifts(expected, NOISE, numbers), lambda _: expected))
    made = estimates.estimate_at(Marginal((0, 1), (category, partition), maps), table, expected, NOISE)
    np.testing.assert_array_equal(made.table, wanted.table)
    turned = estimates.estimate_at(Marginal((0, 1), (partition, category), maps[::-1]), table.T, expected.T, NOISE)
    # Another order of sums, and another order of the probe's signs, as both ways have it.
    assert np.abs(turned.table.T - made.table).max() < NOISE
    score, sizes = np.arange(cells) - 0.5 * (cells - 1), true.sum(axis=1)
    small = sizes < np.median(sizes)
    wrong = [np.abs((each.table - true)[small] @ score / sizes[small]).mean() for each in (known, wanted, others)]
    assert wrong[1] - wrong[0] < 0.5 * (wrong[2] - wrong[0])
