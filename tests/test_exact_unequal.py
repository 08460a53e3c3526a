"""Quantities that most tests have equal: each is told from its neighbours where they differ."""

import csv
import io
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import trigmech as tm
from trigmech.domain import Domain, OneHotGroup
from trigmech.engines.question import Persons
from trigmech.engines.spread import SpreadTable
from trigmech.evaluation import judgement
from trigmech.functions.index import FunctionIndex
from trigmech.measurement.sums import Total
from trigmech.reconstruction import targets
from trigmech.reconstruction.sparse import ENOUGH, with_margins
from trigmech.tables.lenient import LenientFile

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


@pytest.mark.parametrize(("true", "made", "there"), [(30, 30, True), (29, 500, False), (500, 29, False), (30, 500, True),
                                                     (500, 30, True)])
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
