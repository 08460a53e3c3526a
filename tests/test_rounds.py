"""Runs that are broken off go on where they were: nothing is drawn twice or charged twice, and nothing else fits."""

import contextlib
import dataclasses
import errno
import json
import logging
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import trigmech as tm
from trigmech.cli import files, release
from trigmech.cli.app import main
from trigmech.cli.ending import Ended
from trigmech.errors import BudgetError, InputError
from trigmech.functions.chebyshev import ChebyshevBasis
from trigmech.functions.features import Features
from trigmech.mechanisms import default
from trigmech.privacy.ledger_file import LedgerFile
from trigmech.privacy.noise import SystemNoise
from trigmech.storage import rounds_file
from trigmech.storage.rounds_file import RoundsFile
from trigmech.thesis.release import _gram_schmidt

pytestmark = pytest.mark.filterwarnings("ignore::trigmech.FitWarning")

BUDGET = tm.Budget(20.0, 1e-6)
SCHEMA = tm.Schema([tm.Column("age", 0, 120, "integer", missing="keep"), tm.Column("born", 0, 200, "integer"),
                    tm.Column("region", kind="categorical", categories=("north", "south"))])
FAST = tm.TableMechanism(points=64)


def table(n=300, seed=1):
    rng = np.random.default_rng(seed)
    age = np.where(rng.random(n) < 0.1, np.nan, rng.integers(18, 30, n))
    return pd.DataFrame({"age": age, "born": rng.integers(60, 70, n), "region": rng.choice(["north", "south"], n)})


class Killed(BaseException):
    """The end of a process: nothing catches it."""


@pytest.fixture
def folder(tmp_path):
    """A folder with a ledger file that has room for two runs, for the rounds file of one."""
    LedgerFile.create(tmp_path / "ledger.json", tm.Budget(50.0, 1e-6))
    return tmp_path


@pytest.fixture
def drawn(monkeypatch):
    """All that hardened noise was added to so far, as it came back."""
    made = []

    def watch(law, draw):
        def spy(self, values, scale):
            made.append(draw(self, values, scale))
            return made[-1].copy()

        monkeypatch.setattr(SystemNoise, law, spy)

    watch("gaussian", SystemNoise.gaussian)
    watch("laplace", SystemNoise.laplace)
    return made


def run(folder, data=None, mechanism=FAST, schema=SCHEMA, budget=BUDGET, **options):
    options = {"ledger": folder / "ledger.json", "rounds": folder / "a.rounds"} | options
    return tm.synthesize(table() if data is None else data, schema, budget, mechanism, **options)


def entries(folder):
    return LedgerFile.open(folder / "ledger.json").entries


def kept(folder):
    """What the rounds file has of each draw."""
    lines = (folder / "a.rounds").read_text().splitlines()
    return [json.loads(line.partition(" ")[2])["released"] for line in lines[1:]]


def header(folder):
    """The first line of the rounds file."""
    return json.loads((folder / "a.rounds").read_text().splitlines()[0].partition(" ")[2])


def kill(monkeypatch, owner, name, count, before):
    """Let the process end before or after a method is called for that time."""
    method, calls = getattr(owner, name), []

    def ending(*arguments, **options):
        calls.append(1)
        if len(calls) == count and before:
            raise Killed
        made = method(*arguments, **options)
        if len(calls) == count:
            raise Killed
        return made

    monkeypatch.setattr(owner, name, ending)


def bits(made, folder):
    """All of a release but the seconds that its fit took."""
    path = folder / "bits.tm"
    dataclasses.replace(made, fit=dataclasses.replace(made.fit, seconds=0.0)).save(path)
    content = path.read_bytes()
    path.unlink()
    return content


# Where a process can end: method, how often it was called, whether before or after; draws that are in the file then,
# that were made then, and charges in the ledger file.
MOMENTS = {
    "before the file is there": (RoundsFile, "begin", 1, True, None, 0, 0),
    "before the charge": (LedgerFile, "charge", 1, True, 0, 0, 0),
    "after the charge": (LedgerFile, "charge", 1, False, 0, 0, 4),
    "when the first draw is made": (RoundsFile, "keep", 1, True, 0, 1, 4),
    "when the first draw is written": (RoundsFile, "keep", 1, False, 1, 1, 4),
    "when the second draw is made": (RoundsFile, "keep", 2, True, 1, 2, 4),
    "when the second draw is written": (RoundsFile, "keep", 2, False, 2, 2, 4),
    "when the third draw is made": (RoundsFile, "keep", 3, True, 2, 3, 4),
    "when the third draw is written": (RoundsFile, "keep", 3, False, 3, 3, 4),
    "when the fourth draw is made": (RoundsFile, "keep", 4, True, 3, 4, 4),
    "when the fourth draw is written": (RoundsFile, "keep", 4, False, 4, 4, 4),
    "before the fit": (tm.TableMechanism, "reconstruct", 1, True, 4, 4, 4),
}


@pytest.mark.daily("before the file is there", "after the charge", "when the first draw is written",
                   "when the third draw is written", "before the fit")
@pytest.mark.parametrize("moment", MOMENTS)
def test_whenever_a_process_ends_the_run_goes_on_with_what_was_released(moment, folder, drawn, monkeypatch):
    *where, in_file, made_then, charged = MOMENTS[moment]
    with monkeypatch.context() as patch:
        kill(patch, *where)
        with pytest.raises(Killed):
            run(folder)
    assert (len(drawn), len(entries(folder))) == (made_then, charged)
    assert (folder / "a.rounds").exists() == (in_file is not None)
    first = kept(folder) if in_file is not None else []
    assert len(first) == (in_file or 0)
    made = run(folder)
    # Draws that were written are not made again, and those are in the release.
    assert len(drawn) == made_then + 4 - len(first)
    final = kept(folder)
    assert final[: len(first)] == first
    assert [np.array(each).tolist() for each in final[len(first):]] == [each.tolist() for each in
                                                                       drawn[made_then:]]
    assert [entry.charge for entry in entries(folder)] == list(made.design.charges) == made.ledger.charges
    assert {entry.run for entry in entries(folder)} == {made.ledger.run}
    # As long as the file is there, the same release is made again.
    again = run(folder)
    assert bits(again, folder) == bits(made, folder)
    assert len(drawn) == made_then + 4 - len(first)
    assert len(entries(folder)) == 4


def test_a_run_of_its_own_is_another_release_and_charged(folder, drawn):
    first = run(folder)
    (folder / "a.rounds").unlink()
    second = run(folder)
    assert (len(drawn), len(entries(folder))) == (8, 8)
    assert first.ledger.run != second.ledger.run
    assert bits(first, folder) != bits(second, folder)


def test_rounds_need_no_ledger_file(folder, drawn, monkeypatch):
    kill(monkeypatch, RoundsFile, "keep", 2, False)
    planned = tm.design(300, SCHEMA, BUDGET, FAST)
    with pytest.raises(Killed):
        tm.measure(table(), SCHEMA, planned, rounds=folder / "a.rounds")
    made = tm.measure(table(), SCHEMA, planned, rounds=str(folder / "a.rounds"))
    assert made.ledger.charges == list(planned.charges)
    assert len(drawn) == 4


def test_a_part_of_a_line_is_of_a_draw_that_nobody_has_seen(folder, drawn, monkeypatch):
    write = os.write

    def torn(handle, content):
        if b'"released"' in content:
            write(handle, content[: len(content) // 2])
            raise Killed
        return write(handle, content)

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", torn)
        with pytest.raises(Killed):
            run(folder)
    part = (folder / "a.rounds").read_bytes().splitlines()[-1]
    assert len(part) > 1000
    made = run(folder)
    assert part[-1000:] not in (folder / "a.rounds").read_bytes()
    assert (len(drawn), len(entries(folder)), len(kept(folder))) == (5, 4, 4)
    assert bits(run(folder), folder) == bits(made, folder)


def test_a_draw_is_on_the_disk_before_it_is_used(folder, monkeypatch):
    synced, sync, keep = [], os.fsync, RoundsFile.keep

    def watched(handle):
        state = os.fstat(handle)
        synced.append((state.st_ino, state.st_size))
        sync(handle)

    def keeps(self, charge, released):
        keep(self, charge, released)
        state = self.path.stat()
        assert synced[-1] == (state.st_ino, state.st_size)

    monkeypatch.setattr(os, "fsync", watched)
    monkeypatch.setattr(RoundsFile, "keep", keeps)
    made = run(folder)
    # And the name of the file before the charge.
    assert len(made.ledger.charges) == 4
    assert folder.stat().st_ino in {inode for inode, _ in synced}


# What is private of the schema, and public random numbers


PRIVATE = tm.Schema([tm.Column("town", kind="categorical", categories="private"),
                     tm.Column("a", private_bounds=True), tm.Column("b", 0, 1)])


def towns(n=1_200):
    rng = np.random.default_rng(1)
    rare = np.array([f"hamlet {k}" for k in range(n)])
    return pd.DataFrame({"town": np.where(rng.random(n) < 0.2, rare, rng.choice(["York", "Bath"], n)),
                         "a": rng.normal(5.0, 2.0, n), "b": rng.random(n)})


@pytest.mark.daily("9")
@pytest.mark.parametrize("count", [1, 3, 4, 9])
def test_what_was_found_of_a_schema_is_found_again_and_rare_categories_are_in_no_file(count, tmp_path, drawn,
                                                                                      monkeypatch):
    LedgerFile.create(tmp_path / "ledger.json", BUDGET, reserve_delta=1e-7)
    with monkeypatch.context() as patch:
        kill(patch, RoundsFile, "keep", count, False)
        with pytest.raises(Killed) if count < 9 else contextlib.nullcontext():
            run(tmp_path, towns(), schema=PRIVATE)
    assert len(drawn) == count if count < 9 else len(drawn) in (6, 7)
    made = run(tmp_path, towns(), schema=PRIVATE)
    # With a closer look, or without: that depends on the noise.
    assert len(drawn) == len(kept(tmp_path)) in (6, 7)
    assert made.schema.columns[0].categories == ("Bath", "York", "other")
    assert len(entries(tmp_path)) == len(made.ledger.charges) == 8
    content = (tmp_path / "a.rounds").read_text()
    assert "hamlet" not in content
    # Nor the noisy counts, whose number is private.
    selected = drawn[2]
    assert selected.size == towns()["town"].nunique()
    assert not any(repr(value) in content for value in selected.tolist())
    assert [sorted(each) for each in kept(tmp_path) if isinstance(each, dict)] == [["town"]]
    assert bits(run(tmp_path, towns(), schema=PRIVATE), tmp_path) == bits(made, tmp_path)


def test_public_random_numbers_are_the_same_when_a_run_goes_on(folder, drawn, monkeypatch):
    mechanism = tm.ImprovedTrigII(n_candidates=50, rank=2, iterations=4)
    X, schema = np.random.default_rng(1).uniform(-1.0, 1.0, (200, 3)), tm.Schema.cube(3)
    with monkeypatch.context() as patch:
        kill(patch, RoundsFile, "keep", 4, False)
        with pytest.raises(Killed):
            run(folder, X, mechanism, schema)
    made = run(folder, X, mechanism, schema)
    assert len(drawn) == 6
    # The axes that the last product was made of are those of the product before.
    seed, mean = header(folder)["seed"], made.release.mean
    before = _gram_schmidt(np.random.default_rng(int(seed, 16)).standard_normal((3, 2)))
    for product in kept(folder)[2:5]:
        before = _gram_schmidt(np.reshape(product, (3, 2)) - np.outer(mean, mean @ before))
    np.testing.assert_array_equal(made.release.axes.previous, before)


class Adaptive(tm.Mechanism):
    """A mechanism of somebody's own that charges and draws twice, the second time by what came first."""

    def plan(self, facts):
        half = dataclasses.replace(facts, budget=tm.Budget(facts.budget.epsilon / 2.0))
        design = self.equip(half, Features(ChebyshevBasis([[1]])), 2.0)
        return dataclasses.replace(design, facts=facts, charges=design.charges * 2)

    def run(self, rows, design, session, rng):
        first = session.release(rows, design.measured)
        return first if first.means[0] > 9.0 else session.release(rows, design.measured)


def test_charges_that_come_one_by_one_are_made_once(folder, drawn, monkeypatch):
    X, schema, mechanism = np.linspace(-1, 1, 50)[:, None], tm.Schema.cube(1), Adaptive()
    for owner, name, count in ((LedgerFile, "charge", 2), (RoundsFile, "keep", 1)):
        with monkeypatch.context() as patch:
            kill(patch, owner, name, count, False)
            with pytest.raises(Killed):
                run(folder, X, mechanism, schema, tm.Budget(2.0))
    made = run(folder, X, mechanism, schema, tm.Budget(2.0))
    assert (len(drawn), len(entries(folder)), len(made.ledger.charges)) == (2, 2, 2)


# What does not fit


def test_a_refused_charge_leaves_no_file(folder):
    with pytest.raises(BudgetError, match="over the budget"):
        run(folder, budget=tm.Budget(51.0, 1e-6))
    assert not (folder / "a.rounds").exists()
    with pytest.raises(InputError, match="simulation"):
        tm.synthesize(table(), SCHEMA, BUDGET, FAST, np.random.default_rng(1), rounds=folder / "a.rounds")
    with pytest.raises(InputError, match="cannot write"):
        run(folder, rounds=folder / "no" / "a.rounds")
    assert entries(folder) == ()


# Other weights in the second round, at the same charges.
OTHER = tm.TableMechanism(points=64, workload=tm.workload.Marginals(2, "region"))


def test_the_run_of_another_design_schema_table_or_ledger_is_refused_by_name(folder, drawn, monkeypatch):
    with monkeypatch.context() as patch:
        kill(patch, RoundsFile, "keep", 1, False)
        with pytest.raises(Killed):
            run(folder)
    content = (folder / "a.rounds").read_bytes()
    LedgerFile.create(folder / "other.json", tm.Budget(50.0, 1e-6), data_set="other")
    wider = tm.Schema([dataclasses.replace(SCHEMA.columns[0], upper=121), *SCHEMA.columns[1:]])
    assert tm.design(300, SCHEMA, BUDGET, OTHER).charges == tm.design(300, SCHEMA, BUDGET, FAST).charges
    for words, options in {
        "to another design": {"budget": tm.Budget(19.0, 1e-6)}, "another design. To": {"mechanism": OTHER},
        "to another schema": {"schema": wider}, "to another number of rows": {"data": table(301)},
        "to another ledger file": {"ledger": folder / "other.json"}, "another ledger file": {"ledger": None},
    }.items():
        with pytest.raises(InputError, match=words) as refused:
            run(folder, **options)
        assert repr(str(folder / "a.rounds")) in str(refused.value)
    with monkeypatch.context() as patch:
        patch.setattr(rounds_file, "version", lambda: "0.0.7")
        with pytest.raises(InputError, match="to another version of trigmech"):
            run(folder)
    assert (folder / "a.rounds").read_bytes() == content
    assert (len(drawn), len(entries(folder)), len(LedgerFile.open(folder / "other.json").entries)) == (1, 4, 0)
    # How rows are made of what is released does not matter to it.
    assert len(run(folder, mechanism=tm.TableMechanism(points=50)).distribution.points) == 50
    assert len(drawn) == 4


def test_two_processes_do_not_share_a_file(folder, monkeypatch):
    with monkeypatch.context() as patch:
        kill(patch, RoundsFile, "keep", 1, False)
        with pytest.raises(Killed):
            run(folder)
    facts = {name: header(folder)[name] for name in ("n", "ledger", "schema", "design")}
    with rounds_file.opened(folder / "a.rounds", **facts), pytest.raises(InputError, match="another process uses"):
        run(folder)
    again = folder / "b.rounds"
    with rounds_file.opened(again, **facts) as one, rounds_file.opened(again, **facts) as two:
        assert one.begin()
        with pytest.raises(InputError, match="another process uses"):
            two.begin()
    assert run(folder).n == 300


def no_room(self, record):
    if "released" in record:
        os.write(self._handle, b"half a line")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    return APPEND(self, record)


APPEND = RoundsFile._append


def test_a_draw_that_cannot_be_written_is_used_once_and_the_file_goes(folder, drawn, monkeypatch, caplog):
    with monkeypatch.context() as patch, caplog.at_level(logging.WARNING, "trigmech"):
        patch.setattr(RoundsFile, "_append", no_room)
        made = run(folder)
    assert "rounds file, which was removed" in caplog.text
    assert not (folder / "a.rounds").exists()
    assert (len(drawn), len(entries(folder)), made.n) == (4, 4, 300)
    # What comes next is another run.
    run(folder)
    assert (len(drawn), len(entries(folder))) == (8, 8)


def linked(path):
    os.link(path, path.with_name("second.rounds"))


def moved(path):
    path.rename(path.with_name("second.rounds"))


def moved_and_replaced(path):
    path.rename(path.with_name("second.rounds"))
    path.write_text("somebody's")


def moved_and_pointed_to(path):
    path.rename(path.with_name("second.rounds"))
    path.symlink_to("second.rounds")


@pytest.mark.daily("linked", "linked late", "replaced")
@pytest.mark.parametrize(("meanwhile", "count"), [
    pytest.param(linked, 1, id="linked"), pytest.param(linked, 3, id="linked late"), pytest.param(moved, 1, id="moved"),
    pytest.param(moved_and_replaced, 1, id="replaced"), pytest.param(moved_and_pointed_to, 1, id="pointed to")])
def test_a_draw_that_cannot_be_written_leaves_no_other_name_to_draw_again_by(meanwhile, count, folder, drawn,
                                                                            monkeypatch):
    second, seen = folder / "second.rounds", []

    def no_room_after(self, record):
        seen.append("released" in record)
        if sum(seen) < count:
            return APPEND(self, record)
        meanwhile(self.path)
        return no_room(self, record)

    with monkeypatch.context() as patch:
        patch.setattr(RoundsFile, "_append", no_room_after)
        run(folder)
    assert (second.stat().st_size, len(drawn), len(entries(folder))) == (0, 4, 4)
    # A file that somebody put in its place is not removed for it.
    there = [path.read_text() for path in folder.glob("a.*")]
    assert there == {moved_and_replaced: ["somebody's"], moved_and_pointed_to: [""]}.get(meanwhile, [])
    # Who goes on by the other name begins anew, and pays for it.
    run(folder, rounds=second)
    assert (len(drawn), len(entries(folder))) == (8, 8)


def test_a_file_that_cannot_be_emptied_is_not_given_up(folder, drawn, monkeypatch):
    def fails(handle, length):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patch:
        patch.setattr(RoundsFile, "_append", no_room)
        patch.setattr(os, "ftruncate", fails)
        with pytest.raises(InputError, match="so the draw is not used; run again"):
            run(folder)
    assert (folder / "a.rounds").exists()
    run(folder)
    assert (len(drawn), len(entries(folder))) == (5, 4)


def test_a_file_that_is_empty_but_cannot_be_removed_begins_anew(folder, drawn, monkeypatch):
    unlink = Path.unlink

    def stays(self, **options):
        if self.suffix == ".rounds":
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))
        unlink(self, **options)

    with monkeypatch.context() as patch:
        patch.setattr(RoundsFile, "_append", no_room)
        patch.setattr(Path, "unlink", stays)
        run(folder)
    assert ((folder / "a.rounds").read_bytes(), len(drawn), len(entries(folder))) == (b"", 4, 4)
    run(folder)
    assert (len(drawn), len(entries(folder))) == (8, 8)


def test_a_file_of_two_names_is_refused_and_one_behind_a_symbolic_link_is_not(folder, drawn, monkeypatch):
    with monkeypatch.context() as patch:
        kill(patch, RoundsFile, "keep", 1, False)
        with pytest.raises(Killed):
            run(folder)
    os.link(folder / "a.rounds", folder / "second.rounds")
    for name in ("a.rounds", "second.rounds"):
        with pytest.raises(InputError, match="has 2 names"):
            run(folder, rounds=folder / name)
    assert (len(drawn), len(entries(folder))) == (1, 4)
    (folder / "a.rounds").unlink()
    (folder / "a.rounds").symlink_to("second.rounds")
    run(folder)
    assert (len(drawn), len(entries(folder))) == (4, 4)


def test_a_draw_that_cannot_be_written_beside_a_file_that_stays_is_not_used(folder, drawn, monkeypatch):
    def stays(self):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    with monkeypatch.context() as patch:
        patch.setattr(RoundsFile, "_append", no_room)
        patch.setattr(RoundsFile, "remove", stays)
        with pytest.raises(InputError, match="so the draw is not used; run again"):
            run(folder)
    run(folder)
    assert (len(drawn), len(entries(folder))) == (5, 4)


def test_a_file_that_cannot_be_begun_costs_nothing(folder, monkeypatch):
    def fails(self, record):
        raise OSError(errno.EIO, "no disk")

    monkeypatch.setattr(RoundsFile, "_append", fails)
    with pytest.raises(InputError, match="no disk"):
        run(folder)
    assert entries(folder) == ()
    assert not (folder / "a.rounds").exists()


def test_a_run_that_was_charged_for_something_else_does_not_go_on(folder):
    book = LedgerFile.open(folder / "ledger.json")
    own, other = (tm.Charge("mean", "laplace", scale, 1.0, "L1", 1, "here") for scale in (2.0, 4.0))
    book.charge("run", [other], False)
    ledger = tm.Ledger(tm.Budget(1.0), file=book, run="run", written=[other])
    for charges in ((own,), (other, other)):
        with pytest.raises(BudgetError, match="charged for something else"):
            ledger.charge(*charges)
    ledger.charge(other)
    ledger.charge(other)
    assert (len(book.entries), ledger.charges) == (2, [other, other])


# Files from elsewhere


def chained(records):
    before, lines = "", []
    for record in records:
        text = json.dumps(record)
        before = rounds_file._chained(before, text)
        lines.append(f"{before} {text}\n")
    return "".join(lines).encode()


HOSTILE = [None, True, -1, 2**80, 1e300, "", "x\0", [], [[]], {}, {"a": 1}, {"a": [1]}, [None], ["x"], [1.0] * 70]


def test_damaged_and_hostile_files_are_refused_and_stay(folder, drawn):
    run(folder)
    path = folder / "a.rounds"
    sound, places = path.read_bytes(), np.random.default_rng(1)
    for place in [0, 70, 200, *places.integers(len(sound) - 1, size=20)]:
        path.write_bytes(sound[:place] + bytes([sound[place] ^ 1]) + sound[place + 1:])
        with pytest.raises(InputError, match="damaged"):
            run(folder)
    lines = sound.splitlines(keepends=True)
    for content in (b"a letter", b"a letter\n", b"\n", b"\0" * 100, b"\xff\n", lines[0][:-1], lines[1],
                    lines[0] + lines[2], b"0 " + b"[" * 10**5 + b"\n"):
        path.write_bytes(content)
        with pytest.raises(InputError, match="cannot continue the run"):
            run(folder)
        assert path.read_bytes() == content
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(InputError, match="a device or a pipe, not an ordinary file"):
        run(folder)
    assert (len(drawn), len(entries(folder))) == (4, 4)


@pytest.mark.nightly  # By day any value of a saved release is, in test_saved.py.
def test_any_value_in_a_file_is_refused_or_makes_a_release(folder, drawn, monkeypatch):
    run(folder)
    records = [json.loads(line.partition(" ")[2]) for line in (folder / "a.rounds").read_text().splitlines()]
    refused = 0
    facts = {name: records[0][name] for name in ("n", "ledger", "schema", "design")}
    for place, record in enumerate(records):
        for name in record:
            for value in HOSTILE:
                changed = [dict(each) for each in records]
                changed[place][name] = value
                (folder / "a.rounds").write_bytes(chained(changed))
                try:
                    with rounds_file.opened(folder / "a.rounds", **facts) as rounds:
                        assert len(rounds._known) == 4
                except InputError:
                    refused += 1
    assert refused > 150


def test_a_draw_of_another_size_is_not_taken(folder, drawn):
    run(folder)
    records = [json.loads(line.partition(" ")[2]) for line in (folder / "a.rounds").read_text().splitlines()]
    records[2] |= {"released": records[2]["released"][1:], "shape": [len(records[2]["released"]) - 1]}
    (folder / "a.rounds").write_bytes(chained(records))
    with pytest.raises(InputError, match="the next draw of this run is columns, closer"):
        run(folder)
    assert len(drawn) == 4


def test_a_file_begins_with_the_draws_that_it_has_in_their_order_to_the_last_bit(folder, drawn):
    run(folder)
    lines = (folder / "a.rounds").read_text().splitlines()
    facts = {name: json.loads(lines[0].partition(" ")[2])[name] for name in ("n", "ledger", "schema", "design")}
    with rounds_file.opened(folder / "a.rounds", **facts) as rounds:
        draws = list(rounds._known)
        assert len(draws) == 4
        for count in range(5):
            assert rounds.begins_with(draws[:count])
        assert not rounds.begins_with([*draws, draws[-1]])
        assert not rounds.begins_with([draws[1], draws[0]])
        for place, (charge, values) in enumerate(draws):
            for other in (np.nextafter(values, np.inf), values.ravel()[1:], -values):
                assert not rounds.begins_with([*draws[:place], (charge, other)])
            costly = dataclasses.replace(charge, scale=2.0 * charge.scale)
            assert not rounds.begins_with([*draws[:place], (costly, values)])


def test_a_fingerprint_tells_apart_arrays_of_the_same_bytes_and_whatever_else_differs():
    array = np.arange(6.0)
    values = [array, array.reshape(2, 3), array.reshape(3, 2), array.reshape(1, 6), array.view(np.int64), array[:5],
              array.reshape(2, 3).T, array.tolist(), tuple(array.tolist()), array.astype(object), -array, 1, 1.0, True,
              "1", b"1", None, [], [[]], {}, {"a": 1}, {"b": 1}, {"a": 2}, range(1), slice(1), np.float64(1.0),
              tm.Budget(1.0), tm.Budget(2.0), tm.Budget(1.0, 1e-9), SCHEMA, SCHEMA.columns[0]]
    found = [rounds_file.fingerprint(value) for value in values]
    assert len(set(found)) == len(values)
    assert found == [rounds_file.fingerprint(value) for value in values]
    assert rounds_file.fingerprint(1, 2) != rounds_file.fingerprint(2, 1)
    # Numbers alone are read at once; the files of versions that did not do so are still those of their runs.
    assert rounds_file.fingerprint((1.0, 2.5, -0.0, float("nan")), [0.1, 2], {1.0: [0.5]}) == (
        "0488303d26d8b101ec22dcf652ce7bfaba48115a22f221261380e9990cf4ea38")


# The command line


TOML = """
[columns.age]
kind = "integer"
lower = 0
upper = 120
missing = "keep"

[columns.born]
kind = "integer"
lower = 0
upper = 200

[columns.region]
kind = "categorical"
categories = ["north", "south"]
"""
RELEASE = ["release", "data.csv", "--schema", "schema.toml", "--epsilon", "1", "--delta", "1e-6", "--out", "new.tm",
           "--ledger", "book.json", "--csv", "rows.csv"]
# Ends without a word when the first draw is written, as a killed process does.
ENDING = """
import functools, os, sys
import trigmech as tm
from trigmech.mechanisms import default
from trigmech.cli.app import main
from trigmech.storage.rounds_file import RoundsFile

keep = RoundsFile.keep
RoundsFile.keep = lambda self, *drawn: (keep(self, *drawn), os._exit(7))
default.TableMechanism = functools.partial(tm.TableMechanism, points=64)
main()
"""


@pytest.fixture
def call(folder, monkeypatch, capsys):
    """Run the command line in this process; return its status and what it told."""
    monkeypatch.chdir(folder)
    monkeypatch.setattr(default, "TableMechanism", partial(tm.TableMechanism, points=64))
    table().to_csv("data.csv", index=False)
    Path("schema.toml").write_text(TOML)

    def called(*arguments):
        monkeypatch.setattr(sys, "argv", ["trigmech", *arguments])
        with pytest.raises(SystemExit) as ending:
            main()
        return ending.value.code or 0, " ".join(capsys.readouterr().err.split())

    return called


@pytest.mark.nightly  # By day runs are ended at every moment, above, and a command goes on, below.
def test_a_command_that_was_killed_goes_on_when_it_is_given_again(call, folder, drawn):
    done = subprocess.run([sys.executable, "-c", ENDING, *RELEASE], cwd=folder, capture_output=True, text=True,
                          check=False)
    assert done.returncode == 7, done.stderr
    first = (folder / "new.tm.rounds").read_text().splitlines()
    charges = tm.design(300, tm.load_schema("schema.toml"), tm.Budget(1.0, 1e-6)).charges
    assert len(first) == 2
    assert len(LedgerFile.open("book.json").entries) == len(charges)
    assert not Path("new.tm").exists()
    # The command for another release does not touch it, nor does this one for another budget.
    status, told = call(*RELEASE[:5], "0.5", *RELEASE[6:])
    assert (status, len(drawn)) == (2, 0)
    assert f"'{folder}/new.tm.rounds': it belongs to another design" in told
    assert (folder / "new.tm.rounds").read_text().splitlines() == first
    status, told = call(*RELEASE)
    assert status == 0
    assert 1 <= len(drawn) < len(charges)
    assert "continuing the interrupted run of new.tm.rounds" in told
    assert not Path("new.tm.rounds").exists()
    assert len(LedgerFile.open("book.json").entries) == len(charges)
    assert [path.name for path in folder.iterdir() if "rounds" in path.name or path.name.startswith(".")] == []
    released = np.array(json.loads(first[1].partition(" ")[2])["released"])
    made = tm.load("new.tm").release
    planned = tm.design(300, tm.load_schema("schema.toml"), tm.Budget(1.0, 1e-6)).measured.looks
    kept = [own.weight * look.known for own, look in zip(planned, made.looks, strict=True)]
    np.testing.assert_allclose(np.concatenate(kept), released, rtol=1e-12)


@pytest.mark.parametrize(("how", "ended"), [(KeyboardInterrupt(), 130), (Ended(143), 143), (Ended(129), 129)])
@pytest.mark.parametrize("where", [(tm.TableMechanism, "reconstruct"), (tm.Synthesis, "save")], ids=["fit", "save"])
def test_an_interrupted_command_says_that_it_goes_on(call, drawn, monkeypatch, where, how, ended):
    with monkeypatch.context() as patch:
        patch.setattr(*where, lambda *_: (_ for _ in ()).throw(how))
        status, told = call(*RELEASE)
    assert status == ended
    assert "run the same command again to continue from new.tm.rounds; nothing is charged twice" in told
    assert "trigmech: interrupted; no output file is incomplete, and charges stay spent" in told
    assert call(*RELEASE)[0] == 0
    assert len(drawn) <= len(LedgerFile.open("book.json").entries)
    assert (Path("new.tm.rounds").exists(), Path("rows.csv").exists()) == (False, True)


def test_a_signal_keeps_its_status_if_the_terminal_is_gone(monkeypatch):
    monkeypatch.setattr(files.typer, "echo", lambda *_, **__: (_ for _ in ()).throw(OSError(5, "no terminal")))
    with pytest.raises(Ended) as ended, files.told_when_ended(lambda: "go on"):
        raise Ended(129)
    assert ended.value.code == 129


@pytest.mark.parametrize("how", [KeyboardInterrupt(), Ended(143)])
def test_a_command_that_ends_while_it_writes_the_table_says_that_the_release_is_saved(call, monkeypatch, how):
    with monkeypatch.context() as patch:
        patch.setattr(release, "write_sample", lambda *_: (_ for _ in ()).throw(how))
        _, told = call(*RELEASE)
    saved = "`trigmech sample` makes a table from it at no further cost"
    assert f"The release itself is saved as 'new.tm'; {saved}" in told
    assert "run the same command again" not in told
    charged = len(LedgerFile.open("book.json").entries)
    status, told = call(*RELEASE)
    assert status == 2
    assert f"'new.tm' is a release whose budget is spent: {saved}. For a new release, which is charged again," in told
    assert len(LedgerFile.open("book.json").entries) == charged
    assert call("sample", "new.tm", "--out", "rows.csv")[0] == 0


def test_simulations_and_runs_without_a_ledger_file_have_no_rounds(call, monkeypatch):
    monkeypatch.setattr(rounds_file, "opened", None)
    assert call(*RELEASE, "--simulate", "1")[0] == 0
    assert call(*RELEASE[:10], "--force")[0] == 0
