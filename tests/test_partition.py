"""Partitions of columns, levels of a schema, and the prefix sums that a histogram is measured by."""

import datetime
import math
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import pdist

import trigmech as tm
from trigmech.domain import Domain, OneHotGroup
from trigmech.errors import InputError
from trigmech.functions import prefix_sums
from trigmech.functions.naming import cell_names, column_name, position_names
from trigmech.functions.partition import Partition, all_codes, columns_of, even_edges, of_one_size, with_ends
from trigmech.queries.one_way import PrefixSums, PrefixSumsWithEnds
from trigmech.schema.encoding import MOST_LEVELS

ALMOST_1 = 1.0 - 2.0**-53
NONE = np.empty(0)


def positions(partition, row):
    """All positions that a row has, by their definition."""
    found = [i for i, c in enumerate(partition.indicators) if row[c] == 1.0]
    if found or partition.value is None:
        return found
    x, last = row[partition.value], partition.intervals - 1
    return [len(partition.indicators) + i for i in range(partition.intervals)
            if partition.edges[i] <= x and (x < partition.edges[i + 1] or (i == last and x == 1.0))]


@st.composite
def edges(draw, most=8):
    inner = draw(st.lists(st.floats(-1.0, 1.0, exclude_min=True, exclude_max=True), max_size=most, unique=True))
    return np.array([-1.0, *sorted(inner), 1.0])


@st.composite
def levels(draw, most=9):
    """Few values of a number, among them sometimes both ends."""
    whole = draw(st.lists(st.integers(-500, 500), min_size=1, max_size=most, unique=True))
    return np.array(sorted(whole)) / 500.0


# Positions


@settings(max_examples=100, deadline=None)
@given(edges(), st.integers(0, 3), st.lists(st.floats(-1.0, 1.0), max_size=5))
def test_every_row_has_exactly_one_position(cuts, k, more):
    partition = Partition(tuple(range(1, k + 1)), 0, cuts)
    assert (partition.size, partition.intervals) == (k + len(cuts) - 1, len(cuts) - 1)
    near = np.clip(np.concatenate([np.nextafter(cuts, -2.0), np.nextafter(cuts, 2.0)]), -1.0, 1.0)
    numbers = np.concatenate([cuts, near, [0.0, -0.0], more])
    points = np.zeros((len(numbers) + k, 1 + k))
    points[: len(numbers), 0] = numbers
    points[len(numbers) :, 1:] = np.eye(k)
    codes = partition.codes(points)
    assert codes.dtype == np.int32
    assert [[code] for code in codes] == [positions(partition, row) for row in points]


def test_categories_are_their_own_positions():
    partition = Partition((3, 1, 4), None, NONE)
    points = np.zeros((3, 5))
    points[[0, 1, 2], [4, 3, 1]] = 1.0
    points[:, [0, 2]] = 0.7
    assert partition.codes(points).tolist() == [2, 0, 1] == [positions(partition, row)[0] for row in points]
    out = np.zeros((3, 5))
    partition.place(np.array([2, 0, 1]), np.zeros(3), out)
    np.testing.assert_array_equal(out[:, [1, 3, 4]], points[:, [1, 3, 4]])
    assert (partition.size, partition.intervals, len(partition.centres)) == (3, 0, 0)


fractions = st.floats(0.0, ALMOST_1)


@settings(max_examples=40, deadline=None)
@given(edges(), st.integers(0, 3), st.lists(fractions, min_size=1, max_size=4))
@example(np.array([-1.0, -0.99, 1.0]), 0, [ALMOST_1])
def test_what_is_placed_has_the_position_that_it_was_given(cuts, k, within):
    _there_and_back(Partition(tuple(range(1, k + 1)), 0, cuts), within)


@pytest.mark.nightly
@settings(max_examples=40, deadline=None)
@given(levels(), st.integers(1, 12), st.integers(0, 3), st.lists(fractions, min_size=1, max_size=4))
def test_what_is_placed_at_levels_is_a_level_of_its_position(values, count, k, within):
    partition = Partition(tuple(range(1, k + 1)), 0, even_edges(values, count), values)
    numbers = _there_and_back(partition, [*within, ALMOST_1])
    assert set(numbers.tolist()) <= set(values.tolist())
    # Each level of a position equally often.
    even = (np.arange(60) + 0.5) / 60.0
    for interval in range(partition.intervals):
        out = np.zeros((60, 1 + k))
        partition.place(np.full(60, k + interval), even, out)
        own = values[partition.codes(_numbers(values, k)) == k + interval]
        found, often = np.unique(out[:, 0], return_counts=True)
        np.testing.assert_array_equal(found, own)
        assert np.ptp(often) <= 1


def _numbers(values, k):
    points = np.zeros((len(values), 1 + k))
    points[:, 0] = values
    return points


def _there_and_back(partition, within):
    """Place every position at each fraction, and return the numbers of those that have one."""
    codes = np.repeat(np.arange(partition.size), len(within))
    out = np.zeros((len(codes), 1 + len(partition.indicators)))
    partition.place(codes, np.tile(within, partition.size), out)
    np.testing.assert_array_equal(partition.codes(out), codes)
    Domain(out.shape[1], [OneHotGroup(partition.indicators, False, 0)] if partition.indicators else []).check(out)
    assert (np.abs(out) <= 1.0).all()
    return out[codes >= len(partition.indicators), 0]


@pytest.mark.parametrize(("indicators", "value", "cuts"), [
    ((), 0, [-1.0]), ((), 0, []), ((), 0, [-1.0, 0.5]), ((), 0, [-0.5, 1.0]), ((), 0, [-1.0, 0.0, 0.0, 1.0]),
    ((), 0, [-1.0, 0.5, 0.0, 1.0]), ((), 0, [-1.0, math.nan, 1.0]), ((1,), None, [-1.0, 1.0]), ((), None, [])])
def test_edges_that_are_no_partition_are_refused(indicators, value, cuts):
    with pytest.raises(InputError, match="must ascend from -1 to 1"):
        Partition(indicators, value, np.array(cuts))


@settings(max_examples=25, deadline=None)
@given(levels(), st.integers(1, 12))
def test_even_edges_hold_equally_many_levels(values, count):
    # Levels that do not lie on a logarithmic scale.
    values = np.linspace(values[0], values[-1], len(values))
    cuts = even_edges(values, count)
    partition = Partition((), 0, cuts, values)
    held = np.bincount(partition.codes(values[:, None]), minlength=partition.size)
    assert partition.size == min(count, len(values))
    assert held.min() >= 1
    assert held.max() - held.min() <= 1
    own = [values[partition.codes(values[:, None]) == i] for i in range(partition.size)]
    np.testing.assert_array_equal(partition.centres, [0.5 * (some[0] + some[-1]) for some in own])


@pytest.mark.parametrize("count", [1, 2, 7, 1024])
def test_even_edges_of_a_continuous_number_are_equally_far_apart(count):
    np.testing.assert_allclose(np.diff(even_edges(None, count)), 2.0 / count, rtol=1e-12)
    centres = Partition((), 0, even_edges(None, count)).centres
    np.testing.assert_allclose(centres, (2.0 * np.arange(count) + 1.0) / count - 1.0, atol=1e-15)


# The columns of a schema

COUNTRIES = ("de", "fr", "it")
SCHEMA = tm.Schema([
    tm.Column("age", 0, 9, kind="integer"),
    tm.Column("gain", 0, 50, kind="integer", special=(0, 99), missing="keep", transform="log1p"),
    tm.Column("country", kind="categorical", categories=COUNTRIES, missing="keep"),
    tm.Column("weight", 40, 90),
    tm.Column("education", kind="ordinal", categories=("none", "school", "university"), missing="keep"),
    tm.Column("smokes", 3, 7, kind="binary"),
    tm.Column("visit", datetime.date(2020, 2, 25), datetime.date(2020, 3, 5), kind="datetime",
              special=(datetime.date(2020, 3, 1),)),
    tm.Column("children", 1, 6, kind="integer", transform="log"),
])


def people(n=400, seed=0):
    rng = np.random.default_rng(seed)
    days = pd.date_range("2020-02-25", "2020-03-05")
    return pd.DataFrame({
        "age": rng.integers(0, 10, n),
        "gain": pd.array(rng.choice([0, 0, 99, *range(1, 51)], n), dtype="Int64").to_numpy(
            dtype=object, na_value=None),
        "country": rng.choice([*COUNTRIES, None], n),
        "weight": rng.uniform(40, 90, n),
        "education": rng.choice(["none", "school", "university", None], n),
        "smokes": rng.choice([3, 7], n),
        "visit": rng.choice(days, n),
        "children": rng.integers(1, 7, n),
    }).assign(gain=lambda table: table["gain"].where(rng.random(n) < 0.9, None))


def fine_columns(schema):
    """The columns of a schema, each of their levels a position of its own."""
    return [column if column.levels is None else column.cut(even_edges(column.levels, len(column.levels)))
            for column in columns_of(schema.domain)]


def test_the_columns_of_a_domain_are_those_of_its_schema():
    columns = columns_of(SCHEMA.domain)
    names = [coordinate for column in SCHEMA.columns for coordinate in column.coordinates]
    own = [[*([] if column.value is None else [names[column.value]]), *(names[c] for c in column.indicators)]
           for column in columns]
    assert own == [list(column.coordinates) for column in SCHEMA.columns]
    assert [column.intervals for column in columns] == [1, 1, 0, 1, 1, 1, 1, 1]
    assert [None if column.levels is None else len(column.levels) for column in columns] == [
        10, 50, None, None, 3, 2, 9, 6]


def test_columns_stand_in_the_order_of_their_first_coordinates():
    domain = Domain(6, [OneHotGroup((0, 4), False, 3), OneHotGroup((1, 5), True)], [(2, (-1.0, 0.0, 1.0))])
    columns = columns_of(domain)
    assert [(column.indicators, column.value) for column in columns] == [((0, 4), 3), ((1, 5), None), ((), 2)]
    assert columns[2].levels.tolist() == [-1.0, 0.0, 1.0]
    assert columns[0].levels is domain.levels_of(3) is None


def test_a_row_has_the_position_of_its_value_in_every_column():
    table = people()
    columns = fine_columns(SCHEMA)
    points = SCHEMA.to_cube(table)
    codes = all_codes(columns, points)
    for row, found in zip(points, codes, strict=True):
        assert [positions(column, row) for column in columns] == [[code] for code in found]
    for j, name in enumerate(SCHEMA.names):
        if columns[j].levels is not None or columns[j].value is None:
            # As many values as positions, each of one position.
            pairs = set(zip(table[name].astype(str).str.replace("nan", "None"), codes[:, j].tolist(), strict=True))
            assert len(pairs) == len({value for value, _ in pairs}) == len({code for _, code in pairs})
    # Back to values: of columns that have levels exactly those that were there.
    made = np.zeros_like(points)
    for j, column in enumerate(columns):
        column.place(codes[:, j], np.full(len(codes), 0.5), made)
    SCHEMA.domain.check(made)
    before, after = SCHEMA.decode(points), SCHEMA.decode(made)
    for name in set(SCHEMA.names) - {"weight"}:
        np.testing.assert_array_equal(np.ma.getmaskarray(before[name]), np.ma.getmaskarray(after[name]))
        np.testing.assert_array_equal(np.ma.compressed(before[name]), np.ma.compressed(after[name]))


days = [np.datetime64("2020-02-27") + i for i in range(4)]
LEVELS = {
    "integers": (tm.Column("x", -3, 4, kind="integer"), range(-3, 5)),
    "integers within bounds that are none": (tm.Column("x", 0.5, 3.5, kind="integer"), [1, 2, 3]),
    "one integer": (tm.Column("x", 1.5, 2.5, kind="integer"), [2]),
    "special values, which have indicators": (tm.Column("x", 0, 5, kind="integer", special=(0, 3, 77)), [1, 2, 4, 5]),
    "missing values": (tm.Column("x", 0, 4, kind="integer", missing="keep"), range(5)),
    "missing values as the centre": (tm.Column("x", 0, 4, kind="integer", missing="centre"), range(5)),
    "logarithms": (tm.Column("x", 1, 20_000, kind="integer", transform="log"), range(1, 20_001)),
    "logarithms of 1 and more": (tm.Column("x", -5, 300, kind="integer", transform="log1p"), range(-5, 301)),
    "binary": (tm.Column("x", 2, 5, kind="binary"), [2, 5]),
    "binary, far apart": (tm.Column("x", 0, 10.0 * MOST_LEVELS, kind="binary"), [0, 10 * MOST_LEVELS]),
    "ordinal": (tm.Column("x", kind="ordinal", categories=("low", "mid", "high")), ["low", "mid", "high"]),
    "ordinal numbers": (tm.Column("x", kind="ordinal", categories=(5, 1, 3), missing="keep"), [5, 1, 3]),
    "dates": (tm.Column("x", "2020-02-27", "2020-03-01", kind="datetime"), days),
    "dates of which some are special": (tm.Column("x", "2020-02-27", "2020-03-01", kind="datetime",
                                                  special=("2020-02-29",)), [*days[:2], days[3]]),
    "times": (tm.Column("x", "2020-02-27T00:00:00", "2020-02-27T00:01:00", kind="datetime"),
              np.datetime64("2020-02-27T00:00:00") + np.arange(61)),
}


@pytest.mark.parametrize(("column", "values"), LEVELS.values(), ids=LEVELS)
def test_the_levels_of_a_column_are_decoded_to_exactly_its_values(column, values):
    schema = tm.Schema([column])
    own = schema.domain.levels_of(0)
    assert (np.diff(own) > 0).all()
    assert (np.abs(own) <= 1.0).all()
    points = np.zeros((len(own), schema.width))
    points[:, 0] = own
    assert schema.decode(points)["x"].tolist() == np.array(values).tolist()
    # There and back: values are encoded to their levels.
    table = pd.DataFrame({"x": list(values)})
    np.testing.assert_array_equal(schema.to_cube(table), points)


@pytest.mark.parametrize("column", [
    tm.Column("x", 0, 1), tm.Column("x", 0, MOST_LEVELS, kind="integer"),
    tm.Column("x", kind="integer", private_bounds=True), tm.Column("x", kind="categorical", categories=("a", "b")),
    tm.Column("x", 0.5, 1.5, kind="integer", special=(1,)),
    tm.Column("x", datetime.date(1000, 1, 1), datetime.date(2020, 1, 1), kind="datetime")])
def test_what_is_continuous_or_has_too_many_values_has_no_levels(column):
    domain = tm.Schema([column]).domain
    assert domain.levels == ()
    assert all(part.levels is None for part in columns_of(domain))


def test_private_bounds_give_levels_once_they_are_found():
    schema = tm.Schema([tm.Column("x", kind="integer", private_bounds=True, special=(3,)), tm.Column("y", 0, 1)])
    first, _ = columns_of(schema.domain)
    assert (first.indicators, first.value, first.levels) == ((1,), 0, None)
    first, second = columns_of(schema.with_bounds({"x": (1.0, 4.0)}).domain)
    np.testing.assert_allclose(first.levels, [-1.0, -1.0 / 3.0, 1.0], atol=1e-15)
    assert second.levels is None


# Prefix sums


@pytest.mark.parametrize("count", [1, 2, 3, 17, 300])
def test_the_factor_twice_is_the_matrix_of_prefix_sums(count):
    R = prefix_sums.factor(count)
    np.testing.assert_allclose(R @ R, np.tri(count), rtol=0.0, atol=1e-12)
    np.testing.assert_allclose(prefix_sums.inverse(count) @ R, np.eye(count), rtol=0.0, atol=1e-12)
    assert (np.triu(R, 1) == 0.0).all()
    exact = [float(Fraction(math.comb(2 * k, k), 4**k)) for k in range(count)]
    np.testing.assert_allclose(R[:, 0], exact, rtol=1e-13)


def column_of(k, c):
    return Partition(tuple(range(k)), k if c else None, even_edges(None, c) if c else NONE)


@pytest.mark.parametrize("kind", [PrefixSums, PrefixSumsWithEnds])
@pytest.mark.parametrize("k", [0, 1, 2, 5])
@pytest.mark.parametrize("c", [0, 1, 2, 3, 8, 21])
def test_the_diameter_is_the_largest_of_all_pairs_of_positions_and_never_below(k, c, kind):
    if k + c == 0 or (kind.ends and c < 3):
        return
    query = kind(0, column_of(k, c))
    measured = [[Fraction(x) for x in query.encode(row)] for row in np.eye(k + c)]
    # Exact, in rational numbers.
    largest = max(sum((x - y) ** 2 for x, y in zip(one, other, strict=True)) for one in measured for other in measured)
    diameter = query.diameter("L2")
    if k + c == 1:
        # A column that cannot move gets the weight of two categories.
        assert largest == 0
        return
    assert Fraction(diameter) ** 2 >= largest
    assert diameter == pytest.approx(math.sqrt(largest), rel=1e-8)


@pytest.mark.parametrize("c", [257, 512])
def test_the_diameter_of_many_intervals_is_that_of_all_pairs(c):
    rows = np.array([PrefixSums(0, column_of(1, c)).encode(row) for row in np.eye(c + 1)])
    largest = pdist(rows).max()
    assert largest <= prefix_sums.diameter(1, c) <= largest * (1.0 + 1e-8)


@pytest.mark.parametrize(("k", "c"), [(3, 0), (0, 1), (0, 9), (2, 64)])
def test_what_is_decoded_is_what_was_encoded_and_the_noise_without_bias(k, c):
    rng = np.random.default_rng(k + c)
    partition = column_of(k, c)
    frequencies = rng.dirichlet(np.ones(k + c))
    noise = rng.normal(size=k + c)
    found = PrefixSums(0, partition).decode(PrefixSums(0, partition).encode(frequencies) + noise)
    np.testing.assert_allclose(found[:k], frequencies[:k] + noise[:k], atol=1e-13)
    # A prefix sum errs by the factor times the noise, which has mean 0.
    error = np.cumsum(found[k:]) - np.cumsum(frequencies[k:])
    if c:
        np.testing.assert_allclose(error, prefix_sums.factor(c) @ noise[k:], atol=1e-12)


def test_positions_are_named_in_their_order_special_values_first():
    names = ["x", "x=0", "x is missing", "c=a", "c=b"]
    number = Partition((1, 2), 0, np.array([-1.0, 0.5, 1.0]))
    assert position_names(number, names) == ["x=0", "x is missing", "x in [-1, 0.5)", "x in [0.5, 1)"]
    assert position_names(Partition((3, 4), None, np.empty(0)), names) == ["c=a", "c=b"]
    assert cell_names(number, np.array([0, 0, 1, 2]), names) == ["others of x", "x in [-1, 0.5)", "x in [0.5, 1)"]
    assert cell_names(number, np.array([0, 1, 2, 2]), names) == ["x=0", "x is missing", "x in [-1, 1)"]
    assert (column_name(number, names), column_name(Partition((3, 4), None, np.empty(0)), names)) == ("x", "c")


@pytest.mark.parametrize("transform", ["log", "log1p"])
@pytest.mark.parametrize(("lower", "upper", "special"), [
    (1, 10_000, ()), (1, 10_000, (1,)), (7, 300, (8, 9)), (2, 100_000, (50, 60)), (1, 70, ())])
@pytest.mark.parametrize("count", [2, 16, 64, 1_024])
def test_whole_numbers_on_a_logarithmic_scale_have_intervals_of_equal_length_there(transform, lower, upper, special,
                                                                                   count):
    column = tm.Column("x", lower, upper, "integer", transform=transform, special=special)
    (partition,) = columns_of(tm.Schema([column]).domain)
    levels, edges = partition.levels, even_edges(partition.levels, count)
    held = np.diff(partition.cut(edges).first_levels)
    assert len(edges) == min(count, len(levels)) + 1
    assert (held >= 1).all()
    assert np.isin(edges[1:-1], 0.5 * (levels[1:] + levels[:-1])).all()
    # An interval begins where it should, or with the level after the only one of the interval before it.
    starts = partition.cut(edges).first_levels[1:-1]
    length = (levels[-1] - levels[0]) / (len(edges) - 1)
    for i, start in enumerate(starts):
        own = (levels < levels[0] + length * (i + 1)).sum()
        assert start == own or (start > own and held[i] == (2 if i == 0 and len(levels) > count else 1))
    if len(levels) > count:
        assert held[0] >= 2
        assert len(with_ends(levels, edges) if count > 2 else edges) == len(edges) + 2 * (count > 2)


@given(st.integers(0, 50), st.integers(5, 3_000), st.integers(1, 200), st.sets(st.integers(1, 49), max_size=2))
def test_other_whole_numbers_have_equally_many_in_each_interval(lower, width, count, special):
    column = tm.Column("x", lower, lower + width, "integer", special=tuple(v for v in special if v < width // 2))
    (partition,) = columns_of(tm.Schema([column]).domain)
    held = np.diff(partition.cut(even_edges(partition.levels, count)).first_levels)
    assert held.max() - held.min() <= 1
    assert len(held) == min(count, len(partition.levels))


@pytest.mark.nightly
@pytest.mark.parametrize(("transform", "lower", "budget"), [
    ("log1p", 0, tm.Budget(1.0, 1e-6)), ("log", 1, tm.Budget(3.0))])
def test_a_logarithmic_scale_shows_small_whole_numbers_as_it_shows_small_numbers(transform, lower, budget):
    rng = np.random.default_rng(3)
    values = lower + np.minimum(rng.lognormal(3.0, 1.5, 4_000), 9_000.0).round()
    ordered, error = np.sort(values), {}
    for kind, more in (("integer", {}), ("continuous", {"decimals": 0})):
        schema = tm.Schema([tm.Column("x", lower, 10_000, kind, transform=transform, **more)])
        errors = []
        for seed in range(2):
            made = tm.synthesize(values[:, None], schema, budget, rng=np.random.default_rng(seed))
            found = np.sort(np.asarray(made.sample(4_000))[:, 0])
            at = np.arange(lower, 500)
            errors.append(np.abs(np.searchsorted(ordered, at, "right") - np.searchsorted(found, at, "right")).max())
        error[kind] = np.mean(errors) / 4_000
    assert error["integer"] < max(1.5 * error["continuous"], 0.03)


@pytest.mark.parametrize(("wanted", "most"), [(2, 8), (16, 1_024), (64, 1_024), (512, 1_024), (1_024, 1_024)])
def test_all_intervals_of_a_look_but_the_last_have_as_many_levels(wanted, most):
    def column(levels):
        return Partition((), 0, np.array([-1.0, 1.0]), levels)

    for size in range(2, 4 * wanted, max(wanted // 64, 1)):
        levels = np.linspace(-1.0, 1.0, size)
        made = of_one_size(column(levels), wanted, most)
        count, held = made.intervals, np.diff(made.first_levels)
        assert min(wanted, size) <= count <= most or count == -(-size // (size // wanted + 1)) <= wanted
        assert len(held) == count
        # All but the last ones have the same number of levels; of many levels each, those may have one fewer.
        each = held[0]
        assert (held[:-1] == each).all() or (each > 2 and (held >= each - 1).all()), (size, held)
    assert of_one_size(column(None), wanted, most).intervals == wanted
    assert of_one_size(column(np.linspace(0.0, 1.0, 80) ** 3 * 2.0 - 1.0), 64, 1_024).intervals == 64
