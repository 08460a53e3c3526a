"""Statistics of a table in its own units, for :meth:`trigmech.Synthesis.error_bars` and for real tables alike.

Each function returns a statistic: a function of a table's columns by name, as :meth:`trigmech.Schema.decode` and
:meth:`trigmech.Synthesis.columns` return them, to an array. Missing values have a cell of their own in frequencies, and
are left out of means and correlations. The number of an ordinal column is the place of the category, from 0.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from functools import partial
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trigmech._arrays import Array
from trigmech._validate import check_choice, check_integers, finite
from trigmech.errors import InputError, shown
from trigmech.functions.ranks import ranks
from trigmech.schema.column import Column
from trigmech.schema.encoding import categories_of, floats_of
from trigmech.schema.schema import Schema

Table = Mapping[str, NDArray]
Statistic = Callable[[Table], Array]
Correlation = Literal["pearson", "spearman"]


def marginal(schema: Schema, columns: Sequence[str], cells: int = 16) -> Statistic:
    """Return the statistic of a contingency table: relative frequencies, with an axis for each column.

    Parameters
    ----------
    schema : Schema
    columns : sequence of str
    cells : int
        Into so many equal parts of its public bounds a number is divided.

    Raises
    ------
    InputError
        If the schema has no such column, or cells is no positive integer.
    """
    chosen = [] if isinstance(columns, str | Set) or not isinstance(columns, Iterable) else [
        _column(schema, name) for name in columns]
    if not chosen:
        raise InputError(f"columns must be a non-empty list of names, not {shown(columns)}")
    check_integers(1, cells=cells)
    return partial(_frequencies, chosen, cells)


def frequencies(schema: Schema, column: str, cells: int = 16) -> Statistic:
    """Return the statistic of one column's relative frequencies; see :func:`marginal`."""
    return marginal(schema, (column,), cells)


def ranges(schema: Schema, column: str, thresholds: ArrayLike) -> Statistic:
    """Return the statistic of a column's distribution function: the part of all rows at or below each threshold.

    Parameters
    ----------
    schema : Schema
    column : str
        A column of numbers, or of dates: their thresholds are days or seconds since 1970.
    thresholds : array_like (t,)
    """
    chosen, at = _column(schema, column), finite("thresholds", thresholds, "t").astype(np.float64)
    if chosen.kind == "categorical":
        raise InputError(f"column {column!r} has categories without an order")
    return partial(_parts_below, chosen, at)


def means(schema: Schema) -> Statistic:
    """Return the statistic of the means of all columns of numbers, in the schema's order; 0 where all is missing."""
    return partial(_means, _numbers(schema))


def correlations(schema: Schema, kind: Correlation = "pearson") -> Statistic:
    """Return the statistic of the correlations of all columns of numbers, a symmetric matrix in the schema's order.

    Rows in which either value is missing are left out. If a column is constant in the rest, its correlation is 0.
    """
    check_choice("kind", kind, Correlation)
    return partial(_correlations, _numbers(schema), kind)


def _column(schema: Schema, name: str) -> Column:
    found = next((each for each in schema.columns if isinstance(name, str) and each.name == name), None)
    if found is None:
        raise InputError(f"the schema has no column {shown(name)}")
    return found


def _numbers(schema: Schema) -> list[Column]:
    return [column for column in schema.columns if column.kind != "categorical"]


def numbers_of_values(column: Column, table: Table) -> Array:
    """Return a column's values as numbers, the places of categories included; NaN where missing."""
    values = table[column.name]
    missing = np.ma.getmaskarray(values)
    values = np.ma.getdata(values)
    if column.categories is not None:
        place = {value: k for k, value in enumerate(categories_of(column).tolist())}
        made = np.array([place.get(value, 0) for value in values.tolist()], dtype=np.float64)
    else:
        made = floats_of(column, values)
    made[missing] = np.nan
    return made


def _frequencies(columns: Sequence[Column], cells: int, table: Table) -> Array:
    shape = [(cells if column.categories is None else len(column.categories)) + (column.missing == "keep")
             for column in columns]
    places = []
    for column, size in zip(columns, shape, strict=True):
        values = numbers_of_values(column, table)
        if column.categories is None:
            low, high = column.bounds
            values = np.clip(np.floor((values - low) / (high - low) * cells), 0, cells - 1)
        places.append(np.where(np.isnan(values), size - 1, values).astype(np.int64))
    flat = np.ravel_multi_index(places, shape)
    return np.bincount(flat, minlength=int(np.prod(shape))).reshape(shape) / max(len(flat), 1)


def _parts_below(column: Column, thresholds: Array, table: Table) -> Array:
    values = np.sort(numbers_of_values(column, table))
    # NaN comes last.
    return np.searchsorted(values[~np.isnan(values)], thresholds, side="right") / max(len(values), 1)


def _means(columns: Sequence[Column], table: Table) -> Array:
    kept = [values[~np.isnan(values)] for values in (numbers_of_values(column, table) for column in columns)]
    return np.array([values.mean() if len(values) else 0.0 for values in kept])


def _correlations(columns: Sequence[Column], kind: Correlation, table: Table) -> Array:
    values = np.array([numbers_of_values(column, table) for column in columns]).reshape(len(columns), -1)
    there = ~np.isnan(values)
    found = np.eye(len(columns))
    for i in range(len(columns)):
        for j in range(i):
            both = there[i] & there[j]
            first, second = values[i, both], values[j, both]
            if kind == "spearman":
                first, second = ranks(first), ranks(second)
            first, second = first - np.sum(first) / max(len(first), 1), second - np.sum(second) / max(len(second), 1)
            length = np.linalg.norm(first) * np.linalg.norm(second)
            found[i, j] = found[j, i] = first @ second / length if length > 0.0 else 0.0
    return found
