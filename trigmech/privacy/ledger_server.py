"""Ledgers in a PostgreSQL database: the entries of a file as rows, and one serialisable transaction a charge.

The address is ``postgresql://user@host:port/database?ledger=name``, with all parameters of the server's own library
except a password: the password comes from the environment (``PGPASSWORD``) or the library's password file
(``~/.pgpass``, ``PGPASSFILE``), and this module never sees it. Messages of the library and the server may quote their
input, so they are not passed on. ``ledger`` names one of several ledgers in a database; the default is "ledger".

**Claim.** Nothing is drawn for a charge that is not durable, even if a connection or a machine fails. A charge reads
the ledger, decides, and writes in one serialisable transaction, so no other writer changes the content between the
decision and the commit; if one did, the server refuses the commit, and the charge begins again with the new content. In
addition, the primary key prevents two charges from being the same entry of a ledger. An acknowledged commit is on the
server's disk, because asynchronous commits are not accepted. If the connection breaks before the acknowledgement, the
program looks for the charge by the random number of its transaction, behind the lock on the ledger's row that a
transaction holds until it ends, and counts the charge if it finds it; in all other cases it raises an error, and
nothing is drawn. It looks for a ledger that is being made or removed in the same way. A server that does not really
write to its disk (``fsync = off``), or that is put back to an older state, is not noticed, except by an object that has
read more.
"""

import logging
import re
import secrets
import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import unquote

from trigmech._optional import need
from trigmech.errors import InputError, MissingLibraryError, UncertainChargeError
from trigmech.privacy.ledger_format import (
    LARGEST_FILE,
    State,
    content_of,
    entry_text,
    head_text,
    joined,
    parsed,
    total_text,
)
from trigmech.privacy.ledger_lock import check_timeout

logger = logging.getLogger(__name__)

# A text that begins like an address of any kind, or is a connection string, right or wrong, is never a path: it may
# hold a password, and the messages about paths quote them. People also copy addresses with quotes or names before them.
ADDRESS = re.compile(r"\W*postgres\w*(\+\w+)?\W?:|.*://|.*\bpostgres\w*\W?//|.*:[^/\\]*@|.*\b(pass\w*|pwd)\s*=",
                     re.IGNORECASE | re.DOTALL)
SECRET = re.compile("password|passwd|pwd|secret|scram", re.IGNORECASE)
DEFAULT_NAME, LONGEST_NAME = "ledger", 200

# The form of the tables, so that a later version of the package can have another form.
FORM = "1"
MAKE = """
CREATE SCHEMA IF NOT EXISTS trigmech;
CREATE TABLE trigmech.ledgers (name text PRIMARY KEY, form text NOT NULL, head text NOT NULL, total text NOT NULL);
CREATE TABLE trigmech.entries (
    ledger text NOT NULL REFERENCES trigmech.ledgers, sequence integer NOT NULL, entry text NOT NULL,
    writing text NOT NULL, PRIMARY KEY (ledger, sequence));
"""
# A server may not notice for hours that its client is gone, and hold the ledger's row for it. A role, a database or a
# server may have set commits that are acknowledged before they are on the disk.
BEGIN = """
SELECT set_config('lock_timeout', %s, true), set_config('idle_in_transaction_session_timeout', '120000', true),
       CASE current_setting('synchronous_commit') WHEN 'off' THEN set_config('synchronous_commit', 'on', true) END
"""
THERE = "SELECT to_regclass('trigmech.ledgers') IS NOT NULL"
HEAD = """
SELECT form::text, left(head::text, 1000000), left(total::text, 1000000),
       (SELECT coalesce(sum(octet_length(entry::text)), 0) FROM trigmech.entries WHERE ledger = name)
FROM trigmech.ledgers WHERE name = %s
"""
ENTRIES = "SELECT entry::text FROM trigmech.entries WHERE ledger = %s ORDER BY sequence"
TOTAL = "UPDATE trigmech.ledgers SET total = %s WHERE name = %s"
ADD = "INSERT INTO trigmech.entries (ledger, sequence, entry, writing) VALUES (%s, %s, %s, %s)"
LOCK = "SELECT name FROM trigmech.ledgers WHERE name = %s FOR UPDATE"
# A process that makes a ledger holds this until it ends: a row that does not exist yet cannot be locked.
MAKING = f"SELECT pg_advisory_xact_lock({int.from_bytes(b'trigmech')})"
FIND = "SELECT count(*) FROM trigmech.entries WHERE ledger = %s AND writing = %s"

# A serialisation failure and a deadlock: the transaction was undone as a whole, and may be tried again. As one of
# those who disturb each other always gets through, so many are never needed.
AGAIN = ("40001", "40P01")
MOST_ATTEMPTS = 200
# Others made the tables, or the ledger, at the same time.
MADE_MEANWHILE = ("23505", "42P06", "42P07")
LONGEST_PAUSE = 0.2

# Why a server refused a statement, by the beginning of its SQLSTATE.
REFUSALS = {
    "42501": "this user lacks the right to do that; the guide's section on a shared ledger lists the rights",
    "42": "its tables do not belong to this version of the package",
    "25006": "it is read-only; give the address of the primary server",
    "0A000": "it is read-only; give the address of the primary server",
    "53100": "its disk is full", "55P03": "another process has held the lock on it for too long",
    "57014": "it stopped a statement that took longer than its statement_timeout allows, or that somebody cancelled, "
             "and nothing was written; give this user more time (ALTER ROLE ... SET statement_timeout)",
    "25P": "it ended a transaction that took longer than its timeouts allow, and nothing was written; try again",
    "23": "its tables hold data that this version of the package did not write",
}
# Why a connection was refused. The texts are the server's or its library's; they are looked at and not passed on.
FAILURES = {
    "no password supplied": "it asks for a password: set PGPASSWORD, or write it in ~/.pgpass",
    "password authentication failed": "it refuses the user or the password from PGPASSWORD or ~/.pgpass",
    "no pg_hba.conf entry": "it does not allow this user to connect from this machine (pg_hba.conf)",
    "too many": "it has too many connections", "slots are reserved": "it has too many connections",
    'database "': "it has no such database, or does not let this user in",
    'role "': "it does not know this user, or does not let this user in",
    "starting up": "it is starting or stopping", "shutting down": "it is starting or stopping",
    "resolve host": "the name of the host is unknown", "translate host name": "the name of the host is unknown",
    "No such file": "no server listens there", "refused": "no server listens there",
    "timeout expired": "it does not answer",
}

T = TypeVar("T")


def is_address(path: object) -> bool:
    """Return whether something is meant as an address, whether or not it is a good one."""
    return isinstance(path, str | Path) and ADDRESS.match(str(path)) is not None


class Server:
    """One ledger in a PostgreSQL database.

    Parameters
    ----------
    address : str
        ``postgresql://`` or ``postgres://``, without a password.
    timeout : float
        Seconds to wait for other writers, and for a server that comes back after a charge of unknown outcome.

    Raises
    ------
    InputError
        If the text is not an address, or holds a password; the message does not repeat it.
    MissingLibraryError
        If psycopg is not installed.

    Attributes
    ----------
    ledger : str
        Its name in the database.

    Notes
    -----
    Privacy: see the module. Each call has a connection of its own, so that objects can be copied to other processes.
    Cost: of a charge, about ten messages to the server and back, and reading the ledger.
    """

    def __init__(self, address: str, timeout: float) -> None:
        self.ledger, self._options = _parsed(address)
        self.path, self.name, self._timeout = address, f"the ledger {address!r}", timeout

    def exists(self) -> bool:
        return self._transaction(lambda cursor: self._row(cursor) is not None)

    def read(self) -> State:
        return self._transaction(self._state)

    def make(self, state: State) -> None:
        def made(cursor: Any) -> None:
            if self._row(cursor) is not None:
                raise InputError(f"{self.path!r} exists; a ledger is made once, then opened")
            if not cursor.execute(THERE).fetchone()[0]:
                cursor.execute(MAKE)
            cursor.execute(MAKING)
            cursor.execute("INSERT INTO trigmech.ledgers (name, form, head, total) VALUES (%s, %s, %s, %s)",
                           (self.ledger, FORM, head_text(state), total_text(state)))

        def there(cursor: Any) -> bool:
            cursor.execute(MAKING)
            row = self._row(cursor)
            # Who made the same in the same second made the same ledger.
            return row is not None and row[1] == head_text(state)

        self._transaction(made, there, "made", again=(*AGAIN, *MADE_MEANWHILE))

    def change(self, longer: Callable[[State], State]) -> State:
        writing = secrets.token_hex(16)

        def changed(cursor: Any) -> State:
            before = self._state(cursor)
            state = longer(before)
            content_of(state, self.name)
            # First, for it locks the ledger's row.
            self._check_written(cursor.execute(TOTAL, (total_text(state), self.ledger)))
            for entry in state.entries[len(before.entries):]:
                self._check_written(cursor.execute(ADD, (self.ledger, entry.sequence, entry_text(entry), writing)))
            return state

        def there(cursor: Any) -> bool:
            cursor.execute(LOCK, (self.ledger,))
            return bool(cursor.execute(FIND, (self.ledger, writing)).fetchone()[0])

        return self._transaction(changed, there, "written")

    def remove(self, unused: Callable[[State], bool]) -> bool:
        def removed(cursor: Any) -> bool:
            if not unused(self._state(cursor)):
                return False
            cursor.execute("DELETE FROM trigmech.ledgers WHERE name = %s", (self.ledger,))
            return True

        def gone(cursor: Any) -> bool:
            return cursor.execute(LOCK, (self.ledger,)).fetchone() is None

        return self._transaction(removed, gone, "removed")

    def check(self) -> None:
        """Nothing can be seen of a server without writing."""

    def _row(self, cursor: Any) -> tuple[str, str, str, int] | None:
        return cursor.execute(HEAD, (self.ledger,)).fetchone() if cursor.execute(THERE).fetchone()[0] else None

    def _state(self, cursor: Any) -> State:
        row = self._row(cursor)
        if row is None:
            raise InputError(f"{self.name} does not exist; make it once, before the first release, with `trigmech "
                             "ledger create` or LedgerFile.create(...)")
        form, head, total, size = row
        if form != FORM:
            raise InputError(f"{self.name} has tables in another form than {FORM}, the form of this version of the "
                             "package; a newer version may read it")
        if size > LARGEST_FILE:
            raise InputError(f"{self.name} has more than {LARGEST_FILE} bytes")
        return parsed(joined(head, total, (line for line, in cursor.execute(ENTRIES, (self.ledger,)))), self.name)

    def _check_written(self, cursor: Any) -> None:
        if cursor.rowcount != 1:
            raise InputError(f"{self.name} cannot be written: a rule or a trigger in the database blocks entries")

    def _transaction(self, work: Callable[[Any], T], seen: Callable[[Any], bool] | None = None, what: str = "",
                     again: tuple[str, ...] = AGAIN) -> T:
        """Return the result of a function in a transaction that was committed, after as many attempts as it takes.

        If the commit is not acknowledged, ``seen`` tells from another transaction whether the change is there, and
        waits until the first one has ended. ``what`` says in a word how the ledger is changed. ``again`` are the
        SQLSTATEs after which the function is tried again.
        """
        psycopg = _driver()
        check_timeout(self._timeout)
        ends = time.monotonic() + self._timeout
        with closing(self._connected()) as connection:
            connection.isolation_level = psycopg.IsolationLevel.SERIALIZABLE
            for attempt in range(MOST_ATTEMPTS):
                committing = False
                try:
                    connection.rollback()
                    cursor = connection.cursor()
                    cursor.execute(BEGIN, (self._patience(),))
                    done = work(cursor)
                    committing = True
                    connection.commit()
                    return done
                except psycopg.Error as problem:
                    state = problem.sqlstate or ""
                # Not inside the handler: no error is raised in the context of one whose message may quote anything.
                if state not in again or time.monotonic() > ends:
                    break
                # At random, so that writers do not meet again and again.
                time.sleep(LONGEST_PAUSE * min(1.0, 2.0**attempt / 64.0) * secrets.randbelow(1000) / 1000.0)
        if state not in again:
            if not (committing and seen and _is_unknown(state)):
                raise InputError(f"the server of {self.name}: {_refusal(state)}")
            self._settle(seen, what)
            return done
        raise InputError(f"others changed {self.name} at each of {attempt + 1} attempts, so nothing was written; try "
                         "again")

    def _settle(self, seen: Callable[[Any], bool], what: str) -> None:
        """Return if the entries of an unacknowledged commit were written; otherwise raise an InputError."""
        psycopg = _driver()
        logger.warning("the connection to the ledger broke while it was %s; waiting for the server", what)
        broke = f"the connection to {self.name} broke while it was {what}"
        ends = time.monotonic() + self._timeout
        while True:
            try:
                with closing(self._connected()) as connection:
                    # So that the second statement sees what ended while the first one waited.
                    connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
                    cursor = connection.cursor()
                    cursor.execute(BEGIN, (self._patience(),))
                    found = seen(cursor)
                break
            except (psycopg.Error, InputError):
                pass
            if time.monotonic() > ends:
                if what != "written":
                    raise InputError(f"{broke}, and the server cannot be asked whether it succeeded: `trigmech ledger "
                                     "show` shows it when the server is back")
                raise UncertainChargeError(
                    f"{broke}, and the server cannot be asked whether it succeeded: count it as spent until `trigmech "
                    "ledger show` shows it. Nothing was drawn; a run with a rounds file can be run again and is not "
                    "charged twice")
            time.sleep(LONGEST_PAUSE)
        if not found:
            raise InputError(f"{broke}; nothing was written, charged or drawn; try again"
                             if what == "written" else f"{broke}, and it did not succeed; try again")

    def _patience(self) -> str:
        """How long to wait for a lock, in milliseconds, of which 0 would be for ever."""
        return str(max(1, int(1000 * min(self._timeout, 1e6))))

    def _connected(self) -> Any:
        psycopg = _driver()
        # A server that has gone without a word is given up within half a minute; poolers keep no prepared statements.
        options = {"connect_timeout": "10", "keepalives_idle": "10", "keepalives_interval": "5",
                   "keepalives_count": "3", "application_name": "trigmech", **self._options, "client_encoding": "UTF8"}
        try:
            return psycopg.connect(**options, prepare_threshold=None)
        except (psycopg.Error, ValueError) as problem:
            text = str(problem)
        why = next((words for sign, words in FAILURES.items() if sign in text),
                   "it cannot be reached, or refuses this user; `psql` with the address without ledger= may say why")
        raise InputError(f"the server of {self.name}: {why}")


def _is_unknown(state: str) -> bool:
    """Return whether a commit may have succeeded after an error of a SQLSTATE, which an error of a trigger excludes."""
    return state[:2] not in ("23", "P0")


def _refusal(state: str) -> str:
    """Return the advice for a user about an error with a SQLSTATE."""
    if state[:2] in ("", "08", "57") and state not in REFUSALS:
        return "the connection broke, and nothing was written; try again"
    return next((words for start, words in REFUSALS.items() if state.startswith(start)),
                f"it refused, with SQLSTATE {state}")


def _parsed(address: str) -> tuple[str, dict[str, str]]:
    """Return the ledger's name and the options for the server's library; no message repeats the address."""
    scheme, mark, rest = address.partition("://")
    base, _, query = address.partition("?")
    pairs = [part.partition("=") for part in query.split("&") if part]
    before = rest.rpartition("@")[0]
    if ":" in unquote(before) or "@" in before or any(SECRET.search(unquote(key)) for key, *_ in pairs):
        raise InputError("the address of a ledger must not contain a password, and is not repeated here: give the "
                         "password by PGPASSWORD or ~/.pgpass (and write %40 for an @ in anything else)")
    if not mark or scheme not in ("postgresql", "postgres"):
        raise InputError("the address of a ledger must be a text (not a Path) that begins with postgresql:// or "
                         "postgres://; the given value is not repeated here, because it may hold a password")
    names = [unquote(value) for key, _, value in pairs if unquote(key) == "ledger"] or [DEFAULT_NAME]
    if len(names) > 1 or not 1 <= len(names[0]) <= LONGEST_NAME or not names[0].isprintable():
        raise InputError(f"the address of a ledger must contain ledger= once, with a name of 1 to {LONGEST_NAME} "
                         "printable letters")
    psycopg = _driver()
    others = "&".join("".join(pair) for pair in pairs if unquote(pair[0]) != "ledger")
    options = None
    with suppress(psycopg.Error, ValueError):
        options = psycopg.conninfo.conninfo_to_dict(f"{base}?{others}" if others else base)
    # The library understands some addresses otherwise: it takes a password with a slash for a port, for example, and
    # ends an address at a null character.
    known = options is not None and "\0" not in address and not any(map(SECRET.search, options))
    if options is None or not known or not re.fullmatch("[0-9,]*", options.get("port", "")):
        raise InputError("the address of a ledger must look like postgresql://user@host:5432/database?ledger=name, "
                         "without a password and with parameters that PostgreSQL knows; it is not repeated here")
    return names[0], options


def _driver() -> Any:
    need("postgres", "a ledger on a server")
    try:
        import psycopg
    except ImportError:
        # Its own library is another package, which the extra installs.
        raise MissingLibraryError("a ledger on a server needs psycopg with libpq; install trigmech[postgres]") from None
    return psycopg
