"""Sparse tables: the posterior against quadrature, the choice by risk, rows that keep them, and finer measurements."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import chisquare, norm

import trigmech as tm
from trigmech.domain import Domain, OneHotGroup
from trigmech.evaluation import resampling
from trigmech.functions.partition import Partition
from trigmech.functions.released_column import ReleasedColumn
from trigmech.mechanisms.base import PublicFacts
from trigmech.planning import selection, tables
from trigmech.planning.tables import plan_tables
from trigmech.queries.base import Measurement
from trigmech.queries.joint import Marginal
from trigmech.reconstruction import estimates, exchange_kernels, sparse
from trigmech.reconstruction import rows as descent
from trigmech.reconstruction import tables as fits
from trigmech.reconstruction.constrained import ConstrainedRows
from trigmech.reconstruction.dependence import shrunk_table
from trigmech.reconstruction.pairs import Pair
from trigmech.reconstruction.row_arrays import joined
from trigmech.reconstruction.rows import RowObjective
from trigmech.reconstruction.sparse import estimated, with_margins
from trigmech.reconstruction.tables import Targets, strengths_of
from trigmech.report import page as report
from trigmech.report import sections as report_sections
from trigmech.report.dependences import dependences_of
from trigmech.storage import room

NOISE = 0.002


def function_table(a=30, b=25, seed=0):
    """A table of which each row has one or two occupied cells, and the product of its margins."""
    rng = np.random.default_rng(seed)
    table = np.zeros((a, b))
    table[np.arange(a), rng.integers(b, size=a)] = rng.dirichlet(np.full(a, 3.0))
    table[np.arange(0, a, 4), rng.integers(b, size=len(range(0, a, 4)))] += 0.01
    table /= table.sum()
    return table, np.outer(table.sum(axis=1), table.sum(axis=0))


def smooth_table(a=30, b=25):
    """A table without empty cells that is the product of its margins but for one direction."""
    u, v = np.cos(np.pi * (np.arange(a) + 0.5) / a), np.cos(np.pi * (np.arange(b) + 0.5) / b)
    return (1.0 + 0.5 * np.outer(u, v)) / (a * b), np.full((a, b), 1.0 / (a * b))


@pytest.mark.parametrize("y", [-40.0, -3.0, -0.5, 0.0, 1.7, 6.0, 35.0])
def test_densities_and_means_of_each_kind_of_cell_are_those_of_quadrature(y):
    values = np.array([y, 20.0])
    densities, means = sparse._components(values)
    y = max(y, sparse.LOWEST)
    assert densities[0, 0] == pytest.approx(norm.logpdf(y))
    assert means[0, 0] == 0.0
    for k in range(1, len(densities)):
        mean = 2.0 ** (k - 1)
        # On a scale on which the largest value of the integrand is 1.
        top = max(0.0, y - 1.0 / mean)

        def prior(x, mean=mean, top=top):
            return np.exp(-0.5 * (y - x) ** 2 - x / mean + 0.5 * (y - top) ** 2 + top / mean)

        around = [max(0.0, top - 12.0), top + 40.0]
        whole, moment = (quad(lambda x, r=r: x**r * prior(x), *around, points=[top], limit=400)[0] for r in (0, 1))
        density = np.log(whole) - 0.5 * (y - top) ** 2 - top / mean - np.log(mean) - 0.5 * np.log(2.0 * np.pi)
        assert densities[k, 0] == pytest.approx(density, rel=1e-6)
        assert means[k, 0] == pytest.approx(moment / whole, rel=1e-5)


def test_weights_make_what_was_seen_more_likely_in_each_round(monkeypatch):
    rng = np.random.default_rng(1)
    y = np.where(rng.random(2_000) < 0.1, rng.exponential(20.0, 2_000), 0.0) + rng.normal(size=2_000)
    densities, _ = sparse._components(y)
    likelihoods = []
    for rounds in (0, 1, 5, 25):
        monkeypatch.setattr(sparse, "ROUNDS", rounds)
        weights = sparse.weights_of(np.exp(densities))
        assert weights.sum() == pytest.approx(1.0)
        likelihoods.append(np.log(weights @ np.exp(densities)).sum())
    assert likelihoods == sorted(likelihoods)
    assert weights[0] == pytest.approx(0.9, abs=0.03)


def test_sparse_tables_are_found_and_smooth_ones_are_left_to_their_singular_values():
    found = {}
    for name, (truth, expected) in (("function", function_table()), ("smooth", smooth_table())):
        errors = []
        for seed in range(20):
            table = truth + NOISE * np.random.default_rng([7, seed]).normal(size=truth.shape)
            made = estimated(table, expected, NOISE)
            low_rank = expected + shrunk_table(table - expected, NOISE)
            assert made.sparse == (name == "function")
            errors.append((np.abs(made.table - truth).sum(), np.abs(low_rank - truth).sum()))
            if not made.sparse:
                np.testing.assert_array_equal(made.table, low_rank)
                assert (made.deviation == NOISE).all()
        found[name] = np.mean(errors, axis=0)
    # Four times nearer where a column is nearly a function of the other.
    assert found["function"][0] < found["function"][1] / 4.0


@pytest.mark.nightly  # By day sparse tables come back and are finite, here.
def test_the_estimated_difference_of_risks_is_the_true_one_on_average():
    truth, expected = function_table(16, 12)
    true, said = [], []
    for seed in range(200):
        table = truth + NOISE * np.random.default_rng([3, seed]).normal(size=truth.shape)

        def low_rank(values):
            return expected + shrunk_table(values - expected, NOISE)

        def few(values):
            return NOISE * sparse._posterior(values.ravel() / NOISE)[0].reshape(truth.shape)

        true.append((((low_rank(table) - truth) ** 2).sum() - ((few(table) - truth) ** 2).sum()) / NOISE**2)
        probe = np.random.default_rng([4, seed]).standard_normal(truth.shape)
        slopes = [(probe * (each(table + sparse.PROBE * NOISE * probe) - each(table))).sum() / (sparse.PROBE * NOISE)
                  for each in (low_rank, few)]
        said.append((((low_rank(table) - table) ** 2).sum() - ((few(table) - table) ** 2).sum()) / NOISE**2
                    + 2.0 * (slopes[0] - slopes[1]))
    error = np.std(np.array(said) - true) / np.sqrt(len(true))
    assert abs(np.mean(said) - np.mean(true)) < 4.0 * error + 0.02 * np.mean(true)


def test_cells_that_are_known_to_be_empty_are_known_better_than_the_noise_says():
    truth, expected = function_table()
    made = estimated(truth + NOISE * np.random.default_rng(0).normal(size=truth.shape), expected, NOISE)
    empty = made.table == 0.0
    assert (truth[empty] < 3.0 * NOISE).all()
    assert np.median(made.deviation[empty]) < 0.3 * NOISE
    assert (made.deviation >= sparse.FIRMEST * NOISE).all()
    assert made.deviation[truth > 5.0 * NOISE].min() > 0.95 * NOISE
    assert made.table.sum() == pytest.approx((truth + 0.0).sum(), abs=30 * NOISE)


@pytest.mark.parametrize("axis", [0, 1])
def test_a_level_whose_rows_are_known_from_its_column_alone_is_not_empty_as_a_whole(axis):
    """Its rows are some noises in one cell, which noise hides; the column's own measurement shows them."""
    truth, _ = function_table()
    lost, counted, others = [], np.ones(30, dtype=bool), np.zeros(25, dtype=bool)

    def turned(table, expected, own):
        if axis == 0:
            return estimated(table, expected, NOISE, (own, others))
        found = estimated(table.T, expected.T, NOISE, (others, own))
        return replace(found, table=found.table.T, deviation=found.deviation.T)

    for seed in range(20):
        rare = truth.copy()
        rare[3] = 0.0
        rare[3, 7] = 2.2 * NOISE
        rare /= rare.sum()
        expected = np.outer(rare.sum(axis=1), rare.sum(axis=0))
        table = rare + NOISE * np.random.default_rng([11, seed]).normal(size=rare.shape)
        made = turned(table, expected, counted)
        assert made.sparse
        lost.append(sparse._posterior(table.ravel() / NOISE)[1].reshape(table.shape)[3].max() < 0.5)
        # The other cells have the sum of the noisy table, and this row its part.
        assert made.table[3].sum() > 0.5 * rare[3].sum()
        # A firm cell would keep out the rows that other tables send there.
        assert made.deviation[3].max() > 3.0 * sparse.FIRMEST * NOISE
        if lost[-1]:
            # Where the column has no rows, and where only a density says that it has some, the level stays empty.
            assert not turned(table, expected * (np.arange(30) != 3)[:, None], counted).table[3].any()
            assert not turned(table, expected, np.arange(30) != 3).table[3].any()
    assert 5 < sum(lost) < 20


@given(values=st.lists(st.sampled_from([-1e300, -1e70, -1.0, -1e-9, 0.0, 1e-300, 0.01, 0.3, 1.0, 1e9, 1e70, 1e300]),
                       min_size=80, max_size=80), noise=st.sampled_from([1e-12, 1e-3, 1.0, 1e6]))
@settings(derandomize=True, deadline=None, max_examples=40)
def test_whatever_was_released_the_estimate_is_finite(values, noise):
    table = np.array(values).reshape(8, 10)
    with np.errstate(over="ignore"):
        made = estimated(np.clip(table, -1e100, 1e100), np.full((8, 10), 1.0 / 80.0), noise)
    assert np.isfinite(made.table).all()
    assert np.isfinite(made.deviation).all()
    assert (made.deviation > 0.0).all()


def test_rows_in_cells_that_should_be_empty_take_over_what_others_have():
    """Two columns that are one function of each other: single moves find a wall, for both entries must move at once."""
    size, m = 6, 600
    rng = np.random.default_rng(0)
    target = np.eye(size) / size

    def asked(sparse):
        made = RowObjective([size, size])
        maps = [made.map(j, np.arange(size)) for j in range(2)]
        made.table(maps, target, np.where(target > 0.0, 1.0, 100.0), sparse=sparse)
        for j in range(2):
            made.frequencies(j, np.full(size, 1.0 / size), 1e4)
        return made.compiled()

    rows = np.repeat(np.arange(size, dtype=np.int32), m // size)[:, None].repeat(2, axis=1)
    wrong = rng.choice(m, 40, replace=False)
    rows[wrong, 1] = (rows[wrong, 1] + 1 + rng.integers(size - 1, size=40)) % size
    objective = asked(True)
    residuals = objective.residuals(rows)
    before = objective.value(residuals, m)
    moves = objective.leave_empty(rows, residuals, np.arange(2), np.random.default_rng(1))
    assert 0 < moves <= 40
    after = objective.value(residuals, m)
    assert after < before
    assert objective.value(objective.residuals(rows), m) == pytest.approx(after)
    assert (rows[:, 0] != rows[:, 1]).sum() < 40
    # Not if most rows are in such cells, nor without a sparse table, nor of columns that stay.
    others = rng.integers(size, size=(m, 2)).astype(np.int32)
    for compiled, columns in ((objective, np.arange(2)), (asked(False), np.arange(2)), (objective, np.arange(0))):
        held = others.copy() if compiled is objective and len(columns) else rows.copy()
        same = held.copy()
        assert compiled.leave_empty(held, compiled.residuals(held), columns, np.random.default_rng(1)) == 0
        np.testing.assert_array_equal(held, same)
    assert (others[:, 0] != others[:, 1]).mean() > descent.MOST_STUCK


def test_rows_leave_the_empty_cells_of_every_sparse_table_and_of_no_other():
    size, m = 4, 400
    wrong = {(0, 1): range(10), (2, 3): range(100, 110), (4, 5): range(200, 210)}
    for chosen in ([(0, 1), (2, 3)], [(2, 3), (4, 5)], [(4, 5)], [(0, 1), (2, 3), (4, 5)]):
        made = RowObjective([size] * 6)
        maps = [made.map(j, np.arange(size)) for j in range(6)]
        for pair in wrong:
            made.table([maps[j] for j in pair], np.eye(size) / size, 1.0, sparse=pair in chosen)
        rows = np.arange(m, dtype=np.int32)[:, None].repeat(6, axis=1) % size
        for (_, second), places in wrong.items():
            rows[places, second] = (rows[places, second] + 1) % size
        objective, rng = made.compiled(), np.random.default_rng(3)
        residuals = objective.residuals(rows)
        for _ in range(3):
            objective.leave_empty(rows, residuals, np.arange(6), rng)
        left = {pair: int((rows[:, pair[0]] != rows[:, pair[1]]).sum()) for pair in wrong}
        assert left == {pair: 0 if pair in chosen else 10 for pair in wrong}


def functional(n, seed):
    """Rows with a category of 40 kinds, a number that it determines but for a little, and one more category."""
    rng = np.random.default_rng(seed)
    places = np.random.default_rng(99).uniform(0.0, 1_000.0, 40)
    kind = rng.choice(40, p=np.random.default_rng(98).dirichlet(np.full(40, 4.0)), size=n)
    number = np.clip(places[kind] + rng.normal(0.0, 1.0, n), 0.0, 1_000.0)
    other = np.where(rng.random(n) < 0.7, kind % 3, rng.integers(3, size=n))
    return np.column_stack([kind, number, other]).astype(float), places


SCHEMA = tm.Schema([tm.Column("kind", kind="categorical", categories=tuple(range(40))),
                    tm.Column("number", 0.0, 1_000.0),
                    tm.Column("other", kind="categorical", categories=(0, 1, 2))])


@pytest.fixture(scope="module")
def released():
    rows, places = functional(60_000, 0)
    return tm.synthesize(rows, SCHEMA, tm.Budget(1.0, 1e-6), tm.TableMechanism(points=6_000),
                         np.random.default_rng(1)), places


def test_what_a_category_nearly_determines_is_measured_finer_and_comes_back(released):
    made, places = released
    pairs = [each.query for each in made.release.tables if each.query.columns == (0, 1)]
    sizes = tuple(len(column.mass) for column in made.release.columns[:2])
    assert pairs[0].shape != sizes
    assert [each.shape for each in pairs[1:]] == [sizes]
    sample = np.asarray(made.sample(6_000, np.random.default_rng(2)), dtype=float)
    near = np.abs(sample[:, 1] - places[sample[:, 0].astype(int)]) <= 8.0
    # .71 by the cells of the first tables alone.
    assert near.mean() > 0.92
    strengths, occupied = strengths_of(made.release)
    targets = Targets(made.release)
    for strength, count, pair in zip(strengths, occupied, targets.pairs, strict=True):
        assert np.isfinite(count) == pair.sparse
        if pair.sparse:
            assert count == (pair.table > 0.0).sum()
            assert strength > 0.8


def test_cells_of_light_levels_do_not_count_as_occupied(monkeypatch):
    """A level whose rows may be anywhere would else make a sparse table too large to be measured in finer cells."""
    table, noise = np.zeros((20, 20)), 0.001
    np.fill_diagonal(table, 0.05)
    table[3] = 0.002 / 20.0
    deviation = np.full(table.shape, 0.03 * noise)
    deviation[table > 0.0] = noise
    pairs = [Pair((0, 1), (np.arange(20), np.arange(20)), table, deviation, sparse) for sparse in (True, False)]
    monkeypatch.setattr(fits, "Targets", lambda release: SimpleNamespace(pairs=pairs))
    monkeypatch.setattr(fits, "independent", lambda release: ([np.full((20, 20), 0.0025)] * 2, np.zeros(0)))
    assert strengths_of(None)[1].tolist() == [19.0, np.inf]


@pytest.mark.nightly  # By day bars of other tables hold, in test_resampled_bars.py.
def test_error_bars_of_a_release_with_sparse_tables_hold_its_answers(released, monkeypatch):
    monkeypatch.setattr(resampling, "TABLES", 4)
    monkeypatch.setattr(resampling, "RELEASES", 1)
    made, places = released
    def part_near(rows):
        return np.mean(np.abs(rows["number"] - places[rows["kind"].astype(int)]) <= 20.0)

    found = made.error_bars(part_near)
    rows, _ = functional(60_000, 0)
    true = part_near({"number": rows[:, 1], "kind": rows[:, 0]})
    assert abs(found.values - true) <= found.error.bound
    assert found.error.bound < 0.3


@pytest.mark.nightly  # By day test_report_of_tables.py reads what a page says of each round.
def test_the_page_names_finer_tables_beside_the_first_ones(released, tmp_path, monkeypatch):
    # What it says of the errors of queries is tested elsewhere.
    monkeypatch.setattr(report_sections, "MOST_QUERIES", 60)
    made, _ = released
    text = report.write(made, tmp_path / "page.html").read_text(encoding="utf-8")
    assert "third: cells of tables of 3 pairs of columns" in text
    assert "last: positions of 1 pairs of columns of which one nearly determines the other" in text
    found = dependences_of(made.release, made.fit)
    assert sorted((each.first, each.second) for each in found) == [(0, 1), (0, 2), (1, 2)]
    assert found[0].shape == next(each.query.shape for each in made.release.tables if each.query.columns == (0, 1))


def test_the_room_that_is_asked_for_before_the_charge_holds_finer_tables_and_their_maps(released):
    """What a file may take is bounded without them; a planted fault: the bound of tables of two and three alone."""
    made, _ = released
    measured = tm.TableMechanism(points=6_000).plan(PublicFacts(
        60_000, SCHEMA.domain, tm.Budget(1.0, 1e-6), SCHEMA.names)).measured
    numbers, size = measured.largest.released, room.bytes_of(measured.largest)
    fine = [each for each in made.release.tables if each.query.shape == tuple(
        len(made.release.columns[j].mass) for j in each.query.columns)]
    assert fine
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tables, "MOST_FINE_ENTRIES", 0)
        without, less = measured.largest.released, room.bytes_of(measured.largest)
    assert numbers - without == tables.MOST_FINE_ENTRIES
    assert sum(each.query.size for each in fine) <= tables.MOST_FINE_ENTRIES
    assert len(fine) <= selection.MOST_FINER
    maps = {id(cells): cells for each in (*made.release.tables, *made.release.triples) for cells in each.query.maps}
    assert size - less >= 8 * sum(len(cells) for each in fine for cells in each.query.maps)
    assert size >= 8 * sum(len(cells) for cells in maps.values())


def test_finer_tables_are_the_strongest_that_fit_together_and_are_clear_of_noise():
    sizes = (2_000, 30, 25, 20)
    domain = Domain(sum(sizes), [OneHotGroup(tuple(range(sum(sizes[:j]), sum(sizes[: j + 1]))), True)
                                 for j in range(len(sizes))])
    design = plan_tables(50_000, domain, tm.Budget(1.0, 1e-6))
    columns = [ReleasedColumn(partition, np.full(partition.size, 1.0 / partition.size), 0.001)
               for partition in design.partitions]

    def coarse(j, h):
        maps = tuple(np.arange(sizes[c]) * 10 // sizes[c] for c in (j, h))
        return Measurement(Marginal((j, h), (design.partitions[j], design.partitions[h]), maps), 1.0)

    tables = [coarse(j, h) for j in range(4) for h in range(j + 1, 4)]
    strengths = np.array([0.9, 0.8, 0.7, 0.6, 0.5, 0.4])

    def chosen(occupied, budget):
        return [each.columns for each in selection._finer(columns, tables, strengths, np.array(occupied), budget)]

    # Enough budget: the strongest, as far as their entries fit together, 60,000 and 50,000 of 131,072.
    assert chosen([20.0] * 6, 1e12) == [(0, 1), (0, 2)]
    assert chosen([np.inf, np.inf, 20.0, 20.0, 51.0, 20.0], 1e12) == [(0, 3), (1, 2), (2, 3)]
    # Little budget: none, or the one whose occupied cells are the fewest.
    assert chosen([np.inf, np.inf, np.inf, 20.0, 20.0, 20.0], 1e3) == []
    cells, budget = 20.0 * 3.0, 2.0 * (4.0 * 20.0 * 3.0) ** 2 * 1.01
    assert chosen([np.inf, np.inf, np.inf, 20.0, 49.0, np.inf], budget) == [(1, 2)]
    assert 4.0 * cells * np.sqrt(1.0 / (0.5 * budget)) <= 1.0
    # The column that becomes finest counts: 30 positions in ten cells.
    assert chosen([np.inf, np.inf, np.inf, 20.0, 49.0, np.inf], 0.95 * budget) == []


@pytest.mark.parametrize(("sizes", "kept"), [((300, 200), [True, True]), ((257, 256), [False, False]), (
    (3_000, 25), [False, True]), ((1_000, 1_000), [False, False]), ((70_000, 2), [False, True])])
def test_a_table_with_too_many_positions_is_measured_in_fewer_cells_within_those_of_the_first_one(sizes, kept):
    """It was left out, so with more budget, which tells more positions, dates of one order were further apart."""
    rng = np.random.default_rng(5)
    partitions = tuple(Partition((), j, np.linspace(-1.0, 1.0, size + 1)) for j, size in enumerate(sizes))
    columns = [ReleasedColumn(partition, rng.dirichlet(np.full(partition.size, 2.0)), 1e-5) for partition in partitions]
    first = Marginal((0, 1), partitions, tuple(np.arange(size) * min(size, 9) // size for size in sizes))
    finer = selection._in_finer_cells(columns, first, tables.MOST_FINE_ENTRIES // 4 if False in kept else 2**16)
    if kept == [True, True]:
        assert finer.shape == sizes
        return
    assert 0.75 * tables.MOST_FINE_ENTRIES // 4 < finer.size <= tables.MOST_FINE_ENTRIES // 4
    for fine, coarse, size, whole in zip(finer.maps, first.maps, sizes, kept, strict=True):
        count = int(fine.max()) + 1
        assert (count == size) == whole
        assert sorted(set(fine.tolist())) == list(range(count))
        assert (np.diff(fine) >= 0).all()
        # Each lies in one of the first table's cells.
        assert len(set(zip(fine.tolist(), coarse.tolist(), strict=True))) == count
    # The cells of a column have about equal mass.
    mass = np.bincount(finer.maps[0], columns[0].mass)
    assert mass.max() < 4.0 * mass.mean()


@pytest.mark.parametrize(("size", "beside", "wanted"), [
    (700, 0, 2**16), (700, 160, 2**16), (700, 250, 2**16), (1_200, 250, 2**16), (257, 256, 2**16)])
def test_more_positions_do_not_mean_fewer_cells(size, beside, wanted):
    """Tables with too many positions share what the others leave, up to half of it all; the strongest come first."""
    sizes = (size, size, beside or 2, beside or 2)
    partitions = tuple(Partition((), j, np.linspace(-1.0, 1.0, own + 1)) for j, own in enumerate(sizes))
    columns = [ReleasedColumn(each, np.full(each.intervals, 1.0 / each.intervals), 1e-5) for each in partitions]
    first = [Measurement(Marginal(pair, tuple(partitions[j] for j in pair), tuple(
        np.arange(sizes[j]) * min(sizes[j], 12) // sizes[j] for j in pair)), 1.0) for pair in ((0, 1), (2, 3))]
    made = selection._finer(columns, first, np.array([0.9, 0.8]), np.array([12.0, 12.0 if beside else np.inf]), 1e12)
    assert [each.columns for each in made] == [(0, 1), (2, 3)][: 1 + bool(beside)]
    assert 0.9 * wanted <= made[0].size <= wanted
    assert sum(each.size for each in made) <= tables.MOST_FINE_ENTRIES
    three = [replace(first[0], query=replace(first[0].query)) for _ in range(3)]
    shared = selection._finer(columns, three, np.array([0.9, 0.8, 0.7]), np.full(3, 12.0), 1e12)
    assert len(shared) == 3
    assert all(0.8 * wanted * 2 / 3 <= each.size <= wanted * 2 / 3 for each in shared)


def test_light_cells_that_are_not_empty_are_not_taken_for_empty_ones(monkeypatch):
    """Cells of which most are below the noise: the posterior mean is nearer, but no cell is clearly empty."""
    rng = np.random.default_rng(8)
    truth = NOISE * rng.exponential(1.2, (40, 30))
    expected = np.outer(truth.sum(axis=1), truth.sum(axis=0)) / truth.sum()
    tables = [truth + NOISE * rng.normal(size=truth.shape) for _ in range(5)]
    assert not any(estimated(table, expected, NOISE).sparse for table in tables)
    # A planted fault: by the risk alone.
    monkeypatch.setattr(sparse, "MOSTLY", -2.0)
    assert any(estimated(table, expected, NOISE).sparse for table in tables)


def test_where_columns_are_firm_rows_leave_empty_cells_by_exchanges():
    """Two rows of two columns, each in the cell of the other: any single move, or both entries of another row, would
    change frequencies, which have more weight than the table."""
    size, m = 5, 100
    for connected in (True, False):
        made = RowObjective([size, size])
        for j in range(2):
            made.frequencies(j, np.full(size, 1.0 / size), 100.0)
        made.table([made.map(j, np.arange(size)) for j in range(2)], np.eye(size) / size, 1.0, sparse=True)
        rows = (np.arange(m) % size)[:, None].repeat(2, axis=1).astype(np.int32)
        rows[[0, 1], 1] = rows[[1, 0], 1]
        objective, rng = made.compiled(), np.random.default_rng(0)
        if not connected:
            objective.exchange = lambda *_: 0
        residuals = objective.residuals(rows)
        assert objective.sweep(rows, residuals, np.arange(m), np.arange(2)) == 0
        for _ in range(20):
            objective.leave_empty(rows, residuals, np.arange(2), rng)
        assert (rows[:, 0] != rows[:, 1]).sum() == (0 if connected else 2)
        for part, again in zip(residuals, objective.residuals(rows), strict=True):
            np.testing.assert_allclose(part, again)


def test_at_last_no_table_holds_rows_in_cells_that_should_be_empty(monkeypatch):
    """Ten rows that a heavier table of the same columns wants in an empty cell: a descent leaves them there."""
    size, m = 4, 400
    for known in (True, False):
        made = RowObjective([size, size])
        maps = [made.map(j, np.arange(size)) for j in range(2)]
        rows = np.arange(m, dtype=np.int32)[:, None].repeat(2, axis=1) % size
        rows[:10, 1] = (rows[:10, 1] + 1) % size
        wanted = np.zeros((size, size))
        np.add.at(wanted, tuple(rows.T), 1.0 / m)
        made.table(maps, np.eye(size) / size, 1.0, sparse=known)
        made.table(maps, wanted, 50.0)
        objective, before = made.compiled(), rows.copy()
        fitted = objective.descend(rows, np.random.default_rng(0))
        np.testing.assert_array_equal(fitted.rows, before)
        with monkeypatch.context() as patched:
            # Rows that stay in such cells count with the weights that were asked for.
            patched.setattr(descent, "LAST_VISITS", 0)
            patched.setattr(descent.CompiledObjective, "sweep", lambda *_, **__: 0)
            kept = objective.clear_empty(fitted, np.random.default_rng(1))
        assert kept.misfit == pytest.approx(fitted.misfit, rel=1e-9)
        cleared = objective.clear_empty(fitted, np.random.default_rng(1))
        np.testing.assert_array_equal(cleared.rows[10:], before[10:])
        assert (cleared.rows[:, 0] != cleared.rows[:, 1]).sum() == (0 if known else 10)
        # The misfit is that of the weights which were asked for, over the number of functions.
        value = objective.value(objective.residuals(cleared.rows), m) / objective.size
        assert cleared.misfit == pytest.approx(value, rel=1e-9)
        assert (cleared.misfit > fitted.misfit) == known


@pytest.mark.parametrize("seed", range(3))
def test_rows_that_left_empty_cells_are_made_up_for_by_all_rows(seed):
    """A third column has a table with each of two columns whose own table is sparse."""
    size, m, rng = 8, 4_000, np.random.default_rng(seed)
    first = rng.integers(0, size, m)
    truth = np.column_stack([first, (first + rng.integers(0, 2, m)) % size, (first + rng.integers(0, 3, m)) % size])
    made = RowObjective([size] * 3)
    maps = [made.map(j, np.arange(size)) for j in range(3)]
    for a, b in ((0, 1), (0, 2), (1, 2)):
        table = np.bincount(truth[:, a] * size + truth[:, b], minlength=size * size).reshape(size, size) / m
        noise = 0.0 if (a, b) == (0, 1) else rng.normal(0.0, 2e-3, (size, size))
        made.table([maps[a], maps[b]], np.maximum(table + noise, 0.0), 1e6, sparse=(a, b) == (0, 1))
    objective = made.compiled()
    # A part of the rows is where no row may be.
    rows = truth.astype(np.int32)
    rows[:400, 1] = (rows[:400, 0] + rng.integers(2, size, 400)) % size
    fitted, told = objective.descend(rows, np.random.default_rng(1), most=0), []
    sweep = descent.CompiledObjective.sweep

    def seen(self, rows, residuals, *further, **named):
        told.append(objective.value(residuals, m) / objective.size)
        return sweep(self, rows, residuals, *further, **named)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(descent.CompiledObjective, "sweep", seen)
        cleared = objective.clear_empty(fitted, np.random.default_rng(1))
    # The last sweep is of all rows: what it found is worse than what it left, and no row is where it may not be.
    assert cleared.misfit < 0.9 * told[-1]
    away = (cleared.rows[:, 1] - cleared.rows[:, 0]) % size
    assert (away < 2).all()


def test_columns_that_sparse_tables_tie_leave_empty_cells_together():
    """Two rows whose first two columns go with each other's last two: no column can change alone, nor any pair of them
    but the first two or the last two, and frequencies are firm."""
    size, m = 5, 100
    for tied in (True, False):
        made = RowObjective([size] * 4)
        maps = [made.map(j, np.arange(size)) for j in range(4)]
        for j in range(4):
            made.frequencies(j, np.full(size, 1.0 / size), 100.0)
        for pair in ((0, 1), (1, 2), (2, 3)):
            made.table([maps[j] for j in pair], np.eye(size) / size, 1.0, sparse=True)
        rows = (np.arange(m) % size)[:, None].repeat(4, axis=1).astype(np.int32)
        rows[:2, 2:] = rows[1::-1, 2:]
        objective, rng = made.compiled(), np.random.default_rng(0)
        if not tied:
            objective._wider = {}
        residuals = objective.residuals(rows)
        assert objective.sweep(rows, residuals, np.arange(m), np.arange(4)) == 0
        for _ in range(20):
            objective.leave_empty(rows, residuals, np.arange(4), rng)
        assert (rows[:, 1] != rows[:, 2]).sum() == (0 if tied else 2)
        np.testing.assert_array_equal(rows[:, 0], rows[:, 1])
        np.testing.assert_array_equal(rows[:, 2], rows[:, 3])
        for part, again in zip(residuals, objective.residuals(rows), strict=True):
            np.testing.assert_allclose(part, again)


@pytest.mark.parametrize(("groups", "sets"), [
    ([], [0, 1, 2, 3, 4, 5]), ([(1, 3)], [0, 1, 2, 1, 4, 5]), ([(3, 4), (1, 3)], [0, 1, 2, 1, 1, 5]),
    ([(4, 5), (1, 2), (5, 2), (0,)], [0, 1, 1, 3, 1, 1]), ([(5, 0), (1, 2), (2, 5)], [0, 0, 0, 3, 4, 0])])
def test_sets_of_columns_are_joined_by_all_that_they_share(groups, sets):
    start = np.arange(6)
    np.testing.assert_array_equal(joined(start, groups), sets)
    np.testing.assert_array_equal(start, np.arange(6))


@pytest.mark.parametrize("large", [True, False])
def test_in_large_fits_columns_that_sparse_tables_tie_are_exchanged_at_last(large):
    """Columns 0, 1 and 4 are equal, and so are 2 and 3: no entry can move alone, and the table of 1 and 2 is missed."""
    size, m, rng = 12, 6_000, np.random.default_rng(3)
    made = RowObjective([size] * 5)
    maps = [made.map(j, np.arange(size)) for j in range(5)]
    first = rng.integers(0, size, m)
    second = (first + rng.integers(0, 5, m)) % size
    for pair in ((0, 1), (1, 4), (2, 3)):
        counts = np.bincount(second if 2 in pair else first, minlength=size)
        made.table([maps[j] for j in pair], np.diag(counts / m), 1e8, sparse=True)
    target = np.bincount(first * size + second, minlength=size * size).reshape(size, size) / m
    made.table([maps[1], maps[2]], target, 1e6)
    mixed = rng.permutation(second)
    rows = np.column_stack([first, first, mixed, mixed, first]).astype(np.int32)
    objective = made.compiled()
    fitted = objective.descend(rows.copy(), np.random.default_rng(0), most=0)
    cleared = objective.clear_empty(fitted, np.random.default_rng(1), 512 if large else None).rows
    found = np.bincount(cleared[:, 1] * size + cleared[:, 2], minlength=size * size).reshape(size, size) / m
    before = np.bincount(first * size + mixed, minlength=size * size).reshape(size, size) / m
    if large:
        assert np.abs(found - target).sum() < 0.3 * np.abs(before - target).sum()
    else:
        np.testing.assert_array_equal(cleared, rows)
    for a, b in ((0, 1), (1, 4), (2, 3)):
        np.testing.assert_array_equal(cleared[:, a], cleared[:, b])
    np.testing.assert_array_equal(np.sort(cleared, axis=0), np.sort(rows, axis=0))


@pytest.mark.parametrize(("left", "sampled", "rounds"), [
    (0.99, 3, 1), (0.96, 3, 1), (0.94, 3, descent.LAST_ROUNDS), (0.5, None, 1)])
def test_a_large_fit_ends_when_a_round_gains_little(left, sampled, rounds, monkeypatch):
    """Each sweep leaves a part of the objective, and all rows are visited once in a round."""
    made = RowObjective([3] * 2)
    made.table([made.map(j, np.arange(3)) for j in range(2)], np.eye(3) / 3, 1.0, sparse=True)
    rows, counts = np.arange(30, dtype=np.int32)[:, None].repeat(2, axis=1) % 3, []
    rows[:6, 1] = 0

    def gain(self, rows, residuals, order, *further, **named):
        counts.append(len(order))
        residuals.tables[:] *= np.sqrt(left)
        return 0

    monkeypatch.setattr(descent.CompiledObjective, "sweep", gain)
    for name in ("leave_empty", "exchange"):
        monkeypatch.setattr(descent.CompiledObjective, name, lambda *_, **named: 0)
    objective = made.compiled()
    fitted = objective.descend(rows, np.random.default_rng(0), most=0)
    objective.clear_empty(fitted, np.random.default_rng(1), sampled)
    assert counts == [4] * descent.LAST_VISITS + [30] * rounds


def test_offers_are_made_by_the_places_that_rows_have_now(monkeypatch):
    size, m, rng, offered = 5, 100, np.random.default_rng(0), []
    made = RowObjective([size] * 3)
    maps = [made.map(j, np.arange(size)) for j in range(3)]
    for pair in ((0, 1), (1, 2)):
        made.table([maps[j] for j in pair], np.eye(size) / size, 1.0, sparse=True)
    rows = (np.arange(m) % size)[:, None].repeat(3, axis=1).astype(np.int32)
    rows[:15] = rng.integers(size, size=(15, 3))
    objective, offers = made.compiled(), descent.CompiledObjective._offers

    def seen(self, t, places, *given):
        offered.append(t)
        np.testing.assert_array_equal(places, self._places(t, rows))
        return offers(self, t, places, *given)

    monkeypatch.setattr(descent.CompiledObjective, "_offers", seen)
    # No row takes over both entries, so that exchanges have something to do.
    monkeypatch.setattr(descent, "sweep_together", lambda *given: 0)
    assert objective.leave_empty(rows, objective.residuals(rows), np.arange(3), rng) > 2
    assert len(offered) > 4


def test_a_margin_is_weighed_by_what_both_are_worth():
    """Averages of the errors over many draws: never far above the better of both, and below both if they are alike."""
    rng, truth = np.random.default_rng(3), np.random.default_rng(4).dirichlet(np.full(60, 0.5))
    for own, other in ((1e-4, 3e-3), (3e-3, 1e-4), (1e-3, 1e-3)):
        errors = []
        for _ in range(60):
            mass, margin = (np.maximum(truth + s * rng.normal(size=60), 0.0) for s in (own, other))
            mass /= mass.sum()
            made = with_margins(mass, [(margin, np.full(60, other**2))])
            assert made.min() >= 0.0
            assert made.sum() == pytest.approx(1.0)
            errors.append([((each - truth) ** 2).sum() for each in (made, mass, margin)])
        found, alone, table = np.mean(errors, axis=0)
        assert found < 1.3 * min(alone, table)
        if own == other:
            assert found < 0.8 * min(alone, table)
    # Nothing to learn from: the same; and two tables are worth more than one.
    mass = np.full(60, 1.0 / 60.0)
    np.testing.assert_array_equal(with_margins(mass, []), mass)
    np.testing.assert_array_equal(with_margins(mass, [(mass[::-1] * 1.1, np.full(60, 1e6))]), mass)
    two = [(truth + 1e-3 * sign, np.full(60, 1e-6)) for sign in (1.0, -1.0)]
    assert np.abs(with_margins(mass, two) - truth).max() < np.abs(with_margins(mass, two[:1]) - truth).max()


def test_a_column_takes_its_values_from_a_table_at_its_positions(released):
    """The number lies at 40 places: within a piece of even density the table shows which positions are occupied."""
    made, _ = released
    made_of = Targets(made.release).release.columns[1]
    rows, _ = functional(60_000, 0)
    codes = made_of.partition.codes(np.column_stack([np.zeros((60_000, made_of.partition.value)),
                                                     rows[:, 1] / 500.0 - 1.0]))
    truth = np.bincount(codes, minlength=len(made_of.mass)) / 60_000
    before, after = (np.abs(column.mass - truth).sum() / 2.0 for column in (made.release.columns[1], made_of))
    assert after < 0.7 * before
    assert made_of.mass.sum() == pytest.approx(1.0)
    # The other columns are the same objects.
    assert Targets(made.release).release.columns[2] is made.release.columns[2]


def test_more_rows_grow_from_copies_and_fit_as_well(released, monkeypatch):
    made, _ = released
    monkeypatch.setattr(fits, "FIRST", 10**6)
    at_once = fits.reconstruct_table(made.release, 5_999, np.random.default_rng(0))
    monkeypatch.setattr(fits, "FIRST", 1_600)
    grown = fits.reconstruct_table(made.release, 5_999, np.random.default_rng(0))
    assert grown.points.shape == at_once.points.shape
    assert grown.misfit < 1.25 * at_once.misfit + 0.02
    assert len(np.unique(grown.points, axis=0)) > 0.9 * len(grown.points)
    for j in range(40):
        assert grown.points[:, j].mean() == pytest.approx(at_once.points[:, j].mean(), abs=3e-3)


def test_a_large_fit_has_no_rows_where_its_tables_are_empty(released, monkeypatch):
    made, _ = released
    monkeypatch.setattr(fits, "FIRST", 1_600)
    targets = fits.Targets(made.release)
    constrained = ConstrainedRows(SCHEMA, made.release.columns, made.release.closer)
    rows = fits.descended(targets, constrained, 5_999, np.random.default_rng(0)).rows
    empty = [pair for pair in targets.pairs if pair.sparse]
    assert empty
    for pair in empty:
        own = [cells[rows[:, j]] for j, cells in zip(pair.columns, pair.maps, strict=True)]
        assert (pair.table[tuple(own)] > 0.0).all()


def test_large_fits_ask_for_tables_of_three_once_and_visit_empty_cells_once_a_stage(released, monkeypatch):
    made, _ = released
    monkeypatch.setattr(fits, "FIRST", 1_600)
    # A table of two columns serves as well.
    monkeypatch.setattr(type(made.release), "triples", property(lambda release: release.tables[:1]))
    done = []

    def note(where, name):
        kept = getattr(where, name)
        monkeypatch.setattr(where, name, lambda *given, **named: (done.append(name), kept(*given, **named))[1])

    note(fits, "_ask_triples")
    for name in ("descend", "leave_empty", "clear_empty"):
        note(descent.CompiledObjective, name)
    fits.reconstruct_table(made.release, 5_999, np.random.default_rng(0))
    stage, last = ["descend", "leave_empty"], ["clear_empty", *["leave_empty"] * descent.LAST_VISITS]
    assert done == [*stage * 2, "_ask_triples", *stage, *last]


def test_rows_that_grow_start_from_as_many_copies_of_each_or_one_less(released, monkeypatch):
    made, _ = released
    monkeypatch.setattr(fits, "FIRST", 400)
    starts, ends, descend = [], [], descent.CompiledObjective.descend

    def seen(self, rows, *further, **options):
        starts.append((rows.copy(), options["exchanging"], options["sampled"]))
        found = descend(self, rows, *further, **options)
        ends.append(rows.copy())
        return found

    monkeypatch.setattr(descent.CompiledObjective, "descend", seen)
    fits.reconstruct_table(made.release, 5_999, np.random.default_rng(0))
    assert [len(rows) for rows, *_ in starts[:5]] == [375, 750, 1_500, 3_000, 5_999]
    # Copies of one row would exchange nothing, and only rows without copies have independent columns.
    assert [exchanging for _, exchanging, _ in starts[:5]] == [1, 0, 0, 0, 0]
    assert all(sampled == fits.SAMPLED for *_, sampled in starts[:5])
    for before, (after, *_) in zip(ends[:4], starts[1:5], strict=True):
        kinds, counts = np.unique(before, axis=0, return_counts=True)
        same, copies = np.unique(after, axis=0, return_counts=True)
        np.testing.assert_array_equal(same, kinds)
        assert (((fits.COPIES - 1) * counts <= copies) & (copies <= fits.COPIES * counts)).all()
    # Few rows are fitted as they are, and each of their entries is tried.
    starts.clear()
    fits.reconstruct_table(made.release, 400, np.random.default_rng(0))
    assert [(len(rows), exchanging, sampled) for rows, exchanging, sampled in starts[:1]] == [(400, 1, None)]


def test_rows_are_drawn_from_cells_by_what_these_want():
    """Two groups of five cells, of which one has no rows: its share goes to the others. The draws follow the wants."""
    rng = np.random.default_rng(5)
    held = np.concatenate([np.full(count, cell) for cell, count in enumerate((30, 5, 0, 200, 65))])
    wants = np.array([[3.0, 1.0, 2.0, 0.0, 0.5], [0.0, 0.0, 7.0, 1.0, 3.0]])
    groups = np.tile([0, 1], 4_000)
    found = exchange_kernels.wanted_rows(wants, groups, held, rng)
    assert found.shape == (8_000, exchange_kernels.OFFERS)
    for group, share in enumerate(np.where(np.arange(5) == 2, 0.0, wants)):
        drawn = found[groups == group].ravel()
        assert chisquare(np.bincount(held[drawn], minlength=5)[share > 0.0], len(drawn) * (share / share.sum())[
            share > 0.0]).pvalue > 1e-3
        assert (share[held[drawn]] > 0.0).all()
        # All rows of a cell are drawn alike.
        own = drawn[held[drawn] == 4] - 235
        assert chisquare(np.bincount(own, minlength=65)).pvalue > 1e-3
    # Where no row is in a wanted cell, all rows are drawn.
    wants = np.array([[0.0, 0.0, 1.0, 0.0, 0.0]])
    drawn = exchange_kernels.wanted_rows(wants, np.zeros(2_000, dtype=np.int64), held, rng).ravel()
    assert chisquare(np.bincount(drawn, minlength=300)).pvalue > 1e-3


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_offered_entries_lead_to_cells_that_want_rows(order):
    rng, sizes, m = np.random.default_rng(2), (6, 9), 500
    target = rng.dirichlet(np.ones(54)).reshape(6, 9) * (rng.random((6, 9)) < 0.4)
    made = RowObjective(sizes)
    maps = [made.map(j, np.arange(sizes[j])) for j in range(2)]
    made.table([maps[j] for j in order], target.transpose(order) / target.sum(), 1.0, sparse=True)
    rows = np.column_stack([rng.integers(size, size=m) for size in sizes]).astype(np.int32)
    objective = made.compiled()
    residuals, places = objective.residuals(rows), objective._places(0, rows)
    counts = np.zeros((6, 9))
    np.add.at(counts, tuple(rows.T), 1.0)
    wanting = (target > 0.0) & (counts < m * target / target.sum())
    stuck = np.flatnonzero(target[tuple(rows.T)] == 0.0)[:80]
    for axis in (-1, 0, 1):
        others = objective._offers(0, places, residuals, stuck, axis, rng)
        taken = np.repeat(rows[stuck][:, None], others.shape[1], axis=1)
        columns = list(order) if axis < 0 else [order[axis]]
        taken[..., columns] = rows[others][..., columns]
        can = np.ones(len(stuck), dtype=bool)
        if axis >= 0:
            can = wanting.any(axis=columns[0])[rows[stuck, 1 - columns[0]]]
        assert can.any()
        assert wanting[taken[can][..., 0], taken[can][..., 1]].all()


@pytest.mark.parametrize(("thin", "sparse"), [(0.35, False), (0.04, True)])
def test_what_is_lost_in_thin_cells_makes_no_other_cell_too_large(thin, sparse):
    """A row of a few heavy cells, cells well above the noise, and a part of the rows that is thin everywhere else."""
    rng, noise, table = np.random.default_rng(4), 4e-4, np.zeros((80, 150))
    table[0, :30] = 0.5 / 30.0
    table[range(1, 80), rng.permutation(150)[:79]] = (0.5 - thin) / 79.0
    table[1:] += thin / table[1:].size
    for seed in range(4):
        noisy = table + noise * np.random.default_rng(seed).normal(size=table.shape)
        found = estimated(noisy, np.outer(table.sum(axis=1), table.sum(axis=0)), noise)
        assert found.sparse == sparse
        assert found.table.sum() == pytest.approx(noisy.sum())
        # 30 cells with noise, and their part of what the noise of all cells adds to the sum.
        assert found.table[0].sum() == pytest.approx(0.5, abs=0.03)
        heavy = found.table[0, :30] - noisy[0, :30]
        assert np.abs(heavy).max() < 3.0 * noise


@pytest.mark.parametrize("rows", [1.0, 3.0, 12.0])
@pytest.mark.parametrize("seed", range(3))
def test_the_posterior_of_a_level_is_that_of_all_its_cases_one_by_one(rows, seed, monkeypatch):
    monkeypatch.setattr(sparse, "FAINT", 0.0)
    rng = np.random.default_rng([17, seed])
    prior = rng.dirichlet(np.ones(6))
    expected, y = rows * prior, rng.normal(size=6) * 2.0
    cases = [(0.5 * prior[i] * prior[j] / (1.0 - prior @ prior), 0.5 * rows * (np.eye(6)[i] + np.eye(6)[j]))
             for i in range(6) for j in range(6) if i != j]
    cases = ([(own, rows * np.eye(6)[i]) for i, own in enumerate(prior)] + [(2.0 * own, each) for own, each in cases]
             + [(1.0, expected)])
    assert sum(own for own, _ in cases) == pytest.approx(3.0)
    weights = np.array([own * np.exp(-0.5 * ((y - each) ** 2).sum() + 0.5 * (y**2).sum()) for own, each in cases])
    weights /= weights.sum()
    places = np.array([each for _, each in cases])
    mean, deviation = sparse.level_posterior(y, expected)
    np.testing.assert_allclose(mean, weights @ places, rtol=1e-9)
    np.testing.assert_allclose(deviation**2, weights @ places**2 - mean**2, rtol=1e-7, atol=1e-12)
    assert mean.sum() == pytest.approx(rows)
    # What is unlikely is left out.
    monkeypatch.setattr(sparse, "FAINT", 0.2)
    fewer, _ = sparse.level_posterior(y, expected)
    np.testing.assert_array_equal(fewer, np.where(mean < 0.2 * rows, 0.0, mean))


@given(y=st.lists(st.sampled_from([-1e60, -40.0, 0.0, 3.0, 1e9, 1e60]), min_size=1, max_size=5),
       rows=st.sampled_from([1.0, 40.0, 1e9, 1e60]), even=st.booleans())
@settings(derandomize=True, deadline=None, max_examples=60)
def test_the_posterior_of_a_level_is_finite_whatever_was_released(y, rows, even):
    expected = np.full(len(y), rows / len(y)) if even else rows * np.eye(len(y))[0]
    mean, deviation = sparse.level_posterior(np.array(y), expected)
    assert np.isfinite([mean, deviation]).all()
    assert min(mean.min(), deviation.min()) >= 0.0
    assert 0.9 * rows <= mean.sum() <= rows * (1.0 + 1e-6)


def test_a_level_that_is_thin_in_many_cells_of_a_sparse_table_keeps_its_rows():
    """Missing values, for example, where the other levels are nearly functions of the column."""
    truth, _ = function_table(30, 40)
    truth[5] = 0.0
    truth, noise = 0.97 * truth / truth.sum(), 5e-4
    truth[5] = 0.03 / 40.0
    expected = np.outer(truth.sum(axis=1), truth.sum(axis=0))
    table = truth + noise * np.random.default_rng(3).normal(size=truth.shape)
    made = estimated(table, expected, noise, (np.arange(30) == 5, np.zeros(40, dtype=bool)))
    assert made.sparse
    assert estimated(table, expected, noise).table[5].sum() < 0.015
    assert made.table[5].sum() == pytest.approx(0.03, abs=0.003)
    assert ((made.table[5] > 0.0) == (expected[5] > 0.01 * expected[5].sum())).mean() > 0.9


def test_categories_and_special_values_are_counted_and_intervals_are_not():
    category, number = Partition((1, 2, 3), None, np.empty(0)), Partition((4, 5), 0, np.linspace(-1.0, 1.0, 5))
    query = Marginal((0, 1), (category, number), (np.array([0, 1, 1]), np.array([0, 1, 2, 2, 3, 3])))
    one, two = estimates._counted(query)
    assert one.tolist() == [True, True]
    assert two.tolist() == [True, True, False, False]
