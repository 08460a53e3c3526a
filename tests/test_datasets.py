"""The experiments' data sets: recipes on the real files if there are any, downloads from a local server."""

import gzip
import hashlib
import io
import lzma
import os
import tarfile
import threading
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pandas as pd
import pooch
import pytest

from experiments.datasets import DATASETS, DatasetCorrupt, DatasetMissing, File, cube, load

REAL = os.environ.get("TRIGMECH_DATA")
needs_files = pytest.mark.skipif(not REAL, reason="set TRIGMECH_DATA to the directory of the raw files")
SHAPES = {"CRM": (1993, 101), "CSN": (99762, 8), "CTG": (2126, 28), "PKS": (5875, 19), "WDBC": (569, 30),
          "ADULT": (48842, 6)}

# A stand-in for the file of PKS: the three columns that the recipe leaves out, and two that it keeps.
PKS = b"subject#,age,sex,test_time,PPE\r\n1,72,0,5.5,3.38e-005\r\n2,60,1,-0.25,0.5\r\n"
OTHER = PKS.replace(b"72", b"73")
NAME = "parkinsons_updrs.data"


# The registry, scaling and errors without files.


def test_wdbc_needs_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRIGMECH_DATA", raising=False)
    table = load("wdbc")
    check_table(table, "WDBC")
    assert table.columns[0] == "mean radius"
    assert table.columns[-1] == "worst fractal dimension"
    np.testing.assert_array_equal(table.values[0, :4], [17.99, 10.38, 122.8, 1001.0])


def check_table(table: pd.DataFrame, name: str) -> None:
    assert table.shape == SHAPES[name]
    assert len(set(table.columns)) == SHAPES[name][1]
    assert (table.dtypes == np.float64).all()
    assert np.isfinite(table.to_numpy()).all()
    assert (table.min() < table.max()).all()
    points = cube(table)
    assert points.flags.c_contiguous
    assert points.shape == table.shape
    assert (points.min(axis=0) == -1.0).all()
    assert (points.max(axis=0) == 1.0).all()


def test_cube_is_linear_and_leaves_the_values_alone() -> None:
    table = pd.DataFrame({"a": [0.0, 1.0, 4.0], "b": [-3.0, 5.0, 1.0]})
    np.testing.assert_allclose(cube(table), [[-1.0, -1.0], [-0.5, 1.0], [1.0, 0.0]])
    np.testing.assert_array_equal(table.values, [[0.0, -3.0], [1.0, 5.0], [4.0, 1.0]])


def test_unknown_names_list_the_known_and_pam_is_not_guessed() -> None:
    with pytest.raises(DatasetMissing, match=r"'IRIS'.*CRM, CSN, CTG, PAM"):
        load("IRIS")
    with pytest.raises(DatasetMissing, match=r"^PAM .* not known"):
        load("pam")


# The recipes, on the real files.


@needs_files
@pytest.mark.parametrize("name", [name for name in SHAPES if name != "WDBC"])
def test_shapes(name: str) -> None:
    check_table(load(name.lower(), progress=False), name)


# Finding a file below TRIGMECH_DATA.


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, no TRIGMECH_DATA, and a registry that knows the stand-in, at a dead address."""
    directory = tmp_path / "cache"
    monkeypatch.setattr(pooch, "os_cache", lambda project: directory / project)
    monkeypatch.delenv("TRIGMECH_DATA", raising=False)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    # Nothing listens on the discard port.
    expect(monkeypatch, "PKS", "http://127.0.0.1:9/parkinsons.zip", PKS)
    return directory / "trigmech"


def expect(monkeypatch: pytest.MonkeyPatch, name: str, url: str, *contents: bytes) -> None:
    files = tuple(File(file.path, hashlib.sha256(content).hexdigest())
                  for file, content in zip(DATASETS[name].files, contents, strict=True))
    monkeypatch.setitem(DATASETS, name, DATASETS[name]._replace(url=url, files=files))


def check_stand_in(table: pd.DataFrame) -> None:
    assert list(table.columns) == ["test_time", "PPE"]
    np.testing.assert_array_equal(table.values, [[5.5, 3.38e-5], [-0.25, 0.5]])


def put(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str, content: bytes) -> Path:
    (tmp_path / "data" / "pks").mkdir(parents=True)
    path = tmp_path / "data" / "pks" / f"{NAME}{suffix}"
    path.write_bytes(content)
    monkeypatch.setenv("TRIGMECH_DATA", str(tmp_path / "data"))
    return path


@pytest.mark.parametrize(("suffix", "content"), [("", PKS), (".xz", lzma.compress(PKS))])
def test_local_file(suffix: str, content: bytes, tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
                    ) -> None:
    put(tmp_path, monkeypatch, suffix, content)
    check_stand_in(load("PKS"))
    assert not cache.exists()


@pytest.mark.parametrize(("suffix", "content"), [
    ("", OTHER), (".xz", lzma.compress(OTHER)), (".xz", lzma.compress(PKS)[:-9])])
def test_local_file_with_another_checksum(suffix: str, content: bytes, tmp_path: Path, cache: Path,
                                          monkeypatch: pytest.MonkeyPatch) -> None:
    path = put(tmp_path, monkeypatch, suffix, content)
    with pytest.raises(DatasetCorrupt) as caught:
        load("PKS")
    message = str(caught.value)
    assert f"TRIGMECH_DATA/pks/{NAME}{suffix}" in message
    assert str(tmp_path) not in message
    assert hashlib.sha256(PKS).hexdigest() in message
    if suffix == "":
        assert hashlib.sha256(content).hexdigest() in message
    assert path.read_bytes() == content  # a user's file is never touched


# Downloading.


def zipped(members: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def tarred(members: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        folder = tarfile.TarInfo("folder")
        folder.type = tarfile.DIRTYPE
        archive.addfile(folder)
        for name, content in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


class Server:
    """Serves a directory; knows what it was asked for."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.requests: list[str] = []
        requests = self.requests

        class Counting(SimpleHTTPRequestHandler):
            def do_GET(self) -> None:
                requests.append(self.path)
                super().do_GET()

            def log_message(self, *arguments: object) -> None:
                """Keep quiet."""

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), partial(Counting, directory=str(directory)))

    def address(self, name: str) -> str:
        return f"http://127.0.0.1:{self.http.server_port}/{name}"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    (tmp_path / "served").mkdir()
    server = Server(tmp_path / "served")
    thread = threading.Thread(target=server.http.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.http.shutdown()
    server.http.server_close()
    thread.join()


Serve = Callable[..., None]


@pytest.fixture
def serve(server: Server, cache: Path, monkeypatch: pytest.MonkeyPatch) -> Serve:
    """Return a function that offers bytes as a data set's archive, and registers the right contents."""

    def offer(archive: bytes, *contents: bytes, name: str = "PKS") -> None:
        (server.directory / f"{name}.zip").write_bytes(archive)
        expect(monkeypatch, name, server.address(f"{name}.zip"), *contents or (PKS,))

    return offer


@pytest.mark.parametrize("archive", [
    pytest.param(zipped({"a/": b"", f"a/b/{NAME}": PKS, "a/x.names": b"text"}), id="folder"),
    pytest.param(zipped({f"{NAME}.gz": gzip.compress(PKS)}), id="gz"),
    pytest.param(zipped({f"{NAME}.xz": lzma.compress(PKS)}), id="xz"),
    pytest.param(zipped({"in.tar.gz": gzip.compress(tarred({f"folder/{NAME}": PKS}))}), id="tar.gz"),
    pytest.param(zipped({"in.zip": zipped({"in.tar.gz": gzip.compress(tarred({NAME: PKS}))})}), id="zip"),
    pytest.param(zipped({f"old/{NAME}": OTHER, NAME: PKS}), id="another of that name"),
    pytest.param(zipped({"junk/._in.tar.gz": b"junk", "junk.zip": b"junk", "x.gz": b"junk", "y.xz": b"junk",
                         "z.tar": b"junk", "t.gz": gzip.compress(PKS)[:-9], "in.zip": zipped({NAME: PKS})}),
                 id="debris"),
])
def test_download(archive: bytes, serve: Serve, server: Server, cache: Path) -> None:
    serve(archive)
    check_stand_in(load("pks", progress=False))
    assert [path.name for path in cache.iterdir()] == ["pks.zip"]
    check_stand_in(load("PKS", progress=False))
    assert server.requests == ["/PKS.zip"]  # the second time from the cache


def test_download_of_two_files_at_once(serve: Serve, server: Server) -> None:
    fields = ["38", " a", " 5", " b", " 9", " c", " d", " e", " f", " g", " 1", " 2", " 40", " h", " <=50K"]
    train = (",".join(fields) + "\n\n").encode()
    test = f"|1x3 Cross validator\n{','.join(['20', *fields[1:]])}.\n\n".encode()
    serve(zipped({"adult.data": train, "adult.test": test}), train, test, name="ADULT")
    table = load("ADULT", progress=False)
    np.testing.assert_array_equal(table.values, [[38, 5, 9, 1, 2, 40], [20, 5, 9, 1, 2, 40]])
    assert server.requests == ["/ADULT.zip"]


def test_download_of_the_nested_census(serve: Serve) -> None:
    record = [" text"] * 42
    for position, value in zip((0, 5, 16, 17, 18, 24, 30, 39), range(1, 9), strict=True):
        record[position] = f" {value}"
    test = ",".join(record).encode() + b" - 50000.\n"
    inner = tarred({"census-income.data": b"train", "census-income.test": test})
    serve(zipped({"census.tar.gz": gzip.compress(inner), "census-income.names": b"x"}), test, name="CSN")
    np.testing.assert_array_equal(load("CSN", progress=False).values, [[1, 2, 3, 4, 5, 6, 7, 8]])


@pytest.mark.parametrize(("archive", "found"), [
    pytest.param(zipped({NAME: OTHER}), hashlib.sha256(OTHER).hexdigest(), id="other bytes"),
    pytest.param(zipped({NAME: PKS})[:-30], "no readable file of that name", id="half an archive"),
    pytest.param(b"<html>come back later</html>", "no readable file of that name", id="no archive"),
])
def test_wrong_download_is_not_kept(archive: bytes, found: str, serve: Serve, server: Server, cache: Path) -> None:
    serve(archive)
    with pytest.raises(DatasetCorrupt) as caught:
        load("PKS", progress=False)
    for part in (server.address("PKS.zip"), f"expected sha256 {hashlib.sha256(PKS).hexdigest()}", f"found {found}",
                 f"TRIGMECH_DATA/pks/{NAME}", DATASETS["PKS"].page):
        assert part in str(caught.value)
    assert list(cache.iterdir()) == []
    serve(zipped({NAME: PKS}))
    check_stand_in(load("PKS", progress=False))


def check_advice(error: BaseException) -> None:
    for part in (NAME, DATASETS["PKS"].url, DATASETS["PKS"].page, "TRIGMECH_DATA"):
        assert part in str(error)
    assert not isinstance(error, DatasetCorrupt)
    assert isinstance(error.__cause__, OSError)


def test_server_without_the_archive(server: Server, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expect(monkeypatch, "PKS", server.address("gone.zip"), PKS)
    with pytest.raises(DatasetMissing, match="404") as caught:
        load("PKS", progress=False)
    check_advice(caught.value)
    assert "TRIGMECH_DATA, for pks/parkinsons_updrs.data, is not set" in str(caught.value)
    assert list(cache.iterdir()) == []


def test_no_server(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRIGMECH_DATA", str(tmp_path))
    with pytest.raises(DatasetMissing) as caught:
        load("PKS", progress=False)
    check_advice(caught.value)
    assert "TRIGMECH_DATA has no pks/parkinsons_updrs.data" in str(caught.value)
    assert str(tmp_path) not in str(caught.value)
    assert list(cache.iterdir()) == []


def test_connection_that_breaks_off(server: Server, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def half(self: SimpleHTTPRequestHandler) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "5000")
        self.end_headers()
        self.wfile.write(zipped({NAME: PKS}))

    monkeypatch.setattr(SimpleHTTPRequestHandler, "do_GET", half)
    expect(monkeypatch, "PKS", server.address("PKS.zip"), PKS)
    with pytest.raises(DatasetMissing) as caught:
        load("PKS", progress=False)
    check_advice(caught.value)
    assert list(cache.iterdir()) == []
