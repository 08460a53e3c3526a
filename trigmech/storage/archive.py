"""A file of one manifest and named arrays, never executed: the format "trigmech release", version 1.

The file is a ZIP archive, which any ZIP program lists and unpacks, and its arrays are NumPy's own ``.npy`` files:

- Its members are compressed by deflate. There are no comments, extra fields, data descriptors, encryption or ZIP64,
  and nothing stands after the end record or before the first member.
- The first member, in this version and all later ones, is ``manifest.json``: a JSON object in UTF-8 with the keys
  "format" (the text "trigmech release"), "version" (1) and "content" (an object), of at most 2^24 bytes. It is nested
  at most 32 deep; no object has a key twice; all numbers are finite.
- The others, at most 63 in ascending order of NAME, are ``NAME.npy``; NAME is at most 64 lower-case letters, digits,
  underscores and single dots between these. Each is an array in NumPy's file format 1.0, with a header of 128 bytes, of
  type '<f8', '<i8' or '|u1' and at most 4 dimensions, in C order or, where ``fortran_order`` says True, in Fortran's.
- All members together hold at most 2^30 bytes, unpacked.

The same manifest (keys in the same order) and arrays give the same bytes under the same version of zlib: every member
has the date 1 January 1980 and the permissions of an ordinary file.
"""

import json
import math
import os
import re
import stat
import struct
import zipfile
import zlib
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from trigmech._files import reading, replacing
from trigmech._validate import finite
from trigmech.errors import InputError

FORMAT = "trigmech release"
VERSION = 1

MAX_ARRAYS = 63
MAX_NAME = 64
MAX_MANIFEST = 2**24
MAX_DEPTH = 32
MAX_BYTES = 2**30
MAX_DIMENSIONS = 4
# The size of the archive's list of members: 46 bytes and a name for each.
MAX_DIRECTORY = (1 + MAX_ARRAYS) * (46 + MAX_NAME + len(".npy"))

MANIFEST = "manifest.json"
TYPES = ("<f8", "<i8", "|u1")
# So many unpacked bytes are read at a time.
PIECE = 2**20
# NumPy pads the header of every array within these limits to this length.
HEADER = 128

_NAME = re.compile(r"[a-z0-9_]+(\.[a-z0-9_]+)*")
_HEADER = re.compile(r"\x93NUMPY\x01\x00v\x00"
                     r"\{'descr': '(<f8|<i8|\|u1)', 'fortran_order': (True|False), 'shape': (\([0-9, ]*\)), \} *\n")
_END = struct.Struct("<4s4H2LH")
_ZIP64 = 20
# The errors of zipfile, zlib and NumPy about a broken file.
_BROKEN = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, OverflowError, ValueError)


def write(path: str | os.PathLike[str], manifest: dict[str, Any], arrays: dict[str, NDArray],
          kind: str = FORMAT) -> None:
    """Write a file, whole or not at all; see :func:`trigmech._files.replacing`.

    Parameters
    ----------
    path : path, public
    kind : str
        The name of the format; files of another name have the same form.
    manifest : dict, public
        Only JSON's types: dict with str keys, list, str, int, finite float, bool, None.
    arrays : dict of str to ndarray, public
        Arrays of float64, int64 and uint8. One that is contiguous only in Fortran's order stays so, because sums by
        BLAS depend on it in their last bits; any other comes back in C order.

    Raises
    ------
    InputError
        If the folder cannot be written to, or :func:`read` would refuse the file: a rule of the format is broken.
    """
    if not isinstance(manifest, dict):
        raise InputError(f"the manifest must be a dict, not {type(manifest).__name__}")
    content = {"format": kind, "version": VERSION, "content": manifest}
    _check_plain(content)
    text = json.dumps(content, allow_nan=False).encode("ascii")
    if len(text) > MAX_MANIFEST:
        raise InputError(f"the manifest must be at most {MAX_MANIFEST} bytes of JSON; it would be {len(text)}")
    if len(arrays) > MAX_ARRAYS:
        raise InputError(f"there can be at most {MAX_ARRAYS} arrays in a file, not {len(arrays)}")
    for name, array in arrays.items():
        if not _is_name(name):
            raise InputError(f"an array's name must be at most {MAX_NAME} lower-case letters, digits, underscores and "
                             f"single dots, not {name!r}")
        if not isinstance(array, np.ndarray) or array.dtype.str not in TYPES or array.ndim > MAX_DIMENSIONS:
            raise InputError(f"array {name!r} must be an ndarray of float64, int64 or uint8 and at most "
                             f"{MAX_DIMENSIONS} dimensions")
    total = len(text) + sum(HEADER + array.nbytes for array in arrays.values())
    if total > MAX_BYTES:
        raise InputError(f"a file can hold at most {MAX_BYTES} bytes, unpacked; these arrays are {total}")
    with replacing(Path(path)) as beside, zipfile.ZipFile(beside, "w") as archive:
        with archive.open(_member(MANIFEST), "w") as file:
            file.write(text)
        for member, array in sorted(arrays.items()):
            with archive.open(_member(f"{member}.npy"), "w") as file:
                npy.write_array(file, array, version=(1, 0), allow_pickle=False)


def read(path: str | os.PathLike[str], kind: str = FORMAT) -> tuple[dict[str, Any], dict[str, NDArray]]:
    """Return the manifest and the arrays of a file, or refuse it.

    Parameters
    ----------
    path : path
        A file from :func:`write`; the reader does not have to trust it.

    Returns
    -------
    manifest : dict
    arrays : dict of str to ndarray
        Equal in type, shape, order and every bit to those written.

    Raises
    ------
    InputError
        If anything is wrong with the file. The message names the file and the rule, and does not quote the content.

    Notes
    -----
    Nothing of the file is executed, evaluated or unpickled. No memory is set aside because of a size that the file
    declares: its real content is unpacked, up to that size, and more than 2^30 bytes in all are refused first.
    Cost: memory for at most 9/8 of that, and for the compressed bytes of one array.
    """
    path = Path(path)
    with reading(path, "the archive is damaged", *_BROKEN), _open(path) as file, _archive(file, kind) as archive:
        manifest, *members = _members(archive)
        content = _manifest(_unpacked(archive, manifest), kind)
        return content, {member.filename.removesuffix(".npy"): _array(member.filename, _unpacked(archive, member))
                         for member in members}


def take(arrays: dict[str, NDArray], name: str, *shape: int | str, kind: str = "float64") -> NDArray[Any]:
    """Remove an array from the dictionary and return it, or raise an InputError.

    arrays: The arrays from :func:`read`; its readers empty it, and refuse arrays that are left.
    kind, one of {"float64", "int64", "uint8"}: Its type. All its numbers must be finite.
    """
    if name not in arrays:
        raise InputError(f"the array {name!r} is missing")
    array = finite(f"the array {name!r}", arrays.pop(name), *shape)
    if array.dtype.name != kind:
        raise InputError(f"the array {name!r} must hold numbers of type {kind}")
    return array


def _is_name(name: str) -> bool:
    return len(name) <= MAX_NAME and _NAME.fullmatch(name) is not None


def _member(name: str) -> zipfile.ZipInfo:
    """Return how a member is written: the same on every system and at any time, as the first readers demand."""
    member = zipfile.ZipInfo(name)
    member.compress_type, member.create_system, member.external_attr = zipfile.ZIP_DEFLATED, 3, 0o100644 << 16
    return member


# Reading


def _open(path: Path) -> BinaryIO:
    try:
        mode = path.stat().st_mode
    except ValueError:
        raise InputError("it is not a file name") from None
    if not stat.S_ISREG(mode):
        # Opening a pipe would wait until somebody writes to it.
        raise InputError("it is a folder" if stat.S_ISDIR(mode) else "it is not an ordinary file")
    return path.open("rb")


def _archive(file: BinaryIO, kind: str) -> zipfile.ZipFile:
    """Return the archive, once it is sure that its list of members, which zipfile reads whole, is short."""
    start, size = file.read(4), file.seek(0, os.SEEK_END)
    if start != b"PK\3\4" or size < _END.size:
        raise InputError(f'it is not a "{kind}", which is a ZIP archive')
    file.seek(max(0, size - _END.size - _ZIP64))
    end = file.read()
    mark, *_, length, offset, comment = _END.unpack(end[-_END.size:])
    # With a record of ZIP64 before it, zipfile would go by that one's numbers.
    if (mark != b"PK\5\6" or end.startswith(b"PK\6\7") or comment or length > MAX_DIRECTORY
            or offset + length + _END.size != size):
        raise InputError(f"it does not end with the end record of an archive of 1 to {1 + MAX_ARRAYS} members; it was "
                         "cut short, or something was added")
    return zipfile.ZipFile(file)


def _members(archive: zipfile.ZipFile) -> list[zipfile.ZipInfo]:
    """Return the members, once their names and declared sizes are as they must be."""
    members = archive.infolist()
    first, *others = [member.filename for member in members]
    stems = [name.removesuffix(".npy") for name in others]
    if (first != MANIFEST or len(stems) > MAX_ARRAYS
            or not all(_is_name(stem) and name == f"{stem}.npy" for name, stem in zip(others, stems, strict=True))):
        raise InputError(f"the archive must have {MANIFEST} first, and then at most {MAX_ARRAYS} arrays NAME.npy")
    if stems != sorted(set(stems)):
        raise InputError("the archive's arrays must be in ascending order of their names, each once")
    # A comment or an extra field could hide the members after it.
    if any(member.compress_type != zipfile.ZIP_DEFLATED or member.flag_bits or member.extra or member.comment
           for member in members):
        raise InputError("the archive's members must be compressed by deflate, without encryption, extra fields and "
                         "comments")
    if sum(member.file_size for member in members) > MAX_BYTES or members[0].file_size > MAX_MANIFEST:
        raise InputError(f"the archive must hold at most {MAX_BYTES} bytes, unpacked, and {MANIFEST} {MAX_MANIFEST}")
    return members


def _unpacked(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> bytearray:
    content = bytearray()
    with archive.open(member) as file:
        # Piece by piece, so that no second copy is made. One byte more, so that the checksum of an empty member is
        # looked at, too.
        while (left := member.file_size + 1 - len(content)) and (piece := file.read(min(PIECE, left))):
            content += piece
    if len(content) != member.file_size:
        raise InputError(f"{member.filename} does not end where it declares; it is damaged")
    return content


def _manifest(text: bytearray, kind: str) -> dict[str, Any]:
    try:
        manifest = json.loads(text.decode("utf-8"), object_pairs_hook=_distinct)
    except InputError:
        raise
    except RecursionError:
        raise InputError(f"{MANIFEST} is nested deeper than {MAX_DEPTH}") from None
    except ValueError:
        raise InputError(f"{MANIFEST} is not JSON in UTF-8") from None
    _check_plain(manifest)
    if not isinstance(manifest, dict) or manifest.get("format") != kind:
        raise InputError(f'{MANIFEST} does not say that this is a "{kind}"')
    version = manifest.get("version")
    if type(version) is not int or abs(version) > 10**6:
        raise InputError(f"{MANIFEST} does not state its version of the format")
    if version != VERSION:
        raise InputError(f"it has version {version} of the format; this trigmech reads version {VERSION} only")
    if set(manifest) != {"format", "version", "content"} or not isinstance(manifest["content"], dict):
        raise InputError(f'{MANIFEST} must have the keys "format", "version" and "content", the last an object')
    return manifest["content"]


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise InputError(f"an object of {MANIFEST} has a key twice")
    return found


def _check_plain(value: Any, depth: int = 0) -> None:
    """Refuse values that JSON cannot express in exactly one way, and deep nesting."""
    if isinstance(value, dict | list):
        if depth == MAX_DEPTH:
            raise InputError(f"{MANIFEST} is nested deeper than {MAX_DEPTH}")
        if isinstance(value, dict) and not all(isinstance(key, str) for key in value):
            raise InputError(f"all keys in {MANIFEST} must be texts")
        for each in value.values() if isinstance(value, dict) else value:
            _check_plain(each, depth + 1)
    elif isinstance(value, float) and not math.isfinite(value):
        raise InputError(f"all numbers in {MANIFEST} must be finite")
    elif not (value is None or isinstance(value, str | int | float)):
        raise InputError(f"{MANIFEST} cannot hold a {type(value).__name__}")


def _array(name: str, content: bytearray) -> NDArray:
    # NumPy parses headers as expressions of Python. The few forms that it writes need no such parser.
    header = _HEADER.fullmatch(content[:HEADER].decode("latin-1"))
    kind, turned, lengths = header.groups() if header else ("", "", "")
    shape = tuple(int(each) for each in re.findall("[0-9]+", lengths))
    if len(content) < HEADER or lengths != str(shape) or len(shape) > MAX_DIMENSIONS:
        raise InputError(f"{name} must be an array in NumPy's format 1.0, of type {', '.join(TYPES)}, and at most "
                         f"{MAX_DIMENSIONS} dimensions")
    # Empty dimensions as 1: NumPy, too, refuses shapes that would be too large without them.
    if (HEADER + math.prod(shape) * int(kind[2]) != len(content)
            or math.prod(max(1, each) for each in shape) > MAX_BYTES):
        raise InputError(f"the shape of {name} does not agree with its size")
    # In the memory of the content: to set other memory aside would take longer than to copy.
    return np.ndarray(shape, kind, content, HEADER, order="F" if turned == "True" else "C")
