"""Laws of small functions that other tests go past: where warnings point to, what is refused, and what is the same."""

import math
import tomllib
from dataclasses import replace
from decimal import Decimal
from functools import partial
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from test_parts import BUDGET, CUBE, cube

import trigmech as tm
from trigmech.domain import Domain
from trigmech.errors import FitWarning, InputError
from trigmech.evaluation import plausible
from trigmech.functions.partition import Partition
from trigmech.functions.released_column import ReleasedColumn
from trigmech.measurement.released import Release
from trigmech.parts.part import check_question
from trigmech.planning import one_hot
from trigmech.privacy.accounting import filtered_epsilon
from trigmech.privacy.budget import Charge
from trigmech.privacy.privacy_loss import gaussian_epsilon
from trigmech.queries.joint import Products
from trigmech.reconstruction import mixing
from trigmech.reconstruction.densities import SmoothDensity, density_of_signs
from trigmech.reconstruction.result import Reconstruction
from trigmech.schema import toml
from trigmech.tables.parquet_files import ParquetFiles
from trigmech.thesis.mechanisms import LARGEST_TARGET

SMALL = tm.MomentMechanism(degree=2, points=16, iterations=1)


def measured():
    return tm.measure(cube(40), CUBE, tm.design(40, CUBE, BUDGET, SMALL), np.random.default_rng(0))


# Each is one line, which the warning must point to.
WAYS = {"synthesize": lambda moments: tm.synthesize(cube(40), CUBE, BUDGET, SMALL, np.random.default_rng(0)),
        "reconstruct": lambda moments: tm.reconstruct(moments, np.random.default_rng(0)),
        "generate": lambda moments: tm.generate(moments, 5, np.random.default_rng(0)),
        "fit": lambda moments: tm.Synthesizer("cube", epsilon=1.0, delta=1e-6, mechanism=SMALL).fit(cube(40))}


@pytest.mark.parametrize("way", WAYS)
def test_a_warning_of_a_fit_points_to_the_user_s_own_line(monkeypatch, way):
    monkeypatch.setattr(Reconstruction, "warnings", ("a fault",))
    moments = measured()
    with pytest.warns(FitWarning, match="a fault") as found:
        WAYS[way](moments)
    assert [(each.filename, each.lineno) for each in found] == [(__file__, WAYS[way].__code__.co_firstlineno)]


@pytest.mark.parametrize("way", ["generate", "reconstruct"])
def test_a_warning_of_options_that_a_file_lacks_points_to_the_user_s_own_line(way):
    moments = measured()
    object.__setattr__(moments, "mechanism", None)
    with pytest.warns(UserWarning, match="the file does not hold the mechanism") as found:
        WAYS[way](moments)
    assert [(each.filename, each.lineno) for each in found if "mechanism" in str(each.message)] == [
        (__file__, WAYS[way].__code__.co_firstlineno)]


# Refusals


OUTSIDE = [np.array([[1.0 + 1e-9, 0.0]]), np.array([[0.0, -1.5]]), np.array([[np.nan, 0.0]]), np.array([[0.0, np.inf]]),
           np.zeros((2, 3)), np.zeros(2)]
SETS = {"products": tm.ChebyshevBasis(np.array([[1, 0], [1, 2]])),
        "whole rows": tm.Features(tm.ChebyshevBasis(np.array([[1, 0]])), np.array([[2.0, 0.5, 0.25]]))}


@pytest.mark.parametrize("functions", SETS.values(), ids=SETS)
@pytest.mark.parametrize("X", OUTSIDE, ids=range(len(OUTSIDE)))
def test_no_method_of_functions_takes_points_outside_the_cube_or_of_another_width(functions, X):
    calls = [functions.evaluate, functions.means, lambda X: functions.gradient(X, np.ones(functions.K))]
    if isinstance(functions, tm.ChebyshevBasis):
        calls += [lambda X: functions.combine(X, np.ones(functions.K)), functions.lattice_sums]
    for call in calls:
        call(np.zeros((2, 2)))
        with pytest.raises(InputError):
            call(X)


@pytest.mark.parametrize("laid", [True, False])
def test_a_person_s_columns_must_be_alike_in_files_with_rows_alone(tmp_path, laid):
    pq.write_table(pa.table({"x": [1.0, 2.0]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"x": pa.array(["z"] if laid else [], pa.string())}), tmp_path / "b.parquet")
    files = ParquetFiles([tmp_path / "a.parquet", tmp_path / "b.parquet"])
    asked = SimpleNamespace(names=("x",))
    files.check(asked)
    if laid:
        with pytest.raises(InputError, match=r"column 'x' has the type .* in .* and .* in .*; the rows of a"):
            files.check(asked, alike=True)
    else:
        files.check(asked, alike=True)


def test_indicators_of_a_plan_have_a_limit_of_their_own(monkeypatch):
    schema = tm.Schema([tm.Column("k", kind="categorical", categories=tuple(range(6)))])
    for most, functions, good in ((6, 99, True), (5, 99, False), (99, 5, False), (99, 6, True)):
        monkeypatch.setattr(one_hot, "MOST_INDICATORS", most)
        call = partial(one_hot.plan_mixed, 500, schema.domain, tm.Budget(1.0), None, max_functions=functions)
        if good:
            call()
        else:
            with pytest.raises(InputError, match=r"have 6 categories, special .* but at most 5 can be measured"):
                call()


# Numbers


@pytest.mark.parametrize(("law", "scale", "claim", "delta"), [
    ("gaussian", 0.5, tm.Budget(1.0, 1e-6), 0.0), ("laplace", 0.5, tm.Budget(1.0), 0.0), ("gaussian", 0.5, None, 0.0),
    ("other", 0.0, tm.Budget(1.0, 1e-6), 1e-6), ("threshold", 1e-7, None, 1e-7)])
def test_a_delta_is_claimed_by_other_tools_and_thresholds_alone(law, scale, claim, delta):
    assert Charge.claimed_delta.fget(SimpleNamespace(law=law, scale=scale, claim=claim)) == delta


def test_claims_may_have_the_whole_reserve_as_people_write_it():
    # In binary, three times 0.1 is more than 0.3.
    claims = [Charge("it", "other", 1.0, 1.0, "none", 1, "elsewhere", tm.Budget(1.0, 0.1)) for _ in range(4)]
    assert filtered_epsilon(claims[:3], 0.5, 0.3) < math.inf
    assert filtered_epsilon(claims, 0.5, 0.3) == math.inf
    assert filtered_epsilon(claims[:1], 0.5, 0.0) == math.inf


@pytest.mark.parametrize("mu", [1.0001e4, 3e4, 1e6])
@pytest.mark.parametrize("delta", [1e-12, 1e-3])
def test_epsilons_of_very_little_noise_are_rounded_up(mu, delta):
    exact = Decimal(mu) ** 2 / 2 + Decimal(mu) * (-2 * Decimal(delta).ln()).sqrt()
    assert exact <= Decimal(gaussian_epsilon(mu, delta)) <= exact * (1 + Decimal("1e-14"))


def test_numbers_stay_in_their_interval_however_far_in_it_they_lie():
    rng = np.random.default_rng(0)
    edges = np.concatenate([[-1.0], np.sort(rng.uniform(-1.0, 1.0, 400)), [1.0]])
    levels = np.sort(np.concatenate([0.5 * (edges[1:] + edges[:-1]), rng.uniform(-1.0, 1.0, 300)]))
    for partition in (Partition((1,), 0, edges), Partition((1,), 0, edges, levels)):
        codes = np.repeat(np.arange(partition.size), 3)
        fraction = np.tile([0.0, 0.5, np.nextafter(1.0, 0.0)], partition.size)
        out = np.zeros((len(codes), 2))
        partition.place(codes, fraction, out)
        np.testing.assert_array_equal(partition.codes(out), codes)


def test_a_score_tells_presence_if_it_is_constant_at_missing_values_and_0_at_others():
    partition = Partition((5, 6), 0, np.array([-1.0, 0.0, 1.0]))
    for last, told in (([3, 3, 0, 0], True), ([3, 3, 0, 1], False), ([3, 2, 0, 0], False), ([0, 0, 0, 0], False),
                       ([0, 0, 1, 1], False)):
        scores = np.column_stack([[0, 0, -1, 1], last])
        products = SimpleNamespace(partitions=(partition,), scores=(scores,), contrasted=False)
        assert Products.presence.func(products) == ((0,) if told else ())
        products.contrasted = True
        assert Products.presence.func(products) == ()
    products = SimpleNamespace(partitions=(partition,), scores=(scores[:, :1],), contrasted=False)
    assert Products.presence.func(products) == ()


@pytest.mark.parametrize("total", [0.25, 3.0])
def test_a_draw_of_a_density_has_the_size_of_its_histogram(total):
    one = density_of_signs(np.array([0.2, -0.1, 0.05]), 0.02, 1.0, 16)
    other = SmoothDensity(one.found, total)
    np.testing.assert_allclose(other.drawn(np.random.default_rng(0)), total * one.drawn(np.random.default_rng(0)))
    np.testing.assert_allclose(other.mean(), total * one.mean())


def test_weights_of_the_same_release_are_the_same_bits(tmp_path):
    # A category that noise may hide gets rows that are drawn.
    schema = tm.Schema([tm.Column("x", 0, 1), tm.Column("k", kind="categorical", categories=("a", "b", "c"))])
    data = pd.DataFrame({"x": np.random.default_rng(0).random(200), "k": ["a", "b"] * 100})
    made = tm.synthesize(data, schema, tm.Budget(2.0, 1e-5), tm.TableMechanism(points=64), np.random.default_rng(0))
    made.save(tmp_path / "a.tm")
    one, other = (tm.load(tmp_path / "a.tm").weighted() for _ in range(2))
    assert len(one.posterior.points) > 64
    np.testing.assert_array_equal(one.posterior.points, other.posterior.points)
    np.testing.assert_array_equal(one.weights, other.weights)
    np.testing.assert_array_equal(one.rehearsed, other.rehearsed)


def test_special_values_are_written_as_whole_numbers_if_they_are():
    plain = tm.Column("x", 0, 9, special=(-1, -2.5)).to_dict()
    assert [type(value) for value in plain["special"]] == [int, float]
    assert plain == {"name": "x", "kind": "continuous", "lower": 0, "upper": 9, "special": [-1, -2.5]}


def test_a_schema_file_of_derived_columns_has_all_their_options():
    rates = tm.Derived("rate", "lookup('rates', x)", tables={"rates": [(0, 0.5), (1, 2.5)]})
    twice = tm.Derived("twice", "2 * x", decimals=2)
    schema = tm.Schema([tm.Column("x", 0, 1, "integer")], derived=[rates, twice])
    plain = tomllib.loads(toml.to_toml(schema))["columns"]
    assert plain["rate"] == {"derived": "lookup('rates', x)", "tables": {"rates": [[0, 0.5], [1, 2.5]]}}
    assert plain["twice"] == {"derived": "2 * x", "decimals": 2}
    assert list(plain) == ["x", "rate", "twice"]


def test_means_far_outside_the_cube_are_targets_of_a_bounded_size():
    mechanism = tm.ImprovedTrigII(n_candidates=30)
    moments = tm.measure(cube(40), CUBE, tm.design(40, CUBE, BUDGET, mechanism), np.random.default_rng(0))
    far = tuple(replace(each, values=each.values * 1e12) if each.noise else each
                for each in moments.release.measurements)
    fit = mechanism.reconstruct(replace(moments.release, measurements=far), moments.design, np.random.default_rng(0))
    assert np.abs(fit.target).max() <= LARGEST_TARGET
    assert fit.weights.sum() == pytest.approx(1.0)


def test_a_part_answers_the_question_of_its_whole_fingerprint_alone():
    question = "0123456789abcdef" * 4
    check_question(SimpleNamespace(question=question), question)
    for place in (0, 8, 63):
        other = question[:place] + "x" + question[place + 1:]
        with pytest.raises(InputError, match="the parts were not measured for this design"):
            check_question(SimpleNamespace(question=other), question)


@pytest.mark.parametrize(("deviation", "expected"), [(0.5, 0.2), (0.15, 0.15), (0.0, mixing.LEAST / 4)])
def test_mixed_rows_keep_tables_up_to_the_lesser_of_both_noises(deviation, expected):
    asked = object.__new__(mixing._Asked)
    tables = []
    objective = SimpleNamespace(map=lambda j, cells, maps: j, table=lambda maps, table, weight: tables.append(table))
    rows = np.array([[0, 0], [0, 1], [1, 1], [1, 1]])
    asked.__dict__.update(_codes={}, _rows=rows, _weights=np.full(4, 0.25), _noise=lambda cells: 0.05 * cells,
                          deviations=[], objective=objective, _maps={}, possible=[], free=[], told=np.zeros((2, 2)))
    asked._table((0, 1), (np.arange(2), np.arange(2)), deviation)
    assert asked.deviations == [pytest.approx(expected)]
    np.testing.assert_array_equal(tables[0], [[0.25, 0.25], [0.0, 0.5]])
    assert asked.possible[0].tolist() == [True, True, False, True]
    # One in eight pairs of a row's first and another's second entry is impossible.
    assert asked.free == [pytest.approx(1.0 - 0.5 * 0.25)]
    told = 0.25 * math.log(2.0) + 0.25 * math.log(2.0 / 3.0) + 0.5 * math.log(4.0 / 3.0)
    np.testing.assert_allclose(asked.told, [[0.0, told], [told, 0.0]])


def test_a_finer_cell_has_its_part_of_the_noise_in_a_cell_of_contrasts(monkeypatch):
    partitions = [Partition((), j, np.linspace(-1.0, 1.0, 9)) for j in range(2)]
    columns = tuple(ReleasedColumn(partition, np.full(8, 0.125), 0.01) for partition in partitions)
    wide = np.repeat(np.arange(2), 4)
    pair = SimpleNamespace(columns=(0, 1), maps=(wide, wide), deviation=np.array([[0.01, 0.03]]),
                           table=np.array([[0.4, 0.1], [0.1, 0.4]]))
    monkeypatch.setattr(plausible, "Targets", lambda release, shrunk: SimpleNamespace(pairs=[pair]))
    monkeypatch.setattr(plausible, "cells_of", lambda column, *_: np.arange(8))
    monkeypatch.setattr(plausible, "UNSEEN", 0.0)
    release = Release(500, Domain(2), (), columns)
    (found,) = plausible.in_finer_cells(release, np.random.default_rng(0)).measurements
    # 64 finer cells in four: each has a sixteenth of the variance.
    assert found.noise == pytest.approx(0.02 / 4.0)
    expected = np.kron(np.array([[0.4, 0.1], [0.1, 0.4]]), np.full((4, 4), 1.0 / 16.0))
    np.testing.assert_allclose(found.values.reshape(8, 8), expected)
    monkeypatch.setattr(plausible, "UNSEEN", 1e-3)
    (hidden,) = plausible.in_finer_cells(release, np.random.default_rng(0)).measurements
    apart = hidden.values.reshape(8, 8) - expected
    # What the contrasts do not show changes no column.
    np.testing.assert_allclose([apart.sum(axis=0), apart.sum(axis=1)], 0.0, atol=1e-12)
    assert np.abs(apart).max() > 0.0
