"""Mechanisms of one's own by rounds of queries: charges, choices, and all that the package's own mechanisms have."""

import math
import warnings
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations, permutations
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import trigmech as tm
from trigmech.errors import PaidError
from trigmech.functions.partition import columns_of
from trigmech.measurement.exact import exact_sums
from trigmech.measurement.rows import PrivateRows
from trigmech.mechanisms.adaptive import SoFar, check_query_of_own
from trigmech.mechanisms.base import Design, Measured
from trigmech.planning.design import Regime, Round
from trigmech.privacy import noise as noises
from trigmech.privacy.noise import SimulatedNoise, SystemNoise, falls
from trigmech.queries.base import Measurement, Query, scaled, sensitivity_of
from trigmech.queries.book import register
from trigmech.queries.functions import Functions
from trigmech.queries.one_way import Histogram
from trigmech.reconstruction.common import common_positions
from trigmech.report import page
from trigmech.report.lead import forecast_of
from trigmech.report.tables import account_of

SCHEMA = tm.Schema([
    tm.Column("x", 0, 1), tm.Column("y", 0, 1), tm.Column("age", 0, 60, "integer"),
    tm.Column("region", kind="categorical", categories=("north", "south", "west")),
    tm.Column("pay", 0, 9, missing="keep")])


def table(n=900, seed=0):
    rng = np.random.default_rng(seed)
    x, region = rng.random(n), rng.integers(0, 3, n)
    return pd.DataFrame({"x": x, "y": (x + 0.1 * rng.random(n)) % 1.0, "age": rng.integers(0, 20, n) + 20 * region,
                         "region": np.array(["north", "south", "west"])[region],
                         "pay": np.where(rng.random(n) < 0.2, np.nan, 9 * rng.random(n))})


class Strongest(tm.AdaptiveMechanism):
    rounds = (tm.Measure(0.3), tm.Select(0.1, count=2), tm.Measure(0.6))
    points = 300

    def ask(self, so_far):
        names = so_far.facts.names
        if so_far.round == 0:
            return [so_far.histogram(name) for name in names]
        if so_far.round == 1:
            return [so_far.marginal(*pair) for pair in combinations(names, 2)]
        return so_far.selected


@register
@dataclass(frozen=True, eq=False)
class Distance(Query):
    """Half the mean distance of two numbers: a kind of query in one class and one registration."""

    name: ClassVar[str] = "distance"
    first: int
    second: int
    size = 1
    kind = "mean distance"

    @property
    def columns(self):
        return self.first, self.second

    def evaluate(self, points):
        return 0.5 * np.abs(points[:, [self.first]] - points[:, [self.second]])

    def diameter(self, norm):
        return 1.0

    def names(self, coordinates):
        return [f"|{coordinates[self.first]} - {coordinates[self.second]}| / 2"]

    def written(self, book):
        return [self.first, self.second], np.empty(0)

    @classmethod
    def read(cls, integers, floats, book):
        return cls(integers.one(), integers.one())


class OwnQuery(tm.AdaptiveMechanism):
    rounds = (tm.Measure(0.5), tm.Measure(0.5))
    points = 300

    def ask(self, so_far):
        if so_far.round == 0:
            products = tm.ChebyshevBasis(np.eye(so_far.facts.domain.d, dtype=np.int64)[:3] + [[0, 1] + [0] * 6] * 3)
            return [Distance(0, 1), so_far.histogram("region"), so_far.histogram("x", intervals=8),
                    so_far.functions(products, np.array([1.0, 2.0, 1.0]))]
        return [so_far.marginal("x", "y"), so_far.marginal("age", "pay", "region", cells=4), so_far.marginal("age")]


BUDGETS = (tm.Budget(2.0, 1e-6), tm.Budget(2.0))


@pytest.fixture(scope="module", params=[(Strongest, 0), (Strongest, 1), (OwnQuery, 0), (OwnQuery, 1)],
                ids=["strongest", "strongest, pure", "own query", "own query, pure"])
def made(request):
    kind, budget = request.param
    return tm.synthesize(table(), SCHEMA, BUDGETS[budget], kind(), np.random.default_rng(1))


def test_what_is_charged_is_what_the_design_declares_and_within_the_budget(made):
    planned = tm.design(900, SCHEMA, made.ledger.budget, made.mechanism)
    assert list(planned.all_charges) == list(made.ledger.charges)
    assert len(planned.charges) == planned.passes == len(made.mechanism.rounds)
    account = tm.Ledger(made.ledger.budget)
    account.charge(*planned.all_charges)
    assert account.proved_epsilon <= made.ledger.budget.epsilon
    # And not by far less.
    assert account.proved_epsilon >= 0.85 * made.ledger.budget.epsilon
    # What choices leave is spent on noise, whose strengths are as the rounds' shares.
    noise = [charge for charge in planned.all_charges if charge.law != "exponential"]
    shares = [each.share for each in made.mechanism.rounds if isinstance(each, tm.Measure)]
    assert sum(each.share for each in made.mechanism.rounds) == pytest.approx(1.0)
    account = tm.Ledger(made.ledger.budget)
    account.charge(*noise)
    assert account.proved_epsilon == pytest.approx(sum(shares) * made.ledger.budget.epsilon, rel=1e-4)
    power = 2 if made.ledger.budget.delta else 1
    assert [(charge.sensitivity / charge.scale) ** power for charge in noise] == pytest.approx(
        [share * (noise[0].sensitivity / noise[0].scale) ** power / shares[0] for share in shares], rel=1e-4)


@pytest.mark.nightly  # By day test_saved.py has mechanisms of all kinds.
@pytest.mark.usefixtures("unpainted")
@pytest.mark.usefixtures("few_resamples")
def test_the_release_is_saved_and_loaded_with_all_that_it_gives(made, tmp_path):
    made.save(tmp_path / "r.tm")
    again = tm.load(tmp_path / "r.tm", mechanism=type(made.mechanism)())
    np.testing.assert_array_equal(again.release.means, made.release.means)
    assert again.names == made.names
    pd.testing.assert_frame_equal(again.sample(500, np.random.default_rng(3)),
                                  made.sample(500, np.random.default_rng(3)))
    given = {"given": {"region": "south"}}
    pd.testing.assert_frame_equal(again.sample(50, np.random.default_rng(3), **given),
                                  made.sample(50, np.random.default_rng(3), **given))
    bars = [each.error_bars(lambda rows: np.mean(rows["x"])).error.bound for each in (made, again)]
    assert bars[0] == bars[1] > 0.0
    assert abs(made.expect(lambda rows: rows["x"], units="table") - table()["x"].mean()) < 3 * bars[0]
    alone = tm.load(tmp_path / "r.tm")
    assert not alone.has_error_bars
    with pytest.raises(tm.InputError, match=f"{type(made.mechanism).__name__} made this release, and its file"):
        alone.error_bars(lambda rows: np.mean(rows["x"]))
    with pytest.raises(tm.InputError, match="give mechanism="):
        tm.generate(tm.NoisyMoments.load(tmp_path / "r.tm"))
    # Of a mechanism that nobody knows there is a page, too.
    if isinstance(made.mechanism, OwnQuery) and made.ledger.budget.delta:
        assert "region" in page.write(alone, tmp_path / "r.html").read_text()
    assert len(tm.generate(again, 7, np.random.default_rng(0))) == 7


def test_rows_have_the_tables_that_were_measured(made):
    """Each measured table of two columns is nearer to the truth than independent columns are to it."""
    points = SCHEMA.to_cube(table())
    for each in made.release.tables:
        truth, own = each.query.means(points), each.query.means(made.distribution.points)
        independent = np.outer(truth.sum(axis=1), truth.sum(axis=0))
        away = 0.5 * np.abs(truth - independent).sum()
        assert 0.5 * np.abs(truth - own).sum() < max(0.8 * away, 0.12)


def test_choices_find_the_tables_that_depend():
    chosen = []
    for seed in range(6):
        release = tm.measure(table(), SCHEMA, tm.design(900, SCHEMA, BUDGETS[0], Strongest()),
                             np.random.default_rng(seed)).release
        chosen += [each.query.columns for each in release.tables]
    assert chosen.count((0, 1)) == chosen.count((2, 3)) == 6


@pytest.mark.daily(3)  # Each mechanism, and each budget.
@pytest.mark.parametrize("kind", [Strongest, OwnQuery])
@pytest.mark.parametrize("budget", BUDGETS)
def test_parts_give_the_same_release_as_the_whole(kind, budget, tmp_path):
    rows = table(300)
    design = tm.design(300, SCHEMA, budget, kind())
    whole = tm.measure(rows, SCHEMA, design, np.random.default_rng(5)).release
    step = design
    while isinstance(step, tm.Design):
        parts = [tm.measure_part(rows.iloc[k::3], step) for k in range(3)]
        step = tm.release_parts(parts, step, np.random.default_rng(5))
    np.testing.assert_array_equal(step.release.means, whole.means)


@pytest.mark.nightly  # By day test_engines.py compares processes with one, for two mechanisms.
def test_processes_give_the_same_release_as_the_whole(tmp_path):
    rows = table(3_000)
    design = tm.design(3_000, SCHEMA, BUDGETS[0], Strongest())
    for k in range(2):
        rows.iloc[1_000 * k : 1_000 * (k + 1) + 1_000 * k].to_parquet(tmp_path / f"{k}.parquet")
    files = [tmp_path / f"{k}.parquet" for k in range(2)]
    found = tm.measure(files, SCHEMA, design, np.random.default_rng(3), engine="processes", workers=2)
    whole = tm.measure(rows, SCHEMA, design, np.random.default_rng(3))
    np.testing.assert_array_equal(found.release.means, whole.release.means)


def test_a_run_that_was_broken_off_goes_on_and_is_charged_once(tmp_path):
    ledger = tm.LedgerFile.create(tmp_path / "ledger.json", tm.Budget(10.0, 1e-5), data_set="made")

    class Broken(Strongest):
        def ask(self, so_far):
            if so_far.round == 2 and not (tmp_path / "mended").exists():
                raise KeyboardInterrupt
            return super().ask(so_far)

    def run():
        return tm.synthesize(table(), SCHEMA, BUDGETS[0], Broken(), ledger=ledger, rounds=tmp_path / "rounds")

    with pytest.raises(KeyboardInterrupt):
        run()
    (tmp_path / "mended").touch()
    first, second = run(), run()
    assert len(tm.LedgerFile.open(tmp_path / "ledger.json").entries) == 3
    np.testing.assert_array_equal(first.release.means, second.release.means)


def test_a_preview_has_the_noise_of_the_first_round():
    shown = tm.preview(900, SCHEMA, BUDGETS[0], mechanism=Strongest())
    release = tm.measure(table(), SCHEMA, tm.design(900, SCHEMA, BUDGETS[0], Strongest()),
                         np.random.default_rng(0)).release
    below = {each.column: each.error for each in shown.columns if "below" in each.what}
    look = release.look_at(0)
    assert math.isclose(below["x"], 100.0 * look.deviation * look.query.greatest_noise)
    assert "round 3" in str(shown)
    # A kind of query that previews know nothing about.
    own = tm.preview(900, SCHEMA, BUDGETS[0], mechanism=OwnQuery())
    asked = tm.design(900, SCHEMA, BUDGETS[0], OwnQuery()).measured.first[0]
    assert [each.error for each in own.together if each.what == "mean distance, at worst"] == [asked.deviation]


def test_whatever_ask_does_after_the_charge_nothing_is_lost():
    class Fails(Strongest):
        def ask(self, so_far):
            if so_far.round == 2:
                raise ZeroDivisionError("oh")
            return super().ask(so_far)

    with pytest.warns(UserWarning, match="Fails.ask failed with ZeroDivisionError: oh"):
        found = tm.synthesize(table(), SCHEMA, BUDGETS[0], Fails(), np.random.default_rng(0))
    assert len(found.release.looks) == 5
    assert not found.release.tables
    assert len(found.sample()) == 900
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("error")
        again = tm.synthesize(table(), SCHEMA, BUDGETS[0], Fails(), np.random.default_rng(0))
    assert [str(each.message)[:24] for each in told] == ["round 3 was not measured"]
    assert np.array_equal(again.means, found.means)


@pytest.mark.parametrize("fault", [
    {"evaluate": lambda self, points: points[:5, :1]}, {"evaluate": lambda self, points: points[:, :1] * 1j},
    {"names": lambda self, coordinates: []}, {"columns": (99,)}])
def test_a_query_of_ones_own_with_a_fault_costs_its_round_alone(fault):
    class Later(Strongest):
        def ask(self, so_far):
            return [type("Own", (Distance,), fault)(0, 1)] if so_far.round == 2 else super().ask(so_far)

    with pytest.warns(UserWarning, match="Later.ask failed with InputError: a query's"):
        found = tm.synthesize(table(), SCHEMA, BUDGETS[0], Later(), np.random.default_rng(0))
    assert len(found.release.looks) == 5
    assert len(found.names) == len(found.means)


NUMBERS = tm.Schema([tm.Column("a", 0, 1), *(tm.Column(f"c{i}", 0, 40, "integer") for i in range(12))])
# What memory or a file cannot hold, or a choice's charge does not pay for.
TOO_LARGE = {
    "a table of 41^12 cells": lambda so_far: [so_far.marginal(*range(1, 13), cells=41)],
    "tables of many cells together": lambda so_far: [so_far.marginal(4, 5, 6, cells=41)] * 300,
    "a table with more cells than a choice's charge pays for": lambda so_far: [so_far.marginal(4, 5, 6, 7, cells=41)],
    "a histogram of many intervals": lambda so_far: [so_far.histogram("a", 2**60)],
    "a degree that no file holds": lambda so_far: [so_far.functions(tm.ChebyshevBasis(
        np.array([[2**40] + [0] * 12])))],
    "a weight near 0": lambda so_far: [Measurement(so_far.histogram("a", 5), 1e-300), so_far.histogram("c1")],
    "a function's weight near 0": lambda so_far: [so_far.functions(tm.ChebyshevBasis.graded(13, 2),
                                                                   np.array([1e-300, 1.0]))],
}


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("name", TOO_LARGE)
def test_what_memory_or_files_cannot_hold_costs_nothing_or_its_round_alone(name, delta, tmp_path):
    class Large(tm.AdaptiveMechanism):
        points = 64

        def __init__(self, later):
            self.later = later
            self.rounds = tuple((tm.Select if "choice" in name else tm.Measure)(0.3) if k == later else tm.Measure(0.3)
                                for k in range(2))

        def ask(self, so_far):
            return TOO_LARGE[name](so_far) if so_far.round == self.later else [so_far.histogram("c2")]

    rows = np.random.default_rng(0).integers(0, 2, (300, 13))
    with pytest.raises(tm.TrigmechError):
        tm.design(300, NUMBERS, tm.Budget(1.0, delta), Large(0))
    with pytest.warns(UserWarning, match="round 2.*was not measured"):
        made = tm.synthesize(rows, NUMBERS, tm.Budget(1.0, delta), Large(1), np.random.default_rng(0))
    made.save(tmp_path / "made.tm")
    assert np.array_equal(tm.load(tmp_path / "made.tm").means, made.means)


def test_a_query_of_ones_own_that_fails_at_rows_is_told_with_the_charge():
    """No round may be left out because of private rows: its absence would tell about them. So would a row's value."""
    def evaluate(self, points):
        if len(points) > 64:
            raise KeyError("rare")
        return points[:, :1]

    class Later(Strongest):
        def ask(self, so_far):
            own = type("Own", (Distance,), {"evaluate": evaluate})
            return [own(0, 1)] if so_far.round == 2 else super().ask(so_far)

    with pytest.raises(PaidError, match=r"'mean distance' cannot be evaluated at rows of the table \(KeyError\)\. "
                                        "A charge was made before"):
        tm.synthesize(table(), SCHEMA, BUDGETS[0], Later(), np.random.default_rng(0))


@pytest.mark.parametrize(("rounds", "words"), [
    ((), "Measure and Select, with at least one Measure"), ((tm.Select(0.5),), "at least one Measure"),
    ((tm.Measure(0.7), tm.Measure(0.4)), "sum to at most 1"),
    ((tm.Measure(0.0),), r"above 0 .*, not Measure\(share=0.0\)"),
    ((tm.Measure(0.5), tm.Select(0.5, count=0)), r"a whole number of tables.*it is Select\(share=0.5, count=0\)"),
    ((0.5,), "Measure and Select"), (tm.Measure(1.0), r"a tuple of Measure and Select, not Measure\(share=1.0\)")])
def test_rounds_that_cannot_be_are_refused_before_the_charge(rounds, words):
    with pytest.raises(tm.InputError, match=words):
        tm.design(900, SCHEMA, BUDGETS[0], type("Own", (Strongest,), {"rounds": rounds})())


@pytest.mark.parametrize(("asked", "words"), [
    (lambda so_far: [so_far.histogram("height")], "there is no column 'height'"),
    (lambda so_far: [so_far.marginal("x", "x")], "all different, not 'x', 'x'"),
    (lambda so_far: ["x"], "must ask queries"), (lambda so_far: so_far.histogram("x"), "must return a list of queries"),
    (lambda so_far: None, "such as .so_far.histogram......, not None"),
    (lambda so_far: [type("Far", (Distance,), {"evaluate": lambda self, p: 2 * p[:, :1] + 2})(0, 1)],
     r"lie in \[-1, 1\]"),
    (lambda so_far: [type("All", (Distance,), {"evaluate": lambda self, p: p[:, :1] - p[:, :1].mean()})(0, 1)],
     "must not depend on other points"),
    (lambda so_far: [type("Flat", (Distance,), {"evaluate": lambda self, p: p[:, 0]})(0, 1)], "values for each point"),
    (lambda so_far: [type("Still", (Distance,), {"diameter": lambda self, norm: 0.0})(0, 1)],
     "diameter must be above 0"),
    (lambda so_far: [so_far.histogram("x", -3)], "intervals must be a positive integer, not -3"),
    (lambda so_far: [so_far.histogram("x", 2.5)], "intervals must be a positive integer, not 2.5"),
    (lambda so_far: [so_far.marginal("x", cells=0)], "cells must be a positive integer, not 0"),
    (lambda so_far: [so_far.marginal("x", cells="4")], "cells must be a positive integer, not '4'"),
    (lambda so_far: [so_far.histogram(True)], "there is no column True"),
    (lambda so_far: [so_far.functions(np.tanh)], "a set with d, K and evaluate, .* which lacks d, K, evaluate"),
    (lambda so_far: [so_far.functions(tm.ChebyshevBasis)], "a set with d, K and evaluate, .* an object of type"),
    (lambda so_far: [so_far.functions(tm.ChebyshevBasis.total_degree(1, 2))], "of 1 coordinates, but the rows have"),
    (lambda so_far: [so_far.functions(tm.ChebyshevBasis(np.eye(SCHEMA.domain.d, dtype=int)), weights=[1.0])],
     "weights must be a numeric array of shape"),
    (lambda so_far: [Measurement(so_far.histogram("x"), -1.0)], "weight must be positive and finite, not -1.0")])
def test_what_cannot_be_asked_is_refused_before_the_charge(asked, words):
    mechanism = type("Own", (Strongest,), {"ask": lambda self, so_far: asked(so_far)})()
    with pytest.raises(tm.InputError, match=words):
        tm.design(900, SCHEMA, BUDGETS[0], mechanism)


class FromCorner(Strongest):
    """Expects that all rows are in the first cell."""

    def predicted(self, so_far, query):
        expected = np.zeros(query.shape)
        expected.flat[0] = so_far.round
        return expected


def scores_of(mechanism, design, so_far):
    points = SCHEMA.to_cube(table())
    return {each.columns: 0.5 * np.abs(each.means(points) - mechanism.predicted(so_far, each)).sum()
            for each in mechanism.ask(so_far)}


@pytest.mark.parametrize("kind", [Strongest, FromCorner])
def test_the_tables_that_are_furthest_from_the_prediction_are_chosen(kind):
    seen = []

    class Noting(kind):
        def ask(self, so_far):
            seen.append(so_far)
            return super().ask(so_far)

    design = tm.design(900, SCHEMA, tm.Budget(300.0, 1e-6), Noting())
    found = tm.measure(table(), SCHEMA, design, np.random.default_rng(0))
    scores = scores_of(kind(), design, next(each for each in seen if each.round == 1))
    assert {each.query.columns for each in found.release.tables} == set(sorted(scores, key=scores.get)[-2:])


def test_both_predictions_choose_different_tables():
    designs = [tm.design(900, SCHEMA, tm.Budget(300.0, 1e-6), kind()) for kind in (Strongest, FromCorner)]
    chosen = [{each.query.columns for each in tm.measure(
        table(), SCHEMA, design, np.random.default_rng(0)).release.tables} for design in designs]
    assert chosen[0] != chosen[1]


@pytest.mark.parametrize(("wrong", "words"), [
    (lambda query: np.full(query.shape, np.nan), "what predicted returns must hold finite numbers"),
    (lambda query: np.zeros(3), "what predicted returns must be a numeric array of shape"),
    (lambda query: None, "what predicted returns must be a numeric array of shape"),
    (lambda query: 1 // 0, "ZeroDivision")])
def test_a_prediction_that_is_none_is_refused_or_costs_its_round_alone(wrong, words):
    class Wrong(Strongest):
        def predicted(self, so_far, query):
            return wrong(query)

    class Chooses(Wrong):
        rounds = (tm.Select(0.5), tm.Measure(0.5))

        def ask(self, so_far):
            return [so_far.marginal("x", "y")]

    with pytest.raises((tm.InputError, ZeroDivisionError), match=words if words[0] == "w" else "by zero"):
        tm.design(900, SCHEMA, BUDGETS[0], Chooses())
    with pytest.warns(UserWarning, match=f"Wrong.ask failed with .*{words}"):
        found = tm.synthesize(table(), SCHEMA, BUDGETS[0], Wrong(), np.random.default_rng(0))
    assert len(found.release.looks) == 5


def test_a_prediction_out_of_range_is_clipped_as_the_charge_takes_it_to_be():
    class Far(Strongest):
        def predicted(self, so_far, query):
            return np.full(query.shape, 1e9)

    mechanism = Far()
    design = tm.design(900, SCHEMA, BUDGETS[0], Far())
    so_far = SoFar(design.facts, 0, (), (), common_positions(SCHEMA.domain, ()))
    query = Measurement(so_far.marginal("x", "y"))
    (clipped,) = mechanism._expected(so_far, tm.Select(0.5), [query])
    assert (clipped == 1.0).all()
    assert mechanism._expected(so_far, tm.Measure(0.5), [query]) == []


def test_no_replaced_row_moves_a_score_by_more_than_1_over_n():
    rng, n = np.random.default_rng(0), 40
    rows, others = SCHEMA.to_cube(table(n)), SCHEMA.to_cube(table(200, seed=99))
    design = tm.design(n, SCHEMA, BUDGETS[0], Strongest())
    charge, largest = design.charges[1], 0.0
    tables = tm.measure(table(n), SCHEMA, design, np.random.default_rng(7)).release.tables
    query = tables[0].query
    # Some cells have fewer rows than are expected, and others more.
    predicted = np.zeros(query.shape)
    predicted.flat[np.argsort(-query.means(others), axis=None)[:6]] = 1.0 / 6.0
    for trial in range(200):
        held = [rows, rows.copy()]
        held[1][trial % n] = others[rng.integers(200)]
        scores = [0.5 * np.abs(exact_sums(PrivateRows.of(each, SCHEMA.domain), [query])[0] / n - predicted).sum()
                  for each in held]
        largest = max(largest, abs(scores[0] - scores[1]))
    assert 0.5 / n < largest <= charge.sensitivity / 2.0


def test_a_session_refuses_to_measure_what_moves_further_than_its_charge():
    class Greedy(Strongest):
        def _asked(self, so_far, kind):
            return tuple(replace(each, weight=1.001 * each.weight) for each in super()._asked(so_far, kind))

    with pytest.raises(PaidError, match="can move further than the charge allows"):
        tm.synthesize(table(), SCHEMA, BUDGETS[0], Greedy(), np.random.default_rng(0))


def test_files_hold_the_options_of_the_mechanism(tmp_path):
    mechanism = tm.TableMechanism(points=123, workload=tm.workload.Marginals(2))
    made = tm.synthesize(table(), SCHEMA, BUDGETS[0], mechanism, np.random.default_rng(0))
    made.save(tmp_path / "r.tm")
    again = tm.NoisyMoments.load(tmp_path / "r.tm")
    assert again.mechanism == mechanism
    rows = [tm.reconstruct(each, np.random.default_rng(1)).distribution.points for each in (made, again)]
    assert len(rows[0]) == 123
    np.testing.assert_array_equal(*rows)


def chances(scores, scale):
    """Of permute-and-flip, by all orders: the plain law."""
    best, found = max(scores), np.zeros(len(scores))
    for order in permutations(range(len(scores))):
        left = 1.0
        for i in order:
            fall = math.exp((scores[i] - best) / scale)
            found[i] += left * fall
            left *= 1.0 - fall
    return found / math.factorial(len(scores))


@pytest.mark.parametrize("noise", [SystemNoise(), SimulatedNoise(np.random.default_rng(0))],
                         ids=["system", "simulated"])
def test_choices_have_their_law_and_a_wrong_scale_does_not(noise):
    scores, scale, runs = np.array([0.0, 0.3, 0.35, -np.inf, -0.4]), 0.25, 6_000
    counts = sum(noise.exponential(scores, scale) for _ in range(runs))
    known = np.isfinite(scores)
    assert counts[~known].sum() == 0.0
    law = chances(scores[known].tolist(), scale)
    assert stats.chisquare(counts[known], law * runs).pvalue > 1e-6
    wrong = chances(scores[known].tolist(), 1.2 * scale)
    assert stats.chisquare(counts[known], wrong / wrong.sum() * runs).pvalue < 1e-6
    # By the law itself: neighbours' scores, each moved by D, change no probability by more than exp(2 D / scale).
    rng = np.random.default_rng(4)
    for _ in range(200):
        moved = scores[known] + rng.choice([-0.1, 0.1], 4)
        ratio = chances(moved.tolist(), scale) / law
        assert max(ratio.max(), (1.0 / ratio).max()) <= math.exp(2 * 0.1 / scale) * (1 + 1e-9)


@pytest.mark.parametrize("rate", [Fraction(0), Fraction(1, 3), Fraction(1), Fraction(5, 2)])
def test_coins_fall_with_their_probability(rate):
    runs = 8_000
    count = sum(falls(rate) for _ in range(runs))
    assert stats.binomtest(count, runs, math.exp(-rate)).pvalue > 1e-6
    if rate:
        assert stats.binomtest(count, runs, math.exp(-1.2 * float(rate))).pvalue < 1e-6


def test_the_noise_of_a_choice_certifies_what_is_charged():
    loss = SystemNoise().loss("exponential", 0.3, 0.6)
    assert 2.0 <= loss <= 2.0 * (1 + 1e-12)
    assert noises.SimulatedNoise(np.random.default_rng(0)).loss("exponential", 0.3, 0.6) == math.inf


@pytest.mark.parametrize("budget", [tm.Budget(1.0, 1e-6), tm.Budget(7.0, 1e-3), tm.Budget(0.3), tm.Budget(1e-4, 1e-9)])
@pytest.mark.parametrize("shares", [(1.0,), (0.5, 0.5), (0.2, 0.3, 0.1), (1 / 3, 1 / 3, 1 / 3)])
def test_parts_of_a_budget_satisfy_it_together(budget, shares):
    from trigmech.planning.design import Regime

    parts, account = budget.split(*shares), tm.Ledger(budget)
    account.charge(*(Regime.of(part).charge(f"part {k}", 1.0, "a test") for k, part in enumerate(parts)))
    assert account.proved_epsilon <= budget.epsilon
    assert account.proved_epsilon >= budget.epsilon * (0.999 if sum(shares) > 0.99 else 0.5)
    for wrong in ((), (0.7, 0.4), (0.0,), (-0.1,), ("half",)):
        with pytest.raises(tm.BudgetError, match="shares of a budget"):
            budget.split(*wrong)


def test_a_query_of_ones_own_is_tried_at_points_of_the_domain():
    """A query may rely on what rows are: of the indicators of categories one is 1."""
    domain = SCHEMA.domain

    class Careful(Distance):
        def evaluate(self, points):
            domain.check(points)
            return super().evaluate(points)

    check_query_of_own(Careful(0, 1), domain)
    with pytest.raises(tm.InputError, match="must hold indicators"):
        Careful(0, 1).evaluate(np.zeros((1, domain.d)))


def test_a_design_of_rounds_is_told_round_by_round(made):
    lines = str(tm.design(900, SCHEMA, made.ledger.budget, made.mechanism).measured).splitlines()
    assert lines == [f"round {k}: {charge.purpose}" for k, charge in enumerate(made.ledger.charges, 1)]


@register
@dataclass(frozen=True, eq=False)
class Cumulative(Histogram):
    """A way of one's own to measure a column: by the shares of rows up to each position."""

    name: ClassVar[str] = "cumulative"
    encoding: ClassVar[str] = "map"

    def encode(self, means):
        return np.cumsum(means)

    def decode(self, vector):
        return np.diff(vector, prepend=0.0)

    @property
    def decoding(self):
        return np.eye(self.size) - np.eye(self.size, k=-1)

    def deviations(self, deviation):
        return deviation * np.where(np.arange(self.size) > 0, np.sqrt(2.0), 1.0)

    def diameter(self, norm):
        return {"L1": float(self.size), "L2": np.sqrt(self.size), "Linf": 1.0}[norm]


@dataclass(frozen=True)
class Once(tm.Mechanism):
    """Measures queries of one's own in one round; it knows nothing of fits."""

    functions: bool = False
    look: bool = False

    def plan(self, facts):
        regime, asked = Regime.of(facts.budget), [Measurement(Distance(0, 1))]
        if self.functions:
            asked.append(Measurement(Functions.of(tm.ChebyshevBasis(np.eye(facts.domain.d, dtype=int)), facts.domain)))
        if self.look:
            asked.append(Measurement(Cumulative(0, columns_of(facts.domain)[0].cut(np.linspace(-1, 1, 9)))))
        asked = scaled(asked, regime.norm, facts.n)
        charge = regime.charge("at once", sensitivity_of(asked, regime.norm, facts.n, 1.0), "own")
        return Design(self, facts, Measured((Round(asked, charge),)), (charge,))


@pytest.mark.parametrize("mechanism", [Once(), Once(functions=True), Once(look=True)], ids=repr)
@pytest.mark.usefixtures("few_resamples")
def test_a_release_of_any_queries_has_rows_a_file_an_account_and_error_bars(mechanism, tmp_path):
    rows = table()
    made = tm.synthesize(rows, SCHEMA, tm.Budget(20.0, 1e-6), mechanism, np.random.default_rng(1))
    assert len(repr(made.release)) < 80
    made.save(tmp_path / "r.tm")
    again = tm.load(tmp_path / "r.tm", mechanism=mechanism)
    pd.testing.assert_frame_equal(*(each.sample(50, np.random.default_rng(0)) for each in (again, made)))
    # The page names what the rows are not fitted to, with its noise and with the rows' distance from it.
    account = account_of(again)
    assert [row[1] for row in account.measured()["table"].rows if row[0] == "beside them: mean distance"] == ["1"]
    own = next(row for row in account.errors().rows if row[1] == "mean distance")
    distance = made.release.known[[each.query.kind for each in made.release.known].index("mean distance")]
    away = abs(distance.query.means(again.distribution.points) - distance.means)[0] / distance.deviations[0]
    assert (own[0], float(own[4])) == ("x, y", pytest.approx(away, rel=0.02))
    # What was not measured may be anything, so error bars hold however far the truth is from even rows.
    bars = {name: again.error_bars(lambda made, name=name: np.mean(made[name])) for name in ("x", "age")}
    assert bars["age"].error.bound > 60 / 6
    assert (bars["x"].error.bound < 0.05) == mechanism.look
    assert abs(bars["x"].values - rows["x"].mean()) < 3 * bars["x"].error.bound
    lights = {each.about: each.light for each in forecast_of(again).columns}
    assert lights["age",] == "poor"
    assert (lights["x",] == "good") == mechanism.look


@pytest.mark.parametrize("value", [1.0 + 2.0**-52, -1.0 - 1e-12, 1.0 + 5e-10])
def test_a_value_beyond_1_is_refused_even_if_only_rounding_made_it(value):
    """Replacing a row could move the mean by more than the diameter that was proved."""
    beyond = type("Beyond", (Distance,), {"evaluate": lambda self, points: np.full((len(points), 1), value)})
    with pytest.raises(tm.InputError, match=r"must lie in \[-1, 1\]"):
        check_query_of_own(beyond(0, 1), SCHEMA.domain)
    check_query_of_own(type("At", (Distance,), {"evaluate": lambda self, points: np.ones((len(points), 1))})(0, 1),
                       SCHEMA.domain)


@pytest.mark.parametrize("epsilon", [900.0, 1000.0, 5000.0])
def test_a_choice_beside_noise_keeps_within_a_large_budget(epsilon):
    """A plan that spends its budget exactly was refused when it was charged."""
    found = tm.synthesize(table(), SCHEMA, tm.Budget(epsilon, 1e-6), Strongest(), np.random.default_rng(0))
    assert 0.999 * epsilon < found.ledger.proved_epsilon <= epsilon
