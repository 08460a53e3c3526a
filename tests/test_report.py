"""The report of a release: what it says, what it must not say, and how it looks in a browser."""

import base64
import html
import json
import math
import re
import shutil
import subprocess
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from html.parser import HTMLParser
from itertools import combinations, pairwise

import numpy as np
import pandas as pd
import pytest
from unpainted import leave_out_pictures

from trigmech.errors import InputError
from trigmech.mechanisms.moment import MomentMechanism
from trigmech.mechanisms.table import TableMechanism
from trigmech.privacy.budget import Budget, Charge
from trigmech.privacy.ledger import Ledger
from trigmech.report import columns as report_columns
from trigmech.report import page as report
from trigmech.report import sections as report_sections
from trigmech.report.against import rows_of
from trigmech.report.columns import associations, marginal, values_of
from trigmech.report.figures import (
    LABELLED,
    bars,
    distributions,
    heat_map,
    histogram,
    plain,
    scatter,
    slugs,
    styled,
)
from trigmech.report.statement import guarantee, upward
from trigmech.schema.schema import Column, Schema
from trigmech.synthesis import synthesize
from trigmech.thesis.mechanisms import ImprovedTrigII

FAST = MomentMechanism(points=100, iterations=4, degree=2, pair_degree=1, triples=False)
NUMBERS = MomentMechanism(points=100, iterations=4, degree=2, pair_degree=1, triples=False, whole_row=False)
HOSTILE = "<script>alert('a')</script> \"&\u202e$x_1$"
LONG = "x" * 300
# Values of the private table that no page without it may hold.
MARKED_TEXT, MARKED_NUMBER = "ZEBRA-4711", 86753.125
ALLOWED = set(re.findall(r"\w+", """html head meta title style body header main footer section nav div p h1 h2 h3 dl dt
    dd ol ul li a b i em sup br strong table caption thead tbody tr th td figure figcaption img details summary"""))
VOID = {"meta", "img", "br", "link", "input", "hr"}
CHROMIUM = next((found for name in ("chromium", "chromium-browser", "google-chrome", "chrome")
                 if (found := shutil.which(name))), None)
N = 300


@pytest.fixture(autouse=True)
def few_queries(monkeypatch):
    monkeypatch.setattr(report_sections, "MOST_QUERIES", 60)


def mixed_schema():
    return Schema([Column("age", 0, 110, "integer"),
                   Column(HOSTILE, kind="categorical", categories=["a", "<b>bold</b>", "other"], missing="keep",
                          other="other"),
                   Column("gain", 0, 50_000, special=(0,), transform="log1p"),
                   Column("school", kind="ordinal", categories=["none", "some", "all"]),
                   Column("born", "1900-01-01", "2020-12-31", "datetime"), Column("smoker", 0, 1, "binary"),
                   Column(LONG, 1.0, 100.0, transform="log", missing="keep")])


def mixed_table():
    rng = np.random.default_rng(5)
    age = rng.integers(0, 90, N)
    kind = rng.choice(np.array(["a", "<b>bold</b>", MARKED_TEXT, None], dtype=object), N)
    gain = np.where(rng.random(N) < 0.5, 0.0, rng.uniform(1.0, 1e4, N))
    gain[0] = MARKED_NUMBER
    number = rng.uniform(1.0, 100.0, N)
    number[::7] = np.nan
    born = np.datetime64("2020-06-01") - (age * 365).astype("timedelta64[D]")
    return {"age": age, HOSTILE: kind, "gain": gain, "school": np.array(["none", "some", "all"])[age // 30],
            "born": born.astype(object), "smoker": rng.integers(0, 2, N), LONG: number}


def numbers_table():
    x = np.random.default_rng(1).standard_normal((N, 4))
    return np.clip(0.3 * (x + x[:, :1]), -1.0, 1.0)


@pytest.fixture(scope="module")
def mixed():
    schema = mixed_schema()
    rows = np.array([*mixed_table().values()], dtype=object).T
    return synthesize(rows, schema, Budget(1.0, 1e-6), FAST, np.random.default_rng(0))


@pytest.fixture(scope="module")
def numbers():
    made = synthesize(numbers_table(), Schema.cube(4), Budget(1.0, 1e-6), NUMBERS, np.random.default_rng(0))
    # As if its noise were hardened, which takes seconds to load and gives the same page.
    return replace(made, ledger=replace(made.ledger, simulated=False))


class Page(HTMLParser):
    """A page's elements; it fails where they are not nested well."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.elements, self.texts = [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        assert len(dict(attributes)) == len(attributes), f"an attribute of {tag} is given twice"
        self.elements.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag, f"</{tag}> closes another element"

    def handle_data(self, data):
        if self.open and self.open[-1] != "style":
            self.texts.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.texts).split())

    def all(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]


def check(text):
    """What every page must keep to; returns it parsed."""
    page = Page(text)
    assert text.startswith("<!DOCTYPE html>")
    assert page.all("html") == [{"lang": "en"}]
    names = {tag for tag, _ in page.elements}
    assert names <= ALLOWED
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(set(ids)) == len(ids)
    targets = [attributes["href"] for attributes in page.all("a")]
    assert all(target.startswith("#") for target in targets)
    linked = {target[1:] for target in targets}
    assert linked == set(ids)
    for tag, attributes in page.elements:
        assert not [name for name in attributes if name.startswith("on")]
        assert {"src", "href", "srcset", "action", "data"} & set(attributes) <= {{"img": "src", "a": "href"}.get(tag)}
        if tag == "img":
            assert len(attributes["alt"]) > 10
            check_picture(attributes["src"])
    assert not re.search(r"url\(|@import|https?:", re.sub(r'src="data:[^"]*"', "", text))
    levels = [int(tag[1]) for tag, _ in page.elements if tag in ("h1", "h2", "h3")]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    assert len(page.all("caption")) == len(page.all("table")) > 0
    assert all("scope" in attributes for attributes in page.all("th"))
    assert "\u202e" not in text
    return page


def check_picture(source):
    media, coded = source.split(";base64,")
    file = base64.b64decode(coded, validate=True)
    if media == "data:image/png":
        assert file.startswith(b"\x89PNG")
        return
    assert media == "data:image/svg+xml"
    for element in ElementTree.fromstring(file).iter():
        assert not element.tag.endswith(("script", "foreignObject"))
        for name, value in element.attrib.items():
            assert not name.endswith("href") or value.startswith(("#", "data:image/png"))


def pictures_of(page):
    return b"".join(base64.b64decode(attributes["src"].split(",")[1]) for attributes in page.all("img")).decode(
        "utf-8", "ignore")


@pytest.mark.nightly
def test_a_real_release_of_numbers_is_told_without_a_warning(numbers, tmp_path):
    path = report.write(numbers, tmp_path / "report.html")
    assert path == tmp_path / "report.html"
    page = check(path.read_text(encoding="utf-8"))
    assert "not private" not in page.text.lower()
    for words in ("with ε = 1 and δ = 1e−6", "at most 73.2 %", "n itself is public", "n = 300", "real, from",
                  "products of two numbers", "Correlation, synthetic", "Effective number of points", "opendp"):
        assert words in page.text, words
    assert "True" not in page.text
    assert [p.name for p in tmp_path.iterdir()] == ["report.html"]


@pytest.mark.parametrize("against", [pytest.param(False, marks=pytest.mark.nightly), True])
def test_hostile_names_stand_on_the_page_as_text_and_nothing_else(mixed, tmp_path, against):
    path = report.write(mixed, tmp_path / "r.html", mixed_table() if against else None)
    text = path.read_text(encoding="utf-8")
    page = check(text)
    assert HOSTILE.replace("\u202e", "\ufffd") in page.text
    assert "<script" not in text
    assert "<b>bold" not in text
    assert "&lt;b&gt;bold&lt;/b&gt;" in pictures_of(page)
    assert "<script" not in pictures_of(page)
    assert "products of a category and a number" in page.text
    assert "Association, synthetic" in page.text


def test_nothing_private_appears_without_the_table(mixed, tmp_path):
    text = report.write(mixed, tmp_path / "r.html").read_text(encoding="utf-8")
    everything = text + pictures_of(check(text))
    for marked in (MARKED_TEXT, "86753", "86,753"):
        assert marked not in everything
    # What is on the page is found in this way.
    assert "&lt;b&gt;bold" in everything


@pytest.mark.nightly  # By day pages are compared to the byte in test_behind_the_release.py, pictures in test_docs.py.
def test_the_same_release_gives_the_same_bytes(numbers, tmp_path):
    first = report.write(numbers, tmp_path / "a.html", figures=tmp_path / "f").read_bytes()
    names = sorted(path.name for path in (tmp_path / "f").iterdir())
    assert names == sorted(f"{name}.{kind}" for kind in ("pdf", "png")
                           for name in (*(f"column-{each}" for each in slugs(numbers.schema.names)), "correlation"))
    before = [(tmp_path / "f" / name).read_bytes() for name in names]
    assert all(file.startswith((b"\x89PNG", b"%PDF")) for file in before)
    assert report.write(numbers, tmp_path / "b.html", figures=tmp_path / "f").read_bytes() == first
    assert [(tmp_path / "f" / name).read_bytes() for name in names] == before


def test_with_the_table_page_title_and_files_say_that_they_are_not_private(numbers, tmp_path, monkeypatch):
    path = report.write(numbers, tmp_path / "r.html", numbers_table(), tmp_path / "figures")
    assert path == tmp_path / "r.not-private.html"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["figures", "r.not-private.html"]
    figures = [p.name for p in (tmp_path / "figures").iterdir()]
    assert figures
    assert all(name.startswith("not-private-") for name in figures)
    text = path.read_text(encoding="utf-8")
    page = check(text)
    assert "<title>NOT PRIVATE" in text
    assert page.text.count("Not private: do not publish") == 2
    for words in ("Correlation, synthetic minus true", "How to read it", "true record to its nearest other one",
                  "The worst queries of each family", "Within their bounds", "mean product of", "True mean"):
        assert words in page.text, words
    # A name that says it already is left alone.
    leave_out_pictures(monkeypatch)
    assert report.write(numbers, tmp_path / "Not-Private.html", numbers_table()).name == "Not-Private.html"


@pytest.mark.usefixtures("unpainted")
def test_a_simulated_release_says_so_in_large_and_claims_nothing(mixed, tmp_path):
    page = check(report.write(mixed, tmp_path / "r.html").read_text(encoding="utf-8"))
    assert "SIMULATED, NOT PRIVATE." in page.text
    assert "nothing: simulated" in page.text


@pytest.mark.usefixtures("unpainted")
def test_a_published_calibration_is_told_as_a_claim_beside_what_is_proved(tmp_path):
    mechanism = ImprovedTrigII(calibration="published", n_candidates=200, rank=2)
    synthesis = synthesize(numbers_table(), Schema.cube(4), Budget(1.0, 1e-3), mechanism, np.random.default_rng(0))
    page = check(report.write(synthesis, tmp_path / "r.html").read_text(encoding="utf-8"))
    proved = upward(synthesis.ledger.proved_epsilon)
    assert "It claims (1, 0.001)-differential privacy" in page.text
    assert f"This package proves ({proved}, 0.001)-differential privacy" in page.text
    assert "principal axes" in page.text


@pytest.mark.nightly
def test_one_column_and_many_columns_give_a_usable_page(tmp_path):
    mechanism = MomentMechanism(points=60, iterations=2, degree=2, pair_degree=0, triples=False, whole_row=False)
    for d in (1, 26):
        X = np.random.default_rng(2).uniform(-1.0, 1.0, (50, d))
        synthesis = synthesize(X, Schema.cube(d), Budget(1.0, 1e-6), mechanism, np.random.default_rng(0))
        page = check(report.write(synthesis, tmp_path / "r.html", X if d == 1 else None).read_text(encoding="utf-8"))
        assert ("The other 2 columns" in page.text) == (d == 26)
        assert ("does not have two columns" in page.text) == (d == 1)
        assert len([a for a in page.all("figure") if a.get("id", "").startswith("column-")]) == d


@pytest.mark.daily("1e-06")
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_one_column_is_compared_with_its_table(delta, tmp_path):
    """Before, the page of a release of one column asked for its pairs, and ended with a KeyError."""
    table = pd.DataFrame({"a": np.arange(60) % 7})
    made = synthesize(table, Schema([Column("a", 0, 6, "integer")]), Budget(1.0, delta), TableMechanism(points=64),
                      np.random.default_rng(0))
    page = check(report.write(made, tmp_path / "r.html", table).read_text(encoding="utf-8"))
    assert "A light for each column" in page.text
    assert "A light for each pair of columns" not in page.text


@pytest.mark.parametrize(("d", "said"), [(2, "The table of the pair of columns was released"),
                                         (3, "Tables of 3 pairs of columns were released")])
def test_one_pair_is_no_pairs(d, said, tmp_path):
    table = pd.DataFrame({name: np.repeat(["x", "y", "z"], 100) for name in "abc"[:d]})
    schema = Schema([Column(name, kind="categorical", categories=("x", "y", "z")) for name in table])
    made = synthesize(table, schema, Budget(100.0), TableMechanism(points=64), np.random.default_rng(0))
    page = check(report.write(made, tmp_path / "r.html").read_text(encoding="utf-8"))
    assert said in " ".join(page.text.split())


@pytest.mark.daily("two floats")
@pytest.mark.parametrize("column", [
    Column("a", 1.0, math.nextafter(1.0, 2.0)), Column("a", 2**60, 2**60 + 2_048, "integer"),
    Column("a", 2**53 - 40, 2**53 + 50, "integer", transform="log")], ids=["two floats", "nine floats", "logarithms"])
def test_a_column_of_few_floats_far_from_0_has_a_page(column, tmp_path):
    """Before, 32 bins of a histogram had no width, and the page ended with a ValueError."""
    table = pd.DataFrame({"a": np.linspace(*column.bounds, 60), "b": np.arange(60) % 5})
    made = synthesize(table, Schema([column, Column("b", 0, 4, "integer")]), Budget(1.0), TableMechanism(points=64),
                      np.random.default_rng(0))
    check(report.write(made, tmp_path / "r.html", table).read_text(encoding="utf-8"))
    own = marginal(values_of(made.schema, made.distribution.points)[0], made.distribution.weights)
    assert (np.diff(own.edges) > 0.0).all()
    assert own.shares.sum() == pytest.approx(1.0)


def test_input_that_breaks_a_rule_is_refused_without_a_value(mixed, numbers, tmp_path):
    with pytest.raises(InputError, match="cannot write"):
        report.write(numbers, tmp_path / "absent" / "r.html")
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot make the folder"):
        report.write(numbers, tmp_path / "r.html", figures=tmp_path / "file")
    with pytest.raises(InputError, match="seed must be"):
        report.write(numbers, tmp_path / "r.html", seed=-1)
    table = mixed_table()
    wrong = [({"age": table["age"]}, "lacks the column"), ([1, 2], "a list must hold the 7 columns"),
             (table | {"age": table["age"][:5]}, "of one length"),
             (table | {"school": np.array([MARKED_TEXT] * N)}, "'school'")]
    for against, words in wrong:
        with pytest.raises(InputError, match=words) as refusal:
            report.write(mixed, tmp_path / "r.html", against)
        assert MARKED_TEXT not in str(refusal.value)
        assert refusal.value.__cause__ is None
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_a_table_may_come_as_an_array_a_list_or_a_dict_of_columns():
    schema, table = mixed_schema(), mixed_table()
    rows = np.array([*table.values()], dtype=object).T
    expected = schema.to_cube(rows)
    for given in (table, list(table.values()), dict(reversed(table.items()))):
        np.testing.assert_array_equal(rows_of(schema, given), expected)
    X = numbers_table()
    np.testing.assert_array_equal(rows_of(Schema.cube(4), list(X.T)), Schema.cube(4).to_cube(X))


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 0.0), (0.1, 1e-6), (5.0, 0.01), (3.5, 0.1), (0.5, 0.3)])
def test_the_guesses_of_the_statement_are_the_best_that_the_guarantee_allows(epsilon, delta):
    """Against the two laws that are furthest apart, which take four outcomes."""
    ledger = Ledger(Budget(epsilon, delta), charges=[Charge("x", "laplace", 1.0, epsilon, "L1", 1, "here")])
    said = guarantee(ledger, 100)
    # At delta > 0 the accountant may prove less of this noise than its pure epsilon.
    factor = math.exp(ledger.proved_epsilon)
    first = np.array([delta, (1 - delta) * factor / (1 + factor), (1 - delta) / (1 + factor), 0.0])
    assert (first - factor * first[::-1]).clip(0.0).sum() == pytest.approx(delta)
    guess = 0.5 * np.maximum(first, first[::-1]).sum()
    # The most powerful test at a false alarm of 5 %, by Neyman and Pearson: outcomes by falling likelihood ratio.
    alarms, power = 0.05, 0.0
    for p, q in zip(first, first[::-1], strict=True):
        share = 1.0 if q <= alarms else alarms / q
        power, alarms = power + share * p, alarms - share * q
        if share < 1.0:
            break
    for shown, least in ((said["guess"], guess), (said["power"], power)):
        assert -1e-9 <= float(shown.split()[0]) / 100 - least <= 1.01e-3
    assert bool(said["warning"]) == (delta >= 0.01)


@pytest.mark.parametrize("limit", [1.0, 0.02])
@pytest.mark.parametrize("k", [3, 12, 40])
def test_a_dash_marks_each_entry_that_is_visibly_negative_white_where_that_is_dark(k, limit):
    matrix = limit * np.random.default_rng(k).uniform(-1.0, 1.0, (k, k))
    matrix[0, 1], matrix[2, 0], matrix[1, 2] = np.nan, -0.05 * limit, -limit
    names, places = [f"column {j}" for j in range(k)], [*range(1, k + 1)]
    for signed in (True, False):
        shown = np.abs(matrix) if not signed else matrix
        shades, scale = heat_map(shown, names, places, signed, limit, "x").axes
        (image,) = shades.images
        np.testing.assert_array_equal(image.get_array().filled(np.nan), shown)
        assert image.get_clim() == (-limit if signed else 0.0, limit)
        assert scale.get_ylabel() == "x"
        marked = {(row, column): tuple(each.get_edgecolor()[0][:3]) for each in shades.collections
                  for column, row in each.get_offsets().astype(int).tolist()}
        dark, light = (1.0, 1.0, 1.0), (0.0, 0.0, 0.0)
        assert marked == {(i, j): dark if shown[i, j] < -0.6 * limit else light
                          for i in range(k) for j in range(k) if shown[i, j] < -0.06 * limit}
        assert bool(marked) == signed
        ticks = {at: each.get_text() for at, each in zip(shades.get_xticks().tolist(), shades.get_xticklabels(),
                                                         strict=True)}
        assert ticks == (dict(enumerate(names)) if k <= LABELLED else {9: "10", 19: "20", 29: "30", 39: "40"})
        assert [each.get_text() for each in shades.get_yticklabels()] == list(ticks.values())


def test_what_is_printed_is_never_less_than_what_is_proved():
    rng = np.random.default_rng(0)
    for value in 10.0 ** rng.uniform(-6, 6, 200):
        shown = float(upward(value).replace("−", "-").replace(",", ""))
        assert value <= shown <= value * (1.0 + 1.01e-3)
    assert plain("a\n\x00\u202eb\ud800c") == "a\ufffd\ufffd\ufffdb\ufffdc"


def test_marginals_and_associations_agree_with_plain_ones():
    schema, rng = mixed_schema(), np.random.default_rng(3)
    table = mixed_table()
    X = schema.to_cube(np.array([*table.values()], dtype=object).T)
    weights = rng.dirichlet(np.ones(N))
    values = values_of(schema, X)
    for column in values:
        found = marginal(column, weights)
        assert found.named.sum() + found.shares.sum() == pytest.approx(1.0)
    age = marginal(values[0], weights)
    assert age.mean == pytest.approx(weights @ table["age"], rel=1e-12)
    gain = marginal(values[2], weights)
    assert gain.named[0] == pytest.approx(weights[table["gain"] == 0.0].sum())
    found = associations(values, weights)
    assert found.ordered == [0, 2, 3, 4, 5, 6]
    assert found.all == [0, 2, 3, 4, 5, 6, 1]
    kept = table["gain"] != 0.0
    # In the columns' units numbers are rounded.
    inside = schema.decode(X)["gain"][kept]
    np.testing.assert_allclose(inside, np.minimum(table["gain"][kept], 50_000.0), rtol=2e-3)
    plain_correlation = np.cov(np.log1p(inside), table["age"][kept], aweights=weights[kept])
    expected = plain_correlation[0, 1] / math.sqrt(plain_correlation[0, 0] * plain_correlation[1, 1])
    assert found.correlation[1, 0] == pytest.approx(expected, rel=1e-6)
    codes = values[1].codes
    between = [weights[codes == c] @ table["age"][codes == c] / weights[codes == c].sum() for c in range(4)]
    spread = weights @ (np.array(between)[codes] - age.mean) ** 2
    assert found.strength[6, 0] == pytest.approx(math.sqrt(spread) / age.deviation, rel=1e-9)
    assert found.strength[6, 6] == pytest.approx(1.0)


def test_ordered_values_are_counted_upwards_and_correlations_keep_their_signs():
    """Numbers, ordinals, binary values and times against numpy, each pair on the rows that have both."""
    schema = Schema([Column("x", 0, 10), Column("grade", kind="ordinal", categories=("low", "middle", "high", "top"),
                                                   missing="keep"), Column("flag", 2, 5, "binary", missing="keep"),
                        Column("day", "2000-01-01", "2009-12-31", "datetime"),
                        Column("town", kind="categorical", categories=("a", "b", "c"))])
    rng = np.random.default_rng(11)
    n = 400
    x = rng.uniform(0.0, 10.0, n)
    grade = np.clip(np.floor(x / 3.0 + rng.normal(0.0, 0.7, n)), 0, 3).astype(int)
    flag = np.where(x + rng.normal(0.0, 3.0, n) > 5.0, 2, 5)
    day = np.datetime64("2000-01-01") + np.rint(3600.0 - 300.0 * x + rng.uniform(0.0, 30.0, n)).astype(int)
    town = np.where(rng.random(n) < 0.6, grade % 3, rng.integers(0, 3, n))
    no_grade, no_flag = rng.random((2, n)) < 0.2
    table = np.array([x, np.where(no_grade, None, np.array(schema.columns[1].categories, dtype=object)[grade]),
                      np.where(no_flag, None, flag.astype(object)), day.astype(object),
                      np.array(["a", "b", "c"], dtype=object)[town]], dtype=object).T
    values = values_of(schema, schema.to_cube(table))
    np.testing.assert_array_equal(values[1].numbers, np.where(no_grade, np.nan, grade))
    np.testing.assert_array_equal(values[2].numbers, np.where(no_flag, np.nan, flag == 5))
    weights = rng.dirichlet(np.ones(n))
    found = associations(values, weights)
    assert found.ordered == [0, 1, 2, 3]
    plain_numbers = np.column_stack([values[0].numbers, np.where(no_grade, np.nan, grade),
                                     np.where(no_flag, np.nan, flag == 5), values[3].numbers])
    for i, j in combinations(range(4), 2):
        both = np.isfinite(plain_numbers[:, [i, j]]).all(axis=1)
        moments = np.cov(plain_numbers[both, i], plain_numbers[both, j], aweights=weights[both])
        expected = moments[0, 1] / math.sqrt(moments[0, 0] * moments[1, 1])
        assert [found.correlation[i, j], found.correlation[j, i]] == pytest.approx([expected] * 2, rel=1e-9)
        assert found.strength[i, j] == pytest.approx(abs(expected), rel=1e-9)
    assert np.sign(found.correlation[0]).tolist() == [1.0, 1.0, -1.0, -1.0]
    # Of a number given a category, over the rows that have the number.
    for j in range(4):
        both = np.isfinite(plain_numbers[:, j])
        own, held, code = plain_numbers[both, j], weights[both] / weights[both].sum(), town[both]
        mean = held @ own
        spread = sum(held[code == c].sum() * (held[code == c] @ own[code == c] / held[code == c].sum() - mean) ** 2
                     for c in range(3))
        assert found.strength[4, j] == pytest.approx(math.sqrt(spread / (held @ (own - mean) ** 2)), rel=1e-9)


def outside_or_overlapping(figure):
    """The texts of a figure that leave it, and the marks of an axis that run into each other."""
    from matplotlib.text import Text

    renderer, faults, undrawn = figure.canvas.get_renderer(), [], set()
    figure.draw(renderer)
    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            low, high = sorted(axis.get_view_interval())
            ticks = [*axis.get_major_ticks(), *axis.get_minor_ticks()]
            drawn = [tick for tick in ticks if low <= tick.get_loc() <= high]
            undrawn |= {id(label) for tick in ticks if tick not in drawn for label in (tick.label1, tick.label2)}
            boxes = [label.get_window_extent(renderer) for tick in drawn for label in (tick.label1, tick.label2)
                     if label.get_visible() and label.get_text()]
            faults += [("overlap", axis.axis_name) for a, b in combinations(boxes, 2) if a.overlaps(b)]
    for text in figure.findobj(Text):
        if text.get_visible() and text.get_text() and id(text) not in undrawn:
            box = text.get_window_extent(renderer)
            if box.x0 < -0.5 or box.y0 < -0.5 or box.x1 > figure.bbox.x1 + 0.5 or box.y1 > figure.bbox.y1 + 0.5:
                faults.append(("outside", text.get_text()))
    return faults


WIDE = ["W" * 30, "\u6f22\u5b57" * 12, "short", "x" * 300]
AWKWARD = [Column("a", -1e-6, 1e-6), Column("a", 1, 1e12, transform="log"), Column("a", -123456.789, -123450.5),
           Column("a", 0, 1e300), Column("a", 1 - 1e-9, 1 + 1e-9), Column("a", -(10**12), 10**12, "integer"),
           Column("a", "0001-01-01", "9999-12-31", "datetime"),
           Column("a", "2020-01-01T00:00:00", "2020-01-04T00:00:00", "datetime")]


@pytest.mark.daily(2)
@pytest.mark.parametrize("column", AWKWARD, ids=[f"{column.bounds[1]:g}" for column in AWKWARD])
def test_every_mark_of_a_histogram_lies_in_the_figure_and_apart_from_the_others(column):
    edges = report_columns._edges(column)
    shares = np.full(len(edges) - 1, 1.0 / (len(edges) - 1))
    with styled():
        for share, truth in ((shares, shares), (1e-7 * shares, None)):
            figure = histogram(edges, share, truth, report_columns.ticks(column, edges))
            assert outside_or_overlapping(figure) == []
            assert len(figure.axes[0].get_xticklabels()) >= 2


@pytest.mark.daily("one")
@pytest.mark.parametrize("names", [WIDE[:1], [*WIDE, *WIDE]], ids=["one", "many"])
def test_every_name_lies_in_the_figure(names):
    share, matrix = np.full(len(names[:12]), 1.0 / len(names)), np.eye(len(names))
    numbers = range(1, len(names) + 1)
    with styled():
        for figure in (bars(names[:12], share, None), bars(names[:12], 1e-6 * share, share),
                       heat_map(matrix, names, numbers, True, 1e-3, "Association, synthetic minus true"),
                       heat_map(matrix, names, numbers, False, 1.0, "Association")):
            assert outside_or_overlapping(figure) == []


@pytest.mark.nightly
def test_errors_and_distances_are_labelled_within_the_figure_and_a_planted_name_outside_is_found():
    values = np.geomspace(1e-9, 1e3, 50)
    with styled():
        for figure in (scatter([values] * 3, [values] * 3, ["Gaussian kernels", "pair kernels", "second moments"],
                               "predicted bound, 95 %", "true absolute error"),
                       distributions([values, values], ["synthetic row to its nearest true record",
                                                        "true record to its nearest other one"], "distance")):
            assert outside_or_overlapping(figure) == []
        planted = bars(["a", "b"], np.array([0.5, 0.5]), None)
        planted.axes[0].set_yticks([0, 1], ["W" * 40, "b"])
        assert [fault for fault, _ in outside_or_overlapping(planted)] == ["outside"]


MEASURE = """<script>addEventListener("load", () => parent.postMessage([document.title, innerWidth,
document.documentElement.scrollWidth, document.querySelectorAll("img").length,
[...document.images].every(i => i.naturalWidth > 0)], "*"))</script>"""
COLLECT = """<!DOCTYPE html><body><ul id="found"></ul><script>addEventListener("message", event => {
const item = document.createElement("li"); item.textContent = JSON.stringify(event.data);
document.getElementById("found").append(item)})</script>"""


@pytest.mark.nightly
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is on PATH, which would lay the page out")
def test_no_page_scrolls_sideways_on_a_wide_or_a_narrow_screen(mixed, numbers, tmp_path):
    pages = {"against": report.write(mixed, tmp_path / "against.html", mixed_table()),
             "numbers": report.write(numbers, tmp_path / "numbers.html")}
    frames = []
    for name, path in pages.items():
        # The page forbids all scripts, so the copy that is measured goes without that line.
        text = re.sub(r"<meta http-equiv[^>]*>", "", path.read_text(encoding="utf-8"))
        faults = {"": ""} | ({"-wide": '<div style="width: 2000px">x</div>'} if name == "numbers" else {})
        for fault, element in faults.items():
            copy = re.sub(r"<title>.*?</title>", f"<title>{name}{fault}</title>", text)
            copy = copy.replace("</main>", f"{element}</main>{MEASURE}")
            (tmp_path / f"{name}{fault}-copy.html").write_text(copy, encoding="utf-8")
            frames += [f'<iframe src="{name}{fault}-copy.html" width="{width}" height="800"></iframe>'
                       for width in (1280, 375)]
    (tmp_path / "all.html").write_text(COLLECT + "".join(frames), encoding="utf-8")
    command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}",
               "--virtual-time-budget=20000", "--dump-dom", (tmp_path / "all.html").as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    found = [html.unescape(item) for item in re.findall(r"<li>(.*?)</li>", done.stdout)]
    assert len(found) == 2 * (len(pages) + 1), done.stderr[-2000:]
    for item in found:
        name, inside, scrolls, images, loaded = json.loads(item)
        assert inside in (1280, 375)
        assert images > 3
        assert loaded
        assert (scrolls > inside) == name.endswith("-wide"), item
