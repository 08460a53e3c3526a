"""Persons of several rows: each counts once, whatever the order of the rows, the file and its buckets."""

import datetime
import os
import signal
import subprocess
import sys
import warnings
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import stats

import trigmech as tm
from trigmech.errors import InputError
from trigmech.functions.chebyshev import ChebyshevBasis
from trigmech.measurement import persons, sums
from trigmech.measurement.moments import FunctionSums
from trigmech.measurement.private_categories import found_categories, selection_charges
from trigmech.measurement.release import Session
from trigmech.measurement.rows import PrivateTable
from trigmech.privacy.noise import SimulatedNoise, SystemNoise
from trigmech.schema import toml
from trigmech.tables.parquet_files import ParquetFiles
from trigmech.tables.reader import TableFile

N = 300
BUDGET = tm.Budget(1.0, 1e-6)
COLUMNS = [tm.Column("age", 0, 120, "integer"), tm.Column("pressure", 60, 240, missing="keep"),
           tm.Column("ward", kind="categorical", categories=("a", "b", "c"))]
SCHEMA = tm.Schema(COLUMNS, person="patient")
smooth = tm.MomentMechanism(degree=3, pair_degree=1)
PRIVATE = tm.Schema([COLUMNS[0], tm.Column("pressure", private_bounds=True, missing="keep"), COLUMNS[2]],
                    person="patient")


def visits(n=N, most=12, seed=0):
    rng = np.random.default_rng(seed)
    who = np.repeat(np.arange(n), rng.integers(1, most + 1, n))
    found = pd.DataFrame({"patient": [f"p{k}" for k in who], "age": rng.integers(0, 90, n)[who],
                          "pressure": rng.normal(120, 20, len(who)), "ward": rng.choice(list("abc"), len(who))})
    found.loc[rng.random(len(who)) < 0.1, "pressure"] = np.nan
    return found.sample(frac=1, random_state=1).reset_index(drop=True)


def means(table, schema=SCHEMA, mechanism=smooth, n=N):
    design = tm.design(n, schema, BUDGET, mechanism)
    return tm.measure(table, schema, design, np.random.default_rng(3)).means


# What counts


@pytest.mark.parametrize("mechanism", [None, smooth], ids=["default", "smooth"])
def test_who_has_her_rows_twice_counts_as_before(mechanism):
    table = visits()
    copied = pd.concat([table, table[table["patient"].isin(["p1", "p2"])]] + [table[table["patient"] == "p3"]] * 50)
    np.testing.assert_array_equal(means(copied, mechanism=mechanism), means(table, mechanism=mechanism))


@pytest.mark.parametrize("mechanism", [None, smooth], ids=["default", "smooth"])
def test_a_person_of_one_row_is_a_row(mechanism):
    table = visits(most=1)
    plain = tm.Schema(COLUMNS)
    np.testing.assert_array_equal(means(table, mechanism=mechanism), means(table, plain, mechanism))


def test_means_are_those_of_the_persons_means():
    table = visits()
    schema = tm.Schema([COLUMNS[0]], person="patient")
    calm = tm.Budget(1e6, 1e-6)
    design = tm.design(N, schema, calm, smooth)
    found = tm.measure(table, schema, design, np.random.default_rng(0))
    x = table.assign(x=table["age"] / 60 - 1).groupby("patient")["x"].mean().mean()
    assert found.means[0] == pytest.approx(x, abs=1e-4)


@pytest.mark.nightly  # By day a person counts once however the table comes, below.
@pytest.mark.parametrize(("schema", "mechanism"), [
    pytest.param(SCHEMA, None, id="public bounds-default"), pytest.param(PRIVATE, smooth, id="private bounds-smooth"),
    # By day each mechanism, and bounds of either kind.
    pytest.param(SCHEMA, smooth, id="public bounds-smooth", marks=pytest.mark.nightly),
    pytest.param(PRIVATE, None, id="private bounds-default", marks=pytest.mark.nightly)])
def test_any_table_of_the_same_rows_gives_the_same_bits(schema, mechanism, tmp_path, monkeypatch):
    table = visits()
    expected = means(table, schema, mechanism)
    table.to_csv(tmp_path / "visits.csv", index=False)
    table.to_parquet(tmp_path / "visits.parquet", index=False, row_group_size=100)
    for other in (table.sample(frac=1, random_state=5), table.sort_values("patient"), pl.from_pandas(table),
                  table.astype({"patient": "category"}), tmp_path / "visits.csv", tmp_path / "visits.parquet"):
        np.testing.assert_array_equal(means(other, schema, mechanism), expected)
    # By way of the disk.
    monkeypatch.setattr(persons, "NUMBERS_IN_A_BUCKET", 1_000)
    for name in ("visits.csv", "visits.parquet"):
        np.testing.assert_array_equal(means(tmp_path / name, schema, mechanism), expected)


def test_an_identifier_is_text_whatever_sign_numbers_have(tmp_path):
    (tmp_path / "visits.csv").write_text("who;x\n1,5;0,5\n1.5;0,25\n1,5;0,75\n", encoding="utf-8")
    schema = persons.read_by(tm.Schema([tm.Column("x", 0, 1)], person="who"))
    found = pa.concat_tables(TableFile(tmp_path / "visits.csv", delimiter=";", decimal=",").chunks(schema))
    assert found.to_pydict() == {"x": [0.5, 0.25, 0.75], "who": ["1,5", "1.5", "1,5"]}


@pytest.mark.parametrize("at_once", [1, 7, 10**6])
def test_all_rows_of_all_blocks_are_dealt_to_the_buckets_once_and_those_of_a_person_together(at_once, tmp_path,
                                                                                             monkeypatch):
    table = visits(40)
    table.to_parquet(tmp_path / "visits.parquet", index=False, row_group_size=11)
    monkeypatch.setattr(persons, "NUMBERS_IN_A_BUCKET", 200)
    monkeypatch.setattr(persons, "ROWS_AT_ONCE", at_once)
    buckets = persons.Buckets(ParquetFiles(str(tmp_path / "visits.parquet")), SCHEMA)
    try:
        parts = [part.to_pandas() for part in buckets.tables()]
        names = np.concatenate([part["patient"].unique() for part in parts])
        found = pd.concat(parts)
    finally:
        buckets.close()
    assert len(parts) > 3
    assert sorted(names) == sorted(table["patient"].unique())
    assert buckets.n == 40
    order = list(table.columns)
    pd.testing.assert_frame_equal(found[order].sort_values(order).reset_index(drop=True),
                                  table.sort_values(order).reset_index(drop=True))


def test_blocks_that_wait_together_are_written_together_and_only_of_one_type(tmp_path):
    blocks = [pa.table({"who": ["a", "b"], "x": [1.0, 2.0]}), pa.table({"who": ["c"], "x": [3.0]})]
    other = pa.table({"who": ["d"], "x": [4]})
    writers, waiting = {}, {3: list(blocks), 5: list(blocks[:1])}
    persons._write(writers, waiting, 3, tmp_path)
    assert list(waiting) == [5]
    waiting[3] = blocks[1:]
    persons._write(writers, waiting, 3, tmp_path)
    for together in ([other], [blocks[0], other]):
        with pytest.raises(InputError, match="'x' have different types in the files"):
            persons._write(writers, {3: together}, 3, tmp_path)
    writers[3].close()
    assert pq.read_table(tmp_path / "0003.parquet").to_pydict() == {"who": list("abcc"), "x": [1.0, 2.0, 3.0, 3.0]}


def test_identifiers_may_be_numbers():
    table = visits()
    numbered = table.assign(patient=table["patient"].str[1:].astype(int))
    np.testing.assert_array_equal(means(numbered), means(table))
    np.testing.assert_array_equal(means(numbered.astype({"patient": float})), means(table))


ZONE = datetime.timezone(datetime.timedelta(hours=3))
NOON = datetime.datetime(2020, 5, 17, 12, tzinfo=datetime.UTC)
# Of each list all but the last name one person.
SAME = {"white space": ["ann", "ann ", " ann", "\u00a0ann\x1c", "bob"], "zeros": [0.0, -0.0, 1.5],
        "numbers": [1, 1.0, np.float32(1.0), Decimal("1.00"), True, 2], "halves": [0.5, Decimal("0.50"), 1],
        "instants": [NOON, NOON.astimezone(ZONE), NOON.replace(hour=13)], "large": [2**53, 2**53 + 1],
        "text of a whole number": ["1", "1.0", "1.", " 1.000 ", 1, 1.0, "01"],
        "text of zero": ["0", "-0", "-0.0", 0, "00"], "text below 0": ["-3", "-3.0", -3, "3"],
        "text of a part": ["1.5", "1.50"], "a sign": ["+1", "1"],
        "an exponent": ["1e3", "1000"], "other digits": ["\u0661", "1"], "very long": ["1" * 5_000, "1" * 5_000 + ".0"]}


@pytest.mark.parametrize("values", SAME.values(), ids=SAME)
def test_values_that_name_the_same_person_are_one_and_share_a_hash(values):
    *alike, other = values
    assert len({persons.identity(value) for value in alike}) == 1
    assert persons.identity(other) not in set(map(persons.identity, alike))
    found = [persons.hashes(pd.DataFrame({"who": [value]}, dtype=object), "who").tolist() for value in alike]
    assert found == found[:1] * len(alike)


@pytest.mark.parametrize("name", ["white space", "zeros"])
def test_a_person_counts_once_however_the_table_comes(name, tmp_path, monkeypatch):
    who = SAME[name] * 40
    table = pd.DataFrame({"who": who, "x": np.linspace(0.0, 1.0, len(who))})
    schema = tm.Schema([tm.Column("x", 0, 1)], person="who")
    table.to_csv(tmp_path / "table.csv", index=False)
    table.to_parquet(tmp_path / "table.parquet", index=False, row_group_size=7)
    sources = [table, pl.from_pandas(table), tmp_path / "table.parquet"]
    # Identifiers of a CSV file are texts.
    sources += [tmp_path / "table.csv"] * isinstance(who[0], str)
    expected = PrivateTable(table, schema).rows(schema).sums(FunctionSums(ChebyshevBasis.tensor(1, 3)))
    assert expected.n == 2
    for size in (2**22, 20):
        monkeypatch.setattr(persons, "NUMBERS_IN_A_BUCKET", size)
        for source in sources:
            with PrivateTable(source, schema) as private:
                found = private.rows(schema).sums(FunctionSums(ChebyshevBasis.tensor(1, 3)))
            np.testing.assert_array_equal(found.limbs, expected.limbs)


def test_files_whose_columns_have_different_types_are_refused(tmp_path, monkeypatch):
    schema = tm.Schema([tm.Column("x", 0, 1)], person="who")
    for k, kind in enumerate((int, str)):
        pd.DataFrame({"who": np.arange(40).astype(kind), "x": 0.5}).to_parquet(tmp_path / f"{k}.parquet", index=False)
    for size in (2**22, 20):
        monkeypatch.setattr(persons, "NUMBERS_IN_A_BUCKET", size)
        with pytest.raises(InputError, match=r"'who' has the type int64 in .*0\.parquet' and large_string in .*1\."):
            PrivateTable(ParquetFiles(str(tmp_path / "*.parquet")), schema)


def test_progress_says_the_same_of_neighbours_and_of_any_number_of_rows(tmp_path, monkeypatch):
    monkeypatch.setattr(persons, "NUMBERS_IN_A_BUCKET", 300)
    table = visits()
    many = pd.concat([table, *[table[table["patient"] == "p1"]] * 30])
    told = []
    for k, rows in enumerate((table, table.replace({"patient": {"p0": "bob"}}), many)):
        rows.to_csv(tmp_path / f"{k}.csv", index=False)
        said = []
        tm.measure(tmp_path / f"{k}.csv", SCHEMA, tm.design(N, SCHEMA, BUDGET, smooth), np.random.default_rng(0),
                   progress=lambda *step, said=said: said.append(step))
        told.append(said)
    assert told[0] == told[1] == told[2]
    assert ("measuring", 0, 0) in told[0]


@pytest.mark.nightly  # By day a command is ended below, and leaves nothing.
def test_buckets_of_a_process_that_was_killed_are_removed_by_the_next(tmp_path, monkeypatch):
    monkeypatch.setattr(persons, "NUMBERS_IN_A_BUCKET", 1_000)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    visits().to_csv(tmp_path / "visits.csv", index=False)
    script = ("import tempfile, time\nfrom trigmech.measurement import persons\nimport test_persons as t\n"
              "from trigmech.measurement.rows import PrivateTable\npersons.NUMBERS_IN_A_BUCKET = 1_000\n"
              f"tempfile.tempdir = {str(tmp_path)!r}\n"
              f"table = PrivateTable({str(tmp_path / 'visits.csv')!r}, t.SCHEMA)\n"
              "print('made', flush=True)\ntime.sleep(600)")
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True,
                          cwd=Path(__file__).parent) as process:
        assert process.stdout.readline() == "made\n"
        left, = tmp_path.glob("trigmech-persons-*")
        # As long as the process lives it keeps them.
        with PrivateTable(tmp_path / "visits.csv", SCHEMA):
            assert len(list(left.glob("*.parquet"))) > 3
        process.kill()
    (tmp_path / "trigmech-persons-of-others").mkdir()
    with PrivateTable(tmp_path / "visits.csv", SCHEMA) as table:
        assert not left.exists()
        assert table.n == N
    assert [path.name for path in tmp_path.glob("trigmech-persons-*")] == ["trigmech-persons-of-others"]


@pytest.mark.nightly  # By day buckets are gone with their run, below, and kept rows, in test_kept.py.
@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGHUP, marks=pytest.mark.nightly)])
def test_a_command_that_is_ended_leaves_no_rows_behind(number, tmp_path):
    visits().to_csv(tmp_path / "visits.csv", index=False)
    toml.save(tmp_path / "schema.toml", SCHEMA)
    (tmp_path / "temporary").mkdir()
    script = ("import time\nfrom trigmech.measurement import persons\npersons.NUMBERS_IN_A_BUCKET = 1_000\n"
              "def wait(self, *_):\n    print('made', flush=True)\n    time.sleep(600)\n"
              "persons.Buckets.tables = wait\n"
              "from trigmech.cli.app import main\nimport sys\nsys.argv = ['trigmech', 'release', 'visits.csv', "
              "'--schema', 'schema.toml', '--epsilon', '1', '--delta', '1e-6', '--out', 'out.tm']\nmain()")
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, cwd=tmp_path,
                          env={**os.environ, "TMPDIR": str(tmp_path / "temporary")}) as process:
        assert process.stdout.readline() == "made\n"
        assert len(list((tmp_path / "temporary").iterdir())) == 1
        process.send_signal(number)
        assert process.wait(60) == 128 + number
    assert list((tmp_path / "temporary").iterdir()) == []
    assert not (tmp_path / "out.tm").exists()


def test_buckets_are_gone_when_the_run_is_and_for_their_owner_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(persons, "NUMBERS_IN_A_BUCKET", 1_000)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    visits().to_csv(tmp_path / "visits.csv", index=False)
    table = PrivateTable(tmp_path / "visits.csv", SCHEMA)
    folder, = (each for each in tmp_path.iterdir() if each.is_dir())
    assert folder.stat().st_mode & 0o077 == 0
    held = [set(part.column("patient").to_pylist()) for part in table._buckets.tables()]
    assert len(held) > 3
    assert sum(map(len, held)) == len(set.union(*held)) == table.n == N
    with table:
        assert folder.exists()
    assert not folder.exists()
    tm.measure(tmp_path / "visits.csv", SCHEMA, tm.design(N, SCHEMA, BUDGET, smooth), np.random.default_rng(0))
    assert not [each for each in tmp_path.iterdir() if each.is_dir()]


def test_a_full_disk_is_said_before_anything_is_charged(tmp_path, monkeypatch):
    monkeypatch.setattr(persons, "NUMBERS_IN_A_BUCKET", 1_000)
    visits().to_csv(tmp_path / "visits.csv", index=False)
    book = tm.LedgerFile.create(tmp_path / "ledger.json", BUDGET)

    def full(*_, **__):
        raise OSError(28, os.strerror(28))

    # While rows are written, and before: no space for a folder, or no locks where it would be.
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    for place in ("trigmech.measurement.persons._write", "tempfile.mkdtemp", "fcntl.flock"):
        with monkeypatch.context() as patch:
            patch.setattr(place, full)
            with pytest.raises(InputError, match=r"\(see TMPDIR\): No space left"):
                persons.Buckets(TableFile(tmp_path / "visits.csv"), SCHEMA)
        assert not list(tmp_path.glob("trigmech-persons-*"))
    monkeypatch.setattr(persons, "_write", full)
    with pytest.raises(InputError, match=r"\(see TMPDIR\): No space left"):
        tm.synthesize(tmp_path / "visits.csv", SCHEMA, BUDGET, ledger=book)
    assert book.entries == ()


# Neighbours


@pytest.mark.daily("default")
@pytest.mark.parametrize("order", ["default", "smooth"])
def test_no_person_moves_what_is_drawn_for_further_than_is_charged(order, monkeypatch):
    # A person of up to a thousand rows, replaced by another: each draw's values, given the draws before.
    mechanism = None if order == "default" else smooth
    design = tm.design(60, SCHEMA, BUDGET, mechanism)
    rest = visits(59, seed=2)
    moved: dict[str, list[float]] = {}
    for seed in range(6):
        rng = np.random.default_rng(seed)
        values = []
        for _ in range(2):
            m = int(rng.choice([1, 2, 10, 1_000]))
            one = bool(rng.integers(2))
            own = pd.DataFrame({"patient": "x", "age": rng.integers(0, 120, 1 if one else m).repeat(m if one else 1),
                                "pressure": rng.choice([60.0, 240.0, np.nan], m),
                                "ward": rng.choice(list("abc"), 1 if one else m).repeat(m if one else 1)})
            seen = []

            class Seeing(SimulatedNoise):
                # No noise: of both tables all rounds ask the same of what the first released.
                def gaussian(self, values, scale, seen=seen):
                    seen.append(np.array(values))
                    return np.asarray(values) if len(seen) == 1 else values

            session_noise = Seeing(np.random.default_rng(0))
            monkeypatch.setattr("trigmech.run.SimulatedNoise", lambda _, noise=session_noise: noise)
            tm.measure(pd.concat([rest, own]), SCHEMA, design, np.random.default_rng(0))
            values.append(seen)
        for charge, first, second in zip(design.charges, *values, strict=False):
            if first.shape == second.shape:
                moved.setdefault(charge.purpose, []).append(float(np.linalg.norm(first - second)))
            else:
                break
        first = design.charges[0]
        assert max(moved[first.purpose]) <= first.sensitivity
    assert max(moved[design.charges[0].purpose]) > 0.3 * design.charges[0].sensitivity


def empirical_epsilon(first, second, scale, rng, gaussian, count=200_000):
    """A lower bound of epsilon of noise on two vectors, by an event of the direction between them."""
    direction = (first - second) / np.linalg.norm(first - second)
    draws = [values @ direction + (rng.normal(0, scale, count) if gaussian else 0.0) for values in (first, second)]
    delta, best = 1e-6, 0.0
    for threshold in np.quantile(draws[0], [0.3, 0.5, 0.7, 0.9]):
        hits = [int((draw >= threshold).sum()) for draw in draws]
        # Clopper and Pearson at 10^-9 each.
        low = stats.beta.ppf(1e-9, hits[0], count - hits[0] + 1)
        high = stats.beta.ppf(1 - 1e-9, hits[1] + 1, count - hits[1])
        best = max(best, float(np.log(max(low - delta, 1e-12) / high)))
    return best


@pytest.mark.parametrize("rows", [1, 100])
def test_replacing_a_person_of_many_rows_costs_no_more_than_the_budget(rows, monkeypatch):
    # The same seed for both: what is captured is what the noise is added to, and then drawn very often.
    schema = tm.Schema([tm.Column("age", 0, 120)], person="patient")
    design = tm.design(20, schema, BUDGET, tm.MomentMechanism(degree=1))
    charge = design.charges[0]

    def drawn_for(age):
        seen = []
        monkeypatch.setattr(SimulatedNoise, "gaussian",
                            lambda _, values, scale: seen.append(np.array(values)) or values)
        rest = pd.DataFrame({"patient": range(19), "age": np.linspace(0, 120, 19)})
        own = pd.DataFrame({"patient": "x", "age": np.full(rows, age)})
        tm.measure(pd.concat([rest.astype({"patient": str}), own]), schema, design, np.random.default_rng(0))
        return seen[0]

    rng = np.random.default_rng(1)
    ends = drawn_for(0.0), drawn_for(120.0)
    assert 0.3 < empirical_epsilon(*ends, charge.scale, rng, True) <= BUDGET.epsilon
    # Planted: rows that are counted.
    monkeypatch.setattr(sums, "_means", lambda values, counts, bits: values << bits)
    if rows > 1:
        counted = drawn_for(0.0), drawn_for(120.0)
        assert empirical_epsilon(*counted, charge.scale, rng, True) > BUDGET.epsilon


def test_private_categories_count_one_row_of_a_person():
    # A person of a thousand rows, and of a thousand keys, is in one count.
    schema = tm.Schema([tm.Column("ward", kind="categorical", private_categories=True)], person="patient")
    table = pd.DataFrame({"patient": ["x"] * 1_000 + ["y"] * 3, "ward": [f"w{k}" for k in range(1_000)] + ["q"] * 3})
    for noise in (SystemNoise(), SimulatedNoise(np.random.default_rng(0))):
        counted = []

        class Counting(Session):
            def select(self, values, charge, chosen, counted=counted):
                counted.append(np.array(values))
                return {"ward": ()}

        session = Counting(tm.Ledger(BUDGET, simulated=True), noise)
        rows = PrivateTable(table, schema).raw(schema)
        found_categories(rows, schema, selection_charges(BUDGET, 0.5, 1), session)
        assert counted[0].tolist() == [1.0, 1.0]


def test_which_row_of_a_person_counts_is_drawn_alike():
    schema = tm.Schema([tm.Column("ward", kind="categorical", private_categories=True)], person="patient")
    table = pd.DataFrame({"patient": np.repeat(np.arange(4_000), 4), "ward": ["a", "a", "a", "b"] * 4_000})
    counted = []

    class Counting(Session):
        def select(self, values, charge, chosen):
            counted.append(np.array(values))
            return {"ward": ()}

    session = Counting(tm.Ledger(BUDGET, simulated=True), SimulatedNoise(np.random.default_rng(1)))
    found_categories(PrivateTable(table, schema).raw(schema), schema, selection_charges(BUDGET, 0.5, 1), session)
    a, b = counted[0]
    assert a + b == 4_000
    # Six standard deviations: a false alarm in 10^9.
    assert abs(b - 1_000) < 6.2 * np.sqrt(4_000 * 0.25 * 0.75)


# What is refused


def test_a_row_of_nobody_is_refused():
    table = visits()
    for value in (None, np.nan, "", "  "):
        table.loc[7, "patient"] = value
        with pytest.raises(InputError, match="'patient', which identifies persons, must not have missing values"):
            tm.synthesize(table, SCHEMA, BUDGET)


def test_persons_are_texts_or_numbers():
    table = visits()
    with pytest.raises(InputError, match="'patient', which identifies persons, must hold texts or numbers"):
        tm.synthesize(table.assign(patient=[[1]] * len(table)), SCHEMA, BUDGET)


def test_the_estimator_gives_persons_in_any_container():
    model = tm.Synthesizer(SCHEMA, epsilon=1.0, delta=1e-6, random_state=0).fit(visits())
    names = ["patient", *SCHEMA.names]
    assert list(model.sample(4).columns) == names
    assert model.set_output(transform="polars").sample(4).columns == names


def test_so_it_is_in_a_file(tmp_path, monkeypatch):
    table = visits()
    table.loc[7, "patient"] = None
    table.to_csv(tmp_path / "visits.csv", index=False)
    for size in (1_000, 2**25):
        monkeypatch.setattr(persons, "NUMBERS_IN_A_BUCKET", size)
        with pytest.raises(InputError, match="which identifies persons, must not have missing values"):
            tm.synthesize(tmp_path / "visits.csv", SCHEMA, BUDGET)


def test_a_table_without_names_or_without_the_column_is_refused(tmp_path):
    with pytest.raises(InputError, match="give a dataframe or a file"):
        tm.synthesize([[30, 120.0, "a"]] * 5, SCHEMA, BUDGET)
    table = visits().drop(columns="patient")
    with pytest.raises(InputError, match="lacks the column"):
        tm.synthesize(table, SCHEMA, BUDGET)
    table.to_csv(tmp_path / "visits.csv", index=False)
    with pytest.raises(InputError, match="lacks the column"):
        tm.synthesize(tmp_path / "visits.csv", SCHEMA, BUDGET)


def test_one_person_alone_is_refused():
    with pytest.raises(InputError, match="at least 2 persons; the table has 1"):
        tm.synthesize(visits(1), SCHEMA, BUDGET)


@pytest.mark.parametrize(("person", "words"), [("age", "distinct"), ("", "the name of"), (3, "the name of")])
def test_a_schema_names_a_column_of_its_own_for_persons(person, words):
    with pytest.raises(InputError, match=words):
        tm.Schema(COLUMNS, person=person)


# The schema, and what comes out


def test_the_schema_keeps_the_name(tmp_path):
    assert tm.Schema.from_dict(SCHEMA.to_dict()) == SCHEMA
    assert "person" not in tm.Schema(COLUMNS).to_dict()
    assert tm.Schema(COLUMNS) != SCHEMA
    toml.save(tmp_path / "schema.toml", SCHEMA)
    assert tm.load_schema(tmp_path / "schema.toml") == SCHEMA
    assert PRIVATE.with_bounds({"pressure": (0.0, 1.0)}).person == "patient"


def test_a_synthetic_table_has_persons_of_as_many_rows_as_asked_for(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = tm.synthesize(visits(), SCHEMA, BUDGET, rng=np.random.default_rng(0))
    assert made.sample()["patient"].tolist() == list(range(1, N + 1))
    table = made.sample(rows_per_person=3)
    assert table["patient"].tolist() == [k for k in range(1, N + 1) for _ in range(3)]
    assert list(table.columns) == ["patient", *SCHEMA.names]
    assert made.sample(7, rows_per_person=3)["patient"].tolist() == [1, 1, 1, 2, 2, 2, 3]
    made.save(tmp_path / "made.tm")
    assert tm.load(tmp_path / "made.tm").sample(rows_per_person=2)["patient"].iloc[-1] == N
    with pytest.raises(InputError, match="rows_per_person"):
        made.sample(rows_per_person=0)
    plain = tm.synthesize(visits(), tm.Schema(COLUMNS), BUDGET, smooth, rng=np.random.default_rng(0))
    with pytest.raises(InputError, match="whose schema has a column of persons"):
        plain.sample(rows_per_person=2)


def test_a_bucket_has_32_mebibytes_of_numbers_and_buckets_are_few_enough_to_be_open_at_once():
    assert 8 * persons.NUMBERS_IN_A_BUCKET == 32 * 2**20
    assert persons.MOST_BUCKETS == 512
