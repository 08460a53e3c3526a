"""A file of one manifest and named arrays, whose reading executes nothing: the format "trigmech release", version 1.

The file is a ZIP archive (PKWARE's APPNOTE; any ZIP program lists and unpacks it) of which every byte is prescribed:

- From the first byte on, one member after the other, each a local header and its compressed content; then the central
  directory, one entry for each member in the same order; then the end record of 22 bytes. Nothing stands before,
  between or after: no comments, extra fields, data descriptors, encryption or ZIP64.
- In all headers: version needed 20, flags 0, method 8 (deflate), time 0 and date 33 (1 January 1980); in the directory
  also: made by 20 on Unix (0x0314), external attributes 0o100644 << 16 (an ordinary file), all other fields 0. CRC-32,
  compressed size, size, length of the name and offset are the true ones.
- The first member, in this version and all later ones, is ``manifest.json``: a JSON object in UTF-8 with the keys
  "format" (the text "trigmech release"), "version" (1) and "content" (an object), of at most 2^24 bytes. It is nested
  at most 32 deep; no object has a key twice; all numbers are finite.
- The others, at most 63 in ascending order of NAME, are ``NAME.npy``; NAME is at most 64 lower-case letters, digits,
  underscores and single dots between these. Each is an array in NumPy's file format 1.0: the bytes 93 4E 55 4D 50 59
  01 00; the length of the header in 2 bytes, low one first; the header, which is
  ``{'descr': '<f8', 'fortran_order': False, 'shape': (3, 4), }`` with spaces up to one line feed that ends it at
  a multiple of 64 bytes from the start; and the entries. The type is one of '<f8', '<i8' and '|u1'; there are at most 4
  dimensions, in C order or, where ``fortran_order`` says True, in Fortran's.
- All members together hold at most 2^30 bytes, unpacked.

The same manifest (keys in the same order) and arrays give the same bytes under the same version of zlib.
"""

import json
import math
import os
import re
import stat
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from trigmech._files import replacing
from trigmech.errors import InputError

FORMAT = "trigmech release"
VERSION = 1

MAX_ARRAYS = 63
MAX_NAME = 64
MAX_MANIFEST = 2**24
MAX_DEPTH = 32
MAX_BYTES = 2**30
MAX_DIMENSIONS = 4

MANIFEST = "manifest.json"
TYPES = ("<f8", "<i8", "|u1")
LEVEL = 6

_NAME = re.compile(r"[a-z0-9_]+(\.[a-z0-9_]+)*")
_ARRAY_HEADER = re.compile(
    rb"\{'descr': '([<|][a-z]\d)', 'fortran_order': (True|False), 'shape': \(([\d, ]{0,99})\), \} *\n")
_MAGIC = b"\x93NUMPY\x01\x00"

_LOCAL = struct.Struct("<4s5H3L2H")
_CENTRAL = struct.Struct("<4s6H3L5H2L")
_END = struct.Struct("<4s4H2LH")
_FIXED = (20, 0, 8, 0, 33)


@dataclass(frozen=True)
class _Member:
    """What a header says of a member; the two headers hold this and constants, nothing else."""

    name: str
    crc: int
    packed: int
    size: int
    offset: int

    @property
    def local(self) -> bytes:
        name = self.name.encode("ascii")
        return _LOCAL.pack(b"PK\3\4", *_FIXED, self.crc, self.packed, self.size, len(name), 0) + name

    @property
    def central(self) -> bytes:
        name = self.name.encode("ascii")
        return _CENTRAL.pack(b"PK\1\2", 0x0314, *_FIXED, self.crc, self.packed, self.size, len(name), 0, 0, 0, 0,
                             0o100644 << 16, self.offset) + name


def _is_name(name: str) -> bool:
    return len(name) <= MAX_NAME and _NAME.fullmatch(name) is not None


def _end(count: int, length: int, offset: int) -> bytes:
    return _END.pack(b"PK\5\6", 0, 0, count, count, length, offset, 0)


def write(path: str | os.PathLike[str], manifest: dict[str, Any], arrays: dict[str, NDArray]) -> None:
    """Write a file, whole or not at all; see :func:`trigmech._files.replacing`.

    Parameters
    ----------
    path : path, public
    manifest : dict, public
        Of JSON's types alone: dict with str keys, list, str, int, finite float, bool, None.
    arrays : dict of str to ndarray, public
        Of the types float64, int64 and uint8. One that is contiguous in Fortran's order alone stays so, because sums by
        BLAS depend on it in their last bits; any other comes back in C order.

    Raises
    ------
    InputError
        If the folder cannot be written to, or :func:`read` would refuse the file: a rule of the format is broken.
    """
    if not isinstance(manifest, dict):
        raise InputError(f"the manifest must be a dict, not {type(manifest).__name__}")
    content = {"format": FORMAT, "version": VERSION, "content": manifest}
    _check_plain(content)
    text = json.dumps(content, allow_nan=False).encode("ascii")
    if len(text) > MAX_MANIFEST:
        raise InputError(f"the manifest must be at most {MAX_MANIFEST} bytes of JSON; it would be {len(text)}")
    if len(arrays) > MAX_ARRAYS:
        raise InputError(f"there can be at most {MAX_ARRAYS} arrays in a file, not {len(arrays)}")
    headers = {}
    for name, array in sorted(arrays.items()):
        if not _is_name(name):
            raise InputError(f"an array's name must be at most {MAX_NAME} lower-case letters, digits, underscores and "
                             f"single dots, not {name!r}")
        if not isinstance(array, np.ndarray) or array.dtype.str not in TYPES or array.ndim > MAX_DIMENSIONS:
            raise InputError(f"array {name!r} must be an ndarray of float64, int64 or uint8 and at most "
                             f"{MAX_DIMENSIONS} dimensions")
        headers[name] = _array_header(array.dtype.str, _in_fortran_order(array), array.shape)
    total = len(text) + sum(len(headers[name]) + arrays[name].nbytes for name in headers)
    if total > MAX_BYTES:
        raise InputError(f"a file can hold at most {MAX_BYTES} bytes, unpacked; these arrays are {total}")
    with replacing(Path(path)) as beside, beside.open("wb") as file:
        directory = _append(file, MANIFEST, [text])
        for name, header in headers.items():
            directory += _append(file, f"{name}.npy", [header, _entries(arrays[name])])
        file.write(directory + _end(1 + len(headers), len(directory), file.tell()))


def read(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, NDArray]]:
    """Return the manifest and the arrays of a file, or refuse it.

    Parameters
    ----------
    path : path
        Of a file by :func:`write`, which nobody needs to trust.

    Returns
    -------
    manifest : dict
    arrays : dict of str to ndarray
        Equal in type, shape, order and every bit to those written.

    Raises
    ------
    InputError
        Whatever is wrong with the file; the message names the file and the rule, and quotes nothing of what it holds.

    Notes
    -----
    Nothing of the file is executed, evaluated or unpickled. No memory is set aside because of a size that the file
    declares: what it really holds is unpacked, up to that size, and more than 2^30 bytes in all are refused first.
    Cost: memory for at most twice that, and for the compressed bytes of one array.
    """
    path = Path(path)
    try:
        with _open(path) as file:
            members = _directory(file, os.fstat(file.fileno()).st_size)
            manifest = _manifest(file, members[0])
            arrays = {member.name.removesuffix(".npy"): _array(file, member) for member in members[1:]}
    except InputError as broken:
        raise InputError(f"cannot read {str(path)!r}: {broken}") from None
    except OSError as problem:
        raise InputError(f"cannot read {str(path)!r}: {problem.strerror}") from None
    return manifest, arrays


# Writing


def _append(file: BinaryIO, name: str, parts: list[Any]) -> bytes:
    """Write a member and return its entry for the directory."""
    squeeze = zlib.compressobj(LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
    packed = b"".join([*(squeeze.compress(part) for part in parts), squeeze.flush()])
    crc = 0
    for part in parts:
        crc = zlib.crc32(part, crc)
    member = _Member(name, crc, len(packed), sum(len(part) for part in parts), file.tell())
    file.write(member.local)
    file.write(packed)
    return member.central


def _in_fortran_order(array: NDArray) -> bool:
    return array.flags.f_contiguous and not array.flags.c_contiguous


def _array_header(kind: str, fortran: bool, shape: tuple[int, ...]) -> bytes:
    text = f"{{'descr': '{kind}', 'fortran_order': {fortran}, 'shape': {shape}, }}".encode("ascii")
    length = -(-(len(_MAGIC) + 2 + len(text) + 1) // 64) * 64 - len(_MAGIC) - 2
    return _MAGIC + struct.pack("<H", length) + text.ljust(length - 1) + b"\n"


def _entries(array: NDArray) -> Any:
    """Return an array's bytes, in its order, as a flat array; a copy only if it is not contiguous."""
    return np.ascontiguousarray(array.T if _in_fortran_order(array) else array).reshape(-1).view(np.uint8)


# Reading


def _open(path: Path) -> BinaryIO:
    try:
        # A pipe would block until somebody wrote to it.
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    except ValueError:
        raise InputError("it is no name of a file") from None
    mode = os.fstat(handle).st_mode
    if not stat.S_ISREG(mode):
        os.close(handle)
        raise InputError("it is a folder" if stat.S_ISDIR(mode) else "it is not an ordinary file")
    return os.fdopen(handle, "rb")


def _directory(file: BinaryIO, size: int) -> list[_Member]:
    """Return what the directory says, once it is sure that the headers are exactly those that the format prescribes."""
    if size < _END.size or file.read(4) != b"PK\3\4":
        raise InputError(f'it is not a "{FORMAT}", which is a ZIP archive')
    file.seek(size - _END.size)
    end = file.read(_END.size)
    if not end.startswith(b"PK\5\6"):
        raise InputError("it does not end with the archive's end record; it was cut short, or something was added")
    *_, count, length, start, _ = _END.unpack(end)
    # Before the directory is read, for its length is what the file says.
    if (end != _end(count, length, start) or start + length + _END.size != size or not 1 <= count <= 1 + MAX_ARRAYS
            or length > count * (_CENTRAL.size + MAX_NAME + len(".npy"))):
        raise InputError(f"the archive's end record, of 1 to {1 + MAX_ARRAYS} members, is not as the format prescribes")
    file.seek(start)
    directory = file.read(length)
    members: list[_Member] = []
    at = offset = 0
    for number in range(1, count + 1):
        if at + _CENTRAL.size > length or offset > start:
            raise InputError(f"the archive ends before member {number}")
        crc, packed, unpacked, letters = _CENTRAL.unpack_from(directory, at)[7:11]
        after = at + _CENTRAL.size + letters
        name = directory[at + _CENTRAL.size : after].decode("ascii", "replace")
        stem = name.removesuffix(".npy")
        if not (name == MANIFEST if number == 1 else name != stem and _is_name(stem)):
            raise InputError(f"member {number} of the archive must be {MANIFEST} if it is the first and else an array")
        if number > 2 and not members[-1].name.removesuffix(".npy") < stem:
            raise InputError("the archive's arrays must be in ascending order of their names")
        member = _Member(name, crc, packed, unpacked, offset)
        file.seek(offset)
        if directory[at:after] != member.central or file.read(len(member.local)) != member.local:
            raise InputError(f"the headers of {name} are not as the format prescribes")
        members.append(member)
        at, offset = after, offset + len(member.local) + packed
    if at != length or offset != start:
        raise InputError("the archive holds bytes that belong to no member")
    if sum(member.size for member in members) > MAX_BYTES or members[0].size > MAX_MANIFEST:
        raise InputError(f"the archive must hold at most {MAX_BYTES} bytes, unpacked, and {MANIFEST} {MAX_MANIFEST}")
    return members


def _unpacked(file: BinaryIO, member: _Member) -> bytes:
    file.seek(member.offset + len(member.local))
    unpack = zlib.decompressobj(-zlib.MAX_WBITS)
    try:
        # Never 0, which would be no limit.
        content = unpack.decompress(file.read(member.packed), member.size + 1)
    except zlib.error:
        raise InputError(f"the compressed content of {member.name} is damaged") from None
    if len(content) != member.size or not unpack.eof or unpack.unused_data:
        raise InputError(f"{member.name} does not end where it declares; it is damaged")
    if zlib.crc32(content) != member.crc:
        raise InputError(f"{member.name} is damaged: its checksum is wrong")
    return content


def _manifest(file: BinaryIO, member: _Member) -> dict[str, Any]:
    try:
        manifest = json.loads(_unpacked(file, member).decode("utf-8"), object_pairs_hook=_distinct)
    except InputError:
        raise
    except RecursionError:
        raise InputError(f"{MANIFEST} is nested deeper than {MAX_DEPTH}") from None
    except ValueError:
        raise InputError(f"{MANIFEST} is not JSON in UTF-8") from None
    _check_plain(manifest)
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise InputError(f'{MANIFEST} does not say that this is a "{FORMAT}"')
    version = manifest.get("version")
    if type(version) is not int or abs(version) > 10**6:
        raise InputError(f"{MANIFEST} does not say which version of the format this is")
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


def _check_plain(value: Any) -> None:
    """Refuse what JSON cannot say, or says in more than one way, and deep nesting."""
    open_ones = [iter([value])]
    while open_ones:
        for each in open_ones[-1]:
            if isinstance(each, dict | list):
                if len(open_ones) > MAX_DEPTH:
                    raise InputError(f"{MANIFEST} is nested deeper than {MAX_DEPTH}")
                if isinstance(each, dict) and not all(isinstance(key, str) for key in each):
                    raise InputError(f"all keys in {MANIFEST} must be texts")
                open_ones.append(iter(each.values() if isinstance(each, dict) else each))
                break
            if isinstance(each, float) and not math.isfinite(each):
                raise InputError(f"all numbers in {MANIFEST} must be finite")
            if not (each is None or isinstance(each, str | int | float)):
                raise InputError(f"{MANIFEST} cannot hold a {type(each).__name__}")
        else:
            open_ones.pop()


def _array(file: BinaryIO, member: _Member) -> NDArray:
    content = _unpacked(file, member)
    start = len(_MAGIC) + 2
    # At most 4 dimensions need far less than 512 bytes.
    length = min(512, int.from_bytes(content[len(_MAGIC) : start], "little"))
    parts = _ARRAY_HEADER.fullmatch(content[start : start + length])
    kind, order, lengths = (part.decode("ascii") for part in parts.groups()) if parts else ("", "", "")
    shape = tuple(int(each) for each in re.findall("[0-9]+", lengths))
    header = content[: start + length]
    if kind not in TYPES or len(shape) > MAX_DIMENSIONS or header != _array_header(kind, order == "True", shape):
        raise InputError(f"{member.name} must be an array in NumPy's format 1.0, of type {', '.join(TYPES)}, at most "
                         f"{MAX_DIMENSIONS} dimensions and with the header that the format prescribes")
    # Empty dimensions as 1: NumPy, too, refuses shapes that would be too large without them.
    if (len(header) + math.prod(shape) * int(kind[2]) != len(content)
            or math.prod(max(1, each) for each in shape) > MAX_BYTES):
        raise InputError(f"the shape of {member.name} does not agree with its size")
    entries = np.frombuffer(content, dtype=kind, offset=len(header))
    # A copy, which can be written to like the array that was saved.
    return entries.reshape(shape, order="F" if order == "True" else "C").copy(order="K")
