"""Ledgers that processes, threads and servers share; outputs, readers and statuses of commands that use them."""

import errno
import os
import stat
import subprocess
import sys
import threading

import numpy as np
import pandas as pd
import pytest
from test_cli import RELEASE, clinic, made, run  # noqa: F401

import trigmech as tm
from trigmech import run as run_module
from trigmech.errors import InputError, PaidError, UncertainChargeError
from trigmech.privacy import ledger_store
from trigmech.privacy.budget import Budget, Charge
from trigmech.privacy.ledger import LedgerFile

SECRET = "Geheim4711"


def laplace(epsilon):
    return [Charge("x", "laplace", 1.0 / epsilon, 1.0, "L1", 1, "given")]


def test_a_charge_that_another_thread_follows_is_no_error(tmp_path, monkeypatch):
    book, change, done = LedgerFile.create(tmp_path / "l.json", Budget(1.0)), ledger_store.OneFile.change, []

    def followed(self, longer):
        state = change(self, longer)
        if not done:
            done.append(1)
            other = threading.Thread(target=book.charge, args=("second", laplace(0.1), False))
            other.start()
            other.join()
        return state

    monkeypatch.setattr(ledger_store.OneFile, "change", followed)
    book.charge("first", laplace(0.1), False)
    assert [entry.run for entry in book.entries] == ["first", "second"]


def test_a_refusal_after_the_categories_were_charged_is_told_as_paid(tmp_path, monkeypatch):
    schema = tm.Schema([tm.Column("age", 0, 120), tm.Column("ward", kind="categorical", private_categories=True)])
    book = LedgerFile.create(tmp_path / "l.json", Budget(1.5, 1e-5), reserve_delta=1e-6)
    found = run_module.found_categories

    def other_meanwhile(*arguments):
        categories = found(*arguments)
        book.charge("colleague", laplace(book.remaining.pure * 0.9), False)
        return categories

    monkeypatch.setattr(run_module, "found_categories", other_meanwhile)
    rng = np.random.default_rng(1)
    table = pd.DataFrame({"age": rng.uniform(0, 100, 500), "ward": rng.choice(["a", "b"], 500)})
    with pytest.raises(PaidError, match=r"over the budget.*A charge was made before, and stays spent"):
        tm.synthesize(table, schema, Budget(1.0, 1e-6), ledger=book, rounds=tmp_path / "a.rounds")


def test_a_release_whose_rounds_file_is_there_is_not_said_to_be_lost(run, clinic, monkeypatch):  # noqa: F811
    def full(self, path):
        raise OSError(28, "x")

    with monkeypatch.context() as patch:
        patch.setattr(tm.Synthesis, "save", full)
        status, _, told = run(*RELEASE, "--ledger", "new.json")
    assert (status, "lost" in told, "run the same command again" in told) == (8, False, True)
    paid = tm.LedgerFile.open("new.json").entries
    assert run(*RELEASE, "--ledger", "new.json")[0] == 0
    assert tm.LedgerFile.open("new.json").entries == paid


def test_a_ledger_that_was_replaced_and_not_synced_is_of_uncertain_charge(tmp_path, monkeypatch):
    book, sync = LedgerFile.create(tmp_path / "l.json", Budget(1.0)), os.fsync

    def failing(handle):
        if stat.S_ISDIR(os.fstat(handle).st_mode):
            raise OSError(errno.EIO, "Input/output error")
        sync(handle)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", failing)
        with pytest.raises(UncertainChargeError, match="as spent"):
            book.charge("run", laplace(0.1), False)
    assert len(book.entries) == 1


def test_a_folder_that_cannot_be_synced_at_all_is_no_error(tmp_path, monkeypatch):
    sync = os.fsync

    def failing(handle):
        if stat.S_ISDIR(os.fstat(handle).st_mode):
            raise OSError(errno.EINVAL, "Invalid argument")
        sync(handle)

    monkeypatch.setattr(os, "fsync", failing)
    LedgerFile.create(tmp_path / "l.json", Budget(1.0)).charge("run", laplace(0.1), False)


def test_a_ledger_that_moved_behind_a_link_is_opened_again(tmp_path):
    book = LedgerFile.create(tmp_path / "l.json", Budget(1.0))
    (tmp_path / "new").mkdir()
    (tmp_path / "l.json").rename(tmp_path / "new" / "l.json")
    (tmp_path / "l.json").symlink_to("new/l.json")
    with pytest.raises(InputError, match="symbolic link"):
        book.charge("run", laplace(0.1), False)
    LedgerFile.open(tmp_path / "l.json").charge("run", laplace(0.1), False)


@pytest.mark.parametrize("address", [
    f'"postgresql://owner:{SECRET}@host/db"', f"'postgresql://owner:{SECRET}@host/db'",
    f"jdbc:postgresql://owner:{SECRET}@host/db", f"postgresql//owner:{SECRET}@host/db", f"owner:{SECRET}@host/db",
    f"URL=postgresql://owner:{SECRET}@host/db", f"postgresql;//owner:{SECRET}@host/db", f"host=h pass={SECRET}",
    f"\ufeffpostgresql://owner:{SECRET}@host/db", f"postgresql://host/db\0password={SECRET}"])
def test_what_may_hold_a_password_is_not_taken_for_a_path(address, run):  # noqa: F811
    for use in (LedgerFile.open, lambda text: LedgerFile.create(text, Budget(1.0))):
        with pytest.raises(InputError, match="address of a ledger") as refused:
            use(address)
        assert SECRET not in str(refused.value)
    if "\0" not in address:
        for command in (("create", address, "--epsilon", "1"), ("show", address)):
            status, *printed = run("ledger", *command)
            assert (status, SECRET in str(printed)) == (2, False)


def test_a_run_that_is_interrupted_before_its_charge_goes_on_with_the_ledger_that_it_made(run, clinic,  # noqa: F811
                                                                                          monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(LedgerFile, "charge", interrupted)
        # Another second than that of the second run.
        patch.setattr("trigmech.privacy.ledger_file.now", lambda: "2026-01-02T03:04:05Z")
        status, _, told = run(*RELEASE, "--ledger", "new.json")
    assert (status, "run the same command again" in told) == (130, True)
    assert run(*RELEASE, "--ledger", "new.json")[0] == 0
    assert LedgerFile.open("new.json").verify() == []


def test_a_ledger_that_another_release_makes_meanwhile_is_used(run, clinic, monkeypatch):  # noqa: F811
    exists, asked = LedgerFile.exists, []

    def late(path, *more):
        asked.append(path)
        if len(asked) == 1:
            LedgerFile.create(path, Budget(5.0, 1e-3))
            return False
        return exists(path, *more)

    monkeypatch.setattr(LedgerFile, "exists", staticmethod(late))
    assert run(*RELEASE, "--ledger", "new.json")[0] == 0
    book = LedgerFile.open("new.json")
    assert book.budget == Budget(5.0, 1e-3)
    assert book.entries


def test_a_reader_that_goes_does_not_change_the_status(tmp_path):
    book = tmp_path / "l.json"
    LedgerFile.create(book, Budget(1.0)).charge("run", laplace(0.1), False)
    book.write_text(book.read_text().replace('"purpose": "x"', '"purpose": "y"'))
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run([sys.executable, "-m", "trigmech", "ledger", "verify", str(book)], stdout=write, check=False)
    assert done.returncode == 3


def test_an_address_in_the_wrong_place_is_repeated_without_its_password(run):  # noqa: F811
    status, *printed = run("ledger", "show", "l.json", f"postgresql://owner:{SECRET}@host/db")
    assert status == 2
    assert "://...@host/db" in str(printed)
    assert SECRET not in str(printed)
