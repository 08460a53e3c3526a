"""Saved releases: everything comes back bit for bit, nothing private goes in, and what does not fit is refused."""

import dataclasses
import datetime
import json
import math
import pickle
import struct
import subprocess
import sys
import time
import tracemalloc
import warnings
import zipfile
from functools import cache
from importlib import metadata
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
import polars as pl
import pytest

from trigmech import AdaptiveMechanism, Measure, Select
from trigmech import run as run_module
from trigmech.distribution import Distribution
from trigmech.errors import InputError, TrigmechError
from trigmech.functions.partition import Partition, columns_of
from trigmech.mechanisms.moment import MomentMechanism, minimax
from trigmech.mechanisms.table import TableMechanism
from trigmech.noisy_moments import NoisyMoments
from trigmech.planning.shares import Shares
from trigmech.privacy.budget import Budget
from trigmech.privacy.ledger import Ledger, LedgerFile
from trigmech.queries.base import Measurement, Query
from trigmech.queries.book import KINDS, Book, Numbers, register
from trigmech.queries.directions import Directions
from trigmech.queries.joint import Marginal, Products
from trigmech.queries.one_way import (
    Contrasts,
    Detail,
    Histogram,
    HistogramWithEnds,
    PrefixSums,
    PrefixSumsWithEnds,
)
from trigmech.queries.signs import Signs
from trigmech.results import Synthesis
from trigmech.results import load as load_release
from trigmech.schema.schema import Column, Schema
from trigmech.storage import archive, measurements_file, mechanism_file
from trigmech.storage import release_file as saved
from trigmech.synthesis import design, generate, measure, reconstruct, synthesize
from trigmech.thesis.mechanisms import ImprovedTrigI, ImprovedTrigII, TrigI, TrigII
from trigmech.workload import GaussianKernels, Mixture, PairKernels, Polynomials, SecondMoments
from trigmech.workload.tables import Marginals

FAST = MomentMechanism(points=64, iterations=10, degree=3, pair_degree=1, triples=False, whole_row=False)
TABLES = TableMechanism(points=64)
# The defaults of what only rows have.
STILL = {"points": None, "iterations": 80}
PURE, APPROXIMATE = Budget(1.0), Budget(1.0, 1e-3)
DATA = Path(__file__).parent / "data"
MIXED = Schema([
    Column("age", 0, 120, "integer", missing="keep"), Column("gain", 0.0, 1e5, special=(0.0,)),
    Column("sex", kind="categorical", categories=("f", "m", "ü")), Column("smokes", 0, 1, "binary"),
    Column("grade", kind="ordinal", categories=("low", "middle", "high"), other="low"),
    Column("income", 1.0, 1e6, transform="log"),
    Column("seen", datetime.date(2020, 1, 1), datetime.date(2024, 12, 31), "datetime"),
])
FEW = Schema(MIXED.columns[2:5])


def cube_table(n=300, d=3):
    rng = np.random.default_rng(1)
    z = rng.standard_normal((n, d))
    z[:, 1:] = 0.5 * z[:, :1] + 0.8 * z[:, 1:]
    return np.clip(0.4 * z, -1.0, 1.0)


def mixed_table(n=300):
    rng = np.random.default_rng(2)
    return pd.DataFrame({
        "age": np.where(rng.random(n) < 0.1, np.nan, rng.integers(0, 99, n)),
        "gain": np.where(rng.random(n) < 0.7, 0.0, rng.uniform(0, 1e5, n)), "sex": rng.choice(["f", "m", "ü"], n),
        "smokes": rng.integers(0, 2, n), "grade": rng.choice(["low", "middle", "high"], n),
        "income": np.exp(rng.uniform(0, 13, n)),
        "seen": np.datetime64("2020-01-01") + rng.integers(0, 1800, n).astype("timedelta64[D]"),
    })


def simulated(mechanism, budget, table=None, schema=None):
    table = cube_table() if table is None else table
    return synthesize(table, schema or Schema.cube(table.shape[1]), budget, mechanism, np.random.default_rng(3))


class Own(AdaptiveMechanism):
    """Tables of one, two and three columns, each by cells of its own; one of them twice, and one that was chosen."""

    rounds = (Measure(0.3), Select(0.1), Measure(0.3), Measure(0.3))
    points = 64

    def ask(self, so_far):
        names = so_far.facts.names
        if so_far.round == 0:
            looks = [so_far.histogram(name, count) for name, count in zip(names[:4], (7, 5, 1, 2), strict=True)]
            return [*looks, Measurement(so_far.histogram(names[5], 9), 2.0)]
        if so_far.round == 1:
            return [so_far.marginal(names[0], name, cells=3) for name in names[1:]]
        if so_far.round == 2:
            # The first columns of a table in this round have other cells than in the next.
            return [so_far.marginal(names[0], names[1], cells=2), so_far.marginal(names[6], cells=5),
                    Measurement(so_far.marginal(*names[1:4], cells=2), 0.5)]
        again = next(each.query for each in so_far.measurements if isinstance(each.query, Marginal))
        return [so_far.marginal(names[0], names[5], cells=6), again, *so_far.selected]


CASES = {
    "algorithm 4": lambda: simulated(TrigI(degree=2, grid=4), PURE),
    "algorithm 4, published": lambda: simulated(TrigI(degree=2, grid=3, calibration="published"), PURE),
    "algorithm 5": lambda: simulated(TrigII(degree=2, grid=4, levels=None), APPROXIMATE),
    "algorithm 5, published": lambda: simulated(TrigII(degree=2, grid=3, calibration="published"), APPROXIMATE),
    "algorithm 9": lambda: simulated(ImprovedTrigI(n_candidates=200), PURE),
    "algorithm 9, published": lambda: simulated(ImprovedTrigI(n_candidates=200, calibration="published"), PURE),
    "algorithm 10": lambda: simulated(ImprovedTrigII(n_candidates=200, rank=2), APPROXIMATE),
    "algorithm 10, published": lambda: simulated(ImprovedTrigII(n_candidates=200, calibration="published",
                                                                eigenvalues="norm"), APPROXIMATE),
    "moments, pure": lambda: simulated(FAST, PURE),
    "moments": lambda: simulated(FAST, APPROXIMATE),
    "moments of whole rows": lambda: simulated(dataclasses.replace(
        FAST, whole_row=True, workload=GaussianKernels(3, seed=0, widths=(1.0, 2.0))), APPROXIMATE),
    "moments, a cloud": lambda: simulated(dataclasses.replace(FAST, fit="cloud", **STILL), APPROXIMATE),
    "moments, atoms": lambda: simulated(dataclasses.replace(FAST, fit="atoms", pair_degree=0, degree=2, **STILL),
                                        APPROXIMATE),
    "algorithm 9, not solved": lambda: simulated(ImprovedTrigI(n_candidates=200, time_limit=1e-9), PURE),
    "minimax": lambda: simulated(minimax(1.0, max_functions=30, points=64, iterations=10), APPROXIMATE),
    "one column": lambda: simulated(dataclasses.replace(FAST, pair_degree=0), PURE, cube_table(d=1)),
    "a dataframe": lambda: simulated(FAST, APPROXIMATE, pl.DataFrame(cube_table(), schema=["b", "a", "ü"]), Schema(
        Column(name, -1.0, 1.5) for name in ("a", "b", "ü"))),
    "categories": lambda: simulated(dataclasses.replace(FAST, degree=2), APPROXIMATE, mixed_table(), MIXED),
    "categories, pure": lambda: simulated(dataclasses.replace(FAST, degree=2), PURE, mixed_table(), MIXED),
    "categories, algorithm 9": lambda: simulated(ImprovedTrigI(n_candidates=200, rank=2), PURE, mixed_table(), MIXED),
    "tables": lambda: simulated(TABLES, APPROXIMATE, mixed_table(), MIXED),
    "tables, pure": lambda: simulated(TABLES, PURE, mixed_table(), MIXED),
    "tables, contrasts": lambda: simulated(TABLES, PURE, mixed_table()[list(FEW.names)], FEW),
    "tables, looked at closer": lambda: simulated(TABLES, Budget(1e3, 1e-6), mixed_table(), MIXED),
    "tables, one column": lambda: simulated(TABLES, APPROXIMATE, cube_table(d=1)),
    "tables, pure, little noise": lambda: simulated(TABLES, Budget(100.0), cube_table()),
    "not simulated": lambda: synthesize(cube_table(), Schema.cube(3), APPROXIMATE, FAST),
}
# Of these a file has the mechanism's name alone.
OWN = {
    "queries of one's own choice": lambda: simulated(Own(), APPROXIMATE, mixed_table(), MIXED),
    "queries of one's own choice, pure": lambda: simulated(Own(), PURE, mixed_table(), MIXED),
}
each_case = pytest.mark.parametrize("case", CASES)


@cache
def made(case):
    return {**CASES, **OWN}[case]()


def save(path, synthesis):
    saved.write(path, **synthesis._parts())
    return path


def load(path):
    return Synthesis(**saved.read(path))


def differences(left, right, where="release"):
    """Where two objects differ in type, in a bit, or in the order of an array in memory."""
    if type(left) is not type(right):
        return [f"{where}: {type(left).__name__} and {type(right).__name__}"]
    if dataclasses.is_dataclass(left):
        # What was planned is not part of a file, and what was proved is not believed to one.
        return [each for field in dataclasses.fields(left) if field.name not in ("design", "proved")
                for each in differences(getattr(left, field.name), getattr(right, field.name), f"{where}.{field.name}")]
    if isinstance(left, list | tuple):
        pairs = zip(left, right, strict=False)
        return ([] if len(left) == len(right) else [where]) + [
            each for k, (a, b) in enumerate(pairs) for each in differences(a, b, f"{where}[{k}]")]
    if isinstance(left, np.ndarray):
        alike = (left.dtype == right.dtype and left.shape == right.shape and left.tobytes() == right.tobytes()
                 and left.flags.c_contiguous == right.flags.c_contiguous)
        return [] if alike else [where]
    return [] if left == right and (not isinstance(left, float) or left.hex() == right.hex()) else [where]


# What comes back


def test_planted_differences_are_found():
    synthesis = made("moments")
    fit, release = synthesis.fit, synthesis.release
    turned = Distribution(np.asfortranarray(fit.points), fit.weights)
    for change in ({"fit": dataclasses.replace(fit, rows=301)}, {"library": "pandas"},
                   {"fit": dataclasses.replace(fit, seconds=0.5)},
                   {"release": dataclasses.replace(release, measurements=(dataclasses.replace(
                       release.measurements[0], values=-release.means),))},
                   {"fit": dataclasses.replace(fit, distribution=turned)}):
        assert len(differences(synthesis, dataclasses.replace(synthesis, **change))) == 1


def test_profiles_would_change_in_their_last_bits_without_care(tmp_path):
    features = made("moments of whole rows").release.features
    assert len(features.profiles) == 1
    # The planted fault: the constructor scales once more.
    assert type(features)(features.basis, features.profiles).profiles.tobytes() != features.profiles.tobytes()
    again = load(save(tmp_path / "a.tm", made("moments of whole rows"))).release.features
    points = cube_table()
    assert again.profiles.tobytes() == features.profiles.tobytes()
    assert again.evaluate(points).tobytes() == features.evaluate(points).tobytes()
    assert again.means(points).tobytes() == features.means(points).tobytes()
    assert again.floors.tobytes() == features.floors.tobytes()


def test_tables_of_the_format_before_are_read_and_saved_as_measurements(tmp_path):
    """Of all rounds, two intervals closer, and tables of three columns; the numbers are those that version 0.1 gave."""
    older, (means, deviations) = load_release(DATA / f"{OLDER}.tm"), np.loadtxt(DATA / f"{OLDER}.csv", delimiter=",").T
    release = older.release
    assert [len(release.closer), len(release.tables), len(release.triples)] == [2, 6, 4]
    # Each table of two columns was measured again.
    assert len(release.measurements) == len(release.known) + 6
    assert older.means.tobytes() == means.tobytes()
    np.testing.assert_allclose(older.deviations, deviations, rtol=1e-15)
    assert (older.mechanism, older.made_by, older.has_error_bars) == (None, None, True)
    older.save(tmp_path / "a.tm")
    assert archive.read(DATA / f"{OLDER}.tm")[0]["release"]["kind"] == "tables"
    assert archive.read(tmp_path / "a.tm")[0]["release"]["kind"] == "measurements"
    again = load_release(tmp_path / "a.tm")
    assert differences(older, again) == []
    assert again.means.tobytes() == means.tobytes()
    assert again.names == older.names


@pytest.mark.parametrize("name", ["older-algorithm-5", "older-algorithm-10", "older-moments"])
def test_files_of_the_format_before_are_read(name, tmp_path):
    """Of when releases of the thesis had a kind of their own, and fits repeated points or held all candidates."""
    older = load_release(DATA / f"{name}.tm")
    expected = np.loadtxt(DATA / f"{name}.csv", delimiter=",")
    np.testing.assert_allclose(older.expect(lambda x: np.hstack([x, x**2])), expected, rtol=0, atol=1e-15)
    assert older.ledger.simulated
    assert (older.fit.objective is None) == (name == "older-moments")
    moving = older.release.index.degrees.any(axis=1)
    assert (older.release.deviations > 0).tolist() == moving.tolist()
    # The noise is what was charged, as a standard deviation.
    charge = older.ledger.charges[0]
    if name != "older-moments":
        factor = {"laplace": math.sqrt(2.0), "gaussian": 1.0}[charge.law]
        np.testing.assert_allclose(older.release.deviations[moving], factor * charge.scale, rtol=1e-12)
    older.save(tmp_path / "a.tm")
    assert differences(older, load_release(tmp_path / "a.tm")) == []


def test_noisy_moments_are_saved_without_points(tmp_path):
    made_of = made("categories")
    moments = NoisyMoments(**{name: part for name, part in made_of._parts().items() if name != "fit"})
    moments.save(tmp_path / "a.tm")
    again = NoisyMoments.load(tmp_path / "a.tm")
    assert differences(moments, again) == []
    with pytest.raises(InputError, match="only noisy moments"):
        load_release(tmp_path / "a.tm")
    save(tmp_path / "b.tm", made_of)
    assert differences(moments, NoisyMoments.load(tmp_path / "b.tm")) == []
    rng = np.random.default_rng(1)
    assert len(reconstruct(again, rng, mechanism=MomentMechanism()).sample(10, rng)) == 10


def test_a_release_keeps_the_versions_that_made_it_however_often_it_is_saved(tmp_path):
    old = {"trigmech": "0.0.7", "numpy": "1.0", "opendp": "0.1", "python": "3.11.0"}
    path = save(tmp_path / "a.tm", dataclasses.replace(made("moments"), versions=old))
    again = load_release(path)
    assert again.versions == old != made("moments").versions
    again.save(tmp_path / "b.tm")
    assert archive.read(tmp_path / "b.tm")[0]["versions"] == old
    assert (tmp_path / "b.tm").read_bytes() == path.read_bytes()


# With more budget there are more tables, which the golden runs save.
@pytest.mark.daily("(1, 0)")
@pytest.mark.parametrize("budget", [PURE, APPROXIMATE, pytest.param(Budget(1e3, 1e-6), marks=pytest.mark.nightly)],
                         ids=str)
def test_rows_are_made_of_saved_tables_as_of_those_in_memory(budget, tmp_path):
    planned = design(300, MIXED, budget, TableMechanism())
    moments = measure(mixed_table(), MIXED, planned, np.random.default_rng(3))
    moments.save(tmp_path / "a.tm")
    again = NoisyMoments.load(tmp_path / "a.tm")
    assert differences(moments, again) == []
    assert (again.names, again.release.kinds.tolist()) == (moments.names, moments.release.kinds.tolist())
    first, second = (generate(each, 50, np.random.default_rng(4), mechanism=TableMechanism())
                     for each in (moments, again))
    pd.testing.assert_frame_equal(first, second, check_exact=True)


def computed(synthesis):
    """What is computed of a release, by name."""
    release = synthesis.release
    of_looks = [(look.known, look.means, look.deviations, look.covariance, look.query.diameter("L2"))
                for look in release.looks]
    of_others = [(each.known, each.means, each.deviations, each.query.kind, each.query.size)
                 for each in (*release.closer, *release.tables, *release.triples)]
    bars = synthesis.error_bars(lambda table: np.array([np.mean([str(each) < "5" for each in held.tolist()])
                                                        for held in table.values()]))
    rows = [synthesis.columns(100, np.random.default_rng(5)),
            synthesis.columns(60, np.random.default_rng(5), given=given_to(synthesis))]
    return {"means": synthesis.means, "deviations": synthesis.deviations, "names": synthesis.names,
            "kinds": release.kinds, "frame": list(map(list, synthesis.to_frame("pandas").itertuples())), "K": release.K,
            "looks": of_looks, "others": of_others, "page": synthesis._repr_html_(), "bars": bars,
            "rows": [repr([held.tolist() for held in made_of.values()]) for made_of in rows]}


def given_to(synthesis):
    column = synthesis.schema.columns[-1]
    return {column.name: (column.lower, column.upper)} if column.categories is None else {
        column.name: list(column.categories[:2])}


TABLES_OF_ALL_KINDS = [case for case in CASES if case.startswith("tables")] + list(OWN)


@pytest.mark.daily("tables, contrasts", "tables, one column")
@pytest.mark.parametrize("case", [
    # The others are of the same classes, and contrasts have pure noise, too.
    pytest.param(case, marks=[pytest.mark.nightly] * (
        case in ("tables, looked at closer", "tables, pure", "queries of one's own choice, pure")))
    for case in TABLES_OF_ALL_KINDS])
def test_whatever_is_computed_of_loaded_measurements_is_the_same_to_the_bit(tmp_path, case, few_resamples):
    synthesis = made(case)
    synthesis.save(tmp_path / "a.tm")
    again = load_release(tmp_path / "a.tm", Own() if case in OWN else None)
    assert [each for part in ("release", "fit", "ledger", "schema")
            for each in differences(getattr(synthesis, part), getattr(again, part), part)] == []
    first, second = computed(synthesis), computed(again)
    assert differences(list(first.values()), list(second.values())) == []


@pytest.mark.nightly  # It looks at the cases, not at the package.
def test_all_kinds_of_queries_are_among_those_that_are_saved():
    kinds = {type(each.query) for case in TABLES_OF_ALL_KINDS for each in made(case).release.measurements}
    assert kinds == {Histogram, HistogramWithEnds, PrefixSums, PrefixSumsWithEnds, Contrasts, Signs, Detail, Marginal,
                     Products, Directions}
    release = made(CHOSEN).release
    assert {len(each.query.columns) for each in release.measurements if isinstance(each.query, Marginal)} == {1, 2, 3}
    # Tables have cells of their own, one was measured twice, and some weigh more than others.
    assert len({id(each.query.maps[0]) for each in release.tables if each.query.columns[0] == 0}) > 1
    assert len(release.measurements) > len(release.known)
    assert len({each.weight / each.query.diameter("L2") for each in release.measurements}) > 1


@pytest.mark.parametrize("case", OWN)
def test_of_a_mechanism_of_ones_own_a_file_has_the_name(tmp_path, case):
    synthesis = made(case)
    synthesis.save(tmp_path / "a.tm")
    again = load_release(tmp_path / "a.tm")
    assert (again.mechanism, again.made_by) == (None, f"{Own.__module__}.Own")
    assert differences(synthesis.release, again.release) == []
    assert not again.has_error_bars
    again.save(tmp_path / "b.tm")
    assert (tmp_path / "a.tm").read_bytes() == (tmp_path / "b.tm").read_bytes()
    with pytest.raises(InputError, match=r"Own measured these numbers, .* not hold this mechanism; give mechanism="):
        generate(again, 10)
    rows = [generate(each, 40, np.random.default_rng(4), mechanism=Own()) for each in (synthesis, again)]
    pd.testing.assert_frame_equal(*rows, check_exact=True)


def test_tables_of_coarser_positions_than_the_columns_give_the_same_numbers_and_rows(tmp_path):
    content, arrays = taken_apart(CHOSEN)
    table_by(merged)(content, arrays)
    archive.write(tmp_path / "a.tm", content, arrays)
    coarser = load_release(tmp_path / "a.tm")
    assert coarser.means.tobytes() == made(CHOSEN).means.tobytes()
    assert coarser.names == made(CHOSEN).names
    rows = [generate(each, 40, np.random.default_rng(4), mechanism=Own()) for each in (made(CHOSEN), coarser)]
    pd.testing.assert_frame_equal(*rows, check_exact=True)


CUBE = Schema.cube(3)
# Of each: the mechanism, whether delta is above 0, and whether the table is mixed.
OPTIONS = {
    "tables": (TABLES, True, True), "tables, pure": (TABLES, False, True),
    "tables of shares": (TableMechanism(points=50, shares=Shares(0.5, 0.1, 0.2, 2, 0.3)), True, True),
    "tables of a workload": (TableMechanism(points=50, workload=Marginals(3)), True, True),
    "tables crossed": (TableMechanism(points=50, workload=Marginals(1, "sex")), True, True),
    "tables for a target": (TableMechanism(points=50, target="sex"), True, True),
    "options of NumPy's types": (TableMechanism(points=np.int64(50)), True, True),
    "moments": (dataclasses.replace(FAST, degree=2), True, True),
    "a cloud": (MomentMechanism(fit="cloud"), True, False),
    "atoms": (dataclasses.replace(FAST, fit="atoms", pair_degree=0, degree=2, **STILL), True, False),
    "without steps": (dataclasses.replace(FAST, denoise=False, copula=False), True, False),
    "kernels": (dataclasses.replace(FAST, workload=GaussianKernels(3, seed=0, widths=(1.0, 2.0))), True, False),
    "minimax": (minimax(1.5, max_functions=30, points=64, iterations=10), True, False),
    "algorithm 4": (TrigI(degree=2, grid=4), False, False),
    "algorithm 5": (TrigII(degree=2, grid=4, levels=None), True, False),
    "algorithm 9": (ImprovedTrigI(n_candidates=100, background=0.1), False, False),
    "algorithm 10, published": (ImprovedTrigII(n_candidates=100, rank=2, calibration="published"), True, False),
}


@pytest.mark.daily(3)  # Each mechanism with one of its options.
@pytest.mark.parametrize("case", OPTIONS)
def test_rows_are_made_of_loaded_moments_by_the_mechanism_that_measured_them(tmp_path, case):
    mechanism, approximate, mixed = OPTIONS[case]
    schema, table = (MIXED, mixed_table()) if mixed else (CUBE, cube_table())
    moments = measure(table, schema, design(300, schema, APPROXIMATE if approximate else PURE, mechanism),
                      np.random.default_rng(3))
    moments.save(tmp_path / "a.tm")
    again = NoisyMoments.load(tmp_path / "a.tm")
    assert type(again.mechanism) is type(mechanism)
    with warnings.catch_warnings():
        # Nobody is told that options are missing.
        warnings.simplefilter("error")
        first, second = (reconstruct(each, np.random.default_rng(4)) for each in (moments, again))
        rows = [generate(each, 40, np.random.default_rng(4)) for each in (moments, again)]
    # All but the seconds.
    assert differences(dataclasses.replace(first.fit, seconds=0.0), dataclasses.replace(second.fit, seconds=0.0)) == []
    if mixed:
        pd.testing.assert_frame_equal(*rows, check_exact=True)
    else:
        assert rows[0].tobytes() == rows[1].tobytes()


@pytest.mark.parametrize("mechanism", [*(mechanism for mechanism, *_ in OPTIONS.values()), ImprovedTrigI(
    n_candidates=7, max_weight=0.5, time_limit=2.0, ellipsoid="published", grid="formula"), MomentMechanism(
    workload=Mixture((Polynomials(3, 1, n_queries=2, seed=1), PairKernels(3, seed=2), SecondMoments(3))))], ids=type)
def test_a_mechanism_comes_back_from_a_file_with_all_of_its_options(mechanism):
    again = mechanism_file.made(json.loads(json.dumps(mechanism_file.plain(mechanism))), "it")
    assert mechanism_file.plain(again) == mechanism_file.plain(mechanism)
    assert repr(again) == repr(mechanism).replace("np.int64(50)", "50")


def test_a_loaded_release_makes_rows_by_a_mechanism_that_needs_its_design_if_that_is_known(tmp_path):
    mechanism = TrigII(degree=2, grid=4, levels=None)
    moments = measure(cube_table(), CUBE, design(300, CUBE, APPROXIMATE, mechanism), np.random.default_rng(3))
    moments.save(tmp_path / "a.tm")
    again = NoisyMoments.load(tmp_path / "a.tm")
    with pytest.raises(InputError, match="need the release's design"):
        reconstruct(again, mechanism=TrigII(degree=3, grid=4, levels=None))
    private = Schema([Column("a", kind="continuous", private_bounds=True), *CUBE.columns[1:]])
    moments = measure(pd.DataFrame(cube_table(), columns=["a", *CUBE.names[1:]]), private,
                      design(300, private, APPROXIMATE, mechanism), np.random.default_rng(3))
    moments.save(tmp_path / "a.tm")
    made = [generate(each, 5, np.random.default_rng(1)) for each in (moments, NoisyMoments.load(tmp_path / "a.tm"))]
    pd.testing.assert_frame_equal(*made)
    # A file that does not hold the mechanism's part of the budget.
    without = dataclasses.replace(moments, design=None, budget=moments.ledger.budget)
    with pytest.raises(InputError, match="need the release's design"):
        generate(without, 5)


class Unwritten(Query):
    """A query of one's own without a form in a file: how far the first number is above the middle."""

    name = "unwritten"
    columns = (0,)
    size, kind = 1, "distance"

    def evaluate(self, points):
        return np.abs(points[:, :1])

    def diameter(self, norm):
        return 1.0

    def names(self, coordinates):
        return [f"|{coordinates[0]}|"]


class Asking(AdaptiveMechanism):
    rounds = (Measure(1.0),)
    points = 64

    def __init__(self, *queries):
        self.queries = queries

    def ask(self, so_far):
        return [so_far.histogram(0), *self.queries]


def test_a_query_of_ones_own_that_is_not_registered_is_not_saved(tmp_path, monkeypatch):
    path = tmp_path / "a.tm"
    path.write_text("old")
    made_of = simulated(Asking(Unwritten()), APPROXIMATE)
    assert "distance" in made_of.release.kinds
    with pytest.raises(InputError, match=r"kind 'unwritten' are not registered.*trigmech\.queries\.book\.register"):
        made_of.save(path)
    # Nor one that has the name of another.
    monkeypatch.setattr(Unwritten, "name", "marginal")
    with pytest.raises(InputError, match="kind 'marginal' are not registered"):
        made_of.save(path)
    with pytest.raises(InputError, match="a query with the name 'marginal' is already registered"):
        register(Unwritten)
    monkeypatch.setattr(Unwritten, "name", "unwritten")
    monkeypatch.setitem(KINDS, "unwritten", Unwritten)
    with pytest.raises(InputError, match="have no form in a file: define written and read"):
        made_of.save(path)
    assert path.read_text() == "old"


def test_a_query_of_ones_own_is_read_where_it_is_registered_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(Unwritten, "written", lambda self, book: ([7], np.array([0.25])), raising=False)
    monkeypatch.setattr(Unwritten, "read", classmethod(
        lambda cls, integers, floats, book: cls() if (integers.one(), *floats.some(1)) == (7, 0.25) else None),
                        raising=False)
    monkeypatch.setitem(KINDS, "unwritten", Unwritten)
    made_of = simulated(Asking(Unwritten()), APPROXIMATE)
    made_of.save(tmp_path / "a.tm")
    again = load_release(tmp_path / "a.tm")
    assert again.means.tobytes() == made_of.means.tobytes()
    assert (again.names, again.names[-1]) == (made_of.names, "|x1|")
    monkeypatch.delitem(KINDS, "unwritten")
    with pytest.raises(InputError, match="'unwritten', which are not registered; import the module that defines it"):
        load_release(tmp_path / "a.tm")


class Far:
    """Noise that is the same huge number everywhere, as no draw ever is."""

    def __init__(self, rng):
        self.simulated, self.offset = True, 10.0 ** rng.integers(50)

    def laplace(self, values, scale):
        return values + self.offset * np.where(np.arange(values.size) % 3 == 0, -1.0, 1.0)

    gaussian = linf = laplace


@pytest.mark.daily("(0.001, 1e-09)", "(1, 0)")  # Both laws.
@pytest.mark.parametrize("budget", [PURE, APPROXIMATE, Budget(1e3, 1e-6), Budget(1e-3, 1e-9)], ids=str)
def test_tables_are_saved_whatever_was_drawn(budget, tmp_path, monkeypatch):
    monkeypatch.setattr(run_module, "SimulatedNoise", Far)
    for seed in range(1):
        moments = measure(mixed_table(), MIXED, design(300, MIXED, budget, TABLES), np.random.default_rng(seed))
        moments.save(tmp_path / "a.tm")
        assert differences(moments, NoisyMoments.load(tmp_path / "a.tm")) == []


@pytest.mark.daily(7)
@each_case
def test_loading_and_saving_by_the_public_functions_loses_nothing(tmp_path, case):
    made(case).save(tmp_path / "a.tm")
    again = load_release(tmp_path / "a.tm")
    assert differences(made(case), again) == []
    assert (str(again.ledger), repr(again)) == (str(made(case).ledger), repr(made(case)))
    again.save(tmp_path / "b.tm")
    assert (tmp_path / "b.tm").read_bytes() == (tmp_path / "a.tm").read_bytes()
    # What is computed of the fields is public too.
    for name in dir(Synthesis):
        if isinstance(getattr(Synthesis, name, None), property):
            assert differences(getattr(made(case), name), getattr(again, name)) == []


def test_the_manifest_says_what_is_private_and_who_wrote_it(tmp_path):
    for case, words in (("moments", "simulated, not private"), ("not simulated", "as the ledger proves")):
        content, _ = archive.read(save(tmp_path / "a.tm", made(case)))
        assert content["privacy"] == words
        assert set(content["versions"]) == {"trigmech", "numpy", "opendp", "python"}
    versions = saved.read(tmp_path / "a.tm")["versions"]
    assert versions["numpy"] == np.__version__
    for name in ("trigmech", "opendp"):
        assert versions[name] == metadata.version(name)
    assert sys.version.startswith(versions["python"])


def test_who_changes_the_versions_of_one_release_changes_those_of_no_other():
    saved.versions_now()["numpy"] = "changed"
    assert saved.versions_now()["numpy"] == np.__version__


# Nothing private

MARKERS = np.array([0.18273645546372819, -0.90817263544536271])
SEED = 91827364554637281


def secrets_in(path, schema):
    """Which of the table's values, of the seed, of the generators' states and of the paths a file holds."""
    rng = np.random.default_rng(SEED)
    children = rng.spawn(2)
    states = [each.bit_generator.state["state"][key] for each in (rng, *children, np.random.default_rng(SEED))
              for key in ("state", "inc")]
    wanted = {}
    for value in MARKERS:
        for number in (value, float(schema.to_cube(np.full((1, schema.d), value))[0, 0])):
            wanted |= {struct.pack("<d", number): "a value", repr(number).encode(): "a value",
                       f"{number:.9f}".encode(): "a value"}
    for number, name in [(SEED, "the seed"), *((state, "a state") for state in states)]:
        length = (number.bit_length() + 7) // 8
        wanted |= {str(number).encode(): name, number.to_bytes(length, "little"): name, f"{number:x}".encode(): name,
                   number.to_bytes(length, "big"): name}
    wanted |= {str(path).encode(): "a path", path.name.encode(): "a path"}
    with zipfile.ZipFile(path) as file:
        held = [path.read_bytes(), *(file.read(name) for name in file.namelist())]
    return {name for text, name in wanted.items() for each in held if text in each}


@pytest.mark.parametrize("mechanism", [FAST, TrigI(degree=2, grid=4), ImprovedTrigII(n_candidates=100), TABLES],
                         ids=type)
def test_a_file_holds_neither_values_of_the_table_nor_the_seed_nor_a_path(tmp_path, mechanism):
    table = np.tile(MARKERS, (100, 1))
    schema = Schema([Column("a", -1.25, 1.5), Column("b", -1.25, 1.5)])
    synthesis = synthesize(table, schema, APPROXIMATE, mechanism, np.random.default_rng(SEED))
    path = save(tmp_path / "marked-name.tm", synthesis)
    assert secrets_in(path, schema) == set()
    # The planted faults: a row of the table among the points, and the seed and a path in a text.
    points = synthesis.distribution.points.copy()
    points[0] = schema.to_cube(table[:1])
    any_status = isinstance(mechanism, MomentMechanism | TableMechanism)
    save(path, dataclasses.replace(synthesis, fit=dataclasses.replace(
        synthesis.fit, distribution=Distribution(points, synthesis.fit.weights),
        status=f"{SEED}" if any_status else synthesis.fit.status)))
    assert secrets_in(path, schema) == {"a value"} | ({"the seed"} if any_status else set())


def test_a_ledger_is_saved_without_its_file(tmp_path):
    ledger = made("moments").ledger
    file = LedgerFile.create(tmp_path / "marked-ledger.json", Budget(5.0, 1e-3), data_set="marked-data")
    kept = Ledger(ledger.budget, simulated=True, file=file)
    kept.charge(*ledger.charges)
    path = save(tmp_path / "a.tm", dataclasses.replace(made("moments"), ledger=kept))
    with zipfile.ZipFile(path) as opened:
        assert b"marked" not in b"".join(opened.read(name) for name in opened.namelist())
    again = load(path).ledger
    assert again.file is None
    assert (again.charges, again.run) == (ledger.charges, kept.run)


NO_PICKLE = """
import sys
import numpy as np
import trigmech
from trigmech.storage import release_file as saved
import pickle, _pickle

class Refused:
    def __init__(self, *_, **__):
        raise SystemExit("pickle was used")

for module in (pickle, _pickle):
    for name in ("load", "loads", "Unpickler"):
        setattr(module, name, Refused)
np.lib.format.pickle = None
for path in sys.argv[1:]:
    found = saved.read(path)
    print(found["fit"].distribution.sample(3, np.random.default_rng(1)).shape)
print({"opendp", "highspy", "pandas", "polars", "pyarrow", "matplotlib"} & set(sys.modules))
"""


@pytest.mark.nightly  # By day test_archive.py unpickles nothing, test_architecture.py loads nothing.
def test_loading_never_unpickles_and_loads_no_heavy_library(tmp_path):
    cases = ["moments of whole rows", "algorithm 10", "categories", "tables"]
    paths = [save(tmp_path / f"{k}.tm", made(case)) for k, case in enumerate(cases)]
    done = subprocess.run([sys.executable, "-W", "error", "-c", NO_PICKLE, *paths], capture_output=True, text=True,
                          check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "(3, 3)\n(3, 3)\n(3, 11)\n(3, 11)\nset()\n"


# What is refused


# Files by version 0.1: of a closer look, and of tables that were measured again and of three columns; and of contrasts.
OLDER, OLDER_PURE = "older-tables", "releases-0.1/tables-contrasts"
OLDER_MOMENTS = "older-moments"


def taken_apart(case):
    """Content and arrays of a file, to be spoilt."""
    return pickle.loads(packed(case))


@cache
def packed(case):
    """The same as bytes: the file is written and read once."""
    return pickle.dumps(read_back(case))


def read_back(case):
    if case in (OLDER, OLDER_PURE, OLDER_MOMENTS):
        return archive.read(DATA / f"{case}.tm")
    with TemporaryDirectory() as folder:
        return archive.read(save(Path(folder) / "a.tm", made(case)))


def put(*keys, value):
    def spoil(content, arrays):
        for key in keys[:-1]:
            content = content[key]
        content[keys[-1]] = value
    return spoil


def drop(*keys):
    def spoil(content, arrays):
        for key in keys[:-1]:
            content = content[key]
        del content[keys[-1]]
    return spoil


def array(name, change):
    def spoil(content, arrays):
        new = change(arrays.get(name))
        arrays.pop(name, None)
        if new is not None:
            arrays[name] = new
    return spoil


def entry(value):
    def change(old):
        new = old.copy()
        new.flat[0] = value
        return new
    return change


def both(*spoils):
    return lambda content, arrays: [spoil(content, arrays) for spoil in spoils] and None


def scaled(name, factor):
    return array(name, lambda old: old * factor)


def query(kind, integers=None, floats=None):
    """Spoil the numbers of the first query of a kind: each is a function of the list of these."""
    def spoil(content, arrays):
        lengths = arrays["release.queries.lengths"].copy()
        number = arrays["release.queries.kinds"].tolist().index(content["release"]["queries"].index(kind))
        for side, (name, change) in enumerate((("integers", integers), ("floats", floats))):
            if change is not None:
                held = arrays[f"release.queries.{name}"]
                start = int(lengths[:number, side].sum())
                stop = start + int(lengths[number, side])
                new = np.array(change(held[start:stop].tolist()), dtype=held.dtype)
                arrays[f"release.queries.{name}"] = np.concatenate([held[:start], new, held[stop:]])
                lengths[number, side] = len(new)
        arrays["release.queries.lengths"] = lengths
    return spoil


def at(place, value):
    """Put a value at a place of a list."""
    return lambda old: [*old[:place], value, *old[place + 1:]]


def first_score(numbers):
    """Where the first score of a column stands among the numbers of a query of products."""
    place = 3 + 2 * numbers[1]
    while not numbers[place + 1]:
        place += 2
    return place + 2


def table_by(change):
    """Let a table have another partition of the income, the sixth column: a change of its edges and of its cells."""
    def spoil(content, arrays):
        book, column, kind = book_of(arrays), 5, content["release"]["queries"].index("marginal")
        starts = np.cumsum(arrays["release.queries.lengths"][:, 0])
        start = next(k for number in np.flatnonzero(arrays["release.queries.kinds"] == kind).tolist()
                     for k in range(starts[number - 1], starts[number])
                     if book.partitions[book.maps[arrays["release.queries.integers"][k]][0]][0] == column)
        place, cells = book.maps[arrays["release.queries.integers"][start]]
        edges, cells = change(book.partitions[place][1], cells)
        for name, new in (("partitions.columns", [column]), ("partitions.intervals", [len(edges) - 1]),
                          ("partitions.edges", edges), ("maps.partitions", [len(book.partitions)]),
                          ("maps.cells", cells)):
            arrays[f"release.{name}"] = np.append(arrays[f"release.{name}"], new)
        arrays["release.queries.integers"] = arrays["release.queries.integers"].copy()
        arrays["release.queries.integers"][start] = len(book.maps)
    return spoil


def book_of(arrays):
    """The columns and edges of all partitions, and the partition and cells of all maps, as a file has them."""
    counts = arrays["release.partitions.intervals"]
    edges = np.split(arrays["release.partitions.edges"], np.cumsum(counts + (counts > 0))[:-1])
    domain = MIXED.domain
    indicators = [len(each.indicators) for each in columns_of(domain)]
    columns = arrays["release.partitions.columns"].tolist()
    sizes = [indicators[j] + int(count) for j, count in zip(columns, counts, strict=True)]
    places = arrays["release.maps.partitions"].tolist()
    cells = np.split(arrays["release.maps.cells"], np.cumsum([sizes[place] for place in places])[:-1])
    return Book(list(zip(columns, edges, strict=True)), list(zip(places, cells, strict=True)))


def moved_edges(edges, cells):
    return np.concatenate([[-1.0], edges[1:-1] - 1e-9, [1.0]]), cells


def merged(edges, cells):
    """The same cells by as few positions as they can be."""
    k = len(cells) - (len(edges) - 1)
    kept = np.flatnonzero(np.diff(cells[k:], prepend=-1))
    assert len(kept) < len(edges) - 1
    return np.append(edges[kept], 1.0), np.concatenate([cells[:k], cells[k:][kept]])


MOMENTS, THESIS, TABLE = "moments of whole rows", "algorithm 10", "tables, looked at closer"
CONTRASTS, CHOSEN = "tables, contrasts", "queries of one's own choice"
PARTS = "first of each column one"
SIZED = "must have deviations and weights from 1e-100 to 1e+100"
UNFIT = {
    "no schema": (MOMENTS, drop("schema"), "keys"),
    "no versions": (MOMENTS, put("versions", value=None), "versions must be"),
    "a simulation that says it is private": (MOMENTS, put("privacy", value="as the ledger proves"), "not private"),
    "bounds that are not found yet": (MOMENTS, put("schema", "columns", 0, value={
        "name": "x1", "kind": "continuous", "private_bounds": True}), "bounds must be complete"),
    "categories that are not found yet": (MOMENTS, put("schema", "columns", 0, value={
        "name": "x1", "kind": "categorical", "categories": "private"}), "its categories, as they are"),
    "another library": (MOMENTS, put("library", value="os"), "library must be"),
    "types of categories that are no names": (MOMENTS, put("categorical", value=[["x1"]]), "categorical must be"),
    "types of categories in another order": (TABLE, put("categorical", value=["grade", "sex"]),
                                             "in the schema's order"),
    "types of categories twice": (TABLE, put("categorical", value=["sex", "sex"]), "in the schema's order"),
    "types of categories of a number": (TABLE, put("categorical", value=["age"]), "in the schema's order"),
    "no rows": (MOMENTS, put("rows", value=0), "rows must be an integer"),
    "a release of no kind": (MOMENTS, put("release", "kind", value="other"), 'measurements, tables, moments, thesis'),
    "a status that there is not": (THESIS, put("fit", "status", value="stalled"), '"time limit" or "not solved"'),
    "a release of the older kind without its scale": (THESIS, put("release", "kind", value="thesis"),
                                                      "release must be an object"),
    "a fit of no kind": (MOMENTS, put("fit", "kind", value="other"), "kind of a fit"),
    "points without a fit": (MOMENTS, put("fit", value=None), "does not belong"),
    "no points": (MOMENTS, array("distribution.points", lambda old: None), "'distribution.points' is missing"),
    "points outside the cube": (MOMENTS, array("distribution.points", entry(1.5)), "in the cube"),
    "points of another type": (MOMENTS, array("distribution.points", lambda old: old.astype(np.uint8)), "float64"),
    "a negative weight": (MOMENTS, array("distribution.weights", entry(-0.1)), "at least 0"),
    "means of other functions": (MOMENTS, array("release.measurements.values", lambda old: old[1:]),
        "release.measurements.values"),
    "weights of another sum": (MOMENTS, array("distribution.weights", lambda old: old / 2), "sum to 1"),
    "an infinite mean": (MOMENTS, array("release.measurements.values", entry(np.inf)), "release.measurements.values"),
    "noise in the constant": (THESIS, array("release.measurements.noise", entry(1.0)),
        "noise must be 0 for the constant"),
    "degrees whose sum overflows": (MOMENTS, array("release.functions.0.degrees", lambda old: np.full_like(old, 2**62)),
        "degrees"),
    "no noise": (MOMENTS, array("release.measurements.noise", entry(0.0)), SIZED),
    "functions given twice": (MOMENTS, array("release.functions.0.degrees", lambda old: old[[0, *range(len(old) - 1)]]),
        "distinct"),
    "a negative degree": (MOMENTS, array("release.functions.0.degrees", entry(-1)), "at least 0"),
    "a profile of another scale": (MOMENTS, array("release.functions.0.profiles", lambda old: 2 * old), "maximum of 1"),
    "a profile of endless length": (MOMENTS, array("release.functions.0.profiles", lambda old: np.ones((1, 2**11))),
        "1024"),
    "profiles without end": (MOMENTS, array("release.functions.0.profiles", lambda old: np.ones((2**12, 2**6))),
        "131072 together"),
    "profiles of another width": (MOMENTS, array("release.functions.0.profiles", lambda old: np.empty((0, 9))),
        "scaled"),
    "older: means of other functions": (OLDER_MOMENTS, array("release.means", lambda old: old[1:]),
        "release.means"),
    "older: an infinite mean": (OLDER_MOMENTS, array("release.means", entry(np.inf)), "release.means"),
    "older: degrees whose sum overflows": (OLDER_MOMENTS, array("release.index", lambda old: np.full_like(old, 2**62)),
        "degrees"),
    "older: no noise": (OLDER_MOMENTS, array("release.scales", entry(0.0)), "scales"),
    "older: functions given twice": (OLDER_MOMENTS, array("release.index", lambda old: old[[0, *range(len(old) - 1)]]),
        "distinct"),
    "older: a negative degree": (OLDER_MOMENTS, array("release.index", entry(-1)), "at least 0"),
    "older: a profile of endless length": (OLDER_MOMENTS, array("release.profiles", lambda old: np.ones((1, 2**11))),
        "1024"),
    "older: profiles without end": (OLDER_MOMENTS, array("release.profiles", lambda old: np.ones((2**12, 2**6))),
        "131072 together"),
    "older: profiles of another width": (OLDER_MOMENTS, array("release.profiles", lambda old: np.empty((0, 9))),
        "scaled"),
    "a target of other functions": (MOMENTS, array("fit.target", lambda old: old[1:]), "fit.target"),
    "another array": (MOMENTS, array("seed", lambda old: np.ones(1)), "'seed' does not belong"),
    "axes of too many columns": (THESIS, array("release.axes.directions", lambda old: np.ones((3, 9))), "axes"),
    "axes that are not orthonormal": (THESIS, array("release.axes.directions", lambda old: 2 * old), "orthonormal"),
    "axes without their images": (THESIS, array("release.axes.images", lambda old: None), "missing"),
    "axes without a mean": (THESIS, array("release.mean", lambda old: None), "need a mean"),
    "a kind of release that is no text": (MOMENTS, put("release", "kind", value=["tables"]), "kind of a release must"),
    # Releases of measurements: the manifest.
    "no row but one": (TABLE, put("release", "n", value=1), "release: n must be an integer"),
    "no kinds of queries": (TABLE, drop("release", "queries"), "'queries' is missing"),
    "kinds of queries that are no list": (TABLE, put("release", "queries", value="histogram"),
                                          "queries must be a list"),
    "queries of a kind that there is not": (TABLE, put("release", "queries", 0, value="os.system"),
                                            "'os.system', which are not registered"),
    "queries of a kind that is no text": (TABLE, put("release", "queries", 0, value=["ranges"]), "not registered"),
    "fewer kinds of queries than there are": (TABLE, put("release", "queries", value=["detail"]), "numbers of kinds"),
    "three columns that matter less than nothing": (TABLE, put("release", "importance", value=-1.0), "importance"),
    "three columns that matter beyond all": (TABLE, put("release", "importance", value=1e101), "importance"),
    "an importance that is no number": (TABLE, put("release", "importance", value="1"), "release: importance must be"),
    "few values of no number": (TABLE, put("release", "continuous", value=[99]), "continuous must be coordinates"),
    "few values twice": (TABLE, put("release", "continuous", value=[0, 0]), "continuous must be coordinates"),
    "the kind of before": (TABLE, put("release", "kind", value="tables"), "release must be an object"),
    # Partitions and maps.
    "measurements of more columns": (TABLE, put("schema", value=Schema.cube(8).to_dict()), PARTS),
    "measurements of fewer columns": (TABLE, put("schema", value=Schema.cube(2).to_dict()), PARTS),
    "a column without positions": (TABLE, array("release.partitions.columns", entry(1)), PARTS),
    "positions of no column": (TABLE, array("release.partitions.columns", lambda old: np.where(old == 6, 7, old)),
                               PARTS),
    "positions of fewer than no column": (TABLE, array("release.partitions.columns", entry(-1)), PARTS),
    "partitions without intervals": (TABLE, array("release.partitions.intervals", lambda old: old[1:]), "intervals"),
    "too many intervals": (TABLE, array("release.partitions.intervals", entry(2**17 + 1)), "1 to 131072"),
    "fewer than no intervals": (TABLE, array("release.partitions.intervals", entry(-(2**63))), "1 to 131072"),
    "no intervals of a number": (TABLE, array("release.partitions.intervals", entry(0)), "1 to 131072 for numbers"),
    "intervals of categories": (TABLE, array("release.partitions.intervals", lambda old: old + 1), "0 for categories"),
    "edges beyond the range": (TABLE, array("release.partitions.edges", entry(-1.5)), "ascend from -1 to 1"),
    "edges from right to left": (TABLE, scaled("release.partitions.edges", -1.0), "ascend from -1 to 1"),
    "edges without a value between": (TABLE, array("release.partitions.edges", lambda old: np.concatenate(
        [[-1.0, np.nextafter(-1.0, 0), np.nextafter(np.nextafter(-1.0, 0), 0)], old[3:]])), "leave a value"),
    "edges of other intervals": (TABLE, array("release.partitions.edges", lambda old: old[1:]), "partitions.edges"),
    "an edge beyond what is read": (TABLE, array("release.partitions.edges", entry(-1e101)), "up to 1e+100"),
    "cells of no partition": (TABLE, array("release.maps.partitions", entry(10**6)), "maps.partitions must be numbers"),
    "cells of fewer than no partition": (TABLE, array("release.maps.partitions", entry(-1)),
                                         "maps.partitions must be numbers"),
    "cells with gaps": (TABLE, array("release.maps.cells", lambda old: 2 * old), "without gaps"),
    "cells below 0": (TABLE, array("release.maps.cells", entry(-1)), "without gaps"),
    "cells of other positions": (TABLE, array("release.maps.cells", lambda old: old[1:]), "'release.maps.cells'"),
    "positions of a table that end elsewhere": (TABLE, table_by(moved_edges), "must consist of those of the columns"),
    # Queries, by kind.
    "a query of no kind": (TABLE, array("release.queries.kinds", entry(9)), "numbers of kinds"),
    "a query of fewer than no kind": (TABLE, array("release.queries.kinds", entry(-1)), "numbers of kinds"),
    "a query without its length": (TABLE, array("release.queries.lengths", lambda old: old[1:]), "queries.lengths"),
    "a query of fewer than no numbers": (TABLE, array("release.queries.lengths", entry(-1)), "lengths at least 0"),
    "a query of endless length": (TABLE, array("release.queries.lengths", entry(2**62)), "'release.queries.integers'"),
    "numbers of no query": (TABLE, array("release.queries.integers", lambda old: np.append(old, 0)),
                            "'release.queries.integers'"),
    "fractions of no query": (TABLE, array("release.queries.floats", lambda old: np.append(old, 0.0)),
                              "'release.queries.floats'"),
    "a column of no partition": (TABLE, query("ranges", at(0, 10**6)), "names the partition 1000000; there are"),
    "a column of fewer than no partition": (TABLE, query("ranges", at(0, -1)), "names the partition -1"),
    "a column of nothing": (TABLE, query("ranges", lambda old: []), "too few numbers"),
    "a column with more": (TABLE, query("ranges", lambda old: [*old, 0]), "too many numbers"),
    "a column with a fraction": (TABLE, query("ranges", floats=lambda old: [*old, 0.5]), "too many numbers"),
    "contrasts of another partition": (CONTRASTS, query("contrasts", at(0, 99)), "names the partition 99"),
    "a closer look at no column": (TABLE, query("detail", at(0, 10**6)), "names the partition"),
    "a closer look at no interval": (TABLE, query("detail", at(1, 2000)), "of a detail must ascend"),
    "a closer look at fewer than no interval": (TABLE, query("detail", at(1, -1)), "of a detail must ascend"),
    "a closer look at categories": (TABLE, query("detail", at(0, 2)), "of a detail must ascend"),
    "a closer look without its interval": (TABLE, query("detail", lambda old: old[:1]), "too few numbers"),
    "a closer look with more": (TABLE, query("detail", lambda old: [*old, 1]), "too many numbers"),
    "a closer look elsewhere": (TABLE, query("detail", floats=lambda old: [0.999 * each for each in old]),
                                "of a detail must ascend from"),
    "a closer look from right to left": (TABLE, query("detail", floats=lambda old: old[::-1]), "must ascend"),
    "a closer look at one place": (TABLE, query("detail", floats=lambda old: old[:1]), "must ascend"),
    "a closer look at nothing": (TABLE, query("detail", floats=lambda old: []), "must ascend"),
    "a table of no map": (TABLE, query("marginal", at(0, 10**6)), "names the map 1000000; there are"),
    "a table of fewer than no map": (TABLE, query("marginal", at(1, -1)), "names the map -1"),
    "a table of no column": (TABLE, query("marginal", lambda old: []), "different, in ascending order"),
    "a table of a column with itself": (TABLE, query("marginal", lambda old: old[:1] * 2), "different, in ascending"),
    "a table from right to left": (TABLE, query("marginal", lambda old: old[::-1]), "different, in ascending order"),
    "a table with a fraction": (TABLE, query("marginal", floats=lambda old: [0.5]), "too many numbers"),
    "a table of fewer columns": (TABLE, query("marginal", lambda old: old[:1]), "'release.measurements.values'"),
    "products of neither kind": (CONTRASTS, query("products", at(0, 2)), "pairs of products"),
    "products of fewer than no pair": (TABLE, query("products", at(1, -1)), "too few numbers"),
    "products of endless pairs": (TABLE, query("products", at(1, 2**61)), "too few numbers"),
    "products of more columns": (TABLE, query("products", at(2, 8)), "the scores of all columns"),
    "products of fewer columns": (TABLE, query("products", at(2, 6)), "the scores of all columns"),
    "products of fewer than no column": (TABLE, query("products", at(2, -7)), "the scores of all columns"),
    "products of a column with itself": (TABLE, query("products", lambda old: [*old[:3], old[4], *old[4:]]),
                                         "different"),
    "products of no column": (TABLE, query("products", at(4, 7)), "pairs of columns that exist"),
    "products of fewer than the first column": (TABLE, query("products", at(3, -1)), "pairs of columns"),
    "products of a pair twice": (TABLE, query("products", lambda old: [*old[:5], *old[3:5], *old[7:]]), "different"),
    "products of columns in another order": (TABLE, query("products", lambda old: at(3 + 2 * old[1], 1)(old)),
                                             "in order"),
    "products of no partition": (TABLE, query("products", lambda old: at(3 + 2 * old[1], 10**6)(old)),
                                 "names the partition"),
    "products of contrasts of no map": (CONTRASTS, query("products", lambda old: at(3 + 2 * old[1], 99)(old)),
                                        "names the map"),
    "scores of no number": (TABLE, query("products", lambda old: at(first_score(old) - 1, -1)(old)), "0 to 256 scores"),
    "scores beyond number": (TABLE, query("products", lambda old: at(first_score(old) - 1, 257)(old)),
                             "0 to 256 scores"),
    "a score above 1": (TABLE, query("products", lambda old: at(first_score(old), 2**15 + 1)(old)), "scores must lie"),
    "a score below -1": (TABLE, query("products", lambda old: at(first_score(old), -(2**15) - 1)(old)),
                         "scores must lie"),
    "a score that overflows": (TABLE, query("products", lambda old: at(first_score(old), -(2**63))(old)),
                               "scores must lie"),
    "products without the last score": (TABLE, query("products", lambda old: old[:-1]), "too few numbers"),
    "products with more scores": (TABLE, query("products", lambda old: [*old, 0]), "too many numbers"),
    # What was measured of them.
    "a measurement of no query": (TABLE, array("release.measurements.queries", entry(10**6)), "numbers of queries"),
    "a measurement of fewer than no query": (TABLE, array("release.measurements.queries", entry(-1)),
                                             "numbers of queries"),
    "a measurement without its weight": (TABLE, array("release.measurements.weights", lambda old: old[1:]), "weights"),
    "a weight of nothing": (TABLE, array("release.measurements.weights", entry(0.0)), f"weights {SIZED}"),
    "a weight below nothing": (TABLE, array("release.measurements.weights", entry(-1.0)), f"weights {SIZED}"),
    "a weight that vanishes": (TABLE, array("release.measurements.weights", entry(1e-101)), f"weights {SIZED}"),
    "a weight that overflows": (TABLE, array("release.measurements.weights", entry(1e101)), f"weights {SIZED}"),
    "an infinite weight": (TABLE, array("release.measurements.weights", entry(np.inf)), "finite numbers"),
    "noise of a law that does not exist": ("tables, pure", array("release.measurements.laws", entry(6)), "laws"),
    "a measurement without the law of its noise": ("tables, pure", array(
        "release.measurements.laws", lambda old: old[1:]), "laws"),
    "a measurement without its noise": (TABLE, array("release.measurements.noise", lambda old: old[1:]), "noise"),
    "noise of no size": (TABLE, array("release.measurements.noise", entry(0.0)), f"noise {SIZED}"),
    "noise that overflows": (TABLE, array("release.measurements.noise", entry(1e101)), f"noise {SIZED}"),
    "noise that is not a number": (TABLE, array("release.measurements.noise", entry(np.nan)), "finite numbers"),
    "noise that overflows by its weight": (TABLE, both(array("release.measurements.noise", entry(1e60)), array(
        "release.measurements.weights", entry(1e-60))), f"release.measurements {SIZED}"),
    "noise that vanishes by its weight": (TABLE, both(array("release.measurements.noise", entry(1e-60)), array(
        "release.measurements.weights", entry(1e60))), f"release.measurements {SIZED}"),
    "a value that overflows": (TABLE, array("release.measurements.values", entry(1e101)), "up to 1e+100"),
    "a value that overflows below": (TABLE, array("release.measurements.values", entry(-1e101)), "up to 1e+100"),
    "an infinite value": (TABLE, array("release.measurements.values", entry(np.inf)), "finite numbers"),
    "values of other queries": (TABLE, array("release.measurements.values", lambda old: old[1:]),
                                "'release.measurements.values'"),
    "values of contrasts of all positions": (CONTRASTS, array("release.measurements.values", lambda old: np.append(
        old, 0.5)), "'release.measurements.values'"),
    "a target of other measurements": (TABLE, array("fit.target", lambda old: old[1:]), "fit.target"),
    "measurements of nothing": (TABLE, both(*(array(f"release.measurements.{name}", lambda old: old[:0]) for name in (
        "queries", "weights", "noise", "values"))), "fit.target"),
    # What is known of the columns.
    "a negative probability": (TABLE, array("release.columns.mass", entry(-0.1)), "probabilities"),
    "probabilities of another sum": (TABLE, scaled("release.columns.mass", 0.5), "probabilities"),
    "probabilities of other positions": (TABLE, array("release.columns.mass", lambda old: old[1:]), "columns.mass"),
    "a column of no noise": (TABLE, array("release.columns.deviations", entry(0.0)), f"columns.deviations {SIZED}"),
    "a column without its noise": (TABLE, array("release.columns.deviations", lambda old: old[1:]),
                                   "'release.columns.deviations'"),
    # The mechanism.
    "a mechanism that there is not": (TABLE, put("mechanism", value={"is": "Popen"}), "there is no 'Popen'"),
    "a mechanism of no name": (TABLE, put("mechanism", value={"points": 1}), "there is no 'None'"),
    "a mechanism of a long name": (TABLE, put("mechanism", value={"is": 1000 * "x"}), f"there is no '{40 * 'x'}'"),
    "a mechanism that is none": (TABLE, put("mechanism", value={"is": "Marginals", "k": 2}),
                                 "the package's mechanisms"),
    "a mechanism that is a list": (TABLE, put("mechanism", value=[1]), "the package's mechanisms"),
    "a mechanism with another option": (TABLE, put("mechanism", "seed", value=1), "do not fit TableMechanism"),
    "a mechanism's option out of range": (TABLE, put("mechanism", "points", value=0), "points must be a positive"),
    "a mechanism's option of another kind": (TABLE, put("mechanism", "shares", value={"is": "Marginals", "k": 1}),
                                             "shares must be Shares"),
    "a mechanism's points without end": (TABLE, put("mechanism", "points", value=2**50), "are more than 100000000"),
    "points without end of moments": (MOMENTS, put("mechanism", "points", value=2**50), "are more than 100000000"),
    "a workload of endless products": (MOMENTS, put("mechanism", "workload", value={
        "is": "Polynomials", "d": 3, "degree": 10**4000, "n_queries": 1, "seed": 1}), "the mechanism|more than"),
    "a mechanism's name that commands": (TABLE, put("mechanism", value="\x1b[2J"), "the mechanism must be a text"),
    "a mechanism's name without end": (TABLE, put("mechanism", value=201 * "x"), "the mechanism must be a text"),
    "no name of a mechanism of one's own": (CHOSEN, put("mechanism", value=7), "the package's mechanisms"),
}
# Of files by version 0.1.
UNFIT_BEFORE = {
    "tables of no manner of looking": (OLDER, put("release", "cumulative", value=None), "true or false"),
    "tables of more columns": (OLDER, put("schema", value=Schema.cube(8).to_dict()), "looks.intervals"),
    "too many intervals": (OLDER, array("release.looks.intervals", entry(2**11)), "1 to 1024"),
    "fewer than no intervals": (OLDER, array("release.looks.intervals", entry(-(2**63))), "1 to 1024"),
    "intervals of categories": (OLDER, array("release.looks.intervals", lambda old: old + 1), "0 for categories"),
    "edges beyond the range": (OLDER, array("release.looks.edges", entry(-1.5)), "ascend from -1 to 1"),
    "edges without a value between": (OLDER, array("release.columns.edges", lambda old: np.concatenate(
        [[-1.0, np.nextafter(-1.0, 0), np.nextafter(np.nextafter(-1.0, 0), 0)], old[3:]])), "leave a value"),
    "a frequency that overflows": (OLDER, array("release.looks.values", entry(1e101)), "up to 1e+100"),
    "noise of no size": (OLDER, array("release.looks.deviations", entry(0.0)), "deviations"),
    "noise of a closer look of no size": (OLDER, array("release.closer.deviations", entry(0.0)), "deviations"),
    "a negative probability": (OLDER, array("release.columns.mass", entry(-0.1)), "probabilities"),
    "probabilities of another sum": (OLDER, scaled("release.columns.mass", 0.5), "probabilities"),
    "a closer look at no column": (OLDER, array("release.closer.index", entry(7)), "closer looks"),
    "a closer look at no interval": (OLDER, array("release.closer.index", lambda old: np.add(old, [0, 2000, 0])),
                                     "closer looks"),
    "a closer look twice": (OLDER, array("release.closer.index", lambda old: old[[0, *range(len(old))]]),
                            "closer looks"),
    "a closer look of endless length": (OLDER, array("release.closer.index", lambda old: np.add(old, [0, 0, 2**62])),
                                        "closer looks"),
    "a closer look elsewhere": (OLDER, scaled("release.closer.edges", 0.999), "of a closer look must ascend"),
    "a closer look from right to left": (OLDER, scaled("release.closer.edges", -1.0), "must ascend"),
    "a second round without noise": (OLDER, put("release", "dependence", "deviation", value=0.0), "second round"),
    "noise that overflows": (OLDER, put("release", "dependence", "deviation", value=1e300), "second round"),
    "noise of a table that overflows": (OLDER, both(put("release", "dependence", "deviation", value=1e50), scaled(
        "release.dependence.weights", 1e-98)), "the second round"),
    "products that weigh nothing": (OLDER, put("release", "dependence", "product_weight", value=0.0), "weight of"),
    "products of huge noise": (OLDER, both(put("release", "dependence", "deviation", value=1e50), put(
        "release", "dependence", "product_weight", value=1e-99)), "the second round"),
    "cells with gaps": (OLDER, array("release.dependence.maps", lambda old: 2 * old), "without gaps"),
    "cells of one column with gaps": (OLDER, array("release.dependence.maps", entry(99)), "without gaps"),
    "cells of one of three columns with gaps": (OLDER, array("release.selected.maps", entry(99)), "without gaps"),
    "a table of a column with itself": (OLDER, array("release.dependence.tables", lambda old: old * 0), "different"),
    "a table of no column": (OLDER, array("release.dependence.tables", lambda old: old + 1), "columns that exist"),
    "one table of a column with itself": (OLDER, array("release.dependence.tables", lambda old: np.concatenate(
        [[old[0, [0, 0]]], old[1:]])), "different sets of 2 columns"),
    "one table of two columns in descending order": (OLDER, array(
        "release.dependence.tables", lambda old: np.concatenate([old[:1, ::-1], old[1:]])), "different sets of 2"),
    "a table twice": (OLDER, array("release.dependence.tables", lambda old: old[[0, *range(len(old) - 1)]]),
                      "different sets of 2 columns"),
    "a last round of no second": (OLDER, put("release", "dependence", value=None), "must follow the second"),
    "a last round without noise": (OLDER, put("release", "selected", "deviation", value=0.0), "the last round"),
    "three columns that matter less than nothing": (OLDER, put("release", "selected", "importance", value=-1.0),
                                                    "importance"),
    "a table that weighs less than nothing": (OLDER, array("release.selected.weights", entry(-1.0)), "selected"),
    "three columns of which one is none": (OLDER, array("release.selected.triples", lambda old: old + 9), "sets of 3"),
    "three columns of which two are one": (OLDER, array("release.selected.triples", lambda old: old * 0), "sets of 3"),
    "three columns that weigh nothing": (OLDER, array("release.selected.triple_weights", entry(0.0)), "selected"),
    "noise of three columns that overflows": (OLDER, both(put("release", "selected", "deviation", value=1e50), scaled(
        "release.selected.triple_weights", 1e-90)), "the last round must have deviations"),
    "noise of both rounds that vanishes": (OLDER, both(put("release", "selected", "deviation", value=1e-90), scaled(
        "release.selected.weights", 1e50)), "the last round must have deviations"),
    "cells of three columns with gaps": (OLDER, array("release.selected.maps", lambda old: 2 * old), "without gaps"),
    "tables of three columns of other cells": (OLDER, array("release.triples", lambda old: old[1:]),
                                               "'release.triples'"),
    "products of categories": (OLDER, array("release.dependence.pairs", lambda old: old * 0 + [0, 2]), "pairs"),
    "a score above 1": (OLDER, array("release.dependence.scores", entry(2**15 + 1)), "scores"),
    "a score that overflows": (OLDER, array("release.dependence.scores", entry(-(2**63))), "scores"),
    "tables of other cells": (OLDER, array("release.tables", lambda old: old[1:]), "'release.tables'"),
    "products of other scores": (OLDER, array("release.products", lambda old: old[1:]), "'release.products'"),
    "scores of no number": (OLDER, array("release.dependence.degrees", entry(-1)), "0 to 256 scores"),
    "contrasts of intervals": (OLDER, array("release.looks.contrasted", entry(1)), "0 where intervals are cumulative"),
    "contrasts of no kind": (OLDER_PURE, array("release.looks.contrasted", entry(2)), "must be 0 or 1"),
    "contrasts of all positions": (OLDER_PURE, array("release.looks.contrasted", lambda old: old * 0), "looks.values"),
    "products of no pair": (OLDER_PURE, array("release.dependence.pairs", lambda old: old[1:]), "release.products"),
    "tables of nothing": (OLDER, both(put("release", "dependence", value=None), put(
        "release", "selected", value=None), put("fit", value=None), put("rows", value=None)), "does not belong"),
    "a target of other tables": (OLDER, array("fit.target", lambda old: old[1:]), "fit.target"),
}


@pytest.mark.parametrize("case", UNFIT)
def test_files_whose_parts_do_not_fit_are_refused(tmp_path, case):
    refuses(tmp_path, *UNFIT[case])


@pytest.mark.parametrize("case", UNFIT_BEFORE)
def test_files_of_the_format_before_whose_parts_do_not_fit_are_refused(tmp_path, case):
    refuses(tmp_path, *UNFIT_BEFORE[case])


def refuses(tmp_path, of, spoil, words):
    content, arrays = taken_apart(of)
    spoil(content, arrays)
    path = tmp_path / "a.tm"
    archive.write(path, content, arrays)
    with pytest.raises(InputError) as refused:
        saved.read(path)
    message = str(refused.value)
    assert message.startswith(f"cannot read {str(path)!r}: ")
    assert any(each in message for each in words.split("|")), message


HOSTILE = [None, True, -1, 0, 2**80, -1e300, 5e-324, "", "x\0", [], [[]], {}, {"a": 1}, [None], 1000 * "x"]


def places(value, where=()):
    """The keys to every value inside a value."""
    for key in (value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()):
        yield (*where, key)
        yield from places(value[key], (*where, key))


@pytest.mark.daily("moments of whole rows-a third")  # Values of tables: test_rounds.py, UNFIT.
@pytest.mark.parametrize("hostile", [HOSTILE[::3], pytest.param(HOSTILE, marks=pytest.mark.nightly)],
                         ids=["a third", "all"])
@pytest.mark.parametrize("case", [MOMENTS, THESIS, "categories", TABLE, CHOSEN, OLDER])
def test_any_value_anywhere_is_refused_or_makes_a_release(case, hostile):
    content, arrays = taken_apart(case)
    refused, whole = 0, pickle.dumps(content)
    for where in list(places(content)):
        for spoil in (drop(*where), *(put(*where, value=value) for value in hostile)):
            changed = pickle.loads(whole)
            spoil(changed, {})
            try:
                found = saved._together(changed, dict(arrays))
            except TrigmechError:
                refused += 1
            else:
                assert math.isfinite(found["fit"].distribution.expect(lambda x: x[:, 0]))
    assert refused > 200


CHANGES = [lambda old: old[:0], lambda old: old[..., None], lambda old: old.reshape(-1)[:1], lambda old: old * 0 + 2,
           lambda old: -old, lambda old: old.astype(np.uint8), lambda old: np.array(1.0), lambda old: old.T,
           lambda old: old.astype(float) * np.nan, lambda old: np.full_like(old, np.iinfo(np.int64).min)]


@pytest.mark.daily("releases-0.1/tables-contrasts")
@pytest.mark.parametrize("case", [MOMENTS, THESIS, "categories", TABLE, CONTRASTS, CHOSEN, OLDER, OLDER_PURE])
def test_any_array_is_refused_or_makes_a_release(case):
    content, arrays = taken_apart(case)
    refused, whole = 0, pickle.dumps(content)
    for name in arrays:
        for change in CHANGES:
            try:
                saved._together(pickle.loads(whole), {**arrays, name: change(arrays[name])})
            except InputError:
                refused += 1
    assert refused > 5 * len(arrays)


def categories(cells):
    return Partition(tuple(range(cells)), None, np.empty(0))


def read_query(kind, integers, book, floats=()):
    return kind.read(Numbers(np.array(integers, dtype=np.int64)), Numbers(np.array(floats, dtype=np.float64)), book)


def endless_products():
    """Ten columns of 256 scores: three million products, by 20 kilobytes of a file."""
    book, pairs = Book([(j, categories(1)) for j in range(10)]), np.argwhere(np.triu(np.ones((10, 10)), 1))
    scores = [number for j in range(10) for number in (j, 256, *[1] * 256)]
    return lambda: read_query(Products, [0, len(pairs), 10, *pairs.ravel(), *scores], book).size == len(pairs) * 2**16


def endless_table():
    """Of 20,000 columns: a number of cells that has 6,000 digits."""
    book = Book([(j, categories(2)) for j in range(20_000)], [(j, np.array([0, 1])) for j in range(20_000)])
    return lambda: read_query(Marginal, range(20_000), book)


def many_tables_of_one_map():
    book = Book([(0, categories(1))], [(0, np.arange(2**22))])
    return lambda: sum(read_query(Marginal, [0], book).size for _ in range(10_000)) == 10_000 * 2**22


def ranges_without_end():
    book = Book([(0, Partition((), 0, np.linspace(-1.0, 1.0, 2**17 + 1)))])
    return lambda: read_query(PrefixSums, [0], book)


def contrasts_without_end():
    book = Book([(0, categories(2**13))])
    return lambda: read_query(Contrasts, [0], book)


@pytest.mark.parametrize(("asks", "words"), [
    (endless_products, None), (endless_table, "more than 134217728 cells"), (many_tables_of_one_map, None),
    (ranges_without_end, "at most 1024 intervals, not 131072"), (contrasts_without_end, "at most 256 positions")])
def test_a_file_can_ask_for_no_time_or_memory_beyond_its_size(asks, words):
    work = asks()
    tracemalloc.start()
    started = time.process_time()
    try:
        if words is None:
            assert work()
        else:
            with pytest.raises(InputError, match=words):
                work()
        held = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert held < 2**25
    assert time.process_time() - started < 10.0


def test_products_beyond_what_an_archive_holds_are_refused_before_they_are_listed():
    release = made(CONTRASTS).release
    partitions = tuple(column.partition for column in release.columns)
    products = Products(partitions, tuple(np.ones((each.size, 256), dtype=np.int64) for each in partitions),
                        np.array([[0, 1], [0, 2], [1, 2]]))
    manifest, arrays = measurements_file.parts_of(dataclasses.replace(
        release, measurements=(Measurement(products, 1.0, np.zeros(0), 1.0),)), FEW.domain)
    with pytest.raises(InputError, match=r"release\.measurements\.values"):
        measurements_file.release_of(manifest, arrays, FEW.domain)


def test_more_categories_than_are_contrasted_are_saved(tmp_path):
    """Prefix sums are of intervals: however many categories there are."""
    names = [f"c{k}" for k in range(9000)]
    schema = Schema([Column("many", kind="categorical", categories=names), Column("x", -1.0, 1.0)])
    table = pd.DataFrame({"many": names[:300], "x": cube_table()[:, 0]})
    for budget in (APPROXIMATE, PURE):
        synthesis = simulated(TABLES, budget, table, schema)
        synthesis.save(tmp_path / "a.tm")
        assert differences(synthesis, load_release(tmp_path / "a.tm")) == []


@pytest.mark.parametrize(("change", "words"), [
    ({"target": np.ones(1)}, "shape"), ({"rows": 1.5}, "rows must be"), ({"library": "other"}, "library must be"),
    ({"distribution": Distribution(np.zeros((1, 2)), np.ones(1))}, "shape"),
    ({"distribution": Distribution(np.zeros((1, 3), dtype=np.float32), np.ones(1))}, "float64"),
    ({"schema": Schema.cube(2)}, "domain of the release differs from the schema's"),
])
def test_parts_that_do_not_belong_together_are_not_saved(tmp_path, change, words):
    change = dict(change)
    path = tmp_path / "a.tm"
    path.write_text("old")
    synthesis, of_fit = made("moments"), {name: change.pop(name) for name in ("target", "distribution", "rows")
                                          if name in change}
    changed = dataclasses.replace(synthesis, **change, fit=dataclasses.replace(synthesis.fit, **of_fit))
    with pytest.raises(InputError, match=words):
        save(path, changed)
    assert path.read_text() == "old"
