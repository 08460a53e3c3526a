"""Tables as codes: categories by their places, numbers by equal cells of their public bounds."""

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from experiments import Array
from trigmech.schema.schema import Column, Schema

Codes = NDArray[np.int64]
CELLS = 32


def codes(schema: Schema, table: pd.DataFrame, cells: int = CELLS) -> tuple[Codes, list[int]]:
    """Return the categories and cells of a table (n, d) and how many each column has; missing numbers are the last."""
    columns = [column_codes(column, table[column.name], cells) for column in schema.columns]
    return np.column_stack([coded for coded, _ in columns]), [size for _, size in columns]


def column_codes(column: Column, values: pd.Series, cells: int) -> tuple[Codes, int]:
    """Return the categories or cells of a column's values, and how many there are."""
    if column.categories is not None:
        places = pd.Index(column.categories).get_indexer(values)
        if column.missing == "keep":
            places[values.isna()] = len(column.categories)
        if (places < 0).any():
            raise ValueError(f"column {column.name} holds a value that is no category of its schema")
        return places, len(column.categories) + (column.missing == "keep")
    unit = (values.to_numpy(float) - column.lower) / (column.upper - column.lower)
    cell = np.floor(np.clip(unit, 0.0, 1.0) * cells).clip(max=cells - 1)
    return np.where(np.isnan(unit), cells, cell).astype(np.int64), cells + (column.missing == "keep")


def mixed(table: Codes, size: Sequence[int], columns: Sequence[int]) -> Codes:
    """Return each row's cell: its codes as one mixed-radix number, the last column the fastest."""
    code = np.zeros(len(table), dtype=np.int64)
    for j in columns:
        code = code * size[j] + table[:, j]
    return code


def compact(table: Codes, size: Sequence[int], weights: Any = None) -> tuple[Codes, Array]:
    """Return the different rows of a table, each column in one piece of memory, and the count or weight of each row."""
    code, cells = np.zeros(len(table), dtype=np.int64), 1
    for j, values in enumerate(size):
        if cells * values >= 2**63:
            # Too many cells for one number to each: those that are held are numbered.
            code, cells = np.unique(code, return_inverse=True)[1], len(table)
        code, cells = code * values + table[:, j], cells * values
    _, first, place = np.unique(code, return_index=True, return_inverse=True)
    return np.asfortranarray(table[first]), np.bincount(place, weights).astype(np.float64)


def total_variations(real: Codes, made: Codes, size: Sequence[int], sets: Iterable[Sequence[int]]) -> Array:
    """Return, for each of these sets of columns, the total variation between two tables' shares in its cells."""
    # Whole numbers, so that equal tables are at 0.
    parts = np.repeat([len(made), -len(real)], [len(real), len(made)])
    rows, weights = compact(np.concatenate([real, made]), size, parts)
    found = list[float]()
    for columns in sets:
        codes = mixed(rows, size, columns)
        if math.prod(size[j] for j in columns) > len(codes):
            # Only the cells that are held.
            codes = pd.factorize(codes)[0]
        found.append(float(np.abs(np.bincount(codes, weights)).sum()))
    return np.array(found) / (2.0 * len(real) * len(made))
