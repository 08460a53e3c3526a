"""The command line as a user meets it: what it writes, what it says to wrong input, and what it leaves behind."""

import csv
import functools
import gzip
import io
import json
import os
import platform
import re
import shlex
import shutil
import signal
import subprocess
import sys
import types
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer
from sklearn.datasets import load_breast_cancer

import trigmech as tm
from trigmech import synthesis
from trigmech.cli import copies, demo
from trigmech.cli import release as cli_release
from trigmech.cli.app import app, main
from trigmech.cli.given import given_of, shares_of
from trigmech.errors import (
    InputError,
    MissingLibraryError,
    PaidError,
    SolverError,
    UncertainChargeError,
    WorkerError,
)
from trigmech.evaluation.distances import Evaluation
from trigmech.measurement import release as release_module
from trigmech.mechanisms import default
from trigmech.mechanisms import table as table_module
from trigmech.privacy.budget import Budget
from trigmech.report import page as report
from trigmech.schema import toml as schema_file
from trigmech.tables.reader import TableFile
from trigmech.workload import GaussianKernels

ROWS = 150
SCHEMA = """\
[columns.age]
kind = "integer"
lower = 18
upper = 100
missing = "keep"

[columns.income]
kind = "continuous"
lower = 0
upper = 100000

[columns.colour]
kind = "categorical"
categories = ["red", "green", "blue"]

[columns.joined]
kind = "datetime"
lower = 2010-01-01
upper = 2020-12-31
"""
# What a release says whatever its table holds.
ADVICE = ("trigmech: infinite values and values outside the bounds count as the nearest bound, and a release never "
          "shows whether the table has such values; `trigmech check data.csv --schema schema.toml` counts them, "
          "for you alone")
NAMES = ["age", "income", "colour", "joined"]
# A value of the table that no output may show.
SECRET = "54321.987"


def table_text(header=True):
    rng = np.random.default_rng(1)
    lines = [",".join(NAMES)] if header else []
    for i in range(ROWS):
        age = "" if rng.uniform() < 0.1 else rng.integers(18, 90)
        day = np.datetime64("2010-01-01") + rng.integers(0, 4000)
        income = SECRET if i == 3 else f"{rng.uniform(1e3, 9e4):.2f}"
        lines.append(f"{age},{income},{rng.choice(['red', 'green', 'blue'])},{day}")
    return "\n".join(lines) + "\n"


def northern_text():
    """The same table as a spreadsheet of another country saves it."""
    rows = [line.split(",") for line in table_text().splitlines()]
    lines = [";".join(rows[0])]
    for age, income, colour, joined in rows[1:]:
        lines.append(";".join([age, income.replace(".", ","), colour.replace("red", "röt"),
                               ".".join(reversed(joined.split("-")))]))
    return "\r\n".join(lines) + "\r\n"


@pytest.fixture(autouse=True)
def few_points(monkeypatch):
    """A release with few points is as good an output as any other, and quicker."""
    monkeypatch.setattr(default, "TableMechanism", functools.partial(tm.TableMechanism, points=256))


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Run the command line in this process, below a temporary folder; return its status and what it printed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")

    def call(*arguments, stdin=None):
        monkeypatch.setattr(sys, "argv", ["trigmech", *arguments])
        if stdin is not None:
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        with pytest.raises(SystemExit) as ending:
            main()
        printed = capsys.readouterr()
        return ending.value.code or 0, printed.out, " ".join(printed.err.split())

    return call


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with a table, its schema, a release of it (simulated), and a ledger file with some budget left."""
    folder = tmp_path_factory.mktemp("made")
    (folder / "data.csv").write_text(table_text())
    (folder / "schema.toml").write_text(SCHEMA)
    release = tm.synthesize(folder / "data.csv", schema_file.load(folder / "schema.toml").schema, Budget(1.0, 1e-4),
                            tm.MomentMechanism(points=256, iterations=2), np.random.default_rng(1))
    release.save(folder / "clinic.tm")
    tm.LedgerFile.create(folder / "ledger.json", Budget(1.5, 1e-4))
    return folder


@pytest.fixture
def clinic(made, tmp_path):
    """A copy of that folder, which ``run`` runs in."""
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    return tmp_path


def content(folder):
    """All files but locks, which hold nothing."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*"))
            if path.is_file() and path.suffix != ".lock"}


NORTHERN = ("release", "northern.csv", "--schema", "schema.toml", "--epsilon", "1", "--delta", "1e-4", "--out",
            "new.tm", "--delimiter", ";", "--encoding", "cp1252", "--decimal", ",", "--date-format", "%d.%m.%Y")
RELEASE = ("release", "data.csv", "--schema", "schema.toml", "--epsilon", "1", "--delta", "1e-4", "--out", "new.tm")


# From a CSV to a published table


def test_a_schema_is_begun_completed_and_checked(run, tmp_path):
    (tmp_path / "data.csv").write_text(table_text())
    status, said, _ = run("schema", "init", "data.csv")
    assert status == 0
    assert "[columns.joined]" in said
    assert SECRET not in said
    status, told, _ = run("schema", "init", "data.csv", "--out", "schema.toml")
    assert (status, Path("schema.toml").read_text()) == (0, said)
    assert "trigmech schema check schema.toml" in told
    status, problems, _ = run("schema", "check", "schema.toml")
    assert status == 3
    assert len(problems.splitlines()) == 7
    status, problems, _ = run("schema", "check", "schema.toml", "--json")
    assert status == 3
    assert len(json.loads(problems)["problems"]) == 7
    Path("schema.toml").write_text(SCHEMA)
    assert run("schema", "check", "schema.toml")[:2] == (0, (
        "schema.toml is complete\n"
        "numbers are rounded to whole numbers, as fits the range (set decimals to change this): 'income'\n"
        "times are whole days; finer parts are cut off (set resolution to change this): 'joined'\n"
        "next: trigmech check DATA --schema schema.toml   (for you alone: all that a release would refuse or clip)\n"))
    told = run("schema", "check", "schema.toml", "--against", "data.csv")
    assert "next:" not in told[1]
    assert told[2].startswith("NOT PRIVATE, for you alone:")
    status, said, _ = run("schema", "init", "-", "--no-header", "--out", "-", stdin=table_text(header=False))
    assert status == 0
    assert "header = false" in said


def test_a_release_with_its_ledger_and_tables(run, clinic):
    status, said, told = run(*RELEASE, "--ledger", "book.json", "--csv", "synth.csv.gz", "--rows", "40")
    assert (status, told) == (
        0, f"{ADVICE} the ledger book.json did not exist; it was made with (1, 0.0001) as the data set's total budget. "
           "If the data set has a ledger of another name, add this charge there: `trigmech ledger add`")
    assert "proved: (" in said
    assert "NOT PRIVATE" not in said
    assert said.splitlines()[-2] == (
        "written: new.tm and synth.csv.gz (40 rows, 40 of them different; 256 rows were fitted)")
    assert tm.load("new.tm").release.n == ROWS
    # Named after the ledger, as `ledger create` does, and not after one of the releases that it will hold.
    assert tm.LedgerFile.open("book.json").data_set == "book"
    with gzip.open("synth.csv.gz", "rt") as file:
        rows = list(csv.DictReader(file))
    assert (len(rows), list(rows[0])) == (40, NAMES)
    assert {row["colour"] for row in rows} <= {"red", "green", "blue"}
    assert all(0.0 <= float(row["income"]) <= 1e5 for row in rows)
    assert all("2010-01-01" <= row["joined"] <= "2020-12-31" for row in rows)
    book = tm.LedgerFile.open("book.json")
    assert 0.9 < book.total <= 1.0
    # All of it is spent: nothing more is released, and nothing written.
    before = content(clinic)
    status, _, told = run(*RELEASE[:-1], "second.tm", "--ledger", "book.json", "--csv", "second.csv")
    assert status == 4
    assert "over the budget (1, 0.0001)" in told
    assert f"trigmech ledger show {clinic.resolve() / 'book.json'}" in told
    assert told.endswith("Nothing was written")
    assert content(clinic) == before
    assert sorted(path.name for path in clinic.iterdir() if path.name.startswith((".", "second"))) == []


def test_a_release_says_the_same_whatever_does_not_fit_its_schema(run, clinic):
    """Values that are clipped are counted by a private command, of which a release always tells."""
    names, *rows = Path("data.csv").read_text().splitlines()
    told = []
    for income in ("50000", "inf", "-1e300", "99999999999999999999999999"):
        odd = [",".join([*row.split(",")[:1], income, *row.split(",")[2:]]) for row in rows]
        Path("data.csv").write_text("\n".join([names, *odd, ""]))
        status, _, said = run(*RELEASE, "--force", "--ledger", f"{len(told)}.json", "--dry-run")
        assert status == 0
        with_noise = run(*RELEASE, "--force", "--simulate", "1")
        assert with_noise[0] == 0
        told.append((said.replace(f"{len(told)}.json", ""), with_noise[2].splitlines()[0]))
        # The command that it names counts what is odd.
        counted = run(*shlex.split(ADVICE.split("`")[1])[1:])[1]
        assert (f"'income': {len(rows)} " in counted) == (len(told) > 1)
    assert len(set(told)) == 1
    assert told[0][1] == ADVICE


def test_a_release_from_standard_input_to_standard_output_and_for_machines(run, clinic):
    status, said, told = run(*RELEASE[:1], "-", *RELEASE[2:], "--simulate", "1", "--csv", "-", "--rows", "5",
                             stdin=table_text())
    assert status == 0
    rows = list(csv.reader(io.StringIO(said)))
    assert (len(rows), rows[0]) == (6, NAMES)
    assert "NOT PRIVATE" in told
    assert " written: new.tm and standard output (5 rows, " in " ".join(told.split())
    points = tm.load("new.tm").distribution.points
    status, said, told = run(*RELEASE, "--force", "--simulate", "1", "--json", "--csv", "synth.parquet")
    assert (status, told) == (0, "")
    facts = json.loads(said)
    assert (facts["release"], facts["table"], facts["n"], facts["simulated"]) == ("new.tm", "synth.parquet", ROWS, True)
    assert 0.9 < facts["proved_epsilon"] <= 1.0
    assert facts["ledger"]["simulated"] is True
    assert f"trigmech: {facts['advice']}" == ADVICE
    assert pq.read_table("synth.parquet").shape == (ROWS, 4)
    np.testing.assert_array_equal(tm.load("new.tm").distribution.points, points)


def test_samples_repeat_with_a_seed_and_go_where_they_are_told(run, clinic):
    fitted = f"{len(tm.load('clinic.tm').distribution.points):,}"
    status, said, told = run("sample", "clinic.tm", "--rows", "7", "--seed", "3")
    assert (status, told) == (0, f"written: standard output (7 rows, 7 of them different; {fitted} rows were fitted)")
    assert len(said.splitlines()) == 8
    assert run("sample", "clinic.tm", "--rows", "7", "--seed", "3", "--out", "synth.csv") == (
        0, f"written: synth.csv (7 rows, 7 of them different; {fitted} rows were fitted)\n", "")
    assert Path("synth.csv").read_text() == said
    assert run("sample", "clinic.tm", "--rows", "7", "--seed", "4")[1] != said
    status, _, _ = run("sample", "clinic.tm", "--out", "synth.parquet")
    assert pq.read_table("synth.parquet").shape == (ROWS, 4)


def test_equal_rows_are_counted(run, tmp_path):
    schema = tm.Schema([tm.Column("c", kind="categorical", categories=("a", "b"))], person="who")
    rows = pa.table({"who": np.arange(80), "c": np.repeat(["a", "b"], 40)})
    mechanism = tm.TableMechanism(points=64)
    tm.synthesize(rows, schema, tm.Budget(9.0, 1e-6), mechanism, np.random.default_rng(0)).save("c.tm")
    status, said, _ = run("sample", "c.tm", "--rows", "1500", "--out", "c.csv")
    # Numbers of persons are made for the sample.
    assert (status, said) == (0, "written: c.csv (1,500 rows, 2 of them different; 64 rows were fitted)\n")
    assert len(set(Path("c.csv").read_text().split())) == 1_501


def test_samples_have_what_is_given_and_the_shares(run, clinic):
    def rows(*asked):
        status, said, told = run("sample", "clinic.tm", "--rows", "40", "--seed", "3", *asked)
        found = said.splitlines()[1:]
        # Others were fitted than those of the release, perhaps.
        assert (status, told) == (0, f"written: standard output (40 rows, {len(set(found))} of them different)")
        return list(csv.DictReader(io.StringIO(said)))

    asked = ["--given", "colour=red", "--given", "income=0..60000", "--shares"]
    made = rows(*asked, "joined=2010-01-01..2014-12-31:0.25,2015-01-01..2020-12-31:0.75")
    assert made == rows(*asked, "joined:2010-01-01..2014-12-31=0.25,2015-01-01..2020-12-31=0.75")
    assert {row["colour"] for row in made} == {"red"}
    assert all(0 <= float(row["income"]) <= 60_000 for row in made)
    assert sum(row["joined"] < "2015" for row in made) == 10
    assert {row["age"] for row in rows("--given", "age=")} == {""}


@pytest.mark.parametrize(("asked", "message"), [
    (["--given", "colour"], "--given must be name=value, once for each column, not 'colour'"),
    (["--given", "colour=red", "--given", "colour=red"], "--given must be name=value, once for each column"),
    (["--given", "place=red"], "there is no column 'place'; the columns are 'age', 'income', 'colour', 'joined'"),
    (["--given", "age=old"], "a value of 'age' must be a number, not 'old'"),
    (["--given", "colour=pink"], "'colour' has no category 'pink'; its categories are 'red', 'green', 'blue'"),
    (["--shares", "colour=pink:1"], "'colour' has no category 'pink'; its categories are 'red', 'green', 'blue'"),
    (["--shares", "colour=red"], "--shares must be name=value:share,value:share, once for each column"),
    (["--shares", "colour=red:0.5", "--shares", "colour:red=0.5"], "--shares must be name=value:share"),
    (["--shares", "colour=red:half"], "a share must be a number, not 'half'"),
    (["--shares", "place=red:1"], "there is no column 'place'"),
    (["--shares", "colour:red=half"], "a share must be a number, not 'half'"),
    (["--shares", "colour:red=0.5,red=0.5"], "--shares has a value twice"),
    (["--shares", "colour:red=0.5,blue=0.6"], "from 0 to 1 with the sum 1")])
def test_what_cannot_be_given_is_wrong_input(run, clinic, asked, message):
    status, said, told = run("sample", "clinic.tm", "--rows", "4", *asked)
    assert (status, said) == (2, "")
    assert message in told


def test_a_sample_is_whole_where_standard_output_takes_parts(run, clinic, monkeypatch):
    class Parts(io.RawIOBase):
        taken = b""

        def writable(self):
            return True

        def write(self, data):
            self.taken += bytes(data[:1000])
            return min(len(data), 1000)

    parts = Parts()
    monkeypatch.setattr(sys, "stdout", types.SimpleNamespace(buffer=parts))
    assert run("sample", "clinic.tm", "--rows", "100")[0] == 0
    assert parts.taken.count(b"\n") == 101
    assert not parts.closed


def test_columns_of_one_name_are_named_by_their_places_to_whoever_writes_the_schema(run, tmp_path):
    (tmp_path / "twice.csv").write_text("a;secret;b;secret;a\n1;2;3;4;5\n")
    status, _, told = run("schema", "init", "twice.csv", "--delimiter", ";")
    assert status == 2
    assert "two columns have the same name: columns 1, 2, 4, 5; rename or remove some of them" in told
    assert "secret" not in told
    status, _, told = run("schema", "init", "none.csv")
    assert (status, told) == (2, "trigmech: cannot read 'none.csv': there is no such file")


def test_whoever_forgets_how_the_table_is_written_is_told_of_the_schema_file(run, clinic):
    (clinic / "odd.csv").write_text(table_text().replace(",", ";"))
    for command in ("evaluate", "report"):
        status, _, told = run(command, "clinic.tm", "--against", "odd.csv")
        assert status == 2
        assert "If a schema file says how the table is written, give --schema schema.toml" in told
    status, _, told = run("evaluate", "clinic.tm", "--against", "odd.csv", "--schema", "schema.toml")
    assert status == 2
    assert "give --schema" not in told
    # It does not help against a file that is absent, empty or no table.
    (clinic / "empty.csv").touch()
    for name, fault in (("none.csv", "no such file"), ("empty.csv", "it is empty"), ("clinic.tm", "it is a release")):
        status, _, told = run("evaluate", "clinic.tm", "--against", name)
        assert (status, fault in told, "give --schema" in told) == (2, True, False)


def test_another_table_than_the_release_was_made_from_is_refused_with_what_helps(run, clinic):
    (clinic / "other.csv").write_text(table_text().replace("green", "elsewhere"))
    for command in ("evaluate", "report"):
        status, _, told = run(command, "clinic.tm", "--against", "other.csv")
        assert status == 2
        assert "compare the release with the table that it was made from" in told
        assert "elsewhere" not in told
    assert not list(clinic.glob("*.html"))


def test_what_is_compared_with_the_table_says_that_it_is_not_private(run, clinic, monkeypatch):
    (clinic / "bare.csv").write_text(table_text(header=False))
    (clinic / "bare.toml").write_text("[file]\nheader = false\n\n" + SCHEMA)
    status, said, told = run("evaluate", "clinic.tm", "--against", "data.csv")
    assert status == 0
    assert told.startswith("NOT PRIVATE")
    assert "measure" in said
    status, said, _ = run("evaluate", "clinic.tm", "--against", "bare.csv", "--schema", "bare.toml", "--json")
    found = json.loads(said)
    assert found.pop("private") is True
    for judged in ("verdict", "uses", "rows", "measures", "details", "lights"):
        del found[judged]
    assert found.pop("how many of these queries were asked") == {
        "Gaussian kernels": 10_000, "pair kernels": 1_000, "second moments": 6}
    assert list(found["total variation of frequencies"]) == ["age", "colour"]
    assert list(found["largest difference of distribution functions"]) == ["age", "income", "joined"]
    assert all(0.0 <= value < 0.6 for figures in found.values() for value in figures.values())
    given = {}

    def write(made, path, against, figures, progress, limits, held_out):
        progress("drawing columns", 1, 4)
        given.update(against=against, figures=figures)
        return path

    monkeypatch.setattr(report, "write", write)
    bare = ("--against", "bare.csv", "--schema", "bare.toml")
    status, said, told = run("report", "clinic.tm", *bare, "--figures", "figures")
    assert (status, said) == (0, "written: clinic.html and figures in figures\n")
    assert "NOT PRIVATE: the page shows the private table" in told
    assert (given["against"].shape, given["figures"]) == ((ROWS, 4), Path("figures"))


def test_a_ledger_file_is_made_shown_and_verified(run, clinic):
    status, said, _ = run("ledger", "create", "book.json", "--epsilon", "3", "--delta", "1e-6", "--data-set", "clinic")
    assert (status, said) == (0, "written: book.json\n")
    assert run(*RELEASE[:-3], "0", *RELEASE[-2:], "--ledger", "book.json")[0] == 0
    status, said, _ = run("ledger", "show", "book.json")
    assert status == 0
    assert "data set: clinic" in said
    assert "accepted next: a " in said
    facts = json.loads(run("ledger", "show", "book.json", "--json")[1])
    assert facts["budget"] == {"epsilon": 3.0, "delta": 1e-6}
    assert len(facts["entries"]) >= 2
    assert run("ledger", "verify", "book.json")[0] == 0
    assert json.loads(run("ledger", "verify", "book.json", "--json")[1]) == {"file": "book.json", "problems": [],
                                                                            "claimed": 0}
    changed = re.sub(r'"scale": [0-9.e-]+', '"scale": 99.5', Path("book.json").read_text(), count=1)
    Path("book.json").write_text(changed)
    status, said, _ = run("ledger", "verify", "book.json")
    assert status == 3
    assert "entry 1 was changed" in said


@pytest.mark.parametrize(("kind", "bounds"), [
    ("gaussian", "lower = 0\nupper = 100000"), ("gaussian", 'bounds = "private"'),
    ("pure", "lower = 0\nupper = 100000")])
def test_what_a_ledger_says_may_come_next_is_what_a_release_is_given(run, clinic, kind, bounds):
    Path("schema.toml").write_text(SCHEMA.replace("lower = 0\nupper = 100000", bounds))
    delta = "1e-6" if kind == "gaussian" else "0"
    assert run("ledger", "create", "book.json", "--epsilon", "2", "--delta", "1e-6")[0] == 0
    first = (*RELEASE[:5], "0.6", "--delta", delta, "--out", "first.tm", "--ledger", "book.json")
    assert run(*first)[0] == 0
    shown = run("ledger", "show", "book.json")[1]
    left = json.loads(run("ledger", "show", "book.json", "--json")[1])["remaining"][kind]
    text = re.search(rf"a {kind.replace('g', 'G', 1)} release of up to \(?epsilon = ([0-9.e-]+)", shown)[1]
    assert float(text) == left
    # A thousandth more is refused, and nothing is written; what was printed is accepted, and uses nearly all.
    before = content(clinic)
    rest = ("--delta", delta, "--out", "new.tm", "--ledger", "book.json")
    status, _, told = run(*RELEASE[:5], f"{left * 1.001:.9g}", *rest)
    assert (status, f"epsilon = {text}" in told) == (4, True)
    assert content(clinic) == before
    assert run(*RELEASE[:5], text, *rest)[0] == 0
    assert 1.998 < tm.LedgerFile.open("book.json").total <= 2.0


def test_a_budget_is_raised_and_what_other_tools_claim_is_added(run, tmp_path):
    assert run("ledger", "create", "book.json", "--epsilon", "1", "--delta", "1e-6", "--reserve-delta", "2e-7")[0] == 0
    claim = ("--purpose", "mean age", "--by", "SmartNoise 1.0")
    add = ("ledger", "add", "book.json", "--epsilon", "0.4", *claim, "--neighbours")
    status, said, _ = run(*add, "replace-one", "--delta", "1e-8", "--count", "2")
    assert status == 0
    assert "claimed by SmartNoise 1.0, not proved here; accepted next: " in said
    before = content(tmp_path)
    for more, status, words in (
            (("add-remove",), 4, "over the budget (1, 1e-06)"), (("rows",), 2, "neighbours must be one of"),
            (("replace-one", "--delta", "nan"), 2, "delta must be"), (("replace-one", "--count", "0"), 2, "--count")):
        ended, _, told = run(*add, *more)
        assert ended == status, more
        assert words in told
    assert run("ledger", "raise", "book.json", "--epsilon", "0.5")[0] == 4
    assert run("ledger", "raise", "book.json", "--epsilon", "5", "--delta", "1e-7")[0] == 4
    assert content(tmp_path) == before
    status, said, _ = run("ledger", "raise", "book.json", "--epsilon", "2")
    assert status == 0
    assert said.startswith("book.json: the budget was (1, 1e-06) and is now (2, 1e-06); accepted next: ")
    assert run(*add, "add-remove")[0] == 0
    status, said, _ = run("ledger", "verify", "book.json")
    assert status == 0
    assert "2 of the charges are claims of other tools, which cannot be verified here" in said
    assert json.loads(run("ledger", "verify", "book.json", "--json")[1])["claimed"] == 2
    said = run("ledger", "show", "book.json")[1]
    assert "the budget was raised from (1, 1e-06), reserve 2e-07 to (2, 1e-06), reserve 2e-07" in said


def test_what_was_written_is_told_to_machines(run, clinic):
    def facts(*arguments):
        status, said, _ = run(*arguments, "--json")
        assert status == 0
        return json.loads(said)

    assert facts("sample", "clinic.tm", "--rows", "7", "--seed", "3", "--out", "synth.csv") == {
        "release": "clinic.tm", "table": "synth.csv", "rows": 7, "different": 7,
        "fitted": len(tm.load("clinic.tm").distribution.points), "columns": NAMES, "seed": 3, "simulated": True,
        "note": copies.NOT_VALID}
    again = facts("sample", "clinic.tm", "--out", "synth.csv", "--force")
    assert again["rows"] == len(Path("synth.csv").read_text().split()) - 1
    status, _, told = run("sample", "clinic.tm", "--json")
    assert status == 2
    assert "name a file with --out" in told
    assert facts("report", "clinic.tm") == {"release": "clinic.tm", "page": "clinic.html", "private": False,
                                            "figures": None}
    made = facts("ledger", "create", "book.json", "--epsilon", "3")
    assert (made["data_set"], made["remaining"]["pure"], made["entries"]) == ("book", 3.0, [])
    begun = facts("schema", "init", "data.csv", "--out", "begun.toml")
    assert begun == {"file": "begun.toml", "schema": Path("begun.toml").read_text()}


@pytest.mark.parametrize("command", [("sample", "clinic.tm", "--out"), (*RELEASE, "--simulate", "1", "--csv")])
def test_a_table_that_is_there_stays_unless_it_is_said(run, clinic, command):
    Path("theirs.csv").write_text("the only table\n")
    status, _, told = run(*command, "theirs.csv")
    assert status == 2
    assert "'theirs.csv' exists; name another file, or give --force" in told
    assert Path("theirs.csv").read_text() == "the only table\n"
    assert not Path("new.tm").exists()
    assert run(*command, "theirs.csv", "--force")[0] == 0
    assert Path("theirs.csv").read_text().startswith(",".join(NAMES))


def test_a_column_is_given_whatever_signs_its_name_has():
    schema = tm.Schema([tm.Column(name, kind="categorical", categories=("1", "y=3")) for name in (
        "x", "x=y", "=SUM(A1)", "b:c", "b")])
    assert given_of(schema, ["x=y=1", "=SUM(A1)=1", "b:c=y=3", "x=1"]) == {
        "x=y": "1", "=SUM(A1)": "1", "b:c": "y=3", "x": "1"}
    # The same by either syntax.
    for texts in (["b:c:1=0.5,y=3=0.5", "b:1=1"], ["b:c=1:0.5,y=3:0.5", "b=1:1"], ["b:c=1:0.5,y=3:0.5", "b:1=1"]):
        assert shares_of(schema, texts) == {"b:c": {"1": 0.5, "y=3": 0.5}, "b": {"1": 1.0}}
    assert shares_of(schema, ["x=y=1:1", "=SUM(A1)=y=3:1"]) == {"x=y": {"1": 1.0}, "=SUM(A1)": {"y=3": 1.0}}
    with pytest.raises(InputError, match="there is no column 'z'"):
        given_of(schema, ["z=1"])


def test_a_derived_column_is_not_given_and_the_message_says_why():
    schema = tm.Schema([tm.Column("a", 0, 1)], derived={"twice a": "2 * a"})
    for wrong, given in ((given_of, "twice a=1..2"), (shares_of, "twice a=1:1")):
        with pytest.raises(InputError, match="column 'twice a' is derived, so its values follow from other columns"):
            wrong(schema, [given])


def test_the_command_is_a_module_too():
    done = subprocess.run([sys.executable, "-m", "trigmech", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"trigmech {tm.__version__}\n"


def test_the_version_and_the_steps_are_told_when_asked_for(run, clinic):
    assert run("--version") == (0, f"trigmech {tm.__version__}\n", "")
    for option in ("-v", "--verbose"):
        status, _, told = run(option, *RELEASE, "--simulate", "1", "--force")
        assert status == 0
        for step in (f"releasing {ROWS} rows of 4 columns", "charged (simulated): columns", "released 4 columns",
                     "drawn: 6 tables", "fitted 256 points"):
            assert f"trigmech: {step}" in told
        assert SECRET not in told
    # It ends with the command.
    assert run(*RELEASE, "--simulate", "1", "--force")[2] == ADVICE


@pytest.mark.daily("40")
@pytest.mark.parametrize("rows", ["40", "600"])  # fewer and more than are fitted
def test_a_simulation_writes_the_same_rows_again_and_no_release_does(run, clinic, rows):
    tables = []
    for k, seed in enumerate((["--simulate", "1"], ["--simulate", "1"], ["--simulate", "2"], [], [])):
        assert run(*RELEASE[:-1], f"{k}.tm", *seed, "--csv", f"{k}.csv", "--rows", rows)[0] == 0
        tables.append(Path(f"{k}.csv").read_bytes())
    assert tables[0] == tables[1]
    assert len(set(tables)) == 4


def test_a_dry_run_says_what_the_budget_will_buy_and_leaves_everything_as_it_was(run, clinic):
    before = content(clinic)
    told = {}
    for ledger in ("ledger.json", "absent.json"):
        status, told[ledger], warned = run(*RELEASE, "--dry-run", "--ledger", ledger, "--csv", "synth.csv")
        assert status == 0
        assert "150 rows are few for 4 columns at this budget" in warned
    assert "there is room for it" in told["ledger.json"]
    assert "ledger absent.json does not exist; a release would make it with (1, 0.0001)" in told["absent.json"]
    for words in (f"{ROWS} rows, budget (1, 0.0001)", "income  mean: ± ", "colour  frequency of a category: ± ",
                  "age     share of a special or missing value: ± ", "joined  mean: ± "):
        assert words in told["ledger.json"], words
    (proved,) = re.findall(r"proved: \((\S+), 0.0001\)", told["ledger.json"])
    assert 0.9999 < float(proved) <= 1.0
    status, said, _ = run(*RELEASE[:6], "--out", "new.tm", "--dry-run", "--json", "--epsilon", "20")
    facts = json.loads(said)
    assert (status, facts["dry_run"], facts["n"], facts["ledger"]) == (0, True, ROWS, None)
    assert facts["warnings"] == list(tm.preview(ROWS, schema_file.load("schema.toml").schema, Budget(20.0)).warnings)
    assert "epsilon = 20 is above 10" in facts["warnings"][0]
    assert f"trigmech: {facts['advice']}" == ADVICE
    assert content(clinic) == before


def test_a_dry_run_of_persons_reads_their_column_alone(run, clinic):
    table, schema = Path("data.csv").read_text().splitlines(), Path("schema.toml").read_text()
    table[9] = "x," + table[9].split(",", 1)[1]
    rows = [f"p{k // 2},{row}" for k, row in enumerate(table[1:])]
    Path("visits.csv").write_text("\n".join([f"who,{table[0]}", *rows]))
    Path("persons.toml").write_text('person = "who"\n' + schema)
    status, said, _ = run("release", "visits.csv", "--schema", "persons.toml", "--epsilon", "1", "--delta", "1e-6",
                          "--out", "visits.tm", "--dry-run")
    assert status == 0
    assert f"{-(-ROWS // 2):,} persons, budget" in said
    assert "no cell was read except the persons' identifiers" in said
    status, _, told = run("release", "visits.csv", "--schema", "persons.toml", "--epsilon", "1", "--delta", "1e-6",
                          "--out", "visits.tm")
    assert (status, "holds a cell" in told) == (2, True)


def test_a_dry_run_looks_at_no_cell(run, clinic, monkeypatch):
    monkeypatch.setattr(TableFile, "chunks", None)
    monkeypatch.setattr(TableFile, "first_rows", None)
    assert run(*RELEASE, "--dry-run")[0] == 0
    assert run("release", "data.csv", "--schema", "schema.toml", "--epsilon", "1", "--out", "ledger.json",
               "--dry-run")[0] == 2


def test_warnings_come_before_the_budget_is_spent_and_with_the_facts_for_machines(run, clinic):
    (clinic / "few.csv").write_text("".join(table_text().splitlines(keepends=True)[:31]))
    few = ("release", "few.csv", *RELEASE[2:4], "--epsilon", "11", "--out", "new.tm", "--simulate", "1")
    status, _, told = run(*few)
    assert status == 0
    assert [words in told for words in ("epsilon = 11 is above 10", "30 rows are few", "no delta")] == [1, 1, 0]
    status, said, told = run(*few, "--force", "--json")
    assert json.loads(said)["warnings"][:2] == [line.strip() for line in told.split("trigmech: warning: ")[1:3]]
    # Whoever gives a delta of 0 is not asked about it.
    columns = [f"x{j}" for j in range(20)]
    (clinic / "wide.csv").write_text(",".join(columns) + "\n" + 100 * (",".join("0" * 20) + "\n"))
    (clinic / "wide.toml").write_text("".join(
        f'[columns.{name}]\nkind = "continuous"\nlower = 0\nupper = 1\n' for name in columns))
    wide = ("release", "wide.csv", "--schema", "wide.toml", "--epsilon", "1", "--out", "wide.tm", "--dry-run")
    assert "delta is not given: with delta = 0.001" in run(*wide)[2]
    assert "no delta" not in run(*wide, "--delta", "0")[2]


@pytest.mark.nightly
def test_a_table_of_another_country_goes_from_its_file_to_a_page(run, clinic):
    (clinic / "data.csv").write_text(northern_text(), encoding="cp1252")
    options = NORTHERN[-8:]
    assert run("schema", "init", "data.csv", *options, "--out", "new.toml")[0] == 0
    begun = Path("new.toml").read_text()
    file = begun[begun.index("[file]"):begun.index("# lower and upper")]
    assert file == ('[file]\ndelimiter = ";"\ndecimal = ","\nencoding = "cp1252"\ndate_format = "%d.%m.%Y"\n\n')
    assert re.findall(r'kind = "(\w+)"$', begun, re.MULTILINE) == ["integer", "continuous", "categorical", "datetime"]
    schema = SCHEMA.replace('"red"', '"röt"')
    Path("new.toml").write_text(file + schema, encoding="utf-8")
    Path("bare.toml").write_text('[file]\ndelimiter = "|"\n' + schema, encoding="utf-8")
    assert run("schema", "check", "new.toml")[0] == 0
    release = ("release", "data.csv", *RELEASE[4:], "--simulate", "1", "--json")
    assert run(*release, "--schema", "new.toml")[0] == 0
    points = tm.load("new.tm").distribution.points
    # Options that are given come before those of the schema file.
    assert run(*release, "--schema", "bare.toml", *options, "--csv", "new.tsv", "--force")[0] == 0
    np.testing.assert_array_equal(tm.load("new.tm").distribution.points, points)
    assert Path("new.tsv").read_text().startswith("\t".join(NAMES))
    figures = run("evaluate", "new.tm", "--against", "data.csv", *options, "--json")
    assert figures[0] == 0
    assert run("evaluate", "new.tm", "--against", "data.csv", "--schema", "new.toml", "--json") == figures
    assert run("evaluate", "new.tm", "--against", "new.tsv", "--json")[0] == 0
    assert run("report", "new.tm", "--against", "data.csv", "--schema", "new.toml")[0] == 0
    for name in ("tab", r"\t"):
        (clinic / "tabs.csv").write_text(table_text().replace(",", "\t"))
        assert r'delimiter = "\t"' in run("schema", "init", "tabs.csv", "--delimiter", name)[1]


def test_private_categories_are_found_and_a_ledger_made_for_it_has_a_reserve(run, clinic):
    text = SCHEMA.replace('["red", "green", "blue"]', '"private"')
    (clinic / "private.toml").write_text(text)
    assert run("schema", "check", "private.toml")[0] == 0
    options = ("--schema", "private.toml", "--epsilon", "20", "--delta", "1e-4", "--ledger", "book.json")
    assert run("release", "data.csv", *options, "--out", "new.tm")[0] == 0
    assert tm.load("new.tm").schema.columns[2].categories == ("blue", "green", "red", "other")
    book = tm.LedgerFile.open("book.json")
    assert (book.reserve_delta, book.verify()) == (1e-5, [])
    assert [entry.charge.law for entry in book.entries[:2]] == ["gaussian", "threshold"]
    assert "epsilon = 20" in run("release", "data.csv", *options, "--out", "newer.tm")[2]
    assert "delta > 0" in run("release", "data.csv", *options[:4], "--out", "newer.tm")[2]
    assert "frequency of a category" in run("release", "data.csv", *options[:6], "--out", "newer.tm", "--dry-run")[1]
    assert not (clinic / "newer.tm").exists()


# Mistakes


WRONG = [
    # Usage
    (2, ("dmeo",), "No such command"),
    (2, (*RELEASE, "--epsilon", "0"), "epsilon must be positive and finite, not 0.0"),
    (2, (*RELEASE, "--rows", "5"), "give --csv too"),
    (2, (*RELEASE, "--bounds-share", "1"), "--bounds-share must be above 0 and below 1, not 1.0"),
    (2, RELEASE[:-2], "Missing option '--out'"),
    (2, (*RELEASE, "--smooth"), "No such option: --smooth; `trigmech part design` has it; see 'trigmech release"),
    (2, ("sample", "clinic.tm", "--html"), "--html; `trigmech advise` and `trigmech compare` have it; see"),
    (2, ("sample", "clinic.tm", "--seeds", "1"), "No such option: --seeds (Possible options: --seed, --shares); see"),
    (2, (*RELEASE, "--csv", "-", "--json"), "give one of them a file"),
    (2, (*RELEASE[:-1], "-"), "name a file"),
    (2, (*RELEASE[:-1], "data.csv"), "'data.csv' is given twice"),
    (2, (*RELEASE[:-1], "ledger.json", "--ledger", "./ledger.json"), "'ledger.json' is given twice"),
    (2, ("sample", "clinic.tm", "--out", "clinic.tm"), "'clinic.tm' is given twice"),
    (2, ("schema", "init", "data.csv", "--out", "data.csv", "--force"), "'data.csv' is given twice"),
    # What was paid for, or written by hand, stays
    (2, (*RELEASE[:-1], "clinic.tm"), "'clinic.tm' is a release whose budget is spent"),
    (2, (*RELEASE[:-1], "bare.csv"), "'bare.csv' exists; name another file, or give --force"),
    (2, (*RELEASE[:-1], "swapped.toml", "--force"), "'swapped.toml' may be a schema"),
    (2, (*RELEASE, "--csv", "ledger.json", "--ledger", "other.json"), "'ledger.json' is a ledger file"),
    (2, ("sample", "clinic.tm", "--out", "paid.zip"), "'paid.zip' is a release whose budget is spent"),
    (2, ("report", "clinic.tm", "--out", "data.csv"), "'data.csv' exists and is not a page"),
    (2, ("schema", "init", "data.csv", "--out", "ledger.json", "--force"), "'ledger.json' is a ledger file"),
    # Input
    (2, ("schema", "init", "absent.csv"), "there is no such file"),
    (2, ("schema", "init", "data.csv", "--out", "schema.toml"), "give --force to replace it"),
    (2, ("schema", "check", "absent.toml"), "cannot read 'absent.toml'"),
    (2, ("release", "bare.csv", *RELEASE[2:]), "lacks the column(s) 'age', 'income', 'colour', 'joined'"),
    (2, (*RELEASE, "--schema", "empty.toml"), "column 'age': lower is missing; write the smallest possible value"),
    (2, (*RELEASE[:-1], "nowhere/new.tm"), "there is no folder 'nowhere'; make it first"),
    (2, (*RELEASE[:-1], "folder"), "it is a folder"),
    (2, (*RELEASE[:-1], "."), "cannot write '.': it is a folder"),
    (2, (*RELEASE[:-1], "/"), "cannot write '/': it is a folder"),
    (2, (*RELEASE, "--csv", "data.csv/new.csv"), "cannot write 'data.csv/new.csv'"),
    (2, (*RELEASE, "--ledger", "nowhere/new.json"), "there is no folder 'nowhere'; make it first"),
    (2, (*RELEASE, "--csv", "new.parquet.gz", "--ledger", "new.json"), "not in '.parquet.gz'"),
    (2, ("release", "northern.csv", *RELEASE[2:], "--ledger", "new.json"), "give --encoding 'cp1252'"),
    (2, (*RELEASE, "--schema", "forgotten.toml", "--ledger", "new.json"), "not among the categories"),
    (2, ("release", "one.csv", *RELEASE[2:], "--ledger", "new.json"), "at least 2 rows"),
    (2, ("sample", "data.csv"), "it is not a \"trigmech release\""),
    (2, ("sample", "clinic.tm", "--rows", "9" * 20), f"at most 1000000000000, not {'9' * 20}"),
    (2, ("sample", "clinic.tm", "--rows", "3", "--rows=none"), "not 'none'; see 'trigmech sample --help'"),
    (2, ("sample", "clinic.tm", "--shares", "colour:red=1.5"), "with the values of the column, not 1.5"),
    (2, ("compare", "clinic.tm", "clinic.tm"), "the release 'clinic.tm' is given twice"),
    (2, ("schema", "init", "data.csv", "--out", "clinic.tm"), "'clinic.tm' is a release whose budget is spent"),
    (2, ("release", "capitals.csv", *RELEASE[2:]), "(write 'age' with the same capital letters in both)"),
    (2, ("schema", "init", "clinic.tm"), "'clinic.tm': it is a release, not a table"),
    (2, ("report", "clinic.tm", "--figures", "data.csv/figures"), "cannot make the folder"),
    (2, ("ledger", "create", "ledger.json", "--epsilon", "1"), "exists"),
    (2, ("ledger", "show", "absent.json"), "does not exist; make it once"),
    (2, (*RELEASE[:-1], "clinic.tm", "--dry-run"), "'clinic.tm' is a release whose budget is spent"),
    (2, ("demo", "--folder", "data.csv/below"), "cannot make the folder"),
    (2, ("schema", "init", "bare.csv"), "--no-header"),
    (2, ("report", "clinic.tm", "--out", "new.pdf"), "a page is written as .html"),
    (2, ("release", "bare.csv", *RELEASE[2:], "--dry-run"), "lacks the column(s) 'age', 'income', 'colour', 'joined'"),
    # Budget
    (4, (*RELEASE, "--epsilon", "9"), "over the budget (1.5, 0.0001)"),
]


@pytest.fixture
def mistaken(clinic):
    """A folder with all that can be wrong."""
    (clinic / "folder").mkdir()
    for name, text in {
        "bare.csv": table_text(header=False), "swapped.toml": SCHEMA.replace("lower = 18", "lower = 180"),
        "empty.toml": SCHEMA.replace("18", '""'), "forgotten.toml": SCHEMA.replace('"red", ', ""),
        "capitals.csv": table_text().replace("age", "Age"),
        "one.csv": "".join(table_text().splitlines(keepends=True)[:2]),
    }.items():
        (clinic / name).write_text(text)
    (clinic / "northern.csv").write_text(northern_text(), encoding="cp1252")
    shutil.copy(clinic / "clinic.tm", clinic / "paid.zip")
    return clinic


@pytest.mark.parametrize(("status", "arguments", "words"), WRONG, ids=[" ".join(wrong[1]) for wrong in WRONG])
def test_a_mistake_is_named_costs_nothing_and_changes_no_file(run, mistaken, status, arguments, words):
    before = content(mistaken)
    if arguments[0] == "release" and "--ledger" not in arguments:
        # Whatever is refused is refused before its charge, which this file would show.
        arguments = (*arguments, "--ledger", "ledger.json")
    ended, said, told = run(*arguments)
    assert ended == status
    assert words in told
    assert SECRET not in said + told
    assert told.startswith("trigmech: ")
    assert "unexpected" not in told
    assert content(mistaken) == before


@pytest.mark.parametrize(("error", "status", "words"), [
    (SolverError("the solver stopped"), 5, "trigmech: the solver stopped"),
    (UncertainChargeError("the connection broke"), 8, "trigmech: the connection broke"),
    (PaidError("a draw cannot be written"), 8, "trigmech: a draw cannot be written"),
    (WorkerError("a process ended"), 1, "trigmech: a process ended"),
    (MissingLibraryError("psycopg is missing"), 2, "trigmech: psycopg is missing"),
    (OSError(28, SECRET), 1, "trigmech: No space left on device"),
    (OSError(SECRET), 1, "an unexpected OSError; its message is hidden"),
    (KeyError(SECRET), 1, "an unexpected KeyError; its message is hidden"),
    (MemoryError(SECRET), 1, "not enough memory"),
    (KeyboardInterrupt(), 130, "trigmech: interrupted"),
])
def test_what_fails_within_ends_with_a_line_that_quotes_nothing(run, clinic, monkeypatch, error, status, words):
    def fails(*arguments, **options):
        raise error

    monkeypatch.setattr(tm, "synthesize", fails)
    ended, said, told = run(*RELEASE)
    assert (ended, said) == (status, "")
    assert words in told
    assert SECRET not in told
    assert not Path("new.tm").exists()


@pytest.mark.parametrize(("charged", "status"), [(False, 2), (True, 8)])
def test_a_table_that_changes_between_two_rounds_ends_with_the_status_of_what_was_charged(
        run, clinic, monkeypatch, charged, status):
    sums = release_module.exact_sums

    def changed(*given):
        raise tm.InputError("it changed while it was read")

    # The first round of tables counts before the charge, by a name of its own.
    monkeypatch.setattr(release_module if charged else table_module, "exact_sums", changed)
    ended, said, told = run(*RELEASE, "--ledger", "paid.json")
    assert (ended, said) == (status, "")
    assert "it changed while it was read" in told
    assert ("A charge was made before, and stays spent" in told) == charged
    before = len(tm.LedgerFile.open("paid.json").entries) if Path("paid.json").exists() else 0
    assert (before > 0) == charged
    assert not Path("new.tm").exists()
    monkeypatch.setattr(release_module if charged else table_module, "exact_sums", sums)
    # The same command goes on, and is not charged again.
    assert run(*RELEASE, "--ledger", "paid.json")[0] == 0
    assert before in (0, len(tm.LedgerFile.open("paid.json").entries))


def gone_after(monkeypatch, folder):
    """Remove a folder when a release is made and paid for, before it is saved."""
    def made(*arguments, **options):
        found = synthesis.synthesize(*arguments, **options)
        shutil.rmtree(folder)
        return found

    monkeypatch.setattr(tm, "synthesize", made)


def test_a_release_that_cannot_be_saved_where_it_was_asked_for_is_saved_elsewhere(run, clinic, monkeypatch):
    Path("away").mkdir()
    Path("temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(clinic / "temporary"))
    gone_after(monkeypatch, "away")
    status, _, told = run(*RELEASE[:-1], "away/new.tm", "--ledger", "paid.json")
    assert status == 8
    assert "cannot write 'away/new.tm'" in told
    saved, = Path("temporary").rglob("release.tm")
    assert f"was saved as {str(clinic / saved)!r} instead" in told
    book = tm.LedgerFile.open("paid.json")
    assert tm.load(saved).ledger.charges == [entry.charge for entry in book.entries]
    # The ledger names it, for whoever looks for what was paid for.
    assert f"{tm.load(saved).ledger.run} its release was saved as {str(clinic / saved)!r}" in run("ledger", "show",
                                                                                                   "paid.json")[1]
    assert run("ledger", "verify", "paid.json")[0] == 0
    assert book.total == pytest.approx(tm.LedgerFile.open("paid.json").total)
    noted = json.loads(Path("paid.json").read_text())["entries"][-1]
    assert noted["kept"] == {"run": tm.load(saved).ledger.run, "path": str(clinic / saved)}
    Path("paid.json").write_text(Path("paid.json").read_text().replace("release.tm", "other.tm"))
    assert run("ledger", "verify", "paid.json")[0] == 3


@pytest.mark.parametrize("person", [False, True], ids=["rows", "persons"])
def test_fewer_than_twenty_are_released_only_by_force_and_the_error_is_named(run, clinic, person):
    Path("few.toml").write_text(('person = "who"\n' if person else "") + "[columns.x]\nlower = 0\nupper = 100\n")
    command = ("release", "few.csv", "--schema", "few.toml", "--epsilon", "1", "--delta", "1e-6", "--ledger",
               "few.json")
    for n, status in ((19, 2), (20, 0)):
        Path("few.csv").write_text("x,who\n" + "".join(f"{i},p{i}\n" * (1 + person) for i in range(n)))
        found, _, told = run(*command, "--out", f"{n}.tm")
        assert found == status
        assert ("--force" in told) == (n == 19)
        if n == 19:
            expected = tm.preview(19, tm.Schema([tm.Column("x", 0, 100)]), tm.Budget(1.0, 1e-6)).columns
            assert f"19 {'persons' if person else 'rows'} are too few" in told
            assert all(f"'x', {each}" in told for each in expected)
            assert not Path("few.json").exists()
    Path("few.csv").write_text("x,who\n" + "".join(f"{i},p{i}\n" for i in range(9)))
    assert run(*command[:-2], "--out", "9.tm", "--force")[0] == 0
    assert run(*command, "--out", "8.tm", "--dry-run")[0] == 0


@pytest.mark.parametrize("ledger", ["new.json", "link.json"])
def test_a_release_is_not_saved_as_the_lock_of_its_ledger_file(run, clinic, ledger):
    """The next charge would empty it."""
    Path("link.json").symlink_to("new.json")
    status, _, told = run(*RELEASE[:-1], "new.json.lock", "--ledger", ledger)
    assert status == 2
    assert "'new.json.lock' is given twice" in told
    assert not Path("new.json").exists()


def test_a_release_that_cannot_be_saved_anywhere_is_said_to_be_lost(run, clinic, monkeypatch):
    def full(self, path):
        raise OSError(28, SECRET)

    monkeypatch.setattr(tm.Synthesis, "save", full)
    # Without a ledger there is no file of the drawn values.
    status, _, told = run(*RELEASE)
    assert status == 8
    assert "cannot write 'new.tm': No space left on device" in told
    assert "it is lost, and its charges stay spent" in told
    assert SECRET not in told
    # A ledger file that was made for the run stays, because it was charged.
    status, _, told = run(*RELEASE, "--ledger", "new.json")
    assert status == 8
    assert tm.LedgerFile.open("new.json").entries != ()
    assert "The drawn values are in 'new.tm.rounds': run the same command again" in told
    assert SECRET not in told


@pytest.mark.parametrize("error", [None, OSError(28, SECRET), MemoryError(SECRET)])
def test_a_table_that_cannot_be_written_is_told_apart_from_its_release(run, clinic, monkeypatch, error):
    def fails(*arguments):
        raise error

    Path("away").mkdir()
    if error is None:
        gone_after(monkeypatch, "away")
    else:
        monkeypatch.setattr(cli_release, "write_sample", fails)
    status, _, told = run(*RELEASE, "--csv", "away/rows.csv")
    assert status == 8
    assert "cannot write 'away/rows.csv'" in told
    assert "The release itself is saved as 'new.tm'; `trigmech sample`" in told
    assert SECRET not in told
    assert tm.load("new.tm").rows == ROWS


def test_an_unexpected_error_is_shown_when_asked_for(run, clinic, monkeypatch):
    def fails(*arguments, **options):
        raise KeyError(SECRET)

    monkeypatch.setattr(tm, "synthesize", fails)
    monkeypatch.setenv("TRIGMECH_DEBUG", "1")
    monkeypatch.setattr(sys, "argv", ["trigmech", *RELEASE])
    with pytest.raises(KeyError, match=re.escape(SECRET)):
        main()


# Help


def commands(command=None, words=()):
    command = typer.main.get_command(app) if command is None else command
    if hasattr(command, "commands"):
        return [found for name, below in command.commands.items() for found in commands(below, (*words, name))]
    return [(words, command)]


each_command = pytest.mark.parametrize(("words", "command"), commands(),
                                       ids=[" ".join(words) for words, _ in commands()])


@each_command
def test_every_command_speaks_to_machines_too(words, command):
    assert "--json" in {option for parameter in command.params for option in parameter.opts}


@each_command
def test_the_help_of_each_command_has_an_example_that_can_be_given(run, words, command):
    status, said, _ = run(*words, "--help")
    assert status == 0
    assert "Example: trigmech " + " ".join(words) in said
    example = shlex.split(re.search(r"Example: `trigmech ([^`]*)`", command.help)[1])
    assert tuple(example[:len(words)]) == words
    command.make_context(words[-1], example[len(words):])


def test_help_info_and_completion_are_printed(run, monkeypatch):
    status, said, _ = run("--help")
    assert status == 0
    assert all(words[0] in said for words, _ in commands())
    assert "Exit status" in said
    status, said, _ = run("info")
    assert status == 0
    assert "opendp" in said
    assert json.loads(run("info", "--json")[1]) == {
        "trigmech": tm.__version__, "python": platform.python_version(),
        **{name: version(name) for name in ("numpy", "scipy", "numba", "highspy", "opendp", "dp-accounting", "narwhals",
                                            "pyarrow")}}
    for shell in ("bash", "zsh", "fish"):
        monkeypatch.setenv("_TRIGMECH_COMPLETE", f"source_{shell}")
        status, said, _ = run()
        assert status == 0
        assert "complete_" in said
        assert "trigmech" in said


# Processes


def started(command, folder):
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    return subprocess.Popen([str(part) for part in command], cwd=folder, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True, env=buffered)


@pytest.mark.nightly  # By day commands run in the process of the tests.
def test_the_installed_command_ends_quietly_when_nobody_reads_on(made):
    process = started([Path(sys.executable).with_name("trigmech"), "sample", "clinic.tm", "--rows", "5000"], made)
    assert process.stdout.readline() == ",".join(NAMES) + "\n"
    process.stdout.close()
    assert process.stderr.read() == ""
    process.stderr.close()
    assert process.wait() == 0


# Halts when the release is written beside its place; the charge has been made then.
HALTING = """
import functools, sys, time
from trigmech import _files as outputs
from trigmech.measurement import release as release_module
from trigmech.mechanisms import default
from trigmech.mechanisms import table as table_module
from trigmech.cli import main

def halt(path, durable=outputs._make_durable):
    if path.name.startswith(".clinic.tm"):
        print("halted", flush=True)
        time.sleep(60)
    durable(path)

outputs._make_durable = halt
default.TableMechanism = functools.partial(default.TableMechanism, points=64)
main()
"""


@pytest.mark.nightly
def test_a_release_that_is_stopped_leaves_whole_files_and_its_charge(made, tmp_path):
    stopped = {}
    for number in (signal.SIGINT, signal.SIGKILL):  # side by side, for they mostly start
        folder = tmp_path / number.name
        shutil.copytree(made, folder)
        stopped[number] = folder, started([sys.executable, "-c", HALTING, *RELEASE[:-1], "clinic.tm", "--force",
                                           "--ledger", "ledger.json", "--simulate", "1"], folder)
    before, known = content(made), len(tm.LedgerFile.open(made / "ledger.json").entries)
    del before["ledger.json"]
    for number, (folder, process) in stopped.items():
        assert process.stdout.readline() == "halted\n"
        process.send_signal(number)
        _, told = process.communicate(timeout=30)
        after = content(folder)
        del after["ledger.json"]
        charged = tm.LedgerFile.open(folder / "ledger.json").entries[known:]
        # All charges of the run, at once.
        assert len({entry.run for entry in charged}) == 1
        assert {entry.charge.purpose for entry in charged} >= {"columns", "dependence"}
        beside = [name for name in after if name.endswith(".part")]
        if number == signal.SIGINT:
            assert process.returncode == 130
            assert told.endswith("trigmech: interrupted; no output file is incomplete, and charges stay spent\n")
            assert beside == []
        else:
            assert process.returncode == -number
            assert len(beside) == 1
        assert {name: data for name, data in after.items() if name not in beside} == before


# The demonstration


@pytest.fixture
def few_queries(monkeypatch):
    monkeypatch.setattr(demo, "GaussianKernels", functools.partial(GaussianKernels, n_queries=200))


# By day of as many columns as its picture shows.
@pytest.mark.parametrize("d", [demo.SHOWN_COLUMNS, pytest.param(30, marks=pytest.mark.nightly)])
def test_the_demo_writes_its_table_and_picture_and_says_what_is_proved(d, run, few_queries, few_resamples, tmp_path,
                                                                       monkeypatch):
    whole = load_breast_cancer()
    X, names = whole.data[:, :d], whole.feature_names[:d]
    monkeypatch.setattr("sklearn.datasets.load_breast_cancer", lambda: types.SimpleNamespace(
        data=X, feature_names=names))
    released, drawn = [], []
    monkeypatch.setattr(demo, "synthesize", lambda *given, **options: released.append(
        tm.synthesize(*given, mechanism=tm.TableMechanism(points=64), **options)) or released[-1])
    monkeypatch.setattr(demo, "_draw_answers", lambda scatter, bars, made: drawn.append(made))
    status, said, _ = run("demo", "--folder", "out", "--rows", "50")
    assert status == 0
    assert "proved: (" in said
    assert "NOT PRIVATE" not in said
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["demo.png", "synthetic.csv"]
    with (tmp_path / "out" / "synthetic.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert (len(rows), len(rows[0])) == (50, d)
    assert all(6.98 <= float(row["mean radius"]) <= 28.12 for row in rows)
    assert (tmp_path / "out" / "demo.png").read_bytes().startswith(b"\x89PNG")
    # The second run's picture, which no test looks at, is not painted.
    monkeypatch.setattr(demo, "_draw", lambda made, *_: drawn.append(made))
    facts = json.loads(run("demo", "--folder", "out", "--rows", "50", "--json", "--seed", "1")[1])
    assert (facts["rows"], facts["table"], facts["ledger"]["simulated"]) == (50, "out/synthetic.csv", True)
    # Both runs show the errors of their own release, of the cube and of the prediction, each by its name.
    X = 2.0 * (X - X.min(axis=0)) / np.ptp(X, axis=0) - 1.0
    workload = demo.GaussianKernels(d, seed=2014)
    truth = workload.answers(X)
    wanted = [np.column_stack([
        workload.widths,
        np.abs(workload.answers(each.distribution.points, each.distribution.weights) - truth).max(axis=0),
        np.abs(workload.uniform_answers() - truth).max(axis=0), each.predicted_error(workload).worst])
        for each in released]
    np.testing.assert_allclose([[each[name] for name in ("width", "release", "uniform", "predicted")]
                                for each in facts["worst_absolute"]], wanted[1], rtol=1e-9)
    shown = [re.findall(r"[\d.]+", line) for line in said.splitlines() if line.startswith("│")]
    assert shown == [[f"{width:g}", f"{own:.4f}", f"{cube:.4f}", f"{thesis:.3f}", f"{bound:.4f}"]
                     for (width, own, cube, bound), thesis in zip(wanted[0], demo.THESIS, strict=True)]
    np.testing.assert_array_equal([made.evaluation.worst_absolute for made in drawn], [each[:, 1] for each in wanted])


@pytest.mark.daily("True")
@pytest.mark.parametrize("simulated", [True, False])
def test_the_demo_s_picture_names_the_guarantee_and_draws_both_tables(simulated, tmp_path, monkeypatch):
    figures = []
    monkeypatch.setattr(demo, "_draw_answers", lambda scatter, bars, made: figures.append(scatter.figure.figure))
    # What is drawn is looked at in the figure, which need not be painted.
    monkeypatch.setattr("matplotlib.figure.Figure.savefig", lambda figure, path, **_: Path(path).write_bytes(b"png"))
    schema = tm.Schema([tm.Column(f"c{j}", 0.0, 20.0) for j in range(demo.SHOWN_COLUMNS + 1)])
    rng = np.random.default_rng(1)
    table, own = (rng.uniform(0.0, 20.0, (n, demo.SHOWN_COLUMNS + 1)) for n in (30, 40))
    ledger = types.SimpleNamespace(guarantee=tm.Budget(0.5, 1e-3), simulated=simulated)
    made = types.SimpleNamespace(synthesis=types.SimpleNamespace(ledger=ledger), picture=tmp_path / "demo.png")
    demo._draw(made, schema, table, dict(zip(schema.names, own.T, strict=True)))
    (figure,) = {figure.figure for figure in figures}
    note = ", SIMULATED noise: not private" if simulated else ""
    assert figure.get_suptitle() == f"WDBC, released at (0.5, 0.001){note}"
    panels = [axes for axes in figure.axes if axes.get_xlabel()]
    assert [axes.get_xlabel() for axes in panels] == list(schema.names[: demo.SHOWN_COLUMNS])
    assert [text.get_text() for text in panels[0].get_legend().get_texts()] == ["private", "synthetic"]
    for j, axes in enumerate(panels):
        private, synthetic = axes.containers[0], axes.patches[-1]
        bins = np.linspace(0.0, 20.0, 21)
        np.testing.assert_allclose([bar.get_height() for bar in private], np.histogram(table[:, j], bins)[0] / 30)
        assert synthetic.get_xy()[:, 1].max() == pytest.approx(np.histogram(own[:, j], bins)[0].max() / 40)


def test_the_demo_draws_each_error_beside_its_name():
    from matplotlib.figure import Figure

    def evaluation(errors):
        truth = np.linspace(0.2, 0.6, 5) * np.ones((3, 1))
        return Evaluation(truth, truth + np.array([[0.0], [1.0], [-0.5]]) * errors)

    own, cube, bound = 0.01 * np.arange(1.0, 6.0), 0.02 * np.arange(2.0, 7.0), 0.03 * np.arange(3.0, 8.0)
    made = demo.Demonstration(None, evaluation(own), evaluation(cube), types.SimpleNamespace(worst=bound),
                              (2.0, 4.0, 6.0, 8.0, 10.0), None, None)
    scatter, bars = Figure().subplots(1, 2)
    demo._draw_answers(scatter, bars, made)
    heights = {each.get_label(): [bar.get_height() for bar in each] for each in bars.containers}
    assert heights == {"this release": pytest.approx(own), "uniform cube, no data": pytest.approx(cube),
                       "thesis, table 3.3": list(demo.THESIS)}
    (predicted,) = bars.lines
    assert (predicted.get_label(), list(predicted.get_ydata())) == ("predicted bound, 95 %", list(bound))
    # A bound stands on the bar that it is of.
    assert list(predicted.get_xdata()) == pytest.approx([bar.get_center()[0] for bar in bars.containers[0]])
    for i, line in enumerate(scatter.lines[:5]):
        assert line.get_label() == f"σ = {made.widths[i]:g}"
        np.testing.assert_array_equal(line.get_xdata(), made.evaluation.truth[:, i])
        np.testing.assert_array_equal(line.get_ydata(), made.evaluation.answers[:, i])
