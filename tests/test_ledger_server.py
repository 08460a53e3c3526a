"""Ledgers on a PostgreSQL server, a real one: races, kills, broken connections, edits, rights; no password."""

import copy
import json
import logging
import re
import subprocess
import sys
import time
from contextlib import nullcontext, suppress
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import sklearn
from postgresql import GUARDED, PostgreSQL
from test_cli import run  # noqa: F401 (a fixture)

import trigmech as tm
from trigmech.errors import BudgetError, InputError, UncertainChargeError
from trigmech.privacy import ledger_file, ledger_format, ledger_lock, ledger_server
from trigmech.privacy.budget import Budget, Charge
from trigmech.privacy.ledger import Ledger, LedgerFile
from trigmech.privacy.noise import SystemNoise
from trigmech.report import page

pytest.importorskip("psycopg", reason="NO SERVER TESTED: psycopg is missing; install trigmech[postgres]")

SECRET = "Geheim4711"
# What whoever charges needs, as the guide says.
GUIDE = (Path(__file__).parents[1] / "docs" / "holders.md").read_text(encoding="utf-8")
(RIGHTS,) = re.findall("```sql\n(.*?)```", GUIDE, re.DOTALL)


def laplace(epsilon, purpose="values"):
    return Charge(purpose, "laplace", 1.0 / epsilon, 1.0, "L1", 1, "given")


@pytest.fixture(scope="module")
def server():
    made = PostgreSQL()
    try:
        made.run(f"CREATE ROLE {GUARDED} LOGIN PASSWORD '{SECRET}'", "CREATE ROLE colleague LOGIN",
                 "CREATE ROLE stranger LOGIN")
        yield made
    finally:
        made.stop()


@pytest.fixture
def book(server):
    server.start()
    server.run("DROP SCHEMA IF EXISTS trigmech CASCADE")
    return LedgerFile.create(server.address(), Budget(1.0, 1e-6), data_set="clinic")


@pytest.fixture
def pure(server):
    """Of a budget that charges of pure epsilons fill by their sum."""
    server.start()
    server.run("DROP SCHEMA IF EXISTS trigmech CASCADE")
    return LedgerFile.create(server.address(), Budget(1.0))


def rows(server):
    """All that the server has, as texts."""
    return server.run("SELECT name, form, head, total FROM trigmech.ledgers ORDER BY name") + server.run(
        "SELECT ledger, sequence, entry FROM trigmech.entries ORDER BY ledger, sequence")


# The same ledger in another place


def test_a_ledger_is_made_once_opened_charged_raised_and_refuses(server, book):
    address = server.address()
    with pytest.raises(InputError, match="exists; a ledger is made once"):
        LedgerFile.create(address, Budget(5.0))
    with pytest.raises(InputError, match=r"'postgresql://owner@.*ledger=other' does not exist; make it once"):
        LedgerFile.open(server.address("other"))
    Ledger(Budget(0.5), file=book).charge(laplace(0.2), laplace(0.3))
    again, before = LedgerFile.open(address), rows(server)
    with pytest.raises(BudgetError) as refused:
        Ledger(Budget(1.0), file=again).charge(laplace(0.4), laplace(0.2))
    assert f"over the budget (1, 1e-06) of the ledger {address!r}. The ledger would accept" in str(refused.value)
    assert f"`trigmech ledger show '{address}'`" in str(refused.value)
    assert rows(server) == before
    again.raise_budget(Budget(2.0, 2e-6), reserve_delta=2e-7)
    again.add("mean", Budget(0.5, 1e-7), "tool", neighbours="replace-one")
    Ledger(Budget(9.0), simulated=True, file=again).charge(laplace(5.0))
    assert [entry.sequence for entry in book.entries] == [1, 2, 4, 5]
    assert (book.budget, book.total, book.claims, book.verify()) == (Budget(2.0, 2e-6), again.total, 1, [])
    assert (book.path, book.summary()["file"], repr(book)) == (address, address, f"LedgerFile({address!r})")
    assert copy.deepcopy(book).summary() == again.summary()


def test_what_a_server_holds_is_the_text_of_a_file(server, book, tmp_path, monkeypatch):
    monkeypatch.setattr(ledger_file, "now", lambda: "2026-01-02T03:04:05Z")
    both = [LedgerFile.create(place, Budget(1.0, 1e-6), "münster", reserve_delta=1e-7)
            for place in (server.address("same"), tmp_path / "same.json")]
    for each in both:
        each.charge("run", [laplace(0.25, "Häufigkeit"), laplace(0.125)], False)
        each.raise_budget(Budget(3.0, 1e-6))
        each.note_kept("run", "/elsewhere/release.tm")
        assert each.verify() == []
    (head, total), = server.run("SELECT head, total FROM trigmech.ledgers WHERE name = 'same'")
    lines = [line for line, in server.run("SELECT entry FROM trigmech.entries ORDER BY sequence")]
    assert ledger_format.joined(head, total, lines) == (tmp_path / "same.json").read_bytes()
    assert both[0].identity == both[1].identity


def test_ledgers_of_one_database_do_not_know_of_each_other(server, book):
    other = LedgerFile.create(server.address("b%C3%BCcher %26 mehr"), Budget(0.5))
    unnamed = LedgerFile.create(server.address().partition("&")[0].replace("postgresql", "postgres"), Budget(0.5))
    for each in (book, other, unnamed):
        each.charge("run", [laplace(0.5)], False)
        assert each.total == 0.5
    assert [name for name, in server.run("SELECT name FROM trigmech.ledgers ORDER BY name COLLATE \"C\"")] == [
        "bücher & mehr", "clinic", "ledger"]
    assert not unnamed.removed_if_unused()
    unused = LedgerFile.create(server.address("unused"), Budget(1.0))
    other = LedgerFile.open(server.address("unused"))
    assert LedgerFile.exists(server.address("unused"))
    assert unused.removed_if_unused()
    assert not LedgerFile.exists(server.address("unused"))
    with pytest.raises(InputError, match="does not exist"):
        other.charge("run", [laplace(0.1)], False)


# Writers at the same time


def meanwhile(monkeypatch, act, times, reader="_state"):
    """Let something happen between what a transaction reads and what it decides; return how often it did."""
    read, done = getattr(ledger_server.Server, reader), []

    def reading(self, cursor):
        state = read(self, cursor)
        if len(done) < times and "inside" not in done:
            done.append("inside")
            act()
            done[-1] = "done"
        return state

    monkeypatch.setattr(ledger_server.Server, reader, reading)
    return done


def test_a_charge_is_decided_on_what_is_there_when_it_is_written(server, book, monkeypatch):
    # Both would fit alone, and the second one is read before the first one is written.
    other = LedgerFile.open(server.address())
    done = meanwhile(monkeypatch, lambda: other.charge("first", [laplace(0.6)], False), 1)
    with pytest.raises(BudgetError, match=r"total to 1\.2 "):
        book.charge("second", [laplace(0.6)], False)
    assert (done, [entry.run for entry in book.entries], book.verify()) == (["done"], ["first"], [])


def test_what_was_disturbed_is_tried_again_so_often_and_no_more(server, book, monkeypatch):
    other = LedgerFile.open(server.address())
    monkeypatch.setattr(ledger_server, "MOST_ATTEMPTS", 3)
    with monkeypatch.context() as patch:
        meanwhile(patch, lambda: other.charge("other", [laplace(0.01)], False), 2)
        book.charge("mine", [laplace(0.01)], False)
    assert [entry.run for entry in book.entries] == ["other", "other", "mine"]
    with monkeypatch.context() as patch:
        meanwhile(patch, lambda: other.charge("other", [laplace(0.01)], False), 3)
        with pytest.raises(InputError, match="at each of 3 attempts, so nothing was written"):
            book.charge("mine", [laplace(0.01)], False)
    assert [entry.run for entry in book.entries].count("mine") == 1
    assert book.verify() == []


def test_pauses_between_attempts_double_up_to_a_fifth_of_a_second(server, book, monkeypatch):
    other, pauses = LedgerFile.open(server.address()), []
    meanwhile(monkeypatch, lambda: other.charge("other", [laplace(0.001)], False), 8)
    monkeypatch.setattr(ledger_server.secrets, "randbelow", lambda most: most - 1)
    # The module's own clock alone: other threads of the process sleep too.
    monkeypatch.setattr(ledger_server, "time", SimpleNamespace(sleep=pauses.append, monotonic=time.monotonic))
    book.charge("mine", [laplace(0.001)], False)
    assert pauses == pytest.approx([0.999 * 0.2 * min(1.0, 2.0**attempt / 64.0) for attempt in range(8)])


def test_a_lock_that_is_held_too_long_is_an_error(server, book):
    waiting = LedgerFile.open(server.address(), timeout=0.1)
    with server.connected() as connection, connection.transaction():
        connection.execute("SELECT name FROM trigmech.ledgers FOR UPDATE")
        with pytest.raises(InputError, match="another process has held the lock"):
            waiting.charge("run", [laplace(0.1)], False)
    with pytest.raises(InputError, match="timeout must be at least 0 seconds, not -1"):
        LedgerFile.open(server.address(), timeout=-1)


@pytest.mark.parametrize("tables", [True, False])
@pytest.mark.parametrize("name", ["same", "other"])
def test_ledgers_that_are_made_at_once_are_made_once(server, book, monkeypatch, tables, name):
    if not tables:
        server.run("DROP SCHEMA trigmech CASCADE")
    done = meanwhile(monkeypatch, lambda: LedgerFile.create(server.address(name), Budget(1.0)), 1, "_row")
    with pytest.raises(InputError, match="exists; a ledger is made once") if name == "same" else nullcontext():
        LedgerFile.create(server.address("same"), Budget(2.0))
    assert (done, LedgerFile.open(server.address(name)).budget) == (["done"], Budget(1.0))


# One process imports the package and forks the writers. Each name is tried once, and told what became of it.
WRITERS = """
import os, sys, time
from trigmech.errors import BudgetError, InputError
from trigmech.privacy.budget import Budget, Charge
from trigmech.privacy.ledger import Ledger, LedgerFile

def opened():
    while True:
        try:
            return LedgerFile.open(sys.argv[1], timeout=120.0)
        except InputError:
            time.sleep(0.02)

def work(label):
    for k in range(int(sys.argv[3])):
        name, ledger = f"{label}-{k}", Ledger(Budget(1.0), file=opened())
        try:
            ledger.charge(Charge(name, "laplace", 50.0, 1.0, "L1", 1, "given"))
            said = "granted"
        except BudgetError:
            said = "refused"
        except InputError as error:
            said = "failed"
        os.write(1, f"{said} {name}\\n".encode())

for label in range(int(sys.argv[2])):
    if os.fork() == 0:
        try:
            work(label)
        finally:
            os._exit(0)
for _ in range(int(sys.argv[2])):
    os.wait()
"""


def writers(server, count, charges):
    return subprocess.Popen([sys.executable, "-c", WRITERS, server.address(), str(count), str(charges)], text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def told(lines):
    said = [line.split() for line in lines]
    return {word: sorted(name for found, name in said if found == word) for word in ("granted", "refused", "failed")}


@pytest.mark.nightly
def test_eight_processes_that_charge_at_once_are_granted_the_budget_and_no_more(server, pure):
    with writers(server, 8, 8) as process:
        out, err = process.communicate(timeout=300)
    said = told(out.splitlines())
    # Each of 64 charges costs 0.02, and 50 of them fit.
    assert (err, said["failed"], len(said["granted"]), len(said["refused"])) == ("", [], 50, 14)
    assert said["granted"] == sorted(entry.charge.purpose for entry in pure.entries)
    assert pure.total == pytest.approx(1.0)
    assert pure.total <= 1.0
    assert pure.verify() == []


@pytest.mark.nightly  # By day one commit is lost below.
def test_a_server_that_is_killed_loses_no_charge_that_was_granted_and_has_none_twice(server, pure):
    lines, killed = [], 0
    with writers(server, 4, 20) as process:
        for line in process.stdout:
            lines.append(line)
            if killed < 2 and len(lines) >= 12 * (killed + 1):
                server.kill()
                server.start()
                killed += 1
        assert (process.wait(), process.stderr.read().count("Traceback"), killed) == (0, 0, 2)
    said, names = told(lines), [entry.charge.purpose for entry in pure.entries]
    assert len(set(names)) == len(names)
    assert set(said["granted"]) <= set(names) <= {*said["granted"], *said["failed"]}
    # It went on after each of the kills, up to the budget.
    assert len(names) == 50
    assert pure.total == pytest.approx(1.0)
    assert LedgerFile.open(server.address()).verify() == pure.verify() == []


# A connection that breaks at the worst moment


@pytest.fixture
def breaking(server, monkeypatch):
    """Break the next commit of something: kill the server before or after it, and start it again or not."""
    import psycopg

    commit = psycopg.Connection.commit

    def arrange(before, restart=True):
        def broken(connection):
            if connection.execute("SELECT pg_current_xact_id_if_assigned()").fetchone()[0] is None:
                return commit(connection)
            monkeypatch.setattr(psycopg.Connection, "commit", commit)
            if not before:
                commit(connection)
            server.kill()
            if restart:
                server.start()
            if before:
                commit(connection)
            raise psycopg.OperationalError("server closed the connection unexpectedly")

        monkeypatch.setattr(psycopg.Connection, "commit", broken)

    return arrange


def test_a_commit_that_nobody_acknowledged_is_looked_for(server, book, breaking):
    breaking(before=False)
    ledger = Ledger(Budget(1.0), file=book)
    ledger.charge(laplace(0.25, "first"), laplace(0.25, "second"))
    assert [entry.charge for entry in book.entries] == ledger.charges
    breaking(before=True)
    with pytest.raises(InputError, match="nothing was written, charged or drawn; try again"):
        ledger.charge(laplace(0.125))
    breaking(before=False, restart=False)
    hasty = Ledger(Budget(1.0), file=LedgerFile.open(server.address(), timeout=0.3))
    with pytest.raises(UncertainChargeError, match="cannot be asked whether it succeeded: count it as spent until"):
        hasty.charge(laplace(0.375, "third"))
    assert hasty.charges == []
    server.start()
    assert [entry.charge.purpose for entry in book.entries] == ["first", "second", "third"]
    assert book.verify() == []


def test_a_ledger_that_was_made_or_removed_without_an_answer_is_looked_for(server, book, breaking):
    address = server.address("new")
    breaking(before=True)
    with pytest.raises(InputError, match="broke while it was made, and it did not succeed; try again"):
        LedgerFile.create(address, Budget(1.0))
    assert not LedgerFile.exists(address)
    breaking(before=False)
    made = LedgerFile.create(address, Budget(1.0))
    assert LedgerFile.open(address).identity == made.identity
    breaking(before=True)
    with pytest.raises(InputError, match="broke while it was removed, and it did not succeed; try again"):
        made.removed_if_unused()
    assert LedgerFile.exists(address)
    breaking(before=False)
    assert made.removed_if_unused()
    assert not LedgerFile.exists(address)
    breaking(before=False, restart=False)
    with pytest.raises(InputError, match="whether it succeeded: `trigmech ledger show` shows it") as refused:
        LedgerFile.create(address, Budget(1.0), timeout=0.3)
    server.start()
    assert (LedgerFile.exists(address), isinstance(refused.value, UncertainChargeError)) == (True, False)


@pytest.mark.parametrize("tables", [True, False])
def test_no_answer_is_taken_before_a_ledger_that_is_being_made_is_made_or_not(server, book, monkeypatch, tables):
    import psycopg

    if not tables:
        server.run("DROP SCHEMA trigmech CASCADE")
    commit, held = psycopg.Connection.commit, []

    def lost(connection):
        monkeypatch.setattr(psycopg.Connection, "commit", commit)
        monkeypatch.setattr(connection, "close", lambda: None)
        held.append(connection)
        raise psycopg.OperationalError("timeout")

    monkeypatch.setattr(psycopg.Connection, "commit", lost)
    with pytest.raises(InputError, match="cannot be asked whether it succeeded"):
        LedgerFile.create(server.address("new"), Budget(1.0), timeout=0.2)
    commit(held[0])
    psycopg.Connection.close(held[0])
    assert LedgerFile.exists(server.address("new"))


def test_a_statement_that_takes_too_long_is_no_broken_connection(server, book):
    server.run("CREATE FUNCTION trigmech.slow() RETURNS trigger LANGUAGE plpgsql AS "
               "$$ BEGIN PERFORM pg_sleep(5); RETURN NEW; END $$",
               "CREATE TRIGGER slow BEFORE INSERT ON trigmech.entries FOR EACH ROW EXECUTE FUNCTION trigmech.slow()",
               "ALTER ROLE owner SET statement_timeout = '50ms'")
    try:
        with pytest.raises(InputError, match=r"its statement_timeout allows.*nothing was written") as why:
            book.charge("run", [laplace(0.1)], False)
    finally:
        server.run("ALTER ROLE owner RESET statement_timeout")
    assert "connection broke" not in str(why.value)
    assert book.entries == ()


def test_a_run_of_shares_is_charged_once_by_two_at_once(server, book, monkeypatch):
    same, other = "0" * 16, LedgerFile.open(server.address())
    first, second = ledger_lock.new_attempt(same), ledger_lock.new_attempt(same)
    # What the second one decides on was read before the first one wrote.
    meanwhile(monkeypatch, lambda: other.charge(first, [laplace(0.1)], False, []), 1)
    with pytest.raises(InputError, match="a sum of them was already opened"):
        book.charge(second, [laplace(0.1)], False, [])
    assert [entry.run for entry in book.entries] == [first]


def test_no_answer_is_taken_before_a_commit_in_flight_has_ended(server, book, monkeypatch):
    """The old connection may still commit what was looked for in vain, unless the look waits for it."""
    import psycopg

    commit, held = psycopg.Connection.commit, []

    def lost(connection):
        monkeypatch.setattr(psycopg.Connection, "commit", commit)
        monkeypatch.setattr(connection, "close", lambda: None)
        held.append(connection)
        raise psycopg.OperationalError("timeout")

    hasty = LedgerFile.open(server.address(), timeout=0.2)
    monkeypatch.setattr(psycopg.Connection, "commit", lost)
    with pytest.raises(UncertainChargeError):
        hasty.charge("run", [laplace(0.5)], False)
    commit(held[0])
    psycopg.Connection.close(held[0])
    assert book.total == 0.5


SCHEMA = tm.Schema([tm.Column("age", 0, 120)])
FAST = tm.MomentMechanism(points=64, iterations=1)


@pytest.fixture
def drawn(monkeypatch):
    made, draw = [], SystemNoise.gaussian
    monkeypatch.setattr(SystemNoise, "gaussian", lambda *arguments: made.append(1) or draw(*arguments))
    return made


def release(place, **options):
    table = np.random.default_rng(1).uniform(0, 100, (300, 1))
    return tm.synthesize(table, SCHEMA, Budget(0.5, 1e-6), FAST, ledger=place, **options)


def test_nothing_is_drawn_without_a_charge_and_a_run_goes_on_without_a_second_one(server, book, breaking, drawn,
                                                                                  tmp_path, monkeypatch):
    breaking(before=False, restart=False)
    with pytest.raises(UncertainChargeError, match="a run with a rounds file can be run again"):
        release(LedgerFile.open(server.address(), timeout=0.1), rounds=tmp_path / "a.rounds")
    assert drawn == []
    server.start()
    paid = book.entries
    assert paid
    made = release(server.address(), rounds=tmp_path / "a.rounds")
    assert drawn
    assert (book.entries, made.ledger.charges) == (paid, [entry.charge for entry in paid])
    assert {entry.run for entry in paid} == {made.ledger.run}
    with pytest.raises(BudgetError, match="of the ledger 'postgresql://"):
        release(LedgerFile.create(server.address("small"), Budget(0.1, 1e-6)))


# What somebody did to the database


TAMPERING = {
    "an entry": "UPDATE trigmech.entries SET entry = replace(entry, '\"scale\": 5.0', '\"scale\": 500.0')"
                " WHERE sequence = 2",
    "taken out of the middle": "DELETE FROM trigmech.entries WHERE sequence = 2",
    "the last": "DELETE FROM trigmech.entries WHERE sequence = 3",
    "order": "UPDATE trigmech.entries SET sequence = -sequence",
    "simulated": "UPDATE trigmech.entries SET entry = replace(entry, '\"simulated\": false', '\"simulated\": true')",
    "the total": "UPDATE trigmech.ledgers SET total = '0.1'",
    "the budget": "UPDATE trigmech.ledgers SET head = replace(head, '\"epsilon\": 1.0', '\"epsilon\": 50.0')",
    "put in": "INSERT INTO trigmech.entries SELECT ledger, 4, entry, 'x' FROM trigmech.entries WHERE sequence = 3",
}


def test_edits_are_found_and_nothing_is_charged_then(server, book):
    book.charge("run", [laplace(0.1), laplace(0.2), laplace(0.3)], False)
    assert LedgerFile.open(server.address()).verify() == []
    for name, statement in TAMPERING.items():
        server.run("CREATE TABLE kept AS TABLE trigmech.entries", "CREATE TABLE head AS TABLE trigmech.ledgers")
        server.run(statement)
        fresh = LedgerFile.open(server.address())
        assert fresh.verify() != [], name
        with pytest.raises(InputError, match="does not verify, so nothing is charged"):
            fresh.charge("run", [laplace(0.01)], False)
        server.run("DELETE FROM trigmech.entries", "DELETE FROM trigmech.ledgers",
                   "INSERT INTO trigmech.ledgers TABLE head", "INSERT INTO trigmech.entries TABLE kept",
                   "DROP TABLE kept, head")
        assert LedgerFile.open(server.address()).verify() == [], name
    server.run("DELETE FROM trigmech.entries", "UPDATE trigmech.ledgers SET total = '0.0'")
    with pytest.raises(InputError, match="no longer begins with"):
        book.charge("run", [laplace(0.1)], False)


FOREIGN = {
    "a newer form": ("UPDATE trigmech.ledgers SET form = '2'", "has tables in another form than 1"),
    "other columns": ("ALTER TABLE trigmech.ledgers RENAME total TO sum", "its tables do not belong to this version"),
    "half of the tables": ("DROP TABLE trigmech.entries", "its tables do not belong to this version"),
    "another table of this name": ("DROP SCHEMA trigmech CASCADE; CREATE SCHEMA trigmech; "
                                   "CREATE TABLE trigmech.ledgers (id int)", "its tables do not belong to this"),
    "no JSON": ("UPDATE trigmech.ledgers SET head = 'x'", "is not JSON of this kind"),
    "a field twice": ("UPDATE trigmech.ledgers SET total = '0.0, \"total\": 0.0'", "a field appears twice"),
    "too large": ("UPDATE trigmech.entries SET entry = repeat('x', 70000000)", "has more than 67108864 bytes"),
    "entries kept back": ("CREATE RULE lost AS ON INSERT TO trigmech.entries DO INSTEAD NOTHING",
                          "a rule or a trigger in the database blocks entries"),
    "only to be read": ("ALTER DATABASE postgres SET default_transaction_read_only = on",
                        "it is read-only; give the address of the primary server"),
}


@pytest.mark.parametrize("case", FOREIGN)
def test_a_database_that_is_no_ledger_of_this_package_is_told(server, book, case):
    statement, words = FOREIGN[case]
    book.charge("run", [laplace(0.1)], False)
    server.run(statement)
    try:
        with pytest.raises(InputError, match=words):
            LedgerFile.open(server.address()).charge("run", [laplace(0.1)], False)
    finally:
        server.run("SET default_transaction_read_only = off",
                   "ALTER DATABASE postgres RESET default_transaction_read_only") if "read" in case else None


def test_who_charges_needs_to_add_entries_and_can_do_no_more(server, book):
    with pytest.raises(InputError, match="this user lacks the right"):
        LedgerFile.open(server.address(user="stranger"))
    server.run(RIGHTS)
    mine = LedgerFile.open(server.address(user="colleague"))
    mine.charge("run", [laplace(0.5)], False)
    assert (mine.total, mine.verify(), book.total) == (0.5, [], 0.5)
    for refused in (lambda: LedgerFile.create(server.address("own", "colleague"), Budget(1.0)),
                    lambda: server.run("DELETE FROM trigmech.entries", user="colleague"),
                    lambda: server.run("UPDATE trigmech.ledgers SET head = ''", user="colleague")):
        with pytest.raises(Exception, match=r"lacks the right|permission denied"):
            refused()


def test_a_commit_is_on_the_disk_before_it_is_acknowledged(server, book):
    server.run("CREATE TABLE trigmech.seen (setting text)", """
        CREATE FUNCTION trigmech.look() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN INSERT INTO trigmech.seen VALUES (current_setting('synchronous_commit')); RETURN NEW; END $$""",
        "CREATE TRIGGER look BEFORE INSERT ON trigmech.entries FOR EACH ROW EXECUTE FUNCTION trigmech.look()")
    for setting in ("off", "local", "remote_apply"):
        server.run(f"ALTER ROLE owner SET synchronous_commit = {setting}")
        book.charge("run", [laplace(0.1)], False)
    server.run("ALTER ROLE owner RESET synchronous_commit")
    assert server.run("SELECT setting FROM trigmech.seen") == [("on",), ("local",), ("remote_apply",)]


# Passwords


def whole(error):
    """All texts of an error and of those behind it."""
    found = ""
    while error is not None:
        found += f"{error!r} {error} {error.args} "
        error = error.__cause__ or error.__context__
    return found


# With a password; and what the server's library would quote in a message.
BAD_ADDRESSES = [
    f"postgresql://owner:{SECRET}@host/db", f"postgres://owner:{SECRET}@host", f"postgresql://owner:{SECRET}/x@host/db",
    f"postgresql://owner:{SECRET}?x@host/db", f"postgresql://owner:p@{SECRET}@host/db",
    f"postgresql://owner%3A{SECRET}@host/db", f"postgresql://host/db?password={SECRET}",
    f"postgresql://host/db?ledger=a&p%61ssword={SECRET}", f"postgresql://host/db?sslpassword={SECRET}",
    f"postgresql+psycopg://owner:{SECRET}@host/db", f"mysql://owner:{SECRET}@host/db",
    f"POSTGRESQL://owner:{SECRET}@host/db", f" postgresql://owner:{SECRET}@host/db",
    f"host=h user=owner password={SECRET}", f"postgresql://host:{SECRET}/db", f"postgresql://[::1{SECRET}/db",
    f"postgresql://host/db?colour={SECRET}", f"postgresql://host/db?ledger=&x={SECRET}",
    f"postgresql://host/db?ledger=a&ledger={SECRET}", f"postgresql:/owner:{SECRET}@host/db",
]


@pytest.mark.parametrize("address", BAD_ADDRESSES)
def test_an_address_with_a_password_or_that_is_none_is_refused_and_not_repeated(address, run, caplog):  # noqa: F811
    table = np.zeros((3, 1))
    with caplog.at_level(logging.DEBUG, "trigmech"), caplog.at_level(logging.DEBUG, "psycopg"):
        for use in (LedgerFile.open, LedgerFile.exists, lambda text: LedgerFile.create(text, Budget(1.0)),
                    lambda text: tm.synthesize(table, SCHEMA, Budget(1.0), ledger=text),
                    lambda text: tm.preview(9, SCHEMA, Budget(1.0), ledger=text),
                    lambda text: tm.Synthesizer(ledger=text),
                    lambda text: tm.Synthesizer().set_params(ledger=text)):
            with pytest.raises(InputError, match=r"address of a ledger|must contain ledger= once") as refused:
                use(address)
            assert SECRET not in whole(refused.value)
        for command in (("create", address, "--epsilon", "1"), ("show", address), ("verify", address, "--json"),
                        ("raise", address, "--epsilon", "1")):
            status, *printed = run("ledger", *command)
            assert (status, SECRET in str(printed)) == (2, False)
    assert SECRET not in caplog.text


@pytest.mark.parametrize("address", ["postgresql", "postgres", "postgresql?ledger=a", "postgres:/host", "mysql://a"])
def test_an_address_that_begins_otherwise_is_told_how_to_begin(address):
    with pytest.raises(InputError, match="begins with postgresql:// or postgres://; the given") as no:
        ledger_server._parsed(address)
    assert address not in str(no.value).replace("postgresql://", "").replace("postgres://", "")


@pytest.mark.parametrize(("end", "name", "more"), [
    ("", None, {}), ("?ledger=wards", "wards", {}), ("?sslmode=require", None, {"sslmode": "require"}),
    ("?connect_timeout=3&ledger=a%20b", "a b", {"connect_timeout": "3"})])
def test_an_address_says_where_the_server_is_with_or_without_the_name_of_a_ledger(end, name, more):
    found = ledger_server._parsed(f"postgresql://me@host:5433/people{end}")
    assert found[0] == (name or ledger_server.DEFAULT_NAME)
    assert {"user": "me", "host": "host", "port": "5433", "dbname": "people", **more}.items() <= found[1].items()


CONNECTIONS = {
    "no password": (GUARDED, "", None, "it asks for a password: set PGPASSWORD, or write it in ~/.pgpass"),
    "another password": (GUARDED, "", "Wrong" + SECRET, "it refuses the user or the password from"),
    "no such user": ("nobody", "", None, "it does not know this user"),
    "no such database": ("owner", "&dbname=absent", None, "it has no such database"),
    "no server": ("owner", "&port=1", None, "no server listens there"),
    "no name of a host": ("owner", f"&host={'a' * 100}", None, "it cannot be reached, or refuses this user"),
    "no host": ("owner", "&host=host.invalid", None, "the name of the host is unknown"),
}


@pytest.mark.parametrize("case", CONNECTIONS)
def test_why_there_is_no_connection_is_told_in_words_of_our_own(server, book, case, monkeypatch):
    user, more, password, words = CONNECTIONS[case]
    monkeypatch.delenv("PGPASSWORD", raising=False)
    monkeypatch.setenv("PGPASSFILE", "/dev/null")
    if password:
        monkeypatch.setenv("PGPASSWORD", password)
    with pytest.raises(InputError, match=words) as refused:
        LedgerFile.open(server.address(user=user, more=more))
    # Nothing of the library's text: "connection to server on socket ... failed: FATAL: ...".
    assert refused.value.__cause__ is refused.value.__context__ is None
    assert not any(word in str(refused.value) for word in ("FATAL", "failed", SECRET))


def test_a_password_is_in_nothing_that_is_written_shown_or_said(server, book, run, tmp_path, monkeypatch,  # noqa: F811
                                                                caplog, capsys):
    server.run(RIGHTS.replace("colleague", GUARDED))
    address = server.address(user=GUARDED)
    (tmp_path / "pass").write_text(f"*:*:*:{GUARDED}:{SECRET}\n")
    (tmp_path / "pass").chmod(0o600)
    monkeypatch.delenv("PGPASSWORD", raising=False)
    monkeypatch.setenv("PGPASSFILE", str(tmp_path / "pass"))
    assert LedgerFile.open(address).total == 0.0
    monkeypatch.setenv("PGPASSFILE", "/dev/null")
    monkeypatch.setenv("PGPASSWORD", SECRET)
    said = []
    with caplog.at_level(logging.DEBUG, "trigmech"), caplog.at_level(logging.DEBUG, "psycopg"):
        mine = LedgerFile.open(address)
        made = release(address, rounds=tmp_path / "a.rounds")
        made.save(tmp_path / "clinic.tm")
        page.write(made, tmp_path / "report.html")
        model = tm.Synthesizer(SCHEMA, ledger=address)
        said += [repr(mine), str(mine), mine.summary(), vars(mine), vars(mine._store), repr(made), str(made.ledger),
                 repr(made.ledger), repr(model), sklearn.base.clone(model).get_params(),
                 tm.preview(300, SCHEMA, Budget(0.1), ledger=address)]
        with pytest.raises(BudgetError) as refused:
            mine.charge("run", [laplace(9.0)], False)
        said += [whole(refused.value), *run("ledger", "show", address), *run("ledger", "show", address, "--json"),
                 *run("ledger", "verify", address), *run("ledger", "raise", address, "--epsilon", "0.1"),
                 *run("ledger", "create", server.address("own", GUARDED), "--epsilon", "1")]
    (tmp_path / "pass").unlink()
    written = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert len(written) == 3
    everything = f"{said} {caplog.text} {rows(server)} {written}"
    assert "LedgerFile('postgresql://" in everything
    assert SECRET not in everything
    assert not any(SECRET in str(vars(record)) for record in caplog.records)


# The command line


@pytest.mark.nightly  # By day the functions that the commands call take it, above.
def test_every_command_takes_the_address(server, book, run, tmp_path):  # noqa: F811
    address = server.address("new", "owner")
    rng = np.random.default_rng(1)
    (tmp_path / "data.csv").write_text("age\n" + "\n".join(f"{age:.1f}" for age in rng.uniform(0, 100, 200)) + "\n")
    (tmp_path / "schema.toml").write_text('[columns.age]\nkind = "continuous"\nlower = 0\nupper = 120\n')
    ask = ("release", "data.csv", "--schema", "schema.toml", "--epsilon", "1", "--ledger", address, "--out")
    assert "does not exist; a release would make it with (1, 0)" in run(*ask, "a.tm", "--dry-run")[1]
    status, _, err = run(*ask, "absent/a.tm")
    assert (status, LedgerFile.exists(address)) == (2, False)
    status, _, err = run(*ask, "a.tm")
    assert (status, f"the ledger {address} did not exist; it was made with (1, 0) as" in err) == (0, True)
    assert "it would be REFUSED" in run(*ask, "b.tm", "--dry-run")[1]
    status, _, err = run(*ask, "b.tm")
    assert (status, "over the budget (1, 0) of the ledger 'postgresql://" in err) == (4, True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.tm", "data.csv", "schema.toml"]
    assert run("ledger", "create", address, "--epsilon", "1")[0] == 2
    assert run("ledger", "raise", address, "--epsilon", "2")[0] == 0
    assert run("ledger", "add", address, "--epsilon", "0.5", "--purpose", "mean", "--by", "tool", "--neighbours",
               "replace-one")[0] == 0
    shown = json.loads(run("ledger", "show", address, "--json")[1])
    assert (shown["file"], shown["data_set"], shown["total"], len(shown["entries"])) == (
        address, "new", pytest.approx(1.5), len(LedgerFile.open(address).entries) + 1)
    assert run("ledger", "verify", address)[0] == 0
    server.run("DELETE FROM trigmech.entries WHERE ledger = 'new' AND sequence = 1")
    assert run("ledger", "verify", address)[0] == 3
    with suppress(FileNotFoundError):
        (tmp_path / "postgresql:").rmdir()
        pytest.fail("an address was taken for a path")
