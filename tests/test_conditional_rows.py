"""Rows with given columns, and with given shares: from the fitted table or from the released numbers."""

import datetime
from fractions import Fraction

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given as drawn
from hypothesis import settings
from hypothesis import strategies as st
from test_cli import run as run  # a fixture

import trigmech as tm
from trigmech.distribution import Distribution
from trigmech.errors import InputError
from trigmech.functions.partition import columns_of
from trigmech.functions.released_column import ReleasedColumn
from trigmech.measurement.released import Release
from trigmech.reconstruction import conditional
from trigmech.reconstruction.conditional import _targets_given, conditional_points
from trigmech.reconstruction.constrained import ConstrainedRows
from trigmech.reconstruction.tables import Targets

SCHEMA = tm.Schema([
    tm.Column("age", 0, 99, "integer"),
    tm.Column("region", kind="categorical", categories=("north", "south", "moon", "mars", "venus")),
    tm.Column("pay", 0, 1000, missing="keep"), tm.Column("smokes", kind="categorical", categories=(True, False)),
    tm.Column("seen", "2020-01-01", "2024-12-31", "datetime"),
    tm.Column("grade", kind="ordinal", categories=("low", "middle", "high")),
], constraints=["age < 15 implies pay is missing", "age < 15 implies smokes = false"])


def table(n=4_000):
    rng = np.random.default_rng(0)
    age, south = rng.integers(0, 100, n), rng.random(n) < 0.02
    pay = np.where(age < 15, np.nan, np.where(south, 800.0, 200.0) + rng.normal(0, 20, n))
    smokes = (age >= 15) & (rng.random(n) < np.where(south, 0.9, 0.1))
    return pd.DataFrame({"age": age, "region": np.where(south, "south", "north"), "pay": pay, "smokes": smokes,
                         "seen": np.datetime64("2020-01-01") + 7 * age, "grade": np.where(south, "high", "low")})


@pytest.fixture(scope="module")
def release():
    return tm.synthesize(table(), SCHEMA, tm.Budget(100.0, 1e-6), tm.TableMechanism(points=2_000),
                         np.random.default_rng(1))


def test_rows_of_a_rare_region_have_its_pay(release):
    """While the cells of pay spanned the gap between the two regions, a third of these rows had the others' pay."""
    fitted = release.sample(2_000, np.random.default_rng(2))
    rare = fitted[fitted.region == "south"].pay.dropna()
    assert len(rare) > 20
    assert (rare > 500.0).mean() > 0.9
    assert (fitted[fitted.region == "north"].pay > 500.0).mean() < 0.001


@pytest.fixture(scope="module")
def loaded(tmp_path_factory):
    """A release that never had tables: points alone."""
    made = tm.synthesize(table(), SCHEMA, tm.Budget(1.0, 1e-6), tm.MomentMechanism(points=1_024, iterations=3),
                         np.random.default_rng(1))
    path = tmp_path_factory.mktemp("saved") / "r.tm"
    made.save(path)
    return tm.load(path)


def test_given_columns_are_as_given_and_the_others_follow(release):
    rng = np.random.default_rng(2)
    south = release.sample(1_500, rng, given={"region": "south", "age": (30, 79)})
    assert len(south) == 1_500
    assert (south.region == "south").all()
    assert south.age.between(30, 79).all()
    # Some 20 of 2,000 fitted rows match, so these are fitted anew: they are not the same few.
    fitted = release.sample(2_000, rng)
    fitted = fitted[fitted.region == "south"]
    assert len(fitted) < 80
    assert len(south.drop_duplicates()) > 1_000
    assert SCHEMA.holds(south).all()
    assert south.pay.mean() == pytest.approx(fitted.pay.mean(), abs=60)
    assert south.pay.mean() > 500
    assert south.smokes.mean() == pytest.approx(0.8, abs=0.15)
    assert (south.grade == "high").mean() > 0.8
    north = release.sample(1_500, rng, given={"region": ["north"], "smokes": False})
    assert north.pay.mean() == pytest.approx(200, abs=30)
    assert not north.smokes.any()


@pytest.mark.nightly  # By day whatever is given, below.
def test_constraints_hold_beside_what_is_given(release):
    rng = np.random.default_rng(3)
    for given in ({"age": 7}, {"pay": None, "region": "south"}, {"seen": ("2020-01-01", "2020-02-01")},
                  {"grade": ("middle", "high"), "age": (0, 20)}):
        made = release.sample(300, rng, given=given)
        assert len(made) == 300
        assert SCHEMA.holds(made).all()
    assert release.sample(50, rng, given={"age": 7}).pay.isna().all()
    assert len(release.sample(0, rng, given={"age": 7})) == 0
    assert len(release.sample(3, rng, given={"age": (0, 14), "region": "south"})) == 3


# By day test_saved.py samples what was loaded.
@pytest.mark.nightly  # By day several shares are raked, below.
@pytest.mark.parametrize("name", ["release", pytest.param("loaded", marks=pytest.mark.nightly)])
def test_rows_have_the_shares_that_are_asked_for(name, request):
    made, rng = request.getfixturevalue(name), np.random.default_rng(4)
    even = made.sample(1_001, rng, shares={"region": {"north": 0.5, "south": 0.5}})
    assert sorted(even.region.value_counts()) == [500, 501]
    before = made.sample(4_000, rng).groupby("region").pay.mean()
    after = even.groupby("region").pay.mean()
    assert after["south"] - after["north"] == pytest.approx(before["south"] - before["north"], rel=0.35)
    two = made.sample(1_000, rng, given={"region": "north"},
                      shares={"age": {(20, 39): 0.25, (40, 80): 0.75}, "smokes": {True: 0.4, False: 0.6}})
    assert (two.region == "north").all()
    assert two.age.between(20, 39).mean() == pytest.approx(0.25, abs=0.005)
    assert two.smokes.mean() == pytest.approx(0.4, abs=0.005)
    assert SCHEMA.holds(two).all()


def test_points_alone_are_drawn_from_or_there_is_nothing(loaded):
    rng = np.random.default_rng(5)
    made = loaded.sample(400, rng, given={"age": (20, 40), "region": "north"})
    assert made.age.between(20, 40).all()
    # The values are those of points.
    assert set(made.pay.dropna()) <= set(loaded.schema.decode(loaded.distribution.points)["pay"].compressed())
    with pytest.raises(InputError, match=r"^the release has no row with pay in \(0.125\), and cannot make"):
        loaded.sample(5, rng, given={"pay": 0.125})


# Fitted rows that are known


SMALL = tm.Schema([tm.Column(name, kind="categorical", categories=("p", "q")) for name in "abc"])
# Of a and b beside c = p and c = q: their odds ratios are 6 and 1/8.
JOINT = {"p": [[0.30, 0.05], [0.10, 0.10]], "q": [[0.05, 0.16], [0.16, 0.08]]}


# Of no columns: rows are drawn as they were fitted.
NOTHING = Release(2, SMALL.domain, ())


def small():
    """A fitted table of one point for each combination, and these combinations."""
    cells = [(a, b, c) for a in "pq" for b in "pq" for c in "pq"]
    weights = [JOINT[c]["pq".index(a)]["pq".index(b)] for a, b, c in cells]
    return Distribution(SMALL.to_cube(pd.DataFrame(cells, columns=list("abc"))), np.array(weights) / sum(weights))


def counted(points):
    return pd.DataFrame(SMALL.decode(points)).value_counts().to_dict()


def test_several_shares_are_raked_from_the_rows_that_have_what_is_given():
    """By proportional fitting, in plain loops, of the fitted table beside what is given."""
    down, across, size = {"p": 0.45, "q": 0.55}, {"q": 0.8, "p": 0.2}, 1_000
    for c, joint in JOINT.items():
        cells = {(a, b): joint["pq".index(a)]["pq".index(b)] for a in "pq" for b in "pq"}
        for _ in range(200):
            for place, wanted in ((0, down), (1, across)):
                sums = {v: sum(mass for cell, mass in cells.items() if cell[place] == v) for v in "pq"}
                cells = {cell: mass * wanted[cell[place]] / sums[cell[place]] for cell, mass in cells.items()}
        made = counted(conditional_points(SMALL, NOTHING, small(), size, np.random.default_rng(0), {"c": c},
                                          {"a": down, "b": across}))
        assert set(made) == {(*cell, c) for cell in cells}
        for cell, mass in cells.items():
            assert abs(made[(*cell, c)] - size * mass) < 1.0


def test_rows_that_match_are_drawn_by_their_fitted_weights():
    made = counted(conditional_points(SMALL, NOTHING, small(), 1_100, np.random.default_rng(0), {"c": "p"}))
    assert made == {("p", "p", "p"): 600, ("p", "q", "p"): 100, ("q", "p", "p"): 200, ("q", "q", "p"): 200}


def test_rows_of_different_shares_stand_in_no_order():
    points = conditional_points(SMALL, NOTHING, small(), 1_000, np.random.default_rng(0),
                                shares={"a": {"p": 0.5, "q": 0.5}})
    values = pd.DataFrame(SMALL.decode(points))
    assert (values.a == "p").sum() == 500
    for name in "abc":
        # A hypergeometric number, some 8 about its mean.
        first = (values[name][:500] == "p").sum()
        assert abs(first - 0.5 * (values[name] == "p").sum()) < 48


def test_numbers_beside_what_is_given_are_noisier_by_the_part_of_the_rows_that_have_it(release):
    # A constraint of a column that is not given makes no part of the rows.
    for given, others in ((["region = 'south'"], []), (["region = 'south'", "grade = 'high'"], []),
                          (["region = 'south'"], ["grade in ('middle', 'high')"])):
        wanted = tm.Schema(SCHEMA.columns, [*SCHEMA.constraints, *given, *others])
        constrained = ConstrainedRows(wanted, release.release.columns, release.release.closer)
        targets = Targets(constrained.of(release.release))
        places = [SCHEMA.names.index(condition.split()[0]) for condition in given]
        found = _targets_given(targets, constrained, places)
        part = np.prod([targets.release.columns[j].mass[SCHEMA.columns[j].categories.index(condition.split("'")[1])]
                        for j, condition in zip(places, given, strict=True)])
        assert 0.0 < part < 1.0
        for each, whole in zip(found.pairs, targets.pairs, strict=True):
            assert each.deviation == pytest.approx(whole.deviation / part, rel=1e-12)
        # Each table has a column's own frequencies beside what is given.
        for each in found.pairs:
            held = np.bincount(each.maps[1], weights=found.release.columns[each.columns[1]].mass)
            np.testing.assert_allclose(each.table.sum(axis=0), held, atol=1e-12)


def test_a_table_beside_what_is_given_has_the_sums_asked_for_and_the_odds_ratios_it_had(monkeypatch):
    monkeypatch.setattr(conditional, "EVEN", 0.0)
    rng = np.random.default_rng(0)
    table, down, across = rng.dirichlet(np.ones(12)).reshape(3, 4), rng.dirichlet(np.ones(3)), rng.dirichlet(np.ones(4))
    made = conditional._raked(table, down, across)
    np.testing.assert_allclose(made.sum(axis=1), down, rtol=1e-9)
    np.testing.assert_allclose(made.sum(axis=0), across, rtol=1e-9)
    odds = [each * each[0, 0] / np.outer(each[:, 0], each[0]) for each in (made, table)]
    np.testing.assert_allclose(*odds, rtol=1e-9)


@pytest.mark.parametrize(("asked", "message"), [
    ({"given": {"place": "north"}}, "there is no column 'place'; the columns are 'age', 'region',"),
    ({"given": {"region": "east"}}, "not a category of 'region'"),
    ({"given": {"region": 3}}, "'region' holds text"),
    ({"given": {"region": ("moon", "south")}}, "have no order"),
    ({"given": {"age": 200}}, "^the given 200 is outside the bounds of 'age', 0 to 99$"),
    ({"given": {"age": (-5, -1)}}, "^the given -5 to -1 is outside the bounds of 'age', 0 to 99$"),
    ({"given": {"age": 2000.0}}, "^the given 2000 is outside the bounds of 'age', 0 to 99$"),
    ({"shares": {"age": {7: 0.5, 200: 0.5}}}, "^the given 200 is outside the bounds"),
    ({"given": {"age": [7, 200], "smokes": True}}, r"^given age in \(7, 200\); smokes in \(true\): no row can satisfy"),
    ({"given": {"age": float("nan")}}, "a value for column 'age' must be one that the column can have"),
    ({"given": {"age": (3, 4, 5)}}, "a lower and an upper value"),
    ({"given": {"age": []}}, "must not be empty"),
    ({"given": {"age": None}}, "'age' has no missing values"),
    ({"given": {"age": 7, "smokes": True}}, "no row can satisfy all of these constraints"),
    ({"given": ["age"]}, "given must be a dictionary"),
    ({"given": {"pay": 0.125}}, "If a continuous column must equal a value, list this value in `special`"),
    ({"shares": {"region": {"north": 0.5, "south": 0.6}}}, "with the sum 1"),
    ({"shares": {"region": {"north": 0.5, "south": 0.4999}}}, "with the sum 1"),
    ({"shares": {"region": {"north": 1.5, "south": -0.5}}}, "with the sum 1"),
    ({"shares": {"region": "north"}}, "with the sum 1"),
    ({"shares": {"region": {"east": 1.0}}}, "not a category of 'region'"),
    ({"shares": {"place": {"east": 1.0}}}, "there is no column 'place'"),
    ({"shares": {"age": {(0, 50): 0.5, (50, 99): 0.5}}}, "must not overlap"),
    ({"shares": {"age": {7: 1.0}}, "given": {"age": 7}}, "use one"),
    ({"shares": {"age": {7: 1.0}, "smokes": {True: 1.0}}}, "no rows that can have these shares"),
])
def test_what_cannot_be_is_refused_by_name(release, asked, message):
    with pytest.raises(InputError, match=message):
        release.sample(10, np.random.default_rng(0), **asked)


@pytest.mark.parametrize("given", [-9, (-20, -5), (-9, -9), (-9, 3), 7.0, (7, 200)])
def test_special_values_outside_the_bounds_can_be_given(given):
    schema = tm.Schema([tm.Column("pay", 0, 10, special=[-9])])
    conditional._check_bounds(schema.columns[0], given)
    with pytest.raises(InputError, match=r"outside the bounds of 'pay', 0 to 10$"):
        conditional._check_bounds(schema.columns[0], Fraction(41, 2))
    assert conditional._conditions(schema, {"pay": given})
    with pytest.raises(InputError, match="outside the bounds of 'pay', 0 to 10"):
        conditional._check_bounds(schema.columns[0], -8)


def test_no_fitted_row_is_in_a_category_without_released_mass(release):
    """Rare categories share cells of tables, which do not tell in which of them a row is."""
    found = release.distribution.points
    for partition, mass in ((column.partition, column.mass) for column in release.release.columns):
        held = np.bincount(partition.codes(found), minlength=partition.size)[: len(partition.indicators)]
        assert not held[mass[: len(partition.indicators)] == 0.0].any()


def test_a_value_without_released_mass_is_named(release):
    held = set(release.sample(2_000, np.random.default_rng(2)).region)
    empty = next(name for name, mass in zip(SCHEMA.columns[1].categories, release.release.columns[1].mass, strict=True)
                 if mass == 0.0 and name not in held)
    message = f"^the release has no row with region in \\('{empty}'\\), and cannot make such a row$"
    with pytest.raises(InputError, match=message):
        release.sample(10, given={"region": empty})
    with pytest.raises(InputError, match=message):
        release.sample(10, shares={"region": {"north": 0.5, empty: 0.5}})


@pytest.mark.nightly  # By day cases of it, above.
@settings(max_examples=15, derandomize=True, deadline=None, database=None)
@drawn(st.fixed_dictionaries({}, optional={
    "age": st.integers(0, 99) | st.tuples(st.integers(0, 49), st.integers(50, 99)),
    "region": st.sampled_from(["north", "south"]), "pay": st.none() | st.tuples(st.just(0), st.floats(1, 1000)),
    "smokes": st.booleans(), "grade": st.sampled_from(["low", "high", ["low", "middle"], ("middle", "high")]),
}), st.integers(1, 40), st.integers(0, 2**32))
def test_whatever_is_given_rows_have_it_or_an_error_says_what_is_missing(release, asked, size, seed):
    try:
        made = release.sample(size, np.random.default_rng(seed), given=asked)
    except InputError as error:
        assert str(error).startswith(("the release has no row with", "given "))  # noqa: PT017
        return
    assert len(made) == size
    assert SCHEMA.holds(made).all()
    columns = list(SCHEMA.columns)
    for name, value in asked.items():
        held = tm.Schema(columns, [tm.schema.constraints.stated(columns[SCHEMA.names.index(name)], value)])
        assert held.holds(made).all()


@pytest.mark.parametrize("resolution", ["hour", "minute", "second"])
def test_a_day_that_is_given_of_times_is_all_of_its_day(resolution):
    column = tm.Column("seen", "2023-01-01", "2023-12-31", "datetime", resolution=resolution)

    def held(value):
        schema = tm.Schema([column], [tm.schema.constraints.stated(column, value)])
        times = ["2023-02-28T23:00:00", "2023-03-01T00:00:00", "2023-03-01T23:00:00", "2023-03-02T00:00:00",
                 "2023-03-02T23:00:00", "2023-03-03T00:00:00"]
        return [str(time)[8:13] for time in times if schema.holds([[np.datetime64(time)]]).all()]

    assert held("2023-03-01") == held(datetime.date(2023, 3, 1)) == held(np.datetime64("2023-03-01")) == [
        "01T00", "01T23"]
    assert held(("2023-03-01", "2023-03-02")) == ["01T00", "01T23", "02T00", "02T23"]
    assert held(("2023-03-01T05:00:00", "2023-03-02T00:00:00")) == ["01T23", "02T00"]
    assert held(["2023-02-28", "2023-03-02T00:00:00", "2023-03-03"]) == ["28T23", "02T00", "03T00"]
    assert held(["2023-03-02T00:00:00"]) == held("2023-03-02T00:00:00") == ["02T00"]


def test_a_day_that_is_given_of_days_is_that_day():
    column = tm.Column("seen", "2023-01-01", "2023-12-31", "datetime")
    assert tm.schema.constraints.stated(column, ["2023-03-01", "2023-03-02"]) == "seen in (2023-03-01, 2023-03-02)"


def test_rows_of_a_whole_day_have_its_hours():
    schema = tm.Schema([tm.Column("seen", "2023-03-01T00:00:00", "2023-03-02T23:00:00", "datetime")])
    times = np.datetime64("2023-03-01T00", "s") + 3_600 * (np.arange(480) % 48)
    made = tm.synthesize(pa.table({"seen": times}), schema, tm.Budget(9.0, 1e-6), rng=np.random.default_rng(0))
    hours = {(time.day, time.hour) for time in made.sample(200, np.random.default_rng(0), given={
        "seen": "2023-03-02"})["seen"].to_pylist()}
    assert {day for day, _ in hours} == {2}
    assert len(hours) > 12


@pytest.mark.parametrize(("matched", "enough"), [(499, False), (500, True)])
def test_few_rows_that_match_are_not_drawn_from_by_their_effective_number(monkeypatch, matched, enough):
    """Rows of equal weights count as so many, whatever part of the whole they are; unequal ones as fewer."""
    column = ReleasedColumn(columns_of(SMALL.domain)[0], np.array([0.5, 0.5]), 0.1)
    release, asked = Release(2, SMALL.domain, (), (column,) * 3), []
    monkeypatch.setattr(conditional, "_rows_given", lambda *given: asked.append(given[2]))
    cells = pd.DataFrame({"a": ["p"] * matched + ["q"] * 3_000, "b": "p", "c": "q"})
    points, weights = SMALL.to_cube(cells), np.full(len(cells), 1.0 / len(cells))
    for heaviest, drawn_from in ((1.0, enough), (5.0, False)):
        weights[0] = heaviest / len(cells)
        asked.clear()
        made = counted(conditional_points(SMALL, release, Distribution(points, weights / weights.sum()), 700,
                                          np.random.default_rng(0), {"a": "p"}))
        assert {cell[0] for cell in made} == {"p"}
        assert asked == ([] if drawn_from else [700])


@pytest.mark.parametrize(("hidden", "value"), [
    (tm.Column("y", 0, 1, missing="keep"), 0.5),
    (tm.Column("y", "2020-01-01", "2020-12-31", "datetime", missing="keep"), datetime.datetime(2020, 5, 1)),
    (tm.Column("y", kind="categorical", categories=("a", "b", "c"), missing="keep"), "a"),
    (tm.Column("y", kind="ordinal", categories=("low", "high"), missing="keep"), "low")],
    ids=lambda each: getattr(each, "kind", ""))
def test_rows_can_be_given_values_though_noise_hides_all_that_the_schema_allows_of_another_column(hidden, value):
    """All rows of the release miss the value, which the schema forbids; it was refused to make any row."""
    schema = tm.Schema([tm.Column("x", 0, 1), hidden], constraints=["y is not missing"])
    partitions = [partition.cut(np.linspace(-1.0, 1.0, 9)) if partition.value is not None else partition
                  for partition in columns_of(schema.domain)]
    absent = np.zeros(partitions[1].size)
    absent[len(partitions[1].indicators) - 1] = 1.0
    columns = (ReleasedColumn(partitions[0], np.full(8, 1.0 / 8.0), 1e-3), ReleasedColumn(partitions[1], absent, 1e-3))
    release = Release(300, schema.domain, (), columns)
    fitted = Distribution(schema.to_cube(pd.DataFrame({"x": [0.1], "y": [value]})), np.ones(1))
    points = conditional_points(schema, release, fitted, 20, np.random.default_rng(0), {"x": (0.9, 1.0)}, None)
    rows = schema.decode(points)
    assert len(points) == 20
    assert np.asarray(rows["x"]).min() >= 0.9
    assert not np.ma.getmaskarray(rows["y"]).any()
    # Values of the given column that have no mass are still refused.
    only = ReleasedColumn(partitions[0], np.eye(8)[0], 1e-3)
    with pytest.raises(InputError, match="cannot make such a row"):
        conditional_points(schema, Release(300, schema.domain, (), (only, columns[1])), fitted, 20,
                           np.random.default_rng(0), {"x": (0.9, 1.0)}, None)


def test_what_cannot_be_given_is_told_with_the_reason(run, tmp_path):
    schema = tm.Schema([tm.Column("day", 1, 31, "integer"),
                        tm.Column("sex", kind="categorical", categories=("f", "m"))], derived={"week": "day // 7"})
    rng = np.random.default_rng(0)
    day = rng.integers(1, 32, 300)
    table = pd.DataFrame({"day": day, "sex": rng.choice(["f", "m"], 300), "week": day // 7})
    made = tm.synthesize(table, schema, tm.Budget(1.0, 1e-6), rng=np.random.default_rng(1))
    derived = "column 'week' is derived, so its values follow from other columns"
    with pytest.raises(InputError, match=derived):
        made.sample(10, given={"week": 2})
    with pytest.raises(InputError, match=derived):
        made.sample(10, shares={"week": {1: 0.5, 2: 0.5}})
    with pytest.raises(InputError, match="there is no column 'month'; the columns are 'day', 'sex'"):
        made.sample(10, given={"month": 2})
    made.save(tmp_path / "r.tm")
    for text in ("day=3..", "day=..7", "day=..", "day= .. "):
        code, _, said = run("sample", "r.tm", "--given", text, "--out", "s.csv")
        assert code == 2
        assert "a range of 'day' must have both ends, as in 30..39, not" in said
    assert run("sample", "r.tm", "--given", "day=3..7", "--out", "s.csv")[0] == 0


@pytest.mark.parametrize("wrong", [[1, 2], "ab", {"a": 1, "b": 2}, None])
def test_releases_to_compare_come_by_name(wrong):
    with pytest.raises(InputError, match=r"compare needs releases \(Synthesis\) by name"):
        tm.compare(wrong)


@pytest.mark.parametrize("yes", [True, np.True_, 1, 1.0])
def test_a_binary_column_can_be_given_by_a_truth_value(yes):
    schema = tm.Schema([tm.Column("ill", False, True, "binary"), tm.Column("age", 0, 99)])
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"ill": rng.random(400) < 0.3, "age": rng.uniform(0, 99, 400)})
    made = tm.synthesize(table, schema, tm.Budget(5.0, 1e-6), rng=np.random.default_rng(1))
    assert set(made.sample(50, given={"ill": yes})["ill"].tolist()) == {1}
    assert made.sample(50, shares={"ill": {yes: 0.4, False: 0.6}})["ill"].sum() == 20
    other = tm.Schema([tm.Column("ill", 1, 2, "binary"), tm.Column("age", 0, 99)])
    made = tm.synthesize(table.assign(ill=1 + table["ill"]), other, tm.Budget(5.0, 1e-6), rng=np.random.default_rng(1))
    if isinstance(yes, bool | np.bool_):
        # Neither value is said to be true.
        with pytest.raises(InputError, match="'ill' holds numbers"):
            made.sample(5, given={"ill": yes})
