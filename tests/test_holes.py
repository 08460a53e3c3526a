"""Small tables whose cells the release shows to be empty: rows leave these cells."""

import math
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import integrate, stats

import trigmech as tm
from trigmech.reconstruction import pairs
from trigmech.reconstruction import tables as fits
from trigmech.reconstruction.pairs import Pair
from trigmech.reconstruction.rows import CompiledObjective, RowObjective
from trigmech.reconstruction.sparse import LEAST_CELLS, ROUNDS

SERVICES = 4


def measured(means, noise):
    return SimpleNamespace(means=means, deviation=noise, query=SimpleNamespace(size=means.size))


def shown_empty(tables, alone, n):
    return pairs.shown_empty([pairs._beside_margins(*both) for both in zip(tables, alone, strict=True)], alone, n)


def pair(table, *, sparse=False):
    maps = tuple(np.arange(size) for size in table.shape)
    return Pair((0, 1), maps, table, 0.01, sparse)


def subscribers(n, rng):
    """Those without a telephone have no lines; services need a connection, and depend on each other and on it."""
    phone, net, taste = rng.random(n) < 0.9, rng.choice(3, n, p=[0.35, 0.43, 0.22]), rng.normal(size=n)
    lines = np.where(phone, rng.choice(["one", "more"], n), "no phone")
    table = {"phone": np.where(phone, "yes", "no"), "lines": lines, "net": np.array(["dsl", "fiber", "no"])[net]}
    for k in range(SERVICES):
        wanted = np.where(taste + rng.normal(size=n) + 0.5 * (net == 1) > 0.0, "yes", "no")
        table[f"s{k}"] = np.where(net == 2, "no net", wanted)
    return pd.DataFrame(table)


def impossible(rows):
    """The share of rows with lines and no telephone or the reverse, and with a service and no connection."""
    return [float(((rows["phone"] == "no") != (rows["lines"] == "no phone")).mean()),
            *(float(((rows["net"] == "no") != (rows[f"s{k}"] == "no net")).mean()) for k in range(SERVICES))]


def synthesis(n=4_000, epsilon=20.0, seed=0, delta=1e-6):
    table = subscribers(n, np.random.default_rng(seed))
    schema = tm.Schema([tm.Column(name, kind="categorical", categories=sorted(set(table[name]))) for name in table])
    return tm.synthesize(table, schema, tm.Budget(epsilon, delta), rng=np.random.default_rng(seed))


def crossed(part, shares=(0.5, 0.5)):
    """A table of two by two: independent columns, but for two cells that keep only this part of their rows."""
    alone = np.outer(shares, shares)
    moved = (1.0 - part) * min(alone[0, 0], alone[1, 1])
    return alone, alone + moved * np.array([[-1.0, 1.0], [1.0, -1.0]])


def slow(tables, alone, n):
    """The same by loops, quadrature and a plain expectation maximisation."""
    kinds, cells, found = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]], [], []
    for t, (each, own) in enumerate(zip(tables, alone, strict=True)):
        (a, b), off = own.shape, (each.means - own).tolist()
        noise = each.deviation * math.sqrt((1.0 - 1.0 / a) * (1.0 - 1.0 / b))
        rows, columns = [sum(row) / b for row in off], [sum(off[i][k] for i in range(a)) / a for k in range(b)]
        for i, k in np.ndindex(a, b):
            y = max((own[i, k] + off[i][k] - rows[i] - columns[k] + sum(rows) / a) / noise, -6.0)
            if own[i, k] * n >= 1.0 and own[i, k] >= 6.0 * noise and a * b < 64:
                # The number's density without rows, with a few rows, and with any share up to the expected one.
                few = integrate.quad(lambda share, y=y: stats.norm.pdf(y - share), 0.0, 4.0)[0] / 4.0
                any_share = stats.norm.cdf(y) * noise / own[i, k]
                kinds.append([stats.norm.pdf(y), few, any_share])
                cells.append((t, i, k))
    weights = [1.0 / 3.0] * 3
    for _ in range(ROUNDS):
        every = [[w * d / sum(v * e for v, e in zip(weights, own, strict=True))
                  for w, d in zip(weights, own, strict=True)] for own in kinds]
        weights = [sum(own[c] for own in every) / len(every) for c in range(3)]
    for cell, own in zip(cells, kinds[3:], strict=True):
        empty, few = weights[0] * own[0], weights[1] * own[1]
        if own[0] > 8.0 * own[2] and empty > 0.9 * (empty + few):
            found.append(cell)
    return found


@pytest.mark.daily(3)
@pytest.mark.parametrize("noise", [1e-4, 1e-3, 3e-3, 0.01])
def test_cells_are_empty_where_that_is_likely_beside_few_rows_and_any_share(noise):
    rng, n, tables, alone = np.random.default_rng(0), 2_000, [], []
    for t in range(12):
        own = np.outer(rng.dirichlet(np.ones(2 + t % 2)), rng.dirichlet(np.ones(4)))
        # Cells lose what they have, or a part of it, to others of their columns.
        truth, part = own.copy(), rng.choice([0.0, 0.0, 0.1])
        truth[:2, 0] *= [part, 2.0 - part]
        truth[:2, 1] *= [2.0 - part, part]
        tables.append(measured(truth + noise * rng.standard_normal(own.shape), noise))
        alone.append(own)
    # A large table is left alone.
    tables.append(measured(np.zeros((8, 8)), noise))
    alone.append(np.full((8, 8), 1.0 / 64.0))
    found = shown_empty(tables, alone, n)
    assert [(t, *cell) for t, own in enumerate(found) for cell in np.argwhere(own).tolist()] == slow(tables, alone, n)
    assert sum(own.sum() for own in found) > 2
    assert all(own.shape == table.shape for own, table in zip(found, alone, strict=True))


def test_how_many_cells_are_empty_decides_about_one_near_zero():
    """A cell of 1.3 deviations of its noise is one of few rows beside such cells, and empty beside empty ones."""
    noise, n = 0.01, 1_000
    alone, own = crossed(1.3 * 0.5 * noise / 0.25)
    for others, empty in ((0.0, True), (2.5, False)):
        rest = [crossed(others * 0.5 * noise / 0.25)[1]] * 20
        found = shown_empty([measured(means, noise) for means in (own, *rest)], [alone] * 21, n)
        assert found[0].tolist() == [[empty, False], [False, empty]]
        assert not found[0][0, 1]


def test_what_noise_could_hide_is_not_empty():
    noise, n = 0.02, 1_000
    alone, empty = crossed(0.0)
    others = [measured(empty, noise)] * 20

    def one(means, scale=1.0, rows=n):
        return shown_empty([measured(means, scale * noise), *others], [alone] * 21, rows)[0].tolist()

    cells = [[True, False], [False, True]]
    assert one(empty) == one(empty - [[0.02, -0.02], [-0.02, 0.02]]) == one(empty - [[9.0, -9.0], [-9.0, 9.0]]) == cells
    # In a table of two by two a cell differs from independence by as much as the others, so with half of the noise.
    assert one(crossed(0.005 / 0.25)[1]) == cells
    for part in (0.03, 0.1, 0.25):
        assert not np.any(one(crossed(part / 0.25)[1])), part
    # What a margin has more or less in this table is noise, because the columns' own frequencies are known better.
    for more in (np.array([[0.1, 0.1], [0.0, 0.0]]), np.array([[-0.1, 0.2], [-0.2, 0.1]])):
        assert one(empty + more) == cells
    # Where the noise is too large for what independent columns would have, and where that is not a row.
    assert one(empty, 2.0) == cells
    assert not np.any(one(crossed(0.01 / 0.25)[1], 2.0))
    assert not np.any(one(empty, 4.5))
    assert not np.any(one(empty - [[0.3, -0.3], [-0.3, 0.3]], 4.5))
    assert one(empty, 1e-6, 4) == cells
    assert not np.any(one(empty, 1e-6, 3))


def test_few_cells_show_little():
    noise, n = 0.02, 1_000
    alone, near = crossed(0.3 * 0.5 * noise / 0.25)
    assert not shown_empty([measured(near, noise)], [alone], n)[0].any()
    assert shown_empty([measured(near, noise)] * 3, [alone] * 3, n)[0].any()
    assert shown_empty([], [], n) == []


def test_most_cells_that_are_taken_to_be_empty_are_so_and_others_hold_less_than_the_noise():
    rng, n, noise, tables, alone, truths = np.random.default_rng(0), 5_000, 4e-3, [], [], []
    for _ in range(400):
        own = np.outer(rng.dirichlet(np.ones(3)), rng.dirichlet(np.ones(3)))
        # Half of the tables have an empty cell, and others one of few rows.
        truth, part = own.copy(), rng.choice([0.0, rng.uniform()])
        moved = (1.0 - part) * min(own[0, 0], own[1, 1])
        truth[:2, :2] += moved * np.array([[-1.0, 1.0], [1.0, -1.0]])
        tables.append(measured(truth + noise * rng.standard_normal((3, 3)), noise))
        alone.append(own)
        truths.append(truth)
    found = np.concatenate([truth[own] for truth, own in
                            zip(truths, shown_empty(tables, alone, n), strict=True)])
    assert len(found) > 50
    assert np.mean(found < 1e-12) > 0.8
    assert np.mean(found) < 0.2 * noise
    assert found.max() < 3.0 * noise


def test_larger_tables_have_an_estimate_of_their_own_that_knows_empty_cells():
    for (a, b), empty in (((7, 9), True), ((8, 8), False)):
        assert (a * b >= LEAST_CELLS) != empty
        alone, means = np.full((a, b), 1.0 / (a * b)), np.full((a, b), 1.0 / (a * b))
        means[:2, :2] *= [[0.0, 2.0], [2.0, 0.0]]
        found = shown_empty([measured(means, 1e-6)] * 9, [alone] * 9, 10_000)[0]
        assert (found.sum(), found[0, 0], found[1, 1]) == (2 * empty, empty, empty)
    # A column of one level has nothing to show.
    assert not np.any(shown_empty([measured(np.zeros((1, 4)), 1e-6)] * 9, [np.full((1, 4), 0.25)] * 9, 10_000))


@pytest.mark.parametrize("noise", [0.0, 5e-324, 1e-300, 1e-9, 1e9, math.inf])
@pytest.mark.parametrize("value", [-1e300, -1e9, 0.0, 1e-300, 1e9, 1e300])
def test_no_noise_makes_it_fail(noise, value):
    for alone in (np.array([[0.5, 0.0, 1e-300, 1.0], [0.0, 0.5, 1.0, 0.25]]), np.full((2, 4), 1e9)):
        means = np.array([[value, 0.0, -value, 0.25], [value, value, -value, 0.0]])
        with np.errstate(all="raise", under="ignore"):
            found = shown_empty([measured(means, noise)], [alone], 100)[0]
        assert found.dtype == np.bool_
        assert pair(np.abs(alone) / 4.0).without(found).table.sum() == pytest.approx(alone.sum() / 4.0)


def test_other_cells_get_what_empty_ones_had():
    table = np.array([[0.1, 0.2], [0.3, 0.4]])
    whole, empty = pair(table), np.array([[True, False], [False, False]])
    made = whole.without(empty)
    assert_allclose(made.table, [[0.0, 2.0 / 9.0], [1.0 / 3.0, 4.0 / 9.0]], rtol=1e-12)
    assert (made.holes, made.walled, made.sparse) == (True, True, False)
    assert (whole.holes, whole.walled) == (False, False)
    assert pair(table, sparse=True).walled
    # Where nothing would be left, where nothing is empty, and where the estimate knows empty cells.
    for given, which in ((whole, ~empty & empty), (whole, empty | ~empty), (pair(table, sparse=True), empty),
                         (pair(0.0 * table), empty), (pair(-table), empty)):
        assert given.without(which) is given
    assert_allclose(made.at_least(0.02, 0.003), [[0.01, 0.02], [0.02, 0.02]])
    assert_allclose(whole.at_least(0.02, 0.003), np.full((2, 2), 0.02))


def holes_of(made):
    """The names and categories of each pair of columns that a released table shows to exclude each other."""
    columns = made.schema.columns
    found = []
    for each in fits.Targets(made.release, True).pairs:
        j, h = each.columns
        for a, b in np.argwhere(each.table == 0.0) if each.holes else ():
            found.append(((columns[j].name, columns[j].categories[a]), (columns[h].name, columns[h].categories[b])))
    return found


@pytest.mark.daily(3)
@pytest.mark.parametrize(("seed", "delta"), [(0, 1e-6), (1, 1e-6), (0, 0.0), (1, 0.0)])
def test_rows_are_not_where_a_small_table_shows_no_row(seed, delta):
    """Before, rows stayed in these cells, because no move or exchange of single rows gained anything."""
    made = synthesis(seed=seed, delta=delta)
    rows, holes = pd.DataFrame(made.columns(4_000, np.random.default_rng(0))), holes_of(made)
    assert len(holes) > 10
    for (first, a), (second, b) in holes:
        assert not ((rows[first] == a) & (rows[second] == b)).any()
    # Some of them cannot be told from cells of few rows: these hold few.
    assert max(impossible(rows)) < 0.005
    assert np.mean(impossible(rows)) < 0.001
    assert made.fit.misfit < 1.2


def test_cells_of_products_of_contrasts_are_judged_by_what_was_released_before_it_is_shrunk():
    made, shown = synthesis(delta=0.0), []
    targets, measured = fits.Targets(made.release, True), made.release.products
    assert measured.query.tells_tables
    assert not made.release.tables
    released = fits.Targets(made.release, False).pairs
    assert not any(each.holes for each in released)
    for each in released:
        down, across = (made.release.columns[j].mass for j in each.columns)
        expected = np.outer(np.bincount(each.maps[0], down), np.bincount(each.maps[1], across))
        shown.append(pairs._in_noise(each.table, expected, each.deviation))
    for each, empty in zip(targets.pairs, pairs.shown_empty(
            shown, [alone * each.deviation for (_, alone), each in zip(shown, released, strict=True)],
            made.release.n), strict=True):
        np.testing.assert_array_equal(each.table == 0.0, empty)
        assert each.holes == empty.any()


def test_small_fits_visit_the_empty_cells_of_small_tables_alone(monkeypatch):
    """And large fits those of all."""
    seen, keep = [], CompiledObjective.clear_empty

    def noted(self, fitted, rng, sampled=None, tables=None):
        seen.append((sampled, tables))
        return keep(self, fitted, rng, sampled, tables)

    monkeypatch.setattr(CompiledObjective, "clear_empty", noted)
    made = synthesis()
    targets = fits.Targets(made.release, True)
    holes = [t for t, each in enumerate(targets.pairs) if each.holes]
    assert holes
    assert seen == [(None, holes)] * len(seen)
    seen.clear()
    monkeypatch.setattr(fits, "FIRST", 1_000)
    fits.reconstruct_table(made.release, 2_000, np.random.default_rng(0))
    assert seen == [(fits.SAMPLED, None)]


def test_rows_leave_the_empty_cells_of_the_tables_that_are_named():
    """Ten rows are in an empty cell of each table, where a heavier table of the same columns wants them."""
    size, m = 4, 400
    made = RowObjective([size] * 3)
    maps = [made.map(j, np.arange(size)) for j in range(3)]
    rows = np.arange(m, dtype=np.int32)[:, None].repeat(3, axis=1) % size
    rows[:10, 0] = (rows[:10, 0] + 1) % size
    rows[10:20, 2] = (rows[10:20, 2] + 1) % size
    for a, b in ((0, 1), (1, 2)):
        wanted = np.zeros((size, size))
        np.add.at(wanted, tuple(rows[:, [a, b]].T), 1.0 / m)
        made.table([maps[a], maps[b]], np.eye(size) / size, 1.0, sparse=True)
        made.table([maps[a], maps[b]], wanted, 50.0)
    objective = made.compiled()

    def cleared(tables):
        fitted = objective.descend(rows.copy(), np.random.default_rng(0), most=0)
        found = objective.clear_empty(fitted, np.random.default_rng(1), None, tables).rows
        return (found[:, 0] != found[:, 1]).sum(), (found[:, 1] != found[:, 2]).sum()

    assert cleared([]) == (10, 10)
    assert cleared(None) == (0, 0)
    assert cleared([0])[0] == 0 < cleared([0])[1]
    assert cleared([2])[1] == 0 < cleared([2])[0]
    # Nothing is drawn or done without such tables.
    fitted, rng = objective.descend(rows.copy(), np.random.default_rng(0), most=0), np.random.default_rng(1)
    assert objective.clear_empty(fitted, rng, None, []) is fitted
    assert rng.random() == np.random.default_rng(1).random()
    assert_array_equal(fitted.rows, rows)
