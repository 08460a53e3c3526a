"""Lights: expected ones agree with the truth, limits can be given, releases compared, and a budget advised on."""

import dataclasses
import json
import math
import re
import shutil
import subprocess
from html import escape, unescape
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from test_cli import run as run

import trigmech as tm
from trigmech.errors import InputError
from trigmech.evaluation import judgement
from trigmech.evaluation.forecast import forecast
from trigmech.evaluation.judgement import judged
from trigmech.evaluation.measures import determined
from trigmech.evaluation.sides import Coding
from trigmech.evaluation.verdict import LIGHTS, LIMITS, QualityMeasure, load_limits, verdict_of, worst
from trigmech.report import page as report
from trigmech.report.advised import advise, made_up
from trigmech.report.comparison import compare
from trigmech.report.figures import slugs
from trigmech.report.lead import HELD, MARGINS_SAID

SCHEMA = tm.Schema([tm.Column("age", 0, 110, "integer"), tm.Column("income", 0, 2e5, special=(0,)),
                    tm.Column("region", kind="categorical", categories=tuple("abcdefgh")),
                    tm.Column("smoker", 0, 1, "binary"), tm.Column("bmi", 10, 60), tm.Column("w", 0, 1)])
RESULTS = Path(__file__).parents[1] / "experiments" / "results"
CHROMIUM = next((found for name in ("chromium", "chromium-browser", "google-chrome", "chrome")
                 if (found := shutil.which(name))), None)


def people(n, seed):
    """Columns that depend on a hidden number, but for the last one."""
    rng = np.random.default_rng(seed)
    hidden = rng.normal(size=n)
    income = np.exp(9.5 + 0.5 * hidden + 0.6 * rng.normal(size=n)).clip(0, 2e5)
    income[rng.random(n) < 0.15] = 0
    region = np.minimum((rng.gamma(1.2, 1.5, n) + (hidden > 0)).astype(int), 7)
    return pd.DataFrame({"age": np.clip(45 + 15 * hidden + 6 * rng.normal(size=n), 18, 95).round(), "income": income,
                         "region": np.array(list("abcdefgh"))[region],
                         "smoker": (rng.random(n) < 1 / (1 + np.exp(hidden))).astype(int),
                         "bmi": (27 - 1.5 * hidden + 4 * rng.normal(size=n)).clip(10, 60), "w": rng.uniform(0, 1, n)})


def released(n, epsilon, seed):
    return tm.synthesize(people(n, seed), SCHEMA, tm.Budget(epsilon, 1e-6), rng=np.random.default_rng(seed))


@pytest.fixture(scope="module")
def two():
    return {"little": released(2_000, 0.1, 0), "much": released(2_000, 3.0, 0)}


@pytest.fixture(scope="module")
def schema_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("schema") / "schema.toml"
    path.write_text('[columns.age]\nkind = "integer"\nlower = 0\nupper = 120\n\n[columns.pay]\n'
                    'kind = "continuous"\nlower = 0\nupper = 1000\n', encoding="utf-8")
    return path


@pytest.mark.nightly  # By day test_left_by_shrinkage.py compares forecasts with what is left wrong.
def test_nine_of_ten_expected_lights_are_no_better_than_those_of_the_true_table(monkeypatch):
    # The detector takes half of the time of a judgement, and has no part in the lights of columns and pairs.
    monkeypatch.setattr(judgement, "_detector", lambda *_: [])
    right = same = total = 0
    for n, epsilon, seed in ((3_000, 1.0, 1), (6_000, 0.3, 2), (6_000, 3.0, 3)):
        made, table = released(n, epsilon, seed), people(n, seed)
        expected = forecast(made.release, SCHEMA, made.distribution.points)
        truth = judged(SCHEMA, SCHEMA.decode(SCHEMA.to_cube(table)), made.columns(n, np.random.default_rng(0)))
        for own, real in ((expected.lights_of_columns(), truth.lights_of_columns()),
                          (expected.lights_of_pairs(), truth.lights_of_pairs())):
            assert own.keys() == real.keys()
            right += sum(LIGHTS.index(real[name]) <= LIGHTS.index(own[name]) for name in own)
            same += sum(own[name] == real[name] for name in own)
            total += len(own)
    assert right >= 0.9 * total
    # Lights that are always poor would be right, too.
    assert same >= 0.73 * total


def test_the_page_says_of_how_many_errors_the_bars_held_in_the_committed_results():
    held = pd.read_csv(RESULTS / "lights.csv").groupby("measure")["value"].sum()
    for kind, said in HELD.items():
        assert said == int(100 * held[f"{kind}, below bar"] / held[f"{kind}, bars"])
        assert f"{said} of 100" in MARGINS_SAID


def test_nine_of_ten_lights_of_the_committed_results_are_right():
    held = pd.read_csv(RESULTS / "lights.csv")
    assert held.groupby(["table", "epsilon"]).ngroups >= 20
    for kind in ("columns", "pairs"):
        table = np.array([[held.loc[held["measure"] == f"{kind}, {a}, {b}", "value"].sum() for b in LIGHTS]
                          for a in LIGHTS])
        assert np.tril(table).sum() >= 0.9 * table.sum() > 0


def test_a_verdict_names_the_columns_that_are_not_good():
    measures = [QualityMeasure("column_worst", "", "", 0.5, None, "poor", "b"),
                QualityMeasure("pairs_mean", "", "", 1.0, None, "good")]
    lights = {"a": "good", "b": "poor", "c": "good", "d": "care"}
    assert verdict_of(measures, lights) == (
        "Good for 2 of 4 single columns and pairs of columns; with care for the column d; not for the column b.")
    assert verdict_of(measures) == "Good for pairs of columns; not for single columns."
    assert verdict_of(measures, dict.fromkeys("abcd", "poor")) == verdict_of(measures)
    many = {f"x{at}": "poor" for at in range(9)} | {"a": "good"}
    assert "not for the columns x0, x1, x2, x3, x4, x5 and 3 others." in verdict_of(measures, many)


@pytest.mark.nightly
def test_a_notebook_shows_the_sentences_and_lights_of_a_release(two):
    page = two["much"]._repr_html_()
    expected = forecast(two["much"].release, SCHEMA, two["much"].distribution.points)
    for sentence in expected.sentences(2_000):
        assert escape(sentence) in page
    lights = [*expected.lights_of_columns().values(), *expected.lights_of_pairs().values()]
    assert {sign: page.count(f"<b>{sign} ") for sign in "●▲■"} == {
        sign: lights.count(light) for sign, light in zip("●▲■", LIGHTS, strict=True)}
    assert "<script" not in page


def test_a_notebook_shows_nothing_of_a_judgement(two):
    found = judged(SCHEMA, SCHEMA.decode(SCHEMA.to_cube(people(500, 0))), two["much"].columns(500))
    assert "NOT PRIVATE" in found._repr_html_()
    assert found.verdict not in found._repr_html_()
    assert "<td" not in found._repr_html_()


def test_less_budget_has_larger_expected_errors_and_worse_lights(two):
    little, much = (forecast(made.release, SCHEMA, made.distribution.points) for made in two.values())
    for kind in ("columns", "pairs", "correlations"):
        errors = [np.mean([each.error for each in getattr(found, kind)]) for found in (little, much)]
        assert errors[0] > 1.5 * errors[1]
    assert little.above < much.above
    assert little.group_rows > 5 * much.group_rows
    assert little.group_error > 2 * much.group_error
    assert little.regression_loss > much.regression_loss
    places = [sum(LIGHTS.index(light) for light in found.lights_of_pairs().values()) for found in (little, much)]
    assert places[0] > places[1]


def test_a_light_follows_the_limits_and_a_bar_holds_its_error(two):
    made = two["much"]
    strict = LIMITS | {"column_worst": LIMITS["column_worst"].__class__(0.9999, 0.9999, 1.0, "none")}
    usual, harder = (forecast(made.release, SCHEMA, made.distribution.points, limits) for limits in (LIMITS, strict))
    assert "good" in usual.lights_of_columns().values()
    for each, other in zip(usual.columns, harder.columns, strict=True):
        assert each.low < each.error < each.high
        assert each.error == other.error
        assert other.light == ("good" if 1.25 * each.error <= 1.5 * each.fresh else "poor")


def test_a_pair_has_the_worse_light_of_its_table_and_its_correlation(two):
    found = forecast(two["little"].release, SCHEMA, two["little"].distribution.points)
    tables, lights = {each.name: each.light for each in found.pairs}, found.lights_of_pairs()
    own = {each.name: each.light for each in found.correlations}
    assert {name: worst((light, own.get(name, "good"))) for name, light in tables.items()} == lights
    alone = dataclasses.replace(found, correlations=tuple(
        dataclasses.replace(each, light="poor") for each in found.correlations)).lights_of_pairs()
    assert {name for name, light in alone.items() if light == "poor"} >= set(own)
    assert own


@pytest.mark.usefixtures("unpainted")
def test_releases_of_moments_have_no_expected_lights_and_their_page_says_so(tmp_path):
    made = tm.synthesize(np.random.default_rng(0).uniform(0, 1, (200, 2)), tm.Schema(
        [tm.Column("a", 0, 1), tm.Column("b", 0, 1)]), tm.Budget(1.0), tm.MomentMechanism(
            points=64, iterations=3, degree=2, pair_degree=1, triples=False, whole_row=False), np.random.default_rng(0))
    with pytest.raises(InputError, match="release of moments"):
        forecast(made.release, made.schema, made.distribution.points)
    text = report.write(made, tmp_path / "a.html").read_text(encoding="utf-8")
    assert "Lights are expected for releases of tables only" in text


@pytest.mark.usefixtures("unpainted")
def test_the_page_begins_with_what_the_table_is_good_for(two, tmp_path):
    text = report.write(two["much"], tmp_path / "page.html").read_text(encoding="utf-8")
    start = text[text.index("<body>") : text.index("<nav")]
    assert re.search(r"(Good|With care) for .*\.\s*By expected errors, \d+ of 6 columns and \d+ of 15 pairs", start)
    assert re.search(r"Means over groups of about [\d,]+ rows", start)
    assert re.search(r"\d+ of 15 pairs of columns show a relation above the noise", start)
    assert text.index('id="columns"') < text.index('id="guarantee"') < text.index('id="ledger"')
    assert text.count('<b class="light ') == 6 + 15
    assert "Measured" not in start
    assert len(text) < 2_000_000


@pytest.mark.nightly
def test_with_the_table_the_page_has_measured_lights_and_how_to_read_them(two, tmp_path):
    path = report.write(two["much"], tmp_path / "page.html", people(2_000, 0), tmp_path / "figures")
    text = path.read_text(encoding="utf-8")
    assert path.name == "page.not-private.html"
    assert "Measured (not private):" in text[: text.index("<nav")]
    assert text.count('<b class="light ') >= 2 * (6 + 15) + 8
    for words in ("AUC of a detector", "How to read it", "Regressions of each column", "share of synthetic rows that"):
        assert words in text
    names = {each.name for each in (tmp_path / "figures").iterdir()}
    assert {"not-private-column-age.png", "not-private-column-income.pdf"} <= names
    assert any(re.fullmatch(r"not-private-pair-(age|income|region|smoker|bmi|w)-and-\w+\.png", name) for name in names)


def test_limits_that_are_nested_too_deeply_are_refused_in_one_line(tmp_path):
    (tmp_path / "limits.toml").write_text("a = " + "[" * 100_000)
    with pytest.raises(InputError, match=r"limits\.toml' is not valid TOML: it is nested too deeply$"):
        load_limits(tmp_path / "limits.toml")


@pytest.mark.parametrize(("text", "said"), [
    ("[nothing]\ngood = 1\n", "there is no measure 'nothing'"), ("pair_worst = 3\n", "must be a table"),
    ("[pair_worst]\nbest = 1\n", "must be a table with the numbers good and care"),
    ("[pair_worst]\ngood = 2\n", "between 0 and 1, not 2"), ("[pair_worst]\ngood = true\n", "not True"),
    ("[pair_worst]\ngood = 0.5\n", "must not be nearer"), ("[pair_worst\n", "is not valid TOML"),
])
def test_wrong_limits_are_refused_with_their_name(text, said, tmp_path, run, two):
    path = tmp_path / "limits.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=re.escape(said)):
        load_limits(path)
    two["much"].save(tmp_path / "a.tm")
    status, _, err = run("report", "a.tm", "--limits", "limits.toml", "--out", "a.html")
    assert status == 2
    assert said in err
    assert not (tmp_path / "a.html").exists()


def test_limits_of_a_file_replace_those_that_it_names(tmp_path):
    path = tmp_path / "limits.toml"
    path.write_text("[pair_worst]\ngood = 0.95\n", encoding="utf-8")
    found = load_limits(path)
    assert (found["pair_worst"].good, found["pair_worst"].care) == (0.95, LIMITS["pair_worst"].care)
    assert {name: limit for name, limit in found.items() if name != "pair_worst"} == {
        name: limit for name, limit in LIMITS.items() if name != "pair_worst"}
    with pytest.raises(InputError, match=r"cannot read '.*absent\.toml': No such file"):
        load_limits(tmp_path / "absent.toml")


@pytest.mark.nightly
def test_a_judgement_can_have_other_limits(two):
    made = two["much"]
    found = judged(SCHEMA, SCHEMA.decode(SCHEMA.to_cube(people(2_000, 0))),
                   made.columns(2_000, np.random.default_rng(0)))
    hard = found.by({name: limit.__class__(limit.best, limit.best, limit.best, "") for name, limit in LIMITS.items()})
    assert [each.value for each in hard.measures] == [each.value for each in found.measures]
    assert hard.to_dict()["measures"][0]["limits"]["good"] == 1.0
    assert "poor" in {each.light for each in hard.measures}
    assert found.by(LIMITS).to_dict() == found.to_dict()


def test_columns_that_determine_others_are_found_with_their_share():
    rng = np.random.default_rng(0)
    cell = rng.integers(0, 4, 1_000)
    table = {"a": np.array(list("pqrs"))[cell], "b": np.array(list("xyxy"))[cell], "c": np.array(list("xy"))[
        rng.integers(0, 2, 1_000)]}
    columns = [tm.Column(name, kind="categorical", categories=categories)
               for name, categories in (("a", tuple("pqrs")), ("b", tuple("xy")), ("c", tuple("xy")))]
    coding = Coding.of(columns, table)
    broken = table | {"b": np.where(rng.random(1_000) < 0.5, "x", "y")}
    ((first, second, true, made),) = determined(coding, coding.side(table), coding.side(broken))
    assert (first, second, true) == (0, 1, 1.0)
    counted = pd.crosstab(broken["a"], broken["b"]).max(axis=1).sum() / 1_000
    assert made == pytest.approx(counted)


def test_slugs_are_names_of_files_and_all_different():
    found = slugs(["Age (years)", "age years", "große", "", "名前", "x" * 90, "../../etc"])
    assert len(set(found)) == 7
    assert all(re.fullmatch(r"[a-z0-9][a-z0-9-]*", slug) for slug in found)
    assert found[0] == "age-years"
    assert found[2] == "groe"
    # Also of a name that is what a second one would be called.
    assert len(set(slugs(["a-3", "a", "a", "a-2"]))) == 4


def test_where_no_relation_was_seen_the_table_is_not_for_regressions():
    made = released(200, 0.3, 0)
    found = forecast(made.release, SCHEMA, made.distribution.points)
    assert found.above == 0
    assert found.regression_loss > LIMITS["regression_loss"].care
    assert "not for" in verdict_of(found.measures()).split("regressions")[0].lower()


# Beside each other

def test_releases_are_compared_by_guarantee_lights_and_errors(two, tmp_path):
    found = compare(two)
    expected = {name: made.ledger.budget.epsilon for name, made in two.items()}
    assert {row[0]: float(row[4]) for row in found.parts[0].table.rows} == expected
    assert [row[0] for row in found.parts[1].table.rows] == list(SCHEMA.names)
    assert len(found.parts[2].table.rows) == 15
    assert not found.private
    facts = json.loads(json.dumps(found.to_dict()))
    assert facts["releases"]["little"]["measured"] is None
    assert len(facts["releases"]["much"]["expected"]["pairs"]) == 15
    page = found.write(tmp_path / "both.html")
    assert page.name == "both.html"
    assert "not private" not in page.read_text(encoding="utf-8").lower().replace("simulated: not private", "")


def test_with_the_table_a_comparison_is_marked_and_has_measures(two, tmp_path):
    found = compare(two, people(2_000, 0))
    assert found.private
    assert "age" not in repr(found)
    assert "age" not in found._repr_html_()
    assert found.parts[1].title == "Measures"
    page = found.write(tmp_path / "both.html")
    assert page.name == "both.not-private.html"
    assert "Not private: do not publish" in page.read_text(encoding="utf-8")


def test_releases_that_cannot_be_compared_are_refused(two):
    other = tm.synthesize(np.full((300, 1), 0.5), tm.Schema([tm.Column("other", 0, 1)]), tm.Budget(1.0, 1e-6),
                          rng=np.random.default_rng(0))
    turned = tm.synthesize(people(300, 0)[["w", "age"]], tm.Schema([SCHEMA.columns[5], SCHEMA.columns[0]]),
                           tm.Budget(1.0, 1e-6), rng=np.random.default_rng(0))
    for releases, said in (({"a": two["much"]}, "at least two"),
                           ({"a": two["much"], "b": other}, "no column in common"),
                           ({"a": two["much"], "b": turned}, "another order")):
        with pytest.raises(InputError, match=said):
            compare(releases)


def test_the_command_compares_and_advises(two, tmp_path, run, schema_file):
    for name, made in two.items():
        made.save(tmp_path / f"{name}.tm")
    status, out, err = run("compare", "little.tm", "much.tm", "--html", "c.html")
    assert status == 0, err
    assert out.startswith("little, expected:")
    assert (tmp_path / "c.html").is_file()
    assert run("compare", "little.tm")[0] == 2
    assert run("compare", "little.tm", "little.tm")[0] == 2
    file = str(schema_file)
    _, out, _ = run("advise", file, "--rows", "900", "--epsilon", "0.5", "--epsilon", "5", "--json")
    assert [each["epsilon"] for each in json.loads(out)["epsilons"]] == [0.5, 5.0]
    for wrong in (("--rows", "3"), ("--rows", "many"), *(("--rows", "900", "--epsilon", each) for each in (
            "0", "-1", "nan", "inf")), ("--rows", "900", "--delta", "2", "--epsilon", "1")):
        assert run("advise", file, *wrong)[0] == 2
    assert run("advise", file, "--rows", "900", "--target", "absent")[0] == 2
    before = schema_file.read_bytes()
    assert run("advise", file, "--rows", "900", "--html", file)[0] == 2
    assert schema_file.read_bytes() == before


# Advice

def test_more_budget_and_more_rows_are_expected_to_err_less():
    few = tm.Schema(SCHEMA.columns[:3])
    found = advise(few, 1_000, epsilons=(0.1, 1.0, 10.0))
    kinds = ("columns", "pairs", "correlations")
    errors = np.array([[np.mean([each["error"] for each in step[kind]]) for kind in kinds]
                       for step in found.facts["epsilons"]])
    assert (errors[0] > 2.0 * errors[-1]).all()
    more = advise(few, 100_000, epsilons=(1.0,)).facts["epsilons"][0]
    less = next(step for step in found.facts["epsilons"] if step["epsilon"] == 1.0)
    for key in ("smallest_correlation", "smallest_difference"):
        assert more[key] < less[key]
    # None: the groups of no size are expected to be right.
    sizes = [np.inf if step["group_rows"] is None else step["group_rows"] for step in found.facts["epsilons"]]
    assert np.isinf(sizes[0])
    assert sizes[-1] < 300.0
    assert sizes == sorted(sizes, reverse=True)
    assert more["group_rows"] < 1_000.0
    assert found.facts["delta"] == 1e-4
    for name, smallest in found.facts["smallest_epsilon"].items():
        for step in found.facts["epsilons"]:
            lights = step["lights"]["columns"] | step["lights"]["pairs"]
            if smallest is not None and step["epsilon"] >= smallest:
                assert lights[name] == "good"
    # The same again, whatever else is asked.
    assert advise(few, 1_000, epsilons=(1.0,)).facts["epsilons"] == [less]


def test_advice_without_noise_can_see_what_chance_leaves():
    """With an endless budget the smallest effects are those of sampling alone."""
    n, few = 1_000, tm.Schema([column for column in SCHEMA.columns if column.name in ("age", "smoker", "bmi")])
    step = advise(few, n, epsilons=(1_000.0,)).facts["epsilons"][0]
    power = 1.959964 + 0.841621
    assert step["smallest_correlation"] == pytest.approx(power / np.sqrt(n), rel=0.1)
    assert step["smallest_difference"] == pytest.approx(power * 2.0 / np.sqrt(n), rel=0.1)


def test_a_made_up_table_keeps_to_the_domain_and_its_columns_depend():
    points = made_up(SCHEMA.domain, 5_000)
    rows = SCHEMA.decode(points)
    assert set(rows["region"]) == set("abcdefgh")
    assert 0.02 < np.mean(rows["income"] == 0) < 0.09
    assert np.corrcoef(rows["age"], rows["bmi"])[0, 1] == pytest.approx(0.25, abs=0.05)


@pytest.mark.parametrize(("given", "said"), [
    ({"rows": 3}, "rows"), ({"rows": 100.5}, "rows"), ({"epsilons": ()}, "epsilons"),
    ({"epsilons": ("a",)}, "epsilons"), ({"target": "absent"}, "absent"), ({"epsilons": (1.0, 0.0)}, "above 0"),
    ({"epsilons": (math.nan,)}, "above 0"), ({"epsilons": (math.inf,)}, "above 0"), ({"epsilons": (True,)}, "above 0")])
def test_wrong_questions_are_refused(given, said):
    with pytest.raises(InputError, match=said):
        advise(SCHEMA, **({"rows": 1_000} | given))


@pytest.mark.parametrize("columns", [
    [tm.Column("a", 0, 10)], [tm.Column(name, kind="categorical", categories=["x", "y"]) for name in "ab"]])
def test_effects_that_a_release_cannot_show_are_none(columns):
    facts = advise(tm.Schema(columns), 30, epsilons=(1e-3,)).facts
    assert json.dumps(facts, allow_nan=False)
    assert facts["epsilons"][0]["smallest_correlation"] is None


def test_advice_needs_public_bounds():
    with pytest.raises(InputError, match="private bounds"):
        advise(tm.Schema([tm.Column("a", private_bounds=True)]), 1_000)


# In a browser

AXE = """<script>axe.run(document, {resultTypes: ["violations"]}).then(found => {
const item = document.createElement("pre"); item.id = "axe"; item.textContent = JSON.stringify(
found.violations.map(each => [each.id, each.impact])); document.body.append(item)})</script>"""


@pytest.mark.nightly
@pytest.mark.skipif(CHROMIUM is None or find_spec("axe_core_python") is None, reason="no Chromium, or no axe")
@pytest.mark.parametrize("scheme", ["0", "1"])
def test_axe_finds_no_fault_on_the_pages_in_light_and_dark(scheme, two, tmp_path):
    axe = Path(find_spec("axe_core_python").submodule_search_locations[0], "axe.min.js").read_text(encoding="utf-8")
    pages = [report.write(two["much"], tmp_path / "page.html", people(2_000, 0)),
             compare(two).write(tmp_path / "c.html"),
             advise(SCHEMA, 1_000, epsilons=(0.5, 2.0)).write(tmp_path / "a.html")]
    for page in pages:
        text = re.sub(r"<meta http-equiv[^>]*>", "", page.read_text(encoding="utf-8"))
        for planted in ("", '<img src="data:,">'):
            copy = tmp_path / "copy.html"
            copy.write_text(text.replace("</body>", f"{planted}<script>{axe}</script>{AXE}</body>"), encoding="utf-8")
            done = subprocess.run(
                [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}",
                 f"--blink-settings=preferredColorScheme={scheme}", "--virtual-time-budget=30000", "--dump-dom",
                 copy.as_uri()], capture_output=True, text=True, timeout=120, check=False)
            (said,) = re.findall(r'<pre id="axe">(.*?)</pre>', done.stdout, re.DOTALL)
            found = [name for name, _ in json.loads(unescape(said))]
            assert ("image-alt" in found) == bool(planted)
            assert planted or found == []
