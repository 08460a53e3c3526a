"""Measures of a synthetic table against the true one, each by its plain definition, and the verdict from limits."""

import itertools
import json

import numpy as np
import oracles
import pandas as pd
import pyarrow as pa
import pytest
from scipy.stats import ks_2samp, pearsonr, spearmanr
from test_cli import clinic as clinic  # fixtures
from test_cli import made as made
from test_cli import run as run

import trigmech as tm
from trigmech.evaluation import detector, judgement, measures, verdict
from trigmech.evaluation.judgement import COMPARED_ROWS, judged
from trigmech.evaluation.sides import MOST_VALUES, Coding
from trigmech.evaluation.verdict import LIGHTS, LIMITS, LightLimits, QualityMeasure, lights_of_uses, verdict_of
from trigmech.inspection import categories, numbers
from trigmech.inspection.findings import FEWEST
from trigmech.report.against import judgement_of

SCHEMA = tm.Schema([
    tm.Column("x", 0, 10, missing="keep"), tm.Column("n", 0, 9, kind="integer"), tm.Column("y", -50, 50),
    tm.Column("c", kind="categorical", categories=["a", "b", "c"], missing="keep"),
    tm.Column("o", kind="ordinal", categories=["low", "middle", "high"]),
    tm.Column("day", "2024-01-01", "2024-12-31", kind="datetime")])


def table(n, seed, shift=0.0):
    """Rows in the form of `Schema.decode`: dependent columns, some values missing."""
    rng = np.random.default_rng(seed)
    x = np.clip(rng.normal(5 + shift, 2, n), 0, 10).round(2)
    n_ = np.clip(np.rint(x + rng.normal(0, 1, n)), 0, 9).astype(int)
    c = np.array(["a", "b", "c"], dtype=object)[np.clip((x / 4).astype(int), 0, 2)]
    return {"x": np.ma.MaskedArray(x, rng.random(n) < 0.1), "n": n_, "y": (3 * x + rng.normal(0, 5, n)).round(1),
            "c": np.ma.MaskedArray(c, rng.random(n) < 0.05),
            "o": np.array(["low", "middle", "high"], dtype=object)[rng.integers(0, 3, n)],
            "day": np.datetime64("2024-01-01") + rng.integers(0, 300, n)}


TRUE, MADE = table(700, 1), table(500, 2, 0.6)
CODING = Coding.of(SCHEMA.columns, TRUE)
BOTH = CODING.side(TRUE), CODING.side(MADE)


def plain(name, data):
    """A column as plain values, None where missing; categories of an order as their places, dates as days."""
    values = [None if hidden else value for value, hidden in zip(
        np.ma.getdata(data[name]).tolist(), np.ma.getmaskarray(data[name]).tolist(), strict=True)]
    if name == "o":
        return [["low", "middle", "high"].index(value) for value in values]
    return [(value - np.datetime64("1970-01-01").tolist()).days for value in values] if name == "day" else values


def in_cells(name):
    """Both tables' values in cells, by definition: categories and few values as they are, others by tenths."""
    first, second = plain(name, TRUE), plain(name, MADE)
    known = sorted(value for value in first if value is not None)
    if name in ("c", "o", "n"):
        return first, second
    assert len(set(known)) > MOST_VALUES
    edges = sorted({known[int(np.floor((len(known) - 1) * k / 10))] for k in range(1, 10)})

    def cell(value):
        return None if value is None else sum(value > edge for edge in edges)
    return [*map(cell, first)], [*map(cell, second)]


def variation(first, second):
    keys = {*first, *second}
    return sum(abs(first.count(key) / len(first) - second.count(key) / len(second)) for key in keys) / 2


def test_scores_of_columns_and_missing_values_are_those_of_the_definitions():
    scores = measures.column_scores(CODING, *BOTH)
    for j, name in enumerate(SCHEMA.names):
        first, second = plain(name, TRUE), plain(name, MADE)
        if name in ("c", "o"):
            expected = 1 - variation(first, second)
        else:
            expected = 1 - ks_2samp(*([value for value in side if value is not None]
                                      for side in (first, second))).statistic
        assert scores[j] == pytest.approx(expected, abs=1e-12), name
        gaps = [sum(value is None for value in side) / len(side) for side in (first, second)]
        assert measures.missing_scores(*BOTH)[j] == pytest.approx(1 - abs(gaps[0] - gaps[1]), abs=1e-12)
    assert measures.column_scores(CODING, BOTH[0], BOTH[0]).min() == pytest.approx(1.0, abs=1e-12)


def test_scores_of_pairs_are_those_of_counted_tables():
    scores = measures.pair_scores(CODING, *BOTH)
    pairs = list(itertools.combinations(SCHEMA.names, 2))
    assert len(scores) == len(pairs) == 15
    for score, pair in zip(scores, pairs, strict=True):
        columns = [in_cells(name) for name in pair]
        first, second = (list(zip(columns[0][side], columns[1][side], strict=True)) for side in (0, 1))
        assert score == pytest.approx(1 - variation(first, second), abs=1e-12), pair


@pytest.mark.parametrize("ranked", [False, True])
def test_errors_of_correlations_are_those_of_scipy(ranked):
    errors, pairs = measures.correlation_differences(CODING, *BOTH, ranked=ranked)
    names = SCHEMA.names
    assert [(names[j], names[h]) for j, h in pairs] == list(itertools.combinations([
        name for name in names if name != "c"], 2))
    for error, (j, h) in zip(errors, pairs, strict=True):
        found = []
        for data in (TRUE, MADE):
            both = [(a, b) for a, b in zip(plain(names[j], data), plain(names[h], data), strict=True)
                    if a is not None and b is not None]
            found.append((spearmanr if ranked else pearsonr)(*zip(*both, strict=True)).statistic)
        assert error == pytest.approx(abs(found[0] - found[1]), abs=1e-9)
    constant = {**TRUE, "n": np.full(700, 3), "y": np.full(700, 0.1)}
    coding = Coding.of(SCHEMA.columns, constant)
    sides = coding.side(constant), coding.side(constant)
    assert measures.correlation_differences(coding, *sides, ranked=ranked)[0].max() == 0.0


def test_errors_in_groups_are_those_of_a_plain_loop(monkeypatch):
    monkeypatch.setattr(measures, "FEWEST_IN_GROUP", 60)
    expected = []
    for group in SCHEMA.names:
        first, second = in_cells(group)
        for cell in {*first}:
            rows = [k for k, value in enumerate(first) if value == cell]
            if len(rows) < 60:
                continue
            others = [k for k, value in enumerate(second) if value == cell]
            for name in SCHEMA.names:
                if name == group:
                    continue
                both = [plain(name, data) for data in (TRUE, MADE)]
                if name in ("c", "o"):
                    known = [value for value in both[0] if value is not None]
                    most = max(dict.fromkeys("abc" if name == "c" else (0, 1, 2)), key=known.count)
                    both = [[None if value is None else float(value == most) for value in side] for side in both]
                deviation = np.std([value for value in both[0] if value is not None])
                means = [[side[k] for k in chosen if side[k] is not None]
                         for side, chosen in zip(both, (rows, others), strict=True)]
                if means[0]:
                    expected.append(abs(np.mean(means[0]) - np.mean(means[1])) / deviation if means[1] else 1.0)
    found = measures.group_differences(CODING, *BOTH)
    assert len(found) == len(expected) > 50
    np.testing.assert_allclose(np.sort(found), np.sort(expected), rtol=1e-9, atol=1e-12)


def test_a_group_that_the_synthetic_table_lacks_counts_as_a_large_error():
    schema = tm.Schema([tm.Column("c", kind="categorical", categories=["a", "b"]), tm.Column("y", 0, 10)])
    rng = np.random.default_rng(3)
    true = {"c": np.array(["a", "b"] * 150, dtype=object), "y": rng.uniform(0, 10, 300)}
    made = {"c": np.array(["a"] * 300, dtype=object), "y": true["y"]}
    coding = Coding.of(schema.columns, true)
    assert measures.LOST in measures.group_differences(coding, coding.side(true), coding.side(made))


def test_regressions_are_those_of_least_squares_on_real_rows():
    rng = np.random.default_rng(4)
    own, synthetic = measures.regression_losses(CODING, *BOTH, rng)
    order = np.random.default_rng(4).permutation(700)
    train, test = ({name: values[half] for name, values in TRUE.items()} for half in np.array_split(order, 2))

    def inputs(data, leave_out):
        """A constant, standardised numbers and indicators of all but the most frequent category, of other columns."""
        columns = [np.ones(len(data["n"]))]
        for name in SCHEMA.names:
            if name == leave_out:
                continue
            values, known = plain(name, data), [value for value in plain(name, TRUE) if value is not None]
            if name in ("c", "o"):
                most = max(dict.fromkeys(sorted(known)), key=known.count)
                columns += [[value == cell for value in values] for cell in {*plain(name, TRUE)} - {most}]
            else:
                middle, width = np.mean(known), np.std(known)
                columns.append([0.0 if value is None else (value - middle) / width for value in values])
                if None in plain(name, TRUE):
                    columns.append([value is None for value in values])
        return np.column_stack(columns).astype(float)

    for j, name in enumerate(SCHEMA.names):
        known = [value for value in plain(name, TRUE) if value is not None]
        most = max(dict.fromkeys(sorted(known)), key=known.count)

        def outcome(data, name=name, most=most, known=known):
            values = plain(name, data)
            if name in ("c", "o"):
                return np.array([np.nan if value is None else float(value == most) for value in values])
            return np.array([np.nan if value is None else value for value in values], float) / np.std(known)
        for found, learned in ((own, train), (synthetic, MADE)):
            y, truth = outcome(learned), outcome(test)
            fit = np.linalg.lstsq(inputs(learned, name)[~np.isnan(y)], y[~np.isnan(y)], rcond=None)[0]
            error = (truth - inputs(test, name) @ fit)[~np.isnan(truth)]
            expected = 1 - np.mean(error**2) / np.var(truth[~np.isnan(truth)])
            assert found[j] == pytest.approx(expected, abs=1e-4), name
    assert own[0] > 0.5


def test_copies_are_those_of_python_sets():
    rng = np.random.default_rng(5)
    schema = tm.Schema([tm.Column("n", 0, 9, kind="integer", missing="keep"),
                        tm.Column("c", kind="categorical", categories=["a", "b", "c"])])
    tables = []
    for n in (60, 90):
        tables.append({"n": np.ma.MaskedArray(rng.integers(0, 10, n), rng.random(n) < 0.2),
                       "c": np.array(["a", "b", "c"], dtype=object)[rng.integers(0, 3, n)]})
    coding = Coding.of(schema.columns, tables[0])
    true, made = ([(None if hidden else value, c) for value, hidden, c in zip(
        each["n"].data.tolist(), np.ma.getmaskarray(each["n"]).tolist(), each["c"].tolist(), strict=True)]
        for each in tables)
    copied, usual = measures.copied_shares(*map(coding.side, tables))
    assert copied == pytest.approx(np.mean([row in true for row in made]))
    assert usual == pytest.approx(np.mean([true.count(row) > 1 for row in true]))


def test_the_area_under_the_curve_is_the_chance_of_a_higher_score():
    rng = np.random.default_rng(6)
    truth, scores = rng.integers(0, 2, 80).astype(float), rng.integers(0, 9, 80).astype(float)
    ones, zeros = scores[truth == 1], scores[truth == 0]
    expected = np.mean([(a > b) + 0.5 * (a == b) for a in ones for b in zeros])
    assert detector.auc(truth, scores) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("place", range(6))
def test_a_column_that_has_a_value_in_one_row_alone_tells_nothing(place):
    """Trees learn from half of the rows, which may be those without it."""
    rng = np.random.default_rng(4)
    schema = tm.Schema([tm.Column("a", 0, 100, kind="integer"), tm.Column("dose", 0, 10, missing="keep")])
    sides = []
    for row in (place, None):
        dose = np.ma.masked_all(40)
        if row is not None:
            dose[row] = 5.5
        sides.append({"a": rng.integers(0, 101, 40), "dose": dose})
    coding = Coding.of(schema.columns, sides[0])
    boosted, linear, count = detector.detector_aucs(coding, *map(coding.side, sides), np.random.default_rng(0))
    assert count == 40
    assert 0.0 <= min(boosted, linear) <= max(boosted, linear) <= 1.0
    assert judged(schema, *sides).verdict


@pytest.mark.nightly
def test_a_detector_tells_other_rows_and_not_the_same_ones():
    same = CODING.side(table(600, 8))
    boosted, linear, count = detector.detector_aucs(CODING, BOTH[0], same, np.random.default_rng(7))
    assert count == 600
    assert abs(boosted - 0.5) < 0.1
    assert abs(linear - 0.5) < 0.1
    far = table(600, 9)
    far["y"] = -far["y"]
    boosted, linear, _ = detector.detector_aucs(CODING, BOTH[0], CODING.side(far), np.random.default_rng(7))
    assert min(boosted, linear) > 0.9


# The verdict

def measure(name, light):
    return QualityMeasure(name, "words", "definition", 0.0, None, light)


def test_lights_follow_from_the_limits_and_from_fresh_rows():
    errors, scores = LightLimits(0.1, 0.2, 0.0, ""), LightLimits(0.9, 0.8, 1.0, "")
    assert [errors.light(value) for value in (0.0, 0.1, 0.1001, 0.2, 0.21, -0.15)] == [
        "good", "good", "care", "care", "poor", "care"]
    assert [scores.light(value) for value in (1.0, 0.9, 0.85, 0.79)] == ["good", "good", "care", "poor"]
    # Nobody can ask for more than a fresh sample of the true rows has.
    assert scores.light(0.5, 0.65) == "good"
    assert scores.light(0.45, 0.65) == "poor"
    assert LIMITS["detector"].light(0.31) == "good"
    for limit in LIMITS.values():
        assert abs(limit.good - limit.best) < abs(limit.care - limit.best)
        assert limit.reason


def test_the_verdict_says_what_the_table_is_good_for_and_what_not():
    assert verdict_of([measure(name, "good") for name in LIMITS]) == (
        "Good for single columns, pairs of columns, groups of at least 100 rows, regressions and rows that pass for "
        "true ones.")
    mixed = [measure("columns_mean", "good"), measure("column_worst", "care"), measure("pairs_mean", "good"),
             measure("pair_worst", "poor"), measure("regression_loss", "poor"), measure("detector", "good"),
             measure("copies", "poor")]
    # The worst pair alone does not rule pairs out.
    assert lights_of_uses(mixed) == {"single columns": "care", "pairs of columns": "care", "regressions": "poor",
                                     "rows that pass for true ones": "good"}
    assert verdict_of(mixed) == (
        "Good for rows that pass for true ones; with care for single columns and pairs of columns; not for regressions."
        f" {verdict.MORE_COPIES}.")
    assert verdict_of([]) == "Nothing could be measured."


def test_the_same_rows_are_good_shuffled_columns_are_not_and_copies_are_told():
    fresh = judged(SCHEMA, table(5_000, 10), table(5_000, 11))
    assert {each.light for each in fresh.measures} == {"good"}
    rng = np.random.default_rng(12)
    shuffled = judged(SCHEMA, TRUE, {name: values[rng.permutation(700)] for name, values in TRUE.items()})
    uses = lights_of_uses(shuffled.measures)
    assert uses["single columns"] == "good"
    assert uses["regressions"] == "poor"
    assert "poor" in (uses["pairs of columns"], uses["groups of at least 100 rows"])
    copies = judged(SCHEMA, TRUE, TRUE)
    assert copies.details["NewRowSynthesis"] == 0.0
    assert verdict.MORE_COPIES in copies.verdict
    assert repr(copies) == "Judgement(private)"
    assert copies.to_dict() == judged(SCHEMA, TRUE, TRUE).to_dict()
    assert set(LIGHTS) >= {each.light for each in shuffled.measures}


@pytest.mark.parametrize("columns", [
    [tm.Column("x", 0, 1)], [tm.Column("c", kind="categorical", categories=["a", "b"])],
    [tm.Column("x", 0, 1, missing="keep"), tm.Column("y", 0, 1)]])
@pytest.mark.parametrize("n", [1, 2, 25, 200])
def test_small_and_strange_tables_have_a_verdict(columns, n):
    schema = tm.Schema(columns)
    rng = np.random.default_rng(n)
    values = {"x": np.ma.MaskedArray(rng.random(n), np.ones(n, bool)) if len(columns) > 1 else rng.random(n),
              "y": np.full(n, 0.5), "c": np.array(["a", "b"], dtype=object)[rng.integers(0, 2, n)]}
    true = {name: values[name] for name in schema.names}
    found = judged(schema, true, true)
    assert found.verdict
    assert all(np.isfinite(each.value) for each in found.measures)
    json.dumps(found.to_dict(), allow_nan=False)


@pytest.mark.nightly  # By day wide tables are compared in fewer rows, below.
def test_of_a_large_table_a_part_is_compared_and_the_command_says_so(monkeypatch):
    monkeypatch.setattr(judgement, "COMPARED_ROWS", 300)
    schema = tm.Schema([tm.Column("x", 0, 10), tm.Column("n", 0, 9, kind="integer")])
    rng = np.random.default_rng(13)
    data = pa.table({"x": rng.uniform(0, 10, 1_000), "n": rng.integers(0, 10, 1_000)})
    release = tm.synthesize(data, schema, tm.Budget(1.0, 1e-6), tm.MomentMechanism(points=64, iterations=1), rng)
    found = judgement_of(release, data)
    assert found.rows == {"true": 1_000, "true_compared": 300, "synthetic": 300, "detector": 300}
    assert found.compared.startswith("300 drawn rows of the 1,000 true rows were compared with 300 synthetic ones")
    assert judgement_of(release, data).to_dict() == found.to_dict()
    assert "standard error of 2.9 percentage points" in found.compared
    monkeypatch.setattr(judgement, "COMPARED_ROWS", 1_000)
    assert judgement_of(release, data).compared.startswith("All 1,000 true rows")


def test_a_comparison_says_what_it_compares_and_when_it_has_ended():
    said = []
    judged(SCHEMA, TRUE, MADE, say=lambda *given: said.append(given))
    steps = ("columns", "pairs", "correlations", "groups", "regressions", "detector", "copies")
    own = [given for given in said if given[0].removeprefix("comparing ") in (*steps, "comparing")]
    assert own == [*((f"comparing {name}", k, 7) for k, name in enumerate(steps)), ("comparing", 7, 7)]


def test_wide_tables_are_compared_in_fewer_rows():
    counts = [judgement.compared_rows(10**6, d) for d in (1, 17, 40, 100, 1_000)]
    assert counts == [100_000, 100_000, 50_000, 20_000, 10_000]
    assert judgement.compared_rows(569, 1_000) == 569


@pytest.mark.nightly  # By day test_cli.py runs it, and the verdict is above.
def test_the_command_begins_with_the_verdict_and_has_all_figures_in_json(run, clinic):
    status, said, told = run("evaluate", "clinic.tm", "--against", "data.csv")
    assert status == 0
    assert told.startswith("NOT PRIVATE")
    first = said.splitlines()[0]
    assert first.endswith(".")
    assert "single columns" in first
    status, said, _ = run("evaluate", "clinic.tm", "--against", "data.csv", "--json")
    facts = json.loads(said)
    assert facts["verdict"] == first
    assert facts["private"] is True
    names = [each["name"] for each in facts["measures"]]
    assert 8 <= len(names) == len(set(names)) <= len(LIMITS)
    assert set(names) <= set(LIMITS)
    for each in facts["measures"]:
        assert each["limits"]["good"] == LIMITS[each["name"]].good
        assert each["light"] in LIGHTS
    assert "largest difference of distribution functions" in facts


def test_names_that_look_like_markup_or_commands_are_shown_as_they_are(capsys):
    from trigmech.cli.judgement import tell_judgement

    schema = tm.Schema([tm.Column("[red]a[/red]", 0, 1), tm.Column("b\x1b[2J", 0, 1)])
    rng = np.random.default_rng(14)
    rows = {name: rng.random(50) for name in schema.names}
    tell_judgement(judged(schema, rows, rows))
    said = capsys.readouterr().out
    assert "[red]a[/red]" in said
    assert "\x1b" not in said


def test_limits_are_stated_in_the_documentation():
    page = (oracles.__file__).replace("tests/oracles.py", "docs/evaluate.md")
    with open(page, encoding="utf-8") as file:
        text = file.read()
    for name, limit in LIMITS.items():
        assert f"| `{name}` |" in text
        line = next(line for line in text.splitlines() if f"| `{name}` |" in line)
        assert f"| {limit.good:g} | {limit.care:g} |" in line
    for stated in (f"at most {verdict.FRESH_FACTOR:g} times that of fresh rows", f"At most {COMPARED_ROWS:,} rows",
                   f"at most {detector.ROWS:,}\nof each", f"more than {numbers.TOO_WIDE:,.0f} times",
                   f"{categories.MANY_NUMBERS} or more categories",
                   f"groups of at least {measures.FEWEST_IN_GROUP} rows",
                   f"one row in {1 / numbers.SPECIAL_SHARE:.0f} holds", f"than {FEWEST} rows or persons"):
        assert stated in text or stated.replace(" ", "\n") in text, stated


@pytest.mark.parametrize("far", [1e155, 1e300])
def test_a_column_of_one_value_is_compared_with_synthetic_values_far_from_it(far):
    """Before, their squares overflowed, no regression had a number, and the page ended with a ValueError."""
    rng, n = np.random.default_rng(0), 400
    schema = tm.Schema([tm.Column("x", 1, 1e300, "integer"), tm.Column("y", 0, 4, "integer")])
    true = {"x": np.ones(n), "y": rng.integers(0, 5, n)}
    found = judged(schema, true, {"x": rng.choice([1.0, far], n), "y": rng.integers(0, 5, n)})
    assert all(np.isfinite(each.value) for each in found.measures)
    assert list(found.details["regressions"]) == ["y"]


@pytest.mark.parametrize("parts", [7, 8, 9])
def test_shared_values_that_are_no_short_decimals_are_the_true_ones(parts):
    """A release finds 2/7 as 0.28571, which was never equal to the true value rounded to the column's four digits."""
    rng = np.random.default_rng(parts)
    table = pd.DataFrame({"share": rng.binomial(6, 0.4, 3_000) / parts, "other": rng.integers(0, 2, 3_000)})
    schema = tm.Schema([tm.Column("share", 0, 1), tm.Column("other", 0, 1, "binary")])
    made = tm.synthesize(table, schema, tm.Budget(50.0, 1e-6), rng=np.random.default_rng(1))
    true, synthetic = schema.decode(schema.to_cube(table)), made.columns(3_000, np.random.default_rng(2))
    found = judged(schema, true, synthetic)
    measured = {each.name: each.value for each in found.measures}
    assert measured["column_worst"] > 0.97
    # These rows do pass for true ones, and it says so.
    assert measured["copies"] > 0.95
    assert abs(measured["detector"] - 0.5) < 0.06


def test_values_that_differ_by_a_digit_of_their_own_stay_different():
    schema = tm.Schema([tm.Column("x", 0, 1), tm.Column("y", 0, 1, decimals=5), tm.Column("z", -1, 1)])
    true = {name: np.array([0.2857, 0.3, 0.5]) for name in schema.names}
    side = Coding.of(schema.columns, true).side({name: np.array([0.28571, 0.2858, np.nan]) for name in schema.names})
    assert side.values[:2].tolist() == [[0.2857, 0.28571, 0.28571], [0.2858, 0.2858, 0.2858]]
    assert np.isnan(side.values[2]).all()
