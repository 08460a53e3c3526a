"""The accounts that a page gives of a release, by hand: lights, dependences, noise, choices, and late warnings."""

import datetime
import math
import re
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

import trigmech as tm
from trigmech.functions.partition import Partition
from trigmech.functions.released_column import ReleasedColumn
from trigmech.queries.base import Measurement
from trigmech.queries.joint import Marginal
from trigmech.queries.one_way import Detail, Histogram
from trigmech.report import advice, dependences, lead, moments, tables
from trigmech.report.columns import ColumnShares
from trigmech.report.statement import NO_TABLE

NAMES = ("a", "b", "c")


def expected_error(about, light, error, kind="pair"):
    return SimpleNamespace(about=about, light=light, error=error, high=2.0 * error, kind=kind)


def forecast():
    return SimpleNamespace(
        limits={name: SimpleNamespace(good=0.1, care=0.2, best=1.0, reason="why")
                for name in ("column_worst", "pair_worst", "correlation_worst")},
        sentences=lambda n: [f"of {n}"], columns=[expected_error((name,), "good", 0.1) for name in NAMES],
        pairs=[expected_error(("a", "b"), "good", 0.1), expected_error(("a", "c"), "care", 0.2),
               expected_error(("b", "c"), "good", 0.05)],
        correlations=[expected_error(("a", "c"), "poor", 0.25, "correlation")],
        strengths={("a", "b"): 0.5, ("a", "c"): 0.125, ("b", "c"): 0.75},
        lights_of_columns=lambda: dict.fromkeys(NAMES, "good"),
        lights_of_pairs=lambda: {"a and b": "good", "a and c": "poor", "b and c": "good"})


def judgement():
    measure = SimpleNamespace(words="pairs", about="a and b", light="care", value=0.85, fresh=0.95, name="pair_worst")
    other = SimpleNamespace(words="copies", about="", light="good", value=0.0, fresh=None, name="pair_worst")
    return SimpleNamespace(
        verdict="verdict", compared="compared", measures=[measure, other],
        limits={"pair_worst": SimpleNamespace(good=0.8, care=0.6, best=1.0)},
        lights_of_columns=lambda: dict.fromkeys(NAMES, "care"),
        lights_of_pairs=lambda: {"a and b": "poor", "a and c": "good", "b and c": "good"},
        details={"columns": dict.fromkeys(NAMES, 0.875), "pairs": {"a and b": 0.75, "a and c": 0.9, "b and c": 1.0},
                 "correlations": {"differences": {"a and c": 0.0625}},
                 "regressions": {"a": {"R2_true": 0.5, "R2_synthetic": 0.375}},
                 "determined": [("a", "b", 0.99, 0.875)]})


SYNTHESIS = SimpleNamespace(schema=SimpleNamespace(names=NAMES), release=SimpleNamespace(n=77))


def test_pairs_are_listed_by_dependence_and_those_with_worse_lights_are_kept(monkeypatch):
    made, left_out = lead._pairs(SYNTHESIS, forecast(), None)
    assert made.head == ["Pair of columns", "Expected", "Shares of rows are off by", "Usually at most",
                         "Correlation is off by", "Usually at most", "Dependence seen"]
    assert made.rows == [["b and c", "good", "5 %", "10 %", "", "", "0.75"],
                         ["a and b", "good", "10 %", "20 %", "", "", "0.5"],
                         ["a and c", "poor", "20 %", "40 %", "0.25", "0.5", "0.12"]]
    assert (made.lights, made.numeric, left_out) == ([1], [2, 3, 4, 5, 6], 0)
    monkeypatch.setattr(lead, "MOST_PAIRS", 2)
    made, left_out = lead._pairs(SYNTHESIS, forecast(), None)
    assert ([row[0] for row in made.rows], left_out) == (["b and c", "a and c"], 1)
    made, left_out = lead._pairs(SYNTHESIS, forecast(), judgement())
    assert made.head[7:] == ["Measured", "Shares of rows were off by", "Correlation was off by"]
    assert [(row[0], *row[7:]) for row in made.rows] == [("a and b", "poor", "25 %", ""),
                                                        ("a and c", "good", "10 %", "0.0625")]
    assert (made.lights, left_out) == ([1, 7], 1)
    monkeypatch.setattr(lead, "MOST_PAIRS", 1)
    made, left_out = lead._pairs(SYNTHESIS, None, judgement())
    assert (made.rows, made.lights, left_out) == ([["a and b", "poor", "25 %", ""]], [1], 2)


def test_the_top_of_the_page_has_what_is_known():
    nothing = lead.lead(SYNTHESIS, None, None)
    assert {name: nothing[name] for name in ("sentences", "verdict", "compared", "left_out", "known")} == {
        "sentences": [], "verdict": "", "compared": "", "left_out": 0, "known": False}
    assert all(nothing[name] is NO_TABLE for name in ("columns", "pairs", "limits", "measures", "regressions",
                                                      "determined"))
    found = lead.lead(SYNTHESIS, forecast(), judgement())
    assert [found[name] for name in ("sentences", "verdict", "compared", "known")] == [["of 77"], "verdict", "compared",
                                                                                       True]
    assert found["limits"].rows == [[words, name, "0.1", "0.2", "1", "why"] for words, name in (
        ("a column", "column_worst"), ("a pair, its table", "pair_worst"),
        ("a pair, its correlation", "correlation_worst"))]
    assert found["measures"].rows == [["pairs (a and b)", "care", "0.85", "0.95", "0.8", "0.6", "1"],
                                      ["copies", "good", "0", "", "0.8", "0.6", "1"]]
    assert found["regressions"].rows == [["a", "0.5", "0.375", "0.125"]]
    assert found["determined"].rows == [["a determines b", "99 %", "87.5 %"]]


# Dependences


HALVES = [Partition((), j, np.array([-1.0, 0.0, 1.0])) for j in range(2)]


@pytest.mark.parametrize(("product", "strength"), [(None, 0.3), (0.02, 0.3), (0.2, 0.4), (-0.2, 0.4), (0.9, 1.0)])
def test_the_strength_is_the_greater_one_of_the_table_s_and_the_first_product_s(monkeypatch, product, strength):
    table = np.array([[0.4, 0.1], [0.1, 0.4]])
    pair = SimpleNamespace(columns=(0, 1), table=table, maps=(np.arange(2), np.arange(2)),
                           deviation=np.array([[0.01, 0.04]]))
    finer = SimpleNamespace(columns=(0, 1), table=np.eye(4) / 4, maps=None, deviation=9.0)
    products = np.array([9.0, 0.5 + (product or 0.0)])
    monkeypatch.setattr(dependences, "Targets", lambda release: SimpleNamespace(pairs=[pair, finer], products=products))
    monkeypatch.setattr(dependences, "independent", lambda release: (None, np.array([0.0, 0.5])))
    query = SimpleNamespace(tells_tables=False, factors=np.array([[0, 1, 1, 0], [0, 1, 0, 0]]),
                            features=[np.array([[1.0, 5.0], [-1.0, 5.0]])] * 2)
    release = SimpleNamespace(columns=[ReleasedColumn(each, np.array([0.5, 0.5]), 0.01) for each in HALVES],
                              products=None if product is None else SimpleNamespace(query=query))
    fit = SimpleNamespace(points=np.array([[-0.5, -0.5], [0.5, 0.5], [0.5, -0.5]]), weights=np.array([0.5, 0.25, 0.25]))
    found, = dependences.dependences_of(release, fit)
    assert (found.first, found.second, found.shape, found.noise) == (0, 1, (2, 2), 0.04)
    assert found.strength == pytest.approx(strength)
    # The synthetic table is [[.5, 0], [.25, .25]]: an eighth apart in each of four cells.
    assert found.synthetic == pytest.approx(0.25)
    assert found.uncertainty == pytest.approx(math.sqrt(2.0 / math.pi) / 2.0 * 0.04 * 4.0)


def test_the_strongest_dependence_comes_first_and_rounding_is_none(monkeypatch):
    def pair(columns, apart):
        return SimpleNamespace(columns=columns, maps=(np.arange(2),) * 2, deviation=0.01,
                               table=np.full((2, 2), 0.25) + apart * np.array([[1.0, -1.0], [-1.0, 1.0]]))

    held = [pair((0, 1), 1e-11), pair((0, 2), 0.05), pair((1, 2), 0.1)]
    monkeypatch.setattr(dependences, "Targets", lambda release: SimpleNamespace(pairs=held))
    columns = [ReleasedColumn(Partition((), j, np.array([-1.0, 0.0, 1.0])), np.ones(2) / 2, 0.01) for j in range(3)]
    fit = SimpleNamespace(points=np.zeros((1, 3)), weights=np.ones(1))
    found = dependences.dependences_of(SimpleNamespace(columns=columns, products=None), fit)
    assert [(each.first, each.second) for each in found] == [(1, 2), (0, 2), (0, 1)]
    assert [each.strength for each in found[:2]] == pytest.approx([0.2, 0.1], rel=1e-12)
    assert found[2].strength == 0.0


def test_integrals_over_ranks_are_those_of_the_numbers_alone():
    column = ReleasedColumn(Partition((0,), 1, np.array([-1.0, 0.0, 1.0])), np.array([0.5, 0.2, 0.3]), 0.01)
    found = dependences._within(column, np.array([0, 1, 1]), np.array([[0.0, 9.0], [0.5, 9.0], [-0.25, 9.0]]))
    np.testing.assert_allclose(found, [0.0, (0.1 - 0.075) / 0.5])


# Releases of tables


def look(values, noise, partition):
    return Measurement(Histogram(0, partition), 1.0, np.array(values), noise)


MIXED = Partition((0,), 1, np.array([-1.0, -0.5, 0.5, 1.0]))


def test_noise_and_differences_of_columns_are_those_of_shares_below_a_value():
    first = look([0.2, 0.3, 0.3, 0.2], 0.01, MIXED)
    names = Measurement(Histogram(1, Partition((2, 3), None, np.empty(0))), 1.0, np.array([0.6, 0.4]), 0.02)
    schema = tm.Schema([tm.Column("x", 0, 10, special=[99]), tm.Column("c", kind="categorical", categories=["p", "q"]),
                        tm.Column("y", 0, 1)])
    points = np.array([[1.0, 0.0, 1.0, 0.0, 0.0], [0.0, -0.75, 1.0, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0, 0.0],
                       [0.0, 0.75, 0.0, 1.0, 0.0]])
    synthesis = SimpleNamespace(schema=schema, distribution=SimpleNamespace(points=points, weights=np.full(4, 0.25)))
    third = ReleasedColumn(Partition((), 4, np.linspace(-1.0, 1.0, 5)), np.full(4, 0.25), 0.03)
    release = SimpleNamespace(columns=[None, None, third], known=[], look_at=lambda j: (first, names, None)[j])
    account = tables.TableAccount(synthesis, release)
    greatest = first.query.greatest_noise, names.query.greatest_noise
    assert account.noise() == pytest.approx([0.01 * greatest[0], 0.02 * greatest[1], 0.06])
    assert [each is None for each in account.columns([
        ColumnShares(schema.columns[0], ("= 99",), np.zeros(1), np.linspace(0.0, 10.0, 5), np.zeros(4), 0.0, 0.0),
        ColumnShares(schema.columns[1], ("p", "q"), np.zeros(2), np.empty(0), np.empty(0), 0.0, 0.0), None])] == [
        False, False, True]
    rows = account.errors().rows
    # Below -.5 a quarter of the rows and .3 released; below .5 a half and .6; below 1 three quarters and .8.
    assert rows[0] == ["x", "shares below a value", f"{100.0 * 0.01 * greatest[0]:.3g} %", "10 %",
                       f"{0.1 / (0.01 * greatest[0]):.2g}"]
    assert rows[1] == ["c", "shares of categories", f"{100.0 * 0.02 * greatest[1]:.3g} %", "10 %",
                       f"{0.1 / (0.02 * greatest[1]):.2g}"]
    assert len(rows) == 2


def test_released_frequencies_in_other_bins_are_parts_of_their_intervals():
    column = tm.Column("x", 0, 10, special=[99])
    own = ColumnShares(column, ("= 99",), np.zeros(1), np.array([0.0, 2.5, 5.0, 10.0]), np.zeros(3), 0.0, 0.0)
    found = tables._noisy(look([0.2, 0.3, 0.3, 0.2], 0.01, MIXED), own)
    assert found.named.tolist() == [0.2]
    np.testing.assert_allclose(found.named_noise, [0.01])
    # Bins end at -.5, 0 and 1: the middle interval from -.5 to .5 is halved.
    np.testing.assert_allclose(found.shares, [0.3, 0.15, 0.35])
    np.testing.assert_allclose(found.shares_noise, 0.01 * np.array([1.0, 0.5, math.hypot(0.5, 1.0)]))


def test_levels_of_ordinal_columns_divide_their_intervals_and_missing_values_come_last():
    column = tm.Column("x", kind="ordinal", categories=["a", "b", "c"], missing="keep")
    partition = Partition((1,), 0, np.array([-1.0, 0.5, 1.0]), np.array([-1.0, 0.0, 1.0]))
    own = ColumnShares(column, ("a", "b", "c", "missing"), np.zeros(4), np.empty(0), np.empty(0), 0.0, 0.0)
    found = tables._noisy(look([0.1, 0.6, 0.3], 0.01, partition), own)
    np.testing.assert_allclose(found.named, [0.3, 0.3, 0.3, 0.1])
    np.testing.assert_allclose(found.named_noise, [0.005, 0.005, 0.01, 0.01])
    assert (found.shares.size, found.shares_noise.size) == (0, 0)


def test_rounds_are_told_with_the_numbers_of_each():
    def marginal(columns):
        partitions = tuple(Partition((), j, np.array([-1.0, 0.0, 1.0])) for j in columns)
        return Measurement(Marginal(columns, partitions, (np.arange(2),) * len(columns)), 1.0,
                           np.zeros(2 ** len(columns)), 0.03)

    numbers = Partition((), 0, np.array([-1.0, 0.0, 1.0]))
    close = Measurement(Detail(0, numbers, 1, np.array([0.0, 0.5, 1.0])), 1.0, np.zeros(2), 0.04)
    first, names = look([0.2, 0.3, 0.3, 0.2], 0.01, MIXED), Measurement(
        Histogram(1, Partition((2, 3), None, np.empty(0))), 1.0, np.array([0.6, 0.4]), 0.02)
    twice, one, finer, three = marginal((0, 1)), marginal((1, 2)), marginal((0, 1)), marginal((0, 1, 2))
    release = SimpleNamespace(
        K=1_234, looks=[first, names], closer=[close], tables=[twice, one, finer], triples=[three], products=None,
        directions=None, known=[first, names], measurements=[0, 1, 2])
    account = tables.TableAccount(SimpleNamespace(), release)
    assert [(words, len(noise)) for words, noise in account._rounds()] == [
        ("first: frequencies of categories, special and missing values", 3),
        ("first: intervals of 1 columns with an order", 3),
        ("first: signs of cosines of 0 columns of numbers", 0),
        ("second: within 1 heavy intervals of 1 columns", 2),
        ("third: cells of tables of 2 pairs of columns, 1 of them twice", 8),
        ("third: products of ranks of 0 pairs of them", 0),
        ("last: positions of 1 pairs of columns of which one nearly determines the other", 4),
        ("last: cells of tables of 1 sets of three columns", 8)]
    release.directions = SimpleNamespace(query=SimpleNamespace(size=8, partitions=[None] * 4))
    assert account._products_named == "third: products of the directions of rows, for 6 pairs of columns"
    release.directions = None
    for tells, words in ((True, "third: products of contrasts of 3 pairs"), (False, "third: products of contrasts of 3 "
                                                                                    "pairs of them")):
        release.products = SimpleNamespace(query=SimpleNamespace(factors_named="contrasts", pairs=[1, 2, 3],
                                                                 tells_tables=tells))
        assert account._products_named == words


@pytest.mark.parametrize(("misfit", "dependent"), [(1.25, True), (None, False)])
def test_how_rows_were_made_is_told(misfit, dependent):
    fit = SimpleNamespace(misfit=misfit, dependent=dependent, status="converged", iterations=1_234, seconds=2.5)
    rows = dict(tables.TableAccount(SimpleNamespace(fit=fit), None)._fitted())
    assert rows["Mean squared deviation from the fitted numbers, in units of the noise"] == (
        "—" if misfit is None else 1.25)
    assert rows["Dependence between columns"] == f"above the noise for {'some' if dependent else 'no'} pair"
    assert (rows["Status"], rows["Seconds"]) == ("converged after 1,234 sweeps", 2.5)


# Releases of moments


def test_how_points_were_made_is_told():
    def rows(**given):
        fit = SimpleNamespace(**{"misfit": 1.5, "shrunk": True, "dependent": False, "status": "s", "iterations": 1_234,
                                 "seconds": 2.0, "objective": 0.1, "gap": 0.01} | given)
        return dict(moments.MomentAccount(SimpleNamespace(fit=fit), None)._fitted())

    found = rows()
    assert (found["Moments below the noise"], found["Dependence between columns"], found["Status"]) == (
        "shrunk first", "above the noise for no pair", "s after 1,234 iterations")
    assert rows(shrunk=False, dependent=True)["Moments below the noise"] == "taken as released"
    assert rows(dependent=True)["Dependence between columns"] == "above the noise for some pair"
    assert rows(misfit=None) == {"Method": "weights on given points, by a linear program", "Objective": 0.1,
                                 "Certified gap": 0.01, "Status": "s after 1,234 iterations", "Seconds": 2.0}


def test_axes_are_told_with_the_deviation_of_their_noise():
    charges = [SimpleNamespace(purpose="mean", scale=2.0, law="laplace"),
               SimpleNamespace(purpose="axes", scale=3.0, law="gaussian")]
    release = SimpleNamespace(mean=np.zeros(4), axes=SimpleNamespace(images=np.zeros((2, 4))))
    account = moments.MomentAccount(SimpleNamespace(ledger=SimpleNamespace(charges=charges)), release)
    assert account._axes() == [("mean of the rows", 4, pytest.approx(2.0 * math.sqrt(2.0)), pytest.approx(
        2.0 * math.sqrt(2.0))), ("principal axes, at each iteration", 8, 3.0, 3.0)]
    release.axes = None
    assert account._axes() == []
    assert moments._row("name", np.array([0.3, 0.1])) == [("name", 2, 0.1, 0.3)]
    assert moments._row("name", np.empty(0)) == []


# Late warnings


def coarse(noise, k, n=100):
    schema = tm.Schema([tm.Column("c", kind="categorical", categories=[f"k{i}" for i in range(k)])])
    query = Histogram(0, Partition(tuple(range(k)), None, np.empty(0)))
    return advice.coarseness_in([Measurement(query, 1.0, None, noise)], n, schema)


def test_categories_are_coarse_where_noise_is_above_their_average():
    assert coarse(0.2, 5) == []
    assert coarse(0.201, 5) == ["column 'c' has 5 categories: on average a category holds 20 % of the rows, and the "
                                "noise in it is 20 percentage points; combine rare categories"]


def test_numbers_are_rough_where_a_share_is_off_by_a_tenth():
    schema = tm.Schema([tm.Column(name, 0, 1) for name in "abcde"])
    queries = [Histogram(j, Partition((), j, np.linspace(-1.0, 1.0, 5))) for j in range(5)]
    limit = 0.1 / queries[0].greatest_noise
    assert advice.coarseness_in([Measurement(each, 1.0, None, 0.999 * limit) for each in queries], 60, schema) == []
    for count, named in ((1, "'a'"), (3, "'a', 'b', 'c'"), (5, "'a', 'b', 'c' and 2 more")):
        asked = [Measurement(each, 1.0, None, 1.001 * limit) for each in queries[:count]]
        found = advice.coarseness_in(asked, 60, schema)
        assert found == [f"60 rows are few for 5 columns at this budget: the distribution of {named} will have errors "
                         "above 10 percentage points in some places"]


def test_tables_are_faint_if_the_least_noise_of_any_is_above_a_twentieth():
    def said(*noises):
        asked = [SimpleNamespace(query=SimpleNamespace(tells_tables=tells), deviation=noise) for noise, tells in noises]
        return advice.coarseness_in(asked, 60, tm.Schema([tm.Column("a", 0, 1)]))

    assert said() == said((0.05, True)) == said((0.06, True), (0.05, True)) == said((0.06, False)) == []
    assert said((0.0501, True), (0.06, True), (0.01, False)) == [
        "the noise in all tables of two columns is above 5 percentage points per cell: the release will find only "
        "strong dependences; fewer columns or a larger budget show more"]


@pytest.mark.parametrize(("edge", "beside", "noise", "told"), [
    (0.1, 0.03, 0.01, True), (0.099, 0.03, 0.0, False), (0.1, 0.034, 0.0, False), (0.1, 0.03, 0.0101, False)])
@pytest.mark.parametrize("side", ["lower", "upper"])
def test_a_pile_at_a_bound_is_told_if_it_is_high_steep_and_above_noise(monkeypatch, edge, beside, noise, told, side):
    sign = -1.0 if side == "lower" else 1.0
    points = sign * np.array([[1.0], [0.91], [0.5]])
    schema = tm.Schema([tm.Column("x", 3, 40)])
    made = SimpleNamespace(fit=SimpleNamespace(misfit=1.0), schema=schema, distribution=SimpleNamespace(
        points=points, weights=np.array([edge, beside, 1.0 - edge - beside])))
    monkeypatch.setattr(advice, "account_of", lambda made: SimpleNamespace(noise=lambda: [noise]))
    found = advice.clipping_of(made)
    bound = {"lower": 3, "upper": 40}[side]
    assert found == [f"column 'x': 10 % of the synthetic values lie at the {side} bound {bound}; if this is not true "
                     "of real values, the bound clips them"] * told
    made.fit.misfit = None
    assert advice.clipping_of(made) == []
    made.fit.misfit = 1.0
    for lower, upper, few in ((0, 79, True), (0, 80, False)):
        made.schema = tm.Schema([tm.Column("x", lower, upper, kind="integer")])
        assert bool(advice.clipping_of(made)) == (told and not few)


@pytest.mark.parametrize(("column", "end"), [
    (tm.Column("x", 0, 60_000), "between the lower bound 0 and 1500,"),
    (tm.Column("x", 0, 99_999, transform="log1p"), "between the lower bound 0 and 0.3335,"),
    (tm.Column("x", datetime.date(2000, 1, 1), datetime.date(2000, 4, 10), "datetime"),
     "between the lower bound 2000-01-01 and 2000-01-04,")])
@pytest.mark.parametrize("at", [0.0, 0.05, 0.11])
def test_values_beside_a_bound_are_not_said_to_lie_at_it(monkeypatch, column, end, at):
    points = np.array([[-1.0], [-0.98], [0.5]])
    made = SimpleNamespace(fit=SimpleNamespace(misfit=1.0), schema=tm.Schema([column]), distribution=SimpleNamespace(
        points=points, weights=np.array([at, 0.4 - at, 0.6])))
    monkeypatch.setattr(advice, "account_of", lambda made: SimpleNamespace(noise=lambda: [0.0]))
    (found,) = advice.clipping_of(made)
    if at >= 0.1:
        assert found.startswith(f"column 'x': {100 * at:.0f} % of the synthetic values lie at the lower bound ")
    else:
        assert f"40 % of the synthetic values lie {end} in a fortieth of the range; if this is not true" in found


@pytest.mark.daily(3)
@pytest.mark.parametrize("column", [
    tm.Column("x", 0, 1_000), tm.Column("x", 0, 1_000, "integer"), tm.Column("x", 0, 1_000, decimals=1),
    tm.Column("x", 0, 1_000, missing="keep", special=(500,)), tm.Column("x", -1_000, 0)])
@pytest.mark.parametrize("piled", [0.0, 0.3])
def test_what_is_said_of_values_at_bounds_is_true_of_the_synthetic_rows(column, piled):
    rng = np.random.default_rng(4)
    values = np.where(rng.random(3_000) < piled, 0.0, rng.exponential(8.0, 3_000).round(1) + 0.6)
    sign = 1.0 if column.upper else -1.0
    made = tm.synthesize(pa.table({"x": sign * (values.round() if column.kind == "integer" else values)}),
                         tm.Schema([column]), tm.Budget(3.0, 1e-6), rng=rng)
    said, held = advice.clipping_of(made), np.abs(np.array(made.sample(3_000)["x"].to_pylist(), dtype=float))
    side = "lower" if sign > 0.0 else "upper"
    assert said
    for sentence in said:
        told = float(re.search(r": (\d+) % of", sentence)[1]) / 100.0
        where = (held == 0.0) if f"at the {side} bound 0" in sentence else (held <= 25.0)
        assert abs(where.mean() - told) < 0.02, sentence
    assert any(f"at the {side} bound 0" in sentence for sentence in said) == (piled > 0.0)
