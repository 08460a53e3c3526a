"""Where too little memory is allowed, a command says so and ends with status 1, whatever a library would make of it."""

import errno
import re
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from trigmech import _memory as memory
from trigmech._memory import TooLittleMemoryError, check_memory, shortage
from trigmech.cli.app import main

SAYS_SO = re.compile(r"there is not enough memory: about [0-9.]+ GB of address space are needed, and this process may "
                     r"use [0-9.]+ GB \(see `ulimit -v`\)\n$")
TOP = Path(memory.__file__).parent.parent
PROGRAM = "from trigmech.cli.app import main; main()"


def limited(gigabytes, *arguments):
    """Run a command in a process whose address space is limited."""
    size = int(gigabytes * 1e9)
    done = subprocess.run([sys.executable, "-c", PROGRAM, *arguments], capture_output=True, text=True, check=False,
                          timeout=60, cwd=TOP, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (size, size)))
    return done.returncode, done.stdout, done.stderr


def test_two_gigabytes_are_too_few_to_release_and_said_to_be():
    status, said, told = limited(2.0, "evaluate", "clinic.tm", "--against", "data.csv")
    assert (status, said) == (1, "")
    assert SAYS_SO.fullmatch(told.removeprefix("trigmech: "))


@pytest.mark.nightly
@pytest.mark.parametrize("gigabytes", [0.1, 0.4])
def test_the_libraries_themselves_are_not_imported_without_room(gigabytes):
    status, said, told = limited(gigabytes, "info")
    assert (status, said) == (1, "")
    assert SAYS_SO.search(told)


@pytest.mark.nightly
def test_where_there_is_room_nothing_is_said_and_help_needs_little():
    assert limited(2.0, "info")[0::2] == (0, "")
    assert limited(2.0, "release", "--help")[0::2] == (0, "")


def test_the_limit_is_compared_with_what_is_needed(monkeypatch):
    for limit, needed, refused in ((resource.RLIM_INFINITY, 1e6, False), (10**9, 0.9, False), (10**9, 1.1, True)):
        monkeypatch.setattr(resource, "getrlimit", lambda which, limit=limit: (limit, limit))
        if refused:
            with pytest.raises(TooLittleMemoryError, match=r"about 1.1 GB of address space are needed, .* 1 GB"):
                check_memory(needed)
        else:
            check_memory(needed)


SECRET = "54321.987"


@pytest.mark.parametrize(("error", "limit", "words"), [
    (MemoryError(SECRET), None, "there is not enough memory: about"),
    (OSError(errno.ENOMEM, SECRET), None, "there is not enough memory: about"),
    (RuntimeError("can't start new thread"), None, "there is not enough memory: about"),
    (ImportError(SECRET), 10**9, "an unexpected ImportError; perhaps the reason is this: there is not enough"),
    (ImportError(SECRET), None, None),
    (RuntimeError(SECRET), None, None),
    (OSError(errno.ENOSPC, SECRET), None, None),
])
def test_errors_that_come_of_too_little_memory_are_told_from_others(monkeypatch, error, limit, words):
    allowed = resource.RLIM_INFINITY if limit is None else limit
    monkeypatch.setattr(resource, "getrlimit", lambda which: (allowed, allowed))
    said = shortage(error)
    assert (said is None) == (words is None)
    if words is not None:
        assert said.startswith(words)
        assert SECRET not in said


def test_a_limit_that_is_met_within_an_import_ends_with_a_line_and_status_1(monkeypatch, capsys):
    def fails(needed):
        raise MemoryError(SECRET)

    monkeypatch.setattr("trigmech.cli.app.check_memory", fails)
    monkeypatch.setattr(sys, "argv", ["trigmech", "info"])
    with pytest.raises(SystemExit) as ended:
        main()
    told = capsys.readouterr().err
    assert ended.value.code == 1
    assert told.startswith("trigmech: there is not enough memory: about 2.8 GB")
    assert SECRET not in told
    assert max(memory.NEEDED.values()) == 2.8
