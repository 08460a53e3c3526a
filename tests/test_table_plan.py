"""What tables of mixed columns are planned to be measured by: shares, intervals, importances and heavy intervals."""

import math
from dataclasses import replace

import numpy as np
import pytest
from releases import blocks, blocks_of

import trigmech as tm
from trigmech.domain import Domain, OneHotGroup
from trigmech.functions.partition import Partition, columns_of, even_edges
from trigmech.functions.released_column import ReleasedColumn
from trigmech.planning import dependence, tables
from trigmech.planning.allocation import GaussianVector, InfinityBlocks, LaplaceVector
from trigmech.planning.closer import closer_looks
from trigmech.planning.design import Regime
from trigmech.planning.error_model import Selection
from trigmech.planning.minimax import plan_smooth
from trigmech.planning.search import plan_moments
from trigmech.planning.shares import Shares
from trigmech.planning.tables import plan_tables
from trigmech.workload import SecondMoments

# Two numbers, one of them with a special value, one with 7 levels, and a column of three categories.
DOMAIN = Domain(7, [OneHotGroup((2,), False, 1), OneHotGroup((3, 4, 5), True)], [(6, tuple(np.linspace(-1.0, 1.0, 7)))])


def planned(n=5_000, epsilon=1.0, delta=1e-6, **options):
    return plan_tables(n, DOMAIN, tm.Budget(epsilon, delta), **options)


@pytest.mark.parametrize("crossed", [(), (1,), (0, 2)])
@pytest.mark.parametrize("triples", [0.0, 1.0, 2.5])
def test_tables_with_a_crossed_column_serve_all_queries_and_three_columns_as_much_as_is_said(crossed, triples):
    design = planned(crossed=crossed, triples=triples)
    d = len(design.partitions)
    assert d == 4
    pairs = np.array([(i, j) for j in range(d) for i in range(j)])
    for pair, importance in zip(pairs.tolist(), design.importance(pairs).tolist(), strict=True):
        assert importance == (d - 1 if set(pair) & set(crossed) else 1.0)
    threes = np.array([(0, 1, 2), (0, 1, 3), (0, 2, 3), (1, 2, 3)])
    found = design.importance(threes)
    for three, importance in zip(threes.tolist(), found.tolist(), strict=True):
        held = bool(set(three) & set(crossed))
        assert importance == pytest.approx(1.0 + 7.5 * triples if held else 3.0 * triples / (d - 2))
    if not crossed:
        # All of three columns together matter so much, beside all of two.
        assert found.sum() == pytest.approx(triples * design.importance(pairs).sum())


@pytest.mark.parametrize(("scores", "pairs"), [(0, 9), (2, 3)])
def test_there_is_room_for_the_products_of_all_pairs_that_have_them(scores, pairs):
    # Directions are of all columns, and of the presence of one number; products of scores are of numbers alone, of
    # which there are three.
    design = planned(shares=Shares(0.3, 0.1, 0.2, scores))
    room, without = design.largest, replace(design, products=0.0).largest
    # Products of scores have another score of a number with special values.
    assert room.released - without.released == pairs * (scores + 1) ** 2
    assert room.places - without.places == 2 * pairs
    assert (room.scores, without.scores) == (max(scores, 1) + 1, 0)


def columns_with(design, mass):
    """Released columns, of which the first number has so much mass in some intervals."""
    columns = []
    for partition in design.partitions:
        own = np.full(partition.size, 1e-9)
        if partition.value == 0:
            for place, part in mass.items():
                own[place] = part
        columns.append(ReleasedColumn(partition, own / own.sum(), 0.001))
    return columns


@pytest.mark.parametrize("epsilon", [50.0, 1.0, 0.6])
def test_heavy_intervals_are_those_that_exceed_the_noise_the_last_of_a_column_first(epsilon):
    design = planned(epsilon=epsilon)
    least = max(1.0 / 64.0, 8.0 * design.closer_deviation(design.numbers))
    mass = {3: 1.001 * least, 40: 0.999 * least, 7: min(2.0 * least, 0.3), 11: 1.01 * least}
    mass[60] = 1.0 - sum(mass.values())
    assert mass[60] > least
    columns = columns_with(design, mass)
    for column in columns[1:]:
        column.mass[:] = 0.0
    found = closer_looks(design, columns)
    place = [partition.value for partition in design.partitions].index(0)
    wanted = [i for i in (60, 11, 7, 3) if columns[place].mass[i] >= least]
    assert [(look.query.column, look.query.interval) for look in found] == [(place, i) for i in wanted]
    assert len(wanted) >= 3
    for look in found:
        low, high = design.partitions[place].edges[[look.query.interval, look.query.interval + 1]]
        np.testing.assert_allclose(look.query.edges, np.linspace(low, high, 1_025))


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_a_light_interval_is_looked_at_closer_if_its_finer_ones_are_known_well(delta):
    """Before, rows of a long tail lay evenly in its intervals, however little noise there was."""
    noisy, exact = (plan_tables(10**6, Domain(2), tm.Budget(epsilon, delta)) for epsilon in (1.0, 20.0))
    known = 6.0 * math.sqrt(1_024) * noisy.closer_deviation(noisy.numbers)
    # With less noise, eight rows of each finer interval are needed.
    filled = 8.0 * 1_024 / 10**6
    assert 6.0 * math.sqrt(1_024) * exact.closer_deviation(exact.numbers) < 0.9 * filled < 0.9 * known < 0.9 / 64.0
    partition, other = noisy.partitions
    for design, rows, wanted in ((noisy, 1.01 * known, [5]), (noisy, 0.99 * known, []),
                                 (exact, 1.01 * filled, [5]), (exact, 0.99 * filled, [])):
        mass = np.full(partition.size, 1e-9)
        mass[5] = rows
        columns = [ReleasedColumn(partition, mass, 1e-9), ReleasedColumn(other, np.zeros(other.size), 1e-9)]
        assert [look.query.interval for look in closer_looks(design, columns)] == wanted


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_parts_of_a_wide_interval_are_looked_at_closer_if_the_whole_is_heavy(delta):
    """A look that counts has wide intervals; prefix sums have narrow ones, whose parts count alone."""
    design = plan_tables(1_000, Domain(2), tm.Budget(10.0, delta))
    least, (partition, other) = 8.0 * design.closer_deviation(design.numbers), design.partitions
    edges = partition.edges
    place = next(i for i in range(partition.intervals) if edges[i] <= 0.1 < edges[i + 1])
    column = ReleasedColumn(partition.cut(np.sort(np.append(edges, edges[place] + np.array([0.25, 0.5]) * np.diff(
        edges)[place]))), np.full(partition.intervals + 2, 1e-9), 1e-3)
    # Two parts have half of what is heavy, and one has next to nothing.
    column.mass[[place, place + 1]] = 0.5 * least + 1e-6
    rest = ReleasedColumn(other, np.full(other.size, 1e-9), 1e-3)
    found = [look.query.interval for look in closer_looks(design, [column, rest])]
    assert found == ([place + 1, place] if delta == 0.0 else [])
    # All that the look counted there is a little too little.
    column.mass[[place, place + 1]] = 0.5 * least - 1e-6
    assert closer_looks(design, [column, rest]) == ()


def test_an_interval_of_one_level_is_not_looked_at_closer_and_one_of_two_is():
    levels = np.linspace(-1.0, 1.0, 90)
    domain = Domain(1, [], [(0, tuple(levels))])
    design = plan_tables(10**6, domain, tm.Budget(50.0, 1e-6))
    (partition,) = design.partitions
    held = [int(((levels >= low) & ((levels < high) | (high == 1.0))).sum()) for low, high in zip(
        partition.edges[:-1], partition.edges[1:], strict=True)]
    assert set(held) == {1, 2} or set(held) == {1}
    coarse = partition.cut(even_edges(levels, 60))
    counts = [2 if i < 30 else 1 for i in range(60)]
    column = ReleasedColumn(coarse, np.full(60, 1.0 / 60.0), 1e-9)
    assert [(look.query.interval, look.query.size) for look in closer_looks(design, [column])] == [
        (i, 2) for i in reversed(range(60)) if counts[i] == 2]


@pytest.mark.parametrize(("width", "looked"), [(2, True), (4, True), (5, False)])
def test_an_interval_of_a_few_levels_need_only_be_clear_of_noise(width, looked):
    levels = np.linspace(-1.0, 1.0, 100 * width)
    design = plan_tables(10**5, Domain(1, [], [(0, tuple(levels))]), tm.Budget(1.0, 1e-6))
    clear = 8.0 * design.closer_deviation(design.numbers)
    assert 1.1 * clear < 1.0 / 64.0
    mass = np.full(100, 0.9 * clear)
    mass[[5, 30]] = 1.1 * clear
    mass[60] = 0.0
    mass[60] = 1.0 - mass.sum()
    column = ReleasedColumn(design.partitions[0].cut(even_edges(levels, 100)), mass, 1e-3)
    found = [look.query.interval for look in closer_looks(design, [column])]
    assert found == [60, *((30, 5) if looked else ())]


@pytest.mark.parametrize(("strength", "gaussian", "count"), [
    (1.0, True, 64), (500.0, True, 64), (513.0, True, 128), (1_024.0, True, 128), (1_025.0, True, 256),
    (8_000.0, True, 1_024), (1e9, True, 1_024), (4_800.0, False, 71), (1e9, False, 101)])
def test_a_number_has_about_as_many_intervals_as_the_noise_tells_apart(strength, gaussian, count):
    column = Partition((), 0, np.array([-1.0, 1.0]))
    found = tables._partition(column, strength, gaussian)
    # A power of two; of counts, whose noise adds up, the power of two thirds.
    assert found.intervals == count
    few = columns_of(DOMAIN)[-1]
    assert tables._partition(few, strength, gaussian).intervals == 7
    categories = columns_of(DOMAIN)[2]
    assert tables._partition(categories, strength, gaussian) is categories


# Moments


@pytest.mark.parametrize("kind", [GaussianVector, LaplaceVector, InfinityBlocks])
def test_the_noise_that_is_planned_is_that_of_what_is_charged(kind):
    n, rng = 500, np.random.default_rng(0)
    design = plan_moments(n, 4, tm.Budget(1.0), SecondMoments(4), degree=2, pair_degree=2, triples=True)
    selection = Selection(4, 2, 2, True, ())
    one = kind(n, 1.0, selection, True)
    weights = one.normal(one.by_importance(rng.uniform(0.1, 1.0, len(selection.sizes))))
    blocks = blocks_of(one.rounds(design.features, weights))
    told = np.concatenate([block.deviation / block.weights for block in blocks])
    # Rounding, and what scales are raised by, is not foreseen.
    np.testing.assert_allclose(np.repeat(one.deviations(weights), selection.sizes), told, rtol=1e-6)


def test_fractions_of_epsilon_are_the_best_for_the_importance_that_they_are_made_for():
    rng, selection = np.random.default_rng(1), Selection(5, 3, 1, True, ())
    one = InfinityBlocks(1_000, 1.0, selection, True)
    importance = rng.uniform(0.1, 3.0, len(selection.sizes)) * (selection.sizes > 0)

    def error(weights):
        held = selection.sizes > 0
        # Of so many functions alike, with noise in proportion to their number over the fraction.
        noise = (selection.sizes / np.maximum(weights, 1e-300))[held]
        return float((importance[held] * selection.sizes[held] * noise**2).sum())

    best = one.by_importance(importance)
    assert best.sum() == pytest.approx(1.0)
    for _ in range(200):
        other = best * np.exp(0.1 * rng.normal(size=len(best)))
        assert error(best) <= error(other / other[selection.sizes > 0].sum() * best[selection.sizes > 0].sum())


@pytest.mark.parametrize(("kind", "norm"), [(GaussianVector, 2), (LaplaceVector, 1)])
def test_weights_are_the_best_for_the_importance_that_they_are_made_for(kind, norm):
    rng, selection = np.random.default_rng(2), Selection(5, 6, 0, False, ())
    importance = rng.uniform(0.1, 3.0, len(selection.sizes))
    best = kind(1_000, 1.0, selection, True).by_importance(importance)[:6]

    def error(weights):
        # Noise goes by how far all move together: in L2 or in L1, all functions of a degree alike.
        return float((importance[:6] / weights**2).sum()) * float(np.linalg.norm(weights, norm)) ** 2

    for _ in range(200):
        assert error(best) <= error(best * np.exp(0.1 * rng.normal(size=6))) * (1.0 + 1e-12)


@pytest.mark.parametrize(("mass", "enough", "cells"), [
    ([0.05] * 12, 0.2, [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2]), ([0.1] * 6, 0.3, [0, 0, 0, 1, 1, 1]),
    # What is heavy alone does not take its lighter neighbours along, and what holds nothing goes with what follows.
    ([0.02, 0.4, 0.02, 0.02], 0.1, [0, 1, 2, 2]), ([0.0, 0.0, 0.5, 0.0, 0.5], 0.3, [0, 0, 0, 1, 1]),
    # A little more than enough stays together: up to half more.
    ([0.1, 0.04], 0.1, [0, 1]), ([0.09, 0.05, 0.01], 0.1, [0, 0, 1]), ([0.09, 0.07, 0.01], 0.1, [0, 1, 1]),
    ([], 0.1, [])])
def test_neighbouring_intervals_are_taken_together_until_they_hold_enough(mass, enough, cells):
    assert dependence._grouped(np.array(mass), enough).tolist() == cells


def cut_by_hand(mass, edges, least):
    """Where a cell is cut: each cut by direct variances, the parts again."""
    middles, widths = (edges[1:] + edges[:-1]) / 2.0, np.diff(edges)

    def variance(part):
        held, mean = mass[part].sum(), np.average(middles[part], weights=mass[part])
        return float((mass[part] * ((middles[part] - mean) ** 2 + widths[part] ** 2 / 12.0)).sum()) if held else 0.0

    def cut(start, stop):
        whole, found = variance(slice(start, stop)), []
        for at in range(start + 1, stop):
            if min(mass[start:at].sum(), mass[at:stop].sum()) >= least * (1.0 - 1e-9):
                found.append((variance(slice(start, at)) + variance(slice(at, stop)), at))
        if not found or min(found)[0] > dependence.TOGETHER * whole:
            return []
        at = next(place for within, place in found if within <= min(found)[0] + 1e-9 * whole)
        return [*cut(start, at), at, *cut(at, stop)]

    return cut(0, len(mass))


@pytest.mark.parametrize(("mass", "least", "cells"), [
    # Rare values far from the others, with as much as noise lets a category have.
    ([0.1, 0.1, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.01, 0.01, 0.0], 0.01, [0] * 2 + [1] * 10),
    ([0.1, 0.1, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.01, 0.01, 0.0], 0.03, [0] * 12),
    # Neither an even cell nor a falling tail has a gap, and a little between two groups leaves them apart.
    ([0.1] * 12, 0.01, [0] * 12), ([0.5**k for k in range(1, 13)], 1e-4, [0] * 12),
    ([0.1, 0.1, 0.0, 0.0, 1e-4, 0.0, 0.0, 0.0, 0.0, 0.1, 0.1, 0.0], 0.01, [0] * 5 + [1] * 7),
    # Three groups: the second cut is before or after the first.
    ([0.1, 0.0, 0.0, 0.0, 0.0, 0.0, 0.1] + [0.0] * 45 + [0.1], 0.01, [0] + [1] * 6 + [2] * 46),
    ([0.1] + [0.0] * 45 + [0.1, 0.0, 0.0, 0.0, 0.0, 0.0, 0.1], 0.01, [0] + [1] * 46 + [2] * 6)])
def test_a_cell_of_a_number_is_cut_at_gaps_with_rows_on_both_sides(mass, least, cells):
    mass, edges = np.array(mass), np.linspace(-1.0, 1.0, len(mass) + 1)
    assert dependence._cut_at_gaps(np.zeros(len(mass), dtype=np.int64), mass, edges, least).tolist() == cells
    assert np.flatnonzero(np.diff(cells)).tolist() == [cut - 1 for cut in cut_by_hand(mass, edges, least)]


@pytest.mark.parametrize(("mass", "least", "cells"), [
    # Enough lies on both sides at one place alone: at the gap's end, at its beginning, and nowhere.
    ([0.1, 1e-4, 0.1002], 0.10005, [0, 0, 1]), ([0.1002, 1e-4, 0.1], 0.10005, [0, 1, 1]),
    ([0.1, 1e-4, 0.1], 0.10005, [0, 0, 0])])
def test_a_gap_is_cut_where_one_place_alone_leaves_enough_on_both_sides(mass, least, cells):
    mass, edges = np.array(mass), np.array([-1.0, -0.99, 0.98, 1.0])
    made = dependence._cut_at_gaps(np.zeros(3, dtype=np.int64), mass, edges, least).tolist()
    assert np.flatnonzero(np.diff(made)).tolist() == [cut - 1 for cut in cut_by_hand(mass, edges, least)]
    assert made == cells


def test_cuts_at_gaps_are_those_of_direct_variances_and_keep_the_cells():
    rng = np.random.default_rng(4)
    cuts = 0
    for _ in range(60):
        mass = rng.dirichlet(np.full(24, 0.15)) * (rng.random(24) < 0.6)
        edges = np.concatenate([[-1.0], np.sort(rng.uniform(-1.0, 1.0, 23)), [1.0]])
        cells = np.repeat([0, 1], 12)
        made = dependence._cut_at_gaps(cells, mass, edges, 0.01)
        by_hand = [*cut_by_hand(mass[:12], edges[:13], 0.01), 12,
                   *(12 + cut for cut in cut_by_hand(mass[12:], edges[12:], 0.01))]
        assert (np.flatnonzero(np.diff(made)) + 1).tolist() == by_hand
        cuts += len(by_hand) - 1
    assert 20 < cuts < 120


def test_intervals_as_narrow_as_rounding_are_not_cut_apart():
    """Far from the cell's first edge, variances are less than the rounding of squares, and can be below 0."""
    rng = np.random.default_rng(6)
    for width in (1e-8, 3e-9, 1e-9, 1e-12, 1e-15):
        for _ in range(50):
            place, mass = rng.uniform(-0.5, 0.9), rng.dirichlet(np.ones(4))
            edges = np.concatenate([[-1.0], place + width * np.arange(4), [1.0]])
            # Nothing lies in the wide intervals at both ends.
            held = np.concatenate([[0.0], mass[:3] / mass[:3].sum(), [0.0]])
            cells = dependence._cut_at_gaps(np.zeros(5, dtype=np.int64), held, edges, 0.01)
            assert cells[0] == 0
            assert set(np.diff(cells).tolist()) <= {0, 1}


def test_cells_of_the_second_round_are_cut_at_gaps_but_not_those_of_a_limited_number():
    mass = np.zeros(100)
    mass[10:19], mass[80:84] = 0.98 / 9.0, 0.005
    column = ReleasedColumn(Partition((), 0, np.linspace(-1.0, 1.0, 101)), mass, 1e-4)
    cells = dependence.cells_of(column, 6, 0.001)
    assert cells[10] < cells[18] < cells[80] == cells[83] == cells.max()
    assert dependence.cells_of(column, 6, 0.001, 6).max() == cells.max() - 1
    # Rows that noise hides are not apart.
    assert dependence.cells_of(column, 6, 0.05).max() == cells.max() - 1


@pytest.mark.parametrize("delta", [1e-6, 0.0])
@pytest.mark.parametrize(("d", "n", "smoothness"), [(1, 5_000, 1.0), (2, 20_000, 2.0), (2, 100, 1.0)])
def test_the_minimax_moments_are_as_many_and_as_exact_as_the_theorem_says(d, n, smoothness, delta):
    budget = tm.Budget(1.0, delta)
    design = plan_smooth(n, d, budget, smoothness, 100_000)
    strength = Regime.of(budget).strength
    m = math.ceil(max(1.0, n * strength) ** (1.0 / max(d if delta else 1.5 * d, smoothness)))
    assert (m + 1) ** d - 1 == design.features.K
    (block,) = blocks(design)
    norms = np.sqrt((design.index.degrees**2).sum(axis=1))
    np.testing.assert_allclose(block.weights, norms ** (-smoothness / 2.0 if delta else -2.0 * smoothness / 3.0))
    # A smooth function's coefficients have squares times norms^(2 k) of a sum of at most 4.
    (predicted,), (nothing,) = design.predicted.values(), design.baseline.values()
    noise = block.deviation / block.weights
    assert predicted == pytest.approx(2.0 * math.sqrt(sum((s / r**smoothness) ** 2 for s, r in zip(
        noise.tolist(), norms.tolist(), strict=True))))
    assert nothing == pytest.approx(2.0 * math.sqrt(sum(r ** (-2.0 * smoothness) for r in norms.tolist())))


@pytest.mark.parametrize(("n", "epsilon", "d", "most"), [
    (300, 1.0, 2, 128), (3_000, 1.0, 2, 128), (30_000, 2.0, 2, 128), (10**7, 10.0, 2, 128),
    # Tables of few columns are finer: 15 tables of 66 x 66 cells have 2^16 entries, and 36 of 48 x 48 have more.
    (10**7, 10.0, 6, 66), (10**7, 10.0, 9, 48)])
def test_cells_of_the_second_round_are_as_fine_as_the_noise_in_one_lets_them_be(monkeypatch, n, epsilon, d, most):
    domain, asked = Domain(d), []
    design = plan_tables(n, domain, tm.Budget(epsilon, 1e-6))
    columns = [ReleasedColumn(partition, np.full(partition.size, 1.0 / partition.size), 0.01)
               for partition in design.partitions]
    cells_of = dependence.cells_of
    monkeypatch.setattr(dependence, "cells_of", lambda column, count, noise: asked.append((count, noise)) or cells_of(
        column, count, noise))
    dependence.design_dependence(design, columns)
    assert len(asked) == d
    for count, noise in asked:
        assert count == min(max(round(1.5 / math.sqrt(2.0 * noise)), 2), most)
