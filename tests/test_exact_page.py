"""The parts of a report by hand: what each step says, counts and writes, cell by cell, without a release."""

import base64
import math
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import trigmech as tm
from trigmech.distribution import Distribution
from trigmech.report import columns as shares
from trigmech.report import page, sections, statement
from trigmech.report.columns import ColumnShares
from trigmech.report.sections import PageRows, Pictures


@pytest.fixture
def drawn(monkeypatch):
    """Figures are noted instead of drawn."""
    for name in ("histogram", "bars", "heat_map", "scatter", "distributions"):
        monkeypatch.setattr(sections, name, lambda *given, name=name, **named: (name, *given, *named.values()))
    noted = []

    def add(self, name, alt, figure, raster=False):
        noted.append((name, alt, figure, raster))
        return {"source": name, "alt": alt}

    monkeypatch.setattr(Pictures, "add", add)
    return noted


PICTURES = Pictures(None, False)
NUMBER, GROUP = tm.Column("weight", 0, 100), tm.Column("group", kind="categorical", categories=["x", "y"])


def rows_of(schema, points, weights=None):
    return PageRows.of(schema, points, np.full(len(points), 1.0 / len(points)) if weights is None else weights)


def test_each_column_is_told_and_drawn_up_to_the_most(drawn, monkeypatch):
    monkeypatch.setattr(sections, "MOST_COLUMNS", 2)
    monkeypatch.setattr(sections, "SHOWN_AT_ONCE", 1)
    schema = tm.Schema([NUMBER, GROUP, tm.Column("age", 0, 10)])
    made = rows_of(schema, schema.to_cube(pd.DataFrame(
        {"weight": [20.0, 40.0], "group": ["x", "y"], "age": [5.0, 5.0]})))
    account, said = SimpleNamespace(columns=lambda marginals: [None] * len(marginals)), []
    found = sections.columns(account, made, None, PICTURES, lambda *step: said.append(step))
    assert said == [(0, 3), (1, 3), (2, 3)]
    assert (found["drawn"], found["all"], found["special"], found["released"]) == (2, 3, False, False)
    assert [each["id"] for each in found["shown"]] == ["column-1"]
    assert [each["id"] for each in found["more"]] == ["column-2"]
    assert [name for name, *_ in drawn] == ["column-weight", "column-group"]
    assert found["table"].head == ["Column", "No.", "Kind", "Range", "Mean", "Deviation"]
    assert found["table"].rows == [["weight", "1", "continuous", "0 to 100", "30", "10"],
                                   ["group", "2", "categorical", "2 values", "", ""],
                                   ["age", "3", "continuous", "0 to 10", "5", "0"]]
    assert (found["table"].numeric, found["table"].links) == ((1, 3, 4, 5), ["column-1", "column-2", ""])
    true = rows_of(schema, schema.to_cube(pd.DataFrame(
        {"weight": [20.0, 20.0], "group": ["x", "x"], "age": [5.0, 5.0]})))
    against = sections.columns(account, made, true, PICTURES, lambda *step: None)["table"]
    assert against.head[6:] == ["True mean", "True deviation", "Difference"]
    assert [row[6:] for row in against.rows] == [["20", "0", "0.5"], ["", "", "0.5"], ["5", "0", "0"]]


def test_values_beside_the_numbers_are_told_below_the_figure():
    own = ColumnShares(NUMBER, ("= 99", "missing"), np.array([0.25, 0.1]), np.empty(0), np.empty(0), 1.0, 2.0)
    truth = ColumnShares(NUMBER, own.labels, np.array([0.5, 0.0]), np.empty(0), np.empty(0), 1.0, 2.0)
    assert sections._named_text(own, None) == "Not drawn: = 99: 25 %; missing: 10 %"
    assert sections._named_text(own, truth) == "Not drawn: = 99: 25 % (true 50 %); missing: 10 % (true 0 %)"
    assert sections._named_text(ColumnShares(NUMBER, (), np.empty(0), np.empty(0), np.empty(0), 1.0, 2.0), None) == ""


def test_deviations_of_times_are_in_days():
    day = tm.Column("day", "2020-01-01", "2020-12-31", kind="datetime")
    hour = tm.Column("hour", "2020-01-01", "2020-12-31", kind="datetime", resolution="hour")
    first = int(np.datetime64("2020-01-02", "D").astype(int))
    for column, mean, deviation, text in ((day, first, 2.0, ["2020-01-02", "2 days"]),
                                          (hour, 24 * first + 6, 36.0, ["2020-01-02 06:00", "1.5 days"])):
        own = ColumnShares(column, (), np.empty(0), np.empty(0), np.empty(0), mean, deviation)
        assert sections._moments_text(own) == text
    own = ColumnShares(NUMBER, (), np.empty(0), np.empty(0), np.empty(0), 12.3456, 1.23456)
    assert sections._moments_text(own) == ["12.35", "1.235"]


def test_what_is_left_of_many_values_is_no_negative_share():
    np.testing.assert_allclose(sections._pooled(np.array([0.5, 0.3, 0.1, 0.1]), np.array([0, 2])), [0.5, 0.1, 0.4])
    assert sections._pooled(np.array([0.5, -0.1]), np.array([0]))[-1] == 0.0


def test_the_greatest_entries_of_a_matrix_are_named_by_size_without_their_sign():
    matrix = np.array([[9.0, 0.1, -0.7, 0.3], [9.0, 9.0, 0.2, np.nan], [9.0, 9.0, 9.0, 0.5], [9.0] * 4])
    assert sections._strongest(matrix, ["a", "b", "c", "d"]) == (
        "greatest entries a and c −0.7, c and d 0.5, a and d 0.3")
    assert sections._strongest(np.full((2, 2), np.nan), ["a", "b"]) == "not defined"
    assert sections._strongest(matrix[:2, :2], ["a", "b"]) == "greatest entries a and b 0.1"


def test_a_difference_of_matrices_has_the_greatest_and_the_mean_of_its_upper_half(drawn):
    made = SimpleNamespace(values=[SimpleNamespace(column=SimpleNamespace(name=name)) for name in "abcd"])
    own, true = np.full((3, 3), 0.5), np.full((3, 3), 0.5)
    true[0, 1], true[0, 2], true[1, 2], true[2, 0] = 0.4, 0.8, np.nan, 9.0
    both = sections._pair("correlation", [0, 2, 3], [own, true], made, PICTURES)
    assert [each["title"] for each in both] == ["Correlation, synthetic", "Correlation, synthetic minus true"]
    assert [each["id"] for each in both] == ["correlation", "correlation-difference"]
    assert [(each["greatest"], each["mean"], each["numbered"]) for each in both] == [
        (None, None, False), ("0.3", "0.2", False)]
    (_, _, first, _), (_, alt, second, raster) = drawn
    assert first[2:] == (["a", "c", "d"], [1, 3, 4], True, 1.0, "Correlation")
    assert second[3:] == ([1, 3, 4], True, pytest.approx(0.3), "Correlation, synthetic minus true")
    assert alt.startswith("Correlation, synthetic minus true: greatest entries a and d −0.3, a and c 0.1")
    assert not raster
    drawn.clear()
    equal = sections._pair("association", [0, 1], [np.eye(2), np.eye(2)], made, PICTURES)
    assert equal[1]["greatest"] == equal[1]["mean"] == "0"
    assert [figure[4:6] for _, _, figure, _ in drawn] == [(False, 1.0), (True, 0.001)]


def test_matrices_are_of_columns_with_an_order_and_of_all(drawn):
    def of(*columns):
        schema = tm.Schema(columns)
        rng = np.random.default_rng(0)
        points = schema.to_cube(pd.DataFrame({each.name: rng.choice(each.categories, 20) if each.is_text else
                                              rng.uniform(*each.bounds, 20) for each in columns}))
        return [each["id"] for each in sections.together(rows_of(schema, points), None, PICTURES)["matrices"]]

    other = tm.Column("age", 0, 10)
    assert of(NUMBER) == of(GROUP) == []
    assert of(NUMBER, other) == ["correlation"]
    assert of(NUMBER, GROUP) == ["association"]
    assert of(NUMBER, other, GROUP) == ["correlation", "association"]


def test_columns_with_too_many_categories_are_named_where_associations_leave_them_out():
    places = [tm.Column(f"c{k}", kind="categorical", categories=[f"v{i}" for i in range(k)]) for k in (64, 65, 70)]
    values = [shares.Values(column, column.categories, np.zeros(1, dtype=np.int64), np.full(1, np.nan))
              for column in places]
    assert shares.left_out_of_associations(values[:1]) == ""
    assert shares.left_out_of_associations(values) == (
        "Columns with more than 64 categories are left out: c65, c70.")
    assert shares.associations(values, np.ones(1)).all == [0]


@pytest.mark.parametrize(("n", "points", "d", "count"), [
    (10, 10, 2, 1_000), (500_000, 10, 2, 200), (10, 500_000, 2, 200), (10**9, 10, 2, 50), (1_000_000, 10, 0, 200)])
def test_a_family_has_as_many_queries_as_there_is_work_for(monkeypatch, n, points, d, count):
    asked = []
    monkeypatch.setattr(sections, "families", lambda *given: asked.append(given) or [])
    account = SimpleNamespace(
        synthesis=SimpleNamespace(schema=SimpleNamespace(domain=SimpleNamespace(numbers=np.arange(d))),
                                  release=SimpleNamespace(n=n, columns=()), has_error_bars=False),
        errors=lambda: SimpleNamespace(rows=[]), about_errors="e", about_bounds="b")
    made = SimpleNamespace(points=np.broadcast_to(0.0, (points, max(d, 1))), values=[],
                           weights=np.broadcast_to(1 / points, points))
    monkeypatch.setattr(sections, "Distribution", lambda *given: None)
    found = sections.errors(account, made, None, PICTURES, 7)
    assert asked == [(d, count, count, 7)]
    assert (found["predictable"], found["unpredictable"], found["shown"], found["scatter"]) == (False, True, True, None)


def test_rows_of_queries_are_bounds_and_errors_of_each_part():
    family = SimpleNamespace(labels=["wide", "narrow"])
    bar = SimpleNamespace(bound=np.array([[0.1, 0.4], [0.3, 0.5], [0.2, 0.9]]), worst=[1.5, 2.5])
    evaluation = SimpleNamespace(truth=np.zeros((3, 2)), errors=np.array([[0.1, 0.5], [0.2, 0.1], [0.6, 0.9]]))
    assert sections._query_rows(sections.AskedQueries(family, bar, evaluation)) == [
        ["wide", 3, 0.2, 0.3, 1.5, 0.2, 0.6, "66.7 %"], ["narrow", 3, 0.5, 0.9, 2.5, 0.5, 0.9, "66.7 %"]]
    assert sections._query_rows(sections.AskedQueries(family, bar, None)) == [
        ["wide", 3, 0.2, 0.3, 1.5], ["narrow", 3, 0.5, 0.9, 2.5]]
    assert sections._query_rows(sections.AskedQueries(family, None, evaluation)) == [
        ["wide", 3, "", "", "", 0.2, 0.6, ""], ["narrow", 3, "", "", "", 0.5, 0.9, ""]]
    assert sections._query_rows(sections.AskedQueries(family, None, None)) == []


def test_points_are_counted_and_their_distances_told(drawn, monkeypatch):
    schema = tm.Schema([NUMBER, tm.Column("age", 0, 10)])
    points = np.array([[-1.0, 0.0], [-1.0, 0.0], [1.0, 0.5], [0.0, 0.0]])
    weights = np.array([0.5, 0.25, 0.125, 0.125])
    asked = []

    def columns(count, rng):
        asked.append(count)
        return {"weight": np.array([1.0, 1.0, 2.0]), "age": np.array([1.0, 1.0, 1.0]), "derived": np.arange(3)}

    synthesis = SimpleNamespace(schema=schema, rows=400, columns=columns, release=SimpleNamespace(columns=()),
                                distribution=Distribution(points, weights))
    monkeypatch.setattr(sections, "MOST_SAMPLED", 2 * 300 + 1)
    said = sections.points(synthesis, rows_of(schema, points, weights), None, PICTURES, 3)
    assert asked == [300]
    assert [tuple(row) for row in said["table"].rows] == [
        ("Points: rows that were fitted", "4"), ("Different rows among them, in the columns' units", "3"),
        ("Effective number of points, 1 / (sum of squared weights)", "2.9091"),
        ("Largest weight of a point", "0.5"), ("Default number of rows in a sample", "400"),
        ("Different rows in a sample of 300", "2")]
    assert (said["picture"], said["redrawn"]) == (None, ())
    samples = np.array([0.0, 1.0, 2.0, 3.0]), np.array([0.0, 0.0, 1.0])
    monkeypatch.setattr(sections, "distances", lambda *given: samples)
    true = rows_of(schema, points[:2])
    said = sections.points(synthesis, rows_of(schema, points, weights), true, PICTURES, 3)
    assert said["counts"] == ["4", "3"]
    assert said["distances"].head == ("Rows", "5 %", "25 %", "50 %", "75 %", "95 %", "At 0")
    for row, (label, at_0, quantiles) in zip(said["distances"].rows, (
            ("synthetic row to its nearest true record", "25 %", ["0.15", "0.75", "1.5", "2.25", "2.85"]),
            ("true record to its nearest other one", "66.7 %", ["0", "0", "0", "0.5", "0.9"])), strict=True):
        assert row == [label, *quantiles, at_0]
    # A single true record has no nearest other one.
    assert sections.points(synthesis, rows_of(schema, points, weights), rows_of(schema, points[:1]), PICTURES, 3)[
        "picture"] is None


def test_a_figure_has_its_size_in_css_pixels_and_its_files_in_the_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(sections, "content", lambda figure, kind: kind.encode())
    figure = SimpleNamespace(get_size_inches=lambda: (2.5, 1.0))
    found = Pictures(tmp_path, True).add("a", "words", figure)
    coded = base64.b64encode(b"svg").decode()
    assert found == {"source": f"data:image/svg+xml;base64,{coded}", "width": 240, "height": 96, "alt": "words"}
    assert {each.name: each.read_bytes() for each in tmp_path.iterdir()} == {"not-private-a.png": b"png",
                                                                            "not-private-a.pdf": b"pdf"}
    found = Pictures(tmp_path, False).add("b", "words", figure, raster=True)
    assert found["source"] == f"data:image/png;base64,{base64.b64encode(b'png').decode()}"
    assert {"b.png", "b.pdf"} < {each.name for each in tmp_path.iterdir()}


# The page


@pytest.mark.parametrize("against", [False, True])
def test_a_page_says_each_step_in_its_order(monkeypatch, against):
    schema = tm.Schema([NUMBER])
    rows = np.linspace(-1.0, 1.0, 7)[:, None]
    said, seen = [], []
    synthesis = SimpleNamespace(
        ledger=SimpleNamespace(simulated=True, charges=()), schema=schema, release=SimpleNamespace(n=7), versions={},
        warnings=(), distribution=Distribution(rows, np.full(7, 1 / 7)))
    account = SimpleNamespace(measured=lambda: "measured")
    drawn = SimpleNamespace(points=rows[:5], judged=lambda made, say: SimpleNamespace(by=lambda limits: "judged"))
    monkeypatch.setattr(page, "DrawnRows", SimpleNamespace(of=lambda schema, table: drawn))
    for name, value in {
            "account_of": account, "forecast_of": "expected", "_attack": "attack", "together": {"matrices": []},
            "pairs": {"known": False}, "errors": {"shown": False, "scatter": None}, "points": {"picture": None},
            "guarantee": {"n": "7", "finite": True, "epsilon": "1", "delta": "0"},
            "lead": {"pairs": SimpleNamespace(rows=[])}, "ledger_table": "ledger",
            "versions_table": "versions"}.items():
        monkeypatch.setattr(page, name, lambda *given, value=value: value)

    def columns(account, made, true, pictures, say):
        seen.append(true)
        say(0, 1)
        return {}

    monkeypatch.setattr(page, "columns", columns)
    monkeypatch.setattr(page, "template", lambda name: SimpleNamespace(render=lambda **given: given))
    given = page._page(synthesis, "table" if against else None, PICTURES, 3, {}, lambda *step: said.append(step))
    assert said == [("reading the release", 0, 0), ("expecting errors", 0, 0),
                    *[("reading the table", 0, 0)] * against, ("drawing columns", 0, 1),
                    ("drawing columns together", 0, 0), ("asking queries", 0, 0), ("comparing points", 0, 0)]
    assert given["key"] == [("Rows of the table", "7"), ("Columns", "1"), ("Proved (ε, δ)", "nothing: simulated"),
                            ("Noise", "simulated: NOT PRIVATE"), ("Points of the release", "7")]
    assert given["attack"] == ("attack" if against else "")
    assert given["footer"].endswith("light hatched areas are true." if against else "are synthetic.")
    titles = [title for _, title in given["contents"]]
    assert titles == [*["Measured against the true table"] * against, "Each column", "Columns together", "The points",
                      "What is guaranteed", "What is not covered", "The ledger", "What was measured"]
    if against:
        # Figures are of the rows that are judged.
        np.testing.assert_array_equal(seen[0].points, rows[:5])
        np.testing.assert_allclose(seen[0].weights, 0.2)


def test_facts_at_the_top_say_persons_and_real_noise():
    synthesis = SimpleNamespace(
        ledger=SimpleNamespace(simulated=False), schema=SimpleNamespace(person="who", d=1_234),
        distribution=SimpleNamespace(points=np.zeros(2_048)))
    said = {"n": "9", "finite": True, "epsilon": "1", "delta": "1e-6"}
    assert page._key(synthesis, said) == [
        ("Persons of the table", "9"), ("Columns", "1,234"), ("Proved (ε, δ)", "(1, 1e-6)"),
        ("Noise", "real, from the operating system"), ("Points of the release", "2,048")]
    assert page._key(synthesis, said | {"finite": False})[2] == ("Proved (ε, δ)", "nothing")


def test_an_attack_needs_twenty_rows_of_either(monkeypatch):
    monkeypatch.setattr(page, "rows_of", lambda schema, rows: rows)
    monkeypatch.setattr(page, "attacked", lambda *given: SimpleNamespace(words="said"))
    synthesis = SimpleNamespace(schema=None, distribution=SimpleNamespace(points=None))
    assert page._attack(synthesis, [0] * 20, [0] * 20, 0) == "said"
    for own, other in ((19, 20), (20, 19)):
        with pytest.raises(tm.InputError, match=f"there are {own} and {other}"):
            page._attack(synthesis, [0] * own, [0] * other, 0)
    assert page._attack(synthesis, [0], None, 0) == ""


# The statement


def test_versions_of_both_runs_stand_beside_each_other(monkeypatch):
    monkeypatch.setattr(statement, "LIBRARIES", ("numpy", "no-such-library"))
    monkeypatch.setattr(statement, "version", lambda name, absent: "2" if name == "numpy" else absent)
    python = statement.platform.python_version()
    here = [["python", python], ["numpy", "2"], ["no-such-library", "not installed"]]
    assert statement.versions_table({}).rows == here
    assert statement.versions_table({"numpy": "1", "other": "3"}).rows == [
        ["numpy", "1", "2"], ["other", "3", "—"], ["python", "—", python], ["no-such-library", "—", "not installed"]]
    assert statement.versions_table({"numpy": "1"}).head == ("Program", "Made the release", "Wrote this page")
    assert statement.versions_table({}).head == ("Program", "Wrote this page")


def book(epsilon, delta, claim=None):
    return SimpleNamespace(proved_epsilon=epsilon, budget=SimpleNamespace(delta=delta), claim=claim)


def test_the_guarantee_is_told_in_probabilities_rounded_up():
    said = statement.guarantee(book(math.log(3.0) - 1e-9, 0.0), 100)
    assert (said["proved"], said["guess"], said["odds"]) == ("(1.099, 0)-differential privacy", "75.0 %", "3")
    assert (said["delta_is_zero"], said["is_one"], said["warning"], said["comparison"]) == (True, False, "", "")
    # From an alarm in 20 for nothing, at most three times as many are right.
    assert said["power"] == f"{math.ceil(1000.0 * min(3.0 * statement.FALSE_ALARMS, 1.0) - 1e-9) / 10.0:.1f} %"
    small, large = (statement.guarantee(book(1.0, delta), 100)["warning"] for delta in (0.0099, 0.01))
    assert (small, large) == ("", "δ is not below 1/n = 0.01: a program that publishes one random row would also "
                                  "satisfy such a δ.")
    assert statement.guarantee(book(math.inf, 0.0), 100)["proved"] == "no differential privacy at all"
    assert statement.guarantee(book(1.0, 1.2345612e-7), 100)["proved"] == "(1, 1.23457e\u22127)-differential privacy"
    assert statement.guarantee(book(1e4, 0.0), 100)["guess"] == "100.0 %"
    assert statement.guarantee(book(1.0, 0.0), 1_234, "who")["n"] == "1,234"
    for claimed, words in ((0.9, ": the claim is stronger than the proof"), (1.0, ": the claim is not stronger than "
                                                                                  "the proof")):
        assert statement.guarantee(book(1.0, 0.0, tm.Budget(claimed)), 9)["comparison"] == words


# Columns


def test_marks_of_logarithmic_scales_are_round_and_few():
    def values(column):
        return shares._round_values(column)

    assert values(tm.Column("x", 1, 1_000, transform="log")) == [1.0, 10.0, 100.0, 1_000.0]
    assert values(tm.Column("x", 1, 10, transform="log")) == [1.0, 2.0, 5.0, 10.0]
    assert values(tm.Column("x", 3, 4, transform="log")) == [3, 4]
    assert values(tm.Column("x", 1e-3, 1e6, transform="log")) == [0.01, 10.0, 1e4]
    assert values(tm.Column("x", 5, 1_005, transform="log1p")) == [5, 6.0, 15.0, 105.0, 1_005.0]


def test_bins_of_integers_lie_around_them():
    np.testing.assert_array_equal(shares._edges(tm.Column("x", 0.5, 3.5, kind="integer")), [0.5, 1.5, 2.5, 3.5])
    assert len(shares._edges(tm.Column("x", 1, 40, kind="integer"))) == 41
    wide = shares._edges(tm.Column("x", 1, 41, kind="integer"))
    assert (wide[0], wide[1] - wide[0], wide[-1], len(wide)) == (0.5, 2.0, 42.5, 22)
    np.testing.assert_allclose(shares._edges(tm.Column("x", 0, 64)), 2.0 * np.arange(33))


def test_cramer_s_v_is_1_of_a_function_and_0_of_a_product():
    assert shares._cramer(np.diag([0.2, 0.3, 0.5])) == 1.0
    assert shares._cramer(np.outer([0.2, 0.8], [0.5, 0.5])) == pytest.approx(0.0, abs=1e-12)
    table = np.array([[0.3, 0.1, 0.0], [0.2, 0.4, 0.0]])
    expected = np.outer([0.4, 0.6], [0.5, 0.5])
    assert shares._cramer(2.0 * table) == pytest.approx(
        math.sqrt((np.square(table[:, :2] - expected) / expected).sum()), rel=1e-12)
    assert math.isnan(shares._cramer(np.array([[0.5, 0.5], [0.0, 0.0]])))


def test_correlation_ratios_are_the_part_between_categories():
    # Numbers 1, 3 of one category and 5 of another, and a third category without rows.
    count, first, second = np.array([[2.0], [1.0], [0.0]]), np.array([[4.0], [5.0], [0.0]]), np.array([[10.0], [25.0],
                                                                                                       [0.0]])
    between = (2 * (2.0 - 3.0) ** 2 + (5.0 - 3.0) ** 2) / 3.0
    assert shares._correlation_ratios(count, first, second)[0] == pytest.approx(math.sqrt(between / (8.0 / 3.0)))
    # All numbers are equal.
    assert math.isnan(shares._correlation_ratios(count, count, count)[0])
