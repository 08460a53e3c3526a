"""The encoded rows of a file between passes: parsed once, in bounded memory, on the disk without a name, never lost."""

import os
import signal
import stat
import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from releases import joint_counts

import trigmech as tm
from trigmech.errors import InputError
from trigmech.functions.partition import columns_of
from trigmech.measurement import kept
from trigmech.measurement.counts import Histograms
from trigmech.measurement.kept import Kept
from trigmech.measurement.rows import PrivateTable
from trigmech.measurement.sums import Chunk
from trigmech.tables import reader
from trigmech.tables.reader import TableFile

SCHEMA = tm.Schema([tm.Column("x", -4, 4), tm.Column("k", 0, 9, "integer"),
                    tm.Column("c", kind="categorical", categories=("a", "b"), missing="keep")])
PERSONS = tm.Schema(SCHEMA.columns, person="who")


def table(n=1000, seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame({"x": rng.normal(size=n), "k": rng.integers(0, 10, n),
                         "c": np.where(rng.random(n) < 0.2, None, rng.choice(["a", "b"], n)),
                         "who": rng.integers(0, n // 3, n)})


@pytest.fixture(params=["csv", "parquet"])
def file(request, tmp_path, monkeypatch):
    path = tmp_path / f"table.{request.param}"
    own = table()
    if request.param == "csv":
        own.to_csv(path, index=False)
    else:
        own.to_parquet(path, row_group_size=100)
    # Several chunks.
    monkeypatch.setattr(reader, "MAX_ROWS", 150)
    return path


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The folder for temporary files."""
    own = tmp_path / "temporary"
    own.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(own))
    return own


@pytest.fixture
def parsed(monkeypatch):
    """Counts the chunks that are read from a file."""
    seen, old = [], TableFile.chunks

    def chunks(self, *arguments, **options):
        for each in old(self, *arguments, **options):
            seen.append(each.num_rows)
            yield each

    monkeypatch.setattr(TableFile, "chunks", chunks)
    return seen


def passes(path, schema=SCHEMA, count=3):
    """The sums of several passes over a table in a file."""
    asked = Histograms(tuple(columns_of(schema.domain)))
    with PrivateTable(path, schema) as private:
        return [private.rows(schema).sums(asked).limbs.tolist() for _ in range(count)]


def in_memory(schema=SCHEMA):
    return passes(table(), schema, 1)[0]


LIMITS = {"in memory": 2**28, "some on the disk": 3_000, "all on the disk": 0}


@pytest.mark.daily(4)
@pytest.mark.parametrize("limit", LIMITS.values(), ids=LIMITS)
@pytest.mark.parametrize("schema", [SCHEMA, PERSONS], ids=["rows", "persons"])
def test_a_file_is_parsed_once_and_every_pass_has_the_same_sums(limit, schema, file, folder, parsed, monkeypatch):
    monkeypatch.setattr(kept, "MEMORY", limit)
    with PrivateTable(file, schema) as private:
        rows = private.rows(schema)
        sums = [rows.sums(Histograms(tuple(columns_of(schema.domain)))).limbs.tolist() for _ in range(3)]
        tables = [joint_counts(rows, columns_of(schema.domain), [((0, 2), (np.arange(1), np.arange(3)))])[0][0].tolist()
                  for _ in range(2)]
    assert sums == [in_memory(schema)] * 3
    assert tables[0] == tables[1]
    assert sum(parsed) == 1000
    assert os.listdir(folder) == []


def test_the_file_on_the_disk_is_its_owner_s_and_has_no_name(file, folder, monkeypatch):
    monkeypatch.setattr(kept, "MEMORY", 0)
    made, old = [], tempfile.TemporaryFile
    files_by(monkeypatch, lambda **options: made.append(old(**options)) or made[-1])
    with PrivateTable(file, SCHEMA) as private:
        rows = private.rows(SCHEMA)
        for _ in rows.chunks():
            assert os.listdir(folder) == []
        found = os.fstat(made[0].fileno())
        assert stat.S_IMODE(found.st_mode) == 0o600
        assert (found.st_nlink, found.st_size) == (0, 1000 * 10)
        assert not made[0].closed
    assert len(made) == 1
    assert made[0].closed


@pytest.mark.daily(4)
@pytest.mark.parametrize("value", ["0", "no", ""])
@pytest.mark.parametrize("limit", [0, 3_000], ids=["none", "some"])
def test_no_row_is_written_to_the_disk_if_the_user_forbids_it(value, limit, file, folder, parsed, monkeypatch):
    """Each pass then parses the table again; the sums are the same."""
    monkeypatch.setattr(kept, "MEMORY", limit)
    monkeypatch.setenv("TRIGMECH_KEEP_ON_DISK", value)
    files_by(monkeypatch, lambda **options: pytest.fail("a file was made"))
    assert passes(file) == [in_memory()] * 3
    assert sum(parsed) == 3 * 1000


def test_the_disk_is_used_if_the_user_allows_it(file, folder, parsed, monkeypatch):
    monkeypatch.setattr(kept, "MEMORY", 0)
    monkeypatch.setenv("TRIGMECH_KEEP_ON_DISK", "1")
    assert passes(file) == [in_memory()] * 3
    assert sum(parsed) == 1000


def test_memory_holds_no_more_than_the_limit(file, folder, monkeypatch):
    monkeypatch.setattr(kept, "MEMORY", 4_000)
    with PrivateTable(file, SCHEMA) as private:
        made = Kept(lambda: iter(list(private.rows(SCHEMA).chunks())))
        list(made.chunks())
        held = [each for each in made._store._held if isinstance(each, Chunk)]
        made.close()
    assert 0 < sum(sum(array.nbytes for array in chunk.rows.arrays) for chunk in held) <= 4_000


# Disks that are full or fail


def files_by(monkeypatch, made):
    """Let this make the temporary files of passes, and of nothing else: compiled functions are cached in others."""
    monkeypatch.setattr(kept, "tempfile", SimpleNamespace(TemporaryFile=made))


def failing(monkeypatch, name, after):
    """Let a temporary file's method fail from some call on."""
    old = tempfile.TemporaryFile

    class File:
        def __init__(self, **options):
            self._file, self._left = old(**options), after

        def __getattr__(self, own):
            if own != name:
                return getattr(self._file, own)

            def work(*arguments):
                self._left -= 1
                if self._left < 0:
                    raise OSError(28, "No space left on device")
                return getattr(self._file, own)(*arguments)

            return work

    files_by(monkeypatch, File)


@pytest.mark.parametrize("fault", ["no file", "no room", "write", "write later", "flush", "device"])
def test_a_full_disk_costs_time_and_nothing_else(fault, file, folder, parsed, monkeypatch):
    monkeypatch.setattr(kept, "MEMORY", 3_000)
    if fault == "no file":
        def none(**options):
            raise PermissionError(13, "Permission denied")
        files_by(monkeypatch, none)
    elif fault == "no room":
        monkeypatch.setattr(kept, "FREE_BYTES", 2**62)
    elif fault == "device":
        # Its file cannot even be closed without an error.
        monkeypatch.setattr(kept, "FREE_BYTES", -(2**62))
        files_by(monkeypatch, lambda **options: Path("/dev/full").open("r+b"))  # noqa: SIM115
    else:
        failing(monkeypatch, fault.split()[0], 5 if "later" in fault else 0)
    assert passes(file) == [in_memory()] * 3
    assert sum(parsed) == 3_000
    assert os.listdir(folder) == []


@pytest.mark.daily(4)
@pytest.mark.parametrize("name", ["readinto", "seek"])
@pytest.mark.parametrize("after", [0, 4, 20])
def test_rows_that_cannot_be_read_back_are_parsed_again_and_none_is_lost(name, after, file, folder, monkeypatch):
    monkeypatch.setattr(kept, "MEMORY", 3_000)
    failing(monkeypatch, name, after)
    assert passes(file) == [in_memory()] * 3


def test_a_file_that_was_cut_on_the_disk_is_parsed_again(file, folder, monkeypatch):
    monkeypatch.setattr(kept, "MEMORY", 0)
    made, old = [], tempfile.TemporaryFile
    files_by(monkeypatch, lambda **options: made.append(old(**options)) or made[-1])
    asked = Histograms(tuple(columns_of(SCHEMA.domain)))
    with PrivateTable(file, SCHEMA) as private:
        rows = private.rows(SCHEMA)
        assert rows.sums(asked).limbs.tolist() == in_memory()
        made[0].truncate(4_321)
        assert rows.sums(asked).limbs.tolist() == in_memory()
        assert made[0].closed


def test_the_disk_keeps_room_for_a_release(tmp_path):
    with tempfile.TemporaryFile() as file:
        free = os.statvfs(tempfile.gettempdir())
        assert abs(kept._free(file) - free.f_bavail * free.f_frsize) < 2**32
    assert kept.FREE_BYTES >= 2**30


# Files that change


def test_a_file_that_changes_after_the_first_pass_changes_nothing(file, folder):
    asked = Histograms(tuple(columns_of(SCHEMA.domain)))
    with PrivateTable(file, SCHEMA) as private:
        rows = private.rows(SCHEMA)
        first = rows.sums(asked).limbs.tolist()
        file.unlink()
        assert rows.sums(asked).limbs.tolist() == first == in_memory()


@pytest.mark.parametrize("n", [999, 1001])
def test_a_file_that_changes_before_the_first_pass_is_refused_in_every_pass(n, tmp_path, folder):
    path = tmp_path / "table.csv"
    table().to_csv(path, index=False)
    asked = Histograms(tuple(columns_of(SCHEMA.domain)))
    with PrivateTable(path, SCHEMA) as private:
        rows = private.rows(SCHEMA)
        table(n).to_csv(path, index=False)
        for _ in range(2):
            with pytest.raises(InputError, match="it changed while it was read"):
                rows.sums(asked)
        # What a pass that failed had read is not kept.
        table().to_csv(path, index=False)
        assert rows.sums(asked).limbs.tolist() == in_memory()


def test_a_pass_that_ends_early_keeps_nothing(file, folder, parsed):
    with PrivateTable(file, SCHEMA) as private:
        rows = private.rows(SCHEMA)
        next(iter(rows.chunks()))
        asked = Histograms(tuple(columns_of(SCHEMA.domain)))
        assert rows.sums(asked).limbs.tolist() == rows.sums(asked).limbs.tolist() == in_memory()
    assert sum(parsed) == 1000 + parsed[0]


def test_a_cell_that_is_refused_is_refused_in_every_pass_with_the_same_words(tmp_path, folder):
    path = tmp_path / "table.csv"
    table().assign(c="secret").to_csv(path, index=False)
    texts = set()
    with PrivateTable(path, SCHEMA) as private:
        for _ in range(2):
            with pytest.raises(InputError) as caught:
                list(private.rows(SCHEMA).chunks())
            texts.add(str(caught.value))
    assert len(texts) == 1
    assert "secret" not in texts.pop()


# The end of a run


PROGRAM = """
import sys, time
import trigmech as tm
from trigmech.measurement import kept
from trigmech.measurement.rows import PrivateTable
kept.MEMORY = 0
schema = tm.Schema([tm.Column("x", -4, 4)])
with PrivateTable(sys.argv[1], schema) as private:
    list(private.rows(schema).chunks())
    print("kept", flush=True)
    time.sleep(60)
"""


# The file has no name from the start, so it does not matter which signal it is; SIGKILL leaves a process no time.
@pytest.mark.parametrize("name", ["SIGKILL", *(pytest.param(name, marks=pytest.mark.nightly)
                                               for name in ("SIGTERM", "SIGINT"))])
def test_nothing_stays_on_the_disk_when_a_run_is_ended(name, tmp_path):
    own = tmp_path / "temporary"
    own.mkdir()
    path = tmp_path / "table.csv"
    table()[["x"]].to_csv(path, index=False)
    process = subprocess.Popen([sys.executable, "-c", PROGRAM, str(path)], stdout=subprocess.PIPE, text=True,
                               stderr=subprocess.DEVNULL, env={**os.environ, "TMPDIR": str(own)})
    try:
        assert process.stdout.readline() == "kept\n"
        held = [os.readlink(link) for link in Path(f"/proc/{process.pid}/fd").iterdir() if link.is_symlink()]
        assert any(str(own) in each for each in held)
        process.send_signal(getattr(signal, name))
        process.wait(30)
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    assert os.listdir(own) == []


@pytest.mark.daily("csv")
def test_whole_releases_are_the_same_wherever_the_rows_are_kept(file, folder, monkeypatch):
    found = []
    for limit in (2**28, 0):
        monkeypatch.setattr(kept, "MEMORY", limit)
        made = tm.synthesize(file, SCHEMA, tm.Budget(3.0, 1e-5), tm.TableMechanism(points=200),
                             np.random.default_rng(7))
        found.append([each.values.tolist() for each in made.release.measurements])
    assert found[0] == found[1]
