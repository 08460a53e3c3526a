"""Tables of any kind, dataframes that narwhals supports or plain arrays, to plain columns and back.

The meaning of a cell follows only from the cell and the type of its column, which is public. Libraries look at other
cells where a column's type is "object", so its cells are read here one by one; nothing is inferred from them.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from trigmech._arrays import Array, Integers
from trigmech._optional import Later, need
from trigmech._validate import lacks, numbers
from trigmech.errors import InputError, TrigmechError
from trigmech.tables.column_types import Categories, filled, of_arrow, to_arrow, to_pandas
from trigmech.tables.scalars import (
    distinct_arrow,
    distinct_objects,
    is_missing,
    numbers_of_objects,
    seconds_of,
    seconds_of_array,
)

if TYPE_CHECKING:
    import narwhals as nw
else:
    nw = Later("narwhals")

ACCEPTED = ("a dataframe, also a lazy one, of pandas, polars, pyarrow or another library that narwhals knows; a record "
            "batch, stream, dataset or scanner of Arrow; or an array of shape (n, d)")


def to_matrix(table: Any, names: tuple[str, ...]) -> Array:
    """Return the named columns of a private table of numbers as a C-contiguous matrix (n, d), NaN where missing.

    The columns of a dataframe are picked by name, those of an array (n, d) are in the order of ``names``. An InputError
    is raised if a column is absent or not numeric, or the array has another width, no rows, or not two dimensions.
    """
    table = collected(table)
    if isinstance(_frame(table), nw.DataFrame):
        columns = Columns(table, names)
        matrix = np.empty((columns.n, len(names)))
        for j in range(len(names)):
            matrix[:, j] = columns.numbers(j)
    else:
        matrix = numbers("the table", table, "n", len(names)).astype(np.float64, copy=False)
        _check_rows(len(matrix))
    return np.ascontiguousarray(matrix)


class Columns:
    """PRIVATE. The columns of a table, read one at a time and by their type, from any library.

    ``table`` is as in :func:`to_matrix`, or an array of objects, strings or times; ``names`` are public. An InputError
    is raised if a column is absent, a name occurs twice, there are no rows, or the array has another shape.
    """

    def __init__(self, table: Any, names: tuple[str, ...]) -> None:
        self._names = names
        table = collected(table)
        frame = _frame(table)
        self._frame: nw.DataFrame | None = frame if isinstance(frame, nw.DataFrame) else None
        if self._frame is not None:
            # Once: each look at it makes it anew, for all columns.
            schema = dict(self._frame.schema)
            if rule := lacks(names, schema):
                raise InputError(f"the table {rule}")
            # For objects, narwhals guesses a type from the first cells.
            self._schema = {name: nw.Object() if _native_type(self._frame[name]) == "object" else schema[name]
                            for name in names}
            self.n = len(self._frame)
        else:
            self._array = _plain_array(table, len(names))
            self.n = len(self._array)
        _check_rows(self.n)

    def __repr__(self) -> str:
        return f"Columns(n={self.n}, d={len(self._names)}, values hidden)"

    def _reading(self, j: int) -> AbstractContextManager[None]:
        # The name alone: a categorical type's description lists its categories.
        kind = "object" if self._frame is None else type(self._schema[self._names[j]]).__name__
        return _no_quotes(f"column {self._names[j]!r} cannot be read; its type is {kind}")

    def numbers(self, j: int) -> Array:
        """Return column j as floats (n,), NaN where missing, or raise an InputError if it is not numeric."""
        name = self._names[j]
        found = None
        with self._reading(j):
            if self._frame is None:
                values = self._array[:, j]
                kind = values.dtype.name
                if values.dtype.kind in "biuf":
                    found = values.astype(np.float64)
                elif values.dtype.kind == "O":
                    found = numbers_of_objects(values)
            else:
                series, dtype = self._frame[name], self._schema[name]
                kind = type(dtype).__name__
                if dtype == nw.Object:
                    found = numbers_of_objects(series.to_numpy())
                elif _native_type(series).startswith("null"):
                    found = np.full(self.n, np.nan)
                elif dtype.is_numeric() or dtype == nw.Boolean or _swapped(series):
                    found = _to_floats(series)
        if found is None:
            raise InputError(f"column {name!r} must be numeric; its type is {kind}: convert it to numbers, or "
                             "give the column another kind in the schema")
        return found

    def distinct(self, j: int) -> tuple[list[Any], Integers]:
        """Return different values of column j, and for each row which of them it has, or -1 where missing.

        A value among the different ones may be missing as well (:func:`trigmech.tables.scalars.is_missing`), or occur
        twice.
        """
        with self._reading(j):
            if self._frame is None:
                return distinct_objects(self._array[:, j])
            series, dtype = self._frame[self._names[j]], self._schema[self._names[j]]
            if _native_type(series) == "category":
                held = series.to_native().cat
                return held.categories.tolist(), held.codes.to_numpy().astype(np.int64)
            # Types of pandas that narwhals does not support are types that Arrow may not support either.
            if dtype == nw.Object or (dtype == nw.Unknown and series.implementation.is_pandas_like()):
                return distinct_objects(series.to_numpy())
            need("tables", "a dataframe's column of text or categories")
            return distinct_arrow(series.to_arrow())

    def of_each(self, j: int, read: Callable[[Any], Any], missing: Any) -> NDArray:
        """Return a function's results for the values in column j (n,), and ``missing`` for rows without a value."""
        values, codes = self.distinct(j)
        with self._reading(j):
            found = [missing if is_missing(value) else read(value) for value in values]
        return np.array([*found, missing])[codes]

    def tally(self, j: int, read: Callable[[Any], Any], rows: Integers | None = None) -> Counter[Any]:
        """Return how many rows, of all or of some, have each result of a function of column j's values.

        Missing values and results None are not counted, nor are values of a type that no row has.
        """
        values, codes = self.distinct(j)
        codes = codes if rows is None else codes[rows]
        times = np.bincount(codes[codes >= 0], minlength=len(values)).tolist()
        found: Counter[Any] = Counter()
        with self._reading(j):
            for value, count in zip(values, times, strict=True):
                key = None if count == 0 or is_missing(value) else read(value)
                if key is not None:
                    found[key] += count
        return found

    def times(self, j: int) -> Array:
        """Return the times of column j as whole seconds (n,) since 1970 in UTC, NaN where missing.

        Times without a zone are taken as they are; text must be in ISO form. An InputError is raised for other types.
        """
        name = self._names[j]
        if self._frame is None and self._array.dtype.kind == "M":
            return seconds_of_array(self._array[:, j])
        if self._frame is not None:
            with self._reading(j):
                series, dtype = self._frame[name], self._schema[name]
                if _native_type(series).startswith("date64"):
                    series, dtype = series.cast(nw.Date), nw.Date()
                if _native_type(series) == "timestamp[s]":
                    # As a file of CSV has them. The other way pyarrow would import pandas.
                    return _to_floats(series.cast(nw.Int64))
                if dtype in (nw.Datetime, nw.Date):
                    milliseconds = series.dt.timestamp("ms").cast(nw.Float64).to_numpy()
                    return np.floor(milliseconds.astype(np.float64, copy=False) / 1000.0)

        def seconds(value: Any) -> float:
            found = seconds_of(value)
            if found is None:
                raise InputError(f"column {name!r} must hold dates or times, or only text in ISO form such as "
                                 "2020-12-31")
            return found

        return self.of_each(j, seconds, math.nan)


def library_of(table: Any) -> str | None:
    """Return the name of the library that a dataframe belongs to, or None for an array: nothing of the table."""
    frame = _frame(table)
    return str(frame.implementation.value) if isinstance(frame, nw.DataFrame) else None


def column_names(table: Any) -> tuple[str, ...] | None:
    """Return the names of a dataframe's columns, or None for an array."""
    frame = _frame(table)
    return tuple(frame.columns) if isinstance(frame, nw.DataFrame) else None


def without_names(table: Any) -> NDArray:
    """Return a dataframe of pandas, or a similar one, as an array (n, d); of objects unless all columns are numbers."""
    plain = all(isinstance(dtype, np.dtype) and dtype.kind in "biuf" for dtype in table.dtypes)
    # With other types pandas chooses a type by the cells, and loses missing values of categories.
    return np.asarray(table if plain else table.astype(object))


def categorical_names(table: Any, names: Iterable[str]) -> tuple[str, ...]:
    """Return those names whose columns have a type of categories: pandas's, polars's, or Arrow's dictionaries."""
    frame = _frame(table)
    types = dict(frame.schema) if isinstance(frame, nw.DataFrame) else {}
    return tuple(name for name in names if types.get(name) in (nw.Categorical, nw.Enum))


def like(library: Any, names: tuple[str, ...], columns: Array | Sequence[NDArray],
         categories: Mapping[str, Categories] | None = None) -> Any:
    """Return columns as a dataframe of the library with that name (:func:`library_of`), or as an array (n, d) for None.

    ``columns`` are a matrix (n, d) or d arrays (n,), whose masked entries become missing: integers and booleans of
    pandas get its nullable types. Columns in ``categories`` get the types of categories of pandas, polars and pyarrow.
    An array is of floats if all columns are numbers, NaN where missing, and otherwise of objects, None where missing.
    """
    if library is None:
        if isinstance(columns, np.ndarray):
            return columns
        if all(column.dtype.kind in "iuf" for column in columns):
            return np.column_stack([filled(column.astype(np.float64)) for column in columns])
        objects = np.empty((len(columns[0]), len(columns)), dtype=object)
        for j, column in enumerate(columns):
            # Times in seconds and in days become Python's times and dates.
            objects[:, j] = column.astype(object)
            objects[np.ma.getmaskarray(column), j] = None
        return objects
    named = dict(zip(names, columns.T if isinstance(columns, np.ndarray) else columns, strict=True))
    held = categories or {}
    if library == "pandas":
        import pandas

        return pandas.DataFrame({name: to_pandas(column, held.get(name)) for name, column in named.items()})
    if library in ("polars", "pyarrow"):
        need("tables", f"a dataframe of {library}")
        import pyarrow

        arrow = pyarrow.table({name: to_arrow(column, held.get(name)) for name, column in named.items()})
        return arrow if library == "pyarrow" else nw.from_arrow(arrow, backend=library).to_native()
    return nw.from_dict({name: filled(column) for name, column in named.items()}, backend=library).to_native()


def _check_rows(n: int) -> None:
    if n == 0:
        raise InputError("the table must have at least one row; it has no rows")


def collected(table: Any) -> Any:
    """Return a table that can be read repeatedly: a lazy frame or a stream of Arrow is read into memory.

    Lazy frames of polars become its dataframes, others mostly pyarrow's; a dataframe or an array stays as it is. An
    InputError is raised if the table is neither, or cannot be read.
    """
    frame = _frame(table)
    if isinstance(frame, np.ndarray) and frame.dtype.names:
        raise InputError("the table is a structured array; pandas.DataFrame(table) makes a dataframe of it")
    if isinstance(frame, nw.DataFrame | np.ndarray):
        return table
    # A single column is a stream of Arrow as well, but not a stream of tables.
    with _no_quotes(f"the table cannot be read from its {type(table).__name__}; it must be {ACCEPTED}"):
        if isinstance(frame, nw.LazyFrame):
            return frame.collect().to_native()
        if hasattr(table, "to_table"):  # datasets and scanners
            return table.to_table()
        if hasattr(table, "__arrow_c_stream__") or hasattr(table, "__arrow_c_array__"):
            need("tables", "a stream of Arrow")
            import pyarrow

            return pyarrow.table(table)
    if isinstance(table, Mapping | set | frozenset):
        raise InputError(f"the table must be {ACCEPTED}; it is a {type(table).__name__}")
    return table


def _frame(table: Any) -> Any:
    """Return the table as a dataframe of narwhals, maybe a lazy one, or as it is if it is none."""
    # narwhals asks an array in vain for the traits of every library.
    if isinstance(table, np.ndarray):
        return table
    try:
        frame = nw.from_native(table, pass_through=True)
        if isinstance(frame, nw.DataFrame):
            len(frame.schema)
        return frame
    except nw.exceptions.DuplicateError:
        raise InputError("the table's column names must be distinct") from None


def _native_type(series: "nw.Series") -> str:
    """Return the name of a column's type in its own library."""
    native = series.to_native()
    # Not the other way round: a row of pandas may have the label "type".
    return str(native.dtype if hasattr(native, "dtype") else native.type).lower()


def _plain_array(table: Any, d: int) -> NDArray:
    """Return an array_like as an array (n, d) whose entries keep their types."""
    if isinstance(table, Sequence) and not isinstance(table, str | bytes | memoryview):
        rule = (f"the table must be an array of shape (n, {d}); a list must hold rows of {d} entries, each a list, a "
                "tuple, or another sequence or array of one dimension")
        with _no_quotes(rule):
            found = [_cells_of_row(row) for row in table]
        rows = [row for row in found if row is not None and len(row) == d]
        if len(rows) < len(found):
            raise InputError(rule)
        # Cell by cell: numpy would write the numbers of a mixed list as text, and look into cells that are lists.
        cells: Any = np.fromiter(chain.from_iterable(rows), dtype=np.dtype(object), count=len(rows) * d)
        table = cells.reshape(len(rows), d)
    if not isinstance(table, np.ndarray):
        try:
            table = np.array(table, dtype=object)
        except (TypeError, ValueError):
            raise InputError(f"the table must be an array of shape (n, {d}); its rows differ in length") from None
    if isinstance(table, np.ma.MaskedArray):
        raise InputError("the table is a masked array; fill it or leave the masked rows out first")
    if table.dtype.kind not in "biufOUM":
        raise InputError(f"the table must be a dataframe or an array of numbers, text, times or objects; its type is "
                         f"{table.dtype.name}")
    if table.ndim != 2 or table.shape[1] != d:
        raise InputError(f"the table must be an array of shape (n, {d}); its shape is {table.shape}")
    return table


def _cells_of_row(row: Any) -> Sequence[Any] | None:
    """Return the cells of one row of a list; None if the object is not a row."""
    if type(row) in (list, tuple):
        return row
    if isinstance(row, str | bytes | bytearray | memoryview | np.ma.MaskedArray):
        return None
    if not isinstance(row, Sequence | np.ndarray) and hasattr(row, "__array__"):
        # A series of pandas or polars, or an array of another library.
        row = np.asarray(row)
    if isinstance(row, Sequence) or (isinstance(row, np.ndarray) and row.ndim == 1):
        return tuple(row)
    return None


@contextmanager
def _no_quotes(rule: str) -> Iterator[None]:
    """Turn any error of a library, which could quote an entry, into one that states a rule alone."""
    try:
        yield
    except (TrigmechError, MemoryError, KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException:  # A panic of polars is not an Exception.
        raise InputError(rule) from None


def _swapped(series: "nw.Series") -> bool:
    """Return whether pandas holds numbers whose bytes stand in the other order, as files of some instruments have."""
    kind = series.to_native().dtype if series.implementation.is_pandas_like() else None
    return isinstance(kind, np.dtype) and kind.kind in "iuf" and not kind.isnative


def _to_floats(series: "nw.Series") -> NDArray:
    """Return a series of numbers or booleans as floats, NaN where missing."""
    if series.implementation.is_pyarrow():
        import pyarrow

        held = series.to_native()
        # Arrow's own cast makes 99.99000000000001 of the decimal 99.99, which a special value would not equal.
        if pyarrow.types.is_decimal(held.type):
            held = held.cast(pyarrow.string())
        # Unsafe only in that integers beyond 2^53 are rounded, as everywhere else.
        return of_arrow(held.cast(pyarrow.float64(), safe=False), np.nan)
    if series.implementation.is_pandas_like():
        # Not by a cast: those of types backed by Arrow refuse integers beyond 2^53.
        return series.to_native().to_numpy(dtype=np.float64, na_value=np.nan)
    return series.cast(nw.Float64).to_numpy()
