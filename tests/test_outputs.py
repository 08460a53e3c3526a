"""Files are whole: after an error, an interruption and a killed process."""

import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from trigmech._files import check_writable, replacing, write_whole
from trigmech.errors import InputError
from trigmech.privacy.budget import Budget, Charge
from trigmech.privacy.ledger_file import LedgerFile
from trigmech.storage import archive


def test_what_is_no_file_is_not_replaced_and_a_link_stays_one(tmp_path):
    # Not a device: as root a broken program would replace it.
    path = tmp_path / "pipe"
    os.mkfifo(path)
    with pytest.raises(InputError, match="it is a device or a pipe, not an ordinary file"), replacing(path):
        pass
    assert path.is_fifo()
    (tmp_path / "elsewhere").mkdir()
    target, link = tmp_path / "elsewhere" / "table.csv", tmp_path / "link.csv"
    target.write_text("old")
    link.symlink_to(target)
    write_whole(link, b"new")
    assert (link.is_symlink(), target.read_text()) == (True, "new")
    assert [path.name for path in target.parent.iterdir()] == ["table.csv"]


def test_a_file_is_written_and_replaced_with_the_usual_permissions(tmp_path):
    path = tmp_path / "a.txt"
    write_whole(path, b"old")
    plain = tmp_path / "plain.txt"
    plain.write_bytes(b"")
    assert path.stat().st_mode == plain.stat().st_mode
    path.chmod(0o600)
    write_whole(path, b"new")
    assert path.read_bytes() == b"new"
    assert path.stat().st_mode & 0o777 == 0o600
    assert sorted(os.listdir(tmp_path)) == ["a.txt", "plain.txt"]


@pytest.mark.parametrize("stop", [OSError("no space left on device"), KeyboardInterrupt(), ValueError("a bug")])
def test_whatever_stops_the_writing_leaves_the_old_file_and_nothing_else(tmp_path, stop):
    path = tmp_path / "a.txt"
    path.write_bytes(b"old")

    def stopped():
        with replacing(path) as beside:
            beside.write_bytes(b"half of the n")
            raise stop

    with pytest.raises(type(stop)):
        stopped()
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["a.txt"]


def test_what_cannot_be_written_is_refused_with_the_path(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    for path in (tmp_path, tmp_path / "no" / "a.txt", tmp_path / "file" / "a.txt"):
        for attempt in (check_writable, lambda path: write_whole(path, b"x")):
            with pytest.raises(InputError, match="cannot write"):
                attempt(path)
    check_writable(tmp_path / "new.txt")
    assert os.listdir(tmp_path) == ["file"]


class Watched:
    """What happens to files and folders, in order: syncs with inode and size at the time, and renames."""

    def __init__(self, monkeypatch, sync=os.fsync):
        self.events, replace = [], os.replace

        def watched_sync(handle):
            state = os.fstat(handle)
            sync(handle)
            self.events.append(("sync", state.st_ino, None if stat.S_ISDIR(state.st_mode) else state.st_size))

        def watched_replace(source, target, **options):
            inode = os.stat(source).st_ino
            replace(source, target, **options)
            self.events.append(("rename", inode, str(target)))

        monkeypatch.setattr(os, "fsync", watched_sync)
        monkeypatch.setattr(os, "replace", watched_replace)

    def durable(self, path):
        """Whether the whole file was on the disk before it got its name, and its name before we went on."""
        state, folder = path.stat(), path.parent.stat().st_ino
        wanted = [("sync", state.st_ino, state.st_size), ("rename", state.st_ino, str(path)), ("sync", folder, None)]
        return self.events[-3:] == wanted


def written(path):
    write_whole(path, b"content" * 10_000)


def archived(path):
    archive.write(path, {"a": 1}, {"x": np.arange(100.0)})


def made_ledger(path):
    LedgerFile.create(path, Budget(1.0))


def charged_ledger(path):
    made_ledger(path)
    charge = Charge("values", "laplace", 10.0, 1.0, "L1", 1, "given")
    LedgerFile.open(path).charge("run", [charge], False)


@pytest.mark.parametrize("write", [written, archived, made_ledger, charged_ledger])
def test_a_file_is_on_the_disk_before_it_has_its_name_and_its_name_is_before_we_go_on(write, tmp_path, monkeypatch):
    path = tmp_path.resolve() / "a.json"
    watched = Watched(monkeypatch)
    write(path)
    assert watched.durable(path)


def test_what_cannot_be_made_durable_is_not_renamed(tmp_path, monkeypatch):
    path = tmp_path / "a.txt"
    path.write_bytes(b"old")

    def fails(handle):
        raise OSError(5, "input/output error")

    monkeypatch.setattr(os, "fsync", fails)
    with pytest.raises(OSError, match="input/output"):
        write_whole(path, b"new")
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["a.txt"]


WRITER = """
import sys, time
from pathlib import Path
sys.path.insert(0, {root!r})
path, plain = Path({path!r}), {plain}
from trigmech._files import write_whole

def write_in_place(path, content):
    with path.open("wb") as file:
        for k in range(10):
            time.sleep(0.01 if k else 0)
            file.write(content[k * len(content) // 10:(k + 1) * len(content) // 10])
            file.flush()

k = 0
while True:
    k += 1
    content = b"%d\\n" % k * 200_000
    write_in_place(path, content) if plain else write_whole(path, content)
    if k == 1:
        print("written once", flush=True)
"""


def broken_after_kills(path, plain, kills):
    """How often the file was not one whole version after its writer was killed.

    The writer is killed after its first version only: before it there is no file that could be broken."""
    broken = 0
    for k in range(kills):
        source = WRITER.format(root=str(Path(__file__).parents[1]), path=str(path), plain=plain)
        with subprocess.Popen([sys.executable, "-c", source], stdout=subprocess.PIPE) as process:
            process.stdout.readline()
            time.sleep(0.02 + 0.007 * k)
            process.send_signal(signal.SIGKILL)
        lines = path.read_bytes().split(b"\n")
        broken += not (len(set(lines[:-1])) == 1 and len(lines) == 200_001)
    return broken


def test_a_killed_writer_leaves_one_whole_version(tmp_path):
    assert broken_after_kills(tmp_path / "a.txt", plain=False, kills=2) == 0
    # The planted fault writes in place, and waits between the parts of a version but not between versions: at nearly
    # every moment the file is not whole, whatever else the machine does.
    assert broken_after_kills(tmp_path / "b.txt", plain=True, kills=2) > 0


@pytest.mark.skipif(not Path("/dev/fd").exists(), reason="the system does not list the files that are open")
def test_files_that_were_written_or_given_up_are_closed(tmp_path):
    before = len(os.listdir("/dev/fd"))
    for k in range(5):
        with replacing(tmp_path / "a") as beside:
            beside.write_text(str(k))
        with pytest.raises(KeyError), replacing(tmp_path / "a"):
            raise KeyError
    assert len(os.listdir("/dev/fd")) == before
    assert (tmp_path / "a").read_text() == "4"
