"""The container of saved releases: what comes back, what other programs see, and what is refused."""

import base64
import io
import json
import os
import pickle
import struct
import tracemalloc
import warnings
import zipfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from trigmech.errors import InputError
from trigmech.storage import archive

MANIFEST = {"n": 7, "scale": 0.1, "names": ["a", "ü", "\n"], "none": None, "flag": True, "empty": {}, "big": 2**70}


def example():
    rng = np.random.default_rng(1)
    table = rng.standard_normal((5, 3))
    return {
        "a": table, "a.b": np.asfortranarray(table), "a_b": table[::2, ::-1], "bits": np.array([np.nan, -0.0, np.inf]),
        "bytes": np.arange(7, dtype=np.uint8), "empty": np.empty((0, 3)), "four": rng.standard_normal((2, 1, 3, 2)),
        "index": np.array([[0, -(2**63)], [2**63 - 1, 1]]), "one": np.array(0.1), "z": np.empty(0, dtype=np.int64),
    }


def same(left, right):
    """Equal in type, shape and bits; also in order, where the first has one."""
    contiguous = left.flags.c_contiguous or left.flags.f_contiguous
    return (left.dtype == right.dtype and left.shape == right.shape and left.tobytes() == right.tobytes()
            and (not contiguous or left.flags.f_contiguous == right.flags.f_contiguous))


def refusal(path, content=None):
    """Why the file (or what stands in it after this content was written) is refused."""
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError) as refused:
        archive.read(path)
    message = str(refused.value)
    assert message.startswith(f"cannot read {str(path)!r}: ")
    assert refused.value.__cause__ is None
    assert refused.value.__suppress_context__
    return message


def forge(members):
    """An archive by another program."""
    out = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(out, "w") as file:
        warnings.simplefilter("ignore")  # of names that are there already
        for name, content in members:
            file.writestr(name, content, zipfile.ZIP_DEFLATED)
    return out.getvalue()


# Where fields of an entry in the archive's directory are.
FIELDS = {"version": (6, "<H"), "flags": (8, "<H"), "method": (10, "<H"), "checksum": (16, "<L"), "packed": (20, "<L"),
          "size": (24, "<L"), "extra": (30, "<H"), "comment": (32, "<H"), "offset": (42, "<L")}


def spoilt(content, **fields):
    """An archive with other fields in the last entry of its directory."""
    content = bytearray(content)
    for field, value in fields.items():
        position, form = FIELDS[field]
        struct.pack_into(form, content, content.rindex(b"PK\1\2") + position, value)
    return bytes(content)


def with_end(content, *, entries=b"", comment=b""):
    """An archive with more in its directory, and a comment."""
    *start, found, offset, _ = struct.unpack("<4s4H2LH", content[-22:])
    length = found + len(entries)
    return content[:-22] + entries + struct.pack("<4s4H2LH", *start, length, offset, len(comment)) + comment


def text(manifest=None, **outer):
    return json.dumps({"format": "trigmech release", "version": 1, "content": manifest or {}, **outer}).encode()


def npy(array):
    """An array's member."""
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def with_header(header, entries, length=None):
    length = -(-(11 + len(header)) // 64) * 64 - 10 if length is None else length
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", length) + header.ljust(length - 1) + b"\n" + entries


VALID = [("manifest.json", text()), ("x.npy", npy(np.arange(4.0)))]


# What comes back


PLAIN = st.recursive(st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
                     | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=8)
ARRAYS = hnp.arrays(st.sampled_from([np.float64, np.int64, np.uint8]),
                    hnp.array_shapes(min_dims=0, max_dims=4, min_side=0))


@pytest.mark.nightly  # By day test_saved.py has releases of all kinds, and cases are below.
@settings(max_examples=12, deadline=None)
@given(st.dictionaries(st.text(), PLAIN),
       st.dictionaries(st.from_regex(r"[a-z0-9_]{1,20}(\.[a-z0-9_]{1,20}){0,2}", fullmatch=True), ARRAYS, max_size=4))
def test_any_plain_manifest_and_any_arrays_come_back(tmp_path_factory, manifest, arrays):
    path = tmp_path_factory.mktemp("any") / "a.tm"
    archive.write(path, manifest, arrays)
    found = archive.read(path)
    assert json.dumps(found[0]) == json.dumps(manifest)
    assert found[1].keys() == arrays.keys()
    assert all(same(array, found[1][name]) for name, array in arrays.items())


def test_other_programs_read_it(tmp_path):
    archive.write(tmp_path / "a.tm", MANIFEST, example())
    with zipfile.ZipFile(tmp_path / "a.tm") as file:
        assert file.testzip() is None
        assert file.namelist() == ["manifest.json", *(f"{name}.npy" for name in sorted(example()))]
        assert json.loads(file.read("manifest.json")) == {"format": "trigmech release", "version": 1,
                                                          "content": MANIFEST}
        found = archive.read(tmp_path / "a.tm")[1]
        for name, array in example().items():
            assert same(array, np.load(io.BytesIO(file.read(f"{name}.npy")), allow_pickle=False)), name
            assert same(array, found[name]), name
            assert found[name].flags.writeable


# By the version of this package that first wrote such files.
OLD = (
    "UEsDBBQAAAAIAAAAIQDlhNzzPAAAAEEAAAANAAAAbWFuaWZlc3QuanNvbqtWSssvyk0sUbJSUCopykzPTU3OUChKzUlNLE5V0lFQKkstKs7MzwNKGwJ5yf"
    "l5Jal5IMXVSiAx89paAFBLAwQUAAAACAAAACEAwgOud1IAAACYAAAABQAAAHgubnB5m+wX6hsQychQxlCtnpJanFykbqWgbpNmoa6joJ6WX1RSlJgXn1+U"
    "kgoSd0vMKU4FihdnJBakAvkaxjqaOgq1ChQArlkzQWCnPYQ+aZ8GBs/sAVBLAwQUAAAACAAAACEAVHuRF1EAAACgAAAABwAAAHkuei5ucHmb7BfqGxDJyF"
    "DGUK2eklqcXKRupaBuk2mhrqOgnpZfVFKUmBefX5SSChIPKSpNBQoXZyQWpAK5GkY6CkaaOgq1CuQDLkYGCGCG0kxQmgVKAwBQSwECFAMUAAAACAAAACEA"
    "5YTc8zwAAABBAAAADQAAAAAAAAAAAAAApIEAAAAAbWFuaWZlc3QuanNvblBLAQIUAxQAAAAIAAAAIQDCA653UgAAAJgAAAAFAAAAAAAAAAAAAACkgWcAAA"
    "B4Lm5weVBLAQIUAxQAAAAIAAAAIQBUe5EXUQAAAKAAAAAHAAAAAAAAAAAAAACkgdwAAAB5LnoubnB5UEsFBgAAAAADAAMAowAAAFIBAAAAAA==")


def test_old_files_are_read_and_written_with_the_same_members(tmp_path):
    arrays = {"x": np.array([0.1, 0.2, 0.7]), "y.z": np.asfortranarray([[1, 2], [3, 4]])}
    (tmp_path / "a.tm").write_bytes(base64.b64decode(OLD))
    manifest, found = archive.read(tmp_path / "a.tm")
    assert manifest == {"n": 7}
    assert found.keys() == arrays.keys()
    assert all(same(arrays[name], found[name]) for name in arrays)
    archive.write(tmp_path / "b.tm", manifest, arrays)
    # All that the directory says but the compressed sizes, which depend on zlib, and what follows from them.
    listed = [[(member.filename, member.CRC, member.file_size, member.date_time, member.flag_bits, member.compress_type,
                member.create_system, member.create_version, member.extract_version, member.external_attr)
               for member in zipfile.ZipFile(tmp_path / name).infolist()] for name in ("a.tm", "b.tm")]
    assert listed[0] == listed[1]


def test_the_same_content_gives_the_same_bytes(tmp_path, monkeypatch):
    archive.write(tmp_path / "a.tm", MANIFEST, example())
    monkeypatch.setattr("time.time", lambda: 2e9)
    monkeypatch.setattr("time.localtime", lambda *_: pytest.fail("the time was asked for"))
    archive.write(tmp_path / "b.tm", dict(MANIFEST), dict(reversed(example().items())))
    assert (tmp_path / "a.tm").read_bytes() == (tmp_path / "b.tm").read_bytes()
    archive.write(tmp_path / "b.tm", {**MANIFEST, "n": 8}, example())
    assert (tmp_path / "a.tm").read_bytes() != (tmp_path / "b.tm").read_bytes()


# What is refused: damage


@pytest.fixture
def small(tmp_path):
    """A file of some hundred bytes, all of whose bytes can be tried."""
    path = tmp_path / "a.tm"
    archive.write(path, {"n": 7}, {"x": np.array([0.1, 0.2, 0.7]), "y": np.array([[1, 2], [3, 4]])})
    return path


def silent_changes(path, contents):
    """How many of these contents are read as something other than the file is; anything but an InputError escapes."""
    manifest, arrays = archive.read(path)
    changed = 0
    for content in contents:
        path.write_bytes(content)
        try:
            found = archive.read(path)
        except InputError:
            continue
        changed += not (found[0] == manifest and found[1].keys() == arrays.keys()
                        and all(same(arrays[name], found[1][name]) for name in arrays))
    return changed


def flips(content):
    """One bit of each byte flipped, and all of them at every third."""
    for position in range(len(content)):
        for change in (1 << position % 8, 255)[: 1 + (position % 3 == 0)]:
            yield content[:position] + bytes([content[position] ^ change]) + content[position + 1 :]


def test_flipped_bytes_are_found(small):
    assert silent_changes(small, flips(small.read_bytes())) == 0


def test_cut_files_are_refused(small):
    content = small.read_bytes()
    for length in [*range(0, len(content), 7), *range(len(content) - 25, len(content))]:
        refusal(small, content[:length])
        refusal(small, content[length + 1 :])


# What is refused: hostile files


def test_the_forger_can_write_a_valid_file(tmp_path):
    (tmp_path / "a.tm").write_bytes(forge(VALID))
    manifest, arrays = archive.read(tmp_path / "a.tm")
    assert manifest == {}
    assert same(arrays["x"], np.arange(4.0))


SPOILT = forge(VALID)
# A record of ZIP64 that declares a directory of 2^40 bytes, and its locator, at the end of the directory.
ZIP64 = (struct.pack("<4sQ2H2L4Q", b"PK\6\6", 44, 45, 45, 0, 0, 2, 2, 2**40, 0)
         + struct.pack("<4sLQL", b"PK\6\7", 0, 0, 1))
HOSTILE_ARCHIVES = {
    "a byte before": (b"\0" + SPOILT, "not a"),
    "a comment": (with_end(SPOILT, comment=b"abc"), "end record"),
    "a byte after": (SPOILT + b"\0", "end record"),
    "no members": (b"PK\3\4" + forge([]), "end record|damaged"),
    "many members": (forge([VALID[0], *((f"x{k:02}.npy", VALID[1][1]) for k in range(64))]), "at most 63 arrays"),
    "a directory of very many members": (with_end(SPOILT, entries=SPOILT[SPOILT.index(b"PK\1\2"):-22] * 10_000),
                                         "end record"),
    "a directory of ZIP64": (with_end(SPOILT, entries=ZIP64), "end record"),
    "no manifest": (forge(VALID[1:]), "manifest.json first"),
    "two manifests": (forge([VALID[0], *VALID]), "arrays NAME.npy"),
    "one array twice": (forge([*VALID, VALID[1]]), "ascending order"),
    "a descending order": (forge([*VALID, ("a.npy", VALID[1][1])]), "ascending order"),
    "a path upwards": (forge([VALID[0], ("../x.npy", VALID[1][1])]), "arrays NAME.npy"),
    "a name that is no UTF-8": (spoilt(SPOILT.replace(b"x.npy", b"\xff.npy"), flags=0x800), "damaged"),
    "a long name": (forge([VALID[0], (65 * "x" + ".npy", VALID[1][1])]), "arrays NAME.npy"),
    "names that disagree": (SPOILT.replace(b"x.npy", b"y.npy", 1), "damaged"),
    "encryption": (spoilt(SPOILT, flags=1), "without encryption"),
    "no compression": (spoilt(SPOILT, method=0), "by deflate"),
    "a later version of ZIP": (spoilt(SPOILT, version=99), "damaged"),
    "an extra field": (spoilt(with_end(SPOILT, entries=b"ab\2\0cd"), extra=6), "extra fields"),
    "a comment that hides a member": (spoilt(SPOILT[:SPOILT.rindex(b"PK\1\2")], comment=51)
                                      + SPOILT[SPOILT.rindex(b"PK\1\2"):], "comments"),
    "members that overlap": (spoilt(SPOILT, offset=0), "damaged"),
    "a size beyond the limit": (spoilt(SPOILT, size=2**32 - 1), "at most 1073741824 bytes"),
    "more than it declares": (spoilt(SPOILT, size=100), "damaged"),
    "less than it declares": (spoilt(SPOILT, size=2**29), "x.npy does not end"),
    "no deflated bytes": (SPOILT.replace(b"x.npy\x9b", b"x.npy\xff", 1), "damaged"),
    "no bytes at all": (spoilt(SPOILT, packed=0), "damaged"),
    "a wrong checksum": (spoilt(SPOILT, checksum=1), "damaged"),
    "a wrong checksum of nothing": (spoilt(forge([VALID[0], ("x.npy", b"")]), checksum=1), "damaged"),
}


@pytest.mark.parametrize("case", HOSTILE_ARCHIVES)
def test_hostile_archives_are_refused(tmp_path, case):
    content, words = HOSTILE_ARCHIVES[case]
    message = refusal(tmp_path / "a.tm", content)
    assert any(each in message for each in words.split("|")), message


NUMBERS = np.arange(4.0).tobytes()
HOSTILE_ARRAYS = {
    "objects": with_header(b"{'descr': '|O', 'fortran_order': False, 'shape': (1,), }", pickle.dumps([1])),
    "the other byte order": with_header(b"{'descr': '>f8', 'fortran_order': False, 'shape': (4,), }", NUMBERS),
    "an expression": with_header(b"__import__('os').abort()", NUMBERS),
    "another length": with_header(b"{'descr': '<f8', 'fortran_order': False, 'shape': (5,), }", NUMBERS),
    "lengths that overflow": with_header(
        b"{'descr': '<f8', 'fortran_order': False, 'shape': (4294967296, 4294967296), }", b""),
    "an empty array of huge lengths": with_header(
        b"{'descr': '<f8', 'fortran_order': False, 'shape': (0, 4294967296, 4294967296), }", b""),
    "five dimensions": with_header(b"{'descr': '<f8', 'fortran_order': False, 'shape': (1, 1, 1, 1, 4), }", NUMBERS),
    "a leading zero": with_header(b"{'descr': '<f8', 'fortran_order': False, 'shape': (04,), }", NUMBERS),
    "a long header": with_header(b"{'descr': '<f8', 'fortran_order': False, 'shape': (4,), }", NUMBERS, length=65526),
    "nothing": b"",
    "a pickle": pickle.dumps(np.arange(4.0)),
}


@pytest.mark.parametrize("case", HOSTILE_ARRAYS)
def test_hostile_arrays_are_refused(tmp_path, case):
    message = refusal(tmp_path / "a.tm", forge([VALID[0], ("x.npy", HOSTILE_ARRAYS[case])]))
    assert "x.npy" in message


def nested(depth):
    return text() [: -len("{}}")] + depth * b'{"a":' + b"1" + depth * b"}" + b"}"


HOSTILE_MANIFESTS = {
    "nested too deep": (nested(32), "deeper than 32"),
    "lists nested very deep": (100_000 * b"[", "deeper than 32|is not JSON"),
    "a key twice": (b'{"format": "trigmech release", "version": 1, "version": 1, "content": {}}', "key twice"),
    "not a number": (text()[:-3] + b'{"a": NaN}}', "finite"),
    "a number that becomes infinite": (text()[:-3] + b'{"a": 1e999}}', "finite"),
    "an endless integer": (text()[:-3] + b'{"a": ' + 10_000 * b"1" + b"}}", "is not JSON"),
    "half a text": (text()[:-1], "is not JSON"),
    "Latin-1": (text()[:-3] + b'{"a": "\xfc"}}', "is not JSON in UTF-8"),
    "a list": (b"[]", "does not say that this is"),
    "another format": (text(format="other"), 'does not say that this is a "trigmech release"'),
    "no version": (b'{"format": "trigmech release", "content": {}}', "does not state its version"),
    "a version that is no number": (text(version=True), "does not state its version"),
    "a version of many digits": (text(version=10**1000), "does not state its version"),
    "a later version": (text(version=2, more=1), "has version 2 of the format; this trigmech reads version 1 only"),
    "another key": (text(more=1), 'the keys "format", "version" and "content"'),
    "content that is no object": (text([1]), 'the keys "format", "version" and "content"'),
    "too many bytes": (text() + 2**24 * b" ", "manifest.json 16777216"),
}


@pytest.mark.parametrize("case", HOSTILE_MANIFESTS)
def test_hostile_manifests_are_refused(tmp_path, case):
    content, words = HOSTILE_MANIFESTS[case]
    message = refusal(tmp_path / "a.tm", forge([("manifest.json", content), VALID[1]]))
    assert any(each in message for each in words.split("|")), message


def test_a_manifest_at_the_limit_of_depth_is_read(tmp_path):
    (tmp_path / "a.tm").write_bytes(forge([("manifest.json", nested(31))]))
    archive.read(tmp_path / "a.tm")


def test_a_version_that_changes_the_arrays_is_still_named(tmp_path):
    content = forge([("manifest.json", text(version=3)), ("x.npy", b"in another format")])
    assert "has version 3" in refusal(tmp_path / "a.tm", content)


@pytest.mark.daily("0", "1073741824")
@pytest.mark.parametrize("declared", [0, 1_000, 2**26, 2**30, 2**32 - 1])
def test_a_bomb_takes_little_memory(tmp_path, declared):
    content = spoilt(forge([VALID[0], ("x.npy", bytes(2**25))]), size=declared)
    (tmp_path / "a.tm").write_bytes(content)
    tracemalloc.start()
    refusal(tmp_path / "a.tm")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # What is really there, 32 MiB, may be unpacked, twice while its parts are joined; what is declared, never.
    assert peak < 3 * min(declared, 2**25) + 2**20


def test_arrays_are_read_without_a_second_copy(tmp_path):
    """Memory that is new takes longer than what is done in it, and a release of many rows has a large array."""
    archive.write(tmp_path / "a.tm", MANIFEST, {"x": np.zeros(2**22), "y": np.ones((2**9, 2**8), order="F")})
    tracemalloc.start()
    _, found = archive.read(tmp_path / "a.tm")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found["x"].nbytes == 2**25
    assert peak < 1.25 * 2**25
    assert found["y"].flags.f_contiguous


def test_nothing_is_unpickled(tmp_path, monkeypatch):
    class Mine:
        def __reduce__(self):
            return (os.mkdir, (str(tmp_path / "executed"),))

    buffer = io.BytesIO()
    np.save(buffer, np.array([Mine()]), allow_pickle=True)
    for name in ("load", "loads", "Unpickler"):
        monkeypatch.setattr(pickle, name, lambda *_, **__: pytest.fail("pickle was used"))
    refusal(tmp_path / "a.tm", forge([VALID[0], ("x.npy", buffer.getvalue())]))
    assert not (tmp_path / "executed").exists()
    (tmp_path / "a.tm").write_bytes(forge(VALID))
    archive.read(tmp_path / "a.tm")


# What is refused: paths


def test_paths_that_hold_no_such_file_are_refused(tmp_path):
    assert "No such file" in refusal(tmp_path / "missing.tm")
    assert "it is a folder" in refusal(tmp_path)
    (tmp_path / "loop.tm").symlink_to("loop.tm")
    assert "symbolic links" in refusal(tmp_path / "loop.tm")
    (tmp_path / "dangling.tm").symlink_to("missing.tm")
    assert "No such file" in refusal(tmp_path / "dangling.tm")
    os.mkfifo(tmp_path / "pipe.tm")
    assert "not an ordinary file" in refusal(tmp_path / "pipe.tm")
    assert "not a" in refusal(tmp_path / "empty.tm", b"")
    assert "not a" in refusal(tmp_path / "table.csv", b"name,age\nMarkerPerson,42\n" * 100)
    assert "not a file name" in refusal(tmp_path / "a\0b")


def test_a_link_to_a_file_is_followed(small, tmp_path):
    (tmp_path / "link.tm").symlink_to(small)
    assert archive.read(str(tmp_path / "link.tm"))[0] == {"n": 7}


def test_messages_quote_nothing_of_a_file(tmp_path):
    secret = "markerperson"
    for content in (f"name,age\n{secret},42\n".encode() * 100, forge([(f"{secret}.json", b"")]),
                    forge([("manifest.json", json.dumps({secret: 1}).encode())]),
                    forge([VALID[0], (f"{secret}.csv", b"")])):
        assert secret not in refusal(tmp_path / "a.tm", content)


# Writing


DEEP = {}
for _ in range(40):
    DEEP = {"a": DEEP}

UNFIT = {
    "no dict": ([], {}, "must be a dict"),
    "not a number": ({"a": float("nan")}, {}, "finite"),
    "a tuple": ({"a": (1,)}, {}, "cannot hold a tuple"),
    "a key that is no text": ({1: 2}, {}, "keys"),
    "deep nesting": (DEEP, {}, "deeper than 32"),
    "a long text": ({"a": 2**24 * "x"}, {}, "at most 16777216"),
    "objects": ({}, {"x": np.array([None])}, "float64, int64 or uint8"),
    "five dimensions": ({}, {"x": np.zeros((1, 1, 1, 1, 1))}, "4 dimensions"),
    "a list": ({}, {"x": [1.0]}, "must be an ndarray"),
    "a path": ({}, {"../x": np.zeros(1)}, "name"),
    "a long name": ({}, {65 * "x": np.zeros(1)}, "name"),
    "many arrays": ({}, {f"x{k}": np.zeros(1) for k in range(64)}, "at most 63 arrays"),
    "too many bytes": ({}, {"x": np.broadcast_to(0.0, 2**27)}, "at most 1073741824 bytes"),
}


@pytest.mark.parametrize("case", UNFIT)
def test_what_could_not_be_read_is_not_written(tmp_path, case):
    manifest, arrays, words = UNFIT[case]
    (tmp_path / "a.tm").write_text("old")
    with pytest.raises(InputError, match=words):
        archive.write(tmp_path / "a.tm", manifest, arrays)
    assert (tmp_path / "a.tm").read_text() == "old"
    assert len(list(tmp_path.iterdir())) == 1


def test_a_missing_folder_is_an_input_error(tmp_path):
    with pytest.raises(InputError, match="cannot write"):
        archive.write(tmp_path / "missing" / "a.tm", {}, {})


@pytest.mark.parametrize("spare", [0, -1])
def test_a_file_of_the_largest_size_is_written_and_one_of_a_byte_more_is_not(tmp_path, monkeypatch, spare):
    arrays, content = {"x": np.zeros(3), "y": np.zeros((2, 2), dtype=np.int64)}, {"a": 1}
    archive.write(tmp_path / "a.tm", content, arrays)
    with zipfile.ZipFile(tmp_path / "a.tm") as file:
        manifest = min(info.file_size for info in file.infolist() if not info.filename.endswith(".npy"))
    monkeypatch.setattr(archive, "MAX_BYTES", manifest + 2 * archive.HEADER + 24 + 32 + spare)
    if spare < 0:
        with pytest.raises(InputError, match=f"these arrays are {manifest + 2 * archive.HEADER + 56}$"):
            archive.write(tmp_path / "b.tm", content, arrays)
    else:
        archive.write(tmp_path / "b.tm", content, arrays)
