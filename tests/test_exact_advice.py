"""Advice over epsilon, and parts of fits whose numbers few tests look at, by hand."""

import math
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import trigmech as tm
from trigmech import _memory
from trigmech._files import replacing
from trigmech.cli import demo, parts
from trigmech.domain import Domain
from trigmech.errors import InputError
from trigmech.evaluation import features, verdict
from trigmech.measurement.moments import FunctionSums
from trigmech.measurement.sums import Chunk, Total
from trigmech.reconstruction import marginals, mixing
from trigmech.report import advice, advised
from trigmech.report.figures import blank
from trigmech.schema import rounding
from trigmech.schema.toml import save
from trigmech.tables.parquet_files import paths_of


def step(epsilon, good=True, correlation=0.25, difference=0.5, pairs=("a and b",), errors=(0.1, 0.2)):
    light = "good" if good else "care"
    return SimpleNamespace(
        epsilon=epsilon, correlation=correlation, difference=difference,
        expected=SimpleNamespace(
            columns=[SimpleNamespace(name=name, error=error) for name, error in zip("ab", errors, strict=True)],
            pairs=[SimpleNamespace(name=name, error=0.3) for name in pairs],
            correlations=[SimpleNamespace(name=name, error=0.0625) for name in pairs],
            lights_of_columns=lambda: {"a": "good", "b": light}, lights_of_pairs=lambda: dict.fromkeys(pairs, light)),
        outlook=SimpleNamespace(
            columns=[SimpleNamespace(column="a", what="mean", error=2.0 / epsilon, unit="days")],
            together=[SimpleNamespace(column="", what="cell", error=None if epsilon < 1.0 else 3.0,
                                      unit="percentage points")]))


SCHEMA = tm.Schema([tm.Column("a", 0, 1), tm.Column("b", 0, 1)])
STEPS = [step(0.5, False), step(1.0, True), step(2.0, False), step(3.0), step(5.0)]


def test_a_light_is_good_from_the_epsilon_on_after_which_it_stays_so():
    assert advised._smallest(STEPS, "b", False) == advised._smallest(STEPS, "a and b", True) == 3.0
    assert advised._smallest(STEPS, "a", False) == 0.5
    assert advised._smallest(STEPS[:3], "b", False) is None


def test_the_first_sentences_say_from_where_all_is_good():
    smallest = {"a": 0.5, "b": 3.0, "a and b": None}
    said = advised._sentences(STEPS, SCHEMA, smallest)
    assert said[:2] == ("All columns are expected to be good from ε = 3 on.",
                        "0 of 1 pairs of columns are expected to be good at ε = 5; the others would need more.")
    assert said[2].startswith("These are the errors of a made-up table with your columns.")
    assert len(advised._sentences([step(1.0, pairs=())], SCHEMA, {"a": 1.0, "b": None})) == 2


def test_tables_of_advice_have_a_column_for_each_epsilon(monkeypatch):
    monkeypatch.setattr(advised, "_picture", lambda steps, limits: "picture")
    found = advised._parts(STEPS[1:3], SCHEMA, {"a": 1.0, "b": None, "a and b": 2.0}, {})
    assert [each.title for each in found] == ["Over epsilon", "Columns", "In their own units", "Pairs of columns",
                                              "The smallest effects that could be seen"]
    assert found[0].picture == "picture"
    assert found[1].table.head == ("Column", "Good from ε", "ε = 1", "ε = 2")
    assert found[1].table.rows == [["a", "1", "10 %", "10 %"], ["b", "above 2", "20 %", "20 %"]]
    assert found[2].table.rows == [["a, mean", "2 days", "1 days"], ["two columns, cell", "3 points", "3 points"]]
    assert found[3].table.rows == [["a and b", "2", "30 %; 0.062", "30 %; 0.062"]]
    assert found[4].table.rows == [["1", "0.25", "0.5"], ["2", "0.25", "0.5"]]
    assert len(advised._parts([step(1.0, pairs=(), correlation=math.nan)], SCHEMA, {"a": 1.0, "b": 1.0}, {})) == 3
    assert advised._amount(STEPS[0].outlook, 1) == advised._amount(STEPS[0].outlook, 2) == ""


def test_effects_that_cannot_be_seen_are_told_so():
    assert [advised._effect(value, 1.0) for value in (math.nan, 1.0, 1.001, 0.1234)] == ["", "1", "not at all", "0.12"]


@pytest.mark.parametrize("noise", [0.02, 0.3])
def test_what_noise_hides_is_turned_back_into_noise(noise):
    hidden = 0.35 * noise / math.hypot(noise, 0.35)
    assert advised._seen(hidden) == pytest.approx(noise, rel=1e-9)
    assert advised._seen(0.35) == advised._seen(0.4) == math.inf


@pytest.mark.nightly  # By day means over pairs fall, in test_lights.py.
def test_no_expected_error_of_a_pair_grows_with_epsilon():
    # A single draw of the noise gave 17, 20 and 9 % for one pair.
    schema = tm.Schema([tm.Column("a", kind="categorical", categories=("x", "y", "z")),
                        tm.Column("b", kind="categorical", categories=("x", "y")), tm.Column("c", 0, 12, "integer")])
    facts = tm.advise(schema, 1_200, epsilons=(0.1, 0.3, 0.5, 1.0)).facts["epsilons"]
    errors = np.array([[each["error"] for each in step["pairs"]] for step in facts])
    assert (errors[1:] < errors[:-1]).all()


def test_causes_of_several_draws_are_their_means_and_the_groups_are_those_of_all():
    def causes(value, above, groups):
        numbers = np.full((2, 4), value)
        return features.Causes(numbers, numbers + 1.0, numbers + 2.0, np.array([True, False]), [(0, 1)], numbers[:, 0],
                               np.array(above), np.array(groups), 0.25, numbers[:, 0] + 3.0)

    found = features.mean_causes([causes(1.0, [True, False], [5.0]), causes(2.0, [True, False], [6.0, 7.0]),
                                  causes(6.0, [False, True], [8.0])])
    np.testing.assert_array_equal(found.columns, np.full((2, 4), 3.0))
    np.testing.assert_array_equal(found.pairs, np.full((2, 4), 4.0))
    np.testing.assert_array_equal(found.correlations, np.full((2, 4), 5.0))
    np.testing.assert_array_equal((found.strengths, found.left), ([3.0, 3.0], [6.0, 6.0]))
    assert (found.above.tolist(), found.groups.tolist(), found.groups_chance) == ([True, False], [5, 6, 7, 8], 0.25)


@pytest.mark.parametrize(("columns", "draws"), [(2, 4), (12, 3), (16, 2), (40, 2)])
def test_advice_draws_noise_more_often_where_pairs_are_few(monkeypatch, columns, draws):
    class EnoughError(Exception):
        pass

    def see(first, schema, points, limits, others):
        # Each has a seed of its own.
        raise EnoughError(len({rng.random() for rng in (first, *others)}))

    monkeypatch.setattr(advised, "design", lambda *given: None)
    monkeypatch.setattr(advised, "rehearsed_release", lambda planned, points, rng: rng)
    monkeypatch.setattr(advised, "replace", lambda release, n: release)
    monkeypatch.setattr(advised, "forecast", see)
    with pytest.raises(EnoughError, match=f"^{draws}$"):
        advised._step(tm.Schema.cube(columns), 400, tm.Budget(2.0), None, np.zeros((1, columns)), {})


def test_the_smallest_effects_are_those_of_noise_and_of_the_sample(monkeypatch):
    expected = SimpleNamespace(correlations=[SimpleNamespace(hidden=0.35 * noise / math.hypot(noise, 0.35))
                                             for noise in (0.01, 0.03, 0.2)], group_noise=0.004)
    planned = SimpleNamespace(mechanism=SimpleNamespace(agenda=lambda planned: "agenda"))
    for name, value in {"design": planned, "rehearsed_release": None, "replace": None, "forecast": expected,
                        "outlook_of": "outlook"}.items():
        monkeypatch.setattr(advised, name, lambda *given, value=value, **named: value)
    found = advised._step(SCHEMA, 400, tm.Budget(2.0), None, np.zeros((1, 2)), {})
    # Two-sided at 5 %, in 80 of 100 cases.
    power = 1.959964 + 0.841621
    assert found.correlation == pytest.approx(power * math.hypot(0.03, 1.0 / 20.0), rel=1e-9)
    halves = math.sqrt(2.0) * math.hypot(0.008, math.sqrt(2.0 / 400.0))
    assert found.difference == pytest.approx(power * halves, rel=1e-9)
    assert (found.epsilon, found.expected, found.outlook) == (2.0, expected, "outlook")
    expected.correlations = []
    assert math.isnan(advised._step(SCHEMA, 400, tm.Budget(2.0), None, np.zeros((1, 2)), {}).correlation)


# Limits


def test_address_space_is_asked_for_as_it_was_measured():
    assert _memory.NEEDED == {"release": 2.8, "evaluate": 2.6, "demo": 1.8, "report": 0.95, "check": 1.0, "sample": 0.7,
                              "accept": 2.8, "ask": 2.8, "fit": 2.8}
    assert (_memory.IMPORT, _memory.LIKELY) == (0.45, 2.8)


def test_fresh_rows_excuse_an_error_of_one_and_a_half_times_theirs():
    assert verdict.FRESH_FACTOR == 1.5


# Files


def test_two_stars_in_a_pattern_stand_for_folders(tmp_path):
    (tmp_path / "x" / "y").mkdir(parents=True)
    for name in ("x/b.parquet", "x/y/a.parquet", "c.parquet", "c.csv"):
        (tmp_path / name).write_bytes(b"")
    assert paths_of(f"{tmp_path}/**/*.parquet") == [f"{tmp_path}/{name}" for name in ("c.parquet", "x/b.parquet",
                                                                                   "x/y/a.parquet")]
    assert paths_of(tmp_path / "c.csv") is None
    with pytest.raises(InputError, match="no file matches the pattern"):
        paths_of(f"{tmp_path}/*.txt")
    (tmp_path / "[1].csv").write_bytes(b"")
    assert paths_of(tmp_path / "[1].csv") is None


def test_a_part_is_measured_with_the_file_of_its_design_s_schema_alone(tmp_path):
    save(tmp_path / "s.toml", SCHEMA)
    with (tmp_path / "s.toml").open("a") as file:
        file.write('\n[file]\ndelimiter = ";"\n')
    assert parts._file_of(None, SimpleNamespace(schema=SCHEMA)) == {}
    assert parts._file_of(tmp_path / "s.toml", SimpleNamespace(schema=SCHEMA)) == {"delimiter": ";"}
    with pytest.raises(InputError, match="is not the design's schema"):
        parts._file_of(tmp_path / "s.toml", SimpleNamespace(schema=tm.Schema.cube(2)))
    assert parts._round(SimpleNamespace(history=None)) == 1
    assert parts._round(SimpleNamespace(history=SimpleNamespace(round=2))) == 3


# Numbers


@pytest.mark.parametrize(("upper", "digits", "values", "rounded"), [
    (10.0, 1, [1.24, 1.25, 1.2345, 1.23456, 9.99], [1.24, 1.25, 1.2345, 1.2, 9.99]),
    # So large that no digit behind the given ones can be told apart.
    (1e9, 0, [3.25, 7.5, 1e9], [3.0, 8.0, 1e9]), (1e9, 1, [3.25, 1e9], [3.2, 1e9]),
    (1e12, 0, [3.25, 7.5, 1e12], [3.0, 8.0, 1e12]),
    (1e-20, 22, [1.26e-21, 5e-21], [1.3e-21, 5e-21])])
def test_numbers_keep_up_to_three_more_digits_where_they_are_clear(upper, digits, values, rounded):
    column = tm.Column("x", 0, upper)
    found = rounding._to_digits(column, np.array(values), np.full(len(values), digits))
    np.testing.assert_allclose(found, rounded, rtol=1e-12)


# Fits


@pytest.mark.parametrize("dual", [[0.0, 0.0], [0.7, -0.4]])
def test_the_dual_of_smooth_columns_is_that_of_a_uniform_density_tilted(dual):
    nodes = marginals.NODES
    angles = (np.arange(nodes) + 0.5) * np.pi / nodes
    T = np.cos(np.outer([1, 2], angles))
    base = np.sin(angles) / np.sin(angles).sum()
    value, q = marginals._dual_value(np.array([dual]), T, np.log(base), np.array([[0.1, 0.2]]),
                                     np.array([[0.01, 0.04]]))
    tilted = base * np.exp(np.array(dual) @ T)
    np.testing.assert_allclose(q[0], tilted / tilted.sum(), rtol=1e-9)
    a, b = dual
    assert value[0] == pytest.approx(math.log(tilted.sum()) - 0.1 * a - 0.2 * b + 0.5 * (0.01 * a**2 + 0.04 * b**2))


def test_smooth_columns_of_little_noise_have_their_moments_after_few_steps(monkeypatch):
    wanted = np.array([[0.3, -0.2], [-0.4, -0.5]])
    monkeypatch.setattr(marginals, "_ITERATIONS", 6)
    found = marginals.SmoothMarginals.fit(wanted, np.full((2, 2), 1e-4))
    np.testing.assert_allclose(found.chebyshev_means(2), wanted, atol=1e-6)
    # Without moments the density is even.
    even = marginals.SmoothMarginals.fit(np.zeros((2, 1)), np.full((2, 1), 1e6))
    np.testing.assert_allclose(even.masses(0, np.array([-1.0, -0.5, 0.25, 1.0])), [0.25, 0.375, 0.375], atol=1e-5)


@pytest.mark.parametrize(("tables", "part"), [(1, 1.0), (4, 1_024 / 2_400), (8, 1_024 / 4_800)])
def test_rows_that_are_mixed_are_offered_in_part_if_there_are_many_tables(monkeypatch, tables, part):
    seen = []
    monkeypatch.setattr(mixing, "mix", lambda *given: seen.append(given[7]) or 1)
    made = object.__new__(mixing.Exchanges)
    made._offered, made._closest, made._sizes = SimpleNamespace(of=np.zeros(600 * tables)), [-1], None
    assert made.mix(np.zeros((5, 1)), None, None, np.random.default_rng(0)) == 2
    assert seen == [pytest.approx(part)] * 2


def test_a_table_of_text_has_it_in_its_tags():
    pytest.importorskip("sklearn")
    frame = pd.DataFrame({"a": [0.5, 0.25] * 20, "c": ["x", "y"] * 20})
    schema = tm.Schema([tm.Column("a", 0, 1), tm.Column("c", kind="categorical", categories=["x", "y"])])
    tags = tm.Synthesizer(schema=schema, epsilon=1.0).__sklearn_tags__().input_tags
    assert (tags.string, tags.allow_nan, len(frame)) == (True, tags.allow_nan, 40)


def test_lights_have_the_limits_that_their_reasons_name():
    found = {name: (each.good, each.care, each.best) for name, each in verdict.LIMITS.items()}
    assert found == {
        "columns_mean": (0.95, 0.9, 1.0), "column_worst": (0.9, 0.8, 1.0), "missing_worst": (0.98, 0.95, 1.0),
        "pairs_mean": (0.9, 0.8, 1.0), "pair_worst": (0.8, 0.6, 1.0), "correlations_mean": (0.05, 0.1, 0.0),
        "correlation_worst": (0.1, 0.3, 0.0), "groups_mean": (0.1, 0.2, 0.0), "groups_worst": (0.2, 0.5, 0.0),
        "regression_loss": (0.02, 0.13, 0.0), "detector": (0.7, 0.9, 0.5), "copies": (0.01, 0.05, 0.0)}
    for name in ("columns_mean", "pairs_mean", "missing_worst"):
        points = [round(100.0 * (1.0 - limit)) for limit in found[name][:2]]
        assert f"{points[0]} ({points[1]}) percentage points" in verdict.LIMITS[name].reason


def test_a_file_beside_is_hidden_and_goes_whatever_happens(tmp_path):
    path = tmp_path / "table.csv"
    with replacing(path) as beside:
        assert (beside.parent, beside.name.startswith(".table.csv."), beside.suffix) == (tmp_path, True, ".part")
        beside.write_text("new")
        assert not path.exists()
    assert [each.name for each in tmp_path.iterdir()] == ["table.csv"]

    def interrupted():
        with replacing(path) as beside:
            beside.write_text("newer")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert {each.name: each.read_text() for each in tmp_path.iterdir()} == {"table.csv": "new"}


def test_sums_may_reach_the_number_of_persons_and_no_more():
    asked = FunctionSums(tm.ChebyshevBasis.graded(1, 2))
    total = Total(asked.size)
    asked.add(Chunk(np.ones((3, 1)), Domain(1)), total)
    asked.check(total)
    assert asked.parted(total).basis_sum.tolist() == [3.0, 3.0]
    total.n = 2
    with pytest.raises(InputError, match="are larger than the number of persons"):
        asked.check(total)


def test_the_demo_s_bars_are_named(monkeypatch):
    figure = blank(6.0, 3.0)
    scatter, bars = figure.subplots(1, 2)
    errors = np.arange(1.0, 6.0)
    answers = SimpleNamespace(truth=np.zeros((70, 5)), answers=np.ones((70, 5)), worst_absolute=errors)
    demo._draw_answers(scatter, bars, SimpleNamespace(
        widths=(0.1, 0.2, 0.3, 0.4, 0.5), evaluation=answers, predicted=SimpleNamespace(worst=2.0 * errors),
        uniform=SimpleNamespace(worst_absolute=3.0 * errors)))
    assert [text.get_text() for text in bars.get_legend().get_texts()] == [
        "predicted bound, 95 %", "this release", "uniform cube, no data", "thesis, table 3.3"]
    assert [[bar.get_height() for bar in held] for held in bars.containers] == [
        errors.tolist(), (3.0 * errors).tolist(), list(demo.THESIS)]
    assert bars.lines[0].get_ydata().tolist() == (2.0 * errors).tolist()
    assert len(scatter.lines[0].get_xdata()) == 60


@pytest.mark.parametrize(("column", "told"), [
    (tm.Column("patient number", 1, 100, kind="integer"), True),
    (tm.Column("patient number", 1, 99, kind="integer"), False),
    (tm.Column("patient number", kind="integer", private_bounds=True), False),
    (tm.Column("patient number", 1, 100), False),
    (tm.Column("weight", 1, 100, kind="integer"), False)])
def test_whole_numbers_of_as_many_values_as_rows_look_like_identifiers(column, told):
    assert bool(advice._like_an_identifier(column, 100)) == told
