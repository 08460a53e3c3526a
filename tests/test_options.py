"""Every option of every command changes what is charged, recorded, printed or written; a new one needs an entry here.

An entry runs its command twice, with two values of the option, and looks at one thing that the option decides: what is
seen must be what each value asks for.
"""

import contextlib
import csv
import functools
import io
import json
import math
import os
import re
import shlex
import shutil
import sys
import types
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sklearn.datasets
import typer
from test_cli import NAMES, ROWS, SCHEMA, northern_text, table_text

import trigmech as tm
from trigmech import answering
from trigmech.cli import demo, options
from trigmech.cli.app import app, main
from trigmech.engines import choice
from trigmech.errors import InputError
from trigmech.evaluation import judgement, resampling
from trigmech.inference import drawing
from trigmech.mechanisms import default
from trigmech.parts import design_file
from trigmech.parts.shares import load_part, share_part
from trigmech.privacy.budget import Budget
from trigmech.report import against, page
from trigmech.results import Synthesis
from trigmech.schema import toml as schema_file
from trigmech.tables.reader import TableFile
from trigmech.workload import GaussianKernels

PRIVATE_BOUNDS = SCHEMA.replace("lower = 0\nupper = 100000", 'bounds = "private"')
NO_HEADER = "[file]\nheader = false\n\n"
COLOURS = ("red", "green", "blue")
NORTHERN = {"delimiter": ";", "decimal": ",", "encoding": "cp1252", "date_format": "%d.%m.%Y"}
FORM = {f"--{name.replace('_', '-')}": shlex.quote(value) for name, value in NORTHERN.items()}

# Options of which no run can show anything, with the reason.
UNSEEN = {"--install-completion": "Typer's own: it writes into the files of the user's shell",
          "--show-completion": "Typer's own: it asks which shell runs it; test_cli.py has the scripts of each"}


@dataclass(frozen=True)
class Outcome:
    """What a run left behind."""

    folder: Path
    status: int
    out: str
    err: str
    engines: list[tuple[str, int | None, str | None]]

    @property
    def facts(self):
        return json.loads(self.out)

    @property
    def is_json(self):
        try:
            return isinstance(json.loads(self.out), dict)
        except ValueError:
            return False

    def book(self, name="book.json"):
        return tm.LedgerFile.open(self.folder / name)

    def release(self, name="new.tm"):
        return tm.load(self.folder / name)

    def design(self, name="new.json"):
        return design_file.load(self.folder / name)

    def rows(self, name=None):
        text = self.out if name is None else (self.folder / name).read_text()
        return list(csv.DictReader(io.StringIO(text)))

    def new(self, *names):
        return [name for name in names if (self.folder / name).exists()]


@dataclass(frozen=True)
class Seen:
    """A command line, an option's two values (or its absence), and what they decide."""

    line: str
    first: str
    second: str
    look: object
    expected: tuple


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """Run a command line in a folder with one of everything, once for each line; return what came of it.

    Folders share the files, which commands replace and never change; the last line here would see that. A ledger is
    copied, because one that has two names is refused.
    """
    start, done = tmp_path_factory.mktemp("start"), {}
    with pytest.MonkeyPatch.context() as patch:
        make_quick(patch)
        fill(start)
        filled = {path: path.read_bytes() for path in start.iterdir()}

        def run(line):
            # The order of options makes no difference.
            asked = tuple(sorted(line.split(" --")))
            if asked not in done:
                folder = tmp_path_factory.mktemp("run") / "folder"
                shutil.copytree(start, folder, copy_function=given)
                done[asked] = outcome(folder, line)
            return done[asked]

        engines = []
        patch.setattr(choice, "_workers", functools.partial(recorded, engines))

        def outcome(folder, line):
            engines.clear()
            out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
            patch.setattr(sys, "argv", ["trigmech", *shlex.split(line)])
            with (contextlib.chdir(folder), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err),
                  pytest.raises(SystemExit) as ending):
                main()
            out, err = (stream.buffer.getvalue().decode() for stream in (flushed(out), flushed(err)))
            return Outcome(folder, ending.value.code or 0, out, " ".join(err.split()), [*engines])

        yield run
        assert {path: path.read_bytes() for path in start.iterdir()} == filled


def given(source, target):
    (shutil.copy if Path(source).name.startswith("book") else os.link)(source, target)


def flushed(stream):
    stream.flush()
    return stream


def recorded(engines, engine, table, schema, workers, scheduler):
    engines.append((engine, workers, scheduler))
    raise InputError("who would measure it is recorded")


def make_quick(patch):
    """Small everything: what an option changes shows in small tables too."""
    patch.setenv("COLUMNS", "200")
    patch.setattr(default, "TableMechanism", functools.partial(tm.TableMechanism, points=64))
    patch.setattr(demo, "GaussianKernels", functools.partial(GaussianKernels, n_queries=50))
    patch.setattr(resampling, "TABLES", 2)
    patch.setattr(resampling, "RELEASES", 1)
    patch.setattr(against, "QUERY_WORK", 1)
    patch.setattr(drawing, "FEWEST", 64)
    patch.setattr(answering, "rehearsals", once(answering.rehearsals))
    # How far two tables are apart, and errors, are tested elsewhere.
    patch.setattr(judgement, "detector_aucs", lambda coding, true, made, rng: (0.5, 0.5, 30))
    patch.setattr(Synthesis, "predicted_error", lambda made, workload: types.SimpleNamespace(
        worst=np.zeros(len(workload.widths))))
    patch.setattr(demo, "_draw", lambda made, schema, table, synthetic: made.picture.write_bytes(b"\x89PNG"))
    x = np.random.default_rng(0).uniform(1.0, 2.0, (60, 3))
    patch.setattr(sklearn.datasets, "load_breast_cancer", lambda: types.SimpleNamespace(
        data=x, feature_names=np.array(["a", "b", "c"])))
    # As if one command's points missed what was released.
    whole = Synthesis.warnings.fget
    patch.setattr(Synthesis, "warnings", property(
        lambda made: ("the points miss",) if made.ledger.budget.epsilon == 0.77 else whole(made)))
    # What a page shows is tested elsewhere; here only that it is given what it is to show.
    patch.setattr(page, "_page", lambda made, against, pictures, seed, limits, say, others: (
        f"<!DOCTYPE html>{'nothing' if against is None else against.num_rows}"
        f"{'' if others is None else ' and others'}"))


def once(rehearsals):
    """Rehearsals of a release are the same for each command."""
    known = {}

    def found(release, points, design, rng):
        if points.tobytes() not in known:
            known[points.tobytes()] = rehearsals(release, points, design, rng)
        return known[points.tobytes()]

    return found


def fill(folder):
    """One of everything that a command reads."""
    text = table_text()
    (folder / "data.csv").write_text(text)
    (folder / "few.csv").write_text("\n".join(text.splitlines()[:41]) + "\n")
    (folder / "bare.csv").write_text(table_text(header=False))
    (folder / "north.csv").write_text(northern_text(), encoding="cp1252")
    (folder / "schema.toml").write_text(SCHEMA)
    (folder / "private.toml").write_text(PRIVATE_BOUNDS)
    (folder / "north.toml").write_text(SCHEMA.replace("red", "röt"))
    (folder / "bare.toml").write_text(NO_HEADER + SCHEMA)
    (folder / "short.toml").write_text(SCHEMA.partition("[columns.colour]")[0])
    pq.write_table(pa.table({"age": np.arange(40.0) + 20, "income": np.arange(40.0)}), folder / "data.parquet")
    schema, budget = schema_file.load_schema(folder / "schema.toml"), Budget(1.0, 1e-4)
    quick = tm.MomentMechanism(points=64, iterations=1)
    tm.synthesize(folder / "data.csv", schema, budget, quick, np.random.default_rng(1)).save(folder / "clinic.tm")
    for name in ("red", "blue"):
        lines = [re.sub("red|green|blue", name, line) for line in text.splitlines()]
        (folder / f"{name}.csv").write_text("\n".join(lines) + "\n")
    wide = tm.Schema.cube(30)
    (folder / "wide.csv").write_text("\n".join(",".join(row) for row in [wide.names, *[["0"] * 30] * 50]) + "\n")
    schema_file.save(folder / "wide.toml", wide)
    north = schema_file.load_schema(folder / "north.toml")
    tm.synthesize(TableFile(folder / "north.csv", **NORTHERN), north, budget, quick,
                  np.random.default_rng(1)).save(folder / "north.tm")
    tm.synthesize(folder / "data.csv", schema, budget, tm.TableMechanism(points=64), np.random.default_rng(1)).save(
        folder / "tables.tm")
    for name, measure in (("columns", "worst one-way"), ("pairs", "mean two-way")):
        (folder / f"{name}.toml").write_text(f'[[criteria]]\nmeasure = "{measure}"\nlimit = 1.0\n')
    visits = tm.Schema([tm.Column("pay", 0, 9)], person="who")
    tm.synthesize(pa.table({"who": np.arange(40) // 2, "pay": np.arange(40.0) % 9}), visits, budget, quick,
                  np.random.default_rng(1)).save(folder / "visits.tm")
    tm.LedgerFile.create(folder / "book.json", Budget(2.0, 1e-3), data_set="clinic", reserve_delta=1e-4)
    for name, n in (("design", ROWS), ("other", ROWS + 1)):
        design_file.save(folder / f"{name}.json", tm.design(n, schema, budget))
    asked = design_file.load(folder / "design.json")
    for name, rows in (("one", slice(0, 100)), ("two", slice(100, ROWS))):
        lines = text.splitlines()
        (folder / f"{name}.csv").write_text("\n".join([lines[0], *lines[1:][rows]]) + "\n")
        tm.measure_part(folder / f"{name}.csv", asked).save(folder / f"{name}.part")
    for name, own, whole in (("shared", schema, budget), ("larger", schema, Budget(2.0, 1e-4)),
                             ("norths", north, budget)):
        design_file.save(folder / f"{name}.json", tm.design(ROWS, own, whole, quick).for_shares())
    share_part(folder / "one.csv", design_file.load(folder / "shared.json"), party=1, parties=2).save(
        folder / "one.share")
    design_file.save(folder / "north.json", tm.design(ROWS, north, budget))
    design_file.save(folder / "short.json", tm.design(ROWS, schema_file.load_schema(folder / "short.toml"), budget))
    single = tm.design(ROWS, schema, budget, quick)
    design_file.save(folder / "single.json", single)
    tm.measure_part(folder / "data.csv", single).save(folder / "single.part")


def bounds_part(charges):
    """The part of a pure epsilon of 1 that private bounds cost."""
    return sum(c["sensitivity"] / c["scale"] for c in charges if c["purpose"].startswith("bounds"))


JSON = Seen("", "", "--json", lambda run: run.is_json, (False, True))


def in_json(line):
    return (Seen(line, *(getattr(JSON, name) for name in ("first", "second", "look", "expected"))),)


def imputed(line):
    """The options of the commands that answer from imputations."""
    quick = f"{line} --count 2 --json"
    return {"--count": (Seen(f"{line} --json", "--count 2", "--count 3", lambda run: run.facts["imputations"],
                             (2, 3)),),
            "--population": (Seen(quick, "", "--table", lambda run: "population" in run.facts["covers"],
                                  (True, False)),),
            "--level": (Seen(quick, "", "--level 0.5", lambda run: run.facts["level"], (0.95, 0.5)),),
            "--imputations": (Seen(quick, "", "--imputations kept", lambda run: run.new("kept"), ([], ["kept"])),),
            "--json": in_json(f"{line} --count 2")}


def form(line, ok=0, look=lambda run: run.status, without=2):
    """Of each option of a CSV's form: a command that reads a table of another country, but for that option.

    Without the right delimiter no command finds the columns.
    """
    return {option: (Seen(f"{line} " + " ".join(f"{other} {text}" for other, text in FORM.items() if other != option),
                          "", f"{option} {value}", look, (2 if option == "--delimiter" else without, ok)),)
            for option, value in FORM.items()}


def engines(line, parquet):
    """Who would measure a table."""
    def whom(run):
        return run.engines

    return {"--engine": (Seen(f"{line} {parquet}", "", "--engine processes", whom, ([], [("processes", None, None)])),),
            "--workers": (Seen(f"{line} {parquet}", "--workers 2", "--workers 3", whom,
                               ([("processes", 2, None)], [("processes", 3, None)])),),
            "--scheduler": (Seen(f"{line} {parquet} --engine dask", "", "--scheduler tcp://a:1", whom,
                                 ([("dask", None, None)], [("dask", None, "tcp://a:1")])),)}


def charged(run):
    return run.book().entries[-1].charge


def claimed(run):
    return charged(run).claim


def kind_of(run, column):
    return re.search(rf'\[columns\.{column}\]\nkind = "(\w+)"', run.out)[1]


def all_of_a_colour(run):
    """The colours that all rows of the table would have for what is printed: its variation is the others' share."""
    made = run.release("clinic.tm")
    colours = made.schema.decode(made.distribution.points)["colour"]
    shares = {name: made.distribution.weights @ (colours == name) for name in COLOURS}
    variation = run.facts["total variation of frequencies"]["colour"]
    return [name for name, share in shares.items() if variation == pytest.approx(1.0 - share)]



def planned_targets(run):
    """The targets for which the first round would have the noise that is printed."""
    schema = schema_file.load_schema(run.folder / "schema.toml")
    return [target for target in (None, "income") if run.facts["charges"][0]["scale"] == pytest.approx(tm.design(
        ROWS, schema, Budget(1.0, 1e-4), tm.TableMechanism(target=target)).charges[0].scale)]


RELEASE = "release data.csv --schema schema.toml --epsilon 1 --out new.tm --simulate 1 --json"
PRIVATE = "release data.csv --schema private.toml --epsilon 1 --delta 0 --out new.tm --simulate 1 --json"
ADD = "ledger add book.json --epsilon 0.1 --purpose mean --by other --neighbours replace-one"
DESIGN = "part design --schema schema.toml --n 150 --epsilon 1 --out new.json"
SHARE = "part share one.csv --design shared.json --party 1 --parties 2 --out new.share"

ACCEPT = "accept clinic.tm --criteria columns.toml --epsilon 1"
ASK = "ask tables.tm 'select avg(age) from release'"
FIT = "fit tables.tm 'income ~ age'"
TABLE = {
    "": {
        "--version": (Seen("", "info", "--version", lambda run: run.out == f"trigmech {tm.__version__}\n",
                           (False, True)),),
        "--verbose": (Seen("", RELEASE, f"--verbose {RELEASE}", lambda run: run.err.count("trigmech: ") > 2,
                           (False, True)),)},
    "info": {"--json": in_json("info")},
    "demo": {
        "--folder": (Seen("demo --seed 1", "--folder a", "--folder b", lambda run: run.new("a/synthetic.csv",
                          "a/demo.png", "b/synthetic.csv", "b/demo.png"),
                          (["a/synthetic.csv", "a/demo.png"], ["b/synthetic.csv", "b/demo.png"])),),
        "--epsilon": (Seen("demo --seed 1 --json", "--epsilon 1", "--epsilon 2", lambda run: (
            run.facts["ledger"]["budget"]["epsilon"], round(run.facts["proved_epsilon"])), ((1.0, 1), (2.0, 2))),),
        "--delta": (Seen("demo --seed 1 --json", "", "--delta 1e-5", lambda run: run.facts["delta"], (1e-3, 1e-5)),),
        "--rows": (Seen("demo --seed 1", "", "--rows 7", lambda run: len(run.rows("trigmech-demo/synthetic.csv")),
                        (569, 7)),),
        "--seed": (Seen("demo --json", "", "--seed 1", lambda run: run.facts["ledger"]["simulated"], (False, True)),),
        "--json": in_json("demo --seed 1")},
    "release": {
        "--schema": (Seen("release data.csv --epsilon 1 --out new.tm --simulate 1", "--schema schema.toml",
                          "--schema short.toml", lambda run: list(run.release().schema.names), (NAMES, NAMES[:2])),),
        "--epsilon": (Seen("release data.csv --schema schema.toml --out new.tm --simulate 1", "--epsilon 1",
                           "--epsilon 2", lambda run: (run.release().ledger.budget.epsilon,
                                                       round(run.release().ledger.proved_epsilon)),
                           ((1.0, 1), (2.0, 2))),),
        "--out": (Seen("release data.csv --schema schema.toml --epsilon 1 --simulate 1", "--out new.tm",
                       "--out other.tm", lambda run: run.new("new.tm", "other.tm"), (["new.tm"], ["other.tm"])),),
        "--delta": (
            Seen(RELEASE, "", "--delta 1e-4", lambda run: (run.facts["delta"], any(
                c["law"] == "gaussian" for c in run.facts["ledger"]["charges"])), ((0.0, False), (1e-4, True))),
            # Who says that delta is 0 is not asked whether it was forgotten: also before the budget is spent.
            *(Seen(f"release wide.csv --schema wide.toml --epsilon 1 --out new.tm --simulate 1 --json {dry}", "",
                   "--delta 0", lambda run: any("delta is not given" in said for said in run.facts["warnings"]),
                   (True, False)) for dry in ("", "--dry-run"))),
        "--csv": (Seen(RELEASE, "", "--csv made.csv", lambda run: run.new("made.csv"), ([], ["made.csv"])),),
        "--rows": (Seen(f"{RELEASE} --csv made.csv", "", "--rows 7", lambda run: len(run.rows("made.csv")),
                        (ROWS, 7)),),
        "--ledger": (
            Seen(RELEASE, "", "--ledger book.json", lambda run: len(run.book().entries) > 0, (False, True)),
            Seen(f"{RELEASE} --dry-run", "", "--ledger book.json", lambda run: run.facts["ledger"] is not None,
                 (False, True))),
        **form("release north.csv --schema north.toml --epsilon 1 --out new.tm --simulate 1"),
        **engines("release --schema short.toml --epsilon 1 --out new.tm --simulate 1", "data.parquet"),
        "--bounds-share": (
            Seen(PRIVATE, "", "--bounds-share 0.4", lambda run: bounds_part(run.facts["ledger"]["charges"]),
                 (pytest.approx(0.1), pytest.approx(0.4))),
            Seen(f"{PRIVATE} --dry-run", "", "--bounds-share 0.4", lambda run: bounds_part(run.facts["charges"]),
                 (pytest.approx(0.1), pytest.approx(0.4)))),
        "--target": (
            Seen(f"{RELEASE} --delta 1e-4", "", "--target income", lambda run: run.release().mechanism.target,
                 (None, "income")),
            Seen(f"{RELEASE} --delta 1e-4 --dry-run", "", "--target income",
                 planned_targets, ([None], ["income"]))),
        "--simulate": (Seen("release data.csv --schema schema.toml --epsilon 1 --out new.tm --json", "",
                            "--simulate 1", lambda run: run.facts["simulated"], (False, True)),),
        "--strict": (Seen("release data.csv --schema schema.toml --epsilon 0.77 --out new.tm --simulate 1", "",
                          "--strict", lambda run: (run.status, *run.new("new.tm")), ((0, "new.tm"), (6, "new.tm"))),),
        "--force": (Seen("release data.csv --schema schema.toml --epsilon 1 --out clinic.tm --simulate 1", "",
                         "--force", lambda run: run.status, (2, 0)),),
        "--dry-run": (Seen(f"{RELEASE} --ledger book.json", "", "--dry-run", lambda run: (
            run.new("new.tm"), len(run.book().entries) > 0), ((["new.tm"], True), ([], False))),),
        "--json": in_json(RELEASE.removesuffix(" --json"))},
    "accept": {
        "--data": (Seen(f"{ACCEPT} --simulate 1 --json", "", "--data data.csv", lambda run: run.status, (2, 0)),),
        "--criteria": (Seen("accept clinic.tm --data data.csv --epsilon 1 --simulate 1 --json",
                            "--criteria columns.toml", "--criteria pairs.toml",
                            lambda run: run.facts["criteria"][0]["measure"], ("worst one-way", "mean two-way")),),
        "--epsilon": (Seen("accept clinic.tm --criteria columns.toml --dry-run --json", "--epsilon 1", "--epsilon 2",
                           lambda run: run.facts["budget"]["epsilon"], (1.0, 2.0)),),
        "--delta": (Seen(f"{ACCEPT} --dry-run --json", "", "--delta 1e-6", lambda run: run.facts["budget"]["delta"],
                         (0.0, 1e-6)),),
        "--ledger": (Seen(f"{ACCEPT} --data data.csv --json", "", "--ledger book.json",
                          lambda run: len(run.book().entries), (0, 1)),),
        "--schema": (Seen(f"{ACCEPT} --data bare.csv --simulate 1", "", "--schema bare.toml", lambda run: run.status,
                          (2, 0)),),
        **form("accept north.tm --data north.csv --criteria columns.toml --epsilon 1 --simulate 1"),
        "--out": (Seen(f"{ACCEPT} --data data.csv --simulate 1", "", "--out new.json",
                       lambda run: run.new("new.json"), ([], ["new.json"])),),
        "--simulate": (Seen(f"{ACCEPT} --data data.csv --json", "", "--simulate 1",
                            lambda run: run.facts["simulated"], (False, True)),),
        "--dry-run": (Seen(f"{ACCEPT} --data data.csv --simulate 1 --json", "", "--dry-run",
                           lambda run: run.facts["accepted"] is None, (False, True)),),
        "--json": in_json(f"{ACCEPT} --dry-run")},
    "ask": {
        "--csv": (Seen(f"{ASK} --count 2", "", "--csv new.csv", lambda run: run.new("new.csv"), ([], ["new.csv"])),),
        "--force": (Seen(f"{ASK} --count 2 --csv few.csv", "", "--force", lambda run: run.status, (2, 0)),),
        **imputed(ASK)},
    "fit": {
        "--family": (Seen(f"{FIT} --count 2 --json", "", "--family poisson", lambda run: run.facts["family"],
                          ("gaussian", "poisson")),),
        **imputed(FIT)},
    "sample": {
        "--imputations": (Seen("sample tables.tm --out new.csv", "", "--imputations 2",
                               lambda run: (run.folder / "new.csv").is_dir(), (False, True)),),
        "--rows": (Seen("sample clinic.tm", "", "--rows 7", lambda run: len(run.rows()), (ROWS, 7)),),
        "--out": (Seen("sample clinic.tm --rows 7", "", "--out made.csv", lambda run: (
            run.out.count("\n"), run.new("made.csv")), ((8, []), (1, ["made.csv"]))),),
        "--given": (Seen("sample clinic.tm --rows 40", "--given colour=red", "--given colour=blue --given age=",
                         lambda run: {(row["colour"], row["age"] == "") for row in run.rows()} - {("red", True)},
                         ({("red", False)}, {("blue", True)})),),
        "--shares": (Seen("sample clinic.tm --rows 40", "--shares colour:red=0.5,blue=0.5",
                          "--shares colour:red=0.25,green=0.75", lambda run: [
                              sum(row["colour"] == name for row in run.rows()) for name in COLOURS],
                          ([20, 0, 20], [10, 30, 0])),),
        "--rows-per-person": (Seen("sample visits.tm", "", "--rows-per-person 3", lambda run: (
            len(run.rows()), len({row["who"] for row in run.rows()})), ((20, 20), (60, 20))),),
        "--seed": (Seen("sample clinic.tm --rows 7 --out made.csv --json", "--seed 1", "--seed 2",
                        lambda run: run.facts["seed"], (1, 2)),),
        "--force": (Seen("sample clinic.tm --rows 7 --out data.csv", "", "--force", lambda run: (
            run.status, len(run.rows("data.csv"))), ((2, ROWS), (0, 7))),),
        "--json": in_json("sample clinic.tm --rows 7 --out made.csv")},
    "check": {
        "--schema": (Seen("check bare.csv", "--schema schema.toml", "--schema bare.toml", lambda run: run.status,
                          (3, 0)),),
        **form("check north.csv --schema north.toml", without=3),
        "--json": in_json("check data.csv --schema schema.toml")},
    "evaluate": {
        "--against": (Seen("evaluate clinic.tm --json", "--against red.csv", "--against blue.csv", all_of_a_colour,
                           (["red"], ["blue"])),),
        "--schema": (Seen("evaluate clinic.tm --against bare.csv", "", "--schema bare.toml", lambda run: run.status,
                          (2, 0)),),
        **form("evaluate north.tm --against north.csv"),
        "--json": in_json("evaluate clinic.tm --against data.csv")},
    "report": {
        "--against": (Seen("report clinic.tm", "", "--against data.csv", lambda run: (
            run.new("clinic.html", "clinic.not-private.html")), (["clinic.html"], ["clinic.not-private.html"])),),
        "--schema": (Seen("report clinic.tm --against bare.csv", "", "--schema bare.toml", lambda run: run.status,
                          (2, 0)),),
        **form("report north.tm --against north.csv"),
        "--held-out": (Seen("report clinic.tm --against data.csv", "", "--held-out red.csv", lambda run: (
            "others" in (run.folder / "clinic.not-private.html").read_text()), (False, True)),),
        "--out": (Seen("report clinic.tm", "", "--out b.html", lambda run: run.new("clinic.html", "b.html"),
                       (["clinic.html"], ["b.html"])),),
        "--figures": (Seen("report clinic.tm", "", "--figures f", lambda run: run.new("f"), ([], ["f"])),),
        "--json": in_json("report clinic.tm")},
    "schema init": {
        "--out": (Seen("schema init data.csv", "", "--out new.toml", lambda run: (
            "[columns.age]" in run.out, run.new("new.toml")), ((True, []), (False, ["new.toml"]))),),
        "--force": (Seen("schema init data.csv --out schema.toml", "", "--force", lambda run: (
            run.status, (run.folder / "schema.toml").read_text() == SCHEMA), ((2, True), (0, False))),),
        "--no-header": (Seen("schema init bare.csv", "", "--no-header", lambda run: "header = false" in run.out,
                             (False, True)),),
        "--delimiter": (Seen("schema init north.csv --encoding cp1252", "", "--delimiter ';'", lambda run: (
            run.out.count("[columns.")), (0, 4)),),
        "--decimal": (Seen("schema init north.csv --encoding cp1252 --delimiter ';'", "", "--decimal ,", lambda run: (
            kind_of(run, "income")), ("categorical", "continuous")),),
        "--encoding": (Seen("schema init north.csv --delimiter ';'", "", "--encoding cp1252", lambda run: run.status,
                            (2, 0)),),
        "--date-format": (Seen("schema init north.csv --encoding cp1252 --delimiter ';'", "",
                               "--date-format %d.%m.%Y", lambda run: kind_of(run, "joined"),
                               ("categorical", "datetime")),),
        "--json": in_json("schema init data.csv")},
    "schema check": {
        "--against": (Seen("schema check schema.toml", "", "--against data.csv", lambda run: "NOT PRIVATE" in run.err,
                           (False, True)),),
        **form("schema check north.toml --against north.csv", without=3),
        "--json": in_json("schema check schema.toml")},
    "ledger create": {
        "--epsilon": (Seen("ledger create new.json", "--epsilon 1", "--epsilon 2", lambda run: (
            run.book("new.json").budget.epsilon), (1.0, 2.0)),),
        "--delta": (Seen("ledger create new.json --epsilon 1", "", "--delta 1e-4", lambda run: (
            run.book("new.json").budget.delta), (0.0, 1e-4)),),
        "--data-set": (Seen("ledger create new.json --epsilon 1", "", "--data-set clinic", lambda run: (
            run.book("new.json").data_set), ("new", "clinic")),),
        "--reserve-delta": (Seen("ledger create new.json --epsilon 1 --delta 1e-4", "", "--reserve-delta 1e-5",
                                 lambda run: run.book("new.json").reserve_delta, (0.0, 1e-5)),),
        "--json": in_json("ledger create new.json --epsilon 1")},
    "ledger show": {"--json": in_json("ledger show book.json")},
    "ledger verify": {"--json": in_json("ledger verify book.json")},
    "ledger raise": {
        "--epsilon": (Seen("ledger raise book.json", "--epsilon 3", "--epsilon 4", lambda run: (
            run.book().budget.epsilon), (3.0, 4.0)),),
        "--delta": (Seen("ledger raise book.json --epsilon 3", "", "--delta 1e-2", lambda run: run.book().budget.delta,
                         (1e-3, 1e-2)),),
        "--reserve-delta": (Seen("ledger raise book.json --epsilon 3 --delta 2e-3", "", "--reserve-delta 2e-4",
                                 lambda run: run.book().reserve_delta, (1e-4, 2e-4)),),
        "--json": in_json("ledger raise book.json --epsilon 3")},
    "ledger add": {
        "--epsilon": (Seen(ADD.replace("--epsilon 0.1 ", ""), "--epsilon 0.1", "--epsilon 0.2", lambda run: (
            claimed(run).epsilon), (0.1, 0.2)),),
        "--purpose": (Seen(ADD.replace("--purpose mean ", ""), "--purpose mean", "--purpose 'a count'", lambda run: (
            charged(run).purpose), ("mean", "a count")),),
        "--by": (Seen(ADD.replace("--by other ", ""), "--by other", "--by 'SmartNoise 1.0'", lambda run: (
            charged(run).proof), tuple(f"claimed by {by}, not proved here" for by in ("other", "SmartNoise 1.0"))),),
        "--neighbours": (Seen(ADD.replace("--neighbours replace-one", ""), "--neighbours replace-one",
                              "--neighbours add-remove", lambda run: claimed(run).epsilon,
                              (pytest.approx(0.1), pytest.approx(0.2))),),
        "--delta": (Seen(ADD, "", "--delta 1e-5", lambda run: claimed(run).delta, (0.0, 1e-5)),),
        "--count": (Seen(ADD, "", "--count 3", lambda run: (charged(run).count, run.book().total),
                         ((1, pytest.approx(0.1)), (3, pytest.approx(0.3)))),),
        "--json": in_json(ADD)},
    "part design": {
        "--schema": (Seen(DESIGN.replace("--schema schema.toml ", ""), "--schema schema.toml", "--schema short.toml",
                          lambda run: list(run.design().schema.names), (NAMES, NAMES[:2])),),
        "--n": (Seen(DESIGN.replace("--n 150 ", ""), "--n 150", "--n 200", lambda run: run.design().n, (150, 200)),),
        "--epsilon": (Seen(DESIGN.replace("--epsilon 1 ", ""), "--epsilon 1", "--epsilon 2", lambda run: (
            run.design().budget.epsilon), (1.0, 2.0)),),
        "--out": (Seen(DESIGN.replace("--out new.json", ""), "--out new.json", "--out b.json", lambda run: (
            run.new("new.json", "b.json")), (["new.json"], ["b.json"])),),
        "--delta": (Seen(DESIGN, "", "--delta 1e-4", lambda run: run.design().budget.delta, (0.0, 1e-4)),),
        "--smooth": (Seen(DESIGN, "", "--smooth", lambda run: type(run.design().mechanism).__name__,
                          ("TableMechanism", "MomentMechanism")),),
        "--shares": (Seen(f"{DESIGN} --delta 1e-4 --smooth", "", "--shares", lambda run: (
            run.design().history is not None), (False, True)),),
        "--bounds-share": (Seen(DESIGN.replace("schema.toml", "private.toml"), "", "--bounds-share 0.4", lambda run: (
            run.design().bounds_share, bounds_part([c.to_dict() for c in run.design().bounds])),
            ((0.1, pytest.approx(0.1)), (0.4, pytest.approx(0.4)))),),
        "--target": (Seen(DESIGN, "", "--target income", lambda run: run.design().mechanism.target,
                          (None, "income")),),
        "--json": in_json(DESIGN)},
    "part measure": {
        "--out": (Seen("part measure one.csv --design design.json", "--out a.part", "--out b.part", lambda run: (
            run.new("a.part", "b.part")), (["a.part"], ["b.part"])),),
        "--design": (Seen("part measure one.csv --out a.part", "--design design.json", "--design single.json",
                          lambda run: (load_part(run.folder / "a.part").question == load_part(
                              run.folder / "one.part").question), (True, False)),),
        "--schema": (Seen("part measure bare.csv --out a.part --design design.json", "", "--schema bare.toml",
                          lambda run: run.status, (2, 0)),),
        **form("part measure north.csv --design north.json --out a.part"),
        **engines("part measure --design short.json --out a.part", "data.parquet"),
        "--json": in_json("part measure one.csv --design design.json --out a.part")},
    "part share": {
        "--out": (Seen(SHARE.replace("--out new.share", ""), "--out a.share", "--out b.share", lambda run: (
            run.new("a.share", "b.share")), (["a.share"], ["b.share"])),),
        "--design": (Seen(SHARE.replace("--design shared.json ", ""), "--design shared.json", "--design larger.json",
                          lambda run: load_part(run.folder / "new.share").question == load_part(
                              run.folder / "one.share").question, (True, False)),),
        "--parties": (Seen(SHARE.replace("--parties 2 ", ""), "--parties 2", "--parties 3", lambda run: (
            load_part(run.folder / "new.share").parties), (2, 3)),),
        "--party": (Seen(SHARE.replace("--party 1 ", ""), "--party 1", "--party 2", lambda run: (
            load_part(run.folder / "new.share").identities), (frozenset({"party 1"}), frozenset({"party 2"}))),),
        "--tolerated": (Seen(SHARE, "", "--tolerated 1", lambda run: load_part(run.folder / "new.share").tolerated,
                             (0, 1)),),
        "--schema": (Seen("part share bare.csv --out new.share --design shared.json --party 1 --parties 1", "",
                          "--schema bare.toml", lambda run: run.status, (2, 0)),),
        **form("part share north.csv --design norths.json --party 1 --parties 1 --out new.share"),
        "--json": in_json(SHARE)},
    "part add": {
        "--out": (Seen("part add one.part two.part", "--out a.part", "--out b.part", lambda run: run.new(
            "a.part", "b.part"), (["a.part"], ["b.part"])),),
        "--json": in_json("part add one.part two.part --out a.part")},
    "part show": {"--json": in_json("part show one.part")},
    "part release": {
        "--design": (Seen("part release single.part --out new.tm", "--design single.json", "--design design.json",
                          lambda run: (run.status, run.new("new.tm")), ((0, ["new.tm"]), (2, []))),),
        "--out": (Seen("part release single.part --design single.json", "--out new.tm", "--out b.tm", lambda run: (
            run.new("new.tm", "b.tm")), (["new.tm"], ["b.tm"])),),
        "--ledger": (Seen("part release single.part --design single.json --out new.tm", "", "--ledger book.json",
                          lambda run: len(run.book().entries) > 0, (False, True)),),
        "--next": (Seen("part release one.part two.part --design design.json --out new.tm", "", "--next b.json",
                        lambda run: run.new("new.round2.json", "b.json"), (["new.round2.json"], ["b.json"])),),
        "--json": in_json("part release single.part --design single.json --out new.tm")},
}


def commands(command=None, words=()):
    command = typer.main.get_command(app) if command is None else command
    own = {max(parameter.opts, key=len) for parameter in command.params if parameter.param_type_name == "option"}
    below = getattr(command, "commands", {})
    found = {" ".join(words): own} if own or not below else {}
    for name, each in below.items():
        found |= commands(each, (*words, name))
    return found


def test_every_option_of_every_command_has_an_entry():
    # tests/test_lights.py looks at limits, and at the two commands that show lights.
    there = {name: options - set(UNSEEN) - {"--limits"} for name, options in commands().items()
             if name not in ("compare", "advise")}
    assert there == {name: set(options) for name, options in TABLE.items()}
    # And so an option that nobody has thought of would be missed.
    assert sum(map(len, there.values())) > 90


# By day other options of these commands; what these decide is seen in tests of answers, of fits and of the demo.
SLOW = {f"ask {option}" for option in ("--csv", "--count", "--population", "--force")} | {
    f"fit {option}" for option in ("--count", "--family", "--population", "--imputations")} | {
    f"demo {option}" for option in ("--epsilon", "--delta", "--rows")}
CASES = [pytest.param(case, id=f"{name} {option} {at}".strip(),
                      marks=[pytest.mark.nightly] * (f"{name} {option}" in SLOW))
         for name, options in TABLE.items() for option, cases in options.items() for at, case in enumerate(cases)]


def test_facts_for_machines_have_no_numbers_that_json_lacks():
    facts = {"a": math.nan, "b": [math.inf, 1.0, (-math.inf, np.float64(np.nan), 2)], "c": {"d": None, "e": "x"}}
    plain = {"a": None, "b": [None, 1.0, [None, None, 2]], "c": {"d": None, "e": "x"}}
    assert json.loads(options.json_of(facts)) == plain
    assert json.loads(options.json_of(facts, indent=1)) == plain
    # No command prints JSON of its own.
    for path in Path(options.__file__).parent.glob("*.py"):
        assert path.read_text().count("json.dumps") == (path.name == "options.py"), path.name



@pytest.mark.parametrize("case", CASES)
def test_what_an_option_decides_is_what_it_was_given(case, ran):
    runs = [ran(f"{case.line} {value}".strip()) for value in (case.first, case.second)]
    assert case.look(runs[0]) == case.expected[0], runs[0].err
    assert case.look(runs[1]) == case.expected[1], runs[1].err
    assert case.expected[0] != case.expected[1]


@pytest.mark.parametrize(("line", "option", "made"), [
    ("sample clinic.tm --rows 7", "--seed", lambda run: run.out),
    ("demo --rows 7 --json", "--seed", lambda run: run.rows("trigmech-demo/synthetic.csv")),
    ("release data.csv --schema schema.toml --epsilon 1 --out new.tm --csv made.csv", "--simulate",
     lambda run: run.release().distribution.points.tolist())], ids=["sample", "demo", "release"])
def test_a_seed_gives_the_same_again_and_another_seed_something_else(line, option, made, ran):
    first, again, other = (made(ran(each)) for each in (f"{line} {option} 1", f"--verbose {line} {option} 1",
                                                        f"{line} {option} 2"))
    assert first == again
    assert first != other
