"""What the figures of a report show: each number at its place, by the name and in the shade of its own side."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
from matplotlib.colors import to_rgba

from trigmech.report import columns as report_columns
from trigmech.report import pairs, sections
from trigmech.report.dependences import Dependence
from trigmech.report.figures import (
    DARK,
    LABELLED,
    LIGHT,
    LONGEST_LABEL,
    bars,
    distributions,
    fitting,
    heat_map,
    histogram,
    mark,
    number,
    percent,
    plain,
    scatter,
    shortened,
    styled,
)
from trigmech.report.pair_figures import WRITTEN, Axis, boxes, cloud, shades
from trigmech.schema.column import Column
from trigmech.schema.encoding import transformed_bounds, untransformed

SHARES, TRUE = np.array([0.5, 0.3, 0.2]), np.array([0.1, 0.8, 0.1])
NOISE = np.array([0.5, 0.35, 0.15]), np.array([0.01, 0.02, 0.04])


@pytest.fixture(autouse=True)
def in_style():
    with styled():
        yield


def texts(labels):
    return [each.get_text() for each in labels]


def legend(axes):
    return texts(axes.get_legend().get_texts())


def ends_of_error_bars(axes):
    (bars_of,) = axes.containers[-1].lines[2]
    return np.array(bars_of.get_segments())


# Texts


@pytest.mark.parametrize(("length", "kept"), [(LONGEST_LABEL - 1, LONGEST_LABEL - 1), (LONGEST_LABEL, LONGEST_LABEL),
                                              (LONGEST_LABEL + 1, LONGEST_LABEL - 1)])
def test_a_label_is_cut_where_it_is_longer_than_allowed_and_then_says_so(length, kept):
    text = "abcdefghijklmnopqrstuvwxyz"[:length]
    assert shortened(text) == text[:kept] + "…" * (length > LONGEST_LABEL)


@pytest.mark.parametrize(("text", "shown"), [
    ("a\tb", "a\ufffdb"), ("a\u202eb", "a\ufffdb"), ("a\u00a0b", "a\u00a0b"), ("a\u200db", "a\u200db"),
    ("a\u200cb", "a\u200cb"), ("\ud800", "\ufffd"), ("a b", "a b"), (7, "7")])
def test_characters_that_could_break_a_page_are_replaced(text, shown):
    assert plain(text) == shown


@pytest.mark.parametrize(("value", "shown"), [
    (0.0, "0"), (0.5, "0.5"), (1e-4, "0.0001"), (9.99e-5, "9.99e−5"), (-9e-5, "−9e−5"), (999.4, "999"),
    (1000.0, "1,000"), (-1000.4, "−1,000"), (9_999_999.0, "9,999,999"), (1e7, "1e7"), (1.25e8, "1.25e8"),
    (999.6, "1,000"), (-999.96, "−1,000"), (-0.25, "−0.25"), (math.inf, "∞"), (-math.inf, "−∞"),
    (math.nan, "not defined")])
def test_numbers_are_written_for_people(value, shown):
    assert number(value) == shown


def test_a_number_that_rounds_up_to_more_digits_has_no_exponent():
    assert number(99_999.999, 5) == "100,000"
    assert number(99.7, 2) == "100"


def test_shares_are_written_in_percent():
    assert [percent(share) for share in (0.0, 0.1234, 1.0, -0.05)] == ["0 %", "12.3 %", "100 %", "−5 %"]


@pytest.mark.parametrize(("column", "coordinate", "shown"), [
    (Column("a", 0, 10), 0.5, "7.5"), (Column("a", 0, 10), -1.0, "0"),
    (Column("a", 1, 100, transform="log"), 0.0, "10"), (Column("a", 0, 99, transform="log1p"), 0.0, "9"),
    (Column("a", "2020-01-01", "2020-01-11", "datetime"), 0.0, "2020-01-06"),
    (Column("a", kind="ordinal", categories=("low", "mid", "high")), 1.0, "high"),
    (Column("a", kind="ordinal", categories=("low", "mid", "high")), 0.1, "mid")])
def test_a_coordinate_is_told_in_the_column_s_units(column, coordinate, shown):
    assert report_columns.from_cube(column, coordinate) == shown


def test_marks_of_a_transformed_axis_are_told_in_the_column_s_units():
    found = report_columns.ticks(Column("a", 1, 1e6, transform="log"), np.linspace(0.0, math.log(1e6), 5))
    assert [text for _, text in found] == ["10", "1000", "100,000"]
    np.testing.assert_allclose([at for at, _ in found], np.log([10.0, 1e3, 1e5]))


@pytest.mark.parametrize(("bounds", "transform", "shown"), [
    ((0, 1_000_000), "log1p", ["0", "10", "1000", "100,000"]), ((1, 50), "log", ["2", "10", "50"]),
    ((0.001, 0.5), "log", ["0.001", "0.01", "0.1"]), ((3, 3.5), "log", ["3", "3.5"]), ((0, 0.5), "log1p", ["0", "0.5"]),
    ((-10, 20_000), "log1p", ["−10", "0", "990"]), ((1, 1440), "log", ["1", "10", "100", "1000"])])
def test_marks_of_a_transformed_axis_are_round(bounds, transform, shown):
    column = Column("a", *bounds, transform=transform)
    found = report_columns.ticks(column, report_columns._edges(column))
    assert [text for _, text in found] == shown
    low, high = transformed_bounds(column)
    assert all(low <= at <= high for at, _ in found)
    np.testing.assert_allclose([float(text.replace("−", "-").replace(",", "")) for text in shown],
                               untransformed(column, np.array([at for at, _ in found])), atol=1e-9)


def test_marks_of_numbers_are_round_and_reach_both_ends():
    found = report_columns.ticks(Column("a", 0, 10), np.linspace(0.0, 10.0, 21))
    assert found == [(0.0, "0"), (2.5, "2.5"), (5.0, "5"), (7.5, "7.5"), (10.0, "10")]
    found = report_columns.ticks(Column("a", -0.3, 1.1), np.linspace(-0.3, 1.1, 21))
    assert [text for _, text in found] == ["0", "0.4", "0.8"]


@pytest.mark.parametrize(("bounds", "shown"), [
    (("2020-01-01T00:00:00", "2020-01-01T06:00:00"), ["01:00", "03:00", "05:00"]),
    (("2020-01-01T12:00", "2020-01-02T12:00"), ["2020-01-01 16:00", "2020-01-02 00:00", "2020-01-02 08:00"]),
    (("2020-01-01T00:00:01", "2020-12-30T00:00:01"), ["2020-03-01", "2020-07-01", "2020-10-30"]),
    (("2020-01-01", "2020-12-31"), ["2020-03-02", "2020-07-01", "2020-10-31"])])
def test_marks_of_times_have_as_much_of_them_as_the_axis_needs(bounds, shown):
    column = Column("a", *bounds, "datetime")
    assert [text for _, text in report_columns.ticks(column, np.linspace(*column.bounds, 5))] == shown


# One column


def test_a_histogram_draws_the_shares_of_both_sides_and_two_deviations_of_the_noise():
    edges = np.array([0.0, 1.0, 2.0, 3.0])
    figure = histogram(edges, SHARES, TRUE, [(0.5, "a" * 40), (2.0, "b")], NOISE)
    (axes,) = figure.axes
    found = {each.get_label(): each for each in axes.patches}
    for name, shares in (("synthetic", SHARES), ("true", TRUE)):
        np.testing.assert_allclose(found[name].get_data().values, 100.0 * shares)
        np.testing.assert_array_equal(found[name].get_data().edges, edges)
    assert found["true"].get_facecolor() == to_rgba(LIGHT)
    assert found["true"].get_hatch()
    assert not found["synthetic"].get_fill()
    assert sorted(legend(axes)) == ["synthetic", "true"]
    assert axes.get_xlim() == (0.0, 3.0)
    assert axes.get_ylim() == pytest.approx((0.0, 105.0 * 0.8))
    middle, up = 100.0 * NOISE[0], 200.0 * NOISE[1]
    np.testing.assert_allclose(ends_of_error_bars(axes), np.stack([
        np.column_stack([[0.5, 1.5, 2.5], middle - up]), np.column_stack([[0.5, 1.5, 2.5], middle + up])], axis=1))
    assert list(axes.get_xticks()) == [0.5, 2.0]
    assert texts(axes.get_xticklabels()) == ["a" * (LONGEST_LABEL - 1) + "…", "b"]
    alone = histogram(edges, SHARES, None, [(1.0, "1")]).axes[0]
    assert alone.patches[0].get_fill()
    assert alone.get_legend() is None
    assert alone.get_ylim() == pytest.approx((0.0, 105.0 * 0.5))
    # Released shares are as high as the axes too, and empty ones have axes.
    assert histogram(edges, SHARES, None, [], (np.full(3, 0.9), NOISE[1])).axes[0].get_ylim()[1] == pytest.approx(94.5)
    assert histogram(edges, 0.0 * SHARES, None, []).axes[0].get_ylim()[1] == pytest.approx(0.0105)


def test_bars_draw_the_shares_of_both_sides_from_the_top_down():
    axes = bars(["a", "b", "c"], SHARES, TRUE, NOISE).axes[0]
    own, true = (each for each in axes.containers[:2])
    assert (own.get_label(), true.get_label()) == ("synthetic", "true")
    for drawn, shares, away, colour in ((own, SHARES, -0.2, DARK), (true, TRUE, 0.2, LIGHT)):
        np.testing.assert_allclose([bar.get_width() for bar in drawn], 100.0 * shares)
        np.testing.assert_allclose([bar.get_y() + bar.get_height() / 2.0 for bar in drawn], np.arange(3) + away)
        assert all(bar.get_facecolor() == to_rgba(colour) for bar in drawn)
    middle, side = 100.0 * NOISE[0], 200.0 * NOISE[1]
    np.testing.assert_allclose(ends_of_error_bars(axes), np.stack([
        np.column_stack([middle - side, np.arange(3) - 0.2]), np.column_stack([middle + side, np.arange(3) - 0.2])],
        axis=1))
    assert (list(axes.get_yticks()), texts(axes.get_yticklabels())) == ([0, 1, 2], ["a", "b", "c"])
    assert axes.get_ylim() == (2.6, -0.6)
    assert axes.get_xlim()[0] == 0.0
    alone = bars(["a", "b", "c"], SHARES, None, NOISE).axes[0]
    np.testing.assert_allclose([bar.get_width() for bar in alone.patches], 100.0 * SHARES)
    assert set(ends_of_error_bars(alone)[:, :, 1].ravel()) == {0.0, 1.0, 2.0}
    assert alone.get_legend() is None


# Many columns, and rows


@pytest.mark.parametrize("signed", [True, False])
def test_a_heat_map_shades_each_entry_at_its_row_and_column(signed):
    matrix = np.arange(9.0).reshape(3, 3) / 10.0
    matrix[1, 2] = np.nan
    figure = heat_map(matrix, ["a", "b", "c"], [1, 2, 3], signed, 0.9, "Association")
    axes, scale = figure.axes
    (image,) = axes.images
    np.testing.assert_array_equal(np.ma.filled(image.get_array(), np.nan), matrix)
    assert image.get_clim() == (-0.9 if signed else 0.0, 0.9)
    assert image.get_cmap().name == ("RdBu" if signed else "Blues")
    assert image.get_cmap()(np.ma.masked_invalid([np.nan]))[0] == pytest.approx(to_rgba("0.85"))
    assert scale.get_ylabel() == "Association"
    assert texts(axes.get_xticklabels()) == texts(axes.get_yticklabels()) == ["a", "b", "c"]
    # The first row is above, the first column left.
    assert (axes.get_xlim(), axes.get_ylim()) == ((-0.5, 2.5), (2.5, -0.5))


@pytest.mark.parametrize("k", [LABELLED, LABELLED + 1])
def test_a_heat_map_has_names_up_to_a_limit_and_numbers_of_columns_beyond(k):
    names = [f"n{j}" for j in range(k)]
    axes = heat_map(np.eye(k), names, range(101, 101 + k), False, 1.0, "Association").axes[0]
    wanted = names if k == LABELLED else ["110", "120", "130"]
    assert texts(axes.get_xticklabels()) == texts(axes.get_yticklabels()) == wanted
    assert list(axes.get_xticks()) == (list(range(k)) if k == LABELLED else [9, 19, 29])


def test_a_scatter_draws_each_family_by_its_name_and_the_line_of_equals():
    x = [np.array([1e-3, 1e-2]), np.array([1e-1, 1.0]), np.array([0.0, 0.5])]
    y = [np.array([2e-3, 0.0]), np.array([2e-1, 2.0]), np.array([1e-2, 1e-3])]
    axes = scatter(x, y, ["one", "two", "three"], "predicted", "true error").axes[0]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("predicted", "true error")
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    # Values of 0, or as good as that, are drawn at the edge: a millionth and a ten-thousandth of the greatest.
    for drawn, label, across, up in zip(axes.collections, ["one", "two", "three"], x, y, strict=True):
        assert drawn.get_label() == label
        np.testing.assert_allclose(drawn.get_offsets(), np.column_stack([
            np.maximum(across, 1e-6), np.maximum(up, 2e-4)]))
    assert legend(axes) == ["one", "two", "three", "equal"]
    (line,) = axes.lines
    np.testing.assert_array_equal(line.get_xdata(), line.get_ydata())
    assert axes.get_xlim() == pytest.approx((1e-6 / 1.5, 1.5))
    assert axes.get_ylim() == pytest.approx((2e-4 / 1.5, 3.0))


def test_distributions_are_the_shares_of_the_rows_up_to_each_value():
    own, other = np.array([0.4, 0.1, 0.2, 0.3]), np.array([0.5, 1.0])
    axes = distributions([own, other], ["synthetic", "true"], "distance").axes[0]
    first, second = axes.lines
    for line, sample in ((first, own), (second, other)):
        np.testing.assert_allclose(line.get_xdata()[1:], np.sort(sample))
        np.testing.assert_allclose(line.get_ydata(), np.linspace(0.0, 1.0, len(sample) + 1))
    assert (first.get_linestyle(), second.get_linestyle()) == ("-", "--")
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("distance", "share of the rows")
    assert legend(axes) == ["synthetic", "true"]
    assert axes.get_xlim()[0] == 0.0
    assert axes.get_ylim() == (0.0, 1.0)


def test_a_name_is_cut_to_the_inches_that_it_may_have_and_the_widest_is_told():
    names, widest = fitting(["WWWWWWWWWWWWWWWWWWWW", "i"], 20, 1.0)
    assert names[0].endswith("…")
    assert 0.7 < widest <= 1.0
    # One letter more would not fit.
    longer, wide = fitting(["W" * len(names[0]) + "W"], len(names[0]) + 1, 9.0)
    assert longer[0] == "W" * (len(names[0]) + 1)
    assert wide > 1.0
    assert names[1] == "i"


def test_marks_that_would_overlap_are_left_out_and_those_at_the_ends_stay_inside():
    axes = histogram(np.array([0.0, 1.0, 2.0]), SHARES[:2], None, [(1.0, "1")]).axes[0]
    mark(axes, [(0.0, "a" * 8), (0.01, "b"), (1.0, "c"), (2.0, "d" * 12)])
    assert list(axes.get_xticks()) == [0.0, 1.0, 2.0]
    assert texts(axes.get_xticklabels()) == ["a" * 8, "c", "d" * 12]
    assert [each.get_horizontalalignment() for each in axes.get_xticklabels()] == ["center", "center", "right"]
    mark(axes, [(0.0, "a" * 24), (2.0, "d")])
    assert [each.get_horizontalalignment() for each in axes.get_xticklabels()] == ["left", "center"]


# Two columns


X, Y = Axis("across", (0.0, 2.0), [(0.0, "none"), (2.0, "all")]), Axis("up", (5.0, 9.0), [(5.0, "five"), (9.0, "nine")])
TITLES = ("synthetic", "true")


def names_beside(figure):
    """The texts across and up of each panel."""
    found = texts(figure.texts)
    return list(zip(found[::2], found[1::2], strict=True))


def test_a_cloud_draws_the_rows_of_each_side_below_its_title():
    sides = [(np.array([0.1, 1.2]), np.array([6.0, 8.0])), (np.array([0.3]), np.array([7.0]))]
    figure = cloud(sides, X, Y, TITLES)
    assert names_beside(figure) == [("across", "up")] * 2
    for axes, (across, up), title in zip(figure.axes, sides, TITLES, strict=True):
        np.testing.assert_allclose(axes.collections[0].get_offsets(), np.column_stack([across, up]))
        assert (axes.get_title(), axes.get_xlim(), axes.get_ylim()) == (title, X.ends, Y.ends)
        assert texts(axes.get_xticklabels()) == ["none", "all"]
        assert texts(axes.get_yticklabels()) == ["five", "nine"]
    # Of one side alone nothing needs to be told apart.
    assert [axes.get_title() for axes in cloud(sides[:1], X, Y, TITLES[:1]).axes] == [""]


def test_boxes_reach_over_the_quantiles_of_each_category():
    sides = [np.array([[0.1, 0.3, 0.6, 1.0, 1.5], [0.2, 0.4, 0.5, 0.7, 1.9]]),
             np.array([[0.0, 0.1, 0.2, 0.3, 0.4]] * 2)]
    figure = boxes(sides, X, ["first", "second"], "colour", TITLES)
    assert names_beside(figure) == [("across", "colour")] * 2
    for axes, quantiles in zip(figure.axes, sides, strict=True):
        whiskers, middles = axes.collections
        np.testing.assert_allclose([segment[:, 0] for segment in whiskers.get_segments()], quantiles[:, [0, 4]])
        np.testing.assert_allclose([segment[:, 1] for segment in whiskers.get_segments()], [[0, 0], [1, 1]])
        np.testing.assert_allclose([segment[0, 0] for segment in middles.get_segments()], quantiles[:, 2])
        np.testing.assert_allclose([(bar.get_x(), bar.get_x() + bar.get_width()) for bar in axes.patches],
                                   quantiles[:, [1, 3]])
        assert texts(axes.get_yticklabels()) == ["first", "second"]
        assert (axes.get_xlim(), axes.get_ylim()) == (X.ends, (1.6, -0.6))


def test_shades_of_a_table_are_of_one_scale_with_the_share_in_each_cell():
    sides = [np.array([[0.1, 0.9, 0.0], [0.5, 0.25, 0.25]]), np.array([[0.3, 0.3, 0.4], [np.nan] * 3])]
    figure = shades(sides, (["a", "b"], ["x", "y", "z"]), ("rows", "columns"), TITLES)
    assert names_beside(figure) == [("columns", "rows")] * 2
    for axes, table in zip(figure.axes, sides, strict=True):
        (image,) = axes.images
        np.testing.assert_array_equal(np.ma.filled(image.get_array(), np.nan), table)
        assert image.get_clim() == (0.0, 0.9)
        assert texts(axes.get_xticklabels()) == ["x", "y", "z"]
        assert texts(axes.get_yticklabels()) == ["a", "b"]
        written = {text.get_position(): (text.get_text(), text.get_color()) for text in axes.texts}
        assert written == {(j, i): (f"{100.0 * share:.0f}", "white" if share > 0.54 else "black")
                           for (i, j), share in np.ndenumerate(table)}


@pytest.mark.parametrize(("size", "written"), [(WRITTEN // 8, WRITTEN), (WRITTEN // 8 + 1, 0)])
def test_shares_are_written_into_so_many_cells_and_no_more(size, written):
    names = [str(i) for i in range(size)]
    figure = shades([np.full((size, 8), 0.1)], (names, names[:8]), ("rows", "columns"), TITLES[:1])
    assert len(figure.axes[0].texts) == written


# How many are drawn


class Kept:
    """In the place of a page's pictures: keeps what is drawn by its name."""

    def __init__(self):
        self.drawn = {}

    def add(self, name, alt, figure):
        self.drawn[name] = (alt, figure)
        return name


@pytest.mark.parametrize("k", [12, 13])
def test_up_to_twelve_categories_have_bars_and_beyond_the_rarest_are_together(monkeypatch, k):
    monkeypatch.setattr(sections, "bars", lambda *given: given)
    column = Column("a", kind="categorical", categories=tuple(f"c{j}" for j in range(k)))
    own, true = np.arange(1.0, k + 1.0)[::-1], np.ones(k)
    own[[0, 5]] = own[[5, 0]]
    own, true, noise = own / own.sum(), true / k, np.full(k, 0.01)
    none = np.empty(0)
    sides = [report_columns.ColumnShares(column, tuple(map(str, column.categories)), each, none, none, math.nan,
                                         math.nan) for each in (own, true)]
    noisy, kept = SimpleNamespace(named=own + 0.001, named_noise=noise), Kept()
    sections._column_picture("p", *sides, noisy, kept)
    alt, (labels, shares, other, released) = kept.drawn["p"]
    if k == 12:
        assert labels == tuple(f"c{j}" for j in range(12))
        np.testing.assert_array_equal(shares, own)
        np.testing.assert_array_equal(other, true)
        np.testing.assert_array_equal(released[0], own + 0.001)
    else:
        assert labels == (*(f"c{j}" for j in range(11)), "2 others")
        np.testing.assert_allclose(shares, [*own[:11], own[11:].sum()])
        np.testing.assert_allclose(other, [*true[:11], true[11:].sum()])
        np.testing.assert_allclose(released[0], [*(own[:11] + 0.001), own[11:].sum() + 0.002])
        np.testing.assert_allclose(released[1], [*noise[:11], math.sqrt(2.0) * 0.01])
    assert alt.startswith(f"Shares of a, synthetic: c5 {percent(own[5])}")


def test_nine_pairs_are_drawn_and_twenty_listed(monkeypatch):
    monkeypatch.setattr(pairs, "_cloud", lambda sides, first, second: ("", "", "", (first, second)))
    values = [SimpleNamespace(column=Column(f"x{j}", 0, 1)) for j in range(30)]
    found = [Dependence(j, j + 1, 0.9 - 0.01 * j, 0.5, (2, 2), 0.01) for j in range(21)]
    kept = Kept()
    said = pairs.pairs(SimpleNamespace(dependences=lambda: found), SimpleNamespace(values=values), None, kept)
    assert [figure for _, figure in kept.drawn.values()] == [(j, j + 1) for j in range(9)]
    assert len(said["table"].rows) == 20
    assert said["table"].links == [*(f"pair-{k}" for k in range(1, 10)), *[""] * 11]
    assert said["table"].caption == "The 20 pairs with the strongest released dependence"


@pytest.mark.parametrize("released", [None, (np.full(3, -1e3), np.full(3, 50.0)), (np.full(3, 1e3), np.full(3, 50.0))],
                         ids=["nothing released", "below 0", "above 1"])
@pytest.mark.parametrize("truth", [None, np.zeros(3)], ids=["alone", "beside the truth"])
def test_pictures_of_values_that_no_row_has_start_at_0_and_have_room(released, truth):
    figure = bars(("a", "b", "c"), np.zeros(3), truth, released)
    (axes,) = figure.axes
    least, most = axes.get_xlim()
    assert least == 0.0
    assert most > 0.0
    figure = histogram(np.linspace(0.0, 1.0, 4), np.zeros(3), truth, [(0.0, "0"), (1.0, "1")], released)
    least, most = figure.axes[0].get_ylim()
    assert least == 0.0
    assert most > 0.0


def test_distances_that_are_all_0_have_room():
    axes = distributions([np.zeros(5), np.zeros(4)], ["a", "b"], "distance").axes[0]
    assert axes.get_xlim()[0] == 0.0
    assert axes.get_xlim()[1] > 0.0
