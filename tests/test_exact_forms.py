"""The text forms of objects, word for word: what holds private values shows their number alone."""

import re
from html import unescape
from types import SimpleNamespace

import numpy as np
import pytest
from test_parts import CUBE

import trigmech as tm
from trigmech.acceptance.decision import Acceptance
from trigmech.answering import Answers
from trigmech.engines.question import PieceSums
from trigmech.engines.spread import SpreadTable
from trigmech.evaluation.error_bars import PredictedError
from trigmech.evaluation.judgement import Judgement
from trigmech.evaluation.membership import Attack
from trigmech.evaluation.sides import Side
from trigmech.functions.partition import columns_of
from trigmech.inference.estimate import Estimate
from trigmech.inference.imputations import Imputations
from trigmech.inference.regression import Regression
from trigmech.inference.sql import Answer
from trigmech.inference.weighted import WeightedTable
from trigmech.inspection.findings import Findings
from trigmech.measurement.compact import Compact
from trigmech.measurement.kept import Kept
from trigmech.measurement.moments import PrivateMoments
from trigmech.measurement.persons import Buckets
from trigmech.measurement.release import Session
from trigmech.measurement.rows import PrivateRows, PrivateTable
from trigmech.measurement.sums import Chunk, Total
from trigmech.queries.base import Measurement
from trigmech.queries.one_way import Histogram
from trigmech.report.against import DrawnRows
from trigmech.tables.frames import Columns
from trigmech.tables.parquet_files import ParquetFiles
from trigmech.tables.reader import TableFile

SECRET = np.full((3, 2), 4242.0)


def made(cls, **fields):
    """An object of a class with these fields alone, whatever it checks when it is made."""
    new = object.__new__(cls)
    for name, value in fields.items():
        object.__setattr__(new, name, value)
    return new


FORMS = {
    "Side(n=3, d=2, values hidden)": made(Side, values=SECRET),
    "SpreadTable(n=3, values hidden)": made(SpreadTable, n=3),
    "Answer(n=3, problem='', values hidden)": PieceSums(b"4242", 3),
    "Kept(values hidden)": made(Kept),
    "Compact(values hidden)": made(Compact),
    "Buckets(n=3, values hidden)": made(Buckets, n=3),
    "PrivateMoments(n=3, K=2, values hidden)": made(PrivateMoments, n=3, basis_sum=SECRET[0]),
    "PrivateRows(n=3, d=2, values hidden)": made(PrivateRows, n=3, domain=SimpleNamespace(d=2)),
    "PrivateTable(n=3, values hidden)": made(PrivateTable, n=3),
    "Chunk(values hidden)": made(Chunk, rows=SECRET),
    "Total(n=3, values hidden)": made(Total, n=3, limbs=SECRET),
    "DrawnRows(n=3, rows hidden)": made(DrawnRows, n=3),
    "Columns(n=3, d=2, values hidden)": made(Columns, n=3, _names=("a", "b")),
    "ParquetFiles(2 files, values hidden)": made(ParquetFiles, files=(1, 2)),
    "TableFile('a.csv', values hidden)": made(TableFile, _title="'a.csv'"),
    "Judgement(private)": made(Judgement), "Attack(private)": made(Attack), "Findings(private)": made(Findings),
    "WeightedTable(3 rows of 2 columns)": made(WeightedTable, posterior=SimpleNamespace(points=SECRET),
                                               schema=SimpleNamespace(d=2)),
    "Session(simulated noise)": made(Session, _noise=SimpleNamespace(simulated=True)),
    "Session(hardened noise)": made(Session, _noise=SimpleNamespace(simulated=False)),
    "Acceptance(planned, 2 criteria)": made(Acceptance, ledger=None, verdicts=(1, 2)),
    "PredictedError(level=0.9, worst=[0.123, 2], bound.shape=(3, 2))": PredictedError(
        0.9, SECRET, SECRET, np.array([0.12345, 2.0])),
    "Estimate(1 (0.5 to 1.5); 95% intervals for the population)": Estimate(
        *map(np.array, (1.0, 0.25, 0.5, 1.5, 0.1)), 0.95, True),
    "Estimate(1 (0 to 2), 2 (1 to 3), 3 (2 to 4), ...; 90% intervals for the private table, shape (4,))": Estimate(
        *(np.arange(4.0) + shift for shift in (1.0, 0.0, 0.0, 2.0, 0.0)), 0.9, False),
    "ChebyshevBasis(K=2, d=2, total degree up to 3)": tm.ChebyshevBasis(np.array([[1, 0], [1, 2]])),
    "Distribution(m=3, d=2)": tm.Distribution(0.0 * SECRET, np.full(3, 1.0 / 3.0)),
}


@pytest.mark.parametrize("form", FORMS)
def test_an_object_is_shown_by_its_numbers_alone(form):
    assert repr(FORMS[form]) == form


@pytest.mark.parametrize(("simulated", "epsilon", "said", "html"), [
    (True, 1.0, "SIMULATED, not private", "SIMULATED, NOT PRIVATE"),
    (False, 1.0, "proved (1, 1e-5)-DP", "proved (1, 1e-5)-differential privacy"),
    (False, np.inf, "no differential privacy is proved", "proved no differential privacy at all")])
def test_a_release_says_what_is_proved_of_it(simulated, epsilon, said, html):
    ledger = SimpleNamespace(simulated=simulated, proved_epsilon=epsilon, guarantee="(1, 1e-5)")
    fields = {"ledger": ledger, "release": SimpleNamespace(K=7_000, n=5_000), "schema": CUBE,
              "versions": {"numpy": "2"}}
    moments = made(tm.NoisyMoments, **fields)
    assert repr(moments) == f"NoisyMoments(K=7000, {said})"
    fit = SimpleNamespace(warnings=("a fault",), distribution=FORMS["Distribution(m=3, d=2)"], rows=6_000)
    synthesis = made(tm.Synthesis, **fields, fit=fit, _expected=None)
    assert repr(synthesis) == f"Synthesis(Distribution(m=3, d=2), {said}, WARNING: a fault)"
    facts = [["rows of the table", "5,000"], ["columns", "x1, x2, x3"], ["moments measured", "7,000"]]
    assert cells_of(moments._repr_html_()) == [["guarantee", html], *facts, ["made by", "numpy 2"]]
    assert cells_of(synthesis._repr_html_()) == [
        ["guarantee", html], ["warning", "a fault"], *facts, ["points", "3"], ["rows of a sample, by default", "6,000"],
        ["made by", "numpy 2"]]
    fit.warnings = ()
    assert repr(synthesis) == f"Synthesis(Distribution(m=3, d=2), {said})"


def cells_of(html):
    return [[unescape(re.sub("<[^>]+>", "", cell)) for cell in re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row)]
            for row in re.findall(r"<tr>(.*?)</tr>", html, re.S)]


def test_tables_of_estimates_and_error_bars_have_each_number_in_its_column():
    estimate = Estimate(*(np.array([a, a + 10.0]) for a in (1.0, 2.0, 3.0, 4.0, 5.0)), 0.95, True)
    assert cells_of(estimate._repr_html_()) == [["", "value", "low", "high", "deviation"],
                                                ["1", "1", "3", "4", "2"], ["2", "11", "13", "14", "12"]]
    bars = PredictedError(0.9, SECRET, np.array([[1.0, 5.0], [2.0, 6.0], [9.0, 7.0]]), np.array([10.0, 20.0]))
    head = ["part", "an answer's, typically", "an answer's, at most", "all of the part"]
    assert cells_of(bars._repr_html_()) == [head, ["1", "2", "9", "10"], ["2", "6", "7", "20"]]
    assert "Errors of 6 answers, at most these with probability 0.9" in unescape(bars._repr_html_())
    mixed = PredictedError(0.9, SECRET, np.ones((3, 1)), np.array([10.0, 20.0]))
    assert cells_of(mixed._repr_html_()) == [head, ["1", "", "", "10"], ["2", "", "", "20"]]


def test_answers_and_regressions_are_short_in_a_program_and_tables_in_a_notebook():
    one = [np.array([value, np.nan]) for value in (1.5, 1.0, 2.0, 0.25)]
    answer = Answer({"place": ["north", None]}, {"<m>": one[0]}, {"<m>": one[1]}, {"<m>": one[2]}, {"<m>": one[3]},
                    {"<m>": np.array([4, 1])}, 4, 0.95, "It covers.", ("A & note.",))
    assert repr(answer) == "Answer('place', '<m>'; 95% intervals)"
    assert cells_of(answer._repr_html_()) == [["place", "<m>", "<m>_low", "<m>_high"], ["north", "1.5", "1", "2"],
                                              ["(missing)", "", "", ""]]
    assert "<p><strong>It covers.</strong></p><p>A &amp; note.</p>" in answer._repr_html_()
    fit = Regression("a ~ b", "gaussian", ("Intercept", "b"), *one, np.array([0.5, np.nan]), np.array([3.0, 7.0]),
                     one[3], 4, 0.9, "It covers.", ("A note.",))
    assert repr(fit) == "Regression('a ~ b', gaussian: Intercept, b; 90% intervals)"
    assert cells_of(fit._repr_html_()) == [
        ["coefficient", "estimate", "std. error", "low", "high", "p", "naive s.e."],
        ["Intercept", "1.5", "1", "2", "0.25", "0.5", "3"], ["b", "", "", "", "", "", "7"]]
    for said in ("linear regression: a ~ b", "It covers.", "leave out the noise", "A note."):
        assert said in fit._repr_html_()
        assert said in str(fit)


def test_what_holds_many_numbers_is_short_when_shown():
    points = np.zeros((4, 2, 1_000, 3))
    for whom, population in (("the population", True), ("the private table", False)):
        assert repr(Imputations(CUBE, 2_000, points, 0.1, population)) == (
            f"Imputations(4 tables of 2,000 rows, 3 columns, for {whom})")
    assert len(repr(Answers(np.random.default_rng(0).random((1_000, 3)), None))) < 200
    assert repr(Answers(np.array(0.5), None)) == "Answers(0.5, without error bars)"
    query = Histogram(0, columns_of(CUBE.domain)[0].cut(np.linspace(-1.0, 1.0, 65)))
    planned = Measurement(query, 2.0)
    assert repr(planned) == "Measurement(column of columns (0,), 64 numbers, not drawn)"
    assert repr(planned.drawn(np.zeros(64), 0.5, "gaussian")) == (
        "Measurement(column of columns (0,), 64 numbers, noise 0.25 in each value)")


@pytest.mark.parametrize(("ledger", "accepted", "word"), [
    (None, False, "planned"), ("ledger", True, "accepted"), ("ledger", False, "not accepted")])
def test_an_acceptance_shows_its_verdicts_and_no_value_before_there_is_one(monkeypatch, ledger, accepted, word):
    monkeypatch.setattr(Acceptance, "accepted", accepted)
    monkeypatch.setattr(Acceptance, "__str__", lambda self: "a head\nmore")
    criterion = SimpleNamespace(words="KS of age", limit=0.05)
    verdicts = [SimpleNamespace(criterion=criterion, value=None, deviation=0.012345, met=None),
                SimpleNamespace(criterion=criterion, value=0.0123456, deviation=0.5, met=True),
                SimpleNamespace(criterion=criterion, value=0.2, deviation=0.5, met=False)]
    shown = made(Acceptance, ledger=ledger, verdicts=verdicts)
    assert repr(shown) == f"Acceptance({word}, 3 criteria)"
    assert cells_of(shown._repr_html_())[1:] == [
        ["KS of age", "", "0.012", "0.05", ""], ["KS of age", "0.01235", "0.5", "0.05", "met"],
        ["KS of age", "0.2", "0.5", "0.05", "not met"]]
    assert "<caption>a head</caption>" in shown._repr_html_()


@pytest.mark.parametrize(("enforced", "epsilon", "simulated", "said"), [
    (True, 2.0, True, "Ledger: SIMULATED, NOT PRIVATE; budget"),
    (True, 2.0, False, "Ledger: proved (2.00001, 1e-5)-DP of all charges together; budget"),
    (False, np.inf, False, "Ledger: proved no differential privacy at all; claimed by the thesis, not a guarantee:")])
def test_a_ledger_in_a_notebook_says_what_is_proved_and_what_each_charge_costs(enforced, epsilon, simulated, said):
    charge = tm.Charge("values", "laplace", 0.5, 0.25, "L1", 3, "given")
    ledger = SimpleNamespace(charges=[charge], budget=tm.Budget(3.0, 1e-5), proved_epsilon=epsilon,
                             simulated=simulated, enforced=enforced)
    html = tm.Ledger._repr_html_(ledger)
    assert cells_of(html)[1][:6] == ["values", "laplace", "0.5", "0.25", "L1", "3"]
    assert cells_of(html)[1][6].startswith("(1.5")
    assert said.split("(2.0")[0] in unescape(html)
    assert said.rpartition("; ")[2] in unescape(html)
