"""Tables as they come: any dataframe that narwhals knows, or a plain array, to a matrix and back."""

from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from trigmech.errors import InputError

Matrix = NDArray[np.float64]


def numbers(name: str, values: Any, *shape: int | str) -> NDArray:
    """Return an array of real numbers, or raise an InputError that does not quote any of them.

    Parameters
    ----------
    name : str
        What the message calls it.
    values : array_like, private
    *shape : int or str
        The shape it must have; a letter stands for any length.

    Returns
    -------
    ndarray
        Of the type it came in; a memory map stays one.
    """
    wanted = f"({', '.join(map(str, shape))}{',' if len(shape) == 1 else ''})"
    try:
        array = np.asanyarray(values)
    except (TypeError, ValueError):
        # The original message could quote an entry, so it is not passed on.
        raise InputError(f"{name} must be a numeric array of shape {wanted}; its rows differ in length") from None
    if array.dtype.kind not in "biuf":
        raise InputError(f"{name} must be a numeric array of shape {wanted}; its type is {array.dtype.name}")
    if isinstance(array, np.ma.MaskedArray):
        raise InputError(f"{name} is a masked array; fill it or leave the masked rows out first")
    if array.ndim != len(shape) or any(isinstance(length, int) and length != given
                                       for length, given in zip(shape, array.shape, strict=True)):
        raise InputError(f"{name} must be a numeric array of shape {wanted}; its shape is {array.shape}")
    return array


def to_matrix(table: Any, names: tuple[str, ...]) -> Matrix:
    """Return the named columns of a table as a matrix.

    Parameters
    ----------
    table : dataframe or array_like, private
        A pandas, polars, pyarrow or other dataframe, whose columns are picked by name and may stand in any
        order, or an array of shape (n, d) whose columns are in the order of ``names``.
    names : tuple of str
        The d public column names.

    Returns
    -------
    ndarray (n, d) of float64, C-contiguous
        A view of the input where that is possible.

    Raises
    ------
    InputError
        If a column is absent or not numeric, or the array has another width, has no rows, or is not
        two-dimensional.
    """
    frame = _frame(table)
    if isinstance(frame, nw.DataFrame):
        absent = [name for name in names if name not in frame.columns]
        if absent:
            raise InputError(f"the table lacks the column(s) {', '.join(map(repr, absent))} that the schema names")
        for name in names:
            dtype = frame.schema[name]
            if not (dtype.is_numeric() or dtype == nw.Boolean):
                # The name alone: a categorical type's description lists its categories.
                raise InputError(f"column {name!r} must be numeric; its type is {type(dtype).__name__}")
        matrix = np.column_stack([_column(frame, name) for name in names]) if len(frame) else np.empty((0, 0))
    else:
        matrix = numbers("the table", table, "n", len(names)).astype(np.float64, copy=False)
    if matrix.shape[0] == 0:
        raise InputError("the table must have at least one row; it has none")
    return np.ascontiguousarray(matrix)


def _column(frame: nw.DataFrame, name: str) -> Matrix:
    return frame[name].cast(nw.Float64).to_numpy().astype(np.float64, copy=False)


def _frame(table: Any) -> Any:
    """Return the table as a narwhals dataframe, or as it is if it is none."""
    try:
        frame = nw.from_native(table, eager_only=True, pass_through=True)
        if isinstance(frame, nw.DataFrame):
            len(frame.schema)
        return frame
    except nw.exceptions.DuplicateError:
        raise InputError("the table's column names must be distinct") from None


def library_of(table: Any) -> str | None:
    """Return the name of the library that a dataframe belongs to, or None for an array: nothing of the table."""
    frame = _frame(table)
    return str(frame.implementation.value) if isinstance(frame, nw.DataFrame) else None


def like(library: Any, names: tuple[str, ...], matrix: Matrix) -> Any:
    """Return a matrix as a dataframe of the library with the given name, or as it is for None."""
    if library is None:
        return matrix
    return nw.from_dict({name: matrix[:, j] for j, name in enumerate(names)}, backend=library).to_native()
