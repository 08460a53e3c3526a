"""Arrays, which may be masked, as columns of dataframes; and the facts about columns that a reader of files needs."""

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

# So many texts are written by Python: pyarrow would import pandas first, which takes longer.
SHORT = 2**16


class ColumnOfFile(Protocol):
    """The cells of one column, by a schema."""

    @property
    def name(self) -> str:
        """The column's name."""

    @property
    def is_text(self) -> bool:
        """Whether its values are text."""

    @property
    def unit(self) -> str | None:
        """The unit of its times; None if it holds no times."""

    @property
    def categories(self) -> Sequence[Any] | None:
        """Its categories, if it has any."""


class ColumnsOfFile(Protocol):
    """The columns of a file that are read, by a schema."""

    @property
    def names(self) -> tuple[str, ...]:
        """Their names."""

    @property
    def columns(self) -> Sequence[ColumnOfFile]:
        """The kind of their cells."""

    @property
    def width(self) -> int:
        """How many numbers an encoded row has."""


class Categories(NamedTuple):
    """The values that a column of categories can hold, in their order, and whether that order means something."""

    values: NDArray
    ordered: bool


def to_arrow(column: NDArray, categories: Categories | None = None) -> Any:
    """Return an array, which may be masked, as a pyarrow array: a dictionary with categories; objects are strings."""
    import pyarrow

    mask = np.ma.getmaskarray(column) if isinstance(column, np.ma.MaskedArray) else None
    if categories is None and column.dtype.kind in "iuf":
        column = column.astype(column.dtype.newbyteorder("="), copy=False)
        # For an array, pyarrow would ask pandas whether it is one of its own, and to import pandas takes long.
        present = None if mask is None else pyarrow.py_buffer(np.packbits(~mask, bitorder="little"))
        return pyarrow.Array.from_buffers(pyarrow.from_numpy_dtype(column.dtype), len(column), [
            present, pyarrow.py_buffer(np.ascontiguousarray(np.ma.getdata(column)))])
    if categories is None and column.dtype.kind == "O" and len(column) <= SHORT:
        held = np.ma.getdata(column).tolist() if mask is None else [
            None if missing else text for text, missing in zip(np.ma.getdata(column).tolist(), mask, strict=True)]
        if all(text is None or isinstance(text, str) for text in held):
            return texts_to_arrow(held)
    kind = {"type": pyarrow.string()} if column.dtype.kind == "O" else {}
    array = pyarrow.array(np.ascontiguousarray(np.ma.getdata(column)), mask=mask, **kind)
    if categories is None:
        return array
    # Most tables are numbers, and the import takes a fifth of the time of a question.
    import pyarrow.compute

    values = to_arrow(categories.values)
    return pyarrow.DictionaryArray.from_arrays(pyarrow.compute.index_in(array, value_set=values), values,
                                               ordered=categories.ordered)


def texts_to_arrow(texts: Sequence[str | None]) -> Any:
    """Return texts as a pyarrow array, without asking pandas."""
    import pyarrow

    encoded = [b"" if text is None else text.encode() for text in texts]
    ends = np.cumsum([0, *map(len, encoded)], dtype=np.int64).astype(np.int32)
    present = np.packbits(np.array([text is not None for text in texts], dtype=bool), bitorder="little")
    return pyarrow.Array.from_buffers(pyarrow.string(), len(texts), [
        pyarrow.py_buffer(present), pyarrow.py_buffer(ends), pyarrow.py_buffer(b"".join(encoded))])


def of_arrow(values: Any, absent: float) -> NDArray[Any]:
    """Return a pyarrow array of 64-bit numbers, in one or several pieces, without asking pandas; ``absent`` if null."""
    import pyarrow

    kind = np.float64 if pyarrow.types.is_floating(values.type) else np.int64
    made, begin = np.full(len(values), absent, dtype=kind), 0
    for piece in values.chunks if isinstance(values, pyarrow.ChunkedArray) else (values,):
        present, data = piece.buffers()
        held: Any = slice(None)
        stop, own = piece.offset + len(piece), made[begin : begin + len(piece)]
        if piece.null_count:
            bits = np.unpackbits(np.frombuffer(present, dtype=np.uint8), count=stop, bitorder="little")
            held = bits[piece.offset :].astype(bool)
        if len(piece):
            own[held] = np.frombuffer(data, dtype=kind, count=stop)[piece.offset :][held]
        begin += len(piece)
    return made


def to_pandas(column: NDArray, categories: Categories | None = None) -> Any:
    """Return an array, which may be masked, in the form that pandas needs for a column with categories."""
    import pandas

    if categories is not None:
        return pandas.Categorical(filled(column), categories=to_pandas(categories.values), ordered=categories.ordered)
    if isinstance(column, np.ma.MaskedArray) and column.dtype.kind in "ib":
        kind = pandas.arrays.IntegerArray if column.dtype.kind == "i" else pandas.arrays.BooleanArray
        return kind(np.array(column.data), np.array(np.ma.getmaskarray(column)))
    values = filled(column)
    if values.dtype.kind == "O":
        # The type that this version of pandas has for text, even if all of it is missing.
        return pandas.Series(values, dtype=pandas.Series(["text"]).dtype)
    # pandas has no days; of its units seconds are nearest.
    return values.astype("datetime64[s]") if values.dtype.kind == "M" else values


def stacked(pieces: Sequence[NDArray]) -> NDArray:
    """Return the pieces of a column, all of which may be masked, as one."""
    return (np.ma.concatenate if isinstance(pieces[0], np.ma.MaskedArray) else np.concatenate)(pieces)


def filled(column: NDArray) -> NDArray:
    """Return a column with NaN, NaT or None where it is masked; integers and booleans become objects then."""
    if not isinstance(column, np.ma.MaskedArray):
        return column
    if column.dtype.kind == "f":
        return column.filled(np.nan)
    if column.dtype.kind == "M":
        return column.filled(np.datetime64("NaT"))
    values = np.array(column.data, dtype=object)
    values[np.ma.getmaskarray(column)] = None
    return values
