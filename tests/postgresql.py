"""A PostgreSQL server of one test's own: in a folder that goes again, behind a socket that nobody else knows of."""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import pytest

# Roles that have a password; all others are let in without one.
GUARDED = "guarded"
ACCESS = f"local all {GUARDED} scram-sha-256\nlocal all all trust\n"


def programs():
    """The folder of the server's programs, or None."""
    found = shutil.which("initdb")
    folders = [Path(found).resolve().parent] if found else []
    folders += sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name), reverse=True)
    return next((folder for folder in folders if all((folder / name).exists() for name in ("initdb", "postgres"))),
                None)


def other_user():
    """Whom to start the server as: it refuses to run as root."""
    if os.geteuid():
        return {}
    for name in ("postgres", "nobody"):
        with suppress(KeyError):
            found = pwd.getpwnam(name)
            return {"user": found.pw_uid, "group": found.pw_gid, "extra_groups": []}
    pytest.skip("NO SERVER TESTED: a PostgreSQL server does not run as root, and there is no user postgres or nobody")


def descendants(pid):
    """The processes that a process has started, all of them the server's own."""
    with suppress(OSError):
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


class PostgreSQL:
    """A server; its socket is in ``folder``."""

    def __init__(self):
        self._programs = programs()
        if self._programs is None:
            pytest.skip("NO SERVER TESTED: initdb and postgres are neither in PATH nor in /usr/lib/postgresql/*/bin; "
                        "install Debian's package postgresql")
        self._as = other_user()
        # Short, for the name of a socket may have a hundred letters.
        self.folder = Path(tempfile.mkdtemp(prefix="tm-pg-"))
        if self._as:
            os.chown(self.folder, self._as["user"], self._as["group"])
            self.folder.chmod(0o755)
        self._process = None
        subprocess.run([self._programs / "initdb", "-D", self.folder / "data", "-U", "owner", "-A", "trust", "-E",
                        "UTF8", "--no-locale", "--no-sync", "--no-instructions"], check=True, capture_output=True,
                       cwd=self.folder, **self._as)
        access = self.folder / "data" / "pg_hba.conf"
        access.write_text(ACCESS)
        self.start()

    def start(self):
        """Start it, if it is not running."""
        if self._process is not None and self._process.poll() is None:
            return
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [self._programs / "postgres", "-D", self.folder / "data", "-k", self.folder, "-c", "listen_addresses=",
                 "-c", "fsync=off", "-c", "max_connections=30", "-c", "shared_buffers=16MB"],
                stdout=log, stderr=log, cwd=self.folder, **self._as)
        for _ in range(600):
            with suppress(Exception), self.connected():
                return
            if self._process.poll() is not None:
                # After a kill, a process of the old server may not have ended yet.
                return self.start() if b"still in use" in self.log()[-1000:] else pytest.fail(self.log().decode())
            time.sleep(0.02)
        return pytest.fail(self.log().decode())

    def log(self):
        return (self.folder / "log").read_bytes()

    def kill(self):
        """What a power failure does, but to the disk: the server and all of its processes end at once."""
        mine = [self._process.pid, *descendants(self._process.pid)]
        for pid in mine:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait()

    def stop(self):
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGQUIT)
            self._process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def address(self, name="clinic", user="owner", more=""):
        return f"postgresql://{user}@/postgres?host={self.folder}&ledger={name}{more}"

    def connected(self, user="owner"):
        import psycopg

        return psycopg.connect(host=str(self.folder), user=user, dbname="postgres", autocommit=True)

    def run(self, *statements, user="owner"):
        """Return the rows of the last statement, if it has any."""
        with self.connected(user) as connection:
            for statement in statements:
                cursor = connection.execute(statement)
            return cursor.fetchall() if cursor.description else []
