"""The report, the preview and the notebook's tables of a release of columns and tables: what was measured and chosen,
columns beside what was released of them, and the pairs whose dependence is strongest."""

import json
import types
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest
from test_report import check, mixed_schema, mixed_table, outside_or_overlapping, pictures_of

import trigmech as tm
from paper_figures import plausible
from trigmech.functions.partition import all_codes
from trigmech.report import page as report
from trigmech.report import pairs
from trigmech.report import sections as report_sections
from trigmech.report.advice import clipping_of, coarseness_of
from trigmech.report.columns import marginal, values_of
from trigmech.report.dependences import Dependence
from trigmech.report.figures import bars, histogram, number, percent, styled
from trigmech.report.pair_figures import Axis, boxes, cloud, shades
from trigmech.report.preview import preview
from trigmech.report.tables import account_of

N = 4_000
SCHEMA = tm.Schema([tm.Column("age", 0, 99, "integer"), tm.Column("height", 0.0, 2.5),
                    tm.Column("noise", -1.0, 1.0, missing="keep"), tm.Column("smokes", 0, 1, "binary"),
                    tm.Column("school", kind="ordinal", categories=["none", "some", "all"]),
                    tm.Column("group", kind="categorical", categories=["child", "adult", "old"])])


# What the page says of errors is tested elsewhere, with as many plausible tables as ever.
pytestmark = pytest.mark.usefixtures("few_resamples")


@pytest.fixture(autouse=True)
def few_queries(monkeypatch):
    monkeypatch.setattr(report_sections, "MOST_QUERIES", 60)


def table():
    """Group follows age, height does until 20; noise and smokes are alone."""
    rng = np.random.default_rng(2)
    age = rng.integers(0, 100, N)
    noise = rng.uniform(-1.0, 1.0, N)
    noise[::5] = np.nan
    return {"age": age, "height": 0.5 + 1.2 * np.minimum(age, 20) / 20 + rng.normal(0.0, 0.05, N), "noise": noise,
            "smokes": rng.integers(0, 2, N), "school": np.array(["none", "some", "all"])[(age > 10) * 1 + (age > 20)],
            "group": np.array(["child", "adult", "old"])[(age > 17) * 1 + (age > 66)]}


def made_of(schema, columns, epsilon):
    rows = np.array([*columns.values()], dtype=object).T
    return tm.synthesize(rows, schema, tm.Budget(epsilon, 1e-6), tm.TableMechanism(), np.random.default_rng(0))


@pytest.fixture(scope="module")
def made():
    return made_of(SCHEMA, table(), 2.0)


@pytest.fixture(scope="module")
def hostile():
    return made_of(mixed_schema(), mixed_table(), 5.0)


@pytest.mark.nightly
@pytest.mark.usefixtures("unpainted")
def test_the_page_tells_each_round_what_was_chosen_and_the_strongest_pairs(made, tmp_path):
    page = check(report.write(made, tmp_path / "r.html").read_text(encoding="utf-8"))
    for words in ("What was measured, round by round", "first: intervals of 5 columns with an order",
                  "second: within", "third: cells of tables of 15 pairs of columns",
                  "of them twice",
                  "third: products of ranks of 10 pairs of them", "What was chosen for each column",
                  "last: cells of tables of",
                  "Thin black bars", "Pairs of columns", "Tables of 15 pairs", "pairs with the strongest",
                  "Noise in the columns, and differences", "columns, closer", "dependence",
                  "A light for each pair of columns"):
        assert words in page.text, words
    told = {attributes["alt"].partition(", synthetic: ")[0]: attributes["alt"] for attributes in page.all("img")}
    assert "rank correlation" in told["age and height"]
    assert "box plot, medians child" in told["age and group"]
    assert "table of shares, greatest" in told["school and group"]


# By day with the true table: that page has all that the other has.
@pytest.mark.nightly  # By day test_report.py has hostile names.
@pytest.mark.parametrize("against", [pytest.param(False, marks=pytest.mark.nightly), True])
def test_hostile_names_and_a_true_table_keep_the_page_in_order(hostile, tmp_path, against):
    text = report.write(hostile, tmp_path / "r.html", mixed_table() if against else None).read_text(encoding="utf-8")
    page = check(text)
    assert "<script" not in text + pictures_of(page)
    assert ("true ones" in page.text) == against
    assert ("synthetic rows beside true ones" in page.text) == against


def test_the_strongest_pairs_are_those_that_depend_most(made):
    found = account_of(made).dependences()
    names = SCHEMA.names
    strength = {frozenset((names[pair.first], names[pair.second])): pair for pair in found}
    assert len(found) == 15
    assert [pair.strength for pair in found] == sorted((pair.strength for pair in found), reverse=True)
    assert frozenset((names[found[0].first], names[found[0].second])) <= {"age", "group", "school", "height"}
    # Against the true total variation from independence, in the released cells.
    release, rows = made.release, SCHEMA.to_cube(np.array([*table().values()], dtype=object).T)
    codes = all_codes([column.partition for column in release.columns], rows)
    for pair in found:
        true = np.zeros(pair.shape)
        (query,) = (each.query for each in release.tables if each.query.columns == (pair.first, pair.second))
        cells = [own[codes[:, j]] for j, own in zip(query.columns, query.maps, strict=True)]
        np.add.at(true, tuple(cells), 1.0 / N)
        variation = np.abs(true - np.outer(true.sum(axis=1), true.sum(axis=0))).sum() / 2.0
        assert pair.strength == pytest.approx(variation, abs=3.0 * pair.uncertainty + 0.02)
    assert strength[frozenset(("age", "group"))].strength > 0.35
    assert strength[frozenset(("noise", "smokes"))].strength < 0.03


@pytest.mark.usefixtures("unpainted")
def test_a_strength_that_rounding_alone_leaves_is_no_dependence_that_was_found(tmp_path):
    rng = np.random.default_rng(0)
    schema = tm.Schema([tm.Column("a", 0, 1), tm.Column("b", 0, 1, "binary"), tm.Column("c", 0, 50, "integer")])
    listed = []
    for seed in range(4):
        columns = {"a": rng.uniform(0, 1, 1_000), "b": rng.integers(0, 2, 1_000), "c": rng.integers(0, 50, 1_000)}
        made = tm.synthesize(np.column_stack([*columns.values()]), schema, tm.Budget(1.0, 1e-6),
                             tm.TableMechanism(points=64), np.random.default_rng(seed))
        strengths = [pair.strength for pair in account_of(made).dependences()]
        # Less than a row of any table would be.
        assert all(strength == 0.0 or strength > 1e-6 for strength in strengths)
        page = check(report.write(made, tmp_path / "r.html").read_text(encoding="utf-8"))
        found = sum(strength > 0.0 for strength in strengths)
        listed.append(found)
        without = f"The tables of {3 - found} of the pairs show no dependence"
        assert (without in page.text) == (found < 3)
        assert (f"The {found} pairs with the strongest" in page.text) == (found > 0)
        assert len([each for each in page.all("figure") if each.get("id", "").startswith("pair-")]) == found
    # Tables of which pairs are and are not found are both among them.
    assert min(listed) < max(listed)


def test_what_was_released_of_a_column_is_that_of_the_table_with_its_noise(made):
    rows = SCHEMA.to_cube(np.array([*table().values()], dtype=object).T)
    true = [marginal(values, np.full(N, 1.0 / N)) for values in values_of(SCHEMA, rows)]
    synthetic = [marginal(values, made.distribution.weights) for values in values_of(SCHEMA, made.distribution.points)]
    errors = []
    for own, noisy in zip(true, account_of(made).columns(synthetic), strict=True):
        for shares, released, noise in ((own.named, noisy.named, noisy.named_noise),
                                        (own.shares, noisy.shares, noisy.shares_noise)):
            assert len(shares) == len(released) == len(noise)
            errors.append((released - shares) / noise)
    errors = np.concatenate(errors)
    assert 0.8 < np.sqrt(np.mean(errors**2)) < 1.2
    assert np.abs(errors).max() < 4.0
    assert clipping_of(made) == []


def test_a_single_column_has_no_pairs(tmp_path):
    single = made_of(tm.Schema([tm.Column("x", 0, 1)]), {"x": np.linspace(0.0, 1.0, 500)}, 1.0)
    page = check(report.write(single, tmp_path / "r.html").read_text(encoding="utf-8"))
    assert "Pairs of columns" not in page.text
    assert "does not have two columns" in page.text


# Pure noise is as large as the preview says by day, too, in test_preview.py.
@pytest.mark.nightly  # test_preview.py compares each number of a preview with noise that is drawn.
@pytest.mark.parametrize("delta", [1e-6, 0.0])
def test_the_preview_is_of_what_will_be_released(delta):
    budget = tm.Budget(2.0, delta)
    expected = preview(N, SCHEMA, budget, mechanism=tm.TableMechanism())
    said = {(each.column, each.what): each.error for each in expected.columns}
    own = table()
    errors = []
    for seed in range(6):
        rows = np.array([*own.values()], dtype=object).T
        again = tm.synthesize(rows, SCHEMA, budget, tm.TableMechanism(points=1_024), np.random.default_rng(seed))
        columns = again.columns(N, np.random.default_rng(seed))
        errors.append([np.mean(columns["age"]) - own["age"].mean(),
                       100.0 * (np.mean(columns["smokes"]) - own["smokes"].mean()),
                       100.0 * (np.mean(columns["age"] < 50) - np.mean(own["age"] < 50))])
        assert tuple(again.ledger.charges) == expected.charges
    measured = np.sqrt(np.square(errors).mean(axis=0))
    predicted = [said["age", "mean"], said["smokes", "share of 1"], said["age", "share of the rows below any value"]]
    # Ends of intervals are known to lie within the bounds, and shares to be at least 0, which takes some noise away.
    assert (measured < 2.0 * np.array(predicted)).all()
    assert (measured > 0.1 * np.array(predicted)).all()
    facts = json.loads(json.dumps(expected.to_dict()))
    assert facts["moments"] > 100
    assert facts["predicted"] == {}
    assert "then: tables of 15 pairs" in str(expected)
    for thing in (expected, expected.design, tm.design(N, SCHEMA, budget, tm.TableMechanism())):
        text = "".join(ElementTree.fromstring(f"<div>{thing._repr_html_()}</div>").itertext())
        assert "noise" in text.lower()


def test_a_preview_of_a_mechanism_of_the_thesis_is_refused():
    with pytest.raises(tm.InputError, match="TrigI does not tell its noise before a release"):
        preview(N, tm.Schema.cube(2), tm.Budget(1.0), mechanism=tm.TrigI(degree=2, grid=4))


def test_noise_that_leaves_little_to_see_is_warned_of_and_other_noise_is_not():
    many = tm.Schema([tm.Column("town", kind="categorical", categories=[str(i) for i in range(200)]),
                      tm.Column("height", 0.0, 2.5)])
    for n, expected in ((300, ["'town' has 200 categories", "'height' will have", "tables of two columns is above"]),
                        (200_000, [])):
        design = tm.design(n, many, tm.Budget(0.5, 1e-7), tm.TableMechanism())
        found = coarseness_of(design, many)
        assert len(found) == len(expected)
        assert all(words in sentence for words, sentence in zip(expected, found, strict=True))
        assert preview(n, many, tm.Budget(0.5, 1e-7), mechanism=tm.TableMechanism()).warnings[-len(found) or 99:] == (
            *found,)
    assert coarseness_of(tm.design(300, many, tm.Budget(0.5, 1e-7), tm.MomentMechanism()), many) == []


def test_every_mark_and_name_of_a_pair_lies_in_its_figure():
    names = ["W" * 30, "漢字" * 12, "short", "x" * 300]
    ticks = [(0.1, "-123,456,789"), (0.5, "5"), (0.9, "123,456,789")]
    x, y = Axis("W" * 60, (0.0, 1.0), ticks), Axis("y", (0.0, 1.0), ticks)
    points, steps = np.linspace(0.0, 1.0, 50), np.linspace(0.1, 0.9, 5) * np.ones((4, 1))
    with styled():
        for titles in (("synthetic",), ("synthetic", "true")):
            k = len(titles)
            for figure in (cloud([(points, points)] * k, x, y, titles), boxes([steps] * k, x, names, "W" * 60, titles),
                           shades([np.eye(4)] * k, (names, names), ("x", "W" * 60), titles)):
                assert outside_or_overlapping(figure) == []
        noise = np.full(3, 0.5), np.full(3, 0.2)
        for figure in (histogram(np.arange(4.0), np.full(3, 0.1), None, [(1.0, "1")], noise),
                       bars(names[:3], np.full(3, 0.1), np.full(3, 0.2), noise)):
            assert outside_or_overlapping(figure) == []


@pytest.fixture
def two_sides(monkeypatch):
    """Two sides, of weighted rows; what would be drawn of a pair of their columns is returned in place of a figure."""
    schema = tm.Schema([tm.Column("place", kind="categorical", categories=("north", "south", "west")),
                        tm.Column("way", kind="categorical", categories=("bus", "car")), tm.Column("age", 0.0, 100.0),
                        tm.Column("pay", 0.0, 10.0)])
    rng, sides = np.random.default_rng(4), []
    for n in (300, 200):
        place, age = rng.integers(3, size=n), rng.uniform(0.0, 100.0, n)
        way = (rng.random(n) < np.array([0.2, 0.5, 0.9])[place]).astype(int)
        table = np.array([np.array(schema.columns[0].categories)[place], np.array(["bus", "car"])[way],
                          age, age / 20.0 + rng.uniform(0.0, 5.0, n)], dtype=object).T
        weights = rng.exponential(size=n)
        sides.append(report_sections.PageRows.of(schema, schema.to_cube(table), weights / weights.sum()))
    for name in ("boxes", "shades", "cloud"):
        monkeypatch.setattr(pairs, name, lambda *given: given)
    return sides


def test_a_table_of_a_pair_has_the_shares_of_each_row(two_sides):
    for first, second in ((0, 1), (1, 0)):
        _, note, alt, (found, names, columns, titles) = pairs._shades(two_sides, first, second)
        assert (note, columns) == ("", tuple(("place", "way")[j] for j in (first, second)))
        assert titles == ("synthetic", "true")
        for side, table in zip(two_sides, found, strict=True):
            a, b = (side.values[j] for j in (first, second))
            assert names == ([*a.labels], [*b.labels])
            wanted = [[side.weights[(a.codes == i) & (b.codes == k)].sum() / side.weights[a.codes == i].sum()
                       for k in range(len(b.labels))] for i in range(len(a.labels))]
            np.testing.assert_allclose(table, wanted, rtol=1e-12)
        i, k = np.unravel_index(np.argmax(found[0]), found[0].shape)
        assert alt.startswith(f"table of shares, greatest {percent(found[0][i, k])} {names[1][k]} of {names[0][i]}, ")


def test_boxes_of_a_pair_are_of_the_numbers_of_each_category(two_sides):
    _, note, alt, (found, axis, names, name, titles) = pairs._boxes(two_sides, 2, 0)
    assert (note, axis.name, name, titles) == ("", "age", "place", ("synthetic", "true"))
    assert names == [*two_sides[0].values[0].labels]
    for side, boxes_of in zip(two_sides, found, strict=True):
        for code, box in enumerate(boxes_of):
            held = side.values[0].codes == code
            numbers, weights = side.values[2].numbers[held], side.weights[held]
            for share, value in zip((0.05, 0.25, 0.5, 0.75, 0.95), box, strict=True):
                # At most so much below the quantile, and at least so much up to it.
                below, up_to = weights[numbers < value].sum(), weights[numbers <= value].sum()
                assert below < share * weights.sum() <= up_to * (1.0 + 1e-12)
    shown = [float(each.rpartition(" ")[2]) for each in alt.removeprefix("box plot, medians ").split(", ")]
    assert shown == pytest.approx([box[2] for box in found[0]], rel=5e-3)


def test_points_of_a_pair_are_rows_of_the_side_that_they_are_said_to_be_of(two_sides):
    _, note, _, (points, x, y, titles) = pairs._cloud(two_sides, 2, 3)
    assert (note, x.name, y.name, titles) == ("", "age", "pay", ("synthetic", "true"))
    for side, drawn in zip(two_sides, points, strict=True):
        rows = {*zip(side.values[2].numbers.tolist(), side.values[3].numbers.tolist(), strict=True)}
        assert len(drawn[0]) > 100
        assert {*zip(*(values.tolist() for values in drawn), strict=True)} <= rows


@pytest.mark.parametrize("lacking", [2, 3])
def test_rows_without_a_number_in_either_column_are_not_drawn_and_counted(two_sides, lacking):
    sides = []
    for side in two_sides:
        numbers = side.values[lacking].numbers.copy()
        numbers[::4] = np.nan
        values = list(side.values)
        values[lacking] = replace(values[lacking], numbers=numbers)
        sides.append(replace(side, values=values))
    _, note, alt, (points, *_) = pairs._cloud(sides, 2, 3)
    for side, drawn in zip(sides, points, strict=True):
        assert np.isfinite(drawn).all()
        assert len(drawn[0]) < len(side.values[2].numbers)
    assert note.startswith("Not drawn: ")
    assert f"scatter plot of {len(points[0][0]):,} rows, rank correlation" in alt
    assert "nan" not in alt


def test_pairs_are_drawn_of_the_synthetic_rows_first_and_then_of_the_true_ones(two_sides):
    found = [Dependence(0, 1, 0.5, 0.4, (3, 2), 0.01), Dependence(2, 3, 0.2, 0.3, (4, 5), 0.02),
             Dependence(0, 2, 0.0, 0.1, (3, 4), 0.03)]
    account, drawn = types.SimpleNamespace(dependences=lambda: found), []
    pictures = types.SimpleNamespace(add=lambda name, alt, figure: drawn.append((name, figure)) or name)
    said = pairs.pairs(account, *two_sides, pictures)
    assert [name for name, _ in drawn] == ["pair-place-and-way", "pair-age-and-pay"]
    (tables, *_, titles), (points, *_) = (figure for _, figure in drawn)
    assert titles == ("synthetic", "true")
    for side, table, rows in zip(two_sides, tables, points, strict=True):
        own = side.values[0].codes == 0
        assert table[0, 0] == pytest.approx(side.weights[own & (side.values[1].codes == 0)].sum()
                                            / side.weights[own].sum())
        assert set(rows[0].tolist()) <= set(side.values[2].numbers.tolist())
    assert (said["known"], said["absent"], said["above"]) == (3, 1, sum(
        pair.strength > pair.uncertainty for pair in found))
    assert said["table"].rows == [
        ["place and way", "0.5", number(found[0].uncertainty), "0.4", "3 × 2", "1 %"],
        ["age and pay", "0.2", number(found[1].uncertainty), "0.3", "4 × 5", "2 %"]]


@pytest.mark.nightly  # By day rows are drawn so on the page, above.
def test_real_and_synthetic_rows_are_drawn_beside_each_other(tmp_path):
    wdbc = [shown for shown in plausible.SHOWN if shown.name == "WDBC"]
    assert plausible.draw((*wdbc,), tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")
