"""Exchanges within cells beside a twin that computes everything anew, in the order of the formulas."""

import numpy as np
import pytest
from scipy.special import ndtr, ndtri
from test_copula import copula_of, number

from trigmech.reconstruction import within_cells
from trigmech.reconstruction.copula import FIRM
from trigmech.reconstruction.directed import definite


def truncated(means, deviation, least, most, rng):
    turned = least - means > 0.0
    low, high = (np.where(turned, means - most, least - means) / deviation,
                 np.where(turned, means - least, most - means) / deviation)
    a, b, u = ndtr(low), ndtr(high), rng.random(len(means))
    made = ndtri(np.clip(a + u * (b - a), 1e-300, 1.0 - 1e-16))
    made = np.clip(np.where(b > a, made, np.clip(low, -30.0, 30.0) + u * 1e-9), low, high)
    return means + deviation * np.where(turned, -made, made)


def within(copula, rows, cells, rng, rounds, every):
    """The same exchanges, with all values and limits found again in each turn."""
    precision = np.linalg.inv(definite(copula.correlations, FIRM))
    spread = 1.0 / np.sqrt(np.diag(precision))
    weights = -precision * spread[:, None] ** 2
    np.fill_diagonal(weights, 0.0)
    values, limits = np.zeros((len(rows), len(weights))), {}
    for j, order in enumerate(copula.orders):
        place, own = order[rows[:, j]], cells[j][rows[:, j]]
        held = np.flatnonzero(place >= 0.0)
        ties = rng.random(len(held))
        values[held[np.lexsort((ties, place[held]))], j] = ndtri((np.arange(len(held)) + 0.5) / max(len(held), 1))
        least, most = ({cell: edge(values[held[own[held] == cell], j]) for cell in np.unique(own[held]).tolist()}
                       for edge in (np.min, np.max))
        first, last = min(least, key=least.get, default=None), max(most, key=most.get, default=None)
        limits[j] = least | {first: -np.inf}, most | {last: np.inf}
    for _ in range(rounds):
        for j, order in enumerate(copula.orders):
            own, alone = cells[j][rows[:, j]], np.bincount(cells[j]) == 1
            held = np.flatnonzero((order[rows[:, j]] >= 0.0) & (every | ~alone[own]))
            if not weights[j].any() or len(held) < 2:
                continue
            least, most = (np.array([limit[cell] for cell in own[held].tolist()]) for limit in limits[j])
            drawn = truncated((values @ weights[j])[held], spread[j], least, most, rng)
            before = held[np.lexsort((order[rows[held, j]], own[held]))]
            after = held[np.lexsort((drawn, own[held]))]
            rows[after, j], values[after, j] = rows[before, j], values[before, j]


@pytest.mark.parametrize("every", [True, False])
def test_exchanges_are_those_of_a_twin_that_finds_all_values_anew(every):
    rng = np.random.default_rng(4)
    columns = [number(rng.random(30), 0), number(rng.random(12), 1), number(rng.random(20), 2), number([1.0, 1.0], 3)]
    truth = np.array([[1.0, 0.7, -0.3, 0.0], [0.7, 1.0, 0.2, 0.0], [-0.3, 0.2, 1.0, 0.0], [0.0, 0.0, 0.0, 1.0]])
    copula = copula_of(columns, truth)
    # Wide cells, cells of one position, and stretches between which another cell lies.
    cells = [np.arange(30) // 7, np.arange(12), np.arange(20) // 3 % 4, np.arange(2)]
    rows = np.column_stack([rng.integers(len(column.mass), size=800) for column in columns]).astype(np.int32)
    found, expected = rows.copy(order="F"), rows.copy()
    copula.arrange_within(found, cells, np.random.default_rng(5), rounds=3, every=every)
    within(copula, expected, cells, np.random.default_rng(5), 3, every)
    np.testing.assert_array_equal(found, expected)
    assert (found != rows).any(axis=0).tolist() == [True, False, True, False]


def test_truncated_values_are_those_of_the_formula():
    rng = np.random.default_rng(6)
    means, deviation = rng.normal(size=5_000), rng.uniform(0.1, 2.0, 5_000)
    least = rng.normal(size=5_000) * rng.choice([0.1, 5.0, 80.0], 5_000)
    most = least + rng.choice([1e-9, 0.1, 3.0], 5_000)
    least[::7], most[::5] = -np.inf, np.inf
    given = [each.copy() for each in (means, deviation, least, most)]
    for spread in (deviation, 0.7):
        found, expected = (way(means, spread, least, most, np.random.default_rng(7))
                           for way in (within_cells.truncated, truncated))
        np.testing.assert_array_equal(found, expected)
    for each, before in zip((means, deviation, least, most), given, strict=True):
        np.testing.assert_array_equal(each, before)


def test_ranks_sort_positions_as_their_cells_and_order_do():
    rng = np.random.default_rng(8)
    order, cells = rng.permutation(50).astype(float), rng.integers(0, 6, 50)
    codes = rng.integers(0, 50, 400)
    np.testing.assert_array_equal(np.argsort(within_cells.ranks_of(order, cells)[codes], kind="stable"),
                                  np.lexsort((order[codes], cells[codes])))
