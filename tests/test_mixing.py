"""Samples of more rows than were fitted: new rows, whose tables are those of the fitted ones."""

import re
import weakref
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given as drawn
from hypothesis import settings
from hypothesis import strategies as st
from scipy import stats

import trigmech as tm
from trigmech import _parallel
from trigmech.functions.partition import all_codes
from trigmech.planning.shares import Shares
from trigmech.queries.directions import Directions
from trigmech.reconstruction import constrained, mixing
from trigmech.reconstruction.rows import RowObjective
from trigmech.report import page
from trigmech.schema import encoding, rounding
from trigmech.tables.different import DifferentRows, different_rows

SCHEMA = tm.Schema([
    tm.Column("age", 0, 99, "integer"), tm.Column("year", 0, 30_000, "integer"),
    tm.Column("pay", 0, 1000, missing="keep"),
    tm.Column("low", 0, 100), tm.Column("high", 0, 100),
    tm.Column("gain", 0, 1000, decimals=6), tm.Column("free", 0, 10, special=(0, 7)),
    tm.Column("region", kind="categorical", categories=("north", "south", "west")),
    tm.Column("grade", kind="ordinal", categories=("low", "middle", "high")),
    tm.Column("seen", "2020-01-01", "2024-12-31", "datetime"),
], constraints=["age < 15 implies pay is missing", "low <= high", "region = 'west' implies year > 999"])
NUMBERS = ("year", "pay", "low", "high", "gain", "free", "seen")


def table(n=1_200):
    rng = np.random.default_rng(0)
    age, low = rng.integers(0, 100, n), 50 * rng.random(n)
    south = rng.random(n) < 0.3
    return pd.DataFrame({
        "age": age, "year": 1_000 + rng.integers(0, 29_000, n),
        "pay": np.where(age < 15, np.nan, rng.lognormal(5, 0.5, n).clip(0, 999)),
        "low": low, "high": low + 50 * rng.random(n),
        "gain": np.where(rng.random(n) < 0.2, 123.5, 1000 * rng.random(n)),
        "free": np.where(south, 0.0, 10 * rng.random(n)), "region": np.where(south, "south", "north"),
        "grade": np.where(south, "high", "low"),
        "seen": np.datetime64("2020-01-01") + rng.integers(0, 1_800, n),
    })


@pytest.fixture(scope="module")
def made():
    return tm.synthesize(table(), SCHEMA, tm.Budget(20.0, 1e-6), tm.TableMechanism(), np.random.default_rng(1))


@pytest.fixture(scope="module")
def more(made):
    """Four blocks of further rows, as points."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mixing, "BLOCK", 2**15)
        size = 4 * (mixing.BLOCK // len(made.distribution.points)) * len(made.distribution.points)
        return SCHEMA.to_cube(made.sample(size, np.random.default_rng(2)))


@pytest.fixture(scope="module")
def positions(made, more):
    """The positions of the fitted rows, and of further ones."""
    partitions = [column.partition for column in made.release.columns]
    return all_codes(partitions, made.distribution.points), all_codes(partitions, more)


@pytest.mark.nightly
def test_a_sample_of_more_rows_than_were_fitted_repeats_hardly_any(made):
    fitted = len(made.distribution.points)
    sample = made.sample(20_000, np.random.default_rng(3))
    assert fitted < 2_000
    assert different_rows(SCHEMA.decode(SCHEMA.to_cube(sample)).values()) > 19_990
    # Of the 5,000 numbers that have two digits after the point nearly all.
    assert sample.low.nunique() > 4_500
    assert sample.gain[sample.gain != 123.5].nunique() > 4_000
    assert SCHEMA.holds(sample).all()
    # Positions recombine too, as 20,000 persons have them.
    partitions = [column.partition for column in made.release.columns]
    assert len(np.unique(all_codes(partitions, SCHEMA.to_cube(sample)), axis=0)) > 10 * fitted


def test_each_column_is_exactly_as_if_rows_were_repeated(made, positions):
    fitted, further = positions
    times = len(further) // len(fitted)
    for j, column in enumerate(made.release.columns):
        size = len(column.mass)
        np.testing.assert_array_equal(np.bincount(further[:, j], minlength=size),
                                      times * np.bincount(fitted[:, j], minlength=size))


def test_measured_tables_stay_within_a_fraction_of_their_noise(made, positions):
    assert len(made.release.tables) > 20
    for each in made.release.tables:
        columns = list(each.query.columns)
        fitted, further = (each.query.counted(codes[:, columns], np.full(len(codes), 1.0 / len(codes)))
                           for codes in positions)
        apart = (further - fitted) / each.deviation
        assert np.sqrt(np.mean(apart**2)) < 0.1
        assert np.abs(apart).max() < 0.25
        # What no fitted row has, no further row has.
        assert (further[fitted == 0.0] == 0.0).all()


def test_products_of_scores_stay_too(made, positions):
    products = made.release.directions or made.release.products
    query = products.query
    directed = isinstance(query, Directions)
    owners = query.owners if directed else np.repeat(np.arange(len(query.scores)), [
        own.shape[1] for own in query.scores])
    scores = query.scores if directed else [own for score in query.scores for own in score.T]
    first, second = ([score[codes[:, j]] / 2.0**15 for j, score in zip(owners, scores, strict=True)]
                     for codes in positions)
    worst = 0.0
    for j, h in (query.pairs if directed else query.places).tolist():
        one, two = (np.mean(held[j] * held[h]) for held in (first, second))
        spread = np.std(first[j]) * np.std(first[h])
        worst = max(worst, abs(one - two) / max(spread, 1e-12))
    # Rank correlations change by less than their own error among the fitted rows.
    assert worst < 2.5 / np.sqrt(len(positions[0]))


def test_rows_keep_the_dependence_where_tables_are_noise_and_directions_are_not():
    rng = np.random.default_rng(0)
    common = rng.normal(size=(200, 1))
    rows = np.clip(common + 0.15 * rng.normal(size=(200, 30)), -3, 3) / 3
    schema = tm.Schema.cube(30)
    made = tm.synthesize(rows, schema, tm.Budget(3.0, 1e-3),
                         tm.TableMechanism(points=4_096, shares=Shares(0.5, 0.0, 0.9999, 0, 0.0)), rng)
    assert min(table.deviation for table in made.release.tables) > 0.2
    fitted, further = (stats.spearmanr(made.sample(size, np.random.default_rng(1)))[0][np.triu_indices(30, 1)]
                       for size in (4_096, 16_384))
    assert np.abs(fitted).mean() > 0.7
    assert np.abs(further).mean() > 0.98 * np.abs(fitted).mean()
    np.testing.assert_allclose(further, fitted, atol=0.06)


def test_further_rows_keep_the_tables_that_products_of_contrasts_tell():
    """Before, at delta 0 the copula moved all columns as if no table was measured, and categories by their order."""
    rng, names = np.random.default_rng(0), ("x", "y", "z")
    kind = rng.integers(0, 3, 2_000)
    site = np.where(rng.random(2_000) < 0.8, (2 * kind + 1) % 3, rng.integers(0, 3, 2_000))
    numbers = {f"x{i}": rng.normal(0.4 * kind, 1.0).clip(-5, 5) for i in range(3)}
    rows = pd.DataFrame({"kind": np.array(names)[kind], "site": np.array(names)[site],
                         "seen": np.where(rng.random(2_000) < 0.1, "y", "x"), **numbers})
    columns = [tm.Column(name, kind="categorical", categories=names[:k])
               for name, k in (("kind", 3), ("site", 3), ("seen", 2))]
    schema = tm.Schema([*columns, *(tm.Column(name, -5, 5) for name in numbers)])
    made = tm.synthesize(rows, schema, tm.Budget(2.0), tm.TableMechanism(), np.random.default_rng(1))
    assert [int(cells.max()) + 1 for cells in made.release.products.query.maps[:2]] == [3, 3]
    wanted, found = (pd.crosstab(each["kind"], each["site"], normalize=True).to_numpy()
                     for each in (rows, made.sample(50_000, np.random.default_rng(2))))
    # Independent columns are .5 apart, and columns that follow the order of their categories are further apart.
    assert 0.5 * np.abs(wanted - np.outer(wanted.sum(axis=1), wanted.sum(axis=0))).sum() > 0.4
    assert 0.5 * np.abs(found - wanted).sum() < 0.2


def test_blocks_make_up_for_each_other(made):
    """The difference of all tables in rows does not grow with the blocks."""
    further = mixing.FurtherRows(SCHEMA, made.release, made.distribution)
    list(further.blocks(len(made.distribution.points) + 1, np.random.default_rng(0)))
    mixer, apart, total, spread = further._mixer, None, 0.0, []
    # Those of all pairs come first.
    measured = sum(each.query.size for each in made.release.tables)
    for k in range(6):
        rng = np.random.default_rng(k)
        chosen = made.distribution.drawn(8 * len(made.distribution.points), rng)
        rows, apart = mixer.mixed(chosen, apart, rng)
        points = mixer.placed(rows, rng)
        total = total + mixer._objective.residuals(mixer._constrained.positions(points)).tables[:measured]
        spread.append(np.sqrt(np.mean(total**2)))
    # Six times the first one without that.
    assert spread[-1] < 2.5 * spread[0]


def test_later_blocks_get_the_differences_of_earlier_ones(made, monkeypatch):
    given, left = [], []

    class Spy(mixing._Mixer):
        def mixed(self, chosen, apart, rng):
            rows, after = super().mixed(chosen, apart, rng)
            given.append(apart)
            left.append(after)
            return rows, after

    monkeypatch.setattr(mixing, "_Mixer", Spy)
    monkeypatch.setenv("TRIGMECH_NUM_THREADS", "1")
    monkeypatch.setattr(mixing, "BLOCK", 2_400)
    mixing.FurtherRows(SCHEMA, made.release, made.distribution).sample(5 * 2_400, np.random.default_rng(0))
    assert given[:mixing.CHAINS] == [None] * mixing.CHAINS
    assert all(later is earlier for later, earlier in zip(given[mixing.CHAINS:], left, strict=False))


@pytest.mark.timeout(30)
@pytest.mark.parametrize("threads", [1, 2, 5])
def test_a_block_that_fails_ends_all(made, monkeypatch, threads):
    class Broken(mixing._Mixer):
        def mixed(self, chosen, apart, rng):
            if apart is not None:
                raise MemoryError("planted")
            return super().mixed(chosen, apart, rng)

    monkeypatch.setattr(mixing, "_Mixer", Broken)
    monkeypatch.setattr(mixing, "BLOCK", 2_400)
    monkeypatch.setenv("TRIGMECH_NUM_THREADS", str(threads))
    blocks = mixing.FurtherRows(SCHEMA, made.release, made.distribution).blocks(9 * 2_400, np.random.default_rng(0))
    with pytest.raises(MemoryError, match="planted"):
        list(blocks)


@pytest.mark.nightly
@pytest.mark.parametrize("taken", [1, 4])
def test_blocks_that_nobody_takes_are_not_waited_for(made, monkeypatch, taken):
    monkeypatch.setattr(mixing, "BLOCK", 2_400)
    monkeypatch.setenv("TRIGMECH_NUM_THREADS", "3")
    further = mixing.FurtherRows(SCHEMA, made.release, made.distribution)
    whole = further.sample(9 * 2_400, np.random.default_rng(0))
    blocks = further.blocks(9 * 2_400, np.random.default_rng(0))
    first = [next(blocks) for _ in range(taken)]
    blocks.close()
    np.testing.assert_array_equal(np.concatenate(first), whole[: sum(map(len, first))])


@pytest.mark.daily("2")
@pytest.mark.parametrize("threads", [1, 2])
def test_differences_of_finished_blocks_are_forgotten(made, monkeypatch, threads):
    held = list[weakref.ref[np.ndarray]]()

    class Spy(mixing._Mixer):
        def mixed(self, chosen, apart, rng):
            rows, after = super().mixed(chosen, apart, rng)
            held.append(weakref.ref(after))
            return rows, after

    monkeypatch.setattr(mixing, "_Mixer", Spy)
    monkeypatch.setattr(mixing, "BLOCK", 2_400)
    monkeypatch.setenv("TRIGMECH_NUM_THREADS", str(threads))
    blocks = mixing.FurtherRows(SCHEMA, made.release, made.distribution).blocks(40 * 2_400, np.random.default_rng(0))
    for taken, _ in enumerate(blocks, 1):
        # Blocks of both chains, and those that were begun ahead.
        assert sum(each() is not None for each in held) <= 2 * threads + 2 * mixing.CHAINS, taken


def exchanges(table, *more, told=None):
    """A compiled objective of tables of columns 0 and 1, 0 and 2 and so on, and the exchanges under it."""
    tables = [table, *more]
    sizes = [table.shape[0], *(each.shape[1] for each in tables)]
    asked = RowObjective(sizes)
    maps = [asked.map(j, np.arange(size)) for j, size in enumerate(sizes)]
    for j, each in enumerate(tables, 1):
        asked.table([maps[0], maps[j]], each, 1.0)
    compiled = asked.compiled()
    d = len(sizes)
    told = np.full((d, d), -np.inf) if told is None else told
    return compiled, mixing.Exchanges(compiled, np.ones(len(tables)), told)


def test_rows_of_no_dependence_mix_at_once():
    compiled, made = exchanges(np.full((4, 4), 1.0 / 16.0))
    rows = np.repeat(np.arange(4, dtype=np.int32)[:, None], 2, axis=1).repeat(100, axis=0)
    rows = rows[np.random.default_rng(0).permutation(400)]
    state = made.state(rows)
    assert made.mix(state, compiled.residuals(rows).tables, np.array([1e-9]), np.random.default_rng(3)) > 400
    # A quarter of the rows would be on the diagonal if columns were independent.
    assert np.mean(state[:, 0] == state[:, 1]) < 0.4
    np.testing.assert_array_equal(state[:, :2], state[:, 2:])


def twin(rows, tables, weights, maps, pairs, own, by, step, rng):
    """Exchanges of a column by the rule as it is written, with the sum over all tables computed anew each time."""
    def total(of):
        return sum(weight * (each[np.isfinite(each)] ** 2).sum() for weight, each in zip(weights, of, strict=True))

    waiting, moves = {}, 0
    for place in (at for first in range(step) for at in range(first, len(rows), step)):
        group = rows[place, by] if by >= 0 else 0
        if group not in waiting:
            waiting[group] = place
            continue
        pair = [place, waiting.pop(group)]
        if rows[pair[0], own] == rows[pair[1], own]:
            continue
        after, made, possible = rows[pair], [each.copy() for each in tables], True
        after[:, own] = after[::-1, own]
        for (j, h), each in zip(pairs, made, strict=True):
            np.subtract.at(each, (maps[j][rows[pair, j]], maps[h][rows[pair, h]]), 1.0)
            places = maps[j][after[:, j]], maps[h][after[:, h]]
            np.add.at(each, places, 1.0)
            possible &= np.isfinite(each[places]).all()
        change = total(made) - total(tables)
        if possible and (change <= 1e-9 or rng.random() < np.exp(-change)):
            rows[pair], moves = after, moves + 1
            for each, new in zip(tables, made, strict=True):
                each[:] = new
    return moves


@pytest.mark.parametrize("by", [-1, 2])
def test_exchanges_are_those_of_a_twin_that_computes_all_tables_anew(by):
    rng = np.random.default_rng(1)
    maps, pairs, weights = [np.arange(5) // 2, np.arange(4), np.arange(3)], ((0, 1), (0, 2), (1, 2)), [0.3, 0.1, 0.2]
    asked = RowObjective([5, 4, 3])
    places = [asked.map(j, cells) for j, cells in enumerate(maps)]
    tables = [rng.normal(size=(maps[j].max() + 1, maps[h].max() + 1)) for j, h in pairs]
    tables[0][0, 1] = np.inf
    for (j, h), each in zip(pairs, tables, strict=True):
        asked.table([places[j], places[h]], np.zeros(each.shape), 1.0)
    arrays, sets = asked.compiled().arrays
    offered, differences = mixing.Offered.by(arrays, sets, np.array([2.0, 1.0, 3.0])), np.concatenate(
        [each.ravel() for each in tables])
    rows = np.column_stack([rng.integers(size, size=300) for size in (5, 4, 3)]).astype(np.int32)
    rows = rows[(rows[:, 0] > 1) | (rows[:, 1] != 1)]
    state, moved = mixing.state_of(arrays, rows), 0
    for own in (0, 1):
        for step in (1, 7):
            one, other = (np.random.default_rng([own, step]) for _ in range(2))
            moved += mixing.mix(state, differences, np.array(weights), offered, own, by, 3, 1.0, step, one)
            moved -= twin(rows, tables, weights, maps, pairs, own, by, step, other)
            np.testing.assert_array_equal(state[:, :3], rows)
    assert moved == 0
    assert len(rows) > 250
    np.testing.assert_allclose(differences, np.concatenate([each.ravel() for each in tables]), atol=1e-9)
    np.testing.assert_array_equal(state, mixing.state_of(arrays, rows))


def test_rows_meet_in_the_column_that_tells_most_of_what_they_exchange():
    told = np.array([[9.0, 1.0, 2.0], [1.0, 9.0, -np.inf], [2.0, -np.inf, 9.0]])
    made = exchanges(np.full((2, 2), 0.25), np.full((2, 3), 1.0 / 6.0), told=told)[1]
    assert made._closest == [2, 0, 0]
    # Exchanges of column 1 between rows of the same entry in column 0 change nothing of their table.
    rows = np.random.default_rng(0).integers(2, size=(2_000, 2)).astype(np.int32)
    rows[:, 1] ^= rows[:, 0] & (np.arange(2_000) % 8 > 0)
    made = exchanges(np.full((2, 2), 0.25), told=np.full((2, 2), 1.0))[1]
    state = made.state(rows)
    differences = np.zeros(4)
    made.mix(state, differences, np.array([1e9]), np.random.default_rng(0))
    assert (differences == 0.0).all()
    assert (state[:, 1] != rows[:, 1]).mean() > 0.02


def test_differences_are_kept_up_to_date_and_rules_hold(made):
    further = mixing.FurtherRows(SCHEMA, made.release, made.distribution)
    list(further.blocks(len(made.distribution.points) + 1, np.random.default_rng(0)))
    mixer = further._mixer
    before, objective = np.repeat(mixer._rows, 5, axis=0), mixer._objective
    differences, state = objective.residuals(before).tables, mixer._exchanges.state(before)
    moves = mixer._exchanges.mix(state, differences, np.full(len(mixer._deviations), 1e-8), np.random.default_rng(7))
    rows = np.ascontiguousarray(state[:, : before.shape[1]], dtype=np.int32)
    assert moves > len(rows) / 4
    np.testing.assert_allclose(differences, objective.residuals(rows).tables, atol=1e-8)
    np.testing.assert_array_equal(np.sort(rows, axis=0), np.sort(before, axis=0))
    assert mixer._constrained.broken(before).max() == 0
    assert mixer._constrained.broken(rows).max() == 0


def chances(weight, planted=1.0):
    """The distribution of the number of rows (1, 1) among six, of two columns that are 1 in three rows each."""
    target = 2.0
    energy = np.array([4 * weight * planted * (k - target) ** 2 for k in range(4)])
    ways = np.array([1.0, 9.0, 9.0, 1.0])
    return ways * np.exp(-energy) / (ways @ np.exp(-energy))


def test_exchanges_follow_their_density_and_half_a_weight_would_be_seen():
    weight, runs, sweeps = 0.2, 1_500, 5
    compiled, made = exchanges(np.array([[2.0, 1.0], [1.0, 2.0]]) / 6.0)
    found = np.zeros(4)
    for run in range(runs):
        rng = np.random.default_rng(run)
        rows = np.column_stack([rng.permutation([0, 0, 0, 1, 1, 1]) for _ in range(2)]).astype(np.int32)
        state, differences = made.state(rows), compiled.residuals(rows).tables
        for _ in range(sweeps):
            made.mix(state, differences, np.array([weight]), rng)
        found[int((state[:, :2].sum(axis=1) == 2).sum())] += 1
    p = stats.chisquare(found, runs * chances(weight)).pvalue
    assert 1e-5 < p < 1.0 - 1e-9
    assert stats.chisquare(found, runs * chances(weight, 0.5)).pvalue < 1e-9


def test_impossible_cells_get_no_rows():
    compiled, made = exchanges(np.array([[0.5, 0.0], [0.0, 0.5]]))
    rows = np.repeat(np.array([[0, 0], [1, 1]], dtype=np.int32), 50, axis=0)
    rows = rows[np.random.default_rng(0).permutation(100)]
    for walls, wanted in ((np.array([0.0, np.inf, np.inf, 0.0]), 0), (np.zeros(4), 20)):
        state = made.state(rows)
        made.mix(state, compiled.residuals(rows).tables + walls, np.array([1e-9]), np.random.default_rng(3))
        assert (state[:, 0] != state[:, 1]).sum() >= wanted
        assert wanted or (state[:, 0] == state[:, 1]).all()


@pytest.mark.nightly  # By day the same bits of a release, in test_table_mechanism.py.
def test_the_same_rows_for_any_number_of_threads(made, monkeypatch):
    monkeypatch.setattr(mixing, "BLOCK", 2**13)
    size = 3 * mixing.BLOCK + 11
    found = []
    for threads in ("1", "3"):
        monkeypatch.setenv("TRIGMECH_NUM_THREADS", threads)
        found.append(made.columns(size, np.random.default_rng(4)))
    for name in SCHEMA.names:
        np.testing.assert_array_equal(*(each[name] for each in found))


def test_pieces_are_the_table_and_come_one_by_one(made, monkeypatch):
    monkeypatch.setattr(mixing, "BLOCK", 2**13)
    size = mixing.BLOCK + 7
    pieces = list(made.batches(size, np.random.default_rng(4)))
    assert len(pieces) == 2
    whole = made.columns(size, np.random.default_rng(4))
    for name in SCHEMA.names:
        np.testing.assert_array_equal(np.ma.concatenate([piece[name] for piece in pieces]), whole[name])
    # So large a table exists only in pieces.
    first = next(made.batches(10**12 // 10**4, np.random.default_rng(4)))
    assert len(first["age"]) <= mixing.BLOCK


@pytest.mark.nightly
def test_fewer_exchanges_are_offered_where_looks_would_be_too_many(made, monkeypatch):
    offered, moves = [], []

    def spy(*given):
        offered.append(given[7])
        moves.append(kernel(*given))
        return moves[-1]

    kernel = mixing.mix
    monkeypatch.setattr(mixing, "mix", spy)
    for most in (10**9, 50):
        monkeypatch.setattr(mixing, "MOST_LOOKS", most)
        mixing.FurtherRows(SCHEMA, made.release, made.distribution).sample(8_000, np.random.default_rng(5))
    # Each pair of columns has a table at least, which is looked at for both of them; of three pairs the columns are
    # tied together by a constraint.
    half = len(offered) // 2
    assert set(offered[:half]) == {1.0}
    assert 2 * (45 - 3) - 20 < 50 / offered[-1] < 6 * 45
    assert sum(moves[half:]) < 0.9 * sum(moves[:half])


ROUNDED = tm.Schema([
    tm.Column("plain", 0, 100), tm.Column("log", 1, 1e5, transform="log"),
    tm.Column("log1p", -3, 1e6, transform="log1p"), tm.Column("special", 0, 50, special=(0, 7, 7.01)),
    tm.Column("tenths", 0, 1e6, decimals=1),
    tm.Column("second", "2020-01-01", "2029-12-31", "datetime", resolution="second"),
    tm.Column("kept", -5, 3.3, missing="keep"), tm.Column("cube", -1, 1), tm.Column("many", 0, 1e9, "integer"),
    tm.Column("tiny", 1e-9, 3e-9), tm.Column("large", 1e9, 1e9 + 7)])


@pytest.mark.parametrize("column", ROUNDED.columns, ids=lambda column: column.name)
@pytest.mark.parametrize("count", [1, 7, 100, 3_000])
def test_rounding_takes_no_number_out_of_its_interval(column, count):
    rng = np.random.default_rng(0)
    edges = np.concatenate([[-1.0], np.sort(rng.uniform(-1, 1, count)), [1.0]])
    # Some intervals end where a rounded number lies.
    edges[::3] = encoding.place_of(column, encoding.decoded_number(column, edges[::3]))
    edges = np.unique(np.concatenate([edges, [-1.0, 1.0]]))
    at = rng.integers(len(edges) - 1, size=20_000)
    low, high = edges[at], edges[at + 1]
    places = np.minimum(low + rng.random(len(at)) * (high - low), np.nextafter(high, low))
    kept = encoding.rounded_within(column, places, low, high)
    numbers = encoding.decoded_number(column, kept)
    reached = np.searchsorted(edges[1:-1], encoding.place_of(column, numbers), side="right")
    # An interval can be too short for three numbers of as many digits as its column can have.
    ends = encoding.number_at(column, np.stack([low, high]))
    digits = rounding.digits_at(column, ends[1])
    # Three more, but not so many that one would see them in numbers that were drawn.
    clear = np.floor(np.log10(rounding.CLEAR / max(map(abs, column.bounds))))
    finest = column.steps if digits is None else 10.0 ** np.maximum(digits, np.minimum(digits + 3, clear))
    empty = np.ceil(ends[0] * finest) + 3 > np.floor(ends[1] * finest)
    empty &= column.name != "cube"
    assert empty.mean() < 0.2
    np.testing.assert_array_equal(reached[~empty], at[~empty])
    # What was right has not moved, and what moved is near.
    before = np.searchsorted(edges[1:-1], encoding.place_of(column, encoding.decoded_number(column, places)), "right")
    np.testing.assert_array_equal(kept[before == at], places[before == at])
    assert np.abs(kept - places).max() <= 3 * np.max(np.diff(edges))


def test_what_many_rows_share_and_levels_stay(made, more):
    values, before = (SCHEMA.decode(points) for points in (more, made.distribution.points))
    assert (before["gain"] == 123.5).any()
    # The fit has moved some to beside the shared value, which constraints of other columns made it draw again.
    assert np.mean(values["gain"] == 123.5) > np.mean(before["gain"] == 123.5) - 0.002
    for special in (0.0, 7.0):
        assert np.mean(values["free"] == special) == np.mean(before["free"] == special)
    assert np.ma.getmaskarray(values["pay"]).mean() == np.ma.getmaskarray(before["pay"]).mean()
    for name in ("region", "grade"):
        assert set(values[name]) == set(before[name])
    for name in ("age", "year"):
        assert values[name].dtype == np.int64
        assert values[name].min() >= 0


def test_numbers_lie_evenly_in_their_interval_and_independently():
    schema = tm.Schema([tm.Column("x", -1, 1), tm.Column("y", -1, 1)])
    rows = np.random.default_rng(0).uniform(-1, 1, (40, 2))
    made = tm.synthesize(rows, schema, tm.Budget(1.0, 1e-6), tm.TableMechanism(points=1_024), np.random.default_rng(0))
    sample = made.sample(20_000, np.random.default_rng(1))
    within = []
    for column, values in zip(made.release.columns, sample.T, strict=True):
        edges = column.partition.edges
        at = np.searchsorted(edges[1:-1], values, side="right")
        within.append((values - edges[at]) / np.diff(edges)[at])
        assert stats.kstest(within[-1], "uniform").pvalue > 1e-9
    # Of two columns too, which shared draws would make a line.
    assert stats.kstest((within[0] + within[1]) % 1.0, "uniform").pvalue > 1e-9
    assert abs(np.corrcoef(within)[0, 1]) < 6.2 / np.sqrt(20_000)


def test_samples_repeat_with_a_seed_and_small_ones_are_fitted_rows(made):
    fitted, seeds = len(made.distribution.points), (np.random.default_rng(5), np.random.default_rng(5))
    one, other = (made.sample(3 * fitted, rng) for rng in seeds)
    pd.testing.assert_frame_equal(one, other)
    small = made.columns(fitted, np.random.default_rng(5))
    for name, values in SCHEMA.decode(made.distribution.sample(fitted, np.random.default_rng(5))).items():
        np.testing.assert_array_equal(small[name], values)


def test_loaded_releases_have_the_same_samples(made, tmp_path):
    made.save(tmp_path / "r.tm")
    one, other = (each.sample(5_000, np.random.default_rng(5)) for each in (made, tm.load(tmp_path / "r.tm")))
    pd.testing.assert_frame_equal(one, other)


def test_numbers_that_must_be_equal_are_equal_in_copies():
    schema = tm.Schema([tm.Column("a", 0, 8), tm.Column("b", 0, 8)],
                       constraints=["a <= b", "a >= b"])
    rows = np.random.default_rng(0).uniform(0, 8, (30, 1)) * [1, 1]
    made = tm.synthesize(rows, schema, tm.Budget(1.0, 1e-6), tm.TableMechanism(points=64), np.random.default_rng(0))
    sample = made.sample(640, np.random.default_rng(1))
    assert (sample[:, 0] == sample[:, 1]).all()
    assert len(np.unique(sample[:, 0])) > 500


def test_given_columns_stay_as_given_in_copies(made):
    for given in ({"low": (0, 33.333)}, {"age": (3, 77)}):
        held = int(made.distribution.weights @ constrained.keeps(SCHEMA, made.distribution.points, tm.Schema(
            SCHEMA.columns, [tm.schema.constraints.stated(SCHEMA.columns[SCHEMA.names.index(name)], value)
                             for name, value in given.items()]).constraints) * len(made.distribution.points))
        # Enough of the fitted rows match, so these are drawn from.
        assert held > 600
        sample = made.sample(9_000, np.random.default_rng(6), given=given)
        ((name, (lower, upper)),) = given.items()
        assert sample[name].between(lower, upper).all()
        assert len(sample.drop_duplicates()) == 9_000
        assert sample.high.nunique() > 3 * made.distribution.points.shape[0]
        assert SCHEMA.holds(sample).all()
    shared = made.sample(9_000, np.random.default_rng(6), shares={"low": {(0, 24.25): 0.25, (24.75, 50): 0.75}})
    assert shared.low.between(0, 24.25).mean() == 0.25
    assert shared.low.between(24.75, 50).mean() == 0.75
    assert len(shared.drop_duplicates()) == 9_000


def test_persons_get_copies_too(made):
    schema = tm.Schema([tm.Column("x", 0, 1)], person="who")
    rows = pd.DataFrame({"who": np.arange(60), "x": np.random.default_rng(0).random(60)})
    release = tm.synthesize(rows, schema, tm.Budget(1.0, 1e-6), tm.TableMechanism(points=64), np.random.default_rng(0))
    sample = release.sample(rng=np.random.default_rng(0), rows_per_person=10)
    # Of 10,000 numbers 600 by chance have some 18 that are equal to others.
    assert len(sample) == 600
    assert sample.x.nunique() > 560
    assert sample.who.tolist() == np.repeat(np.arange(1, 61), 10).tolist()


@pytest.mark.parametrize("mechanism", [
    tm.MomentMechanism(points=50, iterations=2, degree=2, pair_degree=1, triples=False, whole_row=False),
    tm.ImprovedTrigII(n_candidates=50, n_basis=5)])
def test_rows_of_released_means_are_repeated_as_they_are(mechanism):
    schema = tm.Schema.cube(2)
    rows = np.random.default_rng(0).uniform(-1, 1, (40, 2))
    made = tm.synthesize(rows, schema, tm.Budget(1.0, 1e-3), mechanism, np.random.default_rng(0))
    np.testing.assert_array_equal(made.sample(300, np.random.default_rng(1)),
                                  schema.from_cube(made.distribution.sample(300, np.random.default_rng(1))))


@pytest.mark.usefixtures("unpainted")
@pytest.mark.parametrize("redrawn", [True, False])
def test_the_page_says_how_many_rows_were_fitted_and_how_many_are_different(tmp_path, redrawn):
    schema = tm.Schema([tm.Column("x", 0, 1), tm.Column("c", kind="categorical", categories=("a", "b"))])
    rows = pd.DataFrame({"x": np.random.default_rng(0).random(500), "c": "a"})
    mechanism = tm.TableMechanism(points=64) if redrawn else tm.MomentMechanism(points=64, iterations=2)
    made = tm.synthesize(rows, schema, tm.Budget(1.0, 1e-6), mechanism, np.random.default_rng(0))
    text = re.sub(r"<[^>]+>", " ", page.write(made, tmp_path / "r.html").read_text())
    said = dict(re.findall(r"(Points: rows that were fitted|Different rows in a sample of 500)\s+([\d,]+)", text))
    assert said["Points: rows that were fitted"] == "64"
    # Numbers of four digits are equal by chance now and then.
    different = int(said["Different rows in a sample of 500"])
    assert different > 460 if redrawn else different == 64
    assert ("pairs of rows exchange their values" in " ".join(text.split())) == redrawn


@settings(max_examples=60, derandomize=True, deadline=None, database=None)
@drawn(st.lists(st.tuples(st.sampled_from([0.0, -0.0, 0.5, 1e300]), st.integers(-1, 1), st.sampled_from(["a", "b", 1]),
                          st.booleans()), max_size=12))
def test_different_rows_are_counted(rows):
    columns = [np.array([row[j] for row in rows], dtype=dtype) for j, dtype in enumerate((float, np.int64, object))]
    columns.append(np.ma.MaskedArray(columns[1], [row[3] for row in rows]))
    wanted = {(row[0] + 0.0, row[1], row[2], None if row[3] else row[1]) for row in rows}
    assert different_rows(columns) == len(wanted)
    # By pieces too, of one row each or two.
    for size in (1, 2):
        counted = DifferentRows()
        for start in range(0, len(rows), size):
            counted.add([values[start:start + size] for values in columns])
        assert (counted.rows, counted.different) == (len(rows), len(wanted))


def test_coarse_cells_hold_equally_many_rows():
    codes = np.arange(120, dtype=np.int32) % 12
    cells = mixing._coarse(codes, 12, np.full(120, 1.0 / 120.0))
    assert cells.tolist() == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5]
    # A position that many rows have is in the cell of its middle.
    heavy = mixing._coarse(np.array([0] * 6 + [1, 2, 3, 4], dtype=np.int32), 5, np.full(10, 0.1))
    assert heavy.tolist() == [0, 1, 2, 3, 3]


def test_a_table_without_columns_has_no_rows():
    assert different_rows([]) == 0


def test_the_last_blocks_are_cancelled_first(monkeypatch):
    """A thread that becomes free meanwhile would else take one whose earlier block was cancelled, and wait for ever."""
    cancelled = []

    class Pool:
        def submit(self, work, start, stop):
            return SimpleNamespace(result=lambda: start, cancel=lambda: cancelled.append(start))

    monkeypatch.setattr(_parallel, "_pool", lambda threads: Pool())
    monkeypatch.setattr(_parallel, "wait", lambda futures: None)
    monkeypatch.setenv("TRIGMECH_NUM_THREADS", "4")
    blocks = _parallel.in_order(lambda start, stop: start, 50, 1)
    assert [next(blocks), next(blocks)] == [0, 1]
    blocks.close()
    assert cancelled == [8, 7, 6, 5, 4, 3, 2]
