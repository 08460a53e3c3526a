"""Tables as codes: categories by their places, numbers by equal cells of their public bounds."""

from collections.abc import Iterable

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from trigmech.schema.schema import Column, Schema

Matrix = NDArray[np.float64]
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
            raise ValueError(f"column {column.name} holds what is no category of its schema")
        return places, len(column.categories) + (column.missing == "keep")
    unit = (values.to_numpy(float) - column.lower) / (column.upper - column.lower)
    cell = np.floor(np.clip(unit, 0.0, 1.0) * cells).clip(max=cells - 1)
    return np.where(np.isnan(unit), cells, cell).astype(np.int64), cells + (column.missing == "keep")


def total_variations(real: Codes, made: Codes, size: list[int], sets: Iterable[tuple[int, ...]]) -> Matrix:
    """Return the total variation distance of each contingency table of the given sets of columns."""
    def frequencies(rows: Codes, columns: tuple[int, ...]) -> Matrix:
        shape = [size[j] for j in columns]
        flat = np.ravel_multi_index(tuple(rows[:, j] for j in columns), shape)
        return np.bincount(flat, minlength=int(np.prod(shape))) / len(rows)

    return np.array([0.5 * np.abs(frequencies(real, columns) - frequencies(made, columns)).sum() for columns in sets])
