"""Files are whole: after an error, an interruption and a killed process."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from trigmech.errors import InputError
from trigmech.outputs import check_writable, replacing, write_whole


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


WRITER = """
import sys
from pathlib import Path
sys.path.insert(0, {root!r})
path, plain = Path({path!r}), {plain}
from trigmech.outputs import write_whole
print("ready", flush=True)
k = 0
while True:
    k += 1
    content = b"%d\\n" % k * 200_000
    path.write_bytes(content) if plain else write_whole(path, content)
"""


def broken_after_kills(path, plain, kills):
    """How often the file was not one whole version after its writer was killed."""
    broken = 0
    for k in range(kills):
        source = WRITER.format(root=str(Path(__file__).parents[1]), path=str(path), plain=plain)
        with subprocess.Popen([sys.executable, "-c", source], stdout=subprocess.PIPE) as process:
            process.stdout.readline()
            time.sleep(0.02 + 0.007 * k)
            process.send_signal(signal.SIGKILL)
        lines = path.read_bytes().split(b"\n") if path.exists() else []
        broken += bool(lines) and not (len(set(lines[:-1])) == 1 and len(lines) == 200_001)
    return broken


def test_a_killed_writer_leaves_one_whole_version(tmp_path):
    assert broken_after_kills(tmp_path / "a.txt", plain=False, kills=3) == 0
    # The planted fault, writing in place: nearly all of its time the file is not whole.
    assert broken_after_kills(tmp_path / "b.txt", plain=True, kills=3) > 0
