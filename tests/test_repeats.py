"""Samples of more rows than were fitted: copies have numbers of their own, and all that was measured stays."""

import re

import numpy as np
import pandas as pd
import pytest
from hypothesis import given as drawn
from hypothesis import settings
from hypothesis import strategies as st
from scipy import stats

import trigmech as tm
from trigmech.functions.partition import all_codes
from trigmech.reconstruction import constrained
from trigmech.reconstruction.constrained import ConstrainedRows
from trigmech.report import page
from trigmech.schema import encoding, rounding
from trigmech.tables.different import copies, different_rows

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
def both(made):
    """A sample of many more rows than were fitted, as points, and the fitted rows that they are copies of."""
    size = 12 * len(made.distribution.points) + 345
    points = SCHEMA.to_cube(made.sample(size, np.random.default_rng(2)))
    chosen = made.distribution.drawn(size, np.random.default_rng(2))
    return points, made.distribution.points[chosen], chosen


def test_a_sample_of_more_rows_than_were_fitted_repeats_none_of_them(made):
    fitted = len(made.distribution.points)
    sample = made.sample(20_000, np.random.default_rng(3))
    assert fitted < 2_000
    assert different_rows(SCHEMA.decode(SCHEMA.to_cube(sample)).values()) == 20_000
    # Of the 5,000 numbers that have two digits after the point nearly all.
    assert sample.low.nunique() > 4_500
    assert sample.gain[sample.gain != 123.5].nunique() > 4_000
    assert SCHEMA.holds(sample).all()


def test_all_that_was_measured_is_exactly_as_if_rows_were_repeated(made, both):
    release, (points, plain, _) = made.release, both
    partitions = [column.partition for column in release.columns]
    codes, repeated = all_codes(partitions, points), all_codes(partitions, plain)
    # Then everything that rows were fitted to: it is a function of these. Said once more of each kind.
    np.testing.assert_array_equal(codes, repeated)
    assert len(release.tables)
    assert release.products.query.size
    for table in release.tables:
        (j, h), cells = table.query.columns, table.query.maps
        count, before = (np.bincount(np.ravel_multi_index(
            (cells[0][held[:, j]], cells[1][held[:, h]]), [each.max() + 1 for each in cells])) for held in (
                codes, repeated))
        np.testing.assert_array_equal(count, before)
    for j, h, a, b in release.products.query.factors.tolist():
        features = release.products.query.features
        count, before = (features[j][held[:, j], a] @ features[h][held[:, h], b] for held in (codes, repeated))
        assert count == before
    for look in release.closer:
        partition = partitions[look.query.column]
        edges = np.intersect1d(look.query.edges, partition.edges)
        np.testing.assert_array_equal(*(np.histogram(held[:, partition.value], edges)[0] for held in (points, plain)))


def test_first_copies_are_the_fitted_rows_and_others_differ_where_numbers_lie_free(made, both):
    points, plain, chosen = both
    again = copies(chosen)
    first = np.setdiff1d(np.arange(len(chosen)), again)
    assert len(first) == len(made.distribution.points)
    values, before = (SCHEMA.decode(held[first]) for held in (points, plain))
    for name in SCHEMA.names:
        np.testing.assert_array_equal(values[name], before[name])
    held = set(SCHEMA.domain.numbers)
    others = [j for j in range(points.shape[1]) if j not in held]
    np.testing.assert_array_equal(points[:, others], plain[:, others])
    spans = dict(zip(SCHEMA.names, SCHEMA.spans, strict=True))
    for name in NUMBERS:
        j = spans[name][0]
        free = again[(plain[again][:, slice(*spans[name])][:, 1:] == 0.0).all(axis=1)]
        if name == "gain":
            free = free[made.schema.decode(plain[free])["gain"] != 123.5]
        assert np.mean(points[free, j] != plain[free, j]) > 0.9, name


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


def test_what_many_rows_share_and_levels_stay(made, both):
    values, before = (SCHEMA.decode(points) for points in both[:2])
    assert (before["gain"] == 123.5).any()
    # The fit has moved some to beside the shared value, which constraints of other columns made it draw again.
    assert ((values["gain"] == 123.5) >= (before["gain"] == 123.5)).all()
    np.testing.assert_array_equal(values["free"] == 0.0, before["free"] == 0.0)
    np.testing.assert_array_equal(values["free"] == 7.0, before["free"] == 7.0)
    np.testing.assert_array_equal(np.ma.getmaskarray(values["pay"]), np.ma.getmaskarray(before["pay"]))
    for name in ("region", "grade"):
        np.testing.assert_array_equal(values[name], before[name])
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


def test_copies_that_cannot_keep_the_constraints_repeat_the_fitted_row(made, monkeypatch):
    own = ConstrainedRows(SCHEMA, made.release.columns, made.release.closer)
    points = made.distribution.points
    rows = all_codes([column.partition for column in own.columns], points)
    kept = np.arange(len(points)) % 2 == 0
    # By each row's constraints, however often it is drawn.
    monkeypatch.setattr(constrained, "keeps", lambda schema, drawn: kept[: len(drawn)] & (len(drawn) == len(points)))
    redrawn = own.redrawn(points, rows, np.random.default_rng(0))
    np.testing.assert_array_equal(redrawn[~kept], points[~kept])
    assert (redrawn[kept] != points[kept]).any(axis=1).all()


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
    # Fitted rows stay, and some of these can have the same digits.
    fitted = release.columns(len(release.distribution.points), np.random.default_rng(0))["x"]
    assert len(fitted) == 64
    assert (len(sample), 600 - sample.x.nunique()) == (600, 64 - len(np.unique(fitted)))


@pytest.mark.parametrize("mechanism", [
    tm.MomentMechanism(points=50, iterations=2, degree=2, pair_degree=1, triples=False, whole_row=False),
    tm.ImprovedTrigII(n_candidates=50, n_basis=5)])
def test_rows_of_released_means_are_repeated_as_they_are(mechanism):
    schema = tm.Schema.cube(2)
    rows = np.random.default_rng(0).uniform(-1, 1, (40, 2))
    made = tm.synthesize(rows, schema, tm.Budget(1.0, 1e-3), mechanism, np.random.default_rng(0))
    np.testing.assert_array_equal(made.sample(300, np.random.default_rng(1)),
                                  schema.from_cube(made.distribution.sample(300, np.random.default_rng(1))))


@pytest.mark.parametrize("redrawn", [True, False])
def test_the_page_says_how_many_rows_were_fitted_and_how_many_are_different(tmp_path, redrawn):
    schema = tm.Schema([tm.Column("x", 0, 1), tm.Column("c", kind="categorical", categories=("a", "b"))])
    rows = pd.DataFrame({"x": np.random.default_rng(0).random(500), "c": "a"})
    mechanism = tm.TableMechanism(points=64) if redrawn else tm.MomentMechanism(points=64, iterations=2)
    made = tm.synthesize(rows, schema, tm.Budget(1.0, 1e-6), mechanism, np.random.default_rng(0))
    text = re.sub(r"<[^>]+>", " ", page.write(made, tmp_path / "r.html").read_text())
    said = dict(re.findall(r"(Points: rows that were fitted|Different rows in a sample of 500)\s+([\d,]+)", text))
    assert said == {"Points: rows that were fitted": "64",
                    "Different rows in a sample of 500": "500" if redrawn else "64"}
    assert ("get new numbers, drawn from the released intervals" in text) == redrawn


@settings(max_examples=60, derandomize=True, deadline=None, database=None)
@drawn(st.lists(st.tuples(st.sampled_from([0.0, -0.0, 0.5, 1e300]), st.integers(-1, 1), st.sampled_from(["a", "b", 1]),
                          st.booleans()), max_size=12))
def test_different_rows_are_counted(rows):
    columns = [np.array([row[j] for row in rows], dtype=dtype) for j, dtype in enumerate((float, np.int64, object))]
    columns.append(np.ma.MaskedArray(columns[1], [row[3] for row in rows]))
    wanted = {(row[0] + 0.0, row[1], row[2], None if row[3] else row[1]) for row in rows}
    assert different_rows(columns) == len(wanted)


def test_a_table_without_columns_has_no_rows():
    assert different_rows([]) == 0


@settings(max_examples=60, derandomize=True, deadline=None, database=None)
@drawn(st.lists(st.integers(0, 5), max_size=20))
def test_copies_are_all_but_the_first(numbers):
    wanted = [i for i, number in enumerate(numbers) if number in numbers[:i]]
    assert copies(np.array(numbers, dtype=np.int64)).tolist() == wanted
