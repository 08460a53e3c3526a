"""Quantities that most tests have equal: each is told from its neighbours where they differ."""

import csv
import io
import itertools
import math
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from test_copula import categories, number

import trigmech as tm
from trigmech import answering
from trigmech.domain import Domain, OneHotGroup
from trigmech.engines import choice
from trigmech.engines.question import Persons
from trigmech.engines.spread import SpreadTable
from trigmech.evaluation import judgement
from trigmech.functions.index import FunctionIndex
from trigmech.functions.partition import Partition
from trigmech.inference import drawing
from trigmech.inference.weighted import WeightedTable
from trigmech.measurement.sums import Total
from trigmech.planning.dependence import _scores, _with_absence, directions_of
from trigmech.planning.error_model import ErrorModel
from trigmech.planning.priors import PRIOR_COHERENT
from trigmech.queries.base import Measurement
from trigmech.queries.book import Book, Numbers
from trigmech.queries.joint import Products
from trigmech.queries.one_way import Histogram, PrefixSums
from trigmech.queries.signs import Signs
from trigmech.reconstruction import targets
from trigmech.reconstruction.copula import Copula
from trigmech.reconstruction.sparse import ENOUGH, with_margins
from trigmech.report.tables import TableAccount
from trigmech.tables.lenient import LenientFile
from trigmech.workload import GaussianKernels

# Tables that are checked before anything is charged


class Workers:
    """Workers that know how many rows there are, and count other ones if they are asked."""

    library, categorical = "", ()

    def __init__(self):
        self.asked = []

    def n(self, schema):
        return 100

    def answers(self, question):
        self.asked.append(question)
        total = Total(question.asked.size)
        total.n = 60
        yield SimpleNamespace(total=total)


@pytest.mark.parametrize(("bounds", "categories"), [(True, False), (False, True), (True, True), (False, False)])
def test_workers_check_a_table_if_anything_of_its_schema_is_private(bounds, categories):
    number = tm.Column("x", private_bounds=True) if bounds else tm.Column("x", 0, 1)
    text = tm.Column("y", kind="categorical", categories="private" if categories else ["a", "b"])
    workers, said = Workers(), []
    table = SpreadTable(workers, tm.Schema([number, text]), lambda *step: said.append(step))
    private = bounds or categories
    assert [type(each.asked) for each in workers.asked] == [Persons] * private
    assert all(not each.raw for each in workers.asked)
    assert (table.n, said) == ((60, [("checking the table and the options", 0, 0)]) if private else
                               (100, [("counting rows and planning", 0, 0)]))


@pytest.mark.parametrize("engine", ["processes", "dask", "spark"])
@pytest.mark.parametrize("fails", ["never", "at first", "within"])
def test_workers_are_closed_however_the_work_ends(tmp_path, monkeypatch, engine, fails):
    pd.DataFrame({"x": [0.0, 1.0]}).to_parquet(tmp_path / "t.parquet")
    workers, schema, ended = Workers(), tm.Schema([tm.Column("x", 0, 1)]), []
    workers.close = lambda: ended.append(True)
    if fails == "at first":
        workers.n = lambda schema: 1 // 0
    monkeypatch.setattr(choice, "_workers", lambda *given: workers)

    def work():
        with choice.opened(str(tmp_path / "*.parquet"), schema, engine=engine) as table:
            assert (table.n, ended) == (100, [])
            if fails == "within":
                raise ZeroDivisionError

    if fails == "never":
        work()
    else:
        with pytest.raises(ZeroDivisionError):
            work()
    assert ended == [True]


# Values of columns whose numbers have another unit than what is written


@pytest.mark.parametrize(("column", "special", "others"), [
    (tm.Column("x", "2000-01-01", "2020-12-31", "datetime", special=["1900-01-01"]), "1900-01-01", "2010-05-05"),
    (tm.Column("x", "2000-01-01", "2020-12-31", "datetime", resolution="hour", special=["1900-01-01T05:00"]),
     "1900-01-01T05:00", "2010-05-05T03:00"),
    (tm.Column("x", 0, 50, "integer", special=[-9]), -9, 7)], ids=["days", "hours", "numbers"])
def test_special_values_of_times_and_numbers_lie_outside_the_bounds_without_a_finding(column, special, others):
    time = column.unit is not None
    schema = tm.Schema([column, tm.Column("y", 0, 200, "integer")])

    def found(values):
        table = pd.DataFrame({"x": np.array(values, dtype="M8[s]") if time else values, "y": np.arange(len(values))})
        return [(each.kind, each.count) for each in tm.check(table, schema) if each.severity == "refused"
                or each.kind in ("outside", "far outside")]

    assert found([special, others] * 20) == []
    beyond = "1850-01-01" if time else -99
    assert found([special, others] * 20 + [beyond]) == [("far outside", 1)]


# Averages by precision


def margins(k, count, seed):
    rng = np.random.default_rng(seed)
    mass = rng.dirichlet(np.ones(k))
    return mass, [(np.maximum(mass + 0.02 * rng.normal(size=k), 0.0), 10.0 ** rng.uniform(-7.0, -4.0, k))
                  for _ in range(count)]


@pytest.mark.parametrize("count", [1, 2, 3])
def test_margins_of_unequal_noise_count_by_their_precision(count):
    mass, given = margins(40, count, count)
    precision = sum(1.0 / variance for _, variance in given)
    margin = sum(found / variance for found, variance in given) / precision
    noise = 1.0 / precision
    apart = np.mean((mass - margin) ** 2 - noise) - ENOUGH * np.sqrt(2.0 * np.sum(noise**2)) / len(mass)
    assert apart > 0.0
    wanted = np.maximum((margin / noise + mass / apart) / (1.0 / noise + 1.0 / apart), 0.0)
    np.testing.assert_allclose(with_margins(mass, given), wanted / wanted.sum(), rtol=1e-9)


def test_the_noise_of_ordinary_numbers_grows_with_the_rows_that_hold_special_values(monkeypatch):
    """Moments of a part of the rows are known with the whole noise over this part, which differs between columns."""
    domain = Domain(5, [OneHotGroup((2,), False, 0), OneHotGroup((3, 4), False, 1)])
    degrees = np.vstack([np.eye(5, dtype=np.int64), 2 * np.eye(5, dtype=np.int64)[:2]])
    means = np.array([0.1, -0.2, 0.3, 0.4, 0.2, -0.5, -0.6])
    deviations = np.array([0.01, 0.02, 0.03, 0.04, 0.05, 0.06, 0.07])
    fit, given = targets.SmoothMarginals.fit, []
    monkeypatch.setattr(targets.SmoothMarginals, "fit", lambda *both: given.append(both) or fit(*both))
    targets.MomentTargets.explained(FunctionIndex.of(degrees, domain), means, deviations, False)
    (moments, scales), = given
    # At special values, 0 in the cube, T_1 is 0 and T_2 is -1.
    np.testing.assert_allclose(moments, [[0.1 / 0.7, -0.2 / 0.4], [(-0.5 + 0.3) / 0.7, (-0.6 + 0.6) / 0.4]], atol=1e-12)
    np.testing.assert_allclose(scales, [[0.01 / 0.7, 0.02 / 0.4], [0.06 / 0.7, 0.07 / 0.4]], rtol=1e-12)


# The smaller of two tables


@pytest.mark.parametrize(("true", "made", "there"), [
    (30, 30, True), (29, 500, False), (500, 29, False), (30, 500, True), (500, 30, True)])
def test_a_detector_needs_thirty_rows_of_either_table(monkeypatch, true, made, there):
    monkeypatch.setattr(judgement, "detector_aucs", lambda *given: (0.75, 0.25, min(true, made)))
    sides = [SimpleNamespace(values=np.zeros((rows, 2))) for rows in (true, made)]
    details = {}
    found = judgement._detector(None, *sides, sides[0], details, None)
    assert [(each.name, each.value) for each in found] == [("detector", 0.75)] * there
    assert details == ({"detectors": {"boosting": 0.75, "logistic": 0.25, "LogisticDetection": 1.0},
                        "rows of the detector": min(true, made)} if there else {})


# Lines of a file whose rows have breaks within


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_lines_of_rows_of_any_length_are_those_where_they_begin(tmp_path, seed, ending):
    """Python's own reader says where each row of a file begins; rows with too many cells are among them."""
    rng = np.random.default_rng(seed)
    text = "a,b" + ending
    for _ in range(60):
        cells = [f'"{ending.join("xyz"[: rng.integers(1, 4)])}"' for _ in range(rng.choice([2, 2, 3, 4]))]
        text += ",".join(cells) + ending
    (tmp_path / "t.csv").write_text(text, newline="")
    rows, begin, kept, ragged = csv.reader(io.StringIO(text, newline="")), 1, [], []
    for row in rows:
        (kept if len(row) == 2 else ragged).append(begin)
        begin = rows.line_num + 1
    file = LenientFile(tmp_path / "t.csv")
    file.begin()
    columns = [SimpleNamespace(name=name, is_text=True, categories=None) for name in "ab"]
    lines = np.concatenate([np.asarray(part.lines) for part in file.parts(columns, {"a": 0, "b": 1})])
    assert lines.tolist() == kept[1:]
    for count in (1, 5, len(ragged)):
        assert file.lines_of_ragged(count).tolist() == ragged[:count]


# Columns in another order

COLUMNS = (number([0.3, 0.1, 0.2, 0.3, 0.1], 0, (1,)), number([0.2, 0.15, 0.2, 0.2, 0.25], 2, (3, 4)),
           number([1.0, 2.0, 3.0], 5), number([3.0, 1.0, 1.0], 7), categories([0.5, 0.2, 0.3], 9))


def by_products(columns, deviation_of):
    scores = tuple(_scores(column, 2) if column.partition.value is not None else np.zeros((3, 0), dtype=np.int64)
                   for column in columns)
    held = [j for j, column in enumerate(columns) if column.partition.value is not None]
    query = Products(tuple(column.partition for column in columns), _with_absence(columns, scores),
                     np.array(list(itertools.combinations(held, 2))))
    deviations = [deviation_of(*sorted([(columns[j].partition.value, a), (columns[h].partition.value, b)]))
                  for j, h, a, b in query.factors]
    return Copula.by_products(columns, query, np.array(deviations), query.presence)


def by_directions(columns, deviation_of):
    query = directions_of(columns)
    named = [*range(len(columns)), *query.presence]
    keys = [(columns[j].partition.value if columns[j].partition.value is not None else 99, i >= len(columns))
            for i, j in enumerate(named)]
    means = [deviation_of(*sorted([keys[i], keys[k]])) for i, k in query.pairs]
    return Copula.by_directions(columns, Measurement(query, 1.0, np.array(means), 1e-4))


# Directions are compared with those of simulated rows.
@pytest.mark.parametrize(("made_by", "apart"), [(by_products, 1e-9), (by_directions, 0.04)])
@pytest.mark.parametrize("order", [(2, 0, 1, 3, 4), (4, 3, 2, 1, 0), (2, 4, 0, 3, 1)])
def test_a_copula_of_columns_in_another_order_is_that_of_the_columns(made_by, apart, order):
    def deviation_of(one, other):
        return 0.1 * math.sin(7 * one[0] + 3 * one[1] + 5 * other[0] + 11 * other[1])

    found, columns = made_by(COLUMNS, deviation_of), tuple(COLUMNS[j] for j in order)
    other = made_by(columns, deviation_of)
    presence = tuple(j for j, of in enumerate(order) if of < 2)
    assert tuple(each.column for each in found.presence) == (0, 1)
    assert tuple(each.column for each in other.presence) == presence
    for j, of in enumerate(order):
        np.testing.assert_array_equal(other.coefficients[j], found.coefficients[of])
        np.testing.assert_array_equal(other.orders[j], found.orders[of])
    for mine in other.presence:
        of = found.presence[order[mine.column]]
        np.testing.assert_array_equal(mine.step, of.step)
        np.testing.assert_array_equal(mine.apart, of.apart)
    places = [*order, *(5 + order[j] for j in presence)]
    np.testing.assert_allclose(other.correlations, found.correlations[np.ix_(places, places)], atol=apart)


@pytest.mark.parametrize("more", [0, 1])
@pytest.mark.parametrize("kind", ["products", "directions"])
def test_a_query_about_all_columns_is_not_read_beside_others(kind, more):
    scores = tuple(_scores(column, 1) if column.partition.value is not None else np.zeros((3, 0), dtype=np.int64)
                   for column in COLUMNS)
    query = directions_of(COLUMNS) if kind == "directions" else Products(
        tuple(column.partition for column in COLUMNS), scores, np.array([(0, 1), (1, 2)]))
    held = [(j, column.partition) for j, column in enumerate(COLUMNS)]
    integers, floats = query.written(Book(held))
    book = Book(held + [(len(held), categories([0.5, 0.5], 12).partition)] * more)

    def read():
        return type(query).read(Numbers(np.array(integers)), Numbers(floats), book)

    if more:
        with pytest.raises(tm.InputError, match=f"{kind} must have the scores of all columns"):
            read()
    else:
        assert read().written(book)[0] == integers


# Effects of one, two and three columns


@pytest.mark.parametrize(("d", "width"), [(3, 0.8), (4, 0.5), (6, 1.5)])
def test_what_all_queries_share_is_the_sum_of_the_mean_query_s_coefficients(d, width):
    """By the product of one profile for each column: the coefficients of T_2 in one, two and three of them."""
    made = ErrorModel(GaussianKernels(d, seed=0, n_queries=10, widths=(width,)), 3, 2)
    profile, = made.profiles
    c0, c2 = profile[0], abs(profile[2])
    assert made.common_single[0] == pytest.approx(c0 ** (d - 1) * c2, rel=1e-12)
    assert made.common_pair[0] == pytest.approx(math.comb(d, 2) * c0 ** (d - 2) * c2**2, rel=1e-12)
    # The assumed common error of triples is half of that of pairs.
    assert made.common_triple[0] == pytest.approx(
        math.comb(d, 3) * c0 ** (d - 3) * c2**3 * PRIOR_COHERENT / 2.0, rel=1e-12)
    assert made.gain[0] <= np.polynomial.chebyshev.chebval(0.0, profile) ** d


# Numbers of any size


@pytest.mark.parametrize("sizes", [(1.0, 1.0), (2.0**-40, 2.0**40), (2.0**40, 2.0**40), (2.0**30, 2.0**-20)])
def test_the_p_value_of_several_numbers_does_not_depend_on_their_units(sizes):
    rng = np.random.default_rng(0)
    psi = rng.normal(size=(400, 2)) @ [[1.0, 0.6], [0.0, 0.8]]
    values, rehearsed = np.array([0.05, -0.1]), np.zeros((0, 3, 0, 1))
    posterior = SimpleNamespace(m=400, weights=np.full(400, 1.0 / 400.0), release=SimpleNamespace(n=300),
                                covariance=lambda psi: psi.T @ psi / 400 / 900)
    table = WeightedTable(None, posterior, rehearsed)
    table.__dict__["columns"] = {}

    def of(values, psi, sizes):
        return table.p_value(lambda columns, weights: (values * sizes, psi * sizes))

    assert of(values, psi, np.array(sizes)) == pytest.approx(of(values, psi, 1.0), rel=1e-9)
    with pytest.raises(tm.InputError, match="follow"):
        of(values[[0, 0]], psi[:, [0, 0]], np.array(sizes))


# Names that need quotes


@pytest.mark.parametrize("name", ["two words", "in", 'the "b"', "größe-2", "1st", "or"])
@pytest.mark.parametrize("rule", ["{} is missing", "{} is not missing", "{} <= 3", "{} in (1, 2)", "{} <= x",
                                  "x >= {}", "not ({} is missing and x <= 2)", "x is missing if and only if {} = 1"])
def test_a_constraint_s_text_names_its_columns_so_that_it_can_be_read_again(name, rule):
    columns = [tm.Column(name, 0, 9, "integer", missing="keep"), tm.Column("x", 0, 9, "integer", missing="keep")]
    quoted = '"' + name.replace('"', '""') + '"'
    made, = tm.Schema(columns, [rule.format(quoted)]).constraints
    again, = tm.Schema(columns, [made.text]).constraints
    assert (again.text, again.rule) == (made.text, made.rule)
    assert quoted in made.text or name == "größe-2"


# Options that are passed on


@pytest.mark.parametrize(("method", "asks", "first"), [("sql", "ask", ("select 1",)),
                                                       ("regression", "fitted", ("y ~ x", "poisson"))])
@pytest.mark.parametrize("level", [0.5, 0.95])
def test_a_question_is_asked_with_its_own_level_tables_and_population(monkeypatch, method, asks, first, level):
    asked, checked = [], []
    monkeypatch.setattr(answering, asks, lambda *given: asked.append(given))
    for check in ("check_query", "check_formula"):
        monkeypatch.setattr(answering, check, lambda schema, *given: checked.append(given))
    made = object.__new__(answering.Answering)
    object.__setattr__(made, "schema", "the schema")
    monkeypatch.setattr(answering.Answering, "imputations", lambda self, *given: ("imputed", *given))
    getattr(made, method)(*first, m=7, population=False, level=level)
    assert asked == [(("imputed", 7, False), *first, level)]
    assert checked == [first]


def test_bars_of_a_statistic_are_asked_for_with_its_level_and_progress(monkeypatch):
    given, said = {}, []

    def bars(statistic, level, progress):
        given.update(level=level, progress=progress, value=statistic("points"))
        return "values", "error"

    monkeypatch.setattr(answering.Answering, "_table", lambda self, points: {"x": points})
    made = object.__new__(answering.Answering)
    made.__dict__["_resamples"] = SimpleNamespace(bars=bars)
    found = made.error_bars(lambda table: table["x"], 0.8, said.append)
    assert given == {"level": 0.8, "progress": said.append, "value": "points"}
    assert (found.values, found.error) == ("values", "error")


# Functions of unequal spread


def test_rows_are_exchanged_by_functions_in_units_of_their_spread(monkeypatch):
    """Most exchanges are judged by one product with what is missing, which is of the same units as both."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=(200, 3)) * [0.01, 1.0, 30.0]
    fits = object.__new__(drawing._Fits)
    fits._moments, fits._products = [values.mean(axis=0)[:, None] + [0.0, 0.02, -0.02]], np.empty((0, 3))
    fits._shapes, fits._asked, columns = [values], [np.full(3, True)], [SimpleNamespace(mass=np.full(200, 1.0 / 200))]
    fits._smooth = SimpleNamespace(size=3, deviations=np.ones(3), factors=np.empty((0, 4), dtype=np.int64),
                                   products=lambda rows, kept: np.empty((200, 0)))
    exchanged, calls = drawing._exchanged, []

    def seen(scaled, picked, missing, along, lengths, tried):
        calls.append(scaled)
        np.testing.assert_allclose(along, scaled @ missing, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(lengths, np.square(scaled).sum(axis=1), rtol=1e-9)
        exchanged(scaled, picked, missing, along, lengths, tried)

    monkeypatch.setattr(drawing, "_exchanged", seen)
    rows = fits._raked(np.arange(200)[:, None], columns, 1, rng)
    assert len(calls) == drawing.TRIED
    spread = np.maximum(fits._moments[0].std(axis=1), 1.0 / 200)
    np.testing.assert_allclose(calls[0], values / spread, rtol=1e-9)
    assert rows.shape == (200, 1)


# Columns that were looked at in unequal ways


def test_signs_and_columns_without_a_look_show_no_frequencies_beside_those_that_tell_them():
    """The means of signs are no frequencies."""
    partition = Partition((), 0, np.linspace(-1.0, 1.0, 5))
    looks = [Signs(0, partition, 2), Histogram(0, partition), PrefixSums(0, partition), None]
    means = np.array([0.1, 0.2, 0.3, 0.4])
    release = SimpleNamespace(columns=looks, look_at=lambda j: None if looks[j] is None else Measurement(
        looks[j], 1.0, means[: looks[j].size], 0.01))
    own = SimpleNamespace(column=tm.Column("x", 0, 4), edges=np.array([0.0, 2.0, 4.0]))
    found = TableAccount(None, release).columns([own] * 4)
    assert [each is None for each in found] == [True, False, False, True]
    np.testing.assert_allclose(found[1].shares, [0.3, 0.7])
