"""What is said of a release before it is paid for holds of it afterwards, and is said from public numbers alone."""

import itertools
import json
import math

import numpy as np
import pytest
from golden_cases import OwnFunctions

import trigmech as tm
from trigmech.errors import BudgetError, InputError
from trigmech.mechanisms import table as table_module
from trigmech.planning.design import MomentDesign
from trigmech.queries.joint import Marginal
from trigmech.reconstruction import columns
from trigmech.report.advice import clipping_of, warnings_of
from trigmech.report.preview import preview

N = 1_500
REGIONS = ("north", "south", "east", "west")
SCHEMA = tm.Schema([tm.Column("age", 0, 100, "integer"), tm.Column("income", 0, 200_000),
                    tm.Column("smokes", 0, 1, "binary"),
                    tm.Column("region", kind="categorical", categories=REGIONS)])
MOMENTS = tm.MomentMechanism()


def table():
    rng = np.random.default_rng(3)
    rows = np.empty((N, 4), dtype=object)
    rows[:, 0] = np.clip(rng.normal(45, 15, N), 0, 100).round()
    rows[:, 1] = np.clip(rng.lognormal(10.0, 0.6, N), 0.0, 2e5)
    rows[:, 2] = (rng.random(N) < 0.3).astype(int)
    rows[:, 3] = rng.choice(np.array(REGIONS, dtype=object), N, p=[0.4, 0.3, 0.2, 0.1])
    return rows


def statistics(columns):
    """The statistics that a preview speaks of, in its units."""
    return np.array([np.mean(columns["age"]), np.mean(columns["income"]), 100.0 * np.mean(columns["smokes"]),
                     *(100.0 * np.mean(columns["region"] == region) for region in REGIONS)])


@pytest.mark.nightly  # By day the noise is as large as the preview says, here.
@pytest.mark.parametrize("budget", [tm.Budget(1.0, 1e-5), pytest.param(tm.Budget(1.0), marks=pytest.mark.nightly)])
def test_errors_of_synthetic_tables_are_as_predicted(budget):
    """Root mean squares of 6 runs: within 0.45 and 1.4 of the prediction, for shrinking and fitting take some away."""
    rows = table()
    truth = statistics({"age": rows[:, 0].astype(float), "income": rows[:, 1].astype(float),
                        "smokes": rows[:, 2].astype(float), "region": rows[:, 3]})
    errors = []
    for seed in range(6):
        made = tm.synthesize(rows, SCHEMA, budget, MOMENTS, np.random.default_rng(seed))
        errors.append(statistics(made.columns(N, np.random.default_rng(seed))) - truth)
    measured = np.sqrt(np.square(errors).mean(axis=0))
    measured = np.append(measured[:3], np.sqrt(np.square(measured[3:]).mean()))
    expected = preview(N, SCHEMA, budget, mechanism=MOMENTS)
    assert [(each.column, each.unit) for each in expected.columns] == [
        ("age", ""), ("income", ""), ("smokes", "percentage points"), ("region", "percentage points")]
    ratio = measured / [each.error for each in expected.columns]
    assert (ratio > 0.45).all()
    assert (ratio < 1.4).all()
    # A prediction for twice the rows, or twice the budget, would not pass for this one.
    assert (measured / [each.error for each in preview(3 * N, SCHEMA, budget, mechanism=MOMENTS).columns]).mean() > 1.4


def test_the_noise_that_is_released_is_that_of_the_preview():
    expected = preview(N, SCHEMA, tm.Budget(1.0, 1e-5), mechanism=MOMENTS)
    made = tm.synthesize(table(), SCHEMA, tm.Budget(1.0, 1e-5), tm.MomentMechanism(points=64, iterations=1),
                         np.random.default_rng(1))
    np.testing.assert_array_equal(made.release.deviations, expected.design.scales)
    assert tuple(made.ledger.charges) == expected.charges
    assert made.ledger.proved_epsilon == expected.proved_epsilon


EVERYTHING = tm.Schema([
    tm.Column("weight", private_bounds=True), tm.Column("gain", 1.0, 1e4, transform="log", special=(0,)),
    tm.Column("loss", 0.0, 1e4, transform="log1p", missing="keep"),
    tm.Column("day", "2000-01-01", "2020-01-01", "datetime"),
    tm.Column("time", "2000-01-01T00:00:00", "2000-01-01T01:00:00", "datetime"),
    tm.Column("school", kind="ordinal", categories=["none", "some", "all"]),
    tm.Column("colour", kind="categorical", categories=["red", "green"]),
    tm.Column("shape", kind="categorical", categories=["round", "square", "long"])])


@pytest.mark.parametrize(("lower", "what"), [
    (0.0, "geometric mean of 1 + value"), (2.5, "geometric mean of 1 + value - 2.5"),
    (-3, "geometric mean of 1 + value + 3")])
def test_what_a_logarithm_is_taken_of_is_written_as_one_would_write_it(lower, what):
    expected = preview(100, tm.Schema([tm.Column("x", lower, 10.0, transform="log1p")]), tm.Budget(1.0, 1e-6))
    assert expected.columns[0].what == what


@pytest.mark.nightly
def test_every_kind_of_column_is_told_in_its_own_units():
    expected = preview(100_000, EVERYTHING, tm.Budget(1.0, 1e-6), mechanism=MOMENTS)
    said = {(each.column, each.what): each for each in expected.columns}
    units = {("weight", "mean"): "% of the range that the private step finds", ("gain", "geometric mean"): "%",
             ("gain", "share of a special or missing value"): "percentage points",
             ("loss", "geometric mean of 1 + value"): "%",
             ("loss", "share of a special or missing value"): "percentage points", ("day", "mean"): "days",
             ("time", "mean"): "seconds", ("school", "mean place among 3 categories"): "places",
             ("colour", "frequency of a category"): "percentage points",
             ("shape", "frequency of a category"): "percentage points"}
    assert {key: each.unit for key, each in said.items()} == units
    noise = said["weight", "mean"].error / 50.0
    assert said["gain", "geometric mean"].error == pytest.approx(100.0 * math.expm1(math.log(1e4) / 2.0 * noise))
    days = (np.datetime64("2020-01-01") - np.datetime64("2000-01-01")).astype(int)
    assert said["day", "mean"].error == pytest.approx(days / 2.0 * noise)
    assert said["time", "mean"].error == pytest.approx(3_600.0 / 2.0 * noise)
    assert said["school", "mean place among 3 categories"].error == pytest.approx(noise)
    assert [each.error > 0 for each in expected.together] == [True] * 3
    # The two histograms that find bounds are charged too.
    assert [charge.purpose for charge in expected.charges][:2] == ["bounds, coarse", "bounds, fine"]
    assert 0.9 < expected.proved_epsilon <= 1.0


def test_what_is_not_measured_is_said_to_be_not_measured():
    expected = preview(60, EVERYTHING, tm.Budget(0.05), mechanism=MOMENTS)
    assert "not measured" in str(expected)
    assert None in [each["error"] for each in expected.to_dict()["together"]]
    assert all(line.endswith("not measured") for line in str(expected).splitlines() if "not measured" in line)


def test_a_ledger_file_is_looked_at_and_left_alone(tmp_path):
    book = tm.LedgerFile.create(tmp_path / "book.json", tm.Budget(1.5, 1e-5))
    expected = preview(N, SCHEMA, tm.Budget(1.0, 1e-5), mechanism=MOMENTS, ledger=tmp_path / "book.json")
    assert expected.ledger["accepted"]
    assert "there is room for it" in str(expected)
    before = (tmp_path / "book.json").read_bytes()
    tm.synthesize(table(), SCHEMA, tm.Budget(1.0, 1e-5), tm.MomentMechanism(points=64, iterations=1), ledger=book)
    assert book.total == pytest.approx(expected.ledger["total_after"], rel=1e-9)
    assert before != (tmp_path / "book.json").read_bytes()
    for budget in (tm.Budget(1.4, 1e-5), tm.Budget(1.4, 0.0)):
        again = preview(N, SCHEMA, budget, ledger=book)
        assert not again.ledger["accepted"]
        assert "REFUSED" in str(again)
    # Gaussian noise proves nothing where the data set's delta is 0.
    pure = tm.LedgerFile.create(tmp_path / "pure.json", tm.Budget(5.0))
    assert preview(N, SCHEMA, tm.Budget(1.0, 1e-5), ledger=pure).to_dict()["ledger"]["total_after"] is None


def test_a_preview_prints_no_name_that_a_terminal_would_take_for_commands():
    lines = str(preview(N, tm.Schema([tm.Column("pay\nmonthly", 0, 1), tm.Column("b\x1b[2J", 0, 1)]),
                        tm.Budget(1.0, 1e-5))).splitlines()
    assert all(line.isprintable() for line in lines)
    assert sum(line.startswith(r"  pay\nmonthly  ") for line in lines) == 2


def test_a_preview_is_plain_data_and_draws_nothing(monkeypatch):
    monkeypatch.setattr("trigmech.privacy.noise.SystemNoise.gaussian", None)
    monkeypatch.setattr(MomentDesign, "head", "the plan")
    expected = preview(N, SCHEMA, tm.Budget(1.0, 1e-5), mechanism=MOMENTS)
    facts = json.loads(json.dumps(expected.to_dict()))
    assert facts["n"] == N
    assert facts["columns"][1]["column"] == "income"
    assert "the plan\n" in str(expected)
    assert "highest degree" in str(expected.design)
    assert "highest degree" not in str(expected)


@pytest.mark.parametrize(("arguments", "error"), [
    ((1, SCHEMA, tm.Budget(1.0)), InputError), ((2.5, SCHEMA, tm.Budget(1.0)), InputError),
    ((True, SCHEMA, tm.Budget(1.0)), InputError), ((N, "schema", tm.Budget(1.0)), InputError),
    ((N, SCHEMA, 1.0), BudgetError), ((N, SCHEMA, tm.Budget(1e-12)), BudgetError),
])
def test_input_that_breaks_a_rule_is_refused(arguments, error):
    with pytest.raises(error):
        preview(*arguments)


def one(column):
    return tm.Schema([column])


PLAIN = one(tm.Column("x", 0, 1))


def kept(*constraints):
    """A schema of two columns, one of which keeps missing values."""
    return tm.Schema([tm.Column("x", 0, 1, missing="keep"), tm.Column("y", 0, 1)], constraints=constraints)


@pytest.mark.parametrize(("n", "schema", "budget", "words"), [
    (1_000, PLAIN, tm.Budget(10.1, 1e-6), "epsilon = 10.1 is above 10"),
    (1_000, PLAIN, tm.Budget(10.000004, 1e-6), "epsilon = 10.0001 is above 10"),
    (49, PLAIN, tm.Budget(1.0, 1e-6), "49 rows are few"),
    (1_000, PLAIN, tm.Budget(1.0, 1e-3), "delta = 0.001 is not below 1 / 1000"),
    (1_000, tm.Schema.cube(30), tm.Budget(1.0), "delta is not given: with delta = 0.0001"),
    *((1_000, one(tm.Column(name, 0, 10)), tm.Budget(1.0, 1e-6), "looks like an identifier by its name")
      for name in ("ID", "patientId", "e-mail")),
    (1_000, one(tm.Column("customer number", 0, 999, "integer")), tm.Budget(1.0, 1e-6), "at least as many values"),
    (30, one(tm.Column("x", kind="categorical", categories=list(range(20)))), tm.Budget(1.0, 1e-6),
     "20 categories for 30 rows"),
    *((1_000, one(tm.Column(name, low, high)), tm.Budget(1.0, 1e-6), "leave out most of the range that such a name")
      for name, low, high in (("age", 0, 1), ("age_in_years", 120, 200), ("patientAge", -5, 5), ("hour", 30, 60))),
    *((1_000, one(tm.Column(name, low, high)), tm.Budget(1.0, 1e-6), "much wider than the range that such a name")
      for name, low, high in (("age", 0, 1_000), ("month", 0, 100))),
    *((1_000, kept(text), tm.Budget(1.0, 1e-6), "missing, so synthetic rows have no missing values")
      for text in ("x > 0.5", "y < x", "x > 0.5 and y < 0.5", "x != 0.5")),
])
def test_what_is_worth_a_second_thought_is_warned_of(n, schema, budget, words):
    found = warnings_of(n, schema, budget)
    assert [words in warning for warning in found].count(True) == 1
    assert words in str(preview(n, schema, budget).warnings)


@pytest.mark.parametrize(("n", "schema", "budget"), [
    (1_000, PLAIN, tm.Budget(10.0, 1e-6)), (50, PLAIN, tm.Budget(1.0)), (1_000, PLAIN, tm.Budget(1.0)),
    (1_000, SCHEMA, tm.Budget(1.0, 1e-6)), (100_000, EVERYTHING, tm.Budget(1.0, 1e-6)),
    *((1_000, kept(text), tm.Budget(1.0, 1e-6)) for text in (
        "x > 0.5 or x is missing", "not (x > 0.5)", "y > 0.5 implies x > 0.5", "y > 0.5", "x is not missing")),
    *((1_000, one(column), tm.Budget(1.0, 1e-6)) for column in (
        tm.Column("width", 0, 10), tm.Column("idle", 0, 1), tm.Column("paid", 0, 1, "binary"),
        tm.Column("number of rooms", 0, 20, "integer"), tm.Column("age", 18, 65), tm.Column("age", 0, 120),
        tm.Column("latitude", 45, 46), tm.Column("usage", 0, 1e6), tm.Column("age", kind="ordinal",
                                                                              categories=["young", "old"]))),
])
def test_what_is_usual_is_not_warned_of(n, schema, budget):
    assert warnings_of(n, schema, budget) == []


@pytest.mark.nightly  # By day test_exact_accounts.py.
def test_values_piled_at_a_bound_are_told_after_a_release_and_others_not():
    rng = np.random.default_rng(5)
    income = rng.lognormal(10.0, 0.6, 4_000)
    for upper, clipped in ((30_000, True), (200_000, False)):
        schema = tm.Schema([tm.Column("income", 0, upper), tm.Column("age", 0, 100, "integer"),
                            tm.Column("rooms", 0, 3, "integer")])
        rows = np.column_stack([income, np.clip(rng.normal(45, 15, 4_000), 0, 100).round(),
                                rng.integers(0, 4, 4_000)])
        made = tm.synthesize(rows, schema, tm.Budget(1.0, 1e-6),
                             tm.MomentMechanism(points=64, iterations=1), np.random.default_rng(0))
        found = clipping_of(made)
        assert len(found) == clipped
        assert all("column 'income'" in warning and "the upper bound 30000" in warning for warning in found)


# Every number of a preview against noise that is really drawn, and against its formula


THREE = tm.Schema([tm.Column("a", 0, 100), tm.Column("b", 0, 10), tm.Column("c", kind="categorical",
                                                                           categories=["x", "y", "z"]),
                   tm.Column("d", kind="categorical", categories=["u", "v"])])
RELEASES = 100


def evenly_spread(n=400):
    """Rows that spread evenly over their bounds, as a preview supposes of what it cannot know."""
    rng = np.random.default_rng(3)
    return np.array([rng.uniform(0, 100, n), rng.uniform(0, 10, n), rng.choice(list("xyz"), n),
                     rng.choice(list("uv"), n)], dtype=object).T


def drawn(mechanism, budget):
    """The noise in a few hundred releases: what was released, with what the table has instead of it.

    Without what takes most of the time and no error that is looked at depends on: smooth densities of columns, and
    which tables are measured in the last round.
    """
    rows = evenly_spread()
    design, encoded = tm.design(len(rows), THREE, budget, mechanism), THREE.to_cube(rows)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(columns, "_averaged", lambda *_: None)
        patch.setattr(table_module, "strengths_of", lambda release: (
            np.ones(len(release.tables)), np.full(len(release.tables), np.inf)))
        for seed in range(RELEASES):
            yield tm.measure(rows, THREE, design, rng=np.random.default_rng(seed)), encoded


def as_said(found, budget, mechanism):
    """Of what errors are as large as the preview says; the sample of them is within a fifth of its law's spread."""
    expected = preview(400, THREE, budget, mechanism=mechanism)
    said = {(each.column, each.what): each.error for each in (*expected.columns, *expected.together)}
    compared = {what: (np.sqrt(np.square(errors).mean(axis=0)).max(), said[what]) for what, errors in found.items()
                if said.get(what) is not None}
    assert {what: pytest.approx(said, rel=0.2) for what, (_, said) in compared.items()} == {
        what: measured for what, (measured, _) in compared.items()}
    return list(compared)


@pytest.mark.daily("gaussian")
@pytest.mark.parametrize("budget", [tm.Budget(2.0, 1e-5), tm.Budget(2.0)], ids=["gaussian", "pure"])
def test_the_noise_of_moments_is_as_large_as_the_preview_says(budget):
    found = {}
    for release, rows in drawn(MOMENTS, budget):
        x, y, c, d = rows[:, 0], rows[:, 1], rows[:, 2:5], rows[:, 5:]
        said = dict(zip(release.names, release.means.tolist(), strict=True))
        for what, factor, terms in (
                # Half the distance of its bounds is a coordinate's unit.
                (("a", "mean"), 50.0, {"a": x}), (("b", "mean"), 5.0, {"b": y}),
                (("c", "frequency of a category"), 100.0, {f"c={v}": c[:, i] for i, v in enumerate("xyz")}),
                # Both have the variance 1/3, so a correlation is three times their product's mean.
                (("", "correlation of two columns of numbers"), 3.0, {"a * b": x * y}),
                (("", "cell of a table of two columns of categories, at worst"), 100.0,
                 {f"c={v} * d={w}": c[:, i] * d[:, j] for i, v in enumerate("xyz") for j, w in enumerate("uv")}),
                # Of a tenth of the rows, in parts of the distance of the bounds, which is 2.
                (("", "mean of a number over the rows of a category that holds a tenth of all rows"), 100.0 / 0.1 / 2.0,
                 {f"a * c={v}": x * c[:, i] for i, v in enumerate("xyz")})):
            found.setdefault(what, []).append([factor * (said[name] - truth.mean()) for name, truth in terms.items()
                                               if name in said])
    assert len(as_said(found, budget, MOMENTS)) >= 5


@pytest.mark.daily("pure")
@pytest.mark.parametrize("budget", [tm.Budget(2.0, 1e-5), tm.Budget(2.0)], ids=["gaussian", "pure"])
def test_the_noise_of_columns_and_tables_is_as_large_as_the_preview_says(budget):
    found, mechanism = {}, tm.TableMechanism()
    for made, rows in drawn(mechanism, budget):
        release = made.release
        for name, half, look in zip("ab", (50.0, 5.0), release.looks, strict=False):
            edges = look.query.partition.edges
            codes = look.query.partition.codes(rows)
            true = np.bincount(codes, minlength=len(edges) - 1) / len(rows)
            apart, centres = look.means - true, 0.5 * (edges[1:] + edges[:-1])
            if look.query.without_ends is not look.query:
                # No row holds a bound, so the ends are not atoms, and what was measured there is not used.
                assert (true[[0, -1]] == 0.0).all()
                apart[[0, -1]] = 0.0
            found.setdefault((name, "mean"), []).append([half * (apart @ centres)])
            found.setdefault((name, "share of the rows below any value"), []).append(100.0 * np.cumsum(apart))
        for name, look, own in (("c", release.looks[2], rows[:, 2:5]), ("d", release.looks[3], rows[:, 5:])):
            found.setdefault((name, "frequency of a category"), []).append(
                100.0 * (look.means - own.mean(axis=0)))
        if release.directions is not None:
            asked = release.directions
            found.setdefault(("", "correlation of the ranks of two columns"), []).append(
                len(release.columns) * (asked.means - asked.query.means(rows)))
            continue
        chosen = release.products.query
        positions = [column.partition.codes(rows) for column in release.columns]
        truth = [chosen.features[j][positions[j], p] @ chosen.features[h][positions[h], q] / len(rows)
                 for j, h, p, q in chosen.factors.tolist()]
        apart = release.products.means - truth
        if chosen.contrasted:
            found.setdefault(("", "product of contrasts of the cells of two columns; all products determine "
                                  "the table"), []).append(100.0 * apart[:4])
        else:
            # Two columns with the same ranks have a product of first scores of 1/2, and a correlation of 1.
            first = chosen.factors.tolist().index([0, 1, 0, 0])
            found.setdefault(("", "correlation of the ranks of two columns of numbers"), []).append([
                2.0 * apart[first]])
    assert len(as_said(found, budget, mechanism)) >= 7


def test_the_noise_in_a_cell_of_a_table_is_that_of_the_best_weights():
    """By the cube roots of what a table needs, within the part of the charge that is for tables."""
    expected = preview(400, THREE, tm.Budget(2.0, 1e-5), mechanism=tm.TableMechanism())
    planned = tm.design(400, THREE, tm.Budget(2.0, 1e-5), tm.TableMechanism())
    design = expected.design
    charge = next(charge for charge in expected.charges if charge.purpose == "dependence")
    shape = {pair: own for each in planned.mechanism.agenda(planned).measurements if isinstance(each.query, Marginal)
             for pair, own in zip(each.query.columns, each.query.shape, strict=True)}
    cells = [shape[j] for j in range(len(shape))]
    needs = np.array([(a * b * (a + b)) ** (1 / 6) for a, b in itertools.combinations(cells, 2)])
    # A replaced row moves two entries of each table, and the squares of these moves add up to those of the tables.
    weights = needs * math.sqrt((1.0 - design.products) / 2.0 / (needs @ needs))
    error = {each.what: each.error for each in expected.together}["cell of a table of two columns, at worst"]
    assert error == pytest.approx(100.0 * charge.scale / weights.min(), rel=1e-12)


def test_what_a_ledger_would_hold_after_a_release_is_what_it_then_holds(tmp_path):
    book = tm.LedgerFile.create(tmp_path / "book.json", tm.Budget(3.0, 1e-4), reserve_delta=1e-5)
    book.charge("a" * 32, [tm.Charge("simulated", "gaussian", 0.01, 0.01, "L2", 1, "here")], True)
    book.charge("b" * 32, [tm.Charge("real", "gaussian", 0.02, 0.01, "L2", 1, "here")], False)
    book.add("other", tm.Budget(0.2), "a tool", neighbours="replace-one")
    expected = preview(N, SCHEMA, tm.Budget(0.5, 1e-5), mechanism=MOMENTS, ledger=book)
    assert expected.ledger["total"] == book.total
    book.charge("c" * 32, list(expected.charges), False)
    assert expected.ledger["total_after"] == book.total > expected.ledger["total"]


def test_functions_that_are_no_products_have_the_noise_of_their_kind():
    own = OwnFunctions(4)
    expected = preview(400, tm.Schema.cube(3), tm.Budget(1.0, 1e-6), mechanism=own)
    (said,) = [each for each in expected.together if each.what == "mean of a function of whole rows, at worst"]
    planned = tm.design(400, tm.Schema.cube(3), tm.Budget(1.0, 1e-6), own)
    assert said.error == planned.measured.rounds[0].deviations.max()
    assert expected.columns == ()
