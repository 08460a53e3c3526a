"""The protocols: measures against slow plain twins, loaders on small files, published scores if the data are there."""

import itertools
import json
import math
import os
from collections import Counter

import numpy as np
import pandas as pd
import pytest
from scipy.stats import spearmanr
from typer.testing import CliRunner

import trigmech as tm
from experiments import __main__ as program
from experiments import cells
from experiments.datasets import DatasetMissing
from experiments.protocols import data, experiment, scores

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
        values = sorted(float(value) for value in real[name] if value != "N")
        cell = {value: min(19, int(20 * (sum(other < value for other in values)
                                         + (sum(other == value for other in values) + 1) / 2) / len(values)))
                for value in values}
        most = {b: max(value for value in cell if cell[value] == b) for b in cell.values()}

        def place(value, most=most):
            if value == "N":
                return "N"
            return next((b for b in sorted(most) if float(value) <= most[b]), max(most))

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
    found = scores.k_marginal(nist_table(folder, real), nist_table(folder, made), schema)
    assert found == pytest.approx(plain_k_marginal(real, made), abs=1e-9)
    assert 300.0 < found < 900.0
    assert scores.k_marginal(nist_table(folder, real), nist_table(folder, real), schema) == 1000.0
    without = [name for name in DICTIONARY if name != "PUMA"]
    assert scores.k_marginal(nist_table(folder, real)[without], nist_table(folder, made)[without],
                             data.nist_schema(without)) > found


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
    assert scores.codes(schema, table, 2)[0].tolist() == [[0, 0], [1, 1]]
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
    assert len(data.test_rows("synmeter_wine")) == 3
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
        scores.codes(SCHEMA, real.assign(work="d"))


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


def test_models_learn_what_a_table_holds_and_notice_what_it_does_not():
    real, test = workers(600, 1), workers(400, 2)
    shuffled = real.assign(ill=real["ill"].sample(frac=1.0, random_state=0).to_numpy())
    assert scores.boosting_auc(SCHEMA, real, test) > 0.9 > 0.7 > scores.boosting_auc(SCHEMA, shuffled, test)
    assert scores.boosting_auc(SCHEMA, real.assign(ill="no"), test) == 0.5
    assert scores.detector_auc(SCHEMA, real, workers(600, 3)) < 0.6
    assert scores.detector_auc(SCHEMA, real, real.assign(pay=10.0)) > 0.95
    whole = tm.Schema([SCHEMA.columns[2], SCHEMA.columns[0], tm.Column("pay", -10.0, 90.0)])
    filled = [table.fillna({"pay": 40.0}) for table in (real, test)]
    of_classes, of_numbers = scores.usefulness(SCHEMA, *filled), scores.usefulness(whole, *filled)
    assert min(of_classes.values()) > 0.75
    assert set(of_classes) == {"f1_boosting", "f1_forest"}
    assert min(of_numbers.values()) > 0.6
    assert max(scores.usefulness(SCHEMA, filled[0].assign(ill="no"), filled[1]).values()) < 0.5


@pytest.mark.parametrize(("table", "name", "published"), [
    ("sarus_demographic", "nist_demographic", 947), ("k_anonymity_demographic", "nist_demographic", 907),
    ("mwem_pgm_all", "nist_all", 847)])
def test_published_tables_have_their_published_scores(table, name, published):
    try:
        real, schema = data.load(name)
        made = data.nist_rows(data.file(f"nist/{table}.csv.xz"), schema)
    except DatasetMissing:
        pytest.skip(f"TRIGMECH_DATA = {os.environ.get('TRIGMECH_DATA')!r} has no tables of the cycle")
    assert scores.k_marginal(real, made, schema) == pytest.approx(published, abs=1.0)


@pytest.fixture
def small(folder, monkeypatch):
    """A data set of 60 rows under the name of a protocol, and cells in this process."""
    people(60, 5)[["AGEP", "SEX", "MSP"]].to_csv(folder / "nist" / "national2019.csv.xz", index=False)
    monkeypatch.setitem(data.NIST, "nist_demographic", "AGEP SEX MSP")
    monkeypatch.setattr(cells, "CACHE", folder / "cache")
    monkeypatch.setattr(experiment, "RESULTS", folder / "results")
    monkeypatch.setattr(experiment, "run_cells", lambda todo, jobs, title: (
        (cell, cells.run_cell(cell)) for cell in todo))
    experiment._loaded.cache_clear()
    yield folder / "results"
    experiment._loaded.cache_clear()


def test_tables_are_made_scored_and_written(small):
    result = CliRunner().invoke(program.app, ["run", "tables", "consistent", "--quick", "--eps", "1,5", "--datasets",
                                              "nist_demographic,synmeter_bean"])
    assert result.exit_code == 0, result.output
    assert "left out" in result.output
    assert (small / "tables_consistent_quick.md").exists()
    lines = pd.read_csv(small / "tables_quick.csv")
    assert set(lines["method"]) == {"release", "independent", "bootstrap"}
    score = lines[lines["measure"] == "k_marginal"].set_index(["method", "epsilon"])["mean"]
    assert score["independent", 0] < score["bootstrap", 0] < 1000.0
    assert set(lines[lines["method"] == "release"]["epsilon"]) == {1.0, 5.0}
    assert "Published by others" in (small / "tables_quick.md").read_text(encoding="utf-8")
    for name in ("tables", "consistent"):
        assert name in CliRunner().invoke(program.app, ["list"]).output
    assert CliRunner().invoke(program.app, ["run", "tables", "--eps", "one"]).exit_code == 2


def test_a_release_that_fails_is_counted_and_does_not_end_the_experiment(small, monkeypatch):
    def fails(*arguments, **options):
        raise ZeroDivisionError

    monkeypatch.setattr(tm, "synthesize", fails)
    (path,) = experiment.tables(["nist_demographic"], 1, False, 2, [1.0])
    assert path.name == "tables_partial.md"
    assert "| failures | 2 | 0 | 0 |" in path.read_text(encoding="utf-8")
    assert experiment.tables(["synmeter_bean"], 1, False) == []


def test_harm_by_more_budget_is_marked():
    def line(measure, epsilon, least, most):
        return {"dataset": "adult", "method": "release", "epsilon": epsilon, "delta": "1e-06", "measure": measure,
                "mean": str((least + most) / 2), "least": str(least), "most": str(most), "runs": 2}

    lines = [line("auc", "1", 0.8, 0.9), line("tv1_mean", "1", 0.1, 0.2), line("seconds", "1", 1.0, 1.0),
             line("auc", "3", 0.7, 0.79), line("tv1_mean", "3", 0.15, 0.3), line("seconds", "3", 9.0, 9.0),
             line("tv1_mean", "10", 0.31, 0.4)]
    text = "\n".join(experiment.page(lines, 2))
    assert "| auc | 0.85 (0.8–0.9) | 0.745 (0.7–0.79) ✗ |  |" in text
    assert "| tv1_mean | 0.15 (0.1–0.2) | 0.225 (0.15–0.3) | 0.355 (0.31–0.4) ✗ |" in text
    assert "| seconds | 1 | 9 |  |" in text
