"""Tables as they come: any dataframe that narwhals knows, or a plain array, to a matrix and back."""

from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from trigmech.errors import InputError

Matrix = NDArray[np.float64]


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
    frame = nw.from_native(table, eager_only=True, pass_through=True)
    if isinstance(frame, nw.DataFrame):
        absent = [name for name in names if name not in frame.columns]
        if absent:
            raise InputError(f"the table lacks the column(s) {', '.join(map(repr, absent))} that the schema names")
        for name in names:
            dtype = frame.schema[name]
            if not (dtype.is_numeric() or dtype == nw.Boolean):
                raise InputError(f"column {name!r} must be numeric; its type is {dtype}")
        matrix = np.column_stack([_column(frame, name) for name in names]) if len(frame) else np.empty((0, 0))
    else:
        matrix = _array(table, len(names))
    if matrix.shape[0] == 0:
        raise InputError("the table must have at least one row; it has none")
    return np.ascontiguousarray(matrix)


def _column(frame: nw.DataFrame, name: str) -> Matrix:
    return frame[name].cast(nw.Float64).to_numpy().astype(np.float64, copy=False)


def _array(table: Any, width: int) -> Matrix:
    try:
        array = np.asarray(table)
        if array.dtype.kind not in "biuf":
            raise TypeError
    except (TypeError, ValueError):
        # The original message could quote an entry, so it is not passed on.
        raise InputError("the table must be a dataframe or a numeric array of shape (n, d)") from None
    if array.ndim != 2 or array.shape[1] != width:
        raise InputError(f"the table must have shape (n, {width}), one column for each of the schema's; "
                         f"its shape is {array.shape}")
    return array.astype(np.float64, copy=False)


def like(template: Any, names: tuple[str, ...], matrix: Matrix) -> Any:
    """Return a matrix as a table of the template's type: a dataframe of the same library, or else an array."""
    frame = nw.from_native(template, eager_only=True, pass_through=True)
    if not isinstance(frame, nw.DataFrame):
        return matrix
    columns = {name: matrix[:, j] for j, name in enumerate(names)}
    return nw.from_dict(columns, backend=frame.implementation).to_native()
