"""Counts of a compiled sweep: those of a slow plain twin, to the last bit, for any rows, cuts, blocks and threads."""

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from releases import joint_counts

import trigmech as tm
from trigmech._parallel import THREADS_VARIABLE
from trigmech.domain import Domain, OneHotGroup
from trigmech.errors import InputError
from trigmech.functions import look_up
from trigmech.functions.partition import Partition, columns_of
from trigmech.measurement import sweep
from trigmech.measurement.compact import Compact, Layout
from trigmech.measurement.counts import Histograms, JointCounts
from trigmech.measurement.exact import exact_sums
from trigmech.measurement.rows import PrivateRows
from trigmech.measurement.sums import Chunk, Total
from trigmech.queries.directions import Directions
from trigmech.schema.encoding import to_unit

# Look-ups


def near(edges):
    """Numbers at edges, beside them, and elsewhere."""
    edges = np.asarray(edges)
    found = np.concatenate([edges, np.nextafter(edges, -2.0), np.nextafter(edges, 2.0), [0.0, -0.0, -1.0, 1.0],
                            np.nextafter([-1.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, -1.0]), np.linspace(-1.0, 1.0, 33)])
    return np.clip(found, -1.0, 1.0)


numbers = st.floats(-1.0, 1.0)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.one_of(numbers, st.floats(-1e-300, 1e-300), st.floats(0.25, 0.25 + 1e-12)), max_size=60,
                unique=True), st.lists(numbers, max_size=9), st.integers(0, 3))
@example([], [0.5], 0)
@example([5e-324, -5e-324, 0.0], [], 1)
def test_positions_by_look_up_are_those_of_a_search(edges, more, before):
    edges = np.array(sorted(edges))
    values = np.concatenate([near(edges), more])
    out = np.empty(len(values), dtype=np.int32)
    look_up.LookUp(edges).find(values, before, out)
    assert out.tolist() == (before + np.searchsorted(edges, values, side="right")).tolist()


@pytest.mark.parametrize("count", [1, 2, 3, 10, 1000, 2**15])
@pytest.mark.parametrize("bend", [1.0, 9.0])
def test_positions_among_many_edges_even_and_crowded(count, bend):
    # Crowded edges: many in one cell of the grid.
    inner = np.unique(np.sign(grid := np.linspace(-1.0, 1.0, count + 2)[1:-1]) * np.abs(grid)**bend)
    values = near(inner)
    out = np.empty(len(values), dtype=np.int32)
    look_up.LookUp(inner).find(values, 0, out)
    np.testing.assert_array_equal(out, np.searchsorted(inner, values, side="right"))


def test_numbers_beyond_the_cube_stand_for_indicators():
    out = np.empty(4, dtype=np.int32)
    look_up.LookUp(np.array([0.0])).find(np.array([2.0, 5.0, -1.0, 1.0]), 7, out)
    assert out.tolist() == [0, 3, 7, 8]


@settings(max_examples=100, deadline=None)
@given(st.lists(st.floats(), max_size=20), st.floats(-1e300, 1e300), st.floats(0.0, 1e300, exclude_min=True))
@example([0.3, 1e308, -1e308], -0.7, 0.9)
@example([], 1e16, 3.0)
@example([], 0.1, 1e-16)
@example([], -5e-324, 1e-323)
@example([], 0.0, 5e-324)
def test_places_in_one_pass_are_those_of_numpy(values, lower, width):
    upper = lower + width
    if not upper > lower:
        upper = np.nextafter(lower, np.inf)
    values = np.array([*values, lower, upper, np.nextafter(lower, np.inf), np.nextafter(upper, -np.inf), 0.0, -0.0,
                       np.inf, -np.inf, np.nan, *(lower + width * np.linspace(0.0, 1.0, 25))])
    with np.errstate(all="ignore"):
        expected = to_unit(values, lower, upper)
    found = look_up.places_of(values, lower, upper)
    np.testing.assert_array_equal(found, expected)
    number = ~np.isnan(found)
    np.testing.assert_array_equal(np.signbit(found[number]), np.signbit(expected[number]))


# Rows in few bytes

# A number alone, one with two indicators, one with levels, one with levels and an indicator; categories; indicators of
# which all may be 0.
DOMAIN = Domain(13, [OneHotGroup((2, 3), False, 1), OneHotGroup((6,), False, 5), OneHotGroup((7, 8, 9), True),
                     OneHotGroup((10, 12), False)],
                [(4, (-1.0, -0.25, 0.5)), (5, (-0.5, 0.75))])


def rows_of(n, seed=0, rounded=True, values=()):
    """Rows of the domain; the numbers are some values and others."""
    rng = np.random.default_rng(seed)
    points = np.zeros((n, 13))

    def drawn():
        free = rng.uniform(-1.0, 1.0, n)
        return np.where(rng.random(n) < 0.5, rng.choice(values, n), free) if len(values) else free

    points[:, 0], points[:, 1], points[:, 11] = drawn(), drawn(), drawn()
    points[:, 4] = rng.choice([-1.0, -0.25, 0.5, 0.0], n) if rounded else drawn()
    points[:, 5] = rng.choice([-0.5, 0.75], n) if rounded else drawn()
    for value, indicators in ((1, (2, 3)), (5, (6,))):
        held = rng.integers(-1, len(indicators), n)
        for k, c in enumerate(indicators):
            points[held == k, c] = 1.0
        points[held >= 0, value] = 0.0
    points[np.arange(n), rng.integers(7, 10, n)] = 1.0
    own = rng.integers(0, 3, n)
    points[own == 1, 10] = 1.0
    points[own == 2, 12] = 1.0
    return points


@pytest.mark.parametrize("rounded", [True, False])
def test_points_come_back_to_the_last_bit(rounded):
    points = rows_of(500, 1, rounded, near([0.1, -0.3]))
    compact = Layout(DOMAIN).rows_of(points)
    np.testing.assert_array_equal(compact.points().view(np.int64), points.view(np.int64))
    np.testing.assert_array_equal(compact.points(100, 123), points[100:123])
    order = np.random.default_rng(2).permutation(500)
    np.testing.assert_array_equal(compact.sorted(order).points(), points[order])
    assert (len(compact), "hidden" in repr(compact)) == (500, True)
    # What is known to have few values takes one byte; other numbers take eight.
    assert [array.dtype.itemsize for array in compact.arrays] == [8, 8, *([1, 1] if rounded else [8, 8]), 1, 1, 8]


def test_what_does_not_keep_to_the_domain_cannot_be_held():
    for place, value in ((0, math.nan), (0, math.inf), (0, np.nextafter(1.0, 2.0)), (4, -1.5), (2, 0.5),
                         (slice(7, 10), 1.0), (slice(7, 10), 0.0), (slice(1, 4), [0.5, 1.0, 0.0])):
        points = rows_of(50)
        points[20, place] = value
        with pytest.raises(InputError, match=r"must lie in the cube|must hold indicators"):
            Layout(DOMAIN).rows_of(points)


@pytest.mark.daily(8)
@pytest.mark.parametrize("seed", range(8))
def test_a_table_is_encoded_alike_in_both_ways(seed):
    rng = np.random.default_rng(seed)
    n = 400
    hole = rng.random(n) < 0.1
    table = pd.DataFrame({
        "free": rng.normal(0, 2, n), "kept": np.where(hole, np.nan, rng.normal(0, 2, n)),
        "whole": rng.integers(-5, 20, n), "centre": np.where(hole, np.nan, rng.integers(0, 4, n)),
        "special": rng.choice([0.0, 3.5, -7.0, 100.0], n), "log": rng.choice([0.0, 1.0, 50.0], n),
        "word": rng.choice(["a", "b", "z"], n), "maybe": np.where(hole, None, rng.choice(["a", "b"], n)),
        "step": rng.choice(["low", "mid", "high"], n), "yes": rng.integers(0, 2, n)})
    schema = tm.Schema([
        tm.Column("free", -3, 3), tm.Column("kept", -3, 3, missing="keep"), tm.Column("whole", 0, 9, "integer"),
        tm.Column("centre", 0, 3, "integer", missing="centre"), tm.Column("special", 0, 4, special=(100, -7)),
        tm.Column("log", 1, 40, "integer", transform="log", special=(0,)),
        tm.Column("word", kind="categorical", categories=("a", "b", "c"), other="c"),
        tm.Column("maybe", kind="categorical", categories=("a", "b"), missing="keep"),
        tm.Column("step", kind="ordinal", categories=("low", "mid", "high")), tm.Column("yes", 0, 1, "binary")])
    compact = Layout(schema.domain).rows_of_table(schema, table)
    expected = schema.to_cube(table)
    np.testing.assert_array_equal(compact.points().view(np.int64), expected.view(np.int64))
    schema.domain.check(expected)
    plain = tm.Schema([tm.Column("free", -3, 3), tm.Column("special", 0, 4)])
    for own in (table, table[["free", "special"]].to_numpy()):
        found = Layout(plain.domain).rows_of_table(plain, own).points()
        np.testing.assert_array_equal(found.view(np.int64), plain.to_cube(own).view(np.int64))


def test_a_missing_value_has_an_indicator_after_the_special_ones():
    schema = tm.Schema([tm.Column("x", 0, 10, special=(7, 99), missing="keep")])
    table = pd.DataFrame({"x": [0.0, 7.0, 99.0, np.nan, 12.0]})
    expected = [[-1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1], [1, 0, 0, 0]]
    assert schema.to_cube(table).tolist() == expected
    assert Layout(schema.domain).rows_of_table(schema, table).points().tolist() == expected


@pytest.mark.parametrize("names", [("gap",), ("word",), ("gap", "word", "hole"), ("both",), ("fine", "hole", "both")])
def test_both_ways_refuse_alike(names):
    table = pd.DataFrame({"gap": [1.0, np.nan], "word": ["a", "x"], "hole": ["a", None], "fine": [0.0, 1.0],
                          "both": [None, "x"]})
    columns = {"gap": tm.Column("gap", 0, 1), "word": tm.Column("word", kind="categorical", categories=("a", "b")),
               "hole": tm.Column("hole", kind="categorical", categories=("a", "b")), "fine": tm.Column("fine", 0, 1),
               "both": tm.Column("both", kind="categorical", categories=("a", "b"))}
    schema = tm.Schema([columns[name] for name in dict.fromkeys((*names, "fine"))])
    texts = []
    for way in (schema.to_cube, lambda table: Layout(schema.domain).rows_of_table(schema, table)):
        with pytest.raises(InputError) as caught:
            way(table)
        texts.append(str(caught.value))
    assert texts[0] == texts[1]
    said = {"gap": 1, "word": 1, "hole": 1, "both": 2, "fine": 0}
    assert {name: texts[0].count(repr(name)) for name in names} == {name: said[name] for name in names}


# Counts


def slow(asked, persons):
    """The limbs by their definition: whole numbers of Python, person by person, each with points (m, D)."""
    if isinstance(asked, Histograms):
        groups = [([partition], [np.arange(partition.size)]) for partition in asked.partitions]
        scores, places = None, []
    else:
        groups = [([asked.partitions[j] for j in columns], maps) for columns, maps in asked.tables]
        scores, places = asked.scores, asked.places.tolist()
    found = []
    for partitions, maps in groups:
        shape = [int(cells.max()) + 1 for cells in maps]
        sums = [0] * math.prod(shape)
        for own in persons:
            cells = np.ravel_multi_index([cells[partition.codes(own)] for partition, cells
                                          in zip(partitions, maps, strict=True)], shape).tolist()
            m = len(cells)
            left = 2**46
            for cell in sorted(set(cells)):
                sums[cell] += cells.count(cell) * 2**46 // m
                left -= cells.count(cell) * 2**46 // m
            for cell in sorted(set(cells))[:left]:
                sums[cell] += 1
        found += sums
    for a, b in places:
        total = 0
        for own in persons:
            flat = [score[partition.codes(own)] for partition, score in zip(asked.partitions, scores, strict=True)]
            values = np.concatenate(flat, axis=1).astype(object)
            top = int((values[:, a] * values[:, b]).sum()) << 16
            total += (2 * top + len(own)) // (2 * len(own))
        found.append(total)
    return found


@st.composite
def questions(draw):
    """Partitions, tables and products at random, with numbers at their edges."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    partitions = []
    for column in columns_of(DOMAIN):
        if column.value is None:
            partitions.append(column)
            continue
        at_numbers, count = draw(st.booleans()), draw(st.integers(0, 20))
        inner = rng.choice(near([0.2, -0.7]), 3) if at_numbers else rng.uniform(-1, 1, count)
        partitions.append(column.cut(np.unique([-1.0, *inner[np.abs(inner) < 1.0], 1.0])))
    if draw(st.booleans()):
        # Of coordinates in another order than the domain's.
        partitions[1] = Partition((3, 2), 1, partitions[1].edges)
    if draw(st.booleans()):
        twice = [column.cut(np.array([-1.0, cut, 1.0])) for column, cut in zip(partitions[:1] * 3, (0.1, -0.2, 0.5),
                                                                               strict=True)]
        return Histograms((*partitions, *twice)), rng
    maps = [np.append(rng.integers(4, size=partition.size - 1), 3) for partition in partitions]
    tables = []
    for _ in range(draw(st.integers(0, 5))):
        columns = tuple(rng.permutation(len(partitions))[: draw(st.integers(1, 4))].tolist())
        tables.append((columns, tuple(maps[j] if rng.random() < 0.7 else np.arange(partitions[j].size)
                                      for j in columns)))
    scores = tuple(rng.integers(-2**15, 2**15 + 1, (partition.size, int(rng.integers(0, 3))))
                   for partition in partitions)
    count = sum(score.shape[1] for score in scores)
    places = rng.integers(0, count, (draw(st.integers(0, 6)), 2)) if count else np.zeros((0, 2), dtype=np.int64)
    return JointCounts(tuple(partitions), tuple(tables), scores, places), rng


def edges_of(asked):
    return np.unique(np.concatenate([near(partition.edges[1:-1]) for partition in asked.partitions]))


@pytest.mark.parametrize("alone", [True, False], ids=["a row each", "several rows each"])
@settings(max_examples=40, deadline=None)
@given(questions(), st.sampled_from([1, 2, 3]), st.sampled_from([1, 3, 16, 2**13]), st.booleans(), st.booleans())
def test_a_sweep_is_its_slow_twin(alone, question, threads, block, rounded, compact):
    asked, rng = question
    n = int(rng.integers(1, 120))
    points = rows_of(n, int(rng.integers(2**32)), rounded, edges_of(asked))
    starts = np.arange(n) if alone else np.union1d([0], rng.integers(0, n, max(1, n // 4)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(THREADS_VARIABLE, str(threads))
        patch.setattr(sweep, "LEAST_ROWS", block)
        patch.setattr(sweep, "ENTRIES", 1)
        total, cut = Total(asked.size), int(rng.integers(0, len(starts) + 1))
        for first, last in ((0, cut), (cut, len(starts))):
            own = starts[first:last]
            if not len(own):
                continue
            part = points[own[0] : starts[last] if last < len(starts) else n]
            rows = Layout(DOMAIN).rows_of(part) if compact else part
            asked.add(Chunk(rows, DOMAIN, starts=None if alone else own - own[0]), total)
    expected = slow(asked, np.split(points, starts[1:]))
    assert [int(high) * 2**32 + int(low) for high, low in total.limbs.T] == expected
    assert total.n == len(starts)
    assert ((total.limbs[1] >= 0) & (total.limbs[1] < 2**32)).all()
    asked.check(total)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_many_rows_have_the_same_sums_on_any_number_of_threads(threads, monkeypatch):
    monkeypatch.setenv(THREADS_VARIABLE, str(threads))
    points = rows_of(40_000, 3)
    columns = [column if column.value is None else column.cut(np.linspace(-1.0, 1.0, 9))
               for column in columns_of(DOMAIN)]
    tables = [((j, h), (np.arange(columns[j].size), np.arange(columns[h].size))) for j in range(7) for h in range(j)]
    scores = [np.full((column.size, 1), -2**15) for column in columns]
    found, sums = joint_counts(PrivateRows.of(points, DOMAIN), columns, tables, scores, np.array([[0, 1]]))
    codes = [column.codes(points) for column in columns]
    for ((j, h), _), table in zip(tables, found, strict=True):
        expected = np.zeros(table.shape)
        np.add.at(expected, (codes[j], codes[h]), 1.0)
        np.testing.assert_array_equal(table, expected)
    assert sums.tolist() == [40_000.0]


def test_tables_too_large_for_a_space_of_each_thread_are_counted_by_one(monkeypatch):
    monkeypatch.setattr(sweep, "MOST_CELLS", 10)
    monkeypatch.setenv(THREADS_VARIABLE, "3")
    points = rows_of(3_000, 4)
    columns = columns_of(DOMAIN)
    found, _ = joint_counts(PrivateRows.of(points, DOMAIN), columns, [((4, 1), (np.arange(3), np.arange(3)))])
    assert found[0].sum() == 3_000
    np.testing.assert_array_equal(found[0].sum(axis=1), points[:, 7:10].sum(axis=0))


@pytest.mark.parametrize("n", [1, 700, 20_000])
def test_sums_of_directions_by_matrices_are_those_of_their_values(n):
    rng = np.random.default_rng(n)
    columns = tuple(column if column.value is None else column.cut(np.linspace(-1.0, 1.0, 12))
                    for column in columns_of(DOMAIN))
    query = Directions(columns, tuple(rng.integers(-2**16, 2**16 + 1, column.size) for column in columns))
    points = rows_of(n, 5)
    (found,) = exact_sums(PrivateRows.of(points, DOMAIN), [query])
    expected = [int(value) for value in (query.evaluate(points) * 2.0**30).astype(np.int64).sum(axis=0)]
    assert [value * 2.0**30 for value in found.tolist()] == expected
    # Persons, of whom each has one row, have the same sums; those are of their values.
    persons = PrivateRows(n, DOMAIN, lambda: [Chunk(points, DOMAIN, starts=np.arange(n))])
    assert exact_sums(persons, [query])[0].tolist() == found.tolist()


@pytest.mark.nightly
@settings(max_examples=100)
@given(st.lists(st.integers(-2**40, 2**40), min_size=1, max_size=8), st.integers(0, 50))
def test_numbers_are_added_times_powers_of_two(values, bits):
    total = Total(1)
    for value in values:
        total.add(np.array([value]), 2, bits)
    assert int(total.limbs[0, 0]) * 2**32 + int(total.limbs[1, 0]) == sum(values) << bits
    assert 0 <= total.limbs[1, 0] < 2**32
    assert total.n == 2 * len(values)


@pytest.mark.parametrize("value", [math.nan, 1.5, -1.0000001])
def test_rows_of_persons_outside_the_domain_are_refused(value):
    points = rows_of(60)
    points[40, 0] = value
    asked = Histograms(tuple(columns_of(DOMAIN)))
    with pytest.raises(InputError, match="must lie in the cube"):
        asked.add(Chunk(points, DOMAIN, starts=np.arange(0, 60, 3)), Total(asked.size))


def test_rows_in_compact_form_are_of_one_length():
    assert len(Compact(Layout(Domain(0)), ())) == 0
