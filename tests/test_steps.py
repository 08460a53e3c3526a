"""The steps alone: what a design says, what is measured by it, and what is made of that; mechanisms of one's own."""

import dataclasses
import math
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest
from releases import blocks

import trigmech as tm
from trigmech.errors import BudgetError, InputError, PaidError
from trigmech.functions import contrasts, prefix_sums
from trigmech.measurement.moments import measure as sums_of
from trigmech.mechanisms.base import check_functions_of_own
from trigmech.queries.one_way import Contrasts, PrefixSums
from trigmech.tables.csv_text import CsvText
from trigmech.tables.reader import TableFile

BUDGETS = [tm.Budget(1.0), tm.Budget(1.0, 1e-6)]
SCHEMA = tm.Schema([tm.Column("age", 0, 120, kind="integer"), tm.Column("gain", 0, 9, special=(0,)),
                    tm.Column("work", kind="categorical", categories=("none", "full"))])
FEW = tm.MomentMechanism(points=32, iterations=2)
each_budget = pytest.mark.parametrize("budget", BUDGETS, ids=["pure", "approximate"])


def people(n=300, seed=1):
    rng = np.random.default_rng(seed)
    return pd.DataFrame({"age": rng.integers(18, 90, n), "gain": rng.choice([0.0, 2.0, 8.0], n),
                         "work": rng.choice(["none", "full"], n)})


def rng(seed=3):
    return np.random.default_rng(seed)


@pytest.mark.daily("pure")
@each_budget
def test_the_steps_together_are_what_synthesize_does(budget):
    made = tm.synthesize(people(), SCHEMA, budget, FEW, rng())
    design = tm.design(300, SCHEMA, budget, FEW)
    moments = tm.measure(people(), SCHEMA, design, rng())
    np.testing.assert_array_equal(moments.means, made.release.means)
    assert moments.ledger.charges == made.ledger.charges == list(design.charges)
    again = tm.reconstruct(moments, rng())
    assert (again.rows, again.library) == (made.rows, "pandas")
    table = tm.generate(moments, 40, rng())
    assert list(table.columns) == ["age", "gain", "work"]
    assert len(table) == 40
    assert set(table["work"]) <= {"none", "full"}


@each_budget
def test_a_design_holds_public_facts_and_says_what_it_costs(budget):
    design = tm.design(300, SCHEMA, budget)
    assert (design.n, design.budget, design.bounds) == (300, budget, ())
    assert design.rounds == (design.charges,)
    assert "300 rows" in str(design)
    assert all(charge.purpose in str(design) for charge in design.charges)
    ledger = tm.Ledger(budget)
    ledger.charge(*design.charges)
    assert 0.99 * budget.epsilon < ledger.proved_epsilon <= budget.epsilon


@pytest.mark.daily("pure")
@each_budget
def test_private_bounds_are_rounds_of_their_own_within_the_budget(budget, tmp_path):
    schema = tm.Schema([tm.Column("age", private_bounds=True), tm.Column("gain", 0, 9)])
    design = tm.design(300, schema, budget, FEW)
    assert [len(charges) for charges in design.rounds] == [1, 1, len(design.charges)]
    book = tm.LedgerFile.create(tmp_path / "ledger.json", tm.Budget(2.0, 1e-5))
    moments = tm.measure(people()[["age", "gain"]], schema, design, ledger=book)
    assert moments.schema.private_bounds == ()
    assert [entry.charge for entry in book.entries] == [*design.bounds, *design.charges]
    assert moments.ledger.proved_epsilon <= budget.epsilon


def test_moments_have_names_kinds_and_a_frame_of_the_table_s_library():
    moments = tm.measure(people(), SCHEMA, tm.design(300, SCHEMA, BUDGETS[1], FEW), rng())
    frame = moments.to_frame()
    assert isinstance(frame, pd.DataFrame)
    assert list(frame["name"]) == moments.names
    assert len(set(moments.names)) == len(moments.names)
    assert {"age", "gain=0", "work=full", "age * gain"} <= set(moments.names)
    assert set(frame["kind"]) >= {"column", "pair", "frequency", "two-way table", "number by category"}
    # Each is the mean of what its name says, but for its noise.
    table = people()
    truth = {"work=full": (table["work"] == "full").mean(), "gain=0": (table["gain"] == 0).mean(),
             "age": (table["age"] / 60.0 - 1.0).mean()}
    for name, mean in truth.items():
        row = frame[frame["name"] == name].iloc[0]
        assert abs(row["mean"] - mean) < 6.0 * row["deviation"]
    assert type(moments.to_frame("polars")).__name__ == "DataFrame"


def test_moments_are_saved_and_made_a_table_of_later(tmp_path):
    moments = tm.measure(people(), SCHEMA, tm.design(300, SCHEMA, BUDGETS[1], FEW), rng())
    moments.save(tmp_path / "moments.tm")
    again = tm.NoisyMoments.load(tmp_path / "moments.tm")
    np.testing.assert_array_equal(again.means, moments.means)
    pd.testing.assert_frame_equal(tm.generate(again, 20, rng(), mechanism=FEW), tm.generate(moments, 20, rng()))


@pytest.mark.parametrize("mechanism", [FEW, tm.TableMechanism(points=40)])
def test_a_file_has_the_options_that_make_points_and_without_them_none_are_made_up_without_a_word(
        mechanism, tmp_path, recwarn):
    moments = tm.measure(people(), SCHEMA, tm.design(300, SCHEMA, BUDGETS[1], mechanism), rng())
    made = tm.reconstruct(moments, rng())
    assert len(made.distribution.points) == mechanism.points
    moments.save(tmp_path / "moments.tm")
    again = tm.NoisyMoments.load(tmp_path / "moments.tm")
    for given in (tm.reconstruct(again, rng()), tm.reconstruct(again, rng(), mechanism=mechanism)):
        assert given.distribution.points.tobytes() == made.distribution.points.tobytes()
    other = tm.reconstruct(again, rng(), mechanism=dataclasses.replace(mechanism, points=24))
    assert len(other.distribution.points) == 24
    assert not [each for each in recwarn if "options" in str(each.message)]
    # Of a file of another version.
    again = dataclasses.replace(again, mechanism=None)
    for call in (tm.reconstruct, lambda moments, rng: tm.generate(moments, 5, rng)):
        words = f"default options of {type(mechanism).__name__} make the points"
        with pytest.warns(UserWarning, match=words) as caught:
            call(again, rng())
        # It points to who called, once.
        assert [each.filename for each in caught if "options" in str(each.message)] == [__file__]


@each_budget
def test_the_noise_of_a_column_is_correlated_as_the_guide_says(budget):
    made = tm.measure(people(), SCHEMA, tm.design(300, SCHEMA, budget, tm.TableMechanism()), rng())
    for look in made.release.looks:
        k, c = len(look.query.partition.indicators), look.query.partition.intervals
        decode = np.eye(k + c)
        if isinstance(look.query, Contrasts):
            decode = contrasts.decoding(k + c)
        elif isinstance(look.query, PrefixSums) and c:
            ranged = look.query.ranged
            decode[ranged, ranged] = prefix_sums.inverse(ranged.stop - ranged.start)
        covariance = look.deviation**2 * decode @ decode.T
        np.testing.assert_allclose(look.covariance, covariance, rtol=1e-12, atol=1e-15)
        np.testing.assert_allclose(np.diag(covariance) ** 0.5, look.deviations, rtol=1e-12)
        # What is measured is decoded by this very matrix.
        moved = dataclasses.replace(look, values=look.known + np.arange(len(look.known)))
        np.testing.assert_allclose(moved.means - look.means, decode @ np.arange(len(look.known)), atol=1e-9)
        if isinstance(look.query, PrefixSums) and c > 20:
            assert covariance[k + 15, k + 16] / covariance[k + 15, k + 15] == pytest.approx(-1.0 / 3.0, abs=0.01)


THESIS = [tm.TrigI(degree=2, grid=4), tm.ImprovedTrigII(n_candidates=50)]


@pytest.mark.parametrize("mechanism", THESIS)
def test_the_thesis_s_mechanisms_walk_the_same_steps(mechanism, tmp_path):
    X, schema = np.random.default_rng(2).uniform(-1, 1, (60, 2)), tm.Schema.cube(2)
    moments = tm.measure(X, schema, tm.design(60, schema, BUDGETS[1], mechanism), rng())
    assert tm.generate(moments, 7, rng()).shape == (7, 2)
    moments.save(tmp_path / "moments.tm")
    # The design is planned once more from what the file has.
    again = tm.NoisyMoments.load(tmp_path / "moments.tm")
    assert again.design is None
    for given in (None, mechanism):
        np.testing.assert_array_equal(tm.generate(again, 7, rng(), mechanism=given), tm.generate(moments, 7, rng()))
    # One that would have charged something else has no design of these numbers.
    with pytest.raises(InputError, match="need the release's design"):
        tm.generate(again, mechanism=tm.TrigI(degree=3, grid=4))


@pytest.mark.parametrize(("call", "words"), [
    (lambda: tm.design(1, SCHEMA, BUDGETS[0]), "at least 2"),
    (lambda: tm.design("9", SCHEMA, BUDGETS[0]), "at least 2"),
    (lambda: tm.measure(people(), SCHEMA, "a design"), "must be a Design"),
    (lambda: tm.generate(people()), "an object of type DataFrame"),
    (lambda: tm.generate("moments"), "must be NoisyMoments"),
    (lambda: tm.generate(tm.measure(people(), SCHEMA, tm.design(300, SCHEMA, BUDGETS[0]), rng()), -1), "rows must be"),
    (lambda: tm.measure(people(), SCHEMA, tm.design(300, SCHEMA, BUDGETS[0]), rng()).to_frame("excel"),
     "library must be"),
    (lambda: tm.design(300, SCHEMA, BUDGETS[0], FEW, workload=tm.workload.SecondMoments(2)), "either workload"),
    (lambda: tm.design(300, SCHEMA, (1.0, 0.0)), "budget must be"),
    (lambda: tm.design(300, SCHEMA, tm.Budget(1e-300)), "epsilon must lie between"),
    (lambda: tm.measure(people(200), SCHEMA, tm.design(300, SCHEMA, BUDGETS[0])), "for 300 rows"),
    (lambda: tm.measure(people(), SCHEMA, tm.design(300, tm.Schema.cube(4), BUDGETS[0])), "another schema"),
    # Of the same domain, but its bounds are not paid for.
    (lambda: tm.measure(people()[["age"]], tm.Schema([tm.Column("age", private_bounds=True)]),
                        tm.design(300, tm.Schema([tm.Column("age", 0, 120)]), BUDGETS[0])), "another schema"),
    (lambda: tm.generate(tm.measure(people(), SCHEMA, tm.design(300, SCHEMA, BUDGETS[0]), rng()), mechanism="none"),
     "must be a mechanism"),
])
def test_what_does_not_fit_is_refused(call, words):
    with pytest.raises((InputError, BudgetError), match=words):
        call()


# Mechanisms of one's own


class Waves:
    """sin(3 x) and cos(2 x_1 x_2), with values in [-1, 1]."""

    d, K = 2, 3

    def evaluate(self, X):
        return np.column_stack([np.sin(3.0 * X[:, 0]), np.sin(3.0 * X[:, 1]), np.cos(2.0 * X[:, 0] * X[:, 1])])

    def means(self, X):
        return self.evaluate(np.asarray(X)).mean(axis=0)

    def gradient(self, X, y):
        inner = -2.0 * y[2] * np.sin(2.0 * X[:, 0] * X[:, 1])
        return np.column_stack([3.0 * y[j] * np.cos(3.0 * X[:, j]) + inner * X[:, 1 - j] for j in range(2)])


@dataclass(frozen=True)
class Own(tm.Mechanism):
    """Those functions, with weights of one's own."""

    weights: tuple[float, ...] = (1.0, 1.0, 0.5)
    evaluation_error: float | None = 1e-12

    def plan(self, facts):
        # In L1 and in L2 at most twice the sum of the weights, or the root of the sum of their squares.
        w = np.array(self.weights)
        diameter = 2.0 * float(np.linalg.norm(w, 2 if facts.budget.delta > 0 else 1))
        return self.equip(facts, Waves(), diameter, w, evaluation_error=self.evaluation_error, proof="Own")


@each_budget
def test_functions_of_one_s_own_are_released_and_explained(budget):
    X = np.random.default_rng(4).uniform(-1, 1, (4_000, 2)) ** 2
    made = tm.synthesize(X, tm.Schema.cube(2), budget, Own(), rng())
    assert made.ledger.charges[0].proof == "Own"
    assert np.abs(Waves().means(made.distribution.points) - Waves().means(X)).max() < 0.05
    assert made.query(tm.workload.SecondMoments(2)).values.shape[1] == 1
    with pytest.raises(InputError, match="not known for custom functions"):
        made.error_bars(lambda table: 0.0)
    with pytest.raises(InputError, match="custom functions"):
        made.predicted_error(tm.workload.SecondMoments(2))


@pytest.mark.daily("pure")
@each_budget
def test_no_replaced_row_moves_the_weighted_means_further_than_is_charged(budget):
    design, search = tm.design(5, tm.Schema.cube(2), budget, Own()), np.random.default_rng(5)
    charge, w = design.charges[0], blocks(design.measured)[0].weights
    order, rows = (2 if charge.norm == "L2" else 1), search.uniform(-1, 1, (5, 2))
    worst = 0.0
    for pair in search.uniform(-1, 1, (1_000, 2, 2)):
        sums = []
        for row in pair:
            rows[2] = row
            sums.append(sums_of(rows, Waves()).basis_sum / 5 * w)
        worst = max(worst, float(np.linalg.norm(sums[0] - sums[1], order)))
    assert 0.7 * charge.sensitivity < worst <= charge.sensitivity


def test_weights_are_undone_and_the_noise_is_what_the_budget_asks_for():
    # Two designs of one budget: what weighs twice as much has half the noise of what it had, but for the common scale.
    even, uneven = (blocks(tm.design(100, tm.Schema.cube(2), BUDGETS[1], Own(weights)).measured)[0]
                    for weights in ((1.0, 1.0, 1.0), (2.0, 1.0, 1.0)))
    ratio = (uneven.deviation / uneven.weights) / (even.deviation / even.weights)
    np.testing.assert_allclose(ratio, np.sqrt(2.0) * np.array([0.5, 1.0, 1.0]), rtol=1e-6)


@pytest.mark.parametrize(("mechanism", "words"), [
    (Own(evaluation_error=None), "evaluation_error"), (Own(weights=(1.0, 1.0)), "shape"),
    (Own(weights=(1.0, 0.0, 1.0)), "positive and finite"), (Own(weights=(1.0, np.nan, 1.0)), "positive and finite")])
def test_designs_of_one_s_own_that_break_a_rule_are_refused_before_the_charge(mechanism, words, tmp_path):
    book = tm.LedgerFile.create(tmp_path / "ledger.json", BUDGETS[1])
    with pytest.raises((InputError, BudgetError), match=words):
        tm.synthesize(np.zeros((9, 2)), tm.Schema.cube(2), BUDGETS[1], mechanism, ledger=book)
    assert book.entries == ()


class Wild(Waves):
    """The same, with rows at which the values are no numbers, or far too large."""

    def evaluate(self, X):
        values = super().evaluate(np.asarray(X))
        values[X[:, 0] > 0.9] = np.nan
        values[X[:, 0] < -0.9] = 1e9
        return values


def test_values_that_are_none_move_a_mean_no_further_than_others():
    rows = np.zeros((50, 2))
    calm = sums_of(rows, Wild()).basis_sum
    for corner in (1.0, -1.0):
        rows[7, 0] = corner
        moved = sums_of(rows, Wild()).basis_sum - calm
        assert np.isfinite(moved).all()
        assert np.abs(moved).max() <= 2.0 * (1.0 + 1e-12)


def test_sums_of_functions_of_one_s_own_are_exact_on_their_lattice():
    # What numpy adds along the first axis is added one after another, and errs.
    X = np.random.default_rng(6).uniform(-1, 1, (200_000, 2))
    values = np.rint(Waves().evaluate(X) * 2.0**40) / 2.0**40
    exact = np.array([math.fsum(column) for column in values.T])
    np.testing.assert_array_equal(sums_of(X, Waves()).basis_sum, exact)
    one_after_another = np.cumsum(np.abs(Waves().evaluate(X)), axis=0)[-1]
    truth = np.array([math.fsum(column) for column in np.abs(Waves().evaluate(X)).T])
    assert np.abs(one_after_another - truth).max() > 0.0


@pytest.mark.parametrize(("change", "words"), [
    ({"gradient": None}, "gradient"), ({"evaluate": lambda X: np.zeros(3)}, "evaluate must have the shape"),
    ({"evaluate": lambda X: np.cos((X - X.mean(axis=0)) @ np.ones((2, 3)))}, "depend on other points"),
    ({"evaluate": lambda X: np.full((len(X), 3), len(X) / 9.0)}, "depend on other points"),
    ({"d": 5}, "have 5 columns"), ({"means": lambda X: np.zeros(2)}, "means must have the shape")])
def test_functions_that_would_fail_after_the_charge_are_refused_before(change, words, tmp_path):
    @dataclass(frozen=True)
    class Broken(Own):
        """Functions of which something is wrong."""

        def plan(self, facts):
            functions = Waves()
            vars(functions).update(change)
            return self.equip(facts, functions, 3.0, evaluation_error=1e-12)

    book = tm.LedgerFile.create(tmp_path / "ledger.json", BUDGETS[1])
    with pytest.raises(InputError, match=words):
        tm.synthesize(np.zeros((9, 2)), tm.Schema.cube(2), BUDGETS[1], Broken(), ledger=book)
    assert book.entries == ()


@pytest.mark.parametrize("options", [{"diameter": -1.0}, {"diameter": np.nan}, {"evaluation_error": -1.0},
                                     {"evaluation_error": np.nan}])
def test_no_number_given_lowers_what_is_charged(options):
    facts = tm.design(100, tm.Schema.cube(2), BUDGETS[1], Own()).facts
    with pytest.raises(InputError, match="must be positive and finite"):
        Own().equip(facts, Waves(), **{"diameter": 3.0, "evaluation_error": 1e-12} | options)


def test_a_run_of_one_s_own_draws_through_the_session_alone():
    @dataclass(frozen=True)
    class Twice(Own):
        """Draws a second time without paying."""

        def run(self, rows, design, session, rng):
            released = session.release(rows, design.measured)
            session.draw(np.zeros(3), design.charges[0])
            return released

    with pytest.raises(PaidError, match="made already"):
        tm.synthesize(np.zeros((9, 2)), tm.Schema.cube(2), BUDGETS[1], Twice(), rng())


def test_answers_are_had_in_the_table_s_units():
    made = tm.synthesize(people(), SCHEMA, tm.Budget(50.0, 1e-6), dataclasses.replace(FEW, points=512, iterations=40),
                         rng())
    mean = made.expect(lambda table: table["age"].astype(float), units="table")
    assert abs(mean - people()["age"].mean()) < 3.0
    share = made.expect(lambda table: (table["work"] == "full").astype(float), units="table")
    assert abs(share - (people()["work"] == "full").mean()) < 0.05
    assert made.expect(lambda x: x[:, 0]) == pytest.approx(mean / 60.0 - 1.0, abs=0.02)
    with pytest.raises(InputError, match="units must be"):
        made.expect(lambda x: x, units="other")


class Products(tm.Mechanism):
    """A mechanism of somebody's own, of the package's functions."""

    def plan(self, facts):
        return self.equip(facts, tm.Features(tm.ChebyshevBasis(np.eye(2, dtype=int))), 4.0)


@pytest.mark.parametrize("mechanism", [Products(), FEW])
def test_what_error_bars_a_release_of_moments_has_is_said_whatever_made_it(mechanism):
    made = tm.synthesize(np.zeros((50, 2)), tm.Schema.cube(2), BUDGETS[1], mechanism, rng())
    with pytest.raises(InputError, match="predicted_error gives error bars for a workload's answers") as caught:
        made.error_bars(lambda table: 0.0)
    assert "MomentMechanism" not in str(caught.value)
    assert made.predicted_error(tm.workload.SecondMoments(2)).bound.size


PRIVATE = tm.Schema([tm.Column("age", kind="integer", private_bounds=True), tm.Column("gain", 0, 9),
                     tm.Column("work", kind="categorical", categories="private")])


@pytest.mark.daily("schema1-mechanism1-0.0-3-parquet", "schema0-mechanism0-1e-06-4-csv")
@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.parametrize(("schema", "mechanism", "delta", "passes"), [
    (SCHEMA, tm.TableMechanism(points=16), 1e-6, 4), (SCHEMA, tm.TableMechanism(points=16), 0.0, 3),
    (SCHEMA, FEW, 1e-6, 1), (PRIVATE, FEW, 1e-6, 4), (PRIVATE, tm.TableMechanism(points=16), 1e-6, 7)])
def test_a_file_is_read_as_often_as_the_guide_says_and_passes_are_those_of_the_design(
        schema, mechanism, delta, passes, ending, tmp_path, monkeypatch):
    path, read = tmp_path / f"people.{ending}", {"rows": 0, "count": 0}
    # All in one interval, so that there is something to look at closer.
    table = people().assign(age=33)
    table.to_csv(path, index=False) if ending == "csv" else table.to_parquet(path)

    def counted(owner, name, what):
        before = getattr(owner, name)
        monkeypatch.setattr(owner, name, lambda *given, **options: (
            read.update({what: read[what] + 1}) or before(*given, **options)))

    counted(TableFile, "chunks", "rows")
    counted(CsvText, "count_rows", "count")
    budget = tm.Budget(100.0, delta)
    tm.synthesize(path, schema, budget, mechanism, rng())
    assert tm.design(300, schema, budget, mechanism).passes == passes
    # The private steps read it anew, four times with the check. All rounds after them read what the first one encoded.
    assert read == {"rows": 5 if schema is PRIVATE else 1, "count": int(ending == "csv")}


def test_functions_above_1_are_taken_as_1_and_not_refused():
    functions = Waves()
    functions.evaluate = lambda X: 3.0 * Waves.evaluate(functions, X)
    check_functions_of_own(functions, 2, 1e-12)
