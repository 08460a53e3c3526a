"""PRIVATE. The encoded rows of a file, kept between the passes of a run, so that the file is parsed once.

The first rows stay in memory, up to :data:`MEMORY` bytes. Further rows go to a temporary file in the folder for
temporary files (``TMPDIR``). Only its owner can read it, and it has no name: the system removes it when it is closed,
however the process ends. If it cannot be written, or would leave less free space than :data:`FREE_BYTES`, no rows are
kept, and each pass parses the table again. So a full disk costs time, but not a release. The same happens if the
environment variable ``TRIGMECH_KEEP_ON_DISK`` is set to anything but 1: then no row is ever written there.
"""

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import islice
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from trigmech.measurement.compact import Compact
from trigmech.measurement.sums import Chunk

# Bytes of encoded rows in memory, and free bytes that a temporary file must leave on its disk: a run that is charged
# must be able to write its release.
MEMORY, FREE_BYTES = 2**28, 2**30

DISK_VARIABLE = "TRIGMECH_KEEP_ON_DISK"

# An array in the temporary file: where it begins, its type, and its length.
Place = tuple[int, np.dtype[Any], int]


class Kept:
    """The chunks of a table, which are made once if there is room for them.

    Each call of ``encoded`` makes all chunks again, the same ones in the same order, with compact rows; private.
    """

    def __init__(self, encoded: Callable[[], Iterator[Chunk]]) -> None:
        self.encoded = encoded
        self._store: _Store | None = None
        self._given_up = False

    def __repr__(self) -> str:
        return "Kept(values hidden)"

    def chunks(self) -> Iterator[Chunk]:
        """Yield all chunks, as kept if an earlier call came to its end."""
        if self._store is not None:
            yield from self._again(self._store)
            return
        store = None if self._given_up else _Store()
        try:
            for chunk in self.encoded():
                if store is not None and not store.add(chunk):
                    store, self._given_up = None, True
                yield chunk
            if self._store is None:
                self._store, store = store, None
        finally:
            if store is not None:
                store.close()

    def close(self) -> None:
        """Forget the rows, and remove the temporary file."""
        if self._store is not None:
            self._store.close()
        self._store, self._given_up = None, True

    def _again(self, store: "_Store") -> Iterator[Chunk]:
        for i in range(len(store)):
            chunk = store.chunk(i)
            if chunk is None:
                # The disk failed. The table is parsed again from here on.
                self.close()
                yield from islice(self.encoded(), i, None)
                return
            yield chunk


class _Store:
    """Chunks in memory, and further ones in a temporary file."""

    def __init__(self) -> None:
        self._held: list[Chunk | tuple[Chunk, list[Place]]] = []
        self._file: IO[bytes] | None = None
        self._size = self._end = 0

    def __len__(self) -> int:
        return len(self._held)

    def add(self, chunk: Chunk) -> bool:
        """Keep a chunk. Return False, and forget all chunks, if there is no room."""
        arrays = _arrays(chunk)
        size = sum(array.nbytes for array in arrays)
        if self._file is None and self._size + size <= MEMORY:
            self._size += size
            self._held.append(chunk)
            return True
        if os.environ.get(DISK_VARIABLE, "1") != "1":
            self.close()
            return False
        try:
            if self._file is None:
                self._file = tempfile.TemporaryFile(prefix="trigmech-rows-")  # noqa: SIM115 - open for later passes
            if _free(self._file) - size < FREE_BYTES:
                raise OSError
            places = []
            for array in arrays:
                places.append((self._end, array.dtype, len(array)))
                self._file.write(np.ascontiguousarray(array).data.cast("B") if len(array) else b"")
                self._end += array.nbytes
            self._file.flush()
        except OSError:
            self.close()
            return False
        layout = chunk.rows.layout
        empty = Chunk(Compact(layout, ()), chunk.domain, None, None if chunk.starts is None else chunk.starts[:0])
        self._held.append((empty, places))
        return True

    def chunk(self, i: int) -> Chunk | None:
        """Return a chunk that was kept, or None if the disk fails."""
        held = self._held[i]
        if isinstance(held, Chunk):
            return held
        empty, places = held
        arrays = [self._read(*place) for place in places]
        found = [array for array in arrays if array is not None]
        if len(found) < len(arrays):
            return None
        starts = None if empty.starts is None else found.pop()
        return Chunk(Compact(empty.rows.layout, found), empty.domain, None, starts)

    def close(self) -> None:
        self._held = []
        if self._file is not None:
            # Closing writes the rest of the buffer, which fails again on a full disk; the file is thrown away anyhow.
            with suppress(OSError):
                self._file.close()
            self._file = None

    def _read(self, start: int, kind: np.dtype[Any], count: int) -> NDArray[Any] | None:
        array = np.empty(count, dtype=kind)
        try:
            if self._file is None:
                return None
            self._file.seek(start)
            read = self._file.readinto(array.data.cast("B")) if count else 0  # type: ignore[attr-defined]
        except OSError:
            return None
        return array if read == array.nbytes else None


def _arrays(chunk: Chunk) -> list[NDArray[Any]]:
    return [*chunk.rows.arrays, *([] if chunk.starts is None else [chunk.starts])]


def _free(file: IO[bytes]) -> int:
    """Return the free bytes of a file's disk."""
    found = os.fstatvfs(file.fileno())
    return found.f_bavail * found.f_frsize
