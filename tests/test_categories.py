"""Private categories: what is found, what it costs, what one row can show, and that nothing fails after the charge."""

import itertools
import logging
import math
from dataclasses import dataclass, replace

import numpy as np
import oracles
import pandas as pd
import pyarrow as pa
import pytest
from scipy import stats

import trigmech as tm
from trigmech import run as run_module
from trigmech.errors import BudgetError, InputError
from trigmech.functions.chebyshev import ChebyshevBasis
from trigmech.functions.features import Features
from trigmech.measurement import private_categories as categories
from trigmech.measurement.private_categories import found_categories, selection_charges, threshold_delta
from trigmech.measurement.release import Session
from trigmech.measurement.rows import PrivateTable
from trigmech.privacy.accounting import epsilon_of, filtered_epsilon
from trigmech.privacy.budget import Budget, Charge
from trigmech.privacy.ledger import Ledger
from trigmech.privacy.noise import SimulatedNoise, SystemNoise
from trigmech.schema.schema import Column, Schema
from trigmech.tables import reader
from trigmech.tables.reader import TableFile, write_table

# Few points and steps are enough here.
pytestmark = pytest.mark.filterwarnings("ignore::trigmech.FitWarning")

BUDGET = Budget(2.0, 1e-6)
FAST = tm.MomentMechanism(points=64, iterations=2, degree=2, pair_degree=1, triples=False)
TOWN = Column("town", kind="categorical", categories="private")
SCHEMA = Schema([TOWN, Column("a", 0, 1),
                 Column("flag", kind="categorical", categories="private", missing="keep", other="neither")])


# Draws of persons' rows, of which there are none here.
NO_SESSION = Session(Ledger(Budget(1.0), simulated=True), SimulatedNoise(np.random.default_rng(0)))


def table(n=3_000, seed=1):
    rng = np.random.default_rng(seed)
    rare = np.array([f"hamlet {k}" for k in range(n)])
    town = np.where(rng.random(n) < 0.2, rare, rng.choice(["York", "Bath", " Ely"], n))
    flag = np.where(rng.random(n) < 0.1, None, rng.random(n) < 0.4)
    return pd.DataFrame({"town": town, "a": rng.random(n), "flag": flag})


def run(data, schema=SCHEMA, budget=BUDGET, mechanism=FAST, seed=3, **options):
    return tm.synthesize(data, schema, budget, mechanism, np.random.default_rng(seed), **options)


class Silent(SimulatedNoise):
    """Noise that is none, of one draw, and then as usual."""

    def __init__(self):
        super().__init__(np.random.default_rng(1))
        self.drawn = []

    def gaussian(self, values, scale):
        self.drawn.append(values)
        return values.copy() if len(self.drawn) == 1 else super().gaussian(values, scale)


# What is found


def test_frequent_categories_are_found_and_all_others_are_one(tmp_path):
    made = run(table())
    town, _, flag = made.schema.columns
    assert town == Column("town", kind="categorical", categories=("Bath", "Ely", "York", "other"), other="other")
    # Truth values count as the text that they are written as.
    assert flag.categories == ("False", "True", "neither")
    shares = pd.Series(made.columns(4_000, np.random.default_rng(1))["town"]).value_counts(normalize=True)
    assert abs(shares["other"] - 0.2) < 0.05
    assert [charge.purpose for charge in made.ledger.charges][:2] == ["categories", "threshold"]
    assert "hamlet" not in str(made.schema)
    made.save(tmp_path / "made.tm")
    assert tm.load(tmp_path / "made.tm").schema == made.schema


def test_real_noise_is_certified_and_charged_first(tmp_path):
    book = tm.LedgerFile.create(tmp_path / "book.json", BUDGET, reserve_delta=threshold_delta(BUDGET))
    made = tm.synthesize(table(), SCHEMA, BUDGET, FAST, ledger=book)
    assert {"Bath", "York"} <= set(made.schema.columns[0].categories)
    assert [entry.charge for entry in book.entries] == made.ledger.charges
    assert 0.99 * BUDGET.epsilon < book.total <= BUDGET.epsilon
    assert book.verify() == []
    assert "not proved here" not in str(made.ledger)


@pytest.mark.daily(".csv")
@pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".parquet"])
def test_a_file_gives_the_categories_and_the_rows_of_its_dataframe(suffix, tmp_path, monkeypatch):
    schema = Schema([TOWN, *SCHEMA.columns[1:2], Column("size", private_bounds=True)])
    data = table().drop(columns="flag").assign(size=np.arange(3_000.0))
    path = tmp_path / f"table{suffix}"
    write_table(path, {name: data[name].to_numpy() for name in schema.names})
    expected = run(data, schema)
    for rows in (reader.MAX_ROWS, 100):
        monkeypatch.setattr(reader, "MAX_ROWS", rows)
        made = run(TableFile(path), schema)
        assert made.schema == expected.schema
        np.testing.assert_array_equal(made.release.means, expected.release.means)


def test_the_order_of_the_rows_does_not_matter_to_what_is_found():
    # Of so many keys near the threshold, the noise of each decides.
    data = table(6_000).assign(town=[f"{k}" for k in np.random.default_rng(2).integers(100, size=6_000)])
    for each in (data, pa.Table.from_pandas(data.sample(frac=1.0, random_state=1))):
        found = run(each).schema.columns[0].categories
        assert 10 < len(found) < 90
        assert found == run(data).schema.columns[0].categories


def test_categories_that_a_type_lists_and_no_row_has_are_no_keys():
    # Were one counted as 0, the noise alone would make it known.
    data = table().assign(town=pd.Categorical(["York"] * 3_000, categories=["York", "nowhere"]))
    counts = categories._counts(PrivateTable(data, SCHEMA).raw(SCHEMA), SCHEMA, ("town", "flag"), NO_SESSION)
    assert [dict(count) for count in counts] == [{"York": 3_000}, {"True": int((data["flag"] == True).sum()),  # noqa: E712
                                                                   "False": int((data["flag"] == False).sum())}]  # noqa: E712
    made = run(data)
    assert str(made.sample(5)["town"].dtype) == "category"


def test_only_so_many_are_kept_the_most_frequent_first(monkeypatch):
    monkeypatch.setattr(categories, "MOST_FOUND", 2)
    data = table().assign(town=np.repeat(["a", "b", "c", "d"], [300, 1_000, 1_200, 500]))
    assert run(data).schema.columns[0].categories == ("b", "c", "other")


# What one row can show


def charges_of(scale, delta):
    return (Charge("categories", "gaussian", scale, math.sqrt(2.0), "L2", 1, "here"),
            Charge("threshold", "threshold", delta, 0.0, "none", 1, "here"))


def shown_of_one_row_each(noise, count, columns, delta):
    """How many keys are released of columns in which all differ."""
    schema = Schema([Column(f"c{j}", kind="categorical", categories="private") for j in range(columns)])
    data = pd.DataFrame({name: np.arange(count) for name in schema.names})
    session = Session(Ledger(Budget(1e6, 0.5)), noise)
    found = found_categories(PrivateTable(data, schema).raw(schema), schema, charges_of(3.0, delta), session)
    return sum(map(len, found.values()))


@pytest.mark.parametrize(("columns", "noise"), [(1, SimulatedNoise(np.random.default_rng(1))), (4, SystemNoise())])
def test_a_key_of_one_row_is_released_with_the_probability_that_is_charged_for(columns, noise, monkeypatch):
    monkeypatch.setattr(categories, "MOST_FOUND", 10**6)
    count, delta = 4_000 // columns, 0.02
    # A false alarm has a probability of 1e-9.
    low, high = stats.binom.ppf([5e-10, 1.0 - 5e-10], count * columns, delta / columns)
    assert low < shown_of_one_row_each(noise, count, columns, delta) < high
    # Planted: a threshold for noise alone, as for a key that no row holds; and one that each column has to itself.
    exact = categories.least_count
    for fault in (lambda *given: exact(*given) - 1.0, lambda noise, threshold, columns: exact(noise, threshold, 0.5)):
        monkeypatch.setattr(categories, "least_count", fault)
        assert shown_of_one_row_each(SimulatedNoise(np.random.default_rng(2)), count, columns, delta) > high


def test_the_least_count_is_above_the_exact_one():
    for scale, delta, columns in itertools.product((0.5, 30.0, 1e6), (0.05, 1e-7, 1e-300), (1, 7)):
        least = categories.least_count(*charges_of(scale, delta), columns)
        z = (least - 1.0) / scale
        assert stats.norm.logsf(z) <= math.log(delta / columns)
        assert stats.norm.logsf(z * (1.0 - 1e-6)) > math.log(delta / columns) - 1e-12


def test_no_neighbours_are_further_apart_than_the_proof_says():
    rng = np.random.default_rng(4)
    cells = np.array(["x", " x", "y", "z", None, True, 1, 1.0, "1", b"no text", "other"], dtype=object)
    schema = Schema([Column(f"c{j}", kind="categorical", categories="private", missing="keep") for j in range(3)])
    worst, alone = 0.0, 0
    for _ in range(600):
        rows = cells[rng.integers(len(cells), size=(rng.integers(2, 9), 3))]
        other = rows.copy()
        other[rng.integers(len(rows))] = cells[rng.integers(len(cells), size=3)]
        moved = 0
        for one, two in zip(*(categories._counts(PrivateTable(t, schema).raw(schema), schema, schema.names, NO_SESSION)
                              for t in (rows, other)),
                            strict=True):
            moved += sum((one[key] - two[key]) ** 2 for key in one.keys() & two.keys())
            # A key of one table alone is of one row, and there is one at most.
            for strange in (one.keys() - two.keys(), two.keys() - one.keys()):
                assert [(one + two)[key] for key in strange] in ([], [1])
                alone = max(alone, len(strange))
        worst = max(worst, moved)
    noise, _ = selection_charges(BUDGET, 0.1, 3)
    # Attained, so a smaller sensitivity would be refuted.
    assert worst == 6.0
    assert alone == 1
    assert worst <= noise.sensitivity**2 < worst + 1e-9


def test_exact_deltas_of_the_worst_neighbours_keep_to_the_charges():
    budget = Budget(1.0, 1e-3)
    noise, threshold = selection_charges(budget, 1.0, 1)
    least = categories.least_count(noise, threshold, 1)
    epsilon = epsilon_of([noise, threshold], budget.delta)
    shown = stats.norm.sf((least - 1.0) / noise.scale)
    deltas = []
    # Of counts of common keys that move so far in L2, beside a key that one table alone holds, or both have another.
    for moved, strange in ((math.sqrt(2.0), 0.0), (1.0, shown), (0.0, shown)):
        of_noise = oracles.gaussian_delta(epsilon, moved / noise.scale) if moved else 0.0
        deltas.append(strange + (1.0 - strange) * of_noise)
    assert max(deltas) <= budget.delta
    # The bound of a row that did all of this at once is nearly the budget.
    assert budget.delta * 0.999 < shown + (1.0 - shown) * oracles.gaussian_delta(epsilon, noise.mu) <= budget.delta


def test_what_is_found_is_a_function_of_the_counts_above_the_threshold(caplog):
    said = []
    for rare in (0, 40):
        town = ["York"] * 500 + ["Bath"] * 400 + [f"{k}" if k < rare else "other" for k in range(100)]
        data = pd.DataFrame({"town": town, "a": 0.5, "flag": None})
        noise, steps = Silent(), []
        caplog.clear()
        with pytest.MonkeyPatch.context() as patch, caplog.at_level(logging.DEBUG, "trigmech"):
            patch.setattr(run_module, "SimulatedNoise", lambda _, noise=noise: noise)
            made = run(data, progress=lambda *step, steps=steps: steps.append(step))
        # How many keys there are is known to the noise alone.
        assert [values.size for values in noise.drawn[:1]] == [2 + rare]
        told = [record.getMessage() for record in caplog.records if not record.getMessage().startswith("fitted")]
        said.append((told, steps, made.schema, str(made.ledger)))
    assert said[0] == said[1]
    assert ("finding categories", 0, 0) in said[0][1]
    assert said[0][2].columns[0].categories == ("Bath", "York", "other")


# What it costs


PARTS = {"categories": [TOWN], "two columns of them": [TOWN, SCHEMA.columns[2]],
         "categories and bounds": [TOWN, Column("b", private_bounds=True), Column("c", private_bounds=True)]}


@pytest.mark.parametrize("budget", [BUDGET, Budget(0.01, 1e-9), Budget(8.0, 0.01)])
@pytest.mark.parametrize("part", PARTS)
def test_all_charges_are_known_before_the_first_and_spend_the_budget_and_no_more(part, budget):
    design = tm.design(500, Schema([*PARTS[part], Column("a", 0, 1)]), budget, bounds_share=0.3)
    charges = design.all_charges
    assert charges == tuple(charge for each in design.rounds for charge in each)
    assert 0.999 * budget.epsilon < epsilon_of(charges, budget.delta) <= budget.epsilon
    assert filtered_epsilon(charges, budget.delta, threshold_delta(budget)) <= budget.epsilon
    assert design.budget == budget
    noise, threshold = design.categories
    assert threshold.claimed_delta == threshold_delta(budget) == pytest.approx(budget.delta / 10.0)
    assert f"threshold: delta = {threshold.scale:g}" in str(design)
    # Each column has the same part of the share.
    total = sum(charge.mu**2 for charge in charges if charge.law == "gaussian")
    columns = len(PARTS[part])
    for spent, each in ((noise.mu**2, len(design.schema.private_categories)),
                        (sum(charge.mu**2 for charge in design.bounds), len(design.schema.private_bounds))):
        assert spent / total == pytest.approx(0.3 * each / columns, rel=1e-3)


@pytest.mark.parametrize("part", PARTS)
def test_the_ledger_of_a_run_keeps_to_its_budget(part):
    rng = np.random.default_rng(5)
    data = table().assign(b=rng.normal(size=3_000), c=rng.normal(size=3_000))
    made = run(data, Schema([*PARTS[part], Column("a", 0, 1)]))
    assert 0.999 * BUDGET.epsilon < made.ledger.proved_epsilon <= BUDGET.epsilon
    assert len(made.schema.columns[0].categories) == 4


# What is refused is refused before the charge


@dataclass(frozen=True)
class Own(tm.Mechanism):
    """Means of all coordinates, if they are so few; by noise that is pure if they are more."""

    most: int = 10**6
    gaussian: int = 10**6

    def plan(self, facts):
        d = facts.domain.d
        if d > self.most:
            raise RuntimeError("too many")
        pure = d > self.gaussian
        facts = replace(facts, budget=Budget(facts.budget.epsilon)) if pure else facts
        return self.equip(facts, Features(ChebyshevBasis(np.eye(d, dtype=int))), 2.0 * (d if pure else math.sqrt(d)))


REFUSED = {
    "no delta": ({"budget": Budget(1.0)}, "'town', 'flag' are private, and finding them needs delta > 0"),
    "no delta, of one column": ({"budget": Budget(1.0), "schema": Schema([TOWN])}, "'town' are private"),
    "pure noise": ({"mechanism": tm.TrigI(degree=2, grid=4)}, "Gaussian noise"),
    "pure noise by a plan": ({"mechanism": Own(gaussian=0)}, "Gaussian noise"),
    "published scales": ({"mechanism": tm.TrigII(degree=2, grid=4, calibration="published")}, "calibrated"),
    "no reserve": ({"budget": Budget(1.0, 2e-6)}, "over the reserve 1.5e-07"),
    "too much": ({"budget": Budget(2.1, 1e-6)}, "over the budget"),
    "no share": ({"bounds_share": 0.0}, "between 0 and 1"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_can_be_refused_is_refused_before_anything_is_charged_or_drawn(case, tmp_path, monkeypatch):
    options, message = REFUSED[case]
    monkeypatch.setattr(SystemNoise, "gaussian", lambda *given: pytest.fail("drawn"))
    book = tm.LedgerFile.create(tmp_path / "book.json", Budget(2.0, 2e-6), reserve_delta=1.5e-7)
    given = {"schema": SCHEMA, "budget": BUDGET, "mechanism": FAST} | options
    with pytest.raises((BudgetError, InputError), match=message):
        tm.synthesize(table(50), ledger=book, **given)
    assert book.entries == ()
    if case.startswith(("no delta", "pure", "published", "no share")):
        # The design alone says so.
        with pytest.raises((BudgetError, InputError), match=message):
            tm.design(50, **given)


@pytest.mark.parametrize(("marks", "refused"), [(["no"], True), (["not other"], True), ([], False)])
def test_cells_that_are_missing_are_refused_before_the_charge(marks, refused, tmp_path):
    path = tmp_path / "table.csv"
    pd.DataFrame({"town": ["no", "not other", "x"] * 100, "a": 0.5}).to_csv(path, index=False)
    schema = Schema(SCHEMA.columns[:2])
    for budget in (Budget(1e-3, 1e-9), Budget(50.0, 1e-3)):
        ledgers = []

        class Spy(Ledger):
            def __post_init__(self, ledgers=ledgers):
                super().__post_init__()
                ledgers.append(self)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(run_module, "Ledger", Spy)
            if refused:
                with pytest.raises(InputError, match="missing"):
                    run(TableFile(path, missing=marks), schema, budget)
                assert not any(ledger.charges for ledger in ledgers)
            else:
                assert len(run(TableFile(path, missing=marks), schema, budget).ledger.charges) > 2


# Nothing raises after the charge


HOSTILE = {
    "one row each": [f"{k}" for k in range(40)], "all the same": ["x"] * 40, "two rows": ["x", "y"],
    "all missing": [None] * 40, "other itself": ["other", " other ", "not other", None] * 10,
    "anything": [1, 1.0, True, "1", "true", b"x", float("inf"), "\ud800", "x" * 10_000, 10**5_000, " \t", "", "=", None,
                 np.float32(0.1), np.datetime64("2020-01-01"), "é", "e\u0301", "\x00", "\u00a0"] * 2,
}


@pytest.mark.daily(3)
@pytest.mark.parametrize("budget", [Budget(1e-5, 1e-12), Budget(1e-5, 0.9), Budget(1e4, 1e-9), Budget(500.0, 0.9)])
@pytest.mark.parametrize("name", HOSTILE)
def test_whatever_is_drawn_a_table_comes_out(name, budget, tmp_path):
    cells = np.array(HOSTILE[name], dtype=object)[:, None]
    schema = Schema([Column("v", kind="categorical", categories="private", missing="keep")])
    made = run(cells, schema, budget)
    found = made.schema.columns[0].categories
    assert made.schema.private_categories == ()
    assert list(found[:-1]) == sorted(found[:-1]) or found == ("other", "not other")
    assert len(made.sample(7, np.random.default_rng(1))) == 7
    made.save(tmp_path / "made.tm")
    assert tm.load(tmp_path / "made.tm").schema == made.schema
    assert made.ledger.proved_epsilon <= budget.epsilon


@pytest.mark.parametrize(("mechanism", "categories_of_town"), [
    (Own(), 9), (Own(most=8), 5), (Own(gaussian=8), 5), (Own(most=4), 3), (Own(most=3), 2)])
def test_a_mechanism_that_cannot_measure_so_many_has_fewer(mechanism, categories_of_town):
    data = table().assign(town=np.resize(list("abcdefgh"), 3_000), flag="x")
    schema = Schema([TOWN, Column("a", 0, 1)])
    made = run(data, schema, Budget(20.0, 1e-6), mechanism)
    assert len(made.schema.columns[0].categories) == categories_of_town
    assert made.ledger.proved_epsilon <= 20.0
    with pytest.raises(RuntimeError, match="too many"):
        run(data, schema, Budget(20.0, 1e-6), Own(most=2))
